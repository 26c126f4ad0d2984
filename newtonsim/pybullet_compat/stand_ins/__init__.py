"""Modules under the names that scripts import: pybullet, pybullet_data and pybullet_utils.

A finder in front of all others gives them to this process and, by PYTHONPATH and a sitecustomize, to those
that it starts, so that scripts and packages written for PyBullet find newtonsim even if they put folders in
front of sys.path, as pybullet_envs does. Of pybullet_utils only bullet_client is ours;
the rest, which is Python on top of `import pybullet`, is taken from the real package where it is installed.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from newtonsim.pybullet_compat.stand_ins.startup import stand_in_finder
from newtonsim.pybullet_compat.stand_ins.startup.stand_in_finder import NAMES

FOLDER = Path(__file__).parent
DATA_VARIABLE = "NEWTONSIM_PYBULLET_DATA"
"""Environment variable: `real` for the data of the real package, `own` (the default) for ours."""


def install(data: str | None = None) -> None:
    """Let `import pybullet`, `import pybullet_data` and `import pybullet_utils` find newtonsim.

    Args:
        data: `own` or `real`, the models that pybullet_data offers; None leaves it to the environment.

    Raises:
        ImportError: One of the modules was imported before.
    """
    folder = str(FOLDER)
    for name in NAMES:
        file = str(getattr(sys.modules.get(name), "__file__", folder))
        if name in sys.modules and not file.startswith(str(FOLDER.parent)):
            raise ImportError(f"{name} was imported from {file} before newtonsim could take its place")
    if data is not None:
        os.environ[DATA_VARIABLE] = data
    folders = [str(FOLDER / "startup"), folder]
    others = [
        path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in (*folders, "")
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *others])
    stand_in_finder.install()
    importlib.invalidate_caches()
