"""The adjoint of an implicit step of particles among rigid bodies that move in the same sweeps, per world.

Bodies, with their joints and the contacts between them, are eliminated by means of the factors of their own
system (`maximal.adjoint.system`): BiCGSTAB, as in `particles.adjoint.system`, solves for the particles alone,

    (K - Kpb Kbb⁻¹ Kbp) λp = g - Kpb Kbb⁻¹ gb,   λb = Kbb⁻¹ (gb - Kbp λp).

Stage: backward pass of particles among bodies, linear system
Called by: solvers/particles/adjoint_bodies.py
Reads: BodiesView, SystemView, TouchBlocks, TouchSlopes, TouchedBodies, gradient, orientation
Writes: BodiesView, SystemView, TouchedBodies, multiplier, reason
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_lu import BlockSkylineView, factorize_blocks
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.maximal.adjoint.contact_system import read_contact_multipliers
from newtonsim.kernels.maximal.adjoint.contact_terms import ContactStageView
from newtonsim.kernels.maximal.adjoint.row_terms import RowGradientView
from newtonsim.kernels.maximal.adjoint.substep import BODY_MOVES, BodySystemView
from newtonsim.kernels.maximal.adjoint.system import (
    LEAST_PIVOT,
    REASON_ROOM,
    REASON_SINGULAR,
    lay_out_bodies,
    read_bodies,
    solve_bodies,
)
from newtonsim.kernels.maximal.contacts import BodyContactView
from newtonsim.kernels.maximal.sweeps import BlockView
from newtonsim.kernels.particles.adjoint.body_touches import TouchBlocks, TouchedBodies, body_touched
from newtonsim.kernels.particles.adjoint.contacts import TouchSlopes, corner_at, corners_in, weight_at
from newtonsim.kernels.particles.adjoint.system import (
    ONE,
    ZERO,
    SystemView,
    first_half,
    next_directions,
    product,
    rows_times,
    second_half,
)
from newtonsim.kernels.particles.adjoint.unsupported import BODIES, NOT_SOLVED

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class BodiesView:
    """The system of the bodies, see `maximal.adjoint.system.solve_worlds`."""

    sky: BlockSkylineView
    block: BlockView
    rows: RowGradientView
    contacts: ContactView
    places: BodyContactView
    stage: ContactStageView
    system: BodySystemView
    gradient: wp.array(dtype=wp.float64)  # (6 B) right-hand side by their own gradients


@wp.func
def add_own_blocks(w: int, sky: BlockSkylineView, system: BodySystemView, touched: TouchedBodies):
    """Add the diagonal blocks of bodies due to contacts of particles."""
    base = sky.world_start[w]
    for b in range(system.body_start[w], system.body_start[w + 1]):
        i = system.place[b]
        at = 36 * (sky.row[base + i] + i - sky.first[base + i])
        for row in range(3):
            for column in range(3):
                for k in range(4):
                    entry = at + 6 * (row + 3 * (k // 2)) + column + 3 * (k % 2)
                    sky.upper[entry] = sky.upper[entry] + touched.own[b, k][row, column]


@wp.func
def add_to_bodies(
    w: int,
    touch: TouchSlopes,
    blocks: TouchBlocks,
    x: wp.array(dtype=wp.vec3d),
    sky: BlockSkylineView,
    place: wp.array(dtype=int),
) -> int:
    """Subtract Kbp x from the right-hand side of the bodies; returns the number of contacts."""
    base = sky.world_start[w]
    found = int(0)
    for n in range(blocks.world_start[w], blocks.world_start[w + 1]):
        i = blocks.member[n]
        for k in range(touch.contacts.count[i]):
            b = body_touched(touch, i, k)
            if b >= 0:
                total = wp.vec3d()
                for c in range(corners_in(touch)):
                    total += x[corner_at(touch, i, c)] * weight_at(touch, i, k, c)
                spin = blocks.spin_point[i, k] * total
                speed = blocks.speed_point[i, k] * total
                at = 6 * (base + place[b])
                for a in range(3):
                    sky.given[at + a] = sky.given[at + a] - spin[a]
                    sky.given[at + 3 + a] = sky.given[at + 3 + a] - speed[a]
                found += 1
    return found


@wp.func
def add_to_points(
    w: int,
    touch: TouchSlopes,
    blocks: TouchBlocks,
    factor: wp.float64,
    mass: wp.array(dtype=wp.float64),
    sky: BlockSkylineView,
    place: wp.array(dtype=int),
    found: wp.array(dtype=wp.vec3d),
):
    """Add a multiple of Kpb times the solution of the bodies to a vector of the particles."""
    base = sky.world_start[w]
    for n in range(blocks.world_start[w], blocks.world_start[w + 1]):
        i = blocks.member[n]
        for k in range(touch.contacts.count[i]):
            b = body_touched(touch, i, k)
            if b >= 0:
                at = 6 * (base + place[b])
                x = sky.x
                spin = wp.vec3d(x[at], x[at + 1], x[at + 2])
                speed = wp.vec3d(x[at + 3], x[at + 4], x[at + 5])
                push = (blocks.point_spin[i, k] * spin + blocks.point_speed[i, k] * speed) * factor
                for c in range(corners_in(touch)):
                    p = corner_at(touch, i, c)
                    if mass[p] > ZERO:
                        found[p] = found[p] + push * weight_at(touch, i, k, c)


@wp.func
def move_bodies(
    w: int,
    points: TouchSlopes,
    point_blocks: TouchBlocks,
    faces: TouchSlopes,
    face_blocks: TouchBlocks,
    x: wp.array(dtype=wp.vec3d),
    bodies: BodiesView,
) -> int:
    """Solve for the bodies at -Kbp x; returns 0 if nothing touches them."""
    for i in range(6 * bodies.sky.world_start[w], 6 * bodies.sky.world_start[w + 1]):
        bodies.sky.given[i] = ZERO
    place = bodies.system.place
    found = add_to_bodies(w, points, point_blocks, x, bodies.sky, place)
    found += add_to_bodies(w, faces, face_blocks, x, bodies.sky, place)
    if found > 0:
        solve_bodies(w, bodies.sky, bodies.block, bodies.rows, bodies.system)
    return found


@wp.func
def times_all(
    w: int,
    s: SystemView,
    points: TouchSlopes,
    point_blocks: TouchBlocks,
    faces: TouchSlopes,
    face_blocks: TouchBlocks,
    bodies: BodiesView,
    a: wp.array(dtype=wp.vec3d),
    found: wp.array(dtype=wp.vec3d),
):
    """(K - Kpb Kbb⁻¹ Kbp) a."""
    rows_times(s, s.world_start[w], s.world_start[w + 1], a, found)
    if move_bodies(w, points, point_blocks, faces, face_blocks, a, bodies) > 0:
        place = bodies.system.place
        add_to_points(w, points, point_blocks, ONE, s.mass, bodies.sky, place, found)
        add_to_points(w, faces, face_blocks, ONE, s.mass, bodies.sky, place, found)


@wp.func
def size_of(
    w: int,
    s: SystemView,
    dt: wp.float64,
    sky: BlockSkylineView,
    system: BodySystemView,
    gradient: wp.array(dtype=wp.float64),
) -> wp.float64:
    """Squared norm of the right-hand side, with bodies weighted like the points that touch them."""
    size = product(s, s.world_start[w], s.world_start[w + 1], s.r, s.r)
    base = sky.world_start[w]
    for b in range(system.body_start[w], system.body_start[w + 1]):
        at = 6 * (base + system.place[b])
        # squared radius of gyration of the body
        arm = ONE
        if system.role[b] == BODY_MOVES:
            arm = wp.float64(wp.trace(system.inertia[b]) / system.mass[b])
        total = ZERO
        for a in range(3):
            spin = gradient[at + a]
            speed = gradient[at + 3 + a]
            total += spin * spin / arm + speed * speed
        size += total / (dt * dt)
    return size


@wp.func
def read_touched(w: int, sky: BlockSkylineView, system: BodySystemView, touched: TouchedBodies):
    """Complete multipliers of bodies for impulses of particles: contacts depend on small differences."""
    base = sky.world_start[w]
    for b in range(system.body_start[w], system.body_start[w + 1]):
        at = 6 * (base + system.place[b])
        x = sky.x
        spin = wp.vec3d()
        speed = wp.vec3d()
        if system.role[b] == BODY_MOVES:
            spin = wp.transpose(wp.mat33d(touched.carry[b])) * wp.vec3d(x[at], x[at + 1], x[at + 2])
            speed = wp.vec3d(x[at + 3], x[at + 4], x[at + 5])
        touched.by_turns[b] = spin
        touched.by_pushes[b] = speed


@wp.kernel
def solve_coupled_worlds(
    first: int,
    most: int,
    tolerance: wp.float64,
    enough: wp.float64,
    dt: wp.float64,
    orientation: wp.array(dtype=wp.quat),
    gradient: wp.array(dtype=wp.spatial_vector),
    points: TouchSlopes,
    point_blocks: TouchBlocks,
    faces: TouchSlopes,
    face_blocks: TouchBlocks,
    touched: TouchedBodies,
    bodies: BodiesView,
    s: SystemView,
    multiplier: wp.array(dtype=wp.spatial_vector),
    reason: wp.array(dtype=int),
):
    """One thread per world: multipliers of its particles, bodies, rows and contacts.

    Args:
        first: First world.
        most: Most iterations.
        tolerance: Residual over right-hand side at which they end.
        enough: Largest residual of a valid gradient.
        dt: Length of the substep [s].
        orientation: Of the bodies in the middle of the substep.
        gradient: By the velocities of bodies after the sweeps.
        points: Contacts of particles.
        point_blocks: Their blocks.
        faces: Contacts of triangles.
        face_blocks: Their blocks.
        touched: The bodies, as seen from particles.
        bodies: Their system; rows and contacts receive their multipliers.
        s: The particles after `system.invert_diagonal`; receives theirs.
        multiplier: Of the bodies, as velocities; NaN where there is no gradient.
        reason: Why a world has none.
    """
    w = first + wp.tid()
    sky = bodies.sky
    if not lay_out_bodies(
        w,
        sky,
        orientation,
        gradient,
        bodies.block,
        bodies.rows,
        bodies.contacts,
        bodies.places,
        bodies.stage,
        bodies.system,
    ):
        bodies.system.reason[w] = REASON_ROOM
    else:
        add_own_blocks(w, sky, bodies.system, touched)
        if factorize_blocks(sky, w) <= LEAST_PIVOT and sky.world_start[w + 1] > sky.world_start[w]:
            bodies.system.reason[w] = REASON_SINGULAR
    start = s.world_start[w]
    end = s.world_start[w + 1]
    s.iterations[w] = 0
    s.residual[w] = ZERO
    if bodies.system.reason[w] == 0:
        for i in range(6 * sky.world_start[w], 6 * sky.world_start[w + 1]):
            bodies.gradient[i] = sky.given[i]
        size = size_of(w, s, dt, sky, bodies.system, bodies.gradient)
        solve_bodies(w, sky, bodies.block, bodies.rows, bodies.system)
        place = bodies.system.place
        add_to_points(w, points, point_blocks, -ONE, s.mass, sky, place, s.r)
        add_to_points(w, faces, face_blocks, -ONE, s.mass, sky, place, s.r)
        for n in range(start, end):
            s.shadow[s.particle[n]] = s.r[s.particle[n]]
        rho = ONE
        alpha = ONE
        omega = ONE
        left = product(s, start, end, s.r, s.r)
        count = int(0)
        while count < most and left > tolerance * tolerance * size:
            rho_next = product(s, start, end, s.shadow, s.r)
            beta = (rho_next / rho) * (alpha / omega)
            rho = rho_next
            if count == 0:
                beta = ZERO
            next_directions(s, start, end, beta, omega)
            times_all(w, s, points, point_blocks, faces, face_blocks, bodies, s.p_hat, s.v)
            alpha = rho / product(s, start, end, s.shadow, s.v)
            first_half(s, start, end, alpha)
            times_all(w, s, points, point_blocks, faces, face_blocks, bodies, s.s_hat, s.t)
            tt = product(s, start, end, s.t, s.t)
            omega = ZERO
            if tt > ZERO:
                omega = product(s, start, end, s.t, s.r) / tt
            left = second_half(s, start, end, alpha, omega)
            count += 1
            if omega == ZERO or rho == ZERO:
                break
        s.iterations[w] = count
        if size > ZERO:
            s.residual[w] = wp.sqrt(left / size)
        if s.residual[w] > enough:
            reason[w] = NOT_SOLVED
        for i in range(6 * sky.world_start[w], 6 * sky.world_start[w + 1]):
            sky.given[i] = bodies.gradient[i]
        add_to_bodies(w, points, point_blocks, s.x, sky, place)
        add_to_bodies(w, faces, face_blocks, s.x, sky, place)
        solve_bodies(w, sky, bodies.block, bodies.rows, bodies.system)
    elif reason[w] == 0:
        reason[w] = BODIES
    read_bodies(w, sky, bodies.system, multiplier)
    read_touched(w, sky, bodies.system, touched)
    if reason[w] != 0:
        for b in range(bodies.system.body_start[w], bodies.system.body_start[w + 1]):
            multiplier[b] = wp.spatial_vector(wp.nan, wp.nan, wp.nan, wp.nan, wp.nan, wp.nan)
    read_contact_multipliers(w, sky, bodies.contacts, bodies.places, bodies.stage, bodies.system)
