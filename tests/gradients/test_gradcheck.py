"""newtonsim.diff.gradcheck finds wrong gradients, passes right ones, and admits what it cannot tell."""

import numpy as np
import pytest
import rollout_scenes as scenes
import warp as wp

import newtonsim
from newtonsim import diff
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
    assert report["state.joint_q"].verdict == report.verdict == "FAIL"
    assert str(report).splitlines()[-1] == "verdict: FAIL: error above 0.01 in state.joint_q, state.joint_qd"


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


def test_kink_with_a_gradient_of_zero_is_no_missing_effect(device):
    """|x - x0| just where the rollout ends: the slopes are -1 and 1, and the gradient lies between them."""
    model = scenes.sliders(1).finalize(device, requires_grad=True)
    state = model.state()
    state.joint_q.assign(np.array([0.25], np.float32))
    loss = scenes.by_world(model, scenes.add_distance_by_cases, 0.25)
    report = check(model, loss, ("state.joint_q",), state=state)
    found = report["state.joint_q"]
    assert found.gradient.tolist() == [0.0]
    assert found.kinks == pytest.approx(2.0, rel=1e-3)
    assert found.verdict == report.verdict == "not verified"
    assert "kink: state.joint_q: slopes on both sides differ" in str(report)
    assert "no effect" not in str(report)


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
    assert report["model.joint_spring_ref"].verdict == "no effect"
    assert "no effect: model.joint_spring_ref" in str(report)
    assert report.verdict == "pass"


def test_zero_within_noise_is_agreement(device):
    """All that falls falls alike: mass has an effect by rounding alone, in gradient and differences."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP)
    body = builder.add_body(mass=1.7, I_m=wp.mat33(np.eye(3)), key="stone")
    builder.add_articulation()
    builder.add_joint_prismatic(-1, body, axis=(0.3, 0.0, 0.9), armature=0.0)
    model = builder.finalize(device, requires_grad=True)
    wrt = ("state.joint_qd", "model.body_mass")
    report = check(model, scenes.first_coordinate(model), wrt)
    assert np.abs(report["model.body_mass"].difference).max() > 0.0
    assert report["model.body_mass"].verdict == "zero"
    assert report.verdict == "pass"
    assert "zero: model.body_mass: gradient and differences are zero within noise" in str(report)
    assert check(model, scenes.first_coordinate(model), wrt[1:]).verdict == "not verified"


def test_a_loss_of_nothing_is_not_a_pass(device):
    """A loss that the steps never reach has a gradient of zero everywhere, and so have the differences."""
    model = scenes.sliders(2).finalize(device, requires_grad=True)
    report = check(model, scenes.by_world(model, scenes.add_faint, 1.0, 0.0), ("state.joint_q",))
    assert report.verdict == "not verified"
    assert str(report).endswith("verdict: not verified: the loss depends on none of these")


def test_rounding_is_not_called_a_switch(device):
    """A loss of 1e4 beside which an effect of 1e-4 is lost; the large one of the other world is not."""
    model = scenes.sliders(2).finalize(device, requires_grad=True)
    state = model.state()
    state.joint_q.assign(np.array([1.0, 2.0e4], np.float32))
    report = check(
        model, scenes.by_world(model, scenes.add_faint, 1.0e4, 1.0e-4), ("state.joint_q",), state=state
    )
    found = report["state.joint_q"]
    assert found.reliable.tolist() == [False, True]
    assert "hides the effect at all steps" in found.reasons[0]
    assert "switch" not in found.reasons[0]
    assert "jump" not in found.reasons[0]


def test_errors_are_relative_to_all_that_was_sampled(device):
    """The pendulum swings in a plane: what turns it out of it is noise, and no measure of errors."""
    model = scenes.pendulums(1).finalize(device, requires_grad=True)
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    solver = newtonsim.SemiImplicitSolver(model, angular_damping=0.0)
    loss = scenes.body_heights(model)
    report = diff.gradcheck(
        model, solver, state, 10, 1.0e-3, loss, ("state.body_q", "state.body_qd"), samples=4
    )
    assert report.verdict == "pass", str(report)
    assert report.mixture_error < 1e-2
    assert "nan" not in str(report)


def test_without_samples_mixtures_tell(device):
    """A gradient that is wrong shows in a mixture of all."""
    model = scenes.sliders(1).finalize(device, requires_grad=True)
    state = model.state()
    state.joint_q.assign(np.array([0.7], np.float32))
    loss = scenes.by_world(model, scenes.add_misjudged_square)
    controls = {"joint_f": np.ones((20, 1), np.float32)}
    report = check(model, loss, ("control.joint_f",), state=state, controls=controls, samples=0)
    found = report["control.joint_f"]
    assert np.isnan(found.error)
    assert found.mixture_error > 0.02
    assert found.verdict == "FAIL"


def test_wrong_arguments(device):
    model = scenes.sliders(1).finalize(device, requires_grad=True)
    loss = scenes.first_coordinate(model)
    with pytest.raises(NewtonsimError, match="samples"):
        check(model, loss, ("state.joint_q",), samples=-1)
    with pytest.raises(NewtonsimError, match="spans"):
        check(model, loss, ("state.joint_q",), spans=(0.1, 0.2, 0.3))
