"""Equality constraints of MJCF as loops, couplings and implicit constraints."""

from __future__ import annotations

from functools import partial
from typing import Any

from linkwork.formats.mjcf_reader import Reader, place_of
from linkwork.joints import Fixed, Spherical
from linkwork.parts.names import shown
from linkwork.spatial import Pose

CONNECT, WELD, JOINT, TENDON = range(4)  # mjtEq
OTHERS = {4: "flex", 5: "flexvert", 6: "flexstrain", 7: "distance"}
SITE = 6  # mjtObj
WRAPS_JOINT = 1  # mjtWrap


def add_equalities(reader: Reader) -> None:
    """All equalities that are active, by name."""
    c = reader.compiled
    taken: set[str] = set()
    soft = 0
    for k, name in enumerate(c.names["equality"]):
        kind = int(c.eq_type[k])
        called = name or _called(reader, k, kind)
        while called in taken:
            called += "'"
        taken.add(called)
        if not c.eq_active0[k]:
            reader.notes.add("an equality that is not active at first is left out", shown(called))
            continue
        soft += 1
        if kind in (CONNECT, WELD):
            _loop(reader, k, kind, called)
        elif kind in (JOINT, TENDON):
            _polynomial(reader, k, kind, called)
        else:
            reader.notes.add(f"equality of type {OTHERS.get(kind, kind)} has no counterpart, and is left out", shown(called))
    if soft:
        reader.notes.add("equalities are soft in MuJoCo (solref, solimp), and exact here")


def _called(reader: Reader, k: int, kind: int) -> str:
    """A name for an equality that has none."""
    c = reader.compiled
    one, two = int(c.eq_obj1id[k]), int(c.eq_obj2id[k])
    if kind == JOINT:
        return f"{reader.joints[one]} follows {reader.joints[two]}" if two >= 0 else f"{reader.joints[one]} is held"
    if kind == TENDON:
        return f"tendon {c.names['tendon'][one] or one}"
    ends = c.names["site"] if int(c.eq_objtype[k]) == SITE else reader.links
    return f"{ends[one] or one} on {ends[two] or two}"


def _loop(reader: Reader, k: int, kind: int, name: str) -> None:
    """A ball, or a weld, between two bodies or two sites."""
    c = reader.compiled
    data = c.eq_data[k]
    one, two = int(c.eq_obj1id[k]), int(c.eq_obj2id[k])
    turning = kind == WELD and data[10] != 0.0  # its torquescale: without, only the points are held
    if int(c.eq_objtype[k]) == SITE:
        bodies = [int(c.site_bodyid[site]) for site in (one, two)]
        places = [place_of(c.site_pos[s], c.site_quat[s]) for s in (one, two)]
    elif kind == CONNECT:
        bodies = [one, two]
        places = [Pose.translation(data[:3].astype(float)), Pose.translation(data[3:6].astype(float))]
    else:
        bodies = [one, two]
        places = [place_of(data[3:6], data[6:10]), Pose.translation(data[:3].astype(float))]
    if _one_body(reader, bodies):
        reader.notes.add("an equality between parts of one body says nothing, and is left out", shown(name))
        return
    first, second = (reader.links[body] for body in bodies)
    reader.builder.add_loop(
        name,
        Fixed() if turning else Spherical(),
        predecessor=first,
        successor=second,
        place=places[0],
        successor_place=places[1],
    )


def _one_body(reader: Reader, bodies: list[int]) -> bool:
    """Whether no joint is between two bodies."""
    c = reader.compiled
    found = []
    for body in bodies:
        while body and all(j in reader.held for j in range(c.body_jntadr[body], c.body_jntadr[body] + c.body_jntnum[body])):
            body = int(c.body_parentid[body])
        found.append(body)
    return found[0] == found[1]


def _polynomial(reader: Reader, k: int, kind: int, name: str) -> None:
    """y - y0 = a0 + a1 (x - x0) + ... of two joints or two fixed tendons, counted from `qpos0`."""
    c = reader.compiled
    a = [float(x) for x in c.eq_data[k][:5]]
    one, two = int(c.eq_obj1id[k]), int(c.eq_obj2id[k])
    y, x = (_terms(reader, kind, of) if of >= 0 else {} for of in (one, two))
    if y is None or x is None:
        reader.notes.add("an equality of spatial tendons has no counterpart, and is left out", shown(name))
        return
    if kind == JOINT and not x:  # locked: an implicit constraint may leave a joint no freedom
        reader.builder.add_implicit_constraint(name, partial(polynomial, (a[0],), ((1.0, 0.0),)), joints=list(y))
        return
    if not x or not any(a[2:]):
        terms = dict(y)
        for joint, factor in x.items():
            terms[joint] = terms.get(joint, 0.0) - a[1] * factor
        if not any(terms.values()):
            reader.notes.add("an equality that says nothing is left out", shown(name))
            return
        reader.builder.add_coupling(name, terms, offset=a[0])
        return
    joints = list(dict.fromkeys((*y, *x)))
    weights = tuple((y.get(joint, 0.0), x.get(joint, 0.0)) for joint in joints)
    reader.builder.add_implicit_constraint(name, partial(polynomial, tuple(a), weights), joints=joints)


def _terms(reader: Reader, kind: int, of: int) -> dict[str, float] | None:
    """A joint, or the joints of a fixed tendon with their coefficients; None for a spatial one."""
    if kind == JOINT:
        return {reader.joints[of]: 1.0}
    c = reader.compiled
    found: dict[str, float] = {}
    for w in range(int(c.tendon_adr[of]), int(c.tendon_adr[of]) + int(c.tendon_num[of])):
        if int(c.wrap_type[w]) != WRAPS_JOINT:
            return None
        joint = reader.joints[int(c.wrap_objid[w])]
        found[joint] = found.get(joint, 0.0) + float(c.wrap_prm[w])
    return found


def polynomial(a: tuple[float, ...], weights: tuple[tuple[float, float], ...], q: Any) -> Any:
    """y - (a0 + a1 x + a2 x² + ...), zero where the equality holds; y and x are sums of coordinates."""
    y = x = 0.0
    for (in_y, in_x), value in zip(weights, q):
        y = y + in_y * value
        x = x + in_x * value
    found = a[-1]
    for coefficient in reversed(a[:-1]):
        found = found * x + coefficient
    return y - found
