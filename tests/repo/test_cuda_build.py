"""The kernels compile for a GPU, also on machines without one."""

import importlib

import pytest
import warp as wp
from rooms import ROOT, module_name, source_files

MODULES = [
    module_name(path)
    for path in source_files()
    if path.parts[0] == "kernels" and "@wp.kernel" in (ROOT / path).read_text()
]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_module_compiles_for_cuda(name: str, tmp_path):
    module = importlib.import_module(name)
    wp.compile_aot_module(module, arch=80, module_dir=str(tmp_path))
    built = [path for path in tmp_path.iterdir() if path.suffix in (".cubin", ".ptx")]
    assert built, f"no device code among {sorted(path.name for path in tmp_path.iterdir())}"
