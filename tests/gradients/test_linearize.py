"""newtonsim.diff.linearize against analytic systems and against itself by the other method."""

import math

import numpy as np
import pytest
import rollout_scenes as scenes
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.errors import NewtonsimError
from newtonsim.testing import random_model, random_state

DT = 0.01
METHODS = ("adjoint", "difference")


@pytest.mark.parametrize("method", METHODS)
def test_double_integrator(device, method):
    """Symplectic Euler: v' = v + h u / m, x' = x + h v'; after k steps A and B are polynomials in h."""
    mass, k = 2.0, 5
    model = scenes.sliders(3, mass).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    A, B = diff.linearize(model, solver, model.state(), None, DT, steps=k, method=method)
    one = np.array([[1.0, DT], [0.0, 1.0]])
    by_force = np.array([DT**2 / mass, DT / mass])
    wanted = sum(np.linalg.matrix_power(one, i) @ by_force for i in range(k))
    for world in range(3):
        np.testing.assert_allclose(A[world], np.linalg.matrix_power(one, k), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(B[world, :, 0], wanted, rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_pendulum(device, method):
    """A rod at angle a, different in each world: the slope of gravity's torque is known."""
    one = newtonsim.ModelBuilder(up_vector=scenes.UP)
    inertia = wp.mat33(0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.1)
    body = one.add_body(com=(0.0, 0.0, -0.5), I_m=inertia, mass=1.2, key="rod")
    one.add_articulation()
    one.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), armature=0.0)
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP)
    builder.replicate(one, 3)
    model = builder.finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    angles = np.array([0.0, 0.8, math.pi - 0.1])
    state = model.state()
    state.joint_q.assign(angles.astype(np.float32))
    A, B = diff.linearize(model, solver, state, None, DT, method=method)
    total, lever = 0.1 + 1.2 * 0.25, 1.2 * 9.81 * 0.5
    for world, angle in enumerate(angles):
        stiffness = -lever * math.cos(angle) / total
        wanted = np.array([[1.0 + DT**2 * stiffness, DT], [DT * stiffness, 1.0]])
        np.testing.assert_allclose(A[world], wanted, rtol=2e-3, atol=2e-4)
        np.testing.assert_allclose(B[world, :, 0], [DT**2 / total, DT / total], rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("steps", [1, 4])
def test_methods_agree_for_all_joint_types(device, steps):
    """Free, ball and distance joints with frames, off-centre masses: tangent coordinates have to match."""
    model = random_model(3, body_count=10).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    state = random_state(model, 5, angle=0.4, speed=0.5)
    for inputs in ("joint_f", "joint_act"):
        adjoint = diff.linearize(model, solver, state, None, 0.01, steps, inputs)
        difference = diff.linearize(model, solver, state, None, 0.01, steps, inputs, method="difference")
        for name, a, b in zip("AB", adjoint, difference):
            assert np.abs(b).max() > 0.0
            assert np.linalg.norm(a - b) < 2e-3 * np.linalg.norm(b), name


def test_solver_of_bodies_is_linearised_in_joint_coordinates(device):
    """SemiImplicitSolver reads poses, not joint coordinates: the chain through kinematics must be there."""
    builder = scenes.pendulums(2)
    model = builder.finalize(device, requires_grad=True)
    solver = newtonsim.SemiImplicitSolver(model)
    state = model.state()
    A, B = diff.linearize(model, solver, state, None, 1e-3)
    C, D = diff.linearize(model, solver, state, None, 1e-3, method="difference")
    assert np.linalg.norm(A - C) < 5e-3 * np.linalg.norm(C)
    assert np.linalg.norm(B - D) < 5e-3 * np.linalg.norm(D)


def test_methods_differ_at_resting_contact(device):
    """A box on the ground stays there by the adjoint; from above it falls: differences are -g h / 2 span."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP)
    box = builder.add_body(wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, mu=0.5, restitution=0.0)
    builder.set_ground_plane(mu=0.5, restitution=0.0)
    model = builder.finalize(device, requires_grad=True)
    solver, state = newtonsim.FeatherstoneSolver(model), model.state()
    dt, height, speed = 1.0 / 240.0, 5, 6 + 5
    A, _ = diff.linearize(model, solver, state, None, dt)
    np.testing.assert_allclose(A[0, speed, [height, speed]], 0.0, atol=1e-4)
    for span in (3e-3, 1e-3):
        A, _ = diff.linearize(model, solver, state, None, dt, method="difference", span=span)
        assert A[0, speed, height] == pytest.approx(-9.81 * dt / (2.0 * span), rel=1e-3)


def test_wrong_arguments(device):
    model = scenes.sliders(2).finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    with pytest.raises(NewtonsimError, match="method"):
        diff.Linearizer(model, solver, DT, method="guess")
    with pytest.raises(NewtonsimError, match="inputs"):
        diff.Linearizer(model, solver, DT, inputs="body_f")
    mixed = scenes.sliders(1)
    mixed.add_builder(scenes.pendulums(1))
    uneven = mixed.finalize(device, requires_grad=True)
    with pytest.raises(NewtonsimError, match="degrees of freedom"):
        diff.Linearizer(uneven, newtonsim.FeatherstoneSolver(uneven), DT)


def test_a_robot_that_is_pushed_out_of_the_ground_yields_by_its_depth(device):
    """The faster it comes down, the less of its push it gets: by 5 % where it came down with 5 m/s."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP)
    upper = builder.add_body(mass=2.0, I_m=np.eye(3))
    builder.add_joint_prismatic(-1, upper, axis=(0.0, 0.0, 1.0))
    ball = builder.add_body()
    builder.add_shape_sphere(ball, radius=0.1, density=1000.0)
    builder.add_joint_revolute(upper, ball, axis=(0.0, 0.0, 1.0))
    builder.set_ground_plane(mu=0.0, restitution=0.0)
    model = builder.finalize(device, requires_grad=True)
    state = model.state()
    state.joint_q.assign([0.098, 0.0])
    state.joint_qd.assign([-5.0, 0.0])
    closed = diff.Linearizer(model, newtonsim.FeatherstoneSolver(model), DT)
    backward = diff.Linearizer(model, newtonsim.FeatherstoneSolver(model), DT)
    backward._closed = None
    difference = diff.linearize(
        model, newtonsim.FeatherstoneSolver(model), state, None, DT, method="difference", span=1e-4
    )
    for linearizer in (closed, backward):
        np.testing.assert_allclose(linearizer(state).A, difference.A, rtol=5e-3, atol=2e-2)
    assert difference.A[0, 2, 0] < -10.0
