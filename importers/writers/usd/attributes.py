"""Custom attributes in the namespace "newtonsim", in SI units and radians; other readers skip them."""

import numpy as np
from pxr import Gf, Sdf, Usd, Vt

from newtonsim.importers.files.usd_names import NAMESPACE

Types = Sdf.ValueTypeNames


def set_number(prim: Usd.Prim, name: str, value: float) -> None:
    """Write a number."""
    _create(prim, name, Types.Float).Set(float(value))


def set_flag(prim: Usd.Prim, name: str, value: bool) -> None:
    """Write a truth value."""
    _create(prim, name, Types.Bool).Set(bool(value))


def set_word(prim: Usd.Prim, name: str, value: str) -> None:
    """Write a token."""
    _create(prim, name, Types.Token).Set(value)


def set_numbers(prim: Usd.Prim, name: str, values: np.ndarray) -> None:
    """Write an array of numbers."""
    row = np.asarray(values, np.float32).reshape(-1)
    _create(prim, name, Types.FloatArray).Set(Vt.FloatArray.FromNumpy(row))


def set_whole_numbers(prim: Usd.Prim, name: str, values: list[int]) -> None:
    """Write an array of integers."""
    _create(prim, name, Types.IntArray).Set(Vt.IntArray(values))


def set_vectors(prim: Usd.Prim, name: str, values: np.ndarray) -> None:
    """Write an array of vectors (n, 3)."""
    rows = [Gf.Vec3f(*(float(x) for x in row)) for row in values]
    _create(prim, name, Types.Float3Array).Set(Vt.Vec3fArray(rows))


def set_schema(prim: Usd.Prim, schema: str, **values: float | list[float]) -> None:
    """Apply one of MuJoCo's schemas and write attributes: numbers, lists of them, whole numbers."""
    prim.AddAppliedSchema(schema)
    for name, value in values.items():
        kind = Types.DoubleArray if isinstance(value, list) else Types.Double
        kind = Types.Int if isinstance(value, int) else kind
        attribute = prim.CreateAttribute(f"mjc:{name}", kind, False, Sdf.VariabilityUniform)
        attribute.Set(Vt.DoubleArray(value) if isinstance(value, list) else value)


def _create(prim: Usd.Prim, name: str, kind: Sdf.ValueTypeName) -> Usd.Attribute:
    return prim.CreateAttribute(f"{NAMESPACE}:{name}", kind, custom=True)
