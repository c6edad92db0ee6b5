"""Programs in 60-digit arithmetic, where rounding vanishes; sample programs, and what holds for their
derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mpmath
import numpy as np

from linkwork.compiler.autodiff import differentiate as d
from linkwork.compiler.autodiff.differentiate import jacobian, jvp, vjp
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.functions import (
    absolute,
    acos,
    asin,
    atan2,
    cos,
    exp,
    exponent,
    fma,
    log,
    maximum,
    minimum,
    pow2,
    rint,
    sin,
    sqrt,
    where,
)
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.ir.trace import trace

mp = mpmath.mp.clone()
mp.dps = 60
mpf = mp.mpf


def _pow2(a: Any) -> Any:
    return mp.ldexp(1, int(min(max(mp.nint(a), -1022), 1023)))


def _exponent(a: Any) -> Any:
    return mpf(-1023) if a == 0 else mpf(mp.frexp(a)[1] - 1)


OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "fma": lambda a, b, c: a * b + c,
    "sqrt": mp.sqrt,
    "abs": abs,
    "min": lambda a, b: a if a < b else b,
    "max": lambda a, b: a if a > b else b,
    "rint": mp.nint,
    "pow2": _pow2,
    "exponent": _exponent,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
    "select": lambda c, a, b: a if c else b,
    "sin": mp.sin,
    "cos": mp.cos,
    "atan2": mp.atan2,
    "asin": mp.asin,
    "acos": mp.acos,
    "exp": mp.exp,
    "log": mp.log,
}


def _margin(op: str, args: list[Any]) -> Any:
    """How far the arguments of a stepwise or bent operation are from the place where it jumps or bends."""
    if op in ("lt", "le", "eq", "min", "max"):
        return abs(args[0] - args[1])
    if op == "abs":
        return abs(args[0])
    if op in ("rint", "pow2"):
        return abs(args[0] - mp.floor(args[0]) - mpf(0.5))
    if op == "exponent":
        ratio = abs(args[0]) * mp.ldexp(1, -int(_exponent(args[0])))
        return min(ratio - 1, 2 - ratio)
    if op == "atan2":
        return abs(args[0]) if args[1] < 0 else max(abs(args[0]), args[1])
    return mpf(1)


def run(program: Program, inputs: list[list[Any]], margins: list[Any] | None = None) -> list[Any]:
    """All values of a program; `margins` collects the distance from every jump and bend."""
    values: list[Any] = []
    for op, args, attr in program.code:
        if op == "const":
            values.append(attr if isinstance(attr, bool) else mpf(attr))
        elif op == "input":
            values.append(inputs[attr[0]][attr[1]])
        elif isinstance(attr, BoundedLoop):
            values.append(_run_loop(attr, [values[a] for a in args], margins))
        elif op == "result":
            values.append(values[args[0]][attr])
        else:
            given = [values[a] for a in args]
            if margins is not None:
                margins.append(_margin(op, given))
            values.append(OPS[op](*given))
    return values


def _run_loop(loop: BoundedLoop, args: list[Any], margins: list[Any] | None) -> list[Any]:
    state = args[: loop.states]
    outer = args[loop.states :]
    for _ in range(loop.limit):
        values = run(loop.body, [state, outer], margins)
        state = [values[v] for v in loop.body.results[0]]
        if not values[loop.body.results[1][0]]:
            break
    return state


def mp_interpret(
    program: Program, inputs: Mapping[str, Any], margins: list[Any] | None = None
) -> dict[str, np.ndarray]:
    """The outputs of a program as object arrays of mpf, by name."""
    assert set(inputs) == {a.name for a in program.inputs}
    flat = []
    for array in program.inputs:
        cells = np.asarray(inputs[array.name], dtype=object)
        assert cells.shape == array.shape, array
        flat.append([mpf(c) for c in cells.ravel()])
    values = run(program, flat, margins)
    outputs = {}
    for array, wanted in zip(program.outputs, program.results, strict=True):
        cells = np.empty(array.size, dtype=object)
        cells[:] = [values[v] for v in wanted]
        outputs[array.name] = cells.reshape(array.shape)
    return outputs


def difference(
    program: Program, inputs: Mapping[str, Any], direction: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The directional derivative of every output by a central difference: good to about 35 digits."""
    h = mpf(10) ** -20
    moved = []
    for sign in (1, -1):
        shifted = {n: np.asarray(x, dtype=object) + mpf(0) for n, x in inputs.items()}
        for name, move in direction.items():
            shifted[name] = shifted[name] + np.asarray(move, dtype=object) * (sign * h)
        moved.append(mp_interpret(program, shifted))
    return {n: (moved[0][n] - moved[1][n]) / (2 * h) for n in moved[0]}


def close(got, want, digits: int = 20) -> None:
    """Assert that two arrays agree to so many digits of the largest number (or of one, if that is larger)."""
    got = np.asarray(got, dtype=object).ravel()
    want = np.asarray(want, dtype=object).ravel()
    assert got.shape == want.shape
    size = max([mpf(1), *(abs(w) for w in want)])
    for g, w in zip(got, want, strict=True):
        assert abs(g - w) <= size * mpf(10) ** -digits, f"{g} is not {w}"


# Sample programs that use every operation and stay away from poles. Constants are short binary fractions:
# then those that the builder folds in float64 stay exact, too.

STEPS = {
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "div": lambda a, b, c: a / (b * b + 0.5),
    "neg": lambda a, b, c: sin(-a),  # products and sums swallow a bare sign
    "fma": lambda a, b, c: fma(a, b, c),
    "sqrt": lambda a, b, c: sqrt(a * a + 0.25),
    "abs": lambda a, b, c: absolute(a),
    "min": lambda a, b, c: minimum(a, b),
    "max": lambda a, b, c: maximum(a, b),
    "lt": lambda a, b, c: where(a < b, c, a),
    "le": lambda a, b, c: where((a <= b) & (c > 0.25), a, b),
    "eq": lambda a, b, c: where((a != b) | (b < c), a * c, b),
    "rint": lambda a, b, c: rint(a) * b,
    "pow2": lambda a, b, c: pow2(rint(sin(a) * 2.0)) * b,
    "exponent": lambda a, b, c: exponent(a) * b,
    "sin": lambda a, b, c: sin(a),
    "cos": lambda a, b, c: cos(a),
    "atan2": lambda a, b, c: atan2(a, b),
    "asin": lambda a, b, c: asin(a / (a * a + 1.0)),
    "acos": lambda a, b, c: acos(b / (b * b + 1.0)),
    "exp": lambda a, b, c: exp(sin(a)),
    "log": lambda a, b, c: log(a * a + 0.5),
    "const": lambda a, b, c: 0.75 * a - 1.25,
}
POINT = {"x": [0.7, -1.3, 0.4], "y": 2.2}


def program_of(steps: list[tuple[str, int, int, int]]) -> Program:
    """The program of a list of steps, each the name of one and three places in the pool of values so far."""

    def chain(x, y):
        pool = [*x, y]
        for name, i, j, k in steps:
            made = STEPS[name](*(pool[-1 - n % len(pool)] for n in (i, j, k)))
            pool.append(made if isinstance(made, Symbol) else pool[-1] * 0.5)
        return {"p": np.array(pool[-2:], dtype=object), "q": pool[-1 - len(pool) // 3] * pool[-1]}

    return trace(chain, {"x": 3, "y": ()})


# The laws of differentiation


def directions(program: Program, wrt: list[str]) -> dict[str, np.ndarray]:
    """Some direction for each of the inputs in `wrt`."""
    sizes = {a.name: a.shape for a in program.inputs}
    return {
        n: np.cos(3.0 + np.arange(np.prod(sizes[n], dtype=int)) + k).reshape(sizes[n])
        for k, n in enumerate(wrt)
    }


def dot(a: dict, b: dict) -> object:
    """The scalar product of arrays by name."""
    return sum((np.asarray(a[n] * b[n], dtype=object).sum() for n in a), mpf(0))


def jacobian_by(mode, program, row, column):
    """The program with one Jacobian, made in one mode."""
    return d._jacobians(mode, program, [row], [column], {}, {}, values=True)


def check_laws(program: Program, point: dict, reverse: bool = True, digits: int = 20) -> None:
    """jvp is the difference; vjp is its transpose; jacobian's columns are jvp of unit vectors; outputs stay."""
    wrt = [a.name for a in program.inputs]
    move = directions(program, wrt)
    plain = mp_interpret(program, point)
    forward = mp_interpret(check(jvp(program)), {**point, **{f"d_{n}": v for n, v in move.items()}})
    for name, want in difference(program, point, move).items():
        close(forward[name], plain[name], 50)
        close(forward[f"d_{name}"], want, digits)
    if reverse:
        bars = {a.name: np.sin(1.0 + np.arange(a.size)).reshape(a.shape) for a in program.outputs}
        back = mp_interpret(check(vjp(program)), {**point, **{f"bar_{n}": v for n, v in bars.items()}})
        tangents = {n: forward[f"d_{n}"] for n in bars}
        close(dot({n: back[f"bar_{n}"] for n in wrt}, move), dot(bars, tangents), digits)
    for of in program.outputs:
        for by in program.inputs:
            row = program.outputs.index(of)
            column = program.inputs.index(by)
            made = [jacobian(program, of.name, by.name), jacobian_by(d._Forward, program, row, column)]
            if reverse:
                made.append(jacobian_by(d._Reverse, program, row, column))
            assert d._operations(made[0]) == min(map(d._operations, made))
            tangent = jvp(program, by.name)
            for p in made:
                full = mp_interpret(check(p), point)[f"d_{of.name}_d_{by.name}"]
                assert full.shape == of.shape + by.shape
                for e in range(by.size):
                    unit = np.zeros(by.size)
                    unit[e] = 1.0
                    want = mp_interpret(tangent, {**point, f"d_{by.name}": unit.reshape(by.shape)})[
                        f"d_{of.name}"
                    ]
                    close(full.reshape(of.size, by.size)[:, e], want, digits)
