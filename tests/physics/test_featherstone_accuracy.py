"""Cases that are hard for float32 or for a velocity-level impact law."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run, diagonal_inertia, z_up

import newtonsim
from newtonsim import dynamics
from newtonsim.testing import random_state


@pytest.mark.parametrize("size", [0.03, 0.01, 0.003])
def test_small_link_far_from_the_base_keeps_its_inertia(device, size):
    """I + m d² of a finger a metre away from the origin of its tree, at any pose."""
    mass = 5.0e3 * size**3
    own = 0.4 * mass * size**2
    world = z_up()
    arm = world.add_body(mass=5.0, com=wp.vec3(0.0, 0.0, 0.5), I_m=diagonal_inertia(0.5, 0.5, 0.01))
    world.add_joint_revolute(-1, arm, axis=(1.0, 0.0, 0.0), armature=0.0)
    finger = world.add_body(mass=mass, com=wp.vec3(0.0, 0.0, -size), I_m=diagonal_inertia(own, own, own))
    wrist = wp.transform((0.0, 0.0, 1.0), wp.quat_identity())
    world.add_joint_revolute(
        arm, finger, axis=(0.0, 1.0, 0.0), parent_xform=wp.transform(wrist), armature=0.0
    )
    model = world.finalize(device)
    for seed in range(10):
        M = dynamics.mass_matrix(model, random_state(model, seed)).numpy()[0]
        assert M[1, 1] == pytest.approx(own + mass * size**2, rel=1.0e-4)


@pytest.mark.parametrize("rate", [60, 240])
def test_body_that_does_not_bounce_lands_on_the_ground_at_once(device, rate):
    world = z_up()
    body = world.add_body(origin=wp.transform((0.0, 0.0, 1.1), wp.quat_identity()))
    world.add_shape_sphere(body, radius=0.1, restitution=0.0)
    world.set_ground_plane(restitution=0.0)
    run = Run(world.finalize(device), 1.0 / rate).start()
    (poses,) = run.record(rate, "body_q")
    gap = poses[:, 0, 2] - 0.1
    landed = int(np.argmax(gap < 1.0e-3))
    fall = math.sqrt(2.0 / 9.81)
    assert landed / rate == pytest.approx(fall, abs=1.5 / rate)
    assert np.abs(gap[landed:]).max() < 1.0e-3
    assert np.all(np.diff(gap[: landed + 1]) < 0.0), "it has to fall all the way, without a stop in mid-air"


def test_model_without_degrees_of_freedom(device):
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(mass=1.0, I_m=diagonal_inertia(1.0, 1.0, 1.0))
    builder.add_joint_fixed(-1, body, parent_xform=wp.transform((1.0, 2.0, 3.0), wp.quat_identity()))
    model = builder.finalize(device)
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    newtonsim.eval_ik(model, state, state.joint_q, state.joint_qd)
    np.testing.assert_allclose(state.body_q.numpy()[0], [1, 2, 3, 0, 0, 0, 1])
    newtonsim.FeatherstoneSolver(model).step(model, state, state, None, None, 0.01)
    np.testing.assert_allclose(state.body_q.numpy()[0], [1, 2, 3, 0, 0, 0, 1])
    assert dynamics.jacobian(model, state).shape == (1, 6, 0)
    np.testing.assert_allclose(dynamics.center_of_mass(model, state).numpy()[0], [1, 2, 3])
