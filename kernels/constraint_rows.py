"""Constraint rows at velocity level, in energy coordinates.

With H = Lᵀ D L, a row J of a constraint Jacobian becomes B = D^(-1/2) L^(-T) Jᵀ, so that J v = Bᵀ z for
z = D^(1/2) L v and the Delassus matrix is BᵀB. B is non-zero only on the dofs between the world and the
touched body: a row costs the depth of its body, not the size of the robot (sparsity: Featherstone, RBDA,
2008, section 6.5). If both bodies of a contact hang on the same tree, their common ancestors are a common
prefix of both chains, and the second chain's share is added to the first.
"""

import warp as wp

from newtonsim.kernels.body_points import point_in_world, point_velocity
from newtonsim.kernels.contacts import ContactView
from newtonsim.kernels.shapes import ShapeView
from newtonsim.kernels.structs import ModelShapeMaterials
from newtonsim.kernels.views import MODE_POSITION, DriveView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

UNBOUNDED = wp.constant(1.0e30)
RIGID_DIRECTION = wp.constant(1.0e-8)
ROW_LOWER = wp.constant(0)
ROW_UPPER = wp.constant(1)
ROW_DRIVE = wp.constant(2)
ROW_FRICTION = wp.constant(3)


@wp.struct
class ConstraintSettings:
    """Numbers that choose stiffness and damping of the constraints."""

    dt: float  # [s]
    contact_rate: float  # rate at which penetration is removed [1/s]
    contact_cfm: float  # softness added to the Delassus diagonal [1/kg]
    contact_slop: float  # penetration left alone [m]
    max_push_speed: float  # fastest removal of penetration [m/s]
    restitution_speed: float  # slowest approach that bounces [m/s]
    limit_rate: float  # rate at which a violated joint limit is restored [1/s]
    max_limit_speed: float  # fastest restoration [rad/s or m/s]
    limit_cfm: float
    limit_margin: float  # distance to a joint limit at which its row exists [rad or m]
    warm_start: float  # share of the last step's impulse


@wp.struct
class ScalarRowView:
    """Rows on one dof with bounded impulse; world w owns the first world_count[w] places of its range."""

    source_kind: wp.array(dtype=int)  # (R) candidate rows
    source_dof: wp.array(dtype=int)  # (R)
    world_start: wp.array(dtype=int)  # (W + 1) for candidates and rows alike
    world_count: wp.array(dtype=int)  # (W)
    world: wp.array(dtype=int)  # (R)
    source: wp.array(dtype=int)  # (R) candidate of each row
    lower: wp.array(dtype=float)  # (R) bounds of the impulse
    upper: wp.array(dtype=float)
    target: wp.array(dtype=float)  # (R) wanted velocity
    softness: wp.array(dtype=float)  # (R) CFM
    delassus: wp.array(dtype=float)  # (R) BᵀB
    impulse: wp.array(dtype=float)  # (R)
    memory: wp.array(dtype=float)  # (R) last impulse of each candidate
    B: wp.array2d(dtype=float)  # (R, depth)


@wp.struct
class ContactRowView:
    """Three rows (normal, two tangents) per contact place; both sides' chains one after the other in B."""

    leaf: wp.array(dtype=wp.vec2i)  # (C) last dof of each side, or -1
    friction: wp.array(dtype=float)  # (C)
    target: wp.array(dtype=wp.vec3)  # (C) wanted velocity along normal, tangent 1, tangent 2 [m/s]
    delassus: wp.array(dtype=wp.vec2)  # (C) normal, largest tangential
    impulse: wp.array(dtype=wp.vec3)  # (C) [N s] along normal, tangent 1, tangent 2
    memory: wp.array(dtype=wp.vec3)  # (C) last impulse of each contact feature
    B: wp.array3d(dtype=float)  # (C, 3, 2 * depth)


@wp.func
def limit_speed(gap: float, s: ConstraintSettings) -> float:
    """Velocity towards the free side that a joint limit asks for: close the gap, or remove the violation."""
    speed = -gap / s.dt
    if gap < 0.0:
        speed = wp.min(-gap * s.limit_rate, s.max_limit_speed)
    return speed


@wp.kernel
def select_scalar_rows(
    drive: DriveView,
    tree: TreeView,
    limit_lower: wp.array(dtype=float),
    limit_upper: wp.array(dtype=float),
    dof_friction: wp.array(dtype=float),
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    act: wp.array(dtype=float),
    s: ConstraintSettings,
    rows: ScalarRowView,
):
    """One thread per world: list the joint limits in reach, the bounded drives and the dry frictions."""
    w = wp.tid()
    first = rows.world_start[w]
    n = int(0)
    for source in range(first, rows.world_start[w + 1]):
        kind = rows.source_kind[source]
        d = rows.source_dof[source]
        a = tree.dof_axis[d]
        lower = float(0.0)
        upper = float(0.0)
        target = float(0.0)
        softness = float(0.0)
        if kind == ROW_LOWER:
            gap = q[tree.dof_coord[d]] - limit_lower[a]
            if gap < s.limit_margin + wp.abs(v_free[d]) * s.dt:
                upper = UNBOUNDED
                target = limit_speed(gap, s)
                softness = s.limit_cfm
        elif kind == ROW_UPPER:
            gap = limit_upper[a] - q[tree.dof_coord[d]]
            if gap < s.limit_margin + wp.abs(v_free[d]) * s.dt:
                lower = -UNBOUNDED
                target = -limit_speed(gap, s)
                softness = s.limit_cfm
        elif kind == ROW_DRIVE:
            if implicit[d] == 0:
                upper = drive.effort_limit[a] * s.dt
                lower = -upper
                rate = drive.target_ke[a]
                target = act[a]
                if drive.mode[a] == MODE_POSITION:
                    rate = drive.target_kd[a] + s.dt * drive.target_ke[a]
                    target = drive.target_ke[a] * (act[a] - q[tree.dof_coord[d]]) / rate
                softness = 1.0 / (s.dt * rate)
        else:
            upper = dof_friction[d] * s.dt
            lower = -upper
        if upper > lower:
            r = first + n
            rows.source[r] = source
            rows.lower[r] = lower
            rows.upper[r] = upper
            rows.target[r] = target
            rows.softness[r] = softness
            n += 1
        else:
            rows.memory[source] = 0.0
    rows.world_count[w] = n


@wp.kernel
def build_scalar_rows(tree: TreeView, L: wp.array(dtype=float), s: ConstraintSettings, rows: ScalarRowView):
    """One thread per place: B of a unit generalised force, and the warm start."""
    r = wp.tid()
    w = rows.world[r]
    if r - rows.world_start[w] >= rows.world_count[w]:
        return
    source = rows.source[r]
    d = rows.source_dof[source]
    depth = tree.dof_depth[d]
    for k in range(depth):
        rows.B[r, k] = 0.0
    rows.B[r, depth] = 1.0
    row = tree.dof_row[d]
    total = float(0.0)
    for n in range(depth + 1):
        k = depth - n
        i = tree.dof_row[tree.row_dof[row + k]]
        y = rows.B[r, k]
        for m in range(k):
            rows.B[r, m] = rows.B[r, m] - L[i + m] * y
        y = y / wp.sqrt(L[i + k])
        rows.B[r, k] = y
        total += y * y
    rows.delassus[r] = total
    rows.impulse[r] = wp.clamp(s.warm_start * rows.memory[source], rows.lower[r], rows.upper[r])


@wp.func
def fill_chain(
    tree: TreeView,
    kin: KinematicsView,
    c: int,
    direction: int,
    leaf: int,
    offset: int,
    wrench: wp.spatial_vector,
    B: wp.array3d(dtype=float),
):
    """Jacobian entries of one side: power of a unit impulse in each dof of the chain."""
    row = tree.dof_row[leaf]
    for k in range(tree.dof_depth[leaf] + 1):
        B[c, direction, offset + k] = wp.dot(kin.S[tree.row_dof[row + k]], wrench)


@wp.func
def whiten_chain(
    tree: TreeView,
    L: wp.array(dtype=float),
    c: int,
    leaf: int,
    offset: int,
    shared: int,
    B: wp.array3d(dtype=float),
):
    """Half solve D^(-1/2) L^(-T) of the three rows of one side, down to the `shared` first dofs."""
    row = tree.dof_row[leaf]
    depth = tree.dof_depth[leaf]
    for n in range(depth + 1 - shared):
        k = depth - n
        i = tree.dof_row[tree.row_dof[row + k]]
        inv = 1.0 / wp.sqrt(L[i + k])
        for direction in range(3):
            y = B[c, direction, offset + k]
            for m in range(k):
                B[c, direction, offset + m] = B[c, direction, offset + m] - L[i + m] * y
            B[c, direction, offset + k] = y * inv


@wp.func
def shared_prefix(tree: TreeView, leaf0: int, leaf1: int) -> int:
    """Number of dofs that move both sides."""
    n = int(0)
    if leaf0 >= 0 and leaf1 >= 0:
        row0 = tree.dof_row[leaf0]
        row1 = tree.dof_row[leaf1]
        for k in range(wp.min(tree.dof_depth[leaf0], tree.dof_depth[leaf1]) + 1):
            if tree.row_dof[row0 + k] == tree.row_dof[row1 + k]:
                n = k + 1
    return n


@wp.func
def merge_prefix(c: int, shared: int, depth: int, B: wp.array3d(dtype=float)):
    """Move what the second side contributes to common ancestors into the first side's chain."""
    for direction in range(3):
        for k in range(shared):
            B[c, direction, k] = B[c, direction, k] + B[c, direction, depth + k]
            B[c, direction, depth + k] = 0.0


@wp.func
def rebound_speed(gap: float, approach: float, pull: float, restitution: float, dt: float) -> float:
    """Normal velocity after an impact within the step, such that the apex comes out right [m/s].

    The body hits with v_i² = v² + 2 g gap, rebounds with e v_i and rises by e² v_i² / 2g; the step, however,
    leaves it gap + v' dt above the surface, from where it rises by v'² / 2g - v' dt / 2. Equating both gives
    v'. Velocities of a leapfrog step belong to the middle of the intervals, hence v = |approach| + g dt / 2.

    Args:
        gap: Distance at the start of the step [m].
        approach: Normal velocity at the start of the step, negative [m/s].
        pull: Normal acceleration g towards the surface without the contact [m/s²].
        restitution: Coefficient e of Newton's impact law.
        dt: Time step [s].
    """
    half = 0.5 * pull * dt
    v = -approach + half
    rest = half * half + restitution * restitution * (v * v + 2.0 * pull * gap) - 2.0 * pull * gap
    speed = -gap / dt
    if rest > 0.0:
        speed = wp.max(speed, wp.sqrt(rest) - half)
    return speed


@wp.func
def contact_target(
    distance: float, approach: float, approach_free: float, restitution: float, s: ConstraintSettings
) -> float:
    """Smallest allowed normal velocity at the end of the step [m/s].

    A gap may close in the step; penetration is removed at a bounded rate; an impact that this step
    would bring about bounces at once.
    """
    target = -distance / s.dt
    if distance < 0.0:
        depth = wp.max(0.0, -distance - s.contact_slop)
        target = wp.min(s.contact_rate * depth, s.max_push_speed)
    bounces = restitution > 0.0 and approach < -s.restitution_speed
    if bounces and distance + s.dt * approach_free <= 0.0:
        pull = wp.max(0.0, (approach - approach_free) / s.dt)
        rebound = rebound_speed(wp.max(0.0, distance), approach, pull, restitution, s.dt)
        target = wp.max(target, rebound)
    return target


@wp.func
def contact_velocity(
    tree: TreeView,
    leaf: wp.vec2i,
    c: int,
    direction: int,
    depth: int,
    B: wp.array3d(dtype=float),
    z: wp.array(dtype=float),
) -> float:
    """J v of one row of a contact."""
    v = float(0.0)
    for side in range(2):
        if leaf[side] >= 0:
            row = tree.dof_row[leaf[side]]
            for k in range(tree.dof_depth[leaf[side]] + 1):
                v += B[c, direction, side * depth + k] * z[tree.row_dof[row + k]]
    return v


@wp.func
def tangent_of(n: wp.vec3) -> wp.vec3:
    """A unit vector normal to n that depends on n alone."""
    t = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(n[0]) > 0.7:
        t = wp.vec3(0.0, 1.0, 0.0)
    return wp.normalize(t - wp.dot(t, n) * n)


@wp.func
def place_side(
    tree: TreeView,
    kin: KinematicsView,
    c: int,
    b: int,
    p: wp.vec3,
    side: int,
    depth: int,
    n: wp.vec3,
    body_q: wp.array(dtype=wp.transform),
    B: wp.array3d(dtype=float),
) -> int:
    """Fill the Jacobian of one side, which touches at p (frame of body b); its last dof, or -1."""
    leaf = int(-1)
    if b >= 0:
        t = tree.body_tree[b]
        if t >= 0:
            leaf = tree.body_leaf[b]
            if leaf >= 0:
                x = wp.transform_point(body_q[b], p) - kin.origin[t]
                sign = 1.0 - 2.0 * float(side)
                t1 = tangent_of(n)
                t2 = wp.cross(n, t1)
                offset = side * depth
                fill_chain(tree, kin, c, 0, leaf, offset, sign * wp.spatial_vector(wp.cross(x, n), n), B)
                fill_chain(tree, kin, c, 1, leaf, offset, sign * wp.spatial_vector(wp.cross(x, t1), t1), B)
                fill_chain(tree, kin, c, 2, leaf, offset, sign * wp.spatial_vector(wp.cross(x, t2), t2), B)
    return leaf


@wp.func
def whiten_contact(
    tree: TreeView, L: wp.array(dtype=float), c: int, leaf: wp.vec2i, depth: int, B: wp.array3d(dtype=float)
):
    """Bring the Jacobians of both sides into energy coordinates."""
    shared = shared_prefix(tree, leaf[0], leaf[1])
    if leaf[1] >= 0:
        whiten_chain(tree, L, c, leaf[1], depth, shared, B)
        merge_prefix(c, shared, depth, B)
    if leaf[0] >= 0:
        whiten_chain(tree, L, c, leaf[0], 0, 0, B)


@wp.func
def contact_delassus(
    tree: TreeView, c: int, leaf: wp.vec2i, depth: int, B: wp.array3d(dtype=float)
) -> wp.vec2:
    """Normal diagonal of BᵀB, and the largest eigenvalue of its tangential block; zero where rigid."""
    normal = float(0.0)
    a11 = float(0.0)
    a22 = float(0.0)
    a12 = float(0.0)
    for side in range(2):
        if leaf[side] >= 0:
            for k in range(side * depth, side * depth + tree.dof_depth[leaf[side]] + 1):
                normal += B[c, 0, k] * B[c, 0, k]
                a11 += B[c, 1, k] * B[c, 1, k]
                a22 += B[c, 2, k] * B[c, 2, k]
                a12 += B[c, 1, k] * B[c, 2, k]
    half = 0.5 * (a11 - a22)
    tangential = 0.5 * (a11 + a22) + wp.sqrt(half * half + a12 * a12)
    # what is left of a direction in which nothing can move is rounding; dividing by it would explode
    noise = RIGID_DIRECTION * (normal + tangential)
    if normal <= noise:
        normal = 0.0
    if tangential <= noise:
        tangential = 0.0
    return wp.vec2(normal, tangential)


@wp.kernel
def build_contact_rows(
    tree: TreeView,
    kin: KinematicsView,
    shape: ShapeView,
    material: ModelShapeMaterials,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    contacts: ContactView,
    depth: int,
    s: ConstraintSettings,
    rows: ContactRowView,
):
    """One thread per contact place: normal and tangential rows, targets, warm start."""
    c = wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    b0 = shape.body[s0]
    b1 = shape.body[s1]
    p0 = contacts.point0[c] + contacts.offset0[c]
    p1 = contacts.point1[c] + contacts.offset1[c]
    n = contacts.normal[c]
    leaf = wp.vec2i(
        place_side(tree, kin, c, b0, p0, 0, depth, n, body_q, rows.B),
        place_side(tree, kin, c, b1, p1, 1, depth, n, body_q, rows.B),
    )
    whiten_contact(tree, L, c, leaf, depth, rows.B)
    rows.delassus[c] = contact_delassus(tree, c, leaf, depth, rows.B)
    rows.leaf[c] = leaf
    rows.friction[c] = 0.5 * (material.mu[s0] + material.mu[s1])
    restitution = 0.5 * (material.restitution[s0] + material.restitution[s1])

    v0 = point_velocity(b0, point_in_world(b0, p0, body_q), body_q, body_com, body_qd)
    v1 = point_velocity(b1, point_in_world(b1, p1, body_q), body_q, body_com, body_qd)
    # the rows do not see sides that no dof moves: their velocity goes into the targets
    prescribed = wp.vec3(0.0, 0.0, 0.0)
    if leaf[0] < 0:
        prescribed += v0
    if leaf[1] < 0:
        prescribed -= v1
    free = contact_velocity(tree, leaf, c, 0, depth, rows.B, z) + wp.dot(n, prescribed)
    speed = contact_target(contacts.distance[c], wp.dot(n, v0 - v1), free, restitution, s)
    t1 = tangent_of(n)
    along = wp.vec3(wp.dot(n, prescribed), wp.dot(t1, prescribed), wp.dot(wp.cross(n, t1), prescribed))
    rows.target[c] = wp.vec3(speed, 0.0, 0.0) - along
    rows.impulse[c] = wp.vec3(0.0, 0.0, 0.0)
    if contacts.match[c] >= 0:
        rows.impulse[c] = s.warm_start * rows.memory[contacts.match[c]]


@wp.kernel
def remember_scalar_impulses(rows: ScalarRowView):
    """One thread per place: keep the impulse for the next step's warm start."""
    r = wp.tid()
    w = rows.world[r]
    if r - rows.world_start[w] < rows.world_count[w]:
        rows.memory[rows.source[r]] = rows.impulse[r]


@wp.kernel
def remember_contact_impulses(contacts: ContactView, rows: ContactRowView):
    """One thread per place: keep the impulse under the contact's place. `memory` is zero on entry."""
    c = wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] < contacts.world_count[w]:
        rows.memory[c] = rows.impulse[c]


@wp.kernel
def forget_worlds(mask: wp.array(dtype=bool), world: wp.array(dtype=int), memory: wp.array(dtype=float)):
    """One thread per entry: drop the warm start of the masked worlds."""
    i = wp.tid()
    if mask[world[i]]:
        memory[i] = 0.0


@wp.kernel
def forget_contact_worlds(
    mask: wp.array(dtype=bool), world: wp.array(dtype=int), memory: wp.array(dtype=wp.vec3)
):
    """One thread per entry: drop the warm start of the masked worlds."""
    i = wp.tid()
    if mask[world[i]]:
        memory[i] = wp.vec3(0.0, 0.0, 0.0)
