"""The programs in README.md run as they stand, in a folder of their own; its tables are those of results/."""

import importlib
import math
import re
import subprocess
import sys

import pytest
from rooms import ROOT

README = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def output_of(words: str, tmp_path) -> str:
    """Run the one program that contains the words, and return what it prints."""
    (program,) = (text for text in PROGRAMS if words in text)
    script = tmp_path / "program.py"
    script.write_text(program)
    result = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def number(pattern: str, text: str) -> float:
    return float(re.search(pattern, text)[1])


def test_environments_step(tmp_path):
    """A hopper gets 1 for each step in which it stands, and loses little by random actions."""
    assert number(r"mean reward (-?[0-9.]+)", output_of("envs.make", tmp_path)) == pytest.approx(1.0, abs=0.5)


def test_a_plan_reaches_the_target(tmp_path):
    """The plan costs less than a third of holding still."""
    before, after = re.search(
        r"converged: cost ([0-9.]+) -> ([0-9.]+)", output_of("optimize.Problem", tmp_path)
    ).groups()
    assert float(after) < 0.3 * float(before)


def test_the_slope_of_a_bounce_is_exact(tmp_path):
    # of the height after 0.5 s: -(√(2 g h) - g s) / g, with the drop h = 0.4 m and s seconds later
    fall = math.sqrt(2.0 * 0.4 / 9.81)
    slope = number(r"upward velocity (-[0-9.]+) s", output_of("diff.Rollout", tmp_path))
    assert slope == pytest.approx(-(fall - (0.5 - fall)), rel=0.05)


def test_cubes_fall_in_every_world(tmp_path):
    """A cube of 5 cm lies at half its height."""
    printed = output_of("pybullet_compat", tmp_path)
    assert "64 cubes" in printed
    assert number(r"lie at ([0-9.]+) m", printed) == pytest.approx(0.025, abs=0.001)


def test_a_cup_beyond_the_edge_is_not_stable(tmp_path):
    """The table is 1.5 m long."""
    assert "[ True  True False]" in output_of("bullet_world", tmp_path)


def test_there_is_no_other_program():
    assert len(PROGRAMS) == 5


def test_the_page_is_short():
    assert len(README.splitlines()) <= 150


def test_tables_are_those_of_the_results():
    """`python benchmarks/publish.py` writes them."""
    publish = importlib.import_module("publish")
    assert publish.front(README) == README
    for page, names in {"benchmarks/results/README.md": publish.ON_RESULTS_PAGE, **publish.DRAWN}.items():
        text = (ROOT / page).read_text()
        assert publish.results_page(text, names) == text, page


def test_figures_in_sentences_are_those_of_the_results():
    """`python benchmarks/publish.py` writes them."""
    publish = importlib.import_module("publish")
    for page in publish.pages_with_prose():
        assert publish.prose(page.read_text()) == page.read_text(), page.name


def test_losses_are_in_the_table_of_speed():
    """Where another engine is faster, its figure is there and is the larger one."""
    rows = [line for line in README.splitlines() if line.startswith("| 8,192 ants under random control")]
    ours, *_, theirs = (int(cell.replace(",", "")) for cell in re.findall(r"[\d,]{7,}", rows[0]))
    assert theirs > ours
