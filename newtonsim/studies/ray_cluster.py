"""Where Ray runs, and which share of its machines a worker gets (extra `ray`)."""

from __future__ import annotations

import math
from types import ModuleType

from newtonsim.errors import NewtonsimError


def connect(address: str | None = None) -> ModuleType:
    """Return Ray, connected: as the process already is, or to a cluster, or to a new one on this machine.

    Args:
        address: Address of a cluster, "host:port" or "local" for a new one that ends with this process; None
            for that of the environment variable RAY_ADDRESS, or one that `ray start` runs on this machine, or
            else a new one.

    Raises:
        NewtonsimError: Ray is not installed, or there is no cluster at the address.
    """
    try:
        import ray
    except ImportError as error:
        raise NewtonsimError("workers: Ray is required: pip install 'newtonsim[ray]'") from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, include_dashboard=False, logging_level="WARNING")  # pyright: ignore[reportArgumentType]
        except ConnectionError as error:
            raise NewtonsimError(f"address: there is no Ray cluster at {address!r}: {error}") from error
    return ray


def shares(workers: int, cpus: float | None, gpus: float | None) -> tuple[float, float]:
    """Return the CPUs and GPUs that each worker gets: the given numbers, or else equal shares of all.

    Shares are the largest with which all workers find room on the machines of the cluster: whole numbers, or
    parts of one CPU or GPU. A worker gets no more than one GPU.

    Args:
        workers: Number of workers.
        cpus: CPUs of a worker, or None.
        gpus: GPUs of a worker, or None.
    """
    import ray

    totals = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    machines = [(total.get("CPU", 0.0), total.get("GPU", 0.0)) for total in totals]
    if gpus is None:
        parts = [part for part in _parts([gpu for _, gpu in machines], workers) if part <= 1.0]
        gpus = max((part for part in parts if _room(machines, 0.0, part) >= workers), default=0.0)
    if cpus is None:
        parts = _parts([cpu for cpu, _ in machines], workers)
        cpus = max((part for part in parts if _room(machines, part, gpus) >= workers), default=1.0)
    return cpus, gpus


def _parts(amounts: list[float], workers: int) -> list[float]:
    """Return what a worker could get of machines: whole numbers, or parts in the 1/10000 of Ray."""
    quotients = [amount / count for amount in amounts for count in range(1, workers + 1)]
    parts = [float(math.floor(q)) if q >= 1.0 else math.floor(1e4 * q) / 1e4 for q in quotients]
    return [part for whole in parts for part in (whole, min(whole, 1.0)) if part > 0.0]


def _room(machines: list[tuple[float, float]], cpus: float, gpus: float) -> float:
    """Return how many workers find room."""

    def places(amount: float, each: float) -> float:
        return math.floor(amount / each + 1e-9) if each > 0.0 else math.inf

    return sum(min(places(cpu, cpus), places(gpu, gpus)) for cpu, gpu in machines)
