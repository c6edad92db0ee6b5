"""Check the subjects of commits that are not on the main branch: `python tools/commit_subjects.py [BASE]`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

MAX_SUBJECT_CHARACTERS = 72
NOT_IMPERATIVE = (
    "added",
    "adds",
    "changed",
    "changes",
    "fixed",
    "fixes",
    "removed",
    "removes",
    "updated",
    "updates",
)


def subject_problems(subjects: Iterable[str]) -> list[str]:
    """Return one line for each subject that is too long, ends with a period or is not imperative."""
    problems = []
    for subject in subjects:
        if len(subject) > MAX_SUBJECT_CHARACTERS:
            problems.append(
                f"{len(subject)} characters, expected at most {MAX_SUBJECT_CHARACTERS}: {subject}"
            )
        if subject.endswith("."):
            problems.append(f"ends with a period: {subject}")
        if subject.split(" ")[0].lower() in NOT_IMPERATIVE:
            problems.append(f"not imperative, as in 'Add' or 'Fix': {subject}")
    return problems


def new_subjects(base: str) -> list[str]:
    """Return the subjects of commits since `base`; none outside of a git checkout or without that branch."""
    command = ["git", "log", "--no-merges", "--format=%s", f"{base}..HEAD"]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.splitlines() if result.returncode == 0 else []


def main() -> int:
    problems = subject_problems(new_subjects(sys.argv[1] if len(sys.argv) > 1 else "main"))
    print("".join(f"commit subject: {problem}\n" for problem in problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
