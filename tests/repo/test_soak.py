"""The soak tells growth from noise, and sees what is left open."""

import importlib
import subprocess
import sys

import numpy as np
import pytest
from rooms import ROOT


def test_growth_is_told_from_noise():
    """A line with noise: its slope within three standard errors, those of the textbook to a factor of two."""
    growth = importlib.import_module("soak").growth
    rng, hours = np.random.default_rng(1), np.linspace(0.0, 1.0, 400)
    kept = hours[100:]
    error = 2.0 / np.sqrt(((kept - kept.mean()) ** 2).sum())  # of the least-squares line
    for slope in (0.0, 5.0):
        warm_up = 80.0 * np.exp(-hours / 0.02)
        values = 100.0 - warm_up + slope * hours + 2.0 * rng.normal(size=400)
        found = growth(hours.tolist(), values.tolist())
        assert abs(found[2] - slope) < 3.0 * error
        assert 0.5 * error < found[3] < 2.0 * error
    assert growth([0.0, 0.1], [1.0, 2.0])[3] == np.inf


HOLDS = """
import sys, tempfile, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
from soak import resources
memory, files, threads = resources()
block, stop = np.ones(30 * 2**17), threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
with tempfile.TemporaryFile():
    after = resources()
stop.set()
print(after[0] - memory - block.nbytes / 2**20, after[1] - files, after[2] - threads)
"""


def test_resources_see_what_is_left_open():
    """30 MB, a file and a thread, in a process where nothing else comes and goes."""
    folder = str(ROOT / "tools")
    run = subprocess.run([sys.executable, "-c", HOLDS, folder], capture_output=True, text=True, check=True)
    memory, files, threads = map(float, run.stdout.split()[-3:])
    assert memory == pytest.approx(0.0, abs=5.0)
    assert (files, threads) == (1, 1)
