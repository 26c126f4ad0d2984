"""Servos of FeatherstoneSolver: motors as bounded constraints on velocities."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import warp as wp

from newtonsim.errors import NewtonsimError
from newtonsim.kernels.constraints import servos as constraints_servos
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import JointType
from newtonsim.scene.model import Model
from newtonsim.scene.revisions import Revised


class ServoMode(IntEnum):
    """Mode of the servo of a degree of freedom."""

    OFF = 0
    VELOCITY = 1
    PD = 2


class JointServos(Revised):
    """Motors on degrees of freedom of joints with axes and of ball joints, all off at first.

    In mode VELOCITY a servo brings its dof to v* = kp e / h + (1 - kd) v + kd v_d within one step of length
    h, whatever else acts, as long as its impulse stays within `max_force` times `period`. Here, e is
    `target_q` minus the position, v is the velocity at the end of the step without constraints, and v_d is
    `target_qd`. With kd = 1 and v_d = 0, the error shrinks by the factor 1 - kp in every step, at any mass.
    Servos yield to joint limits.

    In mode PD, a servo is a spring kp [N m/rad or N/m] and a damper kd, evaluated at the end of the step and
    stable at any gain (compare Tan, Liu, Turk, "Stable proportional-derivative controllers", 2011), within
    the bound.

    For a ball joint, e is the rotation vector from the position to the target; its three dofs are about the
    axes of the joint frame in the parent.

    Write to the arrays between steps. Gradients and sleep are not supported.

    Attributes:
        mode: `ServoMode` of each dof, shape (joint_dof_count,).
        kp: Share of the position error that one step removes; stiffness in mode PD; shape (joint_dof_count,).
        kd: Share of the velocity error that one step removes, 1 at first; damping in mode PD; shape
            (joint_dof_count,).
        target_q: Target positions, laid out like `State.joint_q`, those of the model at first, shape
            (joint_coord_count,).
        target_qd: Target velocities [rad/s or m/s], shape (joint_dof_count,).
        max_speed: Bound of |v*| [rad/s or m/s], infinite at first, shape (joint_dof_count,).
        max_force: Largest force [N m or N], infinite at first, shape (joint_dof_count,).
        applied: Impulse of the last solver step divided by `period` [N m or N], shape (joint_dof_count,).
        period: Time over which `max_force` builds up the largest impulse of a solver step [s]; None for the
            step itself. With n substeps in a period, servos are n times as strong as their force.
    """

    def __init__(self, model: Model):
        dofs, device = model.joint_dof_count, model.device
        self.mode = zeros(dofs, dtype=int, device=device)
        self.kp = zeros(dofs, dtype=float, device=device)
        self.kd = put(np.full(dofs, 1.0), dtype=float, device=device)
        self.target_q = wp.clone(model.joint_q, requires_grad=False)
        self.target_qd = zeros(dofs, dtype=float, device=device)
        self.max_speed = put(np.full(dofs, float("inf")), dtype=float, device=device)
        self.max_force = put(np.full(dofs, float("inf")), dtype=float, device=device)
        self.applied = zeros(dofs, dtype=float, device=device)
        self.period: float | None = None
        self._ball, self._component = find_ball_dofs(model)

    def view(self, dt: float) -> constraints_servos.ServoView:
        """Return the device struct for a solver step [s].

        Raises:
            NewtonsimError: `period` is not positive.
        """
        if self.period is not None and not self.period > 0.0:
            raise NewtonsimError(f"period: expected a positive number or None, got {self.period}")
        view = constraints_servos.ServoView()
        view.mode = self.mode
        view.kp = self.kp
        view.kd = self.kd
        view.target_q = self.target_q
        view.target_qd = self.target_qd
        view.max_speed = self.max_speed
        view.max_force = self.max_force
        view.applied = self.applied
        view.ball, view.component = self._ball, self._component
        view.period = dt if self.period is None else self.period
        return view


def find_ball_dofs(model: Model) -> tuple[wp.array, wp.array]:
    """First coordinate of the ball joint that each dof belongs to or -1, and its number in the joint."""
    ball = np.full(model.joint_dof_count, -1, dtype=np.int32)
    component = np.zeros(model.joint_dof_count, dtype=np.int32)
    if model.joint_count:
        joints = np.flatnonzero(model.joint_type.numpy() == JointType.BALL)
        dofs = model.joint_qd_start.numpy()[joints][:, None] + np.arange(3)
        ball[dofs] = model.joint_q_start.numpy()[joints][:, None]
        component[dofs] = np.arange(3)
    device = model.device
    return put(ball, dtype=int, device=device), put(component, dtype=int, device=device)
