"""Several Simulators at once, in threads and processes, and options that go wrong later."""

import multiprocessing
import threading

import numpy as np
import pytest
from physics.robots import load_robot
from physics.scenes import z_up

import newtonsim
from newtonsim.errors import NewtonsimError
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0


def quadrupeds(count: int = 8) -> newtonsim.Model:
    scene = z_up()
    scene.replicate(load_robot("quadruped"), count, spacing=(2.0, 2.0, 0.0))
    scene.set_ground_plane()
    return scene.finalize("cpu")


def simulator_of(model: newtonsim.Model, threads: int = 2) -> newtonsim.Simulator:
    return newtonsim.Simulator(model, FeatherstoneSolver(model), DT, threads=threads)


def joint_q(simulator: newtonsim.Simulator) -> np.ndarray:
    return simulator.state.joint_q.numpy().copy()


def in_threads(work: list) -> list:
    """Run callables side by side and return what each returned or raised."""
    results = [None] * len(work)

    def run(i: int) -> None:
        try:
            results[i] = work[i]()
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_simulators_are_made_and_captured_in_several_threads():
    model = quadrupeds()

    def run() -> np.ndarray:
        simulator = simulator_of(model)
        simulator.step(20)
        return joint_q(simulator)

    expected = run()
    for result in in_threads([run] * 4):
        assert isinstance(result, np.ndarray), result
        np.testing.assert_array_equal(result, expected)


def test_one_captures_again_while_another_steps():
    model = quadrupeds()
    steady, restless = simulator_of(model), simulator_of(model)
    steady.step(1)

    def recapture() -> None:
        for _ in range(10):
            restless.recapture()
            restless.step(1)

    assert in_threads([recapture, lambda: steady.step(200)]) == [None, None]
    for simulator, steps in ((steady, 201), (restless, 10)):
        alone = simulator_of(model)
        alone.step(steps)
        np.testing.assert_array_equal(joint_q(simulator), joint_q(alone))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_forked_process_steps_on():
    simulator = simulator_of(quadrupeds())
    simulator.step(5)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child() -> None:
        simulator.step(5)
        queue.put(joint_q(simulator))

    process = context.Process(target=child)
    process.start()
    process.join(60)
    if process.is_alive():
        process.kill()
        pytest.fail("the child hangs")
    simulator.step(5)
    np.testing.assert_array_equal(queue.get(), joint_q(simulator))


@pytest.mark.parametrize(("name", "value"), [("iterations", -5), ("tolerance", -1.0), ("cone", "x")])
def test_options_are_checked_again_when_they_change(name: str, value: object):
    simulator = simulator_of(quadrupeds(1), threads=1)
    simulator.step(1)
    setattr(simulator.solver.options, name, value)
    with pytest.raises(ValueError, match=name):
        simulator.step(1)


def test_masks_of_two_dimensions_are_refused():
    simulator = simulator_of(quadrupeds(2), threads=1)
    with pytest.raises(NewtonsimError, match="world_mask"):
        simulator.reset(np.ones((2, 1), dtype=bool))


def test_the_number_of_threads_is_read_only():
    simulator = simulator_of(quadrupeds(2), threads=1)
    with pytest.raises(AttributeError):
        simulator.threads = 3
