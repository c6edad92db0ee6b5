"""Files of the kernel cache: their names, locks and format (see `cache`), verified when they are read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import time
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.errors import CacheError

try:
    import fcntl
except ImportError:  # Windows, where a file that is being written cannot be removed
    fcntl = None  # type: ignore[assignment]

MAGIC = b"linkwork kernel\n"
FORMAT = 1
LOCKED_SECONDS = 10.0  # at this age the temporary file of a running writer is locked
STALE_SECONDS = 600.0  # a temporary file this old has no running writer, even if locked
PREFIX = struct.Struct("<16sIIQ")
DIGEST_BYTES = 32
# no other file is ever read, counted or removed
FILE_NAME = re.compile(r"([0-9a-f]{64})\.(kernel|[0-9a-f]{16}\.tmp)")
SAFE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(
    os, "O_NONBLOCK", 0
)  # follow no link, never block on a pipe


class Entry(NamedTuple):
    """Header and machine code stored under one key."""

    header: dict[str, Any]
    blob: bytes


class CacheFile(NamedTuple):
    """Cache file; `used` is approximately when it was last stored or loaded (Unix seconds)."""

    key: str
    path: Path
    size: int
    used: float
    header: dict[str, Any] | None = None  # None before the file is verified


class BadFileError(OSError):
    """Error for a file that must never be used, unlike one that only could not be read now."""


def entry_name(key: str) -> str:
    name = f"{key}.kernel"
    if FILE_NAME.fullmatch(name) is None:  # also confines every path to the folder
        raise CacheError(f"cache key: expected 64 lower-case hex digits as make_key returns, got {key!r}")
    return name


def parse_entry(key: str, size: int, file: BinaryIO) -> Entry:
    """Verify a whole file of `size` bytes and return its entry.

    Nothing but magic, format and lengths is used before the digest matches.
    """
    prefix = file.read(PREFIX.size)
    if size < PREFIX.size + DIGEST_BYTES or len(prefix) < PREFIX.size:
        raise BadFileError("it is truncated")
    magic, version, header_size, blob_size = PREFIX.unpack(prefix)
    if (magic, version) != (MAGIC, FORMAT):
        raise BadFileError(
            "it is not a kernel file" if magic != MAGIC else f"it has format {version}, not {FORMAT}"
        )
    if PREFIX.size + header_size + blob_size + DIGEST_BYTES != size:
        raise BadFileError("it is truncated or altered: its lengths are inconsistent")
    text = file.read(header_size)
    blob = file.read(blob_size)
    stored_digest = file.read(DIGEST_BYTES)
    digest = hashlib.sha256(key.encode("ascii"))
    for part in (prefix, text, blob):
        digest.update(part)
    if digest.digest() != stored_digest:
        raise BadFileError("it is truncated, altered or of another key (its digest does not match)")
    header = None
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        reraise_signal(error)
    if not isinstance(header, dict):
        raise BadFileError("its header or lengths are invalid")
    return Entry(header, blob)


def lock_file(descriptor: int) -> bool:
    """Lock an open file while it is open; return False if another process has it or locks are unsupported."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        reraise_signal(error)
        return False


def is_abandoned(file: CacheFile) -> bool:
    """Return True if the writer of a temporary file has ended: its lock is free, or the file is old."""
    age = time.time() - file.used
    if age > STALE_SECONDS:
        return True
    if age < LOCKED_SECONDS:
        return False
    try:
        descriptor = os.open(file.path, os.O_RDONLY | SAFE_FLAGS)
    except OSError as error:
        reraise_signal(error)
        return False
    try:
        return lock_file(descriptor)
    finally:
        os.close(descriptor)


def error_text(error: Exception) -> str:
    return str(error) or type(error).__name__
