"""Parameters of a model as arrays, and models with other values or with symbols for them.

The structure of a model (tree, axes, clusters, node frames) is decided by its nominal numbers. A parameter
that is an input of a function is never treated as zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.symbol import Symbol
from linkwork.errors import ModelError, ShapeError
from linkwork.mechanism import Coupling, End, Loop, PlacedJoint
from linkwork.mechanism.names import did_you_mean
from linkwork.mechanism.tree import Body, MassProperties
from linkwork.model.data import AnyModel, ModelData
from linkwork.model.joint_properties import check_properties
from linkwork.model.loop_variants import with_as_many_equations
from linkwork.spatial import Inertia, Pose, physical_problems, rotation
from linkwork.spatial.constants import reals, set_frozen

# rows and columns of the six numbers of a moment of inertia: xx yy zz xy xz yz
MOMENT_INDICES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


class ParameterKind(NamedTuple):
    """A kind of parameter: its owners, the shape of one entry, and a reader of all entries."""

    owner_kind: str  # "body", "joint", "velocity", "term", "frame", "loop" or "model"
    shape: tuple[int, ...]
    read: Callable[[ModelData], list[Any]]
    minimum: float = -np.inf


def _moment(body: Body) -> list[float]:
    return [float(body.moment[i, j]) for i, j in MOMENT_INDICES]


def _place(pose: Pose) -> list[float]:
    return [*pose.p.tolist(), *(float(x) for x in rotation.of_matrix(np.asarray(pose.R, dtype=float)))]


def _per_velocity(word: str) -> Callable[[ModelData], list[Any]]:
    return lambda model: [x for joint in model.joints for x in getattr(joint, word)]


def _couplings(model: ModelData) -> list[Coupling]:
    return [loop for loop in model.loops if isinstance(loop, Coupling)]


def _loop_joints(model: ModelData) -> list[Loop]:
    return [loop for loop in model.loops if isinstance(loop, Loop)]


KINDS: dict[str, ParameterKind] = {
    "mass": ParameterKind("body", (), lambda model: [body.mass for body in model.bodies], 0.0),
    "center": ParameterKind("body", (3,), lambda model: [body.center.tolist() for body in model.bodies]),
    "inertia": ParameterKind("body", (6,), lambda model: [_moment(body) for body in model.bodies]),
    "gravity": ParameterKind("model", (3,), lambda model: list(model.gravity)),
    "armature": ParameterKind("velocity", (), _per_velocity("armature"), 0.0),
    "damping": ParameterKind("velocity", (), _per_velocity("damping"), 0.0),
    "stiffness": ParameterKind("velocity", (), _per_velocity("stiffness"), 0.0),
    "friction": ParameterKind("velocity", (), _per_velocity("friction"), 0.0),
    "placement": ParameterKind("joint", (7,), lambda model: [_place(joint.place) for joint in model.joints]),
    "ratio": ParameterKind(
        "term", (), lambda model: [c for coupling in _couplings(model) for c in coupling.coefficients]
    ),
    "frame_placement": ParameterKind(
        "frame", (7,), lambda model: [_place(frame.place) for frame in model.frames]
    ),
    "loop_placement": ParameterKind(
        "loop", (2, 7), lambda model: [[_place(e.place) for e in x.ends] for x in _loop_joints(model)]
    ),
}

OWNERS = {
    "body": "bodies",
    "joint": "joints",
    "velocity": "joint velocities",
    "term": "couplings",
    "frame": "frames",
    "loop": "loop joints",
}


def _entries(model: ModelData, kind: str, owner: str) -> slice:
    """Return the slice of a named owner's entries among all entries of a kind."""
    owner_kind = KINDS[kind].owner_kind
    if owner_kind == "body":
        body = model.body(owner)
        if body.name != owner:
            raise ModelError(
                f"{kind}@{owner}: expected the name of a body, got a link that is rigidly attached to body "
                f"{body.name!r}; {kind}@{body.name} sets the parameter of the body"
            )
        return slice(body.index, body.index + 1)
    if owner_kind == "velocity":
        return model.joint(owner).v_slice
    if owner_kind == "joint":
        k = model.joint(owner).child
        return slice(k, k + 1)
    if owner_kind == "model":
        raise ModelError(f"{kind}@{owner}: expected {kind!r}, a parameter of the whole model")
    parts: Sequence[Any] = {"term": _couplings, "frame": lambda m: m.frames, "loop": _loop_joints}[
        owner_kind
    ](model)
    names = [part.name for part in parts]
    if owner not in names:
        owner_kind = {"term": "coupling", "frame": "frame", "loop": "loop"}[owner_kind]
        raise ModelError(
            f"{kind}@{owner}: {model.name} has no {owner_kind} named {owner!r}{did_you_mean(owner, names)}"
        )
    k = names.index(owner)
    sizes = [len(part.terms) if owner_kind == "term" else 1 for part in parts]
    return slice(sum(sizes[:k]), sum(sizes[: k + 1]))


def entries_of(model: ModelData, name: str) -> slice:
    """Return the slice of a parameter's entries among all entries of its kind."""
    kind, owner = parse(name)
    return slice(None) if owner is None else _entries(model, kind, owner)


def _count(model: ModelData, owner_kind: str) -> int:
    """Return the number of bodies, joints, velocities, terms of couplings, frames or loop joints."""
    if owner_kind == "velocity":
        return model.nv_spanning
    if owner_kind == "term":
        return sum(len(coupling.terms) for coupling in _couplings(model))
    parts = {"body": model.bodies, "joint": model.joints, "frame": model.frames}
    return len(parts[owner_kind]) if owner_kind in parts else len(_loop_joints(model))


def parse(name: Any) -> tuple[str, str | None]:
    """Return the kind of a parameter and its owner, if one is named: "mass", or "mass@link3"."""
    if not isinstance(name, str):
        raise ModelError(f"parameters: expected names such as 'mass' or 'mass@link3', got {name!r}")
    kind, at, owner = name.partition("@")
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise ModelError(f"parameters: expected one of {', '.join(KINDS)}; got {kind!r}{hint}")
    return kind, owner if at else None


def shape_of(model: ModelData, name: str) -> tuple[int, ...]:
    """Return the shape of a parameter without batch: (bodies,) for "mass", () for "mass@link3"."""
    kind, owner = parse(name)
    owner_kind, shape, _, _ = KINDS[kind]
    if kind == "gravity":
        return shape
    if owner is None:
        return (_count(model, owner_kind), *shape)
    where = _entries(model, kind, owner)
    several = owner_kind in ("velocity", "term")
    return (where.stop - where.start, *shape) if several else shape


def known(model: ModelData, names: Iterable[str]) -> tuple[str, ...]:
    """Return parameter names after checks that each exists in the model and none is repeated."""
    requested = [names] if isinstance(names, str) else list(names)
    for name in requested:
        kind, owner = parse(name)
        if 0 in shape_of(model, name):
            raise ModelError(f"parameter {name!r}: {model.name} has no {OWNERS[KINDS[kind].owner_kind]}")
        if requested.count(name) > 1 or (owner is not None and kind in requested):
            raise ModelError(f"parameter {name!r} is given twice")
    return tuple(requested)


def ordered(model: ModelData, names: Iterable[str]) -> tuple[str, ...]:
    """Return checked parameter names in a fixed order, for names from sets and mappings."""
    order = list(KINDS)
    return tuple(sorted(known(model, names), key=lambda name: (order.index(parse(name)[0]), name)))


def input_names(names: Sequence[str], taken: Sequence[str] = ()) -> tuple[str, ...]:
    """Return names of program inputs for parameters, such as "mass_of_link3", without those in `taken`."""
    used_names = list(taken)
    for name in names:
        plain = re.sub(r"\W", "_", name.replace("@", "_of_"), flags=re.ASCII)
        while plain in used_names:
            plain += "_"
        used_names.append(plain)
    return tuple(used_names[len(taken) :])


def read(model: ModelData) -> dict[str, np.ndarray]:
    """Return all parameters of a model by kind, without kinds that have no entries."""
    shapes = {name: shape_of(model, name) for name in KINDS}
    return {
        name: np.array(KINDS[name].read(model), dtype=float).reshape(shape)
        for name, shape in shapes.items()
        if 0 not in shape
    }


def checked(model: ModelData, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return parameter values after checks of shape, finiteness and sign."""
    if not isinstance(values, Mapping):
        raise ModelError(
            f"parameters: expected a mapping such as {{'mass': ...}}, got {type(values).__name__}"
        )
    arrays = {}
    for name in ordered(model, values):
        kind, _ = parse(name)
        try:
            array = reals(values[name])
        except (TypeError, ValueError):
            raise ModelError(f"parameter {name!r}: expected numbers, got {values[name]!r}") from None
        shape = shape_of(model, name)
        if array.shape != shape:
            raise ShapeError(f"parameter {name!r}: expected shape {shape}, got {array.shape}")
        if not np.isfinite(array).all():
            raise ModelError(f"parameter {name!r}: expected finite numbers")
        if (array < KINDS[kind].minimum).any():
            raise ModelError(f"parameter {name!r}: expected non-negative numbers, got {array.tolist()}")
        if (
            kind in ("placement", "frame_placement", "loop_placement")
            and not array[..., 3:].any(axis=-1).all()
        ):
            raise ModelError(f"parameter {name!r}: expected a placement with a non-zero quaternion")
        arrays[name] = array
    stiffness = _tables(model, {name: x for name, x in arrays.items() if parse(name)[0] == "stiffness"})
    for joint in model.joints if stiffness else ():
        springs = tuple(float(x) for x in stiffness["stiffness"].entries[joint.v_slice])
        check_properties(f"joint {joint.name!r}", replace(joint, stiffness=springs))
    return arrays


class _Table:
    """All entries of a kind, some of them replaced."""

    def __init__(self, model: ModelData, kind: str) -> None:
        self.entries = [np.array(entry, dtype=object) for entry in KINDS[kind].read(model)]
        self.replaced: set[int] = set()

    def replace_entries(self, where: slice, values: np.ndarray) -> None:
        for k, value in zip(range(where.start, where.stop), values):
            self.entries[k] = np.array(value, dtype=object)
            self.replaced.add(k)


def _tables(model: ModelData, values: Mapping[str, Any]) -> dict[str, _Table]:
    """Return the tables of all kinds that occur in `values`, with entries replaced."""
    tables: dict[str, _Table] = {}
    for name, value in values.items():
        kind, owner = parse(name)
        if kind not in tables:
            tables[kind] = _Table(model, kind)
        array = np.asarray(value)
        if owner is None:
            tables[kind].replace_entries(slice(0, len(tables[kind].entries)), array)
        else:
            where = _entries(model, kind, owner)
            tables[kind].replace_entries(
                where, array if KINDS[kind].owner_kind in ("velocity", "term") else array[None]
            )
    return tables


def value_of(model: ModelData, name: str) -> np.ndarray:
    """Return a parameter's value, as numbers or symbols: the input if it is one, else the nominal value."""
    kind, owner = parse(name)
    nominal = model.nominal
    values = {key: x for key, x in model.parameter_inputs.items() if parse(key)[0] == kind}
    table = _tables(nominal, values)[kind] if values else _Table(nominal, kind)
    where = slice(0, len(table.entries)) if owner is None else _entries(nominal, kind, owner)
    entries = np.array([x for entry in table.entries[where] for x in entry.ravel()], dtype=object)
    return entries.reshape(shape_of(nominal, name))


def substituted(model: ModelData, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `ModelData` that change if parameters get other numbers or symbols."""
    tables = _tables(model, values)
    fields: dict[str, Any] = {}
    if "gravity" in tables:
        fields["gravity"] = tuple(entry.item() for entry in tables["gravity"].entries)
    fields |= _bodies(model, tables)
    fields["joints"] = tuple(_joint(joint, tables) for joint in model.joints)
    if "frame_placement" in tables:
        table = tables["frame_placement"]
        places = [
            _pose(table.entries[k]) if k in table.replaced else f.place for k, f in enumerate(model.frames)
        ]
        fields["frames"] = tuple(replace(f, place=place) for f, place in zip(model.frames, places))
    if {"ratio", "loop_placement"} & set(tables):
        changed = _loops(model, tables)
        fields["embedded"] = tuple(changed[loop.name] for loop in model.embedded)
        fields["constrained_loops"] = tuple(changed[loop.name] for loop in model.constrained_loops)
    return fields


def _bodies(model: ModelData, tables: Mapping[str, _Table]) -> dict[str, Any]:
    inertial_tables = [tables[kind] for kind in ("mass", "center", "inertia") if kind in tables]
    changed = sorted({k for table in inertial_tables for k in table.replaced})
    bodies = list(model.bodies)
    inputs = {}
    fixed = {each.body for each in model.weight_compensations if each.mass is not None}
    for k in changed:
        body = bodies[k]
        if k in fixed:
            raise ModelError(
                f"body {body.name!r}: mass, center and inertia cannot be changed: its links have different "
                "gravity_scale"
            )

        def entry(kind: str, nominal: Any, k: int = k) -> Any:
            return tables[kind].entries[k] if kind in tables and k in tables[kind].replaced else nominal

        mass = entry("mass", np.array(body.mass, dtype=object)).item()
        center = np.array(entry("center", body.center), dtype=object)
        six = entry("inertia", np.array(_moment(body), dtype=object))
        moment = np.empty((3, 3), dtype=object)
        for (i, j), x in zip(MOMENT_INDICES, six):
            moment[i, j] = moment[j, i] = x
        inputs[k] = MassProperties(mass, center, moment)
        bodies[k] = replace(body, inertia=Inertia.rigid(*inputs[k]).frozen_constant())
    return {"bodies": tuple(bodies), "inertia_inputs": inputs}


def _joint(joint: PlacedJoint, tables: Mapping[str, _Table]) -> PlacedJoint:
    changed: dict[str, Any] = {}
    places = range(joint.v_start, joint.v_start + joint.nv)
    for word in ("armature", "damping", "stiffness", "friction"):
        if word == "stiffness" and joint.kind.springs == "none":
            continue  # such a joint can have no springs: they would have no potential
        if word in tables and tables[word].replaced & set(places):
            changed[word] = tuple(tables[word].entries[k].item() for k in places)
    if "placement" in tables and joint.child in tables["placement"].replaced:
        changed["place"] = _pose(tables["placement"].entries[joint.child])
    return replace(joint, **changed) if changed else joint


def _loops(model: ModelData, tables: Mapping[str, _Table]) -> dict[str, Any]:
    changed: dict[str, Any] = {loop.name: loop for loop in model.loops}
    if "ratio" in tables:
        start = 0
        table = tables["ratio"]
        for coupling in _couplings(model):
            term_indices = range(start, start + len(coupling.terms))
            start = term_indices.stop
            if table.replaced & set(term_indices):
                terms = tuple(
                    (j, i, table.entries[k].item()) for k, (j, i, _) in zip(term_indices, coupling.terms)
                )
                changed[coupling.name] = replace(coupling, terms=terms)
    if "loop_placement" in tables:
        for k, loop in enumerate(_loop_joints(model)):
            if k in tables["loop_placement"].replaced:
                first, second = (_pose(entry) for entry in tables["loop_placement"].entries[k])
                ends = End(loop.predecessor.body, first), End(loop.successor.body, second)
                changed[loop.name] = replace(loop, predecessor=ends[0], successor=ends[1])
    return changed


def _pose(seven: np.ndarray) -> Pose:
    """Return the pose at xyz [m] with a quaternion xyzw of any nonzero norm."""
    R = Pose.from_quaternion(seven[3:]).R
    if any(isinstance(x, Symbol) for x in seven):
        return Pose(R, np.array(seven[:3], dtype=object))
    return Pose(R.astype(float), seven[:3].astype(float))


def inconsistent_inertias(model: ModelData, bodies: Iterable[int]) -> list[str]:
    """Return notes on physically inconsistent inertias, for the report of a model."""
    notes = []
    for k in bodies:
        body = model.bodies[k]
        notes += [f"body {body.name!r}: {problem}" for problem in physical_problems(body.mass, body.moment)]
    return notes


def replaced(model: AnyModel, values: Mapping[str, Any]) -> AnyModel:
    """Return a copy of a model with other values of some parameters; see `Model.with_parameters`."""
    numbers = checked(model, values)
    fields = substituted(model, numbers)
    inertias = fields.pop("inertia_inputs")
    geometric_kinds = {"placement", "ratio", "loop_placement"} & {name.partition("@")[0] for name in numbers}
    if geometric_kinds and model.embedded:  # the same velocities stay independent
        independent_names = set(model.v_names)
        loop_bodies = {k for c in model.clusters if c.constraints for k in c.bodies}
        fields["joints"] = tuple(
            replace(j, independent=tuple(name in independent_names for name in j.v_names))
            if k in loop_bodies and j.nv
            else j
            for k, j in enumerate(fields["joints"])
        )
    variant = replace(model, **fields, kernels={})
    if geometric_kinds:
        variant = with_as_many_equations(variant)
    else:
        set_frozen(variant, "clusters", model.clusters)  # unchanged, and expensive to compute
    added_notes = (note for note in inconsistent_inertias(variant, inertias) if note not in model.notes)
    set_frozen(variant, "notes", (*model.notes, *added_notes))
    return variant
