"""`linkwork bench`: operations and times of the dynamics of a robot, one state at a time and in batches."""

from __future__ import annotations

import argparse

import linkwork as lw
from linkwork.cli.measure import Cost, costs, machine
from linkwork.cli.robot import as_json, load_robot
from linkwork.cli.terminal import Paint, table, working
from linkwork.mechanism.names import plain, printable

FUNCTIONS = {
    "inverse dynamics": lw.inverse_dynamics,
    "mass matrix": lw.mass_matrix,
    "forward dynamics": lw.forward_dynamics,
}
MAX_TIMED_OPERATIONS = 200_000


def run(args: argparse.Namespace) -> int:
    """Print a table of operations and times."""
    args.robot = args.name
    args.strict = False
    args.loops = "embed"
    args.xacro = []
    model = load_robot(args)
    result = measure_costs(model, turns=2 if args.quick else 8)
    if args.json:
        rows = {name.replace(" ", "_"): cost._asdict() for name, cost in result.items()}
        print(as_json({"name": model.name, "machine": machine(), "functions": rows}))
        return 0
    print(f"{Paint()(plain(model.name), 'bold')}: {machine()}\n")
    print("\n".join(speed_table(result)))
    return 0


def measure_costs(model: lw.Model, *, turns: int) -> dict[str, Cost]:
    """Return operations and times [ns] of each function, by name."""
    with working(f"compiling and timing {printable(model.name)}"):
        return costs(
            {name: (function, {}) for name, function in FUNCTIONS.items()},
            model,
            turns=turns,
            max_operations=MAX_TIMED_OPERATIONS,
        )


def speed_table(result: dict[str, Cost]) -> list[str]:
    """Return costs as lines of a table."""
    rows = [("", "operations", "one state [ns]", "in a batch [ns]", "one core [states/s]")]
    for name, cost in result.items():
        if cost.one is None or cost.batch is None:
            rows.append((name, str(cost.operations), "", "", ""))
        else:
            rows.append(
                (
                    name,
                    str(cost.operations),
                    f"{cost.one:.0f}",
                    f"{cost.batch:.1f}",
                    f"{1e9 / cost.batch:.3g}",
                )
            )
    return table(rows, right=(1, 2, 3, 4))
