"""The tutorials in docs/tutorials run from top to bottom, as in Jupyter; they assert their own results."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from rooms import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def cells(notebook: pathlib.Path) -> list[dict]:
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run(notebook: pathlib.Path, tmp_path: pathlib.Path):
    program = "\n\n".join("".join(cell["source"]) for cell in cells(notebook))
    (tmp_path / "cells.py").write_text(program)
    run = subprocess.run(
        [sys.executable, "cells.py"],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "assert" in program
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept(notebook: pathlib.Path):
    """The site shows the outputs that are in the file, none of which is an error."""
    outputs = [output for cell in cells(notebook) for output in cell["outputs"]]
    assert outputs
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}


def test_every_notebook_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    assert [path.name for path in NOTEBOOKS if f"(tutorials/{path.name})" not in index] == []
    assert len(NOTEBOOKS) >= 4
