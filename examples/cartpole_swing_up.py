"""A cart swings a hanging pole up by a force that gradients found; then linear feedback keeps it upright.

L-BFGS improves the force over 2.5 s, 50 numbers, by the gradient of a rollout. The feedback is the
linear-quadratic regulator for what `newtonsim.diff.linearize` finds. Writes a plot. Run it with
``python -m newtonsim.examples.cartpole_swing_up [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import math
import pathlib
import sys

import numpy as np
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf
from newtonsim.solvers import FeatherstoneSolver

DT, STEPS, HOLD = 1.0 / 100.0, 250, 5
"""Time step [s], steps of the swing, and steps for which a force stays the same."""
BALANCE = 600
"""Steps of the feedback afterwards."""
PUSHED, PUSH = STEPS + 100, 0.1
"""Step from which somebody pushes the pole for 0.1 s, and the torque about its hinge [N m]."""
EFFORT = 2.0e-5
"""Cost of force squared and second [1/(N² s)]."""


@wp.kernel
def distance_from_upright(
    joint_q: wp.array(dtype=float), joint_qd: wp.array(dtype=float), losses: wp.array(dtype=float)
):
    """One thread adds how far the pole is from standing still in the middle of the track."""
    x = joint_q[0]
    height = 1.0 - wp.cos(joint_q[1])
    losses[0] = height + 0.2 * x * x + 0.05 * joint_qd[0] * joint_qd[0] + 0.05 * joint_qd[1] * joint_qd[1]


def loss(state: newtonsim.State, losses: wp.array) -> None:
    """Distance of the last state from upright."""
    wp.launch(distance_from_upright, 1, [state.joint_q, state.joint_qd], [losses], device=losses.device)


def cartpole() -> newtonsim.Model:
    """Return the cart-pole without drives, its pole hanging."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    parse_urdf(
        asset_path("cartpole.urdf"), builder, stiffness=0.0, damping=0.0, ignore_inertial_definitions=False
    )
    builder.joint_q[:] = [0.0, math.pi]
    return builder.finalize(requires_grad=True)


def swing_up(model: newtonsim.Model) -> tuple[np.ndarray, list[float], newtonsim.State]:
    """Find the force on the cart.

    Returns:
        Force in each step [N], losses of all evaluations, and the state after the last step.
    """
    from scipy.optimize import minimize

    start = model.state()
    rollout = diff.Rollout(model, FeatherstoneSolver(model), STEPS, DT, loss=loss, wrt=("control.joint_f",))
    history = []

    def evaluate(forces: np.ndarray) -> tuple[float, np.ndarray]:
        result = rollout(start, {"joint_f": controls(forces)})
        gradient = result.gradients["control.joint_f"].numpy()[:, 0].reshape(-1, HOLD).sum(axis=1)
        effort = EFFORT * DT * HOLD
        history.append(float(result.losses.numpy()[0]) + effort * float(forces @ forces))
        return history[-1], gradient.astype(float) + 2.0 * effort * forces

    # A pole that hangs at rest under no force is a saddle point: begin with pushes to both sides.
    times = np.arange(0.0, STEPS * DT, HOLD * DT)
    found = minimize(
        evaluate, 5.0 * np.cos(4.0 * times), jac=True, method="L-BFGS-B", options={"maxiter": 60}
    )
    return controls(found.x)[:, 0], history, rollout.evaluate(start, {"joint_f": controls(found.x)}).state


def controls(forces: np.ndarray) -> np.ndarray:
    """Return generalised forces of all steps (STEPS, 2): [N] on the cart, nothing on the hinge."""
    return np.stack([np.repeat(forces, HOLD), np.zeros(STEPS)], axis=1)


def regulator(model: newtonsim.Model) -> np.ndarray:
    """Return the gain (4,) of force = -gain · (x, angle, and their rates) that balances the pole."""
    from scipy.linalg import solve_discrete_are

    upright = model.state()
    upright.joint_q.zero_()
    A, B = diff.linearize(model, FeatherstoneSolver(model), upright, model.control(), DT)
    A, B = np.asarray(A[0], dtype=float), np.asarray(B[0], dtype=float)[:, :1]
    cost, effort = np.diag([1.0, 1.0, 0.1, 0.1]), np.array([[0.01]])
    P = solve_discrete_are(A, B, cost, effort)
    return np.linalg.solve(effort + B.T @ P @ B, B.T @ P @ A)[0]


def play(model: newtonsim.Model, force: np.ndarray, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Simulate the swing and then the feedback against a push.

    Returns:
        Coordinates and rates (x, angle, ẋ, rate) after every step (STEPS + BALANCE, 4), and the forces [N].
    """
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT)
    states, forces = [], []
    for step in range(STEPS + BALANCE):
        now = np.concatenate([sim.state.joint_q.numpy(), sim.state.joint_qd.numpy()])
        now[1] = (now[1] + math.pi) % (2.0 * math.pi) - math.pi
        forces.append(float(force[step]) if step < STEPS else float(-gain @ now))
        push = PUSH if PUSHED <= step < PUSHED + 10 else 0.0
        sim.control.joint_f.assign(np.array([forces[-1], push], np.float32))
        sim.step()
        states.append(now)
    return np.array(states), np.array(forces)


def plot(path: pathlib.Path, states: np.ndarray, forces: np.ndarray, history: list[float]) -> None:
    """Draw the loss, and position, angle and force over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 9.0), layout="constrained")
    axes = figure.subplots(4, 1)
    axes[0].semilogy(history)
    axes[0].set(xlabel="evaluation", ylabel="loss")
    time = DT * np.arange(len(forces))
    panels = {"x [m]": states[:, 0], "angle from upright [rad]": np.unwrap(states[:, 1]), "force [N]": forces}
    for axis, (label, values) in zip(axes[1:], panels.items(), strict=True):
        axis.plot(time, values)
        axis.axvline(STEPS * DT, color="0.5", linestyle="--")
        axis.set(xlabel="time [s]", ylabel=label)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Swing up, balance, and check both."""
    model = cartpole()
    force, history, last = swing_up(model)
    angle = math.remainder(float(last.joint_q.numpy()[1]), 2.0 * math.pi)
    print(f"swing:   loss {history[0]:.2f} -> {min(history):.4f} in {len(history)} rollouts")
    print(f"         after {STEPS * DT:.1f} s the pole is {math.degrees(angle):+.2f} deg from upright")
    states, forces = play(model, force, regulator(model))
    worst = np.abs(states[-100:, 1]).max()
    pushed = math.degrees(np.abs(states[PUSHED:, 1]).max())
    print(f"balance: pushed to {pushed:.1f} deg, back to {math.degrees(worst):.3f} deg in the last second")
    plot(folder / "cartpole_swing_up.png", states, forces, history)
    assert abs(angle) < 0.1, "the pole should be up"
    assert np.abs(states[:, 0]).max() < 2.4, "the cart should stay on the track"
    assert worst < 0.01, "the feedback should keep the pole up"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
