"""Imported by Python when a process starts; lets it find our modules, then does what the next one does."""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

import stand_in_finder

stand_in_finder.install()
here = Path(__file__).parent
other = PathFinder.find_spec("sitecustomize", [path for path in sys.path if Path(path).resolve() != here])
if other is not None and other.loader is not None:
    other.loader.exec_module(module_from_spec(other))
