"""Compute the polynomials and constants of `linkwork.compiler.passes.elementary` and print their module.

    python tools/minimax.py > src/linkwork/compiler/passes/elementary/coefficients.py

Every polynomial minimises the largest weighted error over an interval (Remez exchange on a fine grid, in high
precision). Its coefficients are rounded one at a time, the constant term first, and the others are fitted again
to the remainder. `--errors` prints the largest weighted error of each polynomial instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import numpy as np

mp.mp.prec = 200

Function = Callable[[mp.mpf], mp.mpf]
DIGITS = {"float64": 53, "float32": 24}


class Fit(NamedTuple):
    """A polynomial of `terms` coefficients close to `target` on [low, high]; `weight` says how much an error
    counts.
    """

    target: Function
    weight: Function
    low: mp.mpf
    high: mp.mpf
    terms: dict[str, int]  # by dtype


def odd(f: Function, high: mp.mpf, terms: dict[str, int]) -> Fit:
    """Return P in f(x) = x + x z P(z), z = x x, of least relative error for an odd function with f'(0) = 1."""

    def slope(z: mp.mpf) -> mp.mpf:
        return f(mp.sqrt(z)) / mp.sqrt(z)

    return Fit(lambda z: (slope(z) - 1) / z, lambda z: z / slope(z), mp.mpf(0), high**2, terms)


# At the ends of the documented range, rounding in x * (2 / pi) moves the borders between quadrants by up to
# 1.31 %.
QUARTER = mp.pi / 4 * mp.mpf("1.0132")

FITS = {
    "sin": odd(mp.sin, QUARTER, {"float64": 6, "float32": 3}),
    "cos": Fit(  # cos x = 1 + z P(z)
        lambda z: (mp.cos(mp.sqrt(z)) - 1) / z,
        lambda z: z,
        mp.mpf(0),
        QUARTER**2,
        {"float64": 6, "float32": 3},
    ),
    "atan": odd(mp.atan, mp.mpf("0.3751"), {"float64": 10, "float32": 4}),
    "asin": odd(mp.asin, mp.mpf("0.5"), {"float64": 12, "float32": 5}),
    "exp": Fit(  # e^r = 1 + r + r r P(r)
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 / mp.exp(r),
        -mp.ln2 / 2 * mp.mpf("1.001"),
        mp.ln2 / 2 * mp.mpf("1.001"),
        {"float64": 10, "float32": 5},
    ),
    "log": Fit(  # log((1 + s) / (1 - s)) = 2 s + s z P(z), z = s s
        lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z,
        lambda z: z / 2,
        mp.mpf(0),
        ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001"),
        {"float64": 7, "float32": 3},
    ),
}


def rounded(x: mp.mpf, dtype: str) -> mp.mpf:
    """Return x rounded to the dtype (none of the numbers here is subnormal)."""
    with mp.workprec(DIGITS[dtype]):
        return +x


def parts(x: mp.mpf, count: int, dtype: str) -> list[mp.mpf]:
    """Return numbers of the dtype whose partial sums approach x."""
    out = []
    for _ in range(count):
        out.append(rounded(x, dtype))
        x -= out[-1]
    return out


def extrema(error: list[mp.mpf], wanted: int) -> list[int]:
    """Return positions of `wanted` local extrema of alternating sign, among them the largest."""
    found: list[int] = []
    for i, e in enumerate(error):
        if found and (error[found[-1]] > 0) == (e > 0):
            if abs(e) > abs(error[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    while len(found) > wanted:  # drop from the ends, so that signs go on alternating
        del found[0 if abs(error[found[0]]) < abs(error[found[-1]]) else -1]
    return found


class Samples(NamedTuple):
    """A function and its weight on a grid."""

    grid: list[mp.mpf]
    target: list[mp.mpf]
    weight: list[mp.mpf]

    def errors(self, polynomial: list[mp.mpf]) -> list[mp.mpf]:
        """Return the weighted error at every point."""
        out = []
        for z, t, w in zip(*self):
            value = mp.mpf(0)
            for c in reversed(polynomial):
                value = value * z + c
            out.append(w * (t - value))
        return out


def minimax(at: Samples, terms: int) -> list[mp.mpf]:
    """Return the minimax polynomial by exchange."""
    count = len(at.grid)
    nodes = [(2 * i + 1) * count // (2 * terms + 2) for i in range(terms + 1)]
    for _ in range(30):
        rows = [
            [at.grid[j] ** p for p in range(terms)] + [(-1) ** i / at.weight[j]] for i, j in enumerate(nodes)
        ]
        *found, level = mp.lu_solve(mp.matrix(rows), mp.matrix([at.target[j] for j in nodes]))
        error = at.errors(found)
        better = extrema(error, terms + 1)
        if max(map(abs, error)) < abs(level) * mp.mpf("1.001") or len(better) <= terms:
            return found
        nodes = better
    raise RuntimeError("the exchange does not settle")


def fit(job: Fit, dtype: str) -> tuple[list[mp.mpf], mp.mpf]:
    """Return rounded coefficients, constant term first, and the largest weighted error."""
    terms = job.terms[dtype]
    count = 60 * terms
    middle = (job.low + job.high) / 2
    half = (job.high - job.low) / 2
    grid = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    at = whole = Samples(grid, [job.target(z) for z in grid], [job.weight(z) for z in grid])
    found = [rounded(c, dtype) for c in minimax(whole, terms)]
    if job.low >= 0:  # else z P(z) changes its sign inside, and the exchange would not hold for the rest
        for k in range(1, terms):
            rest = [(t - found[k - 1]) / z for t, z in zip(at.target, grid)]
            at = Samples(grid, rest, [w * z for w, z in zip(at.weight, grid)])
            found[k:] = [rounded(c, dtype) for c in minimax(at, terms - k)]
    return found, max(map(abs, whole.errors(found)))


def text(numbers: list[mp.mpf], dtype: str) -> str:
    """Return the numbers as a Python tuple, four per line."""
    words = [repr(np.dtype(dtype).type(float(x)).item()) for x in numbers]
    if len(words) <= 3:
        return f"({', '.join(words)}{',' if len(words) == 1 else ''})"
    lines = ["            " + ", ".join(words[i : i + 4]) + "," for i in range(0, len(words), 4)]
    return "(\n" + "\n".join(lines) + "\n        )"


def module() -> str:
    """Return the text of coefficients.py."""
    lines = [
        '"""Polynomials and constants of the elementary functions; generated by tools/minimax.py, do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import NamedTuple",
        "",
        "",
        "class Coefficients(NamedTuple):",
        '    """Coefficients for one dtype: polynomials, constant term first, and sums of parts, largest first."""',
        "",
        *[
            f"    {name}: tuple[float, ...]"
            for name in [*FITS, "half_pi", "two_over_pi", "atan_half", "ln2", "log2_e"]
        ],
        "",
        "",
        "COEFFICIENTS = {",
    ]
    for dtype in DIGITS:
        constants = {
            "half_pi": parts(mp.pi / 2, 3, dtype),
            "two_over_pi": parts(2 / mp.pi, 1, dtype),
            "atan_half": parts(mp.atan(mp.mpf("0.5")), 2, dtype),
            "ln2": parts(mp.ln2, 2, dtype),
            "log2_e": parts(1 / mp.ln2, 1, dtype),
        }
        lines.append(f'    "{dtype}": Coefficients(')
        lines += [f"        {name}={text(fit(job, dtype)[0], dtype)}," for name, job in FITS.items()]
        lines += [f"        {name}={text(numbers, dtype)}," for name, numbers in constants.items()]
        lines.append("    ),")
    return "\n".join([*lines, "}"])


def main() -> None:
    """Print the module, or the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--errors", action="store_true", help="print the largest weighted error of each polynomial"
    )
    if parser.parse_args().errors:
        for dtype, digits in DIGITS.items():
            for name, job in FITS.items():
                error = mp.nstr(fit(job, dtype)[1] * 2**digits, 3)
                print(f"{dtype} {name:5} {error} units of 2**-{digits}", flush=True)
    else:
        print(module())


if __name__ == "__main__":
    main()
