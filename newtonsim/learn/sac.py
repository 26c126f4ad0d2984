"""Soft actor-critic of stable-baselines3 as a training that can be resumed, in the folder of a run."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.spaces import Box

from newtonsim import envs
from newtonsim.errors import NewtonsimError
from newtonsim.learn.policy_file import PolicyFile
from newtonsim.learn.saving import write_policy_of
from newtonsim.learn.settings import SacSettings
from newtonsim.learn.training import (
    POLICY,
    WINDOW,
    Progress,
    Run,
    check_folder,
    open_folder,
    read_checkpoint,
    write_checkpoint,
)
from newtonsim.runtime.devices import find_device

try:
    from stable_baselines3 import SAC
    from stable_baselines3.common.buffers import ReplayBuffer
except ImportError as error:
    raise NewtonsimError(
        "soft actor-critic needs stable-baselines3: pip install 'newtonsim[stable-baselines3]'"
    ) from error

from newtonsim.adapters.stable_baselines3_env import Sb3Env

if TYPE_CHECKING:
    from newtonsim.envs.task import Metric

_BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
"""Arrays of a replay buffer."""


_NEVER = 2**31
"""Episodes between two logs of stable-baselines3, which prints them."""


class SacTraining:
    """A run of soft actor-critic in a folder, which continues from its last checkpoint.

    The folder is as that of `Training`. The checkpoint holds the replay buffer, too.

    Args:
        run: What is trained.
        folder: The folder.
        device: Device of worlds and networks; None for Warp's default.
        threads: Threads of the physics on the CPU; None for the default.

    Attributes:
        run: What is trained.
        folder: The folder.
        progress: Its progress.
        metrics: What `Task.metrics` tells after the last iteration, by name.

    Raises:
        NewtonsimError: The folder holds another run or a damaged one, it is not a folder, the environment
            cannot be created as the run says, or it has pictures, choices or a policy to start from.
    """

    def __init__(
        self,
        run: Run[SacSettings],
        folder: str | os.PathLike,
        device: str | None = None,
        threads: int | None = None,
    ):
        self.run, self.folder = run, Path(folder)
        self.progress, self.metrics = Progress(), dict[str, "Metric"]()
        check_folder(self.folder, run)
        if run.start is not None:
            raise NewtonsimError("start: only proximal policy optimisation starts from another policy")
        kept = read_checkpoint(self.folder)
        if kept is not None:
            self.progress = Progress(**kept["progress"])
        of_device = {} if threads is None else {"threads": threads}
        self._env = envs.make(run.name, run.settings.num_envs, device, **of_device, **run.options)
        try:
            _check_spaces(run.name, self._env.single_observation_space, self._env.single_action_space)
            self.model = self._make(find_device(device).is_cuda)
        except NewtonsimError:
            self._env.close()
            raise
        self._best = self._weights()
        if kept is not None:
            self._load(kept)
        # returns and lengths of the last episodes of the session before
        self._before = self.progress.returns, self.progress.lengths
        self._curve = open_folder(self.folder, run, self.progress.iteration)

    def _make(self, on_gpu: bool) -> SAC:
        """Make the learner; worlds and random numbers of each session differ."""
        s, p = self.run.settings, self.progress
        words = np.random.SeedSequence([self.run.seed, p.iteration]).generate_state(1)
        return SAC(
            "MlpPolicy",
            Sb3Env(self._env),
            learning_rate=s.learning_rate,
            buffer_size=min(s.buffer_size, s.batch * s.iterations),
            learning_starts=s.random_samples,
            batch_size=s.batch_size,
            tau=s.tau,
            gamma=s.gamma,
            gradient_steps=s.updates,
            policy_kwargs={"net_arch": list(s.hidden)},
            seed=int(words[0]),
            device="cuda" if on_gpu else "cpu",
        )

    @property
    def done(self) -> bool:
        """Whether all samples were used."""
        return self.progress.iteration >= self.run.settings.iterations

    def step(self) -> dict[str, float]:
        """Do one iteration.

        Returns:
            Mean deviation of actions, weight of the entropy and samples per second, by name.
        """
        start, p, s = time.perf_counter(), self.progress, self.run.settings
        failed = int(self._env.failures.sum())
        self.model.learn(s.batch, log_interval=_NEVER, reset_num_timesteps=False)
        p.iteration += 1
        p.samples += s.batch
        p.failures += int(self._env.failures.sum()) - failed
        told = list(self.model.ep_info_buffer or ())
        p.returns = (self._before[0] + [float(e["r"]) for e in told])[-WINDOW:]
        p.lengths = (self._before[1] + [int(e["l"]) for e in told])[-WINDOW:]
        if self._env.task.has_goal:
            p.reached = [bool(reached) for reached in self.model.ep_success_buffer or ()]
        if len(p.returns) == WINDOW and p.mean_return > p.best:
            p.best, self._best = p.mean_return, self._weights()
        self.metrics = self._env.metrics()
        seconds = time.perf_counter() - start
        p.seconds += seconds
        numbers = {**self._deviation(), "learning_rate": s.learning_rate}
        numbers |= {"samples_per_second": s.batch / seconds}
        self._curve.add(p, numbers, {k: float(np.nanmean(m.values)) for k, m in self.metrics.items()})
        return numbers

    def _deviation(self) -> dict[str, float]:
        with torch.no_grad():
            seen = torch.as_tensor(np.asarray(self.model._last_obs), device=self.model.device)
            log_std = self.model.actor.get_action_dist_params(seen)[1]
        entropy = self.model.log_ent_coef
        told = {"std": float(log_std.exp().mean())}
        return told if entropy is None else {**told, "entropy_weight": math.exp(float(entropy.detach()))}

    def _weights(self) -> dict[str, torch.Tensor]:
        """Return the state of the actor, on the CPU."""
        state = self.model.actor.state_dict()
        return {name: value.detach().cpu().clone() for name, value in state.items()}

    def save(self) -> None:
        """Write a checkpoint that replaces the last one."""
        model, buffer = self.model, self._buffer
        rows = buffer.buffer_size if buffer.full else buffer.pos
        kept = {
            "progress": dataclasses.asdict(self.progress),
            "parameters": model.get_parameters(),
            "entropy": None if model.log_ent_coef is None else model.log_ent_coef.detach().cpu(),
            "timesteps": model.num_timesteps,
            "buffer": {name: torch.from_numpy(getattr(buffer, name)[:rows]) for name in _BUFFER},
            "place": buffer.pos,
            "best": self._best if math.isfinite(self.progress.best) else self._weights(),
        }
        self._curve.flush()
        write_checkpoint(self.folder, kept)

    def finish(self) -> PolicyFile:
        """Save, write the best policy to "policy.onnx", release the worlds, and return the policy."""
        self.save()
        self.close()
        return PolicyFile(write_sac_policy(self.folder))

    def close(self) -> None:
        """Release the worlds and the files."""
        self._env.close()
        self._curve.close()

    @property
    def _buffer(self) -> ReplayBuffer:
        buffer = self.model.replay_buffer
        assert isinstance(buffer, ReplayBuffer)
        return buffer

    def _load(self, kept: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        model, buffer = self.model, self._buffer
        try:
            model.set_parameters(kept["parameters"], device=model.device)
        except (RuntimeError, ValueError, KeyError) as error:
            raise NewtonsimError(f"the checkpoint does not fit the networks of the run: {error}") from error
        if model.log_ent_coef is not None:
            model.log_ent_coef.data.copy_(kept["entropy"])
        model.num_timesteps, self._best = kept["timesteps"], kept["best"]
        rows = len(kept["buffer"]["rewards"])
        # more samples than those of the run before have a larger buffer
        kept_rows = np.roll(np.arange(rows), -kept["place"] % max(rows, 1))[-buffer.buffer_size :]
        for name in _BUFFER:
            getattr(buffer, name)[: len(kept_rows)] = kept["buffer"][name].numpy()[kept_rows]
        buffer.pos = len(kept_rows) % buffer.buffer_size
        buffer.full = len(kept_rows) == buffer.buffer_size


def _check_spaces(name: str, seen: object, done: object) -> None:
    """Raise an error if the networks suit neither observations nor actions."""
    if not (isinstance(seen, Box) and len(seen.shape) == 1 and isinstance(done, Box)):
        raise NewtonsimError(
            f"{name}: soft actor-critic takes vectors of observations and continuous actions, not {seen} and "
            f"{done}; proximal policy optimisation takes these"
        )


def acting(model: SAC) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function from observations (n, ...) to the actions of the environment, without noise."""
    low, high = (torch.as_tensor(bound) for bound in (model.action_space.low, model.action_space.high))  # pyright: ignore[reportAttributeAccessIssue]

    def act(obs: torch.Tensor) -> torch.Tensor:
        # distributions check numbers, which no graph can
        mean = model.policy.actor.get_action_dist_params(obs)[0]
        return low + 0.5 * (torch.tanh(mean) + 1.0) * (high - low)

    return act


def write_sac_policy(folder: str | os.PathLike) -> Path:
    """Write the best policy up to the last checkpoint of a run to "policy.onnx", and return its path.

    Raises:
        OSError: The folder holds no run with a checkpoint.
        NewtonsimError: One of its files is damaged.
    """
    folder = Path(folder)
    run, kept = Run.read(folder), read_checkpoint(folder)
    if kept is None or not isinstance(run.settings, SacSettings):
        raise FileNotFoundError(f"{folder}: holds no checkpoint of soft actor-critic")
    env = Sb3Env(envs.make(run.name, 1, "cpu", **run.options))
    model = SAC(
        "MlpPolicy", env, buffer_size=1, policy_kwargs={"net_arch": list(run.settings.hidden)}, device="cpu"
    )
    model.actor.load_state_dict(kept["best"])
    env.close()
    best = kept["progress"]["best"]
    about = {**run.written(), "samples": kept["progress"]["samples"]}
    about["return"] = best if math.isfinite(best) else None
    write_policy_of(folder / POLICY, acting(model), run, about)
    return folder / POLICY
