"""Objects and worlds: what they refuse, what they undo, files and colours."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from newtonsim.bullet_world import (
    BulletWorld,
    JointType,
    Object,
    ObjectRemovedError,
    Use_shadow_world,
    WorldExitedError,
    descriptions,
)
from newtonsim.bullet_world.reasoning import contact, reachable


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda o: o.set_orientation([0, 0, 0, 0]), ValueError),
        (lambda o: o.set_orientation([0, 0, 1]), ValueError),
        (lambda o: o.set_position([0, 0]), ValueError),
        (lambda o: o.set_position([0, 0, float("nan")]), ValueError),
        (lambda o: o.set_position(None), ValueError),
        (lambda o: o.set_joint_state("elbow", 1.0), KeyError),
        (lambda o: o.set_joint_states({"shoulder": 0.5, "elbow": 1.0}), KeyError),
        (lambda o: o.set_joint_states({"shoulder": 0.5, "slide": float("inf")}), ValueError),
        (lambda o: o.get_link_position("elbow"), KeyError),
        (lambda o: o.set_color([1, 1, 1]), ValueError),
        (lambda o: o.set_color([1, 1, 2, 1]), ValueError),
        (lambda o: o.set_position([0, 0, 1e39]), ValueError),
        (lambda o: o.set_joint_state("shoulder", "1"), ValueError),
        (lambda o: o.set_joint_state("shoulder", True), TypeError),
        (lambda o: o.set_joint_states([1, 2]), TypeError),
        (lambda o: o.attach(None), TypeError),
        (lambda o: o.attach(o.world.objects[0], loose="x"), TypeError),
        (lambda o: o.detach(None), TypeError),
        (lambda o: Object("o", "item", None), TypeError),
        (lambda o: Object(3, "item", o.path), TypeError),
        (lambda o: Object("o", "item", o.path, fixed_base="yes"), TypeError),
        (lambda o: o.world.get_shadow_object(3), TypeError),
        (lambda o: o.world.get_bullet_object_for_shadow(3), TypeError),
        (lambda o: o.world.restore_state(True), TypeError),
        (lambda o: o.world.register_collision_callback(o, o.world.objects[0], None), TypeError),
    ],
)
def test_bad_input_changes_nothing(world, arm, call, error):
    robot = Object("robot", "robot", arm, [1, 2, 3])
    before, calls = robot.state(), []
    world.manipulation_event += lambda *args: calls.append(args)
    objects = list(world.objects)
    with pytest.raises(error):
        call(robot)
    assert robot.state() == before
    assert world.objects == objects
    assert not calls


def test_quaternions_are_normalised(world):
    milk = Object("milk", "milk", "milk.stl", orientation=[0, 0, 3, 3])
    assert np.linalg.norm(milk.get_orientation()) == pytest.approx(1, abs=1e-12)


def test_poses_are_those_of_the_root_link(world, offset):
    """Spawn, get, set and reset agree although the centre of mass is elsewhere and turned."""
    turn = [0.5, 0.5, 0.5, 0.5]
    thing = Object("thing", "thing", offset, [1, 2, 3], turn)
    assert thing.get_position_and_orientation() == [pytest.approx([1, 2, 3]), pytest.approx(turn)]
    low, high = thing.get_AABB()  # the box is at R (0.1, 0.2, 0.3) = (0.3, 0.1, 0.2) from the root
    assert np.add(low, high) / 2 == pytest.approx([1.3, 2.1, 3.2], abs=1e-3)
    thing.set_position([0, 0, 0])
    world.reset_bullet_world()
    assert thing.get_position_and_orientation() == [pytest.approx([1, 2, 3]), pytest.approx(turn)]
    assert thing.get_link_position("body") == pytest.approx([1, 2, 3])


def test_teleports_stop(world, arm):
    robot = Object("robot", "robot", arm, [0, 0, 5])
    world.client.resetBaseVelocity(robot.id, [1, 2, 3], [1, 0, 0])
    world.client.resetJointState(robot.id, 0, 0.1, 5.0)
    robot.set_position([0, 0, 6])
    assert robot.state().velocity == ((0, 0, 0), (0, 0, 0))
    assert all(not any(speed) for _, speed in robot.state().joints)


def test_a_removed_object_is_not_the_next_one_of_its_id(world):
    old = Object("old", "milk", "milk.stl")
    shadow_of_old = world.get_shadow_object(old)
    old.remove()
    new = Object("new", "milk", "milk.stl", [1, 0, 0])
    assert new.id == old.id
    for call in (
        old.get_position,
        old.get_AABB,
        lambda: old.set_position([0, 0, 5]),
        lambda: new.attach(old),
    ):
        with pytest.raises(ObjectRemovedError, match="old"):
            call()
    old.remove()
    assert world.get_object_by_id(new.id) is new
    assert world.get_shadow_object(new).name == "new"
    with Use_shadow_world(), pytest.raises(ObjectRemovedError):
        shadow_of_old.get_position()
    assert new.get_position() == pytest.approx([1, 0, 0])


def test_mass_of_meshes(world, arm):
    masses = [
        world.client.getDynamicsInfo(Object("milk", "milk", "milk.stl", **given).id, -1)[0]
        for given in ({}, {"mass": 1.5})
    ]
    assert masses == pytest.approx([0.1, 1.5])
    for path, mass in (("milk.stl", 0.0), ("milk.stl", np.nan), (arm, 1.0)):
        with pytest.raises(ValueError, match="mass"):
            Object("milk", "milk", path, mass=mass)
    assert len(world.objects) == 3


def test_values_beyond_limits_are_set_with_a_warning(world, arm):
    robot = Object("robot", "robot", arm)
    low, high = robot.get_joint_limits("slide")
    with pytest.warns(
        UserWarning, match=rf"'slide' of 'robot': {high + 0.25:g} is beyond .*{low:g} and {high:g}"
    ):
        robot.set_joint_state("slide", high + 0.25)
    assert robot.get_joint_state("slide") == pytest.approx(high + 0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot.set_joint_states({"slide": high, "shoulder": 2.0})


FINGERS = """<robot name="gripper"><link name="palm"/>{links}
  <joint name="a" type="prismatic"><parent link="palm"/><child link="fa"/><axis xyz="0 1 0"/>{limit}</joint>
  <joint name="b" type="prismatic"><parent link="palm"/><child link="fb"/><axis xyz="0 1 0"/>{limit}
    <mimic joint="a" multiplier="-1" offset="{offset}"/></joint>
  <joint name="c" type="prismatic"><parent link="palm"/><child link="fc"/><axis xyz="0 1 0"/>{limit}
    <mimic joint="b" multiplier="2"/></joint>
</robot>"""


def test_joints_that_mimic_others_follow(world, folder):
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    parts = {
        "links": "".join(f'<link name="f{name}">{inertial}</link>' for name in "abc"),
        "limit": '<limit lower="-1" upper="1" effort="1" velocity="1"/>',
    }
    (folder / "fingers.urdf").write_text(FINGERS.format(offset="0.5", **parts))
    with pytest.warns(UserWarning, match="palm"):
        fingers = Object("fingers", "robot", "fingers.urdf")
    assert fingers.get_complete_joint_state() == pytest.approx({"a": 0.0, "b": 0.5, "c": 1.0})
    fingers.set_joint_state("a", 0.2)
    assert fingers.get_complete_joint_state() == pytest.approx({"a": 0.2, "b": 0.3, "c": 0.6})
    with pytest.warns(UserWarning, match="'b' of 'fingers' mimics 'a'.*requires 0.4.*set to 0.4, but -0.3"):
        fingers.set_joint_states({"b": -0.3, "a": 0.1})
    assert fingers.get_complete_joint_state() == pytest.approx({"a": 0.1, "b": 0.4, "c": 0.8})
    with pytest.warns(UserWarning, match="'b' of 'fingers' mimics 'a'.*requires 0.4.*set to 0.2"):
        fingers.set_joint_state("b", 0.2)
    assert fingers.get_complete_joint_state() == pytest.approx({"a": 0.1, "b": 0.2, "c": 0.4})
    fingers.reset()
    assert fingers.get_complete_joint_state() == pytest.approx({"a": 0.0, "b": 0.5, "c": 1.0})
    (folder / "wrong.urdf").write_text(FINGERS.format(offset="half", **parts))
    with pytest.raises(ValueError, match=r"'b'.*half"):
        Object("fingers", "robot", "wrong.urdf")
    assert fingers in world.objects
    assert len(world.objects) == 2


def test_continuous_joints_have_no_limits(world, folder, arm):
    """Whatever the file says; http://wiki.ros.org/urdf/XML/joint."""
    text = (folder / arm).read_text().replace("revolute", "continuous")
    assert 'type="continuous"' in text
    assert 'upper="2"' in text
    (folder / "endless.urdf").write_text(text)
    robot = Object("robot", "robot", "endless.urdf", fixed_base=True)
    assert robot.get_joint_limits("shoulder") == (-np.inf, np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot.set_joint_state("shoulder", 3.0)
    behind = robot.get_link_position("gripper")
    robot.reset()
    assert reachable(robot, behind, "gripper")


def test_joint_properties(world, arm):
    robot = Object("robot", "robot", arm)
    assert robot.get_joint_limits("shoulder") == (-2, 2)
    assert robot.get_joint_axis("slide") == pytest.approx((1, 0, 0))
    assert robot.get_joint_type("slide") is JointType.PRISMATIC
    assert robot.get_complete_joint_state() == {"shoulder": 0, "slide": 0}
    assert robot.get_link_relative_to_other_link("gripper", "upper")[0] == pytest.approx([0.5, 0, 0])
    assert (robot.get_link_by_id(-1), robot.get_joint_by_id(1)) == ("base", "slide")


def test_manipulation_event(world, arm):
    robot, calls = Object("robot", "robot", arm), []
    handler = lambda *args: calls.append(args)  # noqa: E731
    world.manipulation_event += handler
    robot.set_position([1, 0, 0])
    robot.set_joint_states({"shoulder": 0.1, "slide": 0.1})
    assert calls == [(robot, [robot])] * 2
    world.manipulation_event -= handler
    robot.set_position([2, 0, 0])
    assert len(calls) == 2


def test_manipulation_tells_all_that_moved(world, arm):
    robot, calls = Object("robot", "robot", arm), []
    held, standing = (Object("milk", "milk", "milk.stl", [x, 0, 0]) for x in (0.6, -0.5))
    robot.attach(held, "gripper")
    robot.attach(standing)
    state = world.save_state()
    world.manipulation_event += lambda *args: calls.append(args)
    robot.set_joint_state("shoulder", 1.0)
    held.set_position([0, 0, 1])
    assert calls == [(robot, [robot, held]), (held, [held, robot, standing])]
    calls.clear()
    world.restore_state(state)
    assert calls == [(item, [item]) for item in (robot, held, standing)]
    world.restore_state(state)
    assert len(calls) == 3


def test_lower_side(world):
    milk = Object("milk", "milk", "milk.stl", [1, 1, 1], [1, 0, 0, 0])  # upside down
    assert milk.get_base_origin() == pytest.approx([1, 1, 0.8], abs=4e-3)
    milk.move_base_to_origin_pos()
    assert milk.get_base_origin() == pytest.approx([1, 1, 1], abs=4e-3)


def test_contacts(world):
    milk = Object("milk", "milk", "milk.stl", [0, 0, 0])
    floor = world.objects[0]
    assert {point[2] for point in milk.contact_points()} == {floor.id}
    milk.set_position([0, 0, 1])
    assert not milk.contact_points()
    milk.set_position([0, 0, 1e-4])
    before = milk.state()
    assert milk.contact_points_simulated()
    assert milk.state() == before


def test_collision_callbacks(world):
    milk, calls = Object("milk", "milk", "milk.stl", [0, 0, 0.1]), []
    floor = world.objects[0]
    world.register_collision_callback(milk, floor, lambda: calls.append(1), lambda: calls.append(0))
    world.simulate(0.5)
    assert len(calls) == 120
    assert calls == sorted(calls)  # apart while it falls, then touching
    # it falls 0.1 m in 0.143 s: 34 steps
    assert calls.index(1) == pytest.approx(34, abs=2)


def test_states_with_attachments(world, arm):
    robot, milk = Object("robot", "robot", arm), Object("milk", "milk", "milk.stl", [0.6, 0, 0])
    robot.attach(milk, "gripper")
    state = world.save_state()
    robot.set_joint_state("shoulder", 1.0)
    robot.detach(milk)
    milk.set_position([5, 5, 5])
    world.restore_state(state)
    assert milk.get_position() == pytest.approx([0.6, 0, 0])
    robot.set_joint_state("shoulder", np.pi / 2)
    assert milk.get_position() == pytest.approx([0, 0.6, 0])
    with pytest.raises(KeyError, match="77"):
        world.restore_state(77)


def test_copy(world, arm):
    robot, milk = Object("robot", "robot", arm, [1, 0, 0]), Object("milk", "milk", "milk.stl", [0.6, 0, 0])
    robot.attach(milk)
    world.set_robot(robot)
    with world.copy() as other:
        assert [item.name for item in other.objects] == ["floor", "robot", "milk"]
        (twin,) = other.get_objects_by_name("milk")
        assert other.robot is other.objects[1]
        other.robot.set_position([0, 0, 0])
        assert twin.get_position() == pytest.approx([-0.4, 0, 0])
    assert robot.get_position() == pytest.approx([1, 0, 0])


def test_removed_objects_and_ended_worlds():
    world = BulletWorld("DIRECT")
    milk, cup = Object("milk", "milk", "milk.stl"), Object("cup", "cup", "milk.stl", [1, 0, 0])
    milk.remove()
    milk.remove()
    assert milk not in world.objects
    with pytest.raises(ObjectRemovedError, match="milk"):
        milk.get_position()
    for use in (
        lambda: cup.attach(milk),
        lambda: contact(cup, milk),
        lambda: world.get_shadow_object(milk),
        lambda: world.set_robot(milk),
        lambda: world.register_collision_callback(cup, milk, print),
    ):
        with pytest.raises(ObjectRemovedError, match="milk"):
            use()
    world.exit()
    world.exit()
    for use in (
        lambda: world.simulate(1),
        lambda: world.set_gravity([0, 0, 0]),
        lambda: world.get_objects_by_name("cup"),
        lambda: world.shadow_world,
        lambda: world.reset_bullet_world(),
        lambda: world.set_robot(cup),
        lambda: world.__enter__(),
        lambda: cup.detach_all(),
        lambda: cup.get_complete_joint_state(),
        lambda: world.copy(),
        lambda: cup.get_position(),
        lambda: Object("x", "x", "milk.stl", world=world),
    ):
        with pytest.raises(WorldExitedError):
            use()


def test_gui_without_a_display_is_direct(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.warns(UserWarning, match="no display"), BulletWorld("GUI") as world:
        assert world.type == "DIRECT"
    with pytest.raises(ValueError, match="WINDOW"):
        BulletWorld("WINDOW")


def test_a_script_that_forgets_exit_ends():
    code = (
        "from newtonsim.bullet_world import *; w = BulletWorld('DIRECT'); w.shadow_world; "
        "w.set_realtime(True); print(w)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "1 objects" in result.stdout


# -- files ---------------------------------------------------------------------------------------------------


def test_cache_is_keyed_by_content(world, folder):
    first = Object("a", "milk", "milk.stl").path
    assert Object("b", "milk", "milk.stl").path == first
    assert first.startswith(str(descriptions.cache_folder()))
    assert Object("c", "milk", "milk.stl", color=[1, 0, 0, 1]).path != first
    import trimesh

    trimesh.creation.box((1, 1, 1)).export(folder / "milk.stl")
    changed = Object("d", "milk", "milk.stl")
    assert np.subtract(*reversed(changed.get_AABB())) == pytest.approx([1, 1, 1], abs=0.01)


def test_cached_files_can_be_ignored(world):
    path = Object("a", "milk", "milk.stl").path
    with open(path, "w") as file:
        file.write("broken")
    again = Object("b", "milk", "milk.stl", ignoreCachedFiles=True)
    assert again.path == path
    assert len(again.links) == 1


@pytest.mark.parametrize("suffix", ["obj", "stl", "dae", "ply"])
def test_types_of_meshes(world, folder, suffix):
    import trimesh

    trimesh.creation.box((0.1, 0.2, 0.3)).export(folder / f"brick.{suffix}")
    brick = Object("brick", "brick", f"brick.{suffix}")
    assert np.subtract(*reversed(brick.get_AABB())) == pytest.approx([0.1, 0.2, 0.3], abs=7e-3)


def test_packages(world, folder, monkeypatch):
    (folder / "ws" / "kitchen" / "meshes").mkdir(parents=True)
    (folder / "milk.stl").rename(folder / "ws" / "kitchen" / "meshes" / "milk.stl")
    (folder / "fridge.urdf").write_text(
        '<robot name="fridge"><link name="base"><collision><geometry>'
        '<mesh filename="package://kitchen/meshes/milk.stl"/></geometry></collision></link></robot>'
    )
    with pytest.raises(FileNotFoundError, match=r"fridge.urdf: <mesh>: package://kitchen/meshes/milk.stl"):
        Object("fridge", "environment", "fridge.urdf")
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(folder / "ws"))
    fridge = Object("fridge", "environment", "fridge.urdf", fixed_base=True)
    assert fridge.get_AABB()[1][2] == pytest.approx(0.2, abs=5e-3)
    monkeypatch.delenv("ROS_PACKAGE_PATH")
    BulletWorld.add_additional_resource_path(str(folder / "ws"))
    milk = Object("milk", "milk", "package://kitchen/meshes/milk.stl")
    assert milk.get_AABB()[1][2] == pytest.approx(0.2, abs=5e-3)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("gone.stl", None, FileNotFoundError),
        ("thing.txt", b"text", ValueError),
        ("broken.stl", b"", ValueError),
        ("broken.obj", b"no mesh", ValueError),
    ],
)
def test_bad_files_are_named(world, folder, name, content, error):
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(error, match=name):
        Object("thing", "thing", name)
    assert [item.name for item in world.objects] == ["floor"]


def test_fixed_base(world, arm):
    held, free = Object("a", "a", arm, [0, 0, 3], fixed_base=True), Object("b", "b", arm, [5, 0, 3])
    world.simulate(0.2)
    assert held.get_position() == pytest.approx([0, 0, 3])
    assert free.get_position()[2] < 2.9


def test_axes_touch_nothing(world):
    milk = Object("milk", "milk", "milk.stl")
    bodies = world.client.getNumBodies()
    world.add_vis_axis([[0, 0, 0.1], [0, 0, 0, 1]])
    assert world.client.getNumBodies() == bodies + 3
    assert {point[2] for point in milk.contact_points()} == {world.objects[0].id}
    world.remove_vis_axis()
    assert world.client.getNumBodies() == bodies


def test_a_callback_may_end_the_world(world):
    milk = Object("milk", "milk", "milk.stl")
    world.register_collision_callback(milk, world.objects[0], world.exit)
    world.simulate(1)
    assert not world.is_alive
    with pytest.raises(WorldExitedError):
        world.objects  # noqa: B018


def test_removing_all_objects(world):
    Object("milk", "milk", "milk.stl")
    for item in world.objects:
        item.remove()
    assert world.objects == []


def test_reset_is_one_manipulation_of_each(world, arm):
    robot, calls = Object("robot", "robot", arm, [1, 0, 0]), []
    robot.set_joint_state("slide", 0.2)
    world.manipulation_event += lambda item, _: calls.append(item)
    world.reset_bullet_world()
    assert calls == world.objects
    assert robot.get_joint_state("slide") == 0


def test_states_name_what_was_removed(world):
    milk, cup = Object("milk", "milk", "milk.stl"), Object("cup", "cup", "milk.stl", [1, 0, 0])
    state = world.save_state()
    milk.remove()
    cup.set_position([2, 0, 0])
    with pytest.warns(UserWarning, match="milk was removed"):
        world.restore_state(state)
    assert cup.get_position() == pytest.approx([1, 0, 0])
