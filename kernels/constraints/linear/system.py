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
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if mode[c] != ROW_OPEN:
            leaf = rows.contact.leaf[c]
            for side in range(2):
                if leaf[side] >= 0:
                    row = tree.dof_row[leaf[side]]
                    for i in range(tree.dof_depth[leaf[side]] + 1):
                        d = tree.row_dof[row + i]
                        if is_own(team, d % view.dofs):
                            add_force_changes(view, tree, kin.S[d], d, c, side, leaf, depth, change, columns)


@wp.func
def add_force_changes(
    view: ColumnsView,
    tree: TreeView,
    S: wp.spatial_vector,
    d: int,
    c: int,
    side: int,
    leaf: wp.vec2i,
    depth: int,
    change: ContactChangeView,
    columns: wp.array(dtype=float),
):
    """Changes of the force of contact c on one of its bodies, projected onto dof d."""
    n = view.dofs
    at = d * view.width
    for other in range(2):
        if leaf[other] >= 0:
            row = tree.dof_row[leaf[other]]
            for k in range(tree.dof_depth[leaf[other]] + 1):
                e = tree.row_dof[row + k] % n
                wrench = change.force0[c, other * depth + k]
                if side == 1:
                    wrench = change.force1[c, other * depth + k]
                columns[at + e] = columns[at + e] + wp.dot(S, wrench)


@wp.func
def weigh(A: wp.mat33, b: wp.vec3, equations: wp.vec3) -> wp.vec3d:
    """A b, for the rows of A that are used."""
    v = wp.cw_mul(equations, A * b)
    return wp.vec3d(wp.float64(v[0]), wp.float64(v[1]), wp.float64(v[2]))


@wp.func
def wide_dot(a: wp.vec3d, b: wp.vec3) -> wp.float64:
    """a · b in double precision."""
    return a[0] * wp.float64(b[0]) + a[1] * wp.float64(b[1]) + a[2] * wp.float64(b[2])


@wp.func
def equations_of(mode: int) -> wp.vec3:
    """1 for the rows of a contact that are equations, which include the tangential ones if it sticks."""
    rows = wp.vec3(1.0, 0.0, 0.0)
    if mode == ROW_HOLDS:
        rows = wp.vec3(1.0, 1.0, 1.0)
    return rows


@wp.func
def begin_system(
    team: Team, view: ColumnsView, M: wp.array(dtype=wp.float64), columns: wp.array(dtype=float), share: float
):
    """Set the identity and a share of the columns; lanes share the rows."""
    n = view.dofs
    stride = n + view.width
    at = team.index * n * stride
    for i in range(team.lane, n, lanes(team)):
        for j in range(n):
            M[at + i * stride + j] = wp.float64(0.0)
        M[at + i * stride + i] = wp.float64(1.0)
        for c in range(view.width):
            value = share * columns[(team.index * n + i) * view.width + c]
            M[at + i * stride + n + c] = wp.float64(value)


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
    at = team.index * n * stride
    weight = row_weight(rows.dof.delassus[r], rows.dof.softness[r])
    leaf = dof_leaf(rows, r)[0]
    a = tree.dof_axis[leaf]
    row = tree.dof_row[leaf]
    for i in range(tree.dof_depth[leaf] + 1):
        d = tree.row_dof[row + i]
        if is_own(team, d % n):
            own = at + (d % n) * stride
            share = wp.float64(weight) * wp.float64(rows.dof.B[r, i])
            for k in range(tree.dof_depth[leaf] + 1):
                j = own + tree.row_dof[row + k] % n
                M[j] = M[j] + share * wp.float64(rows.dof.B[r, k])
            right = own + n + leaf % n
            M[right] = M[right] - share * wp.float64(change.dof_by_q[r])
            M[right + n] = M[right + n] - share
            if view.kind == BY_JOINT_ACT and a >= 0:
                input = own + 3 * n + a - team.index * view.inputs
                M[input] = M[input] - share * wp.float64(change.dof_by_act[r])


@wp.func
def add_triple_row(
    view: ColumnsView,
    tree: TreeView,
    c: int,
    leaf: wp.vec2i,
    depth: int,
    own: int,
    matrix: wp.vec3d,
    right: wp.vec3d,
    rows: RowsView,
    change: ContactChangeView,
    M: wp.array(dtype=wp.float64),
):
    """Add products with the rows of contact c to the row of the system that begins at `own`."""
    n = view.dofs
    for side in range(2):
        if leaf[side] >= 0:
            row = tree.dof_row[leaf[side]]
            for k in range(tree.dof_depth[leaf[side]] + 1):
                j = own + tree.row_dof[row + k] % n
                at = side * depth + k
                M[j] = M[j] + wide_dot(matrix, rows.contact.B[c, at])
                M[j + n] = M[j + n] - wide_dot(right, change.by_q[c, at])
                M[j + 2 * n] = M[j + 2 * n] - wide_dot(right, change.by_qd[c, at])


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
    at = team.index * n * stride
    leaf = rows.contact.leaf[c]
    everything = wp.vec3(1.0, 1.0, 1.0)
    for side in range(2):
        if leaf[side] >= 0:
            row = tree.dof_row[leaf[side]]
            for i in range(tree.dof_depth[leaf[side]] + 1):
                d = tree.row_dof[row + i]
                if is_own(team, d % n):
                    b = rows.contact.B[c, side * depth + i]
                    matrix = weigh(A, b, everything)
                    right = weigh(A, b, equations)
                    own = at + (d % n) * stride
                    add_triple_row(view, tree, c, leaf, depth, own, matrix, right, rows, change, M)


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
    at = team.index * n * stride
    leaf = rows.contact.leaf[c]
    for side in range(2):
        if leaf[side] >= 0:
            row = tree.dof_row[leaf[side]]
            for i in range(tree.dof_depth[leaf[side]] + 1):
                d = tree.row_dof[row + i]
                if is_own(team, d % n):
                    share = weigh(A, rows.contact.B[c, side * depth + i], equations)
                    own = at + (d % n) * stride
                    subtract_motion(view, tree, c, leaf, depth, own, share, at, rows, agreed, M)


@wp.func
def subtract_motion(
    view: ColumnsView,
    tree: TreeView,
    c: int,
    leaf: wp.vec2i,
    depth: int,
    own: int,
    share: wp.vec3d,
    at: int,
    rows: RowsView,
    agreed: wp.array(dtype=wp.float64),
    M: wp.array(dtype=wp.float64),
):
    """Subtract `share` times the velocity of contact c under the motions from the right side of a row."""
    n = view.dofs
    for side in range(2):
        if leaf[side] >= 0:
            row = tree.dof_row[leaf[side]]
            for k in range(tree.dof_depth[leaf[side]] + 1):
                motion = at + (tree.row_dof[row + k] % n) * (n + view.width) + n
                factor = wide_dot(share, rows.contact.B[c, side * depth + k])
                for x in range(2 * n):
                    M[own + n + x] = M[own + n + x] - factor * agreed[motion + x]


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
    begin_system(team, view, change.agreed, columns, 0.0)
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
    solve_dense(team, n, n + view.width, change.agreed, team.index * n * (n + view.width))
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
    begin_system(team, view, change.dense, columns, 1.0)
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
    solve_dense(team, n, stride, change.dense, at)
    sync(team)
    for i in range(team.lane, n, lanes(team)):
        for c in range(view.width):
            columns[(w * n + i) * view.width + c] = float(change.dense[at + i * stride + n + c])
