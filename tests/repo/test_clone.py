"""Python started in the folder of a clone finds every room of the package there, installed or not."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest
from rooms import BUILT_FROM, ROOMS, ROOT, module_name, source_files

PACKAGES = [module_name(path) for path in source_files() if path.name == "__init__.py"]
# The stand-ins take the names of other people's modules, once `newtonsim pybullet` has put them in the path.
IMPORTED = [name for name in PACKAGES if ".stand_ins." not in name]

IMPORT_ALL = """
import importlib, sys
import newtonsim
packages = [importlib.import_module(name) for name in sys.argv[1:]]
top = {name.split(".")[0] for name in sys.modules}
bare = {"kernels", "importers", "solvers", "render", "examples"} & top
assert not bare, bare
print(*(package.__file__ for package in packages), sep="\\n")
"""

A_FEW_LINES = """
import warp as wp
import newtonsim
from newtonsim.solvers import FeatherstoneSolver

builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
ball = builder.add_body(origin=wp.transform((0.0, 0.0, 1.0), wp.quat_identity()))
builder.add_shape_sphere(ball, radius=0.1)
model = builder.finalize(device="cpu")
sim = newtonsim.Simulator(model, FeatherstoneSolver(model), dt=1 / 240)
sim.step(24)
print(sim.state.body_q.numpy()[0, 2])
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A copy of what a clone holds of the package."""
    folder = tmp_path_factory.mktemp("clone")
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILT_FROM:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def installed(clone: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder into which `pip install .` put the package; the clone holds its build/ from then on."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    result = subprocess.run(
        [*pip, "--target", str(target), "."], cwd=clone, capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    return target


def python(folder: pathlib.Path, code: str, *arguments: str, first: pathlib.Path | None = None) -> list[str]:
    """Run code as `python` started in a folder does, and return the lines that it prints.

    Without site (-S) no editable install of this suite's own checkout takes part; `first` is looked up before
    the dependencies, as an installation is.
    """
    here = {str(ROOT), str(ROOT / "tests")}
    path = [str(first)] if first else []
    path += [entry for entry in sys.path if entry and entry not in here and os.path.isdir(entry)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    result = subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def room_files(root: pathlib.Path, names: list[str]) -> list[str]:
    """Return the `__init__.py` of packages in a clone: newtonsim.kernels is its kernels/__init__.py."""
    parts = [name.split(".") for name in names]
    beside = set(ROOMS) - {"newtonsim"}
    return [str(root.joinpath(*(p[1:] if p[1:2] and p[1] in beside else p), "__init__.py")) for p in parts]


@pytest.fixture(scope="module")
def editable(clone: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the contents of the wheel of `pip install --editable .`, as in site-packages."""
    folder = tmp_path_factory.mktemp("editable")
    build = "import sys, build_backend as backend; print(backend.build_editable(sys.argv[1]))"
    result = subprocess.run(
        [sys.executable, "-c", build, str(folder)],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": "tools"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    zipfile.ZipFile(folder / result.stdout.split()[-1]).extractall(folder)
    return folder


def test_every_room_comes_from_the_clone(clone: pathlib.Path):
    assert python(clone, IMPORT_ALL, *IMPORTED)[-len(IMPORTED) :] == room_files(clone, IMPORTED)


def test_every_room_comes_from_the_clone_once_installed(clone: pathlib.Path, installed: pathlib.Path):
    lines = python(clone, IMPORT_ALL, *IMPORTED, first=installed)
    assert lines[-len(IMPORTED) :] == room_files(clone, IMPORTED)


def test_a_few_lines_run_in_the_clone(clone: pathlib.Path, installed: pathlib.Path):
    height = float(python(clone, A_FEW_LINES, first=installed)[-1])
    # Free fall of 24 steps with velocities updated before positions: g dt^2 n (n + 1) / 2.
    assert height == pytest.approx(1.0 - 9.81 / 240**2 * 24 * 25 / 2, abs=1e-5)


def test_elsewhere_the_installed_rooms_are_found_and_no_bare_names(installed: pathlib.Path, tmp_path):
    rooms = list(ROOMS.values())
    lines = python(tmp_path, IMPORT_ALL, *rooms, first=installed)
    folders = [installed.joinpath(*name.split("."), "__init__.py") for name in rooms]
    assert lines[-len(rooms) :] == [str(folder) for folder in folders]
    find = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    bare = sorted(set(ROOMS) - {"newtonsim"})
    assert python(tmp_path, find, *bare, first=installed) == ["[]"]


ENTER = "import sys, site; site.addsitedir(sys.argv[1]); import newtonsim; print(newtonsim.__file__)"


def test_the_folder_of_a_clone_does_not_hide_its_editable_install(editable, clone, tmp_path):
    (
        tmp_path / "newtonsim"
    ).mkdir()  # what a Python started beside the clone sees: a folder without __init__.py
    assert python(tmp_path, ENTER, str(editable), first=editable) == room_files(clone, ["newtonsim"])


def test_another_clone_in_the_path_goes_before_an_editable_install(editable, tmp_path):
    other = tmp_path / "newtonsim" / "__init__.py"
    other.parent.mkdir()
    other.touch()
    assert python(tmp_path, ENTER, str(editable), first=editable) == [str(other)]
