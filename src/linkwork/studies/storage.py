"""Folders of studies: a manifest, and one Parquet file for each chunk, which appears whole or not at all.

    _manifest.json               what the study is: digests of its parts, version, seed, sampler, function
    _study.pickle                the study itself, where it can be pickled
    chunk-000000000000000.parquet  rows of the chunk that begins with this sample, and its summaries in the
    footer _lock                        locked by the process that writes

A file is written under a temporary name, synchronised to the disk and renamed. Only the process that drives a
study writes, so a chunk has one file however often it was computed. Checksums cover rows and summaries.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import pickle
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.errors import StudyError
from linkwork.studies.encoding import Nodes, decode_nodes, encode_nodes
from linkwork.studies.packages import import_optional
from linkwork.version import __version__

if TYPE_CHECKING:
    from linkwork.studies.chunks import Rows
    from linkwork.studies.study import Study

FORMAT = 1
# readers of Parquet skip names with "_"
MANIFEST = "_manifest.json"
PICKLE = "_study.pickle"
LOCK = "_lock"
SEPARATE_COLUMNS = 64  # components of a value that become columns; more become a list
_CHUNK_NAME = re.compile(r"chunk-(\d{15})\.parquet")
_KEY = b"linkwork.chunk"
_SUMMARIES = b"linkwork.summaries"


def chunk_name(first: int) -> str:
    """Return the name of the file of the chunk that begins with a sample."""
    return f"chunk-{first:015d}.parquet"


class StudyFolder:
    """A folder that one process writes a study into."""

    def __init__(self, path: Path, study: Study, checksum: str) -> None:
        self.path = path
        self.study = study
        self._checksum = checksum

    @classmethod
    def create(cls, path: Path, study: Study) -> StudyFolder:
        """Write the manifest of a new study."""
        _pyarrow()
        if path.is_file():
            raise StudyError(f"study: folder {path}: expected a folder, found a file")
        if (path / MANIFEST).exists():
            raise StudyError(
                f"study: folder {path} holds a study already: continue it with lw.Study.resume(folder)"
            )
        if path.exists() and any(each.name != LOCK for each in path.iterdir()):
            raise StudyError(f"study: folder {path}: expected a new or an empty folder")
        _ = study.summaries  # what is wrong with the study is said before anything is written
        path.mkdir(parents=True, exist_ok=True)
        pickled = pickled_study(study, required=False)
        if pickled is not None:
            write_atomically(path / PICKLE, pickled)
        manifest = describe_study(study)
        manifest["pickle"] = None if pickled is None else hashlib.sha256(pickled).hexdigest()
        write_atomically(path / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
        return cls(path, study, study.digest)

    @classmethod
    def open(cls, path: Path, study: Study | None) -> StudyFolder:
        """Open the folder of an interrupted study; StudyError if it is another one's."""
        _pyarrow()
        manifest = read_manifest(path)
        result = load_study(path) if study is None else study
        check_manifest(path, manifest, result)
        return cls(path, result, result.digest)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing; the lock ends with this process, however that ends."""
        with open(self.path / LOCK, "ab") as file:
            try:
                _lock(file)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
                raise StudyError(f"study: folder {self.path}: another process works on it") from None
            yield

    def finished(self, *, repair: bool = True) -> Iterator[tuple[tuple[int, int], Nodes]]:
        """Yield the chunks whose files are whole, with their summaries.

        `repair`: temporary and damaged files are removed, so that their chunks are computed again.
        """
        chunks = dict(self.study.chunks())
        for path in sorted(self.path.iterdir()):
            if path.name.endswith(".tmp"):
                if repair:
                    path.unlink()
                continue
            match = _CHUNK_NAME.fullmatch(path.name)
            if match is None:
                continue
            first = int(match[1])
            if first not in chunks:
                raise StudyError(f"study: {path}: the study has no chunk that begins with sample {first}")
            try:
                nodes = read_chunk(path, self._checksum, first, chunks[first])
            except _Damaged as error:
                what = "computed again" if repair else "left out"
                warnings.warn(f"study: {path}: {error}; the chunk is {what}", UserWarning, stacklevel=2)
                if repair:
                    path.unlink()
                continue
            yield (first, chunks[first]), nodes

    def write(self, first: int, data: bytes) -> None:
        """Write the file of a chunk."""
        write_atomically(self.path / chunk_name(first), data)


class _Damaged(Exception):
    """A file whose contents are not those that were written."""


def _pyarrow() -> Any:
    return import_optional("pyarrow.parquet", "a study with a folder")


def _lock(file: Any) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all, and lasts."""
    temporary = path.with_name(f"_{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        if os.name != "nt":
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        reason = (
            "the disk is full"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else error.strerror or str(error)
        )
        raise StudyError(
            f"study: cannot write {path}: {reason}; files written before are valid, continue with lw.Study.resume(folder)"
        ) from error


# the manifest


def describe_study(study: Study) -> dict[str, Any]:
    """Return the manifest of a study."""
    return {
        "format": FORMAT,
        "linkwork": __version__,
        "study": study.name,
        "digest": study.digest,
        "parts": study.parts,
        "models": [{"name": each.name, "digest": each.digest} for each in study.models],
        "sampler": {"kind": type(study.sampler).__name__, "quantities": list(study.sampler.names)},
        "function": _task_name(study.task),
        "outputs": {name: list(study.output_shape(name)) for name in study.output_names},
        "reductions": list(study.reductions),
        "seed": study.seed,
        "samples": study.samples,
        "chunk": study.chunk,
        "rows": study.rows,
    }


def _task_name(task: Any) -> str:
    function = getattr(task, "function", None)
    return f"{type(task).__name__}({function.__name__})" if function is not None else type(task).__name__


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a folder, or raise."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(manifest, dict) or not {"format", "digest", "parts", "linkwork"} <= set(manifest):
            raise ValueError
    except FileNotFoundError:
        raise StudyError(f"study: folder {path} holds no study: {MANIFEST} not found") from None
    except (ValueError, UnicodeDecodeError):
        raise StudyError(f"study: {path / MANIFEST} is damaged") from None
    if manifest["format"] != FORMAT:
        raise StudyError(f"study: folder {path}: expected format {FORMAT}, got {manifest['format']}")
    return manifest


def check_manifest(path: Path, manifest: dict[str, Any], study: Study) -> None:
    """Raise StudyError if a folder belongs to another study, naming what differs."""
    if manifest["linkwork"] != __version__:
        raise StudyError(
            f"study: folder {path} was written by linkwork {manifest['linkwork']}, this is {__version__}: bits may differ"
        )
    if manifest["digest"] == study.digest:
        return
    different = [name for name, digest in study.parts.items() if manifest["parts"].get(name) != digest]
    raise StudyError(
        f"study: folder {path} belongs to another study: {', '.join(different) or 'its format'} differ"
    )


def pickled_study(study: Study, *, required: bool) -> bytes | None:
    """Return a study as bytes, by cloudpickle where it is installed; None, or StudyError, if it cannot be
    pickled.
    """
    try:
        import cloudpickle as pickler
    except ModuleNotFoundError:
        pickler = pickle
    try:
        data: bytes = pickler.dumps(study, protocol=5)
        return data
    except Exception as error:
        if not required:
            return None
        hint = (
            ""
            if pickler is not pickle
            else "; pip install 'linkwork[study]' for functions defined in scripts"
        )
        raise StudyError(
            f"study: cannot be sent to other processes ({type(error).__name__}: {error}): expected functions that can be "
            f"pickled{hint}"
        ) from None


def load_study(path: Path) -> Study:
    """Return the study that was pickled into a folder of this user."""
    manifest = read_manifest(path)
    file = path / PICKLE
    if manifest.get("pickle") is None or not file.exists():
        raise StudyError(f"study: folder {path} has no stored study: give it, lw.Study.resume(folder, study)")
    if hasattr(os, "getuid") and file.stat().st_uid != os.getuid():
        raise StudyError(
            f"study: {file} belongs to another user: give the study, lw.Study.resume(folder, study)"
        )
    data = file.read_bytes()
    if hashlib.sha256(data).hexdigest() != manifest["pickle"]:
        raise StudyError(f"study: {file} is damaged: give the study, lw.Study.resume(folder, study)")
    try:
        result: Study = pickle.loads(data)
    except Exception as error:
        raise StudyError(
            f"study: {file} cannot be read here ({type(error).__name__}: {error}): give the study, "
            "lw.Study.resume(folder, study)"
        ) from None
    return result


# chunk files


def chunk_bytes(study: Study, rows: Rows, nodes: Nodes) -> bytes:
    """Return the Parquet file of a chunk."""
    import pyarrow as pa

    parquet = _pyarrow()
    names, arrays = _columns(study, rows)
    first = int(rows.index[0])
    last = int(rows.index[-1]) + 1
    summaries = base64.b64encode(encode_nodes(nodes))
    key = {
        "study": study.digest,
        "first": first,
        "last": last,
        "checksum": _checksum(names, arrays, summaries),
    }
    fields = [_as_column(pa, x) for x in arrays]
    table = pa.table(fields, names=names)
    sink = pa.BufferOutputStream()
    how = {"compression": "none", "use_dictionary": False, "store_schema": False, "write_statistics": False}
    with parquet.ParquetWriter(sink, table.schema, **how) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_KEY: json.dumps(key), _SUMMARIES: summaries})
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _columns(study: Study, rows: Rows) -> tuple[list[str], list[np.ndarray]]:
    """Return names and arrays of the columns, of the rows that the study keeps."""
    retained: Any = slice(None)
    if study.rows == "none":
        retained = slice(0, 0)
    elif study.rows == "failed":
        retained = ~np.isin(rows.status, study.accepted)
    columns: dict[str, np.ndarray] = {"index": rows.index, "status": rows.status.astype(np.int32)}
    columns["steps"] = rows.steps.astype(np.int64)
    if len(study.models) > 1:
        columns["model"] = rows.model.astype(np.int32)
    values = (
        {} if study.rows == "outputs" else {name: x for name, x in rows.values.items() if name != "model"}
    )
    for name, x in {**values, **{name: x for name, x in rows.outputs.items() if name not in values}}.items():
        flat = x.reshape(len(x), -1)
        if x.ndim == 1:
            columns[name] = x
        elif flat.shape[1] <= SEPARATE_COLUMNS:
            columns |= {f"{name}[{k}]": flat[:, k] for k in range(flat.shape[1])}
        else:
            columns[name] = flat
    return list(columns), [np.ascontiguousarray(x[retained]) for x in columns.values()]


def _as_column(pa: Any, x: np.ndarray) -> Any:
    if x.ndim == 1:
        return pa.array(x)
    return pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])


def _checksum(names: list[str], arrays: list[np.ndarray], summaries: bytes) -> str:
    """Return the SHA-256 of columns and summaries."""
    result = hashlib.sha256(json.dumps(names).encode())
    for x in arrays:
        result.update(f"{x.dtype.str}{x.shape}".encode())
        result.update(np.ascontiguousarray(x).data)
    result.update(summaries)
    return result.hexdigest()


def read_chunk(path: Path, study_digest: str, first: int, last: int) -> Nodes:
    """Return the summaries of a chunk's file; `_Damaged` if it is not as written, StudyError if another
    study's.
    """
    names, arrays, metadata = read_columns(path)
    try:
        key = json.loads(metadata[_KEY])
        summaries = metadata[_SUMMARIES]
        if _checksum(names, arrays, summaries) != key["checksum"]:
            raise _Damaged("the checksum differs")
        if key["study"] != study_digest:
            raise StudyError(f"study: {path} belongs to another study")
        if (key["first"], key["last"]) != (first, last):
            raise _Damaged("it has other samples than its name says")
        return decode_nodes(base64.b64decode(summaries))
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, StudyError):
            raise
        raise _Damaged("its footer is damaged") from None


def read_columns(path: Path) -> tuple[list[str], list[np.ndarray], dict[bytes, bytes]]:
    """Return names and arrays of a file's columns, and its metadata."""
    parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read(use_threads=False)
            metadata = dict(file.metadata.metadata or {})
        arrays = []
        for column in table.columns:
            x = column.combine_chunks()
            if hasattr(x.type, "list_size"):
                arrays.append(x.flatten().to_numpy(zero_copy_only=False).reshape(-1, x.type.list_size))
            elif hasattr(x.type, "value_type"):
                arrays.append(_lists(x))
            else:
                arrays.append(x.to_numpy(zero_copy_only=False))
        return list(table.column_names), arrays, metadata
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        raise _Damaged(f"it cannot be read ({type(error).__name__})") from None


def _lists(x: Any) -> np.ndarray:
    """Return a column of lists of one length as rows; Parquet does not keep that length."""
    flat: np.ndarray = x.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(x), -1)
