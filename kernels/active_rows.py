"""Constraint rows that act, as equations.

A row is an equation if its impulse is not zero and within its bounds: a pressing normal, friction that
sticks, a motor with force to spare. Sliding contacts keep the friction that the last sweep gave them.
"""

import warp as wp

from newtonsim.kernels.constraint_rows import DofRowView
from newtonsim.kernels.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.pair_rows import PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

SOFTENING = wp.constant(1.0e-5)
# the same for contacts that stay closed, which do not contradict each other as loops do that cannot close;
# the tilt of a heavy body on light ones has eigenvalues as small as the inverse of the mass ratio
RESTING = wp.constant(1.0e-6)
# the same for contacts that remove a penetration, which is impossible for what is wedged in
PUSHING = wp.constant(1.0e-2)
# share of a bound below which an impulse counts as free
WITHIN = wp.constant(0.999)


@wp.struct
class Equation:
    """A row taken as an equation; weight zero if it is not active."""

    weight: float
    wanted: float  # velocity, less what softness makes of the impulse


@wp.struct
class TripleEquation:
    """Three rows of a contact taken as equations."""

    weight: wp.vec3
    wanted: wp.vec3


@wp.func
def interval_equation(
    impulse: float, delassus: float, softness: float, target: wp.vec2, bounds: wp.vec2
) -> Equation:
    """Equation of a row with an interval of wanted velocities and bounds of its impulse."""
    e = Equation()
    e.weight = 0.0
    e.wanted = 0.0
    equality = target[0] == target[1]
    if delassus > 0.0 and (impulse != 0.0 or equality) and bounds[0] < impulse and impulse < bounds[1]:
        wanted = target[0]
        if impulse < 0.0:
            wanted = target[1]
        e.weight = 1.0 / (SOFTENING * delassus + softness)
        e.wanted = wanted - softness * impulse
    return e


@wp.func
def dof_equation(rows: wp.ref[DofRowView], r: int) -> Equation:
    """Equation of a row on one dof."""
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    return interval_equation(rows.impulse[r], rows.delassus[r], rows.softness[r], target, bounds)


@wp.func
def pair_equation(rows: wp.ref[PairRowView], r: int) -> Equation:
    """Equation of a row between two bodies or dofs."""
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    return interval_equation(rows.impulse[r], rows.delassus[r], rows.softness[r], target, bounds)


@wp.func
def inside_cone(t: wp.vec2, bound: float, pyramidal: bool) -> wp.vec2i:
    """1 for the tangential impulses that are free to change."""
    limit = WITHIN * bound
    free = wp.vec2i(0, 0)
    if pyramidal:
        free = wp.vec2i(int(wp.abs(t[0]) < limit), int(wp.abs(t[1]) < limit))
    elif wp.length(t) < limit:
        free = wp.vec2i(1, 1)
    return free


@wp.func
def contact_equation(rows: wp.ref[ContactRowView], c: int, pyramidal: bool) -> TripleEquation:
    """Equations of a contact: a pressing normal, and tangents that stick."""
    e = TripleEquation()
    e.weight = wp.vec3(0.0, 0.0, 0.0)
    e.wanted = wp.vec3(0.0, 0.0, 0.0)
    impulse = rows.impulse[c]
    delassus = rows.delassus[c]
    if impulse[0] > 0.0 and delassus[0] > 0.0:
        soft = rows.softness[c]
        e.wanted = rows.target[c]
        e.wanted[0] = e.wanted[0] - soft * impulse[0]
        softening = RESTING
        if rows.impact[c][1] > 0.0:
            softening = PUSHING
        e.weight[0] = 1.0 / (softening * delassus[0] + soft)
        if delassus[1] > 0.0:
            free = inside_cone(wp.vec2(impulse[1], impulse[2]), rows.friction[c] * impulse[0], pyramidal)
            e.weight[1] = float(free[0]) / (RESTING * delassus[1])
            e.weight[2] = float(free[1]) / (RESTING * delassus[1])
    return e


@wp.func
def spin_equation(
    contact: wp.ref[ContactRowView], rows: wp.ref[SpinRowView], c: int, pyramidal: bool
) -> TripleEquation:
    """Equations of torsional and rolling friction that stick."""
    e = TripleEquation()
    e.weight = wp.vec3(0.0, 0.0, 0.0)
    e.wanted = wp.vec3(0.0, 0.0, 0.0)
    impulse = rows.impulse[c]
    delassus = rows.delassus[c]
    normal = contact.impulse[c][0]
    if normal > 0.0:
        e.wanted = rows.target[c]
        if delassus[0] > 0.0 and wp.abs(impulse[0]) < WITHIN * rows.torsion[c] * normal:
            e.weight[0] = 1.0 / (RESTING * delassus[0])
        if delassus[1] > 0.0:
            free = inside_cone(wp.vec2(impulse[1], impulse[2]), rows.rolling[c] * normal, pyramidal)
            e.weight[1] = float(free[0]) / (RESTING * delassus[1])
            e.weight[2] = float(free[1]) / (RESTING * delassus[1])
    return e
