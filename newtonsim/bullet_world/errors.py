"""Exceptions of worlds and objects that callers can act on."""


class BulletWorldError(RuntimeError):
    """Base class: something was asked of a world or an object that it cannot do now."""


class WorldExitedError(BulletWorldError):
    """A world was used after its exit, or there is none."""


class ObjectRemovedError(BulletWorldError):
    """An object was used after it was removed."""
