"""Mechanisms with loops, for laws that all of them keep; and their equations, written again without the
core's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import linkwork as lw
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.expand import expand
from linkwork.joints import (
    Cylindrical,
    Fixed,
    Free,
    Gimbal,
    Joint,
    Planar,
    PointOnLine,
    Prismatic,
    Revolute,
    Rod,
    Spherical,
    Universal,
)
from linkwork.mechanism import Coupling, End, ImplicitConstraint, Loop, LoopConstraint
from linkwork.model import GROUND, Model, ModelBuilder
from linkwork.spatial import Pose
from mechanisms import AXIAL, Random, coordinate_axis, general_pose, heavy, make, pose, rotation, skew_axis
from polar_joint import Polar

LOOP_KINDS: dict[str, Callable[[Random], Joint]] = {
    "revolute": lambda rng: Revolute(skew_axis(rng)),
    "revolute about y": lambda rng: Revolute((0.0, 1.0, 0.0)),
    "prismatic": lambda rng: Prismatic(skew_axis(rng)),
    "prismatic along x": lambda rng: Prismatic((1.0, 0.0, 0.0)),
    "cylindrical": lambda rng: Cylindrical(skew_axis(rng)),
    "universal": lambda rng: Universal(),
    "spherical": lambda rng: Spherical(),
    "gimbal": lambda rng: Gimbal(),
    "planar": lambda rng: Planar(skew_axis(rng)),
    "planar in x": lambda rng: Planar((1.0, 0.0, 0.0)),
    "fixed": lambda rng: Fixed(),
    "free": lambda rng: Free(),
    "rod": lambda rng: Rod(float(rng.uniform(0.3, 0.6))),
    "point on line": lambda rng: PointOnLine(skew_axis(rng)),
}


def numbers(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


def floats(fn: lw.ModelFunction, model: Model, *args: Any, **options: Any) -> Any:
    """What a public function computes, run on plain floats: its meaning, without tracing or compiling."""
    result = fn.body(model, *args, **options)
    return tuple(map(numbers, result)) if isinstance(result, tuple) else numbers(result)


# a model's equations, from poses of its spanning tree alone


@cache
def tree(model: Model) -> Model:
    """The spanning tree: the same bodies and joints without loops."""
    return replace(model, name=f"tree of {model.name}", embedded=(), kernels={})


def poses(model: Model, q: Any) -> dict[int, Pose]:
    """The poses of all bodies, and of the ground, in the world."""
    T = lw.forward_kinematics.body(tree(model), q)
    return {GROUND: Pose.identity()} | {k: Pose(T[k, :3, :3], T[k, :3, 3]) for k in range(len(model.bodies))}


def _square(u: Any) -> np.ndarray:
    """Two directions at right angles to one, (2, 3)."""
    return np.linalg.svd(np.reshape(np.asarray(u, dtype=float), (1, 3)))[2][1:]


def _loop_phi(kind: Joint, T: Pose) -> list[Any]:
    """What vanishes where a joint of some kind can have the pose T, as a tree's joint can."""
    axis = np.array(getattr(kind, "axis", (0.0, 0.0, 1.0)))
    stay = list(T.R @ axis - axis)
    if isinstance(kind, (Spherical, Gimbal)):
        return list(T.p)
    if isinstance(kind, Rod):
        return [0.5 * (T.p @ T.p - kind.length**2)]
    if isinstance(kind, PointOnLine):
        return list(_square(axis) @ T.p)
    if isinstance(kind, Fixed):
        return [*T.p, *(T.R - np.eye(3)).ravel()]
    if isinstance(kind, Revolute):
        return [*T.p, *stay]
    if isinstance(kind, Prismatic):
        return [*(_square(axis) @ T.p), *(T.R - np.eye(3)).ravel()]
    if isinstance(kind, Cylindrical):
        return [*(_square(axis) @ T.p), *stay]
    if isinstance(kind, Planar):
        return [axis @ T.p, *stay]
    if isinstance(kind, Universal):
        return [*T.p, T.R[0, 1]]
    assert isinstance(kind, Free)
    return []


def phi(
    model: Model, q: Any, only: Sequence[LoopConstraint] | None = None, at: dict[int, Pose] | None = None
) -> np.ndarray:
    """All equations of a model's loops; more rows than are needed. Where poses are known, they are given."""
    T = poses(model, q) if at is None else at
    out: list[Any] = []
    for c in model.embedded if only is None else only:
        if isinstance(c, Loop):
            P, F = (T[end.body].then(end.place) for end in (c.predecessor, c.successor))
            out += _loop_phi(c.kind, P.inverse().then(F))
        elif isinstance(c, Coupling):
            out.append(sum(x * q[model.joints[k].q_slice][i] for k, i, x in c.terms) - c.offset)
        else:
            shares = np.concatenate([q[model.joints[k].q_slice] for k in c.joints])
            out += list(np.atleast_1d(c.function(shares)))
    return np.array(out, dtype=object)


def rate(model: Model, q: Any, v: Any) -> np.ndarray:
    """q̇ of the velocities of the spanning tree."""
    return np.concatenate([j.kind.rate(q[j.q_slice], v[j.v_slice]) for j in model.joints])


def equations(
    model: Model, q: np.ndarray, v: np.ndarray, only: Sequence[LoopConstraint] | None = None
) -> tuple[Any, Any, Any]:
    """φ, K and k with K v = 0 and K v̇ = k, for velocities of the spanning tree."""
    value, J, drift = lw.interpret(_equations(model, None if only is None else tuple(only)), q, v)
    E = np.array([numbers(rate(model, q, e)) for e in np.eye(model.nv_spanning)]).T
    return value, J @ E, -drift


@cache
def _equations(model: Model, only: tuple[LoopConstraint, ...] | None) -> Program:
    """φ, its Jacobian by q, and the second derivative by time that velocities give it, as a program."""

    def own(x: Any) -> np.ndarray:
        return phi(model, x, only)

    def all_of(q: Any, v: Any) -> dict[str, Any]:
        def speed(x: Any) -> np.ndarray:
            return lw.jvp_of(own, x, rate(model, x, v))[1]

        value, J = lw.jacobian_of(own, q)
        return {"phi": value, "J": J, "drift": lw.jvp_of(speed, q, rate(model, q, v))[1]}

    return expand(lw.trace(all_of, {"q": model.nq, "v": model.nv_spanning}))


def mobility(model: Model, q: np.ndarray, bodies: Sequence[int] | None = None, only: Any = None) -> int:
    """How many velocities of some bodies' joints are free, at a closed state."""
    K = equations(model, q, np.zeros(model.nv_spanning), only)[1]
    if bodies is not None:
        K = K[:, np.concatenate([np.arange(model.nv_spanning)[model.joints[k].v_slice] for k in bodies])]
    s = np.linalg.svd(K, compute_uv=False)
    return K.shape[1] - int(np.sum(s > 1e-8 * max(1.0, s.max(initial=0.0))))


# making loops


def at(model: Model, k: int) -> int:
    """The index of the k-th body that was made."""
    return k if k == GROUND else model.body(f"body{k}").index


def closed_by(
    model: Model, kind: Joint, i: int, j: int, q: np.ndarray, rng: Random, name: str = "loop"
) -> Loop:
    """A loop joint from body i to body j that is closed where the tree is at q."""
    T = {k: Pose(numbers(x.R), numbers(x.p)) for k, x in poses(model, q).items()}
    i = at(model, i)
    j = at(model, j)
    P = pose(rng)
    if isinstance(kind, (Rod, PointOnLine)):
        along = np.array(skew_axis(rng)) if isinstance(kind, Rod) else kind.unit
        moved = Pose(
            rotation(rng), along / np.linalg.norm(along) * (kind.length if isinstance(kind, Rod) else 0.2)
        )
    else:
        moved = kind.transform(kind.random(rng) * 0.3 + kind.neutral() * 0.7)
    F = T[j].inverse().then(T[i]).then(P).then(Pose(numbers(moved.R), numbers(moved.p)))
    return Loop(name, kind, End(i, P), End(j, Pose(numbers(F.R), numbers(F.p))))


def with_constraints(model: Model, *constraints: LoopConstraint, name: str = "linkage") -> Model:
    made = replace(model, name=name, embedded=constraints, kernels={})
    assert made.clusters
    return made


def moderate(model: Model, rng: Random) -> np.ndarray:
    """A state not far from neutral."""
    return floats(lw.integrate, tree(model), model.tree_neutral(), rng.normal(size=model.nv_spanning) * 0.5)


def ring(rng: Random, kind: str, *, wish: int = 1, ground: bool = True, **options: Any) -> Model:
    """A ring of bodies closed by a loop joint, with `wish` freedoms left or more, on the ground or on a body
    before it.
    """
    closing = LOOP_KINDS[kind](rng)
    need = 6 - closing.nv + wish
    inside = [
        "revolute",
        "skew revolute",
        "prismatic",
        "skew prismatic",
        "helical",
        "cylindrical",
        "universal",
        "spherical",
    ]
    kinds: list[str] = []
    while sum({"cylindrical": 2, "universal": 2, "spherical": 3}.get(k, 1) for k in kinds) < need:
        kinds.append(inside[rng.integers(len(inside))])
    kinds.append("skew revolute")
    half = len(kinds) // 2
    first = [] if ground else ["revolute"]
    root = -1 if ground else 0
    start = len(first)
    parents = [root if k in (0, half) else start + k - 1 for k in range(len(kinds))]
    last = start + len(kinds) - 1
    i = root if half == 0 else start + half - 1
    t = make(
        rng,
        [-1] * start + parents + [last, start],
        first + kinds + ["skew revolute", "prismatic"],
        fixed=False,
        **options,
    )
    return with_constraints(t, closed_by(t, closing, i, last, moderate(t, rng), rng), name=f"ring {kind}")


def geared(rng: Random, bodies: int, couplings: int, **options: Any) -> Model:
    """A random tree whose simple joints are coupled at random: gears, differentials, offsets."""
    parents = [int(rng.integers(-1, k)) if rng.random() < 0.5 else k - 1 for k in range(bodies)]
    kinds = [(*AXIAL, "spherical", "universal")[rng.integers(len(AXIAL) + 2)] for _ in range(bodies)]
    kinds[:3] = ["revolute", "skew revolute", "prismatic"]
    t = make(rng, parents, kinds, **options)
    simple = [k for k, j in enumerate(t.joints) if j.nv == 1]
    made = []
    for c in range(couplings):
        some = rng.choice(simple, size=min(len(simple), int(rng.integers(2, 4))), replace=False)
        offset = float(rng.normal()) if rng.random() < 0.5 else 0.0
        terms = tuple((int(k), 0, float(rng.uniform(0.3, 3.0) * rng.choice([-1.0, 1.0]))) for k in some)
        made.append(Coupling(f"gear{c}", terms, offset))
    return with_constraints(t, *made, name="geared")


def link(
    builder: ModelBuilder, rng: Random, name: str, parent: str, kind: Joint, *xyz: float, **more: Any
) -> None:
    builder.add_body(name, **heavy(rng))
    builder.add_joint(f"to {name}", kind, parent=parent, child=name, xyz=xyz or (0.0, 0.0, 0.0), **more)


def four_bar(
    rng: Random | int = 0, *, kind: Joint | None = None, independent: bool | None = None, **more: Any
) -> ModelBuilder:
    """A planar four-bar: crank 0.3, coupler 0.8, rocker 0.6, ground 0.9."""
    rng = np.random.default_rng(rng)
    builder = ModelBuilder("four-bar", gravity=(0.0, -9.81, 0.0))
    said = {"independent": True} if independent else {}
    rest = {"independent": False} if independent else {}
    link(builder, rng, "crank", "world", Revolute(), **said, **more)
    link(builder, rng, "coupler", "crank", Revolute(), 0.3, 0.0, 0.0, **rest, **more)
    link(builder, rng, "rocker", "world", Revolute(), 0.9, 0.0, 0.0, **rest, **more)
    builder.add_loop(
        "pin",
        kind or Revolute(),
        predecessor="coupler",
        successor="rocker",
        xyz=(0.8, 0.0, 0.0),
        successor_xyz=(0.6, 0.0, 0.0),
    )
    return builder


def slider_crank(rng: Random) -> Model:
    builder = ModelBuilder("slider-crank")
    link(builder, rng, "crank", "world", Revolute((0.0, 1.0, 0.0)), armature=0.1, damping=0.2)
    link(builder, rng, "rod", "crank", Revolute((0.0, 1.0, 0.0)), 0.2, 0.0, 0.1, stiffness=3.0, rest=0.2)
    link(
        builder, rng, "slider", "world", Prismatic((1.0, 0.0, 0.0)), armature=0.3, damping=0.4, stiffness=5.0
    )
    builder.add_loop(
        "wrist", Revolute((0.0, 1.0, 0.0)), predecessor="rod", successor="slider", xyz=(0.7, 0.0, 0.0)
    )
    return builder.build()


def six_bar(rng: Random) -> Model:
    """Two loops that share bodies: a second rocker on the first one's coupler."""
    builder = four_bar(rng)
    builder.name = "six-bar"
    link(builder, rng, "arm", "coupler", Revolute(), 0.5, 0.2, 0.0, armature=0.1)
    link(builder, rng, "foot", "world", Revolute(), 0.4, 0.9, 0.0, damping=0.3)
    builder.add_loop(
        "second", Revolute(), predecessor="arm", successor="foot", xyz=(0.5, 0, 0), successor_xyz=(0.5, 0, 0)
    )
    return builder.build()


def loaded_four_bar(rng: Random) -> Model:
    """Trees and another four-bar on different bodies of one, and a base before it."""
    builder = ModelBuilder("loaded four-bar")
    link(builder, rng, "base", "world", Free())
    for name, on, at in (("", "base", (0.1, 0.2, 0.0)), ("_2", "rocker", (0.1, 0.1, 0.3))):
        link(builder, rng, f"crank{name}", on, Revolute(), *at)
        link(
            builder,
            rng,
            f"coupler{name}",
            f"crank{name}",
            Revolute(),
            0.3,
            0.0,
            0.0,
            armature=0.2,
            damping=0.1,
        )
        link(builder, rng, f"rocker{name}", on, Revolute(), at[0] + 0.9, at[1], at[2], armature=0.1)
        places = {"xyz": (0.8, 0.0, 0.1), "successor_xyz": (0.6, 0.0, 0.1)}
        builder.add_loop(
            f"pin{name}", Revolute(), predecessor=f"coupler{name}", successor=f"rocker{name}", **places
        )
    link(builder, rng, "hand", "coupler", Revolute((1.0, 2.0, 0.5)), 0.2, 0.1, 0.1)
    link(builder, rng, "finger", "hand", Prismatic((0.0, 1.0, 0.0)), 0.2, 0.1, 0.1)
    link(builder, rng, "ball", "rocker", Spherical(), 0.1, 0.4, 0.1)
    link(builder, rng, "flag", "coupler_2", Universal(), 0.1, 0.4, 0.1)
    builder.add_frame("tip", body="finger", xyz=(0.1, 0.2, 0.3), rpy=(0.1, 0.2, 0.3))
    builder.add_frame("on coupler", body="coupler_2", xyz=(0.1, 0.2, 0.3), rpy=(0.4, -0.2, 0.3))
    return builder.build()


def one_body(rng: Random) -> Model:
    """Loops on single bodies of several freedoms, on the ground and on one another, with children."""
    t = make(rng, [-1, 0, 1, 1, 3], ["free", "skew revolute", "free", "cylindrical", "revolute"], fixed=False)
    q = moderate(t, rng)
    first = closed_by(t, Planar(skew_axis(rng)), GROUND, 0, q, rng, "on a plane")
    second = closed_by(t, Universal(), 1, 2, q, rng, "universal")
    screw = Coupling("screw", ((at(t, 3), 0, 0.3), (at(t, 3), 1, 1.0)), 0.1)
    return with_constraints(t, first, second, screw, name="one body")


def own_joint(rng: Random) -> Model:
    """A joint of one's own, whose subspace changes along the joint, twice in a ring and before it."""
    builder = ModelBuilder("own joint")
    for k, (on, kind) in enumerate(
        [(-1, Polar()), (0, Polar()), (1, Revolute((1.0, 0.5, 0.2))), (0, Polar()), (3, Spherical())]
    ):
        parent = "world" if on < 0 else f"body{on}"
        link(builder, rng, f"body{k}", parent, kind, *rng.uniform(0.2, 0.5, 3), armature=0.1, damping=0.2)
    t = builder.build()
    return with_constraints(t, closed_by(t, Spherical(), 2, 4, moderate(t, rng), rng), name="own joint")


def nested(rng: Random) -> Model:
    """A loop within a ring: the inner one's bodies lie on the way of the outer one."""
    kinds = [
        "revolute",
        "skew revolute",
        "prismatic",
        "skew revolute",
        "skew revolute",
        "universal",
        "skew revolute",
    ]
    t = make(rng, [-1, 0, 1, 0, 3, 2, 5], kinds, fixed=False)
    q = moderate(t, rng)
    inner = closed_by(t, Spherical(), 2, 4, q, rng, "inner")
    outer = closed_by(t, Cylindrical((0.0, 0.0, 1.0)), GROUND, 6, q, rng, "outer")
    return with_constraints(t, inner, outer, name="nested")


def onto_ancestor(rng: Random) -> Model:
    t = make(rng, list(range(-1, 8)), ["free", *("skew revolute", "revolute") * 4], fixed=False)
    return with_constraints(
        t, closed_by(t, Revolute(skew_axis(rng)), 1, 8, moderate(t, rng), rng), name="onto an ancestor"
    )


def standing(rng: Random) -> Model:
    """A free base on two legs whose feet are balls on the ground."""
    t = make(
        rng,
        [-1, 0, 1, 0, 3, 0],
        ["free", "skew revolute", "prismatic", "universal", "revolute", "revolute"],
        fixed=False,
    )
    q = moderate(t, rng)
    balls = (closed_by(t, Spherical(), GROUND, k, q, rng, f"foot{k}") for k in (2, 4))
    return with_constraints(t, *balls, name="standing")


def shared(rng: Random) -> Model:
    """Three legs from the ground to one plate: loops through the ground that share bodies, with a load on the
    plate.
    """
    kinds = [
        "spherical",
        "prismatic",
        "spherical",
        "universal",
        "revolute",
        "universal",
        "prismatic",
        "skew revolute",
    ]
    t = make(rng, [-1, 0, 1, -1, 3, -1, 5, 2], kinds, fixed=False)
    q = moderate(t, rng)
    ends = (closed_by(t, Spherical(), 2, k, q, rng, f"leg{k}") for k in (4, 6))
    return with_constraints(t, *ends, name="shared")


def loop_and_gear(rng: Random) -> Model:
    """A four-bar driven over gears by a motor, and a coupling between two of its own joints' neighbours."""
    builder = four_bar(rng)
    builder.name = "loop and gear"
    link(
        builder, rng, "motor", "world", Revolute((0.0, 0.0, -1.0)), 0.0, 0.0, 0.1, armature=0.01, damping=0.01
    )
    builder.add_coupling("gear", {"to motor": 1.0, "to crank": 5.0}, offset=0.3)
    link(builder, rng, "hand", "coupler", Revolute(), 0.2, 0.1, 0.0)
    builder.add_coupling("parallel", {"to hand": 1.0, "to coupler": 1.0, "to crank": 1.0})
    return builder.build()


def through_a_function(rng: Random) -> Model:
    """Two joints that a function of three ties, one of them a ball's neighbour; with loads."""
    t = make(
        rng,
        [-1, 0, 1, 0, 3, 4],
        ["free", "revolute", "skew revolute", "prismatic", "skew helical", "spherical"],
        fixed=False,
    )

    def tie(x: Any) -> Any:
        return np.array(
            [x[0] - 0.4 * lw.sin(x[1]) * lw.cos(x[2]) - 0.1, x[1] * 1.5 - x[2] + 0.2 * x[0] * x[0]]
        )

    return with_constraints(
        t, ImplicitConstraint("tie", tuple(at(t, k) for k in (1, 2, 4)), tie), name="through a function"
    )


def ball_in_a_function(rng: Random) -> Model:
    """A function of a quaternion, which is not its velocities' integral."""
    t = make(rng, [-1, 0, -1], ["spherical", "revolute", "planar"], fixed=False)

    def tie(x: Any) -> Any:
        size = x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3]
        return [(x[0] * x[3] + x[1] * x[2]) / size - 0.3 * lw.sin(x[4]), x[5] - x[4] * x[6]]

    return with_constraints(
        t, ImplicitConstraint("tie", tuple(at(t, k) for k in (0, 1, 2)), tie), name="ball in a function"
    )


def solid_rotor(rng: Random, axis: Any) -> dict[str, Any]:
    """A body that is symmetric about an axis through its frame's origin, with its centre somewhere along it."""
    u = np.array(axis) / np.linalg.norm(axis)
    along = rng.uniform(0.01, 0.03)
    across = rng.uniform(0.016, 0.03)
    moment = across * np.eye(3) + (along - across) * np.outer(u, u)
    return {"mass": float(rng.uniform(0.1, 0.5)), "center": u * rng.uniform(-0.1, 0.1), "inertia": moment}


def rotors(rng: Random, *, skew: bool = False, base: Joint | None = None) -> Model:
    """A leg with geared rotors on its links: along the joint, against it, across it, and two on one body."""
    builder = ModelBuilder("rotors" + (" askew" if skew else ""))
    link(builder, rng, "base", "world", base or Free(), damping=0.1)
    axes = [skew_axis(rng) if skew else coordinate_axis(rng) for _ in range(3)]
    on = "base"
    for k, axis in enumerate(axes):
        link(
            builder,
            rng,
            f"link{k}",
            on,
            Revolute(axis),
            *rng.normal(size=3) * 0.3,
            armature=0.1 * k,
            damping=0.2,
        )
        other = (axis, tuple(-x for x in axis), coordinate_axis(rng))[k]
        builder.add_body(f"rotor{k}", **solid_rotor(rng, other))
        more = {"armature": 0.02, "damping": 0.01, "stiffness": 0.01}
        place = Pose(np.eye(3), rng.normal(size=3) * 0.2)
        builder.add_joint(f"to rotor{k}", Revolute(other), parent=on, child=f"rotor{k}", place=place, **more)
        builder.add_frame(f"mark{k}", body=f"rotor{k}", xyz=(0.1, 0.2, 0.3), rpy=(0.1, 0.2, 0.3))
        terms = {f"to rotor{k}": 1.0, f"to link{k}": -6.0}
        if k == 2:
            terms["to link1"] = 9.0
        builder.add_coupling(f"gear{k}", terms, offset=0.1 * k)
        on = f"link{k}"
    # turned against its carrier, and one that nothing drives
    builder.add_body("wheel", **solid_rotor(rng, (0.0, 0.0, 1.0)))
    builder.add_joint(
        "to wheel", Revolute(), parent="link2", child="wheel", place=general_pose(rng), damping=0.1
    )
    builder.add_body("disc", **solid_rotor(rng, (0.0, 1.0, 0.0)))
    turned = Pose(rotation(rng), np.array([0.1, 0.2, 0.0]))
    builder.add_joint("to disc", Revolute((0.0, 1.0, 0.0)), parent="link0", child="disc", place=turned)
    builder.add_coupling("belt", {"to disc": 1.0, "to link1": 2.0, "to link2": 1.0})
    return builder.build()


def rotor_in_a_loop(rng: Random) -> Model:
    """A four-bar whose crank carries rotors that are parallel to its hinges, with another on the coupler."""
    builder = four_bar(rng)
    builder.name = "rotor in a loop"
    up = (0, 0, 1)
    down = (0, 0, -1)
    for k, (on, axis) in enumerate(
        (("world", up), ("crank", down), ("coupler", (1, 1, 0)), ("crank", up), ("crank", down))
    ):
        builder.add_body(f"rotor{k}", **solid_rotor(rng, axis))
        builder.add_joint(
            f"to rotor{k}", Revolute(axis), parent=on, child=f"rotor{k}", xyz=(0.1, 0.1, 0.05 * k)
        )
        driven = ("to crank", "to coupler", "to rocker", "to coupler", "to crank")[k]
        builder.add_coupling(f"gear{k}", {f"to rotor{k}": 1.0, driven: 3.0 + k})
    return builder.build().with_independent("to crank")


def asymmetric_rotors(rng: Random, *, rotors_lead: bool = False) -> Model:
    """Rotors that are balanced and not round: driven in every way, on three parallel hinges, and in
    directions of their own.
    """
    builder = ModelBuilder("asymmetric rotors")
    axis = skew_axis(rng)
    link(builder, rng, "base", "world", Free())
    places = {}
    for on, name in (("base", "thigh"), ("thigh", "shank"), ("shank", "foot")):
        more = {"independent": name == "foot" or not rotors_lead, "damping": 0.1, "stiffness": 0.2}
        places[name] = rng.normal(size=3) * 0.3
        link(builder, rng, name, on, Revolute(axis), *places[name], **more)
    against = tuple(-x for x in axis)
    driven = {  # carrier, axis, and how fast it turns for each hinge
        "along": ("base", axis, {"thigh": 6.0}),
        "against": ("base", against, {"thigh": 3.0, "shank": 3.0, "foot": 3.0}),
        "upward": ("shank", axis, {"shank": 9.0}),
        "slow": ("thigh", axis, {"shank": 0.5, "foot": 0.5}),
        "unlike": ("thigh", axis, {"shank": 4.0, "foot": -3.0}),
        "across": ("shank", skew_axis(rng), {"foot": 5.0}),
        "centred": ("shank", against, {"foot": 7.0}),  # where the foot has its origin
    }
    for name, (on, u, rates) in driven.items():
        body = asymmetric_rotor(rng, u)
        place = places["foot"] - body["center"] if name == "centred" else rng.normal(size=3) * 0.2
        builder.add_body(name, **body)
        first = rotors_lead and name in ("along", "upward")
        builder.add_joint(f"to {name}", Revolute(u), parent=on, child=name, xyz=place, independent=first)
        builder.add_coupling(
            f"gear of {name}", {f"to {name}": 1.0, **{f"to {j}": -r for j, r in rates.items()}}, offset=0.1
        )
    for name, y, place in (
        ("flywheel", -1.0, Pose.translation((0.1, 0.2, 0.3))),
        ("wheel", 1.0, general_pose(rng)),
    ):
        builder.add_body(name, **asymmetric_rotor(rng, (0.0, y, 0.0)))  # which nothing drives
        builder.add_joint(
            f"to {name}", Revolute((0.0, y, 0.0)), parent="foot", child=name, place=place, armature=0.01
        )
    for name, d in (("broad", 0.002), ("tall", -0.0021)):  # along the axes of their frames
        solid = solid_rotor(rng, (1.0, 0.0, 0.0))
        builder.add_body(name, **solid | {"inertia": solid["inertia"] + np.diag([0.0, d, -d])})
        builder.add_joint(
            f"to {name}", Revolute((1.0, 0.0, 0.0)), parent="shank", child=name, xyz=rng.normal(size=3) * 0.2
        )
    return builder.build()


def asymmetric_rotor(rng: Random, axis: Any) -> dict[str, Any]:
    """`solid_rotor` that is thicker in some direction across its axis."""
    solid = solid_rotor(rng, axis)
    u = np.array(axis) / np.linalg.norm(axis)
    a = np.cross(u, rng.normal(size=3))
    a = a / np.linalg.norm(a)
    b = np.cross(u, a)
    return solid | {"inertia": solid["inertia"] + 0.002 * (np.outer(a, a) - np.outer(b, b))}


def ladder(rng: Random) -> Model:
    """A four-bar on a free base, and stages on two bodies each of the one below, with freedom and without;
    rotor and loads.
    """
    builder = ModelBuilder("ladder")
    link(builder, rng, "base", "world", Free())
    link(builder, rng, "crank", "base", Revolute(), 0.1, 0.2, 0.0, armature=0.1)
    link(builder, rng, "coupler", "crank", Revolute(), 0.3, 0.0, 0.0, damping=0.1)
    link(builder, rng, "rocker", "base", Revolute(), 1.0, 0.2, 0.0)
    places = {"xyz": (0.8, 0.0, 0.1), "successor_xyz": (0.6, 0.0, 0.1)}
    builder.add_loop("pin", Revolute(), predecessor="coupler", successor="rocker", **places)
    link(
        builder,
        rng,
        "left",
        "crank",
        Revolute(),
        0.2,
        0.3,
        0.1,
        armature=0.2,
        damping=0.3,
        stiffness=2.0,
        rest=0.1,
    )
    link(builder, rng, "rung", "left", Revolute(), 0.5, 0.1, 0.1, armature=0.1, stiffness=1.0)
    link(builder, rng, "right", "rocker", Revolute(), 0.3, 0.2, 0.2, armature=0.3, damping=0.2)
    places = {"xyz": (0.7, 0.0, 0.1), "successor_xyz": (0.6, 0.1, 0.1)}
    builder.add_loop("first", Revolute(), predecessor="rung", successor="right", **places)
    builder.add_body("rotor", **solid_rotor(rng, (0, 0, 1)))
    builder.add_joint(
        "to rotor", Revolute(), parent="left", child="rotor", xyz=(0.1, 0.2, 0.3), armature=0.01
    )
    builder.add_coupling("gear", {"to rotor": 1.0, "to rung": 4.0}, offset=0.2)
    link(builder, rng, "top", "left", Revolute(), 0.1, 0.5, 0.0, armature=0.1)
    link(builder, rng, "pillar", "right", Revolute(), 0.2, 0.4, 0.0, stiffness=1.0, damping=0.3)
    places = {"xyz": (0.9, 0.0, 0.1), "successor_xyz": (1.0, 0.1, 0.0)}
    builder.add_loop("second", Revolute(), predecessor="top", successor="pillar", **places)
    link(builder, rng, "hand", "rung", Spherical(), 0.1, 0.2, 0.1)
    link(builder, rng, "flag", "pillar", Revolute((1.0, 0.5, 0.2)), 0.3, 0.2, 0.1, armature=0.1)
    return builder.build().with_independent("to right")  # so that the bodies below turn the rotor


def geared_across(rng: Random) -> Model:
    """Gears between joints on different bodies of a four-bar, and a function of three: clusters of several
    output bodies.
    """
    builder = four_bar(rng)
    builder.name = "geared across"
    link(builder, rng, "first", "crank", Revolute((1.0, 0.0, 0.0)), 0.1, 0.2, 0.1, armature=0.1)
    link(builder, rng, "second", "rocker", Revolute((0.0, 1.0, 0.5)), 0.1, 0.2, 0.1, damping=0.2)
    builder.add_coupling("gear", {"to first": 1.0, "to second": 3.0}, offset=0.1)
    for k, on in enumerate(("coupler", "rocker", "crank")):
        link(
            builder,
            rng,
            f"finger{k}",
            on,
            (Prismatic(), Revolute((0.0, 1.0, 0.0)), Revolute())[k],
            0.1,
            0.3,
            0.2,
        )

    def tie(x: Any) -> Any:
        return x[0] - 0.3 * lw.sin(x[1]) * lw.cos(x[2])

    builder.add_implicit_constraint("tie", tie, joints=[f"to finger{k}" for k in range(3)])
    return builder.build()


def spatial_stages(rng: Random) -> Model:
    """Rings in space that stand on one another, each on two bodies of the one below."""
    kinds = [
        "skew revolute",
        "universal",
        "skew revolute",
        "spherical",
        "universal",
        "skew revolute",
        "spherical",
        "prismatic",
    ]
    kinds += ["spherical", "universal", "skew revolute", "skew revolute"]
    t = make(rng, [-1, 0, -1, 2, 1, 4, 3, 6, 5, 7, 9, 8], kinds, fixed=False)
    q = moderate(t, rng)
    loops = [
        closed_by(t, kind, i, j, q, rng, f"stage{n}")
        for n, (kind, i, j) in enumerate(
            ((Spherical(), 1, 3), (Spherical(), 5, 7), (Revolute(skew_axis(rng)), 8, 10))
        )
    ]
    return with_constraints(t, *loops, name="spatial stages")


CATALOGUE: dict[str, Callable[[], Model]] = {
    **{
        f"ring {kind}": (lambda k=kind, s=s: ring(np.random.default_rng(s), k, ground=s % 2 == 0))
        for s, kind in enumerate(LOOP_KINDS)
    },
    **{f"geared {s}": (lambda s=s: geared(np.random.default_rng(s), 5, 1 + s % 2, massless=())) for s in range(4)},
    "four-bar": lambda: four_bar(1, armature=0.1, damping=0.2, stiffness=2.0, rest=0.1).build(),
    "four-bar, spherical": lambda: four_bar(2, kind=Spherical()).build(),
    "slider-crank": lambda: slider_crank(np.random.default_rng(3)),
    "six-bar": lambda: six_bar(np.random.default_rng(4)),
    "loaded four-bar": lambda: loaded_four_bar(np.random.default_rng(5)),
    "one body": lambda: one_body(np.random.default_rng(16)),
    "own joint": lambda: own_joint(np.random.default_rng(17)),
    "nested": lambda: nested(np.random.default_rng(6)),
    "onto an ancestor": lambda: onto_ancestor(np.random.default_rng(7)),
    "standing": lambda: standing(np.random.default_rng(8)),
    "shared": lambda: shared(np.random.default_rng(9)),
    "loop and gear": lambda: loop_and_gear(np.random.default_rng(10)),
    "through a function": lambda: through_a_function(np.random.default_rng(11)),
    "ball in a function": lambda: ball_in_a_function(np.random.default_rng(12)),
    "rotors": lambda: rotors(np.random.default_rng(13)),
    "rotors askew": lambda: rotors(np.random.default_rng(14), skew=True, base=Revolute((1.0, 1.0, 0.0))),
    "rotor in a loop": lambda: rotor_in_a_loop(np.random.default_rng(15)),
    "asymmetric rotors": lambda: asymmetric_rotors(np.random.default_rng(18)),
    "scissor lift": lambda: lw.robots.scissor_lift(3),
    "ladder": lambda: ladder(np.random.default_rng(18)),
    "geared across": lambda: geared_across(np.random.default_rng(19)),
    "spatial stages": lambda: spatial_stages(np.random.default_rng(20)),
}  # fmt: skip


@cache
def linkage(name: str) -> Model:
    """A mechanism of the catalogue."""
    return CATALOGUE[name]()
