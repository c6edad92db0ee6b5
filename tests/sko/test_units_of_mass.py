"""Forward dynamics counts masses in a unit in which asymmetries of rotors are one: forces, springs, dampers,
armatures and modes are counted in it too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import linkwork as lw
from flexible_bodies import cloud, flexible
from linkages import asymmetric_rotor, asymmetric_rotors, link
from linkwork.joints import Revolute
from linkwork.sko.prepare.rotors import unit_of_mass

Random = np.random.Generator


def with_modes(rng: Random) -> lw.Model:
    """A flexible link between rigid ones, which a gear with an asymmetric rotor moves."""
    builder = lw.ModelBuilder("geared and flexible")
    link(
        builder, rng, "shoulder", "world", Revolute((0.0, 1.0, 0.0)), damping=0.3, stiffness=0.7, armature=0.2
    )
    points, slopes = cloud(rng)
    builder.add_body("bar", flexible=flexible(points, slopes, rng))
    builder.add_joint("elbow", Revolute((1.0, 0.0, 0.0)), parent="shoulder", child="bar", xyz=(0.1, 0.2, 0.3))
    link(builder, rng, "hand", "bar", Revolute((0.0, 0.0, 1.0)), 0.1, 0.0, 0.2)
    link(builder, rng, "tool", "hand", Revolute((1.0, 0.0, 0.0)), 0.2, 0.0, 0.1)
    builder.add_body("rotor", **asymmetric_rotor(rng, (1.0, 0.0, 0.0)))
    builder.add_joint("spin", Revolute((1.0, 0.0, 0.0)), parent="hand", child="rotor", independent=False)
    builder.add_coupling("gear", {"spin": 1.0, "to tool": -6.0})
    return builder.build()


@pytest.mark.parametrize("make", [asymmetric_rotors, with_modes], ids=lambda make: make.__name__)
@pytest.mark.parametrize("method", ["articulated_body", "mass_matrix", "auto"])
def test_accelerations_are_those_of_dense_algebra(make: Callable[[Random], lw.Model], method: str) -> None:
    rng = np.random.default_rng(6)
    model = make(rng)
    assert not 0.5 < unit_of_mass(model) < 2.0
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    f_ext = rng.normal(size=(len(model.bodies), 6))
    M = np.asarray(lw.mass_matrix.body(model, q), dtype=float)
    bias = np.asarray(lw.bias_force.body(model, q, v, f_ext), dtype=float)
    for force, taken in ((f_ext, bias), (None, np.asarray(lw.bias_force.body(model, q, v), dtype=float))):
        a = np.asarray(lw.forward_dynamics.body(model, q, v, tau, force, method=method), dtype=float)
        assert np.allclose(a, np.linalg.solve(M, tau - taken), rtol=1e-8, atol=1e-8)
