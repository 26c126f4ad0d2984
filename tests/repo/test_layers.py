"""Imports point downwards only, are absolute, and use installed names."""

import ast
import pathlib
import sys

import pytest
from rooms import ROOMS, ROOT, module_name, source_files

# Layer -> layers it may import. "core" is newtonsim/ without the command line and the doors to importers.
ALLOWED = {
    "kernels": {"kernels"},
    "core": {"core", "kernels"},
    "solvers": {"core", "kernels", "solvers"},
    "importers": {"core", "importers"},
    "render": {"core", "kernels", "render"},
    "doors": {"core", "kernels", "doors", "importers", "render", "solvers"},
    "facade": {"core", "kernels", "doors", "importers", "render", "solvers", "facade"},
    "bullet_world": {"facade", "bullet_world"},
    "envs": {"core", "kernels", "doors", "importers", "render", "solvers", "examples", "envs"},
    "adapters": {"core", "envs", "adapters"},
    "learn": {"core", "render", "envs", "learn"},
    "examples": {"core", "examples", "importers", "solvers", "render", "doors", "facade", "bullet_world"},
    "cli": {"core", "examples", "importers", "solvers", "render", "doors", "facade", "envs", "learn", "cli"},
}
BARE = set(ROOMS) - {"newtonsim"}


def layer(module: str) -> str:
    """Return the layer of a module of newtonsim."""
    room = module.split(".")[1] if "." in module else ""
    if room in BARE:
        return room
    if room == "__main__" or room.startswith("cli"):
        return "cli"
    if room == "pybullet_compat":
        return "facade"
    if room in ("adapters", "bullet_world", "envs", "learn"):
        return room
    return "doors" if room in ("utils", "kernel_warmup", "inspection") else "core"


def imported_modules(tree: ast.Module) -> list[str]:
    """Return the dotted names a file imports; relative imports keep their leading dots."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            # `from newtonsim import solvers` imports newtonsim.solvers.
            names += [f"{base}.{alias.name}" if base == "newtonsim" else base for alias in node.names]
    return names


def problems(module: str, tree: ast.Module) -> list[str]:
    """Return what is wrong with the imports of a module."""
    own, found = layer(module), []
    for name in imported_modules(tree):
        top = name.split(".")[0]
        if name.startswith("."):
            found.append(f"relative import {name}")
        elif top in BARE:
            found.append(f"bare import {name}")
        elif top == "newtonsim":
            if layer(name) not in ALLOWED[own]:
                found.append(f"{own} imports {name}")
        elif own == "kernels" and top not in {"warp", "numpy"} and top not in sys.stdlib_module_names:
            found.append(f"kernels imports {name}")
    return found


@pytest.mark.parametrize("path", source_files(), ids=str)
def test_imports_point_downwards(path: pathlib.Path):
    assert problems(module_name(path), ast.parse((ROOT / path).read_text())) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("newtonsim.kernels.trees.crba", "from newtonsim.scene.model import Model"),
        ("newtonsim.kernels.trees.crba", "import scipy"),
        ("newtonsim.scene.model", "from newtonsim import solvers"),
        ("newtonsim.scene.model", "from newtonsim.cli.main import main"),
        ("newtonsim.importers.urdf.parse", "import newtonsim.kernels.trees.crba"),
        ("newtonsim.simulator", "import newtonsim.pybullet_compat"),
        ("newtonsim.simulator", "import newtonsim.envs"),
        ("newtonsim.render.sim_renderer.usd", "from newtonsim.solvers import FeatherstoneSolver"),
        ("newtonsim.solvers.xpbd.solver", "import kernels"),
        ("newtonsim.builder", "from . import worlds"),
    ],
)
def test_the_check_refuses(module: str, line: str):
    assert problems(module, ast.parse(line))
