"""Derivatives of the velocity after a step by all its inputs, with the rows that act.

In energy coordinates the implicit function theorem gives, for all columns x at once,

    (1 + B Mᵀ Bᵀ) ζ = D^(-1/2) L^(-T) b - B Mᵀ e,

where b are the columns of the force balance (`balance`), e the changes of the rows at a given velocity after
the step (`contacts`, and `selection` for rows on dofs), and M their weights as in
`constraints.adjoint.solve`. The system is the transpose of the one there. It is dense, and is solved by one
elimination in double precision.

If several rigid contacts of a world act and one slides, the normal velocities that redundant contacts require
must not contradict each other due to rounding, since friction would turn this into motion. The part of e that
no motion can produce is therefore removed first, by least squares, see
`constraints.adjoint.solve.share_multipliers`.

Stage: linear models of steps, solve
Called by: solvers/featherstone/linear_model.py
Reads: ColumnsView, ContactChangeView, ContactView, KinematicsView, RowAdjointView, RowChangeView, RowsView,
    Teams, TreeView, mode, weights
Writes: RowChangeView, columns
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.dense import solve_dense
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, sync
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.modes import (
    ROW_HOLDS,
    ROW_OPEN,
    RowAdjointView,
)
from newtonsim.kernels.constraints.adjoint.solve import is_rigid
from newtonsim.kernels.constraints.adjoint.system import row_weight
from newtonsim.kernels.constraints.laws import dof_leaf
from newtonsim.kernels.constraints.linear.balance import BY_JOINT_ACT, ColumnsView
from newtonsim.kernels.constraints.linear.contacts import ContactChangeView
from newtonsim.kernels.constraints.linear.selection import RowChangeView
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.views.model import KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def is_own(team: Team, row: int) -> bool:
    """True for the rows of a system that belong to a lane."""
    return row % lanes(team) == team.lane


@wp.func_native(
    """
    const int* at = index.data + i;
    const wp::spatial_vector* wrenches = wrench.data + (size_t)c * wrench.shape[1] + first;
    float* to = columns.data + own;
    for (int k = 0; k < n; ++k) {
        float total = 0.0f;
        for (int r = 0; r < 6; ++r) total += S[r] * wrenches[k][r];
        to[at[k] - base] += total;
    }
    """
)
def add_wrenches(
    n: int,
    index: wp.array(dtype=int),
    i: int,
    base: int,
    S: wp.spatial_vector,
    wrench: wp.array2d(dtype=wp.spatial_vector),
    c: int,
    first: int,
    columns: wp.array(dtype=float),
    own: int,
):
    """columns[own + index[i + k] - base] += S · wrench[c, first + k]."""
    ...


@wp.kernel
def add_contact_forces(
    teams: Teams,
    view: ColumnsView,
    tree: TreeView,
    kin: KinematicsView,
    contacts: ContactView,
    rows: RowsView,
    mode: wp.array(dtype=int),
    depth: int,
    change: ContactChangeView,
    columns: wp.array(dtype=float),
):
    """One team per world: add the changes of contact forces to the balance; lanes share dofs."""
    team = own_team(teams, wp.tid())
    w = team.index
    base = w * view.dofs
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if mode[c] != ROW_OPEN:
            leaf = rows.contact.leaf[c]
            for side in range(2):
                if leaf[side] >= 0:
                    row = tree.dof_row[leaf[side]]
                    for i in range(tree.dof_depth[leaf[side]] + 1):
                        d = tree.row_dof[row + i]
                        if is_own(team, d - base):
                            add_force_changes(
                                view, tree, kin.S[d], d, base, c, side, leaf, depth, change, columns
                            )


@wp.func
def add_force_changes(
    view: ColumnsView,
    tree: TreeView,
    S: wp.spatial_vector,
    d: int,
    base: int,
    c: int,
    side: int,
    leaf: wp.vec2i,
    depth: int,
    change: ContactChangeView,
    columns: wp.array(dtype=float),
):
    """Changes of the force of contact c on one of its bodies, projected onto dof d."""
    at = d * view.width
    for other in range(2):
        if leaf[other] >= 0:
            row = tree.dof_row[leaf[other]]
            count = tree.dof_depth[leaf[other]] + 1
            if side == 0:
                add_wrenches(count, tree.row_dof, row, base, S, change.force0, c, other * depth, columns, at)
            else:
                add_wrenches(count, tree.row_dof, row, base, S, change.force1, c, other * depth, columns, at)


@wp.func
def weigh(A: wp.mat33, b: wp.vec3, equations: wp.vec3) -> wp.vec3d:
    """A b, for the rows of A that are used."""
    v = wp.cw_mul(equations, A * b)
    return wp.vec3d(wp.float64(v[0]), wp.float64(v[1]), wp.float64(v[2]))


@wp.func
def equations_of(mode: int) -> wp.vec3:
    """1 for the rows of a contact that are equations, which include the tangential ones if it sticks."""
    rows = wp.vec3(1.0, 0.0, 0.0)
    if mode == ROW_HOLDS:
        rows = wp.vec3(1.0, 1.0, 1.0)
    return rows


@wp.func_native(
    """
    double* row = M.data + to;
    const float* right = columns.data + source;
    for (int c = 0; c < n + count; ++c) row[c] = 0.0;
    row[i] = 1.0;
    if (share != 0.0f)
        for (int c = 0; c < count; ++c) row[n + c] = share * right[c];
    """
)
def begin_row(
    i: int,
    n: int,
    count: int,
    columns: wp.array(dtype=float),
    source: int,
    share: float,
    M: wp.array(dtype=wp.float64),
    to: int,
):
    """Row i of the identity, and its right-hand sides: a share of `count` columns."""
    ...


@wp.func_native(
    """
    const double* from = M.data + i;
    float* to = columns.data + j;
    for (int c = 0; c < count; ++c) to[c] = (float)from[c];
    """
)
def take_row(count: int, M: wp.array(dtype=wp.float64), i: int, columns: wp.array(dtype=float), j: int):
    """columns[j + c] = M[i + c] in single precision."""
    ...


@wp.func
def begin_system(
    team: Team,
    view: ColumnsView,
    count: int,
    M: wp.array(dtype=wp.float64),
    columns: wp.array(dtype=float),
    share: float,
):
    """Set the identity and a share of the first `count` columns; lanes share the rows."""
    n = view.dofs
    stride = n + view.width
    for i in range(team.lane, n, lanes(team)):
        row = team.index * n + i
        begin_row(i, n, count, columns, row * view.width, share, M, row * stride)


@wp.func
def add_dof_row(
    team: Team,
    view: ColumnsView,
    tree: TreeView,
    r: int,
    rows: RowsView,
    change: RowChangeView,
    M: wp.array(dtype=wp.float64),
):
    """Add a row on one dof to the system and to its right-hand sides."""
    n = view.dofs
    stride = n + view.width
    base = team.index * n
    at = base * stride
    weight = row_weight(rows.dof.delassus[r], rows.dof.softness[r])
    leaf = dof_leaf(rows, r)[0]
    a = tree.dof_axis[leaf]
    row = tree.dof_row[leaf]
    for i in range(tree.dof_depth[leaf] + 1):
        d = tree.row_dof[row + i]
        if is_own(team, d - base):
            own = at + (d - base) * stride
            share = wp.float64(weight) * wp.float64(rows.dof.B[r, i])
            for k in range(tree.dof_depth[leaf] + 1):
                j = own + tree.row_dof[row + k] - base
                M[j] = M[j] + share * wp.float64(rows.dof.B[r, k])
            right = own + n + leaf - base
            M[right] = M[right] - share * wp.float64(change.dof_by_q[r])
            M[right + n] = M[right + n] - share
            if view.kind == BY_JOINT_ACT and a >= 0:
                input = own + 3 * n + a - team.index * view.inputs
                M[input] = M[input] - share * wp.float64(change.dof_by_act[r])


@wp.func_native(
    """
    auto dot = [](wp::vec3d a, wp::vec3 b) {
        return a[0] * (double)b[0] + a[1] * (double)b[1] + a[2] * (double)b[2];
    };
    const int* at = index.data + i;
    const wp::vec3* b = B.data + (size_t)c * B.shape[1] + first;
    double* to = M.data + own;
    for (int k = 0; k < count; ++k) to[at[k] - base] += dot(matrix, b[k]);
    if (right[0] == 0.0 && right[1] == 0.0 && right[2] == 0.0) return;
    const wp::vec3* q = by_q.data + (size_t)c * by_q.shape[1] + first;
    const wp::vec3* qd = by_qd.data + (size_t)c * by_qd.shape[1] + first;
    for (int k = 0; k < count; ++k) {
        double* column = to + n + at[k] - base;
        column[0] -= dot(right, q[k]);
        column[n] -= dot(right, qd[k]);
    }
    """
)
def add_products(
    count: int,
    index: wp.array(dtype=int),
    i: int,
    base: int,
    n: int,
    matrix: wp.vec3d,
    right: wp.vec3d,
    B: wp.array2d(dtype=wp.vec3),
    by_q: wp.array2d(dtype=wp.vec3),
    by_qd: wp.array2d(dtype=wp.vec3),
    c: int,
    first: int,
    M: wp.array(dtype=wp.float64),
    own: int,
):
    """Add matrix · B[c, first + k], and subtract right · by_q and by_qd, in the columns of index[i + k]."""
    ...


@wp.func_native(
    """
    const int* at = index.data + i;
    const wp::vec3* b = B.data + (size_t)c * B.shape[1] + first;
    double* to = M.data + own + n;
    // as many columns as `sum` has entries, from x on
    auto subtract = [&](auto sum, int x) {
        auto motion = sum;
        memcpy(&sum, to + x, sizeof(sum));
        for (int k = 0; k < count; ++k) {
            double factor = share[0] * (double)b[k][0];
            factor += share[1] * (double)b[k][1] + share[2] * (double)b[k][2];
            memcpy(&motion, agreed.data + (size_t)at[k] * stride + n + x, sizeof(motion));
            sum -= factor * motion;
        }
        memcpy(to + x, &sum, sizeof(sum));
    };
    int x = 0;
#if !defined(__CUDA_ARCH__)
    typedef double many __attribute__((vector_size(16 * sizeof(double))));
    typedef double few __attribute__((vector_size(4 * sizeof(double))));
    for (; x + 16 <= 2 * n; x += 16) subtract(many(), x);
    for (; x + 4 <= 2 * n; x += 4) subtract(few(), x);
#endif
    for (; x < 2 * n; ++x) subtract(0.0, x);
    """
)
def subtract_products(
    count: int,
    index: wp.array(dtype=int),
    i: int,
    n: int,
    stride: int,
    share: wp.vec3d,
    B: wp.array2d(dtype=wp.vec3),
    c: int,
    first: int,
    agreed: wp.array(dtype=wp.float64),
    M: wp.array(dtype=wp.float64),
    own: int,
):
    """Subtract `share` times the velocity of contact c under the motions from the right side of a row."""
    ...


@wp.func
def add_contact(
    team: Team,
    view: ColumnsView,
    tree: TreeView,
    c: int,
    A: wp.mat33,
    equations: wp.vec3,
    depth: int,
    rows: RowsView,
    change: ContactChangeView,
    M: wp.array(dtype=wp.float64),
):
    """Add a contact with the weights A, and its changes for the rows in `equations`."""
    n = view.dofs
    stride = n + view.width
    base = team.index * n
    leaf = rows.contact.leaf[c]
    everything = wp.vec3(1.0, 1.0, 1.0)
    for side in range(2):
        if leaf[side] >= 0:
            row = tree.dof_row[leaf[side]]
            for i in range(tree.dof_depth[leaf[side]] + 1):
                d = tree.row_dof[row + i]
                if is_own(team, d - base):
                    b = rows.contact.B[c, side * depth + i]
                    matrix = weigh(A, b, everything)
                    right = weigh(A, b, equations)
                    for other in range(2):
                        if leaf[other] >= 0:
                            add_products(
                                tree.dof_depth[leaf[other]] + 1,
                                tree.row_dof,
                                tree.dof_row[leaf[other]],
                                base,
                                n,
                                matrix,
                                right,
                                rows.contact.B,
                                change.by_q,
                                change.by_qd,
                                c,
                                other * depth,
                                M,
                                d * stride,
                            )


@wp.func
def take_agreed(
    team: Team,
    view: ColumnsView,
    tree: TreeView,
    c: int,
    A: wp.mat33,
    equations: wp.vec3,
    depth: int,
    rows: RowsView,
    agreed: wp.array(dtype=wp.float64),
    M: wp.array(dtype=wp.float64),
):
    """Subtract the changes that the motion `agreed` produces in the equations of a rigid contact."""
    n = view.dofs
    stride = n + view.width
    base = team.index * n
    leaf = rows.contact.leaf[c]
    for side in range(2):
        if leaf[side] >= 0:
            row = tree.dof_row[leaf[side]]
            for i in range(tree.dof_depth[leaf[side]] + 1):
                d = tree.row_dof[row + i]
                if is_own(team, d - base):
                    share = weigh(A, rows.contact.B[c, side * depth + i], equations)
                    for other in range(2):
                        if leaf[other] >= 0:
                            subtract_products(
                                tree.dof_depth[leaf[other]] + 1,
                                tree.row_dof,
                                tree.dof_row[leaf[other]],
                                n,
                                stride,
                                share,
                                rows.contact.B,
                                c,
                                other * depth,
                                agreed,
                                M,
                                d * stride,
                            )


@wp.func
def agree(
    team: Team,
    view: ColumnsView,
    tree: TreeView,
    contacts: ContactView,
    rows: RowsView,
    adj: RowAdjointView,
    depth: int,
    change: RowChangeView,
    contact: ContactChangeView,
    columns: wp.array(dtype=float),
):
    """Find the negative motions that best match the changes required by the equations of rigid contacts."""
    begin_system(team, view, 2 * view.dofs, change.agreed, columns, 0.0)
    c0 = contacts.world_start[team.index]
    for c in range(c0, c0 + contacts.world_count[team.index]):
        if is_rigid(rows, c, adj):
            weight = row_weight(rows.contact.delassus[c][0], 0.0)
            slide = row_weight(rows.contact.delassus[c][1], 0.0)
            equations = equations_of(adj.contact_mode[c])
            A = wp.diag(wp.cw_mul(equations, wp.vec3(weight, slide, slide)))
            add_contact(team, view, tree, c, A, equations, depth, rows, contact, change.agreed)
    sync(team)
    n = view.dofs
    stride = n + view.width
    solve_dense(team, n, 2 * n, stride, change.agreed, team.index * n * stride)
    sync(team)


@wp.kernel
def solve_columns(
    teams: Teams,
    view: ColumnsView,
    tree: TreeView,
    contacts: ContactView,
    rows: RowsView,
    adj: RowAdjointView,
    depth: int,
    contact: ContactChangeView,
    weights: wp.array(dtype=wp.mat33),
    change: RowChangeView,
    columns: wp.array(dtype=float),
):
    """One team per world: replace the right-hand side by ζ, where a row acts.

    Args:
        teams: The teams.
        view: Sizes.
        tree: Topology.
        contacts: Contacts of the step.
        rows: Rows as the step solved them.
        adj: What they are.
        depth: Longest chain of dofs.
        contact: Changes of contacts.
        weights: Weights of contacts.
        change: Changes of other rows, and room for the systems.
        columns: Right-hand side, and solution.
    """
    team = own_team(teams, wp.tid())
    w = team.index
    if change.count[w] == 0:
        return
    shared = change.shared[w] == 1
    if shared:
        agree(team, view, tree, contacts, rows, adj, depth, change, contact, columns)
    begin_system(team, view, view.width, change.dense, columns, 1.0)
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        if adj.dof_mode[r] == ROW_HOLDS and rows.dof.delassus[r] > 0.0:
            add_dof_row(team, view, tree, r, rows, change, change.dense)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if adj.contact_mode[c] != ROW_OPEN:
            A = weights[c]
            left_out = wp.vec3(0.0, 0.0, 0.0)
            if shared and is_rigid(rows, c, adj):
                left_out = equations_of(adj.contact_mode[c])
                take_agreed(team, view, tree, c, A, -left_out, depth, rows, change.agreed, change.dense)
            taken = wp.vec3(1.0, 1.0, 1.0) - left_out
            add_contact(team, view, tree, c, A, taken, depth, rows, contact, change.dense)
    sync(team)
    n = view.dofs
    stride = n + view.width
    at = w * n * stride
    solve_dense(team, n, view.width, stride, change.dense, at)
    sync(team)
    for i in range(team.lane, n, lanes(team)):
        row = w * n + i
        take_row(view.width, change.dense, row * stride + n, columns, row * view.width)
