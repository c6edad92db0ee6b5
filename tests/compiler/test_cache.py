"""The kernel cache on the disk: nothing but what was stored ever comes back, whatever happens to the files."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import random
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import linkwork
from linkwork.cli.cli import main
from linkwork.compiler.runtime import cache as module
from linkwork.compiler.runtime import cache_files
from linkwork.compiler.runtime.cache import Cache, make_key
from linkwork.errors import CacheError
from waiting import PATIENCE

pytestmark = pytest.mark.background

SOURCE = str(Path(next(iter(linkwork.__path__))).parent)
KEY = make_key("program", "package", "cpu")
OTHER = make_key("another")
HEADER = {
    "name": "pendulum",
    "dtype": "float64",
    "cpu": "znver4",
    "count": 3,
    "deep": {"list": [1, 2.5, None, True]},
}
BLOB = bytes(range(256)) * 4
HOUR = 3600
DAY = 86400
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX rights and signals")
full_device = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Return a fresh cache whose folder is not made yet."""
    return Cache(tmp_path / "deep" / "cache")


@pytest.fixture
def stored(cache: Cache) -> Cache:
    """Return a cache with one entry, KEY."""
    assert cache.store(KEY, HEADER, BLOB)
    return cache


def entry_path(cache: Cache, key: str = KEY) -> Path:
    assert cache.folder is not None
    return cache.folder / f"{key}.kernel"


def names(cache: Cache) -> list[str]:
    assert cache.folder is not None
    return sorted(path.name for path in cache.folder.iterdir())


def temps(cache: Cache) -> list[str]:
    return [name for name in names(cache) if name.endswith(".tmp")]


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def forged(key: str, header: bytes, blob: bytes, version: int = module.FORMAT, extra: int = 0) -> bytes:
    """Return a file whose digest is right, whatever the rest says."""
    body = struct.pack("<16sIIQ", module.MAGIC, version, len(header), len(blob) + extra) + header + blob
    return body + hashlib.sha256(key.encode() + body).digest()


def assert_dropped(cache: Cache, reason: str, key: str = KEY) -> None:
    """The file under this key is taken for absent, removed, and the reason is kept; a new store works."""
    path = entry_path(cache, key)
    assert cache.load(key) is None
    assert not os.path.lexists(path)
    assert reason in cache.notes[-1] and str(path) in cache.notes[-1] and "removed" in cache.notes[-1]
    assert cache.store(key, HEADER, BLOB)
    assert cache.load(key) == (HEADER, BLOB)


def run_python(code: str, *args: object, **more: object) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


# Plain use


def test_round_trip(cache: Cache) -> None:
    assert cache.load(KEY) is None and cache.size() == 0 and cache.entries() == [] and cache.clear() == 0
    assert cache.folder is not None and not cache.folder.exists()  # looking makes nothing
    assert cache.store(KEY, HEADER, BLOB)
    entry = cache.load(KEY)
    assert entry is not None and entry.header == HEADER and entry.blob == BLOB and type(entry.blob) is bytes
    assert cache.load(OTHER) is None
    assert cache.store(OTHER, {}, b"")
    assert cache.load(OTHER) == ({}, b"")
    assert cache.store(KEY, {"name": "new"}, b"second")  # the last store wins
    assert cache.load(KEY) == ({"name": "new"}, b"second")
    assert names(cache) == sorted([f"{KEY}.kernel", f"{OTHER}.kernel"])
    assert cache.size() == sum(path.stat().st_size for path in cache.folder.iterdir())
    assert {(one.key, one.size) for one in cache.entries()} == {
        (key, entry_path(cache, key).stat().st_size) for key in (KEY, OTHER)
    }
    assert cache.verify() == [] and cache.notes == [] and cache.disabled_reason is None
    assert cache.clear() == 2 and names(cache) == [] and cache.load(KEY) is None


@posix
def test_rights_of_new_files(cache: Cache) -> None:
    old = os.umask(0)
    try:
        assert cache.store(KEY, HEADER, BLOB)
    finally:
        os.umask(old)
    assert cache.folder is not None
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry_path(cache).stat().st_mode) == 0o600


def test_key_parts_do_not_run_together() -> None:
    keys = [make_key(*parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ())]
    assert len(set(keys)) == len(keys)
    assert make_key("é", b"x") == make_key("é".encode(), "x")
    assert len(KEY) == 64 and set(KEY) <= set("0123456789abcdef")


@pytest.mark.parametrize("key", ["", "abc", "../" + "a" * 61, "A" * 64, "a" * 63 + "\n", "a" * 64 + "\n"])
def test_keys_are_hex_only(stored: Cache, key: str) -> None:
    with pytest.raises(CacheError, match="64 lower-case hex digits"):
        stored.load(key)
    with pytest.raises(CacheError, match="64 lower-case hex digits"):
        stored.store(key, HEADER, BLOB)
    assert names(stored) == [f"{KEY}.kernel"]


@pytest.mark.parametrize("header", [{"a": object()}, {"a": float("nan")}, {"a": b"bytes"}])
def test_headers_are_plain(cache: Cache, header: dict[str, object]) -> None:
    assert not cache.store(KEY, header, BLOB)
    assert "not stored" in cache.notes[-1] and cache.load(KEY) is None


def test_notes_are_bounded_and_do_not_repeat(stored: Cache) -> None:
    frozen = Cache(stored.folder, read_only=True)
    for _ in range(5):
        assert not frozen.store(KEY, HEADER, BLOB)
    assert len(frozen.notes) == 1
    for number in range(200):
        key = make_key(str(number))
        entry_path(frozen, key).write_bytes(b"bad")
        assert frozen.load(key) is None
    assert len(frozen.notes) == 50 and make_key("199") in frozen.notes[-1]


# Files that must not be used

SIZE = 32 + len(json.dumps(HEADER, separators=(",", ":"))) + len(BLOB) + 32
START_OF_BLOB = SIZE - 32 - len(BLOB)
LENGTHS = [
    0,
    1,
    15,
    16,
    17,
    20,
    24,
    31,
    32,
    33,
    63,
    64,
    65,
    START_OF_BLOB - 1,
    START_OF_BLOB,
    START_OF_BLOB + 1,
]
LENGTHS += [SIZE // 2, SIZE - 33, SIZE - 32, SIZE - 31, SIZE - 1]


@pytest.mark.parametrize("length", LENGTHS)
def test_cut_short(stored: Cache, length: int) -> None:
    assert entry_path(stored).stat().st_size == SIZE
    os.truncate(entry_path(stored), length)
    assert_dropped(stored, "truncated")


def test_grown(stored: Cache) -> None:
    with entry_path(stored).open("ab") as file:
        file.write(b"\0")
    assert_dropped(stored, "altered")


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (0, "not a kernel file"),
        (15, "not a kernel file"),
        (16, "format"),
        (20, "digest"),
        (24, "digest"),
        (31, "digest"),
        (32, "digest"),
        (40, "digest"),
        (START_OF_BLOB - 1, "digest"),
        (START_OF_BLOB, "digest"),
        (SIZE - 33, "digest"),
        (SIZE - 32, "digest"),
        (SIZE - 1, "digest"),
    ],
)
def test_altered(stored: Cache, place: int, reason: str) -> None:
    data = bytearray(entry_path(stored).read_bytes())
    data[place] ^= 1
    entry_path(stored).write_bytes(data)
    assert len(stored.verify()) == 1 and entry_path(stored).exists()  # verify tells, load removes
    assert_dropped(stored, reason)


def test_any_altered_byte(cache: Cache) -> None:
    assert cache.store(KEY, {"n": 1}, b"code" * 8)
    good = entry_path(cache).read_bytes()
    for place in range(len(good)):
        entry_path(cache).write_bytes(good[:place] + bytes([good[place] ^ 0x80]) + good[place + 1 :])
        assert cache.load(KEY) is None, place
        assert not entry_path(cache).exists(), place


def test_renamed_to_another_key(stored: Cache) -> None:
    os.rename(entry_path(stored), entry_path(stored, OTHER))
    assert_dropped(stored, "another key", OTHER)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (forged(KEY, b"{}", b"code", version=2), "format 2, not 1"),
        (forged(KEY, b"[]", b"code"), "header or lengths are invalid"),
        (forged(KEY, b"{", b"code"), "header or lengths are invalid"),
        (forged(KEY, b"{}", b"code", extra=1), "lengths are inconsistent"),
        (forged(KEY, b"{}", b"code", extra=-1), "lengths are inconsistent"),
        (forged(KEY, b"\xff", b"code"), "header or lengths are invalid"),
        (forged(KEY, b"[" * 200_000, b"code"), "header or lengths are invalid"),
        (forged(KEY, b"[" * 200_000 + b"]" * 200_000, b"code"), "header or lengths are invalid"),
        (forged(KEY, b'{"n":' + b"9" * 5000 + b"}", b"code"), "header or lengths are invalid"),
    ],
    ids=["format", "list", "open", "longer", "shorter", "encoding", "deep", "deep and closed", "long number"],
)
def test_right_digest_over_nonsense(stored: Cache, data: bytes, reason: str) -> None:
    entry_path(stored).write_bytes(data)
    assert_dropped(stored, reason)


@posix
def test_symbolic_link(stored: Cache, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    os.rename(entry_path(stored), target)
    entry_path(stored).symlink_to(target)
    assert "symbolic link" in stored.verify()[0]
    assert_dropped(stored, "symbolic link")
    assert target.exists()  # the link went, not what it leads to


@posix
def test_link_swapped_in_after_the_look(
    stored: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "elsewhere"
    os.rename(entry_path(stored), target)
    entry_path(stored).symlink_to(target)
    monkeypatch.setattr(Path, "is_symlink", lambda self: False)
    assert stored.load(KEY) is None  # O_NOFOLLOW


@posix
def test_pipe_and_folder_as_entries(stored: Cache) -> None:
    entry_path(stored).unlink()
    os.mkfifo(entry_path(stored), 0o600)
    assert_dropped(stored, "not a regular file")  # and does not wait for a writer
    entry_path(stored).unlink()
    entry_path(stored).mkdir()
    assert stored.load(KEY) is None and not stored.store(KEY, HEADER, BLOB) and temps(stored) == []
    assert len(stored.verify()) == 1


@posix
def test_entry_of_another_user(stored: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        if os.geteuid() == 0:
            os.chown(entry_path(stored), 12345, -1)
        else:
            real = os.fstat
            patch.setattr(os, "fstat", lambda fd: os.stat_result((*real(fd)[:4], 12345, *real(fd)[5:10])))
        assert "another user (uid 12345)" in stored.verify()[0]
        assert stored.load(KEY) is None and not entry_path(stored).exists()
    assert stored.store(KEY, HEADER, BLOB)


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_entry_that_others_can_write(stored: Cache, mode: int) -> None:
    entry_path(stored).chmod(mode)
    assert_dropped(stored, "writable by group or others")


@posix
@pytest.mark.parametrize(
    "forge", [b"", b"wrong", struct.pack("<16sIIQ", module.MAGIC, module.FORMAT, 2, (200 << 30) - 66)]
)
def test_entry_larger_than_memory(stored: Cache, forge: bytes) -> None:
    """A sparse file: it takes no room on the disk, and would take 200 GB in memory."""
    entry_path(stored).write_bytes(forge)
    try:
        os.truncate(entry_path(stored), 200 << 30)
    except OSError:
        pytest.skip("no sparse files here")
    assert len(stored.verify()) == 1 and "over the limit" in stored.verify()[0]
    assert_dropped(stored, "over the limit")


@posix
def test_no_more_is_read_than_the_lengths_say(stored: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the limit, too, a file whose lengths are wrong is not read: here, reading it would end the test."""
    data = entry_path(stored).read_bytes()
    entry_path(stored).write_bytes(data[:24] + struct.pack("<Q", 1 << 40) + data[32:])
    os.truncate(entry_path(stored), 400 << 20)
    monkeypatch.setattr(module.hashlib, "sha256", None)
    assert stored.load(KEY) is None and "lengths are inconsistent" in stored.notes[-1]


@pytest.mark.parametrize(
    "failure", [MemoryError(), RecursionError("deep"), OverflowError("wide"), struct.error("odd")]
)
def test_no_failure_breaks_a_computation(
    stored: Cache, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise failure

    said = str(failure) or "MemoryError"
    with monkeypatch.context() as patch:
        patch.setattr(module, "parse_entry", fail)
        assert stored.load(KEY) is None and said in stored.notes[-1] and "left unused" in stored.notes[-1]
        assert said in stored.verify()[0] and stored.entries() == []
    with monkeypatch.context() as patch:
        patch.setattr(module.json, "dumps", fail)
        assert not stored.store(OTHER, HEADER, BLOB) and said in stored.notes[-1]
    assert stored.load(KEY) == (HEADER, BLOB)  # nothing was wrong with the file


# Folders that must not be used


def assert_off(cache: Cache, reason: str) -> None:
    assert cache.disabled_reason is not None and reason in cache.disabled_reason
    assert cache.load(KEY) is None and cache.store(OTHER, HEADER, BLOB) is False
    assert cache.entries() == [] and cache.size() == 0
    assert any(reason in problem for problem in cache.verify())
    with pytest.raises(CacheError, match="not cleared"):
        cache.clear()


@posix
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_folder_that_others_can_write(stored: Cache, mode: int) -> None:
    assert stored.folder is not None
    stored.folder.chmod(mode)
    assert_off(Cache(stored.folder), "writable by group or others")
    assert stored.load(KEY) is None  # also where the rights change while the cache is in use
    assert_off(stored, "writable by group or others")
    assert "cache is off" in stored.notes[-1]
    assert entry_path(stored).exists()


@posix
def test_folder_of_another_user(stored: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stored.folder is not None
    if os.geteuid() == 0:
        os.chown(stored.folder, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert_off(Cache(stored.folder), "another user")
    assert_off(Cache(stored.folder, read_only=True), "another user")


ANOTHER = 12345


@posix
@pytest.mark.parametrize("owner", ["root", "trusted", "stranger"])
def test_read_only_folder_of_another_user(stored: Cache, monkeypatch: pytest.MonkeyPatch, owner: str) -> None:
    """What root or a trusted user has filled may be read by others, who do not write into it."""
    here = os.geteuid()
    there = 54321
    if os.geteuid() == 0 and owner != "root":
        here = ANOTHER
        for path in (stored.folder, entry_path(stored)):
            os.chown(path, here, -1)  # type: ignore[arg-type]
    elif os.geteuid() != 0 and owner == "root":
        pytest.skip("only root makes folders of root")
    monkeypatch.setattr(os, "geteuid", lambda: there)
    trusted = [here] if owner == "trusted" else []
    assert_off(Cache(stored.folder), "another user")  # never to write
    reader = Cache(stored.folder, read_only=True, trusted=trusted)
    if owner == "stranger":
        assert_off(reader, "another user")
        return
    assert reader.load(KEY) == (HEADER, BLOB) and reader.verify() == [] and reader.disabled_reason is None
    assert not reader.store(OTHER, HEADER, BLOB) and names(stored) == [f"{KEY}.kernel"]
    entry_path(stored).chmod(0o664)
    assert (
        reader.load(KEY) is None and "writable by group" in reader.notes[-1] and entry_path(stored).exists()
    )
    stored.folder.chmod(0o775)  # type: ignore[union-attr]
    assert_off(Cache(stored.folder, read_only=True, trusted=trusted), "writable by group or others")


def test_only_readers_trust_others(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="read-only caches"):
        Cache(tmp_path, trusted=[ANOTHER])


@posix
def test_entries_are_readable_to_those_who_read_the_folder(stored: Cache) -> None:
    assert stored.folder is not None
    old = os.umask(0o022)
    try:
        for folder, file in ((0o755, 0o644), (0o750, 0o640), (0o711, 0o600)):
            stored.folder.chmod(folder)
            assert stored.store(KEY, HEADER, BLOB)
            assert stat.S_IMODE(entry_path(stored).stat().st_mode) == file
    finally:
        os.umask(old)


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert_off(Cache(tmp_path / "file"), "not a folder")
    inside = Cache(tmp_path / "file" / "inside")
    assert inside.load(KEY) is None and not inside.store(KEY, HEADER, BLOB) and inside.notes
    assert (tmp_path / "file").read_text() == "mine"


def test_folder_may_vanish(stored: Cache) -> None:
    assert stored.folder is not None
    entry_path(stored).unlink()
    stored.folder.rmdir()
    assert stored.load(KEY) is None and stored.verify() == [] and stored.clear() == 0
    assert stored.store(KEY, HEADER, BLOB) and stored.load(KEY) == (HEADER, BLOB)


@posix
def test_folder_behind_a_link(stored: Cache, tmp_path: Path) -> None:
    link = tmp_path / "link"
    assert stored.folder is not None
    link.symlink_to(stored.folder)
    cache = Cache(link)
    link.unlink()
    link.symlink_to(tmp_path)  # too late to lead the cache elsewhere
    assert cache.load(KEY) == (HEADER, BLOB)


# Disks that do not take an entry


def test_read_only(stored: Cache) -> None:
    frozen = Cache(stored.folder, read_only=True)
    age(entry_path(frozen), 9 * DAY)
    before = entry_path(frozen).stat().st_mtime_ns
    assert frozen.load(KEY) == (HEADER, BLOB)
    assert entry_path(frozen).stat().st_mtime_ns == before
    assert not frozen.store(OTHER, HEADER, BLOB) and "read-only" in frozen.notes[-1]
    with pytest.raises(CacheError, match="read-only"):
        frozen.clear()
    entry_path(frozen).write_bytes(b"bad")
    assert frozen.load(KEY) is None and entry_path(frozen).exists() and "left unused" in frozen.notes[-1]
    missing = Cache(stored.folder / "no" / "folder", read_only=True)  # type: ignore[operator]
    assert missing.load(KEY) is None and not missing.store(KEY, HEADER, BLOB)
    assert names(stored) == [f"{KEY}.kernel"]


def test_folder_without_write_right_is_read_only(stored: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # chmod does not stop root
    cache = Cache(stored.folder)
    assert cache.read_only and cache.load(KEY) == (HEADER, BLOB) and not cache.store(OTHER, HEADER, BLOB)


@pytest.mark.parametrize("call", ["open", "replace", "mkdir"])
@pytest.mark.parametrize(
    "code", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE]
)
def test_failing_calls(cache: Cache, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    def fail(*args: object, **more: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        assert cache.store(KEY, HEADER, BLOB) is False
        assert os.strerror(code) in cache.notes[-1] and "not stored" in cache.notes[-1]
        assert cache.load(KEY) is None
    assert cache.folder is not None and (call == "mkdir" or names(cache) == [])
    assert cache.store(KEY, HEADER, BLOB) and cache.load(KEY) == (HEADER, BLOB)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        assert cache.load(KEY) is None and os.strerror(code) in cache.notes[-1]
    assert cache.load(KEY) == (HEADER, BLOB)  # what could not be read now is not thrown away


@full_device
def test_full_disk(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.store(OTHER, HEADER, BLOB)
    real = os.open

    def onto_full_disk(path: str, flags: int, *more: int) -> int:
        os.close(real(path, flags, *more))
        return real("/dev/full", os.O_WRONLY)

    for blob in (b"small", bytes(1 << 20)):  # the first fails on close, the second on write
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", onto_full_disk)
            assert cache.store(KEY, HEADER, blob) is False
        assert "No space left" in cache.notes[-1]
        assert names(cache) == [f"{OTHER}.kernel"] and cache.load(OTHER) == (HEADER, BLOB)


def test_interrupted_store_leaves_nothing(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cache.store(KEY, HEADER, BLOB)
    assert names(cache) == []


def test_bad_file_that_cannot_be_removed(stored: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **more: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    entry_path(stored).write_bytes(b"bad")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        assert stored.load(KEY) is None and stored.clear() == 0
    assert any("could not be removed" in note for note in stored.notes)
    assert stored.store(KEY, HEADER, BLOB) and stored.load(KEY) == (HEADER, BLOB)


# Bounds


def test_least_recently_used_goes_first(tmp_path: Path) -> None:
    size = 32 + len('{"n":0}') + 1000 + 32
    cache = Cache(tmp_path / "cache", limit_bytes=4 * size)
    keys = [make_key(str(number)) for number in range(8)]
    for number in range(4):
        assert cache.store(keys[number], {"n": number}, bytes(1000))
        age(entry_path(cache, keys[number]), (10 - number) * DAY)
    assert cache.load(keys[0]) is not None  # now the last used
    assert cache.store(keys[4], {"n": 4}, bytes(1000))
    kept = {key for key in keys if entry_path(cache, key).exists()}
    assert kept == {keys[0], keys[2], keys[3], keys[4]}
    assert [one.key for one in cache.entries()][-2:] == [keys[3], keys[2]]  # last used first
    age(entry_path(cache, keys[4]), -DAY)  # under a clock that ran ahead: the next one looks older, yet stays
    age(entry_path(cache, keys[0]), -2 * DAY)
    assert cache.store(keys[5], {"n": 5}, bytes(1000 + 2 * size))
    kept = {key for key in keys if entry_path(cache, key).exists()}
    assert kept == {keys[0], keys[5]}
    for number in range(100):
        assert cache.store(
            make_key("more", str(number)), {"n": 0}, bytes(random.Random(number).randrange(3000))
        )
        assert cache.size() <= cache.limit_bytes
        assert cache.load(make_key("more", str(number))) is not None


def test_a_store_costs_no_more_in_a_large_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far from the limit, files are looked at a few times in all, not all of them by every store; what other
    processes store is counted.
    """
    looks = [0]
    real = Path.lstat

    def counted(path: Path) -> os.stat_result:
        looks[0] += path.suffix == ".kernel"
        return real(path)

    monkeypatch.setattr(Path, "lstat", counted)
    cache = Cache(tmp_path / "cache")
    for number in range(400):
        assert cache.store(make_key(str(number)), {}, bytes(10))
    assert looks[0] < 12 * 400
    other = Cache(tmp_path / "cache", limit_bytes=100_000)
    assert other.store(KEY, {}, bytes(10))
    for number in range(300):
        assert cache.store(make_key("more", str(number)), {}, bytes(500))
    assert other.store(OTHER, {}, bytes(10)) and other.size() <= 100_000


def test_entry_over_the_limit(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit_bytes=2000)
    assert cache.store(KEY, {}, bytes(1000))
    assert not cache.store(OTHER, {}, bytes(2000)) and "over the limit" in cache.notes[-1]
    assert names(cache) == [f"{KEY}.kernel"]


def test_load_marks_use_at_most_daily(stored: Cache) -> None:
    path = entry_path(stored)
    age(path, HOUR)
    before = path.stat().st_mtime_ns
    assert stored.load(KEY) is not None and path.stat().st_mtime_ns == before
    for seconds in (2 * DAY, -2 * DAY):  # the second: written under a clock that ran ahead
        age(path, seconds)
        assert stored.load(KEY) is not None and abs(path.stat().st_mtime - time.time()) < 60


def test_other_files_are_left_alone(stored: Cache) -> None:
    assert stored.folder is not None
    mine = ["notes.txt", "x.kernel", "x.tmp", f"{KEY}.kernel.bak", f"{KEY}.tmp", f"a{KEY}.kernel"]
    for name in mine:
        (stored.folder / name).write_text("mine")
        age(stored.folder / name, 99 * DAY)
    fresh = f"{KEY}.{'a' * 16}.tmp"
    stale = f"{KEY}.{'b' * 16}.tmp"
    for name, seconds in ((fresh, 0), (stale, HOUR / 5)):
        (stored.folder / name).write_bytes(entry_path(stored).read_bytes())
        age(stored.folder / name, seconds)
    assert stored.store(OTHER, HEADER, BLOB)
    assert names(stored) == sorted([*mine, fresh, f"{KEY}.kernel", f"{OTHER}.kernel"])
    assert len(stored.entries()) == 2
    assert stored.clear() == 3
    assert names(stored) == sorted(mine)


# Many at once


def test_files_that_vanish_meanwhile(stored: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    ghosts = [f"{OTHER}.kernel", f"{OTHER}.{'a' * 16}.tmp"]
    real = os.listdir
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "listdir", lambda folder: [*ghosts, *real(folder)]
        )  # gone before they are looked at
        assert stored.verify() == [] and len(stored.entries()) == 1 and stored.size() == SIZE
    seen = module.CacheFile(OTHER, entry_path(stored, OTHER), 2 * SIZE, 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(stored, "_scan", lambda kind, names=None: [seen])  # gone after that
        stored.limit_bytes = SIZE
        assert stored.verify() == [] and stored.entries() == []
        assert stored.store(KEY, HEADER, BLOB)
    assert stored.notes == []


WORKER = """
import hashlib, pathlib, sys, time
from linkwork.compiler.runtime.cache import Cache, make_key
folder, go, number, limit = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
def blob(name):
    return hashlib.shake_256(name.encode()).digest(20_000 + 5_000 * len(name))
cache = Cache(folder, limit_bytes=limit)
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
hits = 0
for turn in range(12):
    for name in ("shared", f"turn{turn}", f"mine{number}"):
        key, right = make_key(name), blob(name)
        for step in range(2):
            entry = cache.load(key)
            assert entry is None or (entry.header == {"name": name} and entry.blob == right), name
            hits += entry is not None
            if step == 0:
                assert cache.store(key, {"name": name}, right), cache.notes
assert not cache.notes, cache.notes
print(hits)
"""


def test_sixteen_processes(tmp_path: Path) -> None:
    small = 200_000  # a quarter of them removes what the others store
    limits = [small if number % 4 == 0 else 64 << 20 for number in range(16)]
    workers = [run_python(WORKER, tmp_path / "cache", tmp_path / "go", *pair) for pair in enumerate(limits)]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    (tmp_path / "go").touch()
    hits = 0
    for worker in workers:
        out, err = worker.communicate(timeout=PATIENCE)
        if os.name == "posix":  # elsewhere a store may lose to a reader, which it reports
            assert worker.returncode == 0, err
            hits += int(out)
    assert hits > 0 or os.name != "posix"
    cache = Cache(tmp_path / "cache", limit_bytes=small)
    assert cache.verify() == [] and temps(cache) == []
    assert cache.store(KEY, HEADER, BLOB) and cache.size() <= small


def test_threads_share_one_cache(cache: Cache) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                key = make_key(str(turn % 5))
                if number % 4 == 0:
                    entry_path(cache, key).write_bytes(b"bad")
                    cache.notes, cache.entries(), cache.verify(), cache.size()
                cache.store(key, {"n": turn % 5}, bytes([turn % 5]) * 5000)
                entry = cache.load(key)
                if entry not in (None, ({"n": turn % 5}, bytes([turn % 5]) * 5000)):
                    wrong.append(entry)
        except Exception as error:
            wrong.append(error)

    assert cache.store(KEY, HEADER, BLOB)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and cache.load(KEY) == (HEADER, BLOB)


# Killed writers

WRITER = """
import os, signal, sys
from linkwork.compiler.runtime import cache as module, cache_files
from linkwork.compiler.runtime.cache import Cache, make_key
cache_files.LOCKED_SECONDS, cache_files.STALE_SECONDS = 3600.0, 7200.0  # no temporary file of this test grows old by itself
how, key, blob = sys.argv[2], make_key("big"), b"0123456789abcdef" * (1 << 20)
cache = Cache(sys.argv[1])
if how == "half":  # the system ends the process in the middle of the write
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
if how == "whole":  # all is written, nothing renamed
    os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
print("ready", flush=True)
while True:
    cache.store(key, {"name": "big"}, blob)
"""
BIG = b"0123456789abcdef" * (1 << 20)


@posix
@pytest.mark.parametrize("how", ["half", "whole", "any"])
@pytest.mark.sweep(3)
def test_killed_writer(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_files, "LOCKED_SECONDS", HOUR)
    monkeypatch.setattr(cache_files, "STALE_SECONDS", 2 * HOUR)
    cache = Cache(tmp_path / "cache")
    key = make_key("big")
    pause = random.Random(7)
    for turn in range(1, 4 if how == "any" else 3):
        writer = run_python(WRITER, tmp_path / "cache", how)
        if how == "any":
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
            time.sleep(pause.uniform(0.01, 0.1))
            writer.kill()
        writer.communicate(timeout=PATIENCE)
        assert writer.returncode in (-signal.SIGKILL, -signal.SIGXFSZ)
        entry = cache.load(key)
        assert entry is None or entry == ({"name": "big"}, BIG)
        assert cache.verify() == []
        if how != "any":
            assert entry is None and cache.notes == [] and len(temps(cache)) == turn
            assert cache.entries() == [] and cache.size() == 0  # a temporary file is no entry
    if temps(cache):
        sizes = [(tmp_path / "cache" / name).stat().st_size for name in temps(cache)]
        assert how == "any" or all(size == 8 << 20 if how == "half" else size > len(BIG) for size in sizes)
        assert cache.store(KEY, HEADER, BLOB)
        assert len(temps(cache)) == len(sizes)  # too young: their writers may live
        for name in temps(cache):
            age(tmp_path / "cache" / name, 1.5 * HOUR)  # time enough to lock it: who has not is dead
    assert cache.store(key, {"name": "big"}, BIG) and cache.load(key) == ({"name": "big"}, BIG)
    assert temps(cache) == []


@posix
def test_what_living_writers_hold_stays(stored: Cache) -> None:
    import fcntl

    assert stored.folder is not None
    path = stored.folder / f"{OTHER}.{'a' * 16}.tmp"
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for seconds, stays in (
            (0, True),
            (HOUR / 12, True),
            (HOUR / 4, False),
        ):  # at last, no lock is believed
            age(path, seconds)
            assert stored.store(KEY, HEADER, BLOB) and path.exists() == stays


def test_temporary_files_count_toward_the_limit(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit_bytes=10_000)
    for number in range(4):
        assert cache.store(make_key(str(number)), {}, bytes(2000))
        age(entry_path(cache, make_key(str(number))), HOUR - number)
    (tmp_path / "cache" / f"{OTHER}.{'a' * 16}.tmp").write_bytes(bytes(4000))  # being written
    assert cache.store(KEY, {}, bytes(2000))
    assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) <= 10_000
    assert len(temps(cache)) == 1 and cache.load(KEY) is not None and cache.load(make_key("3")) is not None


# Environment


@pytest.mark.parametrize("text", ["", "0", "off", "OFF", " off "])
def test_variable_turns_off(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("LINKWORK_CACHE", text)
    cache = Cache.default()
    assert cache.folder is None and "LINKWORK_CACHE" in str(cache.disabled_reason)
    assert cache.load(KEY) is None and not cache.store(KEY, HEADER, BLOB)
    assert cache.entries() == [] and cache.verify() == [] and cache.clear() == 0 and cache.size() == 0


def test_variable_names_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = tmp_path / "chosen"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(tmp_path)
    for text, expected in ((str(folder), folder), ("chosen", folder), ("~/kernels", home / "kernels")):
        monkeypatch.setenv("LINKWORK_CACHE", text)
        assert Cache.default().folder == expected.resolve() and not Cache.default().read_only
        monkeypatch.setenv("LINKWORK_CACHE", f"ro:{text}")
        assert Cache.default().folder == expected.resolve() and Cache.default().read_only
    assert not folder.exists() and not home.exists()
    assert Cache.default().limit_bytes == 512 * 1024 * 1024


@posix
def test_variable_names_trusted_users(stored: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.geteuid() or ANOTHER
    os.chown(stored.folder, me, -1)  # type: ignore[arg-type]
    os.chown(entry_path(stored), me, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    for text, works in (("", False), (str(me), True), (f" 77, {me} ,", True), ("root", False), ("77", False)):
        monkeypatch.setenv("LINKWORK_CACHE_TRUSTED", text)
        monkeypatch.setenv("LINKWORK_CACHE", f"ro:{stored.folder}")
        assert (Cache.default().load(KEY) == (HEADER, BLOB)) == works, text
        monkeypatch.setenv("LINKWORK_CACHE", str(stored.folder))
        assert Cache.default().load(KEY) is None
    monkeypatch.setenv("LINKWORK_CACHE", f"ro:{stored.folder}")
    monkeypatch.setenv("LINKWORK_CACHE_TRUSTED", "nobody-of-that-name")
    assert "'nobody-of-that-name'" in str(Cache.default().disabled_reason)


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("LINKWORK_CACHE", raising=False)
    if os.name == "nt":
        monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
        assert Cache.default().folder == tmp_path.resolve() / "local" / "linkwork"
        return
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache.default().folder == tmp_path.resolve() / "xdg" / "linkwork"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert Cache.default().folder == tmp_path.resolve() / ".cache" / "linkwork"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Cache.default().folder == tmp_path.resolve() / ".cache" / "linkwork"
    monkeypatch.setenv("LINKWORK_CACHE", "ro:")
    assert Cache.default().folder == tmp_path.resolve() / ".cache" / "linkwork" and Cache.default().read_only
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Cache.default().folder == tmp_path.resolve() / "Library" / "Caches" / "linkwork"


def test_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("LINKWORK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    cache = Cache.default()
    assert "home directory" in str(cache.disabled_reason) and cache.load(KEY) is None


# Command line


def command(cache: Cache | None, *args: str, setting: str | None = None) -> tuple[int, str, str]:
    """Run `linkwork cache` in this process; return its status, output and errors."""
    out = io.StringIO()
    err = io.StringIO()
    variable = setting if setting is not None else str(cache.folder) if cache is not None else ""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("LINKWORK_CACHE", variable)
        try:
            status = main(["cache", *args])
        except SystemExit as stop:
            status = int(str(stop.code))
    return status, out.getvalue(), err.getvalue()


def test_command_in_a_process(stored: Cache) -> None:
    def run(*args: str) -> tuple[int, str, str]:
        env = {
            **os.environ,
            "PYTHONPATH": SOURCE,
            "LINKWORK_CACHE": str(stored.folder),
            "PYTHONIOENCODING": "ascii",
        }
        line = [sys.executable, "-m", "linkwork", "cache", *args]
        done = subprocess.run(line, env=env, capture_output=True, encoding="ascii", timeout=PATIENCE)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    assert stored.store(OTHER, {"name": "żuraw"}, BLOB)
    status, out, err = run()
    assert (status, err) == (0, "") and "pendulum" in out and "\\u017curaw" in out
    assert run("path") == (0, f"{stored.folder}\n", "")
    entry_path(stored).write_bytes(b"bad")
    status, out, err = run("verify")
    assert (status, err) == (1, "") and str(entry_path(stored)) in out and out.count("\n") == 1
    assert run("clear") == (0, "Removed 2 files.\n", "")
    assert names(stored) == []


def test_command_show(stored: Cache) -> None:
    assert stored.store(OTHER, {"name": "evil\x1b[31m\nname", "dtype": 5}, bytes(3000))
    age(entry_path(stored), 3 * DAY)
    status, out, err = command(stored)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["folder", str(stored.folder)] and lines[1].split() == ["state", "on"]
    assert lines[2].split() == ["entries", "2"] and "of at most 512.0 MiB" in lines[3]
    assert lines[5].split() == ["name", "dtype", "cpu", "size", "age"]
    assert lines[6].startswith("evil\\x1b[31m\\nname  5") and "\x1b" not in out
    assert lines[7].split() == ["pendulum", "float64", "znver4", "1.2", "KiB", "3", "d"]
    assert len(lines) == 8
    assert command(stored, "show")[1].splitlines()[:4] == lines[:4]
    assert command(stored, "path")[1] == f"{stored.folder}\n"
    entry_path(stored).write_bytes(b"bad")
    status, out, err = command(stored)
    assert status == 0 and "notes" in out and str(entry_path(stored)) in out and "truncated" in out


def test_command_states(stored: Cache) -> None:
    assert "state    off: LINKWORK_CACHE is 'off'" in command(None, setting="off")[1]
    assert (
        "state    read-only: requested by LINKWORK_CACHE" in command(None, setting=f"ro:{stored.folder}")[1]
    )
    status, out, err = command(None, "path", setting="off")
    assert status == 1 and out == "" and "off" in err
    assert command(None, "verify", setting="off")[0] == 0
    status, out, err = command(None, "clear", setting=f"ro:{stored.folder}")
    assert status == 3 and "read-only" in err and entry_path(stored).exists()
    assert command(stored, "explode")[0] == 2


@posix
def test_command_on_refused_folder(stored: Cache) -> None:
    assert stored.folder is not None
    stored.folder.chmod(0o777)
    status, out, err = command(stored)
    assert status == 0 and "state    off: " in out and "writable by group or others" in out
    status, out, err = command(stored, "verify")
    assert status == 1 and "writable by group or others" in out and out.count("\n") == 1
    status, out, err = command(stored, "clear")
    assert status == 3 and "writable by group or others" in err and entry_path(stored).exists()


def test_command_verify_and_clear(stored: Cache) -> None:
    assert stored.folder is not None
    status, out, err = command(stored, "verify")
    assert (status, out, err) == (0, "All entries are valid.\n", "")
    assert stored.store(OTHER, HEADER, BLOB)
    data = bytearray(entry_path(stored).read_bytes())
    data[-40] ^= 1
    entry_path(stored).write_bytes(data)
    status, out, err = command(stored, "verify")
    assert status == 1 and err == "" and out.count("\n") == 1
    assert str(entry_path(stored)) in out and "digest" in out and str(entry_path(stored, OTHER)) not in out
    (stored.folder / f"{KEY}.{'a' * 16}.tmp").write_bytes(b"left")
    (stored.folder / "mine").write_bytes(b"kept")
    assert command(stored, "clear") == (0, "Removed 3 files.\n", "")
    assert names(stored) == ["mine"]
    assert command(stored, "clear") == (0, "Removed 0 files.\n", "")
