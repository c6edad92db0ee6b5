"""Measure the largest errors of elementary functions, in units in the last place (ulp) of the true result.

    python bench/elementary.py --points 1000000

Points are checked by extended precision first, and the worst of them by mpmath. Where extended precision is not
reliable (sin and cos next to their zeros, or a machine without it), mpmath checks all.
tests/compiler/test_elementary.py uses this module too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import mpmath as mp
import numpy as np

from linkwork.compiler.ir import functions
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.expand import expand

NAMES = ("sin", "cos", "atan2", "asin", "acos", "exp", "log")
DTYPES = ("float64", "float32")
EXTENDED = np.longdouble
NUMPY = {"atan2": np.arctan2, "asin": np.arcsin, "acos": np.arccos}
CANDIDATES = 1000  # points that mpmath judges after extended precision chose them
ANGLE_LIMIT = {"float64": 2.0**45, "float32": 2.0**16}


class Points(NamedTuple):
    """Arguments of one function: one array, or y and x for atan2."""

    label: str
    args: tuple[np.ndarray, ...]
    delicate: bool = False  # extended precision is not to be trusted


class Worst(NamedTuple):
    """The largest error and where it is."""

    error: float
    args: tuple[float, ...]
    got: float


def program(name: str, dtype: str) -> Program:
    """Return one expanded function as a program of scalars."""
    fn = getattr(functions, name)
    traced = trace(fn, {"y": (), "x": ()} if name == "atan2" else {"x": ()}, name=name)
    return check(expand(traced.with_dtype(dtype)), core_only=True)


def true_value(name: str, args: tuple[float, ...]) -> mp.mpf:
    """Return the function to 150 bits; the reduction of large angles uses as many more as it needs."""
    with mp.workprec(150):
        return getattr(mp, name)(*(mp.mpf(float(a)) for a in args))


def error_in_ulp(got: float, true: mp.mpf, dtype: str) -> float:
    """Return the distance from the true value in ulp of the true value; inf if only one is infinite or NaN."""
    info = np.finfo(dtype)
    if mp.isnan(true) or np.isnan(got):
        return 0.0 if mp.isnan(true) and np.isnan(got) else np.inf
    with mp.workprec(150):
        largest = mp.mpf(float(info.max))
        if abs(true) > largest * (1 + mp.mpf(float(info.epsneg)) / 2):  # rounds to infinity
            return 0.0 if got == (np.inf if true > 0 else -np.inf) else np.inf
        if np.isinf(got):
            return np.inf
        power = mp.frexp(true)[1] - 1 if true else info.minexp
        ulp = mp.ldexp(1, max(power, int(info.minexp)) - info.nmant)
        return float(abs(mp.mpf(float(got)) - true) / ulp)


def _quick_errors(name: str, args: tuple[np.ndarray, ...], got: np.ndarray) -> np.ndarray:
    """Return the same error for every point, by extended precision."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        true = NUMPY.get(name, getattr(np, name, None))(*(a.astype(EXTENDED) for a in args))
        power = np.maximum(np.frexp(true)[1] - 1, info.minexp)
        error = np.abs(got.astype(EXTENDED) - true) / np.ldexp(EXTENDED(1), power - info.nmant)
    finite = np.isfinite(got) & (np.abs(true) <= EXTENDED(info.max))
    beyond = (got == np.copysign(np.inf, true).astype(got.dtype)) & (
        np.abs(true) > EXTENDED(info.max) * 1.001
    )
    agreed = beyond | (np.isnan(got) & np.isnan(true))
    return np.where(finite, error, np.where(agreed, 0.0, 1e6)).astype(
        float
    )  # mpmath decides about the others


def worst(name: str, points: Points, dtype: str, run: Program | None = None) -> Worst:
    """Return the largest error over some points."""
    run = run or program(name, dtype)
    args = tuple(np.asarray(a, dtype=dtype) for a in points.args)
    got = np.concatenate(
        [interpret(run, *(a[i : i + 100_000] for a in args)) for i in range(0, len(args[0]), 100_000)]
    )
    chosen = np.arange(len(got))
    if not points.delicate and np.finfo(EXTENDED).nmant >= 63 and len(got) > CANDIDATES:
        chosen = np.argpartition(_quick_errors(name, args, got), -CANDIDATES)[-CANDIDATES:]
    result = Worst(-1.0, (), 0.0)
    for i in chosen:
        at = tuple(a[i].item() for a in args)
        error = error_in_ulp(got[i].item(), true_value(name, at), dtype)
        if error > result.error:
            result = Worst(error, at, got[i].item())
    return result


def _spread(rng: np.random.Generator, low: float, high: float, count: int, dtype: str) -> np.ndarray:
    """Return numbers of either sign with evenly distributed binary exponents."""
    size = np.ldexp(rng.uniform(1.0, 2.0, count), np.floor(rng.uniform(low, high, count)).astype(int))
    return (size * rng.choice([-1.0, 1.0], count)).astype(dtype)


def _near(centre: np.ndarray, rng: np.random.Generator, dtype: str) -> np.ndarray:
    """Return numbers at most 3 steps away from the given ones."""
    bits = centre.astype(dtype).view(f"i{np.dtype(dtype).itemsize}")
    return (bits + rng.integers(-3, 4, len(centre)).astype(bits.dtype)).view(dtype)


def _near_zeros_of_sine(rng: np.random.Generator, count: int, dtype: str) -> np.ndarray:
    """Return angles next to multiples of pi / 2, small and large ones alike."""
    limit = ANGLE_LIMIT[dtype] * 0.6
    k = np.floor(np.exp(rng.uniform(0.0, np.log(limit), count)))
    with mp.workprec(150):
        centre = np.array([float(int(n) * mp.pi / 2) for n in k])
    return _near(centre * rng.choice([-1.0, 1.0], count), rng, dtype)


def sweep(name: str, dtype: str, count: int, seed: int = 1) -> Iterator[Points]:
    """Yield points of every range that matters to a function, about `count` in all."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    # exponents: subnormals included
    least = info.minexp - info.nmant
    most = info.maxexp - 1
    if name in ("sin", "cos"):
        limit = ANGLE_LIMIT[dtype]
        yield Points("|x| <= pi", (rng.uniform(-np.pi, np.pi, count // 4),))
        yield Points("|x| <= 1000", (rng.uniform(-1e3, 1e3, count // 4),))
        border = rng.integers(-50, 50, count // 4) + rng.uniform(0.48, 0.52, count // 4)
        yield Points("where quadrants meet", (border * (np.pi / 2),))
        yield Points(f"|x| <= 2**{int(np.log2(limit))}", (rng.uniform(-limit, limit, count // 8),))
        yield Points("tiny to huge", (_spread(rng, least, np.log2(limit), count // 8, dtype),))
        delicate = min(count // 8, 20_000)
        yield Points("near multiples of pi / 2", (_near_zeros_of_sine(rng, delicate, dtype),), delicate=True)
    elif name == "atan2":
        around = rng.uniform(-np.pi, np.pi, count // 2)
        yield Points("around the circle", (np.sin(around), np.cos(around)))
        x = _spread(rng, -3.0, 3.0, count // 4, "float64")
        slopes = rng.choice([0.0, 0.375, 0.5, 0.72, 1.0, 2.0, 8 / 3, 1 / 0.72], count // 4)
        yield Points("near the borders of formulas", (_near(x * slopes + 1e-30, rng, dtype), x))
        for label, low, high, share in (
            ("alike in size", -4, 4, 8),
            ("of all sizes", least, most + 1, 16),
            ("subnormal", least, info.minexp + 3, 16),
            ("huge", most - 3, most + 1, 16),
        ):
            yield Points(label, tuple(_spread(rng, low, high, count // share, dtype) for _ in range(2)))
    elif name in ("asin", "acos"):
        yield Points("[-1, 1]", (rng.uniform(-1.0, 1.0, count // 2),))
        yield Points("near 1/2", (_near(rng.choice([-0.5, 0.5], count // 16), rng, dtype),))
        close = 1.0 - np.abs(_spread(rng, -info.nmant - 1, -1.0, count // 4, "float64"))
        yield Points("near 1 and -1", (close * rng.choice([-1.0, 1.0], len(close)),))
        yield Points("tiny to 1", (_spread(rng, least, 0.0, count // 8, dtype),))
    elif name == "exp":
        low = float(mp.log(mp.ldexp(1, least - 1)))
        high = float(mp.log(float(info.max)))
        yield Points("not 0 nor inf", (rng.uniform(low, high, count // 2),))
        yield Points("[-1, 1]", (rng.uniform(-1.0, 1.0, count // 4),))
        yield Points(
            "subnormal results", (rng.uniform(low - 1, float(mp.log(float(info.tiny))) + 1, count // 8),)
        )
        yield Points("near overflow", (rng.uniform(high - 1, high + 1, count // 16),))
        yield Points("tiny to huge", (_spread(rng, least, most + 1, count // 16, dtype),))
    elif name == "log":
        yield Points("[1/2, 2]", (rng.uniform(0.5, 2.0, count // 4),))
        yield Points("near 1", (1.0 + _spread(rng, -info.nmant - 1, -1.0, count // 4, "float64"),))
        yield Points("subnormal to huge", (np.abs(_spread(rng, least, most + 1, count // 4, dtype)),))
        yield Points("subnormal", (np.abs(_spread(rng, least, info.minexp + 3, count // 8, dtype)),))
        borders = np.ldexp(np.sqrt(2.0), rng.integers(-20, 20, count // 8))
        yield Points("near sqrt(2) 2**n", (_near(borders, rng, dtype),))


def table(points: int, only: Sequence[str] = NAMES, seed: int = 1) -> str:
    """Return the Markdown table of the largest error of each function, with `count` points per function and
    dtype.
    """
    lines = ["| function | dtype | points | worst error, ulp | at | range of the worst |", "| --- " * 6 + "|"]
    for name in only:
        for dtype in DTYPES:
            run = program(name, dtype)
            count = 0
            finds = []
            for part in sweep(name, dtype, points, seed):
                finds.append((worst(name, part, dtype, run), part.label))
                count += len(part.args[0])
            found, label = max(finds, key=lambda f: f[0].error)
            at = ", ".join(f"{a!r}" for a in found.args)
            lines.append(
                f"| {name} | {dtype} | {count} | {found.error:.3f} | {at} | {label.replace('|', chr(92) + '|')} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=100_000, help="points per function and dtype")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=NAMES, choices=NAMES, help="functions to measure")
    options = parser.parse_args()
    print(table(options.points, options.only, options.seed))


if __name__ == "__main__":
    main()
