"""``newtonsim train --algorithm shac``: a policy for a problem, by gradients of the simulation."""

from __future__ import annotations

import argparse
import inspect
import math
import os
import sys

from newtonsim.cli.pairs import key_values, refuse
from newtonsim.cli.play_problem import evaluate_problem, film_problem
from newtonsim.errors import NewtonsimError, did_you_mean

_NOT_SET = ("self", "problem", "worlds", "starts", "observe", "seed")
"""Arguments of SHAC that `--set` doesn't take: they have options of their own, or are functions."""

_ITERATIONS, _FILM = 400, 10.0


def train_problem(arguments: argparse.Namespace, device: str) -> int:
    """Train a policy of SHAC as the arguments say, then evaluate and film it."""
    refuse(arguments, "shac", "ray_workers", "start", "seconds", "threads", "option")
    try:
        from newtonsim import optimize
        from newtonsim.learn.problem_policies import find_problem, save_shac, starts_of
    except ImportError as error:
        raise NewtonsimError(str(error)) from error
    from newtonsim.learn import PolicyFile

    changes = key_values("--set", arguments.set)
    known = [name for name in inspect.signature(optimize.SHAC.__init__).parameters if name not in _NOT_SET]
    for name in changes:
        if name not in known:
            raise NewtonsimError(
                f"there is no setting {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}"
            )
    if arguments.num_envs is not None:
        changes["worlds"] = arguments.num_envs
    sys.path.insert(0, os.getcwd())
    problem = find_problem(arguments.name, device)
    name = arguments.name.rpartition(":")[2]
    folder = arguments.folder or os.path.join("runs", f"{name}-seed{arguments.seed}")
    path = os.path.join(folder, "policy.onnx")
    if os.path.exists(path):
        raise NewtonsimError(f"{path}: exists, and SHAC continues no run; choose another --folder")
    policy = optimize.SHAC(problem, seed=arguments.seed, **changes)
    each = policy.worlds * problem.horizon
    iterations = math.ceil(arguments.samples / each) if arguments.samples is not None else _ITERATIONS
    print(f"{folder}: {policy.worlds} worlds of {arguments.name}, {iterations} iterations", file=sys.stderr)
    stopped = False
    try:
        print(policy.train(iterations))
    except KeyboardInterrupt:
        stopped = True
    os.makedirs(folder, exist_ok=True)
    save_shac(path, policy, arguments.name)
    print(f"best policy: {path}")
    if stopped:
        print(f"stopped after {policy.samples:,} samples", file=sys.stderr)
        return 130
    written = PolicyFile(path)
    starts = starts_of(written, problem)
    if not evaluate_problem(written, problem, starts, len(starts[0]), arguments.name):
        return 130
    if not arguments.no_video:
        film = os.path.join(folder, "video.mp4")
        film_problem(written, problem, starts, film, _FILM)
        print(f"video: {film}")
    return 0
