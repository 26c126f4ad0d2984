"""Motion of points of bodies: velocities, and the accelerations that velocities alone cause.

At constant joint velocities, a point of a body does not move in a straight line: after a time h, it deviates
from the line by h²/2 times its acceleration at constant joint velocities, the velocity-product or bias
acceleration. Rows that hold points together need it, since the bodies of trees move along arcs and the centre
of mass of a free body moves along a line.

Source: Featherstone, "Rigid Body Dynamics Algorithms", 2008, section 2.11 (spatial and classical
acceleration) and section 8.2 (the velocity-product term of a constraint).

Stage: constraints, assembly of rows
Called by: kernels/constraints/adjoint/contact_terms.py, kernels/constraints/contact_rows.py,
    kernels/constraints/linear/contacts.py, kernels/constraints/pair_rows.py, kernels/tendons/paths.py
Reads: BodyStateView, KinematicsView, TreeView, body_A, falls, gravity
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.model import KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


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
        gravity: Acceleration that cancels that of the base [m/s²]: `base_gravity`, `lacking_gravity`.
        bodies: Poses of all bodies, and velocities of those on no tree, which rotate about their centre of
            mass while it moves in a straight line.
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
    """Gravity of the world of body b; arbitrary for bodies on no tree, for which it is not used."""
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
    """Gravity that the acceleration of body b omits: none in trees whose balance is computed in free fall."""
    lacking = wp.vec3(0.0, 0.0, 0.0)
    if b >= 0:
        t = tree.body_tree[b]
        if t >= 0:
            if falls[t] == 0:
                lacking = gravity[tree.world[t]]
    return lacking


@wp.func
def arc_acceleration(w: wp.vec3, a: wp.vec3, dt: float) -> wp.vec3:
    """Acceleration [m/s²] that takes a point in a step of dt [s] as far as the turning of its body allows.

    A point that turns at w [rad/s] and accelerates by a towards its axis goes along a circle. Tangent and
    parabola leave that beyond a radian: propellers turn by several in a step, and would meet what is a metre
    away from them. From there on the point is thought to go towards the axis, its mean place in many turns.
    """
    angle = dt * wp.length(w)
    if angle <= 1.0:
        return a
    turns = 1.0 / (angle * angle)
    slower = (2.0 * (1.0 - turns) / (dt * wp.length_sq(w))) * wp.cross(w, a)
    return (2.0 - 1.0 / angle) * turns * a + slower


@wp.func
def faster_turn(m0: PointMotion, m1: PointMotion) -> wp.vec3:
    """Angular velocity of the body of two that turns faster [rad/s]."""
    turn = m0.w
    if wp.length_sq(m1.w) > wp.length_sq(m0.w):
        turn = m1.w
    return turn


@wp.func
def parting_acceleration(
    m0: PointMotion, m1: PointMotion, n: wp.vec3, roundness: float, most_round: float, dt: float
) -> wp.vec3:
    """Rate [m/s²] of the relative velocity of touching surfaces at constant joint velocities.

    The velocity is that at the point of contact. If body 0 rolls over body 1, this point travels over both
    materials at the velocity R Ω × n, where Ω is the relative spin and R (`roundness`) is the radius [m] of
    relative curvature (0 for corners, and for faces that lie on each other); the relative velocity changes at
    the rate of Ω × this. Perpendicular to the normal n, this is R (Ω·n) Ω: zero for wheels that roll straight
    and bodies that rotate in place, but without it, balls that roll and spin would leave their path. Along
    the normal, it cancels the separation of the material points, which is large for wheels, whose curvature
    is not known here. The part of the separation that rolling on a radius of up to `most_round` [m] could
    explain is therefore omitted, and the part due to motion with one body remains. Between polyhedra, which
    roll over their corners, `most_round` is zero. It is the mean of a step of dt [s], see `arc_acceleration`.
    """
    turn = m0.w - m1.w
    spin = wp.dot(turn, n)
    a = m0.a - m1.a
    most = most_round * (wp.length_sq(turn) - spin * spin)
    parting = wp.dot(a, n)
    slipping = a + roundness * spin * turn
    left = slipping + (parting - wp.clamp(parting, -most, most) - wp.dot(slipping, n)) * n
    return arc_acceleration(faster_turn(m0, m1), left, dt)
