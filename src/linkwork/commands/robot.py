"""The argument that names a robot: a file, or one that ships with linkwork or is installed; and numbers for its joints."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkwork.commands.terminal import working
from linkwork.errors import LinkworkError, ModelError
from linkwork.parts.names import did_you_mean, shown

if TYPE_CHECKING:
    import numpy as np

    from linkwork.model import Model


def add_robot(parser: argparse.ArgumentParser) -> None:
    """The robot, and how its file is read."""
    from linkwork import robots

    parser.add_argument("robot", help=f"a file, one of an installed package (g1, mjlab/g1), or {', '.join(robots.names())}")
    parser.add_argument(
        "--xacro", action="append", default=[], metavar="NAME=VALUE", help="an argument of a xacro file, which is a program"
    )
    parser.add_argument("--base", choices=("fixed", "free"), help="how the root link stands (as the file says, or fixed)")
    parser.add_argument("--strict", action="store_true", help="refuse inertias that are not physically consistent")
    parser.add_argument(
        "--loops",
        choices=("embed", "constrain", "auto"),
        default="embed",
        help="how loops are closed: embedded in the coordinates, held by forces, or each as is cheaper (embed)",
    )


def load_robot(args: argparse.Namespace) -> Model:
    """The robot that the arguments name; LinkworkError, with what may have been meant, where there is none."""
    import linkwork as lw

    name: str = args.robot
    arguments = _xacro_arguments(name, args.xacro)
    with working(f"reading {shown(name)}"):
        if name in lw.robots.names():
            model: Model = getattr(lw.robots, name)()
            return lw.choose_loops(model, args.loops) if args.loops != "embed" and model.loops else model
        if not os.path.exists(name):
            _refuse_missing(name)
        try:
            said: dict[str, Any] = {} if args.base is None else {"base": args.base}
            said |= {"arguments": arguments} if arguments else {}
            return lw.load(name, strict=args.strict, loops=args.loops, **said)
        except LinkworkError as error:
            if os.path.exists(name) or os.path.basename(name) != name or os.path.splitext(name)[1]:
                raise
            hint = did_you_mean(name, lw.robots.names())
            more = "" if hint else f"; {error}"  # of robots in installed packages
            raise LinkworkError(
                f"there is no file {name!r}, nor does a robot of that name ship with linkwork{hint}{more}"
            ) from None


def _xacro_arguments(file: str, given: list[str]) -> dict[str, str]:
    """Values by name, from words such as arm=true; ModelError for other words, and for files that are no xacro."""
    if given and os.path.splitext(file)[1].lower() != ".xacro":
        raise ModelError(f"--xacro is for files named .xacro, and {shown(file)!r} is none")
    found: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ModelError(f"--xacro takes NAME=VALUE, not {shown(word)!r}")
        found[name.removesuffix(":")] = value  # ROS writes name:=value
    return found


def _refuse_missing(name: str) -> None:
    """ModelError for a file that is not there, where one beside it has a similar name."""
    folder, file = os.path.split(name)
    if not folder and not os.path.splitext(file)[1]:
        return
    try:
        beside = sorted(os.listdir(folder or "."))
    except OSError:
        return
    hint = did_you_mean(file, beside)
    if hint:
        raise ModelError(f"there is no file {name!r}{hint}")


def joint_values(model: Model, given: Iterable[str], what: str) -> dict[str, float]:
    """Numbers by the name of a joint or of a velocity, from words such as knee=0.5; ModelError for what is none."""
    found: dict[str, float] = {}
    names = [name for joint in model.joints for name in (joint.name, *joint.v_names)]
    for word in given:
        name, equals, number = word.rpartition("=")
        if not equals:
            raise ModelError(f"{what} takes JOINT=NUMBER, not {shown(word)!r}")
        if name not in names:
            raise ModelError(f"{what}: {shown(model.name)} has no joint named {name!r}{did_you_mean(name, names)}")
        try:
            found[name] = float(number)
        except ValueError:
            raise ModelError(f"{what}: {shown(number)!r} is not a number, for joint {name!r}") from None
    return found


def as_velocities(model: Model, given: dict[str, float], what: str) -> np.ndarray:
    """These numbers in the places of v, (nv,); ModelError for a joint whose motion a loop determines."""
    import numpy as np

    v = np.zeros(model.nv)
    for name, value in given.items():
        if name not in model.v_names:
            raise ModelError(
                f"{what}: joint {name!r} is no entry of v: a loop determines it, or it has several; v has "
                f"{', '.join(model.v_names[:12])}{' ...' if model.nv > 12 else ''}"
            )
        v[model.v_names.index(name)] = value
    return v


def configuration(model: Model, given: dict[str, float]) -> np.ndarray:
    """The neutral state with these independent coordinates and all loops closed, (nq,)."""
    import linkwork as lw

    q = model.neutral()
    if not given:
        return q
    motion = as_velocities(model, given, "--set")
    here = lw.difference(model, model.tree_neutral(), q)
    for k in motion.nonzero()[0]:
        motion[k] -= here[k]
    with working(f"moving {shown(model.name)}"):
        parts = max(1, int(abs(motion).max() / 0.05) + 1)
        for _ in range(parts):
            q = lw.integrate(model, q, motion / parts)
    for name, value in given.items():  # exactly what was given, not a sum of steps
        joint = next(joint for joint in model.joints if name in joint.v_names)
        if joint.nq == joint.nv:
            q[joint.q_start + joint.v_names.index(name)] = value
    return lw.close_loops(model, q)[0] if model.loops else q


def written(path: str | os.PathLike[str]) -> Path:
    """A path whose folder is there: it is made where it is not."""
    found = Path(path)
    found.parent.mkdir(parents=True, exist_ok=True)
    return found


def as_json(value: Any) -> str:
    """JSON of a value without NaN and infinities, which it does not know: they become null."""
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
