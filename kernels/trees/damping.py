"""Damping forces on bodies and joints: explicit, and for joints where this is stable.

Let I be the inertia of a joint if only its two links existed. The explicit force -d q̇ removes the share h d
/ I of the rate in a step. It is unstable for shares above 2; in a long chain of equal links, where neighbours
act on each other, above 1. A servo that holds the joint with more than that force stabilises any share.

Stage: forces at the start of a step
Called by: newtonsim/pybullet_compat/engine/damping_stage.py, newtonsim/runtime/floating_terms.py,
    solvers/featherstone/stages.py
Reads: BodyView, KinematicsView, TreeView, 11 arrays
Writes: acting, body_f, joint_f, target
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import rotate_inertia
from newtonsim.kernels.views.model import BodyView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

MOST = wp.constant(0.75)
"""Largest share of the rate of a joint that explicit damping removes in a step."""
LEAST = wp.constant(1.0e-12)
"""Inertia that prevents a division by zero for two links without any [kg m² or kg]."""


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


@wp.func
def inertia_along(b: int, w: wp.vec3, v: wp.vec3, body: BodyView, kin: KinematicsView) -> float:
    """Inertia of a link that rotates by w while its centre of mass moves by v [kg m² or kg]."""
    turn = wp.transform_get_rotation(kin.body_X[b])
    return wp.dot(w, rotate_inertia(turn, body.inertia[b]) * w) + body.mass[b] * wp.dot(v, v)


@wp.func
def pair_inertia(d: int, tree: TreeView, body: BodyView, kin: KinematicsView) -> float:
    """Inertia of dof d from the link that it moves and the one that bears it [kg m² or kg]."""
    b = tree.dof_body[d]
    w = wp.spatial_top(kin.S[d])
    v = wp.spatial_bottom(kin.S[d])
    moved = inertia_along(b, w, v + wp.cross(w, wp.transform_point(kin.body_X[b], body.com[b])), body, kin)
    depth = tree.dof_depth[d]
    if depth == 0:
        return moved
    # the bearing link recoils about its own centre
    bearing = tree.dof_body[tree.row_dof[tree.dof_row[d] + depth - 1]]
    if wp.length_sq(w) > 0.0:
        v = wp.vec3()
    borne = inertia_along(bearing, w, v, body, kin)
    return moved * borne / wp.max(moved + borne, LEAST)


@wp.kernel
def damp_axes(
    first: int,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    mode: wp.array(dtype=int),
    holding: int,
    max_force: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    dt: float,
    acting: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
):
    """One thread per dof: add -d q̇ now, or leave all damping to the end of the step.

    `holding` is the mode of servos that hold their joint at a rate.
    """
    i = first + wp.tid()
    d = damping[i]
    acting[i] = d
    if d <= 0.0 or tree.dof_axis[i] < 0:
        return
    held = mode[i] == holding and max_force[i] > d * wp.abs(qd[i])
    if held or dt * d <= MOST * pair_inertia(i, tree, body, kin):
        joint_f[i] = joint_f[i] - d * qd[i]
        acting[i] = 0.0
