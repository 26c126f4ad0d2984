"""The programs in docs/ run as they stand: all blocks of a page one after the other, as in a notebook.

A block of ```` ```py ```` is quoted from the file that its first line names.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from rooms import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)(?: title=\"(.*?)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
UNTIL_STOPPED = ("viewer", "pybullet_gui")
"""Pages whose programs go on until Ctrl-C."""

RUNNER = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background are born deaf to it
sys.path.insert(0, "")
names = {"__name__": "__main__"}
for path in sorted(pathlib.Path().glob("block_*.py")):
    print("running", path, flush=True)
    try:
        exec(compile(path.read_text(), str(path), "exec"), names)
    except KeyboardInterrupt:
        pass
"""


def blocks(page: pathlib.Path, language: str) -> list[tuple[str, str]]:
    """Return title and text of the blocks in a language."""
    return [(title, text) for kind, title, text in BLOCK.findall(page.read_text()) if kind == language]


def unpack(page: pathlib.Path, folder: pathlib.Path) -> int:
    """Write the programs of a page, and the modules that they import; return how many programs there are."""
    number = 0
    for title, text in blocks(page, "python"):
        if title:
            (folder / title).write_text(text)
        else:
            (folder / f"block_{number:02}.py").write_text(text)
            number += 1
    return number


def with_programs() -> list[pathlib.Path]:
    """Pages with programs, but for the tutorials: `tests/learn/test_tutorials.py` goes through these."""
    pages = [page for page in PAGES if not page.stem.startswith("tutorial_")]
    return [page for page in pages if any(not title for title, _ in blocks(page, "python"))]


@pytest.mark.slow
@pytest.mark.parametrize("page", with_programs(), ids=lambda page: page.stem)
def test_programs_of_a_page_run(page: pathlib.Path, tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setenv("BROWSER", "true")
    count = unpack(page, tmp_path)
    with open(tmp_path / "out.txt", "w+") as out:
        process = subprocess.Popen([sys.executable, "-c", RUNNER], cwd=tmp_path, stdout=out, stderr=out)
        if page.stem in UNTIL_STOPPED:
            before: set[str] = set()
            for number in range(count):
                before = _stop_when_it_runs(process, tmp_path / "out.txt", number, before)
        status = process.wait(timeout=600)
        out.seek(0)
        said = out.read()
    assert status == 0, said
    assert f"block_{count - 1:02}.py" in said


def _stop_when_it_runs(
    process: subprocess.Popen, out: pathlib.Path, number: int, before: set[str]
) -> set[str]:
    """Press Ctrl-C some seconds after a program of the page began to listen on another socket; return all."""
    end = time.monotonic() + 120.0
    while f"block_{number:02}.py" not in out.read_text() and time.monotonic() < end:
        time.sleep(0.2)
    while _listening(process.pid) <= before and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(3.0)
    assert process.poll() is None, out.read_text()
    sockets = _listening(process.pid)
    process.send_signal(signal.SIGINT)
    return sockets


def _listening(pid: int) -> set[str]:
    """Return the sockets on which a process waits for TCP connections."""
    table = pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    waiting = {f"socket:[{row.split()[9]}]" for row in table if row.split()[3] == "0A"}
    found = set()
    for held in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            found.add(os.readlink(held))
    return waiting & found


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "py")], ids=lambda page: page.stem)
def test_quotations_are_what_the_file_says(page: pathlib.Path):
    for _, text in blocks(page, "py"):
        name, _, quoted = text.partition("\n")
        source = (ROOT / name.removeprefix("# ")).read_text()
        lines = [line.strip() for line in quoted.strip().splitlines()]
        assert "\n".join(lines) in textwrap.dedent("\n".join(line.strip() for line in source.splitlines()))
