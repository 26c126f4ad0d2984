"""Find the mass and the friction of a box and the gain of a motor from a noisy log of an arm that pushes it.

Run it with ``python -m newtonsim.examples identify_push``.
"""

from functools import partial

import numpy as np

import newtonsim
from newtonsim import optimize

TRUE, GUESS = (1.5, 0.35, 60.0), (0.8, 0.5, 100.0)  # [kg], 1, [N m/rad]


def scene(mass: float, mu: float, gain: float) -> newtonsim.ModelBuilder:
    """Return an arm of 0.4 m on a vertical hinge, and a box before its tip."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    robot.add_articulation()
    link = robot.add_body(mass=1.0, com=(0.2, 0, 0), I_m=0.02 * np.eye(3), key="link")
    robot.add_shape_sphere(
        link, pos=(0.4, 0, 0), radius=0.04, density=0.0, mu=0.1, has_ground_collision=False
    )
    drive = {"mode": newtonsim.JOINT_MODE_TARGET_POSITION, "target_ke": gain, "target_kd": 4.0}
    robot.add_joint_revolute(-1, link, ((0, 0, 0.1), (0, 0, 0, 1)), axis=(0, 0, 1), key="arm", **drive)
    box = robot.add_body((0.4, 0.14, 0.1, 0, 0, 0, 1), mass=mass, I_m=0.01 * np.eye(3), key="box")
    robot.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, density=0.0, mu=mu, key="sides")
    robot.set_ground_plane(mu=1.0)
    return robot


def main() -> None:
    """Record, identify, and compare."""
    targets = 0.7 * np.sin(np.linspace(0.0, 2.0, 60))[:, None] ** 2
    options = {"horizon": 60, "dt": 0.01, "hold": 2, "inputs": "joint_act", "actuated": ["arm"]}
    options |= {"solver": partial(newtonsim.FeatherstoneSolver, tolerance=1e-6)}  # gradients need it
    log = optimize.Problem(scene(*TRUE), [optimize.ControlCost(1.0)], **options).follow(targets).joint_q[1:]
    noise = np.array([1e-3, *[5e-4] * 3, *[0.0] * 4])  # [rad, m]; the orientation is not measured
    log = log + noise * np.random.default_rng(0).standard_normal(log.shape)
    misfit = optimize.LogCost(log, deviation=[1e-3, *[np.inf] * 3, *[5e-4] * 3])
    names = [("body_mass", "box"), ("shape_materials.mu", "sides"), ("joint_target_ke", "arm")]
    problem = optimize.Problem(scene(*GUESS), [misfit], **options)
    found = optimize.Identification(problem, [optimize.Parameter(*n) for n in names], targets).solve()
    print(found)
    for (name, value), true in zip(found.values.items(), TRUE, strict=True):
        assert abs(value - true) < min(0.02 * true, 4.0 * found.errors[name]), f"{name} should be {true}"


if __name__ == "__main__":
    main()
