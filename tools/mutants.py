"""Plant small errors in linkwork, one at a time, and see whether its quick tests notice: `make mutants N=100
SEED=0`.

Each error is planted in a copy of the working tree. It meets the tests that execute its line, those that
execute the least else first, then the other tests of these files, up to a number of seconds of processor
time. Which test executes what is measured once (`build/mutants/*.json`), and again for test files that have
changed. A seed and a source decide the errors.

    python tools/mutants.py 100 --seed 0 --source algorithms spatial --tests 'test_dyn*' test_joints.py
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from mutations import Mutation, apply, changes_meaning, mutations

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/linkwork"
COPIED = ("src", "tests", "tools", "docs", "bench", "pyproject.toml", "README.md", "CONTRIBUTING.md", "SECURITY.md",
          "CHANGELOG.md", "Makefile", "LICENSE")  # fmt: skip
UNREACHED = ("runtime/cuda/", "commands/bench/")  # that no test runs without a GPU, and measurements
MOVED = 0  # stands for the lines of a file that has changed since they were measured
LONGEST = 3600.0  # seconds of wall time after which a run of tests counts as hanging


class Planted(NamedTuple):
    """An error in a file of the source."""

    file: str
    mutation: Mutation


class Verdict(NamedTuple):
    """What became of an error: "found", "survived" or "not executed"; and which test found it."""

    word: str
    told: str = ""


class Suite:
    """Which quick tests execute which lines."""

    def __init__(self, patterns: list[str], copy: Path) -> None:
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        kept = ROOT / "build/mutants"
        kept.mkdir(parents=True, exist_ok=True)
        files = sorted({path for pattern in patterns for path in (ROOT / "tests").rglob(pattern)})
        for number, path in enumerate(files, 1):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            place = kept / f"{path.stem}.{digest}.json"
            if not place.exists():
                print(f"measuring what tests execute: {number} of {len(files)}, {path.name}", flush=True)
                for old in kept.glob(f"{path.stem}.*.json"):
                    old.unlink()
                run_tests(copy, [path.relative_to(ROOT / "tests").as_posix()], LINKWORK_LINES=str(place))
            if place.exists():
                self._add(json.loads(place.read_text()))

    def _add(self, found: dict[str, Any]) -> None:
        self.seconds |= found["seconds"]
        self.failed |= set(found["failed"])
        for file, lines in found["lines"].items():
            path = ROOT / SOURCE / file
            same = path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == found["digests"][file]
            for line, names in lines.items():
                self.lines[file][int(line) if same else MOVED].update(names)

    def related(self, file: str, line: int, seconds: float) -> list[str]:
        """The tests that may notice an error in a line, those that are likely to first, up to so many
        seconds.
        """
        of_file = self.lines.get(file, {})
        of_line = of_file.get(line, set()) | of_file.get(MOVED, set())
        of_line = of_line or set().union(*of_file.values())  # a module's own lines are executed by its import
        touched = Counter(name for names in of_file.values() for name in names)
        first = sorted(of_line, key=lambda name: (self.seconds[name] / touched[name], name))
        modules = {name.partition("::")[0] for name in of_line}
        rest = sorted(
            name for name in self.seconds if name.partition("::")[0] in modules and name not in of_line
        )
        chosen = []
        spent = 0.0
        for name in (*first, *rest):
            if name not in self.failed and spent + self.seconds[name] <= seconds:
                chosen.append(name)
                spent += self.seconds[name]
        return chosen


def run_tests(
    copy: Path, files: list[str], most: int = 10_000, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run quick tests of a copy, up to the first that fails if their order is given; `most` seconds of
    processor time.
    """
    paths = os.pathsep.join(
        map(str, (copy / "src", copy / "tools", *filter(None, [os.environ.get("PYTHONPATH")])))
    )
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0", **environment}
    options = ["-p", "executed_lines", "-p", "no:cacheprovider", "-m", "not slow", "--tb=no", "-rf"]
    first = ["-x"] if "LINKWORK_ORDER" in environment else []
    limit = partial(resource.setrlimit, resource.RLIMIT_CPU, (most, most))
    command = [sys.executable, "-m", "pytest", *options, *first, *(f"tests/{name}" for name in files)]
    return subprocess.run(
        command, cwd=copy, env=env, capture_output=True, text=True, timeout=LONGEST, preexec_fn=limit
    )


def copied(folder: Path) -> Path:
    """A copy of the working tree."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "_build")
            )
        elif (ROOT / name).exists():
            shutil.copy2(ROOT / name, folder / name)
    return folder


def chosen(count: int, seed: int, parts: list[str]) -> Iterator[Planted]:
    """So many errors at random places of some parts of the source, in an order that follows from the seed."""
    rng = random.Random(seed)
    sources = {}
    places = []
    for path in sorted((ROOT / SOURCE).rglob("*.py")):
        file = path.relative_to(ROOT / SOURCE).as_posix()
        if not file.startswith(UNREACHED) and (not parts or file.startswith(tuple(parts))):
            sources[file] = path.read_bytes()
            places += [Planted(file, mutation) for mutation in mutations(sources[file])]
    rng.shuffle(places)
    seen: set[tuple[str, int, int]] = set()
    for planted in places:
        file, mutation = planted
        place = (file, mutation.begin, mutation.end)
        if len(seen) < count and place not in seen and changes_meaning(sources[file], mutation):
            seen.add(place)
            yield planted


def verdict(planted: Planted, copy: Path, suite: Suite, seconds: float) -> Verdict:
    """Plant an error in a copy, run the related tests, and take it out again."""
    names = suite.related(planted.file, planted.mutation.line, seconds)
    if not names:
        return Verdict("not executed", "no quick test executes this file")
    path = copy / SOURCE / planted.file
    source = path.read_bytes()
    order = copy / "order.txt"
    order.write_text("\n".join(names))
    try:
        write(path, apply(source, planted.mutation))
        files = list(dict.fromkeys(name.partition("::")[0].removeprefix("tests/") for name in names))
        done = run_tests(copy, files, int(60 + 5 * seconds), LINKWORK_ORDER=str(order))
    except subprocess.TimeoutExpired:
        return Verdict("found", "tests hang")
    finally:
        write(path, source)
    if done.returncode == 0:
        unmet = not suite.lines[planted.file].get(planted.mutation.line)
        return Verdict(
            "survived", f"{len(names)} tests" + ", none of which is known to execute its line" * unmet
        )
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return Verdict("found", failed[0][:150] if failed else f"pytest ended with {done.returncode}")


def write(path: Path, source: bytes) -> None:
    """Write a module so that Python does not take its compiled code of before."""
    path.write_bytes(source)
    stamp = write.count = getattr(write, "count", 0) + 1  # type: ignore[attr-defined]
    os.utime(path, (stamp, stamp))


def shown(planted: Planted, source: bytes) -> str:
    """The error as a difference of two texts."""
    before, after = (text.decode().splitlines() for text in (source, apply(source, planted.mutation)))
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return "\n".join(f"    {line}" for line in lines if not line.startswith(("---", "+++", "@@")))


def main() -> None:
    """Plant, run and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--source", nargs="*", default=[], help="parts of src/linkwork that get errors, such as algorithms/"
    )
    parser.add_argument("--tests", nargs="*", default=["test_*.py"], help="patterns of files in tests/")
    parser.add_argument("--seconds", type=float, default=120.0, help="of tests for each error, as measured")
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    found = Counter[str]()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="linkwork-mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for k in range(asked.workers):
            copies.put(copied(Path(folder) / str(k)))
        first = copies.get()
        suite = Suite(asked.tests, first)
        copies.put(first)

        def judged(planted: Planted) -> tuple[Planted, str, Verdict]:
            copy = copies.get()
            try:
                change = shown(planted, (copy / SOURCE / planted.file).read_bytes())
                return planted, change, verdict(planted, copy, suite, asked.seconds)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(asked.workers) as pool:
            for planted, change, (word, told) in pool.map(
                judged, chosen(asked.count, asked.seed, asked.source)
            ):
                likely_equal = word == "survived" and planted.mutation.kind == "boundary"
                found[word] += 1
                found["perhaps equivalent"] += likely_equal
                print(f"{word + ' (perhaps equivalent)' * likely_equal}: {planted.file}:{planted.mutation.line}, "
                      f"{planted.mutation.kind} ({told})\n{change}", flush=True)  # fmt: skip
    ran = found["found"] + found["survived"]
    print(f"\nseed {asked.seed}: {ran + found['not executed']} errors, {found['found']} found, {found['survived']} survived, "
          f"{found['perhaps equivalent']} of these perhaps equivalent, {found['not executed']} in files that no test executes; "
          f"{100 * found['found'] / max(ran, 1):.0f} % of the others found, in {time.monotonic() - begin:.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
