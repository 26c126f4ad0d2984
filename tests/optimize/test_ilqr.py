"""iLQR against the Riccati equation and the fastest way from rest to rest; a pendulum and an arm."""

import math

import numpy as np
import pytest
import small_problems as small
import warp as wp
from scipy.optimize import lsq_linear

import newtonsim
from newtonsim import optimize
from newtonsim.errors import NewtonsimError, NotDifferentiableError
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf
from newtonsim.optimize.box import minimise
from newtonsim.optimize.costs import Changes
from newtonsim.optimize.points import Expansion, Points
from newtonsim.optimize.riccati import BackwardSweep

COSTS = (4.0, 1.0, 20.0, 5.0)
"""Of position and velocity of the cart, along the way and at the horizon."""


def cart_problem(device: str, horizon: int = 20, **options) -> optimize.Problem:
    costs = [optimize.JointCost(*COSTS, joint_q=[0.0]), optimize.ControlCost(0.1)]
    return optimize.Problem(small.cart(), costs, horizon, small.H, device=device, **options)


@pytest.mark.parametrize("method", ["adjoint", "difference"])
def test_a_linear_system_takes_one_iteration(device, method):
    A, B = small.cart_matrices()
    Q, R, F = small.H * np.diag(COSTS[:2]), small.H * np.array([[0.1]]), np.diag(COSTS[2:])
    controls, least = small.best_controls(A, B, np.array([1.0, 0.0]), Q, R, F, 20)
    result = optimize.ILQR(cart_problem(device), method).solve()
    assert result.status == "converged"
    assert result.history[1] == pytest.approx(least, rel=1e-5)
    assert result.iterations <= 2
    assert np.allclose(result.controls, controls, atol=1e-3 * np.abs(controls).max())
    P, F0 = F, None
    for _ in range(20):
        F0 = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A - B @ F0)
    assert np.allclose(result.gains[0], -F0, rtol=1e-3)


def test_bounds_are_kept_and_the_best_within_them_is_found(device):
    """Against bounded least squares of the whole horizon by SciPy."""
    horizon, low, high = 20, -6.0, 3.0
    result = optimize.ILQR(cart_problem(device, bounds=(low, high))).solve(tolerance=1e-7)
    A, B = small.cart_matrices()
    rows, rest, G, x = [], [], np.zeros((2, horizon)), np.array([1.0, 0.0])
    for t in range(horizon):
        G, x = A @ G, A @ x
        G[:, t] += B[:, 0]
        weight = np.sqrt(np.array(COSTS[2:]) if t == horizon - 1 else small.H * np.array(COSTS[:2]))
        rows.append(weight[:, None] * G)
        rest.append(-weight * x)
    rows.append(math.sqrt(0.1 * small.H) * np.eye(horizon))
    best = lsq_linear(np.vstack(rows), np.concatenate([*rest, np.zeros(horizon)]), (low, high), tol=1e-12)
    assert result.status == "converged"
    assert result.cost == pytest.approx(best.cost, rel=1e-5)
    assert low <= result.controls.min() <= result.controls.max() <= high
    assert np.allclose(result.controls[:, 0], best.x, atol=0.05)
    assert np.sum(result.controls == low) >= 2


def test_the_fastest_way_is_bang_bang(device):
    """In the least time from rest to rest there is one way: full thrust, then full brake."""
    horizon = 20
    costs = [optimize.JointCost(final_position=1e4, final_velocity=1e3, joint_q=[0.0])]
    # the sum of the velocities after each of n steps of thrust, then as many of brake, is n² h u / m
    bound = 2.0 / ((horizon // 2) ** 2 * small.H**2)
    problem = optimize.Problem(small.cart(), costs, horizon, small.H, bounds=(-bound, bound), device=device)
    result = optimize.ILQR(problem).solve(iterations=100, tolerance=1e-9)
    expected = bound * np.repeat([-1.0, 1.0], horizon // 2)
    assert np.abs(result.joint_q[-1]).max() < 2e-3
    assert np.abs(result.controls[:, 0] - expected).max() < 0.05 * bound


def test_a_pendulum_swings_up_that_is_too_weak_to_lift_itself(device):
    costs = [
        optimize.FrameCost("bob", (0, 0, 0.5), position=0.1, final_position=200.0, frame=(0, 0, 0.5)),
        optimize.JointCost(velocity=0.001, final_velocity=5.0),
        optimize.ControlCost(0.01),
    ]
    problem = optimize.Problem(small.pendulum(3.0), costs, 50, 0.03, hold=2, device=device)
    guess = np.cos(0.06 * np.arange(50) * 4.0)[:, None]
    result = optimize.ILQR(problem).solve(controls=guess)
    assert math.cos(result.joint_q[-1, 0]) > 0.999
    assert abs(result.joint_qd[-1, 0]) < 0.05
    assert np.abs(result.controls).max() <= 3.0


def arm() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    options = {"stiffness": 0.0, "damping": 0.0, "armature": 0.5, "enable_self_collisions": False}
    parse_urdf(asset_path("arm7.urdf"), builder, ignore_inertial_definitions=False, **options)
    builder.joint_velocity_limit[:] = [math.inf] * 7
    builder.joint_q[:] = [0.0, 0.5, 0.0, 1.2, 0.0, 0.6, 0.0]
    return builder


def flange(model: newtonsim.Model, q: np.ndarray) -> np.ndarray:
    """Pose of the last link."""
    state = model.state()
    state.joint_q.assign(q.astype(np.float32))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state.body_q.numpy()[model.body_key.index("link_7")]


def test_the_end_of_an_arm_reaches_a_pose(device):
    """One that joint angles are known of, which are not told."""
    robot = arm()
    model = robot.finalize(device)
    place = flange(model, np.array([0.3, 0.8, -0.2, 1.5, 0.2, 0.4, -0.3]))
    costs = [
        optimize.FrameCost("link_7", place, final_position=1e4, final_rotation=1e3),
        optimize.JointCost(velocity=0.1, final_velocity=10.0),
        optimize.ControlCost(1e-4),
    ]
    problem = optimize.Problem(robot, costs, 15, 1.0 / 30.0, device=device)
    still = wp.zeros(model.joint_dof_count, dtype=float, device=device)
    rest = newtonsim.dynamics.inverse_dynamics(model, model.state(), still).numpy()
    result = optimize.ILQR(problem).solve(controls=rest, iterations=15)
    found, start = flange(model, result.joint_q[-1]), flange(model, result.joint_q[0])
    assert np.linalg.norm(start[:3] - place[:3]) > 0.1
    assert np.linalg.norm(found[:3] - place[:3]) < 2e-3
    assert abs(found[3:] @ place[3:]) > 1.0 - 1e-4
    assert np.abs(result.joint_qd[-1]).max() < 0.05
    assert np.all(np.abs(result.controls) <= model.joint_effort_limit.numpy() + 1e-3)


def test_a_plan_at_the_limits_of_an_arm_does_not_hang_on_rounding(device, monkeypatch):
    """With linear models that differ by rounding, plans that use all speed and effort are equally good."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    parse_urdf(asset_path("arm7.urdf"), robot, stiffness=1500.0, damping=150.0, enable_self_collisions=False)
    robot.joint_q[:] = robot.joint_act[:] = [0.0, 0.5, 0.0, 1.2, 0.0, 0.6, 0.0]
    costs = [optimize.FrameCost("link_7", (0.5, 0.2, 0.7), position=1000.0, final_position=5000.0)]
    problem = optimize.Problem(robot, costs, 25, 0.02, hold=2, inputs="joint_act", device=device)
    hold, limit = problem.read_controls(None), problem.model.joint_velocity_limit.numpy()
    rng, linearize = np.random.default_rng(0), Points.linearize

    def with_rounding(self, *arrays):
        return tuple(M * (1.0 + 1.0e-7 * rng.standard_normal(M.shape)) for M in linearize(self, *arrays))

    monkeypatch.setattr(Points, "linearize", with_rounding)
    optimizer = optimize.ILQR(problem)
    results = [optimizer.solve(controls=hold) for _ in range(5)]
    assert [result.status for result in results] == ["converged"] * 5
    assert np.ptp([result.cost for result in results]) < 1.0e-3 * results[0].cost
    assert np.all(np.abs(results[0].joint_qd) <= limit + 5.0e-3)


@wp.kernel
def add_coupled_cost(first: int, view: optimize.CostView):
    """One thread per world: half the squares of u - 3 q̇ and of q + u / 4."""
    w = first + wp.tid()
    u = view.control[w]
    a = u - 3.0 * view.joint_qd[w]
    b = view.joint_q[w] + 0.25 * u
    wp.atomic_add(view.losses, w, 0.5 * optimize.stage_weight(view, w, 1.0, 1.0) * (a * a + b * b))


def test_costs_that_couple_state_and_control(device):
    """Against linear least squares of the whole horizon."""
    horizon = 12
    costs = [optimize.KernelCost(add_coupled_cost)]
    problem = optimize.Problem(small.cart(), costs, horizon, small.H, device=device)
    result = optimize.ILQR(problem).solve(tolerance=1e-6)
    A, B = small.cart_matrices()
    rows, rest, G, x = [], [], np.zeros((2, horizon)), np.array([1.0, 0.0])
    for t in range(horizon):
        G, x = A @ G, A @ x
        G[:, t] += B[:, 0]
        weight, u = math.sqrt(1.0 if t == horizon - 1 else small.H), np.eye(horizon)[t]
        rows += [weight * (u - 3.0 * G[1]), weight * (G[0] + 0.25 * u)]
        rest += [weight * 3.0 * x[1], -weight * x[0]]
    best = lsq_linear(np.array(rows), np.array(rest))
    assert result.status == "converged"
    assert result.history[1] == pytest.approx(best.cost, rel=2e-3)
    assert result.cost == pytest.approx(best.cost, rel=1e-4)
    assert np.allclose(result.controls[:, 0], best.x, atol=0.03 * np.abs(best.x).max())


@wp.kernel
def add_broken_cost(first: int, view: optimize.CostView):
    """One thread per world: nothing is finite."""
    view.losses[first + wp.tid()] = wp.nan


@wp.kernel
def add_flat_cost(first: int, view: optimize.CostView):
    """One thread per world: the same for all, but with a slope that promises more."""
    w = first + wp.tid()
    wp.atomic_add(view.losses, w, 1.0 + misleading(view.joint_q[w]))


@wp.func
def misleading(x: float) -> float:
    return 0.0 * x


@wp.func_grad(misleading)
def adj_misleading(x: float, adj_ret: float):
    wp.adjoint[x] += adj_ret


def test_a_cost_that_is_not_finite_is_told(device):
    problem = optimize.Problem(
        small.cart(), [optimize.KernelCost(add_broken_cost)], 3, small.H, device=device
    )
    result = optimize.ILQR(problem).solve(controls=[0.5])
    assert result.status == "not finite"
    assert np.all(result.controls == 0.5)


def test_a_stall_is_told_and_the_best_kept(device):
    costs = [optimize.KernelCost(add_flat_cost), optimize.ControlCost(1e-3)]
    problem = optimize.Problem(small.cart(), costs, 3, small.H, device=device)
    result = optimize.ILQR(problem).solve(controls=[0.0])
    assert result.status == "stalled"
    assert np.all(result.controls == 0.0)
    assert result.cost == pytest.approx(3.0)


@pytest.mark.parametrize("kind", [optimize.ILQR, optimize.FDDP, optimize.MultipleShooting])
def test_what_is_best_before_a_gradient_lacks_is_kept(device, monkeypatch, kind):
    """The third linearisation fails: results are those of two iterations."""
    costs = [optimize.JointCost(1.0, 0.1, 10.0, 1.0, joint_q=[math.pi]), optimize.ControlCost(0.01)]
    problem = optimize.Problem(small.pendulum(), costs, 20, 0.02, device=device)
    expected = kind(problem).solve(controls=[0.1], iterations=2)
    assert expected.status == "iterations"
    calls, linearize = [], Points.linearize

    def fail(self, *arrays):
        calls.append(1)
        if len(calls) == 3:
            raise NotDifferentiableError("the solver has no gradient in worlds [4]")
        return linearize(self, *arrays)

    monkeypatch.setattr(Points, "linearize", fail)
    optimizer = kind(problem)
    with pytest.warns(RuntimeWarning, match=r"it ends with the best .* no gradient in worlds \[4\]"):
        result = optimizer.solve(controls=[0.1])
    assert result.status == "stalled"
    assert result.cost == expected.cost < result.history[0]
    np.testing.assert_array_equal(result.controls, expected.controls)
    calls[:] = [1, 1]
    with pytest.raises(NotDifferentiableError, match="no gradient in worlds"):
        optimizer.solve(controls=[0.1])


def test_a_controller_keeps_a_pendulum_upright(device):
    robot = small.pendulum()
    costs = [optimize.JointCost(1.0, 0.1, 10.0, 1.0, joint_q=[0.0]), optimize.ControlCost(0.01)]
    problem = optimize.Problem(robot, costs, 10, 0.02, device=device)
    controller = optimize.Controller(optimize.ILQR(problem))
    sim = problem.make_simulator()
    sim.state.joint_q.fill_(0.4)
    for _ in range(80):
        problem.apply(sim, controller(sim.state))
        sim.step()
    assert abs(float(sim.state.joint_q.numpy()[0])) < 0.01


def test_minimum_in_a_box():
    """Against SciPy, at random."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 6))
        J, g = rng.standard_normal((n + 1, n)), 3.0 * rng.standard_normal(n)
        H = J.T @ J + 0.1 * np.eye(n)
        low, high = -rng.uniform(0.0, 1.0, n), rng.uniform(0.0, 1.0, n)
        root = np.linalg.cholesky(H).T
        expected = lsq_linear(root, -np.linalg.solve(root.T, g), (low - 1e-12, high + 1e-12), tol=1e-14).x
        found, free = minimise(H, g, low, high)
        assert np.allclose(found, expected, atol=1e-5)
        assert np.all((found[free] > low[free]) & (found[free] < high[free]))


def test_wrong_arguments_are_told():
    ilqr = optimize.ILQR(cart_problem("cpu", horizon=2))
    with pytest.raises(NewtonsimError, match="iterations: expected a whole number of at least 1, got 0"):
        ilqr.solve(iterations=0)
    with pytest.raises(NewtonsimError, match="controls: expected shape"):
        ilqr.solve(controls=[1.0, 2.0])
    with pytest.raises(NewtonsimError, match="method: expected"):
        optimize.ILQR(cart_problem("cpu", horizon=2), method="guess")


def test_a_sweep_leaves_the_costs_of_changes_alone():
    """Sweeps are repeated with more damping: the second one has to see what the first one saw."""
    rng = np.random.default_rng(0)
    horizon, states, inputs = 4, 3, 1
    A, B = rng.normal(size=(horizon, states, states)), rng.normal(size=(horizon, states, inputs))
    slope, curvature = (
        rng.normal(size=(horizon, states + inputs)),
        np.tile(np.eye(states + inputs), (horizon, 1, 1)),
    )
    changes = Changes(rng.normal(size=(horizon, inputs)), np.ones((horizon, inputs)))
    before = changes.change.copy()
    bounds = np.full((2, horizon, inputs), np.inf)
    given = (A, B, Expansion(slope, curvature, [changes]), -bounds[0], bounds[1], 1e-3)
    sweep = BackwardSweep(horizon, states, inputs)
    first, second = sweep(*given), sweep(*given)
    np.testing.assert_array_equal(changes.change, before)
    np.testing.assert_array_equal(first.change, second.change)
    assert np.abs(first.change - before).min() > 1e-3
