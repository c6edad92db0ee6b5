"""All bases of a beam are the same beam: its energy, and its frequencies on moving joints and under loads.

Oracles: the exact solution of uniform beams by transfer matrices (Timoshenko's equations; without shear
compliance and rotary inertia they are Euler and Bernoulli's), and finite elements assembled here.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.tree.mass_matrix import mass_matrix

fx = lw.flexible
BASES = ("clamped", "craig_bampton", "free", "pinned")
THEORIES = ("euler_bernoulli", "timoshenko")
STEEL = fx.STEEL
LENGTH = 0.8
THICK = fx.Rectangle(0.08, 0.05)
SECTIONS = {
    "rectangle": THICK,
    "tube": fx.Tube(0.04, 0.01),
    "general": fx.General(area=2e-3, Iy=1e-6, Iz=3e-7, J=2e-7, ky=0.6, kz=0.4),
    "taper": (fx.Rectangle(0.08, 0.05), fx.Rectangle(0.04, 0.03)),
}


def section_at(section, s):
    if not isinstance(section, tuple):
        return section
    a, b = section
    return fx.Rectangle(a.width + s * (b.width - a.width), a.height + s * (b.height - a.height))


def gauss(elements, points=7):
    """Points and weights along the beam, (n,), exact for polynomials in each element."""
    s, w = np.polynomial.legendre.leggauss(points)
    h = LENGTH / elements
    return (h * (np.arange(elements)[:, None] + 0.5 * (1 + s))).ravel(), np.tile(0.5 * h * w, elements)


def inertia_of_sections(body, section, elements, theory):
    """∫ of the kinetic energy of sections along the beam: the inertia of six rigid motions and all modes, (6
    + m, 6 + m).
    """
    M = np.zeros((6 + body.modes, 6 + body.modes))
    for x, w in zip(*gauss(elements)):
        cut = section_at(section, x / LENGTH)
        shape = body.place(np.array([x, 0.0, 0.0]))
        carried = np.cross(np.eye(3), [x, 0.0, 0.0]).T  # ω × x, by ω
        moved = np.hstack([carried, np.eye(3), shape.shape])
        turned = np.hstack([np.eye(3), np.zeros((3, 3)), shape.slope])
        rotary = np.diag([cut.Iy + cut.Iz, *((cut.Iy, cut.Iz) if theory == "timoshenko" else (0.0, 0.0))])
        M += w * STEEL.density * (cut.area * moved.T @ moved + turned.T @ rotary @ turned)
    return M


def free_beam(beam, kind=None, tip=None):
    b = lw.ModelBuilder("one beam", gravity=(0, 0, 0))
    b.add_body("beam", flexible=beam)
    b.add_joint("root", kind or lw.joints.Free(), parent="world", child="beam", rpy=(0.3, -0.5, 0.7))
    if tip:
        b.add_body("tip", mass=tip[0], inertia=tip[1] * np.eye(3))
        b.add_joint("glue", lw.joints.Fixed(), parent="beam", child="tip", xyz=(LENGTH, 0, 0))
    return b.build()


def inertia_of(model):
    return np.array(mass_matrix(lw.nodes(model, model.neutral(), np.zeros(model.nv))), dtype=float)


@pytest.mark.parametrize("theory", THEORIES)
@pytest.mark.parametrize("name", SECTIONS)
def test_rigid_and_modal_motions_have_the_energy_of_their_sections(name, theory):
    """In all bases, so that a rigid motion that modes and joints share has one inertia."""
    for basis in BASES:
        modes = {"bending_y": 2, "bending_z": 2, "torsion": 1, "stretch": 2}
        body = fx.beam(
            length=LENGTH,
            section=SECTIONS[name],
            material=STEEL,
            modes=modes,
            elements=2,
            basis=basis,
            theory=theory,
        )
        expected = inertia_of_sections(body, SECTIONS[name], 2, theory)
        size = np.sqrt(np.diag(expected))
        gap = (inertia_of(free_beam(body)) - expected) / np.outer(size, size)
        assert np.abs(gap).max() < 1e-9, basis


def test_mass_centre_and_inertia_are_those_of_one_beam_in_all_bases():
    for theory, name in itertools.product(THEORIES, SECTIONS):
        of = {"length": LENGTH, "section": SECTIONS[name], "material": STEEL, "elements": 3, "theory": theory}
        first = fx.beam(modes=0, **of)
        for basis in BASES:
            body = fx.beam(modes=2, basis=basis, **of)
            assert body.mass == first.mass
            np.testing.assert_array_equal(body.center, first.center)
            np.testing.assert_array_equal(body.inertia, first.inertia)


# what holds the ends of a beam: columns that span the states (deflection, turning, shear force, moment) of
# its root, and rows that its tip's state satisfies, by ω²
ROOTS = {
    "free": lambda s: np.eye(4)[:, :2],
    "clamped": lambda s: np.eye(4)[:, 2:],
    "pinned": lambda s: np.eye(4)[:, 1:3],
}
JOINTS = {"free": lw.joints.Free(), "clamped": lw.joints.Fixed(), "pinned": lw.joints.Revolute((0, 0, 1))}


def loaded(mass, moment):
    return lambda s: np.array([[-mass * s, 0.0, 1.0, 0.0], [0.0, -moment * s, 0.0, 1.0]])


def exact(ends, tip, theory, count):
    """The lowest ω above zero [rad/s] in the plane of y: zeros of the determinant of the boundary conditions."""
    density = STEEL.density
    thick = theory == "timoshenko"
    EI = STEEL.young * THICK.Iz
    shear = THICK.ky * STEEL.shear_modulus * THICK.area

    def gap(omega):
        s = omega * omega
        rate = np.zeros((4, 4))
        rate[0, 1], rate[0, 2], rate[1, 3] = 1.0, 1.0 / shear if thick else 0.0, 1.0 / EI
        rate[2, 0], rate[3, 1], rate[3, 2] = (
            -density * THICK.area * s,
            -density * THICK.Iz * s if thick else 0.0,
            -1.0,
        )
        values, modes = np.linalg.eig(rate)
        along = (modes * np.exp(values * LENGTH)) @ np.linalg.inv(modes)
        return np.linalg.det(loaded(*tip)(s) @ along.real @ ROOTS[ends](s))

    step = 0.05 * np.sqrt(EI / (density * THICK.area)) / LENGTH**2
    found = []
    low = step
    at_low = gap(step)
    while len(found) < count:
        high = low + step
        at_high = gap(low + step)
        if at_low * at_high < 0.0:
            a = low
            b = high
            at_a = at_low
            for _ in range(50):
                c = 0.5 * (a + b)
                at_c = gap(c)
                a, b, at_a = (a, c, at_a) if at_a * at_c <= 0.0 else (c, b, at_c)
            found.append(0.5 * (a + b))
        low = high
        at_low = at_high
    return np.array(found)


def frequencies(model, least):
    """Natural frequencies [rad/s] above `least`, in rising order."""
    K = np.diag([x for joint in model.joints for x in joint.stiffness])
    squares = np.linalg.eigvals(np.linalg.solve(inertia_of(model), K)).real
    found = np.sqrt(np.maximum(squares, 0.0))
    return np.sort(found[found > least])


def test_the_exact_solution_has_the_roots_of_closed_forms():
    """βL of Blevins, Formulas for natural frequency and mode shape (1979), Tables 8-1 and 8-8."""
    unit = np.sqrt(STEEL.young * THICK.Iz / (STEEL.density * THICK.area)) / LENGTH**2
    known = {
        "free": (4.73004074, 7.85320462),
        "clamped": (1.87510407, 4.69409113),
        "pinned": (3.92660231, 7.06858275),
    }
    for ends, roots in known.items():
        np.testing.assert_allclose(
            exact(ends, (0.0, 0.0), "euler_bernoulli", 2), np.square(roots) * unit, rtol=1e-7
        )


def errors(ends, tip, theory, basis, modes, elements):
    """Relative errors of the two lowest frequencies of a model that bends in the plane of y."""
    beam = fx.beam(
        length=LENGTH,
        section=THICK,
        material=STEEL,
        modes={"bending_y": modes},
        elements=elements,
        basis=basis,
        theory=theory,
    )
    expected = exact(ends, tip, theory, 2)
    found = frequencies(free_beam(beam, JOINTS[ends], tip if tip[0] else None), 0.01 * expected[0])
    return found[:2] / expected - 1.0


@pytest.mark.parametrize("theory", THEORIES)
@pytest.mark.parametrize("basis", BASES)
def test_free_beams_have_the_frequencies_of_closed_forms_in_all_bases(basis, theory):
    """At h/L = 0.1: with sections that turn in rigid motions only, or in bending only, it would be 2 to 4 %
    less.
    """
    assert np.abs(errors("free", (0.0, 0.0), theory, basis, 8, 8)).max() < 2e-3


LOADS = {"nothing": (0.0, 0.0), "a mass": (5.0, 0.0), "a body": (5.0, 0.005)}


@pytest.mark.slow
@pytest.mark.parametrize("theory", THEORIES)
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("ends", JOINTS)
def test_bases_converge_to_closed_forms_on_all_joints_and_under_loads(ends, load, theory):
    """From above, as Ritz's method does; those of Craig and Bampton quickly, others as their ends allow."""
    for basis in BASES:
        coarse, fine = (errors(ends, LOADS[load], theory, basis, modes, 16) for modes in (6, 12))
        assert min(coarse.min(), fine.min()) > -1e-7, basis
        assert ((fine < 0.9 * coarse + 3e-5) | (fine < 1e-3)).all(), (basis, coarse, fine)
        if basis == "craig_bampton":
            assert fine.max() < 1e-3


def hermite(section, elements):
    """Stiffness and mass of bending in the plane of y, (n, n) each: deflection and slope of each node, from
    the root.
    """
    n = 2 * elements + 2
    h = LENGTH / elements
    K = np.zeros((n, n))
    M = np.zeros((n, n))
    t, w = np.polynomial.legendre.leggauss(6)
    for e, (s, weight) in itertools.product(range(elements), zip(0.5 + 0.5 * t, 0.5 * h * w)):
        cut = section_at(section, (e + s) / elements)
        N = np.array(
            [1 - 3 * s**2 + 2 * s**3, h * (s - 2 * s**2 + s**3), 3 * s**2 - 2 * s**3, h * (s**3 - s**2)]
        )
        B = np.array([12 * s - 6, h * (6 * s - 4), 6 - 12 * s, h * (6 * s - 2)]) / h**2
        at = np.ix_(range(2 * e, 2 * e + 4), range(2 * e, 2 * e + 4))
        K[at] += weight * STEEL.young * cut.Iz * np.outer(B, B)
        M[at] += weight * STEEL.density * cut.area * np.outer(N, N)
    return K, M


@pytest.mark.parametrize("basis", BASES)
def test_tapered_beams_have_the_frequencies_of_assembled_elements(basis):
    """On a hinge with a load at its tip."""
    mass = 5.0
    moment = 0.02
    K, M = hermite(SECTIONS["taper"], 8)
    M[-2:, -2:] += np.diag([mass, moment])
    # the hinge holds the root's deflection
    K = K[1:, 1:]
    M = M[1:, 1:]
    expected = np.sqrt(np.sort(np.linalg.eigvals(np.linalg.solve(M, K)).real)[1:3])
    beam = fx.beam(
        length=LENGTH,
        section=SECTIONS["taper"],
        material=STEEL,
        modes={"bending_y": 8},
        elements=8,
        basis=basis,
    )
    found = frequencies(free_beam(beam, JOINTS["pinned"], (mass, moment)), 0.01 * expected[0])[:2]
    assert (found > (1 - 1e-9) * expected).all()
    assert found[0] < {"craig_bampton": 1.0005}.get(basis, 1.15) * expected[0]


def test_beams_without_rotary_inertia_come_back_from_files(tmp_path):
    """Their second moment along the axis is smaller than that of mass points, which modes of stretch show."""
    body = fx.beam(
        length=LENGTH, section=THICK, material=STEEL, modes={"stretch": 6, "bending_y": 2}, elements=6
    )
    fx.save(tmp_path / "beam.npz", body)
    again = fx.load(tmp_path / "beam.npz")
    np.testing.assert_array_equal(again.inertia, body.inertia)
    np.testing.assert_allclose(body.inertia[1, 1], body.mass * LENGTH**2 / 12, rtol=1e-12)


def test_beams_that_are_shorter_than_wide_need_rotary_inertia():
    stubby = {
        "length": 0.1,
        "section": fx.Rectangle(0.15, 0.15),
        "material": STEEL,
        "modes": 1,
        "elements": 2,
    }
    with pytest.raises(lw.ModelError, match=re.escape('use theory="timoshenko"')):
        fx.beam(**stubby)
    assert fx.beam(**stubby, theory="timoshenko").modes == 1
