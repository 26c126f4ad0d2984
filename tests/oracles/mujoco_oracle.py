"""The same MJCF file in MuJoCo: a second opinion on the importer and on the dynamics together.

Only the free joint has other velocity coordinates: MuJoCo's are (v of the body origin in world axes, ω in
body axes), ours (ω, v of the centre of mass) in world axes. As for pinocchio, ``v_mj = T(q) v``.
Contacts, limits, friction, passive forces and actuators are off: M, bias and gravity are compared.
"""

from pathlib import Path

import gymnasium
import mujoco
import numpy as np

from newtonsim.scene.enums import JointType

PASSIVE_FORCES = mujoco.mjtDisableBit.mjDSBL_SPRING | mujoco.mjtDisableBit.mjDSBL_DAMPER
SMOOTH_PART_ONLY = (
    mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_ACTUATION | PASSIVE_FORCES
)


def gymnasium_asset(name: str) -> str:
    """Path of one of gymnasium's MJCF files."""
    return str(Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / name)


def rotation_matrix(quaternion_wxyz: np.ndarray) -> np.ndarray:
    """Rotation matrix of a quaternion wxyz (3, 3)."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, np.asarray(quaternion_wxyz, dtype=np.float64))
    return matrix.reshape(3, 3)


def skew(r: np.ndarray) -> np.ndarray:
    """Matrix of the cross product r × (3, 3)."""
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])


class MujocoOracle:
    """An MJCF file in MuJoCo, with states and results in the coordinates of our model of the same file."""

    def __init__(self, path: str, model) -> None:
        self.mj = mujoco.MjModel.from_xml_path(path)
        self.mj.opt.disableflags |= SMOOTH_PART_ONLY
        self.mj.opt.gravity[:] = model.gravity
        self.data = mujoco.MjData(self.mj)
        self.com = model.body_com.numpy().astype(np.float64)
        self.joints = []
        q_start, qd_start = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
        for joint, (kind, body) in enumerate(zip(model.joint_type.numpy(), model.joint_child.numpy())):
            count = qd_start[joint + 1] - qd_start[joint]
            if count == 0:
                continue
            mj_body = body + 1
            assert self.mj.body_dofnum[mj_body] == count, model.joint_key[joint]
            q_mj = self.mj.jnt_qposadr[self.mj.body_jntadr[mj_body]]
            qd_mj = self.mj.body_dofadr[mj_body]
            nq = q_start[joint + 1] - q_start[joint]
            ours = slice(q_start[joint], q_start[joint + 1]), slice(qd_start[joint], qd_start[joint + 1])
            theirs = slice(q_mj, q_mj + nq), slice(qd_mj, qd_mj + count)
            self.joints.append((JointType(int(kind)), int(body), ours, theirs))

    def names(self) -> list[str]:
        """Names of the bodies without the world; empty where the file gives none."""
        return [self.mj.body(i + 1).name for i in range(self.mj.nbody - 1)]

    def configuration(self, joint_q: np.ndarray, body_q: np.ndarray) -> np.ndarray:
        """Coordinates of MuJoCo (nq,); the pose of a free body is taken from `body_q`."""
        q = np.zeros(self.mj.nq)
        for kind, body, (ours, _), (theirs, _) in self.joints:
            if kind == JointType.FREE:
                pose = body_q[body].astype(np.float64)
                q[theirs] = [*pose[:3], pose[6], *pose[3:6]]
            else:
                q[theirs] = joint_q[ours]
        mujoco.mj_normalizeQuat(self.mj, q)
        return q

    def velocity_map(self, q: np.ndarray) -> np.ndarray:
        """T of ``v_mj = T v`` (nv, nv)."""
        T = np.zeros((self.mj.nv, self.mj.nv))
        for kind, body, (_, ours), (q_mj, theirs) in self.joints:
            if kind == JointType.FREE:
                R = rotation_matrix(q[q_mj][3:])
                T[theirs, ours] = np.block([[skew(R @ self.com[body]), np.eye(3)], [R.T, np.zeros((3, 3))]])
            else:
                T[theirs, ours] = np.eye(ours.stop - ours.start)
        return T

    def velocity_bias(self, q: np.ndarray, joint_qd: np.ndarray) -> np.ndarray:
        """Ṫ v of ``a_mj = T a + Ṫ v`` (nv,): -ω × (ω × r) in the linear part of a free joint."""
        bias = np.zeros(self.mj.nv)
        for kind, body, (_, ours), (q_mj, theirs) in self.joints:
            if kind == JointType.FREE:
                angular = joint_qd[ours][:3].astype(np.float64)
                r = rotation_matrix(q[q_mj][3:]) @ self.com[body]
                bias[theirs][:3] = -np.cross(angular, np.cross(angular, r))
        return bias

    def set_state(self, joint_q: np.ndarray, joint_qd: np.ndarray, body_q: np.ndarray) -> None:
        """Bring MuJoCo into our state."""
        self.q = self.configuration(joint_q, body_q)
        self.T = self.velocity_map(self.q)
        self.bias = self.velocity_bias(self.q, joint_qd)
        self.data.qpos[:] = self.q
        self.data.qvel[:] = self.T @ joint_qd
        self.data.qfrc_applied[:] = 0.0
        mujoco.mj_forward(self.mj, self.data)

    def mass_matrix(self) -> np.ndarray:
        """Joint-space inertia with armature (nv, nv)."""
        M = np.zeros((self.mj.nv, self.mj.nv))
        mujoco.mj_fullM(self.mj, self.data, M)
        return self.T.T @ M @ self.T

    def inverse_dynamics(self, joint_qdd: np.ndarray) -> np.ndarray:
        """Generalised forces that produce `joint_qdd` (nv,)."""
        self.data.qacc[:] = self.T @ joint_qdd + self.bias
        mujoco.mj_inverse(self.mj, self.data)
        return self.T.T @ self.data.qfrc_inverse

    def forward_dynamics(self, joint_f: np.ndarray) -> np.ndarray:
        """Accelerations under `joint_f` and gravity (nv,)."""
        self.data.qfrc_applied[:] = np.linalg.solve(self.T.T, joint_f)
        mujoco.mj_forward(self.mj, self.data)
        return np.linalg.solve(self.T, self.data.qacc - self.bias)

    def jacobian(self, body: int) -> np.ndarray:
        """Jacobian of (ω, v of the centre of mass) of a body in world axes (6, nv)."""
        linear, angular = np.zeros((3, self.mj.nv)), np.zeros((3, self.mj.nv))
        mujoco.mj_jacBodyCom(self.mj, self.data, linear, angular, body + 1)
        return np.vstack([angular, linear]) @ self.T

    def pose(self, body: int) -> np.ndarray:
        """Pose of a body frame (7,), quaternion xyzw."""
        w, *xyz = self.data.xquat[body + 1]
        return np.array([*self.data.xpos[body + 1], *xyz, w])

    def velocity(self, body: int) -> np.ndarray:
        """(ω, v of the centre of mass) of a body in world axes (6,)."""
        result = np.zeros(6)
        mujoco.mj_objectVelocity(self.mj, self.data, mujoco.mjtObj.mjOBJ_BODY, body + 1, result, 0)
        return result
