"""Joints of MJCF: several per body, chains, reference angles, limits and passive forces."""

import math

import mujoco
import numpy as np
import pytest

from newtonsim.errors import UnsupportedElementWarning
from newtonsim.importers import parse_mjcf
from newtonsim.scene.enums import JointMode, JointType

HEAD = '<compiler angle="radian"/>'
BODIES = """<mujoco>{head}<worldbody>
  <body name="root" pos="0 0 1" euler=".1 .2 .3">
    <joint name="base" axis="0 1 0"/><geom size=".1"/>
    <body name="b" pos=".3 .2 .1" euler=".3 -.2 .5">{joints}<geom size=".1" pos=".1 0 0"/>
      <body name="tip" pos=".1 .1 .1" quat="1 2 0 1"><joint name="last" axis="1 1 0" pos=".05 0 0"/><geom
        size=".1"/></body>
    </body>
  </body></worldbody></mujoco>"""

CASES = {
    "one hinge": ('<joint name="a" axis="1 2 3" pos=".1 .2 .3"/>', ["REVOLUTE"]),
    "one slide": ('<joint name="a" type="slide" axis="1 2 3" pos=".1 .2 .3"/>', ["PRISMATIC"]),
    "two hinges": (
        '<joint name="a" axis="1 2 3" pos=".1 0 0"/><joint name="c" axis="0 1 .5" pos=".1 0 0"/>',
        ["UNIVERSAL"],
    ),
    "three hinges": (
        '<joint name="a" axis="1 0 0"/><joint name="c" axis="0 1 .5"/><joint name="d" axis="1 1 1"/>',
        ["COMPOUND"],
    ),
    "slides then hinges": (
        '<joint name="a" type="slide" axis="1 0 0" pos="1 1 1"/><joint name="c" type="slide" axis="0 1 1"/>'
        '<joint name="d" axis="0 1 .5" pos=".1 .2 0"/><joint name="e" axis="1 0 0" pos=".1 .2 0"/>',
        ["D6"],
    ),
    "two slides": (
        '<joint name="a" type="slide" axis="1 0 0"/><joint name="c" type="slide" axis="1 1 0"/>',
        ["D6"],
    ),
    "ball": ('<joint name="a" type="ball" pos=".1 .2 .3"/>', ["BALL"]),
    "other anchors": (
        '<joint name="a" axis="1 2 3" pos=".1 0 0"/><joint name="c" axis="0 1 .5" pos="0 .2 0"/>',
        ["REVOLUTE", "REVOLUTE"],
    ),
    "hinge then slide": (
        '<joint name="a" axis="1 2 3" pos=".1 0 0"/><joint name="c" type="slide" axis="0 1 .5"/>',
        ["REVOLUTE", "PRISMATIC"],
    ),
    "slide, hinge, slide, hinge": (
        '<joint name="a" type="slide" axis="1 2 3"/><joint name="c" axis="0 1 .5" pos=".1 0 0"/>'
        '<joint name="d" type="slide" axis="1 0 0"/><joint name="e" axis="0 0 1" pos="0 .3 0"/>',
        ["D6", "D6"],
    ),
    "slide then ball": (
        '<joint name="a" type="slide" axis="1 2 3"/><joint name="c" type="ball" pos=".1 .2 0"/>',
        ["PRISMATIC", "BALL"],
    ),
    "hinge then ball": (
        '<joint name="a" axis="1 2 3" pos=".2 0 0"/><joint name="c" type="ball" pos=".1 .2 0"/>',
        ["REVOLUTE", "BALL"],
    ),
    "four hinges": (
        '<joint name="a" axis="1 0 0"/><joint name="c" axis="0 1 0"/><joint name="d" axis="0 0 1"/>'
        '<joint name="e" axis="1 1 0"/>',
        ["COMPOUND", "REVOLUTE"],
    ),
    "no joint": ("", ["FIXED"]),
}


@pytest.mark.parametrize("case", CASES)
def test_joints_of_one_body_move_it_as_in_mujoco(twin, case):
    joints, kinds = CASES[case]
    pair = twin(BODIES.format(head=HEAD, joints=joints)).check()
    made = [JointType(kind).name for kind in pair.builder.joint_type]
    assert made == ["REVOLUTE", *kinds, "REVOLUTE"]
    links = [key for key in pair.builder.body_key if "__" in key]
    assert len(links) == len(kinds) - 1
    assert all(key.startswith("b__") for key in links)
    assert set(pair.report.joints) >= {pair.mj.joint(i).name for i in range(pair.mj.njnt)}


@pytest.mark.parametrize("case", CASES)
def test_each_axis_can_be_a_joint_of_its_own(twin, case):
    """With the name that the file gives it, and the motion and mass matrix of MuJoCo."""
    from newtonsim import dynamics

    pair = twin(BODIES.format(head=HEAD, joints=CASES[case][0]), single_axis_joints=True).check()
    names = [pair.mj.joint(i).name for i in range(pair.mj.njnt)]
    assert [key for key in pair.builder.joint_key if key != "b_fixed"] == names
    of_axis = {"hinge": "REVOLUTE", "slide": "PRISMATIC", "ball": "BALL"}
    kinds = [of_axis[mujoco.mjtJoint(kind).name.removeprefix("mjJNT_").lower()] for kind in pair.mj.jnt_type]
    made = [JointType(kind).name for kind in pair.builder.joint_type]
    assert [kind for kind in made if kind != "FIXED"] == kinds
    if "BALL" in kinds:  # whose coordinates have another order there
        return
    dense = np.zeros((pair.mj.nv, pair.mj.nv))
    mujoco.mj_forward(pair.mj, pair.data)
    mujoco.mj_fullM(pair.mj, pair.data, dense)
    state = pair.model.state()
    state.joint_q.assign(pair.data.qpos.astype(np.float32))
    ours = dynamics.mass_matrix(pair.model, state).numpy()[0]
    np.testing.assert_allclose(ours, dense, atol=1e-4 * dense.max())


def test_links_of_a_chain_weigh_nothing_that_matters(twin):
    pair = twin(BODIES.format(head=HEAD, joints=CASES["hinge then slide"][0]))
    link = pair.builder.body_key.index("b__a")
    assert 0.0 < pair.builder.body_mass[link] < 2e-6 * pair.builder.body_mass[link + 1]


def test_mass_matrix_of_a_chain_is_that_of_mujoco(twin):
    from newtonsim import dynamics

    pair = twin(BODIES.format(head=HEAD, joints=CASES["hinge then slide"][0]))
    pair.check_poses(3)
    dense = np.zeros((pair.mj.nv, pair.mj.nv))
    mujoco.mj_forward(pair.mj, pair.data)
    mujoco.mj_fullM(pair.mj, pair.data, dense)
    state = pair.model.state()
    state.joint_q.assign(pair.data.qpos.astype(np.float32))
    ours = dynamics.mass_matrix(pair.model, state).numpy()[0]
    np.testing.assert_allclose(ours, dense, atol=1e-4 * dense.max())


def test_reference_angles_shift_coordinates_limits_and_springs(twin):
    joints = """<joint name="a" axis="1 2 3" ref=".4" springref=".1" range="-.5 1" stiffness="3"/>
      <joint name="c" type="slide" axis="0 1 0" ref=".2" springref="-.1" range="-.3 .6" stiffness="2"/>"""
    pair = twin(BODIES.format(head=HEAD, joints=joints)).check()
    assert pair.report.joint_refs == {"a": 0.4, "c": 0.2}
    builder = pair.builder
    first, second = (builder.joint_axis_start[pair.report.joints[name]] for name in ("a", "c"))
    limits = [(builder.joint_limit_lower[i], builder.joint_limit_upper[i]) for i in (first, second)]
    np.testing.assert_allclose(limits, [(-0.9, 0.6), (-0.5, 0.4)], atol=1e-12)
    np.testing.assert_allclose(
        [builder.joint_spring_ref[i] for i in (first, second)], [-0.3, -0.3], atol=1e-12
    )
    # MuJoCo's spring torque at some qpos against ours at the same place
    pair.data.qpos[1:3] = 0.7, 0.5
    mujoco.mj_forward(pair.mj, pair.data)
    for axis, q, dof in ((first, 0.7 - 0.4, 1), (second, 0.5 - 0.2, 2)):
        ours = builder.joint_stiffness[axis] * (builder.joint_spring_ref[axis] - q)
        assert ours == pytest.approx(pair.data.qfrc_spring[dof])


def test_degrees(twin):
    joints = (
        '<joint name="a" axis="1 2 3" ref="20" range="-30 60"/><joint name="c" type="slide" range="-1 2"/>'
    )
    pair = twin(BODIES.format(head="", joints=joints))
    pair.check_poses()
    axis = pair.builder.joint_axis_start[pair.report.joints["a"]]
    assert pair.builder.joint_limit_upper[axis] == pytest.approx(math.radians(40.0))


@pytest.mark.parametrize(
    ("compiler", "attributes", "limited"),
    [
        ("", 'range="-1 1"', True),
        ("", 'range="-1 1" limited="false"', False),
        ('<compiler autolimits="false"/>', 'range="-1 1" limited="true"', True),
        ('<compiler autolimits="false"/>', 'range="-1 1" limited="false"', False),
        ("", "", False),
    ],
)
def test_autolimits(z_up, compiler, attributes, limited):
    body = f'<body><joint type="slide" {attributes}/><geom size=".1"/></body>'
    parse_mjcf(
        f"<mujoco>{compiler}<worldbody>{body}</worldbody></mujoco>",
        z_up,
        joint_limit_lower=-7.0,
        joint_limit_upper=7.0,
    )
    assert z_up.joint_limit_upper == [1.0 if limited else 7.0]
    assert z_up.joint_limit_lower == [-1.0 if limited else -7.0]


def test_armature_arguments(z_up):
    text = """<mujoco><worldbody><body><joint armature=".5"/><geom size=".1"/>
      <body><joint/><geom size=".1"/></body></body></worldbody></mujoco>"""
    parse_mjcf(text, z_up, armature=0.25, armature_scale=3.0)
    assert z_up.joint_armature == [1.5, 0.25]


def test_gains_apply_only_to_files_without_actuators(z_up):
    body = '<worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody>'
    parse_mjcf(f"<mujoco>{body}</mujoco>", z_up, stiffness=7.0, damping=0.5)
    parse_mjcf(f"<mujoco>{body}<actuator/></mujoco>", z_up, stiffness=7.0, damping=0.5)
    parse_mjcf(f"<mujoco>{body}</mujoco>", z_up, stiffness=0.0, damping=0.0)
    assert z_up.joint_target_ke == [7.0, 0.0, 0.0]
    assert z_up.joint_target_kd == [0.5, 0.0, 0.0]
    assert z_up.joint_axis_mode == [JointMode.TARGET_POSITION, JointMode.FORCE, JointMode.FORCE]


def test_ball_and_free_joints_keep_damping_friction_and_armature(z_up):
    text = """<mujoco><worldbody><body><joint type="free" damping="1" armature="2" frictionloss="3"/><geom
      size=".1"/>
      <body><joint type="ball" damping="4" armature="5" frictionloss="6"/><geom size=".1"/></body></body>
      </worldbody></mujoco>"""
    parse_mjcf(text, z_up, floating=None)
    assert z_up.joint_damping == [1.0] * 6 + [4.0] * 3
    assert z_up.joint_armature == [2.0] * 6 + [5.0] * 3
    assert z_up.joint_friction == [3.0] * 6 + [6.0] * 3


def test_joints_that_mujoco_forbids_are_refused(z_up):
    from newtonsim.errors import ImportFileError

    for joints in (
        '<joint type="ball"/><joint/>',
        "<joint/><freejoint/>",
        "<freejoint/><joint/>",
        '<joint axis="0 0 0"/>',
        '<joint range="1 -1"/>',
        '<joint limited="true"/>',
        '<joint name="x"/><joint name="x"/>',
    ):
        with pytest.raises(ImportFileError):
            parse_mjcf(
                f'<mujoco><worldbody><body>{joints}<geom size=".1"/></body></worldbody></mujoco>', z_up
            )
    assert z_up.body_count == 0


def test_spring_dampers_are_those_of_mujoco(z_up):
    """Stiffness and damping from time constants, damping ratios and the inertia at the reference."""
    text = """<mujoco><worldbody><body><joint name="a" axis="0 1 0" springdamper=".3 .7" armature=".02"
      stiffness="5"/><geom size=".1" pos=".3 0 0"/>
      <body pos=".5 0 0"><joint name="b" type="slide" axis="0 .6 .8" springdamper=".1 1.5"/>
      <geom size=".05" pos=".2 0 .1"/><body pos="0 0 .2"><joint name="c" type="ball" springdamper=".2 1"/>
      <geom type="box" size=".1 .02 .03" pos=".1 0 0"/></body></body></body></worldbody></mujoco>"""
    theirs = mujoco.MjModel.from_xml_string(text)
    with pytest.warns(UnsupportedElementWarning, match="stiffness of ball joints"):
        parse_mjcf(text, z_up, stiffness=0.0, damping=0.0)
    np.testing.assert_allclose(z_up.joint_stiffness, theirs.jnt_stiffness[:2], rtol=1e-5)
    np.testing.assert_allclose(z_up.joint_damping, theirs.dof_damping, rtol=1e-5)
