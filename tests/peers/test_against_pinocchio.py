"""The same robots in Pinocchio: dynamics, Jacobians, energies and momenta of real files agree."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LinkworkError, ModelError, ShapeError
from linkwork.formats import load, urdf
from linkwork.interop.pinocchio import States
from linkwork.joints import Free, Gimbal, Helical, Planar, Prismatic, Revolute, Spherical, Universal
from linkwork.model import Model, ModelBuilder
from linkwork.spatial import Pose

pin = pytest.importorskip("pinocchio")

REFERENCES = {"body": pin.LOCAL, "world": pin.WORLD, "world_aligned": pin.LOCAL_WORLD_ALIGNED}
MOVING = re.compile(r"type\s*=\s*[\"'](revolute|continuous|prismatic|planar|floating)[\"']")
MIMIC = re.compile(r"<mimic\b[^>]*?(/>|>.*?</mimic>)", re.DOTALL)


def files_of(package: str) -> list[Path]:
    try:
        found = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return sorted(Path(str(f.locate())) for f in found if f.suffix == ".urdf")


def articulated(path: Path) -> bool:
    return MOVING.search(path.read_text(errors="replace")) is not None


EXAMPLES = files_of("example-robot-data")
BULLET = [path for path in files_of("pybullet") if articulated(path)]


SINGULAR = 1e13  # a condition from which on there is no forward dynamics


class Errors(dict[str, float]):
    """The largest relative error of each quantity: max |x - y| / max |y| in each state."""

    def note(self, what: str, got: Any, want: Any, scale: Any = None) -> None:
        got = np.asarray(got, dtype=float)
        want = np.asarray(want, dtype=float)
        assert got.shape == want.shape, f"{what}: {got.shape} is not {want.shape}"
        axes = tuple(range(1, got.ndim))
        size = np.abs(want).max(axis=axes, initial=0.0) if scale is None else np.asarray(scale)
        off = np.abs(got - want).max(axis=axes, initial=0.0)
        error = np.where(off == 0.0, 0.0, off / np.where(size > 0.0, size, 1.0))
        assert not np.isnan(error).any(), f"{what}: NaN"
        self[what] = max(self.get(what, 0.0), float(error.max()))


def ours(fn: lw.ModelFunction, model: Model, *args: np.ndarray, compiled: bool, **options: Any) -> Any:
    """A public function on a batch, by its kernel or by the interpreter, which gives the same bits sooner."""
    if compiled:
        return fn(model, *args, **options)
    return lw.interpret(lw.lower(fn.program(model, **options)), *args)


def compare(
    model: Model, peer: Any, count: int, *, compiled: bool = True, frames: tuple[str, ...] = ()
) -> Errors:
    """Relative errors of everything against Pinocchio, over random states."""
    states, data, errors = States(model, peer), peer.createData(), Errors()
    rng = np.random.default_rng(1)
    pairs = [model.random_state(rng) for _ in range(count)]
    q, v = (np.array(x) for x in zip(*pairs))
    a, tau = rng.normal(size=(2, count, model.nv))
    Q, V, A = states.q_to(q), states.v_to(v), states.v_to(a)
    errors.note("q there and back", np.cos(states.q_from(Q)), np.cos(q))
    drag = np.asarray(peer.damping) * V  # Pinocchio stores damping, and leaves it to its user

    def theirs(f: Any) -> np.ndarray:
        return np.array([np.array(f(k)) for k in range(count)])

    forces = states.tau_from(theirs(lambda k: pin.rnea(peer, data, Q[k], V[k], A[k])) + drag)
    errors.note("inverse dynamics", ours(lw.inverse_dynamics, model, q, v, a, compiled=compiled), forces)
    weight = states.tau_from(theirs(lambda k: pin.computeGeneralizedGravity(peer, data, Q[k])))
    errors.note(
        "gravity force", ours(lw.gravity_force, model, q, compiled=False), weight, np.abs(forces).max(axis=1)
    )

    def upper(k: int) -> np.ndarray:
        M = np.triu(pin.crba(peer, data, Q[k]))
        return M + np.triu(M, 1).T

    M = states.matrix_from(theirs(upper))
    errors.note("mass matrix", ours(lw.mass_matrix, model, q, compiled=compiled), M)
    if float(np.median(conditions(M))) < SINGULAR:
        solve(errors, model, peer, M, (q, v, tau), (Q, V, states.tau_to(tau) - drag), states, compiled)
    else:
        with pytest.raises(ModelError, match="moves no mass"):
            lw.forward_dynamics.program(model)
    errors.note("kinetic energy", ours(lw.kinetic_energy, model, q, v, compiled=False),
                theirs(lambda k: pin.computeKineticEnergy(peer, data, Q[k], V[k])))  # fmt: skip
    mass = sum(inertia.mass for inertia in peer.inertias[1:])
    reach = theirs(lambda k: np.abs(pin.centerOfMass(peer, data, Q[k])).max()) if mass else np.ones(count)
    errors.note("potential energy", ours(lw.potential_energy, model, q, compiled=False),
                theirs(lambda k: pin.computePotentialEnergy(peer, data, Q[k])), mass * 9.81 * reach)  # fmt: skip
    if mass:
        errors.note("centre of mass", ours(lw.center_of_mass, model, q, compiled=False),
                    theirs(lambda k: pin.centerOfMass(peer, data, Q[k])))  # fmt: skip
        h = theirs(lambda k: pin.computeCentroidalMomentum(peer, data, Q[k], V[k]).vector)
        errors.note("momentum", ours(lw.momentum, model, q, v, compiled=False), states.spatial(h))
        Ag = theirs(lambda k: np.reshape(pin.computeCentroidalMap(peer, data, Q[k]), (6, -1)))
        errors.note(
            "centroidal map", ours(lw.centroidal_map, model, q, compiled=False), states.jacobian_from(Ag)
        )
    for name in frames:
        compare_frame(errors, model, peer, name, states, (q, v, a), (Q, V, A))
    return errors


def conditions(M: np.ndarray) -> np.ndarray:
    """Of mass matrices with ones on their diagonals, so that units do not count; infinite where a joint moves
    no mass.
    """
    diagonal = np.einsum("kii->ki", M)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, np.inf))
    return np.linalg.cond(scale[:, :, None] * M * scale[:, None, :])


def solve(
    errors: Errors,
    model: Model,
    peer: Any,
    M: np.ndarray,
    here: Any,
    there: Any,
    states: States,
    compiled: bool,
) -> None:
    """Forward dynamics: its error, that divided by how sensitive the solution is, and what is left of M a +
    bias - tau.
    """
    (q, v, tau), (Q, V, T), data = here, there, peer.createData()
    a = ours(lw.forward_dynamics, model, q, v, tau, compiled=compiled)
    want = states.v_from(np.array([np.array(pin.aba(peer, data, *x)) for x in zip(Q, V, T)]))
    condition = conditions(M)
    errors.note("forward dynamics", a, want)
    errors.note(
        "forward dynamics by condition", a, want, np.abs(want).max(axis=1) * np.maximum(1.0, condition / 1e3)
    )
    bias = ours(lw.bias_force, model, q, v, compiled=False)
    terms = (np.abs(M) @ np.abs(a)[..., None])[..., 0] + np.abs(bias) + np.abs(tau)
    left = (M @ a[..., None])[..., 0] + bias - tau
    errors["what is left of M a + bias - tau"] = float((np.abs(left) / terms).max())


def compare_frame(
    errors: Errors, model: Model, peer: Any, name: str, states: States, here: Any, there: Any
) -> None:
    (q, v, a), (Q, V, A), data = here, there, peer.createData()
    frame = peer.getFrameId(name, pin.FrameType.BODY)
    found: dict[str, list[np.ndarray]] = {}
    for k in range(len(q)):
        pin.forwardKinematics(peer, data, Q[k], V[k], A[k])
        pin.updateFramePlacements(peer, data)
        pin.computeJointJacobians(peer, data, Q[k])
        found.setdefault("pose", []).append(data.oMf[frame].homogeneous)
        for word, reference in REFERENCES.items():
            for what, x in (
                ("jacobian", np.reshape(pin.getFrameJacobian(peer, data, frame, reference), (6, -1))),
                ("velocity", pin.getFrameVelocity(peer, data, frame, reference).vector),
                ("acceleration", pin.getFrameAcceleration(peer, data, frame, reference).vector),
                ("classical", pin.getFrameClassicalAcceleration(peer, data, frame, reference).vector),
            ):
                found.setdefault(f"{what} {word}", []).append(np.array(x))
    want = {what: np.array(x) for what, x in found.items()}
    errors.note("frame pose", ours(lw.frame_pose, model, q, compiled=False, frame=name), want["pose"])
    for word in REFERENCES:
        options: dict[str, Any] = {"compiled": False, "frame": name, "reference": word}
        J = ours(lw.frame_jacobian, model, q, **options)
        errors.note("frame jacobian", J, states.jacobian_from(want[f"jacobian {word}"]))
        errors.note(
            "frame velocity",
            ours(lw.frame_velocity, model, q, v, **options),
            states.spatial(want[f"velocity {word}"]),
        )
        for what, classical in (("acceleration", False), ("classical", True)):
            alpha = ours(lw.frame_acceleration, model, q, v, a, classical=classical, **options)
            errors.note(f"frame {what}", alpha, states.spatial(want[f"{what} {word}"]))


def built(text: str, base: str) -> Any:
    root = [pin.JointModelFreeFlyer()] if base == "free" else []
    return pin.buildModelFromXML(text, *root)


def some_frames(model: Model, peer: Any) -> tuple[str, ...]:
    """The last link and one in the middle, of those that both know."""
    known = [f.name for f in model.frames if peer.existFrame(f.name, pin.FrameType.BODY)]
    return tuple(dict.fromkeys([known[-1], known[len(known) // 2]])) if known else ()


def check(text: str, base: str, count: int, *, compiled: bool, ill_conditioned: bool = False) -> Errors:
    """A robot's text here and there."""
    model = urdf.read(text, base=base)
    peer = built(text, base)
    assert model.nv == peer.nv
    if model.nv == 0:  # nothing moves: only places remain
        at = lw.frame_pose(model, np.zeros((2, 0)), frame=model.frames[-1].name)
        data = peer.createData()
        pin.framesForwardKinematics(peer, data, np.zeros(0))
        assert np.allclose(
            at, data.oMf[peer.getFrameId(model.frames[-1].name, pin.FrameType.BODY)].homogeneous, atol=1e-14
        )
        return Errors()
    errors = compare(model, peer, count, compiled=compiled, frames=some_frames(model, peer))
    tolerance = 1e-12 if model.nv <= 40 else 1e-11
    sensitive = ("forward dynamics",) if ill_conditioned else ()
    wrong = {what: error for what, error in errors.items() if error > tolerance and what not in sensitive}
    assert not wrong, f"{model.name}, {base} base: {wrong}"
    return errors


# robots of every day

HAND = """<robot name="hand made">
  <link name="base"><inertial><origin xyz="0.1 0 0.2" rpy="0.1 0.2 0.3"/><mass value="3"/>
    <inertia ixx="0.3" ixy="0.01" ixz="0.02" iyy="0.25" iyz="0.03" izz="0.2"/></inertial></link>
  {links}
  <joint name="z" type="revolute"><parent link="base"/><child link="a"/><origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/>
    <axis xyz="1 -2 3"/><limit lower="-1" upper="2" effort="1" velocity="1"/><dynamics damping="0.7" friction="0.3"/></joint>
  <joint name="y" type="continuous"><parent link="a"/><child link="b"/><origin xyz="0.3 0 0" rpy="1.5707963267948966 0 0"/>
    <axis xyz="0 0 -1"/><dynamics damping="0.2"/></joint>
  <joint name="x" type="prismatic"><parent link="base"/><child link="c"/><origin xyz="0 0.2 0"/><axis xyz="0 1 0"/>
    <limit lower="-0.2" upper="0.3" effort="1" velocity="1"/></joint>
  <joint name="w" type="fixed"><parent link="b"/><child link="d"/><origin xyz="0 0 0.4" rpy="0.3 0.2 0.1"/></joint>
  <joint name="v" type="continuous"><parent link="d"/><child link="e"/><axis xyz="0.5 0.5 0"/></joint>
  <joint name="a_skew" type="prismatic"><parent link="c"/><child link="f"/><axis xyz="1 1 1"/>
    <limit lower="-0.2" upper="0.3" effort="1" velocity="1"/></joint>
  <joint name="u" type="floating"><parent link="f"/><child link="g"/><origin xyz="0.1 0 0" rpy="0.1 0 0"/></joint>
  <joint name="t" type="planar"><parent link="c"/><child link="h"/><axis xyz="0 0 1"/></joint>
</robot>""".format(
    links="".join(
        f'''<link name="{name}"><inertial><origin xyz="0.0{k} 0.1 -0.0{k}"/><mass value="{k}"/>
        <inertia ixx="0.0{k}" ixy="0.001" ixz="0" iyy="0.0{k}" iyz="0.002" izz="0.0{k}"/></inertial></link>'''
        for k, name in enumerate("abcdefgh", start=1)
    )
)


@pytest.mark.parametrize("base", ["fixed", "free"])
def test_a_robot_of_every_joint_that_urdf_has(base: str) -> None:
    check(HAND, base, 10, compiled=False)


DAILY = {
    "solo12": "free",
    "ur5_robot": "fixed",
    "kinova": "free",
    "finger_edu": "fixed",
    "talos_left_arm": "free",
}


@pytest.mark.skipif(not EXAMPLES, reason="example-robot-data is not installed")
@pytest.mark.parametrize("name", DAILY)
def test_a_few_real_robots(name: str) -> None:
    (path,) = (path for path in EXAMPLES if path.stem == name)
    check(MIMIC.sub("", path.read_text()), DAILY[name], 10, compiled=name == "ur5_robot")


# every robot there is

REFUSED = {  # what cannot be loaded, and why
    "alex_psyonic_hands": "no joint named 'index_q1'",
    "ur3": "no <link>",  # a xacro file under another name
    "bike": "'0.07,' is not a finite decimal number",
    "biped2d_pybullet": "must be at the very beginning",
    "diff_ring": "must be at the very beginning",
    "humanoid": "not well-formed",
    "husky": "if this is a xacro file",
    "microtaur": "expected 3 numbers, got 4",
    "cube_no_rotation": "expected lower <= upper, got 1 > -1",
}  # fmt: skip
ILL_CONDITIONED = {
    "human",
    "icub",
}  # bodies that are points, or nearly: forces move them almost infinitely fast


@pytest.mark.slow
@pytest.mark.parametrize("base", ["fixed", "free"])
@pytest.mark.parametrize("path", [*EXAMPLES, *BULLET], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_robot(path: Path, base: str) -> None:
    """100 random states: as in Pinocchio to 1e-12, 1e-11 above 40 velocities; or a load error that is right.

    Files with mimic elements are loaded with them, and compared without, as Pinocchio reads them.
    """
    text = path.read_text(errors="replace")
    reason = REFUSED.get(path.stem)
    if reason is not None:
        with pytest.raises(ModelError, match=re.escape(reason)):
            load(path, base=base)
        if "no joint named" not in reason:
            return
    else:
        load(path, base=base)
    text = MIMIC.sub("", text)
    check(text, base, 100, compiled=base == "fixed", ill_conditioned=path.stem in ILL_CONDITIONED)


# the room itself


def handmade() -> tuple[Model, Any]:
    """Every kind of joint that both know, in an order that differs."""
    b = ModelBuilder("odd", gravity=(0.0, 0.0, -9.81))
    kinds: dict[str, tuple[Any, Any]] = {
        "base": (Free(), pin.JointModelFreeFlyer()),
        "wheel": (Revolute((0, 1, 0)), pin.JointModelRUBY()),
        "hinge": (Revolute((1, 0, 0)), pin.JointModelRX()),
        "skew hinge": (Revolute((2, -1, 2)), pin.JointModelRevoluteUnaligned(2 / 3, -1 / 3, 2 / 3)),
        "slide": (Prismatic((0, 0, 1)), pin.JointModelPZ()),
        "skew slide": (Prismatic((2, 2, -1)), pin.JointModelPrismaticUnaligned(2 / 3, 2 / 3, -1 / 3)),
        "ball": (Spherical(), pin.JointModelSpherical()),
        "gimbal": (Gimbal(), pin.JointModelSphericalZYX()),
        "plane": (Planar(), pin.JointModelPlanar()),
        "screw": (Helical(0.2, (0, 0, 1)), pin.JointModelHZ(0.2)),
        "skew screw": (Helical(0.1, (1, 2, 2)), pin.JointModelHelicalUnaligned(1 / 3, 2 / 3, 2 / 3, 0.1)),
        "cross": (Universal(), pin.JointModelUniversal(np.array([1.0, 0, 0]), np.array([0.0, 1, 0]))),
    }
    peer = pin.Model()
    rng = np.random.default_rng(3)
    parents = {
        "wheel": "base",
        "hinge": "base",
        "skew hinge": "hinge",
        "gimbal": "ball",
        "cross": "slide",
        "screw": "base",
    }
    order: list[str] = []  # there: depth first too, but by the alphabet

    def visit(on: str) -> None:
        for name in sorted(name for name in kinds if parents.get(name, "world") == on):
            order.append(name)
            visit(name)

    visit("world")
    index = {"world": 0}
    for name in order:
        R = Pose.from_xyz_rpy(rng.normal(size=3), rng.normal(size=3)).R
        p = rng.normal(size=3)
        mass = float(rng.uniform(1, 2))
        center = rng.normal(size=3) * 0.1
        on = parents.get(name, "world")
        index[name] = peer.addJoint(index[on], kinds[name][1], pin.SE3(R, p), name)
        peer.appendBodyToJoint(
            index[name], pin.Inertia(mass, center, np.diag([0.2, 0.25, 0.3])), pin.SE3.Identity()
        )
        b.add_body(name, mass=mass, center=center, inertia=(0.2, 0.25, 0.3))
        kinds[name] = (kinds[name][0], Pose(R, p))
    for name, (kind, place) in kinds.items():
        b.add_joint(name, kind, parent=parents.get(name, "world"), child=name, place=place)
    return b.build(), peer


def test_every_joint_that_both_know() -> None:
    model, peer = handmade()
    assert [j.name for j in model.joints] != list(peer.names)[1:]
    errors = compare(model, peer, 5, compiled=False)
    assert max(errors.values()) < 1e-12, errors


def test_states_there_and_back() -> None:
    model, peer = handmade()
    states = States(model, peer)
    rng = np.random.default_rng(0)
    q = np.array([model.random_state(rng)[0] for _ in range(6)]).reshape(2, 3, -1)
    v = rng.normal(size=(2, 3, model.nv))
    assert states.q_to(q).shape == (2, 3, peer.nq) and np.allclose(
        states.q_from(states.q_to(q)), q, atol=1e-14
    )
    assert np.array_equal(states.q_to(q)[1, 2], states.q_to(q[1, 2])) and np.array_equal(
        states.v_to(v)[1, 2], states.v_to(v[1, 2])
    )
    for to, back in ((states.v_to, states.v_from), (states.tau_to, states.tau_from)):
        assert np.array_equal(back(to(v)), v) and np.array_equal(to(back(v)), v)
    assert np.allclose(
        np.sum(states.tau_to(v) * states.v_to(q[..., : model.nv])), np.sum(v * q[..., : model.nv])
    )
    M = rng.normal(size=(2, 3, model.nv, model.nv))
    J = rng.normal(size=(2, 3, 6, model.nv))
    assert np.array_equal(states.matrix_from(states.matrix_to(M)), M)
    assert np.array_equal(states.jacobian_from(states.jacobian_to(J)), J)
    there = (states.jacobian_to(J) @ states.v_to(v)[..., None])[..., 0]
    assert np.allclose(states.spatial(there), (J @ v[..., None])[..., 0])
    assert states.q_from(pin.neutral(peer)).tolist() == model.neutral().tolist()
    assert pin.isNormalized(peer, states.q_to(q)[0, 0], 1e-12)
    longer = q.copy()
    for joint in model.joints:
        if isinstance(joint.kind, (Free, Spherical)):
            longer[..., joint.q_slice][..., -4:] *= 1e3
    assert np.abs(longer - q).max() > 10.0 and np.allclose(states.q_to(longer), states.q_to(q), atol=1e-14)


def geared(ratios: dict[str, float], wanted: str = "link") -> tuple[Model, Any]:
    """A continuous joint with rotors that turn `ratios` times as fast, another that nothing is geared to, and
    the peer.
    """
    b = ModelBuilder("geared")
    peer = pin.Model()
    for k, name in enumerate(("link", "alone", *ratios)):
        b.add_body(name, mass=1.0 + k, center=(0.1, 0.0, 0.0), inertia=(0.2, 0.25, 0.3))
        place = Pose.from_xyz_rpy((k, 0, 0), (0.3, 0, 0))
        b.add_joint(
            name,
            Revolute((0, 0, 1)),
            parent="world",
            child=name,
            place=place,
            independent=name in (wanted, "alone"),
        )
        joint = peer.addJoint(0, pin.JointModelRUBZ(), pin.SE3(place.R, place.p), name)
        peer.appendBodyToJoint(
            joint, pin.Inertia(1.0 + k, np.array([0.1, 0, 0]), np.diag([0.2, 0.25, 0.3])), pin.SE3.Identity()
        )
    for name, ratio in ratios.items():
        b.add_coupling(f"gear {name}", {name: 1.0, "link": -ratio}, offset=0.1)
    return b.build(), peer


GEARS = [{"rotor": 6.0}, {"rotor": -9.5}, {"rotor": 7.43}, {"rotor": 1 / 3}, {"fast": 20.0, "slow": 2.5}]


@pytest.mark.parametrize("ratios", GEARS, ids=str)
@pytest.mark.parametrize("wanted", ["link", "rotor"])
def test_gears_stay_in_mesh_there_and_back(ratios: dict[str, float], wanted: str) -> None:
    model, peer = geared(ratios, next(iter(ratios)) if wanted == "rotor" else "link")
    states = States(model, peer)
    rng = np.random.default_rng(2)
    q = np.zeros((2, 20, model.nq))
    link = model.joint("link").q_start
    alone = model.joint("alone").q_start
    q[..., link], q[..., alone] = rng.uniform(-40.0, 40.0, (2, 2, 20))
    for name, ratio in ratios.items():
        q[..., model.joint(name).q_start] = ratio * q[..., link] + 0.1
    back = states.q_from(states.q_to(q))
    assert np.allclose(states.q_to(back), states.q_to(q), atol=1e-12)
    assert np.abs(lw.close_loops(model, back)[0] - back).max() < 1e-11  # nothing to close
    v, tau = rng.normal(size=(2, 2, 20, model.nv))
    assert np.allclose(
        lw.forward_dynamics(model, back, v, tau), lw.forward_dynamics(model, q, v, tau), atol=1e-9
    )
    assert np.abs(back[..., alone]).max() <= np.pi
    known = states.q_from(states.q_to(q), near=q + rng.uniform(-3.0, 3.0, q.shape))
    assert np.allclose(known, q, atol=1e-12)
    one_near_all = states.q_from(states.q_to(q[0, 0]), near=q)
    assert one_near_all.shape == q.shape and np.abs(one_near_all - q).max() <= np.pi + 1e-12


def test_turns_of_states_off_their_couplings_are_left_alone() -> None:
    model, peer = geared({"rotor": 6.0})
    states = States(model, peer)
    q = np.array([0.3, 0.2, -0.4])
    assert np.allclose(states.q_from(states.q_to(q)), q)
    with pytest.raises(ShapeError, match="near"):
        states.q_from(states.q_to(q), near=np.zeros(2))


def test_turns_through_closures() -> None:
    """A function of a user that is linear in one angle and periodic in another."""
    _, peer = geared({"rotor": 5.0})
    b = ModelBuilder("closure")
    for name in ("link", "alone", "rotor"):
        b.add_body(name, mass=1.0, center=(0.1, 0, 0), inertia=(0.2, 0.25, 0.3))
        b.add_joint(name, Revolute((0, 0, 1)), parent="world", child=name, independent=name != "rotor")
    model = b.add_implicit_constraint(
        "cam", lambda x: x[1] - 5.0 * x[0] - 0.2 * lw.sin(x[2]), joints=("link", "rotor", "alone")
    ).build()
    states = States(model, peer)
    rng = np.random.default_rng(3)
    q = np.zeros((30, 3))
    link, alone, rotor = (model.joint(name).q_start for name in ("link", "alone", "rotor"))
    q[:, link], q[:, alone] = rng.uniform(-20.0, 20.0, (2, 30))
    q[:, rotor] = 5.0 * q[:, link] + 0.2 * np.sin(q[:, alone])
    back = states.q_from(states.q_to(q))
    assert np.allclose(states.q_to(back), states.q_to(q), atol=1e-12)
    assert np.allclose(back[:, rotor], 5.0 * back[:, link] + 0.2 * np.sin(back[:, alone]), atol=1e-12)


def one(kind: Any, name: str = "j") -> Model:
    return (
        ModelBuilder("one").add_body("b", mass=1.0).add_joint(name, kind, parent="world", child="b").build()
    )


def test_models_that_do_not_match() -> None:
    def there(kind: Any, name: str = "j") -> Any:
        peer = pin.Model()
        peer.addJoint(0, kind, pin.SE3.Identity(), name)
        return peer

    with pytest.raises(ModelError, match="joint 'j' of one is not in the Pinocchio model"):
        States(one(Revolute()), there(pin.JointModelRZ(), "k"))
    with pytest.raises(ModelError, match="joint 'j' of the Pinocchio model is not in empty"):
        States(ModelBuilder("empty").build(), there(pin.JointModelRZ()))
    with pytest.raises(
        ModelError, match="joint 'j' is Revolute in one, but JointModelPZ in the Pinocchio model"
    ):
        States(one(Revolute()), there(pin.JointModelPZ()))
    with pytest.raises(ModelError, match="JointModelTranslation"):
        States(one(Free()), there(pin.JointModelTranslation()))
    with pytest.raises(ModelError, match="expected a Pinocchio model, got int"):
        States(one(Free()), 3)
    States(one(Free()), there(pin.JointModelFreeFlyer(), "any name"))  # the only free joint of both
    with pytest.raises(ShapeError, match=r"q\b.* shape \(\.\.\., 7\),.* \(3,\)"):
        States(one(Free()), there(pin.JointModelFreeFlyer())).q_to(np.zeros(3))
    assert issubclass(ShapeError, LinkworkError)
