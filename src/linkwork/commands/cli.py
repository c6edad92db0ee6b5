"""The command `linkwork`.

One function per sub-command, named in COMMANDS: it takes the sub-command's parser, adds its arguments, and returns what
runs it (parsed arguments in, exit status out). Its name is the sub-command's name, its docstring the help. What a
sub-command needs is imported when it runs, so that `linkwork --help` stays quick.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from linkwork.commands.robot import add_robot, as_json
from linkwork.commands.terminal import Paint
from linkwork.errors import LinkworkError
from linkwork.parts.names import did_you_mean, plain
from linkwork.version import __version__

Run = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """A parser that says what may have been meant where a word is not one of its choices."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if found:
            message += did_you_mean(found[1], [word.strip(" '") for word in found[2].split(",")])
        unknown = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        if unknown:
            message += did_you_mean(unknown[1], sorted(self._options()))
        super().error(plain(message))

    def _options(self) -> set[str]:
        """All options, also those of sub-commands."""
        found = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                found |= {option for sub in action.choices.values() for option in sub._option_string_actions}
        return found


def _later(module: str) -> Run:
    """What runs the function `run` of a module of this room."""

    def run(args: argparse.Namespace) -> int:
        status: int = importlib.import_module(f"linkwork.commands.{module}").run(args)
        return status

    return run


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")


def bench(parser: argparse.ArgumentParser) -> Run:
    """Measure: benchmarks of papers on `loops` or `constrained` dynamics, `flexible` bodies, or the functions of a `robot`."""
    parser.add_argument("what", choices=("constrained", "flexible", "loops", "robot"), help="what to measure")
    parser.add_argument("name", nargs="?", default="humanoid", metavar="ROBOT", help="a file or a shipped robot (humanoid)")
    parser.add_argument("--base", choices=("fixed", "free"), help="how the root link stands (as the file says, or fixed)")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="where the files go (out)")
    parser.add_argument("--quick", action="store_true", help="small mechanisms only, in seconds")
    _add_json(parser)

    def run(args: argparse.Namespace) -> int:
        if args.what == "robot":
            return _later("bench.robot")(args)
        status: int = importlib.import_module(f"linkwork.commands.bench.{args.what}").run(Path(args.out), quick=args.quick)
        return status

    return run


def cache(parser: argparse.ArgumentParser) -> Run:
    """Show, check or clear the cache of compiled kernels."""
    actions = ("show", "verify", "clear", "path")
    parser.add_argument("action", nargs="?", choices=actions, default="show", help="what to do (show)")
    _add_json(parser)
    parser.epilog = (
        "LINKWORK_CACHE chooses the cache: a folder, ro: and a folder for read-only, or off. "
        "LINKWORK_CACHE_TRUSTED names users whose folder may be read beside your own and root's."
    )

    def run(args: argparse.Namespace) -> int:
        from linkwork.commands.cache import run as run_cache

        return run_cache(args.action, json=args.json)

    return run


def compare(parser: argparse.ArgumentParser) -> Run:
    """Compare a robot's dynamics with Pinocchio and MuJoCo, where they are installed."""
    add_robot(parser)
    parser.add_argument("--states", type=_count, default=64, metavar="N", help="random states to compare in (64)")
    _add_json(parser)
    return _later("compare")


def completion(parser: argparse.ArgumentParser) -> Run:
    """Print the completion script of a shell: eval "$(linkwork completion bash)"."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")

    def run(args: argparse.Namespace) -> int:
        from linkwork.commands.completion import script

        print(script(make_parser(), args.shell), end="")
        return 0

    return run


def demo(parser: argparse.ArgumentParser) -> Run:
    """Diagnose a biped with parallel ankles, swing 1024 of them, push some that stand, and film it; or 4096 somersaults."""
    parser.add_argument("what", nargs="?", choices=("biped", "somersaults"), default="biped", help="which demo (biped)")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="where film, motion and picture go (out)")

    def run(args: argparse.Namespace) -> int:
        module = importlib.import_module(f"linkwork.commands.{'demo' if args.what == 'somersaults' else args.what}")
        status: int = module.run(Path(args.out))
        return status

    return run


def export(parser: argparse.ArgumentParser) -> Run:
    """Write a function of a robot as C99 with a test and a CMake file, or the robot itself as URDF or MJCF."""
    add_robot(parser)
    parser.add_argument("--format", choices=("c", "urdf", "mjcf"), default="c", help="what to write (c)")
    parser.add_argument(
        "--function", default="forward_dynamics", metavar="NAMES", help="which function (forward_dynamics), or several: a,b"
    )
    parser.add_argument("--freestanding", action="store_true", help="C that needs no C library")
    parser.add_argument("--frame", metavar="NAME", help="the frame, for functions of one")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="the type of numbers (float64)")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="where the files go (out)")
    _add_json(parser)
    return _later("export")


def info(parser: argparse.ArgumentParser) -> Run:
    """Draw the tree of a robot with its loops and clusters, and say what is wrong or unusual in it and what costs most."""
    add_robot(parser)
    parser.add_argument("--operations", action="store_true", help="count the operations of its dynamics by kind, too")
    parser.add_argument("--quick", action="store_true", help="count no operations at all")
    parser.add_argument("--graph", metavar="FILE", help="draw bodies, joints, loops and clusters into an SVG file")
    _add_json(parser)
    parser.epilog = "The exit status is 0 where the robot is sound, and 1 where it is not or cannot be read."
    return _later("info")


def simulate(parser: argparse.ArgumentParser) -> Run:
    """Simulate a robot, from its neutral state or another, alone or many at once; write the motion for `linkwork view`."""
    add_robot(parser)
    parser.add_argument("--duration", type=_seconds, default=2.0, metavar="S", help="how long [s] (2)")
    parser.add_argument("--dt", type=_seconds, default=1e-3, metavar="S", help="the time step [s] (0.001)")
    methods = ("semi_implicit_euler", "rk4", "rk45", "implicit_midpoint", "linearly_implicit_euler")
    told = "(rk4); rk45 is adaptive, implicit_midpoint keeps energy, linearly implicit is for stiff springs"
    parser.add_argument("--integrator", choices=methods, help=f"{told}; with --contact it is semi_implicit_euler")
    parser.add_argument(
        "--contact", action="store_true", help="shapes touch the ground and each other, and limits of joints act"
    )
    parser.add_argument(
        "--rows", type=_count, default=1, metavar="N", help="robots at once, with random starts but the first (1)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="JOINT=VALUE", help="an independent coordinate at the start"
    )
    parser.add_argument("--speed", action="append", default=[], metavar="JOINT=VALUE", help="a velocity at the start")
    parser.add_argument(
        "--force", action="append", default=[], metavar="JOINT=VALUE", help="a joint force that acts all the time"
    )
    parser.add_argument("--every", type=_seconds, default=0.02, metavar="S", help="how often the state is kept [s] (0.02)")
    parser.add_argument("--out", metavar="FILE", help="write time, states and forces of all rows into an .npz file")
    parser.add_argument("--film", metavar="FILE", help="write a film of the first row: .gif or .mp4, or an .svg of moments")
    _add_json(parser)
    return _later("simulate")


def view(parser: argparse.ArgumentParser) -> Run:
    """Show a robot in the browser: sliders that keep loops closed, clusters, frames, forces; play a motion."""
    add_robot(parser)
    parser.add_argument("--log", metavar="FILE", help="a motion to play, as `linkwork simulate --out` writes it")
    parser.add_argument("--row", type=int, default=0, metavar="N", help="which robot of a motion of many (0)")
    parser.add_argument("--folder", action="append", default=[], help="where meshes may be read, beside the file's own folder")
    parser.add_argument("--host", default="127.0.0.1", help="who can reach it (127.0.0.1: this machine only)")
    parser.add_argument("--port", type=_port, default=8080, help="the first port to try (8080)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument("--seconds", type=_seconds, default=None, metavar="S", help="how long to serve (until Ctrl-C)")
    return _later("view")


def _count(text: str) -> int:
    number = int(text) if _WHOLE.fullmatch(text) else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"it must be a whole number of at least 1, not {text}")
    return number


def _port(text: str) -> int:
    number = int(text) if _WHOLE.fullmatch(text) else 0
    if not 1 <= number <= LAST_PORT:
        raise argparse.ArgumentTypeError(f"it must be a whole number from 1 to {LAST_PORT}, not {text}")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"it must be a positive number of seconds, not {text}")
    return number


_WHOLE = re.compile(r"[0-9]{1,18}")
LAST_PORT = 65_535


COMMANDS: tuple[Callable[[argparse.ArgumentParser], Run], ...] = (
    bench, cache, compare, completion, demo, export, info, simulate, view,
)  # fmt: skip


def make_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(prog="linkwork", description="The dynamics of mechanisms, compiled.")
    parser.add_argument("--version", action="version", version=f"linkwork {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        text = (command.__doc__ or "").strip()
        sub = commands.add_parser(command.__name__, help=text.splitlines()[0], description=text)
        sub.set_defaults(run=command(sub))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0 good, 1 a problem (told in one sentence), 2 wrong usage."""
    args = make_parser().parse_args(argv)
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
        _tell(error, args)
        return 1


def _tell(error: Exception, args: argparse.Namespace) -> None:
    """One sentence on stderr; with --json also an object on stdout."""
    if getattr(args, "json", False):
        print(as_json({"sound": False, "error": str(error)} if args.run.__name__ == "info" else {"error": str(error)}))
    text = (
        f"{error.filename}: {error.strerror}"
        if isinstance(error, OSError) and error.filename and error.strerror
        else str(error)
    )
    first, *rest = map(plain, f"linkwork: {text}".split("\n"))
    print("\n".join([Paint(sys.stderr)(first, "red"), *rest]), file=sys.stderr)
