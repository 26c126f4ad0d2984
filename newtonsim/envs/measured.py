"""Sensors with the faults of real ones: bias, noise, delay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.envs.sensors import AttachedSensor, Sensor, Site, over_kind
from newtonsim.envs.values import is_range
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs import measurement
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros

if TYPE_CHECKING:
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.simulator import Simulator


@dataclass(frozen=True)
class Measured(Sensor):
    """Any sensor with the faults of a real one; it has as many readings.

    A measurement is the reading plus a bias plus noise, and arrives after a delay. Each world draws its bias
    and delay at the start of each episode, from the seed of the environment, whatever other worlds do. Each
    parameter is one number for all readings, or one for each.

    Attributes:
        sensor: The sensor; its own noise, if any, is added to this noise.
        noise: Standard deviation of the noise of a measurement, in units of the reading.
        bias: Standard deviation of the bias at the start of an episode.
        drift: Standard deviation of the bias's random walk after one second; it grows with the square root of
            time.
        delay: Time from measurement to reading [s], or a range (low, high).

    Raises:
        NewtonsimError: A number is negative or not finite.
    """

    sensor: Sensor
    noise: float | Sequence[float] = 0.0
    bias: float | Sequence[float] = 0.0
    drift: float | Sequence[float] = 0.0
    delay: float | tuple[float, float] = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.sensor, Sensor):
            raise NewtonsimError(f"sensor: expected a sensor such as Imu('trunk'), got {self.sensor!r}")
        for name in ("noise", "bias", "drift"):
            value = getattr(self, name)
            if not all(0.0 <= one < math.inf for one in np.ravel(value)):
                raise NewtonsimError(f"{name}: expected numbers of at least 0, got {value}")
        low, high = self.span
        if not is_range((low, high)) or low < 0.0 or high == math.inf:
            raise NewtonsimError(
                f"delay: expected a time of at least 0, or a range (low, high), got {self.delay}"
            )

    @property
    def span(self) -> tuple[float, float]:
        """Shortest and longest delay [s]."""
        value = self.delay
        return value if isinstance(value, tuple) else (value, value)

    def attach(self, site: Site, column: int) -> AttachedSensor:
        """See `Sensor.attach`."""
        inner = self.sensor.attach(site, column)
        faults = [self._each(site, name, len(inner.deviations)) for name in ("noise", "bias", "drift")]
        faults[0] = np.hypot(faults[0], inner.deviations)
        return _AttachedMeasurement(inner, site, column, faults, self.span)

    def _each(self, site: Site, name: str, count: int) -> np.ndarray:
        """Return the parameters of a fault, one for each reading."""
        value = np.asarray(getattr(self, name), float)
        if value.shape not in ((), (count,)):
            raise NewtonsimError(
                f"sensor {site.name!r}: {name}: expected one number or {count}, one for each reading, "
                f"got {value.size}"
            )
        return np.broadcast_to(value, count)


class _AttachedMeasurement(AttachedSensor):
    def __init__(
        self,
        inner: AttachedSensor,
        site: Site,
        column: int,
        faults: list[np.ndarray],
        span: tuple[float, float],
    ):
        self._inner, model, count = inner, site.model, len(inner.deviations)
        # noise is added here, before the delay
        self.deviations = [0.0] * count
        view, device = measurement.MeasurementView(), model.device
        view.column = column
        view.noise, view.bias, view.drift = (put(fault, dtype=float, device=device) for fault in faults)
        view.low, view.high = span
        room = math.ceil(span[1] / site.dt - 1e-6) + 2 if span[1] > 0.0 else 1
        view.offset = zeros((model.world_count, count), dtype=float, device=device)
        view.ring = zeros((model.world_count, count, room), dtype=float, device=device)
        self._view = view
        self._starts = range(0, model.world_count * count + 1, count)

    def launch_before(self, launch: Launcher, env: EnvView) -> None:
        self._inner.launch_before(launch, env)

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        self._inner.launch(launch, env, sim, mask, fresh)
        over = over_kind(launch, "measurement", self._starts)
        over(
            measurement.measure_readings,
            "measurement",
            reads=dict(mask=mask, fresh=fresh),
            writes=dict(env=env, measured=self._view),
        )
