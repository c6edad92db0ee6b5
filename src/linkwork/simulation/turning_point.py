"""Detection of turning points of independent joints, for kernels that cannot change coordinates.

n steps before a turning point of an independent joint, dependent velocities change by 1 / n of themselves in
a step although the mechanism moves evenly. A method of first order loses such a part of the speed in each
step: rows would approach the turning point ever more slowly without a warning. They stop before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.loops.closing import places_of
from linkwork.compiler.ir.functions import absolute, maximum, where
from linkwork.functions.engine.model_function import model_function
from linkwork.model import Model
from linkwork.simulation.charts import Charts
from linkwork.simulation.monitor import unit_velocities
from linkwork.sko.prepare.trees import tree

LARGE_ENTRY = 10.0  # entry of unit-free G from which on a turning point may be near
# part of a velocity by which it changes in a step then: ten steps before that point
MAX_RELATIVE_CHANGE = 0.1
TINY = 1e-30


@model_function(q="nq", v="nv", dt="")
def near_turning_point(model: Model, q: Any, v: Any, dt: Any) -> Any:
    """Return a value above 1 if an independent joint reverses within some ten steps of dt, (...); at most 1
    elsewhere.

    It is the largest dt |g| / (|G| |ẏ|) of a joint that has a large entry of G, with its velocity G ẏ and
    acceleration G ÿ + g, relative to `MAX_RELATIVE_CHANGE`.
    """
    result: Any = 0.0 * dt
    charts = Charts(model)
    if not charts.moving:
        return result
    nodes = tree(model, q, v)
    units = unit_velocities(charts.whole)
    clusters = charts.clusters
    independent_units = np.concatenate(
        [units[places_of(model, c)[list(c.independent)]] for c in model.clusters]
    )
    for body in (nodes.bodies[k] for n in charts.moving for k in clusters[n].bodies):
        for G, g, unit in zip(body.G, body.g, units[body.joint.v_slice]):
            speed: Any = 0.0
            large: Any = 0.0
            for x, y, by in zip(G, v[body.dofs], independent_units[body.dofs]):
                speed = speed + absolute(x * y)
                large = maximum(large, absolute(x) * (by / (LARGE_ENTRY * unit)))
            result = maximum(
                result, where(large > 1.0, dt * absolute(g) / maximum(MAX_RELATIVE_CHANGE * speed, TINY), 0.0)
            )
    return result
