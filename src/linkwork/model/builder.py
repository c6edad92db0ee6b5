"""Putting a model together, part by part, with every mistake named where it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints import Fixed, Joint
from linkwork.model.loops import Closure, Constraint, Coupling, End, Loop
from linkwork.model.model import Model
from linkwork.model.names import did_you_mean
from linkwork.model.parts import GROUND, WORLD, Body, Frame, PlacedJoint, way_down
from linkwork.spatial import Inertia, Pose, physical_problems

GRAVITY = (0.0, 0.0, -9.81)  # [m/s²]


class _Loop(NamedTuple):
    kind: Joint
    predecessor: str
    successor: str
    place: Pose
    successor_place: Pose


class _Coupling(NamedTuple):
    terms: dict[str, float] | None
    offset: float
    predecessor: str | None = None
    successor: str | None = None
    ratio: float = 0.0


class _Closure(NamedTuple):
    function: Callable[[Any], Any]
    joints: tuple[str, ...]


class ModelBuilder:
    """Collects links, joints and frames, in any order, and builds a frozen `Model` of them.

    Links that hang on others by fixed joints are merged into them, and stay as frames. Bodies are numbered depth first, in
    the order in which joints were added.
    """

    def __init__(self, name: str = "mechanism", *, gravity: Sequence[float] = GRAVITY) -> None:
        """`gravity` [m/s²] in the axes of the world."""
        self.name = name
        self.gravity = _numbers("gravity", gravity, 3)
        self.notes: list[str] = []  # what a reader found unusual: shown by the model's report
        self._links: dict[str, Inertia] = {}
        self._joints: dict[str, tuple[PlacedJoint, str, str]] = {}  # with parent and child; its indices come with `build`
        self._frames: dict[str, tuple[str, Pose]] = {}  # with the link that each is on
        self._constraints: dict[str, _Loop | _Coupling | _Closure] = {}

    def add_body(
        self,
        name: str,
        *,
        mass: float = 0.0,
        center: Sequence[float] = (0.0, 0.0, 0.0),
        inertia: Any = (0.0, 0.0, 0.0),
        check: bool = True,
    ) -> ModelBuilder:
        """A link with `mass` [kg], centre of mass [m], and moment of inertia about that centre [kg m²], all in its own frame.

        `inertia` is a (3, 3) matrix, or the three numbers of its diagonal. What cannot exist (a negative mass, a moment that
        no mass has) is refused, unless `check` is False: then it is noted in the model's report.
        """
        _check_name("body", name)
        self._check_free(name)
        what = f"body {name!r}"
        (mass_,) = _numbers(f"{what}: mass", [mass], 1)
        center_ = np.array(_numbers(f"{what}: center", center, 3))
        try:
            moment = np.asarray(inertia, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(f"{what}: inertia must be numbers, (3,) or (3, 3), not {inertia!r}") from None
        moment = np.diag(moment) if moment.shape == (3,) else moment
        if moment.shape != (3, 3):
            raise ModelError(f"{what}: inertia must have shape (3,) or (3, 3), not {moment.shape}")
        problems = physical_problems(mass_, moment)
        if problems and (check or not np.isfinite([mass_, *moment.ravel()]).all()):
            raise ModelError(f"{what}: {'; '.join(problems)}")
        self.notes += [f"{what}: {problem}" for problem in problems]
        self._links[name] = Inertia.rigid(mass_, center_, 0.5 * (moment + moment.T))
        return self

    def add_joint(
        self,
        name: str,
        kind: Joint,
        *,
        parent: str,
        child: str,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        place: Pose | None = None,
        lower: Any = None,
        upper: Any = None,
        max_velocity: Any = None,
        max_effort: Any = None,
        damping: Any = 0.0,
        friction: Any = 0.0,
        stiffness: Any = 0.0,
        rest: Any = 0.0,
        armature: Any = 0.0,
        independent: bool | None = None,
    ) -> ModelBuilder:
        """A joint that holds link `child` on link `parent` (or on "world"), both of which may be added later.

        Its frame in the parent is at `xyz` [m], turned by roll, pitch and yaw `rpy` [rad], or the pose `place`. The other
        arguments are one number, or one for each velocity (for each coordinate in `lower` and `upper`): see `PlacedJoint`.
        """
        _check_name("joint", name)
        what = f"joint {name!r}"
        if name in self._joints:
            raise ModelError(f"there is already a joint named {name!r}")
        if not isinstance(kind, Joint):
            raise ModelError(f"{what}: its kind must be one of linkwork.joints, such as Revolute((0, 0, 1)), not {kind!r}")
        if not kind.tree:
            raise ModelError(f"{what}: a {type(kind).__name__} can only close a loop: see add_loop")
        if child == WORLD:
            raise ModelError(f"{what}: the world cannot be the child of a joint")
        if child == parent:
            raise ModelError(f"{what}: it joins {child!r} to itself")
        if independent not in (None, True, False):
            raise ModelError(f"{what}: independent must be True, False or None, not {independent!r}")
        place = _placed(what, xyz, rpy, place)
        nq, nv = kind.nq, kind.nv

        def per(word: str, value: Any, n: int, *, default: float = 0.0, low: float = -np.inf) -> tuple[float, ...]:
            if value is None:
                return (default,) * n
            numbers = _numbers(f"{what}: {word}", value if np.ndim(value) else [value] * n, n, finite=False)
            if any(not x >= low for x in numbers):
                raise ModelError(f"{what}: {word} must not be {'NaN' if low < 0 else 'negative'}, but is {value}")
            return numbers

        joint = PlacedJoint(
            name,
            kind,
            GROUND,
            GROUND,
            place,
            lower=per("lower", lower, nq, default=-np.inf),
            upper=per("upper", upper, nq, default=np.inf),
            max_velocity=per("max_velocity", max_velocity, nv, default=np.inf, low=0.0),
            max_effort=per("max_effort", max_effort, nv, default=np.inf, low=0.0),
            damping=per("damping", damping, nv, low=0.0),
            friction=per("friction", friction, nv, low=0.0),
            stiffness=per("stiffness", stiffness, nv, low=0.0),
            rest=per("rest", rest, nv),
            armature=per("armature", armature, nv, low=0.0),
            independent=independent,
        )
        for word in ("damping", "friction", "stiffness", "rest", "armature"):
            if not np.isfinite(getattr(joint, word)).all():
                raise ModelError(f"{what}: {word} must be finite, but is {getattr(joint, word)}")
        if any(a > b for a, b in zip(joint.lower, joint.upper)):
            raise ModelError(f"{what}: its lower limit {lower} is above its upper limit {upper}")
        if any(joint.stiffness) and kind.springs == "none":
            raise ModelError(f"{what}: a {type(kind).__name__} joint can have no stiffness: such a spring has no potential")
        if kind.springs == "equal" and (len(set(joint.stiffness)) > 1 or (any(joint.stiffness) and any(joint.rest))):
            raise ModelError(
                f"{what}: the springs of a {type(kind).__name__} joint must be equal and at rest in the neutral pose: "
                "others have no potential"
            )
        self._joints[name] = (joint, parent, child)
        return self

    def add_frame(
        self,
        name: str,
        *,
        body: str = WORLD,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        place: Pose | None = None,
    ) -> ModelBuilder:
        """A named place on a link or in the world: at `xyz` [m] turned by `rpy` [rad], or at the pose `place`."""
        _check_name("frame", name)
        self._check_free(name)
        what = f"frame {name!r}"
        self._frames[name] = (body, _placed(what, xyz, rpy, place))
        return self

    def add_loop(
        self,
        name: str,
        kind: Joint,
        *,
        predecessor: str,
        successor: str,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        place: Pose | None = None,
        successor_xyz: Sequence[float] = (0.0, 0.0, 0.0),
        successor_rpy: Sequence[float] = (0.0, 0.0, 0.0),
        successor_place: Pose | None = None,
    ) -> ModelBuilder:
        """A joint that closes a loop: it holds link `successor` on link `predecessor`, both of which hang on joints already.

        Its frame is at `xyz` [m] turned by `rpy` [rad], or at the pose `place`, in the predecessor, and likewise in the
        successor. With neutral coordinates both frames coincide.
        """
        self._check_constraint("loop", name)
        if not isinstance(kind, Joint):
            raise ModelError(f"loop {name!r}: its kind must be one of linkwork.joints, not {kind!r}")
        try:
            kind.closure()
        except NotImplementedError as why:
            raise ModelError(f"loop {name!r}: {why}") from None
        first = _placed(f"loop {name!r}", xyz, rpy, place)
        second = _placed(f"loop {name!r}, successor", successor_xyz, successor_rpy, successor_place)
        self._constraints[name] = _Loop(kind, predecessor, successor, first, second)
        return self

    def add_coupling(
        self,
        name: str,
        terms: Mapping[str, float] | None = None,
        *,
        offset: float = 0.0,
        predecessor: str | None = None,
        successor: str | None = None,
        ratio: float | None = None,
    ) -> ModelBuilder:
        """Σ coefficient * coordinate = offset over joints of one coordinate each: gears, belts, mimics, differentials.

        `terms` gives the coefficients by joint. Or, between two links: `ratio` times the sum of the joints from their common
        ancestor to `predecessor`, less that to `successor`.
        """
        self._check_constraint("coupling", name)
        between = (predecessor, successor, ratio)
        if any(x is not None for x in between) if terms is not None else any(x is None for x in between):
            raise ModelError(f"coupling {name!r}: give terms, or predecessor, successor and ratio")
        if terms is not None and not isinstance(terms, Mapping):
            raise ModelError(f"coupling {name!r}: terms must be coefficients by joint: {{'a': 1, 'b': -6}}, not {terms!r}")
        (offset_,) = _numbers(f"coupling {name!r}: offset", [offset], 1)
        if terms is not None:
            given = {joint: _numbers(f"coupling {name!r}: {joint}", [c], 1)[0] for joint, c in terms.items()}
            if not any(given.values()):
                raise ModelError(f"coupling {name!r} couples nothing: all its coefficients are zero")
            self._constraints[name] = _Coupling(given, offset_)
        else:
            (ratio_,) = _numbers(f"coupling {name!r}: ratio", [ratio], 1)
            if ratio_ == 0.0:
                raise ModelError(f"coupling {name!r}: its ratio is zero, so that {successor!r} could not move")
            self._constraints[name] = _Coupling(None, offset_, str(predecessor), str(successor), ratio_)
        return self

    def add_closure(self, name: str, function: Callable[[Any], Any], *, joints: Sequence[str]) -> ModelBuilder:
        """φ(q) = 0: `function` takes the coordinates of `joints`, one after the other, and gives one or several numbers.

        It must work on symbols, as any function that is traced.
        """
        self._check_constraint("closure", name)
        if not callable(function):
            raise ModelError(f"closure {name!r}: its function must be callable, not {function!r}")
        names = (joints,) if isinstance(joints, str) else tuple(joints)
        if not names or len(set(names)) < len(names):
            raise ModelError(f"closure {name!r}: joints must be names of different joints, at least one, not {joints!r}")
        self._constraints[name] = _Closure(function, names)
        return self

    def _check_constraint(self, what: str, name: Any) -> None:
        _check_name(what, name)
        if name in self._constraints:
            raise ModelError(f"there is already a loop, coupling or closure named {name!r}")

    def _constraint(
        self, name: str, given: _Loop | _Coupling | _Closure, found: dict[str, tuple[int, Pose]], joints: list[PlacedJoint]
    ) -> Constraint:
        """A constraint of what was given, on the bodies and joints of the model."""
        places = {joint.name: k for k, joint in enumerate(joints)}

        def joint_of(joint: str) -> int:
            if joint not in places:
                fixed = " (it is fixed)" if joint in self._joints else did_you_mean(joint, places)
                raise ModelError(f"{name!r} names joint {joint!r}, which is none that moves{fixed}")
            return places[joint]

        def link_of(link: str) -> tuple[int, Pose]:
            if link not in found:
                raise ModelError(f"{name!r} names link {link!r}{self._no_link(link)}")
            return found[link]

        if isinstance(given, _Closure):
            of = tuple(joint_of(j) for j in given.joints)
            _check_function(name, given.function, np.concatenate([joints[k].kind.neutral() for k in of]))
            return Closure(name, of, given.function)
        if isinstance(given, _Loop):
            ends = []
            for link, place in ((given.predecessor, given.place), (given.successor, given.successor_place)):
                body, there = link_of(link)
                ends.append(End(body, there.then(place)))
            if ends[0].body == ends[1].body:
                raise ModelError(f"loop {name!r} joins {given.predecessor!r} to {given.successor!r}, which are one body")
            return Loop(name, given.kind, ends[0], ends[1])
        if given.terms is not None:
            terms = {joint_of(joint): c for joint, c in given.terms.items() if c}
        else:
            assert given.predecessor is not None and given.successor is not None
            ways = [way_down(link_of(link)[0], joints) for link in (given.predecessor, given.successor)]
            common = set(ways[0]) & set(ways[1])
            terms = {k: given.ratio for k in ways[0] if k not in common}
            terms |= {k: -1.0 for k in ways[1] if k not in common}
            if not terms:
                raise ModelError(f"coupling {name!r}: no joint lies between {given.predecessor!r} and {given.successor!r}")
        for k in terms:
            if joints[k].nv != 1 or joints[k].nq != 1:
                raise ModelError(f"coupling {name!r}: joint {joints[k].name!r} has {joints[k].nv} velocities, not one")
        return Coupling(name, tuple((k, 0, c) for k, c in terms.items()), given.offset)

    def build(self) -> Model:
        """The frozen model of what was added."""
        below = self._children()
        parts: list[tuple[Inertia, list[str]]] = []  # of each body: the sum of its links' inertias, and their names
        joints: list[PlacedJoint] = []
        frames: list[Frame] = []
        found: dict[str, tuple[int, Pose]] = {WORLD: (GROUND, Pose.identity())}  # link -> its body, and its place there
        waiting = list(reversed(below[WORLD]))  # a list, not recursion: chains may be long
        while waiting:
            joint, parent, child = self._joints[waiting.pop()]
            body, place = found[parent]
            place = place.then(joint.place)
            if isinstance(joint.kind, Fixed):
                found[child] = (body, place)
                frames.append(Frame(child, body, place, joint.name))
                if body != GROUND:
                    inertia, links = parts[body]
                    parts[body] = (inertia + place.congruence(self._links[child]), links)
                    links.append(child)
            else:
                index = len(parts)
                found[child] = (index, Pose.identity())
                frames.append(Frame(child, index))
                parts.append((self._links[child], [child]))
                joints.append(replace(joint, parent=body, child=index, place=place))
            waiting += reversed(below[child])
        for name in self._links:
            if name not in found:
                raise ModelError(self._lost(name))
        for name, (on, place) in self._frames.items():
            if on not in found:
                raise ModelError(f"frame {name!r} is on {on!r}{self._no_link(on)}")
            body, there = found[on]
            frames.append(Frame(name, body, there.then(place)))
        bodies = (Body(links[0], k, inertia.constant(), tuple(links)) for k, (inertia, links) in enumerate(parts))
        constraints = tuple(self._constraint(name, given, found, joints) for name, given in self._constraints.items())
        model = Model(
            self.name, tuple(bodies), tuple(_numbered(joints)), tuple(frames), self.gravity, tuple(self.notes), constraints
        )
        for cluster in model.clusters:  # loops that cannot close are told now
            joint = model.joints[cluster.bodies[0]]
            if not cluster.constraints and joint.independent is False:
                raise ModelError(f"joint {joint.name!r} is in no loop: nothing but itself decides how it moves")
        return model

    def _children(self) -> dict[str, list[str]]:
        """The joints that hang on each link."""
        below: dict[str, list[str]] = {WORLD: [], **{name: [] for name in self._links}}
        held: dict[str, str] = {}
        for name, (_, parent, child) in self._joints.items():
            for role, link in (("parent", parent), ("child", child)):
                if link not in below:
                    raise ModelError(f"joint {name!r}: its {role} is {link!r}{self._no_link(link)}")
            if child in held:
                raise ModelError(f"link {child!r} is the child of two joints, {held[child]!r} and {name!r}: that closes a loop")
            held[child] = name
            below[parent].append(name)
        return below

    def _lost(self, link: str) -> str:
        """Why a link cannot be reached from the world."""
        by_child = {child: (name, parent) for name, (_, parent, child) in self._joints.items()}
        way = [link]
        while way[-1] in by_child:
            parent = by_child[way[-1]][1]
            if parent in way:
                circle = ", ".join(map(repr, way[way.index(parent) :]))
                return f"links {circle} hang on one another in a circle, and on nothing else"
            way.append(parent)
        return f"link {way[-1]!r} hangs on nothing: add a joint whose child it is, with parent='world' or another link"

    def _check_free(self, name: str) -> None:
        if name in self._links or name in self._frames or name == WORLD:
            raise ModelError(f"there is already a body or frame named {name!r}")

    def _no_link(self, name: str) -> str:
        return f", and there is no link of that name{did_you_mean(name, self._links)}"


def _numbered(joints: Iterable[PlacedJoint]) -> Iterable[PlacedJoint]:
    q = v = 0
    for joint in joints:
        yield replace(joint, q_start=q, v_start=v)
        q, v = q + joint.nq, v + joint.nv


def _check_function(name: str, function: Callable[[Any], Any], q: np.ndarray) -> None:
    """That a closure's function takes coordinates, and gives one number or several."""
    try:
        value = np.asarray(function(q), dtype=float)
    except Exception as error:
        raise ModelError(f"closure {name!r}: its function fails at {q.tolist()}: {type(error).__name__}: {error}") from error
    if value.ndim > 1 or value.size == 0:
        raise ModelError(f"closure {name!r}: its function must give one number, or several in a row, not shape {value.shape}")


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ModelError(f"a {what}'s name is a text that is not empty, not {name!r}")


def _numbers(what: str, values: Any, n: int, *, finite: bool = True) -> tuple[float, ...]:
    try:
        numbers = tuple(float(x) for x in values)
    except (TypeError, ValueError):
        raise ModelError(f"{what} must be {n} numbers, not {values!r}") from None
    if len(numbers) != n:
        raise ModelError(f"{what} must be {n} numbers, not {len(numbers)}: {values!r}")
    if finite and not np.isfinite(numbers).all():
        raise ModelError(f"{what} must be finite, but is {values!r}")
    return numbers


def _placed(what: str, xyz: Any, rpy: Any, place: Pose | None) -> Pose:
    """The pose at `xyz` turned by `rpy`, or `place`, if that is one."""
    given = (*_numbers(f"{what}: xyz", xyz, 3), *_numbers(f"{what}: rpy", rpy, 3))
    if place is None:
        return Pose.placed(given[:3], given[3:])
    if not isinstance(place, Pose):
        raise ModelError(f"{what}: place must be a linkwork.spatial.Pose, not {place!r}")
    if any(given):
        raise ModelError(f"{what}: give its place, or xyz and rpy, not both")
    R, p = np.asarray(place.R, dtype=float), np.asarray(place.p, dtype=float)
    if not np.isfinite([*R.ravel(), *p]).all():
        raise ModelError(f"{what}: place must be finite")
    if np.abs(R @ R.T - np.eye(3)).max() > 1e-9 or np.linalg.det(R) < 0:
        raise ModelError(f"{what}: the matrix R of its place must be a rotation")
    return place
