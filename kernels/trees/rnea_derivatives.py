"""Derivatives of inverse dynamics by configuration and velocity.

A displacement along dof j moves the bodies behind it and the motion subspaces S of later dofs. With the
velocity V and acceleration A of the frame that carries j, it changes the velocity v of a body by Ψ̇ - v × S
and its acceleration a by Ψ̈ - a × S - v × Ψ̇,

    Ψ̇ = V × S,    Ψ̈ = A × S + V × Ψ̇,

and the wrench f of a body by I Ψ̈ + 2 B Ψ̇ + S ×* f; a velocity along it changes them by S, Ψ̇ + Ṡ - v × S,
and I (Ψ̇ + Ṡ) + 2 B S (Singh, Russell, Wensing, "Efficient analytical derivatives of rigid-body dynamics
using spatial vector algebra", 2022; Carpentier, Mansard, "Analytical derivatives of rigid body dynamics
algorithms", 2018). Sums of I and 2 B over the bodies behind a dof give all of its entries.

For a body with momentum p at c, angular velocity ω and inertia Ī about c, in these axes, 2 B x depends only
on the angular part w of x: its force is 2 w × p and its torque about the origin is T w, with

    T = 2 ((c·p) 1 - p cᵀ) + 2 [ω] Ī - tr(Ī) [ω].

The axes of ball joints are fixed in the parent, so that none carries another; those of floating joints pass
through the centre of mass, so that only translations carry rotations. External wrenches keep their direction
in the world and act at the centres of mass: they move with their bodies, but do not rotate.

Stage: queries of dynamics between steps
Called by: newtonsim/dynamics/stages.py, solvers/featherstone/linear_model.py
Reads: BodyView, ChainView, JointView, KinematicsView, L, Teams, TreeView, body_A, body_f, dof_A,
    dof_articulation, dof_joint, dof_local, qd
Writes: ChainView, by_q, by_qd, dense
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import lane_axpy, lane_scal
from newtonsim.kernels.algebra.spatial import cross_motion
from newtonsim.kernels.algebra.teams import Teams, lanes, own_team
from newtonsim.kernels.trees.crba import CompositeView, attach_composite, composite_momentum
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.trees.jacobians import carrier_velocity
from newtonsim.kernels.trees.rnea import body_wrench
from newtonsim.kernels.views.model import JOINT_BALL, BodyView, JointView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class ChainView:
    """Quantities for derivatives of forces: of each dof, and of each body with all bodies behind it."""

    rate: wp.array(dtype=wp.spatial_vector)  # (D) Ψ̇
    drift: wp.array(dtype=wp.spatial_vector)  # (D) Ψ̈
    turn: wp.array(dtype=wp.spatial_vector)  # (D) Ψ̇ + Ṡ
    composite: CompositeView  # inertia
    momentum: wp.array(dtype=wp.vec3)  # (B) [kg m/s]
    coriolis: wp.array(dtype=wp.mat33)  # (B) T
    wrench: wp.array(dtype=wp.spatial_vector)  # (B) wrench that moves it, including external ones
    push: wp.array(dtype=wp.vec3)  # (B) external force [N]
    twist: wp.array(dtype=wp.vec3)  # (B) external torque at the centres of mass [N m]
    lever: wp.array(dtype=wp.mat33)  # (B) Σ c fᵀ of external forces [N m]


@wp.func
def cross_force(m: wp.spatial_vector, f: wp.spatial_vector) -> wp.spatial_vector:
    """Spatial cross product m ×* f of a motion and a force vector, RBDA eq. 2.32."""
    w = wp.spatial_top(m)
    force = wp.spatial_bottom(f)
    return wp.spatial_vector(
        wp.cross(w, wp.spatial_top(f)) + wp.cross(wp.spatial_bottom(m), force), wp.cross(w, force)
    )


@wp.func
def differentiate_joint(
    j: int,
    origin: wp.vec3,
    joint: JointView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    dof_A: wp.array(dtype=wp.spatial_vector),
    body_A: wp.array(dtype=wp.spatial_vector),
    chain: ChainView,
):
    """Ψ̇, Ψ̈ and Ψ̇ + Ṡ of the dofs of joint j."""
    parent = joint.parent[j]
    child = joint.child[j]
    first = joint.qd_start[j]
    base_V = wp.spatial_vector()
    base_A = wp.spatial_vector()
    if parent >= 0:
        base_V = kin.body_V[parent]
        base_A = body_A[parent]
    floating = is_floating(joint.type[j])
    for d in range(first, joint.qd_start[j + 1]):
        s = kin.S[d]
        V = kin.dof_V[d]
        A = dof_A[d]
        if joint.type[j] == JOINT_BALL or floating:
            V = kin.body_V[child]
            A = body_A[child]
        if floating and d >= first + 3:
            V = base_V
            A = base_A
        rate = cross_motion(V, s)
        chain.rate[d] = rate
        chain.drift[d] = cross_motion(A, s) + cross_motion(V, rate)
        chain.turn[d] = rate + cross_motion(carrier_velocity(j, d, origin, joint, qd, kin), s)


@wp.func
def begin_body(
    b: int,
    body: BodyView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    body_f: wp.array(dtype=wp.spatial_vector),
    inertias: int,
    chain: ChainView,
):
    """The sums of body b alone; see `sum_chains`."""
    m = body.mass[b]
    com = kin.body_com[b]
    inertia = kin.body_I[b]
    w = wp.spatial_top(kin.body_V[b])
    p = m * (wp.spatial_bottom(kin.body_V[b]) + wp.cross(w, com))
    if inertias == 1:
        chain.composite.mass[b] = m
        chain.composite.com[b] = com
        chain.composite.inertia[b] = inertia
    chain.momentum[b] = p
    rotating = 2.0 * wp.skew(w) * inertia - wp.trace(inertia) * wp.skew(w)
    chain.coriolis[b] = 2.0 * (wp.dot(com, p) * wp.identity(n=3, dtype=float) - wp.outer(p, com)) + rotating
    external = body_f[b]
    force = wp.spatial_bottom(external)
    chain.wrench[b] = body_wrench(m, com, inertia, kin.body_V[b], body_A[b], external)
    chain.push[b] = force
    chain.twist[b] = wp.spatial_top(external)
    chain.lever[b] = wp.outer(com, force)


@wp.func
def attach_body(b: int, parent: int, inertias: int, chain: ChainView):
    """Add the sums behind body b to those behind its parent; see `sum_chains`."""
    if inertias == 1:
        attach_composite(chain.composite, b, parent)
    chain.momentum[parent] = chain.momentum[parent] + chain.momentum[b]
    chain.coriolis[parent] = chain.coriolis[parent] + chain.coriolis[b]
    chain.wrench[parent] = chain.wrench[parent] + chain.wrench[b]
    chain.push[parent] = chain.push[parent] + chain.push[b]
    chain.twist[parent] = chain.twist[parent] + chain.twist[b]
    chain.lever[parent] = chain.lever[parent] + chain.lever[b]


@wp.kernel
def sum_chains(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    dof_A: wp.array(dtype=wp.spatial_vector),
    body_A: wp.array(dtype=wp.spatial_vector),
    body_f: wp.array(dtype=wp.spatial_vector),
    inertias: int,
    chain: ChainView,
):
    """One thread per tree: quantities for the derivatives by all of its dofs.

    If `inertias` is 0, those are left as they are, from another motion in the same pose.
    """
    t = first + wp.tid()
    start = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    for i in range(start, end):
        j = tree.joint[i]
        differentiate_joint(j, kin.origin[t], joint, kin, qd, dof_A, body_A, chain)
        begin_body(joint.child[j], body, kin, body_A, body_f, inertias, chain)
    for i in range(start, end):
        j = tree.joint[start + end - 1 - i]
        if joint.parent[j] >= 0:
            attach_body(joint.child[j], joint.parent[j], inertias, chain)


@wp.kernel
def differentiate_subspaces(
    first: int,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    dof_A: wp.array(dtype=wp.spatial_vector),
    body_A: wp.array(dtype=wp.spatial_vector),
    chain: ChainView,
):
    """One thread per joint: only Ψ̇, Ψ̈ and Ψ̇ + Ṡ of its dofs."""
    j = first + wp.tid()
    origin = kin.origin[tree.body_tree[joint.child[j]]]
    differentiate_joint(j, origin, joint, kin, qd, dof_A, body_A, chain)


@wp.func
def carries(j: int, j_type: int, first: int, a: int, b: int) -> bool:
    """True if a displacement along dof a of joint j moves the subspace of its dof b."""
    carried = bool(a < b)
    if j_type == JOINT_BALL:
        carried = False
    elif is_floating(j_type):
        carried = a >= first + 3 and b < first + 3
    return carried


@wp.func
def coriolis_wrench(chain: ChainView, b: int, x: wp.spatial_vector) -> wp.spatial_vector:
    """2 B x of the bodies behind b."""
    w = wp.spatial_top(x)
    return wp.spatial_vector(chain.coriolis[b] * w, 2.0 * wp.cross(w, chain.momentum[b]))


@wp.func
def external_change(chain: ChainView, b: int, s: wp.spatial_vector) -> wp.spatial_vector:
    """Change of the external wrench behind body b by a displacement along s: levers change, forces do not."""
    w = wp.spatial_top(s)
    lever = chain.lever[b]
    torque = wp.cross(wp.spatial_bottom(s), chain.push[b]) + lever * w - wp.trace(lever) * w
    return wp.spatial_vector(torque, wp.vec3(0.0, 0.0, 0.0))


@wp.func
def external_wrench(chain: ChainView, b: int) -> wp.spatial_vector:
    """External wrench behind body b about the origin."""
    lever = chain.lever[b]
    arm = wp.vec3(lever[1, 2] - lever[2, 1], lever[2, 0] - lever[0, 2], lever[0, 1] - lever[1, 0])
    return wp.spatial_vector(chain.twist[b] + arm, chain.push[b])


@wp.func
def wrench_change(chain: ChainView, b: int, d: int, s: wp.spatial_vector) -> wp.spatial_vector:
    """Change of the wrench behind body b by a displacement along dof d, projected onto a fixed subspace.

    For a subspace that moves along, the common rotation of both has to be subtracted.
    """
    change = coriolis_wrench(chain, b, chain.rate[d]) + composite_momentum(chain.composite, b, chain.drift[d])
    change = change + cross_force(s, chain.wrench[b] + external_wrench(chain, b))
    return change - external_change(chain, b, s)


@wp.func
def turning_weights(chain: ChainView, b: int, s: wp.spatial_vector) -> wp.vec3:
    """c with s · 2 B x = c · w for every x with the angular part w, of the bodies behind b."""
    turned = wp.cross(chain.momentum[b], wp.spatial_bottom(s))
    return wp.transpose(chain.coriolis[b]) * wp.spatial_top(s) + 2.0 * turned


@wp.func
def carrying_weights(chain: ChainView, b: int, s: wp.spatial_vector) -> wp.vec3:
    """h with h · w = s · (r ×* f - Δ) for every displacement r with the angular part w.

    f is the external wrench behind body b and Δ its change. With Σ (c × f) × s = (Lᵀ - L) s, L = Σ c fᵀ, the
    transposed matrices of both terms cancel.
    """
    w = wp.spatial_top(s)
    lever = chain.lever[b]
    turned = wp.cross(chain.twist[b], w) + wp.cross(chain.push[b], wp.spatial_bottom(s))
    return turned - lever * w + wp.trace(lever) * w


@wp.func_native(
    """
    auto dot = [](const float* x, const float* y) {
        return x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3] + x[4] * y[4] + x[5] * y[5];
    };
    const int* at = index.data + i;
    const size_t block = (size_t)a * by_q.shape[1] * by_q.shape[1];
    for (int k = 0; k < n; ++k) {
        const int e = at[k];
        const float* r = S.data[e].c;
        const float* spin = rate.data[e].c;
        const float turned = weight[0] * spin[0] + weight[1] * spin[1] + weight[2] * spin[2];
        const float swept = weight[0] * r[0] + weight[1] * r[1] + weight[2] * r[2];
        const float carried = carrying[0] * r[0] + carrying[1] * r[1] + carrying[2] * r[2];
        const size_t before = block + (size_t)local.data[e] * by_q.shape[1] + own;
        const size_t behind = block + (size_t)own * by_q.shape[1] + local.data[e];
        by_q.data[before] = dot(r, change.c);
        by_qd.data[before] = dot(r, damping.c);
        by_q.data[behind] = turned + carried + dot(drift.data[e].c, momentum.c);
        by_qd.data[behind] = swept + dot(turn.data[e].c, momentum.c);
    }
    """
)
def project_changes(
    n: int,
    index: wp.array(dtype=int),
    i: int,
    local: wp.array(dtype=int),
    a: int,
    own: int,
    S: wp.array(dtype=wp.spatial_vector),
    rate: wp.array(dtype=wp.spatial_vector),
    drift: wp.array(dtype=wp.spatial_vector),
    turn: wp.array(dtype=wp.spatial_vector),
    change: wp.spatial_vector,
    damping: wp.spatial_vector,
    momentum: wp.spatial_vector,
    weight: wp.vec3,
    carrying: wp.vec3,
    by_q: wp.array3d(dtype=float),
    by_qd: wp.array3d(dtype=float),
):
    """Entries of dof `own` of block a, with the dofs index[i + k], k = 0 .. n - 1, that move its joint.

    Wrenches behind it change by `change` and `damping`. Its own force changes by Ψ̈ and Ψ̇ + Ṡ of the others
    times its `momentum`, and by Ψ̇ and S times `weight` and `carrying`.
    """
    ...


@wp.kernel
def differentiate_forces(
    first: int,
    tree: TreeView,
    joint: JointView,
    dof_joint: wp.array(dtype=int),
    kin: KinematicsView,
    chain: ChainView,
    dof_articulation: wp.array(dtype=int),
    dof_local: wp.array(dtype=int),
    by_q: wp.array3d(dtype=float),
    by_qd: wp.array3d(dtype=float),
):
    """One thread per dof: derivatives of its force by those before it on its chain, and of theirs by it."""
    d = first + wp.tid()
    a = dof_articulation[d]
    b = tree.dof_body[d]
    j = dof_joint[d]
    s = kin.S[d]
    own = dof_local[d]
    row = tree.dof_row[d]
    depth = tree.dof_depth[d]
    change = wrench_change(chain, b, d, s)
    damping = coriolis_wrench(chain, b, s) + composite_momentum(chain.composite, b, chain.turn[d])
    project_changes(
        depth + 1,
        tree.row_dof,
        row,
        dof_local,
        a,
        own,
        kin.S,
        chain.rate,
        chain.drift,
        chain.turn,
        change,
        damping,
        composite_momentum(chain.composite, b, s),
        turning_weights(chain, b, s),
        carrying_weights(chain, b, s),
        by_q,
        by_qd,
    )
    # dofs of one joint, the last ones of the row: some do not move the subspaces of others
    turned = cross_force(s, chain.wrench[b])
    for k in range(depth - (d - joint.qd_start[j]), depth + 1):
        e = tree.row_dof[row + k]
        other = dof_local[e]
        r = kin.S[e]
        if carries(j, joint.type[j], joint.qd_start[j], d, e):
            by_q[a, other, own] = wp.dot(r, change - turned)
        if not carries(j, joint.type[j], joint.qd_start[j], e, d):
            by_q[a, own, other] = by_q[a, own, other] + wp.dot(s, cross_force(r, chain.wrench[b]))


@wp.kernel
def solve_columns(
    teams: Teams,
    tree: TreeView,
    L: wp.array(dtype=float),
    dof_articulation: wp.array(dtype=int),
    dof_local: wp.array(dtype=int),
    scale: float,
    n: int,
    dense: wp.array(dtype=float),
):
    """One team per tree: dense = scale H⁻¹ dense, its rows of blocks of n by n; lanes share columns."""
    team = own_team(teams, wp.tid())
    start = tree.dof_start[team.index]
    end = tree.dof_start[team.index + 1]
    for i in range(start, end):
        d = tree.dof[start + end - 1 - i]
        row = tree.dof_row[d]
        block = n * n * dof_articulation[d]
        own = block + n * dof_local[d]
        for k in range(tree.dof_depth[d]):
            other = block + n * dof_local[tree.row_dof[row + k]]
            lane_axpy(team.lane, lanes(team), n, -L[row + k], dense, own, dense, other)
    for i in range(start, end):
        d = tree.dof[i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        block = n * n * dof_articulation[d]
        own = block + n * dof_local[d]
        lane_scal(team.lane, lanes(team), n, scale * L[row + depth] * L[row + depth], dense, own)
        for k in range(depth):
            other = block + n * dof_local[tree.row_dof[row + k]]
            lane_axpy(team.lane, lanes(team), n, -L[row + k], dense, other, dense, own)


@wp.kernel
def set_identities(
    first: int,
    dof_articulation: wp.array(dtype=int),
    dof_local: wp.array(dtype=int),
    dense: wp.array3d(dtype=float),
):
    """One thread per dof: one on the diagonal."""
    d = first + wp.tid()
    dense[dof_articulation[d], dof_local[d], dof_local[d]] = 1.0
