"""Training that can be resumed: samples, updates, checkpoints, and the best policy so far."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic

import numpy as np
import torch

from newtonsim import envs
from newtonsim.envs.task import Metric
from newtonsim.errors import NewtonsimError
from newtonsim.learn.beginning import Beginning
from newtonsim.learn.collect import Plan, Rollout
from newtonsim.learn.learner import Learner
from newtonsim.learn.models import PolicySpaces, make_network
from newtonsim.learn.policy_file import PolicyFile, export_policy, weights_of
from newtonsim.learn.settings import ALGORITHMS, S, SacSettings, Settings
from newtonsim.learn.workers import LocalWorkers, Workers
from newtonsim.runtime.devices import find_device

WINDOW = 100
"""Number of episodes whose mean return measures a policy."""

RUN, CHECKPOINT, POLICY = "run.json", "checkpoint.pt", "policy.onnx"
"""Files in the folder of a run."""

OF_ENVIRONMENT = ("max_episode_steps", "randomise")
"""Arguments of `BatchedEnv` that a run may have in addition to the options of its task."""

_COLUMNS = ("iteration", "samples", "seconds", "return", "length", "std", "learning_rate", "failures")


@dataclass
class Progress:
    """Progress of training.

    Attributes:
        iteration: Completed iterations.
        samples: Samples used for learning, each counted once.
        seconds: Total time of all sessions [s].
        returns: Returns of the last episodes.
        lengths: Their lengths.
        reached: Whether they reached their goal, of tasks that have one.
        best: Mean of the last returns of the policy that is kept; -inf before there is one.
        failures: Episodes that ended because a world became NaN or infinite.
    """

    iteration: int = 0
    samples: int = 0
    seconds: float = 0.0
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    reached: list[bool] = field(default_factory=list)
    best: float = -math.inf
    failures: int = 0

    @property
    def mean_return(self) -> float:
        """Mean return of the last episodes; NaN before there are any."""
        return float(np.mean(self.returns)) if self.returns else math.nan

    @property
    def mean_length(self) -> float:
        """Mean length of the last episodes; NaN before there are any."""
        return float(np.mean(self.lengths)) if self.lengths else math.nan


@dataclass(frozen=True)
class Run(Generic[S]):
    """What is trained; runs in one folder must be equal except for the number of samples.

    Attributes:
        name: Name of the environment.
        settings: How the policy learns.
        options: Options of the task, and of the environment "max_episode_steps" and "randomise". Paths of
            files are made absolute.
        seed: Of everything random.
        start: Policy that training starts from: the folder of a run, or its file; None for a random one.

    Raises:
        NewtonsimError: There is no such environment, or JSON cannot hold the options.
    """

    name: str
    settings: S
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    start: str | None = None

    def __post_init__(self) -> None:
        task = envs.find(self.name)
        task.check_names(self.options, OF_ENVIRONMENT)
        # relative paths would not hold in another folder
        paths = {name: os.path.abspath(self.options[name]) for name in task.files(self.options)}
        object.__setattr__(self, "options", {**self.options, **paths})
        try:
            self.written()
        except TypeError as error:
            raise NewtonsimError(
                f"options: expected values that JSON can hold, got {self.options!r}: {error}"
            ) from None

    def plan(self: Run[Settings], device: str | None = None, threads: int | None = None) -> Plan:
        """Return what collectors must know; threads on the CPU are as in `newtonsim.Simulator`."""
        of_device = {} if threads is None else {"threads": threads}
        make = partial(envs.make, self.name, **of_device, **self.options)
        return Plan(make, self.settings, self.seed, device)

    @classmethod
    def read(cls, folder: str | os.PathLike) -> Run[Settings] | Run[SacSettings]:
        """Return the run of a folder.

        Raises:
            OSError: There is none.
            NewtonsimError: Its file is damaged.
        """
        path = Path(folder) / RUN
        kept = _read_run(path)
        try:
            settings: Any = ALGORITHMS[kept.get("algorithm", Settings.algorithm)](**kept["settings"])
        except (TypeError, KeyError) as error:
            raise NewtonsimError(f"{path}: damaged, or of another version: settings: {error}") from error
        return Run(kept["name"], settings, kept["options"], kept["seed"], kept.get("start"))

    def written(self) -> dict[str, Any]:
        """Return the run as JSON values."""
        algorithm = {"algorithm": self.settings.algorithm}
        return json.loads(json.dumps({**algorithm, **dataclasses.asdict(self)}))


class Training:
    """A run of proximal policy optimisation in a folder, which continues from its last checkpoint.

    The folder has "run.json", "checkpoint.pt", "curve.csv", the events of TensorBoard, and after `finish`
    "policy.onnx", the best policy. Checkpoints are replaced atomically: however the process dies, the last
    one is valid, and what was learned after it is discarded together with its rows of the curve. Worlds
    restart from seeds that depend on the iteration.

    Args:
        run: What is trained.
        folder: The folder.
        device: Device of worlds and networks; None for Warp's default.
        make_workers: Makes the workers that collect the samples.
        threads: Threads of the physics on the CPU; None for the default.

    Attributes:
        run: What is trained.
        folder: The folder.
        progress: Its progress.
        metrics: What `Task.metrics` tells after the last iteration, by name.

    Raises:
        NewtonsimError: The folder holds another run or a damaged one, it is not a folder, the environment
            cannot be created as the run says, or the policy to start from does not fit.
    """

    def __init__(
        self,
        run: Run[Settings],
        folder: str | os.PathLike,
        device: str | None = None,
        make_workers: Callable[[Plan], Workers] = LocalWorkers,
        threads: int | None = None,
    ):
        import warp as wp

        self.run, self.folder = run, Path(folder)
        self.progress = Progress()
        self.metrics: dict[str, Metric] = {}
        check_folder(self.folder, run)
        fresh = not (self.folder / CHECKPOINT).exists()
        beginning = read_beginning(run.start) if run.start is not None and fresh else None
        self.workers = make_workers(run.plan(device, threads))
        try:
            self._prepare(wp.device_to_torch(find_device(device)), beginning)
        except NewtonsimError:
            self.workers.close()
            raise
        # what is refused leaves no folder behind, which would belong to another run at the next try
        self._curve = open_folder(self.folder, run, self.progress.iteration)

    def _prepare(self, device: torch.device | str, beginning: Beginning | None) -> None:
        """Make the learner, in the state of the checkpoint if there is one."""
        self.learner = Learner(self.workers.policy, self.run.settings, self.run.seed, device)
        if beginning is not None:
            self.learner.begin(beginning)
        self._best = self.learner.weights()
        self._load()

    @property
    def done(self) -> bool:
        """Whether all samples were used."""
        return self.progress.iteration >= self.run.settings.iterations

    def step(self) -> dict[str, float]:
        """Do one iteration.

        Returns:
            Statistics of the update, by name.
        """
        start = time.perf_counter()
        p = self.progress
        weights = self.learner.weights()
        rollout = Rollout.joined(self.workers.collect(weights, p.iteration))
        collected = time.perf_counter()
        told = self.learner.update(rollout, p.iteration)
        self._count(rollout)
        whole = len(p.returns) == WINDOW
        if whole and (self.run.settings.keep == "last" or p.mean_return > p.best):
            p.best, self._best = p.mean_return, weights
        end = time.perf_counter()
        p.seconds += end - start
        told |= {
            "collect_seconds": collected - start,
            "samples_per_second": rollout.ended.numel() / (end - start),
        }
        means = {name: float(np.nanmean(metric.values)) for name, metric in self.metrics.items()}
        if p.reached:
            means["goal reached"] = float(np.mean(p.reached))
        self._curve.add(p, told, means)
        return told

    def _count(self, rollout: Rollout) -> None:
        """Add an iteration to the progress."""
        p = self.progress
        p.iteration += 1
        p.samples += rollout.ended.numel()
        p.failures += rollout.failures
        p.returns = (p.returns + rollout.returns.tolist())[-WINDOW:]
        p.lengths = (p.lengths + rollout.lengths.tolist())[-WINDOW:]
        p.reached = (p.reached + rollout.reached.tolist())[-WINDOW:]
        self.metrics = rollout.metrics

    def save(self) -> None:
        """Write a checkpoint that replaces the last one."""
        kept = {
            "progress": dataclasses.asdict(self.progress),
            "learner": self.learner.state(),
            "best": self._best if math.isfinite(self.progress.best) else self.learner.weights(),
        }
        self._curve.flush()
        write_checkpoint(self.folder, kept)

    def finish(self) -> PolicyFile:
        """Save, write the best policy to "policy.onnx", release the workers, and return the policy."""
        self.save()
        self.close()
        return PolicyFile(write_policy(self.folder))

    def close(self) -> None:
        """Release the workers and the files."""
        self.workers.close()
        self._curve.close()

    def _load(self) -> None:
        """Continue from the checkpoint if there is one."""
        kept = read_checkpoint(self.folder)
        if kept is None:
            return
        self.progress = Progress(**kept["progress"])
        self.learner.load(kept["learner"])
        self._best = kept["best"]


def write_policy(folder: str | os.PathLike) -> Path:
    """Write the best policy up to the last checkpoint of a run to "policy.onnx", and return its path.

    The best policy is that of the iteration with the highest mean of the last 100 returns; the current one if
    there were fewer episodes. With the setting `keep="last"` it is the current one.

    Raises:
        OSError: The folder holds no run with a checkpoint.
        NewtonsimError: One of its files is damaged, or it is a run of another algorithm.
    """
    folder = Path(folder)
    run, kept = Run.read(folder), _read_checkpoint(folder / CHECKPOINT)
    settings = run.settings
    if isinstance(settings, SacSettings):
        raise NewtonsimError(
            f"{folder}: a run of soft actor-critic, see newtonsim.learn.sac.write_sac_policy"
        )
    env = envs.make(run.name, 1, "cpu", **run.options)
    policy = PolicySpaces(env.single_observation_space, env.single_action_space)
    env.close()
    actor = make_network("actor", policy, settings)
    actor.load_state_dict(kept["best"])
    best = kept["progress"]["best"]
    about = {**run.written(), "samples": kept["progress"]["samples"]}
    about["return"] = best if math.isfinite(best) else None
    export_policy(folder / POLICY, actor, policy, about)
    return folder / POLICY


def read_beginning(path: str | os.PathLike) -> Beginning:
    """Read the policy that a training starts from.

    Args:
        path: The folder of a run, of which it is the best policy up to the last checkpoint with the critic;
            or the file of a policy, which has no critic.

    Raises:
        OSError: There is no such file.
        NewtonsimError: It is neither.
    """
    folder = Path(path)
    if not folder.is_dir():
        about = PolicyFile(path).about
        if "settings" not in about or about.get("algorithm", Settings.algorithm) != Settings.algorithm:
            raise _other_policy(path)
        return Beginning(os.fspath(path), about["settings"], weights_of(path), None)
    run, kept = Run.read(folder), _read_checkpoint(folder / CHECKPOINT)
    if isinstance(run.settings, SacSettings):
        raise _other_policy(path)
    settings = dataclasses.asdict(run.settings)
    return Beginning(os.fspath(path), settings, kept["best"], kept["learner"]["critic_state_dict"])


def _other_policy(path: str | os.PathLike) -> NewtonsimError:
    return NewtonsimError(
        f"{os.fspath(path)}: a training starts from a policy of `newtonsim train` by proximal policy "
        "optimisation, not of another library or algorithm"
    )


def _read_run(path: Path) -> dict[str, Any]:
    """Return the contents of the file of a run."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        # earlier versions always started from random policies
        names = (field.name for field in dataclasses.fields(Run) if field.name != "start")
        missing = [name for name in names if name not in kept]
    except (ValueError, TypeError) as error:
        raise NewtonsimError(f"{path}: damaged, not valid JSON of a run: {error}") from error
    if missing:
        raise NewtonsimError(f"{path}: damaged, {missing[0]!r} is missing")
    return kept


def _read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the contents of a checkpoint, on the CPU."""
    data = io.BytesIO(path.read_bytes())  # so that an OSError is of the file, and not of what it holds
    try:
        return torch.load(data, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise NewtonsimError(
            f"{path}: damaged, or not a checkpoint; remove it to train from the start: {error or type(error)}"
        ) from error


def read_checkpoint(folder: Path) -> dict[str, Any] | None:
    """Return the contents of the checkpoint of a run, on the CPU; None if there is none yet.

    Raises:
        NewtonsimError: It is damaged.
    """
    path = folder / CHECKPOINT
    return _read_checkpoint(path) if path.exists() else None


def write_checkpoint(folder: Path, kept: dict[str, Any]) -> None:
    """Replace the checkpoint of a run atomically."""
    path = folder / CHECKPOINT
    part = path.with_suffix(".part")
    torch.save(kept, part)
    os.replace(part, path)


def open_folder(folder: Path, run: Run[Any], iteration: int) -> Curve:
    """Make the folder of a run with its file, and return its curve up to an iteration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUN).write_text(json.dumps(run.written(), indent=2) + "\n", encoding="utf-8")
    return Curve(folder, iteration)


def check_folder(folder: Path, run: Run[Any]) -> None:
    """Raise an error if a folder holds another run, or is a file."""
    if folder.exists() and not folder.is_dir():
        raise NewtonsimError(f"{folder}: expected a folder, got a file")
    path = folder / RUN
    if not path.exists():
        return
    # settings that a file of an earlier version lacks have defaults
    there = _flat(Run.read(folder).written())
    for key, value in _flat(run.written()).items():
        if there.get(key) != value and key != "settings.samples":
            raise NewtonsimError(
                f"{path}: the run in this folder has {key} = {there.get(key)!r}, not {value!r}; "
                "choose another folder, or remove this one to start over"
            )


def _flat(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a tree of dicts with names like settings.gamma."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": inner for name, inner in _flat(value).items()} or {key: {}}
        else:
            flat[key] = value
    return flat


class Curve:
    """The learning curve as a table and as TensorBoard events, without rows of an interrupted session."""

    def __init__(self, folder: Path, iteration: int):
        from torch.utils.tensorboard import SummaryWriter

        path = folder / "curve.csv"
        rows: list[list[str]] = []
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                rows = [row for row in list(csv.reader(file))[1:] if int(row[0]) <= iteration]
        part = path.with_suffix(".part")
        with part.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *rows])
        os.replace(part, path)
        self._file = path.open("a", encoding="utf-8", newline="")
        self._table = csv.writer(self._file, lineterminator="\n")
        self._events = SummaryWriter(str(folder), purge_step=iteration + 1)

    def add(self, progress: Progress, told: dict[str, float], means: dict[str, float]) -> None:
        """Add an iteration; means of metrics go to the events alone."""
        p = progress
        numbers = {**told, "return": p.mean_return, "length": p.mean_length, "failures": p.failures}
        row = {"iteration": p.iteration, "samples": p.samples, "seconds": round(p.seconds, 2), **numbers}
        self._table.writerow([_short(row[name]) for name in _COLUMNS])
        self._file.flush()
        for name, value in {**numbers, **means, "samples": p.samples, "seconds": p.seconds}.items():
            if math.isfinite(value):
                self._events.add_scalar(name, value, p.iteration)

    def flush(self) -> None:
        """Write the events to disk; rows of the table are already there."""
        self._events.flush()

    def close(self) -> None:
        """Close both."""
        self._file.close()
        self._events.close()


def _short(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
