"""What MJCF attaches to bodies and joints: sites, keyframes, actuators, shapes and contact pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from linkwork.formats.mjcf_names import filled, free_name
from linkwork.formats.mjcf_reader import REFERENCE, Reader, place_of
from linkwork.parts import GROUND, Actuator, ContactPair, Geometry
from linkwork.parts.names import shown

TRANSMISSIONS = ("joint", "jointinparent", "slidercrank", "tendon", "site", "body")  # mjtTrn
DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle", "user")  # mjtDyn
GAINS = ("fixed", "affine", "muscle", "user")  # mjtGain
BIASES = ("none", "affine", "muscle", "user")  # mjtBias
SHAPES = ("plane", "heightfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh", "mesh")  # mjtGeom
PARAMETERS = 10  # of gain, bias and dynamics


def add_scene(reader: Reader, files: Mapping[str, str], unread: Collection[str] = ()) -> None:
    """All of it; `files` are names of mesh files as the user wrote them, `unread` height fields whose heights are not known."""
    _sites(reader)
    _keyframes(reader)
    _actuators(reader)
    _shapes(reader, files, unread)


def _sites(reader: Reader) -> None:
    """Sites with a name are frames."""
    c, taken = reader.compiled, {*reader.links, "world"}
    for k, name in enumerate(c.names["site"]):
        if not name:
            continue
        called = name if name not in taken else free_name(f"{name}_site", taken)
        if called != name:
            reader.notes.add("a site has the name of a body, so that its frame is called otherwise", shown(called))
        taken.add(called)
        body = reader.links[int(c.site_bodyid[k])]
        reader.builder.add_frame(called, body=body, place=place_of(c.site_pos[k], c.site_quat[k]))


def _keyframes(reader: Reader) -> None:
    c, builder = reader.compiled, reader.builder
    names = filled(c.names["key"], [f"key{k}" for k in range(len(c.names["key"]))])
    for name, qpos, qvel in zip(names, c.key_qpos, c.key_qvel):
        builder.add_keyframe(name, reader.coordinates(qpos), reader.velocities(qpos, qvel))
    free = [j for j in np.flatnonzero(c.jnt_type == 0) if int(j) not in reader.held]
    if free:
        reader.moved = True
        if REFERENCE not in names:
            builder.add_keyframe(REFERENCE, reader.coordinates(c.qpos0))


def _actuators(reader: Reader) -> None:
    c = reader.compiled
    for k, name in enumerate(c.names["actuator"]):
        type_ = int(c.actuator_trntype[k])
        kind = TRANSMISSIONS[type_] if 0 <= type_ < len(TRANSMISSIONS) else str(type_)
        of = int(c.actuator_trnid[k][0])
        gear = tuple(c.actuator_gear[k].tolist())
        joints: tuple[tuple[str, float], ...] = ()
        target = ""
        if kind in ("joint", "jointinparent") and of >= 0:
            target, joints = reader.joints[of], ((reader.joints[of], gear[0]),)
        elif kind == "tendon":
            target, joints = c.names["tendon"][of], _tendon(reader, of, gear[0])
        elif kind in ("site", "slidercrank"):
            target = c.names["site"][of]
        elif kind == "body":
            target = reader.links[of]
        reader.builder.add_actuator(
            Actuator(
                name or f"actuator{k}",
                kind,
                target,
                joints,
                gear,
                _range(c.actuator_ctrllimited[k], c.actuator_ctrlrange[k]),
                _range(c.actuator_forcelimited[k], c.actuator_forcerange[k]),
                _law(GAINS, c.actuator_gaintype[k], c.actuator_gainprm[k]),
                _law(BIASES, c.actuator_biastype[k], c.actuator_biasprm[k]),
                _law(DYNAMICS, c.actuator_dyntype[k], c.actuator_dynprm[k]),
            )
        )


def _tendon(reader: Reader, tendon: int, gear: float) -> tuple[tuple[str, float], ...]:
    """The joints of a fixed tendon, with their ratios; none for a spatial one."""
    c = reader.compiled
    wraps = range(int(c.tendon_adr[tendon]), int(c.tendon_adr[tendon]) + int(c.tendon_num[tendon]))
    if any(int(c.wrap_type[w]) != 1 for w in wraps):
        return ()
    return tuple((reader.joints[int(c.wrap_objid[w])], gear * float(c.wrap_prm[w])) for w in wraps)


def _range(limited: bool, values: np.ndarray) -> tuple[float, float]:
    return (float(values[0]), float(values[1])) if limited else (-np.inf, np.inf)


def _law(kinds: tuple[str, ...], kind: int, parameters: np.ndarray) -> tuple[str, tuple[float, ...]]:
    name = kinds[int(kind)] if 0 <= int(kind) < len(kinds) else str(int(kind))
    return name, tuple(float(x) for x in parameters[:PARAMETERS])


def _shapes(reader: Reader, files: Mapping[str, str], unread: Collection[str]) -> None:
    c = reader.compiled
    names = filled(c.names["geom"], [f"geom{k}" for k in range(len(c.names["geom"]))])
    mesh_files = c.told["mesh_files"]
    for k, name in enumerate(names):
        type_, mesh = int(c.geom_type[k]), int(c.geom_dataid[k])
        shape = SHAPES[type_] if 0 <= type_ < len(SHAPES) else str(type_)
        place, file, scale = place_of(c.geom_pos[k], c.geom_quat[k]), "", (1.0, 1.0, 1.0)
        if shape == "mesh" and mesh >= 0:  # the compiler moves them to their centres and principal axes
            place = place.then(place_of(c.mesh_pos[mesh], c.mesh_quat[mesh]).inverse())
            if mesh < len(mesh_files):
                file, scale = files.get(mesh_files[mesh], mesh_files[mesh]), tuple(c.told["mesh_scales"][mesh])
        size, heights = _size(shape, c.geom_size[k].tolist()), np.zeros((0, 0))
        if shape == "heightfield":
            size = tuple((2.0 * c.hfield_size[mesh][:2]).tolist())
            if not c.names["hfield"][mesh].endswith(tuple(unread)):
                heights = _heights(reader, mesh)
        touching = bool(c.geom_contype[k] or c.geom_conaffinity[k])
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
                collision=touching,
                friction=tuple(c.geom_friction[k].tolist()),
                rgba=tuple(float(x) for x in rgba),
                contype=int(c.geom_contype[k]),
                conaffinity=int(c.geom_conaffinity[k]),
                condim=int(c.geom_condim[k]),
                margin=float(c.geom_margin[k]),
                link=reader.links[int(c.geom_bodyid[k])],
                heights=heights,  # type: ignore[arg-type]
            )
        )
    for a, b, friction, dim, margin in zip(c.pair_geom1, c.pair_geom2, c.pair_friction, c.pair_dim, c.pair_margin):
        pair = ContactPair(names[int(a)], names[int(b)], False, tuple(friction.tolist()), int(dim), float(margin))
        reader.builder.add_contact_pair(pair)
    for signature in c.exclude_signature.tolist():
        one, two = (reader.links[k] for k in (signature >> 16, signature & 0xFFFF))
        reader.builder.add_contact_pair(ContactPair(one, two, excluded=True))


def _heights(reader: Reader, field: int) -> np.ndarray:
    """The heights of a height field [m], rows along y; the compiler gives them as parts of the largest."""
    c = reader.compiled
    rows, columns, start = (int(x[field]) for x in (c.hfield_nrow, c.hfield_ncol, c.hfield_adr))
    return c.hfield_data[start : start + rows * columns].reshape(rows, columns).astype(float) * float(c.hfield_size[field][2])


def _size(shape: str, size: list[float]) -> tuple[float, ...]:
    """MuJoCo's sizes, which are half lengths, as `Geometry` has them."""
    x, y, z = size
    return {
        "sphere": (x,),
        "box": (2.0 * x, 2.0 * y, 2.0 * z),
        "capsule": (x, 2.0 * y),
        "cylinder": (x, 2.0 * y),
        "mesh": (),
    }.get(shape, (x, y, z))
