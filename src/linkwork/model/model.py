"""The model of a mechanism: frozen, hashed by content, picklable by value."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.model.loops import Constraint
from linkwork.model.names import did_you_mean
from linkwork.model.parts import GROUND, WORLD, Body, Frame, PlacedJoint
from linkwork.spatial import Inertia, Pose

WIDE = 1e3  # limits as far away as this [rad or m] bound nothing: files write 1e16 for none

if TYPE_CHECKING:
    from linkwork.model.clusters import Cluster


@dataclass(frozen=True, eq=False)
class Model:
    """A mechanism: bodies, the joints that move them, named frames, and gravity [m/s²] in the axes of the world.

    Body k is moved by joint k, and its parent comes before it. Models are equal if they say the same, whatever they were
    made from. `ModelBuilder` and `load` make them.
    """

    name: str
    bodies: tuple[Body, ...]
    joints: tuple[PlacedJoint, ...]
    frames: tuple[Frame, ...]
    gravity: tuple[float, ...]
    notes: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
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
        from linkwork.model.clusters import clusters_of

        return clusters_of(self)

    @cached_property
    def lumped(self) -> tuple[tuple[Inertia, bool], ...]:
        """The inertia that is carried by each body's node, and whether the body is a rotor (see `rotors`)."""
        from linkwork.model.rotors import lumped

        return lumped(self)

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
        raise ModelError(f"{self.name} has no {what} named {name!r}{did_you_mean(name, table)}")

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
        return self._closed(self._random_tree(rng), rng), rng.normal(size=self.nv)

    def _closed(self, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The same coordinates with every loop closed; where that fails, by others."""
        from linkwork.model.clusters import CLOSED, close

        for cluster in self.clusters if self.constraints else ():
            for _ in range(100 if cluster.constraints else 0):
                closed, miss = close(self, cluster.bodies, cluster.constraints, q)
                if miss < CLOSED:
                    q = closed
                    break
                other = self._random_tree(rng)
                for k in cluster.bodies:
                    q[self.joints[k].q_slice] = other[self.joints[k].q_slice]
        return q

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
        """The same model with other independent joints in its loops: those named, and no others of the clusters they are in."""
        chosen = {self.joint(name).child for name in joints}
        changed = {k: k in chosen for c in self.clusters if c.constraints and chosen & set(c.bodies) for k in c.bodies}
        for k in chosen - set(changed):
            raise ModelError(f"joint {self.joints[k].name!r} is in no loop: it is independent anyway")
        new = tuple(replace(j, independent=changed.get(k, j.independent)) for k, j in enumerate(self.joints))
        model = replace(self, joints=new, kernels={})
        _ = model.clusters  # a choice that does not determine the others is told now
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
        said = (self.name, self.bodies, self.joints, self.frames, self.gravity, self.constraints)
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
