"""Modal data in files: NumPy archives (.npz) of plain arrays, read without pickle, and checked.

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
from linkwork.parts.checks import check_name
from linkwork.parts.names import did_you_mean, some
from linkwork.spatial.modal import ModalIntegrals

FORMAT = "linkwork modal data 1"
MODES, NODES, BYTES = 200, 10000, 256 * 2**20  # at most
NEEDED = ("format", "mass", "center", "inertia", "first", "mixed", "second", "stiffness", "points", "shapes", "slopes")
OPTIONAL = ("name", "damping", "mode_names", "node_names", "normalisation", "short_first", "short_mixed", "short", "size")


def load(path: Any, name: str | None = None) -> FlexibleBody:
    """The flexible body of a file of modal data, with its own name or another.

    Nothing in the file is executed. What is missing, of the wrong shape, or of no body that can exist, is an error that names
    the array.
    """
    where = str(path)
    arrays = _read(where)
    what = f"{where}"
    unknown = [word for word in arrays if word not in (*NEEDED, *OPTIONAL)]
    missing = [word for word in NEEDED if word not in arrays]
    if unknown:
        raise ModelError(f"{what}: there is no array {unknown[0]!r}{did_you_mean(unknown[0], (*NEEDED, *OPTIONAL))}")
    if missing:
        raise ModelError(f"{what}: it has no array {missing[0]!r}; modal data need {', '.join(NEEDED)}")
    said = _text(what, arrays, "format", "")
    if said != FORMAT:
        raise ModelError(f"{what}: its format is {said!r}, not {FORMAT!r}")
    m, n = _count(what, arrays, "first", MODES), _count(what, arrays, "points", NODES)

    def array(word: str, *shape: int) -> np.ndarray:
        return checked(f"{what}: {word}", arrays[word], shape) if word in arrays else np.zeros(shape)

    integrals = ModalIntegrals(
        array("first", m, 3), array("mixed", m, 3, 3), array("second", m, m, 3, 3), array("short_first", m, m, 3),
        array("short_mixed", m, m, 3, 3),
    )  # fmt: skip
    _check_symmetric(what, integrals, array("short", n, m, m, 3))
    check_normalised(what, _text(what, arrays, "normalisation", "none"), integrals.mass)
    nodes = Nodes(
        _texts(what, arrays, "node_names", n, "node"), array("points", n, 3), array("shapes", n, 3, m),
        array("slopes", n, 3, m), array("short", n, m, m, 3),
    )  # fmt: skip
    check_origin(what, nodes)
    called = _text(what, arrays, "name", Path(where).stem) if name is None else name
    check_name("flexible body", called)
    size = array("size", m) if "size" in arrays else nodes.sizes()
    return FlexibleBody(
        called, float(array("mass")), array("center", 3), array("inertia", 3, 3), _texts(what, arrays, "mode_names", m, "mode"),
        integrals, arrays["stiffness"], arrays.get("damping", np.zeros(m)), Placing(f"flexible body {called!r}", nodes), size,
        nodes.named(),
    )  # fmt: skip


def save(path: Any, body: FlexibleBody) -> None:
    """Write the modal data of a flexible body, with what its modes do at its named `nodes`; `load` reads it again."""
    if not isinstance(body, FlexibleBody):
        raise ModelError(f"save writes a body of linkwork.flexible, such as beam(...), not {body!r}")
    of = body.integrals
    places = {name: body.place(np.array(at)) for name, at in body.nodes.items()}
    m, n = body.modes, len(places)
    normal = np.abs(of.mass - np.eye(m)).max(initial=0.0) <= 1e-9
    arrays: dict[str, Any] = {
        "format": FORMAT, "name": body.name, "mass": body.mass, "center": body.center, "inertia": body.inertia,
        "first": of.first, "mixed": of.mixed, "second": of.second, "short_first": of.short_first, "short_mixed": of.short_mixed,
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


def _read(where: str) -> dict[str, np.ndarray]:
    """All arrays of an archive whose size is bounded before anything is unpacked."""
    try:
        with zipfile.ZipFile(where) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > BYTES:
            raise ModelError(f"{where}: its arrays have {size} bytes, more than the limit of {BYTES}")
        with np.load(where, allow_pickle=False) as data:
            return {word: data[word] for word in data.files}
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"{where}: cannot be read: {error.strerror or error}") from None
    except Exception as error:  # of zipfile, its decompressors and NumPy, whatever is wrong with the file
        raise ModelError(f"{where}: it is no NumPy archive (.npz) of plain arrays: {error}") from None


def _count(what: str, arrays: dict[str, np.ndarray], word: str, most: int) -> int:
    found = arrays[word]
    if found.ndim != 2 or found.shape[1] != 3:
        raise ModelError(f"{what}: {word} must have three columns, not shape {found.shape}")
    if len(found) > most:
        raise ModelError(f"{what}: {word} has {len(found)} rows, more than the limit of {most}")
    return len(found)


def _text(what: str, arrays: dict[str, np.ndarray], word: str, default: str) -> str:
    if word not in arrays:
        return default
    if arrays[word].shape != () or arrays[word].dtype.kind != "U":
        raise ModelError(f"{what}: {word} must be one text")
    return str(arrays[word])


def _texts(what: str, arrays: dict[str, np.ndarray], word: str, n: int, default: str) -> tuple[str, ...]:
    if word not in arrays:
        return tuple(f"{default}{k + 1}" for k in range(n))
    found = arrays[word]
    names = tuple(map(str, found.ravel()))
    if found.shape != (n,) or (n and found.dtype.kind != "U") or len(set(names)) < n:
        raise ModelError(f"{what}: {word} must be {n} different texts, not {some(names)}")
    return names


def _check_symmetric(what: str, of: ModalIntegrals, short: np.ndarray) -> None:
    for word, x in (("short_first", of.short_first[None]), ("short_mixed", of.short_mixed[None]), ("short", short)):
        if x.size and np.abs(x - x.swapaxes(1, 2)).max() > 1e-9 * np.abs(x).max():
            raise ModelError(f"{what}: {word} must be symmetric in its two modes")
