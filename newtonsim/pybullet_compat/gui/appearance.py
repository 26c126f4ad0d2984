"""Visual shapes of bodies on the page, with the colours of changeVisualShape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import transform_multiply
from newtonsim.pybullet_compat.rendering.pictures import Appearance, Pictures, instance_of, visuals_of
from newtonsim.render.shapes import ShapeTable
from newtonsim.scene.enums import GeoType

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.descriptions.description import Visual
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.engine import Engine

WIREFRAME = (0.15, 0.6, 0.35)
"""Colour of wireframes that setDebugObjectColor has not changed."""
_WIDE = 9.0
"""Flat meshes wider than this are the ground [m]."""
_Y_TO_Z = np.array([0.0, 0.0, 0.0, np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])


def shapes_as_seen(client: Client, engine: Engine) -> ShapeTable:
    """Return the visual shapes of all worlds on the bodies of an engine.

    Immovable bodies are placed in the world at their current poses, so that a drag on them rotates the
    camera. The page has no textures: shapes have the mean colour of theirs. Wide flat meshes, such as that of
    plane.urdf, are shown as infinite planes.
    """
    pictures = client.part(Pictures)
    pictures.register()
    rows: list[tuple] = []
    for uid, body in client.bodies.items():
        client.read_poses(body)
        for link, number, visual in visuals_of(body):
            appearance = pictures.appearances.get((uid, link, number), Appearance())
            color = _color(pictures, uid, visual, appearance, client.num_worlds)
            instance = instance_of(visual, body.inverse_inertial[link + 1])
            sources = visual.geometry.meshes if instance.kind == GeoType.MESH else [None]
            place, standing = link + 1, stands(body)
            kind, turn = instance.kind, np.asarray(instance.pose, float)
            if kind == GeoType.MESH and standing and _is_ground(sources):
                kind, sources, turn = GeoType.PLANE, [None], transform_multiply(turn, _Y_TO_Z)
            endless = kind == GeoType.PLANE and standing
            for world in range(client.num_worlds):
                pose, row = turn, world * len(engine.rows) + body.first_row + place
                if standing:
                    pose, row = transform_multiply(body.pose[world, place], pose), -1
                size = (0.0, 0.0, 0.0) if endless else instance.size
                name = f"{uid}:{link}"
                rows += [(kind, size, row, world, pose, color[world], mesh, name) for mesh in sources]
    kind, scale, body_row, world, pose, color, source, name = zip(*rows) if rows else [()] * 8
    return ShapeTable(
        kind=np.array(kind, np.int64),
        scale=np.array(scale, np.float64).reshape(-1, 3),
        body=np.array(body_row, np.int64),
        world=np.array(world, np.int64),
        transform=np.array(pose, np.float64).reshape(-1, 7),
        visible=np.array([rgba[3] > 0.0 for rgba in color], bool),
        color=[tuple(rgba) for rgba in color],
        source=list(source),
        key=list(name),
    )


def stands(body: Body) -> bool:
    """Whether a body is one fixed link, which only resetBasePositionAndOrientation moves."""
    return len(body.links) == 1 and not body.floating and not body.driven


def _is_ground(meshes: list) -> bool:
    """Whether a mesh is flat and wide."""
    points = np.concatenate([mesh.vertices for mesh in meshes]) if meshes else np.zeros((0, 3))
    if not len(points):
        return False
    x, y, z = np.ptp(points, axis=0)
    return min(x, y) > _WIDE and z < 1.0e-6 * x and abs(points[0, 2]) < 1.0e-6 * x


def _color(pictures: Pictures, uid: int, visual: Visual, appearance: Appearance, worlds: int) -> np.ndarray:
    """RGBA in each world (worlds, 4)."""
    rgba = np.array(visual.rgba if appearance.rgba is None else appearance.rgba, np.float64)
    number = pictures.texture_of(uid, visual) if appearance.texture is None else appearance.texture
    image = pictures.textures.number(number)
    if image >= 0:
        rgba[..., :3] *= pictures.textures.images.mean(image)[:3]
    return np.broadcast_to(np.clip(rgba, 0.0, 1.0), (worlds, 4))


def wireframe_colors(engine: Engine, colors: dict[tuple[int, int], tuple]) -> np.ndarray:
    """Return the colours of the colliders of all worlds (shapes, 3)."""
    own = np.array([colors.get(link, WIREFRAME) for link in engine.shape_link], float).reshape(-1, 3)
    found = np.tile(own, (engine.worlds, 1))
    around = np.tile(WIREFRAME, (engine.model.shape_count - len(found), 1))  # surroundings come before
    return np.concatenate([around.reshape(-1, 3), found])
