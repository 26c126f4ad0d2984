"""A gripper lifts a folded cloth and holds it for five seconds, with either solver of deformables.

Run it with ``python -m newtonsim.examples gripper_lifts_cloth``.
"""

import newtonsim
from newtonsim.examples import scenes
from newtonsim.solvers import FeatherstoneSolver, VBDSolver, XPBDSolver
from newtonsim.solvers.base import SolverBase

DT = 1.0 / 240.0
HOLD = 5.0  # [s]


def main() -> None:
    """Lift the cloth by its fold, once by XPBD and once by vertex block descent."""
    for kind in (XPBDSolver, VBDSolver):
        model = scenes.gripper_and_cloth().finalize()
        top, slip = lift(model, kind(model, iterations=4, substeps=5))
        print(f"{kind.__name__}: fold at {top:.3f} m, slipped by {1e3 * slip:.1f} mm in {HOLD:.0f} s")
        assert top > 0.24, "the gripper should hold the cloth"
        assert abs(slip) < 0.01, "the cloth should hardly slip"


def lift(model: newtonsim.Model, deformables: SolverBase) -> tuple[float, float]:
    """Grasp, lift and hold.

    Args:
        model: The gripper and its cloth.
        deformables: What moves the cloth.

    Returns:
        Height of the highest point of the cloth at the end, and how far it has slipped meanwhile [m].
    """
    script = scenes.CLOTH_SCRIPT
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model, deformables=deformables), DT)
    lifted = script.closing + script.lifting + 0.2
    below = []
    while sim.time < lifted + HOLD:
        sim.control.joint_act.assign(script.targets(sim.time))
        sim.step()
        if sim.time > lifted:
            top = float(sim.state.particle_q.numpy()[:, 2].max())
            below.append(float(sim.state.joint_q.numpy()[0]) - top)
    return top, below[-1] - below[0]


if __name__ == "__main__":
    main()
