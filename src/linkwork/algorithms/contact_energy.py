"""A step with contact ends with no more energy than it began with and forces gave it.

Semi-implicit Euler is of first order: where joints turn by some degrees in a step, it gains or loses a part of the kinetic
energy by itself, with or without contact. So the energy at the end is compared with that at the beginning, both exactly, and
where it has grown, velocities are scaled down. Scaled velocities still satisfy contacts that stick, slide or have come to rest,
and keep loops closed. In flight the motion of the centre of mass is left as it is. Where nothing floats or touches and joints
are slow, as those of an arm that swings, the integrator's energy goes up and down by a little and does not grow in the long
run: that is left alone, since taking every rise away would damp it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.conditioning import looped
from linkwork.algorithms.energy import potential_energy
from linkwork.algorithms.kinematics import node_velocities
from linkwork.algorithms.newton import tolerance
from linkwork.contact import Contacts
from linkwork.ir.functions import absolute, maximum, minimum, sqrt, where
from linkwork.model import Model
from linkwork.sko.tree import ModelTree
from linkwork.spatial import is_zero
from linkwork.topology.scales import velocity_units

ROUNDED = 1e-12  # of energies
WHIRLING = 0.02  # [rad] a joint that turns by more in a step is fast for the integrator
SMOOTH = 1e-3  # of the kinetic energy: what a step may gain where no joint is, and nothing floats or touches
SLIDING = 1e30  # [m] so that no joint slides as far
LOST = 0.01  # of the energy of centres of mass: no step gains so much of that but one across a singular position of loops
GENTLE = 1e-3  # [m/s] penetrations that this velocity undoes may be undone without being paid for: standing robots stay free


class Energy(NamedTuple):
    """Kinetic and potential energy [J]; of the former, what is in the motion of the centres of mass of what floats.

    `straight`, (3,) for each of these, are the linear velocities with which nothing would move but these centres.
    """

    kinetic: Any
    potential: Any
    in_straight: Any
    straight: Any

    @property
    def total(self) -> Any:
        return self.kinetic + self.potential


def floating(model: Model) -> list[tuple[int, slice, Any]]:
    """Bodies that float in the world, the places of their linear velocities in v, and the masses that hang on them."""
    roots, found, start = [_root(model, body) for body in range(len(model.bodies))], [], 0
    for cluster in model.clusters:
        joint = model.joints[cluster.bodies[0]]
        if not cluster.constraints and joint.nv == 6 and joint.parent < 0 and joint.kind.turning(np.zeros(6)) is not None:
            mass: Any = sum(body.mass for body, root in zip(model.bodies, roots) if root == joint.child)
            if not is_zero(mass):
                found.append((joint.child, slice(start + 3, start + 6), mass))
        start += len(cluster.independent)
    return found


def _root(model: Model, body: int) -> int:
    while (parent := model.joints[body].parent) >= 0:
        body = parent
    return body


def energy_of(model: Model, contacts: Contacts, nodes: ModelTree[Any], v: np.ndarray, gaps: Sequence[Any]) -> Energy:
    """The energy of a state, springs of compliant contacts included, up to a constant."""
    V = node_velocities(nodes, v)
    L: dict[Any, Any] = {k: k.hinge_inertia @ V[k] for k in nodes.base_to_tips()} | {nodes.ground: np.zeros(6)}
    kinetic: Any = 0.0
    for k in nodes.base_to_tips():
        kinetic = kinetic + 0.5 * (V[k] @ L[k] + v[k.dofs] @ (k.armature @ v[k.dofs]))
    for k in nodes.tips_to_base():
        L[k.parent] = L[k.parent] + k.A.gather(L[k])
    straight: list[Any] = []
    in_straight: Any = 0.0
    for body, _, mass in floating(model):
        k = nodes.node_of(body)
        own = (k.H @ L[k])[3:6] * (1.0 / mass)
        in_straight = in_straight + 0.5 * mass * (own @ own)
        straight += [*own]
    potential = potential_energy(nodes)
    if np.isfinite(contacts.stiffness):
        for gap in gaps:
            pressed = minimum(gap, 0.0)
            potential = potential + 0.5 * contacts.stiffness * (pressed * pressed)
    return Energy(kinetic, potential, in_straight, np.array(straight, dtype=object))


def undone(model: Model, dt: Any, rates: Sequence[Any], pressed: Sequence[Any], kinetic: Any) -> Any:
    """The energy [J] that penetrations may give back in a step; `rates` undo them, where normal impulses are `pressed`.

    A robot that moves pays for it with its `kinetic` energy; one that rests has none.
    """
    fastest: Any = 0.0
    for rate, impulse in zip(rates, pressed):
        fastest = maximum(where(impulse > 0.0, minimum(rate, GENTLE), 0.0), fastest)
    whole = weight(model) * dt * fastest + 0.5 * model.mass * (fastest * fastest)
    some = whole > 0.0
    return where(some, whole * whole / where(some, whole + kinetic, 1.0), 0.0)


def weight(model: Model) -> Any:
    """That of all bodies [N]."""
    x, y, z = model.gravity
    return model.mass * sqrt(x * x + y * y + z * z)


def whirls(model: Model, step: np.ndarray) -> Any:
    """Whether a joint turns far in a step, (nv,)."""
    units = [velocity_units(model, each.bodies, SLIDING)[list(each.independent)] for each in model.clusters]
    farthest: Any = 0.0
    for x, unit in zip(step, np.concatenate(units)):
        if unit < 0.5 * SLIDING:
            farthest = maximum(absolute(x * (1.0 / unit)), farthest)
    return farthest > WHIRLING


def without_gain(model: Model, before: Any, after: Energy, v: np.ndarray, touching: Any, step: np.ndarray) -> np.ndarray:
    """v, (nv,), scaled down so that the energy `after` a step is at most what it may be by all that was `before`.

    What goes `straight` is scaled too where something is `touching`. Where nothing is, nothing floats and no joint
    turns far in the `step`, (nv,), a little may be gained. NaN where the energy of centres of mass in flight is more than all
    that was before: coordinates of loops are singular there.
    """
    if not floating(model):
        before = before + where(whirls(model, step) | touching, 0.0, SMOOTH * after.kinetic)
    rounded = tolerance(ROUNDED, v) * (absolute(before) + absolute(after.potential) + after.kinetic)
    kept = where(touching, 0.0, after.in_straight)
    turning = after.kinetic - kept
    allowed = before - after.potential - kept
    gains = turning > allowed + rounded
    some = gains & (allowed > 0.0)
    scale = where(gains, where(some, sqrt(where(some, allowed / where(some, turning, 1.0), 1.0)), 0.0), 1.0)
    if looped(model) and floating(model):
        scale = where(touching, scale, where(allowed < -LOST * kept - rounded, np.nan, scale))
    found, rest = scale * v, where(touching, 0.0, 1.0 - scale)
    for k, (_, own, _) in enumerate(floating(model)):
        found[own] = found[own] + rest * after.straight[3 * k : 3 * k + 3]
    return found
