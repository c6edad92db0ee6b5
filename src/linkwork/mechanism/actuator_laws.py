"""Forces and activation rates of MJCF actuators, over numbers or symbols.

    force = gain(length, velocity) x + bias(length, velocity)

with x the control, or the activation of an actuator with dynamics (MuJoCo, "Computation: Actuation model",
which also describes the muscles).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from linkwork.compiler.ir.functions import exp, maximum, minimum, where
from linkwork.joints import Free, Joint, Spherical
from linkwork.mechanism.attached import Actuator
from linkwork.mechanism.muscle_activation import activation_of_muscle

GAINS = ("fixed", "affine", "muscle")
BIASES = ("none", "affine", "muscle")
DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle")
TRANSMISSIONS = ("joint", "jointinparent", "tendon", "site")
MIN_DIVISOR = 1e-15  # lower bound of divisors: MuJoCo's mjMINVAL


def has_dynamics(actuator: Actuator) -> bool:
    """Return whether the force depends on an activation with a rate instead of on the control."""
    return actuator.dynamics[0] != "none"


def has_closed_form(actuator: Actuator) -> bool:
    """Return whether `activation_at` has a solution; muscles with `tausmooth` have none."""
    kind, p = actuator.dynamics
    return kind != "muscle" or _padded(p)[2] < MIN_DIVISOR


def is_on_spatial_tendon(actuator: Actuator) -> bool:
    """Return whether an actuator pulls a spatial tendon, its `target`."""
    return actuator.transmission == "tendon" and not actuator.joints


def unsupported_reason(actuator: Actuator, kinds: Mapping[str, Joint]) -> str:
    """Return the reason why the forces of an actuator are not computed, or "".

    `kinds` are the types of moving joints by name.
    """
    for attribute, supported in (("gain", GAINS), ("bias", BIASES), ("dynamics", DYNAMICS)):
        kind = getattr(actuator, attribute)[0]
        if kind not in supported:
            return f"{attribute} of type {kind!r} has no counterpart"
    if actuator.unread:
        return f"{actuator.unread} has no counterpart"
    if actuator.transmission not in TRANSMISSIONS:
        return f"a transmission by {actuator.transmission!r} has no counterpart"
    if actuator.transmission == "site" or is_on_spatial_tendon(actuator):
        return ""
    driven = [name for name, _ in actuator.joints] or [actuator.target]
    missing = next((name for name in driven if name not in kinds), None)
    if missing is not None:
        return f"it drives joint {missing!r}, which does not move"
    several = next((name for name in driven if kinds[name].nv > 1), None)
    if several is not None and (actuator.joints or not isinstance(kinds[several], (Spherical, Free))):
        return f"it drives joint {several!r}, which has several coordinates"
    return ""


def force(actuator: Actuator, length: Any, velocity: Any, control: Any, activation: Any = None) -> Any:
    """Return the force [N or N m], clamped to `force_range`."""
    x = activation if has_dynamics(actuator) else clamp(control, actuator.control_range)
    kind, p = actuator.gain
    if kind == "muscle":
        gain = muscle_gain(actuator, length, velocity)
    else:
        gain = _padded(p)[0] + (_affine(p, length, velocity) if kind == "affine" else 0.0)
    kind, p = actuator.bias
    if kind == "muscle":
        bias = muscle_bias(actuator, length)
    else:
        bias = _padded(p)[0] + _affine(p, length, velocity) if kind == "affine" else 0.0
    return clamp(gain * x + bias, actuator.force_range)


def next_activation(actuator: Actuator, control: Any, activation: Any, dt: float) -> Any:
    """Return the activation after a step of dt [s] with constant control, clamped to `activation_range`."""
    kind, p = actuator.dynamics
    u = clamp(control, actuator.control_range)
    p = _padded(p)
    if kind == "none":
        return activation
    if kind == "filterexact":
        tau = max(MIN_DIVISOR, p[0])  # time constant [s]
        new = activation + (u - activation) / tau * tau * (1.0 - math.exp(-dt / tau))
    else:
        new = activation + dt * _rate(kind, p, u, activation)
    return clamp(new, actuator.activation_range)


def activation_at(actuator: Actuator, control: Any, start: Any, t: Any) -> Any:
    """Return the activation after a time t [s] of constant control from `start`, within `activation_range`.

    This is the exact solution; see `has_closed_form`.
    """
    kind, p = actuator.dynamics
    u = clamp(control, actuator.control_range)
    assert has_closed_form(actuator), kind
    if kind == "none":
        return start
    if kind == "integrator":
        return clamp(start + t * u, actuator.activation_range)
    if kind == "muscle":
        p = _padded(p)
        rise, fall = (max(MIN_DIVISOR, x) for x in p[:2])
        u = clamp(u, (0.0, 1.0))
        return clamp(activation_of_muscle(u, start, t, rise, fall), actuator.activation_range)
    decay = exp(-t / max(MIN_DIVISOR, _padded(p)[0]))
    return clamp(u + (start - u) * decay, actuator.activation_range)


def _rate(kind: str, p: tuple[float, ...], u: Any, activation: Any) -> Any:
    if kind == "integrator":
        return u
    if kind == "filter":
        return (u - activation) / max(MIN_DIVISOR, p[0])
    # a muscle
    u = clamp(u, (0.0, 1.0))
    a = clamp(activation, (0.0, 1.0))
    tau_rise = p[0] * (0.5 + 1.5 * a)  # time constants [s]
    tau_fall = p[1] / (0.5 + 1.5 * a)
    excess = u - activation
    if p[2] < MIN_DIVISOR:
        tau = where(excess > 0.0, tau_rise, tau_fall)
    else:
        tau = tau_fall + (tau_rise - tau_fall) * _smooth_step(excess / p[2] + 0.5)
    return excess / maximum(MIN_DIVISOR, tau)


def _smooth_step(x: Any) -> Any:
    """Return a smooth step from 0 at 0 to 1 at 1, with two continuous derivatives."""
    x = clamp(x, (0.0, 1.0))
    return x * x * x * (3.0 * x * (2.0 * x - 5.0) + 10.0)


def clamp(x: Any, bounds: tuple[float, float]) -> Any:
    """Return x clamped to bounds, which may be infinite."""
    low, high = bounds
    if low > -math.inf:
        x = maximum(low, x)
    return minimum(high, x) if high < math.inf else x


def _padded(p: tuple[float, ...]) -> tuple[float, ...]:
    return (*p, *(0.0 for _ in range(10 - len(p))))


def _affine(p: tuple[float, ...], length: Any, velocity: Any) -> Any:
    p = _padded(p)
    return (p[1] * length if p[1] else 0.0) + (p[2] * velocity if p[2] else 0.0)


# muscles


def _muscle(actuator: Actuator, p: tuple[float, ...]) -> tuple[float, float, float]:
    """Return peak force, resting length, and the actuator's length 0 in units of the resting length."""
    low, high, strength, scale = p[:4]
    strength = strength if strength >= 0.0 else scale / max(MIN_DIVISOR, actuator.acceleration)
    first, last = actuator.length_range
    resting_length = (last - first) / max(MIN_DIVISOR, high - low)
    return strength, resting_length, low - first / max(MIN_DIVISOR, resting_length)


def muscle_gain(actuator: Actuator, length: Any, velocity: Any) -> Any:
    """Return minus the force at full activation by the length and velocity curves."""
    p = _padded(actuator.gain[1])
    strength, resting_length, zero = _muscle(actuator, p)
    fastest = p[6]
    strongest = p[8]
    L = zero + length / max(MIN_DIVISOR, resting_length)
    V = velocity / max(MIN_DIVISOR, resting_length * fastest)
    y = strongest - 1.0
    slower = strongest - (y - V) * (y - V) / max(MIN_DIVISOR, y)
    by_velocity = where(
        V <= -1.0, 0.0, where(V <= 0.0, (V + 1.0) * (V + 1.0), where(y >= V, slower, strongest))
    )
    return -strength * _length_curve(L, p[4], p[5]) * by_velocity


def _length_curve(L: Any, first: float, last: float) -> Any:
    """Return the relative force at a length: parabolas, 0 at the first and last length and 1 at rest."""
    a = 0.5 * (first + 1.0)
    b = 0.5 * (1.0 + last)
    up = (L - first) / max(MIN_DIVISOR, a - first)
    down = (last - L) / max(MIN_DIVISOR, last - b)
    before = (1.0 - L) / max(MIN_DIVISOR, 1.0 - a)
    after = (L - 1.0) / max(MIN_DIVISOR, b - 1.0)
    middle = where(L <= 1.0, 1.0 - 0.5 * before * before, 1.0 - 0.5 * after * after)
    inside = where(a >= L, 0.5 * up * up, where(b >= L, middle, 0.5 * down * down))
    return where(first > L, 0.0, where(last < L, 0.0, inside))


def muscle_bias(actuator: Actuator, length: Any) -> Any:
    """Return minus the passive force beyond the resting length."""
    p = _padded(actuator.bias[1])
    strength, resting_length, zero = _muscle(actuator, p)
    L = zero + length / max(MIN_DIVISOR, resting_length)
    b = 0.5 * (1.0 + p[5])
    soft = (L - 1.0) / max(MIN_DIVISOR, b - 1.0)
    stiff = (L - b) / max(MIN_DIVISOR, b - 1.0)
    return -strength * p[7] * where(L <= 1.0, 0.0, where(b >= L, 0.5 * soft * soft, 0.5 + stiff))
