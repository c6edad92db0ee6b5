"""Which hinges of a model are partitioned, and how: one velocity after the other (Partition Sec. 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints import Joint
from linkwork.model.data import ModelData
from linkwork.parts import GROUND, PlacedJoint
from linkwork.spatial import Pose
from linkwork.spatial.vectors import ad

CLOSE = 1e-9  # relative to sizes of about one
TRIES = 5

Split = tuple[Joint, ...] | tuple[tuple[int, ...], ...] | tuple[str]
"""Joints one after the other, or groups of a joint's velocities, both from the parent out; or JOINED."""

JOINED = ("joined",)  # with the massless body before it, whose hinge is its own


def partitioned(model: ModelData, names: Sequence[str], splits: Mapping[str, Any] | None) -> tuple[tuple[int, Split], ...]:
    """The splits of joints by their place: of those named, of those with a split of their own, or of all that can be split."""
    in_loops = {k for cluster in model.clusters if cluster.constraints for k in cluster.bodies}
    if splits is not None and not isinstance(splits, Mapping):
        raise ModelError(f"splits must be a mapping of joints to their splits, such as {{'hip': [...]}}, not {splits!r}")
    given = dict(splits or {})
    for name in (*names, *given):
        joint = model.joint(name)
        if joint.child in in_loops:
            raise ModelError(f"joint {name!r} is in a loop: only joints in no loop can be partitioned")
        if joint.nv < 2:
            raise ModelError(f"joint {name!r} has {joint.nv} velocity: only joints of several velocities can be partitioned")
    wanted = {*names, *given}
    if not wanted:
        wanted = {joint.name for joint in model.joints if joint.nv > 1 and joint.child not in in_loops}
    found: list[tuple[int, Split]] = []
    for joint in model.joints:
        if joint.name in wanted:
            own = given.get(joint.name)
            found.append((joint.child, default_split(joint.kind) if own is None else _checked(joint, own)))
    return tuple(found)


def may_pay(model: Any) -> bool:
    """Whether partitioned hinges may take fewer operations: of joints of several velocities in no loop.

    Behind a joint on the ground nothing is felt, so that there it must be one that is made of others.
    """
    if not isinstance(model, ModelData) or model.partition or model.force_held:
        return False
    alone = [cluster.bodies[0] for cluster in model.clusters if not cluster.constraints]
    several = [model.joints[k] for k in alone if model.joints[k].nv > 1]
    return any(joint.parent != GROUND or joint.kind.partition() for joint in several)


def joined_deformations(model: ModelData) -> tuple[tuple[int, Split], ...]:
    """Hinge and deformation of every flexible body that is in no loop as one hinge: the reverse of a partition."""
    alone = [cluster.bodies[0] for cluster in model.clusters if not cluster.constraints]
    joints = [model.joints[k] for k in alone if getattr(model.joints[k].kind, "elastic", False)]
    massless = [joint for joint in joints if joint.parent in alone and model.bodies[joint.parent].mass == 0.0]
    return tuple((joint.child, JOINED) for joint in massless)


def default_split(kind: Joint) -> Split:
    """The joints that a joint is made of, or each of its velocities for itself."""
    return kind.partition() or tuple((i,) for i in range(kind.nv))


def _checked(joint: PlacedJoint, split: Any) -> Split:
    what = f"joint {joint.name!r}"
    if isinstance(split, str) or not isinstance(split, Iterable):
        raise ModelError(f"{what}: a split is a sequence of joints, or of groups of velocities, not {split!r}")
    parts = tuple(split)
    if parts and all(isinstance(part, Joint) for part in parts):
        joints = tuple(part.settled() for part in parts)
        _check_joints(joint, joints)
        return joints
    components = {**{str(c): i for i, c in enumerate(joint.kind.components)}, **{n: i for i, n in enumerate(joint.v_names)}}
    groups = []
    for part in parts:
        if isinstance(part, Joint):
            raise ModelError(f"{what}: a split is of joints or of groups of velocities, not of both")
        group = (part,) if isinstance(part, str) or not isinstance(part, Iterable) else tuple(part)
        groups.append(tuple(_velocity(what, each, components, joint.nv) for each in group))
    every = [i for group in groups for i in group]
    if sorted(every) != list(range(joint.nv)):
        raise ModelError(f"{what}: the groups {groups} must have each of its {joint.nv} velocities once")
    for group in groups:
        if not group or list(group) != list(range(group[0], group[0] + len(group))):
            raise ModelError(f"{what}: velocities of a group must follow one another, unlike {group}")
    return tuple(groups)


def _velocity(what: str, given: Any, components: Mapping[str, int], nv: int) -> int:
    if isinstance(given, str) and given in components:
        return components[given]
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and 0 <= given < nv:
        return int(given)
    raise ModelError(f"{what}: {given!r} is none of its velocities {', '.join(components)}")


def _check_joints(joint: PlacedJoint, parts: Sequence[Joint]) -> None:
    """An error where joints one after the other are not the joint: Partition Eq. 5, at a few random coordinates."""
    kind, what = joint.kind, f"joint {joint.name!r}"
    for word in ("nq", "nv"):
        count = sum(getattr(part, word) for part in parts)
        if count != getattr(kind, word):
            raise ModelError(f"{what}: the parts of its split have {word} {count} together, but it has {getattr(kind, word)}")
    rng = np.random.default_rng(0)
    for _ in range(TRIES):
        q, v = kind.random(rng), rng.normal(size=kind.nv)
        X, S, bias = composed(parts, q, v)
        own = kind.transform(q)
        checks = {
            "Φ(k+1, k) = Φ(k+1, k') Φ(k', k)": (X.matrix(), own.matrix()),
            "H(k) = [H(k''); H(k') Φ(k', k)]": (S, kind.subspace(q)),
            "a(k) = a(k'') + Φ*(k', k) a(k')": (bias, kind.bias(q, v)),
        }
        for equation, (found, expected) in checks.items():
            gap = np.abs(np.asarray(found, dtype=float) - np.asarray(expected, dtype=float)).max()
            if gap > CLOSE:
                raise ModelError(
                    f"{what}: its split is not the joint itself: {equation} (Partition Eq. 5) is missed by {gap:.2g}; parts "
                    "come from the parent out, with coordinates and velocities in the joint's order"
                )


def composed(parts: Sequence[Joint], q: np.ndarray, v: np.ndarray) -> tuple[Pose, np.ndarray, np.ndarray]:
    """Pose, motion subspace (6, nv) and bias (6,) of joints one after the other."""
    X, maps, V, bias = Pose.identity(), np.zeros((6, 0)), np.zeros(6), np.zeros(6)
    at_q = at_v = 0
    for part in parts:
        own_q, own_v = q[at_q : at_q + part.nq], v[at_v : at_v + part.nv]
        at_q, at_v = at_q + part.nq, at_v + part.nv
        step, S = part.transform(own_q), part.subspace(own_q)
        more = np.asarray(S, dtype=float) @ own_v
        V = step.scatter(V)  # what the parts before do, as seen from behind this one, which moves against them
        bias = step.scatter(bias) - ad(more, V) + part.bias(own_q, own_v)
        X, maps, V = X.then(step), np.concatenate([step.scatter(maps), S], axis=1), V + more
    return X, maps, bias
