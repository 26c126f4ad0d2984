"""Every example runs to its own check at the end."""

import subprocess
import sys

import pytest
from rooms import ROOT

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
