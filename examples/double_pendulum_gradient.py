"""Throw the tip of a double pendulum at a target by following the gradient of the simulation.

One decision, the two initial joint velocities, is improved by Gauss-Newton steps: the Jacobian of the tip
after 0.24 s is two backward passes through the rollout. Run it with
``python -m newtonsim.examples double_pendulum_gradient``.
"""

import numpy as np
import warp as wp

import newtonsim
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

STEPS, DT = 60, 0.004
TARGET = np.array([0.60, 0.90])  # x, z of the tip [m]
TIP = wp.constant(wp.vec3(0.0, 0.0, -0.5))  # in the frame of the lower rod


@wp.kernel
def read_tip(body_q: wp.array[wp.transform], tip: wp.array[wp.vec3]):
    """One thread reads the place of the tip of the second body in the world."""
    tip[0] = wp.transform_point(body_q[1], TIP)


class Throw:
    """A rollout from given joint velocities, with the Jacobian of where the tip ends."""

    def __init__(self):
        builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        parse_mjcf(asset_path("double_pendulum.xml"), builder, ignore_inertial_definitions=False)
        self.model = builder.finalize(requires_grad=True)
        self.solver = FeatherstoneSolver(self.model)
        # One state a step: the backward pass reads them all.
        self.states = [self.model.state() for _ in range(STEPS + 1)]
        self.tip = wp.zeros(1, dtype=wp.vec3, requires_grad=True)

    def run(self, velocities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Simulate.

        Args:
            velocities: Initial joint velocities (2,) [rad/s].

        Returns:
            Tip after the last step (x, z) [m], and its derivatives with respect to the velocities (2, 2).
        """
        self.states[0].joint_qd.assign(velocities.astype(np.float32))
        with wp.Tape() as tape:
            for now, then in zip(self.states[:-1], self.states[1:], strict=True):
                self.solver.step(self.model, now, then, None, None, DT)
            wp.launch(read_tip, 1, [self.states[-1].body_q], [self.tip])
        jacobian = np.zeros((2, 2))
        for row, component in enumerate((0, 2)):
            seed = np.zeros((1, 3), np.float32)
            seed[0, component] = 1.0
            tape.backward(grads={self.tip: wp.array(seed, dtype=wp.vec3)})
            jacobian[row] = self.states[0].joint_qd.grad.numpy()
            tape.zero()
        return self.tip.numpy()[0, [0, 2]].astype(float), jacobian

    def play(self, velocities: np.ndarray) -> np.ndarray:
        """Simulate without gradients, and return the tip after the last step (x, z) [m]."""
        sim = newtonsim.Simulator(self.model, FeatherstoneSolver(self.model), DT)
        sim.state.joint_qd.assign(velocities.astype(np.float32))
        sim.step(STEPS)
        wp.launch(read_tip, 1, [sim.state.body_q], [self.tip])
        return self.tip.numpy()[0, [0, 2]].astype(float)


def main() -> None:
    """Aim, and check the Jacobian and the hit."""
    throw = Throw()
    velocities = np.array([-1.0, -1.0])
    for iteration in range(8):
        tip, jacobian = throw.run(velocities)
        miss = TARGET - tip
        print(f"{iteration}: tip ({tip[0]:+.4f}, {tip[1]:+.4f}) m, misses by {np.linalg.norm(miss):.1e} m")
        step = np.linalg.solve(jacobian.T @ jacobian + 1e-4 * np.eye(2), jacobian.T @ miss)
        velocities += step * min(1.0, 4.0 / np.linalg.norm(step))

    tip, jacobian = throw.run(velocities)
    assert np.linalg.norm(TARGET - tip) < 1e-3, "the tip should hit the target"
    h = 1e-2
    differences = [
        (throw.run(velocities + h * unit)[0] - throw.run(velocities - h * unit)[0]) / (2 * h)
        for unit in np.eye(2)
    ]
    error = np.abs(jacobian - np.array(differences).T).max() / np.abs(jacobian).max()
    print(f"hit with joint velocities {velocities.round(3)} rad/s; Jacobian agrees within {error:.1e}")
    assert error < 1e-2, "the Jacobian should agree with central differences"
    assert np.array_equal(throw.play(velocities), tip), "the throw should be the same without gradients"


if __name__ == "__main__":
    main()
