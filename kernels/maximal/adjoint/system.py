"""The adjoint system of a substep of rigid bodies, and the initial spin of its free motion.

With rows that measure c at the end, act by wrenches J at the start and have a softness C, the multipliers of
bodies and rows solve M λ + (∂c/∂u)ᵀ m = g, J λ = C m. To eliminate rows, held ones get additional softness;
the method of multipliers (Hestenes, "Multiplier and gradient methods", 1969) compensates for it: each solve
adds what the previous multipliers require.

Stage: backward pass in maximal coordinates, multipliers
Called by: solvers/maximal/adjoint.py, solvers/particles/adjoint_bodies.py,
    kernels/particles/adjoint/coupled_system.py
Reads: BlockSkylineView, BlockView, BodyContactView, BodySystemView, ContactStageView, ContactView,
    MotionView, RowGradientView, SpinView, 11 arrays
Writes: BlockSkylineView, BodySystemView, ContactStageView, RowGradientView, away, half, half_slope,
    kept_reason, moving, multiplier, total
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_lu import (
    BlockSkylineView,
    add_outer,
    add_to_block,
    block_sum,
    clear_blocks,
    couple_blocks,
    factorize_blocks,
    lay_out_blocks,
    solve_blocks,
)
from newtonsim.kernels.algebra.spatial import (
    left_jacobian_factors,
    power_of_two,
    quat_exp,
    rotate_inertia,
    world_axis,
)
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.maximal.adjoint.contact_system import (
    add_contacts,
    couple_contacts,
    read_contact_multipliers,
)
from newtonsim.kernels.maximal.adjoint.contact_terms import ContactStageView
from newtonsim.kernels.maximal.adjoint.row_terms import ROW_OFF, RowGradientView
from newtonsim.kernels.maximal.adjoint.substep import BODY_DRIVEN, BODY_MOVES, BODY_WELDED, BodySystemView
from newtonsim.kernels.maximal.contacts import BodyContactView
from newtonsim.kernels.maximal.joints import CURVED
from newtonsim.kernels.maximal.motion import half_way, turn, turns_otherwise
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.maximal.rows import SpinView, block_frames
from newtonsim.kernels.maximal.sweeps import BlockView
from newtonsim.kernels.views.pair_rows import PAIR_COUPLING

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# why a world has no gradient
REASON_ROOM = wp.constant(1)
REASON_TURN = wp.constant(2)
REASON_SINGULAR = wp.constant(3)
REASON_FEATURES = wp.constant(4)
REASON_KICK = wp.constant(5)
# number of solves with additional softness; each reduces the error of the multipliers by a factor of a
# hundred or more
SOLUTIONS = wp.constant(4)
# smallest pivot, over the initial entry, above which solutions are accurate
LEAST_PIVOT = wp.constant(wp.float64(1.0e-13))


@wp.func
def left_slope(phi: wp.vec3) -> wp.mat33:
    """Left Jacobian of the exponential map at a rotation vector."""
    factors = left_jacobian_factors(phi)
    skew = wp.skew(phi)
    return wp.identity(3, dtype=float) + factors[0] * skew + factors[1] * (skew * skew)


@wp.kernel
def find_half_way(
    first: int,
    x0: wp.array(dtype=wp.transform),
    u0: wp.array(dtype=wp.spatial_vector),
    dt: float,
    bodies: MotionView,
    system: BodySystemView,
    half: wp.array(dtype=wp.vec3),
    half_slope: wp.array(dtype=wp.mat33),
):
    """One thread per body: its role, and the spin of its free motion with the slope of its equation.

    Args:
        first: First body.
        x0: Poses at the start of the substep.
        u0: Velocities at the start, with external forces.
        dt: Length of the substep.
        bodies: After `maximal.motion.turn_bodies`.
        system: Receives the roles.
        half: Angular velocities in body axes.
        half_slope: Inverse of inertia - dt/2 [L]ₓ J, with the momentum L rotated to the middle of the
        substep.
    """
    b = first + wp.tid()
    role = BODY_MOVES
    if bodies.inv_mass[b] <= 0.0:
        role = BODY_DRIVEN
        if system.mass[b] > 0.0:
            role = BODY_WELDED
    system.role[b] = role
    if role == BODY_MOVES:
        r = wp.transform_get_rotation(x0[b])
        momentum = system.inertia[b] * turn(wp.quat_inverse(r), wp.spatial_top(u0[b]))
        w = half_way(momentum, bodies.inv_inertia[b], dt)
        half[b] = w
        phi = w * (-0.5 * dt)
        turned = turn(quat_exp(phi), momentum)
        slope = system.inertia[b] - 0.5 * dt * (wp.skew(turned) * left_slope(phi))
        scale = power_of_two(wp.trace(system.inertia[b]))
        half_slope[b] = wp.inverse(slope / scale) / scale


@wp.kernel
def begin_worlds(first: int, system: BodySystemView):
    """One thread per world: clear its reason."""
    system.reason[first + wp.tid()] = 0


@wp.kernel
def keep_reasons(first: int, system: BodySystemView, kept_reason: wp.array(dtype=int)):
    """One thread per world: keep the reason of any step until it is asked for."""
    w = first + wp.tid()
    if system.reason[w] != 0:
        kept_reason[w] = system.reason[w]


@wp.kernel
def compare_ends(
    first: int,
    system: BodySystemView,
    poses: wp.array(dtype=wp.transform),
    free: wp.array(dtype=wp.spatial_vector),
    solved: wp.array(dtype=wp.spatial_vector),
    stepped: wp.array(dtype=wp.spatial_vector),
    away: wp.array(dtype=wp.vec2d),
):
    """One thread per body: distance of the step from the converged one, and the change by constraints.

    Both are squares of the norm of kinetic energy, summed over each world: of the difference of both
    velocities, and of the change that constraints have made. Rounding of the velocities counts as a change.
    """
    b = first + wp.tid()
    w = system.world[b]
    if w >= 0 and system.role[b] == BODY_MOVES:
        q = wp.transform_get_rotation(poses[b])
        rounding = 1.0e-4 * kinetic(system, b, q, stepped[b])
        off = kinetic(system, b, q, stepped[b] - solved[b])
        acted = kinetic(system, b, q, solved[b] - free[b]) + rounding
        wp.atomic_add(away, w, wp.vec2d(wp.float64(off), wp.float64(acted)))


@wp.func
def kinetic(system: BodySystemView, b: int, q: wp.quat, u: wp.spatial_vector) -> float:
    """Twice the kinetic energy of a body with a velocity (ω, v) [J]."""
    w = wp.quat_rotate_inv(q, wp.spatial_top(u))
    v = wp.spatial_bottom(u)
    return system.mass[b] * wp.dot(v, v) + wp.dot(w, system.inertia[b] * w)


@wp.kernel
def check_turns(
    first: int,
    x0: wp.array(dtype=wp.transform),
    u: wp.array(dtype=wp.spatial_vector),
    dt: float,
    spin: SpinView,
    system: BodySystemView,
):
    """One thread per body: mark rotations that sweeps include only in part, or that impulses make large."""
    b = first + wp.tid()
    if system.role[b] == BODY_MOVES and system.world[b] >= 0:
        if turns_otherwise(u[b], x0[b], spin.middle[b], dt):
            system.reason[system.world[b]] = REASON_KICK
    if spin.weld[b] >= -1 and system.world[b] >= 0:
        if dt * wp.length(wp.spatial_top(u[b])) > CURVED:
            system.reason[system.world[b]] = REASON_TURN


@wp.func
def source_of(part: int, r: int, block: BlockView) -> int:
    """Row with the direction in which row r acts on the body of a part: of a coupling, that of an axis."""
    source = r
    if block.rows.kind[r] == PAIR_COUPLING:
        source = wp.where(part < 2, block.rows.coupled[r][0], block.rows.coupled[r][1])
    return source


@wp.func
def body_of(part: int, r: int, block: BlockView, view: RowGradientView) -> int:
    """Body of part 0 to 3 of row r: two bodies, and those of the second axis of a coupling."""
    k = view.block[r]
    if block.rows.kind[r] == PAIR_COUPLING:
        axis = source_of(part, r, block)
        if axis < 0:
            return -1
        k = block.row_joint[axis]
    elif part > 1:
        return -1
    f = block_frames(k, block.joints, block.joint, block.loop)
    return wp.where(part % 2 == 0, f.b0, f.b1)


@wp.func
def column_of(part: int, r: int, block: BlockView, view: RowGradientView) -> wp.spatial_vector:
    """Wrench of row r on the body of a part, for a unit impulse."""
    source = source_of(part, r, block)
    pull = view.pull0[source]
    if part % 2 == 1:
        pull = view.pull1[source]
    return wp.where(part > 1, -view.slope[r][0], 1.0) * pull


@wp.func
def row_of(part: int, r: int, block: BlockView, view: RowGradientView) -> wp.spatial_vector:
    """Slope of the target of row r by the velocity of the body of a part, without its scale."""
    source = source_of(part, r, block)
    end = view.end0[source]
    if part % 2 == 1:
        end = view.end1[source]
    return wp.where(part > 1, -view.slope[r][1], 1.0) * view.impulse_slope[r] * end


@wp.func
def couple_rows(
    w: int, sky: BlockSkylineView, block: BlockView, view: RowGradientView, system: BodySystemView
):
    """Make room for the rows of joints and constraints of a world."""
    base = sky.world_start[w]
    for i in range(view.world_start[w], view.world_start[w + 1]):
        r = view.row[i]
        if view.mode[r] != ROW_OFF:
            for p in range(4):
                bp = body_of(p, r, block, view)
                for q in range(p):
                    bq = body_of(q, r, block, view)
                    if bp >= 0 and bq >= 0:
                        if system.world[bp] == w and system.world[bq] == w:
                            couple_blocks(sky, base, system.place[bp], system.place[bq])


@wp.func
def add_rows(w: int, sky: BlockSkylineView, block: BlockView, view: RowGradientView, system: BodySystemView):
    """Add the rows of joints and constraints of a world."""
    base = sky.world_start[w]
    for i in range(view.world_start[w], view.world_start[w + 1]):
        r = view.row[i]
        if view.mode[r] != ROW_OFF:
            scale = wp.float64(view.scale[r])
            for p in range(4):
                bp = body_of(p, r, block, view)
                if bp >= 0:
                    row = row_of(p, r, block, view)
                    for q in range(4):
                        bq = body_of(q, r, block, view)
                        if bq >= 0:
                            if system.role[bq] == BODY_MOVES and system.world[bp] == w:
                                column = column_of(q, r, block, view)
                                i_place = system.place[bp]
                                add_outer(sky, base, i_place, row, system.place[bq], column, scale)


@wp.func
def add_bodies(
    w: int,
    sky: BlockSkylineView,
    orientation: wp.array(dtype=wp.quat),
    gradient: wp.array(dtype=wp.spatial_vector),
    system: BodySystemView,
):
    """Add masses and right-hand side of a world."""
    base = sky.world_start[w]
    one = wp.float64(1.0)
    for b in range(system.body_start[w], system.body_start[w + 1]):
        i = system.place[b]
        mass = float(1.0)
        turned = wp.identity(3, dtype=float)
        if system.role[b] == BODY_MOVES:
            mass = system.mass[b]
            turned = rotate_inertia(orientation[b], system.inertia[b])
        for a in range(3):
            e = world_axis(a)
            none = wp.vec3(0.0)
            add_outer(sky, base, i, wp.spatial_vector(e, none), i, wp.spatial_vector(turned * e, none), one)
            pull = wp.spatial_vector(none, e)
            add_outer(sky, base, i, pull, i, mass * pull, one)
        for a in range(6):
            sky.given[6 * (base + i) + a] = wp.float64(gradient[b][a])


@wp.func
def lend_to_rows(
    w: int, sky: BlockSkylineView, block: BlockView, view: RowGradientView, system: BodySystemView
):
    """Right-hand side of a world, minus the effect of the multipliers so far on held rows."""
    base = sky.world_start[w]
    for i in range(6 * base, 6 * sky.world_start[w + 1]):
        sky.x[i] = sky.given[i]
    for i in range(view.world_start[w], view.world_start[w + 1]):
        r = view.row[i]
        if view.mode[r] != ROW_OFF and view.lent[r] > 0.0:
            known = view.lent[r] * view.multiplier[r]
            for p in range(4):
                b = body_of(p, r, block, view)
                if b >= 0:
                    if system.world[b] == w:
                        row = row_of(p, r, block, view)
                        add_to_block(base + system.place[b], -wp.float64(known), row, sky.x)


@wp.func
def read_multipliers(
    w: int, sky: BlockSkylineView, block: BlockView, view: RowGradientView, system: BodySystemView
):
    """Multipliers of the rows of a world from those of its bodies."""
    base = sky.world_start[w]
    for i in range(view.world_start[w], view.world_start[w + 1]):
        r = view.row[i]
        total = wp.float64(0.0)
        if view.mode[r] != ROW_OFF:
            for p in range(4):
                b = body_of(p, r, block, view)
                if b >= 0:
                    if system.role[b] == BODY_MOVES:
                        column = column_of(p, r, block, view)
                        total = block_sum(total, base + system.place[b], column, sky.x)
        known = wp.float64(view.lent[r]) * wp.float64(view.multiplier[r])
        view.multiplier[r] = float(total * wp.float64(view.scale[r]) + known)


@wp.func
def lay_out_bodies(
    w: int,
    sky: BlockSkylineView,
    orientation: wp.array(dtype=wp.quat),
    gradient: wp.array(dtype=wp.spatial_vector),
    block: BlockView,
    view: RowGradientView,
    contacts: ContactView,
    places: BodyContactView,
    stage: ContactStageView,
    system: BodySystemView,
) -> bool:
    """Write the matrix and the right-hand side of a world, see `solve_worlds`; False if there is no room."""
    clear_blocks(sky, w)
    couple_rows(w, sky, block, view, system)
    couple_contacts(w, sky, contacts, places, stage, system)
    if not lay_out_blocks(sky, w):
        return False
    add_bodies(w, sky, orientation, gradient, system)
    add_rows(w, sky, block, view, system)
    add_contacts(w, sky, contacts, places, stage, system)
    return True


@wp.func
def solve_bodies(
    w: int, sky: BlockSkylineView, block: BlockView, view: RowGradientView, system: BodySystemView
):
    """Solve the factorized system of a world for `sky.given`; rows receive their multipliers."""
    for i in range(view.world_start[w], view.world_start[w + 1]):
        r = view.row[i]
        view.multiplier[r] = 0.0
    for _k in range(SOLUTIONS):
        lend_to_rows(w, sky, block, view, system)
        solve_blocks(sky, w)
        read_multipliers(w, sky, block, view, system)


@wp.func
def read_bodies(
    w: int, sky: BlockSkylineView, system: BodySystemView, multiplier: wp.array(dtype=wp.spatial_vector)
):
    """Multipliers of the bodies of a world from the solution; NaN where there is a reason against them."""
    base = sky.world_start[w]
    for b in range(system.body_start[w], system.body_start[w + 1]):
        found = wp.spatial_vector()
        for a in range(6):
            found[a] = float(sky.x[6 * (base + system.place[b]) + a])
        if system.reason[w] != 0:
            found = wp.spatial_vector(wp.nan, wp.nan, wp.nan, wp.nan, wp.nan, wp.nan)
        multiplier[b] = found


@wp.kernel
def solve_worlds(
    first: int,
    sky: BlockSkylineView,
    orientation: wp.array(dtype=wp.quat),
    gradient: wp.array(dtype=wp.spatial_vector),
    block: BlockView,
    view: RowGradientView,
    contacts: ContactView,
    places: BodyContactView,
    stage: ContactStageView,
    system: BodySystemView,
    multiplier: wp.array(dtype=wp.spatial_vector),
):
    """One thread per world: multipliers of its bodies, rows and contacts, for a gradient with respect to
    its velocities.

    Args:
        first: First world.
        sky: Workspace.
        orientation: Of the bodies, for their inertia.
        gradient: By the velocities after the rows.
        block: Rows.
        view: Their modes; receives their multipliers.
        contacts: Contacts of the step.
        places: Their bodies.
        stage: How they act in the system; receives their multipliers.
        system: Bodies.
        multiplier: Of the bodies, as velocities; NaN where there is no gradient.
    """
    w = first + wp.tid()
    if lay_out_bodies(w, sky, orientation, gradient, block, view, contacts, places, stage, system):
        if factorize_blocks(sky, w) > LEAST_PIVOT:
            solve_bodies(w, sky, block, view, system)
        elif system.body_start[w + 1] > system.body_start[w]:
            system.reason[w] = REASON_SINGULAR
    else:
        system.reason[w] = REASON_ROOM
    read_bodies(w, sky, system, multiplier)
    read_contact_multipliers(w, sky, contacts, places, stage, system)


@wp.kernel
def mask_driven(
    first: int,
    system: BodySystemView,
    multiplier: wp.array(dtype=wp.spatial_vector),
    moving: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: multipliers of bodies that impulses move, 0 of the others."""
    b = first + wp.tid()
    moving[b] = wp.spatial_vector()
    if system.role[b] == BODY_MOVES:
        moving[b] = multiplier[b]


@wp.kernel
def add_transforms(first: int, more: wp.array(dtype=wp.transform), total: wp.array(dtype=wp.transform)):
    """One thread per body: add gradients with respect to poses."""
    b = first + wp.tid()
    p = wp.transform_get_translation(total[b]) + wp.transform_get_translation(more[b])
    total[b] = wp.transform(p, wp.transform_get_rotation(total[b]) + wp.transform_get_rotation(more[b]))


@wp.kernel
def add_twists(first: int, more: wp.array(dtype=wp.spatial_vector), total: wp.array(dtype=wp.spatial_vector)):
    """One thread per body: add gradients with respect to velocities."""
    b = first + wp.tid()
    total[b] = total[b] + more[b]
