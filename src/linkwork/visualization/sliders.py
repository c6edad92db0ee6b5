"""Motion of a model by its independent coordinates: loops stay closed, unreachable values are rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.errors import ClosureError, LinkworkError, ModelError, ShapeError
from linkwork.functions.conditioning import loop_conditioning
from linkwork.functions.load import choose_loops
from linkwork.functions.states import close_loops, integrate
from linkwork.mechanism.names import did_you_mean, join_names, printable
from linkwork.model import Model, PlacedJoint

WALK_STEP = 0.05  # of a walk [rad or m]: loops are closed after each
CLOSURE_TOL = 1e-9  # largest residual of a closed state [m or rad]
SINGULAR_CONDITIONING = 1e-6  # conditioning of coordinates from which nothing can be moved
DEFAULT_RANGE = {True: np.pi, False: 1.0}  # of a coordinate without limits: angles [rad], lengths [m]


@dataclass(frozen=True)
class Slider:
    """An independent coordinate: its name as in `v_names`, its value and its range [rad or m]."""

    name: str
    joint: PlacedJoint
    component: int
    lower: float
    upper: float


class Sliders:
    """Configuration `q` of a model, moved by its independent coordinates, with all loops closed.

    Constrained loops are embedded if possible, so that fewer coordinates are independent. A coordinate of a
    joint with more coordinates than velocities (free or spherical) is the component of the motion from its
    neutral coordinates. If the neutral state is singular, q starts near it, with an explanation in `note`.
    """

    def __init__(self, model: Model) -> None:
        self.model = _embedded(model)
        self.note = ""
        self.sliders = tuple(_slider(self.model, name) for name in self.model.v_names)
        self._places = {slider.name: k for k, slider in enumerate(self.sliders)}
        self.q = self._start()

    def _start(self) -> np.ndarray:
        q = self.model.neutral()
        if not self.model.embedded or self._is_regular(q):
            return q
        for seed in range(8):
            near = self.model.random_state(seed)[0]
            if self._is_regular(near):
                self.note = "the neutral state is singular; a nearby state is shown"
                return near
        self.note = "the neutral state is singular; some coordinates cannot be moved"
        return q

    def _is_regular(self, q: np.ndarray) -> bool:
        return bool(np.all(loop_conditioning(self.model, q) > SINGULAR_CONDITIONING))

    def value(self, name: str) -> float:
        """Return a coordinate of the current configuration [rad or m]."""
        slider = self.sliders[self._place(name)]
        coordinates = self.q[slider.joint.q_slice]
        kind = slider.joint.kind
        return float(np.asarray(kind.difference(kind.neutral(), coordinates), dtype=float)[slider.component])

    def values(self) -> dict[str, float]:
        """Return all coordinates, by name."""
        return {slider.name: self.value(slider.name) for slider in self.sliders}

    def move(self, name: str, value: float) -> str:
        """Move one coordinate; return "", or why the move failed, which leaves q unchanged."""
        place = self._place(name)
        slider = self.sliders[place]
        if not np.isfinite(value):
            return f"{printable(name)!r}: expected a finite number, got {value}"
        if not slider.lower - 1e-9 <= value <= slider.upper + 1e-9:
            return (
                f"{printable(name)!r}: expected a value from {slider.lower:.4g} to {slider.upper:.4g}, got "
                f"{value:.4g}"
            )
        before = self.q
        distance = value - self.value(name)
        steps = max(1, int(np.ceil(abs(distance) / WALK_STEP)))
        motion = np.zeros(self.model.nv)
        motion[place] = distance / steps
        try:
            for _ in range(steps):
                self.q = self._closed(integrate(self.model, self.q, motion))
        except ClosureError:
            self.q = before
            loops = join_names([repr(printable(loop.name)) for loop in self.model.loops])
            return f"{printable(name)!r} cannot move to {value:.4g}: {loops} cannot be closed along the way"
        return ""

    def _closed(self, q: np.ndarray) -> np.ndarray:
        if not self.model.loops:
            return q
        closed, residual = close_loops(self.model, q)
        if not residual < CLOSURE_TOL:
            raise ClosureError("open")
        return closed

    def place_at(self, q: Any) -> None:
        """Set the configuration, (nq,), without closing loops."""
        configuration = np.asarray(q, dtype=float)
        if configuration.shape != (self.model.nq,):
            raise ShapeError(f"q: expected shape ({self.model.nq},), got {configuration.shape}")
        self.q = configuration

    def openness(self) -> float:
        """Return the largest violation of any loop's equations [m or rad]."""
        return float(close_loops(self.model, self.q)[1]) if self.model.loops else 0.0

    def beyond_limits(self) -> list[str]:
        """Return the joints beyond their limits, which dependent joints may exceed."""
        return [
            joint.name
            for joint in self.model.joints
            if np.any(self.q[joint.q_slice] < np.array(joint.lower) - 1e-6)
            or np.any(self.q[joint.q_slice] > np.array(joint.upper) + 1e-6)
        ]

    def _place(self, name: str) -> int:
        if name not in self._places:
            raise ModelError(
                f"{printable(self.model.name)} has no independent coordinate "
                f"{name!r}{did_you_mean(name, self._places)}"
            )
        return self._places[name]


def _embedded(model: Model) -> Model:
    if not model.constrained_loops:
        return model
    try:
        return choose_loops(model, "embed")
    except LinkworkError:
        return model


def _slider(model: Model, name: str) -> Slider:
    joint = next(joint for joint in model.joints if name in joint.v_names)
    c = joint.v_names.index(name)
    S = np.asarray(joint.kind.subspace(joint.kind.neutral()), dtype=float)
    reach = DEFAULT_RANGE[bool(np.any(S[:3, c]))]
    lower = -reach
    upper = reach
    if joint.nq == joint.nv:
        a = joint.lower[c]
        b = joint.upper[c]
        lower = a if np.isfinite(a) and abs(a) < 1e3 else -reach
        upper = b if np.isfinite(b) and abs(b) < 1e3 else reach
        if lower >= upper:
            lower = min(a, b, -reach)
            upper = max(a, b, reach)
    return Slider(name, joint, c, float(lower), float(upper))
