"""Static bodies with a velocity: conveyor belts and moving obstacles, which nothing stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.world.body import Body

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.engine import Engine


class DrivenBodies:
    """Moves the driven bodies of a client with every step.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self.client = client
        self.bodies: dict[int, Body] = {}

    def drive(self, body: Body) -> None:
        """Let a static body of one link move with its velocity from now on."""
        if not body.driven:
            self.client.structure_changed()
            body.driven = True
            self.bodies[body.uid] = body

    def after_step(self, engine: Engine) -> None:
        """Move the bodies on by one time step; the solver knows no pose of what no joint carries."""
        time_step = self.client.settings.time_step
        for body in self.bodies.values():
            self.client.read_poses(body)
            body.drive(time_step)
            engine.write_base(body)

    def body_removed(self, uid: int) -> None:
        """Forget a body."""
        self.bodies.pop(uid, None)

    def reset(self) -> None:
        """Forget all bodies."""
        self.bodies.clear()
