"""The part of a simulation that changes with time."""

import warp as wp

from newtonsim.errors import ModelError
from newtonsim.scene.array_types import StateArrays
from newtonsim.scene.arrays import STATE_ARRAYS
from newtonsim.scene.fitting import ArrayGroup


def check_assignable(name: str, expected: wp.array | None, given: wp.array | None) -> None:
    """Check that an array can replace another.

    Raises:
        ModelError: Shape or type differ.
    """
    expected_shape = (0,) if expected is None else tuple(expected.shape)
    given_shape = (0,) if given is None else tuple(given.shape)
    if expected_shape != given_shape:
        raise ModelError(f"{name}: expected {expected_shape}, got {given_shape}")
    if expected is not None and given is not None and expected.dtype is not given.dtype:
        raise ModelError(f"{name}: expected {expected.dtype.__name__}, got {given.dtype.__name__}")


class State(StateArrays, ArrayGroup):
    """Positions, velocities and external forces. Create one with `Model.state`.

    Arrays of elements that the model does not have are None.

    Attributes:
        particle_q: Positions [m], shape (particle_count,), vec3.
        particle_qd: Velocities [m/s], shape (particle_count,), vec3.
        particle_f: External forces [N], shape (particle_count,), vec3.
        body_q: Poses of the body frames in the world, shape (body_count,), transform.
        body_qd: Angular velocity [rad/s] and velocity of the centre of mass [m/s], world axes, shape
            (body_count,).
        body_f: External torque [N m] and force [N] at the centre of mass, world axes, shape (body_count,).
        joint_q: Joint positions, shape (joint_coord_count,).
        joint_qd: Joint velocities, shape (joint_dof_count,).
        actuator_act: Activations of actuators, which FeatherstoneSolver advances where they have dynamics;
            MuJoCoSolver keeps its own; shape (actuator_count,).
    """

    specs = STATE_ARRAYS

    def clear_forces(self) -> None:
        """Set the external forces on particles and bodies to zero."""
        for forces in (self.particle_f, self.body_f):
            if forces is not None:
                forces.zero_()

    def assign(self, other: "State") -> None:
        """Copy the values of another state of the same model.

        Raises:
            ModelError: An array has another length or type; nothing is copied then.
        """
        for spec in STATE_ARRAYS:
            check_assignable(spec.name, getattr(self, spec.name), getattr(other, spec.name))
        for spec in STATE_ARRAYS:
            if getattr(self, spec.name) is not None:
                wp.copy(getattr(self, spec.name), getattr(other, spec.name))

    def clone(self) -> "State":
        """Return a state with its own copies of the arrays."""
        twin = State()
        for spec in STATE_ARRAYS:
            array = getattr(self, spec.name)
            if array is not None:
                setattr(twin, spec.name, wp.clone(array))
        return twin

    @property
    def requires_grad(self) -> bool:
        """Whether gradients can flow to the arrays."""
        arrays = (self.particle_q, self.body_q, self.joint_q)
        return any(array.requires_grad for array in arrays if array is not None)

    @property
    def body_count(self) -> int:
        """Number of bodies."""
        return 0 if self.body_q is None else len(self.body_q)

    @property
    def particle_count(self) -> int:
        """Number of particles."""
        return 0 if self.particle_q is None else len(self.particle_q)

    @property
    def joint_coord_count(self) -> int:
        """Number of joint coordinates."""
        return 0 if self.joint_q is None else len(self.joint_q)

    @property
    def joint_dof_count(self) -> int:
        """Number of joint degrees of freedom."""
        return 0 if self.joint_qd is None else len(self.joint_qd)
