"""The same robot in pinocchio: a second opinion in float64 on kinematics and dynamics.

Conventions differ in the velocity coordinates only, by the linear map ``v_pin = T(q) v``:

- FREE and DISTANCE: ours is (ω, v of the centre of mass) in world axes (child of the world) or in the axes of
  the parent joint frame, pinocchio's (v of the joint frame, ω), both in the axes of the child joint frame.
- BALL: ours is ω in the axes of the parent joint frame, pinocchio's in those of the child joint frame.
- Everything else: a chain of one-axis joints with massless links between; T is the identity.

Hence ``M = Tᵀ M_pin T``, ``τ = Tᵀ τ_pin`` and ``a_pin = T a + Ṫ v``.
"""

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from newtonsim.scene.enums import JointType


def se3(transform: np.ndarray) -> pin.SE3:
    """Convert a pose (p, quaternion xyzw) (7,)."""
    return pin.XYZQUATToSE3(np.asarray(transform, dtype=np.float64))


def skew(r: np.ndarray) -> np.ndarray:
    """Matrix of the cross product r × (3, 3)."""
    return pin.skew(np.asarray(r, dtype=np.float64))


@dataclass
class Joint:
    """One of our joints and the pinocchio joints that stand for it."""

    kind: JointType
    q: slice
    qd: slice
    q_pin: slice
    qd_pin: slice
    rotation_axes: np.ndarray
    """Rotation from the parent joint frame to the axes of our velocity coordinates (3, 3)."""
    com: np.ndarray
    """Centre of mass of the child in the child joint frame (3,)."""


class PinocchioOracle:
    """A `newtonsim.Model` rebuilt in pinocchio, with results in our coordinates."""

    def __init__(self, model) -> None:
        self.pin = pin.Model()
        self.pin.gravity.linear = np.asarray(model.gravity, dtype=np.float64)
        self.joints: list[Joint] = []
        self.bodies: dict[int, tuple[int, pin.SE3]] = {}
        self.mass = model.body_mass.numpy().astype(np.float64)
        self.com = model.body_com.numpy().astype(np.float64)
        self.dof_count = model.joint_dof_count
        self.armature = model.joint_armature.numpy().astype(np.float64)
        self._add_tree(model)
        self.data = self.pin.createData()

    def _add_tree(self, model) -> None:
        parents, children = model.joint_parent.numpy(), model.joint_child.numpy()
        # Depth first: pinocchio requires the joints of a subtree to be contiguous.
        pending = [joint for joint in range(model.joint_count) if parents[joint] < 0]
        while pending:
            joint = pending.pop()
            self._add_joint(model, joint, int(parents[joint]), int(children[joint]))
            pending += [other for other in range(model.joint_count) if parents[other] == children[joint]]

    def _add_joint(self, model, joint: int, parent: int, child: int) -> None:
        kind = JointType(int(model.joint_type.numpy()[joint]))
        X_p, X_c = se3(model.joint_X_p.numpy()[joint]), se3(model.joint_X_c.numpy()[joint])
        parent_joint, placement = self.bodies.get(parent, (0, pin.SE3.Identity()))
        placement = placement * X_p
        nq, nv = self.pin.nq, self.pin.nv
        for part in self._parts(model, joint, kind):
            parent_joint = self.pin.addJoint(parent_joint, part, placement, f"{joint}.{self.pin.njoints}")
            placement = pin.SE3.Identity()
        placement = placement * X_c.inverse()
        inertia = pin.Inertia(
            self.mass[child],
            self.com[child],
            model.body_inertia.numpy()[child].astype(np.float64),
        )
        self.pin.appendBodyToJoint(parent_joint, inertia, placement)
        self.bodies[child] = (parent_joint, placement)
        q_start, qd_start = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
        self.joints.append(
            Joint(
                kind,
                slice(q_start[joint], q_start[joint + 1]),
                slice(qd_start[joint], qd_start[joint + 1]),
                slice(nq, self.pin.nq),
                slice(nv, self.pin.nv),
                X_p.rotation if parent < 0 else np.eye(3),
                X_c.actInv(self.com[child]),
            )
        )

    @staticmethod
    def _parts(model, joint: int, kind: JointType) -> list:
        if kind in (JointType.FREE, JointType.DISTANCE):
            return [pin.JointModelFreeFlyer()]
        if kind == JointType.BALL:
            return [pin.JointModelSpherical()]
        first = int(model.joint_axis_start.numpy()[joint])
        linear, angular = (int(n) for n in model.joint_axis_dim.numpy()[joint])
        axes = model.joint_axis.numpy()[first : first + linear + angular].astype(np.float64)
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        return [
            pin.JointModelPrismaticUnaligned(axis) if i < linear else pin.JointModelRevoluteUnaligned(axis)
            for i, axis in enumerate(axes)
        ]

    def configuration(self, joint_q: np.ndarray) -> np.ndarray:
        """Coordinates of pinocchio (nq,); both order poses (p, quaternion xyzw)."""
        q = np.zeros(self.pin.nq)
        for joint in self.joints:
            q[joint.q_pin] = joint_q[joint.q]
            if joint.kind in (JointType.FREE, JointType.DISTANCE, JointType.BALL):
                quaternion = q[joint.q_pin][-4:]
                quaternion /= np.linalg.norm(quaternion)
        return q

    def _frame(self, joint: Joint, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotation from the child joint frame to the axes of our velocity, and the COM offset there."""
        rotation = joint.rotation_axes @ pin.Quaternion(q[joint.q_pin][-4:]).matrix()
        return rotation, rotation @ joint.com

    def velocity_map(self, q: np.ndarray) -> np.ndarray:
        """T of ``v_pin = T v`` (nv, joint_dof_count)."""
        T = np.zeros((self.pin.nv, self.dof_count))
        for joint in self.joints:
            if joint.kind == JointType.BALL:
                T[joint.qd_pin, joint.qd] = pin.Quaternion(q[joint.q_pin]).matrix().T
            elif joint.kind in (JointType.FREE, JointType.DISTANCE):
                R, r = self._frame(joint, q)
                T[joint.qd_pin, joint.qd] = np.block([[R.T @ skew(r), R.T], [R.T, np.zeros((3, 3))]])
            else:
                T[joint.qd_pin, joint.qd] = np.eye(joint.qd.stop - joint.qd.start)
        return T

    def velocity_bias(self, q: np.ndarray, joint_qd: np.ndarray) -> np.ndarray:
        """Ṫ v of ``a_pin = T a + Ṫ v`` (nv,): only the linear part of free joints has one, -Rᵀ (ω × v)."""
        bias = np.zeros(self.pin.nv)
        for joint in self.joints:
            if joint.kind in (JointType.FREE, JointType.DISTANCE):
                R, _ = self._frame(joint, q)
                angular, linear = np.split(np.asarray(joint_qd[joint.qd], dtype=np.float64), 2)
                bias[joint.qd_pin][:3] = -R.T @ np.cross(angular, linear)
        return bias

    def mass_matrix(self, joint_q: np.ndarray) -> np.ndarray:
        """Joint-space inertia with armature (joint_dof_count, joint_dof_count)."""
        q = self.configuration(joint_q)
        T = self.velocity_map(q)
        M = np.triu(pin.crba(self.pin, self.data, q))
        M += np.triu(M, 1).T
        return T.T @ M @ T + np.diag(self.armature)

    def inverse_dynamics(self, joint_q, joint_qd, joint_qdd, body_f=None) -> np.ndarray:
        """Generalised forces that produce `joint_qdd` against gravity and `body_f` (joint_dof_count,)."""
        q = self.configuration(joint_q)
        T = self.velocity_map(q)
        a = T @ joint_qdd + self.velocity_bias(q, joint_qd)
        tau = T.T @ pin.rnea(self.pin, self.data, q, T @ joint_qd, a) + self.armature * joint_qdd
        for body in self.bodies if body_f is not None else ():
            tau -= self.jacobian(joint_q, body).T @ body_f[body]
        return tau

    def forward_dynamics(self, joint_q, joint_qd, joint_f, body_f=None) -> np.ndarray:
        """Accelerations under `joint_f`, gravity and `body_f` (joint_dof_count,)."""
        bias = self.inverse_dynamics(joint_q, joint_qd, np.zeros(self.dof_count), body_f)
        return np.linalg.solve(self.mass_matrix(joint_q), joint_f - bias)

    def jacobian(self, joint_q: np.ndarray, body: int) -> np.ndarray:
        """Jacobian of (ω, v of the centre of mass) of a body in world axes (6, joint_dof_count)."""
        q = self.configuration(joint_q)
        pin.computeJointJacobians(self.pin, self.data, q)
        joint, placement = self.bodies[body]
        J = np.zeros((6, self.pin.nv))
        if joint > 0:
            J = pin.getJointJacobian(self.pin, self.data, joint, pin.LOCAL_WORLD_ALIGNED)
        arm = self.data.oMi[joint].rotation @ placement.act(self.com[body])
        return np.vstack([J[3:], J[:3] - skew(arm) @ J[3:]]) @ self.velocity_map(q)

    def pose(self, joint_q: np.ndarray, body: int) -> np.ndarray:
        """Pose of a body frame (7,), quaternion xyzw."""
        pin.forwardKinematics(self.pin, self.data, self.configuration(joint_q))
        joint, placement = self.bodies[body]
        return pin.SE3ToXYZQUAT(self.data.oMi[joint] * placement)

    def kinetic_energy(self, joint_q: np.ndarray, joint_qd: np.ndarray) -> float:
        """Kinetic energy without armature [J]."""
        q = self.configuration(joint_q)
        return pin.computeKineticEnergy(self.pin, self.data, q, self.velocity_map(q) @ joint_qd)

    def _welded(self) -> list[tuple[float, np.ndarray]]:
        """Mass and centre of mass of the bodies fixed to the world, which pinocchio's totals leave out."""
        fixed = [(body, placement) for body, (joint, placement) in self.bodies.items() if joint == 0]
        return [(self.mass[body], placement.act(self.com[body])) for body, placement in fixed]

    def potential_energy(self, joint_q: np.ndarray) -> float:
        """Potential energy of gravity, zero at the origin [J]."""
        moving = pin.computePotentialEnergy(self.pin, self.data, self.configuration(joint_q))
        return moving - sum(mass * self.pin.gravity.linear @ com for mass, com in self._welded())

    def center_of_mass(self, joint_q: np.ndarray) -> np.ndarray:
        """Centre of mass of everything (3,)."""
        com = pin.centerOfMass(self.pin, self.data, self.configuration(joint_q))
        parts = [(self.data.mass[0], com), *self._welded()]
        return sum(mass * point for mass, point in parts) / sum(mass for mass, _ in parts)
