"""Stages from a web server on this machine."""

import functools
import http.server
import socket
import threading

import pytest
from pxr import Sdf, Usd
from usd_text import BODY, SOLID, prim

import newtonsim
from newtonsim.importers import parse_usd
from newtonsim.importers.files import resolve_url
from newtonsim.importers.files.resolve_url import resolve_usd_from_url

HEAD = "#usda 1.0\n(\nmetersPerUnit = 1\n)\n"


ANNOUNCED = {"/robots/short.usda": "1000", "/robots/huge.usda": str(5 << 30)}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Serve files, and a redirection out of http."""
        if self.path == "/robots/away.usda":
            self.send_response(302)
            self.send_header("Location", "ftp://elsewhere/away.usda")
            self.end_headers()
        elif self.path in ANNOUNCED:
            self.send_response(200)
            self.send_header("Content-Length", ANNOUNCED[self.path])
            self.end_headers()
            self.wfile.write(b"#usda 1.0\n")
        elif self.path == "/robots/rude.usda":
            self.wfile.write(b"no status line\r\n\r\n")
        else:
            super().do_GET()


@pytest.fixture
def site(tmp_path):
    """Folder and address of a server."""
    folder = tmp_path / "site"
    (folder / "robots" / "parts").mkdir(parents=True)
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield folder / "robots", f"http://127.0.0.1:{server.server_port}/robots"
    server.shutdown()
    server.server_close()
    thread.join()


def write_robot(folder) -> None:
    """A scene that refers to a part, which refers to a binary one, and to the scene again."""
    leaf = Sdf.Layer.CreateAnonymous(".usda")
    leaf.ImportFromString(HEAD + prim("Sphere", "leaf", SOLID, inside="double radius = 2"))
    leaf.Export(str(folder / "parts" / "leaf one.usdc"))
    part = prim(
        "Xform",
        "part",
        BODY,
        inside=prim("", "below", meta="prepend references = @leaf one.usdc@</leaf>"),
    )
    again = prim("Xform", "again", meta="prepend payload = @../main.usda@</empty>")
    (folder / "parts" / "part.usda").write_text(HEAD + part + again)
    main = prim("Xform", "robot", meta="prepend references = @./parts/part.usda@</part>") + prim(
        "Xform", "empty"
    )
    (folder / "main.usda").write_text(HEAD + main)


def test_a_file_and_all_that_it_refers_to(site, tmp_path):
    """The tree of files stands in the folder, and opens from there."""
    folder, address = site
    write_robot(folder)
    target = tmp_path / "target"
    path = resolve_usd_from_url(f"{address}/main.usda?version=2", target, export_usda=True)
    assert path == str(target / "main.usda")
    found = sorted(str(file.relative_to(target)) for file in target.rglob("*") if file.is_file())
    assert found == ["main.usda", "parts/leaf one.usda", "parts/leaf one.usdc", "parts/part.usda"]
    assert Usd.Stage.Open(path).GetPrimAtPath("/robot/below").GetAttribute("radius").Get() == 2.0


def test_parse_usd_takes_addresses(site, tmp_path, monkeypatch):
    """And leaves nothing in the working directory."""
    folder, address = site
    write_robot(folder)
    monkeypatch.chdir(tmp_path)
    builder = newtonsim.ModelBuilder()
    result = parse_usd(f"{address}/main.usda", builder)
    assert result["path_body_map"] == {"/robot": 0}
    assert next(iter(builder.shape_geo_scale[0])) == 2.0
    assert [entry.name for entry in tmp_path.iterdir()] == ["site"]


def test_a_folder_with_the_time_in_its_name(site, tmp_path, monkeypatch):
    """Where no folder is named."""
    folder, address = site
    write_robot(folder)
    monkeypatch.chdir(tmp_path)
    assert resolve_usd_from_url(f"{address}/main.usda").startswith(str(tmp_path / "usd_2"))


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("../../outside.usda", "outside"),
        ("/etc/passwd", "outside"),
        ("%2e%2e/secret.usda", "outside"),
        ("http://127.0.0.1:1/other.usda", "outside"),
        ("file:///etc/passwd", "supported are http"),
        ("gone.usda", "404"),
        ("leaf.usda?version=2", "name with a query"),
        ("away.usda", "supported are http"),
        ("short.usda", "incomplete: 10 of 1000"),
        ("huge.usda", "5368709120 bytes, more than"),
        ("rude.usda", "answer is broken"),
        ("linked/a.usda", "outside"),
    ],
)
def test_references_that_are_not_followed(site, tmp_path, reference, words):
    """Out of the folder, to other servers and schemes; nothing is written outside."""
    folder, address = site
    (folder / "main.usda").write_text(HEAD + prim("Xform", "a", meta=f"prepend references = @{reference}@"))
    target = tmp_path / "deep" / "target"
    target.mkdir(parents=True)
    (target / "linked").symlink_to(tmp_path)
    with pytest.raises(newtonsim.ImportFileError, match=words):
        resolve_usd_from_url(f"{address}/main.usda", target)
    written = {file.name for file in tmp_path.rglob("*") if file.is_file() and folder not in file.parents}
    assert written <= {"main.usda"}


@pytest.mark.parametrize(
    "address",
    [
        "file:///stages/a.usda",
        "ftp://host/a.usda",
        "a.usda",
        "http:///a.usda",
        "http://me:secret@host/a.usda",
    ],
)
def test_only_http_and_https(address, tmp_path):
    """Other addresses are refused before anything is opened."""
    with pytest.raises(newtonsim.ImportFileError, match="http") as caught:
        resolve_usd_from_url(address, tmp_path / "target")
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "target").exists()


def test_wrong_arguments(tmp_path):
    """Named before anything is fetched."""
    (tmp_path / "file").touch()
    for url, target, words in (
        ("http://host/dir/", None, "names a folder"),
        ("http://host/a.usda", tmp_path / "file", "is not a folder"),
        ("http://host/a.usda", 5, "expected a path"),
    ):
        with pytest.raises(newtonsim.ModelError, match=words):
            resolve_usd_from_url(url, target)


def test_textures_in_tiles_are_named(site, tmp_path):
    """Their names stand in no file."""
    folder, address = site
    (folder / "main.usda").write_text(HEAD + prim("Xform", "a", inside="asset t = @skin.<UDIM>.png@"))
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=r"skin\.<UDIM>\.png"):
        resolve_usd_from_url(f"{address}/main.usda", tmp_path / "target")


def test_limits(site, tmp_path, monkeypatch):
    """Of size, depth and number."""
    folder, address = site
    write_robot(folder)
    for name, value, words in (
        ("MAX_FILE_BYTES", 10, "10 bytes"),
        ("MAX_DEPTH", 1, "1 levels"),
        ("MAX_FILES", 2, "2 files"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(resolve_url, name, value)
            with pytest.raises(newtonsim.ImportFileError, match=words):
                resolve_usd_from_url(f"{address}/main.usda", tmp_path / name)
        assert not list((tmp_path / name).rglob("*.part"))


def test_no_server_says_offline(tmp_path):
    """A closed port of this machine stands for a network that is not there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(newtonsim.ImportFileError, match="offline"):
        resolve_usd_from_url(f"http://127.0.0.1:{port}/a.usda", tmp_path)


def test_what_is_no_usd_file(site, tmp_path):
    """A page instead of a stage."""
    folder, address = site
    (folder / "page.usda").write_text("<html>sorry</html>")
    with pytest.raises(newtonsim.ImportFileError, match="not a USD file"):
        resolve_usd_from_url(f"{address}/page.usda", tmp_path / "target")
