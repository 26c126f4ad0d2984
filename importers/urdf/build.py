"""URDF records to builder content."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from newtonsim.builder import JointAxis, ModelBuilder
from newtonsim.errors import ImportFileError
from newtonsim.importers.building.assemble import add_base
from newtonsim.importers.building.filters import TouchRules
from newtonsim.importers.building.masses import UnknownMasses, left_out, usable_mass
from newtonsim.importers.files.arguments import ContactSettings
from newtonsim.importers.files.faults import REFUSE, Faults
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.massprops import MassProps, combine
from newtonsim.importers.geometry.pose import Pose, quat_from_axis_angle
from newtonsim.importers.geometry.shapes import Geometry, ShapeMaker
from newtonsim.importers.urdf.parse import Inertial, Joint, Link, Robot
from newtonsim.scene.columns import Column
from newtonsim.scene.enums import JointMode, JointType


@dataclass(frozen=True, slots=True)
class UrdfOptions:
    """Arguments of `parse_urdf` that shape the result."""

    xform: Pose
    floating: bool
    base_joint: str | Mapping | None
    density: float
    stiffness: float
    damping: float
    armature: float
    contact: ContactSettings
    limit_ke: float
    limit_kd: float
    joint_limit_lower: float
    joint_limit_upper: float
    scale: float
    hide_visuals: bool
    parse_visuals_as_colliders: bool
    force_show_colliders: bool
    enable_self_collisions: bool
    ignore_inertial_definitions: bool
    ensure_nonstatic_links: bool
    static_link_mass: float
    merge_mesh_objects: bool


class RobotBuilder:
    """Adds one robot to an empty builder."""

    def __init__(
        self,
        robot: Robot,
        options: UrdfOptions,
        builder: ModelBuilder,
        report: ImportReport,
        faults: Faults = REFUSE,
    ):
        self.robot, self.options, self.builder, self.report = robot, options, builder, report
        self.faults = faults
        self.shapes = ShapeMaker(
            builder, options.contact, options.scale, options.density, options.merge_mesh_objects, report
        )
        self.unknown = UnknownMasses(
            report, "link", options.static_link_mass if options.ensure_nonstatic_links else None
        )
        self.poses: dict[str, Pose] = {}
        self.weld: dict[str, int] = {}
        self.tree: dict[str, int] = {}
        self.coordinates = self._initial_coordinates()
        self.rules = TouchRules(within_tree=options.enable_self_collisions)

    def build(self) -> None:
        """Add bodies, joints, shapes and filters."""
        robot, builder = self.robot, self.builder
        for link in robot.links.values():
            link.visuals, link.collisions = (
                [shape for shape in shapes if self._is_readable(shape)]
                for shapes in (link.visuals, link.collisions)
            )
        for root, joints in robot.trees.items():
            builder.add_articulation((robot.name or None) if root == robot.root else root)
            self._add_root(root)
            for joint in joints:
                self._place(joint)
                self._add_body(robot.links[joint.child])
                self._add_joint(joint)
        self._add_mimics()
        self.unknown.settle(builder)
        for name, link in robot.links.items():
            self._add_shapes(name, link)
        builder.shape_collision_filter_pairs |= self.rules.blocked()

    def _is_readable(self, shape: Geometry) -> bool:
        """Whether a shape is not a mesh, or one of a file that can be read."""
        if shape.mesh is not None:
            try:
                self.shapes.library.load(shape.mesh, shape.node, shape.size * self.options.scale)
            except ImportFileError as fault:
                self.faults.meet(fault, "the shape is left out")
                return False
        return True

    def _add_root(self, name: str) -> None:
        """Add a root link and what holds it."""
        pose, options = self.options.xform, self.options
        self.poses[name], self.weld[name], self.tree[name] = pose, len(self.weld) + 1, len(self.tree)
        self._add_body(self.robot.links[name])
        body = self.report.bodies[name]
        add_base(self.builder, body, pose, options.floating, options.base_joint, f"{name}_base")

    # -- coordinates -----------------------------------------------------------------------------------------

    def _limits(self, joint: Joint) -> tuple[float, float]:
        options = self.options
        lower = options.joint_limit_lower if joint.lower is None else joint.lower
        upper = options.joint_limit_upper if joint.upper is None else joint.upper
        if joint.kind == "prismatic":
            lower = lower if joint.lower is None else lower * options.scale
            upper = upper if joint.upper is None else upper * options.scale
        return lower, max(lower, upper)

    def _initial_coordinates(self) -> dict[str, float]:
        """Zero, moved into the limits; joints that mimic others follow them."""
        values: dict[str, float] = {}
        for joint in self.robot.joints.values():
            if joint.kind in ("revolute", "continuous", "prismatic"):
                lower, upper = self._limits(joint)
                values[joint.name] = float(min(max(0.0, lower), upper))
        for joint in self.robot.joints.values():
            chain = [joint]
            while chain[-1].mimic is not None:
                chain.append(self.robot.joints[chain[-1].mimic[0]])
            for follower, leader in zip(reversed(chain[:-1]), reversed(chain[1:])):
                factor, offset = self._mimic(follower)
                values[follower.name] = factor * values[leader.name] + offset
        return values

    def _mimic(self, joint: Joint) -> tuple[float, float]:
        """Factor and offset of q = factor * q_leader + offset, with lengths scaled."""
        leader, factor, offset = joint.mimic
        own, other = (
            self.options.scale if one.kind == "prismatic" else 1.0
            for one in (joint, self.robot.joints[leader])
        )
        return factor * own / other, offset * own

    def _place(self, joint: Joint) -> None:
        """Pose of the child link at the initial coordinates, and its rigid group."""
        pose = self.poses[joint.parent] @ joint.pose.scaled(self.options.scale)
        value = self.coordinates.get(joint.name, 0.0)
        if value != 0.0 and joint.kind in ("revolute", "continuous"):
            pose = pose @ Pose(np.zeros(3), quat_from_axis_angle(joint.axis, value))
        elif value != 0.0 and joint.kind == "prismatic":
            pose = pose @ Pose(joint.axis * value, Pose.identity().q)
        self.poses[joint.child] = pose
        self.tree[joint.child] = self.tree[joint.parent]
        if joint.kind == "fixed":
            self.weld[joint.child] = self.weld[joint.parent]
        else:
            self.weld[joint.child] = len(self.weld) + 1
            self.rules.above[self.weld[joint.child]] = self.weld[joint.parent]

    # -- bodies ----------------------------------------------------------------------------------------------

    def _add_body(self, link: Link) -> None:
        link.node.check_time()
        props, options, body = self._mass(link), self.options, self.builder.body_count
        if props.mass <= 0.0:
            self.unknown.note_empty(body, link.node)
        elif link.inertial is None or not link.inertial.mass > 0.0:
            self.unknown.note_shapes(body, props.mass, options.density, link.node)
        props = usable_mass(
            props, link.node, self.report, options.ensure_nonstatic_links, options.static_link_mass
        )
        self.report.bodies[link.name] = self.builder.add_body(
            origin=self.poses[link.name].warp(),
            com=props.com,
            I_m=props.inertia,
            mass=props.mass,
            key=link.name,
        )

    def _mass(self, link: Link) -> MassProps:
        """Mass from the geometry or from <inertial>, each standing in where the other says nothing."""
        options, inertial = self.options, link.inertial
        if inertial is not None and not options.ignore_inertial_definitions:
            return self._defined(inertial)
        shapes = link.visuals if options.parse_visuals_as_colliders else link.collisions
        props = MassProps.zero()
        if shapes and options.density > 0.0:
            props = combine([self.shapes.mass(shape) for shape in shapes])
        if inertial is None or not inertial.mass > 0.0:
            return props
        if props.mass <= 0.0:
            self.report.approximated(
                link.node, "there is no geometry to compute the mass from; <inertial> is used"
            )
            return self._defined(inertial)
        self.report.approximated(link.node, left_out(inertial.mass, props.mass))
        return props

    def _defined(self, inertial: Inertial) -> MassProps:
        scale = self.options.scale
        return MassProps(inertial.mass, inertial.com * scale, inertial.inertia * scale**2)

    # -- joints ----------------------------------------------------------------------------------------------

    def _axis(self, joint: Joint, direction: np.ndarray, limited: bool = True) -> JointAxis:
        options = self.options
        lower, upper = (
            self._limits(joint) if limited else (options.joint_limit_lower, options.joint_limit_upper)
        )
        drive = limited and joint.mimic is None and (options.stiffness > 0.0 or options.damping > 0.0)
        return JointAxis(
            direction,
            limit_lower=lower,
            limit_upper=upper,
            limit_ke=options.limit_ke,
            limit_kd=options.limit_kd,
            action=self.coordinates.get(joint.name, 0.0) if drive else None,
            target_ke=options.stiffness if drive else 0.0,
            target_kd=options.damping if drive else 0.0,
            mode=JointMode.TARGET_POSITION if drive else JointMode.FORCE,
            damping=joint.damping,
            friction=joint.friction,
            effort_limit=np.inf if joint.effort is None else joint.effort,
            velocity_limit=np.inf if joint.velocity is None else joint.velocity,
        )

    def _add_joint(self, joint: Joint) -> None:
        builder, report = self.builder, self.report
        parent, child = report.bodies[joint.parent], report.bodies[joint.child]
        frame = joint.pose.scaled(self.options.scale).warp()
        # a floating joint has no rotor
        armature = 0.0 if joint.kind == "floating" else self.options.armature
        common = {"parent_xform": frame, "key": joint.name, "armature": armature}
        coord, dof = builder.joint_coord_count, builder.joint_dof_count
        if joint.kind == "fixed":
            index = builder.add_joint(JointType.FIXED, parent, child, **common)
        elif joint.kind == "floating":
            index = builder.add_joint_free(child, parent=parent, **common)
        elif joint.kind == "spherical":
            index = builder.add_joint(JointType.BALL, parent, child, **common)
        elif joint.kind == "planar":
            first, second = _plane_axes(joint.axis)
            linear = [self._axis(joint, direction, limited=False) for direction in (first, second)]
            turn = [self._axis(joint, joint.axis, limited=False)]
            index = builder.add_joint(
                JointType.D6, parent, child, linear_axes=linear, angular_axes=turn, **common
            )
        elif joint.kind == "prismatic":
            axes = [self._axis(joint, joint.axis)]
            index = builder.add_joint(JointType.PRISMATIC, parent, child, linear_axes=axes, **common)
        else:
            axes = [self._axis(joint, joint.axis)]
            index = builder.add_joint(JointType.REVOLUTE, parent, child, angular_axes=axes, **common)
        report.joints[joint.name] = index
        if builder.joint_dof_count > dof:
            report.joint_coords[joint.name], report.joint_dofs[joint.name] = coord, dof
        if joint.name in self.coordinates:
            builder.joint_q[coord] = self.coordinates[joint.name]
        if joint.kind in ("floating", "spherical"):
            _fill(builder.joint_damping, dof, builder.joint_dof_count, joint.damping)
            _fill(builder.joint_friction, dof, builder.joint_dof_count, joint.friction)

    def _add_mimics(self) -> None:
        for joint in self.robot.joints.values():
            if joint.mimic is not None:
                leader = self.report.joints[joint.mimic[0]]
                self.builder.joint_mimic.append((self.report.joints[joint.name], leader, *self._mimic(joint)))

    # -- shapes ----------------------------------------------------------------------------------------------

    def _add_shapes(self, name: str, link: Link) -> None:
        options = self.options
        body = self.report.bodies[name]
        visuals, colliders = link.visuals, link.collisions
        if options.parse_visuals_as_colliders:
            visuals, colliders = [], link.visuals
        indices = [
            i for shape in visuals for i in self._add_shape(body, shape, True, not options.hide_visuals)
        ]
        visible = options.force_show_colliders or not visuals
        if options.parse_visuals_as_colliders and options.hide_visuals:
            visible = options.force_show_colliders
        for shape in colliders:
            for index in self._add_shape(body, shape, False, visible):
                self.rules.add(index, body, self.weld[name], self.tree[name])
                indices.append(index)
        if indices:
            self.report.shapes[name] = indices

    def _add_shape(self, body: int, shape: Geometry, visual: bool, visible: bool) -> list[int]:
        builder = self.builder
        role = "visual" if visual else "collision"
        key = shape.name or f"{builder.body_key[body]}_{role}_{builder.shape_count}"
        return self.shapes.add(shape, body, Pose.identity(), key, not visual, visible)


def _plane_axes(normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two axes that span the plane: x and y for the normal z, and turned the short way for others."""
    first = np.eye(3)[int(np.argmin(np.abs(normal)))]
    first = first - normal * (normal @ first)
    first /= np.linalg.norm(first)
    return first, np.cross(normal, first)


def _fill(values: Column, start: int, stop: int, value: float) -> None:
    values[start:stop] = [value] * (stop - start)
