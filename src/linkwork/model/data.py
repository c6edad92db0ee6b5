"""Frozen data of a model, hashed by content and picklable by value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar

import numpy as np

from linkwork.errors import ModelError
from linkwork.lazy import cached_property
from linkwork.loops.cluster_search import clusters_of
from linkwork.loops.clusters import Cluster, with_constraints
from linkwork.loops.tolerances import closure_tolerances
from linkwork.mechanism import (
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
from linkwork.mechanism.body_loads import SpatialTendon, WeightCompensation
from linkwork.mechanism.names import did_you_mean, printable
from linkwork.mechanism.tree import MassProperties
from linkwork.model.content import canonical
from linkwork.spatial.constants import frozen, set_frozen

AnyModel = TypeVar("AnyModel", bound="ModelData")


@dataclass(frozen=True, eq=False)
class ModelData:
    """A frozen mechanism: bodies, joints, frames, loops, and gravity [m/s²] in the world frame.

    Body k is moved by joint k and follows its parent. Loops and couplings in `embedded` are embedded in the
    coordinates (constraint embedding); those in `constrained_loops` are closed by constraint forces and leave
    all velocities independent. Models are equal if their content is equal. `ModelBuilder` and `load` create
    models.

    While a function is traced with parameters as inputs, some numbers of the model are symbols.
    `nominal_model` is then the model with its own numbers, which decides everything structural: clusters,
    frames, and terms that vanish. `inertia_inputs` holds the mass properties that are inputs, by body.
    """

    name: str
    bodies: tuple[Body, ...]
    joints: tuple[PlacedJoint, ...]
    frames: tuple[Frame, ...]
    gravity: tuple[float, ...]
    notes: tuple[str, ...] = ()
    embedded: tuple[LoopConstraint, ...] = ()
    constrained_loops: tuple[LoopConstraint, ...] = ()
    kernels: dict[Any, Any] = field(default_factory=dict, repr=False)  # compiled in this process
    cache: dict[Any, Any] = field(default_factory=dict, repr=False, init=False)  # derived quantities
    # clusters of this model and of its variants, by content
    analyses: dict[Any, Any] = field(default_factory=dict, repr=False)
    # replaces the clusters found by analysis
    clusters_override: tuple[Cluster, ...] | None = field(default=None, init=False, repr=False)
    nominal_model: ModelData | None = field(default=None, repr=False)
    inertia_inputs: Mapping[int, MassProperties] = field(default_factory=dict, repr=False)
    parameter_inputs: Mapping[str, Any] = field(default_factory=dict, repr=False)  # by parameter name
    start: tuple[float, ...] | None = None  # where closure begins, (nq,); None: neutral
    partition: tuple[tuple[int, Any], ...] = ()  # bodies and splits of their hinges: see `model.partition`
    # accepted residual of redundant loop equations, relative to the loop's length; None: 1e-4
    tolerance: float | None = None
    keyframes: Mapping[str, Keyframe] = field(default_factory=Named, repr=False)  # states named in the file
    actuators: tuple[Actuator, ...] = field(default=(), repr=False)
    geometries: tuple[Geometry, ...] = field(default=(), repr=False)
    contact_pairs: tuple[ContactPair, ...] = field(default=(), repr=False)
    weight_compensations: tuple[WeightCompensation, ...] = field(default=(), repr=False)  # by body
    tendons: tuple[SpatialTendon, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        mechanics = ("bodies", "joints", "frames", "gravity", "notes", "embedded", "constrained_loops")
        attached = ("actuators", "geometries", "contact_pairs", "weight_compensations", "tendons")
        for name in (*mechanics, *attached):
            set_frozen(self, name, tuple(getattr(self, name)))
        set_frozen(self, "keyframes", Named(self.keyframes))
        # a variant inherits the analyses of its original, and does not add to them
        set_frozen(self, "analyses", dict(self.analyses))

    @property
    def loops(self) -> tuple[LoopConstraint, ...]:
        """All loops and couplings: first the embedded ones, then the constrained ones."""
        return (*self.embedded, *self.constrained_loops)

    @cached_property
    def closure_tolerance(self) -> np.ndarray:
        """Distance [m] and angle [rad] up to which each of `loops` counts as closed, (loops, 2).

        1e-6 of the length of the loop, and 1e-6 rad; more if the numbers of the model have so few digits that
        redundant equations cannot hold better (see `tolerance` of `ModelBuilder.build`). `closure_error`
        computes the gaps.
        """
        model = self.nominal
        tolerances = closure_tolerances(model, model.clusters)
        return frozen(
            np.array([tolerances.get(loop.name, (0.0, 0.0)) for loop in model.loops]).reshape(-1, 2)
        )

    @property
    def nominal(self) -> Self:
        """The model with its own numbers instead of symbols."""
        return self if self.nominal_model is None else self.nominal_model  # type: ignore[return-value]

    @property
    def nq(self) -> int:
        """Number of coordinates q."""
        return self._sizes[0]

    @property
    def nv(self) -> int:
        """Number of velocities v, and of accelerations and joint forces."""
        return self._sizes[1]

    @property
    def nv_spanning(self) -> int:
        """Number of velocities of all tree joints, dependent ones included."""
        return sum(j.nv for j in self.joints)

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        if not self.embedded:
            return sum(j.nq for j in self.joints), sum(j.nv for j in self.joints)
        return sum(j.nq for j in self.joints), sum(len(c.independent) for c in self.clusters)

    @cached_property
    def is_flexible(self) -> bool:
        """True if any body is flexible."""
        return any(joint.kind.elastic for joint in self.joints)

    @cached_property
    def has_body_loads(self) -> bool:
        """True if weights are compensated, or spatial tendons have springs or dampers."""
        return bool(self.weight_compensations) or any(tendon.acts for tendon in self.tendons)

    @cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """Bodies aggregated by loops (loop-closure aggregation), parents first; other bodies are single."""
        if self.clusters_override is not None:
            return self.clusters_override
        if self.nominal_model is not None:
            return with_constraints(self.nominal_model.clusters, self.embedded)
        return clusters_of(self)

    @cached_property
    def v_names(self) -> tuple[str, ...]:
        """Names of the entries of v: joints, with component where there are several."""
        independent_names = []
        for cluster in self.clusters:
            cluster_names = [name for k in cluster.bodies for name in self.joints[k].v_names]
            independent_names += [cluster_names[c] for c in cluster.independent]
        return tuple(independent_names)

    @property
    def v_names_spanning(self) -> tuple[str, ...]:
        """Names of the velocities of the spanning tree, (nv_spanning,)."""
        return tuple(name for joint in self.joints for name in joint.v_names)

    @property
    def q_names(self) -> tuple[str, ...]:
        """Names of the entries of q: joints, with index where a joint has several coordinates."""
        return tuple(j.name if j.nq == 1 else f"{j.name}[{k}]" for j in self.joints for k in range(j.nq))

    @property
    def mass(self) -> float:
        """Total mass of the bodies [kg]."""
        return sum(body.mass for body in self.bodies)

    def tree_neutral(self) -> np.ndarray:
        """Return neutral coordinates of all joints, (nq,); loops may be open."""
        return np.concatenate([np.zeros(0), *(joint.kind.neutral() for joint in self.joints)])

    def tree_start(self) -> np.ndarray:
        """Return the coordinates where closure begins, (nq,): `start`, neutral, or known closed ones."""
        q = self.tree_neutral() if self.start is None else np.array(self.start)
        for cluster in self.nominal.clusters if self.embedded else ():
            start = 0
            for joint in (self.joints[k] for k in cluster.bodies if cluster.closed):
                q[joint.q_slice] = cluster.closed[start : start + joint.nq]
                start += joint.nq
        return q

    # lookup by name

    def body(self, name: str) -> Body:
        """Return the body with this name, or containing a link of this name."""
        return self.part_named("body", name, self._links)

    def joint(self, name: str) -> PlacedJoint:
        """Return the joint with this name."""
        return self.part_named("joint", name, self._joints)

    def frame(self, name: str) -> Frame:
        """Return the frame with this name: a frame, link, joint (frame of its child) or "world"."""
        return self.part_named("frame", name, self._frames)

    def part_named(self, kind: str, name: Any, table: dict[str, Any]) -> Any:
        if isinstance(name, str) and name in table:
            return table[name]
        raise ModelError(f"{printable(self.name)} has no {kind} named {name!r}{did_you_mean(name, table)}")

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

    # equality and pickling

    @property
    def content(self) -> tuple[Any, ...]:
        """All data that determine results; notes, keyframes, actuators and shapes do not."""
        loops = (self.embedded, self.constrained_loops, self.clusters_override)
        closure_options = (
            () if self.start is None and self.tolerance is None else (self.start, self.tolerance)
        )
        partition = (self.partition,) if self.partition else ()
        loads = (self.weight_compensations, self.tendons)
        return (
            self.name,
            self.bodies,
            self.joints,
            self.frames,
            self.gravity,
            *loops,
            *closure_options,
            *partition,
            *(loads if any(loads) else ()),
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 hash of `content`."""
        return hashlib.sha256(
            canonical(self.content, [joint.nq for joint in self.joints]).encode()
        ).hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, ModelData) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __getstate__(self) -> dict[str, Any]:
        # compiled code and cached results are not pickled
        omitted: dict[str, Any] = {"kernels": {}, "cache": {}, "analyses": {}}
        return {f.name: getattr(self, f.name) for f in fields(self)} | omitted

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"<linkwork model {self.name!r}: {len(self.bodies)} bodies, nq {self.nq}, nv {self.nv}>"
