"""Environments for reinforcement learning: many worlds of one model as a `gymnasium.vector.VectorEnv`,
stepped by rollouts.

    env = linkwork.interop.gymnasium.VectorEnv(model, 1024, reward=lambda worlds: worlds.v[:, 3],
    termination=fell) observations, infos = env.reset(seed=0) observations, rewards, terminated, truncated,
    infos = env.step(actions)

What is observed, rewarded and ended are functions of all worlds at once, in arrays of NumPy, PyTorch or JAX;
on a GPU with PyTorch or JAX, nothing but which worlds have ended comes back to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.contact import chosen_contacts
from linkwork.errors import ModelError, ShapeError
from linkwork.functions.actuation import select_actuators
from linkwork.functions.contact import COEFFICIENTS, impulse_names
from linkwork.functions.joint_limits import check_switches, switched
from linkwork.interop.array_libraries import array_library
from linkwork.interop.packages import needed
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.simulation import PD, Controls, Status, rollout
from linkwork.simulation.penetration import warn_penetration, warn_untested

gymnasium: Any = needed("gymnasium", extra="gymnasium")
Autoreset: Any = gymnasium.vector.AutoresetMode

CONTINUING = (int(Status.OK), int(Status.CONTACT_NOT_CONVERGED))
AUTORESETS = {
    "next_step": Autoreset.NEXT_STEP,
    "same_step": Autoreset.SAME_STEP,
    "disabled": Autoreset.DISABLED,
}


@dataclass(frozen=True)
class Worlds:
    """What functions of an environment get: arrays of all worlds, in the library of the environment.

    q, (worlds, nq), and v, (worlds, nv), after the step, `q_before` and `v_before` before it; t [s],
    (worlds,), since the reset; the `action`, (worlds, n); and `parameters` that differ from world to world,
    by name.
    """

    q: Any
    v: Any
    q_before: Any
    v_before: Any
    t: Any
    action: Any
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Action:
    """`size` numbers from -1 to 1, and what they do: drive(action, worlds) gives joint forces, (worlds, nv),
    a `lw.PD` or `lw.Controls`.
    """

    size: int
    drive: Callable[[Any, Worlds], Any]


def torques(model: Model, largest: Any = None) -> Action:
    """Actions are joint forces, 1 being the `largest`, (nv,), or the model's `max_effort`; joints without are
    not driven.
    """
    most = (
        _efforts(model) if largest is None else np.broadcast_to(np.asarray(largest, dtype=float), (model.nv,))
    )
    driven = np.flatnonzero(np.isfinite(most) & (most > 0.0))
    if not len(driven):
        raise ModelError(
            f"torques: no independent joint of {printable(model.name)} has a largest effort: give largest=, (nv,)"
        )
    spread = np.zeros((len(driven), model.nv))
    spread[np.arange(len(driven)), driven] = most[driven]
    return Action(len(driven), lambda action, worlds: action @ array_library(action).constant(spread, action))


def joint_targets(model: Model, kp: Any, kd: Any, *, around: Any, reach: Any = 0.5) -> Action:
    """Actions move the targets of PD control, 1 being `reach` [rad or m] away from the configuration
    `around`, (nq,).

    Independent joints with one velocity are driven, unless kp, a number or (nv,), is zero there; a free base
    is not.
    """
    gains, dampers = (np.broadcast_to(np.asarray(x, dtype=float), (model.nv,)).copy() for x in (kp, kd))
    simple = {j.v_names[0]: j.q_start for j in model.joints if j.nv == 1 and j.nq == 1}
    driven = [k for k, name in enumerate(model.v_names) if name in simple and gains[k] > 0.0]
    if not driven:
        raise ModelError(
            f"joint_targets: no independent joint of {printable(model.name)} has one velocity and a kp above zero"
        )
    mask = np.isin(np.arange(model.nv), driven)
    gains = gains * mask
    dampers = dampers * mask
    reaches = np.broadcast_to(np.asarray(reach, dtype=float), (model.nv,))
    spread = np.zeros((len(driven), model.nq))
    for row, k in enumerate(driven):
        spread[row, simple[model.v_names[k]]] = reaches[k]
    middle = np.asarray(around, dtype=float)
    if middle.shape != (model.nq,):
        raise ShapeError(f"joint_targets: around has shape {middle.shape}, not ({model.nq},)")

    def drive(action: Any, worlds: Worlds) -> PD:
        library = array_library(action)
        q = library.constant(middle, action) + action @ library.constant(spread, action)
        return PD(library.constant(gains, action), library.constant(dampers, action), q)

    return Action(len(driven), drive)


def actuator_controls(model: Model, actuators: Any = None) -> Action:
    """Actions are controls of the model's actuators, -1 and 1 being the ends of their control ranges; all by
    default.

    A range with an infinite end is taken as -1 to 1. Actuators with dynamics are refused: rollouts do not
    integrate them.
    """
    selected = select_actuators(model, actuators)
    Controls(np.zeros(len(selected)), selected).arrays(model)  # an error where some have dynamics
    ends = np.array(
        [each.control_range if np.isfinite(each.control_range).all() else (-1.0, 1.0) for each in selected]
    )
    middle, reach = ends.mean(axis=1), np.diag(0.5 * (ends[:, 1] - ends[:, 0]))

    def drive(action: Any, worlds: Worlds) -> Controls:
        library = array_library(action)
        return Controls(library.constant(middle, action) + action @ library.constant(reach, action), selected)

    return Action(len(selected), drive)


def _efforts(model: Model) -> np.ndarray:
    """The largest forces at independent joints, (nv,); zero where none is known."""
    every = {name: effort for j in model.joints for name, effort in zip(j.v_names, j.max_effort)}
    result = np.array([every.get(name, 0.0) for name in model.v_names])
    return np.where(np.isfinite(result), result, 0.0)


def _check(dt: Any, decimation: Any, duration: Any, device: Any, dtype: Any) -> None:
    """An error where steps, the device or the dtype are none."""
    for name, x in (("dt", dt), ("duration", duration)):
        numbers = (
            isinstance(x, (int, float, np.number)) and not isinstance(x, bool) and bool(0.0 < x < np.inf)
        )
        if not numbers and not (name == "duration" and x is None):
            raise ModelError(f"VectorEnv: {name}: expected a positive number of seconds, got {x!r}")
    if not isinstance(decimation, (int, np.integer)) or isinstance(decimation, bool) or decimation < 1:
        raise ModelError(
            f"VectorEnv: decimation: expected an integer of at least 1 [steps], got {decimation!r}"
        )
    if device not in (None, "cpu", "cuda"):
        raise ModelError(f"VectorEnv: device: expected 'cpu' or 'cuda', got {device!r}")
    if dtype not in ("float32", "float64"):
        raise ModelError(f"VectorEnv: dtype: expected 'float32' or 'float64', got {dtype!r}")


class VectorEnv(gymnasium.vector.VectorEnv):  # type: ignore[misc]
    """`worlds` of one model; a step of the environment is `decimation` steps of `dt` [s] with one action.

    `action` is an `Action`: `torques(model)` unless one is given. `observation`, `reward` and `termination`
    are functions of `Worlds`: (worlds, n) numbers, (worlds,) numbers, (worlds,) of bool; without them q and v
    are observed, rewards are zero, and nothing ends an episode but its `duration` [s], which truncates it,
    and a state that is not finite.

    `reset(rng, count)` gives q, (count, nq), and v, (count, nv), of worlds that begin anew; without it they
    begin at rest in the neutral configuration. `randomise(rng, count)` gives parameters of the model for
    them, by name, (count, ...) each, as `lw.rollout(parameters=)` takes them. Both draw from `rng`, a NumPy
    generator that `reset(seed=)` seeds: one seed gives one sequence of bits.

    `arrays` is "numpy", "torch", "jax" or, on a GPU, "cupy": what functions get and what is returned.
    `device="cuda"` steps on a GPU, in `dtype`; on the CPU steps are in float64, and what is observed is
    given as `dtype`. `contacts`, `limits`, `friction` and `integrator` are those of `lw.rollout`.

    `autoreset` says when worlds that ended begin anew: in the "next_step", in the "same_step" (then
    `infos["final_obs"]` has what was observed before, and `infos["final_info"]` what was told), or
    "disabled", and by `reset(options={"reset_mask": mask})`. A world that left the finite numbers ends where
    it last was, and `infos["failed"]` says so.
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
        if autoreset not in AUTORESETS:
            raise ModelError(
                f"VectorEnv: autoreset: expected one of {', '.join(AUTORESETS)}, got {autoreset!r}"
            )
        if not isinstance(worlds, (int, np.integer)) or worlds < 1:
            raise ModelError(f"VectorEnv: worlds: expected an integer of at least 1, got {worlds!r}")
        _check(dt, decimation, duration, device, dtype)
        self.model, self.num_envs, self.dtype = model, int(worlds), dtype
        self.metadata = {"autoreset_mode": AUTORESETS[autoreset], "render_modes": []}
        self._library = array_library(arrays, device="cuda" if device == "cuda" else "cpu", dtype=dtype)
        self._how: dict[str, Any] = {
            "dt": dt,
            "steps": decimation,
            "record_every": decimation,
            "integrator": integrator,
        }
        check_switches("VectorEnv", limits, friction)
        self._how |= {"limits": limits, "friction": friction}
        self._how |= {} if contacts is None else {"contacts": contacts}
        self._how |= {"device": "cuda"} if device == "cuda" else {}
        self._action = action or torques(model)
        self._observe = observation
        self._reward = reward
        self._ends = termination
        self._begin = reset
        self._draw = randomise
        self._step_time = dt * decimation
        self._duration = duration
        self._q: Any = None
        self._v: Any = None
        self._impulses: Any = None  # of contact, with which the next step begins
        self._count = (
            0
            if contacts is None
            else len(impulse_names(model, contacts=switched(contacts, limits, friction)))
        )
        self._parameters: dict[str, Any] = {}
        self._worlds: Worlds | None = None
        self._ended = np.zeros(self.num_envs, dtype=bool)
        self._autoreset = AUTORESETS[autoreset]
        self._spaces()

    def _spaces(self) -> None:
        """The spaces, from what is observed in a first state; it takes nothing from the generator."""
        rng = np.random.default_rng(0)
        self._worlds = self._begun(self._none(), np.arange(self.num_envs), rng)
        if "contacts" in self._how:
            q = np.asarray(self._library.host(self._q), dtype=float)
            numbers = {
                name: self._library.host(x)
                for name, x in self._parameters.items()
                if name not in COEFFICIENTS
            }
            warn_untested("VectorEnv", self.model, self._how["contacts"])
            warn_penetration(
                "VectorEnv",
                self.model,
                chosen_contacts(self.model, self._how["contacts"])["contacts"],
                q,
                numbers,
            )
        shape = tuple(self._observed().shape)
        if len(shape) != 2 or shape[0] != self.num_envs:
            raise ShapeError(f"VectorEnv: observation: expected shape ({self.num_envs}, n), got {shape}")
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
        """Begin anew in all worlds, or in those of `options["reset_mask"]`, (worlds,) of bool: observations
        and infos.
        """
        super().reset(seed=seed)
        mask = (options or {}).get("reset_mask")
        if mask is None or self._worlds is None:
            selected = np.arange(self.num_envs)
            before = self._none()
        else:
            selected = np.flatnonzero(self._mask(mask))
            before = self._worlds
        self._worlds = self._begun(before, selected, self.np_random)
        self._ended[selected] = False
        return self._observed(), {}

    def _mask(self, mask: Any) -> np.ndarray:
        result = np.asarray(self._library.host(mask))
        if result.shape != (self.num_envs,) or result.dtype != bool:
            message = f"{result.dtype} of shape {result.shape}"
            raise ShapeError(
                f"VectorEnv: options['reset_mask']: expected a boolean array of shape ({self.num_envs},), got {message}"
            )
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of all worlds: observations, rewards, terminated, truncated, infos."""
        if self._worlds is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        anew = (
            self._ended.copy()
            if self._autoreset is Autoreset.NEXT_STEP
            else np.zeros(self.num_envs, dtype=bool)
        )
        worlds, failed = self._stepped(self._worlds, actions)
        if anew.any():
            worlds = self._begun(worlds, np.flatnonzero(anew), self.np_random)
        self._worlds = worlds
        library = self._library
        fresh = library.flags(anew)
        terminated = library.flags(failed & ~anew)
        if self._ends is not None:
            terminated = terminated | (
                library.checked(self._ends(worlds), (self.num_envs,), "termination") & ~fresh
            )
        truncated = library.flags(np.zeros(self.num_envs, dtype=bool))
        if self._duration is not None:
            truncated = (worlds.t > self._duration - 0.5 * self._step_time) & ~fresh
        rewards = library.zeros((self.num_envs,))
        if self._reward is not None:
            rewards = library.where(
                fresh, rewards, library.checked(self._reward(worlds), (self.num_envs,), "reward")
            )
        infos: dict[str, Any] = {"failed": failed & ~anew} if failed.any() else {}
        self._ended = library.host(terminated | truncated)
        observed = self._observed()
        if self._autoreset is Autoreset.SAME_STEP and self._ended.any():
            ended = self._ended.copy()
            infos = {"final_obs": observed, "_final_obs": ended, "final_info": infos, "_final_info": ended}
            self._worlds = self._begun(worlds, np.flatnonzero(self._ended), self.np_random)
            observed = self._observed()
        return observed, rewards, terminated, truncated, infos

    def _stepped(self, worlds: Worlds, actions: Any) -> tuple[Worlds, np.ndarray]:
        """All worlds after a step; those that failed stay where they were. Which failed, (worlds,)."""
        library = self._library
        given = library.checked(library.given(actions), (self.num_envs, self._action.size), "actions")
        given = library.clipped(given)
        driven = self._action.drive(given, worlds)
        more: dict[str, Any] = {"parameters": self._parameters} if self._parameters else {}
        more |= {"warm_start": self._impulses} if self._count else {}
        result = rollout(self.model, self._q, self._v, library.to_native(driven), **self._how, **more)
        failed = ~np.isin(library.host(result.status), CONTINUING)
        q = result.q[:, -1]
        v = result.v[:, -1]
        if failed.any():
            q, v = (library.kept(failed, old, new) for old, new in ((self._q, q), (self._v, v)))
        self._q = q
        self._v = v
        if self._count:
            stopped = np.flatnonzero(failed)
            self._impulses = library.put(result.impulses, stopped, np.zeros((len(stopped), self._count)))
        t = worlds.t + self._step_time
        return self._seen(t, given, worlds.q, worlds.v), failed

    def _begun(self, worlds: Worlds, chosen: np.ndarray, rng: np.random.Generator) -> Worlds:
        """The worlds, of which the chosen ones begin anew."""
        count = len(chosen)
        library = self._library
        if not count:
            return worlds
        if self._begin is None:
            q = np.tile(self.model.neutral(), (count, 1))
            v = np.zeros((count, self.model.nv))
        else:
            q, v = (np.asarray(x, dtype=float) for x in self._begin(rng, count))
        for name, x, size in (("q", q, self.model.nq), ("v", v, self.model.nv)):
            if x.shape != (count, size):
                raise ShapeError(f"VectorEnv: reset gives {name} of shape {x.shape}, not ({count}, {size})")
        self._q, self._v = library.put(self._q, chosen, q), library.put(self._v, chosen, v)
        if self._count:
            self._impulses = library.put(self._impulses, chosen, np.zeros((count, self._count)))
        self._randomised(chosen, rng)
        t = library.put(worlds.t, chosen, np.zeros(count))
        action = library.put(worlds.action, chosen, np.zeros((count, self._action.size)))
        before = [library.put(old, chosen, new) for old, new in ((worlds.q_before, q), (worlds.v_before, v))]
        return self._seen(t, action, *before)

    def _randomised(self, chosen: np.ndarray, rng: np.random.Generator) -> None:
        if self._draw is None:
            return
        drawn = {name: np.asarray(x, dtype=float) for name, x in self._draw(rng, len(chosen)).items()}
        if self._parameters and set(drawn) != set(self._parameters):
            raise ModelError(
                f"VectorEnv: randomise gave {', '.join(self._parameters)} before, and now {', '.join(drawn)}"
            )
        for name, x in drawn.items():
            if x.shape[:1] != (len(chosen),):
                raise ShapeError(
                    f"VectorEnv: randomise gives {printable(name)} of shape {x.shape}, not ({len(chosen)}, ...)"
                )
            old = self._parameters.get(name)
            old = self._library.native(np.zeros((self.num_envs, *x.shape[1:]))) if old is None else old
            self._parameters[name] = self._library.put(old, chosen, x)

    def _none(self) -> Worlds:
        """Worlds before anything began."""
        library = self._library
        n = self.num_envs
        self._q, self._v = (library.native(np.zeros((n, size))) for size in (self.model.nq, self.model.nv))
        self._impulses = library.native(np.zeros((n, self._count)))
        self._parameters = {}
        action = library.zeros((n, self._action.size))
        return self._seen(library.zeros((n,)), action, library.shown(self._q), library.shown(self._v))

    def _seen(self, t: Any, action: Any, q_before: Any, v_before: Any) -> Worlds:
        shown_of = self._library.shown
        parameters = {name: shown_of(x) for name, x in self._parameters.items()}
        return Worlds(shown_of(self._q), shown_of(self._v), q_before, v_before, t, action, parameters)

    def _observed(self) -> Any:
        worlds = self._worlds
        library = self._library
        assert worlds is not None
        if self._observe is None:
            return library.joined([worlds.q, worlds.v])
        return library.joined([self._observe(worlds)])
