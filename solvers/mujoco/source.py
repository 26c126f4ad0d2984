"""A model's arrays on the host, and which of its elements make up one of MuJoCo's worlds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from newtonsim.dynamics.actuator_worlds import actuator_worlds
from newtonsim.dynamics.tendon_paths import tendon_worlds
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import (
    IDENTITY,
    quat_rotate,
    transform_inverse,
    transform_multiply,
    transform_point,
)
from newtonsim.scene.arrays import COUNTS, SPECS, ArraySpec
from newtonsim.scene.columns import INTEGER_TYPES, element_shape
from newtonsim.scene.enums import ON_AXIS, PULLEY, ConstraintType, GeoType, JointType
from newtonsim.scene.model import Model

_STRUCTS = {"shape_material_": "shape_materials", "shape_geo_": "shape_geo"}
_PLACE_TOLERANCE = 1.0e-5
"""How far places in worlds that are moved copies may differ [m], and components of rotations."""
_MEMBERS = ("body", "joint", "axis", "shape", "constraint", "actuator")
_INITIAL = frozenset(
    (
        *("body_q", "body_qd", "joint_q", "joint_qd", "joint_act", "tendon_act", "actuator_ctrl"),
        "constraint_enabled",
    )
)
"""Arrays that a state or control replaces, or that steps read anew."""


class HostModel:
    """Arrays of a model as NumPy arrays: attributes have the names of `arrays.MODEL_ARRAYS`.

    Attributes:
        model: The model.
    """

    body_key: list[str]
    joint_key: list[str]
    constraint_key: list[str]
    shape_key: list[str]
    shape_color: list
    shape_geo_src: list
    tendon_key: list[str]
    tendon_equality_key: list[str]
    actuator_key: list[str]
    actuator_law: list

    def __init__(self, model: Model):
        self.model = model
        model.settle_shapes()

    def __getattr__(self, name: str) -> np.ndarray:
        spec = SPECS.get(name)
        if spec is None:
            raise AttributeError(name)
        value = self._on_host(spec)
        setattr(self, name, value)
        return value

    def _on_host(self, spec: ArraySpec) -> Any:
        """Return a copy of an array; a list for what has no type on the device, declared above."""
        value = self._read(spec.name)
        if spec.dtype is None:
            return list(value)
        if value is None or not getattr(self.model, COUNTS[spec.per]):
            return np.zeros((0, *element_shape(spec)), np.int32 if spec.dtype in INTEGER_TYPES else float)
        array = np.array(value.numpy())
        return array.astype(np.float64) if array.dtype == np.float32 else array

    def _read(self, name: str) -> Any:
        for prefix, struct in _STRUCTS.items():
            if name.startswith(prefix) and name != "shape_geo_src":
                return getattr(getattr(self.model, struct), name.removeprefix(prefix), None)
        return getattr(self.model, name)

    def label(self, per: str, index: int) -> str:
        """How messages call an element."""
        keys = getattr(self, f"{per}_key")
        return f"{per} {keys[index]!r}" if keys[index] else f"{per} {index}"


@dataclass(frozen=True)
class Selection:
    """The elements of MuJoCo's worlds, which are copies of the first.

    Attributes:
        members: By kind ("body", "joint", "shape", "axis", "constraint", "actuator") the elements of each of
            MuJoCo's worlds, int (rows, n).
        shared: Shapes of the global world, which are in all worlds, int (n,).
        origin: Pose of each world's frame in the model's world, transforms (rows, 7).
    """

    members: dict[str, np.ndarray]
    shared: np.ndarray
    origin: np.ndarray

    @property
    def rows(self) -> int:
        """Number of worlds of MuJoCo."""
        return len(self.origin)

    @property
    def bodies(self) -> np.ndarray:
        """Bodies of the first world."""
        return self.members["body"][0]

    @property
    def joints(self) -> np.ndarray:
        """Joints of the first world."""
        return self.members["joint"][0]

    @property
    def shapes(self) -> np.ndarray:
        """Shapes of the first world and of the global one."""
        return np.concatenate([self.members["shape"][0], self.shared])

    @property
    def constraints(self) -> np.ndarray:
        """Constraints of the first world."""
        return self.members["constraint"][0]


def select(host: HostModel, separate: bool) -> Selection:
    """Choose what to convert.

    Args:
        host: The model.
        separate: Whether each world becomes a world of MuJoCo's.

    Raises:
        ModelError: The worlds are to be separate, and they are not copies of each other.
    """
    model = host.model
    if not separate or model.world_count == 1:
        members = {kind: np.arange(getattr(model, COUNTS[kind]))[None] for kind in _MEMBERS}
        return Selection(members, np.zeros(0, np.int64), IDENTITY[None].copy())
    for kind in ("body", "joint"):
        outside = np.flatnonzero(getattr(host, f"{kind}_world") < 0)
        if len(outside):
            raise ModelError(
                f"{host.label(kind, outside[0])}: it belongs to no world, but worlds are separate"
            )
    row = constraint_rows(host)
    if (row < 0).any():
        raise ModelError(f"{host.label('constraint', int(np.argmin(row)))}: it belongs to no world")
    worlds = _WorldComparison(host, row, model.world_count)
    worlds.check_arrays()
    worlds.check_filters()
    origin = worlds.origins()
    _check_shared_shapes(host, origin)
    return Selection(worlds.members, np.flatnonzero(host.shape_world < 0), origin)


def constraint_rows(host: HostModel) -> np.ndarray:
    """World of each constraint, -1 for constraints of the global world."""
    model = host.model
    if not model.constraint_count:
        return np.zeros(0, np.int32)
    axis_joint = np.repeat(np.arange(model.joint_count), host.joint_axis_dim.sum(axis=1))
    axis_world = np.append(host.joint_world[axis_joint] if len(axis_joint) else [], -1).astype(np.int32)
    body_world = np.append(host.body_world, -1).astype(np.int32)
    coupling = host.constraint_type == ConstraintType.COUPLING
    ends = np.maximum(body_world[host.constraint_parent], body_world[host.constraint_child])
    return np.where(coupling, axis_world[host.constraint_coupled_axes[:, 0]], ends).astype(np.int32)


class _WorldComparison:
    """Compares the elements of all worlds with those of the first.

    Attributes:
        members: By kind of element the indices in each world, int (rows, n).
    """

    def __init__(self, host: HostModel, constraint_row: np.ndarray, rows: int):
        self.host, self.rows = host, rows
        owners = {"body": host.body_world, "joint": host.joint_world, "shape": host.shape_world}
        owners["constraint"] = constraint_row
        owners |= _tendon_owners(host)
        none = np.zeros(0, np.int64)
        owners["actuator"] = actuator_worlds(host.model) if host.model.actuator_count else none
        self.members = {kind: self._members(kind, world) for kind, world in owners.items()}
        spread = {
            "axis": ("joint", host.joint_axis_dim.sum(axis=1), host.joint_axis_start),
            "dof": ("joint", *_lengths(host.model.joint_qd_start)),
            "constraint_axis": (
                "constraint",
                host.constraint_axis_dim.sum(axis=1),
                host.constraint_axis_start,
            ),
        }
        for kind, (owner, sizes, starts) in spread.items():
            self.members[kind] = self._spread(self.members[owner], sizes, starts)

    def _members(self, kind: str, world: np.ndarray) -> np.ndarray:
        counts = np.bincount(world[world >= 0], minlength=self.rows)
        if (counts != counts[0]).any():
            other = int(np.argmax(counts != counts[0]))
            raise ModelError(
                f"world {other} has {counts[other]} elements of kind '{kind}', world 0 has {counts[0]}: "
                "worlds that MuJoCo steps separately must be copies of each other"
            )
        order = np.argsort(world, kind="stable")
        return order[np.count_nonzero(world < 0) :].reshape(self.rows, -1)

    def _spread(self, owners: np.ndarray, sizes: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """What belongs to the owners, which have `sizes` of it from `starts` on."""
        if owners.size == 0:
            return np.zeros((self.rows, 0), np.int64)
        if (sizes[owners] != sizes[owners[0]]).any():
            world = int(np.argmax((sizes[owners] != sizes[owners[0]]).any(axis=1)))
            raise ModelError(f"joints of world {world} have other axes than those of world 0")
        return np.concatenate(
            [starts[owners[:, [i]]] + np.arange(size) for i, size in enumerate(sizes[owners[0]].tolist())],
            axis=1,
        )

    def check_arrays(self) -> None:
        """Raise ModelError unless all but places and initial values are the same in all worlds."""
        placed = self._placed()
        for name, spec in SPECS.items():
            members = self.members.get(spec.per)
            skip = name in _INITIAL or name.endswith(("_world", "_start", "_key", "_color", "_texture"))
            if members is None or members.size == 0 or skip or (spec.host and spec.dtype is None):
                continue
            if name == "shape_collision_group":
                continue
            values = getattr(self.host, name)
            if spec.dtype is None:
                same = [all(values[a] is values[b] for a, b in zip(row, members[0])) for row in members]
                same = np.array(same)
            else:
                values = values[members]
                if spec.index_of is not None:
                    values = values - self._first_of(spec.index_of)[:, *[None] * (values.ndim - 1)] * (
                        values >= 0
                    )
                same = np.isclose(values, values[0], 1e-6, 1e-9).reshape(*members.shape, -1).all(axis=2)
                if name in placed:
                    same |= placed[name][members[0]]
                same = same.all(axis=1)
            if not same.all():
                raise ModelError(
                    f"{name}: world {int(np.argmin(same))} differs from world 0, "
                    "and worlds that MuJoCo steps separately must be copies of each other"
                )

    def check_filters(self) -> None:
        """Raise ModelError unless the same pairs of shapes pass through each other in all worlds."""
        host, members = self.host, self.members["shape"]
        rules = host.model.contact_rules
        if rules is None or not len(rules.filter_keys):
            return
        place = np.arange(host.model.shape_count) + members.shape[1]  # those of the global world
        place[members] = np.arange(members.shape[1])
        a, b = np.divmod(rules.filter_keys, host.model.shape_count)
        world = np.maximum(host.shape_world[a], host.shape_world[b])
        pairs = np.sort(np.stack([place[a], place[b]], axis=1), axis=1)
        found = [set(map(tuple, pairs[world == row].tolist())) for row in range(self.rows)]
        different = [row for row in range(self.rows) if found[row] != found[0]]
        if different:
            raise ModelError(
                f"shape_collision_filter_pairs: world {different[0]} differs from world 0, "
                "and worlds that MuJoCo steps separately must be copies of each other"
            )

    def _first_of(self, kind: str) -> np.ndarray:
        members = self.members[kind]
        return members[:, 0] if members.size else np.zeros(self.rows, np.int64)

    def _placed(self) -> dict[str, np.ndarray]:
        """By array with places in the world which entries are such."""
        host = self.host
        return {
            "joint_X_p": host.joint_parent < 0,
            "constraint_X_p": host.constraint_parent < 0,
            "constraint_X_c": host.constraint_child < 0,
            "shape_transform": host.shape_body < 0,
            "tendon_element_point": host.tendon_element_body < 0,
            "actuator_frame": host.actuator_bodies.reshape(-1, 2)[:, 0] < 0,
            "actuator_reference": host.actuator_bodies.reshape(-1, 2)[:, 1] < 0,
        }

    def origins(self) -> np.ndarray:
        """Where each world's frame is: what holds its elements is that of the first world, moved there.

        Raises:
            ModelError: There is no such pose, or gravity is not the same in it.
        """
        placed = self._placed()
        placed["joint_X_p"] = placed["joint_X_p"] & (self.host.joint_type != JointType.FREE)
        points = self._fixed_points(placed.pop("tendon_element_point"))
        for name in ("actuator_frame", "actuator_reference"):
            del placed[name]  # what holds an actuator is told by bodies, and a frame without use is nowhere
        kinds = {"joint_X_p": "joint", "shape_transform": "shape"}
        groups = []
        for name, where in placed.items():
            members = self.members[kinds.get(name, "constraint")]
            if members.size:
                groups.append(getattr(self.host, name)[members[:, where[members[0]]]])
        places = np.concatenate(groups, axis=1) if groups else np.zeros((self.rows, 0, 7))
        if not places.shape[1]:
            origin = np.tile(IDENTITY, (self.rows, 1))
            if points.shape[1]:
                origin[:, :3] = points[:, 0] - points[0, 0]
            self._check_origins(origin, places, points)
            return origin
        origin = transform_multiply(places[:, 0], transform_inverse(places[0, 0]))
        origin[origin[:, 6] < 0.0, 3:] *= -1.0
        self._check_origins(origin, places, points)
        return origin

    def _fixed_points(self, fixed: np.ndarray) -> np.ndarray:
        """Points of tendons that are fixed in the worlds (rows, n, 3) [m]."""
        members = self.members["tendon_element"]
        if not members.size:
            return np.zeros((self.rows, 0, 3))
        kind = self.host.tendon_element_kind[members[0]]
        path = fixed[members[0]] & (kind != ON_AXIS) & (kind != PULLEY)
        return self.host.tendon_element_point[members[:, path]]

    def _check_origins(self, origin: np.ndarray, places: np.ndarray, points: np.ndarray) -> None:
        """Raise ModelError unless what holds each world is that of the first, moved by its origin."""
        error = np.zeros(self.rows)
        if places.shape[1]:
            off = transform_inverse(transform_multiply(origin[:, None], places[0]))
            error = np.abs(transform_multiply(off, places)[..., :6]).max(axis=(1, 2))
        if points.shape[1]:
            off = np.abs(transform_point(origin[:, None], points[0]) - points).max(axis=(1, 2))
            error = np.maximum(error, off)
        reach = max([1.0, *(float(np.abs(x[..., :3]).max()) for x in (places, points) if x.size)])
        if error.max() > _PLACE_TOLERANCE * reach:
            raise ModelError(
                f"world {int(np.argmax(error))} is not world 0 moved as a whole, "
                "and worlds that MuJoCo steps separately must be copies of each other"
            )
        gravity = np.broadcast_to(self.host.model.gravity, (self.rows, 3))
        turned = np.abs(quat_rotate(origin[:, 3:], gravity) - gravity).max(axis=1)
        if turned.max() > _PLACE_TOLERANCE * max(1.0, np.abs(gravity).max()):
            raise ModelError(f"world {int(np.argmax(turned))} is turned against gravity")


def _tendon_owners(host: HostModel) -> dict[str, np.ndarray]:
    """World of each tendon, of each element of a path, and of each equality between tendons."""
    model = host.model
    tendon = tendon_worlds(model) if model.tendon_count else np.zeros(0, np.int64)
    sizes = np.diff(np.append(host.tendon_start, model.tendon_element_count)).astype(np.int64)
    first = host.tendon_equality_tendons.reshape(-1, 2)[:, 0].astype(np.int64)
    return {
        "tendon": tendon,
        "tendon_element": np.repeat(tendon, sizes) if model.tendon_count else tendon,
        "tendon_equality": tendon[first] if len(first) else first,
    }


def _lengths(starts) -> tuple[np.ndarray, np.ndarray]:
    values = np.zeros(1, int) if starts is None else starts.numpy()
    return np.diff(values), values[:-1]


def _check_shared_shapes(host: HostModel, origin: np.ndarray) -> None:
    """Raise ModelError unless the shapes of the global world look the same from all worlds."""
    far = np.abs(origin - IDENTITY).max(axis=1) > _PLACE_TOLERANCE
    if not far.any():
        return
    rules = host.model.contact_rules
    ground = host.model.ground_shape
    for shape in np.flatnonzero(host.shape_world < 0).tolist():
        if not rules.collides[shape] and shape != ground:
            continue
        pose, scale = host.shape_transform[shape], host.shape_geo_scale[shape]
        normal = quat_rotate(pose[3:], [0.0, 1.0, 0.0])
        endless = host.shape_geo_type[shape] == GeoType.PLANE and not scale[:2].any()
        along = np.abs(origin[:, :3] @ normal).max()
        turned = np.abs(quat_rotate(origin[:, 3:], np.tile(normal, (len(origin), 1))) - normal).max()
        if not endless or max(along, turned) > _PLACE_TOLERANCE:
            raise ModelError(
                f"{host.label('shape', shape)}: worlds are at different places relative to it; give each "
                "world its own, or pass separate_envs_to_worlds=False"
            )
