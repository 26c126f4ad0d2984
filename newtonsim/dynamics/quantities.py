"""The quantities of joint-space dynamics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import warp as wp

from newtonsim.dynamics.recordings import Recordings
from newtonsim.dynamics.stages import Stages
from newtonsim.errors import NewtonsimError
from newtonsim.kinematics import refuse_gradient
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.scene.contiguity import check_contiguous

if TYPE_CHECKING:
    from newtonsim.dynamics.tendon_inertia import TendonInertia
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State


class Dynamics:
    """Joint-space dynamics of all articulations of a model at once.

    Every method reads `joint_q` of a state, most of them `joint_qd`, and those with external wrenches
    `body_f`. Launches are recorded for the arrays of a call and replayed when the same arrays are passed
    again, which takes some microseconds per call for a single robot. The result is an array of this object,
    which the next call of the method overwrites, or the caller's array `out`, if given. Results have no
    gradients.

    Dense results have one block for each articulation, with degrees of freedom numbered inside it; blocks of
    smaller articulations are padded with zeros. Derivatives by configuration are along the axes of
    `joint_qd`: column k is the rate of change by a motion with unit velocity of degree of freedom k, also
    where a rotation has four coordinates.

    Args:
        model: The model.

    Attributes:
        model: The model.
        max_dofs: Largest number of degrees of freedom of an articulation, n.

    Raises:
        NewtonsimError: It is not a model, for example a builder that was not finalized.
    """

    def __init__(self, model: Model):
        if not hasattr(model, "cached"):
            raise NewtonsimError(f"model: expected a finalized Model, got {type(model).__name__}")
        self.model = model
        self._stages = Stages(model)
        self._recordings = Recordings(model)
        self._results: dict[str, wp.array] = {}
        self.max_dofs = self._stages.max_dofs

    # -- motion ----------------------------------------------------------------------------------------------

    def mass_matrix(self, state: State, *, armature: bool = True, out: wp.array | None = None) -> wp.array:
        """Joint-space inertia M, by the composite-rigid-body algorithm.

        Args:
            state: Configuration.
            armature: Whether to add the armature of joints to the diagonal, and a JᵀJ for tendons with
                armature a whose lengths change by J. What couples two articulations is in no block.
            out: Array to write to.

        Returns:
            Shape (articulation_count, n, n).

        Raises:
            NewtonsimError: `out` has the wrong shape or type.
        """
        dense = self._block("mass_matrix", self.max_dofs, out)

        def launch(launcher: Launcher) -> None:
            self._stages.pose(launcher, state.joint_q)
            self._stages.expand(launcher, armature, dense)

        self._run(state, ("mass_matrix", armature), (state.joint_q, dense), launch)
        return dense

    def inverse_dynamics(
        self, state: State, joint_qdd: wp.array, *, armature: bool = True, out: wp.array | None = None
    ) -> wp.array:
        """Generalised forces that produce an acceleration, by the recursive Newton-Euler algorithm.

        Args:
            state: Configuration, velocity, and `body_f` as external wrenches.
            joint_qdd: Joint accelerations, shape (joint_dof_count,).
            armature: Whether the armature adds to the forces.
            out: Array to write to.

        Returns:
            M(q) q̈ + c(q, q̇) - Jᵀ body_f, gravity included, shape (joint_dof_count,).

        Raises:
            NewtonsimError: `joint_qdd` has the wrong length, or `out` the wrong shape or type.
        """
        self._check_vector("joint_qdd", joint_qdd)
        tau = self._array("inverse_dynamics", (self.model.joint_dof_count,), wp.float32, out)

        def launch(launcher: Launcher) -> None:
            self._stages.move(launcher, state)
            launcher.inertias(self._stages.motion)
            self._stages.force(launcher, state, joint_qdd, armature)
            self._stages.write_force(launcher, tau)

        arrays = (state.joint_q, state.joint_qd, state.body_f, joint_qdd, tau)
        self._run(state, ("inverse_dynamics", armature), arrays, launch)
        return tau

    def bias(self, state: State, *, out: wp.array | None = None) -> wp.array:
        """Generalised forces without acceleration.

        Args:
            state: Configuration, velocity, and `body_f` as external wrenches.
            out: Array to write to.

        Returns:
            c(q, q̇) - Jᵀ body_f, gravity included, shape (joint_dof_count,).

        Raises:
            NewtonsimError: `out` has the wrong shape or type.
        """
        tau = self._array("bias", (self.model.joint_dof_count,), wp.float32, out)
        # the armature of a floating joint takes part in the acceleration of the origin, that of a tendon in
        # the second derivative of its length
        armature = self._stages.floating.present or self._stages.tendons is not None
        return self.inverse_dynamics(state, self._stages.no_dofs, armature=armature, out=tau)

    def forward_dynamics(
        self, state: State, joint_f: wp.array | None = None, *, out: wp.array | None = None
    ) -> wp.array:
        """Joint accelerations under gravity, external wrenches and generalised forces.

        Drives, springs, damping and constraints are not included; armature is.

        Args:
            state: Configuration, velocity, and `body_f` as external wrenches.
            joint_f: Generalised forces, shape (joint_dof_count,); None for zero.
            out: Array to write to.

        Returns:
            M⁻¹ (joint_f - c(q, q̇) + Jᵀ body_f), shape (joint_dof_count,).

        Raises:
            NewtonsimError: `joint_f` has the wrong length, or `out` the wrong shape or type.
        """
        force = self._force(joint_f)
        qdd = self._array("forward_dynamics", (self.model.joint_dof_count,), wp.float32, out)

        def launch(launcher: Launcher) -> None:
            self._stages.move(launcher, state)
            self._stages.accelerate(launcher, state, force, qdd)

        arrays = (state.joint_q, state.joint_qd, state.body_f, force, qdd)
        self._run(state, "forward_dynamics", arrays, launch)
        return qdd

    # -- derivatives -----------------------------------------------------------------------------------------

    def inverse_dynamics_derivatives(
        self, state: State, joint_qdd: wp.array, *, out: tuple[wp.array, wp.array] | None = None
    ) -> tuple[wp.array, wp.array]:
        """Derivatives of `inverse_dynamics` by configuration and velocity; that by acceleration is M.

        Args:
            state: Configuration, velocity, and `body_f` as external wrenches, which keep their directions.
            joint_qdd: Joint accelerations, shape (joint_dof_count,).
            out: Two arrays to write to.

        Returns:
            ∂τ/∂q and ∂τ/∂q̇, each of shape (articulation_count, n, n).

        Raises:
            NewtonsimError: `joint_qdd` has the wrong length, one of `out` the wrong shape or type, or a
                tendon with armature is spatial or goes along several articulations.
        """
        self._check_tendons()
        self._check_vector("joint_qdd", joint_qdd)
        given = _several(2, out)
        by_q = self._block("force_by_q", self.max_dofs, given[0])
        by_qd = self._block("force_by_qd", self.max_dofs, given[1])

        def launch(launcher: Launcher) -> None:
            self._stages.move(launcher, state)
            launcher.inertias(self._stages.motion)
            self._stages.differentiate(launcher, state, joint_qdd, by_q, by_qd)

        arrays = (state.joint_q, state.joint_qd, state.body_f, joint_qdd, by_q, by_qd)
        self._run(state, "inverse_dynamics_derivatives", arrays, launch)
        return by_q, by_qd

    def forward_dynamics_derivatives(
        self,
        state: State,
        joint_f: wp.array | None = None,
        *,
        out: tuple[wp.array, wp.array, wp.array] | None = None,
    ) -> tuple[wp.array, wp.array, wp.array]:
        """Derivatives of `forward_dynamics` by configuration, velocity and generalised forces.

        Args:
            state: Configuration, velocity, and `body_f` as external wrenches, which keep their directions.
            joint_f: Generalised forces, shape (joint_dof_count,); None for zero.
            out: Three arrays to write to.

        Returns:
            ∂q̈/∂q, ∂q̈/∂q̇ and ∂q̈/∂τ = M⁻¹, each of shape (articulation_count, n, n).

        Raises:
            NewtonsimError: `joint_f` has the wrong length, one of `out` the wrong shape or type, or a tendon
                with armature is spatial or goes along several articulations.
        """
        self._check_tendons()
        force, stages = self._force(joint_f), self._stages
        given = _several(3, out)
        by_q = self._block("acceleration_by_q", self.max_dofs, given[0])
        by_qd = self._block("acceleration_by_qd", self.max_dofs, given[1])
        by_f = self._block("acceleration_by_f", self.max_dofs, given[2])

        def launch(launcher: Launcher) -> None:
            stages.move(launcher, state)
            stages.accelerate(launcher, state, force, stages.acceleration)
            stages.differentiate(launcher, state, stages.acceleration, by_q, by_qd)
            stages.solve_columns(launcher, -1.0, by_q)
            stages.solve_columns(launcher, -1.0, by_qd)
            stages.invert(launcher, by_f)

        arrays = (state.joint_q, state.joint_qd, state.body_f, force, by_q, by_qd, by_f)
        self._run(state, "forward_dynamics_derivatives", arrays, launch)
        return by_q, by_qd, by_f

    # -- operational space -----------------------------------------------------------------------------------

    def jacobian(self, state: State, *, out: wp.array | None = None) -> wp.array:
        """Geometric Jacobians of all bodies.

        Args:
            state: Configuration.
            out: Array to write to.

        Returns:
            Shape (body_count, 6, n): (ω, velocity of the COM) in world axes per unit joint velocity.

        Raises:
            NewtonsimError: `out` has the wrong shape or type.
        """
        result = self._array("jacobian", (self.model.body_count, 6, self.max_dofs), wp.float32, out)

        def launch(launcher: Launcher) -> None:
            launcher.poses(self._stages.motion, state.joint_q)
            self._stages.fill_jacobian(launcher, result)

        self._run(state, "jacobian", (state.joint_q, result), launch)
        return result

    def jacobian_rate(self, state: State, *, out: wp.array | None = None) -> wp.array:
        """Time derivatives of the Jacobians of all bodies.

        Args:
            state: Configuration and velocity.
            out: Array to write to.

        Returns:
            Shape (body_count, 6, n): J̇, with (ω̇, acceleration of the COM) = J q̈ + J̇ q̇.

        Raises:
            NewtonsimError: `out` has the wrong shape or type.
        """
        result = self._array("jacobian_rate", (self.model.body_count, 6, self.max_dofs), wp.float32, out)

        def launch(launcher: Launcher) -> None:
            self._stages.move(launcher, state)
            self._stages.fill_jacobian_rate(launcher, state, result)

        self._run(state, "jacobian_rate", (state.joint_q, state.joint_qd, result), launch)
        return result

    def operational_inertia(
        self, state: State, *, damping: float = 0.0, out: wp.array | None = None
    ) -> wp.array:
        """Operational-space inertia: the inertia seen by a wrench at the centre of mass of a body.

        Args:
            state: Configuration.
            damping: Added to the diagonal of J M⁻¹ Jᵀ [1/(kg m²), 1/kg]. Bodies that cannot move in all six
                directions need some; without it, their blocks are huge or NaN.
            out: Array to write to.

        Returns:
            (J M⁻¹ Jᵀ + damping 1)⁻¹ of each body, shape (body_count, 6, 6), in the axes of `jacobian`.

        Raises:
            NewtonsimError: `damping` is negative, or `out` has the wrong shape or type.
        """
        if not damping >= 0.0:
            raise NewtonsimError(f"damping: expected a number of at least 0, got {damping!r}")
        inertia = self._array("operational_inertia", (self.model.body_count, 6, 6), wp.float32, out)

        def launch(launcher: Launcher) -> None:
            self._stages.pose(launcher, state.joint_q)
            self._stages.fill_operational_inertia(launcher, damping, inertia)

        self._run(state, ("operational_inertia", damping), (state.joint_q, inertia), launch)
        return inertia

    # -- sums ------------------------------------------------------------------------------------------------

    def center_of_mass(self, state: State, *, out: wp.array | None = None) -> wp.array:
        """Centre of mass of each articulation.

        Args:
            state: Configuration.
            out: Array to write to.

        Returns:
            World positions [m], vec3, shape (articulation_count,).

        Raises:
            NewtonsimError: `out` has the wrong shape or type.
        """
        com = self._array("center_of_mass", (self.model.articulation_count,), wp.vec3, out)

        def launch(launcher: Launcher) -> None:
            launcher.poses(self._stages.motion, state.joint_q)
            self._stages.find_center(launcher, com)

        self._run(state, "center_of_mass", (state.joint_q, com), launch)
        return com

    def centroidal_matrix(self, state: State, *, out: wp.array | None = None) -> wp.array:
        """Centroidal momentum matrix of each articulation.

        Args:
            state: Configuration.
            out: Array to write to.

        Returns:
            Shape (articulation_count, 6, n): (angular momentum about the articulation's centre of mass,
            momentum) of its bodies, without armature, in world axes, per unit joint velocity.

        Raises:
            NewtonsimError: `out` has the wrong shape or type.
        """
        matrix = self._block("centroidal_matrix", 6, out)

        def launch(launcher: Launcher) -> None:
            launcher.poses(self._stages.motion, state.joint_q)
            self._stages.fill_momentum_matrix(launcher, matrix)

        self._run(state, "centroidal_matrix", (state.joint_q, matrix), launch)
        return matrix

    def centroidal_momentum(self, state: State, *, out: wp.array | None = None) -> wp.array:
        """Momentum of each articulation about its centre of mass.

        Args:
            state: Configuration and velocity.
            out: Array to write to.

        Returns:
            (angular momentum [kg m²/s], momentum [kg m/s]) in world axes, spatial_vector, shape
            (articulation_count,).

        Raises:
            NewtonsimError: `out` has the wrong shape or type.
        """
        momentum = self._array(
            "centroidal_momentum", (self.model.articulation_count,), wp.spatial_vector, out
        )

        def launch(launcher: Launcher) -> None:
            launcher.poses(self._stages.motion, state.joint_q)
            self._stages.sum_momentum(launcher, state, momentum)

        self._run(state, "centroidal_momentum", (state.joint_q, state.joint_qd, momentum), launch)
        return momentum

    def kinetic_energy(self, state: State, *, out: wp.array | None = None) -> wp.array:
        """Kinetic energy of each articulation's bodies, without armature.

        Args:
            state: Configuration and velocity.
            out: Array to write to.

        Returns:
            Shape (articulation_count,) [J].

        Raises:
            NewtonsimError: `out` has the wrong shape or type.
        """
        total = self._array("kinetic_energy", (self.model.articulation_count,), wp.float32, out)

        def launch(launcher: Launcher) -> None:
            self._stages.move(launcher, state)
            self._stages.sum_kinetic_energy(launcher, total)

        self._run(state, "kinetic_energy", (state.joint_q, state.joint_qd, total), launch)
        return total

    def potential_energy(self, state: State, *, out: wp.array | None = None) -> wp.array:
        """Potential energy of each articulation's bodies in gravity, zero at the world's origin.

        Args:
            state: Configuration.
            out: Array to write to.

        Returns:
            Shape (articulation_count,) [J].

        Raises:
            NewtonsimError: `out` has the wrong shape or type.
        """
        total = self._array("potential_energy", (self.model.articulation_count,), wp.float32, out)

        def launch(launcher: Launcher) -> None:
            launcher.poses(self._stages.motion, state.joint_q)
            self._stages.sum_potential_energy(launcher, total)

        self._run(state, "potential_energy", (state.joint_q, total), launch)
        return total

    def tendon_inertia(self) -> TendonInertia | None:
        """What armature of tendons adds, with room of its own for one evaluation with gradients, if any."""
        return self._stages.tendon_inertia(requires_grad=True)

    # -- arguments and results -------------------------------------------------------------------------------

    def _run(
        self,
        state: State,
        name: object,
        arrays: tuple[wp.array | None, ...],
        launch: Callable[[Launcher], None],
    ) -> None:
        """Make launches for the caller's arrays, or replay them."""
        self.model.check_state(state)
        refuse_gradient(self.model, state, "newtonsim.dynamics: only inverse_dynamics has a gradient")
        self._recordings.run(name, arrays, lambda: launch(self._stages.launcher()))

    def _check_tendons(self) -> None:
        """Refuse armature of tendons whose derivatives are not known, or have no place in blocks."""
        tendons = self._stages.tendons
        if tendons is not None and (tendons.spatial or tendons.spread):
            raise NewtonsimError(
                "derivatives: not with armature of spatial tendons, or of tendons along several articulations"
            )

    def _check_vector(self, name: str, array: wp.array) -> None:
        """Refuse what is not an array with one number for each degree of freedom."""
        shape = (self.model.joint_dof_count,)
        if not (isinstance(array, wp.array) and array.shape == shape and array.dtype == wp.float32):
            raise NewtonsimError(
                f"{name}: expected a Warp array of shape {shape} and type float32, got {_describe(array)}"
            )
        check_contiguous(name, array)

    def _force(self, joint_f: wp.array | None) -> wp.array:
        if joint_f is None:
            return self._stages.no_dofs
        self._check_vector("joint_f", joint_f)
        return joint_f

    def _block(self, name: str, rows: int, out: wp.array | None) -> wp.array:
        """Return an array with a block of a number of rows for each articulation."""
        return self._array(name, (self.model.articulation_count, rows, self.max_dofs), wp.float32, out)

    def _array(self, name: str, shape: tuple[int, ...], dtype: Any, out: wp.array | None) -> wp.array:
        """Return the caller's array, or the object's own."""
        if out is not None:
            if not (isinstance(out, wp.array) and out.shape == shape and out.dtype == dtype):
                raise NewtonsimError(
                    f"{name}: expected `out` to be a Warp array of shape {shape} and type {dtype.__name__}, "
                    f"got {_describe(out)}"
                )
            check_contiguous(f"{name}: `out`", out)
            return out
        own = self._results.get(name)
        if own is None:
            own = self._results[name] = zeros(shape, dtype=dtype, device=self.model.device)
        return own


def _several(count: int, out: tuple[wp.array, ...] | None) -> tuple[wp.array | None, ...]:
    """Return a number of arrays to write to, or none.

    Raises:
        NewtonsimError: There are fewer or more, or one is given twice.
    """
    if out is None:
        return (None,) * count
    if not isinstance(out, (tuple, list)) or len({id(array) for array in out}) != count or len(out) != count:
        raise NewtonsimError(f"out: expected {count} distinct arrays, got {_describe(out)}")
    return tuple(out)


def _describe(value: object) -> str:
    """Describe a value for a message."""
    if isinstance(value, wp.array):
        return f"one of shape {value.shape} and type {value.dtype.__name__}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return type(value).__name__
