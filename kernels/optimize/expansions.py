"""Slopes and Gauss-Newton curvatures of the ready costs, in tangent coordinates of the state.

A cost of half the weighted squares of residuals r has the slope Jᵀ W r and the curvature Jᵀ W J, which omits
that of the residuals themselves and is therefore never negative.

Stage: optimisation, quadratic models of costs
Called by: newtonsim/optimize/costs.py, newtonsim/optimize/points.py
Reads: CostView, JointView, 10 arrays
Writes: ExpansionView, rows
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.optimize.costs import row_of
from newtonsim.kernels.optimize.tangent import (
    ball_difference,
    floating_difference,
    is_floating,
    turn_between,
    turn_slope,
)
from newtonsim.kernels.optimize.views import CostView, ExpansionView, stage_of, stage_weight
from newtonsim.kernels.views.model import JOINT_BALL, JointView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def clear_expansion(first: int, expansion: ExpansionView):
    """One thread per world: clear its quadratic model."""
    w = first + wp.tid()
    for i in range(expansion.slope.shape[1]):
        expansion.slope[w, i] = 0.0
        for k in range(expansion.slope.shape[1]):
            expansion.curvature[w, i, k] = 0.0
    for i in range(expansion.control_slope.shape[1]):
        expansion.control_slope[w, i] = 0.0
        expansion.control_curvature[w, i] = 0.0


@wp.func
def add_single(expansion: ExpansionView, w: int, i: int, weight: float, residual: float):
    """Add a residual that is coordinate i of the state itself, less a constant."""
    expansion.slope[w, i] = expansion.slope[w, i] + weight * residual
    expansion.curvature[w, i, i] = expansion.curvature[w, i, i] + weight


@wp.func
def add_turn(expansion: ExpansionView, w: int, i: int, weights: wp.vec3, turn: wp.vec3):
    """Add a rotation vector as residuals, moved by the coordinates from i on."""
    J = turn_slope(turn)
    weighted = wp.diag(weights) * J
    slope = wp.transpose(weighted) * turn
    curvature = wp.transpose(J) * weighted
    for k in range(3):
        expansion.slope[w, i + k] = expansion.slope[w, i + k] + slope[k]
        for n in range(3):
            expansion.curvature[w, i + k, i + n] = expansion.curvature[w, i + k, i + n] + curvature[k, n]


@wp.kernel
def expand_joint_cost(
    first: int,
    view: CostView,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    reference_q: wp.array2d(dtype=float),
    reference_qd: wp.array2d(dtype=float),
    position: wp.array2d(dtype=float),
    velocity: wp.array2d(dtype=float),
    expansion: ExpansionView,
):
    """One thread per world: the quadratic model of `add_joint_cost`."""
    w = first + wp.tid()
    stage = stage_of(view, w)
    q = reference_q[row_of(stage, reference_q.shape[0])]
    qd = reference_qd[row_of(stage, reference_qd.shape[0])]
    for j in range(w * view.joints, (w + 1) * view.joints):
        i = joint.q_start[j]
        d = joint.qd_start[j]
        own = d - w * view.dofs
        i_reference = i - w * view.coords
        if is_floating(joint.type[j]):
            e = floating_difference(j, joint, body_com, view.joint_q, q, i_reference)
            weights = wp.vec3(
                stage_weight(view, w, position[0, own], position[1, own]),
                stage_weight(view, w, position[0, own + 1], position[1, own + 1]),
                stage_weight(view, w, position[0, own + 2], position[1, own + 2]),
            )
            add_turn(expansion, w, own, weights, wp.spatial_top(e))
            for k in range(3, 6):
                weight = stage_weight(view, w, position[0, own + k], position[1, own + k])
                add_single(expansion, w, own + k, weight, e[k])
        elif joint.type[j] == JOINT_BALL:
            turn = ball_difference(i, view.joint_q, q, i_reference)
            weights = wp.vec3(
                stage_weight(view, w, position[0, own], position[1, own]),
                stage_weight(view, w, position[0, own + 1], position[1, own + 1]),
                stage_weight(view, w, position[0, own + 2], position[1, own + 2]),
            )
            add_turn(expansion, w, own, weights, turn)
        else:
            for k in range(joint.qd_start[j + 1] - d):
                weight = stage_weight(view, w, position[0, own + k], position[1, own + k])
                add_single(expansion, w, own + k, weight, view.joint_q[i + k] - q[i_reference + k])
    for own in range(view.dofs):
        weight = stage_weight(view, w, velocity[0, own], velocity[1, own])
        add_single(expansion, w, view.dofs + own, weight, view.joint_qd[w * view.dofs + own] - qd[own])


@wp.kernel
def expand_frame_cost(
    first: int,
    view: CostView,
    body_com: wp.array(dtype=wp.vec3),
    body: int,
    frame: wp.transform,
    target: wp.array(dtype=wp.transform),
    weights: wp.array(dtype=wp.spatial_vector),
    jacobian: wp.array3d(dtype=float),
    first_dof: int,
    dof_count: int,
    rows: wp.array3d(dtype=float),
    expansion: ExpansionView,
):
    """One thread per world: the quadratic model of `add_frame_cost`.

    The body belongs to the articulation with the degrees of freedom from `first_dof` on; `rows` (W, 6, N) is
    room for the slopes of the residuals.
    """
    w = first + wp.tid()
    stage = stage_of(view, w)
    b = w * view.bodies + body
    pose = view.body_q[b] * frame
    goal = target[row_of(stage, target.shape[0])]
    turn = turn_between(wp.transform_get_rotation(goal), wp.transform_get_rotation(pose))
    way = wp.transform_get_translation(pose) - wp.transform_get_translation(goal)
    e = wp.spatial_vector(turn, way)
    of_turn = turn_slope(turn)
    arm = wp.transform_get_translation(pose) - wp.transform_point(view.body_q[b], body_com[b])
    for c in range(dof_count):
        rate = wp.vec3(jacobian[b, 0, c], jacobian[b, 1, c], jacobian[b, 2, c])
        v = wp.vec3(jacobian[b, 3, c], jacobian[b, 4, c], jacobian[b, 5, c]) + wp.cross(rate, arm)
        turned = of_turn * rate
        for k in range(3):
            rows[w, k, c] = turned[k]
            rows[w, 3 + k, c] = v[k]
    for k in range(6):
        weight = stage_weight(view, w, weights[0][k], weights[1][k])
        for c in range(dof_count):
            i = first_dof + c
            expansion.slope[w, i] = expansion.slope[w, i] + weight * rows[w, k, c] * e[k]
            for n in range(dof_count):
                add = weight * rows[w, k, c] * rows[w, k, n]
                expansion.curvature[w, i, first_dof + n] = expansion.curvature[w, i, first_dof + n] + add


@wp.kernel
def expand_control_cost(
    first: int,
    view: CostView,
    weight: wp.array(dtype=float),
    reference: wp.array2d(dtype=float),
    expansion: ExpansionView,
):
    """One thread per world: the quadratic model of `add_control_cost`."""
    w = first + wp.tid()
    row = row_of(stage_of(view, w), reference.shape[0])
    for k in range(weight.shape[0]):
        u = view.control[w * view.inputs + view.entry[k]]
        add = view.interval * weight[k]
        expansion.control_slope[w, k] = expansion.control_slope[w, k] + add * (u - reference[row, k])
        expansion.control_curvature[w, k] = expansion.control_curvature[w, k] + add
