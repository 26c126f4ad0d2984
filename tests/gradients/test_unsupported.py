"""Worlds without a gradient, and worlds that went non-finite, among others."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.errors import NotDifferentiableError
from newtonsim.solvers import FeatherstoneSolver, XPBDSolver

STEPS, DT = 8, 1.0 / 240.0


@wp.kernel
def add_places(body_q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    b = wp.tid()
    p = wp.transform_get_translation(body_q[b])
    losses[b] = p[0] + 2.0 * p[1] + 3.0 * p[2]


def add_loss(state: newtonsim.State, losses: wp.array) -> None:
    wp.launch(add_places, len(losses), [state.body_q], [losses], device=losses.device)


def worlds(device: str, rim: bool) -> newtonsim.Model:
    """A ball in each of two worlds; in the second it may rest on the rim of a cylinder, which has no rule."""
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for world in range(2):
        one = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        ball = one.add_body(wp.transform((0.53, 0.0, 0.58), wp.quat_identity()))
        one.add_shape_sphere(ball, radius=0.1)
        if rim and world == 1:
            turn = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.5 * np.pi)
            one.add_shape_cylinder(-1, rot=turn, radius=0.5, half_height=0.5)
        scene.add_builder(one)
    return scene.finalize(device, requires_grad=True)


def test_a_world_without_gradient_is_nan_on_request(device: str):
    model = worlds(device, rim=True)
    solver, wrt = FeatherstoneSolver(model), ["state.joint_qd"]
    with pytest.raises(NotDifferentiableError, match=r"worlds \[1\]"):
        diff.rollout(model, solver, model.state(), None, STEPS, DT, add_loss, wrt)
    with pytest.warns(RuntimeWarning, match=r"worlds \[1\]"):
        result = diff.rollout(model, solver, model.state(), None, STEPS, DT, add_loss, wrt, strict=False)
    gradient = result.gradients["state.joint_qd"].numpy().reshape(2, 6)
    np.testing.assert_allclose(gradient[0, 3:], STEPS * DT * np.array([1.0, 2.0, 3.0]), rtol=1.0e-4)
    assert np.isnan(gradient[1]).all()


def test_a_world_that_went_nonfinite_is_no_refusal(device: str):
    model = worlds(device, rim=False)
    state = model.state()
    qd = state.joint_qd.numpy()
    qd[6] = np.nan
    state.joint_qd.assign(qd)
    rollout = diff.Rollout(model, FeatherstoneSolver(model), STEPS, DT, add_loss, wrt=["state.joint_qd"])
    with pytest.warns(RuntimeWarning):
        result = rollout(state)
    gradient = result.gradients["state.joint_qd"].numpy().reshape(2, 6)
    np.testing.assert_allclose(gradient[0, 3:], STEPS * DT * np.array([1.0, 2.0, 3.0]), rtol=1.0e-4)
    assert np.isnan(gradient[1]).all()
    assert result.nonfinite[0] == -1
    assert result.nonfinite[1] >= 0


@pytest.mark.parametrize("height", [0.58, 0.1], ids=["in flight", "on the ground"])
def test_materials_of_a_world_that_went_nonfinite_are_nan(device: str, height: float):
    """No contacts are found in it, so that friction gets no term at all; both worlds share the ground."""
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for _ in range(2):
        one = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        body = one.add_body(wp.transform((0.0, 0.0, height), wp.quat_identity()))
        one.add_shape_sphere(body, radius=0.1, mu=0.4)
        scene.add_builder(one)
    scene.set_ground_plane(mu=0.4)
    model = scene.finalize(device, requires_grad=True)
    qd = np.zeros((2, 6), np.float32)
    qd[:, 3] = 2.0, np.nan
    state = model.state()
    state.joint_qd.assign(qd.reshape(-1))
    wrt = ["model.shape_materials.mu", "model.body_mass", "control.joint_f"]
    forces = {"joint_f": np.zeros((STEPS, 12), np.float32)}
    rollout = diff.Rollout(model, FeatherstoneSolver(model), STEPS, DT, add_loss, wrt=wrt)
    with pytest.warns(RuntimeWarning, match="world 1 at state"):
        gradients = rollout(state, forces).gradients
    mu = gradients["model.shape_materials.mu"].numpy()
    shape_world = model.shape_world.numpy()
    assert np.isfinite(mu[shape_world == 0]).all()
    assert np.isnan(mu[shape_world != 0]).all()
    assert np.isnan(gradients["model.body_mass"].numpy()).tolist() == [False, True]
    by_force = gradients["control.joint_f"].numpy().reshape(STEPS, 2, 6)
    assert np.isfinite(by_force[:, 0]).all()
    assert np.isnan(by_force[:, 1]).all()


def test_armature_has_no_gradient_under_xpbd(device: str):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(mass=1.0, I_m=wp.mat33(np.eye(3)))
    builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), armature=0.1)
    model = builder.finalize(device, requires_grad=True)
    states = [model.state(), model.state()]
    solver = XPBDSolver(model)
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="armature"):
        solver.step(model, *states, None, None, DT)
    model.joint_armature.zero_()
    with wp.Tape():
        solver.step(model, *states, None, None, DT)
