"""Unfinished optimised code: kept in the cache when a process ends, and completed by the next.

Beside a kernel's own entry there may be two others until it is optimised: the quick kernel, so that the next
process starts immediately, and the modules of the optimised one, those already compiled and the texts of the
others.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from linkwork.compiler.runtime.cache import Cache, make_key
from linkwork.compiler.runtime.compiler import join_objects, split_objects
from linkwork.compiler.runtime.signals import reraise_signal


@dataclass(frozen=True)
class Unfinished:
    """Place of a kernel's unfinished code: a cache and the kernel's key."""

    cache: Cache
    key: str
    name: str

    @property
    def lasting(self) -> bool:
        """True if work on it is kept when this process ends."""
        return self.cache.disabled_reason is None and not self.cache.read_only

    def load(self) -> tuple[list[bytes], list[str]] | None:
        """Return the compiled modules and the texts of the following ones; None if absent or invalid."""
        stored = self.cache.load(modules_key(self.key))
        if stored is None:
            return None
        try:
            size = stored.header["texts"]
            texts = zlib.decompress(stored.blob[len(stored.blob) - size :]).decode().split("\0")
            return split_objects(stored.header, stored.blob[: len(stored.blob) - size]), texts
        except Exception as error:  # intact, but of another version
            reraise_signal(error)
            return None

    def store(self, objects: Sequence[bytes], texts: Sequence[str]) -> None:
        """Keep compiled modules and the texts of the following ones."""
        if self.lasting:
            sizes, blob = join_objects(objects)
            compressed_texts = zlib.compress("\0".join(texts).encode(), 1)
            header = {"name": f"{self.name}, unfinished", "objects": sizes, "texts": len(compressed_texts)}
            self.cache.store(modules_key(self.key), header, blob + compressed_texts)

    def forget(self) -> None:
        """Remove entries that are obsolete once the kernel is optimised."""
        self.cache.discard(quick_key(self.key), modules_key(self.key))


def quick_key(key: str) -> str:
    """Return the key of the quick kernel from that of the optimised one."""
    return make_key(key, "quick")


def modules_key(key: str) -> str:
    """Return the key of the optimised kernel's unfinished modules from that of the kernel."""
    return make_key(key, "modules")
