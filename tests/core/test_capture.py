"""Captured work does what the work itself does."""

import gc
import weakref

import numpy as np
import pytest
import warp as wp
from physics.scenes import many

from newtonsim import FeatherstoneSolver, ModelBuilder, diff
from newtonsim.kernels.trees import damping as trees_damping
from newtonsim.kernels.trees import joint_forces
from newtonsim.runtime.capture import LaunchList, adopt, capture_launches
from newtonsim.runtime.copies import copy, fill, together
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.tapes import Tape


def falling(device: str):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_joint_free(builder.add_body(mass=1.0, I_m=np.eye(3)))
    return many(builder, 3).finalize(device)


def test_nothing_is_done_while_capturing(device: str):
    model = falling(device)
    source = wp.array(np.arange(18.0), dtype=float, device=device)
    target = wp.zeros_like(source)
    launch = Launcher(model, record_tape=False)
    launch(trees_damping.copy_forces, "dof", reads=dict(source=source), writes=dict(target=target))
    target.zero_()
    replay = capture_launches(
        lambda: launch(
            trees_damping.copy_forces, "dof", reads=dict(source=source), writes=dict(target=target)
        ),
        model.device,
    )
    assert not target.numpy().any()
    source.fill_(3.0)
    replay(1)
    np.testing.assert_array_equal(target.numpy(), 3.0)


def test_repetitions_follow_one_another(device: str):
    """Each repetition damps the velocity that the one before has left."""
    model = falling(device)
    d = wp.full(18, 0.5, dtype=float, device=device)
    speed = wp.full(18, 1.0, dtype=float, device=device)
    launch = Launcher(model, record_tape=False)

    def run() -> None:
        launch(trees_damping.damp_joints, "dof", reads=dict(damping=d, qd=speed), writes=dict(joint_f=speed))

    run()
    speed.fill_(1.0)
    replay = capture_launches(run, model.device)
    replay(0)
    np.testing.assert_array_equal(speed.numpy(), 1.0)
    replay(3)
    np.testing.assert_array_equal(speed.numpy(), 0.125)


def test_work_beside_the_launcher_is_recorded_too(device: str):
    model = falling(device)
    source, target = (wp.zeros(18, dtype=float, device=device) for _ in range(2))
    launch = Launcher(model, record_tape=False)

    def run() -> None:
        wp.copy(target, source)
        launch(trees_damping.copy_forces, "dof", reads=dict(source=target), writes=dict(target=source))
        source.fill_(7.0)

    run()
    source.fill_(5.0)
    replay = capture_launches(run, model.device)
    replay(1)
    np.testing.assert_array_equal(target.numpy(), 5.0)
    np.testing.assert_array_equal(source.numpy(), 7.0)


def test_arrays_live_as_long_as_the_recording():
    """Memory that was freed would be given to the arrays that are made afterwards."""
    model = falling("cpu")
    target = wp.zeros(18, dtype=float, device="cpu")
    launch = Launcher(model, record_tape=False)

    def captured():
        source = wp.full(18, 2.0, dtype=float, device="cpu")
        return capture_launches(
            lambda: launch(
                trees_damping.copy_forces, "dof", reads=dict(source=source), writes=dict(target=target)
            ),
            model.device,
        )

    replay = captured()
    gc.collect()
    others = [wp.full(18, 9.0, dtype=float, device="cpu") for _ in range(50)]
    replay(1)
    np.testing.assert_array_equal(target.numpy(), 2.0)
    assert len(others) == 50


def test_a_way_back_is_recorded():
    """Copies, fills and reverse passes are part of a recording, which on the CPU needs no graph of Warp."""
    model = falling("cpu")
    end, start, rate = (wp.zeros(18, dtype=float, device="cpu", requires_grad=True) for _ in range(3))
    slope = wp.array(np.arange(18.0), dtype=float, device="cpu")

    def run() -> None:
        fill(end.grad)
        copy(rate.grad, slope)
        with Tape() as tape:
            launch = Launcher(model, record_tape=True)
            reads = dict(end=end, start=start, dt=0.5)
            launch(joint_forces.difference_quotient, "dof", reads=reads, writes=dict(rate=rate))
        tape.backward()
        fill(slope, 1.0)

    run()
    np.testing.assert_array_equal(end.grad.numpy(), 2.0 * np.arange(18.0))
    replay = capture_launches(run, model.device)
    slope.assign(np.arange(18.0, dtype=np.float32))
    end.grad.fill_(5.0)
    replay(1)
    np.testing.assert_array_equal(end.grad.numpy(), 2.0 * np.arange(18.0))
    replay(1)
    np.testing.assert_array_equal(end.grad.numpy(), 2.0)
    assert isinstance(replay, LaunchList)


def test_what_is_made_once_outlives_the_recording():
    """All that the launches need is held: packed arguments, the table of them, arrays in structs."""
    source, target = (wp.zeros(64, dtype=wp.vec3, device="cpu") for _ in range(2))
    recording = capture_launches(lambda: copy(target, source), wp.get_device("cpu"))
    needed = [weakref.ref(part) for part in (recording._table, recording._caller, *recording._arrays)]
    once = recording.once
    del recording
    gc.collect()
    assert all(part() is not None for part in needed)
    source.fill_(2.0)
    once()
    np.testing.assert_array_equal(target.numpy(), 2.0)
    del once
    gc.collect()
    assert needed[0]() is None


def test_copies_in_a_recording_take_gradients_with_them():
    source, target = (wp.zeros(3, dtype=wp.vec3, device="cpu", requires_grad=True) for _ in range(2))
    replay = capture_launches(lambda: copy(target, source), wp.get_device("cpu"))
    source.fill_(1.0)
    source.grad.fill_(2.0)
    replay(1)
    np.testing.assert_array_equal(target.numpy(), 1.0)
    np.testing.assert_array_equal(target.grad.numpy(), 2.0)


def test_gradients_of_a_rollout_need_no_graph():
    """Nor do the steps; a graph of Warp takes five times as long for one small world."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_joint_revolute(-1, builder.add_body(mass=1.0, I_m=np.eye(3)), axis=(0.0, 1.0, 0.0))
    model = builder.finalize("cpu", requires_grad=True)
    rollout = diff.Rollout(model, FeatherstoneSolver(model), 3, 0.01, wrt=("state.joint_qd",))
    rollout(model.state(), state_seeds={"joint_qd": [1.0]})
    for replay in (rollout._passes._forward, rollout._passes._backward):
        assert isinstance(replay, LaunchList)


def test_a_recording_leaves_out_what_a_mask_is_zero_for():
    """One condition within another, each by its mask at the time; and the way back of what is left out."""
    model = falling("cpu")
    outer, inner = (wp.zeros(3, dtype=int, device="cpu") for _ in range(2))
    start, *rates = (wp.zeros(18, dtype=float, device="cpu", requires_grad=True) for _ in range(5))
    ends = [wp.full(18, float(k + 1), dtype=float, device="cpu", requires_grad=True) for k in range(4)]
    slope = wp.full(18, 1.0, dtype=float, device="cpu")

    def run() -> None:
        launch = Launcher(model, record_tape=True)

        def differ(k: int) -> None:
            fill(ends[k].grad)
            copy(rates[k].grad, slope)
            reads = dict(end=ends[k], start=start, dt=1.0)
            launch(joint_forces.difference_quotient, "dof", reads=reads, writes=dict(rate=rates[k]))

        with Tape() as tape:
            with launch.where_any(outer):
                with launch.where_any(inner):
                    differ(0)
                differ(1)
                with launch.where_any(inner):
                    differ(2)
            differ(3)
        tape.backward()

    run()
    np.testing.assert_array_equal(rates[2].numpy(), 3.0, "without a recording all is done")
    replay = capture_launches(run, model.device)
    assert isinstance(replay, LaunchList)
    for masks, made in (
        ((0, 0), [3]),
        ((0, 1), [3]),
        ((1, 0), [1, 3]),
        ((1, 1), [0, 1, 2, 3]),
        ((0, 0), [3]),
    ):
        for mask, value in zip((outer, inner), masks):
            mask.assign([0, 0, value])
        for k in range(4):
            rates[k].zero_()
            ends[k].grad.zero_()
        replay(1)
        for k in range(4):
            np.testing.assert_array_equal(rates[k].numpy(), (k + 1.0) if k in made else 0.0)
            np.testing.assert_array_equal(ends[k].grad.numpy(), 1.0 if k in made else 0.0)


@wp.kernel
def count_up(by: float, target: wp.array(dtype=float)):
    i = wp.tid()
    target[i] = target[i] + by


@pytest.mark.parametrize("copies", [False, True])
def test_launches_of_users_are_recorded_in_their_place(copies: bool):
    """A copy among them makes a graph of Warp, which does the same."""
    model = falling("cpu")
    source, target, kept = (wp.zeros(18, dtype=float, device="cpu") for _ in range(3))
    launch = Launcher(model, record_tape=False)

    def of_user() -> None:
        wp.launch(count_up, 18, [1.0, source], device="cpu")
        if copies:
            wp.copy(kept, source)
        wp.launch(count_up, 18, [2.0, source], device="cpu")

    def run() -> None:
        adopt(of_user)
        launch(trees_damping.copy_forces, "dof", reads=dict(source=source), writes=dict(target=target))
        adopt(of_user)

    run()
    source.zero_()
    replay = capture_launches(run, model.device)
    np.testing.assert_array_equal(source.numpy(), 0.0)
    replay(2)
    np.testing.assert_array_equal(source.numpy(), 12.0)
    np.testing.assert_array_equal(target.numpy(), 9.0)
    np.testing.assert_array_equal(kept.numpy(), 10.0 if copies else 0.0)
    assert isinstance(replay, LaunchList) != copies


def test_arrays_of_any_type_are_copied_together():
    """Blocks whose lengths are no multiples of words, empty ones and ones that are read elsewhere, too."""
    rng = np.random.default_rng(0)
    types = {
        wp.float32: (7,),
        wp.int8: (13,),
        wp.vec3: (5,),
        wp.float64: (2, 3),
        wp.int32: (0,),
        wp.bool: (3,),
    }
    targets = [wp.zeros(shape, dtype=dtype, device="cpu") for dtype, shape in types.items()]
    sources = [wp.zeros_like(target) for target in targets]
    for source in sources:
        raw = source.numpy().reshape(-1).view(np.uint8)
        raw[:] = rng.integers(0, 2, raw.size)
    put_back = together(list(zip(targets, sources)))
    for _ in range(2):
        put_back()
        for target, source in zip(targets, sources):
            np.testing.assert_array_equal(target.numpy(), source.numpy())
            target.zero_()
    together([])()
