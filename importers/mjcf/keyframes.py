"""Keyframes: MuJoCo's qpos, qvel and ctrl in the coordinates of newtonsim."""

import numpy as np
import warp as wp

from newtonsim.builder import ModelBuilder
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.laws import state_count
from newtonsim.importers.mjcf.plan import BuildState, JointPlace, MjcfOptions
from newtonsim.importers.mjcf.records import Keyframe, Scene
from newtonsim.kinematics import eval_fk
from newtonsim.scene.arrays import LARGEST_NUMBER, LARGEST_RATE

_POSITIONS = {"free": 7, "ball": 4, "hinge": 1, "slide": 1}
_VELOCITIES = {"free": 6, "ball": 3, "hinge": 1, "slide": 1}


def add_keyframes(
    scene: Scene, state: BuildState, options: MjcfOptions, builder: ModelBuilder, report: ImportReport
) -> None:
    """Append the keyframes of the file to `builder.keyframes`.

    Args:
        scene: The records.
        state: `BuildState` with the places of bodies and joints.
        options: `MjcfOptions`.
        builder: The builder that holds the bodies and joints of this file only.
        report: Its actuators tell how control inputs map.
    """
    if scene.ignored_names and scene.keyframes:
        report.approximated(
            scene.keyframes[0].node, "keyframes are skipped, because parts of the file are left out"
        )
        return
    for number, frame in enumerate(scene.keyframes):
        q, qd, act = list(builder.joint_q), list(builder.joint_qd), list(builder.joint_act)
        _check(frame, "qpos", frame.qpos, sum(_POSITIONS[place.record.kind] for place in state.joints))
        _check(frame, "qvel", frame.qvel, sum(_VELOCITIES[place.record.kind] for place in state.joints))
        _check(frame, "ctrl", frame.ctrl, len(scene.actuator_order))
        at_q = at_v = 0
        for place in state.joints:
            kind = place.record.kind
            qpos = None if frame.qpos is None else frame.qpos[at_q : at_q + _POSITIONS[kind]]
            qvel = None if frame.qvel is None else frame.qvel[at_v : at_v + _VELOCITIES[kind]]
            at_q, at_v = at_q + _POSITIONS[kind], at_v + _VELOCITIES[kind]
            if place.coord is not None:
                _set_joint(frame, place, qpos, qvel, q, qd, options, builder)
        if frame.ctrl is not None:
            _set_controls(frame.ctrl, report, act)
        values = {
            "name": frame.name or f"key_{number}",
            "joint_q": q,
            "joint_qd": qd,
            "joint_act": act,
            "ctrl": [0.0] * len(report.actuators) if frame.ctrl is None else frame.ctrl.tolist(),
            "act": _activations(frame, scene, report),
        }
        builder.keyframes.append(values)


def start_in_keyframe(builder: ModelBuilder, which: str | int, report: ImportReport) -> int:
    """Make a keyframe the initial state of a builder, poses of bodies and inputs of tendons included.

    Args:
        builder: Its keyframes were just added.
        which: Name or number of the keyframe.
        report: Its actuators learn the control that they start with.

    Returns:
        The number of the keyframe.

    Raises:
        ModelError: There is no such keyframe.
    """
    frames = builder.keyframes
    places = {frame["name"]: number for number, frame in enumerate(frames)}
    number = places.get(which) if isinstance(which, str) else which
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(frames):
        known = ", ".join(repr(name) for name in places) or "none"
        raise ModelError(
            f"keyframe: expected a name or a number below {len(frames)}, got {which!r}; the file has {known}"
        )
    for name in ("joint_q", "joint_qd", "joint_act"):
        getattr(builder, name)[:] = frames[number][name]
    _start_actuators(frames[number]["ctrl"], frames[number]["act"], builder, report)
    model = builder.finalize("cpu")
    state = model.state()
    eval_fk(model, model.joint_q, model.joint_qd, None, state)
    if model.body_count:
        builder.body_q[:] = [wp.transform(*row) for row in state.body_q.numpy().tolist()]
        builder.body_qd[:] = [wp.spatial_vector(*row) for row in state.body_qd.numpy().tolist()]
    return number


def place_mocap_bodies(
    frame: Keyframe,
    scene: Scene,
    state: BuildState,
    options: MjcfOptions,
    builder: ModelBuilder,
    report: ImportReport,
) -> None:
    """Put mocap bodies where the keyframe that a builder starts in has them.

    Args:
        frame: The keyframe.
        scene: The records.
        state: Where its bodies are.
        options: Arguments of the importer.
        builder: Receives the poses.
        report: Receives what cannot be placed.
    """
    bodies = [number for number, body in enumerate(scene.bodies) if body.mocap]
    places, turns = (None if rows is None else rows.tolist() for rows in (frame.mpos, frame.mquat))
    if any(rows is not None and len(rows) != size * len(bodies) for rows, size in ((places, 3), (turns, 4))):
        report.unsupported(frame.node, "mpos and mquat of a keyframe that are not those of its mocap bodies")
        return
    for row, number in enumerate(bodies):
        pose = scene.bodies[number].pose
        p = pose.p if places is None else np.array(places[3 * row : 3 * row + 3]) * options.scale
        q = pose.q if turns is None else _quaternion(frame, np.array(turns[4 * row : 4 * row + 4]))
        builder.body_q[state.places[number].index] = (options.xform @ Pose(p, q)).warp()


def _activations(frame: Keyframe, scene: Scene, report: ImportReport) -> list[float]:
    """Return the activation of each actuator of the file, 0 for those without."""
    counts = [state_count(node) for node in scene.actuator_order]
    if frame.act is None:
        return [0.0] * len(counts)
    if None in counts:
        report.approximated(frame.node, "act of a keyframe, in a file with actuators of several states")
        return [0.0] * len(counts)
    _check(frame, "act", frame.act, sum(counts))
    left = iter(frame.act.tolist())
    found = [next(left) if count else 0.0 for count in counts]
    if any(a for a, one in zip(found, report.actuators, strict=True) if one["actuator"] is not None):
        what = "MuJoCoSolver starts actuators of the model without the act of the keyframe"
        report.approximated(frame.node, what)
    return found


def _start_actuators(
    ctrl: list[float], act: list[float], builder: ModelBuilder, report: ImportReport
) -> None:
    """Set the inputs of tendons and of actuators of the model, and what `newtonsim.actuators` starts with."""
    for actuator in report.actuators:
        if actuator["tendon"] is not None:
            builder.tendon_act[actuator["tendon"]] = 0.0
    for value, start, actuator in zip(ctrl, act, report.actuators, strict=True):
        if actuator["tendon"] is not None:
            builder.tendon_act[actuator["tendon"]] += _input(value, actuator)
        if actuator["actuator"] is not None:
            builder.actuator_ctrl[actuator["actuator"]] = value
            builder.actuator_act[actuator["actuator"]] = start
        for part in ("activation", "law"):
            if actuator[part] is not None:
                actuator[part] |= {"initial": value, "start": start}


def _input(value: float, actuator: dict) -> float:
    """What a control adds to the input of a drive."""
    low, high = actuator["ctrl_range"] or (-np.inf, np.inf)
    return actuator["scale"] * float(np.clip(value, low, high)) + actuator["offset"]


def _check(frame: Keyframe, name: str, values: np.ndarray | None, expected: int) -> None:
    if values is not None and len(values) != expected:
        raise frame.node.error(f"attribute '{name}' has {len(values)} values, the model has {expected}")
    limit = LARGEST_NUMBER if name == "ctrl" else LARGEST_RATE
    if values is not None and not (np.abs(values) <= limit).all():
        worst = values[int(np.argmax(np.abs(values)))]
        raise frame.node.error(f"attribute '{name}' contains {worst:g}, expected at most {limit:g}")


def _set_joint(
    frame: Keyframe,
    place: JointPlace,
    qpos: np.ndarray | None,
    qvel: np.ndarray | None,
    q: list[float],
    qd: list[float],
    options: MjcfOptions,
    builder: ModelBuilder,
) -> None:
    """Write one joint's entries; see the conventions of both sides in the comments."""
    joint, scale = place.record, options.scale
    if joint.kind in ("hinge", "slide"):
        length = scale if joint.kind == "slide" else 1.0
        if qpos is not None:
            q[place.coord] = float(qpos[0] * length - joint.ref)
        if qvel is not None:
            qd[place.dof] = float(qvel[0] * length)
        return
    if joint.kind == "ball":
        turn = Pose.identity().q if qpos is None else _quaternion(frame, qpos)
        q[place.coord : place.coord + 4] = turn.tolist()
        if qvel is not None:  # about the child's axes there, about the joint frame's of the parent here
            qd[place.dof : place.dof + 3] = quat_rotate(turn, qvel).tolist()
        return
    pose = Pose.of(q[place.coord : place.coord + 7])
    if qpos is not None:
        pose = options.xform @ Pose(qpos[:3] * scale, _quaternion(frame, qpos[3:]))
        q[place.coord : place.coord + 7] = pose.row().tolist()
    if qvel is not None:
        # there: velocity of the body's origin in world axes, then rotation about the body's axes
        spin = quat_rotate(pose.q, qvel[3:])
        arm = quat_rotate(
            pose.q, np.array([float(x) for x in builder.body_com[builder.joint_child[place.index]]])
        )
        velocity = quat_rotate(options.xform.q, qvel[:3]) * scale + np.cross(spin, arm)
        qd[place.dof : place.dof + 6] = [*spin.tolist(), *velocity.tolist()]


def _quaternion(frame: Keyframe, wxyz: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(wxyz)
    if length < 1.0e-12:  # MuJoCo takes it for no rotation
        return Pose.identity().q
    return (wxyz / length)[[1, 2, 3, 0]]


def _set_controls(ctrl: np.ndarray, report: ImportReport, act: list[float]) -> None:
    """Sum the actuators of each axis, as several motors may drive one joint."""
    driven = {actuator["axis"] for actuator in report.actuators if actuator["axis"] is not None}
    for axis in driven:
        act[axis] = 0.0
    for value, actuator in zip(ctrl, report.actuators):
        if actuator["axis"] is not None:
            act[actuator["axis"]] += _input(value, actuator)
