"""SDF (sdformat.org): models of links, frames and joints in any graph, nested models, and worlds of them.

Every link has a pose where all joints are at zero. So joints need not form a tree: those beyond a spanning tree close loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.formats.finish import built
from linkwork.formats.folders import Folders
from linkwork.formats.sdf_frames import MODEL, Scope, checked, child_of, pose_of, relative_to, scope_of
from linkwork.formats.sdf_graph import Edge, spanning_tree
from linkwork.formats.sdf_includes import NESTED, Includes, whole_of
from linkwork.formats.sdf_parts import NONE, Axis, axes, inertial, number, reversed_kind, shapes, truth
from linkwork.formats.urdf_parts import LARGEST, Notes, at, unknown
from linkwork.formats.xml import Element
from linkwork.joints import Fixed, Free, Prismatic, Revolute, Universal
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.model.builder import GRAVITY
from linkwork.model.loop_joints import AS_THE_FILE_SAYS, LoopOptions
from linkwork.parts.limits import Limits
from linkwork.parts.names import shown
from linkwork.spatial import Pose, physical_problems
from linkwork.spatial.constants import product
from linkwork.spatial.rotation import of_matrix

INITIAL = "initial"  # the keyframe of the file's own poses, where links float
PASSED = (
    *("self_collide", "plugin", "allow_auto_disable", "enable_wind", "gripper", "pose", "static", "light", "actor", "gravity"),
    *("physics", "scene", "audio", "wind", "spherical_coordinates", "magnetic_field", "atmosphere", "gui", "road", "state"),
    *("population", "material", "sensor"),
)


def model(
    root: Element,
    *,
    file: str | None,
    folders: Iterable[Any],
    base: str | None,
    gravity: Sequence[float] | None,
    strict: bool,
    limits: Limits,
    loops: LoopOptions = AS_THE_FILE_SAYS,
) -> Model:
    """The model of an <sdf> element; the rest is as for `load`."""
    notes = Notes()
    if root.tag == "sdf":
        Includes(Folders(file, folders, limits), limits).expand(root)
    whole = whole_of(root)
    _check_size(whole, limits)
    scope = scope_of(whole)
    builder = ModelBuilder(whole.word("name"), gravity=_gravity(whole) if gravity is None else gravity)
    reader = _Reader(scope, root, builder, notes, base=base, strict=strict)
    reader.read()
    start = INITIAL if reader.initial else None
    return built(builder, whole, notes, loops, limits, closing=reader.joints, start=start)


def _gravity(whole: Element) -> tuple[float, ...]:
    """That of a world, or the usual one."""
    given = whole.one("gravity") if whole.tag == WORLD else None
    return GRAVITY if given is None else given.numbers("", 3, GRAVITY, largest=LARGEST)


def _check_size(whole: Element, limits: Limits) -> None:
    counts = {"link": 0, "joint": 0}
    waiting = [(whole, 0)]
    while waiting:
        element, depth = waiting.pop()
        if depth > NESTED:
            raise element.error(f"models are nested deeper than {NESTED}, the most that is read")
        for child in element.children:
            if child.tag in counts:
                counts[child.tag] += 1
                if counts[child.tag] > limits.links:
                    told = f"there are more than {limits.links} {child.tag}s: {limits.raised('links')}"
                    raise LimitError(child.told(told))
            if child.tag == "model":
                waiting.append((child, depth + 1))


class _Reader:
    """Takes the parts of a scope to a builder."""

    def __init__(
        self, scope: Scope, root: Element, builder: ModelBuilder, notes: Notes, *, base: str | None, strict: bool
    ) -> None:
        self.scope, self.builder, self.notes, self.base, self.strict = scope, builder, notes, base, strict
        try:
            self.version = float(root.attributes.get("version", "1.7"))
        except ValueError:
            raise root.error(f"its version {shown(root.attributes['version'])!r} is no number") from None
        whole = scope.element
        self.place = Pose.identity()
        if whole.tag == "model":
            if relative_to(whole.one("pose")) not in ("", WORLD):
                raise whole.needed("pose").error("a model that is in nothing else can only be placed in the world")
            self.place = pose_of(whole.one("pose"))
            placed = whole.attributes.get("placement_frame", "")
            if placed:
                if placed not in scope.poses:
                    raise unknown(whole, "frame", placed, scope.poses)
                self.place = self.place.then(scope.poses[placed].inverse())
        self.joints: dict[str, Element] = {}
        self.initial: dict[str, list[float]] = {}  # poses of links that float, by joint
        self.hinges: dict[str, tuple[str, str]] = {}  # link -> joint that holds it in the tree, and the link below

    def read(self) -> None:
        links = self.scope.all_links()
        if not links:
            raise self.scope.element.error("there is no <link> in it, and a model has at least one")
        for name, link, own in links:
            self._add_link(name, link)
            self._note(own.element)
        self._add_joints([name for name, _, _ in links], {name for name, _, own in links if truth(own.element, "static")})
        self._add_frames()
        if self.initial:
            self.builder.add_keyframe(INITIAL, self.initial)

    def pose(self, name: str) -> Pose:
        """Of a link, a frame or the world, in the world, where all joints are at zero."""
        return Pose.identity() if name == WORLD else self.place.then(self.scope.poses[name])

    # links and frames

    def _add_link(self, name: str, link: Element) -> None:
        mass, centre, moment = inertial(link, self.notes)
        problems = physical_problems(mass, moment)
        if problems and self.strict:
            raise (link.one("inertial") or link).error(f"{'; '.join(problems)}: not physically consistent")
        for problem in problems:
            self.notes.add(f"{at(link)}: {problem}: not physically consistent")
        self.builder.add_body(name, mass=mass, center=centre.tolist(), inertia=moment, check=None)
        for shape in shapes(link, name, self.notes):
            self.builder.add_geometry(shape)
        if not truth(link, "gravity", True) or truth(link, "kinematic"):
            self.notes.add("a link without gravity, or one that is kinematic, is taken as any other", at(link))

    def _note(self, element: Element) -> None:
        for child in element.children:
            if child.tag not in (*PASSED, "link", "joint", "frame", "model", "include"):
                self.notes.add(f"<{shown(child.tag)}> in <{element.tag}> is not read", f"line {child.line}")

    def _add_frames(self) -> None:
        scope, taken = self.scope, {name for name, _, _ in self.scope.all_links()}
        joints = {name for name, _, _, _ in scope.all_joints()}
        for name, link in scope.links.items():
            if name in taken or name in joints or name in (MODEL, WORLD) or name.endswith(f"::{MODEL}"):
                continue
            place = self.pose(link).inverse().then(self.pose(name))
            self.builder.add_frame(name, body=link, place=place)

    # joints

    def _add_joints(self, links: list[str], static: set[str]) -> None:
        scope = self.scope
        given = scope.all_joints()
        edges, ends, gears = [], {}, []
        for k, (name, joint, own, prefix) in enumerate(given):
            parent = joint.needed("parent").content()
            first, second = checked(own, joint, parent), checked(own, joint, child_of(joint))
            here = [link if link == WORLD else prefix + link for link in (first, second)]
            if here[0] == here[1]:
                raise joint.error(f"it joins the link {shown(here[0])!r} to itself: parent and child must differ")
            ends[k] = here
            self.joints[name] = joint
            if joint.word("type") == "gearbox":
                gears.append(k)
            else:
                edges.append(Edge(k, here[0], here[1]))
        canonical = [scope.links[MODEL]] if MODEL in scope.links else []
        canonical += [f"{n}::{s.links[MODEL]}" for n, s in scope.inner.items() if MODEL in s.links]
        found = spanning_tree(links, edges, canonical)
        for root in found.roots:
            self._add_root(root, fixed=root in static)
        for edge, backwards in found.tree:
            self._add_tree_joint(*given[edge.number][:2], given[edge.number][2], edge, backwards)
        for edge in found.loops:
            self._add_loop(*given[edge.number][:3], edge)
        for k in gears:
            self._add_gearbox(*given[k], ends[k])
        for name, joint, _, prefix in given:
            self._add_mimics(name, joint, prefix)

    def _add_root(self, link: str, *, fixed: bool) -> None:
        name = f"{link}_root_joint"
        if fixed or self.base == "fixed":
            self.builder.add_joint(name, Fixed(), parent=WORLD, child=link, place=self.pose(link))
            return
        self.builder.add_joint(name, Free(), parent=WORLD, child=link)
        pose = self.pose(link)
        turn = of_matrix(np.asarray(pose.R, dtype=float))
        self.initial[name] = [float(x) for x in (*pose.p, *turn)]

    def _axes(self, name: str, joint: Element, own: Scope) -> list[Axis]:
        """What a joint is made of, with frames in the world."""
        J = own.poses[joint.word("name")]
        prefix = name[: len(name) - len(joint.word("name"))]
        base = self.place if not prefix else self.pose(prefix.removesuffix("::"))
        found = axes(own, joint, J, version=self.version, notes=self.notes)
        return [axis._replace(frame=base.then(axis.frame)) for axis in found]

    def _add_tree_joint(self, name: str, joint: Element, own: Scope, edge: Edge, backwards: bool) -> None:
        parent, child = (edge.child, edge.parent) if backwards else (edge.parent, edge.child)
        chain = self._axes(name, joint, own)
        if backwards:
            turned = []
            for axis in reversed(chain):
                kind, R = reversed_kind(axis.kind)
                acting = axis.acting
                if isinstance(kind, Universal):
                    acting = {word: values[::-1] for word, values in acting.items()}
                turned.append(Axis(kind, axis.frame.then(Pose(R, np.zeros(3))), acting))
            chain = turned
        below, X = parent, self.pose(parent)
        for n, axis in enumerate(chain):
            last = n == len(chain) - 1
            kind, frame = self._moved(axis, child) if last else (axis.kind, axis.frame)
            off = frame.inverse().then(self.pose(child))
            there = last and _is_identity(off)
            link = child if there else f"{child} at {name}" + ("" if last else f" {n + 1}")
            if not there:
                self.builder.add_body(link)
            called = name if len(chain) == 1 else f"{name}_{n + 1}"
            place = X.inverse().then(self.pose(child) if there else frame)
            self.builder.add_joint(called, kind, parent=below, child=link, place=place, **axis.acting)
            below, X = link, frame
        if below != child:
            place = X.inverse().then(self.pose(child))
            self.builder.add_joint(f"{child} on {name}", Fixed(), parent=below, child=child, place=place)
        self.hinges[child] = (name, parent)

    def _moved(self, axis: Axis, child: str) -> tuple[Any, Pose]:
        """The same joint with its frame at the child's own, where that describes the same motion."""
        X, frame, kind = self.pose(child), axis.frame, axis.kind
        if isinstance(kind, (Revolute, Prismatic)):
            along = product(np.asarray(frame.R, dtype=float), kind.unit)
            apart = np.asarray(X.p - frame.p, dtype=float)
            across = apart - along * float(along @ apart)
            far = float(np.abs(across).max()) > 1e-14 * (1.0 + float(np.abs(frame.p).max()))
            own = tuple(product(np.asarray(X.R, dtype=float).T, along).tolist())
            return type(kind)(own), Pose(X.R, frame.p) if isinstance(kind, Revolute) and far else X
        return kind, X if isinstance(kind, Fixed) else frame

    def _add_loop(self, name: str, joint: Element, own: Scope, edge: Edge) -> None:
        chain = self._axes(name, joint, own)
        if len(chain) > 1:
            raise joint.error("a revolute2 joint cannot close a loop: put it earlier in the file, so that another joint does")
        (axis,) = chain
        passed = [word for word, value in axis.acting.items() if word not in ("lower", "upper") and value != NONE[word]]
        if passed:
            self.notes.add(f"{', '.join(passed)} does not act in a joint that closes a loop, and was passed over", at(joint))
        places = [self.pose(link).inverse().then(axis.frame) for link in (edge.parent, edge.child)]
        try:
            self.builder.add_loop(
                name, axis.kind, predecessor=edge.parent, successor=edge.child, place=places[0], successor_place=places[1]
            )
        except ModelError as error:
            raise joint.error(str(error)) from None

    # couplings

    def _add_gearbox(self, name: str, gearbox: Element, own: Scope, prefix: str, ends: list[str]) -> None:
        """θ₂ = -ratio θ₁: the angles from a reference body to the parent, and to the child."""
        reference = gearbox.needed("gearbox_reference_body").content()
        below = prefix + checked(own, gearbox, reference) if reference != WORLD else WORLD
        ratio = gearbox.needed("gearbox_ratio").numbers("", 1, largest=LARGEST)[0]
        terms: dict[str, float] = {}
        for link, factor in zip(ends, (ratio, 1.0)):
            joint, under = self.hinges.get(link, ("", ""))
            if under != below or joint in terms or self.joints[joint].word("type") not in ("revolute", "continuous"):
                told = f"each of its links must hang on {shown(below)!r} by one hinge of its own, and no other joint"
                raise gearbox.error(told)
            terms[joint] = factor
        try:
            self.builder.add_coupling(name, terms)
        except ModelError as error:
            raise gearbox.error(str(error)) from None

    def _add_mimics(self, name: str, joint: Element, prefix: str) -> None:
        """<mimic> in an axis: q = multiplier (leader - reference) + offset."""
        for axis in (*joint.all("axis"), *joint.all("axis2")):
            mimic = axis.one("mimic")
            if mimic is None:
                continue
            leader = prefix + mimic.word("joint")
            for other in (name, leader):
                if other not in self.joints or self.joints[other].word("type") not in ("revolute", "continuous", "prismatic"):
                    raise mimic.error(f"{shown(other)!r} is no joint of one coordinate to follow or be followed by")
            factor = number(mimic, "multiplier", 1.0)
            offset = number(mimic, "offset", 0.0) - factor * number(mimic, "reference", 0.0)
            if leader == name:
                raise mimic.error("it follows itself")
            self.builder.add_coupling(f"{name} follows {leader}", {name: 1.0, leader: -factor}, offset=offset)


def _is_identity(pose: Pose) -> bool:
    return bool(np.abs(np.asarray(pose.R, dtype=float) - np.eye(3)).max() < 1e-14 and np.abs(pose.p).max() < 1e-14)
