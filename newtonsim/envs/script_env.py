"""A vector environment of gymnasium for a scene written as for PyBullet."""

from __future__ import annotations

import os
import pathlib
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from newtonsim.errors import CheckpointError, NewtonsimError
from newtonsim.pybullet_compat import DIRECT, error
from newtonsim.pybullet_compat.bullet_client import BulletClient
from newtonsim.scene.checkpoint_file import read_file, write_file


class ScriptEnv(gymnasium.vector.VectorEnv, ABC):
    """Many worlds of one PyBullet scene, stepped together; a subclass provides the script.

    Its functions receive the client, whose calls address all worlds at once: numbers and vectors have a
    leading axis of worlds, see docs/pybullet.md. Worlds whose episode is over restart in the same step, and
    "final_obs" of the infos has their last observation. Then, as in `BatchedEnv`, the infos have "episode"
    with returns "r" and lengths "l", and "failed", with masks of worlds "_final_obs", "_episode", "_failed".

    A world whose observation or reward is NaN or infinite is terminated with reward 0 and zeros as its
    observation, and counted in `failures`. Actions are clipped to their bounds. A step of the environment is
    `frame_skip` steps of the client; applied forces and torques act in the first of them, as with
    stepSimulation.

    Args:
        num_envs: Number of worlds, at least 2: a client of one world answers without an axis of worlds.
        device: Where it runs; None for the default device of Warp.
        max_episode_steps: Steps after which an episode is truncated, 0 for never; None for `episode_steps`.
        episode_infos: Whether the infos have "episode".

    Attributes:
        observation_size: Size of an observation; set it, or `single_observation_space`, in the class.
        action_size: Size of an action, each entry from -1 to 1; set it, or `single_action_space`.
        frame_skip: Steps of the client in one step of the environment.
        episode_steps: Steps after which an episode is truncated, 0 for never.
        sim: The client of all worlds.
        failures: Number of episodes of each world that ended because of NaN or infinities (num_envs,).
        output, copy: "numpy" and True, as in a `BatchedEnv` whose results are new arrays.

    Raises:
        NewtonsimError: An argument is out of range.

    Examples:
        >>> import numpy as np
        >>> from newtonsim.envs.script_env import ScriptEnv
        >>> class Hover(ScriptEnv):
        ...     observation_size, action_size, episode_steps = 2, 1, 100
        ...     def build(self, sim):
        ...         sim.setGravity(0, 0, -9.81)
        ...         shape = sim.createCollisionShape(sim.GEOM_SPHERE, radius=0.1)
        ...         self.ball = sim.createMultiBody(1.0, shape)
        ...     def spawn(self, sim, worlds):
        ...         heights = self.np_random.uniform(0.5, 1.5, len(worlds))[:, None] * [0, 0, 1]
        ...         sim.resetBasePositionAndOrientation(self.ball, heights, [0, 0, 0, 1], worlds=worlds)
        ...     def act(self, sim, actions):
        ...         sim.applyExternalForce(self.ball, -1, 20 * actions * [0, 0, 1], [0, 0, 0], sim.LINK_FRAME)
        ...     def observe(self, sim):
        ...         height = sim.getBasePositionAndOrientation(self.ball)[0][:, 2]
        ...         return np.stack([height, sim.getBaseVelocity(self.ball)[0][:, 2]], axis=1)
        ...     def score(self, sim, obs):
        ...         return -abs(obs[:, 0] - 1.0), obs[:, 0] < 0.0
        >>> env = Hover(64, device="cpu")
        >>> obs, infos = env.reset(seed=0)
        >>> obs, reward, terminated, truncated, infos = env.step(env.action_space.sample())
        >>> obs.shape, reward.shape
        ((64, 2), (64,))
    """

    observation_size: int = 0
    action_size: int = 0
    frame_skip: int = 1
    episode_steps: int = 0
    single_observation_space: spaces.Space = None  # pyright: ignore[reportAssignmentType]
    single_action_space: spaces.Space = None  # pyright: ignore[reportAssignmentType]
    output, copy = "numpy", True

    def __init__(
        self,
        num_envs: int,
        device: str | None = None,
        max_episode_steps: int | None = None,
        episode_infos: bool = True,
    ):
        if not isinstance(num_envs, (int, np.integer)) or num_envs < 2:
            raise NewtonsimError(f"num_envs: expected a whole number of at least 2, got {num_envs!r}")
        limit = self.episode_steps if max_episode_steps is None else max_episode_steps
        if not isinstance(limit, (int, np.integer)) or limit < 0:
            raise NewtonsimError(f"max_episode_steps: expected a whole number of at least 0, got {limit!r}")
        self.num_envs, self.max_episode_steps = int(num_envs), int(limit)
        self.episode_infos = bool(episode_infos)
        self._make_spaces()
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
        self.sim = BulletClient(DIRECT, num_worlds=self.num_envs, device=device)
        self.failures = np.zeros(self.num_envs, int)
        self._lengths, self._returns = np.zeros(self.num_envs, int), np.zeros(self.num_envs)
        self._ended = (self._returns.copy(), self._lengths.copy())
        self._was_reset = False
        self.build(self.sim)

    def _make_spaces(self) -> None:
        sizes = (("observation", self.observation_size, np.inf), ("action", self.action_size, 1.0))
        for name, size, bound in sizes:
            if getattr(self, f"single_{name}_space") is None:
                if size < 1:
                    kind = type(self).__name__
                    raise NewtonsimError(f"{kind}: expected {name}_size or single_{name}_space in the class")
                space = spaces.Box(-bound, bound, (size,), np.float32)
                setattr(self, f"single_{name}_space", space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    # -- the script ------------------------------------------------------------------------------------------

    @abstractmethod
    def build(self, sim: BulletClient) -> None:
        """Load the contents of a world."""

    def spawn(self, sim: BulletClient, worlds: np.ndarray) -> None:
        """Start episodes in some worlds, whose bodies are at rest where they were loaded.

        Random numbers come from `self.np_random`.

        Args:
            sim: The client; its setters take `worlds=worlds`.
            worlds: Indices of the worlds (n,).
        """

    @abstractmethod
    def act(self, sim: BulletClient, actions: np.ndarray) -> None:
        """Apply actions (num_envs, ...) to motors and as forces, before the physics is stepped."""

    @abstractmethod
    def observe(self, sim: BulletClient) -> np.ndarray:
        """Return observations (num_envs, ...)."""

    @abstractmethod
    def score(self, sim: BulletClient, obs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return rewards and whether episodes are over, (num_envs,) each, and whether they have succeeded.

        The third may be left out; it goes into the infos as "is_success".

        Args:
            sim: The client.
            obs: Observations (num_envs, ...).
        """

    # -- gymnasium -------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start new episodes.

        Args:
            seed: Seed of the random numbers from now on, or several that form one together; None continues.
            options: {"reset_mask": mask} for some of the worlds, bool, shape (num_envs,).

        Returns:
            Observations (num_envs, ...), and an empty dict.

        Raises:
            NewtonsimError: The mask is wrong.
        """
        options = dict(options or {})
        mask = np.asarray(options.pop("reset_mask", np.ones(self.num_envs, bool)))
        if options:
            raise NewtonsimError(f"options: the only option is 'reset_mask', got {sorted(map(str, options))}")
        if mask.shape != (self.num_envs,) or mask.dtype != bool:
            expected = f"expected booleans in shape ({self.num_envs},)"
            raise NewtonsimError(f"reset_mask: {expected}, got {mask.dtype} in shape {mask.shape}")
        if isinstance(seed, Sequence):
            self._np_random = np.random.default_rng(list(seed))
        elif seed is not None:
            super().reset(seed=int(seed))
        self._begin(mask if self._was_reset else np.ones(self.num_envs, bool))
        self._was_reset = True
        return self._observed(), {}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take an action in each world.

        Args:
            actions: (num_envs, ...).

        Returns:
            Observations (num_envs, ...), rewards, terminations and truncations (num_envs,), and infos.

        Raises:
            NewtonsimError: Actions have the wrong shape or are not finite, there was no reset, or the script
                returns an array of the wrong shape.
        """
        if not self._was_reset:
            raise NewtonsimError("step: call reset first")
        self.act(self.sim, self._checked(actions))
        self.sim.advance(self.frame_skip)
        obs = self._observed()
        reward, terminated, *success = self._scored(obs)
        failed = ~(np.isfinite(obs.reshape(self.num_envs, -1)).all(axis=1) & np.isfinite(reward))
        if failed.any():
            obs[failed], reward[failed], terminated[failed] = 0, 0.0, True
            self.failures += failed
        self._lengths += 1
        self._returns += reward
        at_limit = bool(self.max_episode_steps) and self._lengths >= self.max_episode_steps
        truncated = np.full(self.num_envs, at_limit) & ~terminated
        infos: dict[str, Any] = {}
        if success:
            infos = {"is_success": success[0], "_is_success": np.ones(self.num_envs, bool)}
        if (ended := terminated | truncated).any():
            infos |= self._infos(obs, ended, failed)
            self._begin(ended)
            obs = np.where(ended.reshape(-1, *[1] * (obs.ndim - 1)), self._observed(), obs)
        return obs, reward, terminated, truncated, infos

    def save(self, path: str | os.PathLike) -> None:
        """Write all that the next step reads to a file, as a whole or not at all.

        Bodies, the last step of the solver, episodes and random numbers belong to it, as with saveBullet.
        What a script keeps in Python objects of its own does not, nor what it has changed in bodies since
        `build`.

        Args:
            path: The file; one of that name is replaced.

        Raises:
            CheckpointError: It cannot be written.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.sim.saveBullet(f"{folder}/world")
            world = np.frombuffer(pathlib.Path(folder, "world").read_bytes(), np.uint8)
        facts = {**self._about(), "was_reset": self._was_reset, "random": self.np_random.bit_generator.state}
        write_file(path, facts, {"world": world, **self._counts()})

    def restore(self, path: str | os.PathLike) -> None:
        """Go on from a file of `save`, in an environment that was made in the same way.

        Args:
            path: The file.

        Raises:
            CheckpointError: The file cannot be read or is damaged, or another environment wrote it; nothing
                is changed then.
        """
        name, own = os.fspath(path), self._counts()
        facts, arrays = read_file(name)
        for key, value in self._about().items():
            if facts.get(key) != value:
                raise CheckpointError(
                    f"{name}: of another environment: {key} was {facts.get(key)!r}, here {value!r}"
                )
        random = np.random.default_rng()
        try:
            random.bit_generator.state = facts["random"]
            world = arrays["world"].tobytes()
            if any(arrays[key].shape != now.shape for key, now in own.items()):
                raise ValueError("episodes of another number of worlds")
            with tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "world").write_bytes(world)
                self.sim.restoreState(fileName=f"{folder}/world")
        except (KeyError, TypeError, ValueError, OverflowError, error) as wrong:
            raise CheckpointError(f"{name}: this is no checkpoint of such an environment: {wrong}") from wrong
        for key, now in own.items():
            now[...] = arrays[key]
        self._np_random, self._was_reset = random, bool(facts.get("was_reset"))

    def _about(self) -> dict[str, Any]:
        """What has to be the same where a checkpoint is restored."""
        limit = self.max_episode_steps
        return {"env": type(self).__name__, "num_envs": self.num_envs, "max_episode_steps": limit}

    def _counts(self) -> dict[str, np.ndarray]:
        """What is counted of episodes, in the arrays themselves."""
        ended = {"ended_returns": self._ended[0], "ended_lengths": self._ended[1]}
        return {"failures": self.failures, "lengths": self._lengths, "returns": self._returns, **ended}

    def render(self) -> None:
        """Return None: the script takes pictures by getCameraImage."""

    def close_extras(self, **kwargs: Any) -> None:
        """Disconnect the client."""
        self.sim.disconnect()

    def ended_episodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the return and length of each world's last complete episode, (num_envs,) each."""
        return self._ended

    def _checked(self, actions: np.ndarray) -> np.ndarray:
        """Return actions clipped to their bounds."""
        actions = np.asarray(actions)
        shape = self.action_space.shape
        if actions.shape != shape:
            raise NewtonsimError(f"actions: expected shape {shape}, got {actions.shape}")
        if actions.dtype.kind not in "fiub" or not np.isfinite(actions).all():
            raise NewtonsimError("actions: expected finite numbers")
        space = self.action_space
        return np.clip(actions, space.low, space.high) if isinstance(space, spaces.Box) else actions

    def _begin(self, mask: np.ndarray) -> None:
        """Start episodes in the masked worlds."""
        worlds = np.flatnonzero(mask)
        self.sim.resetWorlds(worlds)
        self.spawn(self.sim, worlds)
        self._lengths[worlds], self._returns[worlds] = 0, 0.0

    def _observed(self) -> np.ndarray:
        """Return the observations in the type of the space, as a new array."""
        space = self.observation_space
        obs = np.array(self.observe(self.sim), space.dtype)
        if obs.shape != space.shape:
            raise NewtonsimError(
                f"observe: expected shape {space.shape}, {type(self).__name__} returned {obs.shape}"
            )
        return obs

    def _scored(self, obs: np.ndarray) -> list[np.ndarray]:
        """Return what `score` returns, as new arrays."""
        given = tuple(self.score(self.sim, obs))
        if len(given) not in (2, 3):
            raise NewtonsimError(
                f"score: expected two or three arrays, {type(self).__name__} returned {len(given)}"
            )
        found = [np.array(values, dtype) for values, dtype in zip(given, (np.float64, bool, bool))]
        for values, name in zip(found, ("rewards", "terminations", "successes")):
            if values.shape != (self.num_envs,):
                raise NewtonsimError(
                    f"score: expected {name} in shape ({self.num_envs},), {type(self).__name__} returned "
                    f"{values.shape}"
                )
        return found

    def _infos(self, obs: np.ndarray, ended: np.ndarray, failed: np.ndarray) -> dict[str, Any]:
        """Return the infos about episodes that have ended."""
        for kept, values in zip(self._ended, (self._returns, self._lengths), strict=True):
            kept[ended] = values[ended]
        episode: dict[str, Any] = {"failed": failed, "_failed": ended.copy()}
        if self.episode_infos:
            returns, lengths = (values.copy() for values in self._ended)
            episode |= {"episode": {"r": returns, "l": lengths}, "_episode": ended.copy()}
        infos = {**episode, "final_obs": obs.copy(), "_final_obs": ended.copy()}
        return infos | {"final_info": dict(episode), "_final_info": ended.copy()}
