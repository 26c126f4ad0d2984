"""Smooth laws of contacts and joint limits: a spring that grows with the square of the depth, and a damper.

A rigid contact changes its answer within a tenth of a millimetre: it closes its gap, leaves the slop alone,
and pushes out what is deeper. Softened over a width s, it has instead the impulse

    p = max(0, t(d) - v) / c,    t(d) = r d² / s  for d < 0,    c = r s / (g h m)

at a distance d and the normal velocity v at the end of a step h, with the rate r at which depths are removed.
A mass m sinks in by s under its weight at one g, and where the force ends it does so without a kink in d.
The damper resists from the moment of touch on: so the moment of an impact within a step shows but little in
what follows. As rigid contacts do, it lets a gap close within the step: t(d) = -d/h for d > 0. Velocities t
are smoothly bounded.

Stage: constraints, assembly of rows
Called by: kernels/constraints/adjoint/contact_terms.py, kernels/constraints/contact_rows.py,
    kernels/constraints/dof_rows.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# acceleration by which a width is the depth under weight [m/s²]
ONE_G = wp.constant(9.81)


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


@wp.func
def smooth_softness(width: float, rate: float, fastest: float, weight: float, dt: float) -> float:
    """c: velocity that a unit impulse lets pass, given the inverse weight of what is borne."""
    return recovery_speed(width, width, rate, fastest) / (ONE_G * dt) * weight
