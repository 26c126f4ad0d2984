"""An MJCF file in MuJoCo, with results in the coordinates of our model of the same file.

A hinge or slide of the file is at our coordinate plus its reference. The velocity of a free joint is there
(v of the body's origin in world axes, ω in body axes), and here (ω, v of the centre of mass) in world axes;
that of a ball is ω in body axes there, and in the axes of the parent here. So v_mj = T(q) v, hence
M = Tᵀ M_mj T and the bias is Tᵀ (c_mj + M_mj Ṫ v).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import OracleError
from newtonsim.geometry.transforms import quat_matrix

if TYPE_CHECKING:
    from newtonsim.fidelity.ours import Reading
    from newtonsim.scene.state import State


@dataclass
class Placed:
    """What the oracle says of a state, in our coordinates.

    Attributes:
        M: Joint-space inertia with armature (n, n).
        bias: Generalised forces without acceleration (n,), gravity included.
        poses: Pose of the frame of each body, (7,) with quaternion xyzw.
    """

    M: np.ndarray
    bias: np.ndarray
    poses: dict[str, np.ndarray]


class MujocoOracle:
    """A file compiled by MuJoCo.

    Args:
        path: The file.

    Attributes:
        model: MuJoCo's model.

    Raises:
        OracleError: MuJoCo is not installed, or refuses the file.
    """

    name = "MuJoCo"

    def __init__(self, path: str):
        try:
            import mujoco
        except ImportError as error:
            raise OracleError("MuJoCo is not installed: pip install 'newtonsim[mujoco]'") from error
        self.mujoco = mujoco
        try:
            self.model: Any = mujoco.MjModel.from_xml_path(path)
        except ValueError as error:
            raise OracleError(f"MuJoCo refuses {path}: {' '.join(str(error).split())}") from error
        self.data = mujoco.MjData(self.model)
        self.bodies = [self.model.body(i).name or f"body_{i}" for i in range(self.model.nbody)]

    @property
    def dof_count(self) -> int:
        """Number of degrees of freedom."""
        return int(self.model.nv)

    def masses(self) -> dict[str, tuple[float, np.ndarray, np.ndarray]]:
        """See `ours.masses`."""
        found = {}
        for i in np.flatnonzero(self.model.body_mocapid < 0)[1:].tolist():
            R = quat_matrix(_xyzw(self.model.body_iquat[i]))
            inertia = R @ np.diag(self.model.body_inertia[i]) @ R.T
            found[self.bodies[i]] = (float(self.model.body_mass[i]), self.model.body_ipos[i].copy(), inertia)
        return found

    def place(self, reading: Reading, state: State) -> Placed:
        """Bring MuJoCo into our state and return what it says of it."""
        mujoco, model, data = self.mujoco, self.model, self.data
        T, rate = self.take(data, reading, state)
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        return Placed(T.T @ M @ T, T.T @ (data.qfrc_bias + M @ rate), self.poses(data))

    def poses(self, data: Any) -> dict[str, np.ndarray]:
        """Poses of the frames of all bodies."""
        return {
            name: np.array([*data.xpos[i], *_xyzw(data.xquat[i])])
            for i, name in enumerate(self.bodies)
            if i > 0
        }

    def take(self, data: Any, reading: Reading, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Put our state into MuJoCo's data; return T and Ṫ v.

        Raises:
            OracleError: A joint is here and not there.
        """
        model, kinds = self.model, self.mujoco.mjtJoint
        q = qd = np.zeros(0)  # of a file in which nothing moves
        if reading.model.joint_dof_count:
            q, qd = state.joint_q.numpy().astype(np.float64), state.joint_qd.numpy().astype(np.float64)
        poses, com = state.body_q.numpy().astype(np.float64), reading.model.body_com.numpy()
        T, rate = np.zeros((model.nv, len(qd))), np.zeros(model.nv)
        for joint, name in enumerate(self.joint_names()):
            if name not in reading.report.joint_dofs:
                raise OracleError(f"the joint {name!r} of {reading.path} is not in our model")
            at, dof = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
            coord, own = reading.report.joint_coords[name], reading.report.joint_dofs[name]
            if model.jnt_type[joint] == kinds.mjJNT_FREE:
                body = reading.report.bodies[self.bodies[model.jnt_bodyid[joint]]]
                pose = poses[body]
                data.qpos[at : at + 7] = [*pose[:3], pose[6], *pose[3:6]]
                R = quat_matrix(pose[3:])
                r, spin = R @ com[body], qd[own : own + 3]
                T[dof : dof + 3, own : own + 3], T[dof : dof + 3, own + 3 : own + 6] = (
                    cross_matrix(r),
                    np.eye(3),
                )
                T[dof + 3 : dof + 6, own : own + 3] = R.T
                rate[dof : dof + 3] = -np.cross(spin, np.cross(spin, r))
            elif model.jnt_type[joint] == kinds.mjJNT_BALL:
                turn = q[coord : coord + 4]
                data.qpos[at : at + 4] = [turn[3], *turn[:3]]
                T[dof : dof + 3, own : own + 3] = quat_matrix(turn).T
            else:
                data.qpos[at] = q[coord] + model.qpos0[at]
                T[dof, own] = 1.0
        data.qvel[:] = T @ qd
        return T, rate

    def joint_names(self) -> list[str]:
        """Names of all joints, as our reports have them."""
        model, names = self.model, []
        for joint in range(model.njnt):
            body = model.jnt_bodyid[joint]
            place = f"_{joint - model.body_jntadr[body]}" if model.body_jntnum[body] > 1 else ""
            names.append(model.joint(joint).name or f"{self.bodies[body]}_joint{place}")
        return names


def _xyzw(quaternion: np.ndarray) -> np.ndarray:
    return np.asarray(quaternion)[[1, 2, 3, 0]]


def cross_matrix(r: np.ndarray) -> np.ndarray:
    """Matrix of the cross product r × (3, 3)."""
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])
