"""Smooth options: friction and damping of compliant contact, randomised smoothing over worlds."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run

import newtonsim
from newtonsim import diff
from newtonsim.errors import NewtonsimError


def sliding_ball(device, slope: float = 0.0, kd: float = 50.0) -> newtonsim.Model:
    """A ball of 1 kg that hardly turns, on a ground whose normal is z; gravity tilts by a slope [rad]."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    material = {"ke": 1.0e4, "kd": kd, "kf": 1.0e6, "mu": 0.5}
    origin = wp.transform((0.0, 0.0, 0.1), wp.quat_identity())
    body = builder.add_body(origin=origin, mass=1.0, I_m=wp.mat33(np.eye(3) * 1.0e5), key="ball")
    builder.add_shape_sphere(body, radius=0.1, density=0.0, thickness=0.0, **material)
    builder.set_ground_plane(**material)
    model = builder.finalize(device)
    model.gravity = (GRAVITY * math.sin(slope), 0.0, -GRAVITY * math.cos(slope))
    return model


@pytest.mark.parametrize("slip_speed", [0.02, 0.1])
def test_what_would_stick_creeps_by_the_slip_speed(device, slip_speed):
    """μ N u/√(u² + s²) = G sin α gives u = s t/√(μ² - t²) with t = tan α."""
    run = Run(sliding_ball(device, math.atan(0.2)), 5.0e-4, contact_mode="compliant", slip_speed=slip_speed)
    run.start().run_for(0.5)
    assert run.body_qd[0, 3] == pytest.approx(slip_speed * 0.2 / math.sqrt(0.25 - 0.04), rel=1.0e-2)


@pytest.mark.parametrize("fade_depth", [1.0e-3, 1.0e-2])
def test_damping_is_halved_at_the_fade_depth(device, fade_depth):
    depth, kd, speed, dt = fade_depth, 20.0, 0.5, 1.0e-5
    changes = []
    for moving in (speed, 0.0):
        run = Run(sliding_ball(device, kd=kd), dt, contact_mode="compliant", fade_depth=fade_depth)
        # the plane has a thickness of 1e-5 m
        run.start([0, 0, 0.1 - depth + 1.0e-5, 0, 0, 0, 1], [0, 0, 0, 0, 0, moving]).step_eagerly()
        changes.append(run.body_qd[0, 5] - moving)
    assert changes[0] - changes[1] == pytest.approx(-0.5 * kd * speed * dt, rel=1.0e-2)


@pytest.mark.parametrize("name", ["slip_speed", "fade_depth"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_bad_smoothness_is_refused(device, name, value):
    with pytest.raises(ValueError, match=name):
        newtonsim.FeatherstoneSolver(sliding_ball(device), contact_mode="compliant", **{name: value})


SAMPLES, STEPS, DT = 512, 4, 0.25


@wp.func
def square(x: float) -> float:
    return x * x


@wp.func
def jump(x: float) -> float:
    return wp.where(x > 0.0, 1.0, 0.0)


@wp.func
def ripple(x: float) -> float:
    return wp.sin(100.0 * x) + x


@wp.func
def hole(x: float) -> float:
    """Not a number beyond 1."""
    return wp.where(x > 1.0, wp.nan, x)


def make_loss(function):
    """A loss that is a function of the height in each world."""

    @wp.kernel(module="unique")
    def add(joint_q: wp.array(dtype=float), losses: wp.array(dtype=float)):
        w = wp.tid()
        wp.atomic_add(losses, w, function(joint_q[w]))

    return lambda state, losses: wp.launch(add, len(losses), [state.joint_q], [losses], device=losses.device)


LOSSES = {f.key: make_loss(f) for f in (square, jump, ripple, hole)}


def make_rails(device, worlds: int, requires_grad: bool) -> newtonsim.Model:
    """A mass of 1 kg on a rail in each world, without gravity."""
    rail = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = rail.add_body(mass=1.0, I_m=wp.mat33(np.eye(3)))
    rail.add_articulation()
    rail.add_joint_prismatic(-1, body, axis=(0.0, 0.0, 1.0), armature=0.0)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(rail, worlds)
    model = builder.finalize(device, requires_grad=requires_grad)
    model.gravity = (0.0, 0.0, 0.0)
    return model


@pytest.fixture(scope="module")
def rails(device) -> newtonsim.Model:
    return make_rails(device, SAMPLES, True)


# the losses do not depend on everything that the rollouts differentiate by
pytestmark = pytest.mark.filterwarnings("ignore:the gradient is zero in all entries")


@pytest.fixture(scope="module")
def rollouts(rails) -> dict[str, diff.Rollout]:
    """The loss is a function of x + v + Σ w_i f_i with the weights below."""
    wrt = ("state.joint_q", "state.joint_qd", "control.joint_f", "model.body_mass")
    solver = newtonsim.FeatherstoneSolver(rails)
    return {k: diff.Rollout(rails, solver, STEPS, DT, loss, wrt=wrt) for k, loss in LOSSES.items()}


WEIGHTS = DT**2 * np.array([[4.0], [3.0], [2.0], [1.0]])
THETA = {"state.joint_q": [0.4], "state.joint_qd": [-0.3], "control.joint_f": [[0.5], [0.1], [-0.2], [0.7]]}
SIGMA = {"state.joint_q": 0.3, "state.joint_qd": [0.2], "control.joint_f": 0.5}
END = 0.1 + float((WEIGHTS * THETA["control.joint_f"]).sum())
SPREAD = math.sqrt(0.3**2 + 0.2**2 + 0.25 * float((WEIGHTS**2).sum()))
"""The height at the end is normally distributed with this mean and standard deviation."""


def slopes_by_name(slope: float) -> dict[str, np.ndarray]:
    """Gradient with respect to everything, from the slope of the expected loss along the mean height."""
    one = np.array([slope])
    return {"state.joint_q": one, "state.joint_qd": one, "control.joint_f": slope * WEIGHTS}


def assert_estimates(found: diff.SmoothedGradient, slope: float) -> None:
    """The truth lies within 4.5 standard errors in every entry, and these are neither zero nor idle."""
    for name, truth in slopes_by_name(slope).items():
        error = found.standard_error[name]
        assert found.gradient[name].shape == truth.shape
        assert (error > 0.0).all()
        assert (np.abs(found.gradient[name] - truth) < 4.5 * error).all(), name


@pytest.mark.parametrize("antithetic", [False, True])
@pytest.mark.parametrize("order", ["first", "zeroth", "mixed"])
def test_square(rollouts, order, antithetic):
    """E[x²] = m² + s², with slope 2 m; antithetic pairs leave nothing to chance in the first order."""
    found = diff.smoothed_gradient(
        rollouts["square"], THETA, SIGMA, order=order, antithetic=antithetic, seed=3
    )
    assert found.worlds == SAMPLES
    assert abs(found.loss - END**2 - SPREAD**2) < 4.5 * found.loss_error < 0.2
    if order == "first" and antithetic:
        for name, truth in slopes_by_name(2.0 * END).items():
            np.testing.assert_allclose(found.gradient[name], truth, atol=1.0e-5)
        return
    if order != "mixed" or not antithetic:
        assert_estimates(found, 2.0 * END)
    if order == "mixed":
        assert found.share > 0.95
        for name, truth in slopes_by_name(2.0 * END).items():
            np.testing.assert_allclose(found.gradient[name], truth, atol=0.1)


def test_standard_errors_are_those_of_repetition(rollouts):
    """What scatters over 40 seeds is what each estimate says of itself."""
    runs = [
        diff.smoothed_gradient(rollouts["square"], THETA, SIGMA, order="zeroth", antithetic=a, seed=k)
        for k, a in enumerate([False, True] * 40)
    ]
    for half in (runs[::2], runs[1::2]):
        gradients = np.array([run.gradient["state.joint_q"][0] for run in half])
        errors = np.array([run.standard_error["state.joint_q"][0] for run in half])
        # a standard deviation from 40 samples is good to a ninth
        assert gradients.std(ddof=1) == pytest.approx(errors.mean(), rel=0.4)
        assert abs(gradients.mean() - 2.0 * END) < 4.5 * errors.mean() / math.sqrt(40)


def test_a_jump_is_invisible_to_the_first_order(rollouts):
    """P(x > 0) has the slope of a normal density; the limit on accuracy makes the mixture notice."""
    truth = math.exp(-0.5 * (END / SPREAD) ** 2) / (SPREAD * math.sqrt(2.0 * math.pi))
    found = diff.smoothed_gradient(rollouts["jump"], THETA, SIGMA, accuracy=0.5)
    assert not any(g.any() for g in found.first_order.values())
    assert_estimates(diff.smoothed_gradient(rollouts["jump"], THETA, SIGMA, order="zeroth"), truth)
    assert diff.smoothed_gradient(rollouts["jump"], THETA, SIGMA).share == 1.0
    flat = {name: g.ravel() for name, g in found.gradient.items()}
    expected = {name: g.ravel() for name, g in slopes_by_name(truth).items()}
    error = np.concatenate([flat[name] - expected[name] for name in expected])
    assert found.share < 0.5
    assert np.linalg.norm(error) < 0.5


def test_a_stiff_loss_is_left_to_the_zeroth_order(rollouts):
    """sin(100 x) averages to nothing, but its slope of ±100 drowns the first order."""
    found = diff.smoothed_gradient(rollouts["ripple"], THETA, SIGMA)
    assert found.variances[0] > 100.0 * found.variances[1]
    assert found.share < 0.02
    assert_estimates(found, 1.0)


def test_worlds_that_are_not_finite_do_not_count(rollouts):
    found = diff.smoothed_gradient(rollouts["hole"], {"state.joint_q": [0.6]}, 0.3, order="first")
    assert SAMPLES // 2 < found.worlds < SAMPLES
    np.testing.assert_allclose(found.gradient["state.joint_q"], [1.0], rtol=1.0e-5)


def test_parameters_of_the_model_come_back(rollouts, rails):
    """x = x0 + Σ w f / m; a loss of the mass of each world, and the array is as before afterwards."""
    before = rails.body_mass.numpy().copy()
    state, controls = rails.state(), {"joint_f": np.full((STEPS, SAMPLES), 1.0, np.float32)}
    rollout, given = rollouts["square"], {"model.body_mass": [2.0]}
    found = diff.smoothed_gradient(rollout, given, 0.01, state, controls, order="first")
    pull = float(WEIGHTS.sum())
    assert found.gradient["model.body_mass"][0] == pytest.approx(-2.0 * pull**2 / 2.0**3, rel=1.0e-2)
    np.testing.assert_array_equal(rails.body_mass.numpy(), before)


def test_worlds_that_differ_are_refused(rollouts, rails):
    """Differences between worlds would pass as effects of the disturbance."""
    state = rails.state()
    state.joint_q.assign(np.linspace(0.0, 3.0, SAMPLES))
    with pytest.raises(NewtonsimError, match="not copies"):
        diff.smoothed_gradient(rollouts["square"], {"state.joint_qd": [0.0]}, 0.1, state, order="zeroth")


def test_zeroth_order_needs_no_gradients(device):
    model = make_rails(device, 64, False)
    rollout = diff.Rollout(model, newtonsim.FeatherstoneSolver(model), 1, DT, LOSSES["square"])
    found = diff.smoothed_gradient(rollout, {"state.joint_q": [1.0]}, 0.1, order="zeroth")
    assert found.first_order is None
    assert abs(found.gradient["state.joint_q"][0] - 2.0) < 4.5 * found.standard_error["state.joint_q"][0]
    with pytest.raises(NewtonsimError, match=r"no gradient with respect to 'state.joint_q'"):
        diff.smoothed_gradient(rollout, {"state.joint_q": [1.0]}, 0.1)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"order": "second"}, "order: .*'second'"),
        ({"accuracy": 0.0}, "accuracy: .*0.0"),
        ({"sigma": 0.0}, "sigma: .*state.joint_q"),
        ({"sigma": [0.1, 0.2]}, r"sigma: .*\(1,\)"),
        ({"values": {}}, "distinct names"),
        ({"values": {"state.joint_q": [1.0, 2.0]}}, r"state.joint_q: .*\(1,\), got \(2,\)"),
        ({"values": {"control.joint_f": [[1.0]]}}, r"control.joint_f: .*\(1,\) or \(4, 1\), got \(1, 1\)"),
        ({"values": {"state.joint_p": [1.0]}}, "'state.joint_p'"),
    ],
)
def test_bad_arguments_are_refused(rollouts, change, match):
    given = {"values": {"state.joint_q": [1.0]}, "sigma": 0.1} | change
    with pytest.raises(NewtonsimError, match=match):
        diff.smoothed_gradient(rollouts["square"], **given)
