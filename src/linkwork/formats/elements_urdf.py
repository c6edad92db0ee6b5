"""Support table of URDF, with the extensions of URDF+, Drake, Isaac Sim, Gazebo, bullet and linkwork."""

from __future__ import annotations

from functools import cache

from linkwork.formats.elements import Row, table

GROUPS = {
    "shape": """
@name                               supported
origin                              supported =place
geometry                            supported
  box                               supported
    @size                           supported
  sphere                            supported
    @radius                         supported
  cylinder capsule                  supported
    @radius @length                 supported
  mesh                              supported
    @filename @scale                supported
    drake:declare_convex            differs ** ; every mesh is taken by its hull, where it is opened
material                            supported
  @name                             supported
  color                             supported
    @rgba                           supported
  texture                           ignored
    @filename                       ignored
linkwork                            supported **
""",
    "collision": """
verbose                             ignored **
""",
    "place": """
@xyz @rpy                           supported
@quat_xyzw                          rejected ; quaternions are not read: give roll, pitch and yaw as rpy
""",
    "end": """
@link                               supported
origin                              supported =place
""",
    "sdf_axis": """
xyz                                 supported
  @expressed_in                     supported
use_parent_model_frame              supported
limit dynamics                      noted ** ; in a joint that closes a loop
mimic                               reported **
""",
    "sdf_pose": """
@relative_to @frame @rotation_format supported
@degrees                            supported
""",
}

URDF = """
robot                               supported
  @name                             supported
  @version                          ignored
  link                              supported
    @name                           supported
    @type                           ignored
    inertial                        supported
      origin                        supported =place
      mass                          supported
        @value                      supported
      inertia                       supported
        @ixx @ixy @ixz @iyy @iyz @izz supported
    visual                          supported =shape
    collision                       supported =shape =collision
    contact                 reported ** ; friction, stiffness and damping of bullet: give them to lw.Contacts
    linkwork                        supported **
  joint                             supported
    @name @type                     supported
    @independent                    supported ; an extension: the joint's velocities are independent ones
    @pitch                          supported ; an extension: of a helical joint [m/rad]
    origin                          supported =place
    parent child                    supported
      @link                         supported
    axis                            supported
      @xyz                          supported
    axis[fixed,floating,spherical,universal,gimbal] ignored ** ; it has no meaning in such a joint
    limit                           supported
      @lower @upper                 supported ; of one coordinate; 0 and 0, or none of them, are taken as none
      @effort @velocity             supported
      @acceleration @deceleration @jerk reported
      @drake:acceleration           reported
    limit[fixed]                    ignored **
    limit[floating,planar,spherical,universal,gimbal,cylindrical] noted **
    dynamics                        supported
      @damping @friction            supported
      @stiffness @rest @armature    supported ; an extension
    dynamics[fixed]                 ignored **
    mimic                           supported
      @joint @multiplier @offset    supported
    mimic[fixed]                    noted **
    safety_controller               ignored ** ; limits of a controller
    calibration                     ignored ** ; of sensors
    linkwork                        supported **
  material                          ignored ** ; colours of shapes are read where they are used
  sensor ros2_control               ignored **
  transmission                      supported
    @name @type type joint          supported **
    actuator                        supported
      @name                         supported
      drake:gear_ratio              supported ; the reflected inertia is that of the rotor times its square
        @value                      supported
      drake:rotor_inertia           supported
        @value                      supported
      mechanicalReduction hardwareInterface role motorTorqueConstant offset ignored **
    robotNamespace mechanicalReduction mechanical_reduction ignored **
    leftActuator rightActuator flexJoint rollJoint gap_joint passive_joint ignored **
    simulated_actuated_joint use_simulated_gripper_joint compensator simulated_reduction ignored **
    motorTorqueConstant motorMaximumTorque ignored **
  gazebo                            supported
    @reference                      supported
    @xmlns                          ignored
    joint                           supported
      @name @type parent child      supported
      pose                          supported =sdf_pose
      axis axis2                    supported =sdf_axis
      gearbox_ratio gearbox_reference_body supported
      physics sensor                ignored **
      screw_thread_pitch thread_pitch reported
    plugin                        noted ** ; of controllers; one that makes joints follow others is noted
    material sensor visual light projector laserRetention laserRetro ignored **
    provideFeedback provide_feedback canonicalBody ignored **
    implicitSpringDamper cfmDamping stopCfm stopErp stopKp stopKd fudgeFactor cfm erp ignored **
    maxVel max_vel minDepth min_depth maxContacts max_contacts ignored **
    preserveFixedJoint disableFixedJointLumping disable_fixed_joint_lumping ignored **
    preserve_fixed_joint robotNamespace genTexCoord ignored **
    mu1 mu2 mu kp kd fdir1          reported ; friction and stiffness of contacts: give them to lw.Contacts
    collision                       reported ** ; friction and stiffness of contacts: give them to lw.Contacts
    selfCollide self_collide        differs ; lw.Contacts chooses pairs
    springStiffness                 reported 0 ; give <dynamics stiffness= rest=> to the joint
    springReference                 reported 0 ; give <dynamics stiffness= rest=> to the joint
    dampingFactor                   reported 0
    turnGravityOff gravity          supported ; of a link
    static kinematic                reported false 0
    link model include frame pose inertial velocity_decay must_be_base_link reported **
    initialJointPosition initial_joint_position reported 0
  loop                              supported ; URDF+
    @name @type @pitch @length      supported
    @embed @kept                    supported ; an extension
    predecessor successor           supported =end
    axis                            supported
      @xyz                          supported
  coupling                          supported ; URDF+
    @name                           supported
    @embed                          supported ; an extension
    predecessor successor           supported =end
    ratio                           supported
      @value                        supported
    term                            supported ; an extension
      @joint @coefficient           supported
    offset                          supported
      @value                        supported
  loop_joint                        supported ; Isaac Sim
    @name @type @pitch @length      supported
    @embed @kept                    supported ; an extension
    link1 link2                     supported
      @link @xyz @rpy               supported
    axis                            supported
      @xyz                          supported
  drake:ball_constraint             supported
    drake:ball_constraint_body_A drake:ball_constraint_body_B supported
      @name                         supported
    drake:ball_constraint_p_AP drake:ball_constraint_p_BQ supported
      @value                        supported
  drake:joint drake:linear_bushing_rpy drake:collision_filter_group drake:proximity_properties reported **
  linkwork                          supported **
"""


@cache
def urdf() -> Row:
    """Return the row of <robot>."""
    row = table(URDF, GROUPS).find("robot")
    assert row is not None
    return row
