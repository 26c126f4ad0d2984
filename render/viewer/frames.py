"""What is shown at one moment, on the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.render.marks import ContactMarks

if TYPE_CHECKING:
    import warp as wp

    from newtonsim.collision.contacts import Contacts
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

_ORIGIN = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


@dataclass(frozen=True)
class ContactPoints:
    """Contacts of all worlds.

    Attributes:
        world: World of each, shape (n,).
        point: Touching points in the world [m], shape (n, 3).
        normal: From shape 1 to shape 0, shape (n, 3).
        force: On shape 0 [N], shape (n, 3); None if not known.
    """

    world: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    force: np.ndarray | None


@dataclass(frozen=True)
class Frame:
    """Copies of the arrays of a state.

    Attributes:
        time: Simulated time [s].
        body_q: Shape (bodies, 7); poses that are not finite are at the origin.
        body_qd: Shape (bodies, 6).
        joint_q: Shape (coordinates,).
        particle_q: Shape (particles, 3), likewise.
        joint_act: Control inputs, shape (axes,); None if not known.
        contacts: None if not known.
        lost: Number of bodies and particles that are not finite.
    """

    time: float = 0.0
    body_q: np.ndarray = field(default_factory=lambda: np.zeros((0, 7)))
    body_qd: np.ndarray = field(default_factory=lambda: np.zeros((0, 6)))
    joint_q: np.ndarray = field(default_factory=lambda: np.zeros(0))
    particle_q: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    joint_act: np.ndarray | None = None
    contacts: ContactPoints | None = None
    lost: int = 0

    @classmethod
    def of(
        cls,
        state: State,
        time: float,
        control: Control | None = None,
        contacts: ContactPoints | None = None,
    ) -> Frame:
        """Copy a state; waits for its device."""
        act = None if control is None or control.joint_act is None else control.joint_act
        body_q, particle_q = _copy(state.body_q, 7), _copy(state.particle_q, 3)
        return cls(
            time,
            body_q,
            _copy(state.body_qd, 6),
            _copy(state.joint_q, 0),
            particle_q,
            None if act is None else _copy(act, 0),
            contacts,
            _put_back(body_q, _ORIGIN) + _put_back(particle_q, _ORIGIN[:3]),
        )


def _put_back(rows: np.ndarray, place: np.ndarray) -> int:
    """Replace non-finite rows (n, m), which browsers cannot handle, and count them."""
    lost = ~np.isfinite(rows).all(axis=1)
    rows[lost] = place
    return int(lost.sum())


def _copy(array: wp.array | None, width: int) -> np.ndarray:
    if array is None:
        return np.zeros((0, width) if width else 0)
    return array.numpy().astype(np.float64)


def read_contacts(
    model: Model, contacts: Contacts, body_q: np.ndarray, forces: wp.array | None = None
) -> ContactPoints:
    """Copy the contacts of a buffer.

    Args:
        model: Its model.
        contacts: The buffer.
        body_q: Body poses that the contacts were found at, shape (bodies, 7).
        forces: Force on shape 0 at each place of the buffer, vec3; None if not known.
    """
    marks = ContactMarks.of(model, contacts, body_q)
    finite = np.isfinite(marks.point0).all(axis=1) & np.isfinite(marks.normal).all(axis=1)
    force = None
    if forces is not None:
        force = forces.numpy()[marks.place]
        finite &= np.isfinite(force).all(axis=1)
        force = force[finite]
    return ContactPoints(marks.world[finite], marks.point0[finite], marks.normal[finite], force)
