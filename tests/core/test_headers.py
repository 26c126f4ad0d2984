"""Warp's headers are read once on a machine: by one thread, for all others and for later processes."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import warp as wp

from newtonsim.runtime import compilation, headers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files that are read cannot be replaced elsewhere")

START = """
import json, os, threading
import warp as wp
wp.config.log_level = wp.LOG_ERROR
import warp._src.build as build
import newtonsim
from newtonsim import dynamics
from newtonsim.solvers import SemiImplicitSolver
threads, build_cpu = [], build.build_cpu
def noted(path, source, pch_dir, **options):
    threads.append([threading.current_thread().name, pch_dir, os.path.basename(source)])
    build_cpu(path, source, pch_dir=pch_dir, **options)
build.build_cpu = noted
builder = newtonsim.ModelBuilder()
body = builder.add_body()
builder.add_shape_sphere(body, radius=0.1)
builder.add_joint_free(body)
model = builder.finalize("cpu")
state, solver = model.state(), SemiImplicitSolver(model)
newtonsim.eval_fk(model, model.joint_q, model.joint_qd, None, state)
{more}
cache = str(wp.config.kernel_cache_dir)
found = {{f"{{n}}/{{f}}": os.stat(f"{{cache}}/{{n}}/{{f}}").st_mtime_ns for n in os.listdir(cache)
         if n.startswith("wp_newtonsim_headers") for f in os.listdir(f"{{cache}}/{{n}}")}}
print(json.dumps([threads, found, state.body_q.numpy().tolist()]))
"""

FIRST = ["forward_kinematics", "replay"]


def start(cache: pathlib.Path, more: str = "") -> tuple[list[list[str]], dict[str, int], list]:
    """Files compiled, by which thread and with headers of which folder; precompiled headers; poses."""
    environment = {**os.environ, "WARP_CACHE_PATH": str(cache)}
    command = [sys.executable, "-c", START.format(more=more)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_headers_are_read_once_for_all_threads_and_processes(tmp_path: pathlib.Path):
    compiled, first, poses = start(tmp_path)
    # one is begun when the solver is made, the other one is needed while that reads the headers
    assert sorted(name.split(".")[-2].rpartition("_")[0] for _, _, name in compiled) == FIRST
    assert len({thread for thread, _, _ in compiled}) == min(2, compilation.core_count())
    assert len({folder for _, folder, _ in compiled}) == len(first) == 1
    assert poses == [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
    compiled, second, _ = start(tmp_path, "dynamics.kinetic_energy(model, state)")
    assert len(compiled) == 1
    assert second == first


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty kernel cache, which no thread has begun to read headers for."""
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(headers, "_readers", {})
    return tmp_path


def test_others_wait_for_the_thread_that_reads_the_headers(cache: pathlib.Path, monkeypatch):
    monkeypatch.setattr(headers.threading, "get_ident", lambda: 1)
    folder = pathlib.Path(headers._folder_to_use())
    assert folder.parent == cache
    assert headers.are_missing()
    monkeypatch.setattr(headers.threading, "get_ident", lambda: 2)
    waits = []

    def finish(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            (folder / "some.pch").touch()

    monkeypatch.setattr(headers.time, "sleep", finish)
    assert headers._folder_to_use() == str(folder)
    assert len(waits) == 3
    assert not headers.are_missing()


def test_a_thread_that_does_not_finish_is_not_waited_for_for_ever(cache: pathlib.Path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(headers.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(headers.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + 1000.0 * seconds))
    monkeypatch.setattr(headers.threading, "get_ident", lambda: 1)
    headers._folder_to_use()
    monkeypatch.setattr(headers.threading, "get_ident", lambda: 2)
    headers._folder_to_use()
    assert 30.0 <= now[0] < 45.0
