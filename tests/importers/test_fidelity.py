"""Files of installed packages: what we import has the masses, counts and limits that their engines read.

`benchmarks/import_fidelity.py` does the same for all files of many packages, see docs/import_fidelity.md.
"""

from pathlib import Path

import gymnasium
import mujoco
import pybullet_data
import pytest
from engines import import_facts

GYMNASIUM = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
MUJOCO = Path(mujoco.__file__).parent / "testdata"
PYBULLET = Path(pybullet_data.getDataPath())
ROBOTS = (
    *("cartpole.urdf", "cube_no_rotation.urdf", "domino/domino.urdf", "franka_panda/panda.urdf"),
    *("jenga/jenga.urdf", "kuka_iiwa/model.urdf", "laikago/laikago_toes.urdf", "plane.urdf"),
    *("quadruped/minitaur.urdf", "racecar/racecar.urdf", "sphere2.urdf", "table/table.urdf"),
    *("tray/traybox.urdf", "xarm/xarm6_robot.urdf"),
)

NO_LIMITS = "limits of"
PINOCCHIO_DIFFERS = {
    # A lower limit above the upper one means no limits, as in Bullet.
    "cube_no_rotation.urdf": NO_LIMITS,
    # <limit> without lower and upper: no limits, not limits of zero.
    "quadruped/minitaur.urdf": NO_LIMITS,
}


def check(found: list[str], expected: str | None) -> None:
    """Assert that nothing differs, or only what is expected."""
    assert [text for text in found if expected is None or not text.startswith(expected)] == []
    assert expected is None or found, "what was expected to differ does not"


@pytest.mark.parametrize(
    "path", [*sorted(GYMNASIUM.glob("*.xml")), MUJOCO / "model.xml"], ids=lambda p: p.name
)
def test_mjcf_files_are_those_that_mujoco_compiles(path):
    ours = import_facts.read_ours("mjcf", path)
    check(import_facts.differences(ours, import_facts.read_mujoco(path)), None)


@pytest.mark.parametrize("name", ROBOTS)
def test_urdf_files_are_those_that_pinocchio_and_pybullet_read(name):
    path = PYBULLET / name
    ours = import_facts.read_ours("urdf", path)
    others = {"pinocchio": PINOCCHIO_DIFFERS, "PyBullet": {}}
    for other, expected in others.items():
        try:
            theirs = (
                import_facts.read_pinocchio(path, ours.start)
                if other == "pinocchio"
                else import_facts.read_pybullet(path)
            )
        except ValueError:
            continue
        check(import_facts.differences(ours, theirs), expected.get(name))
