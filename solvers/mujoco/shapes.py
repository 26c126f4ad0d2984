"""Shapes of a model as geoms of an MjSpec.

Sources: MuJoCo's documentation, "XML reference", elements geom, mesh and hfield.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.geometry import Mesh
from newtonsim.geometry.transforms import quat_multiply, transform_multiply
from newtonsim.scene.enums import GeoType, ShapeFlags
from newtonsim.solvers.mujoco.filters import ContactBits
from newtonsim.solvers.mujoco.source import HostModel, Selection
from newtonsim.solvers.mujoco.spec import Names, wxyz

if TYPE_CHECKING:
    import mujoco

_Y_UP = np.array([-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])
"""Takes MuJoCo's z axis, along which it has capsules, cylinders, normals and heights, to our y axis."""
_CONE_SIDES = 32
_BASE_SHARE = 0.1
"""Thickness of the solid below a height field, as a share of its shorter side."""
_CONVEX_SHARE = 1.0e-3
"""Up to which part of its volume a mesh may lack of its hull and still count as convex."""


@dataclass
class SurfaceOptions:
    """Contact parameters that geoms get.

    Attributes:
        friction: Factor on each shape's coefficient of friction, and the torsional and rolling coefficients
            [m] of shapes that have none.
        condim: Dimensions of contacts: 1, 3, 4 or 6; 1 for shapes without friction, raised for such with
            torsional or rolling friction.
        solref: Time constant [s] and damping ratio of contacts of shapes without `shape_solref`.
        solimp: Impedance of contacts, likewise.
        skip_visual: Whether shapes that meet nothing are left out.
        kept: Shapes that are not, since the medium pushes them.
    """

    friction: tuple[float, float, float]
    condim: int
    solref: tuple[float, ...]
    solimp: tuple[float, ...]
    skip_visual: bool
    kept: Collection[int] = ()


class GeomWriter:
    """Writes the selected shapes into a spec.

    Args:
        host: The model.
        chosen: What to write.
        spec: Where to.
        names: Names in use.
        bodies: Bodies of the spec by body of the model.
        bits: What each shape collides with.
        options: Contact parameters.

    Attributes:
        geoms: Geoms of the spec by shape.
    """

    def __init__(
        self,
        host: HostModel,
        chosen: Selection,
        spec: mujoco.MjSpec,
        names: Names,
        bodies: dict[int, Any],
        bits: ContactBits,
        options: SurfaceOptions,
    ):
        self.host, self.chosen, self.spec, self.names = host, chosen, spec, names
        self.bodies, self.bits, self.options = bodies, bits, options
        self.geoms: dict[int, Any] = {}
        self._assets: dict[tuple, str] = {}

    def write(self) -> None:
        """Write all shapes."""
        rules = self.host.model.contact_rules
        ground = self.host.model.ground_shape
        for shape in self.chosen.shapes.tolist():
            meets = bool(rules.collides[shape] or rules.meets_ground[shape] or shape == ground)
            wanted = meets or not self.options.skip_visual or shape in self.options.kept
            if self.host.shape_geo_type[shape] == GeoType.NONE or not wanted:
                continue
            if shape == ground and not self.host.model.ground:
                continue
            self.geoms[shape] = self._add(shape, meets)

    def _add(self, shape: int, meets: bool):
        host = self.host
        name = self.names.of("geom", host.shape_key[shape] or f"shape_{shape}")
        geom = self.bodies[int(host.shape_body[shape])].add_geom(name=name)
        pose = self._shape_geometry(geom, shape)
        geom.pos, geom.quat = pose[:3], wxyz(pose[3:])
        geom.mass = 0.0
        geom.contype, geom.conaffinity = self.bits.of(shape) if meets else (0, 0)
        self._surface(geom, shape)
        color = host.shape_color[shape]
        if color is not None:
            geom.rgba = [*color, 1.0][:4]
        if not host.shape_flags[shape] & ShapeFlags.VISIBLE:
            geom.group = 3
        return geom

    def _surface(self, geom, shape: int) -> None:
        host, options = self.host, self.options
        mu, torsion, rolling = options.friction
        own = (host.shape_mu_torsion[shape], host.shape_mu_rolling[shape])
        # of two geoms MuJoCo takes the larger coefficients, so those of a geom of condim 3 count, too
        of_file = host.shape_spin_friction[shape]
        torsion, rolling = np.where(of_file < 0.0, (torsion, rolling), of_file)
        geom.friction = [mu * host.shape_material_mu[shape], own[0] or torsion, own[1] or rolling]
        least = options.condim if host.shape_material_mu[shape] > 0.0 else 1
        geom.condim = max(least, 4 if own[0] > 0.0 else 1, 6 if own[1] > 0.0 else 1)
        if host.shape_condim[shape] == 1:
            geom.condim = 1
        geom.solref[: len(options.solref)] = options.solref
        geom.solimp[: len(options.solimp)] = options.solimp
        if host.shape_solref[shape].any():
            geom.solref, geom.solimp = host.shape_solref[shape], host.shape_solimp[shape]
        geom.priority, geom.solmix = int(host.shape_priority[shape]), host.shape_solmix[shape]
        geom.margin = host.shape_geo_thickness[shape]

    def _shape_geometry(self, geom, shape: int) -> np.ndarray:
        """Set kind and size of a geom; returns its pose in the body."""
        import mujoco

        kinds = mujoco.mjtGeom
        host, scale = self.host, self.host.shape_geo_scale[shape]
        kind = GeoType(int(host.shape_geo_type[shape]))
        pose = host.shape_transform[shape]
        simple = {
            GeoType.SPHERE: (kinds.mjGEOM_SPHERE, [scale[0], 0.0, 0.0]),
            GeoType.BOX: (kinds.mjGEOM_BOX, scale),
            GeoType.ELLIPSOID: (kinds.mjGEOM_ELLIPSOID, scale),
            GeoType.CAPSULE: (kinds.mjGEOM_CAPSULE, [scale[0], scale[1], 0.0]),
            GeoType.CYLINDER: (kinds.mjGEOM_CYLINDER, [scale[0], scale[1], 0.0]),
            GeoType.PLANE: (kinds.mjGEOM_PLANE, [0.0, 0.0, 1.0]),
        }
        if kind in simple:
            geom.type, geom.size = simple[kind]
            if kind == GeoType.PLANE and scale[:2].any():
                raise ModelError(f"{host.label('shape', shape)}: MuJoCo's planes are infinite; use a box")
            along_y = kind in (GeoType.CAPSULE, GeoType.CYLINDER, GeoType.PLANE)
            return _turned(pose) if along_y else pose
        if kind == GeoType.HFIELD:
            geom.type = kinds.mjGEOM_HFIELD
            geom.hfieldname, base = self._height_field(shape)
            return _turned(transform_multiply(pose, [0.0, base, 0.0, 0.0, 0.0, 0.0, 1.0]))
        if kind not in (GeoType.MESH, GeoType.CONE):
            raise ModelError(f"{host.label('shape', shape)}: MuJoCo has no shapes of kind {kind.name}")
        geom.type = kinds.mjGEOM_MESH
        geom.meshname = self._mesh(shape)
        return pose

    def _mesh(self, shape: int) -> str:
        """Name of the mesh of a shape, which shapes of the same mesh and size share."""
        host, source = self.host, self.host.shape_geo_src[shape]
        scale = host.shape_geo_scale[shape]
        if host.shape_geo_type[shape] == GeoType.CONE:
            vertices, triangles = _cone(scale[0], scale[1])
            key = ("cone", *scale.tolist())
        else:
            self._warn_of_hull(shape, source)
            vertices, triangles = source.surface
            vertices, key = vertices * scale, (id(source), *scale.tolist())
            if np.prod(scale) < 0.0:
                triangles = triangles[:, ::-1]
        if key not in self._assets:
            import mujoco

            name = self.names.of("mesh", getattr(source, "name", None) or host.shape_key[shape])
            mesh = self.spec.add_mesh(name=name)
            # masses are the model's; the rule decides on the mesh's frame, and surfaces always have one
            rules = mujoco.mjtMeshInertia
            closed = source is not None and source.is_closed
            mesh.inertia = rules.mjMESH_INERTIA_EXACT if closed else rules.mjMESH_INERTIA_SHELL
            mesh.uservert = np.asarray(vertices, np.float32).reshape(-1)
            mesh.userface = np.asarray(triangles, np.int32).reshape(-1)
            self._assets[key] = name
        return self._assets[key]

    def _warn_of_hull(self, shape: int, mesh: Mesh) -> None:
        host = self.host
        convex = host.shape_convex[shape]
        as_hull = convex == 1 or (convex == -1 and host.model.contact_rules.rigid[shape] >= 0)
        meets = host.model.contact_rules.collides[shape]
        if as_hull or not meets or (mesh.is_closed and mesh.has_inertia and _is_convex(mesh)):
            return
        warnings.warn(
            f"{host.label('shape', shape)}: MuJoCo collides with the convex hull of a mesh, not its surface",
            UnsupportedElementWarning,
            stacklevel=2,
        )

    def _height_field(self, shape: int) -> tuple[str, float]:
        """Name of a height field, and where its lowest point is along the shape's y axis [m]."""
        field, scale = self.host.shape_geo_src[shape], np.abs(self.host.shape_geo_scale[shape])
        heights = field.heights.astype(np.float64) * scale[1]
        low, high = heights.min(), heights.max()
        width, depth = field.size[0] * scale[0], field.size[1] * scale[2]
        key = (id(field), *scale.tolist())
        if key not in self._assets:
            name = self.names.of("hfield", self.host.shape_key[shape])
            top = max(high - low, 1.0e-6)
            asset = self.spec.add_hfield(name=name, nrow=heights.shape[0], ncol=heights.shape[1])
            asset.size = [0.5 * width, 0.5 * depth, top, _BASE_SHARE * min(width, depth)]
            # MuJoCo's rows run along its y axis, which is opposite to our z axis
            asset.userdata = ((heights[::-1] - low) / top).reshape(-1)
            self._assets[key] = name
        return self._assets[key], float(low)


def _turned(pose: np.ndarray) -> np.ndarray:
    return np.concatenate([pose[:3], quat_multiply(pose[3:], _Y_UP)])


def _cone(radius: float, half: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a cone along y with its tip at +half."""
    angle = np.arange(_CONE_SIDES) * (2.0 * np.pi / _CONE_SIDES)
    rim = np.stack([radius * np.cos(angle), np.full(_CONE_SIDES, -half), radius * np.sin(angle)], axis=1)
    here = np.arange(_CONE_SIDES)
    following = np.roll(here, -1)
    tip, centre = np.full(_CONE_SIDES, _CONE_SIDES), np.full(_CONE_SIDES, _CONE_SIDES + 1)
    sides, base = np.stack([here, tip, following], axis=1), np.stack([here, following, centre], axis=1)
    return np.concatenate([rim, [[0.0, half, 0.0], [0.0, -half, 0.0]]]), np.concatenate([sides, base])


def _is_convex(mesh: Mesh) -> bool:
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(mesh.surface[0])
    except QhullError:
        return False
    return hull.volume - mesh.mass < _CONVEX_SHARE * hull.volume
