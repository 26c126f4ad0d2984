"""Worlds without a window, files of our own, and a cache that is thrown away."""

import pytest
from household import ARM, OFFSET, milk_carton

from newtonsim.bullet_world import BulletWorld


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, with a carton of milk in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ROS_PACKAGE_PATH", raising=False)
    monkeypatch.setattr(BulletWorld, "data_directory", [])
    monkeypatch.chdir(tmp_path)
    milk_carton().export(tmp_path / "milk.stl")
    return tmp_path


@pytest.fixture
def world():
    with BulletWorld("DIRECT") as made:
        yield made


@pytest.fixture
def arm(folder):
    (folder / "arm.urdf").write_text(ARM)
    return "arm.urdf"


@pytest.fixture
def offset(folder):
    (folder / "offset.urdf").write_text(OFFSET)
    return "offset.urdf"
