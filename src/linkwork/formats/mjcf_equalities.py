"""Equality constraints of MJCF as loops, couplings and implicit constraints."""

from __future__ import annotations

from functools import partial
from typing import Any

from linkwork.formats.mjcf_reader import Reader, place_of
from linkwork.joints import Fixed, Spherical
from linkwork.mechanism.names import printable
from linkwork.spatial import Pose

CONNECT, WELD, JOINT, TENDON = range(4)  # mjtEq
OTHERS = {4: "flex", 5: "flexvert", 6: "flexstrain", 7: "distance"}
SITE = 6  # mjtObj
WRAPS_JOINT = 1  # mjtWrap


def add_equalities(reader: Reader) -> None:
    """Add all active equalities."""
    c = reader.compiled
    if not reader.acts("equality"):
        return
    taken = set(reader.tendon_joints.values())  # names of couplings
    count = 0
    for k, name in enumerate(c.names["equality"]):
        kind = int(c.eq_type[k])
        label = name or _default_name(reader, k, kind)
        while label in taken:
            label += "'"
        taken.add(label)
        if not c.eq_active0[k]:
            reader.notes.add("initially inactive equality is ignored", printable(label))
            continue
        count += 1
        if kind in (CONNECT, WELD):
            _loop(reader, k, kind, label)
        elif kind in (JOINT, TENDON):
            _polynomial(reader, k, kind, label)
        else:
            reader.notes.missing(
                f"equality of type {OTHERS.get(kind, kind)} is not supported and ignored",
                printable(label),
            )
    if count:
        reader.notes.add("equalities are soft in MuJoCo (solref, solimp) and exact here")


def _default_name(reader: Reader, k: int, kind: int) -> str:
    """Return a name for an unnamed equality."""
    c = reader.compiled
    one = int(c.eq_obj1id[k])
    two = int(c.eq_obj2id[k])
    if kind == JOINT:
        return (
            f"{reader.joints[one]} follows {reader.joints[two]}"
            if two >= 0
            else f"{reader.joints[one]} is held"
        )
    if kind == TENDON:
        return f"tendon {c.names['tendon'][one] or one}"
    ends = c.names["site"] if int(c.eq_objtype[k]) == SITE else reader.links
    return f"{ends[one] or one} on {ends[two] or two}"


def _loop(reader: Reader, k: int, kind: int, name: str) -> None:
    """Add a ball or weld between two bodies or two sites."""
    c = reader.compiled
    data = c.eq_data[k]
    one = int(c.eq_obj1id[k])
    two = int(c.eq_obj2id[k])
    welded = kind == WELD and data[10] != 0.0  # torquescale; if zero, only points are connected
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
        reader.notes.add("equality between parts of one body has no effect and is ignored", printable(name))
        return
    first, second = (reader.links[body] for body in bodies)
    reader.builder.add_loop(
        name,
        Fixed() if welded else Spherical(),
        predecessor=first,
        successor=second,
        place=places[0],
        successor_place=places[1],
    )


def _one_body(reader: Reader, bodies: list[int]) -> bool:
    """Return True if no joint is between two bodies."""
    c = reader.compiled
    fixed_to = []
    for body in bodies:
        while body and all(
            j in reader.held for j in range(c.body_jntadr[body], c.body_jntadr[body] + c.body_jntnum[body])
        ):
            body = int(c.body_parentid[body])
        fixed_to.append(body)
    return fixed_to[0] == fixed_to[1]


def _polynomial(reader: Reader, k: int, kind: int, name: str) -> None:
    """Add y - y0 = a0 + a1 (x - x0) + ... of two joints or two fixed tendons, relative to `qpos0`."""
    c = reader.compiled
    a = [float(x) for x in c.eq_data[k][:5]]
    one = int(c.eq_obj1id[k])
    two = int(c.eq_obj2id[k])
    y, x = (_terms(reader, kind, of) if of >= 0 else {} for of in (one, two))
    if y is None or x is None:
        reader.notes.missing("equality of spatial tendons is not supported and ignored", printable(name))
        return
    if kind == JOINT and not x:  # locked: an implicit constraint may remove all DoF of a joint
        reader.builder.add_implicit_constraint(
            name, partial(polynomial, (a[0],), ((1.0, 0.0),)), joints=list(y)
        )
        return
    if not x or not any(a[2:]):
        terms = dict(y)
        for joint, factor in x.items():
            terms[joint] = terms.get(joint, 0.0) - a[1] * factor
        if not any(terms.values()):
            reader.notes.add("equality without effect is ignored", printable(name))
            return
        reader.builder.add_coupling(name, terms, offset=a[0])
        return
    joints = list(dict.fromkeys((*y, *x)))
    weights = tuple((y.get(joint, 0.0), x.get(joint, 0.0)) for joint in joints)
    reader.builder.add_implicit_constraint(name, partial(polynomial, tuple(a), weights), joints=joints)


def _terms(reader: Reader, kind: int, of: int) -> dict[str, float] | None:
    """Return the coefficients of a joint or of the joints of a fixed tendon; None for a spatial tendon."""
    if kind == JOINT:
        return {reader.joints[of]: 1.0}
    c = reader.compiled
    coefficients: dict[str, float] = {}
    for w in range(int(c.tendon_adr[of]), int(c.tendon_adr[of]) + int(c.tendon_num[of])):
        if int(c.wrap_type[w]) != WRAPS_JOINT:
            return None
        joint = reader.joints[int(c.wrap_objid[w])]
        coefficients[joint] = coefficients.get(joint, 0.0) + float(c.wrap_prm[w])
    return coefficients


def polynomial(a: tuple[float, ...], weights: tuple[tuple[float, float], ...], q: Any) -> Any:
    """Return y - (a0 + a1 x + a2 x² + ...), zero if the equality holds; y and x are sums of coordinates."""
    y = x = 0.0
    for (in_y, in_x), value in zip(weights, q):
        y = y + in_y * value
        x = x + in_x * value
    right_side = a[-1]
    for coefficient in reversed(a[:-1]):
        right_side = right_side * x + coefficient
    return y - right_side
