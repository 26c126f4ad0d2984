"""Inverse kinematics of one articulated body by iterated linear steps.

Damped least squares, its use of the null space, and selectively damped least squares as in Buss and Kim,
"Selectively damped least squares for inverse kinematics", Journal of Graphics Tools, 2005, and Buss,
"Introduction to inverse kinematics with Jacobian transpose, pseudoinverse and damped least squares methods",
2004. Damping, gains and the order of operations are those observed in PyBullet 3.2.7.

Stage: inverse kinematics of a PyBullet client
Called by: newtonsim/pybullet_compat/kinematics/reach.py
Reads: ChainState, ChainView, ReachView
Writes: ChainState, ReachView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.exact.algebra import (
    damped_normal_matrix,
    diagonalize,
    outer_matrix,
    solve_symmetric,
    transposed_product,
)
from newtonsim.kernels.trees.exact.links import place_base, place_path, velocity_at
from newtonsim.kernels.trees.exact.views import SPHERICAL, ChainState, ChainView, ReachView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

LARGEST_STEP = wp.constant(wp.float64(0.25 * wp.pi))
REST_DAMPING = wp.constant(wp.float64(0.36))  # where the null space is used, instead of the joints' own
REST_GAIN = wp.constant(wp.float64(0.001))
LIMIT_GAIN = wp.constant(wp.float64(10.0))
SINGULAR = wp.constant(wp.float64(1.0e-12))  # squared ratio of singular values that counts as zero


@wp.func
def rotation_vector(q: wp.quatd) -> wp.vec3d:
    """The shorter rotation vector of a unit quaternion."""
    v = wp.vec3d(q[0], q[1], q[2])
    w = q[3]
    if w < wp.float64(0.0):
        v = -v
        w = -w
    length = wp.length(v)
    scale = wp.float64(2.0)
    if length > wp.float64(0.0):
        scale = wp.float64(2.0) * wp.atan2(length, w) / length
    return scale * v


@wp.func
def put_rows(reach: wp.ref[ReachView], c: int, row: int, k: int, n: int, x: wp.vec3d):
    """Three entries of column k of the Jacobian."""
    for j in range(3):
        reach.jacobian[c, (row + j) * n + k] = x[j]


@wp.func
def linearize(chain: wp.ref[ChainView], state: wp.ref[ChainState], reach: wp.ref[ReachView], c: int) -> int:
    """Fill Jacobian and error; return the number of rows."""
    effectors = reach.count[0]
    n = reach.count[1]
    rows = 3 * (effectors + reach.count[3])
    for k in range(rows * n):
        reach.jacobian[c, k] = wp.float64(0.0)
    place_base(state, c)
    for e in range(effectors):
        i = reach.effector[e]
        place_path(chain, state, c, i)
        x = wp.transform_get_translation(state.pose[c, i])
        error = reach.position[c, e] - x
        for j in range(3):
            reach.error[c, 3 * e + j] = error[j]
        d = chain.leaf[i]
        while d >= 0:
            v = velocity_at(state.angular[c, d], state.linear[c, d], x)
            put_rows(reach, c, 3 * e, reach.place[d], n, v)
            d = chain.dof_parent[d]
    if reach.count[3] != 0:
        i = reach.effector[0]
        row = 3 * effectors
        turn = reach.orientation[c] * wp.quat_inverse(wp.transform_get_rotation(state.pose[c, i]))
        error = rotation_vector(turn)
        for j in range(3):
            reach.error[c, row + j] = error[j]
        d = chain.leaf[i]
        while d >= 0:
            put_rows(reach, c, row, reach.place[d], n, state.angular[c, d])
            d = chain.dof_parent[d]
    return rows


@wp.func
def distance_left(reach: wp.ref[ReachView], c: int) -> wp.float64:
    """Largest distance of an effector from its target."""
    largest = wp.float64(0.0)
    for e in range(reach.count[0]):
        error = wp.vec3d(reach.error[c, 3 * e], reach.error[c, 3 * e + 1], reach.error[c, 3 * e + 2])
        largest = wp.max(largest, wp.length(error))
    return largest


@wp.func
def make_wishes(chain: wp.ref[ChainView], state: wp.ref[ChainState], reach: wp.ref[ReachView], c: int):
    """Desired steps of joints towards the rest pose and back into their limits."""
    for n in range(chain.order.shape[0]):
        i = chain.order[n]
        d = chain.dof_start[i]
        end = chain.leaf[i] + 1
        if chain.leaf[i] == chain.leaf[chain.parent[i]]:
            end = d
        for j in range(end - d):
            wish = wp.float64(0.0)
            if chain.type[i] != SPHERICAL:
                x = state.q[c, chain.q_start[i] + j]
                wish = REST_GAIN * (reach.rest[c, d + j] - x)
                if x > reach.upper[c, d + j]:
                    wish += LIMIT_GAIN * (reach.upper[c, d + j] - x) / reach.range[c, d + j]
                elif x < reach.lower[c, d + j]:
                    wish += LIMIT_GAIN * (reach.lower[c, d + j] - x) / reach.range[c, d + j]
            reach.wish[c, d + j] = wish


@wp.func
def step_damped(reach: wp.ref[ReachView], c: int, m: int):
    """Damped least squares; with a rest pose, the desired steps act in the null space."""
    n = reach.count[1]
    resting = reach.count[4] != 0
    if resting:
        for r in range(m):
            moved = wp.float64(0.0)
            for k in range(n):
                moved += reach.jacobian[c, r * n + k] * reach.wish[c, reach.column[k]]
            reach.error[c, r] = reach.error[c, r] - moved
    for k in range(n):
        reach.by_column[c, k] = wp.where(resting, REST_DAMPING, reach.damping[c, reach.column[k]])
    damped_normal_matrix(c, m, n, reach.jacobian, reach.by_column, reach.matrix)
    transposed_product(c, m, n, reach.jacobian, reach.error, reach.by_column)
    solve_symmetric(c, n, reach.matrix, reach.by_column)
    for d in range(reach.step.shape[1]):
        step = wp.float64(0.0)
        if resting:
            step = reach.wish[c, d]
        if reach.place[d] >= 0:
            step += reach.by_column[c, reach.place[d]]
        reach.step[c, d] = step


@wp.func
def block_norms(reach: wp.ref[ReachView], c: int, m: int, stride: int, k: int, vectors: bool) -> wp.float64:
    """Sum of the lengths of the parts, three rows each, of a column of `jacobian` or `vectors`."""
    total = wp.float64(0.0)
    for b in range(m // 3):
        x = wp.vec3d()
        for j in range(3):
            if vectors:
                x[j] = reach.vectors[c, (3 * b + j) * stride + k]
            else:
                x[j] = reach.jacobian[c, (3 * b + j) * stride + k]
        total += wp.length(x)
    return total


@wp.func
def step_selective(reach: wp.ref[ReachView], c: int, m: int):
    """Selectively damped least squares: each singular direction has its own largest step."""
    n = reach.count[1]
    outer_matrix(c, m, n, reach.jacobian, reach.matrix)
    diagonalize(c, m, reach.matrix, reach.vectors)
    for d in range(reach.step.shape[1]):
        reach.step[c, d] = wp.float64(0.0)
    largest = wp.float64(0.0)
    for r in range(m):
        largest = wp.max(largest, reach.matrix[c, r * m + r])
    for r in range(m):
        square = reach.matrix[c, r * m + r]
        if square > SINGULAR * largest:
            sigma = wp.sqrt(square)
            along = wp.float64(0.0)
            for s in range(m):
                along += reach.vectors[c, s * m + r] * reach.error[c, s]
            moved = wp.float64(0.0)
            top = wp.float64(0.0)
            for k in range(n):
                v = wp.float64(0.0)
                for s in range(m):
                    v += reach.jacobian[c, s * n + k] * reach.vectors[c, s * m + r]
                v /= sigma
                moved += wp.abs(v) * block_norms(reach, c, m, n, k, False)
                top = wp.max(top, wp.abs(v))
                reach.by_column[c, k] = v
            share = block_norms(reach, c, m, m, r, True) * sigma / moved
            scale = along / sigma
            bound = wp.min(share, wp.float64(1.0)) * LARGEST_STEP
            if wp.abs(scale) * top > bound:
                scale = wp.sign(scale) * bound / top
            for k in range(n):
                d = reach.column[k]
                reach.step[c, d] = reach.step[c, d] + scale * reach.by_column[c, k]


@wp.func
def advance(chain: wp.ref[ChainView], state: wp.ref[ChainState], reach: wp.ref[ReachView], c: int):
    """Move the joints by the step, shortened if one of them would move too far."""
    largest = wp.float64(0.0)
    for d in range(reach.step.shape[1]):
        largest = wp.max(largest, wp.abs(reach.step[c, d]))
    scale = wp.float64(1.0)
    if largest > LARGEST_STEP:
        scale = LARGEST_STEP / largest
    for n in range(chain.order.shape[0]):
        i = chain.order[n]
        k = chain.q_start[i]
        d = chain.dof_start[i]
        if chain.type[i] == SPHERICAL:
            turn = scale * wp.vec3d(reach.step[c, d], reach.step[c, d + 1], reach.step[c, d + 2])
            q = wp.quatd(state.q[c, k], state.q[c, k + 1], state.q[c, k + 2], state.q[c, k + 3])
            angle = wp.length(turn)
            if angle > wp.float64(0.0):
                q = wp.normalize(q * wp.quat_from_axis_angle(turn / angle, angle))
            for j in range(4):
                state.q[c, k + j] = q[j]
        elif chain.leaf[i] != chain.leaf[chain.parent[i]]:
            for j in range(chain.leaf[i] + 1 - d):
                state.q[c, k + j] = state.q[c, k + j] + scale * reach.step[c, d + j]


@wp.kernel
def reach_damped(first: int, chain: ChainView, state: ChainState, reach: ReachView):
    """One thread solves one configuration by damped least squares, in place."""
    c = first + wp.tid()
    going = bool(True)
    count = int(0)
    while going:
        m = linearize(chain, state, reach, c)
        left = distance_left(reach, c)
        if reach.count[4] != 0:
            make_wishes(chain, state, reach, c)
        step_damped(reach, c, m)
        advance(chain, state, reach, c)
        count += 1
        going = count < reach.count[2] and left > reach.threshold[0]
    reach.iterations[c] = count


@wp.kernel
def reach_selective(first: int, chain: ChainView, state: ChainState, reach: ReachView):
    """One thread solves one configuration by selectively damped least squares, in place."""
    c = first + wp.tid()
    going = bool(True)
    count = int(0)
    while going:
        m = linearize(chain, state, reach, c)
        left = distance_left(reach, c)
        step_selective(reach, c, m)
        advance(chain, state, reach, c)
        count += 1
        going = count < reach.count[2] and left > reach.threshold[0]
    reach.iterations[c] = count
