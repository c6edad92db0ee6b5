"""Models as files of other software."""

from __future__ import annotations

import os

from linkwork.errors import ModelError
from linkwork.formats.export_mjcf import mjcf_text
from linkwork.formats.export_urdf import urdf_text
from linkwork.model import Model


def export_urdf(model: Model, path: str | os.PathLike[str] | None = None) -> str:
    """The URDF of a model, as text, and written to `path` if one is given.

    Loops are <loop>, couplings <mimic> or <coupling>; frames are links without mass. What URDF has no word for is written in
    the words that `linkwork.load` reads: further types of joints, and springs and armature in <dynamics>. Gravity, keyframes
    and actuators are left out. ModelError names what cannot be written: implicit constraints, and joints of your own.
    """
    return _written(urdf_text(_checked(model)), path)


def export_mjcf(
    model: Model, path: str | os.PathLike[str] | None = None, *, meshes: str | os.PathLike[str] | None = None
) -> str:
    """The MJCF of a model's spanning tree, with loops and couplings as equalities: as text, and written to `path` if given.

    A joint of several coordinates becomes several joints of one body, named `ankle_x` and so on; links without mass go into the
    body that they move. Frames are sites; keyframes are written in MuJoCo's coordinates. Meshes are left out, since MuJoCo
    opens their files: `meshes` is the folder that has them, of which those are named that MuJoCo reads (STL, OBJ and MSH).
    ModelError names what MuJoCo has not: loop joints other than fixed, spherical and revolute ones, bodies without mass that
    move more than one other, meshes that the folder does not have.
    """
    folder = None if meshes is None else os.fspath(meshes)
    there = None if path is None else os.path.dirname(os.path.abspath(path))
    return _written(mjcf_text(_checked(model), folder, there), path)


def _checked(model: object) -> Model:
    if not isinstance(model, Model):
        raise ModelError(f"a linkwork model is needed, not {type(model).__name__}")
    return model


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return text
