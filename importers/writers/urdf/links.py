"""Links: inertials, visuals and collisions."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.meshes import MeshFolder, file_name, triangles_of
from newtonsim.importers.writers.mjcf.geoms import Z_TO_Y
from newtonsim.importers.writers.names import Names, xml_name
from newtonsim.importers.writers.records import ShapeRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.urdf.frames import roll_pitch_yaw
from newtonsim.importers.writers.xml_text import element, number, numbers
from newtonsim.scene.enums import GeoType

_ROUND = {GeoType.CAPSULE: "capsule", GeoType.CYLINDER: "cylinder"}
_WITH_CAPSULES = "1.1"
"""Version of URDF that has capsules; its parser leaves them out of files that do not claim it."""


def write_origin(parent: ElementTree.Element, pose: Pose) -> None:
    """Write <origin>, unless it is the identity."""
    attributes = {}
    if pose.p.any():
        attributes["xyz"] = numbers(pose.p)
    if pose.q[:3].any():
        attributes["rpy"] = numbers(roll_pitch_yaw(pose.q))
    if attributes:
        element(parent, "origin", attributes)


def write_inertial(link: ElementTree.Element, props: MassProps) -> None:
    """Write mass, centre of mass and the full inertia; nothing for a link without any."""
    if props.mass <= 0.0 and not props.inertia.any():
        return
    own = element(link, "inertial")
    write_origin(own, Pose(props.com, Pose.identity().q))
    element(own, "mass", value=number(props.mass))
    xx, xy, xz, yy, yz, zz = props.inertia[np.triu_indices(3)]
    values = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
    element(own, "inertia", {name: number(value) for name, value in values.items()})


class ShapeWriter:
    """Writes visuals and collisions, with their meshes and materials."""

    def __init__(self, path: Path, root: ElementTree.Element, report: ExportReport):
        self.root, self.report = root, report
        self.names, self.materials = Names(xml_name), Names(xml_name)
        self.meshes = MeshFolder(path, Names(file_name), report)
        self._material_of: dict[tuple[float, ...], str] = {}

    def write(self, link: ElementTree.Element, shape: ShapeRecord, frame: Pose) -> None:
        """Write one shape.

        Args:
            link: Its link.
            shape: A collider becomes <collision>, with a <visual> beside it where it has a colour.
            frame: Pose of the link's frame in the body's.
        """
        form = self._form(shape)
        if form is None:
            self.report.unsupported(shape.key, f"a shape of type {shape.kind.name} without a known mesh")
            return
        tag, attributes, turn = form
        pose = frame.inverse() @ shape.pose @ turn
        name = self.names.unique(shape.key)
        self.report.shapes[shape.index] = [name]
        if shape.visible and (shape.color is not None or not shape.is_collider):
            visual = self._part(link, "visual", name, pose, tag, attributes)
            self._write_material(visual, shape)
        elif not shape.is_collider:
            self.report.ignored(name, "a shape that neither collides nor is visible is left out")
        if shape.is_collider:
            self._part(link, "collision", name, pose, tag, attributes)

    @staticmethod
    def _part(
        link: ElementTree.Element, part: str, name: str, pose: Pose, tag: str, attributes: dict[str, str]
    ) -> ElementTree.Element:
        own = element(link, part, name=name)
        write_origin(own, pose)
        element(element(own, "geometry"), tag, attributes)
        return own

    def _write_material(self, visual: ElementTree.Element, shape: ShapeRecord) -> None:
        if shape.is_textured:
            self.report.ignored(shape.key, "the texture is left out")
        if shape.color is None:
            return
        if shape.color not in self._material_of:
            name = self._material_of[shape.color] = self.materials.unique("color")
            element(element(self.root, "material", name=name), "color", rgba=numbers(shape.color))
        element(visual, "material", name=self._material_of[shape.color])

    def _form(self, shape: ShapeRecord) -> tuple[str, dict[str, str], Pose] | None:
        """Element, attributes, and frame of the geometry in that of the shape."""
        kind, scale = shape.kind, shape.scale
        if kind == GeoType.BOX:
            return "box", {"size": numbers(2.0 * scale)}, Pose.identity()
        if kind == GeoType.SPHERE:
            return "sphere", {"radius": number(scale[0])}, Pose.identity()
        if kind in _ROUND:
            if kind == GeoType.CAPSULE:
                self.root.set("version", _WITH_CAPSULES)
                self.report.ignored(
                    shape.key, f"a capsule is of URDF {_WITH_CAPSULES}; older readers refuse it"
                )
            sizes = {"radius": number(scale[0]), "length": number(2.0 * scale[1])}
            return _ROUND[kind], sizes, Z_TO_Y
        if kind == GeoType.PLANE:
            self.report.approximated(shape.key, "a plane is an extension of URDF, and has no bounds")
            return "plane", {"normal": "0 0 1"}, Z_TO_Y
        triangles = triangles_of(shape)
        if triangles is None:
            return None
        if kind != GeoType.MESH:
            self.report.approximated(shape.key, f"a shape of type {kind.name} becomes a mesh")
        name = self.meshes.add(shape, *triangles)
        return "mesh", {"filename": self.meshes.reference(name)}, Pose.identity()
