"""Custom SKO models against dense algebra: stacked operators, and one linear system for all nodes (SKO
Sec. 2 to 6).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LinkworkError, ModelError
from linkwork.sko import Node, Tree

SIZES = {"root": (9, 3), "left": (8, 2), "right": (6, 1), "tip": (6, 2)}  # rows and velocities
PARENTS = {"root": None, "left": "root", "right": "root", "tip": "left"}


def spd(rng: np.random.Generator, n: int) -> np.ndarray:
    X = rng.normal(size=(n, n))
    return X @ X.T + 0.5 * np.eye(n)


def dense_tree(rng: np.random.Generator, base: int = 0) -> tuple[Tree, dict[str, dict[str, np.ndarray]]]:
    """Nodes of 9, 8, 6 and 6 rows: weights that are not square, one of them singular; all entries given as
    arrays.
    """
    numbers: dict[str, dict[str, np.ndarray]] = {}
    nodes = []
    for name, (rows, m) in SIZES.items():
        parent = PARENTS[name]
        up = base if parent is None else SIZES[parent][0]
        A = rng.normal(size=(up, rows))
        if name == "right":
            A = np.outer(rng.normal(size=up), rng.normal(size=rows))  # of rank one
        own = {"A": A, "H": rng.normal(size=(m, rows)), "M": spd(rng, rows), "a": rng.normal(size=rows)}
        own |= {"b": rng.normal(size=rows), "armature": 0.1 * np.eye(m), "passive_force": rng.normal(size=m)}
        numbers[name] = own
        given = {word: value for word, value in own.items() if value.size}
        frame = {"tool": (rng.normal(size=(6, rows)), rng.normal(size=6))} if name == "tip" else {}
        numbers[name]["B"], numbers[name]["bias"] = frame.get("tool", (np.zeros((0, rows)), np.zeros(0)))
        nodes.append(Node(name, parent=parent, pick_offs=frame, **given))
    alpha = rng.normal(size=base)
    return Tree("dense", nodes, base_acceleration=alpha), numbers | {"": {"alpha": alpha}}


class Dense:
    """The same model as stacked matrices: α = E* α + A₀* α₀ + H* θ̈ + a, f = E f + M α + b, T = H f +
    armature θ̈ + passive.
    """

    def __init__(self, numbers: dict[str, dict[str, np.ndarray]], parents: dict[str, str | None]) -> None:
        names = [name for name in numbers if name]
        rows = np.cumsum([0, *(len(numbers[n]["M"]) for n in names)])
        dofs = np.cumsum([0, *(len(numbers[n]["H"]) for n in names)])
        self.place = {n: slice(rows[k], rows[k + 1]) for k, n in enumerate(names)}
        E, self.H = np.zeros((rows[-1], rows[-1])), np.zeros((dofs[-1], rows[-1]))
        self.M, start = np.zeros((rows[-1], rows[-1])), np.zeros(rows[-1])
        self.a, self.b, self.passive = (
            np.concatenate([numbers[n][w] for n in names]) for w in ("a", "b", "passive_force")
        )
        self.armature = np.zeros((dofs[-1], dofs[-1]))
        for k, n in enumerate(names):
            own = self.place[n]
            velocities = slice(dofs[k], dofs[k + 1])
            self.H[velocities, own], self.M[own, own] = numbers[n]["H"], numbers[n]["M"]
            self.armature[velocities, velocities] = numbers[n]["armature"]
            if (parent := parents[n]) is None:
                start[own] = numbers[n]["A"].T @ numbers[""]["alpha"]
            else:
                E[self.place[parent], own] = numbers[n]["A"]
        self.phi = np.linalg.inv(np.eye(len(E)) - E)  # (1 - E)⁻¹
        self.rest = self.phi.T @ (start + self.a)

    def alpha(self, ddtheta: np.ndarray) -> np.ndarray:
        return self.rest + self.phi.T @ self.H.T @ ddtheta

    def inverse(self, ddtheta: np.ndarray) -> np.ndarray:
        f = self.phi @ (self.M @ self.alpha(ddtheta) + self.b)
        return self.H @ f + self.armature @ ddtheta + self.passive

    @property
    def mass(self) -> np.ndarray:
        return self.H @ self.phi @ self.M @ self.phi.T @ self.H.T + self.armature


@pytest.fixture(params=[0, 6], ids=["at rest", "accelerating base"])
def case(request: pytest.FixtureRequest) -> tuple[Tree, dict[str, Any], Dense, np.random.Generator]:
    rng = np.random.default_rng(7 + request.param)
    tree, numbers = dense_tree(rng, request.param)
    return tree, numbers, Dense(numbers, PARENTS), rng


def close(a: Any, b: Any) -> bool:
    a = np.asarray(a, dtype=float)
    b = np.asarray(b, dtype=float)
    return bool(np.abs(a - b).max(initial=0.0) <= 1e-12 * max(1.0, np.abs(b).max(initial=0.0)))


def test_all_algorithms_agree_with_dense_algebra(case: Any) -> None:
    tree, _, dense, rng = case
    q, v, a, tau = rng.normal(size=(4, tree.nv))
    C = dense.inverse(np.zeros(tree.nv))
    assert tree.nv == 8 and tree.nq == 8 and len(tree.v_names) == 8
    assert close(lw.inverse_dynamics(tree, q, v, a), dense.inverse(a))
    assert close(lw.bias_force(tree, q, v), C)
    assert close(lw.mass_matrix(tree, q), dense.mass)
    inverse = np.linalg.inv(dense.mass)
    for method in ("sweeps", "factorisation"):
        assert close(lw.mass_matrix_inverse(tree, q, method=method), inverse)
    for method in ("articulated_body", "mass_matrix", "auto"):
        assert close(lw.forward_dynamics(tree, q, v, tau, method=method), inverse @ (tau - C))
    prescribed = np.array([True, False, True, False, False, True, False, False])
    found, forces = lw.hybrid_dynamics(tree, q, v, a, tau, prescribed=prescribed)
    free = ~prescribed
    right = (tau - C)[free] - dense.mass[np.ix_(free, prescribed)] @ a[prescribed]
    expected = np.where(prescribed, a, 0.0)
    expected[free] = np.linalg.solve(dense.mass[np.ix_(free, free)], right)
    assert close(found, expected) and close(forces, dense.mass @ expected + C)


def test_energy_and_frames_through_pick_offs(case: Any) -> None:
    tree, numbers, dense, rng = case
    q, v, a = rng.normal(size=(3, tree.nv))
    V = dense.phi.T @ dense.H.T @ v
    assert close(lw.kinetic_energy(tree, q, v), 0.5 * (V @ dense.M @ V + v @ dense.armature @ v))
    B = numbers["tip"]["B"]
    bias = numbers["tip"]["bias"]
    own = dense.place["tip"]
    J = B @ (dense.phi.T @ dense.H.T)[own]
    assert close(lw.frame_velocity(tree, q, v, frame="tool"), B @ V[own])
    assert close(lw.frame_jacobian(tree, q, frame="tool"), J)
    still = Dense(
        {**numbers, "": {"alpha": 0.0 * numbers[""]["alpha"]}}, PARENTS
    )  # the base's acceleration is gravity's
    assert close(lw.frame_acceleration(tree, q, v, a, frame="tool"), B @ still.alpha(a)[own] + bias)


@pytest.mark.parametrize("method", ["caba", "pv", "pv_early", "ltls", "ltl"])
def test_constraints_through_pick_offs(case: Any, method: str) -> None:
    tree, numbers, dense, rng = case
    q, v, tau = rng.normal(size=(3, tree.nv))
    rows = ("wx", "y", "z")
    c = np.eye(6)[[0, 4, 5]]
    B = numbers["tip"]["B"]
    bias = numbers["tip"]["bias"]
    own = dense.place["tip"]
    J = c @ B @ (dense.phi.T @ dense.H.T)[own]
    rest = c @ (B @ dense.rest[own] + bias)
    K = np.block([[dense.mass, -J.T], [J, np.zeros((3, 3))]])
    both = np.linalg.solve(K, np.concatenate([tau - dense.inverse(np.zeros(tree.nv)), -rest]))
    hold = lw.Hold("tool", rows, axes="frame")
    a, forces = lw.constrained_dynamics(tree, q, v, tau, constraints=hold, method=method, iterations=60)
    assert np.allclose(a, both[:8], atol=1e-8) and np.allclose(forces, both[8:], atol=1e-7)
    delassus = J @ np.linalg.solve(dense.mass, J.T)
    assert close(lw.delassus(tree, q, constraints=hold), delassus)
    R = 1e-3
    damped = lw.damped_delassus_inverse(tree, q, constraints=hold, compliance=R)
    assert np.allclose(damped, np.linalg.inv(delassus + R * np.eye(3)), rtol=1e-10)


def test_batches_float32_and_compiled_kernels(case: Any) -> None:
    tree, _, _, rng = case
    q, v, tau = rng.normal(size=(3, 5, tree.nv))
    a = lw.forward_dynamics(tree, q, v, tau)
    assert a.shape == (5, 8)
    assert all(np.array_equal(a[k], lw.forward_dynamics(tree, q[k], v[k], tau[k])) for k in range(5))
    single = (x.astype(np.float32) for x in (q, v, tau))
    assert np.allclose(lw.forward_dynamics(tree, *single, dtype="float32"), a, rtol=1e-2, atol=1e-2)
    kernel = lw.compile(lw.forward_dynamics, tree, wait=True)
    assert np.array_equal(kernel(q, v, tau), a)
    assert lw.count_operations(lw.inverse_dynamics, tree)["total"] > 0


def arm_nodes(model: lw.Model) -> Tree:
    """A model's own nodes as functions of (q, v): matrices of A, H, M, a and b."""

    def entry(k: int, word: str) -> Any:
        def at(q: Any, v: Any) -> Any:
            node = lw.nodes(model, q, v).nodes[k]
            if word == "A":
                return node.A.gather(np.eye(node.rows))
            value = getattr(node, word)
            return value.dense() if word == "M" else value

        return at

    state = lw.nodes(model, model.random_state(0)[0])
    made = []
    for k, node in enumerate(state.nodes):
        parent = None if node.parent is state.ground else node.parent.name
        words = ("A", "H", "M", "a", "b", "armature", "passive_force")
        made.append(Node(node.name, parent=parent, **{word: entry(k, word) for word in words}))
    return Tree(model.name, made, nq=model.nq, base_acceleration=state.ground.alpha)


@pytest.mark.parametrize("name", ["arm", "four_bar", "five_bar", "mit_humanoid_leg"])
def test_models_given_as_matrices(name: str) -> None:
    """A rigid arm given as matrices, and clusters each given as one node: the functions of the model itself."""
    model = getattr(lw.robots, name)()
    tree = arm_nodes(model)
    rng = np.random.default_rng(3)
    q, v = model.random_state(rng)
    a, tau = rng.normal(size=(2, model.nv))
    assert close(lw.inverse_dynamics(tree, q, v, a), lw.inverse_dynamics(model, q, v, a))
    assert close(lw.mass_matrix(tree, q), lw.mass_matrix(model, q))
    expected = lw.forward_dynamics(model, q, v, tau)
    for method in ("articulated_body", "mass_matrix"):
        found = lw.forward_dynamics(tree, q, v, tau, method=method)
        assert np.abs(found - expected).max() <= 1e-10 * max(1.0, np.abs(expected).max())
    assert close(lw.kinetic_energy(tree, q, v), lw.kinetic_energy(model, q, v))


def test_derivatives_of_models_given_as_matrices() -> None:
    """An arm's nodes as functions of (q, v) have the derivatives of the arm itself."""
    model = lw.robots.chain(3)
    tree = arm_nodes(model)
    rng = np.random.default_rng(5)
    q, v, a, tau = rng.normal(size=(4, 2, model.nv))
    for fn, x in (
        (lw.inverse_dynamics_derivatives, a),
        (lw.forward_dynamics_derivatives, tau),
        (lw.linearize, tau),
    ):
        for found, right in zip(fn(tree, q, v, x), fn(model, q, v, x), strict=True):
            assert np.abs(found - right).max() <= 1e-11 * np.abs(right).max()
    driven = [np.array([True, False, True])] * 2
    both = [
        lw.hybrid_dynamics_derivatives(x, q, v, a, tau, prescribed=p) for x, p in zip((tree, model), driven)
    ]
    assert all(
        np.abs(found - right).max() <= 1e-11 * np.abs(right).max() for found, right in zip(*both, strict=True)
    )


def test_features_that_custom_trees_lack_raise(case: Any) -> None:
    tree = case[0]
    q = np.zeros(8)
    for how in ({"reference": "world"}, {"reference": "world_aligned"}):
        with pytest.raises(ModelError, match="no poses in the world; omit reference"):
            lw.frame_jacobian(tree, q, frame="tool", **how)
        with pytest.raises(ModelError, match="no poses in the world"):
            lw.frame_velocity(tree, q, q, frame="tool", **how)
    with pytest.raises(ModelError, match="no poses in the world"):
        lw.frame_acceleration(tree, q, q, q, frame="tool", classical=True)
    with pytest.raises(LinkworkError, match="is a custom tree and has no parameter 'mass'"):
        lw.inverse_dynamics_derivatives(tree, q, q, q, wrt=("q", "mass"))


def test_functions_that_ask_for_sizes() -> None:
    """A joint map that takes exactly the tree's coordinates says its shape."""

    def H(q: Any, v: Any) -> Any:
        x, y = q
        return np.array([[lw.cos(x), lw.sin(x), 0.0], [0.0, 0.0, 1.0 + y * y]])

    with pytest.raises(ModelError, match=r"node 'k': H: .*give shape=\(velocities, rows\)"):
        Tree("asking", [Node("k", H, np.eye(3))])
    tree = Tree("asking", [Node("k", H, np.diag([1.0, 2.0, 3.0]), shape=(2, 3))])
    q = np.array([0.3, 0.4])
    assert close(
        lw.mass_matrix(tree, q), np.diag([np.cos(0.3) ** 2 + 2.0 * np.sin(0.3) ** 2, 3.0 * (1.0 + 0.16) ** 2])
    )


H = np.ones((1, 3))
M = np.eye(3)
MISTAKES: dict[str, tuple[Any, str]] = {
    "no parent": (lambda: Tree("t", [Node("k", H, M, parent="p")]), r"node 'k': parent: expected the name of an earlier node, got 'p'"),
    "parent later": (lambda: Tree("t", [Node("k", H, M, parent="p"), Node("p", H, M)]), r"'p', which comes after it"),
    "twice": (lambda: Tree("t", [Node("k", H, M), Node("k", H, M)]), "two nodes named 'k'"),
    "M": (lambda: Tree("t", [Node("k", H, np.eye(4))]), r"node 'k': M: expected shape \(3, 3\), got \(4, 4\)"),
    "M not symmetric": (lambda: Tree("t", [Node("k", H, np.triu(np.ones((3, 3))))]), "node 'k': M: expected a symmetric"),
    "H": (lambda: Tree("t", [Node("k", np.ones(3), M)]), r"node 'k': H: expected shape \(velocities, rows\)"),
    "A missing": (
        lambda: Tree("t", [Node("p", H, M), Node("k", H, M, parent="p")]), r"node 'k' needs A, .*: \(3, 3\)",
    ),
    "A": (
        lambda: Tree("t", [Node("p", H, M), Node("k", H, M, parent="p", A=np.ones((2, 3)))]),
        r"node 'k': A: expected shape \(3, 3\), got \(2, 3\)",
    ),
    "a": (lambda: Tree("t", [Node("k", H, M, a=np.ones(2))]), r"node 'k': a: expected shape \(3,\), got \(2,\)"),
    "b of a function": (lambda: Tree("t", [Node("k", H, M, b=lambda q, v: [1.0])]), r"node 'k': b: expected shape \(3,\)"),
    "function fails": (lambda: Tree("t", [Node("k", H, M, b=lambda q, v: q["x"])]), "node 'k': b: its function of .* fails"),
    "pick-off": (lambda: Tree("t", [Node("k", H, M, pick_offs={"f": np.ones((6, 2))})]), "the pick-off 'f': expected 3 col"),
    "frames": (lambda: Tree("t", [Node("k", H, M, pick_offs=3)]), "pick_offs: expected a mapping"),  # type: ignore[arg-type]
    "not finite": (lambda: Tree("t", [Node("k", np.nan * H, M)]), "node 'k': H: expected finite numbers"),
    "weld of three rows": (
        lambda: lw.constraint_jacobian(Tree("t", [Node("k", H, M, pick_offs={"f": M})]), [0.0], constraints=[lw.Weld("f")]),
        "the frame 'f' has 3 rows",
    ),
    "no node": (lambda: Tree("t", []), "t has no nodes"),
    "bodies asked": (lambda: lw.forward_kinematics(Tree("t", [Node("k", H, M)]), [0.0]), "requires a model with bodies"),
    "f_ext": (
        lambda: lw.inverse_dynamics(Tree("t", [Node("k", H, M)]), [0.0], [0.0], [0.0], np.zeros((0, 6))), "without bodies",
    ),
    "parameters": (
        lambda: lw.mass_matrix(Tree("t", [Node("k", H, M)]), [0.0], parameters={"mass": 1.0}), "has no parameters",
    ),
    "no frame": (lambda: lw.frame_velocity(Tree("t", [Node("k", H, M)]), [0.0], [0.0], frame="x"), "no frame named 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_the_node(name: str) -> None:
    make, told = MISTAKES[name]
    with pytest.raises((ModelError, LinkworkError), match=told):
        make()


def test_operational_inertia_of_frames_of_any_rows() -> None:
    """Two frames of three and of two rows, on nodes of four: the inverse of their compliance."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2, 4, 4))
    root = Node(
        "root",
        rng.normal(size=(3, 4)),
        X[0] @ X[0].T + M[0, 0] * np.eye(4),
        pick_offs={"one": rng.normal(size=(2, 4))},
    )
    tip = Node(
        "tip",
        rng.normal(size=(3, 4)),
        X[1] @ X[1].T,
        "root",
        np.eye(4),
        pick_offs={"other": rng.normal(size=(3, 4))},
    )
    tree = Tree("narrow", [root, tip])
    q = np.zeros(6)
    frames = ("one", "other")
    compliance = lw.operational_compliance(tree, q, frames=frames)
    for method in ("sweeps", "factorisation"):
        found = lw.operational_inertia(tree, q, frames=frames, method=method)
        assert found.shape == (5, 5) and np.allclose(found @ compliance, np.eye(5), atol=1e-9)


UNEVEN = iter(range(10**9))
WRONG_NUMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "M indefinite": ({"M": np.diag([1.0, -1e-3, 2.0])}, "node 'k': M: expected a positive semidefinite matrix, got .* -0.001"),
    "M off": ({"M": M + 1e-6 * np.triu(np.ones((3, 3)), 1)}, "node 'k': M: expected a symmetric finite"),
    "M indefinite elsewhere": ({"M": lambda q, v: np.diag([0.1, q[0], 0.1])}, "t: the mass matrix: expected a positive"),
    "M small and off": ({"M": 1e-9 * np.triu(np.ones((3, 3)))}, "node 'k': M: expected a symmetric finite"),
    "armature": ({"armature": [[-0.1]]}, "node 'k': armature: expected a positive semidefinite matrix"),
    "M not finite": ({"M": lambda q, v: np.diag([np.nan, 1.0, 1.0])}, "node 'k': M: expected a symmetric finite"),
    "b not finite": ({"b": lambda q, v: [np.inf, 0.0, 0.0]}, "node 'k': b: expected finite numbers"),
    "b by chance": ({"b": lambda q, v: [float(next(UNEVEN)), 0.0, 0.0]}, "node 'k': b: expected the same numbers"),
    "pick-off": ({"pick_offs": {"f": lambda q, v: np.full((6, 3), np.nan)}}, "the pick-off 'f': expected finite numbers"),
    "name": ({"name": ""}, "name of a node: expected a non-empty string"),
    "shape": ({"shape": (1.5, 3)}, "node 'k': shape: expected two integers above zero"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_nodes_have_inertias_and_numbers_that_nodes_can_have(name: str) -> None:
    change, told = WRONG_NUMBERS[name]
    with pytest.raises(ModelError, match=told):
        Tree("t", [Node(**{"name": "k", "H": H, "M": M} | change)])


def test_massless_nodes_and_sizes_of_trees() -> None:
    Tree("t", [Node("k", H, 0.0 * M), Node("l", H, M, "k", M)])
    for wrong in ({"nq": -1}, {"nq": 1.5}, {"base_acceleration": [np.nan]}):
        with pytest.raises(
            ModelError, match="nq: expected an integer|base_acceleration: expected finite numbers"
        ):
            Tree("t", [Node("k", H, M, A=np.ones((1, 3)))], **wrong)  # type: ignore[arg-type]
