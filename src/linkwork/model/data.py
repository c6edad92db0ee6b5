"""The data of a model: frozen, hashed by content, picklable by value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from linkwork.errors import ModelError
from linkwork.lazy import cached_property
from linkwork.model.content import canonical
from linkwork.parts import (
    GROUND,
    WORLD,
    Actuator,
    Body,
    ContactPair,
    Frame,
    Geometry,
    Keyframe,
    LoopConstraint,
    Named,
    PlacedJoint,
)
from linkwork.parts.names import did_you_mean, shown
from linkwork.parts.tree import MassProperties
from linkwork.spatial.constants import put
from linkwork.topology.analysis import clusters_of
from linkwork.topology.clusters import Cluster, with_constraints


@dataclass(frozen=True, eq=False)
class ModelData:
    """A mechanism: bodies, the joints that move them, named frames, and gravity [m/s²] in the axes of the world.

    Body k is moved by joint k, and its parent comes before it. `embedded` are loops and couplings that are embedded in the
    coordinates (constraint embedding); those in `force_held` are closed by constraint forces, and leave all velocities
    independent. Models are equal if their content is, whatever they were made from. `ModelBuilder` and `load` make them.

    While a function is traced with parameters as inputs, some numbers of the model are symbols; `original` is then the model
    with its own numbers, which decides everything that is not arithmetic: clusters, frames, what vanishes. Of the bodies whose
    mass, centre or moment of inertia are inputs, `inertia_inputs` has these.
    """

    name: str
    bodies: tuple[Body, ...]
    joints: tuple[PlacedJoint, ...]
    frames: tuple[Frame, ...]
    gravity: tuple[float, ...]
    notes: tuple[str, ...] = ()
    embedded: tuple[LoopConstraint, ...] = ()
    force_held: tuple[LoopConstraint, ...] = ()
    kernels: dict[Any, Any] = field(default_factory=dict, repr=False)  # what was compiled for this model, in this process
    memory: dict[Any, Any] = field(default_factory=dict, repr=False, init=False)  # what was derived from it
    analyses: dict[Any, Any] = field(default_factory=dict, repr=False)  # clusters of this model and of variants, by content
    given_clusters: tuple[Cluster, ...] | None = field(default=None, init=False, repr=False)  # in place of those it would find
    original: ModelData | None = field(default=None, repr=False)
    inertia_inputs: Mapping[int, MassProperties] = field(default_factory=dict, repr=False)
    parameter_inputs: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the parameters that are inputs, by name
    start: tuple[float, ...] | None = None  # coordinates, (nq,), at which closing loops begins; None: neutral ones
    partition: tuple[tuple[int, Any], ...] = ()  # bodies whose hinges are partitioned, and how: see `model.partition`
    tolerance: float | None = None  # of what redundant equations of loops miss, relative to the loop's length; None: the usual
    keyframes: Mapping[str, Keyframe] = field(default_factory=Named, repr=False)  # states that the file names
    actuators: tuple[Actuator, ...] = field(default=(), repr=False)  # motors of the file, shapes, and pairs of these: only data
    geometries: tuple[Geometry, ...] = field(default=(), repr=False)
    contact_pairs: tuple[ContactPair, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        mechanics = ("bodies", "joints", "frames", "gravity", "notes", "embedded", "force_held")
        for word in (*mechanics, "actuators", "geometries", "contact_pairs"):
            put(self, word, tuple(getattr(self, word)))
        put(self, "keyframes", Named(self.keyframes))
        put(self, "analyses", dict(self.analyses))  # a variant knows what this model knew, and not the reverse

    @property
    def loops(self) -> tuple[LoopConstraint, ...]:
        """All loops and couplings: the embedded ones, then the force-held ones."""
        return (*self.embedded, *self.force_held)

    @property
    def structure(self) -> Self:
        """The model with its own numbers."""
        return self if self.original is None else self.original  # type: ignore[return-value]

    @property
    def nq(self) -> int:
        """The number of coordinates q."""
        return self._sizes[0]

    @property
    def nv(self) -> int:
        """The number of velocities v, also of accelerations and joint forces."""
        return self._sizes[1]

    @property
    def nv_spanning(self) -> int:
        """The number of velocities of all joints of the tree, whether loops leave them independent or not."""
        return sum(j.nv for j in self.joints)

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        if not self.embedded:
            return sum(j.nq for j in self.joints), sum(j.nv for j in self.joints)
        return sum(j.nq for j in self.joints), sum(len(c.independent) for c in self.clusters)

    @cached_property
    def is_flexible(self) -> bool:
        """Whether any of its bodies deforms."""
        return any(joint.kind.elastic for joint in self.joints)

    @cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """Groups of bodies in common loops (loop-closure aggregation), parents before children; most bodies are alone."""
        if self.given_clusters is not None:
            return self.given_clusters
        if self.original is not None:
            return with_constraints(self.original.clusters, self.embedded)
        return clusters_of(self)

    @cached_property
    def v_names(self) -> tuple[str, ...]:
        """The joint (and component) behind each entry of v."""
        found = []
        for cluster in self.clusters:
            names = [name for k in cluster.bodies for name in self.joints[k].v_names]
            found += [names[c] for c in cluster.independent]
        return tuple(found)

    @property
    def v_names_spanning(self) -> tuple[str, ...]:
        """The joint (and component) behind each velocity of the spanning tree, (nv_spanning,)."""
        return tuple(name for joint in self.joints for name in joint.v_names)

    @property
    def q_names(self) -> tuple[str, ...]:
        """The joint behind each entry of q, with its place among the joint's coordinates where there are several."""
        return tuple(j.name if j.nq == 1 else f"{j.name}[{k}]" for j in self.joints for k in range(j.nq))

    @property
    def mass(self) -> float:
        """Of all bodies that can move [kg]."""
        return sum(body.mass for body in self.bodies)

    def tree_neutral(self) -> np.ndarray:
        """The coordinates with every joint neutral, whether or not loops are closed, (nq,)."""
        return np.concatenate([np.zeros(0), *(joint.kind.neutral() for joint in self.joints)])

    def tree_start(self) -> np.ndarray:
        """The coordinates at which closing loops begins: neutral or given ones; those of clusters that are closed, (nq,)."""
        q = self.tree_neutral() if self.start is None else np.array(self.start)
        for cluster in self.structure.clusters if self.embedded else ():
            at = 0
            for joint in (self.joints[k] for k in cluster.bodies if cluster.closed):
                q[joint.q_slice] = cluster.closed[at : at + joint.nq]
                at += joint.nq
        return q

    # by name

    def body(self, name: str) -> Body:
        """The body with this name, or with a link of this name."""
        return self._named("body", name, self._links)

    def joint(self, name: str) -> PlacedJoint:
        """The joint with this name."""
        return self._named("joint", name, self._joints)

    def frame(self, name: str) -> Frame:
        """The frame with this name; also that of a link, of the link that a joint of this name moves, and "world"."""
        return self._named("frame", name, self._frames)

    def _named(self, what: str, name: Any, table: dict[str, Any]) -> Any:
        if isinstance(name, str) and name in table:
            return table[name]
        raise ModelError(f"{shown(self.name)} has no {what} named {name!r}{did_you_mean(name, table)}")

    @cached_property
    def _links(self) -> dict[str, Body]:
        return {link: body for body in self.bodies for link in body.links}

    @cached_property
    def _joints(self) -> dict[str, PlacedJoint]:
        return {joint.name: joint for joint in self.joints}

    @cached_property
    def _frames(self) -> dict[str, Frame]:
        by_joint = {frame.joint: frame for frame in self.frames if frame.joint}
        by_joint |= {joint.name: Frame(joint.name, joint.child) for joint in self.joints}
        return {**by_joint, **{frame.name: frame for frame in self.frames}, WORLD: Frame(WORLD, GROUND)}

    # as a value

    @property
    def content(self) -> tuple[Any, ...]:
        """All data that decides what is computed; notes, keyframes, actuators and shapes are not among it."""
        loops = (self.embedded, self.force_held, self.given_clusters)
        closing = () if self.start is None and self.tolerance is None else (self.start, self.tolerance)
        stages = (self.partition,) if self.partition else ()
        return (self.name, self.bodies, self.joints, self.frames, self.gravity, *loops, *closing, *stages)

    @cached_property
    def digest(self) -> str:
        """A hash of its content."""
        return hashlib.sha256(canonical(self.content, [joint.nq for joint in self.joints]).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, ModelData) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __getstate__(self) -> dict[str, Any]:
        here: dict[str, Any] = {"kernels": {}, "memory": {}, "analyses": {}}  # code and what is found again stay here
        return {f.name: getattr(self, f.name) for f in fields(self)} | here

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"<linkwork model {self.name!r}: {len(self.bodies)} bodies, nq {self.nq}, nv {self.nv}>"
