"""SDF (sdformat.org): models of links, frames and joints in any graph, nested models, and worlds.

Every link has a pose with all joints at zero, so joints need not form a tree: those beyond a spanning tree
close loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.elements import check
from linkwork.formats.elements_sdf import sdf
from linkwork.formats.finish import built
from linkwork.formats.folders import Folders
from linkwork.formats.gearbox import TreeJoint, gear_terms
from linkwork.formats.sdf_frames import (
    MODEL,
    Scope,
    checked,
    child_of,
    direction,
    pose_of,
    relative_to,
    scope_of,
)
from linkwork.formats.sdf_graph import Edge, spanning_tree
from linkwork.formats.sdf_includes import Includes, check_size, check_version, model_element, version_of
from linkwork.formats.sdf_parts import (
    Axis,
    axes,
    in_model,
    in_two,
    inertial,
    is_default,
    number,
    reversed_axis,
    shapes,
    truth,
)
from linkwork.formats.urdf_parts import MAX_VALUE, Notes, at, unknown
from linkwork.formats.xml import Element
from linkwork.joints import Fixed, Free, Prismatic, Revolute, Spherical, Universal
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import printable
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.model.builder import GRAVITY
from linkwork.model.loop_joints import DEFAULT_OPTIONS, LoopOptions
from linkwork.spatial import Pose, physical_problems
from linkwork.spatial.constants import product
from linkwork.spatial.rotation import of_matrix

INITIAL = "initial"  # keyframe of the poses in the file, if there are free links


def model(
    root: Element,
    *,
    file: str | None,
    folders: Iterable[Any],
    base: str | None,
    gravity: Sequence[float] | None,
    strict: bool,
    limits: Limits,
    loops: LoopOptions = DEFAULT_OPTIONS,
) -> Model:
    """Return the model of an <sdf> element; other arguments as in `load`."""
    notes = Notes(strict=strict)
    if root.tag == "sdf":
        check_version(root)
        Includes(Folders(file, folders, limits), limits, notes).expand(root)
        check(root, sdf(), notes, "SDF", strict=strict, version_of=version_of)
    top = model_element(root)
    check_size(top, limits)
    scope = scope_of(top)
    builder = ModelBuilder(top.word("name"), gravity=_gravity(top) if gravity is None else gravity)
    reader = _Reader(scope, root, builder, notes, base=base, strict=strict)
    reader.read()
    start = INITIAL if reader.initial else None
    return built(builder, top, notes, loops, limits, closing=reader.joints, start=start)


def _gravity(top: Element) -> tuple[float, ...]:
    """Return the gravity of a world, or the default."""
    element = top.one("gravity") if top.tag == WORLD else None
    if element is None and top.tag == WORLD and version_of(top) < (1, 6):
        physics = next(iter(top.all("physics")), None)
        element = physics.one("gravity") if physics is not None else None
    return GRAVITY if element is None else element.numbers("", 3, GRAVITY, largest=MAX_VALUE)


class _Reader:
    """Adds the parts of a scope to a builder."""

    def __init__(
        self,
        scope: Scope,
        root: Element,
        builder: ModelBuilder,
        notes: Notes,
        *,
        base: str | None,
        strict: bool,
    ) -> None:
        self.scope = scope
        self.builder = builder
        self.notes = notes
        self.base = base
        self.strict = strict
        top = scope.element
        self.place = Pose.identity()
        if top.tag == "model":
            if relative_to(top.one("pose")) not in ("", WORLD):
                raise top.needed("pose").error("pose: a top-level model can only be placed in the world")
            self.place = pose_of(top.one("pose"))
            placed = top.attributes.get("placement_frame", "")
            if placed:
                if placed not in scope.poses:
                    raise unknown(top, "frame", placed, scope.poses)
                self.place = self.place.then(scope.poses[placed].inverse())
        self.is_at_origin = self.place.is_identity
        self.joints: dict[str, Element] = {}
        self.initial: dict[str, list[float]] = {}  # poses of free links, by joint
        self.tree_joints: dict[str, TreeJoint] = {}  # by link
        self.static_joints: set[str] = set()  # between links fixed in the world

    def read(self) -> None:
        links = self.scope.all_links()
        if not links:
            raise self.scope.element.error("no <link>: a model needs at least one")
        for name, link, scope in links:
            self._add_link(name, link, scope)
        self._add_joints([name for name, _, _ in links], self._static(self.scope))
        self._add_frames()
        if self.initial:
            self.builder.add_keyframe(INITIAL, self.initial)

    def pose(self, name: str) -> Pose:
        """Return the pose of a link, a frame or the world in the world, with all joints at zero."""
        if name == WORLD:
            return Pose.identity()
        pose = self.scope.poses[name]
        return pose if self.is_at_origin else self.place.then(pose)

    # links and frames

    def _add_link(self, name: str, link: Element, scope: Scope) -> None:
        mass, centre, moment = inertial(link, self.notes)
        problems = physical_problems(mass, moment)
        if problems and self.strict:
            raise (link.one("inertial") or link).error(f"{'; '.join(problems)}: not physically consistent")
        for problem in problems:
            self.notes.add(f"{at(link)}: {problem}: not physically consistent")
        scale = 1.0 if truth(link, "gravity", True) else 0.0
        inertia: dict[str, Any] = {"mass": mass, "center": centre.tolist(), "inertia": moment}
        self.builder.add_body(name, **inertia, check=None, gravity_scale=scale)
        for shape in shapes(link, name, scope, self.notes):
            self.builder.add_geometry(shape)

    def _add_frames(self) -> None:
        scope = self.scope
        taken = {name for name, _, _ in self.scope.all_links()}
        joints = {name for name, _, _, _ in scope.all_joints()}
        inverses: dict[str, Pose | None] = {}  # many frames may be on one link; None at the origin
        for name, link in scope.links.items():
            if name in taken or name in joints or name in (MODEL, WORLD) or name.endswith(f"::{MODEL}"):
                continue
            if link not in inverses:
                pose = self.pose(link)
                inverses[link] = None if pose.is_identity else pose.inverse()
            back = inverses[link]
            place = self.pose(name) if back is None else back.then(self.pose(name))
            self.builder.add_frame(name, body=link, place=place)

    def _static(self, scope: Scope, prefix: str = "", *, parent_static: bool = False) -> set[str]:
        """Return the links of static models and of models nested in them, which are fixed in the world."""
        freed = self.base == "free" and scope is self.scope
        static = parent_static or (not freed and not scope.is_world and truth(scope.element, "static"))
        links = {prefix + name for name, part in scope.parts.items() if static and part.tag == "link"}
        for name, inner in scope.inner.items():
            links |= self._static(inner, f"{prefix}{name}::", parent_static=static)
        return links

    # joints

    def _add_joints(self, links: list[str], static: set[str]) -> None:
        scope = self.scope
        all_joints = scope.all_joints()
        edges = []
        ends = {}
        gears = []
        for k, (name, joint, joint_scope, prefix) in enumerate(all_joints):
            parent = joint.needed("parent").content()
            first = checked(joint_scope, joint, parent)
            second = checked(joint_scope, joint, child_of(joint))
            ends_of_joint = [link if link == WORLD else prefix + link for link in (first, second)]
            if ends_of_joint[0] == ends_of_joint[1]:
                raise joint.error(
                    f"parent and child are the same link {printable(ends_of_joint[0])!r}; expected two links"
                )
            ends[k] = ends_of_joint
            self.joints[name] = joint
            if joint.word("type") == "gearbox":
                gears.append(k)
            elif {*ends_of_joint} <= {WORLD, *static}:
                self.static_joints.add(name)
            else:
                edges.append(Edge(k, ends_of_joint[0], ends_of_joint[1]))
        canonical = [scope.links[MODEL]] if MODEL in scope.links else []
        canonical += [f"{n}::{s.links[MODEL]}" for n, s in scope.inner.items() if MODEL in s.links]
        spanning = spanning_tree(links, edges, canonical, static)
        for root in spanning.roots:
            self._add_root(root, fixed=root in static)
        if self.base == "free" and not self.initial:
            raise scope.element.error(
                "base='free': expected a link that is not connected to the world, got none"
            )
        if self.static_joints:
            self.notes.add(
                "a joint between links fixed in the world is ignored",
                *self.static_joints,
            )
        for edge, backwards in spanning.tree:
            self._add_tree_joint(*all_joints[edge.number][:2], all_joints[edge.number][2], edge, backwards)
        for edge in spanning.loops:
            self._add_loop(*all_joints[edge.number][:3], edge)
        for k in gears:
            self._add_gearbox(*all_joints[k], ends[k])
        for name, joint, _, prefix in all_joints:
            if name not in self.static_joints:
                self._add_mimics(name, joint, prefix)

    def _add_root(self, link: str, *, fixed: bool) -> None:
        name = f"{link}_root_joint"
        if fixed or self.base == "fixed":
            self.tree_joints[link] = TreeJoint(WORLD)
            self.builder.add_joint(name, Fixed(), parent=WORLD, child=link, place=self.pose(link))
            return
        self.builder.add_joint(name, Free(), parent=WORLD, child=link)
        pose = self.pose(link)
        turn = of_matrix(np.asarray(pose.R, dtype=float))
        self.initial[name] = [float(x) for x in (*pose.p, *turn)]

    def _axes(self, name: str, joint: Element, scope: Scope) -> list[Axis]:
        """Return the axes of a joint with frames in the world."""
        J = scope.poses[joint.word("name")]
        prefix = name[: len(name) - len(joint.word("name"))]
        base = self.place if not prefix else self.pose(prefix.removesuffix("::"))
        return [axis._replace(frame=base.then(axis.frame)) for axis in axes(scope, joint, J, self.notes)]

    def _add_tree_joint(self, name: str, joint: Element, scope: Scope, edge: Edge, backwards: bool) -> None:
        parent, child = (edge.child, edge.parent) if backwards else (edge.parent, edge.child)
        chain = self._axes(name, joint, scope)
        numbers = [f"{name}_{k}" for k in range(1, 1 + len(chain))] if len(chain) > 1 else [name]
        if backwards:
            chain, numbers = self._backwards(name, joint, chain)
        below = parent
        X = self.pose(parent)
        for n, axis in enumerate(chain):
            last = n == len(chain) - 1
            kind, frame = self._moved(axis, child) if last else (axis.kind, axis.frame)
            offset = frame.inverse().then(self.pose(child))
            at_link = last and _is_identity(offset)
            link = child if at_link else f"{child} at {name}" + ("" if last else f" {n + 1}")
            if not at_link:
                self.builder.add_body(link)
            place = X.inverse().then(self.pose(child) if at_link else frame)
            self.builder.add_joint(numbers[n], kind, parent=below, child=link, place=place, **axis.acting)
            below = link
            X = frame
        if below != child:
            place = X.inverse().then(self.pose(child))
            self.builder.add_joint(f"{child} on {name}", Fixed(), parent=below, child=child, place=place)
        along = None
        if joint.word("type") in ("revolute", "continuous"):
            hinge: Any = chain[0].kind
            along = product(np.asarray(chain[0].frame.R, dtype=float), hinge.unit)
        self.tree_joints[child] = TreeJoint(parent, "" if joint.word("type") == "fixed" else name, along)

    def _backwards(self, name: str, joint: Element, chain: list[Axis]) -> tuple[list[Axis], list[str]]:
        """Return the axes of a joint from child to parent, with the same coordinates, and their names."""
        if isinstance(chain[0].kind, Universal):  # as two revolute joints, each of which keeps its name
            chain = in_two(chain[0])
            message = (
                f"a universal joint is reversed (child to parent): revolute joints {name}_1 and {name}_2"
            )
            self.notes.add(message, at(joint))
        if isinstance(chain[0].kind, Spherical):
            self.notes.add(
                "a ball joint is reversed (child to parent): its coordinates rotate the parent",
                at(joint),
            )
        numbers = [f"{name}_{k}" for k in range(1, 1 + len(chain))] if len(chain) > 1 else [name]
        return [reversed_axis(axis) for axis in reversed(chain)], numbers[::-1]

    def _moved(self, axis: Axis, child: str) -> tuple[Any, Pose]:
        """Return the joint with its frame at the child's origin, if that describes the same motion."""
        X = self.pose(child)
        frame = axis.frame
        kind = axis.kind
        if isinstance(kind, (Revolute, Prismatic)):
            along = product(np.asarray(frame.R, dtype=float), kind.unit)
            offset = np.asarray(X.p - frame.p, dtype=float)
            across = offset - along * float(along @ offset)
            is_offset = float(np.abs(across).max()) > 1e-14 * (1.0 + float(np.abs(frame.p).max()))
            axis_in_child = tuple(product(np.asarray(X.R, dtype=float).T, along).tolist())
            return type(kind)(axis_in_child), Pose(X.R, frame.p) if isinstance(
                kind, Revolute
            ) and is_offset else X
        return kind, X if isinstance(kind, Fixed) else frame

    def _add_loop(self, name: str, joint: Element, scope: Scope, edge: Edge) -> None:
        chain = self._axes(name, joint, scope)
        if len(chain) > 1:
            raise joint.error(
                "a revolute2 joint cannot close a loop: move it to an earlier place, so that another joint "
                "closes it"
            )
        (axis,) = chain
        ignored = [
            word for word, value in axis.acting.items() if word != "rest" and not is_default(word, value)
        ]
        if ignored:
            message = f"{', '.join(ignored)} in a joint that closes a loop is not supported and ignored"
            self.notes.lost(joint, message, at(joint))
        places = [self.pose(link).inverse().then(axis.frame) for link in (edge.parent, edge.child)]
        try:
            self.builder.add_loop(
                name,
                axis.kind,
                predecessor=edge.parent,
                successor=edge.child,
                place=places[0],
                successor_place=places[1],
            )
        except ModelError as error:
            raise joint.error(str(error)) from None

    # couplings

    def _add_gearbox(self, name: str, gearbox: Element, scope: Scope, prefix: str, ends: list[str]) -> None:
        """Add θ₂ = -ratio θ₁: the angles from a reference body to the parent, and to the child."""
        reference = gearbox.needed("gearbox_reference_body").content()
        below = prefix + checked(scope, gearbox, reference) if reference != WORLD else WORLD
        base = self.place if not prefix else self.pose(prefix.removesuffix("::"))
        J = scope.poses[gearbox.word("name")]
        axis_elements = [gearbox.one("axis"), gearbox.one("axis2") or gearbox.one("axis")]
        directions = [
            None if x is None else direction(scope, x, J, in_model=in_model(x)) for x in axis_elements
        ]
        R = np.asarray(base.R, dtype=float)
        terms = gear_terms(
            gearbox, below, ends, [None if x is None else product(R, x) for x in directions], self.tree_joints
        )
        try:
            self.builder.add_coupling(name, terms)
        except ModelError as error:
            raise gearbox.error(str(error)) from None

    def _add_mimics(self, name: str, joint: Element, prefix: str) -> None:
        """Add the <mimic> of each axis: q = multiplier (leader - reference) + offset."""
        for axis in (*joint.all("axis"), *joint.all("axis2")):
            mimic = axis.one("mimic")
            if mimic is None:
                continue
            leader = prefix + mimic.word("joint")
            if mimic.attributes.get("axis", "axis") != "axis":
                raise mimic.error("expected a leader with one axis, got the second axis of a joint")
            for other in (name, leader):
                if other in self.static_joints:
                    raise mimic.error(
                        f"joint {printable(other)!r} cannot move: its links are fixed in the world"
                    )
                if other not in self.joints or self.joints[other].word("type") not in (
                    "revolute",
                    "continuous",
                    "prismatic",
                ):
                    raise mimic.error(f"expected joints with one DoF, got {printable(other)!r}")
            factor = number(mimic, "multiplier", 1.0)
            offset = number(mimic, "offset", 0.0) - factor * number(mimic, "reference", 0.0)
            if leader == name:
                raise mimic.error("the joint follows itself")
            try:
                self.builder.add_coupling(
                    f"{name} follows {leader}", {name: 1.0, leader: -factor}, offset=offset
                )
            except ModelError as error:
                raise mimic.error(str(error)) from None


def _is_identity(pose: Pose) -> bool:
    return bool(
        np.abs(np.asarray(pose.R, dtype=float) - np.eye(3)).max() < 1e-14 and np.abs(pose.p).max() < 1e-14
    )
