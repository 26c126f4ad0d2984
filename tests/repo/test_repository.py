"""What the door says is true: versions agree, and README names commands that exist."""

import re
import tomllib

from rooms import ROOT

import newtonsim

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_version_is_written_once():
    citation = (ROOT / "CITATION.cff").read_text()
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert f"version: {newtonsim.__version__}\n" in citation


def test_readme_names_existing_targets_and_links():
    readme = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"^make (\w+)", readme, re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", readme):
        assert (ROOT / link).exists(), link


def test_all_folders_with_code_are_installed():
    settings = PYPROJECT["tool"]["setuptools"]
    found = {
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts])
        for package, folder in settings["package-dir"].items()
        for path in (ROOT / folder).rglob("*.py")
    }
    assert found == set(settings["packages"])
    assert len(settings["packages"]) == len(found)
