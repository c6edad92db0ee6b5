"""Trees of nodes of every kind, for laws of spatial operators: random trees, clusters, user-made and elastic
nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from test_custom_trees import dense_tree

import linkwork as lw
from elastic_link import ElasticArm, Link
from linkwork.sko import Node, Tree
from mechanisms import KINDS, make, random_model


def boom(rng: np.random.Generator, modes: int = 3, bodies: int = 3) -> Tree:
    """A chain of bodies with 6 + `modes` rows behind hinges about z: the modes lift and turn the place of the
    next body.

    Rows are [w, v, rates of the modes]; velocities the hinge's and the modes'. Inertias are positive definite
    and constant.
    """
    nodes = []
    rows = 6 + modes
    m = 1 + modes
    for k in range(bodies):
        X = rng.normal(size=(rows, rows))
        shape = rng.normal(size=(6, modes)) * 0.3  # of the place where the next body is
        own = slice(m * k, m * k + m)

        def weight(q: Any, v: Any, own: slice = own, shape: np.ndarray = shape, first: bool = k == 0) -> Any:
            s, c = lw.sincos(q[own][0])
            turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]], dtype=object)
            pose = lw.spatial.Pose(turn, np.array([0.5, 0.0, 0.1]))
            carried = np.zeros((6, rows), dtype=object)
            carried[:, :6] = pose.gather(np.eye(6).astype(object))
            return carried if first else np.concatenate([np.eye(6), shape.T]) @ carried

        H = np.zeros((m, rows))
        H[0, 2] = 1.0
        H[1:, 6:] = np.eye(modes)
        frame = {"tip": np.concatenate([np.eye(6), shape], axis=1)} if k == bodies - 1 else {}
        more: dict[str, Any] = {
            "a": rng.normal(size=rows),
            "b": rng.normal(size=rows),
            "passive_force": rng.normal(size=m),
        }
        M = X @ X.T + np.eye(rows)
        parent = f"body{k - 1}" if k else None
        nodes.append(Node(f"body{k}", H=H, M=M, parent=parent, A=weight, pick_offs=frame, **more))
    return Tree("boom", nodes, base_acceleration=(0, 0, 0, 0, 0, 9.81))


def elastic_arm(rng: np.random.Generator) -> ElasticArm:
    links = [Link(0.4, 1.0, 0.02, 0.5, 300.0, 0.1), Link(0.3, 0.6, 0.01, 0.2, 200.0, 0.2)]
    return ElasticArm(links, rng.uniform(-0.3, 0.3, 4), rng.normal(size=4))


def forest(rng: np.random.Generator) -> lw.Model:
    """Two trees that nothing but the ground connects, with branches and joints of many kinds."""
    return make(
        rng,
        [-1, 0, 1, 1, 0, -1, 5],
        [*list(KINDS)[:3], "universal", "spherical", "free", "planar"],
        name="forest",
    )


NAMES: tuple[str, ...] = (
    "random 1",
    "random 2",
    "random 3",
    "forest",
    "four_bar",
    "tello",
    "delta",
    "scissor",
    "by hand",
    "boom",
    "elastic arm",
)
FLEXIBLE = ("flexible_arm", "flexible_slider_crank", "boom_satellite") if hasattr(lw, "flexible") else ()
NAMES += FLEXIBLE


def system(name: str) -> Any:
    """The nodes of a system in a random state."""
    rng = np.random.default_rng(sum(map(ord, name)))
    if name == "elastic arm":
        return elastic_arm(rng)
    model: Any
    if name.startswith("random"):
        model = random_model(rng, 6, massless=False)
    elif name == "by hand":
        model, _ = dense_tree(rng, 6)
    elif name == "scissor":
        model = lw.robots.scissor_lift(2)
    else:
        model = (
            {"forest": forest, "boom": boom}[name](rng)
            if name in ("forest", "boom")
            else getattr(lw.robots, name)()
        )
    if isinstance(model, Tree):
        return model.state(rng.normal(size=model.nq), rng.normal(size=model.nv))
    q, v = model.random_state(rng)
    return lw.operators(model, q, v).nodes
