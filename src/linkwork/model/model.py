"""Models of mechanisms: data, states, and variants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from linkwork.joints import Joint
from linkwork.loops.clusters import Cluster
from linkwork.model import (
    independent_joints,
    inertial_parameters,
    loop_variants,
    parameters,
    partition,
    states,
)
from linkwork.model.data import ModelData
from linkwork.model.loop_joints import (
    CouplingSpec,
    LoopJoint,
)
from linkwork.model.report import report
from linkwork.spatial import Pose
from linkwork.spatial.constants import set_frozen

T = TypeVar("T")


def cached_on_model(function: Callable[[Model], T]) -> Callable[[Model], T]:
    """Decorate a function of a model so that its result is computed once and cached on the model."""

    @wraps(function)
    def cached(model: Model) -> T:
        if function not in model.cache:
            model.cache.setdefault(function, function(model))
        return model.cache[function]

    return cached


@dataclass(frozen=True, eq=False, repr=False)
class Model(ModelData):
    __doc__ = ModelData.__doc__

    # states

    def tree_random(self, rng: np.random.Generator) -> np.ndarray:
        """Return random coordinates of all joints, (nq,); loops may be open."""
        return np.concatenate([np.zeros(0), *(joint.kind.random(rng) for joint in self.joints)])

    def neutral(self) -> np.ndarray:
        """Return the neutral coordinates, (nq,): zero joints or, in loops, the nearest closed configuration.

        Limits are kept where possible. The result is cached.

        Raises
        ------
        ClosureError
            If the loops cannot be closed.
        """
        return states.neutral(self)

    def random_state(
        self, rng: np.random.Generator | int | None = None, *, branch: str = "neutral"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return random coordinates within the limits, with every loop closed, and random velocities.

        Parameters
        ----------
        rng : numpy.random.Generator or int, optional
            Random generator or its seed.
        branch : {"neutral", "any"}
            With "neutral", loops stay on the assembly mode of `neutral()`: they are moved from there towards
            random independent coordinates as far as limits and singularities permit. With "any", loops are
            closed near random coordinates, on any assembly mode, and limits may be violated.

        Returns
        -------
        q : numpy.ndarray, shape (nq,)
            Coordinates.
        v : numpy.ndarray, shape (nv,)
            Velocities; those of constrained loops are consistent with the constraints.

        Examples
        --------
        >>> import linkwork as lw
        >>> q, v = lw.robots.four_bar().random_state(0)
        >>> q.shape, v.shape
        ((3,), (1,))
        """
        return states.random_state(self, np.random.default_rng(rng), branch)

    def with_independent(self, *joints: str) -> Model:
        """Return a copy whose loops have the independent joints named here.

        The independent joints of all other clusters stay as they are.

        Parameters
        ----------
        *joints : str
            Names of joints or of single components, as in `v_names_spanning`. If a cluster has more
            independent velocities than are named in it, the names apply to all coupled clusters together.
            Joints outside loops are always independent and may be named, too.

        Returns
        -------
        Model

        Raises
        ------
        ModelError
            If a name is unknown, or if the joints named do not determine the motion of the others.

        See Also
        --------
        independent_at : Recommend independent velocities for a configuration.
        """
        return independent_joints.with_independent(self, joints)

    def independent_at(self, q: Any) -> tuple[str, ...]:
        """Return names of well-conditioned independent velocities of all loops at a closed configuration.

        Parameters
        ----------
        q : array_like, shape (nq,)
            A configuration with closed loops.

        Returns
        -------
        tuple of str
            Names as in `v_names`, for `with_independent`. The present choice is kept where its conditioning
            is close to the best.
        """
        return independent_joints.at_configuration(self, np.asarray(q, dtype=float))

    def with_loops(self, *, constrain: Iterable[str] = (), embed: Iterable[str] = ()) -> Model:
        """Return a copy with some loops constrained or embedded.

        Parameters
        ----------
        constrain : str or iterable of str
            Names of loops and couplings to enforce by constraint forces; all their joints become independent.
        embed : str or iterable of str
            Names of loops and couplings to embed in the coordinates.

        Returns
        -------
        Model

        Raises
        ------
        ModelError
            If a name is unknown or a loop cannot be embedded.
        """
        return loop_variants.with_loops(self, constrain, embed)

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
        """Return a copy with one more loop joint.

        Independent joints chosen before stay independent if they still determine the motion.

        Parameters
        ----------
        name : str
            Name of the loop joint.
        kind : Joint
            Joint type from `linkwork.joints`.
        predecessor, successor : str
            Links, frames or "world" that the loop joint connects.
        xyz, rpy : sequence of float, shape (3,)
            Position [m] and roll, pitch, yaw [rad] of the joint frame in the predecessor.
        place : Pose, optional
            Pose of the joint frame in the predecessor, instead of `xyz` and `rpy`.
        successor_xyz, successor_rpy, successor_place
            The joint frame in the successor; both frames coincide at neutral joint coordinates.
        embed : bool
            Embed the loop in the coordinates (default), or enforce it by constraint forces.
        start, tolerance
            As in `ModelBuilder.build`; unchanged by default.

        Returns
        -------
        Model

        Raises
        ------
        ModelError
            If an argument is invalid.
        ClosureError
            If the loops cannot be closed.

        See Also
        --------
        LoopJoint : The same arguments as a value, for `linkwork.load`.
        """
        placement: dict[str, Any] = {"xyz": xyz, "rpy": rpy, "place": place, "embed": embed}
        placement |= {
            "successor_xyz": successor_xyz,
            "successor_rpy": successor_rpy,
            "successor_place": successor_place,
        }
        spec = LoopJoint(name, kind, predecessor=predecessor, successor=successor, **placement)
        return loop_variants.with_loop(self, spec, start, tolerance)

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
        """Return a copy with one more coupling of joints or links.

        Parameters
        ----------
        name : str
            Name of the coupling.
        terms : mapping of str to float, optional
            Coefficients by joint name: Σ coefficient · coordinate = offset.
        offset : float
            Constant offset [rad or m].
        predecessor, successor, ratio : optional
            Instead of `terms`: see `ModelBuilder.add_coupling`.
        embed : bool
            Embed the coupling in the coordinates (default), or enforce it by constraint forces.

        Returns
        -------
        Model
        """
        spec = CouplingSpec.checked(name, terms, offset, predecessor, successor, ratio, embed)
        return loop_variants.with_coupling(self, spec)

    def with_any_independent(self) -> Model:
        """Return a copy without user-selected independent joints."""
        return replace(self, joints=tuple(replace(j, independent=None) for j in self.joints), kernels={})

    def spanning_tree(self) -> Model:
        """Return a copy with its embedded loops open."""
        nominal_model = None if self.nominal_model is None else self.nominal.spanning_tree()
        return replace(self, embedded=(), kernels={}, nominal_model=nominal_model)

    # parameters

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the parameters of the model by name, in the layout of `parameters=` of all functions.

        Returns
        -------
        dict of str to numpy.ndarray
            "mass" [kg], (bodies,); "center" of mass in the body frame [m], (bodies, 3); "inertia" about the
            centre of mass in the body axes [kg m²], (bodies, 6), as xx yy zz xy xz yz; "gravity" [m/s²],
            (3,); "armature", "damping", "stiffness" and "friction" of all tree joints, (nv_spanning,);
            "placement" of joints in their parent bodies, (joints, 7), as xyz [m] and quaternion xyzw;
            "ratio", the coefficients of all terms of couplings; "frame_placement", (frames, 7);
            "loop_placement" of loop joints in predecessor and successor, (loop joints, 2, 7). Kinds without
            entries, such as "ratio" of a model without couplings, are left out.
        """
        return parameters.read(self)

    def with_parameters(self, values: Mapping[str, Any]) -> Model:
        """Return a copy with other values of some parameters.

        Parameters
        ----------
        values : mapping of str to array_like
            Values by name, of all bodies or joints ("mass") or of one ("mass@link3"), in the layout of
            `parameters()`.

        Returns
        -------
        Model
        """
        return parameters.replaced(self, values)

    def inertial_parameters(self) -> np.ndarray:
        """Return the inertial parameters in which the dynamics are linear, (10 · bodies,).

        For each of `bodies` in its own frame: mass m [kg], first moment m c [kg m], (3,), with c the centre
        of mass, and xx xy yy xz yz zz of the moment of inertia about the frame origin [kg m²]. See
        `inverse_dynamics_regressor`.
        """
        return inertial_parameters.read(self)

    def with_inertial_parameters(self, values: Any) -> Model:
        """Return a copy with other `inertial_parameters`, (10 · bodies,)."""
        return self.with_parameters(inertial_parameters.as_parameters(self, values))

    def traced_with(self, values: Mapping[str, Any]) -> Model:
        """Return a copy with symbols for some parameters, used while functions are traced.

        Later values replace earlier ones, also where one name stands for all bodies and another for one of
        them.
        """
        inputs = {name: x for name, x in self.parameter_inputs.items() if name not in values} | dict(values)
        fields = parameters.substituted(self.nominal, inputs)
        return replace(self, **fields, kernels={}, nominal_model=self.nominal, parameter_inputs=inputs)

    # other models of the same mechanism

    def without_passive_forces(self) -> Model:
        """Return a copy without gravity, springs, dampers and elastic forces."""
        free = tuple(
            replace(j, kind=j.kind.without_elasticity(), damping=(0.0,) * j.nv, stiffness=(0.0,) * j.nv)
            for j in self.joints
        )
        model = replace(self.without_body_loads(), joints=free, gravity=(0.0, 0.0, 0.0), kernels={})
        set_frozen(model, "clusters_override", self.clusters_override)
        set_frozen(model, "clusters", self.clusters)  # unchanged, and expensive to compute
        return model

    def without_body_loads(self, *, tendons_only: bool = False) -> Model:
        """Return a copy without spatial tendons and, unless `tendons_only`, without compensated weights."""
        if not (self.tendons if tendons_only else self.has_body_loads or self.tendons):
            return self
        compensations = self.weight_compensations if tendons_only else ()
        model = replace(self, tendons=(), weight_compensations=compensations, kernels={})
        set_frozen(model, "clusters_override", self.clusters_override)
        set_frozen(model, "clusters", self.clusters)  # unchanged, and expensive to compute
        return model

    def with_clusters(self, clusters: tuple[Cluster, ...]) -> Model:
        """Return a copy with other clusters, for algorithms that change the independent velocities."""
        model = replace(self, kernels={})
        set_frozen(model, "clusters_override", tuple(clusters))
        return model

    def partitioned(self, *joints: str, splits: Mapping[str, Any] | None = None) -> Model:
        """Return a copy whose multi-DoF hinges are partitioned into single velocities (Partition Sec. 2).

        Massless bodies lie between the parts; q, v, their names and all results stay the same, and only the
        compiled programs change. `forward_dynamics` uses a partition by itself where that takes fewer
        operations.

        Parameters
        ----------
        *joints : str
            Joints to partition; by default all multi-DoF joints outside loops. Universal, gimbal and
            cylindrical joints become the joints they consist of; other joints are split into their
            velocities.
        splits : mapping, optional
            Custom splits by joint: a sequence of joints from the parent outwards, which are checked to be
            equivalent (Partition Eq. 5), or groups of velocities, as numbers or names.

        Returns
        -------
        Model
        """
        model = replace(self, partition=partition.partitioned(self, joints, splits), kernels={})
        set_frozen(model, "clusters_override", self.clusters_override)
        set_frozen(model, "clusters", self.clusters)  # unchanged, and expensive to compute
        return model

    def unpartitioned(self) -> Model:
        """Return a copy with one node per hinge, joining the hinge and deformation of flexible bodies."""
        joined = partition.joined_deformations(self)
        if self.partition == joined:
            return self
        model = replace(self, partition=joined, kernels={})
        set_frozen(model, "clusters_override", self.clusters_override)
        set_frozen(model, "clusters", self.clusters)
        return model

    def report(self) -> str:
        """Return a summary in words: bodies, joints, masses, frames, clusters, and everything unusual."""
        return report(self)
