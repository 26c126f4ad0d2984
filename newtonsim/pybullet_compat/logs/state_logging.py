"""State logging: startStateLogging, stopStateLogging and submitProfileTiming."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.surface import constants as c
from newtonsim.pybullet_compat.surface.arguments import ints
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.logs.records import Logger
    from newtonsim.pybullet_compat.world.engine import Engine

STATE_REPLAY_ALL_COMMANDS = 8
"""The module of PyBullet has no name for it."""


class Logs:
    """Loggers of one client.

    Attributes:
        loggers: Those that run, by id; ids are not used again.
    """

    def __init__(self, client: Client):
        self.loggers: dict[int, Logger] = {}
        self._next = 0
        weakref.finalize(self, _close_all, self.loggers)

    def add(self, logger: Logger | None) -> int:
        """Run a logger, or take an id for none, and return its id."""
        if logger is not None:
            self.loggers[self._next] = logger
        self._next += 1
        return self._next - 1

    def before_step(self, engine: Engine) -> None:
        """Tell all loggers."""
        for logger in self.loggers.values():
            logger.before_step(engine)

    def after_step(self, engine: Engine) -> None:
        """Tell all loggers."""
        for logger in self.loggers.values():
            logger.after_step(engine)

    def reset(self) -> None:
        """End the loggers of what is in the world."""
        for uid in [uid for uid, logger in self.loggers.items() if logger.of_world]:
            self.loggers.pop(uid).close()

    def close(self) -> None:
        """End all loggers."""
        _close_all(self.loggers)


def startStateLogging(
    client: Client,
    loggingType: int,
    fileName: str,
    objectUniqueIds: Sequence[int] | None = None,
    maxLogDof: int = 12,
    bodyUniqueIdA: int = -1,
    bodyUniqueIdB: int = -1,
    linkIndexA: int = -2,
    linkIndexB: int = -2,
    deviceTypeFilter: int = 1,
    logFlags: int = 0,
) -> int | None:
    """Log what happens in every step to a file, or replay a log of commands.

    There is one record for every stepSimulation, whatever numSubSteps is. With several worlds the first one
    is logged.

    Args:
        client: The client.
        loggingType: STATE_LOGGING_...
        fileName: The file.
        objectUniqueIds: Bodies that STATE_LOGGING_GENERIC_ROBOT and STATE_LOGGING_MINITAUR log.
        maxLogDof: Most joints of a body in STATE_LOGGING_GENERIC_ROBOT.
        bodyUniqueIdA: Body that contact points must have, -1 for any.
        bodyUniqueIdB: Another one.
        linkIndexA: Link of the first body of contact points, -2 for any.
        linkIndexB: Link of the second body.
        deviceTypeFilter: Devices for virtual reality; there are none.
        logFlags: STATE_LOG_JOINT_..., torques that STATE_LOGGING_GENERIC_ROBOT logs.

    Returns:
        Id for stopStateLogging, None for types that do not exist and for bodies that are no Minitaur.
    """
    bodies = [] if objectUniqueIds is None else ints(objectUniqueIds, "Expected a sequence of object ids.")
    makers: dict[int, Callable[[], Logger | None]] = {
        c.STATE_LOGGING_MINITAUR: lambda: _minitaur(client, fileName, bodies),
        c.STATE_LOGGING_GENERIC_ROBOT: lambda: _robots(client, fileName, bodies, maxLogDof, logFlags),
        c.STATE_LOGGING_VR_CONTROLLERS: lambda: _controllers(fileName),
        c.STATE_LOGGING_VIDEO_MP4: lambda: _video(client, fileName),
        c.STATE_LOGGING_CONTACT_POINTS: lambda: _contacts(
            client, fileName, (bodyUniqueIdA, bodyUniqueIdB), (linkIndexA, linkIndexB)
        ),
        c.STATE_LOGGING_PROFILE_TIMINGS: lambda: _timings(fileName),
        c.STATE_LOGGING_ALL_COMMANDS: lambda: _commands(client, fileName),
        STATE_REPLAY_ALL_COMMANDS: lambda: _replay(client, fileName),
    }
    if loggingType not in makers:
        return None
    try:
        logger = makers[loggingType]()
    except _NoMinitaur:
        return None
    return client.part(Logs).add(logger)


def stopStateLogging(client: Client, loggingId: int) -> None:
    """End a logger and close its file; ids of none do nothing."""
    logger = client.part(Logs).loggers.pop(loggingId, None)
    if logger is not None:
        logger.close()


def submitProfileTiming(client: Client, eventName: str = "") -> None:
    """Open a span in the log of timings, or without a name close the one that was opened last."""
    from newtonsim.pybullet_compat.logs.timings import TimingLogger

    for logger in client.part(Logs).loggers.values():
        if isinstance(logger, TimingLogger):
            if eventName:
                logger.begin(eventName)
            else:
                logger.end()


class _NoMinitaur(Exception):
    """There is nothing that STATE_LOGGING_MINITAUR could log."""


def _minitaur(client: Client, path: str, bodies: list[int]) -> Logger:
    from newtonsim.pybullet_compat.logs.robots import MinitaurLogger

    if not bodies:
        raise _NoMinitaur
    try:
        return MinitaurLogger(client, path, bodies[0])
    except error as failure:
        raise _NoMinitaur from failure


def _robots(client: Client, path: str, bodies: list[int], most_joints: int, flags: int) -> Logger:
    from newtonsim.pybullet_compat.logs.robots import GenericRobotLogger

    return GenericRobotLogger(client, path, bodies, most_joints if most_joints > 0 else 12, flags)


def _controllers(path: str) -> Logger:
    from newtonsim.pybullet_compat.logs.contacts import ControllerLogger

    return ControllerLogger(path)


def _video(client: Client, path: str) -> Logger | None:
    """A client without GUI has no window to make a video of."""
    if not client.gui:
        return None
    from newtonsim.pybullet_compat.logs.video import VideoLogger

    return VideoLogger(client, path)


def _contacts(client: Client, path: str, bodies: tuple[int, int], links: tuple[int, int]) -> Logger:
    from newtonsim.pybullet_compat.logs.contacts import ContactLogger

    return ContactLogger(client, path, bodies, links)


def _timings(path: str) -> Logger:
    from newtonsim.pybullet_compat.logs.timings import TimingLogger

    return TimingLogger(path)


def _commands(client: Client, path: str) -> Logger:
    from newtonsim.pybullet_compat.logs.commands import CommandLogger

    return CommandLogger(client, path)


def _replay(client: Client, path: str) -> None:
    from newtonsim.pybullet_compat.logs.commands import replay

    replay(client, path)


def _close_all(loggers: dict[int, Logger]) -> None:
    """Close loggers, also at the end of the process."""
    while loggers:
        loggers.popitem()[1].close()
