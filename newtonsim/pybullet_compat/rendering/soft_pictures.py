"""Soft bodies as cameras see them: a mesh for each world, whose points follow the body."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from newtonsim.render.camera.meshes import CameraMesh
from newtonsim.render.camera.scene import CameraInstance, CameraScene
from newtonsim.scene.enums import GeoType

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.soft_bodies.world import SoftBody
    from newtonsim.pybullet_compat.world.client import Client

WHITE = np.ones(4)


class SoftSight:
    """One soft body.

    Attributes:
        uid: Body unique id.
        body: The soft body.
        instances: What cameras see of it, one for each world and invisible in the others.
    """

    def __init__(self, uid: int, body: SoftBody):
        self.uid, self.body = uid, body
        faces = np.asarray(body.shown.faces, np.int32)
        self.instances = [
            CameraInstance(GeoType.MESH, mesh=CameraMesh(points, faces), label=uid)
            for points in body.shown_points()
        ]

    def paint(self, rgba: np.ndarray, texture: int, double_sided: bool) -> None:
        """Set the appearance of all instances; `rgba` is (4,) or (num_worlds, 4)."""
        worlds = len(self.instances)
        colors = np.broadcast_to(rgba, (worlds, 4))
        for world, instance in enumerate(self.instances):
            own = np.zeros((worlds, 4))
            own[world] = colors[world]
            instance.rgba, instance.texture, instance.double_sided = own, texture, double_sided

    def follow(self, scene: CameraScene, first: int) -> None:
        """Move the points of the instances, which are those of the scene from `first` on."""
        for world, points in enumerate(self.body.shown_points()):
            scene.deform(first + world, points)


def soft_sights(client: Client) -> list[SoftSight]:
    """Return all soft bodies of a client."""
    return [SoftSight(uid, cast("SoftBody", body)) for uid, body in client.soft_bodies.items()]
