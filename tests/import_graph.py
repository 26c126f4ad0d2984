"""Who imports whom among the files of the package, read from the sources without importing anything.

Every import counts, also those for annotations alone and those inside functions. A name that the `__init__`
of a folder hands on counts as imported from the file that defines it; an `__init__` that only hands names on
is no file of the graph.
"""

import ast
import copy
import functools
import gc
from collections.abc import Iterable, Mapping

from rooms import module_name, source_files, syntax_tree

Graph = dict[str, set[str]]


class Sources:
    """The modules of the package as syntax trees.

    Args:
        trees: Syntax trees by module name.
        packages: Names of the modules that are an `__init__`.
    """

    def __init__(self, trees: Mapping[str, ast.Module], packages: Iterable[str]):
        self.trees = dict(trees)
        self.packages = set(packages)
        self.handed_on = {package: _names_handed_on(self.trees[package]) for package in self.packages}
        self._imports: dict[str, dict[str, int]] = {}

    def is_face(self, module: str) -> bool:
        """Whether a module is an `__init__` that defines nothing of its own but hooks of the language."""
        if module not in self.packages:
            return False
        defined = [n for n in self.trees[module].body if isinstance(n, ast.ClassDef | ast.FunctionDef)]
        return all(isinstance(n, ast.FunctionDef) and n.name.startswith("__") for n in defined)

    def defining_module(self, module: str, name: str) -> str | None:
        """Return the module that `from module import name` takes its name from; None if it is not ours."""
        if f"{module}.{name}" in self.trees:
            return f"{module}.{name}"
        if name in self.handed_on.get(module, {}):
            source = self.handed_on[module][name]
            return self.defining_module(*source) if source != (module, name) else module
        return module if module in self.trees else None

    def with_tree(self, module: str, tree: ast.Module) -> "Sources":
        """Return the same modules, one of them with another content."""
        changed = copy.copy(self)
        changed.trees = {**self.trees, module: tree}
        if module in self.packages:
            changed.handed_on = {**self.handed_on, module: _names_handed_on(tree)}
        changed._imports = {name: found for name, found in self._imports.items() if name != module}
        return changed

    def imports_of(self, module: str) -> dict[str, int]:
        """Return the modules that a module imports, each with the line of its first import."""
        if module not in self._imports:
            self._imports[module] = self._find_imports(module)
        return self._imports[module]

    def _find_imports(self, module: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for node in ast.walk(self.trees[module]):
            if isinstance(node, ast.Import):
                targets = [alias.name if alias.name in self.trees else None for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                targets = [self.defining_module(node.module, alias.name) for alias in node.names]
            else:
                continue
            for target in targets:
                if target is not None and target != module and not self.is_face(target):
                    found.setdefault(target, node.lineno)
        return found

    def graph(self) -> Graph:
        """Return what each module imports, without the faces."""
        return {m: set(self.imports_of(m)) for m in self.trees if not self.is_face(m)}

    def room(self, module: str) -> str:
        """Return the folder that a module lies in, as a dotted name; files of the top folder are rooms."""
        folder = module if module in self.packages else module.rpartition(".")[0]
        return folder if "." in folder else module


@functools.cache
def sources() -> Sources:
    """Return the modules of this checkout."""
    paths = {module_name(path): path for path in source_files()}
    trees = {module: syntax_tree(path) for module, path in paths.items()}
    gc.freeze()  # they stay to the end: the collector of cycles would walk over them again and again
    return Sources(trees, [module for module, path in paths.items() if path.name == "__init__.py"])


def arrows(modules: Sources) -> dict[tuple[str, str], list[str]]:
    """Return the imports between rooms: (room, room that it imports) -> lines "module:line imports
    module"."""
    found: dict[tuple[str, str], list[str]] = {}
    for module in modules.graph():
        for target, line in modules.imports_of(module).items():
            ends = modules.room(module), modules.room(target)
            if ends[0] != ends[1]:
                found.setdefault(ends, []).append(f"{module}:{line} imports {target}")
    return found


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one node (Tarjan, 1972), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            place = stack.index(node)
            component = stack[place:]
            del stack[place:]
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def _names_handed_on(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Return name -> (module, name there) of what an `__init__` imports, at once or when it is asked for."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({alias.asname or alias.name: (node.module, alias.name) for alias in node.names})
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target).startswith("_"):  # the table of a lazy __getattr__
                pairs = zip(node.value.keys, node.value.values)
                texts = [(k.value, v.value) for k, v in pairs if _is_text(k) and _is_text(v)]
                names.update({name: (module, name) for name, module in texts})
    return names


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
