"""What is installed, and how commands are completed."""

import importlib.metadata
import shutil
import subprocess

import pytest

from newtonsim.cli import doctor
from newtonsim.cli.main import main
from newtonsim.runtime import extras as extras_module


def test_every_extra_of_a_user_is_told():
    extras = set(importlib.metadata.metadata("newtonsim").get_all("Provides-Extra"))
    assert set(doctor._EXTRAS) == extras - {"test", "bench", "docs"}


def test_an_extra_that_names_others_asks_for_their_packages():
    assert {"rsl-rl-lib", "gymnasium", "torch", "imageio"} <= set(extras_module._packages("learn"))


def test_what_is_missing_is_told_with_what_installs_it(capsys, monkeypatch):
    monkeypatch.setattr(extras_module, "_installed", lambda package: package != "viser")
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "missing" in line] == [
        next(line for line in lines if line.startswith("view "))
    ]
    assert any("pip install 'newtonsim[view]'" in line for line in lines)
    assert any(line.startswith("warp-lang") for line in lines)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_is_a_script_of_the_shell(capsys, shell):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "pybullet-server" in script
    assert "--snapshot" in script
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=script, text=True, timeout=60).returncode == 0
