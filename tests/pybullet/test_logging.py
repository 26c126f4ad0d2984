"""Log files: the same worlds logged by the real module and by ours."""

import json
import struct

import numpy as np
import pytest

import newtonsim.pybullet_compat as compat
from newtonsim.pybullet_compat.logs.state_logging import STATE_REPLAY_ALL_COMMANDS

pybullet = pytest.importorskip("pybullet")

MARKER = b"\xaa\xbb"


def read_log(path):
    """Return header and records of a log; an empty tuple for a record without numbers."""
    names, types, rest = path.read_bytes().split(b"\n", 2)
    record = struct.Struct("<" + types.decode())
    records, place = [], 0
    while place < len(rest):
        assert rest[place : place + 2] == MARKER
        place += 2
        if rest[place : place + 2] in (MARKER, b""):
            records.append(())
            continue
        records.append(record.unpack_from(rest, place))
        place += record.size
    return (names, types), records


class Logs:
    """The same log of both modules."""

    def __init__(self, both, folder):
        self.both, self.folder = both, folder

    def start(self, kind, name="log", **options):
        """Start both and return their ids."""
        self.paths = [self.folder / f"{side}_{name}" for side in ("real", "ours")]
        return tuple(
            module.startStateLogging(kind, str(path), **options, physicsClientId=client)
            for module, client, path in zip((pybullet, compat), self.both.ids, self.paths)
        )

    def stop(self, ids):
        """Stop both and return their logs."""
        for module, client, uid in zip((pybullet, compat), self.both.ids, ids):
            module.stopStateLogging(uid, physicsClientId=client)
        return [read_log(path) for path in self.paths]


@pytest.fixture
def logs(both, tmp_path):
    return Logs(both, tmp_path)


def assert_same_records(real, ours, tolerance):
    """Compare headers byte by byte and numbers within a tolerance."""
    assert real[0] == ours[0]
    assert [len(record) for record in real[1]] == [len(record) for record in ours[1]]
    for expected, found in zip(real[1], ours[1]):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_robots_with_torques(both, logs, flags):
    kuka = both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    both.load("cube_small.urdf", [3, 0, 1])
    both.resetJointState(kuka, 3, 0.5)
    both.resetBaseVelocity(1, [0.1, 0.2, 0.3], [1, 2, 3])
    options = {"maxLogDof": 9, "logFlags": flags, "objectUniqueIds": [1, kuka]}
    ids = logs.start(pybullet.STATE_LOGGING_GENERIC_ROBOT, **options)
    both.setJointMotorControl2(kuka, 5, pybullet.VELOCITY_CONTROL, force=0)
    for _ in range(10):
        both.setJointMotorControl2(kuka, 5, pybullet.TORQUE_CONTROL, force=0.2)
        both.stepSimulation()
    real, ours = logs.stop(ids)
    assert len(real[1]) == 20
    # speeds within 1e-2 rad/s and torques within 1 N m: the real solver stops before it has converged
    count = len(real[1][0]) - (9 if flags else 0)
    state = [(log[0], [record[:count] for record in log[1]]) for log in (real, ours)]
    assert_same_records(*state, tolerance=1e-2)
    if flags:
        torques = [np.array([record[count:] for record in log[1]]) for log in (real, ours)]
        np.testing.assert_allclose(torques[1], torques[0], atol=1.0, rtol=0.02)
        assert (np.abs(torques[0]).max() > 1.0) == bool(flags & 1)


def test_robots_that_do_not_fit_leave_empty_records(both, logs):
    both.load("cube_small.urdf", [3, 0, 1])
    both.load("kuka_iiwa/model.urdf", useFixedBase=True)
    both.load("humanoid/humanoid.urdf", [0, 3, 3])
    ids = logs.start(pybullet.STATE_LOGGING_GENERIC_ROBOT, maxLogDof=6)
    both.step(2)
    real, ours = logs.stop(ids)
    assert [len(record) > 0 for record in real[1]] == [True, False, False] * 2
    assert_same_records(real, ours, 1e-5)


def test_loggers_of_robots_end_with_the_world(both, logs):
    both.load("cube_small.urdf", [0, 0, 1])
    ids = logs.start(pybullet.STATE_LOGGING_GENERIC_ROBOT)
    both.step(2)
    both.removeBody(0)
    both.step(1)
    both.resetSimulation()
    both.load("cube_small.urdf", [0, 0, 1])
    both.step(2)
    real, ours = logs.stop(ids)
    assert len(real[1]) == 2
    assert_same_records(real, ours, 1e-5)
    assert logs.start(pybullet.STATE_LOGGING_CONTACT_POINTS) == (1, 1)


def test_the_minitaur_has_a_log_of_its_own(both, logs):
    turn = pybullet.getQuaternionFromEuler([0.1, 0.2, 0.3])
    quadruped = both.load("quadruped/minitaur_v1.urdf", [0, 0, 1], turn)
    for joint in range(both.getNumJoints(quadruped)[0]):
        both.resetJointState(quadruped, joint, 0.01 * joint)
    both.resetBaseVelocity(quadruped, [0.5, 0.2, 0], [1, 0, 0.5])
    ids = logs.start(pybullet.STATE_LOGGING_MINITAUR, objectUniqueIds=[quadruped])
    assert ids == (0, 0)
    both.step(4)
    real, ours = logs.stop(ids)
    assert real[0] == ours[0]
    # columns of torques are left out: motors that hold a loop-free robot in the air have nearly nothing to do
    state = [(log[0], [(*record[:12], *record[20:]) for record in log[1]]) for log in (real, ours)]
    assert_same_records(*state, tolerance=2e-3)
    assert np.ptp(state[0][1][0][4:12]) > 0.1


@pytest.mark.parametrize("bodies", [None, [1]])
def test_what_is_no_minitaur_is_not_logged(both, logs, bodies):
    both.load("quadruped/minitaur_v1.urdf", [0, 0, 1])
    both.load("r2d2.urdf", [3, 0, 1])
    options = {} if bodies is None else {"objectUniqueIds": bodies}
    assert logs.start(pybullet.STATE_LOGGING_MINITAUR, **options) == (None, None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bodyUniqueIdA": 1},
        {"bodyUniqueIdB": 1},
        {"bodyUniqueIdA": 1, "bodyUniqueIdB": 0},
        {"bodyUniqueIdA": 3, "linkIndexB": 2},
        {"linkIndexA": 2},
        {"linkIndexB": -1},
        {"bodyUniqueIdA": 2, "linkIndexA": -1, "bodyUniqueIdB": 1, "linkIndexB": -1},
    ],
)
def test_contact_points_and_their_filters(both, logs, options):
    both.load("plane.urdf")
    both.load("cube_small.urdf", [0, 0, 0.0245])
    both.load("cube_small.urdf", [0, 0, 0.074])
    both.load("r2d2.urdf", [3, 0, 0.465])
    ids = logs.start(pybullet.STATE_LOGGING_CONTACT_POINTS, **options)
    both.step(3)
    real, ours = logs.stop(ids)
    assert real[0] == ours[0]
    # the number of points of a touch differs, which links touch does not
    touches = [{(record[0], *record[3:7]) for record in log[1] if record[0] == 2} for log in (real, ours)]
    assert touches[0] == touches[1]


def test_files_of_other_kinds(both, logs):
    ids = logs.start(pybullet.STATE_LOGGING_VR_CONTROLLERS)
    both.load("cube_small.urdf")
    both.step(2)
    real, ours = logs.stop(ids)
    assert real == ours
    assert logs.start(99) == (None, None)
    assert logs.start(pybullet.STATE_LOGGING_CUSTOM_TIMER) == (None, None)
    assert logs.start(pybullet.STATE_LOGGING_VIDEO_MP4, name="video") == (1, 1)
    both.stopStateLogging(1)
    assert not any(path.exists() for path in logs.paths)


def test_files_that_cannot_be_made_do_not_stop_a_script(both, tmp_path):
    path = str(tmp_path / "no" / "such" / "folder")
    with pytest.warns(UserWarning, match="nothing is logged"):
        ids = both.startStateLogging(pybullet.STATE_LOGGING_GENERIC_ROBOT, path)
    both.load("cube_small.urdf")
    both.step(1)
    both.stopStateLogging(ids[0])
    assert ids == (0, 0)


def test_timings_are_a_trace_with_nested_spans(both, logs):
    both.load("cube_small.urdf")
    ids = logs.start(pybullet.STATE_LOGGING_PROFILE_TIMINGS)
    both.submitProfileTiming('"outer"')
    both.stepSimulation()
    both.submitProfileTiming("inner")
    both.submitProfileTiming()
    both.submitProfileTiming()
    both.submitProfileTiming()
    both.submitProfileTiming("open")
    for module, client, uid in zip((pybullet, compat), both.ids, ids):
        module.stopStateLogging(uid, physicsClientId=client)
    assert all(path.with_name(path.name + "_0.json").exists() for path in logs.paths)
    trace = json.loads(logs.paths[1].with_name("ours_log_0.json").read_text())
    events = [(event["ph"], event["name"]) for event in trace["traceEvents"]]
    outer = '"outer"'
    assert events == [
        *(("B", outer), ("B", "stepSimulation"), ("E", "stepSimulation"), ("B", "inner"), ("E", "inner")),
        *(("E", outer), ("B", "open"), ("E", "open")),
    ]
    times = [event["ts"] for event in trace["traceEvents"]]
    assert times == sorted(times)


def build(client, height):
    """Let a cube fall onto a box, with calls of all kinds."""
    compat.setGravity(0, 0, -9.81, physicsClientId=client)
    shape = compat.createCollisionShape(compat.GEOM_BOX, halfExtents=np.full(3, 0.1), physicsClientId=client)
    place = {"basePosition": np.array([0, 0, height])}
    body = compat.createMultiBody(1.0, shape, **place, physicsClientId=client)
    compat.createMultiBody(0.0, shape, physicsClientId=client)
    compat.resetBaseVelocity(body, angularVelocity=(1, 2, 3), physicsClientId=client)
    for _ in range(60):
        compat.stepSimulation(physicsClientId=client)
    return compat.getBasePositionAndOrientation(body, physicsClientId=client)


def test_logged_commands_can_be_replayed(tmp_path):
    path = str(tmp_path / "commands")
    first, second = compat.connect(compat.DIRECT), compat.connect(compat.DIRECT)
    log = compat.startStateLogging(compat.STATE_LOGGING_ALL_COMMANDS, path, physicsClientId=first)
    pose = build(first, 0.4)
    compat.stopStateLogging(log, physicsClientId=first)
    compat.stepSimulation(physicsClientId=first)
    compat.startStateLogging(STATE_REPLAY_ALL_COMMANDS, path, physicsClientId=second)
    assert compat.getBasePositionAndOrientation(0, physicsClientId=second) == pose
    assert compat.getNumBodies(physicsClientId=second) == 2
    for client in (first, second):
        compat.disconnect(client)


@pytest.mark.parametrize("line", ["garbage", '["connect", {}]', '["stepSimulation", {"nonsense": 1}]'])
def test_only_calls_on_a_world_are_replayed(tmp_path, line):
    path = tmp_path / "commands"
    client = compat.connect(compat.DIRECT)
    log = compat.startStateLogging(compat.STATE_LOGGING_ALL_COMMANDS, str(path), physicsClientId=client)
    compat.stopStateLogging(log, physicsClientId=client)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(compat.error, match="line 2"):
        compat.startStateLogging(STATE_REPLAY_ALL_COMMANDS, str(path), physicsClientId=client)
    path.write_text(line)
    with pytest.raises(compat.error, match="Cannot replay"):
        compat.startStateLogging(STATE_REPLAY_ALL_COMMANDS, str(path), physicsClientId=client)
    compat.disconnect(client)


def test_videos_have_sixty_pictures_a_second(tmp_path, monkeypatch):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    from newtonsim.pybullet_compat.api.debug_items import DebugItems
    from newtonsim.pybullet_compat.clients.table import get_client

    monkeypatch.setenv("NEWTONSIM_GUI", "off")
    client = compat.connect(compat.GUI)
    get_client(client).part(DebugItems).window = (64, 48)
    shape = compat.createCollisionShape(compat.GEOM_BOX, physicsClientId=client)
    compat.createMultiBody(1.0, shape, physicsClientId=client)
    path = str(tmp_path / "video.mp4")
    log = compat.startStateLogging(compat.STATE_LOGGING_VIDEO_MP4, path, physicsClientId=client)
    for _ in range(40):
        compat.stepSimulation(physicsClientId=client)
    compat.stopStateLogging(log, physicsClientId=client)
    compat.disconnect(client)
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(path)
    assert frames == 10
    assert seconds == pytest.approx(10 / 60, abs=0.02)


def test_of_several_worlds_the_first_is_logged(tmp_path):
    client = compat.connect(compat.DIRECT, options="--num_worlds=3")
    compat.setGravity(0, 0, -9.81, physicsClientId=client)
    shape = compat.createCollisionShape(compat.GEOM_BOX, halfExtents=[0.1] * 3, physicsClientId=client)
    compat.createMultiBody(0.0, shape, physicsClientId=client)
    box = compat.createMultiBody(1.0, shape, basePosition=[0, 0, 0.199], physicsClientId=client)
    compat.resetBaseVelocity(box, [[0.1, 0, 0], [5, 0, 0], [6, 0, 0]], physicsClientId=client)
    kinds = (compat.STATE_LOGGING_GENERIC_ROBOT, compat.STATE_LOGGING_CONTACT_POINTS)
    for kind in kinds:
        compat.startStateLogging(kind, str(tmp_path / str(kind)), physicsClientId=client)
    compat.stepSimulation(physicsClientId=client)
    position = compat.getBasePositionAndOrientation(box, physicsClientId=client)[0]
    compat.disconnect(client)
    robots, contacts = (read_log(tmp_path / str(kind))[1] for kind in kinds)
    np.testing.assert_allclose(robots[1][3:6], position[0], atol=1e-6)
    assert {record[3:5] for record in contacts} == {(0, 1)}
    assert sum(record[-1] for record in contacts) > 0.0
