"""Every example is in the gallery, every picture of the docs is there, films play, and all are small."""

import ast
import re
import struct

import pytest
from PIL import Image
from rooms import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GALLERY = (ROOT / "docs" / "gallery.md").read_text()
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("[!_]*.py"))
PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())
FILM = ROOT / "docs" / "films" / "newtonsim.mp4"


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


def test_the_film_plays_at_once_and_lasts_a_minute():
    data = FILM.read_bytes()
    header, media = data.index(b"moov"), data.index(b"mdat")
    assert header < media, "browsers would have to load the whole film before they play it"
    scale, length = struct.unpack(">II", data[data.index(b"mvhd") + 16 :][:8])
    assert 55.0 <= length / scale <= 70.0
    # sides at the end of the header of the only track, in 1/65536 pixels
    (size,) = struct.unpack(">I", data[data.index(b"tkhd") - 4 :][:4])
    sides = data[data.index(b"tkhd") - 4 :][size - 8 : size]
    assert [side / 65536 for side in struct.unpack(">II", sides)] == [1280, 720]
    # a film stands for twenty pictures, and is loaded only when it is played
    assert len(data) < 10_000_000
    with Image.open(FILM.with_suffix(".jpg")) as poster:
        assert poster.size == (1280, 720)
    assert FILM.with_suffix(".jpg").stat().st_size <= 250_000


def test_the_trailer_of_the_film_heads_the_readme():
    trailer = FILM.with_suffix(".webp")
    readme = (ROOT / "README.md").read_text()
    assert "](docs/films/newtonsim.webp)](docs/films/newtonsim.mp4)" in readme
    # everyone who opens the repository loads it
    assert trailer.stat().st_size < 6_000_000
    with Image.open(trailer) as picture:
        assert picture.n_frames > 100
        assert picture.size[0] / picture.size[1] == 1280 / 720
