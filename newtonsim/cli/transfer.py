"""``newtonsim transfer``: play a policy that was trained here in another physics engine."""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.cli.play import options_of, policy_path
from newtonsim.cli.progress import TransferProgress, advise
from newtonsim.cli.train import import_learn, let_threads_sleep
from newtonsim.errors import DefaultsWarning, NewtonsimError

if TYPE_CHECKING:
    from newtonsim.learn import Episodes


def transfer(arguments: argparse.Namespace) -> int:
    """Play a policy here and in another engine as the arguments say, and print how well it performs."""
    let_threads_sleep()
    # training has told them
    warnings.simplefilter("ignore", DefaultsWarning)
    path = policy_path(arguments.policy)
    learn = import_learn()
    policy = learn.PolicyFile(path)
    if "problem" in policy.about:
        raise NewtonsimError(f"{path} is for the problem {policy.about['problem']}, not for an environment")
    name, options = policy.about["name"], options_of(path, policy, arguments.option)
    print(f"{path}: {name}, learned from {policy.about['samples']:,} samples")
    progress = TransferProgress(name, arguments.episodes)
    played = arguments.to, arguments.seeds, arguments.episodes, arguments.contact_time
    try:
        found = learn.transfer(policy, name, options, *played, watch=progress.show)
    finally:
        progress.end()
    for seed, here, there in zip(found.seeds, found.here, found.there):
        print(f"seed {seed}, here: {here}")
        print(f"seed {seed}, {found.engine}: {there}")
    print(f"return of all seeds: {_mean(found.here):.2f} here, {_mean(found.there):.2f} in {found.engine}")
    if found.share == found.share:
        print(f"{found.engine} achieves {100.0 * found.share:.0f} % of the return here")
    for name, (here, there) in found.metrics.items():
        print(f"{name} of all seeds: {here} here, {there} in {found.engine}")
    advise({name: here for name, (here, _) in found.metrics.items()})
    return 0


def _mean(episodes: tuple[Episodes, ...]) -> float:
    """Return the mean return of the episodes of all seeds."""
    return float(np.concatenate([e.returns for e in episodes]).mean())
