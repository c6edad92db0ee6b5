"""The model of a mechanism: frozen, hashed by content, picklable by value."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.model.loops import Constraint, Loop
from linkwork.model.names import did_you_mean, shown
from linkwork.model.parts import GROUND, WORLD, Body, Frame, PlacedJoint
from linkwork.spatial import Inertia, Pose

WIDE = 1e3  # limits as far away as this [rad or m] bound nothing: files write 1e16 for none

if TYPE_CHECKING:
    from linkwork.model.clusters import Cluster
    from linkwork.model.described import Described
    from linkwork.model.rotors import Lumped


@dataclass(frozen=True, eq=False)
class Model:
    """A mechanism: bodies, the joints that move them, named frames, and gravity [m/s²] in the axes of the world.

    Body k is moved by joint k, and its parent comes before it. `constraints` are loops and couplings that are embedded in the
    coordinates; those in `held` are upheld by forces, and leave all velocities independent. Models are equal if they say the
    same, whatever they were made from. `ModelBuilder` and `load` make them.
    """

    name: str
    bodies: tuple[Body, ...]
    joints: tuple[PlacedJoint, ...]
    frames: tuple[Frame, ...]
    gravity: tuple[float, ...]
    notes: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    held: tuple[Constraint, ...] = ()
    kernels: dict[Any, Any] = field(default_factory=dict, repr=False)  # what was compiled for this model, in this process

    def __post_init__(self) -> None:
        for part in (*(j.place for j in self.joints), *(f.place for f in self.frames)):
            part.R.flags.writeable = part.p.flags.writeable = False
        for body in self.bodies:
            for block in (body.inertia.A, body.inertia.B, body.inertia.D):
                block.flags.writeable = False

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
        if not self.constraints:
            return sum(j.nq for j in self.joints), sum(j.nv for j in self.joints)
        return sum(j.nq for j in self.joints), sum(len(c.independent) for c in self.clusters)

    @cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """Groups of bodies that loops hold together, parents before children; most bodies are alone."""
        from linkwork.model.analysis import clusters_of

        return clusters_of(self)

    @cached_property
    def lumped(self) -> tuple[Lumped, ...]:
        """The constant inertia of each body with its rotors, and what it is as a rotor (see `rotors`)."""
        from linkwork.model.rotors import lumped

        return lumped(self)

    @cached_property
    def described(self) -> tuple[Described, ...]:
        """Each body as nodes describe it, in frames for which programs are short."""
        from linkwork.model.described import shortly

        return shortly(self)

    @cached_property
    def regrouped(self) -> tuple[Described, ...]:
        """The same, with forces of bodies whose mass that hinges do not notice is moved to the body below."""
        from linkwork.model.described import regrouped

        return regrouped(self)

    @cached_property
    def v_names(self) -> tuple[str, ...]:
        """The joint (and component) behind each entry of v."""
        found = []
        for cluster in self.clusters:
            names = [name for k in cluster.bodies for name in self.joints[k].v_names]
            found += [names[c] for c in cluster.independent]
        return tuple(found)

    @property
    def mass(self) -> float:
        """Of all bodies that can move [kg]."""
        return sum(body.mass for body in self.bodies)

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

    # states

    def tree_neutral(self) -> np.ndarray:
        """The coordinates with every joint neutral, whether or not loops are closed, (nq,)."""
        return np.concatenate([np.zeros(0), *(joint.kind.neutral() for joint in self.joints)])

    def tree_random(self, rng: np.random.Generator) -> np.ndarray:
        """Random coordinates, whether or not loops are closed, (nq,)."""
        return np.concatenate([np.zeros(0), *(joint.kind.random(rng) for joint in self.joints)])

    def neutral(self) -> np.ndarray:
        """The coordinates with every joint neutral, or, in loops, the closed ones nearest to that, (nq,)."""
        return self._closed(self.tree_neutral(), np.random.default_rng(0))

    def random_state(self, rng: np.random.Generator | int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Random q, (nq,), within the limits, and random v, (nv,)."""
        rng = np.random.default_rng(rng)
        q = self._closed(self._random_tree(rng), rng)
        v = rng.normal(size=self.nv)
        return q, self._allowed(q, v) if self.held else v

    def _closed(self, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The same coordinates with every loop closed; where that fails, by others."""
        from linkwork.model.analysis import CLOSED, close, close_family
        from linkwork.model.clusters import find_families

        if self.held:  # embedded loops and others at once
            groups = find_families(self.joints, (*self.constraints, *self.held))
            closing = [(bodies, partial(close, self, bodies, loops)) for bodies, loops in groups if loops]
        else:
            families: dict[int, list[Cluster]] = {}  # clusters that stand on several bodies of one another
            for cluster in self.clusters if self.constraints else ():
                if cluster.constraints:
                    families.setdefault(cluster.family[0], []).append(cluster)
            closing = [([k for c in f for k in c.bodies], partial(close_family, self, f)) for f in families.values()]
        for bodies, closed_near in closing:
            for _ in range(100):
                closed, miss = closed_near(q)
                if miss < CLOSED:
                    q = closed
                    break
                other = self._random_tree(rng)
                for joint in (self.joints[k] for k in bodies):
                    q[joint.q_slice] = other[joint.q_slice]
        return q

    def _allowed(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The velocities v, (nv,), less what loops in `held` forbid."""
        from linkwork.model.analysis import RANK
        from linkwork.model.clusters import find_families
        from linkwork.model.embedding import all_equations, cluster_motion

        places = {name: k for k, name in enumerate(self.v_names)}
        for bodies, constraints in find_families(self.joints, (*self.constraints, *self.held)):
            if set(constraints) & set(self.held):
                K = all_equations(cluster_motion(self, bodies, q), constraints)[0].astype(float)
                names = [name for k in bodies for name in self.joints[k].v_names]
                own = np.array([v[places[name]] if name in places else 0.0 for name in names])
                own -= np.linalg.pinv(K, rcond=RANK) @ (K @ own)
                for name, x in zip(names, own):
                    if name in places:
                        v[places[name]] = x
        return v

    def _random_tree(self, rng: np.random.Generator) -> np.ndarray:
        """Random coordinates within the limits where they are finite, whether or not loops are closed, (nq,)."""
        q = [np.zeros(0)]
        for joint in self.joints:
            lower, upper = np.array(joint.lower), np.array(joint.upper)
            anywhere = joint.kind.random(rng)
            bounded = (np.abs(lower) < WIDE) & (np.abs(upper) < WIDE)
            within = rng.uniform(np.where(bounded, lower, 0.0), np.where(bounded, upper, 1.0))
            q.append(np.where(bounded, within, np.clip(anywhere, lower, upper)))
        return np.concatenate(q)

    def with_independent(self, *joints: str) -> Model:
        """The same model with other independent joints in its loops: those named, and no others of the clusters they are in.

        Where these are not as many as a cluster has, they are meant for all clusters that stand on one another with it.
        """
        chosen = {self.joint(name).child for name in joints}
        changed: dict[int, bool] = {}
        looped = [c for c in self.clusters if c.constraints]
        for cluster in looped:
            own = chosen & set(cluster.bodies)
            alone = sum(self.joints[k].nv for k in own) == len(cluster.independent)
            for c in looped if own else ():
                if c is cluster or (c.family[0] == cluster.family[0] and not alone):
                    changed |= {k: k in chosen for k in c.bodies}
        for k in chosen - set(changed):
            raise ModelError(f"joint {self.joints[k].name!r} is in no loop: it is independent anyway")
        new = tuple(replace(j, independent=changed.get(k, j.independent)) for k, j in enumerate(self.joints))
        model = replace(self, joints=new, kernels={})
        _ = model.clusters  # a choice that does not determine the others is told now
        return model

    def with_loops(self, *, constrain: Iterable[str] = (), embed: Iterable[str] = ()) -> Model:
        """The same mechanism with these loops and couplings upheld by forces (`constrain`), or embedded in the coordinates."""
        from linkwork.model.analysis import kept_loops

        known = {c.name: c for c in (*self.constraints, *self.held)}
        known |= {loop.name: loop for cluster in self.clusters for loop in kept_loops(self, cluster)}
        held = {c.name for c in self.held}
        for names, change in ((constrain, held.add), (embed, held.discard)):
            for name in (names,) if isinstance(names, str) else names:
                change(self._named("loop", name, known).name)
        embedded = tuple(replace(c, kept=None) if isinstance(c, Loop) else c for c in known.values() if c.name not in held)
        upheld = tuple(c for c in known.values() if c.name in held)
        model = replace(self, constraints=embedded, held=upheld, kernels={})
        _ = model.clusters  # what cannot be embedded is told now
        return model

    def without_wishes(self) -> Model:
        """The same model without a say in which joints are independent."""
        return replace(self, joints=tuple(replace(j, independent=None) for j in self.joints), kernels={})

    def weightless(self) -> Model:
        """The same mechanism without gravity, and without springs and dampers in its joints."""
        free = tuple(replace(j, damping=(0.0,) * j.nv, stiffness=(0.0,) * j.nv) for j in self.joints)
        model = replace(self, joints=free, gravity=(0.0, 0.0, 0.0), kernels={})
        model.__dict__["clusters"] = self.clusters  # they are the same, and take time to find
        return model

    def described_by(self, clusters: tuple[Cluster, ...]) -> Model:
        """The same mechanism with its clusters' velocities described by others: for algorithms, not for users."""
        model = replace(self, kernels={})
        model.__dict__["clusters"] = clusters  # in the place of those that it would find
        return model

    def report(self) -> str:
        """What was read, in words: bodies, joints, masses, frames, and everything unusual."""
        from linkwork.model.report import report  # it asks the nodes, which ask the model

        return report(self)

    # as a value

    @cached_property
    def digest(self) -> str:
        """A hash of everything that the model says; notes on how it was read do not count."""
        said = (self.name, self.bodies, self.joints, self.frames, self.gravity, self.constraints, self.held)
        return hashlib.sha256(_canonical(said).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Model) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"kernels": {}}  # machine code stays here

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __repr__(self) -> str:
        return f"<linkwork model {self.name!r}: {len(self.bodies)} bodies, nq {self.nq}, nv {self.nv}>"


def _constant(value: Any) -> Any:
    """What a function has captured, as something that can be compared; only by its words where it is nothing known."""
    known = (str, int, float, tuple, list, type(None), np.ndarray, np.generic, CodeType, FunctionType, Pose, Inertia)
    return value if isinstance(value, known) else repr(value)


def _canonical(value: Any) -> str:
    """The same text for the same content, in every process."""
    if isinstance(value, float):
        return (value + 0.0).hex()
    if isinstance(value, str):
        return repr(str(value))
    if isinstance(value, (int, type(None))):
        return repr(value)
    if isinstance(value, np.ndarray):
        return _canonical(value.astype(float).ravel().tolist())
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(_canonical, value))})"
    if isinstance(value, Pose):
        return _canonical((value.R, value.p))
    if isinstance(value, Inertia):
        return _canonical((value.mass, value.h, value.A))
    if isinstance(value, CodeType):  # not by its repr, which names a place in memory
        said = (value.co_code.hex(), value.co_names, value.co_varnames, *map(_constant, value.co_consts))
        return f"code{_canonical(said)}"
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        said = (value.__module__, value.__qualname__, value.__code__, *map(_constant, (value.__defaults__ or (), *cells)))
        return f"function{_canonical(said)}"
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        return f"{kind.__module__}.{kind.__qualname__}{_canonical([getattr(value, f.name) for f in fields(value)])}"
    if isinstance(value, np.generic):
        return _canonical(value.item())
    raise ModelError(f"a model cannot hold a {type(value).__name__}: {value!r}")
