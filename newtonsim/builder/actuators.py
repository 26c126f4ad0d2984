"""Actuators that act on more than the axis of a joint or a tendon, or by more than a drive's law."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import warp as wp

from newtonsim.builder.lists import BuilderLists
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import as_warp_transform

GAINS = ("fixed", "affine", "muscle")
BIASES = ("none", "affine", "muscle")
DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle")

Range = tuple[float, float]


class ActuatorTarget(IntEnum):
    """What an actuator acts on.

    JOINT: a joint, along its axis or, of a ball and a free joint, along the gear in the child's frame;
    JOINT_IN_PARENT: the same along the gear in the parent's frame; TENDON: the length of a tendon;
    SITE: a frame of a body, along the gear in it, against the frame of reference if there is one;
    CRANK: the slider of a crank whose pin is the frame, along the z axis of the frame of reference;
    BODY: all contacts of a body, which it presses together, whatever the gear.
    """

    JOINT = 0
    JOINT_IN_PARENT = 1
    TENDON = 2
    SITE = 3
    CRANK = 4
    BODY = 5


@dataclass(frozen=True)
class ActuatorLaw:
    """The force of an actuator, gear (gain(l, l') a + bias(l, l')), as MuJoCo has it.

    Source: MuJoCo's documentation, "Computation: Actuation model" and "XML reference: actuator/general", for
    the names and numbers.

    Attributes:
        gain_type: "fixed", "affine" or "muscle", as `gaintype`.
        gain: As `gainprm`, up to ten numbers.
        bias_type: "none", "affine" or "muscle", as `biastype`.
        bias: As `biasprm`.
        dynamics_type: "none", "integrator", "filter", "filterexact" or "muscle", as `dyntype`.
        dynamics: As `dynprm`.
        gear: Up to six numbers: a length per position, or a force and torque in a frame.
        control_range: Smallest and largest control.
        force_range: Smallest and largest force before the gear.
        activation_range: Smallest and largest activation.
        early: Whether the activation at the end of a step determines its force, as `actearly`.
        length_range: Shortest and largest length of a muscle [m]; None for what MuJoCo finds.
        crank_length: Length of a crank's rod [m].

    Raises:
        ModelError: A number is not finite, a range is reversed, or a type is not known.
    """

    gain_type: str = "fixed"
    gain: tuple[float, ...] = (1.0,)
    bias_type: str = "none"
    bias: tuple[float, ...] = ()
    dynamics_type: str = "none"
    dynamics: tuple[float, ...] = (1.0,)
    gear: tuple[float, ...] = (1.0,)
    control_range: Range | None = None
    force_range: Range | None = None
    activation_range: Range | None = None
    early: bool = False
    length_range: Range | None = None
    crank_length: float = 0.0

    def __post_init__(self) -> None:
        for name, known in (("gain_type", GAINS), ("bias_type", BIASES), ("dynamics_type", DYNAMICS)):
            if getattr(self, name) not in known:
                raise ModelError(f"{name}: expected one of {', '.join(known)}, got {getattr(self, name)!r}")
        for name, most in (("gain", 10), ("bias", 10), ("dynamics", 10), ("gear", 6)):
            values = getattr(self, name)
            if len(values) > most or not all(map(math.isfinite, values)):
                raise ModelError(f"{name}: expected up to {most} finite numbers, got {values}")
        for name in ("control_range", "force_range", "activation_range", "length_range"):
            span = getattr(self, name)
            if span is not None and not span[0] < span[1]:
                raise ModelError(f"{name}: expected (low, high), got {span}")

    @property
    def is_scaled(self) -> bool:
        """Whether the force of a muscle is given by what it accelerates, as `scale`."""
        pairs = ((self.gain_type, self.gain), (self.bias_type, self.bias))
        return any(kind == "muscle" and muscle_numbers(given)[2] < 0.0 for kind, given in pairs)

    def lacks(self, target: ActuatorTarget) -> str:
        """Return what FeatherstoneSolver would have to know of an actuator, "" for nothing.

        MuJoCo's compiler finds the range of lengths of a muscle by a simulation of its own, and what the
        force accelerates in frames.
        """
        if "muscle" not in (self.gain_type, self.bias_type):
            return ""
        if self.length_range is None:
            return "a muscle without lengthrange"
        near = target in (ActuatorTarget.JOINT, ActuatorTarget.JOINT_IN_PARENT, ActuatorTarget.TENDON)
        return "a muscle in a frame whose force is given by scale" if self.is_scaled and not near else ""

    def shifted(self, length: float) -> ActuatorLaw:
        """Return the same law for lengths that are measured from another zero.

        Args:
            length: What lengths of this law have over those of the other [m or rad].
        """

        def moved(kind: str, numbers: tuple[float, ...]) -> tuple[float, ...]:
            if kind != "affine" or len(numbers) < 2:
                return numbers
            return (numbers[0] + numbers[1] * length, *numbers[1:])

        span = self.length_range
        return replace(
            self,
            gain=moved(self.gain_type, self.gain),
            bias=moved(self.bias_type, self.bias),
            length_range=None if span is None else (span[0] - length, span[1] - length),
        )


def muscle_numbers(given: Sequence[float]) -> tuple[float, ...]:
    """Return the nine numbers of a muscle, as `gainprm`; those that are missing are zero."""
    return (*given, *[0.0] * 9)[:9]


class ActuatorMethods(BuilderLists):
    """The part of ModelBuilder that adds actuators, which FeatherstoneSolver and MuJoCoSolver simulate.

    Drives of joint axes and of tendons, which all solvers have, are in the methods that add these.
    """

    def add_actuator(
        self,
        target: ActuatorTarget,
        law: ActuatorLaw,
        *,
        joint: int = -1,
        axis: int = -1,
        tendon: int = -1,
        bodies: Sequence[int] = (-1, -1),
        frame: Sequence | wp.transform | None = None,
        reference: Sequence | wp.transform | None = None,
        action: float = 0.0,
        activation: float = 0.0,
        key: str | None = None,
    ) -> int:
        """Add an actuator, which acts in addition to what drives joints and tendons.

        Its control input is its entry in `Control.actuator_ctrl`.

        Args:
            target: What it acts on.
            law: Its force.
            joint: The joint, if it is on one.
            axis: The axis of that joint, if it has axes.
            tendon: The tendon, if it is on one.
            bodies: Body of the frame, or whose contacts it presses together, and body of the frame of
                reference; -1 for the world.
            frame: Frame in the first body, a transform (7,); None for that of the body.
            reference: Frame of reference in the second body; None for none.
            action: Initial control input.
            activation: Initial activation, of states of the model; MuJoCoSolver starts with none.
            key: Name.

        Returns:
            The index of the actuator.

        Raises:
            ModelError: What the target needs is missing.
        """
        key = key if key is not None else f"actuator_{self._count('actuator')}"
        needs = {
            ActuatorTarget.JOINT: joint >= 0,
            ActuatorTarget.JOINT_IN_PARENT: joint >= 0,
            ActuatorTarget.TENDON: tendon >= 0,
            ActuatorTarget.CRANK: reference is not None and law.crank_length > 0.0,
            ActuatorTarget.BODY: bodies[0] >= 0,
        }
        if not needs.get(target, True):
            raise ModelError(
                f"actuator '{key}': what it acts on is missing, {ActuatorTarget(target).name} needs it"
            )
        index = self._count("actuator")
        self.actuator_target.append(int(target))
        self.actuator_law.append(law)
        self.actuator_joint.append(joint)
        self.actuator_axis.append(axis)
        self.actuator_tendon.append(tendon)
        self.actuator_bodies.append((int(bodies[0]), int(bodies[1])))
        self.actuator_frame.append(as_warp_transform(frame, f"actuator '{key}': frame"))
        self.actuator_has_reference.append(int(reference is not None))
        self.actuator_reference.append(as_warp_transform(reference, f"actuator '{key}': reference"))
        self.actuator_ctrl.append(float(action))
        self.actuator_act.append(float(activation))
        self.actuator_key.append(key)
        return index

    def remove_actuators(self, indices: Collection[int]) -> None:
        """Remove actuators; those after them move up.

        Args:
            indices: The indices of the actuators.

        Raises:
            ModelError: There is no such actuator.
        """
        count = self._count("actuator")
        absent = [index for index in indices if not 0 <= index < count]
        if absent:
            raise ModelError(f"remove_actuators: there is no actuator {absent[0]}, only {count}")
        kept = [index for index in range(count) if index not in indices]
        for spec, values in self._lists():
            if spec.per == "actuator":
                values[:] = [values[index] for index in kept]
