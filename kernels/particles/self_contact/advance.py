"""Motion of all particles at once towards their targets, as far as no pair loses its gap.

Corners of a pair that move together keep their gap over any distance: unlike in `truncate`, the plane between
the two moves with them. If a pair would lose too much of its gap, its corners move only as far as a plane at
rest allows, which may affect other pairs in the same way. If such pairs remain after some rounds, all planes
of their world are taken to be at rest.

Stage: self-contact, motion at the start of a substep
Called by: solvers/particles/self_contact.py
Reads: Advance, SelfContactView, to
Writes: Advance, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.self_contact.contact import (
    EDGES,
    SelfContactView,
    heights,
    lowest_of_first,
    lowest_of_second,
    room_of_sides,
    within_reach,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class Advance:
    """Share of its displacement that each particle moves; P particles, W worlds."""

    way: wp.array(dtype=wp.vec3)  # (P) [m]
    part: wp.array(dtype=float)  # (P) 0 to 1
    next: wp.array(dtype=float)  # (P) after this round
    still: wp.array(dtype=float)  # (P) if all planes are at rest
    broken: wp.array(dtype=int)  # (W) 1 if such pairs remained after the last round


@wp.kernel
def start_advance(first: int, to: wp.array(dtype=wp.vec3), view: SelfContactView, advance: Advance):
    """One thread per particle: the whole displacement to its target, as far as this is within its reach."""
    i = first + wp.tid()
    advance.way[i] = within_reach(view.reach, i, to[i]) - view.origin[i]
    advance.part[i] = 1.0
    advance.next[i] = 1.0
    advance.still[i] = 1.0


@wp.kernel
def forget_broken(first: int, advance: Advance):
    """One thread per world: clear the mark of remaining pairs."""
    advance.broken[first + wp.tid()] = 0


@wp.func
def climb_of_corners(view: SelfContactView, q: int, way: wp.array(dtype=wp.vec3)) -> wp.vec4:
    """Distance by which each corner of a pair moves away from the other side in its displacement [m]."""
    c = view.corners[q]
    n = view.normal[q]
    second = wp.where(view.triangle[q] == EDGES, 1.0, -1.0)
    return wp.vec4(
        wp.dot(n, way[c[0]]), second * wp.dot(n, way[c[1]]), -wp.dot(n, way[c[2]]), -wp.dot(n, way[c[3]])
    )


@wp.func
def parts_of_corners(view: SelfContactView, q: int, part: wp.array(dtype=float)) -> wp.vec4:
    """Shares of their displacements that the corners of a pair move."""
    c = view.corners[q]
    return wp.vec4(part[c[0]], part[c[1]], part[c[2]], part[c[3]])


@wp.func
def keeps_gap(view: SelfContactView, q: int, climb: wp.vec4) -> bool:
    """Whether a pair keeps as much of its gap as it would with planes at rest."""
    c = view.corners[q]
    edges = view.triangle[q] == EDGES
    x0 = view.origin[c[0]]
    h = heights(edges, view.normal[q], x0, view.origin[c[1]], view.origin[c[2]], view.origin[c[3]])
    gap = lowest_of_first(edges, h) + lowest_of_second(edges, h)
    h += climb
    after = lowest_of_first(edges, h) + lowest_of_second(edges, h)
    return after >= gap - 2.0 * room_of_sides(view, gap, x0)


@wp.kernel
def hold_back(first: int, workers: int, initial: int, view: SelfContactView, advance: Advance):
    """One thread per worker of a world: shorten the displacements of pairs that would lose too much gap."""
    i = first + wp.tid()
    w = i // workers
    begin = view.pair_first[w]
    end = begin + wp.min(view.pair_count[w], view.pair_first[w + 1] - begin)
    for q in range(begin + i % workers, end, workers):
        c = view.corners[q]
        climb = climb_of_corners(view, q, advance.way)
        slack = view.slack[q]
        keeps = keeps_gap(view, q, wp.cw_mul(climb, parts_of_corners(view, q, advance.part)))
        for k in range(4):
            if -climb[k] > slack[k]:
                part = slack[k] / -climb[k]
                if initial != 0:
                    wp.atomic_min(advance.still, c[k], part)
                if not keeps:
                    wp.atomic_min(advance.next, c[k], part)


@wp.kernel
def take_parts(first: int, advance: Advance):
    """One thread per particle: apply the share of its displacement that the round left."""
    i = first + wp.tid()
    advance.part[i] = wp.min(advance.part[i], advance.next[i])


@wp.kernel
def find_broken(first: int, workers: int, view: SelfContactView, advance: Advance):
    """One thread per worker of a world: record whether a pair would still lose too much."""
    i = first + wp.tid()
    w = i // workers
    begin = view.pair_first[w]
    end = begin + wp.min(view.pair_count[w], view.pair_first[w + 1] - begin)
    for q in range(begin + i % workers, end, workers):
        climb = wp.cw_mul(climb_of_corners(view, q, advance.way), parts_of_corners(view, q, advance.part))
        if not keeps_gap(view, q, climb):
            advance.broken[w] = 1


@wp.kernel
def finish_advance(first: int, view: SelfContactView, advance: Advance, x: wp.array(dtype=wp.vec3)):
    """One thread per particle: move by its share of the displacement."""
    i = first + wp.tid()
    part = advance.part[i]
    if advance.broken[view.world[i]] != 0:
        part = advance.still[i]
    x[i] = view.origin[i] + part * advance.way[i]
