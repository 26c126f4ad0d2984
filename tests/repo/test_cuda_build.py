"""The kernels compile for a GPU, also on machines without one."""

import contextlib
import importlib
import re
from collections.abc import Iterator

import pytest
import warp as wp
from emulated_teams import rewritten
from rooms import ROOT, module_name, source_files

from newtonsim.kernels import lazy_warp
from newtonsim.runtime import compilation
from newtonsim.runtime.indexing import index_plainly

TEAMS = {module for module, _ in rewritten().kernels()}
"""Modules that `test_gpu_static.py` compiles and assembles."""

MODULES = [
    module_name(path)
    for path in source_files()
    if path.parts[0] == "kernels" and re.search(r"^@wp\.kernel", (ROOT / path).read_text(), re.MULTILINE)
]


RUNTIME = {"vprintf", "__assertfail", "malloc", "free"}
"""Functions that CUDA's runtime brings."""


@contextlib.contextmanager
def unoptimized(module: wp.Module) -> Iterator[None]:
    """Options of a module under which all that it says goes through the compiler, but for its optimiser."""
    before = dict(module.options)
    backward = compilation.is_differentiable(module)
    wp.set_module_options({"mode": "debug", "enable_backward": backward}, module=module)
    try:
        yield
    finally:
        wp.set_module_options(before, module=module)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODULES if name not in TEAMS])
def test_module_compiles_for_cuda(name: str, tmp_path):
    """To PTX, with the backward pass where there is one, as a tape would ask for it.

    The optimiser is left out, which takes a minute for some modules. What the assembler could still refuse is
    asked here: functions that are nowhere, and shared memory of our own beside that of Warp. Modules with
    that are optimised and assembled, too, since it may be too large.
    """
    module = lazy_warp.declare(importlib.import_module(name).__name__)
    index_plainly(module)
    with unoptimized(module):
        wp.compile_aot_module(module, arch=80, module_dir=str(tmp_path), use_ptx=True)
    (path,) = tmp_path.glob("*.ptx")
    code = path.read_text()
    assert ".entry" in code
    if compilation.is_differentiable(module):
        assert re.search(r"\.entry \w+_backward\b", code)
    functions = re.findall(r"\.extern \.func\s+(?:\([^)]*\)\s*)?(\w+)", code)
    assert set(functions) <= RUNTIME
    shared = re.findall(r"\.shared [^;]*?(\w+)(?:\[\d*\])?;", code)
    if any(not array.startswith("_ZZN2wp") for array in shared):  # the namespace of Warp
        wp.compile_aot_module(module, arch=80, module_dir=str(tmp_path), use_ptx=False)
        assert list(tmp_path.glob("*.cubin"))
