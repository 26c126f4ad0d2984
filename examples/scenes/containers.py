"""Bodies in containers and on terrain: a ball pit, a bolt in a box, a humanoid on hills."""

import math

import numpy as np

from newtonsim import Heightfield, Mesh, ModelBuilder
from newtonsim.examples.assets import asset_path
from newtonsim.examples.scenes.parts import (
    UPRIGHT_FIELD,
    about,
    new_scene,
    prism,
    regular_polygon,
    turned_rings,
)
from newtonsim.geometry.transforms import quat_multiply

BALL_PIT_WIDTH = 1.2
"""Inner width [m] of the container of the ball pit, along x and y."""


def ball_pit(count: int = 500, seed: int = 0) -> ModelBuilder:
    """Spheres, boxes, capsules, cylinders, cones, ellipsoids and hulls that fall into an open box.

    They start turned at random on a grid inside the box, at rest and clear of each other, and differ in size
    by a factor of 1.5. Density 500 kg/m^3, friction 0.5, no restitution.

    Args:
        count: Number of bodies.
        seed: Of sizes and orientations.
    """
    builder = new_scene(friction=0.5)
    builder.default_shape_density = 500.0
    rng = np.random.default_rng(seed)
    side, pitch = 8, BALL_PIT_WIDTH / 8.0
    _add_container(builder, BALL_PIT_WIDTH / 2.0, height=pitch * (math.ceil(count / side**2) + 2))
    gem = prism(regular_polygon(5, 1.0), -0.8, 0.8)
    for i in range(count):
        layer, row, column = i // side**2, i // side % side, i % side
        place = pitch * (np.array([column, row, layer]) + 0.5) - [BALL_PIT_WIDTH / 2, BALL_PIT_WIDTH / 2, 0]
        rotation = rng.normal(size=4)
        body = builder.add_body(origin=(*place, *(rotation / np.linalg.norm(rotation))))
        _add_mixed_shape(builder, body, i % 7, 0.04 * rng.uniform(1.0, 1.5), gem)
    return builder


def _add_mixed_shape(builder: ModelBuilder, body: int, kind: int, size: float, gem: Mesh) -> None:
    """Add one of seven kinds of shape; `size` [m] is about its mean radius, and it fits into 1.2 sizes."""
    if kind == 0:
        builder.add_shape_sphere(body, radius=size)
    elif kind == 1:
        builder.add_shape_box(body, hx=0.8 * size, hy=0.6 * size, hz=0.6 * size)
    elif kind == 2:
        builder.add_shape_capsule(body, radius=0.6 * size, half_height=0.6 * size)
    elif kind == 3:
        builder.add_shape_cylinder(body, radius=0.8 * size, half_height=0.7 * size)
    elif kind == 4:
        builder.add_shape_cone(body, radius=0.9 * size, half_height=0.75 * size)
    elif kind == 5:
        builder.add_shape_ellipsoid(body, a=1.1 * size, b=0.8 * size, c=0.6 * size)
    else:
        builder.add_shape_mesh(body, mesh=gem, scale=(0.8 * size, 0.8 * size, 0.8 * size))


def _add_container(builder: ModelBuilder, half: float, height: float) -> None:
    """Add a floor at z = 0 and four walls around it, static boxes of 0.1 m."""
    thick = 0.05
    builder.add_shape_box(
        -1, pos=(0.0, 0.0, -thick), hx=half + 2 * thick, hy=half + 2 * thick, hz=thick, key="floor"
    )
    for sign in (-1.0, 1.0):
        place = sign * (half + thick)
        builder.add_shape_box(
            -1, pos=(place, 0.0, 0.5 * height), hx=thick, hy=half + 2 * thick, hz=0.5 * height, key="wall"
        )
        builder.add_shape_box(
            -1, pos=(0.0, place, 0.5 * height), hx=half, hy=thick, hz=0.5 * height, key="wall"
        )


def bolt_mesh() -> Mesh:
    """Return a bolt along z: a hexagonal head of 60 mm at z = 0 to 24 mm, a shaft of 30 mm up to 120 mm."""
    angle = np.arange(12) * (math.tau / 12)
    # a hexagon with the middles of its sides as further corners, to join with the twelve of the shaft
    radius = np.where(np.arange(12) % 2 == 0, 0.03, 0.03 * math.cos(math.pi / 6.0))
    head = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    shaft = regular_polygon(12, 0.015)
    return turned_rings([(head, 0.0), (head, 0.024), (shaft, 0.024), (shaft, 0.12)])


def open_box_mesh(half: float = 0.12, height: float = 0.1, wall: float = 0.01) -> Mesh:
    """Return an open box as one closed concave mesh, its floor's upper side at z = 0.

    Args:
        half: Half of the inner width [m] along x and y.
        height: Inner height [m].
        wall: Thickness of walls and floor [m].
    """
    inner, outer = (
        regular_polygon(4, half * math.sqrt(2.0)),
        regular_polygon(4, (half + wall) * math.sqrt(2.0)),
    )
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / math.sqrt(2.0)
    inner, outer = inner @ turn, outer @ turn
    return turned_rings([(outer, -wall), (outer, height), (inner, height), (inner, 0.0)])


def bolt_in_box(convex: bool = True, height: float = 0.06) -> ModelBuilder:
    """Bolt that falls askew into a static mesh box and comes to lie there.

    Args:
        convex: Whether the bolt collides as its convex hull or as the concave mesh it is. The box always is
            concave.
        height: Height [m] of its centre of mass above the floor of the box at the start.
    """
    builder = new_scene(friction=0.5)
    builder.add_shape_mesh(-1, mesh=open_box_mesh(), key="box", convex=False)
    # turned about its axis as well, or it would balance on a corner of its head until rounding tips it over
    rotation = quat_multiply(about((0.0, 1.0, 0.0), math.radians(75.0)), about((0.0, 0.0, 1.0), 0.35))
    bolt = builder.add_body(origin=(-0.03, 0.02, height, *rotation), key="bolt")
    builder.add_shape_mesh(
        bolt, pos=(0.0, 0.0, -0.05), mesh=bolt_mesh(), density=7800.0, convex=convex, key="bolt"
    )
    return builder


def hills(size: float = 4.0, cells: int = 60, height: float = 0.05) -> Heightfield:
    """Return smooth hills as a height field.

    Args:
        size: Width and length [m].
        cells: Cells along each side.
        height: Greatest height above and below zero [m].
    """
    x = np.linspace(-0.5, 0.5, cells + 1) * size
    across, along = np.meshgrid(x, x)
    waves = np.sin(4.1 * across + 0.4) * np.cos(3.3 * along) + np.sin(2.3 * across - 1.7 * along + 1.0)
    return Heightfield(0.5 * height * waves, (size, size))


def humanoid_on_terrain(height: float = 0.35) -> ModelBuilder:
    """Limp humanoid that falls on its back on hills; friction 1.

    Args:
        height: Height [m] of its trunk above the mean of the terrain at the start.
    """
    from newtonsim.importers import parse_mjcf

    builder = new_scene(friction=1.0)
    builder.add_shape_heightfield(-1, rot=UPRIGHT_FIELD, heightfield=hills(), key="hills")
    lying = ((0.0, 0.0, height), about((0.0, 1.0, 0.0), -math.pi / 2.0))
    parse_mjcf(
        asset_path("humanoid.xml"),
        builder,
        xform=lying,
        floating=None,
        contact_restitution=0.0,
        ignore_inertial_definitions=False,
    )
    return builder
