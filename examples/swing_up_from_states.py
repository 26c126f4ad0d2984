"""A pole swings up by FDDP and by multiple shooting, which start from states that no motion visits.

Run it with ``python -m newtonsim.examples swing_up_from_states [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import math
import pathlib
import sys

import numpy as np

import newtonsim
from newtonsim import optimize
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Optimise with both, and check the motions."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    drives = {"stiffness": 0.0, "damping": 0.0, "ignore_inertial_definitions": False}
    parse_urdf(asset_path("cartpole.urdf"), robot, **drives)
    robot.joint_q[:] = [0.0, math.pi]
    costs = [
        optimize.JointCost(final_position=[10.0, 100.0], final_velocity=[1.0, 10.0], joint_q=[0.0, 0.0]),
        optimize.ControlCost(1e-2),
    ]
    problem = optimize.Problem(robot, costs, 50, 0.02, hold=2, actuated=[0], bounds=(-math.inf, math.inf))
    # the guess: the pole turns evenly in 2 s, and nobody pushes
    angles = np.stack([np.zeros(51), np.linspace(math.pi, 0.0, 51)], axis=1)
    rates = np.tile([0.0, -math.pi / 2.0], (51, 1))
    for optimizer in (optimize.FDDP(problem), optimize.MultipleShooting(problem, segment=5)):
        result = optimizer.solve(controls=[0.0], states=(angles, rates), iterations=100)
        name = type(optimizer).__name__
        print(f"{name}: {result}, gaps {result.gaps[0]:.2g} -> {result.gaps[-1]:.2g}")
        end = problem.follow(result.controls).joint_q[-1]
        print(f"the pole ends {math.degrees(end[1]):+.2f} deg from upright, the cart {end[0]:+.3f} m away")
        assert np.abs(end).max() < 0.05, "the pole should be upright, the cart in the middle"
    folder.mkdir(parents=True, exist_ok=True)
    result.plot().savefig(folder / "swing_up_from_states.png", dpi=120)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
