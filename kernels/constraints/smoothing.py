"""Smooth laws of contacts and joint limits: springs and dampers whose stiffness grows with the depth.

A rigid contact changes its answer within a tenth of a millimetre: it closes its gap, leaves the slop alone,
and pushes out what is deeper. Softened over a width s, it has instead, at the end of a step, the impulse

    p = f(d/s) (t(d) - v) / c,    f(x) ~ |x|,    c = t(-s) / (g h) · 1/m

at a distance d and a normal velocity v, with the velocity t that closes a gap or removes a depth: a spring of
second order in the depth with a damper of first order, which both vanish at touch. A mass m sinks in by s
under its weight at one g. Only an approach that would close the gap within the step is braked before touch.

Source: a damper that grows with the depth, as in Hunt and Crossley, "Coefficient of restitution interpreted
as damping in vibroimpact", J. Appl. Mech. 42, 1975.

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
# part of the width in which the stiffness has its minimum, and the least stiffness
ROUNDED = wp.constant(0.2)
LEAST_STIFFNESS = wp.constant(1.0e-6)


@wp.func
def stiffness_share(x: float) -> float:
    """f: stiffness at a distance of x widths over that at a depth of one."""
    most = 1.0 / (wp.sqrt(1.0 + ROUNDED * ROUNDED) + ROUNDED)
    return x * x / (wp.sqrt(x * x + ROUNDED * ROUNDED) + ROUNDED) / most + LEAST_STIFFNESS


@wp.func
def recovery_speed(depth: float, rate: float, fastest: float) -> float:
    """Velocity that removes a depth at a rate [1/s], smoothly bounded."""
    return fastest * wp.tanh(rate * depth / fastest)


@wp.func
def smooth_speed(gap: float, rate: float, fastest: float, dt: float) -> float:
    """t: velocity that closes a gap within a step, or removes a depth."""
    speed = -gap / dt
    if gap < 0.0:
        speed = recovery_speed(-gap, rate, fastest)
    return speed


@wp.func
def smooth_softness(gap: float, width: float, rate: float, fastest: float, weight: float, dt: float) -> float:
    """c/f: velocity that a unit impulse lets pass, given the inverse weight of what is borne."""
    under_weight = recovery_speed(width, rate, fastest) / (ONE_G * dt) * weight
    return under_weight / stiffness_share(gap / width)
