"""Motion of points of bodies: velocities, and the accelerations that velocities alone cause.

A point that moves with its body does not go straight while the joint velocities stay as they are: after a
time h it is off the line by h²/2 times its acceleration at constant joint velocities, the velocity-product or
bias acceleration. Rows that hold points together need it, since the bodies of trees move along arcs and the
centre of mass of a free body along a line.

Source: Featherstone, "Rigid Body Dynamics Algorithms", 2008, section 2.11 (spatial and classical
acceleration) and section 8.2 (the velocity-product term of a constraint).

Stage: constraints, assembly of rows
Called by: kernels/constraints/adjoint/contact_terms.py, kernels/constraints/contact_rows.py,
    kernels/constraints/linear/contacts.py, kernels/constraints/pair_rows.py
Reads: BodyStateView, KinematicsView, TreeView, body_A, falls, gravity
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.model import KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# radius of relative curvature [m] up to which surfaces are taken to roll
LARGEST_RADIUS = wp.constant(10.0)


@wp.struct
class BodyStateView:
    """World poses and velocities of all bodies at the start of the step."""

    q: wp.array(dtype=wp.transform)  # (B)
    qd: wp.array(dtype=wp.spatial_vector)  # (B)
    com: wp.array(dtype=wp.vec3)  # (B)


@wp.struct
class PointMotion:
    """Motion of a body and of one of its points, in world axes."""

    w: wp.vec3  # [rad/s]
    v: wp.vec3  # [m/s] of the point
    alpha: wp.vec3  # [rad/s²] at constant joint velocities
    a: wp.vec3  # [m/s²] of the point, at constant joint velocities


@wp.func
def point_motion(
    b: int,
    x: wp.vec3,
    tree: TreeView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.vec3,
    bodies: BodyStateView,
) -> PointMotion:
    """Motion of the point of body b at the world position x; body -1 is the world.

    Args:
        b: The body.
        x: The point [m].
        tree: Topology.
        kin: Velocities of trees, and the origins that they are about.
        body_A: Spatial accelerations of bodies on trees at constant joint velocities, on a base that
            accelerates against gravity.
        gravity: What that base's acceleration is taken back by [m/s²]: `base_gravity`, `lacking_gravity`.
        bodies: Poses of all bodies, and velocities of those on no tree, which turn about their centre of mass
            while it goes straight.
    """
    w = wp.vec3(0.0, 0.0, 0.0)
    v = wp.vec3(0.0, 0.0, 0.0)
    alpha = wp.vec3(0.0, 0.0, 0.0)
    a = wp.vec3(0.0, 0.0, 0.0)
    if b >= 0:
        t = tree.body_tree[b]
        if t >= 0:
            V = kin.body_V[b]
            A = body_A[b]
            r = x - kin.origin[t]
            w = wp.spatial_top(V)
            v = wp.spatial_bottom(V) + wp.cross(w, r)
            alpha = wp.spatial_top(A)
            a = wp.spatial_bottom(A) + gravity + wp.cross(alpha, r) + wp.cross(w, v)
        else:
            arm = x - wp.transform_point(bodies.q[b], bodies.com[b])
            w = wp.spatial_top(bodies.qd[b])
            v = wp.spatial_bottom(bodies.qd[b]) + wp.cross(w, arm)
            a = wp.cross(w, wp.cross(w, arm))
    # every member is set once: reverse mode would count what was overwritten
    m = PointMotion()
    m.w = w
    m.v = v
    m.alpha = alpha
    m.a = a
    return m


@wp.func
def base_gravity(b: int, tree: TreeView, gravity: wp.array(dtype=wp.vec3)) -> wp.vec3:
    """Gravity of the world of body b; any for bodies on no tree, of which nobody asks it."""
    w = int(0)
    if b >= 0:
        t = tree.body_tree[b]
        if t >= 0:
            w = tree.world[t]
    return gravity[w]


@wp.func
def lacking_gravity(
    b: int, tree: TreeView, falls: wp.array(dtype=int), gravity: wp.array(dtype=wp.vec3)
) -> wp.vec3:
    """Gravity that the acceleration of body b lacks: none in trees whose balance is taken in free fall."""
    lacking = wp.vec3(0.0, 0.0, 0.0)
    if b >= 0:
        t = tree.body_tree[b]
        if t >= 0:
            if falls[t] == 0:
                lacking = gravity[tree.world[t]]
    return lacking


@wp.func
def parting_acceleration(m0: PointMotion, m1: PointMotion, n: wp.vec3, roundness: float) -> wp.vec3:
    """How fast [m/s²] the relative velocity of surfaces that touch changes at constant joint velocities.

    The velocity is that where the surfaces touch. If body 0 rolls over body 1, that place travels over both
    materials at the velocity R Ω × n, where Ω is the relative spin and `roundness` is R, the radius [m] of
    relative curvature (0 for corners, and sides that lie on each other); the velocity changes by Ω × that.
    Across the normal n this is R (Ω·n) Ω: nothing for wheels that roll straight or bodies that turn on the
    spot, but without it balls that roll and spin would leave their way. Along the normal it cancels what the
    material points part by, which is large for wheels, whose curvature is not known here: as much of that as
    rolling could explain is left out, and all remains of what one body carries along.
    """
    turn = m0.w - m1.w
    spin = wp.dot(turn, n)
    a = m0.a - m1.a
    most = LARGEST_RADIUS * (wp.length_sq(turn) - spin * spin)
    parting = wp.dot(a, n)
    slipping = a + roundness * spin * turn
    return slipping + (parting - wp.clamp(parting, -most, most) - wp.dot(slipping, n)) * n
