"""The rooms of the package and the doors between them: imports point downwards only and form no circle.

Folders are small enough to be overlooked: those of the package, of the benchmarks, of the documentation, all
of the repository but the tests.
"""

import ast
import os
import pathlib
import sys

import pytest
from import_graph import Sources, arrows, circles, sources
from rooms import ROOMS, ROOT, module_name, source_files, syntax_tree

HOUSE = """
_version lazy_names errors arguments regular_files

kernels
kernels.views kernels.algebra
kernels.trees kernels.trees.adjoint kernels.trees.exact
kernels.collision.pairs kernels.collision.convex kernels.collision kernels.collision.surfaces
kernels.collision.families
kernels.steps
kernels.constraints kernels.constraints.solve kernels.constraints.adjoint kernels.constraints.linear
kernels.tendons kernels.queries
kernels.maximal kernels.maximal.adjoint kernels.camera kernels.envs kernels.envs.terms kernels.mujoco
kernels.optimize
kernels.actuators
kernels.particles.elements kernels.particles.self_contact kernels.particles
kernels.particles.xpbd kernels.particles.vbd kernels.particles.adjoint
kernels.penalty

scene checkpoints runtime geometry collision builder kinematics dynamics fields testing queries
solver_protocol checking simulator diff

solvers solvers.maximal solvers.particles solvers.xpbd solvers.vbd
solvers.featherstone solvers.semi_implicit solvers.mujoco
actuators
kernel_warmup studies inspection optimize

importers.files importers.geometry importers.building importers.soft_meshes
importers.urdf importers.mjcf importers.sdf importers.usd
importers.writers importers.writers.mjcf importers.writers.usd importers.writers.urdf

fidelity

render render.recordings render.camera render.films render.sim_renderer render.viewer
utils
examples.assets examples.scenes

pybullet_compat.surface pybullet_compat.descriptions pybullet_compat.readers pybullet_compat.world
pybullet_compat.engine pybullet_compat.kinematics pybullet_compat.queries pybullet_compat.soft_bodies
pybullet_compat.rendering pybullet_compat.clients pybullet_compat.api pybullet_compat.logs
pybullet_compat.server pybullet_compat.gui pybullet_compat pybullet_compat.comparison
pybullet_compat.stand_ins.startup pybullet_compat.stand_ins pybullet_compat.stand_ins.pybullet_utils
bullet_world

envs envs.terms envs.tasks adapters learn cli examples.learning examples __main__
"""
FLOORS = HOUSE.split()
"""Rooms from the ground up: a room imports rooms that stand before it, never one that stands after it."""

CLOSED = {
    "kernels": {"errors", "scene", "runtime", "geometry"},
    "importers": {"kernels", "solvers"},
    "render": {"solvers", "importers"},
    "bullet_world": {"kernels", "scene", "runtime", "solvers", "importers", "render"},
    "adapters": {"kernels", "solvers"},
}
"""Doors that stay closed although they would lead downwards: room -> rooms that it does without."""

MAX_FILES = 25
"""Python files side by side in a folder, beyond which none is found at a glance."""

UNCOUNTED = {"tests", "build"}
"""Folders of the top level whose files do not count: the tests, and what an installation leaves behind."""


def short(room: str) -> str:
    return room.removeprefix("newtonsim.")


def upward(modules: Sources) -> list[str]:
    """Return the imports of a room that stands higher, as "module:line imports module"."""
    floor = {room: place for place, room in enumerate(FLOORS)}
    found = []
    for (room, target), imports in arrows(modules).items():
        if floor[short(target)] > floor[short(room)]:
            found += imports
    return found


def through_closed_doors(modules: Sources) -> list[str]:
    """Return the imports that a room should do without."""
    found = []
    for (room, target), imports in arrows(modules).items():
        if short(target).split(".")[0] in CLOSED.get(short(room).split(".")[0], ()):
            found += imports
    return found


def foreign_imports(module: str, tree: ast.Module) -> list[str]:
    """Return what is wrong with imports of a file whatever the room: relative, by a bare name, heavy."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            found.append(f"{module}:{node.lineno} imports relatively")
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        else:
            continue
        for top in {name.split(".")[0] for name in names}:
            if top in set(ROOMS) - {"newtonsim"}:
                found.append(f"{module}:{node.lineno} imports {top} by its bare name")
            elif module.startswith("newtonsim.kernels.") and top not in DEVICE_PACKAGES:
                found.append(f"{module}:{node.lineno} imports {top} into device code")
    return found


DEVICE_PACKAGES = {"newtonsim", "warp", "numpy", *sys.stdlib_module_names}


def test_every_room_has_its_floor():
    rooms = {short(sources().room(module)) for module in sources().graph()}
    assert rooms == set(FLOORS)
    assert len(FLOORS) == len(set(FLOORS))


def test_imports_point_downwards():
    assert upward(sources()) == []


def test_files_form_no_circle():
    assert circles(sources().graph()) == []


def test_closed_doors_stay_closed():
    assert through_closed_doors(sources()) == []


@pytest.mark.parametrize("path", source_files(), ids=str)
def test_imports_are_absolute_and_by_installed_names(path: pathlib.Path):
    assert foreign_imports(module_name(path), syntax_tree(path)) == []


def files_per_folder(root: pathlib.Path) -> dict[pathlib.Path, int]:
    """Return the number of Python files side by side in each folder below a root but those of tests.

    An `__init__` does not count. Hidden folders, virtual environments and `UNCOUNTED` ones are passed by.
    """
    counts: dict[pathlib.Path, int] = {}
    for place, below, names in os.walk(root):
        folder = pathlib.Path(place)
        passed_by = {n for n in below if n.startswith(".") or (folder / n / "pyvenv.cfg").exists()}
        below[:] = set(below) - passed_by - (UNCOUNTED if folder == root else set())
        files = [name for name in names if name.endswith(".py") and name != "__init__.py"]
        if files:
            counts[folder.relative_to(root)] = len(files)
    return counts


def test_folders_can_be_overlooked():
    counts = files_per_folder(ROOT)
    assert {*ROOMS, "benchmarks", "docs"} <= {folder.parts[0] for folder in counts if folder.parts}
    assert {str(folder): n for folder, n in counts.items() if n > MAX_FILES} == {}


def test_a_full_folder_is_seen(tmp_path: pathlib.Path):
    for folder, count in (("benchmarks", 26), ("benchmarks/tasks", 2), ("tests", 40), ("venv/lib", 40)):
        (tmp_path / folder).mkdir(parents=True)
        for k in range(count):
            (tmp_path / folder / f"file{k}.py").touch()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    counts = files_per_folder(tmp_path)
    assert {str(folder): n for folder, n in counts.items()} == {"benchmarks": 26, "benchmarks/tasks": 2}


def with_line(module: str, line: str) -> Sources:
    """Return the modules of this checkout, one of them with one more line."""
    tree = sources().trees[module]
    return sources().with_tree(module, ast.Module([*tree.body, *ast.parse(line).body], []))


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("newtonsim.kernels.trees.crba", "from newtonsim.kernels.constraints import rows"),
        ("newtonsim.scene.model", "from newtonsim import solvers, FeatherstoneSolver"),
        ("newtonsim.scene.model", "def late():\n    from newtonsim.cli.main import main"),
        ("newtonsim.scene.state", "if TYPE_CHECKING:\n    from newtonsim.simulator import Simulator"),
        ("newtonsim.simulator", "import newtonsim.envs.task"),
        ("newtonsim.solvers.particles.system", "from newtonsim.solvers.xpbd import solver"),
    ],
)
def test_an_import_upwards_is_seen(module: str, line: str):
    (found,) = upward(with_line(module, line))
    assert found.startswith(f"{module}:")


def test_a_circle_is_seen():
    graph = {**sources().graph(), "a": {"b"}, "b": {"c"}, "c": {"a"}}
    assert circles(graph) == [["a", "b", "c"]]
    inner = with_line("newtonsim.scene.enums", "from newtonsim.scene.model import Model")
    (found,) = circles(inner.graph())
    assert {"newtonsim.scene.enums", "newtonsim.scene.model"} <= set(found)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("newtonsim.importers.urdf.parse", "import newtonsim.kernels.trees.crba"),
        ("newtonsim.render.shapes", "from newtonsim.solvers import FeatherstoneSolver"),
        ("newtonsim.bullet_world.frames", "from newtonsim.scene.model import Model"),
    ],
)
def test_a_closed_door_is_seen(module: str, line: str):
    (found,) = through_closed_doors(with_line(module, line))
    assert found.startswith(f"{module}:")


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("newtonsim.kernels.trees.crba", "import scipy"),
        ("newtonsim.solvers.xpbd.solver", "import kernels"),
        ("newtonsim.builder", "from . import worlds"),
    ],
)
def test_a_foreign_import_is_seen(module: str, line: str):
    assert len(foreign_imports(module, ast.parse(line))) == 1
