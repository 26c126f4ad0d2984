"""Kinematics of the API: inverse dynamics, Jacobian, mass matrix, inverse kinematics."""

from newtonsim.pybullet_compat.kinematics.api import (
    calculateInverseDynamics,
    calculateInverseKinematics,
    calculateInverseKinematics2,
    calculateJacobian,
    calculateMassMatrix,
)

__all__ = [
    "calculateInverseDynamics",
    "calculateInverseKinematics",
    "calculateInverseKinematics2",
    "calculateJacobian",
    "calculateMassMatrix",
]
