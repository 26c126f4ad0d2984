"""A captured step is the eager step."""

import numpy as np
import warp as wp
from physics.robots import load_robot, varied_starts
from physics.scenes import Run, many

import newtonsim

WORLDS, STEPS, DT = 3, 100, 1.0 / 120.0


def quadrupeds(device: str) -> newtonsim.Model:
    builder = many(load_robot("quadruped"), WORLDS)
    builder.set_ground_plane()
    return builder.finalize(device)


def test_captured_steps_equal_eager_steps_bit_for_bit(device: str):
    """100 steps from the air into contact, with a control signal that is changed between replays."""
    model = quadrupeds(device)
    joint_q, joint_qd = varied_starts(model, WORLDS, seed=4)
    captured, eager = (Run(model, DT).start(joint_q, joint_qd) for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        action = rng.normal(scale=0.2, size=model.joint_axis_count).astype(np.float32)
        for run in (captured, eager):
            run.control.joint_act.assign(action)
        captured.step()
        eager.step_eagerly()
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        assert np.array_equal(getattr(captured, name), getattr(eager, name)), name
    assert captured.body_q[:, 2].min() < 0.3, "it has to have reached the ground"


def test_ping_pong_equals_in_place(device: str):
    """Two alternating states, and one state in place, compute the same bits."""
    model = quadrupeds(device)
    joint_q, joint_qd = varied_starts(model, WORLDS, seed=5)
    in_place = Run(model, DT).start(joint_q, joint_qd)
    run = Run(model, DT).start(joint_q, joint_qd)
    first, second = run.state, model.state()
    for _ in range(STEPS // 2):
        run.solver.step(model, first, second, run.control, None, DT)
        run.solver.step(model, second, first, run.control, None, DT)
    in_place.step(STEPS)
    assert np.array_equal(in_place.joint_q, first.joint_q.numpy())
    assert np.array_equal(in_place.body_qd, first.body_qd.numpy())


def test_state_is_consistent_after_a_step(device: str):
    """`body_q` and `body_qd` after a step are those that `eval_fk` finds for `joint_q` and `joint_qd`."""
    model = quadrupeds(device)
    run = Run(model, DT).start(*varied_starts(model, WORLDS, seed=6)).step(STEPS)
    other = model.state()
    newtonsim.eval_fk(model, run.state.joint_q, run.state.joint_qd, None, other)
    np.testing.assert_allclose(run.body_q, other.body_q.numpy(), rtol=0.0, atol=1.0e-6)
    np.testing.assert_allclose(run.body_qd, other.body_qd.numpy(), rtol=0.0, atol=1.0e-5)


def test_replay_does_not_depend_on_a_second_simulation(device: str):
    """Two solvers of one model do not share buffers that survive a step."""
    model = quadrupeds(device)
    joint_q, joint_qd = varied_starts(model, WORLDS, seed=7)
    alone = Run(model, DT).start(joint_q, joint_qd).step(STEPS)
    one, other = (Run(model, DT).start(joint_q, scale * joint_qd) for scale in (1.0, -1.0))
    for _ in range(STEPS):
        one.step()
        other.step()
    assert np.array_equal(one.joint_q, alone.joint_q)
    wp.synchronize()
