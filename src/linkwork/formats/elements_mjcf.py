"""Support table of MJCF as of MuJoCo 4.

MuJoCo's compiler rejects invalid MJCF, and resolves defaults, angles and inertias.
"""

from __future__ import annotations

from functools import cache

from linkwork.formats.elements import Row, table

SOFT = "softness of constraints: constraints are exact here, and lw.Contacts has its own contact model"

GROUPS = {
    "place": """
@pos @quat @axisangle @euler @xyaxes @zaxis supported
""",
    "inertial": """
@mass @diaginertia @fullinertia     supported
""",
    "plugin": """
@plugin @instance                   noted
config                              noted **
""",
    "joint": f"""
@name @class @type @pos @axis @ref  supported
@range @limited                     supported
@stiffness @springref @springdamper supported ; reported of free joints, and where it is not linear
@damping                            supported ; reported where it is not linear
@frictionloss @armature             supported
@actuatorfrcrange @actuatorfrclimited supported ; the larger of the two
@actuatorgravcomp                   reported false
@springyield                        noted
@margin                             differs ; limits act where they are
@solreflimit @solimplimit @solreffriction @solimpfriction differs ; {SOFT}
@group @user                        ignored
""",
    "geom": f"""
@name @class @type @size @fromto @fitscale supported
@pos @quat @axisangle @euler @xyaxes @zaxis supported
@mass @density @shellinertia        supported ; of bodies without <inertial>
@mesh @hfield                       supported
@contype @conaffinity @condim @friction @margin supported
@priority                           reported 0 ; frictions are combined as of equal priority
@gap                                reported 0
@adhesion                           reported 0
@surfacevel                         reported 0,0,0 0,0,0,0,0,0 0
@solmix @solref @solimp             differs ; {SOFT}
@fluidshape @fluidcoef              ignored ; fluids are reported
@group @user @material @rgba @castshadow ignored ; colours are kept
plugin                              noted =plugin
""",
    "mesh": """
@name @class @file @vertex @face @normal @texcoord supported
@scale @refpos @refquat @inertia @builtin @params @content_type supported
@smoothnormal @maxhullvert @material ignored
@exactmeshinertia @exactmass        supported ; of older versions
plugin                              noted =plugin
""",
    "pair": f"""
@name @class @geom1 @geom2 @condim @friction @margin supported
@gap                                reported 0
@adhesion                           reported 0
@solref @solimp @solreffriction     differs ; {SOFT}
""",
    "equality": f"""
@name @class @active @body1 @body2 @site1 @site2 @anchor @relpose @torquescale supported
@joint1 @joint2 @tendon1 @tendon2 @polycoef supported ; reported of spatial tendons
@solref @solimp                     differs ; {SOFT}
""",
    "tendon": f"""
@name @class                        supported ; reported of those with a sidesite inside of a geom
@stiffness @damping                 supported
@frictionloss @range @limited       supported
@armature                           supported ; reported of spatial tendons
@springlength                       supported ; reported of fixed tendons that are slack between two lengths
@springyield                        noted
@actuatorfrcrange @actuatorfrclimited reported
@margin @solreflimit @solimplimit @solreffriction @solimpfriction ignored ; {SOFT}
@group @user @width @rgba @material ignored
joint                               supported
  @joint @coef                      supported
site geom pulley                    supported **
""",
    "actuator": """
@name @class @joint @jointinparent @tendon @site @body @slidersite supported ; lw.Controls lets it act
@gear @ctrlrange @ctrllimited @forcerange @forcelimited @inheritrange supported
@gaintype @biastype @dyntype        supported ; reported if there is no counterpart: user, dcmotor, pid, so3
@gainprm @biasprm @dynprm @kp @kv @dampratio @timeconst @tausmooth @area @bias @diameter supported
@actrange @actlimited               supported
@force @scale @lmin @lmax @vmax @fpmax @fvmax @range @lengthrange supported ; of muscles
@motorconst @resistance @nominal @saturation supported ; of DC motors driven by voltage
@ki @gain @inductance               ignored ; noted with the type
@cogging @controller @lugre @thermal @imax @slewmax @posrange ignored ; noted with the type
@armature                           supported ; reported of spatial tendons
@damping                            supported ; of joints of one coordinate and tendons
@refsite                            supported
@actearly @actdim @delay            noted
@nsample @interp @input @velrange @ffrange reported ; not kept
@cranksite @cranklength             ignored ; noted with the transmission
@group @user                        ignored
plugin                              noted **
@plugin @instance                   noted
config                              noted **
""",
    "body": """
@name @childclass                   supported
@pos @quat @axisangle @euler @xyaxes @zaxis supported
@count @sep @offset                 supported ; of <replicate>
@mocap                              noted ; it is held where the file places it
@gravcomp                           supported ; equal for all moving bodies, gravity itself is scaled
@fuse @simple                       supported
@user @sleep                        ignored
inertial                            supported =place =inertial
joint                               supported =joint
freejoint                           supported
  @name @align                      supported
  @group                            ignored
geom                                supported =geom
site                                supported
  @name @class @pos @quat @axisangle @euler @xyaxes @zaxis @fromto supported
  @group @material @mesh @rgba @size @type @user ignored
attach                              supported
  @model @body @prefix @frame       supported
frame                               supported =body
body                                supported =body
replicate                           supported =body
composite                           supported **
camera light                        ignored **
plugin                              noted =plugin
flexcomp                            rejected ** ; soft bodies (flex) have no counterpart: take it out
""",
    "default": """
@class                              supported
joint                               supported =joint
geom                                supported =geom
site                                supported **
mesh                                supported =mesh
pair                                supported =pair
equality                            supported =equality
tendon                              supported =tendon
general motor position velocity intvelocity orientation pid supported =actuator
damper cylinder muscle adhesion dcmotor supported =actuator
plugin                              noted **
camera light material texture       ignored **
default                             supported =default
""",
}

MJCF = """
mujoco mujocoinclude                supported
  @model                            supported
  compiler                          supported
    @angle @autolimits @coordinate @eulerseq @inertiafromgeom @inertiagrouprange supported
    @boundmass @boundinertia @balanceinertia @settotalmass @alignfree @fitaabb supported
    @fusestatic @discardvisual @meshdir @assetdir @strippath supported
    @texturedir @usethread @saveinertial @savecompiled @savecanonical @passthrough @conflict ignored
    @convexhull @exactmeshinertia   ignored ; of older versions
    lengthrange                     supported ; of muscles on joints, and on tendons that are read
      @mode                         ignored
      @useexisting @uselimit @accel @maxforce @timeconst @timestep @inttotal @interval @tolrange supported
  option                            supported
    @gravity                        supported
    @density @viscosity @wind       noted
    @actuatorgroupdisable           supported ; their forces are zero
    @o_margin @o_solref @o_solimp @o_friction noted ; with the flag override
    @timestep @integrator @cone @jacobian ignored ; of MuJoCo's own solver
    @solver @iterations @tolerance @impratio ignored ; of MuJoCo's own solver
    @ls_iterations @ls_tolerance @noslip_iterations @noslip_tolerance @ccd_iterations @ccd_tolerance ignored
    @sdf_iterations @sdf_initpoints @sleep_tolerance @magnetic ignored
    @apirate @mpr_iterations @mpr_tolerance @collision ignored ; of older versions
    flag                            supported
      @gravity @spring @damper @frictionloss @limit @contact supported
      @equality @constraint @clampctrl @passive @actuation supported
      @filterparent @override       noted
      @eulerdamp @warmstart @refsafe @sensor @midphase @autoreset @nativeccd @island @multiccd ignored
      @energy @fwdinv @invdiscrete @sleep @ipc @diagexact @speculative @sensornoise ignored
  size statistic visual             ignored **
  default                           supported =default
  extension                         noted **
  sensor custom                     ignored ** ; noted
  asset                             supported
    mesh                            supported =mesh
    hfield                          supported
      @name @size @nrow @ncol @elevation @file @content_type supported
    model                           supported
      @name @file @content_type     supported
    texture material skin           ignored **
  worldbody                         supported =body
  deformable                        supported
    flex                            rejected ** ; soft bodies (flex) have no counterpart: take it out
    skin                            ignored **
  contact                           supported
    pair                            supported =pair
    exclude                         supported
      @name @body1 @body2           supported
  tendon                            supported
    spatial fixed                   supported =tendon
  equality                          supported
    connect weld joint tendon       supported =equality
    flex flexvert flexstrain distance noted **
  actuator                          supported
    general motor position velocity intvelocity orientation pid supported =actuator
    damper cylinder muscle adhesion dcmotor plugin supported =actuator
  keyframe                          supported
    key                             supported
      @name @qpos @qvel @ctrl       supported
      @act                          supported ; reported of actuators with several activations
      @time                         ignored ; of MuJoCo's own simulation
      @mpos @mquat                  reported ; mocap bodies are held where the file places them
      @plastic                      reported
"""


@cache
def mjcf() -> Row:
    """Return the row of <mujoco>, which is also that of included files."""
    row = table(MJCF, GROUPS).find("mujoco")
    assert row is not None
    return row
