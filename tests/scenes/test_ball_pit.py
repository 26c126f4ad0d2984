"""Five hundred bodies of all shapes fall into a box: energy never grows, and nothing leaves."""

import numpy as np
import pytest
from scenes.running import STEPS_PER_SECOND, SceneRun

from newtonsim.examples import scenes

ENERGY_TOLERANCE = 1.0e-6
"""Largest growth in a step, as a share of the energy at the start."""


@pytest.mark.slow
def test_ball_pit(device: str):
    run = SceneRun(scenes.ball_pit(), device)
    half = 0.5 * scenes.BALL_PIT_WIDTH
    start = energy = run.energy()
    deepest = 0.0
    for step in range(4 * STEPS_PER_SECOND):
        before, energy = energy, run.step().energy()
        assert energy - before < ENERGY_TOLERANCE * start, f"step {step}"
        places = run.poses[:, :3]
        # no centre comes nearer to a wall than the smallest body allows
        assert np.abs(places[:, :2]).max() < half - 0.01
        assert places[:, 2].min() > 0.01
        if step % 20 == 0:
            deepest = max(deepest, run.deepest())
    assert deepest < 0.01
    assert np.isfinite(energy)
    # at the end the pile is at rest, but for a ball or two that roll about in hollows, which nothing stops
    speeds = np.linalg.norm(run.velocities[:, 3:], axis=1)
    assert np.percentile(speeds, 95.0) < 5.0e-4
    assert speeds.max() < 0.2
