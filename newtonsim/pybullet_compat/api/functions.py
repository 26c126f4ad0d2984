"""The functions of the module: built from the table of signatures, looking like functions written in C.

Packages such as pybullet_utils give a physicsClientId to whatever `inspect.isbuiltin` accepts, and to nothing
else, so `Function` says that it is a builtin. Each function is a few generated lines that check single
numbers and strings, look up the client, and call the function of the same name in the module that the table
names. Modules are imported when one of their functions is first called.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from newtonsim.pybullet_compat.clients import table
from newtonsim.pybullet_compat.surface import maths
from newtonsim.pybullet_compat.surface.arguments import (
    INT_MAX,
    INT_MIN,
    NOT_NUMBERS,
    SEQUENCES,
    SIZES,
    Size,
    as_float,
    as_int,
    as_str,
    has_axes,
    sized_all,
)
from newtonsim.pybullet_compat.surface.errors import error, not_connected, refused
from newtonsim.pybullet_compat.surface.implementations import PACKAGE, implementation
from newtonsim.pybullet_compat.surface.signatures import (
    ALIASES,
    BY_WORLD,
    GETTERS,
    PER_WORLD,
    POSITIONAL,
    SETTERS,
    SIGNATURES,
    Parameter,
    Signature,
)
from newtonsim.pybullet_compat.world.world_choice import Worlds, chosen_worlds, of_worlds

MISSING = object()
REFUSALS = (ValueError, IndexError, OverflowError)
"""What engine and NumPy raise for values that a function has not looked at: `error` to scripts."""
_DIRECT = {"clients.table": table, "surface.maths": maths}
_CHECKS = {
    "i": f"""if ({{0}}.__class__ is not int or not {INT_MIN} <= {{0}} <= {INT_MAX}):
        {{0}} = as_int({{0}}, client, "{{0}}")""",
    "d": """if ({0}.__class__ is not float or {0} > {4:g} or not {0} >= -{4:g}):
        {0} = as_float({0}, client, "{0}", {2}, "{3}")""",
    "s": "if {0}.__class__ is not str or '\\0' in {0}: {0} = as_str({0}, {1})",
}


class Function(functools.partial):
    # Its own __doc__ is that of the function it calls. There is no state of its own, so that
    # functools.partial(function, physicsClientId=...) calls the generated function directly.

    __slots__ = ()

    @property
    def __class__(self) -> type:
        return types.BuiltinFunctionType

    @property
    def __name__(self) -> str:
        return self.func.__name__

    @property
    def __module__(self) -> str:
        return PACKAGE

    @property
    def __doc__(self) -> str | None:
        return implementation(self.func.__name__).__doc__

    @property
    def __signature__(self) -> inspect.Signature:
        return signature(self.func.__name__)

    def __getattr__(self, name: str) -> str:
        if name == "__qualname__":  # classes allow no property of this name
            return self.func.__name__
        raise AttributeError(f"'{self!r}' has no attribute '{name}'")

    def __repr__(self) -> str:
        return f"<built-in function {self.func.__name__}>"

    def __reduce__(self) -> str:
        return self.func.__name__


def signature(name: str) -> inspect.Signature:
    """Return the parameters of a function of the API as `inspect` describes them.

    Args:
        name: Name of the function.
    """
    if name == "connect":
        return inspect.signature(implementation(name))
    if name in POSITIONAL:
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [
        inspect.Parameter(p.name, kind)
        if p.default is None
        else inspect.Parameter(p.name, kind, default=eval(p.default))
        for p in SIGNATURES[name].parameters
    ]
    return inspect.Signature([*found, inspect.Parameter("physicsClientId", kind, default=0)])


def _check(function: str, parameter: Parameter, position: int) -> list[str]:
    """Return the line that checks the type of an argument."""
    if parameter.kind == "O":
        return _check_numbers(parameter.name, parameter.size) if parameter.size else []
    differs = parameter.name in PER_WORLD.get(function, ())
    largest = SIZES[parameter.size or "number"]
    line = _CHECKS[parameter.kind].format(parameter.name, position, differs, parameter.size, largest)
    if parameter.default == "None":  # which is equal to itself
        line = line.replace("if ", f"if {parameter.name} is not None and ", 1)
    return [line]


def _check_numbers(name: str, size: Size) -> list[str]:
    """Return the lines that check an object of numbers; those of lists do without a call."""
    thorough = f"{name} = sized_all({name}, {name!r}, {size!r})"
    return [
        f"if {name} is not None:",
        f"    try: is_small = {name}.__class__ in SEQUENCES and hypot(*{name}) <= {SIZES[size]!r}",
        "    except NOT_NUMBERS: is_small = False",
        f"    if not is_small: {thorough}",
    ]


def _source(function: Signature) -> str:
    """Return the source of the function that scripts call."""
    name, parameters = function.name, function.parameters
    alias = ALIASES.get(name)
    heads, checks = [], []
    for position, parameter in enumerate(parameters, 1):
        default = parameter.default or ("MISSING" if alias else None)
        heads.append(parameter.name if default is None else f"{parameter.name}={default}")
        checks += _check(name, parameter, position)
    heads.append("physicsClientId=0")
    takes_worlds = name in SETTERS or name in GETTERS
    heads += ["*"] if alias or takes_worlds else []
    heads += ["worlds=None"] if takes_worlds else []
    names = [parameter.name for parameter in parameters]
    if takes_worlds:
        given = ", ".join([*names, "physicsClientId"])
        checks.insert(0, f"if worlds is not None: return for_worlds({name}, client, worlds, ({given},))")
    if alias:
        heads.append(f"{alias}=MISSING")
        required = [p.name for p in parameters if p.default is None]
        checks = [
            f"if {alias} is not MISSING: {required[0]} = {alias}",
            *(f"if {r} is MISSING: raise missing({r!r}, {i})" for i, r in enumerate(required, 1)),
            *checks,
        ]
    lines = [
        "try: client = clients[physicsClientId]",
        "except KeyError: raise no_client(physicsClientId) from None",
        *checks,
        f"if client.remote: return client.call({name!r}, {{{', '.join(f'{n!r}: {n}' for n in names)}}})",
        f"try: return call_{name}({', '.join(['client', *names])})",
        f"except REFUSALS as problem: raise refused({name!r}, problem) from problem",
    ]
    return f"def {name}({', '.join(heads)}):\n" + "".join(f"    {line}\n" for line in lines)


def _for_worlds(function: Callable, client: Any, worlds: Worlds, arguments: tuple) -> object:
    """Call a function for some worlds of a client.

    Args:
        function: The generated function.
        client: The client.
        worlds: The worlds.
        arguments: Its arguments, up to physicsClientId.
    """
    name = function.__name__
    if not hasattr(client, "choosing"):
        raise error(f"worlds: {name} can only choose among worlds of this process.")
    count = client.num_worlds
    chosen = chosen_worlds(worlds, count)
    if name in GETTERS:
        return of_worlds(function(*arguments), worlds, count, name in BY_WORLD)
    with client.choosing(chosen):
        return function(*arguments) if len(chosen) else None


def _no_client(number: object) -> error:
    """Return the error of a client that there is not.

    Raises:
        TypeError: It is no integer.
        OverflowError: It has more than 32 bits.
    """
    as_int(number)
    return not_connected()


def _missing(name: str, position: int) -> TypeError:
    """Return the error of a required argument that was not given."""
    return TypeError(f"function missing required argument '{name}' (pos {position})")


def _first_call(namespace: dict, name: str) -> Callable:
    """Return a function that fetches the one of the module, puts it in its own place, and calls it."""

    def fetch(*args: object, **keywords: object) -> object:
        found = namespace[f"call_{name}"] = implementation(name)
        return found(*args, **keywords)

    return fetch


def _load_urdf(generated: Callable) -> Callable:
    """Return loadURDF that takes position and orientation as single numbers too, as in old scripts."""

    def loadURDF(*args: object, **keywords: object) -> object:
        if len(args) >= 4 and isinstance(args[1], Real):
            quaternion = args[4:8] if len(args) == 8 else (0.0, 0.0, 0.0, 1.0)
            args = (args[0], args[1:4], quaternion)
        return generated(*args, **keywords)

    return loadURDF


def _set_gravity(generated: Callable) -> Callable:
    """Return setGravity that takes vectors of several worlds too, (3,) or (n, 3) in one argument."""

    def setGravity(*args: Any, **keywords: Any) -> object:
        client = table.TABLE.get(keywords.get("physicsClientId", 0))
        worlds = keywords.get("worlds")
        if len(args) == 1 and has_axes(args[0]) and client and (client.num_worlds > 1 or worlds is not None):
            count = client.num_worlds if worlds is None else len(chosen_worlds(worlds, client.num_worlds))
            expected = f"a number, one for each world, or vectors in shape (3,) or ({count}, 3)"
            try:
                vectors = np.asarray(args[0], np.float64)
            except (TypeError, ValueError):
                raise error(f"gravX: expected {expected}, got something other than numbers.") from None
            if vectors.shape not in ((3,), (count, 3)):
                raise error(f"gravX: expected {expected}, got shape {vectors.shape}.")
            args = tuple(vectors.T)
        return generated(*args, **keywords)

    return setGravity


def _build() -> dict[str, Function]:
    """Return all functions but connect by name."""
    namespace = {
        "clients": table.TABLE,
        "as_int": as_int,
        "as_float": as_float,
        "as_str": as_str,
        "sized_all": sized_all,
        "hypot": math.hypot,
        "SEQUENCES": SEQUENCES,
        "NOT_NUMBERS": NOT_NUMBERS,
        "no_client": _no_client,
        "not_connected": not_connected,
        "refused": refused,
        "REFUSALS": REFUSALS,
        "missing": _missing,
        "for_worlds": _for_worlds,
        "MISSING": MISSING,
    }
    made = [function for function in SIGNATURES.values() if function.module not in _DIRECT]
    sources = [_source(function) for function in made]
    sources += [
        f"def {name}(*args):\n"
        "    try: client = clients[0]\n"
        "    except KeyError: raise not_connected() from None\n"
        f"    if client.remote: return client.call({name!r}, {{'args': args}})\n"
        f"    return call_{name}(client, *args)\n"
        for name in POSITIONAL
    ]
    exec(compile("\n".join(sources), "<newtonsim.pybullet_compat>", "exec"), namespace)
    found = {name: namespace[name] for name in [*(f.name for f in made), *POSITIONAL]}
    for name in found:
        namespace[f"call_{name}"] = _first_call(namespace, name)
    found["loadURDF"] = _load_urdf(found["loadURDF"])
    found["setGravity"] = _set_gravity(found["setGravity"])
    for function in SIGNATURES.values():
        if function.module in _DIRECT:
            found[function.name] = getattr(_DIRECT[function.module], function.name)
    return {name: Function(function) for name, function in sorted(found.items())}


FUNCTIONS = _build()
"""All functions of the API but connect, by name."""
