"""The programs in README.md run as they stand, in a folder of their own."""

import re
import subprocess
import sys

import pytest
from rooms import ROOT

PROGRAMS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_program_runs(number: int, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAMS[number])
    result = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    height = float(re.search(r"trunks are ([0-9.]+) m", result.stdout)[1])
    assert 0.25 < height < 0.35
