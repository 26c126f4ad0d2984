"""Sensors in joints, whose readings follow PyBullet's law: `kernels/queries/joint_sensors.py`."""

import numpy as np
import pytest

pytest.importorskip("pybullet")

from pybullet_both import Both

import newtonsim.pybullet_compat as p

TURNING, SLIDING, FIXED = p.JOINT_REVOLUTE, p.JOINT_PRISMATIC, p.JOINT_FIXED
UPRIGHT = [0.0, 0.0, 0.0, 1.0]
CHAINS = {
    "turning": [TURNING] * 3,
    "sliding": [SLIDING] * 3,
    "mixed": [TURNING, SLIDING, FIXED, TURNING],
    "behind a ball": [TURNING, p.JOINT_SPHERICAL, SLIDING],
}


def solved(both: Both) -> None:
    """Have PyBullet solve for the impulses of all motors, which its 50 sweeps leave unfinished."""
    both.setPhysicsEngineParameter(numSolverIterations=2000, solverResidualThreshold=0.0)


def moving_chain(both: Both, kinds: list[int], seed: int, mass: float, damping: float) -> int:
    """A chain whose base and joints move, some of them by motors; its links do not collide."""
    rng, count = np.random.default_rng(seed), len(kinds)
    shape = both.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1, 0.15, 0.2])[0]
    links = {
        "linkMasses": rng.uniform(0.5, 2.0, count).tolist(),
        "linkCollisionShapeIndices": [shape] * count,
        "linkVisualShapeIndices": [-1] * count,
        "linkPositions": rng.uniform(-0.5, 0.5, (count, 3)).tolist(),
        "linkOrientations": [UPRIGHT] * count,
        "linkInertialFramePositions": rng.uniform(-0.3, 0.3, (count, 3)).tolist(),
        "linkInertialFrameOrientations": [UPRIGHT] * count,
        "linkParentIndices": list(range(count)),
        "linkJointTypes": kinds,
        "linkJointAxis": np.eye(3)[rng.integers(0, 3, count)].tolist(),
    }
    chain = both.createMultiBody(mass, shape, -1, [0, 0, 1], **links)[0]
    for link in range(-1, count):
        both.changeDynamics(chain, link, linearDamping=damping, angularDamping=damping)
        both.setCollisionFilterGroupMask(chain, link, 0, 0)
    if mass:
        turn = rng.normal(size=4)
        both.resetBasePositionAndOrientation(chain, [0, 0, 1], turn / np.linalg.norm(turn))
        both.resetBaseVelocity(chain, rng.uniform(-2, 2, 3), rng.uniform(-2, 2, 3))
    for joint, kind in enumerate(kinds):
        both.enableJointForceTorqueSensor(chain, joint)
        if kind in (TURNING, SLIDING):
            both.changeDynamics(chain, joint, jointDamping=0.0)
            both.resetJointState(chain, joint, rng.uniform(-0.5, 0.5), rng.uniform(-2, 2))
            speed, force = rng.uniform(-2, 2), rng.choice([0.0, 3.0, 1000.0])
            both.setJointMotorControl2(chain, joint, p.VELOCITY_CONTROL, targetVelocity=speed, force=force)
    return chain


def assert_readings_agree(both: Both, body: int, tolerance: float) -> None:
    """All readings of a body, relative to the largest of them."""
    count = both.getNumJoints(body)[0]
    states = [both.getJointStateMultiDof(body, joint) for joint in range(count)]
    real, ours = (np.array([state[side][2] for state in states]) for side in (0, 1))
    assert np.abs(real).max() > 0.1
    assert np.abs(ours - real).max() < tolerance * (1.0 + np.abs(real).max())


@pytest.mark.parametrize("mass", [0.0, 1.3], ids=["fixed base", "free base"])
@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("kinds", CHAINS.values(), ids=CHAINS)
def test_chains_that_move(both, kinds, damping, mass):
    """Velocity products, the velocity of the base and damping count twice; motors of sliders lack moments.

    Forces are differences of velocities in single precision over 1/240 s: 1e-3 of the largest.
    """
    solved(both)
    for seed in range(3):
        chain = moving_chain(both, kinds, seed, mass, damping)
        both.applyExternalForce(chain, len(kinds) - 1, [3, 4, 5], [0.1, 0.2, 0.3], p.LINK_FRAME)
        both.step()
        assert_readings_agree(both, chain, 1e-3)
        both.removeBody(chain)


LIMITED = """<robot name="r"><link name="a"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="b"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="c"><inertial><origin xyz="0.3 0 0.1"/><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint>
<joint name="k" type="{kind}"><parent link="b"/><child link="c"/><origin xyz="0.2 0.3 0"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="0" effort="100" velocity="10"/></joint></robot>"""


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_joints_at_their_limits(both, tmp_path, kind):
    """What a limit bears is no more part of a reading than what a motor bears."""
    path = tmp_path / "limited.urdf"
    path.write_text(LIMITED.format(kind=kind))
    both.setGravity(0.0, 10.0, -10.0)
    robot = both.load(str(path), useFixedBase=True, flags=p.URDF_USE_INERTIA_FROM_FILE)
    both.setJointMotorControl2(robot, 1, p.VELOCITY_CONTROL, force=0)
    for joint in range(2):
        both.enableJointForceTorqueSensor(robot, joint)
    both.step(3)
    assert_readings_agree(both, robot, 1e-4)


def test_chains_that_are_held_by_a_constraint(both):
    """The force of a constraint acts on links as it does in the world."""
    solved(both)
    chain = moving_chain(both, [TURNING, SLIDING], 5, 1.3, 0.04)
    end = both.getLinkState(chain, 1, computeForwardKinematics=1)[0][0]
    both.createConstraint(chain, 1, -1, -1, p.JOINT_POINT2POINT, [0, 0, 0], [0, 0, 0], end)
    both.step()
    assert_readings_agree(both, chain, 5e-3)


def test_a_ball_on_a_slider_that_meets_the_ground(both):
    """A contact acts on links as it does in the world."""
    both.load("plane.urdf")
    shape = both.createCollisionShape(p.GEOM_SPHERE, radius=0.1)[0]
    robot = both.createMultiBody(
        0.0,
        -1,
        -1,
        [0, 0, 0.5],
        linkMasses=[1.0, 0.5],
        linkCollisionShapeIndices=[-1, shape],
        linkVisualShapeIndices=[-1, -1],
        linkPositions=[[0, 0, 0], [0.3, 0, -0.3999]],
        linkOrientations=[UPRIGHT] * 2,
        linkInertialFramePositions=[[0.0, 0.0, 0.0]] * 2,
        linkInertialFrameOrientations=[UPRIGHT] * 2,
        linkParentIndices=[0, 1],
        linkJointTypes=[SLIDING, SLIDING],
        linkJointAxis=[[0, 0, 1], [1, 0, 0]],
    )[0]
    for joint in range(2):
        both.setJointMotorControl2(robot, joint, p.VELOCITY_CONTROL, force=0)
        both.enableJointForceTorqueSensor(robot, joint)
    both.step(20)
    assert_readings_agree(both, robot, 1e-3)


@pytest.mark.parametrize("substeps", [1, 4])
def test_sensors_in_substeps(both, substeps):
    """A reading is that of the last substep, beside a motor too."""
    solved(both)
    both.setPhysicsEngineParameter(numSubSteps=substeps)
    chain = moving_chain(both, [TURNING, SLIDING], 3, 0.0, 0.04)
    both.step(2)
    assert_readings_agree(both, chain, 1e-3)


@pytest.mark.parametrize(
    "change",
    [
        lambda both, chain: both.setGravity(0.0, 3.0, -1.0),
        lambda both, chain: both.changeDynamics(chain, 1, mass=7.0),
        lambda both, chain: both.changeDynamics(chain, -1, linearDamping=3.0, angularDamping=2.0),
        lambda both, chain: both.changeDynamics(chain, 1, jointDamping=4.0),
        lambda both, chain: both.setJointMotorControl2(chain, 1, p.VELOCITY_CONTROL, force=80.0),
        lambda both, chain: both.resetJointState(chain, 0, 1.2, 3.0),
        lambda both, chain: (both.resetJointState(chain, 0, 1.2, 3.0), both.rayTest([0, 0, 9], [0, 0, -9])),
    ],
    ids=["gravity", "mass", "damping", "joint damping", "motor", "joint", "joint and ray"],
)
def test_readings_are_those_of_the_last_step(both, change):
    """What is changed after a step has no effect on what was measured in it."""
    solved(both)
    chain = moving_chain(both, [TURNING, SLIDING], 3, 0.0, 0.04)
    both.step(2)
    change(both, chain)
    assert_readings_agree(both, chain, 1e-3)


def test_many_worlds_read_what_one_does():
    readings = []
    for worlds in (1, 3):
        client = p.connect(p.DIRECT, options=f"--num_worlds={worlds}")
        arm = p.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True, physicsClientId=client)
        p.enableJointForceTorqueSensor(arm, 3, physicsClientId=client)
        p.resetJointState(arm, 1, 0.5, 2.0, physicsClientId=client)
        p.setJointMotorControl2(arm, 1, p.VELOCITY_CONTROL, force=0, physicsClientId=client)
        p.stepSimulation(physicsClientId=client)
        reading = p.getJointState(arm, 3, physicsClientId=client)[2]
        readings.append(np.array(reading).reshape(-1, 6))
        p.disconnect(client)
    one, three = readings
    np.testing.assert_allclose(three, np.repeat(one, 3, axis=0), atol=1e-4)
