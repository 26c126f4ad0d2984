"""Ray casters: grids, cones and spinning lidars mounted on a body."""

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
    """Rays in the frame of a sensor, whose x axis points ahead and z axis up.

    Attributes:
        origins: Start points [m], (n, 3).
        directions: Directions, of any length, (n, 3).
        turn: Angular velocity of the sensor about its z axis [rad/s].

    Raises:
        NewtonsimError: There are no rays, numbers are not finite, or a direction is zero.
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
            raise NewtonsimError("rays: expected finite origins and non-zero finite directions")
        object.__setattr__(self, "origins", origins)
        object.__setattr__(self, "directions", directions / length)

    @classmethod
    def grid(
        cls, x: Sequence[float], y: Sequence[float], direction: Sequence[float] = (0.0, 0.0, -1.0)
    ) -> Rays:
        """Return parallel rays from a grid of points, y varying fastest.

        Args:
            x: Positions ahead [m].
            y: Positions to the left [m].
            direction: Direction of all rays.

        Raises:
            NewtonsimError: There are no points, or the direction is zero.
        """
        places = np.array([(a, b, 0.0) for a in x for b in y], float).reshape(-1, 3)
        return cls(places, np.tile(np.asarray(direction, float), (len(places), 1)))

    @classmethod
    def cone(cls, half_angle: float, rings: int, rays_per_ring: int) -> Rays:
        """Return a ray along the x axis and rings of rays about it, out to an angle.

        Args:
            half_angle: Angle between the axis and the outermost ring [rad], at most π.
            rings: Number of rings, at equal angles.
            rays_per_ring: Number of rays in each ring.

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
        """Return the rays of a lidar: one column of rays at each azimuth of a full turn.

        A spinning lidar casts, in each step of the environment, the columns that it passes in that time: n *
        rate * dt of the n columns of a turn. It starts an episode facing ahead.

        Args:
            elevations: Elevation angles of the rays of a column [rad].
            azimuths: Number of columns of a full turn, counter-clockwise from ahead.
            rate: Turns per second [1/s]; 0 for all columns at once.
            dt: Time of a step of the environment [s], if it spins.

        Returns:
            The rays, column by column.

        Raises:
            NewtonsimError: A number is out of range, or the columns passed in a step are not a whole number.
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
                    "lidar: expected a whole number of columns in each step, at most one turn, got "
                    f"{azimuths} "
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
    """Distances along rays mounted on a body; one reading for each ray [m].

    A reading is `max_distance` if a ray hits nothing. Rays hit colliding shapes of their own world and the
    global one, also from behind, but not the robot itself, that is bodies on the same tree as `body`, unless
    `sees_robot` is set. They are cast from the pose of the body at the end of a step.

    Attributes:
        body: Body that carries them.
        rays: The rays, such as `Rays.grid`, `Rays.cone` and `Rays.lidar`.
        pose: Pose of the sensor in the body's frame: position [m] and quaternion xyzw, 7 numbers.
        max_distance: Range [m].
        level: Whether the sensor stays level and only turns with the heading of the body.
        sees_robot: Whether rays hit the robot itself.
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
        raise NewtonsimError(f"{name}: expected a whole number of at least 1, got {value!r}")


def _check_range(name: str, value: float, high: float) -> None:
    if not 0.0 < value <= high or not math.isfinite(value):
        raise NewtonsimError(
            f"{name}: expected a number above 0{f', up to {high:g}' if high < 9 else ''}, got {value!r}"
        )
