"""Find tests that may notice an error in a line of linkwork.

They are those that execute it, according to records, and test files that share rare names with its module.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import Counter, defaultdict
from math import log, sqrt
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/linkwork"
RECORDS = ROOT / "build/mutants"
MOVED = 0  # stands for the lines of a file that has changed since they were measured


class Suite:
    """Which quick tests may notice an error."""

    def __init__(self, patterns: list[str]) -> None:
        self.files = sorted({path for pattern in patterns for path in (ROOT / "tests").rglob(pattern)})
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()  # without an error
        self.passed: set[str] = set()
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.measured: set[str] = set()
        for path in self.files:
            record = record_of(path)
            if record.exists():
                self._add(json.loads(record.read_text()))
                self.measured.add(node_of(path))
        self.names = Names(self.files)

    def _add(self, record: dict[str, Any]) -> None:
        self.seconds |= record["seconds"]
        self.failed |= set(record["failed"])
        for file, lines in record["lines"].items():
            path = ROOT / SOURCE / file
            same = path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == record["digests"][file]
            for line, names in lines.items():
                self.lines[file][int(line) if same else MOVED].update(names)

    def related(self, file: str, line: int, seconds: float, files: int) -> list[str]:
        """Return the tests and test files that may notice an error in a line, likely ones first, within
        limits of time and number.
        """
        of_file = self.lines.get(file, {})
        of_line = of_file.get(line, set()) | of_file.get(MOVED, set())
        of_line = of_line or set().union(*of_file.values())  # a module's own lines are executed by its import
        touched = Counter(name for names in of_file.values() for name in names)
        likely = sorted(of_line, key=lambda name: (self.seconds[name] / touched[name], name))
        chosen = []
        spent = 0.0
        for name in likely:
            if name not in self.failed and spent + self.seconds[name] <= seconds:
                chosen.append(name)
                spent += self.seconds[name]
        unmeasured = [name for name in self.names.ranked(file, line) if name not in self.measured]
        return [
            name for name in chosen + unmeasured[:files] if not {name, name.partition("::")[0]} & self.failed
        ]


class Names:
    """Names that test files and modules share, by which tests of a module are guessed."""

    def __init__(self, files: list[Path]) -> None:
        self.tests = {node_of(path): words(node_of(path) + path.read_text()) for path in files}
        self.rarity = Counter(word for names in self.tests.values() for word in names)
        self.sources = {
            path.relative_to(ROOT / SOURCE).as_posix(): path.read_text()
            for path in sorted((ROOT / SOURCE).rglob("*.py"))
        }

    def ranked(self, file: str, line: int) -> list[str]:
        """Return all test files, those first that share the rarest names with the definitions around a line,
        its module and its importers.
        """
        weights: dict[str, float] = defaultdict(float)
        for name in definitions(self.sources[file], line):
            weights[name] += 4.0
        imported = {file}
        for weight in (1.0, 0.5, 0.25):
            for each in imported:
                for name in (Path(each).stem, *Path(each).parts[:-1], *definitions(self.sources[each])):
                    weights[name] = max(weights[name], weight)
            modules = [f"linkwork.{each.removesuffix('.py').replace('/', '.')}" for each in imported]
            imported = {
                other
                for other, text in self.sources.items()
                if not other.endswith("__init__.py")
                and any(f"{module} import" in text or f"import {module}" in text for module in modules)
            }
        folders, stem = split_name(Path(file))
        count = len(self.tests)
        scores = {}
        for test, names in self.tests.items():
            shared = sum(weights[name] * log(count / self.rarity[name]) for name in weights.keys() & names)
            test_folders, test_stem = split_name(Path(test))
            alike = len(folders & test_folders) + 3 * len(stem & test_stem)
            scores[test] = (1.0 + alike) * shared / sqrt(len(names))
        return sorted(scores, key=lambda test: (-scores[test], test))


def split_name(path: Path) -> tuple[set[str], set[str]]:
    """Return the words in the names of a file's folders and in its own name, in the singular."""
    folders, stem = (
        {word.rstrip("s") for word in re.split("[/_]", text)} for text in (str(path.parent), path.stem)
    )
    return folders, stem


def words(text: str) -> set[str]:
    """Return the names in a text."""
    return set(re.findall(r"[A-Za-z_]\w+", text))


def definitions(source: str, line: int | None = None) -> list[str]:
    """Return the names of functions and classes that a module defines, or of those around a line."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and (line is None or node.lineno <= line <= (node.end_lineno or 0))
        and not node.name.startswith("__")
    ]


def node_of(path: Path) -> str:
    """Return a test file as pytest names it."""
    return path.relative_to(ROOT).as_posix()


def record_of(path: Path) -> Path:
    """Return the file in which the lines executed by the tests of a file are kept."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return (
        RECORDS
        / f"{path.relative_to(ROOT / 'tests').with_suffix('').as_posix().replace('/', '.')}.{digest}.json"
    )
