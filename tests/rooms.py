"""Where the source of the package lies, and what each file is called once installed."""

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


def module_name(path: pathlib.Path) -> str:
    """Return the installed name of a file: kernels/trees/crba.py is newtonsim.kernels.trees.crba."""
    parts = [ROOMS[path.parts[0]], *path.with_suffix("").parts[1:]]
    return ".".join(part for part in parts if part != "__init__")
