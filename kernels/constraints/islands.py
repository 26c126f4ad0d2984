"""Islands of a world: kinematic trees that constraint rows couple, with their rows.

Islands do not interact within a step, so each is solved with as many iterations as it needs. They are the
connected components of the graph whose nodes are trees and whose edges are rows between two trees. A
union-find algorithm finds them (Tarjan, "Efficiency of a good but not linear set union algorithm", 1975).

Stage: constraints, before the solve
Called by: kernels/constraints/adjoint/, kernels/constraints/laws.py, kernels/constraints/solve/
Reads: ContactView, ImpulseView, IslandView, RowsView, TreeView, source
Writes: ImpulseView, IslandView, target
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, sync
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class IslandView:
    """Trees and rows in the order of their islands: W worlds, T trees.

    The islands of world w have consecutive places from tree_start[w] on, in the order of their first trees.
    """

    tree_start: wp.array(dtype=int)  # (W + 1) first place of each world
    world_tree: wp.array(dtype=int)  # (T) trees in the order of their worlds
    home: wp.array(dtype=int)  # (T) place of each tree in that list
    label: wp.array(dtype=int)  # (T) by place of a tree: its island's number in the world
    count: wp.array(dtype=int)  # (W) islands of the world
    trees: wp.array(dtype=wp.vec2i)  # (T) by island: first entry in `tree`, and the end
    dofs: wp.array(dtype=wp.vec2i)  # (T) likewise in `dof_row`
    pairs: wp.array(dtype=wp.vec2i)  # (T) likewise in `pair`
    contacts: wp.array(dtype=wp.vec2i)  # (T) likewise in `contact`
    tree: wp.array(dtype=int)  # (T)
    dof_row: wp.array(dtype=int)  # (R)
    pair: wp.array(dtype=int)  # (P)
    contact: wp.array(dtype=int)  # (C)
    dof_start: wp.array(dtype=int)  # (T + 1) by tree: its entries in `dof`
    dof: wp.array(dtype=int)  # (D) dofs tree by tree
    energy: wp.array(dtype=float)  # (T) by island: kinetic, without impulses [J]; if something rebounds


@wp.func_native(
    """
    const int base = islands.tree_start.data[w];
    const int n = islands.tree_start.data[w + 1] - base;
    int* label = islands.label.data + base;
    const int* home = islands.home.data;
    const int* dof_body = tree.dof_body.data;
    const int* body_tree = tree.body_tree.data;
    auto place = [&](int leaf) { return home[body_tree[dof_body[leaf]]] - base; };
    auto root = [&](int i) { while (label[i] != i) { label[i] = label[label[i]]; i = label[i]; } return i; };
    auto unite = [&](wp::vec2i leaf) {
        if (leaf[0] < 0 || leaf[1] < 0) return;
        const int a = root(place(leaf[0])), b = root(place(leaf[1]));
        if (a < b) label[b] = a; else label[a] = b;
    };
    auto island_of = [&](wp::vec2i leaf) { return label[place(leaf[0] >= 0 ? leaf[0] : leaf[1])]; };

    const int p0 = rows.pair.world_start.data[w], p1 = rows.pair.world_start.data[w + 1];
    const int c0 = contacts.world_start.data[w], c1 = c0 + contacts.world_count.data[w];
    const int r0 = rows.dof.world_start.data[w], r1 = r0 + rows.dof.world_count.data[w];
    const wp::vec2i* pair_leaf = rows.pair.leaf.data;
    const wp::vec2i* contact_leaf = rows.contact.leaf.data;
    for (int i = 0; i < n; ++i) label[i] = i;
    for (int p = p0; p < p1; ++p) if (rows.pair.delassus.data[p] > 0.0f) unite(pair_leaf[p]);
    for (int c = c0; c < c1; ++c) if (rows.contact.delassus.data[c][0] > 0.0f) unite(contact_leaf[c]);

    wp::vec2i* trees = islands.trees.data + base;
    wp::vec2i* dofs = islands.dofs.data + base;
    wp::vec2i* pairs = islands.pairs.data + base;
    wp::vec2i* touches = islands.contacts.data + base;
    int count = 0;
    for (int i = 0; i < n; ++i) {
        if (label[i] == i) {
            trees[count] = dofs[count] = pairs[count] = touches[count] = wp::vec2i(0, 0);
            label[i] = count++;
        } else {
            label[i] = label[label[i]];
        }
        trees[label[i]][1] += 1;
    }
    islands.count.data[w] = count;
    for (int r = r0; r < r1; ++r) {
        const int d = rows.dof.source_dof.data[rows.dof.source.data[r]];
        dofs[label[place(d)]][1] += 1;
    }
    for (int p = p0; p < p1; ++p)
        if (rows.pair.delassus.data[p] > 0.0f) pairs[island_of(pair_leaf[p])][1] += 1;
    for (int c = c0; c < c1; ++c)
        if (rows.contact.delassus.data[c][0] > 0.0f) touches[island_of(contact_leaf[c])][1] += 1;
    auto begin = [&](wp::vec2i* ranges, int start) {
        for (int k = 0; k < count; ++k) {
            const int length = ranges[k][1];
            ranges[k][0] = ranges[k][1] = start;
            start += length;
        }
    };
    begin(trees, base);
    begin(dofs, r0);
    begin(pairs, p0);
    begin(touches, c0);
    for (int i = 0; i < n; ++i) islands.tree.data[trees[label[i]][1]++] = islands.world_tree.data[base + i];
    for (int r = r0; r < r1; ++r) {
        const int d = rows.dof.source_dof.data[rows.dof.source.data[r]];
        islands.dof_row.data[dofs[label[place(d)]][1]++] = r;
    }
    for (int p = p0; p < p1; ++p)
        if (rows.pair.delassus.data[p] > 0.0f) islands.pair.data[pairs[island_of(pair_leaf[p])][1]++] = p;
    for (int c = c0; c < c1; ++c)
        if (rows.contact.delassus.data[c][0] > 0.0f)
            islands.contact.data[touches[island_of(contact_leaf[c])][1]++] = c;
    """
)
def find_islands(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    islands: wp.ref[IslandView],
):
    """Sort the trees of a world, and the rows that can act, by islands."""
    ...


@wp.struct
class TreeShare:
    """Dofs of an island that a lane works on: whole trees if there are many, else a share of each."""

    tree: int  # first tree
    trees: int  # from one tree to the next
    dof: int  # first dof of a tree
    dofs: int  # from one dof to the next
    whole: int  # 1 if it works on whole trees


@wp.func
def tree_share(team: Team, trees: wp.vec2i) -> TreeShare:
    """Return the share of a lane in the trees of an island; it depends on these arguments alone."""
    share = TreeShare()
    n = lanes(team)
    if n == 1 or trees[1] - trees[0] >= n:
        share.tree = trees[0] + team.lane
        share.trees = n
        share.dof = 0
        share.dofs = 1
        share.whole = 1
    else:
        share.tree = trees[0]
        share.trees = 1
        share.dof = team.lane
        share.dofs = n
        share.whole = 0
    return share


@wp.func
def copy_island(
    team: Team,
    islands: wp.ref[IslandView],
    k: int,
    source: wp.array(dtype=float),
    target: wp.array(dtype=float),
):
    """Copy the dofs of an island."""
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            d = islands.dof[i]
            target[d] = source[d]
    sync(team)


@wp.func(inline=False)
def copy_impulses(
    team: Team,
    islands: wp.ref[IslandView],
    k: int,
    spins: int,
    source: wp.ref[ImpulseView],
    target: wp.ref[ImpulseView],
):
    """Copy the impulses of all rows of an island, and those of its spin rows if `spins` is set."""
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        target.dof[r] = source.dof[r]
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        target.pair[p] = source.pair[p]
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        target.contact[c] = source.contact[c]
        if spins == 1:
            target.spin[c] = source.spin[c]
