"""Files of installed packages: what we import has the masses, counts and limits that their engines read.

`benchmarks/import_fidelity.py` does the same for all files of many packages, see docs/import_fidelity.md.
"""

from pathlib import Path

import gymnasium
import mujoco
import mujoco_warp
import pybullet_data
import pytest
from engines import import_facts
from tasks import solver_motion

from newtonsim.fidelity import compare_mujoco_solver

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


def test_files_move_by_mujoco_solver_as_in_mujoco():
    """Tendons of MuJoCo's own test data, of which one has armature."""
    folder = Path(mujoco_warp.__file__).parent / "test_data" / "tendon"
    rows = list(solver_motion.sweep([("tendons", folder)], {}, ()))
    assert "armature.xml" in {row.file for row in rows}
    for row in rows:
        assert not row.uncompared, row
        assert row.item[0] < 1e-5, row
    assert f"| tendons | {len(rows)} | {len(rows)} | 0 | 0 |" in solver_motion.section(rows)


MISSED = {
    "chaotic": [0.02, "wing after 1 s", "MuJoCo is 1.0e-02 m from itself if it starts 1e-06 away"],
    "single precision": [
        *(2e-5, "arm after 1 s"),
        "MuJoCo is 1.0e-07 m from itself if it starts 1e-06 away, "
        "3.0e-05 m from itself with its time step in single precision",
    ],
    "not explained": [1.0, "arm after 1 s", "MuJoCo is 1.0e-07 m from itself if it starts 1e-06 away"],
    "what moves here weighs 0 of 3 kg: a geom": [
        *(1.0, "nut after 1 s"),
        "MuJoCo is 1.0e-07 m from itself if it starts 1e-06 away, what moves here weighs 0 of 3 kg: a geom",
    ],
    "MuJoCo itself diverges": [None, "arm after 0.1 s", "MuJoCo itself diverges after 0.1 s"],
}


@pytest.mark.parametrize("why", MISSED)
def test_why_a_motion_by_mujoco_solver_misses(why: str):
    row = solver_motion.MotionRow("package", "file.xml", "", MISSED[why])
    assert solver_motion.reason(row).startswith(why)
    text = solver_motion.section([row])
    assert any(line.startswith("| package: file.xml |") and why in line for line in text)


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


def test_shapes_that_are_left_out_are_told_with_their_mass(tmp_path):
    """A torus of 2 km is larger than what a plugin is asked for."""
    path = tmp_path / "torus.xml"
    path.write_text(
        """<mujoco><extension>
        <plugin plugin="mujoco.sdf.torus"><instance name="ring">
        <config key="radius1" value="2000"/><config key="radius2" value="100"/></instance></plugin>
        </extension><asset><mesh name="ring"><plugin instance="ring"/></mesh></asset>
        <worldbody><body><freejoint/><geom type="sdf" mesh="ring" density="1e-9">
        <plugin instance="ring"/></geom></body></worldbody></mujoco>"""
    )
    weight = mujoco.MjModel.from_xml_path(str(path)).body_mass.sum()
    remark = compare_mujoco_solver(path, seconds=0.02).remark
    assert f"of {weight:.6g} kg: a geom whose mesh is made by a plugin is left out" in remark
