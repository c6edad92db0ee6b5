"""What every public function of a model shall give, by the dense oracle or by a law: the rows of the product
test.

A row takes `Given`: a case, its states and random arrays, a way to call functions, and the oracle. It yields
pairs of results and what they shall be. `differences` are those of the library's own functions, which rows of
their own compare with the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import linkwork as lw
from dense_mechanics import Dense, apply
from linkwork.mechanism import Actuator
from product_models import CASES, Case

Array = np.ndarray
Pair = tuple[
    Any, ...
]  # a result, what it shall be, and the size that errors are relative to where it is not its own
Row = Callable[["Given"], Iterator[Pair]]
NORMAL = (0.3, 0.2, 1.0)
STEP = 1e-3  # of differences along the tangent space


class Given(NamedTuple):
    """A case in some states, with arrays for all arguments."""

    case: Case
    q: Array
    v: Array
    a: Array
    tau: Array
    f_ext: Array
    oracle: Dense
    call: Callable[
        ..., Any
    ]  # a function, its arrays and options: computed in the dtype and with the parameters under test

    @property
    def model(self) -> lw.Model:
        return self.case.model

    @property
    def weld(self) -> dict[str, Any]:
        """Return options of functions with constraints."""
        return {"constraints": (lw.OnPlane("tool", normal=NORMAL) if self.single else lw.Connect("tool"),)}

    @property
    def single(self) -> bool:
        """Return whether there is only one row: where three could not all be kept."""
        return self.model.nv - 4 * len(self.model.constrained_loops) < 4


ROWS: dict[str, Row] = {}


def row(*names: str) -> Callable[[Row], Row]:
    """Register what the named functions shall give."""

    def decorate(function: Row) -> Row:
        for name in names:
            assert name not in ROWS, name
            ROWS[name] = function
        return function

    return decorate


def times(matrix: Array, vector: Array) -> Array:
    return apply(np.asarray(matrix), np.asarray(vector))


def transposed(matrix: Array) -> Array:
    return np.swapaxes(np.asarray(matrix), -1, -2)


def body_axes(given: Given, J: Array, q: Array | None = None) -> Array:
    """Return a frame's Jacobian or velocity in its own axes, from that in the world's."""
    R = given.oracle.frame_pose("tool", q)[0].transpose(0, 2, 1)
    return np.concatenate([R @ J[:, :3], R @ J[:, 3:]], axis=1)


def tool_jacobian(given: Given) -> Array:
    """Return the Jacobian of the frame "tool" in its own axes, (b, 6, nv)."""
    return body_axes(given, given.oracle.frame_jacobian_s("tool", given.q) @ given.oracle.G)


def difference_of(given: Given, function: Callable[[Array], Any], nv: int) -> Array:
    """Return derivatives of a function of (b, nv) perturbations at zero, on the last axis, to fourth order."""
    columns = []
    for e in np.eye(nv):
        step = STEP * np.broadcast_to(e, (len(given.q), nv))
        near = np.asarray(function(step)) - np.asarray(function(-step))
        far = np.asarray(function(2.0 * step)) - np.asarray(function(-2.0 * step))
        columns.append((8.0 * near - far) / (12.0 * STEP))
    return np.stack(columns, axis=-1)


def differences(given: Given, name: str, *arrays: Array, **options: Any) -> tuple[Array, ...]:
    """Return the derivatives of a function by q, on the tangent space, and by its other arrays, by
    differences.
    """
    function = getattr(lw, name)
    nv = given.model.nv
    rest = arrays[1:]

    def by_q(step: Array) -> Any:
        moved = spanning_step(given, step)
        return function(given.model, moved, *rest, **options)

    found = [difference_of(given, by_q, nv)]
    for k, array in enumerate(rest):

        def by(step: Array, k: int = k, array: Array = array) -> Any:
            return function(given.model, given.q, *rest[:k], array + step, *rest[k + 1 :], **options)

        found.append(difference_of(given, by, array.shape[-1]))
    return tuple(found)


def spanning_step(given: Given, step: Array) -> Array:
    """Return q moved by v-like steps, joint by joint where loops are constrained."""
    return np.asarray(lw.integrate(opened(given.model), given.q, step))


@cache
def opened(model: lw.Model) -> lw.Model:
    """Return a model without its constrained loops."""
    return replace(model, constrained_loops=(), kernels={}) if model.constrained_loops else model


# states


@row("spanning_velocity")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.spanning_velocity, given.q, given.v), given.oracle.v_s


@row("spanning_acceleration")
def _(given: Given) -> Iterator[Pair]:
    expected = times(given.oracle.G, given.a) + given.oracle.g
    yield given.call(lw.spanning_acceleration, given.q, given.v, given.a), expected


@row("independent_force")
def _(given: Given) -> Iterator[Pair]:
    tau_s = np.random.default_rng(1).normal(size=given.oracle.v_s.shape)
    yield given.call(lw.independent_force, given.q, tau_s), given.oracle.project(tau_s)


@row("integrate", "difference")
def _(given: Given) -> Iterator[Pair]:
    """Integration is undone by `difference`; where it closes constrained loops besides, to second order of
    the step.
    """
    size = 1e-3 if given.model.constrained_loops else 0.05
    moved = given.call(lw.integrate, given.q, size * given.v)
    scale = 10.0 if given.model.constrained_loops else None
    yield given.call(lw.difference, given.q, moved), size * given.v, scale
    yield given.oracle.residual(np.asarray(moved), given.model.loops) if given.model.loops else 0.0, 0.0, 1.0


@row("integrate_derivatives")
def _(given: Given) -> Iterator[Pair]:
    """As of the tree where loops are constrained."""
    model = opened(given.model)
    nv = given.model.nv
    step = 0.1 * given.v
    end = lw.integrate(model, given.q, step)

    def arrived(q: Array, v: Array) -> Array:
        return np.asarray(lw.difference(model, end, lw.integrate(model, q, v)))

    found = given.call(lw.integrate_derivatives, given.q, step)
    yield found[0], difference_of(given, lambda d: arrived(spanning_step(given, d), step), nv)
    yield found[1], difference_of(given, lambda d: arrived(given.q, step + d), nv)


@row("difference_derivatives")
def _(given: Given) -> Iterator[Pair]:
    """As of the tree where loops are constrained."""
    model = opened(given.model)
    nv = given.model.nv
    end = lw.integrate(model, given.q, 0.1 * given.v)
    found = given.call(lw.difference_derivatives, given.q, end)
    yield found[0], difference_of(given, lambda d: lw.difference(model, spanning_step(given, d), end), nv)
    yield (
        found[1],
        difference_of(given, lambda d: lw.difference(model, given.q, lw.integrate(model, end, d)), nv),
    )


@row("close_loops")
def _(given: Given) -> Iterator[Pair]:
    closed, left = given.call(lw.close_loops, given.q)
    yield closed, given.q
    yield left, np.zeros(len(given.q)), 1.0


# kinematics


@row("forward_kinematics")
def _(given: Given) -> Iterator[Pair]:
    found = np.asarray(given.call(lw.forward_kinematics, given.q))
    for k, (R, p) in enumerate(given.oracle.poses):
        yield found[:, k, :3, :3], R
        yield found[:, k, :3, 3], p


@row("frame_pose")
def _(given: Given) -> Iterator[Pair]:
    found = np.asarray(given.call(lw.frame_pose, given.q, frame="tool"))
    R, p = given.oracle.frame_pose("tool")
    yield found[:, :3, :3], R
    yield found[:, :3, 3], p


@row("frame_velocity")
def _(given: Given) -> Iterator[Pair]:
    J = given.oracle.frame_jacobian_s("tool", given.q) @ given.oracle.G
    yield given.call(lw.frame_velocity, given.q, given.v, frame="tool"), times(body_axes(given, J), given.v)
    yield (
        given.call(lw.frame_velocity, given.q, given.v, frame="tool", reference="world_aligned"),
        times(J, given.v),
    )


@row("frame_acceleration")
def _(given: Given) -> Iterator[Pair]:
    found = given.call(
        lw.frame_acceleration,
        given.q,
        given.v,
        given.a,
        frame="tool",
        reference="world_aligned",
        classical=True,
    )
    yield found, given.oracle.frame_acceleration("tool", given.a)


@row("frame_jacobian")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.frame_jacobian, given.q, frame="tool"), tool_jacobian(given)


@row("frame_jacobian_rate")
def _(given: Given) -> Iterator[Pair]:
    def at(t: float) -> Array:
        return np.asarray(
            lw.frame_jacobian(given.model, lw.integrate(given.model, given.q, t * given.v), frame="tool")
        )

    rate = (8.0 * (at(STEP) - at(-STEP)) - (at(2 * STEP) - at(-2 * STEP))) / (12.0 * STEP)
    yield given.call(lw.frame_jacobian_rate, given.q, given.v, frame="tool"), rate


@row("frame_velocity_derivatives")
def _(given: Given) -> Iterator[Pair]:
    found = given.call(lw.frame_velocity_derivatives, given.q, given.v, frame="tool")
    yield from zip(found, differences(given, "frame_velocity", given.q, given.v, frame="tool"))


@row("frame_acceleration_derivatives")
def _(given: Given) -> Iterator[Pair]:
    found = given.call(lw.frame_acceleration_derivatives, given.q, given.v, given.a, frame="tool")
    yield from zip(found, differences(given, "frame_acceleration", given.q, given.v, given.a, frame="tool"))


@row("center_of_mass")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.center_of_mass, given.q), given.oracle.center_of_mass


@row("center_of_mass_jacobian")
def _(given: Given) -> Iterator[Pair]:
    m = given.oracle.masses
    expected = np.einsum("m,bmxi->bxi", m, given.oracle.center_jacobian(given.q)) / m.sum()
    yield given.call(lw.center_of_mass_jacobian, given.q), expected @ given.oracle.G


# energy and momentum


@row("kinetic_energy")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.kinetic_energy, given.q, given.v), given.oracle.kinetic_energy


@row("potential_energy")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.potential_energy, given.q), given.oracle.potential_energy


@row("kinetic_energy_derivatives")
def _(given: Given) -> Iterator[Pair]:
    by_q, by_v = given.call(lw.kinetic_energy_derivatives, given.q, given.v)
    yield by_v, times(given.oracle.M, given.v)
    yield by_q, differences(given, "kinetic_energy", given.q, given.v)[0]


@row("potential_energy_derivatives")
def _(given: Given) -> Iterator[Pair]:
    yield (
        given.call(lw.potential_energy_derivatives, given.q),
        differences(given, "potential_energy", given.q)[0],
    )


@row("momentum")
def _(given: Given) -> Iterator[Pair]:
    yield (
        given.call(lw.momentum, given.q, given.v),
        times(given.oracle.centroidal_map_s(given.q), given.oracle.v_s),
    )


@row("centroidal_map")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.centroidal_map, given.q), given.oracle.centroidal_map_s(given.q) @ given.oracle.G


@row("momentum_rate")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.momentum_rate, given.q, given.v, given.a), given.oracle.momentum_rate(given.a)


@row("momentum_derivatives")
def _(given: Given) -> Iterator[Pair]:
    yield from zip(
        given.call(lw.momentum_derivatives, given.q, given.v),
        differences(given, "momentum", given.q, given.v),
    )


@row("momentum_rate_derivatives")
def _(given: Given) -> Iterator[Pair]:
    found = given.call(lw.momentum_rate_derivatives, given.q, given.v, given.a)
    yield from zip(found, differences(given, "momentum_rate", given.q, given.v, given.a))


# dynamics


@row("inverse_dynamics")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.inverse_dynamics, given.q, given.v, given.a), given.oracle.inverse_dynamics(given.a)
    found = given.call(lw.inverse_dynamics, given.q, given.v, given.a, given.f_ext)
    yield found, given.oracle.inverse_dynamics(given.a, given.f_ext)


@row("bias_force")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.bias_force, given.q, given.v), given.oracle.inverse_dynamics(0.0 * given.a)


@row("gravity_force")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.gravity_force, given.q), given.oracle.project(given.oracle.gravity_s)


@row("forward_dynamics")
def _(given: Given) -> Iterator[Pair]:
    yield (
        given.call(lw.forward_dynamics, given.q, given.v, given.tau),
        given.oracle.forward_dynamics(given.tau),
    )
    found = given.call(lw.forward_dynamics, given.q, given.v, given.tau, given.f_ext)
    yield found, given.oracle.forward_dynamics(given.tau, given.f_ext)


@row("mass_matrix")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.mass_matrix, given.q), given.oracle.M


@row("mass_matrix_inverse")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.mass_matrix_inverse, given.q), np.linalg.inv(given.oracle.M)


@row("mass_matrix_determinant", "mass_matrix_log_determinant")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.mass_matrix_determinant, given.q), np.linalg.det(given.oracle.M)
    yield given.call(lw.mass_matrix_log_determinant, given.q), np.linalg.slogdet(given.oracle.M)[1]


@row("mass_matrix_product")
def _(given: Given) -> Iterator[Pair]:
    yield given.call(lw.mass_matrix_product, given.q, given.v), times(given.oracle.M, given.v)


@row("mass_matrix_solve")
def _(given: Given) -> Iterator[Pair]:
    yield (
        given.call(lw.mass_matrix_solve, given.q, given.tau),
        np.linalg.solve(given.oracle.M, given.tau[..., None])[..., 0],
    )


@row("newton_euler_factors")
def _(given: Given) -> Iterator[Pair]:
    """(H A) M (H A)* is the mass matrix; of M the block of each row is given, which begins where its node
    does.
    """
    HA, blocks = (np.asarray(x) for x in given.call(lw.newton_euler_factors, given.q))
    rows = lw.operators(given.model, given.q[0]).rows

    starts = [own.start for own in rows.slices for _ in range(own.start, own.stop)]
    M = np.zeros((len(HA), HA.shape[-1], HA.shape[-1]))
    for k, start in enumerate(starts):
        wide = min(blocks.shape[-1], HA.shape[-1] - start)
        M[:, k, start : start + wide] = blocks[:, k, :wide]
    yield HA @ M @ transposed(HA), given.oracle.M


@row("innovations_factors", "innovations_product")
def _(given: Given) -> Iterator[Pair]:
    L, D = (np.asarray(x) for x in given.call(lw.innovations_factors, given.q))
    yield L @ D @ transposed(L), given.oracle.M
    yield given.call(lw.innovations_product, given.q, given.tau), times(L, given.tau)


@row("coriolis_matrix")
def _(given: Given) -> Iterator[Pair]:
    C = np.asarray(given.call(lw.coriolis_matrix, given.q, given.v))
    oracle = given.oracle
    yield times(C, given.v), oracle.project(oracle.velocity_s + times(oracle.M_s, oracle.g))

    def at(t: float) -> Array:
        return np.asarray(lw.mass_matrix(given.model, lw.integrate(given.model, given.q, t * given.v)))

    yield C + transposed(C), (8.0 * (at(STEP) - at(-STEP)) - (at(2 * STEP) - at(-2 * STEP))) / (12.0 * STEP)


@row("inverse_dynamics_derivatives")
def _(given: Given) -> Iterator[Pair]:
    found = given.call(lw.inverse_dynamics_derivatives, given.q, given.v, given.a)
    yield from zip(found, differences(given, "inverse_dynamics", given.q, given.v, given.a))


@row("forward_dynamics_derivatives")
def _(given: Given) -> Iterator[Pair]:
    found = given.call(lw.forward_dynamics_derivatives, given.q, given.v, given.tau)
    expected = differences(given, "forward_dynamics", given.q, given.v, given.tau)
    yield from zip(found[1:], expected[1:])
    if not given.model.constrained_loops:  # there ∂/∂q opens loops, joint by joint
        yield found[0], expected[0]


@row("linearize")
def _(given: Given) -> Iterator[Pair]:
    """The rates of perturbations are the derivatives of forward dynamics; velocities push perturbations one
    to one.
    """
    nv = given.model.nv
    expected = lw.forward_dynamics_derivatives(given.model, given.q, given.v, given.tau)
    A, B = (np.asarray(x) for x in given.call(lw.linearize, given.q, given.v, given.tau))
    yield A[:, nv:, :nv], expected[0]
    yield A[:, nv:, nv:], expected[1]
    yield A[:, :nv, nv:], np.broadcast_to(np.eye(nv), A[:, :nv, nv:].shape)
    yield B[:, nv:], expected[2]
    yield B[:, :nv], 0.0, 1.0


@row("inverse_dynamics_second_derivatives")
def _(given: Given) -> Iterator[Pair]:
    found = given.call(lw.inverse_dynamics_second_derivatives, given.q, given.v, given.a)
    nv = given.model.nv

    def first(which: int, q: Array, v: Array, a: Array) -> Array:
        return np.asarray(lw.inverse_dynamics_derivatives(given.model, q, v, a)[which])

    yield found[1], difference_of(given, lambda d: first(1, given.q, given.v + d, given.a), nv)
    yield found[2], difference_of(given, lambda d: first(0, given.q, given.v + d, given.a), nv)
    yield (
        found[3],
        transposed(
            difference_of(given, lambda d: first(2, spanning_step(given, d), given.v, given.a), nv)
        ).swapaxes(-1, -2),
    )


@row("hybrid_dynamics")
def _(given: Given) -> Iterator[Pair]:
    fixed = prescribed(given)
    found, forces = given.call(lw.hybrid_dynamics, given.q, given.v, given.a, given.tau, prescribed=fixed)
    a, tau = hybrid(given, fixed)
    yield found, a
    yield forces, tau


def prescribed(given: Given) -> Array:
    """Return every second velocity, as far as constrained loops can still be kept by the others."""
    J = given.oracle.held()[0]
    rank = np.linalg.matrix_rank(J, 1e-8).min() if J.shape[1] else 0
    fixed = np.zeros(given.model.nv, dtype=bool)
    for k in range(0, given.model.nv, 2):
        fixed[k] = True
        if (
            rank
            and np.linalg.svd(J[:, :, ~fixed], compute_uv=False)[:, rank - 1 : rank].min(initial=0.0) < 0.1
        ):
            fixed[k] = False
    return fixed


def hybrid(given: Given, fixed: Array) -> tuple[Array, Array]:
    """Return accelerations and forces of hybrid dynamics, by one dense system with the forces of constrained
    loops.
    """
    oracle = given.oracle
    nv = given.model.nv
    h = oracle.inverse_dynamics(np.zeros_like(given.tau))
    J, drift = oracle.held()
    free = np.flatnonzero(~fixed)
    a = np.where(fixed, given.a, 0.0)
    M = oracle.M
    right = (given.tau - h - times(M, a))[:, free]
    inner = M[:, free][:, :, free]
    response = np.linalg.solve(inner, transposed(J[:, :, free]))
    start = np.linalg.solve(inner, right[..., None])[..., 0]
    D = J[:, :, free] @ response
    f = -times(
        np.linalg.pinv(D, rcond=1e-8, hermitian=True), times(J, a) + drift + times(J[:, :, free], start)
    )
    a[:, free] = start + times(response, f)
    tau = times(M, a) + h - times(transposed(J), f)
    return a, tau.reshape(-1, nv)


@row("hybrid_dynamics_derivatives")
def _(given: Given) -> Iterator[Pair]:
    fixed = prescribed(given)
    model = given.model
    nv = given.model.nv
    found = given.call(lw.hybrid_dynamics_derivatives, given.q, given.v, given.a, given.tau, prescribed=fixed)

    def solution(q: Array, v: Array, step: Array) -> Array:
        a = given.a + fixed * step
        tau = given.tau + ~fixed * step
        a, tau = (np.asarray(x) for x in lw.hybrid_dynamics(model, q, v, a, tau, prescribed=fixed))
        return np.where(fixed, tau, a)

    still = np.zeros_like(given.v)
    if not model.constrained_loops:  # there ∂/∂q opens loops, joint by joint
        yield found[0], difference_of(given, lambda d: solution(spanning_step(given, d), given.v, still), nv)
    yield found[1], difference_of(given, lambda d: solution(given.q, given.v + d, still), nv)
    yield found[2], difference_of(given, lambda d: solution(given.q, given.v, d), nv)


@row("spanning_hybrid_dynamics")
def _(given: Given) -> Iterator[Pair]:
    """With nothing prescribed it is forward dynamics of the spanning tree with loops."""
    oracle = given.oracle
    tau_s = np.random.default_rng(2).normal(size=oracle.v_s.shape)
    found, forces = given.call(
        lw.spanning_hybrid_dynamics, given.q, given.v, 0.0 * tau_s, tau_s, prescribed=[]
    )
    a = oracle.forward_dynamics(oracle.project(tau_s))
    yield found, times(oracle.G, a) + oracle.g
    yield forces, tau_s


@row("joint_forces")
def _(given: Given) -> Iterator[Pair]:
    """By power: the wrench of a joint along its own motions is what drives, springs, dampers and armature do
    there.
    """
    oracle = given.oracle
    model = given.model
    if model.loops or model.is_flexible:  # loop joints carry loads too: tests/algorithms/test_joint_forces.py
        return
    found = np.asarray(given.call(lw.joint_forces, given.q, given.v, given.a, given.f_ext))
    total = np.zeros_like(oracle.v_s)
    for k, joint in enumerate(model.joints):
        R = transposed(oracle.poses[k][0])
        J = np.concatenate([R @ oracle.w[k], R @ oracle.p[k]], axis=1)[:, :, joint.v_slice]
        total[:, joint.v_slice] = times(transposed(J), found[:, k])
    armature = np.array([x for joint in model.joints for x in joint.armature])
    passive = oracle.joints_passive_s + armature * given.a
    yield total, oracle.inverse_dynamics_s(given.a, given.f_ext) - passive


@row("loop_forces")
def _(given: Given) -> Iterator[Pair]:
    """The size of a loop joint's force, which does not depend on the directions of its rows."""
    oracle = given.oracle
    found = np.asarray(given.call(lw.loop_forces, given.q, given.v, given.a))
    if found.shape[-1] < 5:  # couplings, and redundant equations: tests/loops/test_loops.py
        return
    need = oracle.inverse_dynamics_s(times(oracle.G, given.a) + oracle.g)
    lam = times(np.linalg.pinv(transposed(oracle.K[:, :, oracle.bound]), rcond=1e-8), need[:, oracle.bound])
    yield np.linalg.norm(found[:, :3], axis=1), np.linalg.norm(lam[:, :3], axis=1)


@row("actuator_force")
def _(given: Given) -> Iterator[Pair]:
    if given.model.is_flexible:
        return
    names = [name for joint in given.model.joints if joint.nv < 6 for name in joint.v_names]
    places = [k for k, name in enumerate(given.model.v_names_spanning) if name in names]
    found = np.asarray(given.call(lw.actuator_force, given.q, given.tau, actuators=names))
    tau_s = np.zeros_like(given.oracle.v_s)
    tau_s[:, places] = found
    driven = [k for k, name in enumerate(given.model.v_names) if name in names]
    J = given.oracle.held()[0]  # what constrained loops transmit makes no difference
    allowed = np.eye(J.shape[2]) - np.linalg.pinv(J, rcond=1e-8) @ J
    done, wanted = (times(allowed, tau) for tau in (given.oracle.project(tau_s), given.tau))
    yield done[:, driven], wanted[:, driven], float(np.abs(given.tau).max())


@row("actuation")
def _(given: Given) -> Iterator[Pair]:
    joints = [joint for joint in given.model.joints if joint.nv == 1 and not joint.kind.elastic][:2]
    laws: dict[str, Any] = {
        "gain": ("affine", (2.0, 0.1, -0.2)),
        "bias": ("affine", (0.3, -4.0, -0.5)),
        "length": 0.2,
    }
    motors = [
        Actuator(f"m{k}", "joint", joint.name, ((joint.name, 3.0),), **laws) for k, joint in enumerate(joints)
    ]
    tau_s = np.zeros_like(given.oracle.v_s)
    for k, joint in enumerate(joints):
        length = 0.2 + 3.0 * given.q[:, joint.q_start]
        velocity = 3.0 * given.oracle.v_s[:, joint.v_start]
        u = given.tau[:, k]
        force = (2.0 + 0.1 * length - 0.2 * velocity) * u + 0.3 - 4.0 * length - 0.5 * velocity
        tau_s[:, joint.v_start] = np.clip(3.0 * force, -joint.max_effort[0], joint.max_effort[0])
    if motors:
        yield (
            given.call(lw.actuation, given.q, given.v, given.tau[:, : len(motors)], actuators=motors),
            given.oracle.project(tau_s),
        )


@row("actuator_map", "actuator_map_inverse")
def _(given: Given) -> Iterator[Pair]:
    names = [
        name
        for joint in given.model.joints
        if joint.nv < 6 and not joint.kind.elastic
        for name in joint.v_names
    ]
    driven = [name for name in given.model.v_names if name in names]
    places = [given.model.v_names_spanning.index(name) for name in names]
    own = [given.model.v_names.index(name) for name in driven]
    follow = given.oracle.G[:, places][:, :, own]
    held = given.oracle.held()[0]
    if held.shape[1]:  # motors in all joints of a constrained loop: the nearest motion that it allows
        allowed = np.eye(given.model.nv) - np.linalg.pinv(held, rcond=1e-8) @ held
        yield (
            given.call(lw.actuator_map, given.q, actuators=driven, joints=names),
            (given.oracle.G @ allowed)[:, places][:, :, own],
        )
        return
    yield given.call(lw.actuator_map, given.q, actuators=driven, joints=names), follow
    identity = np.broadcast_to(np.eye(len(own)), (len(given.q), len(own), len(own)))
    yield given.call(lw.actuator_map_inverse, given.q, actuators=driven, joints=driven), identity


# identification


@row("inverse_dynamics_regressor")
def _(given: Given) -> Iterator[Pair]:
    oracle = given.oracle
    pi = given.model.inertial_parameters()
    Y = np.asarray(given.call(lw.inverse_dynamics_regressor, given.q, given.v, given.a))
    a_s = times(oracle.G, given.a) + oracle.g
    armature = np.array([x for joint in given.model.joints for x in joint.armature])
    yield Y @ pi, oracle.project(oracle.inverse_dynamics_s(a_s) - oracle.passive_s - armature * a_s)


@row("energy_regressor")
def _(given: Given) -> Iterator[Pair]:
    oracle = given.oracle
    pi = given.model.inertial_parameters()
    Y = np.asarray(given.call(lw.energy_regressor, given.q, given.v))
    armature = np.array([x for joint in given.model.joints for x in joint.armature])
    yield Y @ pi, oracle.kinetic_energy + oracle.weight_energy - 0.5 * (oracle.v_s**2) @ armature


# constraints


def constraint_rows(given: Given, a: Array | None = None) -> tuple[Array, Array]:
    """Return J and J a + J̇ v of the constraint by the oracle, without the model's own loops; the bias where
    a is left out.
    """
    J = given.oracle.frame_jacobian_s("tool", given.q)[:, 3:] @ given.oracle.G
    drift = given.oracle.frame_acceleration("tool", np.zeros_like(given.v) if a is None else a)[:, 3:]
    if given.single:
        normal = np.array(NORMAL) / np.linalg.norm(NORMAL)
        return normal @ J[:, None], (drift @ normal)[:, None]
    R = transposed(given.oracle.frame_pose("tool")[0])  # along the frame's own axes
    return R @ J, times(R, drift)


@row("constraint_jacobian")
def _(given: Given) -> Iterator[Pair]:
    J, _ = constraint_rows(given)
    yield np.asarray(given.call(lw.constraint_jacobian, given.q, **given.weld))[:, : J.shape[1]], J


@row("constraint_bias")
def _(given: Given) -> Iterator[Pair]:
    J, acceleration = constraint_rows(given, given.a)
    bias = np.asarray(given.call(lw.constraint_bias, given.q, given.v, **given.weld))[:, : J.shape[1]]
    yield times(J, given.a) + bias, acceleration


@row("constrained_dynamics")
def _(given: Given) -> Iterator[Pair]:
    J, bias = constraint_rows(given)
    expected = given.oracle.forward_dynamics(given.tau, None, J, bias)
    held = given.oracle.held()[0]
    for method in ("caba", "pv", "pv_early", "ltls", "ltl"):
        a, forces = given.call(
            lw.constrained_dynamics, given.q, given.v, given.tau, **given.weld, method=method
        )
        yield a, expected
        if not held.shape[1]:
            pushed = times(transposed(J), np.asarray(forces))
            yield (
                pushed,
                given.oracle.inverse_dynamics(np.asarray(a, dtype=float)) - given.tau,
                np.abs(pushed).max() + 10.0,
            )


@row("constrained_dynamics_derivatives")
def _(given: Given) -> Iterator[Pair]:
    found = given.call(lw.constrained_dynamics_derivatives, given.q, given.v, given.tau, **given.weld)
    nv = given.model.nv

    def by(function: Callable[[Array], Any]) -> Array:
        return difference_of(given, lambda d: function(d)[0], nv)

    by_tau = by(lambda d: lw.constrained_dynamics(given.model, given.q, given.v, given.tau + d, **given.weld))
    mobility = float(np.abs(lw.mass_matrix_inverse(opened(given.model), given.q)).max())
    yield (
        found[1],
        by(lambda d: lw.constrained_dynamics(given.model, given.q, given.v + d, given.tau, **given.weld)),
    )
    yield found[2], by_tau, max(mobility, float(np.abs(by_tau).max()))  # zero where nothing can move


@row("constrained_inverse_dynamics")
def _(given: Given) -> Iterator[Pair]:
    """The motion of constrained dynamics is produced by what it finds: the equation of motion holds and
    nothing is missing.
    """
    if given.model.is_flexible:
        return
    a = lw.constrained_dynamics(given.model, given.q, given.v, given.tau, **given.weld)[0]
    u, f, missing = (
        np.asarray(x) for x in given.call(lw.constrained_inverse_dynamics, given.q, given.v, a, **given.weld)
    )
    names = [name for joint in given.model.joints if joint.nv < 6 for name in joint.v_names]
    driven = [k for k, name in enumerate(given.model.v_names) if name in names]
    J = np.asarray(lw.constraint_jacobian(given.model, given.q, **given.weld))
    total = times(transposed(J), f) + missing
    total[:, driven] += u
    yield total, given.oracle.inverse_dynamics(np.asarray(a))


@row("impact")
def _(given: Given) -> Iterator[Pair]:
    J, _ = constraint_rows(given)
    held = given.oracle.held()[0]
    rows = np.concatenate([held, J], axis=1)
    M = given.oracle.M
    momentum = times(M, given.v)
    after = given.oracle.constrained(momentum, rows, np.zeros(rows.shape[:2]))[0]
    yield given.call(lw.impact, given.q, given.v, **given.weld)[0], after, np.abs(given.v).max()


@row("delassus")
def _(given: Given) -> Iterator[Pair]:
    J = np.asarray(lw.constraint_jacobian(given.model, given.q, **given.weld))
    yield given.call(lw.delassus, given.q, **given.weld), J @ np.linalg.solve(given.oracle.M, transposed(J))


DAMPING = 0.1  # compliance of damped Delassus inverses [1/kg]


def damped_inverse(given: Given) -> Array:
    """Return (J M⁻¹ Jᵀ + R)⁻¹."""
    J = np.asarray(lw.constraint_jacobian(given.model, given.q, **given.weld))
    return np.linalg.inv(J @ np.linalg.solve(given.oracle.M, transposed(J)) + DAMPING * np.eye(J.shape[1]))


@row("damped_delassus_inverse")
def _(given: Given) -> Iterator[Pair]:
    for method in ("caba", "pv", "ltl"):
        found = given.call(
            lw.damped_delassus_inverse, given.q, **given.weld, compliance=DAMPING, method=method
        )
        yield found, damped_inverse(given)


@row("damped_delassus_inverse_at_base")
def _(given: Given) -> Iterator[Pair]:
    B, C = (
        np.asarray(x)
        for x in given.call(lw.damped_delassus_inverse_at_base, given.q, **given.weld, compliance=DAMPING)
    )
    yield B - C @ transposed(C), damped_inverse(given)


@row("damped_delassus_product")
def _(given: Given) -> Iterator[Pair]:
    inverse = damped_inverse(given)
    x = np.random.default_rng(3).normal(size=inverse.shape[:2])
    yield (
        given.call(lw.damped_delassus_product, given.q, x, **given.weld, compliance=DAMPING),
        times(inverse, x),
    )


@row("operational_compliance", "operational_inertia")
def _(given: Given) -> Iterator[Pair]:
    J = tool_jacobian(given)
    expected = J @ np.linalg.solve(given.oracle.M, transposed(J))
    yield given.call(lw.operational_compliance, given.q, frames=("tool",)), expected
    if given.model.nv > 8:  # otherwise the frame cannot move in all directions
        yield given.call(lw.operational_inertia, given.q, frames=("tool",)), np.linalg.inv(expected)


@row("force_propagator")
def _(given: Given) -> Iterator[Pair]:
    """A force on a frame and the propagated one on what carries it give the same acceleration to the carrier."""
    oracle = given.oracle

    def jacobian(name: str) -> Array:
        R = transposed(oracle.frame_pose(name)[0])
        J = oracle.frame_jacobian_s(name, given.q) @ oracle.G
        return np.concatenate([R @ J[:, :3], R @ J[:, 3:]], axis=1)

    tool = jacobian("tool")
    carrier = jacobian("carrier")
    P = np.asarray(given.call(lw.force_propagator, given.q, frame="tool", to="carrier"))
    direct = carrier @ np.linalg.solve(oracle.M, transposed(tool))
    yield carrier @ np.linalg.solve(oracle.M, transposed(carrier)) @ P, direct


# stepping


@row("step")
def _(given: Given) -> Iterator[Pair]:
    """The change of velocity over a short step is the acceleration's, with dry friction against the motion of
    joints.
    """
    dt = 1e-6
    model = given.model
    q, v = given.call(lw.step, given.q, given.v, given.tau, dt)
    if np.asarray(v).dtype == np.float32:  # which would round such a short step
        dt = 1e-3
        q, v = given.call(lw.step, given.q, given.v, given.tau, dt)
    rubbing = np.concatenate([np.asarray(joint.friction, dtype=float) for joint in model.joints])
    against = -rubbing * np.sign(lw.spanning_velocity(model, given.q, given.v))
    a = given.oracle.forward_dynamics(given.tau + lw.independent_force(model, given.q, against))
    yield np.asarray(v) - given.v, dt * a
    yield lw.difference(given.model, given.q, np.asarray(q, dtype=float)), dt * np.asarray(v)


# what is refused, by function and feature ("" for all), and a key word of the error
REFUSED = {
    ("contact_points", ""): "shape",
    ("distance", ""): "no two shapes",
    ("difference_derivatives", "embedded loop"): "others",
    ("energy_regressor", "flexible"): "flexible",
    ("force_propagator", "embedded gears"): "through",
    ("integrate_derivatives", "embedded loop"): "others",
    ("inverse_dynamics_regressor", "flexible"): "flexible",
    ("linearize", "embedded loop"): "others",
    **{("loop_forces", name): "no loops|tau_spanning" for name in CASES if "embedded" not in name},
    **{("closure_error", name): "no loops" for name in CASES if "loop" not in name and "gears" not in name},
    **{
        ("damped_delassus_inverse_at_base", name): "free base"
        for name in ("constrained gears", "constrained loaded gears")
    },
}
