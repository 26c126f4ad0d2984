"""Every example is in the gallery, every picture of the docs is there, and those of the gallery are small."""

import ast
import re

import pytest
from rooms import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GALLERY = (ROOT / "docs" / "gallery.md").read_text()
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("[!_]*.py"))
PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_gallery_shows_every_example(name: str):
    row = re.search(rf"^\| !\[{name}\]\(pictures/{name}\.(gif|jpg|png)\) \|.*$", GALLERY, re.MULTILINE)
    assert row, f"docs/gallery.md has no row of {name}"
    assert f"python -m newtonsim.examples {name}`" in row[0]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_pictures_of_documents_exist(document):
    for link in re.findall(r"!\[[^\]]*\]\((?!http)([^)]+)\)", document.read_text()):
        assert (document.parent / link).is_file(), link


def test_pictures_are_small():
    largest = {".png": 100_000, ".jpg": 250_000, ".gif": 400_000}
    for name in re.findall(r"\]\((pictures/[^)]+)\)", GALLERY):
        path = ROOT / "docs" / name
        assert path.stat().st_size <= largest[path.suffix], name
    assert sum(path.stat().st_size for path in PICTURES) < 6_000_000


def test_the_script_makes_what_the_gallery_shows():
    tree = ast.parse((ROOT / "docs" / "make_pictures.py").read_text())
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    shown = re.findall(r"\]\(pictures/(\w+)\.", GALLERY)
    assert len(shown) >= len(EXAMPLES)
    assert set(shown) <= strings
