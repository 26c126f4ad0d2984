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
