"""Data of the kernels of optimisers: arguments of costs, and the runs of all worlds.

Lengths: W worlds, T controls one after the other, M numbers in each, N degrees of freedom, C coordinates and
B bodies of a world; world w owns the coordinates from `w * coords` on, likewise its dofs, bodies and inputs.

Stage: optimisation, all stages
Called by: newtonsim/optimize/__init__.py, kernels/optimize/costs.py, kernels/optimize/expansions.py
Reads: CostView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class CostView:
    """State and control on which a cost depends, and the loss to which it is added."""

    joint_q: wp.array(dtype=float)
    joint_qd: wp.array(dtype=float)
    body_q: wp.array(dtype=wp.transform)
    body_qd: wp.array(dtype=wp.spatial_vector)
    control: wp.array(dtype=float)  # the array of the Control that is optimised
    entry: wp.array(dtype=int)  # (M) its optimised entries in a world
    contact_f: wp.array(dtype=wp.spatial_vector)  # wrench of contacts on every body, where costs read it
    sequence: wp.array3d(dtype=float)  # (T, M, W) controls of runs, empty elsewhere
    step: wp.array(dtype=int)  # (W) or (1) completed steps of the solver
    losses: wp.array(dtype=float)  # (W)
    # how many of them each world has
    coords: int
    dofs: int
    joints: int
    bodies: int
    inputs: int
    # of the problem
    hold: int  # steps of the solver per control
    steps: int  # steps of the solver to the horizon
    interval: float  # [s] duration of a control


@wp.struct
class RunView:
    """Controls of all worlds, and the resulting states."""

    step: wp.array(dtype=int)  # (W) completed steps of the solver
    losses: wp.array(dtype=float)  # (W)
    joint_q: wp.array(dtype=float)
    joint_qd: wp.array(dtype=float)
    control: wp.array(dtype=float)  # the array of the Control that is optimised
    entry: wp.array(dtype=int)  # (M)
    low: wp.array(dtype=float)  # (M)
    high: wp.array(dtype=float)  # (M)
    start_q: wp.array(dtype=float)  # (C)
    start_qd: wp.array(dtype=float)  # (N)
    sequence: wp.array3d(dtype=float)  # (T, M, W) controls
    q: wp.array2d(dtype=float)  # (T + 1, W C) coordinates before the first control and after each
    qd: wp.array2d(dtype=float)  # (T + 1, W N)
    coords: int
    dofs: int
    joints: int
    inputs: int
    hold: int


@wp.func
def stage_of(view: CostView, w: int) -> int:
    """Number of completed controls of a world, from 1 on; 0 in the middle of a control."""
    done = view.step[wp.min(w, view.step.shape[0] - 1)]
    stage = int(0)
    if done % view.hold == 0:
        stage = done / view.hold
    return stage


@wp.func
def stage_weight(view: CostView, w: int, running: float, final: float) -> float:
    """Weight of a cost now: the time of a control times `running`, at the horizon `final`, 0 in between."""
    stage = stage_of(view, w)
    weight = float(0.0)
    if stage > 0:
        weight = running * view.interval
    if stage * view.hold == view.steps:
        weight = final
    return weight


@wp.struct
class ExpansionView:
    """Quadratic model of costs of states x = (q, q̇), in tangent coordinates, and of controls."""

    slope: wp.array2d(dtype=float)  # (W, 2 N)
    curvature: wp.array3d(dtype=float)  # (W, 2 N, 2 N)
    control_slope: wp.array2d(dtype=float)  # (W, M)
    control_curvature: wp.array2d(dtype=float)  # (W, M), the diagonal
