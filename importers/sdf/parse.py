"""SDFormat text to records: worlds, models, links and joints, with all poses in the world of the file."""

import numpy as np

from newtonsim.geometry.transforms import quat_conjugate, quat_rotate
from newtonsim.importers.building.masses import check_moments, note_impossible
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.sdf import text
from newtonsim.importers.sdf.document import Document
from newtonsim.importers.sdf.frames import MODEL_FRAME, WORLD_FRAME, Scope, read_scope
from newtonsim.importers.sdf.records import Axis, Joint, Link, Scene
from newtonsim.importers.sdf.shapes import parse_collision, parse_visual

JOINT_TYPES = (
    *("revolute", "continuous", "prismatic", "fixed", "ball"),
    *("universal", "revolute2", "screw", "gearbox"),
)
STANDARD_GRAVITY = (0.0, 0.0, -9.8)

_TWO_AXES = ("universal", "revolute2", "gearbox")
_NO_AXIS = ("fixed", "ball")
_PARTS = ("link", "joint", "frame", "model", "include", "pose", "static", "self_collide")
_SILENT = (
    *("plugin", "sensor", "light", "visual", "gui", "scene", "audio", "audio_sink", "projector", "battery"),
    *("atmosphere", "magnetic_field", "spherical_coordinates", "road", "particle_emitter"),
    *("allow_auto_disable", "enable_wind", "gripper", "must_be_base_link", "name"),
)
_JOINT_PARTS = (
    *("parent", "child", "pose", "axis", "axis2", "gearbox_ratio", "gearbox_reference_body"),
    *("thread_pitch", "screw_thread_pitch"),
)


def parse_scene(document: Document, report: ImportReport) -> Scene:
    """Read a whole file into records."""
    root = document.root
    if root.tag != "sdf":
        raise root.error("the root element of an SDF file is <sdf>")
    worlds = root.findall("world")
    for other in worlds[1:]:
        report.unsupported(other, "a file has one world; this one is left out")
    holder = worlds[0] if worlds else root
    scene = Scene(holder.text_of("name", ""))
    top = read_scope(holder, document, "")
    if not worlds and len(top.nested) == 1:
        # A file with one model names its links as the model does.
        ((name, model),) = top.nested.items()
        _unprefix(model, len(name) + 2)
        scene.name = name
    if worlds:
        _parse_world(holder, scene, report)
    _Reader(document, scene, report).read(top)
    return scene


def _unprefix(scope: Scope, count: int) -> None:
    """Take the name of the only model off the names inside it."""
    stack = [scope]
    while stack:
        inner = stack.pop()
        inner.prefix = inner.prefix[count:]
        stack.extend(inner.nested.values())


def _parse_world(node: Node, scene: Scene, report: ImportReport) -> None:
    """Gravity, time step, and what of a world has no counterpart."""
    scene.gravity = text.vector(node, "gravity", 3, STANDARD_GRAVITY)
    physics = node.find("physics")
    if physics is not None:
        step = text.number(physics, "max_step_size")
        if step is not None and step <= 0.0:
            raise physics.error(f"<max_step_size> must be positive, got {step:g}")
        scene.timestep = step
        for child in physics.children:
            if child.tag not in ("max_step_size", "real_time_factor", "real_time_update_rate"):
                report.ignored(child, "solvers have their own settings")
    wind = node.find("wind")
    if wind is not None and text.vector(wind, "linear_velocity", 3, (0.0, 0.0, 0.0)).any():
        report.unsupported(wind, "wind")
    for child in node.children:
        if child.tag in ("actor", "state", "population"):
            report.unsupported(child)
        elif child.tag in _SILENT:
            report.ignored(child)
        elif child.tag not in (*_PARTS, "gravity", "physics", "wind"):
            report.unsupported(child, "not an element of a world")


class _Reader:
    """Fills the scene from the scopes of a file."""

    def __init__(self, document: Document, scene: Scene, report: ImportReport):
        self.document, self.scene, self.report = document, scene, report

    def read(self, top: Scope) -> None:
        """Read all models, outer ones first."""
        stack: list[tuple[Scope, Pose, int, bool]] = [(top, Pose.identity(), -1, False)]
        while stack:
            scope, pose, tree, self_collide = stack.pop()
            if scope.node.tag == "model":
                self_collide = text.flag(scope.node, "self_collide", self_collide)
                self._note_model(scope)
            for child in scope.children:
                if child.tag == "link":
                    link = self._link(child, scope, pose)
                    link.tree = tree
                    link.self_collide = text.flag(child, "self_collide", self_collide)
                    self.scene.links[link.name] = link
                elif child.tag == "joint":
                    self.scene.joints.append(self._joint(child, scope, pose))
            inner = [
                (nested, pose @ scope.locate(name, nested.node), number if tree < 0 else tree, self_collide)
                for number, (name, nested) in enumerate(scope.nested.items())
            ]
            stack.extend(reversed(inner))

    def _note_model(self, scope: Scope) -> None:
        for child in scope.children:
            if child.tag == "plugin":
                self.report.unsupported(child, "plugins are not run")
            elif child.tag in _SILENT:
                self.report.ignored(child)
            elif child.tag not in _PARTS:
                self.report.unsupported(child, "not an element of a model")

    # -- links -----------------------------------------------------------------------------------------------

    def _link(self, node: Node, scope: Scope, pose: Pose) -> Link:
        name = scope.prefix + node.required("name")
        if name in self.scene.links:
            raise node.error(f"a second link has the name {name!r}")
        link = Link(name, node, pose @ scope.locate(node.required("name"), node), scope.static)
        self._read_inertial(link, scope)
        for child in node.children:
            if child.tag in ("visual", "collision"):
                frame = self._shape_frame(child, node, scope)
                if child.tag == "visual":
                    shape = parse_visual(child, frame, self.document, self.report)
                    link.visuals += [shape] if shape is not None else []
                else:
                    collision = parse_collision(child, frame, self.document, self.report)
                    link.collisions += [collision] if collision is not None else []
            elif child.tag not in ("pose", "inertial", "self_collide"):
                self._note_link(child)
        return link

    def _note_link(self, node: Node) -> None:
        if node.tag == "gravity":
            if node.text in ("false", "0"):
                self.report.unsupported(node, "gravity acts on all links")
        elif node.tag == "kinematic":
            if node.text in ("true", "1"):
                self.report.unsupported(node, "kinematic links move like others")
        elif node.tag == "velocity_decay":
            if any(text.number(node, tag, 0.0) for tag in ("linear", "angular")):
                self.report.unsupported(node, "damping of the motion of links")
        elif node.tag in _SILENT:
            self.report.ignored(node)
        else:
            self.report.unsupported(node, "not an element of a link")

    def _shape_frame(self, node: Node, link: Node, scope: Scope) -> Pose:
        """Pose of a shape in its link."""
        return self._pose_in(node, link.required("name"), scope)

    def _pose_in(self, node: Node, link: str, scope: Scope) -> Pose:
        """Pose of an element in the frame of its link, whatever frame the file gives it in."""
        pose = node.find("pose")
        local = text.pose(pose)
        other = pose.text_of("relative_to") if pose is not None else None
        if not other:
            return local
        return scope.locate(link, node).inverse() @ scope.locate(other, pose) @ local

    def _read_inertial(self, link: Link, scope: Scope) -> None:
        node = link.node.find("inertial")
        if node is None:
            link.inertial = MassProps(1.0, np.zeros(3), np.eye(3))  # the format's default
            return
        if node.find("fluid_added_mass") is not None:
            self.report.unsupported(node.find("fluid_added_mass"))
        if node.bool("auto", False):
            link.density = text.number(node, "density")
            return
        mass = text.not_negative(node, "mass", 1.0)
        inertia = np.eye(3)
        given = node.find("inertia")
        if given is not None:
            xx, yy, zz = (text.number(given, tag, 1.0) for tag in ("ixx", "iyy", "izz"))
            xy, xz, yz = (text.number(given, tag, 0.0) for tag in ("ixy", "ixz", "iyz"))
            inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            check_moments(inertia, given)
            note_impossible(inertia, mass, given, self.report, f"link {link.node.required('name')!r}")
        pose = self._pose_in(node, link.node.required("name"), scope)
        link.inertial = MassProps(mass, np.zeros(3), inertia).moved(pose)

    # -- joints ----------------------------------------------------------------------------------------------

    def _joint(self, node: Node, scope: Scope, pose: Pose) -> Joint:
        kind = node.required("type")
        if kind not in JOINT_TYPES:
            raise node.error(f"joint type {kind!r} is unknown; supported: {', '.join(JOINT_TYPES)}")
        name = node.required("name")
        ends = [scope.link_of(text.required(node, tag), node) for tag in ("parent", "child")]
        if ends[0] == ends[1]:
            raise node.error(f"the joint connects {ends[0]!r} to itself")
        local = scope.locate(name, node)
        joint = Joint(scope.prefix + name, node, kind, *ends, pose @ local)
        if kind not in _NO_AXIS:
            tags = ("axis", "axis2") if kind in _TWO_AXES else ("axis",)
            joint.axes = [self._axis(node, tag, kind, local, scope) for tag in tags]
        if kind == "screw":
            joint.pitch = _pitch(node)
        elif kind == "gearbox":
            joint.ratio = text.number(node, "gearbox_ratio", 1.0)
            joint.reference = scope.link_of(text.required(node, "gearbox_reference_body"), node)
        for child in node.children:
            if child.tag in ("physics", "sensor"):
                self.report.ignored(child, "solvers have their own settings")
            elif child.tag not in _JOINT_PARTS:
                self.report.unsupported(child, "not an element of a joint")
        return joint

    def _axis(self, joint: Node, tag: str, kind: str, frame: Pose, scope: Scope) -> Axis:
        node = joint.find(tag)
        if node is None:
            raise joint.error(f"<{tag}> is missing")
        axis = Axis(node, self._direction(node, frame, scope))
        dynamics, limit, mimic = node.find("dynamics"), node.find("limit"), node.find("mimic")
        if dynamics is not None:
            axis.damping = text.not_negative(dynamics, "damping")
            axis.friction = text.not_negative(dynamics, "friction")
            axis.stiffness = text.not_negative(dynamics, "spring_stiffness")
            axis.spring_ref = text.number(dynamics, "spring_reference", 0.0)
        if limit is not None:
            self._read_limit(limit, axis, kind)
        if mimic is not None:
            axis.mimic = _mimic(mimic, scope)
        if text.number(node, "initial_position", 0.0) != 0.0:
            self.report.unsupported(node.find("initial_position"), "joints start where the links are placed")
        return axis

    def _direction(self, node: Node, frame: Pose, scope: Scope) -> np.ndarray:
        """Unit vector of an axis in the joint frame; `frame` is that frame in the scope's."""
        given = node.find("xyz")
        direction = text.vector(node, "xyz", 3, (0.0, 0.0, 1.0))
        length = np.linalg.norm(direction)
        if length < 1.0e-9:
            raise given.error("the joint axis is zero")
        direction = direction / length
        other = given.text_of("expressed_in") if given is not None else None
        # Until 1.4 axes were in the frame of the model; 1.5 and 1.6 could choose.
        old = self.document.version(node) < (1, 5)
        if not other and (old or text.flag(node, "use_parent_model_frame", False)):
            other = MODEL_FRAME
        if not other or (other == MODEL_FRAME and scope.base == WORLD_FRAME):
            return direction
        pose = scope.locate(other, node)
        return quat_rotate(quat_conjugate(frame.q), quat_rotate(pose.q, direction))

    def _read_limit(self, node: Node, axis: Axis, kind: str) -> None:
        if kind != "continuous":
            axis.lower, axis.upper = text.bound(node, "lower", -np.inf), text.bound(node, "upper", np.inf)
            if axis.lower > axis.upper:
                raise node.error(f"the lower limit {axis.lower:g} is above the upper limit {axis.upper:g}")
        for tag in ("effort", "velocity"):
            value = text.bound(node, tag, np.inf)
            if value == 0.0:
                # As in URDF files zero stands for "not known"; taken literally the joint could not be driven.
                self.report.approximated(node, f"{tag} 0 is treated as no limit")
            setattr(axis, tag, value if value > 0.0 else np.inf)


def _pitch(node: Node) -> float:
    """Travel per turn [m] of a screw joint; the format's default is 1."""
    pitch = text.number(node, "screw_thread_pitch")
    if pitch is not None:
        return pitch
    turn = text.number(node, "thread_pitch")
    if turn is None:
        return 1.0
    if turn == 0.0:
        raise node.find("thread_pitch").error("the value must not be zero")
    return -2.0 * np.pi / turn  # the older element gives radians per metre, left-handed


def _mimic(node: Node, scope: Scope) -> tuple[str, int, float, float]:
    """Leader, its axis, factor and offset: the format has q = multiplier (q_leader - reference) + offset."""
    leader = node.required("joint")
    axis = node.keyword("axis", ("axis", "axis2"), "axis")
    factor = text.number(node, "multiplier", 1.0)
    offset = text.number(node, "offset", 0.0) - factor * text.number(node, "reference", 0.0)
    return scope.prefix + leader, int(axis == "axis2"), factor, offset
