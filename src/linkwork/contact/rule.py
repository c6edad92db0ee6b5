"""The rule by which shapes become candidates: what may touch what, decided when a kernel is compiled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from linkwork.contact.candidates import Candidate, Place
from linkwork.contact.pairs import Contact, contacts_of
from linkwork.errors import LimitError, ModelError
from linkwork.model import Model
from linkwork.parts import GROUND, WORLD, ContactPair, Geometry
from linkwork.parts.names import did_you_mean, shown, some
from linkwork.spatial import Pose

FLOOR = Geometry("ground", GROUND, Pose.identity(), "plane", condim=1)
TERRAIN = ("plane", "heightfield")


class Law(NamedTuple):
    """What a pair of shapes touches by: friction (sliding, torsional, rolling), rows, and the gap at which they touch."""

    friction: tuple[float, float, float]
    dimension: int
    margin: float


def candidates_of(model: Model, contacts: Any) -> tuple[Candidate, ...]:
    """All points of a model that may touch something.

    A shape takes part if it can collide (`Geometry.collision`), or is named. Two shapes may touch where the contype of one and
    the conaffinity of the other have a bit in common, or the model names the pair; never where the model excludes their
    bodies, where these are one body or cannot move against each other, or where one is the other's parent (but for the world).
    """
    own = _taking_part(model, contacts.shapes)
    ground = _ground(model, contacts.ground)
    found: list[Candidate] = []
    for one in own:
        for other in ground:
            found += _of_pair(model, contacts, one, other, named=contacts.shapes is not None)
    for one, other in _between(model, contacts, own):
        found += _of_pair(model, contacts, one, other, named=contacts.pairs != "auto")
    return _with_different_names(found)


def most_error(model: Model, found: tuple[Candidate, ...], most: int) -> LimitError:
    """What to do about too many candidates."""
    kinds = some([f"{n} of {kind}" for kind, n in Counter(each.kind for each in found).most_common()])
    return LimitError(
        f"{shown(model.name)}: {len(found)} points may touch something ({kinds}), more than {most}: name the shapes or frames "
        "that matter, Contacts(shapes=[...]), leave out contacts between bodies, Contacts(pairs='none'), or allow more, most="
    )


def _taking_part(model: Model, shapes: Any) -> list[Geometry]:
    """The shapes on bodies that may touch."""
    if shapes is None:
        return [each for each in model.geometries if each.collision and each.body != GROUND]
    return [shape for name in shapes for shape in named_shapes(model, name)]


def named_shapes(model: Model, name: str | Geometry) -> list[Geometry]:
    """The shapes that a name means: of a shape, of a link with shapes, or of a frame, which is a point then."""
    if isinstance(name, Geometry):
        frame = model.frame(name.link or WORLD)
        return [replace(name, body=frame.body, place=frame.place.then(name.place))]
    alike = [each for each in model.geometries if each.name == name]
    solid = [each for each in model.geometries if each.collision]
    found = alike or [each for each in solid if each.link == name]
    if not found:
        links = [body.index for body in model.bodies if name == body.name]
        found = [each for each in solid if each.body in links]
    if found:
        return found
    known = {**{each.name: 0 for each in solid}, **{frame.name: 0 for frame in model.frames}}
    try:
        frame = model.frame(name)
    except ModelError:
        raise ModelError(
            f"Contacts: {shown(model.name)} has no shape, link or frame named {name!r}{did_you_mean(name, known)}"
        ) from None
    return [Geometry(name, frame.body, frame.place, "point", link=name)]


def _ground(model: Model, ground: Any) -> list[Geometry]:
    """What is fixed to the world."""
    if ground is None:
        return []
    if ground != "plane":
        return [replace(each, body=GROUND) for each in ground]
    own = [each for each in model.geometries if each.collision and each.body == GROUND]
    return own if any(each.shape in TERRAIN for each in own) else [FLOOR, *own]


def _between(model: Model, contacts: Any, own: list[Geometry]) -> list[tuple[Geometry, Geometry]]:
    """The pairs of shapes on two bodies that are looked at."""
    if contacts.pairs == "none":
        return []
    if contacts.pairs == "auto":
        pairs = [pair for pair in combinations(own, 2) if pair[0].body != pair[1].body]
        return pairs if contacts.shapes is None else [pair for pair in pairs if _listed(model, *pair)]
    found = []
    for names in contacts.pairs:
        sides = [named_shapes(model, name) for name in names]
        found += [(one, other) for one in sides[0] for other in sides[1] if one.body != other.body]
    return found


def _listed(model: Model, one: Geometry, other: Geometry) -> ContactPair | None:
    """The pair of the model that names both shapes, if there is one."""
    names = {one.name, other.name}
    return next((pair for pair in model.contact_pairs if not pair.excluded and {pair.first, pair.second} == names), None)


def _may_touch(model: Model, one: Geometry, other: Geometry) -> bool:
    if _listed(model, one, other):
        return True
    if not (one.contype & other.conaffinity or other.contype & one.conaffinity):
        return False
    links = {one.link, other.link}
    excluded = (pair for pair in model.contact_pairs if pair.excluded)
    return not any({pair.first, pair.second} == links for pair in excluded) and not _adjacent(model, one, other)


def _adjacent(model: Model, one: Geometry, other: Geometry) -> bool:
    """Whether one body hangs on the other; what floats on the world, or stands on its terrain, is not held by it."""
    for up, down in ((one, other), (other, one)):
        if up.body == GROUND or model.joints[up.body].parent != down.body:
            continue
        if down.body != GROUND or (down.link not in ("", WORLD) and down.shape not in TERRAIN and model.joints[up.body].nv < 6):
            return True
    return False


def _of_pair(model: Model, contacts: Any, one: Geometry, other: Geometry, *, named: bool) -> list[Candidate]:
    """The candidates of two shapes; `named` ones touch whatever their masks say."""
    if one.body == other.body or not (named or _may_touch(model, one, other)):
        return []
    law, points = _law(contacts, one, other, _listed(model, one, other)), contacts_of(one, other)
    return [_candidate(contacts, law, one, other, each) for each in points or ()]


def _law(contacts: Any, one: Geometry, other: Geometry, listed: ContactPair | None) -> Law:
    """The larger coefficient of the two, of a shape without any that of the other, or 1; the larger dimension and margin."""
    if listed is not None and listed.friction:
        given: Any = listed.friction
        friction = [given[0], given[2] if len(given) > 2 else 0.0, given[3] if len(given) > 3 else 0.0]
    else:
        friction = [
            max([x[k] for x in (one.friction, other.friction) if len(x) > k], default=(1.0, 0.0, 0.0)[k]) for k in range(3)
        ]
    dimension = listed.condim if listed is not None else max(one.condim, other.condim)
    asked = (contacts.friction, contacts.torsional, contacts.rolling)
    friction = [was if x is None else x for was, x in zip(friction, asked)]
    for x, least in zip(asked, (3, 4, 6)):
        dimension = max(dimension, least) if x else dimension
    margin = listed.margin if listed is not None else max(one.margin, other.margin)
    if not friction[0]:
        dimension = 1 if not any(friction) else dimension
    return Law(tuple(friction), dimension, margin if contacts.margin is None else contacts.margin)  # type: ignore[arg-type]


def _candidate(contacts: Any, law: Law, one: Geometry, other: Geometry, each: Contact) -> Candidate:
    place, other_place = (Place.of(shape.place.then(at)) for shape, at in ((one, each.at), (other, each.other_at)))
    name = f"{one.name}{each.label}" if other.body == GROUND else f"{one.name}{each.label}-{other.name}"
    kind = f"{one.shape} on {other.shape}"
    own = (law.friction, contacts.restitution, law.dimension, law.margin)
    return Candidate(name, one.body, each.law, place, other.body, other_place, *own, kind)


def _with_different_names(found: list[Candidate]) -> tuple[Candidate, ...]:
    times: Counter[str] = Counter()
    named = []
    for each in found:
        times[each.name] += 1
        named.append(each if times[each.name] == 1 else replace(each, name=f"{each.name}#{times[each.name]}"))
    return tuple(named)
