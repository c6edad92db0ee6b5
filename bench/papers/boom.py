"""Motion and spectrum of the tip of a satellite's boom that was bent and released."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from linkwork.functions.dynamics import bias_force
from linkwork.functions.kinematics import frame_pose
from linkwork.functions.mass_matrix import mass_matrix
from linkwork.functions.states import integrate
from linkwork.model import Model
from linkwork.robots import boom_satellite
from linkwork.simulation import rollout
from papers.figures import Figure
from papers.picture import Line, Panel, page

# [s], and how many steps lie between rows
STEP = 1e-3
EVERY = 10


class Motion(NamedTuple):
    """Times [s], and the deflection of the tip along y and z as seen from the satellite [m], (rows, 2)."""

    t: np.ndarray
    away: np.ndarray


@lru_cache(maxsize=2)
def motion(duration: float) -> Motion:
    """Return the motion of a boom that was bent in two modes along y and two along z and is released."""
    model = boom_satellite()
    q = model.neutral()
    v = np.zeros(model.nv)
    modes = model.joint("boom.modes")
    q[modes.q_slice] = modes.kind.random(np.random.default_rng(0)) * [1.0, 0.2, 1.0, 0.2, 0.0, 0.0]
    steps = round(duration / STEP)
    log = rollout(model, q, v, np.zeros(model.nv), dt=STEP, steps=steps, integrator="rk4", record_every=EVERY)
    bus, tip = (frame_pose(model, log.q, frame=name) for name in ("bus", "tip"))
    seen = np.einsum("nji,nj->ni", bus[:, :3, :3], tip[:, :3, 3] - bus[:, :3, 3])
    return Motion(STEP * EVERY * np.arange(len(seen)), seen[:, 1:])


def natural_frequencies(model: Model) -> np.ndarray:
    """Return the natural frequencies of a model at rest in its neutral state [Hz], ascending, (nv,)."""
    q = model.neutral()
    h = 1e-5
    v = np.zeros(model.nv)
    there, back = (bias_force(model, integrate(model, q, s * h * np.eye(model.nv)), v) for s in (1.0, -1.0))
    squares = np.linalg.eigvals(np.linalg.solve(mass_matrix(model, q), (there - back).T / (2.0 * h)))
    return np.sort(np.sqrt(np.maximum(squares.real, 0.0))) / (2.0 * np.pi)


def tip(duration: float, note: str) -> Figure:
    """Return the figure of the motion of the tip."""
    found = motion(duration)
    seconds = found.t <= min(20.0, duration)
    lines = [
        Line(f"along {'yz'[k]}", found.t[seconds], 1e3 * found.away[seconds, k], k, marked=False)
        for k in range(2)
    ]
    panel = Panel("deflection of the tip", "time [s]", "mm", lines)
    rows = [(f"along {'yz'[k]}", 1e3 * float(np.abs(found.away[:, k]).max())) for k in range(2)]
    title = "A boom of 12 m on a free satellite"
    return Figure(
        "flexible_tip", title, ("tip", "largest deflection, mm"), list(rows), page(title, [panel], note)
    )


def spectrum(duration: float, note: str) -> Figure:
    """Return the figure of the spectrum of that motion, with the natural frequencies of satellite and boom."""
    found = motion(duration)
    names = ("y", "z")
    window = np.hanning(len(found.t))
    hertz = np.fft.rfftfreq(len(found.t), STEP * EVERY)
    size = (
        np.abs(np.fft.rfft((found.away - found.away.mean(axis=0)) * window[:, None], axis=0))
        / window.sum()
        * 2e3
    )
    shown = (hertz > 0.0) & (hertz < 10.0)
    lines = [
        Line(f"along {name}", hertz[shown], np.maximum(size[shown, k], 1e-6), k, marked=False)
        for k, name in enumerate(names)
    ]
    panel = Panel("spectrum of the tip", "Hz", "mm", lines, log="y")
    every = natural_frequencies(boom_satellite())
    rows = [(k + 1, float(f)) for k, f in enumerate(every[every > 0.01])]
    title = "Spectrum of the boom's tip"
    return Figure(
        "flexible_spectrum", title, ("mode", "natural frequency, Hz"), list(rows), page(title, [panel], note)
    )
