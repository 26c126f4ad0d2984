"""``newtonsim train``: train a policy for an environment; a run can be stopped and continued."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from newtonsim.cli.pairs import key_values, refuse
from newtonsim.cli.progress import EpisodesProgress, ProgressLine, advise, clock
from newtonsim.cli.start import start_device
from newtonsim.cli.train_problem import train_problem
from newtonsim.errors import NewtonsimError
from newtonsim.render.films.video import require_video

if TYPE_CHECKING:
    from newtonsim.envs import Task
    from newtonsim.learn import PolicyFile, Progress, Training
    from newtonsim.learn.sac import SacTraining


def train(arguments: argparse.Namespace) -> int:
    """Train as the arguments say, then evaluate and film the best policy."""
    let_threads_sleep()
    device = start_device(arguments.device)
    if arguments.ray_address is not None and arguments.ray_workers is None:
        raise NewtonsimError("--ray-address also requires --ray-workers N")
    if not arguments.no_video:
        require_video()
    if arguments.algorithm == "shac":
        return train_problem(arguments, device)
    task = find_task(arguments.name)
    folder = arguments.folder or os.path.join("runs", f"{task.name}-seed{arguments.seed}")
    training = _make_training(arguments, task, folder, device)
    done = training.progress
    if done.iteration and done.seconds >= (arguments.seconds or math.inf):
        print(f"{folder}: has trained for {done.seconds:.0f} s; to go on, give more --seconds than that")
    elif done.iteration:
        print(f"{folder}: continuing after {done.samples:,} samples")
    try:
        with _whole_iterations() as is_stopped:
            _learn_on(training, arguments, is_stopped)
    except KeyboardInterrupt:
        training.close()
        print(f"stopped; the same command continues from the last checkpoint in {folder}", file=sys.stderr)
        return 130
    if is_stopped():
        training.save()
        training.close()
        print(f"stopped; the same command continues from {folder}", file=sys.stderr)
        return 130
    policy = training.finish()
    print(f"best policy: {os.path.join(folder, 'policy.onnx')}")
    _show(policy, arguments, folder)
    return 0


def _make_training(
    arguments: argparse.Namespace, task: type[Task], folder: str, device: str
) -> Training | SacTraining:
    """Return the training that the arguments ask for, in a folder."""
    learn = import_learn()
    changes = key_values("--set", arguments.set)
    for name in ("num_envs", "samples"):
        if getattr(arguments, name) is not None:
            changes[name] = getattr(arguments, name)
    rest = key_values("--option", arguments.option), arguments.seed, arguments.start
    if arguments.algorithm == "sac":
        refuse(arguments, "sac", "ray_workers")
        from newtonsim.learn.sac import SacTraining

        run = learn.Run(arguments.name, learn.sac_settings(changes), *rest)
        _say(f"{folder}: creating {run.settings.num_envs} worlds of {task.name}")
        return SacTraining(run, folder, device, arguments.threads)
    run = learn.Run(arguments.name, learn.settings_of(task.name, changes), *rest)
    make_workers = learn.LocalWorkers
    if arguments.ray_workers is not None:
        make_workers = partial(learn.RayWorkers, count=arguments.ray_workers, address=arguments.ray_address)
    _say(f"{folder}: creating {run.settings.num_envs} worlds of {task.name}")
    return learn.Training(run, folder, device, make_workers, arguments.threads)


def let_threads_sleep() -> None:
    """Keep torch's OpenMP threads from spinning between operations; call this before torch is imported.

    On a busy machine, spinning threads take CPU time from each other, and an update of a small network
    occasionally takes many times as long.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def find_task(name: str) -> type[Task]:
    """Return the task of an environment, which a module in the current folder may register."""
    sys.path.insert(0, os.getcwd())
    try:
        from newtonsim.envs import find
    except ImportError as error:
        raise NewtonsimError("environments need gymnasium: pip install 'newtonsim[learn]'") from error
    return find(name)


def import_learn() -> Any:
    """Import and return newtonsim.learn; if that fails, the error says what to install."""
    try:
        from newtonsim import learn
    except ImportError as error:
        raise NewtonsimError(str(error)) from error
    return learn


@contextlib.contextmanager
def _whole_iterations() -> Iterator[Callable[[], bool]]:
    """Context in which Ctrl-C lets an iteration end, since half of one would be learned twice.

    The context's function returns whether there was one. A second one is a KeyboardInterrupt at once.
    """
    stopped = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True
        _say("\nending the iteration; Ctrl-C again to go back to the last checkpoint instead")

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        # other threads get no signals, and what a script has put into the background ignores them
        yield lambda: stopped
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield lambda: stopped
    finally:
        signal.signal(signal.SIGINT, before)


def _learn_on(
    training: Training | SacTraining, arguments: argparse.Namespace, is_stopped: Callable[[], bool]
) -> None:
    """Iterate until the samples or the time are used up, or it is stopped."""
    line = ProgressLine()
    limit = arguments.seconds or math.inf
    saved = time.perf_counter()
    while not (training.done or is_stopped() or training.progress.seconds >= limit):
        told = training.step()
        line.show(_progress(training, told["samples_per_second"], limit))
        if time.perf_counter() - saved > arguments.save_every:
            training.save()
            saved = time.perf_counter()
    line.end()


def _progress(training: Training | SacTraining, samples_per_second: float, limit: float = math.inf) -> str:
    """Return the progress of a training on one line; it ends after so many seconds if not before."""
    p, settings = training.progress, training.run.settings
    rest = max(0.0, min(p.seconds * (settings.samples / p.samples - 1.0), limit - p.seconds))
    return (
        f"{training.run.name}: {_of(p.samples, settings.samples)} samples, "
        f"{samples_per_second:,.0f}/s, {_episodes(p)}, {_metrics(training)}"
        f"{clock(p.seconds)}, {clock(rest)} left"
    )


def _of(part: int, whole: int) -> str:
    """Format a part of a number in the unit that suits the whole."""
    return f"{part / 1e6:.2f} of {whole / 1e6:.2f} M" if whole >= 1_000_000 else f"{part:,} of {whole:,}"


def _say(line: str) -> None:
    """Print what is about to take time."""
    print(line, file=sys.stderr, flush=True)


def _episodes(progress: Progress) -> str:
    """Describe the last episodes."""
    if math.isnan(progress.mean_return):
        return "no whole episode yet"
    return f"return {progress.mean_return:.1f}, length {progress.mean_length:.0f}"


def _metrics(training: Training | SacTraining) -> str:
    """Describe how well the worlds do their task, whatever they earn by it."""
    told = [f"{name} {metric}" for name, metric in training.metrics.items()]
    reached = training.progress.reached
    told += [f"goal reached in {100.0 * sum(reached) / len(reached):.0f} %"] if reached else []
    return "".join(f"{part}, " for part in told)


def _show(policy: PolicyFile, arguments: argparse.Namespace, folder: str) -> None:
    """Evaluate a policy and make its video."""
    from newtonsim import envs
    from newtonsim.learn import evaluate, film

    options = policy.about["options"]
    _say("playing 128 episodes with the best policy")
    env = envs.make(arguments.name, 64, arguments.device, **options)
    progress = EpisodesProgress(arguments.name, 128)
    found = evaluate(policy, env, 128, watch=progress.show)
    progress.end()
    print(f"without noise: {found}")
    advise(found.metrics)
    env.close()
    if arguments.no_video:
        return
    path = os.path.join(folder, "video.mp4")
    _say(f"filming {path}")
    env = envs.make(arguments.name, 1, arguments.device, render_mode="rgb_array", **options)
    film(policy, env, path)
    env.close()
    print(f"video: {path}")
