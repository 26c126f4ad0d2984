"""Actions of a hand: it moves along straight lines while it points down, and its fingers open and close.

Stage: environment, first of a step, actions
Called by: newtonsim/envs/terms/library.py
Reads: EnvView, TermView
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.terms.views import TermView
from newtonsim.kernels.envs.views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

PER_JOINT = wp.constant(11)
"""Numbers of a joint: 1 if it carries the hand, 1 if it slides, its body, axis and a point on it in the frame
of the body, least and greatest target."""
DAMPING = wp.constant(4.0e-4)  # of the least squares
ERECT = wp.constant(0.3)  # share of the tilt that an action takes back
RETURN = wp.constant(0.05)  # share of the way home that joints go if the hand does not feel it
LEASH = wp.constant(0.1)  # [rad or m] greatest distance of a target from its joint


@wp.func
def column_of(w: int, env: EnvView, term: TermView, at: int, tip: wp.vec3) -> wp.spatial_vector:
    """Angular velocity and velocity of the tip for unit velocity of a joint with numbers from `at` on."""
    pose = env.body_q[w * env.bodies + int(term.numbers[at + 2])]
    axis = wp.transform_vector(
        pose, wp.vec3(term.numbers[at + 3], term.numbers[at + 4], term.numbers[at + 5])
    )
    point = wp.transform_point(
        pose, wp.vec3(term.numbers[at + 6], term.numbers[at + 7], term.numbers[at + 8])
    )
    column = wp.spatial_vector(axis, wp.cross(axis, tip - point))
    if term.numbers[at + 1] == 1.0:
        column = wp.spatial_vector(wp.vec3(0.0), axis)
    return column


@wp.func
def solve_positive(A: wp.spatial_matrix, b: wp.spatial_vector) -> wp.spatial_vector:
    """The x with A x = b for a symmetric positive definite A: elimination without pivoting."""
    for k in range(6):
        for i in range(k + 1, 6):
            factor = A[i, k] / A[k, k]
            for j in range(k + 1, 6):
                A[i, j] = A[i, j] - factor * A[k, j]
            b[i] = b[i] - factor * b[k]
    x = wp.spatial_vector()
    for step in range(6):
        k = 5 - step
        total = b[k]
        for j in range(k + 1, 6):
            total -= A[k, j] * x[j]
        x[k] = total / A[k, k]
    return x


@wp.kernel
def move_hand(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: three actions move the tip along x, y and z, the fourth opens the fingers.

    The targets of the arm change by damped least squares, Jᵀ (J Jᵀ + λ² I)⁻¹ of the tip's motion, with the
    Jacobian J. The direction from the hand's origin to the tip is brought to point down, and motions of the
    arm that do not move the hand go home. The fourth action is the opening of the fingers, which their
    targets approach: -1 for closed, 1 for open.

    Source: Wampler, "Manipulator inverse kinematic solutions based on vector formulations and damped
    least-squares methods", 1986; Liégeois, "Automatic supervisory control of the configuration and behavior
    of multibody mechanisms", 1977, for the way home.

    Numbers: the tip in the frame of the base [m], way of an action [m], least height of the
    tip [m], way of the fingers' targets [rad or m], then `PER_JOINT` for each joint.
    """
    w = first + wp.tid()
    n = env.actions.shape[1]
    for k in range(n):
        env.memory[w, term.action + n + k] = env.memory[w, term.action + k]
        env.memory[w, term.action + k] = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
    pose = env.body_q[w * env.bodies + term.base]
    ahead = wp.vec3(term.numbers[0], term.numbers[1], term.numbers[2])
    tip = wp.transform_point(pose, ahead)
    tilt = wp.cross(wp.normalize(wp.transform_vector(pose, ahead)), wp.vec3(0.0, 0.0, -1.0))
    way = wp.vec3(env.memory[w, term.action], env.memory[w, term.action + 1], env.memory[w, term.action + 2])
    way = term.numbers[3] * way
    way[2] = wp.max(way[2], term.numbers[4] - tip[2])
    wanted = wp.spatial_vector(ERECT * tilt, way)
    square = DAMPING * wp.identity(n=6, dtype=float)
    for k in range(term.axes.shape[0]):
        at = 6 + PER_JOINT * k
        if term.numbers[at] == 1.0:
            column = column_of(w, env, term, at, tip)
            home = RETURN * (term.home[k] - env.joint_act[w * env.axes + term.axes[k]])
            wanted = wanted - home * column
            square = square + wp.outer(column, column)
    load = solve_positive(square, wanted)
    for k in range(term.axes.shape[0]):
        at = 6 + PER_JOINT * k
        axis = w * env.axes + term.axes[k]
        low = term.numbers[at + 9]
        high = term.numbers[at + 10]
        opening = 0.5 * (1.0 + env.memory[w, term.action + 3])
        target = low + opening * (high - low)
        pace = term.numbers[5]
        target = wp.clamp(target, env.joint_act[axis] - pace, env.joint_act[axis] + pace)
        if term.numbers[at] == 1.0:
            home = RETURN * (term.home[k] - env.joint_act[axis])
            target = env.joint_act[axis] + home + wp.dot(column_of(w, env, term, at, tip), load)
            joint = env.joint_q[w * env.coords + term.coords[k]]
            target = wp.clamp(target, joint - LEASH, joint + LEASH)
        env.joint_act[axis] = wp.clamp(target, low, high)
