"""Treatment of contacts in FeatherstoneSolver: constraints, or smooth forces."""

from __future__ import annotations

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.model import Model
from newtonsim.solvers.penalty import apply_penalty


class HardContacts:
    """Contacts are constraints, and exert no force before these are solved.

    Attributes:
        compliant: Whether they are forces.
    """

    compliant = False

    def push(
        self, launch: Launcher, contacts: Contacts, body_q: wp.array, body_qd: wp.array, body_f: wp.array
    ) -> None:
        """See `CompliantContacts.push`."""

    def constrained(self, contacts: Contacts) -> Contacts:
        """Those of the contacts that are constraints."""
        return contacts


class CompliantContacts:
    """Contacts are springs and dampers with friction, none of them a constraint.

    Args:
        model: The model.
        slip_speed: Below this speed [m/s] friction fades.
        fade_depth: Below this penetration [m] damping fades.

    Attributes:
        compliant: Whether contacts are forces.
    """

    compliant = True

    def __init__(self, model: Model, slip_speed: float, fade_depth: float):
        self.slip_speed, self.fade_depth = slip_speed, fade_depth
        self._none = Contacts(model)

    def push(
        self, launch: Launcher, contacts: Contacts, body_q: wp.array, body_qd: wp.array, body_f: wp.array
    ) -> None:
        """Add the forces of contacts to the wrenches of bodies.

        Args:
            launch: For the worlds.
            contacts: The contacts.
            body_q: Poses, shape (body_count,).
            body_qd: Velocities, shape (body_count,).
            body_f: Is added to, shape (body_count,).
        """
        apply_penalty(launch, contacts, body_q, body_qd, body_f, self.slip_speed, self.fade_depth)

    def constrained(self, contacts: Contacts) -> Contacts:
        """Those of the contacts that are constraints."""
        return self._none
