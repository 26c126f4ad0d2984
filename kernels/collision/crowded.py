"""Packing of the contacts of crowded worlds, which have no list of candidate pairs.

There are many pairs and contacts: each has its own thread, and one team only counts them.

Stage: collision, last, packing of contacts of crowded worlds
Called by: newtonsim/collision/collide.py
Reads: ContactView, HistoryView, ManifoldView, OverflowView, PairView, ShapeView, Teams, body_com, body_q,
    body_qd, shape_world
Writes: ContactView, HistoryView, ManifoldView, OverflowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Teams, lanes, own_team
from newtonsim.kernels.collision.contacts import (
    ContactView,
    HistoryView,
    OverflowView,
    clear_contact,
    describe_contact,
    drop_points,
    is_first_of_pair,
    is_last_of_pair,
    keep_identity,
    same_contact,
)
from newtonsim.kernels.collision.pairs.manifolds import ManifoldView, PairView
from newtonsim.kernels.collision.world_contacts import number_contacts
from newtonsim.kernels.views.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def holder(shape: ShapeView, shape_world: wp.array(dtype=int), a: int, b: int) -> int:
    """The shape that holds the list of a pair: one of the world itself, with few neighbours."""
    h = a
    if shape_world[a] < 0:
        h = b
    elif shape_world[b] >= 0:
        if shape.radius[b] < shape.radius[a] or (shape.radius[b] == shape.radius[a] and b < a):
            h = b
    return h


@wp.kernel
def clear_history(first: int, history: HistoryView):
    """One thread per shape: clear its pairs."""
    s = first + wp.tid()
    history.head[s] = -1


@wp.kernel
def remember_contacts(
    teams: Teams,
    shape: ShapeView,
    shape_world: wp.array(dtype=int),
    pairs: PairView,
    contacts: ContactView,
    history: HistoryView,
):
    """One team per world: store what identifies its contacts, and add their pairs to the lists of shapes.

    `head` is -1 on entry.
    """
    team = own_team(teams, wp.tid())
    w = team.index
    begin = contacts.world_start[w]
    end = begin + contacts.world_count[w]
    for c in range(begin + team.lane, end, lanes(team)):
        keep_identity(c, contacts, history)
        p = contacts.pair[c]
        if is_first_of_pair(c, begin, contacts):
            history.first[p] = c
        if is_last_of_pair(c, end, contacts):
            history.end[p] = c + 1
    if team.lane == 0:
        for c in range(begin, end):
            if is_first_of_pair(c, begin, contacts):
                p = contacts.pair[c]
                s0 = pairs.shape0[p]
                s1 = pairs.shape1[p]
                h = holder(shape, shape_world, s0, s1)
                history.other[p] = s0 + s1 - h
                history.next[p] = history.head[h]
                history.head[h] = p


@wp.kernel
def drop_distant_points(
    first: int,
    pairs: PairView,
    shape: ShapeView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    margin: float,
    dt: float,
    manifolds: ManifoldView,
):
    """One thread per pair: account for thickness, and keep the points that may touch within the step."""
    drop_points(first + wp.tid(), pairs, shape, body_q, body_qd, body_com, margin, dt, manifolds)


@wp.kernel
def pack_contacts(
    teams: Teams, pairs: PairView, manifolds: ManifoldView, overflow: OverflowView, contacts: ContactView
):
    """One team per world: number its contacts in the order of the pairs."""
    number_contacts(own_team(teams, wp.tid()), pairs, manifolds, overflow, contacts)


@wp.func
def pair_before(
    shape: ShapeView, shape_world: wp.array(dtype=int), contacts: ContactView, history: HistoryView, c: int
) -> int:
    """Place that the pair of contact c had in the last pass, or -1."""
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    h = holder(shape, shape_world, s0, s1)
    q = history.head[h]
    while q >= 0 and history.other[q] != s0 + s1 - h:
        q = history.next[q]
    return q


@wp.kernel
def write_contacts(
    first: int,
    pairs: PairView,
    shape: ShapeView,
    shape_world: wp.array(dtype=int),
    body_q: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
    history: HistoryView,
    contacts: ContactView,
):
    """One thread per place: the contact's description in the frames of its bodies."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        clear_contact(c, contacts)
        return
    describe_contact(c, pairs, shape, body_q, manifolds, contacts)
    q = pair_before(shape, shape_world, contacts, history, c)
    contacts.match[c] = same_contact(shape, manifolds, contacts, history, c, q)
