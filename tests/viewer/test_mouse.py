"""The spring of the mouse, and poses under it, against what mechanics says."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import Simulator
from newtonsim.cli.scene import load_robot
from newtonsim.examples import asset_path
from newtonsim.geometry.transforms import transform_point
from newtonsim.kinematics import eval_fk
from newtonsim.render.viewer import Viewer
from newtonsim.render.viewer.frames import Frame
from newtonsim.render.viewer.mouse import Grab, Mouse
from newtonsim.render.viewer.trees import Trees
from newtonsim.solvers import FeatherstoneSolver

FREQUENCY = 15.0


def box(gravity):
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=gravity)
    body = builder.add_body()
    builder.add_joint_free(body)
    builder.add_shape_box(body, hx=0.2, hy=0.1, hz=0.1, density=500.0)
    return builder.finalize("cpu")


def held(model, simulator, local, target):
    """A mouse that holds a point of body 0."""
    mouse = Mouse(model, lambda: Frame.of(simulator.state, 0.0), lambda: SimpleNamespace(playing=True))
    mouse._grab = Grab(0, np.array(local, float), np.array(target, float), 0)
    return mouse


def run(simulator, mouse, seconds):
    for _ in range(round(seconds / simulator.dt)):
        with mouse.pulling(simulator.state, simulator.dt):
            simulator.step()


def test_a_free_body_follows_as_critical_damping_says():
    model = box(0.0)
    simulator = Simulator(model, FeatherstoneSolver(model), 1.0 / 2000.0)
    mouse = held(model, simulator, (0, 0, 0), (1.0, 0.0, 0.0))
    for seconds in (0.05, 0.2):
        run(simulator, mouse, seconds - simulator.time)
        phase = FREQUENCY * seconds
        # x'' = ω² (1 - x) - 2 ω x'
        assert simulator.state.body_q.numpy()[0, 0] == pytest.approx(
            1 - (1 + phase) * np.exp(-phase), abs=0.01
        )
    assert not simulator.state.body_f.numpy().any()


def test_a_hanging_body_sags_by_its_weight_and_hangs_below_the_point():
    model = box(-9.81)
    simulator = Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)
    mouse = held(model, simulator, (0.2, 0, 0), (0.0, 0.0, 1.0))
    run(simulator, mouse, 12.0)
    pose = simulator.state.body_q.numpy()[0].astype(float)
    point = transform_point(pose, np.array([0.2, 0, 0]))
    # it still swings a little: nothing damps its turning about the point
    assert point == pytest.approx([0.0, 0.0, 1.0 - 9.81 / FREQUENCY**2], abs=5e-3)
    assert pose[2] == pytest.approx(point[2] - 0.2, abs=1e-2)


def test_forces_of_the_user_stay():
    model = box(0.0)
    simulator = Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)
    own = np.array([[0.0, 0.1, 0.0, 1.0, 2.0, 3.0]], np.float32)
    simulator.state.body_f.assign(own)
    run(simulator, held(model, simulator, (0.1, 0.1, 0), (0, 0, 1)), 0.1)
    assert (simulator.state.body_f.numpy() == own).all()


@pytest.mark.parametrize(("step", "sag"), [(1.0 / 60.0, 0.6), (1.0 / 240.0, 0.05)])
def test_a_robot_can_be_lifted_by_a_light_link_at_any_step(step, sag):
    """The stiffness heeds the lightest mass that the point may show, so that nothing blows up."""
    model = load_robot(asset_path("quadruped.xml"), hold=True).builder.finalize("cpu")
    simulator = Simulator(model, FeatherstoneSolver(model), step)
    mouse = held(model, simulator, (0, 0, 0), (0, 0, 0))
    shank, target = model.body_key.index("fl_shank"), np.array([0.5, 0.5, 1.5])
    mouse._grab = Grab(shank, np.array([0.0, 0.0, -0.1]), target, 0)
    mouse.strength = 10.0
    run(simulator, mouse, 2.0)
    points = []
    for _ in range(20):
        run(simulator, mouse, 0.1)
        pose = simulator.state.body_q.numpy()[shank].astype(float)
        points.append(transform_point(pose, mouse._grab.local))
    # it still swings: its mean place shows the weight
    assert np.linalg.norm(np.mean(points, axis=0) - target) < sag
    # it swings like a pendulum that fell by its length, about 0.4 m: ω² l = 2 g, twice that is too much
    assert np.abs(simulator.state.body_qd.numpy()[:, :3]).max() < 2.0 * np.sqrt(2.0 * 9.81 / 0.4)


def test_a_free_robot_is_carried_as_it_is():
    model = load_robot(asset_path("quadruped.xml")).builder.finalize("cpu")
    state = model.state()
    eval_fk(model, state.joint_q, state.joint_qd, None, state)
    before = state.body_q.numpy().copy()
    foot, target = model.body_key.index("rr_shank"), np.array([1.0, -2.0, 3.0])
    Trees(model).pull(state, foot, np.zeros(3), target)
    after = state.body_q.numpy()
    assert after[foot, :3] == pytest.approx(target, abs=1e-5)
    assert after[:, :3] - before[:, :3] == pytest.approx(
        np.tile(target - before[foot, :3], (13, 1)), abs=1e-5
    )
    assert after[:, 3:] == pytest.approx(before[:, 3:], abs=1e-6)


def test_a_fixed_robot_bends_to_the_mouse_within_its_limits():
    model = load_robot(asset_path("arm7.urdf")).builder.finalize("cpu")
    state = model.state()
    eval_fk(model, state.joint_q, state.joint_qd, None, state)
    hand = model.body_count - 1
    target = state.body_q.numpy()[hand, :3] + np.array([0.3, 0.1, -0.3])
    trees = Trees(model)
    for _ in range(15):
        trees.pull(state, hand, np.zeros(3), target)
    assert state.body_q.numpy()[hand, :3] == pytest.approx(target, abs=0.02)
    q = state.joint_q.numpy()
    assert (q >= model.joint_limit_lower.numpy() - 1e-5).all()
    assert (q <= model.joint_limit_upper.numpy() + 1e-5).all()


def test_a_body_without_joints_is_carried_alone():
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    for x in (0.0, 1.0):
        body = builder.add_body(origin=wp.transform((x, 0, 0), wp.quat_identity()))
        builder.add_shape_sphere(body, radius=0.1)
    model = builder.finalize("cpu")
    state = model.state()
    Trees(model).pull(state, 1, np.zeros(3), np.array([0.0, 5.0, 0.0]))
    assert state.body_q.numpy()[:, :3].tolist() == [[0, 0, 0], [0, 5, 0]]


def test_worlds_that_are_laid_out_apart_are_dragged_where_they_are_shown():
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    body = robot.add_body()
    robot.add_joint_free(body)
    robot.add_shape_sphere(body, radius=0.1)
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.replicate(robot, 2, spacing=(0.0, 0.0, 0.0))
    model = scene.finalize("cpu")
    simulator = Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)
    with Viewer(model, port=0, effects=False) as viewer:
        viewer.run(simulator, paused=True)
        offset = viewer.scene.layout.offset(np.array([1]))[0]
        assert np.linalg.norm(offset) > 0.1
        for phase, height in (("start", 0.1), ("update", 0.6), ("end", 1.1)):
            event = SimpleNamespace(
                phase=phase,
                start_position=offset + np.array([0.0, 0.0, 0.1]),
                end_position=offset + np.array([0.0, 0.0, height]),
                client_id=7,
            )
            viewer.mouse._drag(event, 1, offset)
        end = time.monotonic() + 10.0
        while viewer.frame.body_q[1, 2] < 0.9:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert viewer.frame.body_q[:, :3] == pytest.approx(np.array([[0, 0, 0], [0, 0, 1.0]]), abs=1e-5)
        assert not viewer.mouse.holds
