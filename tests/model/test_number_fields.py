"""Numbers that users give: what is no number is refused by an error of linkwork, and NumPy's numbers are
those of Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import flexible, joints
from linkwork.robots.flexible import STEEL

ARM = lw.robots.chain(2)
Q = np.array([0.1, 0.2])
V = np.zeros(2)
# what a field takes beside positive numbers
NEGATIVE = "negative"
ZERO = "zero"
INFINITE = "infinite"
FRACTION = "fraction"
ANY = (NEGATIVE, ZERO, FRACTION)
NOT_NEGATIVE = (ZERO, FRACTION)
POSITIVE = (FRACTION,)
WHOLE = ()


def body(**given: Any) -> lw.ModelBuilder:
    return lw.ModelBuilder().add_body("b", **{"mass": 1.0, "inertia": (1.0, 1.0, 1.0), **given})


def joint(**given: Any) -> lw.ModelBuilder:
    return body().add_joint("j", joints.Revolute((0, 0, 1)), parent="world", child="b", **given)


def coupled(ratio: Any = 2.0, offset: Any = 0.0) -> lw.Model:
    builder = joint().add_body("c", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("k", joints.Revolute((0, 0, 1)), parent="world", child="c")
    return builder.add_coupling("gear", {"j": 1.0, "k": ratio}, offset=offset).build()


def beam(**given: Any) -> Any:
    how = {
        "length": 1.0,
        "section": flexible.Circle(0.01),
        "material": STEEL,
        "elements": 3,
        "modes": 1,
        **given,
    }
    return flexible.beam("bar", **how)


def moved(**given: Any) -> Any:
    return lw.rollout(ARM, Q, V, **{"dt": 0.01, "steps": 2, **given}).q


FIELDS: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "add_body mass": (lambda x: body(mass=x), POSITIVE),
    "add_body center": (lambda x: body(center=(x, 0.0, 0.0)), ANY),
    "add_body inertia": (lambda x: body(inertia=(x, 1.0, 1.0)), NOT_NEGATIVE),
    "ModelBuilder gravity": (lambda x: lw.ModelBuilder(gravity=(0.0, 0.0, x)), ANY),
    "add_joint xyz": (lambda x: joint(xyz=(x, 0.0, 0.0)), ANY),
    "add_joint rpy": (lambda x: joint(rpy=(0.0, 0.0, x)), ANY),
    "add_joint armature": (lambda x: joint(armature=x), NOT_NEGATIVE),
    "add_joint damping": (lambda x: joint(damping=x), NOT_NEGATIVE),
    "add_joint friction": (lambda x: joint(friction=x), NOT_NEGATIVE),
    "add_joint stiffness": (lambda x: joint(stiffness=x), NOT_NEGATIVE),
    "add_joint rest": (lambda x: joint(stiffness=1.0, rest=x), ANY),
    "add_joint lower": (lambda x: joint(lower=x), (*ANY, INFINITE)),
    "add_joint upper": (lambda x: joint(upper=x), (*ANY, INFINITE)),
    "add_frame xyz": (lambda x: joint().add_frame("f", body="b", xyz=(x, 0.0, 0.0)), ANY),
    "add_coupling ratio": (lambda x: coupled(ratio=x), (NEGATIVE, FRACTION)),
    "add_coupling offset": (lambda x: coupled(offset=x), ANY),
    "with_parameters": (lambda x: ARM.with_parameters({"mass": [x, 1.0]}), NOT_NEGATIVE),
    **{f"{kind.__name__} axis": (lambda x, kind=kind: kind((x, 0.0, 1.0)), ANY)
       for kind in (joints.Revolute, joints.Prismatic, joints.Cylindrical, joints.Planar, joints.PointOnLine)},
    "Helical pitch": (lambda x: joints.Helical(x), ANY),
    "Helical axis": (lambda x: joints.Helical(1.0, (0.0, 1.0, x)), ANY),
    "Rod length": (lambda x: joints.Rod(x), POSITIVE),
    "Gains stiffness": (lambda x: lw.Gains(x, 1.0), NOT_NEGATIVE),
    "Gains damping": (lambda x: lw.Gains(1.0, x), NOT_NEGATIVE),
    "OnPlane normal": (lambda x: lw.OnPlane("f", normal=(x, 0.0, 1.0)), ANY),
    "Rolling radius": (lambda x: lw.Rolling("f", x), POSITIVE),
    "Rolling normal": (lambda x: lw.Rolling("f", 1.0, normal=(x, 0.0, 1.0)), ANY),
    "Coupled": (lambda x: lw.Coupled({"a": 1.0, "b": x}), ANY),
    **{f"Limits {each.name}": (lambda x, name=each.name: lw.Limits(**{name: x}), WHOLE) for each in fields(lw.Limits)},
    **{f"Contacts {name}": (lambda x, name=name: lw.Contacts(**{name: x}), NOT_NEGATIVE)
       for name in ("friction", "torsional", "rolling", "margin", "tolerance", "restitution")},
    **{f"Contacts {name}": (lambda x, name=name: lw.Contacts(**{name: x}), WHOLE) for name in ("iterations", "max_candidates")},
    "Contacts stiffness": (lambda x: lw.Contacts(stiffness=x), (FRACTION, INFINITE)),
    "Contacts damping": (lambda x: lw.Contacts(stiffness=1.0, damping=x), NOT_NEGATIVE),
    "Rectangle": (lambda x: flexible.Rectangle(x, 0.1), POSITIVE),
    "Circle": (lambda x: flexible.Circle(x), POSITIVE),
    "Tube radius": (lambda x: flexible.Tube(x, 0.001), POSITIVE),
    "Tube thickness": (lambda x: flexible.Tube(2.0, x), POSITIVE),
    "Material": (lambda x: flexible.Material(x, 1.0, 0.3), POSITIVE),
    "beam length": (lambda x: beam(length=x), POSITIVE),
    "beam elements": (lambda x: beam(elements=3 * x if type(x) is int or isinstance(x, np.integer) else x), WHOLE),
    "beam modes": (lambda x: beam(modes=x), (ZERO,)),
    "beam damping_ratio": (lambda x: beam(damping_ratio=x), NOT_NEGATIVE),
    "beam rayleigh": (lambda x: beam(rayleigh=(x, 0.0)), NOT_NEGATIVE),
    "rollout dt": (lambda x: moved(dt=x), POSITIVE),
    "rollout steps": (lambda x: moved(steps=x), (ZERO,)),
    "rollout record_every": (lambda x: moved(record_every=x), WHOLE),
    "simulate duration": (lambda x: lw.simulate(ARM, Q, V, x, dt=0.25).q, NOT_NEGATIVE),
    "simulate dt": (lambda x: lw.simulate(ARM, Q, V, 3.0, dt=x).q, POSITIVE),
}  # fmt: skip
NEVER = ("1", "x", b"1", True, np.True_, nan, np.float64(nan), np.float32(nan), 1 + 1j, object())
SOMETIMES = {
    NEGATIVE: (-1.0, np.float64(-1.0)), ZERO: (0.0, np.float32(0.0)), INFINITE: (inf, np.float32(inf)),
    FRACTION: (0.5, np.float64(0.5)),
}  # fmt: skip
ALIKE = (np.int64(1), np.int32(1), np.uint8(1))
ALIKE_FLOATS = (1.0, np.float64(1.0), np.float32(1.0))


def number_of(found: Any) -> Any:
    """What tells two results apart: arrays by their bits, models by their digest, values by their fields."""
    if isinstance(found, np.ndarray):
        return found.tobytes()
    if isinstance(found, lw.Model):
        return found.digest
    if isinstance(found, flexible.FlexibleBody):
        return found.stiffness.tobytes(), found.damping.tobytes()
    return repr(found) if is_dataclass(found) else None


@pytest.mark.parametrize("name", FIELDS)
def test_what_is_no_number_is_refused(name: str) -> None:
    make, _ = FIELDS[name]
    for value in NEVER:
        with pytest.raises(lw.LinkworkError):
            make(value)
            pytest.fail(f"{name}: {value!r} was taken")


@pytest.mark.parametrize("name", FIELDS)
def test_signs_and_sizes(name: str) -> None:
    """Each field takes what its meaning allows, and refuses the rest."""
    make, takes = FIELDS[name]
    for kind, values in SOMETIMES.items():
        for value in values:
            whole = kind in (NEGATIVE, ZERO) and FRACTION not in takes
            given = int(value) if whole else value
            if kind in takes:
                make(given)
                continue
            with pytest.raises(lw.LinkworkError):
                make(given)
                pytest.fail(f"{name}: {given!r} was taken")


@pytest.mark.parametrize("name", FIELDS)
def test_numbers_of_numpy_are_those_of_python(name: str) -> None:
    make, takes = FIELDS[name]
    wanted = number_of(make(1))
    for value in (*ALIKE, *(ALIKE_FLOATS if FRACTION in takes else ())):
        assert number_of(make(value)) == wanted, f"{name}: {value!r}"
