"""The programs in README.md run as they stand, in a folder of their own."""

import math
import re
import subprocess
import sys

import pytest
from rooms import ROOT

# of the height 0.5 s after a fall from 0.4 m that rebounds: -(√(2 g h) - g s) / g, with s the time after it
_FALL = math.sqrt(2.0 * 0.4 / 9.81)
BOUNCE_SLOPE = -(_FALL - (0.5 - _FALL))
PROGRAMS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_program_runs(number: int, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAMS[number])
    result = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    if "diff.Rollout" in PROGRAMS[number]:
        slope = float(re.search(r"upward velocity (-[0-9.]+) s", result.stdout)[1])
        assert slope == pytest.approx(BOUNCE_SLOPE, rel=0.05)
    else:
        height = float(re.search(r"trunks are ([0-9.]+) m", result.stdout)[1])
        assert 0.25 < height < 0.35
