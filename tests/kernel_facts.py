"""What the head of a kernel file says and `docs/kernels.md` lists, found in imports and sources.

The head is the docstring of the file. It ends with four paragraphs, the first of which is in the words of
whoever wrote it; `facts` gives the others:

    Stage: smooth dynamics, bias forces
    Called by: newtonsim/runtime/launcher.py, solvers/featherstone/smooth.py
    Reads: BodyView, KinematicsView, TreeView, gravity
    Writes: body_F, tau

Called by: files that import a kernel or a device function of it; if there are many, folders in their place.
Reads and Writes: structs by their type and other arrays by their parameter, of all kernels of the file; of
all functions if it has no kernel. What a kernel writes and reads back counts as written only. A file of
structs alone says who uses it.
"""

import ast
import functools
import pathlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from import_graph import sources as package_sources
from kernel_writes import Function, Path, Sources, Type
from rooms import ROOMS, ROOT, module_name, parsed, source_files

KERNELS = Sources.of_folder(ROOT / "kernels")
MOST_FILES = 6
"""Callers beyond which a head names folders."""
MOST_ARRAYS = 8
"""Arrays beside structs beyond which a head counts them."""


def kernel_files() -> list[pathlib.Path]:
    """Files below `kernels/` that define anything, relative to the root."""
    return [p for p in source_files() if p.parts[0] == "kernels" and p.name != "__init__.py"]


def functions_of(path: pathlib.Path) -> list[Function]:
    """Kernels and device functions of a file."""
    module = module_name(path)
    names = KERNELS.modules[module].functions
    return [KERNELS.function(module, name) for name in names if KERNELS.is_function(module, name)]


def kernels_of(path: pathlib.Path) -> list[str]:
    """Names of the kernels of a file."""
    return [function.name for function in functions_of(path) if function.is_kernel]


@dataclass(frozen=True)
class Imports:
    """What a file imports.

    Attributes:
        taken: Names after `from module import`, each as (module, name).
        aliases: The same by what the file calls them.
        attributes: Attributes of plain names, each as (name, attribute).
    """

    taken: set[tuple[str, str]]
    aliases: dict[str, tuple[str, str]]
    attributes: set[tuple[str, str]]

    @classmethod
    def of(cls, tree: ast.Module) -> "Imports":
        """Find them all, also those inside functions."""
        found = cls(set(), {}, set())
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=str(module), names=names, level=0):
                    for alias in names:
                        found.taken.add((module, alias.name))
                        found.aliases[alias.asname or alias.name] = (module, alias.name)
                case ast.Attribute(value=ast.Name(id=owner), attr=name):
                    found.attributes.add((owner, name))
        return found

    def kernel_names(self) -> Iterator[tuple[str, str]]:
        """Names of kernel files, imported or taken from an imported file, each as (module, name)."""
        yield from filter(None, (KERNELS.resolve(*place) for place in self.taken))
        for owner, name in self.attributes:
            module = ".".join(self.aliases.get(owner, ()))
            if found := KERNELS.resolve(module, name):
                yield found

    def host_modules(self) -> Iterator[str]:
        """Modules of host code that names are taken from."""
        for owner, name in self.taken | {place for place in self.attributes if place[0] == "newtonsim"}:
            if module := package_sources().defining_module(owner, name):
                yield module


@functools.cache
def imports() -> dict[pathlib.Path, Imports]:
    """What each file of the package imports, and each test of its behaviour."""
    package = package_sources().trees
    found = {path: Imports.of(package[module_name(path)]) for path in source_files()}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.parent.name != "repo":
            found[path.relative_to(ROOT)] = Imports.of(parsed(path.read_text()))
    return found


@functools.cache
def importers() -> dict[tuple[str, str], set[pathlib.Path]]:
    """Files that import a name of a kernel file, by (module, name)."""
    found: dict[tuple[str, str], set[pathlib.Path]] = {}
    for path, imported in imports().items():
        for name in imported.kernel_names():
            found.setdefault(name, set()).add(path)
    return found


@functools.cache
def users(path: pathlib.Path) -> set[pathlib.Path]:
    """Files that import a kernel or a device function of a file; any name of a file that has neither."""
    module = module_name(path)
    names = {f.name for f in functions_of(path)} or set(KERNELS.modules[module].structs)
    return set().union(*(importers().get((module, name), set()) for name in names)) - {path}


def callers(path: pathlib.Path) -> set[pathlib.Path]:
    """`users` without tests."""
    return {user for user in users(path) if user.parts[0] in ROOMS}


def named(files: Iterable[pathlib.Path]) -> list[str]:
    """Names of files from the root, or of their folders if there are many; host code first."""
    files = sorted(files, key=lambda p: (p.parts[0] == "kernels", str(p)))
    if len(files) <= MOST_FILES:
        return [str(p) for p in files]
    folders = [p.parent for p in files]
    return list(dict.fromkeys(str(p) if folders.count(p.parent) == 1 else f"{p.parent}/" for p in files))


def accessed(functions: Iterable[Function]) -> tuple[list[str], list[str]]:
    """Structs and arrays that functions read, and those that they write."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for function in functions:
        for path in function.reads.keys() - function.writes.keys():
            if _is_array(function, path) or (function.is_kernel and len(path) > 1):
                reads[_owner(function, path)] = None
        for path in function.writes:
            if _is_array(function, path):
                writes[_owner(function, path)] = None
    return sorted(reads, key=_structs_first), sorted(writes, key=_structs_first)


def _structs_first(name: str) -> tuple[bool, str]:
    return not name[0].isupper(), name


def _owner(function: Function, path: Path) -> str:
    struct = function.parameters[path[0]].struct
    return struct[1] if struct else path[0]


def _is_array(function: Function, path: Path) -> bool:
    kind = function.parameters[path[0]]
    for name in path[1:]:
        kind = KERNELS.fields(kind.struct).get(name, Type()) if kind.struct else Type()
    return kind.dimensions > 0


def _listed(names: list[str], otherwise: str) -> str:
    structs = [name for name in names if name[0].isupper()]
    arrays = names[len(structs) :]
    if len(arrays) > MOST_ARRAYS:
        arrays = [f"{len(arrays)} arrays"]
    return ", ".join([*structs, *arrays]) or otherwise


def facts(path: pathlib.Path) -> dict[str, str]:
    """What the head of a kernel file says after its stage, by the words before the colon."""
    functions = functions_of(path)
    used_by = ", ".join(named(callers(path)))
    if not functions:
        return {"Used by": used_by}
    kernels = [function for function in functions if function.is_kernel]
    reads, writes = accessed(kernels or functions)
    return {
        "Called by": used_by,
        "Reads": _listed(reads, "its arguments"),
        "Writes": _listed(writes, "nothing, its functions return what they find"),
    }


def tests_of(path: pathlib.Path) -> set[pathlib.Path]:
    """Tests that import a kernel or a device function of a file."""
    return {user for user in users(path) if user.parts[0] == "tests"}


def tests_of_callers(path: pathlib.Path) -> set[pathlib.Path]:
    """Tests that import what calls a file; where nothing tests that, what imports those in turn."""
    seen, level = {path}, callers(path)
    while level:
        found = set().union(*(_importers(p) for p in level))
        if tests := {p for p in found if p.parts[0] == "tests"}:
            return tests
        seen |= level
        level = {p for p in found if p.parts[0] in ROOMS} - seen
    return set()


def _importers(path: pathlib.Path) -> set[pathlib.Path]:
    return users(path) if path.parts[0] == "kernels" else _host_importers().get(path, set())


@functools.cache
def _host_importers() -> dict[pathlib.Path, set[pathlib.Path]]:
    """Files that import a file of host code."""
    files = {module_name(path): path for path in source_files()}
    found: dict[pathlib.Path, set[pathlib.Path]] = {}
    for path, imported in imports().items():
        for module in imported.host_modules():
            if module in files:
                found.setdefault(files[module], set()).add(path)
    return found
