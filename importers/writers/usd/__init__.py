"""USD stages from models."""

import os

import numpy as np
from pxr import Sdf, Tf, Usd, UsdGeom, UsdPhysics

from newtonsim.builder import ModelBuilder
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import quat_from_matrix
from newtonsim.importers.files.usd_names import FLOATING_ATTRIBUTES
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.names import Names
from newtonsim.importers.writers.records import BodyRecord, JointRecord, Scene
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.scene import read_scene
from newtonsim.importers.writers.settings import report_lost, report_tendons
from newtonsim.importers.writers.usd import attributes
from newtonsim.importers.writers.usd.constraints import ConstraintWriter
from newtonsim.importers.writers.usd.filters import FilterWriter
from newtonsim.importers.writers.usd.frames import initial_poses, prim_name, quatf, set_pose, vec3f
from newtonsim.importers.writers.usd.joints import JointWriter
from newtonsim.importers.writers.usd.shapes import ShapeWriter
from newtonsim.importers.writers.xml_text import output_path
from newtonsim.scene.enums import JointType
from newtonsim.scene.joint_types import FLOATING
from newtonsim.scene.model import Model

_ROOT = Sdf.Path("/World")
_RESERVED = ("PhysicsScene", "Materials", "CollisionGroups", "Constraints", "Joints")


def export_usd(
    model: Model | ModelBuilder, path: str | os.PathLike, *, world: int | None = None, strict: bool = False
) -> ExportReport:
    """Write a model as a USD stage with UsdPhysics schemas.

    Metres and kilograms; the up axis is the model's where it is y or z, others are turned to z. Bodies stand
    at their initial joint coordinates. What UsdPhysics has no schema for (rotor inertia, passive forces, the
    order of several axes of a joint, couplings, torsional friction) goes into custom attributes of the
    namespace "newtonsim", which `parse_usd` reads.

    Example:
        >>> import os, tempfile
        >>> from newtonsim import ModelBuilder
        >>> from newtonsim.utils import export_usd
        >>> builder = ModelBuilder()
        >>> body = builder.add_body(key="ball")
        >>> shape = builder.add_shape_sphere(body, radius=0.1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = export_usd(builder, os.path.join(folder, "ball.usda"))
        >>> report.bodies
        {0: '/World/ball'}

    Args:
        model: The model, or a builder to be finalized.
        path: File name, ending in .usd, .usda or .usdc.
        world: World to write, with the global one; None for all of them on one stage.
        strict: Raise instead of warning about what USD cannot hold; then no file is written.

    Returns:
        Paths of the prims, and what was approximated or left out.

    Raises:
        ModelError: There is no such world, or the file cannot be written.
    """
    path = output_path(path, (".usd", ".usda", ".usdc"))
    scene = read_scene(model, world)
    report = ExportReport(str(path), "usd")
    stage = _UsdWriter(scene, report).write()
    report.settle(strict, stacklevel=2)
    try:
        written = stage.GetRootLayer().Export(str(path))
    except Tf.ErrorException as error:
        raise ModelError(f"cannot write {str(path)!r}: {error}") from error
    if not written:
        raise ModelError(f"cannot write {str(path)!r}")
    stale = Sdf.Layer.Find(str(path))
    if stale:  # somebody has the file open that was just replaced
        stale.Reload(force=True)
    return report


def _turn_up(scene: Scene) -> str:
    """Turn the scene so that y or z is up; return the letter."""
    up = scene.up / np.linalg.norm(scene.up)
    if up[1] > 1.0 - 1.0e-6:
        return "Y"
    scene.turn_up((0.0, 0.0, 1.0))
    return "Z"


class _UsdWriter:
    """Writes one scene to a stage in memory."""

    def __init__(self, scene: Scene, report: ExportReport):
        self.scene, self.report = scene, report
        self.stage = Usd.Stage.CreateInMemory()
        UsdGeom.SetStageUpAxis(self.stage, _turn_up(scene))
        UsdGeom.SetStageMetersPerUnit(self.stage, 1.0)
        UsdPhysics.SetStageKilogramsPerUnit(self.stage, 1.0)
        self.stage.SetDefaultPrim(UsdGeom.Xform.Define(self.stage, _ROOT).GetPrim())
        self.names: dict[Sdf.Path, Names] = {_ROOT: Names(prim_name, _RESERVED)}
        self.body_paths: dict[int, Sdf.Path | None] = {-1: None}
        self.shape_paths: dict[int, Sdf.Path] = {}
        self.joint_paths: dict[int, Sdf.Path] = {}

    def write(self) -> Usd.Stage:
        """Return the stage."""
        report_lost(self.scene, self.report)
        report_tendons(self.scene, self.report)
        self._write_physics_scene()
        shapes = ShapeWriter(self.stage, _ROOT.AppendChild("Materials"), self.report)
        self._write_shapes(shapes, static=True)
        self._write_bodies()
        self._write_shapes(shapes, static=False)
        filters = FilterWriter(self.scene, self.body_paths, self.shape_paths)
        jointed = self._write_joints(filters)
        filters.write_pairs(self.stage, jointed)
        filters.write_groups(self.stage, _ROOT.AppendChild("CollisionGroups"))
        ConstraintWriter(
            self.scene,
            self.stage,
            _ROOT.AppendChild("Constraints"),
            self.body_paths,
            self.joint_paths,
            self.report,
        ).write()
        if self.scene.keyframes:
            self.report.ignored("keyframes", "keyframes are left out")
        for name, body, pose in self.scene.sites:
            prim = UsdGeom.Xform.Define(self.stage, self._free_path(self.body_paths[body] or _ROOT, name))
            set_pose(prim.GetPrim(), pose)
        return self.stage

    def _free_path(self, parent: Sdf.Path, key: str) -> Sdf.Path:
        names = self.names.setdefault(parent, Names(prim_name))
        return parent.AppendChild(names.unique(key))

    def _write_physics_scene(self) -> None:
        own = UsdPhysics.Scene.Define(self.stage, _ROOT.AppendChild("PhysicsScene"))
        size = float(np.linalg.norm(self.scene.gravity))
        own.CreateGravityMagnitudeAttr(size)
        direction = self.scene.gravity / size if size > 0.0 else -np.eye(3)[2]
        own.CreateGravityDirectionAttr(vec3f(direction))

    # -- bodies ----------------------------------------------------------------------------------------------

    def _write_bodies(self) -> None:
        folders = self._folders()
        poses = initial_poses(self.scene)
        carried = {joint.child for joint in self.scene.joints if joint.parent >= 0 or not joint.is_rigid}
        for number, body in enumerate(self.scene.bodies):
            path = self._free_path(folders.get(number, _ROOT), body.key)
            self.body_paths[number] = path
            self.report.bodies[body.index] = str(path)
            prim = UsdGeom.Xform.Define(self.stage, path).GetPrim()
            set_pose(prim, poses[number])
            self._write_rigid_body(prim, body, number in carried)

    def _folders(self) -> dict[int, Sdf.Path]:
        """Prims of the articulations, by body; bodies that float alone stand below the root."""
        scene = self.scene
        starts = [start for start, _ in scene.articulations] + [len(scene.joints)]
        folders = {}
        for (start, key), end in zip(scene.articulations, starts[1:]):
            joints = scene.joints[start:end]
            if len(joints) == 1 and joints[0].kind == JointType.FREE:
                continue
            path = self._free_path(_ROOT, key)
            prim = UsdGeom.Xform.Define(self.stage, path).GetPrim()
            UsdPhysics.ArticulationRootAPI.Apply(prim)
            folders |= {joint.child: path for joint in joints}
        return folders

    def _write_rigid_body(self, prim: Usd.Prim, body: BodyRecord, carried: bool) -> None:
        schema = UsdPhysics.RigidBodyAPI.Apply(prim)
        if body.velocity.any():
            schema.CreateVelocityAttr(vec3f(body.velocity[3:]))
            schema.CreateAngularVelocityAttr(vec3f(np.degrees(body.velocity[:3])))
        if body.props.mass <= 0.0 and carried:
            # to UsdPhysics, a mass of zero is one that is not given
            attributes.set_flag(prim, "massless", True)
            if body.props.inertia.any():
                _write_moments(UsdPhysics.MassAPI.Apply(prim), body.props.inertia)
        elif body.props.mass <= 0.0:
            schema.CreateKinematicEnabledAttr(True)
        else:
            _write_mass(prim, body.props)

    # -- shapes and joints -----------------------------------------------------------------------------------

    def _write_shapes(self, writer: ShapeWriter, static: bool) -> None:
        """Write the shapes of the world or those of bodies."""
        for shape in self.scene.shapes:
            if (shape.body < 0) != static:
                continue
            path = self._free_path(self.body_paths[shape.body] or _ROOT, shape.key)
            if writer.write(path, shape) is not None:
                self.shape_paths[shape.row] = path

    def _write_joints(self, filters: FilterWriter) -> set[tuple[int, int]]:
        """Write the joints and return the pairs of bodies, lower first, that they keep apart."""
        writer = JointWriter(self.stage, self.body_paths, self.report)
        jointed = set()
        for number, joint in enumerate(self.scene.joints):
            if joint.kind in FLOATING:
                self._write_floating(joint)
            if joint.kind == JointType.FREE and joint.parent < 0:
                continue
            apart = joint.parent >= 0 and filters.apart(joint.parent, joint.child)
            folder = (self.body_paths[joint.child] or _ROOT).GetParentPath().AppendChild("Joints")
            path = self._free_path(folder, joint.key)
            writer.write(path, joint, collides=not apart)
            self.joint_paths[number] = path
            self.report.joints[joint.index] = [str(path)]
            if apart:
                jointed.add((min(joint.parent, joint.child), max(joint.parent, joint.child)))
        return jointed

    def _write_floating(self, joint: JointRecord) -> None:
        """Armature, damping and friction of the joint by which a body floats in the world."""
        given = {name: getattr(joint, field) for field, name in FLOATING_ATTRIBUTES.items()}
        given = {name: values for name, values in given.items() if values.any()}
        straight = abs(joint.X_p.q[3]) == abs(joint.X_c.q[3]) == 1.0
        even = all(np.ptp(values[:3]) == np.ptp(values[3:]) == 0.0 for values in given.values())
        path = self.body_paths[joint.child]
        if joint.kind == JointType.FREE and joint.parent < 0 and path is not None and (straight or even):
            for name, values in given.items():
                attributes.set_numbers(self.stage.GetPrimAtPath(path), name, values)
        elif given:
            message = "armature, damping and friction of a floating joint are left out"
            self.report.unsupported(joint.key, message)


def _write_mass(prim: Usd.Prim, props: MassProps) -> None:
    """Mass, centre of mass, and principal moments with their axes."""
    schema = UsdPhysics.MassAPI.Apply(prim)
    schema.CreateMassAttr(props.mass)
    schema.CreateCenterOfMassAttr(vec3f(props.com))
    _write_moments(schema, props.inertia)


def _write_moments(schema: UsdPhysics.MassAPI, inertia: np.ndarray) -> None:
    """Principal moments with their axes."""
    if np.count_nonzero(inertia - np.diag(np.diag(inertia))) == 0:
        moments, rotation = np.diag(inertia), Pose.identity().q
    else:
        moments, axes = np.linalg.eigh(inertia)
        if np.linalg.det(axes) < 0.0:
            axes[:, 2] = -axes[:, 2]
        rotation = quat_from_matrix(axes)
    schema.CreateDiagonalInertiaAttr(vec3f(moments))
    schema.CreatePrincipalAxesAttr(quatf(rotation))
