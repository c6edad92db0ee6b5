"""Bodies, joints and states of a compiled MuJoCo model.

A body with several joints becomes a chain of massless links. Coordinates of hinges and slides are relative to
the reference configuration `qpos0`; those of a free joint are the body's pose in the world.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.formats.mjcf_chains import is_coupled
from linkwork.formats.mjcf_names import body_names, free_name, joint_names
from linkwork.formats.mjcf_process import Compiled
from linkwork.formats.urdf_parts import MAX_NAME, MAX_VALUE, Notes
from linkwork.formats.xml import Element
from linkwork.joints import Fixed, Free, Joint, Prismatic, Revolute, Spherical
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import printable
from linkwork.model import WORLD, ModelBuilder
from linkwork.spatial import Pose, physical_problems
from linkwork.spatial.constants import product
from linkwork.spatial.pose import snapped
from linkwork.spatial.rotation import numeric_matrix

FREE, BALL, SLIDE, HINGE = range(4)  # mjtJoint
# mjtTrn
BY_JOINT = (0, 1)
BY_TENDON = 3
WRAPS_JOINT = 1  # mjtWrap
WIDTHS = (6, 3, 1, 1)  # velocities of each kind
CHECKED = """
body_mass body_inertia body_pos body_quat body_ipos body_iquat jnt_pos jnt_axis jnt_stiffness dof_armature
dof_damping
dof_frictionloss site_pos site_quat geom_pos geom_quat geom_size
""".split()  # noqa: SIM905
LARGEST_VALUE = 1e10  # mjMAXVAL: beyond it MuJoCo resets a simulation
REFERENCE = "qpos0"  # keyframe of the reference configuration


def unlimited(bound: float) -> float:
    """Return a bound of a range, infinite beyond MuJoCo's largest value.

    MuJoCo's ranges always have two bounds, also if only one is meant.
    """
    return bound if abs(bound) < LARGEST_VALUE else math.copysign(math.inf, bound)


def place_of(pos: np.ndarray, quat: np.ndarray) -> Pose:
    """Return the pose of MuJoCo's position and quaternion w x y z."""
    return Pose(snapped(numeric_matrix(np.roll(quat, -1)), 4e-16), np.array(pos, dtype=float))


class Reader:
    """Adds a compiled model to a builder; `links` has the name of each body's link."""

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
        self.compiled = compiled
        self.root = root
        self.notes = notes
        self.base = base
        self.strict = strict
        for kind, names in compiled.names.items():
            long = next((name for name in names if len(name) > MAX_NAME), None)
            if long is not None:
                raise root.error(f"name of {kind} {printable(long)!r}: longer than {MAX_NAME} characters")
        self.links = body_names(compiled.names["body"])
        self.joints = joint_names(compiled.names["joint"], self.links, compiled.jnt_bodyid.tolist())
        if len(self.links) > limits.links:
            raise LimitError(root.message(f"more than {limits.links} bodies: {limits.raised('links')}"))
        info = compiled.info
        self.disabled = {*info["disabled"]}  # by <flag>
        if "passive" in self.disabled:  # of older versions
            self.disabled |= {"spring", "damper"}
        if "constraint" in self.disabled:
            self.disabled |= {"equality", "frictionloss", "limit", "contact"}
        if gravity is None:
            gravity = info["gravity"] if self.acts("gravity") else [0.0, 0.0, 0.0]
        self.gravity_compensated = self._gravity_compensation()
        if self.gravity_compensated:
            gravity = [(1.0 - self.gravity_compensated) * g for g in gravity]
        self.builder = ModelBuilder(info["name"] or "mujoco", gravity=gravity)
        self.moved = False  # whether the reference configuration is not neutral
        self.held: set[int] = set()  # free joints that base="fixed" removes
        self.kinds: dict[str, Joint] = {}  # of moving joints
        self.tendon_joints: dict[int, str] = {}  # joints that represent tendons
        self.spatial_tendons: set[int] = set()  # those that are read
        self.sites: list[str] = []  # frames of sites, "" if unnamed
        self._taken = {*self.joints, *self.links}

    def acts(self, flag: str) -> bool:
        """Return True unless the file disables this <flag>."""
        return flag not in self.disabled

    def _gravity_compensation(self) -> float:
        """Return the part of the weight that is compensated, if it is the same for all moving bodies."""
        c = self.compiled
        if not self._compensates_gravity():
            return 0.0
        moves = [self.base == "free"]  # the world's entry is not used
        for body in range(1, len(self.links)):
            kinds = c.jnt_type[c.body_jntadr[body] : c.body_jntadr[body] + c.body_jntnum[body]]
            has_compensation = any(kind != FREE or self.base != "fixed" for kind in kinds.tolist())
            moves.append(has_compensation or moves[int(c.body_parentid[body])])
        parts = {float(c.body_gravcomp[b]) for b in range(1, len(moves)) if moves[b] and c.body_mass[b] > 0.0}
        return parts.pop() if len(parts) == 1 else 0.0

    def _compensates_gravity(self) -> bool:
        """Return True unless MuJoCo has no such forces: without a positive one, or any passive force."""
        return (self.acts("spring") or self.acts("damper")) and bool(
            np.any(self.compiled.body_gravcomp > 0.0)
        )

    # bodies and joints

    def add_bodies(self) -> None:
        """Add all bodies with their joints, parents before children."""
        c = self.compiled
        self._check_sizes()
        free = [
            b for b in range(1, len(self.links)) if c.body_jntnum[b] and c.jnt_type[c.body_jntadr[b]] == FREE
        ]
        roots = [b for b in range(1, len(self.links)) if c.body_parentid[b] == 0]
        if self.base == "free" and not free:
            if len(roots) != 1 or c.body_jntnum[roots[0]]:
                raise self.root.error(
                    "base='free': expected exactly one body fixed in the world; give the base a <freejoint/>"
                )
            self._freed = roots[0]
        else:
            self._freed = -1
        if self.base == "fixed":
            self.held = {int(c.body_jntadr[b]) for b in free}
        for body in range(1, len(self.links)):
            self._add_body(body)

    def _check_sizes(self) -> None:
        """Raise if a number is not finite or exceeds `MAX_VALUE`."""
        c = self.compiled
        if not all(abs(g) <= MAX_VALUE for g in c.info["gravity"]):
            raise (self.root.all("option") or [self.root])[0].error(
                f"gravity: expected finite numbers of at most {MAX_VALUE:g}"
            )
        names = {"body": self.links, "jnt": self.joints, "geom": c.names["geom"], "site": c.names["site"]}
        velocity_of = np.repeat(np.arange(len(self.joints)), [WIDTHS[int(k)] for k in c.jnt_type])
        for word in CHECKED:
            kind, _, name = word.partition("_")
            values = np.asarray(c.arrays[word], dtype=float)
            valid = np.isfinite(values) & (np.abs(values) <= MAX_VALUE)
            if name in ("quat", "iquat", "axis"):
                # Numbers may be too large to be normalized.
                valid &= (np.abs((values**2).sum(axis=1) - 1.0) < 1e-6)[:, None]
            for row in np.flatnonzero(~valid.reshape(len(values), -1).all(axis=1)) if values.size else ():
                index = int(velocity_of[row]) if kind == "dof" else int(row)
                owner_name = names["jnt" if kind == "dof" else kind][index]
                label = "joint" if kind in ("jnt", "dof") else kind
                raise ModelError(
                    f"{label} {printable(owner_name)!r}: {name}: expected finite numbers of at most "
                    f"{MAX_VALUE:g}"
                )

    def _add_body(self, body: int) -> None:
        c = self.compiled
        builder = self.builder
        link = self.links[body]
        parent = self.links[int(c.body_parentid[body])]
        first = int(c.body_jntadr[body])
        count = int(c.body_jntnum[body])
        place = place_of(c.body_pos[body], c.body_quat[body])
        moving = [j for j in range(first, first + count) if j not in self.held]
        if c.body_mocapid[body] >= 0:
            self.notes.missing("mocap body is fixed at its pose in the file", f"body {printable(link)!r}")
        if body == self._freed:
            self._add_link(link, body)
            builder.add_joint(self.new_name(f"{link}_joint"), Free(), parent=WORLD, child=link)
            builder.add_keyframe(REFERENCE, {f"{link}_joint": _pose7(c.body_pos[body], c.body_quat[body])})
            self.moved = True
            return
        if not moving:
            self._add_link(link, body)
            builder.add_joint(self.new_name(f"{link}_fixed"), Fixed(), parent=parent, child=link, place=place)
            return
        previous_anchor = np.zeros(3)  # of the previous joint, in the body's frame
        for n, joint in enumerate(moving):
            kind, anchor = self._kind(joint)
            if kind.nv == 6:
                place = Pose.identity()  # its coordinates are the pose in the world
            last = n == len(moving) - 1
            shift = anchor - previous_anchor
            joint_place = place.then(Pose.translation(shift)) if n == 0 else Pose.translation(shift)
            previous_anchor = anchor
            child = link if last and not anchor.any() else self.new_name(f"{link} at {self.joints[joint]}")
            if child == link:
                self._add_link(link, body)
            else:
                builder.add_body(child)
            self.kinds[self.joints[joint]] = kind
            builder.add_joint(
                self.joints[joint],
                kind,
                parent=parent,
                child=child,
                place=joint_place,
                **self._acting(joint, kind),
            )
            parent = child
        if parent != link:
            self._add_link(link, body)
            builder.add_joint(
                self.new_name(f"{link}_fixed"),
                Fixed(),
                parent=parent,
                child=link,
                place=Pose.translation(-previous_anchor),
            )

    def new_name(self, preferred: str) -> str:
        name = free_name(preferred, self._taken)
        self._taken.add(name)
        return name

    def _add_link(self, link: str, body: int) -> None:
        c = self.compiled
        R = numeric_matrix(np.roll(c.body_iquat[body], -1))
        moment = product(product(snapped(R, 4e-16), np.diag(c.body_inertia[body])), snapped(R, 4e-16).T)
        mass = float(c.body_mass[body])
        problems = physical_problems(mass, moment)
        if problems and self.strict:
            raise ModelError(f"body {printable(link)!r}: {'; '.join(problems)}: not physically consistent")
        for problem in problems:
            self.notes.add(f"{problem}: not physically consistent", f"body {printable(link)!r}")
        some = self._compensates_gravity() and not self.gravity_compensated
        scale = 1.0 - float(c.body_gravcomp[body]) if some else 1.0
        inertia = {"mass": mass, "center": c.body_ipos[body].tolist(), "inertia": 0.5 * (moment + moment.T)}
        self.builder.add_body(link, **inertia, check=None, gravity_scale=scale)

    def _kind(self, joint: int) -> tuple[Joint, np.ndarray]:
        """Return the kind of a joint and its anchor in the body's frame."""
        c = self.compiled
        type_ = int(c.jnt_type[joint])
        axis = c.jnt_axis[joint]
        pos = np.array(c.jnt_pos[joint], dtype=float)
        if type_ == FREE:
            return Free(), np.zeros(3)
        if type_ == BALL:
            return Spherical(), pos
        if type_ == SLIDE:
            return Prismatic(tuple(axis)), np.zeros(3)
        across = pos - axis * product(axis, pos)  # the position along the axis is arbitrary
        return Revolute(tuple(axis)), pos if np.abs(across).max() > 1e-15 else np.zeros(3)

    def _acting(self, joint: int, kind: Joint) -> dict[str, Any]:
        """Return limits, spring, damper, friction and armature of a joint."""
        c = self.compiled
        label = f"joint {printable(self.joints[joint])!r}"
        q = int(c.jnt_qposadr[joint])
        v = int(c.jnt_dofadr[joint])
        rows_of_joint = slice(v, v + kind.nv)
        values_by_name: dict[str, Any] = {
            "damping": (
                c.dof_damping[rows_of_joint] * self.acts("damper") + self._damped_by_motors(joint, kind)
            ).tolist(),
            "friction": (c.dof_frictionloss[rows_of_joint] * self.acts("frictionloss")).tolist(),
            "armature": (c.dof_armature[rows_of_joint] + self._reflected(joint)).tolist(),
        }
        stiffness = float(c.jnt_stiffness[joint]) * self.acts("spring")
        for word, values in (*values_by_name.items(), ("stiffness", [stiffness])):
            if min(values, default=0.0) < 0.0:
                self.notes.missing(f"negative {word} is not supported and ignored", label)
                values[:] = [max(0.0, x) for x in values]
        stiffness = max(0.0, stiffness)
        if stiffness and kind.nv == 6:
            self.notes.missing("stiffness of a free joint is not supported and ignored", label)
        elif stiffness:
            values_by_name["stiffness"] = stiffness
        if kind.nv == 6 and any(values_by_name["armature"]):
            self.notes.add(
                "armature of a free joint acts along the body's axes here, but along the world's in MuJoCo",
                label,
            )
        limited = c.jnt_limited[joint] and self.acts("limit")
        if limited and kind.nv == 1:
            low, high = (c.jnt_range[joint] - c.qpos0[q]).tolist()
            values_by_name |= {"lower": unlimited(low), "upper": unlimited(high)}
        elif limited:
            values_by_name["upper"] = float(max(c.jnt_range[joint]))
        if kind.nv == 1 and stiffness:
            values_by_name["rest"] = float(c.qpos_spring[q] - c.qpos0[q])
        if kind.nv == 1 and c.jnt_actfrclimited[joint]:
            low, high = c.jnt_actfrcrange[joint].tolist()
            values_by_name["max_effort"] = max(abs(low), abs(high))
            if low != -high:
                message = "asymmetric force range: the larger bound is used on both sides"
                self.notes.missing(message, label)
        for name, rows, word, flag in (
            ("dof_dampingpoly", rows_of_joint, "damping", "damper"),
            ("jnt_stiffnesspoly", slice(joint, joint + 1), "stiffness", "spring"),
            ("jnt_springyield", slice(joint, joint + 1), "yielding springs", "spring"),
        ):
            values = c.optional(name)
            if len(values) and self.acts(flag) and np.any(values[rows]) and np.isfinite(values[rows]).all():
                self.notes.missing(f"nonlinear {word} is not supported and ignored", label)
        return values_by_name

    def _reflected(self, joint: int) -> float:
        """Return the reflected armature of actuators that drive a joint.

        They drive it directly, or by a fixed tendon of several branches, whose joints MuJoCo does not couple.
        """
        c = self.compiled
        armature = c.optional("actuator_armature")
        total = 0.0
        for k in np.flatnonzero(armature):
            target = int(c.actuator_trnid[k][0])
            gear = float(c.actuator_gear[k][0])
            if c.actuator_trntype[k] in BY_JOINT and target == joint:
                total += float(armature[k]) * gear**2
            elif c.actuator_trntype[k] == BY_TENDON and not is_coupled(c, self.fixed_tendon(target)):
                total += float(armature[k]) * sum(
                    (gear * factor) ** 2 for j, factor in self.fixed_tendon(target) if j == joint
                )
        return total

    def motor_damping(self, actuator: int) -> float:
        """Return the damping of an actuator at what it drives, by its first gear."""
        damping = self.compiled.optional("actuator_damping")
        if not len(damping) or not self.acts("damper"):
            return 0.0
        return float(damping[actuator]) * float(self.compiled.actuator_gear[actuator][0]) ** 2

    def _damped_by_motors(self, joint: int, kind: Joint) -> float:
        c = self.compiled
        motors = [k for k in range(len(c.names["actuator"])) if c.actuator_trntype[k] in BY_JOINT]
        return sum(
            self.motor_damping(k) for k in motors if kind.nv == 1 and int(c.actuator_trnid[k][0]) == joint
        )

    def fixed_tendon(self, tendon: int) -> list[tuple[int, float]]:
        """Return the joints of a fixed tendon with their ratios; none for a spatial one."""
        c = self.compiled
        wraps = range(int(c.tendon_adr[tendon]), int(c.tendon_adr[tendon]) + int(c.tendon_num[tendon]))
        if any(int(c.wrap_type[w]) != WRAPS_JOINT for w in wraps):
            return []
        return [(int(c.wrap_objid[w]), float(c.wrap_prm[w])) for w in wraps]

    # states

    def coordinates(self, qpos: np.ndarray) -> dict[str, Any]:
        """Return the coordinates of all joints by name from MuJoCo's qpos."""
        c = self.compiled
        by_name: dict[str, Any] = {}
        for k, name in enumerate(self.joints):
            at = int(c.jnt_qposadr[k])
            type_ = int(c.jnt_type[k])
            if k in self.held:
                continue
            if type_ == FREE:
                by_name[name] = _pose7(qpos[at : at + 3], qpos[at + 3 : at + 7])
            elif type_ == BALL:
                by_name[name] = np.roll(qpos[at : at + 4], -1).tolist()
            else:
                by_name[name] = float(qpos[at] - c.qpos0[at])
        return by_name

    def velocities(self, qpos: np.ndarray, qvel: np.ndarray) -> dict[str, Any]:
        """Return the velocities of all joints by name from MuJoCo's qvel."""
        c = self.compiled
        by_name: dict[str, Any] = {}
        for k, name in enumerate(self.joints):
            at = int(c.jnt_qposadr[k])
            v = int(c.jnt_dofadr[k])
            type_ = int(c.jnt_type[k])
            if k in self.held:
                continue
            if type_ == FREE:  # MuJoCo: linear first, along the axes of the world
                R = numeric_matrix(np.roll(qpos[at + 3 : at + 7], -1))
                by_name[name] = [*qvel[v + 3 : v + 6].tolist(), *product(R.T, qvel[v : v + 3]).tolist()]
            else:
                by_name[name] = qvel[v : v + (3 if type_ == BALL else 1)].tolist()
        return by_name


def _pose7(pos: np.ndarray, quat: np.ndarray) -> list[float]:
    """Return the coordinates of a free joint from position and quaternion w x y z."""
    return [*np.asarray(pos, dtype=float).tolist(), *np.roll(quat, -1).tolist()]
