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
class Step:
    """A joint on the way to a link: one screw in the world, or several velocities about a place."""

    name: str
    screw: Array  # (6,), of a joint with one coordinate
    place: Array | None = None  # of a ball's frame, or of a free link, in the world
    free: bool = False
    damping: float = 0.0
    stiffness: float = 0.0
    rest: float = 0.0

    @property
    def size(self) -> int:
        return 1 if self.place is None else 6 if self.free else 3


@dataclass
class Link:
    name: str
    place: Array
    mass: float
    center: Array  # in the world
    moment: Array  # about it, along the world's axes
    above: list[Step] = field(default_factory=list)  # that move it


@dataclass
class Motion:
    """What moves, and how."""

    links: list[Link] = field(default_factory=list)
    frames: dict[str, tuple[str, Array]] = field(default_factory=dict)  # the link that each is fixed to
    gravity: Array = field(default_factory=lambda: np.array([0.0, 0.0, -9.81]))
    couplings: list[tuple[str, str, float, float]] = field(default_factory=list)
    limits: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)

    def steps(self) -> dict[str, Step]:
        """Return all joints by name."""
        return {step.name: step for link in self.links for step in link.above}

    def poses(self, q: dict[str, Array]) -> dict[str, Array]:
        """Return the poses of all links and frames."""
        moved = {link.name: _moved(link, q) for link in self.links} | {"world": np.eye(4)}
        poses = {link.name: moved[link.name] @ link.place for link in self.links}
        return poses | {name: moved[link] @ place for name, (link, place) in self.frames.items()}

    def dynamics(
        self, q: dict[str, Array], v: dict[str, Array], a: dict[str, Array]
    ) -> tuple[Array, Array, dict[str, int]]:
        """Return the mass matrix, the forces that accelerations need, and where each joint has its own.

        Motions are in the axes of the world at its origin: of each joint the columns S of its subspace, which
        moves with one of the two bodies, so that its rate is the product with the velocity before it.
        """
        steps = self.steps()
        starts = dict(zip(steps, np.cumsum([0, *(step.size for step in steps.values())]).tolist()))
        count = sum(step.size for step in steps.values())
        M = np.zeros((count, count))
        tau = np.zeros(count)
        for step in steps.values():
            if step.place is None:
                stretch = q[step.name] - step.rest
                tau[starts[step.name]] = (step.damping * v[step.name] + step.stiffness * stretch).item()
        for link in self.links:
            here = np.eye(4)
            J = np.zeros((6, count))
            V = np.zeros(6)
            A = np.array([0.0, 0.0, 0.0, *-self.gravity])
            for step in link.above:
                S, here = _subspace(step, here, q[step.name])
                columns = slice(starts[step.name], starts[step.name] + step.size)
                J[:, columns] = S
                own = S @ v[step.name]
                A = A + S @ a[step.name] + _cross(V, own)
                V = V + own
            center = here[:3, :3] @ link.center + here[:3, 3]
            moment = here[:3, :3] @ link.moment @ here[:3, :3].T
            w = V[:3]
            linear = A[3:] + np.cross(A[:3], center) + np.cross(w, V[3:] + np.cross(w, center))
            force = link.mass * linear
            torque = moment @ A[:3] + np.cross(w, moment @ w)
            at_center = J[3:] + np.cross(J[:3].T, center).T
            M += J[:3].T @ moment @ J[:3] + link.mass * at_center.T @ at_center
            tau += J[:3].T @ torque + at_center.T @ force
        return M, tau, starts


def _cross(V: Array, W: Array) -> Array:
    """The rate of a motion W that moves with V."""
    return np.concatenate([np.cross(V[:3], W[:3]), np.cross(V[:3], W[3:]) + np.cross(V[3:], W[:3])])


def _subspace(step: Step, here: Array, q: Array) -> tuple[Array, Array]:
    """Return the columns of a joint in the world, and the motion of what it carries."""
    if step.place is None:
        R = here[:3, :3]
        w = R @ step.screw[:3]
        S = np.concatenate([w, R @ step.screw[3:] + np.cross(here[:3, 3], w)])
        return S[:, None], here @ _exponential(step.screw * q[0])
    if step.free:
        frame = np.eye(4)
        frame[:3, :3] = rotation(q[3:])
        frame[:3, 3] = q[:3]
    else:
        turned = np.eye(4)
        turned[:3, :3] = rotation(q)
        frame = here @ step.place @ turned
    R = frame[:3, :3]
    turning = np.concatenate([R, np.cross(frame[:3, 3], R.T).T])
    S = np.hstack([turning, np.concatenate([np.zeros((3, 3)), R])]) if step.free else turning
    return S, frame @ np.linalg.inv(step.place)


def rotation(quat: Array) -> Array:
    """The rotation of x y z w."""
    v, w = quat[:3], quat[3]
    K = np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
    return np.eye(3) + 2.0 * w * K + 2.0 * K @ K


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


def _moved(link: Link, q: dict[str, Array]) -> Array:
    T = np.eye(4)
    for step in link.above:
        T = _subspace(step, T, q[step.name])[1]
    return T


@dataclass
class Scope:
    """A model or world that is written: where its frame is, and the names in it with their places."""

    name: str  # with those around it, as the reader names it: "outer::inner::"
    place: Array
    own: str = "__model__"  # the name of its frame in it
    places: dict[str, Array] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)  # of frames and links: the link that they move with
    text: list[str] = field(default_factory=list)
    leaders: list[str] = field(default_factory=list)  # joints of one coordinate that others may follow


VERSIONS = ("1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10", "1.11", "1.12")
JOINTS = ("revolute", "continuous", "prismatic", "fixed", "universal", "revolute2", "ball", "screw")


class File:
    """One file, in one version of SDF, and those that it includes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.count, self.motion = rng, 0, Motion()
        self.use(str(rng.choice(VERSIONS)))
        self.links: dict[str, Link] = {}
        self.files: dict[str, str] = {}

    def use(self, version: str) -> None:
        self.version = version
        self.minor = int(version.split(".")[1])

    def new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def some(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pose(self, scope: Scope, place: Array, usual: Array | None, tag: str = "pose") -> str:
        """An element with a place, relative to the usual frame of its kind or any other of the scope."""
        rng = self.rng
        attributes = ""
        usual = scope.place if usual is None else usual
        if self.minor >= 7 and tag == "pose" and scope.places and rng.random() < 0.6:
            name = str(rng.choice([*scope.places, scope.own]))
            usual = scope.place if name == scope.own else scope.places[name]
            attributes += f' relative_to="{name}"'
        T = np.linalg.inv(usual) @ place
        way = rng.integers(0, 3)
        if self.minor >= 9 and way == 1:
            sign = rng.choice([-1.0, 1.0])
            quat = sign * quaternion(T[:3, :3])
            return f'<pose{attributes} rotation_format="quat_xyzw">{words([*T[:3, 3], *quat])}</pose>'
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
        if self.some(0.1):  # the defaults of SDF
            inertial, mass, own, inner = "", 1.0, np.eye(3), np.eye(4)
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
        to = str(self.rng.choice([*scope.holders, scope.own]))
        if to not in scope.holders and scope.own != "world":
            to = next(iter(scope.holders))
        if to == "world":
            attribute = "" if self.some(0.5) else ' attached_to="world"'
            usual, scope.holders[name] = scope.place, "world"
        else:
            attribute = f' attached_to="{to}"'
            usual, scope.holders[name] = scope.places[to], scope.holders[to]
        scope.text.append(f'<frame name="{name}"{attribute}>{self.pose(scope, place, usual)}</frame>')
        scope.places[name] = place
        held = scope.holders[name]
        self.motion.frames[scope.name + name] = ("world" if held == "world" else scope.name + held, place)

    def acting(self, step: str, kind: str) -> tuple[str, dict[str, float]]:
        """Limits and passive elements of an axis."""
        rng = self.rng
        text = ""
        numbers: dict[str, float] = {}
        limits = [-np.inf, np.inf, np.inf, np.inf]
        tags = ("lower", "upper", "effort", "velocity")
        inside = ""
        for k, value in enumerate((-rng.uniform(0, 2), rng.uniform(0, 2), *rng.uniform(1, 9, size=2))):
            if self.some(0.3):
                inside += f"<{tags[k]}>{float(value)!r}</{tags[k]}>"
                limits[k] = float(value)
        text += f"<limit>{inside}</limit>" if inside else ""
        if kind == "continuous":
            limits[:2] = [-np.inf, np.inf]
        inside = ""
        for tag, word in (
            ("damping", "damping"),
            ("spring_stiffness", "stiffness"),
            ("spring_reference", "rest"),
        ):
            if self.some(0.3):
                numbers[word] = float(rng.uniform(0, 2))
                inside += f"<{tag}>{numbers[word]!r}</{tag}>"
        text += f"<dynamics>{inside}</dynamics>" if inside else ""
        self.motion.limits[step] = (limits[0], limits[1], limits[2], limits[3])
        return text, numbers

    def joint(
        self, scope: Scope, parent: str, child: str, *, moves: bool = True, backwards: bool = False
    ) -> None:
        """A joint between two names of a scope, of which the first may be the world.

        `moves`: it is not between links of a static model. `backwards`: the second is nearer to the world.
        """
        rng = self.rng
        name = self.new("joint")
        place = random_place(self.rng)
        kind = str(rng.choice(JOINTS))
        if self.minor < 9 and kind == "continuous":
            kind = "revolute"
        count = {"fixed": 0, "ball": 0, "universal": 2, "revolute2": 2}.get(kind, 1)
        axes = rng.normal(size=(2, 3))
        axes[1] -= axes[0] * (axes[0] @ axes[1]) / (axes[0] @ axes[0])
        pose = self.pose(scope, place, scope.places[child])
        pitch = float(rng.uniform(-1, 1))
        text = ""
        steps: list[Step] = []
        for k in range(count):
            attribute = ""
            more = ""
            turn = place[:3, :3]
            if self.minor >= 7 and rng.random() < 0.5:
                named = str(rng.choice([*scope.places, scope.own]))
                turn = (scope.place if named == scope.own else scope.places[named])[:3, :3]
                attribute = f' expressed_in="{named}"'
            elif self.minor in (5, 6) and rng.random() < 0.5:
                more = "<use_parent_model_frame>true</use_parent_model_frame>"
                turn = scope.place[:3, :3]
            elif self.minor < 5:
                turn = scope.place[:3, :3]
            tag = "axis" if k == 0 else "axis2"
            unit = axes[k] / np.linalg.norm(axes[k])
            linear = unit if kind == "prismatic" else np.cross(place[:3, 3], unit)
            angular = 0.0 * unit if kind == "prismatic" else unit
            if kind == "screw":
                linear = linear + pitch / (2.0 * np.pi) * unit
            label = f"{scope.name}{name}" + (f"_{k + 1}" if count > 1 else "")
            acting, numbers = self.acting(label, kind)
            steps.append(Step(label, np.concatenate([angular, linear]), **numbers))
            mimic = ""
            one = kind in ("revolute", "continuous", "prismatic")
            if one and moves and self.minor >= 11 and scope.leaders and self.some(0.6):
                leader = str(rng.choice(scope.leaders))
                factor, offset, reference = (float(x) for x in rng.normal(size=3))
                inside = f"<multiplier>{factor!r}</multiplier>"
                if self.some(0.7):
                    inside += f"<offset>{offset!r}</offset><reference>{reference!r}</reference>"
                else:
                    offset = reference = 0.0
                mimic = f'<mimic joint="{leader}">{inside}</mimic>'
                bias = offset - factor * reference
                self.motion.couplings.append((label, scope.name + leader, factor, bias))
            if one and moves:
                scope.leaders.append(name)
            xyz = words(turn.T @ axes[k] * rng.uniform(0.5, 2.0))
            text += f"<{tag}><xyz{attribute}>{xyz}</xyz>{more}{acting}{mimic}</{tag}>"
        if kind == "screw" and self.some(0.5):
            text += f"<screw_thread_pitch>{pitch!r}</screw_thread_pitch>"
        elif kind == "screw":
            text += f"<thread_pitch>{-2.0 * np.pi / pitch!r}</thread_pitch>"
        if kind == "ball":
            steps = [Step(scope.name + name, np.zeros(6), place)]
        ends = f"<parent>{parent}</parent><child>{child}</child>"
        scope.text.append(f'<joint name="{name}" type="{kind}">{pose}{ends}{text}</joint>')
        if self.minor >= 7:
            scope.places[name], scope.holders[name] = place, scope.holders[child]
        if not moves:
            return
        if backwards:
            parent, child = child, parent
            for step in steps:
                step.screw = -step.screw
            steps = steps[::-1]
        above = [] if parent == "world" else self._of(scope, parent)
        moved = self.links[scope.name + scope.holders[child]]
        moved.above = [*above, *steps, *moved.above]

    def _of(self, scope: Scope, name: str) -> list[Step]:
        held = scope.holders[name]
        return [] if held == "world" else self.links[scope.name + held].above

    def model(self, outer: Scope | None, depth: int, base: str) -> str:
        """A model, and how its first link is held: "hinged" to the world, "free", "static", or "" by others."""
        rng = self.rng
        name = self.new("model")
        prefix = "" if outer is None else f"{outer.name}{name}::"
        version = self.version
        included = outer is not None and depth < 3 and self.some(0.25)
        if included:
            self.use(str(rng.choice(VERSIONS)))
        scope = Scope(prefix, random_place(rng))
        moves = not base.startswith("static")
        made = [self.link(scope)]
        if base == "hinged":
            self.joint(scope, "world", made[0])
        elif base == "free":
            link = self.links[prefix + made[0]]
            link.above = [Step(f"{prefix}{made[0]}_root_joint", np.zeros(6), link.place, free=True)]
        for _ in range(int(rng.integers(1, 4))):
            # A joint of the version 1.7 may name frames and joints.
            parent = str(rng.choice([x for x in scope.holders if self.minor >= 7 or x in made]))
            made.append(self.link(scope))
            while self.minor >= 7 and rng.random() < 0.5:
                self.frame(scope)
            child = made[-1]
            own = [x for x in scope.holders if scope.holders[x] == child and x.startswith(("frame", "link"))]
            end = str(rng.choice(own)) if self.minor >= 7 else child
            if base == "hinged" and self.some(0.2):
                self.joint(scope, end, parent, backwards=True)
            else:
                self.joint(scope, parent, end, moves=moves)
        inner = ""
        if self.minor >= 8 and depth < 2 and rng.random() < 0.6:
            inner = self.nested(scope, depth, moves=moves)
        order = list(range(1, len(scope.text)))
        rng.shuffle(order)
        canonical = ""
        if self.minor >= 7 and self.some(0.3):
            canonical = f' canonical_link="{rng.choice(made)}"'
        inside = "".join(scope.text[k] for k in (0, *order)) + inner
        static = "<static>true</static>" if base == "static" else ""
        placed = ""
        frame = str(rng.choice([*scope.places]))
        if self.minor >= 8 and rng.random() < 0.4:  # the pose is that of a frame in it
            placed = frame
        self.inside = scope
        if not included:
            text = self.placed(outer, scope, placed)
            attribute = f' placement_frame="{placed}"' if placed else ""
            return f'<model name="{name}"{attribute}{canonical}>{text}{static}{inside}</model>'
        other = self.version
        self.use(version)
        if self.minor < 8 or not self.some(0.5):
            placed = ""
        own = self.new("file")
        ignored = f"<pose>{words(rng.normal(size=6))}</pose>" if self.some(0.5) else ""
        self.files[f"{own}.sdf"] = (
            f'<sdf version="{other}"><model name="{own}"{canonical}>{ignored}{inside}</model></sdf>'
        )
        uri = f"<uri>{rng.choice(['', 'file://', 'model://'])}{own}.sdf</uri><name>{name}</name>"
        element = f"<placement_frame>{placed}</placement_frame>" if placed else ""
        return f"<include>{uri}{self.placed(outer, scope, placed)}{static}{element}</include>"

    def placed(self, outer: Scope | None, scope: Scope, frame: str) -> str:
        """The pose of a model, or that of a frame in it."""
        place = scope.places[frame] if frame else scope.place
        if outer is None:
            return self.pose(Scope("", np.eye(4)), place, np.eye(4), "model")
        return self.pose(outer, place, None)

    def nested(self, scope: Scope, depth: int, *, moves: bool = True) -> str:
        """A nested model, hinged to the one around it by its first link."""
        before = len(self.motion.links)
        text = self.model(scope, depth + 1, "" if moves else "static inside")
        root = self.motion.links[before]
        inside = root.name[len(scope.name) :]
        scope.places[inside], scope.holders[inside] = root.place, inside
        made = self.motion.links[before:]
        parent = str(
            self.rng.choice([x for x in (*scope.holders, scope.own) if "::" not in x and x != "__model__"])
        )
        if not moves:
            for link in made:
                link.above = []
            return text
        self.joint(scope, parent, inside)
        for link in made[1:]:
            link.above = [*root.above, *link.above]
        return text

    def world(self) -> str:
        """Several models in a world."""
        rng = self.rng
        scope = Scope("", np.eye(4), "world")
        text = ""
        if self.some(0.5):
            self.motion.gravity = rng.normal(size=3)
            tag = f"<gravity>{words(self.motion.gravity)}</gravity>"
            text += tag if self.minor >= 6 else f'<physics type="ode">{tag}</physics>'
        for _ in range(int(rng.integers(1, 4))):
            while self.minor >= 7 and scope.places and self.some(0.3):
                self.frame(scope)
            if self.minor >= 8 and self.some(0.3):
                text += self.nested(scope, 1)
                continue
            text += self.model(scope, 1, str(rng.choice(["free", "hinged", "static"])))
        return f'<world name="w">{text}{"".join(scope.text)}</world>'

    def text(self) -> str:
        inside = (
            self.world() if self.some(0.5) else self.model(None, 0, "hinged" if self.some(0.7) else "free")
        )
        return f'<?xml version="1.0"?><sdf version="{self.version}">{inside}</sdf>'


def sdf(seed: int) -> tuple[dict[str, str], Motion]:
    """Return random files, of which "main.sdf" includes the others, and their motion."""
    file = File(np.random.default_rng(seed))
    text = file.text()
    return {"main.sdf": text, **file.files}, file.motion
