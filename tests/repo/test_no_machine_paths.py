"""No file names a place of the machine it was written on."""

import re

import pytest
from rooms import ROOMS, ROOT

FOLDERS = [*ROOMS, "tests", "docs", "benchmarks"]
SUFFIXES = {".py", ".md", ".toml", ".xml", ".urdf", ".cff", ".yml", ".json", ""}
PLACES = ("home", "Users", "root", "work", "tmp", "opt", "mnt")
MACHINE_PATH = re.compile(r"(?<![\w.$}<])/(" + "|".join(PLACES) + r")/\w|[A-Z]:\\+Users")


def text_files():
    files = [path for path in ROOT.iterdir() if path.is_file()]
    files += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(p for p in files if p.suffix in SUFFIXES and "__pycache__" not in p.parts)


def test_no_absolute_paths_of_a_machine():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in text_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("place", PLACES)
def test_the_check_sees(place: str):
    assert MACHINE_PATH.search(f"see {'/' + place}/ann/robot.urdf")
    assert not MACHINE_PATH.search(f"docs/{place}/ann.md")
