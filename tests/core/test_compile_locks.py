"""Processes that share a kernel cache compile each module once."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import warp as wp

from newtonsim.runtime import compilation
from newtonsim.runtime.compile_locks import CompileLock
from newtonsim.runtime.progress import Progress

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files are not locked elsewhere")

HOLD = """
import sys
import warp as wp
from newtonsim.runtime.compile_locks import CompileLock
wp.init()
wp.config.kernel_cache_dir = sys.argv[1]
lock = CompileLock("module")
print(lock.acquire(wait=False), flush=True)
sys.stdin.read()
"""

STEP = """
import json
import warp as wp
compiled, compile = [], wp.Module._compile
def note(module, *arguments, **options):
    anew = compile(module, *arguments, **options)
    if anew:
        compiled.append(module.name)
    return anew
wp.Module._compile = note
import newtonsim
builder = newtonsim.ModelBuilder()
builder.add_shape_sphere(builder.add_body(), radius=0.1)
model = builder.finalize("cpu")
newtonsim.Simulator(model, newtonsim.SemiImplicitSolver(model), dt=0.01).step(2)
print(json.dumps(compiled))
"""


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    return tmp_path


def test_a_lock_is_held_by_one_process_and_ends_with_it(cache: pathlib.Path):
    command = [sys.executable, "-c", HOLD, str(cache)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        line = next(line for line in other.stdout if line.strip() in ("True", "False"))
        assert line.strip() == "True"
        lock = CompileLock("module")
        assert not lock.acquire(wait=False)
        assert CompileLock("another").acquire(wait=False)
        other.kill()
        assert lock.acquire(wait=True)
        assert not CompileLock("module").acquire(wait=False)
        lock.release()
        assert CompileLock("module").acquire(wait=False)


def test_a_lock_lies_in_the_cache_before_anything_has_used_it(tmp_path: pathlib.Path):
    code = "from newtonsim.runtime.compile_locks import CompileLock; CompileLock('module').acquire(wait=True)"
    environment = {
        **os.environ,
        "WARP_CACHE_PATH": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    (tmp_path / "here").mkdir()
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "here", env=environment, check=True)
    assert not list((tmp_path / "here").iterdir())
    assert list((tmp_path / "cache").rglob("wp_newtonsim_locks/module"))


def test_a_lock_does_not_stay_with_children_that_were_forked_meanwhile(cache: pathlib.Path):
    lock = CompileLock("module")
    assert lock.acquire(wait=False)
    child = os.dup(lock._file)  # what a child has of it
    lock.release()
    assert CompileLock("module").acquire(wait=False)
    os.close(child)


def test_where_files_cannot_be_locked_each_process_compiles(cache: pathlib.Path):
    (cache / "wp_newtonsim_locks").write_text("a file where the folder should be")
    for _ in range(2):
        assert CompileLock("module").acquire(wait=True)


def test_what_another_process_compiles_comes_last(cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    device = wp.get_device("cpu")
    modules = [wp.get_module(f"module_{i}") for i in range(3)]
    other, loaded = CompileLock(compilation._identifier(modules[0], device)), []
    assert other.acquire(wait=False)

    def load(module: wp.Module, device: wp.Device) -> None:
        loaded.append(module)
        if len(loaded) == 2:
            other.release()

    monkeypatch.setattr(compilation, "_load_one", load)
    names = [compilation.short_name(module) for module in modules]
    with Progress(str(device), names) as progress:
        compilation._load_side_by_side(modules, device, progress)
    assert set(loaded) == set(modules)
    assert loaded[-1] is modules[0]


@pytest.mark.slow
def test_processes_that_start_together_share_the_work(tmp_path: pathlib.Path):
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path)}
    command = [sys.executable, "-c", STEP]
    starts = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [start.communicate(timeout=300)[0] for start in starts]
    assert [start.returncode for start in starts] == [0, 0]
    shares = [json.loads(output.splitlines()[-1]) for output in outputs]
    together = [name for share in shares for name in share]
    assert together
    assert len(together) == len(set(together)), shares
