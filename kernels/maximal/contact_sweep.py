"""Updates of one contact between bodies in sweeps, see `maximal.contacts`.

Stage: substep in maximal coordinates, sweeps
Called by: kernels/maximal/sweeps.py
Reads: BodyContactView, ContactView, MotionView, SpinView
Writes: BodyContactView, MotionView, SpinView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.maximal.contacts import (
    BodyContactView,
    BodySettings,
    push_contact,
    relative_spin,
    relative_velocity,
)
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.maximal.rows import SpinView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def push_spin(c: int, x: wp.vec3, view: BodyContactView, spin: SpinView, bodies: MotionView):
    """Apply an angular impulse to both bodies of contact c."""
    b0 = view.body0[c]
    b1 = view.body1[c]
    if b0 >= 0:
        kick = wp.spatial_vector(spin.inv_inertia[b0] * x, wp.vec3(0.0))
        bodies.velocity[b0] = bodies.velocity[b0] + kick
    if b1 >= 0:
        kick = wp.spatial_vector(spin.inv_inertia[b1] * x, wp.vec3(0.0))
        bodies.velocity[b1] = bodies.velocity[b1] - kick


@wp.func
def bounded(x: wp.vec3, most: float) -> wp.vec3:
    """x, limited to a largest length."""
    size = wp.length(x)
    return wp.where(size > most, x * (most / wp.max(size, 1.0e-30)), x)


@wp.func
def start_contact(
    c: int, contacts: ContactView, view: BodyContactView, s: BodySettings, spin: SpinView, bodies: MotionView
):
    """Apply a share of the impulse of the last substep along the current normal and tangents."""
    n = contacts.normal[c]
    x = s.warm_start * view.impulse[c]
    along = wp.dot(n, x)
    if along <= 0.0 or s.warm_start == 0.0:
        view.impulse[c] = wp.vec3(0.0)
        view.spin[c] = wp.vec3(0.0)
        return
    x = along * n + bounded(x - along * n, view.friction[c][0] * along)
    view.impulse[c] = x
    push_contact(c, x, view, bodies)
    y = s.warm_start * view.spin[c]
    about = wp.dot(n, y)
    torsion = view.friction[c][1] * along
    y = wp.clamp(about, -torsion, torsion) * n + bounded(y - about * n, view.friction[c][2] * along)
    view.spin[c] = y
    if wp.length_sq(y) > 0.0:
        push_spin(c, y, view, spin, bodies)


@wp.func
def slow_sliding(
    c: int,
    n: wp.vec3,
    along: float,
    before: wp.vec3,
    slip_before_impact: wp.vec3,
    view: BodyContactView,
    bodies: MotionView,
):
    """Stop sliding at contact c as far as its friction cone allows.

    Args:
        c: The contact.
        n: Its normal.
        along: Normal impulse.
        before: Tangential impulse so far.
        slip_before_impact: Remaining slip of a stopped contact, due to the slip before an impact.
        view: Contacts.
        bodies: Bodies.
    """
    tangential = wp.vec3(0.0)
    mobility = view.mobility[c][1]
    if mobility > 0.0 and along + view.shift[c] > 0.0:
        u = (
            relative_velocity(view.body0[c], view.body1[c], view.arm0[c], view.arm1[c], bodies)
            - slip_before_impact
        )
        sliding = u - wp.dot(n, u) * n
        # wedged contacts stick as well
        most = view.friction[c][0] * (along + view.shift[c])
        tangential = bounded(before - sliding / mobility, most)
    view.impulse[c] = along * n + tangential
    push_contact(c, tangential - before, view, bodies)


@wp.func
def slow_spinning(
    c: int,
    n: wp.vec3,
    along: float,
    spin_before_impact: wp.vec3,
    view: BodyContactView,
    spin: SpinView,
    bodies: MotionView,
):
    """Torsional and rolling friction of contact c, within bounds that grow with its normal impulse.

    `spin_before_impact` corresponds to `slip_before_impact` in `slow_sliding`.
    """
    torsion = view.friction[c][1] * along
    rolling = view.friction[c][2] * along
    before = view.spin[c]
    if torsion <= 0.0 and rolling <= 0.0 and wp.length_sq(before) == 0.0:
        return
    w = relative_spin(view.body0[c], view.body1[c], bodies) - spin_before_impact
    about = wp.dot(n, w)
    mobility = view.spin_mobility[c]
    pivoting = wp.dot(n, before)
    rest = before - pivoting * n
    if mobility[0] > 0.0:
        pivoting = pivoting - about / mobility[0]
    if mobility[1] > 0.0:
        rest = rest - (w - about * n) / mobility[1]
    total = wp.clamp(pivoting, -torsion, torsion) * n + bounded(rest, rolling)
    view.spin[c] = total
    push_spin(c, total - before, view, spin, bodies)


@wp.func
def part_contact(
    c: int,
    n: wp.vec3,
    factor: float,
    view: BodyContactView,
    s: BodySettings,
    spin: SpinView,
    bodies: MotionView,
):
    """Remove the penetration at contact c by velocities that end with the substep and thus add no energy."""
    b0 = view.body0[c]
    b1 = view.body1[c]
    speed = float(0.0)
    if b0 >= 0:
        w = wp.spatial_top(spin.shift[b0])
        speed = wp.dot(n, wp.spatial_bottom(spin.shift[b0]) + wp.cross(w, view.arm0[c]))
    if b1 >= 0:
        w = wp.spatial_top(spin.shift[b1])
        speed -= wp.dot(n, wp.spatial_bottom(spin.shift[b1]) + wp.cross(w, view.arm1[c]))
    goal = wp.min(-view.gap[c] / s.dt, s.push_speed)
    before = view.shift[c]
    total = wp.max(0.0, before + factor * (goal - speed) / view.mobility[c][0])
    view.shift[c] = total
    x = (total - before) * n
    if b0 >= 0:
        spin.shift[b0] = spin.shift[b0] + wp.spatial_vector(view.turn0[c] * x, bodies.inv_mass[b0] * x)
    if b1 >= 0:
        spin.shift[b1] = spin.shift[b1] - wp.spatial_vector(view.turn1[c] * x, bodies.inv_mass[b1] * x)


@wp.func
def solve_contact(
    c: int,
    contacts: ContactView,
    view: BodyContactView,
    s: BodySettings,
    share: int,
    spin: SpinView,
    bodies: MotionView,
):
    """Keep contact c open until the end of the substep, with friction.

    With `share` the points of a pair of shapes divide the correction.
    """
    n = contacts.normal[c]
    mobility = view.mobility[c][0]
    if mobility <= 0.0:
        return
    u = relative_velocity(view.body0[c], view.body1[c], view.arm0[c], view.arm1[c], bodies)
    # an impact lasts one step, and its residual would affect the height of the rebound
    factor = wp.where(view.bounces[c] >= 0, 1.0, s.contact_relaxation)
    if share == 1:
        factor = factor * view.share[c]
    if view.gap[c] < 0.0:
        part_contact(c, n, factor, view, s, spin, bodies)
    before = wp.dot(n, view.impulse[c])
    tangential = view.impulse[c] - before * n
    along = wp.max(0.0, before + factor * (view.speed[c] - wp.dot(n, u)) / mobility)
    push_contact(c, (along - before) * n, view, bodies)
    motion = view.motion_before_impact[c]
    slow_sliding(c, n, along, tangential, wp.spatial_bottom(motion), view, bodies)
    slow_spinning(c, n, along, wp.spatial_top(motion), view, spin, bodies)


@wp.func
def relax_contact(
    c: int,
    contacts: ContactView,
    view: BodyContactView,
    share: int,
    spin: SpinView,
    bodies: MotionView,
):
    """Set the velocity of contact c to its target if it pushed in the sweeps over positions.

    For `share` see `solve_contact`.
    """
    n = contacts.normal[c]
    mobility = view.mobility[c][0]
    if view.pushes[c] == 0 or mobility <= 0.0:
        return
    u = relative_velocity(view.body0[c], view.body1[c], view.arm0[c], view.arm1[c], bodies)
    before = wp.dot(n, view.impulse[c])
    tangential = view.impulse[c] - before * n
    factor = wp.where(share == 1, view.share[c], 1.0)
    along = wp.max(0.0, before + factor * (view.target[c] - wp.dot(n, u)) / mobility)
    push_contact(c, (along - before) * n, view, bodies)
    none = wp.vec3(0.0)
    slow_sliding(c, n, along, tangential, none, view, bodies)
    slow_spinning(c, n, along, none, view, spin, bodies)
