"""Rows by reference: stiffness, damping and softness as MuJoCo's solref and solimp define them.

A row with the position r (negative where the constraint is violated) and the velocity v obeys

    a + R f = -b v - k r,    R = (1 - d) / d · w,

where f is the force, a the resulting acceleration, d(r) the impedance between 0 and 1, and w the inverse
weight of the bodies or dofs that the row moves. The impedance goes from d0 at r = 0 to d1 at |r| = width
along a sigmoid. A time constant T and a damping ratio ζ yield b = 2 / (d1 T) and k = d / (d1² T² ζ²);
negative numbers -K and -D yield b = D / d1 and k = K d / d1². Within a step h this is a target velocity v - h
(b v + k r) at its end, and the softness R, with r and v at the start of the step; or, `late`, with those at
its end, the target (v - h k r) / e and the softness R / e, e = 1 + h b + h² k, which is stable at any b and
k. A time constant is raised to at least two steps in the former case, and in the latter, of limits and
contacts, to where h² k = 1.

Contacts use the parameters of the shape with the higher priority, or mix those of both by their weights.

Source: MuJoCo's documentation, chapters "Computation" (constraint model, parameters) and "Modeling" (solver
parameters, contact parameters).

Stage: constraints, assembly of rows
Called by: kernels/constraints/adjoint/, kernels/constraints/, kernels/tendons/rows.py
Reads: ContactParameters, ModelShapeMaterials, imp, mu, mu_rolling, mu_torsion, ref
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.structs import ModelShapeMaterials

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# least and largest impedance
LEAST_IMPEDANCE = wp.constant(1.0e-4)
MOST_IMPEDANCE = wp.constant(0.9999)
# smallest time constant, in steps
FEWEST_STEPS = wp.constant(2.0)
# width [m or rad] below which the impedance does not depend on the position
NO_WIDTH = wp.constant(1.0e-10)
LEAST_MIX = wp.constant(1.0e-10)
# bisections that reduce any list of pairs to one
MOST_HALVINGS = wp.constant(31)
# a target velocity [m/s] that no row reaches, so that the row exerts no impulse
IDLE = wp.constant(1.0e4)
COMBINE_PRODUCT = wp.constant(1)
COMBINE_MAX = wp.constant(2)


@wp.struct
class RowParameters:
    """solref and solimp of a row."""

    given: int  # 0 where the solver's own stiffness holds
    ref: wp.vec2  # time constant [s] and damping ratio, or minus stiffness and minus damping
    ends: wp.vec2  # impedance at the limit, and beyond the width
    width: float  # [m or rad]
    middle: float  # share of the width at which the sigmoid has its inflection
    power: float


@wp.struct
class RowReference:
    """Target of a row by reference."""

    target: float  # velocity at the end of the step [m/s or rad/s]
    softness: float  # R


@wp.struct
class ContactParameters:
    """Parameters of contacts: S shapes, P pairs of shapes with their own, B bodies; all empty without any."""

    given: int  # 1 if there are any
    ref: wp.array2d(dtype=float)  # (S, 2) see `RowParameters`; zero where the solver's own stiffness holds
    imp: wp.array2d(dtype=float)  # (S, 5) both ends, width, middle, power
    mix: wp.array(dtype=float)  # (S) weight in a mix
    priority: wp.array(dtype=int)  # (S)
    condim: wp.array(dtype=int)  # (S) 1 without friction, 0 for friction according to the coefficients
    pair: wp.array(dtype=wp.vec2i)  # (P) smaller shape first, sorted
    pair_ref: wp.array2d(dtype=float)  # (P, 2)
    pair_imp: wp.array2d(dtype=float)  # (P, 5)
    pair_mu: wp.array(dtype=wp.vec3)  # (P) sliding, torsional [m], rolling [m]
    weight: wp.array(dtype=float)  # (B) inverse weight [1/kg] in the reference pose


@wp.func
def impedance(r: float, p: RowParameters) -> float:
    """d(r), see the file."""
    first = wp.clamp(p.ends[0], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    last = wp.clamp(p.ends[1], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    share = float(0.5)
    if p.width > NO_WIDTH:
        x = wp.abs(r) / p.width
        share = 1.0
        if x < 1.0:
            if x <= p.middle:
                share = wp.pow(x / p.middle, p.power) * p.middle
            else:
                share = 1.0 - wp.pow((1.0 - x) / (1.0 - p.middle), p.power) * (1.0 - p.middle)
    return first + share * (last - first)


@wp.func
def row_rates(p: RowParameters, dt: float, late: int) -> wp.vec2:
    """Stiffness at full impedance, k / d, and damping b of a row."""
    last = wp.clamp(p.ends[1], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    stiffness = -p.ref[0] / (last * last)
    damping = -p.ref[1] / last
    if p.ref[0] > 0.0:
        time = p.ref[0]
        if late == 0:
            time = wp.max(time, FEWEST_STEPS * dt)
        stiffness = 1.0 / (last * last * time * time * p.ref[1] * p.ref[1])
        damping = 2.0 / (last * time)
    return wp.vec2(stiffness, damping)


@wp.func
def slowed(d: float, p: RowParameters, dt: float, late: int) -> RowParameters:
    """Parameters of a limit or contact whose spring takes a step at least to close the gap, see the file."""
    time = p.ref[0]
    if late == 1 and p.ref[0] > 0.0:
        last = wp.clamp(p.ends[1], LEAST_IMPEDANCE, MOST_IMPEDANCE)
        time = wp.max(p.ref[0], dt * wp.sqrt(d) / (last * p.ref[1]))
    q = RowParameters()
    q.given = p.given
    q.ref = wp.vec2(time, p.ref[1])
    q.ends = p.ends
    q.width = p.width
    q.middle = p.middle
    q.power = p.power
    return q


@wp.func
def reference_at(
    d: float, r: float, v: float, bend: float, weight: float, p: RowParameters, dt: float, late: int
) -> RowReference:
    """`row_reference` of a row that shares its impedance d with other rows, and whose Jacobian rotates.

    `bend` is the acceleration of the row at constant velocities of the dofs.
    """
    rates = row_rates(p, dt, late)
    stiffness = rates[0]
    damping = rates[1]
    target = v - dt * (damping * v + stiffness * d * r) - dt * bend
    softness = (1.0 - d) / d * weight
    if late == 1:
        share = 1.0 / (1.0 + dt * (damping + dt * stiffness * d))
        target = share * (v - dt * (stiffness * d * r + bend))
        softness = share * (1.0 - d) / d * weight
    # every member is set once: reverse mode would count what was overwritten
    reference = RowReference()
    reference.target = target
    reference.softness = softness
    return reference


@wp.func
def row_reference(r: float, v: float, weight: float, p: RowParameters, dt: float, late: int) -> RowReference:
    """Target and softness of a limit or contact at a violated position r, with v at the start of the step."""
    d = impedance(r, p)
    return reference_at(d, r, v, 0.0, weight, slowed(d, p, dt, late), dt, late)


@wp.func
def rate_reference(v: float, weight: float, p: RowParameters, dt: float, late: int) -> RowReference:
    """Target and softness of a row without a position, like dry friction: k is 0, and d that of r = 0."""
    d = impedance(0.0, p)
    damping = row_rates(p, dt, late)[1]
    target = v - dt * damping * v
    softness = (1.0 - d) / d * weight
    if late == 1:
        share = 1.0 / (1.0 + dt * damping)
        target = share * v
        softness = share * (1.0 - d) / d * weight
    reference = RowReference()
    reference.target = target
    reference.softness = softness
    return reference


@wp.func
def read_parameters(i: int, ref: wp.array2d(dtype=float), imp: wp.array2d(dtype=float)) -> RowParameters:
    """Entry i of a pair of arrays."""
    p = RowParameters()
    p.ref = wp.vec2(ref[i, 0], ref[i, 1])
    p.ends = wp.vec2(imp[i, 0], imp[i, 1])
    p.width = imp[i, 2]
    p.middle = imp[i, 3]
    p.power = imp[i, 4]
    if p.ref[0] != 0.0:
        p.given = 1
    return p


@wp.func
def usual_parameters(p: RowParameters) -> RowParameters:
    """The same, or the defaults where none are given."""
    q = RowParameters()
    q.ref = wp.vec2(0.02, 1.0)
    q.ends = wp.vec2(0.9, 0.95)
    q.width = 0.001
    q.middle = 0.5
    q.power = 2.0
    if p.given == 1:
        q = p
    return q


@wp.func
def find_pair(s0: int, s1: int, contact: ContactParameters) -> int:
    """Place of a pair of shapes among those with their own parameters, or -1."""
    a = wp.min(s0, s1)
    b = wp.max(s0, s1)
    low = int(0)
    high = int(contact.pair.shape[0])
    found = int(-1)
    for _ in range(MOST_HALVINGS * wp.min(1, high)):
        if low < high:
            middle = (low + high) / 2
            pair = contact.pair[middle]
            if pair[0] < a or (pair[0] == a and pair[1] < b):
                low = middle + 1
            else:
                high = middle
    if low < contact.pair.shape[0]:
        if contact.pair[low][0] == a and contact.pair[low][1] == b:
            found = low
    return found


@wp.func
def share_of_first(s0: int, s1: int, contact: ContactParameters) -> float:
    """Weight of the parameters of shape s0 among those of both."""
    p0 = contact.priority[s0]
    p1 = contact.priority[s1]
    m0 = contact.mix[s0]
    m1 = contact.mix[s1]
    share = float(0.5)
    if p0 != p1:
        share = 0.0
        if p0 > p1:
            share = 1.0
    elif m0 >= LEAST_MIX and m1 >= LEAST_MIX:
        share = m0 / (m0 + m1)
    elif m0 >= LEAST_MIX:
        share = 1.0
    elif m1 >= LEAST_MIX:
        share = 0.0
    return share


@wp.func
def mixed_parameters(s0: int, s1: int, contact: ContactParameters) -> RowParameters:
    """Parameters of the normal row between two shapes."""
    mixed = RowParameters()
    pair = find_pair(s0, s1, contact)
    if pair >= 0:
        mixed = read_parameters(pair, contact.pair_ref, contact.pair_imp)
    else:
        own0 = read_parameters(s0, contact.ref, contact.imp)
        own1 = read_parameters(s1, contact.ref, contact.imp)
        share = share_of_first(s0, s1, contact)
        if (own0.given == 1 and share > 0.0) or (own1.given == 1 and share < 1.0):
            p0 = usual_parameters(own0)
            p1 = usual_parameters(own1)
            mixed.given = 1
            mixed.ref = share * p0.ref + (1.0 - share) * p1.ref
            if (p0.ref[0] <= 0.0 or p1.ref[0] <= 0.0) and share > 0.0 and share < 1.0:
                mixed.ref = wp.min(p0.ref, p1.ref)
            mixed.ends = share * p0.ends + (1.0 - share) * p1.ends
            mixed.width = share * p0.width + (1.0 - share) * p1.width
            mixed.middle = share * p0.middle + (1.0 - share) * p1.middle
            mixed.power = share * p0.power + (1.0 - share) * p1.power
    return mixed


@wp.func
def combine(a: float, b: float, how: int) -> float:
    """Mean, product or larger one of two material parameters."""
    result = 0.5 * (a + b)
    if how == COMBINE_PRODUCT:
        result = a * b
    elif how == COMBINE_MAX:
        result = wp.max(a, b)
    return result


@wp.func
def higher_priority(s0: int, s1: int, contact: ContactParameters) -> int:
    """The shape whose parameters apply alone, or -1 for both."""
    decides = int(-1)
    if contact.priority[s0] > contact.priority[s1]:
        decides = s0
    elif contact.priority[s0] < contact.priority[s1]:
        decides = s1
    return decides


@wp.func
def own_friction(
    s0: int, s1: int, mixed: float, material: ModelShapeMaterials, contact: ContactParameters
) -> float:
    """Coefficient of friction between two shapes whose coefficients together are `mixed`."""
    mu = float(mixed)
    pair = find_pair(s0, s1, contact)
    above = higher_priority(s0, s1, contact)
    if pair >= 0:
        mu = contact.pair_mu[pair][0]
    elif above >= 0:
        mu = material.mu[above]
        if contact.condim[above] == 1:
            mu = 0.0
    elif contact.condim[s0] == 1 and contact.condim[s1] == 1:
        mu = 0.0
    return mu


@wp.func
def contact_friction(
    s0: int, s1: int, material: ModelShapeMaterials, contact: ContactParameters, how: int
) -> float:
    """Coefficient of friction between two shapes."""
    mu = combine(material.mu[s0], material.mu[s1], how)
    if contact.given == 1:
        mu = own_friction(s0, s1, mu, material, contact)
    return mu


@wp.func
def contact_spin_friction(
    s0: int,
    s1: int,
    mu: wp.array(dtype=float),
    mu_torsion: wp.array(dtype=float),
    mu_rolling: wp.array(dtype=float),
    contact: ContactParameters,
    how: int,
) -> wp.vec2:
    """Coefficients of torsional and rolling friction [m] between two shapes."""
    share0 = float(0.5)
    share1 = float(0.5)
    if how == COMBINE_PRODUCT:
        share0 = mu[s1]
        share1 = mu[s0]
    spin = wp.vec2(
        share0 * mu_torsion[s0] + share1 * mu_torsion[s1], share0 * mu_rolling[s0] + share1 * mu_rolling[s1]
    )
    if how == COMBINE_MAX:
        spin = wp.vec2(wp.max(mu_torsion[s0], mu_torsion[s1]), wp.max(mu_rolling[s0], mu_rolling[s1]))
    if contact.given == 1:
        pair = find_pair(s0, s1, contact)
        above = higher_priority(s0, s1, contact)
        if pair >= 0:
            spin = wp.vec2(contact.pair_mu[pair][1], contact.pair_mu[pair][2])
        elif above >= 0:
            spin = wp.vec2(mu_torsion[above], mu_rolling[above])
    return spin
