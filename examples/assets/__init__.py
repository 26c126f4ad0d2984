"""Robot models that ship with newtonsim."""

import importlib.resources
import pathlib


def asset_path(name: str) -> pathlib.Path:
    """Return the path of a robot model that ships with newtonsim.

    Args:
        name: File name in ``examples/assets``, such as ``"quadruped.xml"``.

    Raises:
        FileNotFoundError: There is no such model; the message lists those that exist.

    Example:
        >>> asset_path("ant.xml").name
        'ant.xml'
    """
    folder = pathlib.Path(str(importlib.resources.files("newtonsim.examples.assets")))
    path = folder / name
    if not path.is_file():
        known = ", ".join(sorted(p.name for p in folder.iterdir() if p.suffix in (".xml", ".urdf")))
        raise FileNotFoundError(f"no model {name!r}; there are {known}")
    return path
