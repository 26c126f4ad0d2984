"""Shapes as geometry with collision, materials and colours."""

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade, Vt

from newtonsim.importers.writers.meshes import triangles_of, unit_ball
from newtonsim.importers.writers.records import ShapeRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.usd import attributes
from newtonsim.importers.writers.usd.frames import set_pose
from newtonsim.scene.enums import GeoType

_ROUND = {GeoType.CAPSULE: UsdGeom.Capsule, GeoType.CYLINDER: UsdGeom.Cylinder, GeoType.CONE: UsdGeom.Cone}
_BALL = (20, 12)
"""Corners of a ring and bands of the mesh of an ellipsoid: engines take hulls of up to 255 points."""

_DOCUMENTED = ("ke", "kd", "kf", "ka", "thickness")


class ShapeWriter:
    """Writes the shapes of a stage; shapes with the same friction and restitution share a material."""

    def __init__(self, stage: Usd.Stage, materials: Sdf.Path, report: ExportReport):
        self.stage, self.materials, self.report = stage, materials, report
        self._material_of: dict[tuple[float, float], UsdShade.Material] = {}

    def write(self, path: Sdf.Path, shape: ShapeRecord) -> Usd.Prim | None:
        """Write one shape; None where its form is not known."""
        prim = self._define(path, shape)
        if prim is None:
            self.report.unsupported(shape.key, f"a shape of type {shape.kind.name} without a known mesh")
            return None
        self.report.shapes[shape.index] = [str(path)]
        geometry = UsdGeom.Gprim(prim)
        if shape.color is not None:
            geometry.CreateDisplayColorAttr([Gf.Vec3f(*shape.color[:3])])
            if shape.color[3] < 1.0:
                geometry.CreateDisplayOpacityAttr([shape.color[3]])
        if not shape.visible:
            geometry.MakeInvisible()
        if shape.is_textured:
            self.report.ignored(shape.key, "the texture is left out")
        if shape.is_collider:
            self._collide(prim, shape)
        return prim

    # -- geometry --------------------------------------------------------------------------------------------

    def _define(self, path: Sdf.Path, shape: ShapeRecord) -> Usd.Prim | None:
        kind, scale = shape.kind, shape.scale
        if kind == GeoType.SPHERE:
            prim = UsdGeom.Sphere.Define(self.stage, path)
            prim.CreateRadiusAttr(float(scale[0]))
        elif kind == GeoType.ELLIPSOID and not shape.is_collider:
            prim = UsdGeom.Sphere.Define(self.stage, path)
            prim.CreateRadiusAttr(1.0)
        elif kind == GeoType.BOX:
            prim = UsdGeom.Cube.Define(self.stage, path)
            prim.CreateSizeAttr(2.0)
        elif kind in _ROUND:
            prim = _ROUND[kind].Define(self.stage, path)
            prim.CreateAxisAttr("Y")
            prim.CreateRadiusAttr(float(scale[0]))
            prim.CreateHeightAttr(2.0 * float(scale[1]))
        elif kind == GeoType.PLANE:
            prim = UsdGeom.Plane.Define(self.stage, path)
            prim.CreateAxisAttr("Y")
            prim.CreateWidthAttr(float(scale[0]))
            prim.CreateLengthAttr(float(scale[1]))
        else:
            return self._mesh(path, shape)
        stretched = kind in (GeoType.BOX, GeoType.ELLIPSOID)
        set_pose(prim.GetPrim(), shape.pose, scale if stretched else None)
        return prim.GetPrim()

    def _mesh(self, path: Sdf.Path, shape: ShapeRecord) -> Usd.Prim | None:
        scale = None
        if shape.kind == GeoType.ELLIPSOID:  # UsdPhysics has no stretched balls that collide
            vertices, faces = unit_ball(*_BALL)
            scale = shape.scale
        elif shape.kind == GeoType.MESH:
            vertices, faces = shape.source.surface
            scale = shape.scale
        else:
            triangles = triangles_of(shape)
            if triangles is None:
                return None
            vertices, faces = triangles
            self.report.approximated(shape.key, f"a shape of type {shape.kind.name} becomes a mesh")
        mesh = UsdGeom.Mesh.Define(self.stage, path)
        mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(vertices, np.float32)))
        mesh.CreateFaceVertexCountsAttr(Vt.IntArray(len(faces), 3))
        indices = np.ascontiguousarray(faces, np.int32).reshape(-1)
        mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(indices))
        mesh.CreateSubdivisionSchemeAttr("none")
        if shape.kind == GeoType.ELLIPSOID:
            attributes.set_number(mesh.GetPrim(), "ballRadius", 1.0)
        set_pose(mesh.GetPrim(), shape.pose, scale)
        return mesh.GetPrim()

    # -- collision -------------------------------------------------------------------------------------------

    def _collide(self, prim: Usd.Prim, shape: ShapeRecord) -> None:
        UsdPhysics.CollisionAPI.Apply(prim)
        if prim.IsA(UsdGeom.Mesh):
            hull = shape.kind == GeoType.MESH and (shape.convex > 0 or (shape.convex < 0 <= shape.body))
            hull |= shape.kind == GeoType.ELLIPSOID
            schema = UsdPhysics.MeshCollisionAPI.Apply(prim)
            schema.CreateApproximationAttr("convexHull" if hull else "none")
        material = shape.material
        for name in _DOCUMENTED:
            value = prim.CreateAttribute(f"warp:contact_{name}", Sdf.ValueTypeNames.Float, custom=True)
            value.Set(material[name])
        for name, key in (("mu_torsion", "muTorsion"), ("mu_rolling", "muRolling")):
            if material[name] != 0.0:
                attributes.set_number(prim, key, material[name])
        if (shape.spin_friction >= 0.0).any():
            attributes.set_numbers(prim, "spinFriction", shape.spin_friction)
        self._refer(prim, shape)
        if shape.is_ground:
            attributes.set_flag(prim, "isGround", True)
        elif shape.collides != shape.meets_ground:
            attributes.set_flag(prim, "meetsShapes", shape.collides)
            attributes.set_flag(prim, "meetsGround", shape.meets_ground)
        key = (material["mu"], material["restitution"])
        if key not in self._material_of:
            self._material_of[key] = self._material(*key)
        binding = UsdShade.MaterialBindingAPI.Apply(prim)
        binding.Bind(self._material_of[key], UsdShade.Tokens.weakerThanDescendants, "physics")

    @staticmethod
    def _refer(prim: Usd.Prim, shape: ShapeRecord) -> None:
        """Parameters of contacts by reference, under the names that MuJoCo has given them."""
        values: dict[str, float | list[float]] = {}
        if shape.solref.any():
            values = {"solref": shape.solref.tolist(), "solimp": shape.solimp.tolist()}
        if shape.material["priority"]:
            values["priority"] = int(shape.material["priority"])
        if shape.material["condim"]:
            values["condim"] = int(shape.material["condim"])
        if shape.material["solmix"] != 1.0:
            values["solmix"] = float(shape.material["solmix"])
        if values:
            attributes.set_schema(prim, "MjcCollisionAPI", **values)

    def _material(self, mu: float, restitution: float) -> UsdShade.Material:
        path = self.materials.AppendChild(f"material_{len(self._material_of)}")
        material = UsdShade.Material.Define(self.stage, path)
        schema = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
        schema.CreateStaticFrictionAttr(mu)
        schema.CreateDynamicFrictionAttr(mu)
        schema.CreateRestitutionAttr(restitution)
        return material
