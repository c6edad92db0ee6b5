"""Fits of a model's parameters to recorded motions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.errors import LinkworkError, ModelError
from linkwork.functions.joint_limits import check_switches
from linkwork.identification.descent import Solution, solve
from linkwork.identification.directions import covariance, effects_of, readable
from linkwork.identification.parameters import Parameters
from linkwork.identification.recordings import Recording, Signals, checked
from linkwork.identification.result import FitResult
from linkwork.identification.shooting import Point, Shooting
from linkwork.identification.solver import Problem
from linkwork.identification.steps import Steps
from linkwork.model import Model

FIRST_NOISE = 1e-3  # noise relative to a signal's size before it is estimated
LEAST_NOISE = 1e-9  # ... and the least that is estimated
NOISE_ROUNDS = 4
START_ITERATIONS = 30  # of the fit to separate segments
START_STATIONARY = 0.1  # its predicted decrease at which it ends
SAME_NOISE = 0.02  # relative change of estimated noise at which it is not estimated again

Noise = list[tuple[np.ndarray, np.ndarray | None]]


def fit_parameters(
    model: Model,
    logs: Any,
    parameters: str | Iterable[str],
    *,
    method: str = "multiple_shooting",
    segment: int | None = None,
    substeps: int = 1,
    initial_states: str = "estimate",
    bounds: Mapping[str, Any] | None = None,
    priors: Mapping[str, Any] | None = None,
    limits: bool = False,
    friction: bool = True,
    max_iterations: int = 100,
    verbose: bool = False,
) -> FitResult:
    """Fit parameters of a model to recorded motions by least squares.

    Simulated motions are compared with recorded ones at all samples. Derivatives of steps by states and
    parameters are exact; the initial state of each recording is estimated too.

    Parameters
    ----------
    model : Model
        The model, whose parameters are the start.
    logs : Recording or sequence of Recording
        Recorded motions (`linkwork.identification.Recording`), or dicts of its arguments.
    parameters : str or sequence of str
        What is fitted, as in `Model.parameters`: "mass", "mass@link3", "damping@joint1", single entries
        "center@link3.x", "loop_placement@loop.successor.x". "body@link3" are mass, centre and moment of
        inertia of a body. "delay" is that of all joint forces [s], "delay@joint1" that of one joint's.
    method : {"multiple_shooting", "output_error"}, optional
        Whether recordings are simulated in segments, whose ends are joined while the fit converges, or whole.
        Both have the same solution; segments are faster and converge from worse starts.
    segment : int, optional
        Intervals in a segment. Default: about the square root of twice the longest recording, at least 10.
    substeps : int, optional
        Steps of semi-implicit Euler between samples, as `step` takes them.
    initial_states : {"estimate", "fixed"}, optional
        Whether the first sample of each recording is a measurement or exact.
    bounds : dict of str to (float, float), optional
        Intervals of parameters or entries, by name. Dampings, frictions, armatures, stiffnesses and delays
        are at least zero in any case, and inertias are physically consistent.
    priors : dict of str to float or (mean, float), optional
        Standard deviations of parameters or entries from what they are in the model, or from a mean.
    limits, friction : bool, optional
        Whether joint limits and dry friction act in steps.
    max_iterations : int, optional
        Largest number of Levenberg-Marquardt steps.
    verbose : bool, optional
        Print a line for each iteration.

    Returns
    -------
    FitResult
        Values, covariance, directions that are not identifiable, and the model with these values.

    Raises
    ------
    ShapeError
        If an array of a recording has the wrong shape.
    LinkworkError
        If an argument is invalid, numbers are not finite, no recorded motion depends on the parameters, or
        the motion cannot be simulated from the start.

    Notes
    -----
    The force of each step is the mean of the recorded force over it. Where noise is not given, it is
    estimated for each joint from residuals, over a few fits. Reported standard errors are those of linearised
    least squares. Combinations of parameters that the recordings do not determine are reported; of all
    values with the same motion the fit takes those nearest to the model's.

    Examples
    --------
    >>> arm = lw.robots.chain(2).with_parameters({"damping": [0.1, 0.2]})
    >>> q, v, tau = np.zeros((200, 2)), np.zeros((200, 2)), np.ones((200, 2))
    >>> for k in range(199):
    ...     q[k + 1], v[k + 1] = lw.step(arm, q[k], v[k], tau[k], 1e-2)
    >>> log = lw.identification.Recording(q, v, tau, dt=1e-2)
    >>> start = arm.with_parameters({"damping": [0.5, 0.5]})
    >>> fit = lw.fit_parameters(start, log, "damping")
    >>> print(fit.model.parameters()["damping"].round(6))
    [0.1 0.2]
    """
    recordings = _recordings(logs)
    _check(model, method, segment, substeps, initial_states, max_iterations)
    check_switches("fit_parameters", limits, friction)
    signals = [checked(model, one, f"log {k}") for k, one in enumerate(recordings)]
    duration = float(np.mean([one.t[-1] - one.t[0] for one in signals]))
    varied = Parameters(model, parameters, duration)
    varied.set_bounds(bounds or {})
    prior = varied.priors(priors or {})
    longest = max(one.intervals for one in signals)
    if method == "output_error":
        segment = longest
    elif segment is None:
        segment = min(longest, max(10, int(np.sqrt(2.0 * longest))))
    steps = Steps(
        model, varied, limits=limits, friction=friction, forces=any(one.f_ext is not None for one in signals)
    )
    free_start = initial_states == "estimate"
    shooting = Shooting(steps, varied, signals, segment=segment, substeps=substeps, free_start=free_start)
    problem = Problem(shooting, varied, prior)
    start = None
    if method == "multiple_shooting":
        parts = [part for one, starts in zip(signals, shooting.starts) for part in one.parts(starts)]
        separate = Shooting(steps, varied, parts, segment=segment, substeps=substeps, free_start=True)
        start = Problem(separate, varied, prior, near_start=True)
    solution = _fit(problem, start, max_iterations, print if verbose else lambda text: None)
    return _result(model, varied, shooting, solution, problem.weight)


def _recordings(logs: Any) -> list[Recording]:
    many = [logs] if isinstance(logs, Recording | Mapping) else logs
    if not isinstance(many, Sequence) or not many:
        raise LinkworkError(
            f"fit_parameters: logs: expected one Recording or several, got {type(logs).__name__}"
        )
    signals = []
    for one in many:
        if isinstance(one, Mapping):
            try:
                one = Recording(**one)
            except TypeError as error:
                raise LinkworkError(f"fit_parameters: logs: {error}") from None
        if not isinstance(one, Recording):
            raise LinkworkError(f"fit_parameters: logs: expected Recordings, got {type(one).__name__}")
        signals.append(one)
    return signals


def _check(
    model: Any, method: str, segment: Any, substeps: Any, initial_states: str, iterations: Any
) -> None:
    """Raise if an argument is invalid."""
    if not isinstance(model, Model):
        raise ModelError(f"fit_parameters: model: expected a Model, got {type(model).__name__}")
    if method not in ("multiple_shooting", "output_error"):
        raise LinkworkError(
            f"fit_parameters: method: expected 'multiple_shooting' or 'output_error', got {method!r}"
        )
    if initial_states not in ("estimate", "fixed"):
        raise LinkworkError(
            f"fit_parameters: initial_states: expected 'estimate' or 'fixed', got {initial_states!r}"
        )
    if segment is not None and method == "output_error":
        raise LinkworkError("fit_parameters: segment: has no effect with method='output_error'")
    for name, value in (("segment", segment), ("substeps", substeps), ("max_iterations", iterations)):
        if value is None and name == "segment":
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise LinkworkError(f"fit_parameters: {name}: expected a positive integer, got {value!r}")


def _fit(problem: Problem, start: Problem | None, iterations: int, report: Any) -> Solution:
    """Fit, with noise estimated from residuals where it is not given.

    `start` is the problem of separate segments.
    """
    shooting = problem.shooting
    noise, known = _first_noise(problem)
    shooting.set_noise(noise)
    point: Point = shooting.measured(problem.parameters.start)
    _check_excitation(problem, point)
    if start is not None:
        point = shooting.measured(_separate(start, shooting, noise, report))
    solution = _solved(problem, point, iterations, report)
    for _ in range(0 if known else NOISE_ROUNDS - 1):
        estimated = _estimated_noise(problem, solution, noise)
        if max(_change(a, b) for a, b in zip(noise, estimated)) < SAME_NOISE:
            break
        noise = estimated
        shooting.set_noise(noise)
        solution = _solved(problem, solution.point, iterations, report)
    return solution


def _solved(problem: Problem, point: Point, iterations: int, report: Any) -> Solution:
    """Solve from a point; raise if motions cannot be simulated there."""
    solution = solve(problem, point, iterations=iterations, report=report)
    if solution is None:
        raise LinkworkError(
            "fit_parameters: the motion cannot be simulated from the model's parameters: states are not "
            "finite, or loops cannot be closed; use shorter segments, smaller steps, or a better start"
        )
    return solution


def _separate(problem: Problem, shooting: Shooting, noise: Noise, report: Any) -> np.ndarray:
    """Return coordinates of parameters that fit segments, each with an initial state of its own."""
    counts = [len(starts) for starts in shooting.starts]
    problem.shooting.set_noise([pair for pair, count in zip(noise, counts) for _ in range(count)])
    point = problem.shooting.measured(problem.parameters.start)
    solution = solve(problem, point, iterations=START_ITERATIONS, report=report, stationary=START_STATIONARY)
    return problem.parameters.start if solution is None else solution.point.x


def _check_excitation(problem: Problem, point: Point) -> None:
    """Raise if no residual depends on any parameter at the start."""
    paths = problem.shooting.simulate(point)
    if paths is None:
        return
    grams = problem.grams(problem.linear(paths, point.x), point.x)
    nx = problem.nx
    if not any(np.diag(G)[nx:-1].any() for G in grams):
        raise LinkworkError(
            "fit_parameters: no excitation: no recorded motion depends on any of the parameters; record "
            "motions in which joints that the parameters act on move"
        )


def _sizes(problem: Problem, one: Signals) -> tuple[np.ndarray, np.ndarray]:
    """Return typical sizes of changes of positions, (nv_spanning,), and of velocities, (nv,).

    They are the same for all channels, where distances are in units of the model's size.
    """
    scales = problem.parameters.scales
    values = list(problem.parameters.arrays(problem.parameters.start).values())
    moved = problem.shooting.steps.errors(one.q, np.broadcast_to(one.q[0], one.q.shape), values)
    q = float(np.sqrt(((moved / scales.units) ** 2).mean()))
    v = 0.0 if one.v is None else float(np.sqrt(((one.v / scales.independent_units) ** 2).mean()))
    return (q or 1.0) * scales.units, (v or 1.0 / scales.time) * scales.independent_units


def _first_noise(problem: Problem) -> tuple[Noise, bool]:
    """Return the noise as it is given, else a part of signals' sizes; and whether all is given."""
    known = True
    noise = list[tuple[np.ndarray, np.ndarray | None]]()
    for one in problem.shooting.signals:
        size_q, size_v = _sizes(problem, one)
        q = FIRST_NOISE * size_q if one.sigma_q is None else one.sigma_q
        v = None
        if one.v is not None:
            v = FIRST_NOISE * size_v if one.sigma_v is None else one.sigma_v
        known &= one.sigma_q is not None and (one.v is None or one.sigma_v is not None)
        noise.append((q, v))
    return noise, known


def _estimated_noise(problem: Problem, solution: Solution, noise: Noise) -> Noise:
    """Return standard deviations of residuals for each channel of each recording,
    where they are not given.
    """
    signals = problem.shooting.signals
    estimated = list[tuple[np.ndarray, np.ndarray | None]]()
    total = sum(
        int(np.count_nonzero(_measured(path.residuals, noise[k]))) for k, path in enumerate(solution.paths)
    )
    spent = problem.parameters.size + problem.nx * len(signals) * problem.shooting.free_start
    inflation = np.sqrt(total / max(1, total - spent))
    for one, path, (q, v) in zip(signals, solution.paths, noise):
        rms = inflation * np.sqrt((path.residuals**2).mean(axis=0))
        size_q, size_v = _sizes(problem, one)
        if one.sigma_q is None:
            q = np.maximum(rms[: len(q)] * q, LEAST_NOISE * size_q)
        if v is not None and one.sigma_v is None:
            v = np.maximum(rms[len(q) :] * v, LEAST_NOISE * size_v)
        estimated.append((q, v))
    return estimated


def _measured(residuals: np.ndarray, noise: tuple[np.ndarray, np.ndarray | None]) -> np.ndarray:
    """Return which residuals belong to measured channels."""
    q, v = noise
    is_measured = np.isfinite(q if v is None else np.concatenate([q, v]))
    return np.broadcast_to(is_measured, residuals.shape)


def _change(
    before: tuple[np.ndarray, np.ndarray | None], after: tuple[np.ndarray, np.ndarray | None]
) -> float:
    """Return the largest relative change of standard deviations."""
    largest = 0.0
    for a, b in zip(before, after):
        if a is not None and b is not None:
            finite = np.isfinite(a)
            largest = max(largest, float(np.abs(b[finite] / a[finite] - 1.0).max(initial=0.0)))
    return largest


def _result(
    model: Model, parameters: Parameters, shooting: Shooting, solution: Solution, prior_weight: np.ndarray
) -> FitResult:
    x = solution.point.x
    rate = parameters.entries_rate(x)
    cov, null = covariance(solution.information, rate)
    start = parameters.entries(parameters.start)
    estimate = parameters.entries(x)
    sizes = parameters.sizes(x)
    effects = effects_of(solution.information, rate, sizes)
    directions = readable(parameters.labels, null, sizes, effects)
    unknown = {label for direction in directions for label in direction.coefficients}
    is_determined = np.array([label not in unknown for label in parameters.labels])
    errors = np.where(is_determined, np.sqrt(np.maximum(np.diag(cov), 0.0)), np.inf)
    values = parameters.values(x)
    arrays = {name: value for name, value in values.items() if not name.startswith("delay")}
    with np.errstate(divide="ignore"):  # channels that are not measured have no weight
        noise = [(1.0 / q, None if v is None else 1.0 / v) for q, v in shooting.weights]
    count = sum(
        int(np.count_nonzero(_measured(path.residuals, pair))) for path, pair in zip(solution.paths, noise)
    )
    count += int(np.count_nonzero(prior_weight))
    spent = parameters.size - null.shape[1] + shooting.nx * len(noise) * shooting.free_start
    return FitResult(
        status=solution.status,
        values=values,
        model=model.with_parameters(arrays) if arrays else model,
        labels=tuple(parameters.labels),
        start=start,
        estimate=estimate,
        covariance=cov,
        standard_errors=errors,
        unidentifiable=tuple(directions),
        at_bounds=tuple(parameters.at_bounds(x)),
        residuals=[path.residuals for path in solution.paths],
        sigma_q=[q for q, _ in noise],
        sigma_v=[v for _, v in noise],
        initial_states=[(q[0], v[0]) for q, v in zip(solution.point.q, solution.point.v)],
        cost=solution.cost,
        degrees_of_freedom=count - spent,
        iterations=solution.iterations,
        evaluations=solution.evaluations,
    )
