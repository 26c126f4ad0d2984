"""Environments in whose middle a worker is killed, which workers can import."""

import os
import pathlib
import signal
from collections.abc import Callable
from typing import Any

from newtonsim import envs


def make(make: Callable[..., envs.BatchedEnv], folder: pathlib.Path, at: int, **options: Any):
    """Return an environment whose process is killed in a step, unless one was before.

    Args:
        make: Makes the environment.
        folder: Where "killed" tells that one was, and how many worlds it had.
        at: Number of the step.
        options: Arguments of `make`.
    """
    env = make(**options)
    step, steps = env.step, 0

    def count_and_step(actions: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == at:
            try:
                (folder / "killed").open("x").write(str(env.num_envs))
            except FileExistsError:
                return step(actions)
            os.kill(os.getpid(), signal.SIGKILL)
        return step(actions)

    env.step = count_and_step
    return env
