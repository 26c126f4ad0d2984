"""Training by workers of Ray: the same updates as in one process, also when a worker is killed."""

import csv
import dataclasses
import pathlib
from functools import partial

import mortal_env
import numpy as np
import pytest
import torch

from newtonsim import learn
from newtonsim.cli.main import main
from newtonsim.learn.collect import Collector, Rollout
from newtonsim.learn.workers import shares
from newtonsim.studies import ray_cluster

SMALL = {"num_envs": 9, "steps": 10, "samples": 450, "hidden": (8,), "mini_batches": 2}
RUN = learn.Run("Reacher", learn.settings_of("Reacher", SMALL), {"max_episode_steps": 7}, seed=3)
KILLED_AT = 25
"""A step in the middle of the third iteration."""


class Witness(learn.RayWorkers):
    """Workers that keep what was asked and answered."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.seen = []

    def collect(self, weights, iteration):
        parts = super().collect(weights, iteration)
        self.seen.append((weights, parts))
        return parts


@pytest.mark.slow
def test_a_run_of_which_a_worker_is_killed(cluster, tmp_path):
    """One test, since workers take long to start."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the workers: the order of additions may depend on it
    try:
        training, told = disturbed_run(tmp_path)
        assert_updates_of_one_process(training, told, tmp_path)
    finally:
        torch.set_num_threads(threads)
    assert_rollouts_of_fresh_worlds(training, int((tmp_path / "killed").read_text()))
    assert_every_sample_counts_once(training)


def disturbed_run(folder: pathlib.Path) -> tuple[learn.Training, list[dict[str, float]]]:
    """Return a finished training by two workers, of which one was killed, and what its iterations told."""

    def make_workers(plan):
        mortal = partial(mortal_env.make, plan.make, folder, KILLED_AT)
        return Witness(dataclasses.replace(plan, make=mortal), 2)

    training = learn.Training(RUN, folder / "ray", "cpu", make_workers)
    with pytest.warns(RuntimeWarning, match=r"worker [01] of 2 was lost; .* collected iteration 3 again"):
        told = [training.step() for _ in range(RUN.settings.iterations)]
    training.finish()
    return training, told


def assert_same(first: Rollout, second: Rollout) -> None:
    for field in dataclasses.fields(Rollout):
        np.testing.assert_array_equal(
            getattr(first, field.name), getattr(second, field.name), err_msg=field.name
        )


def assert_updates_of_one_process(
    training: learn.Training, told: list[dict[str, float]], folder: pathlib.Path
) -> None:
    """To the bit against two collectors here; one of all worlds adds numbers up in another order."""
    updates = [weights for weights, _ in training.workers.seen]
    two = learn.Training(RUN, folder / "two", "cpu", partial(learn.LocalWorkers, count=2))
    one = learn.Training(RUN, folder / "one", "cpu")
    for k in range(2):
        here = two.step()
        assert (here["value"], here["surrogate"]) == (told[k]["value"], told[k]["surrogate"])
        for name, value in two.learner.weights().items():
            np.testing.assert_array_equal(updates[k + 1][name], value, err_msg=name)
    before = one.learner.weights()
    one.step()
    for name, value in one.learner.weights().items():
        np.testing.assert_allclose(updates[1][name], value, atol=1e-5, err_msg=name)
    assert max(float((value - before[name]).abs().max()) for name, value in updates[1].items()) > 1e-3
    two.close()
    one.close()


def assert_rollouts_of_fresh_worlds(training: learn.Training, killed: int) -> None:
    """All rollouts are those of collectors here, the killed one made anew in the third iteration."""
    plan = RUN.plan("cpu")
    parts_of_shares = zip(*(parts for _, parts in training.workers.seen))
    for (first, count), parts in zip(shares(9, 2), parts_of_shares):
        collector, starts = Collector(plan, first, count), 1
        for iteration, (weights, _) in enumerate(training.workers.seen):
            if count == killed and iteration == 2:
                collector.close()
                collector, starts = Collector(plan, first, count), 2
            assert_same(parts[iteration], collector.collect(weights, iteration))
        collector.close()
        # an episode that began elsewhere than at its start does not count, one in each world and start
        ended = sum(int(part.ended.sum()) for part in parts)
        assert sum(len(part.returns) for part in parts) == ended - starts * count


def assert_every_sample_counts_once(training: learn.Training) -> None:
    assert training.progress.samples == training.progress.iteration * 10 * 9 == 450
    with (training.folder / "curve.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["samples"]) for row in rows] == [90, 180, 270, 360, 450]
    for _, parts in training.workers.seen:
        assert Rollout.joined(parts).ended.shape == (10, 9)


def test_command_line(monkeypatch, tmp_path, capsys):
    asked = {}

    def workers(plan, **arguments):
        asked.update(arguments)
        return learn.LocalWorkers(plan, arguments["count"])

    monkeypatch.setattr(learn, "RayWorkers", workers)
    command = ["train", "Reacher", "--device", "cpu", "--samples", "100", "--num-envs", "8", "--no-video"]
    command += ["--set", "steps=10", "--set", "hidden=(8,)", "--folder", str(tmp_path)]
    assert main([*command, "--ray-workers", "2", "--ray-address", "10.0.0.1:6379"]) == 0
    assert asked == {"count": 2, "address": "10.0.0.1:6379"}
    assert (tmp_path / "policy.onnx").exists()
    assert main([*command, "--ray-address", "10.0.0.1:6379"]) == 2
    assert "--ray-address also requires --ray-workers N" in capsys.readouterr().err


def test_errors_of_workers_are_those_of_one_process(cluster, tmp_path, capsys):
    command = ["train", "Reacher", "--device", "cpu", "--option", "max_episode_steps=-1"]
    assert main([*command, "--folder", str(tmp_path / "one")]) == 2
    here = capsys.readouterr().err.splitlines()[-1]
    assert main([*command, "--folder", str(tmp_path / "ray"), "--ray-workers", "1"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == here
    assert "max_episode_steps" in here
    assert main([*command, "--folder", str(tmp_path / "few"), "--num-envs", "2", "--ray-workers", "3"]) == 2
    assert "workers: expected 1 to 2, at least one world for each, got 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("machines", "workers", "asked", "expected"),
    [
        ([(8, 0)], 2, (None, None), (4, 0)),
        ([(8, 0)], 3, (None, None), (2, 0)),
        ([(2, 0)], 3, (None, None), (0.6666, 0)),
        ([(8, 0), (8, 0)], 3, (None, None), (4, 0)),  # 5 each would leave no room for the third
        ([(8, 0), (2, 0)], 3, (None, None), (2, 0)),
        ([(16, 4)], 4, (None, None), (4, 1)),
        ([(16, 4)], 2, (None, None), (8, 1)),  # no worker takes two GPUs
        ([(16, 1)], 4, (None, None), (4, 0.25)),
        ([(16, 1), (16, 2)], 3, (None, None), (8, 1)),
        ([(64, 0), (8, 4)], 4, (None, None), (2, 1)),  # CPUs without a GPU are of no use
        ([(64, 0), (8, 4)], 4, (3, None), (3, 1)),  # two of them wait
        ([(64, 0), (8, 4)], 6, (None, 0.0), (10, 0)),
    ],
)
def test_shares_find_room(machines, workers, asked, expected, monkeypatch):
    import ray

    nodes = [{"Alive": True, "Resources": {"CPU": float(cpu), "GPU": float(gpu)}} for cpu, gpu in machines]
    nodes.append({"Alive": False, "Resources": {"CPU": 128.0, "GPU": 8.0}})
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    assert ray_cluster.shares(workers, *asked) == expected
