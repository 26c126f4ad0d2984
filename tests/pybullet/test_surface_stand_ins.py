"""BulletClient, and scripts that import pybullet under its own name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import newtonsim.pybullet_compat as ours
from newtonsim.pybullet_compat.bullet_client import BulletClient

SCRIPT = """
import sys
import pybullet as p
import pybullet_data
import pybullet_utils.bullet_client as bc
from pybullet_utils import bullet_client

class Client(bullet_client.BulletClient):
    pass

world = bc.BulletClient(connection_mode=p.DIRECT)
other = Client(p.DIRECT)
world.createMultiBody(1.0)
print(p.__name__, sys.argv[1:], world.getNumBodies(), other.getNumBodies(), __name__)
print(pybullet_data.getDataPath())
"""


def newtonsim(*arguments, folder, **environment):
    """Run the command line in a folder; return its exit status, output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "newtonsim", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def script(tmp_path):
    """Write the script; return its path."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_script_runs_unchanged(script):
    status, output, errors = newtonsim("pybullet", script, "--speed", "3", folder=script.parent)
    assert status == 0, errors
    first, second = output.splitlines()[-2:]
    assert first == "newtonsim.pybullet_compat ['--speed', '3'] 1 0 __main__"
    assert Path(second) == Path(ours.__file__).parent / "data"


def test_module_runs_unchanged(script):
    status, output, errors = newtonsim("pybullet", "-m", "script", "--speed", folder=script.parent)
    assert status == 0, errors
    assert "newtonsim.pybullet_compat ['--speed'] 1 0 __main__" in output


@pytest.mark.parametrize("how", ["option", "environment"])
def test_real_data_on_request(script, how):
    data = pytest.importorskip("pybullet_data")
    words = ["--data", "real"] if how == "option" else []
    environment = {} if how == "option" else {"NEWTONSIM_PYBULLET_DATA": "real"}
    status, output, errors = newtonsim("pybullet", *words, script, folder=script.parent, **environment)
    assert status == 0, errors
    assert Path(output.splitlines()[-1]) == Path(data.__file__).parent


def test_processes_of_a_script_find_newtonsim_too(tmp_path):
    path = tmp_path / "parent.py"
    path.write_text(
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import pybullet; print(pybullet.__name__)'], check=True)\n"
    )
    status, output, errors = newtonsim("pybullet", path, folder=tmp_path)
    assert (status, output.split()) == (0, ["newtonsim.pybullet_compat"]), errors


def test_errors_of_a_script(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text("import pybullet as p\n\ndef f():\n    p.getNumBodies()\n\nf()\n")
    status, _, errors = newtonsim("pybullet", path, folder=tmp_path)
    assert status == 1
    assert errors.startswith("Traceback")
    assert "line 4, in f" in errors
    assert "runpy" not in errors
    assert errors.rstrip().endswith("error: Not connected to physics server.")
    path.write_text("raise SystemExit(7)\n")
    assert newtonsim("pybullet", path, folder=tmp_path)[0] == 7


def test_missing_scripts_are_named(tmp_path):
    status, _, errors = newtonsim("pybullet", "nothing.py", folder=tmp_path)
    assert status == 2
    assert "no such script: nothing.py" in errors
    assert newtonsim("pybullet", folder=tmp_path)[0] == 2


def test_bullet_client():
    first, second = BulletClient(ours.DIRECT), BulletClient(connection_mode=ours.DIRECT)
    first.createMultiBody(1.0)
    assert (first.getNumBodies(), second.getNumBodies()) == (1, 0)
    assert first.GEOM_BOX == ours.GEOM_BOX
    assert first.num_worlds == 1
    number = first._client
    first.disconnect()
    assert not ours.isConnected(number)
    third = BulletClient(ours.DIRECT)  # takes the id of the first
    assert third._client == number
    with pytest.raises(ours.error, match="Not connected"):
        first.getNumBodies()
    number = second._client
    del second
    assert not ours.isConnected(number)
    third.disconnect()
    with pytest.raises(AttributeError, match="noSuchFunction"):
        BulletClient(ours.DIRECT).noSuchFunction()


def test_bullet_client_of_several_worlds():
    client = BulletClient(ours.DIRECT, num_worlds=3, device="cpu")
    assert client.num_worlds == 3
    client.disconnect()


def test_bullet_client_of_pybullet_utils(monkeypatch):
    """The original fills in the client id of what `inspect.isbuiltin` accepts."""
    original = pytest.importorskip("pybullet_utils.bullet_client")
    monkeypatch.setattr(original, "pybullet", ours)
    first, second = original.BulletClient(ours.DIRECT), original.BulletClient(ours.DIRECT)
    second.createMultiBody(1.0)
    assert (first.getNumBodies(), second.getNumBodies()) == (0, 1)
    assert first._client != second._client
    first.disconnect()
    second.disconnect()


PATHS = """
import subprocess, sys, sysconfig
sys.path.insert(0, sysconfig.get_path("purelib"))  # as modules of pybullet_envs do
import pybullet
print(pybullet.__name__, flush=True)
code = "import sys, sysconfig; sys.path.insert(0, sysconfig.get_path('purelib'))"
code += "; import pybullet; print(pybullet.__name__)"
subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_folders_in_front_of_the_path_do_not_bring_the_real_module_back(tmp_path):
    path = tmp_path / "paths.py"
    path.write_text(PATHS)
    status, output, errors = newtonsim("pybullet", path, folder=tmp_path)
    assert status == 0, errors
    assert output.split() == ["newtonsim.pybullet_compat"] * 2
