"""Compliant contact: springs and dampers with known equilibria, and gradients through touch and slip."""

import itertools
import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run

import newtonsim
from newtonsim.testing import assert_gradients

G = 9.81


def ball_on_ground(device, mass=1.0, ke=1.0e4, kd=10.0, mu=0.5, kf=1.0e3, requires_grad=False, height=0.1):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    material = {"ke": ke, "kd": kd, "kf": kf, "mu": mu}
    origin = wp.transform((0.0, 0.0, height), wp.quat_identity())
    body = builder.add_body(origin=origin, mass=mass, I_m=wp.mat33(np.eye(3) * 0.4 * mass * 0.01), key="ball")
    builder.add_shape_sphere(body, radius=0.1, density=0.0, thickness=0.0, **material)
    builder.set_ground_plane(**material)
    return builder.finalize(device, requires_grad=requires_grad)


def test_ball_rests_where_spring_and_weight_balance(device):
    model = ball_on_ground(device, mass=2.0, ke=5.0e3, kd=50.0)
    run = Run(model, 1.0e-3, contact_mode="compliant").start()
    run.run_for(4.0)
    # the plane carries the default thickness of 1e-5 m
    depth = 2.0 * G / 5.0e3
    assert run.body_q[0, 2] == pytest.approx(0.1 - depth + 1.0e-5, abs=2.0e-5)
    assert np.abs(run.body_qd).max() < 1.0e-3


def test_undamped_ball_bounces_with_the_period_of_flight_and_spring(device):
    """Half an oscillation of the spring and a flight: t = 2 v/g + π/ω + 2 atan(g/(ω v))/ω."""
    model = ball_on_ground(device, mass=1.0, ke=1.0e4, kd=0.0, mu=0.0, height=0.5)
    run = Run(model, 1.0e-4, contact_mode="compliant").start()
    (heights,) = run.record(12000, "body_q")
    z = heights[:, 0, 2]
    peaks = [i for i in range(1, len(z) - 1) if z[i] > z[i - 1] and z[i] >= z[i + 1]]
    v, omega = math.sqrt(2.0 * G * 0.4), 100.0
    period = 2.0 * v / G + (math.pi + 2.0 * math.atan(G / (omega * v))) / omega
    assert peaks[0] * 1.0e-4 == pytest.approx(period, rel=2.0e-3)
    assert z[peaks[0]] == pytest.approx(0.5, abs=2.0e-3)


def test_sliding_block_slows_down_by_friction(device):
    model = ball_on_ground(device, mu=0.3)
    # a ball that cannot turn: huge rotational inertia makes it slide like a block
    model.body_inertia.assign(np.eye(3, dtype=np.float32)[None] * 1.0e6)
    depth = G / 1.0e4
    run = Run(model, 1.0e-3, contact_mode="compliant")
    run.start([0.0, 0.0, 0.1 - depth, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 2.0, 0.0, 0.0])
    run.run_for(0.5)
    assert run.body_qd[0, 3] == pytest.approx(2.0 - 0.3 * G * 0.5, rel=1.0e-2)


def test_gradient_of_a_ball_that_presses_and_slips(device):
    """State, wrench, mass and materials all have gradients; touch-down itself is a kink and left out."""
    model = ball_on_ground(device, ke=500.0, kd=5.0, mu=0.2, kf=50.0, requires_grad=True, height=0.095)
    solver = newtonsim.FeatherstoneSolver(model, contact_mode="compliant")
    states = [model.state() for _ in range(51)]
    control = model.control()
    states[0].joint_qd.assign([0.5, 0.3, 0.0, 3.0, 1.0, -1.0])

    def rollout() -> wp.array:
        for before, after in itertools.pairwise(states):
            before.body_f = states[0].body_f
            solver.step(model, before, after, control, None, 2.0e-3)
        return states[-1].joint_qd

    rollout()
    assert max(state.joint_q.numpy()[2] for state in states) < 0.099, "it has to keep touching"
    arrays = {
        "joint_qd": states[0].joint_qd,
        "body_f": states[0].body_f,
        "body_mass": model.body_mass,
        "mu": model.shape_materials.mu,
    }
    errors = assert_gradients(rollout, arrays, rtol=1.0e-3, steps=(0.04, 0.02, 0.01, 0.005))
    errors |= assert_gradients(rollout, {"joint_q": states[0].joint_q}, steps=(4e-3, 2e-3, 1e-3))
    print({name: f"{error:.1e}" for name, error in errors.items()})
    stiff = {"ke": model.shape_materials.ke, "kd": model.shape_materials.kd}
    assert_gradients(rollout, stiff, rtol=1.0e-3, steps=(0.1, 0.05, 0.03, 0.02))


def test_unknown_mode_names_the_choice(device):
    with pytest.raises(ValueError, match="'hard' or 'compliant', got 'soft'"):
        newtonsim.FeatherstoneSolver(ball_on_ground(device), contact_mode="soft")
