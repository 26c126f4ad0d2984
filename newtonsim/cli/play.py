"""``newtonsim play``: run a trained policy, and show it as figures, as a video, or in the web browser."""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from newtonsim.cli.pairs import key_values
from newtonsim.cli.play_problem import play_problem
from newtonsim.cli.progress import EpisodesProgress, advise
from newtonsim.cli.start import start_device
from newtonsim.cli.train import find_task, import_learn, let_threads_sleep
from newtonsim.cli.view import LiveView
from newtonsim.errors import DefaultsWarning, NewtonsimError
from newtonsim.render.films.video import check_video_name, require_video

if TYPE_CHECKING:
    from newtonsim.envs import BatchedEnv, Task
    from newtonsim.learn import PolicyFile


def play(arguments: argparse.Namespace) -> int:
    """Run a policy as the arguments say."""
    let_threads_sleep()
    # training has told them
    warnings.simplefilter("ignore", DefaultsWarning)
    device = start_device(arguments.device)
    path = policy_path(arguments.policy)
    if arguments.video:
        require_video()
        check_video_name(arguments.video)
    learn = import_learn()
    from newtonsim import envs

    if not os.path.exists(path):
        run = learn.Run.read(arguments.policy)
        find_task(run.name)
        if run.settings.algorithm == "sac":
            from newtonsim.learn.sac import write_sac_policy

            write_sac_policy(arguments.policy)
        else:
            learn.write_policy(arguments.policy)
        print(f"{path}: written from the last checkpoint")

    policy = learn.PolicyFile(path)
    if "problem" in policy.about:
        return play_problem(policy, path, arguments, device)
    name, options = policy.about["name"], options_of(path, policy, arguments.option)
    print(f"{path}: {name}, learned from {policy.about['samples']:,} samples")
    options = _on_level(find_task(name), options, arguments.level)
    if arguments.view:
        env = envs.make(name, arguments.num_envs, device, **options)
        _live(policy, env, arguments, name)
        return 0
    # as many episodes in each world, and no more than it takes
    each = math.ceil(arguments.episodes / arguments.num_envs)
    env = envs.make(name, math.ceil(arguments.episodes / each), device, **options)
    whole = _evaluate(policy, env, arguments, name)
    env.close()
    if not whole:
        return 130
    if arguments.video:
        env = envs.make(name, 1, device, render_mode="rgb_array", render_size=(640, 480), **options)
        learn.film(policy, env, arguments.video, arguments.seconds, arguments.seed)
        env.close()
        print(f"video: {arguments.video}")
    return 0


def options_of(path: str, policy: PolicyFile, changes: Sequence[str]) -> dict[str, Any]:
    """Return the options of the environment that a policy was trained in, after changes NAME=VALUE.

    Args:
        path: File of the policy.
        policy: The policy.
        changes: The changes.

    Raises:
        NewtonsimError: There is no such option, or a file that one names is not there.
    """
    task = find_task(policy.about["name"])
    options = {**policy.about["options"], **key_values("--option", changes)}
    for name in task.files(options):
        if not os.path.exists(options[name]):
            raise NewtonsimError(
                f"{path}: {name}: {options[name]}: no such file; --option {name}=PATH says where it is now"
            )
    return options


def _on_level(task: type[Task], options: dict[str, Any], level: int | None) -> dict[str, Any]:
    """Return options by which all episodes are on one level of the terrain; say which levels there are.

    Args:
        task: The task.
        options: Its options.
        level: The level from 1 on; None for those of training.

    Raises:
        NewtonsimError: There is no such level.
    """
    if not task.has_terrain:
        if level is not None:
            raise NewtonsimError(f"--level: {task.name} has no terrain")
        return options
    o = {**task.defaults, **options}
    levels, first = o["levels"], min(o["first_levels"], o["levels"])
    if level is None:
        grows = " and grow harder or easier" if o["curriculum"] else ""
        print(
            f"levels 1 (easy) to {levels}: episodes start on 1 to {first}{grows}, as in training; --level N "
            "plays one level"
        )
        return options
    if level > levels:
        raise NewtonsimError(f"--level: expected 1 to {levels}, got {level}")
    share = (level - 0.5) / levels
    return {**options, "randomise": {**(o.get("randomise") or {}), "terrain": (share, share)}}


def policy_path(path: str) -> str:
    """Return the file of a policy, given it or the folder of its run, where it is written if need be."""
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise NewtonsimError(f"{path}: no such file")
        return path
    file = os.path.join(path, "policy.onnx")
    if not os.path.exists(file) and not os.path.exists(os.path.join(path, "checkpoint.pt")):
        runs = sorted(n for n in os.listdir(path) if os.path.exists(os.path.join(path, n, "policy.onnx")))
        there = f"it contains runs with policies: {', '.join(runs)}" if runs else "it contains no policy.onnx"
        raise NewtonsimError(f"{path}: expected the folder of a run; {there}")
    return file


def _evaluate(policy: PolicyFile, env: BatchedEnv, arguments: argparse.Namespace, name: str) -> bool:
    """Print how well a policy performs; return False if Ctrl-C ended it early."""
    from newtonsim.learn import evaluate

    progress = EpisodesProgress(name, math.ceil(arguments.episodes / env.num_envs) * env.num_envs)
    try:
        found = evaluate(policy, env, arguments.episodes, arguments.seed, watch=progress.show)
    except KeyboardInterrupt:
        progress.end()
        print(f"stopped after {progress.summary()}")
        return False
    progress.end()
    print(found)
    advise(found.metrics)
    return True


def _live(policy: PolicyFile, env: BatchedEnv, arguments: argparse.Namespace, name: str) -> None:
    """Show a policy in the browser until Ctrl-C."""
    obs, _ = env.reset(seed=arguments.seed)
    live = LiveView(env.sim, arguments, name)
    while True:
        obs, *_ = env.step(policy(obs))
        live.show()
