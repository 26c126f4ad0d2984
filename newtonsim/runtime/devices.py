"""Devices by name, and their streams beside those of torch."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
from collections.abc import Iterator

import warp as wp

from newtonsim.errors import DeviceError

_NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"


def find_device(device: wp.DeviceLike = None, argument: str = "device") -> wp.Device:
    """Return a device of this machine.

    Args:
        device: The device, its name such as "cpu" or "cuda:0", or None for Warp's default.
        argument: What the caller calls it, for the error.

    Raises:
        DeviceError: There is no such device; the error says which there are.
    """
    initialise_warp()
    try:
        return wp.get_device(device)
    except (ValueError, RuntimeError, TypeError) as error:
        known = ", ".join(str(known) for known in wp.get_devices())
        raise DeviceError(f"{argument}: no device {device!r}; there are {known}") from error


def start_warp() -> None:
    """Initialise Warp without its banner, as the command line does."""
    wp.config.log_level = wp.LOG_ERROR
    initialise_warp()


@functools.cache
def initialise_warp() -> None:
    """Initialise Warp without the warning that it gives where there is no GPU.

    Warp's library writes the warning to the error stream of the process, past Python; whatever else it writes
    there is kept.
    """
    try:
        stream = os.dup(2)
    except OSError:  # a process without an error stream
        wp.init()
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            wp.init()
        finally:
            os.dup2(stream, 2)
            os.close(stream)
            written.seek(0)
            lines = written.read().splitlines(keepends=True)
            os.write(2, b"".join(line for line in lines if _NO_DRIVER not in line))


@contextlib.contextmanager
def in_order_with_torch(device: wp.Device) -> Iterator[None]:
    """Context whose work comes after what torch's current stream holds, and before what it is given then.

    The work is queued on Warp's own stream, since torch's default one cannot be recorded into a graph. On the
    CPU nothing is queued, and there is nothing to do.

    Args:
        device: Where Warp and torch work.
    """
    if device.is_cpu:
        yield
        return
    import torch

    theirs = wp.stream_from_torch(torch.cuda.current_stream(wp.device_to_torch(device)))
    device.stream.wait_stream(theirs)
    try:
        yield
    finally:
        theirs.wait_stream(device.stream)
