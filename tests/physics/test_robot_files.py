"""Robot files of others by default options: calm at rest, and without energy from nowhere when dropped."""

from pathlib import Path

import pybullet_data
import pytest
import robot_calm

FILES = [
    "laikago/laikago.urdf",  # legs of convex parts beside each other
    "laikago/laikago_toes.urdf",
    "racecar/racecar_differential.urdf",  # gears in each other, loops
    "xarm/xarm6_with_gripper.urdf",  # knuckles in each other, mimic joints
    "pr2_gripper.urdf",
    "franka_panda/panda.urdf",
    "quadruped/minitaur.urdf",  # closed legs
    "mjcf/humanoid.xml",
]


@pytest.mark.parametrize("file", FILES)
def test_a_robot_is_calm(file):
    folder = Path(pybullet_data.getDataPath())
    kind = "mjcf" if file.endswith(".xml") else "urdf"
    figures = robot_calm.measure("pybullet_data", folder, kind, folder / file, seconds=1.0)
    assert not figures.error
    assert figures.rest < 0.05
    assert figures.gain < 0.05


def test_overlaps_of_the_gripper_are_named():
    """The knuckles of this file reach into the fingers by 12 mm, as PyBullet's closest points have it."""
    path = Path(pybullet_data.getDataPath()) / "xarm/xarm6_with_gripper.urdf"
    assert robot_calm.finalize(robot_calm.read("urdf", path))[1] == 1
