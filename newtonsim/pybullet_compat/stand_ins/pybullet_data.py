"""The folder of models that scripts load by name."""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import newtonsim.pybullet_compat
from newtonsim.pybullet_compat.stand_ins import DATA_VARIABLE, FOLDER


def getDataPath() -> str:
    """Return the folder of our models, or of the real package's if the environment asks for them.

    Raises:
        ImportError: They are asked for and not installed.
    """
    if os.environ.get(DATA_VARIABLE, "own") != "real":
        return str(Path(newtonsim.pybullet_compat.__file__).parent / "data")
    folders = [path for path in sys.path if Path(path or ".").resolve() != FOLDER.resolve()]
    found = PathFinder.find_spec("pybullet_data", folders)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"{DATA_VARIABLE}=real: the package pybullet_data is not installed")
    return next(iter(found.submodule_search_locations))


__file__ = str(Path(getDataPath()) / "__init__.py")  # scripts take its folder for that of the models
