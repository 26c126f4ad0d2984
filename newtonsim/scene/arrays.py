"""The table of every array of Model, State and Control.

One row says what an array holds, how long it is and whether gradients flow through it. The builder copies
worlds, checks its lists and allocates the model by reading this table, so a new array is one new row.

`per` names the elements that have one entry each: "body", "joint", "axis" (one per joint axis), "coord"
(`joint_q`), "dof" (`joint_qd`), "constraint", "constraint_axis" (one per free axis of a loop joint), "shape",
"contact_pair", "tendon", "tendon_element" (of a path), "tendon_equality", "particle", "spring", "tri",
"edge", "tet", "muscle", "muscle_point", "actuator".
"""

from dataclasses import dataclass
from typing import Any

import warp as wp

SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
"""MuJoCo's defaults of solref and solimp."""
LARGEST_RATE = 1.0e12
"""Largest coordinate of a joint [m or rad], velocity [m/s or rad/s] and gravity [m/s^2]."""
LARGEST_NUMBER = 1.0e20
"""Largest stiffness, damping, armature and all else that has no bound of its own."""


@dataclass(frozen=True)
class ArraySpec:
    """One array of the model, built from the builder's list of the same name.

    Attributes:
        name: Attribute of ModelBuilder and Model.
        per: Kind of element that has one entry.
        dtype: Warp type of an entry; None for lists that stay on the host (keys, colours).
        unit: SI unit, "" if there is none.
        doc: What it holds.
        columns: Size of the second dimension, 0 for a one-dimensional array.
        flat: Number of consecutive list items that form one entry (spring_indices).
        index_of: The entries are indices of this kind; -1 means none.
        grad: Whether the array takes part in differentiation.
        allow_inf: Whether infinite values are allowed.
        host: Whether only the builder has it; the model receives it by other means (structs, host lists).
    """

    name: str
    per: str
    dtype: Any
    unit: str = ""
    doc: str = ""
    columns: int = 0
    flat: int = 1
    index_of: str | None = None
    grad: bool = False
    allow_inf: bool = False
    host: bool = False


_PARTICLE = [
    ArraySpec("particle_q", "particle", wp.vec3, "m", "Positions", grad=True),
    ArraySpec("particle_qd", "particle", wp.vec3, "m/s", "Velocities", grad=True),
    ArraySpec(
        "particle_mass", "particle", wp.float32, "kg", "Masses; 0 makes a particle kinematic", grad=True
    ),
    ArraySpec("particle_radius", "particle", wp.float32, "m", "Radii", grad=True),
    ArraySpec("particle_flags", "particle", wp.uint32, "", "PARTICLE_FLAG_* bits"),
    ArraySpec("particle_ke", "particle", wp.float32, "N/m", "Normal contact stiffness", grad=True),
    ArraySpec("particle_kd", "particle", wp.float32, "N s/m", "Normal contact damping", grad=True),
    ArraySpec("particle_kf", "particle", wp.float32, "N s/m", "Friction force stiffness", grad=True),
    ArraySpec("particle_mu", "particle", wp.float32, "", "Coefficient of friction", grad=True),
    ArraySpec(
        "particle_cohesion", "particle", wp.float32, "m", "Cohesion distance between particles", grad=True
    ),
    ArraySpec("particle_adhesion", "particle", wp.float32, "m", "Adhesion distance to shapes", grad=True),
    ArraySpec("particle_world", "particle", wp.int32, "", "World of each particle, -1 for the global one"),
    ArraySpec(
        "spring_indices",
        "spring",
        wp.int32,
        "",
        "Particles of each spring, flat",
        flat=2,
        index_of="particle",
    ),
    ArraySpec("spring_rest_length", "spring", wp.float32, "m", "Rest lengths", grad=True),
    ArraySpec("spring_stiffness", "spring", wp.float32, "N/m", "Stiffness", grad=True),
    ArraySpec("spring_damping", "spring", wp.float32, "N s/m", "Damping", grad=True),
    ArraySpec("spring_control", "spring", wp.float32, "", "Activations", grad=True),
    ArraySpec(
        "tri_indices", "tri", wp.int32, "", "Particles of each triangle", columns=3, index_of="particle"
    ),
    ArraySpec("tri_poses", "tri", wp.mat22, "1/m", "Inverse rest edge matrices", grad=True),
    ArraySpec("tri_activations", "tri", wp.float32, "", "Activations", grad=True),
    ArraySpec("tri_materials", "tri", wp.float32, "", "(ke, ka, kd, drag, lift)", columns=5, grad=True),
    ArraySpec("tri_areas", "tri", wp.float32, "m^2", "Rest areas", grad=True),
    ArraySpec(
        "edge_indices",
        "edge",
        wp.int32,
        "",
        "(o0, o1, v1, v2): opposite vertices, then the edge; -1 where a border has no second triangle",
        columns=4,
        index_of="particle",
    ),
    ArraySpec("edge_rest_angle", "edge", wp.float32, "rad", "Rest angles", grad=True),
    ArraySpec("edge_rest_length", "edge", wp.float32, "m", "Rest lengths", grad=True),
    ArraySpec("edge_bending_properties", "edge", wp.float32, "", "(ke, kd)", columns=2, grad=True),
    ArraySpec(
        "tet_indices", "tet", wp.int32, "", "Particles of each tetrahedron", columns=4, index_of="particle"
    ),
    ArraySpec("tet_poses", "tet", wp.mat33, "1/m", "Inverse rest edge matrices", grad=True),
    ArraySpec("tet_activations", "tet", wp.float32, "", "Volumetric activations", grad=True),
    ArraySpec("tet_materials", "tet", wp.float32, "Pa", "(k_mu, k_lambda, k_damp)", columns=3, grad=True),
]

_BODY = [
    ArraySpec("body_q", "body", wp.transform, "m", "Poses of the body frames in the world", grad=True),
    ArraySpec(
        "body_qd",
        "body",
        wp.spatial_vector,
        "rad/s, m/s",
        "(ω, v of the centre of mass), world axes",
        grad=True,
    ),
    ArraySpec("body_com", "body", wp.vec3, "m", "Centres of mass in the body frames", grad=True),
    ArraySpec(
        "body_inertia", "body", wp.mat33, "kg m^2", "Inertia about the centre of mass, body axes", grad=True
    ),
    ArraySpec("body_mass", "body", wp.float32, "kg", "Masses; 0 makes a body kinematic", grad=True),
    ArraySpec("body_world", "body", wp.int32, "", "World of each body, -1 for the global one"),
    ArraySpec(
        "body_present",
        "body",
        wp.int32,
        "",
        "Whether a body is present; the same for all bodies of a tree; may change between steps",
    ),
    ArraySpec("body_key", "body", None, "", "Names"),
]

_JOINT = [
    ArraySpec("joint_type", "joint", wp.int32, "", "JointType"),
    ArraySpec("joint_parent", "joint", wp.int32, "", "Parent bodies, -1 for the world", index_of="body"),
    ArraySpec("joint_child", "joint", wp.int32, "", "Child bodies", index_of="body"),
    ArraySpec("joint_X_p", "joint", wp.transform, "m", "Joint frames in the parent body frames", grad=True),
    ArraySpec("joint_X_c", "joint", wp.transform, "m", "Joint frames in the child body frames", grad=True),
    ArraySpec("joint_axis_start", "joint", wp.int32, "", "First axis of each joint", index_of="axis"),
    ArraySpec("joint_axis_dim", "joint", wp.int32, "", "Linear and angular axes of each joint", columns=2),
    ArraySpec("joint_linear_compliance", "joint", wp.float32, "m/N", "Linear compliance", grad=True),
    ArraySpec("joint_angular_compliance", "joint", wp.float32, "rad/(N m)", "Angular compliance", grad=True),
    ArraySpec("joint_enabled", "joint", wp.int32, "", "Whether a joint is simulated"),
    ArraySpec(
        "joint_twist_lower", "joint", wp.float32, "rad", "Lower twist limits", grad=True, allow_inf=True
    ),
    ArraySpec(
        "joint_twist_upper", "joint", wp.float32, "rad", "Upper twist limits", grad=True, allow_inf=True
    ),
    ArraySpec(
        "joint_swing_limit",
        "joint",
        wp.float32,
        "rad",
        "Largest angle of BALL joints between the x axes of both joint frames",
        grad=True,
        allow_inf=True,
    ),
    ArraySpec(
        "joint_distance_lower",
        "joint",
        wp.float32,
        "m",
        "Least distance of DISTANCE joints, none if negative",
        grad=True,
    ),
    ArraySpec(
        "joint_distance_upper",
        "joint",
        wp.float32,
        "m",
        "Largest distance, none if negative",
        allow_inf=True,
        grad=True,
    ),
    ArraySpec("joint_world", "joint", wp.int32, "", "World of each joint, -1 for the global one"),
    ArraySpec("joint_key", "joint", None, "", "Names"),
    ArraySpec(
        "joint_q_start", "joint", wp.int32, "", "First coordinate of each joint", index_of="coord", host=True
    ),
    ArraySpec("joint_qd_start", "joint", wp.int32, "", "First dof of each joint", index_of="dof", host=True),
    ArraySpec(
        "joint_collision_filter_parent", "joint", None, "", "No contacts between parent and child", host=True
    ),
    ArraySpec("joint_q", "coord", wp.float32, "rad or m", "Initial joint positions", grad=True),
    ArraySpec("joint_qd", "dof", wp.float32, "rad/s or m/s", "Initial joint velocities", grad=True),
    ArraySpec(
        "joint_armature", "dof", wp.float32, "kg m^2 or kg", "Rotor inertia added to each dof", grad=True
    ),
    ArraySpec("joint_damping", "dof", wp.float32, "N m s/rad or N s/m", "Passive damping", grad=True),
    ArraySpec("joint_friction", "dof", wp.float32, "N m or N", "Dry friction", grad=True),
    ArraySpec(
        "joint_friction_solref",
        "dof",
        wp.float32,
        "",
        "Time constant [s] and damping ratio of dry friction, minus stiffness and damping, 0 for Coulomb's",
        columns=2,
    ),
    ArraySpec("joint_friction_solimp", "dof", wp.float32, "", "As `joint_limit_solimp`", columns=5),
    ArraySpec("joint_axis", "axis", wp.vec3, "", "Unit axes in the joint frames", grad=True),
    ArraySpec("joint_act", "axis", wp.float32, "", "Initial control inputs, see JointMode", grad=True),
    ArraySpec("joint_axis_mode", "axis", wp.int32, "", "JointMode"),
    ArraySpec("joint_target_ke", "axis", wp.float32, "N m/rad or N/m", "Drive stiffness", grad=True),
    ArraySpec("joint_target_kd", "axis", wp.float32, "N m s/rad or N s/m", "Drive damping", grad=True),
    ArraySpec("joint_limit_lower", "axis", wp.float32, "rad or m", "Lower limits", grad=True, allow_inf=True),
    ArraySpec("joint_limit_upper", "axis", wp.float32, "rad or m", "Upper limits", grad=True, allow_inf=True),
    ArraySpec("joint_limit_ke", "axis", wp.float32, "N m/rad or N/m", "Limit stiffness", grad=True),
    ArraySpec("joint_limit_kd", "axis", wp.float32, "N m s/rad or N s/m", "Limit damping", grad=True),
    ArraySpec(
        "joint_limit_solref",
        "axis",
        wp.float32,
        "",
        "Time constant [s] and damping ratio of limits, or minus stiffness and damping; 0 for the solver's",
        columns=2,
    ),
    ArraySpec(
        "joint_limit_solimp",
        "axis",
        wp.float32,
        "",
        "Impedance at the limit and beyond the width, width [rad or m], midpoint and power, with solref",
        columns=5,
    ),
    ArraySpec(
        "joint_limit_margin",
        "axis",
        wp.float32,
        "rad or m",
        "Distance at which the limits begin to act, with solref",
    ),
    ArraySpec("joint_stiffness", "axis", wp.float32, "N m/rad or N/m", "Passive spring stiffness", grad=True),
    ArraySpec(
        "joint_spring_ref", "axis", wp.float32, "rad or m", "Rest position of the passive spring", grad=True
    ),
    ArraySpec(
        "joint_effort_limit",
        "axis",
        wp.float32,
        "N m or N",
        "Largest drive effort",
        allow_inf=True,
        grad=True,
    ),
    ArraySpec(
        "joint_effort_lower",
        "axis",
        wp.float32,
        "N m or N",
        "Least drive effort, not above zero; minus infinity: minus the largest",
        allow_inf=True,
        grad=True,
    ),
    ArraySpec(
        "joint_velocity_limit",
        "axis",
        wp.float32,
        "rad/s or m/s",
        "Largest velocity",
        allow_inf=True,
        grad=True,
    ),
]

_CONSTRAINT = [
    ArraySpec("constraint_type", "constraint", wp.int32, "", "ConstraintType"),
    ArraySpec("constraint_parent", "constraint", wp.int32, "", "Bodies, -1 for the world", index_of="body"),
    ArraySpec(
        "constraint_child", "constraint", wp.int32, "", "Other bodies, -1 for the world", index_of="body"
    ),
    ArraySpec(
        "constraint_X_p",
        "constraint",
        wp.transform,
        "m",
        "Anchor frames in the parent body frames",
        grad=True,
    ),
    ArraySpec(
        "constraint_X_c",
        "constraint",
        wp.transform,
        "m",
        "Anchor frames in the child body frames",
        grad=True,
    ),
    ArraySpec(
        "constraint_axis_start",
        "constraint",
        wp.int32,
        "",
        "First axis of each constraint",
        index_of="constraint_axis",
    ),
    ArraySpec("constraint_axis_dim", "constraint", wp.int32, "", "Free linear and angular axes", columns=2),
    ArraySpec(
        "constraint_coupled_axes",
        "constraint",
        wp.int32,
        "",
        "Joint axes (a, b) of a coupling, -1 for none",
        columns=2,
        index_of="axis",
    ),
    ArraySpec(
        "constraint_coefficients",
        "constraint",
        wp.float32,
        "",
        "Coupling q_a = c0 + c1 q_b + c2 q_b^2 + c3 q_b^3 + c4 q_b^4",
        columns=5,
        grad=True,
    ),
    ArraySpec(
        "constraint_distance_lower",
        "constraint",
        wp.float32,
        "m",
        "Least distance of the anchors, none if negative",
        grad=True,
    ),
    ArraySpec(
        "constraint_distance_upper",
        "constraint",
        wp.float32,
        "m",
        "Largest distance, none if negative",
        allow_inf=True,
        grad=True,
    ),
    ArraySpec("constraint_enabled", "constraint", wp.int32, "", "Whether it acts; may change between steps"),
    ArraySpec(
        "constraint_max_force",
        "constraint",
        wp.float32,
        "N or N m",
        "Largest force along each direction held",
        allow_inf=True,
        grad=True,
    ),
    ArraySpec(
        "constraint_recovery_time",
        "constraint",
        wp.float32,
        "s",
        "Time constant of removing errors, 0 for the solver's",
        grad=True,
    ),
    ArraySpec(
        "constraint_linear_compliance", "constraint", wp.float32, "m/N", "Linear compliance", grad=True
    ),
    ArraySpec(
        "constraint_angular_compliance",
        "constraint",
        wp.float32,
        "rad/(N m)",
        "Angular compliance",
        grad=True,
    ),
    ArraySpec(
        "constraint_solref",
        "constraint",
        wp.float32,
        "",
        "As `joint_limit_solref`, of welds, connected points and couplings, in place of compliance",
        columns=2,
    ),
    ArraySpec("constraint_solimp", "constraint", wp.float32, "", "As `joint_limit_solimp`", columns=5),
    ArraySpec(
        "constraint_torque_scale",
        "constraint",
        wp.float32,
        "m",
        "Length that a turn by a rad counts as in a weld with solref",
    ),
    ArraySpec("constraint_key", "constraint", None, "", "Names"),
    ArraySpec(
        "constraint_collision_filter", "constraint", None, "", "No contacts between its bodies", host=True
    ),
    ArraySpec("constraint_axis", "constraint_axis", wp.vec3, "", "Free unit axes in the anchor frames"),
    ArraySpec(
        "constraint_limit_lower",
        "constraint_axis",
        wp.float32,
        "rad or m",
        "Lower limits",
        allow_inf=True,
        grad=True,
    ),
    ArraySpec(
        "constraint_limit_upper",
        "constraint_axis",
        wp.float32,
        "rad or m",
        "Upper limits",
        allow_inf=True,
        grad=True,
    ),
]

_SHAPE = [
    ArraySpec("shape_transform", "shape", wp.transform, "m", "Poses in the body frames"),
    ArraySpec("shape_body", "shape", wp.int32, "", "Bodies, -1 for static shapes", index_of="body"),
    ArraySpec("shape_flags", "shape", wp.uint32, "", "ShapeFlags"),
    ArraySpec("shape_mu_torsion", "shape", wp.float32, "m", "Torsional friction coefficients", grad=True),
    ArraySpec("shape_mu_rolling", "shape", wp.float32, "m", "Rolling friction coefficients", grad=True),
    ArraySpec(
        "shape_spin_friction",
        "shape",
        wp.float32,
        "m",
        "Torsional and rolling friction for MuJoCo where the two above are 0; -1 for its solver's",
        columns=2,
    ),
    ArraySpec(
        "shape_solref",
        "shape",
        wp.float32,
        "",
        "Time constant [s] and damping ratio of contacts, or minus stiffness and damping; 0 for the solver's",
        columns=2,
    ),
    ArraySpec(
        "shape_solimp",
        "shape",
        wp.float32,
        "",
        "Impedance at touch and beyond the width, width [m], midpoint and power, with solref",
        columns=5,
    ),
    ArraySpec(
        "shape_solmix", "shape", wp.float32, "", "Weight of solref and solimp beside the other shape's"
    ),
    ArraySpec(
        "shape_priority",
        "shape",
        wp.int32,
        "",
        "Of two shapes, the one of higher priority sets the contact parameters",
    ),
    ArraySpec(
        "shape_condim",
        "shape",
        wp.int32,
        "",
        "Dimensions of contacts: 1 for the normal only, 0 to derive them from the coefficients of friction",
    ),
    ArraySpec("shape_world", "shape", wp.int32, "", "World of each shape, -1 for the global one"),
    ArraySpec(
        "shape_convex",
        "shape",
        wp.int32,
        "",
        "1 if a mesh collides as its convex hull, 0 if as a surface, -1 as a hull if its body can move",
    ),
    ArraySpec("shape_key", "shape", None, "", "Names"),
    ArraySpec("shape_color", "shape", None, "", "Tuple RGBA in 0..1, or None"),
    ArraySpec(
        "shape_spare", "shape", None, "", "Whether it may become another shape, see `ModelBuilder.reserve`"
    ),
    ArraySpec("shape_texture", "shape", None, "", "Path of an image file, or None"),
    ArraySpec(
        "shape_collision_group", "shape", None, "", "-1 collides with all, else with -1 and its own group"
    ),
    ArraySpec("shape_geo_src", "shape", None, "", "Mesh, SDF or Heightfield, or None"),
    ArraySpec("shape_geo_type", "shape", wp.int32, "", "GeoType", host=True),
    ArraySpec("shape_geo_scale", "shape", wp.vec3, "m", "Size, see GeoType", host=True),
    ArraySpec("shape_geo_is_solid", "shape", wp.uint8, "", "Solid or hollow", host=True),
    ArraySpec("shape_geo_thickness", "shape", wp.float32, "m", "Wall and contact thickness", host=True),
    ArraySpec("shape_material_ke", "shape", wp.float32, "N/m", "Contact stiffness", host=True, grad=True),
    ArraySpec("shape_material_kd", "shape", wp.float32, "N s/m", "Contact damping", host=True, grad=True),
    ArraySpec("shape_material_kf", "shape", wp.float32, "N s/m", "Friction stiffness", host=True, grad=True),
    ArraySpec("shape_material_ka", "shape", wp.float32, "m", "Adhesion distance", host=True, grad=True),
    ArraySpec("shape_material_mu", "shape", wp.float32, "", "Coefficient of friction", host=True, grad=True),
    ArraySpec("shape_material_restitution", "shape", wp.float32, "", "Restitution", host=True, grad=True),
]

_CONTACT_PAIR = [
    ArraySpec(
        "contact_pair_shapes",
        "contact_pair",
        wp.int32,
        "",
        "Pairs of shapes with their own contact parameters, in any order",
        columns=2,
        index_of="shape",
    ),
    ArraySpec(
        "contact_pair_friction",
        "contact_pair",
        wp.vec3,
        "",
        "Coefficients of sliding, torsional [m] and rolling friction [m]",
    ),
    ArraySpec("contact_pair_solref", "contact_pair", wp.float32, "", "As `shape_solref`", columns=2),
    ArraySpec("contact_pair_solimp", "contact_pair", wp.float32, "", "As `shape_solimp`", columns=5),
]

_TENDON = [
    ArraySpec(
        "tendon_start",
        "tendon",
        wp.int32,
        "",
        "First element of each tendon's path",
        index_of="tendon_element",
    ),
    ArraySpec("tendon_offset", "tendon", wp.float32, "m or rad", "Added to the length", grad=True),
    ArraySpec(
        "tendon_stiffness", "tendon", wp.float32, "N/m", "Stiffness beyond the rest lengths", grad=True
    ),
    ArraySpec("tendon_damping", "tendon", wp.float32, "N s/m", "Damping", grad=True),
    ArraySpec("tendon_spring_lower", "tendon", wp.float32, "m", "Shortest rest length", grad=True),
    ArraySpec("tendon_spring_upper", "tendon", wp.float32, "m", "Largest rest length", grad=True),
    ArraySpec("tendon_limit_lower", "tendon", wp.float32, "m", "Least length", grad=True, allow_inf=True),
    ArraySpec("tendon_limit_upper", "tendon", wp.float32, "m", "Largest length", grad=True, allow_inf=True),
    ArraySpec("tendon_limit_margin", "tendon", wp.float32, "m", "Distance at which the limits begin to act"),
    ArraySpec("tendon_limit_solref", "tendon", wp.float32, "", "As `joint_limit_solref`", columns=2),
    ArraySpec("tendon_limit_solimp", "tendon", wp.float32, "", "As `joint_limit_solimp`", columns=5),
    ArraySpec("tendon_friction", "tendon", wp.float32, "N", "Dry friction", grad=True),
    ArraySpec(
        "tendon_armature", "tendon", wp.float32, "kg", "Inertia that resists changes of the length", grad=True
    ),
    ArraySpec("tendon_mode", "tendon", wp.int32, "", "JointMode of the drive"),
    ArraySpec("tendon_target_ke", "tendon", wp.float32, "N/m", "Stiffness of the drive", grad=True),
    ArraySpec("tendon_target_kd", "tendon", wp.float32, "N s/m", "Damping of the drive", grad=True),
    ArraySpec(
        "tendon_effort_limit",
        "tendon",
        wp.float32,
        "N",
        "Largest force of the drive",
        grad=True,
        allow_inf=True,
    ),
    ArraySpec(
        "tendon_muscle",
        "tendon",
        wp.float32,
        "",
        "Muscle in place of the drive, whose control input is its activation: the ends of `range` of a "
        "`TendonMuscle`, force [N] (0 for none), lmin, lmax, vmax, fpmax, fvmax, the ends of `length_range` "
        "[m], both `time_constants` [s], smoothing",
        columns=13,
        grad=True,
    ),
    ArraySpec("tendon_act", "tendon", wp.float32, "", "Initial control inputs, see JointMode", grad=True),
    ArraySpec("tendon_key", "tendon", None, "", "Names"),
    ArraySpec(
        "tendon_element_kind",
        "tendon_element",
        wp.int32,
        "",
        "0 joint axis, 1 point of a body, 2 pulley, 3 sphere or cylinder, 4 point on its axis, 5 point on "
        "its side",
    ),
    ArraySpec(
        "tendon_element_axis", "tendon_element", wp.int32, "", "Joint axes, -1 for none", index_of="axis"
    ),
    ArraySpec(
        "tendon_element_body",
        "tendon_element",
        wp.int32,
        "",
        "Bodies of points, -1 for the world",
        index_of="body",
    ),
    ArraySpec("tendon_element_point", "tendon_element", wp.vec3, "m", "Points in the body frames", grad=True),
    ArraySpec(
        "tendon_element_factor",
        "tendon_element",
        wp.float32,
        "",
        "Factor of a coordinate, divisor of a pulley, or radius [m]",
    ),
    ArraySpec(
        "tendon_equality_tendons",
        "tendon_equality",
        wp.int32,
        "",
        "Tendons, the second -1 for none",
        columns=2,
        index_of="tendon",
    ),
    ArraySpec(
        "tendon_equality_lengths", "tendon_equality", wp.float32, "m", "Lengths that count as zero", columns=2
    ),
    ArraySpec(
        "tendon_equality_coefficients",
        "tendon_equality",
        wp.float32,
        "",
        "Coefficients of the first length as a polynomial of the second",
        columns=5,
    ),
    ArraySpec(
        "tendon_equality_enabled",
        "tendon_equality",
        wp.int32,
        "",
        "Whether it acts; may change between steps",
    ),
    ArraySpec(
        "tendon_equality_solref", "tendon_equality", wp.float32, "", "As `joint_limit_solref`", columns=2
    ),
    ArraySpec(
        "tendon_equality_solimp", "tendon_equality", wp.float32, "", "As `joint_limit_solimp`", columns=5
    ),
    ArraySpec("tendon_equality_key", "tendon_equality", None, "", "Names"),
]

_MUSCLE = [
    ArraySpec(
        "muscle_start",
        "muscle",
        wp.int32,
        "",
        "First point of each muscle",
        index_of="muscle_point",
        host=True,
    ),
    ArraySpec("muscle_params", "muscle", wp.float32, "", "(f0, lm, lt, lmax, pen)", columns=5, grad=True),
    ArraySpec("muscle_activations", "muscle", wp.float32, "", "Activations", grad=True),
    ArraySpec("muscle_bodies", "muscle_point", wp.int32, "", "Bodies of the waypoints", index_of="body"),
    ArraySpec("muscle_points", "muscle_point", wp.vec3, "m", "Waypoints in the body frames", grad=True),
]

_ACTUATOR = [
    ArraySpec("actuator_target", "actuator", wp.int32, "", "What they act on, see `ActuatorTarget`"),
    ArraySpec("actuator_law", "actuator", None, "", "Their forces, `ActuatorLaw`"),
    ArraySpec("actuator_joint", "actuator", wp.int32, "", "Joints, -1 for none", index_of="joint"),
    ArraySpec("actuator_axis", "actuator", wp.int32, "", "Joint axes, -1 for none", index_of="axis"),
    ArraySpec("actuator_tendon", "actuator", wp.int32, "", "Tendons, -1 for none", index_of="tendon"),
    ArraySpec(
        "actuator_bodies",
        "actuator",
        wp.int32,
        "",
        "Bodies of the frame and of the frame of reference, -1 for the world",
        columns=2,
        index_of="body",
    ),
    ArraySpec("actuator_frame", "actuator", wp.transform, "m", "Frames in the first bodies"),
    ArraySpec("actuator_has_reference", "actuator", wp.int32, "", "Whether there is a frame of reference"),
    ArraySpec("actuator_reference", "actuator", wp.transform, "m", "Frames of reference in the second ones"),
    ArraySpec("actuator_ctrl", "actuator", wp.float32, "", "Initial control inputs", grad=True),
    ArraySpec("actuator_act", "actuator", wp.float32, "", "Initial activations", grad=True),
    ArraySpec("actuator_key", "actuator", None, "", "Names"),
]

MODEL_ARRAYS: tuple[ArraySpec, ...] = (
    *_PARTICLE,
    *_BODY,
    *_JOINT,
    *_CONSTRAINT,
    *_SHAPE,
    *_CONTACT_PAIR,
    *_TENDON,
    *_MUSCLE,
    *_ACTUATOR,
)
"""Every list of the builder that has one entry per element."""

STATE_ARRAYS: tuple[ArraySpec, ...] = (
    ArraySpec("particle_q", "particle", wp.vec3, "m", "Positions", grad=True),
    ArraySpec("particle_qd", "particle", wp.vec3, "m/s", "Velocities", grad=True),
    ArraySpec("particle_f", "particle", wp.vec3, "N", "External forces", grad=True),
    ArraySpec("body_q", "body", wp.transform, "m", "Poses of the body frames in the world", grad=True),
    ArraySpec(
        "body_qd",
        "body",
        wp.spatial_vector,
        "rad/s, m/s",
        "(ω, v of the centre of mass), world axes",
        grad=True,
    ),
    ArraySpec(
        "body_f", "body", wp.spatial_vector, "N m, N", "(τ, f) at the centre of mass, world axes", grad=True
    ),
    ArraySpec("joint_q", "coord", wp.float32, "rad or m", "Joint positions", grad=True),
    ArraySpec("joint_qd", "dof", wp.float32, "rad/s or m/s", "Joint velocities", grad=True),
    ArraySpec("actuator_act", "actuator", wp.float32, "", "Activations of actuators", grad=True),
)

CONTROL_ARRAYS: tuple[ArraySpec, ...] = (
    ArraySpec("joint_act", "axis", wp.float32, "", "Control inputs, see JointMode", grad=True),
    ArraySpec("joint_f", "dof", wp.float32, "N m or N", "Generalised forces added to the drives", grad=True),
    ArraySpec("tri_activations", "tri", wp.float32, "", "Triangle activations", grad=True),
    ArraySpec("tet_activations", "tet", wp.float32, "", "Tetrahedron activations", grad=True),
    ArraySpec("muscle_activations", "muscle", wp.float32, "", "Muscle activations", grad=True),
    ArraySpec("tendon_act", "tendon", wp.float32, "", "Control inputs of tendons, see JointMode", grad=True),
    ArraySpec("actuator_ctrl", "actuator", wp.float32, "", "Control inputs of actuators", grad=True),
)

SOFT_CONTACT_ARRAYS: tuple[ArraySpec, ...] = (
    ArraySpec("soft_contact_particle", "soft_contact", wp.int32, "", "Particles"),
    ArraySpec("soft_contact_shape", "soft_contact", wp.int32, "", "Shapes"),
    ArraySpec("soft_contact_body_pos", "soft_contact", wp.vec3, "m", "Points in the body frames", grad=True),
    ArraySpec(
        "soft_contact_body_vel",
        "soft_contact",
        wp.vec3,
        "m/s",
        "Surface velocities in the body frames",
        grad=True,
    ),
    ArraySpec("soft_contact_normal", "soft_contact", wp.vec3, "", "World normals", grad=True),
)

RIGID_CONTACT_NAMES: tuple[str, ...] = (
    "rigid_contact_count",
    "rigid_contact_point0",
    "rigid_contact_point1",
    "rigid_contact_offset0",
    "rigid_contact_offset1",
    "rigid_contact_normal",
    "rigid_contact_thickness",
    "rigid_contact_shape0",
    "rigid_contact_shape1",
    "rigid_contact_tids",
    "rigid_contact_pairwise_counter",
    "rigid_contact_broad_shape0",
    "rigid_contact_broad_shape1",
    "rigid_contact_point_id",
    "rigid_contact_point_limit",
)
"""Arrays of the model's default contact buffer, see `newtonsim.collision.contacts`."""

COUNTS: dict[str, str] = {
    "particle": "particle_count",
    "spring": "spring_count",
    "tri": "tri_count",
    "edge": "edge_count",
    "tet": "tet_count",
    "body": "body_count",
    "joint": "joint_count",
    "axis": "joint_axis_count",
    "coord": "joint_coord_count",
    "dof": "joint_dof_count",
    "constraint": "constraint_count",
    "constraint_axis": "constraint_axis_count",
    "shape": "shape_count",
    "contact_pair": "contact_pair_count",
    "tendon": "tendon_count",
    "tendon_element": "tendon_element_count",
    "tendon_equality": "tendon_equality_count",
    "muscle": "muscle_count",
    "muscle_point": "muscle_point_count",
    "actuator": "actuator_count",
}
"""Attribute of Model with the number of elements of each kind."""

COUNT_LISTS: dict[str, str] = {
    "particle": "particle_mass",
    "spring": "spring_rest_length",
    "tri": "tri_areas",
    "edge": "edge_rest_angle",
    "tet": "tet_activations",
    "body": "body_mass",
    "joint": "joint_type",
    "axis": "joint_axis_mode",
    "coord": "joint_q",
    "dof": "joint_qd",
    "constraint": "constraint_type",
    "constraint_axis": "constraint_axis",
    "shape": "shape_geo_type",
    "contact_pair": "contact_pair_shapes",
    "tendon": "tendon_mode",
    "tendon_element": "tendon_element_kind",
    "tendon_equality": "tendon_equality_enabled",
    "muscle": "muscle_params",
    "muscle_point": "muscle_bodies",
    "actuator": "actuator_target",
}
"""List of ModelBuilder whose length is the number of elements of each kind."""

SPECS: dict[str, ArraySpec] = {spec.name: spec for spec in MODEL_ARRAYS}
