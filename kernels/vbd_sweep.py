"""One sweep of vertex block descent: each particle takes a Newton step of its own.

Chen, Liu, Yang, Yuksel, "Vertex Block Descent", TOG 43(4), 2024. The objective of a substep of length h is
½ Σ m |u - g|² / h² plus the energies, u the displacements and g those of inertia alone.
"""

import warp as wp

from newtonsim.kernels.vbd_elements import (
    Block,
    StencilView,
    add_edges,
    add_springs,
    add_tetrahedra,
    add_triangles,
    solve_block,
)
from newtonsim.kernels.vbd_particles import DescentView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def inertia_block(descent: DescentView, i: int, u: wp.vec3, dt: float) -> Block:
    """Force that draws particle i to where inertia leads it, and its Hessian."""
    stiffness = descent.mass[i] / (dt * dt)
    block = Block()
    block.force = (descent.goal[i] - u) * stiffness
    block.diagonal = wp.vec3(stiffness)
    block.mixed = wp.vec3(0.0)
    return block


@wp.func
def add_elements(stencils: wp.ref[StencilView], slot: int, i: int, block: wp.ref[Block]):
    """Add all elements of particle i, which has a place in the order of the colours."""
    add_springs(stencils, slot, i, block)
    add_triangles(stencils, slot, i, block)
    add_edges(stencils, slot, i, block)
    add_tetrahedra(stencils, slot, i, block)


@wp.kernel
def descend(
    first: int, base: int, relaxation: float, dt: float, descent: DescentView, stencils: StencilView
):
    """One thread per particle of one colour: a Newton step, lengthened by the relaxation."""
    slot = base + first + wp.tid()
    i = stencils.vertex[slot]
    if not descent.mass[i] > 0.0:
        return
    block = inertia_block(descent, i, stencils.u[i], dt)
    add_elements(stencils, slot, i, block)
    stencils.u[i] = stencils.u[i] + relaxation * solve_block(block)
