"""Process that runs MuJoCo's compiler on a checked MJCF text, since the compiler may hang or crash.

It is run from its source and imports nothing of linkwork. Standard input is JSON:

    path     where Python finds packages
    xml      the text, without <include> and without file names except those of meshes and models
    models   texts of models to attach, by the names used in the text
    meshes   mesh files by the names used in the text: [path, why it is empty]
    free     whether a body that the file fixes in the world gets a free joint
    memory   bytes that the compiler may take beyond those of the imported MuJoCo
    seconds  processor time

Standard output is "N" and arrays as NumPy's npz, or "E" and JSON with an error. A mesh is opened only if it
is needed: for the inertia of a moving body, the total mass, or a fitted primitive. Other meshes are replaced
by a small tetrahedron.
"""

import io
import json
import os
import sys
from typing import Any

TETRAHEDRON = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
FACES = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]
ARRAYS = """
body_parentid body_pos body_quat body_ipos body_iquat body_mass body_inertia body_jntnum body_jntadr
body_mocapid body_gravcomp
jnt_type jnt_bodyid jnt_pos jnt_axis jnt_qposadr jnt_dofadr jnt_stiffness jnt_stiffnesspoly jnt_limited
jnt_range
jnt_actfrclimited jnt_actfrcrange jnt_springyield
dof_armature dof_damping dof_dampingpoly dof_frictionloss qpos0 qpos_spring
eq_type eq_objtype eq_obj1id eq_obj2id eq_data eq_active0
site_bodyid site_pos site_quat key_qpos key_qvel key_time key_ctrl key_act
tendon_adr tendon_num tendon_stiffness tendon_damping tendon_frictionloss tendon_armature tendon_limited
tendon_length0
wrap_type wrap_objid wrap_prm
actuator_trntype actuator_trnid actuator_gear actuator_dyntype actuator_gaintype actuator_biastype
actuator_dynprm
actuator_gainprm actuator_biasprm actuator_ctrllimited actuator_ctrlrange actuator_forcelimited
actuator_forcerange
actuator_armature actuator_damping actuator_dampingpoly actuator_actlimited actuator_actrange actuator_actnum
actuator_actadr actuator_ctrladr actuator_ctrlspec actuator_actearly
actuator_delay actuator_group actuator_lengthrange actuator_acc0
tendon_range tendon_lengthspring tendon_dampingpoly tendon_stiffnesspoly tendon_springyield
geom_type geom_bodyid geom_pos geom_quat geom_size geom_dataid geom_friction geom_rgba geom_contype
geom_conaffinity
geom_condim geom_margin geom_matid geom_fluid mat_rgba mesh_pos mesh_quat mesh_scale
hfield_size hfield_nrow hfield_ncol hfield_adr hfield_data
pair_geom1 pair_geom2 pair_friction pair_dim pair_margin exclude_signature
""".split()  # noqa: SIM905
NAMED = ("body", "joint", "equality", "site", "key", "tendon", "actuator", "geom", "mesh", "hfield")
# Arrays with one row per control or output, of which an actuator may have several.
OF_CONTROL = ("ctrllimited", "ctrlrange")
KINDS = ("Gain", "Bias", "Dyn", "Trn")
OF_OUTPUT = ("gear", "lengthrange", "acc0")
# Switched off by MuJoCo while it computes length ranges; "passive" is of older versions. Without "autoreset"
# a simulation that diverges ends, while that of MuJoCo begins anew for ever.
NOT_IN_RANGES = (
    "FRICTIONLOSS",
    "CONTACT",
    "SPRING",
    "DAMPER",
    "PASSIVE",
    "GRAVITY",
    "ACTUATION",
    "AUTORESET",
)
COUNTS = ("nflex", "nplugin", "nq", "nv")
MESHES = 24  # bytes of memory per byte of an opened mesh; 17 were measured
NO_MEMORY = (
    "allocate memory",
    "bad_alloc",
    "unknown exception",
)  # MuJoCo's messages when memory is exhausted


LFS = b"version https://git-lfs"  # first bytes of a pointer file


class NeededMesh(Exception):
    """A mesh without a file that is needed."""


def restrict(memory: int, seconds: int) -> None:
    """Limit memory and processor time, if the system supports it."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        with open("/proc/self/statm") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        most = resource.getrlimit(resource.RLIMIT_AS)[1]  # cannot be raised once lowered
        soft = taken + memory if most == resource.RLIM_INFINITY else min(taken + memory, most)
        resource.setrlimit(resource.RLIMIT_AS, (soft, most))
    except (OSError, ValueError):
        pass


def moving(body: Any) -> bool:
    """Return True if a joint moves this body."""
    while body is not None and body.name != "world":
        if body.joints:
            return True
        body = body.parent
    return False


def compiler_of(element: Any, spec: Any) -> Any:
    """Return the compiler settings of an element; an attached model has its own.

    Older versions of MuJoCo give only the parent's.
    """
    return getattr(element, "compiler", None) or spec.compiler


def has_inferred_inertia(body: Any, spec: Any, older: set[int]) -> bool:
    """Return True if the inertia of a body is inferred from its geoms.

    `older` are the modes of models that may be attached.
    """
    modes = {int(compiler_of(body, spec).inertiafromgeom), *older}
    return 1 in modes or (2 in modes and not body.explicitinertial)


def attached_modes(spec: Any, texts: dict[str, bytes], mujoco: Any) -> set[int]:
    """Return how models to attach infer inertias, for versions of MuJoCo that do not store it with bodies."""
    if not texts or hasattr(spec.worldbody, "compiler"):
        return set()
    return {
        int(mujoco.MjSpec.from_string(text.decode(), include=texts).compiler.inertiafromgeom)
        for text in texts.values()
    }


def needed(spec: Any, mujoco: Any, older: set[int], *, freed: bool) -> dict[str, str]:
    """Return the names of meshes that must be opened, with reasons.

    `freed`: a body that the file fixes in the world gets a free joint.
    """
    reasons: dict[str, str] = {}
    total = float(spec.compiler.settotalmass) > 0.0
    for geom in spec.geoms:
        name = geom.meshname
        if not name or name in reasons:
            continue
        if geom.type not in (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_SDF):
            geom_label = f"geom {geom.name!r}" if geom.name else f"a geom of body {geom.parent.name!r}"
            reasons[name] = f"a primitive is fitted to it ({geom_label})"
            continue
        body = geom.parent
        first, last = (int(k) for k in compiler_of(body, spec).inertiagrouprange)
        if (
            body.name == "world"
            or not first <= int(geom.group) <= last
            or not has_inferred_inertia(body, spec, older)
        ):
            continue
        weightless = geom.mass == 0.0 or (geom.mass != geom.mass and geom.density == 0.0)
        if weightless:
            continue
        if freed or moving(body):
            reasons[name] = f"the inertia of body {body.name!r} is inferred from it"
        elif total:
            reasons[name] = f"settotalmass needs the mass of body {body.name!r}, which is inferred from it"
    return reasons


def load_meshes(
    spec: Any, meshes: dict[str, list[str]], needed_meshes: dict[str, str], mujoco: Any
) -> tuple[dict[str, bytes], list[str], list[list[float]], int]:
    """Set the file of each needed mesh, and a tetrahedron for others.

    Returns assets by name, and file name and scale of each mesh, and the total size.
    """
    assets: dict[str, bytes] = {}
    files: list[str] = []
    scales: list[list[float]] = []
    placeholders: set[str] = set()
    total = 0
    for mesh in spec.meshes:
        key = mesh.file
        files.append(key)
        scales.append([float(x) for x in mesh.scale])
        if not key:
            continue
        path, why = meshes.get(key, ["", "file not found"])
        if mesh.name in needed_meshes and not path:
            raise NeededMesh(
                f"mesh {mesh.name!r} is required ({needed_meshes[mesh.name]}), but its file {key!r} is not "
                f"available: {why}"
            )
        if mesh.name in needed_meshes:
            with open(path, "rb") as file:
                assets[key] = file.read()
            if assets[key].startswith(LFS):
                raise NeededMesh(
                    f"mesh {mesh.name!r} is required ({needed_meshes[mesh.name]}), but its file {key!r} "
                    "is a Git LFS pointer: fetch it with `git lfs pull`"
                )
            total += len(assets[key])
        else:
            mesh.file = ""
            mesh.uservert = TETRAHEDRON
            mesh.userface = FACES
            mesh.scale = [1.0, 1.0, 1.0]
            placeholders.add(mesh.name)
    for geom in spec.geoms:
        if geom.meshname in placeholders:
            geom.mass = 0.0  # the mass of a tetrahedron is meaningless
    return assets, files, scales, total


def flags(bits: int, kinds: Any, prefix: str) -> list[str]:
    """Return the names of the bits that are set, as in MJCF."""
    names = [name for name in dir(kinds) if name.startswith(prefix)]
    return [name.removeprefix(prefix).lower() for name in names if bits & int(getattr(kinds, name))]


def members(kinds: Any, prefix: str) -> dict[str, str]:
    """Return the names of an enumeration by number, as in MJCF; numbers depend on the version."""
    return {str(int(kind)): name.removeprefix(prefix).lower() for name, kind in kinds.__members__.items()}


def set_length_ranges(model: Any, spec: Any, mujoco: Any, np: Any) -> None:
    """Compute missing length ranges of muscles, of those transmissions that linkwork supports.

    As in the compiler, joint limits are the only forces besides that of the actuator.
    """
    trn = mujoco.mjtTrn
    gain = int(mujoco.mjtGain.mjGAIN_MUSCLE)
    options = getattr(spec.compiler, "LRopt", None) or mujoco.MjLROpt()
    options.mode = int(mujoco.mjtLRMode.mjLRMODE_MUSCLE)
    before = int(model.opt.disableflags), float(model.opt.timestep)
    data = None
    for k in range(len(model.actuator_trntype)):
        low, high = model.actuator_lengthrange[k]
        kind = int(model.actuator_trntype[k])
        is_muscle = gain == model.actuator_gaintype[k] or int(model.actuator_biastype[k]) == int(
            mujoco.mjtBias.mjBIAS_MUSCLE
        )
        if low < high or not is_muscle:
            continue
        if kind not in (int(trn.mjTRN_JOINT), int(trn.mjTRN_JOINTINPARENT), int(trn.mjTRN_TENDON)):
            continue
        if data is None:
            data = mujoco.MjData(model)
            off = mujoco.mjtDisableBit
            model.opt.disableflags = sum(int(getattr(off, f"mjDSBL_{word}", 0)) for word in NOT_IN_RANGES)
            if options.timestep > 0.0:
                model.opt.timestep = options.timestep
        mujoco.mj_setLengthRange(model, data, k, options)
        if not np.isfinite(model.actuator_lengthrange[k]).all():
            raise ValueError(f"lengthrange of actuator {k} cannot be computed: the simulation diverges")
    model.opt.disableflags, model.opt.timestep = before


def compiled(request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays of the compiled model, and other data."""
    import mujoco
    import numpy as np

    restrict(request["memory"], request["seconds"])
    texts = {name: text.encode() for name, text in request["models"].items()}
    spec = mujoco.MjSpec.from_string(request["xml"], **({"include": texts} if texts else {}))
    freed = request["free"] and not any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in spec.joints)
    needed_meshes = needed(spec, mujoco, attached_modes(spec, texts, mujoco), freed=freed)
    assets, files, scales, total = load_meshes(spec, request["meshes"], needed_meshes, mujoco)
    restrict(request["memory"] + MESHES * total, request["seconds"])
    spec.assets = {**texts, **assets}
    model = spec.compile()
    set_length_ranges(model, spec, mujoco, np)
    arrays = {name: np.array(getattr(model, name)) for name in ARRAYS if hasattr(model, name)}
    for words, start in ((OF_CONTROL, "actuator_ctrladr"), (OF_OUTPUT, "actuator_outadr")):
        if hasattr(model, start):  # the first per actuator, as in older versions
            places = np.array(getattr(model, start))
            arrays |= {f"actuator_{word}": arrays[f"actuator_{word}"][places] for word in words}
    names = {}
    for kind in NAMED:
        object_ = getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
        count = {"body": model.nbody, "joint": model.njnt, "equality": model.neq, "site": model.nsite,
            "key": model.nkey,
                 "tendon": model.ntendon, "actuator": len(arrays["actuator_trntype"]), "geom": model.ngeom,
                 "mesh": model.nmesh, "hfield": model.nhfield}[kind]  # fmt: skip
        names[kind] = [mujoco.mj_id2name(model, object_, k) or "" for k in range(count)]
    info = {
        "name": spec.modelname,
        "names": names,
        "mesh_files": files,
        "mesh_scales": scales,
        "gravity": [float(x) for x in model.opt.gravity],
        "disabled": flags(model.opt.disableflags, mujoco.mjtDisableBit, "mjDSBL_"),
        "enabled": flags(model.opt.enableflags, mujoco.mjtEnableBit, "mjENBL_"),
        "groups": int(getattr(model.opt, "disableactuator", 0)),
        "fluid": bool(model.opt.density or model.opt.viscosity),
        "kinds": {word: members(getattr(mujoco, f"mjt{word}"), f"mj{word.upper()}_") for word in KINDS},
        "version": mujoco.__version__,
        **{word: int(getattr(model, word, 0)) for word in COUNTS},
    }
    return arrays, info


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # for output of libraries
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    buffer = io.BytesIO()
    try:
        arrays, info = compiled(request)
        import numpy as np

        np.savez(buffer, info=np.frombuffer(json.dumps(info).encode(), dtype=np.uint8), **arrays)
        answer = b"N" + buffer.getvalue()
    except ModuleNotFoundError as error:
        answer = b"E" + json.dumps({"missing": error.name}).encode()
    except MemoryError:
        answer = b"E" + json.dumps({"memory": True}).encode()
    except NeededMesh as error:
        answer = b"E" + json.dumps({"needed": str(error)}).encode()
    except Exception as error:
        info = {"memory": True} if any(word in str(error) for word in NO_MEMORY) else {"error": str(error)}
        answer = b"E" + json.dumps(info).encode()
    with os.fdopen(out, "wb") as stream:
        stream.write(answer)
        stream.flush()
    os._exit(0)  # skips exit handlers of libraries


if __name__ == "__main__":
    main()
