"""Plant small errors in linkwork, one at a time, and check whether the quick tests notice them.

    make mutants N=100 SEED=0
    python tools/mutants.py 100 --seed 0 --source algorithms spatial --tests 'test_dyn*' test_joints.py

Each error is planted in a copy of the working tree. Related tests run until one fails or a limit of CPU time is
reached: first those known to execute the line, then the test files that share the rarest names with its module
and its importers. Executed lines are known for test files that `--measure` has run (`build/mutants/*.json`),
which takes a few times as long as the tests. Seed and source determine the errors.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from subprocess import TimeoutExpired
from typing import NamedTuple

from forked_tests import Run, run_pytest
from mutations import Mutation, apply, changes_meaning, mutations
from related_tests import RECORDS, ROOT, SOURCE, Suite, node_of, record_of

COPIED = ("src", "tests", "tools", "docs", "bench", "pyproject.toml", "README.md", "CONTRIBUTING.md", "SECURITY.md",
          "CHANGELOG.md", "Makefile", "LICENSE")  # fmt: skip
UNREACHED = ("compiler/runtime/cuda/", "cli/bench.py")  # that no test runs without a GPU, and measurements

WORDS = ("found", "survived", "perhaps equivalent", "undecided")


class Planted(NamedTuple):
    """An error in a file of the source."""

    file: str
    mutation: Mutation


class Verdict(NamedTuple):
    """What became of an error: "found", "survived", "undecided" at the time limit; and which test found it."""

    word: str
    note: str = ""


def measure(files: list[Path], copy: Path) -> None:
    """Record what the tests of files execute, unless it is recorded."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(files, 1):
        record = record_of(path)
        if record.exists():
            continue
        print(f"measuring what tests execute: {number} of {len(files)}, {node_of(path)}", flush=True)
        for old in RECORDS.glob(f"{record.name.split('.test_')[0]}.{path.stem}.*.json"):
            old.unlink()
        run_tests(copy, [node_of(path)], LINKWORK_LINES=str(record))


def run_tests(copy: Path, files: list[str], most: int = 3600, **environment: str) -> Run:
    """Run quick tests of a copy, up to the first that fails if their order is given; `most` seconds of
    processor time.
    """
    options = ["-p", "executed_lines", "-p", "no:cacheprovider", "-m", "not slow", "--tb=no", "-rfE", "-p", "no:randomly",
               "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip
    first = ["-x"] if "LINKWORK_ORDER" in environment else []
    return run_pytest(copy, [*options, *first, *files], most, environment)


def copied(folder: Path) -> Path:
    """Return a copy of the working tree."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "_build")
            )
        elif (ROOT / name).exists():
            shutil.copy2(ROOT / name, folder / name)
    return folder


def chosen(count: int, seed: int, parts: list[str]) -> Iterator[Planted]:
    """Yield errors at random places of some parts of the source, in an order determined by the seed."""
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


def verdict(planted: Planted, copy: Path, suite: Suite, seconds: float, files: int) -> Verdict:
    """Plant an error in a copy, run the related tests, and take it out again."""
    path = copy / SOURCE / planted.file
    source = path.read_bytes()
    while True:
        names = suite.related(planted.file, planted.mutation.line, seconds, files)
        known = sum("::" in name for name in names)
        others = ", ".join(name.removeprefix("tests/") for name in names if "::" not in name)
        note = f"{known} tests that execute its line; {others}"
        try:
            write(path, apply(source, planted.mutation))
            done = run_in_order(names, suite.failed, copy, int(60 + 5 * seconds))
        except TimeoutExpired:
            return Verdict("undecided", f"time limit, {note}")
        finally:
            write(path, source)
        if done.returncode == 0:
            return Verdict("survived", note)
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return Verdict("undecided", f"time limit, {note}")
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+\.py.*?)(?: - .*)?$", done.output, re.MULTILINE)
        if not failed and done.returncode == 1:
            raise RuntimeError(f"pytest did not run:\n{done.output}")
        if not failed:
            return Verdict("found", f"pytest ended with {done.returncode}")
        if failed[0] not in suite.passed:
            if run_in_order(failed, set(), copy, int(60 + 5 * seconds)).returncode:
                suite.failed.add(failed[0])  # without an error too
                continue
            suite.passed.add(failed[0])
        return Verdict("found", failed[0])


def run_in_order(names: list[str], excluded: set[str], copy: Path, most: int) -> Run:
    """Run tests and test files in this order, up to the first that fails."""
    order = copy / "order.txt"
    order.write_text("\n".join([*names, *(f"-{name}" for name in sorted(excluded))]))
    files = list(dict.fromkeys(name.partition("::")[0] for name in names))
    return run_tests(copy, files, most, LINKWORK_ORDER=str(order))


def write(path: Path, source: bytes) -> None:
    """Write a module so that Python does not take its compiled code of before."""
    path.write_bytes(source)
    stamp = write.count = getattr(write, "count", 0) + 1  # type: ignore[attr-defined]
    os.utime(path, (stamp, stamp))


def shown(planted: Planted, source: bytes) -> str:
    """Return the error as a difference of two texts."""
    before, after = (text.decode().splitlines() for text in (source, apply(source, planted.mutation)))
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return "\n".join(f"    {line}" for line in lines if not line.startswith(("---", "+++", "@@")))


def arguments() -> argparse.Namespace:
    """Return the arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="so many of them, which were judged before")
    parser.add_argument(
        "--source", nargs="*", default=[], help="parts of src/linkwork that get errors, such as algorithms/"
    )
    parser.add_argument("--tests", nargs="*", default=["test_*.py"], help="patterns of files in tests/")
    parser.add_argument("--measure", action="store_true", help="first record what all tests execute")
    parser.add_argument("--seconds", type=float, default=60.0, help="of measured tests for each error")
    parser.add_argument("--files", type=int, default=8, help="most test files that were not measured")
    parser.add_argument("--workers", type=int, default=1)
    return parser.parse_args()


def judge_all(args: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str]]:
    """Plant all errors in copies in a folder; yield each verdict, and a text about it, when it is known."""
    copies: SimpleQueue[Path] = SimpleQueue()
    for k in range(args.workers):
        copies.put(copied(folder / str(k)))
    if args.measure:
        first = copies.get()
        measure(Suite(args.tests).files, first)
        copies.put(first)
    suite = Suite(args.tests)

    def judged(number: int, planted: Planted) -> tuple[str, str]:
        copy = copies.get()
        file, mutation = planted
        try:
            change = shown(planted, (copy / SOURCE / file).read_bytes())
            word, note = verdict(planted, copy, suite, args.seconds, args.files)
        finally:
            copies.put(copy)
        if word == "survived" and mutation.kind == "boundary":
            word = "perhaps equivalent"
        return word, f"{word}: {number}, {file}:{mutation.line}, {mutation.kind} ({note})\n{change}"

    errors = enumerate(chosen(args.count, args.seed, args.source), 1)
    with ThreadPoolExecutor(args.workers) as pool:
        for future in as_completed(pool.submit(judged, *each) for each in islice(errors, args.skip, None)):
            yield future.result()


def main() -> None:
    """Plant, run and tell."""
    args = arguments()
    texts: dict[str, list[str]] = defaultdict(list)
    begin = time.monotonic()
    os.environ["PYTHONHASHSEED"] = "0"
    with tempfile.TemporaryDirectory(prefix="linkwork-mutants-") as folder:
        # kernels of programs that errors do not change are compiled once: the cache's key holds the compiler
        if "linkwork-tests-" not in os.environ.get("LINKWORK_CACHE", ""):
            os.environ["LINKWORK_CACHE"] = f"{folder}/linkwork-tests-cache"
        for word, text in judge_all(args, Path(folder)):
            texts[word].append(text)
            print(text, flush=True)
    found, survived, equal, undecided = (len(texts[word]) for word in WORDS)
    missed = [*texts["survived"], *texts["perhaps equivalent"], *texts["undecided"]]
    if missed:
        print("\nnot found:", *missed, sep="\n")
    decided = found + survived + equal
    print(f"\nseed {args.seed}: {decided + undecided} errors, {found} found, {survived + equal} survived, "
          f"{equal} of these perhaps equivalent, {undecided} undecided; "
          f"{100 * found / max(decided, 1):.0f} % of the decided found, in {time.monotonic() - begin:.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
