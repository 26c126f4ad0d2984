"""Iterative LQR swings a seven-joint arm to a pose and brings it to rest there.

Writes a plot. Run it with ``python -m newtonsim.examples arm_ilqr [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import math
import pathlib
import sys

import numpy as np

import newtonsim
from newtonsim import dynamics, optimize
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf

START, GOAL = [0.0, 0.5, 0.0, 1.2, 0.0, 0.6, 0.0], [1.2, 0.9, -0.4, 1.6, 0.5, 0.2, 0.3]  # [rad]


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Optimise, and check cost and end."""
    arm = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    # The armature is that of motors behind gears.
    options = {"stiffness": 0.0, "damping": 0.0, "armature": 0.5, "enable_self_collisions": False}
    parse_urdf(asset_path("arm7.urdf"), arm, ignore_inertial_definitions=False, **options)
    arm.joint_velocity_limit[:] = [math.inf] * 7
    model = arm.finalize()
    rest = [dynamics.holding_forces(model, q) for q in (START, GOAL)]
    costs = [
        optimize.JointCost(12.0, 1.2, final_position=2000.0, final_velocity=200.0, joint_q=GOAL),
        optimize.ControlCost(0.012, reference=rest[1]),
    ]
    # Torques at their bounds would throw joint 4 against its limit in the first iteration, and it would stay.
    problem = optimize.Problem(arm, costs, horizon=60, dt=1.0 / 60.0, bounds=(-math.inf, math.inf))
    start = (START, np.zeros(7))
    result = optimize.ILQR(problem).solve(start, controls=rest[0])
    print(result)
    motion = problem.follow(result.controls, start)
    away, speed = np.abs(motion.joint_q[-1] - GOAL).max(), np.abs(motion.joint_qd[-1]).max()
    print(f"the arm ends within {away:.1e} rad of the goal at {speed:.1e} rad/s")
    result.plot(folder / "arm_ilqr.png")
    assert away < 0.02, "the arm should reach the goal"
    assert speed < 0.05, "and come to rest"
    assert np.all(np.abs(result.controls) < arm.joint_effort_limit), "with torques that are possible"
    assert result.status == "converged"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
