"""A model as bytes, and the same model restored from them, on any device."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import warp as wp

from newtonsim.builder.actuators import ActuatorLaw
from newtonsim.builder.finalize import world_starts
from newtonsim.collision.contacts import Contacts
from newtonsim.errors import RecordingError
from newtonsim.kernels.views.structs import ModelShapeGeometry, ModelShapeMaterials
from newtonsim.render.recordings.geometry import plain_source, restored_source
from newtonsim.render.recordings.worlds import WorldSelection
from newtonsim.runtime.devices import find_device
from newtonsim.scene.allocation import put
from newtonsim.scene.arrays import COUNTS, SOFT_CONTACT_ARRAYS, SPECS
from newtonsim.scene.columns import Column, distinct
from newtonsim.scene.model import ContactRules, Model
from newtonsim.scene.revisions import counted

_TYPES = {
    dtype.__name__: dtype
    for dtype in (
        *(wp.float32, wp.int32, wp.uint32, wp.uint8, wp.vec3, wp.transform, wp.spatial_vector),
        *(wp.mat22, wp.mat33),
    )
}
_RECORDS = {"rules": ContactRules, "actuator_law": ActuatorLaw}
_STRUCTS = {"shape_materials": ModelShapeMaterials, "shape_geo": ModelShapeGeometry}
_MADE_ANEW = {
    "device",
    "requires_grad",
    "revision",
    "_kept",
    "_cached",
    "_contact_buffers",
    "_ground_plane",
    "gravity_vec",
    "soft_contact_count",
    "soft_contact_tids",
}
_MADE_ANEW |= {spec.name for spec in SOFT_CONTACT_ARRAYS}
_ROWS_OF = {
    "particle_inv_mass": "particle",
    "particle_colors": "particle",
    "body_inv_mass": "body",
    "body_inv_inertia": "body",
    "shape_collision_radius": "shape",
}
_STARTS = {
    "joint_q_start": ("joint", "coord"),
    "joint_qd_start": ("joint", "dof"),
    "muscle_start": ("muscle", "muscle_point"),
}


@dataclass(frozen=True)
class _DeviceArray:
    """The contents of a Warp array."""

    values: np.ndarray
    dtype: type


def pack_model(model: Model, selection: WorldSelection) -> bytes:
    """Return all that makes up some worlds of a model, including the files of textures.

    Args:
        model: The model.
        selection: The worlds.

    Raises:
        RecordingError: Something in it cannot be stored.
    """
    own = vars(Model("cpu")).keys() - _MADE_ANEW
    held = {name: _on_host(value) for name, value in vars(model).items() if name in own}
    held["_gravity"] = model.gravity  # which kernels may have changed
    if not selection.whole:
        held = _Selected(model, selection, held).attributes()
    packer = _Packer()
    sources, place = distinct(held.pop("shape_geo_src"))
    textures = {path for path in held["shape_texture"] if path is not None and os.path.isfile(path)}
    tree = {
        "attributes": {name: packer.plain(value) for name, value in held.items()},
        "sources": [packer.plain(plain_source(source)) for source in sources],
        "source_of_shape": packer.plain(place),
        "textures": {path: packer.plain(np.fromfile(path, np.uint8)) for path in sorted(textures)},
    }
    return packer.packed(tree)


def unpack_model(data: bytes, device: wp.DeviceLike = None) -> Model:
    """Restore the model that `pack_model` packed.

    Args:
        data: The bytes.
        device: Where it lives.
    """
    unpacker = _Unpacker(data, find_device(device))
    tree = unpacker.tree
    model = Model(unpacker.device, Contacts)
    for name, plain in tree["attributes"].items():
        value = unpacker.value(plain)
        setattr(model, name, _struct(_STRUCTS[name], value) if name in _STRUCTS else value)
    model.gravity = unpacker.value(tree["attributes"]["_gravity"])
    sources = [restored_source(unpacker.value(plain)) for plain in tree["sources"]]
    place = unpacker.value(tree["source_of_shape"])
    model.shape_geo_src = [sources[number] for number in place]
    model.shape_geo.source = put(_source_ids(model, sources)[place], dtype=wp.uint64, device=model.device)
    textures = {path: unpacker.value(plain) for path, plain in tree["textures"].items()}
    if textures:
        _write_textures(model, textures)
    return model


def _on_host(value: Any) -> Any:
    """Replace Warp arrays and structs of them by their contents."""
    if isinstance(value, wp.array):
        return _DeviceArray(value.numpy().copy(), value.dtype)
    if isinstance(value, list) and value and isinstance(value[0], wp.array):
        return [_on_host(item) for item in value]
    struct = getattr(value, "_cls", None)
    if struct is not None:
        return {name: _on_host(getattr(value, name)) for name in struct.vars if name != "source"}
    return value


def _struct(struct: wp.Struct, fields: dict[str, wp.array]) -> object:
    view = counted(struct)
    for name, array in fields.items():
        setattr(view, name, array)
    return view


def _source_ids(model: Model, sources: list) -> np.ndarray:
    """Put meshes and fields on the device and return their ids."""
    ids = np.zeros(len(sources), np.uint64)
    for number, source in enumerate(sources):
        if source is not None:
            ids[number] = source.finalize(model.device)
            model.keep_alive(getattr(source, "mesh", source))
    return ids


def _write_textures(model: Model, textures: dict[str, np.ndarray]) -> None:
    """Write images to a folder that lasts as long as the model, and let its shapes name them."""
    folder = tempfile.mkdtemp(prefix="newtonsim_textures_")
    weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)
    places = {}
    for number, (path, content) in enumerate(textures.items()):
        places[path] = os.path.join(folder, f"{number}_{os.path.basename(path)}")
        content.tofile(places[path])
    model.shape_texture = [places.get(path, path) for path in model.shape_texture]


class _Selected:
    """The attributes of some worlds, in terms of their own elements."""

    def __init__(self, model: Model, selection: WorldSelection, held: dict[str, Any]):
        self.model, self.selection, self.held = model, selection, dict(held)
        self.rows = selection.rows

    def attributes(self) -> dict[str, Any]:
        """Return them by name."""
        held, chosen = self.held, self.selection
        for name, spec in SPECS.items():
            if name in held and not spec.host:
                held[name] = self._rows(held[name], spec.per, spec.index_of, spec.flat)
        for name, per in _ROWS_OF.items():
            held[name] = self._rows(held[name], per)
        held["joint_ancestor"] = self._rows(held["joint_ancestor"], "joint", "joint")
        for name in _STRUCTS:
            held[name] = {field: self._rows(array, "shape") for field, array in held[name].items()}
        for name, (per, of) in _STARTS.items():
            starts = held[name].values
            ends = np.append(starts[self.rows[per]], starts[-1])
            held[name] = _DeviceArray(chosen.renumber(of, ends), wp.int32)
        for kind, count in COUNTS.items():
            held[count] = len(self.rows[kind])
        self._select_articulations()
        self._select_contacts()
        self._select_worlds()
        self._select_named()
        return held

    def _rows(self, value: Any, per: str, index_of: str | None = None, flat: int = 1) -> Any:
        """Return the chosen rows of an array or list, with indices renumbered."""
        rows = self.rows[per]
        if not isinstance(value, _DeviceArray):
            return [value[row] for row in rows.tolist()]
        values = value.values.reshape(-1, flat)[rows].reshape(-1) if flat > 1 else value.values[rows]
        if index_of is not None:
            values = self.selection.renumber(index_of, values)
        return _DeviceArray(values, value.dtype)

    def _select_worlds(self) -> None:
        """Renumber the worlds; in a model of a single world, everything but the ground belongs to it."""
        held, worlds = self.held, self.selection.worlds
        held |= {"num_envs": len(worlds), "world_count": len(worlds)}
        if self.model.gravity_per_world:
            held["_gravity"] = held["_gravity"][worlds]
        for kind in ("body", "joint", "shape", "particle"):
            old = held[f"{kind}_world"].values
            new = np.where(old < 0, old, np.searchsorted(worlds, old)).astype(np.int32)
            if len(worlds) == 1:
                new[:] = 0
            if kind == "shape" and held["ground_shape"] >= 0:
                new[held["ground_shape"]] = -1
            held[f"{kind}_world"] = _DeviceArray(new, wp.int32)
            held[f"world_{kind}_start"] = world_starts(new, len(worlds))
        joints = held["world_joint_start"]
        held["world_coord_start"] = held["joint_q_start"].values[joints]
        held["world_dof_start"] = held["joint_qd_start"].values[joints]

    def _select_articulations(self) -> None:
        held, joints = self.held, self.rows["joint"]
        starts = held["articulation_start"].values
        kept = np.flatnonzero((np.diff(starts) > 0) & np.isin(starts[:-1], joints))
        ends = self.selection.renumber("joint", np.append(starts[kept], starts[-1]))
        held["articulation_start"] = _DeviceArray(ends, wp.int32)
        held["articulation_key"] = [held["articulation_key"][k] for k in kept.tolist()]
        held["articulation_count"] = len(kept)

    def _select_contacts(self) -> None:
        held, chosen, rows = self.held, self.selection, self.rows["shape"]
        held["ground_shape"] = int(chosen.renumber("shape", np.array([held["ground_shape"]]))[0])
        rules: ContactRules = held["contact_rules"]
        keys = self._pairs(np.stack(np.divmod(rules.filter_keys, max(self.model.shape_count, 1)), axis=1))
        fields = [getattr(rules, name)[rows] for name in ("group", "collides", "meets_ground")]
        rigid = chosen.renumber("body", rules.rigid[rows])
        held["contact_rules"] = ContactRules(rigid, *fields, keys[:, 0] * len(rows) + keys[:, 1])
        for name in ("shape_contact_pairs", "shape_ground_contact_pairs"):
            if held[name] is not None:
                pairs = self._pairs(held[name].values.reshape(-1, 2))
                held[name] = _DeviceArray(pairs, wp.int32)
                held[name.removesuffix("s") + "_count"] = len(pairs)

    def _pairs(self, pairs: np.ndarray) -> np.ndarray:
        """Return the pairs of chosen shapes."""
        return self.selection.renumber("shape", pairs[self.selection.has("shape", pairs).all(axis=1)])

    def _select_named(self) -> None:
        held, chosen = self.held, self.selection
        numbers = partial(self._number, kind="joint")
        held["joint_mimic"] = [
            (numbers(joint), numbers(other), factor, offset)
            for joint, other, factor, offset in held["joint_mimic"]
            if joint in self.rows["joint"]
        ]
        held["sites"] = [
            {**site, "body": self._number(site["body"], "body")}
            for site in held["sites"]
            if site["body"] < 0 or site["body"] in self.rows["body"]
        ]
        held["keyframes"] = [
            {name: self._frame_part(name, value) for name, value in frame.items()}
            for frame in held["keyframes"]
            if self._world_of(frame) in chosen.worlds
        ]
        groups = [group.values for group in held["particle_color_groups"]]
        held["particle_color_groups"] = [
            _DeviceArray(chosen.renumber("particle", group[np.isin(group, self.rows["particle"])]), wp.int32)
            for group in groups
        ]

    def _number(self, old: int, kind: str) -> int:
        return int(self.selection.renumber(kind, np.array([old]))[0])

    def _world_of(self, frame: dict) -> int:
        """Return the world that a keyframe is for."""
        starts = np.asarray(self.model.world_coord_start)
        return int(np.searchsorted(starts, frame.get("coord_start", 0), side="right")) - 1

    def _frame_part(self, name: str, value: Any) -> Any:
        """Return a part of a keyframe, which says where its values belong."""
        kind = name.removesuffix("_start")
        return self._number(value, kind) if kind != name else value


class _Packer:
    """Converts values to JSON, with arrays stored separately."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}

    def packed(self, tree: dict) -> bytes:
        """Return the bytes of a tree from `plain`, with the arrays."""
        memory = io.BytesIO()
        text = np.frombuffer(json.dumps(tree).encode(), np.uint8)
        named = {f"array_{number}": array for number, array in enumerate(self._arrays)}
        np.savez_compressed(memory, tree=text, **named)
        return memory.getvalue()

    def plain(self, value: Any) -> Any:
        """Return a value as JSON."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, (list, tuple, Column)):
            items = [self.plain(item) for item in value]
            return {"tuple": items} if isinstance(value, tuple) else items
        if isinstance(value, dict):
            return {"dict": {str(name): self.plain(item) for name, item in value.items()}}
        if isinstance(value, _DeviceArray) and value.dtype.__name__ in _TYPES:
            return {"array": self._add(value.values), "type": value.dtype.__name__}
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return {"array": self._add(value)}
        for name, record in _RECORDS.items():
            if isinstance(value, record):
                return {name: {field: self.plain(part) for field, part in vars(value).items()}}
        if type(value).__name__ in _TYPES:
            return {"value": type(value).__name__, "items": [float(x) for x in value]}
        raise RecordingError(f"a {type(value).__name__} in the model cannot be recorded: {value!r:.80}")

    def _add(self, array: np.ndarray) -> int:
        """Store an array once, such as an image that many meshes use."""
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self._arrays)
            self._arrays.append(array)
        return self._numbers[id(array)]


class _Unpacker:
    """Reverses what `_Packer` does."""

    def __init__(self, data: bytes, device: wp.Device):
        self.device = device
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            self.tree = json.loads(arrays["tree"].tobytes())
            self._arrays = [arrays[f"array_{number}"] for number in range(len(arrays.files) - 1)]

    def value(self, plain: Any) -> Any:
        """Return the value."""
        if isinstance(plain, list):
            return [self.value(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        if "array" in plain:
            values = self._arrays[plain["array"]]
            if "type" not in plain:
                return values
            return put(values, dtype=_TYPES[plain["type"]], device=self.device)
        if "value" in plain:
            return _TYPES[plain["value"]](*plain["items"])
        if "tuple" in plain:
            return tuple(self.value(item) for item in plain["tuple"])
        ((kind, parts),) = plain.items()
        held = {name: self.value(part) for name, part in parts.items()}
        return held if kind == "dict" else _RECORDS[kind](**held)
