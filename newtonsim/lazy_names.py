"""Names of a package that are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any


def lazy_names(
    package: dict[str, Any],
    names: Mapping[str, str],
    modules: Collection[str] = (),
    hidden: Collection[str] = (),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: Its `globals()`, which keep what was imported.
        names: Module of each name.
        modules: Modules of the package that are also its names.
        hidden: Likewise, but not listed.
    """
    own = package["__name__"]

    def get(name: str) -> Any:
        """Import a name when it is first used."""
        if name in names:
            value = getattr(importlib.import_module(names[name]), name)
        elif name in modules or name in hidden:
            value = importlib.import_module(f"{own}.{name}")
        else:
            raise AttributeError(f"module {own!r} has no attribute {name!r}")
        package[name] = value
        return value

    def listed() -> list[str]:
        return sorted({*package, *names, *modules})

    return get, listed
