"""Environments by name, here and in gymnasium."""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType
from typing import Any

import gymnasium
import warp as wp

from newtonsim.envs import pybullet_names
from newtonsim.envs.batched import BatchedEnv
from newtonsim.envs.single import SingleEnv
from newtonsim.envs.task import Task
from newtonsim.errors import NewtonsimError, did_you_mean

_tasks: dict[str, type[Task]] = {}
_VERSION = 0


def names() -> list[str]:
    """Return the names of all environments."""
    return sorted(_tasks)


def register(task: type[Task]) -> None:
    """Make an environment known to `make` and to gymnasium.

    Args:
        task: The task; its `name` is the environment's.

    Raises:
        NewtonsimError: The name is taken, or the task has none.
    """
    if not isinstance(getattr(task, "name", None), str):
        raise NewtonsimError(f"register: expected a class derived from Task with a name, got {task!r}")
    if _tasks.get(task.name, task) is not task:
        raise NewtonsimError(f"register: there is an environment {task.name!r} already")
    _tasks[task.name] = task
    _register_with_gymnasium(task)


def find(name: str) -> type[Task]:
    """Return the task of an environment, given a name that `make` accepts.

    Raises:
        NewtonsimError: There is no such environment, or no such module.
    """
    module, colon, rest = name.partition(":")
    if colon:
        import_own(module, "to register environments")
    own = pybullet_names.counterpart(rest if colon else name)
    if own not in _tasks:
        known = [*_tasks, *pybullet_names.ORIGINALS]
        # as in gymnasium ("newtonsim/Ant-v0", "Ant-v5") or in other letters ("ant")
        alike = [each for each in known if _stem(each).lower() == _stem(own).lower()]
        hint = did_you_mean(alike[0] if alike else _stem(own), known)
        raise NewtonsimError(f"there is no environment {own!r}{hint}; there are {', '.join(names())}")
    return _tasks[own]


def _stem(name: str) -> str:
    """Return a name without its package prefix and version suffix."""
    return re.sub(r"^newtonsim/|-v\d+$", "", name, flags=re.IGNORECASE)


def import_own(module: str, purpose: str) -> ModuleType:
    """Import a module of the user.

    Args:
        module: Its name.
        purpose: What it is for, as the error says if there is none.

    Raises:
        NewtonsimError: There is no such module.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise NewtonsimError(
            f"there is no module {module!r} {purpose}; its folder must be the current one or on PYTHONPATH"
        ) from error


def make(name: str, num_envs: int = 1, device: wp.DeviceLike = None, **options: Any) -> BatchedEnv:
    """Return many worlds of an environment.

    Args:
        name: Its name, see `names`, such as "CartPole"; "module:Name" for one registered by a module; or one
            of PyBullet's, such as "AntBulletEnv-v0", for its counterpart: a `SubstitutedEnvironmentWarning`
            then says once what differs.
        num_envs: Number of worlds.
        device: Device; None for Warp's default.
        options: Further arguments of `BatchedEnv`, and options of the task.

    Raises:
        NewtonsimError: Name or options are unknown or out of range.

    Example:
        >>> from newtonsim import envs
        >>> env = envs.make("CartPole", 8, device="cpu")
        >>> env.reset(seed=1)[0].shape
        (8, 4)
    """
    task = find(name)
    task.check_names(options, _ENV_OPTIONS)
    of_env = {key: options.pop(key) for key in _ENV_OPTIONS if key in options}
    try:
        inspect.signature(task).bind(**options)
    except TypeError as error:
        raise NewtonsimError(f"{task.name}: {error}") from None
    env = BatchedEnv(task(**options), num_envs, device, **of_env)
    pybullet_names.tell(name, env)
    return env


_ENV_OPTIONS = tuple(inspect.signature(BatchedEnv).parameters)[1:]
"""Arguments of `BatchedEnv` other than the task."""


def make_vector(name: str, num_envs: int = 1, **options: Any) -> BatchedEnv:
    """The function that `gymnasium.make_vec` calls."""
    # statistics are the business of gymnasium's wrapper there, which would find its key taken
    return make(name, num_envs, **{"episode_infos": False, **options})


def make_single(name: str, **options: Any) -> SingleEnv:
    """The function that `gymnasium.make` calls."""
    render_mode = options.pop("render_mode", None)
    return SingleEnv(lambda **more: make(name, 1, **more, **options), render_mode)


def register_pybullet_names() -> None:
    """Register PyBullet's names with gymnasium for their counterparts, unless they are taken."""
    for name in (*pybullet_names.ORIGINALS, *pybullet_names.CLOSEST):
        if name not in gymnasium.registry:
            original = pybullet_names.ORIGINALS.get(name)
            steps = None if original is None else _tasks[original.counterpart].episode_steps
            _register(name, name, steps)


def _register_with_gymnasium(task: type[Task]) -> None:
    _register(f"newtonsim/{task.name}-v{_VERSION}", task.name, task.episode_steps)


def _register(key: str, name: str, episode_steps: int | None) -> None:
    gymnasium.register(
        key,
        entry_point="newtonsim.envs.registry:make_single",
        vector_entry_point="newtonsim.envs.registry:make_vector",
        max_episode_steps=episode_steps,
        kwargs={"name": name},
    )
