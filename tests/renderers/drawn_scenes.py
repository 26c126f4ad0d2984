"""Scenes for renderers."""

import numpy as np

import newtonsim
from newtonsim import Heightfield, Mesh, ModelBuilder

TETRAHEDRON = Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3])
SOLID = {"mass": 1.0, "I_m": np.eye(3)}
LEAN = (0.0, np.sin(0.3), 0.0, np.cos(0.3))


def shapes(**options) -> ModelBuilder:
    """A body with each kind of shape, each shape in a place of its own in the frame of the body."""
    builder = ModelBuilder(**options)
    place = {"pos": (0.1, 0.2, 0.3), "rot": LEAN}
    add = [
        lambda body: builder.add_shape_sphere(body, radius=0.1, **place),
        lambda body: builder.add_shape_box(body, hx=0.1, hy=0.2, hz=0.3, **place),
        lambda body: builder.add_shape_capsule(body, radius=0.1, half_height=0.2, **place),
        lambda body: builder.add_shape_cylinder(body, radius=0.1, half_height=0.2, **place),
        lambda body: builder.add_shape_cone(body, radius=0.1, half_height=0.2, **place),
        lambda body: builder.add_shape_ellipsoid(body, a=0.1, b=0.2, c=0.3, **place),
        lambda body: builder.add_shape_mesh(body, mesh=TETRAHEDRON, scale=(1.0, 2.0, -0.5), **place),
        lambda body: builder.add_shape_heightfield(
            body, heightfield=Heightfield([[0.0, 0.1], [0.2, 0.3]], (1.0, 1.0)), **place
        ),
        lambda body: builder.add_shape_plane(body=body, width=1.0, length=2.0, **place),
    ]
    for number, shape in enumerate(add):
        shape(builder.add_body(origin=(float(number), 0, 0, 0, 0, 0, 1), key=f"body {number}", **SOLID))
    return builder


def soft(**options) -> ModelBuilder:
    """Cloth, a soft body, a rope and loose particles, and a muscle between two bodies."""
    builder = ModelBuilder(**options)
    still, upright = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)
    builder.add_cloth_grid((0, 1, 0), upright, still, 3, 2, 0.1, 0.1, 0.01)
    builder.add_soft_grid((1, 1, 0), upright, still, 2, 1, 1, 0.1, 0.1, 0.1, 100.0, 1e4, 1e4, 0.0)
    builder.add_rope([(2 + 0.1 * k, 1, 0) for k in range(4)], still, 0.1, 1e3)
    builder.add_particle((3, 1, 0), still, 0.1, radius=0.05)
    builder.add_particle((3, 1, 1), still, 0.1, radius=0.07)
    ends = [builder.add_body(origin=(float(k), 0, 0, *upright), **SOLID) for k in range(2)]
    points = [(0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)]
    builder.add_muscle([ends[0], ends[0], ends[1]], points, 1.0, 1.0, 1.0, 1.0, 0.0)
    return builder


def random_state(model: newtonsim.Model, seed: int) -> newtonsim.State:
    """A state with random poses and positions."""
    rng, state = np.random.default_rng(seed), model.state()
    if model.body_count:
        poses = rng.normal(size=(model.body_count, 7)).astype(np.float32)
        poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
        state.body_q.assign(poses)
    if model.particle_count:
        state.particle_q.assign(rng.normal(size=(model.particle_count, 3)).astype(np.float32))
    return state
