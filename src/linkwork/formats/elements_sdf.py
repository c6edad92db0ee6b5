"""Support table of SDFormat 1.2 to 1.12."""

from __future__ import annotations

from functools import cache

from linkwork.formats.elements import Row, table

GROUPS = {
    "pose": """
@relative_to                        supported
@frame                              supported <1.7 "" ; of 1.5 and 1.6
@rotation_format @degrees           supported
""",
    "own_pose": """
@relative_to @frame                 rejected "" ; the pose of an inertia is in the frame of its link
@rotation_format @degrees           supported
""",
    "geometry": """
box                                 supported
  size                              supported
ellipsoid                           supported
  radii                             supported
sphere                              supported
  radius                            supported
cylinder capsule                    supported
  radius length                     supported
plane                               supported
  normal                            supported
  size                              differs ; every plane is infinite
mesh                                supported
  uri scale                         supported
  @optimization convex_decomposition differs ** ; every mesh is taken by its hull, where it is opened
  filename                          rejected ; of 1.2: give a uri
  submesh                           reported ** ; the whole mesh is taken
cone heightmap image polyline       noted **
empty                               supported **
""",
    "axis": """
xyz                                 supported
  @expressed_in                     supported
use_parent_model_frame              supported <1.7 false 0 ; of 1.5 and 1.6
dynamics                            supported
  damping friction spring_stiffness spring_reference supported
limit                               supported
  lower upper                       supported ; 1e16 and more, and inf, is none
  effort velocity                   supported ; a negative one is none
  stiffness dissipation             differs ; how stops yield is a question of contact
mimic                               supported
  @joint @axis                      supported ; of joints of one axis
  multiplier offset reference       supported
initial_position                    reported 0 ; give a keyframe or start= instead
""",
    "no_axis": """
xyz                                 ignored
  @expressed_in                     ignored
use_parent_model_frame              ignored
dynamics                            ignored
  damping friction spring_stiffness reported 0
  spring_reference                  ignored
limit                               ignored
  lower                             reported -1e16 -inf
  upper                             reported 1e16 inf
  effort velocity                   reported -1 inf 1e16
  stiffness dissipation             ignored
mimic                               reported **
initial_position                    reported 0
""",
    "joint": """
@name @type                         supported
parent child                        supported
pose                                supported =pose
axis                                supported =axis
axis[ball]                          ignored =no_axis ; it has no meaning, unless it has dynamics or limits
axis[fixed]                         ignored **
axis[gearbox]                       supported =axis
axis2                               reported ** ; the joint has one axis
axis2[revolute2,universal,gearbox]  supported =axis
gearbox_ratio gearbox_reference_body ignored
gearbox_ratio[gearbox] gearbox_reference_body[gearbox] supported
thread_pitch screw_thread_pitch     ignored
thread_pitch[screw] screw_thread_pitch[screw] supported
sensor                              ignored **
physics                             ignored
  provide_feedback                  ignored
  simbody                           ignored **
  ode                               ignored
    max_force velocity              reported 0 ; a motor of the simulator
    bounce                          reported 0
    cfm cfm_damping erp fudge_factor implicit_spring_damper limit suspension provide_feedback ignored **
frame                               reported ** ; of 1.5 and 1.6
""",
    "frame": """
@name @attached_to                  supported
pose                                supported =pose
""",
    "shape": """
@name                               supported
pose                                supported =pose
geometry                            supported =geometry
laser_retro                         ignored
frame                               reported **
""",
    "collision": """
max_contacts                        ignored
density auto_inertia_params         ignored ** ; inertias are given
surface                             supported
  friction                          supported
    ode                             supported
      mu                            supported
      mu2 fdir1 slip1 slip2         differs ; one coefficient for all directions
    bullet torsional                differs ** ; one coefficient for all directions
  bounce                            supported
    restitution_coefficient         reported 0
    threshold                       ignored
  contact                           differs ** ; lw.Contacts chooses laws and pairs
  soft_contact                      reported **
""",
    "visual": """
material plugin meta                ignored **
cast_shadows transparency visibility_flags ignored
""",
    "link": """
@name                               supported
pose                                supported =pose
inertial                            supported
  @auto                       rejected false 0 ; inertias are not computed from shapes: give mass and inertia
  mass                              supported ; 1 by default
  inertia                           supported ; 1 1 1 0 0 0 by default
    ixx iyy izz ixy ixz iyz         supported
  pose                              supported =own_pose
  density auto_inertia_params       ignored **
  fluid_added_mass                  reported **
  frame                             reported **
visual                              supported =shape =visual
collision                           supported =shape =collision
gravity                             supported
kinematic                           reported false 0
enable_wind                         reported false 0
must_be_base_link                   ignored
self_collide                        differs ; lw.Contacts chooses pairs
velocity_decay                      ignored
  linear angular                    reported 0
sensor light projector audio_sink audio_source battery particle_emitter ignored **
frame                               reported ** ; of 1.5 and 1.6: give it to the model
""",
    "include": """
@merge                        rejected false 0 ; models are not merged: give the parts, or nest the model
uri name static placement_frame     supported
pose                                supported =pose
namespace                           ignored
plugin                              ignored **
model_state                         reported **
""",
    "model": """
@name @canonical_link @placement_frame supported
@namespace                          ignored
@version                            ignored
static                              supported ; also of all models in it
pose                                supported =pose
link                                supported =link
joint                               supported =joint
frame                               supported =frame
model                               supported =model
include                             supported =include
self_collide                        differs ; lw.Contacts chooses pairs
allow_auto_disable                  ignored
enable_wind                         reported false 0
plugin                              ignored **
gripper                             reported ** ; it would fix what it holds
model_state                         reported **
""",
}

SDF = """
sdf                                 supported
  @version                          supported
  model                             supported =model
  world                             supported
    @name                           supported
    gravity                         supported
    model                           supported =model
    joint                           supported =joint
    frame                           supported =frame
    include                         supported =include
    physics                         ignored
      @name @default @type          ignored
      gravity                       supported <1.6 ; of 1.5 and before
      max_step_size real_time_factor real_time_update_rate max_contacts ignored **
      dart simbody bullet ode update_rate ignored **
      magnetic_field                ignored
    wind                            ignored
      linear_velocity               reported 0,0,0
    state population                reported **
    actor light plugin road gui scene audio atmosphere ignored **
    spherical_coordinates magnetic_field ignored **
  actor light                       ignored **
"""


@cache
def sdf() -> Row:
    """Return the row of <sdf>."""
    row = table(SDF, GROUPS).find("sdf")
    assert row is not None
    return row
