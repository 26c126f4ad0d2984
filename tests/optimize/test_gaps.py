"""FDDP and multiple shooting against the Riccati equation, SciPy's bounded least squares and rotations."""

import math

import numpy as np
import pytest
import small_problems as small
import warp as wp
from scipy.linalg import solve_discrete_are
from scipy.optimize import lsq_linear
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim import optimize
from newtonsim.errors import NewtonsimError

COSTS = (4.0, 1.0, 20.0, 5.0)
"""Of position and velocity of the cart, along the way and at the horizon."""
CALM = optimize.ControlCost(1e-3)
KINDS = [
    pytest.param(optimize.FDDP, {}, id="fddp"),
    pytest.param(optimize.MultipleShooting, {}, id="shooting"),
    pytest.param(optimize.MultipleShooting, {"segment": 4}, id="segments"),
]


def cart_problem(device: str, costs: tuple[float, ...] = COSTS, **options) -> optimize.Problem:
    terms = [optimize.JointCost(*costs, joint_q=[0.0]), optimize.ControlCost(0.1)]
    return optimize.Problem(small.cart(), terms, 20, small.H, device=device, **options)


def wild_states(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((21, 1)), rng.standard_normal((21, 1))


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_linear_system_takes_one_iteration_from_any_states(device, kind, options):
    A, B = small.cart_matrices()
    Q, R, F = small.H * np.diag(COSTS[:2]), small.H * np.array([[0.1]]), np.diag(COSTS[2:])
    controls, least = small.best_controls(A, B, np.array([1.0, 0.0]), Q, R, F, 20)
    result = kind(cart_problem(device), **options).solve(states=wild_states())
    assert result.status == "converged"
    assert result.gaps[0] > 1.0 > 1e-5 > result.gaps[1]
    assert result.history[1] == pytest.approx(least, rel=1e-5)
    assert result.iterations <= 2
    assert np.allclose(result.controls, controls, atol=1e-3 * np.abs(controls).max())
    x = np.array([1.0, 0.0])
    for u in result.controls:
        x = A @ x + B @ u
    assert np.allclose([result.joint_q[-1, 0], result.joint_qd[-1, 0]], x, atol=1e-4)


@pytest.mark.parametrize(("kind", "options"), KINDS[:2])
def test_feedback_is_that_of_an_endless_horizon(device, kind, options):
    """Far from the horizon, against the algebraic Riccati equation by SciPy."""
    A, B = small.cart_matrices()
    Q, R = small.H * np.diag(COSTS[:2]), small.H * np.array([[0.1]])
    P = solve_discrete_are(A, B, Q, R)
    gain = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    terms = [optimize.JointCost(*COSTS, joint_q=[0.0]), optimize.ControlCost(0.1)]
    problem = optimize.Problem(small.cart(), terms, 150, small.H, device=device)
    result = kind(problem, **options).solve()
    assert np.allclose(result.gains[0], -gain, rtol=1e-3)
    assert result.cost == pytest.approx(0.5 * P[0, 0] - 0.5 * Q[0, 0], rel=1e-4)  # the start does not count


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_bounds_are_kept_and_the_best_within_them_is_found(device, kind, options):
    """Against bounded least squares of the whole horizon by SciPy."""
    horizon, low, high = 20, -6.0, 3.0
    problem = cart_problem(device, bounds=(low, high))
    result = kind(problem, **options).solve(states=wild_states(), tolerance=1e-7)
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
    assert result.status in ("converged", "stalled")
    assert result.cost == pytest.approx(best.cost, rel=1e-5)
    assert low <= result.controls.min() <= result.controls.max() <= high
    assert np.allclose(result.controls[:, 0], best.x, atol=0.05)


def drifting() -> newtonsim.ModelBuilder:
    """A body that floats, off its centre of mass, with a hinge, both without gravity."""
    builder = newtonsim.ModelBuilder(gravity=0.0)
    builder.add_articulation()
    base, link = (builder.add_body(mass=1.0, com=(0.1, 0, 0), I_m=np.eye(3)) for _ in range(2))
    builder.add_joint_free(base)
    builder.add_joint_revolute(base, link, axis=(1, 0, 0), armature=0.0)
    return builder


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
def test_a_share_of_each_gap_closes(device, share):
    """Gaps of rotations and centres of mass by SciPy, of a step that changes nothing but these."""
    problem = optimize.Problem(drifting(), [optimize.ControlCost(1.0)], 4, 0.02, device=device)
    fddp, rng = optimize.FDDP(problem), np.random.default_rng(3)
    q, qd = rng.standard_normal((5, 8)), 0.1 * rng.standard_normal((5, 7))
    q[:, 3:7] = Rotation.random(5, rng=rng).as_quat()
    fddp._states = fddp._read_states((q, qd))
    first = fddp._evaluate(*problem.read_start((q[0], qd[0])))
    for t in range(1, 4):
        node, end = q[t], first.end_q[t]
        turns = [Rotation.from_quat(x[3:7]) for x in (node, end)]
        assert np.allclose(first.gaps[t, :3], (turns[1] * turns[0].inv()).as_rotvec(), atol=1e-5)
        places = [x[:3] + turn.apply([0.1, 0, 0]) for x, turn in zip((node, end), turns)]
        assert np.allclose(first.gaps[t, 3:6], places[1] - places[0], atol=1e-5)
        assert np.allclose(first.gaps[t, 6:], [end[7] - node[7], *(first.end_qd[t] - qd[t])], atol=1e-5)
    assert not first.gaps[0].any()
    none = np.zeros_like(first.gaps)
    fddp._run(first.guess, first.gaps, fddp._no_step(), none, np.zeros(4, bool))
    world = int(np.flatnonzero(0.5 ** np.arange(8) == share)[0])
    assert np.allclose(fddp._trajectory(world, np.zeros(8)).gaps, (1.0 - share) * first.gaps, atol=1e-5)


@pytest.mark.parametrize(("kind", "options"), KINDS[:2])
def test_a_floating_robot_is_moved_as_by_motions(device, kind, options):
    """From states that do not fit, to the cost that iLQR finds from a motion."""
    costs = [optimize.JointCost(1.0, 0.1, 50.0, 5.0, joint_q=[0, 0, 0, 0, 0, 0, 1, 1.0]), CALM]
    problem = optimize.Problem(drifting(), costs, 8, 0.05, device=device)
    states = np.tile(problem.model.joint_q.numpy(), (9, 1)), np.zeros((9, 7))
    states[0][1:, 3:7] = Rotation.random(8, rng=np.random.default_rng(0)).as_quat()
    states[0][1:, :3] = np.random.default_rng(1).standard_normal((8, 3))
    result = kind(problem, **options).solve(states=states)
    expected = optimize.ILQR(problem).solve(controls=[0.0])
    assert result.gaps[0] > 1.0
    assert result.cost == pytest.approx(expected.cost, rel=1e-3)
    assert result.cost < 0.7 * expected.history[0]


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_pendulum_swings_up_along_states_that_no_motion_has(device, kind, options):
    """It is too weak to lift itself; the guess is a straight line, and no torque at all."""
    costs = [
        optimize.FrameCost("bob", (0, 0, 0.5), position=0.1, final_position=200.0, frame=(0, 0, 0.5)),
        optimize.JointCost(velocity=0.001, final_velocity=5.0),
        optimize.ControlCost(0.01),
    ]
    problem = optimize.Problem(small.pendulum(3.0), costs, 50, 0.03, hold=2, device=device)
    line = np.linspace(math.pi, 0.0, 51)[:, None]
    optimizer = kind(problem, **options)
    result = optimizer.solve(controls=[0.0], states=(line, 0.0 * line))
    assert math.cos(result.joint_q[-1, 0]) > 0.999
    assert abs(result.joint_qd[-1, 0]) < 0.05
    assert np.abs(result.controls).max() <= 3.0
    assert result.gaps[0] > 1.0 > 1e-3 > result.gaps[-1]
    sim = problem.make_simulator()
    for control in result.controls:
        problem.apply(sim, control)
        sim.step()
    assert np.allclose(sim.state.joint_q.numpy(), result.joint_q[-1], atol=1e-3)


@pytest.mark.parametrize(("kind", "options"), KINDS[:2])
def test_a_controller_keeps_a_pendulum_upright(device, kind, options):
    costs = [optimize.JointCost(1.0, 0.1, 10.0, 1.0, joint_q=[0.0]), optimize.ControlCost(0.01)]
    problem = optimize.Problem(small.pendulum(), costs, 10, 0.02, device=device)
    controller = optimize.Controller(kind(problem, **options))
    sim = problem.make_simulator()
    sim.state.joint_q.fill_(0.4)
    for t in range(60):
        problem.apply(sim, controller(sim.state))
        sim.step()
        if t == 20:
            sim.state.joint_qd.fill_(0.5)  # a push, which the states of the last call do not know of
    assert abs(float(sim.state.joint_q.numpy()[0])) < 0.01


@wp.kernel
def add_root(first: int, view: optimize.CostView):
    """One thread per world: the root of what may be negative."""
    w = first + wp.tid()
    wp.atomic_add(view.losses, w, wp.sqrt(view.joint_q[w] - 0.5))


def test_a_cost_that_is_not_finite_is_told(device):
    problem = optimize.Problem(small.cart(), [optimize.KernelCost(add_root)], 3, small.H, device=device)
    result = optimize.FDDP(problem).solve(([0.2], [0.0]), controls=[0.5])
    assert result.status == "not finite"
    assert np.all(result.controls == 0.5)


@pytest.mark.parametrize("kind", [optimize.ILQR, *(kind.values[0] for kind in KINDS[:2])])
@pytest.mark.filterwarnings("ignore:.*non-finite")
def test_a_guess_that_breaks_down_is_kept(device, kind):
    """A force beyond single precision: the result has the guess, and so does the next solve and control."""
    problem = cart_problem(device)
    optimizer = kind(problem)
    result = optimizer.solve(controls=[3e38], iterations=3)
    assert result.status == "not finite"
    assert np.all(result.controls == 3e38)
    assert np.all(optimizer.controls == 3e38)
    with pytest.warns(RuntimeWarning, match="the controls are unchanged"):
        assert np.all(optimizer.improve(None, 1) == 3e38)
    assert optimizer.solve(controls=[0.0]).status == "converged"


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.filterwarnings("ignore:.*non-finite")
def test_states_that_break_down_end_in_the_motion_of_the_controls(device, kind, options):
    problem = cart_problem(device)
    states = (np.full((21, 1), 1e30), np.full((21, 1), 1e30))
    alone = optimize.ILQR(problem).solve(controls=[0.5], iterations=1).history[0]
    result = kind(problem, **options).solve(controls=[0.5], states=states)
    assert result.status == "stalled"
    assert not np.isfinite(result.history[0])
    assert result.cost == pytest.approx(alone, rel=1e-5)
    assert np.all(result.controls == 0.5)


def test_the_best_is_kept_where_gaps_cannot_be_closed(device):
    """After one iteration: the motion that is returned has no gaps, and costs no more than the guess."""
    costs = [optimize.FrameCost("bob", (0, 0, 0.5), final_position=200.0, frame=(0, 0, 0.5))]
    problem = optimize.Problem(small.pendulum(3.0), costs, 30, 0.03, device=device)
    line = np.linspace(math.pi, 0.0, 31)[:, None]
    shooting = optimize.MultipleShooting(problem)
    guess = shooting.solve(controls=[0.0], iterations=1).history[0]
    result = shooting.solve(controls=[0.0], states=(line, 0.0 * line), iterations=1)
    assert result.status == "iterations"
    assert result.gaps[-1] > 1e-2
    assert result.cost <= guess
    sim = problem.make_simulator()
    for control in result.controls:
        problem.apply(sim, control)
        sim.step()
    assert np.allclose(sim.state.joint_q.numpy(), result.joint_q[-1], atol=1e-3)


def test_wrong_arguments_are_told():
    fddp = optimize.FDDP(cart_problem("cpu"))
    with pytest.raises(NewtonsimError, match=r"states: expected \(joint_q, joint_qd\), got 3"):
        fddp.solve(states=3)
    with pytest.raises(NewtonsimError, match=r"states: joint_q: expected shape \(21, 1\), got \(20, 1\)"):
        fddp.solve(states=(np.zeros((20, 1)), np.zeros((21, 1))))
    with pytest.raises(NewtonsimError, match="gap_tolerance: expected a number of at least 0, got -1"):
        fddp.solve(gap_tolerance=-1)
    with pytest.raises(NewtonsimError, match="segment: expected a whole number of at least 1, got 0"):
        optimize.MultipleShooting(cart_problem("cpu"), segment=0)
