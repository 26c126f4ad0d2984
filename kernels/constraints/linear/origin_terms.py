"""Linearised armature and damping of floating joints, which act on the origin of the body's frame.

`balance` has their part on the diagonal; this adds what they exert in addition, see `trees.floating_terms`.

Stage: linear models of steps, smooth dynamics
Called by: solvers/featherstone/linear_model.py
Reads: BodyView, ColumnsView, DriveView, JointView, KinematicsView, floating, qd, qd_end, qdd
Writes: columns
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import load_vec3, world_axis
from newtonsim.kernels.constraints.linear.balance import ColumnsView
from newtonsim.kernels.trees.floating_terms import arm, force_by_spin, origin_acceleration, origin_force
from newtonsim.kernels.views.model import BodyView, DriveView, JointView, KinematicsView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def subtract_column(
    d: int,
    c: int,
    torque: wp.vec3,
    force: wp.vec3,
    view: ColumnsView,
    columns: wp.array(dtype=float),
):
    """Subtract from column c of the rows of a floating joint, the first of which is d."""
    for i in range(3):
        angular = (d + i) * view.width + c
        linear = (d + 3 + i) * view.width + c
        columns[angular] = columns[angular] - torque[i]
        columns[linear] = columns[linear] - force[i]


@wp.kernel
def linearize_forces(
    first: int,
    floating: wp.array(dtype=int),
    view: ColumnsView,
    joint: JointView,
    body: BodyView,
    drive: DriveView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qd_end: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    dt: float,
    columns: wp.array(dtype=float),
):
    """One thread per tree: add to the right-hand side of the balance of its floating joint.

    The acceleration of the origin is taken at the velocity `qd`, and damping at `qd_end`.
    """
    j = floating[first + wp.tid()]
    if j < 0:
        return
    d = joint.qd_start[j]
    own = d - (d / view.dofs) * view.dofs
    r = arm(joint.child[j], body.com, kin)
    a = load_vec3(drive.armature, d + 3)
    c = load_vec3(drive.damping, d + 3)
    spin = load_vec3(qd_end, d)
    force = origin_force(r, d, drive.armature, qd, qdd)
    force += wp.cw_mul(c, load_vec3(qd_end, d + 3) + wp.cross(r, spin))
    for k in range(3):
        e = world_axis(k)
        turned = wp.cross(e, r)
        by_turn = wp.cw_mul(a, origin_acceleration(turned, load_vec3(qd, d), load_vec3(qdd, d)))
        by_turn += wp.cw_mul(c, wp.cross(turned, spin))
        torque_by_turn = wp.cross(by_turn, r) + wp.cross(force, turned)
        subtract_column(d, own + k, dt * torque_by_turn, dt * by_turn, view, columns)
        by_spin = force_by_spin(e, r, a, load_vec3(qd, d)) + wp.cw_mul(c, wp.cross(r, e))
        by_speed = wp.cross(wp.cw_mul(c, e), r)
        at = view.dofs + own + k
        subtract_column(d, at, dt * wp.cross(by_spin, r), dt * by_spin, view, columns)
        subtract_column(d, at + 3, dt * by_speed, wp.vec3(0.0, 0.0, 0.0), view, columns)
