"""An optimisation problem: a robot, its costs, the horizon, and the controls with their bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.builder import ModelBuilder
from newtonsim.errors import NewtonsimError, NotDifferentiableError, did_you_mean
from newtonsim.kinematics import eval_fk
from newtonsim.optimize.checks import check_count, read_numbers
from newtonsim.optimize.costs import Changes, Cost
from newtonsim.scene.enums import JointMode
from newtonsim.scene.joint_types import least_effort
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of
from newtonsim.simulator import Simulator
from newtonsim.solvers import FeatherstoneSolver

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.solvers import SolverBase

INPUTS = ("joint_f", "joint_act")
"""Arrays of a Control that can be optimised."""

Start = State | tuple[npt.ArrayLike, npt.ArrayLike] | None
"""A state of one world, its (joint_q, joint_qd), or None for that of the builder."""


class Motion(NamedTuple):
    """A motion of one world.

    Attributes:
        joint_q: Coordinates before the first control and after each, (horizon + 1, C).
        joint_qd: Velocities, likewise, (horizon + 1, N).
        body_q: World poses of the bodies, likewise, (horizon + 1, B, 7) [m, quaternion xyzw].
    """

    joint_q: np.ndarray
    joint_qd: np.ndarray
    body_q: np.ndarray


class Problem:
    """Find the controls of a robot over a horizon that minimise a cost.

    The cost is the sum of the running costs of all controls and of the states between them, each times the
    time of a control, and of the final costs of the state at the horizon. The state at the start costs
    nothing, and that at the horizon only has final costs: a horizon of one control has no other state.

    Args:
        robot: One world, with everything that it collides with, including the ground; the optimisers make
            copies of it.
        costs: The costs whose sum is minimised.
        horizon: Number of controls, one after the other.
        dt: Time of a step of the solver [s].
        hold: Steps of the solver that each control lasts.
        solver: Makes a solver of a model.
        inputs: Array of the Control that is optimised: "joint_f" (generalised forces), or "joint_act", which
            means targets or efforts as `joint_axis_mode` says.
        actuated: Entries of the array that are optimised, by index or by name of the joint; None for all that
            belong to a joint axis. The others keep the values of the builder.
        bounds: Lower and upper bounds of controls, each a number or one for each control; None for those of
            the model: effort limits, or for targets the limits of position or velocity.
        device: Device of the worlds; None for Warp's default.

    Attributes:
        model: One world without gradients.
        entries: Indices of the optimised numbers in the array of one world, (M,).
        low: Lower bounds of controls, (M,); -inf for no bound.
        high: Upper bounds of controls, (M,).
        interval: Time that a control lasts [s].

    Raises:
        NewtonsimError: An argument is out of range, or the robot cannot be optimised.
        ModelError: The robot is inconsistent.
    """

    def __init__(
        self,
        robot: ModelBuilder,
        costs: Sequence[Cost],
        horizon: int,
        dt: float,
        *,
        hold: int = 1,
        solver: Callable[[Model], SolverBase] = FeatherstoneSolver,
        inputs: str = "joint_f",
        actuated: Sequence[int | str] | None = None,
        bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        device: wp.DeviceLike = None,
    ):
        if not isinstance(robot, ModelBuilder):
            raise NewtonsimError(f"robot: expected a ModelBuilder, got {type(robot).__name__}")
        check_count("horizon", horizon)
        check_count("hold", hold)
        if not (isinstance(dt, Real) and np.isfinite(dt) and dt > 0.0):
            raise NewtonsimError(f"dt: expected a positive number, got {dt!r}")
        if inputs not in INPUTS:
            raise NewtonsimError(f"inputs: expected one of {list(INPUTS)}, got {inputs!r}")
        if not callable(solver):
            raise NewtonsimError(f"solver: expected a function of a model, got {type(solver).__name__}")
        self.robot, self.solver, self.device = robot, solver, device
        self.horizon, self.hold = int(horizon), int(hold)
        self.dt, self.interval, self.inputs = float(dt), float(dt) * int(hold), inputs
        self.costs = _check_costs(costs)
        self.model = self.make_model(1)
        _check_model(self.model)
        self.entries = self._find_entries(actuated)
        self.low, self.high = self._find_bounds(bounds)
        for cost in self.costs:
            cost.prepare(self)

    @property
    def steps(self) -> int:
        """Steps of the solver to the horizon."""
        return self.horizon * self.hold

    @property
    def memory(self) -> int:
        """Number of values of the previous control in the state: M if costs depend on it, or 0."""
        count = len(self.entries)
        return count if self.changes(np.zeros((self.horizon, count))) else 0

    def changes(self, controls: np.ndarray) -> list[Changes]:
        """Costs of changes from control to control, (horizon, M)."""
        found = (cost.changes(controls) for cost in self.costs)
        return [changes for changes in found if changes is not None]

    def check_gradient(self) -> None:
        """Refuse costs that have no gradient.

        Raises:
            NotDifferentiableError: One of them reads contact forces.
        """
        for cost in self.costs:
            if cost.contact_forces:
                raise NotDifferentiableError(
                    f"{type(cost).__name__}: contact forces have no gradient; use MPPI or CEM"
                )

    def make_model(self, worlds: int, requires_grad: bool = False) -> Model:
        """Return a model with copies of the robot in the same place, one world each."""
        scene = ModelBuilder(up_vector=self.robot.up_vector, gravity=self.robot.gravity)
        scene.replicate(self.robot, worlds, spacing=(0.0, 0.0, 0.0))
        scene.ground_settings = self.robot.ground_settings
        return scene.finalize(self.device, requires_grad=requires_grad)

    def make_simulator(self) -> Simulator:
        """Return a Simulator of the robot, whose steps each last as long as a control; see `apply`."""
        model = self.make_model(1)
        return Simulator(model, self.solver(model), self.interval, self.hold)

    def apply(self, simulator: Simulator, control: npt.ArrayLike) -> None:
        """Write a control (M,) to the inputs of a Simulator of one world; the others are unchanged.

        Optimisers return controls within `low` and `high`. Other values are written unchanged: bounds are
        those of the optimisation, not of the robot, whose drives obey their effort limits.

        Raises:
            NewtonsimError: It has another length, or is not finite.
        """
        array = getattr(simulator.control, self.inputs)
        values = array.numpy().copy()
        values[self.entries] = read_numbers("control", control, (len(self.entries),))
        array.assign(values)

    def follow(self, controls: npt.ArrayLike, start: Start = None) -> Motion:
        """Run a world with given controls, within bounds or not, such as those of a log or of a `Result`.

        Args:
            controls: One for all times (M,), or (horizon, M).
            start: Start: a State of one world, (joint_q, joint_qd), or None for that of the builder.

        Returns:
            Coordinates, velocities and poses before the first control and after each.

        Raises:
            NewtonsimError: They have another shape, or are not finite.
        """
        shape = (self.horizon, len(self.entries))
        rows = np.broadcast_to(read_numbers("controls", controls, shape, shape[1:]), shape)
        sim, (q, qd) = self.make_simulator(), self.read_start(start)
        sim.state.joint_q.assign(q)
        sim.state.joint_qd.assign(qd)
        eval_fk(sim.model, sim.state.joint_q, sim.state.joint_qd, None, sim.state)
        states: list[tuple[np.ndarray, ...]] = [(q, qd, sim.state.body_q.numpy().copy())]
        for row in rows:
            self.apply(sim, row)
            sim.step()
            arrays = (sim.state.joint_q, sim.state.joint_qd, sim.state.body_q)
            states.append(tuple(array.numpy().copy() for array in arrays))
        return Motion(*(np.array(x, np.float64) for x in zip(*states, strict=True)))

    def read_start(self, start: Start) -> tuple[np.ndarray, np.ndarray]:
        """Return joint_q (C,) and joint_qd (N,) of a start, float32.

        Raises:
            NewtonsimError: It has other lengths, or is not finite.
            ModelError: It is the state of another robot.
        """
        model = self.model
        pair: Any = start
        if start is None:
            pair = (model.joint_q, model.joint_qd)
        elif isinstance(start, State):
            model.check_state(start)
            pair = (start.joint_q, start.joint_qd)
        elif not (isinstance(start, (tuple, list)) and len(start) == 2):
            raise NewtonsimError(f"start: expected a State or (joint_q, joint_qd), got {start!r}")
        q = read_numbers("start: joint_q", pair[0], (model.joint_coord_count,))
        qd = read_numbers("start: joint_qd", pair[1], (model.joint_dof_count,))
        return q.astype(np.float32), qd.astype(np.float32)

    def read_controls(self, controls: npt.ArrayLike | None) -> np.ndarray:
        """Return controls within their bounds as (horizon, M), float64.

        Args:
            controls: One for all times (M,), or (horizon, M); None for those of the builder.

        Raises:
            NewtonsimError: They have another shape, or are not finite.
        """
        given: Any = controls
        if controls is None:
            given = getattr(self.model.control(), self.inputs).numpy()[self.entries]
        shape = (self.horizon, len(self.entries))
        numbers = read_numbers("controls", given, shape, shape[1:])
        return np.clip(np.broadcast_to(numbers, shape), self.low, self.high)

    def _find_entries(self, actuated: Sequence[int | str] | None) -> np.ndarray:
        of_joint = self._joint_of_entries()
        if actuated is None:
            with_axis = np.flatnonzero(of_joint >= 0)
            if not len(with_axis):
                raise NewtonsimError(f"robot: it has no joint axis that {self.inputs} could drive")
            return with_axis
        if isinstance(actuated, str) or not len(actuated):
            raise NewtonsimError(f"actuated: expected indices or names of joints, got {actuated!r}")
        found: list[int] = []
        for which in actuated:
            if isinstance(which, str):
                keys = self.model.joint_key
                if which not in keys:
                    raise NewtonsimError(
                        f"actuated: there is no joint {which!r}{did_you_mean(which, keys)}; there are {keys}"
                    )
                found += np.flatnonzero(of_joint == keys.index(which)).tolist()
            elif isinstance(which, (int, np.integer)) and 0 <= which < len(of_joint):
                found.append(int(which))
            else:
                raise NewtonsimError(f"actuated: expected indices below {len(of_joint)}, got {which!r}")
        if len(set(found)) < len(found):
            raise NewtonsimError(f"actuated: an axis is listed twice: {list(actuated)}")
        return np.array(found, int)

    def _joint_of_entries(self) -> np.ndarray:
        """Joint of each number of the array in one world, -1 where no axis belongs to it."""
        joint, axis = topology_of(self.model).dof_joint, self._axis_of_dofs()
        if self.inputs == "joint_f":
            return np.where(axis >= 0, joint, -1)
        found = np.full(self.model.joint_axis_count, -1)
        found[axis[axis >= 0]] = joint[axis >= 0]
        return found

    def _axis_of_dofs(self) -> np.ndarray:
        """Axis of each degree of freedom, -1 for none."""
        return topology_of(self.model).view.dof_axis.numpy()

    def _find_bounds(
        self, bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of controls, (M,) each."""
        count = len(self.entries)
        if bounds is None:
            low, high = self._limits()
            return low[self.entries], high[self.entries]
        if not (isinstance(bounds, (tuple, list)) and len(bounds) == 2):
            raise NewtonsimError(f"bounds: expected (low, high), got {bounds!r}")
        low, high = (
            np.broadcast_to(read_numbers(f"bounds: {name}", values, (count,), (), finite=False), count)
            for name, values in zip(("low", "high"), bounds)
        )
        if np.any(low > high):
            k = int(np.flatnonzero(low > high)[0])
            raise NewtonsimError(f"bounds: low {low[k]:g} is above high {high[k]:g} of control {k}")
        return low.copy(), high.copy()

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Limits of the model for each number of the array in one world."""
        model = self.model
        most, least, velocity, lower, upper = (
            getattr(model, f"joint_{name}").numpy().astype(float)
            for name in ("effort_limit", "effort_lower", "velocity_limit", "limit_lower", "limit_upper")
        )
        least = least_effort(least, most)
        if self.inputs == "joint_f":
            axis = self._axis_of_dofs()
            return np.append(least, -np.inf)[axis], np.append(most, np.inf)[axis]
        mode = model.joint_axis_mode.numpy()
        of_mode = [mode == int(m) for m in (JointMode.TARGET_POSITION, JointMode.TARGET_VELOCITY)]
        return np.select(of_mode, [lower, -velocity], least), np.select(of_mode, [upper, velocity], most)


def _check_costs(costs: Sequence[Cost]) -> tuple[Cost, ...]:
    if isinstance(costs, Cost) or not len(costs):
        raise NewtonsimError(f"costs: expected a list of at least one, got {costs!r}")
    for cost in costs:
        if not isinstance(cost, Cost):
            raise NewtonsimError(
                f"costs: expected ones such as JointCost or KernelCost, got {type(cost).__name__}"
            )
    return tuple(costs)


def _check_model(model: Model) -> None:
    if model.world_count != 1:
        raise NewtonsimError(f"robot: expected one world, got {model.world_count}")
    if model.particle_count:
        raise NewtonsimError(f"robot: {model.particle_count} particles cannot be optimised, only joints")
    if not model.joint_dof_count:
        raise NewtonsimError("robot: it has no degree of freedom")
