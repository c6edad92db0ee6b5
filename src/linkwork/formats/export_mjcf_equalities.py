"""Loops and couplings as MuJoCo equalities."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from linkwork.formats.export_checks import Losses, as_polynomial
from linkwork.formats.export_text import Names, Tag
from linkwork.joints import Fixed, Gimbal, Helical, Revolute, Spherical
from linkwork.mechanism import Coupling, End, Loop, LoopConstraint
from linkwork.model import Model, PlacedJoint
from linkwork.spatial import Pose

AXIS_POINT_DISTANCE = 0.1  # [m] between the two points of an axis
N_COEFFICIENTS = 5  # of a polynomial


class Equalities:
    """The <equality> of a file, with the tendons that it needs."""

    def __init__(
        self, model: Model, losses: Losses, names: Names, site: Callable[[End], str], tendons: Tag
    ) -> None:
        self.model = model
        self.losses = losses
        self.names = names
        self.site = site
        self.tendons = tendons
        self.tag = Tag("equality")

    def add(self, constraint: LoopConstraint) -> None:
        """Add a loop, coupling or polynomial; other constraints are lost."""
        if isinstance(constraint, Loop):
            self._loop(constraint)
        elif isinstance(constraint, Coupling):
            self._coupling(constraint)
        else:
            self._polynomial(constraint)

    def couple_parts(self, joint: PlacedJoint, parts: list[str]) -> None:
        """Couple the two MuJoCo joints of a helical joint."""
        if isinstance(joint.kind, Helical):
            turn, slide = parts
            self.tag.add("joint", joint1=slide, joint2=turn, polycoef=(0, joint.kind.pitch, 0, 0, 0))

    def _loop(self, loop: Loop) -> None:
        name = self.names.new("equality", loop.name)
        ends = (loop.predecessor, loop.successor)
        if isinstance(loop.kind, (Fixed, Spherical, Gimbal)):
            one, two = map(self.site, ends)
            self.tag.add(
                "weld" if isinstance(loop.kind, Fixed) else "connect", name=name, site1=one, site2=two
            )
        elif isinstance(loop.kind, Revolute):  # two points of the axis; one of the six equations is redundant
            for point, suffix in ((0.0, ""), (AXIS_POINT_DISTANCE, " (axis)")):
                along = Pose.translation(point * loop.kind.unit)
                one, two = (self.site(End(end.body, end.place.then(along))) for end in ends)
                equality_name = self.names.new("equality", loop.name + suffix) if suffix else name
                self.tag.add("connect", name=equality_name, site1=one, site2=two)
        elif loop.constrains:
            kind = type(loop.kind).__name__
            message = f"{kind} loops cannot be exported; expected Fixed, Spherical or Revolute"
            self.losses.lose("loops", f"loop {loop.name!r}: {message}")

    def _coupling(self, coupling: Coupling) -> None:
        name = self.names.new("equality", coupling.name)
        terms = [(k, c) for k, _, c in coupling.terms]
        if len(terms) > 2:
            tendon = self._tendon(coupling.name, terms)
            self.tag.add("tendon", name=name, tendon1=tendon, polycoef=(coupling.offset, 0, 0, 0, 0))
            return
        (one, a), *others = terms
        joint2 = {"joint2": self._joint(others[0][0])} if others else {}
        polynomial = (coupling.offset / a, -others[0][1] / a if others else 0.0, 0, 0, 0)
        self.tag.add("joint", name=name, joint1=self._joint(one), **joint2, polycoef=polynomial)

    def _polynomial(self, constraint: LoopConstraint) -> None:
        """Add a polynomial of joints or fixed tendons, as read from MJCF."""
        equality = as_polynomial(constraint)
        if equality is None or len(equality[0]) > N_COEFFICIENTS:
            message = f"{constraint.name!r} is an implicit constraint, which MJCF does not support"
            self.losses.lose("implicit constraints", message)
            return
        coefficients, weights = equality
        ys = [(k, y) for k, y, _ in weights if y]
        xs = [(k, x) for k, _, x in weights if x]
        if not xs:  # MuJoCo then uses the first coefficient only
            coefficients = coefficients[:1]
        name = self.names.new("equality", constraint.name)
        polycoef_values = (*coefficients, *(0.0,) * (N_COEFFICIENTS - len(coefficients)))
        if len(ys) == 1 and ys[0][1] == 1.0 and (not xs or (len(xs) == 1 and xs[0][1] == 1.0)):
            second = {"joint2": self._joint(xs[0][0])} if xs else {}
            self.tag.add("joint", name=name, joint1=self._joint(ys[0][0]), **second, polycoef=polycoef_values)
            return
        second = {"tendon2": self._tendon(f"{constraint.name} x", xs)} if xs else {}
        self.tag.add(
            "tendon",
            name=name,
            tendon1=self._tendon(f"{constraint.name} y", ys),
            **second,
            polycoef=polycoef_values,
        )

    def _tendon(self, preferred: str, terms: Iterable[tuple[int, float]]) -> str:
        """Add a fixed tendon of joints and return its name."""
        name = self.names.new("tendon", preferred)
        fixed = self.tendons.add("fixed", name=name)
        for k, coefficient in terms:
            fixed.add("joint", joint=self._joint(k), coef=coefficient)
        return name

    def _joint(self, k: int) -> str:
        return self.model.joints[k].name
