"""`linkwork bench flexible`: its table is written, and its chain is the one of the robots' kind."""

from __future__ import annotations

import csv

from linkwork.commands.cli import main


def test_bench_flexible_writes_its_table(tmp_path, capsys):
    assert main(["bench", "flexible", "--quick", "--out", str(tmp_path)]) == 0
    with (tmp_path / "flexible.csv").open(encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head[:4] == ["bodies", "modes a body", "nv", "operations"]
    assert [row[:3] for row in rows[:-1]] == [["2", "2", "6"], ["5", "2", "15"]]
    assert (tmp_path / "flexible.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "Chains of flexible bodies" in capsys.readouterr().out
