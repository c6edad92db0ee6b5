"""Notes on options of MJCF files that linkwork does not support."""

from __future__ import annotations

import numpy as np

from linkwork.formats.mjcf_reader import BY_JOINT, BY_TENDON, HINGE, SLIDE, Reader
from linkwork.mechanism.names import printable


def note_unsupported(reader: Reader) -> None:
    """Note unsupported options of the file."""
    c = reader.compiled
    info = reader.compiled.info
    if info["fluid"]:
        reader.notes.missing("fluid forces (density, viscosity) are not supported and ignored")
    if reader.gravity_compensated:
        reader.notes.add(
            f"gravcomp is {reader.gravity_compensated:g} in all moving bodies: gravity is scaled by "
            f"{1.0 - reader.gravity_compensated:g}, also for accelerometers and potential energy"
        )
    _note_motor_damping(reader)
    for k in np.flatnonzero(c.optional("actuator_armature")):
        transmission = int(c.actuator_trntype[k])
        target = int(c.actuator_trnid[k][0])
        if transmission not in BY_JOINT and not (transmission == BY_TENDON and reader.fixed_tendon(target)):
            label = f"actuator {printable(c.names['actuator'][k] or f'actuator{k}')!r}"
            reader.notes.missing(
                "armature of an actuator on a spatial tendon is not supported and ignored",
                label,
            )
    _note_flags(reader)


def _note_motor_damping(reader: Reader) -> None:
    """Note damping of actuators that is not that of a joint or a fixed tendon."""
    c = reader.compiled
    damping = c.optional("actuator_damping")
    damping_polynomials = c.optional("actuator_dampingpoly")
    for k, name in enumerate(c.names["actuator"] if reader.acts("damper") else ()):
        transmission = int(c.actuator_trntype[k])
        target = int(c.actuator_trnid[k][0])
        is_supported = transmission in BY_JOINT and c.jnt_type[target] in (SLIDE, HINGE)
        is_supported |= transmission == BY_TENDON  # what is not supported of tendons is noted there
        if len(damping) and damping[k] and not is_supported:
            message = "damping of an actuator is supported only on joints with one DoF; ignored"
            reader.notes.missing(message, f"actuator {printable(name or f'actuator{k}')!r}")
        if len(damping_polynomials) and np.any(damping_polynomials[k]):
            reader.notes.missing(
                "nonlinear damping is not supported and ignored",
                f"actuator {printable(name or f'actuator{k}')!r}",
            )


def _note_flags(reader: Reader) -> None:
    """Note flags that change the motion in MuJoCo only."""
    info = reader.compiled.info
    if not reader.acts("equality") and reader.compiled.names["equality"]:
        reader.notes.add("equalities are disabled by <flag> and ignored")
    if not reader.acts("filterparent"):
        reader.notes.missing(
            "contacts between bodies and their parents (filterparent) are not supported and ignored"
        )
    if "override" in info["enabled"]:
        reader.notes.missing("global contact parameters (override) are not supported and ignored")
