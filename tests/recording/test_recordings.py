"""Recordings give back every bit of every frame, in any order, from whole and from broken files."""

import threading

import numpy as np
import pytest
from recorded_scenes import everything, robots

import newtonsim
from newtonsim.errors import RecordingError
from newtonsim.render import Recorder, Recording
from newtonsim.render.recordings.format import pack_floats, unpack_floats
from newtonsim.solvers import FeatherstoneSolver

FIELDS = ("joint_q", "joint_qd", "body_q", "body_qd", "particle_q", "particle_qd")


def scramble(state: newtonsim.State, rng: np.random.Generator) -> None:
    """Fill a state with any bits: numbers of all sizes, denormals, infinities and NaN."""
    for name in FIELDS:
        array = getattr(state, name)
        bits = rng.integers(0, 2**32, array.numpy().shape, dtype=np.uint32)
        array.assign(bits.view(np.float32))


def bits(state: newtonsim.State) -> list[np.ndarray]:
    return [getattr(state, name).numpy().view(np.uint32).copy() for name in FIELDS]


def record_noise(path, frames: int, close: bool = True) -> tuple[newtonsim.Model, list[list[np.ndarray]]]:
    model, rng = everything(0, 1).finalize("cpu"), np.random.default_rng(0)
    state, kept = model.state(), []
    recorder = Recorder(path, model)
    for frame in range(frames):
        scramble(state, rng)
        recorder.record(state, 0.01 * frame)
        kept.append(bits(state))
    if close:
        recorder.close()
    return model, kept


@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (3, 7), (240, 5), (9, 0)])
def test_packing_loses_no_bit(shape: tuple[int, int]):
    rng = np.random.default_rng(1)
    smooth = np.cumsum(rng.normal(size=shape), axis=0).astype(np.float32)
    noise = rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)
    for values in (smooth, noise, np.zeros(shape, np.float32)):
        again = unpack_floats(*pack_floats(values), *shape)
        np.testing.assert_array_equal(again.view(np.uint32), values.view(np.uint32))


def test_every_bit_comes_back_in_any_order(tmp_path):
    model, kept = record_noise(tmp_path / "a.nsr", 300)
    with Recording.open(tmp_path / "a.nsr") as recording:
        assert len(recording) == 300
        np.testing.assert_array_equal(recording.times, 0.01 * np.arange(300))
        state = model.state()
        for frame in [*np.random.default_rng(2).permutation(300)[:60].tolist(), -1]:
            assert recording.load(frame, state) is state
            for found, expected in zip(bits(state), kept[frame], strict=True):
                np.testing.assert_array_equal(found, expected)
        series = recording.series("body_q", slice(200, 290, 7))
        expected = np.stack([kept[frame][2] for frame in range(200, 290, 7)])
        np.testing.assert_array_equal(series.view(np.uint32), expected)


def test_a_humanoid_takes_less_than_two_kilobytes_a_step(device, tmp_path):
    model = robots("humanoid.xml").finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1 / 240)
    kept = []
    with Recorder(tmp_path / "a.nsr", model) as recorder:
        for _ in range(480):
            simulator.step()
            recorder.record(simulator.state, simulator.time)
            kept.append(simulator.state.body_q.numpy().copy())
    # 20 MB for 10 000 steps, the model included
    assert (tmp_path / "a.nsr").stat().st_size < 480 * 2000
    recording = Recording.open(tmp_path / "a.nsr", device)
    state = recording.model.state()
    for frame in range(480):
        np.testing.assert_array_equal(recording.load(frame, state).body_q.numpy(), kept[frame])


def test_poses_follow_from_joints_where_these_alone_were_recorded(device, tmp_path):
    model = robots("ant.xml", "ant.xml").finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1 / 240)
    with Recorder(tmp_path / "a.nsr", model, fields=["joint_q", "joint_qd"], worlds=[1]) as recorder:
        simulator.step(50)
        recorder.record(simulator.state, simulator.time)
    recording = Recording.open(tmp_path / "a.nsr", device)
    assert set(recording.fields) == {"joint_q", "joint_qd"}
    half = model.body_count // 2
    np.testing.assert_array_equal(recording.load(0).body_q.numpy(), simulator.state.body_q.numpy()[half:])


def test_the_frame_at_a_time(tmp_path):
    model = everything(0).finalize("cpu")
    with Recorder(tmp_path / "a.nsr", model) as recorder:
        for time in (0.5, 1.0, 1.0, 2.0):
            recorder.record(model.state(), time)
    recording = Recording.open(tmp_path / "a.nsr")
    assert [recording.at(t) for t in (0.0, 0.5, 0.99, 1.0, 1.5, 2.0, 9.0)] == [0, 0, 0, 2, 2, 3, 3]


def test_contact_forces_hold_a_box_up(device, tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    for x in (0.0, 2.0):
        builder.add_shape_box(
            builder.add_body(origin=((x, 0, 0.1), (0, 0, 0, 1))), hx=0.1, hy=0.1, hz=0.1, density=1000.0
        )
    top = builder.add_body(origin=((2, 0, 0.25), (0, 0, 0, 1)))
    builder.add_shape_box(top, hx=0.05, hy=0.05, hz=0.05, density=1000.0)
    builder.set_ground_plane()
    model = builder.finalize(device)
    solver = FeatherstoneSolver(model)
    simulator = newtonsim.Simulator(model, solver, 1 / 240)
    with Recorder(tmp_path / "a.nsr", model, solver=solver) as recorder:
        recorder.record(simulator.state, 0.0)
        simulator.step(240)
        recorder.record(simulator.state, simulator.time)
        simulator.reset()
        recorder.record(simulator.state, 2.0, stepped=False)
    forces = Recording.open(tmp_path / "a.nsr", device).series("body_contact_f")
    np.testing.assert_array_equal(forces[[0, 2]], 0.0)
    # each is held up against its own weight, whatever stands on it
    weight = np.outer([8.0, 8.0, 1.0], [0, 0, 9.81])
    np.testing.assert_allclose(forces[1], weight, atol=0.05)


def test_threads_read_at_once(tmp_path):
    _, kept = record_noise(tmp_path / "a.nsr", 300)
    recording, wrong = Recording.open(tmp_path / "a.nsr"), []

    def read(seed: int) -> None:
        for frame in np.random.default_rng(seed).integers(0, 300, 40).tolist():
            if not np.array_equal(recording.read("body_q", frame).view(np.uint32), kept[frame][2]):
                wrong.append(frame)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_writer_that_was_killed_leaves_whole_chunks(tmp_path):
    path = tmp_path / "a.nsr"
    model, kept = record_noise(path, 500, close=False)
    whole = path.read_bytes()
    with pytest.warns(newtonsim.errors.IncompleteRecordingWarning, match="480 frames") as told:
        recording = Recording.open(path)
    assert told[0].filename == __file__
    assert (len(recording), recording.complete) == (480, False)
    state = model.state()
    (tmp_path / "b.nsr").write_bytes(whole[:-1000])
    with pytest.warns(newtonsim.errors.IncompleteRecordingWarning):
        recording = Recording.open(tmp_path / "b.nsr")
    assert len(recording) == 240
    recording.load(239, state)
    np.testing.assert_array_equal(bits(state)[2], kept[239][2])
    # space that was given to the file and never written
    (tmp_path / "c.nsr").write_bytes(whole[:-1000] + bytes(1000))
    with pytest.warns(newtonsim.errors.IncompleteRecordingWarning):
        assert len(Recording.open(tmp_path / "c.nsr")) == 240


def test_damage_is_named_and_does_not_reach_other_chunks(tmp_path):
    path = tmp_path / "a.nsr"
    model, kept = record_noise(path, 480)
    data = bytearray(path.read_bytes())
    data[len(data) - len(data) // 4] ^= 1
    path.write_bytes(data)
    recording, state = Recording.open(path), model.state()
    with pytest.raises(RecordingError, match=r"a\.nsr: is damaged: the checksum of block CHNK"):
        recording.load(300, state)
    recording.load(100, state)
    np.testing.assert_array_equal(bits(state)[2], kept[100][2])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip file", b"\x89NSR\r\n\x1a\n", "cut"])
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "a.nsr"
    if content == "cut":
        record_noise(path, 1)
        content = path.read_bytes()[:300]
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"a\.nsr: (is not a recording|is damaged: its beginning)"):
        Recording.open(path)


def test_wrong_input_is_refused_before_anything_is_written(tmp_path):
    model, path = everything(0).finalize("cpu"), tmp_path / "a.nsr"
    with pytest.raises(RecordingError, match="'joint_w' is not an array of a state; did you mean"):
        Recorder(path, model, fields=["joint_w"])
    with pytest.raises(RecordingError, match="keeps no contact forces"):
        Recorder(path, model, solver=newtonsim.SemiImplicitSolver(robots("ant.xml").finalize("cpu")))
    assert not path.exists()
    recorder = Recorder(path, model)
    recorder.record(model.state(), 1.0)
    for time, message in ((0.5, "before 1 s"), (np.nan, "not a finite number"), ("t", "'t' is not a finite")):
        with pytest.raises(RecordingError, match=message):
            recorder.record(model.state(), time)
    with pytest.raises(newtonsim.ModelError, match="got a NoneType"):
        recorder.record(None, 2.0)
    for other in (None, everything(0)):
        with pytest.raises(newtonsim.ModelError, match="model: expected a Model"):
            Recorder(tmp_path / "b.nsr", other)
    with pytest.raises(newtonsim.ModelError, match="particle_q: expected"):
        recorder.record(everything(1).finalize("cpu").state(), 2.0)
    recorder.close()
    recorder.close()
    with pytest.raises(RecordingError, match="closed"):
        recorder.record(model.state(), 2.0)
    recording = Recording.open(path)
    assert len(recording) == 1
    assert recording.complete
    for index in ("a", 0.0, True):
        with pytest.raises(RecordingError, match="expected a whole number"):
            recording.load(index)
    with pytest.raises(RecordingError, match="nan is not a number"):
        recording.at(np.nan)
    with pytest.raises(IndexError, match="frame 1 of 1"):
        recording.load(1)
    with pytest.raises(RecordingError, match="'body_f' was not recorded"):
        recording.read("body_f", 0)
    closed = Recording.open(path)
    closed.close()
    with pytest.raises(RecordingError, match=r"a\.nsr: is closed"):
        closed.read("body_q", 0)
    with pytest.raises(newtonsim.ModelError, match="expected"):
        recording.load(0, everything(1).finalize("cpu").state())
