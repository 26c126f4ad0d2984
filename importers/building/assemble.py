"""What all importers share when records become builder content.

An importer fills a scratch builder and adds it to the caller's in one step at the end, so that a file that
fails halfway leaves the caller's builder as it was, and so that options like `collapse_fixed_joints` touch
nothing else.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from newtonsim.builder import JointAxis, ModelBuilder
from newtonsim.errors import ImportFileError, ModelError
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.pose import Pose
from newtonsim.scene.enums import JointType

_BODY_NUMBERS = ("body_q", "body_com", "body_mass", "body_inertia")
_SHAPE_NUMBERS = ("shape_transform", "shape_geo_scale")
_LETTERS = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
_LINEAR, _ANGULAR = "pl", "ra"


def scratch_builder(builder: ModelBuilder) -> ModelBuilder:
    """Make an empty builder with the settings of another."""
    scratch = ModelBuilder(up_vector=tuple(builder.up_vector), gravity=builder.gravity)
    for name, value in vars(builder).items():
        if name.startswith("default_"):
            setattr(scratch, name, value)
    return scratch


def _check_finite(scratch: ModelBuilder, report: ImportReport) -> None:
    """Raise when a number is too large for the single precision of device arrays."""
    limit = float(np.finfo(np.float32).max)
    for names, keys in ((_BODY_NUMBERS, scratch.body_key), (_SHAPE_NUMBERS, scratch.shape_key)):
        for name in names:
            values = getattr(scratch, name)
            if not values:
                continue
            rows = np.array(values, dtype=np.float64).reshape(len(values), -1)
            wrong = ~(np.abs(rows) < limit).all(axis=1)
            if wrong.any():
                key = keys[int(np.argmax(wrong))]
                raise ImportFileError(f"{name} of {key!r} is too large for single precision", report.path)


def merge(
    builder: ModelBuilder, scratch: ModelBuilder, report: ImportReport, collapse: bool, strict: bool
) -> None:
    """Add the finished scratch builder to the caller's and turn the report's indices into the caller's.

    Before that the importer warns of what is not modelled and of masses that the file does not give, or
    raises with `strict`.
    """
    report.settle_unsupported(strict, stacklevel=3)
    report.warn_of_masses(stacklevel=3)
    finish(scratch, report, collapse)
    append(builder, scratch, report)


def finish(scratch: ModelBuilder, report: ImportReport, collapse: bool) -> dict | None:
    """Check a scratch builder and merge its welded bodies if asked to; the report follows.

    Returns:
        What `ModelBuilder.collapse_fixed_joints` returned, None without it.
    """
    _check_finite(scratch, report)
    if not collapse:
        return None
    masses = list(scratch.body_mass)
    remap = scratch.collapse_fixed_joints(verbose=False)
    bodies = {**remap["body_remap"], **remap["body_merged_parent"]}
    joints = remap["joint_remap"]
    report.gravcomp = _merged_gravcomp(report.gravcomp, masses, scratch, remap)
    report.bodies = {name: bodies.get(index, index) for name, index in report.bodies.items()}
    report.joints = {name: joints[index] for name, index in report.joints.items() if index in joints}
    return remap


def _merged_gravcomp(
    given: dict[int, tuple[float, tuple[float, ...]]], masses: list[float], merged: ModelBuilder, remap: dict
) -> dict[int, tuple[float, tuple[float, ...]]]:
    """Shares of the weight that are carried after bodies were merged: one force at the centre of all.

    Args:
        given: Share and point by body, before.
        masses: Of the bodies before.
        merged: The builder after.
        remap: What `ModelBuilder.collapse_fixed_joints` returned.
    """
    moments: dict[int, np.ndarray] = {}
    for index, (share, point) in given.items():
        body, place = remap["body_remap"].get(index), np.array(point)
        if body is None:
            body = remap["body_merged_parent"][index]
            place = Pose.of(remap["body_merged_transform"][index]).apply(place)
        moments[body] = moments.get(body, 0.0) + share * masses[index] * np.append(place, 1.0)
    result = {}
    for body, moment in moments.items():
        if body >= 0 and moment[3] != 0.0:
            result[body] = (float(moment[3] / merged.body_mass[body]), tuple(moment[:3] / moment[3]))
    return result


def append(
    builder: ModelBuilder,
    scratch: ModelBuilder,
    report: ImportReport,
    xform: Sequence | None = None,
    new_world: bool = False,
) -> None:
    """Add a finished scratch builder to the caller's and turn the report's indices into the caller's.

    Args:
        builder: The caller's.
        scratch: What is added.
        report: Of that import.
        xform: Where to, see `ModelBuilder.add_builder`.
        new_world: Whether it becomes a world of its own.
    """
    body, joint, shape = builder.body_count, builder.joint_count, builder.shape_count
    constraint, tendon = builder.constraint_count, builder.tendon_count
    coord, dof, axis = builder.joint_coord_count, builder.joint_dof_count, builder.joint_axis_count
    builder.add_builder(scratch, xform, update_num_env_count=new_world, separate_collision_group=False)
    report.bodies = {name: index + body if index >= 0 else -1 for name, index in report.bodies.items()}
    report.gravcomp = {index + body: share for index, share in report.gravcomp.items()}
    report.joints = {name: index + joint for name, index in report.joints.items()}
    report.constraints = {name: index + constraint for name, index in report.constraints.items()}
    report.joint_coords = {name: index + coord for name, index in report.joint_coords.items()}
    report.joint_dofs = {name: index + dof for name, index in report.joint_dofs.items()}
    report.shapes = {name: [index + shape for index in indices] for name, indices in report.shapes.items()}
    report.tendons = {name: index + tendon for name, index in report.tendons.items()}
    for actuator in report.actuators:
        if actuator["axis"] is not None:
            actuator["axis"] += axis
        if actuator.get("tendon") is not None:
            actuator["tendon"] += tendon


def base_joint_axes(text: str) -> tuple[list[JointAxis], list[JointAxis]]:
    """Read a base joint such as "px,py,rz": linear axes p, angular axes r, in this order."""
    linear, angular = [], []
    for word in (part.strip().lower() for part in text.split(",") if part.strip()):
        if len(word) != 2 or word[0] not in _LINEAR + _ANGULAR or word[1] not in _LETTERS:
            raise ModelError(f"base_joint {text!r}: {word!r} is none of px, py, pz, rx, ry, rz")
        (linear if word[0] in _LINEAR else angular).append(JointAxis(_LETTERS[word[1]]))
    if not linear and not angular:
        raise ModelError("base_joint does not name an axis")
    return linear, angular


def add_base(
    builder: ModelBuilder, child: int, pose: Pose, floating: bool, base_joint: str | Mapping | None, key: str
) -> int:
    """Connect a root body to the world: by a free joint, the caller's base joint, or a fixed joint.

    Args:
        builder: Receives the joint.
        child: The root body.
        pose: Its pose in the world at the joint's zero.
        floating: Make it a free joint.
        base_joint: "px,py,rz" or arguments of `ModelBuilder.add_joint`.
        key: Name of the joint unless `base_joint` has one.
    """
    if floating:
        return builder.add_joint_free(child, key=key)
    if base_joint is None:
        return builder.add_joint_fixed(
            -1, child, parent_xform=pose.warp(), key=key, collision_filter_parent=False
        )
    if isinstance(base_joint, str):
        linear, angular = base_joint_axes(base_joint)
        return builder.add_joint(
            JointType.D6,
            -1,
            child,
            linear_axes=linear,
            angular_axes=angular,
            parent_xform=pose.warp(),
            key=key,
            armature=0.0,
            collision_filter_parent=False,
        )
    arguments = {"parent_xform": pose.warp(), "key": key, "collision_filter_parent": False, **base_joint}
    if "joint_type" not in arguments:
        raise ModelError(
            "base_joint: a dict needs 'joint_type' and further arguments of ModelBuilder.add_joint"
        )
    arguments["parent"], arguments["child"] = -1, child
    try:
        return builder.add_joint(**arguments)
    except TypeError as error:
        raise ModelError(f"base_joint: {error}") from error


def signed_gravity(vector: np.ndarray, up: np.ndarray) -> float | np.ndarray:
    """Gravity as a number along the up vector, or as a vector where it points elsewhere."""
    along = float(vector @ up) / float(np.linalg.norm(up))
    if np.linalg.norm(vector - along * up / np.linalg.norm(up)) < 1.0e-9 * max(1.0, np.linalg.norm(vector)):
        return along
    return vector
