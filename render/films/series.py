"""Quantities over time from recordings, in NumPy: energies, joint positions, contact forces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import RecordingError, did_you_mean
from newtonsim.geometry.transforms import quat_conjugate, quat_rotate
from newtonsim.render.recordings.worlds import check_worlds
from newtonsim.scene.enums import JointType
from newtonsim.scene.joint_types import FLOATING

if TYPE_CHECKING:
    import warp as wp

    from newtonsim.render.recordings.recording import Recording
    from newtonsim.scene.model import Model

MOST_FRAMES = 2000
"""Largest number of frames of a series, unless frames are given."""

_BLOCK = 64
_QUATERNION = [("quaternion x", ""), ("quaternion y", ""), ("quaternion z", ""), ("quaternion w", "")]
_PLACE = [("x", "m"), ("y", "m"), ("z", "m")]
_TURNING = [("angular velocity x", "rad/s"), ("angular velocity y", "rad/s"), ("angular velocity z", "rad/s")]
_MOVING = [("velocity x", "m/s"), ("velocity y", "m/s"), ("velocity z", "m/s")]


@dataclass(frozen=True)
class Series:
    """A quantity of many worlds over time.

    Attributes:
        name: Name of the element.
        quantity: Name of the quantity.
        unit: SI unit, "" for none.
        values: Shape (frames, worlds).
    """

    name: str
    quantity: str
    unit: str
    values: np.ndarray

    @property
    def label(self) -> str:
        """Quantity and unit."""
        return f"{self.quantity} [{self.unit}]" if self.unit else self.quantity


def chosen_frames(recording: Recording, frames: slice | Sequence[int] | None) -> np.ndarray:
    """Return indices of frames; None for all, or for `MOST_FRAMES` of them spread evenly."""
    numbers = np.arange(len(recording))
    if not len(numbers):
        raise RecordingError(f"{recording.path}: it has no frames")
    if frames is not None:
        return numbers[frames]
    return np.unique(np.linspace(0, len(numbers) - 1, min(MOST_FRAMES, len(numbers))).round().astype(int))


def energies(
    recording: Recording,
    worlds: Iterable[int] | None = None,
    frames: slice | Sequence[int] | None = None,
) -> list[Series]:
    """Return kinetic energy, potential energy in gravity, and their sum, of bodies and particles.

    It excludes springs, drives, elastic materials and armature. The potential is zero at the origin.

    Args:
        recording: Holds positions and velocities.
        worlds: Worlds of the recording; None for all.
        frames: Frames; None for all, or 2000 spread evenly.

    Raises:
        RecordingError: It does not contain them.
    """
    model, numbers = recording.model, chosen_frames(recording, frames)
    chosen = check_worlds(model, worlds)
    kinetic, potential = np.zeros((2, len(numbers), model.world_count))
    for first in range(0, len(numbers), _BLOCK):
        part = slice(first, first + _BLOCK)
        for kind, energy in (("body", _body_energy), ("particle", _particle_energy)):
            if not getattr(model, f"{kind}_count"):
                continue
            moving, high = energy(recording, numbers[part])
            world = getattr(model, f"{kind}_world").numpy()
            mine = world >= 0
            np.add.at(kinetic, (part, world[mine]), moving[:, mine])
            np.add.at(potential, (part, world[mine]), high[:, mine])
    kinetic, potential = kinetic[:, chosen], potential[:, chosen]
    parts = {"kinetic": kinetic, "potential": potential, "total": kinetic + potential}
    return [Series(name, "energy", "J", values) for name, values in parts.items()]


def joint_series(
    recording: Recording,
    joints: Sequence[str] | None = None,
    worlds: Iterable[int] | None = None,
    frames: slice | Sequence[int] | None = None,
    velocities: bool = False,
) -> list[Series]:
    """Return the coordinates of joints.

    Args:
        recording: Holds joint_q, or joint_qd.
        joints: Names of joints, as in `Model.joint_key`; None for all.
        worlds: Worlds of the recording, with the same joints; None for all.
        frames: Frames; None for all, or 2000 spread evenly.
        velocities: Whether to return velocities.

    Raises:
        RecordingError: It does not contain them, a joint does not exist, or worlds have different joints.
    """
    model = recording.model
    chosen = check_worlds(model, worlds)
    layouts = [_coordinates(model, world, velocities) for world in chosen.tolist()]
    alike = [[entry[:4] for entry in layout] for layout in layouts]
    for world, layout in zip(chosen, alike):
        if layout != alike[0]:
            raise RecordingError(
                f"worlds {chosen[0]} and {world} have different joints: choose worlds with equal joints"
            )
    known = Counter(entry[0] for entry in layouts[0])
    for name in joints or ():
        if name not in known:
            raise RecordingError(f"there is no joint {name!r}{_similar(name, known)}")
    values = recording.series("joint_qd" if velocities else "joint_q", chosen_frames(recording, frames))
    return [
        Series(f"{joint} {part}".rstrip(), quantity, unit, values[:, [layout[k][4] for layout in layouts]])
        for k, (joint, part, quantity, unit, _) in enumerate(layouts[0])
        if joints is None or joint in joints
    ]


def _similar(name: str, known: Counter[str]) -> str:
    """Return a suggestion for an unknown name of a joint.

    Args:
        name: The name.
        known: Coordinates of each joint. Importers join the names of axes that share a joint.
    """
    within = next((key for key, count in known.items() if count > 1 and name in key), None)
    return did_you_mean(name, known) if within is None else f"; did you mean an axis of {within!r}?"


def contact_series(
    recording: Recording,
    bodies: Sequence[str] | None = None,
    worlds: Iterable[int] | None = None,
    frames: slice | Sequence[int] | None = None,
) -> list[Series]:
    """Return the contact forces on bodies, after their total upward component.

    Args:
        recording: A recording made with `Recorder(..., solver=solver)`.
        bodies: Names of bodies, as in `Model.body_key`; None for all that touch something.
        worlds: Worlds of the recording, with the same bodies; None for all.
        frames: Frames; None for all, or 2000 spread evenly.

    Raises:
        RecordingError: It contains no contact forces, a body does not exist, or worlds have different bodies.
    """
    if "body_contact_f" not in recording.fields:
        raise RecordingError(f"{recording.path}: no contact forces; record with Recorder(..., solver=solver)")
    model = recording.model
    chosen, keys, world = check_worlds(model, worlds), list(model.body_key), model.body_world.numpy()
    rows = [np.flatnonzero(world == number) for number in chosen]
    names = [[keys[row] for row in mine] for mine in rows]
    for number, mine in zip(chosen, names):
        if mine != names[0]:
            raise RecordingError(
                f"worlds {chosen[0]} and {number} have different bodies: choose worlds with equal bodies"
            )
    for name in bodies or ():
        if name not in names[0]:
            raise RecordingError(f"there is no body {name!r}{did_you_mean(name, names[0])}")
    force = recording.series("body_contact_f", chosen_frames(recording, frames)).astype(np.float64)
    force = force[:, np.array(rows, int)]  # (frames, worlds, bodies, 3)
    size = np.linalg.norm(force, axis=-1)
    up = (force @ np.asarray(model.up_vector)).sum(axis=2)
    parts = [Series("all bodies, upwards", "contact force", "N", up)]
    for k, name in enumerate(names[0]):
        if name in bodies if bodies is not None else size[:, :, k].any():
            parts.append(Series(name, "contact force", "N", size[:, :, k]))
    return parts


def _body_energy(recording: Recording, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return kinetic and potential energy of all bodies, shape (frames, bodies)."""
    model = recording.model
    pose, velocity = (recording.series(name, frames).astype(np.float64) for name in ("body_q", "body_qd"))
    mass, com = (array.numpy().astype(np.float64) for array in (model.body_mass, model.body_com))
    inertia = model.body_inertia.numpy().astype(np.float64)
    turning = quat_rotate(quat_conjugate(pose[..., 3:]), velocity[..., :3])
    kinetic = 0.5 * mass * np.sum(velocity[..., 3:] ** 2, axis=-1)
    kinetic += 0.5 * np.einsum("fbi,bij,fbj->fb", turning, inertia, turning)
    place = pose[..., :3] + quat_rotate(pose[..., 3:], np.broadcast_to(com, pose[..., :3].shape))
    return kinetic, -mass * _along_gravity(place, model, model.body_world)


def _particle_energy(recording: Recording, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return kinetic and potential energy of all particles, shape (frames, particles)."""
    names = ("particle_q", "particle_qd")
    place, velocity = (recording.series(name, frames).astype(np.float64) for name in names)
    mass = recording.model.particle_mass.numpy().astype(np.float64)
    return 0.5 * mass * np.sum(velocity**2, axis=-1), -mass * _along_gravity(
        place, recording.model, recording.model.particle_world
    )


def _along_gravity(place: np.ndarray, model: Model, worlds: wp.array) -> np.ndarray:
    """Return places (frames, n, 3) times the gravity of their worlds, shape (frames, n)."""
    gravity = model.gravity
    if model.gravity_per_world:
        return np.sum(place * gravity[np.maximum(worlds.numpy(), 0)], axis=-1)
    return place @ gravity


def _coordinates(model: Model, world: int, velocities: bool) -> list[tuple[str, str, str, str, int]]:
    """Return joint, part, quantity, unit and place of every coordinate of a world."""
    start = (model.joint_qd_start if velocities else model.joint_q_start).numpy()
    kinds, dims = model.joint_type.numpy(), model.joint_axis_dim.numpy()
    found = []
    for joint in range(*model.world_joint_start[world : world + 2].tolist()):
        parts = _parts(JointType(int(kinds[joint])), *dims[joint].tolist(), velocities)
        places = range(int(start[joint]), int(start[joint + 1]))
        for (part, quantity, unit), place in zip(parts, places, strict=True):
            found.append((model.joint_key[joint], part, quantity, unit, place))
    return found


def _parts(kind: JointType, linear: int, angular: int, velocities: bool) -> list[tuple[str, str, str]]:
    """Return part, quantity and unit of the coordinates of a joint."""
    quantity = "velocity" if velocities else "position"
    if kind in FLOATING:
        parts = _TURNING + _MOVING if velocities else _PLACE + _QUATERNION
    elif kind == JointType.BALL:
        parts = _TURNING if velocities else _QUATERNION
    else:
        units = ["m"] * linear + ["rad"] * angular
        names = [str(number) if len(units) > 1 else "" for number in range(len(units))]
        parts = [(name, unit + "/s" * velocities) for name, unit in zip(names, units)]
    return [(part, quantity, unit) for part, unit in parts]
