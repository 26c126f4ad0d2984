"""``newtonsim play`` for policies of SHAC, whose files name a problem instead of an environment."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.cli.progress import ProgressLine
from newtonsim.cli.view import LiveView
from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from newtonsim.learn import PolicyFile
    from newtonsim.optimize import Problem
    from newtonsim.simulator import Simulator


def play_problem(policy: PolicyFile, path: str, arguments: argparse.Namespace, device: str) -> int:
    """Run a policy as the arguments say, and print what it costs."""
    from newtonsim.learn.problem_policies import find_problem, starts_of

    for option, value in (("--option", arguments.option), ("--level", arguments.level)):
        if value:
            raise NewtonsimError(f"{option}: {path} is for a problem, not for an environment")
    sys.path.insert(0, os.getcwd())
    name, samples = policy.about["problem"], policy.about["samples"]
    problem = find_problem(name, device)
    print(f"{path}: {name}, learned from {samples:,} samples")
    q, qd = starts_of(policy, problem)
    order = np.random.default_rng(arguments.seed).permutation(len(q))[: arguments.episodes]
    starts = q[order], qd[order]
    worlds = arguments.num_envs
    if arguments.view:
        sim = problem.make_simulator()
        live = LiveView(sim, arguments, name)
        for _ in _acting(policy, problem, sim, starts):
            live.show()
    if not evaluate_problem(policy, problem, starts, worlds, name):
        return 130
    if arguments.video:
        film_problem(policy, problem, starts, arguments.video, arguments.seconds)
        print(f"video: {arguments.video}")
    return 0


def evaluate_problem(
    policy: PolicyFile,
    problem: Problem,
    starts: tuple[np.ndarray, np.ndarray],
    worlds: int,
    name: str,
) -> bool:
    """Print what a policy costs in a second, in so many worlds at once; return False if Ctrl-C ended it."""
    from newtonsim.optimize import run_policy

    length, count = policy.about["episode"], len(starts[0])
    line, found = ProgressLine(), np.zeros(0)
    try:
        for first in range(0, count, worlds):
            some = slice(first, first + worlds)

            def show(controls: int, first: int = first) -> None:
                line.show(f"{name}: {first:,} of {count:,} episodes, {controls:,} of {length:,} controls")

            costs = run_policy(problem, policy, (starts[0][some], starts[1][some]), length, show)
            found = np.append(found, costs)
    except KeyboardInterrupt:
        line.end()
        print(f"stopped after {len(found)} of {count} episodes")
        return False
    line.show(f"{name}: {count:,} of {count:,} episodes")
    line.end()
    whole = found[np.isfinite(found)]
    failed = f", {count - len(whole)} of them failed (NaN or infinite)" if len(whole) < count else ""
    if len(whole):
        spread = f"{whole.mean():.4g} ± {whole.std():.4g} (maximum {whole.max():.4g})"
        print(f"cost of a second {spread}, {length} controls, {count} episodes{failed}")
    else:
        print(f"{count} episodes{failed}")
    return True


def film_problem(
    policy: PolicyFile,
    problem: Problem,
    starts: tuple[np.ndarray, np.ndarray],
    path: str,
    seconds: float,
) -> None:
    """Write a video of a policy, one episode after the other."""
    from newtonsim.render import Film

    sim = problem.make_simulator()
    with Film(path, sim.model, width=640, height=480) as film:
        for _ in _acting(policy, problem, sim, starts):
            film.record(sim.state, sim.time)
            if sim.time > seconds:
                return


def _acting(
    policy: PolicyFile,
    problem: Problem,
    sim: Simulator,
    starts: tuple[np.ndarray, np.ndarray],
) -> Iterator[None]:
    """Let a policy control a simulator of one world; each episode begins at the next start."""
    from newtonsim.kinematics import eval_fk

    start = sim.model.state()
    while True:
        for q, qd in zip(*starts):
            start.joint_q.assign(q)
            start.joint_qd.assign(qd)
            eval_fk(sim.model, start.joint_q, start.joint_qd, None, start)
            sim.reset(np.ones(1, bool), start)  # time goes on
            yield
            for _ in range(policy.about["episode"]):
                now = np.concatenate([sim.state.joint_q.numpy(), sim.state.joint_qd.numpy()])
                problem.apply(sim, policy(now[None])[0])
                sim.step()
                yield
