"""Chains for the functions of kinematics, one set for each requested body."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from newtonsim.geometry.transforms import quat_matrix, quat_multiply
from newtonsim.pybullet_compat.descriptions.description import Geometry, Link
from newtonsim.pybullet_compat.descriptions.mass import MARGIN, box_inertia, local_box
from newtonsim.pybullet_compat.kinematics.chains import BASE_DOFS, Chain
from newtonsim.pybullet_compat.kinematics.list_dynamics import ListDynamics
from newtonsim.pybullet_compat.kinematics.reach import Reach
from newtonsim.pybullet_compat.surface.arguments import check_rows
from newtonsim.pybullet_compat.surface.constants import GEOM_CAPSULE, GEOM_SPHERE
from newtonsim.pybullet_compat.surface.maths import getEulerFromQuaternion
from newtonsim.pybullet_compat.world.body import Body
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.runtime.capture import capturing
from newtonsim.runtime.devices import find_device

BASE_COORDINATES = 7


def quaternions_of_angles(angles: np.ndarray) -> np.ndarray:
    """Unit quaternions xyzw (..., 4) of roll, pitch and yaw about fixed axes (..., 3) [rad]."""
    half = 0.5 * np.asarray(angles, dtype=np.float64)
    sines, cosines = np.sin(half), np.cos(half)
    turns = np.zeros((3, *half.shape[:-1], 4))
    for i in range(3):
        turns[i, ..., i], turns[i, ..., 3] = sines[..., i], cosines[..., i]
    return quat_multiply(turns[2], quat_multiply(turns[1], turns[0]))


def _turn(quaternion: np.ndarray) -> np.ndarray | None:
    return quat_matrix(quaternion).T.copy() if quaternion[:3].any() else None


def _shape_inertia(link: Link) -> np.ndarray:
    """Principal moments (3,) for a mass of one, of the first shape alone and along its own axes.

    Found by measurement with the real module. Capsules lie along y, and the transverse moment is not that of
    a capsule.
    """
    if not link.collisions:
        return np.zeros(3)
    shape = link.collisions[0]
    if shape.kind == GEOM_SPHERE:
        return np.full(3, 0.4 * shape.radius**2)
    if shape.kind == GEOM_CAPSULE:
        return _capsule_inertia(shape)
    low, high = local_box(shape)
    return box_inertia(1.0, 0.5 * (high - low) + (MARGIN if shape.meshes else 0.0))


def _capsule_inertia(shape: Geometry) -> np.ndarray:
    r, h = shape.radius, shape.height
    cylinder = h / (h + 4.0 / 3.0 * r)
    caps = 1.0 - cylinder
    across = cylinder * (h * h / 12.0 + r * r / 4.0) + caps * (0.4 * r * r + h * h / 2.0 + 3.0 / 8.0 * h * r)
    return np.array([across, (0.5 * cylinder + 0.4 * caps) * r * r, across])


class BodyChains:
    """The chains of one body, as long as it does not change.

    Args:
        body: The body.
        device: Warp device.

    Attributes:
        chain: The body as it is.
        nq, nv: Numbers of coordinates and degrees of freedom of its joints.
        first: Column of the first degree of freedom that is reported: those of fixed bases are not.
        axes: Matrices (3, 3) that take row vectors along the axes of each inertial frame to those of the link
            frame, None where they are the same; the base has none.
        slots: Places of the degrees of freedom, those of the base first, in the layout of the state.
    """

    def __init__(self, body: Body, device: str):
        self.body, self.revision, self.floating = body, body.revision, body.floating
        self._device = device
        self.chain = self._make(body.mass, body.inertia)
        self.nq, self.nv = self.chain.nq, self.chain.nv
        starts, counts = self.chain.q_start, body.u_count
        joints = [
            BASE_COORDINATES + int(starts[i]) + j
            for i in range(1, self.chain.link_count)
            for j in range(counts[i])
        ]
        self.slots = np.array([3, 4, 5, 0, 1, 2, *joints])
        self.base_order = [3, 4, 5, 0, 1, 2, *range(BASE_DOFS, BASE_DOFS + self.nv)]
        self.first = 0 if body.floating else BASE_DOFS
        self.axes = [None, *(_turn(quaternion) for quaternion in body.inertial[1:, 3:])]
        self.damping_set = False

    def _make(self, mass: np.ndarray, inertia: np.ndarray, balls_at_parents: bool = False) -> Chain:
        """Make a chain with masses (W, L) and moments of inertia (W, L, 3)."""
        body = self.body
        mass, inertia = mass.copy(), inertia.copy()
        if not body.floating:
            mass[:, 0], inertia[:, 0] = 0.0, 0.0
        return Chain(body.links, body.parents, body.inertial, mass, inertia, self._device, balls_at_parents)

    @cached_property
    def apparent(self) -> Chain:
        """The body as the functions without flags see it, the same without spherical joints."""
        body = self.body
        return self._make(body.mass, body.inertia, balls_at_parents=True) if self.chain.balls else self.chain

    @cached_property
    def of_lists(self) -> ListDynamics | None:
        """Dynamics for lists of numbers, None of bodies that are in several worlds, float or have balls."""
        chain = self.chain
        is_plain = chain.worlds == 1 and not (self.floating or chain.balls) and self.nv > 0
        return ListDynamics(chain, [axes is not None for axes in self.axes]) if is_plain else None

    @cached_property
    def of_state(self) -> Chain:
        """The body as the functions see it in the layout of the state."""
        mass = self.body.mass * [bool(link.collisions) for link in self.body.links]
        return self._make(mass, mass[:, :, None] * [_shape_inertia(link) for link in self.body.links])

    @cached_property
    def reach(self) -> Reach:
        """Inverse kinematics of the body."""
        return Reach(self.chain)

    def coordinates(self, angles: np.ndarray) -> np.ndarray:
        """Coordinates of joints from those with roll, pitch and yaw for spherical joints (..., nv)."""
        chain = self.chain
        if not chain.balls:
            return angles
        q = np.zeros((*angles.shape[:-1], chain.nq))
        for i in range(1, chain.link_count):
            k, d, count = chain.q_start[i], chain.dof_start[i], self.body.u_count[i]
            if i in chain.balls:
                q[..., k : k + 4] = quaternions_of_angles(angles[..., d : d + 3])
            else:
                q[..., k : k + count] = angles[..., d : d + count]
        return q

    def angles(self, q: np.ndarray) -> np.ndarray:
        """The reverse of `coordinates`, for (W, nq)."""
        chain = self.chain
        if not chain.balls:
            return q
        angles = np.zeros((len(q), chain.nv))
        for i in range(1, chain.link_count):
            k, d, count = chain.q_start[i], chain.dof_start[i], self.body.u_count[i]
            if i in chain.balls:
                angles[:, d : d + 3] = [getEulerFromQuaternion(row) for row in q[:, k : k + 4]]
            else:
                angles[:, d : d + count] = q[:, k : k + count]
        return angles


class Kinematics:
    """Chains of the requested bodies of a client.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        # one configuration is faster on the CPU than a launch elsewhere
        self._device = "cpu" if client.num_worlds == 1 else str(find_device(client.device))
        self._chains: dict[int, BodyChains] = {}

    def of(self, body: Body) -> BodyChains:
        """Return the chains of a body."""
        chains = self._chains.get(body.uid)
        if (
            chains is None
            or chains.body is not body
            or chains.revision != body.revision
            or chains.floating != body.floating
        ):
            with capturing:
                chains = self._chains[body.uid] = BodyChains(body, self._device)
        return chains

    def body_removed(self, uid: int) -> None:
        """Forget a body."""
        self._chains.pop(uid, None)

    def reset(self) -> None:
        """Forget all bodies."""
        self._chains.clear()


def system_error(function: str, cause: Exception) -> SystemError:
    """Return the exception of a C function that fails without setting one."""
    failure = SystemError(f"<built-in function {function}> returned a result with an exception set")
    failure.__cause__ = cause
    return failure


def numbers(value: object, function: str) -> np.ndarray:
    """Return an array of floats; what is not a sequence becomes one without axes.

    Raises:
        SystemError: An item is not a number.
    """
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise system_error(function, TypeError(str(problem))) from problem


def length(array: np.ndarray, client: Client, name: str) -> int:
    """Return the length of a list for one world or for each, -1 for anything else.

    Raises:
        error: There are rows, but not one for each of several worlds.
    """
    if array.ndim == 1:
        return len(array)
    check_rows(array, client, name)
    if array.ndim == 2 and client.num_worlds > 1 and len(array) == client.num_worlds:
        return array.shape[1]
    return -1


def chains_of(client: Client, uid: int) -> BodyChains | None:
    body = client.bodies.get(uid)
    return None if body is None else client.part(Kinematics).of(body)
