"""Building a model part by part, with every mistake named where it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.body import FlexibleBody
from linkwork.joints import Fixed, Joint
from linkwork.model.attached_builder import AttachedBuilder
from linkwork.model.flexible_links import FlexibleLinks, massless, modal_joint
from linkwork.model.loop_builder import LoopBuilder
from linkwork.model.loop_joints import LoopJoint, checked_tolerance, start_coordinates
from linkwork.model.model import Model
from linkwork.parts import GROUND, WORLD, Body, Frame, PlacedJoint
from linkwork.parts.checks import check_name, numbers, placed
from linkwork.parts.limits import Limits
from linkwork.parts.names import some
from linkwork.spatial import Inertia, Pose, physical_problems
from linkwork.spatial.constants import put
from linkwork.topology.analysis import clusters_of, held_clusters, kept_loops
from linkwork.topology.closing_notes import closing_notes
from linkwork.topology.clusters import Ancestors

GRAVITY = (0.0, 0.0, -9.81)  # [m/s²]


class ModelBuilder(LoopBuilder, AttachedBuilder):
    """Collects links, joints and frames, in any order, and builds a frozen `Model` of them.

    Links that hang on others by fixed joints are merged into them, and stay as frames. Bodies are numbered depth first, in
    the order in which joints were added.
    """

    def __init__(self, name: str = "mechanism", *, gravity: Sequence[float] = GRAVITY) -> None:
        """`gravity` [m/s²] in the axes of the world."""
        LoopBuilder.__init__(self)
        AttachedBuilder.__init__(self)
        self.name = name
        self.gravity = numbers("gravity", gravity, 3)
        self.notes: list[str] = []  # what a reader found unusual: shown by the model's report
        self._frames: dict[str, tuple[str, Pose]] = {}  # with the link that each is on
        self._flexible: dict[str, FlexibleBody] = {}

    def add_body(
        self,
        name: str | None = None,
        *,
        mass: float = 0.0,
        center: Sequence[float] = (0.0, 0.0, 0.0),
        inertia: Any = (0.0, 0.0, 0.0),
        check: bool | None = True,
        flexible: FlexibleBody | None = None,
    ) -> ModelBuilder:
        """A link with `mass` [kg], centre of mass [m], and moment of inertia about that centre [kg m²], all in its own frame.

        `inertia` is a (3, 3) matrix, or the three numbers of its diagonal. What cannot exist (a negative mass, a moment that
        no mass has) is refused, unless `check` is False: then it is noted in the model's report. None: it was checked before.

        Or a `flexible` one, of `linkwork.flexible`, which has mass and name already. What is attached to it, joints, loops and
        frames, moves with its modes; its modal coordinates are those of a joint "name.modes".
        """
        if flexible is not None:
            return self._add_flexible(name, flexible, (mass, *center, *np.ravel(inertia)))
        check_name("body", name)
        assert name is not None
        self._check_free(name)
        what = f"body {name!r}"
        (mass_,) = numbers(f"{what}: mass", [mass], 1)
        center_ = np.array(numbers(f"{what}: center", center, 3))
        try:
            moment = np.asarray(inertia, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(f"{what}: inertia must be numbers, (3,) or (3, 3), not {inertia!r}") from None
        moment = np.diag(moment) if moment.shape == (3,) else moment
        if moment.shape != (3, 3):
            raise ModelError(f"{what}: inertia must have shape (3,) or (3, 3), not {moment.shape}")
        problems = [] if check is None else physical_problems(mass_, moment)
        if problems and (check or not np.isfinite([mass_, *moment.ravel()]).all()):
            raise ModelError(f"{what}: {'; '.join(problems)}")
        self.notes += [f"{what}: {problem}" for problem in problems]
        self._links[name] = Inertia.rigid(mass_, center_, 0.5 * (moment + moment.T))
        return self

    def _add_flexible(self, name: str | None, flexible: FlexibleBody, rigid: Sequence[float]) -> ModelBuilder:
        if not isinstance(flexible, FlexibleBody):
            raise ModelError(f"flexible must be a body of linkwork.flexible, such as beam(...), not {flexible!r}")
        name = flexible.name if name is None else name
        if any(rigid):
            raise ModelError(f"body {name!r}: a flexible body has its own mass: give none, and fix what it carries to it")
        self.add_body(name, mass=flexible.mass, center=flexible.center.tolist(), inertia=flexible.inertia)
        self._flexible[name] = flexible
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
        independent: bool | Sequence[bool] | None = None,
    ) -> ModelBuilder:
        """A joint that connects link `child` to link `parent` (or to "world"), both of which may be added later.

        Its frame in the parent is at `xyz` [m], turned by roll, pitch and yaw `rpy` [rad], or the pose `place`. The other
        arguments are one number, or one for each velocity (for each coordinate in `lower` and `upper`): see `PlacedJoint`.
        """
        check_name("joint", name)
        what = f"joint {name!r}"
        if name in self._joints:
            raise ModelError(f"there is already a joint named {name!r}")
        if not isinstance(kind, Joint):
            raise ModelError(f"{what}: its kind must be one of linkwork.joints, such as Revolute((0, 0, 1)), not {kind!r}")
        if not kind.tree:
            raise ModelError(f"{what}: a {type(kind).__name__} can only be a loop joint: see add_loop")
        if child == WORLD:
            raise ModelError(f"{what}: the world cannot be the child of a joint")
        if child == parent:
            raise ModelError(f"{what}: it joins {child!r} to itself")
        several = isinstance(independent, (tuple, list)) and len(independent) == kind.nv
        if not all(x in (True, False) for x in independent) if several else independent not in (None, True, False):  # type: ignore[union-attr]
            each = f", or {kind.nv} of True and False" if kind.nv > 1 else ""
            raise ModelError(f"{what}: independent must be True, False or None{each}, not {independent!r}")
        place = placed(what, xyz, rpy, place)
        nq, nv = kind.nq, kind.nv

        def per(word: str, value: Any, n: int, *, default: float = 0.0, low: float = -np.inf) -> tuple[float, ...]:
            if value is None:
                return (default,) * n
            alone = isinstance(value, float) or not np.ndim(value)
            found = numbers(f"{what}: {word}", [value] * n if alone else value, n, finite=False)
            if any(not x >= low for x in found):
                raise ModelError(f"{what}: {word} must not be {'NaN' if low < 0 else 'negative'}, but is {value}")
            return found

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
            independent=tuple(map(bool, independent)) if several else independent,  # type: ignore[arg-type]
        )
        for word in ("damping", "friction", "stiffness", "rest", "armature"):
            if not all(map(isfinite, getattr(joint, word))):
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
        check_name("frame", name)
        self._check_free(name)
        what = f"frame {name!r}"
        self._frames[name] = (body, placed(what, xyz, rpy, place))
        return self

    def build(
        self,
        *,
        limits: Limits | None = None,
        start: Mapping[str, Any] | Sequence[float] | np.ndarray | str | None = None,
        tolerance: float | None = None,
        embed: bool = True,
    ) -> Model:
        """The frozen model of what was added; with `limits`, an error where the analysis of loops would take too long.

        Loops are closed from neutral coordinates, or from `start`: coordinates by joint, such as {"knee": 0.8}, the others
        neutral; all of them, (nq,); or the name of a keyframe. Numbers with few digits close over-determined loops only nearly:
        what redundant equations miss is accepted up to `tolerance`, relative to the loop's length, and in rad; it is 1e-4
        unless given. Unless `embed`, all loops are force-held; what could not be embedded is no error then.
        """
        tolerance = None if tolerance is None else checked_tolerance(tolerance)
        below = self._children()
        parts: list[tuple[Inertia, list[str]]] = []  # of each body: the sum of its links' inertias, and their names
        joints: list[PlacedJoint] = []
        q = v = 0  # where the next joint's coordinates and velocities begin
        frames: list[Frame] = []
        found: dict[str, tuple[int, Pose]] = {WORLD: (GROUND, Pose.identity())}  # link -> its body, and its place there
        bases: dict[str, str] = {}  # of links fixed to the world: the one of them that is next to it
        flexible = self._flexible_links()

        def add(link: str, inertia: Inertia, joint: PlacedJoint) -> None:
            nonlocal q, v
            found[link] = (len(parts), Pose.identity())
            frames.append(Frame(link, len(parts)))
            parts.append((inertia, [link]))
            joints.append(joint)
            q, v = q + joint.nq, v + joint.nv

        def add_flexible(link: str, body: int, place: Pose) -> None:
            index, of = len(parts), self._flexible[link]
            add(link, self._links[link], modal_joint(link, of, body, index, place, q, v))
            for node, at, shape in flexible.nodes(link):
                there, (start, first) = Pose.translation(at), (joints[index].q_start, joints[index].v_start)
                add(node, massless(), PlacedJoint(node, shape, index, len(parts), there, start, first, follows=index))

        waiting = list(reversed(below[WORLD]))  # a list, not recursion: chains may be long
        while waiting:
            joint, parent, child = self._joints[waiting.pop()]
            parent, there = flexible.holder(parent, joint.place)
            body, place = found[parent]
            place = place.then(there)
            if isinstance(joint.kind, Fixed) and child in flexible.links:
                add_flexible(child, body, place)
                frames[found[child][0]] = Frame(child, found[child][0], Pose.identity(), joint.name)
            elif isinstance(joint.kind, Fixed):
                found[child] = (body, place)
                bases[child] = bases.get(parent, child)
                frames.append(Frame(child, body, place, joint.name))
                if body != GROUND:
                    inertia, links = parts[body]
                    parts[body] = (inertia + place.congruence(self._links[child]), links)
                    links.append(child)
            else:
                hinged = replace(joint, parent=body, child=len(parts), place=place, q_start=q, v_start=v)
                hinged = replace(hinged, base=bases.get(parent, WORLD)) if body == GROUND else hinged
                if child in flexible.links:
                    add(f"{child}.hinge", massless(), hinged)
                    add_flexible(child, hinged.child, Pose.identity())
                else:
                    add(child, self._links[child], hinged)
            waiting += reversed(below[child])
        for name in self._links:
            if name not in found:
                raise ModelError(self._lost(name))
        for name, (on, place) in self._frames.items():
            if on not in found:
                raise ModelError(f"frame {name!r} is on {on!r}{self._no_link(on)}")
            on, place = flexible.holder(on, place)
            body, there = found[on]
            frames.append(Frame(name, body, there.then(place)))
        held = {frame.joint: (frame.body, frame.place) for frame in frames if frame.joint}
        held |= {joint.name: (joint.child, Pose.identity()) for joint in joints}
        found |= {frame.name: (frame.body, frame.place) for frame in frames}
        found = {**held, **found}  # loops may name frames, too, and what a joint holds
        bodies = (Body(links[0], k, inertia.constant(), tuple(links)) for k, (inertia, links) in enumerate(parts))
        places = {joint.name: k for k, joint in enumerate(joints)}
        tree = Ancestors([joint.parent for joint in joints])
        given_loops = [flexible.of_loop(c) if isinstance(c, LoopJoint) else c for c in self._constraints.values()]
        made = [self._constraint(one, found, joints, places, tree, limits) for one in given_loops]
        embedded, force_held = (tuple(c for c in made if (c.name in self._force_held) is chosen) for chosen in (False, True))
        whole = tuple(bodies), tuple(joints), tuple(frames)
        attached = self._attached(joints, found)
        given = None if start is None else start_coordinates(joints, start, attached["keyframes"])
        model = Model(
            self.name,
            *whole,
            self.gravity,
            tuple(self.notes),
            embedded,
            force_held,
            start=given,
            tolerance=tolerance,
            **attached,
        )
        if embedded and not embed:
            return _force_held(model, limits)
        if limits and embedded:
            put(model, "clusters", clusters_of(model, limits))
        for cluster in model.clusters:  # loops that cannot close are an error now
            joint = model.joints[cluster.bodies[0]]
            if not cluster.constraints and joint.independent is False and not force_held:
                raise ModelError(
                    f"joint {joint.name!r} is in no loop, so that it cannot be dependent: nothing else determines its motion. "
                    "Where its loops are given elsewhere, add them: lw.load(path, loops=[...]) takes loop joints, couplings "
                    '{"name": ..., "terms": {joint: coefficient}} and functions {"name": ..., "function": ..., "joints": [...]}'
                )
        put(model, "notes", (*model.notes, *closing_notes(model, model.clusters)))
        return model

    def _flexible_links(self) -> FlexibleLinks:
        """The flexible links that have modes, with all that is attached to them; rigid ones are checked only."""
        every = FlexibleLinks(self._flexible)
        for name, (joint, parent, _) in self._joints.items():
            every.attach(f"joint {name!r}", parent, joint.place)
        for name, (on, place) in self._frames.items():
            every.attach(f"frame {name!r}", on, place)
        for given in self._constraints.values():
            if isinstance(given, LoopJoint):
                every.attach(f"loop {given.name!r}", given.predecessor, given.place or Pose.identity())
                every.attach(f"loop {given.name!r}", given.successor, given.successor_place or Pose.identity())
        every.links = {name: body for name, body in self._flexible.items() if body.modes}
        taken = {*self._links, *self._frames, *self._joints}
        for link in every.links:
            for name in (f"{link}.hinge", f"{link}.modes", *(node for node, _, _ in every.nodes(link))):
                if name in taken:
                    raise ModelError(
                        f"{name!r} names a part of the flexible body {link!r}, and so nothing else can have that name"
                    )
        return every

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
        path = {link: None}  # in order
        while link in by_child:
            link = by_child[link][1]
            if link in path:
                names = list(path)
                cycle = some([repr(name) for name in names[names.index(link) :]])
                return f"links {cycle} form a cycle of joints that is not connected to the world"
            path[link] = None
        return (
            f"link {link!r} is not connected to the world: add a joint whose child it is, with parent='world' or another link"
        )

    def _check_free(self, name: str) -> None:
        if name in self._links or name in self._frames or name == WORLD:
            raise ModelError(f"there is already a body or frame named {name!r}")


def _force_held(model: Model, limits: Limits | None) -> Model:
    """The same with all loops force-held, by the equations that say something, where loops that are closed tell which."""
    held = {c.name: c for c in model.embedded}
    clusters = held_clusters(model, limits)
    held |= {c.name: c for cluster in clusters for c in kept_loops(model, cluster)}
    notes = (*model.notes, *closing_notes(model, clusters))
    return replace(model, embedded=(), force_held=(*model.force_held, *held.values()), notes=notes, kernels={})
