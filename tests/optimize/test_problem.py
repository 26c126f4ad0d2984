"""What a problem takes over from its robot, and what it refuses."""

import math

import numpy as np
import pytest
import small_problems as small

import newtonsim
from newtonsim import optimize
from newtonsim.errors import NewtonsimError
from newtonsim.runtime.progress import OptimizationProgress
from newtonsim.scene.enums import JointMode

COST = optimize.ControlCost(1.0)


def floating_arm() -> newtonsim.ModelBuilder:
    """A floating body with two hinges and a slide, whose drives differ."""
    builder = newtonsim.ModelBuilder()
    builder.add_articulation()
    bodies = [builder.add_body(mass=1.0, I_m=np.eye(3)) for _ in range(4)]
    builder.add_joint_free(bodies[0])
    for k, mode in enumerate((JointMode.FORCE, JointMode.TARGET_POSITION, JointMode.TARGET_VELOCITY)):
        add = builder.add_joint_prismatic if k == 2 else builder.add_joint_revolute
        add(
            bodies[k],
            bodies[k + 1],
            axis=(1, 0, 0),
            mode=mode,
            limit_lower=-1.0 - k,
            limit_upper=2.0,
            key=f"j{k}",
        )
    builder.joint_effort_limit[:] = [5.0, 6.0, math.inf]
    builder.joint_velocity_limit[:] = [1.0, 2.0, 3.0]
    return builder


def test_forces_of_axes_are_optimised_within_effort_limits():
    problem = optimize.Problem(floating_arm(), [COST], 4, 0.01)
    assert problem.entries.tolist() == [6, 7, 8]
    assert problem.high.tolist() == [5.0, 6.0, math.inf]
    assert problem.low.tolist() == [-5.0, -6.0, -math.inf]


def test_targets_are_optimised_within_their_limits():
    problem = optimize.Problem(floating_arm(), [COST], 4, 0.01, inputs="joint_act")
    assert problem.entries.tolist() == [0, 1, 2]
    assert problem.low.tolist() == [-5.0, -2.0, -3.0]
    assert problem.high.tolist() == [5.0, 2.0, 3.0]


def test_joints_can_be_chosen():
    problem = optimize.Problem(floating_arm(), [optimize.ControlCost(1.0)], 4, 0.01, actuated=["j2", "j0"])
    assert problem.entries.tolist() == [8, 6]
    assert problem.high.tolist() == [math.inf, 5.0]
    problem = optimize.Problem(
        floating_arm(), [optimize.ControlCost(1.0)], 4, 0.01, actuated=[1], bounds=([-2], 3)
    )
    assert (problem.entries.tolist(), problem.low.tolist(), problem.high.tolist()) == ([1], [-2.0], [3.0])


def test_first_controls_and_starts_are_those_of_the_builder():
    robot = small.cart()
    robot.joint_act[:] = [9.0]
    problem = optimize.Problem(
        robot, [optimize.ControlCost(1.0)], 3, 0.01, inputs="joint_act", bounds=(-math.inf, 4.0)
    )
    assert problem.read_controls(None).tolist() == [[4.0]] * 3
    assert problem.read_start(None)[0].tolist() == [1.0]
    state = problem.model.state()
    state.joint_q.fill_(0.25)
    assert problem.read_start(state)[0].tolist() == [0.25]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"horizon": 0}, "horizon: expected a whole number of at least 1, got 0"),
        ({"horizon": 2.5}, "horizon: expected a whole number of at least 1, got 2.5"),
        ({"hold": -1}, "hold: expected a whole number of at least 1, got -1"),
        ({"dt": 0.0}, "dt: expected a positive number, got 0.0"),
        ({"dt": math.nan}, "dt: expected a positive number, got nan"),
        ({"costs": []}, r"costs: expected a list of at least one, got \[\]"),
        ({"costs": [3]}, "costs: expected ones such as JointCost or KernelCost, got int"),
        ({"inputs": "joint_qd"}, "inputs: expected one of"),
        ({"solver": 3}, "solver: expected a function of a model, got int"),
        ({"actuated": []}, r"actuated: expected indices or names of joints, got \[\]"),
        ({"actuated": [1]}, "actuated: expected indices below 1, got 1"),
        ({"actuated": ["rial"]}, "there is no joint 'rial'; did you mean 'rail'"),
        ({"actuated": [0, "rail"]}, "actuated: an axis is listed twice"),
        ({"bounds": (1.0, -1.0)}, "bounds: low 1 is above high -1 of control 0"),
        ({"bounds": 3.0}, r"bounds: expected \(low, high\), got 3.0"),
        ({"bounds": ([0, 0], 1)}, r"bounds: low: expected shape \(1,\) or \(\), got \(2,\)"),
        ({"bounds": (math.nan, 1)}, "bounds: low: expected finite numbers, got nan"),
        ({"robot": 3}, "robot: expected a ModelBuilder, got int"),
    ],
)
def test_wrong_arguments_are_told(options, told):
    arguments = {"robot": small.cart(), "costs": [COST], "horizon": 2, "dt": 0.01, **options}
    with pytest.raises(NewtonsimError, match=told):
        optimize.Problem(**arguments)


def test_robots_without_joint_axes_are_refused():
    ball = newtonsim.ModelBuilder()
    ball.add_shape_sphere(ball.add_body(), radius=0.1)
    with pytest.raises(NewtonsimError, match="robot: it has no joint axis that joint_f could drive"):
        optimize.Problem(ball, [COST], 2, 0.01)
    with pytest.raises(NewtonsimError, match="robot: it has no degree of freedom"):
        optimize.Problem(newtonsim.ModelBuilder(), [COST], 2, 0.01)
    cloth = small.cart()
    cloth.add_particle((0, 0, 0), (0, 0, 0), 1.0)
    with pytest.raises(NewtonsimError, match="robot: 1 particles cannot be optimised"):
        optimize.Problem(cloth, [COST], 2, 0.01)


def test_a_simulator_steps_by_controls():
    """Two steps of the solver with the same force, on one of two joints."""
    problem = optimize.Problem(
        small.cart(), [optimize.ControlCost(1.0)], 3, small.H, hold=2, bounds=(-5.0, 5.0)
    )
    sim = problem.make_simulator()
    problem.apply(sim, [3.0])
    sim.step()
    A, B = small.cart_matrices()
    x = A @ (A @ [1.0, 0.0] + 3.0 * B[:, 0]) + 3.0 * B[:, 0]
    assert np.allclose([sim.state.joint_q.numpy()[0], sim.state.joint_qd.numpy()[0]], x, atol=1e-6)
    problem.apply(sim, [7.0])  # beyond what optimisers keep to
    assert sim.control.joint_f.numpy().tolist() == [7.0]
    with pytest.raises(NewtonsimError, match=r"control: expected shape \(1,\), got \(2,\)"):
        problem.apply(sim, [1.0, 2.0])


def test_the_ground_is_part_of_the_robot(device):
    """A box on it stays in all worlds of a run."""
    robot = small.cart()
    box = robot.add_body(origin=(0.0, 3.0, 0.1, 0.0, 0.0, 0.0, 1.0))
    robot.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1)
    robot.set_ground_plane()
    robot.gravity = -9.81
    problem = optimize.Problem(robot, [optimize.JointCost(1.0)], 10, 0.02, device=device, bounds=(-1, 1))
    result = optimize.MPPI(problem, samples=2).solve(iterations=1)
    assert np.abs(result.joint_q[:, 3] - 0.1).max() < 1e-3


def test_a_result_draws_itself():
    problem = optimize.Problem(small.cart(), [optimize.JointCost(1.0, joint_q=[0.0])], 5, 0.1, bounds=(-9, 9))
    result = optimize.CEM(problem, samples=8).solve(iterations=2)
    figure = result.plot()
    cost, q, control, _ = figure.axes
    assert cost.lines[0].get_ydata().tolist() == result.history
    assert q.lines[0].get_ydata().tolist() == result.joint_q[:, 0].tolist()
    assert q.lines[0].get_xdata()[-1] == pytest.approx(0.5)
    assert control.lines[0].get_ydata()[:5].tolist() == result.controls[:, 0].tolist()
    assert str(result) in cost.get_title()


def test_progress_has_no_cost_before_there_is_one():
    progress = OptimizationProgress("MPPI", 5)
    assert progress._now() == "MPPI: 0 of 5 iterations, 0 s"
    progress.tell(2, 3.25)
    assert progress._now() == "MPPI: 2 of 5 iterations, cost 3.25, 0 s"
