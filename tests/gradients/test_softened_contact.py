"""Contacts and limits softened by the option `smoothing`: where bodies rest, and gradients of that."""

import functools
import math
import warnings

import numpy as np
import pytest
import warp as wp
from scipy.optimize import brentq
from tasks import pushing_scenes as scenes

import newtonsim
from newtonsim import diff
from newtonsim.solvers import FeatherstoneSolver

WIDTH = 5.0e-3
SOFT = {"smoothing": WIDTH}
GRAVITY = 9.81
RATE = 1.0 / 0.028
FASTEST = {"contact": 1.0, "limit": 5.0}


def depth_under(load: float, width: float = WIDTH, kind: str = "contact") -> float:
    """Depth at which a spring bears a load, in units of the weight, by its law solved for the depth."""
    fastest = FASTEST[kind]

    def force(depth: float) -> float:
        if kind == "limit":
            return math.tanh(RATE * depth * depth / (width * fastest))
        return depth * math.tanh(RATE * depth / fastest)

    return brentq(lambda depth: force(depth) - load * force(width), 0.0, 10.0 * width, xtol=1e-9)


def ball(device: str, requires_grad: bool = False):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.1, density=400.0, mu=0.5)
    builder.set_ground_plane()
    return builder.finalize(device, requires_grad=requires_grad)


THICKNESS = 2.0e-5
"""Of both shapes together, by which they are apart at a distance of zero [m]."""


def test_ball_sinks_in_by_the_width(device):
    model = ball(device)
    q, qd = scenes.run(model, model.joint_q.numpy(), model.joint_qd.numpy(), 360, SOFT)
    assert 0.1 + THICKNESS - q[0, 2] == pytest.approx(WIDTH, rel=1e-3)
    assert np.abs(qd).max() < 1e-5


def test_box_on_four_corners_sinks_in_by_half_the_width(device):
    """Each corner bears a quarter of the weight, and springs are of second order."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.2, hy=0.15, hz=0.1, density=100.0)
    model = scenes.copies(builder, 1, device)
    q, _ = scenes.run(model, model.joint_q.numpy(), model.joint_qd.numpy(), 480, SOFT)
    assert depth_under(0.25) == pytest.approx(0.5 * WIDTH, rel=0.01)
    assert 0.1 + THICKNESS - q[0, 2] == pytest.approx(depth_under(0.25), rel=2e-3)


@pytest.mark.parametrize(("kind", "mass"), [("slide", 2.0), ("swing", 0.7)])
def test_limit_yields_by_the_width_over_its_lever(device, kind, mass):
    """A weight that hangs on the lower limit of its joint, along a rail or at the end of a lever."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    body = builder.add_body(mass=mass, I_m=wp.mat33(np.diag([0.01, 0.01, 0.01])))
    if kind == "slide":
        builder.add_joint_prismatic(-1, body, axis=(0.0, 0.0, 1.0), limit_lower=0.0, limit_upper=1.0)
        wanted = depth_under(1.0, kind="limit")
    else:
        arm = 0.4
        frames = {"child_xform": wp.transform((-arm, 0.0, 0.0), wp.quat_identity())}
        # up is negative about this axis
        builder.add_joint_revolute(
            -1, body, axis=(0.0, -1.0, 0.0), limit_lower=0.0, limit_upper=1.0, **frames
        )
        lever = math.sqrt(0.5 * 0.03 / mass + arm**2)
        wanted = depth_under(arm / lever, WIDTH / lever, "limit")
    model = builder.finalize(device)
    q, qd = scenes.run(model, model.joint_q.numpy(), model.joint_qd.numpy(), 480, SOFT)
    assert -q[0, 0] == pytest.approx(wanted, rel=3e-3)
    assert np.abs(qd).max() < 1e-5


def test_resting_height_by_force_and_by_mass(device):
    """Under weight and a force F the load is 1 + F/mg weights: its slope by the mass is that of -F/m²g."""
    force = 7.0
    model = ball(device, requires_grad=True)
    mass = float(model.body_mass.numpy()[0])
    load = 1.0 + force / (mass * GRAVITY)
    h = 1e-5
    slope = -(depth_under(load + h) - depth_under(load - h)) / (2.0 * h)
    state = model.state()
    state.joint_q.assign(np.array([0.0, 0.0, 0.1 - depth_under(load), 0.0, 0.0, 0.0, 1.0], np.float32))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)

    def height(final, losses):
        weights = wp.array(np.eye(7, dtype=np.float32)[2], device=device)
        wp.launch(scenes.weigh, 7, [final.joint_q, weights, losses], device=losses.device)

    wrt = ("model.body_mass", "control.joint_f")
    push = {"joint_f": np.array([0.0, 0.0, 0.0, 0.0, 0.0, -force], np.float32)}
    options = {"wrt": wrt, "warn": False, "capture": False}
    rollout = diff.Rollout(model, FeatherstoneSolver(model, **SOFT), 360, scenes.DT, height, **options)
    result = rollout(state, push)
    by_mass, by_force = (result.gradients[name].numpy() for name in wrt)
    assert by_mass[0] == pytest.approx(-slope * force / (mass**2 * GRAVITY), rel=5e-3)
    assert by_force[5] == pytest.approx(-slope / (mass * GRAVITY), rel=5e-3)


def test_bodies_do_not_rebound_and_do_not_tunnel(device):
    """Restitution is not read; what falls fast is caught, and pushed out at no more than a metre a second."""
    model = ball(device)
    model.shape_materials.restitution.fill_(0.9)
    q = model.joint_q.numpy() + np.array([0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0])
    qd = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -3.0])
    heights = [scenes.run(model, q, qd, steps, SOFT)[0][0, 2] for steps in range(20, 200, 20)]
    assert min(heights) > 0.05
    assert max(heights[2:]) < 0.1 + 0.5 * FASTEST["contact"] ** 2 / GRAVITY


@pytest.mark.parametrize("steps", [16, 64])
@pytest.mark.parametrize("robot", ["slider", "arm"])
def test_pushing_by_force_agrees_with_differences(device, robot, steps):
    """The way of a box by the force that pushes it, over spans of 1e-3 and 3e-3 of the 10 N of forces."""
    builder = scenes.slider(gap=0.0) if robot == "slider" else scenes.arm()
    q, qd = scenes.settled(builder, 120, SOFT, device)
    forces = np.zeros(len(qd))
    forces[:2] = (12.0, 0.0) if robot == "slider" else (3.0, 1.0)
    qd[0] = 0.5 if robot == "slider" else 0.0
    of = ("joint_q", 1 if robot == "slider" else 3)
    scene = scenes.Scene(builder, q, qd, of, steps, SOFT, device, forces)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of slopes by other forces, where friction switches
        found = scene.gradient("control.joint_f")[0]
    slopes = scene.slopes("joint_f", 0, (3e-2, 1e-2))
    print(robot, steps, found, slopes)
    np.testing.assert_allclose(slopes, found, rtol=0.02)


@functools.cache
def standing(robot: str, smoothing: float, device: str):
    """A robot, and its coordinates and velocities after it has stood for seconds."""
    builder, rest = (scenes.ant(), 1200) if robot == "ant" else (scenes.quadruped(), 720)
    return builder, *scenes.settled(builder, rest, {"smoothing": smoothing}, device)


@pytest.mark.parametrize("steps", [1, 4, 16])
@pytest.mark.parametrize("robot", ["ant", "quadruped"])
def test_standing_by_joint_angles_agrees_with_differences(device, robot, steps):
    """The vertical velocity of a robot at rest by its joint angles: a stack of kinks in rigid contact."""
    scene = scenes.Scene(*standing(robot, WIDTH, device), ("joint_qd", 5), steps, SOFT, device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = scene.gradient("state.joint_q")[7:]
    slopes = np.array([scene.slopes("joint_q", 7 + i, (1e-3,))[0] for i in range(len(found))])
    print(robot, steps, found, slopes)
    assert np.abs(found - slopes).max() < 0.05 * np.abs(slopes).max()


@pytest.mark.parametrize("robot", ["ant", "quadruped"])
def test_standing_on_rigid_contact_warns(device, robot):
    scene = scenes.Scene(*standing(robot, 0.0, device), ("joint_qd", 5), 1, {}, device)
    place = "foot" if robot == "ant" else "shank"
    with pytest.warns(RuntimeWarning, match=rf"world 0 differs by \d+%.*contact of body '\w*{place}'"):
        scene.gradient("state.joint_q")


def test_rollout_looks_ever_more_rarely_and_leaves_no_trace(device):
    """Calls 1, 2, 4 are compared, each input along three directions.

    Gradients and further backward passes are what they are without.
    """
    scene = scenes.Scene(*standing("quadruped", 0.0, device), ("joint_qd", 5), 3, {}, device)
    rollout, arguments = scene.rollout(("state.joint_q", "model.body_mass"))
    silent, same = scene.rollout(("state.joint_q", "model.body_mass"), warn=False)
    plain = {name: g.numpy() for name, g in silent(*same).gradients.items()}
    made = []
    evaluate = rollout.evaluate
    rollout.evaluate = lambda *given: (made.append(1), evaluate(*given))[1]
    counts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            result = rollout(*arguments)
            counts.append(len(made))
    once = counts[0]
    assert 12 <= once <= 60
    assert counts == [once, 2 * once, 2 * once, 3 * once, 3 * once]
    for gradients in (result.gradients, rollout.backward()):
        for name, gradient in gradients.items():
            np.testing.assert_array_equal(gradient.numpy(), plain[name], err_msg=name)
    np.testing.assert_array_equal(rollout.model.body_mass.numpy(), silent.model.body_mass.numpy())


def test_smoothing_that_cannot_push_is_refused(device):
    with pytest.raises(ValueError, match=r"max_push_speed: expected more than 0 with smoothing=0\.005"):
        FeatherstoneSolver(ball(device), **SOFT, max_push_speed=0.0)
    with pytest.raises(ValueError, match="smoothing: expected a number of at least 0, got -1"):
        FeatherstoneSolver(ball(device), smoothing=-1.0)
