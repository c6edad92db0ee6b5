"""Joints of fixed tendons that carry each other: MuJoCo's armatures couple only these."""

from __future__ import annotations

from collections.abc import Sequence

from linkwork.formats.mjcf_process import Compiled

Terms = Sequence[tuple[int, float]]  # joints of a tendon with their ratios


def is_one_chain(compiled: Compiled, terms: Terms) -> bool:
    """Return True if each joint of a fixed tendon carries the next."""
    return _coupled_pairs(compiled, terms) == len(terms) * (len(terms) - 1) // 2


def is_coupled(compiled: Compiled, terms: Terms) -> bool:
    """Return True if any joint of a fixed tendon carries another one, or there is only one."""
    return _coupled_pairs(compiled, terms) > 0 or len(terms) == 1


def _coupled_pairs(compiled: Compiled, terms: Terms) -> int:
    """Return the number of pairs of joints of which one carries the other."""
    bodies = [int(compiled.jnt_bodyid[joint]) for joint, _ in terms]
    paths = []
    for body in bodies:
        path = [body]
        while path[-1]:
            path.append(int(compiled.body_parentid[path[-1]]))
        paths.append(path)
    pairs = [(a, b) for a in range(len(bodies)) for b in range(a)]
    return sum(bodies[a] in paths[b] or bodies[b] in paths[a] for a, b in pairs)
