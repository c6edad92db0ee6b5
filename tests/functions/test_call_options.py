"""Calls of functions and derivatives with arrays in every layout, and with options of wrong types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LinkworkError

ROWS = 6


class Subclass(np.ndarray):
    pass


def unaligned(x: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"\0" + x.tobytes(), dtype=np.uint8)[1:].view(float).reshape(x.shape)


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.setflags(write=False)
    return x


LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "Fortran order": np.asfortranarray,
    "reversed rows": lambda x: x[::-1].copy()[::-1],
    "reversed columns": lambda x: x[:, ::-1].copy()[:, ::-1],
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "every third column": lambda x: np.repeat(x, 3, axis=1)[:, ::3],
    "read-only": read_only,
    "big-endian": lambda x: x.astype(">f8"),
    "unaligned": unaligned,
    "subclass": lambda x: x.view(Subclass),
    "nested lists": lambda x: x.tolist(),
    "list of arrays": list,
    "memory view": memoryview,
}


@pytest.fixture(scope="module")
def arm() -> Any:
    return lw.robots.arm()


@pytest.fixture(scope="module")
def arrays(arm: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(ROWS, n)) for n in (arm.nq, arm.nv, arm.nv)]


@pytest.fixture(scope="module")
def calls(arm: Any) -> dict[str, Callable[..., Any]]:
    change = np.linspace(-1.0, 1.0, arm.nv)
    along = lw.jvp(lw.inverse_dynamics, arm, wrt="v")
    return {
        "function": lambda q, v, a, **how: lw.inverse_dynamics(arm, q, v, a, **how),
        "parameters": lambda q, v, a, **how: lw.inverse_dynamics(
            arm, q, v, a, parameters={"gravity": np.array([0.0, 1.0, -9.0])}, **how
        ),
        "derivative": lambda q, v, a, **how: along(q, v, a, change, **how)[1],
    }


@pytest.mark.parametrize("kind", ["function", "parameters", "derivative"])
def test_rows_in_every_layout_have_the_bits_of_single_states(
    calls: dict[str, Callable[..., Any]], arrays: list[np.ndarray], kind: str
) -> None:
    call = calls[kind]
    expected = np.array([call(*state) for state in zip(*arrays)])
    for layout, change in LAYOUTS.items():
        for k in range(3):
            changed = [change(x) if i == k else x for i, x in enumerate(arrays)]
            assert np.asarray(call(*changed)).tobytes() == expected.tobytes(), (layout, k)


@pytest.mark.parametrize("kind", ["function", "derivative"])
@pytest.mark.parametrize(
    "batches",
    [
        ((), (ROWS,), (ROWS,)), ((1,), (), (ROWS,)), ((4, 1), (3,), ()), ((0,), (), ()), ((2, 0), (1,), (2, 1)),
        ((1, 1), (), ()),
    ],
)  # fmt: skip
def test_batches_broadcast_to_the_bits_of_single_states(
    calls: dict[str, Callable[..., Any]], arm: Any, batches: tuple[tuple[int, ...], ...], kind: str
) -> None:
    rng = np.random.default_rng(1)
    values = [rng.normal(size=(*batch, arm.nv)) for batch in batches]
    result = calls[kind](*values)
    batch = np.broadcast_shapes(*batches)
    assert result.shape == (*batch, arm.nv)
    full = [np.broadcast_to(x, (*batch, arm.nv)) for x in values]
    for index in np.ndindex(batch):
        assert result[index].tobytes() == calls[kind](*(x[index] for x in full)).tobytes()


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.float32, np.bool_])
def test_numbers_that_a_float64_holds_are_converted(
    calls: dict[str, Callable[..., Any]], arrays: list[np.ndarray], dtype: Any
) -> None:
    ones = np.ones(arrays[0].shape)
    for call in calls.values():
        expected = call(ones, *arrays[1:])
        assert np.array_equal(call(ones.astype(dtype), *arrays[1:]), expected)


@pytest.mark.parametrize("row", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_leaves_the_others_as_they_are(
    calls: dict[str, Callable[..., Any]], arrays: list[np.ndarray], row: float
) -> None:
    for call in calls.values():
        expected = np.array(call(*arrays))
        broken = [x.copy() for x in arrays]
        broken[0][2, 3] = row
        result = call(*broken)
        assert np.isnan(result[2]).any()
        others = [k for k in range(ROWS) if k != 2]
        assert result[others].tobytes() == expected[others].tobytes()


@pytest.mark.parametrize("place", ["same", "shifted", "reversed"])
def test_an_output_may_share_memory_with_an_input(
    calls: dict[str, Callable[..., Any]], arrays: list[np.ndarray], place: str
) -> None:
    expected = calls["function"](*arrays)
    memory = np.vstack([arrays[0], arrays[0]])
    q = memory[:ROWS]
    out = {"same": q, "shifted": memory[1 : ROWS + 1], "reversed": q[::-1]}[place]
    calls["function"](q, *arrays[1:], out=out)
    assert out.tobytes() == expected.tobytes()


WRONG: dict[str, list[Any]] = {
    "threads": ["2", True, 2.0, 0, -1, [2], np.array(2), np.float64(2.0)],
    "device": ["tpu", 0, ["cpu"]],
    "dtype": ["float16", np.float32, np.dtype("float64"), None, 64],
    "parameters": [[1.0], "", 0, np.zeros(2), "mass"],
}


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in WRONG.items() for value in values], ids=repr
)
def test_options_of_calls_are_checked(arm: Any, arrays: list[np.ndarray], option: str, value: Any) -> None:
    jacobian = lw.jacobian(lw.inverse_dynamics, arm, wrt="v")
    for call in (lambda *args, **how: lw.inverse_dynamics(arm, *args, **how), jacobian):
        with pytest.raises(LinkworkError, match=option if option != "parameters" else "parameter"):
            call(*arrays, **{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("target", "tpu"), ("target", None), ("target", ["cpu"]), ("dtype", 1), ("dtype", np.dtype("float32")),
        ("wait", "no"), ("wait", 1), ("optional", 3), ("optional", ["x"]), ("parameters", 3),
        ("parameters", ["x"]),
    ],
    ids=repr,
)  # fmt: skip
def test_options_of_kernels_are_checked(arm: Any, option: str, value: Any) -> None:
    with pytest.raises(LinkworkError, match=option.removesuffix("s")):
        lw.compile(lw.inverse_dynamics, arm, **{option: value})
    if option in ("target", "dtype", "wait"):
        with pytest.raises(LinkworkError, match=option):
            lw.jacobian(lw.inverse_dynamics, arm, wrt="v").kernel(**{option: value})
        with pytest.raises(LinkworkError, match=option):
            lw.compile(lambda x: 2.0 * x, {"x": 2}, **{option: value})


@pytest.mark.parametrize("kind", ["jvp", "jacobian", "vjp"])
def test_derivatives_check_arrays_as_their_function_does(kind: str) -> None:
    """Rows of a batch fail alone; one state raises, by position and by name."""
    b = lw.ModelBuilder("ball")
    b.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint("free", lw.joints.Free(), parent="world", child="ball")
    b.add_geometry("sphere", "sphere", 0.2, link="ball")
    ball = b.build()
    contacts = lw.Contacts()
    q = np.array(ball.neutral())
    q[2] += 1.0
    v = np.zeros(ball.nv)
    count = len(contacts.candidates(ball))
    options = {"wrt": "tau", "contacts": contacts, "optional": ("contact_friction",)}
    derivative = getattr(lw, kind)(lw.step, ball, **options)
    ones = np.ones(ball.nv)
    weights = {"jvp": [ones], "jacobian": [], "vjp": [ones, ones]}[kind]

    def call(dt: Any, friction: Any) -> np.ndarray:
        result = derivative(q, v, v, dt, friction, *weights)
        return result[-1]

    good = call(1e-3, np.ones(count))
    assert np.isfinite(good).all()
    for dt in (0.0, -1e-3, np.nan, np.inf):
        with pytest.raises(LinkworkError, match="dt"):
            call(dt, np.ones(count))
        with pytest.raises(LinkworkError, match="dt"):
            lw.step(ball, q, v, v, dt, contacts=contacts)
    with pytest.raises(LinkworkError, match="contact_friction"):
        call(1e-3, -np.ones(count))
    if kind == "jacobian":
        with pytest.raises(LinkworkError, match="dt"):
            derivative(q=q, v=v, tau=v, dt=-1.0, contact_friction=np.ones(count))
    rows = call(np.array([1e-3, -1e-3, 1e-3]), np.ones(count))
    assert np.array_equal(rows[0], good) and np.array_equal(rows[2], good)
    assert np.isnan(rows[1]).all()
