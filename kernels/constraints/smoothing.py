"""Smooth laws of contacts and joint limits: springs, dampers, and friction that creeps.

A rigid contact changes its answer within a tenth of a millimetre: it closes its gap, leaves the slop alone,
and pushes out what is deeper. Softened over a width s, it has instead the impulse

    p = (d/s) max(0, r d - v) / c,    c = r s / (g h m)

at a depth d and the normal velocity v at the end of a step h, with the rate r at which depths are removed: a
spring and a damper that both grow with the depth (Hunt, Crossley, "Coefficient of restitution interpreted as
damping in vibroimpact", 1975). A mass m sinks in by s under its weight at one g, and the force begins without
a jump, at any velocity. Depths are means over the step at the velocity with which it starts, so that the
moment of an impact within a step shows but little in what follows. Velocities r d are smoothly bounded.

The limit of a joint has p = max(0, t(d) - v) / c with t(d) = r d²/s, and lets a gap close within the step,
t(d) = -d/h for d > 0.

Coulomb's friction jumps where a slip changes its sign, and what several points of a face that sticks bear is
not determined; the least turn of the face against the surface then decides. Softened, friction against a slip
u is the share x (1 - x/4) of its bound with x = |u|/w, and all of it from x = 2 on: its slope has no jump,
and what would stick creeps, at 0.59 w where it bears half of what it could. The width w is the velocity that
covers s in a twentieth of a second, about as fast as depths are removed.

Stage: constraints, assembly of rows
Called by: kernels/constraints/adjoint/, kernels/constraints/
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# acceleration by which a width is the depth under weight [m/s²]
ONE_G = wp.constant(9.81)
# slip over which friction is softened, over the width [1/s]
CREEP_RATE = wp.constant(20.0)
# share of its stiffness and damping that a contact has at least
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
    """What a softened contact is in a step."""

    share: float  # mean of its depth, over the width
    speed: float  # velocity that it wants [m/s]


@wp.func
def smooth_touch(gap: float, approach: float, width: float, rate: float, fastest: float, dt: float) -> Touch:
    """A softened contact with a gap and a relative velocity at the start of a step.

    Depths are means over the step at that velocity, so that the moment of touch within it counts.
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
    """c: velocity that a unit impulse lets pass, given the inverse weight of what is borne."""
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
    """How much that share grows with the speed [s/m]."""
    return wp.max(0.0, 1.0 - 0.5 * speed / width) / width


@wp.func
def friction_matrix(slip: wp.vec2, width: float) -> wp.mat22:
    """How much the friction against a slip grows with it, over its bound [s/m]."""
    speed = wp.length(slip)
    along = friction_slope(speed, width)
    across = friction_per_slip(speed, width)
    d = wp.normalize(slip)
    return across * wp.identity(n=2, dtype=float) + (along - across) * wp.outer(d, d)


@wp.func
def relaxed_friction(t: float, bound: float, width: float, delassus: float) -> float:
    """Friction of a bound that leaves the slip of its law, over the impulse t >= 0 that would leave none.

    The slip is `delassus` times what the friction is short of t.
    """
    creep = width / delassus
    share = bound / wp.max(t, 1.0e-30)
    if t < bound + 2.0 * creep:
        half = bound + creep
        per_t = 2.0 / (half + wp.sqrt(wp.max(0.0, half * half - bound * t)))
        share = bound * per_t * (1.0 - 0.25 * per_t * t)
    return share
