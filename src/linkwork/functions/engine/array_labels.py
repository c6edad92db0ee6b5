"""Labels of the entries of a function's arrays: the joint, coordinate, body or constraint row of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from linkwork.algorithms.loops.embed_all import embed_all
from linkwork.constraints import user_constraints
from linkwork.mechanism import Loop
from linkwork.model import Model, parameters
from linkwork.sko import Tree

NV = "nv"
ROWS = "rows"
# function -> name and axes of each result; axes of batches and frames come before these
OUTPUTS: dict[str, tuple[tuple[str, str], ...]] = {
    "inverse_dynamics": (("tau", NV),),
    "forward_dynamics": (
        ("a", NV),
        ("violation", ""),
        ("iterations", ""),
        ("imbalance", ""),
        ("converged", ""),
    ),
    "hybrid_dynamics": (
        ("a", NV),
        ("tau", NV),
        ("forces", ROWS),
        ("violation", ""),
        ("iterations", ""),
        ("imbalance", ""),
        ("converged", ""),
    ),
    "spanning_hybrid_dynamics": (("a_spanning", "nv_spanning"), ("tau_spanning", "nv_spanning")),
    "bias_force": (("bias", NV),),
    "gravity_force": (("gravity_force", NV),),
    "mass_matrix": (("M", "nv nv"),),
    "mass_matrix_inverse": (("M_inverse", "nv nv"),),
    "coriolis_matrix": (("C", "nv nv"),),
    "integrate": (("q", "nq"),),
    "difference": (("v", NV),),
    "close_loops": (("q", "nq"), ("gap", "")),
    "closure_error": (("gaps", "loops gap"),),
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
    "momentum_derivatives": (("by_q", "momentum nv"), ("by_v", "momentum nv")),
    "momentum_rate_derivatives": (("by_q", "wrench nv"), ("by_v", "wrench nv"), ("by_a", "wrench nv")),
    "frame_velocity_derivatives": (("by_q", "motion nv"), ("by_v", "motion nv")),
    "frame_acceleration_derivatives": (("by_q", "motion nv"), ("by_v", "motion nv"), ("by_a", "motion nv")),
    "integrate_derivatives": (("by_q", "nv nv"), ("by_v", "nv nv")),
    "difference_derivatives": (("by_q0", "nv nv"), ("by_q1", "nv nv")),
    "inverse_dynamics_second_derivatives": tuple(
        (f"tau_by_{by}", "nv nv nv") for by in ("q_q", "v_v", "q_v", "a_q")
    ),
    "linearize": (("A", "state state"), ("B", "state nv")),
    "inverse_dynamics_regressor": (("Y", "nv inertial"),),
    "energy_regressor": (("row", "inertial"),),
    "loop_forces": (("forces", "equations"),),
    "loop_joint_wrench": (("wrench", "wrench"),),
    "loop_joint_position": (("q", "loop_q"),),
    "loop_joint_velocity": (("v", "loop_v"),),
    "kinetic_energy": (("energy", ""),),
    "potential_energy": (("energy", ""),),
    "center_of_mass": (("center", "xyz"),),
    "mass_matrix_product": (("momentum", NV),),
    "mass_matrix_solve": (("a", NV),),
    "impact": (
        ("v", NV),
        ("impulses", ROWS),
        ("violation", ""),
        ("iterations", ""),
        ("imbalance", ""),
        ("converged", ""),
    ),
    "damped_delassus_inverse": (("inverse", "rows rows"),),
    "damped_delassus_product": (("product", ROWS),),
    "constrained_dynamics": (
        ("a", NV),
        ("forces", ROWS),
        ("violation", ""),
        ("iterations", ""),
        ("imbalance", ""),
        ("converged", ""),
    ),
    "constrained_inverse_dynamics": (("tau", "actuators"), ("forces", ROWS), ("residual", NV)),
    "constraint_jacobian": (("J", "rows nv"),),
    "constraint_bias": (("bias", ROWS),),
    "delassus": (("delassus", "rows rows"),),
    "actuation": (("tau", NV),),
    "distance": (
        ("distance", "pairs"),
        *((name, "pairs xyz") for name in ("point", "other_point", "normal")),
    ),
    "actuator_force": (("tau", "actuators"),),
    "actuator_map": (("map", "joints actuators"),),
    "actuator_map_inverse": (("map", "actuators joints"),),
}
# function with an option `wrt` -> name and axes of what it differentiates, by each name in `wrt`
DERIVATIVE_OUTPUTS = {
    "inverse_dynamics_derivatives": (("tau", NV),),
    "forward_dynamics_derivatives": (("a", NV),),
    "hybrid_dynamics_derivatives": (("found", NV), ("forces", ROWS)),
    "constrained_dynamics_derivatives": (("a", NV), ("forces", ROWS)),
}
# axes of arrays in `wrt`; those of all others are NV
WRT_AXES = {"f_ext": "bodies wrench", "targets": ROWS}
POSE = ("x", "y", "z", "qx", "qy", "qz", "qw")
AXES = {
    "motion": ("wx", "wy", "wz", "vx", "vy", "vz"),
    "wrench": ("mx", "my", "mz", "fx", "fy", "fz"),
    "momentum": ("lx", "ly", "lz", "px", "py", "pz"),
    "xyz": ("x", "y", "z"),
    "gap": ("distance", "angle"),
}
# kind of parameter -> labels along the last axis; an axis of bodies, joints or frames may precede it
COMPONENTS: dict[str, tuple[str, ...]] = {
    "center": AXES["xyz"],
    "inertia": ("xx", "yy", "zz", "xy", "xz", "yz"),
    "gravity": AXES["xyz"],
    "placement": POSE,
    "frame_placement": POSE,
    "loop_placement": POSE,
}
INERTIAL = ("m", "mx", "my", "mz", "xx", "xy", "yy", "xz", "yz", "zz")  # as in `Model.inertial_parameters`
Axes = tuple[tuple[str, ...], ...]


class ArrayLabels(NamedTuple):
    """Contents of an array, and the names along each of its axes, () if an axis has none."""

    name: str
    axes: Axes


def array_labels(
    function: str,
    shapes: Mapping[str, str],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    model: Any,
    options: Mapping[str, Any],
    names: Mapping[str, str],
) -> dict[str, ArrayLabels]:
    """Return the labels of the inputs and outputs of a function's program, by their names in the program.

    `names` maps names of inputs in the program to names of parameters.
    """
    if isinstance(model, Tree):
        return {}
    labels = {}
    for array in inputs:
        name = names.get(array.name, array.name)
        labels[array.name] = ArrayLabels(
            name, _matching(argument_axes(shapes, model, name, options), array.shape, options)
        )
    for array, known in zip(outputs, known_outputs(function, model, options)):
        labels[array.name] = ArrayLabels(known.name, _matching(known.axes, array.shape, options))
    return labels


def derivative_array_labels(
    function: str,
    shapes: Mapping[str, str],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    model: Any,
    options: Mapping[str, Any],
    names: Mapping[str, str],
    configurations: Sequence[str],
) -> dict[str, ArrayLabels]:
    """Return the labels of a derivative's arrays, by their names in its program.

    These are the arrays of the function, directions (d_x), weights (bar_x) and Jacobians (d_y_d_x). `names`
    maps names of inputs in the program to names of arrays and parameters. `configurations` are the outputs
    that are configurations; their directions and weights are on the tangent space, as those of inputs are.
    """
    if isinstance(model, Tree):
        return {}
    known = known_outputs(function, model, options)

    def function_labels(word: str, tangent: bool) -> ArrayLabels | None:
        """Return the labels of an array of the function itself, or of its tangent; None for other names."""
        if word in names:
            return ArrayLabels(
                names[word], argument_axes(shapes, model, names[word], options, tangent=tangent)
            )
        number = word.removeprefix("out") or "0"
        if not word.startswith("out") or not number.isdigit() or int(number) >= len(known):
            return None
        output = known[int(number)]
        return output._replace(axes=(model.v_names,)) if tangent and word in configurations else output

    labels = {}
    for array in (*inputs, *outputs):
        word = array.name
        prefix = ""
        parts = [function_labels(word, False)]
        while parts[0] is None and (head := next((x for x in ("d_", "bar_") if word.startswith(x)), None)):
            word = word.removeprefix(head)
            prefix = prefix + head
            parts = [function_labels(word, True)]
            if parts[0] is None and prefix == "d_" and "_d_" in word:
                parts = [function_labels(x, True) for x in word.split("_d_", 1)]
        if all(part is not None for part in parts):
            part_names, axes = zip(*(part for part in parts if part is not None))
            name = prefix + part_names[0] if len(parts) == 1 else "_by_".join(part_names)
            labels[array.name] = ArrayLabels(
                name, _matching(tuple(x for axis in axes for x in axis), array.shape, options)
            )
    return labels


def known_outputs(function: str, model: Model, options: Mapping[str, Any]) -> list[ArrayLabels]:
    """Return the labels of a function's results, without the axes of batches and frames, which come first."""
    if options.get("packed"):
        return []
    if function in DERIVATIVE_OUTPUTS:
        return [
            ArrayLabels(f"{name}_by_{by}", (_names(model, words, options), *_wrt_axes(model, by, options)))
            for name, words in DERIVATIVE_OUTPUTS[function]
            for by in options["wrt"]
        ]
    return [
        ArrayLabels(name, _words_axes(model, words, options)) for name, words in OUTPUTS.get(function, ())
    ]


def argument_axes(
    shapes: Mapping[str, str], model: Model, name: str, options: Mapping[str, Any], *, tangent: bool = False
) -> Axes:
    """Return the labels along the axes of an array or parameter, or with `tangent` of a change of it."""
    if name not in shapes:
        return _parameter_axes(model, name)
    words = shapes[name].replace("bodies 6", "bodies wrench")
    return _words_axes(model, NV if tangent and words == "nq" else words, options)


def _wrt_axes(model: Model, name: str, options: Mapping[str, Any]) -> Axes:
    known = name.partition("@")[0] in parameters.KINDS
    return _parameter_axes(model, name) if known else _words_axes(model, WRT_AXES.get(name, NV), options)


def _parameter_axes(model: Model, name: str) -> Axes:
    kind, owner = parameters.parse(name)
    owner_kind = parameters.KINDS[kind].owner_kind
    shape = parameters.shape_of(model, name)
    owners_of_kind: dict[str, tuple[str, ...]] = {
        "body": _names(model, "bodies", {}),
        "velocity": model.v_names_spanning,
        "joint": tuple(joint.name for joint in model.joints),
        "frame": tuple(frame.name for frame in model.frames),
    }
    owners = owners_of_kind.get(owner_kind, ())
    if owner is not None:  # a single joint may have several velocities; all other parts have one row
        owners = owners[parameters.entries_of(model, name)] if owner_kind == "velocity" else ()
    components = (COMPONENTS[kind],) if kind in COMPONENTS else ()
    has_owner_axis = len(shape) > len(components)
    unlabelled = len(shape) - has_owner_axis - len(components)
    return ((owners,) if has_owner_axis else ()) + ((),) * unlabelled + components


def _words_axes(model: Model, words: str, options: Mapping[str, Any]) -> Axes:
    return tuple(_names(model, word, options) for word in words.split())


def _matching(axes: Axes, shape: tuple[int, ...], options: Mapping[str, Any]) -> Axes:
    """Return the labels along each axis of an array: those of `axes`, aligned at the last axis, where the
    numbers of labels and entries agree, and () elsewhere.
    """
    matching: list[tuple[str, ...]] = [()] * len(shape)
    for back, names in enumerate(reversed(axes), start=1):
        if back <= len(shape) and len(names) == shape[-back]:
            matching[-back] = names
    if (
        options.get("frame")
        and not isinstance(options["frame"], str)
        and shape
        and len(options["frame"]) == shape[0]
    ):
        matching[0] = tuple(options["frame"])
    return tuple(matching)


def _names(model: Model, word: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    if word == "nq":
        return model.q_names
    if word == "nv":
        return model.v_names
    if word == "nv_spanning":
        return model.v_names_spanning
    if word == "bodies":
        return tuple(body.name for body in model.bodies)
    if word == "loops":
        return tuple(loop.name for loop in model.loops)
    if word == "state":
        return (*(f"position of {name}" for name in model.v_names), *model.v_names)
    if word == "inertial":
        return tuple(f"{body.name}.{x}" for body in model.bodies for x in INERTIAL)
    if word == "equations":  # the equations of loops that the model uses
        clusters = embed_all(model).clusters
        rows_by_cluster = [
            [f"{c.name}[{k}]" for c in block.constraints for k in range(c.count(model.joints))]
            for block in clusters
        ]
        return tuple(labels[row] for labels, block in zip(rows_by_cluster, clusters) for row in block.used)
    if word == "rows":
        return tuple(label for constraint in options["constraints"] for label in constraint.labels(model))
    if word == "constraints":
        return tuple(str(constraint) for constraint in user_constraints(model, options["constraints"]))
    if word == "pairs":
        return tuple(f"{pair.first}, {pair.second}" for pair in options["pairs"])
    if word == "motors":
        return tuple(actuator.name for actuator in options["actuators"])
    if word in ("actuators", "joints"):
        return tuple(model.v_names_spanning[k] for k in options[word])
    if word in ("loop_q", "loop_v"):  # of the loop joint that the option `loop` names
        kind = next(
            loop.kind for loop in model.loops if isinstance(loop, Loop) and loop.name == options["loop"]
        )
        count = kind.nq if word == "loop_q" else kind.nv
        return (options["loop"],) if count == 1 else tuple(f"{options['loop']}.{k}" for k in range(count))
    return AXES.get(word, ())
