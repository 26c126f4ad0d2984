"""What ray cameras see, in arrays for kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import warp as wp

from newtonsim.kernels.camera import pictures as camera_pictures
from newtonsim.kernels.camera import scene as camera_scene
from newtonsim.kernels.camera.elements import ElementView
from newtonsim.runtime import compilation
from newtonsim.scene.enums import GeoType


class RayScene:
    """Instances of items in worlds; the rows of a world follow each other.

    Attributes:
        device: Its device.
        num_worlds: Number of worlds.
        crowd: Number of rows of the fullest world.
        view: The geometry for kernels, `newtonsim.kernels.camera.scene.TraceView`, shape (1,).
        places: Where the items are, `newtonsim.kernels.camera.scene.Place`.
        appearances: How the items look, `newtonsim.kernels.camera.scene.Appearance`.
        dress: Appearance of the items, with corners of meshes and textures,
        `newtonsim.kernels.camera.pictures.DressView`,
            shape (1,); see `wear`.
        boxes: Lower and upper corners of the boxes about the rows in the world [m], vec3, shape (rows,).
        color: RGBA of the rows, vec4, shape (rows,).

    Args:
        items: Items of each world, one row for each.
        bodies: Geometry of the items, records of `newtonsim.kernels.camera.scene.Body`.
        places: Records of `newtonsim.kernels.camera.scene.Place`.
        appearances: Records of `newtonsim.kernels.camera.scene.Appearance`.
        colors: RGBA of the rows (rows, 4).
        device: Its device.
    """

    def __init__(
        self,
        items: Sequence[np.ndarray],
        bodies: np.ndarray,
        places: np.ndarray,
        appearances: np.ndarray,
        colors: np.ndarray,
        device: wp.Device,
    ):
        self.device, self.num_worlds = device, len(items)
        counts = np.array([len(row) for row in items])
        self.crowd = int(counts.max())
        item = np.concatenate(items).astype(np.int32)
        world = np.repeat(np.arange(self.num_worlds, dtype=np.int32), counts)
        endless = (bodies["kind"] == GeoType.PLANE) & (bodies["middle"][:, ::2].min(axis=1) <= 0.0)
        planes = np.flatnonzero(endless[item])
        self.places = wp.array(places, dtype=camera_scene.Place, device=device)
        self.appearances = wp.array(appearances, dtype=camera_scene.Appearance, device=device)
        self.color = wp.array(colors, dtype=wp.vec4, device=device)
        self.boxes = tuple(wp.zeros(len(item), dtype=wp.vec3, device=device) for _ in range(2))
        self.corners = camera_scene.CornerView()
        self.wear(camera_pictures.TextureView())
        view = camera_scene.TraceView()
        view.start = wp.array(starts(counts), dtype=int, device=device)
        view.item = wp.array(item, dtype=int, device=device)
        view.body = wp.array(bodies, dtype=camera_scene.Body, device=device)
        view.color = self.color
        view.frame = wp.zeros(len(item), dtype=camera_scene.Frame, device=device)
        in_planes = np.bincount(world[planes], minlength=self.num_worlds)
        view.plane_start = wp.array(starts(in_planes), dtype=int, device=device)
        view.planes = wp.array(planes.astype(np.int32), dtype=int, device=device)
        view.world_count = self.num_worlds
        view.elements = wp.zeros(0, dtype=ElementView, device=device)
        self._view = view
        self.view = wp.array([view], dtype=camera_scene.TraceView, device=device)
        self._world = wp.array(world, dtype=int, device=device)
        self._bvh: wp.Bvh | None = None

    def place(self, body_poses: wp.array, bodies_per_world: int = 0, rebuild: bool = True) -> None:
        """Move the instances with their bodies; after the first call this can be captured into a graph.

        Args:
            body_poses: World poses of the bodies, transform, flat.
            bodies_per_world: Poses of each world if items count bodies in their world, 0 if in the model.
            rebuild: Whether the hierarchy of the instances is rebuilt rather than refitted.
        """
        if not len(self.color):
            return
        lower, upper = self.boxes
        compilation.launch(
            camera_scene.place_instances,
            dim=len(self.color),
            reads=dict(place=self.places, body_pose=body_poses, bodies_per_world=bodies_per_world),
            writes=dict(scene=self.view, lower=lower, upper=upper),
            device=self.device,
            record_tape=False,
        )
        if self._bvh is None:
            self._bvh = wp.Bvh(*self.boxes, groups=self._world)
            self._view.bvh = self._bvh.id
            self._refresh()
        elif rebuild:
            self._bvh.rebuild()
        else:
            self._bvh.refit()

    def wear(self, textures: camera_pictures.TextureView) -> None:
        """Set the images and the current corners of the meshes."""
        self._dress = camera_pictures.DressView()
        self._dress.appearance, self._dress.textures = self.appearances, textures
        self._dress.corners = self.corners
        self.dress = wp.array([self._dress], dtype=camera_pictures.DressView, device=self.device)

    def _refresh(self) -> None:
        """Copy changes of the view to the device."""
        self.view.assign(wp.array([self._view], dtype=camera_scene.TraceView, device=self.device))


def starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)


def primitive_extents(kind: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return half extents (n, 3) [m] of the boxes about primitives, zero for planes.

    Args:
        kind: GeoType (n,).
        size: Their dimensions (n, 3), see GeoType.
    """
    half = np.array(size, np.float64)
    radius, height = half[:, 0].copy(), half[:, 1].copy()
    half[kind == GeoType.PLANE] = 0.0
    half[kind == GeoType.SPHERE] = radius[kind == GeoType.SPHERE, None]
    for upright, ends in ((GeoType.CAPSULE, radius), (GeoType.CYLINDER, 0.0), (GeoType.CONE, 0.0)):
        rows = kind == upright
        half[rows] = np.stack([radius, height + ends, radius], axis=1)[rows]
    return half
