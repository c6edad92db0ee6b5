"""Arguments that name a robot and values of its joints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkwork.cli.terminal import working
from linkwork.errors import LinkworkError, ModelError
from linkwork.mechanism.names import did_you_mean, printable

if TYPE_CHECKING:
    import numpy as np

    from linkwork.model import Model


def add_robot(parser: argparse.ArgumentParser) -> None:
    """Add the robot and the options of loading it."""
    from linkwork import robots

    parser.add_argument(
        "robot",
        help="file (URDF, SDF, MJCF, xacro), robot of an installed package (g1, mjlab/g1), or shipped robot: "
        f"{', '.join(robots.names())}",
    )
    parser.add_argument(
        "--xacro",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="argument of a xacro file; such files are programs",
    )
    parser.add_argument(
        "--base", choices=("fixed", "free"), help="base of the root link (default: as in the file, or fixed)"
    )
    parser.add_argument(
        "--strict", action="store_true", help="reject inertias that are not physically consistent"
    )
    parser.add_argument(
        "--loops",
        choices=("embed", "constrain", "auto"),
        default="embed",
        help="embed loops in the coordinates (default), enforce them by constraint forces, or choose the "
        "cheaper method for each loop",
    )


def load_robot(args: argparse.Namespace) -> Model:
    """Return the robot that the arguments name; raise with a suggestion if there is none."""
    import linkwork as lw

    name: str = args.robot
    arguments = _xacro_arguments(name, args.xacro)
    with working(f"reading {printable(name)}"):
        if name in lw.robots.names():
            _reject_file_options(args)
            model: Model = getattr(lw.robots, name)()
            return lw.choose_loops(model, args.loops) if args.loops != "embed" and model.loops else model
        if not os.path.exists(name):
            _check_path(name)
        try:
            options: dict[str, Any] = {} if args.base is None else {"base": args.base}
            options |= {"arguments": arguments} if arguments else {}
            return lw.load(name, strict=args.strict, loops=args.loops, **options)
        except LinkworkError as error:
            if os.path.exists(name) or os.path.basename(name) != name or os.path.splitext(name)[1]:
                raise
            hint = did_you_mean(name, lw.robots.names())
            if hint:
                raise LinkworkError(f"{name!r} is neither a file nor a shipped robot{hint}") from None
            raise LinkworkError(f"{error}; 'linkwork help info' lists the shipped robots") from None


def _reject_file_options(args: argparse.Namespace) -> None:
    """Raise if options that apply to files only are given for a shipped robot."""
    for option, is_given in (("--base", args.base is not None), ("--strict", args.strict)):
        if is_given:
            raise ModelError(f"{option}: expected a file, got the shipped robot {args.robot!r}")


def _xacro_arguments(file: str, words: list[str]) -> dict[str, str]:
    """Return values by name from words such as arm=true.

    Raise for other words and for files that are not xacro.
    """
    if words and os.path.splitext(file)[1].lower() != ".xacro":
        raise ModelError(f"--xacro: expected a file named .xacro, got {printable(file)!r}")
    arguments: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ModelError(f"--xacro: expected NAME=VALUE, got {printable(word)!r}")
        arguments[name.removesuffix(":")] = value  # ROS writes name:=value
    return arguments


def _check_path(name: str) -> None:
    """Raise if the path of a file does not exist; suggest a similar file beside it.

    Words without an extension may name a robot of an installed package, with a folder too.
    """
    folder, file = os.path.split(name)
    has_extension = bool(os.path.splitext(file)[1])
    if not folder and not has_extension:
        return
    try:
        neighbours = sorted(os.listdir(folder or "."))
    except OSError:
        neighbours = []
    hint = did_you_mean(file, neighbours)
    if hint or has_extension:
        raise ModelError(f"{printable(name)}: file not found{hint}")


def joint_values(model: Model, words: Iterable[str], option: str) -> dict[str, float]:
    """Return numbers by names of joints or velocities from words such as knee=0.5; raise for unknown names.

    The words are those that `linkwork.cli.parser.assignment` accepts.
    """
    values: dict[str, float] = {}
    names = [name for joint in model.joints for name in (joint.name, *joint.v_names)]
    for word in words:
        name, _, number = word.rpartition("=")
        if name not in names:
            raise ModelError(
                f"{option}: {printable(model.name)} has no joint named {name!r}{did_you_mean(name, names)}"
            )
        values[name] = float(number)
    return values


def as_velocities(model: Model, values: dict[str, float], option: str) -> np.ndarray:
    """Return values by name as v, (nv,); raise for a joint whose motion is determined by a loop."""
    import numpy as np

    v = np.zeros(model.nv)
    for name, value in values.items():
        if name not in model.v_names:
            raise ModelError(
                f"{option}: joint {name!r} is not a component of v: a loop determines it, or it has several "
                f"components; v has {', '.join(model.v_names[:12])}{' ...' if model.nv > 12 else ''}"
            )
        v[model.v_names.index(name)] = value
    return v


def configuration(model: Model, values: dict[str, float]) -> np.ndarray:
    """Return the neutral configuration with these independent coordinates and closed loops, (nq,)."""
    import linkwork as lw

    q = model.neutral()
    if not values:
        return q
    motion = as_velocities(model, values, "--set")
    current = lw.difference(model, model.tree_neutral(), q)
    for k in motion.nonzero()[0]:
        motion[k] -= current[k]
    with working(f"moving {printable(model.name)}"):
        parts = max(1, int(abs(motion).max() / 0.05) + 1)
        for _ in range(parts):
            q = lw.integrate(model, q, motion / parts)
    for name, value in values.items():  # exactly what was given, not a sum of steps
        joint = next(joint for joint in model.joints if name in joint.v_names)
        if joint.nq == joint.nv:
            q[joint.q_start + joint.v_names.index(name)] = value
    return lw.close_loops(model, q)[0] if model.loops else q


def output_path(path: str | os.PathLike[str]) -> Path:
    """Return a path for writing; a missing folder is created, with a note on stderr."""
    target = Path(path)
    make_folder(target.parent)
    return target


def make_folder(folder: Path) -> None:
    """Create a folder if it is missing, with a note on stderr."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"linkwork: created folder {printable(str(folder))}", file=sys.stderr)


def as_json(value: Any) -> str:
    """Return JSON of a value; NaN and infinities, which JSON lacks, become null."""
    import json

    return json.dumps(_finite(value), indent=2, allow_nan=False, ensure_ascii=True)


def _finite(value: Any) -> Any:
    import numpy as np

    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _finite(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value
