"""Muscles of tendons as MuJoCo has them: force over activation, length and velocity.

With L the length in units of the optimal one and V the velocity in units of L0 vmax, a muscle pulls with
F0 (a FL(L) FV(V) + FP(L)). FL is a bump from lmin over 1 to lmax of four parabolas, FV rises from 0 at V = -1
over 1 at rest to fvmax, and FP is quadratic from L = 1 on, then linear.

Source: MuJoCo's documentation, "Modeling", section "Muscles".

Stage: forces at the start of a step, of tendons
Called by: kernels/actuators/laws.py, kernels/tendons/forces.py
Reads: muscle
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# columns of `Model.tendon_muscle`
RANGE_LOW = wp.constant(0)
RANGE_HIGH = wp.constant(1)
FORCE = wp.constant(2)
LMIN = wp.constant(3)
LMAX = wp.constant(4)
VMAX = wp.constant(5)
FPMAX = wp.constant(6)
FVMAX = wp.constant(7)
LENGTH_LOW = wp.constant(8)
LENGTH_HIGH = wp.constant(9)
# smallest divisor
TINY = wp.constant(1.0e-15)


@wp.func
def force_of_length(L: float, lmin: float, lmax: float) -> float:
    """Active force over length, 1 at the optimum."""
    force = float(0.0)
    rise = 0.5 * (1.0 - lmin)
    fall = 0.5 * (lmax - 1.0)
    if L > lmin and L <= lmin + rise:
        x = (L - lmin) / rise
        force = 0.5 * x * x
    elif L > lmin and L <= 1.0:
        x = (1.0 - L) / rise
        force = 1.0 - 0.5 * x * x
    elif L > 1.0 and L <= 1.0 + fall:
        x = (L - 1.0) / fall
        force = 1.0 - 0.5 * x * x
    elif L > 1.0 and L < lmax:
        x = (lmax - L) / fall
        force = 0.5 * x * x
    return force


@wp.func
def slope_of_length(L: float, lmin: float, lmax: float) -> float:
    """Derivative of `force_of_length`."""
    slope = float(0.0)
    rise = 0.5 * (1.0 - lmin)
    fall = 0.5 * (lmax - 1.0)
    if L > lmin and L <= lmin + rise:
        slope = (L - lmin) / (rise * rise)
    elif L > lmin and L <= 1.0:
        slope = (1.0 - L) / (rise * rise)
    elif L > 1.0 and L <= 1.0 + fall:
        slope = -(L - 1.0) / (fall * fall)
    elif L > 1.0 and L < lmax:
        slope = -(lmax - L) / (fall * fall)
    return slope


@wp.func
def force_of_velocity(V: float, fvmax: float) -> float:
    """Active force over velocity, 1 at rest; shortening is negative."""
    force = fvmax
    rise = fvmax - 1.0
    if V <= -1.0:
        force = 0.0
    elif V <= 0.0:
        force = (V + 1.0) * (V + 1.0)
    elif V < rise:
        force = fvmax - (rise - V) * (rise - V) / wp.max(rise, TINY)
    return force


@wp.func
def slope_of_velocity(V: float, fvmax: float) -> float:
    """Derivative of `force_of_velocity`."""
    slope = float(0.0)
    rise = fvmax - 1.0
    if V > -1.0 and V <= 0.0:
        slope = 2.0 * (V + 1.0)
    elif V > 0.0 and V < rise:
        slope = 2.0 * (rise - V) / wp.max(rise, TINY)
    return slope


@wp.func
def passive_force(L: float, lmax: float, fpmax: float) -> float:
    """Passive force over length."""
    force = float(0.0)
    half = 0.5 * (lmax - 1.0)
    if L > 1.0 and L <= 1.0 + half:
        x = (L - 1.0) / half
        force = 0.5 * fpmax * x * x
    elif L > 1.0:
        force = fpmax * (0.5 + (L - 1.0 - half) / half)
    return force


@wp.func
def slope_of_passive(L: float, lmax: float, fpmax: float) -> float:
    """Derivative of `passive_force`."""
    slope = float(0.0)
    half = 0.5 * (lmax - 1.0)
    if L > 1.0:
        slope = fpmax * wp.min((L - 1.0) / half, 1.0) / half
    return slope


@wp.func
def optimal_length(t: int, muscle: wp.array2d(dtype=float)) -> float:
    """Length L0 of the fibres of muscle t, negative where its tendon is along a negative gear."""
    reach = muscle[t, LENGTH_HIGH] - muscle[t, LENGTH_LOW]
    return reach / (muscle[t, RANGE_HIGH] - muscle[t, RANGE_LOW])


@wp.func
def active_force(t: int, length: float, rate: float, muscle: wp.array2d(dtype=float)) -> float:
    """What muscle t pulls with for each unit of activation [N], negative where it shortens.

    Args:
        t: The muscle.
        length: Length of the tendon [m].
        rate: Its change [m/s].
        muscle: Parameters, see `Model.tendon_muscle`.
    """
    optimum = optimal_length(t, muscle)
    L = muscle[t, RANGE_LOW] + (length - muscle[t, LENGTH_LOW]) / optimum
    V = rate / (optimum * muscle[t, VMAX])
    share = force_of_length(L, muscle[t, LMIN], muscle[t, LMAX]) * force_of_velocity(V, muscle[t, FVMAX])
    return -wp.sign(optimum) * muscle[t, FORCE] * share


@wp.func
def damping_of(
    t: int, activation: float, length: float, rate: float, muscle: wp.array2d(dtype=float)
) -> float:
    """How much harder muscle t resists for each unit of rate [N s/m]; arguments as before."""
    optimum = optimal_length(t, muscle)
    L = muscle[t, RANGE_LOW] + (length - muscle[t, LENGTH_LOW]) / optimum
    fastest = optimum * muscle[t, VMAX]
    share = force_of_length(L, muscle[t, LMIN], muscle[t, LMAX])
    share *= slope_of_velocity(rate / fastest, muscle[t, FVMAX])
    return activation * muscle[t, FORCE] * share / wp.abs(fastest)


@wp.func
def stiffness_of(
    t: int, activation: float, length: float, rate: float, muscle: wp.array2d(dtype=float)
) -> float:
    """How much harder muscle t pulls for each unit of length [N/m]; arguments as before."""
    optimum = optimal_length(t, muscle)
    L = muscle[t, RANGE_LOW] + (length - muscle[t, LENGTH_LOW]) / optimum
    active = activation * slope_of_length(L, muscle[t, LMIN], muscle[t, LMAX])
    active *= force_of_velocity(rate / (optimum * muscle[t, VMAX]), muscle[t, FVMAX])
    passive = slope_of_passive(L, muscle[t, LMAX], muscle[t, FPMAX])
    return muscle[t, FORCE] * (active + passive) / wp.abs(optimum)


@wp.func
def resting_force(t: int, length: float, muscle: wp.array2d(dtype=float)) -> float:
    """What muscle t pulls with without activation [N]; arguments as before."""
    optimum = optimal_length(t, muscle)
    L = muscle[t, RANGE_LOW] + (length - muscle[t, LENGTH_LOW]) / optimum
    return -wp.sign(optimum) * muscle[t, FORCE] * passive_force(L, muscle[t, LMAX], muscle[t, FPMAX])


@wp.func
def muscle_force(
    t: int, activation: float, length: float, rate: float, muscle: wp.array2d(dtype=float)
) -> float:
    """Force of muscle t at an activation [N], negative where it shortens the tendon."""
    return activation * active_force(t, length, rate, muscle) + resting_force(t, length, muscle)
