"""Poses of bodies in the frame of another body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.envs.sensors import AttachedSensor, Element, Sensor, Site, over_kind
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs import frames_between
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put
from newtonsim.scene.patterns import match_labels

if TYPE_CHECKING:
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.simulator import Simulator

_HERE = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class FrameTransform(Sensor):
    """Poses of bodies in the frame of another one; 7 readings for each, in the order of the world's bodies.

    Position [m] (3), quaternion xyzw with w >= 0 (4).

    Attributes:
        targets: Patterns of the names of the target bodies, see `match_labels`.
        source: Body in whose frame the poses are given; None for the world.
        pose: Pose of the sensor's frame in that of the source: position [m] and quaternion xyzw, 7 numbers.
        target_pose: Pose of the target frames in those of their bodies, in the same form.
        noise: Standard deviation of the components of positions [m]; quaternions have none.
    """

    targets: str | Sequence[str]
    source: Element | None = None
    pose: Sequence[float] = _HERE
    target_pose: Sequence[float] = _HERE
    noise: float = 0.0

    def attach(self, site: Site, column: int) -> AttachedSensor:
        """See `Sensor.attach`."""
        site.check_noise(self.noise)
        try:
            targets = match_labels(self.targets, site.world.body_key, "bodies")
        except NewtonsimError as error:
            raise NewtonsimError(f"sensor {site.name!r}: {error}") from None
        view, device = frames_between.FramesView(), site.model.device
        view.source = -1 if self.source is None else site.index("body", self.source)
        view.pose, view.column = site.pose("pose", self.pose), column
        view.target = put(targets, dtype=int, device=device)
        offset = site.pose("target_pose", self.target_pose)
        view.offset = put([list(offset)] * len(targets), dtype=wp.transform, device=device)
        return _AttachedFrames(view, len(targets), site.model.world_count, self.noise)


class _AttachedFrames(AttachedSensor):
    def __init__(self, view: frames_between.FramesView, count: int, worlds: int, noise: float):
        self._view = view
        self.deviations = ([noise] * 3 + [0.0] * 4) * count
        self._starts = range(0, worlds * count + 1, count)

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        over = over_kind(launch, "frame", self._starts)
        over(
            frames_between.sense_frames,
            "frame",
            reads=dict(frames=self._view, mask=mask),
            writes=dict(env=env),
        )
