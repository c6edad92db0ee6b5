"""`linkwork cache`: show, check or clear the cache of compiled kernels."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from linkwork.cli.robot import as_json
from linkwork.cli.terminal import age, size_in_bytes, table
from linkwork.compiler.runtime.cache import Cache
from linkwork.compiler.runtime.cache_files import CacheFile
from linkwork.mechanism.names import plain


def run(action: str, *, json: bool = False) -> int:
    """Run an action of ACTIONS on the cache that the environment selects; print JSON with `json`."""
    cache = Cache.default()
    if not json:
        return ACTIONS[action](cache)
    values, status = _as_dict(cache, action)
    print(as_json(values))
    return status


def _as_dict(cache: Cache, action: str) -> tuple[dict[str, object], int]:
    """Return the result of an action as a dictionary, and the exit status."""
    if action == "clear":
        count = cache.clear()
        return {"removed": count, "notes": list(cache.notes)}, 1 if cache.notes else 0
    if action == "verify":
        problems = cache.verify()
        return {
            "good": not problems,
            "problems": list(problems),
            "state": _state(cache),
        }, 1 if problems else 0
    if action == "path":
        folder = None if cache.folder is None else str(cache.folder)
        return {"folder": folder, "state": _state(cache)}, 1 if folder is None else 0
    return _listed(cache), 0


def _listed(cache: Cache) -> dict[str, object]:
    entries = [{**(e.header or {}), "size": e.size, "seconds": time.time() - e.used} for e in cache.entries()]
    folder = None if cache.folder is None else str(cache.folder)
    state = {"folder": folder, "state": _state(cache), "size": cache.size(), "limit": cache.limit_bytes}
    return {**state, "entries": entries, "notes": list(cache.notes)}


def show(cache: Cache) -> int:
    """Print the folder, state and entries of the cache."""
    entries = cache.entries()
    print(f"folder   {plain(cache.folder) if cache.folder is not None else 'none'}")
    print(f"state    {_state(cache)}")
    print(f"entries  {len(entries)}")
    print(f"size     {size_in_bytes(cache.size())} of at most {size_in_bytes(cache.limit_bytes)}")
    if entries:
        print()
        print("\n".join(table([("name", "dtype", "cpu", "size", "age"), *map(_row, entries)])))
    _print_notes(cache)
    return 0


def verify(cache: Cache) -> int:
    """Check all entries; return 1 if any is damaged."""
    problems = cache.verify()
    for problem in problems:
        print(plain(problem))
    _print_notes(cache, known=problems)
    if not problems and cache.disabled_reason is not None:
        print(f"The cache is off: {plain(cache.disabled_reason)}.")
    elif not problems:
        print("All entries are valid.")
    return 1 if problems else 0


def clear(cache: Cache) -> int:
    """Remove all entries; return 1 if a file could not be removed."""
    count = cache.clear()
    print(f"Removed {count} {'file' if count == 1 else 'files'}.")
    _print_notes(cache)
    return 1 if cache.notes else 0  # a note means that some file is still there


def path(cache: Cache) -> int:
    """Print the folder of the cache; return 1 if the cache is off."""
    if cache.folder is None:
        print(f"linkwork: The cache is off: {plain(cache.disabled_reason)}.", file=sys.stderr)
        return 1
    print(cache.folder)
    return 0


def _state(cache: Cache) -> str:
    if cache.disabled_reason is not None:
        return f"off: {plain(cache.disabled_reason)}"
    if not cache.read_only:
        return (
            "on"
            if cache.folder is not None and cache.folder.exists()
            else "on (the folder is created when needed)"
        )
    requested = os.environ.get("LINKWORK_CACHE", "").startswith("ro:")
    return f"read-only: {'requested by LINKWORK_CACHE' if requested else 'the folder is not writable'}"


def _row(entry: CacheFile) -> tuple[str, ...]:
    header = entry.header or {}
    named = [plain(header.get(field, "-")) for field in ("name", "dtype", "cpu")]
    return (*named, size_in_bytes(entry.size), age(time.time() - entry.used))


def _print_notes(cache: Cache, known: Sequence[str] = ()) -> None:
    notes = [note for note in cache.notes if note not in known]
    if notes:
        print("\nnotes")
    for note in notes:
        print(f"  {plain(note)}")


ACTIONS = {"show": show, "verify": verify, "clear": clear, "path": path}
