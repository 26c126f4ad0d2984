"""The soak tells growth from noise, and sees what is left open."""

import importlib
import threading

import numpy as np
import pytest


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


def test_resources_see_what_is_left_open(tmp_path):
    resources = importlib.import_module("soak").resources
    memory, files, threads = resources()
    block, stop = np.ones(30 * 2**17), threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    with (tmp_path / "open").open("w"):
        after = resources()
    stop.set()
    thread.join()
    assert after[0] - memory == pytest.approx(block.nbytes / 2**20, abs=5.0)
    assert after[1:] == (files + 1, threads + 1)
