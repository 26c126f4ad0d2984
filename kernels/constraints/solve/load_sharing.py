"""Load sharing between redundant contacts.

Stiff bodies distribute the load with the least sum of squares, since all points are equally stiff. The rows
do not determine the distribution, so that the result of sweeps is arbitrary, see `even_out`.

Stage: constraints, solve
Called by: kernels/constraints/solve/solve.py
Reads: ContactView, IslandView, RowsView, SolveViews, TreeView
Writes: SolveViews
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, sync
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.chains import team_push_triple
from newtonsim.kernels.constraints.contact_rows import CONTACT_RIGID, moves_singles, tangent_of
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.views import SolveViews
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# cosine between normals of contacts that share a load
SAME_NORMAL = wp.constant(0.95)
# squared velocity that an impulse along a normal gives the joints behind a root, over all that it gives,
# below which it is rounding; and squared width of points that count as collinear, over that of their length
BY_JOINTS = wp.constant(1.0e-6)
ON_A_LINE = wp.constant(1.0e-4)
# share of the moment of a link's load that a step leaves to its joints
TO_JOINTS = wp.constant(0.2)
# least change of an impulse that is applied, over the mean of the impulses that share the load
UNEVEN = wp.constant(1.0e-2)


@wp.func
def is_of_manifold(contacts: wp.ref[ContactView], c: int, e: int) -> bool:
    """True if two contacts belong to one manifold."""
    return (
        contacts.pair[c] == contacts.pair[e] and wp.dot(contacts.normal[c], contacts.normal[e]) > SAME_NORMAL
    )


@wp.func
def bears_root(tree: wp.ref[TreeView], rows: wp.ref[RowsView], c: int, depth: int) -> bool:
    """True if the normal impulse of a contact acts on the roots of its trees, but not on other joints."""
    rest = float(0.0)
    leaf = rows.contact.leaf[c]
    for side in range(2):
        if leaf[side] >= 0:
            row = tree.dof_row[leaf[side]]
            head = tree.dof_body[tree.row_dof[row]]
            for k in range(tree.dof_depth[leaf[side]] + 1):
                if tree.dof_body[tree.row_dof[row + k]] != head:
                    entry = rows.contact.B[c, side * depth + k][0]
                    rest += entry * entry
    return rest <= BY_JOINTS * rows.contact.delassus[c][0]


@wp.func
def tree_of(tree: wp.ref[TreeView], leaf: int) -> int:
    """Tree of a dof, or -1."""
    t = int(-1)
    if leaf >= 0:
        t = tree.body_tree[tree.dof_body[leaf]]
    return t


@wp.func
def between_same(tree: wp.ref[TreeView], rows: wp.ref[RowsView], c: int, e: int) -> bool:
    """True if two contacts are between the same trees."""
    one = rows.contact.leaf[c]
    other = rows.contact.leaf[e]
    return tree_of(tree, one[0]) == tree_of(tree, other[0]) and tree_of(tree, one[1]) == tree_of(
        tree, other[1]
    )


@wp.func(inline=False)
def end_of_group(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    islands: wp.ref[IslandView],
    i: int,
    last: int,
    depth: int,
    rooted: bool,
) -> int:
    """End of the contacts of an island, from place i on, that share a load as between two rigid bodies.

    These are the contacts of a manifold and, if the first one is `rooted`, those of all links that bear the
    same root, like wheels.
    """
    first = islands.contact[i]
    normal = contacts.normal[first]
    end = i + 1
    more = bool(True)
    while more and end < last:
        e = islands.contact[end]
        more = is_of_manifold(contacts, first, e)
        if rooted and not more and wp.dot(normal, contacts.normal[e]) > SAME_NORMAL:
            more = between_same(tree, rows, first, e) and bears_root(tree, rows, e, depth)
        end += int(more)
    return end


@wp.func
def can_bear(rows: wp.ref[RowsView], c: int, loaded: bool) -> bool:
    """True if contact c is rigid and closed, and has an impulse if it has to be `loaded`."""
    closed = rows.contact.soft[c] == CONTACT_RIGID and rows.contact.impact[c][1] >= 0.0
    return closed and (not loaded or rows.contact.impulse[c][0] > 0.0)


@wp.struct
class LoadShare:
    """Normal impulses that are an affine function of the position."""

    mean: float  # [N s]
    slope: wp.vec3  # [N s/m]
    middle: wp.vec3  # [m]
    step: float  # largest share of the change that leaves no impulse negative
    most: float  # largest change of an impulse without that limit [N s]


@wp.func(inline=False)
def fit_load(
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    islands: wp.ref[IslandView],
    i: int,
    end: int,
    loaded: bool,
    kept: float,
) -> LoadShare:
    """Least-squares fit to the normal impulses of a group of contacts that keeps a share of their moment."""
    fit = LoadShare()
    points = int(0)
    for j in range(i, end):
        c = islands.contact[j]
        if can_bear(rows, c, loaded):
            points += 1
            fit.mean += rows.contact.impulse[c][0]
            fit.middle += rows.contact.place[c]
    count = wp.max(float(points), 1.0)
    fit.mean = fit.mean / count
    fit.middle = fit.middle / count
    normal = contacts.normal[islands.contact[i]]
    t1 = tangent_of(normal)
    t2 = wp.cross(normal, t1)
    spread = wp.vec3(0.0, 0.0, 0.0)
    moment = wp.vec2(0.0, 0.0)
    for j in range(i, end):
        c = islands.contact[j]
        if can_bear(rows, c, loaded):
            d = rows.contact.place[c] - fit.middle
            x = wp.vec2(wp.dot(t1, d), wp.dot(t2, d))
            spread += wp.vec3(x[0] * x[0], x[0] * x[1], x[1] * x[1])
            moment += rows.contact.impulse[c][0] * x
    # along the principal axes; collinear points do not determine the other direction
    angle = 0.5 * wp.atan2(2.0 * spread[1], spread[0] - spread[2])
    along = wp.vec2(wp.cos(angle), wp.sin(angle))
    half = 0.5 * (spread[0] + spread[2])
    more = wp.length(wp.vec2(0.5 * (spread[0] - spread[2]), spread[1]))
    if half + more > 0.0:
        fit.slope = wp.dot(moment, along) / (half + more) * (along[0] * t1 + along[1] * t2)
    if half - more > ON_A_LINE * (half + more):
        across = wp.vec2(-along[1], along[0])
        fit.slope += wp.dot(moment, across) / (half - more) * (across[0] * t1 + across[1] * t2)
    fit.slope = kept * fit.slope
    fit.step = 1.0
    for j in range(i, end):
        c = islands.contact[j]
        if can_bear(rows, c, loaded):
            p = rows.contact.impulse[c][0]
            new = fit.mean + wp.dot(fit.slope, rows.contact.place[c] - fit.middle)
            fit.most = wp.max(fit.most, wp.abs(new - p))
            if new < 0.0:
                fit.step = wp.min(fit.step, p / (p - new))
    return fit


@wp.func(inline=False)
def share_load(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    i: int,
    end: int,
    loaded: bool,
    depth: int,
    fit: LoadShare,
):
    """Replace the normal impulses of a group of contacts, and their centres, by those of a fit."""
    for j in range(i, end):
        c = views.islands.contact[j]
        if can_bear(views.rows, c, loaded):
            old = views.rows.contact.impulse[c]
            new = fit.mean + wp.dot(fit.slope, views.rows.contact.place[c] - fit.middle)
            change = wp.vec3(fit.step * (new - old[0]), 0.0, 0.0)
            centre = views.laws.centre.contact[c]
            sync(team)
            views.rows.contact.impulse[c] = wp.vec3(wp.max(0.0, old[0] + change[0]), old[1], old[2])
            views.laws.centre.contact[c] = centre + change
            team_push_triple(
                team, tree, views.rows.contact.leaf[c], c, depth, change, views.rows.contact.B, views.newton.z
            )


@wp.func(inline=False)
def even_out(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    contacts: wp.ref[ContactView],
    k: int,
    depth: int,
    solved: bool,
) -> bool:
    """Share the load of each group of contacts as slightly elastic bodies do; True if any impulse changed.

    Of all distributions of a load over redundant points, stiff bodies have the one with the least sum of
    squares, since all points are equally stiff: the impulses are then an affine function of the position.
    Force and moment do not change, and thus neither do the velocities. The rows do not determine the
    distribution: under changing loads, the impulses of the points would drift, until an object in a hand
    turns about one corner, or a car stands on two wheels. The loads of single bodies, which come to rest, are
    distributed only when they are new.

    Joints may take the moment of a link; therefore, some of it is left to them before the rows are `solved`.
    """
    changed = bool(False)
    touches = views.islands.contacts[k]
    i = touches[0]
    while i < touches[1]:
        first = views.islands.contact[i]
        single = moves_singles(tree, views.rows.contact.leaf[first])
        rooted = not single and bears_root(tree, views.rows, first, depth)
        end = end_of_group(tree, views.rows, contacts, views.islands, i, touches[1], depth, rooted)
        before = float(0.0)
        for j in range(i, end):
            before += views.laws.centre.contact[views.islands.contact[j]][0]
        kept = float(1.0)
        if not (solved or single or rooted):
            kept = wp.where(before == 0.0, 0.0, 1.0 - TO_JOINTS)
        if end > i + 1 and (before == 0.0 or not single):
            loaded = bool(False)
            fit = fit_load(views.rows, contacts, views.islands, i, end, loaded, kept)
            if fit.step <= 0.0:
                # a contact without load that would have to pull does not touch
                loaded = True
                fit = fit_load(views.rows, contacts, views.islands, i, end, loaded, kept)
            if fit.step * fit.most > UNEVEN * fit.mean:
                changed = True
                share_load(team, tree, views, i, end, loaded, depth, fit)
        i = end
    return changed
