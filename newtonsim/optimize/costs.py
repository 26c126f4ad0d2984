"""Costs: predefined ones, and users' kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.kernels.optimize import costs, expansions
from newtonsim.optimize.checks import read_numbers
from newtonsim.scene.allocation import put

if TYPE_CHECKING:
    from newtonsim.runtime.launcher import Launcher
    from newtonsim.scene.model import Model


class Sizes(Protocol):
    """What costs need of a `Problem`.

    Attributes:
        model: One world.
        horizon: Number of controls.
        interval: Time that a control lasts [s].
        entries: Indices of the optimised numbers in the array of one world, (M,).
    """

    model: Model
    horizon: int
    interval: float
    entries: np.ndarray


class Expansions(Protocol):
    """What costs need of the points of a trajectory, one world each.

    Attributes:
        model: Model of the worlds.
        launch: Launches over them.
        view: The `CostView` of their states and controls.
        expansion: The `ExpansionView` to add to.
        rows: Room for the slopes of six residuals, (W, 6, N).
    """

    model: Model
    launch: Launcher
    view: Any
    expansion: Any
    rows: wp.array

    def jacobian(self) -> wp.array:
        """Geometric Jacobians of all bodies, see `Dynamics.jacobian`."""
        ...

    def expand_by_differences(self, cost: Cost) -> None:
        """Add slope and curvature of a cost that is known by its gradient alone."""
        ...


class Changes(NamedTuple):
    """Half the weighted squares of changes from control to control, Σ ½ weight · change².

    Attributes:
        change: Each control less the one before it, (horizon, M).
        weight: Shape (horizon, M).
    """

    change: np.ndarray
    weight: np.ndarray


class Cost(ABC):
    """A cost of the state and the control after each of them, and of the state at the horizon.

    A cost that is used by several Problems must fit all of them.

    Attributes:
        contact_forces: Whether it reads contact forces, which are only known in forward runs.
    """

    contact_forces: bool = False

    @abstractmethod
    def prepare(self, problem: Sizes) -> None:
        """Prepare what launches need.

        Raises:
            NewtonsimError: The cost does not fit the problem.
        """

    @abstractmethod
    def add(self, launch: Launcher, view: Any) -> None:
        """Launch kernels that add the costs of all worlds of a `CostView` to its losses."""

    @abstractmethod
    def expand(self, points: Expansions) -> None:
        """Launch kernels that add the slopes and curvatures of all worlds to `points.expansion`."""

    def varies(self) -> bool:
        """Whether it has a separate reference for each control."""
        return False

    def changes(self, controls: np.ndarray) -> Changes | None:
        """Return the costs of changes of controls (horizon, M); None if they cost nothing."""
        return None


class ReadyCost(Cost):
    """A cost with parameters on the device that users may replace."""

    def __init__(self) -> None:
        self._arrays: dict[str, wp.array] = {}
        self._given: dict[str, Any] = {}

    def varies(self) -> bool:
        return any(self._arrays[name].shape[0] > 1 for name in self._given)

    def _put(self, name: str, values: np.ndarray, device: wp.Device, dtype: Any = float) -> None:
        """Make an array, unless there is one that fits, which launches of another problem may read."""
        array = self._arrays.get(name)
        if array is None or array.numpy().shape != values.shape or array.device != device:
            self._arrays[name] = put(values, dtype=dtype, device=device)

    def _replace(self, name: str, values: Any) -> None:
        """Set new values of a reference, in an array that recorded launches read."""
        if name not in self._arrays:
            self._given[name] = values
            return
        array = self._arrays[name]
        numbers = read_numbers(name, values, array.numpy().shape, array.numpy().shape[1:])
        array.assign(np.broadcast_to(numbers, array.numpy().shape).astype(np.float32))
        self._given[name] = values


class JointCost(ReadyCost):
    """Half the weighted squares of the distance of coordinates and velocities from a reference.

    For ball joints the distance is the rotation vector [rad] from the reference, for floating ones also the
    displacement of the centre of mass [m], in the axes and the order of `joint_qd`. Weights are numbers, or
    one for each degree of freedom, (N,).

    Args:
        position: Weight of coordinates along the way [1/s].
        velocity: Weight of velocities along the way [s].
        final_position: Weight of coordinates at the horizon.
        final_velocity: Weight of velocities at the horizon [s²].
        joint_q: Reference, (C,), or (horizon, C) with a row for the state after each control; None for the
            coordinates of the builder.
        joint_qd: Reference of velocities, (N,) or (horizon, N); None for 0.

    Attributes:
        joint_q: As given; other numbers of the same shape may be set at any time.
        joint_qd: Likewise.

    Raises:
        NewtonsimError: A weight is negative or not finite.
    """

    def __init__(
        self,
        position: npt.ArrayLike = 0.0,
        velocity: npt.ArrayLike = 0.0,
        final_position: npt.ArrayLike = 0.0,
        final_velocity: npt.ArrayLike = 0.0,
        joint_q: npt.ArrayLike | None = None,
        joint_qd: npt.ArrayLike | None = None,
    ):
        super().__init__()
        self._weights = {
            "position": (position, final_position),
            "velocity": (velocity, final_velocity),
        }
        for name, (running, final) in self._weights.items():
            check_weights(name, running)
            check_weights(f"final_{name}", final)
        self._given = {"joint_q": joint_q, "joint_qd": joint_qd}

    @property
    def joint_q(self) -> Any:
        """Reference of the coordinates."""
        return self._given["joint_q"]

    @joint_q.setter
    def joint_q(self, values: npt.ArrayLike) -> None:
        self._replace("joint_q", values)

    @property
    def joint_qd(self) -> Any:
        """Reference of the velocities."""
        return self._given["joint_qd"]

    @joint_qd.setter
    def joint_qd(self, values: npt.ArrayLike) -> None:
        self._replace("joint_qd", values)

    def prepare(self, problem: Sizes) -> None:
        model, device = problem.model, problem.model.device
        counts = {"joint_q": model.joint_coord_count, "joint_qd": model.joint_dof_count}
        for name, count in counts.items():
            given = self._given[name]
            if given is None:
                given = model.joint_q.numpy() if name == "joint_q" else np.zeros(count)
            rows = read_rows(f"JointCost: {name}", given, problem.horizon, (count,))
            self._put(name, rows, device)
        dofs = model.joint_dof_count
        for name, (running, final) in self._weights.items():
            weights = [
                np.broadcast_to(read_numbers(f"JointCost: {n}", values, (), (dofs,)), dofs)
                for n, values in ((name, running), (f"final_{name}", final))
            ]
            self._put(name, np.array(weights), device)

    def add(self, launch: Launcher, view: Any) -> None:
        launch(
            costs.add_joint_cost,
            "world",
            reads=dict(
                joint=launch.views.joint,
                body_com=launch.model.body_com,
                reference_q=self._arrays["joint_q"],
                reference_qd=self._arrays["joint_qd"],
                position=self._arrays["position"],
                velocity=self._arrays["velocity"],
            ),
            writes=dict(view=view),
        )

    def expand(self, points: Expansions) -> None:
        launch = points.launch
        launch(
            expansions.expand_joint_cost,
            "world",
            reads=dict(
                view=points.view,
                joint=launch.views.joint,
                body_com=launch.model.body_com,
                reference_q=self._arrays["joint_q"],
                reference_qd=self._arrays["joint_qd"],
                position=self._arrays["position"],
                velocity=self._arrays["velocity"],
            ),
            writes=dict(expansion=points.expansion),
        )


class FrameCost(ReadyCost):
    """Half the weighted squares of the distance of a frame, fixed in a body, from a target pose.

    Args:
        body: Index in the robot, or name.
        target: Pose in the world (p, q), (7,), or a position alone, (3,), if `rotation` weights are 0; or
            (horizon, 7), a row for the state after each control.
        position: Weight of the distance along the way [1/(m² s)], a number or one for each axis of the world.
        rotation: Weight of the rotation vector along the way [1/s], likewise.
        final_position: Weight of the distance at the horizon [1/m²].
        final_rotation: Weight of the rotation vector at the horizon.
        frame: Pose of the frame in the body (p, q), (7,), or a point of it, (3,).

    Attributes:
        target: As given; another of the same shape may be set at any time.

    Raises:
        NewtonsimError: A weight is negative or not finite, or a pose has another shape.
    """

    def __init__(
        self,
        body: int | str,
        target: npt.ArrayLike,
        position: npt.ArrayLike = 0.0,
        rotation: npt.ArrayLike = 0.0,
        final_position: npt.ArrayLike = 0.0,
        final_rotation: npt.ArrayLike = 0.0,
        frame: npt.ArrayLike = (0.0, 0.0, 0.0),
    ):
        super().__init__()
        weights = []
        for kind, place, turn in (("", position, rotation), ("final_", final_position, final_rotation)):
            row = []
            for name, values in ((f"{kind}rotation", turn), (f"{kind}position", place)):
                check_weights(name, values)
                row.append(np.broadcast_to(read_numbers(f"FrameCost: {name}", values, (), (3,)), 3))
            weights.append(np.concatenate(row))
        self.body, self._weights = body, np.array(weights)
        self._frame = wp.transform(*_as_poses("FrameCost: frame", frame).tolist())
        _as_poses("FrameCost: target", target)
        self._given = {"target": target}

    @property
    def target(self) -> Any:
        """Target pose."""
        return self._given["target"]

    @target.setter
    def target(self, target: npt.ArrayLike) -> None:
        if "target" in self._arrays:
            self._replace("target", _as_poses("FrameCost: target", target))
        self._given["target"] = target

    def prepare(self, problem: Sizes) -> None:
        model = problem.model
        self._number = find_body("FrameCost", model.body_key, self.body)
        poses = _as_poses("FrameCost: target", self._given["target"])
        rows = read_rows("FrameCost: target", poses, problem.horizon, (7,))
        if np.asarray(self._given["target"]).shape[-1] == 3 and self._weights[:, :3].any():
            raise NewtonsimError("FrameCost: target: expected a pose (p, q), since a rotation has weight")
        self._put("target", rows, model.device, wp.transform)
        self._put("weights", self._weights, model.device, wp.spatial_vector)
        self._dofs = _dofs_of_body(model, self._number)

    def add(self, launch: Launcher, view: Any) -> None:
        launch(
            costs.add_frame_cost,
            "world",
            reads=dict(
                body=self._number,
                frame=self._frame,
                target=self._arrays["target"],
                weights=self._arrays["weights"],
            ),
            writes=dict(view=view),
        )

    def expand(self, points: Expansions) -> None:
        first, count = self._dofs
        points.launch(
            expansions.expand_frame_cost,
            "world",
            reads=dict(
                view=points.view,
                body_com=points.model.body_com,
                body=self._number,
                frame=self._frame,
                target=self._arrays["target"],
                weights=self._arrays["weights"],
                jacobian=points.jacobian(),
                first_dof=first,
                dof_count=count,
            ),
            writes=dict(rows=points.rows, expansion=points.expansion),
        )


class ControlCost(ReadyCost):
    """Half the weighted squares of controls beyond a reference, along the way.

    Args:
        weight: A number, or one for each control, (M,) [1/s over their unit squared].
        reference: Controls that cost nothing, (M,), or (horizon, M); None for 0.

    Attributes:
        reference: As given; other numbers of the same shape may be set at any time.

    Raises:
        NewtonsimError: A weight is negative or not finite.
    """

    def __init__(self, weight: npt.ArrayLike, reference: npt.ArrayLike | None = None):
        super().__init__()
        check_weights("weight", weight)
        self._weight = weight
        self._given = {"reference": reference}

    @property
    def reference(self) -> Any:
        """Controls that cost nothing."""
        return self._given["reference"]

    @reference.setter
    def reference(self, values: npt.ArrayLike) -> None:
        self._replace("reference", values)

    def prepare(self, problem: Sizes) -> None:
        count, device = len(problem.entries), problem.model.device
        weight = np.broadcast_to(read_numbers("ControlCost: weight", self._weight, (), (count,)), count)
        given = np.zeros(count) if self._given["reference"] is None else self._given["reference"]
        rows = read_rows("ControlCost: reference", given, problem.horizon, (count,))
        self._put("reference", rows, device)
        self._put("weight", weight, device)

    def add(self, launch: Launcher, view: Any) -> None:
        reads = dict(weight=self._arrays["weight"], reference=self._arrays["reference"])
        launch(costs.add_control_cost, "world", reads=reads, writes=dict(view=view))

    def expand(self, points: Expansions) -> None:
        reads = dict(view=points.view, weight=self._arrays["weight"], reference=self._arrays["reference"])
        writes = dict(expansion=points.expansion)
        points.launch(expansions.expand_control_cost, "world", reads=reads, writes=writes)


class KernelCost(Cost):
    """A cost that a kernel adds to the losses of the worlds.

    The kernel is launched after every step with a thread for each world:

        @wp.kernel
        def stay_low(first: int, view: CostView, weight: float):
            w = first + wp.tid()
            height = wp.transform_get_translation(view.body_q[w * view.bodies])[2]
            wp.atomic_add(view.losses, w, stage_weight(view, w, weight, 0.0) * height)

    `stage_weight(view, w, running, final)` is `running` times the time of a control after each of them,
    `final` at the horizon, and 0 after steps in between. For `Shooting` and `ILQR` the kernel must be
    differentiable; `ILQR` finds curvatures from differences of slopes, and leaves negative ones out.

    Args:
        kernel: The kernel; its first arguments are `first: int` and `view: CostView`.
        arguments: The other arguments: numbers, or arrays on the device, whose contents may change.
        contact_forces: Whether the kernel reads `view.contact_f`. There is no gradient then.

    Raises:
        NewtonsimError: The kernel has other arguments.
    """

    def __init__(self, kernel: Any, *arguments: Any, contact_forces: bool = False):
        if not isinstance(kernel, wp.Kernel):
            raise NewtonsimError(f"kernel: expected a kernel of Warp, got {type(kernel).__name__}")
        names = [argument.label for argument in kernel.adj.args]
        if len(names) != 2 + len(arguments):
            raise NewtonsimError(
                f"kernel: {kernel.key} of {names} cannot take first, view and {len(arguments)} arguments"
            )
        self.kernel, self.arguments, self.contact_forces = kernel, arguments, bool(contact_forces)

    def prepare(self, problem: Sizes) -> None:
        pass

    def add(self, launch: Launcher, view: Any) -> None:
        launch.user_kernel(self.kernel, "world", view, *self.arguments)

    def expand(self, points: Expansions) -> None:
        points.expand_by_differences(self)


def check_weights(name: str, values: npt.ArrayLike) -> None:
    """Refuse weights that are negative or not finite.

    Raises:
        NewtonsimError: They are; the message has the name.
    """
    numbers = read_numbers(name, values, np.shape(values))
    if (numbers < 0.0).any():
        raise NewtonsimError(f"{name}: expected weights of at least 0, got {numbers.min():g}")


def read_rows(name: str, values: Any, horizon: int, entry: tuple[int, ...]) -> np.ndarray:
    """Return (1, ...) or (horizon, ...) numbers."""
    numbers = read_numbers(name, values, entry, (horizon, *entry))
    return numbers if numbers.ndim > len(entry) else numbers[None]


def _as_poses(name: str, values: npt.ArrayLike) -> np.ndarray:
    """Return poses (..., 7) of positions (..., 3) or poses."""
    shape = np.shape(values)
    if not shape or shape[-1] not in (3, 7) or len(shape) > 2:
        raise NewtonsimError(f"{name}: expected a position (3,) or a pose (7,), got shape {shape}")
    numbers = read_numbers(name, values, shape)
    if shape[-1] == 3:
        return np.concatenate([numbers, np.broadcast_to([0.0, 0.0, 0.0, 1.0], (*shape[:-1], 4))], axis=-1)
    lengths = np.linalg.norm(numbers[..., 3:], axis=-1)
    if np.any(np.abs(lengths - 1.0) > 1e-3):
        raise NewtonsimError(f"{name}: expected quaternions xyzw of length 1, got {lengths.min():g}")
    return numbers


def find_body(cost: str, keys: Sequence[str], body: int | str) -> int:
    """Return the index of a body in a robot.

    Raises:
        NewtonsimError: There is none; the message has the name of the cost.
    """
    if isinstance(body, str):
        if body not in keys:
            raise NewtonsimError(f"{cost}: there is no body {body!r}{did_you_mean(body, keys)}")
        return list(keys).index(body)
    if not (isinstance(body, (int, np.integer)) and 0 <= body < len(keys)):
        raise NewtonsimError(f"{cost}: body: expected an index below {len(keys)} or a name, got {body!r}")
    return int(body)


def _dofs_of_body(model: Any, body: int) -> tuple[int, int]:
    """First degree of freedom, and number of them, of the articulation that a body of one world is in."""
    joint = int(np.flatnonzero(model.joint_child.numpy() == body)[0])
    starts = model.joint_qd_start.numpy()[model.articulation_start.numpy()]
    of_articulation = np.searchsorted(model.articulation_start.numpy(), joint, side="right") - 1
    first = int(starts[of_articulation])
    return first, int(starts[of_articulation + 1]) - first
