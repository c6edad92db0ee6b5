"""Drop ten robots with random parameters and count NaN, stops, flags, energy gains and penetrations.

    python bench/drops.py [--count 1000] [--device cuda] [--dtype float32] [--bounce 0.9] [--seed 0] [--rows]
    [robot ...]

`--count` is per robot: 100000 for a million in all. Each drop has its own masses (0.7 to 1.4 times those of the
model), friction coefficients (0 to 1.5) and, in every second drop, restitution (0 to `--bounce`) for each
candidate, a height, a posture and velocities; each batch has a step of 0.5 to 2 ms. Joint limits and dry
friction act. `--bounce 0` runs kernels without restitution, which are shorter.

Per robot: the drops; those with non-finite numbers; those that stopped; those flagged as not converged; those
that gained more than `GAIN`; those deeper than `DEEP`; of these, those that are not flagged; the largest gain
of energy over the previous minimum, in J and relative to the kinetic energy plus that of a metre of height, and
over the energy at the start; the deepest penetration; the largest residual of unflagged rows; then the batch
and row of the worst, and why rows stopped. With `--rows`, each row that stopped, gained, or is deep and not
flagged is printed: batch, row, status, relative gain, depth [m], residual [m/s] and step [s].
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import linkwork as lw
from linkwork.spatial import Pose

BATCH = 1000
SECONDS = 0.6
RECORDED = 40
GAIN = 1e-4  # relative: what a penetration of DEEP gives back when it is undone
DEEP = 1e-4  # [m]
STEPS = (0.5e-3, 1e-3, 2e-3)  # [s]
G = 9.81


class Robot(NamedTuple):
    """What is dropped: the model, the names of what may touch (None: all shapes), and the size of its
    velocities.
    """

    model: Callable[[], lw.Model]
    shapes: Sequence[str] | None = None
    speed: float = 0.5


def one_body(shape: str, size: tuple[float, ...]) -> Callable[[], lw.Model]:
    """Return a free body of 1 kg with one shape."""

    def made() -> lw.Model:
        b = lw.ModelBuilder(shape)
        b.add_body("body", mass=1.0, inertia=np.diag([0.004, 0.005, 0.006]))
        b.add_joint("float", lw.joints.Free(), parent="world", child="body")
        b.add_geometry(lw.Geometry("shape", -1, Pose.identity(), shape, size, link="body"))
        return b.build()

    return made


def hopper() -> lw.Model:
    """Return a hopper: a body on a leg of two links, with joint limits and dry friction."""
    corners = tuple(tuple(x) for x in (0.1 * np.random.default_rng(2).normal(size=(14, 3))).round(3).tolist())
    b = lw.ModelBuilder("hopper")
    b.add_body("trunk", mass=3.0, inertia=(0.03, 0.03, 0.02))
    b.add_body("thigh", mass=0.5, center=(0.0, 0.0, -0.1), inertia=(0.004, 0.004, 0.0005))
    b.add_body("shank", mass=0.2, center=(0.0, 0.0, -0.1), inertia=(0.002, 0.002, 0.0002))
    b.add_joint("float", lw.joints.Free(), parent="world", child="trunk")
    how: dict[str, Any] = {"lower": -1.0, "upper": 1.5, "friction": 0.3}
    b.add_joint("hip", lw.joints.Revolute((0, 1, 0)), parent="trunk", child="thigh", **how)
    b.add_joint(
        "knee", lw.joints.Revolute((0, 1, 0)), parent="thigh", child="shank", xyz=(0.0, 0.0, -0.2), **how
    )
    b.add_geometry("stone", "hull", vertices=corners, link="trunk")
    b.add_geometry("foot", "sphere", 0.03, link="shank", xyz=(0.0, 0.0, -0.2))
    return b.build()


ROBOTS: dict[str, Robot] = {
    "capsule": Robot(one_body("capsule", (0.05, 0.2)), speed=1.0),
    "cylinder": Robot(one_body("cylinder", (0.05, 0.2)), speed=1.0),
    "box": Robot(one_body("box", (0.2, 0.2, 0.1)), speed=1.0),
    "hopper": Robot(hopper),
    "quadruped": Robot(lw.robots.quadruped),
    "mini_cheetah": Robot(lw.robots.mini_cheetah, [f"{leg}_knee_link" for leg in ("FR", "FL", "HR", "HL")]),
    "mit_humanoid": Robot(
        lw.robots.mit_humanoid, ["right_ankle_link", "left_ankle_link", "right_elbow_link", "left_elbow_link"]
    ),
    "tello": Robot(lw.robots.tello, ["left-foot", "right-foot"]),
    "humanoid": Robot(lw.robots.humanoid, ()),
    "jvrc1": Robot(lw.robots.jvrc1, ()),
}


def contacts_of(robot: Robot, model: lw.Model) -> lw.Contacts:
    """Return the shapes that touch the ground; for robots without shapes the last links, as points."""
    last = [body.name for body in model.bodies if not any(j.parent == body.index for j in model.joints)][:6]
    return lw.Contacts(shapes=last if robot.shapes == () else robot.shapes)


@dataclass
class Found:
    """What has been counted, and the worst of it."""

    drops: int = 0
    not_finite: int = 0
    stopped: int = 0
    flagged: int = 0
    gaining: int = 0
    deep: int = 0
    unmarked: int = 0
    gain: float = -np.inf
    relative: float = -np.inf
    over_start: float = -np.inf
    penetration: float = -np.inf
    residual: float = 0.0
    seconds: float = 0.0
    worst: dict[str, Any] = field(
        default_factory=dict
    )  # the drops that gained most and went deepest: batch and row
    why: Counter[str] = field(default_factory=Counter)  # rows stopped

    def line(self, name: str) -> str:
        counts = (
            self.drops,
            self.not_finite,
            self.stopped,
            self.flagged,
            self.gaining,
            self.deep,
            self.unmarked,
        )
        told = f"{self.gain:10.2e} {self.relative:9.1e} {self.over_start:9.1e} {1e3 * self.penetration:9.3f}"
        told += f" {self.residual:9.1e} {self.seconds:7.1f}"
        return (
            f"{name:14}"
            + "".join(f"{n:9d}" for n in counts)
            + f" {told}  {self.worst} {dict(self.why) or ''}"
        )


HEAD = f"{'robot':14}" + "".join(
    f"{w:>9}" for w in ("drops", "NaN", "stopped", "flagged", "gaining", "deep", "unmarked")
)
HEAD += f" {'gain J':>10} {'relative':>9} {'on start':>9} {'depth mm':>9} {'residual':>9} {'s':>7}"


class Drops(NamedTuple):
    """States and parameters of one batch, its step [s] and the number of steps."""

    q: np.ndarray
    v: np.ndarray
    numbers: dict[str, np.ndarray]
    dt: float
    steps: int


def drops(
    robot: Robot, model: lw.Model, contacts: lw.Contacts, batch: int, rows: int, seed: int, bounce: float
) -> Drops:
    """Return batch number `batch`, which does not depend on the number of batches."""
    rng = np.random.default_rng((seed, batch))
    postures = np.array([model.random_state(rng)[0] for _ in range(64)])
    q = postures[rng.integers(0, len(postures), rows)]
    q[:, :2] = 0.0
    gaps = lw.contact_points(model, q, contacts=contacts)[0]
    q[:, 2] += rng.uniform(0.0, 0.3, rows) - gaps.min(axis=-1)
    v = robot.speed * rng.standard_normal((rows, model.nv)) * rng.uniform(0.0, 2.0, (rows, 1))
    numbers = {
        "mass": model.parameters()["mass"] * rng.uniform(0.7, 1.4, (rows, len(model.bodies))),
        "contact_friction": rng.uniform(0.0, 1.5, (rows, 1)) * rng.uniform(0.7, 1.0, gaps.shape),
    }
    if bounce:
        numbers["contact_restitution"] = rng.uniform(0.0, bounce, gaps.shape) * rng.integers(0, 2, (rows, 1))
    dt = STEPS[int(rng.integers(0, len(STEPS)))]
    steps = round(SECONDS / dt)
    return Drops(q, v, numbers, dt, steps - steps % RECORDED)


def count(
    found: Found, model: lw.Model, contacts: lw.Contacts, made: Drops, batch: int, where: dict[str, Any]
) -> None:
    """Drop one batch, and count what is found."""
    q, v, numbers, dt, steps = made
    began = time.perf_counter()
    dtype = where["dtype"]
    place = {"dtype": dtype, **({"device": where["device"]} if where["device"] != "cpu" else {})}
    q = q.astype(dtype)
    v = v.astype(dtype)
    given = {name: x.astype(dtype) for name, x in numbers.items()}
    fell = lw.rollout(
        model,
        q,
        v,
        dt=dt,
        steps=steps,
        record_every=steps // RECORDED,
        contacts=contacts,
        parameters=given,
        **place,
    )
    found.seconds += time.perf_counter() - began
    status = np.asarray(fell.status)
    residual = np.asarray(fell.residual, dtype=float)
    q = np.asarray(fell.q, dtype=float)
    v = np.asarray(fell.v, dtype=float)
    finite = np.isfinite(
        np.concatenate([q.reshape(len(q), -1), v.reshape(len(q), -1), fell.impulses], axis=1)
    ).all(axis=1)
    stopped = ~np.isin(status, (lw.Status.OK, lw.Status.CONTACT_NOT_CONVERGED))
    found.drops += len(q)
    found.stopped += int(stopped.sum())
    found.not_finite += int((~finite & ~stopped).sum())
    found.flagged += int((status == lw.Status.CONTACT_NOT_CONVERGED).sum())
    if (fine := status == lw.Status.OK).any():
        found.residual = max(found.residual, float(residual[fine].max()))
    mass = {"mass": numbers["mass"][:, None]}
    kinetic = lw.kinetic_energy(model, q, v, parameters=mass)
    energy = kinetic + lw.potential_energy(model, q, parameters=mass)
    least = np.fmin.accumulate(energy, axis=1)  # of a row that stopped, what was before
    gain = np.nanmax(energy[:, 1:] - least[:, :-1], axis=1)
    relative = gain / (kinetic[:, 0] + G * numbers["mass"].sum(axis=1))
    over_start = np.nanmax(energy - energy[:, :1], axis=1) / (kinetic[:, 0] + G * numbers["mass"].sum(axis=1))
    gaps = lw.contact_points(model, q, contacts=contacts)[0]
    depth = np.nanmax(-gaps[:, 1:].min(axis=2), axis=1)
    found.gaining += int((relative > GAIN).sum())
    found.deep += int((depth > DEEP).sum())
    unmarked = (depth > DEEP) & (status == lw.Status.OK)
    found.unmarked += int(unmarked.sum())
    found.why.update(lw.Status(code).name for code in status[stopped].tolist())
    if where["rows"]:
        for i in np.flatnonzero(stopped | ~finite | (relative > GAIN) | unmarked).tolist():
            name = lw.Status(int(status[i])).name
            print(
                f"  {batch} {i} {name} {relative[i]:.1e} {depth[i]:.1e} {residual[i]:.1e} {made.dt}",
                flush=True,
            )
    for word, x in (
        ("gain", gain),
        ("relative", relative),
        ("over_start", over_start),
        ("penetration", depth),
    ):
        if float(np.nanmax(x)) > getattr(found, word):
            setattr(found, word, float(np.nanmax(x)))
            found.worst[word] = (batch, int(np.nanargmax(x)))


def sweep(name: str, rows: int, seed: int, bounce: float, size: int, where: dict[str, Any]) -> Found:
    """Drop a robot `rows` times and return the summary."""
    robot = ROBOTS[name]
    model = robot.model()
    contacts = contacts_of(robot, model)
    found = Found()
    for batch in range(-(-rows // size)):
        part = min(size, rows - batch * size)
        count(found, model, contacts, drops(robot, model, contacts, batch, part, seed, bounce), batch, where)
    return found


def main() -> None:
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("robots", nargs="*", default=list(ROBOTS), help=", ".join(ROBOTS))
    read.add_argument("--count", type=int, default=1000)
    read.add_argument("--batch", type=int, default=BATCH, help="drops in one rollout; GPUs want many")
    read.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    read.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="float32 is for GPUs"
    )
    read.add_argument("--bounce", type=float, default=0.9)
    read.add_argument("--seed", type=int, default=0)
    read.add_argument(
        "--rows",
        action="store_true",
        help="tell of each row that stopped, gained, or is deep and not flagged",
    )
    given = read.parse_args()
    print(HEAD, flush=True)
    for name in given.robots:
        where = {"device": given.device, "dtype": given.dtype, "rows": given.rows}
        print(sweep(name, given.count, given.seed, given.bounce, given.batch, where).line(name), flush=True)


if __name__ == "__main__":
    main()
