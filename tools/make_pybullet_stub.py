"""Write the stub of `BulletClient`, from which editors know its methods: python tools/make_pybullet_stub.py

The functions are those of `newtonsim/pybullet_compat/surface/signatures.py`; what a world can do besides
comes from `LocalClient`. A test asks that the stub is up to date.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

from newtonsim.pybullet_compat import bullet_client, connections
from newtonsim.pybullet_compat.clients.local_client import LocalClient
from newtonsim.pybullet_compat.surface import constants
from newtonsim.pybullet_compat.surface.implementations import implementation
from newtonsim.pybullet_compat.surface.signatures import (
    ALIASES,
    GETTERS,
    PER_WORLD,
    SETTERS,
    SIGNATURES,
    Signature,
)

PATH = Path(bullet_client.__file__).with_suffix(".pyi")
HEAD = '''"""A client as an object, for editors and type checkers; written by tools/make_pybullet_stub.py."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from newtonsim.pybullet_compat.world.standing_links import StandingLink
from newtonsim.pybullet_compat.world.world_choice import Worlds
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.simulator import Simulator
from newtonsim.solvers import FeatherstoneSolver

class BulletClient:
'''
TYPES = {"i": "int", "d": "float", "s": "str", "O": "Any"}
PLAIN = re.compile(r"^(None|int|float|str|bytes|dict|tuple|\|| |,|\.|\[|\]|np\.ndarray)+$")
BEYOND = (
    *("advance", "resetWorlds", "restore_worlds", "mirror", "standing_links", "surround"),
    *("watch_bounds", "swept_bounds", "differentiable_model"),
)
"""Methods of a world besides PyBullet's functions."""
ATTRIBUTES = ("model", "state", "control", "solver", "simulator", "shape_links")
"""Its properties."""


def result(function: object) -> str:
    """What a function returns; Any where that depends on the number of worlds."""
    said = str(inspect.signature(function).return_annotation)  # pyright: ignore[reportArgumentType]
    return said if PLAIN.match(said) and said not in ("tuple", "tuple | None") else "Any"


def summary(function: object) -> str:
    """The first paragraph of a docstring, as it stands in a method."""
    text = (inspect.getdoc(function) or "").split("\n\n")[0]
    lines = textwrap.wrap(text, 96)
    return "\n        ".join([*lines, ""] if len(lines) > 1 else lines)


def method(signature: Signature) -> str:
    """One of PyBullet's functions as a method."""
    name = signature.name
    differing = PER_WORLD.get(name, ())
    parts = ["self"]
    for parameter in signature.parameters:
        kind = TYPES[parameter.kind] + (" | npt.ArrayLike" if parameter.name in differing else "")
        kind += " | None" if parameter.default == "None" and parameter.kind != "O" else ""
        is_optional = parameter.default is not None or (parts != ["self"] and parts[-1].endswith("..."))
        parts.append(f"{parameter.name}: {kind}" + (" = ..." if is_optional else ""))
    keywords = []
    if name in ALIASES:
        parts = [part if "=" in part or part == "self" else f"{part} = ..." for part in parts]
        keywords.append(f"{ALIASES[name]}: int = ...")
    if name in SETTERS | GETTERS:
        keywords.append("worlds: Worlds | None = None")
    parts += ["*", *keywords] if keywords else []
    function = implementation(name)
    head = f"    def {name}({', '.join(parts)}) -> {result(function)}:"
    return f'{head}\n        """{summary(function)}"""\n'


def parameters(function: object) -> str:
    """The parameters of a method as its source has them."""
    found = inspect.signature(function).parameters.values()  # pyright: ignore[reportArgumentType]
    optional = [" = ..." if p.default is not p.empty else "" for p in found]
    kinds = ["" if p.annotation is p.empty else f": {p.annotation}" for p in found]
    return ", ".join(p.name + kind + end for p, kind, end in zip(found, kinds, optional, strict=True))


def beyond(name: str) -> str:
    """A method of a world besides those."""
    function = getattr(LocalClient, name)
    returns = inspect.signature(function).return_annotation
    return f'    def {name}({parameters(function)}) -> {returns}:\n        """{summary(function)}"""\n'


def attribute(name: str) -> str:
    """A property of a world."""
    found = getattr(LocalClient, name).fget
    kind = str(inspect.signature(found).return_annotation)
    return f'    @property\n    def {name}(self) -> {kind}:\n        """{summary(found)}"""\n'


def stub() -> str:
    """The text of the stub."""
    init = parameters(bullet_client.BulletClient.__init__)
    lines = [f"    def __init__({init}) -> None: ...\n", "    num_worlds: int\n"]
    lines += [f"    {name}: int\n" for name, value in vars(constants).items() if type(value) is int]
    lines.append("    error: type[Exception]\n")
    lines += [method(signature) for signature in SIGNATURES.values() if signature.name != "disconnect"]
    lines.append(f'    def disconnect(self) -> None:\n        """{summary(connections.disconnect)}"""\n')
    lines += [attribute(name) for name in ATTRIBUTES]
    lines += [beyond(name) for name in BEYOND]
    lines.append("    def __getattr__(self, name: str) -> Any: ...\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    PATH.write_text(stub())
