"""What kernels and device functions read and write, found in their source without importing it.

An access is a path: a parameter, and the fields that lead from it to an array, such as ("kin", "body_V").
Followed are local aliases (`a = view.field`), structs that are built inside, rows of arrays (`row = x[i]`),
and calls of other device functions, in C++ as in Python. What cannot be told apart counts as accessed: an
alias of one of two arrays is one of both.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rooms import parsed

Path = tuple[str, ...]
"""A parameter, and the fields below it."""


@dataclass(frozen=True)
class Site:
    """A line of a source file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Type:
    """What an annotation says: an array of so many dimensions, a struct, or a plain value.

    Attributes:
        dimensions: Dimensions of an array, 0 for anything else.
        struct: Name of the module and the struct, of an array's elements if it is one.
        by_reference: Whether a function may change the caller's value.
    """

    dimensions: int = 0
    struct: tuple[str, str] | None = None
    by_reference: bool = False


@dataclass
class Value:
    """What an expression may stand for: paths with their types, and fields assigned to a local struct."""

    paths: dict[Path, Type] = field(default_factory=dict)
    fields: dict[str, Value] = field(default_factory=dict)

    def merge(self, other: Value) -> bool:
        """Add what another value stands for; returns whether that was new."""
        new = not other.paths.keys() <= self.paths.keys()
        self.paths |= other.paths
        for name, value in other.fields.items():
            if name not in self.fields:
                self.fields[name] = Value()
                new = True
            new |= self.fields[name].merge(value)
        return new


@dataclass
class Function:
    """A kernel or device function.

    Attributes:
        module: Dotted name of its file.
        name: Its name.
        parameters: Names of the parameters and what they are.
        is_kernel: Whether it is launched.
        reads: Paths that are read, each with the first line that does.
        writes: Paths that are written, likewise: the line is that of the assignment, in whatever function.
        returned: Paths that the result may be an alias of.
    """

    module: str
    name: str
    parameters: dict[str, Type]
    is_kernel: bool
    reads: dict[Path, Site] = field(default_factory=dict)
    writes: dict[Path, Site] = field(default_factory=dict)
    returned: Value = field(default_factory=Value)

    @property
    def written(self) -> dict[str, Site]:
        """Parameters that are written or of which a field is, in the order of the signature."""
        found = {path[0]: site for path, site in reversed(self.writes.items())}
        return {name: found[name] for name in self.parameters if name in found}

    def mixed(self) -> list[str]:
        """Struct parameters of which some arrays are written and others only read."""
        written = {path for path in self.writes if len(path) > 1}
        only_read = {path[0] for path in self.reads if len(path) > 1 and path not in written}
        return [name for name in self.parameters if name in {path[0] for path in written} & only_read]


class Module:
    """Names of one source file."""

    def __init__(self, name: str, file: str, source: str):
        self.name, self.file = name, file
        self.tree = parsed(source)
        self.imported: dict[str, tuple[str, str | None]] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self.structs: dict[str, dict[str, ast.expr]] = {}
        self.constants: dict[str, ast.expr] = {}
        for node in self.tree.body:
            self._take(node)

    def _take(self, node: ast.stmt) -> None:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    self.imported[alias.asname or alias.name] = (module, alias.name)
            case ast.FunctionDef():
                self.functions[node.name] = node
            case ast.ClassDef():
                fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
                self.structs[node.name] = {n.target.id: n.annotation for n in fields}
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.constants[name] = value


class Sources:
    """Kernel files by module name, and what their functions access.

    Args:
        sources: Text of each file, by module name.
        files: Name of each file to report; the module name where there is none.
    """

    def __init__(self, sources: Mapping[str, str], files: Mapping[str, str] | None = None):
        files = files or {}
        self.modules = {name: Module(name, files.get(name, name), text) for name, text in sources.items()}
        self._found: dict[tuple[str, str], Function] = {}
        self._fields: dict[tuple[str, str], dict[str, Type]] = {}

    @classmethod
    @functools.cache
    def of_folder(cls, folder: pathlib.Path) -> Sources:
        """All files of the folder of kernels."""
        sources, files = {}, {}
        for path in sorted(folder.rglob("*.py")):
            parts = ["newtonsim", folder.name, *path.relative_to(folder).with_suffix("").parts]
            name = ".".join(part for part in parts if part != "__init__")
            sources[name] = path.read_text()
            files[name] = str(path.relative_to(folder.parent))
        return cls(sources, files)

    def kernels(self) -> list[Function]:
        """All kernels."""
        return [
            self.function(module.name, name)
            for module in self.modules.values()
            for name, node in module.functions.items()
            if "wp.kernel" in _decorators(node)
        ]

    def resolve(self, module: str, name: str) -> tuple[str, str] | None:
        """Where a name of a module is defined, through imports; None if that is not among the sources."""
        while module in self.modules:
            known = self.modules[module]
            if name in known.functions or name in known.structs or name in known.constants:
                return module, name
            if name not in known.imported:
                return None
            module, name = known.imported[name]
        return None

    def is_function(self, module: str, name: str) -> bool:
        """Whether a module defines a kernel or device function of that name."""
        node = self.modules[module].functions.get(name)
        return node is not None and any(d.startswith(("wp.kernel", "wp.func")) for d in _decorators(node))

    def function(self, module: str, name: str) -> Function:
        """A kernel or device function."""
        key = (module, name)
        if key not in self._found:
            node = self.modules[module].functions[name]
            types = {a.arg: self.type_of(module, a.annotation) for a in node.args.args}
            found = Function(module, name, types, "wp.kernel" in _decorators(node))
            self._found[key] = found
            if "wp.func_native" in _decorators(node):
                _follow_native(self, found, node)
            else:
                _Follower(self, found, node).run()
        return self._found[key]

    def type_of(self, module: str, annotation: ast.expr | None) -> Type:
        """Type of a parameter or a field."""
        match annotation:
            case ast.Subscript(value=ast.Attribute(attr="ref"), slice=inner):
                plain = self.type_of(module, inner)
                return Type(plain.dimensions, plain.struct, by_reference=True)
            case ast.Call(func=ast.Attribute(attr=name), keywords=keywords) if name.startswith("array"):
                given = {k.arg: k.value for k in keywords}
                dimensions = given["ndim"].value if "ndim" in given else int(name[5:-1] or 1)
                return Type(dimensions, self.type_of(module, given.get("dtype")).struct)
            case ast.Name(id="Any"):
                return Type(1)
            case ast.Name(id=name):
                found = self.resolve(module, name)
                if found is not None and found[1] in self.modules[found[0]].structs:
                    return Type(struct=found)
        return Type()

    def fields(self, struct: tuple[str, str]) -> dict[str, Type]:
        """Fields of a struct."""
        if struct not in self._fields:
            module, name = struct
            annotations = self.modules[module].structs[name]
            self._fields[struct] = {k: self.type_of(module, a) for k, a in annotations.items()}
        return self._fields[struct]

    def text(self, module: str, node: ast.expr) -> str:
        """Text of a string expression with named parts."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.BinOp(left=left, right=right, op=ast.Add()):
                return self.text(module, left) + self.text(module, right)
            case ast.Name(id=name) if found := self.resolve(module, name):
                return self.text(found[0], self.modules[found[0]].constants[found[1]])
        raise ValueError(f"no plain text: {ast.unparse(node)}")


def _decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}


_STORES = re.compile(r"wp\.(atomic_\w+|\w*store\w*)$")
"""Functions of Warp that write to their first argument."""


class _Follower:
    """Follows the paths of one Python function through its statements."""

    def __init__(self, sources: Sources, function: Function, node: ast.FunctionDef):
        self.sources, self.function, self.node = sources, function, node
        self.file = sources.modules[function.module].file
        self.names: dict[str, Value] = {n: Value({(n,): t}) for n, t in function.parameters.items()}
        self.changed = False

    def run(self) -> None:
        """Go over the statements until no new alias appears: loops carry them backwards."""
        while True:
            self.changed = False
            for statement in self.node.body:
                self._follow(statement)
            if not self.changed:
                return

    def _follow(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value)
                case ast.AugAssign(target=target):
                    self._write(target)
                    self._read(target)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value)
                case ast.Call():
                    self._call(node)
                case ast.Return(value=ast.expr() as value):
                    self.function.returned.merge(self._value(value))
                case ast.Subscript(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                    self._read(node)
                case ast.Name(ctx=ast.Load()):
                    self._read(node)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._alias(self.names.setdefault(name, Value()), self._value(value))
            case ast.Tuple(elts=targets):
                parts = value.elts if isinstance(value, ast.Tuple) else [value] * len(targets)
                for part, from_ in zip(targets, parts):
                    self._assign(part, from_)
            case _:
                owner = self._local_struct(target)
                if owner is not None:
                    self._alias(owner, self._value(value))
                self._write(target)

    def _alias(self, known: Value, new: Value) -> None:
        # a plain value is copied: only arrays and structs that hold arrays are followed
        kept = {path: t for path, t in new.paths.items() if t.dimensions or t.struct}
        self.changed |= known.merge(Value(kept, new.fields))

    def _local_struct(self, target: ast.expr) -> Value | None:
        """Field of a struct in a local variable that a target names, None if it is something else."""
        match target:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name not in self.function.parameters:
                return self.names.setdefault(name, Value()).fields.setdefault(attr, Value())
            case ast.Attribute(value=ast.Attribute() as inner, attr=attr):
                owner = self._local_struct(inner)
                return None if owner is None else owner.fields.setdefault(attr, Value())
        return None

    def _value(self, node: ast.expr) -> Value:
        """What an expression may be an alias of."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name, Value())
            case ast.Attribute(value=base, attr=attr):
                owner = self._value(base)
                return self._field(owner, attr) if owner.paths or owner.fields else owner
            case ast.Subscript(value=base, slice=index):
                count = len(index.elts) if isinstance(index, ast.Tuple) else 1
                found = self._value(base).paths.items()
                rows = {p: Type(t.dimensions - count, t.struct) for p, t in found if t.dimensions > count}
                return Value(rows)
            case ast.IfExp(body=a, orelse=b):
                return self._union([self._value(a), self._value(b)])
            case ast.Call(func=function, args=arguments):
                return self._result(function, arguments)
        return Value()

    def _field(self, owner: Value, name: str) -> Value:
        found = Value()
        for path, kind in owner.paths.items():
            if kind.struct is not None and not kind.dimensions:
                fields = self.sources.fields(kind.struct)
                if name in fields:
                    found.paths[(*path, name)] = fields[name]
        return self._union([found, owner.fields[name]]) if name in owner.fields else found

    def _result(self, function: ast.expr, arguments: list[ast.expr]) -> Value:
        if ast.unparse(function) == "wp.where":
            return self._union([self._value(a) for a in arguments[1:]])
        known = self._resolve(function)
        if known is None:
            return Value()
        module, name = known
        if name in self.sources.modules[module].structs:
            fields = self.sources.fields(known)
            return Value(fields={f: self._value(a) for f, a in zip(fields, arguments)})
        if not self.sources.is_function(module, name):
            return Value()
        called = self.sources.function(module, name)
        return self._substitute_value(called.returned, self._bound(called, arguments, []))

    def _substitute_value(self, value: Value, bound: dict[str, ast.expr]) -> Value:
        found = Value()
        for path in value.paths:
            if path[0] in bound:
                found.merge(self._at(self._value(bound[path[0]]), path[1:]))
        for name, inner in value.fields.items():
            found.merge(Value(fields={name: self._substitute_value(inner, bound)}))
        return found

    def _at(self, value: Value, fields: Path) -> Value:
        for name in fields:
            value = self._field(value, name)
        return value

    def _resolve(self, function: ast.expr) -> tuple[str, str] | None:
        module = self.function.module
        match function:
            case ast.Name(id=name):
                return self.sources.resolve(module, name)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                source = self.sources.modules[module].imported.get(owner)
                if source is not None and f"{source[0]}.{source[1]}" in self.sources.modules:
                    return self.sources.resolve(f"{source[0]}.{source[1]}", name)
        return None

    @staticmethod
    def _union(values: Iterable[Value]) -> Value:
        found = Value()
        for value in values:
            found.merge(value)
        return found

    @staticmethod
    def _bound(
        called: Function, arguments: list[ast.expr], keywords: list[ast.keyword]
    ) -> dict[str, ast.expr]:
        return dict(zip(called.parameters, arguments)) | {k.arg: k.value for k in keywords if k.arg}

    def _call(self, node: ast.Call) -> None:
        if _STORES.match(ast.unparse(node.func)):
            self._note(self._value(node.args[0]), self.function.writes, node.lineno)
            return
        known = self._resolve(node.func)
        if known is None or not self.sources.is_function(*known):
            return
        called = self.sources.function(*known)
        bound = self._bound(called, node.args, node.keywords)
        for path, site in called.writes.items():
            if path[0] not in bound:
                continue
            given, kind = bound[path[0]], called.parameters[path[0]]
            self._note_at(self._at(self._value(given), path[1:]), self.function.writes, site)
            if kind.by_reference and isinstance(given, ast.Subscript):
                self._note_at(self._array_of(given), self.function.writes, site)
        for path, site in called.reads.items():
            if path[0] in bound:
                self._note_at(self._at(self._value(bound[path[0]]), path[1:]), self.function.reads, site)

    def _array_of(self, target: ast.expr) -> Value:
        """Arrays in which an assignment to a target changes something."""
        match target:
            case ast.Subscript(value=base):
                arrays = {p: t for p, t in self._value(base).paths.items() if t.dimensions}
                return Value(arrays) if arrays else self._array_of(base)
            case ast.Attribute(value=base):
                return self._array_of(base)
        return Value()

    def _write(self, target: ast.expr) -> None:
        self._note(self._array_of(target), self.function.writes, target.lineno)
        match target:
            # the caller's own struct
            case ast.Attribute(value=base) | ast.Subscript(value=base):
                for path, kind in self._value(base).paths.items():
                    own = self.function.parameters[path[0]]
                    if own.by_reference and not kind.dimensions and isinstance(target, ast.Attribute):
                        site = Site(self.file, target.lineno)
                        self.function.writes.setdefault((*path, target.attr), site)

    def _read(self, node: ast.expr) -> None:
        if isinstance(node, ast.Subscript):
            self._note(self._array_of(node), self.function.reads, node.lineno)
            return
        values = self._value(node)
        plain = {p: t for p, t in values.paths.items() if not t.dimensions and t.struct is None}
        self._note(Value(plain), self.function.reads, node.lineno)

    def _note(self, value: Value, into: dict[Path, Site], line: int) -> None:
        self._note_at(value, into, Site(self.file, line))

    def _note_at(self, value: Value, into: dict[Path, Site], site: Site) -> None:
        for path, kind in value.paths.items():
            if into is self.function.writes and not kind.dimensions:
                # a value inside a struct: only what was passed by reference is the caller's
                if not self.function.parameters[path[0]].by_reference or kind.struct is not None:
                    continue
            if path not in into:
                self.changed = True
            into.setdefault(path, site)


_DATA = re.compile(r"(\w+(?:\.\w+)*)\.data\b")
_STORE = re.compile(r"(\w+(?:\.\w+)*)\.data\s*[-+*/]?=(?!=)")
_VIEW = re.compile(r"^\s*(?:\w+\s*\(\s*\)\s*)*(const\s+)?[\w:]+\s*[*&]+\s*\w+\s*=(?!=)(.*)$", re.DOTALL)


def _follow_native(sources: Sources, function: Function, node: ast.FunctionDef) -> None:
    """Find the accesses of a function in C++: it declares pointers to what it only reads as constant."""
    call = next(d for d in node.decorator_list if isinstance(d, ast.Call))
    text = sources.text(function.module, call.args[0] if call.args else call.keywords[0].value)
    site = Site(sources.modules[function.module].file, node.lineno)
    for statement in re.split(r"[;{}]", text):
        flat = _without(statement, r"\[[^\[\]]*\]")
        written = set(_STORE.findall(flat))
        if (view := _VIEW.match(statement)) is not None and not view.group(1):
            written |= set(_DATA.findall(_without(_without(view.group(2), r"\[[^\[\]]*\]"), r"\([^()]*\)")))
        for name in _DATA.findall(statement):
            path = tuple(name.split("."))
            if path[0] in function.parameters:
                function.reads.setdefault(path, site)
                if name in written:
                    function.writes.setdefault(path, site)


def _without(text: str, pattern: str) -> str:
    """Remove nested parts of a text, the innermost first."""
    while (shorter := re.sub(pattern, "", text)) != text:
        text = shorter
    return text
