"""The on-disk kernel cache: one file of machine code per kernel, checked in full before any of it is used.

An entry is code: loading an altered one would run it. Against other users, the folder and every entry must belong to
the user and be writable by nobody else (POSIX; on Windows that is left to the system); a cache that is only read may also
belong to root, or to users that the caller trusts. Against accidents (cut short,
altered, renamed), a digest covers the key and the whole file; it is no signature: who can write as the user can already
run code as the user. The file `<key>.kernel`, numbers little-endian:

    16 bytes  magic, b"linkwork kernel\\n"
    4, 4, 8   format version, length of the header, length of the blob
              header (a JSON object in ASCII), then blob
    32 bytes  SHA-256 over the key (64 ASCII characters), then all bytes of the file before the digest

It is written as `<key>.<random>.tmp` beside its final name and then renamed, so an entry is whole or absent. The writer
holds a lock on it meanwhile: what a killed one leaves has the wrong name to be read, counts toward the limit, and goes with
the next store. No failure here breaks a computation: a bad entry counts as absent, a failed store returns False, and
`Cache.notes` says why.
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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from linkwork.errors import CacheError

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is being written
    fcntl = None  # type: ignore[assignment]

MAGIC, FORMAT = b"linkwork kernel\n", 1
LIMIT_BYTES = 512 << 20
LOCKED_SECONDS = 10.0  # by this age, a temporary file whose writer lives is locked
STALE_SECONDS = 600.0  # a temporary file this old has no living writer, whatever its lock says
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


_noting = threading.Lock()  # over the notes of all caches; all else in them is set once or lies on the disk


def _after_fork() -> None:
    global _noting
    _noting = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Cache:
    """A folder of kernels, shared by any number of threads and processes; made on the first store. No folder: off."""

    def __init__(
        self,
        folder: str | Path | None,
        *,
        read_only: bool = False,
        limit_bytes: int = LIMIT_BYTES,
        trusted: Iterable[int] = (),
    ) -> None:
        """Use a folder, at most up to `limit_bytes`; one that is only read may be root's or belong to `trusted` user ids."""
        self._others = frozenset({0, *trusted}) if read_only else frozenset(trusted)  # who may own it beside the user
        if self._others and not read_only:
            raise CacheError("trusted= is for caches that are only read: a cache that is written must belong to you.")
        # Links are followed once, here: nobody can later turn one of them to another folder.
        self.folder = None if folder is None else Path(os.path.realpath(folder))
        self.limit_bytes = limit_bytes
        self.disabled_reason = "no folder was given" if folder is None else None
        self._notes: deque[str] = deque(maxlen=50)
        self.read_only = (self._usable() and not os.access(str(self.folder), os.W_OK)) or read_only

    @classmethod
    def default(cls) -> Cache:
        """Return the cache that LINKWORK_CACHE asks for: a folder, 'ro:' and a folder, or 'off'; never raises.

        LINKWORK_CACHE_TRUSTED names whose folder may be read beside one's own and root's: user names or ids, by commas.
        """
        text = os.environ.get("LINKWORK_CACHE")
        wanted = (text or "").removeprefix("ro:")
        try:
            if text is not None and text.strip().lower() in ("", "0", "off"):
                raise RuntimeError(f"LINKWORK_CACHE is {text!r}")
            read_only = wanted != (text or "")
            trusted = _user_ids(os.environ.get("LINKWORK_CACHE_TRUSTED", "")) if read_only else ()
            return cls(Path(wanted).expanduser() if wanted else default_folder(), read_only=read_only, trusted=trusted)
        except (OSError, RuntimeError, ValueError) as reason:  # also: no home folder, or the working folder is gone
            cache = cls(None)
            cache.disabled_reason = str(reason)
            return cache

    def turn_off(self, reason: str) -> None:
        """Use this cache no more, for a reason that is a clause of a sentence."""
        if self.disabled_reason is None:
            self.disabled_reason = reason
            self._note(f"The cache is off: {reason}.")

    @property
    def notes(self) -> list[str]:
        """The last sentences on what was not used or not stored by this object, and why; oldest first."""
        with _noting:
            return list(self._notes)

    def load(self, key: str) -> Entry | None:
        """Return the entry of this key, or None; a file that fails a check is removed."""
        name = _entry_name(key)
        if self.folder is None or not self._usable():
            return None
        path = self.folder / name
        try:
            return self._read(path, key, refresh=not self.read_only)
        except Exception as error:  # of any kind: memory may run out, too
            if not isinstance(error, FileNotFoundError):
                removed = isinstance(error, _BadFileError) and not self.read_only and self._remove(path)
                self._note(f"The file {path} was {'removed' if removed else 'left unused'}: {_said(error)}.")
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
            mode = 0o600 | (self.folder.stat().st_mode & 0o044)  # who may read the folder may read what is in it
            temp = self.folder / f"{key}.{os.urandom(8).hex()}.tmp"
            try:
                with open(temp, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                    _lock(file.fileno())
                    file.write(body)
                    file.write(hashlib.sha256(key.encode("ascii") + body).digest())
                os.replace(temp, self.folder / name)
            except BaseException:  # a Ctrl-C too must leave no temporary file
                self._remove(temp)
                raise
        except Exception as error:
            self._note(f"A kernel was not stored in {self.folder}: {_said(error)}.")
            return False
        self._tidy(keep=key)
        return True

    def discard(self, *keys: str) -> None:
        """Remove the entries of these keys, where there are any and this cache may be written."""
        if self.folder is not None and not self.read_only and self._usable():
            for key in keys:
                self._remove(self.folder / _entry_name(key))

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
        with _noting:
            if sentence in self._notes:  # what repeats must not push out the rest
                self._notes.remove(sentence)
            self._notes.append(sentence)

    def _usable(self) -> bool:
        """Check the folder anew (one stat: its rights may have changed); a refused folder turns this cache off."""
        if self.folder is None or self.disabled_reason is not None:
            return False
        try:
            info = os.stat(self.folder)
            problem = self._foreign(info) if stat.S_ISDIR(info.st_mode) else "it is not a folder"
        except FileNotFoundError:
            return False  # not made yet: nothing in it, and nothing wrong
        except OSError as error:
            problem = str(error)
        if problem is None:
            return True
        self.turn_off(f"the folder {self.folder} is refused: {problem}")
        return False

    def _foreign(self, info: os.stat_result) -> str | None:
        """Say how someone who is not trusted could have written this file or folder; None where nobody could."""
        if os.name != "posix":
            return None
        if info.st_uid != os.geteuid() and info.st_uid not in self._others:
            return f"it belongs to another user (uid {info.st_uid})"
        writable = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return f"it is writable by group or others (mode {stat.S_IMODE(info.st_mode):04o})" if writable else None

    def _read(self, path: Path, key: str, refresh: bool = False) -> Entry:
        """Return an entry after all checks; else FileNotFoundError, _BadFileError or what the system says."""
        if path.is_symlink():  # for the sentence, and for Windows: O_NOFOLLOW already guards the rest
            raise _BadFileError("it is a symbolic link")
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _SAFE)) as file:
            info = os.fstat(file.fileno())
            if problem := self._foreign(info) if stat.S_ISREG(info.st_mode) else "it is not a regular file":
                raise _BadFileError(problem)
            if info.st_size > self.limit_bytes:  # never read: it may be larger than all memory
                raise _BadFileError(f"its {info.st_size} bytes are over the limit of the cache")
            entry = _parse(key, info.st_size, file)
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
            except Exception as error:
                if not isinstance(error, FileNotFoundError):  # else another process removed it just now
                    report(f"The file {file.path} is bad: {_said(error)}.")
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
        except (OSError, MemoryError) as error:
            self._note(f"The folder {self.folder} could not be listed: {_said(error)}.")
        return sorted(files, key=lambda file: file.used)

    def _tidy(self, keep: str) -> None:
        """Remove what dead writers left and, over the limit, the entries least recently used, but never `keep`."""
        being_written = [file for file in self._scan(".tmp") if not (_abandoned(file) and self._remove(file.path))]
        entries = self._scan(".kernel")
        excess = sum(file.size for file in entries + being_written) - self.limit_bytes
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


def _parse(key: str, size: int, file: BinaryIO) -> Entry:
    """Check a whole file of `size` bytes and take it apart; nothing but magic, format and lengths before the digest agrees."""
    prefix = file.read(_PREFIX.size)
    if size < _PREFIX.size + _DIGEST_BYTES or len(prefix) < _PREFIX.size:
        raise _BadFileError("it is cut short")
    magic, version, header_size, blob_size = _PREFIX.unpack(prefix)
    if (magic, version) != (MAGIC, FORMAT):
        raise _BadFileError("it is no kernel file" if magic != MAGIC else f"it has format {version}, not {FORMAT}")
    if _PREFIX.size + header_size + blob_size + _DIGEST_BYTES != size:
        raise _BadFileError("it is cut short or altered: its lengths make no sense, whatever its digest says")
    text, blob, found = file.read(header_size), file.read(blob_size), file.read(_DIGEST_BYTES)
    digest = hashlib.sha256(key.encode("ascii"))
    for part in (prefix, text, blob):
        digest.update(part)
    if digest.digest() != found:
        raise _BadFileError("it is cut short, altered or another key's (its digest does not match)")
    header = None
    with contextlib.suppress(ValueError, RecursionError):
        header = json.loads(text)
    if not isinstance(header, dict):
        raise _BadFileError("it has a header or lengths that make no sense")
    return Entry(header, blob)


def _user_ids(text: str) -> list[int]:
    """Return the ids of users that are given by name or id, with commas between; ValueError where one is unknown."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    return [int(word) if word.isascii() and word.isdigit() else _user_id(word) for word in words]


def _user_id(name: str) -> int:
    try:
        import pwd

        return pwd.getpwnam(name).pw_uid
    except (ImportError, KeyError, ValueError):
        raise ValueError(f"LINKWORK_CACHE_TRUSTED names a user {name!r} that this system does not know") from None


def _lock(descriptor: int) -> bool:
    """Lock an open file for as long as it is open; False where another process has it or the disk knows no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def _abandoned(file: Listed) -> bool:
    """Whether the writer of a temporary file is gone: its lock can be had. Old ones are, whatever their lock says."""
    age = time.time() - file.used
    if age > STALE_SECONDS:
        return True
    if age < LOCKED_SECONDS:
        return False
    try:
        descriptor = os.open(file.path, os.O_RDONLY | _SAFE)
    except OSError:
        return False
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
