"""Find friction, mass and gains from a recorded motion, by gradients through contact.

A box lies on a tray that a position drive shakes; it sticks, slips and pulls at the tray. The recording
holds noisy positions of tray and box. From them L-BFGS finds the friction between the two, the mass of the
box, and stiffness and damping of the drive. Only the mass of the tray is known. Writes a plot. Run it with
``python -m newtonsim.examples system_identification [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import pathlib
import sys

import numpy as np
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.solvers import FeatherstoneSolver

DT, STEPS = 1.0 / 240.0, 360
NOISE = 5.0e-4
"""Standard deviation of the recorded places [m]."""
NAMES = ("friction", "mass of the box [kg]", "stiffness [N/m]", "damping [N s/m]")
TRUE = np.array([0.3, 2.0, 400.0, 30.0])
GUESS = np.array([0.4, 1.2, 250.0, 45.0])
SWEEPS = 200
"""Most iterations of the contact solve, which an exact gradient wants to have converged."""
STARTS = 2
"""Runs of L-BFGS."""


@wp.kernel
def squared_errors(
    step: wp.array(dtype=int),
    body_q: wp.array(dtype=wp.transform),
    record: wp.array2d(dtype=float),
    losses: wp.array(dtype=float),
):
    """One thread adds the squared errors of tray and box after a step, in units of the noise."""
    for b in range(2):
        error = (wp.transform_get_translation(body_q[b])[0] - record[step[0] - 1, b]) / NOISE
        losses[0] = losses[0] + 0.5 * error * error


class Shaker:
    """Tray, box and drive."""

    def __init__(self):
        builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        builder.add_articulation()
        tray = builder.add_body(key="tray")
        builder.add_shape_box(tray, hx=0.5, hy=0.3, hz=0.02, density=1.5 / (1.0 * 0.6 * 0.04))
        builder.add_joint_prismatic(
            -1, tray, axis=(1.0, 0.0, 0.0), mode=newtonsim.JOINT_MODE_TARGET_POSITION, armature=0.0
        )
        box = builder.add_body(origin=(0.0, 0.0, 0.07, 0.0, 0.0, 0.0, 1.0), key="box")
        builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.05, density=GUESS[1] / (0.2 * 0.2 * 0.1))
        self.model = builder.finalize(requires_grad=True)
        time = DT * np.arange(1, STEPS + 1)
        self.targets = 0.1 * np.sin(2.0 * np.pi * 1.5 * time)[:, None]
        self.record = wp.zeros((STEPS, 2), dtype=float, device=self.model.device)

        def running(
            step: wp.array, state: newtonsim.State, control: newtonsim.Control, losses: wp.array
        ) -> None:
            wp.launch(squared_errors, 1, [step, state.body_q, self.record, losses], device=losses.device)

        self.wrt = ("shape_materials.mu", "body_mass", "joint_target_ke", "joint_target_kd")
        self.rollout = diff.Rollout(
            self.model,
            FeatherstoneSolver(self.model, iterations=SWEEPS),
            STEPS,
            DT,
            running=running,
            wrt=[f"model.{name}" for name in self.wrt],
        )

    def set(self, parameters: np.ndarray) -> None:
        """Write friction, mass of the box, stiffness and damping of the drive to the model."""
        model, (friction, mass, stiffness, damping) = self.model, parameters
        model.shape_materials.mu.fill_(friction)
        model.body_mass.assign(np.array([model.body_mass.numpy()[0], mass], np.float32))
        model.joint_target_ke.fill_(stiffness)
        model.joint_target_kd.fill_(damping)

    def loss(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the misfit of a motion with given parameters, and its slope."""
        self.set(parameters)
        result = self.rollout(self.model.state(), {"joint_act": self.targets})
        slopes = [result.gradients[f"model.{name}"].numpy() for name in self.wrt]
        slope = [slopes[0].sum(), slopes[1][1], slopes[2].sum(), slopes[3].sum()]
        return float(result.losses.numpy()[0]) / (2 * STEPS), np.array(slope, dtype=float) / (2 * STEPS)

    def play(self, parameters: np.ndarray) -> np.ndarray:
        """Return the places of tray and box after every step [m], shape (STEPS, 2)."""
        self.set(parameters)
        sim = newtonsim.Simulator(self.model, FeatherstoneSolver(self.model, iterations=SWEEPS), DT)
        places = []
        for target in self.targets:
            sim.control.joint_act.assign(target.astype(np.float32))
            sim.step()
            places.append(sim.state.body_q.numpy()[:, 0].copy())
        return np.array(places)


def identify(shaker: Shaker) -> tuple[np.ndarray, list[np.ndarray], list[float]]:
    """Fit the parameters, by L-BFGS on their logarithms.

    Returns:
        Parameters found, all that were tried, and their misfits.
    """
    from scipy.optimize import minimize

    tried, history = [], []

    def evaluate(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = GUESS * np.exp(logarithms)
        value, slope = shaker.loss(parameters)
        tried.append(parameters)
        history.append(value)
        return np.log(value), slope * parameters / value

    # Where sticking turns to slipping the misfit has kinks, at which L-BFGS stops: nudge it, and go on.
    nudges = 0.05 * np.random.default_rng(0).standard_normal((STARTS, 4))
    nudges[0] = 0.0
    for nudge in nudges:
        start = np.log(tried[int(np.argmin(history))] / GUESS) if tried else np.zeros(4)
        minimize(evaluate, start + nudge, jac=True, method="L-BFGS-B", bounds=[(-1.5, 1.5)] * 4)
    return tried[int(np.argmin(history))], tried, history


def plot(path: pathlib.Path, record: np.ndarray, before: np.ndarray, after: np.ndarray, tried: list) -> None:
    """Draw the record with the motions of the guess and of what was found, and the way there."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    time = DT * np.arange(1, STEPS + 1)
    for k, name in enumerate(("tray", "box")):
        axes[0].plot(time, record[:, k], ".", color=f"C{k}", markersize=2, label=f"{name}, recorded")
        axes[0].plot(time, before[:, k], ":", color=f"C{k}", label=f"{name}, guess")
        axes[0].plot(time, after[:, k], color=f"C{k}", label=f"{name}, found")
    axes[0].set(xlabel="time [s]", ylabel="x [m]")
    axes[0].legend(fontsize="small")
    axes[1].plot(np.array(tried) / TRUE, label=NAMES)
    axes[1].set(xlabel="evaluation", ylabel="parameter over its true value")
    axes[1].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Record, identify, and compare."""
    shaker = Shaker()
    noise = NOISE * np.random.default_rng(0).standard_normal((STEPS, 2))
    record = shaker.play(TRUE) + noise
    before = shaker.play(GUESS)
    shaker.record.assign(record.astype(np.float32))
    found, tried, history = identify(shaker)
    print(f"misfit {history[0]:.0f} -> {min(history):.2f}, 0.5 is that of the noise; {len(history)} rollouts")
    for name, true, value in zip(NAMES, TRUE, found, strict=True):
        print(f"{name}: {value:.4g}, recorded with {true:.4g}, {100.0 * (value / true - 1.0):+.2f} %")
    plot(folder / "system_identification.png", record, before, shaker.play(found), tried)
    assert np.abs(found / TRUE - 1.0).max() < 0.05, "all parameters should be found within 5 %"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
