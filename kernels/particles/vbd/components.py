"""Rigid motion of connected components in vertex block descent: one additional block for each of them.

The rigid motion of a component does not change its energies, so that only inertia and contacts determine it.
In particle-wise updates, it is the slowest mode of all, and unconverged momentum would be lost. Therefore, a
Newton step with six unknowns finds the rigid motion of each free component after each sweep: forces and
torques on it balance, and only contacts and gravity change its momentum.

Stage: VBD substep, after each sweep, motion of connected components
Called by: solvers/vbd/adjoint.py, solvers/vbd/components.py
Reads: ComponentView, DescentView, MotionView, SelfContactView, StencilView, TouchView, now
Writes: ComponentView, StencilView, v
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.particles.contacts import blend, corners_of
from newtonsim.kernels.particles.self_contact.contact import ContactTerms, SelfContactView, pair_terms
from newtonsim.kernels.particles.vbd.contacts import Push, TouchView, push_of, push_of_face
from newtonsim.kernels.particles.vbd.elements import StencilView
from newtonsim.kernels.particles.vbd.particles import DescentView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# particles or triangles of a chunk
CHUNK = wp.constant(128)
# share of the largest pivot below which a mode does not move, such as the spin of a straight rope
SINGULAR = wp.constant(1.0e-6)


@wp.struct
class ComponentView:
    """Connected components: R of them in C chunks of the N particles, listed one after the other."""

    particle: wp.array(dtype=int)  # (N)
    of: wp.array(dtype=int)  # (N) component of each particle
    chunk_start: wp.array(dtype=int)  # (C + 1) first particle of each chunk
    chunk_component: wp.array(dtype=int)  # (C)
    chunk_face: wp.array(dtype=int)  # (C + 1) first triangle of each chunk
    face: wp.array(dtype=int)  # (T) triangles, listed component by component
    component_start: wp.array(dtype=int)  # (R + 1) first chunk of each component
    force: wp.array(dtype=wp.spatial_vector)  # (C) torque and force on each chunk
    stiffness: wp.array(dtype=wp.spatial_matrix)  # (C)
    held: wp.array(dtype=int)  # (C) number of held particles
    apart: wp.array(dtype=int)  # (C) 1 for chunks that are excluded from the momentum balance
    free: wp.array(dtype=int)  # (R) 1 if no particle of the component is held
    motion: wp.array(dtype=wp.spatial_vector)  # (R) rotation vector and displacement
    gain: wp.array(dtype=float)  # (R) [J] work of the force before the motion


@wp.struct
class Balance:
    """Torque and force about a point, and their derivative by rotation and displacement."""

    force: wp.spatial_vector
    stiffness: wp.spatial_matrix


@wp.func
def reference(components: ComponentView, s: StencilView, chunk: int) -> wp.vec3:
    """The point about which the component of a chunk rotates, at the start of the substep."""
    first = components.component_start[components.chunk_component[chunk]]
    return s.x[components.particle[components.chunk_start[first]]]


@wp.func
def add_push(balance: wp.ref[Balance], r: wp.vec3, push: Push):
    """Add a contact at r."""
    f = push.normal * push.press + push.drag
    balance.force += wp.spatial_vector(wp.cross(r, f), f)
    n = push.normal
    across = push.resistance
    K = wp.outer(n, n) * (push.stiffness - across) + wp.identity(n=3, dtype=float) * across
    add_stiffness(balance, r, K)


@wp.func
def add_stiffness(balance: wp.ref[Balance], r: wp.vec3, K: wp.mat33):
    """Add a spring with the stiffness K at r."""
    turn = wp.skew(r)
    # the displacement at r is d - r x w
    couple = turn * K
    spin = -couple * turn
    for i in range(3):
        for j in range(3):
            balance.stiffness[i, j] += spin[i, j]
            balance.stiffness[i, 3 + j] += couple[i, j]
            balance.stiffness[3 + i, j] += couple[j, i]
            balance.stiffness[3 + i, 3 + j] += K[i, j]


@wp.func
def add_inertia(
    components: ComponentView,
    chunk: int,
    origin: wp.vec3,
    dt: float,
    descent: DescentView,
    s: StencilView,
    balance: wp.ref[Balance],
):
    """Add inertia of the particles of a chunk."""
    mass = float(0.0)
    first = wp.vec3(0.0)
    diagonal = wp.vec3(0.0)
    mixed = wp.vec3(0.0)
    force = wp.vec3(0.0)
    torque = wp.vec3(0.0)
    for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
        i = components.particle[place]
        m = descent.mass[i] / (dt * dt)
        r = (s.x[i] - origin) + s.u[i]
        f = (descent.goal[i] - s.u[i]) * m
        force += f
        torque += wp.cross(r, f)
        mass += m
        first += r * m
        diagonal += wp.cw_mul(r, r) * m
        mixed += wp.vec3(r[1] * r[2], r[2] * r[0], r[0] * r[1]) * m
    balance.force += wp.spatial_vector(torque, force)
    couple = wp.skew(first)
    for i in range(3):
        balance.stiffness[3 + i, 3 + i] += mass
        balance.stiffness[i, i] += diagonal[0] + diagonal[1] + diagonal[2] - diagonal[i]
        for j in range(3):
            balance.stiffness[i, 3 + j] += couple[i, j]
            balance.stiffness[3 + i, j] += couple[j, i]
            if i != j:
                balance.stiffness[i, j] -= mixed[3 - i - j]


@wp.kernel
def weigh_chunks(
    first: int,
    dt: float,
    touching: int,
    touch: TouchView,
    bodies: MotionView,
    descent: DescentView,
    s: StencilView,
    components: ComponentView,
):
    """One thread per chunk: inertia and contacts with shapes, about the reference of the component."""
    chunk = first + wp.tid()
    if components.free[components.chunk_component[chunk]] == 0:
        return
    balance = Balance()
    origin = reference(components, s, chunk)
    add_inertia(components, chunk, origin, dt, descent, s, balance)
    if touching != 0:
        for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
            i = components.particle[place]
            p = s.x[i] + s.u[i]
            for k in range(touch.contacts.count[i]):
                push = push_of(touch, touch.contacts, i, k, p, s.u[i], descent.goal[i], dt, bodies)
                if push.stiffness > 0.0:
                    add_push(balance, (s.x[i] - origin) + s.u[i], push)
        for place in range(components.chunk_face[chunk], components.chunk_face[chunk + 1]):
            t = components.face[place]
            corner = corners_of(touch.triangles, t)
            for k in range(touch.faces.touch.count[t]):
                push = push_of_face(touch, t, k, dt, bodies, descent, s)
                if push.stiffness > 0.0:
                    weight = touch.faces.weight[t, k]
                    add_push(
                        balance, (blend(s.x, corner, weight) - origin) + blend(s.u, corner, weight), push
                    )
    components.force[chunk] = balance.force
    components.stiffness[chunk] = balance.stiffness


@wp.func
def is_between_components(components: ComponentView, contact: SelfContactView, q: int) -> bool:
    """Whether a pair has corners of two components."""
    c = contact.corners[q]
    first = components.of[c[0]]
    return components.of[c[1]] != first or components.of[c[2]] != first or components.of[c[3]] != first


@wp.kernel
def weigh_surfaces(
    first: int,
    dt: float,
    s: StencilView,
    components: ComponentView,
    contact: SelfContactView,
    now: wp.array(dtype=wp.vec3),
):
    """One thread per chunk: add contacts with the surfaces of other components."""
    chunk = first + wp.tid()
    if components.free[components.chunk_component[chunk]] == 0:
        return
    balance = Balance()
    origin = reference(components, s, chunk)
    found = int(0)
    for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
        i = components.particle[place]
        for k in range(contact.start[i], contact.start[i] + contact.count[i]):
            entry = contact.entry[k]
            q = entry >> 2
            if contact.load[q] > 0.0 and is_between_components(components, contact, q):
                terms = pair_terms(contact, q, entry & 3, now, dt, ContactTerms())
                r = (s.x[i] - origin) + s.u[i]
                balance.force += wp.spatial_vector(wp.cross(r, terms.force), terms.force)
                # the other corners on this side of the pair move with this one
                share = wp.max(wp.abs(contact.weight[q][entry & 3]), 1.0e-6)
                add_stiffness(balance, r, terms.hessian / share)
                found += 1
    if found > 0:
        components.force[chunk] = components.force[chunk] + balance.force
        components.stiffness[chunk] = components.stiffness[chunk] + balance.stiffness


@wp.func
def solve_balance(A: wp.spatial_matrix, b: wp.spatial_vector) -> wp.spatial_vector:
    """Rotation and displacement x with A x = b, without modes that nothing resists."""
    # displacements first: their pivots are at least the mass
    for step in range(6):
        k = (step + 3) % 6
        largest = wp.where(k < 3, wp.max(wp.max(A[0, 0], A[1, 1]), A[2, 2]), A[k, k])
        keep = A[k, k] > SINGULAR * largest
        for other in range(step + 1, 6):
            i = (other + 3) % 6
            factor = float(0.0)
            if keep:
                factor = A[i, k] / A[k, k]
            b[i] = b[i] - factor * b[k]
            for column in range(step + 1, 6):
                j = (column + 3) % 6
                A[i, j] = A[i, j] - factor * A[k, j]
        if not keep:
            A[k, k] = 0.0
    x = wp.spatial_vector()
    for step in range(6):
        k = (8 - step) % 6
        total = b[k]
        for other in range(6 - step, 6):
            j = (other + 3) % 6
            total -= A[k, j] * x[j]
        if A[k, k] > 0.0:
            x[k] = total / A[k, k]
    return x


@wp.kernel
def count_held(first: int, descent: DescentView, components: ComponentView):
    """One thread per chunk: count its held particles."""
    chunk = first + wp.tid()
    held = int(0)
    for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
        if not descent.mass[components.particle[place]] > 0.0:
            held += 1
    components.held[chunk] = held


@wp.kernel
def find_free(first: int, components: ComponentView):
    """One thread per component: whether it is free to move as a whole."""
    component = first + wp.tid()
    held = int(0)
    for chunk in range(components.component_start[component], components.component_start[component + 1]):
        held += components.held[chunk]
    components.free[component] = wp.where(held == 0, 1, 0)


@wp.kernel
def solve_components(first: int, components: ComponentView):
    """One thread per component: the rigid motion that balances torques and forces."""
    component = first + wp.tid()
    if components.free[component] == 0:
        return
    b = wp.spatial_vector()
    A = wp.spatial_matrix()
    for chunk in range(components.component_start[component], components.component_start[component + 1]):
        b += components.force[chunk]
        A += components.stiffness[chunk]
    components.motion[component] = solve_balance(A, b)
    components.gain[component] = wp.dot(b, components.motion[component])


@wp.kernel
def retreat(first: int, components: ComponentView):
    """One thread per component: if new contacts push back, reverse the motion up to where no work is left."""
    component = first + wp.tid()
    if components.free[component] == 0:
        return
    force = wp.spatial_vector()
    for chunk in range(components.component_start[component], components.component_start[component + 1]):
        force += components.force[chunk]
    motion = components.motion[component]
    gain = components.gain[component]
    more = wp.dot(force, motion)
    part = float(0.0)
    if more < 0.0:
        part = more / (gain - more)
    components.motion[component] = motion * part


@wp.kernel
def move_chunks(first: int, s: StencilView, components: ComponentView):
    """One thread per chunk: move its particles as its component moves."""
    chunk = first + wp.tid()
    if components.free[components.chunk_component[chunk]] == 0:
        return
    motion = components.motion[components.chunk_component[chunk]]
    w = wp.spatial_top(motion)
    d = wp.spatial_bottom(motion)
    origin = reference(components, s, chunk)
    angle = wp.length(w)
    sine = float(1.0)
    cosine = float(0.5)
    if angle > 1.0e-4:
        sine = wp.sin(angle) / angle
        half = wp.sin(0.5 * angle) / angle
        cosine = 2.0 * half * half
    for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
        i = components.particle[place]
        r = (s.x[i] - origin) + s.u[i]
        turn = wp.cross(w, r)
        s.u[i] = s.u[i] + d + turn * sine + wp.cross(w, turn) * cosine


@wp.kernel
def weigh_lost(
    first: int,
    dt: float,
    touching: int,
    touch: TouchView,
    descent: DescentView,
    s: StencilView,
    components: ComponentView,
):
    """One thread per chunk: momentum missing at the end of the substep, over dt, and the inertia.

    Contact impulses count as the bodies received them. The angular momentum that implicit Euler removes
    counts as missing as well.
    """
    chunk = first + wp.tid()
    if components.free[components.chunk_component[chunk]] == 0:
        return
    if components.apart[chunk] != 0:
        components.force[chunk] = wp.spatial_vector()
        components.stiffness[chunk] = wp.spatial_matrix()
        return
    balance = Balance()
    origin = reference(components, s, chunk)
    add_inertia(components, chunk, origin, dt, descent, s, balance)
    f = wp.vec3(0.0)
    torque = wp.vec3(0.0)
    for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
        i = components.particle[place]
        torque -= wp.cross(s.u[i], descent.goal[i]) * (descent.mass[i] / (dt * dt))
        if touching != 0:
            r = (s.x[i] - origin) + s.u[i]
            for k in range(touch.contacts.count[i]):
                got = (
                    touch.contacts.normal[i, k] * touch.contacts.push[i, k] - touch.contacts.hold[i, k]
                ) / dt
                f += got
                torque += wp.cross(r, got)
    if touching != 0:
        view = touch.faces.touch
        for place in range(components.chunk_face[chunk], components.chunk_face[chunk + 1]):
            t = components.face[place]
            corner = corners_of(touch.triangles, t)
            for k in range(view.count[t]):
                weight = touch.faces.weight[t, k]
                r = (blend(s.x, corner, weight) - origin) + blend(s.u, corner, weight)
                got = (view.normal[t, k] * view.push[t, k] - view.hold[t, k]) / dt
                f += got
                torque += wp.cross(r, got)
    components.force[chunk] = balance.force + wp.spatial_vector(torque, f)
    components.stiffness[chunk] = balance.stiffness


@wp.kernel
def find_near(first: int, components: ComponentView, contact: SelfContactView, crowd: ComponentView):
    """One thread per chunk: whether it is near another component, with which it may exchange momentum."""
    chunk = first + wp.tid()
    apart = int(1)
    for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
        i = components.particle[place]
        for k in range(contact.start[i], contact.start[i] + contact.count[i]):
            if is_between_components(components, contact, contact.entry[k] >> 2):
                apart = 0
    crowd.apart[chunk] = apart


@wp.kernel
def join_crowd(first: int, components: ComponentView, crowd: ComponentView):
    """One thread per component: if it is near another one, it joins the crowd of its world as a whole.

    Impulses within the crowd cancel, so that its total momentum is known, though not that of its components.
    """
    component = first + wp.tid()
    apart = int(1)
    held = int(0)
    for chunk in range(components.component_start[component], components.component_start[component + 1]):
        apart = wp.min(apart, crowd.apart[chunk])
        held += components.held[chunk]
    components.free[component] = wp.where(held == 0 and apart == 1, 1, 0)
    for chunk in range(components.component_start[component], components.component_start[component + 1]):
        crowd.apart[chunk] = apart
        crowd.held[chunk] = wp.where(apart == 1, 0, components.held[chunk])


@wp.kernel
def restore_momentum(
    first: int, dt: float, s: StencilView, components: ComponentView, v: wp.array(dtype=wp.vec3)
):
    """One thread per chunk: add the missing rigid velocity of its component to its particles."""
    chunk = first + wp.tid()
    component = components.chunk_component[chunk]
    if components.free[component] == 0 or components.apart[chunk] != 0:
        return
    motion = components.motion[component] / dt
    origin = reference(components, s, chunk)
    for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
        i = components.particle[place]
        r = (s.x[i] - origin) + s.u[i]
        v[i] = v[i] + wp.spatial_bottom(motion) + wp.cross(wp.spatial_top(motion), r)
