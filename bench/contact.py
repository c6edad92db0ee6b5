"""Compare steps with contact on one core with MuJoCo's C library, on the same scenes in one run.

    python bench/contact.py [quadruped humanoid]

Scenes: solo12 on four balls, and G1 with eight small balls under each foot, on a plane with friction 0.8,
under PD control of all joints, 2 ms steps, semi-implicit Euler. Robots start with a small velocity and step for
0.4 s; the following steps are measured, 0.4 s of many worlds and 8 s of one. MuJoCo steps by `mujoco.rollout`,
linkwork by `lw.rollout(contacts=)`.

The models differ: linkwork has rigid contact with Coulomb's exact cone, solved to TOLERANCE [m/s]; MuJoCo has
compliant contact (default solref and solimp), an elliptic cone and Newton's method with its default tolerance
of 1e-8 on a cost. So the two reach different states. Times are CPU times of one thread, the best of several
turns.

Residuals are the largest in all measured worlds and steps. That of MuJoCo is the violation of its own
optimality conditions (see `Race.their_residual`), median and largest of some hundred steps.
"""

from __future__ import annotations

import os

os.environ["LINKWORK_THREADS"] = "1"

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import linkwork as lw
import robots
from linkwork.simulation.control import pd_control
from linkwork.simulation.one_kernel import kernel_for
from linkwork.spatial import Pose
from peers import models

try:
    import mujoco
    import mujoco.rollout
except ImportError:  # gpu.py has the scenes of this file
    mujoco = None

WORLDS = 256
STEPS = 200
DT = 2e-3
TURNS = 5
FRICTION = 0.8
TOLERANCE = 1e-9
ALONE = 4000  # steps of one world


class Scene(NamedTuple):
    """A robot, its feet (link and place of the middle of a ball), the radius of balls, and gains."""

    robot: str
    feet: tuple[tuple[int, tuple[float, float, float]], ...]
    radius: float
    gains: tuple[tuple[float, float], ...]  # kp [N m/rad] and kd [N m s/rad] of all joints but the free one
    bent: dict[int, float]  # joints that are not zero

    @property
    def model(self) -> lw.Model:
        return robots.model(self.robot)

    @property
    def contacts(self) -> lw.Contacts:
        """What may touch: the balls."""
        balls = tuple(
            lw.Geometry(
                f"ball{k}",
                shape="sphere",
                size=(self.radius,),
                link=f"body{body}",
                place=Pose(np.eye(3), np.array(at)),
            )
            for k, (body, at) in enumerate(self.feet)
        )
        return lw.Contacts(
            shapes=balls,
            pairs="none",
            friction=FRICTION,
            limits=False,
            joint_friction=False,
            tolerance=TOLERANCE,
        )

    def stance(self) -> np.ndarray:
        """Return q with the lowest ball on the ground."""
        q = np.array(self.model.neutral(), dtype=float)
        for joint, angle in self.bent.items():
            q[7 + joint - 1] = angle
        gap = np.asarray(lw.contact_points(self.model, q, contacts=self.contacts)[0])
        q[2] -= gap.min()
        return q

    def mjcf(self) -> str:
        """Return the scene as MJCF."""
        text = models.mjcf(self.robot)
        text = (
            text.replace('constraint="disable"', "")
            .replace('contact="disable"', "")
            .replace('actuation="disable"', "")
        )
        text = text.replace('warmstart="disable"', "")
        for body in sorted({body for body, _ in self.feet}):
            balls = "".join(
                f'<geom type="sphere" size="{self.radius}" pos="{models.numbers(at)}" contype="1" conaffinity="0" mass="0"'
                f' friction="{FRICTION}"/>'
                for link, at in self.feet
                if link == body
            )
            start = text.index(f'<body name="body{body}"')
            place = text.index("<inertial", start)
            text = text[:place] + balls + text[place:]
        floor = f'<geom type="plane" size="0 0 1" contype="0" conaffinity="1" friction="{FRICTION}"/>'
        text = text.replace("<worldbody>", f"<worldbody>{floor}").replace(
            "<option ", f'<option timestep="{DT}" cone="elliptic" '
        )
        for k in range(1, len(robots.bodies(self.robot))):
            start = text.index(f'<body name="body{k}"')
            place = text.index("<joint ", start) + len("<joint ")
            text = text[:place] + f'name="joint{k}" ' + text[place:]
        drives = "".join(
            f'<position joint="joint{k}" kp="{kp}" kv="{kd}"/>' for k, (kp, kd) in enumerate(self.gains, 1)
        )
        return text.replace("</mujoco>", f"<actuator>{drives}</actuator></mujoco>")


def quadruped() -> Scene:
    """Return the scene of solo12 on four balls."""
    leaves = _leaves("solo12")
    bent = {k: angle for leaf in leaves for k, angle in ((leaf - 1, 0.8), (leaf, -1.6))}
    return Scene(
        "solo12", tuple((leaf, (0.0, 0.0, -0.16)) for leaf in leaves), 0.02, 12 * ((5.0, 0.1),), bent
    )


def humanoid() -> Scene:
    """Return the scene of G1 with eight balls under each foot."""
    model = robots.model("g1")
    height = np.asarray(lw.forward_kinematics(model, np.array(model.neutral(), dtype=float)))[:, 2, 3]
    feet = sorted(_leaves("g1"), key=lambda k: height[k])[:2]
    points = [(x, y, -0.03) for x in (-0.05, 0.0, 0.06, 0.12) for y in (-0.03, 0.03)]
    gains = [
        (100.0, 1.0) if k < 16 else (5.0, 0.05) for k in range(1, len(robots.bodies("g1")))
    ]  # arms from 16 on
    for foot in feet:
        body = foot
        for pair in (*[(20.0, 0.2)] * 2, *[(100.0, 1.0)] * 4):  # the ankle, then the knee and the hip
            gains[body - 1], body = pair, robots.bodies("g1")[body]["parent"]
    return Scene("g1", tuple((foot, at) for foot in feet for at in points), 0.005, tuple(gains), {})


def _leaves(robot: str) -> list[int]:
    parents = {body["parent"] for body in robots.bodies(robot)}
    return [k for k in range(len(robots.bodies(robot))) if k not in parents]


SCENES: dict[str, Callable[[], Scene]] = {"quadruped": quadruped, "humanoid": humanoid}


def states(scene: Scene, worlds: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return stances with small velocities."""
    rng = np.random.default_rng(seed)
    q = np.broadcast_to(scene.stance(), (worlds, scene.model.nq)).copy()
    return q, 0.05 * rng.standard_normal((worlds, scene.model.nv))


class Race:
    """Both programs on one scene, in states after the robots have been set down."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.model = scene.model
        self.contacts = scene.contacts
        self.peer = mujoco.MjModel.from_xml_string(scene.mjcf())
        self.data = mujoco.MjData(self.peer)
        q, v = states(scene, WORLDS)
        kp, kd = np.concatenate([np.zeros((6, 2)), scene.gains]).T
        self.held = lw.PD(kp, kd, scene.stance())
        begin = time.perf_counter()
        self.settled = self._rollout(q, v, None, STEPS)
        how: dict[str, Any] = {"target": "cpu", "dtype": "float64", "contacts": self.contacts.on(self.model)}
        kernel_for(self.model, pd_control(self.model), "semi_implicit_euler", (), **how).wait()
        self.built = time.perf_counter() - begin
        theirs = [models.to_peer(scene.robot, (a, b, b, b), "mujoco") for a, b in zip(q, v)]
        self.state = np.array([np.concatenate([[0.0], s[0], s[1]]) for s in theirs])
        self.state = self.their(WORLDS, STEPS)[0][:, -1].copy()

    def _rollout(self, q: np.ndarray, v: np.ndarray, warm: np.ndarray | None, steps: int) -> Any:
        how: dict[str, Any] = {
            "dt": DT,
            "steps": steps,
            "record_every": steps,
            "contacts": self.contacts,
            "warm_start": warm,
        }
        return lw.rollout(self.model, q, v, self.held, **how)

    def ours(self, rows: int, steps: int) -> Any:
        """Return linkwork's rollout of `rows` worlds."""
        start = self.settled
        return self._rollout(start.q[:rows, -1], start.v[:rows, -1], start.impulses[:rows], steps)

    def their(self, rows: int, steps: int) -> Any:
        """Return MuJoCo's rollout."""
        control = np.broadcast_to(self.scene.stance()[7:], (rows, steps, self.peer.nu)).copy()
        return mujoco.rollout.rollout(self.peer, self.data, self.state[:rows], control)

    def their_residual(self, rows: int = 16, steps: int = 20) -> np.ndarray:
        """Return the violation of MuJoCo's own optimality conditions, (rows * steps,) [m/s].

        The gradient of its cost, M (a - a_smooth) - Jᵀ f, is a force; by M⁻¹ and a step it is a velocity, of
        contacts by J.
        """
        found = []
        peer = self.peer
        data = mujoco.MjData(self.peer)
        for state in self.state[:rows]:
            mujoco.mj_resetData(peer, data)
            mujoco.mj_setState(peer, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
            data.ctrl[:] = self.scene.stance()[7:]
            for _ in range(steps):
                mujoco.mj_step(peer, data)
                force = np.zeros(peer.nv)
                change = np.zeros((1, peer.nv))
                moved = np.zeros(data.nefc)
                mujoco.mj_mulM(peer, data, force, data.qacc - data.qacc_smooth)
                mujoco.mj_solveM(peer, data, change, (force - data.qfrc_constraint)[None])
                mujoco.mj_mulJacVec(peer, data, moved, DT * change[0])
                found.append(np.max(np.abs(moved), initial=0.0))
        return np.array(found)

    def times(self, rows: int, steps: int) -> tuple[float, float]:
        """Return the best times of a step of linkwork and MuJoCo [s] over several turns."""
        turns = [[seconds(f, rows, steps) for f in (self.ours, self.their)] for _ in range(TURNS)]
        ours, theirs = np.min(turns, axis=0) / (rows * steps)
        return float(ours), float(theirs)


def seconds(call: Callable[[int, int], Any], rows: int, steps: int) -> float:
    """Return the name of the processor."""
    start = time.process_time()
    call(rows, steps)
    return time.process_time() - start


def measured(name: str) -> str:
    """Return a line of the table."""
    race = Race(SCENES[name]())
    last = race.ours(WORLDS, STEPS)
    cells = [name]
    for rows, steps in ((1, ALONE), (WORLDS, STEPS)):
        ours, theirs = race.times(rows, steps)
        cells += [f"{1e-3 / ours:,.1f} / {1e-3 / theirs:,.1f}", f"{theirs / ours:.2f}"]
    standing = float((last.q[:, -1, 2] > 0.6 * race.scene.stance()[2]).mean())
    theirs_missed = race.their_residual()
    cells += [f"{np.max(last.residual):.0e} / {np.median(theirs_missed):.0e} to {np.max(theirs_missed):.0e}"]
    cells += [f"{np.mean(last.iterations):.1f}", f"{race.data.ncon}"]
    return " | ".join(
        ["", *cells, f"{np.mean(last.status == 0):.0%}, {standing:.0%}", f"{race.built:.0f} s", ""]
    ).strip()


def main() -> None:
    heads = [
        "",
        "one world, thousand steps/s, ours / MuJoCo",
        "times",
        "a core in batches",
        "times",
        "residual [m/s], ours / MuJoCo's own",
        "most iterations",
    ]
    print(" | ".join(["", *heads, "MuJoCo's contacts", "converged, standing", "made in", ""]).strip())
    print("| --- " * 10 + "|")
    for name in sys.argv[1:] or SCENES:
        print(measured(name), flush=True)


if __name__ == "__main__":
    main()
