"""A finger pushes a box to a target beside it, through contacts found by the cross-entropy method.

Shooting then refines the push, with gradients through these contacts. Writes a plot. Run it with
``python -m newtonsim.examples cem_push [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import pathlib
import sys

import numpy as np

import newtonsim
from newtonsim import optimize


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Find 2 s of pushing, and check where the box ends."""
    table = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    box = table.add_body(origin=(0.3, 0.0, 0.1, 0, 0, 0, 1), key="box")
    table.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, density=200.0, mu=0.4)
    table.add_articulation()
    finger = table.add_body(key="finger")
    table.add_shape_sphere(finger, radius=0.05, density=2000.0, has_ground_collision=False)
    drive = {"mode": newtonsim.JOINT_MODE_TARGET_POSITION, "target_ke": 400.0, "target_kd": 40.0}
    axes = [newtonsim.JointAxis(axis, **drive) for axis in ((1, 0, 0), (0, 1, 0))]
    table.add_joint_d6(-1, finger, linear_axes=axes, parent_xform=((0, 0, 0.1), (0, 0, 0, 1)), key="slides")
    table.set_ground_plane(mu=0.4)
    goal = np.array([0.5, 0.3, 0.1])
    costs = [
        optimize.FrameCost("box", goal, position=(2.0, 2.0, 0.0), final_position=(20.0, 20.0, 0.0)),
        optimize.JointCost(final_velocity=0.01),
    ]
    problem = optimize.Problem(
        table, costs, horizon=40, dt=0.01, hold=5, inputs="joint_act", bounds=(-0.5, 1.0)
    )
    found = optimize.CEM(problem, samples=128, noise=0.3, knots=8).solve(iterations=40)
    result = optimize.Shooting(problem).solve(controls=found.controls, iterations=40)
    print(f"sampling: {found}\nshooting: {result}")
    miss = np.linalg.norm(problem.follow(result.controls).body_q[-1, 0, :2] - goal[:2])
    print(f"the box is pushed from (0.3, 0) to within {1000 * miss:.0f} mm of {goal[:2]}")
    result.plot(folder / "cem_push.png")
    assert result.cost < found.cost, "shooting should make the push better"
    assert miss < 0.01, "the box should be where it belongs"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
