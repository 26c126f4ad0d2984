"""The exception of the module, and the texts that several functions share."""

NOT_CONNECTED = "Not connected to physics server."


class error(Exception):
    """What the functions raise, `pybullet.error` in scripts."""


def not_connected() -> error:
    """Return the error of a physicsClientId that no client has."""
    return error(NOT_CONNECTED)
