"""A soft crawler learns to crawl: gradients shape the wave of activation that runs through its body.

A block of soft material swells and shrinks where it is activated. Each of its five segments has an amplitude
and a phase at one frequency; gradients find those that carry it farthest within a second, over the
friction of the ground. Writes a plot. Run it with ``python -m newtonsim.examples soft_crawler [FOLDER]``; it
needs ``newtonsim[plot]``.
"""

import pathlib
import sys

import numpy as np
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.solvers import SemiImplicitSolver

DT, STEPS = 1.0 / 1000.0, 1000
FREQUENCY = 5.0  # [Hz]
SEGMENTS, LARGEST = 5, 0.25
"""Segments along the body, and the largest amplitude of an activation, a change of volume."""
ITERATIONS, RATE = 30, 0.03
"""Steps of Adam, and their size."""
CELL = 0.05
"""Width of a cell of the block [m]."""


@wp.kernel
def minus_distance(x: wp.array(dtype=wp.vec3), losses: wp.array(dtype=float)):
    """One thread per particle subtracts its part of how far the middle has come along x."""
    wp.atomic_add(losses, 0, -x[wp.tid()][0] / float(x.shape[0]))


def loss(state: newtonsim.State, losses: wp.array) -> None:
    """Minus the place of the middle of the body along x [m]."""
    wp.launch(minus_distance, len(state.particle_q), [state.particle_q], [losses], device=losses.device)


def crawler() -> newtonsim.Model:
    """Return a soft block of 0.5 m x 0.1 m x 0.1 m that lies on the ground, its middle at x = 0."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    builder.set_ground_plane(mu=0.6)
    cells = 2 * SEGMENTS
    builder.add_soft_grid(
        (-0.5 * cells * CELL, -CELL, 0.01),
        (0, 0, 0, 1),
        (0, 0, 0),
        cells,
        2,
        2,
        CELL,
        CELL,
        CELL,
        density=1000.0,
        k_mu=2.0e4,
        k_lambda=2.0e4,
        k_damp=0.01,
        tri_ke=0.0,
        tri_ka=0.0,
        tri_kd=0.0,
        tri_drag=0.0,
        tri_lift=0.0,
    )
    builder.particle_radius[:] = [0.01] * len(builder.particle_q)
    model = builder.finalize(requires_grad=True)
    model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_kf = 2.0e3, 20.0, 1.0e3
    model.soft_contact_mu, model.soft_contact_margin = 0.6, 0.02
    return model


class Gait:
    """Waves of activation: for each segment the weights of a sine and a cosine, shape (2, SEGMENTS).

    Args:
        model: The crawler.
    """

    def __init__(self, model: newtonsim.Model):
        middles = model.particle_q.numpy()[model.tet_indices.numpy()].mean(axis=1)[:, 0]
        share = middles / (2.0 * SEGMENTS * CELL) + 0.5
        segment = np.minimum((share * SEGMENTS).astype(int), SEGMENTS - 1)
        self.member = np.eye(SEGMENTS)[segment]  # (tet_count, SEGMENTS)
        angle = 2.0 * np.pi * FREQUENCY * DT * np.arange(STEPS)
        self.waves = np.minimum(4.0 * angle / angle[-1], 1.0) * np.stack([np.sin(angle), np.cos(angle)])

    def activations(self, weights: np.ndarray) -> np.ndarray:
        """Return the activations of all steps (STEPS, tet_count)."""
        return self.waves.T @ weights @ self.member.T

    def slope(self, gradient: np.ndarray) -> np.ndarray:
        """Return the slope with respect to the weights, given that with respect to the activations."""
        return self.waves @ gradient @ self.member


def learn(model: newtonsim.Model, gait: Gait) -> tuple[np.ndarray, list[float]]:
    """Improve the wave by Adam (Kingma and Ba 2015), with one step size for all weights.

    Returns:
        Weights of sine and cosine (2, SEGMENTS) of the best gait, and how far each came [m].
    """
    rollout = diff.Rollout(
        model, SemiImplicitSolver(model), STEPS, DT, loss=loss, wrt=("control.tet_activations",)
    )
    weights = 0.05 * np.random.default_rng(1).standard_normal((2, SEGMENTS))
    mean, square, tried, history = np.zeros_like(weights), 0.0, [], []
    for iteration in range(1, ITERATIONS + 1):
        result = rollout(model.state(), {"tet_activations": gait.activations(weights)})
        tried.append(weights)
        history.append(-float(result.losses.numpy()[0]))
        slope = gait.slope(result.gradients["control.tet_activations"].numpy().astype(float))
        mean, square = 0.9 * mean + 0.1 * slope, 0.95 * square + 0.05 * (slope**2).mean()
        step = mean / (1.0 - 0.9**iteration) / (np.sqrt(square / (1.0 - 0.95**iteration)) + 1e-6)
        weights = weights - RATE * step
        weights = weights * np.minimum(1.0, LARGEST / np.hypot(*weights))
    return tried[int(np.argmax(history))], history


def play(model: newtonsim.Model, activations: np.ndarray) -> np.ndarray:
    """Simulate a gait, and return the particles in every 10th step [m], shape (STEPS // 10, particles, 3)."""
    sim = newtonsim.Simulator(model, SemiImplicitSolver(model), DT)
    frames = []
    for step in range(STEPS):
        sim.control.tet_activations.assign(activations[step])
        sim.step()
        if step % 10 == 9:
            frames.append(sim.state.particle_q.numpy().copy())
    return np.array(frames)


def plot(path: pathlib.Path, frames: np.ndarray, history: list[float]) -> None:
    """Draw the distances, the way of the body, and its side view at a few times."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 8.0), layout="constrained")
    axes = figure.subplots(3, 1)
    axes[0].plot(history)
    axes[0].set(xlabel="evaluation", ylabel="distance [m]")
    axes[1].plot(10 * DT * np.arange(1, len(frames) + 1), frames[:, :, 0].mean(axis=1))
    axes[1].set(xlabel="time [s]", ylabel="middle [m]")
    for place, step in enumerate(np.linspace(0, len(frames) - 1, 4).astype(int)):
        axes[2].scatter(frames[step, :, 0], frames[step, :, 2] - 0.16 * place, s=4)
        axes[2].text(0.45, 0.04 - 0.16 * place, f"{10 * DT * (step + 1):.2f} s")
    axes[2].set(xlabel="x [m]", ylabel="z, drawn apart [m]", aspect="equal", xlim=(-0.4, 0.7))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Learn to crawl, and check the distance."""
    model = crawler()
    gait = Gait(model)
    weights, history = learn(model, gait)
    frames = play(model, gait.activations(weights))
    came = frames[-1, :, 0].mean()
    print(f"first gait {100 * history[0]:+.1f} cm, best {100 * came:+.1f} cm in {STEPS * DT:.0f} s")
    print(f"found in {len(history)} rollouts of {STEPS} steps; amplitudes {np.hypot(*weights).round(2)}")
    plot(folder / "soft_crawler.png", frames, history)
    assert came > 0.06, "the crawler should have learnt to crawl"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
