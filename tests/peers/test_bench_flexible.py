"""`python -m papers flexible`: its table is written, and its chain is the one of the robots' kind."""

from __future__ import annotations

import csv

import pytest

from linkwork.cli.measure import CALL_OPERATIONS, states_in_a_call
from papers import exudyn_chain as peer
from papers.__main__ import main
from papers.exudyn_chain import exudyn_chain
from papers.flexible import Sizes, chains, gap


def test_bench_flexible_writes_its_table(tmp_path, capsys):
    assert main(["flexible", "--quick", "--out", str(tmp_path)]) == 0
    with (tmp_path / "flexible.csv").open(encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head[:4] == ["bodies", "modes a body", "nv", "operations"]
    assert [row[:3] for row in rows[:-1]] == [["2", "2", "6"], ["5", "2", "15"]]
    assert (tmp_path / "flexible.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "Chains of flexible bodies" in capsys.readouterr().out


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
@pytest.mark.parametrize("operations", [50, 1000, 13_581, 60_000, 2_000_000])
def test_a_timed_call_is_short_however_long_the_program(operations, lanes):
    few, many = states_in_a_call(operations, lanes)
    assert few * operations <= max(CALL_OPERATIONS, 16 * operations)
    assert many / lanes * operations <= max(
        CALL_OPERATIONS, 64 * operations
    )  # else other programs interrupt every call
    assert 16 <= few <= 256 and 64 * lanes <= many <= 4096 and many % lanes == 0


@pytest.mark.parametrize("gone", [{"exudyn", "scipy"}, {"scipy"}], ids=["both", "scipy only"])
def test_without_the_packages_of_the_peer_the_bench_says_so_and_goes_on(monkeypatch, gone):
    monkeypatch.setattr(peer, "find_spec", lambda name: None if name in gone else object())
    found = chains(Sizes(((2, 1),), turns=0), "a note")
    assert [row[7:] for row in found.rows] == [(None,) * 6]
    assert found.remarks == (
        f"Exudyn is not measured, since {' and '.join(sorted(gone))} cannot be imported: pip install exudyn scipy.",
    )


def test_the_chain_of_the_bench_is_the_same_system_in_exudyn():
    if peer.missing():
        pytest.skip("exudyn or scipy is not installed: pip install exudyn scipy")
    assert gap(exudyn_chain(3, 3), 3, 3) < 1e-6
