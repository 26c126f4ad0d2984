"""USD files with UsdPhysics schemas."""

import sys
from collections.abc import Iterable, Sequence

import warp as wp

from newtonsim.builder import ModelBuilder
from newtonsim.importers.files.arguments import ContactSettings, check_arguments, patterns
from newtonsim.importers.files.clock import limited_time
from newtonsim.importers.files.faults import REFUSE
from newtonsim.importers.files.report import ImportReport, Mend
from newtonsim.importers.usd.load import LoadOptions, load
from newtonsim.importers.usd.scene import Defaults
from newtonsim.importers.usd.stage import faults_named, opened, view_stage
from newtonsim.importers.usd.walk import Walker


def parse_usd(
    source: object,
    builder: ModelBuilder,
    xform: Sequence | wp.transform | None = None,
    default_density: float = 1.0e3,
    only_load_enabled_rigid_bodies: bool = False,
    only_load_enabled_joints: bool = True,
    only_load_warp_scene: bool = False,
    contact_ke: float = 1.0e5,
    contact_kd: float = 250.0,
    contact_kf: float = 500.0,
    contact_ka: float = 0.0,
    contact_mu: float = 0.6,
    contact_restitution: float = 0.0,
    contact_thickness: float = 0.0,
    joint_limit_ke: float = 100.0,
    joint_limit_kd: float = 10.0,
    armature: float = 0.0,
    joint_drive_gains_scaling: float = 1.0,
    invert_rotations: bool = False,
    verbose: bool | None = None,
    ignore_paths: Iterable[str] | None = None,
    cloned_env: str | None = None,
    collapse_fixed_joints: bool = False,
    root_path: str = "/",
    *,
    strict: bool = False,
) -> dict:
    """Add the rigid bodies, joints and shapes of a USD stage to a builder.

    Lengths, masses and derived units become metres and kilograms, and the stage's up axis is rotated to the
    builder's up vector. The builder's gravity becomes that of the PhysicsScene. Joint coordinates start at
    the poses of the stage's bodies. The stage is only read. `docs/usd.md` says how each part of UsdPhysics is
    modelled.

    An attribute "warp:<argument>" of the PhysicsScene replaces an argument from `contact_ke` to
    `joint_drive_gains_scaling` or `collapse_fixed_joints`, and one of a shape, joint or body replaces those
    that concern it; the numbers are in SI units, as the arguments.

    Example:
        >>> from newtonsim import ModelBuilder
        >>> from pxr import Usd, UsdGeom, UsdPhysics
        >>> stage = Usd.Stage.CreateInMemory()
        >>> ball = UsdGeom.Sphere.Define(stage, "/ball")
        >>> _ = ball.CreateRadiusAttr(10.0), UsdGeom.SetStageMetersPerUnit(stage, 0.01)
        >>> for api in (UsdPhysics.RigidBodyAPI, UsdPhysics.CollisionAPI):
        ...     _ = api.Apply(ball.GetPrim())
        >>> builder = ModelBuilder()
        >>> result = parse_usd(stage, builder)
        >>> result["path_body_map"], round(builder.body_mass[0], 3)
        ({'/ball': 0}, 4.189)

    Args:
        source: File name, http or https URL, or `pxr.Usd.Stage`.
        builder: Receives the scene; unchanged if the stage is broken.
        xform: Pose of the rotated stage.
        default_density: Density of colliders for which the stage gives none [kg/m^3].
        only_load_enabled_rigid_bodies: Treat bodies with rigidBodyEnabled = False as if they had no
            RigidBodyAPI: their colliders do not move. Otherwise they are loaded as if enabled.
        only_load_enabled_joints: Leave out joints with jointEnabled = False. Otherwise they are loaded with
            `joint_enabled` 0, which not every solver respects.
        only_load_warp_scene: Load only bodies and colliders of PhysicsScenes that Warp simulates: with the
            schema WarpSceneAPI or an attribute "warp:...".
        contact_ke: Contact stiffness [N/m].
        contact_kd: Contact damping [N s/m].
        contact_kf: Friction stiffness [N s/m].
        contact_ka: Adhesion distance [m].
        contact_mu: Coefficient of friction if no material has one.
        contact_restitution: Coefficient of restitution if no material has one.
        contact_thickness: Thickness added to the shapes [m].
        joint_limit_ke: Stiffness of joint limits [N m/rad or N/m].
        joint_limit_kd: Damping of joint limits.
        armature: Artificial inertia added to the diagonal of bodies [kg m^2].
        joint_drive_gains_scaling: Factor on stiffness and damping of drives.
        invert_rotations: Invert the rotations of shapes in their bodies.
        verbose: Print the report; None for `wp.config.verbose`.
        ignore_paths: Regular expressions of prim paths that are left out with all below them.
        cloned_env: Path of an environment; its siblings of the same type are not read, but become copies of
            it, each in its own world.
        collapse_fixed_joints: Merge bodies that fixed joints connect.
        root_path: Read only this prim and what is below it.
        strict: Raise instead of warning about what is read but not modelled, for inertia that no distribution
            of mass has (A + B < C), which otherwise is used as it is, and reported, and for sublayers,
            references and payloads that are missing, which otherwise are left out with a warning.

    Returns:
        A dict with

        - "fps", "duration": frames per second, and end minus start time code;
        - "up_axis", "mass_unit", "linear_unit": up axis of the stage, kilograms and metres per unit;
        - "path_body_map", "path_shape_map", "path_joint_map", "path_constraint_map": index by prim path of
            each rigid body, shape (the first, if a mesh was decomposed), joint of a kinematic tree (the
            free joint of a root: the body's path and "_free") and joint outside of it;
        - "path_shape_scale": scale (3,) of each shape's prim in the stage;
        - "scene_attributes": all attributes of the PhysicsScene that is used;
        - "collapse_results": what `ModelBuilder.collapse_fixed_joints` returned, with indices before and
            after it counted from 0 for the stage (with `cloned_env`, for the environment), or None;
        - "cameras": by prim path, pose in the world [m, xyzw], looking along -z with y up, body that carries
            it, clipping range and focus distance [m], lens as in the stage (tenths of its unit);
        - "lights": by prim path, type, pose, shining along -z, body, colour, brightness, and under "inputs"
        all its attributes, as in the stage;
        - "report": the `ImportReport`, with all shapes of each prim, coordinates and remarks.

    Raises:
        ImportFileError: The stage is broken; the message names file, prim, attribute and value, and line and
            column in layers of text.
        ModelError: An argument is wrong.
    """
    check_arguments(parse_usd, locals())
    contact = ContactSettings(
        contact_ke, contact_kd, contact_kf, contact_ka, contact_mu, contact_restitution, contact_thickness
    )
    defaults = Defaults(
        default_density,
        contact,
        joint_limit_ke,
        joint_limit_kd,
        armature,
        joint_drive_gains_scaling,
        collapse_fixed_joints,
    )
    ignore = patterns("ignore_paths", ignore_paths)
    report = ImportReport(format="usd")
    with limited_time(), opened(source) as (stage, path):
        report.path = path
        with faults_named(path):
            view = view_stage(stage, path, xform, builder.up_vector, REFUSE if strict else Mend(report))
            walker = Walker(view, report, ignore, only_load_enabled_rigid_bodies, only_load_enabled_joints)
            options = LoadOptions(root_path, cloned_env, only_load_warp_scene, invert_rotations, strict)
            result = load(walker, builder, defaults, report, options)
    if getattr(wp.config, "verbose", False) if verbose is None else verbose:
        sys.stdout.write(report.describe() + "\n")
    return result
