"""Names for the parts of MuJoCo models that have none: the same for whoever asks."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import count


def free_name(wanted: str, taken: Container[str]) -> str:
    """A name like the wanted one that is not taken."""
    names = (wanted if k == 1 else f"{wanted}_{k}" for k in count(1))
    return next(name for name in names if name not in taken)


def filled(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Names with those that are empty made up, like the wanted ones, so that all differ."""
    taken = set(names)
    found = []
    for name, like in zip(names, wanted):
        if not name:
            name = free_name(like, taken)
            taken.add(name)
        found.append(name)
    return found


def body_names(names: Sequence[str]) -> list[str]:
    """Names of all bodies; the first is the world."""
    return ["world", *filled(names[1:], [f"body{k}" for k in range(1, len(names))])]


def joint_names(names: Sequence[str], bodies: Sequence[str], body_of: Sequence[int]) -> list[str]:
    """Names of all joints: one without a name is called after its body."""
    return filled(names, [f"{bodies[k]}_joint" for k in body_of])
