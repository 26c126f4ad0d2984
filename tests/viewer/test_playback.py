"""What moves the picture: simulations in real time, recordings, loops of users."""

import logging
import math
import socket
import threading
import time
import urllib.request

import numpy as np
import pytest

import newtonsim
from newtonsim import Simulator
from newtonsim.errors import NewtonsimError, RecordingError
from newtonsim.render.films.framing import in_moving_trees
from newtonsim.render.viewer import Viewer
from newtonsim.render.viewer.layout import format_worlds, parse_worlds
from newtonsim.solvers import FeatherstoneSolver

STEP = 1.0 / 200.0


def ball(worlds=1):
    """Balls that fall without end, one in each world."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    body = robot.add_body()
    robot.add_joint_free(body)
    robot.add_shape_sphere(body, radius=0.1)
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.replicate(robot, worlds, spacing=(0.0, 0.0, 0.0))
    return scene.finalize("cpu")


@pytest.fixture
def simulator():
    model = ball()
    return Simulator(model, FeatherstoneSolver(model), STEP)


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_time_goes_at_the_chosen_speed(simulator):
    with Viewer(simulator.model, port=0, effects=False) as viewer:
        playback = viewer.run(simulator, paused=True)
        assert viewer.frame.time == 0.0
        playback.speed = 4.0
        playback.playing = True
        start = time.monotonic()
        until(lambda: viewer.frame.time > 1.0)
        passed = time.monotonic() - start
        assert 0.9 * 1.0 / 4.0 - 0.05 < passed < 3.0
        # a ball in free fall: z = -g t²/2, semi-implicit steps add g h t/2
        t = viewer.frame.time
        assert viewer.frame.body_q[0, 2] == pytest.approx(-4.905 * t * (t + STEP), rel=1e-3)
        playback.playing = False
        playback.rewind()
        until(lambda: viewer.frame.time == 0.0)
        assert viewer.frame.body_q[0, 2] == 0.0


def test_a_failing_simulation_says_so(simulator):
    def fail(_):
        raise RuntimeError("the policy is lost")

    with Viewer(simulator.model, port=0, effects=False) as viewer:
        playback = viewer.run(simulator, before_step=fail)
        with pytest.raises(RuntimeError, match="policy is lost"):
            viewer.wait()
        assert not playback.playing


class Positions:
    """A recording: the ball is at height 10 t."""

    def __init__(self, model, times):
        self.model, self.times = model, np.array(times)

    def load(self, index, state):
        poses = state.body_q.numpy().copy()
        poses[0, 2] = 10.0 * self.times[index]
        state.body_q.assign(poses)


def test_recordings_play_to_their_end_and_can_be_searched():
    model = ball()
    with Viewer(model, port=0, effects=False) as viewer:
        playback = viewer.replay(Positions(model, [0.0, 0.01, 0.05, 0.3]))
        until(lambda: not playback.playing)
        until(lambda: viewer.frame.time == 0.3)
        assert viewer.frame.body_q[0, 2] == pytest.approx(3.0)
        playback.seek(1)
        until(lambda: viewer.frame.time == 0.01)
        assert viewer.frame.body_q[0, 2] == pytest.approx(0.1)
        playback.step()
        until(lambda: viewer.frame.time == 0.05)
        with pytest.raises(NewtonsimError, match=r"0\.\.3, got 4"):
            playback.seek(4)


def test_own_loops_wait_while_a_user_has_paused(simulator):
    with Viewer(simulator.model, port=0, effects=False) as viewer:
        viewer.update(simulator.state, 1.0)
        assert viewer.frame.time == 1.0
        viewer.playback.playing = False
        loop = threading.Thread(target=viewer.update, args=(simulator.state, 2.0))
        loop.start()
        until(lambda: viewer.frame.time == 2.0)
        viewer.playback.post(lambda state, control: state.body_q.fill_(0.5))
        until(lambda: viewer.frame.body_q[0, 0] == 0.5)
        assert loop.is_alive()
        viewer.playback.step()
        loop.join(5.0)
        assert not loop.is_alive()
        viewer.playback.playing = True
        viewer.run(simulator, paused=True)
        with pytest.raises(NewtonsimError, match="already showing"):
            viewer.update(simulator.state)


def test_a_taken_port_gives_way_and_a_closed_one_is_free(simulator):
    with Viewer(simulator.model, port=0, effects=False) as first:
        taken = first.port
        with Viewer(simulator.model, port=taken, effects=False) as second:
            assert taken < second.port < taken + 20
            assert second.url == f"http://127.0.0.1:{second.port}"
            threads = threading.active_count()
            second.run(simulator)
            assert threading.active_count() > threads
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", taken))
    assert not any(thread.name == "newtonsim viewer" for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"port": 70000}, "0 to 65535, got 70000"),
        ({"host": "no.such.host.invalid"}, "is not an address"),
        ({"host": "203.0.113.7"}, "cannot listen on 203.0.113.7"),
        ({"rate": 0.0}, "above 0, got 0"),
    ],
)
def test_wrong_arguments_are_named(simulator, arguments, message):
    with pytest.raises(NewtonsimError, match=message):
        Viewer(simulator.model, **{"port": 0, **arguments})


def test_worlds_are_chosen_and_laid_out_apart():
    model = ball(40)
    with Viewer(model, port=0, effects=False) as viewer:
        assert viewer.scene.layout.worlds.tolist() == list(range(16))
        viewer.show_worlds([3, 7, 8])
        lower, upper = viewer.scene.bounds(viewer.frame)
        assert (upper - lower)[:2].min() > 2.0 * 0.2
        with pytest.raises(NewtonsimError, match=r"0\.\.39, got \[40\]"):
            viewer.show_worlds([40])
        assert viewer.scene.layout.worlds.tolist() == [3, 7, 8]
        other = ball(2)
        with pytest.raises(NewtonsimError, match="body_count: the viewer's model has 40, got 2"):
            viewer.run(Simulator(other, FeatherstoneSolver(other), STEP))


def test_bodies_that_are_not_finite_are_told_and_harm_nothing():
    model = ball(2)
    state = model.state()
    poses = state.body_q.numpy().copy()
    poses[0] = np.nan
    state.body_q.assign(poses)
    with Viewer(model, port=0, effects=False) as viewer:
        for label in viewer.scene.marks:
            viewer.show_mark(label)
        viewer.update(state, 1.0)
        assert viewer.frame.lost == 1
        assert np.isfinite(np.concatenate(viewer.scene.bounds(viewer.frame))).all()
        assert "1 bodies or particles are not finite" in viewer._panel._status.content


def test_worlds_as_text():
    assert parse_worlds(" ALL ", 3) == [0, 1, 2]
    assert parse_worlds("0, 2,8-10", 20) == [0, 2, 8, 9, 10]
    assert format_worlds(np.array([0, 2, 8, 9, 10]), 20) == "0, 2, 8-10"
    assert format_worlds(np.arange(3), 3) == "all"
    for text in ("", "x", "1-", "3;4"):
        with pytest.raises(NewtonsimError, match="expected"):
            parse_worlds(text, 5)


def test_speed_must_be_positive(simulator):
    with Viewer(simulator.model, port=0, effects=False) as viewer:
        playback = viewer.run(simulator, paused=True)
        for speed in (0.0, -1.0, math.nan):
            with pytest.raises(NewtonsimError, match="speed"):
                playback.speed = speed


class Damaged:
    """A recording of which some frames cannot be read."""

    def __init__(self, model, broken):
        self.model, self.broken, self.times = model, broken, np.arange(8) * 0.01

    def load(self, index, state):
        if index in self.broken:
            raise RecordingError(f"run.nsr: is damaged: frame {index}")
        state.body_q.assign([[float(index), 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])


def test_damaged_frames_are_told_and_passed_over():
    model = ball()
    with Viewer(model, port=0, effects=False) as viewer:
        playback = viewer.replay(Damaged(model, (3, 4)), paused=True)
        playback.seek(3)
        until(lambda: "frame 3" in playback.trouble)
        assert viewer.frame.body_q[0, 0] == 0.0
        playback.seek(2)
        until(lambda: viewer.frame.body_q[0, 0] == 2.0)
        assert playback.trouble == ""
        playback.speed = 0.5
        playback.playing = True
        until(lambda: viewer.frame.body_q[0, 0] == 7.0)
        assert playback.error is None


def test_a_robot_moves_with_its_fixed_base_and_a_floor_does_not():
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    for moves in (True, False):
        builder.add_articulation()
        base, link = builder.add_body(), builder.add_body()
        builder.add_joint_fixed(-1, base)
        if moves:
            builder.add_joint_revolute(base, link, axis=(0, 1, 0))
        else:
            builder.add_joint_fixed(base, link)
        builder.add_shape_box(base, hx=0.1, hy=0.1, hz=0.1)
        builder.add_shape_box(link, hx=0.1, hy=0.1, hz=0.1)
    builder.add_shape_box(-1, hx=9.0, hy=9.0, hz=0.1)
    assert in_moving_trees(builder.finalize("cpu")).tolist() == [True, True, False, False, False]


def test_closed_viewers_leave_one_filter_on_the_log_of_web_sockets():
    """A process that opens viewers again and again must not grow."""
    filters = logging.getLogger("websockets.server").filters
    for _ in range(3):
        with Viewer(ball(), port=0) as viewer, urllib.request.urlopen(viewer.url, timeout=10) as page:
            page.read()
    assert len(filters) <= 1
