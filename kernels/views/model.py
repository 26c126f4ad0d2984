"""Structs of arrays that kernels take instead of long argument lists.

Lengths: T trees, J joints, A joint axes, D degrees of freedom, B bodies, C coordinates,
N non-zero entries of the joint-space inertia (the sum of the depths of all degrees of freedom).

Stage: all
Used by: newtonsim/dynamics/tendon_paths.py, newtonsim/runtime/, newtonsim/scene/, solvers/,
    solvers/featherstone/, kernels/actuators/operational_space.py, kernels/algebra/,
    kernels/constraints/adjoint/, kernels/constraints/, kernels/constraints/linear/,
    kernels/constraints/solve/, kernels/envs/sensors.py, kernels/maximal/adjoint/substep.py,
    kernels/maximal/, kernels/mujoco/state.py, kernels/optimize/, kernels/penalty/,
    kernels/queries/joint_sensors.py, kernels/steps/fields.py, kernels/tendons/, kernels/trees/adjoint/,
    kernels/trees/
"""

import newtonsim.kernels.lazy_warp as wp

JOINT_BALL = wp.constant(2)
JOINT_FIXED = wp.constant(3)
JOINT_FREE = wp.constant(4)
JOINT_DISTANCE = wp.constant(7)

MODE_FORCE = wp.constant(0)
MODE_POSITION = wp.constant(1)
MODE_VELOCITY = wp.constant(2)


@wp.struct
class TreeView:
    """Topology of the kinematic trees; integers only.

    The row of degree of freedom d lists d's ancestors from the root down to d itself:
    `row_dof[dof_row[d] + k]`, k = 0 .. dof_depth[d]. The joint-space inertia uses the same layout.
    """

    joint_start: wp.array(dtype=int)  # (T + 1)
    joint: wp.array(dtype=int)  # (J) joint indices, parents before children
    dof_start: wp.array(dtype=int)  # (T + 1)
    dof: wp.array(dtype=int)  # (D) dof indices, parents before children
    world: wp.array(dtype=int)  # (T)
    dof_depth: wp.array(dtype=int)  # (D) number of ancestors
    dof_row: wp.array(dtype=int)  # (D)
    row_dof: wp.array(dtype=int)  # (N)
    dof_body: wp.array(dtype=int)  # (D) body that the dof moves
    dof_axis: wp.array(dtype=int)  # (D) joint axis, or -1
    dof_coord: wp.array(dtype=int)  # (D) coordinate of an axis dof, or -1
    dof_world: wp.array(dtype=int)  # (D)
    body_tree: wp.array(dtype=int)  # (B) or -1
    body_leaf: wp.array(dtype=int)  # (B) last dof that moves the body, or -1


@wp.struct
class LevelView:
    """Levels of the trees, for parallel work: nodes with the same number of ancestors.

    Level n, of all G levels of joints of all trees, occupies `joint` from `joint_start[n]` to `joint_start[n
    + 1]`; likewise the F levels of dofs. Joints of a level with the same parent body are a
    family: in passes towards the root, one lane handles a whole family, the last joint first, so that no
        other lane adds to that body. For a team of one lane, a tree is one level and one family, parents
        before children.
    """

    first: wp.array(dtype=int)  # (T + 1) first level of joints of each tree
    joint_start: wp.array(dtype=int)  # (G + 1)
    joint: wp.array(dtype=int)  # (J)
    dof_first: wp.array(dtype=int)  # (T + 1) first level of dofs of each tree
    dof_start: wp.array(dtype=int)  # (F + 1)
    dof: wp.array(dtype=int)  # (D)
    family: wp.array(dtype=int)  # (G + 1) first family of each level of joints
    family_start: wp.array(dtype=int)  # where each family begins in `joint`


@wp.struct
class JointView:
    """Joint definitions of a Model."""

    type: wp.array(dtype=int)  # (J)
    parent: wp.array(dtype=int)  # (J)
    child: wp.array(dtype=int)  # (J)
    q_start: wp.array(dtype=int)  # (J + 1)
    qd_start: wp.array(dtype=int)  # (J + 1)
    axis_start: wp.array(dtype=int)  # (J)
    axis_dim: wp.array2d(dtype=int)  # (J, 2)
    X_p: wp.array(dtype=wp.transform)  # (J)
    X_c: wp.array(dtype=wp.transform)  # (J)
    axis: wp.array(dtype=wp.vec3)  # (A)


@wp.struct
class BodyView:
    """Inertial parameters of a Model's bodies."""

    mass: wp.array(dtype=float)  # (B) [kg]
    com: wp.array(dtype=wp.vec3)  # (B) [m] body frame
    inertia: wp.array(dtype=wp.mat33)  # (B) [kg m²] about the COM, body axes


@wp.struct
class DriveView:
    """Sources of generalised forces at joints, besides the bias force."""

    mode: wp.array(dtype=int)  # (A)
    target_ke: wp.array(dtype=float)  # (A)
    target_kd: wp.array(dtype=float)  # (A)
    stiffness: wp.array(dtype=float)  # (A)
    spring_ref: wp.array(dtype=float)  # (A)
    effort_limit: wp.array(dtype=float)  # (A) largest effort
    effort_lower: wp.array(dtype=float)  # (A) least effort; -inf: minus the largest
    armature: wp.array(dtype=float)  # (D)
    damping: wp.array(dtype=float)  # (D)


@wp.struct
class KinematicsView:
    """Motion of one evaluation, all about the reference point `origin` of each tree, world axes."""

    origin: wp.array(dtype=wp.vec3)  # (T) [m] world position of the reference point
    dof_X: wp.array(dtype=wp.transform)  # (D) frame behind the dof, relative to origin
    S: wp.array(dtype=wp.spatial_vector)  # (D) motion subspace
    body_X: wp.array(dtype=wp.transform)  # (B) body frame, relative to origin
    dof_V: wp.array(dtype=wp.spatial_vector)  # (D) spatial velocity behind the dof
    body_V: wp.array(dtype=wp.spatial_vector)  # (B)
    body_com: wp.array(dtype=wp.vec3)  # (B) [m] centre of mass, relative to origin
    body_I: wp.array(dtype=wp.mat33)  # (B) [kg m²] rotational inertia about it


@wp.struct
class ForceView:
    """Accelerations and forces of one evaluation of inverse dynamics, all about `KinematicsView.origin`."""

    dof_A: wp.array(dtype=wp.spatial_vector)  # (D) spatial acceleration behind the dof, less gravity
    body_A: wp.array(dtype=wp.spatial_vector)  # (B)
    body_F: wp.array(dtype=wp.spatial_vector)  # (B) wrench that moves the body and all bodies behind it
    tau: wp.array(dtype=float)  # (D) generalised force
