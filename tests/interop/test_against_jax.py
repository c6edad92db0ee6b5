"""Derivatives of forward dynamics against JAX: maximal coordinates, with pins as constraints, and no code of
the library.

Bars in a plane are points and angles (x, y, φ); pins are equations of their coordinates. JAX differentiates
these twice for the constraint Jacobian and its rate, solves the KKT system, and differentiates the solution
along the closed motions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import linkwork as lw

pytestmark = pytest.mark.slow
G = 9.81
# of a bar, about its centre
MASS = 1.3
INERTIA = 0.07


def mechanism(name: str) -> tuple[lw.Model, list[tuple[int, Any, int, Any]], int]:
    """A linkage of bars that begin at their pins, and its pins as (body, point, body, point); body -1 is the
    ground.
    """
    lengths, ground = {
        "four bar": ([0.5, 1.0, 0.8], [(0.0, 0.0), (1.1, 0.0)]),
        "five bar": ([0.5, 0.9, 0.6, 0.8], [(0.0, 0.0), (0.7, 0.0)]),
    }[name]
    count = len(lengths)
    first = 2  # bars of the left chain; the others are the right one, which is hung on the second pivot
    b = lw.ModelBuilder(name, gravity=(0.0, -G, 0.0))
    pins: list[tuple[int, Any, int, Any]] = []
    for k, length in enumerate(lengths):
        on = "world" if k in (0, first) else f"bar{k - 1}"
        at = ground[0] if k == 0 else ground[1] if k == first else (lengths[k - 1], 0.0)
        b.add_body(f"bar{k}", mass=MASS, center=(0.5 * length, 0.0, 0.0), inertia=(0.01, INERTIA, INERTIA))
        b.add_joint(
            f"pin{k}",
            lw.joints.Revolute((0, 0, 1)),
            parent=on,
            child=f"bar{k}",
            xyz=(*at, 0.0),
            damping=0.1 * (k + 1),
        )
        pins.append((-1 if k in (0, first) else k - 1, np.array(at), k, np.zeros(2)))
    end = lw.joints.Revolute((0, 0, 1))
    ends = {"xyz": (lengths[first - 1], 0.0, 0.0), "successor_xyz": (lengths[-1], 0.0, 0.0)}
    b.add_loop("close", end, predecessor=f"bar{first - 1}", successor=f"bar{count - 1}", **ends)
    pins.append((first - 1, np.array([lengths[first - 1], 0.0]), count - 1, np.array([lengths[-1], 0.0])))
    angles = [1.2, -0.9, 1.5] if count == 3 else [1.9, -1.2, 1.2, 1.0]
    start = np.array(angles, dtype=float)
    return b.build(start=start), pins, count


class Maximal:
    """The same bars as points and angles, for JAX."""

    def __init__(self, jax: Any, model: lw.Model, pins: list[Any], count: int) -> None:
        self.jax = jax
        self.np = jax.numpy
        self.pins = pins
        self.count = count
        self.half = [float(body.center[0]) for body in model.bodies]
        self.names = list(model.v_names_spanning)
        self.independent = np.array([self.names.index(name) for name in model.v_names])
        self.first = 2

    def place(self, z: Any, body: int, at: Any) -> Any:
        if body < 0:
            return self.np.asarray(at)
        x = z.reshape(self.count, 3)[body]
        c = self.np.cos(x[2])
        s = self.np.sin(x[2])
        r = self.np.array([at[0] - self.half[body], at[1]])
        return x[:2] + self.np.array([c * r[0] - s * r[1], s * r[0] + c * r[1]])

    def gaps(self, z: Any) -> Any:
        return self.np.concatenate([self.place(z, a, p) - self.place(z, b, r) for a, p, b, r in self.pins])

    def angles(self, z: Any) -> Any:
        """The joints' angles: a bar's angle less that of what it hangs on."""
        phi = z.reshape(self.count, 3)[:, 2]
        return self.np.array(
            [phi[k] - (0.0 if k in (0, self.first) else phi[k - 1]) for k in range(self.count)]
        )

    def of_angles(self, q: Any) -> Any:
        """All coordinates from the joints' angles, one bar after the other."""
        out: list[Any] = []
        for k in range(self.count):
            on, at, _, _ = self.pins[k]
            phi = q[k] + (0.0 if on < 0 else out[on][2])
            so_far = self.np.stack(out).ravel() if out else self.np.zeros(0)
            x, y = self.place(self.np.concatenate([so_far, self.np.zeros(3 * (self.count - k))]), on, at)
            half = self.half[k]
            out.append(self.np.array([x + half * self.np.cos(phi), y + half * self.np.sin(phi), phi]))
        return self.np.stack(out).ravel()

    def acceleration(self, z: Any, w: Any, tau: Any) -> Any:
        """Of independent angles, under torques in these and damping in all joints."""
        jnp = self.np
        jacfwd = self.jax.jacfwd
        M = jnp.diag(jnp.tile(jnp.array([MASS, MASS, INERTIA]), self.count))
        A = jacfwd(self.gaps)(z)
        T = jacfwd(self.angles)(z)
        rate = lambda f: self.jax.jvp(lambda y: self.jax.jvp(f, (y,), (w,))[1], (z,), (w,))[1]  # noqa: E731  f̈ at z̈ = 0
        damping = 0.1 * jnp.arange(1, self.count + 1)
        force = T.T @ (jnp.zeros(self.count).at[self.independent].set(tau) - damping * (T @ w))
        force = force - jnp.tile(jnp.array([0.0, MASS * G, 0.0]), self.count)
        m = len(A)
        kkt = jnp.block([[M, A.T], [A, jnp.zeros((m, m))]])
        solved = jnp.linalg.solve(kkt, jnp.concatenate([force, -rate(self.gaps)]))
        return (T @ solved[: 3 * self.count] + rate(self.angles))[self.independent]

    def forward_dynamics(self, q: Any) -> Callable[[Any, Any, Any], Any]:
        """Accelerations as a function of independent angles beside q, their rates and torques: loops closed
        by Newton.
        """
        jnp = self.np
        jacfwd = self.jax.jacfwd
        n = len(self.independent)
        start = self.of_angles(jnp.asarray(q))

        def equations(z: Any, y: Any) -> Any:
            return jnp.concatenate(
                [self.gaps(z), self.angles(z)[self.independent] - jnp.asarray(q)[self.independent] - y]
            )

        def fd(y: Any, v: Any, tau: Any) -> Any:
            z = start
            for _ in range(3):  # each step adds an order of the derivative, at a solution
                z = z - jnp.linalg.solve(jacfwd(equations)(z, y), equations(z, y))
            K = jacfwd(equations)(z, y)
            w = jnp.linalg.solve(K, jnp.concatenate([jnp.zeros(len(K) - n), v]))
            return self.acceleration(z, w, tau)

        return fd


@pytest.mark.parametrize("name", ["four bar", "five bar"])
def test_forward_dynamics_and_its_derivatives(name: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    model, pins, count = mechanism(name)
    rng = np.random.default_rng(1)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    fd = Maximal(jax, model, pins, count).forward_dynamics(q)
    zero = np.zeros(model.nv)
    ours = lw.interpret(lw.lower(lw.forward_dynamics.program(model)), q, v, tau)
    assert np.allclose(ours, fd(zero, v, tau), rtol=1e-9, atol=1e-9)
    found = lw.interpret(lw.lower(lw.forward_dynamics_derivatives.program(model)), q, v, tau)
    right = jax.jacfwd(fd, argnums=(0, 1, 2))(zero, v, tau)
    for x, y in zip(found, right, strict=True):
        assert np.abs(x - y).max() < 1e-9 * max(1.0, np.abs(y).max())
