"""All scripts that come with PyBullet, under the real module and under ours, and a table of the outcomes.

    python tests/pybullet/scripts.py TABLE.md [--only TEXT] [--engine real|ours] [--jobs N] [--reports FOLDER]

Reports of earlier runs in the folder are taken as they are.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np

RUNNER = Path(__file__).with_name("run_script.py")
PACKAGES = ("pybullet_examples", "pybullet_robots", "pybullet_envs", "pybullet_utils")
STEPS, SECONDS = 240, 60
GOOD = ("steps", "end", "time")
ENVIRONMENTS = (
    "HumanoidDeepMimicBackflipBulletEnv-v1",
    "HumanoidDeepMimicWalkBulletEnv-v1",
    "CartPoleBulletEnv-v1",
    "CartPoleContinuousBulletEnv-v0",
    "MinitaurBulletEnv-v0",
    "MinitaurBulletDuckEnv-v0",
    "MinitaurExtendedEnv-v0",
    "MinitaurReactiveEnv-v0",
    "MinitaurBallGymEnv-v0",
    "MinitaurTrottingEnv-v0",
    "MinitaurStandGymEnv-v0",
    "MinitaurAlternatingLegsEnv-v0",
    "MinitaurFourLegStandEnv-v0",
    "RacecarBulletEnv-v0",
    "RacecarZedBulletEnv-v0",
    "KukaBulletEnv-v0",
    "KukaCamBulletEnv-v0",
    "KukaDiverseObjectGrasping-v0",
    "InvertedPendulumBulletEnv-v0",
    "InvertedDoublePendulumBulletEnv-v0",
    "InvertedPendulumSwingupBulletEnv-v0",
    "ReacherBulletEnv-v0",
    "PusherBulletEnv-v0",
    "ThrowerBulletEnv-v0",
    "Walker2DBulletEnv-v0",
    "HalfCheetahBulletEnv-v0",
    "AntBulletEnv-v0",
    "HopperBulletEnv-v0",
    "HumanoidBulletEnv-v0",
    "HumanoidFlagrunBulletEnv-v0",
    "HumanoidFlagrunHarderBulletEnv-v0",
)


def all_scripts() -> list[str]:
    """Modules that do something when they are run, and the gym environments."""
    found = []
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None:
            continue
        folder = Path(spec.origin).parent
        for file in sorted(folder.rglob("*.py")):
            text = file.read_text(errors="replace")
            name = ".".join([package, *file.relative_to(folder).with_suffix("").parts])
            if "connect(" in text or "__main__" in text:
                found.append(name)
    return found + [f"env:{name}" for name in ENVIRONMENTS]


def run(engine: str, script: str, folder: Path, seconds: int = SECONDS, steps: int = STEPS) -> dict:
    """Run one script in a process and a folder of its own, and return its report."""
    target = folder / f"{engine}-{script.replace(':', '_')}.json"
    if not target.exists():
        work = folder / "work" / f"{engine}-{script.replace(':', '_')}"
        work.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-W", "ignore", RUNNER, engine, script, str(steps), str(seconds), target]
        with (work / "output.txt").open("w") as output:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=work,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                code = process.wait(seconds + 30)
            except subprocess.TimeoutExpired:
                code = "no end"
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # some scripts start others and leave them behind
        if not target.exists():
            failed = {
                "engine": engine,
                "script": script,
                "steps": 0,
                "outcome": f"process: {code}",
                "poses": [],
            }
            target.write_text(json.dumps(failed))
    return json.loads(target.read_text())


def ran(report: dict) -> bool:
    """Whether a script did what it could."""
    return report["outcome"] in GOOD


def distance(real: dict, ours: dict) -> float:
    """Greatest distance of bases and links in the end [m]."""
    pairs = zip(real["poses"], ours["poses"], strict=True)
    return max((float(np.linalg.norm(np.subtract(a[0], b[0]))) for a, b in pairs), default=0.0)


def difference(real: dict, ours: dict) -> str:
    """How far apart bases and links are in the end [m], and the angle [rad]."""
    if len(real["poses"]) != len(ours["poses"]):
        return f"{len(ours['poses'])} links, not {len(real['poses'])}"
    if real["steps"] != ours["steps"]:
        return f"after {ours['steps']} steps, not {real['steps']}"
    if not real["poses"]:
        return "no bodies"
    turned = [2 * np.arccos(min(1.0, abs(np.dot(a[1], b[1])))) for a, b in zip(real["poses"], ours["poses"])]
    return f"{distance(real, ours):.2g} m, {max(turned):.2g} rad"


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("table", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--engine", choices=("real", "ours"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--reports", type=Path, required=True)
    options = parser.parse_args()
    scripts = [name for name in all_scripts() if options.only in name]
    with ThreadPoolExecutor(options.jobs) as pool:
        real = list(pool.map(lambda s: run("real", s, options.reports), scripts))
        if options.engine == "real":
            print(sum(map(ran, real)), "of", len(scripts))
            return
        kept = [(s, r) for s, r in zip(scripts, real) if ran(r)]
        ours = list(pool.map(lambda pair: run("ours", pair[0], options.reports), kept))
    lines = ["| script | real | ours | difference of final poses |", "|---|---|---|---|"]
    for (script, first), second in zip(kept, ours):
        apart = difference(first, second) if ran(second) else ""
        lines.append(
            f"| {script} | {first['outcome']}, {first['steps']} steps | {second['outcome'][:90]}, "
            f"{second['steps']} steps | {apart} |"
        )
    good = sum(map(ran, ours))
    lines += ["", f"{good} of {len(kept)} scripts that run under PyBullet run here."]
    others = [
        f"{script}: {report['outcome'][:100]}" for script, report in zip(scripts, real) if not ran(report)
    ]
    lines += [
        "",
        "Not run, because they do not run under PyBullet here:",
        "",
        *(f"- {line}" for line in others),
    ]
    options.table.write_text("\n".join(lines) + "\n")
    print(lines[-2 - len(others) - 2] if others else lines[-1])


if __name__ == "__main__":
    main()
