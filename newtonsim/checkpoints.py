"""Checkpoints: all that the next step of a simulation reads, in memory and in files.

They contain the arrays of state, control and solver (impulses of contacts and joints, sleep, servos, marks of
non-finite worlds), the arrays and numbers of the model, which users and randomisation change, and what
objects keep on the host (`newtonsim.scene.snapshot.HostMemory`). A run that continues from a checkpoint is
the same bit for bit, also in another process and on another machine of the same kind with the same versions.
"""

from __future__ import annotations

import math
import os
import platform
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import warp as wp

from newtonsim._version import __version__
from newtonsim.errors import CheckpointError, NewtonsimError
from newtonsim.scene.arrays import COUNTS
from newtonsim.scene.checkpoint_file import read_file, write_file
from newtonsim.scene.model import NUMBERS, Model
from newtonsim.scene.snapshot import (
    HostMemory,
    HostValues,
    Snapshot,
    distinct_arrays,
    find_hosts,
    find_places,
)

_NUMBERS = ("bodies_may_be_absent", "particle_max_radius", *NUMBERS)
"""Numbers of a model that may change between steps."""


class ModelMemory:
    """The arrays and numbers of a model that may change between steps, as a part of a checkpoint.

    Ids of meshes, which mean nothing to another process, and what was computed from the model are left out.

    Args:
        model: The model.
    """

    def __init__(self, model: Model):
        self._model = model
        arrays = {name: value for name, value in vars(model).items() if isinstance(value, wp.array)}
        for struct in ("shape_materials", "shape_geo"):
            view = getattr(model, struct)
            if view is not None:
                arrays |= {f"{struct}.{name}": getattr(view, name) for name in view._cls.vars}
        self.arrays = arrays

    def host_memory(self) -> HostValues:
        """See `HostMemory`."""
        model = self._model
        numbers: HostValues = {name: getattr(model, name) for name in _NUMBERS}
        return numbers | {"gravity": model.gravity, "ground": model.ground}

    def recall(self, memory: HostValues) -> None:
        """See `HostMemory`."""
        for name, value in memory.items():
            if not np.array_equal(getattr(self._model, name), value):  # pyright: ignore[reportArgumentType]
                setattr(self._model, name, value)


class HostPart:
    """A part of a checkpoint that two functions read and write.

    Args:
        read: Returns the values.
        write: Restores them.
    """

    def __init__(self, read: Callable[[], HostValues], write: Callable[[HostValues], None]):
        self._read, self._write = read, write

    def host_memory(self) -> HostValues:
        """See `HostMemory`."""
        return self._read()

    def recall(self, memory: HostValues) -> None:
        """See `HostMemory`."""
        self._write(memory)


class Memory:
    """The contents of a checkpoint of a simulation.

    Args:
        owners: Objects whose arrays and host values belong to it, by name.
        model: The model of the simulation.
        skip: Objects that are not searched, since no step reads them.
        about: What must be the same where the checkpoint is restored, such as the options of the solver.
    """

    def __init__(
        self,
        owners: Mapping[str, object],
        model: Model,
        skip: tuple[object, ...] = (),
        about: Mapping[str, Any] | None = None,
    ):
        self._owners = {**owners, "model": ModelMemory(model)}
        self._skip = (model, *skip)
        self._about = {
            **{name: getattr(model, name) for name in ("world_count", *COUNTS.values())},
            **(about or {}),
        }

    def snapshot(self) -> Snapshot:
        """Return a copy of everything in memory."""
        return Snapshot(*self._owners.values(), skip=self._skip)

    def save(self, path: str | os.PathLike) -> None:
        """Write everything to a file, completely or not at all.

        Raises:
            CheckpointError: The file cannot be written.
        """
        arrays = {f"array/{name}": _values(array) for name, array in self._arrays().items()}
        host: dict[str, dict[str, Any]] = {}
        for name, item in self._hosts().items():
            host[name] = {}
            for key, value in item.host_memory().items():
                if isinstance(value, np.ndarray):
                    arrays[f"host/{name}/{key}"] = value
                else:
                    host[name][key] = value
        write_file(path, {"about": self._about, "host": host, "made_by": _versions()}, arrays)

    def restore(self, path: str | os.PathLike) -> None:
        """Restore everything from a file; nothing is changed unless all of it fits.

        Raises:
            CheckpointError: The file cannot be read or is damaged, or belongs to another simulation.
        """
        facts, held = read_file(path)
        path = os.fsdecode(path)
        targets, hosts = self._arrays(), self._hosts()
        memories = _host_values(path, facts, held)
        _check_about(path, facts.get("about", {}), self._about)
        _check_names(path, "objects", set(memories), set(hosts))
        given = {name.removeprefix("array/"): a for name, a in held.items() if name.startswith("array/")}
        _check_names(path, "arrays", set(given), set(targets))
        for name, array in targets.items():
            own = _values(array)
            if own.shape != given[name].shape or own.dtype.newbyteorder("<") != given[name].dtype:
                now = f"{own.dtype} {own.shape}"
                raise CheckpointError(
                    f"{path}: {name} is {given[name].dtype} {given[name].shape}, here {now}"
                )
        for name, item in hosts.items():
            _check_values(f"{path}: {name}", memories[name], item.host_memory())
        _warn_of_versions(path, facts.get("made_by"))
        _recall(path, hosts, memories)
        for name, array in targets.items():
            _write(array, given[name])

    def _arrays(self) -> dict[str, wp.array]:
        names = list(self._owners)
        found = distinct_arrays(find_places(*self._owners.values(), skip=self._skip))
        return {
            "/".join([names[int(place[0])], *map(str, place[1:])]): array
            for place, array in found.items()
            if not _is_address(array)
        }

    def _hosts(self) -> dict[str, HostMemory]:
        names = list(self._owners)
        return {
            "/".join([names[int(place[0])], *map(str, place[1:])]): item
            for place, item in find_hosts(*self._owners.values(), skip=self._skip)
        }


def options_of(solver: object) -> dict[str, Any]:
    """Return class and options of a solver: the plain public attributes of it and of its `options`."""
    found: dict[str, Any] = {"solver": type(solver).__name__}
    for prefix, owner in (("", solver), ("options.", getattr(solver, "options", None))):
        for name, value in vars(owner).items() if owner is not None else ():
            if name[0] != "_" and name != "revision" and isinstance(value, (bool, int, float, str)):
                found[prefix + name] = value
    return found


def _is_address(array: wp.array) -> bool:
    """Whether entries are ids of meshes or hold pointers, which mean nothing to another process."""
    if array.dtype is wp.uint64:
        return True
    members = getattr(array.dtype, "vars", None)
    return isinstance(members, dict) and any(wp.types.is_array(v.type) for v in members.values())


def _values(array: wp.array) -> np.ndarray:
    """Return the contents as numbers, of structs as bytes; on the CPU without a copy."""
    values = array.numpy()
    return values if values.dtype.names is None else values.reshape(-1).view(np.uint8)


def _write(array: wp.array, values: np.ndarray) -> None:
    if array.device.is_cpu:  # pyright: ignore[reportOptionalMemberAccess]
        _values(array)[...] = values
        return
    kind = array.numpy().dtype
    array.assign(values if kind.names is None else values.copy().view(kind).reshape(array.shape))


def _host_values(path: str, facts: dict[str, Any], held: dict[str, np.ndarray]) -> dict[str, HostValues]:
    host = facts.get("host")
    if not isinstance(host, dict) or not all(isinstance(values, dict) for values in host.values()):
        raise CheckpointError(f"{path}: the header of the file is invalid: no values of the host")
    found: dict[str, HostValues] = {name: dict(values) for name, values in host.items()}
    for name, array in held.items():
        if name.startswith("host/"):
            owner, _, key = name.removeprefix("host/").rpartition("/")
            found.setdefault(owner, {})[key] = array.copy()
    return found


def _check_about(path: str, given: object, own: dict[str, Any]) -> None:
    if not isinstance(given, dict):
        raise CheckpointError(f"{path}: the header of the file is invalid: {given!r}")
    for name in {**own, **given}:
        if given.get(name) != own.get(name):
            raise CheckpointError(
                f"{path}: of another simulation: {name} was {given.get(name)!r}, here {own.get(name)!r}"
            )


def _check_names(path: str, what: str, given: set[str], own: set[str]) -> None:
    for names, text in (
        (given - own, "this simulation does not have"),
        (own - given, "the file does not have"),
    ):
        if names:
            some = ", ".join(sorted(names)[:3])
            raise CheckpointError(f"{path}: {len(names)} {what} {text}: {some}; create both in the same way")


def _check_values(where: str, given: HostValues, own: HostValues) -> None:
    """Check that values are those that an object has, with the same types."""
    _check_names(where, "values", set(given), set(own))
    for name, value in given.items():
        if not _is_like(value, own[name]):
            raise CheckpointError(f"{where}: {name} is {value!r:.80}, here {own[name]!r:.80}")


def _recall(path: str, hosts: dict[str, HostMemory], memories: dict[str, HostValues]) -> None:
    """Give objects their values; if one refuses them, all keep those that they had."""
    before: dict[str, HostValues] = {}
    try:
        for name, item in hosts.items():
            before[name] = item.host_memory()
            item.recall(memories[name])
    except NewtonsimError as refusal:
        for name, values in before.items():
            hosts[name].recall(values)
        raise CheckpointError(f"{path}: {name}: {refusal}") from refusal


def _is_like(given: Any, own: Any) -> bool:
    if isinstance(own, np.ndarray) or isinstance(given, np.ndarray):
        given, own = np.asarray(given), np.asarray(own)
        return given.dtype.kind in "biuf" and given.shape == own.shape
    if isinstance(own, (list, tuple)):
        return isinstance(given, list) and len(given) == len(own) and all(map(_is_like, given, own))
    if isinstance(own, bool):
        return isinstance(given, bool)
    if isinstance(own, (int, float)):
        return isinstance(given, (int, float)) and not isinstance(given, bool) and _fits(given)
    return given is None or isinstance(given, str if own is None else type(own))


def _fits(number: float) -> bool:
    """Whether a number of a file is one that Python can calculate with; an integer may have any size."""
    try:
        return not math.isnan(number)
    except OverflowError:
        return False


def _versions() -> dict[str, str]:
    return {"newtonsim": __version__, "warp": wp.config.version, "machine": platform.machine()}


def _warn_of_versions(path: str, made_by: object) -> None:
    if made_by != _versions():
        warnings.warn(
            f"{path}: made by {made_by}, restored by {_versions()}: later steps may differ in the last bits",
            UserWarning,
            stacklevel=4,
        )
