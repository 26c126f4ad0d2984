"""Shapes of links in formats that give primitives along z and mesh files: URDF and SDFormat."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.geometry import Heightfield, Mesh
from newtonsim.geometry.transforms import quat_between, quat_multiply
from newtonsim.importers.files.arguments import ContactSettings
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry import massprops
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.meshes import MeshLibrary, Surface, convex_hull
from newtonsim.importers.geometry.pose import Pose

_Y_TO_Z = np.array([np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])


@dataclass(slots=True)
class Material:
    """Colour (rgba) and texture file of a visual."""

    rgba: tuple[float, ...] | None = None
    texture: str | None = None


@dataclass(slots=True)
class Geometry:
    """One shape of a link.

    Attributes:
        kind: "box", "sphere", "cylinder", "capsule", "cone", "ellipsoid", "mesh", "plane" or "heightmap".
        size: Half extents of a box or ellipsoid (3,), (radius,) of a sphere, (radius, half height), scale of
            a mesh (3,), normal of a plane (3,), or extent (x, y) of a height map.
        pose: Pose in the link frame.
        node: The element that errors name.
        name: Name in the file.
        mesh: Mesh file.
        heights: Heights of a height map (rows, columns) [m], first row at the largest y.
        material: Looks.
    """

    kind: str
    size: np.ndarray
    pose: Pose
    node: Node
    name: str | None = None
    mesh: Path | None = None
    heights: np.ndarray | None = None
    material: Material = field(default_factory=Material)


class ShapeMaker:
    """Adds shapes to a builder and computes their mass; each mesh file is loaded once.

    Args:
        builder: Receives the shapes.
        contact: Contact material where a file says nothing.
        scale: Factor on all lengths.
        density: Density for masses [kg/m^3].
        merge_objects: Whether a moving Wavefront mesh collides as one hull around all of its objects, not as
            a hull around each: files of convex decompositions have one object for each part.
        report: Receives remarks.
    """

    def __init__(
        self,
        builder: ModelBuilder,
        contact: ContactSettings,
        scale: float,
        density: float,
        merge_objects: bool,
        report: ImportReport,
    ):
        self.builder, self.contact, self.report = builder, contact, report
        self.merge_objects = merge_objects
        self.scale, self.density = scale, density
        self.library = MeshLibrary()
        self.meshes: dict[tuple[int, bool], Mesh] = {}

    def mass(self, shape: Geometry, density: float | None = None) -> MassProps:
        """Mass properties of a shape in the link frame; nothing for planes and height maps."""
        density = self.density if density is None else density
        size = shape.size * self.scale
        if shape.kind == "box":
            props = massprops.box(size, density)
        elif shape.kind == "sphere":
            props = massprops.sphere(size[0], density)
        elif shape.kind == "ellipsoid":
            props = massprops.ellipsoid(size, density)
        elif shape.kind in ("cylinder", "capsule", "cone"):
            props = getattr(massprops, shape.kind)(size[0], size[1], density)
        elif shape.kind in ("plane", "heightmap"):
            return MassProps.zero()
        else:
            surface = self.library.load(shape.mesh, shape.node, size)
            vertices, faces = surface.vertices, surface.faces
            if not massprops.is_closed(faces):
                self.report.approximated(shape.node, "the mesh is not closed; its convex hull gives the mass")
                vertices, faces = convex_hull(vertices, shape.node)
            props = massprops.mesh(vertices, faces, density)
        return props.moved(shape.pose.scaled(self.scale))

    def add(
        self,
        shape: Geometry,
        body: int,
        frame: Pose,
        key: str,
        collides: bool,
        visible: bool,
        **material: float,
    ) -> list[int]:
        """Add a shape; a mesh file of several objects that collides as hulls gives one for each object.

        Args:
            shape: The shape.
            body: Body of the builder, -1 for the world.
            frame: Pose of the link frame in that body or in the world.
            key: Name of the shape.
            collides: Whether it takes part in contacts.
            visible: Whether it is drawn.
            **material: Arguments of `add_shape_*` that the file gives.

        Returns:
            The indices of what was added to the builder.
        """
        builder, size = self.builder, shape.size * self.scale
        pose = frame @ shape.pose.scaled(self.scale)
        arguments = {
            "body": body,
            "pos": pose.p,
            "rot": pose.q,
            "has_ground_collision": collides and body >= 0,
            "has_shape_collision": collides,
            "is_visible": visible,
            "key": key,
            **self.contact.arguments(),
            **material,
        }
        if shape.kind == "plane":
            turn = quat_multiply(pose.q, quat_between((0.0, 1.0, 0.0), shape.size))
            arguments.update(rot=turn, has_ground_collision=False)
            indices = [builder.add_shape_plane(width=0.0, length=0.0, **arguments)]
        elif shape.kind == "mesh":
            indices = self._add_meshes(shape, size, {**arguments, "density": 0.0})
        else:
            indices = [self._add_solid(shape, size, {**arguments, "density": 0.0})]
        for index in indices:
            builder.shape_color[index] = shape.material.rgba
            builder.shape_texture[index] = shape.material.texture
        return indices

    def _add_solid(self, shape: Geometry, size: np.ndarray, arguments: dict) -> int:
        builder = self.builder
        if shape.kind == "box":
            return builder.add_shape_box(hx=size[0], hy=size[1], hz=size[2], **arguments)
        if shape.kind == "sphere":
            return builder.add_shape_sphere(radius=size[0], **arguments)
        if shape.kind == "ellipsoid":
            return builder.add_shape_ellipsoid(a=size[0], b=size[1], c=size[2], **arguments)
        if shape.kind in ("cylinder", "capsule", "cone"):
            add = getattr(builder, f"add_shape_{shape.kind}")
            return add(radius=size[0], half_height=size[1], up_axis=2, **arguments)
        arguments["rot"] = quat_multiply(arguments["rot"], _Y_TO_Z)
        field_ = Heightfield(shape.heights * self.scale, (float(size[0]), float(size[1])))
        return builder.add_shape_heightfield(heightfield=field_, **arguments)

    def _add_meshes(self, shape: Geometry, size: np.ndarray, arguments: dict) -> list[int]:
        is_hull = arguments["has_shape_collision"] and arguments["body"] >= 0
        if not is_hull or self.merge_objects:
            return [self._add_mesh(shape, self.library.load(shape.mesh, shape.node, size), arguments)]
        surfaces = self.library.load_objects(shape.mesh, shape.node, size)
        key = arguments["key"]
        names = [key] if len(surfaces) == 1 else [f"{key}_{number}" for number in range(len(surfaces))]
        return [
            self._add_mesh(shape, surface, {**arguments, "key": name})
            for surface, name in zip(surfaces, names)
        ]

    def _add_mesh(self, shape: Geometry, surface: Surface, arguments: dict) -> int:
        painted = arguments["is_visible"] and shape.material.texture is None and surface.is_textured
        key = (id(surface), painted)  # the library keeps `surface`, so its id stays its own
        mesh = self.meshes.get(key)
        if mesh is None:
            mesh = self.meshes[key] = surface.mesh(painted)
        return self.builder.add_shape_mesh(mesh=mesh, **arguments)
