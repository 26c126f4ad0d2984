"""The most recent pictures of all worlds of an environment, on the device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs import frames as envs_frames
from newtonsim.kernels.envs.frames import FrameView
from newtonsim.render import Camera, Lighting, Pinhole, look_at
from newtonsim.render.camera.caster import share_out
from newtonsim.runtime import compilation
from newtonsim.runtime.arguments import Arguments, Kernel
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import divide

if TYPE_CHECKING:
    from newtonsim.envs.buffers import Buffers
    from newtonsim.envs.vision import CameraSensor
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State


class FrameStack:
    """Takes the pictures of a `CameraSensor` and keeps the most recent ones of each world.

    All work is queued: after the first pictures nothing is allocated, and nothing is read back.

    Args:
        sensor: The camera.
        model: The model.
        buffers: Receive the observations, and say which episodes have ended.
        threads: Threads on the CPU, None for the number of available cores.

    Attributes:
        camera: Takes the pictures.

    Raises:
        NewtonsimError: There are more numbers than kernels can count.
        ModelError: There is no such body, or eye and target do not define a view.
    """

    def __init__(self, sensor: CameraSensor, model: Model, buffers: Buffers, threads: int | None):
        count = model.world_count * math.prod(sensor.shape)
        if count >= 2**31:
            raise NewtonsimError(f"num_envs: {count} numbers in pictures exceed the limit of 2^31")
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
        view.picture = self.camera.images["rgb"].flatten()
        view.samples, view.channels = samples, sensor.channels
        view.height, view.width, view.depth = sensor.shape
        view.stack, view.final = buffers.observations.flatten(), buffers.final_observations.flatten()
        self._episodes = buffers.episodes
        # a thread of the CPU copies all arguments, which costs more than a pixel; a GPU's takes one
        self._run = sensor.width if model.device.is_cpu else 1
        runs = sensor.width * sensor.height // self._run
        starts = {"run": range(0, runs * model.world_count + 1, runs)}
        shards = [part.with_starts(starts) for part in divide(model, self.camera.threads)]
        self._launchers = [Launcher(model, record_tape=False, shard=shard) for shard in shards]
        # before threads launch it, each of which would compile it
        compilation.load([wp.get_module(envs_frames.__name__)], model.device)

    def push(self, state: State) -> None:
        """Add a picture of every world, and keep the last stack of episodes that ended in this step."""
        self.camera.render(state)
        self._stack(
            envs_frames.push_frames, reads=dict(ended=self._episodes.ended, broken=self._episodes.broken)
        )

    def fill(self, state: State, mask: wp.array) -> None:
        """Start again in the masked worlds, bool (world_count,): all frames become the current picture."""
        self.camera.render(state, mask)
        self._stack(envs_frames.fill_frames, reads=dict(mask=mask))

    def _stack(self, kernel: Kernel, reads: Arguments) -> None:
        """Launch a kernel over the pixels of all worlds."""
        reads, writes = dict(run=self._run, **reads), dict(frames=self._view)
        parts, threads = len(self._launchers), self.camera.threads
        share_out(lambda k: self._launchers[k](kernel, "run", reads=reads, writes=writes), parts, threads)
