"""Faults of sensors against their statistics, and actuators of tasks."""

import math
from typing import ClassVar

import numpy as np
import pytest
from host_work import forbid_host_work
from sensor_bench import Bench, still

from newtonsim import envs
from newtonsim.actuators import PD, Delay
from newtonsim.errors import NewtonsimError

WORLDS = 400


def bench(num_envs: int = WORLDS, threads: int | None = None, task=None, **mounted) -> envs.BatchedEnv:
    task = task or Bench()
    task.mounted = mounted
    return envs.BatchedEnv(task, num_envs, "cpu", threads=threads)


JOINT = envs.JointSensor(["turn"])
"""Position, velocity and effort of the arm."""


def test_noise_is_normal_and_new_in_each_step():
    env = bench(plain=JOINT, noisy=envs.Measured(JOINT, noise=(0.1, 0.2, 0.0)))
    env.reset(seed=1)
    errors = [env.sensor("noisy") - env.sensor("plain")]
    for _ in range(3):
        still(env)
        errors.append(env.sensor("noisy") - env.sensor("plain"))
    errors = np.array(errors)
    # standard deviations of 1600 numbers are known to 1.8 %; five of those
    np.testing.assert_allclose(errors.std(axis=(0, 1))[:2], [0.1, 0.2], rtol=0.09)
    np.testing.assert_array_equal(errors[..., 2], 0.0)
    correlation = np.corrcoef(errors[:, :, :2].transpose(0, 2, 1).reshape(8, WORLDS))
    assert np.abs(correlation - np.eye(8)).max() < 5.0 / math.sqrt(WORLDS)


def test_bias_stays_through_an_episode_and_is_drawn_anew():
    env = bench(plain=JOINT, off=envs.Measured(JOINT, bias=0.3))
    env.reset(seed=2)
    first = env.sensor("off") - env.sensor("plain")
    still(env, 4)
    np.testing.assert_allclose(env.sensor("off") - env.sensor("plain"), first, atol=1e-6)
    assert first.std() == pytest.approx(0.3, rel=5.0 / math.sqrt(2 * 3 * WORLDS))
    env.reset()
    second = env.sensor("off") - env.sensor("plain")
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5.0 / math.sqrt(3 * WORLDS)
    env.reset(seed=2)
    np.testing.assert_array_equal(env.sensor("off") - env.sensor("plain"), first)


def test_bias_walks_with_the_root_of_time():
    env = bench(plain=JOINT, off=envs.Measured(JOINT, drift=0.5))
    env.reset(seed=3)
    np.testing.assert_array_equal(env.sensor("off"), env.sensor("plain"))
    for steps in (9, 27):
        still(env, steps)
    walked = env.sensor("off") - env.sensor("plain")
    expected = 0.5 * math.sqrt(36 * env.buffers.view.control_dt)
    assert walked.std() == pytest.approx(expected, rel=5.0 / math.sqrt(2 * 3 * WORLDS))


def test_delay_shows_what_was_measured_that_long_ago():
    """The arm is driven; steps of the environment are 0.01 s, delays 0.025 s, and from 0 to 0.05 s."""
    late = envs.Measured(JOINT, delay=0.025)
    env = bench(50, plain=JOINT, late=late, mixed=envs.Measured(JOINT, delay=(0.0, 0.05)))
    env.reset(seed=4)
    plain, mixed, found = (
        [env.sensor("plain").copy()],
        [env.sensor("mixed").copy()],
        [env.sensor("late").copy()],
    )
    for n in range(20):
        env.step(np.full((50, 1), math.sin(0.5 * n)))
        plain.append(env.sensor("plain").copy())
        mixed.append(env.sensor("mixed").copy())
        found.append(env.sensor("late").copy())
    times = np.arange(21.0)
    for kind in range(3):
        expected = np.interp(times - 2.5, times, np.array(plain)[:, 0, kind])
        np.testing.assert_allclose(np.array(found)[:, 0, kind], expected, atol=1e-5)
    # the delay of each world, found from its own readings
    speed, seen = np.array(plain)[:, 0, 1], np.array(mixed)[:, :, 1]
    trial = np.linspace(0.0, 5.0, 2001)
    shifted = np.array([np.interp(times - lag, times, speed) for lag in trial])
    best = [trial[np.argmin(np.abs(shifted - seen[:, world]).max(axis=1))] for world in range(50)]
    misfit = [np.abs(shifted - seen[:, world]).max(axis=1).min() for world in range(50)]
    assert max(misfit) < 2e-3 * np.ptp(speed)
    assert min(best) < 0.6
    assert max(best) > 4.4
    assert abs(np.mean(best) - 2.5) < 4.0 * 5.0 / math.sqrt(12.0 * 50.0)


def test_faults_depend_on_seed_and_world_alone():
    faults = envs.Measured(JOINT, noise=0.1, bias=0.2, drift=0.1, delay=(0.0, 0.03))
    few, many = bench(3, joint=faults), bench(40, threads=3, joint=faults)
    for env in (few, many):
        env.reset(seed=7)
        still(env, 8)
    np.testing.assert_array_equal(few.sensor("joint"), many.sensor("joint")[:3])


def test_an_inertial_unit_with_faults_keeps_its_form():
    faults = envs.Measured(
        envs.Imu("box", noise=(0.1, 0.0)), bias=[0.05] * 3 + [0.01] * 3 + [0.0] * 4, delay=0.01
    )
    env = bench(imu=faults, plain=envs.Imu("box"))
    env.reset(seed=5)
    error = env.sensor("imu") - env.sensor("plain")
    expected = [math.hypot(0.1, 0.05)] * 3 + [0.01] * 3
    np.testing.assert_allclose(error.std(axis=0)[:6], expected, rtol=5.0 / math.sqrt(2 * WORLDS))
    np.testing.assert_array_equal(error[:, 6:], 0.0)


def test_checkpoints_hold_biases_and_readings_under_way(tmp_path):
    faults = envs.Measured(JOINT, noise=0.1, bias=0.2, drift=0.1, delay=(0.0, 0.03))
    env, other = bench(3, joint=faults), bench(3, joint=faults)
    env.reset(seed=7)
    still(env, 5)
    env.save(tmp_path / "held")
    still(env, 5)
    other.restore(tmp_path / "held")
    still(other, 5)
    np.testing.assert_array_equal(env.sensor("joint"), other.sensor("joint"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: envs.Measured(JOINT, noise=-0.1), "noise: expected numbers of at least 0"),
        (lambda: envs.Measured(JOINT, bias=math.nan), "bias"),
        (lambda: envs.Measured(JOINT, delay=-0.01), "delay: expected a time of at least 0"),
        (lambda: envs.Measured(JOINT, delay=(0.02, 0.01)), "delay"),
        (
            lambda: bench(1, a=envs.Measured(JOINT, noise=(0.1, 0.1))),
            "sensor 'a': noise: expected one number or 3",
        ),
    ],
)
def test_wrong_faults_are_refused(make, message: str):
    with pytest.raises(NewtonsimError, match=message):
        make()


class Driven(Bench):
    """The bench whose arm follows a target by PD with a delay."""

    name = "Driven"
    entries: ClassVar[dict] = {"turn": PD(stiffness=30.0, damping=1.0, delay=Delay(0.0, 0.03))}

    def actuators(self):
        return self.entries


def test_actuators_of_a_task_act_in_every_solver_step(monkeypatch):
    env = bench(20, threads=1, task=Driven(), joint=JOINT)
    env.reset(seed=3)
    act = np.full((20, 1), 0.1)
    env.step(act)
    forbid_host_work(monkeypatch, env)
    for _ in range(4):
        env.step(act)
    monkeypatch.undo()
    actuators = env.solver.actuators
    effort, state = env.sensor("joint")[:, 2], env.sim.state
    np.testing.assert_array_equal(effort, actuators.driven.joint_f.numpy().reshape(20, -1)[:, 6])
    # the target is the action times its gear of 5; the step ran from a state that is not known here
    q, v = env.sensor("joint")[:, 0], env.sensor("joint")[:, 1]
    np.testing.assert_allclose(effort, 30.0 * (0.5 - q + 0.002 * v) - v, atol=0.3)
    assert np.all(state.joint_q.numpy().reshape(20, -1)[:, 7] > 0.0)


def test_delays_of_a_task_come_from_its_seed_and_episode():
    few, many = bench(3, task=Driven()), bench(30, threads=2, task=Driven())
    seen = []
    for env in (few, many):
        env.reset(seed=5)
        seen.append(env.solver.actuators.groups["turn"].delay.numpy().copy())
    np.testing.assert_array_equal(seen[0], seen[1][:3])
    few.reset(options={"reset_mask": np.array([False, True, False])})
    again = few.solver.actuators.groups["turn"].delay.numpy().copy()
    np.testing.assert_array_equal(again != seen[0], [False, True, False])
    few.reset(seed=5)
    np.testing.assert_array_equal(few.solver.actuators.groups["turn"].delay.numpy(), seen[0])
