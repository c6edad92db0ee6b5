"""`make lint` checks the subjects of new commits."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from commit_subjects import MAX_SUBJECT_CHARACTERS, subject_problems


def test_good_subjects_pass() -> None:
    assert (
        subject_problems(
            ["Fix rotor lumping when joint placement is a parameter", "x" * MAX_SUBJECT_CHARACTERS]
        )
        == []
    )


def test_long_past_tense_and_period_are_reported() -> None:
    assert len(subject_problems(["x" * (MAX_SUBJECT_CHARACTERS + 1), "Added a joint", "Add a joint."])) == 3
