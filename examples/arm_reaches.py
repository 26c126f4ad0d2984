"""Seven-joint arms reach for eight targets at once, by torques that gradients find.

Every world has a target of its own. Levenberg-Marquardt steps improve the torques of all arms, 1120 numbers,
from torques that would hold the arms still. A residual of all worlds costs one backward pass, and each world
takes the step that suits it. Writes a plot. Run it with
``python -m newtonsim.examples arm_reaches [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import math
import pathlib
import sys

import numpy as np
import warp as wp

import newtonsim
from newtonsim import diff, dynamics
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf
from newtonsim.solvers import FeatherstoneSolver

DT, STEPS, HOLD, WORLDS = 1.0 / 80.0, 80, 4, 8
"""Time step [s], steps, steps for which torques stay the same, arms."""
ITERATIONS = 12
START = [0.0, 0.5, 0.0, 1.2, 0.0, 0.6, 0.0]
"""Joint angles of all arms at the beginning [rad]."""
FLANGE = wp.constant(wp.vec3(0.0, 0.0, 0.045))  # in the frame of the last link
STILL = wp.constant(0.3)  # weight of the joints' speeds at the end [s]
RESIDUALS = 10
"""Of a world: how far the flange is from the target along x, y, z, and the speeds of the joints."""


@wp.kernel
def residual(
    which: wp.array(dtype=int),
    body_q: wp.array(dtype=wp.transform),
    joint_qd: wp.array(dtype=float),
    targets: wp.array(dtype=wp.vec3),
    losses: wp.array(dtype=float),
):
    """One thread per world writes one of its residuals."""
    w = wp.tid()
    hand = (w + 1) * (body_q.shape[0] // targets.shape[0]) - 1
    away = wp.transform_point(body_q[hand], FLANGE) - targets[w]
    k = which[0]
    if k < 3:
        losses[w] = away[k]
    else:
        losses[w] = STILL * joint_qd[w * (joint_qd.shape[0] // targets.shape[0]) + k - 3]


def arms(worlds: int, requires_grad: bool) -> newtonsim.Model:
    """Return arms side by side at the same place, without drives, in the pose that they start from."""
    arm = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    parse_urdf(
        asset_path("arm7.urdf"),
        arm,
        stiffness=0.0,
        damping=0.0,
        armature=0.5,  # of motors behind gears
        enable_self_collisions=False,
        ignore_inertial_definitions=False,
    )
    arm.joint_velocity_limit[:] = [math.inf] * 7
    arm.joint_q[:] = START
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.replicate(arm, worlds, spacing=(0, 0, 0))
    return scene.finalize(requires_grad=requires_grad)


def targets() -> np.ndarray:
    """Return the places to reach [m], shape (worlds, 3)."""
    around = np.linspace(-0.9, 0.9, WORLDS)
    height, distance = 0.65 + 0.2 * np.cos(4.0 * around), 0.7 + 0.1 * np.sin(5.0 * around)
    return np.stack([distance * np.cos(around), distance * np.sin(around), height], axis=1)


def flanges(state: newtonsim.State) -> np.ndarray:
    """Return where the flanges are [m], shape (worlds, 3)."""
    hands = wp.clone(state.body_q, requires_grad=False).numpy().reshape(WORLDS, -1, 7)[:, -1]
    return np.array([wp.transform_point(wp.transform(*hand), FLANGE) for hand in hands])


class Reach:
    """Residuals at the end of a motion, and their slopes.

    Torques are given as accelerations, by the inertia in the pose at the start: numbers of one size for heavy
    shoulders and light wrists, which is what optimisation wants.

    Args:
        model: The arms.
        targets: A place for each flange [m], shape (worlds, 3).
    """

    def __init__(self, model: newtonsim.Model, targets: np.ndarray):
        self.start, self.which = model.state(), wp.zeros(1, dtype=int, device=model.device)
        still = wp.zeros(model.joint_dof_count, dtype=float, device=model.device)
        self.holding = dynamics.inverse_dynamics(model, self.start, still).numpy().astype(float)
        self.inertia = dynamics.mass_matrix(model, self.start).numpy().astype(float)
        goal = wp.array(targets, dtype=wp.vec3, device=model.device)

        def loss(state: newtonsim.State, losses: wp.array) -> None:
            inputs = [self.which, state.body_q, state.joint_qd, goal]
            wp.launch(residual, WORLDS, inputs, [losses], device=model.device)

        solver = FeatherstoneSolver(model)
        self.rollout = diff.Rollout(model, solver, STEPS, DT, loss=loss, wrt=("control.joint_f",))

    def torques(self, accelerations: np.ndarray) -> np.ndarray:
        """Return torques [N m], (STEPS, dofs), for accelerations beyond rest (STEPS / HOLD, worlds, 7)."""
        torques = np.einsum("wij,swj->swi", self.inertia, accelerations).reshape(len(accelerations), -1)
        return self.holding + np.repeat(torques, HOLD, axis=0)

    def evaluate(self, accelerations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return residuals (worlds, RESIDUALS) and their slopes (worlds, RESIDUALS, n).

        The slopes are with respect to the accelerations.
        """
        values, slopes = [], []
        for k in range(RESIDUALS):
            self.which.fill_(k)
            result = self.rollout(self.start, {"joint_f": self.torques(accelerations)})
            gradient = result.gradients["control.joint_f"].numpy().astype(float)
            sums = gradient.reshape(STEPS // HOLD, HOLD, WORLDS, -1).sum(axis=1)
            values.append(result.losses.numpy().astype(float))
            slopes.append(np.einsum("wij,swi->wsj", self.inertia, sums).reshape(WORLDS, -1))
        return np.stack(values, axis=1), np.stack(slopes, axis=1)

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return torques [N m], (STEPS, dofs), and the residuals' lengths, (ITERATIONS + 1, worlds)."""
        best = np.zeros((STEPS // HOLD, *self.inertia.shape[:2]))
        values, slopes = self.evaluate(best)
        damping, history = np.full(WORLDS, 0.01), [np.linalg.norm(values, axis=1)]
        for _ in range(ITERATIONS):
            # The shortest step that mends the linearised residuals as far as the damping lets it.
            system = slopes @ slopes.swapaxes(1, 2) + damping[:, None, None] * np.eye(RESIDUALS)
            step = -np.einsum("wkn,wk->wn", slopes, np.linalg.solve(system, values[..., None])[..., 0])
            tried = best + step.reshape(WORLDS, -1, best.shape[2]).swapaxes(0, 1)
            new_values, new_slopes = self.evaluate(tried)
            better = np.linalg.norm(new_values, axis=1) < np.linalg.norm(values, axis=1)
            best[:, better], values[better] = tried[:, better], new_values[better]
            slopes[better] = new_slopes[better]
            damping *= np.where(better, 0.3, 4.0)
            history.append(np.linalg.norm(values, axis=1))
        return self.torques(best), np.array(history)


def play(torques: np.ndarray) -> np.ndarray:
    """Simulate with given torques, and return where the flanges are [m], shape (STEPS + 1, worlds, 3)."""
    model = arms(WORLDS, requires_grad=False)
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT)
    newtonsim.eval_fk(model, sim.state.joint_q, sim.state.joint_qd, None, sim.state)
    path = [flanges(sim.state)]
    for torque in torques:
        sim.control.joint_f.assign(torque.astype(np.float32))
        sim.step()
        path.append(flanges(sim.state))
    return np.array(path)


def plot(
    path: pathlib.Path, flange: np.ndarray, targets: np.ndarray, torques: np.ndarray, history: np.ndarray
) -> None:
    """Draw the loss, the paths of the flanges with their targets, and the torques of one arm."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    axes = [figure.add_subplot(1, 3, k + 1, projection="3d" if k == 1 else None) for k in range(3)]
    axes[0].semilogy(history)
    axes[0].set(xlabel="iteration", ylabel="residual of each arm")
    for world in range(WORLDS):
        axes[1].plot(*flange[:, world].T)
    axes[1].scatter(*targets.T, color="k", marker="x")
    axes[1].set(xlabel="x [m]", ylabel="y [m]", title="paths of the flanges; z is up [m]")
    axes[2].plot(DT * np.arange(STEPS), torques[:, :7], label=[f"joint {i + 1}" for i in range(7)])
    axes[2].set(xlabel="time [s]", ylabel="torque of the first arm [N m]")
    axes[2].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Reach, and check that all arms arrive, also in a simulation of its own."""
    model, goals = arms(WORLDS, requires_grad=True), targets()
    torques, history = Reach(model, goals).solve()
    flange = play(torques)
    misses = np.linalg.norm(flange[-1] - goals, axis=1)
    used = np.abs(torques).max(axis=0) / model.joint_effort_limit.numpy()
    print(f"largest residual {history[0].max():.3f} -> {history[-1].max():.1e} in {ITERATIONS} iterations")
    print(f"the flanges miss by {misses.max():.1e} m at most")
    print(f"with at most {100.0 * used.max():.0f} % of the largest efforts")
    plot(folder / "arm_reaches.png", flange, goals, torques, history)
    assert misses.max() < 1e-3, "every arm should reach its target"
    assert used.max() < 1.0, "the efforts should be possible"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
