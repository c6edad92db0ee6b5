"""Constraints between two frames: welds, connections, single directions, planes, rolling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from linkwork.constraints.anchors import Displaced, PlaceInWorld, coordinates, relative_pose
from linkwork.constraints.constraint import NO_GAINS, Constraint, Gains
from linkwork.constraints.relative_motion import BodyKinematics, RelativeMotion
from linkwork.constraints.rows import Rows
from linkwork.errors import ModelError
from linkwork.mechanism import GROUND, WORLD, Frame
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.spatial import cross
from linkwork.spatial.constants import length, product, real_or_nan, set_frozen

NAMES = ("wx", "wy", "wz", "x", "y", "z")


class BetweenFrames(Constraint):
    """A constraint on the motion of `frame` relative to `to`.

    `to` is the name of a frame, "world", or a pose in the world (`Pose`, or (4, 4)). Gains pull the frame to
    `to` or, with `at`, to its pose relative to `to` in the state `at`, (nq,).

    The rows are c_w · (relative angular velocity) + c_v · (velocity of the frame's origin relative to the
    coinciding point of `to`). `c_w` and `c_v`, (m, 3), are in the axes of the frame or, unless `in_frame`, in
    those of `to`.
    """

    frame: str
    to: Any
    gains: Gains
    at: Any
    in_frame: bool = True
    rotation_invariant: ClassVar[bool] = False  # its rows span whole vectors: rotating directions add no bias
    origin_fixed: bool = False  # its rows constrain the frame's origin in all directions of `to`
    needs_anchor: ClassVar[bool] = True  # the origin of the world is not what its gains are meant to pull to

    def __post_init__(self) -> None:
        Gains.check(self.gains)
        label = f"{type(self).__name__}({self.frame!r})"
        if self.at is not None:
            set_frozen(self, "at", coordinates(label, self.at))
        elif self.to is None and self.gains.stiffness and self.needs_anchor:
            raise ModelError(
                f"{label}: expected an anchor for the stiffness of gains, got none; give at=q for the "
                "pose at q, or to= a pose or a frame (to='world' is the origin of the world)"
            )
        if self.to is None:
            set_frozen(self, "to", WORLD)
        elif not isinstance(self.to, str):
            set_frozen(self, "to", PlaceInWorld.of(label, self.to))

    def coefficients(self, seen: RelativeMotion) -> tuple[np.ndarray, np.ndarray]:
        """Return c_w and c_v, (m, 3) each."""
        raise NotImplementedError

    def coefficient_bias(self, seen: RelativeMotion) -> Any:
        """Return the bias due to the rate of change of c_w and c_v, (m,)."""
        return 0.0

    def error(self, seen: RelativeMotion | Displaced) -> Any:
        """Return the position error of each row, (m,); zero for nonholonomic rows."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """Its rows' names."""
        return NAMES[3:]

    def labels(self, model: Model) -> tuple[str, ...]:
        self.ends(model)
        return tuple(f"{self.frame}.{name}" for name in self.names)

    def ends(self, model: Model) -> tuple[Frame, Frame]:
        """Return the two frames; raise ModelError if they cannot move relative to each other."""
        frame = model.frame(self.frame)
        to = self.to.frame if isinstance(self.to, PlaceInWorld) else model.frame(self.to)
        if self.at is not None and len(self.at) != model.nq:
            raise ModelError(
                f"{self}: `at`: expected the {model.nq} coordinates of {printable(model.name)}, got "
                f"{len(self.at)}"
            )
        if frame.body == to.body:
            where = (
                "fixed to the ground"
                if frame.body == GROUND
                else f"on the same body {model.bodies[frame.body].name!r}"
            )
            raise ModelError(f"{self}: both frames are {where}, which leaves nothing to constrain")
        return frame, to

    def bodies(self, model: Model) -> tuple[int, ...]:
        return tuple(end.body for end in self.ends(model) if end.body != GROUND)

    def equations(self, model: Model, kinematics: BodyKinematics) -> Rows:
        seen = RelativeMotion(kinematics, *self.ends(model))
        c_w, c_v = self.coefficients(seen)
        nodes, bias = seen.acceleration_rows(c_w, c_v, in_frame=self.in_frame)
        if not self.rotation_invariant:
            bias = bias - self._turning(seen, c_w, c_v) + self.coefficient_bias(seen)
        return Rows(nodes, (), self._target(model, seen, c_w, c_v) - bias)

    def violation(self, model: Model, kinematics: BodyKinematics) -> Any:
        return self._error(model, RelativeMotion(kinematics, *self.ends(model)))

    def _error(self, model: Model, seen: RelativeMotion) -> Any:
        """Return the position error of each row relative to the state `at`, if there is one, (m,)."""
        return self.error(
            seen if self.at is None else Displaced(seen, relative_pose(model, *self.ends(model), self.at))
        )

    def _turning(self, seen: RelativeMotion, c_w: np.ndarray, c_v: np.ndarray) -> Any:
        """Return the bias of rotating row directions and of the changing contact point of T at F's origin."""
        W = seen.W
        wT = seen.wT
        U = np.zeros(3) if self.origin_fixed else seen.U
        if not self.in_frame:
            return product(c_w, cross(wT, W)) + product(c_v, 2.0 * cross(wT, U))
        wF = wT + W
        return product(c_w, product(seen.R.T, cross(wF, W))) + product(
            c_v, product(seen.R.T, cross(wT + wF, U))
        )

    def _target(self, model: Model, seen: RelativeMotion, c_w: np.ndarray, c_v: np.ndarray) -> Any:
        target: Any = np.zeros(len(c_w), dtype=object)
        if self.gains.stiffness:
            target = target - self.gains.stiffness * self._error(model, seen)
        if self.gains.damping:
            W, U = (
                (product(seen.R.T, seen.W), product(seen.R.T, seen.U)) if self.in_frame else (seen.W, seen.U)
            )
            target = target - self.gains.damping * (product(c_w, W) + product(c_v, U))
        return target


@final
@dataclass(frozen=True)
class Weld(BetweenFrames):
    """No motion of a frame relative to another: six rows [wx wy wz x y z], in the axes of the frame.

    Parameters
    ----------
    frame : str
        Name of the constrained frame.
    to : str, Pose or array_like, shape (4, 4), optional
        The other frame, or a pose in the world. Default: the world.
    gains : Gains, optional
        Baumgarte stabilization of the pose. Default none.
    at : array_like, shape (nq,), optional
        State in which the constraint is satisfied; gains pull towards the relative pose in it, instead of
        towards coincident frames.

    Examples
    --------
    >>> q = lw.robots.humanoid().neutral()
    >>> weld = lw.Weld("left_sole", at=q, gains=lw.Gains(100.0, 20.0))
    """

    frame: str
    to: Any = None
    gains: Gains = NO_GAINS
    at: Any = None
    rotation_invariant = True
    names = NAMES

    def coefficients(self, seen: RelativeMotion) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(6)[:, :3], np.eye(6)[:, 3:]

    def error(self, seen: RelativeMotion | Displaced) -> Any:
        return np.concatenate([seen.own_rotation_vector, product(seen.R.T, seen.p)])


@final
@dataclass(frozen=True)
class Connect(BetweenFrames):
    """Coincident origins of two frames, as in a ball joint: three rows [x y z], in the axes of the frame.

    Parameters
    ----------
    frame : str
        Name of the constrained frame.
    to : str, Pose or array_like, shape (4, 4), optional
        The other frame, or a pose in the world. Default: the world.
    gains : Gains, optional
        Baumgarte stabilization of the position. Default none.
    at : array_like, shape (nq,), optional
        State in which the constraint is satisfied; gains pull towards the relative position in it.
    """

    frame: str
    to: Any = None
    gains: Gains = NO_GAINS
    at: Any = None
    rotation_invariant = True

    def coefficients(self, seen: RelativeMotion) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((3, 3)), np.eye(3)

    def error(self, seen: RelativeMotion | Displaced) -> Any:
        return product(seen.R.T, seen.p)


@final
@dataclass(frozen=True)
class Hold(BetweenFrames):
    """Zero velocity of a frame in selected directions.

    Parameters
    ----------
    frame : str
        Name of the constrained frame.
    rows : str or sequence of str
        Directions among wx, wy, wz, x, y and z, such as "x y wz".
    to : str, Pose or array_like, shape (4, 4), optional
        The other frame, or a pose in the world. Default: the world.
    axes : {"to", "frame"}
        Axes of the directions. In the moving axes of "frame", rows are nonholonomic in general, as for a
        skate or a wheel that does not slip sideways, and have no position error.
    gains : Gains, optional
        Baumgarte stabilization of the position. Default none.
    at : array_like, shape (nq,), optional
        State in which the constraint is satisfied; gains pull towards the relative pose in it.
    """

    frame: str
    rows: str | tuple[str, ...]
    to: Any = None
    axes: str = "to"
    gains: Gains = NO_GAINS
    at: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rows, Iterable):
            raise ModelError(
                f"Hold({self.frame!r}): rows: expected names out of {', '.join(NAMES)}, got {self.rows!r}"
            )
        row_names = tuple(self.rows.split()) if isinstance(self.rows, str) else tuple(self.rows)
        unknown = [name for name in row_names if name not in NAMES]
        if unknown:
            raise ModelError(f"Hold has no row {unknown[0]!r}; there are {', '.join(NAMES)}")
        if len(set(row_names)) < len(row_names) or not row_names:
            raise ModelError(
                f"Hold({self.frame!r}) needs different rows out of {', '.join(NAMES)}, at least one"
            )
        if self.axes not in ("frame", "to"):
            raise ModelError(f"Hold's axes: expected 'frame' or 'to', got {self.axes!r}")
        object.__setattr__(self, "rows", row_names)

    @property
    def in_frame(self) -> bool:  # type: ignore[override]
        return self.axes == "frame"

    @property
    def needs_anchor(self) -> bool:  # type: ignore[override]
        return not self.in_frame

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.rows)

    def _directions(self) -> tuple[np.ndarray, np.ndarray]:
        directions = np.eye(6)[[NAMES.index(name) for name in self.rows]]
        return directions[:, :3], directions[:, 3:]

    def coefficients(self, seen: RelativeMotion) -> tuple[np.ndarray, np.ndarray]:
        return self._directions()

    def error(self, seen: RelativeMotion | Displaced) -> Any:
        c_w, c_v = self._directions()
        return (
            np.zeros(len(c_w)) if self.in_frame else product(c_w, seen.rotation_vector) + product(c_v, seen.p)
        )


def _unit(label: str, direction: Any) -> tuple[float, float, float]:
    x = np.array([real_or_nan(each) for each in direction] if isinstance(direction, Iterable) else [])
    if x.shape != (3,) or not np.isfinite(x).all() or not np.any(x):
        raise ModelError(f"{label}: expected a direction, three numbers and not all zero, got {direction!r}")
    a, b, c = (x / length(x)).tolist()
    return a, b, c


@final
@dataclass(frozen=True)
class OnPlane(BetweenFrames):
    """The origin of a frame stays in a plane through the origin of another: one row, along the normal.

    Parameters
    ----------
    frame : str
        Name of the constrained frame.
    to : str, Pose or array_like, shape (4, 4), optional
        Frame that carries the plane, or a pose in the world. Default: the world.
    normal : sequence of float, shape (3,)
        Normal of the plane, in the axes of `to`.
    gains : Gains, optional
        Baumgarte stabilization of the distance. Default none.
    at : array_like, shape (nq,), optional
        State whose parallel plane the gains pull to, instead of the plane through the origin of `to`.
    """

    frame: str
    to: Any = None
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    gains: Gains = NO_GAINS
    at: Any = None
    in_frame: ClassVar[bool] = False  # type: ignore[misc]
    needs_anchor: ClassVar[bool] = False  # the ground is a plane through the origin of the world
    names = ("normal",)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "normal", _unit("OnPlane's normal", self.normal))

    def coefficients(self, seen: RelativeMotion) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((1, 3)), np.array([self.normal])

    def error(self, seen: RelativeMotion | Displaced) -> Any:
        return product(np.array([self.normal]), seen.p)


@final
@dataclass(frozen=True)
class Rolling(BetweenFrames):
    """Rolling of a ball, centred at the origin of a frame, on a plane through the origin of another.

    Three rows in the axes of `to`: the point of contact does not slip. Only the row along the normal has a
    position error; the others are nonholonomic.

    Parameters
    ----------
    frame : str
        Name of the frame at the centre of the ball.
    radius : float
        Radius of the ball [m].
    to : str, Pose or array_like, shape (4, 4), optional
        Frame that carries the plane, or a pose in the world. Default: the world.
    normal : sequence of float, shape (3,)
        Normal of the plane, in the axes of `to`.
    gains : Gains, optional
        Baumgarte stabilization of the height. Default none.
    at : array_like, shape (nq,), optional
        State whose height the gains pull to, instead of `radius`.
    """

    frame: str
    radius: float
    to: Any = None
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    gains: Gains = NO_GAINS
    at: Any = None
    in_frame: ClassVar[bool] = False  # type: ignore[misc]
    needs_anchor: ClassVar[bool] = False  # the ground is a plane through the origin of the world

    def __post_init__(self) -> None:
        super().__post_init__()
        radius = real_or_nan(self.radius)
        if not (np.isfinite(radius) and radius > 0.0):
            raise ModelError(
                f"Rolling({self.frame!r}): radius: expected a number above zero, got {self.radius!r}"
            )
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "normal", _unit("Rolling's normal", self.normal))

    def coefficients(self, seen: RelativeMotion) -> tuple[np.ndarray, np.ndarray]:
        # the ball's point at -radius n moves with v - radius w × n
        return np.array([-self.radius * np.cross(self.normal, e) for e in np.eye(3)]), np.eye(3)

    def error(self, seen: RelativeMotion | Displaced) -> Any:
        n = np.array(self.normal)
        return n * (product(n, seen.p) - (self.radius if self.at is None else 0.0))
