"""Which functions take `worlds`, by what they are called; and what their errors say."""

import inspect

import numpy as np
import pytest

import newtonsim.pybullet_compat as p
from newtonsim.pybullet_compat.api.functions import signature
from newtonsim.pybullet_compat.bullet_client import BulletClient
from newtonsim.pybullet_compat.stand_ins.pybullet_data import getDataPath
from newtonsim.pybullet_compat.surface.signatures import GETTERS, PER_WORLD, SETTERS, SIGNATURES

W = 3
OF_ALL = {
    **dict.fromkeys(("setTimeStep", "setTimeOut", "setDefaultContactERP"), "one clock and one solver"),
    **dict.fromkeys(("setPhysicsEngineParameter", "setInternalSimFlags"), "one solver"),
    **dict.fromkeys(("setRealTimeSimulation", "resetSimulation"), "the client itself"),
    "setAdditionalSearchPath": "files",
    **dict.fromkeys(("setCollisionFilterPair", "setCollisionFilterGroupMask"), "one structure"),
    **dict.fromkeys(("changeVisualShape", "resetVisualShapeData", "changeTexture"), "what is seen"),
    **dict.fromkeys(("setDebugObjectColor", "resetDebugVisualizerCamera", "setVRCameraState"), "windows"),
    "resetMeshData": "whole meshes, by world in the array",
}
"""Setters that are about the client as a whole, and why."""


def begins(*words: str) -> set[str]:
    """Functions whose names begin so."""
    return {name for name in SIGNATURES if name.startswith(words)}


def test_every_setter_takes_worlds_or_is_about_all():
    setters = begins("set", "reset", "change", "apply")
    assert setters - set(OF_ALL) == SETTERS
    assert set(OF_ALL) <= setters


def test_getters_of_states_take_worlds():
    states = begins("getBase", "getJointState", "getLinkState", "getConstraintState", "getContact", "rayTest")
    states |= {"getAABB", "getClosestPoints", "getDynamicsInfo", "getOverlappingObjects"}
    assert states <= GETTERS


@pytest.mark.parametrize("name", sorted(SETTERS | GETTERS))
def test_signatures_do_not_differ_from_those_of_pybullet(name):
    """`worlds` is a keyword beyond them, in clients of one world too."""
    known = [parameter.name for parameter in SIGNATURES[name].parameters]
    assert list(signature(name).parameters) == [*known, "physicsClientId"]
    client = BulletClient(p.DIRECT)
    with pytest.raises(p.error, match="worlds: expected an index or indices of the only world, 0"):
        getattr(client, name)(*arguments(name), worlds=5)
    client.disconnect()


@pytest.mark.parametrize("name", sorted(set(PER_WORLD) & SETTERS))
def test_numbers_of_another_count_are_named(name):
    """Each number that may differ between worlds: its name and its possible shapes are said."""
    client = BulletClient(p.DIRECT, num_worlds=W)
    client.setAdditionalSearchPath(getDataPath())
    client.loadURDF("cartpole.urdf")
    client.createConstraint(0, 0, -1, -1, p.JOINT_POINT2POINT, [0] * 3, [0] * 3, [0] * 3)
    for parameter in sorted(PER_WORLD[name]):
        given = dict(zip([x.name for x in required(name)], arguments(name)))
        with pytest.raises(p.error, match=rf"{parameter}.*\({W},\)"):
            getattr(client, name)(**{**given, parameter: np.ones(W + 1)})
    client.disconnect()


def required(name: str) -> list:
    """Parameters without defaults."""
    return [parameter for parameter in SIGNATURES[name].parameters if parameter.default is None]


def arguments(name: str) -> list:
    """Something of the right type for each required argument: the first body, its first joint, vectors."""
    found = {"i": 0, "d": 0.5, "s": "", "O": [0.0, 0.0, 0.0]}
    special = {"userConstraintUniqueId": 1, "constraintUniqueId": 1, "controlMode": p.VELOCITY_CONTROL}
    return [special.get(x.name, found[x.kind]) for x in required(name)]


def test_methods_beyond_pybullet_are_documented_and_listed():
    client = BulletClient(p.DIRECT, num_worlds=W)
    beyond = [name for name in dir(client) if not name.startswith("_") and not hasattr(p, name)]
    assert {"advance", "resetWorlds", "restore_worlds", "surround", "model", "state", "solver"} <= set(beyond)
    for name in beyond:
        attribute = inspect.getattr_static(type(client), name, None) or getattr(client, name)
        assert callable(attribute) is False or inspect.getdoc(attribute), name
    client.disconnect()


def played(count: int) -> dict[str, list]:
    """What a scene with something of everything answers in a client of so many worlds."""
    sim = BulletClient(p.DIRECT, num_worlds=count)
    sim.setAdditionalSearchPath(getDataPath())
    sim.setGravity(0.0, 0.0, -9.81)
    sim.loadURDF("plane.urdf")
    arm = sim.loadURDF("kuka_iiwa/model.urdf", [0, 0, 0.1], useFixedBase=True)
    box = sim.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1, 0.2, 0.05])
    boxes = [sim.createMultiBody(1.0, box, -1, [2.0, k, 1.0], [0.1, 0.2, 0.3, 0.9]) for k in range(4)]
    ball = sim.createMultiBody(
        linkMasses=[1.0],
        linkCollisionShapeIndices=[box],
        linkVisualShapeIndices=[-1],
        linkPositions=[[0, 5, 3]],
        linkOrientations=[[0, 0, 0, 1]],
        linkInertialFramePositions=[[0, 0, 0]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]],
        linkParentIndices=[0],
        linkJointTypes=[p.JOINT_SPHERICAL],
        linkJointAxis=[[0, 0, 1]],
    )
    sim.resetJointState(arm, 1, 0.9)
    sim.enableJointForceTorqueSensor(arm, 1)
    sim.enableJointForceTorqueSensor(arm, 5)
    kinds = (p.JOINT_FIXED, p.JOINT_POINT2POINT, p.JOINT_PRISMATIC)
    ties = [
        sim.createConstraint(body, -1, -1, -1, kind, [1, 2, 0], [0.1, 0, 0], [2, k, 1.1], [0, 0, 0.6, 0.8])
        for k, (body, kind) in enumerate(zip(boxes, kinds))
    ]
    sim.stepSimulation()
    sim.changeDynamics(arm, 4, mass=2.5, jointDamping=0.3, jointLowerLimit=-0.4, jointUpperLimit=0.2)
    sim.changeDynamics(
        boxes[3], -1, localInertiaDiagonal=[0.1, 0.0, 0.3], lateralFriction=0.2, restitution=0.4
    )
    sim.changeDynamics(boxes[0], -1, mass=3.0, angularDamping=0.5, maxJointVelocity=2.0)
    sim.changeConstraint(
        ties[0], jointChildPivot=[2.0, 0.1, 1.0], jointChildFrameOrientation=[0, 0.6, 0, 0.8]
    )
    sim.changeConstraint(ties[1], jointChildPivot=[2.1, 1.0, 1.2], maxForce=30.0)
    sim.resetBaseVelocity(boxes[3], [0.5, 0.0, 0.2], [1.0, 2.0, 3.0])
    sim.resetJointStateMultiDof(ball, 0, [0.0, 0.6, 0.0, 1.6], [0.3, 0.1, -0.2])
    found: dict[str, list] = {name: [] for name in ("joint", "ball", "tie", "base", "box", "ray")}
    for k in range(6):
        for flags in (p.WORLD_FRAME, p.LINK_FRAME):
            sim.applyExternalForce(boxes[3], -1, [1.0, -2.0, k], [2.1, 3.0, 1.0], flags)
            sim.applyExternalForce(arm, 3, [3.0, k, 0.5], [0.1, 0.2, 0.3], flags)
            sim.applyExternalTorque(ball, 0, [0.1, 0.2, 0.3], flags)
        sim.stepSimulation()
        found["joint"].append([sim.getJointState(arm, joint) for joint in (1, 4, 5)])
        found["ball"].append(sim.getJointStateMultiDof(ball, 0))
        found["tie"].append([sim.getConstraintState(tie) for tie in ties])
        found["base"].append([sim.getBaseVelocity(body) for body in boxes])
        found["box"].append(sim.getAABB(boxes[3]))
        starts, ends = [[-0.1, 0, 2], [0, 0, 2], [9, 9, 2]], [[-0.1, 0, -1], [0, 0, -1], [9, 9, 1]]
        parent = {"parentObjectUniqueId": boxes[0], "parentLinkIndex": -1}
        hits = sim.rayTestBatch(starts, ends, **parent)
        found["ray"].append(hits if count > 1 else [np.array(column) for column in zip(*hits)])
    sim.disconnect()
    return found


def flat(answer: object, world: int | None) -> list[float]:
    """All numbers of an answer, of one of several worlds."""
    if isinstance(answer, np.ndarray):
        return (answer if world is None else answer[world]).ravel().tolist()
    if isinstance(answer, (tuple, list)):
        return [number for part in answer for number in flat(part, world)]
    return [float(answer)]


def test_a_world_alone_answers_as_several_do():
    """One world is asked and changed in plain numbers, several by arrays."""
    alone, both = played(1), played(2)
    for name, answers in alone.items():
        for k, (one, several) in enumerate(zip(answers, both[name])):
            for world in (0, 1):
                expected = flat(several, world)
                assert flat(one, None) == pytest.approx(expected, rel=1e-4, abs=1e-4), (name, k)
