"""The command `linkwork`.

One function per subcommand, listed in GROUPS: it adds the arguments to the subcommand's parser and returns
the function that runs it (parsed arguments in, exit status out). Its name is that of the subcommand, its
docstring the help. Modules are imported when a subcommand runs, so that `linkwork --help` stays quick.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from linkwork.cli.parser import Parser, assignment, count, port, seconds
from linkwork.cli.robot import add_robot, as_json
from linkwork.cli.terminal import Paint
from linkwork.errors import LinkworkError
from linkwork.mechanism.names import plain
from linkwork.version import __version__

Run = Callable[[argparse.Namespace], int]


def _deferred(module: str) -> Run:
    """Return a function that imports a module of this package and calls its `run`."""

    def run(args: argparse.Namespace) -> int:
        status: int = importlib.import_module(f"linkwork.cli.{module}").run(args)
        return status

    return run


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def bench(parser: argparse.ArgumentParser) -> Run:
    """Measure operations and times of the dynamics of a robot."""
    parser.add_argument(
        "name",
        nargs="?",
        default="humanoid",
        metavar="ROBOT",
        help="file or shipped robot (default: humanoid)",
    )
    parser.add_argument(
        "--base", choices=("fixed", "free"), help="base of the root link (default: as in the file, or fixed)"
    )
    parser.add_argument("--quick", action="store_true", help="measure with fewer repetitions")
    _add_json(parser)
    return _deferred("bench")


def cache(parser: argparse.ArgumentParser) -> Run:
    """Show, check or clear the cache of compiled kernels."""
    actions = ("show", "verify", "clear", "path")
    parser.add_argument("action", nargs="?", choices=actions, default="show", help="action (default: show)")
    _add_json(parser)
    parser.epilog = (
        "LINKWORK_CACHE chooses the cache: a folder, ro: and a folder for read-only, or off. "
        "LINKWORK_CACHE_TRUSTED names users whose folder may be read beside your own and root's."
    )

    def run(args: argparse.Namespace) -> int:
        from linkwork.cli.cache import run as run_cache

        return run_cache(args.action, json=args.json)

    return run


def compare(parser: argparse.ArgumentParser) -> Run:
    """Compare the dynamics of a robot with Pinocchio and MuJoCo, if installed."""
    add_robot(parser)
    parser.add_argument(
        "--states",
        type=count,
        default=64,
        metavar="N",
        help="number of random states to compare (default: 64)",
    )
    _add_json(parser)
    return _deferred("compare")


def completion(parser: argparse.ArgumentParser) -> Run:
    """Print the completion script of a shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell")

    def run(args: argparse.Namespace) -> int:
        from linkwork.cli.completion import script

        print(script(make_parser(), args.shell), end="")
        return 0

    return run


def demo(parser: argparse.ArgumentParser) -> Run:
    """Run a demonstration: bipeds with parallel ankles, or somersaults."""
    parser.add_argument(
        "demonstration",
        nargs="?",
        choices=("biped", "somersaults"),
        default="biped",
        help="demonstration (default: biped)",
    )
    parser.add_argument(
        "--out", default="out", metavar="FOLDER", help="folder of films, motions and pictures (default: out)"
    )

    def run(args: argparse.Namespace) -> int:
        module = importlib.import_module(
            f"linkwork.cli.{'demo' if args.demonstration == 'somersaults' else args.demonstration}"
        )
        status: int = module.run(Path(args.out))
        return status

    return run


def export(parser: argparse.ArgumentParser) -> Run:
    """Export functions of a robot as C99, or the robot as URDF or MJCF."""
    add_robot(parser)
    parser.add_argument("--format", choices=("c", "urdf", "mjcf"), default="c", help="output (default: c)")
    parser.add_argument(
        "--function",
        default="forward_dynamics",
        metavar="NAMES",
        help="functions, separated by commas (default: forward_dynamics)",
    )
    parser.add_argument(
        "--freestanding", action="store_true", help="generate code that does not use the C library"
    )
    parser.add_argument("--frame", metavar="NAME", help="frame of functions such as frame_jacobian")
    parser.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="number type (default: float64)"
    )
    parser.add_argument("--meshes", metavar="FOLDER", help="folder of the mesh files that MJCF refers to")
    parser.add_argument(
        "--allow-loss", action="append", default=[], metavar="NAME", help="feature to omit in URDF or MJCF"
    )
    parser.add_argument("--out", default="out", metavar="FOLDER", help="folder of the files (default: out)")
    _add_json(parser)
    return _deferred("export")


def info(parser: argparse.ArgumentParser) -> Run:
    """Check a robot: its tree, loops and clusters, problems, and the cost of its dynamics."""
    add_robot(parser)
    parser.add_argument(
        "--operations", action="store_true", help="also count the operations of the dynamics by kind"
    )
    parser.add_argument("--quick", action="store_true", help="do not count operations")
    parser.add_argument(
        "--graph", metavar="FILE", help="write a graph of bodies, joints, loops and clusters as SVG"
    )
    _add_json(parser)
    return _deferred("info")


def simulate(parser: argparse.ArgumentParser) -> Run:
    """Simulate a robot, or many at once, and write the motion."""
    add_robot(parser)
    parser.add_argument(
        "--duration", type=seconds, default=2.0, metavar="S", help="duration [s] (default: 2)"
    )
    parser.add_argument("--dt", type=seconds, default=1e-3, metavar="S", help="step [s] (default: 0.001)")
    methods = ("semi_implicit_euler", "rk4", "rk45", "implicit_midpoint", "linearly_implicit_euler")
    methods_help = (
        "integrator (default: rk4; with --contact: semi_implicit_euler); rk45 is adaptive, implicit_midpoint "
        "conserves energy, linearly_implicit_euler is for stiff springs"
    )
    parser.add_argument("--integrator", choices=methods, help=methods_help)
    parser.add_argument(
        "--contact",
        action="store_true",
        help="simulate contact of shapes with the ground and each other, and joint limits",
    )
    parser.add_argument(
        "--rows",
        type=count,
        default=1,
        metavar="N",
        help="number of robots (default: 1); all but the first start in random states",
    )
    for option, text in (
        ("--set", "initial value of an independent coordinate [rad or m]"),
        ("--speed", "initial velocity [rad/s or m/s]"),
        ("--force", "constant joint force [N m or N]"),
    ):
        parser.add_argument(
            option, action="append", type=assignment, default=[], metavar="JOINT=VALUE", help=text
        )
    parser.add_argument(
        "--every",
        type=seconds,
        default=0.02,
        metavar="S",
        help="interval between recorded states [s] (default: 0.02)",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="write time, states and forces of all rows into an .npz file"
    )
    parser.add_argument(
        "--film",
        metavar="FILE",
        help="write a film of the first row (.gif, .mp4) or a picture of its poses (.svg)",
    )
    _add_json(parser)
    return _deferred("simulate")


def study(parser: argparse.ArgumentParser) -> Run:
    """Run a parameter study from a TOML or Python file, or show its results."""
    parser.add_argument("action", choices=("run", "show"), help="run FILE, or show FOLDER")
    parser.add_argument("place", metavar="FILE|FOLDER", help="FILE.py or FILE.toml to run, FOLDER to show")
    parser.add_argument(
        "--folder", metavar="FOLDER", help="folder of the results; an interrupted run is resumed from it"
    )
    parser.add_argument(
        "--executor",
        choices=("threads", "processes", "ray"),
        default="threads",
        help="executor (default: threads)",
    )
    parser.add_argument(
        "--workers", type=count, metavar="N", help="number of parallel threads, processes or Ray tasks"
    )
    parser.add_argument("--address", metavar="ADDRESS", help="address of a Ray cluster")
    parser.add_argument(
        "--pictures",
        metavar="FOLDER",
        help="write plots of distributions and pairs, and films of extreme samples",
    )
    _add_json(parser)
    parser.epilog = "Folders of studies contain pickles: open only folders that you trust."
    return _deferred("study")


def view(parser: argparse.ArgumentParser) -> Run:
    """Show a robot, or play a motion, in the browser."""
    add_robot(parser)
    parser.add_argument("--log", metavar="FILE", help="motion to play, written by linkwork simulate --out")
    parser.add_argument("--row", type=int, default=0, metavar="N", help="row of the motion (default: 0)")
    parser.add_argument(
        "--folder", action="append", default=[], help="additional folder from which meshes may be read"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=port, default=8080, help="first port to try (default: 8080)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=None,
        metavar="S",
        help="time to serve [s] (default: until Ctrl-C)",
    )
    return _deferred("view")


GROUPS: tuple[tuple[str, tuple[Callable[[argparse.ArgumentParser], Run], ...]], ...] = (
    ("Robots", (info, view, compare)),
    ("Simulation", (simulate, study)),
    ("Code and performance", (export, bench, cache)),
    ("Getting started", (demo, completion)),
)

COMMANDS = tuple(command for _, group in GROUPS for command in group)

EXAMPLES = {
    "bench": "linkwork bench arm --quick",
    "cache": "linkwork cache verify",
    "compare": "linkwork compare robot.urdf --states 10",
    "completion": 'eval "$(linkwork completion bash)"',
    "demo": "linkwork demo --out out",
    "export": "linkwork export arm --function mass_matrix,forward_dynamics --out out",
    "info": "linkwork info robot.urdf --base free",
    "simulate": "linkwork simulate arm --duration 5 --set shoulder_pitch=0.5 --out motion.npz",
    "study": "linkwork study run study.py --folder rows",
    "view": "linkwork view arm --log motion.npz",
}

EXIT_STATUS = """exit status:
  0  success
  1  negative result: unsound model, differences, rows or samples that failed
  2  invalid command line
  3  error: an input cannot be read or is invalid, or a file cannot be written"""

SUCCESS = 0
NEGATIVE = 1
ERROR = 3
INTERRUPTED = 130  # 128 + SIGINT, as of shells


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog="linkwork",
        description="Multibody dynamics of robots and mechanisms, with closed loops and contact.",
        usage="linkwork [-h] [-V] COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"linkwork {__version__}")
    commands = parser.add_subparsers(
        metavar="COMMAND", dest="command", prog="linkwork", help=argparse.SUPPRESS
    )
    overview = []
    for title, group in GROUPS:
        overview.append(f"{title}:")
        for command in group:
            text = " ".join((command.__doc__ or "").split())
            sub = commands.add_parser(
                command.__name__,
                help=text,
                description=text,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            sub.set_defaults(run=command(sub), parser=sub)
            notes = [sub.epilog] if sub.epilog else []
            sub.epilog = "\n\n".join([*notes, f"example:\n  {EXAMPLES[command.__name__]}", EXIT_STATUS])
            overview.append(
                f"  {command.__name__:<12}{text.partition('. ')[0].partition(':')[0].rstrip('.')}"
            )
        overview.append("")
    parser.epilog = "\n".join(
        [
            *overview,
            "Run 'linkwork help COMMAND' for options and examples.",
            "",
            "example:",
            f"  {EXAMPLES['info']}",
        ]
    )
    helper = commands.add_parser("help", help="Describe a command.", description="Describe a command.")
    helper.add_argument("topic", nargs="?", metavar="COMMAND", help="command to describe")
    helper.set_defaults(parser=helper)
    return parser


def _print_help(parser: Parser, topic: str | None) -> int:
    """Print the help of a command, or the overview."""
    words = [topic, "--help"] if topic else ["--help"]
    try:
        parser.parse_args(words)
    except SystemExit as stop:
        return int(stop.code or SUCCESS)
    return SUCCESS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, see `EXIT_STATUS`."""
    parser = make_parser()
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        getattr(args, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    if args.command in (None, "help"):
        return _print_help(parser, getattr(args, "topic", None))
    run: Run = args.run
    if hasattr(sys.stdout, "reconfigure"):  # names that the terminal cannot show must not raise
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has closed its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NEGATIVE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (LinkworkError, OSError) as error:
        _report(error, args)
        return ERROR


def _report(error: Exception, args: argparse.Namespace) -> None:
    """Print an error to stderr; with --json also an object to stdout."""
    if getattr(args, "json", False):
        values = {"sound": False, "error": str(error)} if args.command == "info" else {"error": str(error)}
        print(as_json(values))
    text = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    first, *others = map(plain, f"linkwork: {text}".split("\n"))
    print("\n".join([Paint(sys.stderr)(first, "red"), *others]), file=sys.stderr)
