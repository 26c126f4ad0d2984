"""``newtonsim play``: a policy that was trained, in figures, as a video, or in the web browser."""

from __future__ import annotations

import argparse
import os
import sys

from newtonsim.cli_view import LiveView
from newtonsim.errors import NewtonsimError


def play(arguments: argparse.Namespace) -> int:
    """Run a policy as the arguments say."""
    import warp as wp

    wp.config.log_level = wp.LOG_ERROR  # no word on every module, nor on a machine without a GPU
    try:
        from newtonsim import envs, learn
    except ImportError as error:
        raise NewtonsimError(str(error)) from error
    path = arguments.policy
    if os.path.isdir(path):
        path = os.path.join(path, "policy.onnx")
    policy = learn.PolicyFile(path)
    name, options = policy.about["name"], policy.about["options"]
    sys.path.insert(0, os.getcwd())  # for environments in modules that lie here
    print(f"{path}: {name}, learned from {policy.about['samples']:,} samples")
    if arguments.view:
        env = envs.make(name, arguments.num_envs, arguments.device, **options)
        _live(policy, env, arguments, name)
        return 0
    env = envs.make(name, arguments.num_envs, arguments.device, **options)
    print(learn.evaluate(policy, env, arguments.episodes, arguments.seed))
    env.close()
    if arguments.video:
        env = envs.make(name, 1, arguments.device, render_mode="rgb_array", render_size=(640, 480), **options)
        learn.film(policy, env, arguments.video, arguments.seconds, arguments.seed)
        env.close()
        print(f"video: {arguments.video}")
    return 0


def _live(policy: object, env: object, arguments: argparse.Namespace, name: str) -> None:
    """Show a policy in the browser until Ctrl-C."""
    obs, _ = env.reset(seed=arguments.seed)
    live = LiveView(env.sim, arguments, name)
    while True:
        obs, *_ = env.step(policy(obs))
        live.show()
