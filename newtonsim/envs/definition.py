"""What a task must define, checked before kernels run that would otherwise access foreign memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import warp as wp

from newtonsim.envs.stages import KernelSequence
from newtonsim.envs.task import Task
from newtonsim.envs.values import is_number
from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.envs.task import Motors

_Kind = TypeVar("_Kind")


def check_definition(task: Task) -> None:
    """Raise an error unless a task defines all that an environment needs before its world is built.

    Raises:
        NewtonsimError: Something is missing or has the wrong type; the error names the task's class.
    """
    if not isinstance(task, Task):
        raise NewtonsimError(f"task: expected an object of a class derived from Task, got {task!r}")
    cls = type(task)
    for name, right, expected in (
        ("name", _is_name, "a name"),
        ("dt", _is_time, "the time of a solver step [s], greater than 0"),
        ("frame_skip", _is_count, "a whole number of at least 1"),
    ):
        value = getattr(task, name, None)
        if not right(value):
            raise NewtonsimError(f"{cls.__name__}: {name}: expected {expected}, got {value!r}")
    for name in ("act", "observe", "score"):
        stage = task.stage(name)
        if not _is_stage(stage):
            raise NewtonsimError(
                f"{cls.__name__}: {name}: expected a kernel, or a method that takes a HostView, got {stage!r}"
            )
    for name in ("spawn", "privileged"):
        stage = task.stage(name)
        if stage is not None and not isinstance(stage, (wp.Kernel, KernelSequence)):
            raise NewtonsimError(f"{cls.__name__}: {name}: expected a kernel or None, got {stage!r}")


def returned(task: Task, method: str, value: Any, kind: type[_Kind]) -> _Kind:
    """Check and return what a method of a task has returned.

    Raises:
        NewtonsimError: It is not of that kind.
    """
    if not isinstance(value, kind):
        hint = "; is a return statement missing?" if value is None else ""
        raise NewtonsimError(
            f"{type(task).__name__}: {method}: expected it to return {kind.__name__}, got {value!r}{hint}"
        )
    return value


def check_sizes(task: Task, motors: Motors, world: ModelBuilder) -> None:
    """Raise an error if kernels would read or write beyond the arrays that a task asks for; after `build`.

    Raises:
        NewtonsimError: The size of an observation is missing, lists of the motors differ in length, or an
            axis does not exist.
    """
    name, size = type(task).__name__, getattr(task, "observation_size", None)
    if not _is_count(size):
        raise NewtonsimError(f"{name}: observation_size: expected a whole number of at least 1, got {size!r}")
    size = task.privileged_size
    if not _is_count(size) and size != 0:
        raise NewtonsimError(f"{name}: privileged_size: expected a whole number of at least 0, got {size!r}")
    stage = task.stage("privileged")
    if (size and stage is None) or (not size and isinstance(stage, wp.Kernel)):
        there = "no" if stage is None else "a"
        raise NewtonsimError(f"{name}: privileged_size: there is {there} kernel `privileged`, got {size}")
    if len(motors.axes) != len(motors.gears) or len(motors.low) != len(motors.high):
        counts = [len(values) for values in (motors.axes, motors.gears, motors.low, motors.high)]
        raise NewtonsimError(
            f"{name}: motors: expected as many gears as axes, and as many high as low, got {counts} axes, "
            "gears, low and high"
        )
    for axis in motors.axes:
        if not 0 <= axis < world.joint_axis_count:
            raise NewtonsimError(
                f"{name}: motors.axes: expected axes from 0 to {world.joint_axis_count - 1}, got {axis}"
            )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_time(value: Any) -> bool:
    return is_number(value) and 0.0 < value < float("inf")


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and value >= 1  # pyright: ignore[reportReturnType]


def _is_stage(value: object) -> bool:
    # a function of Warp runs in kernels alone
    return isinstance(value, (wp.Kernel, KernelSequence)) or (
        callable(value) and not isinstance(value, wp.Function)
    )
