"""linkwork: dynamics of mechanisms. Plain NumPy code in, exact and fast kernels out.

Modules are imported when one of their names is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from linkwork.version import __version__

# Public names by the module that defines them. `__init__.pyi` says the same to type checkers.
PUBLIC_NAMES = {
    "compiler.autodiff.in_trace": "jacobian_along jacobian_of jvp_of",
    "compiler.ir.functions": (
        "absolute acos asin atan2 cos exp fma log loop map_rows maximum minimum rint sin sincos sqrt where"
    ),
    "compiler.ir.interpret": "interpret",
    "compiler.ir.program": "Program",
    "compiler.ir.trace": "trace",
    "compiler.passes": "lower",
    "compiler.runtime.kernel": "Kernel",
    "compiler.runtime.results": "release_memory",
    "constraints": "Connect Constraint Coupled Gains Hold Locked OnPlane Rolling Weld",
    "contact": "Candidate Contacts",
    "errors": (
        "CacheError ClosureError DifferentiationError DtypeError InactiveActuatorsWarning "
        "InitialPenetrationWarning LimitError LinkworkError MissingPackageError ModelError OverlapError "
        "ProgramError ShapeError StudyError TargetError TraceError UntestedShapesWarning"
    ),
    "formats": "export_mjcf export_urdf",
    "functions.actuation": "actuation",
    "functions.actuator_forces": "actuator_force",
    "functions.actuators": "actuator_map actuator_map_inverse",
    "functions.approximations": "compare_approximations",
    "functions.cluster_subspaces": "ClusterSubspaces cluster_subspaces",
    "functions.compile": "compile count_operations",
    "functions.conditioning": "closure_error loop_conditioning",
    "functions.constrained": "constrained_dynamics impact",
    "functions.constrained_derivatives": (
        "constrained_dynamics_derivatives constraint_bias constraint_jacobian operational_inertia"
    ),
    "functions.constrained_inverse": "constrained_inverse_dynamics",
    "functions.contact": "impulse_names step",
    "functions.contact_points": "contact_candidates contact_points",
    "functions.delassus": (
        "damped_delassus_inverse damped_delassus_inverse_at_base damped_delassus_product delassus "
        "force_propagator"
    ),
    "functions.derivatives": (
        "coriolis_matrix difference_derivatives forward_dynamics_derivatives frame_jacobian_rate "
        "integrate_derivatives inverse_dynamics_derivatives linearize"
    ),
    "functions.diagnosis": "ClusterCost Diagnosis Suggestion diagnose",
    "functions.differentiation": "hvp jacobian jvp vjp",
    "functions.distance": "distance distance_pairs",
    "functions.dynamics": "bias_force forward_dynamics gravity_force inverse_dynamics",
    "functions.energy": "center_of_mass centroidal_map kinetic_energy momentum momentum_rate "
    "potential_energy",
    "functions.engine.derivative": "Derivative",
    "functions.engine.model_function": "ModelFunction model_function",
    "functions.export": "export_c",
    "functions.hulls": "hull_corners with_hulls",
    "functions.hybrid": "hybrid_dynamics spanning_hybrid_dynamics",
    "functions.hybrid_derivatives": "hybrid_dynamics_derivatives",
    "functions.identification": "BaseParameters base_parameters energy_regressor inverse_dynamics_regressor",
    "functions.kinematics": "forward_kinematics frame_acceleration frame_jacobian frame_pose frame_velocity",
    "functions.load": "choose_loops load",
    "functions.loop_joints": "loop_joint_position loop_joint_velocity loop_joint_wrench",
    "functions.mass_matrix": "mass_matrix mass_matrix_inverse mass_matrix_pattern",
    "functions.motion_derivatives": (
        "center_of_mass_jacobian frame_acceleration_derivatives frame_velocity_derivatives "
        "kinetic_energy_derivatives momentum_derivatives momentum_rate_derivatives "
        "potential_energy_derivatives"
    ),
    "functions.operators": (
        "innovations_factors innovations_product mass_matrix_determinant "
        "mass_matrix_log_determinant mass_matrix_product mass_matrix_solve newton_euler_factors "
        "operational_compliance operators"
    ),
    "functions.second_derivatives": "inverse_dynamics_second_derivatives",
    "functions.states": (
        "close_loops difference independent_force integrate spanning_acceleration spanning_velocity"
    ),
    "functions.transmitted_forces": "joint_forces loop_forces",
    "identification.fit": "fit_parameters",
    "mechanism": "ContactPair Geometry",
    "model": "Limits LoopJoint Model ModelBuilder",
    "simulation": "Controls Log PD Rollout Status rollout",
    "simulation.simulation": "simulate",
    "sko.prepare.trees": "nodes",
    "studies.study": "Study",
    "visualization.viewer": "view",
}
SUBMODULES = (
    "flexible",
    "identification",
    "interop",
    "joints",
    "robots",
    "simulation",
    "sko",
    "spatial",
    "studies",
    "visualization",
)
ALIASES = {"nodes": "tree"}  # public name: name in its module

_MODULE_OF = {name: module for module, names in PUBLIC_NAMES.items() for name in names.split()}

__all__ = ["__version__", *SUBMODULES, *_MODULE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name in SUBMODULES:
        return import_module(f"linkwork.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'linkwork' has no attribute {name!r}")
    value = getattr(import_module(f"linkwork.{_MODULE_OF[name]}"), ALIASES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
