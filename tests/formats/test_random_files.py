"""Random files of what is valid and unusual, against the reference software of each format, or by the
specification.
"""

from __future__ import annotations

import pytest

from file_checks import CHECKS, FILES, compiled_here, sweep

QUICK = 10  # files of each format
MANY = 3000  # files of each format in the slow tests; tests/helpers/file_checks.py compares any number


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("format_", FILES)
def test_random_round_trips(format_: str, seed: int) -> None:
    make, check = CHECKS[f"{format_} round trips"]
    with compiled_here():
        check(make(seed))


@pytest.mark.slow
@pytest.mark.parametrize("format_", FILES)
def test_many_random_round_trips(format_: str) -> None:
    outcomes, wrong = sweep(f"{format_} round trips", MANY // 3, 2000)
    assert not wrong, wrong[:3]
    assert outcomes["compared"] > 0.06 * MANY, outcomes


@pytest.mark.parametrize("seed", range(QUICK))
@pytest.mark.parametrize("format_", FILES)
def test_random_files(format_: str, seed: int) -> None:
    make, check = CHECKS[format_]
    with compiled_here():
        check(make(seed))


@pytest.mark.slow
@pytest.mark.parametrize("format_", FILES)
def test_many_random_files(format_: str) -> None:
    outcomes, wrong = sweep(format_, MANY, 1000)
    assert not wrong, wrong[:3]
    assert outcomes["compared"] > 0.6 * MANY, outcomes
