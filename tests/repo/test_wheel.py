"""The wheel holds every file of the rooms: a forgotten subpackage works in editable checkouts, only there."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest
from rooms import BUILT_FROM, ROOMS, ROOT, source_files


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    # From a copy without build/: setuptools would put modules of an earlier build into the wheel.
    copy = tmp_path_factory.mktemp("source")
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILT_FROM:
        (copy / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    build = "import sys, build_backend as backend; print(backend.build_wheel(sys.argv[1]))"
    target = copy / "dist"
    result = subprocess.run(
        [sys.executable, "-c", build, str(target)],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": "tools"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return zipfile.ZipFile(target / result.stdout.split()[-1])


def expected_files() -> set[str]:
    stubs = (path.relative_to(ROOT) for path in (ROOT / "newtonsim").rglob("*.pyi"))
    files = {*source_files(), *stubs, pathlib.Path("newtonsim/py.typed")}
    for folder in (ROOT / "examples" / "assets", ROOT / "newtonsim" / "pybullet_compat" / "data"):
        data = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
        files |= {path.relative_to(ROOT) for path in data}
    return {"/".join((*ROOMS[file.parts[0]].split("."), *file.parts[1:])) for file in files}


def test_wheel_holds_exactly_the_rooms(wheel: zipfile.ZipFile):
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected_files()


def test_wheel_has_licence_and_command(wheel: zipfile.ZipFile):
    info = {name.split(".dist-info/")[1]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "licenses/LICENSE" in info
    assert "newtonsim = newtonsim.cli.main:main" in wheel.read(info["entry_points.txt"]).decode()
    assert "License-Expression: Apache-2.0" in wheel.read(info["METADATA"]).decode()
