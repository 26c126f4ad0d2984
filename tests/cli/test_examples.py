"""Every example runs to its own check at the end."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from rooms import ROOT

from newtonsim.examples import shac_hopper

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("[!_]*.py"))
SLOW = {
    "arm_ilqr",
    "arm_mpc",
    "arm_reaches",
    "bounce_to_target",
    "cartpole_swing_up",
    "cem_push",
    "cloth_to_target",
    "cup_on_a_table",
    "quadruped_gait_gradient",
    "quadruped_mpc",
    "shac_cartpole",
    "shac_hopper",
    "soft_crawler",
    "system_identification",
}
"""What takes more than ten seconds."""


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in EXAMPLES]
)
def test_example(name: str, tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", f"newtonsim.examples.{name}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_ppo_that_the_hopper_is_compared_with_takes_its_steps(monkeypatch):
    monkeypatch.setattr(shac_hopper, "SAMPLES", 2 * shac_hopper.WORLDS * shac_hopper.HORIZON)
    curve, policy = shac_hopper.TRAIN["PPO"](seed=0)
    assert np.isfinite(curve).all()
    assert len(curve) == 2
    torch.manual_seed(0)
    for start, end in zip(shac_hopper.Policy().parameters(), policy.parameters(), strict=True):
        assert torch.isfinite(end).all()
        assert not torch.equal(start, end)
