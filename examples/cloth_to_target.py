"""Throw a cloth so that it stands upright at a target half a second later.

The throw is a field of velocities over the cloth, quadratic in its coordinates: 18 numbers, which L-BFGS
improves by gradients through the stretching, shearing and bending cloth in the air. Writes a plot. Run it
with ``python -m newtonsim.examples cloth_to_target [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import pathlib
import sys

import numpy as np
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.solvers import SemiImplicitSolver

DT, STEPS = 1.0 / 1000.0, 500
CELLS, SIZE, MASS = 12, 0.6, 0.1
"""Cells along each side of the cloth, length of a side [m], and mass of it all [kg]."""
CENTRE = np.array([1.2, 0.0, 1.0])
"""Where the middle of the cloth is to be [m]; it starts flat at (0, 0, 1)."""


@wp.kernel
def squared_distance(
    x: wp.array(dtype=wp.vec3), goal: wp.array(dtype=wp.vec3), losses: wp.array(dtype=float)
):
    """One thread per particle adds its part of the mean squared distance from the goal."""
    i = wp.tid()
    away = x[i] - goal[i]
    wp.atomic_add(losses, 0, wp.dot(away, away) / float(x.shape[0]))


def cloth() -> newtonsim.Model:
    """Return a flat cloth in the air."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    cell = SIZE / CELLS
    builder.add_cloth_grid(
        (-0.5 * SIZE, -0.5 * SIZE, 1.0),
        (0, 0, 0, 1),
        (0, 0, 0),
        CELLS,
        CELLS,
        cell,
        cell,
        MASS / (CELLS + 1) ** 2,
        tri_ke=20.0,
        tri_ka=20.0,
        tri_kd=0.005,
        tri_drag=0.1,
        tri_lift=0.1,
        edge_ke=1.0e-3,
        edge_kd=1.0e-5,
        particle_radius=0.2 * cell,
    )
    return builder.finalize(requires_grad=True)


class Throw:
    """The flight of the cloth, as a function of how it is thrown."""

    def __init__(self):
        self.model = cloth()
        self.rest = self.model.particle_q.numpy().copy()
        x, y = (self.rest[:, :2] / SIZE).T
        self.shapes = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)  # (particles, 6)
        # Upright, with its normal along x: what was in front is above.
        self.goal = CENTRE + np.stack([np.zeros_like(x), SIZE * y, SIZE * x], axis=1)
        goal = wp.array(self.goal, dtype=wp.vec3, device=self.model.device)

        def loss(state: newtonsim.State, losses: wp.array) -> None:
            count = len(state.particle_q)
            wp.launch(squared_distance, count, [state.particle_q, goal], [losses], device=losses.device)

        solver = SemiImplicitSolver(self.model)
        self.rollout = diff.Rollout(self.model, solver, STEPS, DT, loss=loss, wrt=("state.particle_qd",))

    def start(self, weights: np.ndarray) -> newtonsim.State:
        """Return the cloth as it is thrown, for weights (6, 3) of the fields [m/s]."""
        state = self.model.state()
        state.particle_qd.assign((self.shapes @ weights).astype(np.float32))
        return state

    def loss(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean squared distance from the goal [m²], and its slope with respect to the weights."""
        result = self.rollout(self.start(weights))
        slope = self.shapes.T @ result.gradients["state.particle_qd"].numpy()
        return float(result.losses.numpy()[0]), slope.astype(float)

    def play(self, weights: np.ndarray, times: int) -> np.ndarray:
        """Return the particles at equal times [m], the start first, shape (times, particles, 3)."""
        sim = newtonsim.Simulator(self.model, SemiImplicitSolver(self.model), DT)
        sim.state.assign(self.start(weights))
        frames = [sim.state.particle_q.numpy().copy()]
        for _ in range(times - 1):
            sim.step(STEPS // (times - 1))
            frames.append(sim.state.particle_q.numpy().copy())
        return np.array(frames)


def plot(path: pathlib.Path, throw: Throw, frames: np.ndarray, history: list[float]) -> None:
    """Draw the distance, and the cloth at some times with its goal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 5.0), layout="constrained")
    curve, view = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2, projection="3d")
    curve.semilogy(history)
    curve.set(xlabel="evaluation", ylabel="root mean square distance [m]")
    for k, frame in enumerate(frames):
        grid = frame.reshape(CELLS + 1, CELLS + 1, 3)
        view.plot_wireframe(*np.moveaxis(grid, 2, 0), color=f"C{k}", linewidth=0.5)
    view.scatter(*throw.goal.T, color="k", s=3)
    view.set(
        xlabel="x [m]", ylabel="y [m]", title="the cloth and its goal (dots); z is up [m]", aspect="equal"
    )
    view.set_yticks([-0.3, 0.0, 0.3])
    view.view_init(elev=18.0, azim=-70.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Find the throw, and check where the cloth comes to."""
    from scipy.optimize import minimize

    throw, history = Throw(), []

    def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = throw.loss(flat.reshape(6, 3))
        history.append(np.sqrt(value))
        return value, slope.reshape(-1)

    found = minimize(evaluate, np.zeros(18), jac=True, method="L-BFGS-B", options={"maxiter": 25})
    frames = throw.play(found.x.reshape(6, 3), 6)
    away = np.sqrt(((frames[-1] - throw.goal) ** 2).sum(axis=1).mean())
    print(f"distance from the goal {history[0]:.2f} m -> {1e3 * away:.1f} mm (root mean square)")
    print(f"in {len(history)} rollouts of {STEPS} steps of {len(throw.goal)} particles")
    plot(folder / "cloth_to_target.png", throw, frames, history)
    assert away < 0.03, "the cloth should come to its goal"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
