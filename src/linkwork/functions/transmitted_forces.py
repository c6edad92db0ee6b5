"""Public functions of the forces that loops and joints transmit in a motion."""

from __future__ import annotations

from typing import Any

from linkwork.algorithms.loops import active_joints as active
from linkwork.algorithms.loops import joint_forces as transmitted
from linkwork.algorithms.loops.embed_all import EmbeddedState, embedded_state
from linkwork.errors import ModelError
from linkwork.functions.engine.model_function import model_function
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree


def embedded_motion(function: str, model: Model, q: Any, v: Any, a: Any, tau_spanning: Any) -> EmbeddedState:
    """Return a motion with all loops embedded.

    Raises ModelError if the model has constrained loops and `tau_spanning` is missing, since loop forces are
    then undetermined.
    """
    if model.constrained_loops and tau_spanning is None:
        raise ModelError(
            f"{function}: {printable(model.name)} has constrained loops, for which all joints count as "
            "driven: give tau_spanning, the forces in all joints that produce this motion"
        )
    return embedded_state(model, q, v, a)


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", tau_spanning="nv_spanning")
def loop_forces(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None, tau_spanning: Any = None) -> Any:
    """Return the forces of loops and couplings in a motion, one for each equation in use.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a : array_like, shape (..., nv)
        Accelerations of the independent joints [rad/s², m/s²].
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    tau_spanning : array_like, shape (..., nv_spanning), optional
        Forces in all joints of the tree that produce this motion. By default all joints but the independent
        ones are passive. Required with constrained loops.

    Returns
    -------
    ndarray, shape (..., equations)
        Cluster by cluster in the order of `model.clusters`, there in the order of `used`: [N] for equations
        on lengths, [N m] for directions and angles.

    Raises
    ------
    ModelError
        If the model has no loops, or constrained loops and no `tau_spanning`.

    See Also
    --------
    joint_forces : Wrenches in tree joints.
    loop_joint_wrench : Wrench of one loop joint.
    constrained_dynamics : Constraint forces row by row.

    Notes
    -----
    Equations that are redundant in every configuration are not used and carry no force. Forces that equations
    share that are redundant in closed states only are those with the least sum of squares. Constrained loops
    are embedded, and clusters are those of that model.
    """
    motion = embedded_motion("loop_forces", model, q, v, a, tau_spanning)
    if not motion.model.embedded:
        raise ModelError(
            f"loop_forces: {printable(model.name)} has no loops or couplings; constrained_dynamics returns "
            "forces of constraints"
        )
    return active.loop_forces(tree(motion.model, q, motion.v), motion.a, f_ext, tau_spanning)


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", tau_spanning="nv_spanning")
def joint_forces(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None, tau_spanning: Any = None) -> Any:
    """Return the wrench that each tree joint transmits to its body in a motion.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a : array_like, shape (..., nv)
        Accelerations of the independent joints [rad/s², m/s²].
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    tau_spanning : array_like, shape (..., nv_spanning), optional
        As in `loop_forces`; required with constrained loops.

    Returns
    -------
    ndarray, shape (..., bodies, 6)
        Moment [N m] and force [N] at the origin and in the axes of each body's frame, in the order of
        `model.bodies`: the sum of bearing loads, drives, springs, dampers, armature and couplings of the
        joint.

    See Also
    --------
    loop_forces : Forces of loop equations, which act on the bodies as well.

    Notes
    -----
    Where loops share loads, joint wrenches are as undetermined as the loop forces.
    """
    motion = embedded_motion("joint_forces", model, q, v, a, tau_spanning)
    nodes = tree(motion.model, q, motion.v)
    return transmitted.joint_forces(
        nodes, motion.a, active.loop_forces(nodes, motion.a, f_ext, tau_spanning), f_ext
    )
