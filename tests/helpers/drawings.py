"""Mechanisms as CAD draws them: bodies, joints and loops placed in one posture, and written down with so many
digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.joints import Joint, Prismatic, Revolute
from linkwork.model import WORLD, ModelBuilder
from linkwork.spatial import Pose
from mechanisms import Random, heavy

Point = Sequence[float]
Mark = tuple[str, np.ndarray]  # a body and a point in its frame
Z = (0.0, 0.0, 1.0)


def array(*x: Any) -> np.ndarray:
    return np.array(x, dtype=float)


def turn(axis: Any, angle: float) -> np.ndarray:
    """The rotation about an axis."""
    u = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    H = np.array([[0, -u[2], u[1]], [u[2], 0, -u[0]], [-u[1], u[0], 0]])
    return np.eye(3) + np.sin(angle) * H + (1 - np.cos(angle)) * (H @ H)


def frame(point: Point, z: Any = Z, x: Any | None = None) -> Pose:
    """A frame at a point whose z axis has a direction, and whose x axis is nearest to another."""
    z = np.asarray(z, dtype=float) / np.linalg.norm(z)
    hint = np.asarray(x if x is not None else np.eye(3)[int(np.argmin(np.abs(z)))], dtype=float)
    x = hint - z * (hint @ z)
    x = x / np.linalg.norm(x)
    return Pose(np.column_stack([x, np.cross(z, x), z]), np.array([*point, 0.0][:3], dtype=float))


def universal_frame(point: Point, x: Any, toward: Point) -> Pose:
    """A frame for a universal joint: its first axis is x, and its z points as near as it can toward a point."""
    along = np.asarray(toward, dtype=float) - np.asarray(point, dtype=float)
    x = np.asarray(x, dtype=float) / np.linalg.norm(x)
    z = along - x * (along @ x)
    z = z / np.linalg.norm(z)
    return Pose(np.column_stack([x, np.cross(z, x), z]), np.asarray(point, dtype=float))


def angles(R: np.ndarray) -> np.ndarray:
    """Roll, pitch and yaw of a rotation."""
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    if np.cos(pitch) < 1e-9:
        return np.array([np.arctan2(-R[1, 2], R[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])


RIGHT_ANGLES = [
    np.eye(3),
    turn((1, 0, 0), np.pi / 2),
    turn((0, 1, 0), -np.pi / 2),
    turn((1, 0, 0), -np.pi / 2),
]


class Drawing:
    """A mechanism drawn in the world. At zero it is in the posture that is drawn.

    With `digits`, positions (in units of its `size` [m]) and angles are written with so many decimals. With
    `turned`, the frame of each body is turned against its joint by right angles, as exporters write them.
    """

    def __init__(
        self,
        name: str,
        *,
        seed: int = 0,
        size: float = 1.0,
        digits: int | None = None,
        turned: bool = False,
        gravity: Any = None,
        base: Pose | None = None,
    ) -> None:
        """`base` is the world's frame in the drawing: the mechanism stands in any orientation."""
        self.rng: Random = np.random.default_rng(seed)
        self.size = size
        self.digits = digits
        self.turned = turned
        self.builder = ModelBuilder(name, gravity=gravity or (0.0, -9.81, 0.0))
        self.frames: dict[str, Pose] = {WORLD: base or Pose.identity()}
        self.loops = 0
        self.text: list[str] = []  # the same in URDF
        self.sides: list[tuple[Mark, Mark, Mark, Mark]] = []  # tetrahedra that keep their sign on one branch

    def mark(self, body: str, point: Any) -> Mark:
        """A point of a body, drawn in the world; kept in the body's frame [m]."""
        place = self.frames[body].inverse().point(np.array([*point, 0.0][:3], dtype=float))
        return body, place * self.size

    def keeps_side(self, *points: tuple[str, Any], normal: tuple[str, Any] = (WORLD, Z)) -> None:
        """Three points that turn to the left, seen against a body's direction, do so on all of the branch; or
        to the right.
        """
        a, b, c = points
        on, n = normal
        top = self.mark(on, np.array([*a[1], 0.0][:3]) + n)
        base = self.mark(on, a[1])
        self.sides.append((self.mark(*a), self.mark(*b), self.mark(*c), (on, top[1] - base[1])))

    def written(self, place: Pose) -> dict[str, Any]:
        """A place as a file says it."""
        if self.digits is None:
            return {"place": Pose(place.R, place.p * self.size)}
        xyz = np.round(place.p, self.digits) * self.size
        rpy = np.round(angles(place.R), self.digits)
        return {"xyz": xyz.tolist(), "rpy": rpy.tolist()}

    def mass(self) -> dict[str, Any]:
        """A body of about the mechanism's size."""
        given = heavy(self.rng)
        center = np.asarray(given.get("center", np.zeros(3))) * self.size
        return {
            "mass": given["mass"],
            "center": center,
            "inertia": np.asarray(given["inertia"]) * self.size**2,
        }

    def body(self, name: str, on: str, kind: Joint, at: Pose | Point, **more: Any) -> str:
        """A body on a joint whose frame is at a pose, or at a point, in the world."""
        at = at if isinstance(at, Pose) else frame(at)
        if isinstance(kind, (Revolute, Prismatic)) and self.turned:
            R = RIGHT_ANGLES[len(self.frames) % len(RIGHT_ANGLES)]
            at = Pose(at.R @ R, at.p)
            kind = type(kind)(tuple((R.T @ np.array(kind.axis)).round(12).tolist()))
        self.frames[name] = at
        solid = self.mass()
        place = self.written(self.frames[on].inverse().then(at))
        self.builder.add_body(name, **solid)
        self.builder.add_joint(f"to {name}", kind, parent=on, child=name, **place, **more)
        self.text += [link_text(name, solid), joint_text(name, on, kind, place, more)]
        return name

    def urdf(self) -> str:
        """The mechanism as a file of URDF+, where all joints are hinges and sliders."""
        assert "no URDF" not in self.text
        return "\n".join(
            [f'<robot name="{self.builder.name}">', '<link name="base"/>', *self.text, "</robot>"]
        )

    def bar(self, name: str, on: str, at: Point, **more: Any) -> str:
        """A bar of a planar linkage, on a hinge about z."""
        return self.body(name, on, Revolute(), at, **more)

    def slider(self, name: str, on: str, at: Point, along: Point, **more: Any) -> str:
        """A body that slides along a direction."""
        return self.body(name, on, Prismatic((1.0, 0.0, 0.0)), frame(at, Z, [*along, 0.0][:3]), **more)

    def loop(
        self,
        kind: Joint,
        one: str,
        other: str,
        at: Pose | Point,
        at_other: Pose | Point | None = None,
        **more: Any,
    ) -> str:
        """A loop joint at a pose or point of the world; or between two of them, one for each body."""
        at = at if isinstance(at, Pose) else frame(at)
        there = at if at_other is None else at_other if isinstance(at_other, Pose) else frame(at_other)
        first = self.written(self.frames[one].inverse().then(at))
        second = {
            f"successor_{key}": x for key, x in self.written(self.frames[other].inverse().then(there)).items()
        }
        self.loops += 1
        name = more.pop("name", f"loop {self.loops}")
        self.text.append(loop_text(name, kind, one, other, list(first.values()), list(second.values())))
        self.builder.add_loop(name, kind, predecessor=one, successor=other, **first, **second, **more)
        return name

    def pin(self, one: str, other: str, at: Point) -> str:
        """A hinge about z that closes a loop."""
        kind: Joint = Revolute()
        pose = frame(at)
        if self.turned:
            R = RIGHT_ANGLES[self.loops % len(RIGHT_ANGLES)]
            pose = Pose(pose.R @ R, pose.p)
            kind = Revolute(tuple((R.T @ np.array(Z)).round(12).tolist()))
        return self.loop(kind, one, other, pose)

    def dyad(
        self, one: str, other: str, start: Point, end: Point, meet: Point, name: str, *, keeps: bool = True
    ) -> tuple[str, str]:
        """Two bars from bodies to a pin that they share: an Assur group, which adds no degree of freedom.

        It `keeps` its side where it cannot be stretched in the range of the mechanism.
        """
        first = self.bar(f"{name} a", one, start)
        second = self.bar(f"{name} b", other, end)
        self.pin(first, second, meet)
        if keeps:
            self.keeps_side((first, start), (first, meet), (second, end))
        return first, second


# the same as a file


def row(x: Any) -> str:
    return " ".join(f"{float(y)!r}" for y in x)


def link_text(name: str, solid: dict[str, Any]) -> str:
    I = solid["inertia"] if np.ndim(solid["inertia"]) == 2 else np.diag(solid["inertia"])
    moments = " ".join(f'i{"xyz"[i]}{"xyz"[j]}="{float(I[i, j])!r}"' for i in range(3) for j in range(i, 3))
    return (
        f'<link name="{name}"><inertial><mass value="{float(solid["mass"])!r}"/><origin xyz="{row(solid["center"])}"/>'
        f"<inertia {moments}/></inertial></link>"
    )


def _placed(place: list[Any]) -> str:
    xyz, rpy = place if len(place) == 2 else (place[0].p, angles(place[0].R))
    return f'xyz="{row(xyz)}" rpy="{row(rpy)}"'


def joint_text(name: str, on: str, kind: Joint, place: dict[str, Any], limits: dict[str, Any]) -> str:
    word = {Revolute: "revolute" if limits else "continuous", Prismatic: "prismatic"}.get(type(kind))  # type: ignore[call-overload]
    if word is None:
        return "no URDF"
    low = limits.get("lower", -1e3)
    high = limits.get("upper", 1e3)
    bounds = (
        "" if word == "continuous" else f'<limit lower="{low}" upper="{high}" velocity="10" effort="10"/>'
    )
    parent = "base" if on == WORLD else on
    return (
        f'<joint name="to {name}" type="{word}"><parent link="{parent}"/><child link="{name}"/>'
        f'<origin {_placed(list(place.values()))}/><axis xyz="{row(kind.axis)}"/>{bounds}</joint>'  # type: ignore[attr-defined]
    )


def loop_text(name: str, kind: Joint, one: str, other: str, first: list[Any], second: list[Any]) -> str:
    """A loop of URDF+."""
    if not isinstance(kind, (Revolute, Prismatic)):
        return "no URDF"
    word = "revolute" if isinstance(kind, Revolute) else "prismatic"
    one, other = ("base" if x == WORLD else x for x in (one, other))
    ends = f'<predecessor link="{one}"><origin {_placed(first)}/></predecessor>'
    ends += f'<successor link="{other}"><origin {_placed(second)}/></successor>'
    return f'<loop name="{name}" type="{word}">{ends}<axis xyz="{row(kind.axis)}"/></loop>'


def isaac(text: str) -> str:
    """The loops of URDF+ in the words of Isaac Sim."""
    text = re.sub(r"<predecessor (\S+)><origin ([^/]*)/></predecessor>", r"<link1 \1 \2/>", text)
    text = re.sub(r"<successor (\S+)><origin ([^/]*)/></successor>", r"<link2 \1 \2/>", text)
    return text.replace("<loop ", "<loop_joint ").replace("</loop>", "</loop_joint>")


def drake(text: str) -> str:
    """The loops of URDF+ as balls, in the words of Drake."""
    ball = (
        r'<drake:ball_constraint><drake:ball_constraint_body_A name="\1"/><drake:ball_constraint_body_B name="\3"/>'
        r'<drake:ball_constraint_p_AP value="\2"/><drake:ball_constraint_p_BQ value="\4"/></drake:ball_constraint>'
    )
    one = r'link="([^"]*)"><origin xyz="([^"]*)" rpy="[^"]*"/>'
    return re.sub(
        f"<loop [^>]*><predecessor {one}</predecessor><successor {one}</successor>.*?</loop>", ball, text
    )


def circles(a: Point, ra: float, b: Point, rb: float, side: float = 1.0) -> np.ndarray:
    """Where two circles meet: on the left of the way from a to b, or on the right with side = -1."""
    a = np.asarray(a, dtype=float)
    b = np.asarray(b, dtype=float)
    d = np.linalg.norm(b - a)
    x = (d * d + ra * ra - rb * rb) / (2 * d)
    y = np.sqrt(ra * ra - x * x)
    u = (b - a) / d
    return a + x * u + side * y * np.array([-u[1], u[0]])
