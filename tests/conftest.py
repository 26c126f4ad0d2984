"""Fixtures shared by all tests."""

import gc
import os
import sys
import tempfile
from collections.abc import Iterator

import pytest
import warp as wp

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # else each process that a test starts would compile all sources anew, which takes it half a second
    os.environ.setdefault("PYTHONPYCACHEPREFIX", os.path.join(tempfile.gettempdir(), "newtonsim-bytecode"))

if "PYTEST_XDIST_WORKER" in os.environ:
    # else those of each worker would wait for those of the others: 15 s of training took 4 minutes
    os.environ.setdefault("OMP_NUM_THREADS", "1")

UNCHECKED = [
    "adapters",
    "cli/test_examples.py",
    "cli/test_warmup.py",
    "core/test_kernels_wheel.py",
    "core/test_lazy_kernels.py",
    "kernels/test_teams.py",
    "learn/test_play.py",
    "learn/test_training.py",
    "learn/test_tutorials.py",
    "pybullet/test_gui_browser.py",
    "pybullet/test_scripts.py",
    "pybullet/test_server.py",
    "repo",
    "scale_out",
    "viewer",
]
"""What a run that checks indices leaves out: tests of sources, of compilation, and of other processes, whose
kernels the rest of the tests launch as well."""

if os.environ.get("NEWTONSIM_CHECKED") == "indices":
    collect_ignore = UNCHECKED


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the collector of cycles from what stays until the end: modules and tests, two million objects.

    Walked over again and again, they cost a third of the time of collecting the tests, and half a second in
    each full collection afterwards.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def devices() -> list[str]:
    """CPU always, the first CUDA device where there is one."""
    wp.config.log_level = wp.LOG_ERROR
    return ["cpu", "cuda:0"] if wp.is_cuda_available() else ["cpu"]


@pytest.fixture(scope="session", params=devices())
def device(request: pytest.FixtureRequest) -> str:
    """Name of the device that a test runs on."""
    return request.param


@pytest.fixture(scope="module", autouse=True)
def no_client_is_left() -> Iterator[None]:
    """Disconnect what a module left connected to pybullet_compat, and fail: the next one counts on id 0."""
    yield
    clients = sys.modules.get("newtonsim.pybullet_compat.clients.table")
    left = list(clients.TABLE) if clients else []
    for number in left:
        clients.disconnect(number)
    assert not left, f"clients {left} of pybullet_compat were left connected"


@pytest.fixture(scope="module", autouse=True)
def checks_are_those_asked_for() -> Iterator[None]:
    """Fail where a module leaves other checks than the environment asks for: others would run without."""
    yield
    checked = sys.modules.get("newtonsim.runtime.checked")
    if checked:
        now, asked = checked.config, checked.Config(os.environ.get(checked.VARIABLE, ""))
        assert (now.checked, now.checks_indices) == (asked.checked, asked.checks_indices)
