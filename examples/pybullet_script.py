"""A typical PyBullet script: an arm sweeps its hand along an arc and knocks a tower over.

Only the imports differ from those for PyBullet; ``newtonsim pybullet`` runs scripts with their own imports.
Run it with ``python -m newtonsim.examples pybullet_script``.
"""

import math

import newtonsim.pybullet_compat as p
from newtonsim.pybullet_compat.stand_ins import pybullet_data

HAND, REACH, HEIGHT = 6, 0.6, 0.25
"""Last link of the arm, radius of the arc and its height [m]."""
CUBES, SIDE = 8, 0.05


def main() -> None:
    """Swing from one side to the other in three seconds, and count the cubes that fell."""
    p.connect(p.DIRECT)
    p.setAdditionalSearchPath(pybullet_data.getDataPath())
    p.setGravity(0, 0, -9.81)
    p.loadURDF("plane.urdf")
    arm = p.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    tower = [p.loadURDF("cube_small.urdf", [REACH, 0.0, (k + 0.5) * SIDE]) for k in range(CUBES)]
    down = p.getQuaternionFromEuler([0.0, math.pi, 0.0])
    for step in range(720):
        angle = -0.9 * math.cos(math.pi * step / 720)
        goal = [REACH * math.cos(angle), REACH * math.sin(angle), HEIGHT]
        angles = p.calculateInverseKinematics(arm, HAND, goal, down)
        p.setJointMotorControlArray(arm, range(7), p.POSITION_CONTROL, angles, forces=[200.0] * 7)
        p.stepSimulation()
    hand, _ = p.getLinkState(arm, HAND)[:2]
    away = math.dist(hand, goal)
    heights = [p.getBasePositionAndOrientation(cube)[0][2] for cube in tower]
    low = sum(height < 1.5 * SIDE for height in heights)
    print(f"the hand ends {100.0 * away:.1f} cm from its goal, {low} of {CUBES} cubes lie on the ground")
    assert away < 0.03, "the hand should follow the arc"
    assert low > CUBES // 2, "the tower should fall"


if __name__ == "__main__":
    main()
