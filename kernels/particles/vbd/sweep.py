"""One sweep of vertex block descent: each particle takes its own Newton step.

Chen, Liu, Yang, Yuksel, "Vertex Block Descent", TOG 43(4), 2024. The objective of a substep of length h is ½
Σ m |u - g|² / h² plus the energies, where u are the displacements and g those by inertia alone.

Stage: VBD substep, sweeps
Called by: solvers/vbd/particles.py, kernels/particles/vbd/self_contact_sweep.py
Reads: DescentView, MotionView, StencilView, TouchView
Writes: StencilView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.particles.vbd.contacts import TouchView, add_contacts, add_face_contacts
from newtonsim.kernels.particles.vbd.elements import (
    Block,
    StencilView,
    add_edges,
    add_springs,
    add_tetrahedra,
    add_triangles,
    relaxed_step,
)
from newtonsim.kernels.particles.vbd.particles import DescentView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def find_block(
    slot: int,
    i: int,
    dt: float,
    touching: int,
    touch: TouchView,
    bodies: MotionView,
    descent: DescentView,
    stencils: StencilView,
    block: wp.ref[Block],
) -> int:
    """Write force and Hessian of particle i, at a place in the order of the colours.

    Returns:
        Number of its contacts with rigid bodies that press.
    """
    stiffness = descent.mass[i] / (dt * dt)
    block.force = (descent.goal[i] - stencils.u[i]) * stiffness
    block.diagonal = wp.vec3(stiffness)
    block.mixed = wp.vec3(0.0)
    add_springs(stencils, slot, i, block)
    add_triangles(stencils, slot, i, block)
    add_edges(stencils, slot, i, block)
    add_tetrahedra(stencils, slot, i, block)
    pressing = int(0)
    if touching != 0:
        pressing += add_contacts(touch, i, dt, bodies, descent, stencils, block)
        pressing += add_face_contacts(touch, slot, i, dt, bodies, descent, stencils, block)
    return pressing


@wp.kernel
def descend(
    first: int,
    base: int,
    relaxation: float,
    dt: float,
    touching: int,
    touch: TouchView,
    bodies: MotionView,
    descent: DescentView,
    stencils: StencilView,
):
    """One thread per particle of one colour: a Newton step, extended by the relaxation where it is free."""
    slot = base + first + wp.tid()
    i = stencils.vertex[slot]
    if not descent.mass[i] > 0.0:
        return
    block = Block()
    pressing = find_block(slot, i, dt, touching, touch, bodies, descent, stencils, block)
    factor = wp.where(pressing > 0, 1.0, relaxation)
    stencils.u[i] = stencils.u[i] + relaxed_step(
        block, descent.mass[i] / (dt * dt), factor, stencils.longest[i]
    )
