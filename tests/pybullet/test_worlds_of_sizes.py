"""Masses of createMultiBody and scales of loadURDF that differ between worlds, each as in PyBullet."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")
import pybullet_data  # noqa: E402
from pybullet_utils.bullet_client import BulletClient as RealClient  # noqa: E402

import newtonsim.pybullet_compat as p  # noqa: E402
from newtonsim.pybullet_compat.bullet_client import BulletClient  # noqa: E402

W = 3
FREE = [0.0, 0.0, 0.0, 1.0]
MASSES = np.array([0.5, 2.0, 30.0])
SCALES = np.array([1.0, 0.4, 2.5])


@pytest.fixture
def sim():
    client = BulletClient(p.DIRECT, num_worlds=W)
    yield client
    client.disconnect()


def hit_bodies(client, pick) -> list:
    """What a client says of a box and a pendulum of the picked masses that are hit."""
    box = client.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1, 0.2, 0.3])
    free = client.createMultiBody(pick(MASSES), box, -1, [0.0, 0.0, 5.0])
    hung = client.createMultiBody(
        linkMasses=[pick(MASSES), 1.0],
        linkCollisionShapeIndices=[box, -1],
        linkVisualShapeIndices=[-1, -1],
        linkPositions=[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
        linkOrientations=[FREE] * 2,
        linkInertialFramePositions=[[0.0, 0.0, -0.5]] * 2,
        linkInertialFrameOrientations=[FREE] * 2,
        linkParentIndices=[0, 1],
        linkJointTypes=[p.JOINT_REVOLUTE, p.JOINT_FIXED],
        linkJointAxis=[[1.0, 0.0, 0.0]] * 2,
    )
    client.setJointMotorControl2(hung, 0, p.VELOCITY_CONTROL, force=0.0)
    client.setGravity(0.0, 0.0, -9.81)
    for _ in range(5):
        client.applyExternalForce(free, -1, [10.0, 0.0, 0.0], [0.0, 0.0, 0.1], p.LINK_FRAME)
        client.applyExternalForce(hung, 0, [0.0, 20.0, 0.0], [0.0, 0.0, 0.1], p.LINK_FRAME)
        client.stepSimulation()
    told = [client.getDynamicsInfo(body, link)[k] for body, link in ((free, -1), (hung, 0)) for k in (0, 2)]
    return [*told, *client.getBaseVelocity(free), client.getJointState(hung, 0)[1]]


def fall(client, pick, name: str) -> list:
    """What a client says of a body of the picked scales that falls onto a plane and is pushed there."""
    client.setAdditionalSearchPath(pybullet_data.getDataPath())
    client.setGravity(0.0, 0.0, -9.81)
    client.loadURDF("plane.urdf")
    body = client.loadURDF(name, [0.0, 0.0, 1.5], globalScaling=pick(SCALES))
    told = [client.getDynamicsInfo(body, -1)[2], *client.getAABB(body)]
    for _ in range(240):
        client.stepSimulation()
    told += [client.getBasePositionAndOrientation(body)[0], *client.getAABB(body)]
    client.applyExternalTorque(body, -1, [0.0, 0.0, 1.0], p.WORLD_FRAME)
    client.stepSimulation()
    return told


def compare_worlds(several, act, tolerance: float) -> None:
    """Compare each world with one of PyBullet that has its number alone."""
    for world in range(W):
        single = RealClient(pybullet.DIRECT)
        try:
            alone = act(single, lambda values, world=world: float(values[world]))
        finally:
            single.disconnect()
        for found, expected in zip(several, alone, strict=True):
            np.testing.assert_allclose(
                np.asarray(found)[world], np.asarray(expected), rtol=1e-4, atol=tolerance
            )


def test_masses_of_worlds(sim):
    compare_worlds(hit_bodies(sim, lambda values: values), hit_bodies, tolerance=1e-5)


@pytest.mark.parametrize("name", ["cube_small.urdf", "sphere_small.urdf", "cube.urdf"])
def test_scales_of_worlds(sim, name):
    act = lambda client, pick: fall(client, pick, name)  # noqa: E731
    compare_worlds(act(sim, lambda values: values), act, tolerance=2e-4)


def test_bodies_come_after_others_of_the_same_kind(sim):
    """Which leave a slot in the engine, for one mass in all worlds."""
    box = sim.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1] * 3)
    sim.removeBody(sim.createMultiBody(1.0, box))
    sim.stepSimulation()
    for _ in range(2):
        body = sim.createMultiBody(MASSES, box)
        assert sim.getDynamicsInfo(body, -1)[0].tolist() == MASSES.tolist()
        sim.applyExternalForce(body, -1, [240.0, 0.0, 0.0], [0.0, 0.0, 0.0], p.WORLD_FRAME)
        sim.stepSimulation()
        np.testing.assert_allclose(sim.getBaseVelocity(body)[0][:, 0], 1.0 / MASSES, rtol=1e-5)
        sim.removeBody(body)


REFUSED = {
    "baseMass": lambda s: s.createMultiBody(np.ones(W + 1)),
    "linkMasses": lambda s: s.createMultiBody(1.0, linkMasses=[np.ones(W + 1)], **s.link),
    "globalScaling": lambda s: s.loadURDF("cube_small.urdf", globalScaling=np.ones((W, 1))),
}
NOT_ALIKE = {
    "baseMass": lambda s: s.createMultiBody(np.array([1.0, 0.0, 1.0])),
    "linkMasses": lambda s: s.createMultiBody(1.0, linkMasses=[np.array([1.0, 0.0, 1.0])], **s.link),
    "globalScaling: a body of several links": lambda s: s.loadURDF("r2d2.urdf", globalScaling=SCALES),
    "globalScaling: shapes other than": lambda s: s.loadURDF("teddy_vhacd.urdf", globalScaling=SCALES),
}
LINK = {
    "linkCollisionShapeIndices": [-1],
    "linkVisualShapeIndices": [-1],
    "linkPositions": [[0.0, 0.0, 1.0]],
    "linkOrientations": [FREE],
    "linkInertialFramePositions": [[0.0, 0.0, 0.0]],
    "linkInertialFrameOrientations": [FREE],
    "linkParentIndices": [0],
    "linkJointTypes": [p.JOINT_REVOLUTE],
    "linkJointAxis": [[1.0, 0.0, 0.0]],
}


def test_what_is_refused_is_named_and_changes_nothing(sim):
    sim.setAdditionalSearchPath(pybullet_data.getDataPath())
    sim.link = LINK
    shape = rf"expected a number, or one for each world in shape \({W},\)"
    for name, call in REFUSED.items():
        with pytest.raises(p.error, match=f"{name}: {shape}"):
            call(sim)
    for name, call in NOT_ALIKE.items():
        with pytest.raises(p.error, match=name):
            call(sim)
    assert sim.getNumBodies() == 0
    sim.stepSimulation()
