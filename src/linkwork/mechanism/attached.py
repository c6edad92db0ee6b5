"""Data that files attach to a mechanism: keyframes, actuators, shapes and contact pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from linkwork.mechanism.tree import GROUND
from linkwork.spatial import Pose
from linkwork.spatial.constants import frozen, set_frozen

T = TypeVar("T")
SHAPES = (
    "point",
    "sphere",
    "capsule",
    "box",
    "ellipsoid",
    "cylinder",
    "hull",
    "plane",
    "heightfield",
    "mesh",
)
IDENTITY = Pose.identity().frozen()
NONE = frozen(np.zeros(0))


class Named(Mapping[str, T], Generic[T]):
    """Immutable mapping of values by name, in the order of the file."""

    __slots__ = ("_items",)
    _items: dict[str, T]

    def __init__(
        self, items: Mapping[str, T] | Iterator[tuple[str, T]] | tuple[tuple[str, T], ...] = ()
    ) -> None:
        set_frozen(self, "_items", dict(items))

    def __getitem__(self, name: str) -> T:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot change {name!r}: these are the values of a model")

    def __reduce__(self) -> Any:
        return Named, (tuple(self._items.items()),)

    def __repr__(self) -> str:
        return f"Named({self._items!r})"


class _State(NamedTuple):
    q: np.ndarray
    v: np.ndarray


class Keyframe(_State):
    """A named state of a file: the pair of q, (nq,), and v of all joints of the tree, (nv_spanning,).

    Numbers are those of the file, so loops may be open by their rounding. `controls` and `activations` are
    those of the model's actuators, (actuators,) each, zero where the file has none.
    """

    controls: np.ndarray
    activations: np.ndarray

    def __new__(
        cls, q: np.ndarray, v: np.ndarray, controls: np.ndarray = NONE, activations: np.ndarray = NONE
    ) -> Keyframe:
        """Return a keyframe."""
        keyframe = super().__new__(cls, q, v)
        keyframe.controls = controls
        keyframe.activations = activations
        return keyframe


@dataclass(frozen=True)
class Actuator:
    """A motor as described in a file.

    `lw.actuation` computes the joint forces of all actuators of a model, and `lw.Controls` applies them in
    time steps. If the actuator drives single-DoF joints, directly or by a fixed tendon, `joints` holds their
    names and ratios: a force f of the actuator is ratio · f in the joint. Otherwise `target` names a ball or
    free joint, a site, a body or a spatial tendon. Gain, bias and dynamics are those of MuJoCo: force =
    gain(length, velocity) x + bias(length, velocity) with x the control, or the activation if there are
    dynamics.
    """

    name: str
    transmission: str  # "joint", "tendon", "site", "body", ...
    target: str
    joints: tuple[tuple[str, float], ...] = ()
    gear: tuple[float, ...] = (1.0,)
    control_range: tuple[float, float] = (-np.inf, np.inf)
    force_range: tuple[float, float] = (-np.inf, np.inf)
    gain: tuple[str, tuple[float, ...]] = ("fixed", (1.0,))
    bias: tuple[str, tuple[float, ...]] = ("none", ())
    dynamics: tuple[str, tuple[float, ...]] = ("none", ())
    length: float = 0.0  # at the model's coordinates 0 [m or rad]
    activation_range: tuple[float, float] = (-np.inf, np.inf)
    length_range: tuple[float, float] = (0.0, 0.0)  # of a muscle [m or rad]
    acceleration: float = 0.0  # caused by unit force at the file's start; scales the strength of muscles
    enabled: bool = True  # if False, the force is zero
    reference: str = ""  # the frame relative to which a site is driven, in its axes; "": the world
    unread: str = ""  # elements that are not stored, without which the force is unknown


@dataclass(frozen=True, eq=False)
class Geometry:
    """A shape on a body, for visualization and contact. Mesh files are stored by name and not opened.

    Parameters
    ----------
    name : str
        Name of the shape.
    body : int
        Index of the body that carries it; -1 is the world.
    place : Pose
        Pose of the shape in the frame of the body, or of `link`.
    shape : str
        "point", "sphere", "box", "capsule", "cylinder", "ellipsoid", "hull", "mesh", "plane" or
        "heightfield".
    size : sequence of float
        Box: three edges. Sphere: radius. Cylinder and capsule: radius, and length (of the straight part)
        along z. Ellipsoid: three radii. Plane: half of the edges, 0 for infinite. Height field: edges along x
        and y [m].
    mesh : str
        Name of a mesh file as in the file of the model (MJCF: relative to its `meshdir`).
    scale : sequence of float, shape (3,)
        Scale of the mesh.
    visual, collision : bool
        Whether the shape is drawn and whether it may touch others.
    friction : sequence of float
        Sliding, torsional [m] and rolling [m] friction coefficients. Default: those of the other shape.
    rgba : sequence of float, shape (4,), optional
        Colour.
    contype, conaffinity : int
        Bit masks of contact, as in MuJoCo.
    condim : int
        Dimension of contact as in MuJoCo: 1 frictionless, 3 sliding, 4 torsional, 6 rolling friction.
    margin : float
        Distance at which the shape touches others [m].
    link : str
        Name of the link to which a builder or `Contacts` attaches the shape; not compared.
    vertices : sequence of float, shape (n, 3)
        Points whose convex hull is a "hull" [m].
    heights : sequence of float, shape (rows, columns)
        Heights of a "heightfield" [m], rows along y and columns along x.
    """

    name: str
    body: int = GROUND  # index of a body, or GROUND
    place: Pose = IDENTITY
    shape: str = "point"  # one of SHAPES
    size: tuple[float, ...] = ()
    mesh: str = ""
    scale: tuple[float, ...] = (1.0, 1.0, 1.0)
    visual: bool = True
    collision: bool = True
    friction: tuple[float, ...] = ()
    rgba: tuple[float, ...] | None = None
    contype: int = 1  # shapes collide where one's contype and the other's conaffinity have a bit in common
    conaffinity: int = 1
    condim: int = 3
    margin: float = 0.0  # [m]
    link: str = field(default="", compare=False)  # of the file
    vertices: tuple[tuple[float, ...], ...] = ()
    heights: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        set_frozen(self, "place", self.place.frozen())
        for word in ("size", "friction"):
            value = getattr(self, word)
            set_frozen(self, word, (value,) if np.ndim(value) == 0 else tuple(value))
        for word in ("vertices", "heights"):
            set_frozen(self, word, tuple(tuple(map(float, row)) for row in getattr(self, word)))

    def _values(self) -> tuple[Any, ...]:
        others = [getattr(self, each.name) for each in fields(self) if each.name != "place"]
        return (self.place.R.tobytes(), self.place.p.tobytes(), *others)

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, Geometry) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())


@dataclass(frozen=True)
class ContactPair:
    """Two shapes with contact parameters of their own, or two bodies excluded from contact.

    Parameters
    ----------
    first, second : str
        Names of shapes; of bodies if `excluded`.
    excluded : bool
        Whether the two bodies never touch.
    friction : sequence of float, optional
        Sliding, torsional [m] and rolling [m] coefficients. Default: those of the shapes.
    condim : int
        Dimension of contact as in MuJoCo: 1 frictionless, 3 sliding, 4 torsional, 6 rolling friction.
    margin : float
        Gap at which the shapes touch [m].
    """

    first: str
    second: str
    excluded: bool = False
    friction: tuple[float, ...] = ()
    condim: int = 3
    margin: float = 0.0
