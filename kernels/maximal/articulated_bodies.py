"""Robots during the substeps of particles: mobility and expected motion of links.

An impulse p at the centre of mass of a link changes its velocity by M p, where M = J H⁻¹ Jᵀ is the inverse of
its operational-space inertia (Khatib, "A unified approach for motion and force control of robot manipulators:
the operational space formulation", IEEE J. Robotics and Automation 3(1), 1987; Featherstone, "Rigid Body
Dynamics Algorithms", 2008, chapter 9). H includes the implicit terms of drives, and of the rows on single
dofs (servos, limits, dry friction) that held in the previous step. Forces of constraints are expected to be
those of the previous step; those of contacts and limits only if they lasted for three steps, which impacts do
not. Forces of drives are not stored, since drives change between terms of H and rows: they are expected to
follow their law, and those at their effort limit are expected to stay there.

Stage: coupling of robots with particles, around the substeps of the particles
Called by: solvers/featherstone/articulated_bodies.py
Reads: BodyView, DofRowView, DriveView, JointView, KinematicsView, L, LevelView, MotionView, PairRowView,
    TreeView, 15 arrays
Writes: B, MotionView, 12 arrays
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import axpyi, doti, lane_row_axpyi, row_gram3
from newtonsim.kernels.algebra.teams import alone
from newtonsim.kernels.constraints.chains import fill_turning, fill_velocity, push_row, whiten_chain
from newtonsim.kernels.constraints.dof_rows import ROW_DRIVE, ROW_LIMIT, DofRowView
from newtonsim.kernels.maximal.moving_bodies import MotionView, moved
from newtonsim.kernels.trees.crba import solve_tree
from newtonsim.kernels.trees.forward_kinematics import world_velocity
from newtonsim.kernels.trees.joint_forces import bounded_effort, drive_effort, implicit_inertia
from newtonsim.kernels.views.model import BodyView, DriveView, JointView, KinematicsView, LevelView, TreeView
from newtonsim.kernels.views.pair_rows import PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# mobility of a dof that a row without softness holds, over that of a free one
HELD = wp.constant(1.0e-4)
# share of its bound above which an impulse counts as at the bound
AT_BOUND = wp.constant(0.999)


@wp.kernel
def clear_memory(
    first: int, hold: wp.array(dtype=float), saturated: wp.array(dtype=int), z: wp.array(dtype=float)
):
    """One thread per dof: nothing holds it, and no impulse acts."""
    d = first + wp.tid()
    hold[d] = 0.0
    saturated[d] = 0
    z[d] = 0.0


@wp.kernel
def remember_holds(first: int, rows: DofRowView, hold: wp.array(dtype=float), saturated: wp.array(dtype=int)):
    """One thread per place of a row on a dof: inertia that represents the row in the next step [kg or kg m²].

    A row within its bounds keeps its velocity, up to its softness; at a bound its force is constant. Drives
    are only marked where they are at a bound.
    """
    r = first + wp.tid()
    w = rows.world[r]
    if r - rows.world_start[w] >= rows.world_count[w]:
        return
    source = rows.source[r]
    impulse = rows.impulse[r]
    inside = impulse > AT_BOUND * rows.lower[r] and impulse < AT_BOUND * rows.upper[r]
    if rows.source_kind[source] == ROW_LIMIT and impulse == 0.0:
        inside = False
    if rows.source_kind[source] == ROW_DRIVE:
        saturated[rows.source_dof[source]] = int(not inside)
    elif inside and rows.delassus[r] > 0.0:
        wp.atomic_add(hold, rows.source_dof[source], 1.0 / (rows.softness[r] + HELD * rows.delassus[r]))


@wp.kernel
def add_steady_impulses(
    first: int,
    tree: TreeView,
    rows: DofRowView,
    pairs: PairRowView,
    depth: int,
    z: wp.array(dtype=float),
):
    """One thread per world: impulses of all rows except contacts and limits, in energy coordinates.

    Those of drives, servos, dry friction, loops and couplings change steadily.
    """
    w = first + wp.tid()
    begin = rows.world_start[w]
    for r in range(begin, begin + rows.world_count[w]):
        source = rows.source[r]
        if rows.source_kind[source] != ROW_LIMIT:
            d = rows.source_dof[source]
            row = tree.dof_row[d]
            lane_row_axpyi(0, 1, tree.dof_depth[d] + 1, rows.impulse[r], rows.B, r, 0, tree.row_dof, row, z)
    for r in range(pairs.world_start[w], pairs.world_start[w + 1]):
        if pairs.delassus[r] > 0.0:
            push_row(tree, pairs.leaf[r], r, depth, pairs.impulse[r], pairs.B, z)


@wp.kernel
def remember_forces(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    z: wp.array(dtype=float),
    dt: float,
    change: wp.array(dtype=float),
    latest: wp.array(dtype=wp.vec2),
    expected: wp.array(dtype=float),
):
    """One thread per tree: generalised forces of constraints that are expected in the next step.

    The total is H (v_end - v_free) / h. The forces with the impulses z are expected unchanged. For the
    others, which are contacts and limits, the smallest of the last three steps is expected, and zero if their
    signs differ: a hard landing takes two steps, the second of which closes the rest of the gap.
    """
    t = first + wp.tid()
    begin = tree.dof_start[t]
    end = tree.dof_start[t + 1]
    for i in range(begin, end):
        d = tree.dof[i]
        change[d] = v_end[d] - v_free[d]
        expected[d] = 0.0
    for i in range(begin, end):
        # Lᵀ √D (√D L change - z), of which row d adds to its ancestors
        d = tree.dof[i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        scale = L[row + depth]
        y = ((change[d] + doti(depth, L, tree.row_dof, row, change)) / scale - z[d]) / (scale * dt)
        expected[d] = expected[d] + y
        axpyi(depth, y, L, tree.row_dof, row, expected)
    for i in range(begin, end):
        d = tree.dof[i]
        now = expected[d]
        before = latest[d]
        if not wp.isfinite(now):
            now = 0.0
        latest[d] = wp.vec2(now, before[0])
        low = wp.min(now, wp.min(before[0], before[1]))
        high = wp.max(now, wp.max(before[0], before[1]))
        expected[d] = wp.max(low, 0.0) + wp.min(high, 0.0)
    for i in range(begin, end):
        d = tree.dof[i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        y = z[d] / (L[row + depth] * dt)
        if wp.isfinite(y):
            expected[d] = expected[d] + y
            axpyi(depth, y, L, tree.row_dof, row, expected)


@wp.kernel
def leave_out_drives(first: int, rows: DofRowView, dt: float, expected: wp.array(dtype=float)):
    """One thread per place of a row on a dof: remove the force of a drive from the expected ones."""
    r = first + wp.tid()
    w = rows.world[r]
    if r - rows.world_start[w] >= rows.world_count[w]:
        return
    source = rows.source[r]
    if rows.source_kind[source] == ROW_DRIVE and wp.isfinite(rows.impulse[r]):
        wp.atomic_add(expected, rows.source_dof[source], -rows.impulse[r] / dt)


@wp.kernel
def forget_forces(
    first: int,
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    hold: wp.array(dtype=float),
    saturated: wp.array(dtype=int),
    latest: wp.array(dtype=wp.vec2),
    expected: wp.array(dtype=float),
):
    """One thread per dof: clear the constraint forces in the masked worlds."""
    d = first + wp.tid()
    if mask[world[d]]:
        hold[d] = 0.0
        saturated[d] = 0
        latest[d] = wp.vec2(0.0)
        expected[d] = 0.0


@wp.kernel
def expect_forces(
    first: int,
    tree: TreeView,
    drive: DriveView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    dt: float,
    hold: wp.array(dtype=float),
    saturated: wp.array(dtype=int),
    expected: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    implicit: wp.array(dtype=int),
    diagonal: wp.array(dtype=float),
    force: wp.array(dtype=float),
):
    """One thread per dof: add the inertia of its rows to the diagonal, and expected forces to the given ones.

    A drive that may exceed its effort limit stays implicit, or is a constant force if it was at the limit.
    """
    d = first + wp.tid()
    added = float(0.0)
    if implicit[d] == 0:
        if saturated[d] == 0:
            implicit[d] = 1
            diagonal[d] = implicit_inertia(d, tree, drive, 1, dt)
        else:
            a = tree.dof_axis[d]
            effort = drive_effort(drive, a, act[a], q[tree.dof_coord[d]] + dt * qd[d], qd[d])
            added = bounded_effort(drive, a, effort)
    diagonal[d] = diagonal[d] + hold[d]
    force[d] = joint_f[d] + expected[d] + added


@wp.kernel
def begin_bodies(
    first: int,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    L: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    B: wp.array2d(dtype=wp.vec3),
    gain: wp.array(dtype=wp.spatial_vector),
    bodies: MotionView,
):
    """One thread per body: its pose and velocity, the expected change to that in `kin`, and its mobility.

    Rows 2b and 2b + 1 of B hold the whitened Jacobians of the velocity of the centre of mass and of the
    angular velocity. Impulses do not affect the motion of a body without joints.
    """
    b = first + wp.tid()
    gain[b] = wp.spatial_vector()
    bodies.inv_mass[b] = 0.0
    mobility = wp.spatial_matrix()
    if tree.body_tree[b] >= 0:
        gain[b] = world_velocity(b, body, kin) - body_qd[b]
        leaf = tree.body_leaf[b]
        if leaf >= 0:
            axes = wp.identity(n=3, dtype=float)
            fill_velocity(tree, kin, 2 * b, leaf, 0, axes, wp.transform_point(kin.body_X[b], body.com[b]), B)
            fill_turning(tree, kin, 2 * b + 1, leaf, 0, axes, B)
            whiten_chain(tree, L, 2 * b, leaf, 0, 0, B)
            whiten_chain(tree, L, 2 * b + 1, leaf, 0, 0, B)
            count = tree.dof_depth[leaf] + 1
            linear = row_gram3(count, B, 2 * b, 0)
            angular = row_gram3(count, B, 2 * b + 1, 0)
            mixed = wp.mat33()
            for k in range(count):
                mixed += wp.outer(B[2 * b + 1, k], B[2 * b, k])
            for i in range(3):
                for j in range(3):
                    mobility[i, j] = angular[i, j]
                    mobility[i, 3 + j] = mixed[i, j]
                    mobility[3 + i, j] = mixed[j, i]
                    mobility[3 + i, 3 + j] = linear[i, j]
            bodies.inv_mass[b] = wp.trace(linear) / 3.0
    bodies.mobility[b] = mobility
    bodies.total[b] = wp.spatial_vector()
    bodies.impulse[b] = wp.spatial_vector()
    bodies.velocity[b] = body_qd[b]
    bodies.expected[b] = body_qd[b]
    bodies.pose[b] = body_q[b]
    bodies.origin[b] = body_q[b]


@wp.kernel
def move_bodies(
    first: int,
    before: float,
    dt: float,
    share: float,
    gain: wp.array(dtype=wp.spatial_vector),
    bodies: MotionView,
):
    """One thread per body: end a substep of length `before`, and begin one with its share of the change."""
    b = first + wp.tid()
    start = moved(bodies.origin[b], bodies.com[b], bodies.velocity[b], before)
    twist = bodies.velocity[b] + gain[b] * share
    bodies.velocity[b] = twist
    bodies.expected[b] = twist
    bodies.origin[b] = start
    bodies.pose[b] = moved(start, bodies.com[b], twist, dt)
    bodies.touching[b] = 0


@wp.kernel
def share_bodies(first: int, tree: TreeView, joint: JointView, bodies: MotionView):
    """One thread per tree: all particles that touch any of its bodies share the mass of the tree."""
    t = first + wp.tid()
    count = int(0)
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        count += bodies.touching[joint.child[tree.joint[i]]]
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        bodies.touching[joint.child[tree.joint[i]]] = count


@wp.kernel
def apply_impulses(
    first: int,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    kin: KinematicsView,
    L: wp.array(dtype=float),
    carried: wp.array(dtype=wp.spatial_vector),
    qd: wp.array(dtype=float),
    bodies: MotionView,
):
    """One thread per tree: apply the impulses of a sweep to all of its bodies, through its joints.

    `carried` is first the impulse on the part of the tree behind a body about the tree's origin, then the
    change of the body's velocity there; `qd` is the change of joint velocities.
    """
    t = first + wp.tid()
    begin = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    pushed = bool(False)
    for i in range(begin, end):
        b = joint.child[tree.joint[i]]
        impulse = bodies.impulse[b]
        if wp.length_sq(impulse) != 0.0:
            pushed = True
            p = wp.spatial_bottom(impulse)
            carried[b] = wp.spatial_vector(wp.spatial_top(impulse) + wp.cross(kin.body_com[b], p), p)
            bodies.total[b] = bodies.total[b] + impulse
            bodies.impulse[b] = wp.spatial_vector()
        else:
            carried[b] = wp.spatial_vector()
    if not pushed:
        return
    for i in range(begin, end):
        j = tree.joint[begin + end - 1 - i]
        impulse = carried[joint.child[j]]
        for d in range(joint.qd_start[j], joint.qd_start[j + 1]):
            qd[d] = wp.dot(kin.S[d], impulse)
        if joint.parent[j] >= 0:
            carried[joint.parent[j]] = carried[joint.parent[j]] + impulse
    solve_tree(alone(t), tree, levels, L, qd)
    for i in range(begin, end):
        j = tree.joint[i]
        b = joint.child[j]
        change = wp.spatial_vector()
        if joint.parent[j] >= 0:
            change = carried[joint.parent[j]]
        for d in range(joint.qd_start[j], joint.qd_start[j + 1]):
            change += kin.S[d] * qd[d]
        carried[b] = change
        turn = wp.spatial_top(change)
        move = wp.spatial_bottom(change) + wp.cross(turn, kin.body_com[b])
        bodies.velocity[b] = bodies.velocity[b] + wp.spatial_vector(turn, move)
