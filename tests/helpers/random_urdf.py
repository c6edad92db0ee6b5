"""Random URDF of what is valid and unusual, and read by Pinocchio too."""

from __future__ import annotations

import numpy as np

KINDS = ("revolute", "continuous", "prismatic", "fixed", "planar", "floating")


class File:
    """One file: its numbers are written in many ways, and its elements come in any order."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.movable: list[str] = []  # joints of one coordinate, that others may follow
        self.joint_names = [f"joint{k}" for k in range(10)]
        if self.some(0.2):  # names of links are not those of joints
            self.joint_names = [f"link{k}" for k in rng.permutation(10)]
        if self.some(0.2):
            self.joint_names = [f"{name} / näme::{k}" for k, name in enumerate(self.joint_names)]

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

    def limit(self, kind: str) -> str:
        """Limits, of which the format allows to leave out all but effort and velocity."""
        rng = self.rng
        words = f' effort="{rng.uniform(0, 9):.4g}" velocity="{rng.uniform(0, 9):.4g}"'
        if kind != "continuous" or self.some(0.3):
            low = -rng.uniform(0.1, 3)
            words += f' lower="{low:.4g}"' if self.some(0.9) else ""
            words += f' upper="{rng.uniform(0.1, 3):.4g}"' if self.some(0.9) else ""
        return f"<limit{words}/>"

    def dynamics(self) -> str:
        rng = self.rng
        words = f' damping="{rng.uniform(0, 2):.4g}"' if self.some(0.7) else ""
        words += f' friction="{rng.uniform(0, 2):.4g}"' if not words or self.some(0.4) else ""
        return f"<dynamics{words}/>"

    def joint(self, k: int, parent: str, child: str) -> str:
        rng = self.rng
        name = self.joint_names[k]
        kind = str(rng.choice(KINDS, p=[0.3, 0.2, 0.2, 0.15, 0.08, 0.07]))
        axis = ""
        one = kind in ("revolute", "continuous", "prismatic")
        if one and self.some(0.85):
            unit = (
                rng.normal(size=3) if self.some(0.6) else np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
            )
            axis = f'<axis xyz="{self.numbers(unit * rng.uniform(0.2, 3.0))}"/>'
        elif kind == "planar":
            axis = '<axis xyz="0 0 1"/>'
        parts = [f'<parent link="{parent}"/>', f'<child link="{child}"/>', axis, self.place()]
        parts += [self.limit(kind)] if kind in ("revolute", "prismatic") or (one and self.some(0.2)) else []
        parts += [self.dynamics()] if one and self.some(0.3) else []
        if one and self.movable and self.some(0.12):
            words = f' multiplier="{self.number(rng.normal())}"' if self.some(0.8) else ""
            words += f' offset="{self.number(rng.normal())}"' if self.some(0.6) else ""
            parts.append(f'<mimic joint="{rng.choice(self.movable)}"{words}/>')
        if one:
            self.movable.append(name)
        if self.some(0.1):
            parts.append('<safety_controller soft_lower_limit="-1" soft_upper_limit="1" k_velocity="1"/>')
        if self.some(0.1):
            parts.append('<calibration rising="0.0"/>')
        rng.shuffle(parts)
        space = str(rng.choice(["", "\n  ", "\t"]))
        return f'<joint type="{kind}" name="{name}">{space.join(parts)}</joint>'

    def others(self) -> str:
        """Elements of other tools, that say nothing on motion or only of a rotor."""
        rng = self.rng
        text = ""
        for name in self.movable:
            if self.some(0.1):
                ratio, rotor = rng.uniform(1, 9), rng.uniform(0, 0.1)
                text += (
                    f'<transmission name="of {name}"><type>transmission_interface/SimpleTransmission</type>'
                    f'<joint name="{name}"/><actuator name="motor of {name}">'
                    f'<drake:rotor_inertia value="{rotor:.5g}"/><drake:gear_ratio value="{ratio:.5g}"/>'
                    "</actuator></transmission>"
                )
        if self.some(0.2):
            text += '<material name="blue"><color rgba="0 0 1 1"/></material>'
        if self.some(0.2):
            text += '<gazebo reference="link0"><material>Gazebo/Blue</material></gazebo>'
        return text

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
        parts.append(self.others())
        rng.shuffle(parts)
        drake = ' xmlns:drake="http://drake.mit.edu"'
        return f'<?xml version="1.0"?><robot name="random"{drake}><!-- any order -->{"".join(parts)}</robot>'


def urdf(seed: int) -> str:
    """Return a random file."""
    return File(np.random.default_rng(seed)).text()
