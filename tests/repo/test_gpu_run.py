"""The command for a card runs its parts one by one, within a time, and keeps what each has measured."""

import argparse
import dataclasses
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
    written = folder / "parts.json"
    rows = json.loads(written.read_text())["results"]["parts"] if written.exists() else []
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


def test_limits_grow_with_the_time(monkeypatch, tmp_path):
    parts = [python("slow", "import time; time.sleep(1)", limit=0.01)]
    assert run(monkeypatch, tmp_path, parts) == {"slow": "cut off after 0 s"}
    assert run(monkeypatch, tmp_path, parts, "--minutes", "8000000") == {"slow": "complete"}


def test_no_part_begins_after_the_time(monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, [python("late", "pass")], "--minutes", "0") == {"late": "no time left"}


def test_each_part_is_a_benchmark_with_a_file_of_its_own():
    found = gpu_run.parts()
    assert len({part.name for part in found}) == len(found)
    for part in found:
        assert not part.writes or (gpu_run.HERE / part.command[0]).exists()


def test_cards_share_worlds_out(monkeypatch, tmp_path):
    (part,) = [part for part in gpu_run.parts() if part.worlds]
    options = argparse.Namespace(device=["cuda:0", "cuda:1"], folder=tmp_path, short=False)
    first, second = gpu_run.commands(part, options)
    for i, line in enumerate((first, second)):
        assert line[line.index("--device") + 1] == f"cuda:{i}"
        assert line[line.index("--worlds") + 1] == str(part.worlds // 2)
    assert first[first.index("--json") + 1] != second[second.index("--json") + 1]
    # one card has them all already
    assert run(monkeypatch, tmp_path, [part]) == {}
    probe = dataclasses.replace(part, command=("profile_step.py", "quadruped"))
    assert run(monkeypatch, tmp_path, [probe], "--short", "--device", "cpu", "cpu") == {part.name: "complete"}
    assert sorted(path.stem for path in tmp_path.glob("cards*")) == [f"{part.name}_0", f"{part.name}_1"]


def test_the_results_page_shows_what_a_card_has_measured(tmp_path):
    publish = importlib.import_module("publish")
    assert publish.gpu_tables(tmp_path) == publish.UNMEASURED
    machine = {"date": "2026-01-01", "cpu": "c", "cores": 2, "device": "cuda:0 A card"}
    rows = [{"robot": "ant", "steps_per_second": 2.0e7}]
    curve = [{"environment": "Ant", "per_second": 1.0e6, "curve": {"samples": [1]}}]
    figures = {
        "robots_ant_8192": {"figures": rows, "notes": []},
        "training_Ant": curve,
        "parts": {"parts": []},
    }
    for name, results in figures.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"machine": machine, "results": results}))
    text = publish.gpu_tables(tmp_path)
    assert "### robots ant 8192\n\n2026-01-01, c, 2 cores, cuda:0 A card" in text
    assert "| ant | 20,000,000 |" in text
    assert "| environment | per second |\n|---|---|\n| Ant | 1,000,000 |" in text
    page = (gpu_run.HERE / "results" / "README.md").read_text()
    assert text in publish.replace(page, "gpu", text)


def test_figures_are_kept(monkeypatch, tmp_path):
    part = gpu_run.profile("quadruped", 2)
    assert run(monkeypatch, tmp_path, [part], "--short") == {part.name: "complete"}
    figures = json.loads((tmp_path / f"{part.name}.json").read_text())
    assert figures["results"]["kernels"]["begin_trees"]["microseconds"] > 0.0
