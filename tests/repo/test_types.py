"""What editors and type checkers see of the package is what there is: names, arrays, errors of users."""

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import warp as wp
from rooms import ROOMS, ROOT

import newtonsim
from newtonsim.scene import array_types
from newtonsim.scene.arrays import (
    CONTROL_ARRAYS,
    COUNTS,
    MODEL_ARRAYS,
    RIGID_CONTACT_NAMES,
    SOFT_CONTACT_ARRAYS,
    STATE_ARRAYS,
)

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pyright"]

MOST_UNCHECKED = 161
"""Files that are not checked yet; lower it when one leaves the list, and never raise it."""

FACES = (
    "importers/__init__.py",
    "newtonsim/__init__.py",
    "newtonsim/builder/",
    "newtonsim/bullet_world/__init__.py",
    "newtonsim/collision/collide.py",
    "newtonsim/collision/contacts.py",
    "newtonsim/diff/__init__.py",
    "newtonsim/envs/batched.py",
    "newtonsim/envs/registry.py",
    "newtonsim/envs/single.py",
    "newtonsim/envs/task.py",
    "newtonsim/errors.py",
    "newtonsim/kernel_warmup.py",
    "newtonsim/kinematics.py",
    "newtonsim/pybullet_compat/__init__.py",
    "newtonsim/queries/",
    "newtonsim/scene/array_types.py",
    "newtonsim/scene/control.py",
    "newtonsim/scene/model.py",
    "newtonsim/scene/state.py",
    "newtonsim/simulator.py",
    "newtonsim/solver_protocol.py",
    "newtonsim/studies/",
    "newtonsim/testing.py",
    "newtonsim/utils/",
    "render/__init__.py",
    "solvers/__init__.py",
    "solvers/base.py",
    "solvers/featherstone/solver.py",
    "solvers/semi_implicit/solver.py",
)
"""What users meet first: always checked."""

LAZY = {
    "newtonsim": ("_LAZY", "_LAZY_MODULES"),
    "newtonsim.solvers": ("_LAZY", None),
    "newtonsim.render": ("_LAZY", None),
    "newtonsim.utils": ("_DOORS", None),
}
"""Modules that load names when they are first asked for: their tables of names and of modules."""

PROGRAM = """
import newtonsim as nt
import newtonsim.pybullet_compat as p
from newtonsim.importers import parse_urdf
from newtonsim.solvers import VBDSolver

builder = nt.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
reveal_type(builder.add_body(mass=1.0))
builder.joint_q = [0.0, 1.0]
reveal_type(builder.joint_q)
reveal_type(builder.add_joint_revolute(-1, 0))
reveal_type(builder.default_shape_mu)
model = builder.finalize()
reveal_type(model)
reveal_type(model.joint_q)
reveal_type(model.body_count)
reveal_type(model.world_body_start)
reveal_type(model.state().body_q)
reveal_type(model.control().joint_act)
solver = nt.FeatherstoneSolver(model)
reveal_type(solver)
reveal_type(VBDSolver)
simulator = nt.Simulator(model, solver, 1.0 / 60.0)
reveal_type(simulator.state)
reveal_type(nt.render.Camera)
reveal_type(nt.utils.parse_mjcf)
reveal_type(nt.collide(model, model.state()))
reveal_type(parse_urdf)
reveal_type(p.JOINT_REVOLUTE)
nt.Simulator(model, solver, dt="fast")  # mistake: a number
model.joint_speed  # mistake: there is no such attribute
"""

EXPECTED = [
    "int",
    "Column",
    "int",
    "float",
    "Model",
    "array[float32, int]",
    "int",
    "ndarray",
    "array[transformf, int]",
    "array[float32, int]",
    "FeatherstoneSolver",
    "type[VBDSolver]",
    "State",
    "type[Camera]",
    "(",
    "Contacts",
    "(",
    "Literal[0]",
]
"""What PROGRAM reveals, line by line; "(" stands for any function, "ndarray" for one of any shape."""


def check(folder: Path, **settings: object) -> list[dict]:
    """Return what pyright says about the files of a folder."""
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["-m", "pyright", "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=600)
    return json.loads(result.stdout)["generalDiagnostics"]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What is said about PROGRAM beside a package that lies as it is installed."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("user")
    leave = shutil.ignore_patterns("__pycache__", "assets", "data")
    for room, name in sorted(ROOMS.items(), key=lambda item: item[1]):
        shutil.copytree(ROOT / room, site.joinpath(*name.split(".")), ignore=leave, dirs_exist_ok=True)
    (folder / "program.py").write_text(PROGRAM)
    return check(folder, extraPaths=[str(site)], useLibraryCodeForTypes=False)


def test_a_program_gets_types(said: list[dict]):
    revealed = [note["message"] for note in said if note["severity"] == "information"]
    kinds = [re.fullmatch(r'Type of ".*?" is "(.*)"', text, re.DOTALL)[1] for text in revealed]
    assert [re.sub(r"(?s)^(\(|ndarray).*", r"\1", kind) for kind in kinds] == EXPECTED


def test_mistakes_of_a_program_are_found(said: list[dict]):
    wrong = [note["range"]["start"]["line"] for note in said if note["severity"] == "error"]
    meant = [line for line, text in enumerate(PROGRAM.splitlines()) if "# mistake" in text]
    assert wrong == meant


def declared(module: str) -> dict[str, str]:
    """Return the names that a module imports for type checkers alone, each with where it comes from."""
    tree = ast.parse(Path(importlib.import_module(module).__file__).read_text())
    blocks = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    found = {}
    for node in (node for block in blocks for node in block.body):
        for alias in node.names:
            assert alias.asname, f"{module}: {alias.name} is not handed on, write 'as {alias.name}'"
            found[alias.asname] = node.module if isinstance(node, ast.ImportFrom) else alias.name
    return found


@pytest.mark.parametrize("module", LAZY)
def test_lazy_names_are_declared(module: str):
    names, modules = (getattr(importlib.import_module(module), table or "", ()) for table in LAZY[module])
    expected = {**names, **{name: f"{module}.{name}" for name in modules}}
    found = declared(module)
    if module == "newtonsim.utils":
        assert {found.pop("render"), found.pop("import_usd")} == {"newtonsim.utils"}
    assert found == expected


def dtype_of(annotation: str) -> object:
    """Return the Warp type that an annotation "wp.array[...]" names."""
    return eval(annotation, {"wp": wp}).dtype


@pytest.mark.parametrize(
    ("declaration", "table"),
    [
        (array_types.StateArrays, STATE_ARRAYS),
        (array_types.ControlArrays, CONTROL_ARRAYS),
        (array_types.ModelArrays, [s for s in (*MODEL_ARRAYS, *SOFT_CONTACT_ARRAYS) if not s.host]),
    ],
)
def test_arrays_are_declared_as_the_tables_say(declaration: type, table):
    found = dict(declaration.__annotations__)
    for spec in table:
        annotation = found.pop(spec.name)
        if spec.dtype is None:
            assert annotation == "Column", spec.name
        else:
            assert dtype_of(annotation) is spec.dtype, spec.name
    others = {*COUNTS.values(), *RIGID_CONTACT_NAMES} if declaration is array_types.ModelArrays else set()
    assert set(found) == others


def test_lists_of_the_builder_are_declared():
    assert list(array_types.BuilderColumns.__annotations__) == [spec.name for spec in MODEL_ARRAYS]


def test_derived_arrays_have_the_declared_types():
    builder = newtonsim.ModelBuilder()
    builder.add_shape_sphere(builder.add_body(), radius=0.1)
    builder.set_ground_plane()
    model = builder.finalize("cpu")
    for name, annotation in array_types.DerivedArrays.__annotations__.items():
        value = getattr(model, name)
        if annotation.startswith("wp.array") and value is not None:
            assert value.dtype is dtype_of(annotation), name


def test_rooms_are_found_in_a_clone():
    tree = ROOT / SETTINGS["stubPath"] / "newtonsim"
    linked = {path.name: path.resolve() for path in tree.iterdir()}
    rooms = {name.rpartition(".")[2]: (ROOT / room).resolve() for room, name in ROOMS.items() if "." in name}
    assert linked == {**rooms, "__init__.py": (ROOT / "newtonsim" / "__init__.py").resolve()}


def unchecked() -> list[str]:
    links = f"{SETTINGS['stubPath']}/newtonsim/"
    return [path.removeprefix(links) for path in SETTINGS["exclude"] if not path.startswith("**")]


def test_files_that_are_not_checked_exist_and_become_fewer():
    assert [path for path in unchecked() if not (ROOT / path).is_file()] == []
    assert len(unchecked()) <= MOST_UNCHECKED


def test_what_users_meet_first_is_checked():
    assert [path for path in unchecked() if path.startswith(tuple(FACES))] == []
