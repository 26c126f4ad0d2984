"""Answers of reasoning, one by one and for many candidates, and that the world stays as it is."""

import numpy as np
import pytest

from newtonsim.bullet_world import Object, Use_shadow_world
from newtonsim.bullet_world import reasoning as ask

TOP = 0.625
"""Height of the table [m]."""
HAND = "lbr_iiwa_link_7"


@pytest.fixture
def kitchen(world):
    table = Object("table", "environment", "table/table.urdf", fixed_base=True)
    cube = Object("cube", "item", "cube_small.urdf", [0.3, 0.2, TOP + 0.025])
    arm = Object("arm", "robot", "kuka_iiwa/model.urdf", [-0.5, 0, TOP], fixed_base=True)
    before = [item.state() for item in world.objects]
    yield table, cube, arm
    assert [item.state() for item in world.objects] == before


def candidates(count):
    rng = np.random.default_rng(3)
    places = np.c_[rng.uniform(-1, 1, count), rng.uniform(-0.8, 0.8, count), np.full(count, TOP + 0.0255)]
    return np.c_[places, np.tile([0, 0, 0, 1], (count, 1))]


def on_the_table(poses, margin):
    return (np.abs(poses[:, 0]) < 0.75 + margin) & (np.abs(poses[:, 1]) < 0.5 + margin)


def test_stable(kitchen, world):
    _, cube, _ = kitchen
    assert ask.stable(cube) is True
    state = world.save_state()
    cube.set_position([0.3, 0.2, TOP + 0.5])
    assert ask.stable(cube) is False
    world.restore_state(state)


def test_candidates_are_judged_as_one_by_one(kitchen, world):
    table, cube, _ = kitchen
    poses = candidates(64)
    stable, touching = ask.stable(cube, poses), ask.contact(cube, table, poses)
    apart = np.hypot(poses[:, 0] + 0.5, poses[:, 1]) > 0.25  # from the arm
    assert stable[on_the_table(poses, -0.01) & apart].all()
    assert not stable[~on_the_table(poses, 0.01)].any()
    start = world.save_state()
    for pose, one, other in zip(poses, stable, touching):
        cube.set_position_and_orientation(pose[:3], pose[3:])
        assert ask.stable(cube) == one
        assert ask.contact(cube, table) == other
    world.restore_state(start)


def test_poses_come_in_any_form(kitchen):
    """Few candidates, which are tried one after the other, get the answers of the same ones among many."""
    table, cube, _ = kitchen
    rows = candidates(17)
    forms = (rows[:3], list(rows[:3]), rows[:3].tolist(), [(row[:3], row[3:]) for row in rows[:3]])
    for question in (ask.stable, lambda *a: ask.contact(a[0], table, a[1]), ask.visible):
        expected = question(cube, rows)[:3].tolist()
        assert [question(cube, poses).tolist() for poses in forms] == [expected] * 4


@pytest.mark.parametrize(
    ("question", "error", "words"),
    [
        (lambda table, cube, arm: ask.stable(3), TypeError, "obj: .* 3"),
        (lambda table, cube, arm: ask.contact(cube, None), TypeError, "b: .* None"),
        (lambda table, cube, arm: ask.supporting("table", cube), TypeError, "lower: .* 'table'"),
        (lambda table, cube, arm: ask.visible(None, [0, 0, 0, 0, 0, 0, 1]), TypeError, "obj: .* None"),
        (lambda table, cube, arm: ask.visible(cube, 3), ValueError, "camera: .* 3"),
        (lambda table, cube, arm: ask.stable(cube, seconds=-1), ValueError, "seconds: .* -1"),
        (lambda table, cube, arm: ask.stable(cube, distance=np.nan), ValueError, "distance: .* nan"),
        (lambda table, cube, arm: ask.stable(cube, angle=-0.1), ValueError, "angle: .* -0.1"),
        (lambda table, cube, arm: ask.stable(cube, ([0, 0, 1], [0, 0, 0, 1])), ValueError, "list of poses"),
        (lambda table, cube, arm: ask.stable(cube, [0, 0, 1, 0, 0, 0, 1]), ValueError, "list of poses"),
        (lambda table, cube, arm: ask.reachable(arm, [0, 0, 1], HAND, -1), ValueError, "tolerance: .* -1"),
        (lambda table, cube, arm: ask.reachable(arm, [[0, 0, 1], [0, 1]], HAND), ValueError, r"targets\[1\]"),
        (
            lambda table, cube, arm: ask.reachable(arm, np.ones((3, 3)), HAND, orientations=np.ones((2, 4))),
            ValueError,
            "orientations: expected one, or 3, got 2",
        ),
    ],
)
def test_wrong_arguments_are_named(kitchen, question, error, words):
    with pytest.raises(error, match=words):
        question(*kitchen)


def test_objects_of_different_worlds_cannot_touch(kitchen, world):
    table, cube, _ = kitchen
    with Use_shadow_world():
        top = world.get_shadow_object(table)
    for question in (ask.contact, ask.supporting):
        with pytest.raises(ValueError, match="different worlds"):
            question(top, cube)


def test_one_orientation_counts_for_all_targets(kitchen):
    *_, arm = kitchen
    targets = np.array([[-0.2, 0.3, TOP + 0.5], [0.0, 0.0, TOP + 0.6], [2.0, 0.0, TOP]])
    down = [0.0, 1.0, 0.0, 0.0]
    found = ask.reachable(arm, targets, HAND, orientations=down)
    assert found.tolist() == ask.reachable(arm, targets, HAND, orientations=[down] * 3).tolist()
    assert found.tolist() == [True, True, False]


def test_reachable_finds_poses_that_joints_have(kitchen):
    """Poses of the hand at joint positions within 90 % of the limits; at most 1 of 60 may be missed."""
    *_, arm = kitchen
    rng = np.random.default_rng(7)
    limits = {name: arm.get_joint_limits(name) for name in arm.joints if name.startswith("lbr_iiwa_joint")}
    assert len(limits) == 7
    poses = []
    for _ in range(60):
        config = {name: 0.9 * rng.uniform(*ends) for name, ends in limits.items()}
        poses.append(np.concatenate(ask.link_pose_for_joint_config(arm, config, HAND)))
    positions, orientations = np.split(np.array(poses), [3], axis=1)
    found = ask.reachable(arm, positions, HAND, orientations=orientations)
    assert np.count_nonzero(~found) <= 1
    beyond = ask.reachable(arm, [2.0, 0.0, TOP], HAND, orientations=orientations[0])
    assert beyond is False


def test_contact_and_support(kitchen):
    table, cube, arm = kitchen
    assert ask.contact(cube, table)
    assert not ask.contact(cube, arm)
    assert ask.supporting(table, cube)
    assert not ask.supporting(cube, table)


def test_visible_and_occluding(kitchen):
    table, cube, _ = kitchen
    above, below = ([0.0, 0.2, TOP + 0.3], [0, 0.2, 0, 1]), ([0.0, 0.2, 0.3], [0, -0.3, 0, 1])
    away = ([0.0, 0.2, TOP + 0.3], [0, 0, 1, 0])
    assert ask.visible(cube, above)
    assert not ask.visible(cube, below)
    assert not ask.visible(cube, away)
    assert ask.occluding(cube, below) == [table]
    assert ask.occluding(cube, above) == []
    assert ask.visible(cube, [above, below, away]).tolist() == [True, False, False]


def test_reachable(kitchen):
    """The wrist gets to what lies within its arm's length, 0.82 m around the shoulder at 0.36 m."""
    *_, arm = kitchen
    rng = np.random.default_rng(5)
    shoulder = np.array([-0.5, 0, TOP + 0.36])
    targets = shoulder + rng.uniform(-1.2, 1.2, (64, 3))
    found = ask.reachable(arm, targets, "lbr_iiwa_link_6")
    distance = np.linalg.norm(targets - shoulder, axis=1)
    assert not found[distance > 0.84].any()
    assert found.sum() >= 5
    assert [ask.reachable(arm, target, "lbr_iiwa_link_6") for target in targets] == found.tolist()


def test_blocking(kitchen):
    _, cube, arm = kitchen
    assert cube in ask.blocking(arm, [0.3, 0.2, TOP + 0.05], "lbr_iiwa_link_7")
    assert ask.blocking(arm, [-0.4, 0.3, TOP + 0.8], "lbr_iiwa_link_7") == []
    assert ask.blocking(arm, [5, 0, 0], "lbr_iiwa_link_7") is None


def test_link_pose_for_joint_config(kitchen, world):
    *_, arm = kitchen
    config, link = {"lbr_iiwa_joint_2": 0.7, "lbr_iiwa_joint_4": -1.1}, "lbr_iiwa_link_7"
    position, orientation = ask.link_pose_for_joint_config(arm, config, link)
    with Use_shadow_world():
        twin = world.get_shadow_object(arm)
        twin.set_joint_states(config)
        assert position == pytest.approx(twin.get_link_position(link))
        assert orientation == pytest.approx(twin.get_link_orientation(link))


def test_questions_inside_the_shadow(kitchen, world):
    table, cube, _ = kitchen
    with Use_shadow_world():
        twin, top = world.get_shadow_object(cube), world.get_shadow_object(table)
        assert ask.supporting(top, twin)
        twin.set_position([0.3, 0.2, 2])
        assert not ask.stable(twin)
        assert not ask.contact(twin, top)
        assert twin.get_position() == pytest.approx([0.3, 0.2, 2])


def test_what_is_attached_goes_with_candidates(kitchen, world):
    _, cube, _ = kitchen
    other = Object("other", "item", "cube_small.urdf", [0.3, 0.25, TOP + 0.025])
    cube.attach(other)
    with world.shadows(3) as shadows:
        poses = np.array([[x, 0, 1, 0, 0, 0.5**0.5, 0.5**0.5] for x in (0.0, 1.0, 2.0)])
        shadows.place(cube, poses)
        assert shadows.frames(other)[:, :3] == pytest.approx(poses[:, :3] + [-0.05, 0, 0], abs=1e-6)
    other.remove()


def test_questions_about_the_world_inside_the_shadow_leave_it_alone(kitchen, world):
    table, cube, _ = kitchen
    with Use_shadow_world():
        twin = world.get_shadow_object(cube)
        twin.set_position([5, 5, 5])
        assert ask.stable(cube)
        assert ask.contact(cube, table)
        assert twin.get_position() == pytest.approx([5, 5, 5])


def test_loosely_held_things_are_judged_by_what_carries_them(kitchen, world):
    table, cube, _ = kitchen
    poses = [([0.3, 0.2, z], [0, 0, 0, 1]) for z in (TOP + 0.025, TOP + 0.5)]
    table.attach(cube, loose=True)
    assert ask.stable(cube, poses).tolist() == [True, False]
    start = world.save_state()
    for pose, answer in zip(poses, (True, False)):
        cube.set_position(pose[0])
        assert ask.stable(cube) is answer
    world.restore_state(start)
    table.detach(cube)


def test_no_candidates(kitchen):
    table, cube, arm = kitchen
    assert ask.stable(cube, []).shape == ask.contact(cube, table, []).shape == (0,)
    assert ask.reachable(arm, [], "lbr_iiwa_link_7").shape == ask.visible(cube, []).shape == (0,)


def test_reachable_to_the_end(world, folder):
    """Two links of 0.5 m in the plane get to everything within 1 m, stretched and folded, but not beyond."""
    link = '<inertial><origin xyz="0.25 0 0"/><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    link = link.replace('izz="1"', 'izz="1" ixy="0" ixz="0" iyz="0"')
    joint = '<limit lower="-3.1" upper="3.1" effort="1" velocity="1"/><axis xyz="0 0 1"/>'
    (folder / "planar.urdf").write_text(
        f"""<robot name="planar"><link name="base">{link}</link><link name="upper">{link}</link>
        <link name="lower">{link}</link><link name="tip">{link}</link>
        <joint name="a" type="revolute"><parent link="base"/><child link="upper"/>{joint}</joint>
        <joint name="b" type="revolute"><parent link="upper"/><child link="lower"/>
          <origin xyz="0.5 0 0"/>{joint}</joint>
        <joint name="c" type="fixed"><parent link="lower"/><child link="tip"/><origin xyz="0.5 0 0"/></joint>
        </robot>"""
    )
    robot = Object("robot", "robot", "planar.urdf", fixed_base=True)
    angles = np.linspace(-3, 3, 13)
    for radius, answer in ((0.1, True), (0.5, True), (0.98, True), (1.02, False)):
        targets = [[radius * np.cos(t), radius * np.sin(t), 0] for t in angles]
        assert ask.reachable(robot, targets, "tip").tolist() == [answer] * len(angles), radius
