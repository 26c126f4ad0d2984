"""Scripts for PyBullet or newtonsim.pybullet_compat: each takes the module and returns what is timed.

Every function builds its scene in a fresh client and returns a function that does n units of work: a step of
a script's loop with its calls, or one call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np

Work = Callable[[int], None]

BOXES = 100
RAYS = 10_000
WIDTH, HEIGHT = 320, 240
STANDING = (0.0, 0.1, -0.6) * 4
"""Angles of the motors of the laikago [rad]."""


def falling_cube(p: ModuleType) -> Work:
    """A cube falls freely, again and again for a second."""
    cube = p.loadURDF("cube_small.urdf", [0.0, 0.0, 1.0])

    def run(n: int) -> None:
        for k in range(n):
            p.stepSimulation()
            if k % 240 == 0:
                p.resetBasePositionAndOrientation(cube, [0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0])

    return run


def resting_cube(p: ModuleType) -> Work:
    """A cube lies on a plane."""
    p.loadURDF("plane.urdf")
    p.loadURDF("cube_small.urdf", [0.0, 0.0, 0.03])
    return _steps(p)


def kuka(p: ModuleType) -> Work:
    """An arm follows targets; the loop writes all motors and reads all joints and the hand."""
    arm = p.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    joints = list(range(p.getNumJoints(arm)))
    targets = (0.3 * np.sin(_phases(len(joints)))).tolist()
    forces = [200.0] * len(joints)

    def run(n: int) -> None:
        for k in range(n):
            p.setJointMotorControlArray(
                arm, joints, p.POSITION_CONTROL, targetPositions=targets[k % len(targets)], forces=forces
            )
            p.stepSimulation()
            p.getJointStates(arm, joints)
            p.getLinkState(arm, joints[-1])

    return run


def r2d2(p: ModuleType) -> Work:
    """A robot with wheels stands on a plane; the loop reads where it is."""
    p.loadURDF("plane.urdf")
    robot = p.loadURDF("r2d2.urdf", [0.0, 0.0, 0.5])

    def run(n: int) -> None:
        for _ in range(n):
            p.stepSimulation()
            p.getBasePositionAndOrientation(robot)

    return run


def ant(p: ModuleType) -> Work:
    """A quadruped is driven by torques; the loop writes all of them and reads joints and base."""
    p.loadURDF("plane.urdf")
    robot = p.loadMJCF("mjcf/ant.xml")[-1]
    joints = _moving(p, robot)
    p.setJointMotorControlArray(robot, joints, p.VELOCITY_CONTROL, forces=[0.0] * len(joints))
    torques = (10.0 * np.sin(_phases(len(joints)))).tolist()

    def run(n: int) -> None:
        for k in range(n):
            p.setJointMotorControlArray(robot, joints, p.TORQUE_CONTROL, forces=torques[k % len(torques)])
            p.stepSimulation()
            p.getJointStates(robot, joints)
            p.getBasePositionAndOrientation(robot)
            p.getBaseVelocity(robot)

    return run


def laikago(p: ModuleType) -> Work:
    """A quadruped stands on its position motors; the loop writes and reads all of them."""
    p.loadURDF("plane.urdf")
    robot = p.loadURDF("laikago/laikago_toes.urdf", [0.0, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0])
    joints = _moving(p, robot)
    for joint, angle in zip(joints, STANDING):
        p.resetJointState(robot, joint, angle)
    forces = [40.0] * len(joints)

    def run(n: int) -> None:
        for _ in range(n):
            p.setJointMotorControlArray(
                robot, joints, p.POSITION_CONTROL, targetPositions=STANDING, forces=forces
            )
            p.stepSimulation()
            p.getJointStates(robot, joints)
            p.getBasePositionAndOrientation(robot)

    return run


def humanoid(p: ModuleType) -> Work:
    """A ragdoll with ball joints lies on a plane."""
    p.loadURDF("plane.urdf")
    robot = p.loadURDF("humanoid/humanoid.urdf", [0.0, 0.0, 1.0], globalScaling=0.25)
    for joint in range(p.getNumJoints(robot)):
        p.setJointMotorControl2(robot, joint, p.POSITION_CONTROL, force=0.0)
        if p.getJointInfo(robot, joint)[2] == p.JOINT_SPHERICAL:
            p.setJointMotorControlMultiDof(
                robot, joint, p.POSITION_CONTROL, [0.0, 0.0, 0.0, 1.0], force=[0.0, 0.0, 0.0]
            )
    return _steps(p)


def boxes(p: ModuleType) -> Work:
    """Boxes lie in a heap."""
    p.loadURDF("plane.urdf")
    shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1, 0.1, 0.1])
    random = np.random.default_rng(0)
    for k in range(BOXES):
        layer, place = divmod(k, 16)
        x, y = divmod(place, 4)
        shift = random.uniform(-0.03, 0.03, 2)
        position = [0.24 * x + shift[0], 0.24 * y + shift[1], 0.11 + 0.22 * layer]
        p.createMultiBody(1.0, shape, -1, position)
    return _steps(p)


def rays(p: ModuleType) -> Work:
    """One call for many rays from above onto a robot, cubes and a plane."""
    _many_things(p)
    x, y = np.meshgrid(np.linspace(-2.0, 2.0, 100), np.linspace(-2.0, 2.0, RAYS // 100))
    starts = np.column_stack([x.ravel(), y.ravel(), np.full(x.size, 3.0)]).tolist()
    ends = np.column_stack([x.ravel(), y.ravel(), np.full(x.size, -1.0)]).tolist()
    p.stepSimulation()

    def run(n: int) -> None:
        for _ in range(n):
            p.rayTestBatch(starts, ends)

    return run


def image(p: ModuleType) -> Work:
    """One picture of a robot, cubes and a plane, with colour, depth and segmentation."""
    _many_things(p)
    view = p.computeViewMatrix([2.0, 2.0, 1.5], [0.0, 0.0, 0.3], [0.0, 0.0, 1.0])
    projection = p.computeProjectionMatrixFOV(60.0, WIDTH / HEIGHT, 0.1, 20.0)
    p.stepSimulation()

    def run(n: int) -> None:
        for _ in range(n):
            p.getCameraImage(WIDTH, HEIGHT, view, projection, renderer=p.ER_TINY_RENDERER)

    return run


def get_base(p: ModuleType) -> Work:
    """getBasePositionAndOrientation."""
    arm, _ = _arm_at_work(p)

    def run(n: int) -> None:
        for _ in range(n):
            p.getBasePositionAndOrientation(arm)

    return run


def get_link(p: ModuleType) -> Work:
    """getLinkState."""
    arm, joints = _arm_at_work(p)
    last = joints[-1]

    def run(n: int) -> None:
        for _ in range(n):
            p.getLinkState(arm, last)

    return run


def get_joint(p: ModuleType) -> Work:
    """getJointState."""
    arm, joints = _arm_at_work(p)
    last = joints[-1]

    def run(n: int) -> None:
        for _ in range(n):
            p.getJointState(arm, last)

    return run


def get_joints(p: ModuleType) -> Work:
    """getJointStates of seven joints."""
    arm, joints = _arm_at_work(p)

    def run(n: int) -> None:
        for _ in range(n):
            p.getJointStates(arm, joints)

    return run


def set_joint(p: ModuleType) -> Work:
    """setJointMotorControl2 in position control."""
    arm, joints = _arm_at_work(p)
    last = joints[-1]

    def run(n: int) -> None:
        for _ in range(n):
            p.setJointMotorControl2(arm, last, p.POSITION_CONTROL, 0.3, force=200.0)

    return run


def single_ray(p: ModuleType) -> Work:
    """rayTest from above onto a robot."""
    _many_things(p)
    p.stepSimulation()

    def run(n: int) -> None:
        for _ in range(n):
            p.rayTest([0.0, 0.0, 3.0], [0.0, 0.0, -1.0])

    return run


def contact_points(p: ModuleType) -> Work:
    """A step of a robot and cubes on a plane, and getContactPoints of all that touches."""
    _many_things(p)

    def run(n: int) -> None:
        for _ in range(n):
            p.stepSimulation()
            p.getContactPoints()

    return run


def inverse_kinematics(p: ModuleType) -> Work:
    """calculateInverseKinematics of an arm."""
    arm, joints = _arm_at_work(p)

    def run(n: int) -> None:
        for _ in range(n):
            p.calculateInverseKinematics(arm, joints[-1], [0.4, 0.2, 0.6])

    return run


def inverse_dynamics(p: ModuleType) -> Work:
    """calculateInverseDynamics of an arm."""
    arm, joints = _arm_at_work(p)
    angles, rates = [0.1] * len(joints), [0.2] * len(joints)

    def run(n: int) -> None:
        for _ in range(n):
            p.calculateInverseDynamics(arm, angles, rates, rates)

    return run


def jacobian(p: ModuleType) -> Work:
    """calculateJacobian of the last link of an arm."""
    arm, joints = _arm_at_work(p)
    angles, rates = [0.1] * len(joints), [0.2] * len(joints)

    def run(n: int) -> None:
        for _ in range(n):
            p.calculateJacobian(arm, joints[-1], [0.0, 0.0, 0.0], angles, rates, rates)

    return run


def mass_matrix(p: ModuleType) -> Work:
    """calculateMassMatrix of an arm."""
    arm, joints = _arm_at_work(p)
    angles = [0.1] * len(joints)

    def run(n: int) -> None:
        for _ in range(n):
            p.calculateMassMatrix(arm, angles)

    return run


def load_robot(p: ModuleType) -> Work:
    """An empty world, a plane and a robot, and its first step; its files were read before."""

    def run(n: int) -> None:
        for _ in range(n):
            p.resetSimulation()
            p.loadURDF("plane.urdf")
            p.loadURDF("r2d2.urdf", [0.0, 0.0, 0.5])
            p.stepSimulation()

    return run


def reset_scene(p: ModuleType) -> Work:
    """An empty world, a plane and a box, and its first step."""

    def run(n: int) -> None:
        for _ in range(n):
            p.resetSimulation()
            p.setGravity(0.0, 0.0, -9.81)
            p.loadURDF("plane.urdf")
            box = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.05, 0.05, 0.05])
            p.createMultiBody(1.0, box, -1, [0.0, 0.0, 0.5])
            p.stepSimulation()

    return run


def restore_state(p: ModuleType) -> Work:
    """A robot and cubes go back to a state, and make a step."""
    _many_things(p)
    p.stepSimulation()
    state = p.saveState()

    def run(n: int) -> None:
        for _ in range(n):
            p.restoreState(state)
            p.stepSimulation()

    return run


def constrain(p: ModuleType) -> Work:
    """A cube beside a robot and other cubes is held and let go, with a step after each."""
    _many_things(p)
    cube = p.getBodyUniqueId(p.getNumBodies() - 1)

    def run(n: int) -> None:
        for _ in range(n):
            hold = p.createConstraint(
                cube, -1, -1, -1, p.JOINT_FIXED, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.8, 0.0, 0.03]
            )
            p.stepSimulation()
            p.removeConstraint(hold)
            p.stepSimulation()

    return run


def spawn_box(p: ModuleType) -> Work:
    """A box is made in a world of a robot and cubes and taken away again, with a step after each."""
    _many_things(p)
    shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.05, 0.05, 0.05])

    def run(n: int) -> None:
        for _ in range(n):
            box = p.createMultiBody(1.0, shape, -1, [2.0, 2.0, 0.5])
            p.stepSimulation()
            p.removeBody(box)
            p.stepSimulation()

    return run


def spawn_and_play(p: ModuleType) -> Work:
    """A cube is loaded above a plane, falls for 24 steps, and is taken away."""
    p.loadURDF("plane.urdf")

    def run(n: int) -> None:
        for _ in range(n):
            cube = p.loadURDF("cube_small.urdf", [0.0, 0.0, 0.5])
            for _ in range(24):
                p.stepSimulation()
            p.removeBody(cube)

    return run


def add_body(p: ModuleType) -> Work:
    """A cube is put into a world of a robot and cubes and taken away again, with a step after each."""
    _many_things(p)

    def run(n: int) -> None:
        for _ in range(n):
            cube = p.loadURDF("cube_small.urdf", [2.0, 2.0, 0.5])
            p.stepSimulation()
            p.removeBody(cube)
            p.stepSimulation()

    return run


SCENES: dict[str, tuple[Callable[[ModuleType], Work], float]] = {
    "falling cube": (falling_cube, 0.0),
    "resting cube": (resting_cube, 1.0),
    "kuka": (kuka, 1.0),
    "r2d2": (r2d2, 2.0),
    "ant": (ant, 2.0),
    "laikago": (laikago, 2.0),
    "humanoid": (humanoid, 3.0),
    "100 boxes": (boxes, 2.0),
    "10 000 rays": (rays, 0.0),
    "image": (image, 0.0),
    "getBasePositionAndOrientation": (get_base, 0.0),
    "getLinkState": (get_link, 0.0),
    "getJointState": (get_joint, 0.0),
    "getJointStates of 7": (get_joints, 0.0),
    "setJointMotorControl2": (set_joint, 0.0),
    "rayTest": (single_ray, 0.0),
    "a step and getContactPoints": (contact_points, 1.0),
    "calculateInverseKinematics": (inverse_kinematics, 0.0),
    "calculateInverseDynamics": (inverse_dynamics, 0.0),
    "calculateJacobian": (jacobian, 0.0),
    "calculateMassMatrix": (mass_matrix, 0.0),
    "load r2d2": (load_robot, 0.0),
    "add and remove a cube": (add_body, 0.0),
    "make and remove a box": (spawn_box, 0.0),
    "a cube and 24 steps": (spawn_and_play, 0.0),
    "make and remove a constraint": (constrain, 0.0),
    "reset, plane and box": (reset_scene, 0.0),
    "restoreState and a step": (restore_state, 0.0),
}
"""Scenes with the time that they settle before they are measured [s]."""


def _steps(p: ModuleType) -> Work:
    def run(n: int) -> None:
        for _ in range(n):
            p.stepSimulation()

    return run


def _phases(joints: int) -> np.ndarray:
    """Phases of a smooth command of every joint over one second (240, joints) [rad]."""
    return np.arange(240)[:, None] * (2.0 * np.pi / 240.0) + np.arange(joints)[None, :]


def _moving(p: ModuleType, robot: int) -> list[int]:
    """Return the joints with one degree of freedom."""
    single = (p.JOINT_REVOLUTE, p.JOINT_PRISMATIC)
    return [j for j in range(p.getNumJoints(robot)) if p.getJointInfo(robot, j)[2] in single]


def _arm_at_work(p: ModuleType) -> tuple[int, list[int]]:
    arm = p.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    p.stepSimulation()
    return arm, list(range(p.getNumJoints(arm)))


def _many_things(p: ModuleType) -> None:
    p.loadURDF("plane.urdf")
    p.loadURDF("r2d2.urdf", [0.0, 0.0, 0.5])
    for k in range(5):
        p.loadURDF("cube_small.urdf", [0.8 * math.cos(k), 0.8 * math.sin(k), 0.03])
