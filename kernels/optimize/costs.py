"""Ready costs of optimisers: half the weighted squares of residuals, added to the losses of worlds.

Each kernel is launched after every step, on a tape too; between two controls and with weight 0 it adds
nothing. References have one row for all controls, or one for each.

Stage: optimisation, after every step
Called by: newtonsim/optimize/contact_costs.py, newtonsim/optimize/costs.py,
    newtonsim/optimize/rate_costs.py, newtonsim/optimize/time_costs.py, kernels/optimize/expansions.py
Reads: CostView, JointView, 11 arrays
Writes: CostView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.optimize.tangent import ball_difference, floating_difference, is_floating, turn_between
from newtonsim.kernels.optimize.views import CostView, stage_of, stage_weight
from newtonsim.kernels.views.model import JOINT_BALL, JointView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.func
def row_of(stage: int, rows: int) -> int:
    """Row of a reference after so many controls."""
    return wp.clamp(stage - 1, 0, rows - 1)


@wp.func
def add_square(view: CostView, w: int, running: float, final: float, residual: float):
    """Add a residual to the loss of a world, with its weight now."""
    wp.atomic_add(view.losses, w, 0.5 * stage_weight(view, w, running, final) * residual * residual)


@wp.kernel
def add_joint_cost(
    first: int,
    view: CostView,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    reference_q: wp.array2d(dtype=float),
    reference_qd: wp.array2d(dtype=float),
    position: wp.array2d(dtype=float),
    velocity: wp.array2d(dtype=float),
):
    """One thread per world: distance of coordinates and velocities from a reference.

    Weights have two rows, running and final, with a number for each degree of freedom.
    """
    w = first + wp.tid()
    stage = stage_of(view, w)
    if stage == 0:
        return
    q = reference_q[row_of(stage, reference_q.shape[0])]
    qd = reference_qd[row_of(stage, reference_qd.shape[0])]
    for j in range(w * view.joints, (w + 1) * view.joints):
        i = joint.q_start[j]
        d = joint.qd_start[j]
        own = d - w * view.dofs
        i_reference = i - w * view.coords
        if is_floating(joint.type[j]):
            e = floating_difference(j, joint, body_com, view.joint_q, q, i_reference)
            for k in range(6):
                add_square(view, w, position[0, own + k], position[1, own + k], e[k])
        elif joint.type[j] == JOINT_BALL:
            turn = ball_difference(i, view.joint_q, q, i_reference)
            for k in range(3):
                add_square(view, w, position[0, own + k], position[1, own + k], turn[k])
        else:
            for k in range(joint.qd_start[j + 1] - d):
                away = view.joint_q[i + k] - q[i_reference + k]
                add_square(view, w, position[0, own + k], position[1, own + k], away)
    for own in range(view.dofs):
        add_square(view, w, velocity[0, own], velocity[1, own], view.joint_qd[w * view.dofs + own] - qd[own])


@wp.kernel
def add_frame_cost(
    first: int,
    view: CostView,
    body: int,
    frame: wp.transform,
    target: wp.array(dtype=wp.transform),
    weights: wp.array(dtype=wp.spatial_vector),
):
    """One thread per world: distance of a frame fixed in a body from a target, (rotation, position).

    Weights have two rows, running and final.
    """
    w = first + wp.tid()
    stage = stage_of(view, w)
    if stage == 0:
        return
    pose = view.body_q[w * view.bodies + body] * frame
    goal = target[row_of(stage, target.shape[0])]
    turn = turn_between(wp.transform_get_rotation(goal), wp.transform_get_rotation(pose))
    way = wp.transform_get_translation(pose) - wp.transform_get_translation(goal)
    for k in range(3):
        add_square(view, w, weights[0][k], weights[1][k], turn[k])
        add_square(view, w, weights[0][3 + k], weights[1][3 + k], way[k])


@wp.kernel
def add_control_cost(
    first: int, view: CostView, weight: wp.array(dtype=float), reference: wp.array2d(dtype=float)
):
    """One thread per world: distance of controls from a reference, including those up to the horizon."""
    w = first + wp.tid()
    stage = stage_of(view, w)
    if stage == 0:
        return
    row = row_of(stage, reference.shape[0])
    for k in range(weight.shape[0]):
        u = view.control[w * view.inputs + view.entry[k]]
        add_square(view, w, weight[k], weight[k] * view.interval, u - reference[row, k])


@wp.kernel
def add_rate_cost(
    first: int,
    view: CostView,
    weight: wp.array(dtype=float),
    before: wp.array(dtype=float),
    counts: wp.array(dtype=float),
):
    """One thread per world: rates of change of controls; `counts` determines whether the first one counts."""
    w = first + wp.tid()
    stage = stage_of(view, w)
    if stage == 0 or view.sequence.shape[0] == 0:
        return
    for k in range(weight.shape[0]):
        change = counts[0] * (view.sequence[stage - 1, k, w] - before[k])
        if stage > 1:
            change = view.sequence[stage - 1, k, w] - view.sequence[stage - 2, k, w]
        wp.atomic_add(view.losses, w, 0.5 * weight[k] / view.interval * change * change)


@wp.kernel
def add_contact_cost(
    first: int,
    view: CostView,
    body: int,
    reference: wp.array2d(dtype=float),
    weights: wp.array(dtype=wp.spatial_vector),
):
    """One thread per world: force of all contacts on a body beyond a reference.

    Weights are (running, final), with a number for each axis of the world.
    """
    w = first + wp.tid()
    stage = stage_of(view, w)
    if stage == 0:
        return
    row = row_of(stage, reference.shape[0])
    force = wp.spatial_bottom(view.contact_f[w * view.bodies + body])
    for k in range(3):
        add_square(view, w, weights[0][k], weights[0][3 + k], force[k] - reference[row, k])


@wp.kernel
def add_time_cost(
    first: int,
    view: CostView,
    body: int,
    point: wp.vec3,
    target: wp.array2d(dtype=float),
    radius: float,
    weight: float,
):
    """One thread per world: time away from a target, 1 - exp(-d² / (2 r²)) of each second."""
    w = first + wp.tid()
    stage = stage_of(view, w)
    if stage == 0:
        return
    row = row_of(stage, target.shape[0])
    goal = wp.vec3(target[row, 0], target[row, 1], target[row, 2])
    way = wp.transform_point(view.body_q[w * view.bodies + body], point) - goal
    away = 1.0 - wp.exp(-0.5 * wp.dot(way, way) / (radius * radius))
    wp.atomic_add(view.losses, w, weight * view.interval * away)
