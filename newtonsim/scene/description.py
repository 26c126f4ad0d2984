"""Human-readable tables of a model: the contents of one world, with names, types, coordinates and units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.scene.enums import ConstraintType, GeoType, JointMode, JointType, ShapeFlags
from newtonsim.scene.joint_types import JOINT_KINDS
from newtonsim.scene.shape_types import SIZE_NAMES

NO_LIMIT = 1.0e5
"""Limits beyond this count as none; importers write such numbers for axes without limits."""

_ELEMENTS = ("particle", "spring", "tri", "edge", "tet", "muscle")


class DescriptionMethods:
    """The part of Model that describes it."""

    world_count: int
    device: wp.Device

    def describe(self, world: int = 0) -> str:
        """Return tables of the bodies, joints, shapes and constraints of one world, for people to read.

        Indices of elements are those of the whole model, so that they index its arrays. Values are those of a
        new `state()`.

        Args:
            world: The world; -1 for the global world, which all worlds share.

        Raises:
            ModelError: There is no such world.
        """
        if not -1 <= world < self.world_count:
            raise ModelError(f"world: expected one of -1..{self.world_count - 1}, got {world}")
        host = HostView(self)
        parts = [
            table("body", ("key", "mass [kg]", "centre of mass [m]", "shapes"), _bodies(host, world)),
            table("joint", ("key", "type", "parent -> child", "coordinates", "axes"), _joints(host, world)),
            table("shape", ("key", "type", "on", "size [m]", "collides", "friction"), _shapes(host, world)),
            table("constraint", ("key", "type", "between", "on"), _constraints(host, world)),
        ]
        title = "the global world" if world < 0 else f"world {world}"
        if world >= 0 and self.world_count > 1:
            title += f" of 0..{self.world_count - 1}"
        return "\n\n".join([_summary(host), f"{title}:", *filter(None, parts)])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.device}: {counts(self)}>"


class HostView:
    """The attributes of a model or a struct with its arrays on the host; each is fetched once.

    Args:
        source: The model or the struct.
    """

    def __init__(self, source: Any):
        self._source = source

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._source, name)
        if isinstance(value, wp.array):
            value = value.numpy()
        elif hasattr(value, "_cls"):
            value = HostView(value)
        setattr(self, name, value)
        return value


def table(kind: str, headings: Sequence[str], rows: Iterable[tuple[int, Sequence[str]]]) -> str:
    """Return numbered rows below a line of headings, columns as wide as their widest cells; "" without rows.

    Args:
        kind: Kind of the rows.
        headings: Names of the columns.
        rows: Index and cells of each row.
    """
    lines = [(kind, *headings), *((str(number), *cells) for number, cells in rows)]
    if len(lines) == 1:
        return ""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def numbers(values: Iterable[float]) -> str:
    """Return numbers in brackets, with four digits each."""
    return f"({', '.join(f'{float(value) + 0.0:.4g}' for value in values)})"


def name_of(model: HostView, kind: str, number: int) -> str:
    """Return the key of a body, joint, shape or constraint, or its kind and index if it has none."""
    if number < 0:
        return "world"
    return getattr(model, f"{kind}_key")[number] or f"{kind} {number}"


def of_world(model: HostView, kind: str, world: int) -> np.ndarray:
    """Return the indices of the bodies, joints or shapes of a world, or of the global one (-1), in order."""
    if not getattr(model, f"{kind}_count"):
        return np.zeros(0, int)
    return np.flatnonzero(getattr(model, f"{kind}_world") == world)


def constraints_of_world(model: HostView, world: int) -> np.ndarray:
    """Return the indices of the constraints between bodies or joint axes of a world, in order."""
    if not model.constraint_count:
        return np.zeros(0, int)
    bodies = np.append(model.body_world, -1)
    owner = np.maximum(bodies[model.constraint_parent], bodies[model.constraint_child])
    coupling = np.flatnonzero(model.constraint_type == ConstraintType.COUPLING)
    axes = model.constraint_coupled_axes[coupling, 0]
    joints = np.searchsorted(model.joint_axis_start, axes, side="right") - 1
    owner[coupling] = model.joint_world[joints]
    return np.flatnonzero(owner == world)


def joint_parts(model: HostView, joint: int) -> tuple[str, str]:
    """Return the meaning of a joint's coordinates, where they start, and its axes."""
    made_of = JOINT_KINDS[JointType(int(model.joint_type[joint]))]
    linear, angular = model.joint_axis_dim[joint].tolist()
    first, end = model.joint_q_start[joint : joint + 2].tolist()
    names = ["position [m]"] * bool(made_of.place) + ["quaternion"] * made_of.quaternion
    names += [f"{linear} x [m]"] * bool(linear) + [f"{angular} x [rad]"] * bool(angular)
    where = f"q[{first}:{end}] {', '.join(names)}" if end > first else "none"
    start = int(model.joint_axis_start[joint])
    axes = (_axis(model, start + n, n < linear) for n in range(linear + angular))
    return where, "; ".join(axes)


def counts(model: Any) -> str:
    """Return how many worlds, bodies, joints and so on a model or a view of it has."""
    parts = [
        counted(model.world_count, "world"),
        counted(model.body_count, "body", "bodies"),
        counted(model.joint_count, "joint"),
        counted(model.joint_coord_count, "coordinate"),
        counted(model.joint_dof_count, "degree of freedom", "degrees of freedom"),
        counted(model.shape_count, "shape"),
        counted(model.constraint_count, "constraint"),
    ]
    parts += [counted(n, kind) for kind in _ELEMENTS if (n := getattr(model, f"{kind}_count"))]
    return ", ".join(parts)


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as "1 body" or "3 bodies"; the plural has an s by default."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _summary(model: HostView) -> str:
    return (
        f"model on {model.device}: {counts(model)}\n"
        f"up {numbers(model.up_vector)}, gravity {_gravity(model)} m/s^2, "
        f"{'ground plane' if model.ground else 'no ground plane'}"
    )


def _gravity(model: HostView) -> str:
    if not model.gravity_per_world:
        return numbers(model.gravity)
    low, high = model.gravity.min(axis=0), model.gravity.max(axis=0)
    return f"of each world, {numbers(low)} to {numbers(high)}"


def _bodies(model: HostView, world: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    found = of_world(model, "body", world).tolist()
    mass, com = (model.body_mass, model.body_com) if found else ((), ())
    for b in found:
        yield (
            b,
            (name_of(model, "body", b), f"{mass[b]:.4g}", numbers(com[b]), str(len(model.body_shapes[b]))),
        )


def _joints(model: HostView, world: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    for j in of_world(model, "joint", world).tolist():
        ends = (int(model.joint_parent[j]), int(model.joint_child[j]))
        between = " -> ".join(name_of(model, "body", body) for body in ends)
        kind = JointType(int(model.joint_type[j])).name.lower()
        yield j, (name_of(model, "joint", j), kind, between, *joint_parts(model, j))


def _axis(model: HostView, axis: int, linear: bool) -> str:
    """Return the direction, limits and drive of one axis."""
    unit, effort = ("m", "N") if linear else ("rad", "N m")
    parts = [f"{'along' if linear else 'about'} {numbers(model.joint_axis[axis])}"]
    low, high = (getattr(model, f"joint_limit_{end}")[axis] for end in ("lower", "upper"))
    if low > -NO_LIMIT or high < NO_LIMIT:
        parts.append(f"{low:.4g}..{high:.4g} {unit}")
    ke, kd = (getattr(model, f"joint_target_{name}")[axis] for name in ("ke", "kd"))
    mode = JointMode(int(model.joint_axis_mode[axis]))
    if mode == JointMode.TARGET_POSITION:
        parts.append(f"position drive {ke:.4g} {effort}/{unit}, {kd:.4g} {effort} s/{unit}")
    elif mode == JointMode.TARGET_VELOCITY:
        parts.append(f"velocity drive {ke:.4g} {effort} s/{unit}")
    return " ".join(parts)


def _shapes(model: HostView, world: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    for s in of_world(model, "shape", world).tolist():
        kind = GeoType(int(model.shape_geo.type[s]))
        scale = model.shape_geo.scale[s]
        size = numbers(scale[: len(SIZE_NAMES[kind])]) if kind in SIZE_NAMES else f"scale {numbers(scale)}"
        flags = ShapeFlags(int(model.shape_flags[s]))
        meets = {ShapeFlags.COLLIDE_SHAPES: "shapes", ShapeFlags.COLLIDE_GROUND: "ground"}
        with_whom = ", ".join(name for flag, name in meets.items() if flag in flags) or "nothing"
        friction = f"{model.shape_materials.mu[s]:.4g}"
        owner = name_of(model, "body", int(model.shape_body[s]))
        yield s, (name_of(model, "shape", s), kind.name.lower(), owner, size, with_whom, friction)


def _constraints(model: HostView, world: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    for c in constraints_of_world(model, world).tolist():
        kind = ConstraintType(int(model.constraint_type[c])).name.lower()
        ends = (int(model.constraint_parent[c]), int(model.constraint_child[c]))
        between = " and ".join(name_of(model, "body", body) for body in ends)
        enabled = "yes" if model.constraint_enabled[c] else "no"
        yield c, (name_of(model, "constraint", c), kind, between, enabled)
