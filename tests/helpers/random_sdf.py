"""Random SDF whose motion is known without reading it: places in the world are chosen first, and then written
in any frame.

Poses go by frames, joints and nested models; angles by roll, pitch and yaw in radians or degrees, or by
quaternions. `Motion` has forward kinematics, the mass matrix and forces of gravity of what was written, by
products of exponentials of the joints' screws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray


def turn(r: Array) -> Array:
    """The rotation about a vector by its length (Rodrigues)."""
    angle = np.linalg.norm(r)
    x, y, z = r / angle
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K


def angles_of(R: Array) -> Array:
    """Roll, pitch and yaw."""
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])


def quaternion(R: Array) -> Array:
    """x y z w: the eigenvector of the largest eigenvalue of Bar-Itzhack's matrix."""
    K = np.array([
        [R[0, 0] - R[1, 1] - R[2, 2], R[1, 0] + R[0, 1], R[2, 0] + R[0, 2], R[2, 1] - R[1, 2]],
        [R[1, 0] + R[0, 1], R[1, 1] - R[0, 0] - R[2, 2], R[2, 1] + R[1, 2], R[0, 2] - R[2, 0]],
        [R[2, 0] + R[0, 2], R[2, 1] + R[1, 2], R[2, 2] - R[0, 0] - R[1, 1], R[1, 0] - R[0, 1]],
        [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], R[0, 0] + R[1, 1] + R[2, 2]],
    ])  # fmt: skip
    return np.linalg.eigh(K)[1][:, -1]


def random_place(rng: np.random.Generator) -> Array:
    T = np.eye(4)
    T[:3, :3] = turn(rng.normal(size=3))
    T[:3, 3] = rng.normal(size=3)
    return T


def words(values: Any) -> str:
    return " ".join(repr(float(x)) for x in np.ravel(values))


@dataclass
class Link:
    name: str
    place: Array
    mass: float
    center: Array  # in the world
    moment: Array  # about it, along the world's axes
    above: list[tuple[str, Array]] = field(
        default_factory=list
    )  # coordinates that move it, with screws in the world


@dataclass
class Motion:
    """What moves, and how."""

    links: list[Link] = field(default_factory=list)

    def poses(self, q: dict[str, float]) -> dict[str, Array]:
        return {link.name: _moved(link, q) @ link.place for link in self.links}

    def dynamics(self, q: dict[str, float], gravity: Array) -> tuple[Array, Array]:
        """The mass matrix and the forces that hold it against gravity, in the order of q's names."""
        names = [*q]
        M = np.zeros((len(names), len(names)))
        g = np.zeros(len(names))
        for link in self.links:
            T = _moved(link, q)
            center = T[:3, :3] @ link.center + T[:3, 3]
            moment = T[:3, :3] @ link.moment @ T[:3, :3].T
            J = np.zeros((6, len(names)))
            here = np.eye(4)
            for name, screw in link.above:
                R = here[:3, :3]
                p = here[:3, 3]
                w = R @ screw[:3]
                J[:3, names.index(name)] = w
                J[3:, names.index(name)] = R @ screw[3:] + np.cross(p, w) + np.cross(w, center)
                here = here @ _exponential(screw * q[name])
            M += J[:3].T @ moment @ J[:3] + link.mass * J[3:].T @ J[3:]
            g -= link.mass * J[3:].T @ gravity
        return M, g


def _exponential(screw: Array) -> Array:
    """The motion along a screw [turn, translation] (Murray, Li, Sastry, Eq. 2.36)."""
    T = np.eye(4)
    angle = np.linalg.norm(screw[:3])
    if angle == 0.0:
        T[:3, 3] = screw[3:]
        return T
    w = screw[:3] / angle
    v = screw[3:] / angle
    T[:3, :3] = turn(screw[:3])
    T[:3, 3] = (np.eye(3) - T[:3, :3]) @ np.cross(w, v) + w * (w @ v) * angle
    return T


def _moved(link: Link, q: dict[str, float]) -> Array:
    T = np.eye(4)
    for name, screw in link.above:
        T = T @ _exponential(screw * q[name])
    return T


@dataclass
class Scope:
    """A model that is written: where its frame is, and the names in it with their places."""

    name: str  # with those around it, as the reader names it: "outer::inner::"
    place: Array
    places: dict[str, Array] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)  # of frames and links: the link that they move with
    text: list[str] = field(default_factory=list)


class File:
    """One file, in one version of SDF."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.count, self.motion = rng, 0, Motion()
        self.version = str(rng.choice(["1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10", "1.11", "1.12"]))
        self.minor = int(self.version.split(".")[1])
        self.links: dict[str, Link] = {}

    def new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def pose(self, scope: Scope, place: Array, usual: Array | None, tag: str = "pose") -> str:
        """An element with a place, relative to the usual frame of its kind or any other of the scope."""
        rng = self.rng
        attributes = ""
        usual = scope.place if usual is None else usual
        if self.minor >= 7 and tag == "pose" and scope.places and rng.random() < 0.6:
            name = str(rng.choice([*scope.places, "__model__"]))
            usual = scope.place if name == "__model__" else scope.places[name]
            attributes += f' relative_to="{name}"'
        T = np.linalg.inv(usual) @ place
        way = rng.integers(0, 3)
        if self.minor >= 9 and way == 1:
            sign = rng.choice([-1.0, 1.0])
            return f'<pose{attributes} rotation_format="quat_xyzw">{words([*T[:3, 3], *(sign * quaternion(T[:3, :3]))])}</pose>'
        degrees = self.minor >= 9 and way == 2
        angles = angles_of(T[:3, :3])
        if degrees:
            angles = np.rad2deg(angles)
            attributes += ' degrees="true"'
        return f"<pose{attributes}>{words([*T[:3, 3], *angles])}</pose>"

    def link(self, scope: Scope) -> str:
        rng = self.rng
        name = self.new("link")
        place = random_place(self.rng)
        inner = random_place(rng)
        A = rng.normal(size=(3, 3))
        own = np.trace(A @ A.T) * np.eye(3) - A @ A.T
        mass = float(rng.uniform(0.2, 3.0))
        xyz = ("xx", "xy", "xz", "yy", "yz", "zz")
        entries = "".join(
            f"<i{a}{b}>{float(own['xyz'.index(a), 'xyz'.index(b)])!r}</i{a}{b}>" for a, b in xyz
        )
        plain = self.pose(Scope("", np.eye(4)), inner, np.eye(4), "inertial")
        inertial = f"<inertial>{plain}<mass>{mass!r}</mass><inertia>{entries}</inertia></inertial>"
        scope.text.append(f'<link name="{name}">{self.pose(scope, place, None)}{inertial}</link>')
        scope.places[name], scope.holders[name] = place, name
        at = place @ inner
        moment = at[:3, :3] @ own @ at[:3, :3].T
        self.links[scope.name + name] = link = Link(scope.name + name, place, mass, at[:3, 3], moment)
        self.motion.links.append(link)
        return name

    def frame(self, scope: Scope) -> None:
        name = self.new("frame")
        place = random_place(self.rng)
        to = str(self.rng.choice([*scope.holders]))
        usual = scope.places[to]
        scope.text.append(f'<frame name="{name}" attached_to="{to}">{self.pose(scope, place, usual)}</frame>')
        scope.places[name], scope.holders[name] = place, scope.holders[to]

    def joint(self, scope: Scope, parent: str, child: str) -> None:
        """A joint between two names of a scope; the parent may be the world."""
        rng = self.rng
        name = self.new("joint")
        place = random_place(self.rng)
        kind = str(rng.choice(["revolute", "continuous", "prismatic", "fixed", "universal", "revolute2"]))
        if self.minor < 9 and kind == "continuous":
            kind = "revolute"
        count = {"fixed": 0, "universal": 2, "revolute2": 2}.get(kind, 1)
        axes = rng.normal(size=(2, 3))
        axes[1] -= axes[0] * (axes[0] @ axes[1]) / (axes[0] @ axes[0])
        pose = self.pose(scope, place, scope.places[child])
        text = ""
        for k in range(count):
            attribute = ""
            more = ""
            turn = place[:3, :3]
            if self.minor >= 7 and rng.random() < 0.5:
                named = str(rng.choice([*scope.places, "__model__"]))
                turn = (scope.place if named == "__model__" else scope.places[named])[:3, :3]
                attribute = f' expressed_in="{named}"'
            elif self.minor in (5, 6) and rng.random() < 0.5:
                more = "<use_parent_model_frame>true</use_parent_model_frame>"
                turn = scope.place[:3, :3]
            elif self.minor < 5:
                turn = scope.place[:3, :3]
            tag = "axis" if k == 0 else "axis2"
            text += f"<{tag}><xyz{attribute}>{words(turn.T @ axes[k] * rng.uniform(0.5, 2.0))}</xyz>{more}</{tag}>"
        scope.text.append(
            f'<joint name="{name}" type="{kind}">{pose}<parent>{parent}</parent><child>{child}</child>{text}</joint>'
        )
        above = [] if parent == "world" else self._of(scope, parent).above
        here = []
        for k in range(count):
            unit = axes[k] / np.linalg.norm(axes[k])
            screw = [0.0, 0.0, 0.0, *unit] if kind == "prismatic" else [*unit, *np.cross(place[:3, 3], unit)]
            here.append((f"{scope.name}{name}" + (f"_{k + 1}" if count > 1 else ""), np.array(screw)))
        self._of(scope, child).above += [*above, *here]
        if self.minor >= 7:
            scope.places[name], scope.holders[name] = place, scope.holders[child]

    def _of(self, scope: Scope, name: str) -> Link:
        return self.links[scope.name + scope.holders[name]]

    def model(self, outer: Scope | None, depth: int) -> str:
        rng = self.rng
        name = self.new("model") if outer is not None else "root"
        prefix = "" if outer is None else f"{outer.name}{name}::"
        scope = Scope(prefix, random_place(rng))
        count = int(rng.integers(1, 4))
        made = [self.link(scope)]
        if outer is None:
            self.joint(scope, "world", made[0])
        for _ in range(count):
            parent = str(rng.choice([x for x in scope.holders if self.minor >= 7 or x in made]))
            made.append(self.link(scope))
            while self.minor >= 7 and rng.random() < 0.5:
                self.frame(scope)
            if parent in made or scope.holders[parent] != made[-1]:
                child = made[-1]
                own = [
                    x for x in scope.holders if scope.holders[x] == child and x.startswith(("frame", "link"))
                ]
                self.joint(scope, parent, str(rng.choice(own)) if self.minor >= 7 else child)
        inner = ""
        if self.minor >= 8 and depth < 2 and rng.random() < 0.6:
            inner = self.nested(scope, depth)
        order = list(range(len(scope.text)))
        rng.shuffle(order)
        if outer is None:
            text = self.pose(Scope("", np.eye(4)), scope.place, np.eye(4), "model")
        else:
            text = self.pose(outer, scope.place, None)
        placed = ""
        if self.minor >= 8 and rng.random() < 0.4:  # the pose is that of a frame in it
            frame = str(rng.choice([*scope.places]))
            place = scope.places[frame]
            text = self.pose(Scope("", np.eye(4)) if outer is None else outer, place, np.eye(4) if outer is None else None,
                             "model" if outer is None else "pose")  # fmt: skip
            placed = f' placement_frame="{frame}"'
        self.inside = scope
        return f'<model name="{name}"{placed}>{text}{"".join(scope.text[k] for k in order)}{inner}</model>'

    def nested(self, scope: Scope, depth: int) -> str:
        """A nested model, hinged to the one around it by its first link."""
        before = len(self.motion.links)
        text = self.model(scope, depth + 1)
        root = self.motion.links[before]
        inside = root.name[len(scope.name) :]
        scope.places[inside], scope.holders[inside] = root.place, inside
        made = self.motion.links[before:]
        parent = str(self.rng.choice([x for x in scope.holders if "::" not in x]))
        at = len(root.above)
        self.joint(scope, parent, inside)
        more = root.above[at:]
        for link in made[1:]:
            link.above = [*more, *link.above]
        return text

    def text(self) -> str:
        inside = self.model(None, 0)
        return f'<?xml version="1.0"?><sdf version="{self.version}">{inside}</sdf>'


def sdf(seed: int) -> tuple[str, Motion]:
    """Return a random file and its motion."""
    file = File(np.random.default_rng(seed))
    return file.text(), file.motion
