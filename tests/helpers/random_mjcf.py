"""Random MJCF of what is valid and unusual: classes, frames, orientations of all kinds, inertias of all
origins, tendons, actuators, equalities, copies (`replicate`), included and attached files.
"""

from __future__ import annotations

import re

import numpy as np

Rng = np.random.Generator
SHAPES = ("sphere", "capsule", "ellipsoid", "cylinder", "box")


def numbers(values: object) -> str:
    return " ".join(f"{x:.6g}" for x in np.ravel(np.asarray(values, dtype=float)))


def some(rng: Rng, share: float) -> bool:
    return bool(rng.random() < share)


class File:
    """One file, whose settings decide how its numbers are written."""

    def __init__(self, rng: Rng, prefix: str = "", *, wide: bool = False) -> None:
        self.rng = rng
        self.prefix = prefix
        self.wide = wide  # with files and all that a folder needs
        self.count = 0
        self.joints: list[str] = []
        self.balls: list[str] = []
        self.sites: list[str] = []
        self.wraps: list[tuple[str, str]] = []  # shapes for tendons, and the words of sites beside them
        self.bodies: list[str] = []
        self.moving: list[str] = []  # names of hinges and slides with their kinds, for keyframes
        self.meshes: list[str] = []
        self.files: dict[str, str] = {}
        self.compensated = float(f"{rng.uniform(-1, 2):.2g}") if wide and some(rng, 0.06) else 0.0
        self.sizes: list[tuple[int, int]] = []  # of q and v of every joint
        self.copied = 0  # depth of copies, whose names are changed
        self.degrees = some(rng, 0.5)
        self.sequence = str(rng.choice(["xyz", "XYZ", "zyx", "ZyX", "yzy", "xZX"]))
        self.classes = [f"class{k}" for k in range(rng.integers(0, 4))]
        self.inferred = str(rng.choice(["auto", "true"]))

    def angle(self, value: float) -> float:
        return float(np.rad2deg(value)) if self.degrees else float(value)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{self.prefix}{kind}{self.count}"

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
        if self.meshes and some(rng, 0.2):
            words = f'type="mesh" mesh="{rng.choice(self.meshes)}"{self.place()}'
        elif shape in ("capsule", "cylinder") and some(rng, 0.4):
            words += f' size="{rng.uniform(0.05, 0.2):.4g}" fromto="{numbers(rng.normal(size=6))}"'
        elif shape in ("ellipsoid", "box") and some(rng, 0.2):
            words += (
                f' size="{numbers(rng.uniform(0.05, 0.2, size=2))}" fromto="{numbers(rng.normal(size=6))}"'
            )
        else:
            words += f' size="{numbers(rng.uniform(0.05, 0.4, size=size))}"{self.place()}'
        if some(rng, 0.3):
            words += f' mass="{rng.uniform(0.1, 3):.4g}"'
        elif some(rng, 0.4):
            words += f' density="{rng.uniform(100, 3000):.4g}"'
        if "mesh=" not in words and some(rng, 0.15):
            words += ' shellinertia="true"'
        if some(rng, 0.2):
            words += f' group="{rng.integers(0, 5)}"'
        if some(rng, 0.2):
            words += f' contype="{rng.integers(0, 3)}" conaffinity="{rng.integers(0, 3)}"'
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
                words += f' limited="{rng.choice(["true", "false", "auto"])}"' if some(rng, 0.2) else ""
            if some(rng, 0.1):
                most = rng.uniform(0.1, 3)
                least = rng.uniform(0.1, 3) if some(rng, 0.2) else most
                words += f' actuatorfrcrange="{-least:.4g} {most:.4g}"'
        return words

    def joint(self, kind: str) -> str:
        rng = self.rng
        name = self.name("joint")
        self.sizes.append({"free": (7, 6), "ball": (4, 3)}.get(kind, (1, 1)))
        if not self.copied:
            (self.joints if kind in ("hinge", "slide") else self.balls).append(name)
        words = f'name="{name}" type="{kind}"{self.of_class()}'
        if self.wide and kind != "free" and self.copied == 0 and some(rng, 0.03):
            words = words.replace(f'name="{name}" ', "")  # has no name
            (self.joints if kind in ("hinge", "slide") else self.balls).remove(name)
        if kind in ("hinge", "slide") and some(self.rng, 0.9):
            words += f' axis="{numbers(self.rng.normal(size=3))}"'
        if kind != "free" and some(self.rng, 0.4):
            words += f' pos="{numbers(0.3 * self.rng.normal(size=3))}"'
        if kind == "ball" and self.wide and some(rng, 0.2):
            words += f' range="0 {self.angle(rng.uniform(0.1, 3.0)):.5g}"'
        return f"<joint {words}{self.acting(kind)}/>"

    def moved(self, depth: int) -> str:
        """The joints of a body."""
        rng = self.rng
        kind = rng.integers(0, 8)
        if depth == 0 and kind < 3:
            align = f' align="{rng.choice(["true", "false"])}"' if some(rng, 0.3) else ""
            if some(rng, 0.5):
                return self.joint("free")
            self.sizes.append((7, 6))
            return f"<freejoint{align}/>"
        if kind == 3:
            return self.joint("ball")
        if kind == 4:
            return "" if depth else self.joint("hinge")
        if kind == 5:
            if some(rng, 0.15):
                kinds = [["slide", "ball"], ["ball", "slide"], ["slide", "slide", "ball"]][rng.integers(0, 3)]
                return "".join(self.joint(kind) for kind in kinds)
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
            inside += self.framed(self.several(depth + 1, left - 1))
        if some(rng, 0.3):
            site = self.name("site")
            if not self.copied:
                self.sites.append(site)
            place = (
                f' fromto="{numbers(rng.normal(size=6))}" size=".1" type="capsule"'
                if some(rng, 0.2)
                else self.place()
            )
            inside += self.framed(f'<site name="{site}"{self.of_class()}{place}/>')
            if self.wide and not self.copied and some(rng, 0.4):
                inside += self.framed(self.wrapped(site))
        child = self.of_class("childclass")
        name = self.name("body")
        if not self.copied:
            self.bodies.append(name)
        parts = [joints, inertia, shapes, inside]
        rng.shuffle(parts)
        part = self.compensated or (rng.choice([0.5, 1.0, -0.3]) if self.wide and some(rng, 0.05) else 0.0)
        more = f' gravcomp="{part}"' if part else ""
        return f'<body name="{name}"{child}{self.place()}{more}>{"".join(parts)}</body>'

    def wrapped(self, site: str) -> str:
        """A shape without mass that touches nothing, for tendons around it, maybe beside the site."""
        rng = self.rng
        name = self.name("wrap")
        self.wraps.append((name, f' sidesite="{site}"' if some(rng, 0.5) else ""))
        size = f'size="{numbers(rng.uniform(0.05, 0.3, size=2))}" type="{rng.choice(["sphere", "cylinder"])}"'
        return f'<geom name="{name}" {size} mass="0" contype="0" conaffinity="0"{self.place()}/>'

    def several(self, depth: int, left: int) -> str:
        """A body, or copies of it."""
        rng = self.rng
        if not self.wide or self.copied or some(rng, 0.9) or depth == 0:
            return self.body(depth, left)
        self.copied += 1
        text = self.body(depth, min(left, 1))
        self.copied -= 1
        words = f' count="{rng.integers(1, 4)}"'
        words += f' offset="{numbers(rng.normal(size=3))}"' if some(rng, 0.7) else ""
        words += (
            f' euler="{numbers([self.angle(x) for x in rng.uniform(-1, 1, size=3)])}"'
            if some(rng, 0.6)
            else ""
        )
        words += ' sep="-"' if some(rng, 0.5) else ""
        return f"<replicate{words}>{text}</replicate>"

    def framed(self, text: str) -> str:
        while some(self.rng, 0.25):
            text = f"<frame{self.of_class('childclass')}{self.place()}>{text}</frame>"
        return text

    def defaults(self) -> str:
        def own() -> str:
            site = f"<site{self.place()}/>" if self.wide and some(self.rng, 0.1) else ""
            motor = f'<motor gear="{self.rng.normal():.4g}"/>' if self.wide and some(self.rng, 0.2) else ""
            joint = f"<joint{self.acting('default')}/>" if some(self.rng, 0.7) else ""
            geom = f'<geom density="{self.rng.uniform(300, 2000):.4g}"/>' if some(self.rng, 0.5) else ""
            return joint + geom + site + motor

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
        self.tendon_names: list[str] = []
        for _ in range(rng.integers(0, 3) if self.joints else 0):
            name = self.name("tendon")
            self.tendon_names.append(name)
            chosen = rng.choice(
                self.joints, size=min(len(self.joints), int(rng.integers(1, 4))), replace=False
            )
            inside = "".join(f'<joint joint="{each}" coef="{rng.normal():.4g}"/>' for each in chosen)
            words = f' stiffness="{rng.uniform(0, 9):.4g}"' if some(rng, 0.6) else ""
            words += f' springlength="{rng.uniform(0.0, 2.0):.4g}"' if some(rng, 0.4) else ""
            words += f' damping="{rng.uniform(0, 2):.4g}"' if some(rng, 0.5) else ""
            if self.wide:
                words += f' armature="{rng.uniform(0, 1):.4g}"' if some(rng, 0.15) else ""
                words += f' frictionloss="{rng.uniform(0, 1):.4g}"' if some(rng, 0.15) else ""
                words += (
                    f' range="{-rng.uniform(0, 1):.4g} {rng.uniform(0, 1):.4g}"' if some(rng, 0.15) else ""
                )
            tendons += f'<fixed name="{name}"{words}>{inside}</fixed>'
            if some(rng, 0.5):
                actuators += (
                    f'<motor tendon="{name}" gear="{rng.normal():.4g}" damping="{rng.uniform(0, 1):.4g}"/>'
                )
            if self.wide and some(rng, 0.3):
                actuators += self.driven(f'tendon="{name}"')
        if self.wide and len(self.sites) > 1 and some(rng, 0.4):
            spatial, pull = self.spatial()
            tendons += spatial
            actuators += pull
        for joint in self.joints:
            if some(rng, 0.2):
                word = "jointinparent" if some(rng, 0.2) else "joint"
                actuators += self.driven(f'{word}="{joint}"')
        for joint in self.balls if self.wide else ():
            if some(rng, 0.3):
                word = "jointinparent" if some(rng, 0.4) else "joint"
                actuators += f'<motor {word}="{joint}" gear="{numbers(rng.normal(size=6))}"/>'
        for site in self.sites:
            if some(rng, 0.2):
                actuators += f'<motor site="{site}" gear="{numbers(rng.normal(size=6))}"/>'
            elif self.wide and some(rng, 0.05):
                words = f'refsite="{rng.choice(self.sites)}" gear="{numbers(rng.normal(size=6))}"'
                actuators += f'<position kp="3" site="{site}" {words}/>'
        return tendons, actuators

    def spatial(self) -> tuple[str, str]:
        """A spatial tendon through sites and pulleys, and an actuator that pulls it."""
        rng = self.rng
        name = self.name("tendon")
        inside = ""
        for branch in range(int(rng.integers(1, 3))):
            inside += f'<pulley divisor="{rng.uniform(0.5, 3):.4g}"/>' if branch else ""
            for k, each in enumerate(rng.choice(self.sites, size=int(rng.integers(2, 4)))):
                if k and self.wraps and some(rng, 0.6):
                    geom, side = self.wraps[rng.integers(len(self.wraps))]
                    inside += f'<geom geom="{geom}"{side}/>'
                inside += f'<site site="{each}"/>'
        words = f' stiffness="{rng.uniform(0, 9):.4g}"' if some(rng, 0.6) else ""
        words += f' springlength="{numbers(np.sort(rng.uniform(0, 4, size=2)))}"' if some(rng, 0.4) else ""
        words += f' damping="{rng.uniform(0, 2):.4g}"' if some(rng, 0.5) else ""
        words += f' range="{numbers(np.sort(rng.uniform(0, 4, size=2)))}"' if some(rng, 0.3) else ""
        words += f' frictionloss="{rng.uniform(0, 1):.4g}"' if some(rng, 0.2) else ""
        actuator = self.driven(f'tendon="{name}"') if some(rng, 0.5) else ""
        return f'<spatial name="{name}"{words}>{inside}</spatial>', actuator

    def driven(self, of: str) -> str:
        """An actuator of a joint or tendon."""
        rng = self.rng
        kinds = [
            "motor",
            'position kp="7"',
            'velocity kv="2"',
            'general biastype="affine" biasprm="1 -2 -.3"',
        ]
        if self.wide:
            kinds += [
                'position kp="5" kv="0.7"',
                'position kp="5" dampratio="0.8" timeconst="0.3"',
                'intvelocity kp="3" actrange="-2 2"',
                'damper kv="2" ctrlrange="0 1"',
                'cylinder timeconst="0.2" area="0.4" bias="1 .2 .3"',
                'cylinder diameter="0.4"',
                'general gaintype="affine" gainprm="1 .3 -.2" biastype="affine" biasprm="1 -2 -.3"',
                'general dyntype="filter" dynprm="0.2" gainprm="2"',
                'general dyntype="filterexact" dynprm="0.3" actlimited="true" actrange="-.3 .4"',
                'general dyntype="integrator" actlimited="true" actrange="-.3 .4"',
                'general dyntype="integrator" actearly="true" actlimited="true" actrange="-.3 .4"',
                'dcmotor motorconst="0.3" resistance="2"',
                'muscle lengthrange="0.2 1.8" timeconst="0.02 0.05"',
                'muscle lengthrange="-1 1" force="20" range="0.6 1.2" lmin="0.4" tausmooth="0.1"',
            ]
        kind = str(rng.choice(kinds))
        more = f' gear="{rng.normal():.4g}"' if some(rng, 0.8) else ""
        more += f' armature="{rng.uniform(0, 1):.4g}"' if some(rng, 0.3) else ""
        more += f' damping="{rng.uniform(0, 1):.4g}"' if some(rng, 0.3) else ""
        if self.wide:
            more += (
                f' forcerange="{-rng.uniform(0, 3):.4g} {rng.uniform(0, 3):.4g}"' if some(rng, 0.2) else ""
            )
            more += f' group="{rng.integers(0, 3)}"' if some(rng, 0.2) else ""
            if "damper" not in kind and some(rng, 0.3):
                more += f' ctrlrange="{-rng.uniform(0, 1):.4g} {rng.uniform(0, 1):.4g}"'
                more += ' ctrllimited="false"' if some(rng, 0.2) else ""
        return f"<{kind} {of}{more}/>"

    def equalities(self) -> str:
        """Couplings of joints and of tendons, and few loops."""
        rng = self.rng
        text = ""
        free = [*self.joints]
        rng.shuffle(free)
        while len(free) > 2 and some(rng, 0.3):
            one, two = free.pop(), free.pop()
            words = f'joint1="{one}" joint2="{two}"'
            if some(rng, 0.2):
                words = f'joint1="{one}"'
            if some(rng, 0.8):
                degree = 2 if some(rng, 0.8) else 4
                scale = [0.3, 1.0, 0.05, 0.02, 0.01]
                polynomial = [x * y for x, y in zip(scale, rng.normal(size=degree))]
                words += f' polycoef="{numbers(polynomial)}"'
            if some(rng, 0.1):
                words += ' active="false"'
            text += f"<joint {words}/>"
        if len(self.tendon_names) > 1 and some(rng, 0.2):
            one, two = self.tendon_names[:2]
            text += (
                f'<tendon tendon1="{one}" tendon2="{two}" polycoef="{numbers(0.4 * rng.normal(size=2))}"/>'
            )
        if len(self.bodies) > 3 and some(rng, 0.15):
            one, two = rng.choice(self.bodies, size=2, replace=False)
            other = f' body2="{two}"' if some(rng, 0.7) else ""
            text += f'<connect body1="{one}"{other} anchor="{numbers(rng.normal(size=3))}"/>'
        if len(self.sites) > 1 and some(rng, 0.05):
            one, two = rng.choice(self.sites, size=2, replace=False)
            text += f'<{rng.choice(["connect", "weld"])} site1="{one}" site2="{two}"/>'
        return text

    def mesh_assets(self) -> str:
        """Meshes of few vertices, with inertias of every kind."""
        rng = self.rng
        text = ""
        for _ in range(int(rng.integers(0, 3)) if self.wide else 0):
            name = self.name("mesh")
            self.meshes.append(name)
            words = f' vertex="{numbers(0.3 * rng.normal(size=18))}"'
            words += f' scale="{numbers(rng.uniform(0.5, 2, size=3))}"' if some(rng, 0.3) else ""
            words += f' refpos="{numbers(0.2 * rng.normal(size=3))}"' if some(rng, 0.3) else ""
            words += f' refquat="{numbers(rng.normal(size=4))}"' if some(rng, 0.3) else ""
            words += (
                f' inertia="{rng.choice(["convex", "exact", "legacy", "shell"])}"' if some(rng, 0.4) else ""
            )
            text += f'<mesh name="{name}"{words}/>'
        return text

    def attached(self) -> tuple[str, str]:
        """An attached model: its asset and the element that attaches it."""
        name = self.name("child")
        child = File(self.rng, f"{name}_", wide=False)
        child.compensated = self.compensated
        self.files[f"{name}.xml"] = child.text()
        what = f' body="{self.rng.choice(child.bodies)}"' if some(self.rng, 0.7) and child.bodies else ""
        text = f'<attach model="{name}"{what} prefix="at_"/>'
        return f'<model name="{name}" file="{name}.xml"/>', self.framed(text)

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
            ("autolimits", 0.15, str(rng.choice(["true", "true", "true", "false"]))),
            ("balanceinertia", 0.2, "true"),
            ("fusestatic", 0.1, "true"),
        ):
            compiler += f' {word}="{value}"' if some(rng, share) else ""
        words = ["gravity", "spring", "damper"]
        if self.wide:
            words += ["frictionloss", "limit", "contact", "equality", "clampctrl", "actuation"]
        flags = "".join(f' {word}="disable"' for word in words if some(rng, 0.08 if not self.wide else 0.03))
        gravity = f' gravity="{numbers(rng.normal(size=3))}"' if some(rng, 0.3) else ""
        if self.wide and some(rng, 0.1):
            gravity += f' actuatorgroupdisable="{rng.integers(0, 3)}"'
        assets = self.mesh_assets()
        bodies = [self.framed(self.several(0, 3)) for _ in range(rng.integers(1, 3))]
        if self.wide and some(rng, 0.15):
            model, attach = self.attached()
            assets += model
            bodies.append(attach)
        if self.wide and some(rng, 0.2):
            bodies.append(f'<geom type="plane" size="1 1 .1"{self.place()}/>')
        tendons, actuators = self.tendons()
        equalities = self.equalities() if self.wide else ""
        parts = [
            f"<compiler {compiler}/>",
            f"<option{gravity}><flag{flags}/></option>",
            self.defaults(),
            f"<worldbody>{''.join(bodies[:1])}</worldbody>",
            *(f"<worldbody>{body}</worldbody>" for body in bodies[1:]),
            f"<tendon>{tendons}</tendon>",
            f"<actuator>{actuators}</actuator>",
            f"<asset>{assets}</asset>",
            f"<equality>{equalities}</equality>",
        ]
        if self.wide and not re.search("<replicate|<attach", "".join(bodies)) and some(rng, 0.4):
            nq, nv = np.sum([(0, 0), *self.sizes], axis=0)
            words = f' qpos="{numbers(rng.normal(size=nq))}"' if nq and some(rng, 0.8) else ""
            words += f' qvel="{numbers(rng.normal(size=nv))}"' if nv and some(rng, 0.8) else ""
            parts.append(f'<keyframe><key name="key1"{words}/></keyframe>')
        if self.wide:
            if some(rng, 0.3):
                rng.shuffle(parts)
            for k, part in enumerate(parts):
                if some(rng, 0.05):
                    file = f"{self.prefix}part{k}.xml"
                    root = "mujoco" if some(rng, 0.5) else "mujocoinclude"
                    self.files[file] = f"<{root}>{part}</{root}>"
                    parts[k] = f'<include file="{file}"/>'
        return f'<mujoco model="random">{"".join(parts)}</mujoco>'


def mjcf(seed: int) -> str:
    """Return a random file."""
    return File(np.random.default_rng(seed)).text()


def mjcf_folder(seed: int) -> dict[str, str]:
    """Return random files, of which "main.xml" includes or attaches the others."""
    file = File(np.random.default_rng([seed, 1]), wide=True)
    text = file.text()
    return {"main.xml": text, **file.files}
