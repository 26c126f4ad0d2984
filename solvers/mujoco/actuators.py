"""Actuators of a model as actuators of an MjSpec.

Sources: MuJoCo's documentation, "XML reference", element actuator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.builder.actuators import BIASES, GAINS, ActuatorLaw, ActuatorTarget
from newtonsim.solvers.mujoco.source import HostModel, Selection
from newtonsim.solvers.mujoco.spec import BodyWriter, Names, wxyz
from newtonsim.solvers.mujoco.tendons import TendonWriter

if TYPE_CHECKING:
    import mujoco


class ActuatorWriter:
    """Writes the actuators of the selected world into a spec that holds what they act on.

    Args:
        host: The model.
        chosen: What to write.
        spec: Where to.
        names: Names in use.
        trees: Bodies and joints of the spec.
        tendons: Tendons of the spec.

    Attributes:
        actuators: Actuators of the spec by actuator of the model.
    """

    def __init__(
        self,
        host: HostModel,
        chosen: Selection,
        spec: mujoco.MjSpec,
        names: Names,
        trees: BodyWriter,
        tendons: TendonWriter,
    ):
        self.host, self.chosen, self.spec, self.names = host, chosen, spec, names
        self.trees, self.tendons = trees, tendons
        self.actuators: dict[int, Any] = {}

    def write(self) -> None:
        """Write all of them."""
        for number in self.chosen.members["actuator"][0].tolist():
            key = self.names.of("actuator", self.host.actuator_key[number])
            actuator = self.actuators[number] = self.spec.add_actuator(name=key)
            _write_law(actuator, self._law(number))
            self._aim(actuator, number)

    def _law(self, number: int) -> ActuatorLaw:
        """The law for MuJoCo's lengths, which of tendons are without their offset."""
        law, tendon = self.host.actuator_law[number], int(self.host.actuator_tendon[number])
        if self.host.actuator_target[number] != ActuatorTarget.TENDON:
            return law
        return law.shifted(law.gear[0] * float(self.host.tendon_offset[tendon]))

    def _aim(self, actuator: Any, number: int) -> None:
        """Say what an actuator acts on."""
        import mujoco

        host, kinds = self.host, mujoco.mjtTrn
        target = ActuatorTarget(int(host.actuator_target[number]))
        if target in (ActuatorTarget.JOINT, ActuatorTarget.JOINT_IN_PARENT):
            inside = target == ActuatorTarget.JOINT_IN_PARENT
            actuator.trntype = kinds.mjTRN_JOINTINPARENT if inside else kinds.mjTRN_JOINT
            actuator.target = self._joint(number)
        elif target == ActuatorTarget.TENDON:
            actuator.trntype = kinds.mjTRN_TENDON
            actuator.target = self.tendons.tendons[int(host.actuator_tendon[number])].name
        elif target == ActuatorTarget.BODY:
            actuator.trntype = kinds.mjTRN_BODY
            actuator.target = self.trees.bodies[int(host.actuator_bodies[number, 0])].name
        else:
            crank = target == ActuatorTarget.CRANK
            actuator.trntype = kinds.mjTRN_SLIDERCRANK if crank else kinds.mjTRN_SITE
            actuator.target = self._site(number, 0, host.actuator_frame[number])
            if host.actuator_has_reference[number]:
                site = self._site(number, 1, host.actuator_reference[number])
                setattr(actuator, "slidersite" if crank else "refsite", site)

    def _joint(self, number: int) -> str:
        axis = int(self.host.actuator_axis[number])
        if axis >= 0:
            return self.trees.axis_name(axis)
        return self.trees.joints[int(self.host.actuator_joint[number])][0].name

    def _site(self, number: int, column: int, frame: np.ndarray) -> str:
        name = self.names.of("site", f"{self.host.actuator_key[number]}_{('frame', 'reference')[column]}")
        body = self.trees.bodies[int(self.host.actuator_bodies[number, column])]
        body.add_site(name=name, pos=frame[:3], quat=wxyz(frame[3:]))
        return name


def _write_law(actuator: Any, law: ActuatorLaw) -> None:
    """Write the force of an actuator; MuJoCo numbers its types in the order of ours."""
    import mujoco

    actuator.gaintype = mujoco.mjtGain(GAINS.index(law.gain_type))
    actuator.biastype = mujoco.mjtBias(BIASES.index(law.bias_type))
    actuator.dyntype = getattr(mujoco.mjtDyn, f"mjDYN_{law.dynamics_type.upper()}")
    for name, values in (("gainprm", law.gain), ("biasprm", law.bias), ("dynprm", law.dynamics)):
        numbers = np.zeros(10)
        numbers[: len(values)] = values
        setattr(actuator, name, numbers)
    actuator.gear = [*law.gear, *[0.0] * (6 - len(law.gear))]
    for name, short in (("control", "ctrl"), ("force", "force"), ("activation", "act")):
        span = getattr(law, f"{name}_range")
        if span is not None:
            setattr(actuator, f"{short}limited", True)
            setattr(actuator, f"{short}range", list(span))
    actuator.actearly, actuator.cranklength = law.early, law.crank_length
    if law.length_range is not None:
        actuator.lengthrange = list(law.length_range)
