"""Forces of the last step: those of constraints, and what sensors in joints read.

`kernels.queries.joint_sensors` has the law that readings follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.geometry.transforms import quat_conjugate, quat_rotate
from newtonsim.kernels.constraints.dof_rows import ROW_LIMIT, ROW_SERVO, DofRowView
from newtonsim.kernels.queries.joint_sensors import SecondPassView, read_joint_sensors
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.world.plain_kinematics import rotated
from newtonsim.runtime import capture
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros

if TYPE_CHECKING:
    from newtonsim.scene.state import State
    from newtonsim.solvers import FeatherstoneSolver
    from newtonsim.solvers.featherstone.stages import BodyDamping


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


class JointSensors:
    """Finds what the sensors in all joints read, by launches alone.

    Args:
        solver: The solver.
        state: The state that its steps write.
        damping: Damping of the bodies.
    """

    def __init__(self, solver: FeatherstoneSolver, state: State, damping: BodyDamping):
        self._solver, self._state, self._damping = solver, state, damping
        self._work: SecondPassView | None = None

    def _allocate(self) -> SecondPassView:
        """Make the buffers, which engines without sensors never need."""
        model, rows = self._solver.model, self._solver.constraints.rows.dof
        device, joints, dofs = model.device, model.joint_count, model.joint_dof_count
        self._motor_row, self._limit_row = (
            put(rows_of_dofs(rows, kind, dofs), dtype=int, device=device) for kind in (ROW_SERVO, ROW_LIMIT)
        )
        self._wrench = zeros(joints, dtype=wp.spatial_vector, device=device)
        work = SecondPassView()
        for name, count, kind in (
            *((name, model.body_count, wp.spatial_vector) for name in ("V", "A", "bias")),
            ("inertia", model.body_count, wp.spatial_matrix),
            *((name, dofs, wp.spatial_vector) for name in ("c", "U")),
            *((name, dofs, float) for name in ("resistance", "effort")),
            ("own", joints, wp.spatial_vector),
        ):
            setattr(work, name, zeros(count, dtype=kind, device=device))
        return work

    def find(self, out: wp.array) -> None:
        """Write moment and force on the child of each joint at its centre of mass, world axes [N m, N]."""
        if self._work is None:
            self._work = self._allocate()
        solver = self._solver
        smooth, stage = solver.smooth, solver.constraints
        solver.joint_reactions(self._state, self._wrench)
        launch = Launcher(solver.model, record_tape=False)
        launch(
            read_joint_sensors,
            "tree",
            reads=dict(
                tree=launch.views.tree,
                joint=launch.views.joint,
                body=launch.views.body,
                kin=smooth.mid.kin,
                qd=smooth.v_free,
                linear=self._damping.linear,
                angular=self._damping.angular,
                motor_row=self._motor_row,
                limit_row=self._limit_row,
                impulse=stage.rows.dof.memory,
                rate=1.0 / stage.last_dt,
                wrench=self._wrench,
            ),
            writes=dict(work=self._work, reading=out),
        )


def rows_of_dofs(rows: DofRowView, kind: int, dofs: int) -> np.ndarray:
    """The place of each dof's row of one kind among all that there may be (dofs,), -1 for none."""
    places = np.flatnonzero(rows.source_kind.numpy() == int(kind))
    found = np.full(dofs, -1)
    found[rows.source_dof.numpy()[places]] = places
    return found


def joint_reaction(reading: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Return what a sensor reads, in the axes of the child's inertial frame at the start of the step.

    Args:
        reading: What `JointSensors` found for it (W, 6) [N m, N].
        poses: Pose of that frame (W, 7).

    Returns:
        (Fx, Fy, Fz, Mx, My, Mz) (W, 6) [N, N m], averaged over the step.
    """
    if len(reading) == 1:
        x, y, z, w = poses[0, 3:].tolist()
        numbers, back = reading[0].tolist(), (-x, -y, -z, w)
        return np.array([(*rotated(back, numbers[3:]), *rotated(back, numbers[:3]))])
    back = quat_conjugate(poses[:, 3:].astype(np.float64))
    turning, pushing = reading[:, :3].astype(np.float64), reading[:, 3:].astype(np.float64)
    return np.concatenate([quat_rotate(back, pushing), quat_rotate(back, turning)], axis=1)
