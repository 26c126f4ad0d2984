"""Prims with attribute readers whose errors name file, prim, attribute and value."""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, overload

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.usda_text import place_in_usda

if TYPE_CHECKING:
    from pxr import Sdf, Usd

MAX_NUMBER = 1.0e30
"""Even the fifth power of a length, which an inertia needs, stays finite in double precision."""

MAX_SEARCHED = 1 << 26
"""Bytes of a layer up to which the place of an error is looked for."""

_QUOTED = re.compile(r"'([\w:]+)'")
_INCLUDED_IN = {
    "PhysicsCollisionAPI": {"NewtonCollisionAPI", "NewtonMeshCollisionAPI", "NewtonSDFCollisionAPI"},
    "PhysicsMeshCollisionAPI": {"NewtonMeshCollisionAPI"},
    "PhysicsArticulationRootAPI": {"NewtonArticulationRootAPI"},
    "PhysicsMassAPI": {"NewtonMassAPI"},
    "PhysicsMaterialAPI": {"NewtonMaterialAPI"},
}
"""Schemas of Newton that apply those of UsdPhysics, whether or not OpenUSD knows them."""


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """A prim under the name that it has in the result.

    Attributes:
        prim: The `Usd.Prim`; that of the prototype for an instance of a point instancer.
        label: Its path, unique also among instances.
        path: File of the stage, None for one in memory.
        time: `Usd.TimeCode` at which attributes are read.
        line: None, as prims have no lines.
    """

    prim: "Usd.Prim"
    label: str
    path: str | None
    time: "Usd.TimeCode"
    line: None = None

    def error(self, message: str) -> ImportFileError:
        """Build (not raise) an error that names file and prim, and in layers of text line and column.

        Args:
            message: What is wrong; the first property of the prim that it quotes is the one to look for.
        """
        name = next((name for name in _QUOTED.findall(message) if self.prim.HasProperty(name)), None)
        spec = self._spec(name)
        place = None if spec is None else _place_of(spec, name)
        if spec is None or place is None:
            return ImportFileError(message, path=self.path, element=self.label)
        is_root = spec.layer == self.prim.GetStage().GetRootLayer()
        file = self.path if is_root else spec.layer.realPath
        return ImportFileError(f"column {place[1]}: {message}", file, place[0], self.label)

    def place(self, name: str | None = None) -> tuple[str | None, int | None]:
        """Return file and line of a property, or of the prim; None for what is not known."""
        fault = self.error("" if name is None else f"'{name}'")
        return fault.path, fault.line

    def _spec(self, name: str | None) -> "Sdf.Spec | None":
        """The strongest opinion on a property, or on the prim where it has none."""
        if name is not None:
            specs = self.prim.GetProperty(name).GetPropertyStack(self.time)
            if specs:
                return next((spec for spec in specs if _has_value(spec)), specs[0])
        return next(iter(self.prim.GetPrimStack()), None)

    @property
    def schemas(self) -> list[str]:
        """Names of all API schemas that the prim asks for, known ones and others."""
        listed = self.prim.GetMetadata("apiSchemas")
        if listed is not None and not hasattr(listed, "GetAddedOrExplicitItems"):
            raise self.error(f"apiSchemas is not a list of names: {str(listed)[:80]!r}")
        return [*listed.GetAddedOrExplicitItems()] if listed is not None else []

    def has_api(self, name: str) -> bool:
        """Whether an API schema is applied."""
        if name in self.prim.GetAppliedSchemas():
            return True
        return name in _INCLUDED_IN and not _INCLUDED_IN[name].isdisjoint(self.schemas)

    def instances_of(self, api: str) -> list[str]:
        """Names under which a schema is applied that can be applied several times."""
        applied = (name.partition(":") for name in self.prim.GetAppliedSchemas())
        return [instance for schema, _, instance in applied if schema == api]

    # -- attributes ------------------------------------------------------------------------------------------

    def value(self, name: str) -> object:
        """Value of an attribute, None if nobody wrote one."""
        attribute = self.prim.GetAttribute(name)
        if not attribute or not attribute.HasAuthoredValue():
            return None
        return attribute.Get(self.time)

    @overload
    def number(
        self, name: str, default: float, least: float | None = None, endless: bool = False
    ) -> float: ...

    @overload
    def number(
        self,
        name: str,
        default: float | None = None,
        least: float | None = None,
        endless: bool = False,
    ) -> float | None: ...

    def number(
        self,
        name: str,
        default: float | None = None,
        least: float | None = None,
        endless: bool = False,
    ) -> float | None:
        """Return an attribute as a number.

        Args:
            name: Attribute.
            default: Returned when there is no value.
            least: Smallest number that is allowed.
            endless: Whether infinities are allowed.
        """
        value = self.value(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, Real):
            raise self.error(f"attribute '{name}' is not a number: {value!r:.80}")
        number = float(value)
        if not (abs(number) <= MAX_NUMBER or (endless and abs(number) > MAX_NUMBER)):
            raise self.error(f"attribute '{name}' is {number:g}, expected a finite number")
        if least is not None and number < least:
            raise self.error(f"attribute '{name}' is {number:g}, expected at least {least:g}")
        # The largest float stands for "no limit" in many files.
        return number if abs(number) <= MAX_NUMBER else math.copysign(math.inf, number)

    def size(self, name: str, default: float) -> float:
        """Return an attribute as a length above zero."""
        value = self.number(name, default)
        if not value > 0.0:
            raise self.error(f"attribute '{name}' is {value:g}, expected a length above zero")
        return value

    def vector(self, name: str, default: Sequence[float] | None = None) -> np.ndarray | None:
        """Return an attribute as three finite numbers (3,)."""
        return self._finite(name, self.value(name), 3, default)

    def _finite(self, name: str, value: object, count: int, default: object) -> np.ndarray | None:
        if value is None:
            return None if default is None else np.asarray(default, dtype=np.float64)
        try:
            array = np.array(value, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            array = np.zeros(0)
        if array.shape != (count,):
            raise self.error(f"attribute '{name}' is {value!r:.80}, expected {count} numbers")
        if not (np.abs(array) <= MAX_NUMBER).all():
            raise self.error(f"attribute '{name}' is {array.tolist()}, expected finite numbers")
        return array

    def quaternion(self, name: str) -> np.ndarray | None:
        """Return an attribute as unit quaternion xyzw (4,); None if there is none or it is zero."""
        value = self.value(name)
        if value is None:
            return None
        if not (hasattr(value, "GetReal") and hasattr(value, "GetImaginary")):
            raise self.error(f"attribute '{name}' is not a quaternion: {value!r:.80}")
        q = self._finite(name, [*value.GetImaginary(), value.GetReal()], 4, None)
        norm = float(np.linalg.norm(q))
        return q / norm if norm > 0.0 else None

    def flag(self, name: str, default: bool) -> bool:
        """Return an attribute as truth value."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, (bool, int)):
            raise self.error(f"attribute '{name}' is neither true nor false: {value!r:.80}")
        return bool(value)

    def token(self, name: str, default: str, words: Sequence[str]) -> str:
        """Return an attribute that must be one of the given words."""
        value = self.value(name)
        if value is None:
            return default
        if value not in words:
            raise self.error(f"attribute '{name}' is {value!r:.80}, expected one of {', '.join(words)}")
        return words[list(words).index(value)]  # file names are equal to texts, but no texts

    def array(self, name: str, kind: type, columns: int = 1) -> np.ndarray:
        """Return an attribute as array (n,) or (n, columns), empty if there is no value."""
        value = self.value(name)
        shape = (-1,) if columns == 1 else (-1, columns)
        if value is None:
            return np.zeros(0, kind).reshape(shape)
        try:
            array = np.array(value, dtype=kind).reshape(shape)
        except (TypeError, ValueError) as error:
            raise self.error(f"attribute '{name}' is not an array of {kind.__name__}s") from error
        if array.dtype.kind == "f" and not (np.abs(array) <= MAX_NUMBER).all():
            raise self.error(f"attribute '{name}' has entries that are not finite")
        return array

    def targets(self, name: str) -> list:
        """Return the paths that a relationship names."""
        relationship = self.prim.GetRelationship(name)
        return list(relationship.GetForwardedTargets()) if relationship else []


def _has_value(spec: "Sdf.Spec") -> bool:
    return any(map(spec.HasInfo, ("default", "timeSamples", "targetPaths")))


def _place_of(spec: "Sdf.Spec", name: str | None) -> tuple[int, int] | None:
    """Line and column of a property, or of its prim, in the file of a layer; None if that is no text.

    Args:
        spec: An opinion in the layer.
        name: The property, None for the prim.
    """
    layer = spec.layer
    if layer.dirty or not os.path.isfile(layer.realPath) or os.path.getsize(layer.realPath) > MAX_SEARCHED:
        return None
    with open(layer.realPath, "rb") as file:
        contents = file.read()
    if not contents.startswith(b"#usda"):
        return None
    prim = spec.path.GetParentPath() if spec.path.IsPropertyPath() else spec.path
    return place_in_usda(contents.decode("utf-8", errors="replace"), str(prim), name)
