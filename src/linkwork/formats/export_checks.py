"""Features that exports may lose, and models that no file format can hold."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from linkwork.errors import ModelError
from linkwork.formats.mjcf_equalities import polynomial
from linkwork.joints import Joint
from linkwork.mechanism import Coupling, ImplicitConstraint, LoopConstraint
from linkwork.mechanism.names import did_you_mean
from linkwork.model import Model

URDF_LOSSES = ("implicit constraints", "partition")
MJCF_LOSSES = (
    "loops", "implicit constraints", "armature", "damping", "friction", "actuators", "collision shapes",
    "partition", "gravity_scale",
)  # fmt: skip
_PACKAGE = __name__.partition(".")[0] + "."


class Losses:
    """The features that a caller allows to lose, and those that are lost."""

    def __init__(self, allowed: Iterable[str], known: tuple[str, ...]) -> None:
        names = [allowed] if isinstance(allowed, str) else [*allowed]
        for name in names:
            if name not in known:
                raise ModelError(
                    f"allow_loss: expected some of {', '.join(known)}, got "
                    f"{name!r}{did_you_mean(name, known)}"
                )
        self.allowed = set(names)
        self.known = known
        self.lost: set[str] = set()

    def lose(self, feature: str, message: str) -> None:
        """Raise ModelError unless the loss of a feature is allowed."""
        assert feature in self.known
        self.lost.add(feature)
        if feature not in self.allowed:
            raise ModelError(f"{message}; allow_loss=[{feature!r}] omits it")

    def check(self) -> None:
        """Raise ModelError if an allowed loss does not occur."""
        unneeded = sorted(self.allowed - self.lost)
        if unneeded:
            raise ModelError(f"allow_loss: no {unneeded[0]} of this model would be lost: remove it")


def check_model(model: Model) -> None:
    """Raise ModelError for a model that no file format can hold, naming the feature."""
    if model.nominal_model is not None or model.parameter_inputs:
        raise ModelError("a model with symbolic parameters cannot be exported")
    for coupling in (c for c in model.loops if isinstance(c, Coupling)):
        coupled_joint = next((model.joints[k] for k, _, _ in coupling.terms if model.joints[k].nv != 1), None)
        if coupled_joint is not None:
            message = f"coordinates of joint {coupled_joint.name!r}, which has several, cannot be exported"
            raise ModelError(f"coupling {coupling.name!r}: {message}")
    for joint in model.joints:
        if joint.kind.elastic or joint.follows is not None:
            message = "not supported by URDF and MJCF"
            raise ModelError(f"body {model.bodies[joint.child].name!r} is part of a flexible body: {message}")
        if not _is_builtin(joint.kind):
            message = f"custom joints ({type(joint.kind).__name__}) cannot be exported"
            raise ModelError(f"joint {joint.name!r}: {message}")


def _is_builtin(kind: Joint) -> bool:
    return type(kind).__module__.startswith(_PACKAGE)


def as_polynomial(
    constraint: LoopConstraint,
) -> tuple[tuple[float, ...], list[tuple[int, float, float]]] | None:
    """Return an implicit constraint as an equality of MJCF, or None.

    The result has its coefficients, and joints with their parts in y and x.
    """
    if not isinstance(constraint, ImplicitConstraint):
        return None
    function = constraint.function
    if not isinstance(function, functools.partial) or function.func is not polynomial or function.keywords:
        return None
    coefficients, weights = function.args
    return tuple(coefficients), [(k, y, x) for k, (y, x) in zip(constraint.joints, weights, strict=True)]
