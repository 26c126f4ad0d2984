"""Actuator models: how a command becomes an effort on a joint, or a target of the solver's drive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from newtonsim.actuators.networks import Lstm, Mlp
from newtonsim.errors import NewtonsimError


def check_number(name: str, value: object, low: float = 0.0, strict: bool = False, inf: bool = False) -> None:
    """Raise an error unless a value is a finite number of at least `low`, or above it if `strict`.

    Raises:
        NewtonsimError: It is not.
    """
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    if right:
        right = (value > low if strict else value >= low) and (inf or math.isfinite(value))  # pyright: ignore[reportOperatorIssue, reportArgumentType]
    if not right:
        raise NewtonsimError(
            f"{name}: expected a number {'above' if strict else 'of at least'} {low:g}, got {value!r}"
        )


@dataclass(frozen=True)
class Delay:
    """Time from a command to its effect, drawn by each world at the start of each episode.

    Attributes:
        low: Shortest [s].
        high: Longest [s]; None for `low`, which is then the delay of all worlds.

    Raises:
        NewtonsimError: A time is negative or not finite, or the longest below the shortest.
    """

    low: float
    high: float | None = None

    def __post_init__(self) -> None:
        check_number("delay", self.low)
        if self.high is not None:
            check_number("delay", self.high, self.low)

    @property
    def longest(self) -> float:
        """The longest delay [s]."""
        return self.low if self.high is None else self.high


@dataclass(frozen=True)
class MotorCurve:
    """Largest torque of a motor at the joint as a function of its speed; it decreases with speed.

    Along the motion the torque is linear between the points, and that of the last point beyond it. Against
    the motion, as the motor brakes, it is that of the first point, which the current limit of its driver
    sets.

    Attributes:
        speeds: Speeds [rad/s or m/s], increasing from 0.
        torques: Torques at these speeds [N m or N], not increasing, and lower at the end than at the start.

    Raises:
        NewtonsimError: The curve is not decreasing, or the numbers of speeds and torques differ.
    """

    speeds: Sequence[float]
    torques: Sequence[float]

    def __post_init__(self) -> None:
        speeds, torques = list(self.speeds), list(self.torques)
        if len(speeds) != len(torques) or len(speeds) < 2:
            raise NewtonsimError(
                f"motor curve: expected as many torques as speeds, at least 2, got {len(speeds)} speeds and "
                f"{len(torques)} torques"
            )
        for name, values in (("speeds", speeds), ("torques", torques)):
            for value in values:
                check_number(f"motor curve, {name}", value)
        if speeds[0] != 0.0 or any(b <= a for a, b in pairwise(speeds)):
            raise NewtonsimError(f"motor curve: expected speeds that increase from 0, got {speeds}")
        if any(b > a for a, b in pairwise(torques)) or torques[-1] >= torques[0]:
            raise NewtonsimError(f"motor curve: expected torques that decrease with speed, got {torques}")

    @classmethod
    def of_dc_motor(
        cls, stall_torque: float, no_load_speed: float, peak_torque: float | None = None
    ) -> MotorCurve:
        """Return the straight line of a DC motor at full voltage, limited by a peak.

        Args:
            stall_torque: Torque at rest at full voltage [N m or N].
            no_load_speed: Speed without load [rad/s or m/s].
            peak_torque: Largest torque, set by the largest current; None for that at rest.

        Raises:
            NewtonsimError: A number is not positive, or the peak is above the torque at rest.
        """
        check_number("stall_torque", stall_torque, strict=True)
        check_number("no_load_speed", no_load_speed, strict=True)
        if peak_torque is None or peak_torque == stall_torque:
            return cls((0.0, no_load_speed), (stall_torque, 0.0))
        check_number("peak_torque", peak_torque, strict=True)
        if peak_torque > stall_torque:
            raise NewtonsimError(
                f"peak_torque: expected at most the torque at rest, {stall_torque}, got {peak_torque}"
            )
        corner = no_load_speed * (1.0 - peak_torque / stall_torque)
        return cls((0.0, corner, no_load_speed), (peak_torque, peak_torque, 0.0))


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """Base of actuators. A command passes through the delay and the activation before it takes effect.

    Attributes:
        delay: Delay of the command [s], or a `Delay` that differs between worlds.
        activation: Time constant with which the activation follows the command [s], 0 for none. It starts
            settled at the first command.
        motor: Torque-speed curve that limits the effort; None for none.

    Raises:
        NewtonsimError: A number is out of range.
    """

    delay: float | Delay = 0.0
    activation: float = 0.0
    motor: MotorCurve | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.delay, Delay):
            object.__setattr__(self, "delay", Delay(self.delay))
        check_number("activation", self.activation)


@dataclass(frozen=True, kw_only=True)
class Drive(Actuator):
    """The solver's own drive of the joint, implicit and stable at any gain, behind the delay and activation.

    The mode of the axis defines what the command means, as without an actuator.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.motor is not None:
            raise NewtonsimError("Drive: a torque-speed curve needs an effort; use PD, PID or Effort")


@dataclass(frozen=True, kw_only=True)
class Effort(Actuator):
    """A motor whose command is the effort [N m or N] itself."""


@dataclass(frozen=True, kw_only=True)
class PD(Actuator):
    """Explicit kp (u - q) - kd v with the state at the start of a solver step, as controllers of robots do.

    It becomes unstable if the time step is too long for the gains, unlike `Drive`.

    Attributes:
        stiffness: kp [N m/rad or N/m]; None for that of the axis in the model.
        damping: kd [N m s/rad or N s/m]; None likewise.
    """

    stiffness: float | None = None
    damping: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("stiffness", "damping"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class PID(PD):
    """`PD` with an integral: kp e + ki ∫e dt - kd v, e = u - q.

    Attributes:
        integral: ki [N m/(rad s) or N/(m s)].
        integral_limit: Largest effort of the integral [N m or N], which does not wind up beyond it.
    """

    integral: float = 0.0
    integral_limit: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("integral", self.integral)
        check_number("integral_limit", self.integral_limit, strict=True, inf=True)


@dataclass(frozen=True, kw_only=True)
class DCMotor(PD):
    """`PD` whose effort is limited by the torque-speed line of a DC motor.

    Attributes:
        stall_torque: Torque at rest at full voltage [N m or N].
        no_load_speed: Speed without load [rad/s or m/s].
        peak_torque: Largest torque, by the largest current [N m or N]; None for that at rest.
    """

    stall_torque: float
    no_load_speed: float
    peak_torque: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.motor is not None:
            raise NewtonsimError("DCMotor: it has its own curve; use PD(motor=...) for another one")
        curve = MotorCurve.of_dc_motor(self.stall_torque, self.no_load_speed, self.peak_torque)
        object.__setattr__(self, "motor", curve)


@dataclass(frozen=True, kw_only=True)
class Network(Actuator):
    """A network trained on a real actuator: position errors and velocities in, effort out.

    Source: Hwangbo et al., "Learning agile and dynamic motor skills for legged robots", 2019, whose network
        sees current errors and velocities and those of 10 and 20 ms ago.

    Attributes:
        network: An `Mlp` with two inputs for each entry of `history`, or an `Lstm` with as many.
        history: Ages of the network's inputs in solver steps, 0 for the current ones.
        position_first: Whether all errors u - q come before all velocities, rather than after them.
        position_scale: Factor on errors of position.
        velocity_scale: Factor on velocities.
        effort_scale: Factor on the output, which gives the effort [N m or N].
    """

    network: Mlp | Lstm
    history: Sequence[int] = (0,)
    position_first: bool = True
    position_scale: float = 1.0
    velocity_scale: float = 1.0
    effort_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        network, history = self.network, list(self.history)
        if not isinstance(network, (Mlp, Lstm)):
            raise NewtonsimError(f"network: expected an Mlp or an Lstm, got a {type(network).__name__}")
        whole = all(isinstance(lag, int) and lag >= 0 for lag in history)
        if not history or not whole or len(set(history)) < len(history):
            raise NewtonsimError(f"history: expected distinct numbers of steps of at least 0, got {history}")
        if network.inputs != 2 * len(history):
            raise NewtonsimError(
                f"network: expected {2 * len(history)} inputs, a position and a velocity for each of "
                f"history={history}, got a network of {network.inputs}"
            )
        if network.outputs != 1:
            raise NewtonsimError(f"network: expected one output, the effort, got {network.outputs}")
        for name in ("position_scale", "velocity_scale", "effort_scale"):
            check_number(name, getattr(self, name), -math.inf, strict=True)
