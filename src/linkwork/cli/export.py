"""`linkwork export`: a function of a robot as C99, or the robot itself as a file."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import linkwork as lw
from linkwork.cli.robot import as_json, load_robot, output_path
from linkwork.cli.terminal import size_in_bytes, working
from linkwork.errors import ModelError
from linkwork.mechanism.names import did_you_mean, plain, printable

EXPECTED_FUNCTION = (
    "; expected a function of a model, such as forward_dynamics (see the API reference), or rollout"
)


def run(args: argparse.Namespace) -> int:
    """Write the files, and print which they are."""
    if args.format != "c":
        return _write_robot(args)
    if args.allow_loss:
        raise ModelError("--allow-loss: expected --format urdf or mjcf, got c")
    _check_meshes(args)
    functions = {name: _function(name) for name in args.function.split(",")}
    model = load_robot(args)
    options = {name: _options(name, function, args.frame) for name, function in functions.items()}
    with working(f"writing {args.function} of {printable(model.name)} as C"):
        try:
            export = _write(functions, model, args, options)
        except TypeError as error:
            raise ModelError(f"{args.function}: {error}") from None
    files = sorted(path for path in Path(args.out).iterdir() if path.is_file())
    if args.json:
        print(
            as_json(
                {
                    "function": args.function,
                    "header": str(export.header),
                    "files": [str(path) for path in files],
                }
            )
        )
        return 0
    for path in files:
        print(f"{plain(path)}  {size_in_bytes(path.stat().st_size)}")
    return 0


def _options(name: str, function: Any, frame: str | None) -> dict[str, Any]:
    """Return the options of a function: its frame, if it has one."""
    takes_frame = "frame" in getattr(function, "options", {})
    if takes_frame and frame is None:
        raise ModelError(f"--frame: expected the name of a frame, which {name} requires")
    return {"frame": frame} if takes_frame else {}


def _write(
    functions: dict[str, Any],
    model: lw.Model,
    args: argparse.Namespace,
    options: dict[str, dict[str, Any]],
) -> Any:
    """Write one function, or several as a library with the robot's name."""
    c_options: dict[str, Any] = {"dtype": args.dtype, "freestanding": args.freestanding}
    if len(functions) == 1:
        ((word, function),) = functions.items()
        return lw.export_c(function, model, args.out, **c_options, **options[word])
    name = re.sub(r"\W", "_", model.name, flags=re.ASCII)
    name = name if name[:1].isalpha() else f"robot_{name}"
    return lw.export_c(
        {word: (fn, model, options[word]) for word, fn in functions.items()},
        args.out,
        name=name,
        **c_options,
    )


def _write_robot(args: argparse.Namespace) -> int:
    """Write the robot itself as URDF or MJCF."""
    writer = getattr(lw, f"export_{args.format}", None)
    if writer is None:
        raise ModelError(f"this version of linkwork does not write {args.format}")
    _check_meshes(args)
    options = {} if args.meshes is None else {"meshes": args.meshes}
    model = load_robot(args)
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in model.name)
    path = output_path(Path(args.out) / f"{name}{'.urdf' if args.format == 'urdf' else '.xml'}")
    try:
        writer(model, path, allow_loss=args.allow_loss, **options)
    except ModelError as error:
        raise ModelError(_as_command_line(str(error))) from None
    print(
        as_json({"files": [str(path)]})
        if args.json
        else f"{plain(path)}  {size_in_bytes(path.stat().st_size)}"
    )
    return 0


def _check_meshes(args: argparse.Namespace) -> None:
    if args.meshes is not None and args.format != "mjcf":
        raise ModelError(f"--meshes: expected --format mjcf, got {args.format}")


def _as_command_line(message: str) -> str:
    """Return an error message of an export with options of the command in place of Python arguments."""
    message = re.sub(r"allow_loss=\[('[^']*')\]", r"--allow-loss \1", message)
    return message.replace("allow_loss:", "--allow-loss:").replace("with meshes=", "with --meshes")


def _function(name: str) -> Any:
    if name == "rollout":
        return lw.rollout
    known = {key: each for key in lw.__all__ if isinstance(each := getattr(lw, key), lw.ModelFunction)}
    if name not in known:
        raise ModelError(
            f"--function: unknown function {name!r}{did_you_mean(name, known) or EXPECTED_FUNCTION}"
        )
    return known[name]
