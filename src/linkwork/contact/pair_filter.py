"""Filter of shape pairs: which shapes of a model may touch, decided when a kernel is compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from linkwork.contact.candidates import Candidate, Place
from linkwork.contact.checks import check_coefficients, checked_shape
from linkwork.contact.names import named_shapes
from linkwork.contact.pairs import Contact, contacts_of, has_law
from linkwork.errors import LimitError, ModelError
from linkwork.joints import Prismatic, Revolute
from linkwork.mechanism import GROUND, WORLD, ContactPair, Geometry, Loop, path_to_ground
from linkwork.mechanism.names import join_names, printable
from linkwork.model import Model

FLOOR = Geometry("ground", shape="plane", condim=1)
TERRAIN = ("plane", "heightfield")
DEFAULT_FRICTION = (1.0, 0.0, 0.0)  # friction of shapes that say nothing: sliding, torsional, rolling
PLURAL = {
    "mesh has no hull": "meshes have no hull",
    "height field has no heights": "height fields have no heights",
}
REMEDY = "describe one by spheres, capsules or boxes"
UNKNOWN = (  # shapes whose numbers are in files that are not read, and what can be done about it
    ("mesh", "mesh has no hull", "lw.with_hulls(model, folders=[...]) reads the files and makes hulls"),
    (
        "heightfield",
        "height field has no heights",
        "give them by Contacts(ground=Geometry(..., heights=...))",
    ),
)


class ShapePair(NamedTuple):
    """Two shapes that may touch; the second may be fixed to the world. `named`: the user listed them."""

    one: Geometry
    other: Geometry
    named: bool


class ContactMaterial(NamedTuple):
    """Contact parameters of a pair of shapes.

    Friction (sliding, torsional, rolling), number of rows, and the gap [m] at which they touch.
    """

    friction: tuple[float, float, float]
    dimension: int
    margin: float


class PairFilter:
    """Pairs of shapes that a model and an option `contacts` let touch.

    A shape takes part if it can collide (`Geometry.collision`), or is named. Two shapes may touch where the
    contype of one and the conaffinity of the other have a bit in common, or the model lists the pair; never
    where the model excludes their links, where they are on one body or cannot move against each other, where
    one body hangs on the other by a joint, or where joints move it only along a plane of the world. Of two
    bodies of one mechanism only listed pairs count, unless all are asked for: "auto" leaves out what
    self-collision would add.
    """

    def __init__(self, model: Model, contacts: Any) -> None:
        self.model = model
        self.contacts = contacts
        pairs = model.contact_pairs
        self._listed = {frozenset((pair.first, pair.second)): pair for pair in pairs if not pair.excluded}
        self._excluded = {frozenset((pair.first, pair.second)) for pair in pairs if pair.excluded}
        self._rigid = _rigid(model)
        self._mechanism = _mechanisms(model)
        self._joined = {frozenset((joint.child, joint.parent)) for joint in model.joints}
        self._joined |= {
            frozenset(end.body for end in loop.ends) for loop in model.loops if isinstance(loop, Loop)
        }
        self.own = _taking_part(model, contacts.shapes)
        self.ground = _ground(model, contacts.ground)

    def pairs(self) -> Iterator[ShapePair]:
        """Yield all pairs of shapes that may touch, those with the ground first."""
        named = self.contacts.shapes is not None
        for one in self.own:
            for other in self.ground:
                if self._apart(one, other) and (named or self.may_touch(one, other)):
                    yield ShapePair(one, other, named)
        yield from self._between()

    def _between(self) -> Iterator[ShapePair]:
        pairs = self.contacts.pairs
        if pairs == "none":
            return
        if not isinstance(pairs, str):
            yield from self._named()
            return
        moving = [each for each in self.own if each.body != GROUND]
        for one, other in (
            combinations(moving, 2) if pairs == "all" else self._of_different_mechanisms(moving)
        ):
            if (
                self._apart(one, other)
                and self.may_touch(one, other)
                and not (pairs == "auto" and self.listed(one, other))
            ):
                yield ShapePair(one, other, False)
        named = {each.name: each for each in moving}
        for pair in self._listed.values() if pairs == "auto" else ():
            if (
                pair.first in named
                and pair.second in named
                and self._apart(named[pair.first], named[pair.second])
            ):
                yield ShapePair(named[pair.first], named[pair.second], False)

    def _of_different_mechanisms(self, moving: list[Geometry]) -> Iterator[tuple[Geometry, Geometry]]:
        """Yield pairs of shapes of different mechanisms; none where shapes are named."""
        groups: dict[int, list[Geometry]] = {}
        for each in moving if self.contacts.shapes is None else ():
            groups.setdefault(self._mechanism[each.body], []).append(each)
        for one, other in combinations(groups.values(), 2):
            yield from product(one, other)

    def _named(self) -> Iterator[ShapePair]:
        for names in self.contacts.pairs:
            first, second = (named_shapes(self.model, name) for name in names)
            both = [
                (a, b) if a.body != GROUND else (b, a) for a in first for b in second if self._apart(a, b)
            ]
            if not both:
                raise ModelError(
                    f"Contacts: the pair {names[0]!r}, {names[1]!r} cannot move against each other"
                )
            yield from (ShapePair(one, other, True) for one, other in both)

    def _keeps_distance(self, body: int, plane: Geometry) -> bool:
        """Return whether joints move a body only along a plane of the world, as of a turntable."""
        R = np.eye(3)
        n = plane.place.R[:, 2]
        for k in reversed(path_to_ground(body, self.model.joints)):
            joint = self.model.joints[k]
            R = R @ np.asarray(joint.place.R, dtype=float)
            if not isinstance(joint.kind, (Revolute, Prismatic)):
                return False
            along = abs(float(n @ (R @ joint.kind.unit)))
            if abs(along - (1.0 if isinstance(joint.kind, Revolute) else 0.0)) > 1e-9:
                return False
        return True

    def _apart(self, one: Geometry, other: Geometry) -> bool:
        """Return whether they can move against each other."""
        return self._rigid[one.body] != self._rigid[other.body]

    def listed(self, one: Geometry, other: Geometry) -> ContactPair | None:
        """Return the pair of the model that names both shapes, if there is one."""
        return self._listed.get(frozenset((one.name, other.name)))

    def may_touch(self, one: Geometry, other: Geometry) -> bool:
        """Return whether masks, pairs and joints of the model let two shapes touch."""
        if self.listed(one, other):
            return True
        if not (one.contype & other.conaffinity or other.contype & one.conaffinity):
            return False
        return frozenset((one.link, other.link)) not in self._excluded and not self._adjacent(one, other)

    def _adjacent(self, one: Geometry, other: Geometry) -> bool:
        """Return whether a joint holds one body on the other. The world holds what hangs on a link that is
        fixed to it.
        """
        moving, fixed = (one, other) if other.body == GROUND else (other, one)
        if fixed.body == GROUND and fixed.shape == "plane":
            return self._keeps_distance(moving.body, fixed)
        if frozenset((one.body, other.body)) not in self._joined:
            return False
        if fixed.body != GROUND:
            return True
        return fixed.link not in ("", WORLD) and self.model.joints[moving.body].base not in ("", WORLD)

    def law(self, one: Geometry, other: Geometry) -> ContactMaterial:
        """Return the larger coefficients of both, of a shape without any those of the other; the larger
        dimension and margin.

        A pair that the model lists has its own. What `contacts` gives is for all.
        """
        listed = self.listed(one, other)
        contacts = self.contacts
        if listed is not None:
            coefficients = listed.friction  # two of sliding, one of torsion, two of rolling
            label = f"the contact pair {listed.first!r}, {listed.second!r}:"
            check_coefficients(label, coefficients, 5, listed.condim, listed.margin)
            friction = [
                coefficients[k] if len(coefficients) > k else DEFAULT_FRICTION[i]
                for i, k in enumerate((0, 2, 3))
            ]
            dimension = listed.condim
            margin = listed.margin
        else:
            both = [shape.friction for shape in (one, other)]
            friction = [
                max([x[k] for x in both if len(x) > k], default=DEFAULT_FRICTION[k]) for k in range(3)
            ]
            dimension = max(one.condim, other.condim)
            margin = max(one.margin, other.margin)
        asked = (contacts.friction, contacts.torsional, contacts.rolling)
        friction = [was if x is None else x for was, x in zip(friction, asked)]
        dimension = max(dimension, *(least for x, least in zip(asked, (3, 4, 6)) if x), 1)
        if not any(friction[: {1: 0, 3: 1, 4: 2}.get(dimension, 3)]):
            dimension = 1
        three_coefficients = (friction[0], friction[1], friction[2])
        return ContactMaterial(
            three_coefficients, dimension, margin if contacts.margin is None else contacts.margin
        )


def candidates_of(model: Model, contacts: Any) -> tuple[Candidate, ...]:
    """Return all points of a model that may touch something; see `PairFilter`."""
    rule = PairFilter(model, contacts)
    result = list[Candidate]()
    for one, other, named in rule.pairs():
        if has_law(one, other):
            points = contacts_of(checked_shape(one), checked_shape(other))
            law = rule.law(one, other)
            result += [_candidate(contacts, law, one, other, each) for each in points]
        elif named:
            raise ModelError(f"Contacts: {untested(one, other)}")
    return _with_different_names(result)


def too_many_candidates(model: Model, candidates: tuple[Candidate, ...], limit: int) -> LimitError:
    """Return the error for too many candidates."""
    kinds = join_names(
        [f"{n} of {kind}" for kind, n in Counter(each.kind for each in candidates).most_common()]
    )
    return LimitError(
        f"{printable(model.name)}: expected at most {limit} contact candidates, got {len(candidates)} "
        f"({kinds}): select shapes or frames by Contacts(shapes=[...]), omit contacts between bodies by "
        "Contacts(pairs='none'), or set max_candidates="
    )


def no_candidates(model: Model, contacts: Any) -> ModelError:
    """Return the error for a model without contact candidates."""
    why = "".join(f" ({sentence})" for sentence in left_out(model, contacts))
    return ModelError(
        f"{printable(model.name)} has no shape that may touch the ground{why}: select shapes or frames by "
        "Contacts(shapes=[...]), add shapes to the model, or use Contacts(ground=None)"
    )


def left_out(model: Model, contacts: Any) -> list[str]:
    """Return a sentence for each kind of shapes and pairs that may touch by the rule, but have no law."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for one, other, _ in PairFilter(model, contacts).pairs():
        if not has_law(one, other) and not any(map(_unknown, (one, other))):
            a, b = sorted((one.shape, other.shape))
            kinds.setdefault((a, b), []).append(f"{one.name} and {other.name}")
    result = []
    for shape, problem, remedy in UNKNOWN:
        n = sum(each.collision and each.shape == shape and _unknown(each) for each in model.geometries)
        result += (
            [f"{n} {problem if n == 1 else PLURAL[problem]} and can touch nothing: {remedy}"] if n else []
        )
    for (a, b), names in kinds.items():
        pairs = "pair" if len(names) == 1 else "pairs"
        result.append(
            f"{len(names)} {pairs} of {a} and {b} pass through each other ({join_names(names, 4)}): {REMEDY}"
        )
    return result


def _unknown(shape: Geometry) -> bool:
    """Return whether the numbers of a shape are in a file that was not read."""
    return shape.shape == "mesh" or (shape.shape == "heightfield" and not shape.heights)


def untested(one: Geometry, other: Geometry) -> str:
    """Return why two shapes cannot be tested against each other, with a remedy."""
    for each in (one, other):
        for shape, problem, remedy in UNKNOWN:
            if each.shape == shape and _unknown(each):
                message = f"shape {each.name!r}: the {problem} and can touch nothing: {remedy}"
                example = "lw.Geometry(name, link=link, shape='sphere', size=(r,))"
                return f"{message}; or name another in its place, such as {example}"
    names = f"{one.name!r} and {other.name!r}"
    shapes = f"a {one.shape} and a {other.shape}"
    return f"{names}, {shapes}, cannot be tested against each other: {REMEDY}"


def _taking_part(model: Model, shapes: Any) -> list[Geometry]:
    """Return the shapes on bodies that may touch."""
    if shapes is None:
        return [each for each in model.geometries if each.collision and each.body != GROUND]
    result = list(dict.fromkeys(shape for name in shapes for shape in named_shapes(model, name)))
    for each in result:
        if each.body == GROUND:
            raise ModelError(f"Contacts: {each.name!r} is fixed to the world; shapes= selects moving shapes")
    return result


def _ground(model: Model, ground: Any) -> list[Geometry]:
    """Return the bodies fixed to the world."""
    if ground is None:
        return []
    if ground != "plane":
        for each in ground:
            if each.body != GROUND or each.link in {body.name for body in model.bodies}:
                moves = each.link or model.bodies[each.body].name
                raise ModelError(
                    f"Contacts: ground= are shapes on the world, and {each.name!r} is on {moves!r}"
                )
        return [replace(each, body=GROUND) for each in ground]
    fixed = [each for each in model.geometries if each.collision and each.body == GROUND]
    return fixed if any(each.shape in TERRAIN for each in fixed) else [FLOOR, *fixed]


def _rigid(model: Model) -> dict[int, int]:
    """Return, for each body and the ground, a representative of all that cannot move relative to it."""
    result = {GROUND: GROUND}
    for cluster in model.clusters:
        inside = set(cluster.bodies)
        carrier = next(model.joints[k].parent for k in cluster.bodies if model.joints[k].parent not in inside)
        stiff = bool(cluster.constraints) and not cluster.independent and not cluster.supports
        result |= {k: result[carrier] if stiff else k for k in cluster.bodies}
    return result


def _mechanisms(model: Model) -> dict[int, int]:
    """Return, for each body, a representative of its mechanism: all that joints, loops and one link fixed to
    the world connect.
    """
    root: dict[int, int] = {}
    held: dict[str, int] = {}  # by links fixed to the world
    for joint in model.joints:
        if joint.parent != GROUND:
            root[joint.child] = root[joint.parent]
        else:
            root[joint.child] = (
                joint.child if joint.base in ("", WORLD) else held.setdefault(joint.base, joint.child)
            )
    for loop in model.loops:
        roots = {root[body] for body in loop.bodies if body != GROUND}
        root = {body: min(roots) if of in roots else of for body, of in root.items()}
    return root


def _candidate(
    contacts: Any, law: ContactMaterial, one: Geometry, other: Geometry, each: Contact
) -> Candidate:
    place, other_place = (
        Place.of(shape.place.then(at)) for shape, at in ((one, each.at), (other, each.other_at))
    )
    terrain = other.body == GROUND and other.shape in TERRAIN
    name = f"{one.name}{each.label}" if terrain else f"{one.name}{each.label}-{other.name}"
    material = (law.friction, contacts.restitution, law.dimension, law.margin)
    return Candidate(
        name, one.body, each.law, place, other.body, other_place, *material, f"{one.shape} on {other.shape}"
    )


def _with_different_names(candidates: list[Candidate]) -> tuple[Candidate, ...]:
    times: Counter[str] = Counter()
    named = []
    for each in candidates:
        times[each.name] += 1
        named.append(each if times[each.name] == 1 else replace(each, name=f"{each.name}#{times[each.name]}"))
    return tuple(named)
