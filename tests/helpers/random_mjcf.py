"""Random MJCF of what is valid and unusual: classes, frames, orientations of all kinds, inertias of all
origins, tendons.
"""

from __future__ import annotations

import numpy as np

Rng = np.random.Generator
SHAPES = ("sphere", "capsule", "ellipsoid", "cylinder", "box")


def numbers(values: object) -> str:
    return " ".join(f"{x:.6g}" for x in np.ravel(np.asarray(values, dtype=float)))


def some(rng: Rng, share: float) -> bool:
    return bool(rng.random() < share)


class File:
    """One file, whose settings decide how its numbers are written."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.count = 0
        self.joints = []
        self.sites = []
        self.degrees = some(rng, 0.5)
        self.sequence = str(rng.choice(["xyz", "XYZ", "zyx", "ZyX", "yzy", "xZX"]))
        self.classes = [f"class{k}" for k in range(rng.integers(0, 4))]
        self.inferred = str(rng.choice(["auto", "true"]))

    def angle(self, value: float) -> float:
        return float(np.rad2deg(value)) if self.degrees else float(value)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def of_class(self, word: str = "class") -> str:
        return f' {word}="{self.rng.choice(self.classes)}"' if self.classes and some(self.rng, 0.3) else ""

    def turned(self) -> str:
        """An orientation in any of the five ways, not normalised, or none."""
        rng = self.rng
        way = rng.integers(0, 7)
        if way == 0:
            return f' quat="{numbers(rng.normal(size=4))}"'
        if way == 1:
            return f' axisangle="{numbers([*rng.normal(size=3), self.angle(rng.uniform(-3, 3))])}"'
        if way == 2:
            return f' euler="{numbers([self.angle(x) for x in rng.uniform(-3, 3, size=3)])}"'
        if way == 3:
            return f' xyaxes="{numbers(rng.normal(size=6))}"'
        if way == 4:
            return f' zaxis="{numbers(rng.normal(size=3))}"'
        return ""

    def place(self) -> str:
        pos = f' pos="{numbers(self.rng.normal(size=3))}"' if some(self.rng, 0.7) else ""
        return pos + self.turned()

    def inertial(self) -> str:
        rng = self.rng
        mass = f'<inertial pos="{numbers(0.2 * rng.normal(size=3))}" mass="{rng.uniform(0.1, 5):.6g}"'
        A = rng.normal(size=(3, 3))
        moment = A @ A.T + 0.3 * np.eye(3)
        moment = 0.5 * np.trace(moment) * np.eye(3) - 0.5 * moment + 0.2 * np.eye(3)
        if some(rng, 0.5):
            full = moment[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
            return f'{mass} fullinertia="{numbers(full)}"/>'
        return f'{mass} diaginertia="{numbers(np.linalg.eigvalsh(moment))}"{self.turned()}/>'

    def geom(self) -> str:
        rng = self.rng
        shape = str(rng.choice(SHAPES))
        size = {"sphere": 1, "capsule": 2, "cylinder": 2}.get(shape, 3)
        words = f'type="{shape}"'
        if shape in ("capsule", "cylinder") and some(rng, 0.4):
            words += f' size="{rng.uniform(0.05, 0.2):.4g}" fromto="{numbers(rng.normal(size=6))}"'
        else:
            words += f' size="{numbers(rng.uniform(0.05, 0.4, size=size))}"{self.place()}'
        if some(rng, 0.3):
            words += f' mass="{rng.uniform(0.1, 3):.4g}"'
        elif some(rng, 0.4):
            words += f' density="{rng.uniform(100, 3000):.4g}"'
        if some(rng, 0.15):
            words += ' shellinertia="true"'
        if some(rng, 0.2):
            words += f' group="{rng.integers(0, 5)}"'
        return f"<geom{self.of_class()} {words}/>"

    def acting(self, kind: str) -> str:
        rng = self.rng
        words = ""
        for word, share in (("damping", 0.4), ("armature", 0.3), ("frictionloss", 0.2)):
            if some(rng, share) and not (kind == "free" and word == "armature"):
                words += f' {word}="{rng.uniform(0, 2):.4g}"'
        if kind != "free" and some(rng, 0.3):
            words += f' stiffness="{rng.uniform(0, 20):.4g}"'
        if kind in ("hinge", "slide"):
            scale = self.angle if kind == "hinge" else float
            for word in ("ref", "springref"):
                words += f' {word}="{scale(rng.normal()):.5g}"' if some(rng, 0.3) else ""
            if some(rng, 0.15):
                words += f' springdamper="{rng.uniform(0.05, 0.5):.4g} {rng.uniform(0.2, 2):.4g}"'
            if some(rng, 0.4):
                low = scale(rng.uniform(-2, 0))
                words += f' range="{low:.5g} {low + scale(rng.uniform(0.1, 2)):.5g}"'
        return words

    def joint(self, kind: str) -> str:
        name = self.name("joint")
        if kind in ("hinge", "slide"):
            self.joints.append(name)
        words = f'name="{name}" type="{kind}"{self.of_class()}'
        if kind in ("hinge", "slide") and some(self.rng, 0.9):
            words += f' axis="{numbers(self.rng.normal(size=3))}"'
        if kind != "free" and some(self.rng, 0.4):
            words += f' pos="{numbers(0.3 * self.rng.normal(size=3))}"'
        return f"<joint {words}{self.acting(kind)}/>"

    def moved(self, depth: int) -> str:
        """The joints of a body."""
        rng = self.rng
        kind = rng.integers(0, 8)
        if depth == 0 and kind < 3:
            return "<freejoint/>" if some(rng, 0.5) else self.joint("free")
        if kind == 3:
            return self.joint("ball")
        if kind == 4:
            return "" if depth else self.joint("hinge")
        if kind == 5:
            return "".join(self.joint(str(rng.choice(["hinge", "slide"]))) for _ in range(rng.integers(2, 4)))
        return self.joint(str(rng.choice(["hinge", "slide"])))

    def body(self, depth: int, left: int) -> str:
        rng = self.rng
        joints = self.moved(depth)
        inertia = self.inertial() if some(rng, 0.6) or (self.inferred == "auto" and some(rng, 0.5)) else ""
        shapes = "".join(
            self.geom()
            for _ in range(rng.integers(0, 3) if inertia and self.inferred == "auto" else rng.integers(1, 4))
        )
        inside = ""
        for _ in range(min(left, int(rng.integers(0, 3)))):
            inside += self.framed(self.body(depth + 1, left - 1))
        if some(rng, 0.3):
            site = self.name("site")
            self.sites.append(site)
            inside += self.framed(f'<site name="{site}"{self.place()}/>')
        child = self.of_class("childclass")
        return (
            f'<body name="{self.name("body")}"{child}{self.place()}>{joints}{inertia}{shapes}{inside}</body>'
        )

    def framed(self, text: str) -> str:
        while some(self.rng, 0.25):
            text = f"<frame{self.of_class('childclass')}{self.place()}>{text}</frame>"
        return text

    def defaults(self) -> str:
        def own() -> str:
            joint = f"<joint{self.acting('default')}/>" if some(self.rng, 0.7) else ""
            geom = f'<geom density="{self.rng.uniform(300, 2000):.4g}"/>' if some(self.rng, 0.5) else ""
            return joint + geom

        text = ""
        for name in self.classes:
            inside = text if some(self.rng, 0.4) else ""
            text = f'<default class="{name}">{own()}{inside}</default>' + ("" if inside else text)
        return f"<default>{own()}{text}</default>"

    def tendons(self) -> tuple[str, str]:
        """Fixed tendons with springs and dampers, and actuators that damp and have rotors."""
        rng = self.rng
        tendons = ""
        actuators = ""
        for _ in range(rng.integers(0, 3) if self.joints else 0):
            name = self.name("tendon")
            chosen = rng.choice(
                self.joints, size=min(len(self.joints), int(rng.integers(1, 4))), replace=False
            )
            inside = "".join(f'<joint joint="{each}" coef="{rng.normal():.4g}"/>' for each in chosen)
            words = f' stiffness="{rng.uniform(0, 9):.4g}"' if some(rng, 0.6) else ""
            words += f' springlength="{rng.uniform(0.0, 2.0):.4g}"' if some(rng, 0.4) else ""
            words += f' damping="{rng.uniform(0, 2):.4g}"' if some(rng, 0.5) else ""
            tendons += f'<fixed name="{name}"{words}>{inside}</fixed>'
            if some(rng, 0.5):
                actuators += (
                    f'<motor tendon="{name}" gear="{rng.normal():.4g}" damping="{rng.uniform(0, 1):.4g}"/>'
                )
        for joint in self.joints:
            if some(rng, 0.2):
                kind = str(
                    rng.choice(
                        [
                            "motor",
                            'position kp="7"',
                            'velocity kv="2"',
                            'general biastype="affine" biasprm="1 -2 -.3"',
                        ]
                    )
                )
                more = f' armature="{rng.uniform(0, 1):.4g}"' if some(rng, 0.3) else ""
                more += f' damping="{rng.uniform(0, 1):.4g}"' if some(rng, 0.3) else ""
                actuators += f'<{kind} joint="{joint}" gear="{rng.normal():.4g}"{more}/>'
        for site in self.sites:
            if some(rng, 0.2):
                actuators += f'<motor site="{site}" gear="{numbers(rng.normal(size=6))}"/>'
        return tendons, actuators

    def text(self) -> str:
        rng = self.rng
        compiler = (
            f'angle="{"degree" if self.degrees else "radian"}" '
            f'eulerseq="{self.sequence}" inertiafromgeom="{self.inferred}"'
        )
        for word, share, value in (
            ("boundmass", 0.1, f"{rng.uniform(0, 2):.3g}"),
            ("boundinertia", 0.1, f"{rng.uniform(0, 0.5):.3g}"),
            ("settotalmass", 0.1, f"{rng.uniform(1, 9):.3g}"),
            ("inertiagrouprange", 0.1, "0 3"),
            ("autolimits", 0.1, "true"),
            ("balanceinertia", 0.2, "true"),
            ("fusestatic", 0.1, "true"),
        ):
            compiler += f' {word}="{value}"' if some(rng, share) else ""
        flags = "".join(f' {word}="disable"' for word in ("gravity", "spring", "damper") if some(rng, 0.08))
        gravity = f' gravity="{numbers(rng.normal(size=3))}"' if some(rng, 0.3) else ""
        bodies = "".join(self.framed(self.body(0, 3)) for _ in range(rng.integers(1, 3)))
        tendons, actuators = self.tendons()
        return (
            f'<mujoco model="random"><compiler {compiler}/><option{gravity}><flag{flags}/></option>{self.defaults()}'
            f"<worldbody>{bodies}</worldbody><tendon>{tendons}</tendon><actuator>{actuators}</actuator></mujoco>"
        )


def mjcf(seed: int) -> str:
    """Return a random file."""
    return File(np.random.default_rng(seed)).text()
