"""The exception of the module, and the texts that several functions share."""

NOT_CONNECTED = "Not connected to physics server."


class error(Exception):
    """What the functions raise, `pybullet.error` in scripts."""


def not_connected() -> error:
    """Return the error of a physicsClientId that no client has."""
    return error(NOT_CONNECTED)


def not_a_number(name: str = "An argument") -> error:
    """Return the error of a NaN, which PyBullet lets spoil the world."""
    return error(f"{name} is not a number (NaN).")


def refused(name: str, problem: Exception) -> error:
    """Return the error of a function whose arguments something further down did not accept."""
    return error(f"{name} failed: {problem}")
