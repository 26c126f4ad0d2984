"""Many worlds are many single worlds: same numbers, and no way for one to reach another."""

import numpy as np
import pytest
import warp as wp
from physics.robots import load_robot, varied_starts
from physics.scenes import Run, many

import newtonsim
from newtonsim.testing import random_model

WORLDS = 5
STEPS = 100
DT = 1.0 / 120.0


def world_builder(name: str) -> newtonsim.ModelBuilder:
    return random_model(31) if name == "tree" else load_robot(name)


def with_ground(builder: newtonsim.ModelBuilder) -> newtonsim.ModelBuilder:
    builder.set_ground_plane(offset=-1.0 if builder.shape_count == 0 else 0.0)
    return builder


@pytest.mark.parametrize("name", ["quadruped", "tree"])
def test_many_worlds_equal_single_worlds(device: str, name: str):
    together = with_ground(many(world_builder(name), WORLDS)).finalize(device)
    alone = with_ground(many(world_builder(name), 1)).finalize(device)
    joint_q, joint_qd = varied_starts(together, WORLDS, seed=1)
    batch = Run(together, DT).start(joint_q, joint_qd).step(STEPS)
    for world in range(WORLDS):
        single = Run(alone, DT).start(joint_q[world], joint_qd[world]).step(STEPS)
        np.testing.assert_array_equal(batch.joint_q.reshape(WORLDS, -1)[world], single.joint_q)
        np.testing.assert_array_equal(batch.body_qd.reshape(WORLDS, -1, 6)[world], single.body_qd)


@pytest.mark.parametrize("array", ["joint_q", "joint_qd", "body_f", "joint_f"])
def test_nan_stays_in_its_world(device: str, array: str):
    """One number of world 2 goes bad in the middle of a run on the ground; the others do not notice."""
    model = with_ground(many(load_robot("quadruped"), WORLDS)).finalize(device)
    joint_q, joint_qd = varied_starts(model, WORLDS, seed=2)
    healthy = Run(model, DT).start(joint_q, joint_qd).step(STEPS)
    sick = Run(model, DT).start(joint_q, joint_qd).step(STEPS // 2)
    target = getattr(sick.control if array == "joint_f" else sick.state, array)
    values = target.numpy()
    values.reshape(WORLDS, -1)[2, 7] = np.nan
    target.assign(values)
    sick.step(STEPS // 2)
    others = np.arange(WORLDS) != 2
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        expected = getattr(healthy, name).reshape(WORLDS, -1)
        actual = getattr(sick, name).reshape(WORLDS, -1)
        np.testing.assert_array_equal(actual[others], expected[others])
    assert not np.isfinite(sick.joint_q.reshape(WORLDS, -1)[2]).all()


def test_reset_revives_one_world_only(device: str):
    """After a NaN, new coordinates and `solver.reset` for that world give the run of a fresh world."""
    model = with_ground(many(load_robot("quadruped"), WORLDS)).finalize(device)
    joint_q, joint_qd = varied_starts(model, WORLDS, seed=3)
    reference = Run(model, DT).start(joint_q, joint_qd)
    run = Run(model, DT).start(joint_q, joint_qd).step(STEPS)
    untouched = run.joint_q.reshape(WORLDS, -1).copy()
    q, qd = run.joint_q.reshape(WORLDS, -1), run.joint_qd.reshape(WORLDS, -1)
    q[2], qd[2] = np.nan, np.nan
    run.start(q, qd).step()
    q, qd = run.joint_q.reshape(WORLDS, -1), run.joint_qd.reshape(WORLDS, -1)
    assert np.isfinite(np.delete(q, 2, axis=0)).all()
    q[2], qd[2] = joint_q[2], joint_qd[2]
    mask = np.arange(WORLDS) == 2
    run.start(q, qd)
    run.solver.reset(run.state, wp.array(mask, dtype=bool, device=device))
    run.step(STEPS)
    reference.step(STEPS)
    np.testing.assert_array_equal(untouched[2], reference.joint_q.reshape(WORLDS, -1)[2])
    np.testing.assert_array_equal(run.joint_q.reshape(WORLDS, -1)[2], untouched[2])
