"""Whatever breaks a step off, an error of a hook, Ctrl-C, a fork: the next one is as it would have been."""

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import newtonsim

DT = 1.0 / 200.0


def simulator(worlds: int = 4, **options) -> newtonsim.Simulator:
    world = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for number in range(2):
        body = world.add_body()
        world.add_joint_free(body)
        world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
        world.joint_q[-7:] = [0.05 * number, 0.0, 0.2 + 0.25 * number, 0.0, 0.0, 0.0, 1.0]
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(world, worlds, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane()
    model = scene.finalize("cpu")
    return newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), DT, **options)


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """Coordinates after fifty steps of a run that nothing broke off."""
    sim = simulator()
    sim.step(50)
    return sim.state.joint_q.numpy().copy()


def test_errors_of_hooks_reach_the_caller_and_change_nothing(expected):
    fails = [False]

    def before(launch, sim) -> None:
        if fails[0]:
            raise LookupError("of the user")

    sim = simulator(before=before)
    fails[0] = True
    for _ in range(3):
        with pytest.raises(LookupError, match="of the user"):
            sim.step()
        assert sim.time == 0.0
    fails[0] = False
    sim.step(50)
    assert np.array_equal(sim.state.joint_q.numpy(), expected)


def step_for_a_minute(sim: newtonsim.Simulator, steps: int) -> None:
    start = time.monotonic()
    while time.monotonic() - start < 60.0:
        sim.step(steps)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises in the test: jobs in the background ignore it, and callbacks of the collector lose it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("steps", [1, 10**7])
def test_ctrl_c_ends_a_run_soon(expected, interruptible, steps: int):
    """Also within a call that would go on for minutes; and time is that of the steps that were made."""
    sim = simulator()
    sim.step(300)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        step_for_a_minute(sim, steps)
    timer.join()
    assert time.monotonic() - start < 20.0
    assert sim.time > 300 * DT
    sim.reset()
    assert sim.time == 0.0
    sim.step(50)
    assert np.array_equal(sim.state.joint_q.numpy(), expected)


def test_pieces_are_the_same_steps():
    whole, single = simulator(1), simulator(1)
    whole.step(600)
    for _ in range(600):
        single.step()
    assert np.array_equal(whole.state.joint_q.numpy(), single.state.joint_q.numpy())
    assert whole.time == pytest.approx(600 * DT)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_steps_on(expected):
    """With threads, too, of which it has none at first."""
    sim = simulator(threads=2)
    sim.step(20)
    sim.reset()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        sim.step(50)
        os.write(write, sim.state.joint_q.numpy().tobytes())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    assert answer == expected.tobytes()
    sim.step(50)
    assert np.array_equal(sim.state.joint_q.numpy(), expected)
