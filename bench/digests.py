"""Digests and operation counts of lowered programs: all robots that ship, all public functions, and robot
files.

    python bench/digests.py --write before.json [--robots arm tello] [FILE.urdf ...]
    python bench/digests.py --compare before.json after.json

A change that is meant to keep behaviour keeps all digests. A changed digest is listed with the operations
before and after.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import linkwork as lw
from linkwork.compiler.passes import count

Options = Callable[[lw.Model], dict[str, Any]]


def end_frame(model: lw.Model) -> str:
    """Return the name of the last frame of a model."""
    return model.frames[-1].name


def end_weld(model: lw.Model) -> dict[str, Any]:
    """Return options that hold the last frame."""
    return {"constraints": (lw.Weld(end_frame(model)),)}


def first_loop(model: lw.Model) -> dict[str, Any]:
    """Return the option that names the first loop; functions refuse it where there is none."""
    return {"loop": model.loops[0].name if model.loops else "no loop"}


OPTIONS: dict[str, Options] = {
    "actuator_force": lambda model: {"actuators": model.v_names},
    "actuator_map": lambda model: {"actuators": model.v_names},
    "actuator_map_inverse": lambda model: {"actuators": model.v_names},
    "constrained_dynamics": end_weld,
    "constrained_dynamics_derivatives": end_weld,
    "constrained_inverse_dynamics": lambda model: end_weld(model) | {"actuators": model.v_names},
    "constraint_bias": end_weld,
    "constraint_jacobian": end_weld,
    "damped_delassus_inverse": end_weld,
    "damped_delassus_inverse_at_base": end_weld,
    "damped_delassus_product": end_weld,
    "delassus": end_weld,
    "force_propagator": lambda model: {"frame": end_frame(model), "to": model.bodies[0].name},
    "frame_acceleration": lambda model: {"frame": end_frame(model)},
    "frame_acceleration_derivatives": lambda model: {"frame": end_frame(model)},
    "frame_jacobian": lambda model: {"frame": end_frame(model)},
    "frame_jacobian_rate": lambda model: {"frame": end_frame(model)},
    "frame_pose": lambda model: {"frame": end_frame(model)},
    "frame_velocity": lambda model: {"frame": end_frame(model)},
    "frame_velocity_derivatives": lambda model: {"frame": end_frame(model)},
    "hybrid_dynamics": lambda model: {"prescribed": model.v_names[:1]},
    "hybrid_dynamics_derivatives": lambda model: {"prescribed": model.v_names[:1]},
    "impact": end_weld,
    "loop_joint_position": first_loop,
    "loop_joint_velocity": first_loop,
    "loop_joint_wrench": first_loop,
    "operational_compliance": lambda model: {"frames": (end_frame(model),)},
    "operational_inertia": lambda model: {"frames": (end_frame(model),)},
    "spanning_hybrid_dynamics": lambda model: {"prescribed": model.v_names},
}


def functions() -> Iterator[tuple[str, lw.ModelFunction]]:
    """Yield the public functions of a model by name."""
    for name in sorted(lw.__all__):
        function = getattr(lw, name)
        if isinstance(function, lw.ModelFunction):
            yield name, function


def describe(function: lw.ModelFunction, model: lw.Model, options: dict[str, Any], dtype: str) -> str:
    """Return digest and operation count of a lowered program, or the kind of error that refuses it."""
    try:
        program = function.program(model, **options)
        lowered = lw.lower(program, dtype)
    except lw.LinkworkError as error:
        return f"refused {type(error).__name__}"
    return f"{lowered.digest[:16]} {count.count_operations(program)['total']}"


def table(models: dict[str, lw.Model]) -> dict[str, str]:
    """Return digest and operation count of every function of every model, by "model function dtype"."""
    result = {}
    for label, model in models.items():
        for name, function in functions():
            options = OPTIONS.get(name, lambda _: {})(model)
            for dtype in ("float64", "float32"):
                result[f"{label} {name} {dtype}"] = describe(function, model, options, dtype)
        print(f"{label}: {len(result)} programs so far", file=sys.stderr, flush=True)
    return result


def compare(before: dict[str, str], after: dict[str, str]) -> int:
    """Print the programs that differ; return how many do."""
    changed = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    for key in changed:
        print(f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}")
    print(f"{len(changed)} of {len(before.keys() | after.keys())} programs differ")
    return len(changed)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="robot files")
    parser.add_argument("--write", metavar="FILE", help="write the table of this source tree")
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two tables")
    parser.add_argument(
        "--robots", nargs="*", default=lw.robots.names(), help="robots that ship with linkwork (default: all)"
    )
    args = parser.parse_args()
    if args.compare:
        before, after = (json.loads(Path(path).read_text()) for path in args.compare)
        return 1 if compare(before, after) else 0
    models = {name: getattr(lw.robots, name)() for name in args.robots}
    models |= {Path(path).name: lw.load(path) for path in args.files}
    result = table(models)
    if args.write:
        Path(args.write).write_text(json.dumps(result, indent=0, sort_keys=True))
    else:
        for key, text in result.items():
            print(f"{key}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
