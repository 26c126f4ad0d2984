"""Inverse dynamics, Jacobians and mass matrices of bodies, in float64; inverse kinematics has its own file.

Conventions, found by asking the real module:

- Jacobians and mass matrices of floating bodies have six columns in front, ω and v of the base's centre of
  mass, and hold for a base in the world's orientation. Inverse dynamics takes velocities and accelerations of
  the base as (ω, v) and returns (force, torque), all along the axes of the base. The orientation of the base
  that it is given is read as roll, pitch and yaw and used as rotations about the moving axes x, y, z.
- With `flags=1`, coordinates are as in the state: seven for the pose of the base, four for each spherical
  joint. Velocities and forces are laid out in the same slots, those that are too many being zero (one, on the
  diagonal of the mass matrix), and the base comes as (v, ω) along the axes of the world. Accelerations are
  ignored, and the base is taken to accelerate with (ω - R ω) × v. Moments of inertia are those of the first
  shape of a link alone, along its own axes, and links without shapes have no mass.
- Without flags, spherical joints have roll, pitch and yaw for coordinates, and are taken to sit at the link
  frame of their parent, wherever they really are. This is the real module's result, and no physics.
- A local position is given from the link frame along the axes of the inertial frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from newtonsim.geometry.transforms import quat_rotate
from newtonsim.pybullet_compat.kinematics.body_chains import (
    BASE_COORDINATES,
    BodyChains,
    Kinematics,
    chains_of,
    length,
    numbers,
    quaternions_of_angles,
    system_error,
)
from newtonsim.pybullet_compat.kinematics.chains import BASE_DOFS
from newtonsim.pybullet_compat.kinematics.inverse import (
    calculateInverseKinematics as calculateInverseKinematics,
)
from newtonsim.pybullet_compat.kinematics.inverse import (
    calculateInverseKinematics2 as calculateInverseKinematics2,
)
from newtonsim.pybullet_compat.kinematics.list_dynamics import ListDynamics
from newtonsim.pybullet_compat.surface.arguments import SEQUENCES
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.surface.maths import getEulerFromQuaternion
from newtonsim.pybullet_compat.world.client import Client

STATE_LAYOUT = 1
"""The flag that asks for the layout of the state."""

COORDINATES = ("objPositions", "objVelocities", "objAccelerations")

FORCES_FAILED = "Error in calculateInverseDynamics, please check arguments."
FORCES_SIZES = (
    "calculateInverseDynamics numDofs needs to be positive and [joint velocities] and[joint accelerations] "
    "need to be equal and match the number of degrees of freedom."
)
JACOBIAN_SIZES = (
    "calculateJacobian [numDof] needs to be positive, [local position] needs to be of size 3 and "
    "[joint positions], [joint velocities], [joint accelerations] need to match the number of DoF."
)
NO_SPHERICAL = "Spherirical joints are not supported in the pybullet binding"
MATRIX_FAILED = "Internal error in calculateMassMatrix"
MATRIX_SIZES = (
    "calculateMassMatrix [numJoints] needs to be positive and [joint positions] need to match the number of "
    "joints."
)


def _rows(matrix: np.ndarray) -> tuple:
    return tuple(map(tuple, matrix.tolist()))


def calculateInverseDynamics(
    client: Client,
    bodyUniqueId: int,
    objPositions: Sequence[float],
    objVelocities: Sequence[float],
    objAccelerations: Sequence[float],
    flags: int = 0,
) -> tuple[float, ...] | np.ndarray:
    """Return the forces that give joints target accelerations, against gravity.

    Args:
        client: The client.
        bodyUniqueId: The body.
        objPositions: Coordinates, of floating bodies after the pose of the base (7); see the module.
        objVelocities: Velocities, after those of the base (6).
        objAccelerations: Accelerations, likewise.
        flags: 1 for the layout of the state.

    Returns:
        Forces, of floating bodies after force and torque of the base; (W, n) in many worlds.

    Raises:
        error: Velocities and accelerations differ in length.
        SystemError: There is no such body, or the lengths are not those of its coordinates.
    """
    name = "calculateInverseDynamics"
    quick = _list_dynamics(client, bodyUniqueId)
    if quick is not None and not flags & STATE_LAYOUT:
        forces = quick.forces(objPositions, objVelocities, objAccelerations, client.settings.gravity)
        if forces is not None:
            return forces
    q, qd, qdd = (numbers(x, name) for x in (objPositions, objVelocities, objAccelerations))
    sizes = [length(x, client, name) for x, name in zip((q, qd, qdd), COORDINATES, strict=True)]
    if sizes[1] != sizes[2]:
        raise error(FORCES_SIZES)
    chains = chains_of(client, bodyUniqueId)
    if chains is None or min(sizes) < 0:
        raise system_error(name, error(FORCES_FAILED))
    if flags & STATE_LAYOUT:
        tau = _forces_of_state(client, chains, q, qd)
    else:
        tau = _forces(client, chains, q, qd, qdd)
    if tau is None:
        raise system_error(name, error(FORCES_FAILED))
    return tuple(tau[0].tolist()) if client.num_worlds == 1 else tau


def _list_dynamics(client: Client, uid: int) -> ListDynamics | None:
    """Dynamics of a body for lists or tuples, None of a body that has none."""
    body = client.bodies.get(uid)
    return None if body is None else client.part(Kinematics).of(body).of_lists


def _forces(
    client: Client, chains: BodyChains, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray
) -> np.ndarray | None:
    """Forces (W, n) in the layout without flags, None where lengths are wrong."""
    first, nv, chain = chains.first, chains.nv, chains.apparent
    base = BASE_COORDINATES if chains.floating else 0
    if q.shape[-1] != nv + base or qd.shape[-1] != nv + BASE_DOFS - first:
        return None
    gravity = client.settings.gravity
    if base:
        gravity = _gravity_at_base(gravity, q[..., 3:7])
    chain.configure(chains.coordinates(q[..., base:]))
    velocity, acceleration = chain.motion()
    velocity[:, :first] = acceleration[:, :first] = 0.0
    velocity[:, first:], acceleration[:, first:] = qd, qdd
    tau = chain.forces(gravity)
    return tau[:, chains.base_order] if base else tau[:, first:].copy()


def _gravity_at_base(gravity: np.ndarray, orientation: np.ndarray) -> np.ndarray:
    """Gravity (3,) or (W, 3) along the axes of a base, likewise; see the module for the orientation."""
    rows = orientation.reshape(-1, 4).tolist()
    euler = np.array([getEulerFromQuaternion(row) for row in rows])
    # rotations about moving axes x, y, z are those about fixed axes of the opposite angles, undone
    turned = quat_rotate(quaternions_of_angles(-euler), gravity)
    return turned.reshape(turned.shape if gravity.ndim == 2 else (*orientation.shape[:-1], 3))


def _forces_of_state(client: Client, chains: BodyChains, q: np.ndarray, qd: np.ndarray) -> np.ndarray | None:
    """Forces (W, 7 + nq) in the layout of the state, None where lengths are wrong."""
    worlds, chain = client.num_worlds, chains.of_state
    base = BASE_COORDINATES if chains.floating else 0
    if q.shape[-1] < base + chains.nq:
        return None
    orientation = _state_orientation(client, chains, q)
    chain.configure(q[..., base : base + chains.nq], orientation)
    state = np.zeros((worlds, BASE_COORDINATES + chains.nq))
    width = min(qd.shape[-1], base + chains.nq)
    skipped = BASE_COORDINATES - base
    state[:, skipped : skipped + width] = qd[..., :width]
    velocity, acceleration = chain.motion()
    velocity[...] = state[:, chains.slots]
    acceleration[...] = 0.0
    omega = velocity[:, :3]
    acceleration[:, 3:6] = np.cross(omega - quat_rotate(orientation, omega), velocity[:, 3:6])
    tau = np.zeros_like(state)
    tau[:, chains.slots] = chain.forces(client.settings.gravity)
    return tau


def _state_orientation(client: Client, chains: BodyChains, q: np.ndarray) -> np.ndarray:
    """Orientation of the base (4,) or (W, 4): that of the coordinates, or of the body if it is fixed."""
    if chains.floating:
        return q[..., 3:7]
    client.read_poses(chains.body)
    return chains.body.pose[:, 0, 3:]


def calculateJacobian(
    client: Client,
    bodyUniqueId: int,
    linkIndex: int,
    localPosition: Sequence[float],
    objPositions: Sequence[float],
    objVelocities: Sequence[float],
    objAccelerations: Sequence[float],
) -> tuple:
    """Return the linear and the angular Jacobian of a point of a link.

    Args:
        client: The client.
        bodyUniqueId: The body.
        linkIndex: The link; one that is not there gives zeros.
        localPosition: The point, from the link frame (3,).
        objPositions: Coordinates of the joints (nv,); floating bodies give none for the base.
        objVelocities: Not used, but of the same length.
        objAccelerations: Not used, but of the same length.

    Returns:
        Two matrices (3, nv), of floating bodies (3, 6 + nv), as tuples of rows; (W, 3, n) in many worlds.

    Raises:
        error: There is no such body, a length is not that of its coordinates, or it has spherical joints.
    """
    name = "calculateJacobian"
    quick = _list_dynamics(client, bodyUniqueId)
    listed = localPosition.__class__ in SEQUENCES and len(localPosition) == 3
    if quick is not None and listed and quick.has(linkIndex):
        others = (objVelocities, objAccelerations)
        both = quick.jacobian(linkIndex + 1, localPosition, objPositions, others)
        if both is not None:
            return both
    given = (localPosition, objPositions, objVelocities, objAccelerations)
    point, q, qd, qdd = (numbers(x, name) for x in given)
    chains = chains_of(client, bodyUniqueId)
    if chains is None:
        raise error(JACOBIAN_SIZES)
    if chains.chain.balls:
        raise error(NO_SPHERICAL)
    sizes = [length(x, client, name) for x, name in zip((q, qd, qdd), COORDINATES, strict=True)]
    if chains.nv == 0 or length(point, client, "localPosition") != 3 or sizes != [chains.nv] * 3:
        raise error(JACOBIAN_SIZES)
    chain = chains.chain
    place = linkIndex + 1
    if 0 <= place < chain.link_count:
        if chains.axes[place] is not None:
            point = point @ chains.axes[place]
        chain.configure(q)
        both = chain.jacobian(place, point)[..., chains.first :]
    else:
        both = np.zeros((client.num_worlds, 2, 3, BASE_DOFS + chain.nv))[..., chains.first :]
    if client.num_worlds == 1:
        linear, angular = both[0].tolist()
        return tuple(map(tuple, linear)), tuple(map(tuple, angular))
    return both[:, 0].copy(), both[:, 1].copy()


def calculateMassMatrix(
    client: Client, bodyUniqueId: int, objPositions: Sequence[float], flags: int = 0
) -> tuple[tuple[float, ...], ...] | np.ndarray:
    """Return the joint-space inertia of a body.

    Args:
        client: The client.
        bodyUniqueId: The body.
        objPositions: Coordinates of the joints; floating bodies give none for the base. Missing ones are
            zero, and those that are too many are ignored.
        flags: 1 for the layout of the state, with the pose of the base of floating bodies in front.

    Returns:
        Rows of a square matrix of nv, 6 + nv for floating bodies, with flags 7 + nq; (W, n, n) in many
        worlds.

    Raises:
        error: The coordinates are not a sequence.
        SystemError: There is no such body, or a coordinate is no number.
    """
    name = "calculateMassMatrix"
    quick = _list_dynamics(client, bodyUniqueId)
    if quick is not None and not flags & STATE_LAYOUT:
        rows = quick.mass_matrix(objPositions)
        if rows is not None:
            return rows
    q = numbers(objPositions, name)
    size = length(q, client, COORDINATES[0])
    if size < 0:
        raise error(MATRIX_SIZES)
    chains = chains_of(client, bodyUniqueId)
    if chains is None:
        raise system_error(name, error(MATRIX_FAILED))
    if flags & STATE_LAYOUT:
        matrix = _matrix_of_state(client, chains, q)
    else:
        q = _padded(q, chains.nv)
        chains.apparent.configure(chains.coordinates(q))
        matrix = chains.apparent.mass_matrix()[:, chains.first :, chains.first :]
    return _rows(matrix[0]) if client.num_worlds == 1 else matrix.copy()


def _padded(values: np.ndarray, size: int) -> np.ndarray:
    """The first entries of the last axis, followed by zeros where there are fewer."""
    if values.shape[-1] < size:
        missing = np.zeros((*values.shape[:-1], size - values.shape[-1]))
        values = np.concatenate([values, missing], axis=-1)
    return values[..., :size]


def _matrix_of_state(client: Client, chains: BodyChains, q: np.ndarray) -> np.ndarray:
    """Joint-space inertia (W, 7 + nq, 7 + nq) in the layout of the state."""
    base = BASE_COORDINATES if chains.floating else 0
    q = _padded(q, base + chains.nq)
    chains.of_state.configure(q[..., base:], _state_orientation(client, chains, q))
    width = BASE_COORDINATES + chains.nq
    matrix = np.tile(np.eye(width), (client.num_worlds, 1, 1))
    slots = chains.slots
    matrix[:, slots[:, None], slots] = chains.of_state.mass_matrix()
    return matrix
