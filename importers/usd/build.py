"""Records of a stage to builder content."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from newtonsim.builder import JointAxis, ModelBuilder
from newtonsim.geometry import Mesh
from newtonsim.geometry.transforms import quat_between, quat_conjugate, quat_multiply
from newtonsim.importers.files.clock import check_time
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.usd.actuators import ActuatorReader
from newtonsim.importers.usd.bodies import BodyReader
from newtonsim.importers.usd.colliders import ShapeReader
from newtonsim.importers.usd.coordinates import Placed, place
from newtonsim.importers.usd.effective import resisting_inertia
from newtonsim.importers.usd.exact import (
    add_couplings,
    constraint_options,
    read_floating,
    read_shape,
    write_exact,
)
from newtonsim.importers.usd.filters import Groups, blocked_pairs, crossed, named_pairs, shapes_below
from newtonsim.importers.usd.forest import Forest, Tree, grow, merge_stacked
from newtonsim.importers.usd.frames import split
from newtonsim.importers.usd.joints import JointReader
from newtonsim.importers.usd.materials import Materials
from newtonsim.importers.usd.records import AxisRecord, BodyRecord, Collider, Content, Geometry, JointRecord
from newtonsim.importers.usd.scene import Defaults, Scenes
from newtonsim.importers.usd.vendors import equality_options
from newtonsim.importers.usd.walk import Place, Walker
from newtonsim.scene.enums import JointMode, JointType

_TYPES = {
    "fixed": JointType.FIXED,
    "revolute": JointType.REVOLUTE,
    "prismatic": JointType.PRISMATIC,
    "ball": JointType.BALL,
    "d6": JointType.D6,
}

_SELF_COLLISIONS = ("physxArticulation:enabledSelfCollisions", "newton:selfCollisionEnabled")
_PASSIVE = {"armature", "damping", "friction", "stiffness"}


@dataclass(frozen=True, slots=True)
class Readers:
    """What all parts of one stage share."""

    walker: Walker
    scenes: Scenes
    defaults: Defaults
    materials: Materials
    shapes: ShapeReader
    groups: Groups
    invert_rotations: bool


class StageBuilder:
    """Adds the content of one walk to an empty builder."""

    def __init__(self, readers: Readers, content: Content, builder: ModelBuilder, report: ImportReport):
        self.readers, self.content, self.builder, self.report = readers, content, builder, report
        self.defaults = readers.defaults
        self.bodies: dict[str, BodyRecord] = {}
        self.colliders: list[Collider] = []
        self.scales: dict[str, np.ndarray] = {}
        self.axes: dict[str, tuple[int, bool]] = {}
        self._meshes: dict[object, Mesh] = {}
        self._colliding: dict[str, list[int]] = {}

    def build(self) -> None:
        """Add bodies, joints, constraints, shapes and filters."""
        self._read_bodies()
        joints = merge_stacked(self._read_joints(), self._adds_mobility())
        anchors = {None, *(label for label, body in self.bodies.items() if body.kinematic)}
        holding = [joint for joint in joints if not anchors.issuperset(joint.bodies)]
        for joint in joints:
            if joint not in holding:
                self.report.ignored(joint.element, "the joint connects no body that it could move")
        free = [joint for joint in holding if joint.kind == "free"]
        for joint in free:
            self.report.ignored(joint.element, "locks no axis: it only keeps its bodies from colliding")
        forest = grow(self.bodies, anchors, [j for j in holding if j.kind != "free"], self._preferred_roots())
        trees = [
            (tree, [place(edge, self.bodies, self.report) for edge in tree.edges]) for tree in forest.trees
        ]
        for label, body in self.bodies.items():
            self._add_body(label, body)
        for tree, placed in trees:
            self._add_tree(tree, placed)
        for joint in forest.loops:
            self._add_constraint(joint)
        add_couplings(self.content, self.builder, self.report)
        units = self.readers.walker.view.units
        ActuatorReader(self.content, self.builder, self.report, units, self.axes).add()
        self._add_shapes()
        self._add_filters(forest, free, joints)

    # -- bodies ----------------------------------------------------------------------------------------------

    def _read_bodies(self) -> None:
        content, readers = self.content, self.readers
        units = readers.walker.view.units
        reader = BodyReader(readers.shapes, readers.materials, units, self.defaults.density, self.report)
        for label, where in content.bodies.items():
            record = reader.body(where)
            record.armature = self.defaults.on(where.element).armature
            self.bodies[label] = record
        carried: dict[str, list[Collider]] = {}
        for where in content.colliders:
            label = where.body if where.body in self.bodies else None
            pose = Pose.identity() if label is None else self.bodies[label].pose
            collider = reader.collider(where, None if label is None else content.bodies[label], pose)
            self.colliders.append(collider)
            if label is not None:
                carried.setdefault(label, []).append(collider)
        for label, record in self.bodies.items():
            reader.weigh(record, carried.get(label, []))

    def _add_body(self, label: str, body: BodyRecord) -> None:
        check_time(self.report.path, element=label)
        index = self.builder.add_body(
            origin=body.pose.warp(),
            com=body.props.com,
            I_m=body.props.inertia,
            mass=body.props.mass,
            key=label,
        )
        if not body.kinematic:
            self.builder.body_qd[index] = (*body.angular.tolist(), *body.linear.tolist())
        self.report.bodies[label] = index
        if body.carried != 0.0:
            self.report.gravcomp[index] = (body.carried, tuple(body.props.com.tolist()))

    # -- joints ----------------------------------------------------------------------------------------------

    def _read_joints(self) -> list[JointRecord]:
        poses = {label: body.pose for label, body in self.bodies.items()}
        angle = self.readers.scenes.reference_angle
        reader = JointReader(self.readers.walker, self.content, poses, self.report, angle)
        return [
            record
            for where in self.content.joints
            if self._wants(where) and (record := reader.read(where, self.defaults)) is not None
        ]

    def _wants(self, where: Place) -> bool:
        element = where.element
        if not self.readers.walker.only_enabled_joints or element.flag("physics:jointEnabled", True):
            return True
        self.report.ignored(element, "the joint is not enabled")
        return False

    def _adds_mobility(self) -> Callable[[JointRecord], bool]:
        """Whether a joint adds to what others allow: MuJoCo's do, and those that Newton's schema names."""
        roots = [place.element for place in self.content.roots]
        if any(root.flag("newton:jointsAddMobility", False) for root in roots):
            return lambda joint: True
        return lambda joint: "MjcJointAPI" in joint.element.schemas

    def _preferred_roots(self) -> set[str]:
        """Bodies that ArticulationRootAPI names."""
        return {where.element.label for where in self.content.roots if where.body == where.element.label}

    def _add_tree(self, tree: Tree, joints: list[Placed]) -> None:
        builder, report = self.builder, self.report
        builder.add_articulation(tree.root or tree.edges[0].child)
        if tree.root is not None:
            coord, dof = builder.joint_coord_count, builder.joint_dof_count
            key = f"{tree.root}_free"
            report.joints[key] = builder.add_joint_free(report.bodies[tree.root], key=key)
            report.joint_coords[key], report.joint_dofs[key] = coord, dof
            read_floating(self.content.bodies[tree.root].element, builder, dof)
        if tree.anchor is not None:
            # Joints hang on bodies that are part of a tree; this one stands where it is.
            pose = self.bodies[tree.anchor].pose.warp()
            builder.add_joint_fixed(
                -1, report.bodies[tree.anchor], pose, key=f"{tree.anchor}_fixed", armature=0.0
            )
        inertia = [None] * len(joints)
        if any(axis.drive and axis.drive.acceleration for joint in joints for axis in joint.edge.joint.axes):
            inertia = resisting_inertia(tree.root, joints, self.bodies)
        for joint, resistance in zip(joints, inertia):
            self._add_joint(joint, resistance)

    def _add_joint(self, placed: Placed, resistance: np.ndarray | None) -> None:
        builder, report, joint = self.builder, self.report, placed.edge.joint
        coord, dof = builder.joint_coord_count, builder.joint_dof_count
        label, count = joint.element.label, len(placed.linear)
        records = [*placed.linear, *placed.angular]
        axes = [
            self._axis(joint, record, direction, None if resistance is None else float(resistance[number]))
            for number, (record, direction) in enumerate(zip(records, placed.directions))
        ]
        parent = -1 if placed.edge.parent is None else report.bodies[placed.edge.parent]
        index = builder.add_joint(
            _TYPES[joint.kind],
            parent,
            report.bodies[placed.edge.child],
            linear_axes=axes[:count],
            angular_axes=axes[count:],
            key=label,
            parent_xform=placed.frames[0].warp(),
            child_xform=placed.frames[1].warp(),
            armature=0.0,
            collision_filter_parent=not joint.collides,
            enabled=joint.enabled,
        )
        builder.joint_q[coord:] = placed.q
        builder.joint_qd[dof:] = placed.qd
        builder.joint_swing_limit[index] = joint.cone
        for name, value in joint.rotor.items():
            getattr(builder, f"joint_{name}")[dof:] = [value] * (builder.joint_dof_count - dof)
        if joint.exact is not None and not placed.edge.turned:
            write_exact(joint.exact, builder, index, coord, dof, builder.joint_axis_start[index])
        report.joints[label] = index
        if builder.joint_dof_count > dof:
            report.joint_coords[label], report.joint_dofs[label] = coord, dof
        for number, record in enumerate(records):
            if record.label:
                report.joints[record.label] = index
                report.joint_coords[record.label] = coord + number
                report.joint_dofs[record.label] = dof + number
                self.axes[record.label] = (builder.joint_axis_start[index] + number, record.angular)
                if record.offset != 0.0:
                    report.joint_refs[record.label] = record.offset

    def _axis(
        self, joint: JointRecord, record: AxisRecord, direction: np.ndarray, inertia: float | None
    ) -> JointAxis:
        drive, options = record.drive, {}
        if drive is not None:
            factor = 1.0
            if drive.acceleration:
                factor = inertia
                self.report.approximated(
                    joint.element,
                    f"the acceleration drive has the gains for {inertia:.4g}, the inertia at the start",
                )
            options = _drive_options(drive.stiffness * factor, drive.damping * factor, drive)
        efforts = (options.get("effort_limit", math.inf), record.numbers.get("effort_limit", math.inf))
        if record.numbers.get("effort_lower", -math.inf) > -math.inf:  # a drive's bound counts both ways
            options["effort_lower"] = max(record.numbers["effort_lower"], -efforts[0])
        limits = {"limit_ke": joint.limit_ke, "limit_kd": joint.limit_kd}
        return JointAxis(
            direction,
            limit_lower=record.lower,
            limit_upper=record.upper,
            **(limits | record.numbers | options | {"effort_limit": min(efforts)}),
        )

    # -- constraints -----------------------------------------------------------------------------------------

    def _add_constraint(self, joint: JointRecord) -> None:
        """Add a joint outside the trees."""
        if "MjcJointAPI" in joint.element.schemas and not joint.excluded:
            self.report.unsupported(
                joint.element, "several MuJoCo joints of one body constrain each other here"
            )
        builder, report = self.builder, self.report
        parent, child = (-1 if body is None else report.bodies[body] for body in joint.bodies)
        frames = [frame.warp() for frame in joint.frames]
        label = joint.element.label
        options = {"key": label, "enabled": joint.enabled, "collision_filter": not joint.collides}
        if joint.kind in ("ball", "fixed"):
            options |= equality_options(joint.element, self.readers.walker.view.units, report)
        options |= constraint_options(joint.element)
        if joint.kind == "distance":
            report.constraints[label] = builder.add_constraint_distance(
                parent, child, *frames, *joint.distance, **options
            )
            return
        if joint.is_driven:
            report.unsupported(joint.element, "the drive of a joint that closes a loop is not modelled")
        if joint.rotor or any(not _PASSIVE.isdisjoint(axis.numbers) for axis in joint.axes):
            report.unsupported(
                joint.element,
                "armature, damping, friction and springs of a joint that closes a loop are not modelled",
            )
        if joint.kind == "ball" and math.isfinite(joint.cone):
            report.unsupported(joint.element, "the cone of a joint that closes a loop is not modelled")
        is_limited = any(math.isfinite(axis.lower) or math.isfinite(axis.upper) for axis in joint.angular)
        bounded = len(joint.angular) < 2
        if is_limited and not bounded:
            report.unsupported(
                joint.element, "limits of several angles of a joint that closes a loop are not modelled"
            )
        linear = [JointAxis(axis.direction, axis.lower, axis.upper) for axis in joint.linear]
        angular = [
            JointAxis(axis.direction, axis.lower, axis.upper) if bounded else JointAxis(axis.direction)
            for axis in joint.angular
        ]
        report.constraints[label] = builder.add_loop_joint(
            _TYPES[joint.kind], parent, child, *frames, linear, angular, **options
        )

    # -- shapes ----------------------------------------------------------------------------------------------

    def _add_shapes(self) -> None:
        for collider in self.colliders:
            element = collider.place.element
            indices = [
                self._add_shape(collider.place, shape, collider, number)
                for number, shape in enumerate(collider.shapes)
            ]
            if collider.enabled:
                self._colliding[element.label] = indices
            self._register(collider.place, indices)
        for where in self.content.visuals:
            label = where.body if where.body in self.bodies else None
            # What is seen was drawn where the stage has the body, and goes along when a joint moves it.
            body = Pose.identity() if label is None else split(self.content.bodies[label].matrix).pose
            shapes = self.readers.shapes.shapes(where, body, collides=False)
            self._register(where, [self._add_shape(where, shape, None, n) for n, shape in enumerate(shapes)])

    def _register(self, where: Place, indices: list[int]) -> None:
        if indices:
            label = where.element.label
            self.report.shapes[label] = indices
            length = self.readers.walker.view.units.length
            self.scales[label] = split(where.matrix).scale / length

    def _add_shape(self, where: Place, shape: Geometry, collider: Collider | None, number: int) -> int:
        element, builder = where.element, self.builder
        label = where.body if where.body in self.bodies else None
        collides = collider is not None and collider.enabled
        contact = self.defaults.on(element).contact
        material = collider.material if collider is not None else None
        arguments = contact.arguments(material.friction if material is not None else None)
        fields = {} if collider is None or material is None else material.fields | collider.fields
        if material is not None and material.restitution is not None:
            arguments["restitution"] = material.restitution
        if collider is not None and collider.thickness is not None:
            arguments["thickness"] = collider.thickness
        arguments |= {name: fields[name] for name in ("ke", "kd", "kf", "ka") if name in fields}
        rotation = shape.pose.q
        if self.readers.invert_rotations:
            rotation = quat_conjugate(rotation)
        arguments.update(
            body=-1 if label is None else self.report.bodies[label],
            pos=shape.pose.p,
            rot=rotation,
            has_shape_collision=collides,
            has_ground_collision=collides and shape.kind != "plane" and label is not None,
            is_visible=where.visible and _is_drawn(element),
            key=element.label if number == 0 else f"{element.label}_{number}",
        )
        index = self._add_geometry(shape, arguments)
        for name in fields.keys() - arguments.keys():
            getattr(builder, f"shape_{name}")[index] = fields[name]
        read_shape(element, builder, index)
        appearance = self.readers.materials.appearance(element)
        builder.shape_color[index], builder.shape_texture[index] = appearance.color, appearance.texture
        return index

    def _add_geometry(self, shape: Geometry, arguments: dict) -> int:
        builder, size = self.builder, shape.size
        if shape.kind == "plane":
            turn = quat_multiply(arguments.pop("rot"), quat_between((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
            return builder.add_shape_plane(rot=turn, width=0.0, length=0.0, **arguments)
        arguments["density"] = 0.0
        if shape.kind == "sphere":
            return builder.add_shape_sphere(radius=size[0], **arguments)
        if shape.kind == "box":
            return builder.add_shape_box(hx=size[0], hy=size[1], hz=size[2], **arguments)
        if shape.kind == "ellipsoid":
            return builder.add_shape_ellipsoid(a=size[0], b=size[1], c=size[2], **arguments)
        if shape.kind == "mesh":
            return builder.add_shape_mesh(mesh=self._mesh(shape), convex=shape.convex, **arguments)
        add = getattr(builder, f"add_shape_{shape.kind}")
        return add(radius=size[0], half_height=size[1], up_axis=2, **arguments)

    def _mesh(self, shape: Geometry) -> Mesh:
        key = id(shape.vertices) if shape.key is None else shape.key
        if key not in self._meshes:
            self._meshes[key] = Mesh(shape.vertices, shape.faces, uvs=shape.uvs)
        return self._meshes[key]

    # -- filters ---------------------------------------------------------------------------------------------

    def _add_filters(self, forest: Forest, free: list[JointRecord], joints: list[JointRecord]) -> None:
        shapes = self._colliding
        colliding = [
            (collider, shapes[collider.place.element.label])
            for collider in self.colliders
            if collider.place.element.label in shapes
        ]
        owners = [self._owner(collider) for collider, _ in colliding]
        pairs = blocked_pairs(colliding, self.readers.groups, owners, self._closed(forest))
        pairs |= named_pairs(self.content, shapes, self.report)
        for joint in joints:
            # The builder keeps jointed bodies apart, but knows nothing of colliders of the world.
            if not joint.collides and (joint in free or None in joint.bodies) and None not in joint.targets:
                pairs |= crossed(*(shapes_below(target, shapes) for target in joint.targets))
        self.builder.shape_collision_filter_pairs |= pairs

    def _owner(self, collider: Collider) -> str | None:
        """Scene of a collider: that of its body; None for the world's colliders that belong to all."""
        scenes, body = self.readers.scenes, collider.place.body
        if body in self.content.bodies:
            return scenes.owner_of(self.content.bodies[body].element)
        element = collider.place.element
        return scenes.owner_of(element) if element.targets("physics:simulationOwner") else None

    def _closed(self, forest: Forest) -> dict[str, int]:
        """Number of the articulation of each body that PhysX keeps from touching its siblings."""
        labels = [
            where.element.label
            for where in self.content.roots
            if not all(where.element.flag(name, True) for name in _SELF_COLLISIONS)
        ]
        closed: dict[str, int] = {}
        for number, tree in enumerate(forest.trees):
            members = [edge.child for edge in tree.edges] + ([tree.root] if tree.root else [])
            if any(
                member == label or member.startswith(label + "/") for label in labels for member in members
            ):
                closed.update(dict.fromkeys(members, number))
        return closed


def _is_drawn(element: object) -> bool:
    """Whether the purpose of a prim is to be seen; colliders are often guides."""
    from pxr import UsdGeom

    return UsdGeom.Imageable(element.prim).ComputePurpose() in ("default", "render")


def _drive_options(stiffness: float, damping: float, drive: object) -> dict:
    """Arguments of JointAxis for a drive: stiffness (target - q) + damping (velocity - qd)."""
    limit = {"effort_limit": drive.max_force}
    if stiffness > 0.0:
        # A moving target pulls as one that stands farther on.
        target = drive.position + damping * drive.velocity / stiffness
        mode = JointMode.TARGET_POSITION
        return {"mode": mode, "target_ke": stiffness, "target_kd": damping, "action": target, **limit}
    if damping > 0.0:
        return {"mode": JointMode.TARGET_VELOCITY, "target_ke": damping, "action": drive.velocity, **limit}
    return limit
