"""Optimised code that a process does not live to finish: what there is of it is kept in the cache, and the next goes on.

Beside a kernel's own entry there may be two others until it is optimised: the quick kernel, so that the next process answers
at once, and the modules of the optimised one, those that are compiled and the texts of the rest.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from linkwork.runtime.cache import Cache, make_key
from linkwork.runtime.compiler import join_objects, split_objects


@dataclass(frozen=True)
class Unfinished:
    """Where a kernel's unfinished code lies: in a cache, by the kernel's key."""

    cache: Cache
    key: str
    name: str

    @property
    def lasting(self) -> bool:
        """Whether work on it is kept when this process ends."""
        return self.cache.disabled_reason is None and not self.cache.read_only

    def load(self) -> tuple[list[bytes], list[str]] | None:
        """Modules that are compiled, and the texts of those that follow; None where there are none, or they make no sense."""
        stored = self.cache.load(modules_key(self.key))
        if stored is None:
            return None
        try:
            size = stored.header["texts"]
            texts = zlib.decompress(stored.blob[len(stored.blob) - size :]).decode().split("\0")
            return split_objects(stored.header, stored.blob[: len(stored.blob) - size]), texts
        except Exception:  # whole, but not what this version stores
            return None

    def store(self, objects: Sequence[bytes], texts: Sequence[str]) -> None:
        """Keep modules that are compiled, and the texts of those that follow."""
        if self.lasting:
            sizes, blob = join_objects(objects)
            rest = zlib.compress("\0".join(texts).encode(), 1)
            header = {"name": f"{self.name}, unfinished", "objects": sizes, "texts": len(rest)}
            self.cache.store(modules_key(self.key), header, blob + rest)

    def forget(self) -> None:
        """Remove what is of no use once the kernel is optimised."""
        self.cache.discard(quick_key(self.key), modules_key(self.key))


def quick_key(key: str) -> str:
    """The key of the quick kernel, by that of the optimised one."""
    return make_key(key, "quick")


def modules_key(key: str) -> str:
    """The key of the optimised kernel's modules while they are not complete, by that of the kernel."""
    return make_key(key, "modules")
