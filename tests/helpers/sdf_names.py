"""Elements and attributes of SDFormat 1.2 to 1.12 that the table goes into, from the descriptions in
sdformat's sources.

A line has an element, after the one that it is in, and what it may contain in any version.
"""

NAMES = """
axis/dynamics: damping friction spring_reference spring_stiffness
axis/limit: dissipation effort lower stiffness upper velocity
axis/mimic: @axis @joint multiplier offset reference
axis/xyz: @expressed_in
axis2/dynamics: damping friction spring_reference spring_stiffness
axis2/limit: dissipation effort lower stiffness upper velocity
axis2/mimic: @axis @joint multiplier offset reference
axis2/xyz: @expressed_in
collision/geometry: box capsule cone cylinder ellipsoid empty heightmap image mesh plane polyline sphere
collision/pose: @degrees @frame @relative_to @rotation_format
collision/surface: bounce contact friction soft_contact
frame/pose: @degrees @frame @relative_to @rotation_format
friction/ode: fdir1 mu mu2 slip1 slip2
geometry/box: size
geometry/capsule: length radius
geometry/cylinder: length radius
geometry/ellipsoid: radii
geometry/mesh: @optimization convex_decomposition filename scale submesh uri
geometry/plane: normal size
geometry/sphere: radius
include/pose: @degrees @frame @relative_to @rotation_format
inertial/inertia: ixx ixy ixz iyy iyz izz
inertial/pose: @degrees @frame @relative_to @rotation_format
joint/axis: dynamics initial_position limit mimic use_parent_model_frame xyz
joint/axis2: dynamics initial_position limit mimic use_parent_model_frame xyz
joint/physics: ode provide_feedback simbody
joint/pose: @degrees @frame @relative_to @rotation_format
link/collision: @name auto_inertia_params density frame geometry laser_retro max_contacts pose surface
link/inertial: @auto auto_inertia_params density fluid_added_mass frame inertia mass pose
link/pose: @degrees @frame @relative_to @rotation_format
link/velocity_decay: angular linear
link/visual: @name cast_shadows frame geometry laser_retro material meta plugin pose transparency
    visibility_flags
model/frame: @attached_to @name pose
model/include: @merge model_state name namespace placement_frame plugin pose static uri
model/joint: @name @type axis axis2 child frame gearbox_ratio gearbox_reference_body parent physics pose
    screw_thread_pitch sensor thread_pitch
model/link: @name audio_sink audio_source battery collision enable_wind frame gravity inertial kinematic
    light must_be_base_link particle_emitter pose projector self_collide sensor velocity_decay visual
model/model: @canonical_link @name @namespace @placement_frame allow_auto_disable enable_wind frame
    gripper include joint link model model_state plugin pose self_collide static
model/pose: @degrees @frame @relative_to @rotation_format
physics/ode: bounce cfm cfm_damping erp fudge_factor implicit_spring_damper limit max_force
    provide_feedback suspension velocity
sdf: @version actor light model world
sdf/model: @canonical_link @name @namespace @placement_frame allow_auto_disable enable_wind frame
    gripper include joint link model model_state plugin pose self_collide static
sdf/world: @name actor atmosphere audio frame gravity gui include joint light magnetic_field model
    physics plugin population road scene spherical_coordinates state wind
surface/bounce: restitution_coefficient threshold
surface/friction: bullet ode torsional
visual/geometry: box capsule cone cylinder ellipsoid empty heightmap image mesh plane polyline sphere
visual/pose: @degrees @frame @relative_to @rotation_format
world/frame: @attached_to @name pose
world/include: @merge model_state name namespace placement_frame plugin pose static uri
world/joint: @name @type axis axis2 child frame gearbox_ratio gearbox_reference_body parent physics pose
    screw_thread_pitch sensor thread_pitch
world/model: @canonical_link @name @namespace @placement_frame allow_auto_disable enable_wind frame
    gripper include joint link model model_state plugin pose self_collide static
world/physics: @default @name @type bullet dart gravity magnetic_field max_contacts max_step_size ode
    real_time_factor real_time_update_rate simbody update_rate
world/wind: linear_velocity
"""
