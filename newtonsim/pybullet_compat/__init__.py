"""PyBullet's module on newtonsim: `import newtonsim.pybullet_compat as p` for `import pybullet as p`."""

from newtonsim.pybullet_compat.api import functions as _functions
from newtonsim.pybullet_compat.surface import constants as _constants
from newtonsim.pybullet_compat.surface.errors import error as error

_CONSTANTS = {name: value for name, value in vars(_constants).items() if not name.startswith("_")}
globals().update(_CONSTANTS)
globals().update(_functions.FUNCTIONS)

__all__ = [*_CONSTANTS, *_functions.FUNCTIONS, "error"]  # noqa: PLE0604 (all are strings)
