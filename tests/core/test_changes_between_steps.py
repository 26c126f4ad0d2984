"""A Simulator that has made steps one by one notices what is replaced between them."""

from collections.abc import Callable

import numpy as np
import pytest

import newtonsim
from newtonsim.simulator import watch_simulators

DT = 0.01


def simulator(device: str) -> newtonsim.Simulator:
    """A body that falls with 10 m/s², after three steps."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=-10.0)
    body = builder.add_body(mass=2.0, I_m=np.eye(3))
    builder.add_joint_prismatic(-1, body, axis=(0.0, 0.0, 1.0), armature=0.0)
    model = builder.finalize(device)
    made = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), DT)
    for _ in range(3):
        made.step()
    return made


def speed(sim: newtonsim.Simulator) -> float:
    return float(sim.state.joint_qd.numpy()[0])


def another_state(sim: newtonsim.Simulator) -> float:
    sim.state = sim.model.state()
    return -0.1


def another_control(sim: newtonsim.Simulator) -> float:
    control = sim.model.control()
    control.joint_f.fill_(60.0)
    sim.control = control
    return -0.3 + 0.2


def another_time_step(sim: newtonsim.Simulator) -> float:
    sim.dt = 0.04
    return -0.3 - 0.4


def another_gravity(sim: newtonsim.Simulator) -> float:
    sim.model.gravity = (0.0, 0.0, 5.0)
    return -0.3 + 0.05


@pytest.mark.parametrize("change", [another_state, another_control, another_time_step, another_gravity])
def test_the_next_step_knows_of_a_change(device: str, change: Callable[[newtonsim.Simulator], float]):
    sim = simulator(device)
    assert speed(sim) == pytest.approx(-0.3, rel=1e-5)
    wanted, time = change(sim), sim.time
    sim.step()
    assert speed(sim) == pytest.approx(wanted, rel=1e-5)
    assert sim.time == pytest.approx(time + sim.dt)


@pytest.mark.parametrize("substeps", [1, 10])
def test_substeps_divide_the_next_step(device: str, substeps: int):
    """Implicit damping: (m + h d) v⁺ = m v - h m g in each of them."""
    sim = simulator(device)
    sim.model.joint_damping.fill_(100.0)
    sim.substeps = substeps
    sim.step()
    v, h = -0.3, DT / substeps
    for _ in range(substeps):
        v = (2.0 * v - h * 2.0 * 10.0) / (2.0 + h * 100.0)
    assert speed(sim) == pytest.approx(v, rel=1e-5)


def test_watchers_see_steps_of_a_simulator_that_ran_before(device: str):
    sim, seen = simulator(device), []
    for _ in range(2):
        with watch_simulators(lambda one: seen.append(one.time)):
            sim.step()
        sim.step()
    np.testing.assert_allclose(seen, [0.03, 0.04, 0.05, 0.06], rtol=1e-6)
    assert speed(sim) == pytest.approx(-0.7, rel=1e-5)


@pytest.mark.parametrize("count", [1.0, "1", -1])
def test_counts_that_are_none_are_refused(device: str, count: object):
    sim = simulator(device)
    with pytest.raises(newtonsim.NewtonsimError, match="n: expected"):
        sim.step(count)
    assert sim.time == pytest.approx(0.03)
