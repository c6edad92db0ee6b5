"""Identification: torques and energies are linear in inertial parameters, which are found again as bodies can
have them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkages import CATALOGUE, linkage
from linkwork.errors import DtypeError, LinkworkError, ModelError, ShapeError
from linkwork.joints import Fixed, Revolute
from linkwork.model import Model
from linkwork.spatial import (
    log_cholesky,
    parameters_of_log_cholesky,
    parameters_of_pseudo_inertia,
    pseudo_inertia,
)
from mechanisms import every_kind, heavy, random_model

LINKAGES = (
    "ring revolute", "geared 1", "four-bar", "slider-crank", "loop and gear", "rotors askew", "rotor in a loop",
    "asymmetric rotors",
)  # fmt: skip
JOINT_PARAMETERS = ("armature", "damping", "stiffness")


def on_numbers(fn: Any, model: Model, *args: np.ndarray) -> np.ndarray:
    return np.asarray(fn.body(model, *args), dtype=float)


def bare(model: Model) -> Model:
    """The same mechanism without armatures, dampers and springs."""
    return model.with_parameters({name: np.zeros(model.nv_spanning) for name in JOINT_PARAMETERS})


def errors(model: Model, rng: np.random.Generator) -> tuple[float, float]:
    """Of torques and of energy, relative to the size of their terms."""
    (q, v), a = model.random_state(rng), rng.normal(size=model.nv)
    pi = model.inertial_parameters()
    alone = bare(model)
    Y = on_numbers(lw.inverse_dynamics_regressor, model, q, v, a)
    row = on_numbers(lw.energy_regressor, model, q, v)
    assert Y.shape == (model.nv, 10 * len(model.bodies)) and row.shape == (10 * len(model.bodies),)
    energy = on_numbers(lw.kinetic_energy, alone, q, v) + on_numbers(lw.potential_energy, alone, q)
    torque = np.abs(Y @ pi - on_numbers(lw.inverse_dynamics, alone, q, v, a)).max()
    return torque / (np.abs(Y) @ np.abs(pi)).max(), abs(row @ pi - energy) / (np.abs(row) @ np.abs(pi))


@pytest.mark.parametrize("seed", range(4))
def test_random_trees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert max(errors(random_model(rng, 4), rng)) < 1e-12


def test_every_joint() -> None:
    rng = np.random.default_rng(5)
    assert max(errors(every_kind(rng), rng)) < 1e-12


@pytest.mark.parametrize("name", LINKAGES)
def test_loops_and_rotors(name: str) -> None:
    assert max(errors(linkage(name), np.random.default_rng(6))) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in LINKAGES])
def test_more_loops(name: str) -> None:
    assert max(errors(linkage(name), np.random.default_rng(7))) < 1e-12


def test_the_models_own_inertias_do_not_matter() -> None:
    """Columns are right one by one: for other parameters too."""
    rng = np.random.default_rng(8)
    model = bare(linkage("rotor in a loop"))
    (q, v), a = model.random_state(rng), rng.normal(size=model.nv)
    Y = on_numbers(lw.inverse_dynamics_regressor, model, q, v, a)
    for _ in range(3):
        solids = [lw.ModelBuilder("one").add_body("b", **heavy(rng)) for _ in model.bodies]
        pi = np.concatenate([
            b.add_joint("j", Revolute((0, 0, 1)), parent="world", child="b").build().inertial_parameters() for b in solids
        ])  # fmt: skip
        right = on_numbers(lw.inverse_dynamics, model.with_inertial_parameters(pi), q, v, a)
        assert np.abs(Y @ pi - right).max() < 1e-12 * (np.abs(Y) @ np.abs(pi)).max()


def test_compiled_in_batches_with_parameters() -> None:
    model = lw.robots.chain(3)
    q, v, a = np.random.default_rng(9).normal(size=(3, 2, 3, model.nv))
    Y = lw.inverse_dynamics_regressor(model, q, v, a)
    assert Y.shape == (2, 3, 3, 30) and np.array_equal(
        Y[1, 2], lw.inverse_dynamics_regressor(model, q[1, 2], v[1, 2], a[1, 2])
    )
    assert np.allclose(
        Y[0, 1], on_numbers(lw.inverse_dynamics_regressor, model, q[0, 1], v[0, 1], a[0, 1]), rtol=1e-12
    )
    gravity = np.array([1.0, -2.0, 3.0])
    there = model.with_parameters({"gravity": gravity})
    for fn, args in (
        (lw.inverse_dynamics_regressor, (q[0, 0], v[0, 0], a[0, 0])),
        (lw.energy_regressor, (q[0, 0], v[0, 0])),
    ):
        assert np.allclose(
            fn(model, *args, parameters={"gravity": gravity}), on_numbers(fn, there, *args), rtol=1e-12
        )


def test_power_is_the_rate_of_energy() -> None:
    """Each column by itself: v · Y = d/dt of the energy's row along the motion."""
    model = linkage("slider-crank")
    rng = np.random.default_rng(10)
    (q, v), a = model.random_state(rng), rng.normal(size=model.nv)
    step = 1e-5

    def row(t: float) -> np.ndarray:
        moved = np.asarray(lw.integrate(model, q, t * v + 0.5 * t * t * a), dtype=float)
        return on_numbers(lw.energy_regressor, model, moved, v + t * a)

    power = v @ on_numbers(lw.inverse_dynamics_regressor, model, q, v, a)
    assert np.abs((row(step) - row(-step)) / (2 * step) - power).max() < 1e-6 * np.abs(power).max()


def test_zeros_of_the_tree_stay_out_of_the_program() -> None:
    model = lw.robots.quadruped()
    program = lw.inverse_dynamics_regressor.program(model)
    (result,) = program.results
    constant = np.array([program.code[value].op == "const" for value in result]).reshape(
        model.nv, len(model.bodies), 10
    )
    above = np.zeros((model.nv, len(model.bodies)), dtype=bool)
    for joint in model.joints:
        if joint.parent != -1:
            above[:, joint.child] = above[:, joint.parent]
        above[joint.v_slice, joint.child] = True
    assert above.any() and not above.all() and constant[~above].all()
    arm = lw.robots.arm()
    assert lw.count_operations(lw.inverse_dynamics_regressor, arm)["total"] < 1200


def test_against_pinocchio() -> None:
    pin = pytest.importorskip("pinocchio")
    from test_against_pinocchio import handmade

    from linkwork.interop.pinocchio import States

    model, peer = handmade()
    states = States(model, peer)
    data = peer.createData()
    rng = np.random.default_rng(11)
    (q, v), a = model.random_state(rng), rng.normal(size=model.nv)
    theirs = np.array(
        pin.computeJointTorqueRegressor(peer, data, states.q_to(q), states.v_to(v), states.v_to(a))
    )
    order = [peer.getJointId(joint.name) - 1 for joint in model.joints]
    columns = theirs.reshape(model.nv, -1, 10)[:, order].reshape(model.nv, -1)
    right = np.array([states.tau_from(column) for column in columns.T]).T
    found = on_numbers(lw.inverse_dynamics_regressor, model, q, v, a)
    assert np.abs(found - right).max() < 1e-11 * np.abs(right).max()
    assert np.allclose(
        model.inertial_parameters().reshape(-1, 10),
        [peer.inertias[k + 1].toDynamicParameters() for k in order],
    )


def test_inertial_parameters_there_and_back() -> None:
    model = random_model(np.random.default_rng(12), 4)
    pi = model.inertial_parameters()
    assert np.allclose(model.with_inertial_parameters(pi).inertial_parameters(), pi, rtol=1e-12, atol=1e-14)
    with pytest.raises(ShapeError, match=r"expected shape \(\d+,\), got \(3,\)"):
        model.with_inertial_parameters(np.zeros(3))
    for odd in ("heavy", 1j * pi):
        with pytest.raises(ModelError, match="expected real numbers"):
            model.with_inertial_parameters(odd)
    for wrong in (np.nan, np.inf):
        with pytest.raises(
            ModelError, match=f"body '{model.bodies[1].name}': inertial parameters: expected finite numbers"
        ):
            model.with_inertial_parameters([*pi[:10], wrong, *pi[11:]])
    for wrong in ([-1.0, 0.0], [0.0, 0.5]):
        with pytest.raises(ModelError, match=f"body '{model.bodies[1].name}': .* mass"):
            model.with_inertial_parameters([*pi[:10], *wrong, *pi[12:]])


def test_base_parameters() -> None:
    """Of a planar double pendulum: the moment about the axis and two first moments of each link."""
    b = lw.ModelBuilder("pendulum")
    for name, on, x in (("upper", "world", 0.0), ("lower", "upper", 0.7)):
        b.add_body(name, mass=1.0, center=(0.3, 0.1, 0.0), inertia=(0.1, 0.1, 0.1))
        b.add_joint(f"to {name}", Revolute((0, 1, 0)), parent=on, child=name, xyz=(x, 0.0, 0.0))
    model = b.build()
    q, v, a = np.random.default_rng(13).normal(size=(3, 40, 2))
    Y = np.array([on_numbers(lw.inverse_dynamics_regressor, model, *state) for state in zip(q, v, a)])
    columns, combination = base = lw.base_parameters(Y)
    assert isinstance(base, lw.BaseParameters) and len(columns) == 6  # yy, mx, mz of each link
    assert np.linalg.matrix_rank(Y.reshape(-1, 20)[:, columns], 1e-6) == 6
    assert np.allclose(Y, Y[..., columns] @ combination, atol=1e-10)
    assert np.array_equal(combination[:, columns], np.eye(6))
    # mass of the lower link acts as first moment l m and moment of inertia l² m of the upper one
    shifted = np.zeros(20)
    shifted[10], shifted[1], shifted[6] = 1.0, -0.7, -0.49
    assert np.abs(combination @ shifted).max() < 1e-9
    none = lw.base_parameters(np.zeros((4, 2, 20)))
    assert none.columns.shape == (0,) and none.combination.shape == (0, 20)
    none = lw.base_parameters(np.zeros((4, 2, 0)))  # of no parameters
    assert none.columns.shape == (0,) and none.combination.shape == (0, 0)


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e6])
def test_base_parameters_do_not_depend_on_the_unit_of_length(unit: float) -> None:
    """Lengths in other units scale moments of force, first and second moments: combinations scale alike."""
    model = lw.robots.arm()
    q, v, a = np.random.default_rng(2).normal(size=(3, 40, model.nv))
    Y = lw.inverse_dynamics_regressor(model, q, v, a)
    per_parameter = np.resize([1.0] + [1.0 / unit] * 3 + [1.0 / unit**2] * 6, Y.shape[-1])
    columns, combination = lw.base_parameters(Y)
    other_columns, other = lw.base_parameters(Y * per_parameter / unit**-2)
    assert np.array_equal(columns, other_columns)
    scaled = combination * per_parameter / per_parameter[columns, None]
    assert np.allclose(other / per_parameter, scaled / per_parameter, rtol=1e-6, atol=1e-9)


def test_what_base_parameters_refuse() -> None:
    with pytest.raises(ShapeError, match=r"shape \(..., rows, parameters\), got \(4,\)"):
        lw.base_parameters(np.ones(4))
    with pytest.raises(LinkworkError, match="expected finite"):
        lw.base_parameters([[1.0, np.nan], [1.0, 2.0]])
    with pytest.raises(ShapeError, match=r"expected numbers of shape \(..., rows, parameters\)"):
        lw.base_parameters(1j * np.ones((3, 3)))
    for tolerance in (-1.0, 1.0, np.nan, "small", [1e-9]):
        with pytest.raises(LinkworkError, match="tolerance: expected a number from 0 to 1"):
            lw.base_parameters(np.ones((3, 3)), tolerance=tolerance)  # type: ignore[arg-type]


def points(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of mass, where they are, and their ten parameters."""
    mass = rng.uniform(0.1, 1.0, 8)
    r = rng.normal(size=(8, 3))
    second = np.einsum("k,ki,kj->ij", mass, r, r)
    moment = np.trace(second) * np.eye(3) - second
    return (
        mass,
        r,
        np.array([mass.sum(), *(mass @ r), *(moment[i, j] for i in range(3) for j in range(i + 1))]),
    )


def test_pseudo_inertia_is_the_sum_over_points() -> None:
    mass, r, pi = points(np.random.default_rng(14))
    there = np.column_stack([r, np.ones(8)])
    assert np.allclose(pseudo_inertia(pi), np.einsum("k,ki,kj->ij", mass, there, there))
    assert np.allclose(parameters_of_pseudo_inertia(pseudo_inertia(pi)), pi)


def test_log_cholesky_there_and_back() -> None:
    rng = np.random.default_rng(15)
    pi = np.array([[points(rng)[2] for _ in range(3)] for _ in range(2)])
    theta = log_cholesky(pi)
    assert theta.shape == (2, 3, 10) and np.allclose(parameters_of_log_cholesky(theta), pi, rtol=1e-10)
    assert np.allclose(theta[..., 7:], pi[..., 1:4] / pi[..., :1])  # t is the centre of mass
    U = np.linalg.cholesky(pseudo_inertia(pi[0, 0])[::-1, ::-1])[::-1, ::-1]  # the upper factor
    assert np.allclose(np.exp(theta[0, 0, 0] + np.array([*theta[0, 0, 1:4], 0.0])), np.diag(U))
    assert np.allclose(np.exp(theta[0, 0, 0]) * theta[0, 0, 4:7], [U[0, 1], U[1, 2], U[0, 2]])
    anything = parameters_of_log_cholesky(rng.normal(size=(20, 10)))
    assert (np.linalg.eigvalsh(pseudo_inertia(anything)) > 0.0).all()


def test_log_cholesky_of_symbols() -> None:
    pi = points(np.random.default_rng(16))[2]
    program = lw.trace(lambda x: parameters_of_log_cholesky(log_cholesky(x)), {"x": 10})
    assert np.allclose(lw.interpret(lw.lower(program), pi), pi)


def test_what_no_body_can_have_is_said() -> None:
    good = points(np.random.default_rng(17))[2]
    bad = good.copy()
    bad[9] = 10.0 * (bad[4] + bad[6])  # against the triangle inequality
    with pytest.raises(ModelError, match=r"parameters\[1\]: expected a solid body, .*eigenvalue -"):
        log_cholesky([good, bad])
    for wrong in (np.zeros(10), np.full(10, np.nan)):
        with pytest.raises(ModelError, match="parameters: expected (a solid body|finite numbers)"):
            log_cholesky(wrong)
    with pytest.raises(ShapeError, match=r"shape \(..., 10\), got \(9,\)"):
        pseudo_inertia(np.zeros(9))
    with pytest.raises(ShapeError, match=r"shape \(..., 4, 4\), got \(4,\)"):
        parameters_of_pseudo_inertia(np.zeros(4))
    with pytest.raises(ModelError, match="parameters: expected finite numbers"):
        log_cholesky(np.full(10, np.nan))
    with pytest.raises(ModelError, match=r"eigenvalue \S+e-\d+, zero to rounding .a point, rod"):
        log_cholesky([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 4e-16])  # a rod along z


@pytest.mark.parametrize("take", [pseudo_inertia, log_cholesky, parameters_of_log_cholesky])
def test_what_are_no_numbers(take: Any) -> None:
    for wrong in (["heavy"] * 10, [None] * 10, 1j * np.ones(10), [*np.ones(9), 1j]):
        with pytest.raises(DtypeError, match="parameters: expected real numbers or symbols, got"):
            take(wrong)
    with pytest.raises(ShapeError, match=r"expected shape \(..., 10\), got rows of different lengths"):
        take([[1.0, 2.0], [3.0]])
    mixed = points(np.random.default_rng(18))[2].astype(object)  # numbers all the same
    assert take(mixed).dtype == float


def test_numbers_as_objects_are_checked_too() -> None:
    with pytest.raises(ModelError, match="expected a solid body"):
        log_cholesky(np.array([-1.0, *np.zeros(9)], dtype=object))


@pytest.mark.parametrize("mass, size", [(1.0, 1e-8), (1e-3, 1e-10), (10.0, 1e6)])
def test_log_cholesky_of_any_unit_of_length(mass: float, size: float) -> None:
    """A solid is one at any size: whether it is a point is no question of metres."""
    pi = points(np.random.default_rng(19))[2] * mass
    pi = pi * np.repeat([1.0, size, size * size], [1, 3, 6])
    assert np.allclose(parameters_of_log_cholesky(log_cholesky(pi)) / pi, 1.0, rtol=1e-10)


def test_the_pseudo_inertia_of_nothing() -> None:
    """Zero is symmetric: alone, and among others."""
    assert np.array_equal(parameters_of_pseudo_inertia(np.zeros((4, 4))), np.zeros(10))
    P = pseudo_inertia(points(np.random.default_rng(20))[2])
    found = parameters_of_pseudo_inertia([np.zeros((4, 4)), P])
    assert np.array_equal(found, [np.zeros(10), parameters_of_pseudo_inertia(P)])


def test_a_pseudo_inertia_that_is_not_symmetric() -> None:
    P = pseudo_inertia(points(np.random.default_rng(20))[2])
    assert np.allclose(parameters_of_pseudo_inertia(P + 1e-13 * np.triu(P)), parameters_of_pseudo_inertia(P))
    with pytest.raises(
        ModelError, match=r"matrix\[1\] is not symmetric: entries across the diagonal differ by 1"
    ):
        parameters_of_pseudo_inertia([P, P + np.eye(4)[[2]].T * np.eye(4)[0]])


def test_a_model_that_cannot_move() -> None:
    b = lw.ModelBuilder("fast").add_body("body", mass=1.0, inertia=(0.1, 0.1, 0.1))
    model = b.add_joint("joint", Fixed(), parent="world", child="body").build()
    none = np.zeros(0)
    assert lw.inverse_dynamics_regressor(model, none, none, none).shape == (0, 10 * len(model.bodies))
