"""Small scenes of particles and a loss for the tests of gradients of XPBDSolver and VBDSolver."""

import numpy as np
import warp as wp

import newtonsim

UP = (0.0, 0.0, 1.0)


@wp.kernel
def add_weighted(
    q: wp.array(dtype=wp.vec3),
    qd: wp.array(dtype=wp.vec3),
    weight_q: wp.array(dtype=wp.vec3),
    weight_qd: wp.array(dtype=wp.vec3),
    origin: wp.array(dtype=wp.vec3),
    world: wp.array(dtype=int),
    losses: wp.array(dtype=float),
):
    i = wp.tid()
    loss = wp.dot(weight_q[i], q[i] - origin[i]) + wp.dot(weight_qd[i], qd[i])
    wp.atomic_add(losses, world[i], loss)


def weighted(model, seed=0):
    """Loss: sum of displacements, and of a tenth of the velocities, with random weights."""
    rng = np.random.default_rng(seed)
    weights = [
        wp.array(scale * rng.normal(size=(model.particle_count, 3)), dtype=wp.vec3, device=model.device)
        for scale in (1.0, 0.1)
    ]
    origin = wp.clone(model.particle_q)

    def loss(state, losses):
        inputs = [state.particle_q, state.particle_qd, *weights, origin, model.particle_world]
        wp.launch(add_weighted, model.particle_count, inputs, [losses], device=model.device)

    return loss


def shaken(model, size, seed=1):
    """State with particles moved by up to `size` [m] from where they rest, and small forces."""
    rng = np.random.default_rng(seed)
    state = model.state()
    moved = state.particle_q.numpy() + rng.uniform(-size, size, (model.particle_count, 3))
    state.particle_q.assign(moved.astype(np.float32))
    state.particle_f.assign((0.05 * rng.normal(size=(model.particle_count, 3))).astype(np.float32))
    return state


def rope(damping=0.0, links=5):
    """Masses on springs, the first of them held."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    for i in range(links + 1):
        builder.add_particle((0.1 * i, 0.0, 1.0), (0.0, 0.3 * i, 0.0), 0.0 if i == 0 else 0.05, radius=0.01)
    for i in range(links):
        builder.add_spring(i, i + 1, 200.0, damping, 0.0)
    return builder


def cloth(damping=0.0, held=True, cells=3, drag=0.0, lift=0.0, bending=1e-3):
    """A square of cloth with bending stiffness, held along one edge."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    builder.add_cloth_grid(
        pos=(-0.2, -0.2, 0.8),
        rot=(0.0, 0.0, 0.0, 1.0),
        vel=(0.1, 0.2, 0.0),
        dim_x=cells,
        dim_y=cells,
        cell_x=0.1,
        cell_y=0.1,
        mass=0.02,
        tri_ke=100.0,
        tri_ka=60.0,
        tri_kd=damping,
        tri_drag=drag,
        tri_lift=lift,
        edge_ke=bending,
        edge_kd=0.05 * bending * damping,
        fix_left=held,
        particle_radius=0.01,
    )
    return builder


def beam(damping=0.0, held=True, height=1.0, cells=3, velocity=(0.1, 0.2, -0.3)):
    """Three cubes of soft matter in a row."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    builder.add_soft_grid(
        pos=(0.0, 0.0, height),
        rot=(0.0, 0.0, 0.0, 1.0),
        vel=velocity,
        dim_x=cells,
        dim_y=1,
        dim_z=1,
        cell_x=0.1,
        cell_y=0.1,
        cell_z=0.1,
        density=300.0,
        k_mu=5e3,
        k_lambda=8e3,
        k_damp=damping,
        fix_left=held,
    )
    return builder


def grain(velocity, height=0.5025):
    """A particle on a ball of half a metre, or beside it on the ground plane if it is lower."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    builder.add_shape_sphere(-1, pos=(0.0, 0.0, 0.0), radius=0.5)
    builder.add_particle((0.1, 0.05, height), velocity, 0.1, radius=0.02)
    return builder


def landing(velocity=(0.6, 0.1, -0.3)):
    """A soft beam that falls onto the ground and slides."""
    builder = beam(0.01, held=False, height=0.0205, velocity=velocity)
    builder.particle_radius[:] = [0.02] * len(builder.particle_radius)
    builder.set_ground_plane()
    return builder
