"""Compare `lw.fit_parameters` with scipy.optimize.least_squares with finite differences on the same problem.

    PYTHONPATH=src:bench python bench/fit.py [arm] [leg]

Both minimise the same residuals (output error over whole recordings, with initial states) from the same start,
the measured initial states. The function that SciPy differentiates simulates all recordings in one batch by
compiled kernels, so its time contains no compilation. The best of several fits counts, since kernels are
optimised in the background. BLAS uses one thread for both.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.optimize import least_squares

import fit_problems
import linkwork as lw
from linkwork.identification.parameters import Parameters
from linkwork.identification.recordings import checked
from linkwork.identification.shooting import Point, Shooting
from linkwork.identification.steps import Steps

TOLERANCES = {"xtol": 1e-10, "ftol": 1e-10, "gtol": 1e-10}


def residuals_of(
    problem: fit_problems.FitProblem, logs: Any
) -> tuple[Any, np.ndarray, Parameters, list[int]]:
    """Return residuals as a function of (initial states, coordinates of parameters), a start, and a count of calls."""
    model, chosen = problem.model, Parameters(problem.model, problem.parameters)
    signals = [checked(model, log, "log") for log in logs]
    steps = Steps(model, chosen, limits=False, friction=True, forces=False)
    longest = max(one.intervals for one in signals)
    shooting = Shooting(steps, chosen, signals, segment=longest, substeps=1, free_start=True)
    shooting.set_noise([(one.sigma_q, one.sigma_v) for one in signals])
    begin, nv, calls = shooting.measured(chosen.start), model.nv, [0]

    def function(z: np.ndarray) -> np.ndarray:
        calls[0] += 1
        x, states = z[: chosen.size], z[chosen.size :].reshape(len(signals), 2 * nv)
        values = chosen.arrays(x)
        starts = [steps.moved(q, v, state[None], values) for q, v, state in zip(begin.q, begin.v, states)]
        found = shooting.simulate(Point(x, [q for q, _ in starts], [v for _, v in starts]))
        if found is None:
            return np.full(sum(path.size for path in empty), 1e6)
        return np.concatenate([path.residuals.ravel() for path in found])

    found = shooting.simulate(begin)
    assert found is not None
    empty = [path.residuals for path in found]
    return function, np.concatenate([chosen.start, np.zeros(2 * nv * len(signals))]), chosen, calls


def compare(name: str) -> None:
    """Print times, costs and the difference of both optima."""
    problem: fit_problems.FitProblem = getattr(fit_problems, name)()
    logs = problem.noisy(0)
    lw.fit_parameters(problem.model, logs, problem.parameters)  # compiles
    times = []
    for _ in range(6):  # kernels are optimised in the background, between the first of them
        time.sleep(2.0)
        begin = time.perf_counter()
        cpu = time.process_time()
        fit = lw.fit_parameters(problem.model, logs, problem.parameters)
        times.append((time.perf_counter() - begin, time.process_time() - cpu))
    own = min(each[0] for each in times)
    own_cpu = min(each[1] for each in times)
    function, start, chosen, calls = residuals_of(problem, logs)
    told = np.isfinite(fit.standard_errors)
    size = len(function(start))
    print(f"{name}: {len(start)} variables, {size} residuals, {told.sum()} entries identifiable")
    print(
        f"  fit_parameters  {own:8.2f} s ({own_cpu:.2f} s of CPU)  cost {fit.cost:.6f}  {fit.status}",
        flush=True,
    )

    def differ(x: np.ndarray) -> float:
        return float((np.abs(chosen.entries(x) - fit.estimate)[told] / fit.standard_errors[told]).max())

    for word in ("2-point", "3-point"):
        begin, cpu, calls[0] = time.perf_counter(), time.process_time(), 0
        peer = least_squares(
            function, start, jac=word, method="trf", x_scale="jac", max_nfev=60, **TOLERANCES
        )
        theirs, peer_cpu = time.perf_counter() - begin, time.process_time() - cpu
        print(f"  SciPy {word}   {theirs:8.2f} s ({peer_cpu:.2f} s of CPU)  cost {peer.cost:.6f}")
        ratios = f"{theirs / own:.1f} times as long (CPU {peer_cpu / own_cpu:.1f})"
        away = f"{differ(peer.x[: chosen.size]):.2g} standard errors away"
        print(f"    {calls[0]} simulations, {ratios}, {away}", flush=True)
        if peer.cost <= fit.cost * (1.0 + 1e-8):
            return
    best = Parameters(fit.model, problem.parameters).start
    there = np.concatenate([best, np.zeros(len(start) - chosen.size)])
    peer = least_squares(function, there, jac="3-point", x_scale="jac", max_nfev=20, **TOLERANCES)
    away = f"{differ(peer.x[: chosen.size]):.2g} standard errors away"
    print(f"  SciPy from our parameters: cost {peer.cost:.6f}, {away}", flush=True)


if __name__ == "__main__":
    for word in sys.argv[1:] or ["arm", "leg"]:
        compare(word)
