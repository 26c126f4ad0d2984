"""Iterative LQR swings a seven-joint arm to a pose and brings it to rest there.

The points of the trajectory are worlds: one call of `newtonsim.diff.Linearizer` gives A and B at all of them.
The backward sweep of Tassa, Erez and Todorov ("Synthesis and stabilization of complex behaviors through
online trajectory optimization", IROS 2012) runs in NumPy, and the line search in worlds again, one for each
step length. Writes a plot. Run it with ``python -m newtonsim.examples.arm_ilqr [FOLDER]``; it needs
``newtonsim[plot]``.
"""

import math
import pathlib
import sys

import numpy as np

import newtonsim
from newtonsim import diff, dynamics
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf
from newtonsim.solvers import FeatherstoneSolver

DT, STEPS, ITERATIONS = 1.0 / 60.0, 60, 8
LENGTHS = 0.6 ** np.arange(8)
"""Step lengths that are tried side by side."""
DOFS = 7
START = np.array([0.0, 0.5, 0.0, 1.2, 0.0, 0.6, 0.0])
GOAL = np.array([1.2, 0.9, -0.4, 1.6, 0.5, 0.2, 0.3])  # [rad]
STATE_COST = np.diag([0.1] * DOFS + [0.01] * DOFS)
FINAL_COST = np.diag([1000.0] * DOFS + [100.0] * DOFS)
TORQUE_COST = np.diag([1e-4] * DOFS)


class Arms:
    """Arms side by side.

    Args:
        worlds: How many.
    """

    def __init__(self, worlds: int):
        arm = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        # The armature is that of motors behind gears.
        options = {"stiffness": 0.0, "damping": 0.0, "armature": 0.5, "enable_self_collisions": False}
        parse_urdf(asset_path("arm7.urdf"), arm, ignore_inertial_definitions=False, **options)
        arm.joint_velocity_limit[:] = [math.inf] * DOFS
        scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        scene.replicate(arm, worlds, spacing=(0, 0, 0))
        self.model, self.worlds = scene.finalize(requires_grad=True), worlds
        self.state, self.control = self.model.state(), self.model.control()

    def set(self, x: np.ndarray, u: np.ndarray) -> None:
        """Take over states (worlds, 2 DOFS) and torques (worlds, DOFS)."""
        self.state.joint_q.assign(x[:, :DOFS].astype(np.float32).reshape(-1))
        self.state.joint_qd.assign(x[:, DOFS:].astype(np.float32).reshape(-1))
        self.control.joint_f.assign(u.astype(np.float32).reshape(-1))

    def holding_torques(self, q: np.ndarray) -> np.ndarray:
        """Return the torques that hold arms still at q (worlds, DOFS) [N m]."""
        self.set(np.concatenate([q, 0.0 * q], axis=1), 0.0 * q)
        still = self.model.control().joint_f
        torques = dynamics.inverse_dynamics(self.model, self.state, still).numpy()
        return torques.reshape(-1, DOFS).astype(float)


class Search:
    """Forward passes of the line search: one world for each step length."""

    def __init__(self):
        self.arms = Arms(len(LENGTHS))
        self.sim = newtonsim.Simulator(self.arms.model, FeatherstoneSolver(self.arms.model), DT)

    def run(
        self, x: np.ndarray, u: np.ndarray, k: np.ndarray, K: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Follow u + length k + K (x' - x) from the start.

        Args:
            x: States (STEPS + 1, 2 DOFS).
            u: Torques (STEPS, DOFS) [N m].
            k: Changes of the torques (STEPS, DOFS).
            K: Feedback (STEPS, DOFS, 2 DOFS).

        Returns:
            States (worlds, STEPS + 1, 2 DOFS) and torques (worlds, STEPS, DOFS).
        """
        now = np.tile(np.concatenate([START, 0.0 * START]), (len(LENGTHS), 1))
        self.sim.reset()
        self.sim.state.joint_q.assign(now[:, :DOFS].astype(np.float32).reshape(-1))
        states, torques = [now], []
        for t in range(STEPS):
            torques.append(u[t] + LENGTHS[:, None] * k[t] + (now - x[t]) @ K[t].T)
            self.sim.control.joint_f.assign(torques[-1].astype(np.float32).reshape(-1))
            self.sim.step()
            q, qd = self.sim.state.joint_q.numpy(), self.sim.state.joint_qd.numpy()
            now = np.concatenate([q.reshape(-1, DOFS), qd.reshape(-1, DOFS)], axis=1).astype(float)
            states.append(now)
        return np.stack(states, axis=1), np.stack(torques, axis=1)


def costs(x: np.ndarray, u: np.ndarray, rest: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the costs of trajectories (..., STEPS + 1, 2 DOFS) with torques (..., STEPS, DOFS)."""
    away, effort = x - goal, u - rest
    running = np.einsum("...ti,ij,...tj->...", away[..., :-1, :], STATE_COST, away[..., :-1, :])
    final = np.einsum("...i,ij,...j->...", away[..., -1, :], FINAL_COST, away[..., -1, :])
    return running + final + np.einsum("...ti,ij,...tj->...", effort, TORQUE_COST, effort)


def sweep(
    A: np.ndarray, B: np.ndarray, away: np.ndarray, effort: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Riccati recursion.

    Args:
        A: (STEPS, 2 DOFS, 2 DOFS).
        B: (STEPS, 2 DOFS, DOFS).
        away: Distance of the states from the goal (STEPS + 1, 2 DOFS).
        effort: Torques beyond those that hold the arm at the goal (STEPS, DOFS).

    Returns:
        Changes of the torques (STEPS, DOFS), and feedback (STEPS, DOFS, 2 DOFS).
    """
    v, V = FINAL_COST @ away[-1], FINAL_COST
    k, K = np.zeros(effort.shape), np.zeros((len(effort), DOFS, 2 * DOFS))
    for t in reversed(range(len(effort))):
        slope = TORQUE_COST @ effort[t] + B[t].T @ v
        curvature = TORQUE_COST + B[t].T @ V @ B[t]
        k[t] = -np.linalg.solve(curvature, slope)
        K[t] = -np.linalg.solve(curvature, B[t].T @ V @ A[t])
        v = STATE_COST @ away[t] + A[t].T @ v + K[t].T @ slope
        V = STATE_COST + A[t].T @ V @ (A[t] + B[t] @ K[t])
        V = 0.5 * (V + V.T)
    return k, K


def plot(path: pathlib.Path, x: np.ndarray, u: np.ndarray, history: list[float]) -> None:
    """Draw the cost, the joint angles with their goals, and the torques."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    axes = figure.subplots(1, 3)
    axes[0].semilogy(history, marker="o")
    axes[0].set(xlabel="iteration", ylabel="cost")
    lines = axes[1].plot(DT * np.arange(STEPS + 1), x[:, :DOFS])
    for line, goal in zip(lines, GOAL, strict=True):
        axes[1].axhline(goal, color=line.get_color(), linestyle=":")
    axes[1].set(xlabel="time [s]", ylabel="joint angles and goals [rad]")
    axes[2].plot(DT * np.arange(STEPS), u)
    axes[2].set(xlabel="time [s]", ylabel="torques [N m]")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Optimise, and check cost and end."""
    points, search = Arms(STEPS), Search()
    linearizer = diff.Linearizer(points.model, FeatherstoneSolver(points.model), DT)
    goal = np.concatenate([GOAL, 0.0 * GOAL])
    rest = points.holding_torques(np.tile(GOAL, (STEPS, 1)))
    guess = points.holding_torques(np.tile(START, (STEPS, 1)))
    k, K = np.zeros((STEPS, DOFS)), np.zeros((STEPS, DOFS, 2 * DOFS))
    K[:, :, :DOFS], K[:, :, DOFS:] = -20.0 * np.eye(DOFS), -4.0 * np.eye(DOFS)  # holds the first guess
    x = np.tile(np.concatenate([START, 0.0 * START]), (STEPS + 1, 1))
    states, torques = search.run(x, guess, k, K)
    x, u = states[0], torques[0]
    history = [float(costs(x, u, rest, goal))]
    for _ in range(ITERATIONS):
        points.set(x[:-1], u)
        A, B = linearizer(points.state, points.control)
        states, torques = search.run(x, u, *sweep(A, B, x - goal, u - rest))
        tried = np.nan_to_num(costs(states, torques, rest, goal), nan=np.inf)
        best = int(np.argmin(tried))
        if tried[best] < history[-1]:
            x, u = states[best], torques[best]
        history.append(min(float(tried[best]), history[-1]))
    away, speed = np.abs(x[-1, :DOFS] - GOAL).max(), np.abs(x[-1, DOFS:]).max()
    print(f"cost {history[0]:.0f} -> {history[-1]:.3f}; last decrease {history[-2] - history[-1]:.1e}")
    print(f"the arm ends within {away:.1e} rad of the goal at {speed:.1e} rad/s")
    print(f"with torques of at most {np.abs(u).max():.0f} N m")
    plot(folder / "arm_ilqr.png", x, u, history)
    assert away < 0.02, "the arm should reach the goal"
    assert speed < 0.05, "and come to rest"
    assert history[-2] - history[-1] < 1e-3 * history[-1], "iLQR should have converged"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
