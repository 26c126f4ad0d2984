"""Modules under the names that scripts import: pybullet, pybullet_data and pybullet_utils.

The folder is put first on the path of imports, of this process and, by PYTHONPATH, of those it starts, so
that scripts and packages written for PyBullet find newtonsim. Of pybullet_utils only bullet_client is ours;
the rest, which is Python on top of `import pybullet`, is taken from the real package where it is installed.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = ("pybullet", "pybullet_data", "pybullet_utils")
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
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != folder]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *others])
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
