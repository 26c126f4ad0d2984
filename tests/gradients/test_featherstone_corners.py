"""Gradients of FeatherstoneSolver: what is refused by name, and trees beside single bodies."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.errors import NotDifferentiableError
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0


@wp.kernel
def weigh(q: wp.array(dtype=float), qd: wp.array(dtype=float), losses: wp.array(dtype=float)):
    for i in range(q.shape[0]):
        wp.atomic_add(losses, 0, q[i] * wp.sin(1.3 * float(i) + 0.7))
    for i in range(qd.shape[0]):
        wp.atomic_add(losses, 0, 0.3 * qd[i] * wp.cos(2.1 * float(i) + 0.3))


def loss(state: newtonsim.State, losses: wp.array) -> None:
    """A sum of all coordinates and velocities in which none cancels another."""
    wp.launch(weigh, 1, [state.joint_q, state.joint_qd, losses], device=losses.device)


def ball_on_ground(depth: float = 0.0) -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1 - depth), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.1, density=400.0, mu=0.5, restitution=0.0)
    builder.set_ground_plane(mu=0.5, restitution=0.0)
    return builder


def add_arm(builder: newtonsim.ModelBuilder, height: float) -> None:
    """Two links that reach over the ground, the second with a ball at its end at a height [m]."""
    builder.add_articulation()
    parent = -1
    for i in range(2):
        body = builder.add_body(key=f"link{i}", mass=0.5, I_m=wp.mat33(np.diag([0.01, 0.01, 0.01])))
        anchor = wp.transform((-0.6 if i == 0 else 0.4, 0.0, height if i == 0 else 0.0), wp.quat_identity())
        builder.add_joint_revolute(parent, body, parent_xform=anchor, axis=(0.0, 1.0 - 0.3 * i, 0.3 * i))
        parent = body
    at_end = {"pos": (0.2, 0.0, 0.0), "radius": 0.05, "density": 300.0}
    builder.add_shape_sphere(parent, **at_end, mu=0.5, restitution=0.0)


def test_arm_slides_on_a_ball_that_is_pushed_out_of_the_ground(device: str):
    """The solution that moves the ball knows the arm at another velocity than that at which the arm moves."""
    builder = ball_on_ground(depth=4.0e-3)
    add_arm(builder, height=0.243)
    model = builder.finalize(device, requires_grad=True)
    state = model.state()
    qd = np.zeros(model.joint_dof_count, np.float32)
    qd[3:5] = (0.2, 0.5)
    qd[-2:] = (0.5, -0.8)
    state.joint_qd.assign(qd)
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    solver = FeatherstoneSolver(model, iterations=200, tolerance=1.0e-7)
    wrt = ("state.joint_qd", "model.body_mass", "model.shape_materials.mu")
    report = diff.gradcheck(model, solver, state, 1, DT, loss, wrt, samples=40, tolerance=1.0e-3)
    print(report)
    for name in wrt:
        # the ball's contacts pass some of its push, the gradient is that of rigid ones
        assert report[name].error < 5.0e-3


def add_wedged_ball(builder: newtonsim.ModelBuilder) -> None:
    """A ball in a gap narrower than itself between two fixed boxes, out of reach of all else."""
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 1.0), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.1, mu=1.0)
    for x in (-0.29, 0.29):
        builder.add_shape_box(-1, pos=(x, 0.0, 1.0), hx=0.2, hy=1.0, hz=0.5, mu=1.0)


def test_a_wedged_ball_leaves_the_gradient_of_another_alone(device: str):
    """A ball slides while it is pushed out of the ground, whatever is wedged elsewhere."""

    @wp.kernel
    def weigh_first(q: wp.array(dtype=float), qd: wp.array(dtype=float), losses: wp.array(dtype=float)):
        for i in range(7):
            wp.atomic_add(losses, 0, 100.0 * q[i] * wp.sin(1.3 * float(i) + 0.7))
        for i in range(6):
            wp.atomic_add(losses, 0, qd[i] * wp.cos(2.1 * float(i) + 0.3))

    def first(state: newtonsim.State, losses: wp.array) -> None:
        wp.launch(weigh_first, 1, [state.joint_q, state.joint_qd, losses], device=losses.device)

    found = []
    for wedged in (False, True):
        builder = ball_on_ground(depth=4.0e-3)
        if wedged:
            add_wedged_ball(builder)
        model = builder.finalize(device, requires_grad=True)
        state = model.state()
        qd = np.zeros(model.joint_dof_count, np.float32)
        qd[:6] = [3.0, 0.0, 0.0, 2.0, 0.5, 0.0]
        state.joint_qd.assign(qd)
        newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
        wrt = ("state.joint_qd", "model.shape_materials.mu")
        result = diff.rollout(model, FeatherstoneSolver(model), state, None, 1, DT, first, wrt)
        speeds, friction = (result.gradients[name].numpy() for name in wrt)
        found.append([*speeds[:6], friction[0]])
    np.testing.assert_allclose(found[1], found[0], rtol=1.0e-5)
    assert abs(found[0][-1]) > 0.1


@pytest.mark.parametrize("cone", ["pyramidal", "weighted"])
def test_other_cones_are_refused(cone: str, device: str):
    model = ball_on_ground().finalize(device, requires_grad=True)
    solver = FeatherstoneSolver(model, cone=cone)
    with wp.Tape(), pytest.raises(NotDifferentiableError, match=cone):
        solver.step(model, model.state(), model.state(), model.control(), None, DT)


def test_pyramidal_cone_without_contacts_has_gradients(device: str):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    add_arm(builder, height=1.0)
    model = builder.finalize(device, requires_grad=True)
    solver = FeatherstoneSolver(model, cone="pyramidal")
    report = diff.gradcheck(model, solver, model.state(), 5, DT, loss, ("state.joint_q",))
    assert report.error < 1.0e-3


def test_compliant_contact_without_a_rule_is_named(device: str):
    """In two worlds a ball lies on a ball, and on an ellipsoid, which has no rule: that world is named."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    material = {"ke": 2.0e4, "kd": 50.0, "kf": 100.0}
    for base in ("ball", "ellipsoid"):
        one = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        body = one.add_body(origin=wp.transform((0.0, 0.0, 0.1999), wp.quat_identity()))
        one.add_shape_sphere(body, radius=0.1, **material)
        if base == "ball":
            one.add_shape_sphere(-1, radius=0.1, **material)
        else:
            one.add_shape_ellipsoid(-1, a=0.2, b=0.15, c=0.1, **material)
        builder.replicate(one, 1)
    model = builder.finalize(device, requires_grad=True)
    solver = FeatherstoneSolver(model, contact_mode="compliant")
    a, b = model.state(), model.state()
    with wp.Tape() as tape:
        solver.step(model, a, b, None, None, 1.0e-3)
    seed = wp.array(np.ones(12, np.float32), dtype=float, device=device)
    with pytest.raises(NotDifferentiableError, match=r"worlds \[1\]: a contact acts whose shapes"):
        tape.backward(grads={b.joint_qd: seed})
    tape.zero()
    with wp.ScopedCapture(device=device) as capture:
        tape.backward(grads={b.joint_qd: seed})
    wp.capture_launch(capture.graph)
    gradient = a.joint_qd.grad.numpy().reshape(2, 6)
    assert np.isfinite(gradient[0]).all()
    assert np.isnan(gradient[1]).any()
    with pytest.raises(NotDifferentiableError, match=r"worlds \[1\]"):
        solver.check_gradient()
    solver.check_gradient()
