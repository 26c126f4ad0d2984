"""Parts of a client: what one file of this package keeps for it, and the hooks that notify it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.pybullet_compat.world.engine import Engine

HOOKS = (
    "build",
    "bind",
    "release",
    "body_leaves",
    "content_changed",
    "before_step",
    "after_step",
    "body_removed",
    "time_step_changed",
    "reset",
    "close",
)
"""Methods of parts that are called if they exist."""


class ScenePart(Protocol):
    """What is kept for one client, made by `Client.part`; all methods are optional hooks, see `HOOKS`."""

    def build(self, builder: ModelBuilder) -> None:
        """Add to the world that an engine is being built from."""

    def bind(self, engine: Engine) -> None:
        """Connect to an engine that was just built."""

    def release(self, engine: Engine) -> None:
        """Save what only the engine holds, before it is dropped."""

    def body_leaves(self, engine: Engine) -> None:
        """Save what only the engine holds of a body, before the body is removed."""

    def content_changed(self, engine: Engine) -> None:
        """Called after bodies or constraints have come or gone in an engine that lives on."""

    def before_step(self, engine: Engine) -> None:
        """Called before every stepSimulation."""

    def after_step(self, engine: Engine) -> None:
        """Called after every stepSimulation."""

    def body_removed(self, uid: int) -> None:
        """Called after a body was removed."""

    def reset(self) -> None:
        """Called by resetSimulation."""

    def close(self) -> None:
        """Called when the client is disconnected, before `reset`."""
