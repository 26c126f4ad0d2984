"""Joint coordinates and their rates by degrees of freedom, in float64 on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.scene.enums import JointType
from newtonsim.scene.joint_types import FLOATING

if TYPE_CHECKING:
    from newtonsim.scene.model import Model


class Blocks:
    """A matrix with one block for each joint that is not the identity.

    Args:
        rows: Number of rows.
        columns: Number of columns.
        same: Rows and columns of the entries that are 1, two arrays of equal length.
        blocks: First row, first column and values of the other blocks.
        quaternions: First coordinates of the quaternions.
        reference: Coordinates at which the matrix was taken.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        same: tuple[np.ndarray, np.ndarray],
        blocks: list[tuple[int, int, np.ndarray]],
        quaternions: np.ndarray,
        reference: np.ndarray,
    ):
        self.rows, self.columns, self.same, self.blocks = rows, columns, same, blocks
        self.quaternions, self.reference = quaternions, reference

    def push(self, x: np.ndarray) -> np.ndarray:
        """The matrix times a vector (columns,)."""
        y = np.zeros(self.rows)
        y[self.same[0]] = x[self.same[1]]
        for row, column, block in self.blocks:
            y[row : row + block.shape[0]] = block @ x[column : column + block.shape[1]]
        return y

    def pull_back(self, y: np.ndarray) -> np.ndarray:
        """The transposed matrix times a vector (rows,)."""
        x = np.zeros(self.columns)
        x[self.same[1]] = y[self.same[0]]
        for row, column, block in self.blocks:
            x[column : column + block.shape[1]] = y[row : row + block.shape[0]] @ block
        return x

    def move(self, q: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Coordinates moved by a short step of the degrees of freedom, to second order, float32."""
        moved = q.astype(np.float64) + self.push(step)
        for i in self.quaternions:
            moved[i : i + 4] /= np.linalg.norm(moved[i : i + 4])
        return moved.astype(np.float32)

    def nearer(self, q: np.ndarray) -> np.ndarray:
        """Coordinates with the sign of each quaternion chosen nearer to the reference."""
        q = q.copy()
        for i in self.quaternions:
            if q[i : i + 4] @ self.reference[i : i + 4] < 0.0:
                q[i : i + 4] *= -1.0
        return q


def coordinate_rates(model: Model, joint_q: np.ndarray, joints: Sequence[int] | None = None) -> Blocks:
    """The matrix D with q̇ = D v, v = joint_qd, as `kernels.trees.joint_forces.integrate_joints` has it.

    Args:
        model: The model.
        joint_q: Coordinates, (joint_coord_count,).
        joints: Joints that move; None for all. The matrix is zero for others.
    """
    return _matrix(model, joint_q.astype(np.float64), joints, invert=False)


def rate_of_coordinates(model: Model, joint_q: np.ndarray, joints: Sequence[int] | None = None) -> Blocks:
    """The inverse of `coordinate_rates` on what it can reach: v = D⁺ q̇."""
    return _matrix(model, joint_q.astype(np.float64), joints, invert=True)


def _matrix(model: Model, q: np.ndarray, joints: Sequence[int] | None, invert: bool) -> Blocks:
    q_start, qd_start = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
    plain_q, plain_qd, blocks, quaternions = [], [], [], []
    types, parents, children = (getattr(model, f"joint_{n}").numpy() for n in ("type", "parent", "child"))
    for joint in range(len(types)) if joints is None else joints:
        kind = types[joint]
        i, end, d = int(q_start[joint]), int(q_start[joint + 1]), int(qd_start[joint])
        if kind in FLOATING:
            frames = (model.joint_X_p.numpy()[joint], model.joint_X_c.numpy()[joint])
            com = model.body_com.numpy()[children[joint]]
            block = _floating_rates(q[i:end], *frames, com, parents[joint] < 0)
            quaternions.append(i + 3)
        elif kind == JointType.BALL:
            block = _turn_rates(q[i:end], np.eye(3))
            quaternions.append(i)
        else:
            plain_q += range(i, end)
            plain_qd += range(d, d + end - i)
            continue
        blocks.append((d, i, np.linalg.pinv(block)) if invert else (i, d, block))
    same = (np.array(plain_q, int), np.array(plain_qd, int))
    sizes = (model.joint_coord_count, model.joint_dof_count)
    if invert:
        same, sizes = same[::-1], sizes[::-1]
    return Blocks(*sizes, same, blocks, np.array(quaternions, int), q)


def _floating_rates(
    q: np.ndarray, X_p: np.ndarray, X_c: np.ndarray, com: np.ndarray, to_world: bool
) -> np.ndarray:
    """Rates of (p, q) of a joint whose velocity is (ω, v of the centre of mass), (7, 6)."""
    axes = _rotation(X_p[3:]).T if to_world else np.eye(3)
    body = _rotation(q[3:]) @ _rotation(X_c[3:]).T
    arm = body @ (X_c[:3].astype(np.float64) - com)
    rates = np.zeros((7, 6))
    rates[:3, :3] = np.cross(axes.T, arm).T
    rates[:3, 3:] = axes
    rates[3:, :3] = _turn_rates(q[3:], axes)
    return rates


def _turn_rates(q: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Rates of a quaternion that turns about the columns of `axes`, on its left, (4, 3)."""
    x, y, z, w = q
    about = 0.5 * np.array([[w, z, -y], [-z, w, x], [y, -x, w], [-x, -y, -z]])
    return about @ axes


def _rotation(q: np.ndarray) -> np.ndarray:
    """Matrix of a quaternion xyzw."""
    x, y, z, w = q.astype(np.float64)
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )
