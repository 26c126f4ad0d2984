"""The command for a card runs its parts one by one, within a time, and keeps what each has measured."""

import importlib
import json
import sys

import pytest

gpu_run = importlib.import_module("gpu_run")


def run(monkeypatch, folder, parts, *options: str) -> dict[str, str]:
    """Run the command with other parts; return how each ended."""
    monkeypatch.setattr(gpu_run, "parts", lambda: parts)
    monkeypatch.setattr(sys, "argv", ["gpu_run", "--device", "cpu", "--folder", str(folder), *options])
    with pytest.raises(SystemExit) as ended:
        gpu_run.main()
    rows = json.loads((folder / "parts.json").read_text())["results"]["parts"]
    assert ended.value.code == any(row["ended"] != "complete" for row in rows)
    return {row["part"]: row["ended"] for row in rows}


def python(name: str, code: str, limit: float = 60.0) -> gpu_run.Part:
    return gpu_run.Part(name, "probe", ("-c", code, "--"), limit=limit, writes=False)


def test_a_part_that_fails_or_takes_too_long_stops_no_other(monkeypatch, tmp_path):
    parts = [
        python("fails", "raise SystemExit(3)"),
        python("hangs", "import time; time.sleep(60)", limit=0.5),
        python("works", "pass"),
    ]
    assert run(monkeypatch, tmp_path, parts) == {
        "fails": "failed",
        "hangs": "cut off after 0 s",
        "works": "complete",
    }


def test_no_part_begins_after_the_time(monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, [python("late", "pass")], "--minutes", "0") == {"late": "no time left"}


def test_each_part_is_a_benchmark_with_a_file_of_its_own():
    found = gpu_run.parts()
    assert len({part.name for part in found}) == len(found)
    for part in found:
        assert not part.writes or (gpu_run.HERE / part.command[0]).exists()


def test_figures_are_kept(monkeypatch, tmp_path):
    part = gpu_run.profile("quadruped", 2)
    assert run(monkeypatch, tmp_path, [part], "--short") == {part.name: "complete"}
    figures = json.loads((tmp_path / f"{part.name}.json").read_text())
    assert figures["results"]["kernels"]["begin_trees"]["microseconds"] > 0.0
