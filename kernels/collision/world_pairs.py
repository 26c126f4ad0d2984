"""Pairs of shapes of a world that may touch, from its list of candidates, by one team.

Stage: broad phase of worlds with few shapes
Called by: newtonsim/collision/collide.py
Reads: ContactView, PairView, PlacementView, ShapeView, Teams, listed, listed_start
Writes: HistoryView, PairView, count, needed
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import lane_fill
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, scan_lanes, sync
from newtonsim.kernels.collision.contacts import (
    ContactView,
    HistoryView,
    is_first_of_pair,
    is_last_of_pair,
    keep_identity,
)
from newtonsim.kernels.collision.pairs.broad_phase import PlacementView, may_touch, put_pair
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_NONE, PairView
from newtonsim.kernels.views.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def remember_contacts(
    team: Team,
    listed_start: wp.array(dtype=int),
    pairs: PairView,
    contacts: ContactView,
    history: HistoryView,
):
    """Store what identifies the contacts of a world in the next pass."""
    w = team.index
    lane_fill(team.lane, lanes(team), 0, history.end, listed_start[w], listed_start[w + 1])
    sync(team)
    begin = contacts.world_start[w]
    end = begin + contacts.world_count[w]
    for c in range(begin + team.lane, end, lanes(team)):
        keep_identity(c, contacts, history)
        i = pairs.entry[contacts.pair[c]]
        if is_first_of_pair(c, begin, contacts):
            history.first[i] = c
        if is_last_of_pair(c, end, contacts):
            history.end[i] = c + 1


@wp.func
def select_pairs(
    team: Team,
    listed: wp.array(dtype=wp.vec3i),
    listed_start: wp.array(dtype=int),
    disabled_plane: int,
    shape: ShapeView,
    place: PlacementView,
    margin: float,
    dt: float,
    pairs: PairView,
) -> int:
    """Write the pairs of a world's list whose bounds overlap while there is room; returns their number."""
    w = team.index
    begin = pairs.world_start[w]
    room = pairs.world_start[w + 1] - begin
    n = int(0)
    for chunk in range(listed_start[w], listed_start[w + 1], lanes(team)):
        i = chunk + team.lane
        overlaps = int(0)
        if i < listed_start[w + 1]:
            entry = listed[i]
            if entry[1] != disabled_plane and may_touch(shape, place, entry[2], entry[0], entry[1]):
                overlaps = 1
        places = scan_lanes(team, overlaps)
        if overlaps == 1 and n + places[0] < room:
            p = begin + n + places[0]
            found = listed[i]
            pairs.entry[p] = i
            put_pair(pairs, place, shape, p, found[0], found[1], found[2], margin, dt)
        n += places[1]
    return n


@wp.kernel
def find_pairs(
    teams: Teams,
    listed: wp.array(dtype=wp.vec3i),
    listed_start: wp.array(dtype=int),
    disabled_plane: int,
    shape: ShapeView,
    place: PlacementView,
    margin: float,
    dt: float,
    contacts: ContactView,
    history: HistoryView,
    pairs: PairView,
    count: wp.array(dtype=int),
    needed: wp.array(dtype=int),
):
    """One team per world: remember its contacts, and find the pairs of its list whose bounds overlap.

    An entry of the list is (shape 0, shape 1, family). `count`, the number of points of each pair, is zero
    afterwards.
    """
    team = own_team(teams, wp.tid())
    w = team.index
    remember_contacts(team, listed_start, pairs, contacts, history)
    n = select_pairs(team, listed, listed_start, disabled_plane, shape, place, margin, dt, pairs)
    begin = pairs.world_start[w]
    end = pairs.world_start[w + 1]
    used = wp.min(begin + n, end)
    lane_fill(team.lane, lanes(team), 0, count, begin, end)
    lane_fill(team.lane, lanes(team), FAMILY_NONE, pairs.family, used, end)
    if team.lane == 0:
        pairs.world_count[w] = used - begin
        needed[w] = n
