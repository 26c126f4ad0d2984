"""Constraint rows between two bodies or dofs: their kinds, what they hold, and what they are made from.

`kernels.constraints.pair_rows` says what each kind measures, and builds the rows.

Stage: constraints, assembly of rows
Used by: newtonsim/pybullet_compat/engine/gear_stage.py, solvers/, solvers/featherstone/,
    kernels/constraints/adjoint/, kernels/constraints/, kernels/constraints/solve/,
    kernels/maximal/adjoint/row_terms.py, kernels/maximal/, kernels/penalty/loops.py, kernels/tendons/rows.py
"""

import newtonsim.kernels.lazy_warp as wp

PAIR_OFFSET = wp.constant(0)  # anchors coincide along an axis of frame 0
PAIR_COSINE = wp.constant(1)  # an axis of frame 0 and one of frame 1 keep their angle
PAIR_ROTATION = wp.constant(2)  # frames coincide in rotation about an axis of frame 0
PAIR_SLIDE = wp.constant(3)  # limits of the offset along an axis
PAIR_TWIST = wp.constant(4)  # limits of the angle about an axis that both frames share
PAIR_SWING = wp.constant(5)  # limit of the angle between the x axes
PAIR_DISTANCE = wp.constant(6)  # limits of the distance of the anchors
PAIR_COUPLING = wp.constant(7)  # q_a = polynomial of q_b
PAIR_TENDON = wp.constant(8)  # built elsewhere, see `kernels.tendons.rows`
PAIR_SPAN = wp.constant(9)  # anchors coincide along an axis of the world; each body is pushed at its own
PAIR_ANGLES = wp.constant(10)  # an Euler angle from frame 0 to frame 1 is zero
PAIR_ACROSS = wp.constant(13)  # as PAIR_SPAN, along an axis of frame 0
PAIR_FRICTION_TURN = wp.constant(11)  # dry friction of turns about an axis of body 1
PAIR_FRICTION_SHIFT = wp.constant(12)  # dry friction of the origin of body 1 along an axis of the world


@wp.struct
class LoopView:
    """Constraints of a Model, and limits and dry friction of its ball, distance and free joints."""

    parent: wp.array(dtype=int)  # (K) body 0, or -1
    child: wp.array(dtype=int)  # (K) body 1, or -1
    X_p: wp.array(dtype=wp.transform)  # (K)
    X_c: wp.array(dtype=wp.transform)  # (K)
    enabled: wp.array(dtype=int)  # (K)
    max_force: wp.array(dtype=float)  # (K) [N or N m] on each row that holds an equality
    recovery_time: wp.array(dtype=float)  # (K) [s] 0: the solver's
    linear_compliance: wp.array(dtype=float)  # (K) [m/N]
    angular_compliance: wp.array(dtype=float)  # (K) [rad/(N m)]
    distance_lower: wp.array(dtype=float)  # (K) [m] negative: none
    distance_upper: wp.array(dtype=float)  # (K)
    coefficients: wp.array2d(dtype=float)  # (K, 5)
    limit_lower: wp.array(dtype=float)  # by axis of a constraint [rad or m]
    limit_upper: wp.array(dtype=float)
    joint_twist_lower: wp.array(dtype=float)  # (J) [rad]
    joint_twist_upper: wp.array(dtype=float)
    joint_swing_limit: wp.array(dtype=float)
    joint_distance_lower: wp.array(dtype=float)  # (J) [m] negative: none
    joint_distance_upper: wp.array(dtype=float)
    by_reference: int  # 1 if a weld, a connected point or a coupling has the parameters that follow
    ref: wp.array2d(dtype=float)  # (K, 2) see `references.RowParameters`; zero for the solver's own stiffness
    imp: wp.array2d(dtype=float)  # (K, 5)
    turn: wp.array(dtype=float)  # (K) length [m] by which a rotation of one rad is weighted in a weld
    weight: wp.array(dtype=wp.vec3)  # (K) inverse weights of shifts and rotations; the third is 1 for a weld
    light: wp.array(dtype=float)  # (D) see `dof_rows.LimitView`
    heavy: wp.array(dtype=float)  # (D)
    qd: wp.array(dtype=float)  # (D) velocities at the start of the step
    friction: wp.array(dtype=float)  # (D) [N m or N]
    friction_by_reference: int  # 1 if a dry friction has the parameters that follow
    friction_ref: wp.array2d(dtype=float)  # (D, 2)
    friction_imp: wp.array2d(dtype=float)  # (D, 5)
    dof_weight: wp.array(dtype=float)  # (D) inverse inertia of each dof in the reference pose


@wp.struct
class PairRowView:
    """Rows at fixed places, in the order of the worlds; see `chains` for B and leaf.

    A row that is out of reach or disabled has a Delassus number of zero.
    """

    world_start: wp.array(dtype=int)  # (W + 1)
    world: wp.array(dtype=int)  # (R)
    kind: wp.array(dtype=int)  # (R) PAIR_*
    constraint: wp.array(dtype=int)  # (R) or -1
    joint: wp.array(dtype=int)  # (R) joint that it limits or slows down, or -1
    index: wp.array(dtype=int)  # (R) axis of the constraint's limits, or dof whose dry friction it is
    dofs: wp.array(dtype=wp.vec2i)  # (R) coupled dofs, -1 for none
    axis0: wp.array(dtype=wp.vec3)  # (R) in frame 0
    axis1: wp.array(dtype=wp.vec3)  # (R) in frame 1
    leaf: wp.array(dtype=wp.vec2i)  # (R) last dof of body 1 and of body 0, or -1
    lower: wp.array(dtype=float)  # (R) bounds of the impulse
    upper: wp.array(dtype=float)
    target_lower: wp.array(dtype=float)  # (R) bounds of the target velocity
    target_upper: wp.array(dtype=float)
    softness: wp.array(dtype=float)  # (R) CFM
    delassus: wp.array(dtype=float)  # (R) BᵀB
    push: wp.array(dtype=float)  # (R) part of the target that removes an error of positions [m/s or rad/s]
    bend: wp.array(dtype=float)  # (R) h/2 times the second derivative of the measure, a part of the target
    free: wp.array(dtype=float)  # (R) velocity that it measures if nothing acts, plus the bend
    centre: wp.array(dtype=float)  # (R) part of the target: softness about the impulse of the last step
    mass: wp.array(dtype=float)  # (R) of the heavier tree, or larger inertia, that it moves; 0: has no push
    turn: wp.array(dtype=float)  # (R) how a unit impulse along a distance turns it in a step, 0 for others
    impulse: wp.array(dtype=float)  # (R) kept from step to step
    force: wp.array(dtype=wp.vec3)  # (R) force on body 1 per unit of the row, at `point`
    torque: wp.array(dtype=wp.vec3)  # (R)
    point: wp.array(dtype=wp.vec3)  # (R) [m] world
    point0: wp.array(dtype=wp.vec3)  # (R) [m] point of application on body 0: the same, or its own anchor
    B: wp.array2d(dtype=float)  # (R, 2 * depth)
