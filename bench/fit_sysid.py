"""Fits by `lw.fit_parameters` against `mujoco[sysid]` on the same problem: the arm without dry friction.

PYTHONPATH=src:bench python bench/fit_sysid.py, where `pip install 'mujoco[sysid]'` has been run

Damping, armature and the payload's mass, from known initial states: sysid does not estimate these. MuJoCo
simulates with the explicit damping of semi-implicit Euler, so that both minimise the same residuals. The best
of some fits counts.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import mujoco
import numpy as np
from mujoco import sysid

import fit_problems
import linkwork as lw

DAMPING = mujoco.mjtDisableBit.mjDSBL_EULERDAMP
CONTACT = mujoco.mjtDisableBit.mjDSBL_CONTACT


def spec_of(model: Any) -> mujoco.MjSpec:
    """Return the model for MuJoCo, with a motor and sensors for each joint."""
    spec = mujoco.MjSpec.from_string(lw.export_mjcf(model))
    spec.option.timestep = fit_problems.DT
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.disableflags |= DAMPING | CONTACT
    for joint in spec.joints:
        joint.limited = joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
        motor = spec.add_actuator(name=f"{joint.name} motor", target=joint.name)
        motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
        for kind in (mujoco.mjtSensor.mjSENS_JOINTPOS, mujoco.mjtSensor.mjSENS_JOINTVEL):
            name = f"{joint.name} {kind.name}"
            spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=joint.name)
    return spec


def sysid_problem(model: Any, logs: Any) -> tuple[Any, Any]:
    """Return parameters and residuals for `sysid.optimize`."""
    spec = spec_of(model)
    compiled = spec.compile()
    names = [joint.name for joint in model.joints]
    own = model.parameters()
    parameters = sysid.ParameterDict()
    for kind in ("damping", "armature"):
        for name, value in zip(names, own[kind]):

            def set_joint(spec: Any, each: Any, name: str = name, kind: str = kind) -> None:
                value = float(each.value[0])
                setattr(spec.joint(name), kind, [value, 0.0, 0.0] if kind == "damping" else value)

            parameters.add(sysid.Parameter(f"{kind} {name}", value, 0.0, 100.0 * value, modifier=set_joint))

    def set_mass(spec: Any, each: Any) -> None:
        spec.body("flange").mass = float(each.value[0])

    mass = float(own["mass"][-1])
    parameters.add(sysid.Parameter("mass flange", mass, 0.1 * mass, 10.0 * mass, modifier=set_mass))
    sequences, measured = [], []
    for k, log in enumerate(logs):
        t = fit_problems.DT * np.arange(len(log.q))
        start = sysid.create_initial_state(compiled, log.q[0], log.v[0], np.zeros(0))
        control = sysid.TimeSeries(t, np.asarray(log.tau))
        columns = np.stack([log.q, log.v], axis=2).reshape(len(t), -1)
        sensors = sysid.TimeSeries.from_names(t, columns, compiled)
        sequences.append(sysid.ModelSequences(f"arm {k}", spec, f"log {k}", start, control, sensors))
        noise = np.concatenate([np.full(model.nv, log.sigma_q), np.full(model.nv, log.sigma_v)])
        measured.append((np.concatenate([log.q, log.v], axis=1)[1:], noise))

    def build(k: int) -> Any:
        target, noise = measured[k]

        def difference(
            parameters: Any, predicted: Any, recorded: Any, model: Any, keep: bool, **more: Any
        ) -> Any:
            moved = more["state"][: len(target), 1:]
            return ((moved - target) / noise).ravel(), recorded, recorded

        return sysid.build_residual_fn(
            models_sequences=[sequences[k]], modify_residual=difference, resample_true=False
        )

    parts = [build(k) for k in range(len(logs))]

    def residuals(x: np.ndarray, parameters: Any) -> Any:
        results = [part(x, parameters) for part in parts]
        return [y for each in results for y in each[0]], [], []

    return parameters, residuals


def main() -> None:
    """Print times, costs and the difference of both optima."""
    problem = fit_problems.damped_arm()
    logs = problem.noisy(0)
    how = {"initial_states": "fixed"}
    lw.fit_parameters(problem.model, logs, problem.parameters, **how)  # compiles
    times = []
    for _ in range(6):  # kernels are optimised in the background, between the first of them
        time.sleep(2.0)
        begin, cpu = time.perf_counter(), time.process_time()
        fit = lw.fit_parameters(problem.model, logs, problem.parameters, **how)
        times.append((time.perf_counter() - begin, time.process_time() - cpu))
    own, own_cpu = (min(each[k] for each in times) for k in (0, 1))
    print(f"fit_parameters      {own:8.2f} s ({own_cpu:.2f} s of CPU)  cost {fit.cost:.6f}  {fit.status}")
    for optimizer in ("mujoco", "scipy"):
        parameters, residuals = sysid_problem(problem.model, logs)
        begin, cpu = time.perf_counter(), time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            found, result = sysid.optimize(parameters, residuals, optimizer, verbose=False)
        took, peer = time.perf_counter() - begin, time.process_time() - cpu
        rest = np.concatenate([np.ravel(y) for y in residuals(result.x, found)[0]])
        cost = 0.5 * float(rest @ rest)
        away = float((np.abs(found.as_vector() - fit.estimate) / fit.standard_errors).max())
        print(f"sysid, {optimizer:<12} {took:8.2f} s ({peer:.2f} s of CPU)  cost {cost:.6f}", flush=True)
        print(
            f"    {took / own:.1f} times as long (CPU {peer / own_cpu:.1f}), {away:.2g} standard errors away"
        )


if __name__ == "__main__":
    main()
