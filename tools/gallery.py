"""Draw every mechanism that ships with linkwork, and write docs/gallery.md: `make pictures`."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np

import linkwork as lw

DOCS = Path(__file__).resolve().parents[1] / "docs"
SIZED = {  # mechanisms of any size, and the one that is drawn
    "chain": (6,), "binary_tree": (7,), "link_rotor_chain": (3,), "belt_chain": (3,), "four_bar_chain": (3,),
    "transmission_loop": (3,), "connecting_rod_loop": (3,), "scissor_lift": (3,),
}  # fmt: skip
OPEN = {
    "four_bar": (1.2, -1.2, 1.2),
    "planar_leg_linkage": (0.6, 0.9, 1.0, -0.9),
}  # coordinates to close loops from
RANDOM = {  # seeds of random states, where the neutral one is folded flat or in one line
    "six_bar": 2, "slider_crank": 3, "arm": 3, "bricard": 1, "chain": 1, "binary_tree": 1,
    "flexible_arm": 1, "flexible_slider_crank": 3, "flexible_chain": 1, "boom_satellite": 1,
    "link_rotor_chain": 1, "belt_chain": 1, "four_bar_chain": 1, "transmission_loop": 1, "connecting_rod_loop": 1,
}  # fmt: skip
SIZE = (560, 450)  # [px]
HEAD = """# Gallery

All mechanisms that ship with linkwork: `lw.robots`. They are ordinary models, built by functions
without files. Shades of one colour are one cluster of loops; grey bodies are in none. Dark rods and
red joints close loops. `make pictures` generates this page.

```python
import linkwork as lw

print(lw.robots.names())
robot = lw.robots.stewart()
q, v = robot.random_state(0)
a = lw.forward_dynamics(robot, q, v, [0.0] * robot.nv)
```

"""


def posture(name: str, model: lw.Model) -> np.ndarray:
    """Return a configuration, (nq,), in which the mechanism is easy to recognise."""
    if name in OPEN:
        return np.asarray(lw.close_loops(model, OPEN[name])[0])
    return model.random_state(RANDOM[name])[0] if name in RANDOM else model.neutral()


def description(docstring: str) -> str:
    """Return a docstring without its sections and its verb, in one paragraph."""
    text = " ".join(docstring.partition("\nParameters\n")[0].split()).removeprefix("Return ")
    return text[0].upper() + text[1:]


def main() -> None:
    """Draw all mechanisms and write the page."""
    (DOCS / "gallery").mkdir(exist_ok=True)
    rows = [HEAD]
    sized = {
        name: SIZED.get(name, (3,)) for name in lw.robots.__all__ if name not in (*lw.robots.names(), "names")
    }
    for title, names in (("Robots and mechanisms", lw.robots.names()), ("Of any size", tuple(sized))):
        rows.append(f"## {title}\n\n")
        for name in names:
            make = getattr(lw.robots, name)
            model = make(*sized.get(name, ()))
            lw.visualization.film(model, posture(name, model), path=DOCS / f"gallery/{name}.png", size=SIZE)
            summary = description(inspect.getdoc(make))
            call = f"lw.robots.{name}({', '.join(map(str, sized.get(name, ())))})"
            loops = (
                f", {len(model.loops)} loop constraint{'s'[: len(model.loops) > 1]}" if model.loops else ""
            )
            rows.append(
                f"### {name}\n\n![{name}](gallery/{name}.png)\n\n`{call}`: {len(model.bodies)} bodies, nq {model.nq}, "
                f"nv {model.nv}{loops}.\n\n{summary}\n\n"
            )
    (DOCS / "gallery.md").write_text("".join(rows).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
