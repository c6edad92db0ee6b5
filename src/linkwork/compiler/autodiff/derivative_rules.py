"""Derivative rules of the operations, one per operation for both modes.

A rule says how small changes of the arguments change the result. Forward mode applies it from arguments to
result (`push`), reverse mode from result to arguments (`pull`). Rules reuse the values that the program
already computed, so nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.program import Program


class Term(NamedTuple):
    """Addend of a derivative: plus or minus `factor` times the change of the argument at `position`.

    A factor of None is one.
    """

    position: int
    factor: int | None = None
    minus: bool = False


class Linear(NamedTuple):
    """Linear rule: the change of the result is the sum of the terms, divided by `divisor` if there is one."""

    terms: tuple[Term, ...]
    divisor: int | None = None

    def scaled(self, b: Builder) -> Linear:
        """Return the rule without the divisor: one division per term instead of one per direction."""
        if self.divisor is None:
            return self
        one = b.constant(1.0)
        divided = (b.apply("div", one if t.factor is None else t.factor, self.divisor) for t in self.terms)
        return Linear(tuple(t._replace(factor=f) for t, f in zip(self.terms, divided, strict=True)))


class Branch(NamedTuple):
    """Rule of a selection: the change of argument `if_true` where the condition holds, else of `if_false`."""

    condition: int
    if_true: int
    if_false: int


class GuardedTerm(NamedTuple):
    """Addend of a derivative in reverse mode: plus or minus a value, which counts where all `guards` hold.

    A guard is a condition and its required truth value. Elsewhere the value may be anything, also NaN.
    """

    value: int
    minus: bool = False
    guards: frozenset[tuple[int, bool]] = frozenset()


Values = tuple[int, ...]
Changes = dict[int, int]  # direction (or output) -> derivative; zero where missing
DerivativeRule = Callable[[Builder, Values, int], Linear | Branch]  # builder, arguments, result


def _mul(b: Builder, args: Values, _: int) -> Linear:
    x, y = args
    if x == y:  # 2 x is shared by all directions
        return Linear((Term(0, b.apply("add", x, x)),))
    return Linear((Term(0, y), Term(1, x)))


def _abs(b: Builder, args: Values, _: int) -> Linear:
    below = b.apply("lt", args[0], b.constant(0.0))  # at zero the sign is +
    return Linear((Term(0, b.apply("select", below, b.constant(-1.0), b.constant(1.0))),))


def _atan2(b: Builder, args: Values, _: int) -> Linear:
    y, x = args
    square = b.apply("add", b.apply("mul", x, x), b.apply("mul", y, y))
    return Linear((Term(0, x), Term(1, y, minus=True)), square)


def _arc_root(b: Builder, x: int) -> int:
    """Return sqrt(1 - x x), as a product that is accurate near |x| = 1."""
    one = b.constant(1.0)
    return b.apply("sqrt", b.apply("mul", b.apply("sub", one, x), b.apply("add", one, x)))


RULES: dict[str, DerivativeRule] = {
    "add": lambda b, a, v: Linear((Term(0), Term(1))),
    "sub": lambda b, a, v: Linear((Term(0), Term(1, minus=True))),
    "mul": _mul,
    "div": lambda b, a, v: Linear((Term(0), Term(1, v, minus=True)), a[1]),
    "neg": lambda b, a, v: Linear((Term(0, minus=True),)),
    "fma": lambda b, a, v: Linear((Term(0, a[1]), Term(1, a[0]), Term(2))),
    "sqrt": lambda b, a, v: Linear((Term(0, b.apply("div", b.constant(0.5), v)),)),
    "abs": _abs,
    "min": lambda b, a, v: Branch(b.apply("lt", a[0], a[1]), 0, 1),
    "max": lambda b, a, v: Branch(b.apply("lt", a[1], a[0]), 0, 1),
    "select": lambda b, a, v: Branch(a[0], 1, 2),
    "sin": lambda b, a, v: Linear((Term(0, b.apply("cos", a[0])),)),
    "cos": lambda b, a, v: Linear((Term(0, b.apply("sin", a[0]), minus=True),)),
    "atan2": _atan2,
    "asin": lambda b, a, v: Linear((Term(0),), _arc_root(b, a[0])),
    "acos": lambda b, a, v: Linear((Term(0, minus=True),), _arc_root(b, a[0])),
    "exp": lambda b, a, v: Linear((Term(0, v),)),
    "log": lambda b, a, v: Linear((Term(0),), a[0]),
}

# Step functions and conditions: the derivative is zero wherever it exists.
ZERO_DERIVATIVE = frozenset({"rint", "pow2", "exponent", "lt", "le", "eq", "and", "or", "not"})


def differentiable_operands(op: str, args: Values) -> Values:
    """Return the arguments through which a change can reach the result."""
    if op == "select":
        return args[1:]
    return args if op in RULES or op in ("loop", "result") else ()


# Sums and products of derivatives. None is a structural zero, for which no instruction is made.


def nonzero(b: Builder, value: int) -> int | None:
    """Return the value, or None if it is the constant zero."""
    return None if b.number(value) == 0 else value


def times(b: Builder, factor: int | None, change: int) -> int | None:
    """Return factor * change; a factor of None counts as one."""
    if factor is None:
        return change
    if b.number(factor) == 0:
        return None
    return nonzero(b, b.apply("mul", factor, change))


def plus(b: Builder, total: int | None, addend: int | None, minus: bool = False) -> int | None:
    """Return total + addend, or total - addend."""
    if addend is None:
        return total
    if total is None:
        return b.apply("neg", addend) if minus else addend
    if not minus:
        return nonzero(b, b.apply("add", total, addend))
    return None if total == addend else nonzero(b, b.apply("sub", total, addend))


def select_or_zero(b: Builder, condition: int, if_true: int | None, if_false: int | None) -> int | None:
    """Return if_true where the condition holds, else if_false."""
    if if_true is None and if_false is None:
        return None
    zero = b.constant(0.0)
    return nonzero(
        b,
        b.apply(
            "select", condition, zero if if_true is None else if_true, zero if if_false is None else if_false
        ),
    )


def entry(b: Builder, change: Changes, direction: int) -> int:
    """Return the derivative in one direction as a value, the constant zero if it has none."""
    value = change.get(direction)
    return b.constant(0.0) if value is None else value


def push(b: Builder, rule: Linear | Branch, arg_changes: list[Changes]) -> Changes:
    """Return the changes of a result from the changes of its arguments."""
    change: Changes = {}
    if isinstance(rule, Branch):
        for d in sorted(arg_changes[rule.if_true].keys() | arg_changes[rule.if_false].keys()):
            value = select_or_zero(
                b, rule.condition, arg_changes[rule.if_true].get(d), arg_changes[rule.if_false].get(d)
            )
            if value is not None:
                change[d] = value
        return change
    rule = rule._replace(terms=tuple(t for t in rule.terms if arg_changes[t.position]))
    directions = sorted(set().union(*(arg_changes[t.position] for t in rule.terms)))
    if len(directions) > 1:
        rule = rule.scaled(b)
    for d in directions:
        total: int | None = None
        for position, factor, minus in rule.terms:
            if d in arg_changes[position]:
                total = plus(b, total, times(b, factor, arg_changes[position][d]), minus)
        if total is not None:
            change[d] = total if rule.divisor is None else b.apply("div", total, rule.divisor)
    return change


def pull(
    b: Builder, rule: Linear | Branch, bars: dict[int, GuardedTerm], requested: Sequence[bool]
) -> Iterator[tuple[int, int, GuardedTerm]]:
    """Yield the contributions to the derivatives by the arguments: (position, output, addend).

    `bars` are the derivatives of each output by the result, none with a minus; `requested` tells for every
    argument if its derivative is requested.
    """
    if isinstance(rule, Branch):
        holds = b.number(rule.condition)
        for row, (bar, _, guards) in bars.items():
            for position, side in ((rule.if_true, True), (rule.if_false, False)):
                if requested[position] and (holds is None or bool(holds) == side):
                    new_guards = frozenset() if holds is not None else {(rule.condition, side)}
                    yield position, row, GuardedTerm(bar, guards=guards | new_guards)
        return
    rule = rule._replace(terms=tuple(t for t in rule.terms if requested[t.position]))
    if len(bars) > 1:
        rule = rule.scaled(b)
    for row, (bar, _, guards) in bars.items():
        weight = bar if rule.divisor is None else b.apply("div", bar, rule.divisor)
        for position, factor, minus in rule.terms:
            if (value := times(b, factor, weight)) is not None:
                yield position, row, GuardedTerm(value, minus, guards)


def where_guards_hold(b: Builder, value: int, guards: Iterable[tuple[int, bool]]) -> int | None:
    """Return the value where all guards hold, else zero."""
    counts: int | None = value
    for condition, side in sorted(guards):
        counts = (
            select_or_zero(b, condition, counts, None) if side else select_or_zero(b, condition, None, counts)
        )
    return counts


def sum_of_parts(b: Builder, parts: Sequence[GuardedTerm]) -> GuardedTerm | None:
    """Return the sum of addends; guards that all of them share stay, the others are applied here."""
    shared = frozenset.intersection(*(part.guards for part in parts))
    signed_values = [(where_guards_hold(b, part.value, part.guards - shared), part.minus) for part in parts]
    total = signed_sum(b, [(value, minus) for value, minus in signed_values if value is not None])
    return None if total is None else GuardedTerm(total, guards=shared)


def signed_sum(b: Builder, parts: list[tuple[int, bool]]) -> int | None:
    """Return the sum of (value, subtract) pairs; positive ones come first, which saves a negation."""
    if not parts:
        return None
    if all(minus for _, minus in parts):
        return plus(b, None, signed_sum(b, [(value, False) for value, _ in parts]), minus=True)
    total: int | None = None
    for value, minus in sorted(parts, key=lambda part: part[1]):
        total = plus(b, total, value, minus)
    return total


def affects(program: Program, targets: Iterable[int]) -> list[bool]:
    """Return for every value if a small change of it can change one of the target values."""
    is_influential = [False] * len(program.code)
    for value in targets:
        is_influential[value] = True
    for value in range(len(is_influential) - 1, -1, -1):
        if is_influential[value]:
            for a in differentiable_operands(program.code[value].op, program.code[value].args):
                is_influential[a] = True
    return is_influential
