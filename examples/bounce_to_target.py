"""Throw a ball so that it hits a target after a bounce, by gradients through the impact.

The ball bounces off the ground, where friction spins it, and should be at the target one second after the
throw. L-BFGS finds the velocity of the throw. The simulated landing point and its Jacobian are compared with
the closed form of a ball that slides as it bounces. Writes a plot. Run it with
``python -m newtonsim.examples bounce_to_target [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import pathlib
import sys
from collections.abc import Callable

import numpy as np
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.solvers import FeatherstoneSolver

DT, STEPS, GRAVITY = 1.0 / 240.0, 240, 9.81
RADIUS, RESTITUTION, FRICTION = 0.1, 0.8, 0.05
START, TARGET = np.array([0.0, 0.0, 1.2]), np.array([2.2, 0.6, 0.6])  # [m]


@wp.kernel
def squared_miss(body_q: wp.array(dtype=wp.transform), target: wp.vec3, losses: wp.array(dtype=float)):
    """One thread adds the squared distance of the ball from the target."""
    away = wp.transform_get_translation(body_q[0]) - target
    losses[0] = wp.dot(away, away)


@wp.kernel
def place(which: wp.array(dtype=int), body_q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    """One thread adds one coordinate of the ball."""
    losses[0] = wp.transform_get_translation(body_q[0])[which[0]]


def closed_form(velocity: np.ndarray) -> np.ndarray:
    """Return where a ball thrown without spin is after one bounce [m].

    The tangential impulse is that of Coulomb, or what makes the ball roll, 2/7 m v, if that is less.
    """
    time = STEPS * DT
    impact = (velocity[2] + np.sqrt(velocity[2] ** 2 + 2.0 * GRAVITY * (START[2] - RADIUS))) / GRAVITY
    approach, rest = GRAVITY * impact - velocity[2], time - impact
    speed = np.linalg.norm(velocity[:2])
    slowed = min(FRICTION * (1.0 + RESTITUTION) * approach, 2.0 / 7.0 * speed)
    along = START[:2] + velocity[:2] * (impact + (1.0 - slowed / speed) * rest)
    return np.array([*along, RADIUS + RESTITUTION * approach * rest - 0.5 * GRAVITY * rest**2])


class Throw:
    """The flight of the ball, as a function of its first velocity."""

    def __init__(self):
        builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=-GRAVITY)
        ball = builder.add_body(origin=(*START, 0.0, 0.0, 0.0, 1.0), key="ball")
        builder.add_shape_sphere(ball, radius=RADIUS, density=100.0, mu=FRICTION, restitution=RESTITUTION)
        builder.set_ground_plane(mu=FRICTION, restitution=RESTITUTION)
        self.model = builder.finalize(requires_grad=True)
        self.which = wp.zeros(1, dtype=int, device=self.model.device)

        def miss(state: newtonsim.State, losses: wp.array) -> None:
            inputs = [state.body_q, wp.vec3(*TARGET)]
            wp.launch(squared_miss, 1, inputs, [losses], device=losses.device)

        def coordinate(state: newtonsim.State, losses: wp.array) -> None:
            wp.launch(place, 1, [self.which, state.body_q], [losses], device=losses.device)

        def rollout(loss: Callable) -> diff.Rollout:
            solver = FeatherstoneSolver(self.model)
            return diff.Rollout(self.model, solver, STEPS, DT, loss=loss, wrt=("state.joint_qd",))

        self.miss, self.place = rollout(miss), rollout(coordinate)

    def start(self, velocity: np.ndarray) -> newtonsim.State:
        """Return the state of a ball without spin."""
        state = self.model.state()
        state.joint_qd.assign(np.array([0.0, 0.0, 0.0, *velocity], np.float32))
        return state

    def loss(self, velocity: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the squared distance from the target [m²], and its slope with respect to the velocity."""
        result = self.miss(self.start(velocity))
        slope = result.gradients["state.joint_qd"].numpy()[3:]
        return float(result.losses.numpy()[0]), slope.astype(float)

    def jacobian(self, velocity: np.ndarray) -> np.ndarray:
        """Return the derivatives of the last place with respect to the velocity [s], shape (3, 3)."""
        rows = []
        for k in range(3):
            self.which.fill_(k)
            rows.append(self.place(self.start(velocity)).gradients["state.joint_qd"].numpy()[3:])
        return np.array(rows, dtype=float)

    def path(self, velocity: np.ndarray) -> np.ndarray:
        """Return the places of the ball after every step [m], shape (STEPS, 3)."""
        sim = newtonsim.Simulator(self.model, FeatherstoneSolver(self.model), DT)
        sim.state.assign(self.start(velocity))
        places = []
        for _ in range(STEPS):
            sim.step()
            places.append(sim.state.body_q.numpy()[0, :3].copy())
        return np.array(places)


def plot(path: pathlib.Path, throws: list[np.ndarray], history: list[float]) -> None:
    """Draw the miss, and the flights from the side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    axes[0].semilogy(history, marker="o")
    axes[0].set(xlabel="evaluation", ylabel="miss [m]")
    for k, places in enumerate(throws):
        axes[1].plot(places[:, 0], places[:, 2], color=str(0.8 * (1.0 - k / (len(throws) - 1))))
    axes[1].plot(TARGET[0], TARGET[2], "rx")
    axes[1].set(xlabel="x [m]", ylabel="height [m]", aspect="equal")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Find the throw, and check hit and Jacobian."""
    from scipy.optimize import minimize

    throw, tried, history = Throw(), [], []

    def evaluate(velocity: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = throw.loss(velocity)
        tried.append(velocity.copy())
        history.append(np.sqrt(value))
        return value, slope

    found = minimize(evaluate, np.array([1.0, 0.0, 0.0]), jac=True, method="L-BFGS-B").x
    expected = closed_form(found)
    widths = 1e-4 * np.eye(3)
    slopes = np.array([(closed_form(found + w) - closed_form(found - w)) / 2e-4 for w in widths]).T
    jacobian = throw.jacobian(found)
    error = np.linalg.norm(jacobian - slopes) / np.linalg.norm(slopes)
    places = throw.path(found)
    print(
        f"thrown with {found.round(3)} m/s, the ball misses by {min(history):.1e} m ({len(history)} rollouts)"
    )
    print(f"the closed form puts it {np.linalg.norm(expected - places[-1]):.1e} m beside")
    print(f"Jacobian of the place by the throw: {error:.1e} from the closed form")
    plot(folder / "bounce_to_target.png", [throw.path(v) for v in tried], history)
    assert np.linalg.norm(places[-1] - TARGET) < 1e-3, "the ball should hit the target"
    assert places[:, 2].min() < RADIUS + 0.02, "it should bounce before"
    assert error < 0.05, "the Jacobian should be that of the closed form"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
