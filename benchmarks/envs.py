"""Cost of the environment layer over the physics alone, and samples per second beside other environments.

    python benchmarks/envs.py [--names Ant CartPole] [--worlds 1024] [--device cpu] [--short] [--json OUT]
    python benchmarks/envs.py --actuators [--worlds 1024] [--device cpu] [--short] [--json OUT]

Overhead: time and again the state of the environment is copied into a bare Simulator of the same worlds; it
makes ten steps, and then the environment ten with the same controls. Copying is not timed. The environment
adds actions, observations, rewards, statistics and the resets of worlds that end; actions come and results go
as NumPy arrays, or as torch tensors on a GPU. The overhead is the median over these turns, each of which a
loaded machine slows as a whole.

Samples: one sample is one action of one world under random actions, episodes restart. gymnasium's
environments run in as many processes as there are cores (AsyncVectorEnv: one world each, shared memory) and
in this process (SyncVectorEnv, one world); PyBullet's run in this process. Definitions are the same but for
PyBullet's robots, which have rewards of their own and 1/60 s for an action. All take turns. A ratio is the
median over the turns of the time of a sample over that of newtonsim in the same turn, with as many threads
as the other has processes. Times are those of the clock on the wall, or with --cpu-time those of this
process, which leaves AsyncVectorEnv out.

Actuators: quadrupeds with other masses and frictions in each world, without actuators and with each kind of
`tasks.actuated`, time and again ten steps from the same states with the same actions.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress

import numpy as np
import warp as wp
from tasks import actuated
from tasks.harness import arguments, cores, interleave, missing, table, timing, write_json

from newtonsim import Simulator, envs
from newtonsim.envs import pybullet_names

PYBULLET = {
    original.counterpart: name
    for name, original in pybullet_names.ORIGINALS.items()
    if original.counterpart not in ("ArmPick", "Racecar")
}
"""Environments of pybullet_envs of the same task; without those whose actions are much longer or others."""

BLOCK = 10
"""Steps of one before the other has its turn: each finds its own memory in the caches, but for the first."""

ASYNC = "gymnasium AsyncVectorEnv"
"""Engine whose ratio is printed in words."""

DRAWN = 16
"""Different batches of random actions."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--names", nargs="+", choices=envs.names(), default=["CartPole", "Ant"])
    parser.add_argument("--worlds", type=int, default=1024, help="worlds of an environment (default: 1024)")
    parser.add_argument("--actuators", action="store_true", help="cost of actuators instead")
    options = parser.parse_args()
    if options.actuators:
        rows = actuators(options)
        print(table(list(rows[0]), [list(row.values()) for row in rows]))
        write_json(options.json, rows, options.device)
        return
    overheads, rates, notes = [], [], []
    for name in options.names:
        overheads.append(overhead(name, options))
        rates += samples(name, options, notes)
    print("overhead of the environment over the bare Simulator, one thread")
    header = ("environment", "worlds", "bare us", "env us", "overhead", "quartiles")
    shown = []
    for row in overheads:
        share, low, high = (f"{row[key]:.1%}" for key in ("overhead", "overhead_low", "overhead_high"))
        shown.append([*list(row.values())[:4], share, f"{low} to {high}"])
    print(table(header, shown))
    print("samples; ratios: newtonsim's rate with as many threads as the engine uses over that of the engine")
    header = ("environment", "engine", "threads", "worlds", "samples/s", "us", "spread", "ratio", "quartiles")
    shown = [[*list(row.values())[:6], f"{row['spread']:.0%}", *_ratio(row)] for row in rates]
    print(table(header, shown))
    for row in rates:
        if row["engine"].startswith(ASYNC):
            ratio, quartiles = _ratio(row)
            counted = f"{row['threads']} processes"
            print(f"{row['environment']}: {ratio} ({quartiles}) the samples of {row['engine']}, {counted}")
    print("\n".join(notes))
    write_json(options.json, {"overhead": overheads, "samples": rates}, options.device)


def _ratio(row: dict[str, object]) -> tuple[str, str]:
    """Return the ratio of a row and its quartiles for a table."""
    return f"{row['ratio']:.2f}x", f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"


def make(name: str, options: argparse.Namespace, threads: int | None) -> tuple[envs.BatchedEnv, list]:
    """Return an environment that has run for a while, and actions for it."""
    output = "numpy" if options.device == "cpu" else "torch"
    env = envs.make(name, options.worlds, options.device, threads=threads, output=output)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(DRAWN)]
    if output == "torch":
        import torch

        actions = [torch.from_numpy(batch).to(wp.device_to_torch(env.device)) for batch in actions]
    env.reset(seed=0)
    for k in range(10 if options.short else 50):
        env.step(actions[k % DRAWN])
    return env, actions


def overhead(name: str, options: argparse.Namespace) -> dict[str, object]:
    """Time steps of an environment and of a bare Simulator from the same states."""
    env, actions = make(name, options, threads=1)
    sim = env.sim
    solver = env.task.make_solver(env.model)
    bare = Simulator(env.model, solver, sim.dt, substeps=sim.substeps, threads=1)
    bare.report_every = 0
    clock = time.process_time if env.device.is_cpu else time.perf_counter
    controls = []
    for action in actions:
        env.step(action)
        controls.append(wp.clone(sim.control.joint_act))
    turns = []
    for block in range((1 if options.short else 4) * options.blocks):
        bare.state.assign(sim.state)
        of_bare, of_env = [], []
        for k in range(BLOCK):
            wp.copy(bare.control.joint_act, controls[(block + k) % DRAWN])
            of_bare.append(timed(bare.step, clock))
        for k in range(BLOCK):
            action = actions[(block + k) % DRAWN]
            of_env.append(timed(lambda a=action: env.step(a), clock))
        turns.append((statistics.median(of_bare), statistics.median(of_env)))
    bare_time, env_time = 1.0e6 * np.median(turns, axis=0) / env.num_envs
    low, middle, high = np.quantile([e / b - 1.0 for b, e in turns], (0.25, 0.5, 0.75)).tolist()
    return {
        "environment": name,
        "worlds": env.num_envs,
        "bare_microseconds": float(bare_time),
        "env_microseconds": float(env_time),
        "overhead": middle,
        "overhead_low": low,
        "overhead_high": high,
    }


def actuators(options: argparse.Namespace) -> list[dict[str, object]]:
    """Time steps of quadrupeds with and without actuators from the same states, one thread."""
    worlds = options.worlds
    worlds_of = {
        name: actuated.environment(entry, worlds, options.device)
        for name, entry in actuated.entries().items()
    }
    bare = worlds_of["none"]
    clock = time.process_time if bare.device.is_cpu else time.perf_counter
    bare.action_space.seed(0)
    turns: dict[str, list[float]] = {name: [] for name in worlds_of}
    for turn in range(1 + (1 if options.short else 4) * options.blocks):
        actions = [0.3 * bare.action_space.sample() for _ in range(BLOCK)]
        if bare.output == "torch":
            import torch

            actions = [torch.from_numpy(batch).to(wp.device_to_torch(bare.device)) for batch in actions]
        start = bare.model.state()
        start.assign(bare.sim.state)
        for name, env in worlds_of.items():
            env.sim.state.assign(start)
            times = [timed(lambda a=action, env=env: env.step(a), clock) for action in actions]
            if turn > 0:  # before that, the robots fall to the ground
                turns[name].append(1.0e6 * min(times) / worlds)
    rows = []
    for name, found in turns.items():
        low, middle, high = np.quantile(
            [a / b - 1.0 for a, b in zip(found, turns["none"])], (0.25, 0.5, 0.75)
        )
        rows.append(
            {
                "actuators": name,
                "worlds": worlds,
                "step_microseconds": min(found),
                "more": f"{min(found) / min(turns['none']) - 1.0:.1%}",
                "median_of_turns": f"{middle:.1%}",
                "quartiles": f"{low:.1%} to {high:.1%}",
            }
        )
    return rows


def timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the time of some work, that of the device included [s]."""
    wp.synchronize()
    start = clock()
    work()
    wp.synchronize()
    return clock() - start


def samples(name: str, options: argparse.Namespace, notes: list[str]) -> list[dict[str, object]]:
    """Time all engines in turn; one unit of work is one step of all worlds."""
    runs: dict[tuple[str, int], tuple[Callable[[int], None], int]] = {}
    on_cpu = options.device == "cpu"
    with ExitStack() as opened:
        for threads in sorted({1} if options.cpu_time or not on_cpu else {1, cores()}):
            env, actions = make(name, options, threads)
            runs["newtonsim", threads] = (stepping(env.step, actions), env.num_envs)
        if not options.alone and on_cpu:
            runs.update(gymnasium_runs(name, options, notes, opened))
            runs.update(pybullet_runs(name, notes))
        work = {key: run for key, (run, _) in runs.items()}
        timings = interleave(work, timing(options, 0.5, short=(options.blocks, 0.05)))
    rows = []
    for (engine, threads), sample in timings.items():
        worlds = runs[engine, threads][1]
        ours = timings["newtonsim", threads].seconds
        ratios = [theirs / own * options.worlds / worlds for theirs, own in zip(sample.seconds, ours)]
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75)).tolist()
        each = sample.median / worlds
        rows.append(
            {
                "environment": name,
                "engine": engine,
                "threads": threads,
                "worlds": worlds,
                "per_second": 1.0 / each,
                "microseconds": 1.0e6 * each,
                "spread": sample.spread,
                "ratio": middle,
                "ratio_low": low,
                "ratio_high": high,
            }
        )
    return rows


def stepping(step: Callable[[object], object], actions: list) -> Callable[[int], None]:
    """Return a function that takes a number of steps with changing actions, and waits for the device."""

    def run(count: int) -> None:
        for k in range(count):
            step(actions[k % len(actions)])
        wp.synchronize()

    return run


def gymnasium_runs(
    name: str, options: argparse.Namespace, notes: list[str], opened: ExitStack
) -> dict[tuple[str, int], tuple[Callable[[int], None], int]]:
    """Return runs of gymnasium's vector environments, with MuJoCo where they have physics."""
    absent = missing("mujoco")
    if absent:
        notes.append(absent)
        return {}
    import gymnasium
    from gymnasium.vector import AutoresetMode

    known = [key for key in (f"{name}-v5", f"{name}-v1") if key in gymnasium.registry]
    if not known:
        return {}
    physics = "MuJoCo" if known[0].endswith("v5") else "NumPy"
    modes = [("sync", "gymnasium SyncVectorEnv", 1)]
    if not options.cpu_time:
        modes.append(("async", ASYNC, cores()))
    runs = {}
    for mode, engine, processes in modes:
        kwargs = {"autoreset_mode": AutoresetMode.SAME_STEP}
        env = gymnasium.make_vec(known[0], processes, vectorization_mode=mode, vector_kwargs=kwargs)
        opened.callback(env.close)
        env.reset(seed=0)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(DRAWN)]
        runs[f"{engine} ({physics})", processes] = (stepping(env.step, actions), processes)
    return runs


def pybullet_runs(name: str, notes: list[str]) -> dict:
    """Return a run of PyBullet's environment of the same robot."""
    if name not in PYBULLET:
        return {}
    absent = missing("pybullet_envs")
    if absent:
        notes.append(absent)
        return {}
    with warnings.catch_warnings(), suppress(ImportError):
        warnings.simplefilter("ignore")
        import gym
        import pybullet_envs  # noqa: F401 - registers its environments

        env = gym.make(PYBULLET[name]).unwrapped
        env.reset()
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(DRAWN)]

        def step(action: np.ndarray) -> None:
            if env.step(action)[2]:
                env.reset()

        return {("PyBullet", 1): (stepping(step, actions), 1)}
    notes.append("pybullet_envs needs gym: pip install gym")
    return {}


if __name__ == "__main__":
    main()
