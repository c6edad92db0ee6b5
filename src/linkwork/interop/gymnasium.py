"""Reinforcement-learning environments: many worlds of one model as a `gymnasium.vector.VectorEnv`.

    env = linkwork.interop.gymnasium.VectorEnv(
        model, 1024, reward=lambda worlds: worlds.v[:, 3], termination=fell
    )
    observations, infos = env.reset(seed=0)
    observations, rewards, terminated, truncated, infos = env.step(actions)

Observations, rewards and terminations are functions of all worlds at once, in arrays of NumPy, PyTorch or
JAX. On a GPU with PyTorch or JAX, only the flags of ended worlds are copied to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from linkwork.contact import chosen_contacts
from linkwork.errors import ModelError, ShapeError
from linkwork.functions.contact import COEFFICIENTS, impulse_names
from linkwork.functions.joint_limits import check_switches, switched
from linkwork.interop.array_libraries import array_library
from linkwork.interop.environment_actions import (
    Action,
    Activations,
    Worlds,
    actuator_controls,
    joint_targets,
    torques,
)
from linkwork.interop.packages import needed
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.simulation import Status, rollout
from linkwork.simulation.numbers import real_numbers
from linkwork.simulation.penetration import warn_penetration, warn_untested

__all__ = ["Action", "VectorEnv", "Worlds", "actuator_controls", "joint_targets", "torques"]

gymnasium: Any = needed("gymnasium", extra="gymnasium")
Autoreset: Any = gymnasium.vector.AutoresetMode

CONTINUING = (int(Status.OK), int(Status.CONTACT_NOT_CONVERGED))
AUTORESETS = {
    "next_step": Autoreset.NEXT_STEP,
    "same_step": Autoreset.SAME_STEP,
    "disabled": Autoreset.DISABLED,
}


def _check(dt: Any, decimation: Any, duration: Any, device: Any, dtype: Any) -> None:
    """Raise if steps, the device or the dtype are invalid."""
    for name, x in (("dt", dt), ("duration", duration)):
        is_positive = (
            isinstance(x, (int, float, np.number)) and not isinstance(x, bool) and bool(0.0 < x < np.inf)
        )
        if not is_positive and not (name == "duration" and x is None):
            raise ModelError(f"VectorEnv: {name}: expected a positive number of seconds, got {x!r}")
    if not isinstance(decimation, (int, np.integer)) or isinstance(decimation, bool) or decimation < 1:
        raise ModelError(
            f"VectorEnv: decimation: expected an integer of at least 1 [steps], got {decimation!r}"
        )
    if device not in (None, "cpu", "cuda"):
        raise ModelError(f"VectorEnv: device: expected 'cpu' or 'cuda', got {device!r}")
    if dtype not in ("float32", "float64"):
        raise ModelError(f"VectorEnv: dtype: expected 'float32' or 'float64', got {dtype!r}")


def _check_worlds(worlds: Any, autoreset: Any) -> None:
    if autoreset not in AUTORESETS:
        raise ModelError(f"VectorEnv: autoreset: expected one of {', '.join(AUTORESETS)}, got {autoreset!r}")
    if not isinstance(worlds, (int, np.integer)) or worlds < 1:
        raise ModelError(f"VectorEnv: worlds: expected an integer of at least 1, got {worlds!r}")


class VectorEnv(gymnasium.vector.VectorEnv):  # type: ignore[misc]
    """Vector environment of many worlds of one model.

    An episode ends by `termination`, is truncated after `duration`, and ends in the last finite state if the
    state becomes non-finite (`infos["failed"]`).

    Parameters
    ----------
    model : Model
        Model of every world.
    worlds : int
        Number of worlds.
    dt : float, optional
        Step of the integrator [s].
    decimation : int, optional
        Steps of the integrator per step of the environment, all with one action.
    action : Action, optional
        Actions. Default `torques(model)`.
    observation : callable, optional
        Function of `Worlds` that returns observations, (worlds, n). Default q and v.
    reward : callable, optional
        Function of `Worlds` that returns rewards, (worlds,). Default zero.
    termination : callable, optional
        Function of `Worlds` that returns flags of ended episodes, bool (worlds,).
    reset : callable, optional
        `reset(rng, count)` returns the initial q, (count, nq), and v, (count, nv). Default neutral and at
        rest. `rng` is a NumPy generator that `reset(seed=)` seeds: equal seeds give equal bits.
    randomise : callable, optional
        `randomise(rng, count)` returns parameters of the model for these worlds, (count, ...) by name, as in
        `lw.rollout(parameters=)`.
    duration : float, optional
        Time after which episodes are truncated [s].
    contacts, limits, friction, integrator
        As in `lw.rollout`.
    arrays : {"numpy", "torch", "jax", "cupy"}, optional
        Library of all arrays; "cupy" on a GPU only.
    device : {"cpu", "cuda"}, optional
        "cuda" steps on a GPU in `dtype`. Steps on the CPU are in float64.
    dtype : {"float32", "float64"}, optional
        Dtype of observations, rewards and actions.
    autoreset : {"next_step", "same_step", "disabled"}, optional
        Time of the reset of ended worlds. With "same_step", `infos["final_obs"]` and `infos["final_info"]`
        have the last observations and infos. `reset(options={"reset_mask": mask})` resets selected worlds.
    """

    def __init__(
        self,
        model: Model,
        worlds: int,
        *,
        dt: float = 2e-3,
        decimation: int = 10,
        action: Action | None = None,
        observation: Callable[[Worlds], Any] | None = None,
        reward: Callable[[Worlds], Any] | None = None,
        termination: Callable[[Worlds], Any] | None = None,
        reset: Callable[[np.random.Generator, int], tuple[Any, Any]] | None = None,
        randomise: Callable[[np.random.Generator, int], Mapping[str, Any]] | None = None,
        duration: float | None = None,
        contacts: Any = None,
        limits: bool = True,
        friction: bool = True,
        integrator: str = "semi_implicit_euler",
        arrays: str = "numpy",
        device: str | None = None,
        dtype: str = "float32",
        autoreset: str = "next_step",
    ) -> None:
        _check_worlds(worlds, autoreset)
        _check(dt, decimation, duration, device, dtype)
        self.model = model
        self.num_envs = int(worlds)
        self.dtype = dtype
        self.metadata = {"autoreset_mode": AUTORESETS[autoreset], "render_modes": []}
        self._library = array_library(arrays, device="cuda" if device == "cuda" else "cpu", dtype=dtype)
        steps = {"dt": dt, "steps": decimation, "record_every": decimation, "integrator": integrator}
        self._rollout_options: dict[str, Any] = steps
        check_switches("VectorEnv", limits, friction)
        self._rollout_options |= {"limits": limits, "friction": friction}
        self._rollout_options |= {} if contacts is None else {"contacts": contacts}
        self._rollout_options |= {"device": "cuda"} if device == "cuda" else {}
        self._action = action or torques(model)
        self._observe = observation
        self._reward = reward
        self._termination = termination
        self._initial_states = reset
        self._randomise = randomise
        self._step_time = dt * decimation
        self._duration = duration
        self._q: Any = None
        self._v: Any = None
        self._impulses: Any = None  # contact impulses for the warm start of the next step
        self._impulse_count = (
            0
            if contacts is None
            else len(impulse_names(model, contacts=switched(contacts, limits, friction)))
        )
        self._parameters: dict[str, Any] = {}
        self._activations = Activations(model, self.num_envs)
        self._worlds: Worlds | None = None
        self._ended = np.zeros(self.num_envs, dtype=bool)
        self._autoreset = AUTORESETS[autoreset]
        self._set_spaces()

    def _set_spaces(self) -> None:
        """Set the spaces from observations of a first state, without drawing from the
        environment's generator.
        """
        rng = np.random.default_rng(0)
        self._worlds = self._reset_worlds(self._empty_worlds(), np.arange(self.num_envs), rng)
        if self._activations.start(self._action.drive(self._worlds.action, self._worlds)) is not None:
            self._worlds = replace(self._worlds, activations=self._activations.of_user(self._library))
        if "contacts" in self._rollout_options:
            q = np.asarray(self._library.host(self._q), dtype=float)
            numbers = {
                name: self._library.host(x)
                for name, x in self._parameters.items()
                if name not in COEFFICIENTS
            }
            warn_untested("VectorEnv", self.model, self._rollout_options["contacts"])
            warn_penetration(
                "VectorEnv",
                self.model,
                chosen_contacts(self.model, self._rollout_options["contacts"])["contacts"],
                q,
                numbers,
            )
        shape = tuple(self._observations().shape)
        batched = gymnasium.vector.utils.batch_space
        box = gymnasium.spaces.Box
        self.single_observation_space = box(-np.inf, np.inf, shape[1:], np.dtype(self.dtype).type)
        self.single_action_space = box(-1.0, 1.0, (self._action.size,), np.dtype(self.dtype).type)
        self.observation_space = batched(self.single_observation_space, self.num_envs)
        self.action_space = batched(self.single_action_space, self.num_envs)
        self._worlds = None

    # episodes

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all worlds, or those in `options["reset_mask"]`, bool (worlds,).

        Returns
        -------
        tuple
            Observations and infos.
        """
        super().reset(seed=seed)
        mask = (options or {}).get("reset_mask")
        if mask is None or self._worlds is None:
            selected = np.arange(self.num_envs)
            before = self._empty_worlds()
        else:
            selected = np.flatnonzero(self._mask(mask))
            before = self._worlds
        self._worlds = self._reset_worlds(before, selected, self.np_random)
        self._ended[selected] = False
        return self._observations(), {}

    def _mask(self, mask: Any) -> np.ndarray:
        result = np.asarray(self._library.host(mask))
        if result.shape != (self.num_envs,) or result.dtype != bool:
            expected = f"expected a boolean array of shape ({self.num_envs},)"
            got = f"{result.dtype} of shape {result.shape}"
            raise ShapeError(f"VectorEnv: options['reset_mask']: {expected}, got {got}")
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all worlds; return observations, rewards, terminated, truncated and infos."""
        if self._worlds is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        resetting = (
            self._ended.copy()
            if self._autoreset is Autoreset.NEXT_STEP
            else np.zeros(self.num_envs, dtype=bool)
        )
        worlds, failed = self._advance(self._worlds, actions)
        if resetting.any():
            worlds = self._reset_worlds(worlds, np.flatnonzero(resetting), self.np_random)
        self._worlds = worlds
        library = self._library
        is_reset = library.flags(resetting)
        terminated = library.flags(failed & ~resetting)
        if self._termination is not None:
            terminated = terminated | (
                library.checked_flags(self._termination(worlds), (self.num_envs,), "termination") & ~is_reset
            )
        truncated = library.flags(np.zeros(self.num_envs, dtype=bool))
        if self._duration is not None:
            truncated = (worlds.t > self._duration - 0.5 * self._step_time) & ~is_reset
        rewards = library.zeros((self.num_envs,))
        if self._reward is not None:
            rewards = library.where(
                is_reset, rewards, library.checked(self._reward(worlds), (self.num_envs,), "reward")
            )
        infos: dict[str, Any] = {"failed": failed & ~resetting} if failed.any() else {}
        self._ended = library.host(terminated | truncated)
        observed = self._observations()
        if self._autoreset is Autoreset.SAME_STEP and self._ended.any():
            ended = self._ended.copy()
            infos = {"final_obs": observed, "_final_obs": ended, "final_info": infos, "_final_info": ended}
            self._worlds = self._reset_worlds(worlds, np.flatnonzero(self._ended), self.np_random)
            observed = self._observations()
        return observed, rewards, terminated, truncated, infos

    def _advance(self, worlds: Worlds, actions: Any) -> tuple[Worlds, np.ndarray]:
        """Return all worlds after a step, and flags of those that failed, which keep their state."""
        library = self._library
        action = library.checked(library.from_user(actions), (self.num_envs, self._action.size), "actions")
        action = library.clipped(action)
        drive = self._action.drive(action, worlds)
        native = self._activations.of_drive(drive, library)
        options: dict[str, Any] = {"parameters": self._parameters} if self._parameters else {}
        options |= {"warm_start": self._impulses} if self._impulse_count else {}
        result = rollout(self.model, self._q, self._v, native, **self._rollout_options, **options)
        failed = ~np.isin(library.host(result.status), CONTINUING)
        self._activations.advance(drive, library, self._step_time, failed)
        q = result.q[:, -1]
        v = result.v[:, -1]
        if failed.any():
            q, v = (library.select_rows(failed, old, new) for old, new in ((self._q, q), (self._v, v)))
        self._q = q
        self._v = v
        if self._impulse_count:
            stopped = np.flatnonzero(failed)
            self._impulses = library.with_rows(
                result.impulses, stopped, np.zeros((len(stopped), self._impulse_count))
            )
        # whole steps: a sum would drift in float32
        t = ((worlds.t / self._step_time + 0.5) // 1.0 + 1.0) * self._step_time
        return self._worlds_of(t, action, worlds.q, worlds.v), failed

    def _reset_worlds(self, worlds: Worlds, selected: np.ndarray, rng: np.random.Generator) -> Worlds:
        """Return the worlds with the selected ones reset."""
        count = len(selected)
        library = self._library
        if not count:
            return worlds
        if self._initial_states is None:
            q = np.tile(self.model.neutral(), (count, 1))
            v = np.zeros((count, self.model.nv))
        else:
            states = self._initial_states(rng, count)
            if not isinstance(states, (tuple, list)) or len(states) != 2:
                raise ModelError(f"VectorEnv: reset: expected q and v, got {type(states).__name__}")
            q, v = (real_numbers("VectorEnv", f"reset: {name}", x) for name, x in zip("qv", states))
        for name, x, size in (("q", q, self.model.nq), ("v", v, self.model.nv)):
            if x.shape != (count, size):
                raise ShapeError(f"VectorEnv: reset: {name}: expected shape ({count}, {size}), got {x.shape}")
            if not np.isfinite(x).all():
                raise ModelError(
                    f"VectorEnv: reset: {name}: expected finite numbers, got {x[~np.isfinite(x)][0]}"
                )
        self._q = library.with_rows(self._q, selected, q)
        self._v = library.with_rows(self._v, selected, v)
        self._activations.reset(selected)
        if self._impulse_count:
            self._impulses = library.with_rows(
                self._impulses, selected, np.zeros((count, self._impulse_count))
            )
        self._set_parameters(selected, rng)
        t = library.with_rows(worlds.t, selected, np.zeros(count))
        action = library.with_rows(worlds.action, selected, np.zeros((count, self._action.size)))
        before = [
            library.with_rows(old, selected, new) for old, new in ((worlds.q_before, q), (worlds.v_before, v))
        ]
        return self._worlds_of(t, action, *before)

    def _set_parameters(self, selected: np.ndarray, rng: np.random.Generator) -> None:
        if self._randomise is None:
            return
        drawn = self._randomise(rng, len(selected))
        if not isinstance(drawn, Mapping):
            raise ModelError(f"VectorEnv: randomise: expected arrays by name, got {type(drawn).__name__}")
        drawn = {
            name: real_numbers("VectorEnv", f"randomise: {printable(name)}", x) for name, x in drawn.items()
        }
        if self._parameters and set(drawn) != set(self._parameters):
            raise ModelError(
                f"VectorEnv: randomise: expected the parameters {', '.join(self._parameters)}, got "
                f"{', '.join(drawn)}"
            )
        for name, x in drawn.items():
            if x.shape[:1] != (len(selected),):
                raise ShapeError(
                    f"VectorEnv: randomise: {printable(name)}: expected shape ({len(selected)}, ...), got "
                    f"{x.shape}"
                )
            old = self._parameters.get(name)
            old = self._library.native(np.zeros((self.num_envs, *x.shape[1:]))) if old is None else old
            self._parameters[name] = self._library.with_rows(old, selected, x)

    def _empty_worlds(self) -> Worlds:
        """Return worlds before the first reset."""
        library = self._library
        n = self.num_envs
        self._q, self._v = (library.native(np.zeros((n, size))) for size in (self.model.nq, self.model.nv))
        self._impulses = library.native(np.zeros((n, self._impulse_count)))
        self._parameters = {}
        action = library.zeros((n, self._action.size))
        return self._worlds_of(
            library.zeros((n,)), action, library.to_user(self._q), library.to_user(self._v)
        )

    def _worlds_of(self, t: Any, action: Any, q_before: Any, v_before: Any) -> Worlds:
        to_user = self._library.to_user
        parameters = {name: to_user(x) for name, x in self._parameters.items()}
        now = (to_user(self._q), to_user(self._v), q_before, v_before, t, action, parameters)
        return Worlds(*now, self._activations.of_user(self._library))

    def _observations(self) -> Any:
        worlds = self._worlds
        library = self._library
        assert worlds is not None
        if self._observe is None:
            return library.joined([worlds.q, worlds.v])
        observed = self._observe(worlds)
        shape = tuple(np.shape(observed))
        if len(shape) != 2 or shape[0] != self.num_envs:
            raise ShapeError(f"VectorEnv: observation: expected shape ({self.num_envs}, n), got {shape}")
        return library.joined([observed])
