"""Joint force sensors: what a joint transmits besides its motor, in the frame of the child."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import quat_conjugate, quat_rotate
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.surface.constants import JOINT_PRISMATIC, JOINT_REVOLUTE

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.engine import Engine


def joint_reactions(engine: Engine, bodies: Iterable[Body]) -> np.ndarray:
    """Return what the parent exerts on the child at every joint, without motors.

    PyBullet gives force and moment about the centre of mass of the child, in the axes that its inertial frame
    had at the start of the step, and leaves out what acts along the axis of a motor.

    Args:
        engine: The engine.
        bodies: All bodies of its client.

    Returns:
        (Fx, Fy, Fz, Mx, My, Mz) of each link (W, bodies, 6) [N, N m], averaged over the last step.
    """
    wrench = HostArray(engine.solver.joint_reactions(engine.simulator.state), engine.worlds).host
    wrench = np.asarray(wrench, np.float64)
    moment, force = wrench[..., :3], wrench[..., 3:]
    result = np.zeros(engine.twist.shape)
    for body in bodies:
        applied, poses = engine.applied(body), np.asarray(engine.start_poses(body), np.float64)
        for place, link in enumerate([] if body.driven else body.links):
            row, joint = body.first_row + place, body.first_joint + place
            pose = poses[:, place]
            _, at_joint = body.joint_frames(place)
            arm = quat_rotate(pose[:, 3:], at_joint[:3])
            turning, pushing = moment[:, joint], force[:, joint]
            if link.joint_type in (JOINT_REVOLUTE, JOINT_PRISMATIC) and place:
                axis = quat_rotate(pose[:, 3:], quat_rotate(at_joint[3:], link.axis))
                motor = applied[:, body.u_start[place], None] * axis / link.axis_length
                if link.joint_type == JOINT_REVOLUTE:
                    turning = turning - motor
                else:
                    pushing = pushing - motor
            turning = turning + np.cross(arm, pushing)
            back = quat_conjugate(pose[:, 3:])
            result[:, row, :3] = quat_rotate(back, pushing)
            result[:, row, 3:] = quat_rotate(back, turning)
    return result
