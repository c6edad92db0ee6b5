"""Partition of hinges into single velocities (Partition Sec. 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints import Joint
from linkwork.joints.check import composed
from linkwork.mechanism import GROUND, PlacedJoint
from linkwork.model.data import ModelData

EQUALITY_TOL = 1e-9  # relative to sizes of about one
TRIAL_STATES = 5

Split = tuple[Joint, ...] | tuple[tuple[int, ...], ...] | tuple[str]
"""Joints one after the other, or groups of a joint's velocities, both from the parent out; or JOINED."""

JOINED = ("joined",)  # a deformation joined with the massless body before it, which has the link's hinge


def partitioned(
    model: ModelData, names: Sequence[str], splits: Mapping[str, Any] | None
) -> tuple[tuple[int, Split], ...]:
    """Return the splits of joints: of those named, those with a custom split, or all that can be split."""
    in_loops = {k for cluster in model.clusters if cluster.constraints for k in cluster.bodies}
    if splits is not None and not isinstance(splits, Mapping):
        raise ModelError(
            f"splits: expected a mapping of joints to their splits, such as {{'hip': [...]}}, got {splits!r}"
        )
    custom_splits = dict(splits or {})
    for name in (*names, *custom_splits):
        joint = model.joint(name)
        if joint.child in in_loops:
            raise ModelError(f"partition: expected a joint outside loops, got {name!r}, which is in a loop")
        if joint.nv < 2:
            raise ModelError(
                f"partition: expected a joint with several velocities, got {name!r} with {joint.nv}"
            )
    selected = {*names, *custom_splits}
    if not selected:
        selected = {joint.name for joint in model.joints if joint.nv > 1 and joint.child not in in_loops}
    result: list[tuple[int, Split]] = []
    for joint in model.joints:
        if joint.name in selected:
            custom = custom_splits.get(joint.name)
            result.append(
                (joint.child, default_split(joint.kind) if custom is None else _checked(joint, custom))
            )
    return tuple(result)


def is_partition_candidate(model: Any) -> bool:
    """Return whether partitioned hinges may take fewer operations.

    Candidates are multi-DoF joints outside loops. A joint on the ground does not pass inertia on, so only
    compound joints are candidates there.
    """
    if not isinstance(model, ModelData) or model.partition or model.constrained_loops:
        return False
    alone = [cluster.bodies[0] for cluster in model.clusters if not cluster.constraints]
    several = [model.joints[k] for k in alone if model.joints[k].nv > 1]
    return any(joint.parent != GROUND or joint.kind.partition() for joint in several)


def joined_deformations(model: ModelData) -> tuple[tuple[int, Split], ...]:
    """Return splits that join hinge and deformation of flexible bodies outside loops into one hinge."""
    alone = [cluster.bodies[0] for cluster in model.clusters if not cluster.constraints]
    joints = [model.joints[k] for k in alone if getattr(model.joints[k].kind, "elastic", False)]
    massless = [joint for joint in joints if joint.parent in alone and model.bodies[joint.parent].mass == 0.0]
    return tuple((joint.child, JOINED) for joint in massless)


def default_split(kind: Joint) -> Split:
    """Return the joints that a joint consists of, or its single velocities."""
    return kind.partition() or tuple((i,) for i in range(kind.nv))


def _checked(joint: PlacedJoint, split: Any) -> Split:
    """Return a custom split after checks."""
    label = f"joint {joint.name!r}"
    if isinstance(split, str) or not isinstance(split, Iterable):
        raise ModelError(f"{label}: expected a sequence of joints or of groups of velocities, got {split!r}")
    parts = tuple(split)
    if parts and all(isinstance(part, Joint) for part in parts):
        joints = tuple(part.frozen() for part in parts)
        _check_joints(joint, joints)
        return joints
    components = {
        **{str(c): i for i, c in enumerate(joint.kind.components)},
        **{n: i for i, n in enumerate(joint.v_names)},
    }
    groups = []
    for part in parts:
        if isinstance(part, Joint):
            raise ModelError(f"{label}: split: expected joints or groups of velocities, got both")
        group = (part,) if isinstance(part, str) or not isinstance(part, Iterable) else tuple(part)
        groups.append(tuple(_velocity(label, each, components, joint.nv) for each in group))
    every = [i for group in groups for i in group]
    if sorted(every) != list(range(joint.nv)):
        raise ModelError(
            f"{label}: expected groups with each of its {joint.nv} velocities once, got {groups}"
        )
    for group in groups:
        if not group or list(group) != list(range(group[0], group[0] + len(group))):
            raise ModelError(f"{label}: split: expected groups of consecutive velocities, got {group}")
    return tuple(groups)


def _velocity(label: str, key: Any, components: Mapping[str, int], nv: int) -> int:
    if isinstance(key, str) and key in components:
        return components[key]
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < nv:
        return int(key)
    raise ModelError(f"{label}: split: expected velocities of {', '.join(components)}; got {key!r}")


def _check_joints(joint: PlacedJoint, parts: Sequence[Joint]) -> None:
    """Raise ModelError unless joints in series equal the joint: Partition Eq. 5, at random coordinates."""
    kind = joint.kind
    label = f"joint {joint.name!r}"
    for word in ("nq", "nv"):
        count = sum(getattr(part, word) for part in parts)
        if count != getattr(kind, word):
            raise ModelError(
                f"{label}: split: expected joints with total {word} = {getattr(kind, word)}, got {count}"
            )
    rng = np.random.default_rng(0)
    for _ in range(TRIAL_STATES):
        q = kind.random(rng)
        v = rng.normal(size=kind.nv)
        X, S, bias = composed(parts, q, v)
        transform = kind.transform(q)
        checks = {
            "Φ(k+1, k) = Φ(k+1, k') Φ(k', k)": (X.matrix(), transform.matrix()),
            "H(k) = [H(k''); H(k') Φ(k', k)]": (S, kind.subspace(q)),
            "a(k) = a(k'') + Φ*(k', k) a(k')": (bias, kind.bias(q, v)),
        }
        for equation, (value, expected) in checks.items():
            gap = np.abs(np.asarray(value, dtype=float) - np.asarray(expected, dtype=float)).max()
            if gap > EQUALITY_TOL:
                raise ModelError(
                    f"{label}: split: expected joints in series equal to the joint, got a difference of "
                    f"{gap:.2g} in {equation} (Partition Eq. 5); order them from the parent outwards"
                )
