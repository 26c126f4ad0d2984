"""What the bodies of a tree resist at zero joint coordinates, on the host in double precision.

It says what a model asks of the step. By elimination, single precision finds the inertia of an axis while all
behind it yields as a difference of that with all of it rigid (`newtonsim.runtime.inertia_factors`); and
bodies that yield to little torque while they transmit large forces swing fast
(`newtonsim.solvers.geometric_stiffness`).

Source: Featherstone, "Rigid Body Dynamics Algorithms", 2008, sections 6.2 and 6.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.scene.enums import JointType
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model


@dataclass(frozen=True)
class TreeInertias:
    """Inertias of dofs and bodies of some trees, infinite for all others.

    Attributes:
        rigid: Of each dof while all that hangs on it is at rest relative to it [kg or kg m²], the diagonal
            of H, (joint_dof_count,).
        yielding: The same while the dofs behind it are free, D of H = Lᵀ D L, (joint_dof_count,).
        turning: Inertia with which a body can be turned about each of its axes while all dofs of its tree
            are free [kg m²], (body_count, 3).
    """

    rigid: np.ndarray
    yielding: np.ndarray
    turning: np.ndarray


def tree_inertias(model: Model, trees: np.ndarray) -> TreeInertias:
    """Return the inertias of some trees.

    Where worlds are alike, those of the first count for all: masses that are varied between worlds do not
    change what this is asked for, and thousands of worlds would take seconds.

    Args:
        model: The model.
        trees: Numbers of trees, see `Topology`.
    """
    dofs, bodies = model.joint_dof_count, model.body_count
    found = TreeInertias(np.full(dofs, np.inf), np.full(dofs, np.inf), np.full((bodies, 3), np.inf))
    worlds = _worlds_alike(model)
    parts = _Parts(model)
    for t in np.unique(np.asarray(trees) % (topology_of(model).tree_count // worlds)):
        _measure(parts, parts.joints_of(t), found)
    for values in (found.rigid, found.yielding, found.turning):
        values.reshape(worlds, -1)[:] = values[: len(values) // worlds].reshape(-1)
    return found


def _worlds_alike(model: Model) -> int:
    """Return the number of worlds if all consist of the same joints in the same order, otherwise 1."""
    worlds, parent = model.world_count, model.joint_parent.numpy()
    if worlds < 2 or model.joint_count % worlds or model.body_count % worlds:
        return 1
    first = (model.body_count // worlds * np.arange(worlds)).repeat(model.joint_count // worlds)
    columns = [np.where(parent >= 0, parent - first, -1), model.joint_child.numpy() - first]
    columns += [model.joint_type.numpy(), np.diff(model.joint_qd_start.numpy())]
    rows = [column.reshape(worlds, -1) for column in columns]
    return worlds if all((row == row[0]).all() for row in rows) else 1


def _measure(parts: _Parts, joints: np.ndarray, found: TreeInertias) -> None:
    """Write the inertias of a tree."""
    dofs = np.concatenate([parts.dofs_of(j) for j in joints])
    if not len(dofs):
        return
    motion, moved = _motions(parts, joints)
    S = np.concatenate(list(motion.values()), axis=1)
    chain = _chains(parts, joints, dofs)
    # by composite rigid bodies, those that a dof carries
    composite = {b: _spatial_inertia(parts, b, pose) for b, pose in moved.items()}
    H = np.diag(parts.armature[dofs].astype(np.float64))
    for j in joints[::-1]:
        b, p = int(parts.child[j]), int(parts.parent[j])
        own = np.isin(dofs, parts.dofs_of(j))
        before = chain[b].astype(bool) & ~own
        momentum = composite[b] @ motion[int(j)]
        H[np.ix_(own, own)] += motion[int(j)].T @ momentum
        H[np.ix_(before, own)] = S[:, before].T @ momentum
        H[np.ix_(own, before)] = H[np.ix_(before, own)].T
        if p >= 0:
            composite[p] += composite[b]
    found.rigid[dofs] = np.diag(H)
    H += np.diag(np.where(np.diag(H) > 0.0, 0.0, 1.0))
    # D of Lᵀ D L is what Cholesky's factorization finds of the reversed matrix
    try:
        pivot = np.diag(np.linalg.cholesky(H[::-1, ::-1]))[::-1]
    except np.linalg.LinAlgError:  # bodies without mass, which have no inertia to lose
        return
    found.yielding[dofs] = pivot * pivot
    inverse = np.linalg.inv(H)
    for b, own in chain.items():
        turn = moved[b][:3, :3].T @ (S * own)[:3]
        with np.errstate(divide="ignore"):
            found.turning[b] = 1.0 / np.einsum("ij,jk,ik->i", turn, inverse, turn)


def _motions(parts: _Parts, joints: np.ndarray) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """Motion subspace of each joint about the origin of the world, and the pose of each child as a matrix."""
    pose: dict[int, np.ndarray] = {}
    motion: dict[int, np.ndarray] = {}
    for j in joints:
        frame = _matrix(parts.X_p[j])
        if parts.parent[j] >= 0:
            frame = pose[int(parts.parent[j])] @ frame
        b = int(parts.child[j])
        pose[b] = frame @ np.linalg.inv(_matrix(parts.X_c[j]))
        centre = frame[:3, 3]
        if parts.floats(j):
            centre = pose[b][:3, :3] @ parts.com[b] + pose[b][:3, 3]
        turns, shifts = (axes @ frame[:3, :3].T for axes in parts.axes_of(j))
        motion[int(j)] = np.concatenate((turns, np.cross(centre, turns) + shifts), axis=1).T
    return motion, pose


def _matrix(transform: np.ndarray) -> np.ndarray:
    """Homogeneous matrix of a transform, (4, 4)."""
    matrix = np.eye(4)
    turn: Any = wp.quatd(*transform[3:])
    rotation: Any = wp.quat_to_matrix(turn)
    matrix[:3, :3] = np.reshape(rotation, (3, 3))
    matrix[:3, 3] = transform[:3]
    return matrix


def _chains(parts: _Parts, joints: np.ndarray, dofs: np.ndarray) -> dict[int, np.ndarray]:
    """Return which of some dofs move each body, as numbers."""
    chain: dict[int, np.ndarray] = {}
    for j in joints:
        own = np.isin(dofs, parts.dofs_of(j)).astype(np.float64)
        p = int(parts.parent[j])
        chain[int(parts.child[j])] = own + chain[p] if p >= 0 else own
    return chain


def _spatial_inertia(parts: _Parts, b: int, pose: np.ndarray) -> np.ndarray:
    """Spatial inertia about the origin of the world, (6, 6), turns first."""
    R, (x, y, z) = pose[:3, :3], pose[:3, :3] @ parts.com[b] + pose[:3, 3]
    X = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    m = float(parts.mass[b])
    inertia = R @ parts.inertia[b] @ R.T
    return np.block([[inertia - m * X @ X, m * X], [-m * X, m * np.eye(3)]])


class _Parts:
    """Arrays of a model on the host."""

    def __init__(self, model: Model):
        tree = topology_of(model).view
        self._start: np.ndarray = tree.joint_start.numpy()
        self._joint: np.ndarray = tree.joint.numpy()
        self.parent: np.ndarray = model.joint_parent.numpy()
        self.child: np.ndarray = model.joint_child.numpy()
        self._type: np.ndarray = model.joint_type.numpy()
        self._first: np.ndarray = model.joint_qd_start.numpy()
        self._axis_start: np.ndarray = model.joint_axis_start.numpy()
        self._axis_dim: np.ndarray = model.joint_axis_dim.numpy()
        self._axis: np.ndarray = model.joint_axis.numpy()
        self.armature: np.ndarray = model.joint_armature.numpy()
        self.X_p = model.joint_X_p.numpy().astype(np.float64)
        self.X_c = model.joint_X_c.numpy().astype(np.float64)
        self.mass: np.ndarray = model.body_mass.numpy()
        self.com = model.body_com.numpy().astype(np.float64)
        self.inertia = model.body_inertia.numpy().astype(np.float64)

    def joints_of(self, t: int) -> np.ndarray:
        """Joints of a tree, parents first."""
        return self._joint[self._start[t] : self._start[t + 1]]

    def dofs_of(self, j: int) -> np.ndarray:
        """Dofs of a joint."""
        return np.arange(self._first[j], self._first[j + 1])

    def floats(self, j: int) -> bool:
        """Whether a joint has the dofs of a free body, which turns about its centre of mass."""
        return self._type[j] in (JointType.FREE, JointType.DISTANCE)

    def axes_of(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Axes about which and along which the dofs of a joint move, in its frame, (dofs, 3) each."""
        count = len(self.dofs_of(j))
        turns, shifts = np.zeros((count, 3)), np.zeros((count, 3))
        if self._type[j] == JointType.BALL:
            turns[:] = np.eye(3)
        elif self.floats(j):
            turns[:3], shifts[3:] = np.eye(3), np.eye(3)
        else:
            axes = self._axis[self._axis_start[j] : self._axis_start[j] + count]
            linear = int(self._axis_dim[j, 0])
            shifts[:linear], turns[linear:] = axes[:linear], axes[linear:]
        return turns, shifts
