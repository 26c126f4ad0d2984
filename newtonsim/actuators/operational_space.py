"""Operational-space control: efforts that move a point of a body as wanted, and joints towards a posture."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.actuators.models import check_number
from newtonsim.dynamics.stages import Stages
from newtonsim.errors import ModelError, NewtonsimError
from newtonsim.kernels.actuators import operational_space as kernels
from newtonsim.kinematics import eval_fk
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import JointMode
from newtonsim.scene.model import Model, check_model
from newtonsim.scene.patterns import match_labels
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.control import Control
    from newtonsim.scene.state import State
    from newtonsim.simulator import Simulator

_MOST_NAMED = 8
"""Joints that a warning names."""

Gains = float | Sequence[float]
"""A number for all directions, or (rotation about x, y, z, translation along x, y, z), or only the latter."""


class OperationalSpaceControl:
    """Efforts of arms whose hands follow targets, computed in the recorded step of a `Simulator`.

    Pass it as `Simulator(..., before=control)`: at the start of each step it writes `Control.joint_f` of all
    joints of the articulation that has the body. The arm should have no drives (gains of zero), since these
    would pull as well; a warning names those that it has.

    The task is the pose of a frame with the axes of the body and its origin at `point`. With the error e of
    the pose, the rates of the target and the gains K and D along the axes of the target, the hand accelerates
    by ẍ = ẍ_target + K e + D ė if `decoupled`, whatever its inertia (Khatib, 1987). Otherwise K and D are
    those of a spring and a damper, Λ (ẍ - ẍ_target) = K e + D ė + wrench from outside, and the hand gives way
    under a load by load / K (impedance control, Hogan, 1985). Accelerations towards the posture act only as
    far as they do not accelerate the hand. Gravity, Coriolis forces and the damping of joints are
    compensated; external wrenches and dry friction are not.

    Without `rotations` the task is the position of the origin alone, J has three rows, and the orientation of
    the hand is left to the posture: three joints are enough, and an arm with seven has four to spare.

    Efforts are those at the start of a step, so that gains are stable as far as the step resolves them: D dt
    and K dt² well below 1 if decoupled, and below the least entries of Λ otherwise.

    Write to its arrays between steps, or by a kernel of a `before` of your own that calls it afterwards.

    Args:
        model: The model.
        body: Pattern of the body's label, which matches one body of each world.
        point: Origin of the task's frame, in the frame of the body [m].
        stiffness: K of rotations and translations [1/s²], not decoupled [N m/rad] and [N/m].
        damping: D likewise [1/s], not decoupled [N m s/rad] and [N s/m]; None for critical damping, which
            only decoupled control knows.
        decoupled: Whether errors demand accelerations; otherwise they demand wrenches.
        rotations: Whether the hand turns as the target does. Otherwise the task is its position, gains have
            one or three numbers, and angular parts of targets, rates and accelerations have no effect; axes
            of the target are still those of the gains.
        posture_stiffness: Pull of the joints towards the posture [1/s²].
        posture_damping: Damping of it [1/s]; None for critical damping.
        regularisation: Added to the diagonal of J M⁻¹ Jᵀ [1/(kg m²), 1/kg], which is singular where an arm
            is stretched or has fewer joints than the task has directions; as small as the wanted accuracy.

    Attributes:
        target: Poses of the task's frame in the world, transform (world_count,); at first the initial ones.
        target_qd: Their rates (ω, v) in world axes [rad/s], [m/s], spatial_vector (world_count,).
        target_qdd: Their accelerations [rad/s²], [m/s²], spatial_vector (world_count,).
        stiffness: K of each world, spatial_vector (world_count,); those of rotations have no effect without.
        damping: D of each world, likewise.
        posture: Joint coordinates of the posture, float (joint_dof_count,); at first the initial ones.
        posture_stiffness: Pull of each world towards it [1/s²], float (world_count,).
        posture_damping: Damping of each world [1/s], float (world_count,).

    Raises:
        NewtonsimError: The pattern does not match one body in each world, the body's articulation has joints
            without angles or lengths such as a floating base, or a number is out of range.
    """

    def __init__(
        self,
        model: Model,
        body: str,
        *,
        point: Sequence[float] = (0.0, 0.0, 0.0),
        stiffness: Gains = 100.0,
        damping: Gains | None = None,
        decoupled: bool = True,
        rotations: bool = True,
        posture_stiffness: float = 10.0,
        posture_damping: float | None = None,
        regularisation: float = 1.0e-4,
    ):
        check_model(model)
        check_number("regularisation", regularisation)
        self.model, self._regularisation = model, float(regularisation)
        self._bodies = _one_in_each_world(model, body)
        self._point = _numbers("point", point, 3, low=None)
        pull, slow = _gains(stiffness, damping, decoupled, rotations)
        check_number("posture_stiffness", posture_stiffness)
        if posture_damping is None:
            posture_damping = 2.0 * posture_stiffness**0.5
        check_number("posture_damping", posture_damping)
        worlds, dofs, device = model.world_count, model.joint_dof_count, model.device
        self._body = put(self._bodies, dtype=int, device=device)
        self._stages = Stages(model, self._body)
        self._state = model.state(requires_grad=False)
        eval_fk(model, self._state.joint_q, self._state.joint_qd, None, self._state)
        self._no_wrenches = zeros(model.body_count, dtype=wp.spatial_vector, device=device)
        self._posture_qdd = zeros(dofs, dtype=float, device=device)

        coord, first, count = self._find_joints()
        self.target = put(self._initial_targets(), dtype=wp.transform, device=device)
        self.target_qd, self.target_qdd = (
            zeros(worlds, dtype=wp.spatial_vector, device=device) for _ in range(2)
        )
        self.stiffness, self.damping = (
            put(np.tile(gains, (worlds, 1)), dtype=wp.spatial_vector, device=device) for gains in (pull, slow)
        )
        self.posture = put(
            np.where(coord >= 0, self._state.joint_q.numpy()[coord], 0.0), dtype=float, device=device
        )
        self.posture_stiffness = put(np.full(worlds, posture_stiffness), dtype=float, device=device)
        self.posture_damping = put(np.full(worlds, posture_damping), dtype=float, device=device)
        self._coord = put(coord, dtype=int, device=device)
        self._first = put(first, dtype=int, device=device)
        self._dofs, self._decoupled, self._turns = count, int(decoupled), int(rotations)
        _warn_of_drives(model, np.flatnonzero(coord >= 0))
        # makes all buffers before the first step is captured
        self._launch(Launcher(model, record_tape=False), self._state, model.control(requires_grad=False))

    def __call__(self, launch: Launcher, simulator: Simulator) -> None:
        """Write the efforts of the worlds of a launcher: a `before` of a `Simulator`.

        Raises:
            ModelError: The simulator has another model.
        """
        if simulator.model is not self.model:
            raise ModelError("OperationalSpaceControl: it was created for another model than the simulator's")
        self.model.check_state(simulator.state)
        self._launch(launch, simulator.state, simulator.control)

    def _launch(self, launch: Launcher, state: State, control: Control) -> None:
        stages = self._stages
        launch = stages.launcher(launch.shard)
        # what pushes from outside is not known to a controller
        state = copy.copy(state)
        state.body_f = self._no_wrenches
        launch(
            kernels.pull_to_posture,
            "dof",
            reads=dict(
                posture=self._posture_view(),
                dof_world=launch.views.tree.dof_world,
                joint_q=state.joint_q,
                joint_qd=state.joint_qd,
            ),
            writes=dict(posture_qdd=self._posture_qdd),
        )
        stages.move(launch, state)
        stages.fill_mobility(launch, self._regularisation)
        stages.force(launch, state, self._posture_qdd, armature=True)
        reads = dict(
            task=self._task_view(),
            arm=self._arm_view(state),
            tree=launch.views.tree,
            kin=stages.motion.kin,
        )
        launch(kernels.write_efforts, "world", reads=reads, writes=dict(joint_f=control.joint_f))

    def _posture_view(self) -> Any:
        view: Any = kernels.PostureView()
        view.coord, view.q = self._coord, self.posture
        view.stiffness, view.damping = self.posture_stiffness, self.posture_damping
        return view

    def _task_view(self) -> Any:
        view: Any = kernels.TaskView()
        view.body, view.first_dof, view.dofs = self._body, self._first, self._dofs
        view.point, view.decoupled = wp.vec3(*self._point), self._decoupled
        view.turns = self._turns
        view.target, view.target_qd, view.target_qdd = self.target, self.target_qd, self.target_qdd
        view.stiffness, view.damping = self.stiffness, self.damping
        return view

    def _arm_view(self, state: State) -> Any:
        view: Any = kernels.ArmView()
        motion = self._stages.motion
        view.com, view.body_q, view.body_qd = self.model.body_com, state.body_q, state.body_qd
        view.qd, view.gravity = state.joint_qd, self.model.gravity_vec
        view.tau, view.body_A, view.mobility = motion.tau, motion.body_A, self._stages.mobility
        view.joint_damping = self.model.joint_damping
        view.effort_limit, view.effort_lower = self.model.joint_effort_limit, self.model.joint_effort_lower
        return view

    def _initial_targets(self) -> np.ndarray:
        """Poses of the task's frames in the initial state, (world_count, 7)."""
        body_q: np.ndarray = self._state.body_q.numpy()
        point: Any = wp.vec3(*self._point)
        poses = body_q[self._bodies].copy()
        for pose in poses:
            frame: Any = wp.transform(*pose)
            pose[:3] = wp.transform_point(frame, point)
        return poses

    def _find_joints(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Return coordinates of dofs, -1 outside the task, first dof of each world's arm, and its number."""
        model = self.model
        tree = topology_of(model).view
        qd_start: np.ndarray = model.joint_qd_start.numpy()
        articulation_start: np.ndarray = model.articulation_start.numpy()
        child: np.ndarray = model.joint_child.numpy()
        body_leaf: np.ndarray = tree.body_leaf.numpy()
        ends: np.ndarray = qd_start[articulation_start]
        joint_of = np.full(model.body_count, -1)
        joint_of[child] = np.arange(model.joint_count)
        joints = joint_of[self._bodies]
        still = body_leaf[self._bodies] < 0
        if still.any():
            label = model.body_key[self._bodies[int(np.argmax(still))]]
            raise NewtonsimError(f"body {label!r}: no joint moves it")
        arm = np.searchsorted(articulation_start, joints, side="right") - 1
        first, counts = ends[arm], ends[arm + 1] - ends[arm]
        coord = np.full(model.joint_dof_count, -1)
        dof_coord: np.ndarray = tree.dof_coord.numpy()
        for start, count in zip(first, counts, strict=True):
            dofs = np.arange(start, start + count)
            idle = dofs[dof_coord[dofs] < 0]
            if len(idle):
                joint = int(np.searchsorted(qd_start, idle[0], side="right")) - 1
                name = model.joint_key[joint]
                raise NewtonsimError(
                    f"joint {name!r} has no angle or length: expected an arm on a fixed base"
                )
            coord[dofs] = dof_coord[dofs]
        if len(set(counts.tolist())) != 1 or counts[0] == 0:
            raise NewtonsimError(
                f"arms of all worlds: expected equal numbers of joints, got {counts.tolist()}"
            )
        return coord, first, int(counts[0])


def _warn_of_drives(model: Model, dofs: np.ndarray) -> None:
    """Warn of joints of the arms whose drives pull besides the control."""
    axes = topology_of(model).view.dof_axis.numpy()[dofs]
    axes = axes[axes >= 0]
    mode: np.ndarray = model.joint_axis_mode.numpy()
    gains: np.ndarray = model.joint_target_ke.numpy() + model.joint_target_kd.numpy()
    driven = axes[(mode[axes] != int(JointMode.FORCE)) & (gains[axes] > 0.0)]
    if not len(driven):
        return
    joints = np.searchsorted(model.joint_axis_start.numpy(), driven, side="right") - 1
    names = list(dict.fromkeys(model.joint_key[joint] for joint in joints))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    warnings.warn(
        f"OperationalSpaceControl: joints {', '.join(map(repr, names[:_MOST_NAMED]))}{more} have drives, "
        "which pull as well and keep the hand off its target; load the arm with stiffness=0.0, damping=0.0",
        stacklevel=3,
    )


def _one_in_each_world(model: Model, pattern: str) -> np.ndarray:
    """Return the body that a pattern matches in each world.

    Raises:
        NewtonsimError: It matches none, or not one in each.
    """
    found = np.array(match_labels(pattern, model.body_key, "bodies"))
    world = np.searchsorted(model.world_body_start, found, side="right") - 1
    if not np.array_equal(world, np.arange(model.world_count)):
        counts = np.bincount(np.maximum(world, 0), minlength=model.world_count)
        odd = int(np.argmax(counts != 1))
        raise NewtonsimError(
            f"body {pattern!r}: expected one in each world, got {int(counts[odd])} in world {odd}"
        )
    return found


def _gains(
    stiffness: Gains, damping: Gains | None, decoupled: bool, rotations: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return K and D as six numbers each.

    Raises:
        NewtonsimError: They are not, one is negative, or there is no damping that follows from K.
    """
    count = 6 if rotations else 3
    pull = _numbers("stiffness", stiffness, count)
    if damping is None and not decoupled:
        raise NewtonsimError("damping: expected one with decoupled=False, whose inertias vary with the pose")
    slow = 2.0 * np.sqrt(pull) if damping is None else _numbers("damping", damping, count)
    return np.pad(pull, (6 - count, 0)), np.pad(slow, (6 - count, 0))


def _numbers(name: str, value: Gains, count: int, low: float | None = 0.0) -> np.ndarray:
    """Return a number or several as `count` numbers.

    Raises:
        NewtonsimError: There are others, or one is not finite or below `low`.
    """
    try:
        found = np.broadcast_to(np.asarray(value, dtype=float), (count,))
    except (TypeError, ValueError):
        raise NewtonsimError(f"{name}: expected {count} numbers, got {value!r}") from None
    if not np.isfinite(found).all() or (low is not None and (found < low).any()):
        bound = "" if low is None else f" of at least {low:g}"
        raise NewtonsimError(f"{name}: expected {count} numbers{bound}, got {value!r}")
    return found.copy()
