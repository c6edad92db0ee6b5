"""The on-disk kernel cache: one file of machine code per kernel, checked in full before any of it is used.

An entry is code: loading an altered one would run it. Against other users, the folder and every entry must belong to
the user and be writable by nobody else (POSIX; on Windows that is left to the system). Against accidents (cut short,
altered, renamed), a digest covers the key and the whole file; it is no signature: who can write as the user can already
run code as the user. The file `<key>.kernel`, numbers little-endian:

    16 bytes  magic, b"linkwork kernel\\n"
    4, 4, 8   format version, length of the header, length of the blob
              header (a JSON object in ASCII), then blob
    32 bytes  SHA-256 over the key (64 ASCII characters), then all bytes of the file before the digest

It is written as `<key>.<random>.tmp` beside its final name and then renamed, so an entry is whole or absent; what a
killed writer leaves has the wrong name to be read and goes after an hour. No failure here breaks a computation: a bad
entry counts as absent, a failed store returns False, and `Cache.notes` says why.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from linkwork.errors import CacheError

MAGIC, FORMAT = b"linkwork kernel\n", 1
LIMIT_BYTES = 512 << 20
STALE_SECONDS = 3600.0  # a temporary file this old has no living writer
REFRESH_SECONDS = 86400.0  # a load marks its entry as used at most this often

_PREFIX = struct.Struct("<16sIIQ")
_DIGEST_BYTES = 32
_NAME = re.compile(r"([0-9a-f]{64})\.(kernel|[0-9a-f]{16}\.tmp)")  # no other file is ever read, counted or removed
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # follow no link, wait on no pipe


class Entry(NamedTuple):
    """What the cache holds under one key."""

    header: dict[str, Any]
    blob: bytes


class Listed(NamedTuple):
    """One file of the cache; `used` is about when it was last stored or loaded (Unix seconds)."""

    key: str
    path: Path
    size: int
    used: float
    header: dict[str, Any] | None = None  # None while the file is not checked


class _BadFileError(OSError):
    """A file that must never be used, unlike one that only could not be read now."""


def make_key(*parts: str | bytes) -> str:
    """Return the cache key of these parts: SHA-256 over each part with its length before it, in hex."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(data)) + data)  # lengths keep ("ab", "c") apart from ("a", "bc")
    return digest.hexdigest()


def default_folder() -> Path:
    """Return the folder for caches on this system; RuntimeError where the user has no home folder."""
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/linkwork"
    variable, inside_home = ("LOCALAPPDATA", "AppData/Local") if os.name == "nt" else ("XDG_CACHE_HOME", ".cache")
    base = os.environ.get(variable, "")
    return (Path(base) if os.path.isabs(base) else Path.home() / inside_home) / "linkwork"  # XDG: absolute or ignored


class Cache:
    """A folder of kernels, shared by any number of threads and processes; made on the first store. No folder: off."""

    def __init__(self, folder: str | Path | None, *, read_only: bool = False, limit_bytes: int = LIMIT_BYTES) -> None:
        # Links are followed once, here: nobody can later turn one of them to another folder.
        self.folder = None if folder is None else Path(os.path.realpath(folder))
        self.limit_bytes = limit_bytes
        self.disabled_reason = "no folder was given" if folder is None else None
        self._lock = threading.Lock()  # over the notes; all else is set once or lies on the disk
        self._notes: deque[str] = deque(maxlen=50)
        self.read_only = (self._usable() and not os.access(str(self.folder), os.W_OK)) or read_only

    @classmethod
    def default(cls) -> Cache:
        """Return the cache that LINKWORK_CACHE asks for: a folder, 'ro:' and a folder, or 'off'; never raises."""
        text = os.environ.get("LINKWORK_CACHE")
        wanted = (text or "").removeprefix("ro:")
        try:
            if text is not None and text.strip().lower() in ("", "0", "off"):
                raise RuntimeError(f"LINKWORK_CACHE is {text!r}")
            return cls(Path(wanted).expanduser() if wanted else default_folder(), read_only=wanted != (text or ""))
        except (OSError, RuntimeError) as reason:  # also: no home folder, or the working folder is gone
            cache = cls(None)
            cache.disabled_reason = str(reason)
            return cache

    @property
    def notes(self) -> list[str]:
        """The last sentences on what was not used or not stored by this object, and why; oldest first."""
        with self._lock:
            return list(self._notes)

    def load(self, key: str) -> Entry | None:
        """Return the entry of this key, or None; a file that fails a check is removed."""
        name = _entry_name(key)
        if self.folder is None or not self._usable():
            return None
        path = self.folder / name
        try:
            return self._read(path, key, refresh=not self.read_only)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                removed = isinstance(error, _BadFileError) and not self.read_only and self._remove(path)
                self._note(f"The file {path} was {'removed' if removed else 'left unused'}: {error}.")
            return None

    def store(self, key: str, header: dict[str, Any], blob: bytes) -> bool:
        """Store an entry (a header of plain JSON values); False, with a note, where that could not be done."""
        name = _entry_name(key)
        if self.folder is None or self.disabled_reason is not None:
            return False
        try:
            if self.read_only:
                raise PermissionError("the cache is read-only")
            text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode("ascii")
            body = b"".join((_PREFIX.pack(MAGIC, FORMAT, len(text), len(blob)), text, blob))
            if len(body) + _DIGEST_BYTES > self.limit_bytes:
                raise ValueError(f"its {len(blob)} bytes are over the limit of the cache")
            os.makedirs(self.folder, 0o700, exist_ok=True)
            if not self._usable():
                return False
            temp = self.folder / f"{key}.{os.urandom(8).hex()}.tmp"
            try:
                with open(temp, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                    file.write(body + hashlib.sha256(key.encode("ascii") + body).digest())
                os.replace(temp, self.folder / name)
            except BaseException:  # a Ctrl-C too must leave no temporary file
                self._remove(temp)
                raise
        except (OSError, TypeError, ValueError) as error:
            self._note(f"A kernel was not stored in {self.folder}: {error}.")
            return False
        self._tidy(keep=key)
        return True

    def entries(self) -> list[Listed]:
        """List the good entries, last used first; every file is checked, bad ones are noted and left."""
        return self._check(self._note)[::-1]

    def verify(self) -> list[str]:
        """Check every entry in full; return one sentence per problem. Nothing is removed."""
        problems: list[str] = []
        self._check(problems.append)
        if self.folder is not None and self.disabled_reason is not None:
            problems.append(f"The cache is off: {self.disabled_reason}.")
        return problems

    def clear(self) -> int:
        """Remove all entries and temporary files, and nothing else; return how many files went."""
        if self.folder is not None and (self.disabled_reason is not None or self.read_only):
            raise CacheError(f"The cache {self.folder} was not cleared: {self.disabled_reason or 'it is read-only'}.")
        return sum(self._remove(file.path) for file in self._scan(".kernel") + self._scan(".tmp"))

    def size(self) -> int:
        """Return the bytes of all entries together."""
        return sum(file.size for file in self._scan(".kernel"))

    def _note(self, sentence: str) -> None:
        with self._lock:
            if sentence in self._notes:  # what repeats must not push out the rest
                self._notes.remove(sentence)
            self._notes.append(sentence)

    def _usable(self) -> bool:
        """Check the folder anew (one stat: its rights may have changed); a refused folder turns this cache off."""
        if self.folder is None or self.disabled_reason is not None:
            return False
        try:
            info = os.stat(self.folder)
            problem = _foreign(info) if stat.S_ISDIR(info.st_mode) else "it is not a folder"
        except FileNotFoundError:
            return False  # not made yet: nothing in it, and nothing wrong
        except OSError as error:
            problem = str(error)
        if problem is None:
            return True
        self.disabled_reason = f"the folder {self.folder} is refused: {problem}"
        self._note(f"The cache is off: {self.disabled_reason}.")
        return False

    def _read(self, path: Path, key: str, refresh: bool = False) -> Entry:
        """Return an entry after all checks; else FileNotFoundError, _BadFileError or what the system says."""
        if path.is_symlink():  # for the sentence, and for Windows: O_NOFOLLOW already guards the rest
            raise _BadFileError("it is a symbolic link")
        with open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | _SAFE)) as file:
            info = os.fstat(file.fileno())
            if problem := _foreign(info) if stat.S_ISREG(info.st_mode) else "it is not a regular file":
                raise _BadFileError(problem)
            entry = _parse(key, file.readall())
            if refresh and abs(time.time() - info.st_mtime) > REFRESH_SECONDS:
                with contextlib.suppress(OSError):
                    os.utime(file.fileno() if os.utime in os.supports_fd else path)
        return entry

    def _check(self, report: Callable[[str], None]) -> list[Listed]:
        """Read every entry; return the good ones, and report a sentence on each bad one."""
        good = []
        for file in self._scan(".kernel"):
            try:
                good.append(file._replace(header=self._read(file.path, file.key).header))
            except OSError as error:
                if not isinstance(error, FileNotFoundError):  # else another process removed it just now
                    report(f"The file {file.path} is bad: {error}.")
        return good

    def _scan(self, kind: str) -> list[Listed]:
        """List the files of one kind (".kernel" or ".tmp") by their names alone, least recently used first."""
        files = []
        try:
            for name in os.listdir(self.folder) if self._usable() else ():
                if name.endswith(kind) and (match := _NAME.fullmatch(name)):
                    with contextlib.suppress(FileNotFoundError):  # as in _check
                        path = Path(str(self.folder), name)
                        info = path.lstat()
                        files.append(Listed(match[1], path, info.st_size, info.st_mtime))
        except OSError as error:
            self._note(f"The folder {self.folder} could not be listed: {error}.")
        return sorted(files, key=lambda file: file.used)

    def _tidy(self, keep: str) -> None:
        """Remove stale temporary files and, over the limit, the entries least recently used, but never `keep`."""
        for file in self._scan(".tmp"):
            if time.time() - file.used > STALE_SECONDS:
                self._remove(file.path)
        entries = self._scan(".kernel")
        excess = sum(file.size for file in entries) - self.limit_bytes
        for file in entries:
            if excess > 0 and file.key != keep:
                self._remove(file.path)
                excess -= file.size

    def _remove(self, path: Path) -> bool:
        try:
            path.unlink(missing_ok=True)
            return True
        except OSError as error:
            self._note(f"The file {path} could not be removed: {error}.")
            return False


def _entry_name(key: str) -> str:
    name = f"{key}.kernel"
    if _NAME.fullmatch(name) is None:  # also keeps every path inside the folder
        raise CacheError(f"A cache key is 64 lower-case hex digits, as make_key returns; not {key!r}.")
    return name


def _parse(key: str, data: bytes) -> Entry:
    """Check a whole file and take it apart; only magic and format are looked at before the digest agrees."""
    if len(data) < _PREFIX.size + _DIGEST_BYTES:
        raise _BadFileError("it is cut short")
    magic, version, header_size, blob_size = _PREFIX.unpack_from(data)
    if (magic, version) != (MAGIC, FORMAT):
        raise _BadFileError("it is no kernel file" if magic != MAGIC else f"it has format {version}, not {FORMAT}")
    digest = hashlib.sha256(key.encode("ascii"))
    digest.update(memoryview(data)[:-_DIGEST_BYTES])  # a view: a copy would cost as much as the hash
    if digest.digest() != data[-_DIGEST_BYTES:]:
        raise _BadFileError("it is cut short, altered or another key's (its digest does not match)")
    middle = _PREFIX.size + header_size
    header = None
    with contextlib.suppress(ValueError):
        header = json.loads(data[_PREFIX.size : middle])
    if not isinstance(header, dict) or middle + blob_size + _DIGEST_BYTES != len(data):
        raise _BadFileError("it has a header or lengths that make no sense")
    return Entry(header, data[middle : middle + blob_size])


def _foreign(info: os.stat_result) -> str | None:
    """Say how someone else could have written this file or folder; None where nobody could."""
    if os.name == "posix" and info.st_uid != os.geteuid():
        return f"it belongs to another user (uid {info.st_uid})"
    writable = os.name == "posix" and info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return f"it is writable by group or others (mode {stat.S_IMODE(info.st_mode):04o})" if writable else None
