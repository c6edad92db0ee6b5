"""Derivatives of frames, energies, momentum and the centre of mass: differences with 60 digits, Pinocchio,
and laws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_dynamics_derivatives import by_differences, off, ours

import linkwork as lw
from linkwork import ModelError
from mechanisms import make, state_of

FRAME: dict[str, Any] = {"frame": ["body2", "body1"]}
PAIRS: list[tuple[lw.ModelFunction, lw.ModelFunction, dict[str, Any]]] = [
    (lw.frame_velocity, lw.frame_velocity_derivatives, FRAME | {"reference": "body"}),
    (lw.frame_velocity, lw.frame_velocity_derivatives, {"frame": "body2", "reference": "world"}),
    (lw.frame_velocity, lw.frame_velocity_derivatives, {"frame": "body2", "reference": "world_aligned"}),
    (
        lw.frame_acceleration,
        lw.frame_acceleration_derivatives,
        FRAME | {"reference": "world_aligned", "classical": True},
    ),
    (lw.frame_acceleration, lw.frame_acceleration_derivatives, {"frame": "body2", "reference": "world"}),
    (lw.frame_acceleration, lw.frame_acceleration_derivatives, {"frame": "body2"}),
    (lw.kinetic_energy, lw.kinetic_energy_derivatives, {}),
    (lw.potential_energy, lw.potential_energy_derivatives, {}),
    (lw.center_of_mass, lw.center_of_mass_jacobian, {}),
    (lw.momentum, lw.momentum_derivatives, {}),
    (lw.momentum_rate, lw.momentum_rate_derivatives, {}),
]


def check(fn: lw.ModelFunction, made: lw.ModelFunction, model: lw.Model, options: dict[str, Any]) -> None:
    q, v, a, *_ = state_of(model, np.random.default_rng(1))
    args = [q, v, a][: len(fn.required)]
    found = ours(made, model, *args, **options)
    found = found if isinstance(found, tuple) else (found,)
    right = by_differences(fn, model, *args, **options)
    for x, y in zip(found, right, strict=True):
        assert x.shape == (*fn.program(model, **options).outputs[0].shape, model.nv)
        assert off([x.reshape(y.shape)], [y]) < 1e-10, (fn, options)


@pytest.mark.parametrize(("fn", "made", "options"), PAIRS)
def test_of_a_tree(fn: lw.ModelFunction, made: lw.ModelFunction, options: dict[str, Any]) -> None:
    check(
        fn,
        made,
        make(np.random.default_rng(7), [-1, 0, 1], ["free", "universal", "skew helical"], fixed=False),
        options,
    )


@pytest.mark.parametrize(("fn", "made", "options"), PAIRS)
def test_through_loops(fn: lw.ModelFunction, made: lw.ModelFunction, options: dict[str, Any]) -> None:
    model = lw.robots.planar_leg_linkage()
    names = [model.bodies[-1].name, model.bodies[1].name]
    if options:
        options = options | {"frame": names if isinstance(options["frame"], list) else names[0]}
    check(fn, made, model, options)


def test_the_rate_of_momentum() -> None:
    """Is that of `momentum` along a motion, and all forces from outside; geared rotors turn with it."""
    for model in (
        lw.robots.mit_humanoid_leg(),
        make(np.random.default_rng(2), [-1, 0, 0], ["free", "gimbal", "planar"]),
    ):
        q, v, a, *_ = state_of(model, np.random.default_rng(3))
        along = lw.jvp(lw.momentum, model)
        right = lw.interpret(lw.lower(along.program()), q, v, v, a)[1]
        assert off([ours(lw.momentum_rate, model, q, v, a)], [right]) < 1e-12
    dog = lw.robots.quadruped()
    q, v = dog.random_state(4)
    falling = ours(lw.forward_dynamics, dog, q, v, np.zeros(dog.nv))
    rate = ours(lw.momentum_rate, dog, q, v, falling)
    assert np.allclose(rate, [0, 0, 0, *(dog.mass * np.array(dog.gravity))], atol=1e-9)


def test_laws() -> None:
    model = lw.robots.quadruped()
    q, v = model.random_state(5)
    assert np.allclose(
        ours(lw.kinetic_energy_derivatives, model, q, v)[1], ours(lw.mass_matrix, model, q) @ v
    )
    assert np.allclose(
        ours(lw.potential_energy_derivatives, model, q), ours(lw.gravity_force, model, q), atol=1e-9
    )
    J = ours(lw.center_of_mass_jacobian, model, q)
    assert np.allclose(model.mass * J @ v, ours(lw.momentum, model, q, v)[3:])
    b = lw.ModelBuilder("light")
    b.add_body("rod", mass=0.0, inertia=(0, 0, 0))
    b.add_joint("pivot", lw.joints.Revolute((0, 0, 1)), parent="world", child="rod")
    with pytest.raises(ModelError, match="has no mass"):
        lw.center_of_mass_jacobian(b.build(), np.zeros(1))


@pytest.mark.slow
def test_against_pinocchio() -> None:
    """Of joints whose motion subspace is constant, which it counts all to be."""
    pin = pytest.importorskip("pinocchio")
    from test_against_pinocchio import handmade

    from linkwork.interop.pinocchio import States

    model, peer = handmade()
    states, data = States(model, peer), peer.createData()
    q, v, a, *_ = state_of(model, np.random.default_rng(19))
    Q = states.q_to(q)
    V = states.v_to(v)
    A = states.v_to(a)
    whole = [name.partition(".")[0] not in ("gimbal", "cross") for name in model.v_names]

    def same(found: Any, theirs: Any) -> None:
        right = [states.jacobian_from(np.array(x)) for x in theirs]
        assert off([x[:, whole] for x in found], [x[:, whole] for x in right]) < 1e-11

    dh_dq, *rate = pin.computeCentroidalDynamicsDerivatives(peer, data, Q, V, A)
    same(ours(lw.momentum_derivatives, model, q, v)[:1], [dh_dq])
    same(ours(lw.momentum_rate_derivatives, model, q, v, a), rate)
    pin.computeForwardKinematicsDerivatives(peer, data, Q, V, A)
    name = model.joints[-1].name
    joint = peer.getJointId(model.joints[-1].name)
    for reference, theirs in (("body", pin.LOCAL), ("world", pin.WORLD)):
        how = {"frame": name, "reference": reference}
        right = pin.getJointVelocityDerivatives(peer, data, joint, theirs)
        same(ours(lw.frame_velocity_derivatives, model, q, v, **how), right)
        right = pin.getJointAccelerationDerivatives(peer, data, joint, theirs)
        same(ours(lw.frame_acceleration_derivatives, model, q, v, a, **how), right[1:])
