"""Projected Gauss-Seidel over constraint rows in energy coordinates.

Cottle, Pang, Stone, "The Linear Complementarity Problem", 1992, chapter 5, with a Coulomb cone as in Jourdan,
Alart, Jean, "A Gauss-Seidel like algorithm to solve frictional contact problems", 1998. The update of the
tangential pair divides by the largest eigenvalue of its 2x2 block, so that friction is exactly opposite to
sliding at a fixed point. Where sweeps converge slowly, Newton's method takes over, see `solve`.

A team updates one row after the other, and each lane handles its own entries of the row; all lanes find the
same impulse and write it.

Stage: constraints, solve
Called by: kernels/constraints/solve/prediction.py, kernels/constraints/solve/sweeps.py
Reads: ContactRowView, DofRowView, PairRowView, SpinRowView, TreeView, centre, z
Writes: ContactRowView, DofRowView, PairRowView, SpinRowView, z
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import lane_row_axpyi, lane_row_doti
from newtonsim.kernels.algebra.teams import Team, lanes, sum_lanes
from newtonsim.kernels.constraints.chains import (
    team_push_row,
    team_push_triple,
    team_row_velocity,
    team_triple_velocity,
)
from newtonsim.kernels.constraints.contact_rows import (
    ContactRowView,
    SpinRowView,
    spin_width,
    weighed_bound,
)
from newtonsim.kernels.constraints.dof_rows import DofRowView
from newtonsim.kernels.constraints.smoothing import relaxed_friction
from newtonsim.kernels.views.model import TreeView
from newtonsim.kernels.views.pair_rows import PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func_native("return b > a ? b : a;")
def larger(a: float, b: float) -> float:
    """The larger of two numbers, in one instruction: unlike `wp.max`, it is a if either is not a number."""
    ...


@wp.func
def dof_velocity(
    team: Team, tree: wp.ref[TreeView], rows: wp.ref[DofRowView], r: int, z: wp.array(dtype=float)
) -> float:
    """J v of a row on one dof."""
    d = rows.source_dof[rows.source[r]]
    n = tree.dof_depth[d] + 1
    own = lane_row_doti(team.lane, lanes(team), n, rows.B, r, 0, tree.row_dof, tree.dof_row[d], z)
    return sum_lanes(team, own)


@wp.func
def push_dof(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[DofRowView],
    r: int,
    impulse: float,
    z: wp.array(dtype=float),
):
    """z += B impulse."""
    d = rows.source_dof[rows.source[r]]
    n = tree.dof_depth[d] + 1
    lane_row_axpyi(team.lane, lanes(team), n, impulse, rows.B, r, 0, tree.row_dof, tree.dof_row[d], z)


@wp.func
def target_impulse(
    v: float,
    old: float,
    delassus: float,
    softness: float,
    target: wp.vec2,
    bounds: wp.vec2,
) -> float:
    """Impulse that brings the velocity v, reached with the impulse `old`, into the target interval.

    There is an impulse only where the velocity without one leaves the interval, which covers both equalities
    and one-sided rows. Softness c shifts the target velocity by -c times the impulse.
    """
    free = v - delassus * old
    goal = wp.clamp(free, target[0], target[1])
    return wp.clamp((goal - free) / (delassus + softness), bounds[0], bounds[1])


@wp.func
def hard_limit(rows: wp.ref[DofRowView], r: int) -> int:
    """Row of the hard limits of the dof that row r drives, or -1."""
    limit = int(-1)
    candidate = rows.source_limit[rows.source[r]]
    if candidate >= 0 and rows.softness[r] > 0.0:
        limit = rows.place[candidate]
        if limit >= 0:
            if rows.softness[limit] > 0.0:
                limit = -1
    return limit


@wp.func
def relax_drive(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[DofRowView],
    r: int,
    limit: int,
    z: wp.array(dtype=float),
) -> float:
    """Solve a drive and the hard limits of its dof together; returns the velocity change.

    One after the other, a soft drive of a light link would take back in every sweep nearly all that the
    limit had taken, and neither would come to its end.
    """
    delassus = rows.delassus[r]
    softness = rows.softness[r]
    aim = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    old = rows.impulse[r]
    pushed = rows.impulse[limit]
    free = dof_velocity(team, tree, rows, r, z) - delassus * (old + pushed)
    new = target_impulse(free, 0.0, delassus, softness, aim, bounds)
    reached = free + delassus * new
    allowed = wp.clamp(reached, rows.target_lower[limit], rows.target_upper[limit])
    push = float(0.0)
    if allowed != reached:
        # at a limit, the drive has the effort of that velocity, and the limit takes what is left
        new = wp.clamp((wp.clamp(allowed, aim[0], aim[1]) - allowed) / softness, bounds[0], bounds[1])
        push = (allowed - free) / delassus - new
    change = (new - old) + (push - pushed)
    rows.impulse[r] = new
    rows.impulse[limit] = push
    if change != 0.0:
        push_dof(team, tree, rows, r, change, z)
    return wp.abs(change) * delassus


@wp.func
def relax_dof(
    team: Team, tree: wp.ref[TreeView], rows: wp.ref[DofRowView], r: int, z: wp.array(dtype=float)
) -> float:
    """One Gauss-Seidel update of a row on one dof; returns the velocity change."""
    limit = hard_limit(rows, r)
    if limit >= 0 and rows.delassus[r] > 0.0:
        return relax_drive(team, tree, rows, r, limit, z)
    old = rows.impulse[r]
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    v = dof_velocity(team, tree, rows, r, z)
    new = target_impulse(v, old, rows.delassus[r], rows.softness[r], target, bounds)
    if new != old:
        rows.impulse[r] = new
        push_dof(team, tree, rows, r, new - old, z)
    return wp.abs(new - old) * rows.delassus[r]


@wp.func(inline=False)
def relax_pair(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[PairRowView],
    r: int,
    depth: int,
    z: wp.array(dtype=float),
) -> float:
    """One Gauss-Seidel update of a row between two bodies or dofs; returns the velocity change."""
    if rows.delassus[r] <= 0.0:
        return 0.0
    old = rows.impulse[r]
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    v = team_row_velocity(team, tree, rows.leaf[r], r, depth, rows.B, z)
    new = target_impulse(v, old, rows.delassus[r], rows.softness[r], target, bounds)
    if new != old:
        rows.impulse[r] = new
        team_push_row(team, tree, rows.leaf[r], r, depth, new - old, rows.B, z)
    return wp.abs(new - old) * rows.delassus[r]


@wp.func
def limit_friction(t: wp.vec2, bound: float, pyramidal: bool) -> wp.vec2:
    """Nearest tangential impulse within the cone's cross-section."""
    # the root is only taken of what slides
    square = wp.length_sq(t)
    limited = t
    if pyramidal:
        limited = wp.vec2(wp.clamp(t[0], -bound, bound), wp.clamp(t[1], -bound, bound))
    elif square > bound * bound:
        limited = t * (bound / wp.sqrt(square))
    return limited


@wp.func(inline=False)
def soften_friction(t: wp.vec2, bound: float, width: float, delassus: float, pyramidal: bool) -> wp.vec2:
    """Tangential impulse of softened friction, given the impulse t that would leave no slip."""
    softened = t * relaxed_friction(wp.length(t), bound, width, delassus)
    if pyramidal:
        softened = wp.vec2(
            t[0] * relaxed_friction(wp.abs(t[0]), bound, width, delassus),
            t[1] * relaxed_friction(wp.abs(t[1]), bound, width, delassus),
        )
    return softened


@wp.func
def relax_contact(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[ContactRowView],
    c: int,
    depth: int,
    pyramidal: bool,
    share: float,
    centre: wp.array(dtype=wp.vec3),
    z: wp.array(dtype=float),
) -> float:
    """Update the normal row, then both tangential rows; returns the largest velocity change.

    If `share` is above 0, the row is softened about `centre` by that share of its weight, and the velocity
    error due to this counts as change.
    """
    old = rows.impulse[c]
    delassus = rows.delassus[c]
    if delassus[0] <= 0.0:
        return 0.0
    softness = rows.softness[c]
    v = team_triple_velocity(team, tree, rows.leaf[c], c, depth, rows.B, z)
    # after the sum, before which all lanes have written targets and centres
    error = rows.target[c] - v
    width = rows.slip_width[c]
    R = wp.vec2(0.0, 0.0)
    if share > 0.0:
        R = share * rows.weight[c]
        if width > 0.0:
            R[1] = 0.0
        away = old - centre[c]
        error = error - wp.vec3(R[0] * away[0], R[1] * away[1], R[1] * away[2])
    elif error[0] <= 0.0 and old[0] == 0.0 and old[1] == 0.0 and old[2] == 0.0:
        # the contact separates and exerts no impulse
        return 0.0
    normal = wp.max(0.0, old[0] + (error[0] - softness * old[0]) / (delassus[0] + softness + R[0]))
    change = normal - old[0]
    bound = rows.friction[c] * normal
    t = wp.vec2(old[1], old[2])
    if delassus[1] > 0.0 and (bound > 0.0 or wp.length_sq(t) > 0.0):
        slip = rows.coupling[c] * change - wp.vec2(error[1], error[2])
        t = t - slip / (delassus[1] + R[1])
        if width > 0.0:
            t = soften_friction(t, bound, width, delassus[1], pyramidal)
        else:
            stretch = rows.stretch[c]
            if stretch[0] != stretch[1]:
                bound = weighed_bound(t, bound, stretch)
            t = limit_friction(t, bound, pyramidal)
    new = wp.vec3(normal, t[0], t[1])
    step = new - old
    if step[0] != 0.0 or step[1] != 0.0 or step[2] != 0.0:
        rows.impulse[c] = new
        team_push_triple(team, tree, rows.leaf[c], c, depth, step, rows.B, z)
    tangential = larger(wp.abs(step[1]), wp.abs(step[2])) * (delassus[1] + R[1])
    most = larger(wp.abs(change) * (delassus[0] + R[0]), tangential)
    if share > 0.0:
        left = new - centre[c]
        most = larger(most, R[0] * wp.abs(left[0]))
        most = larger(most, R[1] * larger(wp.abs(left[1]), wp.abs(left[2])))
    return most


@wp.func(inline=False)
def relax_spin(
    team: Team,
    tree: wp.ref[TreeView],
    contact: wp.ref[ContactRowView],
    rows: wp.ref[SpinRowView],
    c: int,
    depth: int,
    pyramidal: bool,
    z: wp.array(dtype=float),
) -> float:
    """Update the torsional row, then both rolling rows of a contact; returns the velocity change [rad/s]."""
    old = rows.impulse[c]
    delassus = rows.delassus[c]
    normal = contact.impulse[c][0]
    if normal <= 0.0 and wp.length_sq(old) == 0.0:
        return 0.0
    error = rows.target[c] - team_triple_velocity(team, tree, contact.leaf[c], c, depth, rows.B, z)
    torsion = old[0]
    if delassus[0] > 0.0:
        bound = rows.torsion[c] * normal
        turn_width = spin_width(contact.slip_width[c], rows.torsion[c])
        torsion = old[0] + error[0] / delassus[0]
        if turn_width > 0.0:
            torsion *= relaxed_friction(wp.abs(torsion), bound, turn_width, delassus[0])
        else:
            torsion = wp.clamp(torsion, -bound, bound)
    change = torsion - old[0]
    t = wp.vec2(old[1], old[2])
    if delassus[1] > 0.0:
        turn = rows.coupling[c] * change - wp.vec2(error[1], error[2])
        t = t - turn / delassus[1]
        roll_width = spin_width(contact.slip_width[c], rows.rolling[c])
        if roll_width > 0.0:
            t = soften_friction(t, rows.rolling[c] * normal, roll_width, delassus[1], pyramidal)
        else:
            t = limit_friction(t, rows.rolling[c] * normal, pyramidal)
    new = wp.vec3(torsion, t[0], t[1])
    step = new - old
    rows.impulse[c] = new
    team_push_triple(team, tree, contact.leaf[c], c, depth, step, rows.B, z)
    tangential = wp.max(wp.abs(step[1]), wp.abs(step[2])) * delassus[1]
    return wp.max(wp.abs(change) * delassus[0], tangential)
