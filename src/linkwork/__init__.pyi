from linkwork import flexible as flexible
from linkwork import identification as identification
from linkwork import interop as interop
from linkwork import joints as joints
from linkwork import robots as robots
from linkwork import simulation as simulation
from linkwork import sko as sko
from linkwork import spatial as spatial
from linkwork import studies as studies
from linkwork import visualization as visualization
from linkwork.compiler.autodiff.in_trace import jacobian_along as jacobian_along
from linkwork.compiler.autodiff.in_trace import jacobian_of as jacobian_of
from linkwork.compiler.autodiff.in_trace import jvp_of as jvp_of
from linkwork.compiler.ir.functions import absolute as absolute
from linkwork.compiler.ir.functions import acos as acos
from linkwork.compiler.ir.functions import asin as asin
from linkwork.compiler.ir.functions import atan2 as atan2
from linkwork.compiler.ir.functions import cos as cos
from linkwork.compiler.ir.functions import exp as exp
from linkwork.compiler.ir.functions import fma as fma
from linkwork.compiler.ir.functions import log as log
from linkwork.compiler.ir.functions import loop as loop
from linkwork.compiler.ir.functions import map_rows as map_rows
from linkwork.compiler.ir.functions import maximum as maximum
from linkwork.compiler.ir.functions import minimum as minimum
from linkwork.compiler.ir.functions import rint as rint
from linkwork.compiler.ir.functions import sin as sin
from linkwork.compiler.ir.functions import sincos as sincos
from linkwork.compiler.ir.functions import sqrt as sqrt
from linkwork.compiler.ir.functions import where as where
from linkwork.compiler.ir.interpret import interpret as interpret
from linkwork.compiler.ir.program import Program as Program
from linkwork.compiler.ir.trace import trace as trace
from linkwork.compiler.passes import lower as lower
from linkwork.compiler.runtime.kernel import Kernel as Kernel
from linkwork.compiler.runtime.results import release_memory as release_memory
from linkwork.constraints import Connect as Connect
from linkwork.constraints import Constraint as Constraint
from linkwork.constraints import Coupled as Coupled
from linkwork.constraints import Gains as Gains
from linkwork.constraints import Hold as Hold
from linkwork.constraints import Locked as Locked
from linkwork.constraints import OnPlane as OnPlane
from linkwork.constraints import Rolling as Rolling
from linkwork.constraints import Weld as Weld
from linkwork.contact import Candidate as Candidate
from linkwork.contact import Contacts as Contacts
from linkwork.errors import CacheError as CacheError
from linkwork.errors import ClosureError as ClosureError
from linkwork.errors import DifferentiationError as DifferentiationError
from linkwork.errors import DtypeError as DtypeError
from linkwork.errors import InactiveActuatorsWarning as InactiveActuatorsWarning
from linkwork.errors import InitialPenetrationWarning as InitialPenetrationWarning
from linkwork.errors import LimitError as LimitError
from linkwork.errors import LinkworkError as LinkworkError
from linkwork.errors import MissingPackageError as MissingPackageError
from linkwork.errors import ModelError as ModelError
from linkwork.errors import OverlapError as OverlapError
from linkwork.errors import ProgramError as ProgramError
from linkwork.errors import ShapeError as ShapeError
from linkwork.errors import StudyError as StudyError
from linkwork.errors import TargetError as TargetError
from linkwork.errors import TraceError as TraceError
from linkwork.errors import UntestedShapesWarning as UntestedShapesWarning
from linkwork.formats import export_mjcf as export_mjcf
from linkwork.formats import export_urdf as export_urdf
from linkwork.functions.actuation import actuation as actuation
from linkwork.functions.actuator_forces import actuator_force as actuator_force
from linkwork.functions.actuators import actuator_map as actuator_map
from linkwork.functions.actuators import actuator_map_inverse as actuator_map_inverse
from linkwork.functions.approximations import compare_approximations as compare_approximations
from linkwork.functions.cluster_subspaces import ClusterSubspaces as ClusterSubspaces
from linkwork.functions.cluster_subspaces import cluster_subspaces as cluster_subspaces
from linkwork.functions.compile import compile as compile
from linkwork.functions.compile import count_operations as count_operations
from linkwork.functions.conditioning import closure_error as closure_error
from linkwork.functions.conditioning import loop_conditioning as loop_conditioning
from linkwork.functions.constrained import constrained_dynamics as constrained_dynamics
from linkwork.functions.constrained import impact as impact
from linkwork.functions.constrained_derivatives import (
    constrained_dynamics_derivatives as constrained_dynamics_derivatives,
)
from linkwork.functions.constrained_derivatives import constraint_bias as constraint_bias
from linkwork.functions.constrained_derivatives import constraint_jacobian as constraint_jacobian
from linkwork.functions.constrained_derivatives import operational_inertia as operational_inertia
from linkwork.functions.constrained_inverse import (
    constrained_inverse_dynamics as constrained_inverse_dynamics,
)
from linkwork.functions.contact import impulse_names as impulse_names
from linkwork.functions.contact import step as step
from linkwork.functions.contact_points import contact_candidates as contact_candidates
from linkwork.functions.contact_points import contact_points as contact_points
from linkwork.functions.delassus import damped_delassus_inverse as damped_delassus_inverse
from linkwork.functions.delassus import damped_delassus_inverse_at_base as damped_delassus_inverse_at_base
from linkwork.functions.delassus import damped_delassus_product as damped_delassus_product
from linkwork.functions.delassus import delassus as delassus
from linkwork.functions.delassus import force_propagator as force_propagator
from linkwork.functions.derivatives import coriolis_matrix as coriolis_matrix
from linkwork.functions.derivatives import difference_derivatives as difference_derivatives
from linkwork.functions.derivatives import forward_dynamics_derivatives as forward_dynamics_derivatives
from linkwork.functions.derivatives import frame_jacobian_rate as frame_jacobian_rate
from linkwork.functions.derivatives import integrate_derivatives as integrate_derivatives
from linkwork.functions.derivatives import inverse_dynamics_derivatives as inverse_dynamics_derivatives
from linkwork.functions.derivatives import linearize as linearize
from linkwork.functions.diagnosis import ClusterCost as ClusterCost
from linkwork.functions.diagnosis import Diagnosis as Diagnosis
from linkwork.functions.diagnosis import Suggestion as Suggestion
from linkwork.functions.diagnosis import diagnose as diagnose
from linkwork.functions.differentiation import hvp as hvp
from linkwork.functions.differentiation import jacobian as jacobian
from linkwork.functions.differentiation import jvp as jvp
from linkwork.functions.differentiation import vjp as vjp
from linkwork.functions.distance import distance as distance
from linkwork.functions.distance import distance_pairs as distance_pairs
from linkwork.functions.dynamics import bias_force as bias_force
from linkwork.functions.dynamics import forward_dynamics as forward_dynamics
from linkwork.functions.dynamics import gravity_force as gravity_force
from linkwork.functions.dynamics import inverse_dynamics as inverse_dynamics
from linkwork.functions.energy import center_of_mass as center_of_mass
from linkwork.functions.energy import centroidal_map as centroidal_map
from linkwork.functions.energy import kinetic_energy as kinetic_energy
from linkwork.functions.energy import momentum as momentum
from linkwork.functions.energy import momentum_rate as momentum_rate
from linkwork.functions.energy import potential_energy as potential_energy
from linkwork.functions.engine.derivative import Derivative as Derivative
from linkwork.functions.engine.model_function import ModelFunction as ModelFunction
from linkwork.functions.engine.model_function import model_function as model_function
from linkwork.functions.export import export_c as export_c
from linkwork.functions.hulls import hull_corners as hull_corners
from linkwork.functions.hulls import with_hulls as with_hulls
from linkwork.functions.hybrid import hybrid_dynamics as hybrid_dynamics
from linkwork.functions.hybrid import spanning_hybrid_dynamics as spanning_hybrid_dynamics
from linkwork.functions.hybrid_derivatives import hybrid_dynamics_derivatives as hybrid_dynamics_derivatives
from linkwork.functions.identification import BaseParameters as BaseParameters
from linkwork.functions.identification import base_parameters as base_parameters
from linkwork.functions.identification import energy_regressor as energy_regressor
from linkwork.functions.identification import inverse_dynamics_regressor as inverse_dynamics_regressor
from linkwork.functions.kinematics import forward_kinematics as forward_kinematics
from linkwork.functions.kinematics import frame_acceleration as frame_acceleration
from linkwork.functions.kinematics import frame_jacobian as frame_jacobian
from linkwork.functions.kinematics import frame_pose as frame_pose
from linkwork.functions.kinematics import frame_velocity as frame_velocity
from linkwork.functions.load import choose_loops as choose_loops
from linkwork.functions.load import load as load
from linkwork.functions.loop_joints import loop_joint_position as loop_joint_position
from linkwork.functions.loop_joints import loop_joint_velocity as loop_joint_velocity
from linkwork.functions.loop_joints import loop_joint_wrench as loop_joint_wrench
from linkwork.functions.mass_matrix import mass_matrix as mass_matrix
from linkwork.functions.mass_matrix import mass_matrix_inverse as mass_matrix_inverse
from linkwork.functions.mass_matrix import mass_matrix_pattern as mass_matrix_pattern
from linkwork.functions.motion_derivatives import center_of_mass_jacobian as center_of_mass_jacobian
from linkwork.functions.motion_derivatives import (
    frame_acceleration_derivatives as frame_acceleration_derivatives,
)
from linkwork.functions.motion_derivatives import frame_velocity_derivatives as frame_velocity_derivatives
from linkwork.functions.motion_derivatives import kinetic_energy_derivatives as kinetic_energy_derivatives
from linkwork.functions.motion_derivatives import momentum_derivatives as momentum_derivatives
from linkwork.functions.motion_derivatives import momentum_rate_derivatives as momentum_rate_derivatives
from linkwork.functions.motion_derivatives import potential_energy_derivatives as potential_energy_derivatives
from linkwork.functions.operators import innovations_factors as innovations_factors
from linkwork.functions.operators import innovations_product as innovations_product
from linkwork.functions.operators import mass_matrix_determinant as mass_matrix_determinant
from linkwork.functions.operators import mass_matrix_log_determinant as mass_matrix_log_determinant
from linkwork.functions.operators import mass_matrix_product as mass_matrix_product
from linkwork.functions.operators import mass_matrix_solve as mass_matrix_solve
from linkwork.functions.operators import newton_euler_factors as newton_euler_factors
from linkwork.functions.operators import operational_compliance as operational_compliance
from linkwork.functions.operators import operators as operators
from linkwork.functions.second_derivatives import (
    inverse_dynamics_second_derivatives as inverse_dynamics_second_derivatives,
)
from linkwork.functions.states import close_loops as close_loops
from linkwork.functions.states import difference as difference
from linkwork.functions.states import independent_force as independent_force
from linkwork.functions.states import integrate as integrate
from linkwork.functions.states import spanning_acceleration as spanning_acceleration
from linkwork.functions.states import spanning_velocity as spanning_velocity
from linkwork.functions.transmitted_forces import joint_forces as joint_forces
from linkwork.functions.transmitted_forces import loop_forces as loop_forces
from linkwork.identification.fit import fit_parameters as fit_parameters
from linkwork.mechanism import ContactPair as ContactPair
from linkwork.mechanism import Geometry as Geometry
from linkwork.model import Limits as Limits
from linkwork.model import LoopJoint as LoopJoint
from linkwork.model import Model as Model
from linkwork.model import ModelBuilder as ModelBuilder
from linkwork.simulation import PD as PD
from linkwork.simulation import Controls as Controls
from linkwork.simulation import Log as Log
from linkwork.simulation import Rollout as Rollout
from linkwork.simulation import Status as Status
from linkwork.simulation import rollout as rollout
from linkwork.simulation.simulation import simulate as simulate
from linkwork.sko.prepare.trees import tree as nodes
from linkwork.studies.study import Study as Study
from linkwork.version import __version__ as __version__
from linkwork.visualization.viewer import view as view

__all__ = [
    "PD",
    "BaseParameters",
    "CacheError",
    "Candidate",
    "ClosureError",
    "ClusterCost",
    "ClusterSubspaces",
    "Connect",
    "Constraint",
    "ContactPair",
    "Contacts",
    "Controls",
    "Coupled",
    "Derivative",
    "Diagnosis",
    "DifferentiationError",
    "DtypeError",
    "Gains",
    "Geometry",
    "Hold",
    "InactiveActuatorsWarning",
    "InitialPenetrationWarning",
    "Kernel",
    "LimitError",
    "Limits",
    "LinkworkError",
    "Locked",
    "Log",
    "LoopJoint",
    "MissingPackageError",
    "Model",
    "ModelBuilder",
    "ModelError",
    "ModelFunction",
    "OnPlane",
    "OverlapError",
    "Program",
    "ProgramError",
    "Rolling",
    "Rollout",
    "ShapeError",
    "Status",
    "Study",
    "StudyError",
    "Suggestion",
    "TargetError",
    "TraceError",
    "UntestedShapesWarning",
    "Weld",
    "__version__",
    "absolute",
    "acos",
    "actuation",
    "actuator_force",
    "actuator_map",
    "actuator_map_inverse",
    "asin",
    "atan2",
    "base_parameters",
    "bias_force",
    "center_of_mass",
    "center_of_mass_jacobian",
    "centroidal_map",
    "choose_loops",
    "close_loops",
    "closure_error",
    "cluster_subspaces",
    "compare_approximations",
    "compile",
    "constrained_dynamics",
    "constrained_dynamics_derivatives",
    "constrained_inverse_dynamics",
    "constraint_bias",
    "constraint_jacobian",
    "contact_candidates",
    "contact_points",
    "coriolis_matrix",
    "cos",
    "count_operations",
    "damped_delassus_inverse",
    "damped_delassus_inverse_at_base",
    "damped_delassus_product",
    "delassus",
    "diagnose",
    "difference",
    "difference_derivatives",
    "distance",
    "distance_pairs",
    "energy_regressor",
    "exp",
    "export_c",
    "export_mjcf",
    "export_urdf",
    "fit_parameters",
    "flexible",
    "fma",
    "force_propagator",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "forward_kinematics",
    "frame_acceleration",
    "frame_acceleration_derivatives",
    "frame_jacobian",
    "frame_jacobian_rate",
    "frame_pose",
    "frame_velocity",
    "frame_velocity_derivatives",
    "gravity_force",
    "hull_corners",
    "hvp",
    "hybrid_dynamics",
    "hybrid_dynamics_derivatives",
    "identification",
    "impact",
    "impulse_names",
    "independent_force",
    "innovations_factors",
    "innovations_product",
    "integrate",
    "integrate_derivatives",
    "interop",
    "interpret",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_dynamics_regressor",
    "inverse_dynamics_second_derivatives",
    "jacobian",
    "jacobian_along",
    "jacobian_of",
    "joint_forces",
    "joints",
    "jvp",
    "jvp_of",
    "kinetic_energy",
    "kinetic_energy_derivatives",
    "linearize",
    "load",
    "log",
    "loop",
    "loop_conditioning",
    "loop_forces",
    "loop_joint_position",
    "loop_joint_velocity",
    "loop_joint_wrench",
    "lower",
    "map_rows",
    "mass_matrix",
    "mass_matrix_determinant",
    "mass_matrix_inverse",
    "mass_matrix_log_determinant",
    "mass_matrix_pattern",
    "mass_matrix_product",
    "mass_matrix_solve",
    "maximum",
    "minimum",
    "model_function",
    "momentum",
    "momentum_derivatives",
    "momentum_rate",
    "momentum_rate_derivatives",
    "newton_euler_factors",
    "nodes",
    "operational_compliance",
    "operational_inertia",
    "operators",
    "potential_energy",
    "potential_energy_derivatives",
    "release_memory",
    "rint",
    "robots",
    "rollout",
    "simulate",
    "simulation",
    "sin",
    "sincos",
    "sko",
    "spanning_acceleration",
    "spanning_hybrid_dynamics",
    "spanning_velocity",
    "spatial",
    "sqrt",
    "step",
    "studies",
    "trace",
    "view",
    "visualization",
    "vjp",
    "where",
    "with_hulls",
]
