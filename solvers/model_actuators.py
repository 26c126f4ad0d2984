"""Actuators of a model in a step of FeatherstoneSolver: activations, lengths, forces."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from newtonsim.builder.actuators import (
    BIASES,
    DYNAMICS,
    GAINS,
    ActuatorLaw,
    ActuatorTarget,
    muscle_numbers,
)
from newtonsim.collision.contacts import Contacts
from newtonsim.dynamics.actuator_worlds import actuator_worlds, actuators_by_world
from newtonsim.errors import UnsupportedElementWarning
from newtonsim.kernels.actuators import laws, pushes, transmissions
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.residents import keep_on_device
from newtonsim.runtime.shards import add_kind
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import JointType
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.inverse_weights import inverse_inertias
from newtonsim.solvers.tendons import Tendons

_EVERYTHING = (-np.inf, np.inf)
_ROTATING = {
    (ActuatorTarget.JOINT, JointType.BALL): transmissions.ON_BALL,
    (ActuatorTarget.JOINT_IN_PARENT, JointType.BALL): transmissions.ON_BALL_IN_PARENT,
    (ActuatorTarget.JOINT, JointType.FREE): transmissions.ON_FREE,
    (ActuatorTarget.JOINT_IN_PARENT, JointType.FREE): transmissions.ON_FREE_IN_PARENT,
}
_LEAST_TIME = 1.0e-10
"""Shortest time constant [s]."""
_NOTHING = ActuatorLaw(gain=(0.0,))
"""What stands for laws that are not modelled."""


def unmodelled_actuators(model: Model) -> list[str]:
    """Return what FeatherstoneSolver leaves out of the actuators of a model, in words.

    Those are muscles without a range of lengths, which MuJoCo finds by a simulation of its own, and forces of
    muscles that are given by what they accelerate, unless they act on a coordinate or a tendon.
    """
    targets = model.actuator_target.numpy().tolist() if model.actuator_count else []
    found = []
    for number, target in enumerate(targets):
        why = model.actuator_law[number].lacks(ActuatorTarget(target))
        if why:
            found.append(f"{model.actuator_key[number]!r}, {why}")
    return found


class ModelActuators:
    """Activations, lengths and forces of the actuators of a model.

    They act as they are at the start of the step, with the state there, those with `early` with the
    activation at its end.

    Args:
        model: A model with actuators.
        tendons: Its tendons, None without any.
        requires_grad: Whether gradients flow through what a step finds.

    Attributes:
        force: Force of each actuator before its gear [N or N m], in the order of the worlds, (count,).
        length: Its length [m or rad], likewise.
        rate: The rate of that, likewise.
        joint_f: Generalised forces, what acts besides included, shape (joint_dof_count,).
        presses: Whether some act on contacts.
    """

    def __init__(self, model: Model, tendons: Tendons | None, requires_grad: bool = False):
        self.model, self.tendons = model, tendons
        self._order = actuators_by_world(model)[0]
        count, device = len(self._order), model.device

        def make(size: int, dtype: Any = float) -> wp.array:
            return zeros(size, dtype=dtype, device=device, requires_grad=requires_grad)

        self.force, self.length, self.rate = make(count), make(count), make(count)
        self.arm = make(int(transmissions.SIDES) * count, wp.spatial_vector)
        self.joint_f, self._along = make(model.joint_dof_count), make(model.joint_dof_count)
        self._no_tendons = make(1)
        self.view = self._transmissions()
        self.law = self._laws()
        self.pushes = self._pushes()
        keep_on_device(device, self.view, self.law, self.pushes)
        kinds = self.view.kind.numpy()
        self.presses = bool((kinds == int(transmissions.ON_CONTACTS)).any())
        self._pulls = bool((kinds == int(transmissions.ON_TENDON)).any())

    # -- a step ----------------------------------------------------------------------------------------------

    def measure(self, launch: Launcher, state: State, body_q: wp.array, body_qd: wp.array) -> None:
        """Find lengths and directions; needs those of tendons.

        Args:
            launch: For the worlds.
            state: The state, for coordinates.
            body_q: Poses, shape (body_count,).
            body_qd: Velocities, shape (body_count,).
        """
        motion = None if self.tendons is None else self.tendons.motion
        launch(
            transmissions.measure_actuators,
            "actuator",
            reads=dict(
                view=self.view,
                body_com=self.model.body_com,
                body_q=body_q,
                body_qd=body_qd,
                q=state.joint_q,
                qd=state.joint_qd,
                tendon_length=self._no_tendons if motion is None else motion.length,
                tendon_rate=self._no_tendons if motion is None else motion.rate,
            ),
            writes=dict(arm=self.arm, length=self.length, rate=self.rate),
        )

    def actuate(self, launch: Launcher, ctrl: wp.array, act: wp.array, dt: float, act_out: wp.array) -> None:
        """Find forces and activations; needs `measure`.

        Args:
            launch: For the worlds.
            ctrl: Controls, shape (actuator_count,).
            act: Activations at the start of the step, shape (actuator_count,).
            dt: Time step [s].
            act_out: Receives those at the end.
        """
        launch(
            laws.actuate,
            "actuator",
            reads=dict(law=self.law, ctrl=ctrl, act=act, length=self.length, rate=self.rate, dt=dt),
            writes=dict(force=self.force, act_out=act_out),
        )

    def push(self, launch: Launcher, joint_f: wp.array, body_f: wp.array) -> wp.array:
        """Add the forces to wrenches; return the generalised ones with those that act besides.

        Args:
            launch: For the worlds.
            joint_f: What acts besides, shape (joint_dof_count,).
            body_f: Is added to, shape (body_count,).
        """
        launch(
            pushes.push_bodies,
            "body",
            reads=dict(view=self.pushes, arm=self.arm, force=self.force),
            writes=dict(body_f=body_f),
        )
        launch(
            pushes.push_dofs,
            "dof",
            reads=dict(view=self.pushes, force=self.force, joint_f=joint_f),
            writes=dict(total=self.joint_f),
        )
        if not self._pulls or self.tendons is None:
            return self.joint_f
        launch(
            pushes.push_along_tendons,
            "dof",
            reads=dict(
                view=self.pushes,
                tendon=self.tendons.view,
                motion=self.tendons.motion,
                force=self.force,
                joint_f=self.joint_f,
            ),
            writes=dict(total=self._along),
        )
        return self._along

    def press(self, launch: Launcher, contacts: Contacts, body_q: wp.array, body_f: wp.array) -> None:
        """Add the wrenches of actuators on contacts; needs `actuate`.

        Args:
            launch: For the worlds.
            contacts: Contacts at the start of the step.
            body_q: Poses, shape (body_count,).
            body_f: Is added to, shape (body_count,).
        """
        if self.presses and contacts.rigid_contact_max:
            launch(
                pushes.press_contacts,
                "world",
                reads=dict(
                    view=self.pushes,
                    contacts=contacts.view,
                    shape_body=self.model.shape_body,
                    body_com=self.model.body_com,
                    body_q=body_q,
                    force=self.force,
                ),
                writes=dict(body_f=body_f),
            )

    def clear_gradients(self) -> None:
        """Clear the gradients of all that a step finds."""
        for array in (self.force, self.length, self.rate, self.arm, self.joint_f, self._along):
            fill(array.grad)

    # -- what acts on what -----------------------------------------------------------------------------------

    def _transmissions(self) -> transmissions.TransmissionView:
        model, order = self.model, self._order
        count, sides = len(order), int(transmissions.SIDES)
        given = {
            name: getattr(model, f"actuator_{name}").numpy()[order]
            for name in ("target", "joint", "axis", "tendon", "bodies", "frame", "has_reference", "reference")
        }
        kind, dof, coord = np.zeros(count, np.int32), np.full(count, -1), np.full(count, -1)
        body, gear = np.full((count, sides), -1), np.zeros((count, 6))
        frame, reference = given["frame"].copy(), given["reference"].copy()
        crank = np.zeros(count)
        joints = _Joints(model)
        for i, number in enumerate(order.tolist()):
            law: ActuatorLaw = model.actuator_law[number]
            gear[i, : len(law.gear)] = law.gear
            crank[i] = law.crank_length
            target = ActuatorTarget(int(given["target"][i]))
            joint, bodies = int(given["joint"][i]), given["bodies"][i].tolist()
            if target in (ActuatorTarget.JOINT, ActuatorTarget.JOINT_IN_PARENT):
                turning = _ROTATING.get((target, JointType(int(joints.kind[joint]))))
                if turning is None:
                    local = int(given["axis"][i]) - int(joints.axis[joint])
                    dof[i], coord[i] = joints.dof[joint] + local, joints.coord[joint] + local
                else:
                    kind[i] = int(turning)
                    body[i, :2] = joints.child[joint], joints.parent[joint]
                    frame[i], reference[i] = joints.frame[joint], joints.reference[joint]
            elif target == ActuatorTarget.TENDON:
                kind[i] = int(transmissions.ON_TENDON)
            elif target == ActuatorTarget.BODY:
                kind[i], body[i, 0] = int(transmissions.ON_CONTACTS), bodies[0]
            elif target == ActuatorTarget.CRANK:
                kind[i], body[i, :2] = int(transmissions.ON_CRANK), bodies
            elif given["has_reference"][i]:
                kind[i] = int(transmissions.ON_FRAMES)
                body[i] = *bodies, joints.common(*bodies)
            else:
                kind[i], body[i, 0] = int(transmissions.ON_FRAME), bodies[0]
        view = transmissions.TransmissionView()
        for name, values in (("kind", kind), ("dof", dof), ("coord", coord), ("tendon", given["tendon"])):
            setattr(view, name, put(values, dtype=int, device=model.device))
        view.body = put(body.reshape(-1), dtype=int, device=model.device)
        view.frame = put(frame, dtype=wp.transform, device=model.device)
        view.reference = put(reference, dtype=wp.transform, device=model.device)
        view.force = put(gear[:, :3], dtype=wp.vec3, device=model.device)
        view.torque = put(gear[:, 3:], dtype=wp.vec3, device=model.device)
        view.crank = put(crank, dtype=float, device=model.device)
        return view

    def _pushes(self) -> pushes.PushView:
        """Who acts on each body, dof, tendon and world."""
        model, view = self.model, self.view
        kind, count = view.kind.numpy(), len(self._order)
        body, world = view.body.numpy(), actuator_worlds(model)[self._order] if count else np.zeros(0, int)
        pressing = np.flatnonzero(kind == int(transmissions.ON_CONTACTS))
        acts = np.repeat(kind != int(transmissions.ON_CONTACTS), int(transmissions.SIDES)) & (body >= 0)
        arms, on_dof, on_tendon = (
            np.flatnonzero(acts),
            *(np.flatnonzero(kind == int(one)) for one in (transmissions.ON_DOF, transmissions.ON_TENDON)),
        )
        found = pushes.PushView()
        for name, members, owner, owners in (
            ("body_arm", arms, body[arms], model.body_count),
            ("dof_actuator", on_dof, view.dof.numpy()[on_dof], model.joint_dof_count),
            ("tendon_actuator", on_tendon, view.tendon.numpy()[on_tendon], model.tendon_count),
            ("contact_actuator", pressing, world[pressing], model.world_count),
        ):
            order = np.argsort(owner, kind="stable")
            start = np.searchsorted(owner[order], np.arange(owners + 1))
            setattr(found, name, put(members[order], dtype=int, device=model.device))
            setattr(found, f"{name.split('_')[0]}_start", put(start, dtype=int, device=model.device))
        pressing = found.contact_actuator.numpy()
        found.contact_body = put(body[int(transmissions.SIDES) * pressing], dtype=int, device=model.device)
        found.gear = put(view.force.numpy()[:, 0], dtype=float, device=model.device)
        return found

    # -- laws ------------------------------------------------------------------------------------------------

    def _laws(self) -> laws.LawView:
        model, order, device = self.model, self._order, self.model.device
        targets = model.actuator_target.numpy()[order].tolist()
        given: list[ActuatorLaw] = [model.actuator_law[number] for number in order.tolist()]
        given = [
            _NOTHING if law.lacks(ActuatorTarget(target)) else law
            for law, target in zip(given, targets, strict=True)
        ]
        view = laws.LawView()

        def integers(values: Sequence[int]) -> wp.array:
            return put(np.array(values, np.int32), dtype=int, device=device)

        view.number = integers(order.tolist())
        view.gain_kind = integers([GAINS.index(law.gain_type) for law in given])
        view.bias_kind = integers([BIASES.index(law.bias_type) for law in given])
        view.dynamics = integers([DYNAMICS.index(law.dynamics_type) for law in given])
        view.early = integers([int(law.early) for law in given])
        for name in ("gain", "bias"):
            factors = [(*getattr(law, name)[:3], 0.0, 0.0, 0.0)[:3] for law in given]
            setattr(view, name, put(np.array(factors).reshape(-1, 3), dtype=wp.vec3, device=device))
        times = np.array([(*law.dynamics[:3], 0.0, 0.0, 0.0)[:3] for law in given]).reshape(-1, 3)
        times[:, :2] = np.maximum(times[:, :2], _LEAST_TIME)
        view.times = put(times, dtype=wp.vec3, device=device)
        for name, field in (("control", "control"), ("activation", "activation"), ("bound", "force")):
            spans = [getattr(law, f"{field}_range") or _EVERYTHING for law in given]
            setattr(view, name, put(np.array(spans).reshape(-1, 2), dtype=wp.vec2, device=device))
        pulled = self._accelerations(given)
        for name in ("gain", "bias"):
            table = np.array([_muscle(law, name, each) for law, each in zip(given, pulled, strict=True)])
            array = put(table.reshape(-1, 10), dtype=float, device=device)
            setattr(view, f"{name}_muscle", array)
        return view

    def _accelerations(self, given: list[ActuatorLaw]) -> np.ndarray:
        """How much a unit of force accelerates all coordinates in the reference pose, (count,)."""
        found = np.ones(len(given))
        scaled = [i for i, law in enumerate(given) if law.is_scaled]
        if not scaled:
            return found
        (blocks, (block, local)), dofs = inverse_inertias(self.model), self.model.joint_dof_count
        if self.tendons is not None:
            self.tendons.measure_reference()
        for i in scaled:
            J, t = np.zeros(dofs), int(self.view.tendon.numpy()[i])
            if t >= 0 and self.tendons is not None:
                tendon, motion = self.tendons.view, self.tendons.motion
                span = slice(*tendon.entry_start.numpy()[t : t + 2])
                np.add.at(J, tendon.entry_dof.numpy()[span], motion.J.numpy()[span])
            else:
                J[int(self.view.dof.numpy()[i])] = 1.0
            J *= self.view.force.numpy()[i, 0]
            moved = np.zeros(dofs)
            for d in np.flatnonzero(J):
                mine = np.flatnonzero(block == block[d])
                moved[mine] += blocks[block[d], local[mine], local[d]] * J[d]
            found[i] = np.linalg.norm(moved)
        return found


class _Joints:
    """Joints of a model on the host."""

    def __init__(self, model: Model):
        joints, self.model = model.joint_count, model

        def of(name: str) -> np.ndarray:
            return getattr(model, f"joint_{name}").numpy() if joints else np.zeros(0, np.int64)

        self.kind, self.axis, self.dof, self.coord = (
            of(name) for name in ("type", "axis_start", "qd_start", "q_start")
        )
        self.parent, self.child = of("parent"), of("child")
        self.reference, self.frame = of("X_p"), of("X_c")
        self.above = dict(zip(self.child.tolist(), self.parent.tolist(), strict=True))

    def common(self, first: int, second: int) -> int:
        """Nearest body that carries both or is one of them, -1 for none."""
        carrying = set()
        while first >= 0:
            carrying.add(first)
            first = self.above.get(first, -1)
        while second >= 0 and second not in carrying:
            second = self.above.get(second, -1)
        return second


def _starts(model: Model) -> np.ndarray:
    """First place of the actuators of each world, and the end."""
    return actuators_by_world(model)[1]


add_kind("actuator", _starts)


def _muscle(law: ActuatorLaw, name: str, acceleration: float) -> np.ndarray:
    """A row of a table of muscles, see `kernels.tendons.muscles`; one that does no harm for none."""
    if getattr(law, f"{name}_type") != "muscle":
        return np.array([0.0, 1.0, 0.0, 0.5, 1.5, 1.0, 0.0, 1.0, 0.0, 1.0])
    low, high, force, scale, *curves = muscle_numbers(getattr(law, name))
    if force < 0.0:
        force = scale / max(acceleration, 1e-15)
    return np.array([low, high, force, *curves, *(law.length_range or (0.0, 1.0))])


def warn_of_unmodelled_actuators(model: Model, solver: str) -> None:
    """Warn of actuators of the model that a solver leaves out.

    Args:
        model: The model.
        solver: Name of the solver.
    """
    left = unmodelled_actuators(model)
    if left:
        warnings.warn(
            f"{solver} ignores {len(left)} actuators of the model ({'; '.join(left[:5])}); MuJoCoSolver does "
            "not",
            UnsupportedElementWarning,
            stacklevel=3,
        )
