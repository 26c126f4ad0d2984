"""Structs of arrays that describe one articulated body in several configurations, in float64.

Lengths: L links, the base being link 0; D degrees of freedom and Q coordinates of the joints;
C configurations; E most effectors. The base has no coordinates here: its orientation is given with each
configuration, and all quantities are about its centre of mass, in the axes of that orientation.

Stage: kinematics and dynamics that a PyBullet client asks for
Used by: newtonsim/pybullet_compat/kinematics/chains.py, newtonsim/pybullet_compat/kinematics/reach.py,
    kernels/trees/exact/dynamics.py, kernels/trees/exact/links.py, kernels/trees/exact/reach.py
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})

REVOLUTE = wp.constant(0)
PRISMATIC = wp.constant(1)
SPHERICAL = wp.constant(2)
PLANAR = wp.constant(3)


@wp.struct
class ChainView:
    """The body: topology, frames at rest, masses.

    The link frame of the base is its inertial frame; those of the others are their joint frames.
    """

    order: wp.array(dtype=int)  # (L - 1) links without the base, parents first
    parent: wp.array(dtype=int)  # (L)
    type: wp.array(dtype=int)  # (L)
    q_start: wp.array(dtype=int)  # (L)
    dof_start: wp.array(dtype=int)  # (L)
    leaf: wp.array(dtype=int)  # (L) last dof that moves the link, or -1
    dof_parent: wp.array(dtype=int)  # (D) next dof on the way to the base, or -1
    path_start: wp.array(dtype=int)  # (L + 1)
    path: wp.array(dtype=int)  # links from the base (exclusive) to each link (inclusive)
    joint_pose: wp.array(dtype=wp.transformd)  # (L) in the link frame of the parent
    axis: wp.array(dtype=wp.vec3d)  # (L) in the link frame
    second: wp.array(dtype=wp.vec3d)  # (L) first direction of planar joints, in the link frame
    inertial_pose: wp.array(dtype=wp.transformd)  # (L) in the link frame
    mass: wp.array2d(dtype=wp.float64)  # (C, L)
    inertia: wp.array2d(dtype=wp.vec3d)  # (C, L) about the principal axes


@wp.struct
class ChainState:
    """Configurations, and intermediate results for each.

    `angular` and `linear` are the twists of the degrees of freedom: ω, and the velocity of the point at the
    origin. Momenta, accelerations and wrenches of links refer to the origin of their link frames.
    """

    q: wp.array2d(dtype=wp.float64)  # (C, Q)
    base: wp.array(dtype=wp.quatd)  # (C)
    pose: wp.array2d(dtype=wp.transformd)  # (C, L) link frames
    angular: wp.array2d(dtype=wp.vec3d)  # (C, D)
    linear: wp.array2d(dtype=wp.vec3d)  # (C, D)


@wp.struct
class ChainMotion:
    """Velocities and accelerations for inverse dynamics, and its workspace.

    The entries of the base are ω, v of its centre of mass, and their derivatives.
    """

    qd: wp.array2d(dtype=wp.float64)  # (C, 6 + D)
    qdd: wp.array2d(dtype=wp.float64)  # (C, 6 + D)
    gravity: wp.array(dtype=wp.vec3d)  # (C)
    omega: wp.array2d(dtype=wp.vec3d)  # (C, L)
    alpha: wp.array2d(dtype=wp.vec3d)  # (C, L)
    acceleration: wp.array2d(dtype=wp.vec3d)  # (C, L)
    force: wp.array2d(dtype=wp.vec3d)  # (C, L)
    torque: wp.array2d(dtype=wp.vec3d)  # (C, L)
    tau: wp.array2d(dtype=wp.float64)  # (C, 6 + D)


@wp.struct
class CompositeView:
    """Composite bodies: all links behind each link, rigidly joined. All moments refer to the origin."""

    mass: wp.array2d(dtype=wp.float64)  # (C, L)
    moment: wp.array2d(dtype=wp.vec3d)  # (C, L) mass times centre
    inertia: wp.array2d(dtype=wp.mat33d)  # (C, L)
    matrix: wp.array2d(dtype=wp.float64)  # (C, (6 + D)²) joint-space inertia by rows


@wp.struct
class ReachView:
    """Inverse kinematics: targets, method and workspace. The N columns are the dofs on the path.

    Counts are arrays, so that replayed launches read their current values.
    """

    count: wp.array(dtype=int)  # (5) effectors, columns, most iterations, whether orientation, whether rest
    threshold: wp.array(dtype=wp.float64)  # (1)
    effector: wp.array(dtype=int)  # (E) links
    column: wp.array(dtype=int)  # (D) dofs of the columns
    place: wp.array(dtype=int)  # (D) column of each dof, or -1
    position: wp.array2d(dtype=wp.vec3d)  # (C, E) of the link frames, about the centre of mass of the base
    orientation: wp.array(dtype=wp.quatd)  # (C) of the first effector
    damping: wp.array2d(dtype=wp.float64)  # (C, D)
    lower: wp.array2d(dtype=wp.float64)  # (C, D)
    upper: wp.array2d(dtype=wp.float64)  # (C, D)
    range: wp.array2d(dtype=wp.float64)  # (C, D)
    rest: wp.array2d(dtype=wp.float64)  # (C, D)
    jacobian: wp.array2d(dtype=wp.float64)  # (C, rows * D), packed with N columns
    error: wp.array2d(dtype=wp.float64)  # (C, rows)
    matrix: wp.array2d(dtype=wp.float64)  # (C, max(rows, D)²)
    vectors: wp.array2d(dtype=wp.float64)  # (C, rows²)
    wish: wp.array2d(dtype=wp.float64)  # (C, D) step towards the rest pose
    step: wp.array2d(dtype=wp.float64)  # (C, D)
    by_column: wp.array2d(dtype=wp.float64)  # (C, D) damping, then the step of each column
    iterations: wp.array(dtype=int)  # (C)
