"""Motion along the normal through an impact within a step.

In a leapfrog step, velocities belong to the midpoints of the intervals: a body that approaches with the
stored velocity u under the acceleration g starts the step with the speed V = -u + g h/2. It reaches the
surface at the time tau with the speed w = sqrt(V² + 2 g gap), leaves it with e w, and is y = e w (h - tau) -
g (h - tau)²/2 above it at the end. The stored velocity is then e w - g (h - tau) + g h/2, while the position
moves by y - gap. This motion and its derivatives are exact under a constant acceleration for any time step.
Along the surface, the body moves with its slip before the impact until tau, and with that after the impact
for the rest of the step.

Stage: constraints, assembly of rows of contacts that bounce
Called by: kernels/constraints/adjoint/contact_terms.py, kernels/constraints/contact_rows.py,
    kernels/constraints/impacts.py, kernels/maximal/contacts.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

# the backward pass is compiled only when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# most bounces in one step; a body that would bounce more often rests
MOST_BOUNCES = wp.constant(16)
# restitution above which sums of its powers are expanded in a series about 1
ELASTIC = wp.constant(0.999)


@wp.func
def time_of_impact(gap: float, approach: float, pull: float, dt: float) -> wp.vec3:
    """Speed w [m/s] and time tau [s] of the first impact in a step, and the acceleration g [m/s²].

    Args:
        gap: Distance at the start of the step [m].
        approach: Stored normal velocity at the start of the step, negative [m/s].
        pull: Normal acceleration g towards the surface without the contact [m/s²].
        dt: Time step [s].
    """
    v = -approach + 0.5 * pull * dt
    w = wp.sqrt(wp.max(0.0, v * v + 2.0 * pull * gap))
    tau = float(0.0)
    if w + v > 0.0:
        tau = wp.min(2.0 * gap / (w + v), dt)
    return wp.vec3(w, tau, pull)


@wp.func
def count_bounces(impact: wp.vec3, restitution: float, slowest: float, dt: float) -> int:
    """Number of further bounces in the step after the first impact; -1 if the body comes to rest.

    Args:
        impact: From `time_of_impact`.
        restitution: Coefficient e of Newton's impact law.
        slowest: Slowest impact that bounces [m/s].
        dt: Time step [s].
    """
    speed = restitution * impact[0]
    left = dt - impact[1]
    n = int(0)
    while n >= 0 and impact[2] * left > 2.0 * speed:
        left = left - 2.0 * speed / impact[2]
        if speed <= slowest or n == MOST_BOUNCES:
            n = -1
        else:
            speed = speed * restitution
            n = n + 1
    return n


@wp.func
def sum_of_powers(e: float, n: int) -> float:
    """e + e² + ... + eⁿ."""
    k = float(n)
    total = k - 0.5 * k * (k + 1.0) * (1.0 - e)
    if e < ELASTIC:
        total = e * (1.0 - wp.pow(e, k)) / (1.0 - e)
    return total


@wp.func
def end_of_bounces(impact: wp.vec3, gap: float, restitution: float, bounces: int, dt: float) -> wp.vec2:
    """Stored normal velocity at the end of the step, and the one that positions move with [m/s].

    Differentiable for a given number of bounces.

    Args:
        impact: From `time_of_impact`.
        gap: Distance at the start of the step [m].
        restitution: Coefficient e of Newton's impact law.
        bounces: From `count_bounces`.
        dt: Time step [s].
    """
    w = impact[0]
    pull = impact[2]
    left = dt - impact[1]
    speed = restitution * w
    if bounces > 0:
        left = left - 2.0 * w / pull * sum_of_powers(restitution, bounces)
        speed = speed * wp.pow(restitution, float(bounces))
    height = speed * left - 0.5 * pull * left * left
    after = speed - pull * left + 0.5 * pull * dt
    if bounces < 0:
        height = 0.0
        after = 0.0
    return wp.vec2(after, (height - gap) / dt)


@wp.func
def after_impact(impact: wp.vec3, gap: float, restitution: float, slowest: float, dt: float) -> wp.vec2:
    """Stored normal velocity at the end of the step, and the one that positions move with [m/s].

    The arguments are those of `count_bounces` and `end_of_bounces`.
    """
    bounces = count_bounces(impact, restitution, slowest, dt)
    return end_of_bounces(impact, gap, restitution, bounces, dt)
