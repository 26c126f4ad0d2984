"""Finds our modules before all others, whatever packages do to sys.path; needs nothing but Python itself."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
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
