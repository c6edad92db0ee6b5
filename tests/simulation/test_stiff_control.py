"""Control that is too stiff for the step is told, whether numbers left the finite ones or not; nothing else
is said of them.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.joints import Prismatic, Revolute

DT = 1e-3


def slider(stiffness: float = 0.0, damping: float = 0.0, **laws: float) -> lw.Model:
    builder = lw.ModelBuilder("slider", gravity=(0.0, 0.0, 0.0)).add_body(
        "block", mass=1.0, inertia=(0.1, 0.1, 0.1)
    )
    joint: dict[str, Any] = {"parent": "world", "child": "block", "stiffness": stiffness, "damping": damping}
    return builder.add_joint("rail", Prismatic((1.0, 0.0, 0.0)), **joint, **laws).build()


def gained(q: Any, v: Any, t: Any, inputs: Any) -> Any:
    return -inputs["kp"] * q - inputs["kd"] * v


WAYS: dict[str, Any] = {
    "PD": lambda kp, kd: {"tau": lw.PD([kp], [kd], [0.0])},
    "policy": lambda kp, kd: {"policy": gained, "inputs": {"kp": [kp], "kd": [kd]}},
}


def spectral_radius(kp: float, kd: float) -> float:
    """Of a step of semi-implicit Euler of the slider, on (q, v)."""
    step = np.array([[1.0 - DT * DT * kp, DT * (1.0 - DT * kd)], [-DT * kp, 1.0 - DT * kd]])
    return float(np.abs(np.linalg.eigvals(step)).max())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kp", "kd"), [(1e7, 0), (4.5e6, 0), (3.9e6, 0), (1e4, 100), (0, 2.2e3), (0, 1.9e3), (1e9, 1e5)]
)
def test_stiff_is_what_the_matrix_of_a_step_says(way: str, kp: float, kd: float) -> None:
    unstable = spectral_radius(kp, kd) > 1.0 + 1e-9
    for steps in (200, 3000):
        control = WAYS[way](kp, kd)
        motion = lw.rollout(slider(), [1.0], [0.5], **control, dt=DT, steps=steps)
        control = {"controller" if name == "tau" else name: x for name, x in control.items()}
        log = lw.simulate(slider(), [1.0], [0.5], steps * DT, **control)
        for status in (motion.status, log.status):
            assert status == (lw.Status.STIFF if unstable else lw.Status.OK)
    far = lw.rollout(slider(), [1.0], [0.5], **WAYS[way](1e7, 0.0), dt=DT, steps=200)
    assert np.isfinite(far.q).all() and np.abs(far.q[-1]) > 1e100  # all steps were taken, and yet
    assert (
        lw.rollout(slider(), far.q[-1], far.v[-1], dt=DT, steps=1, status=far.status).status
        == lw.Status.STIFF
    )


def test_springs_that_did_not_leave_the_finite_numbers_yet() -> None:
    stiff = lw.rollout(slider(1e7), [1.0], [0.0], dt=DT, steps=100)
    assert stiff.status == lw.Status.STIFF and np.isfinite(stiff.q).all()
    fast = lw.rollout(slider(), [1.0], [1e6], dt=DT, steps=100)  # fast, and nothing is wrong
    assert fast.status == lw.Status.OK
    lost = lw.rollout(slider(), [1.0], [0.0], [1e200], dt=DT, steps=2)
    assert lost.status == lw.Status.NOT_FINITE


@pytest.mark.parametrize("kd", [1.5e3, 2.5e3])
def test_limits_do_not_hide_unstable_steps(kd: float) -> None:
    """Steps that grow are stopped by both limits in turn, at 1 m in 1 ms."""
    expected = lw.Status.STIFF if kd > 2e3 else lw.Status.OK
    damped = slider(damping=kd, lower=-0.5, upper=0.5)
    plain = slider(lower=-0.5, upper=0.5)
    how: dict[str, Any] = {"dt": DT, "steps": 200}
    assert lw.rollout(damped, [0.1], [0.5], **how).status == expected
    assert lw.rollout(damped, [0.1], [0.5], lambda q, v, t: 0.0 * v, **how).status == expected
    assert lw.rollout(plain, [0.1], [0.5], lw.PD(0.0, kd, [0.0]), **how).status == expected
    assert lw.simulate(damped, [0.1], [0.5], 0.2, dt=DT).status == expected
    for integrator in ("rk4", "rk45", "implicit_midpoint"):  # where laws act, these take Euler steps
        rubbed = slider(damping=1.5e3 if kd < 2e3 else 2.5e4, friction=0.1, lower=-0.5, upper=0.5)
        assert lw.rollout(rubbed, [0.1], [0.5], **how, integrator=integrator).status == expected
    end = lw.rollout(damped, [0.1], [0.5], **how, integrator="linearly_implicit_euler")
    assert end.status == lw.Status.OK and abs(end.v[-1, 0]) < 1e-6


def test_rows_are_told_apart() -> None:
    gains = np.array([[1e3], [1e7], [1e2], [np.nan]])
    motion = lw.rollout(slider(), [1.0], [0.0], lw.PD(gains, 1.0, [0.0]), dt=DT, steps=150)
    assert motion.status.tolist() == [lw.Status.OK, lw.Status.STIFF, lw.Status.OK, lw.Status.NOT_FINITE]


def limb() -> lw.Model:
    builder = lw.ModelBuilder("limb")
    for k, parent in enumerate(("world", "link0")):
        builder.add_body(f"link{k}", mass=1.0, center=(0.0, 0.0, -0.3), inertia=(0.1, 0.1, 0.1))
        more = {"stiffness": 50.0, "damping": 1.0}
        builder.add_joint(f"turn{k}", Revolute((0.0, 1.0, 0.0)), parent=parent, child=f"link{k}", **more)
    return builder.build()


INTEGRATORS = ("semi_implicit_euler", "rk4", "implicit_midpoint", "rk45", "linearly_implicit_euler")
BAD = np.array([0.1, 1e300, -1e160, np.nan, np.inf, -np.inf])  # the first row is good


@pytest.mark.parametrize("where", ["q", "v", "tau", "PD", "mass", "damping", "gravity"])
def test_no_number_leads_to_a_stray_warning(where: str) -> None:
    model = limb()
    rows = len(BAD)
    q = np.zeros((rows, 2))
    v = np.full((rows, 2), 0.1)
    tau = np.zeros((rows, 2))
    given: Any = {"q": q, "v": v, "tau": tau}
    how: dict[str, Any] = {"parameters": {}}
    if where in given:
        given[where][:, 0] = BAD
    elif where == "PD":
        tau = lw.PD(BAD[:, None] * [1.0, 1.0], 0.1, [0.0, 0.0])
    else:
        own = model.parameters()[where]
        how["parameters"] = {where: np.array([own, *(np.full_like(own, bad) for bad in BAD[1:])])}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for integrator in INTEGRATORS if where == "q" else ("semi_implicit_euler",):
            motion = lw.rollout(model, q, v, tau, dt=DT, steps=3, integrator=integrator, **how)
            log = lw.simulate(model, q, v, 3 * DT, tau, integrator=integrator, progress=False, **how)
            assert motion.status[0] == log.status[0] == lw.Status.OK
        lw.rollout(model, q, v, tau, dt=DT, steps=3, dtype="float32", **how)
        if not isinstance(tau, lw.PD):
            lw.step(model, q, v, tau, DT, **how)


def test_steps_that_are_not_recorded_are_judged_as_well() -> None:
    b = lw.ModelBuilder().add_body("a", mass=1.0, inertia=(0.1, 0.1, 0.1))
    model = b.add_joint("j", Revolute(), parent="world", child="a", stiffness=1e6).build()
    for record_every in (1, 7, 21):
        motion = lw.rollout(model, [0.1], [0.0], dt=0.01, steps=20, record_every=record_every)
        assert motion.status == lw.Status.STIFF
