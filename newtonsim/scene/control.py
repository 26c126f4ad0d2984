"""Inputs to a simulation."""

from newtonsim.scene.array_types import ControlArrays
from newtonsim.scene.arrays import CONTROL_ARRAYS
from newtonsim.scene.fitting import ArrayGroup


class Control(ControlArrays, ArrayGroup):
    """Inputs of joints, muscles and elastic elements. Create one with `Model.control`.

    Arrays of elements that the model does not have are None.

    Attributes:
        joint_act: Control inputs, whose meaning is `Model.joint_axis_mode`, shape (joint_axis_count,).
        joint_f: Generalised forces added to the drives [N m or N], shape (joint_dof_count,).
        tri_activations: Triangle activations, shape (tri_count,).
        tet_activations: Tetrahedron activations, shape (tet_count,).
        muscle_activations: Muscle activations, shape (muscle_count,).
        tendon_act: Control inputs of tendons, as `joint_act`, shape (tendon_count,).
        actuator_ctrl: Control inputs of actuators, see `ModelBuilder.add_actuator`, shape (actuator_count,).
    """

    specs = CONTROL_ARRAYS

    def clear(self) -> None:
        """Set all inputs to zero."""
        for spec in CONTROL_ARRAYS:
            array = getattr(self, spec.name)
            if array is not None:
                array.zero_()

    def reset(self) -> None:
        """Set all inputs to zero."""
        self.clear()
