"""What the entries of a function's arrays are: which joint, coordinate, body or constraint row each belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from linkwork.constraints import given_constraints
from linkwork.model import Model
from linkwork.sko import Tree

NV, ROWS = "nv", "rows"
# by function, what each result is and its axes, from the last one back; frames and batches come before
OUTPUTS: dict[str, tuple[tuple[str, str], ...]] = {
    "inverse_dynamics": (("tau", NV),),
    "forward_dynamics": (("a", NV),),
    "hybrid_dynamics": (("a", NV), ("tau", NV)),
    "spanning_hybrid_dynamics": (("a_spanning", "nv_spanning"), ("tau_spanning", "nv_spanning")),
    "bias_force": (("bias", NV),),
    "gravity_force": (("gravity_force", NV),),
    "mass_matrix": (("M", "nv nv"),),
    "mass_matrix_inverse": (("M_inverse", "nv nv"),),
    "coriolis_matrix": (("C", "nv nv"),),
    "integrate": (("q", "nq"),),
    "difference": (("v", NV),),
    "close_loops": (("q", "nq"), ("gap", "")),
    "spanning_velocity": (("v_spanning", "nv_spanning"),),
    "spanning_acceleration": (("a_spanning", "nv_spanning"),),
    "independent_force": (("tau", NV),),
    "forward_kinematics": (("poses", "bodies 4 4"),),
    "frame_pose": (("pose", "4 4"),),
    "frame_velocity": (("velocity", "motion"),),
    "frame_acceleration": (("acceleration", "motion"),),
    "frame_jacobian": (("J", "motion nv"),),
    "frame_jacobian_rate": (("J_rate", "motion nv"),),
    "joint_forces": (("wrench", "bodies wrench"),),
    "momentum": (("momentum", "momentum"),),
    "momentum_rate": (("momentum_rate", "wrench"),),
    "centroidal_map": (("centroidal_map", "momentum nv"),),
    "center_of_mass_jacobian": (("J", "xyz nv"),),
    "potential_energy_derivatives": (("by_q", NV),),
    "kinetic_energy_derivatives": (("by_q", NV), ("by_v", NV)),
    "inverse_dynamics_derivatives": (("tau_by_q", "nv nv"), ("tau_by_v", "nv nv"), ("tau_by_a", "nv nv")),
    "forward_dynamics_derivatives": (("a_by_q", "nv nv"), ("a_by_v", "nv nv"), ("a_by_tau", "nv nv")),
    "constrained_dynamics": (("a", NV), ("forces", ROWS), ("violation", ""), ("iterations", "")),
    "constrained_inverse_dynamics": (("tau", "actuators"), ("forces", ROWS), ("residual", NV)),
    "constraint_jacobian": (("J", "rows nv"),),
    "constraint_bias": (("bias", ROWS),),
    "delassus": (("delassus", "rows rows"),),
    "actuator_force": (("tau", "actuators"),),
    "actuator_map": (("map", "joints actuators"),),
    "actuator_map_inverse": (("map", "actuators joints"),),
}
AXES = {
    "motion": ("wx", "wy", "wz", "vx", "vy", "vz"),
    "wrench": ("mx", "my", "mz", "fx", "fy", "fz"),
    "momentum": ("lx", "ly", "lz", "px", "py", "pz"),
    "xyz": ("x", "y", "z"),
}


class Entries(NamedTuple):
    """What an array is, and the names along each of its axes, () where they have none."""

    name: str
    axes: tuple[tuple[str, ...], ...]


def entries_of(
    function: str,
    shapes: Mapping[str, str],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    model: Any,
    options: Mapping[str, Any],
) -> dict[str, Entries]:
    """Of the inputs and outputs of a function of a model, arrays of a program, by their names there."""
    if isinstance(model, Tree):
        return {}
    found = {}
    for array in inputs:
        words = shapes.get(array.name, "").replace("bodies 6", "bodies wrench")
        found[array.name] = Entries(array.name, _axes(model, words, array.shape, options))
    known = OUTPUTS.get(function, ())
    if options.get("packed"):
        known = ()
    if "wrt" in options:  # which says what results there are
        known = tuple(known[k] for k in (["q", "v"].index(n) if n in ("q", "v") else 2 for n in options["wrt"]) if known)
        if not set(options["wrt"]) <= {"q", "v", "a", "tau"}:
            known = ()
    for array, (name, words) in zip(outputs, known):
        found[array.name] = Entries(name, _axes(model, words, array.shape, options))
    return found


def _axes(model: Model, words: str, shape: tuple[int, ...], options: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The names along the axes of an array, as far as they are known and fit."""
    found: list[tuple[str, ...]] = [()] * len(shape)
    for back, word in enumerate(reversed(words.split()), start=1):
        names = _names(model, word, options)
        if back <= len(shape) and len(names) == shape[-back]:
            found[-back] = names
    if options.get("frame") and not isinstance(options["frame"], str) and shape and len(options["frame"]) == shape[0]:
        found[0] = tuple(options["frame"])
    return tuple(found)


def _names(model: Model, word: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    if word == "nq":
        return model.q_names
    if word == "nv":
        return model.v_names
    if word == "nv_spanning":
        return model.v_names_spanning
    if word == "bodies":
        return tuple(body.name for body in model.bodies)
    if word == "rows":
        return tuple(label for constraint in options["constraints"] for label in constraint.labels(model))
    if word == "constraints":
        return tuple(str(constraint) for constraint in given_constraints(model, options["constraints"]))
    if word in ("actuators", "joints"):
        return tuple(model.v_names_spanning[k] for k in options[word])
    return AXES.get(word, ())
