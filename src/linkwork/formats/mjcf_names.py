"""Unique names for unnamed parts of MuJoCo models, the same in readers and writers."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import count


def free_name(preferred: str, taken: Container[str]) -> str:
    """Return an unused name that begins with the preferred one."""
    names = (preferred if k == 1 else f"{preferred}_{k}" for k in count(1))
    return next(name for name in names if name not in taken)


def tendon_joint(tendon: str) -> str:
    """Return the name of the joint, body and coupling that represent a tendon."""
    return f"tendon {tendon}"


def filled(names: Sequence[str], preferred: Sequence[str]) -> list[str]:
    """Return names with the empty ones replaced by unique names like the preferred ones."""
    taken = set(names)
    unique = []
    for name, base_name in zip(names, preferred):
        if not name:
            name = free_name(base_name, taken)
            taken.add(name)
        unique.append(name)
    return unique


def body_names(names: Sequence[str]) -> list[str]:
    """Return the names of all bodies; the first is the world."""
    return ["world", *filled(names[1:], [f"body{k}" for k in range(1, len(names))])]


def joint_names(names: Sequence[str], bodies: Sequence[str], body_of: Sequence[int]) -> list[str]:
    """Return the names of all joints; unnamed joints get their body's name."""
    return filled(names, [f"{bodies[k]}_joint" for k in body_of])
