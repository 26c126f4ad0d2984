"""Every example is in the gallery, every picture of the docs is there, films play, and all are small."""

import ast
import pathlib
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
FILMS = sorted(set(FILM.parent.glob("*.mp4")) - {FILM})
"""Films of seconds."""


class Header:
    """What an MP4 file of one track says of itself.

    Attributes:
        plays_at_once: Whether it says so before its pictures.
        seconds: How long it lasts [s].
        size: Columns and rows of its pictures.
    """

    def __init__(self, path: pathlib.Path):
        data = path.read_bytes()
        self.plays_at_once = data.index(b"moov") < data.index(b"mdat")
        scale, length = struct.unpack(">II", data[data.index(b"mvhd") + 16 :][:8])
        self.seconds = length / scale
        # sides at the end of the header of the track, in 1/65536 pixels
        track = data[data.index(b"tkhd") - 4 :]
        (size,) = struct.unpack(">I", track[:4])
        columns, rows = struct.unpack(">II", track[size - 8 : size])
        self.size = columns // 65536, rows // 65536


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_gallery_shows_every_example(name: str):
    film = rf"\[!\[{name}\]\(films/{name}\.jpg\)\]\(films/{name}\.mp4\)"
    picture = rf"!\[{name}\]\(pictures/{name}\.(jpg|png)\)"
    row = re.search(rf"^\| ({film}|{picture}) \|.*$", GALLERY, re.MULTILINE)
    assert row, f"docs/gallery.md has no row of {name}"
    assert f"python -m newtonsim.examples {name}`" in row[0]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_pictures_and_films_of_documents_exist(document):
    for link in re.findall(r"(?:!\[[^\]]*|\))\]\((?!http)([^)]+)\)", document.read_text()):
        assert (document.parent / link).is_file(), link


def test_pictures_are_small():
    largest = {".png": 100_000, ".jpg": 250_000}
    for name in re.findall(r"\]\((pictures/[^)]+)\)", GALLERY):
        path = ROOT / "docs" / name
        assert path.stat().st_size <= largest[path.suffix], name
    assert sum(path.stat().st_size for path in PICTURES) < 6_000_000


def test_the_script_makes_what_the_gallery_shows():
    tree = ast.parse((ROOT / "docs" / "make_pictures.py").read_text())
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    shown = {*re.findall(r"\]\((?:pictures|films)/(\w+)\.", GALLERY)} - {FILM.stem}
    assert len(shown) >= len(EXAMPLES)
    assert shown <= strings


def test_films_are_small_and_all_are_shown():
    shown = "".join(document.read_text() for document in DOCUMENTS)
    for film in FILMS:
        assert f"](films/{film.stem}.jpg)](films/{film.name})" in shown, film.name
        assert film.stat().st_size <= 1_000_000, film.name
        assert film.with_suffix(".jpg").stat().st_size <= 150_000, film.name
    assert sum(path.stat().st_size for path in FILM.parent.iterdir()) < 25_000_000


@pytest.mark.parametrize("path", FILMS, ids=lambda path: path.stem)
def test_films_play_at_once_and_lie_beside_their_posters(path):
    film = Header(path)
    assert film.plays_at_once, "browsers would have to load the whole film before they play it"
    assert film.seconds > 1.5
    assert film.size[0] == 1280
    with Image.open(path.with_suffix(".jpg")) as poster:
        assert poster.size == film.size


def test_the_film_plays_at_once_and_lasts_a_minute():
    film = Header(FILM)
    assert film.plays_at_once
    assert 55.0 <= film.seconds <= 70.0
    assert film.size == (1280, 720)
    # a film stands for twenty pictures, and is loaded only when it is played
    assert FILM.stat().st_size < 10_000_000
    with Image.open(FILM.with_suffix(".jpg")) as poster:
        assert poster.size == film.size
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
