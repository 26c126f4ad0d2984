"""Where the source of the package lies, and what each file is called once installed."""

import ast
import functools
import gc
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Folder at the top level -> name inside the installed package.
ROOMS = {
    "newtonsim": "newtonsim",
    "kernels": "newtonsim.kernels",
    "importers": "newtonsim.importers",
    "solvers": "newtonsim.solvers",
    "render": "newtonsim.render",
    "examples": "newtonsim.examples",
}
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "tools/build_backend.py")
"""What else a build of the package reads."""


def source_files() -> list[pathlib.Path]:
    """Return every Python file of the package, relative to the root."""
    return sorted(
        path.relative_to(ROOT)
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "__pycache__" not in path.parts
    )


def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a text, without the collector of cycles, which takes most of the time."""
    ran = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if ran:
            gc.enable()


@functools.cache
def syntax_tree(path: pathlib.Path) -> ast.Module:
    """Return the syntax tree of a file of the package, which all checks share and none changes.

    Args:
        path: The file, relative to the root.
    """
    return parsed((ROOT / path).read_text())


def module_name(path: pathlib.Path) -> str:
    """Return the installed name of a file: kernels/trees/crba.py is newtonsim.kernels.trees.crba."""
    parts = [ROOMS[path.parts[0]], *path.with_suffix("").parts[1:]]
    return ".".join(part for part in parts if part != "__init__")
