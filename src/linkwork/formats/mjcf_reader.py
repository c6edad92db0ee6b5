"""From MuJoCo's compiled model to a builder: bodies, joints and states.

A body with several joints becomes a chain of links without mass. Coordinates of hinges and slides count from the reference
configuration `qpos0`; those of a free joint are the body's own pose in the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.formats.mjcf_names import body_names, free_name, joint_names
from linkwork.formats.mjcf_process import Compiled
from linkwork.formats.urdf_parts import LARGEST, LONGEST, Notes
from linkwork.formats.xml import Element
from linkwork.joints import Fixed, Free, Joint, Prismatic, Revolute, Spherical
from linkwork.model import WORLD, ModelBuilder
from linkwork.parts.limits import Limits
from linkwork.parts.names import shown
from linkwork.spatial import Pose, physical_problems
from linkwork.spatial.constants import product
from linkwork.spatial.pose import snapped
from linkwork.spatial.rotation import numeric_matrix

FREE, BALL, SLIDE, HINGE = range(4)  # mjtJoint
REFERENCE = "qpos0"  # the keyframe of the reference configuration


def place_of(pos: np.ndarray, quat: np.ndarray) -> Pose:
    """A pose from MuJoCo's position and quaternion w x y z."""
    return Pose(snapped(numeric_matrix(np.roll(quat, -1)), 4e-16), np.array(pos, dtype=float))


class Reader:
    """Takes a compiled model to a builder; `links` has the link of each body."""

    def __init__(
        self,
        compiled: Compiled,
        root: Element,
        notes: Notes,
        *,
        base: str | None,
        gravity: Sequence[float] | None,
        strict: bool,
        limits: Limits,
    ) -> None:
        self.compiled, self.root, self.notes, self.base, self.strict = compiled, root, notes, base, strict
        for kind, names in compiled.names.items():
            long = next((name for name in names if len(name) > LONGEST), None)
            if long is not None:
                raise root.error(f"the name of {kind} {shown(long)!r} is longer than {LONGEST} characters")
        self.links = body_names(compiled.names["body"])
        self.joints = joint_names(compiled.names["joint"], self.links, compiled.jnt_bodyid.tolist())
        if len(self.links) > limits.links:
            raise LimitError(root.told(f"there are more than {limits.links} bodies: {limits.raised('links')}"))
        told = compiled.told
        pull = [0.0, 0.0, 0.0] if told["weightless"] else told["gravity"]
        self.builder = ModelBuilder(told["name"] or "mujoco", gravity=pull if gravity is None else gravity)
        self.moved = False  # whether the reference configuration is another than the neutral one
        self.held: set[int] = set()  # free joints that base="fixed" holds fast
        self._taken = {*self.joints, *self.links}

    # bodies and joints

    def add_bodies(self) -> None:
        """All bodies with their joints, parents before children."""
        c = self.compiled
        for name, values in (("mass", c.body_mass), ("inertia", c.body_inertia), ("pos", c.body_pos), ("ipos", c.body_ipos)):
            good = np.isfinite(values) & (np.abs(values) <= LARGEST)
            for bad in np.flatnonzero(~good.reshape(len(self.links), -1).all(axis=1)):
                raise ModelError(f"body {shown(self.links[bad])!r}: its {name} is not finite, or larger than {LARGEST:g}")
        free = [b for b in range(1, len(self.links)) if c.body_jntnum[b] and c.jnt_type[c.body_jntadr[b]] == FREE]
        roots = [b for b in range(1, len(self.links)) if c.body_parentid[b] == 0]
        if self.base == "free" and not free:
            if len(roots) != 1 or c.body_jntnum[roots[0]]:
                raise self.root.error(
                    "base='free' frees the one body that is fixed in the world, and there is none: give it a <freejoint/>"
                )
            self._freed = roots[0]
        else:
            self._freed = -1
        if self.base == "fixed":
            self.held = {int(c.body_jntadr[b]) for b in free}
        for body in range(1, len(self.links)):
            self._add_body(body)

    def _add_body(self, body: int) -> None:
        c, builder, link = self.compiled, self.builder, self.links[body]
        parent = self.links[int(c.body_parentid[body])]
        first, count = int(c.body_jntadr[body]), int(c.body_jntnum[body])
        place = place_of(c.body_pos[body], c.body_quat[body])
        moving = [j for j in range(first, first + count) if j not in self.held]
        if c.body_mocapid[body] >= 0:
            self.notes.add("a mocap body is held fast where the file places it", f"body {shown(link)!r}")
        if body == self._freed:
            self._add_link(link, body)
            builder.add_joint(self._new(f"{link}_joint"), Free(), parent=WORLD, child=link)
            builder.add_keyframe(REFERENCE, {f"{link}_joint": _pose7(c.body_pos[body], c.body_quat[body])})
            self.moved = True
            return
        if not moving:
            self._add_link(link, body)
            builder.add_joint(self._new(f"{link}_fixed"), Fixed(), parent=parent, child=link, place=place)
            return
        at = np.zeros(3)  # of the last joint in the body's frame
        for n, joint in enumerate(moving):
            kind, anchor = self._kind(joint)
            if kind.nv == 6:
                place = Pose.identity()  # its coordinates are the pose in the world
            last = n == len(moving) - 1
            shift = anchor - at
            here = place.then(Pose.translation(shift)) if n == 0 else Pose.translation(shift)
            at = anchor
            child = link if last and not anchor.any() else self._new(f"{link} at {self.joints[joint]}")
            if child == link:
                self._add_link(link, body)
            else:
                builder.add_body(child)
            builder.add_joint(self.joints[joint], kind, parent=parent, child=child, place=here, **self._acting(joint, kind))
            parent = child
        if parent != link:
            self._add_link(link, body)
            builder.add_joint(self._new(f"{link}_fixed"), Fixed(), parent=parent, child=link, place=Pose.translation(-at))

    def _new(self, wanted: str) -> str:
        name = free_name(wanted, self._taken)
        self._taken.add(name)
        return name

    def _add_link(self, link: str, body: int) -> None:
        c = self.compiled
        R = numeric_matrix(np.roll(c.body_iquat[body], -1))
        moment = product(product(snapped(R, 4e-16), np.diag(c.body_inertia[body])), snapped(R, 4e-16).T)
        mass = float(c.body_mass[body])
        problems = physical_problems(mass, moment)
        if problems and self.strict:
            raise ModelError(f"body {shown(link)!r}: {'; '.join(problems)}: not physically consistent")
        for problem in problems:
            self.notes.add(f"{problem}: not physically consistent", f"body {shown(link)!r}")
        self.builder.add_body(link, mass=mass, center=c.body_ipos[body].tolist(), inertia=0.5 * (moment + moment.T), check=None)

    def _kind(self, joint: int) -> tuple[Joint, np.ndarray]:
        """The kind of a joint, and the point of the body's frame where it is."""
        c = self.compiled
        type_, axis, pos = int(c.jnt_type[joint]), c.jnt_axis[joint], np.array(c.jnt_pos[joint], dtype=float)
        if type_ == FREE:
            return Free(), np.zeros(3)
        if type_ == BALL:
            return Spherical(), pos
        if type_ == SLIDE:
            return Prismatic(tuple(axis)), np.zeros(3)
        across = pos - axis * product(axis, pos)  # along the axis it can be anywhere
        return Revolute(tuple(axis)), pos if np.abs(across).max() > 1e-15 else np.zeros(3)

    def _acting(self, joint: int, kind: Joint) -> dict[str, Any]:
        """Limits, springs, dampers, friction and armature of a joint."""
        c, of = self.compiled, f"joint {shown(self.joints[joint])!r}"
        q, v = int(c.jnt_qposadr[joint]), int(c.jnt_dofadr[joint])
        own = slice(v, v + kind.nv)
        found: dict[str, Any] = {
            "damping": c.dof_damping[own].tolist(),
            "friction": c.dof_frictionloss[own].tolist(),
            "armature": (c.dof_armature[own] + self._reflected(joint, kind)).tolist(),
        }
        stiffness = float(c.jnt_stiffness[joint])
        if stiffness and kind.nv == 6:
            self.notes.add("the stiffness of a free joint has no counterpart, and does not act", of)
        elif stiffness:
            found["stiffness"] = stiffness
        if kind.nv == 6 and any(c.dof_armature[v : v + 3]):
            self.notes.add("the armature of a free joint acts along the body's axes here, and along the world's in MuJoCo", of)
        if c.jnt_limited[joint] and kind.nv == 1:
            low, high = (c.jnt_range[joint] - c.qpos0[q]).tolist()
            found |= {"lower": low, "upper": high}
        elif c.jnt_limited[joint]:
            self.notes.add("the limit of a ball joint has no counterpart", of)
        if kind.nv == 1 and stiffness:
            found["rest"] = float(c.qpos_spring[q] - c.qpos0[q])
        if kind.nv == 1 and c.jnt_actfrclimited[joint]:
            found["max_effort"] = float(np.abs(c.jnt_actfrcrange[joint]).max())
        for name, rows, word in (
            ("dof_dampingpoly", own, "damping"),
            ("jnt_stiffnesspoly", slice(joint, joint + 1), "stiffness"),
            ("jnt_springyield", slice(joint, joint + 1), "yielding springs"),
        ):
            values = c.given(name)
            if len(values) and np.any(values[rows]) and np.isfinite(values[rows]).all():
                self.notes.add(f"{word} that is not linear has no counterpart, and does not act", of)
        return found

    def _reflected(self, joint: int, kind: Joint) -> float:
        """The armature of actuators that drive a joint, as the joint feels it."""
        c = self.compiled
        armature = c.given("actuator_armature")
        if kind.nv != 1 or not armature.any():
            return 0.0
        drives = np.isin(c.actuator_trntype, (0, 1)) & (c.actuator_trnid[:, 0] == joint)
        return float((armature * c.actuator_gear[:, 0] ** 2)[drives].sum())

    # states

    def coordinates(self, qpos: np.ndarray) -> dict[str, Any]:
        """The coordinates of all joints, by name, of MuJoCo's qpos."""
        c = self.compiled
        found: dict[str, Any] = {}
        for k, name in enumerate(self.joints):
            at, type_ = int(c.jnt_qposadr[k]), int(c.jnt_type[k])
            if k in self.held:
                continue
            if type_ == FREE:
                found[name] = _pose7(qpos[at : at + 3], qpos[at + 3 : at + 7])
            elif type_ == BALL:
                found[name] = np.roll(qpos[at : at + 4], -1).tolist()
            else:
                found[name] = float(qpos[at] - c.qpos0[at])
        return found

    def velocities(self, qpos: np.ndarray, qvel: np.ndarray) -> dict[str, Any]:
        """The velocities of all joints, by name, of MuJoCo's qvel."""
        c = self.compiled
        found: dict[str, Any] = {}
        for k, name in enumerate(self.joints):
            at, v, type_ = int(c.jnt_qposadr[k]), int(c.jnt_dofadr[k]), int(c.jnt_type[k])
            if k in self.held:
                continue
            if type_ == FREE:  # there: linear first, along the axes of the world
                R = numeric_matrix(np.roll(qpos[at + 3 : at + 7], -1))
                found[name] = [*qvel[v + 3 : v + 6].tolist(), *product(R.T, qvel[v : v + 3]).tolist()]
            else:
                found[name] = qvel[v : v + (3 if type_ == BALL else 1)].tolist()
        return found

    def note_rest(self) -> None:
        """What the file asks for and linkwork has not."""
        c, told = self.compiled, self.compiled.told
        if told["fluid"]:
            self.notes.add("forces of a fluid (density, viscosity) have no counterpart, and do not act")
        if c.body_gravcomp.any():
            of = [f"body {shown(self.links[b])!r}" for b in np.flatnonzero(c.body_gravcomp)]
            self.notes.add("gravity compensation (gravcomp) has no counterpart, and does not act", *of)
        tendons = c.names["tendon"]
        for word in ("stiffness", "damping", "frictionloss", "armature", "limited"):
            values = c.given(f"tendon_{word}")
            for k in np.flatnonzero(values) if len(values) else ():
                self.notes.add(f"{word} of tendons has no counterpart, and does not act", f"tendon {shown(tendons[k])!r}")
        if c.given("actuator_damping").any():
            self.notes.add("damping of actuators has no counterpart, and does not act")


def _pose7(pos: np.ndarray, quat: np.ndarray) -> list[float]:
    """A free joint's coordinates here, of position and quaternion w x y z."""
    return [*np.asarray(pos, dtype=float).tolist(), *np.roll(quat, -1).tolist()]
