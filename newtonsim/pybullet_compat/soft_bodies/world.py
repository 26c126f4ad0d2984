"""Soft bodies of a client: their state on the host, and the particles that they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.builder import ModelBuilder
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.soft_bodies.meshes import ShownMesh, SoftMesh, show
from newtonsim.pybullet_compat.surface.constants import JOINT_POINT2POINT, MESH_DATA_SIMULATION_MESH
from newtonsim.pybullet_compat.world.constraint_records import Constraint
from newtonsim.simulator import Simulator
from newtonsim.solvers import FeatherstoneSolver
from newtonsim.solvers.particles.surface_pairs import SurfacePairs
from newtonsim.solvers.xpbd.particles import XPBDParticles

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.engine import Engine

SOFT_BODY = 3
"""Type of body that getDynamicsInfo reports."""

INEXTENSIBLE = 1.0e5
"""Stiffness of cloth that does not stretch [N/m]."""

STICKY = 5.0
"""Friction of position-based cloth: measured, it holds on slopes of 0.36 where the ground has 0.1."""


@dataclass(slots=True, eq=False)
class Material:
    """What a soft body is made of.

    Attributes:
        mass: Of the whole body, shared equally by its points [kg].
        margin: Distance that the body keeps from others [m].
        mass_spring: Whether its edges are springs.
        bending: As given; springs always join points two edges apart, too.
        neo_hookean: Whether its tetrahedra are elastic.
        stiffness: Of springs [N/m].
        damping: Of springs [N s/m].
        all_directions: Whether the damping acts in all directions, rather than along springs.
        bending_stiffness: Of springs between points two edges apart [N/m].
        mu, lam: Parameters of the energy of Smith et al. 2018, see `kernels.particles.xpbd.tetrahedra` [Pa].
        neo_hookean_damping: Time that makes viscosities of mu and lam [s].
        friction: Multiplied by that of what is touched.
        face_contact, self_collision, repulsion: As given; kept without effect.
    """

    mass: float = 1.0
    margin: float = 0.02
    mass_spring: bool = False
    bending: bool = False
    neo_hookean: bool = False
    stiffness: float = 1.0
    damping: float = 0.1
    all_directions: bool = False
    bending_stiffness: float = 0.1
    mu: float = 1.0
    lam: float = 1.0
    neo_hookean_damping: float = 0.1
    friction: float = 0.0
    face_contact: bool = False
    self_collision: bool = False
    repulsion: float = 0.5

    def make_inextensible(self) -> None:
        """Take the place of PyBullet's position-based cloth, which has no other parameters than its mass."""
        self.mass_spring, self.all_directions = True, False
        self.stiffness, self.damping, self.bending_stiffness = INEXTENSIBLE, 0.0, 0.0
        self.friction = STICKY


class SoftBody:
    """One soft body in all worlds.

    Args:
        world: The soft bodies of its client.
        name: As getBodyInfo reports it.
        mesh: What is simulated, at rest, scaled.
        material: What it is made of.
        x: Positions of its points in all worlds (W, n, 3) [m].
        shown: What is seen of it; None for `mesh` itself.

    Attributes:
        x, v: Positions [m] and velocities [m/s] of the points in all worlds (W, n, 3) on the host.
        first: Place of its first point among those of all soft bodies of a world.
        first_spring, spring_count: Likewise of its springs.
    """

    def __init__(
        self,
        world: SoftWorld,
        name: str,
        mesh: SoftMesh,
        material: Material,
        x: np.ndarray,
        shown: ShownMesh | None = None,
    ):
        self.world, self.name, self.mesh, self.material = world, name, mesh, material
        self.shown = show(mesh) if shown is None else shown
        self.x = x
        self.v = np.zeros_like(x)
        self.rest = mesh.points - mesh.points.mean(axis=0)
        self.first = self.first_spring = self.spring_count = 0

    def names(self) -> tuple[bytes, bytes]:
        """Names of the base and of the body."""
        return self.name.encode(), self.name.encode()

    def poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre of mass (W, 3), and quaternion of the rotation that fits best (W, 4)."""
        self.world.read()
        centre = self.x.mean(axis=1)
        moment = np.einsum("wni,nj->wij", self.x - centre[:, None], self.rest)
        return centre, _nearest_rotations(moment)

    def shown_points(self) -> np.ndarray:
        """Points of `shown` (W, m, 3) [m]."""
        self.world.read()
        return self.shown.points(self.x)

    def base_pose(self) -> tuple:
        """Position and quaternion; arrays (W, 3) and (W, 4) with several worlds."""
        centre, rotation = self.poses()
        if len(centre) == 1:
            return tuple(centre[0].tolist()), tuple(rotation[0].tolist())
        return centre, rotation

    def base_velocity(self) -> tuple:
        """Velocity of the centre of mass, and the angular velocity that has the same angular momentum."""
        self.world.read()
        arm = self.x - self.x.mean(axis=1, keepdims=True)
        linear = self.v.mean(axis=1)
        momentum = np.cross(arm, self.v).sum(axis=1)
        square = np.einsum("wni,wni->w", arm, arm)[:, None, None] * np.eye(3)
        inertia = square - np.einsum("wni,wnj->wij", arm, arm)
        angular = np.einsum("wij,wj->wi", np.linalg.pinv(inertia), momentum)
        if len(linear) == 1:
            return tuple(linear[0].tolist()), tuple(angular[0].tolist())
        return linear, angular

    def place(self, position: np.ndarray, rotation: np.ndarray, at: slice | np.ndarray) -> None:
        """Move the body rigidly and stop it.

        Args:
            position: Of the centre of mass, (3,) or (n, 3) [m].
            rotation: Quaternion xyzw (4,) or (n, 4).
            at: The n worlds.
        """
        centre, now = (pose[at] for pose in self.poses())
        turn = _matrices(np.broadcast_to(rotation, now.shape)) @ _matrices(now).transpose(0, 2, 1)
        around = np.einsum("wij,wnj->wni", turn, self.x[at] - centre[:, None])
        self.x[at] = around + np.broadcast_to(position, centre.shape)[:, None]
        self.v[at] = 0.0
        self.world.written()

    def set_velocity(
        self, linear: np.ndarray | None, angular: np.ndarray | None, at: slice | np.ndarray
    ) -> None:
        """Give all points the velocity of a rigid motion.

        Args:
            linear: Of the centre of mass (3,) or (n, 3) [m/s], None for none.
            angular: (3,) or (n, 3) [rad/s], None for none.
            at: The n worlds.
        """
        self.world.read()
        x = self.x[at]
        v = np.zeros_like(x)
        if linear is not None:
            v += np.reshape(linear, (-1, 1, 3))
        if angular is not None:
            v += np.cross(np.reshape(angular, (-1, 1, 3)), x - x.mean(axis=1, keepdims=True))
        self.v[at] = v
        self.world.written()

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of positions and velocities (W, n, 3)."""
        self.world.read()
        return self.x.copy(), self.v.copy()

    def restore(self, x: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> None:
        """Put the points back.

        Args:
            x: Positions (W, n, 3) [m].
            v: Velocities (W, n, 3) [m/s].
            mask: Worlds that are put back (W,), None for all.
        """
        self.world.read()
        which = np.ones(len(x), bool) if mask is None else mask
        self.x[which], self.v[which] = x[which], v[which]
        self.world.written()

    def dynamics_info(self) -> tuple:
        """The 12 fields of getDynamicsInfo: mass, friction and kind of body; the rest is zero."""
        zero, identity = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)
        material = self.material
        info = (material.mass, material.friction, zero, zero, identity, 0.0, 0.0, 0.0, 0.0, 0.0, SOFT_BODY)
        return (*info, material.margin)

    def bounds(self) -> tuple:
        """Lower and upper corner of the box about the points with their margin [m]."""
        self.world.read()
        lower, upper = self.x.min(axis=1) - self.material.margin, self.x.max(axis=1) + self.material.margin
        if len(lower) == 1:
            return tuple(lower[0].tolist()), tuple(upper[0].tolist())
        return lower, upper

    def mesh_data(self, flags: int) -> tuple:
        """Points of the body for getMeshData.

        Args:
            flags: MESH_DATA_SIMULATION_MESH for the simulated points, else the corners of all triangles seen.

        Returns:
            Number of points, and their world positions [m]; with several worlds an array (W, n, 3).
        """
        self.world.read()
        if flags & MESH_DATA_SIMULATION_MESH:
            points = self.x
        else:
            points = self.shown_points()[:, self.shown.faces.reshape(-1)]
        count = points.shape[1]
        return count, tuple(map(tuple, points[0].tolist())) if len(points) == 1 else points.copy()

    def add_to(self, builder: ModelBuilder) -> None:
        """Add points and elements to a builder of one world."""
        material, count = self.material, len(self.mesh.points)
        self.first = builder.particle_count
        mass = material.mass / count
        for point in self.mesh.points.tolist():
            builder.add_particle(point, (0.0, 0.0, 0.0), mass, radius=material.margin)
        builder.particle_mu[self.first :] = [material.friction] * count
        # faces only collide
        builder.add_triangles(*(self.mesh.faces + self.first).T, 0.0, 0.0, 0.0, 0.0, 0.0)
        self.first_spring = builder.spring_count
        if material.mass_spring:
            self._add_springs(builder, self.mesh.links(), material.stiffness)
            self._add_springs(builder, self.mesh.bending_links(), material.bending_stiffness)
        self.spring_count = builder.spring_count - self.first_spring
        if material.neo_hookean and len(self.mesh.tetrahedra):
            numbers = (material.mu, material.lam, material.neo_hookean_damping)
            for corners in (self.mesh.tetrahedra + self.first).tolist():
                builder.add_tetrahedron(*corners, *numbers)

    def _add_springs(self, builder: ModelBuilder, pairs: np.ndarray, stiffness: float) -> None:
        damping = 0.0 if self.material.all_directions else self.material.damping
        for a, b in (pairs + self.first).tolist():
            builder.add_spring(a, b, stiffness, damping, 0.0)


@dataclass(slots=True, eq=False)
class Anchor(Constraint):
    """A point of a soft body that is held: `parent_link` is the point, `child_frame` where it is held."""

    def build(self, builder: ModelBuilder, bodies: dict[int, Body], time_step: float) -> None:
        """Add nothing: anchors belong to the particles of the soft bodies."""


def make_anchor(soft: int, node: int, body: int, link: int, position: np.ndarray) -> Anchor:
    """Return the anchor of a point of a soft body.

    Args:
        soft: The soft body.
        node: Its point.
        body: What holds it, -1 for the world.
        link: Link of that body.
        position: In the inertial frame of the link (3,) [m].
    """
    frame = Pose(position, Pose.identity().q)
    return Anchor(soft, node, body, link, JOINT_POINT2POINT, np.zeros(3), Pose.identity(), frame)


class SoftWorld:
    """All soft bodies of a client; a part of it.

    They are the deformables of the engine's solver. Where there are no rigid bodies, that solver has nothing
    to step, and they have one of their own.

    Args:
        client: The client.

    Attributes:
        system: What moves the bodies in the present engine, None without any.
    """

    def __init__(self, client: Client):
        self.client = client
        self.system: XPBDParticles | None = None
        self._alone: Simulator | None = None

    @property
    def bodies(self) -> list[SoftBody]:
        """The soft bodies in the order of their points."""
        return list(self.client.soft_bodies.values())

    def bind(self, engine: Engine) -> None:
        """Make the particles for an engine that was just built."""
        self.reset()
        bodies = self.bodies
        if not bodies:
            return
        builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        for body in bodies:
            body.add_to(builder)
        many = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        many.replicate(builder, engine.worlds, spacing=(0.0, 0.0, 0.0))
        with wp.ScopedDevice(engine.model.device):
            model = many.finalize()
        self.system = XPBDParticles(model, engine.model, logarithm=True)
        self._set_pairs(engine.worlds)
        self._set_damping(engine.worlds)
        self._anchor(engine)
        if engine.model.body_count:
            engine.solver.deformables = self.system
            state = engine.solver.deformables.state
        else:
            of_bodies = engine.simulator
            solver = FeatherstoneSolver(model, deformables=self.system)
            self._alone = Simulator(model, solver, of_bodies.dt, of_bodies.substeps)
            state = self._alone.state
        self._x = HostArray(state.particle_q, engine.worlds)
        self._v = HostArray(state.particle_qd, engine.worlds)
        self.written()

    def _set_pairs(self, worlds: int) -> None:
        """Let soft bodies meet each other, and themselves where this was asked for."""
        bodies = self.bodies
        if len(bodies) == 1 and not bodies[0].material.self_collision:
            return
        self.system.pairs = SurfacePairs(self.system.particles)
        meets_itself = HostArray(self.system.pairs.self_contact, worlds)
        for body in bodies:
            part = slice(body.first, body.first + body.x.shape[1])
            meets_itself.host[:, part] = body.material.self_collision
        meets_itself.push()

    def _set_damping(self, worlds: int) -> None:
        """Damp springs in all directions where this was asked for."""
        across = HostArray(self.system.springs.across, worlds)
        for body in self.bodies:
            if body.material.all_directions:
                last = body.first_spring + body.spring_count
                across.host[:, body.first_spring : last] = body.material.damping
        across.push()
        self.system.damps_across = bool(across.host.any())

    def _anchor(self, engine: Engine) -> None:
        """Hold points of the world where they are, and give the others anchors."""
        system, worlds = self.system, engine.worlds
        flags = HostArray(system.particles.particle_flags, worlds)
        particle, row, point = [], [], []
        anchors = {  # the last one of a point counts
            (anchor.parent_body, anchor.parent_link): anchor
            for anchor in self.client.constraints.values()
            if isinstance(anchor, Anchor)
        }
        for (soft, node), anchor in anchors.items():
            place = self.client.soft_bodies[soft].first + node
            body = self.client.bodies.get(anchor.child_body)
            if body is None:
                flags.host[:, place] = 0
            else:
                particle.append(place)
                row.append(body.first_row + anchor.child_link + 1)
                point.append(anchor.child_frame.p)
        flags.push()
        world = np.arange(worlds)[:, None]
        count = system.particles.particle_count
        particles = (np.array(particle, int)[None] + world * (count // worlds)).reshape(-1)
        links = (np.array(row, int)[None] + world * (engine.model.body_count // worlds)).reshape(-1)
        system.set_anchors(particles, links, np.tile(np.array(point).reshape(-1, 3), (worlds, 1)))
        anchored = system.contacts.anchored.numpy()
        anchored[particles] = links
        system.contacts.anchored.assign(anchored)

    def release(self, engine: Engine) -> None:
        """Keep the state of an engine that goes."""
        self.read()
        self.reset()

    def before_step(self, engine: Engine) -> None:
        """Step without rigid bodies, for which the solver of the engine does nothing."""
        if self._alone is None:
            return
        of_bodies = engine.simulator
        self._alone.dt, self._alone.substeps = of_bodies.dt, of_bodies.substeps
        self._alone.step()

    def read(self) -> None:
        """Make positions and velocities on the host those of the device."""
        if self.system is None:
            return
        x, v = self._x.pull().astype(np.float64), self._v.pull().astype(np.float64)
        for body in self.bodies:
            part = slice(body.first, body.first + body.x.shape[1])
            body.x, body.v = x[:, part], v[:, part]

    def written(self) -> None:
        """Send positions and velocities that the host has changed to the device."""
        if self.system is None:
            return
        for body in self.bodies:
            part = slice(body.first, body.first + body.x.shape[1])
            self._x.host[:, part], self._v.host[:, part] = body.x, body.v
        self._x.push()
        self._v.push()

    def reset(self) -> None:
        """Forget the particles."""
        self.system = self._alone = None


def placed(points: np.ndarray, position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Points (n, 3) at poses (W, 3) and (W, 4): (W, n, 3)."""
    return np.stack([quat_rotate(q, points) + p for p, q in zip(position, rotation, strict=True)])


def _nearest_rotations(moment: np.ndarray) -> np.ndarray:
    """Quaternions (W, 4) of the rotations nearest to matrices (W, 3, 3) (polar decomposition)."""
    from scipy.spatial.transform import Rotation

    u, _, vt = np.linalg.svd(moment)
    u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
    return Rotation.from_matrix(u @ vt).as_quat()


def _matrices(quaternion: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(quaternion).as_matrix()
