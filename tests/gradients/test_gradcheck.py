"""newtonsim.diff.gradcheck finds wrong gradients, passes right ones, and admits what it cannot tell."""

import numpy as np
import pytest
import rollout_scenes as scenes

import newtonsim
from newtonsim import diff
from newtonsim.diff.differences import SPANS, estimate
from newtonsim.errors import NewtonsimError
from newtonsim.testing import random_model, random_state

DT = 0.005


def check(model, loss, wrt, steps=20, state=None, **options):
    solver = newtonsim.FeatherstoneSolver(model)
    return diff.gradcheck(model, solver, state or model.state(), steps, DT, loss, wrt, **options)


def test_right_gradients_pass(device):
    """Free, ball and distance joints: rotations are compared as rotations."""
    model = random_model(3, body_count=10).finalize(device, requires_grad=True)
    wrt = ("state.joint_q", "state.joint_qd", "control.joint_f", "model.body_com", "model.joint_X_p")
    state = random_state(model, 5, angle=0.4, speed=0.5)
    report = check(model, scenes.body_heights(model), wrt, 50, state)
    assert report.error < 1e-3
    for name in wrt:
        assert report[name].error < 2e-3, name
        assert report[name].direction_error < 1e-3, name
        assert name in str(report)
    assert report["state.joint_q"].total == model.joint_dof_count
    assert len(report["state.joint_q"].labels) == 12


def test_wrong_gradient_is_found(device):
    """A loss of the user's own with a custom gradient a tenth too long."""
    model = scenes.sliders(2).finalize(device, requires_grad=True)
    state = model.state()
    state.joint_q.assign(np.array([0.7, -0.4], np.float32))
    loss = scenes.by_world(model, scenes.add_misjudged_square)
    report = check(model, loss, ("state.joint_q", "state.joint_qd"), state=state)
    assert report.error == pytest.approx(0.1, rel=1e-2)
    assert report["state.joint_q"].direction_error == pytest.approx(0.1, rel=0.1)
    assert not report.unreliable


def test_kink_is_declared(device):
    """|x - x0| just where the rollout ends in one world, and elsewhere in the other."""
    model = scenes.sliders(2).finalize(device, requires_grad=True)
    state = model.state()
    state.joint_q.assign(np.array([0.25, 0.5], np.float32))
    loss = scenes.by_world(model, scenes.add_distance, 0.25)
    report = check(model, loss, ("state.joint_q",), state=state)["state.joint_q"]
    assert report.reliable.tolist() == [False, True]
    assert "slopes on both sides differ by 2.0" in report.reasons[0]
    assert report.error < 1e-3


def test_jump_is_declared(device):
    """The loss jumps just there in one world; in the other one only far away."""
    model = scenes.sliders(2).finalize(device, requires_grad=True)
    state = model.state()
    state.joint_q.assign(np.array([1.0, 1.5], np.float32))
    loss = scenes.by_world(model, scenes.add_whole_numbers, 1.0)
    report = check(model, loss, ("state.joint_q",), state=state)["state.joint_q"]
    assert report.reliable.tolist() == [False, True]
    assert "jumps" in report.reasons[0]
    assert report.error < 1e-3


def test_jumps_all_along_are_the_slope_that_counts(device):
    """997 steps of 0.01 in a unit are a slope of 10: a gradient that misses them is wrong."""
    model = scenes.sliders(1).finalize(device, requires_grad=True)
    state = model.state()
    state.joint_q.assign(np.array([0.3], np.float32))
    loss = scenes.by_world(model, scenes.add_whole_numbers, 997.0)
    report = check(model, loss, ("state.joint_q",), state=state)["state.joint_q"]
    assert report.error > 0.5 or not report.reliable.any()


def test_model_is_left_as_it_was(device):
    model = scenes.pendulums(2).finalize(device, requires_grad=True)
    names = ("body_mass", "body_inv_mass", "body_inertia", "body_inv_inertia", "joint_X_p", "gravity_vec")
    before = {name: getattr(model, name).numpy().copy() for name in names}
    wrt = ("model.body_mass", "model.body_inertia", "model.joint_X_p", "model.gravity_vec")
    report = check(model, scenes.body_heights(model), wrt)
    assert report.error < 1e-3
    for name, values in before.items():
        np.testing.assert_allclose(getattr(model, name).numpy(), values, rtol=1e-6, err_msg=name)


def test_sequences_and_no_effect(device):
    """Torques of single steps; and an input without effect is zero on both sides, which is right."""
    model = scenes.pendulums(2).finalize(device, requires_grad=True)
    controls = {"joint_f": np.random.default_rng(0).normal(size=(20, 4))}
    wrt = ("control.joint_f", "model.joint_stiffness", "model.joint_spring_ref")
    report = check(model, scenes.body_heights(model), wrt, controls=controls, samples=5)
    assert report["control.joint_f"].total == 80
    assert len(report["control.joint_f"].labels) == 10
    assert report["control.joint_f"].error < 5e-3
    assert report["model.joint_spring_ref"].error == 0.0


def test_estimate_of_a_smooth_function():
    steps = np.array(SPANS)
    f = lambda x: np.float32(np.sin(1.0 + x)).astype(float)  # noqa: E731
    found = estimate(steps, f(steps), f(-steps), float(f(0.0)))
    assert found.value == pytest.approx(np.cos(1.0), rel=1e-5)
    assert abs(found.value - np.cos(1.0)) < found.uncertainty < 1e-3
    assert found.kink < 1e-3


def test_estimates_are_as_far_off_as_they_say():
    """Rounding of losses after many steps, drawn anew 500 times: no two values agree by chance unnoticed."""
    steps, slope = np.array(SPANS), 0.372
    rng = np.random.default_rng(0)
    off = []
    for _ in range(500):
        up, down, middle = (
            slope * x + 5.0 * np.sin(3.0 * x) - 15.0 * x + 1e-4 * rng.normal(size=np.shape(x))
            for x in (steps, -steps, np.zeros(()))
        )
        found = estimate(steps, up, down, float(middle))
        off.append(abs(found.value - slope) / found.uncertainty)
    assert np.mean(np.array(off) < 2.0) > 0.99
    assert max(off) < 5.0
    assert np.median(off) > 0.02


def test_end_of_a_range_is_approached_from_inside():
    """max(x, 0) + x² at zero: the values below are those of another branch."""
    steps = np.array(SPANS)
    f = lambda x: np.maximum(x, 0.0) + x**2  # noqa: E731
    found = estimate(steps, f(steps), f(-steps), 0.0, one_sided=True)
    assert found.value == pytest.approx(1.0, rel=1e-4)
    assert found.kink == 0.0


def test_wrong_arguments(device):
    model = scenes.sliders(1).finalize(device, requires_grad=True)
    loss = scenes.first_coordinate(model)
    with pytest.raises(NewtonsimError, match="samples"):
        check(model, loss, ("state.joint_q",), samples=0)
    with pytest.raises(NewtonsimError, match="spans"):
        check(model, loss, ("state.joint_q",), spans=(0.1, 0.2, 0.3))
