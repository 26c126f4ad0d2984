"""Environments of other people's packages, under the real module, under ours and in lockstep.

    PYTHONPATH=benchmarks python tests/pybullet/packages.py OUT.json [--only TEXT]
    python tests/pybullet/packages.py --suite FOLDER [ARGUMENTS OF PYTEST ...]

benchmarks/results/pybullet_packages.json is such a file, from which benchmarks/publish.py draws a table. With
--suite, the tests of a package's source archive, unpacked in FOLDER, run under both, and those whose outcome
differs are printed.

The packages (panda-gym, pybullet-envs-gymnasium) are no requirement of the tests: pip install --no-deps them.
Actions are random, the same under both; each run is a process of its own.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

PACKAGES = (
    "panda_gym",
    "pybullet_envs_gymnasium",
    "lanro_gym",
    "bullet_safety_gym",
    "gym_pybullet_drones",
)
LEFT_OUT = ("Dense", "Joints", "DeepMimic", "NL")
"""Variants of the same scenes, and what needs files of other packages."""
STEPS, SEEDS = 100, 10
TOLERANCES = (1.0e-3, 1.0e-2)
HEADS = (
    "return, PyBullet",
    "return, here",
    "difference in structure",
    "first difference",
    "step, here / PyBullet",
)
"""What is told of an environment."""


def environments(package: str) -> list[str]:
    """Ids that a package registers with gymnasium."""
    import gymnasium

    importlib.import_module(package)
    return sorted(
        spec.id
        for spec in gymnasium.registry.values()
        if package in str(spec.entry_point) and not any(word in spec.id for word in LEFT_OUT)
    )


def random_action(space, rng: np.random.Generator) -> np.ndarray | int:
    """An action, evenly from a space; from -1 to 1 where that has no bounds."""
    if not space.shape:
        return int(rng.integers(space.n))
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, space.low, -1.0), np.where(bounded, space.high, 1.0)
    return (low + 0.5 * (high - low) * (1.0 + rng.uniform(-1.0, 1.0, space.shape))).astype(np.float32)


def returns(name: str, seeds: int) -> list[float]:
    """Sum of rewards of some episodes with random actions, at most `STEPS` steps each."""
    import gymnasium

    environment = gymnasium.make(name, disable_env_checker=True).unwrapped
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        np.random.seed(seed)  # noqa: NPY002 - some environments draw from here
        environment.reset(seed=seed)
        space, total = environment.action_space, 0.0
        for _ in range(STEPS):
            action = random_action(space, rng)
            _, reward, terminated, *_ = environment.step(action)
            total += float(reward)
            if terminated:
                break
        found.append(total)
    environment.close()
    return found


def run(engine: str, package: str, name: str) -> dict:
    """Run an environment in this process: under "real", "ours" or "both"."""
    if engine == "ours":
        from newtonsim.pybullet_compat.stand_ins import install

        install(data="real")
        importlib.import_module(package)
        return {"returns": returns(name, SEEDS)}
    if engine == "real":
        importlib.import_module(package)
        return {"returns": returns(name, SEEDS)}
    from newtonsim.pybullet_compat.comparison.differences import Tolerances
    from newtonsim.pybullet_compat.comparison.lockstep import Lockstep

    lockstep = Lockstep(Tolerances(*TOLERANCES))
    lockstep.install()
    importlib.import_module(package)
    returns(name, 1)
    first, structural = lockstep.first, lockstep.first_structural
    steps = lockstep.kinds["stepSimulation"]
    return {
        "calls": lockstep.calls,
        "steps": lockstep.steps_made,
        "first": "none" if first is None else f"{first.name}, step {first.step}, {first.difference.place}",
        "structural": "none" if structural is None else f"{structural.name}: {structural.difference}",
        "ratio": float(np.median(steps.seconds[1]) / np.median(steps.seconds[0])),
    }


def reported(engine: str, package: str, name: str) -> dict:
    """What a process of its own reports; its last lines if it fails."""
    command = [sys.executable, "-W", "ignore", __file__, "--run", engine, package, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("@")]
    return json.loads(lines[-1][1:]) if lines else {"failed": done.stderr.strip().splitlines()[-1:]}


def row(package: str, name: str) -> dict[str, object]:
    """The figures of an environment."""
    real, ours, both = (reported(engine, package, name) for engine in ("real", "ours", "both"))
    if failed := [r["failed"] for r in (real, ours, both) if "failed" in r]:
        return {"environment": name} | dict.fromkeys(HEADS, None) | {HEADS[0]: str(failed[0])}
    cells = [f"{np.mean(r['returns']):.4g} ± {np.std(r['returns']):.2g}" for r in (real, ours)]
    values = (*cells, both["structural"], both["first"], both["ratio"])
    return {"environment": name} | dict(zip(HEADS, values, strict=True))


def outcomes(engine: str, folder: Path, arguments: list[str]) -> dict[str, str]:
    """Outcome of each test of a package, which runs under "real" or "ours" in a process of its own."""
    under = ["-m", "newtonsim", "pybullet", "--data", "real"] if engine == "ours" else []
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        options = ["-q", "--continue-on-collection-errors", f"--junitxml={report}", *arguments]
        command = [sys.executable, *under, "-m", "pytest", *options]
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False)
        cases = ElementTree.parse(report).iter("testcase")
        return {
            f"{case.get('classname')}::{case.get('name')}": next((part.tag for part in case), "passed")
            for case in cases
        }


def compare_suite(folder: Path, arguments: list[str]) -> None:
    """Print how many tests of a package pass under both, and which end otherwise under one of them."""
    real, ours = (outcomes(engine, folder, arguments) for engine in ("real", "ours"))
    passing = [name for name, outcome in real.items() if outcome == "passed"]
    alike = sum(ours.get(name) == "passed" for name in passing)
    print(f"{folder.name}: {len(passing)} of {len(real)} pass under PyBullet, {alike} of these here")
    for name in real:
        if real[name] != ours.get(name):
            print(f"  {name}: {real[name]}, here {ours.get(name)}")


def main() -> None:
    """Write the figures, run what `--run` names, or compare the tests of a package."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--run", nargs=3)
    parser.add_argument("--suite", type=Path)
    options, arguments = parser.parse_known_args()
    if options.suite:
        compare_suite(options.suite, [str(options.out)] * bool(options.out) + arguments)
        return
    if options.run:
        print("\n@" + json.dumps(run(*options.run)), flush=True)
        return
    from tasks.harness import write_json

    rows = []
    for package in PACKAGES:
        for name in environments(package):
            if options.only in name:
                rows.append(row(package, name))
                print(rows[-1], flush=True)
    write_json(str(options.out), rows)


if __name__ == "__main__":
    main()
