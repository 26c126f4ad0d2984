"""MJCF (MuJoCo XML) files."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from newtonsim.builder import ModelBuilder
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers.building.assemble import merge, scratch_builder, signed_gravity
from newtonsim.importers.files.arguments import ContactSettings, check_arguments, patterns
from newtonsim.importers.files.clock import limited_time
from newtonsim.importers.files.collection import without_collections
from newtonsim.importers.files.faults import REFUSE
from newtonsim.importers.files.report import ImportReport, Mend
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.build import SceneBuilder, up_rotation
from newtonsim.importers.mjcf.compose import read_mjcf
from newtonsim.importers.mjcf.keyframes import place_mocap_bodies, start_in_keyframe
from newtonsim.importers.mjcf.parse import Ignore, parse_scene
from newtonsim.importers.mjcf.plan import MjcfOptions
from newtonsim.importers.mjcf.records import Scene, assume_mujocos_defaults, scale_scene
from newtonsim.scene.enums import JointMode


class _Unsaid(int):
    """The default of `floating`, a False that can be distinguished from an explicit one."""

    def __repr__(self) -> str:
        return "False"


AS_IN_FILE: Any = _Unsaid(0)
"""Default of `floating` in `parse_mjcf`: equal to False, but not False itself."""


class _UnsaidGain(float):
    """A default of `stiffness` or `damping`, which can be distinguished from an explicit number."""


_STIFFNESS, _DAMPING = _UnsaidGain(100.0), _UnsaidGain(10.0)


def parse_mjcf(
    mjcf_filename: str | bytes | os.PathLike,
    builder: ModelBuilder,
    xform: Sequence | wp.transform | None = None,
    floating: bool | None = AS_IN_FILE,
    base_joint: str | Mapping | None = None,
    density: float = 1000.0,
    stiffness: float = _STIFFNESS,
    damping: float = _DAMPING,
    armature: float = 0.0,
    armature_scale: float = 1.0,
    contact_ke: float = 1.0e4,
    contact_kd: float = 1.0e3,
    contact_kf: float = 1.0e2,
    contact_ka: float = 0.0,
    contact_mu: float = 0.25,
    contact_restitution: float = 0.5,
    contact_thickness: float = 0.0,
    limit_ke: float = 100.0,
    limit_kd: float = 10.0,
    joint_limit_lower: float = -1e6,
    joint_limit_upper: float = 1e6,
    scale: float = 1.0,
    hide_visuals: bool = False,
    parse_visuals_as_colliders: bool = False,
    parse_meshes: bool = True,
    up_axis: str = "Z",
    ignore_names: Iterable[str] | None = (),
    ignore_classes: Iterable[str] | None = None,
    visual_classes: Iterable[str] | None = ("visual",),
    collider_classes: Iterable[str] | None = ("collision",),
    no_class_as_colliders: bool = True,
    force_show_colliders: bool = False,
    enable_self_collisions: bool = False,
    ignore_inertial_definitions: bool = True,
    ensure_nonstatic_links: bool = True,
    static_link_mass: float = 1e-2,
    collapse_fixed_joints: bool | None = False,
    verbose: bool = False,
    *,
    strict: bool = False,
    keyframe: str | int | None = None,
    mujoco_defaults: bool = False,
    single_axis_joints: bool = False,
) -> ImportReport:
    """Add the contents of an MJCF file to a builder.

    Bodies start in MuJoCo's reference pose (`qpos0`), where all our hinge and slide coordinates are zero: a
    coordinate of the file is ours plus the joint's `ref`. Limits, spring references and keyframes are shifted
    accordingly. Several joints of one body become one joint with these axes if that is exact, otherwise a
    chain with bodies of a millionth of the mass between them, named "<body>__<joint>".

    Example:
        >>> from newtonsim import ModelBuilder
        >>> builder = ModelBuilder(up_vector=(0, 0, 1))
        >>> text = '''<mujoco><worldbody><body name="pole"><joint name="hinge" axis="0 1 0"/>
        ... <geom type="capsule" size=".05" fromto="0 0 0 0 0 1"/></body></worldbody></mujoco>'''
        >>> report = parse_mjcf(text, builder)
        >>> report.joints, builder.joint_damping
        ({'hinge': 0}, [0.0])

    solref, solimp, solmix, priority and condim of geoms, solreflimit, solimplimit and margin of hinges and
    slides, solreffriction and solimpfriction of joints, solref and solimp of equalities and the parameters of
    pairs go into the arrays of the same names; if the file gives none, all of these have the solver's own
    stiffness, unless `mujoco_defaults` is given.

    Note:
        The interface that this function follows gives `floating` the default False, made for robots whose
        file does not say how they are held. Its meaning is: if `floating` is omitted, a body that the file
        lets float (`<freejoint/>`) stays free, with its seven coordinates, and roots without joints are
        fixed. Only an explicit False removes a free joint. The default compares equal to False.

    Args:
        mjcf_filename: File name, or the XML itself (text that starts with '<').
        builder: Receives the bodies; unchanged if the file is broken.
        xform: Pose of the file's world.
        floating: True: root bodies float; False: they are fixed to the world or attached by `base_joint`;
            omitted or None: as the file says, except for a `base_joint`. Root bodies here are those with a
            free joint, or, if the file has none, those without joints. Root bodies with hinges, slides or
            balls keep them.
        base_joint: "px,py,rz" for a D6 joint with these linear (p) and angular (r) axes of the root body's
            frame, or a dict with arguments of `ModelBuilder.add_joint`; used unless `floating` is True.
        density: Density of geoms without mass and density [kg/m^3].
        stiffness: Gain of the position drives [N m/rad or N/m] that hinges and slides receive in files
            without <actuator> section, as the report says; with `mujoco_defaults` none do where neither this
            nor `damping` is given, as in MuJoCo. In files with one, only its actuators are used; motors have
            no gains.
        damping: Damping of these drives. Passive damping, springs and friction are always those of the file.
        armature: Rotor inertia of joints for which the file gives none.
        armature_scale: Factor on the rotor inertias of the file.
        contact_ke: Contact stiffness [N/m].
        contact_kd: Contact damping [N s/m].
        contact_kf: Friction stiffness [N s/m].
        contact_ka: Adhesion distance [m].
        contact_mu: Coefficient of friction of geoms for which the file gives none.
        contact_restitution: Coefficient of restitution.
        contact_thickness: Thickness added to the shapes [m] of geoms for which the file gives no margin.
        limit_ke: Stiffness of joint limits [N m/rad or N/m].
        limit_kd: Damping of joint limits.
        joint_limit_lower: Lower limit of joints without limits [rad or m].
        joint_limit_upper: Upper limit of joints without limits [rad or m].
        scale: Factor on all lengths. Masses from the file are unchanged, inertias from the file scale with
            its square.
        hide_visuals: Make visual geoms invisible.
        parse_visuals_as_colliders: Let the visual geoms of a body collide instead of its colliders.
        parse_meshes: Whether geoms of type mesh are read at all.
        up_axis: Up axis of the file, "X", "Y" or "Z"; it is rotated to the builder's up vector.
        ignore_names: Regular expressions of bodies (with all below them) and joints to leave out.
        ignore_classes: The same for their classes (childclass of bodies).
        visual_classes: Regular expressions of classes whose geoms, and those of their subclasses, do not
            collide.
        collider_classes: Regular expressions of classes whose geoms collide, unless a nearer class says
            otherwise.
        no_class_as_colliders: Whether geoms without class collide. Geoms with contype and conaffinity 0 never
            do.
        force_show_colliders: Show colliders even of bodies that have visual geoms.
        enable_self_collisions: Let bodies of one kinematic tree collide, as contype, conaffinity, pairs and
            excludes say. Bodies of different trees always follow these rules.
        ignore_inertial_definitions: Compute mass and inertia from the geoms; bodies without any still use
            their <inertial>. If False, the result is that of MuJoCo.
        ensure_nonstatic_links: Give bodies without mass a small one. A `DefaultsWarning` names those that
            move on their own, which MuJoCo refuses, and so does `strict`.
        static_link_mass: That mass [kg].
        collapse_fixed_joints: Merge bodies that fixed joints connect; None for what `fusestatic` says.
        verbose: Print the report.
        strict: Raise at the first fault of the file, and for what nothing in newtonsim models. What a further
            call adds, such as gravity compensation and activations, is no reason: a warning and the report's
            entries of kind "deferred" name it, and `newtonsim.actuators.solver_from_report` makes these
            calls. Otherwise everything that MuJoCo compiles is read: XML that is not well-formed by its
            tags, and negative damping, friction, stiffness and armature as 0. A warning and the report's
            entries of kind "mended" say where. Inertia that no distribution of mass has (A + B < C), which
            MuJoCo refuses, is used as it is, and reported.
        keyframe: Name or number of the keyframe to start in; None for the reference pose. `builder.keyframes`
            always has all keyframes.
        mujoco_defaults: Use MuJoCo's defaults for what the file omits: solref and solimp of geoms, pairs,
            equalities, dry friction and limits of hinges and slides are its defaults, friction of geoms is
            (1, 0.005, 0.0001), whatever `contact_mu` says, and bodies without mass have their centre of mass
            where MuJoCo has it. Files without actuators get no drives, see `stiffness`. Contacts and
            constraints then have the softness that the file was tuned for; friction of two geoms is MuJoCo's
            with `FeatherstoneSolver(model, friction_combine="max")`.
        single_axis_joints: Make a joint of each hinge and slide of a body, so that it has their names, in a
            chain as above. The motion is the same.

    Returns:
        What happened to each body, joint and actuator, and what was ignored or approximated.

    Raises:
        ImportFileError: The file is broken; the message names file, line and element.
        ModelError: An argument is wrong, or the file has no such keyframe.
    """
    check_arguments(parse_mjcf, locals())
    if up_axis.upper() not in ("X", "Y", "Z"):
        raise ModelError(f"up_axis must be 'X', 'Y' or 'Z', got {up_axis!r}")
    unsaid = isinstance(stiffness, _UnsaidGain) and isinstance(damping, _UnsaidGain)
    if unsaid and mujoco_defaults:
        stiffness = damping = 0.0
    ignore = Ignore(patterns("ignore_names", ignore_names), patterns("ignore_classes", ignore_classes))
    report = ImportReport(format="mjcf")
    with limited_time(), without_collections():
        document = read_mjcf(mjcf_filename, report, REFUSE if strict else Mend(report))
        scene = parse_scene(document, report, ignore, parse_meshes)
        if mujoco_defaults:
            assume_mujocos_defaults(scene)
        scale_scene(scene, scale)
        report.name = scene.name
        turn = up_rotation(up_axis.upper(), builder.up_vector)
        contact = ContactSettings(
            contact_ke, contact_kd, contact_kf, contact_ka, contact_mu, contact_restitution, contact_thickness
        )
        options = MjcfOptions(
            xform=Pose.of(xform) @ turn,
            floating=None if floating is AS_IN_FILE else floating,
            base_joint=base_joint,
            density=density,
            stiffness=stiffness,
            damping=damping,
            armature=armature,
            armature_scale=armature_scale,
            contact=contact,
            limit_ke=limit_ke,
            limit_kd=limit_kd,
            joint_limit_lower=joint_limit_lower,
            joint_limit_upper=joint_limit_upper,
            scale=scale,
            hide_visuals=hide_visuals,
            parse_visuals_as_colliders=parse_visuals_as_colliders,
            visual_classes=patterns("visual_classes", visual_classes),
            collider_classes=patterns("collider_classes", collider_classes),
            no_class_as_colliders=no_class_as_colliders,
            force_show_colliders=force_show_colliders,
            enable_self_collisions=enable_self_collisions,
            ignore_inertial_definitions=ignore_inertial_definitions,
            ensure_nonstatic_links=ensure_nonstatic_links,
            static_link_mass=static_link_mass,
            single_axis_joints=single_axis_joints,
        )
        scratch = scratch_builder(builder)
        scene_builder = SceneBuilder(document, scene, options, scratch, report)
        scene_builder.build()
        if unsaid and not scene.has_actuators:
            _report_drives(scratch, report)
        if keyframe is not None:
            frame = scene.keyframes[start_in_keyframe(scratch, keyframe, report)]
            place_mocap_bodies(frame, scene, scene_builder.state, options, scratch, report)
        if scene.timestep is not None:
            scratch.solver_hint["timestep"] = scene.timestep
        scratch.solver_hint |= _medium_hints(scene, turn)
        collapse = document.compiler.fuse_static if collapse_fixed_joints is None else collapse_fixed_joints
        merge(builder, scratch, report, collapse, strict)
        report.count_elements(document.root)
    if scene.gravity is not None:
        builder.gravity = signed_gravity(quat_rotate(turn.q, scene.gravity), np.asarray(builder.up_vector))
    if verbose:
        sys.stdout.write(report.describe() + "\n")
    return report


def _report_drives(builder: ModelBuilder, report: ImportReport) -> None:
    """Report the drives that a file without actuators gets by default."""
    count = sum(mode == JointMode.TARGET_POSITION for mode in builder.joint_axis_mode)
    if count:
        report.approximated(
            None,
            f"without <actuator>, position drives with stiffness={_STIFFNESS:g} and damping={_DAMPING:g} "
            f"hold {count} joint axes, which MuJoCo does not have; stiffness=0, damping=0 leave them out",
        )


def _medium_hints(scene: Scene, turn: Pose) -> dict[str, float | list[float]]:
    """Density [kg/m³], viscosity [Pa s] and wind (3,) [m/s] of the file's medium in the builder's world."""
    hints: dict[str, float | list[float]] = {
        name: float(scene.medium[name][0]) for name in ("density", "viscosity") if name in scene.medium
    }
    if "wind" in scene.medium:
        hints["wind"] = quat_rotate(turn.q, scene.medium["wind"]).tolist()
    return hints
