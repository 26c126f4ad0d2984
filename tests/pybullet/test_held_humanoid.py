"""PyBullet's humanoid stands on the plane, held by the motors of all its joints: it must come to rest."""

import math

import numpy as np
import pybullet_data

import newtonsim.pybullet_compat as p


def test_a_humanoid_held_by_its_motors_comes_to_rest():
    """34 degrees of freedom, closed in a loop by the ground; PyBullet's own moves at 6 mm/s after 4 s."""
    client = p.connect(p.DIRECT)
    try:
        p.setAdditionalSearchPath(pybullet_data.getDataPath())
        p.setGravity(0.0, 0.0, -9.8)
        p.loadURDF("plane.urdf")
        upright = p.getQuaternionFromEuler([math.pi / 2, 0.0, 0.0])
        body = p.loadURDF("humanoid/humanoid.urdf", [0.0, 0.0, 0.9], upright, globalScaling=0.25)
        for joint in range(p.getNumJoints(body)):
            kind = p.getJointInfo(body, joint)[2]
            if kind == p.JOINT_SPHERICAL:
                still = dict(targetPosition=[0, 0, 0, 1], targetVelocity=[0, 0, 0], positionGain=0.2)
                p.setJointMotorControlMultiDof(body, joint, p.POSITION_CONTROL, force=[150] * 3, **still)
            elif kind == p.JOINT_REVOLUTE:
                p.setJointMotorControl2(body, joint, p.POSITION_CONTROL, 0.0, positionGain=0.2, force=150)
        for _ in range(960):
            p.stepSimulation()
        position, turn = p.getBasePositionAndOrientation(body)
        velocity, spin = p.getBaseVelocity(body)
        assert np.linalg.norm(velocity) < 5.0e-4
        assert np.linalg.norm(spin) < 5.0e-4
        assert math.hypot(*position[:2]) < 3.0e-4
        assert abs(np.dot(turn, upright)) > 1.0 - 1.0e-7
    finally:
        p.disconnect(client)
