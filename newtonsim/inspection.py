"""One world of a running simulation, for debugging: bodies, joints, contacts and constraint rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from newtonsim.collision.collide import collide
from newtonsim.errors import NewtonsimError
from newtonsim.geometry.transforms import transform_point
from newtonsim.kernels.constraints import dof_rows
from newtonsim.kernels.views import pair_rows
from newtonsim.scene.description import HostView, name_of, numbers, of_world, table
from newtonsim.scene.enums import JointType
from newtonsim.scene.topology import topology_of
from newtonsim.simulator import Simulator
from newtonsim.solvers import FeatherstoneSolver

_DOF_ROWS = {
    int(dof_rows.ROW_LIMIT): "limit",
    int(dof_rows.ROW_DRIVE): "drive",
    int(dof_rows.ROW_FRICTION): "dry friction",
    int(dof_rows.ROW_SERVO): "servo",
}
_PAIR_ROWS = {
    int(pair_rows.PAIR_OFFSET): "offset",
    int(pair_rows.PAIR_COSINE): "direction",
    int(pair_rows.PAIR_ROTATION): "rotation",
    int(pair_rows.PAIR_SPAN): "offset",
    int(pair_rows.PAIR_ACROSS): "offset",
    int(pair_rows.PAIR_ANGLES): "rotation",
    int(pair_rows.PAIR_SLIDE): "slide",
    int(pair_rows.PAIR_TWIST): "twist",
    int(pair_rows.PAIR_SWING): "swing",
    int(pair_rows.PAIR_DISTANCE): "distance",
    int(pair_rows.PAIR_COUPLING): "coupling",
    int(pair_rows.PAIR_FRICTION_SHIFT): "dry friction",
    int(pair_rows.PAIR_FRICTION_TURN): "dry friction",
}


@dataclass(frozen=True)
class BodyState:
    """The current state of a body.

    Attributes:
        body: Its index in the model.
        key: Its name.
        position: Origin of the body frame [m], world axes, shape (3,).
        quaternion: Rotation of the body frame, xyzw, shape (4,).
        angular_velocity: Angular velocity [rad/s], world axes, shape (3,).
        velocity: Velocity of the centre of mass [m/s], world axes, shape (3,).
    """

    body: int
    key: str
    position: np.ndarray
    quaternion: np.ndarray
    angular_velocity: np.ndarray
    velocity: np.ndarray


@dataclass(frozen=True)
class JointState:
    """The current state of a joint.

    Attributes:
        joint: Its index in the model.
        key: Its name.
        type: What kind of joint it is.
        parent: Name of the parent body, "world" if there is none.
        child: Name of the child body.
        q: Its coordinates [m, quaternion xyzw or rad].
        qd: Its velocities [rad/s or m/s], angular part first if it has no axes.
    """

    joint: int
    key: str
    type: JointType
    parent: str
    child: str
    q: np.ndarray
    qd: np.ndarray


@dataclass(frozen=True)
class ContactState:
    """A contact point of the last step.

    Attributes:
        place: Its place in the contact buffer.
        shapes: Names of both shapes.
        bodies: Names of their bodies, "world" for static shapes.
        point: Point between both surfaces [m], world axes, shape (3,).
        normal: Direction from the second shape to the first, world axes, shape (3,).
        gap: Distance of the surfaces along the normal [m], negative in penetration.
        normal_impulse: Impulse on the first shape along the normal in the last step [N s]; None if the solver
            keeps no impulses.
        tangent_impulse: Friction impulse, world axes, shape (3,) [N s]; None likewise.
    """

    place: int
    shapes: tuple[str, str]
    bodies: tuple[str, str]
    point: np.ndarray
    normal: np.ndarray
    gap: float
    normal_impulse: float | None
    tangent_impulse: np.ndarray | None


@dataclass(frozen=True)
class RowState:
    """A constraint row of the last step that is not a contact.

    Attributes:
        row: Its place among the rows on single degrees of freedom, or among those between bodies.
        kind: What it constrains: "limit", "drive", "dry friction" or "servo" of a degree of freedom;
            "offset", "direction", "rotation", "slide", "twist", "swing", "distance" or "coupling" between
            bodies.
        of: Name of its joint or constraint, of a degree of freedom with its number in the joint.
        impulse: Impulse of the last step [N s or N m s].
        lower: Lower bound of its impulse; -inf for none.
        upper: Upper bound of its impulse; inf for none.
    """

    row: int
    kind: str
    of: str
    impulse: float
    lower: float
    upper: float


@dataclass(frozen=True)
class WorldState:
    """The result of `inspect` for one world; `print` shows it as tables.

    Attributes:
        world: Its index.
        time: Simulated time [s].
        dt: Length of the solver's last step [s], to which impulses belong; None before the first step, and
            if the solver keeps no impulses.
        bodies: Its bodies.
        joints: Its joints.
        contacts: Its contact points.
        rows: Its constraint rows, without those of contacts; none if the solver has no rows.
        iterations: Sweeps of the last constraint solve; None if the solver has no rows.
        residual: Largest velocity change of the last sweep [m/s or rad/s]; None likewise.
    """

    world: int
    time: float
    dt: float | None
    bodies: list[BodyState]
    joints: list[JointState]
    contacts: list[ContactState]
    rows: list[RowState]
    iterations: int | None
    residual: float | None

    def __str__(self) -> str:
        head = f"world {self.world} at {self.time:.6g} s"
        if self.residual is not None:
            head += f", last solve: {self.iterations} sweeps, residual {self.residual:.3g} m/s or rad/s"
        if self.dt is not None:
            head += f", impulses of the last {self.dt:.4g} s"
        columns = ("key", "position [m]", "quaternion xyzw", "velocity of COM [m/s]", "turning [rad/s]")
        bodies = (
            (b.body, (b.key, *map(numbers, (b.position, b.quaternion, b.velocity, b.angular_velocity))))
            for b in self.bodies
        )
        joints = (
            (j.joint, (j.key, j.type.name.lower(), f"{j.parent} -> {j.child}", numbers(j.q), numbers(j.qd)))
            for j in self.joints
        )
        rows = (
            (r.row, (r.kind, r.of, f"{r.impulse:.4g}", f"{r.lower:.4g}..{r.upper:.4g}")) for r in self.rows
        )
        tables = [
            table("body", columns, bodies),
            table("joint", ("key", "type", "parent -> child", "q", "qd"), joints),
            table("contact", _CONTACT_COLUMNS, ((c.place, _contact_cells(c)) for c in self.contacts)),
            table("row", ("kind", "of", "impulse [N s or N m s]", "bounds"), rows),
        ]
        return "\n\n".join([head, *filter(None, tables)])


_CONTACT_COLUMNS = ("shapes", "bodies", "point [m]", "normal", "gap [m]", "normal [N s]", "tangent [N s]")


def _contact_cells(contact: ContactState) -> tuple[str, ...]:
    impulses = ("-", "-")
    if contact.normal_impulse is not None and contact.tangent_impulse is not None:
        impulses = (f"{contact.normal_impulse:.4g}", numbers(contact.tangent_impulse))
    pairs = (" and ".join(names) for names in (contact.shapes, contact.bodies))
    return *pairs, numbers(contact.point), numbers(contact.normal), f"{contact.gap:.3g}", *impulses


def inspect(simulator: Simulator, world: int = 0) -> WorldState:
    """Return the current contents of one world of a simulation, with names and units; print it to read it.

    Contacts and rows are those of the solver's last step, with its impulses, if the solver is a
    FeatherstoneSolver with rigid contacts. Otherwise, and before the first step, contacts are computed at the
    current poses, and there are no impulses and no rows. Waits for the device and reads from it.

    Args:
        simulator: The simulation; it is not changed.
        world: The world.

    Raises:
        NewtonsimError: There is no such world.

    Example::

        print(newtonsim.inspect(simulator, world=3))
    """
    model = simulator.model
    if not 0 <= world < model.world_count:
        raise NewtonsimError(f"world: expected one of 0..{model.world_count - 1}, got {world}")
    host, state = HostView(model), HostView(simulator.state)
    stage = _solved_stage(simulator.solver)
    return WorldState(
        world=world,
        time=simulator.time,
        dt=None if stage is None else stage.last_dt,
        bodies=list(_bodies(host, state, world)),
        joints=list(_joints(host, state, world)),
        contacts=list(_contacts(simulator, host, state, world)),
        rows=[] if stage is None else [*_dof_rows(host, stage, world), *_pair_rows(host, stage, world)],
        iterations=None if stage is None else int(stage.iterations.numpy()[world]),
        residual=None if stage is None else float(stage.residual.numpy()[world]),
    )


def _solved_stage(solver: Any) -> Any:
    """The constraint stage of a solver whose last step left impulses of all contacts, or None."""
    if not isinstance(solver, FeatherstoneSolver) or solver.compliant:
        return None
    return None if solver.constraints.last_contacts is None else solver.constraints


def _bodies(host: HostView, state: HostView, world: int) -> Iterator[BodyState]:
    for b in of_world(host, "body", world).tolist():
        pose, motion = state.body_q[b], state.body_qd[b]
        yield BodyState(b, name_of(host, "body", b), pose[:3], pose[3:], motion[:3], motion[3:])


def _joints(host: HostView, state: HostView, world: int) -> Iterator[JointState]:
    for j in of_world(host, "joint", world).tolist():
        parent, child = (
            name_of(host, "body", int(getattr(host, f"joint_{end}")[j])) for end in ("parent", "child")
        )
        kind = JointType(int(host.joint_type[j]))
        q = state.joint_q[slice(*host.joint_q_start[j : j + 2])]
        qd = state.joint_qd[slice(*host.joint_qd_start[j : j + 2])]
        yield JointState(j, name_of(host, "joint", j), kind, parent, child, q, qd)


def _contacts(simulator: Simulator, host: HostView, state: HostView, world: int) -> Iterator[ContactState]:
    model, stage = simulator.model, _solved_stage(simulator.solver)
    if not model.shape_count:
        return
    contacts = collide(model, simulator.state, model.contact()) if stage is None else stage.last_contacts
    impulses = None
    if stage is not None:
        solver: Any = simulator.solver
        impulses = solver.contact_forces().numpy().astype(np.float64) * stage.last_dt
    found, first = HostView(contacts), int(contacts.world_start.numpy()[world])
    for place in range(first, first + int(found.world_count[world])):
        normal = found.rigid_contact_normal[place].astype(np.float64)
        shapes = [int(getattr(found, f"rigid_contact_shape{side}")[place]) for side in (0, 1)]
        bodies = [int(host.shape_body[shape]) for shape in shapes]
        first_shape, second_shape = (name_of(host, "shape", shape) for shape in shapes)
        first_body, second_body = (name_of(host, "body", body) for body in bodies)
        touching = [_touching_point(found, state, place, side, bodies[side]) for side in (0, 1)]
        along = across = None
        if impulses is not None:
            along = float(impulses[place] @ normal)
            across = impulses[place] - along * normal
        yield ContactState(
            place,
            (first_shape, second_shape),
            (first_body, second_body),
            0.5 * (touching[0] + touching[1]),
            normal,
            float(found.rigid_contact_distance[place]),
            along,
            across,
        )


def _touching_point(found: HostView, state: HostView, place: int, side: int, body: int) -> np.ndarray:
    """Where one shape touches [m], world axes."""
    local = [getattr(found, f"rigid_contact_{name}{side}")[place] for name in ("point", "offset")]
    point: np.ndarray = np.sum(local, axis=0, dtype=np.float64)  # pyright: ignore[reportAssignmentType]
    return point if body < 0 else transform_point(state.body_q[body].astype(np.float64), point)


def _dof_rows(host: HostView, stage: Any, world: int) -> Iterator[RowState]:
    rows = HostView(stage.rows.dof)
    if not stage.dof_count:
        return
    dof_joint = topology_of(stage.model).dof_joint
    first = int(rows.world_start[world])
    for row in range(first, first + int(rows.world_count[world])):
        source = int(rows.source[row])
        dof = int(rows.source_dof[source])
        joint = int(dof_joint[dof])
        place = dof - int(host.joint_qd_start[joint])
        of = f"{name_of(host, 'joint', joint)} [{place}]"
        yield _row(rows, row, _DOF_ROWS[int(rows.source_kind[source])], of)


def _pair_rows(host: HostView, stage: Any, world: int) -> Iterator[RowState]:
    rows = HostView(stage.rows.pair)
    if not stage.pair_count:
        return
    for row in range(*rows.world_start[world : world + 2].tolist()):
        if rows.delassus[row] == 0.0:  # out of reach, or disabled
            continue
        kind = "constraint" if rows.constraint[row] >= 0 else "joint"
        of = name_of(host, kind, int(getattr(rows, kind)[row]))
        yield _row(rows, row, _PAIR_ROWS[int(rows.kind[row])], of)


def _row(rows: HostView, row: int, kind: str, of: str) -> RowState:
    lower, upper = (_bound(float(getattr(rows, name)[row])) for name in ("lower", "upper"))
    return RowState(row, kind, of, float(rows.impulse[row]), lower, upper)


def _bound(value: float) -> float:
    return value if abs(value) < float(dof_rows.UNBOUNDED) else math.copysign(math.inf, value)
