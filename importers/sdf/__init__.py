"""SDF (SDFormat) files."""

import os
from collections.abc import Iterable, Mapping, Sequence

import warp as wp

from newtonsim.builder import ModelBuilder
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers.building.assemble import merge, scratch_builder, signed_gravity
from newtonsim.importers.files.arguments import ContactSettings, check_arguments
from newtonsim.importers.files.clock import limited_time
from newtonsim.importers.files.collection import without_collections
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.sdf.build import SceneBuilder, SdfOptions
from newtonsim.importers.sdf.document import Document
from newtonsim.importers.sdf.parse import parse_scene


def parse_sdf(
    sdf_filename: str | bytes | os.PathLike,
    builder: ModelBuilder,
    xform: Sequence | wp.transform | None = None,
    density: float = 1000.0,
    armature: float = 0.0,
    contact_ke: float = 1.0e4,
    contact_kd: float = 1.0e3,
    contact_kf: float = 1.0e2,
    contact_ka: float = 0.0,
    contact_thickness: float = 0.0,
    limit_ke: float = 100.0,
    limit_kd: float = 10.0,
    scale: float = 1.0,
    hide_visuals: bool = False,
    force_show_colliders: bool = False,
    ensure_nonstatic_links: bool = True,
    static_link_mass: float = 1e-2,
    collapse_fixed_joints: bool = False,
    *,
    merge_mesh_objects: bool = False,
    strict: bool = False,
    package_paths: Iterable[str | os.PathLike] | Mapping[str, str] = (),
) -> ImportReport:
    """Add the world or the models of an SDFormat file to a builder.

    Links start where the file places them, at joint coordinates of zero. Links of static models become part
    of the world, other links without a joint above them float. Joints that close loops become loop
    constraints. The up axis is z and is not rotated: use a builder with `up_vector=(0, 0, 1)` or an `xform`.
    A file with a <world> sets the builder's gravity, which is (0, 0, -9.8) unless the file says otherwise.

    Names are those of the file, with the names of the models around them: "model::link". For a file with one
    model and no world, the model's name is omitted.

    Example:
        >>> from newtonsim import ModelBuilder
        >>> builder = ModelBuilder(up_vector=(0, 0, 1))
        >>> text = '''<sdf version="1.9"><model name="ball"><link name="body"><inertial auto="true"/>
        ... <collision name="c"><geometry><sphere><radius>0.1</radius></sphere></geometry></collision>
        ... </link></model></sdf>'''
        >>> report = parse_sdf(text, builder)
        >>> report.bodies, round(builder.body_mass[0], 3)
        ({'body': 0}, 4.189)

    Args:
        sdf_filename: File name, or the XML itself (text that starts with '<').
        builder: Receives the models; unchanged if the file is broken.
        xform: Pose of the file's world.
        density: Density of collisions [kg/m^3] if the file asks for a computed mass and gives none.
        armature: Rotor inertia of every joint axis [kg m^2 or kg].
        contact_ke: Contact stiffness [N/m].
        contact_kd: Contact damping [N s/m].
        contact_kf: Friction stiffness [N s/m].
        contact_ka: Adhesion distance [m].
        contact_thickness: Thickness added to the shapes [m].
        limit_ke: Stiffness of joint limits [N m/rad or N/m].
        limit_kd: Damping of joint limits.
        scale: Factor on all lengths. Masses from the file are unchanged, inertias from the file scale with
            its square.
        hide_visuals: Make visual shapes invisible.
        force_show_colliders: Show collision shapes even of links that have visuals.
        ensure_nonstatic_links: Give moving links without mass a small one, with a `DefaultsWarning`.
        static_link_mass: That mass [kg].
        collapse_fixed_joints: Merge links that fixed joints connect.
        merge_mesh_objects: Collide with one hull around all objects of a Wavefront mesh on a body, not with a
            hull around each; files of convex decompositions have one object for each part.
        strict: Raise instead of warning about what is read but not modelled, and for inertia that no
            distribution of mass has (A + B < C), which otherwise is used as it is, and reported.
        package_paths: Where model:// and package:// are searched for, before the folders of the environment
            variables SDF_PATH, GZ_SIM_RESOURCE_PATH, IGN_GAZEBO_RESOURCE_PATH and GAZEBO_MODEL_PATH and the
            file's parent folders: folders that contain models or are one, or a mapping from name to folder.

    Returns:
        What happened to each link and joint, and what was ignored or approximated. `bodies` is -1 for links
        of static models; free joints are named "<link>_free".

    Raises:
        ImportFileError: The file is broken; the message names file, line and element.
        ModelError: An argument is wrong.
    """
    check_arguments(parse_sdf, locals())
    report = ImportReport(format="sdf")
    with limited_time(), without_collections():
        document = Document(sdf_filename, package_paths, report)
        scene = parse_scene(document, report)
        report.name = scene.name
        contact = ContactSettings(contact_ke, contact_kd, contact_kf, contact_ka, 1.0, 0.0, contact_thickness)
        options = SdfOptions(
            xform=Pose.of(xform),
            density=density,
            armature=armature,
            contact=contact,
            limit_ke=limit_ke,
            limit_kd=limit_kd,
            scale=scale,
            hide_visuals=hide_visuals,
            force_show_colliders=force_show_colliders,
            ensure_nonstatic_links=ensure_nonstatic_links,
            static_link_mass=static_link_mass,
            merge_mesh_objects=merge_mesh_objects,
        )
        scratch = scratch_builder(builder)
        SceneBuilder(scene, options, scratch, report).build()
        if scene.timestep is not None:
            scratch.solver_hint["timestep"] = scene.timestep
        merge(builder, scratch, report, collapse_fixed_joints, strict)
        for root in (document.root, *document.included):
            report.count_elements(root)
    if scene.gravity is not None:
        vector = quat_rotate(options.xform.q, scene.gravity)
        builder.gravity = signed_gravity(vector, builder.up_vector)
    return report
