"""Sources of the shown state: a simulation, a recording, or the caller's loop."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from newtonsim.errors import NewtonsimError, RecordingError
from newtonsim.scene.arrays import CONTROL_ARRAYS

if TYPE_CHECKING:
    import warp as wp

    from newtonsim.render.viewer.mouse import Mouse
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State
    from newtonsim.simulator import Simulator

Change = Callable[["State", "Control | None"], None]
"""A change of the state between two steps."""

Publish = Callable[["State", float, "Control | None"], None]
"""Sends a state, its time [s] and the inputs to the browsers."""

_RATE_WINDOW = 1.0
"""Time over which the speed is measured [s]."""

_LATEST = 0.1
"""A simulation that lags by more than this [s] does not catch up."""


class Source(Protocol):
    """States by number, such as a recording."""

    times: np.ndarray

    @property
    def model(self) -> Model: ...

    def load(self, index: int, state: State) -> object:
        """Write the state of a frame."""


class Playback(ABC):
    """Owner of the shown state; its methods may be called from any thread.

    Attributes:
        can_rewind: Whether it can return to a beginning.
        times: Times of the frames of a recording [s], shape (n,); None for a simulation.
        error: What stopped it, or None.
        trouble: Why the current frame cannot be shown, "" if it is shown.
        on_change: Called when it starts or stops playing.
    """

    can_rewind = False
    times: np.ndarray | None = None

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.trouble = ""
        self.on_change: Callable[[], None] = lambda: None
        self._playing, self._speed, self._steps = True, 1.0, 0
        self._changes: deque[Change] = deque()
        self._marks: deque[tuple[float, float]] = deque()

    @property
    def playing(self) -> bool:
        """Whether it is running."""
        return self._playing

    @playing.setter
    def playing(self, value: bool) -> None:
        self._playing = bool(value)
        self._wake()
        self.on_change()

    @property
    def speed(self) -> float:
        """Simulated time over real time; infinite for as fast as possible."""
        return self._speed

    @speed.setter
    def speed(self, value: float) -> None:
        if not value > 0.0:
            raise NewtonsimError(f"speed: expected a number above 0, got {value}")
        self._speed = float(value)
        self._wake()

    def step(self) -> None:
        """Pause, and make one step."""
        self._playing = False
        self._steps += 1
        self._wake()
        self.on_change()

    def post(self, change: Change) -> None:
        """Schedule a change of the state between two steps; the state is shown afterwards."""
        self._changes.append(change)
        self._wake()

    def rewind(self) -> None:
        """Go back to the beginning."""
        raise NewtonsimError("there is no beginning to return to")

    def seek(self, index: int) -> None:
        """Go to a frame of a recording."""
        raise NewtonsimError("there are no frames to choose from")

    def close(self) -> None:
        """Stop for good."""
        self._playing = False

    @property
    def measured_speed(self) -> float:
        """Simulated time over real time in the last second; NaN while unknown."""
        marks = list(self._marks)
        if len(marks) < 2 or marks[-1][0] == marks[0][0]:
            return math.nan
        return (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])

    def _mark(self, simulated: float) -> None:
        """Record the progress of the simulation, for `measured_speed`."""
        now = time.perf_counter()
        if self._marks and simulated < self._marks[-1][1]:
            self._marks.clear()
        self._marks.append((now, simulated))
        while self._marks[0][0] < now - _RATE_WINDOW:
            self._marks.popleft()

    def _make_changes(self, state: State, control: Control | None) -> bool:
        """Apply scheduled changes; return whether there were any."""
        any_change = bool(self._changes)
        while self._changes:
            self._changes.popleft()(state, control)
        return any_change

    @abstractmethod
    def _wake(self) -> None:
        """Wake waiting threads."""


class CallerLoop(Playback):
    """The caller changes the state, and shows it now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Event()
        self._closed = False

    def pass_by(self, state: State, seconds: float, control: Control | None, publish: Publish) -> None:
        """Apply the browser's changes; wait here while paused.

        Args:
            state: Is changed.
            seconds: Its time [s].
            control: Inputs of the simulation, which sliders change; or None.
            publish: Shows it.
        """
        self._mark(seconds)
        self._make_changes(state, control)
        publish(state, seconds, control)
        while not (self._playing or self._steps or self._closed):
            self._changed.wait(0.1)
            self._changed.clear()
            if self._make_changes(state, control):
                publish(state, seconds, control)
        self._steps = max(0, self._steps - 1)

    def close(self) -> None:
        """Release a waiting caller."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()


class ThreadedPlayback(Playback):
    """A thread that runs in real time and shows frames at a limited rate.

    Args:
        publish: Shows a state.
        rate: Largest number of frames per second [1/s].
    """

    def __init__(self, publish: Publish, rate: float):
        super().__init__()
        self._publish, self._period = publish, 1.0 / rate
        self._anchor: tuple[float, float] | None = None
        self._closing, self._changed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="newtonsim viewer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._closing.set()
        self._wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def wait(self) -> None:
        """Wait until it is closed or fails.

        Raises:
            Exception: What stopped it.
        """
        while not self._closing.wait(0.2):
            if self.error is not None:
                raise self.error

    def _wake(self) -> None:
        self._anchor = None
        self._changed.set()

    def _run(self) -> None:
        try:
            self._show()
            while not self._closing.is_set():
                began = time.perf_counter()
                self._changed.clear()
                if self._go_on(began):
                    self._show()
                if self._playing:
                    self._closing.wait(max(0.0, self._period - (time.perf_counter() - began)))
                elif not (self._changes or self._steps):
                    self._changed.wait(0.5)
        except Exception as error:
            self.error, self._playing = error, False
            self.on_change()

    def _go_on(self, began: float) -> bool:
        """Do what is due; return whether something changed."""
        changed = self._change()
        if self._steps and not self._playing:
            self._steps -= 1
            self._step_once()
            return True
        self._steps = 0
        if self._playing:
            changed |= self._advance(began)
        return changed

    def _due(self, now: float, simulated: float) -> float:
        """Return how much simulated time is due [s]."""
        if math.isinf(self._speed):
            return math.inf
        if self._anchor is None:
            # half a frame ahead, so that the first one already moves
            self._anchor = (now - 0.5 * self._period, simulated)
        due = self._anchor[1] + (now - self._anchor[0]) * self._speed - simulated
        if due > self._speed * (_LATEST + self._period):
            self._anchor = (now - self._period, simulated)
            due = self._speed * self._period
        return due

    @abstractmethod
    def _show(self) -> None:
        """Show the current state."""

    @abstractmethod
    def _change(self) -> bool:
        """Apply scheduled changes; return whether there were any."""

    @abstractmethod
    def _advance(self, began: float) -> bool:
        """Advance by what is due; return whether something changed."""

    @abstractmethod
    def _step_once(self) -> None:
        """Advance by one step."""


class SimulationPlayback(ThreadedPlayback):
    """Steps a simulator.

    Args:
        simulator: The simulator; its current state is the beginning.
        publish: Shows a state.
        rate: Largest number of frames per second [1/s].
        mouse: Force of the mouse, which acts while a body is dragged.
        before_step: Called with the simulator before each of its steps, such as a policy that writes to its
            `control`.
    """

    can_rewind = True

    def __init__(
        self,
        simulator: Simulator,
        publish: Publish,
        rate: float,
        mouse: Mouse,
        before_step: Callable[[Simulator], None] | None = None,
    ):
        super().__init__(publish, rate)
        self.simulator, self._mouse, self._before = simulator, mouse, before_step
        self._start, self._start_time = simulator.state.clone(), simulator.time
        self._inputs = {name: array.numpy().copy() for name, array in _inputs(simulator.control)}
        self._cost = 0.0

    def rewind(self) -> None:
        """Reset the simulation to its first state and inputs."""
        self.post(lambda state, control: self._restart())

    def _restart(self) -> None:
        self.simulator.reset(state=self._start)
        self.simulator.time = self._start_time
        for name, array in _inputs(self.simulator.control):
            array.assign(self._inputs[name])

    def _show(self) -> None:
        self._mark(self.simulator.time)
        self._publish(self.simulator.state, self.simulator.time, self.simulator.control)

    def _change(self) -> bool:
        return self._make_changes(self.simulator.state, self.simulator.control)

    def _advance(self, began: float) -> bool:
        simulator = self.simulator
        due = self._due(began, simulator.time)
        deadline, moved = began + self._period, False
        while due >= simulator.dt and self._playing and not self._closing.is_set():
            left = deadline - time.perf_counter()
            if moved and left <= 0.0:
                break
            most = max(1.0, left / self._cost) if self._cost else 1.0
            n = 1 if self._is_watched else int(min(due / simulator.dt, most))
            self._step(n)
            due -= n * simulator.dt
            moved = True
        return moved

    def _step_once(self) -> None:
        self._step(1)

    @property
    def _is_watched(self) -> bool:
        """Whether something must be done between all steps."""
        return self._mouse.holds or self._before is not None

    def _step(self, n: int) -> None:
        began = time.perf_counter()
        if self._before is not None:
            self._before(self.simulator)
        with self._mouse.pulling(self.simulator.state, self.simulator.dt):
            self.simulator.step(n)
        cost = (time.perf_counter() - began) / n
        self._cost = cost if not self._cost else 0.8 * self._cost + 0.2 * cost


class RecordingPlayback(ThreadedPlayback):
    """Shows the frames of a recording; a frame that cannot be read leaves the last one.

    Args:
        source: The recording.
        publish: Shows a state.
        rate: Largest number of frames per second [1/s].
    """

    can_rewind = True

    def __init__(self, source: Source, publish: Publish, rate: float):
        super().__init__(publish, rate)
        self.times = np.asarray(source.times, np.float64)
        if not len(self.times):
            raise NewtonsimError("the recording has no frames")
        self._source, self._state = source, source.model.state(requires_grad=False)
        self._time, self.index, self._target_index = float(self.times[0]), -1, None
        self._load(0)

    def rewind(self) -> None:
        """Go to the first frame."""
        self.seek(0)

    def seek(self, index: int) -> None:
        """Go to a frame.

        Raises:
            NewtonsimError: There is no such frame.
        """
        if not 0 <= index < len(self.times):
            raise NewtonsimError(f"frame: expected 0..{len(self.times) - 1}, got {index}")
        self._target_index = index
        self._wake()

    def _show(self) -> None:
        self._mark(self._time)
        self._publish(self._state, float(self.times[self.index]), None)

    def _change(self) -> bool:
        self._changes.clear()
        target, self._target_index = self._target_index, None
        if target is None:
            return False
        self._time = float(self.times[target])
        self._load(target)
        return True

    def _advance(self, began: float) -> bool:
        last = len(self.times) - 1
        if last == 0:
            self._playing = False
            return False
        if self.index == last:
            self._time, self._anchor = float(self.times[0]), None
            self._load(0)
            return True
        if math.isinf(self._speed):
            self._load(min(self.index + 1, last))
            self._time = float(self.times[self.index])
        else:
            self._time = min(self._time + self._due(began, self._time), float(self.times[-1]))
            self._load(int(np.searchsorted(self.times, self._time, side="right")) - 1)
        self._playing = self.index < last
        return True

    def _step_once(self) -> None:
        self._load(min(self.index + 1, len(self.times) - 1))
        self._time = float(self.times[self.index])

    def _load(self, index: int) -> None:
        if index == self.index:
            return
        self.index, self.trouble = index, ""
        try:
            self._source.load(index, self._state)
        except RecordingError as error:  # other parts of the file may be whole
            self.trouble = str(error)


def _inputs(control: Control) -> list[tuple[str, wp.array]]:
    found = [(spec.name, getattr(control, spec.name)) for spec in CONTROL_ARRAYS]
    return [(name, array) for name, array in found if array is not None]
