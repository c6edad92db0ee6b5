"""Option `contacts` of functions: which shapes may touch, and the contact model."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from typing import Any, final

import numpy as np

from linkwork.contact.candidates import Candidate
from linkwork.contact.pair_filter import candidates_of, no_candidates, too_many_candidates
from linkwork.errors import ModelError
from linkwork.mechanism import Geometry
from linkwork.model import Model
from linkwork.spatial.constants import set_frozen


@final
@dataclass(frozen=True)
class Contacts:
    """Selection of the shapes that may touch, and the contact model: a frozen value.

    Parameters
    ----------
    ground : "plane", None, Geometry or sequence of Geometry
        "plane" is z = 0 of the world, unless the model has a plane or a height field there. Geometries on the
        world (planes, boxes, height fields) replace those of the model.
    shapes : str, Geometry or sequence of these, optional
        Shapes that may touch: names of shapes, of links (all their shapes) or of frames (as points), or
        geometries with a `link`. Default: all collision shapes of the model.
    pairs : {"auto", "all", "none"} or sequence of (str, str)
        Contacts between bodies. "auto": those of different mechanisms; within one mechanism, or where
        `shapes` are given, only pairs listed by the model. "all": self-collision too. Or pairs of names of
        shapes or links.
    friction : float, optional
        Coulomb friction coefficient of all contacts. Default: those of the shapes.
    torsional, rolling : float, optional
        Torsional and rolling friction coefficients of all contacts [m]. Default: those of the shapes.
    restitution : float
        Ratio of separating to approaching speed of rigid contacts, 0 to 1.
    stiffness : float
        Stiffness of compliant contacts [N/m]. Default infinite: rigid contact.
    damping : float
        Damping of compliant contacts [N s/m].
    margin : float, optional
        Distance at which shapes touch [m]. Default: that of the shapes.
    limits, joint_friction : bool
        Whether joint limits and dry friction in joints act.
    iterations : int
        Largest number of solver iterations.
    tolerance : float
        Largest residual of a solved row [m/s].
    max_candidates : int
        Number of candidates above which an error is raised.

    Examples
    --------
    >>> contacts = lw.Contacts(shapes=["left_sole", "right_sole"], friction=0.8)
    >>> len(lw.contact_candidates(lw.robots.humanoid(), contacts))
    2
    """

    ground: Any = "plane"
    shapes: Any = None
    pairs: Any = "auto"
    friction: float | None = None
    torsional: float | None = None
    rolling: float | None = None
    restitution: float = 0.0
    stiffness: float = inf
    damping: float = 0.0
    margin: float | None = None
    limits: bool = True
    joint_friction: bool = True
    iterations: int = 200
    tolerance: float = 1e-9
    max_candidates: int = 256
    # candidates of one model: the normal form, which identifies kernels
    resolved: tuple[Candidate, ...] | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            if isinstance(
                x := getattr(self, each.name), np.generic
            ):  # a number of NumPy's is one of Python's
                set_frozen(self, each.name, x.item())
        set_frozen(self, "ground", _ground(self.ground))
        set_frozen(self, "shapes", _shapes(self.shapes))
        set_frozen(self, "pairs", _pairs(self.pairs))
        for word in ("friction", "torsional", "rolling", "margin"):
            if getattr(self, word) is not None:
                set_frozen(self, word, _number(word, getattr(self, word)))
        set_frozen(self, "restitution", _number("restitution", self.restitution, most=1.0))
        set_frozen(self, "stiffness", _number("stiffness", self.stiffness, infinite=True))
        set_frozen(self, "damping", _number("damping", self.damping))
        set_frozen(self, "tolerance", _number("tolerance", self.tolerance))
        for word in ("limits", "joint_friction"):
            if not isinstance(getattr(self, word), bool):
                raise ModelError(f"Contacts: {word}: expected True or False, got {getattr(self, word)!r}")
        for word in ("iterations", "max_candidates"):
            x = getattr(self, word)
            if isinstance(x, bool) or not isinstance(x, int) or x < 1:
                raise ModelError(f"Contacts: {word}: expected an integer of at least 1, got {x!r}")
        if self.stiffness == 0.0:
            raise ModelError(
                "Contacts: stiffness: expected a number above zero [N/m], or infinite for rigid contact"
            )
        if isfinite(self.stiffness) and self.restitution != 0.0:
            raise ModelError(
                "Contacts: restitution is for rigid contacts; damping= makes compliant ones rebound"
            )
        if not isfinite(self.stiffness) and self.damping != 0.0:
            raise ModelError(
                "Contacts: damping is for compliant contacts: give stiffness= too, or restitution= of rigid "
                "ones"
            )

    def __hash__(self) -> int:  # asked at every call, and a height field has many numbers
        if "hash" not in self.__dict__:
            set_frozen(self, "hash", hash(tuple(getattr(self, each.name) for each in fields(self))))
        return int(self.__dict__["hash"])

    def __getstate__(self) -> dict[str, Any]:
        return {
            word: value for word, value in self.__dict__.items() if word != "hash"
        }  # another one in every process

    def candidates(self, model: Model) -> tuple[Candidate, ...]:
        """Return the contact candidates of a model."""
        return candidates_of(model, self) if self.resolved is None else self.resolved

    def on(self, model: Model) -> Contacts:
        """Return the normal form for a model, with its candidates in place of their selection.

        Kernels are identified by it, since `Model.digest` does not cover shapes.
        """
        if self.resolved is not None:
            return self
        candidates = self.candidates(model)
        if len(candidates) > self.max_candidates:
            raise too_many_candidates(model, candidates, self.max_candidates)
        if not candidates and self.ground is not None:
            raise no_candidates(model, self)
        return replace(self, ground=None, shapes=None, pairs="none", resolved=candidates)


def chosen_contacts(model: Model, contacts: Any = None, **_: Any) -> dict[str, Any]:
    """Return the option `contacts` of a function in normal form: for a model, with its candidates."""
    option = Contacts() if contacts is None else contacts
    if not isinstance(option, Contacts):
        raise ModelError(f"contacts: expected Contacts(...), got {contacts!r}")
    return {"contacts": option.on(model)}


def _number(word: str, x: Any, *, most: float = inf, infinite: bool = False) -> float:
    if (
        isinstance(x, bool)
        or not isinstance(x, (int, float))
        or not (0.0 <= x <= most)
        or not (infinite or isfinite(x))
    ):
        span = "a non-negative number" if most == inf else f"a number from 0 to {most:g}"
        raise ModelError(f"Contacts: {word}: expected {span}, got {x!r}")
    return float(x)


def _ground(ground: Any) -> Any:
    if ground is None or (isinstance(ground, str) and ground == "plane"):
        return ground
    several = (ground,) if isinstance(ground, Geometry) else ground
    if isinstance(several, (tuple, list)) and all(isinstance(each, Geometry) for each in several):
        return tuple(several)
    raise ModelError(f"Contacts: ground: expected 'plane', None, or geometries on the world, got {ground!r}")


def _shapes(shapes: Any) -> Any:
    if shapes is None:
        return None
    several = (shapes,) if isinstance(shapes, (str, Geometry)) else shapes
    if isinstance(several, (tuple, list)) and all(isinstance(each, (str, Geometry)) for each in several):
        return tuple(several)
    raise ModelError(
        f"Contacts: shapes: expected names of shapes, links or frames, or geometries, got {shapes!r}"
    )


def _pairs(pairs: Any) -> Any:
    if pairs is None:
        return "none"
    if isinstance(pairs, str) and pairs in ("auto", "all", "none"):
        return pairs
    if isinstance(pairs, (tuple, list)):
        several = [pairs] if len(pairs) == 2 and all(isinstance(name, str) for name in pairs) else pairs
        if all(
            isinstance(p, (tuple, list)) and len(p) == 2 and all(isinstance(n, str) for n in p)
            for p in several
        ):
            return tuple(tuple(pair) for pair in several)
    raise ModelError(
        "Contacts: pairs: expected 'auto', 'all', 'none', or pairs of names such as [('hand', 'head')], got "
        f"{pairs!r}"
    )
