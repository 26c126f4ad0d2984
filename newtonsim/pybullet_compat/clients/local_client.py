"""What a world of this process can do besides PyBullet's functions."""

from __future__ import annotations

from collections.abc import Collection

from newtonsim.pybullet_compat.world.client import Client
from newtonsim.pybullet_compat.world.world_choice import Worlds


class LocalClient(Client):
    """A physics world of this process, as scripts reach it by `get_client` and `BulletClient`.

    What its methods need is imported when they are called, so that `connect` stays quick.
    """

    def restore_worlds(self, state_id: int, worlds: Worlds) -> None:
        """Put some worlds back to a state of saveState, and let the solver forget their last step.

        Args:
            state_id: Id of the state.
            worlds: Worlds to put back: an index, a list of indices, or a mask (num_worlds,) of booleans.

        Raises:
            error: There is no such state, or there are no such worlds.
        """
        from newtonsim.pybullet_compat.clients.saved_states import restore_worlds

        restore_worlds(self, state_id, worlds)

    def resetWorlds(self, worlds: Worlds) -> None:
        """Put the bodies of some worlds back to where they were loaded, at rest, and forget their last step.

        Forces that wait for the next step are gone there; motors, constraints, masses and surfaces stay.

        Args:
            worlds: An index, a list of indices, or a mask (num_worlds,) of booleans.

        Raises:
            error: There are no such worlds, or there are soft bodies, which saveState and `restore_worlds`
                put back.
        """
        from newtonsim.pybullet_compat.clients.saved_states import reset_worlds

        reset_worlds(self, worlds)

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
