"""Two problems of identification: an arm with dry friction, and a leg with a closed loop and rotors.

A problem is a model, the parameters of its recordings, names of parameters to fit, and noise-free recordings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import linkwork as lw
from linkwork.identification import Recording

DT = 2e-3
GEAR = 8.0


@dataclass(frozen=True)
class FitProblem:
    """A model whose parameters are the start of a fit, the true values of some, and recordings without noise."""

    model: Any
    true: Any
    parameters: tuple[str, ...]
    logs: tuple[Recording, ...]

    def noisy(self, seed: int) -> list[Recording]:
        """Return the recordings with noise of the standard deviations that they state."""
        found = []
        for k, log in enumerate(self.logs):
            rng = np.random.default_rng([seed, k])
            q, v = rng.normal(size=log.q.shape) * log.sigma_q, rng.normal(size=log.v.shape) * log.sigma_v
            found.append(replace(log, q=log.q + q, v=log.v + v))
        return found

    def values(self, labels: Sequence[str]) -> np.ndarray:
        """Return the true values of entries."""
        return true_entries(self.true, self.parameters, labels)


def true_entries(model: Any, parameters: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    """Return the values of entries of a model's parameters."""
    from linkwork.identification.parameters import Parameters

    chosen = Parameters(model, parameters)
    assert chosen.labels == list(labels)
    return chosen.entries(chosen.start)


def motion(model: Any, start: np.ndarray, samples: int, seed: int, gains: Any, amplitude: Any) -> Recording:
    """Record a motion in which joints follow sums of sines under PD control, with the forces that acted."""
    rng = np.random.default_rng(seed)
    t = DT * np.arange(samples)[:, None]
    frequency, phase = rng.uniform(2.0, 12.0, (4, 1, model.nv)), rng.uniform(0.0, 6.28, (4, 1, model.nv))
    target = np.asarray(amplitude) * np.sin(frequency * t + phase).sum(0) * np.minimum(1.0, 4.0 * t)
    q, v = np.zeros((samples, model.nq)), np.zeros((samples, model.nv))
    tau = np.zeros((samples, model.nv))
    q[0] = lw.close_loops(model, start)[0]
    names = [joint.name for joint in model.joints]
    independent = [model.joints[names.index(name)].q_start for name in model.v_names]
    for k in range(samples):
        error = q[0][independent] + target[k] - q[k][independent]
        tau[k] = gains * (error - 0.05 * v[k]) + lw.gravity_force(model, q[k])
        if k + 1 < samples:
            q[k + 1], v[k + 1] = lw.step(model, q[k], v[k], tau[k], DT, limits=False)
    return Recording(q, v, tau, dt=DT, sigma_q=1e-4, sigma_v=1e-3)


@cache
def arm(samples: int = 500, logs: int = 2) -> FitProblem:
    """Return an arm of seven joints with friction: damping, friction, armature and the inertia of its payload."""
    model = lw.robots.arm()
    own = model.parameters()
    mass, inertia = own["mass"].copy(), own["inertia"].copy()
    center = own["center"].copy()
    mass[6], inertia[6], center[6] = 2.0, [0.011, 0.012, 0.009, 0.0, 0.0, 0.0], [0.02, 0.0, 0.06]
    numbers = {"friction": np.linspace(1.5, 0.4, 7), "mass": mass, "inertia": inertia, "center": center}
    true = model.with_parameters(numbers)
    start = true.with_parameters(
        {
            "friction": 1.3 * numbers["friction"],
            "damping": 0.7 * own["damping"],
            "armature": 1.2 * own["armature"],
            "mass@flange": 1.5,
            "center@flange": [0.0, 0.0, 0.05],
            "inertia@flange": [0.008, 0.008, 0.008, 0.0, 0.0, 0.0],
        }
    )
    gains = np.array([400.0, 400.0, 200.0, 200.0, 60.0, 60.0, 40.0])
    neutral = np.array([0.3, 0.6, -0.2, 0.9, 0.4, -0.5, 0.2])
    records = tuple(motion(true, neutral, samples, k, gains, 0.25) for k in range(logs))
    return FitProblem(start, true, ("friction", "damping", "armature", "body@flange"), records)


@cache
def damped_arm(samples: int = 500, logs: int = 2) -> FitProblem:
    """Return the arm without dry friction: damping, armature and the mass of its payload."""
    problem = arm(samples, logs)
    none = {"friction": np.zeros(7)}
    true = problem.true.with_parameters({**none, "inertia@flange": problem.model.parameters()["inertia"][6]})
    start = true.with_parameters(
        {"damping": 0.7 * true.parameters()["damping"], "armature": 1.2 * true.parameters()["armature"]}
    ).with_parameters({"mass@flange": 1.5})
    gains = np.array([400.0, 400.0, 200.0, 200.0, 60.0, 60.0, 40.0])
    neutral = np.array([0.3, 0.6, -0.2, 0.9, 0.4, -0.5, 0.2])
    records = tuple(motion(true, neutral, samples, k, gains, 0.25) for k in range(logs))
    return FitProblem(start, true, ("damping", "armature", "mass@flange"), records)


def leg_model() -> Any:
    """Return a leg whose shank is moved by a crank at the hip and a rod, with a rotor for hip and crank each."""
    across, solids = lw.joints.Revolute((0.0, 1.0, 0.0)), lw.robots.solids
    builder = lw.ModelBuilder("leg with rod and rotors")
    rows = [  # body, solid, joint's parent, place, independent
        ("thigh", solids.box(2.0, (0.08, 0.06, 0.4), at=(0.01, 0.0, -0.17)), "world", (0.0, 0.0, 0.0), True),
        ("crank", solids.box(0.2, (0.1, 0.02, 0.03), at=(0.04, 0.0, 0.0)), "thigh", (0.0, 0.05, 0.0), True),
        ("rod", solids.box(0.15, (0.02, 0.02, 0.35), at=(0.0, 0.0, -0.17)), "crank", (0.08, 0.0, 0.0), False),
        (
            "shank",
            solids.box(1.1, (0.05, 0.05, 0.4), at=(0.01, 0.0, -0.2)),
            "thigh",
            (0.0, 0.0, -0.35),
            False,
        ),
        ("hip_rotor", solids.cylinder(0.3, 0.04, 0.02, "y"), "world", (0.0, -0.1, 0.0), False),
        ("crank_rotor", solids.cylinder(0.3, 0.04, 0.02, "y"), "thigh", (0.0, -0.05, -0.03), False),
    ]
    for name, solid, parent, xyz, independent in rows:
        builder.add_body(name, **solid.body_args())
        figures: dict[str, Any] = {"damping": 0.2, "friction": 0.3} if independent else {}
        builder.add_joint(
            f"{name}_joint", across, parent=parent, child=name, xyz=xyz, independent=independent, **figures
        )
    builder.add_loop(
        "rod_end",
        across,
        predecessor="rod",
        successor="shank",
        xyz=(0.0, 0.0, -0.35),
        successor_xyz=(0.07, 0.05, 0.0),
    )
    for name in ("hip", "crank"):
        driven = "thigh" if name == "hip" else "crank"
        builder.add_coupling(f"{name}_gear", {f"{name}_rotor_joint": 1.0, f"{driven}_joint": -GEAR})
    return builder.build(start={"thigh_joint": 0.3, "crank_joint": 0.2})


@cache
def leg(samples: int = 400, logs: int = 2) -> FitProblem:
    """Return a leg with a closed loop, rotors and friction: masses, geometry of the loop, a gear ratio, friction."""
    model = leg_model()
    own = model.parameters()
    ends = own["loop_placement"].copy()
    ends[0, 1, 0] += 0.002
    true = model.with_parameters({"loop_placement": ends})
    start = model.with_parameters(
        {
            "mass@shank": 1.4,
            "center@shank": [0.0, 0.0, -0.18],
            "friction": np.where(own["friction"] > 0.0, 0.4, 0.0),
            "damping": 1.3 * own["damping"],
        }
    )
    names = [joint.name for joint in model.joints]
    q = np.zeros(model.nq)
    q[names.index("thigh_joint")], q[names.index("crank_joint")] = 0.3, 0.2
    records = tuple(motion(true, q, samples, k, np.array([150.0, 80.0]), 0.2) for k in range(logs))
    parameters = (
        "mass@shank",
        "center@shank.x",
        "center@shank.z",
        "inertia@hip_rotor",
        "friction@thigh_joint",
        "friction@crank_joint",
        "damping@thigh_joint",
        "damping@crank_joint",
        "ratio@hip_gear.thigh_joint",
        "loop_placement@rod_end.successor.x",
    )
    return FitProblem(start, true, parameters, records)
