"""Contacts and rows that demand what others exclude, or more than a step resolves: which ones, and how long.

A distance d that bears a force f swings across it like a string: its direction turns by f h² / (m d) of the
way by which its ends, of the mass m, are apart across it. The step takes the direction from its start, and
is stable up to a factor of 2, the masses of both ends taken together (4 for a string of equal masses).

Stage: constraints, after the solve of an island
Called by: kernels/constraints/solve/apart.py, kernels/constraints/solve/pushes.py,
    kernels/constraints/solve/solve.py
Reads: SolveViews
Writes: SolveViews, UnsolvedView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes
from newtonsim.kernels.constraints.laws import is_stuck
from newtonsim.kernels.constraints.rows import (
    SAGGING_CONTACT,
    STRAINED_ROW,
    WEDGED_CONTACT,
    WEDGED_ROW,
    UnsolvedView,
)
from newtonsim.kernels.constraints.solve.views import SolveViews

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# consecutive steps with a wedged contact or row after which this is reported
LONG_WEDGED = wp.constant(12)
# how far a distance may turn in a step
STRAINED = wp.constant(2.0)


@wp.func
def note_wedged(team: Team, leaf: wp.vec2i, by: int, unsolved: wp.ref[UnsolvedView]):
    """Record the last dofs of what is wedged in the world of a team, and whether it is a contact or a row."""
    if team.lane == 0:
        unsolved.wedged[team.index] = leaf + wp.vec2i(1, 1)
        unsolved.wedged_now[team.index] = by


@wp.func
def note_row(team: Team, views: wp.ref[SolveViews], k: int, found: int, by: int):
    """Record the row between bodies with the highest number, from 1 on, that a lane has found; 0 is none."""
    last = int(max_lanes(team, float(found)))
    if last > 0:
        p = views.islands.pair[views.islands.pairs[k][0] + last - 1]
        note_wedged(team, views.rows.pair.leaf[p], by, views.unsolved)


@wp.func
def note_contact(team: Team, views: wp.ref[SolveViews], k: int, found: int, by: int):
    """Record a contact, as `note_row` does a row."""
    last = int(max_lanes(team, float(found)))
    if last > 0:
        c = views.islands.contact[views.islands.contacts[k][0] + last - 1]
        note_wedged(team, views.rows.contact.leaf[c], by, views.unsolved)


@wp.func(inline=False)
def find_wedged(team: Team, views: wp.ref[SolveViews], k: int):
    """Record a distance of an island that bears too much, or a contact that cannot push its bodies apart."""
    strained = int(0)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        if views.rows.pair.turn[p] * wp.abs(views.rows.pair.impulse[p]) > STRAINED:
            strained = i - pairs[0] + 1
    note_row(team, views, k, strained, STRAINED_ROW)
    stuck = int(0)
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        if is_stuck(views.rows, views.islands.contact[i]):
            stuck = i - touches[0] + 1
    note_contact(team, views, k, stuck, WEDGED_CONTACT)


@wp.func(inline=False)
def note_wedged_push(team: Team, views: wp.ref[SolveViews], k: int, push: float):
    """Record the contact of an island that demands this push [m/s]."""
    demands = int(0)
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        if views.rows.contact.push[views.islands.contact[i]] == push:
            demands = i - touches[0] + 1
    note_contact(team, views, k, demands, WEDGED_CONTACT)


@wp.func(inline=False)
def note_sagging(team: Team, views: wp.ref[SolveViews], k: int):
    """Record the contact of an island whose load is largest for its bodies."""
    largest = float(0.0)
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        largest = wp.max(largest, views.rows.contact.weight[c][0] * views.rows.contact.impulse[c][0])
    largest = max_lanes(team, largest)
    laden = int(0)
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        if views.rows.contact.weight[c][0] * views.rows.contact.impulse[c][0] == largest:
            laden = i - touches[0] + 1
    note_contact(team, views, k, laden, SAGGING_CONTACT)


@wp.func(inline=False)
def note_contradiction(team: Team, views: wp.ref[SolveViews], k: int):
    """Record the row of an island whose push does the most work."""
    strongest = float(0.0)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        strongest = wp.max(strongest, views.rows.pair.impulse[p] * views.rows.pair.push[p])
    strongest = max_lanes(team, strongest)
    found = int(0)
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        if views.rows.pair.impulse[p] * views.rows.pair.push[p] == strongest:
            found = i - pairs[0] + 1
    note_row(team, views, k, found, WEDGED_ROW)


@wp.func(inline=False)
def count_wedged(w: int, unsolved: wp.ref[UnsolvedView]):
    """Count the consecutive steps with a wedged contact or row, at the end of a step.

    A distance that tears its bodies about is slack now and then, and contacts that sag bear their load for a
    step now and then, which their counts outlast.
    """
    run = int(0)
    if unsolved.wedged_by[w] >= STRAINED_ROW:
        run = wp.max(unsolved.wedged_run[w] - 1, 0)
    if unsolved.wedged_now[w] > 0:
        unsolved.wedged_by[w] = unsolved.wedged_now[w]
        run = unsolved.wedged_run[w] + 1
    unsolved.wedged_now[w] = 0
    unsolved.wedged_run[w] = run
    unsolved.wedged_steps[w] = wp.max(unsolved.wedged_steps[w], run)
    if run >= LONG_WEDGED:
        unsolved.any_wedged[0] = 1
