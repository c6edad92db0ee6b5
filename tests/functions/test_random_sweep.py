"""A share of the random comparisons of `random_sweep.py`."""

from __future__ import annotations

import pytest

from random_sweep import Tally, sweep


def check(tally: Tally) -> None:
    assert not tally.wrong, "\n".join(tally.wrong)
    assert sum(tally.refused.values()) < 0.01 * tally.compared.total()
    assert min(tally.compared.values()) > 0


def test_generated_mechanisms_agree_with_dense_algebra() -> None:
    check(sweep(500, seed=0, states=10))


@pytest.mark.slow
def test_many_generated_mechanisms_agree_with_dense_algebra() -> None:
    check(sweep(20_000, seed=1000, states=50))
