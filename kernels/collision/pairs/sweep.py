"""Pairs of shapes of crowded worlds, by sorting along one axis and sweeping.

Baraff, "Dynamic Simulation of Non-Penetrating Rigid Bodies", 1992; insertion sort, because the order hardly
changes from step to step.

Stage: broad phase of crowded worlds
Called by: newtonsim/collision/collide.py
Reads: PairView, PlacementView, ShapeView, SweepView, Teams, entry_world
Writes: PairView, SweepView, count, needed
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Teams, lanes, own_team, scan_lanes
from newtonsim.kernels.collision.pairs.broad_phase import (
    PlacementView,
    bounds_overlap,
    clear_pair,
    may_touch,
    put_pair,
)
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_NONE, PairView
from newtonsim.kernels.views.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class SweepView:
    """Shapes of crowded worlds, sorted along an axis; N entries, those of the global world in each world."""

    axis: int
    start: wp.array(dtype=int)  # (W + 1)
    shape: wp.array(dtype=int)  # (N) in the order of their lower bounds
    count: wp.array(dtype=int)  # (N) pairs in which the entry comes first
    first: wp.array(dtype=int)  # (N) place of the first of them
    group: wp.array(dtype=int)  # (S) collision group, -1 collides with all
    rigid: wp.array(dtype=int)  # (S) shapes with the same number cannot move relative to each other
    collides: wp.array(dtype=int)  # (S) 1 if the shape collides with other shapes
    meets_ground: wp.array(dtype=int)  # (S) 1 if the shape collides with the ground plane
    ground: int  # the ground plane, or -1
    filter_start: wp.array(dtype=int)  # (S + 1)
    filter: wp.array(dtype=int)  # partners with a higher index that do not collide with the shape
    family: wp.array2d(dtype=int)  # (kinds, kinds) narrow phase
    second: wp.array2d(dtype=int)  # (kinds, kinds) 1 if the shape of the first kind has to come second


@wp.kernel
def sort_along_axis(first: int, place: PlacementView, sweep: SweepView):
    """One thread per world: insertion sort by lower bounds, ties by index."""
    w = first + wp.tid()
    for i in range(sweep.start[w] + 1, sweep.start[w + 1]):
        s = sweep.shape[i]
        key = place.lower[s][sweep.axis]
        k = int(i)
        moving = int(1)
        while moving == 1 and k > sweep.start[w]:
            other = sweep.shape[k - 1]
            before = place.lower[other][sweep.axis]
            if before > key or (before == key and other > s):
                sweep.shape[k] = other
                k -= 1
            else:
                moving = 0
        sweep.shape[k] = s


@wp.func
def may_pair(sweep: SweepView, a: int, b: int, disabled_plane: int) -> bool:
    """True if groups, flags, filters and bodies allow contact between two shapes."""
    if a == disabled_plane or b == disabled_plane or sweep.rigid[a] == sweep.rigid[b]:
        return False
    if a == sweep.ground or b == sweep.ground:
        other = a + b - sweep.ground
        if sweep.meets_ground[other] == 0:
            return False
    elif sweep.collides[a] == 0 or sweep.collides[b] == 0:
        return False
    ga = sweep.group[a]
    gb = sweep.group[b]
    if ga != gb and ga != -1 and gb != -1:
        return False
    low = wp.min(a, b)
    high = wp.max(a, b)
    for i in range(sweep.filter_start[low], sweep.filter_start[low + 1]):
        if sweep.filter[i] == high:
            return False
    return True


@wp.func
def sweep_from(
    i: int,
    end: int,
    first: int,
    room: int,
    disabled_plane: int,
    shape: ShapeView,
    place: PlacementView,
    sweep: SweepView,
    margin: float,
    dt: float,
    pairs: PairView,
) -> int:
    """Number of pairs of entry i with later ones, written to the places from `first` while there is room."""
    a = sweep.shape[i]
    top = place.upper[a][sweep.axis]
    n = int(0)
    k = int(i + 1)
    running = int(1)
    while running == 1 and k < end:
        b = sweep.shape[k]
        k += 1
        if place.lower[b][sweep.axis] > top:
            running = 0
        elif bounds_overlap(place, a, b):
            s0 = a
            s1 = b
            ka = shape.kind[a]
            kb = shape.kind[b]
            if sweep.second[ka, kb] == 1 or (sweep.second[kb, ka] == 0 and a > b):
                s0 = b
                s1 = a
            family = sweep.family[ka, kb]
            if (
                family != FAMILY_NONE
                and may_touch(shape, place, family, s0, s1)
                and may_pair(sweep, a, b, disabled_plane)
            ):
                if n < room:
                    put_pair(pairs, place, shape, first + n, s0, s1, family, margin, dt)
                n += 1
    return n


@wp.kernel
def count_overlaps(
    first: int,
    entry_world: wp.array(dtype=int),
    disabled_plane: int,
    shape: ShapeView,
    place: PlacementView,
    sweep: SweepView,
    pairs: PairView,
):
    """One thread per sorted entry: number of its overlaps with later entries."""
    i = first + wp.tid()
    end = sweep.start[entry_world[i] + 1]
    sweep.count[i] = sweep_from(i, end, 0, 0, disabled_plane, shape, place, sweep, 0.0, 0.0, pairs)


@wp.kernel
def place_overlaps(teams: Teams, sweep: SweepView, pairs: PairView, needed: wp.array(dtype=int)):
    """One team per world: place of the pairs of each entry."""
    team = own_team(teams, wp.tid())
    w = team.index
    end = sweep.start[w + 1]
    n = int(0)
    for chunk in range(sweep.start[w], end, lanes(team)):
        i = chunk + team.lane
        own = int(0)
        if i < end:
            own = sweep.count[i]
        places = scan_lanes(team, own)
        if i < end:
            sweep.first[i] = pairs.world_start[w] + n + places[0]
        n += places[1]
    if team.lane == 0:
        pairs.world_count[w] = wp.min(n, pairs.world_start[w + 1] - pairs.world_start[w])
        needed[w] = n


@wp.kernel
def write_overlaps(
    first: int,
    entry_world: wp.array(dtype=int),
    disabled_plane: int,
    shape: ShapeView,
    place: PlacementView,
    sweep: SweepView,
    margin: float,
    dt: float,
    pairs: PairView,
):
    """One thread per sorted entry: write its pairs."""
    i = first + wp.tid()
    w = entry_world[i]
    if sweep.count[i] == 0:
        return
    begin = sweep.first[i]
    room = pairs.world_start[w + 1] - begin
    sweep_from(i, sweep.start[w + 1], begin, room, disabled_plane, shape, place, sweep, margin, dt, pairs)


@wp.kernel
def clear_unused_pairs(first: int, pairs: PairView, count: wp.array(dtype=int)):
    """One thread per place: clear its points, and its narrow phase if it is not in use."""
    p = first + wp.tid()
    w = pairs.world[p]
    clear_pair(p, p - pairs.world_start[w] < pairs.world_count[w], pairs, count)
