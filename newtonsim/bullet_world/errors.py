"""Exceptions of worlds and objects that callers can act on."""


class BulletWorldError(RuntimeError):
    """Base class: a world or an object cannot do now what was requested."""


class WorldExitedError(BulletWorldError):
    """A world was used after its exit, or there is none."""


class ObjectRemovedError(BulletWorldError):
    """An object was used after it was removed."""
