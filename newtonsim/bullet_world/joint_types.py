"""Types of joints."""

from enum import IntEnum

import newtonsim.pybullet_compat as p


class JointType(IntEnum):
    """Types of joints, with PyBullet's numbers."""

    REVOLUTE = p.JOINT_REVOLUTE
    PRISMATIC = p.JOINT_PRISMATIC
    SPHERICAL = p.JOINT_SPHERICAL
    PLANAR = p.JOINT_PLANAR
    FIXED = p.JOINT_FIXED


ONE_COORDINATE = (JointType.REVOLUTE, JointType.PRISMATIC)
