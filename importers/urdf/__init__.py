"""URDF files."""

import os
from collections.abc import Iterable, Mapping, Sequence

import warp as wp

from newtonsim.builder import ModelBuilder
from newtonsim.importers.building.assemble import merge, scratch_builder
from newtonsim.importers.files.arguments import ContactSettings, check_arguments
from newtonsim.importers.files.clock import limited_time
from newtonsim.importers.files.collection import without_collections
from newtonsim.importers.files.faults import REFUSE
from newtonsim.importers.files.report import ImportReport, Mend
from newtonsim.importers.files.resolve import FileResolver
from newtonsim.importers.files.tolerant_xml import read_tolerantly
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.urdf.build import RobotBuilder, UrdfOptions
from newtonsim.importers.urdf.parse import parse_robot


def parse_urdf(
    urdf_filename: str | bytes | os.PathLike,
    builder: ModelBuilder,
    xform: Sequence | wp.transform | None = None,
    floating: bool = False,
    base_joint: str | Mapping | None = None,
    density: float = 1000.0,
    stiffness: float = 100.0,
    damping: float = 10.0,
    armature: float = 0.0,
    contact_ke: float = 1.0e4,
    contact_kd: float = 1.0e3,
    contact_kf: float = 1.0e2,
    contact_ka: float = 0.0,
    contact_mu: float = 0.25,
    contact_restitution: float = 0.0,
    contact_thickness: float = 0.0,
    limit_ke: float = 100.0,
    limit_kd: float = 10.0,
    joint_limit_lower: float = -1e6,
    joint_limit_upper: float = 1e6,
    scale: float = 1.0,
    hide_visuals: bool = False,
    parse_visuals_as_colliders: bool = False,
    force_show_colliders: bool = False,
    enable_self_collisions: bool = True,
    ignore_inertial_definitions: bool = True,
    ensure_nonstatic_links: bool = True,
    static_link_mass: float = 1e-2,
    collapse_fixed_joints: bool = False,
    *,
    merge_mesh_objects: bool = False,
    strict: bool = False,
    package_paths: Iterable[str | os.PathLike] | Mapping[str, str] = (),
) -> ImportReport:
    """Add the robot of a URDF file to a builder.

    Joint coordinates start at zero, clamped to the limits, and `body_q` agrees with them. The up axis of URDF
    is z and is not rotated: use a builder with `up_vector=(0, 0, 1)` or an `xform`.

    Example:
        >>> from newtonsim import ModelBuilder
        >>> builder = ModelBuilder(up_vector=(0, 0, 1))
        >>> text = '''<robot name="ball"><link name="body"><collision><geometry><sphere radius="0.1"/>
        ... </geometry></collision></link></robot>'''
        >>> report = parse_urdf(text, builder, floating=True)
        >>> report.bodies, round(builder.body_mass[0], 3)
        ({'body': 0}, 4.189)

    Args:
        urdf_filename: File name, or the XML itself (text that starts with '<').
        builder: Receives the robot; unchanged if the file is broken.
        xform: Pose of the root link in the world.
        floating: Give the root link a free joint. Otherwise it is fixed to the world or attached by
            `base_joint`.
        base_joint: "px,py,rz" for a D6 joint with these linear (p) and angular (r) axes of the root link's
            frame, or a dict with arguments of `ModelBuilder.add_joint`.
        density: Density of collision shapes [kg/m^3] if the mass is computed from them. A `DefaultsWarning`
            names moving links that get their mass so because the file gives none.
        stiffness: Gain of the position drives [N m/rad or N/m] that all joints receive when this or `damping`
            is above zero; they hold the initial coordinates. Zero for both leaves the joints passive.
        damping: Damping of these drives [N m s/rad or N s/m]. Passive damping is that of the file's
            <dynamics>.
        armature: Rotor inertia of every joint except fixed and floating ones [kg m^2 or kg].
        contact_ke: Contact stiffness [N/m].
        contact_kd: Contact damping [N s/m].
        contact_kf: Friction stiffness [N s/m].
        contact_ka: Adhesion distance [m].
        contact_mu: Coefficient of friction.
        contact_restitution: Coefficient of restitution; URDF has no element for it. The interface that this
            function follows has the default 0.5, by which feet and grippers bounce that nobody said do so;
            here it is 0 on purpose, as in PyBullet. Pass 0.5 for that interface's contacts.
        contact_thickness: Thickness added to the shapes [m].
        limit_ke: Stiffness of joint limits [N m/rad or N/m].
        limit_kd: Damping of joint limits.
        joint_limit_lower: Lower limit of joints for which the file gives none [rad or m].
        joint_limit_upper: Upper limit of joints for which the file gives none [rad or m].
        scale: Factor on all lengths. Masses from the file are unchanged, inertias from the file scale with
            its square.
        hide_visuals: Make visual shapes invisible.
        parse_visuals_as_colliders: Collide with the <visual> geometry instead of the <collision> geometry.
        force_show_colliders: Show collision shapes even of links that have visuals.
        enable_self_collisions: Let links that are not neighbours collide. Rigidly joined links count as one.
        ignore_inertial_definitions: Compute mass and inertia from the geometry; links without such geometry
            still use their <inertial>. If False, <inertial> is used, and the geometry only where it is
            missing.
        ensure_nonstatic_links: Give links without mass a small one. A `DefaultsWarning` names those that
            move on their own. If False, only those receive a mass and an inertia, too small for M(q) to show
            them.
        static_link_mass: That mass [kg].
        collapse_fixed_joints: Merge links that fixed joints connect.
        merge_mesh_objects: Collide with one hull around all objects of a Wavefront mesh on a body, not with a
            hull around each; files of convex decompositions have one object for each part.
        strict: Raise at the first fault of the file, and instead of warning about what is read but not
            modelled. Otherwise faults that other URDF readers tolerate are repaired: numbers with trailing
            characters, XML that is not well-formed, negative damping, meshes that are missing or cannot be
            read, several root links. A warning and the report's entries of kind "mended" say where, and what
            was assumed. Inertia that no distribution of mass has (A + B < C) is used as it is, and reported,
            and so are moving links without mass; both are refused.
        package_paths: Where package:// is searched for before ROS_PACKAGE_PATH and the file's parent folders:
            folders that contain packages or are one, or a mapping from package name to folder.

    Returns:
        What happened to each link and joint, and what was ignored or approximated.

    Raises:
        ImportFileError: The file is broken; the message names file, line and element.
        ModelError: An argument is wrong.
    """
    check_arguments(parse_urdf, locals())
    report = ImportReport(format="urdf")
    faults = REFUSE if strict else Mend(report)
    with limited_time(), without_collections():
        root, folder, notes = read_tolerantly(urdf_filename, faults)
        report.path = root.path
        for note in notes:
            report.ignored(None, note)
        robot = parse_robot(root, FileResolver(folder, package_paths), report, faults)
        report.name = robot.name
        contact = ContactSettings(
            contact_ke, contact_kd, contact_kf, contact_ka, contact_mu, contact_restitution, contact_thickness
        )
        options = UrdfOptions(
            xform=Pose.of(xform),
            floating=floating,
            base_joint=base_joint,
            density=density,
            stiffness=stiffness,
            damping=damping,
            armature=armature,
            contact=contact,
            limit_ke=limit_ke,
            limit_kd=limit_kd,
            joint_limit_lower=joint_limit_lower,
            joint_limit_upper=joint_limit_upper,
            scale=scale,
            hide_visuals=hide_visuals,
            parse_visuals_as_colliders=parse_visuals_as_colliders,
            force_show_colliders=force_show_colliders,
            enable_self_collisions=enable_self_collisions,
            ignore_inertial_definitions=ignore_inertial_definitions,
            ensure_nonstatic_links=ensure_nonstatic_links,
            static_link_mass=static_link_mass,
            merge_mesh_objects=merge_mesh_objects,
        )
        scratch = scratch_builder(builder)
        RobotBuilder(robot, options, scratch, report, faults).build()
        merge(builder, scratch, report, collapse_fixed_joints, strict)
        report.count_elements(root)
    return report
