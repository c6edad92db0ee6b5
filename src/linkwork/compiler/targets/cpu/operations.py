"""LLVM instructions of the core operations, without fast-math flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linkwork.compiler.targets.cpu.types import Types

_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARE = {"lt": "olt", "le": "ole", "eq": "oeq"}
_INTRINSIC = {"sqrt": "sqrt", "abs": "fabs", "rint": "rint"}


def declarations(t: Types) -> str:
    """Return declarations of the intrinsics that the operations call."""
    one = [f"declare {t.real} @llvm.{name}.{t.suffix}({t.real})" for name in _INTRINSIC.values()]
    fma = f"declare {t.real} @llvm.fma.{t.suffix}({t.real}, {t.real}, {t.real})"
    lines = [*one, fma]
    if t.lanes > 1:
        lines.append(f"declare i1 @llvm.vector.reduce.or.v{t.lanes}i1({t.condition})")
    return "\n".join(lines)


def operation(op: str, out: str, a: Sequence[str], t: Types) -> str:
    """Return the instructions that compute `out` from the values named in `a`."""
    if op == "fma":
        return (
            f"{out} = call {t.real} @llvm.fma.{t.suffix}({t.real} {a[0]}, {t.real} {a[1]}, {t.real} {a[2]})"
        )
    if op in _ARITHMETIC:
        return f"{out} = {_ARITHMETIC[op]} {t.real} {a[0]}, {a[1]}"
    if op in _INTRINSIC:
        return f"{out} = call {t.real} @llvm.{_INTRINSIC[op]}.{t.suffix}({t.real} {a[0]})"
    if op in _COMPARE:
        return f"{out} = fcmp {_COMPARE[op]} {t.real} {a[0]}, {a[1]}"
    return _OTHERS[op](out, a, t)


def _neg(out: str, a: Sequence[str], t: Types) -> str:
    return f"{out} = fneg {t.real} {a[0]}"


def _logic(word: str) -> Callable[[str, Sequence[str], Types], str]:
    return lambda out, a, t: f"{out} = {word} {t.condition} {a[0]}, {a[1]}"


def _not(out: str, a: Sequence[str], t: Types) -> str:
    return f"{out} = xor {t.condition} {a[0]}, {t.constant(True)}"


def _select(out: str, a: Sequence[str], t: Types) -> str:
    return f"{out} = select {t.condition} {a[0]}, {t.real} {a[1]}, {t.real} {a[2]}"


def _extreme(order: str) -> Callable[[str, Sequence[str], Types], str]:
    return lambda out, a, t: (
        f"{out}.c = fcmp {order} {t.real} {a[0]}, {a[1]}\n" + _select(out, [f"{out}.c", a[0], a[1]], t)
    )


_min = _extreme("olt")
_max = _extreme("ogt")


def _pow2(out: str, a: Sequence[str], t: Types) -> str:
    """Return 2**a, clamped; adding 1.5 * 2**fraction leaves the integer in the low bits.

    Shift it into the exponent field.
    """
    low = t.constant(float(1 - t.bias))
    high = t.constant(float(t.bias))
    return "\n".join([
        _max(f"{out}.l", [a[0], low], t),
        _min(f"{out}.k", [f"{out}.l", high], t),
        f"{out}.m = fadd {t.real} {out}.k, {t.constant(1.5 * 2.0**t.fraction)}",
        f"{out}.i = bitcast {t.real} {out}.m to {t.integer}",
        f"{out}.b = add {t.integer} {out}.i, {t.integer_constant(t.bias)}",
        f"{out}.s = shl {t.integer} {out}.b, {t.integer_constant(t.fraction)}",
        f"{out} = bitcast {t.integer} {out}.s to {t.real}",
    ])  # fmt: skip


def _exponent(out: str, a: Sequence[str], t: Types) -> str:
    """Subtract 2**fraction from the field placed in its low bits: exact, without integer conversion."""
    field = 2 * t.bias + 1
    origin = (t.bias + t.fraction) << t.fraction
    return "\n".join([
        f"{out}.i = bitcast {t.real} {a[0]} to {t.integer}",
        f"{out}.r = lshr {t.integer} {out}.i, {t.integer_constant(t.fraction)}",
        f"{out}.f = and {t.integer} {out}.r, {t.integer_constant(field)}",
        f"{out}.o = or {t.integer} {out}.f, {t.integer_constant(origin)}",
        f"{out}.d = bitcast {t.integer} {out}.o to {t.real}",
        f"{out} = fsub {t.real} {out}.d, {t.constant(2.0**t.fraction + t.bias)}",
    ])  # fmt: skip


_OTHERS: dict[str, Callable[[str, Sequence[str], Types], str]] = {
    "neg": _neg,
    "and": _logic("and"),
    "or": _logic("or"),
    "not": _not,
    "select": _select,
    "min": _min,
    "max": _max,
    "pow2": _pow2,
    "exponent": _exponent,
}
