"""Explicit damping forces on bodies and joints in a step.

Stage: forces at the start of a step
Called by: newtonsim/runtime/floating_terms.py, solvers/featherstone/stages.py
Reads: 9 arrays
Writes: body_f, joint_f, target
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import rotate_inertia

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def damp_bodies(
    first: int,
    mass: wp.array(dtype=float),
    inertia: wp.array(dtype=wp.mat33),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    linear: wp.array(dtype=float),
    angular: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: add -m v d (1 + |v|) at the centre of mass, and -I ω d (1 + |ω|)."""
    b = first + wp.tid()
    w = wp.spatial_top(body_qd[b])
    v = wp.spatial_bottom(body_qd[b])
    turning = angular[b] * (1.0 + wp.length(w))
    moving = linear[b] * (1.0 + wp.length(v)) * mass[b]
    torque = rotate_inertia(wp.transform_get_rotation(body_q[b]), inertia[b]) * w
    body_f[b] = body_f[b] - wp.spatial_vector(turning * torque, moving * v)


@wp.kernel
def damp_joints(
    first: int, damping: wp.array(dtype=float), qd: wp.array(dtype=float), joint_f: wp.array(dtype=float)
):
    """One thread per dof: add -d q̇."""
    d = first + wp.tid()
    joint_f[d] = joint_f[d] - damping[d] * qd[d]


@wp.kernel
def copy_forces(first: int, source: wp.array(dtype=float), target: wp.array(dtype=float)):
    """One thread per dof: target = source."""
    d = first + wp.tid()
    target[d] = source[d]
