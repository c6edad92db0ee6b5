"""Derivative programs against differences in 60-digit arithmetic, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from laws import law
from linkwork.compiler.autodiff import differentiate as d
from linkwork.compiler.autodiff.derivative_rules import RULES, ZERO_DERIVATIVE
from linkwork.compiler.autodiff.differentiate import jacobian, jvp, vjp
from linkwork.compiler.autodiff.in_trace import jacobian_of, jvp_of
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.functions import (
    absolute,
    cos,
    exp,
    exponent,
    fma,
    log,
    loop,
    maximum,
    minimum,
    pow2,
    rint,
    sin,
    sqrt,
    where,
)
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.operations import OPERATIONS
from linkwork.compiler.ir.program import Instruction, Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.expand import expand
from linkwork.compiler.passes.inline import inline
from linkwork.errors import DifferentiationError, ProgramError, ShapeError, TraceError
from mp_interpret import (
    POINT,
    STEPS,
    check_laws,
    close,
    difference,
    jacobian_by,
    mp_interpret,
    mpf,
    program_of,
)


def test_every_operation_has_a_rule():
    assert set(RULES) | ZERO_DERIVATIVE == set(OPERATIONS)
    assert not set(RULES) & ZERO_DERIVATIVE


@pytest.mark.parametrize("name", STEPS)
def test_one_operation(name):
    check_laws(program_of([(name, 0, 1, 2), (name, 1, 3, 2), ("mul", 0, 1, 2)]), POINT)


steps = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    min_size=3,
    max_size=14,
)
# never two equal inputs, nor any on a place where an operation bends
numbers = st.tuples(*[st.integers(-150, 150).map(lambda k, n=n: k / 97 + n / 193) for n in range(1, 5)])


@law(300)
@given(steps, numbers)
def test_random_programs(steps, numbers):
    program = program_of(steps)
    point = {"x": list(numbers[:3]), "y": numbers[3]}
    margins: list = []
    out = mp_interpret(program, point, margins)
    assume(min(margins, default=1) > 1e-6)
    assume(all(abs(v) < 1e8 for a in out.values() for v in a.ravel()))
    check_laws(program, point)


@law(100)
@given(steps, numbers)
def test_second_derivatives_of_random_programs(steps, numbers):
    program = program_of(steps)
    point = {"x": list(numbers[:3]), "y": numbers[3]}
    margins: list = []
    out = mp_interpret(program, point, margins)
    assume(min(margins, default=1) > 1e-5)
    assume(all(abs(v) < 1e6 for a in out.values() for v in a.ravel()))
    first = jvp(program, "x")
    u = [0.5, -1.5, 2.0]
    v = [1.0, 0.25, -0.75]
    second = jvp(first, ["x"])
    assert [a.name for a in second.inputs] == ["x", "y", "d_x", "d2_x"]
    got = mp_interpret(second, {**point, "d_x": u, "d2_x": v})
    close(got["d2_d_p"], difference(first, {**point, "d_x": u}, {"x": v})["d_p"])
    hessian = jacobian(jacobian(program, "q", "x"), "d_q_d_x", "x")
    h = mp_interpret(hessian, point)["d_d_q_d_x_d_x"]
    close(h, h.T)
    close(np.array(u) @ h @ np.array(v), mp_interpret(second, {**point, "d_x": u, "d2_x": v})["d2_d_q"])


# structure


def test_what_does_not_depend_is_a_constant_zero():
    def parts(x, y):
        return {"a": np.array([x[0] * 2.0, y * y, rint(x[1]) + y]), "b": sin(y)}

    program = trace(parts, {"x": 2, "y": ()})
    j = jacobian(program, "a", "x")
    numbers = [j.code[v].attr if j.code[v].op == "const" else None for v in j.results[-1]]
    assert numbers == [2.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    t = jvp(program, "x")
    assert [t.code[v].attr for v in (*t.results[2][1:], *t.results[3])] == [0.0, 0.0, 0.0]
    r = vjp(program, "x")
    assert r.code[r.results[-1][1]].attr == 0.0
    assert jvp(program, []).code[-1].op == "const"


def test_cancelled_derivatives_vanish():
    program = trace(lambda x: (x[0] + x[1]) - (x[0] + 3.0), {"x": 2})
    j = jacobian(program, "out", "x")
    assert [j.code[v].attr for v in j.results[-1]] == [0.0, 1.0]
    t = jvp(trace(lambda x: (sin(x) + 1.0) - (sin(x) + 3.0), {"x": ()}))
    assert t.code[t.results[-1][0]].attr == 0.0


def test_an_input_that_is_read_twice():
    once = trace(lambda x: x * x * 3.0, {"x": ()}, name="f")
    code = (*once.code[:1], *once.code[:1], Instruction("add", (0, 1)))
    program = check(Program("f", once.inputs, once.outputs, code, ((2,),)))
    assert mp_interpret(vjp(program), {"x": 5.0, "bar_out": 1.0})["bar_x"] == 2
    assert mp_interpret(jvp(program), {"x": 5.0, "d_x": 1.0})["d_out"] == 2


def test_dead_code_is_not_differentiated():
    def f(x):
        exp(sin(x) * x)  # needed by nothing
        return {"a": x * x, "b": log(x)}

    ops = [i.op for i in jacobian(trace(f, {"x": ()}), "a", "x").code]
    assert "exp" not in ops and "cos" not in ops and "div" not in ops


def test_values_are_shared():
    ops = [i.op for i in jvp(trace(lambda x: exp(x) + sqrt(x) + sin(x) + cos(x), {"x": ()})).code]
    assert [ops.count(o) for o in ("exp", "sqrt", "sin", "cos")] == [1, 1, 1, 1]


def test_the_cheaper_direction_is_taken():
    many_in = trace(lambda x: sin(exp(sin(x @ x))), {"x": 8})
    many_out = trace(lambda x: np.array([sin(log(sin(x)) * k) for k in range(1, 9)]), {"x": ()})
    for program, name in ((many_in, d._Reverse), (many_out, d._Forward)):
        assert jacobian(program, "out", "x").digest == jacobian_by(name, program, 0, 0).digest


def test_names_and_order():
    program = trace(lambda a, b, c: {"u": a * b, "v": c * b}, {"a": 2, "b": (), "c": (1, 2)})
    t = jvp(program, ["c", "a"])
    assert [a.name for a in t.inputs] == ["a", "b", "c", "d_c", "d_a"]
    assert [(a.name, a.shape) for a in t.outputs] == [
        ("u", (2,)),
        ("v", (1, 2)),
        ("d_u", (2,)),
        ("d_v", (1, 2)),
    ]
    r = vjp(program, ["c", "a", "c"])
    assert [a.name for a in r.inputs] == ["a", "b", "c", "bar_u", "bar_v"]
    assert [a.name for a in r.outputs] == ["u", "v", "bar_c", "bar_a"]
    assert jacobian(program, "v", "a").outputs[-1].shape == (1, 2, 2)
    assert jvp(program.with_dtype("float32")).dtype == "float32"
    word = trace(lambda angle: sin(angle), {"angle": ()}, name="f")
    assert jvp(word, "angle").digest == jvp(word, ["angle"]).digest == jvp(word).digest
    twice = jacobian(jacobian(program, "u", "a"), "u", "b")
    assert [a.name for a in twice.outputs] == ["u", "v", "d_u_d_a", "d_u_d_b"]


def test_unknown_names():
    program = trace(lambda a, b: {"u": a * b}, {"a": 2, "b": ()})
    for call in (jvp, vjp):
        with pytest.raises(DifferentiationError, match="no input 'c'; its inputs are: a, b"):
            call(program, ["a", "c"])
    with pytest.raises(DifferentiationError, match="no output 'a'; its outputs are: u"):
        jacobian(program, "a", "b")


@pytest.mark.parametrize(
    ("fn", "point", "slope"),
    [
        (absolute, 0.0, 1.0),
        (lambda x: minimum(2.0 * x, 3.0 * x), 0.0, 3.0),  # a tie is not <: the second
        (lambda x: maximum(2.0 * x, 3.0 * x), 0.0, 3.0),
        (lambda x: where(x <= 1.0, x * x, 5.0 * x), 1.0, 2.0),
        (lambda x: where(x < 1.0, x * x, 5.0 * x), 1.0, 5.0),
    ],
)
def test_ties_follow_the_branch_that_the_value_comes_from(fn, point, slope):
    program = trace(fn, {"x": ()}, name="f")
    assert mp_interpret(jvp(program), {"x": point, "d_x": 1.0})["d_out"] == slope
    assert mp_interpret(vjp(program), {"x": point, "bar_out": 1.0})["bar_x"] == slope


def test_a_branch_not_taken_does_no_harm_in_forward_mode():
    program = trace(lambda x: where(x > 0.0, sqrt(x), 0.0), {"x": ()})
    assert evaluate(jvp(program), [0.0, 1.0])[1] == 0.0


# loops


def newton_root(a):
    return loop(lambda x: (0.5 * (x + a / x), absolute(x * x - a) > 1e-30), 1.0, limit=40)


def test_derivative_of_a_converged_loop():
    program = trace(newton_root, {"a": ()})
    got = mp_interpret(jvp(jvp(program)), {"a": 2.0, "d_a": 1.0, "d2_a": 1.0, "d2_d_a": 0.0})
    root = mpf(2) ** mpf(0.5)
    close(got["d_out"], 0.5 / root, 25)
    close(got["d2_d_out"], -0.25 / root**3, 25)
    close(mp_interpret(jacobian(program, "out", "a"), {"a": 2.0})["d_out_d_a"], 0.5 / root, 25)


def spiral(x, y):
    """Two loops, one in the other; a counter; a state that only `again` reads; one that turns nonzero late."""

    def step(s):
        inner = loop(lambda r: (r * 0.5 + sin(r * y), absolute(r) > 0.5), s[1], limit=4)
        count = s[2] + 1.0
        return np.array([s[0] + s[3] * x[1], s[0] * x[0] + inner, count, s[1] * 0.25]), count + 0.0 * s[
            3
        ] < 6.5

    s = loop(step, np.array([x[0], 0.5, 0.0, 0.0], dtype=object), limit=20)
    return {"a": s[:2] * x[2], "n": s[2], "b": s[3] / y}


def test_laws_of_loops():
    program = trace(spiral, {"x": 3, "y": ()})
    check_laws(program, {"x": [0.3, -0.7, 1.1], "y": 0.6}, reverse=False)
    j = jacobian(program, "a", "x")
    body = next(i.attr for i in j.code if i.op == "loop").body
    assert (
        body.inputs[0].size == 4 + 3 * 2
    )  # three states move with x[0] and x[1]; the counter and x[2] add nothing
    counter = jvp(program)
    assert counter.code[counter.results[4][0]].attr == 0.0


def test_reverse_through_a_loop_is_refused():
    program = trace(lambda a, b: {"u": newton_root(a) * b}, {"a": (), "b": ()}, name="f")
    with pytest.raises(
        DifferentiationError, match=r"^f: .* loop, .*reverse mode is not available; forward mode"
    ):
        vjp(program)
    got = mp_interpret(vjp(program, "b"), {"a": 4.0, "b": 3.0, "bar_u": 2.0})  # no loop between b and u
    close(got["bar_b"], 4.0)


# inside a trace


def arm(z, length):
    return np.array(
        [length * cos(z[0]) + cos(z[0] + z[1]), length * sin(z[0]) + sin(z[0] + z[1]), 2.0 * z[1]]
    )


def arm_jacobian(z, length):
    both = [-sin(z[0] + z[1]), cos(z[0] + z[1])]
    return np.array(
        [[both[0] - length * sin(z[0]), both[0]], [both[1] + length * cos(z[0]), both[1]], [0.0, 2.0]]
    )


def test_jacobian_of_inside_a_trace():
    def f(q, length):
        value, j = jacobian_of(lambda z: arm(z, length), q)
        assert j.shape == (3, 2) and j[2, 0] == 0.0 and j[2, 1] == 2.0  # floats, so zeros stay structural
        return {"v": value, "j": j, "want_v": arm(q, length), "want_j": arm_jacobian(q, length)}

    got = mp_interpret(trace(f, {"q": 2, "length": ()}), {"q": [0.3, 1.2], "length": 1.7})
    close(got["v"], got["want_v"])
    close(got["j"], got["want_j"])


def test_jacobian_of_in_itself_gives_the_bias_of_a_constraint():
    def f(q, v, length):
        nested = jacobian_of(lambda z: jacobian_of(lambda w: arm(w, length), z)[1] @ v, q)[1] @ v
        along = jvp_of(lambda z: jvp_of(lambda w: arm(w, length), z, v)[1], q, v)
        return {"nested": nested, "along": along[1], "rate": along[0], "k": arm_jacobian(q, length) @ v}

    program = trace(f, {"q": 2, "v": 2, "length": ()})
    point = {"q": [0.3, 1.2], "v": [0.8, -0.6], "length": 1.7}
    got = mp_interpret(program, point)
    want = difference(program, point, {"q": point["v"]})["k"]
    close(got["nested"], want)
    close(got["along"], want)
    close(got["rate"], got["k"])


def test_jacobian_of_reads_conditions_and_loops_around_it():
    def f(q, y):
        up = y > 0.5

        def step(s):
            value, j = jacobian_of(lambda z: z * z * y - 3.0, s)
            return s - value / j, absolute(value) > 1e-25

        root = loop(step, q, limit=60)
        slope = jacobian_of(lambda z: where(up, z * z, z), q)[1]
        power = jacobian_of(lambda z: loop(lambda s: (s * z, s < 1e9), 1.0, limit=3), q)[1]
        return {"root": root, "slope": slope, "power": power}

    program = trace(f, {"q": (), "y": ()})
    got = mp_interpret(program, {"q": 1.5, "y": 0.75})
    close(got["root"], 2.0)
    close(got["slope"], 3.0)
    close(got["power"], 6.75)
    got = mp_interpret(jvp(program, "y"), {"q": 1.5, "y": 0.75, "d_y": 1.0})
    close(got["d_root"], -mpf(2) / mpf(1.5))  # root = sqrt(3 / y)


def test_jacobian_of_numbers():
    point = np.array([0.3, 1.2])
    value, j = jacobian_of(lambda z: arm(z, 1.7), point)
    assert value.dtype == j.dtype == np.float64
    np.testing.assert_allclose(value, arm(point, 1.7), rtol=1e-15)
    np.testing.assert_allclose(j, arm_jacobian(point, 1.7), rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(
        jvp_of(lambda z: arm(z, 1.7), point, [1.0, 2.0])[1], j @ [1.0, 2.0], rtol=1e-14
    )
    root, slope = jacobian_of(newton_root, 2)
    assert abs(root - 2**0.5) < 1e-15 and abs(slope - 0.5 / 2**0.5) < 1e-15
    bits = jacobian_of(lambda z: pow2(rint(z)) * fma(z, z, 1.0) + exponent(z), 2.25)
    assert bits == (4.0 * (2.25**2 + 1.0) + 1.0, 4.0 * 4.5)


def test_jacobian_of_refuses_foreign_symbols():
    kept = []
    trace(lambda x: kept.append(x) or x, {"x": ()}, name="f")
    with pytest.raises(TraceError, match="another trace|two different traces"):
        jacobian_of(lambda z: z * kept[0], 1.0)
    with pytest.raises(TraceError, match="two different traces"):
        trace(lambda x: jacobian_of(lambda z: z * x, kept[0])[0], {"x": ()}, name="g")
    with pytest.raises(DifferentiationError, match="direction: expected the shape"):
        jvp_of(lambda z: z, [1.0, 2.0], [1.0])


def evaluate(program, arrays):
    out = interpret(expand(program), *arrays)
    return out if isinstance(out, tuple) else (out,)


def test_inline_and_evaluate():
    program = trace(spiral, {"x": 3, "y": ()})
    b = Builder()
    x = [b.input(0, k) for k in range(3)]
    y = [b.input(1, 0)]
    results = inline(program, b, [x[::-1], y])
    turned = check(b.finish("turned", program.inputs, program.outputs, results))
    want = mp_interpret(program, {"x": [1.1, -0.7, 0.3], "y": 0.6})
    got = mp_interpret(turned, {"x": [0.3, -0.7, 1.1], "y": 0.6})
    for number, name in enumerate(want):
        close(got[name], want[name], 50)
        np.testing.assert_allclose(
            evaluate(program, [[1.1, -0.7, 0.3], 0.6])[number],
            np.asarray(want[name], dtype=float),
            rtol=1e-13,
        )
    with pytest.raises(ShapeError, match="elements"):
        inline(program, b, [x, x])
    with pytest.raises(ProgramError, match="float32"):
        inline(program.with_dtype("float32"), b, [x, y])


def test_inline_leaves_dead_code_behind():
    def f(x):
        exp(x)
        return x * x

    b = Builder()
    inline(trace(f, {"x": ()}), b, [[b.input(0, 0)]])
    assert [i.op for i in b.code] == ["input", "mul"]


@pytest.mark.parametrize("name", STEPS)
def test_evaluate_knows_every_operation(name):
    program = program_of([(name, 0, 1, 2)])
    want = mp_interpret(program, POINT)
    for got, value in zip(evaluate(program, list(POINT.values())), want.values(), strict=True):
        np.testing.assert_allclose(got, np.asarray(value, dtype=float), rtol=1e-14)


# a mechanism


def test_two_link_pendulum():
    """Point masses 1 and m on rods of lengths 1 and l: forces from motion, and their Jacobian by hand."""
    g = 9.75

    def force(q, v, a, m, l):
        s = sin(q[1])
        c = cos(q[1])
        first = (1.0 + m + m * l * l + 2.0 * m * l * c) * a[0] + (m * l * l + m * l * c) * a[1]
        second = (m * l * l + m * l * c) * a[0] + m * l * l * a[1]
        bias = np.array([-m * l * s * (2.0 * v[0] * v[1] + v[1] * v[1]), m * l * s * v[0] * v[0]])
        low = m * l * g * cos(q[0] + q[1])
        return np.array([first, second]) + bias + np.array([(1.0 + m) * g * cos(q[0]) + low, low])

    def by_hand(q, v, a, m, l):
        s = sin(q[1])
        c = cos(q[1])
        low = -m * l * g * sin(q[0] + q[1])
        top = -2.0 * m * l * s * a[0] - m * l * s * a[1] - m * l * c * (2.0 * v[0] * v[1] + v[1] * v[1]) + low
        corner = -m * l * s * a[0] + m * l * c * v[0] * v[0] + low
        dq = np.array([[-(1.0 + m) * g * sin(q[0]) + low, top], [low, corner]])
        dv = m * l * s * np.array([[-2.0 * v[1], -2.0 * v[0] - 2.0 * v[1]], [2.0 * v[0], 0.0 * v[0]]])
        off = m * l * l + m * l * c
        da = np.array([[1.0 + m + m * l * l + 2.0 * m * l * c, off], [off, m * l * l]])
        return {"by_q": dq, "by_v": dv, "by_a": da}

    shapes = {"q": 2, "v": 2, "a": 2, "m": (), "l": ()}
    point = {"q": [0.4, -1.1], "v": [1.5, 0.8], "a": [-0.3, 2.0], "m": 0.75, "l": 1.25}
    program = trace(force, shapes)
    want = mp_interpret(trace(by_hand, shapes), point)
    for name in ("q", "v", "a"):
        close(mp_interpret(jacobian(program, "out", name), point)[f"d_out_d_{name}"], want[f"by_{name}"])
    check_laws(program, point)


# branches that are not taken


def safe_root(x):
    return where(x > 0.0, sqrt(x), 0.0)


BRANCHES = {
    "root": (lambda x: safe_root(x[0]) + x[1], [0.0, 2.0], [0.0, 1.0]),
    "quotient": (lambda x: where(absolute(x[0]) > 0.0, x[1] / x[0], x[1]), [0.0, 2.0], [0.0, 1.0]),
    "product with an infinity": (lambda x: where(x[0] > 0.0, x[1] * log(x[0]), 3.0 * x[1]), [0.0, 2.0], [0.0, 3.0]),
    "logarithm": (lambda x: x[0] * where(x[0] > 0.0, log(x[0]), 0.0) + x[1], [0.0, 2.0], [0.0, 1.0]),
    "inside another": (
        lambda x: where(x[1] > 1.0, where(x[0] > 0.0, sqrt(x[0] * x[1]), x[0]), sqrt(x[1] - 3.0)), [0.0, 2.0], [1.0, 0.0]
    ),
    "both sides": (lambda x: where(x[0] > 0.0, sqrt(x[0]), x[0] * x[1]), [0.0, 2.0], [2.0, 0.0]),
    "taken": (lambda x: where(x[0] > 0.0, sqrt(x[0]) * x[1], x[0]), [4.0, 2.0], [0.5, 2.0]),
    "shared": (lambda x: where(x[0] > 0.0, sqrt(x[0]) * x[1], x[1]) + where(x[0] > 0.0, sqrt(x[0]), 1), [0.0, 2.0], [0.0, 1.0]),
    "least": (lambda x: minimum(sqrt(x[0]) + 9.0, x[1]), [0.0, 2.0], [0.0, 1.0]),
    "greatest": (lambda x: maximum(x[1], sqrt(x[0])), [0.0, 2.0], [0.0, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_that_are_not_taken_do_no_harm(name):
    f, at, wanted = BRANCHES[name]
    program = trace(f, {"x": 2}, name="f")
    at = np.array(at)
    row = program.outputs[0].name
    assert interpret(expand(vjp(program)), at, 1.0)[1].tolist() == wanted
    assert [interpret(expand(jvp(program)), at, e)[1] for e in np.eye(2)] == wanted
    for mode in (d._Forward, d._Reverse):
        assert interpret(expand(jacobian_by(mode, program, 0, 0)), at)[1].tolist() == wanted
    twice = jacobian(jacobian(program, row, "x"), f"d_{row}_d_x", "x")
    assert np.isfinite(interpret(expand(twice), at)[-1]).all()
