"""The last pictures of all worlds of an environment, on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import warp as wp

from newtonsim.kernels import env_frames
from newtonsim.kernels.env_frames import FrameView
from newtonsim.render import Camera, Lighting, Pinhole, look_at
from newtonsim.shards import Shard
from newtonsim.workspace import Launcher

if TYPE_CHECKING:
    from newtonsim.envs.buffers import Buffers
    from newtonsim.envs.vision import CameraSensor
    from newtonsim.model import Model
    from newtonsim.state import State


class FrameStack:
    """Takes the pictures of a `CameraSensor` and keeps the last ones of each world.

    All of it is queued: nothing is allocated after the first pictures, and nothing read back.

    Args:
        sensor: The camera.
        model: The model.
        buffers: Where the observations go, and which episodes have ended.
        threads: Threads on the CPU, None for as many as there are cores to run on.

    Attributes:
        camera: Takes the pictures.
    """

    def __init__(self, sensor: CameraSensor, model: Model, buffers: Buffers, threads: int | None):
        samples, lighting = sensor.samples, sensor.lighting
        if lighting is None:
            lighting = Lighting.above(model.up_vector)
            lighting.shadow = False
        self.camera = Camera(
            model,
            samples * sensor.width,
            samples * sensor.height,
            pose=look_at(sensor.eye, sensor.target, sensor.up),
            body=sensor.body,
            lens=Pinhole(fov=sensor.fov),
            lighting=lighting,
            threads=threads,
        )
        view = self._view = FrameView()
        picture = self.camera.images["rgb"]
        view.picture = picture.reshape((model.world_count, *picture.shape[2:]))
        view.samples, view.channels = samples, sensor.channels
        view.stack, view.final = buffers.observations, buffers.final_observations
        self._episodes = buffers.episodes
        # a thread of the CPU copies all arguments, which costs more than a pixel; a GPU's takes one
        self._run = sensor.width if model.device.is_cpu else 1
        runs = sensor.width * sensor.height // self._run
        pixels = {"run": range(0, runs * model.world_count + 1, runs)}
        self._launch = Launcher(model, record_tape=False, shard=Shard(model, starts=pixels))

    def push(self, state: State) -> None:
        """Add a picture of every world, and keep the last stack of episodes that have ended in this step."""
        self.camera.render(state)
        inputs = [self._view, self._run, self._episodes.ended, self._episodes.broken]
        self._launch(env_frames.push_frames, "run", inputs)

    def fill(self, state: State, mask: wp.array) -> None:
        """Begin anew in the masked worlds, bool (world_count,): all frames are the picture of now."""
        self.camera.render(state, mask)
        self._launch(env_frames.fill_frames, "run", [self._view, self._run, mask])
