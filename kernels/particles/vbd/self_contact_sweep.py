"""Sweeps of vertex block descent for surfaces with self-contact and contact between each other.

Chen, Hsu, Liu, Macklin, Yang, Yuksel, "Offset Geometric Contact", TOG 2025: contact forces enter the Newton
step of each particle, and the step is truncated where it would cross a plane between two surfaces.

Stage: VBD substep, sweeps with self-contact
Called by: solvers/vbd/components.py, solvers/vbd/particles.py
Reads: ContactView, DescentView, MotionView, SelfContactView, StencilView, TouchView, now, order
Writes: StencilView, busy, now, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.particles.contacts import ContactView
from newtonsim.kernels.particles.self_contact.contact import (
    ContactTerms,
    SelfContactView,
    count_pressing,
    self_contact_terms,
    truncate,
)
from newtonsim.kernels.particles.vbd.contacts import TouchView
from newtonsim.kernels.particles.vbd.elements import Block, StencilView, relaxed_step
from newtonsim.kernels.particles.vbd.particles import DescentView
from newtonsim.kernels.particles.vbd.sweep import find_block

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def take_step(
    slot: int,
    i: int,
    relaxation: float,
    dt: float,
    touching: int,
    touch: TouchView,
    bodies: MotionView,
    descent: DescentView,
    stencils: StencilView,
    contact: SelfContactView,
    now: wp.array(dtype=wp.vec3),
) -> ContactTerms:
    """Move particle i, at a place in the order of the colours, by a Newton step as far as allowed.

    Returns:
        The contact terms of its surfaces before the step.
    """
    block = Block()
    pressing = find_block(slot, i, dt, touching, touch, bodies, descent, stencils, block)
    terms = self_contact_terms(contact, i, now, dt)
    block.force += terms.force
    h = terms.hessian
    block.diagonal += wp.vec3(h[0, 0], h[1, 1], h[2, 2])
    block.mixed += wp.vec3(h[1, 2], h[2, 0], h[0, 1])
    factor = wp.where(pressing + terms.near > 0, 1.0, relaxation)
    u = stencils.u[i] + relaxed_step(block, descent.mass[i] / (dt * dt), factor, stencils.longest[i])
    goal = stencils.x[i] + u
    to = truncate(contact, i, goal)
    # a step that is not truncated keeps digits that rounding of large coordinates would lose
    if wp.length_sq(to - goal) > 0.0:
        u = to - stencils.x[i]
    stencils.u[i] = u
    now[i] = to
    return terms


@wp.kernel
def descend_apart(
    first: int,
    base: int,
    relaxation: float,
    dt: float,
    touching: int,
    touch: TouchView,
    bodies: MotionView,
    descent: DescentView,
    stencils: StencilView,
    contact: SelfContactView,
    now: wp.array(dtype=wp.vec3),
):
    """One thread per particle of one colour: as `particles.vbd.sweep.descend`, within the allowed region.

    A step into contacts that did not press before ignores them; therefore a second step follows. Without it,
    such particles would jump in and out of contact from sweep to sweep.
    """
    slot = base + first + wp.tid()
    i = stencils.vertex[slot]
    if not descent.mass[i] > 0.0:
        return
    before = take_step(slot, i, relaxation, dt, touching, touch, bodies, descent, stencils, contact, now)
    if before.near > before.pressing:
        if count_pressing(contact, i, now) > before.pressing:
            take_step(slot, i, 1.0, dt, touching, touch, bodies, descent, stencils, contact, now)


@wp.kernel
def mark_busy(first: int, contacts: ContactView, busy: wp.array(dtype=int)):
    """One thread per particle: whether it may touch a shape within the substep."""
    i = first + wp.tid()
    busy[i] = contacts.count[i]


@wp.kernel
def mark_busy_corners(first: int, order: wp.array(dtype=int), touch: TouchView, busy: wp.array(dtype=int)):
    """One thread per triangle: mark its corners if its inside may touch a shape within the substep."""
    t = order[first + wp.tid()]
    if touch.faces.touch.count[t] > 0:
        for corner in range(3):
            busy[touch.triangles[t, corner]] = 1


@wp.kernel
def move_held(first: int, descent: DescentView, stencils: StencilView):
    """One thread per particle: if it is held, set its displacement to its target."""
    i = first + wp.tid()
    if not descent.mass[i] > 0.0:
        stencils.u[i] = descent.predicted[i] - stencils.x[i]


@wp.kernel
def place_particles(first: int, stencils: StencilView, now: wp.array(dtype=wp.vec3)):
    """One thread per particle: compute its current position."""
    i = first + wp.tid()
    now[i] = stencils.x[i] + stencils.u[i]


@wp.kernel
def take_displacement(first: int, stencils: StencilView, now: wp.array(dtype=wp.vec3)):
    """One thread per particle: displacement to its current position, after truncation."""
    i = first + wp.tid()
    cut = now[i] - (stencils.x[i] + stencils.u[i])
    if wp.length_sq(cut) > 0.0:
        stencils.u[i] = now[i] - stencils.x[i]


@wp.kernel
def settle(first: int, now: wp.array(dtype=wp.vec3), x: wp.array(dtype=wp.vec3)):
    """One thread per particle: end a substep exactly at the position without penetration."""
    i = first + wp.tid()
    x[i] = now[i]
