"""Impacts that propagate from body to body within a step.

If Newton's impact law is applied to all contacts at once, a ball that hits a row of touching balls bounces
back. The generalized reflections of Smith, Kaufman, Vouga, Tamstorf, Grinspun, "Reflections on simultaneous
impact", 2012, treat all contacts that approach as one inelastic impact, reflect by (1 + e) of its impulse,
and repeat this with the contacts that approach afterwards: the last ball flies off, and a box that lands flat
rises without turning.

Newton's law and Coulomb's together may add energy to an impact of linked bodies, whose friction presses the
contact together: without bound where it jams (Kane, Levinson, "Dynamics: theory and applications", 1985,
section 5.10; Stronge, "Impact mechanics", 2000, chapter 5). Their rebounds are weakened until it is kept.

Stage: constraint solve, impacts: propagated before its sweeps, weakened after them
Called by: kernels/constraints/adjoint/contact_terms.py, kernels/constraints/adjoint/impacts.py,
    kernels/constraints/solve/solve.py
Reads: ContactRowView, ContactView, ImpulseView, IslandView, TreeView, WorldDofsView, z
Writes: ContactRowView, ImpulseView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes, sum_lanes, sync
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.chains import team_push_triple, team_triple_velocity, triple_velocity
from newtonsim.kernels.constraints.contact_rows import ContactRowView
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.rebounds import after_impact
from newtonsim.kernels.constraints.rows import ImpulseView, WorldDofsView
from newtonsim.kernels.views.model import TreeView

# largest number of rounds of impact in a step, and sweeps of one inelastic impact
ROUNDS = wp.constant(64)
SWEEPS = wp.constant(20)
# least approach velocity within a chain of impacts, as a share of the fastest
SLOWEST = wp.constant(1.0e-3)
# share of a rebound below which one that adds energy is taken away
LEAST_REBOUND = wp.constant(0.2)


@wp.func
def normal_velocity(
    tree: wp.ref[TreeView], rows: wp.ref[ContactRowView], c: int, depth: int, z: wp.array(dtype=float)
) -> float:
    """Normal velocity at a contact, prescribed motion included [m/s]."""
    impact = rows.impact[c]
    return triple_velocity(tree, rows.leaf[c], c, depth, rows.B, z)[0] + impact[2] - rows.target[c][0]


@wp.func
def any_rebound(team: Team, rows: wp.ref[ContactRowView], contacts: wp.ref[ContactView], w: int) -> bool:
    """True if a contact of the world rebounds in this step."""
    found = float(0.0)
    c0 = contacts.world_start[w]
    for c in range(c0 + team.lane, c0 + contacts.world_count[w], lanes(team)):
        if rows.impact[c][2] > rows.impact[c][1]:
            found = 1.0
    return max_lanes(team, found) > 0.0


@wp.func
def mark_approaching(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[ContactRowView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    slowest: float,
    dt: float,
    after: wp.ref[ImpulseView],
) -> int:
    """Mark the elastic contacts that approach and close within the step; returns their number."""
    count = float(0.0)
    c0 = contacts.world_start[w]
    for c in range(c0 + team.lane, c0 + contacts.world_count[w], lanes(team)):
        # the impulse of this round, that of all rounds, and whether the contact takes part in the round
        state = wp.vec3(0.0, after.contact[c][1], 0.0)
        if rows.impact[c][0] > 0.0 and rows.delassus[c][0] > 0.0:
            u = normal_velocity(tree, rows, c, depth, after.z)
            if u < -slowest and contacts.distance[c] + dt * u <= 0.0:
                state[2] = 1.0
                count += 1.0
        after.contact[c] = state
    return int(sum_lanes(team, count))


@wp.func
def stop_approach(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[ContactRowView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    tolerance: float,
    after: wp.ref[ImpulseView],
):
    """Inelastic impact of the marked contacts."""
    c0 = contacts.world_start[w]
    change = float(tolerance + 1.0)
    sweeps = int(0)
    while change > tolerance and sweeps < SWEEPS:
        change = float(0.0)
        for c in range(c0, c0 + contacts.world_count[w]):
            state = after.contact[c]
            if state[2] > 0.0:
                v = team_triple_velocity(team, tree, rows.leaf[c], c, depth, rows.B, after.z)
                u = v[0] + rows.impact[c][2] - rows.target[c][0]
                new = wp.max(0.0, state[0] - u / rows.delassus[c][0])
                step = wp.vec3(new - state[0], 0.0, 0.0)
                team_push_triple(team, tree, rows.leaf[c], c, depth, step, rows.B, after.z)
                change = wp.max(change, wp.abs(step[0]) * rows.delassus[c][0])
                if team.lane == 0:
                    after.contact[c] = wp.vec3(new, state[1], state[2])
        sync(team)
        sweeps += 1


@wp.func
def reflect(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[ContactRowView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    after: wp.ref[ImpulseView],
):
    """Apply the impulse of restitution to every contact of the round."""
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        state = after.contact[c]
        if state[0] > 0.0:
            more = rows.impact[c][0] * state[0]
            team_push_triple(team, tree, rows.leaf[c], c, depth, wp.vec3(more, 0.0, 0.0), rows.B, after.z)
            sync(team)
            # by the lane that looks at this contact in the next round
            if team.lane == (c - c0) % lanes(team):
                after.contact[c] = wp.vec3(0.0, state[1] + state[0] + more, 0.0)


@wp.func
def want_outcome(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[ContactRowView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    slowest: float,
    dt: float,
    after: wp.ref[ImpulseView],
    z: wp.array(dtype=float),
):
    """Set the targets of the rows to the velocities after all impacts.

    A contact that was hit itself keeps its own rebound, which accounts for the time of the impact within the
    step, in the proportion that the impacts leave. Any velocity that they add is added to it, no matter how
    slow its own impact was. Contacts that impacts were propagated to have -1 instead of this share.
    """
    c0 = contacts.world_start[w]
    for c in range(c0 + team.lane, c0 + contacts.world_count[w], lanes(team)):
        impact = rows.impact[c]
        hit = impact[2] > impact[1]
        if hit or after.contact[c][1] > 0.0:
            before = normal_velocity(tree, rows, c, depth, z)
            goal = wp.max(0.0, normal_velocity(tree, rows, c, depth, after.z))
            moving = goal
            share = float(-1.0)
            if hit and before < 0.0:
                own = -impact[0] * before
                more = wp.max(0.0, goal - own)
                share = (goal - more) / own
                gap = wp.max(0.0, contacts.distance[c])
                motion = after_impact(rows.first_impact[c], gap, share * impact[0], slowest, dt)
                goal = motion[0] + more
                moving = motion[1] + more
            target = rows.target[c]
            goal = wp.max(impact[1], goal)
            rows.moving[c] = wp.vec4(moving, share, 1.0, rows.moving[c][3])
            rows.target[c] = wp.vec3(target[0] - impact[2] + goal, target[1], target[2])
            rows.impact[c] = wp.vec3(impact[0], impact[1], goal)


@wp.func
def wanted(rows: wp.ref[ContactRowView], c: int, timed: bool) -> float:
    """Normal velocity to which a contact is solved, for the positions or for the end of the step [m/s]."""
    speed = rows.impact[c][2]
    if timed and rows.first_impact[c][0] > 0.0:
        speed = rows.moving[c][0]
    return speed


@wp.func
def work_of_rebounds(
    team: Team, rows: wp.ref[ContactRowView], islands: wp.ref[IslandView], k: int, timed: bool
) -> float:
    """Work of the impulses of an island at the speeds of rebounds, less what the pull of a step adds [J]."""
    work = float(0.0)
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        impact = rows.impact[c]
        if impact[2] > impact[1]:
            speed = wanted(rows, c, timed) - wp.max(0.0, impact[1]) - rows.moving[c][3]
            work += rows.impulse[c][0] * speed
    return sum_lanes(team, work)


@wp.func
def weaken_rebounds(
    team: Team, rows: wp.ref[ContactRowView], islands: wp.ref[IslandView], k: int, timed: bool
) -> bool:
    """Halve the speeds of the rebounds of an island, and in the end take them away; False if none is left."""
    found = float(0.0)
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        impact = rows.impact[c]
        if impact[2] > impact[1]:
            found = 1.0
            before = wanted(rows, c, timed)
            moving = rows.moving[c]
            factor = float(0.5)
            if moving[2] <= LEAST_REBOUND:
                factor = 0.0
            reached = impact[1] + factor * (moving[0] - impact[1])
            rows.moving[c] = wp.vec4(reached, moving[1], factor * moving[2], moving[3])
            rows.impact[c] = wp.vec3(impact[0], impact[1], impact[1] + factor * (impact[2] - impact[1]))
            change = wp.vec3(wanted(rows, c, timed) - before, 0.0, 0.0)
            if factor == 0.0 and rows.first_impact[c][0] > 0.0:
                # nothing happens within the step any more
                if timed:
                    slip = rows.slip_before_impact[c]
                    change = change - wp.vec3(0.0, slip[0], slip[1])
                rows.first_impact[c] = wp.vec3(0.0, 0.0, 0.0)
            rows.target[c] = rows.target[c] + change
    return max_lanes(team, found) > 0.0


@wp.func(inline=False)
def propagate_impacts(
    team: Team,
    tree: wp.ref[TreeView],
    dofs: wp.ref[WorldDofsView],
    rows: wp.ref[ContactRowView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    restitution_speed: float,
    dt: float,
    after: wp.ref[ImpulseView],
    z: wp.array(dtype=float),
):
    """Follow the impacts of a step through a world, and set the target normal velocities accordingly.

    z holds the velocities without constraints; `after` is a workspace.
    """
    for i in range(dofs.world_start[w] + team.lane, dofs.world_start[w + 1], lanes(team)):
        after.z[dofs.dof[i]] = z[dofs.dof[i]]
    c0 = contacts.world_start[w]
    fastest = float(0.0)
    for c in range(c0 + team.lane, c0 + contacts.world_count[w], lanes(team)):
        after.contact[c] = wp.vec3(0.0, 0.0, 0.0)
        if rows.impact[c][2] > rows.impact[c][1]:
            fastest = wp.max(fastest, -normal_velocity(tree, rows, c, depth, z))
    slowest = SLOWEST * max_lanes(team, fastest)
    rounds = int(0)
    while rounds < ROUNDS:
        if mark_approaching(team, tree, rows, contacts, w, depth, slowest, dt, after) == 0:
            rounds = ROUNDS
        else:
            stop_approach(team, tree, rows, contacts, w, depth, 0.1 * slowest, after)
            reflect(team, tree, rows, contacts, w, depth, after)
            rounds += 1
    want_outcome(team, tree, rows, contacts, w, depth, restitution_speed, dt, after, z)
