"""Where Ray runs, and which share of its machines a worker gets (extra `ray`)."""

from __future__ import annotations

import math
from types import ModuleType

from newtonsim.errors import NewtonsimError


def connect(address: str | None = None) -> ModuleType:
    """Return Ray, connected: as the process already is, or to a cluster, or to a new one on this machine.

    Args:
        address: Of a cluster, "host:port" or "auto" for the one on this machine; None for the environment
            variable RAY_ADDRESS, or a new cluster that ends with this process.

    Raises:
        NewtonsimError: Ray is not installed, or there is no cluster at the address.
    """
    try:
        import ray
    except ImportError as error:
        raise NewtonsimError("workers: they need Ray, `pip install newtonsim[ray]`") from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, include_dashboard=False, logging_level="WARNING")
        except ConnectionError as error:
            raise NewtonsimError(f"address: there is no Ray cluster at {address!r}: {error}") from error
    return ray


def share_of_gpus(workers: int) -> float:
    """Return the GPUs that each of some workers gets: one, or a part of one where there are fewer.

    Ray shows a worker its own GPUs only. Parts are rounded down to what Ray counts in, 1/10000.
    """
    import ray

    gpus = ray.cluster_resources().get("GPU", 0.0)
    return 1.0 if gpus >= workers else math.floor(1e4 * gpus / workers) / 1e4
