"""The command `linkwork`.

One function per sub-command, named in COMMANDS: it takes the sub-command's parser, adds its arguments, and returns what
runs it (parsed arguments in, exit status out). Its name is the sub-command's name, its docstring the help. What a
sub-command needs is imported when it runs, so that `linkwork --help` stays quick.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from linkwork.errors import LinkworkError
from linkwork.parts.names import did_you_mean, plain

if TYPE_CHECKING:
    from linkwork.runtime.cache import Cache, Listed

Run = Callable[[argparse.Namespace], int]


def bench(parser: argparse.ArgumentParser) -> Run:
    """Measure: repeat the benchmarks of papers, on `loops` or on `constrained` dynamics, as tables, CSV files and pictures."""
    parser.add_argument("what", choices=("constrained", "loops"), help="what to measure")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="where the files go (out)")
    parser.add_argument("--quick", action="store_true", help="small mechanisms only, in seconds")

    def run(args: argparse.Namespace) -> int:
        chosen = importlib.import_module(f"linkwork.commands.bench.{args.what}")
        status: int = chosen.run(Path(args.out), quick=args.quick)
        return status

    return run


def cache(parser: argparse.ArgumentParser) -> Run:
    """Show, check or clear the cache of compiled kernels."""
    actions = {"show": _cache_show, "verify": _cache_verify, "clear": _cache_clear, "path": _cache_path}
    parser.add_argument("action", nargs="?", choices=tuple(actions), default="show", help="what to do (show)")
    parser.epilog = (
        "LINKWORK_CACHE chooses the cache: a folder, ro: and a folder for read-only, or off. "
        "LINKWORK_CACHE_TRUSTED names users whose folder may be read beside your own and root's."
    )

    def run(args: argparse.Namespace) -> int:
        from linkwork.runtime.cache import Cache

        return actions[args.action](Cache.default())

    return run


def demo(parser: argparse.ArgumentParser) -> Run:
    """Check and time the dynamics of a humanoid, and simulate 4096 somersaults."""
    parser.add_argument("--out", default="out", metavar="FOLDER", help="where the picture goes (out)")

    def run(args: argparse.Namespace) -> int:
        from linkwork.commands.demo import run as run_demo

        return run_demo(Path(args.out))

    return run


def info(parser: argparse.ArgumentParser) -> Run:
    """Say what a model file, or a robot that ships with linkwork, holds: bodies, joints, frames, everything unusual."""
    parser.add_argument("robot", help="a file, or one of: " + ", ".join(_robots().names()))
    parser.add_argument("--base", choices=("fixed", "free"), help="how root links of a file stand (as it says; URDF: fixed)")
    parser.add_argument("--strict", action="store_true", help="refuse inertias that are not physically consistent")
    parser.add_argument("--operations", action="store_true", help="count the operations of its dynamics too")
    parser.add_argument("--graph", metavar="FILE", help="draw bodies, joints, loops and clusters into an SVG file")

    def run(args: argparse.Namespace) -> int:
        import linkwork as lw

        shipped = args.robot in lw.robots.names()
        if not shipped and not os.path.splitext(args.robot)[1] and not os.path.exists(args.robot):
            hint = did_you_mean(args.robot, lw.robots.names())
            raise LinkworkError(f"there is no file {args.robot!r}, nor does a robot of that name ship with linkwork{hint}")
        model = getattr(lw.robots, args.robot)() if shipped else lw.load(args.robot, base=args.base, strict=args.strict)
        print(model.report())
        if args.graph:
            from linkwork.view import draw_graph

            draw_graph(model, args.graph)
            print(f"\nThe graph is in {plain(args.graph)}.")
        if args.operations and model.nv:
            print("\noperations")
            for function in (lw.inverse_dynamics, lw.mass_matrix, lw.forward_dynamics):
                counts = lw.count_operations(function, model)
                print(f"  {function.__name__:18}", "  ".join(f"{name} {n}" for name, n in counts.items() if n))
        return 0

    return run


def _robots() -> ModuleType:
    from linkwork import robots

    return robots


COMMANDS: tuple[Callable[[argparse.ArgumentParser], Run], ...] = (bench, cache, demo, info)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0 good, 1 a problem (told in one sentence), 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="linkwork", description="The dynamics of mechanisms, compiled.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        text = (command.__doc__ or "").strip()
        sub = commands.add_parser(command.__name__, help=text.splitlines()[0], description=text)
        sub.set_defaults(run=command(sub))
    args = parser.parse_args(argv)
    run: Run = args.run
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to fail
    try:
        status = run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except (LinkworkError, OSError) as error:
        print("\n".join(map(plain, f"linkwork: {error}".split("\n"))), file=sys.stderr)
        return 1


def _cache_show(cache: Cache) -> int:
    entries = cache.entries()
    print(f"folder   {plain(cache.folder) if cache.folder is not None else 'none'}")
    print(f"state    {_cache_state(cache)}")
    print(f"entries  {len(entries)}")
    print(f"size     {_bytes(cache.size())} of at most {_bytes(cache.limit_bytes)}")
    if entries:
        print()
        _table(("name", "dtype", "cpu", "size", "age"), [_cache_row(entry) for entry in entries])
    _print_notes(cache)
    return 0


def _cache_verify(cache: Cache) -> int:
    problems = cache.verify()
    for problem in problems:
        print(plain(problem))
    _print_notes(cache, known=problems)
    if not problems and cache.disabled_reason is not None:
        print(f"The cache is off: {plain(cache.disabled_reason)}.")
    elif not problems:
        print("All entries are good.")
    return 1 if problems else 0


def _cache_clear(cache: Cache) -> int:
    count = cache.clear()
    print(f"Removed {count} {'file' if count == 1 else 'files'}.")
    _print_notes(cache)
    return 1 if cache.notes else 0  # a note means that some file is still there


def _cache_path(cache: Cache) -> int:
    if cache.folder is None:
        print(f"linkwork: The cache is off: {plain(cache.disabled_reason)}.", file=sys.stderr)
        return 1
    print(cache.folder)
    return 0


def _cache_state(cache: Cache) -> str:
    if cache.disabled_reason is not None:
        return f"off: {plain(cache.disabled_reason)}"
    if not cache.read_only:
        return "on" if cache.folder is not None and cache.folder.exists() else "on (the folder is made when needed)"
    asked = os.environ.get("LINKWORK_CACHE", "").startswith("ro:")
    return f"read-only: {'LINKWORK_CACHE asks for it' if asked else 'the folder is not writable'}"


def _cache_row(entry: Listed) -> tuple[str, ...]:
    header = entry.header or {}
    named = [plain(header.get(field, "-")) for field in ("name", "dtype", "cpu")]
    return (*named, _bytes(entry.size), _age(time.time() - entry.used))


def _print_notes(cache: Cache, known: Sequence[str] = ()) -> None:
    notes = [note for note in cache.notes if note not in known]
    if notes:
        print("\nnotes")
    for note in notes:
        print(f"  {plain(note)}")


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    for row in (titles, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def _bytes(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def _age(seconds: float) -> str:
    for name, unit in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"
