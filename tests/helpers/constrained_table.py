"""What every public function of a model gives where loops are constrained: a table, and a motion to check it
in.

A row is one of: `law`, pairs of what is found and what is right by dense algebra, or by the same mechanism
with its loops embedded; `open_loops`, the same as without these loops, where the docstring says so;
`refused`, words of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import linkwork as lw
from linkages import equations, numbers, tree
from linkwork.functions.load import operations
from linkwork.mechanism import Actuator
from linkwork.model import Model

Pairs = Iterable[tuple[Any, Any]]
OPEN = "Constrained loops are open"  # what docstrings say of functions that give the tree's answer


@dataclass(frozen=True)
class Case:
    """A model whose loops are `constrained`, at least some, the same `embedded`, and a state."""

    constrained: Model
    embedded: Model
    seed: int = 0

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    @cached_property
    def open(self) -> Model:
        """Without the constrained loops."""
        return replace(
            self.constrained, constrained_loops=(), kernels={}, name=f"{self.constrained.name} open"
        )

    @cached_property
    def state(self) -> dict[str, np.ndarray]:
        """q; v and a that keep loops closed, of the constrained model, V and A of all joints, others of the
        embedded one.
        """
        m = self.constrained
        e = self.embedded
        rng = self.rng
        q, w = e.random_state(rng)
        b = rng.normal(size=e.nv)
        V = run(lw.spanning_velocity, e, q, w)
        A = run(lw.spanning_acceleration, e, q, w, b)
        f = rng.normal(size=(len(m.bodies), 6))
        S = rng.normal(size=m.nv_spanning)
        own = {"q": q, "v": V[self.places], "a": A[self.places], "tau": rng.normal(size=m.nv), "f": f, "S": S}
        return own | {"V": V, "A": A, "w": w, "b": b}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in ("q", "v", "a", "tau", "f", "S", "V", "A", "w", "b"):
            raise AttributeError(name)
        return self.state[name]

    @cached_property
    def places(self) -> list[int]:
        """Where the constrained model's velocities are among those of all joints."""
        return [self.constrained.v_names_spanning.index(name) for name in self.constrained.v_names]

    @cached_property
    def own(self) -> list[int]:
        """Where the embedded model's velocities are among those of all joints."""
        return [self.embedded.v_names_spanning.index(name) for name in self.embedded.v_names]

    @cached_property
    def G(self) -> np.ndarray:
        """The velocities of all joints by those of the constrained model: of loops that are embedded there."""
        m = self.constrained
        return np.array([run(lw.spanning_velocity, m, self.q, e) for e in np.eye(m.nv)]).T

    def in_all(self, tau: np.ndarray) -> np.ndarray:
        """Forces of the constrained model's velocities as forces in all joints."""
        every = np.zeros(self.constrained.nv_spanning)
        every[self.places] = tau
        return every

    @cached_property
    def tree(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """M and bias of all joints with every loop open, and K, k of all loops, with K A = k."""
        t = tree(self.embedded)
        K, k = equations(self.embedded, self.q, self.V)[1:]
        return run(lw.mass_matrix, t, self.q), run(lw.bias_force, t, self.q, self.V, self.f), K, k

    def solved(self, tau: np.ndarray, prescribed: Any = None, a: Any = None) -> np.ndarray:
        """Accelerations of all joints under forces in all joints, some accelerations prescribed: one dense
        system.
        """
        M, b, K, k = self.tree
        n = len(M)
        m = len(K)
        u = np.zeros(n, dtype=bool) if prescribed is None else prescribed
        system = np.block(
            [[M[~u], -K[:, ~u].T], [K, np.zeros((m, m))], [np.eye(n)[u], np.zeros((u.sum(), m))]]
        )
        given = np.concatenate([(tau - b)[~u], k, np.zeros(0) if a is None else a[u]])
        return np.linalg.lstsq(system, given, rcond=1e-12)[0][:n]

    @cached_property
    def frame(self) -> str:
        return [frame.name for frame in self.constrained.frames if frame.body != -1][-1]

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """J and bias of the constrained loops, in the constrained model's velocities."""
        m = self.constrained
        return run(lw.constraint_jacobian, m, self.q, constraints=()), run(
            lw.constraint_bias, m, self.q, self.v, constraints=()
        )


def run(fn: lw.ModelFunction, model: Model, *args: Any, **options: Any) -> Any:
    """What a function means, over plain floats: sooner than a kernel."""
    found = fn.body(model, *args, **fn.normalize_options(model, options))
    return tuple(map(numbers, found)) if isinstance(found, tuple) else numbers(found)


def several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


class Row(NamedTuple):
    """How a function is checked; exactly one of these."""

    law: Callable[[Case], Pairs] | None = None
    open_loops: Callable[[Case], tuple[Any, ...]] | None = None  # the arguments
    refused: Callable[[Case], Any] | None = None
    words: str = ""
    options: Callable[[Case], dict[str, Any]] = lambda _: {}


# ways to be right


def kinematic(name: str, *arrays: str, **options: Any) -> Row:
    """The value is that of all joints' motion, however loops are enforced."""
    of_all = {"v": "V", "a": "A", "q": "q"}

    def law(c: Case) -> Pairs:
        own = {"frame": c.frame} if name.startswith("frame_") else {}
        fn = getattr(lw, name)
        found = run(fn, c.constrained, *(c.state[x] for x in arrays), **own, **options)
        right = run(fn, tree(c.embedded), *(c.state[of_all[x]] for x in arrays), **own, **options)
        return list(zip(several(found), several(right)))

    return Row(law)


def columns(name: str) -> Row:
    """A Jacobian by v: that of all joints times how these follow v."""

    def law(c: Case) -> Pairs:
        own = {"frame": c.frame} if name.startswith("frame_") else {}
        yield (
            run(getattr(lw, name), c.constrained, c.q, **own),
            run(getattr(lw, name), tree(c.embedded), c.q, **own) @ c.G,
        )

    return Row(law)


def opened(*arrays: str, options: Callable[[Case], dict[str, Any]] = lambda _: {}) -> Row:
    return Row(open_loops=lambda c: tuple(c.state[x] for x in arrays), options=options)


def of_frame(c: Case) -> dict[str, Any]:
    return {"frame": c.frame}


def along_path(c: Case) -> dict[str, Any]:
    """The last joint that another carries, and that one."""
    k = max(joint.child for joint in c.constrained.joints if joint.parent != -1)
    return {
        "frame": c.constrained.joints[k].name,
        "to": c.constrained.joints[c.constrained.joints[k].parent].name,
    }


def of_frames(c: Case) -> dict[str, Any]:
    return {"frames": [c.frame]}


# laws of dynamics


def forward(c: Case) -> Pairs:
    for method in ("auto", "mass_matrix"):
        found = run(lw.forward_dynamics, c.constrained, c.q, c.v, c.tau, c.f, method=method)
        yield found, c.solved(c.in_all(c.tau))[c.places]


def hybrid(c: Case) -> Pairs:
    u = np.isin(c.constrained.v_names, c.embedded.v_names[:1])
    a, tau = run(lw.hybrid_dynamics, c.constrained, c.q, c.v, c.a, c.tau, c.f, prescribed=u)
    in_all = np.zeros(c.constrained.nv_spanning, dtype=bool)
    in_all[np.array(c.places)[u]] = True
    yield a, c.solved(c.in_all(c.tau), in_all, c.A)[c.places]
    yield tau[~u], c.tau[~u]
    left = run(lw.inverse_dynamics, c.constrained, c.q, c.v, a, c.f) - tau
    yield without(c.rows[0], left), 0.0 * left


def without(J: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x without its part in the rows of J."""
    return x - np.linalg.pinv(J, rcond=1e-10) @ (J @ x)


def differences(
    c: Case, of: Callable[..., np.ndarray], *found: np.ndarray, arrays: tuple[np.ndarray, ...]
) -> Pairs:
    """Derivatives by q, on the tangent space, and by further arrays, against central differences along random
    directions.
    """
    h = 1e-5
    m = c.constrained
    for k, J in enumerate(found):
        d = c.rng.normal(size=m.nv)
        ahead = []
        behind = []
        for sign, into in ((h, ahead), (-h, behind)):
            q = run(lw.integrate, tree(c.embedded), c.q, sign * (c.G @ d)) if k == 0 else c.q
            into += [of(q, *(x + sign * d if i == k - 1 else x for i, x in enumerate(arrays)))]
        yield J @ d * 1e-3, (ahead[0] - behind[0]) / (2 * h) * 1e-3


def forward_derivatives(c: Case) -> Pairs:
    found = run(lw.forward_dynamics_derivatives, c.constrained, c.q, c.v, c.tau, c.f)
    J, _ = c.rows
    yield J @ found[2], 0.0 * J  # what forces accelerate stays closed
    M = run(lw.mass_matrix, c.constrained, c.q)
    free = np.linalg.svd(J)[2][np.linalg.matrix_rank(J, 1e-9) :].T
    yield found[2], free @ np.linalg.solve(free.T @ M @ free, free.T)
    if not c.constrained.embedded:

        def of(q: Any, v: Any, tau: Any) -> np.ndarray:
            return run(lw.forward_dynamics, c.constrained, q, v, tau, c.f, method="mass_matrix")

        yield from differences(c, of, *found, arrays=(c.v, c.tau))


def linear(c: Case) -> Pairs:
    A, B = run(lw.linearize, c.constrained, c.q, c.v, c.tau, c.f)
    by_q, by_v, by_tau = run(lw.forward_dynamics_derivatives, c.constrained, c.q, c.v, c.tau, c.f)
    nv = c.constrained.nv
    return [(A[nv:], np.hstack([by_q, by_v])), (B, np.vstack([0.0 * by_tau, by_tau]))]


def hybrid_derivatives(c: Case) -> Pairs:
    u = np.isin(c.constrained.v_names, c.embedded.v_names[:1])

    def of(q: Any, v: Any, given: Any) -> np.ndarray:
        a, tau = run(lw.hybrid_dynamics, c.constrained, q, v, given, given, c.f, prescribed=u)
        return np.where(u, tau, a)

    given = np.where(u, c.a, c.tau)
    found = run(lw.hybrid_dynamics_derivatives, c.constrained, c.q, c.v, given, given, c.f, prescribed=u)
    nothing = run(lw.hybrid_dynamics_derivatives, c.constrained, c.q, c.v, given, c.tau, c.f, prescribed=())
    yield from zip(nothing, run(lw.forward_dynamics_derivatives, c.constrained, c.q, c.v, c.tau, c.f))
    if not c.constrained.embedded:
        yield from differences(c, of, *found, arrays=(c.v, given))


def constrained(c: Case) -> Pairs:
    a, forces = run(lw.constrained_dynamics, c.constrained, c.q, c.v, c.tau, c.f, constraints=())
    yield a, c.solved(c.in_all(c.tau))[c.places]
    yield run(lw.inverse_dynamics, c.constrained, c.q, c.v, a, c.f) - c.tau, c.rows[0].T @ forces


def constrained_derivatives(c: Case) -> Pairs:
    found = run(lw.constrained_dynamics_derivatives, c.constrained, c.q, c.v, c.tau, c.f, constraints=())
    return list(zip(found[:3], run(lw.forward_dynamics_derivatives, c.constrained, c.q, c.v, c.tau, c.f)))


def constrained_inverse(c: Case) -> Pairs:
    drive = list(c.embedded.v_names)
    how = {"constraints": (), "actuators": drive}
    tau, forces, left = run(lw.constrained_inverse_dynamics, c.constrained, c.q, c.v, c.a, c.f, **how)
    yield tau, run(lw.inverse_dynamics, c.embedded, c.q, c.w, c.b, c.f)
    yield left, 0.0 * left
    every = np.zeros(c.constrained.nv_spanning)
    every[c.own] = tau
    own = run(lw.independent_force, c.constrained, c.q, every)
    yield own + c.rows[0].T @ forces, run(lw.inverse_dynamics, c.constrained, c.q, c.v, c.a, c.f)


def jacobian_of_rows(c: Case) -> Pairs:
    J, (_, _, K, _) = c.rows[0], c.tree
    yield J @ c.v, np.zeros(len(J))
    null = [x[int(np.sum(s > 1e-9 * s[0])) :] for _, s, x in (np.linalg.svd(J), np.linalg.svd(K @ c.G))]
    yield null[0].T @ null[0], null[1].T @ null[1]


def bias_of_rows(c: Case) -> Pairs:
    J, bias = c.rows
    yield J @ c.a + bias, 0.0 * bias


def delassus(c: Case) -> Pairs:
    J = c.rows[0]
    M = run(lw.mass_matrix, c.constrained, c.q)
    D = J @ np.linalg.solve(M, J.T)
    for method in ("sweeps", "factorisation"):
        yield run(lw.delassus, c.constrained, c.q, constraints=(), method=method), D


def damped(c: Case) -> Pairs:
    J = c.rows[0]
    M = run(lw.mass_matrix, c.constrained, c.q)
    R = 0.1
    how = {"constraints": (), "compliance": 0.1}
    inverse = np.linalg.inv(J @ np.linalg.solve(M, J.T) + R * np.eye(len(J)))
    yield run(lw.damped_delassus_inverse, c.constrained, c.q, method="caba", **how), inverse
    x = c.rng.normal(size=len(J))
    yield run(lw.damped_delassus_product, c.constrained, c.q, x, **how), inverse @ x


def struck(c: Case) -> Pairs:
    u = c.rng.normal(size=c.constrained.nv)
    J = c.rows[0]
    M = run(lw.mass_matrix, c.constrained, c.q)
    free = np.linalg.svd(J)[2][np.linalg.matrix_rank(J, 1e-9) :].T
    v, impulses = run(lw.impact, c.constrained, c.q, u, constraints=())
    yield v, free @ np.linalg.solve(free.T @ M @ free, free.T @ M @ u)
    yield M @ (v - u), J.T @ impulses


def spanning_hybrid(c: Case) -> Pairs:
    for u in (np.zeros(len(c.S), dtype=bool), c.rng.random(len(c.S)) < 0.5):
        for minimize in ("torque", "constraint_force"):
            how = {"prescribed": u, "minimize": minimize}
            found = run(lw.spanning_hybrid_dynamics, c.constrained, c.q, c.v, c.A, c.S, c.f, **how)
            yield found[0], c.solved(c.S, u, c.A)
            yield from zip(
                found, run(lw.spanning_hybrid_dynamics, c.embedded, c.q, c.w, c.A, c.S, c.f, **how)
            )


def transmitted(c: Case) -> Pairs:
    """Under forces in all joints: the force of each body is that of its joint, of those that it carries and
    of loops.
    """
    A = c.solved(c.S)
    found = run(lw.joint_forces, c.constrained, c.q, c.v, A[c.places], c.f, c.S)
    yield found, run(lw.joint_forces, c.embedded, c.q, c.w, A[c.own], c.f, c.S)
    for joint in c.constrained.joints:
        if (
            joint.nv == 1
            and not joint.armature[0]
            and not np.any(joint.damping)
            and not np.any(joint.stiffness)
        ):
            tied = any(not loop.ends and joint.child in loop.bodies for loop in c.constrained.loops)
            if not tied:  # what acts along the joint's axis is its own force
                yield joint.kind.subspace(c.q[joint.q_slice]).T @ found[joint.child], c.S[joint.v_slice]


def of_loops(c: Case) -> Pairs:
    A = c.solved(c.S)
    found = run(lw.loop_forces, c.constrained, c.q, c.v, A[c.places], c.f, c.S)
    right = run(lw.loop_forces, c.embedded, c.q, c.w, A[c.own], c.f, c.S)
    yield np.sort(found), np.sort(right)


def as_embedded(name: str, *arrays: str) -> Row:
    """For each loop joint, what the embedded model gives."""
    of = {"v": "w", "q": "q"}

    def law(c: Case) -> Pairs:
        for loop in c.constrained.loops:
            if loop.ends:
                found, right = (
                    run(getattr(lw, name), m, *(c.state[x] for x in given), loop=loop.name)
                    for m, given in ((c.constrained, arrays), (c.embedded, [of[x] for x in arrays]))
                )
                yield found, right
        yield 0.0, 0.0  # of couplings there are none

    return Row(law)


def in_loop_joints(c: Case) -> Pairs:
    A = c.solved(c.S)
    for loop in c.constrained.loops:
        if loop.ends:
            found = run(lw.loop_joint_wrench, c.constrained, c.q, c.v, A[c.places], c.f, c.S, loop=loop.name)
            yield found, run(lw.loop_joint_wrench, c.embedded, c.q, c.w, A[c.own], c.f, c.S, loop=loop.name)
    yield 0.0, 0.0


def actuated(c: Case) -> Pairs:
    names = list(c.embedded.v_names)
    found = run(lw.actuator_force, c.constrained, c.q, c.tau, actuators=names)
    yield found, run(lw.independent_force, c.embedded, c.q, c.in_all(c.tau))


def driven(c: Case) -> Pairs:
    laws: dict[str, Any] = {"bias": ("affine", (0.3, -4.0, -0.5))}
    joints = [joint for joint in c.constrained.joints if joint.nv == 1]
    motors = [Actuator(joint.name, "joint", joint.name, ((joint.name, 3.0),), **laws) for joint in joints]
    u = np.linspace(-1.0, 1.0, len(motors))
    in_all = np.zeros(c.constrained.nv_spanning)
    for joint, x in zip(joints, u):
        force = 3.0 * (x + 0.3 - 12.0 * c.q[joint.q_start] - 1.5 * c.V[joint.v_start])
        in_all[joint.v_start] = np.clip(force, -joint.max_effort[0], joint.max_effort[0])
    yield run(lw.actuation, c.constrained, c.q, c.v, u, actuators=motors), c.G.T @ in_all


def followed(c: Case) -> Pairs:
    names = list(c.embedded.v_names)
    every = list(c.constrained.v_names_spanning)
    found = run(lw.actuator_map, c.constrained, c.q, actuators=names, joints=every)
    yield found @ c.w, c.V


def leading(c: Case) -> Pairs:
    names = list(c.embedded.v_names)
    found = run(
        lw.actuator_map_inverse,
        c.constrained,
        c.q,
        actuators=list(c.constrained.v_names_spanning),
        joints=names,
    )
    yield found @ c.w, c.V


def rates_of_jacobian(c: Case) -> Pairs:
    rate = run(lw.frame_jacobian_rate, c.constrained, c.q, c.v, frame=c.frame) @ c.v
    J = run(lw.frame_jacobian, c.constrained, c.q, frame=c.frame)
    of_tree = run(lw.frame_jacobian, tree(c.embedded), c.q, frame=c.frame) @ c.A
    yield (
        J @ c.a + rate,
        of_tree + run(lw.frame_jacobian_rate, tree(c.embedded), c.q, c.V, frame=c.frame) @ c.V,
    )


def closed(c: Case) -> Pairs:
    q, left = run(lw.close_loops, c.constrained, c.q + 0.01 * c.rng.normal(size=len(c.q)))
    gaps = run(lw.closure_error, c.constrained, q)
    return [(left, 0.0), (gaps, 0.0 * gaps), (run(lw.closure_error, c.embedded, q), 0.0 * gaps)]


def integrated(c: Case) -> Pairs:
    q = run(lw.integrate, c.constrained, c.q, 1e-3 * c.v)
    gaps = run(lw.closure_error, c.constrained, q)
    yield gaps, 0.0 * gaps
    moved = run(lw.difference, tree(c.embedded), c.q, q)
    yield moved, run(lw.difference, tree(c.embedded), c.q, run(lw.integrate, c.embedded, c.q, 1e-3 * c.w))


def differs(c: Case) -> Pairs:
    yield run(lw.difference, c.constrained, c.q, run(lw.integrate, c.open, c.q, 0.1 * c.v)), 0.1 * c.v


def opened_nodes(c: Case) -> Pairs:
    found, right = (lw.nodes(m, c.q, c.v) for m in (c.constrained, c.open))
    return [(numbers(x.b), numbers(y.b)) for x, y in zip(found.base_to_tips(), right.base_to_tips())]


def opened_operators(c: Case) -> Pairs:
    found, right = (lw.operators(m, c.q, c.v) for m in (c.constrained, c.open))
    yield numbers(found.H @ found.A @ found.a), numbers(right.H @ right.A @ right.a)


def opened_inertia(_: Case) -> Pairs:
    """Of a frame that can move in all directions."""
    model = lw.robots.tello()
    other = model.with_loops(constrain=[loop.name for loop in model.loops])
    c = Case(other, model)
    return [
        tuple(run(lw.operational_inertia, m, c.q, frames=[model.bodies[0].links[0]]) for m in (other, c.open))
    ]


def programs(c: Case) -> Pairs:
    """Derivatives of programs are those that the functions of derivatives give, also through constrained
    loops.
    """
    arrays = c.q, c.v, c.tau
    found = lw.interpret(
        lw.lower(lw.jacobian(lw.forward_dynamics, c.constrained, wrt="tau").program()), *arrays
    )
    by_tau = run(lw.forward_dynamics_derivatives, c.constrained, *arrays)[2]
    yield found, by_tau
    d, w = c.rng.normal(size=(2, c.constrained.nv))
    pushed = lw.interpret(
        lw.lower(lw.jvp(lw.forward_dynamics, c.constrained, wrt="tau").program()), *arrays, d
    )
    yield pushed[1], by_tau @ d
    pulled = lw.interpret(
        lw.lower(lw.vjp(lw.forward_dynamics, c.constrained, wrt="tau").program()), *arrays, w
    )
    yield pulled[1], w @ by_tau


def conditioned(c: Case) -> Pairs:
    found = np.ravel(lw.loop_conditioning(c.constrained, c.q, of="mechanism"))
    yield float(found.size > 0 and (found > 0.0).all()), 1.0


def subspaces(c: Case) -> Pairs:
    for body in c.constrained.bodies:
        pairs = (lw.cluster_subspaces(m, c.q, body=body.name) for m in (c.constrained, c.embedded))
        yield from [(x, y) for x, y in zip(*pairs) if isinstance(x, np.ndarray)]


def patterned(c: Case) -> Pairs:
    return list(zip(lw.mass_matrix_pattern(c.constrained), lw.mass_matrix_pattern(c.open)))


def diagnosed(c: Case) -> Pairs:
    """What forces of loops cost is beside the cost of the tree."""
    found = lw.diagnose(c.constrained, costs=True)
    yield found.constraint_operations, max(operations(c.constrained) - found.operations, 0)


ROWS: dict[str, Row] = {
    # right by dense algebra, or as embedded
    "actuator_force": Row(actuated),
    "actuation": Row(driven),
    "actuator_map": Row(followed),
    "actuator_map_inverse": Row(leading),
    "close_loops": Row(closed),
    "cluster_subspaces": Row(subspaces),
    "closure_error": Row(closed),
    "constrained_dynamics": Row(constrained),
    "constrained_dynamics_derivatives": Row(constrained_derivatives),
    "constrained_inverse_dynamics": Row(constrained_inverse),
    "constraint_bias": Row(bias_of_rows),
    "constraint_jacobian": Row(jacobian_of_rows),
    "damped_delassus_inverse": Row(damped),
    "damped_delassus_product": Row(damped),
    "delassus": Row(delassus),
    "diagnose": Row(diagnosed),
    "forward_dynamics": Row(forward),
    "forward_dynamics_derivatives": Row(forward_derivatives),
    "hybrid_dynamics": Row(hybrid),
    "hybrid_dynamics_derivatives": Row(hybrid_derivatives),
    "hvp": Row(programs),
    "impact": Row(struck),
    "independent_force": Row(lambda c: [(run(lw.independent_force, c.constrained, c.q, c.S), c.G.T @ c.S)]),
    "integrate": Row(integrated),
    "jacobian": Row(programs),
    "joint_forces": Row(transmitted),
    "jvp": Row(programs),
    "linearize": Row(linear),
    "loop_conditioning": Row(conditioned),
    "loop_forces": Row(of_loops),
    "loop_joint_position": as_embedded("loop_joint_position", "q"),
    "loop_joint_velocity": as_embedded("loop_joint_velocity", "q", "v"),
    "loop_joint_wrench": Row(in_loop_joints),
    "spanning_acceleration": Row(
        lambda c: [(run(lw.spanning_acceleration, c.constrained, c.q, c.v, c.a), c.A)]
    ),
    "spanning_hybrid_dynamics": Row(spanning_hybrid),
    "spanning_velocity": Row(lambda c: [(run(lw.spanning_velocity, c.constrained, c.q, c.v), c.V)]),
    "vjp": Row(programs),
    # kinematics: right for any motion in which loops stay closed
    "center_of_mass": kinematic("center_of_mass", "q"),
    "center_of_mass_jacobian": columns("center_of_mass_jacobian"),
    "centroidal_map": columns("centroidal_map"),
    "energy_regressor": kinematic("energy_regressor", "q", "v"),
    "forward_kinematics": kinematic("forward_kinematics", "q"),
    "frame_acceleration": kinematic("frame_acceleration", "q", "v", "a"),
    "frame_jacobian": columns("frame_jacobian"),
    "frame_jacobian_rate": Row(rates_of_jacobian),
    "frame_pose": kinematic("frame_pose", "q"),
    "frame_velocity": kinematic("frame_velocity", "q", "v"),
    "kinetic_energy": kinematic("kinetic_energy", "q", "v"),
    "momentum": kinematic("momentum", "q", "v"),
    "momentum_rate": kinematic("momentum_rate", "q", "v", "a"),
    "potential_energy": kinematic("potential_energy", "q"),
    # of the tree in which constrained loops are open, as their docstrings say
    "bias_force": opened("q", "v", "f"),
    "coriolis_matrix": opened("q", "v"),
    "difference": Row(differs, words=OPEN),
    "difference_derivatives": opened("q", "q"),
    "force_propagator": opened("q", options=along_path),
    "frame_acceleration_derivatives": opened("q", "v", "a", options=of_frame),
    "frame_velocity_derivatives": opened("q", "v", options=of_frame),
    "gravity_force": opened("q"),
    "innovations_factors": opened("q"),
    "innovations_product": opened("q", "tau"),
    "integrate_derivatives": opened("q", "v"),
    "inverse_dynamics": opened("q", "v", "a", "f"),
    "inverse_dynamics_derivatives": opened("q", "v", "a", "f"),
    "inverse_dynamics_regressor": opened("q", "v", "a"),
    "inverse_dynamics_second_derivatives": opened("q", "v", "a"),
    "kinetic_energy_derivatives": opened("q", "v"),
    "mass_matrix": opened("q"),
    "mass_matrix_determinant": opened("q"),
    "mass_matrix_inverse": opened("q"),
    "mass_matrix_log_determinant": opened("q"),
    "mass_matrix_pattern": Row(patterned, words=OPEN),
    "mass_matrix_product": opened("q", "v"),
    "mass_matrix_solve": opened("q", "tau"),
    "momentum_derivatives": opened("q", "v"),
    "momentum_rate_derivatives": opened("q", "v", "a"),
    "newton_euler_factors": opened("q"),
    "nodes": Row(opened_nodes, words=OPEN),
    "operational_compliance": opened("q", options=of_frames),
    "operational_inertia": Row(opened_inertia, words=OPEN),
    "operators": Row(opened_operators, words=OPEN),
    "potential_energy_derivatives": opened("q"),
    # refused
    "damped_delassus_inverse_at_base": Row(
        refused=lambda c: run(lw.damped_delassus_inverse_at_base, c.constrained, c.q, constraints=()),
        words="two bodies",
    ),
    "compare_approximations": Row(
        refused=lambda c: lw.compare_approximations(c.constrained, {"q": c.q, "v": c.v, "a": c.a}),
        words="constrained loops",
    ),
}
# public functions that compute nothing of a model in a state, or are checked on constrained loops elsewhere
ELSEWHERE = {
    "step": "test_contact_derivatives_loops.py",
    "contact_points": "geometry alone",
    "contact_candidates": "geometry alone",
    "distance": "geometry alone",
    "distance_pairs": "geometry alone",
    "impulse_names": "names alone",
    "hull_corners": "geometry alone",
    "with_hulls": "geometry alone",
    "rollout": "test_rollout.py",
    "base_parameters": "of a regressor's numbers",
    "choose_loops": "test_constrained_loops.py",
    "load": "files",
    "export_mjcf": "files with loops: test_export_round_trips.py",
    "export_urdf": "files with loops: test_export_round_trips.py",
    "export_c": "the program of any function",
    "compile": "the program of any function",
    "count_operations": "the program of any function",
    "model_function": "makes functions",
    "interpret": "programs",
    "lower": "programs",
    "trace": "programs",
    "jacobian_along": "functions of arrays",
    "jacobian_of": "functions of arrays",
    "jvp_of": "functions of arrays",
    "loop": "functions of numbers",
    "map_rows": "functions of numbers",
    "simulate": "test_simulate.py",
    "view": "pictures",
    "release_memory": "no model",
    "fit_parameters": "tests of identification",
}
