"""A URDF file in pinocchio, with results in the coordinates of our model of the same file.

Hinges that turn without end have two coordinates there, cosine and sine. Links that fixed joints connect are
one body there, so that masses are compared by what moves together. Robots with planar or floating joints
inside are not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import OracleError
from newtonsim.fidelity.mujoco_oracle import Placed

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
            OracleError: A joint is not in our model, or moves along several axes.
        """
        pin, model, data = self.pin, self.model, self.data
        theirs, order = self._configuration(reading, state)
        v = state.joint_qd.numpy().astype(np.float64)[order] if model.nv else np.zeros(0)
        back = np.argsort(order)
        M = pin.crba(model, data, theirs)
        M = np.triu(M) + np.triu(M, 1).T
        bias = pin.nonLinearEffects(model, data, theirs, v)
        pin.framesForwardKinematics(model, data, theirs)
        poses = {name: np.asarray(pin.SE3ToXYZQUAT(data.oMf[i])) for name, i in self.links.items()}
        return Placed(M[np.ix_(back, back)], bias[back], poses)

    def _configuration(self, reading: Reading, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Return pinocchio's coordinates, and our degree of freedom of each of its."""
        model, report = self.model, reading.report
        theirs = self.pin.neutral(self.model)
        if not model.nv:  # nothing moves
            return theirs, np.zeros(0, int)
        q = state.joint_q.numpy().astype(np.float64)
        order = np.zeros(model.nv, int)
        for name, joint in list(zip(model.names, model.joints, strict=True))[1:]:
            if name not in report.joint_dofs:
                raise OracleError(f"the joint {name!r} of {reading.path} is not in our model")
            if joint.nv != 1:
                raise OracleError(f"the joint {name!r} of {reading.path} moves along {joint.nv} axes")
            value = q[report.joint_coords[name]]
            theirs[joint.idx_q : joint.idx_q + joint.nq] = (
                [value] if joint.nq == 1 else [np.cos(value), np.sin(value)]
            )
            order[joint.idx_v] = report.joint_dofs[name]
        return theirs, order
