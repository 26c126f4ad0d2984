"""What a world of this process can do besides PyBullet's functions."""

from __future__ import annotations

from collections.abc import Collection

import numpy.typing as npt

from newtonsim.pybullet_compat.world.client import Client


class LocalClient(Client):
    """A physics world of this process, as scripts reach it by `get_client` and `BulletClient`.

    What its methods need is imported when they are called, so that `connect` stays quick.
    """

    def restore_worlds(self, state_id: int, world_mask: npt.ArrayLike) -> None:
        """Put some worlds back to a state of saveState, and let the solver forget their last step.

        Args:
            state_id: Id of the state.
            world_mask: Worlds to put back, bool, shape (num_worlds,).

        Raises:
            error: There is no such state, or the mask does not fit.
        """
        from newtonsim.pybullet_compat.clients.saved_states import restore_worlds

        restore_worlds(self, state_id, world_mask)

    def mirror(self, physicsClientId: int, bodies: Collection[int] | None = None) -> None:
        """Become like another client: its bodies, constraints, filters, motors, settings and last step.

        Unique ids are the same then, what is asked has the same answers and what is simulated the same
        results, to the bit. Bodies that only this client has are gone, and what was changed here is undone.
        With several worlds, or not all bodies, each world becomes like the other client, but the solver
        forgets the last step. Soft bodies, debug items, logs, saved states and user data are not taken over.

        Args:
            physicsClientId: The other client, in this process, of one world.
            bodies: Unique ids of the bodies to take over with what is between them, None for all.

        Raises:
            error: There is no such client, it is this one, in another process or of several worlds.
        """
        from newtonsim.pybullet_compat.clients.mirroring import mirror

        mirror(self, physicsClientId, bodies)
