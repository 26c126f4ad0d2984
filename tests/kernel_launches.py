"""Launches of kernels in host code: which kernel, and which parameters are named as read and as written.

Found in the source without importing it. A launch is a call with `reads` or `writes`, of a launcher, of
`compilation.launch`, or of a function that hands a parameter named `kernel` on to one of these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernel_writes import Function, Sources
from rooms import parsed

Names = frozenset[str]
REST = "**"
"""Stands for the names that a function which hands a kernel on is given."""


@dataclass(frozen=True)
class Launch:
    """A call that launches.

    Attributes:
        where: File and line.
        kernels: Kernels that it may launch; empty if that cannot be told.
        reads: Names of the arguments passed as read, one set for each way that they may be put together; None
            if that cannot be told.
        writes: Likewise those passed as written.
        added: Names that the launcher adds.
    """

    where: str
    kernels: tuple[Function, ...]
    reads: tuple[Names, ...] | None
    writes: tuple[Names, ...] | None
    added: Names

    def complaints(self) -> Iterator[str]:
        """What is wrong with it, a line for each fault."""
        if not self.kernels:
            yield f"{self.where}: the kernel cannot be followed"
        elif self.reads is None or self.writes is None:
            yield f"{self.where}: the names of the arguments cannot be followed"
        else:
            for kernel in self.kernels:
                ways = [list(self._faults(kernel, r, w)) for r in self.reads for w in self.writes]
                yield from min(ways, key=len)

    def _faults(self, kernel: Function, reads: Names, writes: Names) -> Iterator[str]:
        at = f"{self.where}: {kernel.name}"
        for name in kernel.parameters:
            if name not in reads | writes | self.added:
                yield f"{at}: {name!r} is missing"
        for name in sorted((reads | writes) - kernel.parameters.keys() | (reads & writes)):
            yield f"{at}: {name!r} is unknown or given twice"
        for name, site in kernel.written.items():
            if name in reads:
                yield f"{at}: {name!r} is passed as read and written in {site}"
        for name in sorted(writes & kernel.parameters.keys() - kernel.written.keys()):
            yield f"{at}: {name!r} is passed as written and only read"


class HostFile:
    """A file of host code.

    Args:
        name: Its name, to report.
        source: Its text.
        kernels: The kernels.
    """

    def __init__(self, name: str, source: str, kernels: Sources):
        self.name, self.kernels = name, kernels
        self.tree = parsed(source)
        self._owner = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self._imports: dict[str, list[tuple[str, str]]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self._imports.setdefault(alias.asname or alias.name, []).append((node.module, alias.name))

    def forwarders(self) -> dict[str, ast.FunctionDef]:
        """Functions that hand a kernel and named arguments on, by name."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                names = _parameters(node)
                if "kernel" in names and names & {"reads", "writes"}:
                    found[node.name] = node
        return found

    def launches(self, forwarders: Mapping[str, tuple[HostFile, ast.FunctionDef]]) -> list[Launch]:
        """All launches.

        Args:
            forwarders: Functions of all files that hand kernels on.
        """
        found = []
        for call in self._calls(self.tree):
            if not call.args or self._is_handed_on(call):
                continue
            kernels = tuple(self._kernels(call.args[0], call))
            found.append(self._launch(call, kernels, forwarders))
        return found

    def positional(self) -> list[str]:
        """Launches of kernels without names of their arguments, as file and line."""
        return [
            f"{self.name}:{call.lineno}: {ast.unparse(call.func)} names no arguments"
            for call in ast.walk(self.tree)
            if isinstance(call, ast.Call) and call.args and not {"reads", "writes"} & _keywords(call)
            if any(k.is_kernel for k in self._named(call.args[0]))
        ]

    def _launch(
        self,
        call: ast.Call,
        kernels: tuple[Function, ...],
        forwarders: Mapping[str, tuple[HostFile, ast.FunctionDef]],
    ) -> Launch:
        reads, writes = (self._names(_keyword(call, word), call) for word in ("reads", "writes"))
        added = frozenset(() if ast.unparse(call.func) == "compilation.launch" else (_first_argument(call),))
        # a function that hands on is called as a method
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in forwarders:
            file, function = forwarders[name]
            inner = next(c for c in file._calls(function) if file._is_handed_on(c))
            around = file._launch(inner, kernels, {k: v for k, v in forwarders.items() if k != name})
            reads, writes = _within(around.reads, reads), _within(around.writes, writes)
            added = around.added
        return Launch(f"{self.name}:{call.lineno}", kernels, reads, writes, added)

    @staticmethod
    def _calls(tree: ast.AST) -> list[ast.Call]:
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        return [call for call in calls if {"reads", "writes"} & _keywords(call)]

    def _function_of(self, node: ast.AST) -> ast.FunctionDef | ast.Module:
        while not isinstance(node, ast.FunctionDef | ast.Module):
            node = self._owner[node]
        return node

    def _is_handed_on(self, call: ast.Call) -> bool:
        """Whether a call hands on the kernel that its function was given."""
        function = self._function_of(call)
        named = call.args and isinstance(call.args[0], ast.Name) and call.args[0].id == "kernel"
        return bool(named) and isinstance(function, ast.FunctionDef) and "kernel" in _parameters(function)

    def _named(self, node: ast.expr) -> Iterator[Function]:
        """Kernels and device functions that a name or `module.name` stands for."""
        match node:
            case ast.Name(id=name):
                found = [self._resolved(module, source) for module, source in self._imports.get(name, [])]
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                modules = [f"{module}.{source}" for module, source in self._imports.get(owner, [])]
                found = [self._resolved(module, name) for module in modules]
            case _:
                found = []
        yield from (function for function in found if function is not None)

    def _resolved(self, module: str, name: str) -> Function | None:
        found = self.kernels.resolve(module, name) if module in self.kernels.modules else None
        return self.kernels.function(*found) if found and self.kernels.is_function(*found) else None

    def _kernels(self, node: ast.expr, call: ast.AST) -> Iterator[Function]:
        """Kernels that an expression may stand for."""
        yield from self._named(node)
        match node:
            case ast.IfExp(body=a, orelse=b):
                parts = [a, b]
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                pass
            case ast.BinOp(left=left, op=ast.Mult()):
                parts = [left]
            case ast.Call(func=ast.Name(id=name)):
                parts = [r for r in self._returns(name) if not isinstance(r, ast.Call)]
            case ast.Name(id=name) if name not in self._imports:
                parts = self._values(name, self._function_of(call))
            case _:
                parts = []
        for part in parts:
            yield from self._kernels(part, call)

    def _values(self, name: str, function: ast.AST) -> list[ast.expr]:
        """What a local name, or `self.name` in the whole file, is assigned or runs over."""
        scope = self.tree if name.startswith("self.") else function
        found = []
        for node in ast.walk(scope):
            match node:
                case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
                    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                        found += [v for t, v in zip(target.elts, value.elts) if ast.unparse(t) == name]
                    elif ast.unparse(target) == name and value is not None:
                        found.append(value)
                case ast.For(target=target, iter=value) if ast.unparse(target) == name:
                    found.append(value)
        return found

    def _returns(self, name: str) -> list[ast.expr]:
        """What the functions and methods of that name in the file return."""
        functions = [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef) and n.name == name]
        returns = [n for f in functions for n in ast.walk(f) if isinstance(n, ast.Return)]
        return [node.value for node in returns if node.value is not None]

    def _names(self, node: ast.expr | None, call: ast.AST) -> tuple[Names, ...] | None:
        """Names in a dictionary, for each way that it may be put together; None if that cannot be told."""
        match node:
            case None:
                return (frozenset(),)
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
                return self._joined([(k.arg, k.value) for k in keywords], call)
            case ast.Dict(keys=keys, values=values):
                named = [(None if k is None else str(ast.literal_eval(k)), v) for k, v in zip(keys, values)]
                return self._joined(named, call)
            case ast.IfExp(body=a, orelse=b):
                return self._any([a, b], call)
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
                return self._any(self._returns(name), call)
            case ast.Name() | ast.Attribute():
                name, function = ast.unparse(node), self._function_of(call)
                values = self._values(name, function)
                given = isinstance(function, ast.FunctionDef) and name in _parameters(function)
                own = [v for v in values if v is not node and not any(n is node for n in ast.walk(v))]
                if given and (not own or any(n is node for v in values for n in ast.walk(v))):
                    return (frozenset({REST}),)
                return self._any(own, call)
        return None

    def _any(self, nodes: list[ast.expr], call: ast.AST) -> tuple[Names, ...] | None:
        ways = [self._names(node, call) for node in nodes]
        return None if not ways or None in ways else tuple(n for way in ways for n in way)

    def _joined(self, named: list[tuple[str | None, ast.expr]], call: ast.AST) -> tuple[Names, ...] | None:
        ways: tuple[Names, ...] = (frozenset(),)
        for name, value in named:
            more = (frozenset({name}),) if name is not None else self._names(value, call)
            if more is None:
                return None
            ways = tuple(a | b for a in ways for b in more)
        return ways


def _first_argument(call: ast.Call) -> str:
    """Name of what the launcher adds to the arguments of a launch, by the kind of index."""
    kinds = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
    for ending, name in ((" team", "teams"), (" span", "span")):
        if any(kind.endswith(ending) for kind in kinds):
            return name
    return "first"


def _keywords(call: ast.Call) -> set[str]:
    return {keyword.arg for keyword in call.keywords if keyword.arg}


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _parameters(function: ast.FunctionDef) -> set[str]:
    arguments = function.args
    return {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _within(around: tuple[Names, ...] | None, inner: tuple[Names, ...] | None) -> tuple[Names, ...] | None:
    """Names that a function hands on together with those that it is given."""
    if around is None or inner is None:
        return None
    return tuple((a - {REST}) | (b if REST in a else frozenset()) for a in around for b in inner)
