"""What a client and its parts ask of the physics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.constraint_records import Constraint
    from newtonsim.pybullet_compat.world.structure import WorldContent
    from newtonsim.scene.model import Model
    from newtonsim.scene.snapshot import Snapshot
    from newtonsim.simulator import Simulator
    from newtonsim.solvers import BodyDamping, FeatherstoneSolver, PDForces


class Engine(Protocol):
    """Model and simulator of the present structure of a client; see `engine.featherstone`.

    Attributes:
        worlds: Number of worlds W.
        model: The model of all worlds.
        solver: The solver.
        simulator: Owner of state and control.
        damping: Damping of links.
        pd: Explicit PD forces, None until there are any.
        pose, twist: Poses and velocities of all links (W, bodies, 7) and (W, bodies, 6), float64.
        content: What is where in a world.
        rows: (body unique id, link index) of each row of `pose`.
        columns: Coordinates and velocities of each body, by unique id, among those of a world.
        shape_link: (body unique id, link index) of each shape of a world.
        shape_geometry: Number of the geometry of its link that each shape belongs to.
        q, u: Coordinates and velocities of all bodies (W, coordinates), float64.
        unread_coordinates, unread_poses: Whether the device has newer values than the host.
        steps: Steps made.
        moves: Grows whenever the state on the device changes.
        changed: Names of the arrays of the model that are no longer what they were built as, see `write`.
        forces_set, torques_set: Whether the next step has external forces on links, and on coordinates.
        servos_written: Whether motors were set since the last step.
        loads_changed: Whether other bodies may bear loads, or others masses, than in the last step.
        mirrored_arrays: What `clients.mirroring` has found in this engine.
        written: Bodies whose coordinates the host has changed since the last push.
    """

    worlds: int
    model: Model
    solver: FeatherstoneSolver
    simulator: Simulator
    damping: BodyDamping
    pd: PDForces | None
    pose: np.ndarray
    twist: np.ndarray
    content: WorldContent
    rows: list[tuple[int, int]]
    columns: dict[int, tuple[slice, slice]]
    shape_link: list[tuple[int, int]]
    shape_geometry: list[int]
    q: np.ndarray
    u: np.ndarray
    unread_coordinates: bool
    unread_poses: bool
    steps: int
    moves: int
    changed: set[str]
    forces_set: bool
    torques_set: bool
    servos_written: bool
    loads_changed: bool
    mirrored_arrays: tuple | None
    written: set[Body]

    # -- life ------------------------------------------------------------------------------------------------

    def step(self, count: int = 1) -> None:
        """Make steps of the client's time step; forces act in the first one."""

    def forget(self) -> None:
        """Return to the state of an engine that was just built, with the bodies as they are now."""

    def release(self) -> None:
        """Give bodies arrays of their own again."""

    def enter(self, body: Body) -> bool:
        """Put a body into an empty slot of its kind; returns whether there was one."""
        ...

    def leave(self, body: Body) -> bool:
        """Empty the slot of a body; returns whether the engine can go on with it."""
        ...

    def move(self, body: Body) -> bool:
        """Move a body that its mass is about to free or to fix to a slot for what it then is.

        Returns:
            Whether there was one; else the body is as it was.
        """
        ...

    def refill(self, content: WorldContent | None = None) -> bool:
        """Begin anew with the bodies and constraints of the client; returns whether all have found slots.

        Args:
            content: Where they are if that is given, as in the engine of a client that this one is like.
        """
        ...

    def hold(self, uid: int, constraint: Constraint) -> bool:
        """Put a constraint into an empty slot of its kind; returns whether there was one."""
        ...

    def let_go(self, uid: int) -> bool:
        """Empty the slot of a constraint; returns whether the engine can go on with it."""
        ...

    def differentiable_model(self) -> Model:
        """Return the scene as it is now as a new model that gradients flow through, for any solver."""
        ...

    # -- settings --------------------------------------------------------------------------------------------

    def use_pd(self) -> None:
        """Have explicit PD forces in every step from now on."""

    def watch_bounds(self) -> None:
        """Record boxes around what the shapes sweep over from now on."""

    def swept_corners(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Corners of those boxes (shapes, 3) [m], of all worlds; None if they are not watched."""
        ...

    def write_damping(self, body: Body) -> None:
        """Hand damping and greatest joint velocities of a body to the solver."""

    def write_top_speed(self, body: Body) -> None:
        """Hand the greatest joint velocity of a body, which is that of all its joints, to the solver."""

    @property
    def axis_starts(self) -> list[int]:
        """The first axis of each joint of the model."""
        ...

    def write(self, name: str, rows: slice | np.ndarray | int | list[int], values: npt.ArrayLike) -> None:
        """Set entries of an array of the model in place, in every world."""

    def write_numbers(self, name: str, row: int, numbers: Sequence[float]) -> None:
        """Do what `write` does for one row of the only world, without NumPy."""

    def write_for_all(self, name: str, row: int, number: float) -> None:
        """Do what `write` does for one row of a single number that is the same in all worlds."""

    def require_own_shapes(self) -> None:
        """Raise `error` if there are shapes that belong to no world."""

    def options_changed(self) -> None:
        """Take what the settings ask of the solver."""

    def time_step_changed(self) -> None:
        """Take time step and substeps from the settings."""

    # -- state -----------------------------------------------------------------------------------------------

    def read_coordinates(self) -> None:
        """Copy coordinates and velocities from the device."""

    def read_poses(self) -> None:
        """Copy poses and velocities of links from the device."""

    def push_coordinates(self) -> None:
        """Send what the host has changed of coordinates, velocities and bases to the device."""

    def push(self) -> None:
        """Make the whole state on the device agree with what the host has changed."""

    def start_poses(self, body: Body) -> np.ndarray:
        """Poses of the links of a body at the start of the last step (W, links, 7)."""
        ...

    def all_start_poses(self) -> np.ndarray:
        """Poses of all links at the start of the last step (W, bodies, 7), but those of driven bodies."""
        ...

    def refresh(self, body: Body) -> None:
        """Find the poses of a body from its coordinates on the device."""

    def put_back(self, memory: Snapshot, q: np.ndarray, u: np.ndarray) -> None:
        """Go back to a state of this engine, with the bodies that it has now; fixed bases are in place.

        Args:
            memory: What the device had.
            q: All coordinates that the host had (W, coordinates).
            u: All velocities that it had (W, velocities).
        """

    def write_base(self, body: Body) -> None:
        """Send pose and velocity of a driven body, which no joint carries."""

    def state_replaced(self) -> None:
        """Note that the arrays on the device were written, and that the host knows what they hold."""

    # -- forces ----------------------------------------------------------------------------------------------

    def applied(self, body: Body) -> np.ndarray:
        """Forces of the servos of a body in the last step (W, nu) [N m or N]."""
        ...

    def motor_forces(self, body: Body) -> np.ndarray:
        """Forces of the motors of a body as scripts are told them (W, nu) [N m or N]."""
        ...

    def settle_sensors(self) -> None:
        """Have known what sensors measured in the last step, by what counted then."""

    def settle_motors(self, body: Body) -> None:
        """Have the forces of the last step known, which depend on motion and motors of the body in it."""

    def settings_of_scripts(self) -> tuple[object, ...]:
        """Parts of the solver that scripts set or are told, and which no state of theirs brings back."""
        ...

    def add_torque(self, body: Body, dof: int | slice | np.ndarray, torque: float | np.ndarray) -> None:
        """Add a force along velocity coordinates of a body, for the next step."""

    def joint_torques(self, body: Body) -> np.ndarray:
        """Forces that the next step applies along the velocity coordinates of a body (W, velocities)."""
        ...

    def add_force(self, body: Body, place: int, torque: np.ndarray, force: np.ndarray) -> None:
        """Add a wrench at the centre of mass of a link in world axes, for the next step."""

    def add_force_numbers(self, body: Body, place: int, wrench: Sequence[float]) -> None:
        """Do what `add_force` does in the only world, without NumPy; the torque comes first (6,)."""

    def drop_forces(self, body: Body, worlds: np.ndarray) -> None:
        """Forget the forces on a body that wait for the next step in some worlds."""

    def drop_all_forces(self) -> None:
        """Forget all forces that wait for the next step."""

    def joint_reaction(self, body: Body, place: int) -> np.ndarray | None:
        """Reaction force and moment that a joint's sensor measures (W, 6) [N, N m], None before a step."""
        ...

    def constraint_wrench(self, constraint: Constraint) -> np.ndarray | None:
        """Moment and force of a constraint in the last step (W, 6) [N m, N], None if there are none."""
        ...

    def constraint_turn(self, constraint: Constraint) -> np.ndarray | None:
        """Orientation of its parent (W, 4) at the start of that step."""
        ...


class EngineCopy(Protocol):
    """The state of an engine, for one that is built later from the same content.

    Attributes:
        moved: Whether bodies of the later one were moved since.
    """

    moved: bool

    def applied(self, body: Body) -> np.ndarray:
        """Forces of the servos of a body in the last step (W, nu) [N m or N]."""
        ...

    def put_into(self, engine: Engine) -> None:
        """Write this state into an engine that was just built."""
