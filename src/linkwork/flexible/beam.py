"""Straight beams as flexible bodies: modes of finite elements, and their integrals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import pi
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.beam_modes import BASES, Mode, lowest_modes, select_modes
from linkwork.flexible.body import FlexibleBody
from linkwork.flexible.elements import SLOPE_POINTS, SLOPE_WEIGHTS, Bending, Family, Rod
from linkwork.flexible.integrals import Cloud
from linkwork.flexible.sections import Material, along
from linkwork.flexible.tabulated import integer, is_number, not_negative, positive, rayleigh_factors
from linkwork.joints.deformation import ModeShape
from linkwork.mechanism.checks import check_name
from linkwork.mechanism.names import did_you_mean

PLANES = {"bending_y": (2, 1.0), "bending_z": (1, -1.0)}  # axis and sign of the section rotation
ENDS = ("clamped", "free", "pinned")
THEORIES = ("euler_bernoulli", "timoshenko")
AXIS_TOL = 1e-6  # distance of a point from the beam's axis, relative to the length
RANDOM_DEFORMATION = 0.01  # of random states, relative to the length or in rad


def beam(
    name: str = "beam",
    *,
    length: float,
    section: Any,
    material: Material,
    elements: int = 20,
    modes: int | Mapping[str, int] = 4,
    basis: str = "clamped",
    theory: str = "euler_bernoulli",
    stiffening: bool = True,
    rayleigh: Sequence[float] = (0.0, 0.0),
    damping_ratio: float = 0.0,
) -> FlexibleBody:
    """Return a straight beam along x of its frame, from the origin to `length`.

    The frame is fixed to the section at the origin.

    Parameters
    ----------
    name : str, optional
        Name of the body.
    length : float
        Length [m].
    section : Section or (Section, Section) or callable
        Cross section (Rectangle, Circle, Tube, General), two of them for a taper from root to tip, or a
        function of the relative position in [0, 1].
    material : Material
        Density and elastic moduli.
    elements : int, optional
        Number of finite elements.
    modes : int or mapping, optional
        Number of the lowest modes, or the number for each family: "bending_y", "bending_z", "torsion",
        "stretch". Without modes the beam is rigid.
    basis : {"clamped", "craig_bampton", "free", "pinned"}, optional
        Modes of the beam clamped at its root; static modes of the tip and those with both ends clamped,
        orthogonalized; or modes with both ends free or pinned, relative to the section at the origin.
    theory : {"euler_bernoulli", "timoshenko"}, optional
        Timoshenko beams have shear and rotary inertia of sections. In Euler-Bernoulli beams sections
        have inertia about x only, also in rigid motion, so that all bases converge to the same
        frequencies.
    stiffening : bool, optional
        Include the second-order shortening by bending, which stiffens a spinning beam (geometric
        stiffening).
    rayleigh : (float, float), optional
        Factors (α, β) of the damping α mass + β stiffness.
    damping_ratio : float, optional
        Additional fraction of critical damping of every mode.

    Returns
    -------
    FlexibleBody
        The beam, with nodes "root" and "tip". The modal mass of "clamped" and "craig_bampton" modes is
        one; that of the others is one before they are taken relative to the origin.

    Raises
    ------
    ModelError
        If an argument is invalid.

    See Also
    --------
    natural_frequencies : Frequencies of a beam without a model.
    """
    check_name("beam", name)
    label = f"beam {name!r}"
    _check(label, length, material, elements, theory)
    _check_word(label, "basis", basis, BASES)
    if not isinstance(stiffening, (bool, np.bool_)):
        raise ModelError(f"{label}: stiffening: expected True or False, got {stiffening!r}")
    length = float(length)
    section_at = along(section)
    checked_section = partial(_section_at, label, section_at, length)
    families = _families(length, elements, material, checked_section, theory)
    selected = select_modes(label, families, modes, basis, elements)
    body = _Beam(
        length,
        checked_section,
        material,
        families,
        selected,
        rotary=theory == "timoshenko",
        stiffening=stiffening,
    )
    cloud = body.cloud()
    integrals = cloud.integrals()
    squares = np.array([mode.square for mode in selected])
    alpha, beta = rayleigh_factors(label, rayleigh)
    ratio = not_negative(f"{label}: damping_ratio", damping_ratio)
    damping = alpha * integrals.mass + np.diag(beta * squares + 2.0 * ratio * np.sqrt(squares))
    counts = {family.name: 0 for family in families}
    names = []
    for mode in selected:
        counts[mode.family.name] += 1
        names.append(f"{mode.family.name}{counts[mode.family.name]}")
    return FlexibleBody(
        name, *body.rigid(label, cloud), tuple(names), integrals, np.diag(squares), damping,
        partial(body.place, label), body.sizes(), {"root": (0.0, 0.0, 0.0), "tip": (length, 0.0, 0.0)},
    )  # fmt: skip


def natural_frequencies(
    *,
    length: float,
    section: Any,
    material: Material,
    elements: int = 20,
    ends: str = "clamped",
    theory: str = "euler_bernoulli",
    count: int = 6,
) -> dict[str, np.ndarray]:
    """Return the lowest natural frequencies of a beam [Hz] by family, without rigid motions.

    Parameters
    ----------
    length, section, material, elements, theory
        As in `beam`.
    ends : {"clamped", "free", "pinned"}, optional
        "clamped" at one end, "free", or "pinned" at both ends.
    count : int, optional
        Number of frequencies of each family; coarse elements may have fewer.

    Returns
    -------
    dict of str to ndarray
        Frequencies in ascending order for "bending_y", "bending_z", "torsion" and "stretch".

    See Also
    --------
    beam : A flexible body for a model.
    """
    _check("beam", length, material, elements, theory)
    _check_word("beam", "ends", ends, ENDS)
    integer("beam: count", count, 0, 1000)
    length = float(length)
    families = _families(
        length, elements, material, partial(_section_at, "beam", along(section), length), theory
    )
    return {
        family.name: np.sqrt([mode.square for mode in lowest_modes(family, ends, count)]) / (2.0 * pi)
        for family in families
    }


def _check(label: str, length: Any, material: Any, elements: Any, theory: Any) -> None:
    positive(f"{label}: length", length)
    if not isinstance(material, Material):
        raise ModelError(
            f"{label}: material: expected linkwork.flexible.Material(density, young), got {material!r}"
        )
    integer(f"{label}: elements", elements, 1, 200)
    _check_word(label, "theory", theory, THEORIES)


def _check_word(label: str, word: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ModelError(
            f"{label}: {word}: expected one of {', '.join(known)}; got {value!r}{did_you_mean(value, known)}"
        )


def _section_at(label: str, section_at: Callable[[float], Any], length: float, x: float) -> Any:
    """Return the cross section at x [m]."""
    try:
        section = section_at(x / length)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"{label}: section function failed at {x / length:g}: {type(error).__name__}: {error}"
        ) from error
    values = [getattr(section, word, 0.0) for word in ("area", "Iy", "Iz", "J", "ky", "kz")]
    if not all(is_number(value) and value > 0.0 for value in values):
        raise ModelError(
            f"{label}: section at {x:g} m: expected positive area and second moments, got {section!r}"
        )
    return section


def _families(
    length: float, elements: int, material: Material, cut: Callable[[float], Any], theory: str
) -> list[Family]:
    rho = material.density
    E = material.young
    G = material.shear_modulus
    thick = theory == "timoshenko"

    def bending(name: str, I: str, k: str) -> Family:
        return Bending(
            name, length, elements,
            lambda x: E * getattr(cut(x), I),
            (lambda x: getattr(cut(x), k) * G * cut(x).area) if thick else None,
            lambda x: rho * cut(x).area,
            (lambda x: rho * getattr(cut(x), I)) if thick else None,
        )  # fmt: skip

    return [
        bending("bending_y", "Iz", "ky"),
        bending("bending_z", "Iy", "kz"),
        Rod("torsion", length, elements, lambda x: G * cut(x).J, lambda x: rho * (cut(x).Iy + cut(x).Iz)),
        Rod("stretch", length, elements, lambda x: E * cut(x).area, lambda x: rho * cut(x).area),
    ]


class _Beam:
    """A beam with selected modes: its mass points, and the motion of its points."""

    def __init__(
        self,
        length: float,
        cut: Callable[[float], Any],
        material: Material,
        families: Sequence[Family],
        modes: Sequence[Mode],
        *,
        rotary: bool,
        stiffening: bool,
    ) -> None:
        self.length = length
        self.cut = cut
        self.material = material
        self.modes = modes
        self.rotary = rotary
        self.stiffening = stiffening
        self._family = families[0]
        self._shortened = self._shortening_of_elements()

    def cloud(self) -> Cloud:
        """Return mass points: four per integration point, with the area's moments of inertia."""
        m = len(self.modes)
        masses = []
        points = []
        shapes = []
        short = []
        for x, w in self._family.points():
            section = self.cut(x)
            y, z = self._offsets(section)
            moved, rotated, _ = self._at(x)
            shortening = self._short(x)
            for a, b in ((y, z), (-y, z), (-y, -z), (y, -z)):
                masses.append(0.25 * w * self.material.density * section.area)
                points.append((x, a, b))
                shape = np.array(moved)
                for j, t in enumerate(self._inertial_rotations(rotated).T):
                    shape[:, j] += (t[1] * b - t[2] * a, -t[0] * b, t[0] * a)
                shapes.append(shape)
                short.append(shortening)
        n = len(masses)
        return Cloud(
            np.array(masses),
            np.array(points),
            np.array(shapes).reshape(n, 3, m),
            np.array(short).reshape(n, m, m, 3),
        )

    def rigid(self, label: str, cloud: Cloud) -> tuple[float, np.ndarray, np.ndarray]:
        """Return mass [kg], center of mass [m] and inertia about it [kg m²] of the undeformed beam.

        Sections of an Euler-Bernoulli beam have no rotary inertia about axes in their plane, whether the beam
        bends or rotates; otherwise frequencies would depend on the choice of its frame.
        """
        mass, center, inertia = cloud.rigid()
        rotary = 0.0 if self.rotary else 0.5 * inertia[0, 0]
        inertia = inertia - np.diag([0.0, rotary, rotary])
        if not self.rotary and inertia[0, 0] > 2.0 * inertia[1, 1]:
            raise ModelError(
                f"{label}: expected sections small compared with the length of {self.length:g} m, got a "
                f"moment of inertia of {inertia[0, 0]:g} kg m² about the axis and {inertia[1, 1]:g} kg m² "
                'about others (without rotary inertia of sections): use theory="timoshenko"'
            )
        return mass, center, inertia

    def _offsets(self, section: Any) -> tuple[float, float]:
        """Return the distances of a section's four mass points from the axis along y and z [m]."""
        if self.rotary:
            return float(np.sqrt(section.Iz / section.area)), float(np.sqrt(section.Iy / section.area))
        polar = float(np.sqrt(0.5 * (section.Iy + section.Iz) / section.area))
        return polar, polar

    def _inertial_rotations(self, turned: np.ndarray) -> np.ndarray:
        """Return section rotations with inertia, (3, m); those of Euler-Bernoulli bending have none."""
        return turned if self.rotary else turned * [[1.0], [0.0], [0.0]]

    def _at(self, x: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return axis motion and section rotation at x, (3, m) each, and axis slopes, (2, m)."""
        moved = np.zeros((3, len(self.modes)))
        turned = np.zeros((3, len(self.modes)))
        slope = np.zeros((2, len(self.modes)))
        for j, (family, dofs, _) in enumerate(self.modes):
            field = family.field(dofs, x)
            if family.name in PLANES:
                axis, sign = PLANES[family.name]
                moved[3 - axis, j] = field.value
                turned[axis, j] = sign * field.turn
                slope[2 - axis, j] = field.slope
            elif family.name == "torsion":
                turned[0, j] = field.turn
            else:
                moved[0, j] = field.value
        return moved, turned, slope

    def _part(self, a: float, b: float) -> np.ndarray:
        """Return ∫ of products of slopes from a to b, within an element, (m, m)."""
        total = np.zeros((len(self.modes), len(self.modes)))
        for s, w in zip(SLOPE_POINTS.tolist(), SLOPE_WEIGHTS.tolist()):
            slope = self._at(a + s * (b - a))[2]
            total = total + w * (b - a) * (
                slope[0, :, None] * slope[0, None] + slope[1, :, None] * slope[1, None]
            )
        return total

    def _shortening_of_elements(self) -> list[np.ndarray]:
        """Return ∫ of products of slopes from the root to the start of each element."""
        integrals = [np.zeros((len(self.modes), len(self.modes)))]
        h = self._family.h
        for e in range(self._family.elements if self.stiffening else 0):
            integrals.append(integrals[-1] + self._part(e * h, (e + 1) * h))
        return integrals

    def _short(self, x: float) -> np.ndarray:
        """Return g_jk at x, (m, m, 3): -∫ of products of slopes from the root, along the axis."""
        g = np.zeros((len(self.modes), len(self.modes), 3))
        if self.stiffening and self.modes:
            e, s = self._family.place(x)
            shortening = self._shortened[e] + (self._part(e * self._family.h, x) if s else 0.0)
            g[:, :, 0] = -shortening
        return g

    def place(self, label: str, point: np.ndarray) -> ModeShape:
        """Return the modal displacement of a point of the axis; raise ModelError for other points."""
        x = float(point[0])
        distance = float(np.hypot(point[1], point[2]))
        if (
            not -AXIS_TOL * self.length <= x <= (1.0 + AXIS_TOL) * self.length
            or distance > AXIS_TOL * self.length
        ):
            raise ModelError(
                f"{label}: ({', '.join(f'{p:g}' for p in point)}) is not on the axis from (0, 0, 0) to "
                f"({self.length:g}, 0, 0): attach a rigid body by a fixed joint on the axis, and use a point "
                "of it"
            )
        x = min(max(x, 0.0), self.length)
        moved, turned, _ = self._at(x)
        return ModeShape(moved, turned, self._short(x))

    def sizes(self) -> np.ndarray:
        """Return modal coordinates of a small deformation, (m,)."""
        size_by_family = {"torsion": RANDOM_DEFORMATION, "stretch": 0.01 * RANDOM_DEFORMATION * self.length}
        sizes = []
        for family, dofs, _ in self.modes:
            fields = [family.field(dofs, x) for x, _ in family.points()]
            largest = max(abs(field.turn if family.name == "torsion" else field.value) for field in fields)
            sizes.append(size_by_family.get(family.name, RANDOM_DEFORMATION * self.length) / largest)
        return np.array(sizes)
