"""Collision shapes."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from newtonsim.builder.bodies import BodyMethods
from newtonsim.errors import ModelError
from newtonsim.geometry.heightfield import Heightfield
from newtonsim.geometry.inertia import shape_inertia
from newtonsim.geometry.mesh import Mesh
from newtonsim.geometry.sdf import SDF
from newtonsim.geometry.transforms import (
    as_vector,
    pose,
    quat_between,
    quat_multiply,
    warp_transform,
    warp_vector,
)
from newtonsim.scene.arrays import SOLIMP, SOLREF
from newtonsim.scene.enums import GeoType, ShapeFlags
from newtonsim.scene.shape_types import SIZE_NAMES

_UP_ROTATION = {
    0: (0.0, 0.0, -math.sqrt(0.5), math.sqrt(0.5)),  # local y to x
    1: (0.0, 0.0, 0.0, 1.0),
    2: (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)),  # local y to z
}


class ShapeMethods(BodyMethods):
    """The part of ModelBuilder that adds shapes.

    Arguments that all `add_shape_*` methods share:

    - body: body that carries the shape, -1 for a static one.
    - pos, rot: pose in the body frame, [m] and quaternion xyzw.
    - density: mass per volume [kg/m^3], which the body receives.
    - ke, kd, kf, ka, mu, restitution: contact stiffness [N/m], damping [N s/m], friction stiffness [N s/m],
      adhesion distance [m], coefficients of friction and restitution.
    - is_solid, thickness: a hollow shape has walls of this thickness [m]; contacts are offset outwards by it.
    - has_ground_collision, has_shape_collision: what the shape collides with.
    - collision_group: -1 collides with everything; another group with itself and with -1 only.
    - is_visible, key: for viewers and messages.

    None stands for the builder's default. All return the index of the shape.
    """

    def _add_shape(
        self,
        geo_type: GeoType,
        body: int,
        xform: npt.ArrayLike,
        scale: npt.ArrayLike,
        source: Mesh | SDF | Heightfield | None,
        options: dict,
    ) -> int:
        """Append a shape; `options` are the public method's arguments of the same names."""
        index = self.shape_count
        key = options["key"] if options["key"] is not None else f"shape_{index}"
        name = self._shape_name(options["key"])
        size = as_vector(scale, 3, f"{name}: size")
        for what, value in zip(SIZE_NAMES.get(geo_type, ()), size):
            # Here, as the mass that it gives to the body would be blamed on the body.
            if not (value >= 0.0 and math.isfinite(value)):
                raise ModelError(f"{name}: {what} is {value:g}, expected a finite number of at least 0")
        flags = ShapeFlags.VISIBLE * options["is_visible"]
        flags |= ShapeFlags.COLLIDE_SHAPES * options["has_shape_collision"]
        flags |= ShapeFlags.COLLIDE_GROUND * options["has_ground_collision"]
        material = {
            name: self._or_default(options, name) for name in ("ke", "kd", "kf", "ka", "mu", "restitution")
        }
        thickness = self._or_default(options, "thickness")
        density = self._or_default(options, "density")
        if density < 0.0:
            raise ModelError(f"{name}: density {density} is negative")
        if body >= 0 and density > 0.0:
            properties = shape_inertia(geo_type, density, size, source, options["is_solid"], thickness)
            if properties[0] == 0.0 and geo_type != GeoType.PLANE:
                warnings.warn(f"{name} has no volume and gives its body no mass", stacklevel=3)
            self._add_body_mass(body, *properties, xform)
        self.shape_transform.append(warp_transform(xform))
        self.shape_body.append(body)
        self.shape_flags.append(int(flags))
        self.shape_geo_type.append(int(geo_type))
        self.shape_geo_scale.append(warp_vector(size))
        self.shape_geo_is_solid.append(int(options["is_solid"]))
        self.shape_geo_thickness.append(float(thickness))
        self.shape_geo_src.append(source)
        for name, value in material.items():
            getattr(self, f"shape_material_{name}").append(float(value))
        self.shape_mu_torsion.append(0.0)
        self.shape_mu_rolling.append(0.0)
        self.shape_spin_friction.append((-1.0, -1.0))
        self.shape_solref.append((0.0, 0.0))
        self.shape_solimp.append(SOLIMP)
        self.shape_solmix.append(1.0)
        self.shape_priority.append(0)
        self.shape_condim.append(0)
        convex = options.get("convex")
        self.shape_convex.append(-1 if convex is None else int(convex))
        self.shape_collision_group.append(options["collision_group"])
        self.shape_world.append(-1)
        self.shape_key.append(key)
        self.shape_color.append(None)
        self.shape_spare.append(False)
        self.shape_texture.append(None)
        self.last_collision_group = max(self.last_collision_group, options["collision_group"])
        return index

    def _shape_name(self, key: str | None) -> str:
        """Return the name that messages use for the shape being added."""
        return f"shape {self.shape_count}" if key is None else f"shape '{key}'"

    def _or_default(self, options: dict, name: str) -> float:
        value = options[name]
        return getattr(self, f"default_shape_{name}") if value is None else value

    def _add_upright(
        self,
        geo_type: GeoType,
        body: int,
        pos,
        rot,
        radius: float,
        half_height: float,
        up_axis: int,
        options: dict,
    ) -> int:
        """Add a shape whose long axis is local y, turned to `up_axis`."""
        if up_axis not in _UP_ROTATION:
            raise ModelError(f"{self._shape_name(options['key'])}: up_axis must be 0, 1 or 2, got {up_axis}")
        xform = pose(pos, rot, self._shape_name(options["key"]))
        xform[3:] = quat_multiply(xform[3:], _UP_ROTATION[up_axis])
        return self._add_shape(geo_type, body, xform, (radius, half_height, 0.0), None, options)

    @property
    def shape_collision_group_map(self) -> dict[int, list[int]]:
        """The current shapes of each collision group."""
        groups: dict[int, list[int]] = {}
        for shape, group in enumerate(self.shape_collision_group):
            groups.setdefault(group, []).append(shape)
        return groups

    def add_shape_plane(
        self,
        plane: npt.ArrayLike = (0.0, 1.0, 0.0, 0.0),
        pos: npt.ArrayLike | None = None,
        rot: npt.ArrayLike | None = None,
        width: float = 10.0,
        length: float = 10.0,
        body: int = -1,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        thickness: float | None = None,
        has_ground_collision: bool = False,
        has_shape_collision: bool = True,
        is_visible: bool = True,
        collision_group: int = -1,
        key: str | None = None,
    ) -> int:
        """Add a plane.

        Own arguments, beside those that the class describes:

        - plane: (a, b, c, d) of a x + b y + c z + d = 0, used unless both `pos` and `rot` are given; then the
        plane passes through `pos` and its normal is (0, 1, 0) rotated by `rot`.
        - width: Extent along local x [m], 0 for infinite.
        - length: Extent along local z [m], 0 for infinite.
        """
        density, is_solid = 0.0, True
        if pos is None or rot is None:
            a, b, c, d = as_vector(plane, 4, f"{self._shape_name(key)}: plane")
            norm = math.sqrt(a * a + b * b + c * c)
            if not norm > 1e-12:
                raise ModelError(f"{self._shape_name(key)}: plane {tuple(plane)} has no normal")  # pyright: ignore[reportArgumentType]
            normal = as_vector((a, b, c), 3, "normal") / norm
            pos, rot = -d / norm * normal, quat_between((0.0, 1.0, 0.0), normal)
        return self._add_shape(
            GeoType.PLANE, body, pose(pos, rot, self._shape_name(key)), (width, length, 0.0), None, locals()
        )

    def add_shape_sphere(
        self,
        body: int,
        pos: npt.ArrayLike = (0.0, 0.0, 0.0),
        rot: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0),
        radius: float = 1.0,
        density: float | None = None,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        is_solid: bool = True,
        thickness: float | None = None,
        has_ground_collision: bool = True,
        has_shape_collision: bool = True,
        collision_group: int = -1,
        is_visible: bool = True,
        key: str | None = None,
    ) -> int:
        """Add a sphere.

        Own arguments, beside those that the class describes:

        - radius: Radius [m].
        """
        xform = pose(pos, rot, self._shape_name(key))
        return self._add_shape(GeoType.SPHERE, body, xform, (radius, 0.0, 0.0), None, locals())

    def add_shape_box(
        self,
        body: int,
        pos: npt.ArrayLike = (0.0, 0.0, 0.0),
        rot: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0),
        hx: float = 0.5,
        hy: float = 0.5,
        hz: float = 0.5,
        density: float | None = None,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        is_solid: bool = True,
        thickness: float | None = None,
        has_ground_collision: bool = True,
        has_shape_collision: bool = True,
        collision_group: int = -1,
        is_visible: bool = True,
        key: str | None = None,
    ) -> int:
        """Add a box.

        Own arguments, beside those that the class describes:

        - hx: Half extent along x [m].
        - hy: Half extent along y [m].
        - hz: Half extent along z [m].
        """
        xform = pose(pos, rot, self._shape_name(key))
        return self._add_shape(GeoType.BOX, body, xform, (hx, hy, hz), None, locals())

    def add_shape_ellipsoid(
        self,
        body: int,
        pos: npt.ArrayLike = (0.0, 0.0, 0.0),
        rot: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0),
        a: float = 1.0,
        b: float = 0.5,
        c: float = 0.5,
        density: float | None = None,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        is_solid: bool = True,
        thickness: float | None = None,
        has_ground_collision: bool = True,
        has_shape_collision: bool = True,
        collision_group: int = -1,
        is_visible: bool = True,
        key: str | None = None,
    ) -> int:
        """Add an ellipsoid.

        Own arguments, beside those that the class describes:

        - a: Semi-axis along x [m].
        - b: Semi-axis along y [m].
        - c: Semi-axis along z [m].
        """
        xform = pose(pos, rot, self._shape_name(key))
        return self._add_shape(GeoType.ELLIPSOID, body, xform, (a, b, c), None, locals())

    def add_shape_capsule(
        self,
        body: int,
        pos: npt.ArrayLike = (0.0, 0.0, 0.0),
        rot: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0),
        radius: float = 1.0,
        half_height: float = 0.5,
        up_axis: int = 1,
        density: float | None = None,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        is_solid: bool = True,
        thickness: float | None = None,
        has_ground_collision: bool = True,
        has_shape_collision: bool = True,
        collision_group: int = -1,
        is_visible: bool = True,
        key: str | None = None,
    ) -> int:
        """Add a capsule.

        Own arguments, beside those that the class describes:

        - radius: Radius [m].
        - half_height: Half length of the cylinder between the caps [m].
        - up_axis: Body axis of its length before `rot`: 0 = x, 1 = y, 2 = z.
        """
        return self._add_upright(GeoType.CAPSULE, body, pos, rot, radius, half_height, up_axis, locals())

    def add_shape_cylinder(
        self,
        body: int,
        pos: npt.ArrayLike = (0.0, 0.0, 0.0),
        rot: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0),
        radius: float = 1.0,
        half_height: float = 0.5,
        up_axis: int = 1,
        density: float | None = None,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        is_solid: bool = True,
        thickness: float | None = None,
        has_ground_collision: bool = True,
        has_shape_collision: bool = True,
        collision_group: int = -1,
        is_visible: bool = True,
        key: str | None = None,
    ) -> int:
        """Add a cylinder.

        Own arguments, beside those that the class describes:

        - radius: Radius [m].
        - half_height: Half length [m].
        - up_axis: Body axis of its length before `rot`: 0 = x, 1 = y, 2 = z.
        """
        return self._add_upright(GeoType.CYLINDER, body, pos, rot, radius, half_height, up_axis, locals())

    def add_shape_cone(
        self,
        body: int,
        pos: npt.ArrayLike = (0.0, 0.0, 0.0),
        rot: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0),
        radius: float = 1.0,
        half_height: float = 0.5,
        up_axis: int = 1,
        density: float | None = None,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        is_solid: bool = True,
        thickness: float | None = None,
        has_ground_collision: bool = True,
        has_shape_collision: bool = True,
        collision_group: int = -1,
        is_visible: bool = True,
        key: str | None = None,
    ) -> int:
        """Add a cone, apex towards the positive axis.

        Own arguments, beside those that the class describes:

        - radius: Radius [m].
        - half_height: Half length [m].
        - up_axis: Body axis of its length before `rot`: 0 = x, 1 = y, 2 = z.
        """
        return self._add_upright(GeoType.CONE, body, pos, rot, radius, half_height, up_axis, locals())

    def add_shape_mesh(
        self,
        body: int,
        pos: npt.ArrayLike | None = None,
        rot: npt.ArrayLike | None = None,
        mesh: Mesh | None = None,
        scale: npt.ArrayLike | None = None,
        density: float | None = None,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        is_solid: bool = True,
        thickness: float | None = None,
        has_ground_collision: bool = True,
        has_shape_collision: bool = True,
        collision_group: int = -1,
        is_visible: bool = True,
        key: str | None = None,
        convex: bool | None = None,
    ) -> int:
        """Add a triangle mesh.

        Own arguments, beside those that the class describes:

        - mesh: The mesh.
        - scale: Scale along the mesh axes, None for 1.
        - convex: Whether the mesh collides as its convex hull, None for meshes on bodies that can move.
        """
        if mesh is None:
            raise ModelError(f"{self._shape_name(key)}: add_shape_mesh needs a mesh")
        scale = (1.0, 1.0, 1.0) if scale is None else scale
        xform = pose(pos, rot, self._shape_name(key))
        return self._add_shape(GeoType.MESH, body, xform, scale, mesh, locals())

    def add_shape_sdf(
        self,
        body: int,
        pos: npt.ArrayLike = (0.0, 0.0, 0.0),
        rot: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0),
        sdf: SDF | None = None,
        scale: npt.ArrayLike = (1.0, 1.0, 1.0),
        density: float | None = None,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        is_solid: bool = True,
        thickness: float | None = None,
        has_ground_collision: bool = True,
        has_shape_collision: bool = True,
        collision_group: int = -1,
        is_visible: bool = True,
        key: str | None = None,
    ) -> int:
        """Add a signed distance field.

        Own arguments, beside those that the class describes:

        - sdf: The field.
        - scale: Scale along its axes.
        """
        if sdf is None:
            raise ModelError(f"{self._shape_name(key)}: add_shape_sdf needs an SDF")
        xform = pose(pos, rot, self._shape_name(key))
        return self._add_shape(GeoType.SDF, body, xform, scale, sdf, locals())

    def add_shape_heightfield(
        self,
        body: int,
        pos: npt.ArrayLike = (0.0, 0.0, 0.0),
        rot: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0),
        heightfield: Heightfield | None = None,
        scale: npt.ArrayLike = (1.0, 1.0, 1.0),
        density: float | None = None,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        ka: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
        is_solid: bool = True,
        thickness: float | None = None,
        has_ground_collision: bool = True,
        has_shape_collision: bool = True,
        collision_group: int = -1,
        is_visible: bool = True,
        key: str | None = None,
    ) -> int:
        """Add a height field; it has no mass.

        Own arguments, beside those that the class describes:

        - heightfield: The heights.
        - scale: Scale along its axes.
        """
        if heightfield is None:
            raise ModelError(f"{self._shape_name(key)}: add_shape_heightfield needs a Heightfield")
        xform = pose(pos, rot, self._shape_name(key))
        return self._add_shape(GeoType.HFIELD, body, xform, scale, heightfield, locals())

    def add_contact_pair(
        self,
        first: int,
        second: int,
        friction: Sequence[float] = (1.0, 0.0, 0.0),
        solref: Sequence[float] = SOLREF,
        solimp: Sequence[float] = SOLIMP,
    ) -> int:
        """Give a pair of shapes its own contact parameters, which replace those of both shapes.

        Groups, flags and filters still decide whether the shapes collide.

        Args:
            first: A shape.
            second: Another shape.
            friction: Coefficients of sliding, torsional [m] and rolling friction [m].
            solref: Time constant [s] and damping ratio, or minus stiffness and minus damping, see
                `shape_solref`; (0, 0) for the solver's own stiffness.
            solimp: Impedance, see `shape_solimp`.

        Returns:
            The index of the pair.
        """
        index = self._count("contact_pair")
        self.contact_pair_shapes.append((first, second))
        self.contact_pair_friction.append(warp_vector(as_vector(friction, 3, "add_contact_pair: friction")))
        self.contact_pair_solref.append(tuple(map(float, solref)))
        self.contact_pair_solimp.append(tuple(map(float, solimp)))
        return index

    def set_ground_plane(
        self,
        normal: npt.ArrayLike | None = None,
        offset: float = 0.0,
        ke: float | None = None,
        kd: float | None = None,
        kf: float | None = None,
        mu: float | None = None,
        restitution: float | None = None,
    ) -> None:
        """Put an infinite plane into the world of every environment; `finalize` appends it as the last shape.

        Args:
            normal: Normal, None for the up vector.
            offset: Height of the plane along the normal [m].
            ke: Contact stiffness [N/m].
            kd: Contact damping [N s/m].
            kf: Friction stiffness [N s/m].
            mu: Coefficient of friction.
            restitution: Coefficient of restitution.
        """
        vector = as_vector(self.up_vector if normal is None else normal, 3, "ground plane: normal")
        norm = math.sqrt(vector @ vector)
        if not norm > 1e-12:
            raise ModelError(f"ground plane: normal {vector.tolist()} has no direction")
        self.ground_settings = {
            "plane": (*(vector / norm), -float(offset)),
            "ke": ke,
            "kd": kd,
            "kf": kf,
            "mu": mu,
            "restitution": restitution,
        }

    def _append_ground(self) -> int:
        """Add the ground plane as a shape, infinite and static."""
        settings: Any = self.ground_settings
        shape = self.add_shape_plane(**settings, width=0.0, length=0.0, key="ground_plane")
        self.shape_world[shape] = -1
        return shape
