"""What stands by friction and weight alone: pyramid, wall, stacks, card house and arch."""

import math

import numpy as np

from newtonsim import ModelBuilder
from newtonsim.examples.scenes.parts import about, add_box, new_scene, prism


def box_pyramid(gap: float = 0.02) -> ModelBuilder:
    """Pyramid of 100 cubes in five layers of 8 x 5, 7 x 4, 6 x 3, 5 x 2 and 4 x 1, each cube on four others.

    Cubes of 0.2 m and 8 kg lie face on face, with friction 0.5.

    Args:
        gap: Distance between the cubes of a layer [m].
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    half, pitch = 0.1, 0.2 + gap
    for layer in range(5):
        rows, columns = 5 - layer, 8 - layer
        for i, j in np.ndindex(columns, rows):
            x, y = pitch * (i - 0.5 * (columns - 1)), pitch * (j - 0.5 * (rows - 1))
            add_box(builder, (x, y, half + 2.0 * half * layer), (half, half, half), mass=8.0)
    return builder


def box_wall(rows: int = 13, gap: float = 0.02) -> ModelBuilder:
    """Wall of cubes of which each row has one less than the one below, down to a single cube.

    The heaviest load in it is borne by far fewer cubes than in a pyramid. Cubes as in `box_pyramid`.

    Args:
        rows: Number of rows; 13 make 91 cubes.
        gap: Distance between the cubes of a row [m].
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    half, pitch = 0.1, 0.2 + gap
    for row in range(rows):
        count = rows - row
        for i in range(count):
            x = pitch * (i - 0.5 * (count - 1))
            add_box(builder, (x, 0.0, half + 2.0 * half * row), (half, half, half), mass=8.0)
    return builder


def box_stack(count: int = 10, ratio: float = 100.0) -> ModelBuilder:
    """Tower of cubes of 0.2 m whose masses change in equal ratios.

    Args:
        count: Number of cubes.
        ratio: Mass of the lowest cube over that of the highest; the lighter of the two has 1 kg. Below 1
            the heavy cubes lie on the light ones.
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    half = 0.1
    masses = ratio ** np.linspace(1.0, 0.0, count)
    masses /= masses.min()
    for i, mass in enumerate(masses):
        add_box(builder, (0.0, 0.0, half * (2 * i + 1)), (half, half, half), mass=float(mass))
    return builder


CARD = (0.15, 0.1, 0.003)
"""Half extents [m] of a card: length, width and thickness."""


def card_house(lean: float = math.radians(15.0), friction: float = 0.5) -> ModelBuilder:
    """House of six cards: two pairs that lean against each other, and two cards flat on top of both.

    The cards are boards of 300 x 200 x 6 mm and 0.18 kg. A pair that leans by an angle a,
    where each card weighs W and bears P, stands if the friction exceeds tan(a) (W / 2 + P) / (W + P): here
    about 0.18.

    Args:
        lean: Angle [rad] of the leaning cards with the vertical.
        friction: Coefficient of friction.
    """
    builder = new_scene(friction)
    builder.set_ground_plane()
    length, _, thick = CARD
    mass = 500.0 * 8.0 * math.prod(CARD)
    # the lowest edge of a leaning card is on the ground, its innermost edge in the middle plane of the pair
    aside = length * math.sin(lean) + thick * math.cos(lean)
    height = length * math.cos(lean) + thick * math.sin(lean)
    for middle in (-0.125, 0.125):
        for side in (-1.0, 1.0):
            rotation = about((0.0, 1.0, 0.0), -(math.pi / 2.0 + side * lean))
            add_box(builder, (middle + side * aside, 0.0, height), CARD, mass, rotation)
    for layer in range(2):
        add_box(builder, (0.0, 0.0, 2.0 * height + thick * (2 * layer + 1)), CARD, mass)
    return builder


def arch(
    stones: int = 7, radius: float = 0.5, thickness: float = 0.15, friction: float = 0.5
) -> ModelBuilder:
    """Semicircular arch of wedge-shaped stones that stand on the ground and hold by friction alone.

    Each stone collides as the convex hull of its mesh. With seven stones and a thickness of 0.3 radii it
    stands if the friction exceeds 0.30, by limit analysis (J. Heyman, The Stone Skeleton, 1995).

    Args:
        stones: Number of stones.
        radius: Radius of the arch's middle line [m].
        thickness: Depth of the ring [m].
        friction: Coefficient of friction.
    """
    builder = new_scene(friction)
    builder.set_ground_plane()
    builder.default_shape_density = 2000.0
    width = 0.1
    step = math.pi / stones
    inner, outer = radius - 0.5 * thickness, radius + 0.5 * thickness
    for k in range(stones):
        angles = math.pi - step * np.array([k, k + 1])  # from the x axis
        ray = np.column_stack([np.cos(angles), np.sin(angles)])
        outline = np.array([inner * ray[0], inner * ray[1], outer * ray[1], outer * ray[0]])
        centre = outline.mean(axis=0)
        # the prism's height is along its z: turn the cross-section from x-y to x-z
        stone = prism(outline - centre, -width, width)
        body = builder.add_body(origin=(centre[0], 0.0, centre[1], *about((1.0, 0.0, 0.0), math.pi / 2.0)))
        builder.add_shape_mesh(body, mesh=stone, key=f"stone_{k}")
    return builder
