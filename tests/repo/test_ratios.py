"""Ratios in sentences of the README, the docs, the changelog and the results are drawn from files.

What is left are settings, definitions and bounds that tests assert.
"""

import importlib
import re

import pytest
from rooms import ROOT

GENERATED = ("import_fidelity.md", "gradient_errors.md", "pybullet_scripts.md", "kernels.md")
"""Pages that the scripts which measured them have written."""

NUMBER = r"(?:\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten|twenty|fifty|a hundred|a thousand)"
PART = r"(?:a|one|two|three) (?:thirds?|quarters?|fifths?|sixths?|sevenths?|eighths?|tenths?)"
RATIO = re.compile(
    rf"\d ?%|\bper cent\b|\b{NUMBER} times (?:as|faster|slower|more|less|the|that)\b|\btwice (?:as|the)\b"
    rf"|\b(?:half|{PART}) (?:of )?(?:the|its|their|that) (?:time|cost|memory)\b|\b\d+ of (?:the )?\d+ \w+"
)

STATED = {
    "benchmarks/results/README.md": [
        "no more than 5 % of the worlds with a joint faster than 1 rad/s",
        "its default number of iterations and with four times as many",
    ],
    "CHANGELOG.md": ["left more than 1 % of the forces unbalanced"],
    "docs/bullet_world.md": ["near misses up to 2 % of the size of the smaller bounding box"],
    "docs/contact.md": ["the top 100 times as heavy"],
    "docs/deformables.md": [
        "within 5 % of beam theory (`tests/deformables/test_xpbd_elements.py`)",
        "closer at rest than 1.25 times that",
    ],
    "docs/gradient_smoothing.md": [
        "1 ms, four times the steps of hard contact at 1/240 s. Ten times softer ground allows steps √10 "
        "times as long"
    ],
    "docs/gradients.md": [
        "unbalanced. Above 1 % a `RuntimeWarning`",
        "further away than 1 % of what joints and contacts do",
        "exceeds 1 % of what constraints do",
        "by more than 5 % of it and 1e-5 of the loss",
        "`tests/gradients/test_pushing.py` holds errors of softened contact below 2 % for speeds and forces, "
        "and below 6 % for positions",
        "goes four times as deep",
        "(`tests/gradients/test_particles_among_bodies.py`); those with respect to centres of mass and "
        "inertias to 2 %",
    ],
    "docs/pybullet.md": [
        "| sliding distance of a box, slope angle | 0.5 %, 1 % |",
        "| sum of contact forces | 1 % |",
        "| forces in joints and constraints at rest | 1 % |",
        "further away than 5e-3 + 5 % of its vector",
        "differs by more than 1e-3 + 1 %",
        "get twice the room each time",
    ],
    "docs/recording.md": ["the band contains 90 % of the worlds"],
}
"""Numbers that nobody measured: thresholds, definitions, descriptions, and bounds that tests assert."""


def sentences(text: str) -> str:
    """Return a page without programs and without what is drawn, on one line."""
    text = re.sub(r"<!-- figures? .+?-->.*?<!-- end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return " ".join(text.split())


def pages():
    publish = importlib.import_module("publish")
    found = [page for page in publish.pages_with_prose() if page.name not in GENERATED]
    return [*found, publish.RESULTS / "README.md"]


def test_ratios_are_drawn_or_stated():
    for page in pages():
        name = page.relative_to(ROOT).as_posix()
        text = sentences(page.read_text(encoding="utf-8").split("\n## [0")[0])
        for stated in STATED.get(name, []):
            assert stated in text, f"{name} no longer says {stated!r}"
            text = text.replace(stated, "")
        found = [text[max(0, m.start() - 60) : m.end() + 30] for m in RATIO.finditer(text)]
        assert found == [], f"{name}: draw these with <!-- figure NAME -->, see benchmarks/tasks/sentences.py"


@pytest.mark.parametrize(
    "text",
    ["it takes 12 % less", "is 3.5 times faster", "twice as long", "a third of the time", "9 of 10 files"],
)
def test_ratios_are_found(text: str):
    assert RATIO.search(text)
    assert not RATIO.search(sentences(f"one <!-- figure it -->{text}<!-- end --> two"))
