"""The program in docs/recording.md runs as it stands."""

import re

from rooms import ROOT

PROGRAM = re.search(
    r"^```python\n(.*?)^```", (ROOT / "docs/recording.md").read_text(), re.MULTILINE | re.DOTALL
)[1]


def test_program_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAM, "recording.md", "exec"), {})
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"run.nsr", "run.gif", "sheet.png", "joints.png", "energy.png", "forces.png"}
