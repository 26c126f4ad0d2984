"""From lists to a Model: complete, check, then allocate."""

import warnings
from functools import partial
from typing import Any

import numpy as np
import warp as wp

from newtonsim.builder.bodies import inverse_inertia
from newtonsim.builder.complete import CompletionMethods
from newtonsim.builder.constraints import ConstraintMethods
from newtonsim.builder.overlaps import describe_overlaps, find_overlaps
from newtonsim.builder.pairs import PairFinder
from newtonsim.builder.shapes import ShapeMethods
from newtonsim.builder.thin import spread_masses
from newtonsim.builder.validate import check_constraints, check_structure, check_tree, check_values
from newtonsim.collision.contacts import Contacts
from newtonsim.errors import ModelError, OverlapWarning
from newtonsim.geometry.sdf import SDF
from newtonsim.kernels.views.structs import ModelShapeGeometry, ModelShapeMaterials
from newtonsim.runtime.devices import find_device
from newtonsim.scene.allocation import put
from newtonsim.scene.arrays import COUNTS, MODEL_ARRAYS, SPECS
from newtonsim.scene.columns import Column, distinct, distinct_rows, to_array
from newtonsim.scene.enums import GeoType, among
from newtonsim.scene.joint_types import quaternion_starts
from newtonsim.scene.model import ContactRules, Model
from newtonsim.scene.revisions import counted

_MOST_NAMED = 8
"""Number of pairs of links that a warning names."""

_WORLD_STARTS = {
    "body": "body_world",
    "joint": "joint_world",
    "shape": "shape_world",
    "particle": "particle_world",
}


class FinalizeMethods(CompletionMethods, ConstraintMethods, ShapeMethods):
    """The part of ModelBuilder that makes a Model."""

    def finalize(self, device: wp.DeviceLike = None, requires_grad: bool = False) -> Model:
        """Turn the description into a model; the builder is unchanged and may be used again.

        Args:
            device: Where arrays live, None for Warp's default.
            requires_grad: Whether gradients can flow to the arrays.

        Returns:
            The model.

        Raises:
            DeviceError: There is no such device.
            ModelError: The description is inconsistent; the message names the element.
        """
        check_structure(self)
        source = self._completed()._with_mimics()
        ground = None
        if self.ground_settings is not None:
            source = source._shallow_copy()
            ground = source._append_ground()
        arrays = {
            spec.name: to_array(spec, values) for spec, values in source._lists() if spec.dtype is not None
        }
        source = spread_masses(source, arrays)
        check_values(source, arrays)
        check_tree(source, arrays)
        check_constraints(source, arrays)
        _normalize(arrays)
        if self.num_envs <= 1:
            for name in _WORLD_STARTS.values():
                arrays[name][:] = 0
        if ground is not None:
            arrays["shape_world"][ground] = -1
        finder = _pair_finder(source, arrays)
        return _Allocation(source, arrays, finder, find_device(device), requires_grad, ground).model

    def find_shape_contact_pairs(self, model: Model) -> None:
        """Find which pairs of shapes may collide and write them to a model made by this builder.

        Sets `shape_contact_pairs`, `shape_ground_contact_pairs`, their counts and
        `shape_collision_filter_pairs`. `finalize` calls it; call it again after changing groups, filters or
        flags of the builder.

        Args:
            model: The model.
        """
        source = self._completed()
        if model.ground_shape >= 0:
            source = source._shallow_copy()
            if source.ground_settings is None:  # the ground was switched on in the model
                source.set_ground_plane()
            source._append_ground()
        if source.shape_count != model.shape_count:
            raise ModelError(
                f"the model has {model.shape_count} shapes, but the builder makes {source.shape_count}"
            )
        arrays = {
            spec.name: to_array(spec, values) for spec, values in source._lists() if spec.dtype is not None
        }
        arrays["shape_world"] = model.shape_world.numpy()
        _set_pairs(model, _pair_finder(source, arrays), model.ground_shape)


def _late_ground(blank: "FinalizeMethods") -> dict[str, Any]:
    """Return the entries of the ground plane of a model whose ground is switched on late.

    Args:
        blank: A builder without elements, with the up vector and the defaults of the model's builder.
    """
    blank.set_ground_plane()
    blank._append_ground()
    entries: dict[str, Any] = {}
    for spec, values in blank._lists():
        if spec.per == "shape":
            entries[spec.name] = values[0] if spec.dtype is None else to_array(spec, values)
    return entries


def _normalize(arrays: dict[str, np.ndarray]) -> None:
    """Give transforms unit quaternions and joints unit axes."""
    for spec in MODEL_ARRAYS:
        if spec.dtype is wp.transform and len(arrays[spec.name]):
            q = arrays[spec.name][:, 3:]
            norm = np.linalg.norm(q, axis=1, keepdims=True)
            if (norm < 1e-6).any():
                raise ModelError(f"{spec.name}: the quaternion of entry {int(np.argmin(norm))} is zero")
            np.divide(q, norm, out=q, where=np.abs(norm - 1.0) > 1e-7)
    for name in ("joint_axis", "constraint_axis"):
        arrays[name] /= np.linalg.norm(arrays[name], axis=1, keepdims=True)
    start = quaternion_starts(arrays["joint_type"], arrays["joint_q_start"])
    places = start[:, None] + np.arange(4)
    q = arrays["joint_q"][places]
    norm = np.linalg.norm(q, axis=1, keepdims=True)
    if (norm < 1e-6).any():
        raise ModelError(f"joint_q: the quaternion at coordinate {int(start[np.argmin(norm)])} is zero")
    arrays["joint_q"][places] = np.where(np.abs(norm - 1.0) > 1e-7, q / norm, q)


class _Allocation:
    """Puts checked arrays on a device, part by part."""

    def __init__(
        self,
        source,
        arrays: dict[str, np.ndarray],
        finder: PairFinder,
        device: wp.Device,
        requires_grad: bool,
        ground: int | None,
    ):
        self.source, self.arrays, self.finder = source, arrays, finder
        self.device, self.requires_grad = device, requires_grad
        self.model = Model(device, Contacts, partial(_late_ground, source._blank_copy()))
        self.model.requires_grad = requires_grad
        self._globals()
        for spec in MODEL_ARRAYS:
            if spec.host:
                continue
            if spec.dtype is None:
                setattr(self.model, spec.name, getattr(source, spec.name).copy())
            else:
                setattr(self.model, spec.name, self._array(spec.name))
        self._worlds()
        self._particles()
        self._bodies()
        self._joints()
        self._shapes(ground)
        self._muscles()

    def _array(self, name: str) -> wp.array:
        spec = SPECS[name]
        return self._put(self.arrays[name], spec.dtype, spec.grad)

    def _put(self, values: np.ndarray, dtype: Any, grad: bool = False) -> wp.array:
        return put(values, dtype=dtype, device=self.device, requires_grad=grad and self.requires_grad)

    def _globals(self) -> None:
        model, source = self.model, self.source
        model.num_envs = source.num_envs
        model.world_count = max(1, source.num_envs)
        for per, attribute in COUNTS.items():
            setattr(model, attribute, source._count(per))
        up = np.asarray(source.up_vector, np.float64)
        model.up_vector = up / np.linalg.norm(up)
        model.up_axis = int(np.argmax(np.abs(model.up_vector)))
        gravity = np.asarray(source.gravity, np.float64)
        model.gravity = gravity if gravity.shape == (3,) else model.up_vector * float(gravity)
        model.gravity_vec.requires_grad = self.requires_grad
        model.joint_mimic = list(source.joint_mimic)
        model.sites = [dict(site) for site in source.sites]
        model.keyframes = [dict(frame) for frame in source.keyframes]
        model.solver_hint = dict(source.solver_hint)

    def _worlds(self) -> None:
        """Set where each world starts; elements of the global world lie outside these ranges."""
        model, worlds = self.model, self.model.world_count
        model.world_body_start = world_starts(self.arrays["body_world"], worlds)
        model.world_joint_start = world_starts(self.arrays["joint_world"], worlds)
        model.world_shape_start = world_starts(self.arrays["shape_world"], worlds)
        model.world_particle_start = world_starts(self.arrays["particle_world"], worlds)
        joint_start = model.world_joint_start
        bounds = np.append(self.arrays["joint_q_start"], model.joint_coord_count)
        model.world_coord_start = bounds[joint_start].astype(np.int32)
        bounds = np.append(self.arrays["joint_qd_start"], model.joint_dof_count)
        model.world_dof_start = bounds[joint_start].astype(np.int32)

    def _particles(self) -> None:
        model = self.model
        mass = self.arrays["particle_mass"]
        inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0.0)
        model.particle_inv_mass = self._put(inverse, wp.float32, True)
        radii = self.arrays["particle_radius"]
        model.particle_max_radius = float(radii.max(initial=0.0))
        colors = np.zeros(model.particle_count, np.int32)
        groups = [np.asarray(group, np.int32) for group in self.source.particle_color_groups]
        for color, group in enumerate(groups):
            if len(group) and (group.min() < 0 or group.max() >= model.particle_count):
                raise ModelError(f"colour {color} names a particle outside 0..{model.particle_count - 1}")
            colors[group] = color
        model.particle_colors = self._put(colors, wp.int32)
        model.particle_color_groups = [self._put(group, wp.int32) for group in groups]

    def _bodies(self) -> None:
        model = self.model
        mass = self.arrays["body_mass"].astype(np.float64)
        inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0.0)
        model.body_inv_mass = self._put(inverse.astype(np.float32), wp.float32, True)
        inertia = self.arrays["body_inertia"].astype(np.float64)
        model.bodies_may_be_absent = not self.arrays["body_present"].all()
        model.body_inv_inertia = self._put(inverse_inertia(mass, inertia).astype(np.float32), wp.mat33, True)

    def _joints(self) -> None:
        model, arrays = self.model, self.arrays
        model.joint_q_start = self._put(
            np.append(arrays["joint_q_start"], model.joint_coord_count).astype(np.int32), wp.int32
        )
        model.joint_qd_start = self._put(
            np.append(arrays["joint_qd_start"], model.joint_dof_count).astype(np.int32), wp.int32
        )
        inbound = np.full(model.body_count + 1, -1, np.int32)
        inbound[arrays["joint_child"]] = np.arange(model.joint_count)
        model.joint_ancestor = self._put(inbound[arrays["joint_parent"]], wp.int32)
        starts = np.append(self.source.articulation_start, model.joint_count)
        model.articulation_start = self._put(starts.astype(np.int32), wp.int32)
        model.articulation_key = list(self.source.articulation_key)
        model.articulation_count = len(model.articulation_key)

    def _shapes(self, ground: int | None) -> None:
        model, arrays = self.model, self.arrays
        model.shape_materials = counted(ModelShapeMaterials)
        model.shape_materials.ke = self._array("shape_material_ke")
        model.shape_materials.kd = self._array("shape_material_kd")
        model.shape_materials.kf = self._array("shape_material_kf")
        model.shape_materials.ka = self._array("shape_material_ka")
        model.shape_materials.mu = self._array("shape_material_mu")
        model.shape_materials.restitution = self._array("shape_material_restitution")
        model.shape_geo = counted(ModelShapeGeometry)
        model.shape_geo.type = self._array("shape_geo_type")
        model.shape_geo.is_solid = self._array("shape_geo_is_solid")
        model.shape_geo.thickness = self._array("shape_geo_thickness")
        model.shape_geo.scale = self._array("shape_geo_scale")
        model.shape_geo.source = self._put(self.model.put_sources(), wp.uint64)
        radii = _collision_radii(arrays["shape_geo_type"], arrays["shape_geo_scale"], model.shape_geo_src)
        model.shape_collision_radius = self._put(radii.astype(np.float32), wp.float32)
        model.ground_shape = -1 if ground is None else ground
        model.ground = ground is not None
        if ground is not None:
            plane = np.array(self.source.ground_settings["plane"], np.float32)
        else:
            plane = np.append(model.up_vector, 0.0).astype(np.float32)
        model.ground_plane = self._put(plane, wp.float32)
        _set_pairs(model, self.finder, -1 if ground is None else ground)

    def _muscles(self) -> None:
        starts = np.append(self.arrays["muscle_start"], self.model.muscle_point_count)
        self.model.muscle_start = self._put(starts.astype(np.int32), wp.int32)


def world_starts(world: np.ndarray, worlds: int) -> np.ndarray:
    """Return the first entry of each world and the end of the last (worlds + 1,)."""
    local = np.flatnonzero(world >= 0)
    place = np.searchsorted(world[local], np.arange(worlds + 1))
    return np.append(local, local[-1] + 1 if len(local) else 0)[place].astype(np.int32)


def _pair_finder(source, arrays: dict[str, np.ndarray]) -> PairFinder:
    """Return the finder of pairs that may collide, without links of a robot that overlap from the start."""
    finder = PairFinder(source, arrays)
    if source.keep_overlaps:
        return finder
    found = find_overlaps(source, arrays, finder)
    if found.unseen:
        text = f"{found.unseen} pairs of neighbouring links were not examined for overlaps, and may collide"
        warnings.warn(text, OverlapWarning, stacklevel=3)
    if len(found.pairs):
        finder.leave_out(found.pairs)
        names, count = describe_overlaps(source, found.pairs, found.depths, _MOST_NAMED)
        more = f" and {count - len(names)} more" if count > len(names) else ""
        text = (
            "links that overlap in the described pose pass through each other: "
            f"{', '.join(names)}{more}; to let them collide, set builder.keep_overlaps"
        )
        warnings.warn(text, OverlapWarning, stacklevel=3)
    return finder


def _set_pairs(model: Model, finder: PairFinder, ground: int) -> None:
    model.contact_rules = ContactRules(
        finder.rigid, finder.group, finder.collides, finder.meets_ground, finder.filter_keys
    )
    ground_pairs = finder.ground_pairs(ground) if ground >= 0 else np.zeros((0, 2), np.int32)
    model.shape_ground_contact_pairs = put(ground_pairs, dtype=wp.int32, device=model.device)
    model.shape_ground_contact_pair_count = len(ground_pairs)
    model.shape_contact_pairs = None  # pyright: ignore[reportAttributeAccessIssue]
    model.shape_contact_pair_count = 0
    if not finder.crowded(ground):
        pairs = finder.shape_pairs(exclude=ground)
        model.shape_contact_pairs = put(pairs, dtype=wp.int32, device=model.device)
        model.shape_contact_pair_count = len(pairs)


def _collision_radii(kind: np.ndarray, scale: np.ndarray, sources: Column) -> np.ndarray:
    """Return the radius [m] of a sphere about each shape's origin that contains it; 1e6 for infinite ones."""
    x, y, z = np.abs(scale.astype(np.float64)).T if len(scale) else np.zeros((3, 0))
    radii = x.copy()
    radii = np.where(kind == GeoType.BOX, np.sqrt(x * x + y * y + z * z), radii)
    radii = np.where(kind == GeoType.CAPSULE, x + y, radii)
    radii = np.where((kind == GeoType.CYLINDER) | (kind == GeoType.CONE), np.hypot(x, y), radii)
    radii = np.where(kind == GeoType.ELLIPSOID, np.maximum(np.maximum(x, y), z), radii)
    bounded = (x > 0.0) & (y > 0.0)
    radii = np.where(kind == GeoType.PLANE, np.where(bounded, 0.5 * np.hypot(x, y), 1.0e6), radii)
    objects, place = distinct(sources)
    shapes = np.flatnonzero(among(kind, (GeoType.MESH, GeoType.HFIELD, GeoType.SDF)))
    sized = np.column_stack([place[shapes], scale[shapes]])
    first, same = distinct_rows(sized)
    sizes = [_mesh_radius(objects[place[shape]], scale[shape]) for shape in shapes[first].tolist()]
    radii[shapes] = np.array(sizes, np.float64)[same]
    return radii


def _mesh_radius(source, scale: np.ndarray) -> float:
    if isinstance(source, SDF):
        corners = np.array(source.bounds()) * scale
        return float(np.linalg.norm(np.abs(corners).max(axis=0)))
    mesh = source if hasattr(source, "vertices") else source.to_mesh()
    return float(np.linalg.norm(mesh.vertices * scale, axis=1).max(initial=0.0))
