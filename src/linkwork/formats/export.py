"""Export of models to URDF and MJCF."""

from __future__ import annotations

import os
from collections.abc import Iterable

from linkwork.errors import ModelError
from linkwork.formats.export_checks import MJCF_LOSSES, URDF_LOSSES, Losses, check_model
from linkwork.formats.export_mjcf import mjcf_text
from linkwork.formats.export_urdf import urdf_text
from linkwork.model import Model


def export_urdf(
    model: Model, path: str | os.PathLike[str] | None = None, *, allow_loss: Iterable[str] = ()
) -> str:
    """Return the URDF of a model as text, and write it to `path` if given.

    `linkwork.load` of the file gives an equal model: q, v and tau, dynamics, limits, names and data. Loops
    are written as <loop>, couplings as <mimic> or <coupling>, frames as massless links. Data that URDF cannot
    express uses the extensions in docs/formats.md: further joint types, springs and armature in <dynamics>,
    and <linkwork> elements, which other programs ignore.

    Parameters
    ----------
    model : Model
        The model.
    path : path-like, optional
        The file to write.
    allow_loss : iterable of str, optional
        Features that may be omitted: "implicit constraints" (the mechanism changes without them) and
        "partition" of joints (only programs change).

    Returns
    -------
    str
        The text of the file.

    Raises
    ------
    ModelError
        If the model has features that cannot be written (custom joints, flexible bodies, implicit
        constraints), or if `allow_loss` names a feature that is not lost.

    See Also
    --------
    export_mjcf : Export for MuJoCo.
    load : Read a model from a file.
    """
    losses = Losses(allow_loss, URDF_LOSSES)
    text = urdf_text(_checked(model), losses)
    losses.check()
    return _written(text, path)


def export_mjcf(
    model: Model,
    path: str | os.PathLike[str] | None = None,
    *,
    meshes: str | os.PathLike[str] | None = None,
    allow_loss: Iterable[str] = (),
) -> str:
    """Return the MJCF of a model as text, and write it to `path` if given.

    MuJoCo simulates the spanning tree with the same dynamics, and loops and couplings as (soft) equalities. A
    joint with several DoF becomes several joints of one body, named `ankle_x` and so on; massless links are
    merged into the body that they move. Frames become sites; keyframes are converted to MuJoCo's coordinates.
    The file also contains a linkwork description in <custom>, so that `linkwork.load` gives an equal model; a
    file modified later is read as plain MJCF.

    Parameters
    ----------
    model : Model
        The model.
    path : path-like, optional
        The file to write.
    meshes : path-like, optional
        The folder of mesh files. By default meshes are omitted, since MuJoCo opens their files. Files
        that MuJoCo can read (STL, OBJ and MSH) are written.
    allow_loss : iterable of str, optional
        Features that MuJoCo may simulate differently or not at all: "loops" (of kinds other than fixed,
        spherical and revolute), "implicit constraints", "armature", "damping" and "friction" of joints
        whose axes rotate, "actuators", "collision shapes" and "partition".

    Returns
    -------
    str
        The text of the file.

    Raises
    ------
    ModelError
        If the model has features that MuJoCo does not support (custom joints, flexible bodies, massless
        bodies that move more than one other, inconsistent inertias), or if `allow_loss` names a feature
        that is not lost.

    See Also
    --------
    export_urdf : Lossless export.
    load : Read a model from a file.
    """
    folder = None if meshes is None else os.fspath(meshes)
    target_folder = None if path is None else os.path.dirname(os.path.abspath(path))
    losses = Losses(allow_loss, MJCF_LOSSES)
    text = mjcf_text(_checked(model), losses, folder, target_folder)
    losses.check()
    return _written(text, path)


def _checked(model: object) -> Model:
    if not isinstance(model, Model):
        raise ModelError(f"model: expected a linkwork.Model, got {type(model).__name__}")
    check_model(model)
    return model


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return text
