"""SHAC: the gradient against differences, a cart against the Riccati equation, and what it refuses."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
import small_problems as small
from scipy.linalg import solve_discrete_are

import newtonsim
from newtonsim import optimize
from newtonsim.errors import NewtonsimError
from newtonsim.optimize import shac as shac_module
from newtonsim.optimize.policies import default_observation, quaternion_entries, turning_entries

torch = pytest.importorskip("torch")

COSTS = (4.0, 0.5)
"""Of position and velocity of the cart."""


def cart_problem(device: str = "cpu", horizon: int = 8, **options) -> optimize.Problem:
    costs = [optimize.JointCost(*COSTS, joint_q=[0.0]), optimize.ControlCost(0.1)]
    options = {"bounds": (-20.0, 20.0), **options}
    return optimize.Problem(small.cart(), costs, horizon, small.H, device=device, **options)


def test_the_gradient_of_the_objective_is_that_of_differences():
    """Along random directions of the weights, with the same noise; episodes end on the way."""
    robot = small.pendulum()
    costs = [
        optimize.FrameCost("bob", (0, 0, 0.5), position=1.0, frame=(0, 0, 0.5)),
        optimize.JointCost(velocity=0.05),
        optimize.ControlCost(0.01),
    ]
    problem = optimize.Problem(robot, costs, 6, 0.02, hold=2, bounds=(-5.0, 5.0), device="cpu")
    shac = optimize.SHAC(problem, worlds=4, spread=0.5, episode=5, hidden=16)
    shac.collect(shac.critic)  # finds the scale
    before = (shac._q.clone(), shac._qd.clone(), shac._age.clone(), shac._noise.get_state())
    rng = shac._rng.bit_generator.state

    def objective() -> torch.Tensor:
        shac._q, shac._qd, shac._age = (x.clone() for x in before[:3])
        shac._noise.set_state(before[3])
        shac._rng.bit_generator.state = rng
        return shac.collect(shac.critic)[-1]

    shac.actor.zero_grad()
    objective().backward()
    weights = list(shac.actor.parameters())
    gradients = [w.grad.clone() for w in weights]
    generator, step = torch.Generator().manual_seed(1), 1e-2
    for _ in range(3):
        direction = [torch.randn(w.shape, generator=generator) for w in weights]
        length = math.sqrt(sum(float((d**2).sum()) for d in direction))
        found = []
        for sign in (1.0, -2.0):
            with torch.no_grad():
                for w, d in zip(weights, direction, strict=True):
                    w += sign * step * d / length
                found.append(float(objective()))
        with torch.no_grad():
            for w, d in zip(weights, direction, strict=True):
                w += step * d / length
        slope = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True)) / length
        assert slope == pytest.approx((found[0] - found[1]) / (2.0 * step), rel=0.02, abs=1e-4)


def test_a_cart_is_driven_nearly_as_by_the_riccati_equation():
    """What the policy costs in the long run, from four starts, beside the least that is possible.

    It has learnt for a few seconds, under noise and with a discount.
    """
    problem = cart_problem()
    shac = optimize.SHAC(problem, worlds=16, spread=1.0, episode=40, discount=0.97, hidden=16, rate=1e-2)
    learned = shac.train(60)
    assert learned.status == "iterations"
    assert learned.skipped == 0
    assert learned.cost < learned.history[0]
    A, B = small.cart_matrices()
    Q, R = small.H * np.diag(COSTS), small.H * np.array([[0.1]])
    P = solve_discrete_are(A, B, Q, R)
    costs, least = [], []
    for start in ([1.0, 0.0], [-1.0, 0.5], [-1.0, 0.0], [0.5, 1.0]):
        x, cost = np.array(start), 0.0
        for _ in range(120):
            u = shac(([x[0]], [x[1]]))
            x = A @ x + B @ u
            cost += 0.5 * (x @ Q @ x + u @ R @ u)
        costs.append(cost)
        least.append(0.5 * np.array(start) @ (P - Q) @ start)  # the start does not count
    assert np.all(np.array(costs) > 0.999 * np.array(least))
    assert sum(costs) < 1.6 * sum(least), (costs, least)


def two_links() -> optimize.Problem:
    """A chain of two links, with controls of one step each."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    robot.add_articulation()
    parent = -1
    for name in ("upper", "lower"):
        link = robot.add_body(mass=1.0, com=(0, 0, -0.25), I_m=0.02 * np.eye(3), key=name)
        place = ((0, 0, 0 if parent < 0 else -0.5), (0, 0, 0, 1))
        robot.add_joint_revolute(parent, link, parent_xform=place, axis=(0, 1, 0), key=name)
        parent = link
    costs = [optimize.JointCost(1.0, 0.01, joint_q=[0.5, 0.2]), optimize.ControlCost(0.01)]
    return optimize.Problem(robot, costs, 1, 0.02, bounds=(-5.0, 5.0), device="cpu")


def starts_of(speeds: list[float]):
    """Starts in which the links turn this fast against each other in one world after the other [rad/s]."""

    def draw(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        qd = np.array([[speed, -2.0 * speed] for speed in speeds])[:count]
        return np.tile([0.3, 0.7], (count, 1)), qd

    return draw


def test_worlds_without_a_gradient_leave_those_of_others_as_they_are():
    """Links that turn half around in a step are slowed down, which has no gradient.

    The other world has half the gradient that it has alone, because the objective is the mean of both.
    """
    found = []
    # statistics of what is seen and noise would differ
    for speeds in ([0.5], [0.5, 100.0]):
        shac = optimize.SHAC(two_links(), worlds=len(speeds), starts=starts_of(speeds), hidden=8)
        shac._scale = 1.0
        shac._noise.manual_seed(0)
        shac.actor.middle.zero_()
        shac.actor.size.fill_(1.0)
        with pytest.warns(RuntimeWarning, match="no gradient") if len(speeds) > 1 else nullcontext():
            shac.collect(shac.critic)[-1].backward()
        assert shac._missing == len(speeds) - 1
        found.append([w.grad.numpy() for w in shac.actor.parameters()])
    alone, beside = found
    assert max(np.abs(g).max() for g in alone) > 1e-4
    for one, other in zip(alone, beside, strict=True):
        np.testing.assert_allclose(other, 0.5 * one, rtol=1e-4, atol=1e-8)


def test_learning_goes_on_when_some_worlds_have_no_gradient():
    """A warning tells of them once, if they are many, and the result how many they are."""
    shac = optimize.SHAC(two_links(), worlds=4, starts=starts_of([0.5, 1.0, 100.0, 1.5]), episode=1, hidden=8)
    with pytest.warns(RuntimeWarning, match="SHAC: gradients of 25% of the controls"):
        learned = shac.train(5)
    assert learned.left_out == pytest.approx(0.25)
    assert learned.status == "iterations"
    assert learned.skipped == 0
    assert "25.0% of the gradients left out" in str(learned)


def test_controls_are_within_bounds_and_repeat():
    problem = cart_problem(bounds=(-1.0, 3.0))
    first, second = (optimize.SHAC(problem, worlds=4, hidden=8) for _ in range(2))
    histories = [shac.train(3).history for shac in (first, second)]
    assert histories[0] == histories[1]
    for q in (-50.0, 0.0, 50.0):
        control = first(([q], [0.0]))
        assert -1.0 <= control[0] <= 3.0
        assert control == second(([q], [0.0]))
    assert "cost of a second" in str(first.train(1))


def test_what_policies_see():
    robot = newtonsim.ModelBuilder()
    robot.add_articulation()
    bodies = [robot.add_body(mass=1.0, I_m=np.eye(3)) for _ in range(4)]
    robot.add_joint_free(bodies[0])
    robot.add_joint_revolute(bodies[0], bodies[1], axis=(1, 0, 0))
    robot.add_joint_revolute(bodies[1], bodies[2], axis=(1, 0, 0), limit_lower=-1.0, limit_upper=1.0)
    robot.add_joint_ball(bodies[2], bodies[3])
    robot.joint_limit_lower[0], robot.joint_limit_upper[0] = -math.inf, math.inf
    model = robot.finalize("cpu")
    assert turning_entries(model).tolist() == [7]
    assert quaternion_entries(model).tolist() == [3, 4, 5, 6, 9, 10, 11, 12]
    q = torch.arange(13.0)[None]
    seen = default_observation(model)(q, torch.zeros(1, 11))[0].tolist()
    assert seen[:12] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 9.0, 10.0, 11.0, 12.0]
    assert seen[12:14] == pytest.approx([math.cos(7.0), math.sin(7.0)])


def test_wrong_arguments_are_told():
    with pytest.raises(NewtonsimError, match="worlds: expected a whole number of at least 1, got 0"):
        optimize.SHAC(cart_problem(), worlds=0)
    with pytest.raises(NewtonsimError, match=r"discount: expected a number between 0 and 1, got 1\.5"):
        optimize.SHAC(cart_problem(), discount=1.5)
    with pytest.raises(NewtonsimError, match="bounds: a policy needs finite ones"):
        optimize.SHAC(cart_problem(bounds=(-math.inf, 1.0)))
    with pytest.raises(NewtonsimError, match=r"starts: expected finite numbers of shapes"):
        optimize.SHAC(cart_problem(), starts=lambda n, rng: (np.zeros((n, 2)), np.zeros((n, 1))))
    for cost, told in (
        (optimize.ControlRateCost(1.0), "a policy does not know the previous control"),
        (
            optimize.JointCost(1.0, joint_q=np.zeros((4, 1))),
            "JointCost: a policy needs references of one row",
        ),
    ):
        problem = optimize.Problem(small.cart(), [cost], 4, small.H, bounds=(-1, 1))
        with pytest.raises(NewtonsimError, match=told):
            optimize.SHAC(problem)
    final = optimize.Problem(
        small.cart(), [optimize.JointCost(final_position=1.0)], 4, small.H, bounds=(-1, 1)
    )
    with pytest.raises(NewtonsimError, match="costs: SHAC needs running costs"):
        optimize.SHAC(final, worlds=2).train(1)


def test_a_single_world_learns():
    """Its observation has no deviation from that of others."""
    shac = optimize.SHAC(cart_problem(), worlds=1, hidden=8)
    learned = shac.train(2)
    assert np.isfinite(learned.history).all()
    assert np.isfinite(shac(([1.0], [0.0]))).all()


def test_an_interruption_leaves_the_best_policy(monkeypatch: pytest.MonkeyPatch):
    """By the mean of costs, of which each iteration is a tenth, and from the tenth on."""
    learner = optimize.SHAC(cart_problem(), worlds=4, spread=1.0, episode=20, hidden=8, rate=0.3)
    told, weights = [], []

    class Progress(shac_module.OptimizationProgress):
        def tell(self, done: int, value: float) -> None:
            told.append(value)
            weights.append(learner.actor.weights())
            if done == 40:
                raise KeyboardInterrupt

    monkeypatch.setattr(shac_module, "OptimizationProgress", Progress)
    with pytest.raises(KeyboardInterrupt):
        learner.train(200)
    means = [told[0]]
    for value in told[1:]:
        means.append(0.9 * means[-1] + 0.1 * value)
    best = 10 + int(np.argmin(means[10:]))
    assert best < 39
    for name, values in learner.actor.state_dict().items():
        torch.testing.assert_close(values, weights[best][name], atol=0.0, rtol=0.0)


def test_what_was_learned_can_be_kept(tmp_path):
    """A second learner with the weights of both networks acts as the first, and continues."""
    first, second = (optimize.SHAC(cart_problem(), worlds=4, hidden=8, seed=seed) for seed in (0, 1))
    first.train(15)
    networks = {"actor": first.actor.state_dict(), "critic": first.critic.state_dict()}
    torch.save(networks, tmp_path / "shac.pt")
    kept = torch.load(tmp_path / "shac.pt", weights_only=True)
    second.actor.load_state_dict(kept["actor"])
    second.critic.load_state_dict(kept["critic"])
    states = np.random.default_rng(0).standard_normal((20, 2, 1))
    np.testing.assert_array_equal([second(tuple(s)) for s in states], [first(tuple(s)) for s in states])
    assert second.train(5).status == "iterations"
