"""Ray casters: grids, cones and spinning lidars that a body carries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.envs.sensors import (
    AttachedSensor,
    Element,
    Sensor,
    Site,
    over_kind,
    shapes_of_robots,
)
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs import scanners
from newtonsim.queries.scene_query import SceneQuery
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put

if TYPE_CHECKING:
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.scene.model import Model
    from newtonsim.simulator import Simulator


@dataclass(frozen=True)
class Rays:
    """Rays in the frame of a sensor, whose x axis looks ahead and whose z axis up.

    Attributes:
        origins: Where they begin [m], (n, 3).
        directions: Where they go, of any length, (n, 3).
        turn: How far the sensor turns about its z axis each second [rad/s].

    Raises:
        NewtonsimError: There are none, numbers are not finite, or a direction has no length.
    """

    origins: np.ndarray
    directions: np.ndarray
    turn: float = 0.0

    def __post_init__(self) -> None:
        origins, directions = np.asarray(self.origins, float), np.asarray(self.directions, float)
        if (
            origins.shape != directions.shape
            or origins.ndim != 2
            or origins.shape[1] != 3
            or not len(origins)
        ):
            raise NewtonsimError(
                f"rays: expected origins and directions (n, 3), got {origins.shape} and {directions.shape}"
            )
        length = np.linalg.norm(directions, axis=1, keepdims=True)
        if not (np.isfinite(origins).all() and np.isfinite(length).all() and (length > 0.0).all()):
            raise NewtonsimError("rays: expected finite origins and directions with a length")
        object.__setattr__(self, "origins", origins)
        object.__setattr__(self, "directions", directions / length)

    @classmethod
    def grid(
        cls, x: Sequence[float], y: Sequence[float], direction: Sequence[float] = (0.0, 0.0, -1.0)
    ) -> Rays:
        """Return parallel rays from a grid of places, x by x, y within.

        Args:
            x: Places ahead [m].
            y: Places to the left [m].
            direction: Where all of them go.

        Raises:
            NewtonsimError: There are no places, or the direction has no length.
        """
        places = np.array([(a, b, 0.0) for a in x for b in y], float).reshape(-1, 3)
        return cls(places, np.tile(np.asarray(direction, float), (len(places), 1)))

    @classmethod
    def cone(cls, half_angle: float, rings: int, rays_per_ring: int) -> Rays:
        """Return a ray along the x axis and rings of rays about it, out to an angle.

        Args:
            half_angle: Between the axis and the outermost ring [rad], up to π.
            rings: Rings, at equal angles.
            rays_per_ring: Rays of each.

        Raises:
            NewtonsimError: A number is out of range.
        """
        _check_count("rings", rings)
        _check_count("rays_per_ring", rays_per_ring)
        _check_range("half_angle", half_angle, math.pi)
        away = half_angle * np.arange(1, rings + 1) / rings
        about = 2.0 * math.pi * np.arange(rays_per_ring) / rays_per_ring
        away, about = (a.ravel() for a in np.meshgrid(away, about, indexing="ij"))
        ring = np.stack([np.cos(away), np.sin(away) * np.cos(about), np.sin(away) * np.sin(about)], axis=-1)
        directions = np.concatenate([[[1.0, 0.0, 0.0]], ring])
        return cls(np.zeros_like(directions), directions)

    @classmethod
    def lidar(cls, elevations: Sequence[float], azimuths: int, rate: float = 0.0, dt: float = 0.0) -> Rays:
        """Return the rays of a lidar: a column of rays at each of a full turn of azimuths.

        One that spins casts, in each step of the environment, the columns that it passes in that time, from
        where it stood before on: of n columns a turn n * rate * dt. The first step of an episode begins
        ahead.

        Args:
            elevations: Angles of a column over the horizon [rad].
            azimuths: Columns of a full turn, counter-clockwise from ahead.
            rate: Turns a second [1/s]; 0 for all columns at once.
            dt: Time of a step of the environment [s], if it spins.

        Returns:
            The rays, column by column.

        Raises:
            NewtonsimError: A number is out of range, or a step does not pass a whole number of columns.
        """
        _check_count("azimuths", azimuths)
        columns, turn = azimuths, 0.0
        if rate != 0.0:
            _check_range("rate", rate, math.inf)
            _check_range("dt", dt, math.inf)
            passed = azimuths * rate * dt
            columns = round(passed)
            if not 1 <= columns <= azimuths or abs(passed - columns) > 1e-3:
                raise NewtonsimError(
                    f"lidar: expected a whole number of columns in each step, up to a turn, got {azimuths} "
                    f"azimuths * {rate} turns a second * {dt} s = {passed:g}"
                )
            turn = 2.0 * math.pi * rate
        azimuth = 2.0 * math.pi * np.arange(columns) / azimuths
        azimuth, up = (a.ravel() for a in np.meshgrid(azimuth, np.asarray(elevations, float), indexing="ij"))
        directions = np.stack(
            [np.cos(up) * np.cos(azimuth), np.cos(up) * np.sin(azimuth), np.sin(up)], axis=-1
        )
        return cls(np.zeros_like(directions), directions, turn)


@dataclass(frozen=True)
class RayCaster(Sensor):
    """Distances along rays that a body carries; one reading for each ray [m].

    A reading is `max_distance` where nothing is met. Rays meet all that collides in their own world and the
    global one, and surfaces from behind; not the robot itself, bodies on the same tree as `body`, unless
    asked for. They are cast from where the body is at the end of a step.

    Attributes:
        body: That carries them.
        rays: The rays, such as `Rays.grid`, `Rays.cone` and `Rays.lidar`.
        pose: Of the sensor in the body's frame: position [m] and quaternion xyzw, 7 numbers.
        max_distance: Longest distance [m].
        level: Whether the sensor keeps level and turns with the heading of the body alone.
        sees_robot: Whether rays meet the robot itself.
        noise: Standard deviation [m].
    """

    body: Element
    rays: Rays
    pose: Sequence[float] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    max_distance: float = 10.0
    level: bool = False
    sees_robot: bool = False
    noise: float = 0.0

    def attach(self, site: Site, column: int) -> AttachedSensor:
        """See `Sensor.attach`."""
        site.check_noise(self.noise)
        _check_range(f"sensor {site.name!r}: max_distance", self.max_distance, math.inf)
        view, device = scanners.ScannerView(), site.model.device
        view.body, view.column = site.index("body", self.body), column
        view.pose, view.level = site.pose("pose", self.pose), int(self.level)
        view.origin = put(self.rays.origins, dtype=wp.vec3, device=device)
        view.direction = put(self.rays.directions, dtype=wp.vec3, device=device)
        view.reach = self.max_distance
        return _AttachedRays(site.model, view, self)


class _AttachedRays(AttachedSensor):
    def __init__(self, model: Model, view: scanners.ScannerView, sensor: RayCaster):
        worlds, rays = model.world_count, len(sensor.rays.origins)
        self._view, self._turn = view, sensor.rays.turn
        self.deviations = [sensor.noise] * rays
        without = None if sensor.sees_robot else shapes_of_robots(model, view.body)
        self._query = SceneQuery(model, without=without)
        self._starts = range(0, worlds * rays + 1, rays)

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        self._view.turn = self._turn * sim.dt
        scene = self._query.launch_update(launch, env.body_q)
        over = over_kind(launch, "ray", self._starts)
        over(
            scanners.scan_distances,
            "ray",
            reads=dict(scanner=self._view, scene=scene, mask=mask, fresh=fresh),
            writes=dict(env=env),
        )


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, (int, np.integer)) or value < 1:
        raise NewtonsimError(f"{name}: expected a whole number from 1 on, got {value!r}")


def _check_range(name: str, value: float, high: float) -> None:
    if not 0.0 < value <= high or not math.isfinite(value):
        raise NewtonsimError(
            f"{name}: expected a number above 0{f', up to {high:g}' if high < 9 else ''}, got {value!r}"
        )
