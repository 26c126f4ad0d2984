"""A seven-joint arm follows a circling target by model predictive path integral control in real time.

Each control is the best of 48 motions over half a second. Writes a plot. Run it with
``python -m newtonsim.examples arm_mpc [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import pathlib
import sys

import numpy as np

import newtonsim
from newtonsim import optimize
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Control the arm for 8 s, and check how close it stays; say how fast that was."""
    from matplotlib.figure import Figure

    arm = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    drives = {"stiffness": 1500.0, "damping": 150.0, "armature": 0.5, "enable_self_collisions": False}
    parse_urdf(asset_path("arm7.urdf"), arm, ignore_inertial_definitions=False, **drives)
    arm.joint_q[:] = arm.joint_act[:] = [0.0, 0.5, 0.0, 1.2, 0.0, 0.6, 0.0]
    times = 0.04 * np.arange(200 + 12)
    circle = np.stack([0.5 + 0 * times, 0.2 * np.sin(1.5 * times), 0.7 + 0.2 * np.cos(1.5 * times)], axis=1)
    place = optimize.FrameCost("link_7", circle[:12], position=1000.0)
    calm = optimize.JointCost(velocity=0.05)
    problem = optimize.Problem(arm, [place, calm], horizon=12, dt=0.02, hold=2, inputs="joint_act")
    controller = optimize.Controller(optimize.MPPI(problem, samples=48, noise=0.1, knots=2))

    def aim(t: int) -> None:
        place.target = circle[t + 1 : t + 13]

    motion = controller.run(200, each=aim)
    print(motion)
    path = motion.body_q[1:, 8, :3]
    away = np.linalg.norm(path - circle[1:201], axis=1)[50:]
    print(f"{1000 * away.mean():.0f} mm from the target, at most {1000 * away.max():.0f} mm")
    figure = Figure(figsize=(6.0, 6.0), layout="constrained")
    axes = figure.add_subplot(aspect="equal", xlabel="y [m]", ylabel="z [m]")
    axes.plot(*circle[:, 1:].T, "k:", *path[:, 1:].T)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "arm_mpc.png", dpi=120)
    assert away.max() < 0.05, "the arm should follow"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
