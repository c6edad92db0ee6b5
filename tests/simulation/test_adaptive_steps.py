"""Adaptive steps by themselves: the order of the pair, its error, and how long the next attempt is."""

from __future__ import annotations

import numpy as np
import pytest

from linkwork.simulation.adaptive import (
    MAX_GROWTH,
    MIN_GROWTH,
    SAFETY,
    A,
    Adaptive,
    C,
    E,
    adaptive_step,
    attempt,
    growth,
    relative,
)


def test_order_conditions_of_the_pair() -> None:
    """Butcher's conditions up to order 5 with the last stage's row as weights, and up to order 4 for the
    other formula (Hairer, Nørsett and Wanner, Table II.2.1).
    """
    a = np.array([[*row, *[0.0] * (7 - len(row))] for row in A])
    c = np.array(C)
    assert np.allclose(a.sum(axis=1), c, atol=1e-15)
    trees = {
        1: [(np.ones(7), 1.0)],
        2: [(c, 1 / 2)],
        3: [(c**2, 1 / 3), (a @ c, 1 / 6)],
        4: [(c**3, 1 / 4), (c * (a @ c), 1 / 8), (a @ c**2, 1 / 12), (a @ a @ c, 1 / 24)],
        5: [
            (c**4, 1 / 5), (c**2 * (a @ c), 1 / 10), ((a @ c) ** 2, 1 / 20), (c * (a @ c**2), 1 / 15),
            (c * (a @ a @ c), 1 / 30), (a @ c**3, 1 / 20), (a @ (c * (a @ c)), 1 / 40), (a @ a @ c**2, 1 / 60),
            (a @ a @ a @ c, 1 / 120),
        ],
    }  # fmt: skip
    for order, conditions in trees.items():
        for stages, expected in conditions:
            assert a[6] @ stages == pytest.approx(expected, abs=2e-16 * 50)
            if order < 5:
                assert abs(np.array(E) @ stages) < 1e-15
    assert max(abs(np.array(E) @ stages) for stages, _ in trees[5]) > 1e-4  # which tells the two apart


def test_an_attempt_is_of_order_five_and_knows_its_error() -> None:
    """Of ÿ = -y over parts of a step that begin in its middle; its error falls with h⁵."""

    def rates(y: np.ndarray, over: float) -> np.ndarray:
        return np.array([y[1], -y[0]])

    y = np.array([0.6, -0.8])
    exact = lambda t: np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]]) @ y  # noqa: E731
    off, told = [], []
    for part in (0.5, 0.25):
        after, error = attempt(rates, y, 0.5, part, 0.4)
        off.append(np.abs(after - exact(0.4 * part)).max())
        told.append(np.abs(error).max())
    assert off[0] / off[1] == pytest.approx(64.0, rel=0.15) and told[0] / told[1] == pytest.approx(
        32.0, rel=0.1
    )
    assert off[0] < told[0] < 1e-5


@pytest.mark.parametrize("power", range(5))
def test_polynomials_of_time_are_exact(power: int) -> None:
    """Rates are asked at the part of the whole step that has passed."""
    dt, over, part = 0.8, 0.3, 0.45
    after, error = attempt(lambda y, at: np.array([(dt * at) ** power]), np.zeros(1), over, part, dt)
    begin, end = dt * over, dt * (over + part)
    assert after[0] == pytest.approx((end ** (power + 1) - begin ** (power + 1)) / (power + 1), rel=1e-14)
    assert abs(error[0]) < 1e-16 if power < 4 else abs(error[0]) > 1e-7


def test_lengths_of_attempts() -> None:
    """An error at the tolerance calls for a little less; 32 times as much for about half; at most five times
    as long, and a fifth for what is no number.
    """
    assert growth(1.0) == pytest.approx(SAFETY)
    assert growth(32.0) == pytest.approx(SAFETY * 32.0 ** (-3.0 / 16.0))
    assert growth(0.0) == MAX_GROWTH and growth(1e9) == growth(np.nan) == growth(np.inf) == MIN_GROWTH
    assert np.all(np.diff([growth(x) for x in 10.0 ** np.linspace(-5.0, 5.0, 40)]) <= 0.0)
    tolerances = Adaptive(rtol=1e-3, atol=1e-6)
    before, after = np.array([1.0, -5.0, 0.0]), np.array([-2.0, 4.0, 0.0])
    assert relative([2e-3, 0.0, 0.0], before, after, tolerances) == pytest.approx(1.0, rel=1e-3)
    assert relative([0.0, -5e-3, 0.0], before, after, tolerances) == pytest.approx(1.0, rel=1e-3)
    assert relative([1e-9, 0.0, 3e-6], before, after, tolerances) == pytest.approx(3.0)
    assert np.isnan(relative([1.0, np.nan, 1.0], before, after, tolerances))


@pytest.mark.parametrize("rtol", [1e-4, 1e-8])
def test_a_step_is_divided_as_its_error_requires(rtol: float) -> None:
    """A whole revolution in one step, with an error near the tolerance; every accepted state is settled."""
    seen: list[float] = []

    def rates(y: np.ndarray, over: float) -> np.ndarray:
        return np.array([y[1], -y[0]])

    def settle(y: np.ndarray) -> np.ndarray:
        seen.append(float(y[0]))
        return y

    y = np.array([1.0, 0.0])
    end = np.asarray(adaptive_step(rates, settle, y, 2.0 * np.pi, Adaptive(rtol, 1e-3 * rtol)), dtype=float)
    off = np.abs(end - y).max()
    assert 1e-3 * rtol < off < 30.0 * rtol and len(seen) > (8 if rtol > 1e-6 else 40)
    stuck = adaptive_step(lambda y, over: np.nan * y, settle, np.ones(1), 1.0, Adaptive())
    assert np.isnan(float(stuck[0]))


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_attempts_that_leave_the_domain_are_repeated_with_a_shorter_length(order: list[int]) -> None:
    """Water that runs out of a tank, beside a clock: the whole step would ask for the root of a negative
    number.
    """

    def rates(y: np.ndarray, over: float) -> np.ndarray:
        height = float(y[order[0]])
        return np.array([-0.9 * np.sqrt(height) if height >= 0.0 else np.nan, 1.0])[order]

    end = adaptive_step(rates, lambda y: y, np.array([1.0, 0.0])[order], 2.0, Adaptive())
    assert np.allclose(np.asarray(end, dtype=float)[order], [(1.0 - 0.45 * 2.0) ** 2, 2.0], atol=1e-5)
