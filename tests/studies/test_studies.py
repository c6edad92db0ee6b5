"""Studies: every sample is the rollout that a user would write, with the same bits for any chunks and
workers.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import studies
from linkwork.studies.cuda.sampling import draws_on_device
from product_models import case

DT = 2e-3
STEPS = 20
V = studies.Random({"v": studies.Normal()})
OUTPUTS: dict[str, Any] = {
    "energy": studies.Final(lw.kinetic_energy),
    "v": "v",
    "tip": studies.Final(lw.frame_pose, {"frame": "hand"}),
}


def arm_study(samples: int = 3000, **changes: Any) -> lw.Study:
    arguments: dict[str, Any] = {
        "samples": samples,
        "seed": 5,
        "outputs": {
            "energy": studies.Final(lw.kinetic_energy),
            "v": "v",
            "tip": studies.Final(lw.frame_pose, {"frame": "hand"}),
        },
        "reductions": [
            studies.Mean("energy"),
            studies.Variance("v"),
            studies.Extremes("energy", 3),
            studies.Quantiles("energy"),
        ],
    } | changes
    quantities = {
        "mass@hand": studies.Uniform(0.5, 3.0),
        "damping": studies.Scale(studies.Uniform(0.5, 2.0), shared=True),
        "gravity": studies.Offset(studies.Normal(0.0, 0.1)),
        "dq": studies.Normal(0.0, 0.3),
        "v@elbow_pitch": studies.Uniform(-1.0, 1.0),
        "tau": studies.Uniform(-1.0, 1.0),
    }
    task = studies.RolloutTask(dt=DT, steps=STEPS)
    return lw.Study(lw.robots.arm(), studies.Random(quantities), task, **arguments)


def test_samples_are_rollouts() -> None:
    """Rows of a study are those of `lw.rollout` with the values as arguments."""
    study = arm_study()
    rows = study.evaluate(100, 150)
    x = rows.values
    arm = lw.robots.arm()
    own = arm.parameters()
    assert x["damping"].shape == (50, 7) and np.ptp(x["damping"] / own["damping"], axis=1).max() < 1e-12
    assert np.abs(x["gravity"] - own["gravity"]).max() < 1.0
    v = np.zeros((50, 7))
    v[:, arm.v_names.index("elbow_pitch")] = x["v@elbow_pitch"]
    numbers = {name: x[name] for name in ("mass@hand", "damping", "gravity")}
    motion = lw.rollout(
        arm, lw.integrate(arm, arm.neutral(), x["dq"]), v, x["tau"], dt=DT, steps=STEPS, parameters=numbers
    )
    assert (rows.outputs["v"] == motion.v[:, -1]).all()
    energy = lw.kinetic_energy(arm, motion.q[:, -1], motion.v[:, -1], parameters=numbers)
    assert (rows.outputs["energy"] == energy).all()
    assert (rows.status == lw.Status.OK).all() and (rows.steps == STEPS).all()


def test_bits_do_not_depend_on_chunks_and_workers() -> None:
    first = arm_study().run(workers=1, progress=False)
    assert first.status == {lw.Status.OK: 3000} and first.completed == 3000
    for chunk, workers in ((1, 3), (2048, 2)):
        assert (
            arm_study(chunk=chunk).run(workers=workers, progress=False).state_bytes() == first.state_bytes()
        )
    rows = arm_study().evaluate(0, 3000)
    np.testing.assert_allclose(first["mean(energy)"].mean, rows.outputs["energy"].mean(), rtol=1e-13)
    worst = first["extremes(energy)"]
    assert worst.largest_samples[0] == rows.outputs["energy"].argmax()


def test_a_sample_is_rebuilt_with_its_bits() -> None:
    study = arm_study()
    rows = study.evaluate(0, 3000)
    for k in (0, 1024, 2999):
        sample = study.sample(k)
        assert all((sample.values[name] == rows.values[name][k]).all() for name in rows.values)
        assert (sample.outputs()["energy"] == rows.outputs["energy"][k]).all()
        motion = sample.run(record_every=5)
        assert motion.q.shape == (5, 7) and (motion.v[-1] == rows.outputs["v"][k]).all()
        assert (motion.q[0] == sample.q).all() and (motion.v[0] == sample.v).all()
        assert sample.status == lw.Status.OK
        assert (
            sample.model.parameters()["mass"][sample.model.body("hand").index] == sample.values["mass@hand"]
        )


@pytest.mark.parametrize("executor", ["processes"])
def test_processes_give_the_same_bits(executor: str) -> None:
    """With functions that only this module, or nobody, can import."""
    limit = 0.0
    changes: dict[str, Any] = {
        "outputs": {
            "energy": studies.Final(lw.kinetic_energy),
            "slow": lambda batch: batch.v[:, -1, 0] < limit,
        },
        "reductions": {"energy": studies.Mean("energy"), "slow": studies.SuccessRate("slow")},
    }
    here = arm_study(**changes).run(progress=False)
    there = arm_study(chunk=1024, **changes).run(executor=executor, workers=2, progress=False)
    assert there.state_bytes() == here.state_bytes()
    assert 0 < there["slow"].successes < 3000


class _KillsOnce:
    """An output that kills its process the first time that it is asked for samples beyond the first chunk."""

    def __init__(self, mark: Path, always: bool = False) -> None:
        self.mark, self.always, self.driver = str(mark), always, os.getpid()

    def __call__(self, batch: studies.Batch) -> Any:
        if (
            os.getpid() != self.driver
            and batch.index[0] > 0
            and (self.always or not os.path.exists(self.mark))
        ):
            open(self.mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch.v[:, -1, 0]


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_chunks_of_a_worker_that_died_are_computed_again(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"chunk": 1024, "reductions": [studies.Mean("x")]}
    expected = arm_study(outputs={"x": lambda batch: batch.v[:, -1, 0]}, **changes).run(progress=False)
    study = arm_study(outputs={"x": _KillsOnce(tmp_path / "mark")}, **changes)
    found = study.run(executor="processes", workers=2, progress=False)
    assert (tmp_path / "mark").exists() and found.state_bytes() == expected.state_bytes()
    study = arm_study(outputs={"x": _KillsOnce(tmp_path / "mark", always=True)}, **changes)
    with pytest.raises(lw.StudyError, match="died 2 times"):
        study.run(executor="processes", workers=1, retries=1, progress=False)


def test_families_compile_each_model_once() -> None:
    models = [lw.robots.chain(1), lw.robots.chain(2), lw.robots.chain(3)]
    task = studies.RolloutTask(dt=DT, steps=10)
    sampler = studies.Random({"dq": studies.Uniform(-1.0, 1.0), "model": studies.Choice([0, 2])})
    outputs: dict[str, Any] = {"energy": studies.Final(lw.kinetic_energy)}
    study = lw.Study(
        models, sampler, task, samples=400, outputs=outputs, reductions=[studies.Mean("energy")], chunk=1
    )
    rows = study.evaluate(0, 400)
    assert set(rows.model) == {0, 2} and rows.values["dq"].shape == (400, 3)
    for k in (0, 2):
        chosen = rows.model == k
        q = lw.integrate(models[k], models[k].neutral(), rows.values["dq"][chosen][:, : models[k].nv])
        motion = lw.rollout(models[k], q, np.zeros(models[k].nv), dt=DT, steps=10)
        energy = lw.kinetic_energy(models[k], motion.q[:, -1], motion.v[:, -1])
        assert (rows.outputs["energy"][chosen] == energy).all()
    assert study.sample(3).nominal is models[rows.model[3]]
    alternating = lw.Study(models, studies.Random({"dq": studies.Normal()}), task, samples=7)
    assert alternating.evaluate(0, 7).model.tolist() == [0, 1, 2, 0, 1, 2, 0]
    with pytest.raises(lw.StudyError, match="integers from 0 to 2"):
        lw.Study(models, studies.Grid({"model": [0.0, 3.0]}), task).run(progress=False)
    with pytest.raises(lw.StudyError, match="one shape for all models"):
        lw.Study(models, studies.Grid({"model": [0, 1]}), task, outputs={"v": "v"}).run(progress=False)


def test_loops_stay_closed_when_states_and_geometry_vary() -> None:
    model = lw.robots.four_bar()
    place = model.parameters()["loop_placement"]
    shift = np.zeros((2, 7))
    shift[0, 0] = 0.01
    quantities = {
        "dq": studies.Uniform(-0.2, 0.2),
        "loop_placement": studies.Uniform(place - shift, place + shift),
    }
    study = lw.Study(
        model,
        studies.Random(quantities),
        studies.RolloutTask(dt=1e-3, steps=10, q=model.random_state(3)[0]),
        samples=40,
        outputs={"q": "q"},
    )
    rows = study.evaluate(0, 40)
    assert (rows.status == lw.Status.OK).all()
    q = np.array([study.sample(k).q for k in range(40)])
    numbers = {"loop_placement": rows.values["loop_placement"]}
    assert np.max(lw.closure_error(model, q, parameters=numbers)) < 1e-9
    with pytest.raises(lw.StudyError, match="dq@"):
        lw.Study(model, studies.Random({f"q@{model.v_names[0]}": studies.Uniform()}), study.task, samples=2)


def test_policies_gains_and_forces_vary() -> None:
    model = lw.robots.chain(2)

    def policy(q: Any, v: Any, t: Any, inputs: Any) -> Any:
        return -inputs["gain"] * v + inputs["bias"][0]

    sampler = studies.Random(
        {"input@gain": studies.Uniform([0.0, 1.0], [1.0, 2.0]), "input@bias": studies.Normal(0.0, 0.1)}
    )
    task = studies.RolloutTask(dt=DT, steps=10, policy=policy, v=[1.0, 1.0])
    rows = lw.Study(model, sampler, task, samples=5, outputs={"v": "v"}).evaluate(0, 5)
    inputs = {"gain": rows.values["input@gain"], "bias": rows.values["input@bias"][:, None]}
    motion = lw.rollout(model, model.neutral(), np.ones(2), dt=DT, steps=10, policy=policy, inputs=inputs)
    assert (rows.outputs["v"] == motion.v[:, -1]).all()

    gains = studies.Random({"pd@kp": studies.Uniform(1.0, 2.0), "pd@q": studies.Normal(0.0, 0.1)})
    task = studies.RolloutTask(dt=DT, steps=10, tau=lw.PD(1.0, 0.1, np.zeros(2)))
    rows = lw.Study(model, gains, task, samples=5, outputs={"v": "v"}).evaluate(0, 5)
    tau = lw.PD(rows.values["pd@kp"], 0.1, rows.values["pd@q"])
    motion = lw.rollout(model, model.neutral(), np.zeros(2), tau, dt=DT, steps=10)
    assert (rows.outputs["v"] == motion.v[:, -1]).all()

    forces = studies.Random(
        {"tau": studies.Normal(np.zeros((10, 2)), 1.0), "tau@joint_1": studies.Constant(0.5)}
    )
    task = studies.RolloutTask(dt=DT, steps=10)
    rows = lw.Study(model, forces, task, samples=5, outputs={"v": "v"}).evaluate(0, 5)
    tau = rows.values["tau"].copy()
    tau[..., 1] = 0.5
    motion = lw.rollout(model, np.tile(model.neutral(), (5, 1)), np.zeros(2), tau, dt=DT, steps=10)
    assert (rows.outputs["v"] == motion.v[:, -1]).all()


def test_functions_of_a_model_are_tasks() -> None:
    arm = lw.robots.arm()
    sampler = studies.LatinHypercube(
        {"q": studies.Uniform(-1.0, 1.0), "mass@hand": studies.Uniform(1.0, 2.0)}
    )
    task = studies.FunctionTask(lw.forward_dynamics, {"tau": np.ones(7)})
    study = lw.Study(arm, sampler, task, samples=2000, outputs={"a": "out"}, reductions=[studies.Mean("a")])
    rows = study.evaluate(0, 50)
    numbers = {"mass@hand": rows.values["mass@hand"]}
    a = lw.forward_dynamics(arm, rows.values["q"], np.zeros(7), np.ones(7), parameters=numbers)
    assert (rows.outputs["a"] == a).all()
    assert study.run(progress=False)["mean(a)"].count == 2000
    assert (study.sample(3).run()["out"] == a[3]).all()


def test_names_of_outputs_are_final_states_whatever_varies() -> None:
    """ "q" and "v" are the last state of a rollout also where the initial state varies."""
    sampler = studies.Random(
        {"q": studies.Uniform(0.1, 0.5), "v": studies.Normal(), "mass": studies.Uniform()}
    )
    outputs = {"q": "q", "v": "v", "mass": "mass"}
    study = lw.Study(lw.robots.chain(2), sampler, studies.RolloutTask(DT, 10), samples=5, outputs=outputs)
    rows = study.evaluate(0, 5)
    motion = lw.rollout(
        study.models[0],
        rows.values["q"],
        rows.values["v"],
        dt=DT,
        steps=10,
        parameters={"mass": rows.values["mass"]},
    )
    assert (rows.outputs["q"] == motion.q[:, -1]).all() and (rows.outputs["v"] == motion.v[:, -1]).all()
    assert (rows.outputs["mass"] == rows.values["mass"]).all()
    assert (study.sample(3).outputs()["q"] == study.sample(3).run().q[-1]).all()


@pytest.mark.parametrize("kind", ["rollout", "function"])
@pytest.mark.parametrize("moved", [True, False])
def test_loops_that_are_open_have_their_status(kind: str, moved: bool) -> None:
    """Whether the geometry cannot be closed, also from where "dq" leads, or q itself is open."""
    model = lw.robots.four_bar()
    q = model.random_state(3)[0]
    place = model.parameters()["loop_placement"]
    far = place.copy()
    far[0, 1, 0] += 100.0
    geometry = {"loop_placement": [place, far, place]}
    sampler = studies.Grid({**geometry, "dq": [[0.1]]} if moved else geometry)
    task: Any = studies.RolloutTask(1e-3, 2, q=q)
    if kind == "function":
        task = studies.FunctionTask(lw.mass_matrix, {"q": q})
    wanted = [lw.Status.OK, lw.Status.NOT_CLOSED, lw.Status.OK]
    assert lw.Study(model, sampler, task).evaluate(0, 3).status.tolist() == wanted
    displaced = studies.Grid({"q": [q, q + np.array([0.0, 0.1, 0.0]), q]})
    assert lw.Study(model, displaced, task).evaluate(0, 3).status.tolist() == wanted


@pytest.mark.parametrize("bounds", [(-1, 2), (2, 2), (0, 5)])
def test_samples_that_do_not_exist_are_refused(bounds: tuple[int, int]) -> None:
    study = lw.Study(lw.robots.chain(2), V, studies.RolloutTask(DT, 2), samples=4)
    with pytest.raises(lw.StudyError, match="evaluate"):
        study.evaluate(*bounds)


def test_a_sample_that_diverges_is_a_row_with_its_status() -> None:
    model = lw.robots.chain(2)
    sampler = studies.Grid({"v": [[0.0, 0.0], [1e300, 1e300], [0.1, 0.1]]})
    task = studies.RolloutTask(dt=DT, steps=10)
    study = lw.Study(
        model, sampler, task, outputs={"v": "v"}, reductions=[studies.Mean("v"), studies.SuccessRate()]
    )
    result = study.run(progress=False)
    assert result.status[lw.Status.OK] == 2 and result.completed == 3
    assert result["mean(v)"].count == 2 and result["mean(v)"].excluded == 1
    assert result["success_rate"].successes == 2 and result["success_rate"].count == 3
    assert study.sample(1).status != lw.Status.OK
    assert "samples" in str(result)


def _forgotten(index: Any, seed: int) -> Any:
    return {"v": np.zeros((len(index), 2))} if index[0] < 1024 else {"v": np.full((len(index), 2), np.nan)}


def _second_is_wrong(index: Any, seed: int) -> Any:
    """Values of which "mass" is wrong in some samples, and "v" in one before them."""
    v = np.where(index[:, None] == 5, np.inf, np.zeros((len(index), 2)))
    return {"mass": np.where(index[:, None] > 5, -index[:, None], np.ones((len(index), 2))), "v": v}


LATER = {"samples": 3000, "chunk": 1024}
INVALID: dict[str, tuple[Any, dict[str, Any], str]] = {
    "unknown quantity": (studies.Random({"weight": studies.Normal()}), {}, "unknown quantity 'weight'"),
    "unknown body": (studies.Random({"mass@leg": studies.Normal()}), {}, "mass@leg"),
    "unknown joint": (studies.Random({"v@hip": studies.Normal()}), {}, "hip"),
    "shape of a distribution": (
        studies.Random({"v": studies.Normal(np.zeros(3))}),
        {},
        "broadcasts to \\(2,\\)",
    ),
    "no nominal value": (
        studies.Random({"tau": studies.Normal(), "input@x": studies.Scale(studies.Normal())}),
        {},
        "nominal",
    ),
    "gains without PD": (studies.Random({"pd@kp": studies.Normal()}), {}, "lw.PD"),
    "friction without contacts": (studies.Random({"contact_friction": studies.Normal()}), {}, "contacts"),
    "negative mass": (
        studies.Random({"mass": studies.Constant(-1.0)}),
        {},
        "mass: expected numbers >= 0.*sample 0",
    ),
    "no samples": (V, {"samples": None}, "samples"),
    "samples as text": (V, {"samples": "many"}, "samples"),
    "negative seed": (V, {"seed": -1}, "seed"),
    "grid of another size": (studies.Grid({"v": np.zeros((3, 2))}), {"samples": 4}, "3 points"),
    "unknown output": (V, {"outputs": {"x": "height"}}, "unknown name 'height'"),
    "output of one number": (V, {"outputs": {"x": lambda b: 1.0}}, "one row per sample"),
    "output that raises": (V, {"outputs": {"x": lambda b: 1 / 0}}, "ZeroDivisionError"),
    "output of all rows": (
        V,
        {"outputs": {"x": lambda b: b.v[:, -1, 0] - b.v[:, -1, 0].mean()}},
        "each row by itself",
    ),
    "complex output": (
        V,
        {"outputs": {"x": lambda b: 1j * b.v[:, -1, 0]}},
        "real numbers, got dtype complex",
    ),
    "output called status": (V, {"outputs": {"status": lambda b: b.v[:, -1, 0]}}, "expected another name"),
    "success of a vector": (
        V,
        {"outputs": {"v": "v"}, "reductions": [studies.SuccessRate("v")]},
        "expected a scalar",
    ),
    "reduction of nothing": (
        V,
        {"reductions": [studies.Mean("x")]},
        "unknown output 'x'",
    ),
    "two of one name": (V, {"reductions": [studies.Mean("v")] * 2}, "two reductions"),
    "extremes of a vector": (
        V,
        {"outputs": {"v": "v"}, "reductions": [studies.Extremes("v")]},
        "expected a scalar",
    ),
    "indices without groups": (
        V,
        {"outputs": {"v": "v"}, "reductions": [studies.SobolIndices("v")]},
        "Saltelli",
    ),
    "exact quantiles of too much": (
        V,
        {"outputs": {"v": "v"}, "reductions": [studies.Quantiles("v", method="exact")], "samples": 10**9},
        "do not fit",
    ),
    "unknown model": (
        studies.FromFunction(["model"], lambda i, s: {"model": 0.5 if i == 7 else 0}),
        {},
        "expected integers from 0 to 0, got 0.5 in sample 7",
    ),
    "NaN of a function": (
        studies.FromFunction(["v"], _forgotten, vectorized=True),
        {"samples": 3000, "chunk": 1024},
        "sample 1024",
    ),
    "several wrong values": (
        studies.FromFunction(["mass", "v"], _second_is_wrong, vectorized=True),
        {},
        "v: expected finite numbers, .*sample 5",
    ),
    "several wrong samples": (
        studies.FromFunction(["v", "mass"], lambda i, s: {"v": [0, 0], "mass": [1, 7.0 - i]}),
        {},
        "mass: expected numbers >= 0, got -1 in sample 8",
    ),
    "another shape in a later chunk": (
        V,
        {"outputs": {"x": lambda b: b.v[:, -1, 0] if b.index[0] < 1024 else b.v[:, -1]}} | LATER,
        r"output 'x': expected shape \(\), got \(2,\) in samples 1024 to 2047",
    ),
    "shape of a function": (studies.FromFunction(["v"], lambda i, s: {"v": [1.0]}), {}, "expected shape"),
    "names of a function": (
        studies.FromFunction(["v"], lambda i, s: {"q": [1.0, 2.0]}),
        {},
        "expected values of v",
    ),
    "a function that raises": (studies.FromFunction(["v"], lambda i, s: {"v": 1 / i}), {}, "sample 0"),
    "unknown status": (V, {"accept": [99]}, "accept: expected values of lw.Status, got 99"),
    "unknown rows": (V, {"rows": "some"}, "rows"),
    "no chunk": (V, {"chunk": 0}, "chunk"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_studies_are_refused(name: str) -> None:
    sampler, changes, message = INVALID[name]
    task = studies.RolloutTask(dt=DT, steps=2)
    with pytest.raises(lw.StudyError, match=message) as found:
        lw.Study(lw.robots.chain(2), sampler, task, **{"samples": 100, **changes}).run(progress=False)
    assert "\n" not in str(found.value)


def test_invalid_samples_of_a_family_are_named() -> None:
    sampler = studies.FromFunction(["dq@joint_0"], lambda i, s: {"dq@joint_0": np.nan if i == 5 else 0.0})
    models = [lw.robots.chain(1), lw.robots.chain(2)]
    study = lw.Study(models, sampler, studies.RolloutTask(DT, 2), samples=20)
    with pytest.raises(lw.StudyError, match="sample 5"):
        study.evaluate(0, 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": "slurm"}, "executor"),
        ({"workers": 0}, "workers"),
        ({"retries": -1}, "retries"),
        ({"address": "auto"}, "address"),
    ],
)
def test_invalid_runs_are_refused(options: dict[str, Any], message: str) -> None:
    study = lw.Study(lw.robots.chain(1), V, studies.RolloutTask(DT, 2), samples=4)
    with pytest.raises(lw.StudyError, match=message):
        study.run(progress=False, **options)


def test_functions_that_cannot_be_pickled_are_one_error() -> None:
    lock = __import__("threading").Lock()
    study = arm_study(outputs={"x": lambda batch: batch.v[:, -1, 0] * (lock is not None)}, reductions=[])
    with pytest.raises(lw.StudyError, match="cannot be sent to other processes"):
        study.run(executor="processes", progress=False)


def test_stiffness_of_joints_without_springs_is_refused() -> None:
    """It would have no effect: kernels leave it out, and `with_parameters` refuses it."""
    model = lw.robots.quadruped()
    joint = model.joints[1].name
    for name, accepted in (("stiffness", False), (f"stiffness@{joint}", True)):
        sampler = studies.Random({name: studies.Uniform(1.0, 2.0)})
        study = lw.Study(model, sampler, studies.RolloutTask(DT, 1), samples=3, outputs={"q": "q"})
        if accepted:
            assert study.evaluate(0, 3).outputs["q"].shape == (3, model.nq) and study.sample(0).model
        else:
            with pytest.raises(lw.StudyError, match=r"stiffness: expected 0 .* in sample 0"):
                study.evaluate(0, 3)


def test_stiffness_of_spherical_joints_is_the_same_about_all_axes() -> None:
    """Other springs have no potential. They are drawn where they can be checked."""
    model = case("tree").model
    joint = next(j for j in model.joints if type(j.kind).__name__ == "Spherical")
    sampler = studies.Random({f"stiffness@{joint.name}": studies.Uniform(1.0, 2.0)})
    study = lw.Study(model, sampler, studies.RolloutTask(DT, 1), samples=3, outputs={"q": "q"})
    assert not draws_on_device(study)
    with pytest.raises(lw.ModelError, match=f"expected equal numbers at joint {joint.name!r}"):
        study.evaluate(0, 3)


def test_functions_of_scripts_need_cloudpickle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickle itself names them, and the other process has another script."""

    def fast(batch: Any) -> Any:
        return batch.v[:, -1, 0]

    fast.__module__, fast.__qualname__ = "__main__", "fast"
    monkeypatch.setattr(sys.modules["__main__"], "fast", fast, raising=False)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    study = arm_study(outputs={"x": fast}, reductions=[])
    with pytest.raises(
        lw.StudyError, match=r"'fast' is defined in a script.*pip install 'linkwork\[study\]'"
    ):
        study.run(executor="processes", progress=False)


@pytest.mark.parametrize(("package", "call"), [
    ("pyarrow", lambda: arm_study(100).run("folder", progress=False)),
    ("ray", lambda: arm_study(100).run(executor="ray", progress=False)),
])  # fmt: skip
def test_a_missing_package_is_one_sentence(
    package: str, call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(lw.MissingPackageError, match=r"pip install 'linkwork\[study\]'"):
        call()
    assert not list(tmp_path.iterdir())


def test_progress_tells_rate_and_failures(capsys: pytest.CaptureFixture[str]) -> None:
    sampler = studies.Grid({"v": [[0.0, 0.0], [1e300, 1e300], [0.1, 0.1]]})
    lw.Study(lw.robots.chain(2), sampler, studies.RolloutTask(DT, 10), name="spin").run(progress=True)
    told = capsys.readouterr().err
    assert "spin: 3/3 (100%)" in told and "samples/s" in told and "1 NOT_FINITE" in told


def test_controls_of_actuators_and_options_of_rollouts_reach_them(tmp_path: Path) -> None:
    file = tmp_path / "arm.xml"
    joint = '<joint name="hinge" axis="0 1 0" range="-1 1" limited="true"/>'
    body = f'<body name="link">{joint}<geom type="sphere" size="0.1" pos="0 0 -0.5"/></body>'
    motor = '<actuator><motor name="motor" joint="hinge" gear="2"/></actuator>'
    file.write_text(f"<mujoco><worldbody>{body}</worldbody>{motor}</mujoco>")
    pytest.importorskip("mujoco")
    model = lw.load(file)
    sampler = studies.Random({"control": studies.Uniform(-30.0, 30.0)})
    for limits in (True, False):
        task = studies.RolloutTask(dt=DT, steps=100, tau=lw.Controls([0.0]), options={"limits": limits})
        rows = lw.Study(model, sampler, task, samples=20, outputs={"q": "q"}).evaluate(0, 20)
        u = lw.Controls(rows.values["control"])
        motion = lw.rollout(model, np.zeros((20, 1)), np.zeros(1), u, dt=DT, steps=100, limits=limits)
        assert (rows.outputs["q"] == motion.q[:, -1]).all()
        assert (np.abs(rows.outputs["q"]).max() < 1.01) == limits
    for options in ({"limit": False}, {"dt": 1.0}, {"parameters": {}}):
        with pytest.raises(lw.StudyError, match="further arguments"):
            studies.RolloutTask(dt=DT, steps=1, options=options)
    with pytest.raises(lw.StudyError, match=r"lw\.Controls"):
        lw.Study(model, sampler, studies.RolloutTask(dt=DT, steps=1), samples=3)


def test_the_first_failed_sample_is_named_whichever_chunk_fails_first() -> None:
    later_chunk_failed = threading.Event()

    def failing(index: Any, seed: int) -> Any:
        if len(index) < 10:  # samples that are computed beforehand
            return {"v": np.zeros((len(index), 2))}
        if index[0] == 0:
            assert later_chunk_failed.wait(timeout=60.0)
        else:
            later_chunk_failed.set()
        return {"v": np.full((len(index), 2), np.nan)}

    sampler = studies.FromFunction(["v"], failing, vectorized=True)
    study = lw.Study(lw.robots.chain(2), sampler, studies.RolloutTask(dt=DT, steps=2), **LATER)
    with pytest.raises(lw.StudyError, match="sample 0"):
        study.run(workers=2, progress=False)
