"""Smooth laws of contacts and joint limits: springs, dampers, and friction that creeps.

The response of a rigid contact changes within a tenth of a millimetre: it closes its gap, tolerates
penetration up to the slop, and removes any deeper penetration. A contact that is softened over a width s has
instead the impulse

    p = (d/s) max(0, r d - v) / c,    c = r s / (g h m)

at a depth d and the normal velocity v at the end of a step h, with the rate r at which depths are removed: a
spring and a damper that both grow with the depth (Hunt, Crossley, "Coefficient of restitution interpreted as
damping in vibroimpact", 1975). Under its weight at one g, a mass m sinks in by s. The force starts without a
jump at any velocity. Depths are averaged over the step at its initial velocity, so that the time of an impact
within a step has little influence on the result. Velocities r d are smoothly bounded.

A joint limit has p = max(0, t(d) - v) / c with t(d) = r d²/s, and lets a gap close within the step: t(d) =
-d/h for d > 0.

Coulomb friction jumps where a slip changes its sign. At a face that sticks, the distribution of friction
among several contacts is indeterminate, so that the slightest rotation of the face against the surface
decides it. Softened friction against a slip u is the share x (1 - x/4) of its bound, with x = |u|/w, and the
whole bound from x = 2 on. Its slope has no jump, and a contact that would stick creeps instead: at 0.59 w if
it transmits half of its bound. The width w is the velocity that covers s in a twentieth of a second, which is
about as fast as depths are removed.

Stage: constraints, assembly of rows
Called by: kernels/constraints/adjoint/, kernels/constraints/, kernels/constraints/solve/gauss_seidel.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# acceleration under which the static depth is one width [m/s²]
ONE_G = wp.constant(9.81)
# slip over which friction is softened, over the width [1/s]
CREEP_RATE = wp.constant(20.0)
# least share of its stiffness and damping that a contact keeps
LEAST_SHARE = wp.constant(1.0e-6)


@wp.func
def recovery_speed(depth: float, width: float, rate: float, fastest: float) -> float:
    """Velocity that removes a depth, smoothly bounded: that of a rigid contact at a depth of one width."""
    return fastest * wp.tanh(rate * depth * depth / (width * fastest))


@wp.func
def smooth_speed(gap: float, width: float, rate: float, fastest: float, dt: float) -> float:
    """t: velocity that closes a gap within a step, or removes a depth."""
    speed = -gap / dt
    if gap < 0.0:
        speed = recovery_speed(-gap, width, rate, fastest)
    return speed


@wp.struct
class Touch:
    """State of a softened contact in a step."""

    share: float  # mean of its depth, over the width
    speed: float  # velocity that it wants [m/s]


@wp.func
def smooth_touch(gap: float, approach: float, width: float, rate: float, fastest: float, dt: float) -> Touch:
    """Return the state of a softened contact, given its gap and relative velocity at the start of a step.

    Depths are averaged over the step at that velocity, so that the time of touch within the step counts.
    """
    first = -gap
    last = first - dt * approach
    most = wp.max(first, last)
    share = float(LEAST_SHARE)
    speed = -gap / dt
    if most > 0.0:
        mean = most * most / (2.0 * wp.max(wp.abs(last - first), 1.0e-30))
        depth = 2.0 / 3.0 * most
        if first > 0.0 and last > 0.0:
            mean = 0.5 * (first + last)
            depth = (first * first + first * last + last * last) / (3.0 * mean)
        share = wp.max(LEAST_SHARE, mean / width)
        speed = fastest * wp.tanh(rate * depth / fastest)
    # every member is set once: reverse mode would count what was overwritten
    touch = Touch()
    touch.share = share
    touch.speed = speed
    return touch


@wp.func
def smooth_softness(width: float, rate: float, fastest: float, weight: float, dt: float) -> float:
    """c: velocity by which a unit impulse yields, given the inverse weight of the load."""
    return recovery_speed(width, width, rate, fastest) / (ONE_G * dt) * weight


@wp.func
def friction_per_slip(speed: float, width: float) -> float:
    """Share of its bound that friction has against a slip of that speed, over the speed [s/m]."""
    rate = (1.0 - 0.25 * speed / width) / width
    if speed >= 2.0 * width:
        rate = 1.0 / speed
    return rate


@wp.func
def friction_slope(speed: float, width: float) -> float:
    """Slope of that share by the speed [s/m]."""
    return wp.max(0.0, 1.0 - 0.5 * speed / width) / width


@wp.func
def friction_matrix(slip: wp.vec2, width: float) -> wp.mat22:
    """Derivative of the friction by the slip that it opposes, over its bound [s/m]."""
    speed = wp.length(slip)
    along = friction_slope(speed, width)
    across = friction_per_slip(speed, width)
    d = wp.normalize(slip)
    return across * wp.identity(n=2, dtype=float) + (along - across) * wp.outer(d, d)


@wp.func
def relaxed_friction(t: float, bound: float, width: float, delassus: float) -> float:
    """Friction impulse whose slip agrees with the law, over the impulse t >= 0 that would leave no slip.

    The slip is `delassus` times the difference between t and the friction.
    """
    creep = width / delassus
    share = bound / wp.max(t, 1.0e-30)
    if t < bound + 2.0 * creep:
        half = bound + creep
        per_t = 2.0 / (half + wp.sqrt(wp.max(0.0, half * half - bound * t)))
        share = bound * per_t * (1.0 - 0.25 * per_t * t)
    return share
