"""A quadruped walks by model predictive control that samples 32 motions, each of a third of a second.

No gait is given: the cost is the distance of the trunk from a target that moves at 0.3 m/s. Writes a
plot. Run it with ``python -m newtonsim.examples quadruped_mpc [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import pathlib
import sys

import numpy as np

import newtonsim
from newtonsim import optimize
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf

SPEED, STEPS, HORIZON = 0.3, 100, 8


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Walk for 4 s, and check how far; say how fast the controller was."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    parse_mjcf(asset_path("quadruped.xml"), robot, floating=None, ignore_inertial_definitions=False)
    stand = robot.keyframes[0]
    robot.joint_q[:], robot.joint_act[:] = stand["joint_q"], stand["joint_act"]
    robot.set_ground_plane()
    way = np.tile([0.0, 0.0, stand["joint_q"][2], 0.0, 0.0, 0.0, 1.0], (STEPS + HORIZON + 1, 1))
    way[:, 0] = SPEED * 0.04 * np.arange(len(way))
    trunk = optimize.FrameCost("trunk", way[:HORIZON], position=(40.0, 40.0, 100.0), rotation=10.0)
    calm = optimize.JointCost(velocity=0.002)
    posture = optimize.ControlCost(0.3, reference=stand["joint_act"])
    problem = optimize.Problem(robot, [trunk, calm, posture], HORIZON, dt=0.01, hold=4, inputs="joint_act")
    controller = optimize.Controller(optimize.MPPI(problem, samples=48, noise=0.25, knots=3))

    def lead(t: int) -> None:
        trunk.target = way[t + 1 : t + 1 + HORIZON]

    motion = controller.run(STEPS, each=lead)
    print(motion)
    path = motion.joint_q[1:, :3]
    print(f"walked {path[-1, 0]:.2f} m of {way[STEPS, 0]:.2f} m, {abs(path[-1, 1]):.2f} m off to the side")
    motion.plot(folder / "quadruped_mpc.png")
    assert abs(path[-1, 0] - way[STEPS, 0]) < 0.2, "the robot should walk as far as it was told"
    assert path[:, 2].min() > 0.2, "and not fall"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
