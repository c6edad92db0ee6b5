"""Counter-based random numbers: those of sample i are found from the seed, a name and i alone.

Every random quantity of a study has a Philox stream of its own, keyed by the study's seed and the quantity's
name. Sample i of a quantity with k numbers uses words i k to i k + k - 1 of that stream, so a chunk of
samples is one call of the generator for any first sample.
"""

from __future__ import annotations

import hashlib
import threading
from functools import cache
from typing import Any

import numpy as np

from linkwork.compiler.runtime.results import POOL

WORDS_PER_BLOCK = 4  # of 64 bits, that Philox4x64 makes of one value of its counter
MAX_WORD = 2**64 - 1
PIECE = 32_768  # words that are made at once
MAX_GENERATORS = 1000  # that a thread keeps; a further one costs as much as 1000 words
_threads = threading.local()
_ONE = np.uint64(0x3FF0_0000_0000_0000)  # the bits of 1.0
_BELOW_ONE = 1.0 - 2.0**-53


@cache
def stream_key(seed: int, name: str) -> int:
    """Return the 128-bit key of the stream of a named quantity."""
    return int.from_bytes(hashlib.sha256(f"linkwork study\0{seed}\0{name}".encode()).digest()[:16], "little")


def random_words(seed: int, name: str, first: int, rows: int, size: int) -> np.ndarray:
    """Return the 64-bit words of samples `first` to `first + rows - 1`, (rows, size)."""
    generator, skip = _generator(seed, name, first * size)
    return _next_words(generator, skip + rows * size)[skip:].reshape(rows, size)


def _generator(seed: int, name: str, word: int) -> tuple[np.random.Generator, int]:
    """Return a generator of this thread for a stream, and how many words precede a `word`."""
    block, skip = divmod(word, WORDS_PER_BLOCK)
    known: dict[tuple[int, str], np.random.Generator] | None = getattr(_threads, "generators", None)
    if known is None or len(known) > MAX_GENERATORS:
        known = _threads.generators = {}
    generator = known.get((seed, name))
    if generator is None:
        key = stream_key(seed, name)
        generator = known[seed, name] = np.random.Generator(np.random.Philox(key=key))
    state: Any = generator.bit_generator.state
    state["state"]["counter"][:] = (block & MAX_WORD, block >> 64, 0, 0)
    state["buffer_pos"] = WORDS_PER_BLOCK  # nothing is left of other blocks
    generator.bit_generator.state = state
    return generator, skip


def _next_words(generator: np.random.Generator, count: int) -> np.ndarray:
    # all integers of 64 bits are the raw words, and unlike `random_raw` this releases the interpreter's lock
    return generator.integers(0, MAX_WORD, count, dtype=np.uint64, endpoint=True)


def unit_interval(words: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` with the numbers (2 m + 1) / 2**53, m the upper 52 bits of words, which are overwritten.

    They are exact, lie strictly between 0 and 1, and are symmetric about 1/2.
    """
    words >>= np.uint64(12)
    words |= _ONE
    np.subtract(words.view(np.float64), _BELOW_ONE, out=out)


def uniforms(seed: int, name: str, first: int, rows: int, size: int) -> np.ndarray:
    """Return uniform numbers in (0, 1) of samples `first` to `first + rows - 1`, (rows, size).

    They are made in pieces, so that words need no fresh memory.
    """
    result = POOL.empty((rows, size), np.float64)
    flat = result.reshape(-1)
    generator, skip = _generator(seed, name, first * size)
    if skip:
        _next_words(generator, skip)
    for start in range(0, len(flat), PIECE):
        piece = flat[start : start + PIECE]
        unit_interval(_next_words(generator, len(piece)), piece)
    return result
