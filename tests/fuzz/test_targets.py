"""Mutated files, messages and calls: our errors or sense, in bounded time; and all that was found once."""

import pathlib
from collections.abc import Iterator

import pytest
from fuzz.targets import TARGETS, Kept

CASES = {path.name: path for path in sorted((pathlib.Path(__file__).parent / "cases").iterdir())}
COUNT = {"usd": 25, "calls": 4, "mjcf": 25, "message": 300, "checkpoint": 60, "server": 30}
"""Cases of a target in every run of the tests, of 40 unless said; `python -m tests.fuzz` runs more."""


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    """The server of the target `server` ends with the tests of this file."""
    yield
    Kept.end()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs(name: str):
    target = TARGETS[name]
    for seed in target.seeds():
        target.check(seed)
    for number in range(COUNT.get(name, 40)):
        try:
            target.check(target.case(number))
        except AssertionError as finding:
            raise AssertionError(f"{name} {number}: {finding}") from finding


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_what_was_found_once(name: str):
    TARGETS[name.rsplit("-", 1)[0]].check(CASES[name].read_bytes())


def test_cases_are_the_same_everywhere():
    for name in ("urdf", "message", "stl"):
        assert TARGETS[name].case(7) == TARGETS[name].case(7)
    assert len({TARGETS["urdf"].case(number) for number in range(50)}) > 40
