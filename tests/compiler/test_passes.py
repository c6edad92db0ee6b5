"""Laws of the passes, the checker, the printer and the builder's exact rules."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import law
from linkwork.compiler.ir import functions as lw
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.operations import BOOL, CORE, OPERATIONS, REAL
from linkwork.compiler.ir.program import Array, BoundedLoop, Instruction, Program
from linkwork.compiler.ir.semantics import SEMANTICS
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes import PASSES, lower
from linkwork.compiler.passes.count import count_operations
from linkwork.compiler.passes.cut import Cutting, cut
from linkwork.compiler.passes.dead import drop_dead
from linkwork.compiler.passes.expand import expand
from linkwork.compiler.passes.schedule import Scheduling, schedule
from linkwork.compiler.passes.sums import order_sums
from linkwork.errors import ProgramError
from programs import (
    CONSTANTS,
    DTYPES,
    SPECIAL,
    allowed_cuts,
    assert_same,
    core_programs,
    cut_into,
    every_operation,
    same_bits,
    seeded_program,
    states,
)

both = pytest.mark.parametrize("dtype", DTYPES)
ordinary = st.floats(-1e6, 1e6, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-6)


def arithmetic(program: Program) -> int:
    """Operations that cost something: all but signs."""
    return sum(1 for op, _, _ in program.code if op in OPERATIONS and op != "neg")


def ops(program: Program) -> Counter[str]:
    return Counter(op for op, _, _ in program.code if op in OPERATIONS)


# order_sums


@st.composite
def sums(draw: st.DrawFn) -> tuple[Program, list[float]]:
    """A random tree of add, sub and neg over inputs and products of inputs, and numbers for the inputs."""
    n = draw(st.integers(1, 12))
    b = Builder()
    leaves = [b.input(0, k) for k in range(n)]
    terms = [
        b.emit("mul", (draw(st.sampled_from(leaves)), draw(st.sampled_from(leaves))))
        if draw(st.booleans())
        else x
        for x in leaves
    ]
    while len(terms) > 1:
        k = draw(st.integers(0, len(terms) - 2))
        x = terms.pop(k)
        y = terms.pop(k)
        if draw(st.integers(0, 3)) == 0:
            x = b.emit("neg", (x,))
        terms.insert(k, b.emit(draw(st.sampled_from(["add", "sub"])), (x, y)))
    shared = draw(
        st.lists(st.sampled_from(range(len(b.code))), max_size=2)
    )  # inner values that are results as well
    results = [*terms, *shared]
    program = b.finish("sums", [Array("x", (n,))], [Array("out", (len(results),))], [results])
    return check(program), draw(st.lists(ordinary, min_size=n, max_size=n))


def exact(program: Program, numbers: list[float]) -> list[tuple[Fraction, Fraction, int]]:
    """Every value as a fraction, the sum of the magnitudes of its terms, and how many roundings can have
    touched it.
    """
    values: list[tuple[Fraction, Fraction, int]] = []
    for op, args, attr in program.code:
        if op == "input":
            x = Fraction(numbers[attr[1]])
            values.append((x, abs(x), 0))
            continue
        x, size, n = values[args[0]]
        if op == "neg":
            values.append((-x, size, n))
            continue
        y, size_y, n_y = values[args[1]]
        total = {"add": x + y, "sub": x - y, "mul": x * y}[op]
        values.append((total, size * size_y if op == "mul" else size + size_y, n + n_y + 1))
    return values


@law(300)
@given(sums())
def test_ordered_sums_are_near_the_exact_ones(case: tuple[Program, list[float]]) -> None:
    program, numbers = case
    got = interpret(check(order_sums(program)), np.array(numbers))
    known = exact(program, numbers)
    for value, number in zip(program.results[0], got, strict=True):
        want, size, n = known[value]
        assert abs(Fraction(float(number)) - want) <= n * Fraction(2) ** -52 * size


@law(300)
@given(sums())
def test_ordered_sums_cost_no_more(case: tuple[Program, list[float]]) -> None:
    program = drop_dead(case[0])
    after = drop_dead(order_sums(program))
    assert arithmetic(after) <= arithmetic(program)


@both
def test_ordered_programs_cost_no_more(dtype: str) -> None:
    @law(100)
    @given(core_programs(dtype, 80))
    def holds(program: Program) -> None:
        program = drop_dead(program)
        assert arithmetic(drop_dead(order_sums(program))) <= arithmetic(program)

    holds()


@law(50)
@given(core_programs(size=60), st.integers(0, 2**32 - 1))
def test_ordering_is_deterministic_and_settled(program: Program, seed: int) -> None:
    once = order_sums(program)
    again = order_sums(program)
    assert once.digest == again.digest
    inputs = states(program, 8, np.random.default_rng(seed))
    assert_same(program, interpret(once, *inputs), interpret(again, *inputs), inputs)


@pytest.mark.parametrize("plain, products", list(itertools.product(range(5), range(6))))
def test_a_sum_of_n_terms_costs_what_is_documented(plain: int, products: int) -> None:
    """n - 1 instructions where one term is no product, n otherwise."""
    if plain + products < 2:
        return

    def total(x, y):
        return sum([x[0, k] for k in range(plain)]) + sum([x[1, k] * y[k] for k in range(products)])

    program = drop_dead(order_sums(trace(total, {"x": (2, 6), "y": 6})))
    assert arithmetic(program) == plain + products - (plain > 0)
    assert ops(program)["fma"] == products - (plain == 0)


def test_late_terms_come_last() -> None:
    program = order_sums(trace(lambda x: lw.sqrt(x[0]) + (x[1] + (x[2] + x[3])), {"x": 4}))
    late = next(v for v, i in enumerate(program.code) if i.op == "sqrt")
    assert late in program.code[program.results[0][0]].args


def test_the_sign_of_a_sum_goes_into_its_products() -> None:
    counted = count_operations(
        trace(lambda x: -(x[0] * x[1] + x[2] * x[3] + x[4] * x[5]), {"x": 6}, name="f")
    )
    assert counted["total"] == counted["mul"] + counted["fma"] == 3
    counted = count_operations(trace(lambda x: -(x[0] + x[2] * x[3]), {"x": 4}, name="f"))
    assert counted["total"] == counted["fma"] == 1


def test_products_of_several_sums_are_fused_into_all() -> None:
    program = drop_dead(order_sums(trace(lambda x: (x[0] * x[1] + x[2], x[0] * x[1] - x[3]), {"x": 4})))
    assert ops(program) == {"fma": 2, "neg": 1}


def test_one_value_with_several_constants_is_one_term() -> None:
    program = drop_dead(order_sums(trace(lambda x: 3.0 * x[0] + x[1] - x[0] * 5.0 + 0.5 * x[0], {"x": 2})))
    assert [op for op, _, _ in program.code if op not in ("input", "const")] == ["fma"]
    assert interpret(program, np.array([2.0, 10.0])) == [7.0]
    large = order_sums(
        trace(lambda x: 1e308 * x[0] + 1e308 * x[0] + x[1], {"x": 2})
    )  # their sum is no number
    assert interpret(large, np.array([0.5, 0.0])) == [1e308]


def test_products_that_are_needed_anyway_are_not_fused() -> None:
    program = drop_dead(order_sums(trace(lambda x: (x[0] * x[1], x[0] * x[1] + x[2]), {"x": 3})))
    assert ops(program) == {"mul": 1, "add": 1}


# drop_dead


@law(100)
@given(core_programs(size=60))
def test_all_and_only_dead_code_is_dropped(program: Program) -> None:
    def walk(before: Program, after: Program) -> None:
        needed = needed_values(before)
        kept = [i for i, n in zip(before.code, needed, strict=True) if n]
        assert [i.op for i in kept] == [i.op for i in after.code]
        assert all(needed_values(after))
        for old, new in zip(kept, after.code, strict=True):
            if isinstance(old.attr, BoundedLoop):
                walk(old.attr.body, new.attr.body)
            else:
                assert old.attr is new.attr

    walk(program, check(drop_dead(program)))


def test_dead_code_by_example() -> None:
    def f(x):
        lw.sqrt(x * 7.0)
        return lw.loop(lambda s: (s + 1.0, s < lw.minimum(s * s, 9.0)), x, limit=3)

    def body(program: Program) -> Program:
        return next(i.attr for i in program.code if i.op == "loop").body

    program = trace(f, {"x": ()})
    program = program.map_bodies(lambda p: replace(p, code=(*p.code, Instruction("sqrt", (0,)))))
    after = drop_dead(check(program))
    assert ops(body(program))["sqrt"] == 1 and ops(body(after)) == {"add": 1, "lt": 1, "mul": 1, "min": 1}
    assert not ops(after)
    assert len(after) == 3  # the input, the loop and its result


# schedule


# one by critical path, two as if it were long
@pytest.mark.parametrize(
    "scheduling",
    [Scheduling(), Scheduling(short=0, window=3), Scheduling(short=0, window=30, interleaved_sums=4)],
)
@law(60)
@given(program=core_programs(size=80), seed=st.integers(0, 2**32 - 1))
def test_schedules_are_valid(scheduling: Scheduling, program: Program, seed: int) -> None:
    after = check(schedule(program, scheduling), core_only=True)
    assert Counter(i.op for i in after.code) == Counter(i.op for i in program.code)
    for v, (op, args, _) in enumerate(after.code):
        if op == "result":  # stands behind its loop, with nothing but other results between
            assert all(i.op == "result" for i in after.code[args[0] + 1 : v])
    inputs = states(program, 8, np.random.default_rng(seed))
    assert_same(program, interpret(after, *inputs), interpret(program, *inputs), inputs)


def test_the_longest_chain_comes_first() -> None:
    def f(x):
        easy = [x[0] + float(k) for k in range(8)]
        return sum(easy), lw.sqrt(lw.sqrt(lw.sqrt(x[1])))

    after = schedule(trace(f, {"x": 2}))
    costly = [i.op for i in after.code if i.op in OPERATIONS]
    assert costly[0] == "sqrt"


def test_in_long_programs_fewer_values_are_live() -> None:
    def live(program: Program) -> int:
        """For how long all values are live, together."""
        last = {
            a: v
            for v, (_, args, _) in enumerate(program.code)
            for a in args
            if program.code[a].op in OPERATIONS
        }
        return sum(v - a for a, v in last.items())

    def f(x):
        """Of every sum, all products are there before the first two are added."""
        results = []
        for b in range(100):
            products = [x[k] * (x[k + 1] - float(b)) for k in range(12)]
            results.append(sum(products))
        return results

    program = drop_dead(trace(f, {"x": 13}))
    assert len(program) > Scheduling().short
    assert live(schedule(program)) < 0.4 * live(program)


def test_long_programs_keep_an_order_of_low_register_pressure() -> None:
    def f(x):
        y = x[0]
        for k in range(3000):
            y = y * x[1] + float(k)
        return y

    program = drop_dead(trace(f, {"x": 2}))
    assert [i.op for i in schedule(program).code if i.op in OPERATIONS] == [
        i.op for i in program.code if i.op in OPERATIONS
    ]


# cut


@law(100)
@given(core_programs(size=100), st.integers(8, 40))
def test_cuts_cross_no_condition_and_no_loop(program: Program, part: int) -> None:
    after = cut_into(program, part)
    assert set(after.cuts) <= set(allowed_cuts(program))
    assert list(after.cuts) == sorted(set(after.cuts)) and after.code is program.code


def test_cuts_by_size() -> None:
    def chain(n: int) -> Program:
        return trace(lambda x: sum([(x[0] + float(k)) * x[1] for k in range(n)]), {"x": 2}, name="chain")

    short = chain(1400)
    long = chain(7000)
    gaps = np.diff([0, *cut(long).cuts, len(long)])
    assert 0.9 * Cutting().max_uncut < len(short) < Cutting().max_uncut < len(long)
    assert cut(short).cuts == ()
    assert gaps.min() >= 250 and gaps.max() <= 1500


def test_cuts_lie_where_few_values_cross() -> None:
    def f(x):
        for _ in range(60):
            y = [x[0] * float(k) for k in range(2, 8)]
            x = np.array([sum(y) + x[0]], dtype=object)  # here only one value lives
        return x

    program = trace(f, {"x": 1})
    after = cut_into(program, 40)
    last = {a: v for v, (_, args, _) in enumerate(program.code) for a in args}
    assert len(after.cuts) > 10
    for position in after.cuts:
        crossing = [
            v
            for v in range(position)
            if last.get(v, 0) >= position and program.code[v].op not in ("const", "input")
        ]
        assert len(crossing) == 1


# lower


@both
def test_lowering_leaves_core_operations_only(dtype: str) -> None:
    def f(x, y):
        inner = lw.loop(lambda s: (lw.sin(s) * lw.exp(-x), lw.log(s) < y), x, limit=4)
        return lw.sin(x), lw.cos(x), lw.atan2(y, x), lw.asin(x), lw.acos(y), lw.exp(x), lw.log(y), inner

    program = lower(trace(f, {"x": (), "y": ()}), dtype)
    assert program.dtype == dtype
    check(program, core_only=True)
    body = next(i.attr for i in program.code if i.op == "loop").body
    assert set(ops(program)) | set(ops(body)) <= set(CORE)


@both
def test_lowering_any_program_gives_a_valid_one(dtype: str) -> None:
    @law(50)
    @given(core_programs(size=60))
    def holds(program: Program) -> None:
        for rewrite in (*PASSES, schedule, cut):
            check(rewrite(program), core_only=True)
        lowered = lower(program, dtype)
        assert (lowered.inputs, lowered.outputs, lowered.name) == (
            program.inputs,
            program.outputs,
            program.name,
        )

    holds()


def test_passes_change_nothing_in_place() -> None:
    program = seeded_program(2, size=60)
    digest = program.digest
    text = str(program)
    lower(program, "float32")
    assert str(program) == text and replace(program).digest == digest


def test_sine_and_cosine_share_their_work() -> None:
    one, two = (
        len(drop_dead(expand(trace(f, {"x": ()}, name="f"))))
        for f in (lw.sin, lambda x: (lw.sin(x), lw.cos(x)))
    )
    assert two - one < 8


# count_operations


def counts(f: Callable, **inputs: int | tuple[int, ...]) -> dict[str, int]:
    return {k: n for k, n in count_operations(trace(f, inputs, name="f")).items() if n}


def test_counts_of_known_examples() -> None:
    assert counts(lambda x, y: x @ y, x=7, y=7) == {"mul": 1, "fma": 6, "total": 7}
    assert counts(lambda x, y, z: x @ y + z, x=7, y=7, z=()) == {"fma": 7, "total": 7}
    assert counts(lambda A, x: A @ x, A=(3, 3), x=3) == {"mul": 3, "fma": 6, "total": 9}
    assert counts(lambda x, y: x - y, x=5, y=5) == {"add": 5, "total": 5}
    assert counts(lambda x: lw.sin(x[0]) + lw.cos(x[0]), x=1) == {"add": 1, "sincos": 1, "total": 2}
    assert counts(lambda x: lw.sin(x[0]) + lw.cos(x[1]), x=2) == {"add": 1, "sincos": 2, "total": 3}
    assert counts(lambda x: lw.sqrt(x[0]) / x[1], x=2) == {"div": 1, "sqrt": 1, "total": 2}
    assert counts(lambda x: x[0] - x[1] * x[2], x=3) == {"fma": 1, "total": 1}  # the sign is free
    assert counts(lambda x: -x[0], x=1) == {"neg": 1, "total": 1}
    assert counts(lambda x: x, x=3) == {}


def test_counts_of_loops_and_dead_code() -> None:
    def f(x):
        lw.exp(x)
        inner = lambda s: lw.loop(lambda t: (t / 3.0, t > 1.0), s, limit=5)  # noqa: E731
        return lw.loop(lambda s: (inner(s) * s, s < 9.0), x, limit=10)

    assert counts(f, x=()) == {"mul": 10, "div": 50, "lt": 60, "total": 120}


def test_counts_keep_their_columns() -> None:
    keys = list(count_operations(trace(lambda x: lw.maximum(x, 1.0), {"x": ()}, name="f")))
    assert keys == ["add", "mul", "fma", "div", "sqrt", "sincos", "max", "total"]


# check


def program_of(*code: Instruction, results: tuple[int, ...] = (0,), **changes: object) -> Program:
    whole = Program("p", (Array("x", (2,)),), (Array("out", (len(results),)),), code, (results,))
    return replace(whole, **changes)


def loop_of(
    *, states: int = 1, outer: int = 0, limit: int = 3, dtype: str = "float64", again: str = "lt"
) -> BoundedLoop:
    code = (Instruction("input", (), (0, 0)), Instruction(again, (0, 0)))
    inputs = (Array("state", (states,)), Array("outer", (outer,)))
    body = Program(
        "step", inputs, (Array("state", (states,)), Array("again", ())), code, ((0,) * states, (1,)), dtype
    )
    return BoundedLoop(body, states, limit)


X = Instruction("input", (), (0, 0))
LT = Instruction("lt", (0, 0))

MALFORMED = {
    "unknown operation": program_of(X, Instruction("tan", (0,))),
    "expected 2 operands": program_of(X, Instruction("add", (0,))),
    "and no attribute": program_of(X, Instruction("neg", (0,), 1.0)),
    "%1: expected real, got bool": program_of(X, LT, Instruction("add", (0, 1))),
    "%0: expected bool, got real": program_of(X, Instruction("select", (0, 0, 0))),
    "uses %2 before": program_of(X, Instruction("add", (0, 2)), X),
    "uses %1 before": program_of(X, Instruction("neg", (1,))),
    "uses %-1 before": program_of(X, Instruction("neg", (-1,))),
    "address of an input": program_of(Instruction("input", (), (0, 2))),
    "an input takes": program_of(Instruction("input", (), (1, 0))),
    "takes the .* address": program_of(Instruction("input", (), (0, -1))),
    "one float or bool": program_of(Instruction("const", (), 1)),
    "constant takes": program_of(Instruction("const", (), None)),
    r"has 1 values": program_of(X, outputs=(Array("out", (2,)),)),
    "not a real value": program_of(X, LT, results=(1,)),
    "reads %7": program_of(X, results=(7,)),
    "two arrays have the name 'x'": program_of(X, outputs=(Array("x", (1,)),)),
    "got 'float16'": program_of(X, dtype="float16"),
    "takes a BoundedLoop": program_of(X, Instruction("loop", (0,), None)),
    "do not match its body": program_of(X, Instruction("loop", (0, 0), loop_of())),
    "loop do not match": program_of(X, Instruction("loop", (0,), loop_of(limit=0))),
    "do not match": program_of(X, Instruction("loop", (0,), loop_of(dtype="float32"))),
    "%2: the operands of the loop": program_of(X, LT, Instruction("loop", (1,), loop_of())),
    "not a bool value": program_of(X, Instruction("loop", (0,), loop_of(again="add"))),
    "state number of a loop": program_of(
        X, Instruction("loop", (0,), loop_of()), Instruction("result", (1,), 1)
    ),
    "result takes": program_of(X, Instruction("result", (0,), 0)),
}


@pytest.mark.parametrize("words", MALFORMED)
def test_malformed_programs_are_refused(words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        check(MALFORMED[words])


def test_faults_in_bodies_are_refused() -> None:
    good = loop_of()
    bad = replace(good, body=replace(good.body, code=(*good.body.code, Instruction("tan", (0,)))))
    with pytest.raises(ProgramError, match="step.*unknown operation"):
        check(program_of(X, Instruction("loop", (0,), bad)))


def test_elementary_functions_are_refused_by_targets() -> None:
    program = program_of(X, Instruction("sin", (0,)), results=(1,))
    check(program)
    with pytest.raises(ProgramError, match="must be expanded"):
        check(program, core_only=True)


def test_well_formed_programs_pass() -> None:
    program = program_of(
        X, Instruction("loop", (0,), loop_of()), Instruction("result", (1,), 0), results=(2,)
    )
    assert check(program) is program
    assert check(every_operation(), core_only=True)


# text


def test_programs_as_text() -> None:
    def f(x, A):
        root = lw.loop(lambda s: (0.5 * (s + x / s), s < A[0, 1]), 1.0, limit=9)
        return {"root": root, "flag": x < A[1, 1], "two": np.array([-x, -0.0], dtype=object)}

    assert str(trace(f, {"x": (), "A": (2, 2)})) == (
        "f(x, A[2,2]) -> root, flag, two[2]    # float64, 13 instructions\n"
        "  %6 = loop at most 9 times from (1.0) with outer = (x, A[0,1])\n"
        "    step(state[1], outer[2]) -> state[1], again    # float64, 8 instructions\n"
        "      %2 = outer[0] / state[0]\n"
        "      %3 = state[0] + %2\n"
        "      %5 = %3 * 0.5\n"
        "      %7 = state[0] < outer[1]\n"
        "      state = [%5]\n"
        "      again = [%7]\n"
        "  %7 = %6.state[0]\n"
        "  %8 = x < A[1,1]\n"
        "  %11 = select(%8, 1.0, 0.0)\n"
        "  root = [%7]\n"
        "  flag = [%11]\n"
        "  two = [-x, -0.0]"
    )


def test_dead_code_is_not_shown() -> None:
    def f(x):
        lw.loop(lambda s: (s * x[1], s < 9.0), x[0], limit=3)
        unused = lw.sin(x) * 2.0
        return x[0] + x[1] if len(unused) else unused

    program = trace(f, {"x": 2})
    head, *lines = str(program).splitlines()
    assert lines == [f"  %{len(program) - 1} = x[0] + x[1]", f"  out = [%{len(program) - 1}]"]
    assert head.endswith(f"# float64, {len(program)} instructions, 6 unused ones not shown")
    assert "not shown" not in str(drop_dead(program))


# the builder's exact rules


def argument(b: Builder, form: str, number: float | bool, numbers: list[float]) -> tuple[int, np.ndarray]:
    """A value of some form that has the number, and what it is to SEMANTICS: a constant, an input, or changed
    in sign.
    """
    is_bool = isinstance(number, bool)
    meant = np.array([number], dtype=bool if is_bool else b.dtype)
    if form == "const":
        return b.constant(number), meant
    numbers.append(float(number))
    x = b.input(0, len(numbers) - 1)
    if is_bool:
        x = b.emit("lt", (b.constant(0.5), x))
    sign = {"neg": "not", "abs": None}.get(form) if is_bool else form
    if sign in ("neg", "abs", "not"):
        return b.emit(sign, (x,)), SEMANTICS[sign](meant)
    return x, meant


def build(
    op: str, dtype: str, forms: list[tuple[str, float | bool]], backwards: bool
) -> tuple[Program, np.ndarray, np.ndarray]:
    """An operation on arguments of some forms, made from first to last or backwards; inputs and what SEMANTICS
    gives.
    """
    b = Builder(dtype)
    numbers = []
    order = range(len(forms))[:: -1 if backwards else 1]
    made = {k: argument(b, *forms[k], numbers) for k in order}
    for k in order:
        if (
            forms[k][0] == "same" and CORE[op].operand_kinds[k] == CORE[op].operand_kinds[-1]
        ):  # one value in two places
            made[k] = made[len(forms) - 1]
    args, values = zip(*[made[k] for k in range(len(forms))], strict=True)
    with np.errstate(all="ignore"):
        wanted = SEMANTICS[op](*values)
    result = b.apply(op, *args)
    if CORE[op].result_kind == BOOL:
        result = b.emit("select", (result, b.constant(1.0), b.constant(0.0)))
    program = b.finish("p", [Array("x", (len(numbers),))], [Array("out", (1,))], [[result]])
    return check(program, core_only=True), np.array(numbers, dtype=dtype), wanted.astype(dtype)


def assert_rule(op: str, dtype: str, forms: list[tuple[str, float | bool]], backwards: bool) -> None:
    with np.errstate(all="ignore"):
        program, inputs, wanted = build(op, dtype, forms, backwards)
    assert same_bits(interpret(program, inputs), wanted), f"{op} {forms} backwards={backwards}\n{program}"


FORMS = ("const", "input", "neg", "abs", "same")


@both
def test_rules_keep_every_bit(dtype: str) -> None:
    """Also with constants, signs and equal values in every place."""
    number = {
        REAL: st.sampled_from([*SPECIAL, *CONSTANTS, 2.0**-99, 2.0**99, 2.0**-120, -4.0]),
        BOOL: st.booleans(),
    }

    @law(3000)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        op = data.draw(st.sampled_from(list(CORE.values())))
        forms = [(data.draw(st.sampled_from(FORMS)), data.draw(number[kind])) for kind in op.operand_kinds]
        assert_rule(op.name, dtype, forms, data.draw(st.booleans()))

    holds()


@both
@pytest.mark.parametrize(
    "op", [op for op in CORE.values() if len(op.operand_kinds) <= 2], ids=lambda op: op.name
)
def test_rules_keep_every_bit_of_special_numbers(op, dtype: str) -> None:
    """All forms of all pairs out of the numbers that rules look at."""
    few = {REAL: [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 5e-324, np.inf, np.nan], BOOL: [True, False]}
    for numbers in itertools.product(*[few[kind] for kind in op.operand_kinds]):
        for forms in itertools.product(FORMS[:4], repeat=len(numbers)):
            for backwards in (False, True)[: len(numbers)]:
                assert_rule(op.name, dtype, list(zip(forms, numbers)), backwards)


def test_nothing_is_built_twice() -> None:
    b = Builder()
    x = b.input(0, 0)
    y = b.input(0, 1)
    assert b.apply("add", x, y) == b.apply("add", y, x)
    assert b.apply("mul", x, y) == b.apply("mul", y, x)
    assert b.apply("fma", x, y, x) == b.apply("fma", y, x, x)
    assert b.apply("sub", x, y) != b.apply("sub", y, x)
    assert b.constant(0.0) != b.constant(-0.0) and b.constant(1.0) != b.constant(True)
    assert b.constant(np.nan) == b.constant(-np.nan)


def test_needless_instructions_vanish() -> None:
    b = Builder()
    x = b.input(0, 0)
    y = b.input(0, 1)
    one = b.constant(1.0)
    zero = b.constant(0.0)
    minus_zero = b.constant(-0.0)
    assert b.apply("mul", x, one) == b.apply("sub", x, zero) == b.apply("add", minus_zero, x) == x
    assert b.apply("add", x, zero) != x  # would lose the sign of -0
    minus = b.apply("neg", x)
    assert b.apply("neg", minus) == x and b.apply("mul", b.constant(-1.0), x) == minus
    assert b.apply("add", y, minus) == b.apply("sub", y, x)
    assert b.apply("mul", minus, b.apply("neg", y)) == b.apply("mul", x, y)
    assert b.apply("div", x, b.constant(4.0)) == b.apply("mul", x, b.constant(0.25))
    assert b.number(b.apply("div", one, b.constant(3.0))) == 1 / 3
