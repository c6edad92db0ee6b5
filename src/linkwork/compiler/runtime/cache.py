"""On-disk kernel cache: one file of machine code per kernel, verified in full before it is used.

An entry is code: loading an altered one would run it. Against other users, the folder and every entry must
belong to the user and be writable by nobody else (POSIX; on Windows the system is responsible); a read-only
cache may also belong to root, or to users that the caller trusts. Against accidents (truncated, altered or
renamed files), a digest covers the key and the whole file; it is not a signature: anyone who can write as the
user can already run code as the user. The file `<key>.kernel`, numbers little-endian:

    16 bytes  magic, b"linkwork kernel\\n"
    4, 4, 8   format version, length of the header, length of the blob
              header (a JSON object in ASCII), then blob
    32 bytes  SHA-256 over the key (64 ASCII characters), then all bytes of the file before the digest

It is written as `<key>.<random>.tmp` beside its final name and then renamed, so an entry is complete or
absent. The writer holds a lock on the temporary file: the file of a killed writer is never read, counts
toward the limit, and is removed by the next store. No failure here breaks a computation: a bad entry counts
as absent, a failed store returns False, and `Cache.notes` gives the reasons.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from linkwork.compiler.runtime.cache_files import (
    DIGEST_BYTES,
    FILE_NAME,
    FORMAT,
    MAGIC,
    PREFIX,
    SAFE_FLAGS,
    BadFileError,
    CacheFile,
    Entry,
    entry_name,
    error_text,
    is_abandoned,
    lock_file,
    parse_entry,
)
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.errors import CacheError

LIMIT_BYTES = 512 << 20
REFRESH_SECONDS = 86400.0  # least time between two marks of use of an entry


def make_key(*parts: str | bytes) -> str:
    """Return the cache key of the parts: SHA-256 over each part preceded by its length, in hexadecimal."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(data)) + data)  # lengths distinguish ("ab", "c") from ("a", "bc")
    return digest.hexdigest()


def default_folder() -> Path:
    """Return the folder for caches on this system; RuntimeError if the user has no home folder."""
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/linkwork"
    variable, inside_home = (
        ("LOCALAPPDATA", "AppData/Local") if os.name == "nt" else ("XDG_CACHE_HOME", ".cache")
    )
    base = os.environ.get(variable, "")
    parent = (
        Path(base) if os.path.isabs(base) else Path.home() / inside_home
    )  # XDG: relative paths are ignored
    return parent / "linkwork"


_lock = threading.Lock()  # guards notes and measured sizes of all caches


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Cache:
    """Folder of kernels, shared by any number of threads and processes, created by the first store.

    A folder of None disables the cache.
    """

    def __init__(
        self,
        folder: str | Path | None,
        *,
        read_only: bool = False,
        limit_bytes: int = LIMIT_BYTES,
        trusted: Iterable[int] = (),
    ) -> None:
        """Use a folder with at most `limit_bytes`.

        A read-only folder may also belong to root or to `trusted` user ids.
        """
        # user ids that may own the folder beside the user
        self._others = frozenset({0, *trusted}) if read_only else frozenset(trusted)
        if self._others and not read_only:
            raise CacheError(
                "trusted= applies to read-only caches; a writable cache must belong to the user."
            )
        # Links are resolved once, here, so that later changes of them have no effect.
        self.folder = None if folder is None else Path(os.path.realpath(folder))
        self.limit_bytes = limit_bytes
        self.disabled_reason = "no folder was given" if folder is None else None
        self._notes: deque[str] = deque(maxlen=50)
        # sizes when all entries were measured last, and what was stored since then
        self._measured_bytes = 0
        self._measured_files = 0
        self._stored_bytes = 0
        self.read_only = (self._usable() and not os.access(str(self.folder), os.W_OK)) or read_only

    @classmethod
    def default(cls) -> Cache:
        """Return the cache selected by LINKWORK_CACHE: a folder, 'ro:' and a folder, or 'off'; never raises.

        LINKWORK_CACHE_TRUSTED lists the users, by name or id and separated by commas, whose read-only folders
        are accepted beside the user's own and root's.
        """
        text = os.environ.get("LINKWORK_CACHE")
        folder = (text or "").removeprefix("ro:")
        try:
            if text is not None and text.strip().lower() in ("", "0", "off"):
                raise RuntimeError(f"LINKWORK_CACHE is {text!r}")
            read_only = folder != (text or "")
            trusted = _user_ids(os.environ.get("LINKWORK_CACHE_TRUSTED", "")) if read_only else ()
            return cls(
                Path(folder).expanduser() if folder else default_folder(),
                read_only=read_only,
                trusted=trusted,
            )
        except (OSError, RuntimeError, ValueError) as reason:  # also without a home or working folder
            reraise_signal(reason)
            cache = cls(None)
            cache.disabled_reason = str(reason)
            return cache

    def turn_off(self, reason: str) -> None:
        """Disable this cache; `reason` is a clause of a sentence."""
        if self.disabled_reason is None:
            self.disabled_reason = reason
            self._note(f"The cache is off: {reason}.")

    @property
    def notes(self) -> list[str]:
        """Latest sentences on files not used or not stored by this object, with reasons; oldest first."""
        with _lock:
            return list(self._notes)

    def load(self, key: str) -> Entry | None:
        """Return the entry of this key, or None; a file that fails verification is removed."""
        name = entry_name(key)
        if self.folder is None or not self._usable():
            return None
        path = self.folder / name
        try:
            return self._read(path, key, refresh=not self.read_only)
        except Exception as error:  # of any kind, MemoryError included
            reraise_signal(error)
            if not isinstance(error, FileNotFoundError):
                removed = isinstance(error, BadFileError) and not self.read_only and self._remove(path)
                self._note(
                    f"The file {path} was {'removed' if removed else 'left unused'}: {error_text(error)}."
                )
            return None

    def store(self, key: str, header: dict[str, Any], blob: bytes) -> bool:
        """Store an entry (a header of plain JSON values); return False, with a note, if that fails."""
        name = entry_name(key)
        if self.folder is None or self.disabled_reason is not None:
            return False
        try:
            if self.read_only:
                raise PermissionError("the cache is read-only")
            text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode("ascii")
            body = b"".join((PREFIX.pack(MAGIC, FORMAT, len(text), len(blob)), text, blob))
            if len(body) + DIGEST_BYTES > self.limit_bytes:
                raise ValueError(f"its {len(blob)} bytes are over the limit of the cache")
            os.makedirs(self.folder, 0o700, exist_ok=True)
            if not self._usable():
                return False
            mode = 0o600 | (self.folder.stat().st_mode & 0o044)  # entries are as readable as the folder
            temp = self.folder / f"{key}.{os.urandom(8).hex()}.tmp"
            try:
                with open(temp, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                    lock_file(file.fileno())
                    file.write(body)
                    file.write(hashlib.sha256(key.encode("ascii") + body).digest())
                os.replace(temp, self.folder / name)
            except BaseException:  # Ctrl-C too must leave no temporary file
                self._remove(temp)
                raise
        except Exception as error:
            reraise_signal(error)
            self._note(f"A kernel was not stored in {self.folder}: {error_text(error)}.")
            return False
        self._enforce_limit(key, len(body) + DIGEST_BYTES)
        return True

    def discard(self, *keys: str) -> None:
        """Remove the entries of these keys if they exist and this cache is writable."""
        if self.folder is not None and not self.read_only and self._usable():
            for key in keys:
                self._remove(self.folder / entry_name(key))

    def entries(self) -> list[CacheFile]:
        """Return the valid entries, last used first; every file is verified, bad ones are noted and kept."""
        return self._check(self._note)[::-1]

    def verify(self) -> list[str]:
        """Verify every entry in full; return one sentence per problem. Nothing is removed."""
        problems: list[str] = []
        self._check(problems.append)
        if self.folder is not None and self.disabled_reason is not None:
            problems.append(f"The cache is off: {self.disabled_reason}.")
        return problems

    def clear(self) -> int:
        """Remove all entries and temporary files, and nothing else; return the number of removed files."""
        if self.folder is not None and (self.disabled_reason is not None or self.read_only):
            raise CacheError(
                f"The cache {self.folder} was not cleared: {self.disabled_reason or 'it is read-only'}."
            )
        return sum(self._remove(file.path) for file in self._scan(".kernel") + self._scan(".tmp"))

    def size(self) -> int:
        """Return the total size of all entries [bytes]."""
        return sum(file.size for file in self._scan(".kernel"))

    def _note(self, sentence: str) -> None:
        with _lock:
            if sentence in self._notes:  # repeated notes must not displace others
                self._notes.remove(sentence)
            self._notes.append(sentence)

    def _usable(self) -> bool:
        """Check the folder again (one stat call, as permissions may change); disable the cache if unsafe."""
        if self.folder is None or self.disabled_reason is not None:
            return False
        try:
            info = os.stat(self.folder)
            problem = self._foreign(info) if stat.S_ISDIR(info.st_mode) else "it is not a folder"
        except FileNotFoundError:
            return False  # not created yet
        except OSError as error:
            reraise_signal(error)
            problem = str(error)
        if problem is None:
            return True
        self.turn_off(f"the folder {self.folder} is refused: {problem}")
        return False

    def _foreign(self, info: os.stat_result) -> str | None:
        """Return how an untrusted user could have written this file or folder, or None."""
        if os.name != "posix":
            return None
        if info.st_uid != os.geteuid() and info.st_uid not in self._others:
            return f"it belongs to another user (uid {info.st_uid})"
        writable = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return (
            f"it is writable by group or others (mode {stat.S_IMODE(info.st_mode):04o})" if writable else None
        )

    def _read(self, path: Path, key: str, refresh: bool = False) -> Entry:
        """Return an entry after all checks; else raise FileNotFoundError, BadFileError or an OSError."""
        if path.is_symlink():  # for the message, and for Windows; elsewhere O_NOFOLLOW suffices
            raise BadFileError("it is a symbolic link")
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | SAFE_FLAGS)) as file:
            info = os.fstat(file.fileno())
            if problem := self._foreign(info) if stat.S_ISREG(info.st_mode) else "it is not a regular file":
                raise BadFileError(problem)
            if info.st_size > self.limit_bytes:  # never read: it may be larger than all memory
                raise BadFileError(f"its {info.st_size} bytes are over the limit of the cache")
            entry = parse_entry(key, info.st_size, file)
            if refresh and abs(time.time() - info.st_mtime) > REFRESH_SECONDS:
                try:
                    os.utime(file.fileno() if os.utime in os.supports_fd else path)
                except OSError as error:
                    reraise_signal(error)
        return entry

    def _check(self, report: Callable[[str], None]) -> list[CacheFile]:
        """Read every entry; return the valid ones, and report a sentence on each invalid one."""
        good = []
        for file in self._scan(".kernel"):
            try:
                good.append(file._replace(header=self._read(file.path, file.key).header))
            except Exception as error:
                reraise_signal(error)
                if not isinstance(error, FileNotFoundError):  # removed meanwhile by another process
                    report(f"The file {file.path} is bad: {error_text(error)}.")
        return good

    def _names(self) -> list[str]:
        """Return the names of all files in the folder."""
        try:
            return os.listdir(self.folder) if self._usable() else []
        except (OSError, MemoryError) as error:
            reraise_signal(error)
            self._note(f"The folder {self.folder} could not be listed: {error_text(error)}.")
            return []

    def _scan(self, kind: str, names: list[str] | None = None) -> list[CacheFile]:
        """Return the files of one kind (".kernel" or ".tmp"), least recently used first; none is opened.

        `names` are those of all files, if they have been listed.
        """
        files = []
        try:
            for name in self._names() if names is None else names:
                if name.endswith(kind) and (match := FILE_NAME.fullmatch(name)):
                    with contextlib.suppress(FileNotFoundError):  # as in _check
                        path = Path(str(self.folder), name)
                        info = path.lstat()
                        files.append(CacheFile(match[1], path, info.st_size, info.st_mtime))
        except (OSError, MemoryError) as error:
            reraise_signal(error)
            self._note(f"The folder {self.folder} could not be read: {error_text(error)}.")
        return sorted(files, key=lambda file: file.used)

    def _enforce_limit(self, keep: str, stored: int) -> None:
        """Remove files of dead writers and, over the limit, entries least recently used, but not `keep`.

        `stored` bytes have just been stored. Sizes of all entries are read again once a quarter of the free
        space, or an eighth more files, may have been added: a store must not cost more in a large cache.
        """
        names = self._names()
        being_written = [
            file for file in self._scan(".tmp", names) if not (is_abandoned(file) and self._remove(file.path))
        ]
        with _lock:
            self._stored_bytes += stored
            free = self.limit_bytes - self._measured_bytes
            is_known = 4 * self._stored_bytes <= free and 8 * len(names) <= 9 * self._measured_files
        if is_known and not being_written:
            return
        entries = self._scan(".kernel", names)
        excess = sum(file.size for file in entries + being_written) - self.limit_bytes
        for file in entries:
            if excess > 0 and file.key != keep:
                self._remove(file.path)
                excess -= file.size
        with _lock:
            self._stored_bytes = 0
            self._measured_files = len(names)
            self._measured_bytes = self.limit_bytes + excess

    def _remove(self, path: Path) -> bool:
        try:
            path.unlink(missing_ok=True)
            return True
        except OSError as error:
            reraise_signal(error)
            self._note(f"The file {path} could not be removed: {error}.")
            return False


def _user_ids(text: str) -> list[int]:
    """Return the ids of users listed by name or id and separated by commas; ValueError for unknown ones."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    return [int(word) if word.isascii() and word.isdigit() else _user_id(word) for word in words]


def _user_id(name: str) -> int:
    try:
        import pwd

        return pwd.getpwnam(name).pw_uid
    except (ImportError, KeyError, ValueError):
        raise ValueError(f"LINKWORK_CACHE_TRUSTED: unknown user {name!r}") from None
