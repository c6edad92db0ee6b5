"""Spanning trees of links and joints: body indices, merged links, frames and coordinate offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from linkwork.joints import Fixed
from linkwork.mechanism import GROUND, WORLD, Body, Frame, PlacedJoint
from linkwork.model.flexible_links import FlexibleLinks, massless, modal_joint
from linkwork.spatial import Inertia, Pose


class TreeLayout:
    """Bodies, joints and frames of a spanning tree, numbered depth first.

    Links behind fixed joints are merged into the body that carries them, and stay as frames.
    """

    def __init__(
        self,
        links: Mapping[str, Inertia],
        joints: Mapping[str, tuple[PlacedJoint, str, str]],
        children: Mapping[str, list[str]],
        flexible: FlexibleLinks,
    ) -> None:
        """Lay out all links reachable from the world; `children` are the joints behind each link."""
        self.links = links
        self.flexible = flexible
        self.joints: list[PlacedJoint] = []
        self.frames: list[Frame] = []
        self.poses: dict[str, tuple[int, Pose]] = {WORLD: (GROUND, Pose.identity())}  # by link
        self._parts: list[tuple[Inertia, list[str]]] = []  # inertia and link names of each body
        self._bases: dict[str, str] = {}  # the outermost fixed link next to the world, by link
        self._next_q = 0
        self._next_v = 0
        pending = list(reversed(children[WORLD]))  # a list, not recursion: chains may be long
        while pending:
            joint, parent, child = joints[pending.pop()]
            self._add_link(joint, parent, child)
            pending += reversed(children[child])

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The bodies with the summed inertias of their links."""
        return tuple(
            Body(links[0], k, inertia.constant(), tuple(links))
            for k, (inertia, links) in enumerate(self._parts)
        )

    def attachments(self) -> dict[str, tuple[int, Pose]]:
        """Return body and pose by name of all joints, frames and links; links precede frames and joints."""
        by_joint = {frame.joint: (frame.body, frame.place) for frame in self.frames if frame.joint}
        by_joint |= {joint.name: (joint.child, Pose.identity()) for joint in self.joints}
        by_frame = {frame.name: (frame.body, frame.place) for frame in self.frames}
        return {**by_joint, **self.poses, **by_frame}

    def _add_link(self, joint: PlacedJoint, parent: str, child: str) -> None:
        parent, offset = self.flexible.holder(parent, joint.place)
        body, place = self.poses[parent]
        place = place.then(offset)
        if isinstance(joint.kind, Fixed):
            if child in self.flexible.links:
                position = len(self.frames)
                self._add_flexible(child, body, place)
                self.frames[position] = Frame(child, self.poses[child][0], Pose.identity(), joint.name)
            else:
                self._merge_link(joint, parent, child, body, place)
            return
        hinge = replace(
            joint,
            parent=body,
            child=len(self._parts),
            place=place,
            q_start=self._next_q,
            v_start=self._next_v,
        )
        hinge = replace(hinge, base=self._bases.get(parent, WORLD)) if body == GROUND else hinge
        if child in self.flexible.links:
            self._add_body(f"{child}.hinge", massless(), hinge)
            self._add_flexible(child, hinge.child, Pose.identity())
        else:
            self._add_body(child, self.links[child], hinge)

    def _merge_link(self, joint: PlacedJoint, parent: str, child: str, body: int, place: Pose) -> None:
        """Add a link behind a fixed joint to the body that carries it."""
        self.poses[child] = (body, place)
        self._bases[child] = self._bases.get(parent, child)
        self.frames.append(Frame(child, body, place, joint.name))
        if body != GROUND:
            inertia, links = self._parts[body]
            self._parts[body] = (inertia + place.congruence(self.links[child]), links)
            links.append(child)

    def _add_body(self, link: str, inertia: Inertia, joint: PlacedJoint) -> None:
        self.poses[link] = (len(self._parts), Pose.identity())
        self.frames.append(Frame(link, len(self._parts)))
        self._parts.append((inertia, [link]))
        self.joints.append(joint)
        self._next_q += joint.nq
        self._next_v += joint.nv

    def _add_flexible(self, link: str, body: int, place: Pose) -> None:
        """Add the deformation of a flexible link, and the massless bodies that its modes move."""
        index = len(self._parts)
        flexible_body = self.flexible.links[link]
        deformation = modal_joint(link, flexible_body, body, index, place, self._next_q, self._next_v)
        self._add_body(link, self.links[link], deformation)
        for name, position, shape in self.flexible.nodes(link):
            start = deformation.q_start
            first = deformation.v_start
            node = PlacedJoint(
                name, shape, index, len(self._parts), Pose.translation(position), start, first, follows=index
            )
            self._add_body(name, massless(), node)
