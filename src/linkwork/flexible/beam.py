"""Straight beams as flexible bodies: modes of finite elements, and their integrals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import pi
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.body import FlexibleBody
from linkwork.flexible.eigen import normal_modes, solve, times
from linkwork.flexible.elements import THREE, THREE_WEIGHTS, Bending, Family, Rod
from linkwork.flexible.given import is_number, not_negative, positive, rayleigh_factors, whole
from linkwork.flexible.integrals import Cloud
from linkwork.flexible.sections import Material, along
from linkwork.joints.deformation import ModeShape
from linkwork.parts.checks import check_name
from linkwork.parts.names import did_you_mean

PLANES = {"bending_y": (2, 1.0), "bending_z": (1, -1.0)}  # about which axis sections turn where it bends up
FAMILIES = ("bending_y", "bending_z", "torsion", "stretch")
BASES = ("clamped", "craig_bampton", "free", "pinned")
ENDS = ("clamped", "free", "pinned")
THEORIES = ("euler_bernoulli", "timoshenko")
ON = 1e-6  # of the length: how far beside a beam's axis a place may be
BENT = 0.01  # of the length, or in rad: by how much random states bend it


class Mode(NamedTuple):
    """A mode of a family: its degrees of freedom, (n,), and ω² [rad²/s²].

    A rigid motion was subtracted, so that its root does not move; `turned` is what all sections turned by in that. Before, its
    modal mass was one.
    """

    family: Family
    dofs: np.ndarray
    square: float
    turned: float


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
    """A straight beam along x of its frame, from the origin to `length` [m]; the frame is fixed to its section at the origin.

    `section` is one of `linkwork.flexible` (Rectangle, Circle, Tube, General), two of them for a taper from root to tip, or a
    function of the part of the length. `modes` are so many of the lowest, or how many of each family: "bending_y", "bending_z",
    "torsion", "stretch"; with none the beam is rigid. `basis` says which modes: of the beam "clamped" at its root, or
    "craig_bampton" (static modes of its tip and those with both ends held, combined so that they are orthogonal), or "free", or
    "pinned" at both ends; these are then taken relative to the section at the origin. `theory` is "euler_bernoulli", or
    "timoshenko" with shear and the rotary inertia of sections. `stiffening`: bending shortens the beam along its axis to second
    order, which is what stiffens it when it spins (geometric stiffening). Damping is `rayleigh` = (α, β), α mass + β stiffness,
    and `damping_ratio` of critical damping for every mode. Modal mass is one of "clamped" and "craig_bampton" modes, and of the
    others before they are taken relative to the origin.
    """
    check_name("beam", name)
    what = f"beam {name!r}"
    _check(what, length, material, elements, theory)
    _check_word(what, "basis", basis, BASES)
    if not isinstance(stiffening, (bool, np.bool_)):
        raise ModelError(f"{what}: stiffening must be True or False, not {stiffening!r}")
    length, at = float(length), along(section)
    cut = partial(_cut, what, at, length)
    families = _families(length, elements, material, cut, theory)
    chosen = _chosen(what, families, modes, basis, elements)
    body = _Beam(length, cut, material, families, chosen, rotary=theory == "timoshenko", stiffening=stiffening)
    cloud = body.cloud()
    integrals = cloud.integrals()
    squares = np.array([mode.square for mode in chosen])
    alpha, beta = rayleigh_factors(what, rayleigh)
    ratio = not_negative(f"{what}: damping_ratio", damping_ratio)
    damping = alpha * integrals.mass + np.diag(beta * squares + 2.0 * ratio * np.sqrt(squares))
    counts = {family.name: 0 for family in families}
    names = []
    for mode in chosen:
        counts[mode.family.name] += 1
        names.append(f"{mode.family.name}{counts[mode.family.name]}")
    return FlexibleBody(
        name, *cloud.rigid(), tuple(names), integrals, np.diag(squares), damping, partial(body.place, what), body.sizes(),
        {"root": (0.0, 0.0, 0.0), "tip": (length, 0.0, 0.0)},
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
    """The lowest natural frequencies of a beam [Hz], (count,), by family, from its finite elements; without rigid motions.

    There are fewer where the elements have no more.

    `ends`: "clamped" at one end, "free", or "pinned" at both. The other arguments are those of `beam`.
    """
    _check("beam", length, material, elements, theory)
    _check_word("beam", "ends", ends, ENDS)
    whole("beam: count must be a whole number", count, 0, 1000)
    length = float(length)
    families = _families(length, elements, material, partial(_cut, "beam", along(section), length), theory)
    return {family.name: np.sqrt([mode.square for mode in _modes(family, ends, count)]) / (2.0 * pi) for family in families}


def _check(what: str, length: Any, material: Any, elements: Any, theory: Any) -> None:
    positive(f"{what}: length", length)
    if not isinstance(material, Material):
        raise ModelError(f"{what}: material must be a linkwork.flexible.Material(density, young), not {material!r}")
    whole(f"{what}: elements must be a whole number", elements, 1, 200)
    _check_word(what, "theory", theory, THEORIES)


def _check_word(what: str, word: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ModelError(f"{what}: {word} must be one of {', '.join(known)}, not {value!r}{did_you_mean(value, known)}")


def _cut(what: str, at: Callable[[float], Any], length: float, x: float) -> Any:
    """The cross section at x."""
    try:
        found = at(x / length)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"{what}: its section, a function, fails at {x / length:g}: {type(error).__name__}: {error}"
        ) from error
    values = [getattr(found, word, 0.0) for word in ("area", "Iy", "Iz", "J", "ky", "kz")]
    if not all(is_number(value) and value > 0.0 for value in values):
        raise ModelError(f"{what}: its section at {x:g} m must have an area and second moments above zero, not {found!r}")
    return found


def _families(length: float, elements: int, material: Material, cut: Callable[[float], Any], theory: str) -> list[Family]:
    rho, E, G = material.density, material.young, material.shear_modulus
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


def _chosen(what: str, families: Sequence[Family], modes: Any, basis: str, elements: int) -> list[Mode]:
    """The modes that are asked for: the lowest, or so many of each family."""
    most = elements  # finer shapes than elements mean nothing
    if isinstance(modes, Mapping):
        for word, count in modes.items():
            if word not in FAMILIES:
                raise ModelError(f"{what}: modes are of {', '.join(FAMILIES)}, not {word!r}{did_you_mean(word, FAMILIES)}")
            _check_count(what, count, most)
        return [mode for family in families for mode in _modes(family, basis, modes.get(family.name, 0))]
    _check_count(what, modes, most)
    found = [mode for family in families for mode in _modes(family, basis, modes)]
    return sorted(found, key=lambda mode: mode.square)[:modes]


def _check_count(what: str, count: Any, most: int) -> None:
    whole(f"{what}: modes must be whole numbers", count, 0, most, ", the number of its elements")


def _modes(family: Family, basis: str, count: int) -> list[Mode]:
    """The lowest modes of a family, taken relative to its root."""
    if count == 0:
        return []
    with np.errstate(all="ignore"):
        K, M = family.matrices
    n = len(K)
    if not all(np.isfinite(x).all() and (np.diag(x) > 0.0).all() for x in (K, M)):
        raise ModelError(
            f"a beam's {family.name} has masses or stiffnesses that no computer number holds: are its units right?"
        )
    gone = {"clamped": family.root, "pinned": family.pins, "free": [], "craig_bampton": family.root}[basis]
    kept = [k for k in range(n) if k not in gone]
    K, M = K[np.ix_(kept, kept)], M[np.ix_(kept, kept)]
    if basis == "craig_bampton":
        T = _static_and_held(K, M, [kept.index(k) for k in family.tip], count)
        squares, Y = normal_modes(times(T.T, times(K, T)), times(T.T, times(M, T)), count)
        Y = times(T, Y)
    else:
        rigid = family.rigid if basis == "free" else 0
        squares, Y = normal_modes(K, M, count + rigid, shift=family.softness(K, M) if rigid else 0.0)
        squares, Y = squares[rigid:], Y[:, rigid:]
    found = []
    for j in range(min(count, len(squares))):
        whole = np.zeros(n)
        whole[kept] = Y[:, j]
        found.append(Mode(family, family.grounded(whole), float(squares[j]), family.field(whole, 0.0).turn))
    return found


def _static_and_held(K: np.ndarray, M: np.ndarray, tip: list[int], count: int) -> np.ndarray:
    """Craig and Bampton's modes as columns: statically by unit motions of the tip, and the lowest where it is held."""
    inner = [k for k in range(len(K)) if k not in tip]
    T = np.zeros((len(K), len(tip) + max(count - len(tip), 0)))
    for j, k in enumerate(tip):
        T[k, j] = 1.0
    T[inner, : len(tip)] = -solve(K[np.ix_(inner, inner)], K[np.ix_(inner, tip)])
    if count > len(tip):
        _, held = normal_modes(K[np.ix_(inner, inner)], M[np.ix_(inner, inner)], count - len(tip))
        T[inner, len(tip) :] = held
    return T


class _Beam:
    """A beam with chosen modes: its mass points, and how places on it move."""

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
        self.length, self.cut, self.material, self.modes = length, cut, material, modes
        self.rotary, self.stiffening, self._family = rotary, stiffening, families[0]
        self._shortened = self._whole_elements()

    def cloud(self) -> Cloud:
        """Mass points: four for each point of integration, which have the area's moments of inertia."""
        m = len(self.modes)
        masses, points, shapes, short = [], [], [], []
        for x, w in self._family.points():
            section = self.cut(x)
            y, z = np.sqrt(section.Iz / section.area), np.sqrt(section.Iy / section.area)
            moved, turned, _ = self._at(x)
            shorter = self._short(x)
            for a, b in ((y, z), (-y, z), (-y, -z), (y, -z)):
                masses.append(0.25 * w * self.material.density * section.area)
                points.append((x, a, b))
                own = np.array(moved)
                for j, t in enumerate(self._turns(turned).T):
                    own[:, j] += (t[1] * b - t[2] * a, -t[0] * b, t[0] * a)
                shapes.append(own)
                short.append(shorter)
        n = len(masses)
        return Cloud(np.array(masses), np.array(points), np.array(shapes).reshape(n, 3, m), np.array(short).reshape(n, m, m, 3))

    def _turns(self, turned: np.ndarray) -> np.ndarray:
        """How sections turn as masses do, (3, m): those of Euler and Bernoulli's beam have no rotary inertia in its bending."""
        found = np.array(turned)
        for j, mode in enumerate(self.modes):
            if not self.rotary and mode.family.name in PLANES:
                axis, sign = PLANES[mode.family.name]
                found[axis, j] = -sign * mode.turned
        return found

    def _at(self, x: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How the axis moves at x, how the section turns, (3, m) each, and the slopes of the axis, (2, m)."""
        moved, turned, slope = np.zeros((3, len(self.modes))), np.zeros((3, len(self.modes))), np.zeros((2, len(self.modes)))
        for j, (family, dofs, *_) in enumerate(self.modes):
            field = family.field(dofs, x)
            if family.name in PLANES:
                axis, sign = PLANES[family.name]
                moved[3 - axis, j], turned[axis, j], slope[2 - axis, j] = field.value, sign * field.turn, field.slope
            elif family.name == "torsion":
                turned[0, j] = field.turn
            else:
                moved[0, j] = field.value
        return moved, turned, slope

    def _part(self, a: float, b: float) -> np.ndarray:
        """∫ of products of slopes from a to b, within an element, (m, m)."""
        total = np.zeros((len(self.modes), len(self.modes)))
        for s, w in zip(THREE.tolist(), THREE_WEIGHTS.tolist()):
            slope = self._at(a + s * (b - a))[2]
            total = total + w * (b - a) * (slope[0, :, None] * slope[0, None] + slope[1, :, None] * slope[1, None])
        return total

    def _whole_elements(self) -> list[np.ndarray]:
        """The same from the root to the beginning of each element."""
        found, h = [np.zeros((len(self.modes), len(self.modes)))], self._family.h
        for e in range(self._family.elements if self.stiffening else 0):
            found.append(found[-1] + self._part(e * h, (e + 1) * h))
        return found

    def _short(self, x: float) -> np.ndarray:
        """g_jk at x, (m, m, 3): -∫ of products of slopes from the root, along the axis."""
        g = np.zeros((len(self.modes), len(self.modes), 3))
        if self.stiffening and self.modes:
            e, s = self._family.place(x)
            whole = self._shortened[e] + (self._part(e * self._family.h, x) if s else 0.0)
            g[:, :, 0] = -whole
        return g

    def place(self, what: str, at: np.ndarray) -> ModeShape:
        """How a place on the axis moves; an error where it is beside the beam."""
        x, beside = float(at[0]), float(np.hypot(at[1], at[2]))
        if not -ON * self.length <= x <= (1.0 + ON) * self.length or beside > ON * self.length:
            raise ModelError(
                f"({', '.join(f'{p:g}' for p in at)}) is not on {what}, whose axis goes from (0, 0, 0) to "
                f"({self.length:g}, 0, 0): attach a rigid body there by a fixed joint on the axis, and put the place on that"
            )
        x = min(max(x, 0.0), self.length)
        moved, turned, _ = self._at(x)
        return ModeShape(moved, turned, self._short(x))

    def sizes(self) -> np.ndarray:
        """Modal coordinates that deform it a little."""
        bent = {"torsion": BENT, "stretch": 0.01 * BENT * self.length}
        found = []
        for family, dofs, *_ in self.modes:
            fields = [family.field(dofs, x) for x, _ in family.points()]
            largest = max(abs(field.turn if family.name == "torsion" else field.value) for field in fields)
            found.append(bent.get(family.name, BENT * self.length) / largest)
        return np.array(found)
