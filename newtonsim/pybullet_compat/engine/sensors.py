"""Forces of the last step: those of constraints, and what joint sensors measure.

A sensor measures what a joint transmits besides its motor, in the frame of the child.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.geometry.transforms import quat_conjugate, quat_rotate
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.surface.constants import JOINT_PRISMATIC, JOINT_REVOLUTE
from newtonsim.pybullet_compat.world.plain_kinematics import cross, rotated
from newtonsim.runtime import capture
from newtonsim.scene.allocation import zeros

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.solvers import FeatherstoneSolver

_ALONG = (JOINT_REVOLUTE, JOINT_PRISMATIC)


class ForcesOfLastStep:
    """Wrenches that a solver finds when they are asked for, by launches that are recorded.

    Args:
        solver: The solver.
        find: Launches what writes the wrenches of the last step into an array.
        count: How many there are.
        worlds: Number of worlds W.
    """

    def __init__(
        self, solver: FeatherstoneSolver, find: Callable[[wp.array], object], count: int, worlds: int
    ):
        self._stage, self._find, self._device = solver.constraints, find, solver.model.device
        self._out = zeros(count, dtype=wp.spatial_vector, device=self._device)
        self._array = HostArray(self._out, worlds)
        self._recorded_of: tuple | None = None
        self._recording: capture.Recording | None = None
        self._is_read = False

    def forget(self) -> None:
        """Note that there was another step, or that forces were changed."""
        self._is_read = False

    def read(self) -> np.ndarray:
        """Return the wrenches (W, n, 6) [N m, N], mean values of the last step."""
        if not self._is_read:
            self._is_read = True
            self._launch()
            self._array.pull()
        return self._array.host

    def _launch(self) -> None:
        """Find the wrenches; the duration of the step is part of the recording."""
        of = (self._stage.last_dt, self._stage.last_contacts)
        with capture.capturing:
            if of != self._recorded_of:
                self._recorded_of, self._recording = of, None
                self._find_all()
                return
            if self._recording is None:
                self._recording = capture.capture_launches(self._find_all, self._device)
        self._recording.once()

    def _find_all(self) -> None:
        self._find(self._out)


def joint_reaction(
    body: Body, place: int, wrench: np.ndarray, poses: np.ndarray, applied: np.ndarray
) -> np.ndarray:
    """Return what the parent exerts on the child at a joint, without the motor.

    PyBullet gives force and moment about the centre of mass of the child, in the axes that its inertial frame
    had at the start of the step, and leaves out what acts along the axis of a motor.

    Args:
        body: The body.
        place: Place of the link.
        wrench: What the joint transmits, about its anchor in world axes (W, 6) [N m, N].
        poses: Pose of the inertial frame of the link at the start of the step (W, 7).
        applied: Forces of all motors of the body (W, nu) [N m or N].

    Returns:
        (Fx, Fy, Fz, Mx, My, Mz) (W, 6) [N, N m], averaged over the step.
    """
    link, (anchor, axis) = body.links[place], body.joint_in_link(place)
    moves = bool(place) and link.joint_type in _ALONG
    if len(wrench) == 1:
        motor = float(applied[0, body.u_start[place]]) / link.axis_length if moves else 0.0
        along = (0.0, motor) if link.joint_type == JOINT_PRISMATIC else (motor, 0.0)
        found = _plain_reaction(wrench[0].tolist(), poses[0].tolist(), anchor.tolist(), axis.tolist(), *along)
        return np.array([found])
    pose = np.asarray(poses, np.float64)
    turning, pushing = wrench[:, :3].astype(np.float64), wrench[:, 3:].astype(np.float64)
    if moves:
        motor = applied[:, body.u_start[place], None] * quat_rotate(pose[:, 3:], axis) / link.axis_length
        if link.joint_type == JOINT_REVOLUTE:
            turning -= motor
        else:
            pushing -= motor
    turning += np.cross(quat_rotate(pose[:, 3:], anchor), pushing)
    back = quat_conjugate(pose[:, 3:])
    return np.concatenate([quat_rotate(back, pushing), quat_rotate(back, turning)], axis=1)


def _plain_reaction(
    wrench: Sequence[float],
    pose: Sequence[float],
    anchor: Sequence[float],
    axis: Sequence[float],
    torque: float,
    force: float,
) -> tuple[float, ...]:
    """Do what `joint_reaction` does in one world, in plain numbers.

    Args:
        wrench: What the joint transmits (6,).
        pose: Pose of the link (7,).
        anchor: The joint in the inertial frame of the link (3,) [m].
        axis: Axis of the joint there (3,).
        torque: Of the motor about this axis [N m].
        force: Of the motor along it [N].
    """
    x, y, z, w = pose[3:]
    back = (-x, -y, -z, w)
    a, b, c = rotated(back, wrench[:3])
    i, j, k = rotated(back, wrench[3:])
    e, f, g = axis
    i, j, k = pushing = (i - force * e, j - force * f, k - force * g)
    m, n, o = cross(anchor, pushing)
    return i, j, k, a - torque * e + m, b - torque * f + n, c - torque * g + o
