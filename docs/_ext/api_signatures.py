"""API reference: document model functions as functions, with shapes and units of their arguments."""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autodoc import FunctionDocumenter

from linkwork import ModelFunction

MEANINGS = {
    "q": "Coordinates of all joints [rad, m]; see :doc:`/conventions`.",
    "q0": "Coordinates of all joints [rad, m].",
    "q1": "Coordinates of all joints [rad, m].",
    "v": "Velocities of the independent joints [rad/s, m/s].",
    "a": "Accelerations of the independent joints [rad/s², m/s²].",
    "tau": "Joint forces of the independent joints [N m, N].",
    "f_ext": "External [moment, force] on each body, at the origin and in the axes of its frame [N m, N].",
    "tau_spanning": "Joint forces of all joints of the spanning tree [N m, N].",
    "a_spanning": "Accelerations of all joints of the spanning tree [rad/s², m/s²].",
    "dt": "Step [s].",
    "frame": 'Name of a frame, link, joint or ``"world"``; or a sequence of names, which adds a leading '
    "dimension.",
    "reference": 'Point and axes: ``"body"`` (origin and axes of the frame), ``"world_aligned"`` (origin of '
    "the frame, "
    "axes of the world) or ``\"world\"`` (the body's point at the world's origin, axes of the world).",
    "classical": "Return the acceleration of the point seen by an observer at rest instead of the spatial "
    "acceleration.",
    "constraints": "Constraints that forces enforce; see :doc:`/guide/constraints`.",
    "contacts": "What may touch; see `linkwork.Contacts`.",
    "prescribed": "Joints, or names in ``model.v_names``, whose acceleration is given; or a boolean mask.",
    "method": 'Algorithm; it affects speed, not the result. ``"auto"`` counts operations.',
    "wrt": "Arrays and parameters of the derivatives, by name.",
    "active": "Which constraints act, one number per constraint.",
    "compliance": "Compliance of the constraint rows.",
    "actuators": "Names of the driven joints.",
    "joints": "Names of joints.",
    "loop": "Name of a loop joint of ``model.loops``.",
    "details": "Also return residuals and iteration counts.",
    "warm_start": "Forces or impulses of the previous step.",
    "packed": "Return the upper triangle without structural zeros; see `mass_matrix_pattern`.",
}


def argument_fields(function: ModelFunction) -> list[str]:
    """Return field lists for the arrays and options of a model function."""
    lines = [":param model: Model, frozen."]
    for name, parameter in list(
        inspect.signature(function.body).parameters.items()
    )[1:]:
        meaning = MEANINGS.get(name, "")
        shape = function.shapes.get(name)
        if shape is not None:
            shape = ", ".join(("...", *shape.split()))
            kind = f"array_like, shape ({shape})"
        elif parameter.annotation in ("bool", bool):
            kind = "bool"
        else:
            kind = ""
        if parameter.default is not parameter.empty:
            kind = f"{kind}, optional" if kind else "optional"
        if not meaning and shape is None:
            continue
        lines += [f":param {name}: {meaning}", f":type {name}: {kind}"]
    return lines


class ModelFunctionDocumenter(FunctionDocumenter):
    """Document a function of a model, which is an object, as the function that its body is."""

    objtype = "modelfunction"
    directivetype = "function"
    model_function: ModelFunction | None = None

    @classmethod
    def can_document_member(
        cls, member: Any, membername: str, isattr: bool, parent: Any
    ) -> bool:
        return isinstance(member, ModelFunction)

    def import_object(self, raiseerror: bool = False) -> bool:
        imported = super().import_object(raiseerror)
        if imported:
            self.model_function = self.object
            self.object = self.object.body
        return imported

    def get_doc(self) -> list[list[str]] | None:
        documents = super().get_doc()
        if not documents or self.model_function is None:
            return documents
        text = [line for document in documents for line in document]
        described = any(
            line.startswith(":param ") or re.fullmatch(r"-{3,}", line.strip())
            for line in text
        )
        if not described:
            return [*documents, ["", *argument_fields(self.model_function), ""]]
        return documents


def plain_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Drop `Any` from signatures: shapes are given in the field list."""
    if signature is not None:
        signature = re.sub(r": ~?(?:typing\.)?Any(?=[,)= ])", "", signature)
        signature = (
            re.sub(r"(\w) = ", r"\1=", signature)
            if ": " not in signature
            else signature
        )
    if returns in ("Any", "~typing.Any", "typing.Any"):
        returns = None
    return signature, returns


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_autodocumenter(ModelFunctionDocumenter)
    app.connect("autodoc-process-signature", plain_signature)
    return {"parallel_read_safe": True}
