"""The process that runs MuJoCo's own compiler on a checked MJCF text: alone, since a compiler may hang or crash.

It is run by its source, and imports nothing of linkwork. Standard input is JSON:

    path     where Python finds packages
    xml      the text, without <include> and without anything that would be read from a file but meshes and models
    models   texts of models to attach, by the names that stand for files
    meshes   files of meshes, by the names that stand for them: [path, why it is empty]
    memory   bytes that it may take, beyond what it has once MuJoCo is imported
    seconds  of processor time that it may take

Standard output is "N" and arrays as NumPy's npz, or "E" and JSON with what is wrong. A mesh is opened only if something
needs it: the inertia of a body that moves, or a primitive that is fitted to it. In place of others stands a small tetrahedron.
"""

import io
import json
import os
import sys
from typing import Any

TETRAHEDRON = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
FACES = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]
ARRAYS = """
body_parentid body_pos body_quat body_ipos body_iquat body_mass body_inertia body_jntnum body_jntadr body_mocapid body_gravcomp
jnt_type jnt_bodyid jnt_pos jnt_axis jnt_qposadr jnt_dofadr jnt_stiffness jnt_stiffnesspoly jnt_limited jnt_range
jnt_actfrclimited jnt_actfrcrange jnt_springyield
dof_armature dof_damping dof_dampingpoly dof_frictionloss qpos0 qpos_spring
eq_type eq_objtype eq_obj1id eq_obj2id eq_data eq_active0
site_bodyid site_pos site_quat key_qpos key_qvel key_time
tendon_adr tendon_num tendon_stiffness tendon_damping tendon_frictionloss tendon_armature tendon_limited tendon_length0
wrap_type wrap_objid wrap_prm
actuator_trntype actuator_trnid actuator_gear actuator_dyntype actuator_gaintype actuator_biastype actuator_dynprm
actuator_gainprm actuator_biasprm actuator_ctrllimited actuator_ctrlrange actuator_forcelimited actuator_forcerange
actuator_armature actuator_damping
geom_type geom_bodyid geom_pos geom_quat geom_size geom_dataid geom_friction geom_rgba geom_contype geom_conaffinity
geom_condim geom_margin geom_matid geom_fluid mat_rgba mesh_pos mesh_quat mesh_scale
hfield_size hfield_nrow hfield_ncol hfield_adr hfield_data
pair_geom1 pair_geom2 pair_friction pair_dim pair_margin exclude_signature
""".split()  # noqa: SIM905
NAMED = ("body", "joint", "equality", "site", "key", "tendon", "actuator", "geom", "mesh", "hfield")
COUNTS = ("nflex", "nplugin", "nq", "nv")
MESHES = 24  # bytes that the compiler may take for each byte of a mesh that it opens: 17 were measured
NO_MEMORY = ("allocate memory", "bad_alloc", "unknown exception")  # what MuJoCo says where there is none


LFS = b"version https://git-lfs"  # how a pointer begins


class NeededMesh(Exception):
    """A mesh without a file that something needs."""


def restrict(memory: int, seconds: int) -> None:
    """Bounds on memory and processor time, where the system has them."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        with open("/proc/self/statm") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        most = resource.getrlimit(resource.RLIMIT_AS)[1]  # which cannot be raised again once it is lowered
        soft = taken + memory if most == resource.RLIM_INFINITY else min(taken + memory, most)
        resource.setrlimit(resource.RLIMIT_AS, (soft, most))
    except (OSError, ValueError):
        pass


def moving(body: Any) -> bool:
    """Whether a joint moves this body."""
    while body is not None and body.name != "world":
        if body.joints:
            return True
        body = body.parent
    return False


def needed(spec: Any, mujoco: Any) -> dict[str, str]:
    """Names of meshes that must be opened, with the reason."""
    found: dict[str, str] = {}
    mode = int(spec.compiler.inertiafromgeom)  # never, always, or where a body has no <inertial>
    for geom in spec.geoms:
        name = geom.meshname
        if not name or name in found:
            continue
        if geom.type not in (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_SDF):
            whose = f"geom {geom.name!r}" if geom.name else f"a geom of body {geom.parent.name!r}"
            found[name] = f"a primitive is fitted to it ({whose})"
            continue
        body = geom.parent
        weightless = geom.mass == 0.0 or (geom.mass != geom.mass and geom.density == 0.0)
        inferred = mode == 1 or (mode == 2 and not body.explicitinertial)
        if inferred and not weightless and moving(body):
            found[name] = f"the inertia of body {body.name!r} is inferred from it"
    return found


def settle(spec: Any, meshes: dict[str, list[str]], mujoco: Any) -> tuple[dict[str, bytes], list[str], list[list[float]], int]:
    """Gives each mesh its file, if it is needed, or else a stand-in; names that stand for files, and scales, mesh by mesh."""
    wanted = needed(spec, mujoco)
    assets: dict[str, bytes] = {}
    files: list[str] = []
    scales: list[list[float]] = []
    total = 0
    for mesh in spec.meshes:
        key = mesh.file
        files.append(key)
        scales.append([float(x) for x in mesh.scale])
        if not key:
            continue
        path, why = meshes.get(key, ["", "there is no such file"])
        if mesh.name in wanted and not path:
            raise NeededMesh(f"mesh {mesh.name!r} is needed, since {wanted[mesh.name]}; its file {key!r} is not opened: {why}")
        if mesh.name in wanted:
            with open(path, "rb") as file:
                assets[key] = file.read()
            if assets[key].startswith(LFS):
                raise NeededMesh(
                    f"mesh {mesh.name!r} is needed, since {wanted[mesh.name]}; its file {key!r} is a pointer of Git LFS, not "
                    "the file itself: `git lfs pull` fetches that"
                )
            total += len(assets[key])
        else:
            mesh.file, mesh.uservert, mesh.userface = "", TETRAHEDRON, FACES
            mesh.scale = [1.0, 1.0, 1.0]
    return assets, files, scales, total


def compiled(request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of the compiled model, and what else is to be told."""
    import mujoco
    import numpy as np

    restrict(request["memory"], request["seconds"])
    texts = {name: text.encode() for name, text in request["models"].items()}
    spec = mujoco.MjSpec.from_string(request["xml"], **({"include": texts} if texts else {}))
    assets, files, scales, total = settle(spec, request["meshes"], mujoco)
    restrict(request["memory"] + MESHES * total, request["seconds"])
    spec.assets = {**texts, **assets}
    model = spec.compile()
    arrays = {name: np.array(getattr(model, name)) for name in ARRAYS if hasattr(model, name)}
    names = {}
    for kind in NAMED:
        object_ = getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
        count = {"body": model.nbody, "joint": model.njnt, "equality": model.neq, "site": model.nsite, "key": model.nkey,
                 "tendon": model.ntendon, "actuator": len(arrays["actuator_trntype"]), "geom": model.ngeom,
                 "mesh": model.nmesh, "hfield": model.nhfield}[kind]  # fmt: skip
        names[kind] = [mujoco.mj_id2name(model, object_, k) or "" for k in range(count)]
    told = {
        "name": spec.modelname,
        "names": names,
        "mesh_files": files,
        "mesh_scales": scales,
        "gravity": [float(x) for x in model.opt.gravity],
        "weightless": bool(model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)),
        "fluid": bool(model.opt.density or model.opt.viscosity),
        "version": mujoco.__version__,
        **{word: int(getattr(model, word, 0)) for word in COUNTS},
    }
    return arrays, told


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    buffer = io.BytesIO()
    try:
        arrays, told = compiled(request)
        import numpy as np

        np.savez(buffer, told=np.frombuffer(json.dumps(told).encode(), dtype=np.uint8), **arrays)
        answer = b"N" + buffer.getvalue()
    except ModuleNotFoundError as error:
        answer = b"E" + json.dumps({"missing": error.name}).encode()
    except MemoryError:
        answer = b"E" + json.dumps({"memory": True}).encode()
    except NeededMesh as error:
        answer = b"E" + json.dumps({"needed": str(error)}).encode()
    except Exception as error:
        told = {"memory": True} if any(word in str(error) for word in NO_MEMORY) else {"error": str(error)}
        answer = b"E" + json.dumps(told).encode()
    with os.fdopen(out, "wb") as stream:
        stream.write(answer)
        stream.flush()
    os._exit(0)  # without the libraries' own farewell


if __name__ == "__main__":
    main()
