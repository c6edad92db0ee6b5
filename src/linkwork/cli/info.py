"""`linkwork info`: the tree of a robot, its loops and clusters, problems, and costs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import linkwork as lw
from linkwork.cli.robot import as_json, load_robot, output_path
from linkwork.cli.terminal import Paint, table, working
from linkwork.contact import contact_lines
from linkwork.functions.diagnosis import Diagnosis, diagnose
from linkwork.mechanism.names import plain, printable
from linkwork.model import GROUND, WORLD, Model
from linkwork.model.report import cluster_lines, count, frame_lines, headline, loop_kind
from linkwork.visualization import draw_graph, draw_tree

MAX_COST_ROWS = 8


def run(args: argparse.Namespace) -> int:
    """Print the diagnosis of a robot; return 0 if it is sound, 1 if it is not."""
    model = load_robot(args)
    with working(f"counting the operations of {printable(model.name)}"):
        result = diagnose(model, costs=False if args.quick else None)
    if args.graph:
        draw_graph(model, output_path(args.graph))
    if args.json:
        print(as_json(as_dict(result)))
        return 0 if result.sound else 1
    print_diagnosis(result, Paint())
    if args.graph:
        print(f"\nThe graph is in {plain(args.graph)}.")
    if args.operations and model.nv and result.sound:
        print("\noperations")
        for function in (lw.inverse_dynamics, lw.mass_matrix, lw.forward_dynamics):
            counts = lw.count_operations(function, model)
            print(f"  {function.__name__:18}", "  ".join(f"{name} {n}" for name, n in counts.items() if n))
    return 0 if result.sound else 1


def print_diagnosis(diagnosis: Diagnosis, paint: Paint) -> None:
    """Print the tree, clusters, frames and costs of a model, and what is unsound or unusual."""
    model = diagnosis.model
    name, _, remaining = headline(model).partition(": ")
    print(f"{paint(plain(name), 'bold')}: {plain(remaining)}\n")
    print(draw_tree(model, paint=paint, unicode=_has_lines()))
    for line in (*cluster_lines(model), *frame_lines(model), *contact_lines(model)):
        print(plain(line))
    if diagnosis.costs:
        print()
        _print_costs(diagnosis, paint)
    for title, colour, lines in (
        ("unsound", "red", diagnosis.problems),
        ("unusual", "yellow", diagnosis.notes),
    ):
        if lines:
            print(f"\n{paint(title, 'bold', colour)}:")
            print("\n".join(f"  {line}" for line in lines))
    if diagnosis.sound:
        print(f"\n{paint('sound', 'bold', 'green')}{'' if diagnosis.notes else ', and nothing unusual'}")


def _print_costs(diagnosis: Diagnosis, paint: Paint) -> None:
    costliest = diagnosis.costliest(MAX_COST_ROWS)
    print(
        f"costliest clusters, of {diagnosis.operations} operations of forward dynamics (articulated bodies):"
    )
    if diagnosis.constraint_operations:
        print(
            f"  constraint forces of loops take {diagnosis.constraint_operations} more, with two proximal "
            "iterations"
        )
    rows = [("", "", "operations", "share", "reason")]
    for cost in costliest:
        more = f" and {len(cost.bodies) - 3} more" if len(cost.bodies) > 3 else ""
        rows.append(
            (
                "",
                plain(", ".join(cost.bodies[:3])) + more,
                str(cost.operations),
                f"{cost.share:.0%}",
                cost.why,
            )
        )
    for line in table(rows, right=(2, 3)):
        print(line)
    if len(diagnosis.costs) > len(costliest):
        print(f"  and {count(len(diagnosis.costs) - len(costliest), 'cluster')} with lower cost")
    for suggestion in diagnosis.suggestions:
        print(paint(plain(f"  cheaper: {suggestion}"), "yellow"))


def _has_lines() -> bool:
    """Return whether the output encoding has box-drawing characters."""
    try:
        "├⟲".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as plain values for JSON, in SI units and radians."""
    model = diagnosis.model
    return {
        "name": model.name,
        "sound": diagnosis.sound,
        "problems": list(diagnosis.problems),
        "notes": list(diagnosis.notes),
        "nq": model.nq,
        "nv": model.nv,
        "mass": model.mass,
        "gravity": list(model.gravity),
        "v_names": list(model.v_names),
        "joints": [_joint(model, k) for k in range(len(model.joints))],
        "frames": [{"name": f.name, "body": _body(model, f.body)} for f in model.frames],
        "loops": [
            {
                "name": loop.name,
                "kind": loop_kind(loop),
                "bodies": [_body(model, k) for k in loop.bodies],
                "equations": loop.count(model.joints),
                "embedded": loop not in model.constrained_loops,
            }
            for loop in model.loops
        ],
        "clusters": _clusters(diagnosis),
        "contacts": [line.strip() for line in contact_lines(model) if line],
        "operations": diagnosis.operations,
        "constraint_operations": diagnosis.constraint_operations,
        "suggestions": [
            {
                "loops": list(r.loops),
                "embedded": r.embedded,
                "constrained": r.constrained,
                "suggestion": 'loops="constrain"',
            }
            for r in diagnosis.suggestions
        ],
    }


def _body(model: Model, k: int) -> str:
    return WORLD if k == GROUND else model.bodies[k].name


def _joint(model: Model, k: int) -> dict[str, Any]:
    joint = model.joints[k]
    body = model.bodies[k]
    return {
        "name": joint.name,
        "kind": type(joint.kind).__name__.lower(),
        "parent": _body(model, joint.parent),
        "body": body.name,
        "links": list(body.links),
        "mass": body.mass,
        "center": body.center.tolist(),
        "inertia": body.moment.tolist(),
        "q": [joint.q_slice.start, joint.q_slice.stop],
        "v": [joint.v_slice.start, joint.v_slice.stop],
        "independent": [name in model.v_names for name in joint.v_names],
        **{word: list(getattr(joint, word)) for word in ("lower", "upper", "max_velocity", "max_effort")},
        **{word: list(getattr(joint, word)) for word in ("damping", "friction", "stiffness", "armature")},
    }


def _clusters(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    model = diagnosis.model
    rows = []
    for n, cluster in enumerate(model.clusters):
        names = [name for k in cluster.bodies for name in model.joints[k].v_names]
        row: dict[str, Any] = {
            "bodies": [model.bodies[k].name for k in cluster.bodies],
            "constraints": [c.name for c in cluster.constraints],
            "equations": cluster.count,
            "rank": len(cluster.rows),
            "redundant": cluster.count - len(cluster.rows),
            "velocities": len(names),
            "independent": [names[c] for c in cluster.independent],
            "supports": [_body(model, k) for k in cluster.supports],
        }
        if n < len(diagnosis.costs):
            row |= {
                "operations": diagnosis.costs[n].operations,
                "share": diagnosis.costs[n].share,
                "why": diagnosis.costs[n].why,
            }
        rows.append(row)
    return rows
