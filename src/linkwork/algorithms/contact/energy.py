"""A step with contact ends with no more energy than it began with and forces gave it, and with the momentum
that they gave it.

Impulses take energy or none (see `solver`), and free rigid bodies keep theirs exactly in flight (see
`free_flight`). But joints turn by semi-implicit Euler, of first order: where they turn by some degrees in a
step, it gains or loses a part of the kinetic energy by itself, with or without contact. So each mechanism,
which is what joints and loops connect, is looked at by itself: the energy at its end is compared with that at
its beginning and the work of forces and impulses on it.

Of a mechanism that floats, the momentum at the end is that of the beginning and of what acted in the step:
its base moves so. Where energy has grown, the motion inside is scaled down, that is all but the part with
which it would move as if joints were locked: so linear and angular momentum stay. Of one that is fixed to the
ground, velocities are scaled down where it touches something. One that touches nothing takes the step of
semi-implicit Euler as it is, whose energy goes up and down by a little.

What happens to one mechanism does not depend on others that do not touch it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact.free_flight import is_single_body
from linkwork.algorithms.newton import tolerance
from linkwork.algorithms.tree.energy import compensated_energy
from linkwork.algorithms.tree.kinematics import node_velocities
from linkwork.algorithms.tree.mass_matrix import CompositeInertias
from linkwork.compiler.ir.functions import absolute, maximum, minimum, sqrt, where
from linkwork.constraints import loop_constraints
from linkwork.joints import Free, Planar
from linkwork.mechanism import PlacedJoint
from linkwork.model import GROUND, Model
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Factor, cross, mirrored

ROUNDED = 1e-12  # of energies
# [m/s] contacts with the ground that undo penetrations may lift a mechanism this fast, so that it stays free
GENTLE = 1e-3
LOST = 0.01  # of the locked energy: no step gains so much of that but one across a singular position of loops
RUNAWAY = 0.2  # the same for trees, which turn by about a radian in a step that gains so much


class Mechanism(NamedTuple):
    """Bodies that joints and loops connect: `bodies`, and the places of their velocities in v, `dofs`.

    `base`: the free joint on the ground that carries all of them, with its velocities first in `dofs`; None
    if there is none.
    """

    bodies: frozenset[int]
    dofs: tuple[int, ...]
    base: PlacedJoint | None
    loops: bool

    @property
    def floating(self) -> slice:
        """The places of the base's velocities."""
        return slice(self.dofs[0], self.dofs[0] + 6)


def guarded_mechanisms(model: Model) -> list[Mechanism]:
    """Return the mechanisms that may gain energy in a step by themselves: all but free rigid bodies."""
    result = []
    for bodies in _connected(model):
        roots = [joint for joint in model.joints if joint.child in bodies and joint.parent == GROUND]
        starts = np.cumsum([0, *(len(cluster.independent) for cluster in model.clusters)])
        own_clusters = [n for n, cluster in enumerate(model.clusters) if set(cluster.bodies) <= bodies]
        dofs = tuple(k for n in own_clusters for k in range(int(starts[n]), int(starts[n + 1])))
        if not dofs:
            continue
        (root, *others) = roots
        if not others and isinstance(root.kind, (Free, Planar)) and is_single_body(model, root):
            continue
        loops = any(model.clusters[n].constraints for n in own_clusters)
        base = root if not others and _floats(model, root) else None
        result.append(Mechanism(frozenset(bodies), dofs, base, loops))
    return result


def _floats(model: Model, root: PlacedJoint) -> bool:
    """Return whether a joint on the ground lets its bodies float: a free one without passive elements, in no
    loop.
    """
    joint = model.nominal.joints[root.child]
    if model.has_body_loads:  # which may take momentum
        return False
    passive = any(np.ravel(joint.armature)) or any(np.ravel(joint.damping))
    alone = any(cluster.bodies == (root.child,) and not cluster.constraints for cluster in model.clusters)
    return isinstance(root.kind, Free) and alone and not passive


def _connected(model: Model) -> list[set[int]]:
    """Return the bodies of each mechanism."""
    groups: list[set[int]] = []
    links = [{joint.child, joint.parent} - {GROUND} for joint in model.joints]
    links += [set(cluster.bodies) for cluster in model.clusters]
    links += [
        set(constraint.bodies(model.nominal)) - {GROUND} for constraint in loop_constraints(model.nominal)
    ]
    links += [set(tendon.bodies) - {GROUND} for tendon in model.tendons if tendon.connects]
    for link in links:
        joined = [group for group in groups if group & link]
        groups = [group for group in groups if not group & link] + [link.union(*joined)]
    return sorted(groups, key=min)


class Ledger(NamedTuple):
    """Of one mechanism: kinetic and potential energy [J]; of one that floats the momentum of its base in its
    axes, (6,).

    `inertia`, (6, 6), is what the base feels with all joints locked.
    """

    kinetic: Any
    potential: Any
    momentum: np.ndarray
    inertia: np.ndarray

    @property
    def total(self) -> Any:
        return self.kinetic + self.potential


NOTHING = np.zeros(0, dtype=object)


def ledgers(mechanisms: Sequence[Mechanism], nodes: ModelTree[Any], v: np.ndarray) -> list[Ledger]:
    """Return energies and momenta of some mechanisms in one state."""
    if not mechanisms:
        return []
    V = node_velocities(nodes, v)
    L: dict[Any, Any] = {k: k.hinge_inertia @ V[k] for k in nodes.base_to_tips()} | {
        nodes.ground: np.zeros(6)
    }
    of = {dof: n for n, each in enumerate(mechanisms) for dof in each.dofs}
    kinetic: list[Any] = [0.0] * len(mechanisms)
    places: dict[Any, int | None] = {nodes.ground: None}
    for k in nodes.base_to_tips():
        places[k] = of.get(k.dofs.start) if k.dofs.stop > k.dofs.start else places[k.parent]
        if (n := places[k]) is not None:
            kinetic[n] = kinetic[n] + 0.5 * (V[k] @ L[k] + v[k.dofs] @ (k.armature @ v[k.dofs]))
    potential = potentials(mechanisms, nodes)
    composite = CompositeInertias(nodes) if any(each.base for each in mechanisms) else None
    for k in nodes.tips_to_base():
        L[k.parent] = L[k.parent] + k.A.gather(L[k])
    result = []
    for n, each in enumerate(mechanisms):
        momentum = NOTHING
        inertia = NOTHING
        if each.base is not None and composite is not None:
            k = nodes.node_of(each.base.child)
            momentum = k.H @ L[k]
            inertia = mirrored(k.H @ (composite[k] @ k.H.T))
        result.append(Ledger(kinetic[n], potential[n], momentum, inertia))
    return result


def potentials(mechanisms: Sequence[Mechanism], nodes: ModelTree[Any]) -> list[Any]:
    """Return the potential energy of each mechanism, up to a constant [J]."""
    of = {body: n for n, each in enumerate(mechanisms) for body in each.bodies}
    g: dict[Any, np.ndarray] = {nodes.below: np.array(nodes.model.gravity)}  # gravity in every body's axes
    u: dict[Any, Any] = {nodes.below: 0.0}  # the potential of one kilogram at every body's origin
    result: list[Any] = [0.0] * len(mechanisms)
    for index, k in nodes.bodies.items():
        g[k], u[k] = k.X.R.T @ g[k.on], u[k.on] - g[k.on] @ k.X.p
        if (n := of.get(index)) is not None:
            result[n] = result[n] + k.M.mass * u[k] - g[k] @ k.M.h + k.spring_energy
    for compensation in nodes.model.weight_compensations:
        if (n := of.get(compensation.body)) is not None:
            result[n] = result[n] - compensated_energy(nodes, compensation, g, u)
    loads = nodes.loads
    if loads is None:
        return result
    for tendon in loads.tendons:
        n = next((of[body] for body in tendon.bodies if body in of), -1)
        if n >= 0:
            result[n] = result[n] + loads.spring_energy(tendon)
    return result


def weight_on_base(each: Mechanism, nodes: ModelTree[Any], inertia: np.ndarray) -> np.ndarray:
    """Return the moment and force of gravity on a mechanism that floats, at its base and in its axes,
    (6,).
    """
    assert each.base is not None
    g = each.base.kind.transform(nodes.q[each.base.q_slice]).R.T @ (
        each.base.place.R.T @ np.array(nodes.model.gravity)
    )
    h = np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]], dtype=object)  # of the block [h]
    return np.array([*cross(h, g), *(inertia[3, 3] * g)], dtype=object)


def carried_over(each: Mechanism, momentum: np.ndarray, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """Return a momentum about the base's origin and in its axes at q0, as one at q1, (6,)."""
    assert each.base is not None
    T0, T1 = (each.base.kind.transform(q[each.base.q_slice]) for q in (q0, q1))
    l = T0.R @ momentum[:3]
    p = T0.R @ momentum[3:]
    return np.array([*(T1.R.T @ (l + cross(T0.p - T1.p, p))), *(T1.R.T @ p)], dtype=object)


class Account(NamedTuple):
    """Bounds of a mechanism after a step: energy [J] and, if it floats, momentum (6,); and whether
    something touches it.
    """

    energy: Any
    momentum: np.ndarray
    touched: Any


class StepStart(NamedTuple):
    """Start of a step: `forces`, (nv,), of joints and from outside, and the state before it."""

    nodes: ModelTree[Any]
    v: np.ndarray
    dt: Any
    forces: np.ndarray
    ledgers: list[Ledger]


def account(
    each: Mechanism,
    n: int,
    start: StepStart,
    u: np.ndarray,
    pushes: np.ndarray,
    by_ground: Any,
    q_end: np.ndarray,
) -> Account:
    """Return the energy and momentum that mechanism n may have at the end of a step by the velocity u, (nv,),
    with generalised impulses `pushes`, (nv,).

    `by_ground` is the work of contacts with the ground among these: positive only by errors of the step.
    """
    dofs = list(each.dofs)
    v = start.v
    dt = start.dt
    before = start.ledgers[n]
    touched = sum(absolute(x) for x in pushes[dofs]) > 0.0
    given = maximum(by_ground, 0.0)
    impulse_work = 0.5 * (pushes[dofs] @ (v[dofs] + u[dofs])) - given
    # what others give; what they take is not asked for
    work = dt * (start.forces[dofs] @ u[dofs]) + maximum(impulse_work, 0.0)
    mass: Any = sum(start.nodes.model.bodies[k].mass for k in each.bodies)
    # of a contact at rest before the step this is the impulse times the way by which it lifts
    lifting = minimum(mass * _gravity(start.nodes.model) * dt * GENTLE, 2.0 * given)
    energy = before.total + work + where(touched, lifting, 0.0)
    momentum = NOTHING
    if each.base is not None:
        base = each.floating
        acting = weight_on_base(each, start.nodes, before.inertia) + start.forces[base]
        momentum = carried_over(each, before.momentum + dt * acting + pushes[base], start.nodes.q, q_end)
    return Account(energy, momentum, touched)


def settled(each: Mechanism, may: Account, end: Ledger, v: np.ndarray) -> np.ndarray:
    """Return v, (nv,), with the velocities of a mechanism limited to its energy and momentum.

    NaN where the locked motion in flight has more energy than there was: coordinates of loops are singular
    there; trees turn so far in a step that their energy would grow without bound.
    """
    result = np.array(v, dtype=object)
    dofs = list(each.dofs)
    rounded = tolerance(ROUNDED, v) * (absolute(may.energy) + absolute(end.potential) + end.kinetic)
    if each.base is None:
        scale, _ = _scale(end.kinetic, may.energy - end.potential, rounded)
        result[dofs] = where(may.touched, scale, 1.0) * v[dofs]
        return result
    felt = Factor(end.inertia)
    locked_now = felt.solve(end.momentum)
    locked = felt.solve(may.momentum)
    inside = maximum(end.kinetic - 0.5 * (end.momentum @ locked_now), 0.0)
    retained = 0.5 * (may.momentum @ locked)
    scale, allowed = _scale(inside, may.energy - end.potential - retained, rounded)
    gained = allowed < -(LOST if each.loops else RUNAWAY) * retained - rounded
    scale = where(may.touched, scale, where(gained, np.nan, scale))
    base = each.floating
    result[dofs] = scale * v[dofs]
    result[base] = locked + scale * (v[base] - locked_now)
    return result


def _scale(energy: Any, allowed: Any, rounded: Any) -> tuple[Any, Any]:
    """Return the factor that scales velocities with this energy to the allowed one, and the energy after
    that.
    """
    gains = energy > allowed + rounded
    subset = gains & (allowed > 0.0)
    shrunk = sqrt(where(subset, allowed / where(subset, energy, 1.0), 1.0))
    return where(gains, where(subset, shrunk, 0.0), 1.0), allowed


def weight(model: Model) -> Any:
    """Return the weight of all bodies [N]."""
    return model.mass * _gravity(model)


def _gravity(model: Model) -> Any:
    x, y, z = model.gravity
    return sqrt(x * x + y * y + z * z)
