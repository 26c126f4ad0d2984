"""Scenes of the command line: many copies of a robot above the ground, in varied start poses."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.geometry.transforms import quat_conjugate, quat_multiply, quat_rotate
from newtonsim.scene.enums import GeoType, JointMode, JointType, ShapeFlags

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.importers.files.report import ImportReport, ReportEntry
    from newtonsim.importers.files.xml import Node
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

UP = (0.0, 0.0, 1.0)
DEFAULT_TIME_STEP = 1.0 / 240.0
SHOWN_LINES = 8  # of elements that share a remark

# Ranges of the varied start poses.
MAX_TILT = 0.25  # [rad]
CLEARANCE = (0.02, 0.10)  # lowest point above the ground [m]
ANGLE_NOISE = 0.1  # [rad]
SLIDE_NOISE = 0.02  # [m]


@dataclass(frozen=True)
class Robot:
    """A robot file in a builder of its own.

    Attributes:
        path: The file.
        builder: Z-up builder with this robot alone, in its home pose.
        report: What the importer did.
        pose_name: Keyframe that the home pose comes from, "" for the pose of the file.
        time_step: Time step that the file asks for [s], or the default.
    """

    path: str
    builder: ModelBuilder
    report: ImportReport
    pose_name: str
    time_step: float

    @property
    def remarks(self) -> list[str]:
        """What the importer ignored, approximated or does not model, one line per element."""
        return [str(entry) for entry in self.report.entries]

    @property
    def grouped_remarks(self) -> list[str]:
        """The remarks, merged into one line where they say the same about elements with the same tag."""
        groups: dict[tuple[str, ...], list[ReportEntry]] = {}
        for entry in self.report.entries:
            tag = "prim" if _is_prim(entry) else _label(entry)
            groups.setdefault((tag, entry.kind, entry.message), []).append(entry)
        lines = []
        for (tag, kind, message), entries in groups.items():
            where = _places(entries) if len(entries) > 1 else ""
            many = f"{len(entries)} x <{tag}> {kind}: {message}" + (f" ({where})" if where else "")
            one = f"<{_label(entries[0])}> {kind}: {message}" if _is_prim(entries[0]) else str(entries[0])
            lines.append(many if len(entries) > 1 else one)
        return lines

    @property
    def warnings(self) -> list[str]:
        """The remarks that concern the motion, one line per kind of element."""
        counts: dict[str, int] = {}
        for entry in self.report.entries:
            if entry.kind != "ignored":
                text = f"<{_label(entry)}> {entry.kind}: {entry.message}"
                counts[text] = counts.get(text, 0) + 1
        return [text + (f" ({count} times)" if count > 1 else "") for text, count in counts.items()]


def _is_prim(entry: ReportEntry) -> bool:
    return entry.element.startswith("/")


def _label(entry: ReportEntry) -> str:
    """Return the path of a prim, without the schema that a remark may name, or the tag of an XML element."""
    return entry.element.split()[0]


def _places(entries: list[ReportEntry]) -> str:
    """Return the files and lines of remarks, shortened: "robot.urdf:3, 7, 12 and 5 more"; paths of prims."""
    if _is_prim(entries[0]):
        text = ", ".join(_label(entry) for entry in entries[:SHOWN_LINES])
        return text + (f" and {len(entries) - SHOWN_LINES} more" if len(entries) > SHOWN_LINES else "")
    known = [entry for entry in entries if entry.line is not None]
    files: dict[str, list[str]] = {}
    for entry in known[:SHOWN_LINES]:
        files.setdefault(str(entry.path), []).append(str(entry.line))
    text = ", ".join(f"{path}:{', '.join(lines)}" for path, lines in files.items())
    return text + (f" and {len(known) - SHOWN_LINES} more" if len(known) > SHOWN_LINES else "")


def load_robot(
    path: str | os.PathLike,
    base: str = "auto",
    hold: bool = False,
    self_collision: bool = False,
    still: bool = False,
) -> Robot:
    """Read a USD file, recognised by its ending, or a URDF, MJCF or SDF file, recognised by the root element.

    Args:
        path: The file.
        base: "free" or "fixed" root of a URDF robot; "auto" decides by the root link. MJCF, SDF and USD files
            state it themselves.
        hold: Give position drives with the importers' default gains to joints of files without actuators.
        self_collision: Let links of an MJCF robot collide with each other.
        still: Accept a scene of static shapes, without bodies.

    Raises:
        ImportFileError: The file is unusable.
    """
    from newtonsim.builder import ModelBuilder
    from newtonsim.errors import DefaultsWarning, UnsupportedElementWarning

    path = os.fspath(path)
    builder = ModelBuilder(up_vector=UP)
    # The remarks are shown in full by the caller, so the collected warning would say them twice.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        warnings.simplefilter("ignore", DefaultsWarning)
        report = _read(path, builder, base, hold, self_collision)
    if not builder.body_count and not (still and builder.shape_count):
        raise ImportFileError(_why_empty(path), path=path)
    name = _assume_home(builder)
    return Robot(path, builder, report, name, float(builder.solver_hint.get("timestep") or DEFAULT_TIME_STEP))


def _why_empty(path: str) -> str:
    from newtonsim.importers.files.usd_names import USD_ENDINGS

    if path.lower().endswith(USD_ENDINGS):
        return "the file has no bodies; it may be an animation without physics, which usdview shows"
    return "the file has no bodies"


def _read(path: str, builder: ModelBuilder, base: str, hold: bool, self_collision: bool) -> ImportReport:
    """Let the importer of the file's format fill a builder."""
    from newtonsim.importers import parse_mjcf, parse_sdf, parse_urdf, parse_usd
    from newtonsim.importers.files.report import ImportReport, Mend
    from newtonsim.importers.files.tolerant_xml import read_tolerantly
    from newtonsim.importers.files.usd_names import USD_ENDINGS

    if path.lower().endswith(USD_ENDINGS):
        return parse_usd(path, builder)["report"]
    root = read_tolerantly(path, Mend(ImportReport()))[0]
    gains: dict[str, Any] = {} if hold else {"stiffness": 0.0, "damping": 0.0}
    if root.tag == "robot":
        floating = base == "free" or (base == "auto" and not _is_fixed(root))
        return parse_urdf(path, builder, floating=floating, ignore_inertial_definitions=False, **gains)
    if root.tag == "mujoco":
        gains |= {"floating": None, "enable_self_collisions": self_collision}
        return parse_mjcf(path, builder, ignore_inertial_definitions=False, **gains)
    if root.tag == "sdf":
        return parse_sdf(path, builder)
    raise root.error(f"expected <robot> (URDF), <mujoco> (MJCF) or <sdf> (SDF), found <{root.tag}>")


def build_scene(robot: Robot, envs: int, device: str | None) -> Model:
    """Return a model of `envs` copies of a robot over one ground plane.

    There is no ground if the file has planes of its own, or if the robot hangs on a fixed base below z = 0.
    """
    return _scene(robot, envs, not _is_in_the_ground(robot, device)).finalize(device)


def sample_scene(robot: Robot, device: str | None) -> Model:
    """Return a model of one robot over a ground plane; it needs the same kernels as scenes of many copies."""
    return _scene(robot, 1, True).finalize(device)


def _scene(robot: Robot, envs: int, ground: bool) -> ModelBuilder:
    from newtonsim.builder import ModelBuilder

    scene = ModelBuilder(up_vector=UP, gravity=robot.builder.gravity)
    # All at the same place: worlds do not meet, and the place would only cost precision.
    scene.replicate(robot.builder, envs, spacing=(0.0, 0.0, 0.0))
    if ground and GeoType.PLANE not in robot.builder.shape_geo_type:
        scene.set_ground_plane()
    return scene


def vary_start(model: Model, state: State, seed: int) -> None:
    """Turn, tilt, lift and bend the robots, differently in each world, and evaluate the kinematics.

    Free bases get a random yaw, a tilt of at most MAX_TILT and a height at which the lowest point is
    CLEARANCE above the ground. Joints with axes get noise within their limits.

    Args:
        model: Scene with equal worlds.
        state: Its `joint_q` is the home pose; changed in place.
        seed: Seed of the random numbers.
    """
    from newtonsim.kinematics import eval_fk

    rng = np.random.default_rng(seed)
    worlds = model.world_count
    q = state.joint_q.numpy().astype(np.float64).reshape(worlds, -1)
    _bend_joints(model, q, rng)
    _turn_free_bases(model, q, rng)
    state.joint_q.assign(q.reshape(-1))
    eval_fk(model, state.joint_q, state.joint_qd, None, state)
    _lift(model, state, rng.uniform(*CLEARANCE, worlds) - lowest_points(model, state))


def stand(model: Model, state: State) -> None:
    """Lift robots that reach below the ground, if their root joint allows it, and evaluate the kinematics.

    Args:
        model: Scene with equal worlds.
        state: Its `joint_q` is the home pose; changed in place.
    """
    from newtonsim.kinematics import eval_fk

    eval_fk(model, state.joint_q, state.joint_qd, None, state)
    _lift(model, state, np.maximum(CLEARANCE[0] - lowest_points(model, state), 0.0))


def _lift(model: Model, state: State, height: np.ndarray) -> None:
    """Lift the robots of each world by a height (worlds,) [m]; infinite heights count as zero."""
    from newtonsim.kinematics import eval_fk

    q = state.joint_q.numpy().astype(np.float64).reshape(model.world_count, -1)
    q += np.where(np.isfinite(height), height, 0.0)[:, None] * _lift_direction(model)
    state.joint_q.assign(q.reshape(-1))
    eval_fk(model, state.joint_q, state.joint_qd, None, state)


def lowest_points(model: Model, state: State) -> np.ndarray:
    """Return the height of the lowest point of each world that can touch the ground [m], or +inf."""
    from newtonsim.render.shapes import ShapeTable

    shapes = ShapeTable.of(model)
    touching = (model.shape_flags.numpy().astype(np.uint32) & int(ShapeFlags.COLLIDE_GROUND)) != 0
    touching &= (shapes.world >= 0) & (shapes.body >= 0)
    lowest = np.full(model.world_count, np.inf)
    heights = shapes.lowest(state.body_q.numpy().astype(np.float64), np.asarray(UP))
    np.minimum.at(lowest, shapes.world[touching], heights[touching])
    return lowest


def root_bodies(model: Model) -> np.ndarray:
    """Return the bodies on free joints without a parent, shape (worlds, free bases per world)."""
    free = (model.joint_type.numpy() == JointType.FREE) & (model.joint_parent.numpy() < 0)
    return model.joint_child.numpy()[free].reshape(model.world_count, -1)


def _is_fixed(root: Node) -> bool:
    """Tell whether the root link of a URDF robot stands for the world: it is named 'world' or has no mass."""
    children = {
        joint.find("child").attrib.get("link") for joint in root.findall("joint") if joint.find("child")
    }
    for link in root.findall("link"):
        if link.attrib.get("name") not in children:
            return link.attrib.get("name") == "world" or not _has_mass(link)
    return False


def _has_mass(link: Node) -> bool:
    """Tell whether a URDF link has mass; many files write a mass of zero for a base that does not move."""
    from newtonsim.importers.files.faults import Forgive

    inertial = link.find("inertial")
    mass = inertial.find("mass") if inertial is not None else None
    return mass is not None and mass.float("value", 0.0, Forgive()) != 0.0  # the importer tells of faults


def _assume_home(builder: ModelBuilder) -> str:
    """Put the builder into its home pose, let position drives hold it, and return the keyframe's name."""
    keyframe = next((k for k in builder.keyframes if k["name"] == "home"), None)
    keyframe = keyframe or next(iter(builder.keyframes), None)
    targets = None
    if keyframe is not None:
        builder.joint_q[:] = list(keyframe["joint_q"])
        targets = keyframe["joint_act"]
    for axis, coordinate in _axis_coordinates(builder):
        if builder.joint_axis_mode[axis] == JointMode.TARGET_POSITION:
            given = targets is not None and len(targets) == builder.joint_axis_count
            builder.joint_act[axis] = targets[axis] if given else builder.joint_q[coordinate]
    return (keyframe["name"] or "1st keyframe") if keyframe is not None else ""


def _axis_coordinates(builder: ModelBuilder) -> list[tuple[int, int]]:
    """Return (axis, coordinate) of every joint axis of a builder."""
    pairs = []
    for joint in range(builder.joint_count):
        first_axis, first_q = builder.joint_axis_start[joint], builder.joint_q_start[joint]
        pairs += [(first_axis + k, first_q + k) for k in range(sum(builder.joint_axis_dim[joint]))]
    return pairs


@dataclass(frozen=True)
class _Joint:
    """A joint of the first world; its coordinates are numbered from the start of the world."""

    kind: JointType
    is_root: bool
    coordinate: int
    axis_start: int
    linear: int
    angular: int
    rotation: np.ndarray  # axes of the joint frame in the parent, quaternion (4,)


def _joints_of_first_world(model: Model) -> list[_Joint]:
    """Return the joints of the first world."""
    kind, parent = model.joint_type.numpy(), model.joint_parent.numpy()
    q_start, axis_start = model.joint_q_start.numpy(), model.joint_axis_start.numpy()
    dims, frames = model.joint_axis_dim.numpy(), model.joint_X_p.numpy().astype(np.float64)
    return [
        _Joint(
            JointType(int(kind[j])),
            bool(parent[j] < 0),
            int(q_start[j]),
            int(axis_start[j]),
            *map(int, dims[j]),
            frames[j, 3:],
        )
        for j in range(model.joint_count // model.world_count)
    ]


def _bend_joints(model: Model, q: np.ndarray, rng: np.random.Generator) -> None:
    """Add noise to the coordinates (worlds, n) of joints with axes, within their limits."""
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    for joint in _joints_of_first_world(model):
        for k in range(joint.linear + joint.angular):
            size = SLIDE_NOISE if k < joint.linear else ANGLE_NOISE
            column = q[:, joint.coordinate + k]
            noisy = column + rng.uniform(-size, size, len(q))
            low, high = lower[joint.axis_start + k], upper[joint.axis_start + k]
            q[:, joint.coordinate + k] = np.clip(noisy, low, high)


def _turn_free_bases(model: Model, q: np.ndarray, rng: np.random.Generator) -> None:
    """Turn the free bases in the coordinates (worlds, n) about the vertical, then tilt them."""
    worlds = len(q)
    yaw, tilt = rng.uniform(-np.pi, np.pi, worlds), rng.uniform(0.0, MAX_TILT, worlds)
    direction = rng.uniform(-np.pi, np.pi, worlds)
    tilt_axis = np.stack([np.cos(direction), np.sin(direction), np.zeros(worlds)], axis=1)
    turn = quat_multiply(_quaternion(tilt_axis, tilt), _quaternion(np.broadcast_to(UP, (worlds, 3)), yaw))
    for joint in _joints_of_first_world(model):
        if joint.kind == JointType.FREE and joint.is_root:
            columns = slice(joint.coordinate + 3, joint.coordinate + 7)
            in_joint = quat_multiply(quat_multiply(quat_conjugate(joint.rotation), turn), joint.rotation)
            q[:, columns] = quat_multiply(in_joint, q[:, columns])


def _lift_direction(model: Model) -> np.ndarray:
    """Return how the coordinates of a world (n,) change per metre of lift, where its root can be lifted.

    Free bases and planar robots that slide along the vertical can be lifted; others get zeros.
    """
    direction = np.zeros(model.joint_coord_count // model.world_count)
    axes = model.joint_axis.numpy().astype(np.float64)
    for joint in _joints_of_first_world(model):
        up = quat_rotate(quat_conjugate(joint.rotation), np.asarray(UP))
        if joint.is_root and joint.kind == JointType.FREE:
            direction[joint.coordinate : joint.coordinate + 3] = up
        elif joint.is_root:
            for k in range(joint.linear):
                if axes[joint.axis_start + k] @ up > 0.999:
                    direction[joint.coordinate + k] = 1.0
    return direction


def _is_in_the_ground(robot: Robot, device: str | None) -> bool:
    """Tell whether a robot reaches below z = 0 in its home pose and cannot be lifted.

    This runs on the device of the scene, whose kernels are loaded: another device would compile its own.
    """
    from newtonsim.kinematics import eval_fk

    alone = robot.builder.finalize(device)
    if _lift_direction(alone).any():
        return False
    state = alone.state()
    eval_fk(alone, state.joint_q, state.joint_qd, None, state)
    return lowest_points(alone, state)[0] < -1e-3


def _quaternion(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Return the quaternions (n, 4) of rotations about unit axes (n, 3)."""
    return np.concatenate([axis * np.sin(angle / 2.0)[:, None], np.cos(angle / 2.0)[:, None]], axis=1)
