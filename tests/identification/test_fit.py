"""Fits of parameters to recorded motions: `lw.fit_parameters`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fit_problems
import linkwork as lw
from linkwork.identification import Recording
from linkwork.identification.parameters import Parameters
from linkwork.identification.recordings import checked
from linkwork.identification.shooting import Shooting
from linkwork.identification.solver import Problem
from linkwork.identification.steps import Steps

DT = 2e-3


def recorded(
    model: Any,
    samples: int,
    seed: int,
    *,
    scale: float = 1.0,
    noise: float = 0.0,
    start: Any = None,
    delay: int = 0,
) -> Recording:
    """A motion of a model by sums of sines as forces, sampled at each step; forces act some samples late."""
    rng = np.random.default_rng(seed)
    t = DT * np.arange(samples)
    amplitude, frequency, phase = (
        rng.normal(size=(3, 1, model.nv)),
        rng.uniform(2, 9, (3, 1, model.nv)),
        rng.uniform(0, 6, 3),
    )
    tau = scale * (amplitude * np.sin(frequency * t[:, None] + phase[:, None, None])).sum(0)
    q, v = np.zeros((samples, model.nq)), np.zeros((samples, model.nv))
    q[0] = model.neutral() if start is None else lw.close_loops(model, start)[0]
    for k in range(samples - 1):
        q[k + 1], v[k + 1] = lw.step(model, q[k], v[k], tau[max(k - delay, 0)], DT, limits=False)
    q, v = q + noise * rng.normal(size=q.shape), v + 10.0 * noise * rng.normal(size=v.shape)
    sigma = noise or 1e-4
    return Recording(q, v, tau, dt=DT, sigma_q=sigma, sigma_v=10.0 * sigma)


def chain() -> Any:
    model = lw.robots.chain(3)
    return model.with_parameters({"damping": np.full(3, 0.05)})


def changed(model: Any) -> Any:
    own = model.parameters()
    return model.with_parameters(
        {"mass": own["mass"] * [1.2, 0.9, 1.1], "damping": own["damping"] * [2.0, 0.5, 1.5]}
    )


@pytest.mark.parametrize("method", ["multiple_shooting", "output_error"])
def test_known_parameters_are_recovered(method: str) -> None:
    model = chain()
    true = changed(model)
    fit = lw.fit_parameters(model, recorded(true, 150, 1), ["mass", "damping"], method=method)
    assert fit.status == "converged"
    expected = np.concatenate([true.parameters()["mass"], true.parameters()["damping"]])
    np.testing.assert_allclose(fit.estimate, expected, atol=1e-8)
    np.testing.assert_allclose(fit.model.parameters()["mass"], true.parameters()["mass"], atol=1e-8)


def problem_of(model: Any, log: Recording, names: Any) -> tuple[Shooting, Problem]:
    """The least-squares problem of one recording as one segment."""
    chosen = Parameters(model, names)
    one = checked(model, log, "log")
    steps = Steps(model, chosen, limits=False, friction=True, forces=one.f_ext is not None)
    shooting = Shooting(steps, chosen, [one], segment=one.intervals, substeps=2, free_start=True)
    assert one.sigma_q is not None
    shooting.set_noise([(one.sigma_q, one.sigma_v)])
    return shooting, Problem(shooting, chosen, chosen.priors({}))


def gradients(model: Any, log: Recording, names: Any) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the cost by initial state and parameters: exact, and by central differences."""
    shooting, problem = problem_of(model, log, names)
    point = shooting.measured(problem.parameters.start + 0.0107)
    paths = shooting.simulate(point)
    assert paths is not None
    linear = problem.linear(paths, point.x)
    exact = problem.grams(linear, point.x)[0][:-1, -1]
    nx, numbers, measured = problem.nx, problem.parameters.numbers, np.empty_like(exact)
    for k in range(len(exact)):
        costs = []
        for h in (1e-6, -1e-6):
            unit = h * (np.arange(len(exact)) == k)
            move = [np.concatenate([unit[:nx], np.zeros(numbers)])]
            trial = shooting.moved(point, linear, point.x + unit[nx:], move)
            found = shooting.simulate(trial)
            assert found is not None
            costs.append(problem.cost(found, trial.x))
        measured[k] = (costs[0] - costs[1]) / 2e-6
    return exact, measured


def test_gradients_of_a_chain() -> None:
    model = chain().with_parameters({"friction": np.array([0.1, 0.2, 0.1])})
    log = recorded(model, 40, 2, noise=1e-3)
    names = [
        "body@body_1",
        "damping",
        "friction",
        "armature@joint_2",
        "gravity",
        "placement@joint_1",
        "delay@joint_0",
    ]
    exact, measured = gradients(model, log, names)
    np.testing.assert_allclose(exact, measured, rtol=1e-5, atol=1e-7 * np.abs(exact).max())


@pytest.mark.parametrize(("name", "axes"), [("five_bar", "xz"), ("four_bar", "xy")])
def test_gradients_of_loops_contain_the_motion_of_dependent_joints(name: str, axes: str) -> None:
    model = getattr(lw.robots, name)()
    start = model.neutral()
    start[0] += 0.3
    loop = model.loops[0].name
    log = recorded(model, 20, 3, scale=0.2, noise=1e-3, start=start)
    exact, measured = gradients(model, log, [f"loop_placement@{loop}.successor.{axis}" for axis in axes])
    np.testing.assert_allclose(exact, measured, rtol=1e-5, atol=1e-6 * np.abs(exact).max())


def constrained_four_bar() -> Any:
    model = lw.robots.four_bar().with_loops(constrain=["loop1"])
    return model.with_parameters({"damping": np.full(3, 0.05)})


def test_gradients_of_constrained_loops_are_those_along_closed_states() -> None:
    model = constrained_four_bar()
    start = model.neutral()
    start[0] += 0.3
    log = recorded(model, 220, 3, noise=1e-3, start=start)
    moving = slice(200, 220)
    log = replace(log, q=log.q[moving], v=log.v[moving], tau=log.tau[moving])
    names = ["loop_placement@loop1.successor.x", "mass@link2", "damping"]
    exact, measured = gradients(model, log, names)
    assert len(exact) == 2 + 5
    np.testing.assert_allclose(exact, measured, rtol=1e-4, atol=1e-6 * np.abs(exact).max())


def test_parameters_of_constrained_loops_are_recovered() -> None:
    model = constrained_four_bar()
    start = model.neutral()
    start[0] += 0.3
    true = model.with_parameters({"mass@link2": 1.3, "damping": [0.1, 0.05, 0.05]})
    log = recorded(true, 60, 3, scale=0.2, start=start)
    names = ["mass@link2", "damping@joint1", "loop_placement@loop1.successor.x"]
    fit = lw.fit_parameters(model, log, names, segment=15)
    expected = [1.3, 0.1, true.parameters()["loop_placement"][0, 1, 0]]
    np.testing.assert_allclose(fit.estimate, expected, rtol=1e-7)
    assert fit.degrees_of_freedom == 60 * 6 - 3 - 2


def test_gradients_of_a_leg_with_a_loop_and_rotors() -> None:
    problem = fit_problems.leg()
    log, part = problem.logs[0], slice(100, 120)
    log = replace(log, q=log.q[part], v=log.v[part], tau=log.tau[part])
    names = ["ratio", "loop_placement@rod_end.successor.x", "friction@crank_joint", "placement@shank_joint.x"]
    exact, measured = gradients(problem.model, log, names)
    np.testing.assert_allclose(exact, measured, rtol=1e-4, atol=1e-5 * np.abs(exact).max())


def test_gradients_of_a_free_body() -> None:
    builder = lw.ModelBuilder("body")
    builder.add_body("body", mass=2.0, inertia=(0.02, 0.03, 0.04), center=(0.01, 0.02, 0.0))
    model = builder.add_joint("float", lw.joints.Free(), parent="world", child="body").build()
    log = recorded(model, 20, 4, noise=1e-3)
    f_ext = np.zeros((19, 1, 6))
    f_ext[:, 0, 3] = 5.0
    exact, measured = gradients(model, replace(log, f_ext=f_ext), ["body"])
    np.testing.assert_allclose(exact, measured, rtol=1e-5, atol=1e-6 * np.abs(exact).max())


def test_delays_are_recovered() -> None:
    model = chain()
    fit = lw.fit_parameters(model, recorded(model, 200, 5, delay=3), ["delay", "damping"])
    assert fit.values["delay"] == pytest.approx(3 * DT, abs=1e-9)


def test_parts_of_a_recording_know_the_forces_before_them() -> None:
    """A delayed force that acts in a part may be one of the part before."""
    model = chain()
    log = recorded(model, 160, 5, delay=3)
    times = replace(log, dt=None, t=0.5 + DT * np.arange(160))
    for parts in (log.split(60), [half for part in times.split(80) for half in part.split(40)]):
        fit = lw.fit_parameters(model, parts, ["delay", "damping"])
        assert fit.values["delay"] == pytest.approx(3 * DT, abs=1e-9)


def test_priors_count_as_measurements() -> None:
    model = chain()
    log = recorded(changed(model), 50, 1, noise=1e-4)
    for priors, count in ((None, 0), ({"mass": 0.1}, 3)):
        fit = lw.fit_parameters(model, log, ["mass", "damping"], priors=priors)
        assert fit.degrees_of_freedom == 50 * 6 + count - 6 - 6


def test_the_first_mass_of_a_fixed_base_is_not_identifiable() -> None:
    model = lw.robots.arm()
    fit = lw.fit_parameters(
        model, recorded(model, 60, 6, scale=10.0), ["mass@shoulder", "mass@flange", "center@shoulder.z"]
    )
    assert [str(direction) for direction in fit.unidentifiable] == ["1 mass@shoulder", "1 center@shoulder.z"]
    assert np.isinf(fit.standard_errors[[0, 2]]).all() and np.isfinite(fit.standard_errors[1])
    assert "1 mass@shoulder" in str(fit) and "unknown" in str(fit)
    assert fit.values["mass@shoulder"] == pytest.approx(model.parameters()["mass"][0], rel=1e-12)


def test_noisy_recordings_of_a_leg() -> None:
    problem = fit_problems.leg()
    fit = lw.fit_parameters(problem.model, problem.noisy(1), problem.parameters)
    assert fit.status == "converged"
    told = np.isfinite(fit.standard_errors)
    z = ((fit.estimate - problem.values(fit.labels)) / fit.standard_errors)[told]
    assert told.sum() == 10 and (np.abs(z) < 4.0).all()
    assert abs(fit.chi_square - 1.0) < 5.0 * np.sqrt(2.0 / fit.degrees_of_freedom)


def chi_square_of_repetitions(problem: fit_problems.FitProblem, repetitions: int) -> tuple[float, int, int]:
    """The sum over repetitions of errors squared in the metric of the covariance, its expectation, and how many
    fits ended in a local minimum, where residuals are larger than noise: these do not count.
    """
    total, expected, elsewhere = 0.0, 0, 0
    for k in range(repetitions):
        fit = lw.fit_parameters(problem.model, problem.noisy(k), problem.parameters)
        if fit.chi_square > 1.2:
            elsewhere += 1
            continue
        told = np.isfinite(fit.standard_errors)
        error = (fit.estimate - problem.values(fit.labels))[told]
        scale = fit.standard_errors[told]
        correlation = fit.covariance[np.ix_(told, told)] / np.outer(scale, scale)
        total += float((error / scale) @ np.linalg.solve(correlation, error / scale))
        expected += int(told.sum())
    return total, expected, elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arm", "leg"])
def test_errors_are_those_of_the_covariance(name: str) -> None:
    total, expected, elsewhere = chi_square_of_repetitions(getattr(fit_problems, name)(), 50)
    assert abs(total - expected) < 4.0 * np.sqrt(2.0 * expected)
    assert (
        elsewhere <= 3
    )  # where a joint sticks in the simulation and slides in the recording, or the reverse


def test_errors_of_a_chain_are_those_of_the_covariance() -> None:
    model = chain()
    log = recorded(changed(model), 100, 7, noise=0.0)
    problem = fit_problems.FitProblem(model, changed(model), ("mass", "damping"), (log,))
    total, expected, elsewhere = chi_square_of_repetitions(problem, 10)
    assert elsewhere == 0
    assert abs(total - expected) < 4.0 * np.sqrt(2.0 * expected)


def test_noise_is_estimated() -> None:
    model = chain()
    log = recorded(changed(model), 200, 8, noise=1e-4)
    fit = lw.fit_parameters(model, replace(log, sigma_q=None, sigma_v=None), ["mass", "damping"])
    assert np.abs(fit.sigma_q[0] / 1e-4 - 1.0).max() < 0.25
    assert fit.sigma_v[0] is not None and np.abs(fit.sigma_v[0] / 1e-3 - 1.0).max() < 0.25


@pytest.mark.filterwarnings("error")
def test_recordings_without_noise_or_of_some_joints() -> None:
    model = chain()
    log = recorded(changed(model), 150, 1)
    clean = lw.fit_parameters(model, replace(log, sigma_q=None, sigma_v=None), ["mass", "damping"])
    assert clean.status == "converged" and not clean.at_bounds
    part = replace(log, v=None, sigma_v=None, sigma_q=[1e-4, np.inf, 1e-4])
    for fit in (clean, lw.fit_parameters(model, part, ["mass", "damping"])):
        own = changed(model).parameters()
        np.testing.assert_allclose(fit.estimate, np.concatenate([own["mass"], own["damping"]]), rtol=1e-8)


def test_inertias_stay_consistent_and_bounds_and_priors_hold() -> None:
    model = chain()
    log = recorded(changed(model), 30, 9, noise=1e-2)
    fit = lw.fit_parameters(
        model, log, ["body", "damping"], bounds={"damping@joint_0": (0.2, 0.3)}, priors={"body": 0.1}
    )
    for body in fit.model.bodies:
        assert body.mass > 0.0
        assert np.linalg.eigvalsh(0.5 * np.trace(body.moment) * np.eye(3) - body.moment).min() > 0.0
    assert 0.2 <= fit.values["damping@joint_0"][0] <= 0.3
    assert "damping@joint_0" in fit.at_bounds and "at a bound: " in str(fit)
    tight = lw.fit_parameters(model, log, "mass", priors={"mass@body_0": (0.7, 1e-9)})
    assert tight.values["mass@body_0"] == pytest.approx(0.7, abs=1e-6)


def blocks(unit: float = 1.0) -> Any:
    """Three links on axes of different directions, with masses in some unit [kg]."""
    builder = lw.ModelBuilder("blocks")
    for k, axis in enumerate(((0, 1, 0), (1, 0, 0), (0, 0, 1))):
        solid = lw.robots.solids.box(unit * (2.0 - 0.5 * k), (0.2, 0.15, 0.4), at=(0.01 * k, 0.02, -0.2))
        builder.add_body(f"link_{k}", **solid.body_args())
        parent, z = ("world", 0.0) if k == 0 else (f"link_{k - 1}", -0.4)
        joint = lw.joints.Revolute(axis)
        damping = 0.2 * unit
        builder.add_joint(
            f"joint_{k}", joint, parent=parent, child=f"link_{k}", xyz=(0, 0, z), damping=damping
        )
    return builder.build()


def test_fits_of_whole_bodies_do_not_depend_on_units_and_segments() -> None:
    """Also where recordings leave a choice: the fit is the one that is nearest to the model."""
    model = blocks()
    own = model.parameters()
    center = own["center"] + 0.01 * np.random.default_rng(1).normal(size=(3, 3))
    true = model.with_parameters({"mass": own["mass"] * [1.2, 0.9, 1.1], "center": center})
    logs = [recorded(true, 300, seed, scale=5.0, noise=1e-4) for seed in (0, 1)]
    names = ["body", "damping"]
    fit = lw.fit_parameters(model, logs, names)
    assert fit.status == "converged" and abs(fit.chi_square - 1.0) < 0.2
    assert len(fit.unidentifiable) >= 10
    other = lw.fit_parameters(model, logs, names, segment=75)
    sizes = np.maximum(np.abs(fit.estimate), 1e-3)
    assert (np.abs(other.estimate - fit.estimate) < 1e-4 * sizes).all()
    heavy = lw.fit_parameters(
        blocks(1e6), [replace(log, tau=1e6 * np.asarray(log.tau)) for log in logs], names
    )
    scale = np.array([1.0 if label.startswith("center") else 1e6 for label in fit.labels])
    assert (np.abs(heavy.estimate / scale - fit.estimate) < 1e-4 * sizes).all()
    np.testing.assert_allclose(heavy.standard_errors / scale, fit.standard_errors, rtol=1e-4)


def slider_arm(length: float, mass: float, time: float, damping: float) -> Any:
    """Two hinges and a slider between them, in some units of length [m], mass [kg] and time [s]."""
    builder = lw.ModelBuilder("slider arm", gravity=(0.0, 0.0, -9.81 * length / time**2))
    rows = [("Y", (0.0, 0.0, 0.0), 1.5), ("slide", (0.1, 0.0, -0.3), 1.0), ("X", (0.0, 0.05, -0.2), 0.7)]
    parent = "world"
    for name, place, m in rows:
        inertia = np.array([0.02, 0.025, 0.012]) * m * mass * length**2
        center = np.array([0.01, 0.02, -0.15]) * length
        builder.add_body(name, mass=m * mass, center=center, inertia=inertia)
        slides = name == "slide"
        axis = {"X": (1, 0, 0), "Y": (0, 1, 0), "slide": (0.6, 0, 0.8)}[name]
        kind = lw.joints.Prismatic(axis) if slides else lw.joints.Revolute(axis)
        damps = damping * mass / time * (1.0 if slides else length**2)
        xyz = length * np.array(place)
        builder.add_joint(f"j{name}", kind, parent=parent, child=name, xyz=xyz, damping=damps)
        parent = name
    return builder.build()


def test_fits_do_not_depend_on_units() -> None:
    """Also of parameters that the model has as zero, with noise that is estimated, and of directions."""
    log = recorded(slider_arm(1.0, 1.0, 1.0, 0.2), 150, 4, scale=4.0)
    rng = np.random.default_rng(0)
    q = log.q + 1e-4 * rng.normal(size=log.q.shape)
    v = log.v + 1e-3 * rng.normal(size=log.v.shape)
    fits = []
    for length, mass, time in ((1.0, 1.0, 1.0), (1e3, 1e3, 1e3)):
        model = slider_arm(length, mass, time, 0.0)
        unit = np.array([1.0, length, 1.0])
        forces = np.asarray(log.tau) * mass * length / time**2 * np.array([length, 1.0, length])
        one = Recording(q * unit, v * unit / time, forces, dt=DT * time)
        fit = lw.fit_parameters(model, one, ["mass", "center@Y", "damping", "placement@jX.y"])
        units = np.array([mass] * 3 + [length] * 3 + [mass / time * length**2] * 3 + [length])
        units[7] = mass / time
        fits.append((fit, units))
    (fit, _), (other, units) = fits
    assert fit.status == other.status == "converged" and fit.iterations == other.iterations
    told = np.isfinite(fit.standard_errors)
    np.testing.assert_allclose(other.estimate / units, fit.estimate, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose((other.standard_errors / units)[told], fit.standard_errors[told], rtol=1e-6)
    assert len(fit.unidentifiable) == len(other.unidentifiable) > 0
    for own, scaled in zip(fit.unidentifiable, other.unidentifiable):
        assert list(own.coefficients) == list(scaled.coefficients)
        by_label = dict(zip(fit.labels, units))
        x = np.array([y / by_label[label] for label, y in scaled.coefficients.items()])
        np.testing.assert_allclose(x / np.linalg.norm(x), [*own.coefficients.values()], rtol=1e-4)


def test_directions_name_all_entries_whatever_their_size() -> None:
    """An armature, which the model does not have, counts as much as the tiny inertia of its rotor."""
    problem = fit_problems.leg()
    names = ["inertia@hip_rotor", "armature@hip_rotor_joint", "armature@thigh_joint"]
    part = slice(100, 200)
    log = problem.logs[0]
    log = replace(log, q=log.q[part], v=log.v[part], tau=log.tau[part])
    found = lw.fit_parameters(problem.true, log, names, max_iterations=3)
    told = {tuple(x.coefficients): [*x.coefficients.values()] for x in found.unidentifiable}
    assert told["inertia@hip_rotor.yy", "armature@hip_rotor_joint"] == pytest.approx([0.5**0.5, -(0.5**0.5)])
    both = told["armature@hip_rotor_joint", "armature@thigh_joint"]
    assert both[1] / both[0] == pytest.approx(-(fit_problems.GEAR**2))


LOG = {"q": np.zeros((5, 3)), "v": np.zeros((5, 3)), "dt": 1e-3}
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "unknown parameter": ({}, {"parameters": "mss"}, "unknown parameter 'mss'.*did you mean 'mass'"),
    "unknown body": ({}, {"parameters": "mass@bod_1"}, "bod_1"),
    "unknown entry": ({}, {"parameters": "center@body_1.w"}, "no entry 'w'"),
    "given twice": ({}, {"parameters": ["mass", "mass@body_1"]}, "given twice"),
    "one moment": ({}, {"parameters": "inertia@body_1.xx"}, "vary together"),
    "no friction": ({}, {"parameters": "friction"}, "no dry friction"),
    "no parameter": ({}, {"parameters": []}, "at least one"),
    "wrong shape": ({"q": np.zeros((5, 2))}, {}, r"log 0: q: expected shape \(samples, 3\), got \(5, 2\)"),
    "other length": ({"v": np.zeros((4, 3))}, {}, r"log 0: v: expected shape \(5, 3\)"),
    "NaN": ({"q": np.full((5, 3), np.nan)}, {}, r"q: expected finite numbers, got nan at \[0, 0\]"),
    "no time": ({"dt": None}, {}, "either dt or t"),
    "negative time": ({"dt": -1.0}, {}, "dt: expected a positive"),
    "times": ({"dt": None, "t": np.zeros(5)}, {}, "increasing"),
    "hold": ({"hold": "cubic"}, {}, "hold: expected"),
    "sigma": ({"sigma_q": 0.0}, {}, "sigma_q: expected positive"),
    "unknown key": ({"u": 1.0}, {}, "unexpected keyword argument 'u'"),
    "method": ({}, {"method": "newton"}, "method: expected"),
    "segment": ({}, {"segment": 0}, "segment: expected a positive"),
    "idle segment": ({}, {"segment": 3, "method": "output_error"}, "no effect"),
    "bounds": ({}, {"bounds": {"mass@body_1": (2.0, 1.0)}}, "lower < upper"),
    "other bounds": ({}, {"bounds": {"damping": (0.0, 1.0)}}, "not among the fitted"),
    "priors": ({}, {"priors": {"mass": -1.0}}, "positive deviations"),
    "initial states": ({}, {"initial_states": "free"}, "initial_states: expected"),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_input_is_one_clear_error(case: str) -> None:
    log, changes, message = WRONG[case]
    arguments: dict[str, Any] = {"parameters": "mass", **changes}
    with pytest.raises(lw.LinkworkError, match=message):
        lw.fit_parameters(chain(), {**LOG, **log}, **arguments)


def test_recordings_at_rest_do_not_excite() -> None:
    model = lw.robots.chain(3)
    still = Recording(np.zeros((20, 3)), np.zeros((20, 3)), dt=DT, sigma_q=1e-4, sigma_v=1e-3)
    with pytest.raises(lw.LinkworkError, match="no excitation"):
        lw.fit_parameters(model, still, "damping")
