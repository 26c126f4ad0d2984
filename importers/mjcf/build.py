"""MJCF records to builder content."""

from typing import Any

import numpy as np

from newtonsim.builder import JointAxis, ModelBuilder
from newtonsim.geometry import Heightfield, Mesh
from newtonsim.geometry.transforms import quat_between
from newtonsim.importers.building.assemble import add_base
from newtonsim.importers.building.filters import TouchRules
from newtonsim.importers.building.masses import UnknownMasses, usable_mass
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.massprops import MassProps, ball_of
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.actuators import (
    Drive,
    activation_of,
    bound_inputs,
    bound_together,
    combine,
    report_bounds,
    target_of,
)
from newtonsim.importers.mjcf.damping_ratios import set_damping_ratios
from newtonsim.importers.mjcf.document import Document
from newtonsim.importers.mjcf.equality import add_equalities
from newtonsim.importers.mjcf.inertia import align_free_bodies, compile_masses
from newtonsim.importers.mjcf.keyframes import add_keyframes
from newtonsim.importers.mjcf.layout import Segment, segments
from newtonsim.importers.mjcf.pairs import add_pair_parameters
from newtonsim.importers.mjcf.plan import BuildState, JointPlace, MjcfOptions, Place
from newtonsim.importers.mjcf.records import Actuator, Body, Geom, Joint, Scene, SolverParameters
from newtonsim.importers.mjcf.spring_dampers import set_spring_dampers
from newtonsim.importers.mjcf.tendons import add_tendons
from newtonsim.importers.mjcf.whole_actuators import WholeActuators
from newtonsim.scene.arrays import SOLIMP
from newtonsim.scene.enums import JointMode, JointType
from newtonsim.scene.joint_types import least_effort

LINK_MASS_RATIO = 1.0e-6
"""Mass and inertia of a body between chained joints, as a share of the body that the chain carries."""

_Y_TO_Z = Pose(np.zeros(3), np.array([np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]))


class SceneBuilder:
    """Adds one MJCF scene to an empty builder."""

    def __init__(
        self,
        document: Document,
        scene: Scene,
        options: MjcfOptions,
        builder: ModelBuilder,
        report: ImportReport,
    ):
        self.document, self.scene, self.options = document, scene, options
        self.builder, self.report = builder, report
        self.state = BuildState()
        self.rules = TouchRules(within_tree=options.enable_self_collisions)
        self.unknown = UnknownMasses(
            report, "body", options.static_link_mass if options.ensure_nonstatic_links else None
        )
        self.geom_shapes: dict[str, int] = {}
        self.mesh_cache: dict[str, Mesh] = {}
        self.height_cache: dict[str, Heightfield] = {}
        self.roles = self._roles()
        self.paired = self._paired_bodies()
        self.frictionless = self._is_frictionless()
        self.drives = self._collect_drives()
        self.free_roots = self._free_roots()

    def build(self) -> None:
        """Add bodies, joints, shapes, filters, sites, constraints and keyframes."""
        scene, options = self.scene, self.options
        colliders = {key for key, role in self.roles.items() if role == "collider"}
        masses = compile_masses(
            scene,
            self.document.compiler,
            colliders,
            options.density,
            options.ignore_inertial_definitions,
            self.report,
        )
        align_free_bodies(
            scene, masses, self.document.compiler, options.density, options.ignore_inertial_definitions
        )
        self.state.places.append(Place(-1, options.xform, 0, -1))
        for number, body in enumerate(scene.bodies[1:], start=1):
            self._add_body(number, body, masses[number])
        self.unknown.settle(self.builder)
        for number, body in enumerate(scene.bodies):
            self._add_shapes(number, body)
            self._add_sites(number, body)
        self._add_filters()
        add_equalities(scene, self.state, options, self.builder, self.report)
        add_tendons(scene, self.state, options, self.tendon_drives, self.builder, self.report)
        set_spring_dampers(self.state.joints, self.builder, self.report)
        set_damping_ratios(scene, self.state.joints, self.builder, self.report)
        whole = WholeActuators(scene, self.state, options, self.builder, self.report)
        whole.add()
        self._report_actuators(whole.numbers)
        add_keyframes(scene, self.state, options, self.builder, self.report)

    # -- bodies and joints -----------------------------------------------------------------------------------

    def _free_roots(self) -> set[int]:
        """Bodies that `floating` and `base_joint` are about: with a free joint, else those without joints."""
        bodies = enumerate(self.scene.bodies)
        roots = [number for number, body in bodies if body.parent == 0 and not body.mocap]
        free = {n for n in roots if any(joint.kind == "free" for joint in self.scene.bodies[n].joints)}
        return free or {n for n in roots if not self.scene.bodies[n].joints}

    def _name(self, number: int) -> str:
        return self.scene.bodies[number].name or f"body_{number}"

    def _add_body(self, number: int, body: Body, props: MassProps) -> None:
        body.node.check_time()
        options, parent = self.options, self.state.places[body.parent]
        if body.mocap:
            self._add_mocap_body(number, body, parent)
            return
        if parent.index < 0:
            self.builder.add_articulation(self._name(number))
        weighs = props.mass > 0.0
        props = usable_mass(
            props, body.node, self.report, options.ensure_nonstatic_links, options.static_link_mass
        )
        local = body.pose
        floats = any(joint.kind == "free" for joint in body.joints)
        if props.mass == 0.0 and self.scene.weighs_as_mujoco and not floats:
            # where MuJoCo has the inertial frame of a body for which nothing gives one; equalities of such a
            # body yield by its inverse weight there. A body that floats has its velocity there, too, which
            # far from what it carries would be imprecise.
            props = MassProps(0.0, local.p, props.inertia)
        pose = parent.pose @ local
        chain = segments([joint for joint in body.joints if joint.kind != "free"], options.single_axis_joints)
        above = parent.index
        for segment in chain[:-1]:
            above = self._add_link(number, segment, above, local, pose, props)
            local = Pose.identity()
        index = self._add_dynamic_body(pose, props, self._name(number))
        if not weighs:
            self.unknown.note_empty(index, body.node)
        if body.gravcomp != 0.0:
            self.report.gravcomp[index] = (body.gravcomp, tuple(props.com.tolist()))
        moves = True
        if chain:
            self._add_segment(number, chain[-1], above, index, local)
        else:
            moves = self._add_rigid_joint(number, body, index, pose, local, parent)
        # A body that the file lets float is no part of the world even if the caller fixes it there.
        apart = moves or floats
        weld = number if apart else parent.weld
        if apart:
            self.rules.above[weld] = parent.weld
        self.state.places.append(Place(index, pose, weld, number if parent.index < 0 else parent.tree))
        if body.name is None or body.name not in self.report.bodies:
            self.report.bodies[self._name(number)] = index

    def _add_mocap_body(self, number: int, body: Body, parent: Place) -> None:
        """Add a body without mass and joint, which goes where the user says."""
        if body.joints:
            raise body.node.error("a mocap body has no joints")
        pose = parent.pose @ body.pose
        index = self.builder.add_body(origin=pose.warp(), key=self._name(number))
        self.state.places.append(Place(index, pose, parent.weld, number))
        self.report.bodies[self._name(number)] = index

    def _add_dynamic_body(self, pose: Pose, props: MassProps, key: str) -> int:
        return self.builder.add_body(
            origin=pose.warp(), com=props.com, I_m=props.inertia, mass=props.mass, key=key
        )

    def _add_link(
        self, number: int, segment: Segment, parent: int, local: Pose, pose: Pose, props: MassProps
    ) -> int:
        """Add a joint of a chain and the body of negligible mass that it carries."""
        mass = LINK_MASS_RATIO * (props.mass if props.mass > 0.0 else 1.0)
        moment = LINK_MASS_RATIO * np.trace(props.inertia) / 3.0 or ball_of(mass).inertia[0, 0]
        tiny = MassProps(mass, np.zeros(3), moment * np.eye(3))
        name = f"{self._name(number)}__{self._joint_name(number, segment.joints[-1])}"
        index = self._add_dynamic_body(pose, tiny, name)
        self._add_segment(number, segment, parent, index, local)
        return index

    def _joint_name(self, number: int, joint: Joint) -> str:
        if joint.name:
            return joint.name
        joints = self.scene.bodies[number].joints
        place = next(i for i, one in enumerate(joints) if one is joint)
        return f"{self._name(number)}_joint" + (f"_{place}" if len(joints) > 1 else "")

    def _add_segment(self, number: int, segment: Segment, parent: int, child: int, local: Pose) -> None:
        builder, options = self.builder, self.options
        anchor = Pose(segment.anchor, Pose.identity().q) if any(segment.anchor.tolist()) else Pose.identity()
        frame = (options.xform @ local if parent < 0 else local) @ anchor
        coord, dof, axis = builder.joint_coord_count, builder.joint_dof_count, builder.joint_axis_count
        index = builder.add_joint(
            segment.kind,
            parent,
            child,
            linear_axes=[self._axis(joint) for joint in segment.slides],
            angular_axes=[self._axis(joint) for joint in segment.hinges],
            key="_".join(self._joint_name(number, joint) for joint in segment.joints),
            parent_xform=frame.warp(),
            child_xform=anchor.warp(),
            armature=self._armature(segment.joints[0]),
            # MuJoCo lets bodies touch a parent that is part of the world, or that a pair names
            collision_filter_parent=parent >= 0
            and self.state.places[self.scene.bodies[number].parent].weld != 0
            and (self.scene.bodies[number].parent, number) not in self.paired,
        )
        if segment.ball is not None:
            self._passive(segment.ball, dof)
            if segment.ball.upper is not None:
                builder.joint_swing_limit[index] = builder.joint_twist_upper[index] = segment.ball.upper
                builder.joint_twist_lower[index] = -segment.ball.upper
            self._register(number, segment.ball, index, coord, dof, None)
        for place, joint in enumerate(segment.slides + segment.hinges):
            self._register(number, joint, index, coord + place, dof + place, axis + place)

    def _register(
        self,
        number: int,
        joint: Joint,
        index: int | None,
        coord: int | None,
        dof: int | None,
        axis: int | None,
    ) -> None:
        self.state.joints.append(JointPlace(joint, number, index, coord, dof, axis))
        if index is None:
            return
        name = self._joint_name(number, joint)
        self.report.joints[name] = index
        self.report.joint_coords[name], self.report.joint_dofs[name] = coord, dof
        if dof is not None:
            self.report.leave_to_mujoco("joint", dof, joint.mujoco)
        if joint.ref != 0.0:
            self.report.joint_refs[name] = joint.ref

    def _passive(self, joint: Joint, dof: int) -> None:
        """Damping and friction of joints without axes."""
        count = self.builder.joint_dof_count - dof
        self.builder.joint_damping[dof:] = [joint.damping] * count
        self.builder.joint_friction[dof:] = [joint.friction] * count
        if joint.dry is not None:
            self.builder.joint_friction_solref[dof:] = [joint.dry.solref] * count
            self.builder.joint_friction_solimp[dof:] = [joint.dry.solimp] * count

    def _add_rigid_joint(
        self, number: int, body: Body, index: int, pose: Pose, local: Pose, parent: Place
    ) -> bool:
        """Connect a body without hinges, slides and balls; return whether it can move."""
        builder, options = self.builder, self.options
        free = body.joints[0] if body.joints else None
        key = self._joint_name(number, free) if free is not None else f"{self._name(number)}_fixed"
        if number not in self.free_roots:
            frame = pose if parent.index < 0 else local
            builder.add_joint_fixed(
                parent.index, index, frame.warp(), key=key, collision_filter_parent=parent.index >= 0
            )
            return False
        coord, dof = builder.joint_coord_count, builder.joint_dof_count
        floating = options.floating
        if floating is None:
            floating = free is not None and options.base_joint is None
        joint = add_base(builder, index, pose, floating, options.base_joint, key)
        if free is not None:
            if floating:
                self._passive(free, dof)
                builder.joint_armature[dof:] = [self._armature(free)] * 6
                self._register(number, free, joint, coord, dof, None)
            else:
                self.report.approximated(
                    free.node, "the free joint is replaced because of `floating` or `base_joint`"
                )
                self._register(number, free, None, None, None, None)
        return builder.joint_type[joint] != JointType.FIXED

    def _armature(self, joint: Joint) -> float:
        if joint.armature is None:
            return self.options.armature
        return joint.armature * self.options.armature_scale

    def _axis(self, joint: Joint) -> JointAxis:
        options = self.options
        lower = options.joint_limit_lower if joint.lower is None else joint.lower
        upper = options.joint_limit_upper if joint.upper is None else joint.upper
        drive = self.drives.get(id(joint))
        ke, kd, mode, action = 0.0, 0.0, JointMode.FORCE, None
        least, most = float(least_effort(joint.effort_lower, joint.effort_limit)), joint.effort_limit
        if drive is not None:
            ke, kd, mode, action = drive.ke, drive.kd, drive.mode, drive.act
            least, most = max(least, drive.efforts[0]), min(most, drive.efforts[1])
        elif not self.scene.has_actuators and (options.stiffness > 0.0 or options.damping > 0.0):
            ke, kd, mode = options.stiffness, options.damping, JointMode.TARGET_POSITION
        limit = joint.limit
        if limit is None and joint.margin != 0.0:
            limit = SolverParameters()  # a margin is one of limits by reference
        return JointAxis(
            joint.axis,
            limit_lower=lower,
            limit_upper=upper,
            limit_ke=options.limit_ke,
            limit_kd=options.limit_kd,
            action=action,
            target_ke=ke,
            target_kd=kd,
            mode=mode,
            damping=joint.damping,
            stiffness=joint.stiffness,
            spring_ref=joint.spring_ref - joint.ref,
            friction=joint.friction,
            effort_limit=most,
            effort_lower=-np.inf if least == -most else least,
            armature=self._armature(joint),
            limit_solref=None if limit is None else limit.solref,
            limit_solimp=SOLIMP if limit is None else limit.solimp,
            limit_margin=joint.margin,
            friction_solref=None if joint.dry is None else joint.dry.solref,
            friction_solimp=SOLIMP if joint.dry is None else joint.dry.solimp,
        )

    # -- actuators -------------------------------------------------------------------------------------------

    def _collect_drives(self) -> dict[int, Drive]:
        """Drives by `id` of the joint record."""
        groups: dict[str, list[Actuator]] = {}
        on_tendons: dict[str, list[Actuator]] = {}
        for actuator in self.scene.actuators:
            (on_tendons if actuator.on_tendon else groups).setdefault(actuator.joint, []).append(actuator)
        joints = {joint.name: joint for body in self.scene.bodies for joint in body.joints}
        drives: dict[int, Drive] = {}
        self.control_maps: dict[int, tuple[Joint, tuple[float, float]]] = {}
        self.activations: dict[int, dict[str, Any]] = {}
        for name, actuators in groups.items():
            joint = joints[name]
            bound_inputs(actuators)
            drive = drives[id(joint)] = combine(actuators, joint.ref)
            self._keep_activation(actuators)
            report_bounds(actuators, self.report)
            for actuator, mapping in zip(actuators, drive.maps):
                self.control_maps[id(actuator.node)] = (joint, mapping)
        self.tendon_drives: dict[str, Drive] = {}
        self.tendon_maps: dict[int, tuple[str, tuple[float, float]]] = {}
        for name, actuators in on_tendons.items():
            if name in self.scene.tendons:
                bound_inputs(actuators)
                drive = self.tendon_drives[name] = combine(actuators, 0.0)
                bound_together(drive, actuators, self.scene.tendons[name].effort_limit, self.report)
                self._keep_activation(actuators)
                report_bounds(actuators, self.report)
                for actuator, mapping in zip(actuators, drive.maps):
                    self.tendon_maps[id(actuator.node)] = (name, mapping)
        return drives

    def _keep_activation(self, actuators: list[Actuator]) -> None:
        """Keep what is between the control and the drive of the actuators of one joint or tendon."""
        activation = activation_of(actuators)
        if activation is not None:
            self.activations[id(actuators[0].node)] = activation

    def _report_actuators(self, whole: dict[int, int]) -> None:
        axes = {id(place.record): place.axis for place in self.state.joints}
        places = {place.record.name: place for place in self.state.joints if place.record.name}
        ranges = {id(actuator.node): actuator.ctrl_range for actuator in self.scene.actuators}
        for node in self.scene.actuator_order:
            joint, (scale, offset) = self.control_maps.get(id(node), (None, (0.0, 0.0)))
            tendon = None
            if id(node) in self.tendon_maps:
                tendon, (scale, offset) = self.tendon_maps[id(node)]
            target = places.get(node.text_of("joint", ""))
            index = -1 if target is None or target.axis is None else target.index
            key = self.builder.joint_key[index] if index >= 0 else None
            place = None if index < 0 else target.axis - self.builder.joint_axis_start[index]
            activation = self.activations.get(id(node))
            if activation is not None:
                activation = activation | {"scale": scale, "offset": offset}
            self.report.actuators.append(
                {
                    "name": node.text_of("name", ""),
                    "type": node.tag,
                    "target": target_of(node),
                    "joint": node.text_of("joint"),
                    "axis": axes.get(id(joint)) if joint is not None else None,
                    "tendon": None if tendon is None else self.report.tendons[tendon],
                    "activation": activation,
                    "scale": scale,
                    "offset": offset,
                    "ctrl_range": ranges.get(id(node)),
                    "actuator": whole.get(id(node)),
                    "key": key,
                    "place": place,
                    "law": self.scene.laws.get(id(node)),
                }
            )

    # -- shapes ----------------------------------------------------------------------------------------------

    def _roles(self) -> dict[int, str]:
        """By `id` of the geom whether it is a "collider", a "visual" or "dropped"."""
        paired = {name for _, first, second in self.scene.pairs for name in (first, second)}
        roles: dict[int, str] = {}
        for body in self.scene.bodies:
            kinds = {id(geom): self._kind(geom, paired) for geom in body.geoms}
            if self.options.parse_visuals_as_colliders and "visual" in kinds.values():
                # bodies without visual geoms keep their colliders
                kinds = {key: "collider" if kind == "visual" else "dropped" for key, kind in kinds.items()}
            elif self.document.compiler.discard_visual:
                kinds = {key: "dropped" if kind == "visual" else kind for key, kind in kinds.items()}
            roles.update(kinds)
        return roles

    def _kind(self, geom: Geom, paired: set[str]) -> str:
        """Tell by class and contact bits; the nearest class that says something decides."""
        options = self.options
        lineage = list(self.document.defaults.lineage(geom.class_name))
        if not lineage and not options.no_class_as_colliders:
            return "visual"
        for name in lineage:
            if any(pattern.match(name) for pattern in options.visual_classes):
                return "visual"
            if any(pattern.match(name) for pattern in options.collider_classes):
                break
        return "collider" if geom.contype or geom.conaffinity or geom.name in paired else "visual"

    def _paired_bodies(self) -> set[tuple[int, int]]:
        """Pairs of bodies, lower number first, of which a <pair> names geoms."""
        body_of = {geom.name: n for n, body in enumerate(self.scene.bodies) for geom in body.geoms}
        ends = ([body_of[name] for name in names if name in body_of] for _, *names in self.scene.pairs)
        return {(min(pair), max(pair)) for pair in ends if len(pair) == 2}

    def _is_frictionless(self) -> bool:
        """Whether no contact inside the file has friction.

        A contact has the larger condim of its two geoms, so condim 1 on a robot means nothing on a floor of
        condim 3. Only a file that brings its own ground and says 1 everywhere is without friction.
        """
        bodies = self.scene.bodies
        colliders = [geom for body in bodies for geom in body.geoms if self.roles[id(geom)] == "collider"]
        ground = any(self.roles[id(geom)] == "collider" for geom in bodies[0].geoms)
        return ground and all(geom.condim == 1 for geom in colliders)

    def _add_shapes(self, number: int, body: Body) -> None:
        place = self.state.places[number]
        has_visual = any(self.roles[id(geom)] == "visual" for geom in body.geoms)
        indices = []
        for geom in body.geoms:
            role = self.roles[id(geom)]
            if role == "dropped":
                continue
            visible = not self.options.hide_visuals
            if role == "collider":
                visible = self.options.force_show_colliders or not has_visual
            index = self._add_shape(place, geom, number, role == "collider", visible)
            indices.append(index)
            if role == "collider":
                bits = (geom.contype, geom.conaffinity)
                if self.options.parse_visuals_as_colliders and not any(bits):
                    bits = (1, 1)  # drawn geometry switches contacts off, which is not what is asked for here
                self.rules.add(index, place.index, place.weld, place.tree, *bits)
            if geom.name:
                self.geom_shapes[geom.name] = index
        if indices:
            self.report.shapes[self._name(number) if number else "world"] = indices

    def _add_shape(self, place: Place, geom: Geom, number: int, collides: bool, visible: bool) -> int:
        builder, options, pose = self.builder, self.options, geom.pose
        if place.index < 0:
            pose = place.pose @ pose
        collides = collides and self.scene.contacts_enabled
        friction = None if geom.friction is None else geom.friction.tolist()
        spin = (0.005, 0.0001) if friction is None else tuple(friction[1:])
        arguments = {
            "body": place.index,
            "pos": pose.p,
            "rot": pose.q,
            "has_ground_collision": collides and geom.kind != "plane" and place.index >= 0,
            "has_shape_collision": collides,
            "is_visible": visible,
            "key": geom.name or f"{self._name(number) if number else 'world'}_geom_{builder.shape_count}",
            **options.contact.arguments(None if friction is None else friction[0]),
        }
        if geom.margin is not None:
            arguments["thickness"] = geom.margin
        if self.frictionless:
            arguments["mu"] = 0.0
        index = self._add_geometry(geom, pose, arguments)
        if geom.condim == 1 and not self.frictionless:
            builder.shape_condim[index] = 1
        if geom.solver is not None:
            builder.shape_solref[index] = geom.solver.solref
            builder.shape_solimp[index] = geom.solver.solimp
        builder.shape_priority[index], builder.shape_solmix[index] = geom.priority, geom.solmix
        builder.shape_spin_friction[index] = spin
        if geom.condim >= 4:
            builder.shape_mu_torsion[index] = spin[0]
        if geom.condim == 6:
            builder.shape_mu_rolling[index] = spin[1]
        self.report.leave_to_mujoco("geom", index, geom.mujoco)
        builder.shape_color[index] = geom.material.rgba
        builder.shape_texture[index] = geom.material.texture
        return index

    def _add_geometry(self, geom: Geom, pose: Pose, arguments: dict) -> int:
        builder, size = self.builder, geom.size
        if geom.kind == "plane":
            # MuJoCo's planes collide without bounds; their size is for drawing.
            upright = pose @ _Y_TO_Z
            return builder.add_shape_plane(**{**arguments, "rot": upright.q}, width=0.0, length=0.0)
        arguments["density"] = 0.0
        if geom.kind == "sphere":
            return builder.add_shape_sphere(radius=size[0], **arguments)
        if geom.kind == "capsule":
            return builder.add_shape_capsule(radius=size[0], half_height=size[1], up_axis=2, **arguments)
        if geom.kind == "cylinder":
            return builder.add_shape_cylinder(radius=size[0], half_height=size[1], up_axis=2, **arguments)
        if geom.kind == "box":
            return builder.add_shape_box(hx=size[0], hy=size[1], hz=size[2], **arguments)
        if geom.kind == "ellipsoid":
            return builder.add_shape_ellipsoid(a=size[0], b=size[1], c=size[2], **arguments)
        if geom.kind == "hfield":
            field = self.height_cache.get(geom.heights.name)
            if field is None:
                field = Heightfield(geom.heights.heights, geom.heights.size)
                self.height_cache[geom.heights.name] = field
            upright = pose @ _Y_TO_Z
            return builder.add_shape_heightfield(heightfield=field, **{**arguments, "rot": upright.q})
        mesh = self.mesh_cache.get(geom.mesh.name)
        if mesh is None:
            mesh = self.mesh_cache[geom.mesh.name] = geom.mesh.surface.mesh()
        return builder.add_shape_mesh(mesh=mesh, **arguments)

    def _add_sites(self, number: int, body: Body) -> None:
        place = self.state.places[number]
        for site in body.sites:
            pose = place.pose @ site.pose if place.index < 0 else site.pose
            self.builder.sites.append({"name": site.name, "body": place.index, "xform": pose.warp()})

    def _add_filters(self) -> None:
        bodies = {self._name(n): place.index for n, place in enumerate(self.state.places) if n}
        bodies["world"] = -1
        self.rules.exclude(
            (bodies[first], bodies[second])
            for _, first, second in self.scene.excludes
            if first in bodies and second in bodies
        )
        self.rules.allow(
            (self.geom_shapes[first], self.geom_shapes[second])
            for _, first, second in self.scene.pairs
            if first in self.geom_shapes and second in self.geom_shapes
        )
        self.builder.shape_collision_filter_pairs |= self.rules.blocked()
        add_pair_parameters(
            self.scene,
            self.geom_shapes,
            self.options.scale,
            self.builder,
            self.report,
            self.document.faults,
        )


def up_rotation(up_axis: str, up_vector: np.ndarray) -> Pose:
    """Rotation that takes the file's up axis to the builder's up vector; nothing when they are the same."""
    return Pose(
        np.zeros(3), quat_between(np.eye(3)["XYZ".index(up_axis)], np.asarray(up_vector, dtype=np.float64))
    )
