"""Shapes as geoms, with their meshes, height fields and contact bits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.meshes import MeshFolder, file_name, thickened, triangles_of
from newtonsim.importers.writers.mjcf.file_parts import spec_attributes
from newtonsim.importers.writers.names import Names, xml_name
from newtonsim.importers.writers.records import ContactPairRecord, Scene, ShapeRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.touch import ANY, Kinds, kinds_of, neighbours, touch_table
from newtonsim.importers.writers.xml_text import element, number, numbers
from newtonsim.scene.enums import GeoType

Z_TO_Y = Pose(np.zeros(3), np.array([-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]))
"""Turns MuJoCo's long axis z, in a shape of the model, whose long axis is y."""

_MAX_BITS = 30
"""Bits for kinds of shapes, beside the one for geoms of other files."""

_LEAST_HEIGHT = 1.0e-6
_HIDDEN_GROUP = "3"
_ROUND = {GeoType.CAPSULE: "capsule", GeoType.CYLINDER: "cylinder"}


class GeomWriter:
    """Writes geoms and the assets that they need.

    Args:
        scene: The scene.
        path: The file, for the folder of meshes.
        asset: The section <asset>.
        report: Receives names and remarks.
        given: Attributes of MjSpec by shape that the file says besides.
    """

    def __init__(
        self,
        scene: Scene,
        path: Path,
        asset: ElementTree.Element,
        report: ExportReport,
        given: Mapping[int, Mapping[str, Any]],
    ):
        self.given = given
        self.scene, self.asset, self.report = scene, asset, report
        self.names = Names(xml_name)
        self.meshes = MeshFolder(path, Names(file_name), report)
        self._fields: dict[tuple, str] = {}
        self._assets: set[str] = set()
        self.name_of: dict[int, str] = {}
        self.table = touch_table(scene)
        self.near = neighbours(scene)
        self.excluded: list[tuple[int, int]] = []
        self.kinds = self._kinds()
        self.alike = sorted(
            {int(self.kinds.of_shape[shape.row]) for shape in scene.shapes if shape.is_collider}
        )
        sizes = np.bincount(self.kinds.of_shape, minlength=len(self.kinds.touch))
        largest = sorted(self.alike, key=lambda kind: -sizes[kind])[:_MAX_BITS]
        self.bits = {kind: bit for bit, kind in enumerate(sorted(largest), start=1)}

    # -- contacts --------------------------------------------------------------------------------------------

    def _kinds(self) -> Kinds:
        """Sort the shapes into kinds for the contact bits; pairs of bodies are excluded if that is needed."""
        table = self.table.copy()
        table[self.near & (table == 0)] = ANY  # MuJoCo keeps parent and child apart by itself
        kinds = kinds_of(table)
        if len(kinds.touch) > _MAX_BITS:
            self._exclude_bodies(table)
            kinds = kinds_of(table)
        return kinds

    def _exclude_bodies(self, table: np.ndarray) -> None:
        """Take the pairs of bodies out of the table of which no shapes touch."""
        body = np.array([shape.body for shape in self.scene.shapes])
        known, place = np.unique(body, return_inverse=True)
        least, most = np.full((2, len(known), len(known)), 2)
        np.minimum.at(least, (place[:, None], place), np.where(table == ANY, 2, table))
        most[:] = -1
        np.maximum.at(most, (place[:, None], place), table)
        for a, b in np.argwhere(np.triu((least == 0) & (most == 0), 1)):
            if known[a] >= 0:
                self.excluded.append((int(known[a]), int(known[b])))
                inside = place == a, place == b
                table[np.ix_(*inside)] = table[np.ix_(*inside[::-1])] = ANY

    def _bits(self, shape: ShapeRecord) -> tuple[int, int]:
        """Contact bits (contype, conaffinity) of a shape."""
        if not shape.is_collider:
            return 0, 0
        touch = self.kinds.touch
        kind = int(self.kinds.of_shape[shape.row])
        if len(self.alike) == 1:
            return 1, int(touch[kind, kind] != 0)
        # bit 0 is for geoms of other files, which offer it unless told otherwise
        answers = sum(1 << bit for k, bit in self.bits.items() if touch[kind, k] == 1)
        return 1 << self.bits[kind] if kind in self.bits else 0, answers | 1

    def _named_pairs(self) -> np.ndarray:
        """Pairs of shapes that touch, but not by bits (n, 2): parent and child, and kinds without a bit."""
        bitless = ~np.isin(self.kinds.of_shape, list(self.bits)) if len(self.alike) > 1 else np.zeros(1, bool)
        return np.argwhere(np.triu((self.table == 1) & (self.near | (bitless[:, None] & bitless)), 1))

    def write_contacts(self, contact: ElementTree.Element, body_names: dict[int, str]) -> None:
        """Write the excluded pairs of bodies, and the pairs that touch although MuJoCo would not let them."""
        for first, second in self.excluded:
            element(contact, "exclude", body1=body_names[first], body2=body_names[second])
        own = set()
        for pair in self.scene.contact_pairs:
            a, b = sorted(pair.shapes)
            if self.table[a, b] == 1 and (a, b) not in own:
                own.add((a, b))
                element(contact, "pair", _pair_attributes(pair, self.name_of[a], self.name_of[b]))
        for a, b in self._named_pairs().tolist():
            if (a, b) not in own:
                what = "touches by a <pair>, to which MuJoCo gives its default friction, softness and margin"
                self.report.approximated(f"{self.name_of[a]} and {self.name_of[b]}", what)
                element(contact, "pair", geom1=self.name_of[a], geom2=self.name_of[b])

    # -- geoms -----------------------------------------------------------------------------------------------

    def write(self, parent: ElementTree.Element, shape: ShapeRecord) -> None:
        """Write one shape into its body."""
        form = self._form(shape)
        if form is None:
            self.report.unsupported(shape.key, f"a shape of type {shape.kind.name} without a known mesh")
            return
        attributes, frame = form
        name = self.name_of[shape.row] = self.names.unique(shape.key)
        self.report.shapes[shape.index] = [name]
        attributes = {"name": name, **attributes, **pose_attributes(shape.pose @ frame)}
        contype, conaffinity = self._bits(shape)
        if (contype, conaffinity) != (1, 1):
            attributes |= {"contype": str(contype), "conaffinity": str(conaffinity)}
        if shape.is_collider:
            attributes |= _friction(shape)
            if shape.material["thickness"] > 0.0:
                attributes["margin"] = number(shape.material["thickness"])
        attributes |= _solver(shape)
        if not shape.visible:
            attributes["group"] = _HIDDEN_GROUP
        if shape.color is not None:
            attributes["rgba"] = numbers(shape.color)
        if shape.is_textured:
            self.report.ignored(name, "the texture is left out")
        attributes |= spec_attributes(self.given.get(shape.index, {}), name, self.report)
        element(parent, "geom", attributes)

    def _form(self, shape: ShapeRecord) -> tuple[dict[str, str], Pose] | None:
        """Type and size of a geom, and its frame in that of the shape; None if MJCF has nothing like it."""
        kind, scale = shape.kind, shape.scale
        if kind == GeoType.SPHERE:
            return {"type": "sphere", "size": number(scale[0])}, Pose.identity()
        if kind == GeoType.BOX:
            return {"type": "box", "size": numbers(scale)}, Pose.identity()
        if kind == GeoType.ELLIPSOID:
            return {"type": "ellipsoid", "size": numbers(scale)}, Pose.identity()
        if kind in _ROUND:
            return {"type": _ROUND[kind], "size": numbers(scale[:2])}, Z_TO_Y
        if kind == GeoType.PLANE:
            if scale[:2].any():
                self.report.approximated(shape.key, "a bounded plane becomes infinite")
            return {"type": "plane", "size": numbers([*(0.5 * scale[:2]), 1.0])}, Z_TO_Y
        if kind == GeoType.HFIELD and scale[1] > 0.0:
            return self._field(shape)
        return self._mesh(shape)

    def _mesh(self, shape: ShapeRecord) -> tuple[dict[str, str], Pose] | None:
        triangles = triangles_of(shape)
        if triangles is None:
            return None
        if shape.kind != GeoType.MESH:
            self.report.approximated(shape.key, f"a shape of type {shape.kind.name} becomes a mesh")
        sheets = thickened(*triangles) if shape.is_collider else None
        if sheets is not None:
            self.report.approximated(shape.key, "MuJoCo has no flat hulls: a flat mesh becomes a thin one")
        name = self.meshes.add(shape, *(sheets or triangles))
        if name not in self._assets:
            self._assets.add(name)
            attributes = {"name": name, "file": self.meshes.reference(name)}
            if shape.kind != GeoType.CONE and not getattr(shape.source, "is_closed", True):
                attributes["inertia"] = "shell"  # MuJoCo refuses meshes without volume otherwise
            element(self.asset, "mesh", attributes)
        if shape.kind == GeoType.MESH and shape.collides and self._keeps_hollows(shape):
            self.report.approximated(shape.key, "MuJoCo collides with the convex hull of a mesh")
        return {"type": "mesh", "mesh": name}, Pose.identity()

    def _keeps_hollows(self, shape: ShapeRecord) -> bool:
        """Whether the mesh collides as the surface that it is."""
        return shape.convex == 0 or (shape.convex < 0 and self.scene.rigid[shape.row] < 0)

    def _field(self, shape: ShapeRecord) -> tuple[dict[str, str], Pose]:
        """A height field, whose lowest point MuJoCo puts at zero."""
        heights = shape.source.heights.astype(np.float64) * shape.scale[1]
        # mirrored fields run the other way
        heights = heights[:: 1 if shape.scale[2] > 0.0 else -1, :: 1 if shape.scale[0] > 0.0 else -1]
        low, high = float(heights.min()), float(heights.max())
        half = 0.5 * np.abs(np.array(shape.source.size) * shape.scale[[0, 2]])
        key = (id(shape.source), *shape.scale.tolist())
        if key not in self._fields:
            name = self._fields[key] = self.meshes.names.unique(shape.key)
            size = [*half, max(high - low, _LEAST_HEIGHT), _LEAST_HEIGHT]
            data = (heights - low) / max(high - low, _LEAST_HEIGHT)
            rows, columns = (str(n) for n in heights.shape)
            attributes = {"name": name, "nrow": rows, "ncol": columns, "size": numbers(size)}
            element(self.asset, "hfield", attributes, elevation=numbers(data))
        frame = Pose(np.array([0.0, low, 0.0]), Pose.identity().q) @ Z_TO_Y
        return {"type": "hfield", "hfield": self._fields[key]}, frame


def _friction(shape: ShapeRecord) -> dict[str, str]:
    material, spin = shape.material, shape.spin_friction
    own = (material["mu_torsion"], material["mu_rolling"])
    values, attributes = [material["mu"]], {}
    if (spin >= 0.0).all():
        values += [own[0] or spin[0], own[1] or spin[1]]
    elif own[1] > 0.0:
        values += own
    elif own[0] > 0.0:
        values.append(own[0])
    if any(own):
        attributes["condim"] = "6" if own[1] > 0.0 else "4"
    return {"friction": numbers(values), **attributes}


def _solver(shape: ShapeRecord) -> dict[str, str]:
    """Parameters of MuJoCo's constraint solver that are not those that it takes anyway."""
    attributes = {}
    if shape.solref.any():
        attributes |= {"solref": numbers(shape.solref), "solimp": numbers(shape.solimp)}
    material = shape.material
    if material["solmix"] != 1.0:
        attributes["solmix"] = number(material["solmix"])
    if material["priority"] != 0.0:
        attributes["priority"] = str(int(material["priority"]))
    if material["condim"] == 1.0:
        attributes["condim"] = "1"
    return attributes


def _pair_attributes(pair: ContactPairRecord, first: str, second: str) -> dict[str, str]:
    """Attributes of a pair with parameters of its own."""
    slide, spin, roll = pair.friction
    condim = 6 if roll > 0.0 else 4 if spin > 0.0 else 3 if slide > 0.0 else 1
    attributes = {"geom1": first, "geom2": second, "condim": str(condim)}
    attributes["friction"] = numbers([slide, slide, spin, roll, roll])
    if pair.solref.any():
        attributes |= {"solref": numbers(pair.solref), "solimp": numbers(pair.solimp)}
    return attributes


def pose_attributes(pose: Pose) -> dict[str, str]:
    """Return pos and quat of an element, without what is identity."""
    attributes = {}
    if pose.p.any():
        attributes["pos"] = numbers(pose.p)
    if pose.q[:3].any():
        attributes["quat"] = numbers([pose.q[3], *pose.q[:3]])
    return attributes
