"""`import newtonsim` is light: heavy libraries load where they are used, Warp starts at the first array."""

import subprocess
import sys

import pytest

from newtonsim.kernels import lazy_warp

HEAVY = ("pxr", "trimesh", "scipy", "torch", "jax", "matplotlib", "networkx", "mujoco", "tqdm")


def run(code: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@pytest.mark.parametrize("module", ["newtonsim", "newtonsim.pybullet_compat"])
def test_no_heavy_library(module: str):
    code = f"import sys, {module}; print(*(n for n in sys.argv[1:] if n in sys.modules))"
    assert run(code, *HEAVY).split() == []


SOLVER = """
import sys
from newtonsim import ModelBuilder
from newtonsim.solvers import {solver} as Solver
def adjoints():
    return [name for name in sys.modules if name.startswith("newtonsim.") and "adjoint" in name]
builder = ModelBuilder()
builder.add_shape_sphere(builder.add_body(), radius=0.1)
Solver(builder.finalize("cpu"))
print("without", len(adjoints()))
Solver(builder.finalize("cpu", requires_grad=True))
print("with", len(adjoints()))
"""


@pytest.mark.parametrize("solver", ["FeatherstoneSolver", "XPBDSolver", "VBDSolver", "SemiImplicitSolver"])
def test_backward_passes_load_with_the_first_model_that_has_gradients(solver: str):
    counts = [line.split() for line in run(SOLVER.format(solver=solver)).splitlines() if "with" in line]
    assert counts[0] == ["without", "0"]
    assert counts[1][0] == "with"
    assert int(counts[1][1]) > 0


def test_warp_is_not_started():
    # Warp announces itself when it starts; the second run shows that this test would see it.
    assert run("import newtonsim.pybullet_compat") == ""
    assert "initialized" in run("import newtonsim, warp; warp.init()")


FREEZING = """
import gc
held = [[] for _ in range({more})]
import newtonsim
newtonsim.ModelBuilder
print(gc.get_freeze_count())
"""


def test_garbage_collections_leave_out_warp_but_not_a_large_program():
    assert int(run(FREEZING.format(more=0))) > 80_000
    assert int(run(FREEZING.format(more=lazy_warp.MOST_OBJECTS))) == 0


def test_star_import_has_every_public_name():
    code = (
        "import newtonsim, types; lazy = {*newtonsim._LAZY, *newtonsim._LAZY_MODULES};"
        "module = types.ModuleType; names = vars(newtonsim).items();"
        "own = {n for n, v in names if n[0] != '_' and not isinstance(v, module)};"
        "print(sorted((own - {'Any', 'TYPE_CHECKING'} | lazy) ^ set(newtonsim.__all__)));"
        "from newtonsim import *; print(eval_fk.__name__, Simulator.__name__, XPBDSolver.__name__)"
    )
    assert run(code).splitlines() == ["[]", "eval_fk Simulator XPBDSolver"]
