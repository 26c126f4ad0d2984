"""A URDF file in pinocchio, with results in the coordinates of our model of the same file.

Hinges that turn without end have two coordinates there, cosine and sine. Links that fixed joints connect are
one body there, so that masses are compared by what moves together. The velocity of a floating joint is there
(v of the link's origin, ω) in the axes of the link, and here (ω, v of the centre of mass) in those of the
joint's frame in the parent; that of a planar joint is along the axes of the link there, and here along those
of the joint's frame. So v_pin = T(q) v, hence M = Tᵀ M_pin T and the bias is Tᵀ (c_pin + M_pin Ṫ v).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import OracleError
from newtonsim.fidelity.mujoco_oracle import Placed, cross_matrix
from newtonsim.geometry.transforms import quat_matrix

if TYPE_CHECKING:
    from newtonsim.fidelity.ours import Reading
    from newtonsim.scene.state import State


class PinocchioOracle:
    """A file read by pinocchio, its root link fixed.

    Args:
        path: The file.

    Raises:
        OracleError: pinocchio is not installed, or refuses the file.
    """

    name = "pinocchio"

    def __init__(self, path: str):
        try:
            import pinocchio
        except ImportError as error:
            raise OracleError("pinocchio is not installed: pip install pin") from error
        self.pin: Any = pinocchio
        try:
            self.model = self.pin.buildModelFromUrdf(path)
        except ValueError as error:
            raise OracleError(f"pinocchio refuses {path}: {' '.join(str(error).split())}") from error
        self.data = self.model.createData()
        kind = self.pin.FrameType.BODY
        self.links = {frame.name: i for i, frame in enumerate(self.model.frames) if frame.type == kind}

    @property
    def dof_count(self) -> int:
        """Number of degrees of freedom."""
        return int(self.model.nv)

    def masses(self) -> dict[str, float]:
        """Return the mass of what moves with each joint [kg]; what stands still is "universe"."""
        return {
            name: float(body.mass) for name, body in zip(self.model.names, self.model.inertias, strict=True)
        }

    def groups(self) -> dict[str, str]:
        """Return for each link the joint that it moves with."""
        model = self.model
        return {name: model.names[model.frames[i].parentJoint] for name, i in self.links.items()}

    def place(self, reading: Reading, state: State) -> Placed:
        """Bring pinocchio into our state and return what it says of it.

        Raises:
            OracleError: A joint is not in our model, or a planar one has another axis than z, which pinocchio
                does not look at.
        """
        pin, model, data = self.pin, self.model, self.data
        v = state.joint_qd.numpy().astype(np.float64) if model.nv else np.zeros(0)
        theirs, T, rate = self._configuration(reading, state, v)
        M = pin.crba(model, data, theirs)
        M = np.triu(M) + np.triu(M, 1).T
        bias = pin.nonLinearEffects(model, data, theirs, T @ v) + M @ rate
        pin.framesForwardKinematics(model, data, theirs)
        poses = {name: np.asarray(pin.SE3ToXYZQUAT(data.oMf[i])) for name, i in self.links.items()}
        return Placed(T.T @ M @ T, T.T @ bias, poses)

    def _configuration(
        self, reading: Reading, state: State, v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return pinocchio's coordinates, T, and Ṫ v."""
        model, report = self.model, reading.report
        theirs, T, rate = self.pin.neutral(self.model), np.zeros((model.nv, len(v))), np.zeros(model.nv)
        if not model.nv:  # nothing moves
            return theirs, T, rate
        q = state.joint_q.numpy().astype(np.float64)
        for name, joint in list(zip(model.names, model.joints, strict=True))[1:]:
            if name not in report.joint_dofs:
                raise OracleError(f"the joint {name!r} of {reading.path} is not in our model")
            coord, own = report.joint_coords[name], report.joint_dofs[name]
            values, speeds = q[coord : coord + 7], v[own : own + joint.nv]
            if joint.nv == 6:
                body = int(reading.model.joint_child.numpy()[report.joints[name]])
                com = reading.model.body_com.numpy()[body].astype(np.float64)
                taken, block, change = _floating(values, speeds, com)
            elif joint.nv == 3:
                self._check_plane(reading, name)
                taken, block, change = _planar(values, speeds)
            else:
                angle = values[0]
                taken = [angle] if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
                block, change = np.eye(1), np.zeros(1)
            theirs[joint.idx_q : joint.idx_q + joint.nq] = taken
            rows = slice(joint.idx_v, joint.idx_v + joint.nv)
            T[rows, own : own + joint.nv], rate[rows] = block, change
        return theirs, T, rate

    def _check_plane(self, reading: Reading, name: str) -> None:
        """Raise unless a planar joint moves in the plane that pinocchio takes for all."""
        first = int(reading.model.joint_axis_start.numpy()[reading.report.joints[name]])
        if not np.allclose(reading.model.joint_axis.numpy()[first : first + 3], np.eye(3)):
            raise OracleError(
                f"the planar joint {name!r} of {reading.path} has another axis than z, and pinocchio takes z"
            )


def _floating(q: np.ndarray, v: np.ndarray, com: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates (7,), block of T (6, 6) and of Ṫ v (6,) of a floating joint.

    Args:
        q: Position and quaternion xyzw of the link in the frame of the joint (7,).
        v: (ω, v of the centre of mass) in that frame (6,).
        com: Centre of mass in the link (3,).
    """
    R = quat_matrix(q[3:])
    block = np.zeros((6, 6))
    block[:3] = R.T @ np.hstack([cross_matrix(R @ com), np.eye(3)])
    block[3:, :3] = R.T
    return q, block, np.concatenate([-R.T @ np.cross(v[:3], v[3:]), np.zeros(3)])


def _planar(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same, (4,), (3, 3) and (3,), of a planar joint, from x, y, angle, and their rates."""
    cosine, sine = np.cos(q[2]), np.sin(q[2])
    turn = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    change = v[2] * np.array([[-sine, cosine], [-cosine, -sine]]) @ v[:2]
    return np.array([q[0], q[1], cosine, sine]), turn, np.append(change, 0.0)
