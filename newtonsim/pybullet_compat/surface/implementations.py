"""From the name of a function of the API to the function that does the work."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from newtonsim.pybullet_compat.surface.signatures import MODULES

PACKAGE = "newtonsim.pybullet_compat"


def implementation(name: str) -> Callable:
    """Return the function that does the work of a function of the API; its module is imported if need be.

    Args:
        name: Name of the function.
    """
    return getattr(importlib.import_module(f"{PACKAGE}.{MODULES[name]}"), name)
