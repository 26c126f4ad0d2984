"""SDFormat records to builder content."""

from dataclasses import dataclass

import numpy as np

from newtonsim.builder import JointAxis, ModelBuilder
from newtonsim.importers.building.filters import TouchRules
from newtonsim.importers.building.masses import UnknownMasses, usable_mass
from newtonsim.importers.files.arguments import ContactSettings
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.massprops import MassProps, combine
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.geometry.shapes import ShapeMaker
from newtonsim.importers.sdf.records import WORLD, Axis, Joint, Link, Scene
from newtonsim.importers.sdf.tree import Tree, find_tree
from newtonsim.scene.enums import JointType

_TYPES = {
    "revolute": JointType.REVOLUTE,
    "continuous": JointType.REVOLUTE,
    "prismatic": JointType.PRISMATIC,
    "fixed": JointType.FIXED,
    "ball": JointType.BALL,
    "universal": JointType.UNIVERSAL,
    "revolute2": JointType.UNIVERSAL,
    "screw": JointType.D6,
}


@dataclass(frozen=True, slots=True)
class SdfOptions:
    """Arguments of `parse_sdf` that shape the result."""

    xform: Pose
    density: float
    armature: float
    contact: ContactSettings
    limit_ke: float
    limit_kd: float
    scale: float
    hide_visuals: bool
    force_show_colliders: bool
    ensure_nonstatic_links: bool
    static_link_mass: float
    merge_mesh_objects: bool


class SceneBuilder:
    """Adds all models of a file to an empty builder."""

    def __init__(self, scene: Scene, options: SdfOptions, builder: ModelBuilder, report: ImportReport):
        self.scene, self.options, self.builder, self.report = scene, options, builder, report
        self.shapes = ShapeMaker(
            builder, options.contact, options.scale, options.density, options.merge_mesh_objects, report
        )
        self.rules = TouchRules(within_tree=False)
        self.unknown = UnknownMasses(
            report, "link", options.static_link_mass if options.ensure_nonstatic_links else None
        )
        self.weld: dict[str, int] = {}
        self.tree: Tree = find_tree(scene)

    def build(self) -> None:
        """Add bodies, joints, shapes, filters and couplings."""
        for link in self.scene.links.values():
            if self._is_static(link.name):
                self.weld[link.name], self.report.bodies[link.name] = 0, -1
        for root in self.tree.roots:
            self._add_tree(root)
        for joint in self.tree.loops:
            self._add_loop(joint)
        for joint in self.tree.needless:
            self.report.ignored(joint.node, "a joint between links that do not move")
        for joint in self.scene.joints:
            if joint.kind == "gearbox":
                self._add_gearbox(joint)
            for place, axis in enumerate(joint.axes):
                self._add_mimic(joint, place, axis)
        self.unknown.settle(self.builder)
        for link in self.scene.links.values():
            self._add_shapes(link)
        self.builder.shape_collision_filter_pairs |= self.rules.blocked()

    def _is_static(self, name: str) -> bool:
        return name == WORLD or self.scene.links[name].static

    def _pose(self, local: Pose) -> Pose:
        """A pose in the file's world as one in the builder's."""
        return self.options.xform @ local.scaled(self.options.scale)

    # -- bodies and joints -----------------------------------------------------------------------------------

    def _add_tree(self, root: str) -> None:
        """Add a link, its joint to the world, and all links that hang on it."""
        builder, joint = self.builder, self.tree.above.get(root)
        builder.add_articulation(root)
        self._add_body(root, joint)
        if joint is None:
            index = self.report.bodies[root]
            coord, dof = builder.joint_coord_count, builder.joint_dof_count
            name = f"{root}_free"
            self.report.joints[name] = builder.add_joint_free(index, key=name)
            self.report.joint_coords[name], self.report.joint_dofs[name] = coord, dof
        else:
            self._add_joint(joint)
        stack = list(reversed(self.tree.below.get(root, ())))
        while stack:
            joint = stack.pop()
            self._add_body(joint.child, joint)
            self._add_joint(joint)
            stack.extend(reversed(self.tree.below.get(joint.child, ())))

    def _add_body(self, name: str, joint: Joint | None) -> None:
        link, options = self.scene.links[name], self.options
        link.node.check_time()
        props = self._mass(link)
        if props.mass <= 0.0:
            self.unknown.note_empty(self.builder.body_count, link.node)
        props = usable_mass(
            props, link.node, self.report, options.ensure_nonstatic_links, options.static_link_mass
        )
        self.report.bodies[name] = self.builder.add_body(
            origin=self._pose(link.pose).warp(), com=props.com, I_m=props.inertia, mass=props.mass, key=name
        )
        above = 0 if joint is None or self._is_static(joint.parent) else self.weld[joint.parent]
        if joint is not None and joint.kind == "fixed":
            self.weld[name] = above
            return
        self.weld[name] = self.report.bodies[name] + 1
        self.rules.above[self.weld[name]] = above

    def _mass(self, link: Link) -> MassProps:
        scale = self.options.scale
        if link.inertial is not None:
            given = link.inertial
            return MassProps(given.mass, given.com * scale, given.inertia * scale**2)
        default = self.options.density if link.density is None else link.density
        parts = [
            self.shapes.mass(one.shape, default if one.density is None else one.density)
            for one in link.collisions
        ]
        return combine(parts)

    def _frames(self, joint: Joint) -> tuple[tuple[int, Pose], tuple[int, Pose]]:
        """Body and joint frame of both ends; those of ends that do not move in the builder's world."""
        ends = []
        for name in (joint.parent, joint.child):
            if self._is_static(name):
                ends.append((-1, self._pose(joint.pose)))
            else:
                local = self.scene.links[name].pose.inverse() @ joint.pose
                ends.append((self.report.bodies[name], local.scaled(self.options.scale)))
        return ends[0], ends[1]

    def _axes(self, joint: Joint) -> tuple[list[JointAxis], list[JointAxis]]:
        """Linear and angular axes of a joint."""
        axes = [self._axis(axis, joint.kind == "prismatic") for axis in joint.axes]
        if joint.kind == "prismatic":
            return axes, []
        if joint.kind == "screw":
            # The travel follows the turn, which alone has limits and passive terms.
            return [JointAxis(joint.axes[0].direction)], axes
        return [], axes

    def _axis(self, axis: Axis, linear: bool) -> JointAxis:
        options = self.options
        length = options.scale if linear else 1.0
        return JointAxis(
            axis.direction,
            limit_lower=axis.lower * length,
            limit_upper=axis.upper * length,
            limit_ke=options.limit_ke,
            limit_kd=options.limit_kd,
            damping=axis.damping,
            friction=axis.friction,
            stiffness=axis.stiffness,
            spring_ref=axis.spring_ref * length,
            effort_limit=axis.effort,
            velocity_limit=axis.velocity,
        )

    def _add_joint(self, joint: Joint) -> None:
        builder, report = self.builder, self.report
        (parent, parent_frame), (child, child_frame) = self._frames(joint)
        coord, dof = builder.joint_coord_count, builder.joint_dof_count
        linear, angular = self._axes(joint)
        index = builder.add_joint(
            _TYPES[joint.kind],
            parent,
            child,
            linear_axes=linear,
            angular_axes=angular,
            key=joint.name,
            parent_xform=parent_frame.warp(),
            child_xform=child_frame.warp(),
            armature=self.options.armature,
            collision_filter_parent=parent >= 0,
        )
        report.joints[joint.name] = index
        if builder.joint_dof_count > dof:
            report.joint_coords[joint.name], report.joint_dofs[joint.name] = coord, dof
        if joint.kind == "screw":
            pitch = joint.pitch * self.options.scale / (2.0 * np.pi)
            key = f"{joint.name}_thread"
            report.constraints[key] = builder.add_constraint_coupling(
                index, index, (0.0, pitch), 0, 1, key=key
            )

    def _add_loop(self, joint: Joint) -> None:
        """Close a loop: a second joint above a link, or one to a link that does not move."""
        if joint.kind == "screw":
            self.report.unsupported(joint.node, "a screw joint that closes a loop of links")
            return
        (parent, parent_frame), (child, child_frame) = self._frames(joint)
        linear, angular = self._axes(joint)
        if len(angular) > 1:
            self.report.approximated(joint.node, "a joint with two axes that closes a loop has no limits")
            angular = [JointAxis(axis.direction) for axis in joint.axes]
        if any(axis.damping or axis.friction or axis.stiffness for axis in joint.axes):
            self.report.unsupported(
                joint.node, "passive forces of a joint that closes a loop of links", partly=True
            )
        self.report.constraints[joint.name] = self.builder.add_loop_joint(
            _TYPES[joint.kind],
            parent,
            child,
            parent_frame.warp(),
            child_frame.warp(),
            linear_axes=[*linear],
            angular_axes=[*angular],
            key=joint.name,
        )

    # -- couplings -------------------------------------------------------------------------------------------

    def _add_mimic(self, joint: Joint, place: int, axis: Axis) -> None:
        if axis.mimic is None:
            return
        name, other_place, factor, offset = axis.mimic
        joints = {one.name: one for one in self.scene.joints}
        leader = joints.get(name)
        if leader is None or other_place >= len(leader.axes):
            raise axis.node.error(f"<mimic> names the joint {name!r}, which has no such axis")
        if joint.name not in self.report.joints or name not in self.report.joints:
            self.report.unsupported(axis.node, "<mimic> of a joint that closes a loop of links")
            return
        if (joint.name, place) == (name, other_place):
            raise axis.node.error("a joint cannot mimic itself")
        own, other = (self.options.scale if one.kind == "prismatic" else 1.0 for one in (joint, leader))
        # of a screw joint the turn counts, which comes after the travel
        places = [at + (one.kind == "screw") for one, at in ((joint, place), (leader, other_place))]
        key = f"{joint.name}_mimic" + (f"_{place}" if place else "")
        self.report.constraints[key] = self.builder.add_constraint_coupling(
            self.report.joints[joint.name],
            self.report.joints[name],
            (offset * own, factor * own / other),
            *places,
            key=key,
        )

    def _add_gearbox(self, joint: Joint) -> None:
        """Couple the turns of both links against the reference link: theta_2 = -ratio theta_1."""
        turns = [
            self._turn(joint, link, axis.direction)
            for link, axis in zip((joint.parent, joint.child), joint.axes)
        ]
        if None in turns:
            self.report.unsupported(
                joint.node, "a gearbox whose links do not turn on revolute joints of its reference body"
            )
            return
        (first, sign), (second, other_sign) = turns
        self.report.constraints[joint.name] = self.builder.add_constraint_coupling(
            self.report.joints[second],
            self.report.joints[first],
            (0.0, -joint.ratio * sign * other_sign),
            key=joint.name,
        )

    def _turn(self, gearbox: Joint, link: str, direction: np.ndarray) -> tuple[str, float] | None:
        """Revolute joint between a link and the gearbox's reference, and the sign of its coordinate."""
        for joint in self.scene.joints:
            ends = (joint.parent, joint.child)
            if (
                joint.kind not in ("revolute", "continuous")
                or joint.name not in self.report.joints
                or set(ends) != {link, gearbox.reference}
            ):
                continue
            inward = gearbox.pose.inverse() @ joint.pose
            along = float(direction @ (inward.apply(joint.axes[0].direction) - inward.p))
            if abs(along) > 1.0 - 1.0e-6:
                return joint.name, np.sign(along) * (1.0 if ends[1] == link else -1.0)
        return None

    # -- shapes ----------------------------------------------------------------------------------------------

    def _add_shapes(self, link: Link) -> None:
        options, body = self.options, self.report.bodies[link.name]
        frame = self._pose(link.pose) if body < 0 else Pose.identity()
        indices = []
        for shape in link.visuals:
            key = shape.name or f"{link.name}_visual_{self.builder.shape_count}"
            indices += self.shapes.add(shape, body, frame, key, False, not options.hide_visuals)
        visible = options.force_show_colliders or not link.visuals
        for collision in link.collisions:
            shape, surface = collision.shape, collision.surface
            key = shape.name or f"{link.name}_collision_{self.builder.shape_count}"
            material = {"mu": surface.mu, "restitution": surface.restitution}
            tree = -1 if link.self_collide or body < 0 else link.tree
            for index in self.shapes.add(shape, body, frame, key, True, visible, **material):
                self.builder.shape_mu_torsion[index] = surface.torsion
                self.builder.shape_mu_rolling[index] = surface.rolling
                self.rules.add(index, body, self.weld[link.name], tree, surface.category, surface.collide)
                indices.append(index)
        if indices:
            self.report.shapes[link.name] = indices
