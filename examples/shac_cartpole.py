"""A policy learns in a minute or two to swing up the pole of a cart and keep it upright.

It follows the gradient of the simulation, a short-horizon actor-critic. Run it with
``python -m newtonsim.examples shac_cartpole``; it needs ``newtonsim[torch]``.
"""

import math

import numpy as np

import newtonsim
from newtonsim import optimize
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf


def main() -> None:
    """Learn, let the policy act for 6 s, and check how upright the pole is in the end."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    drives = {"stiffness": 0.0, "damping": 0.0, "ignore_inertial_definitions": False}
    parse_urdf(asset_path("cartpole.urdf"), robot, **drives)
    robot.joint_limit_lower[:], robot.joint_limit_upper[:] = [-math.inf] * 2, [math.inf] * 2
    robot.joint_q[:] = [0.0, math.pi]
    costs = [
        optimize.FrameCost("pole", (0, 0, 3.0), position=(0, 0, 1.0), frame=(0, 0, 1.0)),
        optimize.JointCost(position=[0.5, 0.0], velocity=[0.05, 0.02], joint_q=[0.0, 0.0]),
        optimize.ControlCost(1e-3),
    ]
    problem = optimize.Problem(robot, costs, 16, 0.01, hold=4, actuated=[0], bounds=(-15.0, 15.0))
    policy = optimize.SHAC(problem, spread=0.5)
    print(policy.train(400))
    sim, angles = problem.make_simulator(), []
    for _ in range(150):
        problem.apply(sim, policy(sim.state))
        sim.step()
        angles.append(float(sim.state.joint_q.numpy()[1]))
    away = np.degrees(np.abs(np.arctan2(np.sin(angles), np.cos(angles))))[-25:].max()
    print(f"in the last second the pole is within {away:.1f} deg of upright")
    assert away < 10.0, "the pole should be upright"


if __name__ == "__main__":
    main()
