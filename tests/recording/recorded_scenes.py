"""Models for tests of recordings."""

import numpy as np

import newtonsim
from newtonsim.builder.actuators import ActuatorLaw, ActuatorTarget
from newtonsim.examples import asset_path
from newtonsim.importers.mjcf import parse_mjcf

TETRAHEDRON = ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3])


def robot(name: str) -> newtonsim.ModelBuilder:
    """A robot of the examples."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    parse_mjcf(str(asset_path(name)), builder, floating=None)
    return builder


def robots(*names: str) -> newtonsim.ModelBuilder:
    """One world for each robot, over the ground."""
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    for name in names:
        scene.add_builder(robot(name))
    scene.set_ground_plane()
    return scene


def everything(*numbers: int) -> newtonsim.ModelBuilder:
    """Unlike worlds with a thing of every kind that a model holds, and a table in the global one."""
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.add_shape_box(-1, hx=0.5, hy=0.5, hz=0.1, key="table")
    for number in numbers:
        scene.add_builder(_world(number))
    scene.set_ground_plane()
    return scene


def _world(number: int) -> newtonsim.ModelBuilder:
    world = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    base = world.add_body(origin=((0, 0, 1 + number), (0, 0, 0, 1)), key=f"base {number}")
    world.add_shape_box(base, hx=0.1, hy=0.2, hz=0.3)
    for name in ("left", "right"):
        arm = world.add_body(key=name, mass=1.0)
        world.add_shape_mesh(arm, mesh=newtonsim.Mesh(*TETRAHEDRON, name="pyramid"), scale=(1, 2, 1 + number))
        world.add_joint_revolute(base, arm, axis=(0, 1, 0), key=f"hinge {name}")
    if number:
        ball = world.add_body(key="ball")
        world.add_shape_sphere(ball, radius=0.2)
        world.add_shape_sdf(ball, sdf=newtonsim.SDF.from_mesh(newtonsim.Mesh(*TETRAHEDRON), resolution=6))
        world.add_constraint_distance(base, ball, max_distance=2.0)
    world.joint_mimic.append((1, 0, 0.5, 0.1))
    world.add_muscle([base, arm], [(0, 0, 0), (0, 0, 1)], f0=1.0, lm=1.0, lt=1.0, lmax=1.0, pen=0.0)
    law = ActuatorLaw(gain=(2.0 + number,), dynamics_type="filter", dynamics=(0.1,))
    world.add_actuator(ActuatorTarget.SITE, law, bodies=(arm, base), key=f"jet {number}")
    world.add_actuator(ActuatorTarget.JOINT, law, joint=1, axis=1)
    world.add_shape_heightfield(-1, heightfield=newtonsim.Heightfield(np.eye(3), (2.0, 2.0)))
    world.sites.append({"name": "tip", "body": arm, "xform": world.body_q[arm]})
    _add_particles(world, number)
    return world


def _add_particles(world: newtonsim.ModelBuilder, number: int) -> None:
    world.add_cloth_grid(
        pos=(0, 0, 2),
        rot=(0, 0, 0, 1),
        vel=(0, 0, 0),
        dim_x=2 + number,
        dim_y=2,
        cell_x=0.1,
        cell_y=0.1,
        mass=0.1,
    )
    world.add_soft_grid(
        pos=(1, 0, 2),
        rot=(0, 0, 0, 1),
        vel=(0, 0, 0),
        dim_x=1,
        dim_y=1,
        dim_z=1 + number,
        cell_x=0.1,
        cell_y=0.1,
        cell_z=0.1,
        density=100.0,
        k_mu=1e3,
        k_lambda=1e3,
        k_damp=0.0,
    )
    world.add_spring(0, 3, 10.0, 0.1, 0.0)
