"""Folders of studies: a manifest, and one Parquet file for each chunk, which appears whole or not at all.

    _manifest.json               what the study is: digests of its parts, version, seed, sampler, function
    _study.pickle                the study itself, where it can be pickled
    chunk-000000000000000.parquet  rows of the chunk that begins with this sample; summaries in its footer
    _lock                        locked by the process that writes

A file is written under a temporary name, synchronised to the disk and renamed. Only the process that drives a
study writes, so a chunk has one file however often it was computed. Checksums cover rows and summaries.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkwork.errors import StudyError
from linkwork.studies.chunk_files import DamagedFile, import_parquet, read_chunk
from linkwork.studies.encoding import Nodes
from linkwork.version import __version__

if TYPE_CHECKING:
    from linkwork.studies.study import Study

FORMAT = 1
# readers of Parquet skip names with "_"
MANIFEST = "_manifest.json"
PICKLE = "_study.pickle"
LOCK = "_lock"
_CHUNK_NAME = re.compile(r"chunk-(\d{15})\.parquet")


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
        import_parquet()
        if path.is_file():
            raise StudyError(f"study: folder {path}: expected a folder, found a file")
        if (path / MANIFEST).exists():
            raise StudyError(
                f"study: folder {path} holds a study already: continue it with lw.Study.resume(folder)"
            )
        if path.exists() and any(each.name != LOCK for each in path.iterdir()):
            raise StudyError(f"study: folder {path}: expected a new or an empty folder")
        _ = study.digest  # before anything runs that may change what functions use
        _ = study.summaries  # an invalid study raises before anything is written
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StudyError(f"study: cannot make folder {path}: {error.strerror or error}") from None
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
        import_parquet()
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
                raise StudyError(f"study: {path}: the study has no chunk that starts with sample {first}")
            try:
                nodes = read_chunk(path, self._checksum, first, chunks[first])
            except DamagedFile as error:
                action = "computed again" if repair else "left out"
                warnings.warn(f"study: {path}: {error}; the chunk is {action}", UserWarning, stacklevel=2)
                if repair:
                    path.unlink()
                continue
            yield (first, chunks[first]), nodes

    def write(self, first: int, data: bytes) -> None:
        """Write the file of a chunk."""
        write_atomically(self.path / chunk_name(first), data)


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
        hint = "; files written before are valid, continue with lw.Study.resume(folder)"
        has_begun = (path.parent / MANIFEST).exists()
        raise StudyError(f"study: cannot write {path}: {reason}{hint if has_begun else ''}") from error


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
        if not path.exists():
            raise StudyError(f"study: {path}: folder not found") from None
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
            f"study: folder {path} was written by linkwork {manifest['linkwork']}, this is {__version__}: "
            "bits may differ"
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
        import cloudpickle
    except ModuleNotFoundError:
        dumps, hint = _dumps, "; pip install 'linkwork[study]' for functions defined in scripts"
    else:
        dumps, hint = cloudpickle.dumps, ""
    try:
        data: bytes = dumps(study, protocol=5)
        return data
    except Exception as error:
        if not required:
            return None
        raise StudyError(
            f"study: cannot be sent to other processes ({type(error).__name__}: {error}): expected functions "
            f"that can be pickled{hint}"
        ) from None


class _Pickler(pickle.Pickler):
    """A pickler that refuses functions and classes of scripts, which other processes cannot import."""

    def reducer_override(self, obj: Any) -> Any:
        if getattr(obj, "__module__", None) == "__main__":
            raise pickle.PicklingError(f"{getattr(obj, '__qualname__', obj)!r} is defined in a script")
        return NotImplemented


def _dumps(value: Any, protocol: int) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, protocol).dump(value)
    return stream.getvalue()


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
