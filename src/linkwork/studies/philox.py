"""Counter-based random numbers: those of sample i are found from the seed, a name and i alone.

Every random quantity of a study has a Philox stream of its own, keyed by the study's seed and the quantity's
name. Sample i of a quantity with k numbers uses words i k to i k + k - 1 of that stream, so a chunk of
samples is one call of the generator, whatever its first sample.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

WORDS_PER_BLOCK = 4  # of 64 bits, that Philox4x64 makes of one value of its counter
MAX_WORD = 2**64 - 1
_ONE = np.uint64(0x3FF0_0000_0000_0000)  # the bits of 1.0
_BELOW_ONE = 1.0 - 2.0**-53


@cache
def stream_key(seed: int, name: str) -> int:
    """Return the 128-bit key of the stream of a named quantity."""
    return int.from_bytes(hashlib.sha256(f"linkwork study\0{seed}\0{name}".encode()).digest()[:16], "little")


def random_words(seed: int, name: str, first: int, rows: int, size: int) -> np.ndarray:
    """Return the 64-bit words of samples `first` to `first + rows - 1`, (rows, size)."""
    block, skip = divmod(first * size, WORDS_PER_BLOCK)
    generator = np.random.Generator(np.random.Philox(key=stream_key(seed, name), counter=block))
    # all integers of 64 bits are the raw words, and unlike `random_raw` this releases the interpreter's lock
    words = generator.integers(0, MAX_WORD, skip + rows * size, dtype=np.uint64, endpoint=True)[skip:]
    return words.reshape(rows, size)


def unit_interval(words: np.ndarray) -> np.ndarray:
    """Return the numbers (2 m + 1) / 2**53, m the upper 52 bits of words, which are overwritten.

    They are exact, lie strictly between 0 and 1, and are symmetric about 1/2.
    """
    words >>= np.uint64(12)
    words |= _ONE
    numbers = words.view(np.float64)
    numbers -= _BELOW_ONE
    return numbers


def uniforms(seed: int, name: str, first: int, rows: int, size: int) -> np.ndarray:
    """Return uniform numbers in (0, 1) of samples `first` to `first + rows - 1`, (rows, size)."""
    return unit_interval(random_words(seed, name, first, rows, size))
