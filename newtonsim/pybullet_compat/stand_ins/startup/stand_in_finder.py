"""Finds our modules before all others, regardless of changes to sys.path; needs only Python itself."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path

FOLDER = str(Path(__file__).parents[1])
NAMES = ("pybullet", "pybullet_data", "pybullet_utils")


class StandInFinder:
    """Entry of sys.meta_path for the names that newtonsim takes."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of one of our modules, None for other names."""
        return PathFinder.find_spec(name, [FOLDER]) if name in NAMES else None


def install() -> None:
    """Ask the finder first, from now on."""
    if not any(getattr(entry, "__name__", "") == StandInFinder.__name__ for entry in sys.meta_path):
        sys.meta_path.insert(0, StandInFinder)


def start_process(folder: Path) -> None:
    """Install the finder, then do what the sitecustomize does that would have run without ours.

    Args:
        folder: Folder of our sitecustomize.
    """
    install()
    others = [path for path in sys.path if Path(path).resolve() != folder.resolve()]
    found = PathFinder.find_spec("sitecustomize", others)
    if found is not None and found.loader is not None:
        found.loader.exec_module(module_from_spec(found))
