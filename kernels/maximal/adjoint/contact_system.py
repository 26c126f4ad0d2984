"""Modes of contacts between bodies at the solution of a substep, and their part of its adjoint systems.

With residuals r(v, p) of `maximal.adjoint.contact_terms`, multipliers of bodies and contacts solve
M λ + Jᵀ r_vᵀ m = g and J λ + (gradient with respect to p) = r_pᵀ m. Pushing normals and sticking contacts
have a small softness, so that contacts can be eliminated one by one, and redundant ones share their impulse.

Stage: backward pass in maximal coordinates, modes and multipliers of contacts
Called by: solvers/maximal/contact_adjoint.py, kernels/maximal/adjoint/system.py,
    kernels/particles/adjoint/coupled_system.py
Reads: BodyContactView, ContactStageView, ContactView, FeatureView, multiplier, velocity
Writes: ContactStageView, reason
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_lu import (
    BlockSkylineView,
    add_outer,
    add_to_block,
    block_sum,
    couple_blocks,
)
from newtonsim.kernels.collision.contact_features import NORMAL_UNKNOWN, FeatureView
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.maximal.adjoint.contact_terms import (
    HOLDS,
    OPEN,
    SLIDES,
    SLOWEST_SLIP,
    ContactStageView,
    relative_motion,
)
from newtonsim.kernels.maximal.adjoint.modes import ROUNDING
from newtonsim.kernels.maximal.adjoint.substep import BODY_MOVES, BodySystemView
from newtonsim.kernels.maximal.contacts import BodyContactView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

ROWS = wp.constant(6)
# compliance of held rows, as a share of their mobility, which keeps multipliers of redundant contacts
# moderate
SOFTNESS = wp.constant(1.0e-6)
# least slip [m/s or rad/s] whose direction is more than rounding
SLOWEST_DIRECTION = wp.constant(1.0e-6)


@wp.func
def lay_row(c: int, k: int, pull: wp.spatial_vector, slope: float, scale: float, view: ContactStageView):
    """Store row k of contact c."""
    view.pull[c, k] = pull
    view.along[c, k] = slope * pull
    view.scale[c, k] = scale


@wp.func
def lay_disc(
    c: int,
    k: int,
    n: wp.vec3,
    rate: wp.vec3,
    impulse: wp.vec3,
    mobility: float,
    bound: float,
    view: ContactStageView,
) -> int:
    """Mode of tangential friction; stores its rows k and k + 1 (k is 1 for sliding, 4 for rolling).

    Args:
        c: The contact.
        k: First row.
        n: Its normal.
        rate: Velocity or spin at it.
        impulse: Impulse or angular impulse.
        mobility: Largest change of the rate by a unit impulse across the normal.
        bound: Largest impulse.
        view: Receives the rows.
    """
    slip = rate - wp.dot(n, rate) * n
    speed = wp.length(slip)
    e = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(n[0]) > 0.7:
        e = wp.vec3(0.0, 1.0, 0.0)
    if speed > SLOWEST_DIRECTION:
        e = slip / speed
    e = wp.normalize(e - wp.dot(n, e) * n)
    mode = OPEN
    slope_e = float(0.0)
    slope_f = float(0.0)
    scale = float(1.0)
    if bound > 0.0 and mobility > 0.0:
        trial = impulse - wp.dot(n, impulse) * n - slip / mobility
        mode = HOLDS
        slope_e = 1.0
        slope_f = 1.0
        scale = 1.0 / (SOFTNESS * mobility)
        if wp.length(trial) > bound * (1.0 - ROUNDING):
            mode = SLIDES
            scale = 1.0
            slope_e = wp.where(speed < SLOWEST_SLIP, bound / SLOWEST_SLIP, 0.0)
            slope_f = bound / wp.max(speed, SLOWEST_SLIP)
    f = wp.cross(n, e)
    none = wp.vec3(0.0)
    first = wp.spatial_vector(none, e)
    second = wp.spatial_vector(none, f)
    if k > 1:
        first = wp.spatial_vector(e, none)
        second = wp.spatial_vector(f, none)
    lay_row(c, k, first, slope_e, scale, view)
    lay_row(c, k + 1, second, slope_f, scale, view)
    return mode


@wp.func
def leaning(mode: int, n: wp.vec3, rate: wp.vec3, coefficient: float) -> wp.vec3:
    """Growth of a sliding friction impulse with its bound, times the coefficient."""
    lean = wp.vec3(0.0)
    if mode == SLIDES:
        slip = rate - wp.dot(n, rate) * n
        lean = slip * (coefficient / wp.max(wp.length(slip), SLOWEST_SLIP))
    return lean


@wp.func
def lay_contact(
    c: int,
    n: wp.vec3,
    motion: wp.spatial_vector,
    holds: bool,
    wedge: float,
    places: BodyContactView,
    view: ContactStageView,
):
    """Mode of contact c at the relative motion `motion`, and its rows.

    `view.total` is set; `holds` tells whether it pushes along its normal.
    """
    rate = wp.spatial_bottom(motion)
    turning = wp.spatial_top(motion)
    impulse = wp.spatial_bottom(view.total[c])
    spin = wp.spatial_top(view.total[c])
    mobility = places.mobility[c]
    about = places.spin_mobility[c]
    friction = places.friction[c]
    along = wp.where(holds, wp.dot(n, impulse), 0.0)
    sliding = lay_disc(c, 1, n, rate, impulse, mobility[1], friction[0] * (along + wedge), view)
    rolling = lay_disc(c, 4, n, turning, spin, about[1], friction[2] * along, view)
    none = wp.vec3(0.0)
    lean = leaning(rolling, n, turning, friction[2])
    torsion = OPEN
    bound = friction[1] * along
    lay_row(c, 3, wp.spatial_vector(n, none), 0.0, 1.0, view)
    if bound > 0.0 and about[0] > 0.0:
        torsion = HOLDS
        if wp.abs(wp.dot(n, spin) - wp.dot(n, turning) / about[0]) > bound * (1.0 - ROUNDING):
            torsion = SLIDES
            lean = lean + (wp.sign(wp.dot(n, turning)) * friction[1]) * n
        else:
            lay_row(c, 3, wp.spatial_vector(n, none), 1.0, 1.0 / (SOFTNESS * about[0]), view)
    normal = wp.spatial_vector(-lean, n - leaning(sliding, n, rate, friction[0]))
    lay_row(c, 0, normal, 0.0, 1.0, view)
    if holds:
        lay_row(c, 0, normal, 1.0, 1.0 / (SOFTNESS * mobility[0]), view)
        view.along[c, 0] = wp.spatial_vector(none, n)
    view.mode[c] = wp.vec4i(int(holds), sliding, torsion, rolling)
    view.acts[c] = 1


@wp.func
def begin_contact(c: int, places: BodyContactView, view: ContactStageView):
    """Reset contact c, with the current arms."""
    view.acts[c] = 0
    view.arm0[c] = places.arm0[c]
    view.arm1[c] = places.arm1[c]
    view.gap[c] = places.gap[c]
    view.want[c] = wp.spatial_vector()
    view.total[c] = wp.spatial_vector(places.spin[c], places.impulse[c])
    view.push[c] = view.total[c]
    view.wedge[c] = places.shift[c]
    view.multiplier[c] = wp.spatial_vector()


@wp.kernel
def decide_contacts(
    first: int,
    contacts: ContactView,
    places: BodyContactView,
    velocity: wp.array(dtype=wp.spatial_vector),
    view: ContactStageView,
):
    """One thread per contact place: its mode for the velocities to the end of a substep."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    begin_contact(c, places, view)
    n = contacts.normal[c]
    holds = wp.dot(n, places.impulse[c]) > 0.0
    if holds or places.shift[c] > 0.0:
        motion = relative_motion(places.body0[c], places.body1[c], view.arm0[c], view.arm1[c], velocity)
        motion = motion - places.motion_before_impact[c]
        lay_contact(c, n, motion, holds, places.shift[c], places, view)


@wp.kernel
def decide_shifts(
    first: int,
    contacts: ContactView,
    places: BodyContactView,
    view: ContactStageView,
):
    """One thread per contact place: whether it shifts bodies out of a penetration."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    begin_contact(c, places, view)
    none = wp.vec3(0.0)
    n = contacts.normal[c]
    view.wedge[c] = 0.0
    view.total[c] = wp.spatial_vector(none, places.shift[c] * n)
    view.push[c] = view.total[c]
    if places.shift[c] > 0.0:
        view.acts[c] = 1
        view.mode[c] = wp.vec4i(HOLDS, OPEN, OPEN, OPEN)
        for k in range(1, ROWS):
            lay_row(c, k, wp.spatial_vector(), 0.0, 0.0, view)
        lay_row(c, 0, wp.spatial_vector(none, n), 1.0, 1.0 / (SOFTNESS * places.mobility[c][0]), view)


@wp.kernel
def decide_relaxed_contacts(
    first: int,
    contacts: ContactView,
    places: BodyContactView,
    velocity: wp.array(dtype=wp.spatial_vector),
    position: ContactStageView,
    view: ContactStageView,
):
    """One thread per contact place: its mode in the correction of velocities, after `position`."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    begin_contact(c, places, view)
    if places.pushes[c] == 0:
        return
    view.push[c] = view.total[c] - position.total[c]
    motion = relative_motion(places.body0[c], places.body1[c], view.arm0[c], view.arm1[c], velocity)
    n = contacts.normal[c]
    lay_contact(c, n, motion, wp.dot(n, places.impulse[c]) > 0.0, places.shift[c], places, view)


@wp.kernel
def refuse_contacts(
    first: int,
    contacts: ContactView,
    features: FeatureView,
    position: ContactStageView,
    no_rule: int,
    reason: wp.array(dtype=int),
):
    """One thread per contact place: mark its world if it acted and no rule covers its features.

    Args:
        first: First place.
        contacts: Contacts of the step.
        features: What `contact_features.find_features` found.
        position: Those that acted.
        no_rule: The reason.
        reason: Receives it, by world.
    """
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] < contacts.world_count[w] and position.acts[c] == 1:
        if features.normal[c] == NORMAL_UNKNOWN:
            reason[w] = no_rule


@wp.func
def body_of_side(side: int, c: int, places: BodyContactView) -> int:
    """Body on a side of contact c."""
    return wp.where(side == 0, places.body0[c], places.body1[c])


@wp.func
def wrench_on(side: int, c: int, x: wp.spatial_vector, view: ContactStageView) -> wp.spatial_vector:
    """Wrench on the body of a side, about its centre of mass, whose power is that of x on the motion."""
    arm = view.arm0[c]
    sign = float(1.0)
    if side == 1:
        arm = view.arm1[c]
        sign = -1.0
    f = wp.spatial_bottom(x)
    return sign * wp.spatial_vector(wp.spatial_top(x) + wp.cross(arm, f), f)


@wp.func
def couple_contacts(
    w: int,
    sky: BlockSkylineView,
    contacts: ContactView,
    places: BodyContactView,
    view: ContactStageView,
    system: BodySystemView,
):
    """Make room for the contacts of a world."""
    begin = contacts.world_start[w]
    for c in range(begin, begin + contacts.world_count[w]):
        b0 = places.body0[c]
        b1 = places.body1[c]
        if view.acts[c] == 1 and b0 >= 0 and b1 >= 0:
            if system.world[b0] == w and system.world[b1] == w:
                couple_blocks(sky, sky.world_start[w], system.place[b0], system.place[b1])


@wp.func
def add_contacts(
    w: int,
    sky: BlockSkylineView,
    contacts: ContactView,
    places: BodyContactView,
    view: ContactStageView,
    system: BodySystemView,
):
    """Add the contacts of a world to its matrix and right-hand side.

    The right-hand side gets gradients with respect to their impulses.
    """
    base = sky.world_start[w]
    begin = contacts.world_start[w]
    for c in range(begin, begin + contacts.world_count[w]):
        if view.acts[c] == 1:
            for k in range(ROWS):
                if wp.length_sq(view.along[c, k]) > 0.0:
                    add_contact_row(w, base, c, k, sky, places, view, system)


@wp.func
def add_contact_row(
    w: int,
    base: int,
    c: int,
    k: int,
    sky: BlockSkylineView,
    places: BodyContactView,
    view: ContactStageView,
    system: BodySystemView,
):
    """Add row k of contact c."""
    scale = wp.float64(view.scale[c, k])
    given = scale * wp.float64(wp.dot(view.pull[c, k], view.want[c]))
    for p in range(2):
        bp = body_of_side(p, c, places)
        if bp >= 0:
            if system.world[bp] == w:
                row = wrench_on(p, c, view.along[c, k], view)
                add_to_block(base + system.place[bp], -given, row, sky.given)
                for q in range(2):
                    bq = body_of_side(q, c, places)
                    if bq >= 0:
                        if system.role[bq] == BODY_MOVES and system.world[bq] == w:
                            column = wrench_on(q, c, view.pull[c, k], view)
                            add_outer(sky, base, system.place[bp], row, system.place[bq], column, scale)


@wp.func
def read_contact_multipliers(
    w: int,
    sky: BlockSkylineView,
    contacts: ContactView,
    places: BodyContactView,
    view: ContactStageView,
    system: BodySystemView,
):
    """Read the multipliers of the contacts of a world from the solution."""
    base = sky.world_start[w]
    begin = contacts.world_start[w]
    for c in range(begin, begin + contacts.world_count[w]):
        if view.acts[c] == 1:
            found = wp.spatial_vector()
            for k in range(ROWS):
                total = wp.float64(wp.dot(view.pull[c, k], view.want[c]))
                for p in range(2):
                    b = body_of_side(p, c, places)
                    if b >= 0:
                        if system.role[b] == BODY_MOVES and system.world[b] == w:
                            column = wrench_on(p, c, view.pull[c, k], view)
                            total = block_sum(total, base + system.place[b], column, sky.x)
                direction = view.pull[c, k]
                if k == 0:
                    direction = wp.spatial_vector(wp.vec3(0.0), contacts.normal[c])
                found += float(total * wp.float64(view.scale[c, k])) * direction
            view.multiplier[c] = found


@wp.kernel
def hand_back(
    first: int,
    contacts: ContactView,
    places: BodyContactView,
    multiplier: wp.array(dtype=wp.spatial_vector),
    velocity: ContactStageView,
    position: ContactStageView,
):
    """One thread per contact place: hand gradients from the correction of velocities to the solve before it.

    They are with respect to the impulses of that solve.
    """
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] < contacts.world_count[w] and velocity.acts[c] == 1:
        b0 = places.body0[c]
        b1 = places.body1[c]
        under = relative_motion(b0, b1, velocity.arm0[c], velocity.arm1[c], multiplier)
        position.want[c] = -under


@wp.func
def by_wedge(c: int, n: wp.vec3, view: ContactStageView) -> float:
    """Gradient with respect to the impulse of the shift, which bounds friction."""
    gradient = float(0.0)
    if view.acts[c] == 1:
        lean = n - wp.spatial_bottom(view.pull[c, 0])
        gradient = -wp.dot(wp.spatial_bottom(view.multiplier[c]), lean)
    return gradient


@wp.kernel
def hand_to_shifts(
    first: int,
    contacts: ContactView,
    velocity: ContactStageView,
    position: ContactStageView,
    shift: ContactStageView,
):
    """One thread per contact place: gradients with respect to impulses of shifts, which bound friction."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] < contacts.world_count[w]:
        n = contacts.normal[c]
        shift.want[c] = wp.spatial_vector(
            wp.vec3(0.0), (by_wedge(c, n, velocity) + by_wedge(c, n, position)) * n
        )
