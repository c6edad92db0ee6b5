"""Random URDF of what is valid and unusual, and read by Pinocchio too."""

from __future__ import annotations

import numpy as np

KINDS = ("revolute", "continuous", "prismatic", "fixed", "planar", "floating")


class File:
    """One file: its numbers are written in many ways, and its elements come in any order."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def some(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def number(self, x: float) -> str:
        way = self.rng.integers(0, 5)
        return (repr(float(x)), f"{x:.9e}", f"{x:.3f}", f"{x:.12G}", f"{x:+.7f}" if x < 0 else f"{x:.7f}")[
            way
        ]

    def numbers(self, values: object) -> str:
        text = str(self.rng.choice([" ", "  "])).join(self.number(x) for x in np.ravel(np.asarray(values)))
        return f" {text} " if self.some(0.1) else text

    def place(self) -> str:
        rng = self.rng
        if self.some(0.15):
            return ""
        words = f' xyz="{self.numbers(rng.normal(size=3))}"' if self.some(0.8) else ""
        if self.some(0.7):
            angles = (
                rng.uniform(-7, 7, size=3)
                if self.some(0.8)
                else rng.choice([0.0, np.pi / 2, -np.pi / 2, np.pi], size=3)
            )
            words += f' rpy="{self.numbers(angles)}"'
        return f"<origin{words}/>"

    def inertial(self) -> str:
        rng = self.rng
        A = rng.normal(size=(3, 3))
        moment = np.trace(A @ A.T) * np.eye(3) - A @ A.T + 0.01 * np.eye(3)
        words = "".join(
            f' i{a}{b}="{moment["xyz".index(a), "xyz".index(b)]:.9g}"'
            for a, b in ("xx", "xy", "xz", "yy", "yz", "zz")
        )
        parts = [self.place(), f'<mass value="{self.number(rng.uniform(0.1, 5))}"/>', f"<inertia{words}/>"]
        rng.shuffle(parts)
        return f"<inertial>{''.join(parts)}</inertial>"

    def link(self, name: str, weightless: bool) -> str:
        inside = "" if weightless else self.inertial()
        if self.some(0.2):
            inside += f'<visual>{self.place()}<geometry><box size="1 2 3"/></geometry></visual>'
        if self.some(0.2):
            inside += f'<collision>{self.place()}<geometry><sphere radius="0.5"/></geometry></collision>'
        return f'<link name="{name}">{inside}</link>'

    def joint(self, k: int, parent: str, child: str) -> str:
        rng = self.rng
        kind = str(rng.choice(KINDS, p=[0.3, 0.2, 0.2, 0.15, 0.08, 0.07]))
        axis = ""
        if kind in ("revolute", "continuous", "prismatic") and self.some(0.85):
            unit = (
                rng.normal(size=3) if self.some(0.6) else np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
            )
            axis = f'<axis xyz="{self.numbers(unit * rng.uniform(0.2, 3.0))}"/>'
        elif kind == "planar":
            axis = '<axis xyz="0 0 1"/>'
        limit = f'<limit lower="{-rng.uniform(0.1, 3):.4g}" upper="{rng.uniform(0.1, 3):.4g}" effort="9" velocity="2"/>'
        parts = [f'<parent link="{parent}"/>', f'<child link="{child}"/>', axis, self.place()]
        parts += [limit] if kind in ("revolute", "prismatic") else []
        rng.shuffle(parts)
        return f'<joint type="{kind}" name="joint{k}">{"".join(parts)}</joint>'

    def text(self) -> str:
        rng = self.rng
        count = int(rng.integers(2, 9))
        order = rng.permutation(count)
        names = [f"link{k}" for k in order]
        parts = [self.link(names[0], False)]
        parents = {0: -1}
        for k in range(1, count):
            parents[k] = int(rng.integers(max(0, k - 3), k))
            parts.append(self.joint(k, names[parents[k]], names[k]))
        carrying = set(parents.values())
        parts += [self.link(names[k], k in carrying and self.some(0.15)) for k in range(1, count)]
        rng.shuffle(parts)
        return f'<?xml version="1.0"?><robot name="random"><!-- any order -->{"".join(parts)}</robot>'


def urdf(seed: int) -> str:
    """Return a random file."""
    return File(np.random.default_rng(seed)).text()
