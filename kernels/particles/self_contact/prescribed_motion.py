"""Particles that are not moved by the solver, but by the user since the last step.

They start where the last step left them, free of penetration, and move to where the user put them within the
step, as far as no pair loses its gap. This requires that nothing else was moved: if any other particle of the
world is not where the last step left it, all positions are taken as they are.

Stage: self-contact, first and last of a step
Called by: solvers/particles/self_contact.py
Reads: Memory, Search, SelfContactView, flags, inv_mass, target, x
Writes: Memory, target, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.self_contact.contact import SelfContactView, truncate
from newtonsim.kernels.particles.self_contact.pairs import Search, is_held

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class Memory:
    """Data kept between steps; P particles, W worlds."""

    settled: wp.array(dtype=wp.vec3)  # (P) position at the end of the last step [m]
    prescribed: wp.array(dtype=wp.vec3)  # (P) where the user has put the particle [m]
    changed: wp.array(dtype=int)  # (W) 1 if particles that are not held were moved


@wp.kernel
def forget_changes(first: int, memory: Memory):
    """One thread per world: clear the marks of moved particles."""
    memory.changed[first + wp.tid()] = 0


@wp.kernel
def find_changes(
    first: int,
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    x: wp.array(dtype=wp.vec3),
    view: SelfContactView,
    memory: Memory,
):
    """One thread per particle: record if it is not held and was moved since the last step."""
    i = first + wp.tid()
    same = wp.length_sq(x[i] - memory.settled[i]) == 0.0  # not so where either is not a number
    if not same and not is_held(inv_mass, flags, i):
        memory.changed[view.world[i]] = 1


@wp.kernel
def take_back(
    first: int,
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    view: SelfContactView,
    memory: Memory,
    x: wp.array(dtype=wp.vec3),
):
    """One thread per particle: if it is held, it starts where the last step left it."""
    i = first + wp.tid()
    memory.prescribed[i] = x[i]
    if memory.changed[view.world[i]] == 0 and is_held(inv_mass, flags, i):
        x[i] = memory.settled[i]


@wp.kernel
def aim_held(
    first: int,
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    x: wp.array(dtype=wp.vec3),
    part: float,
    memory: Memory,
    target: wp.array(dtype=wp.vec3),
):
    """One thread per particle: if it is held, its target is on the way to where it was put."""
    i = first + wp.tid()
    if is_held(inv_mass, flags, i):
        target[i] = x[i] + part * (memory.prescribed[i] - x[i])


@wp.kernel
def pull_held(
    first: int,
    target: wp.array(dtype=wp.vec3),
    view: SelfContactView,
    search: Search,
    x: wp.array(dtype=wp.vec3),
):
    """One thread per particle: if it is held, it moves to its target, as far as allowed."""
    i = first + wp.tid()
    if search.held[i] != 0:
        x[i] = truncate(view, i, target[i])


@wp.kernel
def settle_particles(first: int, x: wp.array(dtype=wp.vec3), memory: Memory):
    """One thread per particle: store its position at the end of the step."""
    i = first + wp.tid()
    memory.settled[i] = x[i]
