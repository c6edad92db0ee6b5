"""Environments: what a step is, episodes, seeds, randomisation, array libraries, and gymnasium's own checker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.joints import Free, Revolute
from linkwork.mechanism import Actuator, Geometry

gymnasium = pytest.importorskip("gymnasium")


def cart_pole() -> lw.Model:
    """A cart on a rail, driven, and a pole on it that is not."""
    builder = lw.ModelBuilder("cart pole")
    builder.add_body("cart", mass=1.0, inertia=(1e-3, 1e-3, 1e-3))
    builder.add_joint(
        "rail", lw.joints.Prismatic((1.0, 0.0, 0.0)), parent="world", child="cart", max_effort=10.0
    )
    builder.add_body("pole", mass=0.2, center=(0.0, 0.0, 0.5), inertia=(0.01, 0.01, 1e-4))
    return builder.add_joint("pin", Revolute((0.0, 1.0, 0.0)), parent="cart", child="pole").build()


def begin(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.uniform(-0.05, 0.05, (count, 2)), np.zeros((count, 2))


def environment(worlds: int = 4, **change: Any) -> Any:
    how: dict[str, Any] = {
        "dt": 0.005, "decimation": 4, "reset": begin, "duration": 1.0, "reward": lambda w: 1.0 - w.q[:, 1] ** 2,
        "termination": lambda w: abs(w.q[:, 1]) > 0.2, "dtype": "float64", **change,
    }  # fmt: skip
    return lw.interop.gymnasium.VectorEnv(cart_pole(), worlds, **how)


def played(env: Any, steps: int = 30, seed: int = 3) -> list[Any]:
    """All that an environment gives in so many steps of random actions."""
    found = [env.reset(seed=seed)]
    rng = np.random.default_rng(0)
    return found + [env.step(rng.uniform(-1, 1, env.action_space.shape)) for _ in range(steps)]


def test_a_step_is_a_rollout() -> None:
    env = environment(3, termination=None)
    start, _ = env.reset(seed=5)
    actions = np.array([[0.5], [-1.0], [7.0]])
    observed, rewards, terminated, truncated, _ = env.step(actions)
    tau = np.array([[5.0, 0.0], [-10.0, 0.0], [10.0, 0.0]])  # of the largest effort, and never more
    found = lw.rollout(env.model, start[:, :2], start[:, 2:], tau, dt=0.005, steps=4)
    assert np.array_equal(observed, np.concatenate([found.q[:, -1], found.v[:, -1]], axis=1))
    assert (
        np.array_equal(rewards, 1.0 - found.q[:, -1, 1] ** 2) and not terminated.any() and not truncated.any()
    )
    assert env.action_space.shape == (3, 1) and env.observation_space.contains(observed)


def test_functions_see_what_was_before() -> None:
    seen: list[Any] = []
    env = environment(2, reward=lambda w: seen.append(w) or w.t, termination=None)
    first, _ = env.reset(seed=0)
    second, rewards, *_ = env.step(np.ones((2, 1)))
    assert np.array_equal(seen[0].q_before, first[:, :2]) and np.array_equal(seen[0].q, second[:, :2])
    assert (
        np.array_equal(seen[0].v_before, first[:, 2:])
        and np.allclose(rewards, 0.02)
        and (seen[0].action == 1.0).all()
    )


# episodes


def test_the_next_step_of_a_world_that_ended_begins_anew() -> None:
    env = environment(8)
    anew = 0
    ended = np.zeros(8, dtype=bool)
    for observed, rewards, terminated, truncated, _ in played(env, 80)[1:]:
        assert (
            (np.abs(observed[ended, 1]) < 0.05).all()
            and (rewards[ended] == 0.0).all()
            and not terminated[ended].any()
        )
        assert (terminated == (np.abs(observed[:, 1]) > 0.2) & ~ended).all()
        anew += ended.sum()
        ended = terminated | truncated
    assert anew > 8 and env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP


def test_a_world_that_ended_begins_anew_in_the_same_step() -> None:
    ended = 0
    for observed, _, terminated, _, infos in played(environment(8, autoreset="same_step"), 60)[1:]:
        assert (np.abs(observed[terminated, 1]) < 0.05).all()
        if terminated.any():
            assert (np.abs(infos["final_obs"][terminated, 1]) > 0.2).all() and infos["_final_obs"][
                terminated
            ].all()
        ended += terminated.sum()
    assert ended > 4


def test_without_autoreset_worlds_are_reset_by_a_mask() -> None:
    env = environment(3, autoreset="disabled", termination=None)
    played(env, 5)
    before = env.step(np.zeros((3, 1)))[0]
    mask = np.array([False, True, False])
    observed, _ = env.reset(options={"reset_mask": mask})
    assert np.array_equal(observed[~mask], before[~mask]) and (np.abs(observed[1]) < 0.05).all()


def test_episodes_are_truncated_after_their_duration() -> None:
    found = played(environment(2, termination=None, duration=0.2), 22)[1:]
    assert [bool(step[3].all()) for step in found] == [(k + 1) % 11 == 10 for k in range(22)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_times_do_not_drift(dtype: str) -> None:
    env = environment(
        1, termination=None, reward=lambda w: w.t, dt=1e-3, decimation=1, duration=None, dtype=dtype
    )
    times = [float(step[1][0]) for step in played(env, 500)[1:]]
    exact = 1e-3 * np.arange(1, 501)
    assert np.abs(times / exact - 1.0).max() < 2.0 * np.finfo(dtype).eps


def test_a_world_that_leaves_the_finite_numbers_ends_alone() -> None:
    def drive(action: Any, worlds: Any) -> Any:
        return np.concatenate([np.where(action > 0.5, np.inf, action), 0.0 * action], axis=1)

    env = environment(3, action=lw.interop.gymnasium.Action(1, drive), termination=None)
    start, _ = env.reset(seed=0)
    observed, _, terminated, _, infos = env.step([[0.0], [1.0], [0.2]])
    assert (
        terminated.tolist() == infos["failed"].tolist() == [False, True, False]
        and np.isfinite(observed).all()
    )
    assert np.array_equal(observed[1], start[1])
    assert np.isfinite(env.step(np.zeros((3, 1)))[0]).all()


# seeds and parameters


def test_one_seed_gives_one_bit_pattern() -> None:
    a, b, c = (played(environment(4), 40, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(x[0], y[0]) for x, y in zip(a, b)) and not np.array_equal(a[0][0], c[0][0])


def test_parameters_are_drawn_for_each_world_when_it_begins() -> None:
    drawn: list[Any] = []

    def randomise(rng: np.random.Generator, count: int) -> dict[str, Any]:
        drawn.append(
            {"mass@pole": rng.uniform(0.1, 1.0, count), "gravity": np.tile([0.0, 0.0, -5.0], (count, 1))}
        )
        return drawn[-1]

    env = environment(3, randomise=randomise, termination=None, reward=lambda w: w.parameters["mass@pole"])
    start, _ = env.reset(seed=0)
    observed, rewards, *_ = env.step(np.ones((3, 1)))
    assert np.array_equal(rewards, drawn[-1]["mass@pole"])
    found = lw.rollout(
        env.model, start[:, :2], start[:, 2:], [10.0, 0.0], dt=0.005, steps=4, parameters=drawn[-1]
    )
    assert np.array_equal(observed[:, :2], found.q[:, -1])


# what drives


def test_joint_targets_are_pd_control_inside_of_the_kernel() -> None:
    model = lw.robots.quadruped()
    around = model.neutral()
    action = lw.interop.gymnasium.joint_targets(model, 30.0, 1.0, around=around, reach=0.4)
    env = lw.interop.gymnasium.VectorEnv(model, 2, action=action, dtype="float64", decimation=3)
    env.reset(seed=0)
    given = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 12))
    observed, *_ = env.step(given)
    q = np.tile(around, (2, 1))
    q[:, 7:] += 0.4 * given
    gains = np.where(np.arange(18) < 6, 0.0, 1.0)
    pd = lw.PD(30.0 * gains, gains, q)
    found = lw.rollout(model, np.tile(around, (2, 1)), np.zeros(18), pd, dt=2e-3, steps=3)
    assert np.allclose(observed[:, :19], found.q[:, -1], rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_controls_of_actuators_are_those_of_rollouts(dtype: str) -> None:
    builder = lw.ModelBuilder("arm")
    for k, parent in enumerate(("world", "link0")):
        builder.add_body(f"link{k}", mass=1.0, center=(0.0, 0.0, -0.3), inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"turn{k}", Revolute((0.0, 1.0, 0.0)), parent=parent, child=f"link{k}")
    servo: dict[str, Any] = {"gain": ("fixed", (20.0,)), "bias": ("affine", (0.0, -20.0, -1.0))}
    builder.add_actuator(
        Actuator("servo", "joint", "turn0", (("turn0", 1.0),), control_range=(-0.5, 1.5), **servo)
    )
    builder.add_actuator(Actuator("motor", "joint", "turn1", (("turn1", 2.0),)))
    model = builder.build()
    action = lw.interop.gymnasium.actuator_controls(model)
    env = lw.interop.gymnasium.VectorEnv(model, 2, action=action, dtype=dtype, decimation=3)
    env.reset(seed=0)
    observed, *_ = env.step(np.array([[1.0, 0.2], [-0.4, -1.0]]))
    u = [[1.5, 0.2], [0.1, -1.0]]
    found = lw.rollout(model, np.zeros((2, 2)), np.zeros(2), lw.Controls(u), dt=2e-3, steps=3)
    assert np.allclose(observed[:, :2], found.q[:, -1], rtol=0.0, atol=1e-13 if dtype == "float64" else 1e-6)


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
@pytest.mark.parametrize("dynamics", [("filter", (0.1,)), ("muscle", (0.02, 0.05)), ("integrator", ())])
def test_activations_go_on_from_step_to_step(dynamics: tuple[str, tuple[float, ...]], arrays: str) -> None:
    """Steps with one action are those of one long rollout, until a world begins anew."""
    pytest.importorskip(arrays)
    builder = lw.ModelBuilder("arm").add_body("link", mass=1.0, center=(0, 0, -0.3), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("turn", Revolute((0.0, 1.0, 0.0)), parent="world", child="link")
    builder.add_actuator(Actuator("slow", "joint", "turn", (("turn", 1.0),), dynamics=dynamics))
    builder.add_actuator(Actuator("fast", "joint", "turn", (("turn", 2.0),)))
    model = builder.build()
    action = lw.interop.gymnasium.actuator_controls(model)

    env = lw.interop.gymnasium.VectorEnv(
        model,
        2,
        action=action,
        decimation=5,
        dtype="float64",
        observation=lambda worlds: worlds.activations,
        arrays=arrays,
    )
    u = np.array([[0.7, 0.1], [0.2, -0.3]])
    actions = env._library.constant(u, env._library.zeros((2, 2)))
    drive = lw.Controls(u)
    path = lw.rollout(model, np.zeros((2, 1)), np.zeros((2, 1)), drive, dt=2e-3, steps=20, record_every=5)
    for _ in range(2):
        seen, _ = env.reset(seed=0)
        assert not np.asarray(seen).any() and seen.shape == (2, 2)
        for k in range(1, 4):
            seen, *_ = env.step(actions)
            expected = drive.activations_at(model, k * 0.01)
            np.testing.assert_allclose(np.asarray(seen), expected, atol=1e-14)
            np.testing.assert_allclose(np.asarray(env._worlds.q), path.q[:, k], atol=1e-13)
    env.reset(options={"reset_mask": np.array([True, False])})
    np.testing.assert_allclose(np.asarray(env._worlds.activations)[0], 0.0)
    assert np.asarray(env._worlds.activations)[1, 0] > 0.0


def test_worlds_stand_on_the_ground() -> None:
    """Steps with contact are those of one long rollout: impulses go on from step to step, until a world
    begins anew.
    """
    builder = lw.ModelBuilder("ball").add_body("ball", mass=2.0, inertia=(0.008, 0.008, 0.008))
    builder.add_joint("free", Free(), parent="world", child="ball")
    model = builder.add_geometry(Geometry("shell", shape="sphere", size=(0.1,), link="ball")).build()
    q, v = np.tile(model.neutral(), (2, 1)), np.zeros((2, 6))
    q[:, 2], v[:, 3] = 0.1, (0.0, 1.0)
    push = lw.interop.gymnasium.Action(
        1, lambda action, worlds: np.concatenate([np.zeros((2, 5)), action], axis=1)
    )
    how: dict[str, Any] = {"contacts": lw.Contacts(friction=0.3), "dt": 0.002}
    env = lw.interop.gymnasium.VectorEnv(
        model, 2, action=push, decimation=5, reset=lambda rng, n: (q[:n], v[:n]), dtype="float64", **how
    )
    for _ in range(2):
        env.reset(seed=0)
        for _ in range(4):
            observed, _, terminated, _, _ = env.step(np.full((2, 1), 0.5))
        found = lw.rollout(model, q, v, [0.0, 0.0, 0.0, 0.0, 0.0, 0.5], steps=20, **how)
        assert (
            np.array_equal(observed, np.concatenate([found.q[:, -1], found.v[:, -1]], axis=1))
            and not terminated.any()
        )


# other packages


@pytest.mark.parametrize("arrays", ["torch", "jax"])
def test_arrays_of_other_libraries_have_the_same_numbers(arrays: str) -> None:
    library = pytest.importorskip(arrays)
    if arrays == "jax":
        library.config.update("jax_enable_x64", True)
    ours = played(environment(4), 40)
    theirs = played(environment(4, arrays=arrays), 40)
    kind = library.Tensor if arrays == "torch" else library.Array
    for a, b in zip(ours, theirs):
        assert all(isinstance(x, kind) for x in b[:-1])
        assert all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(a[:-1], b[:-1]))


class OneWorld(gymnasium.Env):  # type: ignore[misc]
    """One world of a vector environment, for the checker of gymnasium, which knows no vectors."""

    def __init__(self) -> None:
        self.vector = environment(1, dtype="float32")
        self.observation_space = self.vector.single_observation_space
        self.action_space = self.vector.single_action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.vector.reset(seed=seed)[0][0], {}

    def step(self, action: Any) -> Any:
        observed, rewards, terminated, truncated, _ = self.vector.step(action[None])
        return observed[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}


@pytest.mark.filterwarnings("ignore")  # it advises bounds of what is observed
def test_gymnasiums_checker_is_content() -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(OneWorld(), skip_render_check=True)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_episodes_are_those_of_gymnasiums_own_vector_environments(mode: str) -> None:
    """Of worlds that begin alike, one after the other: the same observations, rewards, ends and what infos
    say of them.
    """

    def alike(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        return np.tile([0.0, 0.1], (count, 1)), np.zeros((count, 2))

    class Alike(OneWorld):
        def __init__(self) -> None:
            super().__init__()
            self.vector = environment(1, reset=alike, duration=0.5, dtype="float32")

    wanted = gymnasium.vector.SyncVectorEnv(
        [Alike] * 3, autoreset_mode=gymnasium.vector.AutoresetMode[mode.upper()]
    )
    env = environment(3, reset=alike, duration=0.5, dtype="float32", autoreset=mode)
    assert np.array_equal(env.reset(seed=0)[0], wanted.reset(seed=0)[0])
    rng = np.random.default_rng(1)
    ends = 0
    for _ in range(60):
        actions = rng.uniform(-1, 1, (3, 1)).astype(np.float32)
        *ours, infos = env.step(actions)
        *theirs, told = wanted.step(actions)
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
        ends += int((ours[2] | ours[3]).sum())
        assert set(told) == set(infos)
        if "final_obs" in told:
            who = told["_final_obs"]
            assert np.array_equal(who, infos["_final_obs"]) and np.array_equal(who, infos["_final_info"])
            assert np.array_equal(np.stack(told["final_obs"][who]), infos["final_obs"][who])
    assert ends > 5


def test_gymnasiums_wrappers_work() -> None:
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(environment(4, autoreset="same_step"))
    found = [infos for *_, infos in played(env, 60)]
    lengths = [infos["episode"]["l"][infos["_episode"]] for infos in found if "episode" in infos]
    assert lengths and min(map(min, lengths)) > 1


# errors


@pytest.mark.parametrize(
    "change, words",
    [
        ({"autoreset": "never"}, "autoreset: expected one of"),
        ({"worlds": 0}, "worlds: expected an integer"),
        ({"arrays": "dask"}, "arrays: expected one of"),
        ({"arrays": "cupy"}, 'needs device="cuda"'),
        ({"reset": lambda rng, n: (np.zeros((n, 3)), np.zeros((n, 2)))}, "reset: q: expected shape"),
        ({"reset": lambda rng, n: None}, "reset: expected q and v, got NoneType"),
        ({"reset": lambda rng, n: (np.full((n, 2), np.nan), np.zeros((n, 2)))}, "reset: q: expected finite"),
        ({"observation": lambda w: w.q[:, 0]}, "observation: expected shape"),
        ({"observation": lambda w: None}, "observation: expected shape"),
        ({"randomise": lambda rng, n: None}, "randomise: expected arrays by name"),
        ({"randomise": lambda rng, n: {"mass": np.ones(7)}}, "randomise: mass: expected shape"),
        ({"dt": -1e-3}, "dt: expected a positive number of seconds, got -0.001"),
        ({"duration": 0.0}, "duration: expected a positive number of seconds"),
        ({"decimation": 2.5}, "decimation: expected an integer of at least 1"),
        ({"device": "gpu"}, "device: expected 'cpu' or 'cuda', got 'gpu'"),
        ({"dtype": "int8"}, "dtype: expected 'float32' or 'float64'"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], words: str) -> None:
    with pytest.raises(lw.LinkworkError, match=words):
        environment(**change)


def test_what_is_wrong_in_a_step_is_said() -> None:
    env = environment(2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros((2, 1)))
    env.reset()
    with pytest.raises(lw.ShapeError, match="actions: expected shape"):
        env.step(np.zeros((2, 2)))
    for mask in (np.array([True]), np.array([0, 1])):
        with pytest.raises(
            lw.ShapeError, match=r"reset_mask'\]: expected a boolean array of shape \(2,\), got"
        ):
            env.reset(options={"reset_mask": mask})
    env = environment(2, termination=lambda w: (w.t > 9.0).astype(int))
    env.reset()
    with pytest.raises(lw.DtypeError, match="termination: expected an array of bool, got int64"):
        env.step(np.zeros((2, 1)))
    builder = lw.ModelBuilder("free").add_body("a", mass=1.0, inertia=(1.0, 1.0, 1.0))
    with pytest.raises(lw.ModelError, match="no independent joint of free has a maximum effort"):
        lw.interop.gymnasium.torques(builder.add_joint("j", Free(), parent="world", child="a").build())
