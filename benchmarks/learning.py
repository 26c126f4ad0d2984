"""Learning curves of `newtonsim train`: returns over samples and time, for several seeds.

    python benchmarks/learning.py [--names CartPole Ant] [--seeds 0 1 2] [--samples N] [--folder OUT]
        [--seconds S] [--threads N] [--device cpu] [--short] [--plot OUT.png] [--json OUT]
    python benchmarks/learning.py --drawn RESULTS.json --plot OUT.png
    python benchmarks/learning.py --transfer [--policies velocity hover] [--short] [--alone] [--json OUT]

Every run learns with the settings of its environment. The return of a curve is the mean of the last 100 whole
episodes, with the noise of exploration. At the end the best policy plays 128 episodes without noise, from
other seeds. A run that is in the folder already is not repeated, one that was stopped goes on. With --seconds
a run ends after that time with the policy that it has by then, and counts like one with fewer samples.

With --drawn nothing is learned: curves of a file of --json are drawn. Each picture says when and on what
machine they were measured.

With --transfer nothing is learned: the policies that ship play in other engines what they play here, by the
code of `newtonsim transfer`, and those that walk also play here as in their training, or on terrain.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import math
import time
from pathlib import Path

import numpy as np
from tasks import policies
from tasks.harness import arguments, cores, finish, installed, machine, missing, table, write_json

from newtonsim import envs

SOLVED = {"CartPole": 475.0, "HalfCheetah": 3000.0, "Hopper": 1500.0, "Ant": 2000.0, "Quadruped": 20.0}
"""Returns whose time is told."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--names", nargs="+", choices=envs.names(), default=["CartPole", "HalfCheetah", "Ant"]
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--samples", type=int, help="samples of a run (default: depends on the environment)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="most time of a run (default: any)")
    parser.add_argument("--num-envs", type=int, help="worlds (default: depends on the environment)")
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="where runs go (default: runs)")
    parser.add_argument("--threads", type=int, default=cores(), help="threads of physics and networks")
    parser.add_argument("--plot", metavar="OUT.png", help="draw the curves")
    parser.add_argument(
        "--drawn", type=Path, metavar="RESULTS.json", help="draw only, what was measured before"
    )
    parser.add_argument("--transfer", action="store_true", help="the policies that ship, in other engines")
    shipped = [policy.name for policy in policies.SHIPPED]
    parser.add_argument("--policies", nargs="+", choices=shipped, default=shipped, help="of --transfer")
    options = parser.parse_args()
    if options.transfer:
        play_elsewhere(options)
        return
    if options.drawn:
        if not options.plot:
            parser.error("--drawn needs --plot OUT.png")
        plot(measured(options.drawn), options.plot)
        return
    absent = missing("rsl_rl")
    if absent:
        raise SystemExit("learning needs rsl-rl: pip install 'newtonsim[learn]'")
    rows = [run(name, seed, options) for name in options.names for seed in options.seeds]
    print(f"{machine(options.device)['cpu']}, {options.threads} threads")
    header = ("environment", "seed", "samples", "minutes", "samples/s")
    header += ("reaches", "after", "after s", "best policy")
    print(table(header, [[shown(value) for value in list(row.values())[: len(header)]] for row in rows]))
    if options.plot:
        here = machine(options.device)
        plot([{**row, "measured": f"{here['date']}, {here['cpu']}"} for row in rows], options.plot)
    write_json(options.json, rows, options.device)


def play_elsewhere(options: argparse.Namespace) -> None:
    """Play policies that ship, print their rows and write them."""
    notes: list[str] = []
    engines = [] if options.alone else installed({"mujoco": "mujoco", "pybullet": "pybullet"}, notes)
    chosen = [policy for policy in policies.SHIPPED if policy.name in options.policies]
    seeds = policies.SEEDS
    if options.short:
        chosen, seeds = [dataclasses.replace(policy, episodes=1) for policy in chosen], seeds[:1]
    results = {
        "transfer": [row for policy in chosen for row in policies.transfers(policy, engines, seeds)],
        "played": [row for policy in chosen for row in policies.played(policy, seeds)],
    }
    for rows in filter(None, results.values()):
        print(table(list(rows[0]), [list(row.values()) for row in rows]))
    finish(options, results, notes)


def shown(value: object) -> object:
    """Return minutes and seconds as text that a table has room for."""
    return round(value, 1) if isinstance(value, float) else value


def run(name: str, seed: int, options: argparse.Namespace) -> dict[str, object]:
    """Let one policy learn, and return its figures with its curve."""
    import torch

    from newtonsim.learn import PolicyFile, Run, Training, evaluate, settings_of

    torch.set_num_threads(options.threads)
    changes = {key: value for key in ("samples", "num_envs") if (value := getattr(options, key))}
    if options.short:
        changes |= {"samples": 256, "num_envs": 8, "steps": 8}
    learning = Run(name, settings_of(name, changes), seed=seed)
    folder = options.folder / f"{name}-{seed}"
    if not (folder / "policy.onnx").exists():
        training = Training(learning, folder, options.device, threads=options.threads)
        end = time.monotonic() + options.seconds
        while not training.done:
            training.step()
            if time.monotonic() >= end:
                break
            if training.progress.iteration % 20 == 0:
                training.save()
        training.finish()
    policy = PolicyFile(folder / "policy.onnx")
    # an episode of a walker may take 1,000 steps: a few worlds, so that the short form is short on two cores
    env = envs.make(name, 4 if options.short else 64, options.device)
    played = evaluate(policy, env, 4 if options.short else 128, seed=1000 + seed)
    env.close()
    curve = read(folder / "curve.csv")
    goal = SOLVED.get(name, math.inf)
    reached = np.flatnonzero(np.nan_to_num(curve["return"], nan=-math.inf) >= goal)
    return {
        "environment": name,
        "seed": seed,
        "samples": int(curve["samples"][-1]),
        "minutes": float(curve["seconds"][-1]) / 60.0,
        "per_second": float(curve["samples"][-1] / curve["seconds"][-1]),
        "goal": goal if math.isfinite(goal) else None,
        "goal_samples": int(curve["samples"][reached[0]]) if len(reached) else None,
        "goal_seconds": float(curve["seconds"][reached[0]]) if len(reached) else None,
        "best_policy": float(played.returns.mean()),
        "best_policy_deviation": float(played.returns.std()),
        "best_policy_length": float(played.lengths.mean()),
        "curve": {key: [nothing(x) for x in values] for key, values in thinned(curve).items()},
    }


def read(path: Path) -> dict[str, np.ndarray]:
    """Return the columns of a curve that is drawn."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return {
        name: np.array([float(line[name]) for line in lines]) for name in ("samples", "seconds", "return")
    }


def thinned(curve: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return about a hundred points of a curve."""
    every = max(1, len(curve["samples"]) // 100)
    return {name: values[every - 1 :: every] for name, values in curve.items()}


def nothing(value: float) -> float | None:
    """Return None for a number that JSON does not have."""
    return round(float(value), 3) if math.isfinite(value) else None


def measured(path: Path) -> list[dict]:
    """Return the rows with curves of a file of results, each with when and where it was measured."""
    found = json.loads(path.read_text(encoding="utf-8"))
    here = f"{found['machine']['date']}, {found['machine']['cpu']}"
    tables = found["results"].values() if isinstance(found["results"], dict) else [found["results"]]
    rows = [row for table in tables for row in table if isinstance(row, dict) and "curve" in row]
    return [{"measured": here, **row} for row in rows]


def plot(rows: list[dict], path: str) -> None:
    """Draw the returns over samples, a picture for each environment and a line for each seed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["environment"] for row in rows))
    columns = min(3, len(names))
    shape = math.ceil(len(names) / columns), columns
    figure, axes = plt.subplots(*shape, figsize=(4 * shape[1], 3.2 * shape[0]), squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    for name, axis in zip(names, axes.flat):
        own = [row for row in rows if row["environment"] == name]
        for row in own:
            values = [np.nan if value is None else value for value in row["curve"]["return"]]
            axis.plot(np.array(row["curve"]["samples"]) / 1e6, values, label=f"seed {row['seed']}")
        goal = SOLVED.get(name)
        if goal:
            axis.axhline(goal, color="grey", linewidth=0.8, linestyle=":")
        axis.set_title(f"{name}\n{'; '.join(dict.fromkeys(row['measured'] for row in own))}", fontsize=9)
        axis.set_xlabel("samples [M]")
        axis.set_ylabel("return, with noise")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    main()
