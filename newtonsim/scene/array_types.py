"""The arrays of Model, State and Control and the lists of ModelBuilder as editors and type checkers see them.

What they hold is told by the tables of `newtonsim.scene.arrays`, which create them and which no type checker
reads; a test compares both. An array is declared as one although it is None in a model without such elements:
a program knows what its model has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import warp as wp

from newtonsim.scene.columns import Column

if TYPE_CHECKING:
    from newtonsim.kernels.views.structs import ModelShapeGeometry, ModelShapeMaterials

    class ColumnAttribute:
        """A list of the builder: reads as a Column, and whatever is assigned becomes one."""

        def __get__(self, builder: object, owner: type | None = None) -> Column: ...
        def __set__(self, builder: object, items: Iterable[Any]) -> None: ...


class StateArrays:
    """The arrays of a State, see `STATE_ARRAYS`."""

    particle_q: wp.array[wp.vec3]
    particle_qd: wp.array[wp.vec3]
    particle_f: wp.array[wp.vec3]
    body_q: wp.array[wp.transform]
    body_qd: wp.array[wp.spatial_vectorf]
    body_f: wp.array[wp.spatial_vectorf]
    joint_q: wp.array[wp.float32]
    joint_qd: wp.array[wp.float32]


class ControlArrays:
    """The arrays of a Control, see `CONTROL_ARRAYS`."""

    joint_act: wp.array[wp.float32]
    joint_f: wp.array[wp.float32]
    tri_activations: wp.array[wp.float32]
    tet_activations: wp.array[wp.float32]
    muscle_activations: wp.array[wp.float32]


class ModelArrays:
    """The arrays, lists and counts of a Model, see `MODEL_ARRAYS`, `COUNTS` and `SOFT_CONTACT_ARRAYS`."""

    particle_count: int
    spring_count: int
    tri_count: int
    edge_count: int
    tet_count: int
    body_count: int
    joint_count: int
    joint_axis_count: int
    joint_coord_count: int
    joint_dof_count: int
    constraint_count: int
    constraint_axis_count: int
    shape_count: int
    muscle_count: int
    muscle_point_count: int
    particle_q: wp.array[wp.vec3]
    particle_qd: wp.array[wp.vec3]
    particle_mass: wp.array[wp.float32]
    particle_radius: wp.array[wp.float32]
    particle_flags: wp.array[wp.uint32]
    particle_ke: wp.array[wp.float32]
    particle_kd: wp.array[wp.float32]
    particle_kf: wp.array[wp.float32]
    particle_mu: wp.array[wp.float32]
    particle_cohesion: wp.array[wp.float32]
    particle_adhesion: wp.array[wp.float32]
    particle_world: wp.array[wp.int32]
    spring_indices: wp.array[wp.int32]
    spring_rest_length: wp.array[wp.float32]
    spring_stiffness: wp.array[wp.float32]
    spring_damping: wp.array[wp.float32]
    spring_control: wp.array[wp.float32]
    tri_indices: wp.array[wp.int32]
    tri_poses: wp.array[wp.mat22]
    tri_activations: wp.array[wp.float32]
    tri_materials: wp.array[wp.float32]
    tri_areas: wp.array[wp.float32]
    edge_indices: wp.array[wp.int32]
    edge_rest_angle: wp.array[wp.float32]
    edge_rest_length: wp.array[wp.float32]
    edge_bending_properties: wp.array[wp.float32]
    tet_indices: wp.array[wp.int32]
    tet_poses: wp.array[wp.mat33]
    tet_activations: wp.array[wp.float32]
    tet_materials: wp.array[wp.float32]
    body_q: wp.array[wp.transform]
    body_qd: wp.array[wp.spatial_vectorf]
    body_com: wp.array[wp.vec3]
    body_inertia: wp.array[wp.mat33]
    body_mass: wp.array[wp.float32]
    body_world: wp.array[wp.int32]
    body_key: Column
    joint_type: wp.array[wp.int32]
    joint_parent: wp.array[wp.int32]
    joint_child: wp.array[wp.int32]
    joint_X_p: wp.array[wp.transform]
    joint_X_c: wp.array[wp.transform]
    joint_axis_start: wp.array[wp.int32]
    joint_axis_dim: wp.array[wp.int32]
    joint_linear_compliance: wp.array[wp.float32]
    joint_angular_compliance: wp.array[wp.float32]
    joint_enabled: wp.array[wp.int32]
    joint_twist_lower: wp.array[wp.float32]
    joint_twist_upper: wp.array[wp.float32]
    joint_swing_limit: wp.array[wp.float32]
    joint_distance_lower: wp.array[wp.float32]
    joint_distance_upper: wp.array[wp.float32]
    joint_world: wp.array[wp.int32]
    joint_key: Column
    joint_q: wp.array[wp.float32]
    joint_qd: wp.array[wp.float32]
    joint_armature: wp.array[wp.float32]
    joint_damping: wp.array[wp.float32]
    joint_friction: wp.array[wp.float32]
    joint_axis: wp.array[wp.vec3]
    joint_act: wp.array[wp.float32]
    joint_axis_mode: wp.array[wp.int32]
    joint_target_ke: wp.array[wp.float32]
    joint_target_kd: wp.array[wp.float32]
    joint_limit_lower: wp.array[wp.float32]
    joint_limit_upper: wp.array[wp.float32]
    joint_limit_ke: wp.array[wp.float32]
    joint_limit_kd: wp.array[wp.float32]
    joint_stiffness: wp.array[wp.float32]
    joint_spring_ref: wp.array[wp.float32]
    joint_effort_limit: wp.array[wp.float32]
    joint_velocity_limit: wp.array[wp.float32]
    constraint_type: wp.array[wp.int32]
    constraint_parent: wp.array[wp.int32]
    constraint_child: wp.array[wp.int32]
    constraint_X_p: wp.array[wp.transform]
    constraint_X_c: wp.array[wp.transform]
    constraint_axis_start: wp.array[wp.int32]
    constraint_axis_dim: wp.array[wp.int32]
    constraint_coupled_axes: wp.array[wp.int32]
    constraint_coefficients: wp.array[wp.float32]
    constraint_distance_lower: wp.array[wp.float32]
    constraint_distance_upper: wp.array[wp.float32]
    constraint_enabled: wp.array[wp.int32]
    constraint_max_force: wp.array[wp.float32]
    constraint_recovery_time: wp.array[wp.float32]
    constraint_linear_compliance: wp.array[wp.float32]
    constraint_angular_compliance: wp.array[wp.float32]
    constraint_key: Column
    constraint_axis: wp.array[wp.vec3]
    constraint_limit_lower: wp.array[wp.float32]
    constraint_limit_upper: wp.array[wp.float32]
    shape_transform: wp.array[wp.transform]
    shape_body: wp.array[wp.int32]
    shape_flags: wp.array[wp.uint32]
    shape_mu_torsion: wp.array[wp.float32]
    shape_mu_rolling: wp.array[wp.float32]
    shape_world: wp.array[wp.int32]
    shape_convex: wp.array[wp.int32]
    shape_key: Column
    shape_color: Column
    shape_texture: Column
    shape_collision_group: Column
    shape_geo_src: Column
    muscle_params: wp.array[wp.float32]
    muscle_activations: wp.array[wp.float32]
    muscle_bodies: wp.array[wp.int32]
    muscle_points: wp.array[wp.vec3]
    soft_contact_particle: wp.array[wp.int32]
    soft_contact_shape: wp.array[wp.int32]
    soft_contact_body_pos: wp.array[wp.vec3]
    soft_contact_body_vel: wp.array[wp.vec3]
    soft_contact_normal: wp.array[wp.vec3]
    rigid_contact_count: wp.array
    rigid_contact_point0: wp.array
    rigid_contact_point1: wp.array
    rigid_contact_offset0: wp.array
    rigid_contact_offset1: wp.array
    rigid_contact_normal: wp.array
    rigid_contact_thickness: wp.array
    rigid_contact_shape0: wp.array
    rigid_contact_shape1: wp.array
    rigid_contact_tids: wp.array
    rigid_contact_pairwise_counter: wp.array
    rigid_contact_broad_shape0: wp.array
    rigid_contact_broad_shape1: wp.array
    rigid_contact_point_id: wp.array
    rigid_contact_point_limit: wp.array


class DerivedArrays:
    """What a Model works out from its arrays; None until then, and without such elements."""

    gravity_vec: wp.array[wp.vec3]
    particle_inv_mass: wp.array[wp.float32]
    particle_colors: wp.array[wp.int32]
    body_inv_mass: wp.array[wp.float32]
    body_inv_inertia: wp.array[wp.mat33]
    joint_q_start: wp.array[wp.int32]
    joint_qd_start: wp.array[wp.int32]
    joint_ancestor: wp.array[wp.int32]
    articulation_start: wp.array[wp.int32]
    muscle_start: wp.array[wp.int32]
    shape_materials: ModelShapeMaterials
    shape_geo: ModelShapeGeometry
    shape_collision_radius: wp.array[wp.float32]
    shape_contact_pairs: wp.array[wp.int32]
    shape_ground_contact_pairs: wp.array[wp.int32]
    ground_plane: wp.array[wp.float32]
    soft_contact_count: wp.array[wp.int32]
    soft_contact_tids: wp.array[wp.int32]


class BuilderColumns:
    """The lists of a ModelBuilder, see `MODEL_ARRAYS`."""

    particle_q: ColumnAttribute
    particle_qd: ColumnAttribute
    particle_mass: ColumnAttribute
    particle_radius: ColumnAttribute
    particle_flags: ColumnAttribute
    particle_ke: ColumnAttribute
    particle_kd: ColumnAttribute
    particle_kf: ColumnAttribute
    particle_mu: ColumnAttribute
    particle_cohesion: ColumnAttribute
    particle_adhesion: ColumnAttribute
    particle_world: ColumnAttribute
    spring_indices: ColumnAttribute
    spring_rest_length: ColumnAttribute
    spring_stiffness: ColumnAttribute
    spring_damping: ColumnAttribute
    spring_control: ColumnAttribute
    tri_indices: ColumnAttribute
    tri_poses: ColumnAttribute
    tri_activations: ColumnAttribute
    tri_materials: ColumnAttribute
    tri_areas: ColumnAttribute
    edge_indices: ColumnAttribute
    edge_rest_angle: ColumnAttribute
    edge_rest_length: ColumnAttribute
    edge_bending_properties: ColumnAttribute
    tet_indices: ColumnAttribute
    tet_poses: ColumnAttribute
    tet_activations: ColumnAttribute
    tet_materials: ColumnAttribute
    body_q: ColumnAttribute
    body_qd: ColumnAttribute
    body_com: ColumnAttribute
    body_inertia: ColumnAttribute
    body_mass: ColumnAttribute
    body_world: ColumnAttribute
    body_key: ColumnAttribute
    joint_type: ColumnAttribute
    joint_parent: ColumnAttribute
    joint_child: ColumnAttribute
    joint_X_p: ColumnAttribute
    joint_X_c: ColumnAttribute
    joint_axis_start: ColumnAttribute
    joint_axis_dim: ColumnAttribute
    joint_linear_compliance: ColumnAttribute
    joint_angular_compliance: ColumnAttribute
    joint_enabled: ColumnAttribute
    joint_twist_lower: ColumnAttribute
    joint_twist_upper: ColumnAttribute
    joint_swing_limit: ColumnAttribute
    joint_distance_lower: ColumnAttribute
    joint_distance_upper: ColumnAttribute
    joint_world: ColumnAttribute
    joint_key: ColumnAttribute
    joint_q_start: ColumnAttribute
    joint_qd_start: ColumnAttribute
    joint_collision_filter_parent: ColumnAttribute
    joint_q: ColumnAttribute
    joint_qd: ColumnAttribute
    joint_armature: ColumnAttribute
    joint_damping: ColumnAttribute
    joint_friction: ColumnAttribute
    joint_axis: ColumnAttribute
    joint_act: ColumnAttribute
    joint_axis_mode: ColumnAttribute
    joint_target_ke: ColumnAttribute
    joint_target_kd: ColumnAttribute
    joint_limit_lower: ColumnAttribute
    joint_limit_upper: ColumnAttribute
    joint_limit_ke: ColumnAttribute
    joint_limit_kd: ColumnAttribute
    joint_stiffness: ColumnAttribute
    joint_spring_ref: ColumnAttribute
    joint_effort_limit: ColumnAttribute
    joint_velocity_limit: ColumnAttribute
    constraint_type: ColumnAttribute
    constraint_parent: ColumnAttribute
    constraint_child: ColumnAttribute
    constraint_X_p: ColumnAttribute
    constraint_X_c: ColumnAttribute
    constraint_axis_start: ColumnAttribute
    constraint_axis_dim: ColumnAttribute
    constraint_coupled_axes: ColumnAttribute
    constraint_coefficients: ColumnAttribute
    constraint_distance_lower: ColumnAttribute
    constraint_distance_upper: ColumnAttribute
    constraint_enabled: ColumnAttribute
    constraint_max_force: ColumnAttribute
    constraint_recovery_time: ColumnAttribute
    constraint_linear_compliance: ColumnAttribute
    constraint_angular_compliance: ColumnAttribute
    constraint_key: ColumnAttribute
    constraint_collision_filter: ColumnAttribute
    constraint_axis: ColumnAttribute
    constraint_limit_lower: ColumnAttribute
    constraint_limit_upper: ColumnAttribute
    shape_transform: ColumnAttribute
    shape_body: ColumnAttribute
    shape_flags: ColumnAttribute
    shape_mu_torsion: ColumnAttribute
    shape_mu_rolling: ColumnAttribute
    shape_world: ColumnAttribute
    shape_convex: ColumnAttribute
    shape_key: ColumnAttribute
    shape_color: ColumnAttribute
    shape_texture: ColumnAttribute
    shape_collision_group: ColumnAttribute
    shape_geo_src: ColumnAttribute
    shape_geo_type: ColumnAttribute
    shape_geo_scale: ColumnAttribute
    shape_geo_is_solid: ColumnAttribute
    shape_geo_thickness: ColumnAttribute
    shape_material_ke: ColumnAttribute
    shape_material_kd: ColumnAttribute
    shape_material_kf: ColumnAttribute
    shape_material_ka: ColumnAttribute
    shape_material_mu: ColumnAttribute
    shape_material_restitution: ColumnAttribute
    muscle_start: ColumnAttribute
    muscle_params: ColumnAttribute
    muscle_activations: ColumnAttribute
    muscle_bodies: ColumnAttribute
    muscle_points: ColumnAttribute
