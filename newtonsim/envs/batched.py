"""Many worlds of one task behind gymnasium's interface for vector environments."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import warp as wp
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from newtonsim.actuators import ActuatedSolver, Actuators
from newtonsim.builder import ModelBuilder
from newtonsim.checkpoints import HostPart
from newtonsim.envs.buffers import Buffers
from newtonsim.envs.definition import check_definition, check_sizes, returned
from newtonsim.envs.exchange import Exchange, make_exchange
from newtonsim.envs.host import HostView
from newtonsim.envs.randomise import Randomisation, Randomiser, read_randomisation
from newtonsim.envs.sensors import SensorSet
from newtonsim.envs.stages import KernelSequence
from newtonsim.envs.task import Motors
from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.kernels.envs import episodes
from newtonsim.runtime.devices import find_device
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.enums import JointMode
from newtonsim.simulator import Simulator
from newtonsim.solvers import SolverBase

if TYPE_CHECKING:
    from newtonsim.checkpoints import Memory
    from newtonsim.envs.camera import EnvCamera
    from newtonsim.envs.frames import FrameStack
    from newtonsim.envs.task import Metric, Task
    from newtonsim.envs.vision import CameraSensor
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.scene.model import Model
    from newtonsim.scene.snapshot import HostValues, Snapshot

_MODES = {
    AutoresetMode.SAME_STEP: 0,
    AutoresetMode.NEXT_STEP: 1,
    AutoresetMode.DISABLED: 2,
}


class BatchedEnv(gymnasium.vector.VectorEnv):
    """Copies of a task's world, stepped together.

    If all stages of the task are kernels, `step` copies the actions into one buffer and replays one graph:
    controls from actions, the physics of `frame_skip` solver steps, observation, reward, episode statistics,
    and the reset of worlds whose episode is over. If the observation is a picture, pictures and resets are
    queued after the graph. Nothing waits for a GPU, unless results are requested as NumPy arrays. Worlds do
    not influence each other: the same seed gives bit-identical trajectories, whatever other worlds do and
    however many there are.

    A world that becomes NaN or infinite is terminated with reward 0 and zeros as its observation, marked by
    "failed" in the infos, and counted in `failures`. Actions beyond their bounds are clipped before they
    drive anything; the task decides what they cost.

    With `copy`, results are new arrays. Without it, they are views of buffers that the next step overwrites.

    If the task has privileged observations, "privileged" of the infos has them, (num_envs, privileged_size),
    and "final_privileged" those at the end of episodes, in the worlds of "_final_obs". They have neither
    the noise of `randomise` nor delays.

    With `output="torch"` the infos always have "final_obs" (num_envs, n), "episode" with returns "r" and
    lengths "l" of the last episodes that ended, and "failed"; the masks "_final_obs", "_episode" and
    "_failed" say in which worlds this happened in this step. NumPy infos have them only if an episode ended,
    and neither has "episode" with `episode_infos=False`.

    Args:
        task: The task.
        num_envs: Number of worlds.
        device: Device; None for Warp's default.
        output: "numpy" or "torch": type of the results and of the expected actions.
        copy: Whether results are copies; None for copies with NumPy and views with torch.
        autoreset_mode: When worlds whose episode is over restart: in the same step, so that "final_obs" has
            the last observation; in the next step, which ignores the action; or only by `reset` with
            `options={"reset_mask": mask}`.
        max_episode_steps: Steps after which an episode is truncated, 0 for never; None for the task's.
        threads: Threads on the CPU, see `Simulator`.
        randomise: What differs between worlds and episodes: a `Randomisation`, or a dict of its fields and of
            those of the model, {"mass": (0.8, 1.2), "gravity": (0.9, 1.1)}.
        render_mode: "rgb_array" for pictures by `render`, or None.
        render_size: Columns and rows of a picture.
        make_solver: Makes the solver from the model; None for the task's.
        episode_infos: Whether the infos have "episode". Gymnasium's `RecordEpisodeStatistics` writes it
            itself and refuses environments that do; `gymnasium.make_vec` omits it by default.

    Attributes:
        task: The task.
        sim: The simulation, whose model, state and solver may be read and written between steps.
        buffers: Arrays of the environment.
        output: "numpy" or "torch": type of the results.
        copy: Whether results are copies.
        episode_infos: Whether the infos have "episode".
        max_episode_steps: Steps after which an episode is truncated, 0 for never.

    Raises:
        NewtonsimError: An argument is out of range, there is no such device, or the task lacks something.
    """

    def __init__(
        self,
        task: Task,
        num_envs: int = 1,
        device: wp.DeviceLike = None,
        output: str = "numpy",
        copy: bool | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        max_episode_steps: int | None = None,
        threads: int | None = None,
        randomise: Randomisation | Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        render_size: tuple[int, int] = (320, 240),
        episode_infos: bool = True,
        make_solver: Callable[[Model], SolverBase] | None = None,
    ):
        if not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
            raise NewtonsimError(f"num_envs: expected a whole number of at least 1, got {num_envs!r}")
        if output not in ("numpy", "torch"):
            raise NewtonsimError(f"output: expected 'numpy' or 'torch', got {output!r}")
        if render_mode not in (None, "rgb_array"):
            raise NewtonsimError(f"render_mode: expected 'rgb_array' or None, got {render_mode!r}")
        check_definition(task)
        device = find_device(device)
        self.render_mode, self._render_size = render_mode, render_size
        self._camera: EnvCamera | None = None
        self.task, self.num_envs = task, int(num_envs)
        mode = _mode(autoreset_mode)
        self._mode = _MODES[mode]
        self.max_episode_steps = _limit(
            task.episode_steps if max_episode_steps is None else max_episode_steps
        )
        self._build(device, make_solver or task.make_solver)
        self._make_spaces()
        self.metadata = {"render_modes": ["rgb_array"], "autoreset_mode": mode}
        self._randomiser = None if randomise is None else self._make_randomiser(randomise)
        self.metadata["render_fps"] = round(1.0 / self.buffers.view.control_dt)
        self._stages: dict[str, Any] = {
            name: task.stage(name) for name in ("act", "observe", "privileged", "score", "spawn")
        }
        self._on_host = not all(_is_recorded(self._stages[name]) for name in ("act", "observe", "score"))
        self._in_one = not self._on_host and self._vision is None
        hooks = {} if self._on_host else {"before": self._launch_act, "after": self._launch_rest}
        dt = self.buffers.view.control_dt
        self.sim = Simulator(self.model, self.solver, dt, substeps=task.frame_skip, threads=threads, **hooks)
        # on a GPU a report would wait for it
        self.sim.report_every = 0
        self._frames = None if self._vision is None else self._make_frames(self._vision, threads)
        self.output, self.copy = output, output == "numpy" if copy is None else bool(copy)
        self.episode_infos = bool(episode_infos)
        self._exchange: Exchange = make_exchange(
            self.output,
            self.buffers,
            self.copy,
            discrete_actions=task.discrete_actions,
            has_goal=task.has_goal,
            episode_infos=self.episode_infos,
        )
        self._host = HostView(self.buffers, self.sim, output) if self._on_host else None
        self._was_reset = False

    def _build(self, device: wp.Device, make_solver: Callable[[Model], SolverBase]) -> None:
        """Make model, solver and buffers."""
        world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        motors = returned(self.task, "build", self.task.build(world), Motors)
        check_sizes(self.task, motors, world)
        scene = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=world.gravity)
        # all at the same place: worlds do not meet, and the place would only cost precision
        scene.replicate(world, self.num_envs, spacing=(0.0, 0.0, 0.0))
        self.task.finish_scene(scene)
        self.model = scene.finalize(device)
        entries = returned(self.task, "actuators", self.task.actuators(), Mapping)
        # before the solver, which may copy the drives that they replace
        actuators = Actuators(self.model, entries, self.task.dt) if entries else None
        self.solver = returned(self.task, "make_solver", make_solver(self.model), SolverBase)
        if self.task.contact_wrenches and not hasattr(self.solver, "external_wrenches"):
            kind = type(self.solver).__name__
            raise NewtonsimError(
                f"{self.task.name}: it observes contact forces, which {kind} does not report"
            )
        if actuators is not None:
            self.solver = ActuatedSolver(self.solver, actuators)
        self.motors = motors
        own = returned(self.task, "sensors", self.task.sensors(), Mapping)
        sensors = {**self.task.standard_sensors(), **own}
        self._sensors = SensorSet(
            sensors, world, self.model, self.solver, self.task.dt * self.task.frame_skip
        )
        self.task.sensor_columns = self._sensors.columns
        self._vision = self.task.camera_sensor()
        self.buffers = Buffers(self.task, motors, self.model, self._sensors.size, self._vision)
        self.task.bind(self.model)
        if isinstance(self.solver, ActuatedSolver):
            self.solver.actuators.follow_episodes(self.buffers.view.key, self.buffers.view.episode)

    def _make_frames(self, sensor: CameraSensor, threads: int | None) -> FrameStack:
        from newtonsim.envs.frames import FrameStack

        return FrameStack(sensor, self.model, self.buffers, threads)

    def _make_randomiser(self, randomise: Randomisation | Mapping[str, Any]) -> Randomiser:
        if not isinstance(randomise, Randomisation):
            if not isinstance(randomise, Mapping):
                raise NewtonsimError(f"randomise: expected a dict of ranges by name, got {randomise!r}")
            randomise = read_randomisation(randomise)
        if randomise.terrain is not None and not self.task.has_terrain:
            raise NewtonsimError(f"randomise: {self.task.name} has no terrain, got {randomise.terrain}")
        changed = [] if self.solver.reads_model else randomise.changes_model()
        if not self.solver.reads_model and randomise.draws("strength") and self._has_drives():
            changed.append("strength")
        if changed:
            kind = type(self.solver).__name__
            raise NewtonsimError(f"randomise: {kind} copied the model when it was created: {changed}")
        if randomise.is_late and not _is_recorded(self.task.stage("act")):
            raise NewtonsimError("randomise: delay requires that `act` is a kernel")
        if randomise.is_noisy and self._vision is not None:
            raise NewtonsimError("randomise: noise applies to numbers, but the observations are pictures")
        return Randomiser(randomise, self.model, self.buffers.view)

    def _has_drives(self) -> bool:
        """Whether motors are position or velocity drives, whose strength is in the model's gains."""
        modes = self.model.joint_axis_mode.numpy()[self.motors.axes]
        return bool(np.any(modes != JointMode.FORCE))

    def _make_spaces(self) -> None:
        self.single_observation_space = self.task.observation_space()
        if self.task.discrete_actions:
            self.single_action_space = spaces.Discrete(self.task.discrete_actions)
        else:
            low, high = np.float32(self.motors.low), np.float32(self.motors.high)  # pyright: ignore[reportArgumentType]
            self.single_action_space = spaces.Box(low, high, dtype=np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    @property
    def device(self) -> wp.Device:
        """The device of the environment."""
        return self.model.device

    @property
    def failures(self) -> np.ndarray:
        """Episodes of each world that ended because it became NaN or infinite, (num_envs,); waits."""
        return self.buffers.episodes.failures.numpy().copy()

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes.

        Args:
            seed: Seed of the random numbers from now on: one for all worlds, which still differ, or one for
                each. None continues the current sequences.
            options: {"reset_mask": mask} for some of the worlds, bool, shape (num_envs,).

        Returns:
            Observations, (num_envs, n), and infos: "privileged" if the task has privileged observations.

        Raises:
            NewtonsimError: Mask or seeds are wrong, or the environment is closed.
        """
        self._check_open("reset")
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        if options:
            raise NewtonsimError(f"options: the only option is 'reset_mask', got {sorted(map(str, options))}")
        keys = None
        if seed is not None or not self._was_reset:
            keys = self._keys(seed)
        self._exchange.take_mask(mask)
        with self._exchange.stream():
            if keys is not None:
                self._exchange.take_keys(keys)
                self._was_reset = True
            self._launch_reset()
        self.solver.report()
        return self.observations()

    def metrics(self) -> dict[str, Metric]:
        """Return what tells people how well each world does its task now, by name, see `Task.metrics`.

        In a world that has just restarted it is that of the new episode. It waits for a GPU.
        """
        return self.task.metrics(self.buffers.attach(self.sim))

    def observations(self) -> tuple[Any, dict[str, Any]]:
        """Return what the last reset or step, or the environment that `restore` continues, observed.

        Returns:
            Observations and infos as `reset` returns them.

        Raises:
            NewtonsimError: The environment was never reset, or it is closed.
        """
        self._check_open("observations")
        if not self._was_reset:
            raise NewtonsimError("observations: call reset first")
        return self._exchange.observations(), self._exchange.privileged()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action in each world.

        Args:
            actions: (num_envs, n), or (num_envs,) if they are discrete; NumPy or torch as `output` says.

        Returns:
            Observations (num_envs, n), rewards, terminations and truncations (num_envs,), and infos.

        Raises:
            NewtonsimError: Shape, type or values are wrong, or the environment is closed; on a GPU values are
                not checked.
        """
        self._check_open("step")
        if not self._was_reset:
            raise NewtonsimError("step: call reset first")
        self._exchange.take_actions(actions)
        with self._exchange.stream():
            if self._on_host:
                self._step_on_host()
            else:
                self.sim.step()
            if not self._in_one:
                self._go_on()
        return self._exchange.results()

    def ended_episodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the return and length of each world's last complete episode, (num_envs,) each; waits."""
        episodes = self.buffers.episodes
        return episodes.final_return.numpy(), episodes.final_length.numpy()

    def symmetry(self) -> Any:
        """Return a `newtonsim.envs.terms.symmetry.Symmetry`: how the task is mirrored at the plane y = 0.

        Raises:
            NewtonsimError: It does not, its world is not symmetric, or a map does not fit.
        """
        found = None if self._vision is not None else self.task.symmetry(self.model)
        if found is None or self.task.discrete_actions:
            raise NewtonsimError(f"{self.task.name}: symmetry: the task declares none; see `Task.symmetry`")
        low, high = np.asarray(self.motors.low), np.asarray(self.motors.high)
        found.check(self.task.name, self.task.observation_size, self.task.privileged_size, low, high)
        return found

    def save(self, path: str | os.PathLike) -> None:
        """Write all that the next step reads to a file, completely or not at all, see `Simulator.save`.

        This includes episodes, random numbers, randomised parameters, sensors and stacked pictures, but not
        what a task keeps in its own Python objects.

        Args:
            path: The file; an existing one is replaced.

        Raises:
            CheckpointError: It cannot be written.
        """
        self._memory().save(path)

    def restore(self, path: str | os.PathLike) -> None:
        """Continue from a file written by `save`, in an environment that was created in the same way.

        Args:
            path: The file.

        Raises:
            CheckpointError: The file cannot be read or is damaged, or a different environment wrote it; then
                nothing is changed.
        """
        self._memory().restore(path)

    def snapshot(self) -> Snapshot:
        """Return a copy of all that `save` writes; its `restore` method restores it."""
        return self._memory().snapshot()

    def _memory(self) -> Memory:
        self._check_open("save, restore and snapshot")
        self.buffers.attach(self.sim)
        return self.sim.memory(
            buffers=self.buffers,
            randomiser=self._randomiser,
            sensors=self._sensors,
            frames=self._frames,
            numbers=HostPart(self._random_numbers, self._set_random_numbers),
        )

    def _random_numbers(self) -> HostValues:
        """Whether there was a reset, and the generator from which the keys of the worlds were drawn."""
        held: HostValues = {"was_reset": self._was_reset, "generator": None, "seed": None}
        if self._np_random is not None:
            held["seed"] = str(self._np_random_seed)
            held["generator"] = json.dumps(self._np_random.bit_generator.state)
        return held

    def _set_random_numbers(self, held: HostValues) -> None:
        self._was_reset = bool(held["was_reset"])
        if held["generator"] is not None:
            self._np_random, _ = seeding.np_random(int(held["seed"]))
            self._np_random.bit_generator.state = json.loads(held["generator"])
            self._np_random_seed = int(held["seed"])

    def sensor(self, name: str) -> Any:
        """Return the readings of a sensor of the task, (num_envs, n), NumPy or torch as `output` says.

        It is a view, which the next step overwrites, except with NumPy on a GPU.

        Args:
            name: Its name in `Task.sensors`.

        Raises:
            NewtonsimError: There is no such sensor.
        """
        columns = self._sensors.columns
        if name not in columns:
            hint = did_you_mean(name, columns)
            raise NewtonsimError(f"there is no sensor {name!r}{hint}; there are {sorted(columns)}")
        return self._exchange.readings()[:, columns[name]]

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return a picture of each world, RGB (height, width, 3) uint8; None without a render mode.

        Raises:
            NewtonsimError: The environment is closed.
        """
        self._check_open("render")
        if self.render_mode is None:
            gymnasium.logger.warn("render: requires render_mode='rgb_array'")
            return None
        if self._camera is None:
            from newtonsim.envs.camera import EnvCamera

            self._camera = EnvCamera(self.task, self.model, *self._render_size)
        return tuple(self._camera.take(self.sim.state))

    def _check_open(self, call: str) -> None:
        if self.closed:
            raise NewtonsimError(f"{call}: the environment is closed")

    def close_extras(self, **kwargs: Any) -> None:
        """Warn about failures that were not reported; see `close`."""
        self.solver.report()

    def _keys(self, seed: int | Sequence[int] | None) -> np.ndarray:
        """Return a key of random numbers for each world, int32."""
        if seed is None or isinstance(seed, (int, np.integer)):
            super().reset(seed=None if seed is None else int(seed))
            words = np.random.SeedSequence(self.np_random_seed).generate_state(self.num_envs)
            return words.view(np.int32)
        if len(seed) != self.num_envs:
            raise NewtonsimError(f"seed: expected one or {self.num_envs}, got {len(seed)}")
        words = [np.random.SeedSequence(int(s)).generate_state(1)[0] for s in seed]
        return np.array(words, np.uint32).view(np.int32)

    def _launch_stage(self, name: str, launch: Launcher, view: EnvView, mask: wp.array) -> None:
        """Launch the kernels of a stage; `act` and `score` process all worlds."""
        stage = self._stages[name]
        if isinstance(stage, KernelSequence):
            stage.launch(launch, view, mask)
        elif name in ("act", "score"):
            launch.user_kernel(stage, "world", view)
        else:
            launch.user_kernel(stage, "world", view, mask)

    def _launch_observe(self, launch: Launcher, view: EnvView, mask: wp.array) -> None:
        """Observe the masked worlds, for policies and for critics."""
        self._launch_stage("observe", launch, view, mask)
        self._launch_privileged(launch, mask)

    def _launch_privileged(self, launch: Launcher, mask: wp.array) -> None:
        if self.task.privileged_size:
            self._launch_stage("privileged", launch, self.buffers.critics_view(), mask)

    def _launch_act(self, launch: Launcher, sim: Simulator) -> None:
        """Turn actions into controls."""
        view = self.buffers.attach(sim)
        self._launch_stage("act", launch, self._arrived(launch, view), self.buffers.everyone)
        if self._randomiser is not None:
            self._randomiser.launch_before(launch, view)
        self._sensors.launch_before(launch, view)

    def _arrived(self, launch: Launcher, view: EnvView) -> EnvView:
        """Return the view of the environment with the actions that currently drive it."""
        late = None if self._randomiser is None else self._randomiser.late
        return view if late is None else late.launch_arrivals(launch, view)

    def _blur(self, launch: Launcher, mask: wp.array) -> None:
        """Add noise to the observations of the masked worlds."""
        if self._randomiser is not None and self._randomiser.noise is not None:
            self._randomiser.noise.launch(launch, self.buffers.view, mask)

    def _launch_rest(self, launch: Launcher, sim: Simulator) -> None:
        """Launch what follows the physics of a step; not the next episodes if pictures come first."""
        view = self.buffers.attach(sim)
        if self.task.contact_wrenches:
            sim.solver.external_wrenches(launch.shard, sim.dt / sim.substeps, view.body_wrench)  # pyright: ignore[reportAttributeAccessIssue]
        self._sensors.launch(launch, view, sim, self.buffers.everyone, fresh=False)
        self._launch_observe(launch, view, self.buffers.everyone)
        self._launch_stage("score", launch, view, self.buffers.everyone)
        self._blur(launch, self.buffers.everyone)
        self._launch_finish(launch, sim)
        if self._in_one and self._mode != _MODES[AutoresetMode.DISABLED]:
            self._launch_restart(launch, sim, self.buffers.episodes.fresh)
            self._launch_observe(launch, view, self.buffers.episodes.fresh)
            self._blur(launch, self.buffers.episodes.fresh)

    def _launch_finish(self, launch: Launcher, sim: Simulator) -> None:
        launch(
            episodes.finish_step,
            "world",
            reads=dict(limit=self.max_episode_steps, mode=self._mode),
            writes=dict(env=self.buffers.attach(sim), episodes=self.buffers.episodes),
        )

    def _launch_restart(self, launch: Launcher, sim: Simulator, mask: wp.array) -> None:
        """Start new episodes in the masked worlds."""
        view = self.buffers.attach(sim)
        launch(
            episodes.begin_episodes,
            "world",
            reads=dict(mask=mask),
            writes=dict(env=view, episodes=self.buffers.episodes),
        )
        if self._randomiser is not None:
            self._randomiser.launch_draw(launch, view, mask)
        spawn = self._stages["spawn"]
        start = None if spawn is None else partial(self._launch_stage, "spawn", launch, view, mask)
        sim.reset_worlds(launch, mask, start)
        self._sensors.launch(launch, view, sim, mask, fresh=True)

    def _launch_reset(self) -> None:
        """Start the requested episodes, without a captured graph."""
        launch, mask = Launcher(self.model, record_tape=False), self.buffers.asked
        self._launch_restart(launch, self.sim, mask)
        self._observe(launch, mask)
        self._blur(launch, mask)
        if self._frames is not None:
            self._frames.fill(self.sim.state, mask)
        launch(
            episodes.clear_results,
            "world",
            reads=dict(mask=mask),
            writes=dict(env=self.buffers.view, episodes=self.buffers.episodes),
        )

    def _observe(self, launch: Launcher, mask: wp.array) -> None:
        observe = self._stages["observe"]
        if _is_recorded(observe):
            self._launch_observe(launch, self.buffers.attach(self.sim), mask)
        else:
            observe(self.task, self._host)
            self._launch_privileged(launch, mask)

    def _step_on_host(self) -> None:
        """Take a step of a task with stages that are Python functions."""
        launch = Launcher(self.model, record_tape=False)
        for name in ("act", "observe", "score"):
            stage = self._stages[name]
            if name == "observe":
                view = self.buffers.attach(self.sim)
                if self._randomiser is not None:
                    self._randomiser.launch_before(launch, view)
                self._sensors.launch_before(launch, view)
                self.sim.step()
                if self.task.contact_wrenches:
                    dt, out = self.sim.dt / self.sim.substeps, self.buffers.view.body_wrench
                    self.solver.external_wrenches(launch.shard, dt, out)  # pyright: ignore[reportAttributeAccessIssue]
                self._sensors.launch(launch, view, self.sim, self.buffers.everyone, fresh=False)
                self._observe(launch, self.buffers.everyone)
            elif _is_recorded(stage):
                view = self.buffers.attach(self.sim)
                arrived = self._arrived(launch, view) if name == "act" else view
                self._launch_stage(name, launch, arrived, self.buffers.everyone)
            else:
                stage(self.task, self._host)
        self._blur(launch, self.buffers.everyone)
        self._launch_finish(launch, self.sim)

    def _go_on(self) -> None:
        """Finish a step that is not one captured graph: take pictures of its end, and start new episodes."""
        if self._frames is not None:
            self._frames.push(self.sim.state)
        if self._mode != _MODES[AutoresetMode.DISABLED]:
            launch, fresh = Launcher(self.model, record_tape=False), self.buffers.episodes.fresh
            self._launch_restart(launch, self.sim, fresh)
            self._observe(launch, fresh)
            self._blur(launch, fresh)
            if self._frames is not None:
                self._frames.fill(self.sim.state, fresh)


def _is_recorded(stage: object) -> bool:
    """Tell whether a stage consists of kernels, which the recording of a step contains."""
    return isinstance(stage, (wp.Kernel, KernelSequence))


def _mode(mode: AutoresetMode | str) -> AutoresetMode:
    """Return a mode by its value in gymnasium."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        known = ", ".join(repr(m.value) for m in AutoresetMode)
        raise NewtonsimError(f"autoreset_mode: expected one of {known}, got {mode!r}") from None


def _limit(steps: int) -> int:
    if not isinstance(steps, (int, np.integer)) or steps < 0:
        raise NewtonsimError(f"max_episode_steps: expected a whole number of at least 0, got {steps!r}")
    return int(steps)
