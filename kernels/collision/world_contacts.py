"""Packing of the manifolds of pairs into the list of a world's contacts, by one team.

Stage: collision, last, packing of contacts
Called by: newtonsim/collision/collide.py, kernels/collision/crowded.py
Reads: ContactView, HistoryView, ManifoldView, OverflowView, PairView, ShapeView, Teams, body_com, body_q,
    body_qd
Writes: ContactView, ManifoldView, OverflowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import lane_fill
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, scan_lanes, sync
from newtonsim.kernels.collision.contacts import (
    ContactView,
    HistoryView,
    OverflowView,
    describe_contact,
    drop_points,
    same_contact,
)
from newtonsim.kernels.collision.pairs.manifolds import ManifoldView, PairView
from newtonsim.kernels.views.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def note_missing(w: int, n: int, pairs: PairView, overflow: OverflowView, contacts: ContactView):
    """Record how many contacts world w has, and for how many there was no room."""
    overflow.contacts_needed[w] = n
    if n > contacts.world_start[w + 1] - contacts.world_start[w]:
        overflow.most_contacts[w] = wp.max(overflow.most_contacts[w], n)
        overflow.any[0] = 1
    missed = overflow.pairs_needed[w] - (pairs.world_start[w + 1] - pairs.world_start[w])
    if missed > 0:
        overflow.most_pairs[w] = wp.max(overflow.most_pairs[w], overflow.pairs_needed[w])
        overflow.any[0] = 1


@wp.func
def number_contacts(
    team: Team, pairs: PairView, manifolds: ManifoldView, overflow: OverflowView, contacts: ContactView
) -> int:
    """Number the contacts of a world in the order of the pairs; returns their count."""
    w = team.index
    begin = contacts.world_start[w]
    room = contacts.world_start[w + 1] - begin
    pair_end = pairs.world_start[w] + pairs.world_count[w]
    n = int(0)
    for chunk in range(pairs.world_start[w], pair_end, lanes(team)):
        p = chunk + team.lane
        own = int(0)
        if p < pair_end:
            own = manifolds.count[p]
        places = scan_lanes(team, own)
        first = n + places[0]
        for k in range(wp.min(own, room - first)):
            contacts.pair[begin + first + k] = p
            contacts.point[begin + first + k] = k
        n += places[1]
    kept = wp.min(n, room)
    if team.lane == 0:
        contacts.world_count[w] = kept
        note_missing(w, n, pairs, overflow, contacts)
    return kept


@wp.func
def clear_contacts(team: Team, first: int, contacts: ContactView):
    """Mark the places of a world that are not in use, from the first of them on."""
    end = contacts.world_start[team.index + 1]
    lane_fill(team.lane, lanes(team), -1, contacts.shape0, first, end)
    lane_fill(team.lane, lanes(team), -1, contacts.shape1, first, end)


@wp.kernel
def gather_contacts(
    teams: Teams,
    shape: ShapeView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    margin: float,
    dt: float,
    pairs: PairView,
    history: HistoryView,
    manifolds: ManifoldView,
    overflow: OverflowView,
    contacts: ContactView,
):
    """One team per world: pack its contacts, all points that may touch in the step, in the order of pairs."""
    team = own_team(teams, wp.tid())
    w = team.index
    pair_end = pairs.world_start[w] + pairs.world_count[w]
    for p in range(pairs.world_start[w] + team.lane, pair_end, lanes(team)):
        drop_points(p, pairs, shape, body_q, body_qd, body_com, margin, dt, manifolds)
    end = contacts.world_start[w] + number_contacts(team, pairs, manifolds, overflow, contacts)
    sync(team)
    for c in range(contacts.world_start[w] + team.lane, end, lanes(team)):
        describe_contact(c, pairs, shape, body_q, manifolds, contacts)
        q = pairs.entry[contacts.pair[c]]
        contacts.match[c] = same_contact(shape, manifolds, contacts, history, c, q)
    clear_contacts(team, end, contacts)
