"""The programs of docs/adapters.md run as they stand."""

import pathlib
import re

import pytest

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "adapters.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=["rsl-rl", "stable-baselines3", "skrl"])
def test_programs_run(program: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # some write logs
    exec(program, {})
