"""One import from the opened stage to the caller's builder."""

from dataclasses import dataclass, field

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.importers.building.assemble import append, finish, scratch_builder, signed_gravity
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.usd.build import Readers, StageBuilder
from newtonsim.importers.usd.clone import Clones, find_clones, named_after, part, prim_at, renamed
from newtonsim.importers.usd.colliders import ShapeReader
from newtonsim.importers.usd.content import cameras_of, collect, count_prims, keep_owned, lights_of
from newtonsim.importers.usd.filters import Groups
from newtonsim.importers.usd.materials import Materials
from newtonsim.importers.usd.records import Content
from newtonsim.importers.usd.scene import Defaults, Scenes, read_scenes
from newtonsim.importers.usd.walk import Walker


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Arguments of `parse_usd` about the whole import."""

    root_path: str
    cloned_env: str | None
    only_warp: bool
    invert_rotations: bool
    strict: bool


@dataclass(slots=True)
class _Part:
    """What becomes one scratch builder: the scene, or the environment that is copied."""

    scratch: ModelBuilder
    report: ImportReport
    scales: dict[str, np.ndarray] = field(default_factory=dict)
    remap: dict | None = None


def load(
    walker: Walker, builder: ModelBuilder, defaults: Defaults, report: ImportReport, options: LoadOptions
) -> dict:
    """Read the stage of a walker into a builder, which changes only when all went well.

    Returns:
        The result of `parse_usd`.
    """
    view = walker.view
    prim_at(walker, options.root_path, "root_path")
    scenes = read_scenes(view, report, options.only_warp)
    defaults = defaults.on(scenes.chosen)
    clones = None
    if options.cloned_env is not None:
        clones = find_clones(walker, options.cloned_env, options.root_path)
        walker.left_out = frozenset(clones.poses) - {clones.path}
    content = collect(walker, options.root_path, report)
    if options.only_warp:
        keep_owned(content, scenes, walker)
    shapes, materials = ShapeReader(report), Materials(view, report)
    readers = Readers(
        walker, scenes, defaults, materials, shapes, Groups(view, report), options.invert_rotations
    )
    main, copied = _Part(scratch_builder(builder), report), None
    if clones is None:
        _build(main, readers, content)
    else:
        copied = _Part(scratch_builder(builder), ImportReport(report.path, format="usd"))
        _build(main, readers, part(content, lambda label: not clones.holds(label)))
        _build(copied, readers, part(content, clones.holds))
        report.entries += copied.report.entries
    count_prims(content, report)
    report.settle_unsupported(options.strict, stacklevel=3)
    for one in (main, copied):
        if one is not None:
            one.remap = finish(one.scratch, one.report, defaults.collapse_fixed_joints)
    if scenes.timestep is not None:
        main.scratch.solver_hint["timestep"] = scenes.timestep
    append(builder, main.scratch, report)
    if copied is not None:
        _append_copies(builder, main, copied, clones)
    if scenes.gravity is not None:
        builder.gravity = signed_gravity(scenes.gravity, np.asarray(builder.up_vector))
    return _result(walker, main if copied is None else copied, main, scenes, content)


def _build(one: _Part, readers: Readers, content: Content) -> None:
    stage_builder = StageBuilder(readers, content, one.scratch, one.report)
    stage_builder.build()
    one.scales = stage_builder.scales


def _append_copies(builder: ModelBuilder, main: _Part, copied: _Part, clones: Clones) -> None:
    """Add the environment at the place of each of its siblings, as worlds; the main report learns of all."""
    report = main.report
    for path, pose in clones.poses.items():
        names = renamed(copied.report, clones.path, path)
        scratch = copied.scratch if path == clones.path else named_after(copied.scratch, clones.path, path)
        append(builder, scratch, names, pose.row(), new_world=True)
        for name in ("bodies", "joints", "joint_dofs", "joint_coords", "constraints", "shapes"):
            getattr(report, name).update(getattr(names, name))
        main.scales.update(
            {path + label[len(clones.path) :]: scale for label, scale in copied.scales.items()}
        )


def _result(walker: Walker, collapsed: _Part, main: _Part, scenes: Scenes, content: Content) -> dict:
    """What `parse_usd` returns."""
    view, report = walker.view, main.report
    stage = view.stage
    return {
        "fps": stage.GetFramesPerSecond(),
        "duration": stage.GetEndTimeCode() - stage.GetStartTimeCode(),
        "up_axis": view.up_axis,
        "path_shape_map": {label: indices[0] for label, indices in report.shapes.items()},
        "path_body_map": dict(report.bodies),
        "path_shape_scale": main.scales,
        "path_joint_map": dict(report.joints),
        "path_constraint_map": dict(report.constraints),
        "mass_unit": view.units.mass,
        "linear_unit": view.units.length,
        "scene_attributes": scenes.attributes(),
        "collapse_results": collapsed.remap,
        "cameras": cameras_of(content, view.units.length),
        "lights": lights_of(content),
        "report": report,
    }
