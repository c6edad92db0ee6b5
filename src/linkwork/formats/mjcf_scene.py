"""Sites, keyframes, actuators, shapes and contact pairs of MJCF."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from linkwork.formats.mjcf_names import filled, free_name
from linkwork.formats.mjcf_reader import BALL, FREE, REFERENCE, Reader, place_of, unlimited
from linkwork.mechanism import GROUND, Actuator, ContactPair, Geometry
from linkwork.mechanism.actuator_laws import unsupported_reason
from linkwork.mechanism.names import printable

SHAPES = (
    "plane",
    "heightfield",
    "sphere",
    "capsule",
    "ellipsoid",
    "cylinder",
    "box",
    "mesh",
    "mesh",
)  # in the order of mjtGeom
LAST_GROUP = 30  # of actuators that can be switched off
PARAMETERS = 10  # of gain, bias and dynamics
VOLTAGE = 8  # the control of DC motors that is not a command of a controller


def add_scene(reader: Reader, files: Mapping[str, str], unread: Collection[str] = ()) -> None:
    """Add all of them.

    `files` are names of mesh files as in the user's file, `unread` height fields without known heights.
    """
    _sites(reader)
    _keyframes(reader)
    _actuators(reader)
    _shapes(reader, files, unread)


def _sites(reader: Reader) -> None:
    """Add named sites as frames."""
    c = reader.compiled
    taken = {*reader.links, "world"}
    for k, name in enumerate(c.names["site"]):
        if not name:
            reader.sites.append("")
            continue
        frame_name = name if name not in taken else free_name(f"{name}_site", taken)
        if frame_name != name:
            reader.notes.add(
                "the frame of a site is renamed, since a body has its name", printable(frame_name)
            )
        taken.add(frame_name)
        reader.sites.append(frame_name)
        body = reader.links[int(c.site_bodyid[k])]
        reader.builder.add_frame(frame_name, body=body, place=place_of(c.site_pos[k], c.site_quat[k]))


def _keyframes(reader: Reader) -> None:
    c = reader.compiled
    builder = reader.builder
    names = filled(c.names["key"], [f"key{k}" for k in range(len(c.names["key"]))])
    for k, (name, qpos, qvel) in enumerate(zip(names, c.key_qpos, c.key_qvel)):
        q = reader.coordinates(qpos) | _of_tendons(reader, qpos - c.qpos0, c.jnt_qposadr)
        v = reader.velocities(qpos, qvel) | _of_tendons(reader, qvel, c.jnt_dofadr)
        builder.add_keyframe(name, q, v, **_of_actuators(reader, k, name))
    free = [j for j in np.flatnonzero(c.jnt_type == 0) if int(j) not in reader.held]
    if free:
        reader.moved = True
        if REFERENCE not in names:
            builder.add_keyframe(REFERENCE, reader.coordinates(c.qpos0))


def _of_tendons(reader: Reader, values: np.ndarray, starts: np.ndarray) -> dict[str, float]:
    """Return the coordinates or velocities of joints that represent fixed tendons, by name.

    `values` are those of MuJoCo's joints, from `starts` on.
    """
    return {
        name: sum(factor * float(values[starts[j]]) for j, factor in reader.fixed_tendon(k))
        for k, name in reader.tendon_joints.items()
    }


def _of_actuators(reader: Reader, key: int, name: str) -> dict[str, dict[str, float]]:
    """Return controls and activations of a keyframe by actuator: the first where one has several."""
    c = reader.compiled
    names = _actuator_names(reader)
    first = {"ctrl": c.optional("actuator_ctrladr").tolist(), "act": c.actuator_actadr.tolist()}
    first["ctrl"] = first["ctrl"] or [*range(len(names))]  # older versions have one for each
    values: dict[str, dict[str, float]] = {}
    for word, starts in first.items():
        row = c.arrays[f"key_{word}"][key]
        values[word] = {each: float(row[at]) for each, at in zip(names, starts) if at >= 0}
        if any(row[at] for at in range(len(row)) if at not in starts):
            message = "further controls and activations of actuators with several are not supported"
            reader.notes.missing(message, f"keyframe {printable(name)!r}")
    return {"controls": values["ctrl"], "activations": values["act"]}


def _actuator_names(reader: Reader) -> list[str]:
    """Return the names of all actuators."""
    names = reader.compiled.names["actuator"]
    return filled(names, [f"actuator{k}" for k in range(len(names))])


def _actuators(reader: Reader) -> None:
    for k, name in enumerate(_actuator_names(reader)):
        actuator = _actuator(reader, k, name)
        problem = unsupported_reason(actuator, reader.kinds)
        if problem:
            reader.notes.missing(
                f"{problem}: the actuator is ignored", f"actuator {printable(actuator.name)!r}"
            )
        reader.builder.add_actuator(actuator)


def _actuator(reader: Reader, k: int, name: str) -> Actuator:
    c = reader.compiled
    kinds = reader.compiled.info["kinds"]
    transmission = kinds["Trn"].get(str(int(c.actuator_trntype[k])), str(c.actuator_trntype[k]))
    of = int(c.actuator_trnid[k][0])
    relative_to = int(c.actuator_trnid[k][1])
    gear = tuple(c.actuator_gear[k].tolist())
    driven: list[tuple[int, float]] = []
    target = ""
    if transmission in ("joint", "jointinparent", "so3") and of >= 0:
        target = reader.joints[of]
        driven = [(of, gear[0])] if c.jnt_type[of] not in (FREE, BALL) else []
    elif transmission == "tendon":
        target = c.names["tendon"][of] or f"tendon{of}"
        driven = [(j, gear[0] * factor) for j, factor in reader.fixed_tendon(of)]
    elif transmission in ("site", "slidercrank"):
        target = reader.sites[of]
    elif transmission == "body":
        target = reader.links[of]
    group = int(c.actuator_group[k])
    return Actuator(
        name,
        transmission,
        target,
        tuple((reader.joints[j], ratio) for j, ratio in driven),
        gear,
        _range(c.actuator_ctrllimited[k] and reader.acts("clampctrl"), c.actuator_ctrlrange[k]),
        _range(c.actuator_forcelimited[k], c.actuator_forcerange[k]),
        **_laws(reader, k),
        length=sum(ratio * float(c.qpos0[c.jnt_qposadr[j]]) for j, ratio in driven),
        activation_range=_range(c.actuator_actlimited[k], c.actuator_actrange[k]),
        length_range=(float(c.actuator_lengthrange[k][0]), float(c.actuator_lengthrange[k][1])),
        acceleration=float(c.actuator_acc0[k]),
        enabled=reader.acts("actuation") and not (0 <= group <= LAST_GROUP and c.info["groups"] >> group & 1),
        reference=reader.sites[relative_to] if transmission == "site" and relative_to >= 0 else "",
        unread=_unread(reader, k, transmission),
    )


def _laws(reader: Reader, k: int) -> dict[str, tuple[str, tuple[float, ...]]]:
    """Return gain, bias and dynamics of an actuator.

    A DC motor that is driven by its voltage V and has no further properties is affine: with the motor
    constant K [N m/A] and the resistance R [ohm], its torque is K (V - K w) / R at the velocity w.
    """
    c = reader.compiled
    kinds = c.info["kinds"]
    gain = _law(kinds["Gain"], c.actuator_gaintype[k], c.actuator_gainprm[k])
    bias = _law(kinds["Bias"], c.actuator_biastype[k], c.actuator_biasprm[k])
    dynamics = _law(kinds["Dyn"], c.actuator_dyntype[k], c.actuator_dynprm[k])
    resistance, constant, *others = gain[1]
    by_voltage = len(c.optional("actuator_ctrlspec")) and int(c.actuator_ctrlspec[k]) == VOLTAGE
    if (
        gain[0] == "dcmotor"
        and by_voltage
        and resistance > 0.0
        and not any((*others, *bias[1], *dynamics[1]))
    ):
        slope = constant / resistance
        gain, bias, dynamics = ("fixed", (slope,)), ("affine", (0.0, 0.0, -slope * constant)), ("none", ())
    return {"gain": gain, "bias": bias, "dynamics": dynamics}


def _unread(reader: Reader, k: int, transmission: str) -> str:
    """Return a property of an actuator that is not supported, or ""."""
    c = reader.compiled
    of = int(c.actuator_trnid[k][0])
    is_fixed = transmission == "tendon" and bool(reader.fixed_tendon(of))
    n_activations = c.optional("actuator_actnum")
    n_states = int(n_activations[k]) if len(n_activations) else 1
    unsupported = {
        "a tendon with a sidesite inside of a geom": transmission == "tendon"
        and not is_fixed
        and of not in reader.spatial_tendons,
        "actearly": c.actuator_dyntype[k] != 0
        and n_states > 0
        and len(c.optional("actuator_actearly"))
        and bool(c.actuator_actearly[k]),
        "delay": len(c.optional("actuator_delay")) and float(c.actuator_delay[k]) > 0.0,
        "actdim": len(n_activations) and int(n_activations[k]) > 1,
    }
    return next((word for word, is_set in unsupported.items() if is_set), "")


def _range(limited: bool, values: np.ndarray) -> tuple[float, float]:
    return (unlimited(float(values[0])), unlimited(float(values[1]))) if limited else (-np.inf, np.inf)


def _law(kinds: Mapping[str, str], kind: int, parameters: np.ndarray) -> tuple[str, tuple[float, ...]]:
    return kinds.get(str(int(kind)), str(int(kind))), tuple(float(x) for x in parameters[:PARAMETERS])


def _shapes(reader: Reader, files: Mapping[str, str], unread: Collection[str]) -> None:
    c = reader.compiled
    names = filled(c.names["geom"], [f"geom{k}" for k in range(len(c.names["geom"]))])
    mesh_files = c.info["mesh_files"]
    touch = reader.acts("contact")
    for k, name in enumerate(names):
        type_ = int(c.geom_type[k])
        mesh = int(c.geom_dataid[k])
        shape = SHAPES[type_] if 0 <= type_ < len(SHAPES) else str(type_)
        place = place_of(c.geom_pos[k], c.geom_quat[k])
        file = ""
        scale = (1.0, 1.0, 1.0)
        if shape == "mesh" and mesh >= 0:  # the compiler moves meshes to their principal axes
            place = place.then(place_of(c.mesh_pos[mesh], c.mesh_quat[mesh]).inverse())
            if mesh < len(mesh_files):
                file = files.get(mesh_files[mesh], mesh_files[mesh])
                scale = tuple(c.info["mesh_scales"][mesh])
        size = _size(shape, c.geom_size[k].tolist())
        heights = np.zeros((0, 0))
        if shape == "heightfield":
            size = tuple((2.0 * c.hfield_size[mesh][:2]).tolist())
            if not c.names["hfield"][mesh].endswith(tuple(unread)):
                heights = _heights(reader, mesh)
        contype, conaffinity = (int(bits[k]) * touch for bits in (c.geom_contype, c.geom_conaffinity))
        material = int(c.geom_matid[k])
        rgba = c.mat_rgba[material] if material >= 0 else c.geom_rgba[k]
        reader.builder.add_geometry(
            Geometry(
                name,
                GROUND,
                place,
                shape,
                size,
                file,
                scale,
                collision=bool(contype or conaffinity),
                friction=tuple(c.geom_friction[k].tolist()),
                rgba=tuple(float(x) for x in rgba),
                contype=contype,
                conaffinity=conaffinity,
                condim=int(c.geom_condim[k]),
                margin=float(c.geom_margin[k]),
                link=reader.links[int(c.geom_bodyid[k])],
                heights=heights,  # type: ignore[arg-type]
            )
        )
    pairs = zip(c.pair_geom1, c.pair_geom2, c.pair_friction, c.pair_dim, c.pair_margin)
    for a, b, friction, dim, margin in pairs if touch else ():
        pair = ContactPair(
            names[int(a)], names[int(b)], False, tuple(friction.tolist()), int(dim), float(margin)
        )
        reader.builder.add_contact_pair(pair)
    for signature in c.exclude_signature.tolist():
        one, two = (reader.links[k] for k in (signature >> 16, signature & 0xFFFF))
        reader.builder.add_contact_pair(ContactPair(one, two, excluded=True))


def _heights(reader: Reader, field: int) -> np.ndarray:
    """Return the heights of a height field [m], rows along y; MuJoCo stores them relative to the largest."""
    c = reader.compiled
    rows, columns, start = (int(x[field]) for x in (c.hfield_nrow, c.hfield_ncol, c.hfield_adr))
    return c.hfield_data[start : start + rows * columns].reshape(rows, columns).astype(float) * float(
        c.hfield_size[field][2]
    )


def _size(shape: str, size: list[float]) -> tuple[float, ...]:
    """Return MuJoCo's sizes (half lengths) as in `Geometry`."""
    x, y, z = size
    return {
        "sphere": (x,),
        "box": (2.0 * x, 2.0 * y, 2.0 * z),
        "capsule": (x, 2.0 * y),
        "cylinder": (x, 2.0 * y),
        "mesh": (),
    }.get(shape, (x, y, z))
