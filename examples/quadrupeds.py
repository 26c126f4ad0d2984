"""64 quadrupeds stand on the ground, then crouch.

Run it with ``python -m newtonsim.examples quadrupeds``.
"""

import numpy as np

import newtonsim
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

WORLDS = 64
DT = 1.0 / 240.0
CROUCH = (0.0, 1.2, -2.3)  # abduction, hip, knee of every leg [rad]


def main() -> None:
    """Build the scene, simulate two seconds of standing and two of crouching, and check the heights."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    parse_mjcf(asset_path("quadruped.xml"), robot, floating=None, ignore_inertial_definitions=False)
    home = robot.keyframes[0]
    robot.joint_q[:] = home["joint_q"]
    robot.joint_act[:] = home["joint_act"]

    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.replicate(robot, WORLDS, spacing=(1.5, 1.5, 0.0))
    scene.set_ground_plane()
    model = scene.finalize()

    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT)
    sim.step(round(2.0 / DT))
    standing = trunk_heights(sim.state)
    print(f"standing:  {standing.mean():.3f} m, spread {np.ptp(standing):.1e} m")

    # The drives' targets may be written at any time: the captured step reads them anew.
    sim.control.joint_act.assign(np.tile(CROUCH, 4 * WORLDS).astype(np.float32))
    sim.step(round(2.0 / DT))
    crouching = trunk_heights(sim.state)
    print(f"crouching: {crouching.mean():.3f} m, spread {np.ptp(crouching):.1e} m")

    assert np.all((standing > 0.26) & (standing < 0.33)), "the robots should stand near 0.3 m"
    assert np.all((crouching > 0.10) & (crouching < 0.22)), "the robots should crouch, not fall"


def trunk_heights(state: newtonsim.State) -> np.ndarray:
    """Return the height of the trunk in every world [m]."""
    # A copy: on the CPU numpy() is a view of the array that the next step overwrites.
    return state.body_q.numpy().reshape(WORLDS, -1, 7)[:, 0, 2].copy()


if __name__ == "__main__":
    main()
