"""Centroidal momentum of articulations, and the matrix that maps joint velocities to it.

Orin, Goswami, Lee, "Centroidal dynamics of a humanoid robot", 2013: column d of the matrix is the momentum of
all bodies behind dof d when it moves with unit velocity, about the centre of mass of the articulation.

Stage: queries of dynamics between steps
Called by: newtonsim/dynamics/stages.py
Reads: CompositeView, KinematicsView, TreeView, center, dof_articulation, dof_local, matrix, qd, qd_start
Writes: matrix, momentum
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.crba import CompositeView, composite_momentum
from newtonsim.kernels.views.model import KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def fill_momentum_matrix(
    first: int,
    tree: TreeView,
    kin: KinematicsView,
    composite: CompositeView,
    center: wp.array(dtype=wp.vec3),
    dof_articulation: wp.array(dtype=int),
    dof_local: wp.array(dtype=int),
    matrix: wp.array3d(dtype=float),
):
    """One thread per dof: its column, rows (angular about the centre of mass, linear) in world axes."""
    d = first + wp.tid()
    a = dof_articulation[d]
    b = tree.dof_body[d]
    momentum = composite_momentum(composite, b, kin.S[d])
    linear = wp.spatial_bottom(momentum)
    arm = kin.origin[tree.body_tree[b]] - center[a]
    angular = wp.spatial_top(momentum) + wp.cross(arm, linear)
    for i in range(3):
        matrix[a, i, dof_local[d]] = angular[i]
        matrix[a, 3 + i, dof_local[d]] = linear[i]


@wp.kernel
def sum_momentum(
    first: int,
    qd_start: wp.array(dtype=int),
    qd: wp.array(dtype=float),
    matrix: wp.array3d(dtype=float),
    momentum: wp.array(dtype=wp.spatial_vector),
):
    """One thread per articulation: the matrix times its joint velocities."""
    a = first + wp.tid()
    total = wp.spatial_vector()
    start = qd_start[a]
    for k in range(qd_start[a + 1] - start):
        for i in range(6):
            total[i] += matrix[a, i, k] * qd[start + k]
    momentum[a] = total
