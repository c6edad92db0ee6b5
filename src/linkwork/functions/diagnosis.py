"""Diagnosis of a model: whether it is sound, what deserves a second look, and which clusters cost most and
why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.massless import check_motions
from linkwork.algorithms.tree.forward_dynamics import articulated_body
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.compiler.ir.context import builder_around
from linkwork.compiler.ir.operations import OPERATIONS
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.count import count_operations
from linkwork.constraints import loop_constraints
from linkwork.errors import LinkworkError, ModelError
from linkwork.functions.conditioning import neutral_conditioning
from linkwork.functions.load import operations
from linkwork.loops.clusters import Cluster
from linkwork.mechanism.names import join_names, plain, printable
from linkwork.model import Model
from linkwork.model.report import (
    count,
    is_of_inertias,
    massless_joints,
    merge_similar,
    unsound_parts,
    unusual_parts,
)
from linkwork.sko.prepare.rotors import unit_of_mass
from linkwork.sko.prepare.trees import hinge_tree

# clusters of this size whose equations depend on q, and number of their kinds, that are tried with constraint
# forces
DENSE_CLUSTER_BODIES = 5
MAX_SUGGESTIONS = 3
# bodies of a model whose operations are counted without being asked: tracing takes a second for about 60
MAX_COUNTED_BODIES = 400
# conditioning of loops below which a state is reported as singular
SINGULAR_CONDITIONING = 1e-6
# smallest eigenvalue of the mass matrix, scaled to a unit diagonal, that counts as positive
SINGULAR_EIGENVALUE = 1e-9


@dataclass(frozen=True)
class ClusterCost:
    """Operations of one cluster in forward dynamics by articulated bodies, its share, and reason."""

    bodies: tuple[str, ...]
    operations: int
    share: float
    why: str


@dataclass(frozen=True)
class Suggestion:
    """Loops of one cluster that are cheaper constrained, with operations of forward dynamics either way."""

    loops: tuple[str, ...]
    embedded: int
    constrained: int

    def __str__(self) -> str:
        return (
            f"{join_names([repr(name) for name in self.loops])} make a dense cluster: forward dynamics takes "
            f"{self.embedded} operations with these loops embedded and {self.constrained} with constraint "
            "forces; "
            f'load(..., loops="constrain") or choose_loops(model, "constrain") constrains them'
        )


@dataclass(frozen=True)
class Diagnosis:
    """Result of `diagnose`.

    Attributes
    ----------
    model : Model
        The model.
    problems : tuple of str
        Sentences on what makes the model unsound.
    notes : tuple of str
        Sentences on what is unusual.
    operations : int
        Operations of forward dynamics, the sum of `costs`; zero if not counted.
    costs : tuple of ClusterCost
        Cost of each of `model.clusters`, in their order; empty if not counted. With constrained loops, those
        of the spanning tree.
    suggestions : tuple of Suggestion
        Loops that are cheaper as constrained loops.
    constraint_operations : int
        Operations of constraint forces, beyond those of the spanning tree.
    """

    model: Model = field(repr=False)
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    operations: int = 0
    costs: tuple[ClusterCost, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    constraint_operations: int = 0

    @property
    def sound(self) -> bool:
        """Whether dynamics can be computed and are meaningful."""
        return not self.problems

    def costliest(self, count: int = 8) -> list[ClusterCost]:
        """Return the `count` clusters that cost most, in descending order."""
        return sorted(self.costs, key=lambda cost: -cost.operations)[:count]


def diagnose(model: Model, *, costs: bool | None = None) -> Diagnosis:
    """Return whether a model is sound, what is unusual in it, and the cost of its clusters.

    A model is unsound if it has physically inconsistent inertias or joints that move no mass, or if its mass
    matrix is not positive definite in the neutral state or a random one.

    Parameters
    ----------
    model : Model
        The model.
    costs : bool, optional
        Count the operations of forward dynamics for each cluster, which requires tracing. Default: unless the
        model is large.

    Returns
    -------
    Diagnosis
        Problems, notes, costs of clusters and suggestions.
    """
    if not isinstance(model, Model):
        raise ModelError(f"diagnose: expected a model, got {type(model).__name__}")
    other_notes = [
        *_singular(model),
        *merge_similar(note for note in model.notes if not is_of_inertias(note)),
    ]
    unsound = unsound_parts(model)
    unsolvable = [line for line in _unsolvable(model) if line not in unsound]
    problems = [*unsound, *unsolvable]
    notes = tuple(line for line in map(plain, (*unusual_parts(model), *other_notes)) if line not in problems)
    counted = len(model.bodies) <= MAX_COUNTED_BODIES if costs is None else costs
    if not counted or unsolvable or massless_joints(model) or not model.nv:
        return Diagnosis(model, tuple(problems), notes)
    costs_of_clusters = tuple(cluster_costs(model))
    total = sum(c.operations for c in costs_of_clusters)
    constraint_operations = max(operations(model) - total, 0) if model.constrained_loops else 0
    return Diagnosis(
        model,
        tuple(problems),
        notes,
        total,
        costs_of_clusters,
        tuple(_suggestions(model, costs_of_clusters)),
        constraint_operations,
    )


def _singular(model: Model) -> list[str]:
    """Return one sentence for each cluster of loops that is singular in the neutral state, where results are
    NaN or lose digits.
    """
    sentences = []
    for cluster, coordinates, mechanism in neutral_conditioning(model):
        loops = f"loops {join_names([repr(c.name) for c in cluster.constraints])}"
        if mechanism < SINGULAR_CONDITIONING:
            sentences.append(
                f"the neutral state is singular: {loops} are at a dead point or where branches meet "
                f"(conditioning {mechanism:.1g}), so that accelerations there are NaN or lose digits: begin "
                "elsewhere, or close them from elsewhere by start="
            )
        elif coordinates < SINGULAR_CONDITIONING:
            names = [name for k in cluster.bodies for name in model.joints[k].v_names]
            independent = join_names([repr(names[c]) for c in cluster.independent])
            sentences.append(
                f"the neutral state is singular for the independent velocities {independent} of {loops} "
                f"(conditioning {coordinates:.1g}), though not for others: "
                "model.with_independent(*model.independent_at(model.neutral()))"
            )
    return sentences


def _inertia(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the mass matrix, with an inertia against motions that constrained loops exclude: they need to
    move no mass.
    """
    loops = loop_constraints(model)
    nodes = nodes_for(model, loops, q)
    M: np.ndarray = mass_matrix(nodes).astype(float)
    if loops:
        J = ConstraintRows(nodes, loops).jacobian().astype(float)
        M = M + model.mass * (J.T @ J)
    return M


def _unsolvable(model: Model) -> list[str]:
    """Return the sentence that says why forward dynamics has no answer, or where the mass matrix is not
    positive definite, if so.
    """
    if not model.nv or massless_joints(model):
        return []
    try:
        check_motions(model)
    except ModelError as error:
        return [plain(error)]
    for where, q in (("neutral", model.neutral()), ("random", model.random_state(0)[0])):
        try:
            M = _inertia(model, q)
        except (LinkworkError, ZeroDivisionError) as error:
            return [f"the mass matrix cannot be computed in the {where} state: {error}"]
        diagonal = M.diagonal()
        if not np.all(np.isfinite(M)):
            continue  # independent coordinates are singular there: the conditioning of loops tells
        if np.any(diagonal <= 0.0):
            worst = model.v_names[int(np.argmin(diagonal))]
            least = f"{printable(worst)!r} has {diagonal.min():.3g} on its diagonal"
            return [f"the mass matrix is not positive definite in the {where} state: {least}"]
        scale = 1.0 / np.sqrt(diagonal)
        values, vectors = np.linalg.eigh(scale[:, None] * M * scale)
        if values[0] < -SINGULAR_EIGENVALUE:
            worst = model.v_names[int(np.argmax(np.abs(vectors[:, 0])))]
            return [
                f"the mass matrix is not positive definite in the {where} state: mostly that of "
                f"{printable(worst)!r}"
            ]
    return []


def cluster_costs(model: Model) -> list[ClusterCost]:
    """Return the cost of each cluster in forward dynamics by articulated bodies, without forces of
    constrained loops.

    The program is traced with a mark wherever a sweep comes to another node. An instruction belongs to the
    node at which it was made first, or to the outermost joint that it depends on where no sweep has begun.
    Sums are fused across nodes, so shares are those of instructions before fusing, and operations are these
    shares of the count.
    """
    unit = unit_of_mass(model)
    marks: list[tuple[int, int]] = []
    columns = [(k, c) for k, c in enumerate(model.clusters) for _ in c.independent]
    owner_q = {
        q: k
        for k, c in enumerate(model.clusters)
        for b in c.bodies
        for q in range(model.nq)[model.joints[b].q_slice]
    }

    def marked(q: Any, v: Any, tau: Any) -> Any:
        nodes = hinge_tree(model, q, v, unit=unit)
        number = {node: k for k, node in enumerate(nodes.nodes)}
        builder = builder_around([])
        assert builder is not None

        def walk(visit: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
            def each() -> Iterator[Any]:
                for node in visit():
                    marks.append((len(builder.code), number[node]))
                    yield node

            return each

        nodes.base_to_tips = walk(nodes.base_to_tips)  # type: ignore[method-assign]
        nodes.tips_to_base = walk(nodes.tips_to_base)  # type: ignore[method-assign]
        return articulated_body(nodes, tau * (1.0 / unit) if unit != 1.0 else tau)

    program = trace(marked, {"q": model.nq, "v": model.nv, "tau": model.nv})
    owners = _owners(program, marks, [owner_q, {i: k for i, (k, _) in enumerate(columns)}, {}])
    raw = np.zeros(len(model.clusters))
    for value, owner in zip(_live(program), owners):
        raw[owner] += value
    total = count_operations(program)["total"]
    counts = np.floor(total * raw / max(raw.sum(), 1.0)).astype(int)
    largest_remainders = np.argsort(-(total * raw / max(raw.sum(), 1.0) - counts))[: total - counts.sum()]
    counts[largest_remainders] += 1
    return [
        ClusterCost(
            tuple(model.bodies[k].name for k in cluster.bodies),
            int(n),
            float(n) / max(total, 1),
            _why(model, cluster),
        )
        for cluster, n in zip(model.clusters, counts)
    ]


def _owners(program: Any, marks: list[tuple[int, int]], inputs: list[dict[int, int]]) -> list[int]:
    """Return the cluster of each instruction."""
    owners: list[int] = []
    first = marks[0][0] if marks else len(program.code)
    for op, args, attr in program.code[:first]:
        known = [owners[a] for a in args]
        owners.append(inputs[attr[0]].get(attr[1], 0) if op == "input" else max(known, default=0))
    for (start, owner), (stop, _) in pairwise([*marks, (len(program.code), 0)]):
        owners += [owner] * (stop - start)
    return owners


def _live(program: Any) -> list[bool]:
    """Return, for each instruction, whether it is an operation that results need."""
    needed = [False] * len(program.code)
    for value in program.result_values():
        needed[value] = True
    for value in range(len(program.code) - 1, -1, -1):
        if needed[value]:
            for a in program.code[value][1]:
                needed[a] = True
    return [live and op in OPERATIONS and op != "neg" for live, (op, _, _) in zip(needed, program.code)]


def _why(model: Model, cluster: Cluster) -> str:
    """Return the reasons for a cluster's cost in a few words."""
    joints = [model.joints[k] for k in cluster.bodies]
    reasons = []
    if cluster.constraints:
        velocities = sum(joint.nv for joint in joints)
        equations = count(len(cluster.rows), "loop equation")
        reasons.append(
            f"{count(len(joints), 'body', 'bodies')} in one node, {equations} of {velocities} velocities"
        )
        if all(c.linear for c in cluster.constraints):
            reasons.append("with constant ratios")
    elif joints[0].nv != 1:
        reasons.append(f"{joints[0].nv} velocities of a {type(joints[0].kind).__name__.lower()} joint")
    carried = sum(
        other.parent in cluster.bodies and other.child not in cluster.bodies for other in model.joints
    )
    if carried > 1:
        reasons.append(f"{carried} joints on it")
    if cluster.supports:
        reasons.append(f"stands on {len(cluster.supports)} bodies of another cluster")
    turned = sum(not _along_axes(joint.place.R) for joint in joints)
    if turned:
        reasons.append(
            "its placement is turned off the axes"
            if len(joints) == 1
            else f"{turned} placements turned off the axes"
        )
    return ", ".join(reasons) or "one body behind one joint"


def _along_axes(R: Any) -> bool:
    """Return whether a rotation maps a coordinate axis to another, so that most products vanish."""
    return bool(np.any(np.isclose(np.abs(np.asarray(R, dtype=float)), 1.0, atol=1e-12)))


def _suggestions(model: Model, costs: list[ClusterCost] | tuple[ClusterCost, ...]) -> Iterator[Suggestion]:
    """Yield clusters whose loops are cheaper constrained, of the costliest ones with loops that
    depend on q.
    """
    if not model.embedded:
        return
    dense: dict[
        tuple[int, ...], tuple[int, tuple[str, ...]]
    ] = {}  # one of each kind: mirror images need not be tried twice
    for cluster, cost in zip(model.clusters, costs):
        if len(cluster.bodies) >= DENSE_CLUSTER_BODIES and any(not c.linear for c in cluster.constraints):
            kind = len(cluster.bodies), len(cluster.rows), len(cluster.independent), len(cluster.constraints)
            dense.setdefault(kind, (cost.operations, tuple(c.name for c in cluster.constraints)))
    now = operations(model) if dense else 0
    for _, loops in sorted(dense.values(), reverse=True)[:MAX_SUGGESTIONS]:
        try:
            other = operations(model.with_loops(constrain=loops))
        except (LinkworkError, ZeroDivisionError):  # forces need what the spanning tree alone can move
            continue
        if other < now:
            yield Suggestion(loops, now, other)
