"""User data: the same calls in the real module and in ours."""

import pytest

import newtonsim.pybullet_compat as compat

pybullet = pytest.importorskip("pybullet")


@pytest.fixture
def robots(both):
    """Two worlds with two robots each."""
    for _ in range(2):
        both.load("cube_small.urdf")
    return both


def outcomes(both, name, *arguments):
    """Return what both modules return or raise."""
    found = []
    for module, client in zip((pybullet, compat), both.ids):
        try:
            found.append(getattr(module, name)(*arguments, physicsClientId=client))
        except (module.error, TypeError, ValueError) as problem:
            found.append(f"{type(problem).__name__}: {problem}")
    return found


def agree(both, name, *arguments):
    """Compare what both modules return or raise."""
    real, ours = outcomes(both, name, *arguments)
    assert real == ours, f"{name}{arguments}"
    return real


def agree_on_everything(both, ids=range(8)):
    """Compare all user data."""
    for body in range(2):
        for i in range(agree(both, "getNumUserData", body)):
            agree(both, "getUserDataInfo", body, i)
    for uid in ids:
        agree(both, "getUserData", uid)


def test_keys_of_bodies_links_and_visual_shapes(robots):
    for arguments in (
        (0, "key", "value"),
        (0, "key", "other"),
        (0, "key", "of a link", 1),
        (0, "key", "of a shape", 1, 2),
        (0, "kü", "vü"),
        (0, "", ""),
        (1, "key", "of another body"),
        (9, "key", "of no body"),
        (0, b"key", "value"),
        (0, "key", 5),
        (0, "null\0", "value"),
    ):
        agree(robots, "addUserData", *arguments)
    agree_on_everything(robots)
    for arguments in ((0, "key"), (0, "key", 1), (0, "key", 1, 2), (0, "key", 1, 3), (0, "no"), (9, "key")):
        agree(robots, "getUserDataId", *arguments)


def test_removed_ids_are_used_again_and_places_filled_from_the_end(robots):
    for key in "abcdef":
        agree(robots, "addUserData", 0, key, key)
    for uid in (1, 3, 3, 77):
        agree(robots, "removeUserData", uid)
        agree_on_everything(robots)
    for key in "xyz":
        agree(robots, "addUserData", 1, key, key)
    agree_on_everything(robots)


def test_removing_bodies_and_resetting_removes_their_data(robots):
    for key in "abc":
        agree(robots, "addUserData", 0, key, key)
    agree(robots, "addUserData", 1, "x", "y")
    robots.removeBody(0)
    for key in "defg":
        agree(robots, "addUserData", 1, key, key)
    assert agree(robots, "getNumUserData", 0) == 0
    agree_on_everything(robots)
    robots.resetSimulation()
    agree_on_everything(robots)
    robots.load("cube_small.urdf")
    assert agree(robots, "addUserData", 0, "k", "v") == 0


def test_synchronisation_complains_about_unknown_bodies(robots):
    for arguments in ((), ([0, 1],), ([99],), (0,)):
        agree(robots, "syncUserData", *arguments)
    agree(robots, "syncBodyInfo")
