"""PyBullet's module on newtonsim: `import newtonsim.pybullet_compat as p` for `import pybullet as p`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from newtonsim.pybullet_compat.api import functions as _functions
from newtonsim.pybullet_compat.connections import connect as _connect
from newtonsim.pybullet_compat.surface import constants as _constants
from newtonsim.pybullet_compat.surface.errors import error as error

if _TYPE_CHECKING:
    from typing import Any as _Any

    from newtonsim.pybullet_compat.surface.constants import *  # noqa: F403

    def __getattr__(name: str) -> _Any:
        """Return a function of the module; they are made from tables, which no type checker reads."""
        ...


_CONSTANTS = {name: value for name, value in vars(_constants).items() if not name.startswith("_")}
_FUNCTIONS = dict(sorted({**_functions.FUNCTIONS, "connect": _functions.Function(_connect)}.items()))
globals().update(_CONSTANTS)
globals().update(_FUNCTIONS)

__all__ = [*_CONSTANTS, *_FUNCTIONS, "error"]  # noqa: PLE0604 (all are strings)
