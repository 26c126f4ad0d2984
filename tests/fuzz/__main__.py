"""Fuzz all readers for a while: `python -m tests.fuzz --minutes 60`, from the root of a clone.

Cases are numbered from a seed on, and are the same everywhere. They run in processes of their own; one that
crashes, hangs, or raises what it must not is kept in tests/fuzz/cases, where tests/fuzz/test_targets.py reads
it again from then on.
"""

import argparse
import faulthandler
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from fuzz.targets import TARGETS

CASES = pathlib.Path(__file__).parent / "cases"
BATCH, HANG_SECONDS = 1000, 300
"""Cases in a process; how long one of them may take, on a machine that has other things to do."""


def run(name: str, first: int, count: int) -> None:
    """Run cases of a target in this process, and tell the number of each before it begins."""
    for number in range(first, first + count):
        print(number, flush=True)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        try:
            TARGETS[name].check(TARGETS[name].case(number))
        except AssertionError as finding:
            print(number, str(finding).splitlines()[0][:300], flush=True)
    faulthandler.cancel_dump_traceback_later()


def batch(name: str, first: int, count: int) -> tuple[int, dict[int, str]]:
    """Run cases in a process of their own; returns how many ran, and what was found by number."""
    words = [sys.executable, "-m", "tests.fuzz", "--run", name, "--seed", str(first), "--cases", str(count)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    hung = "Timeout (" in done.stderr  # as faulthandler writes
    end = f"it hung for {HANG_SECONDS} s" if hung else done.returncode and f"it ended with {done.returncode}"
    lines = [line.split(" ", 1) for line in done.stdout.splitlines() if line[:1].isdigit()]
    found = {int(line[0]): line[1] for line in lines if len(line) > 1}
    last = int(lines[-1][0]) if lines else first
    if end:
        found[last] = end
    return last - first + 1, found


def main() -> int:
    """Fuzz, keep what is found, and return 1 if there was anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--only", nargs="*", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--seed", type=int, default=1_000_000, help="number of the first case")
    parser.add_argument("--cases", type=int, default=0, help="cases of each target; 0 for as many as fit")
    parser.add_argument("--run", choices=TARGETS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run, options.seed, options.cases)
        return 0
    end, done, findings = time.monotonic() + 60.0 * options.minutes, dict.fromkeys(options.only, 0), 0
    while time.monotonic() < end and not (options.cases and min(done.values()) >= options.cases):
        name = min(done, key=lambda name: done[name])
        count = min(BATCH, options.cases - done[name]) if options.cases else BATCH
        ran, found = batch(name, options.seed + done[name], count)
        done[name] += ran
        for number, what in found.items():
            findings += 1
            (CASES / f"{name}-{number}").write_bytes(TARGETS[name].case(number))
            print(f"{name} {number}: {what}", flush=True)
    print(f"{sum(done.values())} cases, {findings} findings: {done}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
