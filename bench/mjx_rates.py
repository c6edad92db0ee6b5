"""Measure MJX on this machine's GPU in float32: forward dynamics, and steps of the scenes of contact.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import mujoco
import numpy as np
from mujoco import mjx

import contact
from peers import models

ROWS = 65536
WORLDS = {"quadruped": 8192, "humanoid": 4096}
STEPS = 20


def forward_dynamics(robot: str) -> float:
    """Return states per second without contacts, constraints and actuation."""
    peer = mjx.put_model(models.mujoco_model(robot))
    base = mjx.make_data(peer)

    def accelerations(q: Any, v: Any, tau: Any) -> Any:
        return mjx.forward(peer, base.replace(qpos=q, qvel=v, qfrc_applied=tau)).qacc

    states = [models.to_peer(robot, state, "mujoco") for state in models.states(robot, 256)]
    return ROWS / _seconds(
        jax.jit(jax.vmap(accelerations)), [_rows([s[k] for s in states], ROWS) for k in (0, 1, 3)]
    )


def steps_with_contact(name: str) -> float:
    """Return steps per second of a scene with robots under PD control."""
    scene = contact.SCENES[name]()
    peer = mjx.put_model(mujoco.MjModel.from_xml_string(scene.mjcf()))
    base, held = mjx.make_data(peer), jax.numpy.asarray(scene.stance()[7:].astype("float32"))

    def stepped(q: Any, v: Any) -> Any:
        data = base.replace(qpos=q, qvel=v, ctrl=held)
        return jax.lax.fori_loop(0, STEPS, lambda _, d: mjx.step(peer, d), data).qpos

    q, v = contact.states(scene, 64)
    states = [models.to_peer(scene.robot, (a, b, b, b), "mujoco") for a, b in zip(q, v)]
    arrays = [_rows([s[k] for s in states], WORLDS[name]) for k in (0, 1)]
    return WORLDS[name] * STEPS / _seconds(jax.jit(jax.vmap(stepped)), arrays, 2)


def _rows(values: list[np.ndarray], count: int) -> Any:
    return jax.numpy.asarray(np.resize(np.array(values), (count, len(values[0]))).astype("float32"))


def _seconds(call: Callable[..., Any], arrays: list[Any], turns: int = 5) -> float:
    call(*arrays).block_until_ready()
    found = []
    for _ in range(turns):
        start = time.perf_counter()
        call(*arrays).block_until_ready()
        found.append(time.perf_counter() - start)
    return float(np.median(found))
