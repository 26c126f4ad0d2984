"""<replicate> and <attach>: what MuJoCo compiles is what we import."""

import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ImportFileError
from newtonsim.importers import parse_mjcf

NESTED = """<mujoco><compiler eulerseq="zyx"/><worldbody>
  <replicate count="3" offset="1 0.5 0" euler="20 10 0" sep="-">
    <body name="b" pos="0 .5 0"><joint name="j" axis="0 1 0" range="-30 40"/>
      <geom name="g" size=".1" pos=".1 0 0"/>
      <replicate count="11" offset="0 0 .3"><body name="c"><joint name="k" type="slide"/>
        <geom name="h" type="box" size=".1 .2 .3" contype="0" conaffinity="0"/></body></replicate>
    </body>
  </replicate>
  <body name="single"><joint name="s"/><geom size=".1"/></body></worldbody>
  <actuator><motor name="m" joint="j" gear="2"/><position name="p" joint="k" kp="3"/>
    <motor name="o" joint="s"/></actuator>
  <equality><joint name="q" joint1="j"/></equality></mujoco>"""

ARM = """<mujoco model="arm"><compiler angle="radian" autolimits="false" eulerseq="XYZ" meshdir="stuff"/>
<default><joint damping="3"/><geom density="400"/><default class="big"><geom type="box" size=".3 .2 .1"
  euler=".1 .2 .3"/><joint range="-1 1" limited="true"/></default></default>
<asset><mesh name="wedge" file="wedge.obj" scale=".5 1 2"/><material name="paint" rgba="1 0 0 1"/></asset>
<worldbody><geom name="knob" size=".05"/><body name="base" pos="0 0 1" childclass="big">
<joint name="turn" axis="0 0 1"/><geom name="block" material="paint"/>
<body name="tip" euler=".3 0 1" pos="1 0 0"><joint name="bend" axis="0 1 0" range="-2 2" limited="false"
ref=".2"/><geom type="mesh" mesh="wedge"/>
<site name="end"/></body></body></worldbody>
<actuator><motor name="drive" joint="turn" ctrllimited="true" ctrlrange="-1 1"/>
<motor name="flex" joint="bend"/></actuator>
<contact><exclude body1="base" body2="tip"/></contact></mujoco>"""

SCENE = """<mujoco><compiler angle="degree"/><default><geom density="2000"/><joint damping="7"/></default>
<asset><model name="arm" file="parts/arm.xml"/></asset>
<worldbody><frame pos="1 2 3" euler="0 0 90"><attach model="arm" prefix="left_" {body}/></frame>
<body name="cart"><joint name="roll" type="slide" range="-1 1"/><geom name="box" type="box" size=".1 .1 .1"/>
<attach model="arm" prefix="right_"/></body></worldbody></mujoco>"""


def write(folder, body: str = ""):
    (folder / "parts" / "stuff").mkdir(parents=True)
    (folder / "parts" / "arm.xml").write_text(ARM)
    (folder / "parts" / "stuff" / "wedge.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    path = folder / "scene.xml"
    path.write_text(SCENE.format(body=body))
    return path


def check(pair) -> None:
    """Bodies, poses, shapes, joints and actuators."""
    mj, builder, report = pair.mj, pair.builder, pair.report
    pair.check_masses()
    pair.check_start()
    pair.check_geoms()
    pair.check_poses()
    assert [builder.body_key[ours] for ours, _ in pair.bodies()] == [
        mj.body(k).name for k in range(1, mj.nbody)
    ]
    assert [actuator["name"] for actuator in report.actuators] == [mj.actuator(k).name for k in range(mj.nu)]
    for k in range(mj.njnt):
        name = mj.joint(k).name
        axis = builder.joint_axis_start[report.joints[name]]
        assert builder.joint_damping[report.joint_dofs[name]] == pytest.approx(
            mj.dof_damping[mj.jnt_dofadr[k]]
        )
        if mj.jnt_limited[k]:
            ref = report.joint_refs.get(name, 0.0)
            limits = np.array([builder.joint_limit_lower[axis], builder.joint_limit_upper[axis]]) + ref
            np.testing.assert_allclose(limits, mj.jnt_range[k], atol=1e-6)
        else:
            assert builder.joint_limit_upper[axis] == 1.0e6


def test_replicas_are_those_of_mujoco(twin):
    pair = twin(NESTED)
    check(pair)
    assert len(pair.report.constraints) == pair.mj.neq == 3
    assert "b-2" in pair.report.bodies
    assert "c10-2" in pair.report.bodies


@pytest.mark.parametrize("body", ["", 'body="tip"'])
def test_attached_models_are_those_of_mujoco(twin, tmp_path, body):
    check(twin(write(tmp_path, body)))


def test_what_is_attached_comes_in_the_order_of_the_document(twin, tmp_path):
    """Controls are given by number: an arm in a frame comes before one that follows the frame."""
    path = write(tmp_path)
    inner = '<frame><frame pos="0 0 1"><attach model="arm" prefix="deep_"/></frame></frame>'
    path.write_text(
        SCENE.format(body="").replace(
            '<attach model="arm" prefix="right_"/>', inner + '<attach model="arm" prefix="right_"/>'
        )
    )
    pair = twin(path)
    names = [pair.mj.actuator(number).name for number in range(pair.mj.nu)]
    assert [one["name"] for one in pair.report.actuators] == names
    assert names[2:] == ["deep_drive", "deep_flex", "right_drive", "right_flex"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SCENE.format(body='body="nose"'), "body 'nose' is not in the attached model"),
        (
            SCENE.format(body="").replace('"arm" prefix="left_"', '"leg" prefix="left_"'),
            "model 'leg' is not defined",
        ),
        (SCENE.format(body="").replace("parts/arm.xml", "scene.xml"), "attaches itself"),
        (SCENE.format(body="").replace("parts/arm.xml", "no.xml"), "not found"),
        ('<mujoco><worldbody><replicate count="0"/></worldbody></mujoco>', "'count' must be a positive"),
        ('<mujoco><worldbody><replicate count="999999999"/></worldbody></mujoco>', "more than 500000"),
    ],
)
def test_broken_compositions_are_typed_errors(tmp_path, text, message):
    path = write(tmp_path)
    path.write_text(text)
    builder = newtonsim.ModelBuilder()
    with pytest.raises(ImportFileError, match=message):
        parse_mjcf(path, builder)
    assert builder.body_count == 0


ROPES = """<mujoco model="ropes"><worldbody><body name="up"><joint name="a" axis="0 1 0"/>
<geom size=".05" pos=".1 0 0"/><site name="s"/><body name="low" pos=".2 0 0"><joint name="b" axis="0 1 0"/>
<geom size=".05" pos=".1 0 0"/></body></body>
<body name="other" pos="0 1 0"><joint name="c" axis="0 1 0"/><geom size=".05" pos=".1 0 0"/></body>
</worldbody>
<tendon><fixed name="t"><joint joint="a" coef="1"/></fixed><fixed name="u"><joint joint="b" coef="1"/></fixed>
<fixed name="across" stiffness="1"><joint joint="a" coef="1"/><joint joint="c" coef="1"/></fixed></tendon>
<equality><tendon name="tied" tendon1="t" tendon2="u"/></equality>
<actuator><motor name="pull" tendon="t"/><motor name="far" tendon="across"/></actuator></mujoco>"""
TWICE = """<mujoco><asset><model name="ropes" file="ropes.xml"/></asset><worldbody>
<attach model="ropes" body="up" prefix="one_"/>
<replicate count="2" offset="0 0 1" sep="-"><attach model="ropes" body="up" prefix="two_"/></replicate>
<frame pos="0 3 0"><attach model="ropes" prefix="all_"/></frame></worldbody></mujoco>"""


def test_what_refers_to_tendons_comes_along(twin, tmp_path):
    """Actuators on tendons and equalities between them, of a part of a model and of its replicas."""
    (tmp_path / "ropes.xml").write_text(ROPES)
    (tmp_path / "twice.xml").write_text(TWICE)
    pair = twin(tmp_path / "twice.xml")
    mj = pair.mj
    assert mj.nu == 5
    assert [one["name"] for one in pair.report.actuators] == [mj.actuator(i).name for i in range(mj.nu)]
    assert sorted(pair.builder.tendon_equality_key) == sorted(mj.equality(i).name for i in range(mj.neq))
    assert sorted(pair.report.tendons) == sorted(mj.tendon(i).name for i in range(mj.ntendon))
    for number, entry in enumerate(pair.report.actuators):
        name = mj.tendon(mj.actuator_trnid[number, 0]).name
        assert entry["target"] == ("tendon", name)
        assert entry["tendon"] == pair.report.tendons[name]
