"""Spatial operators as objects: every identity of SKO Sec. 3 to 7 on trees of every kind, against dense
algebra.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LinkworkError, ModelError, ShapeError
from linkwork.sko.prepare.trees import hinge_tree
from linkwork.spatial_operators import Operator, Operators
from mechanisms import make, random_model
from sko_systems import NAMES, boom, forest, system

LAW = 1e-11


@cache
def given(name: str) -> Operators:
    return lw.operators(system(name))


def floats(x: Any) -> np.ndarray:
    return np.asarray(x.dense() if isinstance(x, Operator) else x, dtype=float)


def size(x: Any) -> float:
    return float(np.abs(floats(x)).max(initial=0.0))


def close(a: Any, b: Any, scale: float = 1.0) -> bool:
    """Relative to what is largest, or to the size of terms that cancel."""
    return size(floats(a) - floats(b)) <= LAW * max(1.0, scale, size(b))


class Dense:
    """The same operators by dense linear algebra, from the nodes' matrices alone: SKO's definitions, no
    recursion.
    """

    def __init__(self, o: Operators) -> None:
        n = o.rows.size
        m = o.velocities.size
        self.E, self.H, self.M = np.zeros((n, n)), np.zeros((m, n)), np.zeros((n, n))
        every = list(o.nodes.base_to_tips())
        at = dict(zip(every, o.rows.slices))
        for k in every:
            own = at[k]
            rows = k.rows
            inner = slice(own.start, own.start + rows)
            if k.parent is not o.nodes.ground:
                up = at[k.parent]
                self.E[up.start : up.start + k.parent.rows, inner] = floats(k.A.gather(np.eye(rows)))
            self.H[k.dofs, inner], self.M[inner, inner] = floats(k.H), floats(k.M.dense())
            if own.stop > inner.stop:  # rows that armature moves
                self.H[k.dofs, inner.stop : own.stop] = np.eye(own.stop - inner.stop)
                self.M[inner.stop : own.stop, inner.stop : own.stop] = floats(k.armature)
        self.I = np.eye(n)
        self.A = np.linalg.inv(self.I - self.E)
        self.mass = self.H @ self.A @ self.M @ self.A.T @ self.H.T


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sweep(3)
def test_operators_are_those_of_dense_algebra(name: str) -> None:
    o = given(name)
    d = Dense(o)
    rng = np.random.default_rng(3)
    A_tilde = d.A - d.I
    for operator, matrix in (
        (o.E_A, d.E),
        (o.A, d.A),
        (o.A_tilde, A_tilde),
        (o.H, d.H),
        (o.M, d.M),
        (o.mass_matrix, d.mass),
    ):
        assert close(operator, matrix) and close(operator.T, matrix.T), operator.name
        assert operator.shape == matrix.shape
        x = rng.normal(size=matrix.shape[1])
        y = rng.normal(size=(matrix.shape[0], 3))
        assert close(operator @ x, matrix @ x, size(matrix)) and close(
            operator.T @ y, matrix.T @ y, size(matrix)
        ), operator.name
        assert close(y.T @ operator, y.T @ matrix, size(matrix))
    H = d.H
    P = floats(o.P)
    D = H @ P @ H.T
    G = P @ H.T @ np.linalg.inv(D)
    assert close(o.D, D) and close(o.G, G) and close(o.tau, G @ H) and close(o.tau_bar, d.I - G @ H)
    psi = np.linalg.inv(d.I - d.E @ (d.I - G @ H))
    assert close(o.P_plus, P - G @ H @ P) and close(o.psi, psi) and close(o.K, d.E @ G)
    scale = size(psi) ** 2 * size(np.linalg.inv(D))
    assert close(o.Omega, psi.T @ H.T @ np.linalg.inv(D) @ H @ psi, scale)
    joint = [[np.allclose(0, D[a, b]) for b in o.velocities.slices] for a in o.velocities.slices]
    assert (~np.array(joint) <= np.eye(len(joint), dtype=bool)).all()  # D is block-diagonal


Law = Callable[[Operators], tuple[Operator, Operator]]
LAWS: dict[str, Law] = {
    "Eq. 12 and 18": lambda o: (o.M, o.R - o.E_A @ o.R @ o.E_A.T),
    "Eq. 19": lambda o: (o.A @ o.M @ o.A.T, o.R + o.A_tilde @ o.R + o.R @ o.A_tilde.T),
    "Eq. 17": lambda o: (o.mass_matrix, o.H @ (o.R + o.A_tilde @ o.R + o.R @ o.A_tilde.T) @ o.H.T),
    "Lemma 7, Eq. 31": lambda o: (o.M, o.P - o.E_A @ (o.P - o.P @ o.H.T @ o.D.inverse @ o.H @ o.P) @ o.E_A.T),
    "Eq. 32, D": lambda o: (o.D, o.H @ o.P @ o.H.T),
    "Eq. 32, G": lambda o: (o.G @ o.D, o.P @ o.H.T),
    "Eq. 32, tau": lambda o: (o.tau, o.G @ o.H),
    "Eq. 32, P+": lambda o: (o.P_plus, o.tau_bar @ o.P),
    "Eq. 32, P+ again": lambda o: (o.P_plus, o.tau_bar @ o.P @ o.tau_bar.T),
    "Lemma 8, Eq. 34": lambda o: (o.E_psi, o.E_A @ o.tau_bar),
    "Eq. 35": lambda o: (o.psi @ (o.I - o.E_psi), o.I),
    "Eq. 36": lambda o: (o.M, o.P - o.E_psi @ o.P @ o.E_psi.T),
    "Eq. 36 again": lambda o: (o.M, o.P - o.E_psi @ o.P @ o.E_A.T),
    "Eq. 37": lambda o: (o.K, o.E_A @ o.G),
    "Eq. 38, HG": lambda o: (o.H @ o.G, o.I_v),
    "Eq. 38, H tau": lambda o: (o.H @ o.tau, o.H),
    "Eq. 38, H tau bar": lambda o: (o.H @ o.tau_bar, 0.0 * o.H),
    "Eq. 38, 1 + HAK": lambda o: (o.I_v + o.H @ o.A @ o.K, o.H @ o.A @ o.G),
    "Eq. 39": lambda o: (o.H @ o.A @ o.tau_bar, o.H @ o.A @ o.E_psi),
    "Eq. 40": lambda o: (o.H @ o.A @ o.tau, o.H @ o.A @ o.psi.inverse),
    "Eq. 41": lambda o: (o.A @ o.M @ o.psi.T, o.P + o.A_tilde @ o.P + o.P @ o.psi_tilde.T),
    "Eq. 42": lambda o: (o.psi @ o.M @ o.psi.T, o.P + o.psi_tilde @ o.P + o.P @ o.psi_tilde.T),
    "Eq. 43": lambda o: (o.psi.inverse - o.A.inverse, o.K @ o.H),
    "Eq. 44, 1": lambda o: (o.psi.inverse @ o.A, o.I + o.K @ o.H @ o.A),
    "Eq. 44, 2": lambda o: (o.A @ o.psi.inverse, o.I + o.A @ o.K @ o.H),
    "Eq. 44, 3": lambda o: (o.A.inverse @ o.psi, o.I - o.K @ o.H @ o.psi),
    "Eq. 44, 4": lambda o: (o.psi @ o.A.inverse, o.I - o.psi @ o.K @ o.H),
    "Eq. 45, 1": lambda o: ((o.I_v - o.H @ o.psi @ o.K) @ o.H @ o.A, o.H @ o.psi),
    "Eq. 45, 2": lambda o: (o.A @ o.K @ (o.I_v - o.H @ o.psi @ o.K), o.psi @ o.K),
    "Eq. 45, 3": lambda o: ((o.I_v + o.H @ o.A @ o.K) @ o.H @ o.psi, o.H @ o.A),
    "Eq. 45, 4": lambda o: (o.psi @ o.K @ (o.I_v + o.H @ o.A @ o.K), o.A @ o.K),
    "Eq. 46": lambda o: (o.H @ o.psi @ o.M @ o.psi.T @ o.H.T, o.D),
    "Eq. 47": lambda o: (
        o.A @ o.M @ o.A.T,
        o.P + o.A_tilde @ o.P + o.P @ o.A_tilde.T + o.A @ o.K @ o.D @ o.K.T @ o.A.T,
    ),
    "Eq. 48": lambda o: (o.A @ o.M @ o.A.T @ o.H.T, (o.I + o.A @ o.K @ o.H) @ o.P @ o.A.T @ o.H.T),
    "Eq. 49": lambda o: (o.mass_matrix, o.innovations_factor @ o.D @ o.innovations_factor.T),
    "Eq. 50": lambda o: (o.innovations_factor @ o.innovations_inverse, o.I_v),
    "Eq. 51": lambda o: (o.mass_matrix @ o.mass_matrix_inverse, o.I_v),
    "Eq. 60": lambda o: (o.Omega, o.A.T @ o.H.T @ o.mass_matrix_inverse @ o.H @ o.A),
    "Partition Eq. 22": lambda o: (
        o.Upsilon,
        (o.E_psi.T @ o.Upsilon @ o.E_psi).diagonal_part() + o.H.T @ o.D.inverse @ o.H,
    ),
}


ZERO = ("Eq. 38, H tau bar", "Eq. 39")  # both sides vanish in some systems: relative to what cancels


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sweep(3)
def test_identities(name: str, law: str) -> None:
    """As matrices, and in products with vectors, where no matrix is made."""
    o = given(name)
    left, right = LAWS[law](o)
    scale = max(size(term) for term in (*left.terms, *right.terms, *([o.H @ o.A] if law in ZERO else [])))
    assert size(floats(left) - floats(right)) <= LAW * scale
    rng = np.random.default_rng(1)
    x = rng.normal(size=left.shape[1])
    y = rng.normal(size=left.shape[0])
    vectors = [term @ x for term in (*left.terms, *right.terms)] + [
        term.T @ y for term in (*left.terms, *right.terms)
    ]
    scale = max(scale, *map(size, vectors), 1.0)
    assert size(left @ x - right @ x) <= LAW * scale and size(left.T @ y - right.T @ y) <= LAW * scale


@pytest.mark.parametrize("name", NAMES)
def test_factors_are_triangular_and_determinants_follow(name: str) -> None:
    """Corollary 6.1, Eq. 52 and 53. Parents come first here, so that what is lower triangular there is upper
    triangular.
    """
    o = given(name)
    order = np.concatenate([np.arange(b.start, b.stop) for b in o.velocities.slices])
    for factor in (o.innovations_factor, o.innovations_inverse):
        matrix = floats(factor)[np.ix_(order, order)]
        assert close(np.diag(matrix), np.ones(len(matrix))) and np.isclose(np.linalg.det(matrix), 1.0)
        assert (np.abs(np.tril(factor.pattern(), -1)) == 0).all()
        for k in range(len(o.rows)):
            assert close(factor.block(k, k), np.eye(o.velocities.rows_of(k)))
    blocks = [np.linalg.slogdet(o.D.block(k, k))[1] for k in range(len(o.rows))]
    assert np.isclose(sum(blocks), np.linalg.slogdet(floats(o.mass_matrix))[1], rtol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_forward_dynamics_in_operators(name: str) -> None:
    """Lemma 12, Eq. 54 to 58, against M θ̈ + C = T with dense matrices."""
    o = given(name)
    d = Dense(o)
    rng = np.random.default_rng(2)
    T = rng.normal(size=o.velocities.size)
    C = d.H @ d.A @ (d.M @ d.A.T @ o.a + o.b)
    expected = np.linalg.solve(d.mass, T - C)
    L = o.innovations_inverse
    found = L.T @ (o.D.inverse @ (T - o.H @ (o.psi @ (o.K @ T + o.P @ o.a + o.b)))) - o.K.T @ (o.psi.T @ o.a)
    scale = size(np.linalg.inv(d.mass)) * max(size(C), size(T))
    assert close(found, expected, scale)
    z = o.psi @ (o.K @ T + o.P @ o.a + o.b)
    eps = T - o.H @ z
    z_plus = z + o.G @ eps  # Eq. 58
    assert close(z, o.E_A @ z_plus + o.P @ o.a + o.b, size(z_plus))
    alpha = o.A.T @ (o.H.T @ found + o.a)
    alpha_plus = o.E_A.T @ alpha
    assert close(found, o.D.inverse @ eps - o.G.T @ alpha_plus, scale)
    assert close(alpha, alpha_plus + o.H.T @ found + o.a, size(alpha))


@pytest.mark.parametrize("name", NAMES)
def test_lyapunov_products_of_two_operators(name: str) -> None:
    """Lemmas 3 and 5 and all cases of Algorithm 4.3, block by block: different A and B, and an X that is not
    symmetric.
    """
    o = given(name)
    A = floats(o.A)
    psi = floats(o.psi)
    X = floats(o.tau)
    forward = o.A @ o.tau @ o.psi.T
    backward = o.A.T @ o.tau @ o.psi
    assert close(forward, A @ X @ psi.T, size(A) * size(psi) * size(X))
    assert close(backward, A.T @ X @ psi, size(A) * size(psi) * size(X))
    assert close(o.A @ o.A.T, A @ A.T) and close(o.psi.T @ o.A, psi.T @ A, size(psi) * size(A))
    for Z, dense in ((forward, A @ X @ psi.T), (backward, A.T @ X @ psi)):
        for i, rows in enumerate(o.rows.slices):
            for j, columns in enumerate(o.rows.slices):
                assert close(Z.block(i, j), dense[rows, columns], size(dense))
    Y = backward.diagonal_part()
    assert close(Y, o.tau + (o.E_A.T @ Y @ o.E_psi).diagonal_part(), size(Y))  # Eq. 22
    Y = forward.diagonal_part()
    assert close(Y, o.tau + o.E_A @ Y @ o.E_psi.T, size(Y))  # Eq. 12


def test_products_with_vectors_take_linear_time() -> None:
    """Gathers and scatters, never dense: equal operations for each body; also for diagonals of Lyapunov
    products.
    """

    def operations(n: int, what: str) -> int:
        model = lw.robots.chain(n)

        def product(q: Any, x: Any) -> Any:
            o = lw.operators(model, q)
            made = {
                "A": lambda: o.A @ x,
                "psi": lambda: o.psi.T @ x,
                "R": lambda: o.R.entry(0, 0),
                "D": lambda: o.D @ x[:n],
            }
            return made[what]()

        return len(lw.trace(product, {"q": n, "x": 6 * n}).code)

    for what in ("A", "psi", "R", "D"):
        few, more, most = (operations(n, what) for n in (8, 12, 16))
        assert most - more <= 1.05 * (more - few), what


def test_operators_inside_a_trace_are_those_of_numbers() -> None:
    model = forest(np.random.default_rng(4))
    q, v = model.random_state(1)
    n = lw.operators(model, q).rows.size
    x = np.random.default_rng(0).normal(size=n)

    def f(q: Any, v: Any, x: Any) -> Any:
        o = lw.operators(model, q, v)
        return (
            o.psi.T @ (o.H.T @ (o.D.inverse @ (o.H @ (o.psi @ x)))),
            o.mass_matrix.dense(),
            o.A.T @ o.a,
            2.0 * (o.K.T @ x),
        )

    kernel = lw.compile(f, {"q": model.nq, "v": model.nv, "x": n})
    o = lw.operators(model, q, v)
    for found, expected in zip(
        kernel(q, v, x), (o.Omega @ x, o.mass_matrix.dense(), o.A.T @ o.a, 2.0 * (o.K.T @ x))
    ):
        assert close(found, expected, size(expected))


def test_accelerations_and_forces_are_those_of_inverse_dynamics() -> None:
    model = forest(np.random.default_rng(5))
    rng = np.random.default_rng(0)
    q, v = model.random_state(rng)
    acceleration = rng.normal(size=model.nv)
    f_ext = rng.normal(size=(len(model.bodies), 6))
    o = lw.operators(model, q, v, f_ext)
    f = o.A @ (o.M @ (o.A.T @ (o.H.T @ acceleration + o.a)) + o.b)
    assert close(o.H @ f + o.passive_force, lw.inverse_dynamics(model, q, v, acceleration, f_ext))
    V = o.A.T @ (o.H.T @ v)
    for k, body in enumerate(model.bodies):
        assert close(
            V[o.rows.slices[k]][:6], lw.frame_velocity(model, q, v, frame=body.name, reference="body")
        )


def test_segments_and_pictures() -> None:
    """SKO Fig. 3 to 6: branches 1 to 3 at the tips, 4 below the first two, 5 at the base."""
    parents = [-1, 0, 1, 2, 3, 4, 3, 1, 7]  # 5: 0 1; 4: 2 3; 1: 4 5; 2: 6; 3: 7 8
    model = make(np.random.default_rng(0), parents, ["revolute"] * 9, fixed=False, name="tree of figure 3")
    o = lw.operators(model, model.neutral())
    names = [joint.name for joint in model.joints]
    assert {tuple(names.index(n) for n in segment) for segment in o.segments} == {
        (0, 1),
        (2, 3),
        (4, 5),
        (6,),
        (7, 8),
    }
    mass = o.mass_matrix.pattern()
    related = floats(o.A) != 0
    assert mass.shape == (9, 9)
    first = o.segments[2][0]
    third = o.segments[4][0]
    assert not mass[names.index(first), names.index(third)] and mass[0].all() and mass[:, 0].all()
    blocks = related.reshape(9, 6, 9, 6).any(axis=(1, 3)) if not any(o._armature_rows) else None
    assert blocks is None or (mass == (blocks | blocks.T)).all()
    assert o.Omega.pattern().all()  # one tree: fully populated
    text = str(o.A.sparsity())
    assert text.count("X") == o.A.pattern().sum() and "·" in text and f"of {81} blocks" in text
    _, *drawn = text.splitlines()
    assert len({len(line) for line in drawn}) == 1  # lines around all cells
    picture = o.A.sparsity().svg()
    assert picture.startswith("<svg") and picture.count("<rect") == 1 + o.A.pattern().sum()
    assert (o.E_A.sparsity().filled.sum(axis=0) <= 1).all()
    two = lw.operators(forest(np.random.default_rng(1)), forest(np.random.default_rng(1)).neutral())
    assert not two.Omega.pattern().all() and not two.Omega.block(0, len(two.rows) - 1).any()


def test_what_does_not_fit_is_told() -> None:
    model = lw.robots.arm()
    q, _ = model.random_state(0)
    o = lw.operators(model, q)
    other = lw.operators(model, q)
    with pytest.raises(LinkworkError, match="not compatible"):
        o.A @ other.M
    with pytest.raises(LinkworkError, match="not compatible"):
        o.A + other.A
    with pytest.raises(LinkworkError, match="generalised velocities are not stacked node vectors"):
        o.G @ o.A
    with pytest.raises(ShapeError, match="rows"):
        o.A @ np.zeros(3)
    with pytest.raises(ShapeError, match="q has shape"):
        lw.operators(model, q[:2])
    with pytest.raises(ShapeError, match="q is missing"):
        lw.operators(model)
    with pytest.raises(ModelError, match="model"):
        lw.operators("arm", q)  # type: ignore[arg-type]
    with pytest.raises(LinkworkError, match="no inverse"):
        o.K.inverse  # noqa: B018
    with pytest.raises(LinkworkError, match="no block named"):
        o.A.block("nowhere", 0)
    with pytest.raises(TypeError):
        o.A + 1.0  # type: ignore[operator]
    with pytest.raises(LinkworkError, match="no frame"):
        o.B("nowhere")
    with pytest.raises(LinkworkError, match="no b"):
        lw.operators(hinge_tree(model, q)).b  # noqa: B018


# functions that compile


MODELS = {
    "arm": lw.robots.arm,
    "four_bar": lw.robots.four_bar,
    "tello": lw.robots.tello,
    "forest": lambda: forest(np.random.default_rng(6)),
    "boom": lambda: boom(np.random.default_rng(6)),
}


@cache
def model_of(name: str) -> Any:
    return MODELS[name]()


def states(model: Any, n: int) -> np.ndarray:
    rng = np.random.default_rng(8)
    if isinstance(model, lw.sko.Tree):
        return rng.normal(size=(n, model.nq))
    return np.stack([model.random_state(rng)[0] for _ in range(n)])


def blocks_of(M: np.ndarray, o: Operators) -> np.ndarray:
    """The block-diagonal matrix whose rows are given without what is zero around each block."""
    whole = np.zeros((len(M), len(M)))
    for own in o.rows.slices:
        whole[own, own] = M[own, : own.stop - own.start]
    return whole


@pytest.mark.parametrize("name", MODELS)
def test_functions_of_the_mass_matrix(name: str) -> None:
    """Determinants, products, solutions and factors, run on plain numbers, against NumPy on the mass matrix."""
    model = model_of(name)
    q = states(model, 1)[0]
    x = np.random.default_rng(9).normal(size=model.nv)
    M = floats(lw.mass_matrix.body(model, q))
    inverse = np.linalg.inv(M)
    scale = size(inverse)
    sign, logarithm = np.linalg.slogdet(M)
    for method in ("articulated_body", "mass_matrix"):
        assert np.isclose(
            lw.mass_matrix_log_determinant.body(model, q, method=method), logarithm, rtol=1e-11, atol=1e-11
        )
        assert np.isclose(
            lw.mass_matrix_determinant.body(model, q, method=method), sign * np.exp(logarithm), rtol=1e-10
        )
        assert close(lw.mass_matrix_solve.body(model, q, x, method=method), inverse @ x, scale)
    assert close(lw.mass_matrix_product.body(model, q, x), M @ x)
    HA, packed = lw.newton_euler_factors.body(model, q)
    assert close(HA @ blocks_of(floats(packed), lw.operators(model, q)) @ HA.T, M)
    L, D = lw.innovations_factors.body(model, q)
    L_inverse, D_inverse = lw.innovations_factors.body(model, q, inverse=True)
    assert close(L @ D @ L.T, M) and close(L @ L_inverse, np.eye(model.nv), size(L))
    assert close(L_inverse.T @ D_inverse @ L_inverse, inverse, scale)
    for inverted, factor in ((False, L), (True, L_inverse)):
        for transpose in (False, True):
            found = lw.innovations_product.body(model, q, x, inverse=inverted, transpose=transpose)
            assert close(found, (factor.T if transpose else factor) @ x, size(factor))


@pytest.mark.parametrize("name", ["arm", "four_bar", "boom"])
def test_functions_compile_and_take_batches(name: str) -> None:
    model = model_of(name)
    q = states(model, 3)
    x = np.random.default_rng(9).normal(size=(3, model.nv))
    M = lw.mass_matrix(model, q)
    assert np.allclose(
        lw.mass_matrix_log_determinant(model, q), np.linalg.slogdet(M)[1], rtol=1e-11, atol=1e-11
    )
    assert close(
        lw.mass_matrix_solve(model, q, x), np.linalg.solve(M, x[..., None])[..., 0], size(np.linalg.inv(M))
    )
    assert close(lw.innovations_product(model, q, lw.innovations_product(model, q, x), inverse=True), x)
    L, D = lw.innovations_factors(model, q)
    assert close(L @ D @ np.swapaxes(L, 1, 2), M)
    one = lw.mass_matrix_log_determinant(model, q[1])
    assert one == lw.mass_matrix_log_determinant(model, q)[1]  # the same bits alone and in a batch


def test_determinant_and_products_are_linear() -> None:
    for function in (
        lw.mass_matrix_log_determinant,
        lw.mass_matrix_product,
        lw.mass_matrix_solve,
        lw.innovations_product,
    ):
        few, more, most = (lw.count_operations(function, lw.robots.chain(n))["total"] for n in (20, 40, 60))
        assert most - more <= 1.02 * (more - few), function.__name__


FRAMES = {"arm": 2, "four_bar": 2, "tello": 3, "forest": 4}


@pytest.mark.parametrize("name", FRAMES)
def test_operational_compliance_of_any_frames(name: str) -> None:
    """B* Ω B against J M⁻¹ J*: all cases of Algorithm 4.3, frames on the same body, and one that cannot move."""
    model = model_of(name)
    q = states(model, 1)[0]
    frames = [
        model.bodies[-1].name,
        model.bodies[0].name,
        *(f.name for f in model.frames[1 : FRAMES[name]]),
        "world",
    ]
    frames = list(dict.fromkeys(frames))
    J = np.concatenate(
        [floats(lw.frame_jacobian.body(model, q, frame=frame, reference="body")) for frame in frames]
    )
    expected = J @ np.linalg.solve(floats(lw.mass_matrix.body(model, q)), J.T)
    found = floats(lw.operational_compliance.body(model, q, frames=frames))
    assert close(found, expected, size(expected)) and np.array_equal(found, found.T)
    part = lw.operational_compliance.body(model, q, frames=frames[:1], columns=frames[1:])
    assert close(part, expected[:6, 6:], size(expected))
    o = lw.operators(model, q)
    assert close(o.compliance(*frames).block(frames[0], frames[1]), expected[:6, 6:12], size(expected))
    assert close(o.Upsilon, o.Omega.diagonal_part())


def test_operational_inertia_block_by_block() -> None:
    model = lw.robots.quadruped()
    q = states(model, 1)[0]
    frames = tuple(model.bodies[k].name for k in (3, 6, 9))
    J = np.concatenate([floats(lw.frame_jacobian.body(model, q, frame=f, reference="body")) for f in frames])
    compliance = J @ np.linalg.solve(lw.mass_matrix(model, q), J.T)
    assert close(lw.operators(model, q).compliance(*frames), compliance, size(compliance))
    frames = frames[:2]
    expected = np.linalg.inv(compliance[:12, :12])
    o = lw.operators(model, q)
    inertia = o.operational_inertia(*frames)
    assert size(floats(inertia) - expected) <= 1e-9 * size(expected)
    assert np.abs(inertia.block(frames[1], frames[0]) - expected[6:, :6]).max() <= 1e-9 * size(expected)
    x = np.ones(12)
    assert size(o.compliance(*frames) @ (inertia @ x) - x) < 1e-8
    for method in ("sweeps", "factorisation"):
        found = lw.operational_inertia.body(model, q, frames=frames, method=method)
        assert size(found - expected) <= 1e-9 * size(expected)
    with pytest.raises(LinkworkError, match="cannot move"):
        o.operational_inertia(frames[0], "world").dense()


def test_compliance_of_frames_of_custom_trees() -> None:
    tree = boom(np.random.default_rng(2))
    q = states(tree, 2)
    J = lw.frame_jacobian(tree, q, frame="tip")
    expected = J @ np.linalg.solve(lw.mass_matrix(tree, q), np.swapaxes(J, 1, 2))
    assert close(lw.operational_compliance(tree, q, frames="tip"), expected)
    assert close(
        lw.operational_inertia(tree, q, frames="tip"), np.linalg.inv(expected), size(np.linalg.inv(expected))
    )


def test_blocks_of_segments() -> None:
    """SKO Eq. 61 to 63 on a random tree: connectors of segments, and A between related ones as a product
    along the path.
    """
    model = random_model(np.random.default_rng(5), 9)
    o = lw.operators(model, model.random_state(0)[0])
    assert sorted(name for names in o.segments for name in names) == sorted(o.rows.names)
    below = {
        s: next((p for p in o.segments if o.E_A.blocks(p, s).any() and p != s), None) for s in o.segments
    }
    for s in o.segments:
        for p in o.segments:
            wanted = o.A.blocks(s, s)
            at = s
            while at != p and below[at] is not None:
                parent = below[at]
                connector = o.E_A.blocks(parent, at)
                filled = [(i, j) for i in parent for j in at if o.E_A.block(i, j).any()]
                assert filled == [(parent[-1], at[0])]
                wanted = o.A.blocks(parent, parent) @ connector @ wanted
                at = parent
            assert np.allclose(o.A.blocks(p, s), wanted if at == p else 0.0)
    order = [name for names in reversed(o.segments) for name in names]
    places = np.concatenate([np.arange(o.rows.size)[o.rows.slices[o.rows.place(name)]] for name in order])
    assert np.array_equal(o.A.blocks(order, order), o.A.dense()[np.ix_(places, places)])


def test_frames_on_the_ground_have_no_compliance() -> None:
    """No force moves them, whatever they are called, and they have no inertia."""
    builder = lw.ModelBuilder("hinge").add_body("leaf", mass=1.0, center=(0.3, 0.0, 0.0), inertia=(1, 1, 1))
    builder.add_joint("hinge", lw.joints.Revolute((0, 0, 1)), parent="world", child="leaf", xyz=(1, 0, 0))
    model = builder.add_frame("post", body="world", xyz=(1, 2, 3)).build()
    q = [0.3]
    alone = lw.operational_compliance(model, q, frames="leaf")
    both = lw.operational_compliance(model, q, frames=("post", "leaf"))
    assert not both[:6].any() and not both[:, :6].any() and np.array_equal(both[6:, 6:], alone)
    assert not lw.operational_compliance(model, q, frames="leaf", columns="post").any()
    for name in ("post", "world"):
        with pytest.raises(lw.ModelError, match=f"frame '{name}' is fixed to the ground"):
            lw.operational_inertia(model, q, frames=("leaf", name))
