"""Backward pass of the rigid motion that vertex block descent restores to free components after a substep.

In the forward pass, each free component gets the velocity field (d + w × r) / h with A (w, d) = b, where A is
its inertia and b the momentum that the substep lost (`particles.vbd.components.weigh_lost`). A gradient c of
(w, d) yields μ from A μ = c, since A is symmetric, and all other gradients are those of μᵀ (b - A (w, d)).
The point about which a component rotates is arbitrary and has no gradient.

Stage: backward pass of particles, first, motion of connected components
Called by: solvers/vbd/adjoint.py
Reads: ComponentView, ReverseView, SubstepView, goal, motion
Writes: ComponentView, ReverseView, motion, right
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.adjoint.elements import SubstepView
from newtonsim.kernels.particles.adjoint.steps import ReverseView
from newtonsim.kernels.particles.vbd.components import ComponentView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def arm_of(components: ComponentView, s: SubstepView, chunk: int, i: int) -> wp.vec3d:
    """From the reference of a component at the start to particle i at the end [m]."""
    first = components.component_start[components.chunk_component[chunk]]
    origin = s.x[components.particle[components.chunk_start[first]]]
    return (wp.vec3d(s.x[i]) - wp.vec3d(origin)) + wp.vec3d(s.u[i])


@wp.kernel
def weigh_gradients(first: int, s: SubstepView, reverse: ReverseView, components: ComponentView):
    """One thread per chunk: gradient with respect to the motion of its component, not the force on it."""
    chunk = first + wp.tid()
    if components.free[components.chunk_component[chunk]] == 0:
        return
    turn = wp.vec3d()
    push = wp.vec3d()
    for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
        i = components.particle[place]
        g = reverse.v[i] / s.dt
        push += g
        turn += wp.cross(arm_of(components, s, chunk, i), g)
    components.force[chunk] = wp.spatial_vector(wp.vec3(turn), wp.vec3(push))


@wp.kernel
def keep_motion(first: int, components: ComponentView, motion: wp.array(dtype=wp.spatial_vector)):
    """One thread per component: store its motion, which the next solve overwrites."""
    component = first + wp.tid()
    motion[component] = components.motion[component]


@wp.func
def momentum_work(
    r: wp.vec3d,
    u: wp.vec3d,
    goal: wp.vec3d,
    mass: wp.float64,
    turn: wp.vec3d,
    move: wp.vec3d,
    multiplier_turn: wp.vec3d,
    multiplier_move: wp.vec3d,
    by_motion: wp.vec3d,
) -> wp.float64:
    """Share of a particle in μᵀ (b - A (w, d)) and in the product of its gradient with the motion.

    Args:
        r: Its arm [m].
        u: Its displacement [m].
        goal: Its displacement by inertia [m].
        mass: Its mass over the square of the length of the substep [N/m].
        turn: w of its component.
        move: d of its component [m].
        multiplier_turn: μ, likewise.
        multiplier_move: μ.
        by_motion: Gradient with respect to the displacement that the motion gives it.
    """
    field = move + wp.cross(turn, r)
    work = mass * wp.dot(multiplier_move + wp.cross(multiplier_turn, r), (goal - u) - field)
    return work - mass * wp.dot(multiplier_turn, wp.cross(u, goal)) + wp.dot(by_motion, field)


@wp.kernel
def reverse_momentum(
    first: int,
    goal: wp.array(dtype=wp.vec3),
    motion: wp.array(dtype=wp.spatial_vector),
    s: SubstepView,
    reverse: ReverseView,
    components: ComponentView,
    right: wp.array(dtype=wp.vec3d),
):
    """One thread per chunk: from the motion of its component to displacements, inertia and masses."""
    chunk = first + wp.tid()
    component = components.chunk_component[chunk]
    if components.free[component] == 0:
        return
    for place in range(components.chunk_start[chunk], components.chunk_start[chunk + 1]):
        i = components.particle[place]
        square = s.dt * s.dt
        by_r, by_u, by_goal, by_mass, by_w, by_d, by_mw, by_md, by_g = wp.grad(momentum_work)(
            arm_of(components, s, chunk, i),
            wp.vec3d(s.u[i]),
            wp.vec3d(goal[i]),
            s.mass[i] / square,
            wp.vec3d(wp.spatial_top(motion[component])),
            wp.vec3d(wp.spatial_bottom(motion[component])),
            wp.vec3d(wp.spatial_top(components.motion[component])),
            wp.vec3d(wp.spatial_bottom(components.motion[component])),
            reverse.v[i] / s.dt,
        )
        right[i] = right[i] + by_u
        # the arm ends at the final position, whose gradient is added to displacements later
        reverse.x[i] = reverse.x[i] + by_r
        reverse.goal[i] = reverse.goal[i] + by_goal
        reverse.mass[i] = reverse.mass[i] + by_mass / square
