"""A cart swings a hanging pole up by a force that gradients find; linear feedback then keeps it upright.

Shooting optimises the force over 2.5 s, 50 numbers. The feedback is the linear-quadratic regulator for the
model that `newtonsim.diff.linearize` returns. Writes a plot. Run it with
``python -m newtonsim.examples cartpole_swing_up [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import math
import pathlib
import sys

import numpy as np

import newtonsim
from newtonsim import diff, optimize
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf

BALANCE, PUSHED = 120, 20
"""Controls of the feedback after the swing, and the one in which somebody pushes the pole."""


def regulator(problem: optimize.Problem) -> np.ndarray:
    """Return the gain (1, 4) of force = -gain · (x, angle, and their rates) that balances the pole."""
    from scipy.linalg import solve_discrete_are

    model = problem.make_model(1, requires_grad=True)
    upright, solver = model.state(), newtonsim.FeatherstoneSolver(model)
    upright.joint_q.zero_()
    A, B = diff.linearize(model, solver, upright, model.control(), problem.dt, steps=problem.hold)
    cost, effort = np.diag([1.0, 1.0, 0.1, 0.1]), np.array([[0.01]])
    P = solve_discrete_are(A[0], B[0][:, :1], cost, effort)
    return np.linalg.solve(effort + B[0][:, :1].T @ P @ B[0][:, :1], B[0][:, :1].T @ P @ A[0])


def main(folder: pathlib.Path = pathlib.Path()) -> None:
    """Swing up, balance, and check both."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    drives = {"stiffness": 0.0, "damping": 0.0, "ignore_inertial_definitions": False}
    parse_urdf(asset_path("cartpole.urdf"), robot, **drives)
    robot.joint_q[:] = [0.0, math.pi]
    costs = [
        optimize.JointCost(position=[0.5, 0.0], joint_q=[0.0, 0.0]),  # the track has an end
        optimize.JointCost(final_position=[0.4, 10.0], final_velocity=0.1, joint_q=[0.0, 0.0]),
        optimize.ControlCost(1e-5),
    ]
    problem = optimize.Problem(robot, costs, 50, 0.01, hold=5, actuated=[0], bounds=(-math.inf, math.inf))
    # A pole that hangs at rest under no force is a saddle point: begin with pushes to both sides.
    guess = 5.0 * np.cos(0.2 * np.arange(50))[:, None]
    result = optimize.Shooting(problem).solve(controls=guess, iterations=60)
    print(f"swing:   {result}")
    print(f"         the pole ends {math.degrees(result.joint_q[-1, 1]):+.2f} deg from upright")
    sim, gain, angles = problem.make_simulator(), regulator(problem), []
    for t in range(50 + BALANCE):
        x = np.concatenate([sim.state.joint_q.numpy(), sim.state.joint_qd.numpy()])
        problem.apply(sim, result.controls[t] if t < 50 else -gain @ x)
        sim.step()
        if t == 50 + PUSHED:
            sim.state.joint_qd.assign(sim.state.joint_qd.numpy() + np.float32([0.0, 0.5]))
        assert abs(x[0]) < 2.4, "the cart should stay on the track"
        angles.append(abs(float(sim.state.joint_q.numpy()[1])))
    pushed = math.degrees(max(angles[50 + PUSHED :]))
    print(f"balance: pushed to {pushed:.1f} deg, back to {math.degrees(max(angles[-20:])):.3f} deg")
    folder.mkdir(parents=True, exist_ok=True)
    result.plot().savefig(folder / "cartpole_swing_up.png", dpi=120)
    assert max(angles[50:]) < math.radians(15.0), "the pole should stay up, though pushed"
    assert max(angles[-20:]) < math.radians(1.0), "the pole should balance"


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:2]))
