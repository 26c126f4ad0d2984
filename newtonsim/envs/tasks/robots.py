"""Common base of tasks with MJCF robots."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from newtonsim.builder import ModelBuilder
from newtonsim.envs.task import Motors, Task
from newtonsim.errors import NewtonsimError, UnsupportedElementWarning
from newtonsim.examples.assets import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.importers.files.report import ImportReport
from newtonsim.scene.enums import GeoType


class RobotTask(Task):
    """A robot from an MJCF file; actions are the controls of its motors.

    Attributes:
        asset: File of `newtonsim.examples` that is used without the option `xml`.
        keyframe: Keyframe of the file to start in; None for its zero pose.
        has_ground: Whether the robot stands on a plane at z = 0.
    """

    asset: ClassVar[str]
    has_ground: ClassVar[bool] = True
    keyframe: ClassVar[str | None] = None
    defaults: ClassVar[Mapping[str, Any]] = {"xml": None}

    def __init__(self, **options: Any):
        super().__init__(**options)
        path = self.options["xml"]
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise NewtonsimError(f"{self.name}: xml: expected the path of a file, got {path!r}")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str]:
        """See `Task.files`."""
        return ["xml"] if isinstance(options.get("xml"), str) else []

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        report = self.load(builder)
        return Motors.of_report(report.actuators)

    def load(self, builder: ModelBuilder) -> ImportReport:
        """Read the robot, and record whether its file has its own ground."""
        path = self.options["xml"] or asset_path(self.asset)
        with warnings.catch_warnings():
            # cameras, lights and options of another engine's solver are of no concern here
            warnings.simplefilter("ignore", UnsupportedElementWarning)
            report = parse_mjcf(
                os.fspath(path),
                builder,
                floating=None,
                ignore_inertial_definitions=False,
                keyframe=self.keyframe,
            )
        self._needs_ground = self.has_ground and GeoType.PLANE not in builder.shape_geo_type
        return report

    def finish_scene(self, scene: ModelBuilder) -> None:
        """See `Task.finish_scene`."""
        if self._needs_ground:
            scene.set_ground_plane()
