"""Devices by name."""

from __future__ import annotations

import warp as wp

from newtonsim.errors import NewtonsimError


def find_device(device: wp.DeviceLike = None, argument: str = "device") -> wp.Device:
    """Return a device of this machine.

    Args:
        device: The device, its name such as "cpu" or "cuda:0", or None for Warp's default.
        argument: What the caller calls it, for the error.

    Raises:
        NewtonsimError: There is no such device; the error says which there are.
    """
    try:
        return wp.get_device(device)
    except (ValueError, RuntimeError) as error:
        known = ", ".join(str(known) for known in wp.get_devices())
        raise NewtonsimError(f"{argument}: no device {device!r}; there are {known}") from error
