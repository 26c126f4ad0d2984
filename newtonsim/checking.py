"""What a checked step looks for: non-finite numbers, quaternions that are not rotations, full buffers.

And what every Simulator looks for once: gains that no drive uses.

See `newtonsim.runtime.checked`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.errors import BufferWarning, CheckError, UnusedGainsWarning
from newtonsim.scene.arrays import CONTROL_ARRAYS, STATE_ARRAYS
from newtonsim.scene.description import HostView, name_of
from newtonsim.scene.enums import JointMode, JointType
from newtonsim.scene.joint_types import JOINT_KINDS

if TYPE_CHECKING:
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

UNIT_TOLERANCE = 1.0e-3
"""Largest deviation of a quaternion's length from 1: solvers normalise them in every step."""
_MOST_NAMED = 3
"""Number of joints that a warning names."""
_STARTS = {"coord": "joint_q_start", "dof": "joint_qd_start", "axis": "joint_axis_start"}


class Stepping(Protocol):
    """What is needed of a `Simulator`."""

    model: Model
    solver: Any

    @property
    def state(self) -> State:
        """The current state."""
        ...

    @property
    def control(self) -> Control:
        """The inputs that every step reads."""
        ...

    @property
    def dt(self) -> float:
        """Time of one step [s]."""
        ...

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        ...


def check_simulator(simulator: Stepping) -> None:
    """Check state, control and contacts of a Simulator as they are now.

    Raises:
        CheckError: Something is wrong; the message names the step, the world and the element.
    """
    when = _when(simulator)
    check_arrays(simulator.model, simulator.state, simulator.control, when)
    contacts = getattr(simulator.solver, "contacts", None)
    if isinstance(contacts, Contacts):
        _check_contacts(HostView(simulator.model), contacts, when)


def step_once(simulator: Stepping, step: Callable[[int], None]) -> None:
    """Make one step in which a full buffer is an error.

    Raises:
        CheckError: A buffer is full; the message says how much room is needed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", BufferWarning)
            step(1)
            simulator.solver.report()
    except BufferWarning as full:
        raise CheckError(f"{_when(simulator)}: {full}") from full


def check_arrays(model: Model, state: State, control: Control | None, when: str) -> None:
    """Check the numbers of a state and of inputs.

    Args:
        model: The model.
        state: The state.
        control: The inputs, None for none.
        when: Start of the message.

    Raises:
        CheckError: A number is not finite, or a quaternion is not of length 1.
    """
    host = HostView(model)
    for owner, specs in ((state, STATE_ARRAYS), (control, CONTROL_ARRAYS)):
        for spec in specs if owner is not None else ():
            array: wp.array | None = getattr(owner, spec.name)
            if array is None or not array.size:
                continue
            values = array.numpy().reshape(len(array), -1)
            finite = np.isfinite(values).all(axis=1)
            if not finite.all():
                at = int(np.argmin(finite))
                where = _place(host, spec.per, at)
                raise CheckError(f"{when}: {where}: {spec.name} is {values[at].tolist()}, not finite")
    if state.body_q is not None and len(state.body_q):
        _check_units(host, "body", state.body_q.numpy()[:, 3:], np.arange(len(state.body_q)), when)
    if state.joint_q is not None and len(state.joint_q):
        first, joints = model.cached("quaternion coordinates", _quaternion_coordinates)
        _check_units(host, "joint", state.joint_q.numpy()[first[:, None] + np.arange(4)], joints, when)


def _quaternion_coordinates(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return where in `joint_q` quaternions begin, and of which joints they are."""
    kinds = [JOINT_KINDS[JointType(int(kind))] for kind in model.joint_type.numpy()]
    joints = np.array([n for n, kind in enumerate(kinds) if kind.quaternion], int)
    place = np.array([kinds[n].place for n in joints], int)
    return model.joint_q_start.numpy()[joints] + place, joints


def _check_units(model: HostView, kind: str, quaternions: np.ndarray, owners: np.ndarray, when: str) -> None:
    length = np.linalg.norm(quaternions.astype(np.float64), axis=1)
    wrong = np.abs(length - 1.0) > UNIT_TOLERANCE
    if wrong.any():
        at = int(np.argmax(wrong))
        where = _place(model, kind, int(owners[at]))
        raise CheckError(f"{when}: {where}: its quaternion has length {length[at]:g}, expected 1")


def _check_contacts(model: HostView, contacts: Contacts, when: str) -> None:
    for name in ("rigid_contact_shape0", "rigid_contact_shape1"):
        shapes = getattr(contacts, name).numpy()
        outside = (shapes < -1) | (shapes >= model.shape_count)
        if outside.any():
            at = int(np.argmax(outside))
            raise CheckError(
                f"{when}: contact {at}: {name} is {shapes[at]}, expected -1 to {model.shape_count - 1}"
            )


def _when(simulator: Stepping) -> str:
    return f"step {round(simulator.time / simulator.dt)} (t = {simulator.time:g} s)"


def _place(model: HostView, per: str, at: int) -> str:
    """Return world and name of what an entry of an array belongs to."""
    if per in _STARTS:
        at, per = int(np.searchsorted(getattr(model, _STARTS[per]), at, side="right")) - 1, "joint"
    name = f"{per} '{name_of(model, per, at)}'" if per in ("body", "joint") else f"{per} {at}"
    worlds = getattr(model, f"{per}_world", None)
    return name if worlds is None else f"world {worlds[at]}: {name}"


def warn_of_unused_gains(model: Model) -> None:
    """Warn of joints in mode FORCE with gains, which a user who gave no target takes for those of a servo.

    A Simulator asks, not the builder: actuators may have taken the gains as theirs by then.
    """
    if not model.joint_axis_count:
        return
    mode: np.ndarray = model.joint_axis_mode.numpy()
    ke: np.ndarray = model.joint_target_ke.numpy()
    kd: np.ndarray = model.joint_target_kd.numpy()
    unused = np.flatnonzero((mode == int(JointMode.FORCE)) & ((ke > 0.0) | (kd > 0.0)))
    if not len(unused):
        return
    joints = np.searchsorted(model.joint_axis_start.numpy(), unused, side="right") - 1
    names = list(dict.fromkeys(model.joint_key[joint] for joint in joints))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    text = (
        f"joints {shown}{more}: target_ke and target_kd have no effect in "
        "mode FORCE, whose input is an effort; give a target, or a mode such as JOINT_MODE_TARGET_POSITION"
    )
    warnings.warn(text, UnusedGainsWarning, stacklevel=3)
