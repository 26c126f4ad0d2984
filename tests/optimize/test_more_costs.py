"""Costs of rates, contact forces and time: least squares by SciPy, weights of boxes, fastest ways."""

import math

import numpy as np
import pytest
import small_problems as small
from scipy.optimize import lsq_linear

import newtonsim
from newtonsim import optimize
from newtonsim.errors import NewtonsimError, NotDifferentiableError

COSTS, RATE, HORIZON = (4.0, 1.0, 20.0, 5.0), 0.02, 20


def smooth_problem(device: str, before: float | None, **options) -> optimize.Problem:
    costs = [
        optimize.JointCost(*COSTS, joint_q=[0.0]),
        optimize.ControlCost(0.1),
        optimize.ControlRateCost(RATE, None if before is None else [before]),
    ]
    return optimize.Problem(small.cart(), costs, HORIZON, small.H, device=device, **options)


def least_squares(before: float | None, low: float = -math.inf, high: float = math.inf):
    """The whole horizon by SciPy."""
    A, B = small.cart_matrices()
    rows, rest, G, x = [], [], np.zeros((2, HORIZON)), np.array([1.0, 0.0])
    for t in range(HORIZON):
        G, x = A @ G, A @ x
        G[:, t] += B[:, 0]
        weight = np.sqrt(np.array(COSTS[2:]) if t == HORIZON - 1 else small.H * np.array(COSTS[:2]))
        rows.append(weight[:, None] * G)
        rest.append(-weight * x)
    rows.append(math.sqrt(0.1 * small.H) * np.eye(HORIZON))
    rest.append(np.zeros(HORIZON))
    changes = math.sqrt(RATE / small.H) * (np.eye(HORIZON) - np.eye(HORIZON, k=-1))
    first = 1 if before is None else 0
    rows.append(changes[first:])
    rest.append(np.zeros(HORIZON - first))
    if before is not None:
        rest[-1][0] = math.sqrt(RATE / small.H) * before
    return lsq_linear(np.vstack(rows), np.concatenate(rest), (low, high), tol=1e-12)


@pytest.mark.parametrize("before", [None, 4.0])
@pytest.mark.parametrize("kind", [optimize.ILQR, optimize.FDDP, optimize.MultipleShooting, optimize.Shooting])
def test_controls_change_slowly(device, kind, before):
    result = kind(smooth_problem(device, before)).solve(tolerance=1e-7)
    best = least_squares(before)
    assert result.cost == pytest.approx(best.cost, rel=1e-4)
    size = np.abs(best.x).max()
    assert np.allclose(
        result.controls[:, 0], best.x, atol=(0.03 if kind is optimize.Shooting else 2e-3) * size
    )
    if kind is not optimize.Shooting:
        assert result.history[1] == pytest.approx(best.cost, rel=1e-4)  # in one iteration
        assert result.gains.shape == (HORIZON, 1, 3)


def test_controls_change_slowly_within_bounds(device):
    result = optimize.FDDP(smooth_problem(device, None, bounds=(-3.0, 2.0))).solve(tolerance=1e-7)
    assert result.cost == pytest.approx(least_squares(None, -3.0, 2.0).cost, rel=1e-4)


def test_samples_count_rates(device):
    problem = smooth_problem(device, None, bounds=(-9.0, 9.0))
    mppi, u = optimize.MPPI(problem, samples=2), np.sin(np.arange(HORIZON))[:, None]
    cost = problem.costs[2]
    plain = [mppi.solve(controls=u, iterations=1).history[0]]
    cost.before = [2.0]
    plain.append(mppi.solve(controls=u, iterations=1).history[0])
    cost.before = None
    assert plain[1] - plain[0] == pytest.approx(0.5 * RATE / small.H * (u[0, 0] - 2.0) ** 2, rel=1e-3)
    steady = mppi.solve(controls=np.full(1, u.mean()), iterations=1).history[0]
    assert optimize.Shooting(problem).evaluate(problem.model.state(), u)[0] == pytest.approx(
        plain[0], rel=1e-5
    )
    assert steady < plain[0]


def table(force: float = 0.0) -> newtonsim.ModelBuilder:
    """A box of 8 kg on the ground, held by a vertical rail on which a motor may push."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=-10.0)
    robot.add_articulation()
    box = robot.add_body(key="box")
    robot.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, density=1000.0)
    robot.add_joint_prismatic(-1, box, axis=(0, 0, 1), armature=0.0)
    robot.joint_q[:] = [0.1]
    robot.set_ground_plane()
    return robot


def test_the_force_on_a_foot_is_what_its_share_should_be(device):
    """What the motor does not carry of 80 N the ground does: 50 N there need 30 N of the motor."""
    foot = optimize.ContactForceCost("box", weight=(0.0, 0.0, 1.0), reference=(0.0, 0.0, 50.0))
    problem = optimize.Problem(table(), [foot], 3, 0.01, hold=2, device=device, bounds=(-100.0, 100.0))
    mppi = optimize.MPPI(problem, samples=32, knots=1)
    cost = mppi.solve(controls=[10.0], iterations=1).history[0]
    assert cost == pytest.approx(2 * 0.5 * 0.02 * 20.0**2, rel=1e-2)  # the horizon has no weight
    found = mppi.solve(controls=[0.0], iterations=30)
    assert np.allclose(found.controls[:2], 30.0, atol=1.0)
    foot.reference = (0.0, 0.0, 80.0)
    assert mppi.solve(controls=[0.0], iterations=1).history[0] == pytest.approx(0.0, abs=0.05)


def test_the_least_time_is_that_of_full_thrust_and_brake(device):
    """From rest to rest over 1 m with u / m = 4 m/s² takes 2 √(1 / 4) = 1 s."""
    costs = [optimize.TimeCost("cart", (0.0, 0.0, 0.0), 0.15), optimize.JointCost(final_velocity=1.0)]
    problem = optimize.Problem(small.cart(), costs, 36, small.H, bounds=(-8.0, 8.0), device=device)
    guess = np.repeat([-5.0, 5.0, 0.0], 12)[:, None]
    result = optimize.ILQR(problem).solve(controls=guess, iterations=100, tolerance=1e-7)
    arrived = small.H * (1 + np.argmax(np.abs(result.joint_q[1:, 0]) < 0.15))
    # by the parabola of the brake, x = a (1 - t)² / 2, it is within 0.15 m of the target at 0.73 s
    assert arrived == pytest.approx(0.73, abs=0.08)
    assert np.abs(result.joint_q[24:, 0]).max() < 0.03
    assert np.mean(result.controls[:9, 0]) < -7.0


@pytest.mark.parametrize("kind", [optimize.ILQR, optimize.FDDP, optimize.Shooting])
def test_forces_of_contacts_have_no_gradient(kind):
    problem = optimize.Problem(table(), [optimize.ContactForceCost("box", 1.0)], 2, 0.01, bounds=(-1, 1))
    with pytest.raises(NotDifferentiableError, match="ContactForceCost: contact forces have no gradient"):
        kind(problem)


def test_solvers_that_do_not_tell_forces_are_refused():
    def soft(model: newtonsim.Model) -> newtonsim.FeatherstoneSolver:
        return newtonsim.FeatherstoneSolver(model, contact_mode="compliant")

    cost = optimize.ContactForceCost("box", 1.0)
    problem = optimize.Problem(table(), [cost], 2, 0.01, bounds=(-1, 1), solver=soft)
    with pytest.raises(NewtonsimError, match="solver: forces of compliant contacts are not available"):
        optimize.MPPI(problem, samples=2)


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (lambda: optimize.ControlRateCost(-1.0), "weight: expected weights of at least 0, got -1"),
        (lambda: optimize.ContactForceCost("cart", [1.0, 2.0]), r"weight: expected shape \(\) or \(3,\)"),
        (lambda: optimize.TimeCost("cart", (0, 0, 0), 0.0), "radius: expected a positive number, got 0.0"),
        (lambda: optimize.TimeCost("cart", (0, 0, 0), 1.0, math.nan), "weight: expected finite numbers"),
    ],
)
def test_wrong_costs_are_told(cost, told):
    with pytest.raises(NewtonsimError, match=told):
        cost()


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (optimize.ControlRateCost([1.0, 1.0]), "ControlRateCost: weight: expected shape"),
        (optimize.ControlRateCost(1.0, [1.0, 1.0]), "ControlRateCost: before: expected shape"),
        (
            optimize.ContactForceCost("crat", 1.0),
            "ContactForceCost: there is no body 'crat'; did you mean 'cart'",
        ),
        (optimize.TimeCost("cart", (0, 0), 1.0), "TimeCost: target: expected shape"),
        (optimize.TimeCost(3, (0, 0, 0), 1.0), "TimeCost: body: expected an index below 1 or a name, got 3"),
    ],
)
def test_costs_that_do_not_fit_are_told(cost, told):
    with pytest.raises(NewtonsimError, match=told):
        optimize.Problem(small.cart(), [cost], 2, small.H)
