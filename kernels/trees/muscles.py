"""Muscles: tension of a Hill-type muscle along a path through points of bodies.

The force of a fibre depends on its activation, length and velocity: Zajac, "Muscle and tendon: properties,
models, scaling, and application to biomechanics and motor control", 1989; the curves are those of Thelen,
"Adjustment of muscle mechanics model parameters to simulate dynamic contractions in older adults", 2003.

Stage: forces at the start of a step
Called by: solvers/semi_implicit/bodies.py
Reads: MuscleView, activation, body_com, body_q, body_qd, length, rate, tension
Writes: length, part, rate, tension
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_in_world, point_velocity

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# width of the curve of active force over length
WIDTH = wp.constant(0.45)
# strain at which the passive force is f0, and shape of its exponential
PASSIVE_STRAIN = wp.constant(0.6)
PASSIVE_SHAPE = wp.constant(5.0)
# [1/s] largest speed of shortening, in optimal lengths
FASTEST = wp.constant(10.0)
# steepness of the force over the velocity of shortening; the slope continues into lengthening
STEEP = wp.constant(4.0)
# force of a rapidly stretched muscle, in f0
STRETCHED = wp.constant(1.4)


@wp.struct
class MuscleView:
    """Muscles of a model; M muscles, P waypoints."""

    order: wp.array(dtype=int)  # (M) by world
    point_order: wp.array(dtype=int)  # (P) by world
    start: wp.array(dtype=int)  # (M + 1)
    muscle: wp.array(dtype=int)  # (P)
    body: wp.array(dtype=int)  # (P) -1 is the world
    point: wp.array(dtype=wp.vec3)  # (P) [m] in the frame of the body
    params: wp.array2d(dtype=float)  # (M, 5) f0, lm, lt, lmax, pen


@wp.func
def force_of_length(ratio: float) -> float:
    """Active force over length, both relative to the optimum."""
    off = ratio - 1.0
    return wp.exp(-off * off / WIDTH)


@wp.func
def force_of_velocity(u: float) -> float:
    """Active force over the velocity of lengthening, relative to the largest of shortening: Hill's hyperbola.

    Both branches meet at u = 0 with the same slope.
    """
    steep = (1.0 + STEEP) / (STRETCHED - 1.0)
    force = float(0.0)
    if u > 0.0:
        force = (1.0 + steep * STRETCHED * u) / (1.0 + steep * u)
    elif u > -1.0:
        force = (1.0 + u) / (1.0 - STEEP * u)
    return force


@wp.func
def passive_force(strain: float) -> float:
    """Passive force over the strain of the fibre; zero while it is not stretched."""
    force = float(0.0)
    if strain > 0.0:
        force = (wp.exp(PASSIVE_SHAPE * strain / PASSIVE_STRAIN) - 1.0) / (wp.exp(PASSIVE_SHAPE) - 1.0)
    return force


@wp.func
def muscle_tension(
    length: float,
    rate: float,
    activation: float,
    f0: float,
    lm: float,
    lt: float,
    lmax: float,
    pen: float,
) -> float:
    """Tension of a muscle [N], never negative.

    T = f0 (a f_L(l/lmax) f_V(dl/dt / (10 lmax/s)) + f_P(l/lm - 1)) cos α, where l and α are length and
    pennation of the fibre: the tendon is rigid, l cos α = length - lt, and the muscle keeps its thickness,
    l sin α = lmax sin(pen). There is no tension while the path is shorter than the tendon.

    Args:
        length: Length of the path [m].
        rate: Its change [m/s].
        activation: a; clamped to 0..1.
        f0: Active force of a fibre that is held at its optimal length [N].
        lm: Length of the fibre beyond which it resists passively [m].
        lt: Length of the tendon [m].
        lmax: Length of the fibre at which its active force is largest [m].
        pen: Pennation at that length [rad].
    """
    tension = float(0.0)
    along = length - lt
    if along > 0.0:
        thickness = lmax * wp.sin(pen)
        fibre = wp.sqrt(along * along + thickness * thickness)
        cosine = along / fibre
        active = wp.clamp(activation, 0.0, 1.0) * force_of_length(fibre / lmax)
        active = active * force_of_velocity(rate * cosine / (FASTEST * lmax))
        tension = f0 * (active + passive_force(fibre / lm - 1.0)) * cosine
    return tension


@wp.kernel
def measure_muscles(
    first: int,
    muscles: MuscleView,
    body_q: wp.array(dtype=wp.transform),
    body_com: wp.array(dtype=wp.vec3),
    body_qd: wp.array(dtype=wp.spatial_vector),
    length: wp.array(dtype=float),
    rate: wp.array(dtype=float),
):
    """One thread per muscle: length of its path and its rate."""
    m = muscles.order[first + wp.tid()]
    # loop-carried sums may only be stored: the backward pass does not know their values
    total = float(0.0)
    growth = float(0.0)
    for p in range(muscles.start[m] + 1, muscles.start[m + 1]):
        a = muscles.body[p - 1]
        b = muscles.body[p]
        xa = point_in_world(a, muscles.point[p - 1], body_q)
        xb = point_in_world(b, muscles.point[p], body_q)
        va = point_velocity(a, xa, body_q, body_com, body_qd)
        vb = point_velocity(b, xb, body_q, body_com, body_qd)
        total += wp.length(xb - xa)
        growth += wp.dot(wp.normalize(xb - xa), vb - va)
    length[m] = total
    rate[m] = growth


@wp.kernel
def tense_muscles(
    first: int,
    muscles: MuscleView,
    activation: wp.array(dtype=float),
    length: wp.array(dtype=float),
    rate: wp.array(dtype=float),
    tension: wp.array(dtype=float),
):
    """One thread per muscle: its tension."""
    m = muscles.order[first + wp.tid()]
    f0 = muscles.params[m, 0]
    lm = muscles.params[m, 1]
    lt = muscles.params[m, 2]
    lmax = muscles.params[m, 3]
    pen = muscles.params[m, 4]
    tension[m] = muscle_tension(length[m], rate[m], activation[m], f0, lm, lt, lmax, pen)


@wp.kernel
def pull_waypoints(
    first: int,
    muscles: MuscleView,
    body_q: wp.array(dtype=wp.transform),
    body_com: wp.array(dtype=wp.vec3),
    tension: wp.array(dtype=float),
    place: int,
    part: wp.array(dtype=wp.spatial_vector),
):
    """One thread per waypoint: wrench on its body at the centre of mass, in `part[place + waypoint]`."""
    p = muscles.point_order[first + wp.tid()]
    m = muscles.muscle[p]
    b = muscles.body[p]
    x = point_in_world(b, muscles.point[p], body_q)
    direction = wp.vec3(0.0, 0.0, 0.0)
    if p > muscles.start[m]:
        before = point_in_world(muscles.body[p - 1], muscles.point[p - 1], body_q)
        direction += wp.normalize(before - x)
    if p < muscles.start[m + 1] - 1:
        behind = point_in_world(muscles.body[p + 1], muscles.point[p + 1], body_q)
        direction += wp.normalize(behind - x)
    force = tension[m] * direction
    moment = wp.vec3(0.0, 0.0, 0.0)
    if b >= 0:
        moment = wp.cross(x - wp.transform_point(body_q[b], body_com[b]), force)
    part[place + p] = wp.spatial_vector(moment, force)
