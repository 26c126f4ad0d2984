"""Scenes with contact in motion, beside those of `newtonsim.examples.scenes`; z up, SI units, for 1/240 s."""

import math
from collections.abc import Sequence

import numpy as np

from newtonsim import ModelBuilder
from newtonsim.examples.scenes.parts import add_box, new_scene

BRICK = (0.1, 0.05, 0.05)
"""Half extents [m] of a brick."""

GRAVITY = 9.81
"""What all scenes here fall by [m/s^2]."""


def hit_wall(rows: int = 10, columns: int = 10, speed: float = 10.0, delay: float = 0.25) -> ModelBuilder:
    """Wall of bricks in running bond that a ball hits, which is as heavy as ten bricks.

    Bricks of 0.2 x 0.1 x 0.1 m and 4 kg lie face on face, 2 mm apart within a row, with friction 0.5; every
    other row has one less. The ball of radius 0.25 m strikes the middle of the wall, falling a little.

    Args:
        rows: Number of rows; 10 of 10 and 9 bricks make 95.
        columns: Bricks of the longer rows.
        speed: Of the ball along y [m/s].
        delay: Time until the ball strikes [s].
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    half_length, half_width, half_height = BRICK
    mass, pitch, radius = 4.0, 2.0 * half_length + 0.002, 0.25
    for row in range(rows):
        count = columns - row % 2
        for i in range(count):
            x = pitch * (i - 0.5 * (count - 1))
            add_box(builder, (x, 0.0, half_height * (2 * row + 1)), BRICK, mass)
    # it flies along a parabola that ends as high as it begins
    start = (0.0, -half_width - radius - speed * delay, half_height * rows)
    ball = builder.add_body(origin=(*start, 0.0, 0.0, 0.0, 1.0), key="ball")
    builder.add_shape_sphere(ball, radius=radius, density=10.0 * mass / (4.0 / 3.0 * math.pi * radius**3))
    builder.body_qd[ball] = (0.0, 0.0, 0.0, 0.0, speed, 0.5 * GRAVITY * delay)
    return builder


def heap(count: int = 200, seed: int = 0) -> ModelBuilder:
    """Boxes, spheres and capsules that fall into an open box.

    They start turned at random on a grid as high as wide, at rest and clear of each other, and differ in size
    by a factor of 1.5. Density 500 kg/m^3, friction 0.5, no restitution.

    Args:
        count: Number of bodies.
        seed: Of sizes and orientations.
    """
    builder = new_scene(friction=0.5)
    builder.default_shape_density = 500.0
    builder.set_ground_plane()
    rng = np.random.default_rng(seed)
    side, pitch = math.ceil(count ** (1.0 / 3.0)), 0.15
    width = side * pitch
    _add_walls(builder, 0.5 * width, width + 2.0 * pitch)
    for i in range(count):
        cell = np.array([i % side, i // side % side, i // side**2])
        place = pitch * (cell + 0.5) - [0.5 * width, 0.5 * width, 0.0]
        rotation = rng.normal(size=4)
        body = builder.add_body(origin=(*place, *(rotation / np.linalg.norm(rotation))))
        size = 0.04 * rng.uniform(1.0, 1.5)
        if i % 3 == 0:
            builder.add_shape_box(body, hx=0.9 * size, hy=0.6 * size, hz=0.6 * size)
        elif i % 3 == 1:
            builder.add_shape_sphere(body, radius=size)
        else:
            builder.add_shape_capsule(body, radius=0.6 * size, half_height=0.6 * size)
    return builder


def _add_walls(builder: ModelBuilder, half: float, height: float) -> None:
    """Add four static walls of 0.1 m around a square of two halves [m]."""
    thick = 0.05
    for sign in (-1.0, 1.0):
        place = sign * (half + thick)
        builder.add_shape_box(
            -1, pos=(place, 0.0, 0.5 * height), hx=thick, hy=half + 2 * thick, hz=0.5 * height
        )
        builder.add_shape_box(-1, pos=(0.0, place, 0.5 * height), hx=half, hy=thick, hz=0.5 * height)


def tower(masses: Sequence[float]) -> ModelBuilder:
    """Cubes of 0.2 m, one on the other, with friction 0.5.

    Args:
        masses: Of the cubes [kg], the lowest first.
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    half = 0.1
    for i, mass in enumerate(masses):
        add_box(builder, (0.0, 0.0, half * (2 * i + 1)), (half, half, half), mass=mass)
    return builder
