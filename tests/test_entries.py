"""Names of entries: of spanning velocities, of kernels' arrays, and in C headers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import linkwork as lw


def test_names_of_all_velocities_and_coordinates() -> None:
    model = lw.robots.five_bar()
    assert model.v_names_spanning == tuple(joint.name for joint in model.joints) and len(model.v_names) == 2
    dog = lw.robots.quadruped()
    assert len(dog.q_names) == dog.nq and dog.q_names[:2] == ("trunk[0]", "trunk[1]")
    assert dog.q_names[7] == dog.v_names_spanning[6] == "front_left_abduction"
    V = np.asarray(lw.spanning_velocity.body(model, model.random_state(0)[0], np.array([1.0, 2.0]))).astype(float)
    own = [model.v_names_spanning.index(name) for name in model.v_names]
    assert np.allclose(V[own], [1.0, 2.0])


def test_kernels_say_which_joint_each_entry_is() -> None:
    model = lw.robots.chain(2)
    entries = lw.compile(lw.forward_dynamics, model, optional="f_ext").entries
    assert entries["out"] == ("a", (model.v_names,)) and entries["q"].axes == (model.q_names,)
    assert entries["f_ext"].axes == (tuple(body.name for body in model.bodies), ("mx", "my", "mz", "fx", "fy", "fz"))
    tip = model.bodies[-1].name
    J = lw.compile(lw.frame_jacobian, model, frame=[tip, "world"]).entries["out"]
    assert J.name == "J" and J.axes == ((tip, "world"), ("wx", "wy", "wz", "vx", "vy", "vz"), model.v_names)
    by = lw.compile(lw.inverse_dynamics_derivatives, model, wrt=("a", "q")).entries
    assert by["out0"].name == "tau_by_a" and by["out1"] == ("tau_by_q", (model.v_names, model.v_names))
    held = lw.compile(lw.constrained_dynamics, model, constraints=lw.Connect(tip)).entries
    assert held["out1"] == ("forces", ((f"{tip}.x", f"{tip}.y", f"{tip}.z"),))


def test_headers_name_joints(tmp_path: Path) -> None:
    b = lw.ModelBuilder("arm")
    for k, name in enumerate(("shoulder", "el*/bow ü\n")):  # names come from files of others
        b.add_body(f"link{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        b.add_joint(name, lw.joints.Revolute((0, 0, 1)), parent="world" if k == 0 else "link0", child=f"link{k}", xyz=(k, 0, 0))
    made = lw.export_c(lw.inverse_dynamics, b.build(), tmp_path)
    text = made.header.read_text(encoding="ascii")
    comment = text[: text.index("*/")]
    assert comment.count("0 shoulder, 1 el__bow _xfc_\n") == 4 and " *        tau\n" in comment  # q, v, a and the result
    assert text.count("*/") == text.count("/*")


def test_no_program_changes() -> None:
    """Names are beside programs: two models that differ in names only have the same one."""

    def one(name: str) -> lw.Model:
        b = lw.ModelBuilder("arm")
        b.add_body("link", mass=1.0, inertia=(0.1, 0.1, 0.1))
        b.add_joint(name, lw.joints.Revolute((0, 0, 1)), parent="world", child="link")
        return b.build()

    programs = [lw.inverse_dynamics.program(one(name)) for name in ("left", "right")]
    assert programs[0].digest == programs[1].digest
