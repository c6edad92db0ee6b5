"""Point sets that fill space evenly, each point found from its index alone: permuted strata and Sobol's
sequence.
"""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np

from linkwork.errors import StudyError
from linkwork.studies.packages import import_optional
from linkwork.studies.philox import stream_key

BITS = 52  # of a point of Sobol's sequence: exact in float64, and enough for 4.5e15 points
MAX_DIMENSIONS = 21_201  # of the table of direction numbers (Joe and Kuo 2008)
_ROUNDS = 6


def permutation(seed: int, name: str, index: np.ndarray, size: int) -> np.ndarray:
    """Return where a keyed permutation of 0 to size - 1 sends indices, (rows,) of uint64.

    A Feistel network permutes the next power of four; indices that leave the range are sent on until they
    return.
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = [
        np.uint64(stream_key(seed, f"permutation {name} {k}") & 0xFFFF_FFFF_FFFF_FFFF) for k in range(_ROUNDS)
    ]
    result = _feistel(index, half, keys)
    while (outside := np.flatnonzero(result >= size)).size:
        result[outside] = _feistel(result[outside], half, keys)
    return result


def _feistel(index: np.ndarray, half: int, keys: list[np.uint64]) -> np.ndarray:
    mask = np.uint64((1 << half) - 1)
    shift = np.uint64(half)
    left = index >> shift
    right = index & mask
    for key in keys:
        left, right = right, left ^ (_mix(right ^ key) & mask)
    return (left << shift) | right


def _mix(x: np.ndarray) -> np.ndarray:
    """Return the finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ (x >> np.uint64(31))


def sobol_points(dimensions: int, first: int, rows: int, shift: np.ndarray | None = None) -> np.ndarray:
    """Return points `first` to `first + rows - 1` of Sobol's sequence, (rows, dimensions), in (0, 1).

    `shift`, (1, dimensions) of 64-bit words, is a digital shift.
    """
    if dimensions > MAX_DIMENSIONS:
        raise StudyError(f"Sobol: expected at most {MAX_DIMENSIONS} scalars, got {dimensions}")
    directions = _direction_numbers(dimensions)
    index = np.arange(first, first + rows, dtype=np.uint64)
    gray = index ^ (index >> np.uint64(1))
    points = np.zeros((rows, dimensions), dtype=np.uint64)
    for bit in range(int(first + rows).bit_length()):
        selected = ((gray >> np.uint64(bit)) & np.uint64(1)).astype(bool)
        points[selected] ^= directions[:, bit]
    if shift is not None:
        points ^= shift >> np.uint64(64 - BITS)
    return (points + 0.5) * 2.0**-BITS


@lru_cache(maxsize=8)
def _direction_numbers(dimensions: int) -> np.ndarray:
    """Return SciPy's direction numbers, (dimensions, bits), compared with SciPy's own points."""
    qmc = import_optional("scipy.stats", "the Sobol sampler").qmc
    engine = qmc.Sobol(dimensions, scramble=False, bits=BITS)
    directions = np.array(getattr(engine, "_sv", ()), dtype=np.uint64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers of points that are no powers of two
        expected = engine.random(33)
    point = np.zeros(dimensions, dtype=np.uint64)
    for k in range(33):
        if directions.shape != (dimensions, BITS) or not np.array_equal(point * 2.0**-BITS, expected[k]):
            raise StudyError(
                "Sobol: the direction numbers of this version of SciPy cannot be read: use another version"
            )
        point = point ^ directions[:, ((k + 1) & -(k + 1)).bit_length() - 1]
    return directions
