"""The model of a mechanism: its data, its states, and variants of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from linkwork.errors import LimitError, ModelError, ShapeError
from linkwork.joints import Joint
from linkwork.model import inertial_parameters, parameters, partition, states
from linkwork.model.data import ModelData
from linkwork.model.loop_joints import (
    GivenCoupling,
    LoopJoint,
    checked_tolerance,
    moving_joint,
    start_coordinates,
)
from linkwork.model.report import report
from linkwork.parts import GROUND, LoopConstraint
from linkwork.parts.names import shown
from linkwork.spatial import Pose
from linkwork.spatial.constants import put
from linkwork.topology.analysis import CannotClose, kept_loops
from linkwork.topology.closing_notes import closing_notes
from linkwork.topology.clusters import Ancestors, Cluster, find_families
from linkwork.topology.independent import independent_at
from linkwork.topology.motion import ClusterPosture, cluster_posture
from linkwork.topology.rechoice import rechosen

T = TypeVar("T")


def derived(function: Callable[[Model], T]) -> Callable[[Model], T]:
    """A function of a model that is worked out once for each model, and kept with it."""

    @wraps(function)
    def remembered(model: Model) -> T:
        if function not in model.memory:
            model.memory.setdefault(function, function(model))
        return model.memory[function]

    return remembered


@dataclass(frozen=True, eq=False, repr=False)
class Model(ModelData):
    __doc__ = ModelData.__doc__

    # states

    def tree_random(self, rng: np.random.Generator) -> np.ndarray:
        """Random coordinates, whether or not loops are closed, (nq,)."""
        return np.concatenate([np.zeros(0), *(joint.kind.random(rng) for joint in self.joints)])

    def neutral(self) -> np.ndarray:
        """The coordinates with every joint neutral or, in loops, closed ones near to that, within limits if it can be, (nq,).

        They are found once; ClosureError where loops cannot be closed.
        """
        return states.neutral(self)

    def random_state(
        self, rng: np.random.Generator | int | None = None, *, branch: str = "neutral"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Random q, (nq,), within the limits and with every loop closed, and random v, (nv,).

        Loops keep the assembly mode of `neutral()`: from there they are walked towards random independent coordinates, as far
        as limits and singularities let them. With branch="any" they are closed near random coordinates, on any assembly mode,
        and limits may not be kept. For force-held loops, v is a velocity that keeps them closed.
        """
        return states.random_state(self, np.random.default_rng(rng), branch)

    def with_independent(self, *joints: str) -> Model:
        """The same model with other independent joints in its loops: those named, and no others of the clusters they are in.

        A name is that of a joint, or of one component of it, as in `v_names_spanning`. Where these are not as many as a
        cluster has, they are meant for all clusters that hang on one another with it. Joints that are in no loop are
        independent anyway and may be named too: all motors of a robot, say.
        """
        chosen = {place for name in joints for place in self._velocities(name)}
        changed: dict[int, tuple[bool, ...]] = {}
        looped = [c for c in self.clusters if c.constraints]
        for cluster in looped:
            own = {(k, i) for k, i in chosen if k in cluster.bodies}
            alone = len(own) == len(cluster.independent)
            for c in looped if own else ():
                if c is cluster or (c.family[0] == cluster.family[0] and not alone):
                    changed |= {k: tuple((k, i) in chosen for i in range(self.joints[k].nv)) for k in c.bodies}
        new = tuple(replace(j, independent=changed.get(k, j.independent)) for k, j in enumerate(self.joints))
        model = replace(self, joints=new, kernels={})
        known = None if self.force_held else rechosen(model, self.clusters, self.neutral())
        if known:
            put(model, "clusters", known)
        _ = model.clusters  # a choice that does not determine the others is an error now
        return model

    def _velocities(self, name: str) -> list[tuple[int, int]]:
        """The velocities of the joint with this name, or the one velocity: the index of the joint, and the component."""
        components = {word: [(joint.child, i)] for joint in self.joints for i, word in enumerate(joint.v_names)}
        whole = {joint.name: [(joint.child, i) for i in range(joint.nv)] for joint in self.joints}
        found: list[tuple[int, int]] = self._named("joint", name, components | whole)
        return found

    def independent_at(self, q: Any) -> tuple[str, ...]:
        """The velocities in loops that are best taken as independent at a closed state q, (nq,): names as in `v_names`.

        The model's own choice where it is about as good. `with_independent` takes these names.
        """
        at = np.asarray(q, dtype=float)
        if at.shape != (self.nq,):
            raise ShapeError(f"independent_at: q has shape {at.shape}, not ({self.nq},)")
        found: list[str] = []
        postures: dict[tuple[int, ...], ClusterPosture] = {}
        for cluster in (c for c in self.clusters if c.constraints):
            below = postures[cluster.below.bodies] if cluster.below else None
            postures[cluster.bodies] = cluster_posture(self, cluster.bodies, at, below, cluster.supports)
            names = [name for k in cluster.bodies for name in self.joints[k].v_names]
            found += [names[c] for c in independent_at(self, cluster, at, below)]
        return tuple(found)

    def with_loops(self, *, constrain: Iterable[str] = (), embed: Iterable[str] = ()) -> Model:
        """The same mechanism with these loops and couplings force-held (`constrain`), or embedded in the coordinates."""
        known = {c.name: c for c in self.loops}
        known |= {loop.name: loop for cluster in self.clusters for loop in kept_loops(self, cluster)}
        chosen = {c.name for c in self.force_held}
        for names, change in ((constrain, chosen.add), (embed, chosen.discard)):
            for name in (names,) if isinstance(names, str) else names:
                change(self._named("loop", name, known).name)
        embedded = tuple(c.with_kept(None) for c in known.values() if c.name not in chosen)
        force_held = tuple(c for c in known.values() if c.name in chosen)
        model = replace(self, embedded=embedded, force_held=force_held, kernels={})
        _ = model.clusters  # what cannot be embedded is an error now
        return model

    def with_loop(
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
        embed: bool = True,
        start: Any = None,
        tolerance: float | None = None,
    ) -> Model:
        """The same mechanism with one loop joint more, between two links, frames or the world: see `LoopJoint`.

        Independent joints that were chosen before stay chosen where they still determine the motion. `start` and `tolerance`,
        for closing all loops, are as in `ModelBuilder.build`; if not given, they stay as they are.
        """
        more: dict[str, Any] = {"xyz": xyz, "rpy": rpy, "place": place, "embed": embed}
        more |= {"successor_xyz": successor_xyz, "successor_rpy": successor_rpy, "successor_place": successor_place}
        given = LoopJoint(name, kind, predecessor=predecessor, successor=successor, **more)
        changed: dict[str, Any] = {} if start is None else {"start": start_coordinates(self.joints, start, self.keyframes)}
        changed |= {} if tolerance is None else {"tolerance": checked_tolerance(tolerance)}
        loop = given.on(self._place_of)
        for end, word in zip(loop.ends, (predecessor, successor)):
            if end.body != GROUND and self.joints[end.body].kind.elastic and np.any(end.place.p):
                raise ModelError(
                    f"loop {name!r}: {word!r} is flexible: attach it to a frame that was added there when it was built"
                )
        return replace(self, **changed, kernels={})._with_constraint(loop, embed)

    def with_coupling(
        self,
        name: str,
        terms: Mapping[str, float] | None = None,
        *,
        offset: float = 0.0,
        predecessor: str | None = None,
        successor: str | None = None,
        ratio: float | None = None,
        embed: bool = True,
    ) -> Model:
        """The same mechanism with one coupling more, of joints or between two links: see `ModelBuilder.add_coupling`."""
        given = GivenCoupling.checked(name, terms, offset, predecessor, successor, ratio, embed)
        places = {joint.name: joint.child for joint in self.joints}
        fixed = {frame.joint for frame in self.frames}
        tree = Ancestors([joint.parent for joint in self.joints])
        found = given.on(lambda joint: moving_joint(name, joint, places, joint in fixed), self._place_of, self.joints, tree)
        return self._with_constraint(found, embed)

    def _place_of(self, name: str) -> tuple[int, Pose]:
        frame = self.frame(name)
        return frame.body, frame.place

    def _with_constraint(self, constraint: LoopConstraint, embed: bool) -> Model:
        """The same mechanism with one loop or coupling more."""
        if any(constraint.name == c.name for c in self.loops):
            raise ModelError(f"{shown(self.name)} has already a loop or coupling named {constraint.name!r}: names must differ")
        held = {"embedded": (*self.embedded, constraint)} if embed else {"force_held": (*self.force_held, constraint)}
        model = replace(self, **held, kernels={})  # type: ignore[arg-type]
        mine = {k for bodies, loops in find_families(self.joints, model.loops) if constraint in loops for k in bodies}
        before = [choice for k in sorted(mine) for choice in self.joints[k].choices]
        choices: list[dict[bool | None, bool | None]] = [{}]  # if those made before no longer fit, fewer of them
        choices += [{None: False}] if True in before and None in before else []
        choices += [{True: None}] if True in before else []
        choices += [{True: None, False: None}] if False in before else []
        for choice in choices:
            joints = [
                replace(j, independent=tuple(choice.get(x, x) for x in j.choices)) if j.child in mine else j
                for j in self.joints
            ]
            model = replace(model, joints=tuple(joints), kernels={})
            try:
                found = closing_notes(model, model.clusters)  # a loop that cannot be closed is an error now
                put(model, "notes", (*model.notes, *(note for note in found if note not in model.notes)))
                return model
            except (LimitError, CannotClose):
                raise
            except ModelError as error:
                told = error
        raise told

    def with_any_independent(self) -> Model:
        """The same model without chosen independent joints."""
        return replace(self, joints=tuple(replace(j, independent=None) for j in self.joints), kernels={})

    def spanning_tree(self) -> Model:
        """The same mechanism with its embedded loops open."""
        original = None if self.original is None else self.structure.spanning_tree()
        return replace(self, embedded=(), kernels={}, original=original)

    # parameters

    def parameters(self) -> dict[str, np.ndarray]:
        """The model's numbers by name, in the layout in which functions take them as `parameters=`.

        "mass" [kg], (bodies,); "center" of mass [m], (bodies, 3); "inertia" about it in the body's axes [kg m²], (bodies, 6):
        xx yy zz xy xz yz; "gravity" [m/s²], (3,); "armature", "damping", "stiffness" and "friction" of all joints of the tree,
        (nv_spanning,); "placement" of joints in the bodies that they hang on, (joints, 7): xyz [m] and quaternion xyzw;
        "ratio", the coefficients of couplings, term by term; "frame_placement", (frames, 7); and "loop_placement" of loop
        joints in predecessor and successor, (loop joints, 2, 7).
        """
        return parameters.read(self)

    def with_parameters(self, values: Mapping[str, Any]) -> Model:
        """The same model with other numbers for some parameters, of all bodies or joints ("mass") or one ("mass@link3")."""
        given = parameters.checked(self, values)
        changed = parameters.substituted(self, given)
        inertias = changed.pop("inertia_inputs")
        moved = {name.partition("@")[0] for name in given} & {"placement", "ratio", "loop_placement"}
        if moved and self.embedded:  # the same velocities stay independent
            free = set(self.v_names)
            looped = {k for c in self.clusters if c.constraints for k in c.bodies}
            joints = [
                replace(j, independent=tuple(name in free for name in j.v_names)) if k in looped and j.nv else j
                for k, j in enumerate(changed["joints"])
            ]
            changed["joints"] = tuple(joints)
        model = replace(self, **changed, kernels={})
        if not moved:
            put(model, "clusters", self.clusters)  # they are the same, and take time to find
        notes = (*self.notes, *(note for note in parameters.inconsistent_inertias(model, inertias) if note not in self.notes))
        put(model, "notes", notes)
        return model

    def inertial_parameters(self) -> np.ndarray:
        """The numbers in which dynamics are linear, (10 bodies,), for `inverse_dynamics_regressor`.

        For each of `bodies` in its own frame: mass m [kg], m c [kg m] (3) with c the centre of mass, then xx xy yy xz yz zz of
        the moment of inertia about the frame's origin [kg m²].
        """
        return inertial_parameters.read(self)

    def with_inertial_parameters(self, values: Any) -> Model:
        """The same model with other `inertial_parameters`, (10 bodies,)."""
        return self.with_parameters(inertial_parameters.as_parameters(self, values))

    def traced_with(self, values: Mapping[str, Any]) -> Model:
        """The same model with symbols for some of its parameters: for functions, while they are traced.

        What is given later takes the place of what was given before, also where one name stands for all bodies and one for one.
        """
        every = {name: x for name, x in self.parameter_inputs.items() if name not in values} | dict(values)
        own = parameters.substituted(self.structure, every)
        return replace(self, **own, kernels={}, original=self.structure, parameter_inputs=every)

    # other models of the same mechanism

    def weightless(self) -> Model:
        """The same mechanism without gravity, and without springs and dampers in its joints."""
        free = tuple(replace(j, damping=(0.0,) * j.nv, stiffness=(0.0,) * j.nv) for j in self.joints)
        model = replace(self, joints=free, gravity=(0.0, 0.0, 0.0), kernels={})
        put(model, "given_clusters", self.given_clusters)
        put(model, "clusters", self.clusters)  # they are the same, and take time to find
        return model

    def with_clusters(self, clusters: tuple[Cluster, ...]) -> Model:
        """The same mechanism with other independent velocities in its clusters: for algorithms, not for users."""
        model = replace(self, kernels={})
        put(model, "given_clusters", tuple(clusters))
        return model

    def partitioned(self, *joints: str, splits: Mapping[str, Any] | None = None) -> Model:
        """The same mechanism with hinges of several velocities as one velocity after the other (Partition Sec. 2).

        Between them are massless bodies; q, v, their names and all results stay what they are, only programs change. `joints`
        are named, or all joints of several velocities that are in no loop. A universal, gimbal or cylindrical joint becomes the
        joints that it is made of; of others each velocity stands for itself. `splits` has choices of your own by joint: joints
        one after the other, from the parent out, which are checked to be the same (Partition Eq. 5), or groups of velocities,
        as numbers or names. `forward_dynamics` takes the partition if that is cheaper, also where none is asked for.
        """
        model = replace(self, partition=partition.partitioned(self, joints, splits), kernels={})
        put(model, "given_clusters", self.given_clusters)
        put(model, "clusters", self.clusters)  # they are the same, and take time to find
        return model

    def unpartitioned(self) -> Model:
        """The same mechanism with one node for each hinge; of a flexible body, for its hinge and its deformation together."""
        whole = partition.joined_deformations(self)
        if self.partition == whole:
            return self
        model = replace(self, partition=whole, kernels={})
        put(model, "given_clusters", self.given_clusters)
        put(model, "clusters", self.clusters)
        return model

    def report(self) -> str:
        """A summary in words: bodies, joints, masses, frames, clusters, and everything unusual."""
        return report(self)
