"""Kernels and device functions are registered when they are first used; hashes are remembered."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import threading
from concurrent.futures import Future

import numpy as np
import pytest
import warp as wp

from newtonsim.kernels import lazy_warp
from newtonsim.kernels.optimize import sampling
from newtonsim.kernels.trees import forward_kinematics
from newtonsim.runtime import compilation, kernel_sources, remembered
from newtonsim.runtime.active_tape import active_tape
from newtonsim.runtime.indexing import index_plainly

FILE = '''
import newtonsim.kernels.lazy_warp as wp

@wp.func(inline=True)
def twice(x: float, factor: float = 2.0):
    """Twice."""
    return factor * x

@wp.func
def unused(x: float):
    return x

@wp.func_native("return x + 1.0f;")
def more(x: float) -> float: ...

@wp.kernel
def double(a: wp.array[float]):
    """One thread per number."""
    a[wp.tid()] = twice(a[wp.tid()])

@wp.kernel(enable_backward=False)
def increase(a: wp.array[float]):
    """One thread per number."""
    a[wp.tid()] = more(a[wp.tid()])
'''


@pytest.fixture
def kernels(tmp_path: pathlib.Path):
    """A file of kernels, read and not used."""
    path = tmp_path / "some_lazy_kernels.py"
    path.write_text(FILE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[path.stem]


def is_declared(late: object) -> bool:
    return "_undeclared" not in vars(late)


def test_a_file_is_declared_when_a_kernel_is_launched(kernels):
    names = ("twice", "more", "double", "increase")
    assert not any(is_declared(getattr(kernels, name)) for name in names)
    assert kernels.twice.__doc__ == "Twice."
    assert kernels.double.__name__ == "double"
    a = wp.array([1.5, -2.0], dtype=float, device="cpu")
    wp.launch(kernels.double, 2, [a], device="cpu")
    # Warp compiles the kernels of a file as one
    assert all(is_declared(getattr(kernels, name)) for name in names)
    wp.launch(kernels.increase, 2, [a], device="cpu")
    np.testing.assert_array_equal(a.numpy(), [4.0, -3.0])
    assert kernels.double.module is kernels.increase.module
    assert kernels.increase.options == {"enable_backward": False}
    assert kernels.twice.inline_hint == "forceinline"


def test_a_later_declaration_leaves_hashes_as_they_are(kernels):
    before = kernels.double.module.get_module_hash(1)
    hashers = kernels.double.module.hashers
    assert not is_declared(kernels.unused)
    assert kernels.unused.key == "unused"
    assert kernels.double.module.hashers is hashers
    assert kernels.double.module.get_module_hash(1) == before


def test_a_module_that_is_loaded_by_its_name_has_its_kernels(kernels):
    compilation.load([wp.get_module(kernels.__name__)], "cpu")
    assert is_declared(kernels.double)
    (module_exec,) = kernels.double.module.execs.values()
    a = wp.array([3.0], dtype=float, device="cpu")
    wp.launch(kernels.double, 1, [a], device="cpu", block_dim=1)
    assert a.numpy() == [6.0]
    assert list(kernels.double.module.execs.values()) == [module_exec]


def test_threads_that_compile_do_not_write_to_the_tape(kernels, monkeypatch):
    # two threads at once that begin and end scopes of one tape make its end fail
    seen, timer = [], wp.ScopedTimer.__enter__

    def enter(self):
        seen.append((threading.current_thread() is threading.main_thread(), active_tape()))
        return timer(self)

    monkeypatch.setattr(wp.ScopedTimer, "__enter__", enter)
    monkeypatch.setattr(compilation, "is_cached", lambda *_: False)
    module = wp.get_module(kernels.__name__)
    monkeypatch.setattr(module, "execs", {})
    monkeypatch.setattr(compilation, "_loaded", set())
    tape = wp.Tape()
    with tape:
        compilation.load([module], "cpu")
        assert active_tape() is tape
    assert seen
    assert set(seen) == {(False, None)}
    assert tape.scopes == []


def test_a_failure_in_the_background_is_tried_again(kernels, monkeypatch):
    module = wp.get_module(kernels.__name__)
    monkeypatch.setattr(module, "execs", {})
    monkeypatch.setattr(compilation, "_loaded", set())
    failed = Future()
    failed.set_exception(RuntimeError("interrupted"))
    monkeypatch.setitem(compilation._begun, (module, "cpu"), failed)
    compilation.load([module], "cpu")
    assert kernels.double.module.execs


def test_threads_meet_at_one_declaration(kernels):
    found, start = [], threading.Barrier(8)

    def ask() -> None:
        start.wait()
        found.append(kernels.twice.input_types)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(types) for types in found] == [["x", "factor"]] * 8


def test_what_is_not_there_is_missed_by_its_name(kernels):
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        _ = kernels.twice.foo
    with pytest.raises(AttributeError, match="foo"):
        _ = lazy_warp.foo


STEP = """
import sys, warp as wp
wp.config.log_level = wp.LOG_ERROR
import newtonsim
from newtonsim.kernels.trees import forward_kinematics
builder = newtonsim.ModelBuilder()
link = builder.add_body()
builder.add_shape_sphere(link, radius=0.1)
builder.add_joint_revolute(-1, link, axis=(0, 0, 1))
model = builder.finalize("cpu")
state = model.state()
state.joint_q.fill_(0.5)
newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
lazy = [v for n, m in sys.modules.items() if n.startswith("newtonsim.kernels.") for v in vars(m).values()
        if type(v).__name__ == "LazyFunction" and v.__module__ == n]
print(sum("_undeclared" not in vars(v) for v in lazy), state.body_q.numpy().tobytes().hex())
"""


def run(cache: pathlib.Path) -> list[str]:
    environment = {**os.environ, "WARP_CACHE_PATH": str(cache), "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run([sys.executable, "-c", STEP], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_a_second_process_parses_no_device_function(tmp_path: pathlib.Path):
    first, second = run(tmp_path), run(tmp_path)
    assert int(first[0]) > 5
    assert second[0] == "0"
    assert first[1] == second[1]
    # a file that is no record is as good as none, and is written anew
    (record,) = tmp_path.rglob("newtonsim_*.json")
    record.write_text("{")
    assert int(run(tmp_path)[0]) > 5
    assert run(tmp_path) == second


@pytest.fixture
def own_records(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    """Records in a folder of the test, as of files that nobody changes."""
    monkeypatch.setattr(remembered, "_file", lambda: str(tmp_path / "records.json"))
    monkeypatch.setattr(remembered, "unchanged", lambda: True)
    remembered._records.cache_clear()
    yield tmp_path / "records.json"
    remembered._records.cache_clear()


@pytest.mark.parametrize(
    "kernel", [forward_kinematics.place_origins, sampling.draw_controls], ids=lambda k: k.__name__
)
def test_remembered_hashes_are_those_that_warp_computes(own_records: pathlib.Path, kernel: wp.Kernel):
    module = kernel.module
    index_plainly(module)
    module.mark_modified()
    computed = module.get_module_hash(1), {k.key: k.hash for k in module.kernels.values()}
    remembered.keep([module], 1)
    module.mark_modified()
    for kernel in module.kernels.values():
        kernel.hash = None
    assert remembered.recall(module, 1)
    assert isinstance(module.hashers[1], remembered.KnownHashes)
    assert (module.get_module_hash(1), {k.key: k.hash for k in module.kernels.values()}) == computed
    assert list(module.hashers[1].unique_kernels) == sorted(computed[1].values())
    # other threads in a block, other options: not known
    assert not remembered.recall(module, 32)
    module.mark_modified()
    before = module.options["max_unroll"]
    module.options["max_unroll"] = before + 1
    assert not remembered.recall(module, 1)
    module.options["max_unroll"] = before


def test_kernels_that_are_not_those_of_our_files_are_hashed(own_records: pathlib.Path, kernels):
    kernels.double.module.get_module_hash(1)
    remembered.keep([kernels.double.module], 1)
    assert not own_records.exists()


def test_nothing_is_remembered_while_files_change(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    path = tmp_path / "kernel.py"
    path.write_text("a = 1")
    monkeypatch.setattr(kernel_sources, "_kernel_files", lambda: iter([str(path)]))
    unchanged = kernel_sources.unchanged.__wrapped__
    assert not unchanged()
    os.utime(path, (lazy_warp.READ_SINCE - 10,) * 2)
    assert unchanged()
    before = kernel_sources.fingerprint.__wrapped__()
    path.write_text("a = 2")
    assert kernel_sources.fingerprint.__wrapped__() != before


def test_a_kernel_that_was_added_is_not_known(own_records: pathlib.Path):
    module = forward_kinematics.place_origins.module
    compilation.load([module], "cpu")
    module.mark_modified()
    module.get_module_hash(1)
    remembered.keep([module], 1)
    records = json.loads(own_records.read_text())
    (record,) = records.values()
    record["kernels"].popitem()
    own_records.write_text(json.dumps(records))
    remembered._records.cache_clear()
    module.mark_modified()
    assert not remembered.recall(module, 1)


def test_with_another_version_of_warp_kernels_are_declared_at_once():
    """Nothing of Warp's inside is relied on where it was not tried."""
    program = """
import warp as wp
wp.config.version = "1.99.0"
import newtonsim.kernels.lazy_warp as lazy
assert not lazy.TRIED
from newtonsim.kernels.trees import forward_kinematics
assert not any(isinstance(value, lazy.LazyKernel) for value in vars(forward_kinematics).values())
wp.config.version = wp.__version__
import newtonsim
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf
builder = newtonsim.ModelBuilder()
parse_urdf(asset_path("cartpole.urdf"), builder)
model = builder.finalize(device="cpu")
simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 1.0 / 240.0)
simulator.step(3)
print(simulator.state.joint_q.numpy())
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    assert "nan" not in result.stdout


def test_kernels_of_a_notebook_have_no_file(kernels):
    """Modules are compiled in the order of their sizes; `__main__` of a notebook has no file."""
    module = kernels.double.module
    size = compilation._size(module)
    assert size >= len(FILE)
    del kernels.__file__
    assert compilation._size(module) == size - len(FILE)
