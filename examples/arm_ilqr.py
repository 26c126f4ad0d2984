"""Iterative LQR swings a seven-joint arm to a pose and brings it to rest there.

Writes a plot. Run it with ``python -m newtonsim.examples arm_ilqr [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import math
import pathlib
import sys

import numpy as np
import warp as wp

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
    state, still = model.state(), wp.zeros(7, dtype=float)
    rest = []
    for q in (START, GOAL):
        state.joint_q.assign(np.float32(q))
        rest.append(dynamics.inverse_dynamics(model, state, still).numpy())
    costs = [
        optimize.JointCost(12.0, 1.2, final_position=2000.0, final_velocity=200.0, joint_q=GOAL),
        optimize.ControlCost(0.012, reference=rest[1]),
    ]
    # Torques at their bounds would throw joint 4 against its limit in the first iteration, and it would stay.
    problem = optimize.Problem(arm, costs, horizon=60, dt=1.0 / 60.0, bounds=(-math.inf, math.inf))
    result = optimize.ILQR(problem).solve(start=(START, np.zeros(7)), controls=rest[0])
    print(result)
    sim = problem.make_simulator()
    sim.state.joint_q.assign(np.float32(START))
    for control in result.controls:
        problem.apply(sim, control)
        sim.step()
    away, speed = np.abs(sim.state.joint_q.numpy() - GOAL).max(), np.abs(sim.state.joint_qd.numpy()).max()
    print(f"the arm ends within {away:.1e} rad of the goal at {speed:.1e} rad/s")
    print(f"with torques of at most {np.abs(result.controls).max():.0f} N m")
    folder.mkdir(parents=True, exist_ok=True)
    result.plot().savefig(folder / "arm_ilqr.png", dpi=120)
    assert away < 0.02, "the arm should reach the goal"
    assert speed < 0.05, "and come to rest"
    assert np.all(np.abs(result.controls) < arm.joint_effort_limit), "with torques that are possible"
    assert result.status == "converged"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
