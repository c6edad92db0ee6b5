"""Modal data in NumPy archives (.npz) of plain arrays, read without pickle and checked.

docs/flexible.md lists the arrays.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.body import FlexibleBody, checked
from linkwork.flexible.nodal import Nodes, Placing, check_normalised, check_origin
from linkwork.mechanism.checks import check_name
from linkwork.mechanism.names import did_you_mean, join_names
from linkwork.spatial.modal import ModalIntegrals

FORMAT = "linkwork modal data 1"
MAX_MODES = 200
MAX_NODES = 10000
MAX_BYTES = 256 * 2**20
REQUIRED = (
    "format",
    "mass",
    "center",
    "inertia",
    "first",
    "mixed",
    "second",
    "stiffness",
    "points",
    "shapes",
    "slopes",
)
OPTIONAL = (
    "name",
    "damping",
    "mode_names",
    "node_names",
    "normalisation",
    "short_first",
    "short_mixed",
    "short",
    "size",
)


def load(path: Any, name: str | None = None) -> FlexibleBody:
    """Return the flexible body of a modal data file, by default with the name in the file.

    Nothing in the file is executed. Missing, misshapen or inconsistent arrays raise a ModelError that names
    them.
    """
    file = str(path)
    arrays = _read(file)
    label = file
    unknown = [key for key in arrays if key not in (*REQUIRED, *OPTIONAL)]
    missing = [key for key in REQUIRED if key not in arrays]
    if unknown:
        raise ModelError(
            f"{label}: unknown array {unknown[0]!r}{did_you_mean(unknown[0], (*REQUIRED, *OPTIONAL))}"
        )
    if missing:
        raise ModelError(f"{label}: missing array {missing[0]!r}; required are {', '.join(REQUIRED)}")
    format_ = _text(label, arrays, "format", "")
    if format_ != FORMAT:
        raise ModelError(f"{label}: format: expected {FORMAT!r}, got {format_!r}")
    m = _count(label, arrays, "first", MAX_MODES)
    n = _count(label, arrays, "points", MAX_NODES)

    def array(key: str, *shape: int) -> np.ndarray:
        return checked(f"{label}: {key}", arrays[key], shape) if key in arrays else np.zeros(shape)

    integrals = ModalIntegrals(
        array("first", m, 3), array("mixed", m, 3, 3), array("second", m, m, 3, 3),
        array("short_first", m, m, 3),
        array("short_mixed", m, m, 3, 3),
    )  # fmt: skip
    _check_symmetric(label, integrals, array("short", n, m, m, 3))
    check_normalised(label, _text(label, arrays, "normalisation", "none"), integrals.mass)
    nodes = Nodes(
        _texts(label, arrays, "node_names", n, "node"), array("points", n, 3), array("shapes", n, 3, m),
        array("slopes", n, 3, m), array("short", n, m, m, 3),
    )  # fmt: skip
    check_origin(label, nodes)
    body_name = _text(label, arrays, "name", Path(file).stem) if name is None else name
    check_name("flexible body", body_name)
    size = array("size", m) if "size" in arrays else nodes.sizes()
    return FlexibleBody(
        body_name, float(array("mass")), array("center", 3), array("inertia", 3, 3),
        _texts(label, arrays, "mode_names", m, "mode"),
        integrals, arrays["stiffness"], arrays.get("damping", np.zeros(m)),
        Placing(f"flexible body {body_name!r}", nodes), size,
        nodes.named(),
    )  # fmt: skip


def save(path: Any, body: FlexibleBody) -> None:
    """Write the modal data of a flexible body, with displacements of its named `nodes`; see `load`."""
    if not isinstance(body, FlexibleBody):
        raise ModelError(f"body: expected a FlexibleBody such as beam(...), got {body!r}")
    integrals = body.integrals
    places = {name: body.place(np.array(at)) for name, at in body.nodes.items()}
    m = body.modes
    n = len(places)
    normal = np.abs(integrals.mass - np.eye(m)).max(initial=0.0) <= 1e-9
    arrays: dict[str, Any] = {
        "format": FORMAT, "name": body.name, "mass": body.mass, "center": body.center,
        "inertia": body.inertia,
        "first": integrals.first, "mixed": integrals.mixed, "second": integrals.second,
        "short_first": integrals.short_first, "short_mixed": integrals.short_mixed,
        "stiffness": body.stiffness, "damping": body.damping, "size": body.size,
        "normalisation": "mass" if normal else "none", "mode_names": np.array(body.mode_names),
        "node_names": np.array(list(places)), "points": np.array(list(body.nodes.values())).reshape(n, 3),
        "shapes": np.array([place.shape for place in places.values()]).reshape(n, 3, m),
        "slopes": np.array([place.slope for place in places.values()]).reshape(n, 3, m),
        "short": np.array([place.short for place in places.values()]).reshape(n, m, m, 3),
    }  # fmt: skip
    try:
        np.savez(path, **arrays)
    except (OSError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from None


def _read(file: str) -> dict[str, np.ndarray]:
    """Return all arrays of an archive, whose size is bounded before it is unpacked."""
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > MAX_BYTES:
            raise ModelError(f"{file}: arrays of {size} bytes exceed the limit of {MAX_BYTES}")
        with np.load(file, allow_pickle=False) as data:
            return {name: data[name] for name in data.files}
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"{file}: cannot be read: {error.strerror or error}") from None
    except Exception as error:  # zipfile, its decompressors and NumPy raise many types
        raise ModelError(f"{file}: expected a NumPy archive (.npz) of plain arrays: {error}") from None


def _count(label: str, arrays: dict[str, np.ndarray], word: str, max_rows: int) -> int:
    array = arrays[word]
    if array.ndim != 2 or array.shape[1] != 3:
        raise ModelError(f"{label}: {word}: expected shape (n, 3), got {array.shape}")
    if len(array) > max_rows:
        raise ModelError(f"{label}: {word}: expected at most {max_rows} rows, got {len(array)}")
    return len(array)


def _text(label: str, arrays: dict[str, np.ndarray], word: str, default: str) -> str:
    if word not in arrays:
        return default
    if arrays[word].shape != () or arrays[word].dtype.kind != "U":
        raise ModelError(f"{label}: {word}: expected one string")
    return str(arrays[word])


def _texts(label: str, arrays: dict[str, np.ndarray], word: str, n: int, default: str) -> tuple[str, ...]:
    if word not in arrays:
        return tuple(f"{default}{k + 1}" for k in range(n))
    array = arrays[word]
    names = tuple(map(str, array.ravel()))
    if array.shape != (n,) or (n and array.dtype.kind != "U") or len(set(names)) < n:
        raise ModelError(f"{label}: {word}: expected {n} distinct strings, got {join_names(names)}")
    return names


def _check_symmetric(label: str, of: ModalIntegrals, short: np.ndarray) -> None:
    for word, x in (
        ("short_first", of.short_first[None]),
        ("short_mixed", of.short_mixed[None]),
        ("short", short),
    ):
        if x.size and np.abs(x - x.swapaxes(1, 2)).max() > 1e-9 * np.abs(x).max():
            raise ModelError(f"{label}: {word}: expected symmetry in its two modes")
