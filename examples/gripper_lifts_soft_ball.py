"""A gripper lifts a soft ball, holds it for five seconds, and reports how far it has slipped.

Run it with ``python -m newtonsim.examples gripper_lifts_soft_ball``.
"""

import newtonsim
from newtonsim.examples import scenes
from newtonsim.solvers import FeatherstoneSolver, XPBDSolver

DT = 1.0 / 240.0
HOLD = 5.0  # [s]


def main() -> None:
    """Step robot and ball together: the ball in five substeps, the gripper in one."""
    script = scenes.GripperScript()
    model = scenes.gripper_and_soft_ball().finalize()
    solver = FeatherstoneSolver(model, deformables=XPBDSolver(model, iterations=4, substeps=5))
    sim = newtonsim.Simulator(model, solver, DT)
    print(f"{model.particle_count} particles, {model.tet_count} tetrahedra")

    lifted = script.closing + script.lifting + 0.2
    run_until(sim, script, lifted)
    width = width_of(sim)
    start = height_below_palm(sim)
    print(f"lifted:  ball at {height(sim):.3f} m, squeezed to {1e3 * width:.1f} mm")
    run_until(sim, script, lifted + HOLD)
    slip = height_below_palm(sim) - start
    print(f"held:    ball at {height(sim):.3f} m after {HOLD:.0f} s, slipped by {1e3 * slip:.2f} mm")

    assert height(sim) > 0.2, "the gripper should hold the ball"
    assert abs(slip) < 1e-3, "the ball should not slip"


def run_until(sim: newtonsim.Simulator, script: scenes.GripperScript, time: float) -> None:
    """Let the script drive the gripper up to a time [s]."""
    while sim.time < time:
        sim.control.joint_act.assign(script.targets(sim.time))
        sim.step()


def height(sim: newtonsim.Simulator) -> float:
    """Return the height of the middle of the ball [m]."""
    return float(sim.state.particle_q.numpy()[:, 2].mean())


def height_below_palm(sim: newtonsim.Simulator) -> float:
    """Return how far the ball is below the place that the lift has been told [m]."""
    return float(sim.state.joint_q.numpy()[0]) - height(sim)


def width_of(sim: newtonsim.Simulator) -> float:
    """Return the width of the ball between the fingers [m]."""
    x = sim.state.particle_q.numpy()[:, 0]
    return float(x.max() - x.min())


if __name__ == "__main__":
    main()
