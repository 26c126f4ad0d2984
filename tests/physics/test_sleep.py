"""Islands at rest fall asleep, stand still, and wake when they should."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run

from newtonsim import ModelBuilder

DT = 1.0 / 240.0


def at(x: float, y: float, z: float) -> wp.transform:
    return wp.transform((x, y, z), wp.quat_identity())


def two_piles(device: str, **options) -> Run:
    """Two boxes on each other at x = 0, one box at x = 2, a ball high above the pile."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for x, z in ((0.0, 0.1), (0.0, 0.3), (2.0, 0.1)):
        builder.add_shape_box(builder.add_body(origin=at(x, 0.0, z)), hx=0.1, hy=0.1, hz=0.1)
    builder.add_shape_sphere(builder.add_body(origin=at(0.0, 0.0, 8.0)), radius=0.1)
    builder.set_ground_plane()
    return Run(builder.finalize(device), DT, sleep=True, **options)


def asleep(run: Run) -> list[int]:
    return run.solver.sleep.asleep.numpy().tolist()


def test_islands_at_rest_sleep_and_stand_still(device: str):
    run = two_piles(device)
    run.run_for(0.4)
    assert asleep(run) == [0, 0, 0, 0]
    run.run_for(0.2)
    assert asleep(run) == [1, 1, 1, 0]
    pose = run.body_q[:3]
    run.run_for(0.2)
    np.testing.assert_array_equal(run.body_q[:3], pose)
    assert np.all(run.body_qd[:3] == 0.0)


def test_sleeping_costs_no_contacts_between_sleepers(device: str):
    run = two_piles(device)
    run.run_for(0.4)
    awake = int(run.solver.contacts.rigid_contact_count.numpy()[0])
    run.run_for(0.4)
    assert awake == 12
    assert run.solver.contacts.rigid_contact_count.numpy()[0] == 0


def test_falling_ball_wakes_the_pile_it_hits_and_no_other(device: str):
    """The impact is that of a run without sleep, to the rounding of the warm start."""
    run, free = two_piles(device), two_piles(device)
    free.solver.sleep = None
    seconds = np.sqrt(2.0 * (8.0 - 0.5) / 9.81)
    for scene in (run, free):
        scene.run_for(seconds + 0.2)
    assert asleep(run)[:3] == [0, 0, 1]
    np.testing.assert_allclose(run.body_q[:, :3], free.body_q[:, :3], atol=2e-3)


@pytest.mark.parametrize("offset", [0.0, 0.05, 0.1, 0.15])
def test_a_fast_ball_gives_a_sleeping_box_its_momentum(device: str, offset: float):
    """The box wakes before the step of the impact: if it slept through it, it would be like a wall."""
    builder = ModelBuilder(gravity=0.0)
    for x in (0.0, -60.0 - offset):
        builder.add_shape_sphere(builder.add_body(origin=at(x, 0.0, 0.0)), radius=0.1, density=1000.0)
    qd = np.zeros((2, 6))
    qd[1, 3] = 50.0
    run = Run(builder.finalize(device), DT, sleep=True).start(joint_qd=qd)
    run.run_for(1.0)
    assert asleep(run) == [1, 0]
    run.run_for(0.5)
    np.testing.assert_allclose(run.body_qd[:, 3], 25.0, rtol=1e-4)


def test_a_tower_sleeps_as_a_whole_and_wakes_as_a_whole(device: str):
    run = two_piles(device)
    run.run_for(0.8)
    force = np.zeros((4, 6), np.float32)
    force[1, 3] = 1.0
    run.state.body_f.assign(force)
    run.step(1)
    assert asleep(run) == [0, 0, 1, 0]


@pytest.mark.parametrize("what", ["velocity", "pose", "joint force", "gravity", "call"])
def test_inputs_wake(device: str, what: str):
    run = two_piles(device)
    run.run_for(0.8)
    dofs = slice(12, 18)
    if what == "velocity":
        qd = run.state.joint_qd.numpy()
        qd[15] = 0.5
        run.state.joint_qd.assign(qd)
    elif what == "pose":
        q = run.state.joint_q.numpy()
        q[14] += 0.01
        run.state.joint_q.assign(q)
    elif what == "joint force":
        f = run.control.joint_f.numpy()
        f[dofs] = 1.0
        run.control.joint_f.assign(f)
    elif what == "gravity":
        run.model.gravity = (0.0, 0.0, -5.0)
    else:
        run.solver.wake()
    run.step(1)
    assert asleep(run)[2] == 0
    assert asleep(run)[0] == int(what not in ("gravity", "call"))


def test_worlds_sleep_on_their_own(device: str):
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    world.add_shape_box(world.add_body(origin=at(0.0, 0.0, 0.1)), hx=0.1, hy=0.1, hz=0.1)
    main = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    main.replicate(world, 3)
    main.set_ground_plane()
    run = Run(main.finalize(device), DT, sleep=True)
    qd = run.state.joint_qd.numpy().reshape(3, -1)
    qd[1, 3] = 3.0
    run.start(joint_qd=qd)
    run.run_for(0.6)
    assert asleep(run) == [1, 0, 1]
    run.solver.reset(run.state, wp.array([True, False, False], dtype=bool, device=device))
    assert asleep(run) == [0, 0, 1]


def test_a_body_that_a_kinematic_one_pushes_wakes(device: str):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_shape_box(builder.add_body(origin=at(0.0, 0.0, 0.1)), hx=0.1, hy=0.1, hz=0.1)
    pusher = builder.add_body(origin=at(-0.5, 0.0, 0.1), mass=0.0)
    builder.add_shape_box(pusher, hx=0.1, hy=0.1, hz=0.05, density=0.0)
    builder.set_ground_plane()
    run = Run(builder.finalize(device), DT, sleep=True)
    run.run_for(0.8)
    assert asleep(run) == [1]
    qd = run.state.body_qd.numpy()
    qd[pusher, 3] = 0.5
    run.state.body_qd.assign(qd)
    run.run_for(1.0)
    assert run.body_q[0, 0] == pytest.approx(0.2, abs=0.01)


def test_a_body_wakes_when_its_support_is_taken_away(device: str):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_shape_box(builder.add_body(origin=at(0.0, 0.0, 0.7)), hx=0.1, hy=0.1, hz=0.1)
    support = builder.add_body(origin=at(0.0, 0.0, 0.3), mass=0.0)
    builder.add_shape_box(support, hx=0.3, hy=0.3, hz=0.3, density=0.0)
    builder.set_ground_plane()
    run = Run(builder.finalize(device), DT, sleep=True)
    run.run_for(0.8)
    assert asleep(run) == [1]
    poses = run.state.body_q.numpy()
    poses[support, 0] += 5.0
    run.state.body_q.assign(poses)
    run.run_for(1.0)
    assert run.body_q[0, 2] == pytest.approx(0.1, abs=1e-3)


def test_sleep_refuses_gradients(device: str):
    builder = ModelBuilder()
    builder.add_shape_sphere(builder.add_body())
    model = builder.finalize(device, requires_grad=True)
    with pytest.raises(ValueError, match="sleep: only for models without gradients"):
        Run(model, DT, sleep=True)
    with pytest.raises(ValueError, match="sleep_time: expected a positive number"):
        Run(builder.finalize(device), DT, sleep=True, sleep_time=0.0)
