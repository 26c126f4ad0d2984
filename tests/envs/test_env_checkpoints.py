"""Environments go on from a checkpoint as if they had never stopped: every task, to the bit."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import warp as wp

from newtonsim.envs import registry
from newtonsim.envs.batched import BatchedEnv
from newtonsim.envs.task import Task
from newtonsim.envs.tasks import ALL
from newtonsim.errors import CheckpointError, NewtonsimError

CUT, STEPS = 9, 20


def environment(task: type[Task], worlds: int = 3) -> BatchedEnv:
    """Episodes of 7 steps, so that some begin after the cut, with what random numbers can change."""
    everything = {"mass": (0.8, 1.2), "friction": (0.5, 1.0), "strength": (0.9, 1.1), "gains": (0.9, 1.1)}
    return BatchedEnv(task(), worlds, device="cpu", randomise=everything, max_episode_steps=7)


def results(env: BatchedEnv, actions: list[np.ndarray]) -> list[tuple[bytes, ...]]:
    return [tuple(np.asarray(part).tobytes() for part in _flat(env.step(a))) for a in actions]


def _flat(step: tuple) -> list:
    parts = []
    for part in step:
        parts += _flat(tuple(part[key] for key in sorted(part))) if isinstance(part, dict) else [part]
    return parts


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.__name__)
def test_a_run_that_was_cut_is_the_same_to_the_bit(task: type[Task], tmp_path: Path):
    env = environment(task)
    env.reset(seed=3)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(STEPS)]
    results(env, actions[:CUT])
    env.save(tmp_path / "run.ckpt")
    memory = env.snapshot()
    expected = results(env, actions[CUT:])
    memory.restore()
    assert results(env, actions[CUT:]) == expected
    fresh, used = environment(task), environment(task)
    used.reset(seed=8)
    results(used, actions[:3])
    for other in (fresh, used):
        other.restore(tmp_path / "run.ckpt")
        assert results(other, actions[CUT:]) == expected


def test_no_environment_is_left_out():
    """All that come with newtonsim are registered from the list that the test above goes through."""
    own = {registry.find(name) for name in registry.names()}
    assert {task for task in own if task.__module__.startswith("newtonsim.")} == set(ALL)


def test_the_state_alone_would_not_do(tmp_path: Path):
    """That the test above can see a difference: without the count of episodes random numbers are others."""
    task = next(task for task in ALL if task.__name__ == "Ant")
    env, other = environment(task), environment(task)
    env.reset(seed=3)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(STEPS)]
    results(env, actions[:CUT])
    other.reset(seed=3)
    other.sim.state.assign(env.sim.state)
    assert results(env, actions[CUT:]) != results(other, actions[CUT:])


def test_observations_after_a_restore_are_those_at_the_save():
    env = environment(next(task for task in ALL if task.__name__ == "Ant"))
    with pytest.raises(NewtonsimError, match="call reset first"):
        env.observations()
    env.reset(seed=3)
    env.action_space.seed(0)
    expected = env.step(env.action_space.sample())[0].copy()
    memory = env.snapshot()
    env.step(env.action_space.sample())
    assert not np.array_equal(env.observations()[0], expected)
    memory.restore()
    np.testing.assert_array_equal(env.observations()[0], expected)


def test_seeds_that_are_drawn_later_are_the_same(tmp_path: Path):
    task = next(task for task in ALL if task.__name__ == "CartPole")
    env = environment(task)
    env.reset(seed=5)
    env.np_random.random(3)
    env.save(tmp_path / "run.ckpt")
    other = environment(task)
    other.restore(tmp_path / "run.ckpt")
    assert np.array_equal(other.np_random.random(4), env.np_random.random(4))
    assert other.np_random_seed == env.np_random_seed
    other.step(other.action_space.sample())  # needs no reset


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda tasks: environment(tasks["CartPole"], worlds=4), "world_count was 3, here 4"),
        (lambda tasks: environment(tasks["Ant"]), "was"),
        (lambda tasks: BatchedEnv(tasks["CartPole"](), 3, device="cpu"), "randomiser"),
    ],
)
def test_files_of_other_environments_change_nothing(make: Callable, text: str, tmp_path: Path):
    tasks = {task.__name__: task for task in ALL}
    env = environment(tasks["CartPole"])
    env.reset(seed=1)
    env.save(tmp_path / "run.ckpt")
    other = make(tasks)
    other.reset(seed=2)
    before = other.sim.state.joint_q.numpy().copy()
    with pytest.raises(CheckpointError, match=text):
        other.restore(tmp_path / "run.ckpt")
    assert np.array_equal(other.sim.state.joint_q.numpy(), before)
    assert isinstance(other.buffers.view.key, wp.array)
