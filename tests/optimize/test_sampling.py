"""MPPI and CEM against the best controls of linear systems, and what all samplers keep to."""

import math

import numpy as np
import pytest
import small_problems as small
import warp as wp

from newtonsim import optimize
from newtonsim.errors import NewtonsimError
from newtonsim.solvers import SemiImplicitSolver, VBDSolver, XPBDSolver

HORIZON = 20
OPTIMISERS = [optimize.MPPI, optimize.CEM]


def cart_problem(device: str, **options) -> optimize.Problem:
    costs = [
        optimize.JointCost(
            position=4.0, velocity=1.0, final_position=20.0, final_velocity=5.0, joint_q=[0.0]
        ),
        optimize.ControlCost(0.1),
    ]
    options = {"bounds": (-10.0, 10.0), **options}
    return optimize.Problem(small.cart(), costs, HORIZON, small.H, device=device, **options)


def best_cart_controls() -> tuple[np.ndarray, float]:
    A, B = small.cart_matrices()
    Q, R, F = small.H * np.diag([4.0, 1.0]), small.H * np.array([[0.1]]), np.diag([20.0, 5.0])
    return small.best_controls(A, B, np.array([1.0, 0.0]), Q, R, F, HORIZON)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_samples_approach_the_riccati_solution(device, optimiser):
    controls, least = best_cart_controls()
    result = optimiser(cart_problem(device), samples=256, noise=2.0, knots=6).solve(iterations=60)
    assert least * (1.0 - 1e-5) < result.cost < 1.03 * least
    assert result.history == sorted(result.history, reverse=True)
    assert result.cost == min(result.history)
    assert np.abs(result.controls - controls).mean() < 0.15 * np.abs(controls).max()


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_states_and_cost_are_those_of_the_controls(device, optimiser):
    """Of a hold of two steps: the states by NumPy, and the cost by its formula."""
    result = optimiser(cart_problem(device, hold=2), samples=16, noise=2.0).solve(iterations=2)
    A, B = small.cart_matrices()
    x, states = np.array([1.0, 0.0]), [[1.0, 0.0]]
    for u in result.controls:
        x = A @ (A @ x + B @ u) + B @ u
        states.append(x)
    states = np.array(states)
    assert np.allclose(result.joint_q[:, 0], states[:, 0], atol=1e-5)
    assert np.allclose(result.joint_qd[:, 0], states[:, 1], atol=1e-5)
    running = small.H * (states[1:-1] ** 2 @ [4.0, 1.0]).sum() + 0.1 * small.H * (result.controls**2).sum()
    final = states[-1] ** 2 @ [20.0, 5.0]
    assert result.cost == pytest.approx(running + 0.5 * final, rel=1e-5)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_controls_stay_within_bounds(device, optimiser):
    result = optimiser(cart_problem(device, bounds=(-1.0, 0.5)), samples=64, noise=4.0).solve(iterations=5)
    assert result.controls.min() == -1.0
    assert -1.0 <= result.controls.min() <= result.controls.max() <= 0.5


def test_noise_is_normal_and_smooth(device):
    """Of independent noise, mean and deviation; of two knots, a straight line between them."""
    mppi = optimize.MPPI(cart_problem(device, bounds=(-math.inf, math.inf)), samples=4000, noise=1.5)
    mppi.improve(None, 1)
    drawn = mppi._runs.view.sequence.numpy()[:, 0, :]
    assert np.all(drawn[:, 0] == 0.0)
    assert np.abs(drawn[:, 1:].mean(axis=1)).max() < 5.0 * 1.5 / math.sqrt(4000)
    assert np.abs(drawn[:, 1:].std(axis=1) / 1.5 - 1.0).max() < 5.0 / math.sqrt(2 * 4000)
    assert np.abs(np.corrcoef(drawn[:, 1:]) - np.eye(HORIZON)).max() < 6.0 / math.sqrt(4000)
    lines = optimize.MPPI(cart_problem(device, bounds=(-math.inf, math.inf)), samples=8, noise=1.5, knots=2)
    lines.improve(None, 1)
    drawn = lines._runs.view.sequence.numpy()[:, 0, :]
    assert np.abs(np.diff(drawn, n=2, axis=0)).max() < 1e-5
    assert np.abs(drawn[:, 1:]).max() > 0.1


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_the_same_seed_leads_to_the_same_controls(device, optimiser):
    found = [
        optimiser(cart_problem(device), samples=64, seed=seed, threads=threads).solve(iterations=3).controls
        for seed, threads in ((1, 1), (1, 2), (2, 1))
    ]
    assert np.array_equal(found[0], found[1])
    assert np.abs(found[0] - found[2]).max() > 0.1


def test_weights_follow_the_costs(device):
    """Without spread of the noise but in one sample, MPPI moves to a weighted mean of the two."""
    problem = cart_problem(device)
    mppi = optimize.MPPI(problem, samples=2, noise=1.0, temperature=0.5)
    mppi.improve(None, 1)
    drawn, costs = mppi._runs.view.sequence.numpy()[:, 0, :], mppi._runs.view.losses.numpy()
    better, worse = int(np.argmin(costs)), int(np.argmax(costs))
    ratio = math.exp(-abs(costs[0] - costs[1]) / (0.5 * 0.5 * abs(costs[0] - costs[1])))
    expected = (drawn[:, better] + ratio * drawn[:, worse]) / (1.0 + ratio)
    assert np.allclose(mppi.controls[:, 0], expected, atol=1e-6)


def test_elites_give_mean_and_deviation(device):
    cem = optimize.CEM(cart_problem(device), samples=40, noise=1.0, elites=0.25)
    cem.improve(None, 1)
    view = cem._runs.view
    elite = np.argsort(view.losses.numpy())[:10]
    drawn, noise = view.sequence.numpy()[:, 0, elite], cem._noise.numpy()[:, 0, elite]
    assert np.allclose(cem.controls[:, 0], drawn.mean(axis=1), atol=1e-6)
    assert np.allclose(cem._deviation.numpy()[:, 0], noise.std(axis=1), atol=1e-6)


@wp.kernel
def add_broken_cost(first: int, view: optimize.CostView, worst: int):
    """One thread per world: nothing is finite from a world on, or where controls are positive."""
    w = first + wp.tid()
    if w >= worst:
        view.losses[w] = wp.nan
    else:
        wp.atomic_add(view.losses, w, optimize.stage_weight(view, w, 1.0, 0.0))


def test_costs_that_are_nowhere_finite_are_told(device):
    problem = optimize.Problem(
        small.cart(), [optimize.KernelCost(add_broken_cost, 0)], 5, small.H, device=device, bounds=(-1, 1)
    )
    result = optimize.MPPI(problem, samples=8).solve(controls=[0.25])
    assert result.status == "not finite"
    assert np.all(result.controls == 0.25)
    assert not math.isfinite(result.cost)
    assert str(result).startswith("not finite: the first guess costs nan, and nothing better after 1 it")
    for optimizer in (optimize.MPPI(problem, samples=8), optimize.ILQR(problem), optimize.FDDP(problem)):
        name = type(optimizer).__name__
        with pytest.warns(RuntimeWarning, match=f"{name}: nothing tried from this state has a fin"):
            optimize.Controller(optimizer, 2)(problem.model.state())


def test_samples_that_are_not_finite_do_not_count(device):
    problem = optimize.Problem(
        small.cart(), [optimize.KernelCost(add_broken_cost, 4)], 5, small.H, device=device, bounds=(-1, 1)
    )
    mppi = optimize.MPPI(problem, samples=8)
    result = mppi.solve()
    assert result.status == "stalled"
    assert result.cost == pytest.approx(4 * small.H)
    assert np.isfinite(mppi.controls).all()


def test_a_controller_swings_a_pendulum_up_that_is_too_weak_to_lift_it(device):
    """3 N m lift 1 kg on 0.5 m by 38°: it has to swing to and fro."""
    costs = [
        optimize.FrameCost("bob", (0.0, 0.0, 0.5), position=20.0, final_position=40.0, frame=(0.0, 0.0, 0.5)),
        optimize.JointCost(velocity=0.05, final_velocity=1.0),
    ]
    problem = optimize.Problem(small.pendulum(3.0), costs, 25, 0.02, hold=2, device=device)
    assert problem.high == 3.0
    controller = optimize.Controller(optimize.MPPI(problem, samples=128, noise=1.5, knots=6))
    sim = problem.make_simulator()
    for _ in range(100):
        control = controller(sim.state)
        assert np.abs(control).max() <= 3.0
        problem.apply(sim, control)
        sim.step()
    assert math.cos(float(sim.state.joint_q.numpy()[0])) > 0.99
    assert abs(float(sim.state.joint_qd.numpy()[0])) < 0.5


def test_a_controller_runs_as_its_calls_one_by_one_do(device):
    """Sampling has a seed, so that both find the same controls; the target moves meanwhile."""

    def controller():
        problem = cart_problem(device)
        return optimize.Controller(optimize.MPPI(problem, samples=16, noise=2.0)), problem

    called, problem = controller()
    sim, path, controls = problem.make_simulator(), [], []
    for _ in range(12):
        controls.append(called(sim.state))
        problem.apply(sim, controls[-1])
        sim.step()
        path.append(sim.state.body_q.numpy().copy())
    told = []
    motion = controller()[0].run(12, each=told.append)
    assert told == list(range(12))
    np.testing.assert_array_equal(motion.controls, controls)
    np.testing.assert_array_equal(motion.body_q[1:], path)
    assert motion.joint_q.shape == (13, 1)
    assert (motion.seconds > 0.0).all()
    assert f"where {1.0 / small.H:.0f} are needed" in str(motion)
    with pytest.raises(NewtonsimError, match="steps"):
        called.run(0)


def test_shift_moves_controls_on(device):
    mppi = optimize.MPPI(cart_problem(device), samples=4)
    mppi.controls = np.arange(20.0)[:, None]
    mppi.shift()
    assert mppi.controls[:, 0].tolist() == [*range(1, 20), 19]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"samples": 1}, "samples: expected at least 2, got 1"),
        ({"samples": 2.5}, "samples: expected a whole number"),
        ({"noise": -1.0}, "noise: expected positive numbers"),
        ({"noise": [1.0, 2.0]}, r"noise: expected shape \(\) or \(1,\), got \(2,\)"),
        ({"noise": math.nan}, "noise: expected finite numbers, got nan"),
        ({"knots": 0}, "knots: expected a whole number of at least 1, got 0"),
        ({"knots": 21}, "knots: expected at most the horizon, 20, got 21"),
        ({"temperature": 0.0}, "temperature: expected a positive number, got 0.0"),
    ],
)
def test_wrong_options_are_told(options, told):
    with pytest.raises(NewtonsimError, match=told):
        optimize.MPPI(cart_problem("cpu"), **options)


def test_noise_without_bounds_has_to_be_given():
    with pytest.raises(NewtonsimError, match="noise: give a number, since control 0 has no bounds"):
        optimize.CEM(cart_problem("cpu", bounds=None))
    with pytest.raises(NewtonsimError, match=r"elites: expected a fraction of at most 1, got 2\.0"):
        optimize.CEM(cart_problem("cpu"), elites=2.0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"iterations": 0}, "iterations: expected a whole number of at least 1, got 0"),
        ({"controls": np.zeros((3, 1))}, r"controls: expected shape \(20, 1\) or \(1,\), got \(3, 1\)"),
        ({"controls": [math.inf]}, "controls: expected finite numbers, got inf"),
        ({"start": ([0.0, 0.0], [0.0])}, r"start: joint_q: expected shape \(1,\), got \(2,\)"),
        ({"start": ([math.nan], [0.0])}, "start: joint_q: expected finite numbers, got nan"),
        ({"start": 3}, "start: expected a State or"),
    ],
)
def test_wrong_arguments_change_nothing(arguments, told):
    mppi = optimize.MPPI(cart_problem("cpu"), samples=4)
    with pytest.raises(NewtonsimError, match=told):
        mppi.solve(**arguments)
    assert np.all(mppi.controls == 0.0)
    assert np.all(mppi._draws.numpy() == 1)  # of the dry start alone


def test_a_controller_needs_an_optimiser():
    with pytest.raises(NewtonsimError, match="optimizer: expected MPPI, CEM, ILQR, FDDP or M"):
        optimize.Controller("MPPI")
    with pytest.raises(NewtonsimError, match="iterations: expected a whole number"):
        optimize.Controller(optimize.MPPI(cart_problem("cpu"), samples=4), iterations=0)


@pytest.mark.parametrize("solver", [XPBDSolver, VBDSolver, SemiImplicitSolver])
def test_other_solvers_move_the_samples(device, solver):
    """A slider without friction moves by symplectic Euler under all of them, here by NumPy."""
    result = optimize.MPPI(cart_problem(device, solver=solver), samples=16, noise=2.0).solve(iterations=2)
    A, B = small.cart_matrices()
    x = np.array([1.0, 0.0])
    for u, q, qd in zip(result.controls, result.joint_q[1:, 0], result.joint_qd[1:, 0], strict=True):
        x = A @ x + B @ u
        assert np.allclose(x, [q, qd], atol=2e-4)
