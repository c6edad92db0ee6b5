"""Mechanisms with flexible bodies through everything else: loops, constraints, batches, parameters, float32,
C, derivatives.
"""

from __future__ import annotations

import ctypes
import pickle
import shutil
import subprocess

import numpy as np
import pytest

import linkwork as lw

fx = lw.flexible
R = lw.joints.Revolute
NAMES = ("flexible_arm", "flexible_slider_crank", "boom_satellite")


def robot(name):
    return getattr(lw.robots, name)()


def states(model, n=3, seed=0):
    rng = np.random.default_rng(seed)
    q, v = map(np.array, zip(*(model.random_state(rng) for _ in range(n))))
    return q, v, rng.normal(size=v.shape)


@pytest.mark.parametrize("name", NAMES)
def test_one_state_a_batch_and_float32_agree(name):
    model = robot(name)
    q, v, tau = states(model, 5)
    a = lw.forward_dynamics(model, q, v, tau)
    for k in range(5):
        assert np.array_equal(lw.forward_dynamics(model, q[k], v[k], tau[k]), a[k])
    np.testing.assert_allclose(lw.inverse_dynamics(model, q, v, a), tau, atol=1e-9 * np.abs(a).max())
    f32 = lw.forward_dynamics(model, *(x.astype(np.float32) for x in (q, v, tau)), dtype="float32")
    assert f32.dtype == np.float32
    np.testing.assert_allclose(f32, a, atol=1e-3 * np.abs(a).max())
    assert pickle.loads(pickle.dumps(model)) == model


def test_embedded_and_constrained_loops_move_alike():
    model = robot("flexible_slider_crank")
    held = model.with_loops(constrain=["wrist_pin"])
    names = [name for joint in model.joints for name in joint.v_names]
    places = [names.index(name) for name in model.v_names]
    assert model.v_names == ("crank", "rod.modes.bending_y1", "rod.modes.bending_y2", "rod.modes.bending_y3")
    for q, v, tau in zip(*states(model, 3)):
        a = lw.spanning_acceleration(model, q, v, lw.forward_dynamics(model, q, v, tau))
        wide = np.zeros(held.nv)
        wide[places] = tau
        found = lw.forward_dynamics(held, q, lw.spanning_velocity(model, q, v), wide)
        np.testing.assert_allclose(found, a, atol=1e-9 * np.abs(a).max())
        T = lw.kinetic_energy(model, q, v)
        U = 0.5 * v @ lw.mass_matrix(model, q) @ v
        assert pytest.approx(U, rel=1e-12) == T


def test_frames_in_no_loop_hang_on_a_flexible_body_in_one():
    """What is fixed to a place on a rod that is in a loop is felt by the cluster; at the tip, by its loop's
    own body.
    """
    rod = fx.beam(
        "rod", length=0.6, section=fx.Rectangle(0.008, 0.02), material=fx.STEEL, modes={"bending_y": 2}
    )
    models = []
    for embed in (True, False):
        b = lw.ModelBuilder("slider crank")
        b.add_body("crank", mass=0.3, center=(0.1, 0, 0), inertia=(1e-4, 1e-3, 1e-3)).add_body(flexible=rod)
        b.add_body("slider", mass=0.5, inertia=(1e-3, 1e-3, 1e-3)).add_body(
            "weight", mass=0.4, inertia=(1e-4, 1e-4, 1e-4)
        )
        b.add_joint("crank", R((0, 0, 1)), parent="world", child="crank", independent=True)
        b.add_joint("pin", R((0, 0, 1)), parent="crank", child="rod", xyz=(0.2, 0, 0), independent=False)
        b.add_joint(
            "slide",
            lw.joints.Prismatic((1, 0, 0)),
            parent="world",
            child="slider",
            xyz=(0.8, 0, 0),
            independent=False,
        )
        b.add_joint("swing", R((0, 1, 0)), parent="rod", child="weight", xyz=(0.3, 0, 0))
        b.add_loop("wrist", R((0, 0, 1)), predecessor="rod", successor="slider", xyz=(0.6, 0, 0), embed=embed)
        models.append(b.add_frame("middle", body="rod", xyz=(0.3, 0, 0)).build())
    model, held = models
    names = [name for joint in model.joints for name in joint.v_names]
    places = [names.index(name) for name in model.v_names]
    for q, v, tau in zip(*states(model, 2)):
        a = lw.forward_dynamics(model, q, v, tau)
        np.testing.assert_allclose(
            lw.forward_dynamics(model, q, v, tau, method="mass_matrix"), a, rtol=1e-8, atol=1e-6
        )
        wide = np.zeros(held.nv)
        wide[places] = tau
        all_of_it = lw.spanning_acceleration(model, q, v, a)
        found = lw.forward_dynamics(held, q, lw.spanning_velocity(model, q, v), wide)
        np.testing.assert_allclose(found, all_of_it, atol=1e-8 * np.abs(a).max())
        J = lw.frame_jacobian(model, q, frame="middle")
        np.testing.assert_allclose(J @ v, lw.frame_velocity(model, q, v, frame="middle"), atol=1e-11)


def assert_as_held(model, held, q, v, tau):
    """All joints accelerate alike where loops are embedded, and where forces hold the same loops."""
    names = [name for joint in model.joints for name in joint.v_names]
    wide = np.zeros(held.nv)
    wide[[names.index(name) for name in model.v_names]] = tau
    a = lw.spanning_acceleration(model, q, v, lw.forward_dynamics(model, q, v, tau))
    found = lw.forward_dynamics(held, q, lw.spanning_velocity(model, q, v), wide)
    np.testing.assert_allclose(found, a, atol=1e-8 * np.abs(a).max())


@pytest.mark.parametrize("kind, nv", [(R((0, 0, 1)), 4), (lw.joints.Spherical(), 6)], ids=["pin", "ball"])
def test_loops_hold_modes_that_no_joint_could_follow(kind, nv):
    """A rod that bends, twists and stretches also out of its mechanism's plane: its pin holds it there, and
    modes depend.
    """
    modes = {"bending_y": 1, "bending_z": 3, "torsion": 1, "stretch": 1}
    rod = fx.beam("rod", length=0.45, section=fx.Rectangle(0.006, 0.02), material=fx.STEEL, modes=modes)
    models = []
    for embed in (True, False):
        b = lw.ModelBuilder("slider crank")
        b.add_body("crank", mass=0.8, center=(0.075, 0, 0), inertia=(1e-4, 1e-3, 1e-3)).add_body(flexible=rod)
        b.add_body("slider", mass=0.4, inertia=(1e-4, 1e-4, 1e-4))
        b.add_joint("crank", R((0, 0, 1)), parent="world", child="crank")
        b.add_joint("pin", R((0, 0, 1)), parent="crank", child="rod", xyz=(0.15, 0, 0))
        b.add_joint("guide", lw.joints.Prismatic((1, 0, 0)), parent="world", child="slider", xyz=(0.6, 0, 0))
        b.add_loop("wrist", kind, predecessor="rod", successor="slider", xyz=(0.45, 0, 0), embed=embed)
        models.append(b.add_frame("end", body="rod", xyz=(0.45, 0, 0)).build())
    model, held = models
    assert model.nv == nv  # of nine: two equations in the plane, and z, or z and two slopes, out of it
    for q, v, tau in zip(*states(model, 2)):
        ends = [
            lw.frame_velocity(model, q, v, frame=name, reference="world_aligned")
            for name in ("end", "slider")
        ]
        np.testing.assert_allclose(*(end[3:] for end in ends), atol=1e-11 * np.abs(v).max())
        assert_as_held(model, held, q, v, tau)


def test_a_loop_clamps_the_other_end_of_a_beam():
    """Nothing but modes can close this loop: natural frequencies are those of a beam that is clamped at both
    ends.
    """
    beam = {"length": 1.3, "section": fx.Rectangle(0.011, 0.017), "material": fx.STEEL}
    body = fx.beam(
        "beam", modes={"bending_y": 5, "stretch": 3}, basis="craig_bampton", stiffening=False, **beam
    )
    b = lw.ModelBuilder("clamped", gravity=(0, 0, 0)).add_body(flexible=body)
    b.add_joint("root", lw.joints.Fixed(), parent="world", child="beam")
    b.add_loop(
        "clamp",
        lw.joints.Fixed(),
        predecessor="beam",
        successor="world",
        xyz=(1.3, 0, 0),
        successor_xyz=(1.3, 0, 0),
    )
    model = b.build()
    assert model.nv == 5  # of eight
    h = 1e-6 * np.eye(model.nv)
    still = np.zeros((model.nv, model.nv))
    there, back = (lw.integrate(model, np.tile(model.neutral(), (model.nv, 1)), sign * h) for sign in (1, -1))
    K = (lw.bias_force(model, there, still) - lw.bias_force(model, back, still)).T / 2e-6
    found = np.sort(
        np.sqrt(np.linalg.eigvals(np.linalg.solve(lw.mass_matrix(model, model.neutral()), K)).real)
    )
    E = fx.STEEL.young
    rho = fx.STEEL.density
    section = beam["section"]
    bent = np.array([4.73004074, 7.85320462]) ** 2 * np.sqrt(E * section.Iz / (rho * section.area)) / 1.3**2
    np.testing.assert_allclose(found[:2], bent, rtol=1e-4)
    np.testing.assert_allclose(
        found[3], np.pi * np.sqrt(E / rho) / 1.3, rtol=1e-3
    )  # stretch, between two walls


def test_neutral_states_are_not_bent():
    for name in (*NAMES, "flexible_stewart"):
        model = robot(name)
        q = model.neutral()
        modal = [joint for joint in model.joints if joint.kind.elastic]
        assert modal and not any(np.any(q[joint.q_slice]) for joint in modal)
        closed = lw.close_loops(model, model.random_state(3)[0])
        assert np.isfinite(closed[0] if isinstance(closed, tuple) else closed).all()


def test_loops_between_two_places_of_one_flexible_body():
    """Two bars between places of a beam and each other: its modes are in their cluster, and forces close them
    alike.
    """
    modes = {"bending_y": 2, "stretch": 1}
    beam = fx.beam("beam", length=1.0, section=fx.Rectangle(0.01, 0.01), material=fx.STEEL, modes=modes)
    models = []
    for embed in (True, False):
        b = lw.ModelBuilder("truss")
        b.add_body(flexible=beam)
        b.add_joint("base", R((0, 0, 1)), parent="world", child="beam")
        for name, at in (("left", 0.2), ("right", 1.0)):
            b.add_body(name, mass=0.2, center=(0.25, 0, 0), inertia=(1e-4, 1e-3, 1e-3))
            b.add_joint(name, R((0, 0, 1)), parent="beam", child=name, xyz=(at, 0, 0))
        ends = {"predecessor": "left", "successor": "right", "xyz": (0.5, 0, 0), "successor_xyz": (0.5, 0, 0)}
        b.add_loop("top", R((0, 0, 1)), embed=embed, **ends)
        models.append(b.build(start={"left": 0.7, "right": 2.4}))
    model, held = models
    assert sum("modes" in name for name in model.v_names) == 3
    for q, v, tau in zip(*states(model, 2)):
        assert_as_held(model, held, q, v, tau)


def test_constraints_hold_flexible_frames():
    model = robot("flexible_arm")
    q, v, tau = (x[0] for x in states(model, 1))
    constraint = lw.Connect(frame="tool")
    J = lw.frame_jacobian(model, q, frame="tool", reference="world_aligned")[3:]
    v = v - np.linalg.pinv(J) @ (J @ v)
    found = []
    for method in ("caba", "ltl"):
        a, _ = lw.constrained_dynamics(model, q, v, tau, constraints=[constraint], method=method)
        found.append(a)
        classical = lw.frame_acceleration(
            model, q, v, a, frame="tool", reference="world_aligned", classical=True
        )
        np.testing.assert_allclose(classical[3:], 0.0, atol=1e-6 * np.abs(a).max())
    np.testing.assert_allclose(found[0], found[1], atol=1e-6 * np.abs(found[0]).max())


def test_anchors_of_flexible_frames_are_their_deformed_places():
    model = robot("flexible_arm")
    q, at = (model.random_state(seed)[0] for seed in (0, 1))
    still = np.zeros(model.nv)
    T, T_at = (lw.frame_pose(model, x, frame="tool") for x in (q, at))
    weld = lw.Weld("tool", at=at, gains=lw.Gains(stiffness=1.0))
    error = lw.constraint_bias(model, q, still, constraints=[weld])
    np.testing.assert_allclose(error[3:], T[:3, :3].T @ (T - T_at)[:3, 3], atol=1e-12)
    np.testing.assert_allclose(lw.constraint_bias(model, at, still, constraints=[weld]), 0.0, atol=1e-12)


def test_forces_act_on_deformed_places():
    """A force on a body that modes move is its generalised force by the frame's Jacobian."""
    model = robot("flexible_arm")
    q, v, tau = (x[0] for x in states(model, 1))
    body = model.frame("tool").body
    f_ext = np.zeros((len(model.bodies), 6))
    f_ext[body] = [0.1, 0.2, 0.3, 4.0, 5.0, 6.0]
    pushed = lw.forward_dynamics(model, q, v, tau, f_ext)
    J = lw.frame_jacobian(model, q, frame=model.bodies[body].name)
    expected = lw.forward_dynamics(model, q, v, tau + J.T @ f_ext[body])
    np.testing.assert_allclose(pushed, expected, atol=1e-9 * np.abs(expected).max())


def test_parameters_are_inputs():
    model = robot("flexible_arm")
    q, v, tau = states(model, 4)
    own = model.parameters()
    stiffness = own["stiffness"] * np.linspace(0.5, 2.0, 4)[:, None]
    damping = own["damping"] * np.linspace(0.1, 3.0, 4)[:, None]
    found = lw.forward_dynamics(model, q, v, tau, parameters={"stiffness": stiffness, "damping": damping})
    for k in range(4):
        other = model.with_parameters({"stiffness": stiffness[k], "damping": damping[k]})
        np.testing.assert_allclose(
            found[k], lw.forward_dynamics(other, q[k], v[k], tau[k]), rtol=1e-8, atol=1e-6
        )
    one = lw.forward_dynamics(
        model, q[0], v[0], tau[0], parameters={"stiffness@forearm.modes": np.full(4, 1e4)}
    )
    changed = own["stiffness"].copy()
    changed[model.joint("forearm.modes").v_slice] = 1e4
    other = lw.forward_dynamics(model.with_parameters({"stiffness": changed}), q[0], v[0], tau[0])
    np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-6)


def test_derivatives():
    model = robot("flexible_slider_crank")
    q, v, tau = (x[0] for x in states(model, 1))
    found = lw.inverse_dynamics_derivatives(model, q, v, tau)
    h = 1e-6
    e = np.eye(model.nv)
    by_q, by_v = np.zeros((2, model.nv, model.nv))
    for k in range(model.nv):
        there, back = (
            lw.inverse_dynamics(model, lw.integrate(model, q, s * h * e[k]), v, tau) for s in (1, -1)
        )
        by_q[:, k] = (there - back) / (2 * h)
        there, back = (lw.inverse_dynamics(model, q, v + s * h * e[k], tau) for s in (1, -1))
        by_v[:, k] = (there - back) / (2 * h)
    np.testing.assert_allclose(found[0], by_q, atol=1e-7 * np.abs(by_q).max())
    np.testing.assert_allclose(found[1], by_v, atol=1e-7 * np.abs(by_v).max())
    np.testing.assert_allclose(found[2], lw.mass_matrix(model, q), atol=1e-12)
    forward = lw.forward_dynamics_derivatives(model, q, v, tau)
    np.testing.assert_allclose(forward[2] @ lw.mass_matrix(model, q), np.eye(model.nv), atol=1e-8)


@pytest.mark.parametrize("name", ["flexible_arm", "flexible_slider_crank"])
def test_derivatives_of_constrained_dynamics(name):
    """∂a and ∂f solve M ∂a - Jᵀ ∂f = -∂T + ∂(Jᵀ f) and J ∂a = -∂(J a + b), at fixed a and f."""
    model = robot(name)
    q, v, tau = (x[0] for x in states(model, 1))
    held = {"constraints": [lw.Locked(model.joints[0].name)]}
    found = lw.constrained_dynamics_derivatives(model, q, v, tau, **held)
    a, f = lw.constrained_dynamics(model, q, v, tau, **held)
    M = lw.mass_matrix(model, q)
    J = lw.constraint_jacobian(model, q, **held)
    # J of a lock is constant
    T = lw.inverse_dynamics_derivatives(model, q, v, a)
    none = np.zeros((len(f), model.nv))
    K = np.block([[M, -J.T], [J, np.zeros((len(f), len(f)))]])
    for k, change in enumerate((-T[0], -T[1], np.eye(model.nv))):
        right = np.linalg.solve(K, np.concatenate([change, none]))
        both = np.concatenate([found[k], found[3 + k]])
        np.testing.assert_allclose(both, right, atol=1e-8 * np.abs(right).max())


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    "name", ["flexible_slider_crank", pytest.param("flexible_arm", marks=pytest.mark.slow)]
)
def test_exported_c_has_the_bits_of_the_kernel(name, tmp_path):
    model = robot(name)
    made = lw.export_c(lw.forward_dynamics, model, tmp_path)
    library = tmp_path / "flexible.so"
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", made.source, "-o", library, "-lm"], check=True, capture_output=True
    )
    function = ctypes.CDLL(str(library)).forward_dynamics
    for q, v, tau in zip(*states(model, 5)):
        out = np.full(model.nv, np.nan)
        function(
            *(ctypes.c_void_p(np.ascontiguousarray(x).ctypes.data) for x in (q, v, tau)),
            ctypes.c_void_p(out.ctypes.data),
        )
        assert out.tobytes() == lw.forward_dynamics(model, q, v, tau).tobytes()


def test_energy_drifts_at_the_order_of_the_integrator():
    """An undamped flexible double pendulum: with half the step, the energy's error is 2⁴ times smaller."""
    b = lw.ModelBuilder("pendulum")
    link = fx.beam(
        "link",
        length=0.5,
        section=fx.Rectangle(0.004, 0.03),
        material=fx.STEEL,
        modes={"bending_y": 1},
        elements=8,
    )
    b.add_body("upper", flexible=link)
    b.add_body("lower", flexible=link)
    b.add_joint("one", R((0, 0, 1)), parent="world", child="upper")
    b.add_joint("two", R((0, 0, 1)), parent="upper", child="lower", xyz=(0.5, 0, 0))
    b.gravity = (0.0, -9.81, 0.0)
    model = b.build()
    q = model.neutral()
    v = np.zeros(model.nv)
    tau = np.zeros(model.nv)
    drift = []
    for steps in (1000, 2000):
        log = lw.rollout(model, q, v, tau, dt=0.2 / steps, steps=steps, integrator="rk4", record_every=steps)
        E = lw.kinetic_energy(model, log.q[-1], log.v[-1]) + lw.potential_energy(model, log.q[-1])
        drift.append(abs(E - lw.potential_energy(model, q)))
    assert drift[0] > 1e-12 and 10 < drift[0] / drift[1] < 40


def operations(model):
    return lw.count_operations(lw.forward_dynamics, model, method="articulated_body")["total"]


def test_operations_grow_linearly():
    counts = [operations(lw.robots.flexible_chain(n, 2)) for n in (4, 6, 8)]
    assert counts[2] - counts[1] == counts[1] - counts[0]


@pytest.mark.slow
def test_operations_a_body_are_constant_from_5_to_200_bodies():
    counts = {n: operations(lw.robots.flexible_chain(n)) for n in (6, 8, 200)}
    assert counts[200] - counts[8] == 96 * (counts[8] - counts[6])


@pytest.mark.parametrize(
    "name", ["flexible_slider_crank", *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES[::2])]
)
def test_coriolis_matrix(name):
    """C v is the bias force without gravity, springs and dampers, and C + Cᵀ the rate of the mass matrix
    along the motion.
    """
    model = robot(name).without_passive_forces()
    h = 1e-5
    for q, v, _ in zip(*states(model, 2)):
        C = lw.coriolis_matrix(model, q, v)
        bare = lw.bias_force(model, q, v) - lw.bias_force(model, q, 0 * v)  # without springs
        damped = 0.5 * (
            bare - (lw.bias_force(model, q, -v) - lw.bias_force(model, q, 0 * v))
        )  # what is odd in v
        scale = 1.0 + np.abs(C).max() * np.abs(v).max()
        np.testing.assert_allclose(C @ v, bare - damped, atol=1e-11 * scale)
        ahead, behind = (lw.mass_matrix(model, lw.integrate(model, q, s * v)) for s in (h, -h))
        np.testing.assert_allclose(C + C.T, (ahead - behind) / (2 * h), atol=1e-6 * scale)


@pytest.mark.slow
def test_jacobian_of_forward_dynamics():
    """By δ in integrate(q, δ), by v and by tau, against differences."""
    model = robot("flexible_arm")
    h = 1e-5
    q, v, tau = (x[0] for x in states(model, 1))
    found = lw.jacobian(lw.forward_dynamics, model, wrt=("q", "v", "tau"))(q, v, tau)

    def of(x, k):
        given = [
            lw.integrate(model, q, x) if k == 0 else q,
            v + x if k == 1 else v,
            tau + x if k == 2 else tau,
        ]
        return lw.forward_dynamics(model, *given)

    for k, J in enumerate(found[-3:]):
        wanted = np.array([(of(h * e, k) - of(-h * e, k)) / (2 * h) for e in np.eye(model.nv)]).T
        np.testing.assert_allclose(J, wanted, atol=1e-6 * np.abs(wanted).max())


def test_what_is_not_known_of_flexible_bodies_is_said():
    model = robot("flexible_arm")
    q, v, _ = (x[0] for x in states(model, 1))
    with pytest.raises(lw.ModelError, match="flexible bodies"):
        lw.inverse_dynamics_regressor(model, q, v, v)
    with pytest.raises(lw.ModelError, match="'upper_arm' is flexible"):
        model.with_loop("l", R((0, 0, 1)), predecessor="upper_arm", successor="payload", xyz=(0.1, 0, 0))
    b = lw.ModelBuilder().add_body(
        flexible=fx.beam("rod", length=1.0, section=fx.Circle(0.01), material=fx.STEEL, modes=1)
    )
    b.add_joint("rod.modes", R((0, 0, 1)), parent="world", child="rod")
    with pytest.raises(lw.ModelError, match="reserved for a part of the flexible body 'rod'"):
        b.build()
