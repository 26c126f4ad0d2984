"""The kernels compile for a GPU, also on machines without one."""

import importlib
import re

import pytest
import warp as wp
from emulated_teams import rewritten
from rooms import ROOT, module_name, source_files

from newtonsim.kernels import lazy_warp
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


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODULES if name not in TEAMS])
def test_module_compiles_for_cuda(name: str, tmp_path):
    """To PTX, which takes a third of the time of machine code.

    What the assembler could still refuse is asked here: functions that are nowhere, and shared memory of our
    own beside that of Warp. Modules with that are assembled, too, since it may be too large.
    """
    module = lazy_warp.declare(importlib.import_module(name).__name__)
    index_plainly(module)
    wp.compile_aot_module(module, arch=80, module_dir=str(tmp_path), use_ptx=True)
    (path,) = tmp_path.glob("*.ptx")
    code = path.read_text()
    assert ".entry" in code
    functions = re.findall(r"\.extern \.func\s+(?:\([^)]*\)\s*)?(\w+)", code)
    assert set(functions) <= RUNTIME
    shared = re.findall(r"\.shared [^;]*?(\w+)(?:\[\d*\])?;", code)
    if any(not array.startswith("_ZZN2wp") for array in shared):  # the namespace of Warp
        wp.compile_aot_module(module, arch=80, module_dir=str(tmp_path), use_ptx=False)
        assert list(tmp_path.glob("*.cubin"))
