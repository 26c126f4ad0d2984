"""What passes a push on: a row of dominoes and Newton's cradle."""

import numpy as np

from newtonsim import ModelBuilder
from newtonsim.examples.scenes.parts import add_box, new_scene

DOMINO = (0.015, 0.05, 0.1)
"""Half extents [m] of a domino: thickness, width and height."""

CRADLE_LENGTH = 0.5
"""Distance [m] from the hinges of the cradle to the centres of its balls."""


def domino_row(count: int = 50, spacing: float = 0.1, push: float = 2.0) -> ModelBuilder:
    """Row of dominoes of 30 x 100 x 200 mm along x, of which the first falls towards the second.

    Args:
        count: Number of dominoes.
        spacing: Distance from one to the next [m].
        push: Angular velocity of the first about its foot at the start [rad/s]; 1.27 is needed to
            tip it over.
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    thick, _, tall = DOMINO
    mass = 600.0 * 8.0 * float(np.prod(DOMINO))
    for i in range(count):
        add_box(builder, (spacing * i, 0.0, tall), DOMINO, mass)
    # it turns about its front edge: the centre of mass moves along the arc
    builder.body_qd[0] = (0.0, push, 0.0, push * tall, 0.0, push * thick)
    return builder


def newtons_cradle(count: int = 5, raised: int = 1, angle: float = 0.5, gap: float = 0.0) -> ModelBuilder:
    """Steel balls of 50 mm that hang side by side on rods without mass and rebound fully, without friction.

    Args:
        count: Number of balls.
        raised: How many of them are pulled aside, towards -x.
        angle: By how much [rad].
        gap: Distance between the hanging balls [m].
    """
    builder = new_scene(friction=0.0, restitution=1.0)
    radius = 0.025
    height = CRADLE_LENGTH + 2.0 * radius
    for i in range(count):
        x = (2.0 * radius + gap) * i
        ball = builder.add_body(origin=(x, 0.0, height - CRADLE_LENGTH, 0.0, 0.0, 0.0, 1.0), key=f"ball_{i}")
        builder.add_shape_sphere(ball, radius=radius, density=7800.0)
        builder.add_joint_revolute(
            -1,
            ball,
            parent_xform=((x, 0.0, height), (0.0, 0.0, 0.0, 1.0)),
            child_xform=((0.0, 0.0, CRADLE_LENGTH), (0.0, 0.0, 0.0, 1.0)),
            axis=(0.0, 1.0, 0.0),
            armature=0.0,
            key=f"rod_{i}",
        )
        builder.joint_q[-1] = angle if i < raised else 0.0
        _add_rod(builder, ball)
    return builder


def _add_rod(builder: ModelBuilder, ball: int) -> None:
    """Add what shows the rod of a ball; it has no mass and touches nothing."""
    builder.add_shape_capsule(
        ball,
        pos=(0.0, 0.0, 0.5 * CRADLE_LENGTH),
        radius=0.002,
        half_height=0.5 * CRADLE_LENGTH,
        up_axis=2,
        density=0.0,
        has_shape_collision=False,
        has_ground_collision=False,
    )
