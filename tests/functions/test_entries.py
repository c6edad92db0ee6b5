"""Names of entries: of spanning velocities, of kernels' arrays, and in C headers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import linkwork as lw
from linkwork.functions.engine.array_labels import DERIVATIVE_OUTPUTS, OUTPUTS


def test_names_of_all_velocities_and_coordinates() -> None:
    model = lw.robots.five_bar()
    assert model.v_names_spanning == tuple(joint.name for joint in model.joints) and len(model.v_names) == 2
    dog = lw.robots.quadruped()
    assert len(dog.q_names) == dog.nq and dog.q_names[:2] == ("trunk[0]", "trunk[1]")
    assert dog.q_names[7] == dog.v_names_spanning[6] == "front_left_abduction"
    V = np.asarray(lw.spanning_velocity.body(model, model.random_state(0)[0], np.array([1.0, 2.0]))).astype(
        float
    )
    own = [model.v_names_spanning.index(name) for name in model.v_names]
    assert np.allclose(V[own], [1.0, 2.0])


def test_kernels_say_which_joint_each_entry_is() -> None:
    model = lw.robots.chain(2)
    entries = lw.compile(lw.forward_dynamics, model, optional="f_ext").array_labels
    assert entries["out"] == ("a", (model.v_names,)) and entries["q"].axes == (model.q_names,)
    assert entries["f_ext"].axes == (
        tuple(body.name for body in model.bodies),
        ("mx", "my", "mz", "fx", "fy", "fz"),
    )
    tip = model.bodies[-1].name
    J = lw.compile(lw.frame_jacobian, model, frame=[tip, "world"]).array_labels["out"]
    assert J.name == "J" and J.axes == ((tip, "world"), ("wx", "wy", "wz", "vx", "vy", "vz"), model.v_names)
    by = lw.compile(lw.inverse_dynamics_derivatives, model, wrt=("a", "q")).array_labels
    assert by["out0"].name == "tau_by_a" and by["out1"] == ("tau_by_q", (model.v_names, model.v_names))
    held = lw.compile(lw.constrained_dynamics, model, constraints=lw.Connect(tip)).array_labels
    assert held["out1"] == ("forces", ((f"{tip}.x", f"{tip}.y", f"{tip}.z"),))


def test_every_result_of_every_function_has_a_name() -> None:
    """All public functions of states, inputs and parameters; those with numbers for every body or equation
    too.
    """
    model = lw.robots.planar_leg_linkage()
    state = (*(f"position of {name}" for name in model.v_names), *model.v_names)
    entries = lw.compile(lw.linearize, model).array_labels
    assert entries["out0"] == ("A", (state, state)) and entries["out1"] == ("B", (state, model.v_names))
    Y = lw.compile(lw.inverse_dynamics_regressor, model).array_labels["out"]
    assert (
        Y.axes[1][:5] == tuple(f"{model.bodies[0].name}.{x}" for x in ("m", "mx", "my", "mz", "xx"))
        and Y.name == "Y"
    )
    kept = lw.compile(lw.loop_forces, model).array_labels["out"].axes[0]
    assert len(kept) == sum(len(cluster.rows) for cluster in model.clusters)
    assert {name.partition("[")[0] for name in kept} == {loop.name for loop in model.embedded}
    unnamed = {"innovations_factors", "newton_euler_factors", "force_propagator", "step", "contact_points"}
    unnamed |= {
        "innovations_product",
        "operational_inertia",
        "operational_compliance",
        "damped_delassus_inverse_at_base",
    }
    unnamed |= {
        "mass_matrix_determinant",
        "mass_matrix_log_determinant",
    }  # one number each, or matrices of operators
    public = {name for name in lw.__all__ if isinstance(getattr(lw, name), lw.ModelFunction)}
    named = {*OUTPUTS, *DERIVATIVE_OUTPUTS}
    assert named <= public and public - named <= unnamed


def test_derivatives_by_parameters_say_whose_they_are() -> None:
    model = lw.robots.chain(2)
    first = model.bodies[0].name
    v = model.v_names
    bodies = tuple(body.name for body in model.bodies)
    moments = ("xx", "yy", "zz", "xy", "xz", "yz")
    by = ("q", f"mass@{first}", "inertia", "f_ext", f"damping@{model.joints[1].name}", "gravity")
    held = {"constraints": [lw.Connect(bodies[-1])], "wrt": by}
    entries = lw.compile(lw.constrained_dynamics_derivatives, model, **held).array_labels
    found = [entries[f"out{k}"] for k in range(2 * len(by))]
    assert [x.name for x in found[:6]] == [f"a_by_{name}" for name in by] and found[6].name == "forces_by_q"
    assert (
        found[1].axes == (v,)
        and found[2].axes == (v, bodies, moments)
        and found[5].axes == (v, ("x", "y", "z"))
    )
    assert found[3].axes == (v, bodies, ("mx", "my", "mz", "fx", "fy", "fz")) and found[4].axes == (
        v,
        (v[1],),
    )
    assert found[8].axes == (tuple(f"{bodies[-1]}.{x}" for x in "xyz"), bodies, moments)
    given = lw.compile(
        lw.forward_dynamics, model, parameters=("center", f"placement@{model.joints[0].name}")
    ).array_labels
    axes = {x.name: x.axes for x in given.values()}
    assert axes["center"] == (bodies, ("x", "y", "z")) and axes[f"placement@{model.joints[0].name}"][0][
        3:
    ] == (
        "qx",
        "qy",
        "qz",
        "qw",
    )


def test_derivatives_of_any_function_say_which_joint_each_entry_is() -> None:
    dog = lw.robots.quadruped()
    foot = next(frame.name for frame in dog.frames if "foot" in frame.name)
    v = dog.v_names
    J = lw.jacobian(lw.frame_velocity, dog, wrt=("q", "mass"), frame=foot).kernel().array_labels
    assert J["d_out_d_q"] == ("velocity_by_q", (("wx", "wy", "wz", "vx", "vy", "vz"), v)) and J["q"].axes == (
        dog.q_names,
    )
    back = (
        lw.vjp(lw.integrate, dog, wrt="q").kernel().array_labels
    )  # weights and gradients are on the tangent space
    assert (
        back["bar_out"] == ("bar_q", (v,))
        and back["bar_q"] == ("bar_q", (v,))
        and back["out"].axes == (dog.q_names,)
    )
    along = lw.jvp(lw.inverse_dynamics, dog, wrt=("q", "a")).kernel().array_labels
    assert along["d_q"].axes == along["d_out"].axes == (v,) and along["d_out"].name == "d_tau"
    assert lw.hvp(lw.kinetic_energy, dog, wrt="q").kernel().array_labels["d_bar_q"] == ("d_bar_q", (v,))


def test_headers_name_joints(tmp_path: Path) -> None:
    b = lw.ModelBuilder("arm")
    for k, name in enumerate(("shoulder", "el*/bow ü\n")):  # names come from files of others
        b.add_body(f"link{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        b.add_joint(
            name,
            lw.joints.Revolute((0, 0, 1)),
            parent="world" if k == 0 else "link0",
            child=f"link{k}",
            xyz=(k, 0, 0),
        )
    made = lw.export_c(lw.inverse_dynamics, b.build(), tmp_path)
    text = made.header.read_text(encoding="ascii")
    comment = text[: text.index("*/")]
    assert (
        comment.count("0 shoulder, 1 el__bow _xfc_\n") == 4 and " *        tau\n" in comment
    )  # q, v, a and the result
    assert text.count("*/") == text.count("/*")


def test_headers_of_derivatives_name_joints_and_bodies(tmp_path: Path) -> None:
    model = lw.robots.chain(2)
    joints, bodies = (
        ", ".join(f"{k} {name}" for k, name in enumerate(x))
        for x in (model.v_names, [b.name for b in model.bodies])
    )
    made = lw.export_c(lw.jacobian(lw.gravity_force, model, wrt=("q", "mass")), tmp_path)
    text = made.header.read_text(encoding="ascii")
    assert (
        f" *        gravity_force_by_mass\n *        axis 0: {joints}\n *        axis 1: {bodies}\n" in text
    )
    made = lw.export_c(lw.gravity_force, model, tmp_path, name="with_masses", parameters="mass")
    assert f"in   mass: (2), 2 numbers\n *        {bodies}\n" in made.header.read_text(encoding="ascii")


def test_no_program_changes() -> None:
    """Names are beside programs: two models that differ in names only have the same one."""

    def one(name: str) -> lw.Model:
        b = lw.ModelBuilder("arm")
        b.add_body("link", mass=1.0, inertia=(0.1, 0.1, 0.1))
        b.add_joint(name, lw.joints.Revolute((0, 0, 1)), parent="world", child="link")
        return b.build()

    programs = [lw.inverse_dynamics.program(one(name)) for name in ("left", "right")]
    assert programs[0].digest == programs[1].digest
