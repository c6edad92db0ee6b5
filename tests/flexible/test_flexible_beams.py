"""Beams by finite elements against closed forms, their integrals, geometric stiffening, files of modal data,
and bad input.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import linkwork as lw

fx = lw.flexible
SLENDER = {"length": 2.0, "section": fx.Rectangle(0.02, 0.03), "material": fx.STEEL}
# βL of Blevins, Formulas for natural frequency and mode shape (1979), Table 8-1
CLOSED_FORM = {
    "clamped": (1.87510407, 4.69409113, 7.85475744),
    "pinned": (np.pi, 2 * np.pi, 3 * np.pi),
    "free": (4.73004074, 7.85320462, 10.9956078),
}


@pytest.mark.parametrize("ends", CLOSED_FORM)
def test_natural_frequencies_of_beams_are_those_of_closed_forms(ends):
    found = fx.natural_frequencies(ends=ends, **SLENDER)
    section, (E, rho, L) = SLENDER["section"], (2.1e11, 7850.0, 2.0)
    for family, I in (("bending_y", section.Iz), ("bending_z", section.Iy)):
        expected = (
            np.array(CLOSED_FORM[ends]) ** 2 * np.sqrt(E * I / (rho * section.area)) / L**2 / (2 * np.pi)
        )
        np.testing.assert_allclose(found[family][:3], expected, rtol=1e-4)
    n = np.arange(1, 4)
    waves = n * np.pi / L if ends == "free" else (n - 0.5) * np.pi / L
    G = fx.STEEL.shear_modulus
    polar = section.Iy + section.Iz
    np.testing.assert_allclose(found["stretch"][:3], waves * np.sqrt(E / rho) / (2 * np.pi), rtol=1e-4)
    np.testing.assert_allclose(
        found["torsion"][:3], waves * np.sqrt(G * section.J / (rho * polar)) / (2 * np.pi), rtol=1e-4
    )


def hung(kind, beam, **more):
    b = lw.ModelBuilder("one beam", gravity=(0, 0, 0))
    b.add_body("beam", flexible=beam)
    b.add_joint("root", kind, parent="world", child="beam")
    for name, at in more.items():
        b.add_frame(name, body="beam", xyz=at)
    return b.build()


def spectrum(model, v=None):
    """Natural frequencies of a model [Hz], from its mass matrix and its forces where it is moved a little and
    moves by v.
    """
    q = model.neutral()
    v = np.zeros(model.nv) if v is None else v
    h = 1e-5
    there, back = (lw.integrate(model, q, s * h * np.eye(model.nv)) for s in (1, -1))
    K = (lw.bias_force(model, there, v) - lw.bias_force(model, back, v)).T / (2 * h)
    squares = np.linalg.eigvals(np.linalg.solve(lw.mass_matrix(model, q), K))
    return np.sort(np.sqrt(np.maximum(squares.real, 0.0))) / (2 * np.pi)


def test_models_have_the_frequencies_of_beams():
    """Held at the root, free in space, and on a hinge at one end and pinned at the other: by joints and
    loops.
    """
    expected = {ends: fx.natural_frequencies(ends=ends, **SLENDER)["bending_y"] for ends in CLOSED_FORM}
    held = hung(lw.joints.Fixed(), fx.beam(modes={"bending_y": 3}, **SLENDER))
    np.testing.assert_allclose(spectrum(held)[:3], expected["clamped"][:3], rtol=1e-9)
    free = hung(lw.joints.Free(), fx.beam(modes={"bending_y": 3}, basis="free", **SLENDER))
    found = spectrum(free)
    assert np.all(found[:6] < 1e-3 * expected["free"][0])
    np.testing.assert_allclose(found[6:9], expected["free"][:3], rtol=1e-7)
    b = lw.ModelBuilder("pinned", gravity=(0, 0, 0))
    b.add_body(flexible=fx.beam(modes={"bending_y": 3}, basis="pinned", **SLENDER))
    b.add_joint("root", lw.joints.Revolute((0, 0, 1)), parent="world", child="beam")
    b.add_body("shoe", mass=1e-9, inertia=(1e-12, 1e-12, 1e-12))
    b.add_joint("guide", lw.joints.Prismatic((1, 0, 0)), parent="world", child="shoe", xyz=(2, 0, 0))
    b.add_loop("pin", lw.joints.Revolute((0, 0, 1)), predecessor="beam", successor="shoe", xyz=(2, 0, 0))
    np.testing.assert_allclose(spectrum(b.build())[:3], expected["pinned"][:3], rtol=1e-5)


def test_craig_bampton_modes_bend_statically():
    """A force at the tip bends the beam as a closed form says, exactly: static modes are among those of Craig
    and Bampton.
    """
    body = fx.beam(modes={"bending_y": 3}, basis="craig_bampton", **SLENDER)
    model = hung(lw.joints.Fixed(), body, tip=(2, 0, 0))
    tip = lw.frame_jacobian(model, model.neutral(), frame="tip")
    K = np.diag([*model.joints[0].stiffness])
    sag = tip @ np.linalg.solve(K, tip.T)
    EI = 2.1e11 * SLENDER["section"].Iz
    np.testing.assert_allclose(sag[4, 4], 2.0**3 / (3 * EI), rtol=1e-6)
    np.testing.assert_allclose(sag[2, 4], 2.0**2 / (2 * EI), rtol=1e-6)


def test_thick_and_tapered_beams():
    """Timoshenko's beam is softer by shear; a wedge has the frequency of Kirchhoff's closed form (first root
    5.315).
    """
    thick = {"length": 1.0, "section": fx.Rectangle(0.1, 0.1), "material": fx.STEEL}
    found = fx.natural_frequencies(ends="pinned", theory="timoshenko", **thick)["bending_y"][:3] * 2 * np.pi
    E = 2.1e11
    G = fx.STEEL.shear_modulus
    rho = 7850.0
    r2 = 0.1**2 / 12
    k = np.pi * np.arange(1, 4)
    s = E / (5 / 6 * G)
    # the characteristic equation of a pinned Timoshenko beam (Han, Benaroya and Wei 1999)
    a = rho * r2 * s / E * rho
    b = -(rho * (1 + r2 * k**2 * (1 + s)))
    c = E * r2 * k**4
    expected = np.sqrt((-b - np.sqrt(b * b - 4 * a * c)) / (2 * a))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    wedge = fx.natural_frequencies(
        length=1.0,
        section=lambda s: fx.Rectangle(max(1e-4, 0.02 * (1 - s)), 0.01),
        material=fx.STEEL,
        elements=60,
    )["bending_y"][0]
    np.testing.assert_allclose(wedge, 5.315 * np.sqrt(E * 0.02**2 / 12 / rho) / (2 * np.pi), rtol=2e-3)
    taper = fx.beam(length=1.0, section=(fx.Circle(0.02), fx.Circle(0.01)), material=fx.STEEL, modes=2)
    np.testing.assert_allclose(taper.mass, 7850 * np.pi / 3 * (0.02**2 + 0.02 * 0.01 + 0.01**2), rtol=1e-9)


# Ω at the hub over √(EI/ρA)/L² and first flapping frequency in the same unit: Wright, Smith, Thresher and
# Wang, Vibration modes of centrifugally stiffened beams, Journal of Applied Mechanics 49 (1982), Table 1, hub
# radius zero
WRIGHT = {
    0: 3.5160,
    1: 3.6816,
    2: 4.1373,
    3: 4.7973,
    4: 5.5850,
    6: 7.3604,
    8: 9.2568,
    10: 11.2023,
    12: 13.1702,
}


@pytest.mark.parametrize("speed", [0, 2, 6, 12])
def test_a_spinning_beam_stiffens_as_published(speed):
    body = fx.beam(modes={"bending_z": 6}, **SLENDER)
    model = hung(lw.joints.Revolute((0, 0, 1)), body)
    unit = np.sqrt(2.1e11 * SLENDER["section"].Iy / (7850 * SLENDER["section"].area)) / 4
    v = np.zeros(model.nv)
    v[0] = speed * unit
    assert 2 * np.pi * spectrum(model, v)[1] / unit == pytest.approx(WRIGHT[speed], rel=0.005)
    if speed == 2:  # without the data for it, it does not stiffen
        soft = hung(
            lw.joints.Revolute((0, 0, 1)), fx.beam(modes={"bending_z": 6}, stiffening=False, **SLENDER)
        )
        assert 2 * np.pi * spectrum(soft, v)[1] / unit == pytest.approx(WRIGHT[0], rel=0.01)


def test_with_no_modes_the_program_is_that_of_a_rigid_body():
    body = fx.beam(modes=0, **SLENDER)
    b = lw.ModelBuilder("one beam", gravity=(0, 0, 0))
    b.add_body("beam", mass=body.mass, center=body.center, inertia=body.inertia)
    b.add_joint("root", lw.joints.Revolute((0, 1, 0)), parent="world", child="beam")
    b.add_frame("tip", body="beam", xyz=(2, 0, 0))
    rigid = b.build()
    model = hung(lw.joints.Revolute((0, 1, 0)), body, tip=(2, 0, 0))
    assert model == rigid
    for function in (lw.forward_dynamics, lw.inverse_dynamics, lw.mass_matrix):
        assert lw.count_operations(function, model) == lw.count_operations(function, rigid)


def test_files_of_modal_data_come_back(tmp_path):
    body = fx.beam("boom", modes={"bending_y": 2, "torsion": 1}, damping_ratio=0.01, **SLENDER)
    fx.save(tmp_path / "boom.npz", body)
    again = fx.load(tmp_path / "boom.npz")
    one, two = (hung(lw.joints.Revolute((0, 1, 0)), x, tip=(2, 0, 0)) for x in (body, again))
    assert one == two and again.nodes == body.nodes and again.mode_names == body.mode_names


def arrays(tmp_path):
    fx.save(tmp_path / "good.npz", fx.beam("boom", modes={"bending_y": 2}, **SLENDER))
    with np.load(tmp_path / "good.npz") as data:
        return dict(data)


def bent(**changes):
    def change(data):
        for word, f in changes.items():
            data[word] = f(data[word])

    return change


BAD_FILES = {
    "missing array 'mass'; required are format, mass, center, inertia,": lambda data: data.pop("mass"),
    "unknown array 'masss'": lambda data: data.update(masss=np.zeros(1)),
    "format: expected 'linkwork modal data 1', got 'x'": lambda data: data.update(format="x"),
    "stiffness: expected a positive definite matrix, but mode 'bending_y1'": bent(
        stiffness=lambda K: K - 2 * K[0, 0] * np.eye(2)
    ),
    "stiffness: expected a symmetric matrix": bent(stiffness=lambda K: K + np.array([[0, 1e6], [0, 0]])),
    "not normalized by mass": bent(second=lambda B: 1.1 * B),
    "flexible body 'boom': inconsistent integrals: no mass distribution has": bent(
        normalisation=lambda _: "none", mixed=lambda N: 3 * N
    ),
    "flexible body 'boom': damping: expected a positive semidefinite matrix": bent(
        damping=lambda D: D - np.eye(2)
    ),
    "mixed: expected shape (2, 3, 3)": bent(mixed=lambda N: N[:1]),
    "first: expected finite numbers": bent(first=lambda h: h * np.nan),
    "at the origin of the frame: subtract the rigid motion of this node from": bent(shapes=lambda s: s + 0.1),
    "flexible body 'boom': integrals.second: expected ∫φ_j φ_kᵀ dm to be the": bent(
        second=lambda B: B + np.arange(4.0).reshape(2, 2, 1, 1) * (1 - np.eye(3))
    ),
    "mode_names: expected 2 distinct strings, got a, a": bent(mode_names=lambda _: np.array(["a", "a"])),
    "flexible body 'boom': mass: expected a positive number, got 0 kg": bent(
        mass=lambda _: 0.0, inertia=lambda I: 0 * I
    ),
}


@pytest.mark.parametrize("told", BAD_FILES)
def test_bad_files_are_told_in_one_sentence(tmp_path, told):
    data = arrays(tmp_path)
    BAD_FILES[told](data)
    np.savez(tmp_path / "bad.npz", **data)
    with pytest.raises(lw.ModelError, match=re.escape(told)) as error:
        fx.load(tmp_path / "bad.npz")
    assert "\n" not in str(error.value)


def test_files_are_never_unpickled(tmp_path):
    data = arrays(tmp_path)
    data["name"] = np.array([object()], dtype=object)
    np.savez(tmp_path / "bad.npz", allow_pickle=True, **data)
    with pytest.raises(lw.ModelError, match="expected a NumPy archive .* of plain arrays"):
        fx.load(tmp_path / "bad.npz")
    (tmp_path / "text.npz").write_text("mass = 1")
    with pytest.raises(lw.ModelError, match="expected a NumPy archive .* of plain arrays"):
        fx.load(tmp_path / "text.npz")


POINTS = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0.1, 0], [2, -0.1, 0.1]])


def modal(shapes, stiffness=(1.0, 2.0), **more):
    return fx.from_nodes(
        "plate", points=POINTS, masses=np.ones(4), shapes=shapes, stiffness=stiffness, **more
    )


def test_bad_modes_are_told_in_one_sentence():
    rng = np.random.default_rng(0)
    good = rng.normal(size=(4, 3, 2))
    good[0] = 0.0
    modal(good)
    turned = good.copy()
    turned[:, :, 1] = np.cross([0.1, 0.2, 0.3], POINTS)
    cases = [
        ("mode 'mode2' is a rigid motion", lambda: modal(turned)),
        ("flexible body 'plate': dependent modes: 'mode1', 'mode2' combine to a", lambda: modal(good[:, :, [0, 0]])),
        ("not normalized by mass", lambda: modal(good, normalisation="mass")),
        ("normalisation: expected one of", lambda: modal(good, normalisation="max")),
        ("stiffness: expected a positive definite matrix, but mode 'mode2'", lambda: modal(good, stiffness=(1.0, -2.0))),
        ("stiffness: expected a positive definite matrix, but mode 'mode2'", lambda: modal(good, stiffness=(1.0, 0.0))),
        ("at the origin of the frame", lambda: modal(good + 1.0)),
        ("positive modal mass, got 0", lambda: modal(good * [1.0, 0.0])),
        ("length: expected a positive number", lambda: fx.beam(**SLENDER | {"length": -1.0})),
        ("material: expected", lambda: fx.beam(**SLENDER | {"material": "steel"})),
        ("section: expected one of", lambda: fx.beam(**SLENDER | {"section": 3.0})),
        ("width: expected a positive number", lambda: fx.Rectangle(0.0, 1.0)),
        ("basis: expected one of", lambda: fx.beam(basis="hinged", **SLENDER)),
        ("modes: expected", lambda: fx.beam(modes={"bending": 1}, **SLENDER)),
        ("modes: expected an integer", lambda: fx.beam(modes=-1, **SLENDER)),
        ("rayleigh: expected", lambda: fx.beam(rayleigh=(-1.0, 0.0), **SLENDER)),
        ("(3, 0, 0) is not on the axis", lambda: hung(lw.joints.Fixed(), fx.beam(**SLENDER), tip=(3, 0, 0))),
        ("(1, 0.1, 0) is not on the axis", lambda: hung(lw.joints.Fixed(), fx.beam(**SLENDER), tip=(1, 0.1, 0))),
        ("is not on the axis", lambda: hung(lw.joints.Fixed(), fx.beam(**SLENDER | {"modes": 0}), tip=(1, 0.1, 0))),
        ("no node at (1, 1, 0); the nearest is 'node2'", lambda: hung(lw.joints.Fixed(), modal(good), tip=(1, 1, 0))),
        ("has its own mass", lambda: lw.ModelBuilder().add_body("b", mass=1.0, flexible=modal(good))),
        ("flexible: expected a body of linkwork.flexible", lambda: lw.ModelBuilder().add_body("b", flexible="beam")),
    ]  # fmt: skip
    for told, make in cases:
        with pytest.raises(lw.ModelError, match=re.escape(told)) as error:
            make()
        assert "\n" not in str(error.value)


def four_nodes(**changes):
    rng = np.random.default_rng(0)
    shapes = rng.normal(size=(4, 3, 2))
    shapes[0] = 0.0
    points = np.array([[0, 0, 0], [0.5, 0, 0], [1, 0, 0], [0.3, 0.4, 0.5]])
    given = {"points": points, "masses": np.ones(4), "shapes": shapes, "stiffness": (1.0, 2.0)}
    return fx.from_nodes("panel", **{**given, **changes})


class Endless:
    Iy = Iz = J = ky = kz = 1.0
    area = float("inf")


def one_beam(**changes):
    given = {"length": 1.0, "section": fx.Circle(0.01), "material": fx.STEEL, "modes": 1, "elements": 2}
    return fx.beam("rod", **{**given, **changes})


def at_one_place():
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 0], [0.3, 0.4, 0.5]])
    return four_nodes(points=points).place(np.array([1.0, 0.0, 0.0]))


@pytest.mark.parametrize(
    "words, wrong",
    [
        ("beam 'rod': length: expected a positive number, got True", lambda: one_beam(length=True)),
        ("elements: expected an integer from 1 to 200, got True", lambda: one_beam(elements=True)),
        ("stiffening: expected True or False, got 'no'", lambda: one_beam(stiffening="no")),
        ("rayleigh: expected two numbers .α, β.", lambda: one_beam(rayleigh=np.array([1.0, 2.0, 3.0]))),
        ("section: expected two sections of one kind .root and tip. for a taper,", lambda: one_beam(section="ab")),
        ("Material: poisson: expected a number above -1 and at most 0.5, got 'x'", lambda: fx.Material(1.0, 1.0, "x")),
        ("flexible body 'panel': masses: expected non-negative numbers, not all", lambda: four_nodes(masses=np.zeros(4))),
        ("shapes: expected numbers of shape .4, 3, 2., got", lambda: four_nodes(shapes=1j * np.ones((4, 3, 2)))),
        ("flexible body 'panel': shapes: expected shape .nodes, 3, modes.", lambda: four_nodes(shapes=[[1.0], [1.0, 2.0]])),
        ("flexible body 'panel': points: expected shape .nodes, 3.", lambda: four_nodes(points="x")),
        ("stiffness: expected numbers of shape .2, 2., got 'k'", lambda: four_nodes(stiffness="k")),
        ("flexible body 'panel': mode_names: expected 2 names, got 1", lambda: four_nodes(mode_names=("a",))),
        ("mode_names: expected non-empty strings, got 3", lambda: four_nodes(mode_names=3)),
        ("rayleigh: expected a non-negative number, got -1.0", lambda: four_nodes(rayleigh=(-1.0, 0.0))),
        ("expected damping or rayleigh, got both", lambda: four_nodes(rayleigh=(1.0, 0.0), damping=(1.0, 1.0))),
        ("'node2' and 'node3' are at one point, but modes move them differently", at_one_place),
        ("flexible body 'panel': modes: expected an integer from 0 to 1, got 5", lambda: four_nodes().with_modes([5])),
        ("beam: ends: expected one of clamped, free, pinned; got 'craig_bampton'", lambda: frequencies(ends="craig_bampton")),
        ("beam: count: expected an integer from 0 to 1000, got 1.5", lambda: frequencies(count=1.5)),
        ("flexible body 'panel': modes: expected a sequence of indices, got 3", lambda: four_nodes().with_modes(3)),
        ("flexible body 'panel': size: expected positive numbers, got 0", lambda: replace(four_nodes(), size=np.zeros(2))),
        ("integrals: expected linkwork.spatial.modal.ModalIntegrals, got None", lambda: replace(four_nodes(), integrals=None)),
        ("flexible body 'panel': place: expected a function from a point, .3,.,", lambda: replace(four_nodes(), place=None)),
        ("flexible body 'panel': mass: expected numbers of shape .., got 'heavy'", lambda: replace(four_nodes(), mass="heavy")),
        ("shapes: expected numbers of at most 1e.100, got", lambda: four_nodes(shapes=np.full((4, 3, 2), 1e200))),
        ("beam 'rod': section function failed at 0.0.*: ZeroDivisionError", lambda: one_beam(section=lambda s: 1 / 0)),
        ("beam 'rod': section at 0.0.* m: expected positive area and second", lambda: one_beam(section=lambda s: Endless())),
        ("beam: bending_y: masses or stiffnesses exceed the range of floats;", lambda: one_beam(length=1e-300)),
        ("cannot be read: No such file", lambda: fx.load("/nowhere/rod.npz")),
        ("cannot be written: No such file", lambda: fx.save("/nowhere/rod.npz", four_nodes())),
        ("expected a FlexibleBody", lambda: fx.save("/nowhere/rod.npz", 3)),
        ("splits: expected a mapping", lambda: lw.robots.flexible_arm().partitioned(splits="forearm.modes")),
    ],
)  # fmt: skip
def test_what_is_no_number_no_shape_or_no_body_is_told_in_one_sentence(words, wrong):
    with pytest.raises(lw.ModelError, match=words) as told:
        wrong()
    assert "\n" not in str(told.value)


def frequencies(**changes):
    return fx.natural_frequencies(
        **{"length": 1.0, "section": fx.Circle(0.01), "material": fx.STEEL, "elements": 2, **changes}
    )


def test_numbers_of_numpy_are_numbers():
    section = fx.Circle(np.float32(0.5))
    material = fx.Material(np.int64(7850), np.float64(2.1e11))
    found = one_beam(
        length=np.int64(1), section=section, material=material, modes=np.int64(1), elements=np.int32(2)
    )
    expected = one_beam(section=fx.Circle(0.5), material=fx.Material(7850.0, 2.1e11))
    np.testing.assert_array_equal(found.frequencies, expected.frequencies)


def test_archives_that_cannot_be_unpacked_are_told(tmp_path):
    """Encrypted, of an unknown compression, or with an array that is larger than memory."""
    good = tmp_path / "good.npz"
    path = tmp_path / "bad.npz"
    fx.save(good, four_nodes())
    data = bytearray(good.read_bytes())
    entry = data.find(b"PK\x01\x02")  # the first of the directory: flags at 8, compression at 10
    for place, value in ((8, data[entry + 8] | 1), (10, 99)):
        changed = bytearray(data)
        changed[entry + place] = value
        path.write_bytes(changed)
        with pytest.raises(lw.ModelError, match="expected a NumPy archive .* of plain arrays"):
            fx.load(path)
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000000,)}\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mass.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(lw.ModelError, match="expected a NumPy archive .* of plain arrays"):
        fx.load(path)
    with pytest.raises(lw.ModelError, match="expected a non-empty string"):
        fx.load(good, name="")
