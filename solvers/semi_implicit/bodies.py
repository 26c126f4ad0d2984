"""Forces of rigid bodies in maximal coordinates by penalty: joints, contacts, muscles."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.errors import ModelError
from newtonsim.kernels.collision.contact_features import FeatureView
from newtonsim.kernels.penalty import body_contacts, sums
from newtonsim.kernels.penalty import joints as penalty_joints
from newtonsim.kernels.trees import inverse_kinematics, muscles
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.penalty import apply_penalty
from newtonsim.solvers.semi_implicit.elements import order_by_world, slots_of
from newtonsim.solvers.semi_implicit.loops import LoopForces


class BodyForces:
    """Wrenches on the bodies.

    Args:
        model: The model.

    Attributes:
        starts: Kinds of index of the muscles and constraints, see `Shard`.
        loops: Constraints beside the joints; None without them.
        f: Wrench on each body at its centre of mass, gravity apart, shape (body_count,).
        part: Wrenches of joints, parent and child in turn, of waypoints of muscles, and of constraints.
        q: Joint coordinates at the start of the step, shape (joint_coord_count,).
        qd: Joint velocities at the start of the step, shape (joint_dof_count,).
        length: Length of the path of each muscle at the start of the step [m], shape (muscle_count,).
        rate: How fast it grew [m/s], shape (muscle_count,).
        tension: Of each muscle in the step [N], shape (muscle_count,).
    """

    def __init__(self, model: Model):
        self.model = model
        grad = {"device": model.device, "requires_grad": model.requires_grad}
        joints = model.joint_count
        self.raw = zeros(model.joint_coord_count, dtype=float, **grad)
        self.q = zeros(model.joint_coord_count, dtype=float, **grad)
        self.qd = zeros(model.joint_dof_count, dtype=float, **grad)
        self.raw_end = zeros(model.joint_coord_count, dtype=float, **grad)
        self.no_axes = zeros(0, dtype=float, device=model.device)
        self.torque = zeros(joints, dtype=wp.vec3, **grad)
        self.length = zeros(model.muscle_count, dtype=float, **grad)
        self.rate = zeros(model.muscle_count, dtype=float, **grad)
        self.tension = zeros(model.muscle_count, dtype=float, **grad)
        self.loops = LoopForces(model) if model.constraint_count else None
        self.f = zeros(model.body_count, dtype=wp.spatial_vector, **grad)
        ends = np.zeros((0, 2), int)
        if joints:
            ends = np.stack([model.joint_parent.numpy(), model.joint_child.numpy()], axis=1)
        waypoints = model.muscle_bodies.numpy() if model.muscle_count else np.zeros(0, int)
        rows = np.zeros(0, int) if self.loops is None else self.loops.owner
        owner = np.concatenate([ends.reshape(-1), waypoints, rows])
        self.part = zeros(len(owner), dtype=wp.spatial_vector, **grad)
        self.slots = slots_of(owner, np.arange(len(owner)), model.body_count, model.device)
        self._make_muscles(waypoints)

    def _make_muscles(self, waypoints: np.ndarray) -> None:
        model = self.model
        self.muscles = muscles.MuscleView()
        self.starts: dict[str, np.ndarray] = {} if self.loops is None else dict(self.loops.starts)
        if not model.muscle_count:
            return
        start = _check_muscles(model)
        # the world of a muscle is that of its bodies; -1 for those of the global world alone
        world = np.where(waypoints >= 0, model.body_world.numpy()[waypoints], -1)
        world = np.maximum.reduceat(world, start[:-1])
        found = order_by_world(np.arange(model.muscle_count), world, model)
        self.starts["penalty_muscle"] = found.start
        self.muscles.order = found.order
        owner = np.repeat(np.arange(model.muscle_count), np.diff(start))
        of_points = order_by_world(np.arange(len(waypoints)), world[owner], model)
        self.starts["penalty_waypoint"] = of_points.start
        self.muscles.point_order = of_points.order
        self.muscles.muscle = put(owner, dtype=int, device=model.device)
        self.muscles.start = put(start, dtype=int, device=model.device)

    def apply(
        self,
        launch: Launcher,
        state: State,
        control: Control,
        contacts: Contacts,
        joint_attach_ke: float,
        joint_attach_kd: float,
        friction_speed: float,
        fade_depth: float,
        dt: float,
        features: FeatureView | None,
    ) -> None:
        """Write the wrenches at the start of a step to `f`.

        Args:
            launch: For the worlds.
            state: State at the start.
            control: Inputs.
            contacts: What touches.
            joint_attach_ke: Stiffness of joints in what they hold [N/m].
            joint_attach_kd: Damping of joints in what they hold [N s/m].
            friction_speed: Speed below which friction fades [m/s or rad/s].
            fade_depth: Penetration below which damping of contacts and limits fades [m or rad].
            dt: Time step [s].
            features: Features in contact, for the derivatives of the forces; None for the forces alone.
        """
        model = self.model
        attach, bodies = self._views(state)
        attach.ke, attach.kd, attach.dt = joint_attach_ke, joint_attach_kd, dt
        attach.slip, attach.fade = friction_speed, fade_depth
        if model.joint_count:
            self._hold_joints(launch, state, control, attach, bodies)
        if self.loops is not None:
            place = 2 * model.joint_count + model.muscle_point_count
            self.loops.pull(launch, attach, bodies, place, self.part)
        if model.muscle_count:
            self._pull_muscles(launch, state, control)
        launch(
            sums.sum_wrenches,
            "body",
            reads=dict(start=self.slots.start, slot=self.slots.slot, part=self.part, external=state.body_f),
            writes=dict(f=self.f),
        )
        if features is None:
            apply_penalty(launch, contacts, state.body_q, state.body_qd, self.f, friction_speed, fade_depth)
        elif contacts.rigid_contact_max:
            launch(
                body_contacts.push_bodies,
                "contact",
                reads=dict(
                    contacts=contacts.view,
                    features=features,
                    shape_body=model.shape_body,
                    material=model.shape_materials,
                    body_com=model.body_com,
                    body_q=state.body_q,
                    body_qd=state.body_qd,
                    slip_speed=friction_speed,
                    fade_depth=fade_depth,
                ),
                writes=dict(body_f=self.f),
            )

    def _views(self, state: State) -> tuple[penalty_joints.AttachView, penalty_joints.BodyMotionView]:
        """How joints are held, gains apart, and the bodies of a state."""
        model, attach, bodies = self.model, penalty_joints.AttachView(), penalty_joints.BodyMotionView()
        attach.enabled = model.joint_enabled
        attach.linear_compliance = model.joint_linear_compliance
        attach.angular_compliance = model.joint_angular_compliance
        attach.twist_lower = model.joint_twist_lower
        attach.twist_upper = model.joint_twist_upper
        attach.swing_limit = model.joint_swing_limit
        attach.distance_lower = model.joint_distance_lower
        attach.distance_upper = model.joint_distance_upper
        attach.limit_lower = model.joint_limit_lower
        attach.limit_upper = model.joint_limit_upper
        attach.limit_ke = model.joint_limit_ke
        attach.limit_kd = model.joint_limit_kd
        attach.velocity_limit = model.joint_velocity_limit
        attach.friction = model.joint_friction
        bodies.q, bodies.qd = state.body_q, state.body_qd
        bodies.com = model.body_com
        bodies.mass = model.body_mass
        bodies.inertia = model.body_inertia
        return attach, bodies

    def _hold_joints(
        self,
        launch: Launcher,
        state: State,
        control: Control,
        attach: penalty_joints.AttachView,
        bodies: penalty_joints.BodyMotionView,
    ) -> None:
        model, v = self.model, launch.views
        launch(
            inverse_kinematics.read_joints,
            "joint",
            reads=dict(joint=v.joint, body_com=model.body_com, body_q=state.body_q, body_qd=state.body_qd),
            writes=dict(q=self.raw, qd=self.qd),
        )
        launch(
            penalty_joints.unwind_angles,
            "joint",
            reads=dict(joint=v.joint, raw=self.raw, before=state.joint_q),
            writes=dict(q=self.q),
        )
        given = penalty_joints.JointInputView()
        given.q, given.qd, given.f = self.q, self.qd, control.joint_f
        given.act = self.no_axes if control.joint_act is None else control.joint_act
        if self.loops is not None:
            given.f = self.loops.couple(launch, attach, given, bodies)
        launch(
            penalty_joints.turn_joints,
            "joint",
            reads=dict(joint=v.joint, drive=v.drive, attach=attach, inputs=given, bodies=bodies),
            writes=dict(torque=self.torque),
        )
        launch(
            penalty_joints.pull_joints,
            "joint",
            reads=dict(
                joint=v.joint, drive=v.drive, attach=attach, inputs=given, bodies=bodies, torque=self.torque
            ),
            writes=dict(part=self.part),
        )

    def _pull_muscles(self, launch: Launcher, state: State, control: Control) -> None:
        model, view = self.model, self.muscles
        view.body, view.point, view.params = model.muscle_bodies, model.muscle_points, model.muscle_params
        launch(
            muscles.measure_muscles,
            "penalty_muscle",
            reads=dict(muscles=view, body_q=state.body_q, body_com=model.body_com, body_qd=state.body_qd),
            writes=dict(length=self.length, rate=self.rate),
        )
        launch(
            muscles.tense_muscles,
            "penalty_muscle",
            reads=dict(
                muscles=view, activation=control.muscle_activations, length=self.length, rate=self.rate
            ),
            writes=dict(tension=self.tension),
        )
        launch(
            muscles.pull_waypoints,
            "penalty_waypoint",
            reads=dict(
                muscles=view,
                body_q=state.body_q,
                body_com=model.body_com,
                tension=self.tension,
                place=2 * model.joint_count,
            ),
            writes=dict(part=self.part),
        )

    def read_joints(self, launch: Launcher, state: State) -> None:
        """Write the joint coordinates that belong to the bodies at the end of the step."""
        v = launch.views
        launch(
            inverse_kinematics.read_joints,
            "joint",
            reads=dict(
                joint=v.joint, body_com=self.model.body_com, body_q=state.body_q, body_qd=state.body_qd
            ),
            writes=dict(q=self.raw_end, qd=state.joint_qd),
        )
        launch(
            penalty_joints.unwind_angles,
            "joint",
            reads=dict(joint=v.joint, raw=self.raw_end, before=self.q),
            writes=dict(q=state.joint_q),
        )


def _check_muscles(model: Model) -> np.ndarray:
    """Return the first waypoint of each muscle and the end.

    Raises:
        ModelError: A muscle has no path, or parameters without meaning.
    """
    start = model.muscle_start.numpy()
    for muscle, count in enumerate(np.diff(start).tolist()):
        if count < 2:
            raise ModelError(f"muscle {muscle}: expected at least two waypoints, got {count}")
    for muscle, (f0, lm, lt, lmax, pen) in enumerate(model.muscle_params.numpy().tolist()):
        for name, value, good in (
            ("f0", f0, f0 >= 0.0),
            ("lm", lm, lm > 0.0),
            ("lt", lt, lt >= 0.0),
            ("lmax", lmax, lmax > 0.0),
            ("pen", pen, abs(pen) < 0.5 * np.pi),
        ):
            if not good:
                raise ModelError(f"muscle {muscle}: {name} is out of range: {value}")
    return start
