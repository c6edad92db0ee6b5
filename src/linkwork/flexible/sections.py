"""Cross sections and materials of beams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import pi
from typing import Any, Protocol

from linkwork.errors import ModelError
from linkwork.flexible.tabulated import is_number, positive
from linkwork.spatial.constants import set_frozen


class Section(Protocol):
    """Interface of beam cross sections, whose principal axes through the center are y and z.

    `area` [m²]; `Iy` = ∫z² dA and `Iz` = ∫y² dA [m⁴]; `J`, the torsion constant [m⁴]; `ky` and `kz`, the
    shear correction factors of bending along y and z.
    """

    @property
    def area(self) -> float: ...
    @property
    def Iy(self) -> float: ...
    @property
    def Iz(self) -> float: ...
    @property
    def J(self) -> float: ...
    @property
    def ky(self) -> float: ...
    @property
    def kz(self) -> float: ...


@dataclass(frozen=True)
class General:
    """A cross section given by its properties.

    Parameters
    ----------
    area : float
        Area [m²].
    Iy, Iz : float
        Second moments of area about y and z [m⁴].
    J : float
        Torsion constant [m⁴].
    ky, kz : float, optional
        Shear correction factors for shear along y and z. Default 5/6.
    """

    area: float
    Iy: float
    Iz: float
    J: float
    ky: float = 5.0 / 6.0
    kz: float = 5.0 / 6.0

    def __post_init__(self) -> None:
        _positive(self)


@dataclass(frozen=True)
class Rectangle:
    """A rectangle, `width` [m] along y and `height` [m] along z."""

    width: float
    height: float
    ky = kz = 5.0 / 6.0

    def __post_init__(self) -> None:
        _positive(self)

    @property
    def area(self) -> float:
        return self.width * self.height

    @property
    def Iy(self) -> float:
        return self.width * cube(self.height) / 12.0

    @property
    def Iz(self) -> float:
        return self.height * cube(self.width) / 12.0

    @property
    def J(self) -> float:
        """Torsion constant by Roark's formula [m⁴], accurate to 0.5 %."""
        a, b = sorted((self.width, self.height))
        x = a / b
        return b * cube(a) * (1.0 / 3.0 - 0.21 * x * (1.0 - x * cube(x) / 12.0))


class _Round:
    """A cross section with rotational symmetry."""

    @property
    def Iy(self) -> float:
        raise NotImplementedError

    @property
    def Iz(self) -> float:
        return self.Iy

    @property
    def J(self) -> float:
        return 2.0 * self.Iy


@dataclass(frozen=True)
class Circle(_Round):
    """A disc of `radius` [m]."""

    radius: float
    ky = kz = 0.9

    def __post_init__(self) -> None:
        _positive(self)

    @property
    def area(self) -> float:
        return pi * self.radius * self.radius

    @property
    def Iy(self) -> float:
        return 0.25 * pi * self.radius * cube(self.radius)


@dataclass(frozen=True)
class Tube(_Round):
    """A ring with outer `radius` and `wall` thickness [m]."""

    radius: float
    wall: float
    ky = kz = 0.5

    def __post_init__(self) -> None:
        _positive(self)
        if self.wall > self.radius:
            raise ModelError(
                f"Tube: wall: expected at most the radius of {self.radius:g} m, got {self.wall:g} m"
            )

    @property
    def area(self) -> float:
        return pi * self.wall * (2.0 * self.radius - self.wall)

    @property
    def Iy(self) -> float:
        inner = self.radius - self.wall
        return 0.25 * pi * (self.radius * cube(self.radius) - inner * cube(inner))


@dataclass(frozen=True)
class Material:
    """A linear elastic material.

    Parameters
    ----------
    density : float
        Density [kg/m³].
    young : float
        Young's modulus [Pa].
    poisson : float, optional
        Poisson's ratio. Default 0.3.
    shear : float, optional
        Shear modulus [Pa]. Default young / (2 (1 + poisson)).
    """

    density: float
    young: float
    poisson: float = 0.3
    shear: float | None = None

    def __post_init__(self) -> None:
        for word in ("density", "young", *(() if self.shear is None else ("shear",))):
            set_frozen(self, word, positive(f"Material: {word}", getattr(self, word)))
        if not is_number(self.poisson) or not -1.0 < self.poisson <= 0.5:
            raise ModelError(
                f"Material: poisson: expected a number above -1 and at most 0.5, got {self.poisson!r}"
            )

    @property
    def shear_modulus(self) -> float:
        """Shear modulus [Pa]."""
        return self.young / (2.0 * (1.0 + self.poisson)) if self.shear is None else self.shear


def cube(x: float) -> float:
    """Return x³ by products, since powers may round differently on other machines."""
    return x * x * x


def along(section: Any) -> Callable[[float], Any]:
    """Return the section as a function of the relative position s in [0, 1].

    `section` is one section, two sections between which the beam tapers, or a function.
    """
    if isinstance(section, Sequence):
        if len(section) != 2 or type(section[0]) is not type(section[1]) or not is_dataclass(section[0]):
            raise ModelError(
                f"section: expected two sections of one kind (root and tip) for a taper, got {section!r}"
            )
        root, tip = section
        names = [field.name for field in fields(root)]

        def between(s: float) -> Any:
            return type(root)(*((1.0 - s) * getattr(root, name) + s * getattr(tip, name) for name in names))

        return between
    if not callable(section) and not all(
        hasattr(section, word) for word in ("area", "Iy", "Iz", "J", "ky", "kz")
    ):
        raise ModelError(
            "section: expected one of linkwork.flexible such as Rectangle(width, height), two of them for a "
            f"taper, or a function of the relative position, got {section!r}"
        )
    return section if callable(section) else lambda s: section


def _positive(section: Any) -> None:
    for field in fields(section):
        set_frozen(
            section,
            field.name,
            positive(f"{type(section).__name__}: {field.name}", getattr(section, field.name)),
        )


STEEL = Material(7850.0, 2.1e11)
ALUMINIUM = Material(2700.0, 7.0e10, 0.33)
