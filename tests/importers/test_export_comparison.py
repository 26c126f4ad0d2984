"""The benchmark of exports reads what engines make of them, and notices what differs."""

import numpy as np
import pytest
from engines import export_facts, export_readers, import_facts

import newtonsim
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf
from newtonsim.scene.enums import JointType
from newtonsim.testing import random_model


def small_arm(mass: float = 1.0, upper: float = 1.5, damping: float = 0.25) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    base = builder.add_body(mass=2.0, I_m=np.eye(3), com=(0.1, 0.2, 0.3), key="base")
    builder.add_joint_free(base, key="root", armature=0.0)
    tip = builder.add_body(mass=mass, I_m=0.1 * np.eye(3), com=(0.0, 0.0, 0.3), key="tip")
    builder.add_joint_revolute(base, tip, axis=(0, 1, 0), limit_lower=-0.5, limit_upper=upper, key="hinge")
    builder.joint_damping[6] = damping
    return builder.finalize("cpu")


@pytest.mark.parametrize("name", export_facts.FORMATS)
def test_each_difference_is_noticed(name, tmp_path):
    suffix, export, engine = export_facts.FORMATS[name]
    written = export(small_arm(), tmp_path / f"out{suffix}")
    others = {
        "mass": {"mass": 1.1},
        "M(q)": {"mass": 1.1},
        "limits": {"upper": 1.6},
        "settings": {"damping": 1},
    }
    same = export_facts.compare(small_arm(), engine(small_arm(), written), armature=name != "urdf")
    assert same.keys() == export_facts.TOLERANCES.keys()
    assert all(error <= export_facts.TOLERANCES[item] for item, (error, _) in same.items())
    for item, change in others.items():
        other = small_arm(**change)
        error, _ = export_facts.compare(other, engine(other, written), armature=name != "urdf")[item]
        assert error > 10.0 * export_facts.TOLERANCES[item], item


@pytest.mark.parametrize("base", [JointType.FREE, JointType.FIXED])
def test_trees_are_placed_by_names(base, tmp_path):
    kinds = (JointType.REVOLUTE, JointType.PRISMATIC, JointType.UNIVERSAL, JointType.D6)
    model = random_model(3, joint_types=kinds, base=base, up_vector=(0, 0, 1)).finalize("cpu")
    for name in export_facts.FORMATS:
        found = export_facts.write(model, name, tmp_path)
        assert (found.error, found.refused, found.unplaced) == ("", "", "")
        assert found.items["M(q)"][0] < 1.0e-5
        assert found.items["frames"][0] < 1.0e-5


def test_a_robot_beside_a_free_body_is_placed_by_names(tmp_path):
    """Which in URDF floats below a link "world"."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.utils.parse_urdf(asset_path("gripper.urdf"), builder, ignore_inertial_definitions=False)
    body = builder.add_body(mass=2.0, I_m=np.diag([1.0, 2.0, 2.5]), com=(0.1, 0.2, 0.3), key="cube")
    builder.add_joint_free(body, key="loose", armature=0.0)
    found = export_facts.write(builder.finalize("cpu"), "urdf", tmp_path)
    assert found.items["M(q)"][0] < 1.0e-5
    assert found.items["frames"][0] < 1.0e-5


def test_bodies_that_float_below_others_are_placed_by_names(tmp_path):
    """In MuJoCo by three slides and a ball; frames of the joint are turned and shifted."""
    turned = (0.1, -0.2, 0.3, 0.5, 0.5, -0.5, 0.5)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    root = builder.add_body(mass=1.0, I_m=np.eye(3), key="root")
    builder.add_joint_free(root, key="base", armature=0.0)
    child = builder.add_body(mass=1.0, I_m=np.diag([1.0, 2.0, 2.5]), com=(0.1, 0.0, 0.2), key="child")
    builder.add_joint_free(child, parent=root, child_xform=turned, key="loose", armature=0.0)
    found = export_facts.write(builder.finalize("cpu"), "mjcf", tmp_path)
    assert found.items["M(q)"][0] < 1.0e-5
    assert found.items["frames"][0] < 1.0e-5


def test_bodies_that_float_below_what_stands_still_are_placed_by_names(tmp_path):
    """In turned frames, along whose axes our velocities are."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    base = builder.add_body(mass=1.0, I_m=np.eye(3), key="base")
    builder.add_joint_fixed(-1, base, key="mount")
    turned = (0.1, -0.2, 0.3, 0.5, 0.5, -0.5, 0.5)
    child = builder.add_body(mass=1.0, I_m=np.diag([1.0, 2.0, 2.5]), com=(0.1, 0.0, 0.2), key="child")
    builder.add_joint_free(child, parent=base, parent_xform=turned, key="loose", armature=0.0)
    tip = builder.add_body(mass=0.5, I_m=np.eye(3), key="tip")
    builder.add_joint_revolute(child, tip, axis=(0, 1, 0), key="hinge")
    for name in export_facts.FORMATS:
        found = export_facts.write(builder.finalize("cpu"), name, tmp_path)
        assert (found.error, found.refused, found.unplaced) == ("", "", ""), name
        assert found.items["M(q)"][0] < 1.0e-5, name
        assert found.items["frames"][0] < 1.0e-5, name


def test_pinocchio_reads_balls_as_hinges_with_the_same_mass_matrix_and_we_read_balls(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parent = -1
    for i, place in enumerate([(0.1, -0.2, 0.3, 0.5, 0.5, -0.5, 0.5), (0.0, 0.3, 0.1, 0.6, 0.0, 0.8, 0.0)]):
        inertia = np.diag([0.1, 0.2, 0.25])
        body = builder.add_body(mass=1.0, I_m=inertia, com=(0.1, 0.0, 0.2), key=f"bob{i}")
        child = (0.0, 0.1, 0.0, 0.0, 0.6, 0.0, 0.8)
        builder.add_joint_ball(parent, body, parent_xform=place, child_xform=child, key=f"ball{i}")
        parent = body
    model = builder.finalize("cpu")
    found = export_facts.write(model, "urdf", tmp_path)
    assert (found.error, found.refused, found.unplaced) == ("", "", "")
    assert found.items["M(q)"][0] < 2.0e-5
    assert found.items["frames"][0] < 1.0e-5
    assert any("ball0: a ball joint is three hinges to other readers" in text for text in found.remarks)
    again = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_urdf(tmp_path / "out.urdf", again, floating=False, ignore_inertial_definitions=False)
    moving = [
        key
        for key, kind in zip(again.joint_key, again.joint_type, strict=True)
        if kind == newtonsim.JOINT_BALL
    ]
    assert moving == ["ball0", "ball1"]
    assert again.body_mass[-2:] == pytest.approx([1.0, 1.0])
    assert len(again.joint_qd) == 6


def test_limits_of_mujoco_are_read():
    facts = import_facts.read_mujoco(asset_path("ant.xml"))
    assert facts.ranges["ankle_front_left"] == pytest.approx(np.radians((30.0, 70.0)))


def test_the_validators_of_openusd_are_asked(tmp_path):
    found = export_facts.write(small_arm(), "usd", tmp_path)
    assert found.faults == []
    (tmp_path / "bare.usda").write_text('#usda 1.0\ndef Xform "World"\n{\n}\n')
    faults = export_readers.faults_of(str(tmp_path / "bare.usda"))
    assert any(fault.startswith("MissingUpAxisMetadata") for fault in faults)
    assert export_facts.write(small_arm(), "mjcf", tmp_path).faults is None
