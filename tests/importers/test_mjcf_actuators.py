"""Actuators of MJCF: the same torque as in MuJoCo for the same control, position and velocity."""

import math
import warnings

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.importers import parse_mjcf
from newtonsim.scene.enums import JointMode
from newtonsim.solvers import SemiImplicitSolver

TEXT = """<mujoco><compiler angle="radian"/>{defaults}<worldbody>
  <body name="a"><joint name="j" axis="0 1 0" ref=".3" range="-1 2"/><geom size=".1"/><site name="x"/>
    <body name="b" pos="0 0 .3"><joint name="s" type="slide" axis="0 1 0"/><geom size=".1"/></body></body>
  </worldbody><actuator>{actuators}</actuator></mujoco>"""


def torque(builder, act: np.ndarray, axis: int, q: float, qd: float) -> float:
    """Effort of one drive as `newtonsim.scene.enums.JointMode` defines it, with its limit."""
    ke, kd = builder.joint_target_ke[axis], builder.joint_target_kd[axis]
    value = {
        JointMode.FORCE: act[axis],
        JointMode.TARGET_POSITION: ke * (act[axis] - q) - kd * qd,
        JointMode.TARGET_VELOCITY: ke * (act[axis] - qd),
    }[JointMode(builder.joint_axis_mode[axis])]
    limit, lower = builder.joint_effort_limit[axis], builder.joint_effort_lower[axis]
    return min(max(value, -limit if lower == -math.inf else lower), limit)


CASES = {
    "motor": '<motor joint="j" gear="3"/>',
    "motor with range": '<motor joint="j" gear="-3" ctrlrange="-.4 .4"/>',
    "motor with force range": '<motor joint="j" gear="3" forcerange="-.5 .5"/>',
    "two motors": '<motor joint="j" gear="3" ctrlrange="-1 1"/><motor joint="j" gear="2" ctrlrange="-1 1"/>',
    "position": '<position joint="j" kp="20" kv="3"/>',
    "position with gear": '<position joint="j" kp="20" kv="3" gear="2"/>',
    "position with one-sided range": '<position joint="j" kp="20" kv="3" gear="-2" forcerange="-3 0"/>',
    "motor with one-sided range": '<motor joint="j" gear="-3" forcerange="-.1 .5"/>',
    "position on slide": '<position joint="s" kp="20" kv="3"/>',
    "position with range": '<position joint="j" kp="20" ctrlrange=".5 .6" forcerange="-3 3"/>',
    "position inherits range": '<position joint="j" kp="20" inheritrange="1"/>',
    "velocity": '<velocity joint="j" kv="4"/>',
    "velocity with gear": '<velocity joint="j" kv="4" gear="2.5"/>',
    "position and velocity": '<position joint="j" kp="20"/><velocity joint="j" kv="4" gear="2"/>',
    "velocity, motor and position": '<velocity joint="j" kv="4"/><motor joint="j" gear="3"/>'
    '<position joint="j" kp="20" kv="1" gear="-1"/>',
    "motor with a force range, and damper": '<general joint="j" gear="-3" gainprm="2" ctrlrange="-.6 1" '
    'forcerange="-.4 .9"/><velocity joint="j" kv="4"/>',
    "two motors with force ranges": '<motor joint="j" gear="3" forcerange="-.4 -.1"/>'
    '<general joint="j" gear="2" gainprm="-3" biastype="affine" biasprm=".5 0 0" forcerange="-1 .8"/>',
    "zero range is not a range": '<motor joint="j" ctrlrange="0 0"/>',
    "general motor": '<general joint="j" gainprm="5"/>',
    "general servo": '<general joint="j" gainprm="5" biastype="affine" biasprm=".2 -7 -.5"/>',
    "general velocity": '<general joint="s" gainprm="5" biastype="affine" biasprm=".2 0 -2"/>',
    "several": '<motor joint="s" gear="4"/><position joint="j" kp="9"/>',
}


@pytest.mark.parametrize("case", CASES)
def test_torques_are_those_of_mujoco(twin, case):
    pair = twin(TEXT.format(defaults="", actuators=CASES[case]))
    rng = np.random.default_rng(1)
    axes = {name: pair.builder.joint_axis_start[pair.report.joints[name]] for name in ("j", "s")}
    for _ in range(10):
        ctrl, qpos, qvel = rng.uniform(-1, 1, pair.mj.nu), rng.uniform(-1, 1, 2), rng.uniform(-1, 1, 2)
        pair.data.ctrl[:], pair.data.qpos[:], pair.data.qvel[:] = ctrl, qpos, qvel
        mujoco.mj_forward(pair.mj, pair.data)
        act = np.array(pair.builder.joint_act) * 0.0
        for value, actuator in zip(ctrl, pair.report.actuators):
            if actuator["axis"] is not None:
                low, high = actuator["ctrl_range"] or (-math.inf, math.inf)
                act[actuator["axis"]] += actuator["scale"] * min(max(value, low), high) + actuator["offset"]
        for name, dof, ref in (("j", 0, 0.3), ("s", 1, 0.0)):
            ours = torque(pair.builder, act, axes[name], qpos[dof] - ref, qvel[dof])
            assert ours == pytest.approx(pair.data.qfrc_actuator[dof], abs=1e-9)


@pytest.mark.parametrize("case", ["position", "position with range", "general servo", "velocity"])
def test_initial_targets_are_those_of_zero_control(twin, case):
    pair = twin(TEXT.format(defaults="", actuators=CASES[case]))
    mujoco.mj_forward(pair.mj, pair.data)
    axis = pair.builder.joint_axis_start[pair.report.joints["j"]]
    ours = torque(pair.builder, np.array(pair.builder.joint_act), axis, 0.0, 0.0)
    assert ours == pytest.approx(pair.data.qfrc_actuator[0], abs=1e-9)


def test_defaults_of_actuators(twin):
    defaults = """<default><motor ctrlrange="-.4 .4"/><position kp="7"/>
      <default class="strong"><motor gear="50"/></default></default>"""
    actuators = '<motor name="m" class="strong" joint="s"/><position name="p" joint="j"/>'
    pair = twin(TEXT.format(defaults=defaults, actuators=actuators))
    axes = {actuator["name"]: actuator["axis"] for actuator in pair.report.actuators}
    assert pair.builder.joint_effort_limit[axes["m"]] == pytest.approx(20.0)
    assert pair.builder.joint_target_ke[axes["p"]] == pytest.approx(pair.mj.actuator_gainprm[1, 0])


def test_joint_force_range_limits_the_drive(twin):
    text = TEXT.replace('type="slide"', 'type="slide" actuatorfrcrange="-2 2"')
    pair = twin(text.format(defaults="", actuators='<motor joint="s" ctrlrange="-5 5"/>'))
    assert pair.builder.joint_effort_limit[pair.report.actuators[0]["axis"]] == 2.0


@pytest.mark.parametrize(
    ("actuator", "words"),
    [
        ('<cylinder joint="j"/>', "cylinder"),
        ('<damper joint="j" ctrlrange="0 1"/>', "damper"),
        ('<intvelocity joint="j" actrange="-1 1"/>', "intvelocity"),
        ('<general joint="j" dyntype="filter" dynprm=".1"/>', "activation dynamics"),
    ],
)
def test_what_has_no_drive_is_named_in_one_warning(z_up, actuator, words):
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=words) as caught:
        parse_mjcf(TEXT.format(defaults="", actuators=actuator), newtonsim.ModelBuilder())
    assert len(caught) == 1
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=f"further call.*{words}.*unless"):
        parse_mjcf(TEXT.format(defaults="", actuators=actuator), z_up, strict=True)


@pytest.mark.parametrize(
    ("actuator", "words"),
    [
        ('<muscle joint="j"/>', "muscle"),
        ('<motor site="x"/>', "site"),
        ('<intvelocity joint="j" actrange="-1 1"/>' * 2, "one of several"),
    ],
)
def test_what_solvers_have_is_no_warning_of_the_import(z_up, actuator, words):
    """Solvers that lack it warn of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = parse_mjcf(TEXT.format(defaults="", actuators=actuator), z_up, strict=True)
    assert all(words in remark.message for remark in report.of_kind("deferred"))
    assert len(report.of_kind("deferred")) == z_up.actuator_count
    model = z_up.finalize("cpu")
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="SemiImplicitSolver ignores . actuators"):
        SemiImplicitSolver(model)


@pytest.mark.parametrize("gear", [0.1, -0.1, 10.0])
def test_the_effort_of_a_motor_is_what_mujoco_makes_of_the_largest_input(gear, z_up):
    text = TEXT.format(defaults="", actuators=f'<motor joint="j" gear="{gear}" ctrlrange="-2 2"/>')
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.ctrl[:] = 5.0
    mujoco.mj_forward(model, data)
    report = parse_mjcf(text, z_up)
    assert z_up.joint_effort_limit[report.actuators[0]["axis"]] == abs(data.actuator_force[0] * gear)


UNKNOWN = [
    '<general joint="j" dyntype="user"/>',
    '<general joint="j" gaintype="user"/>',
    '<dcmotor joint="j"/>',
]


@pytest.mark.parametrize("actuator", UNKNOWN)
def test_strict_readers_refuse_what_no_call_adds(z_up, actuator):
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="read but not modelled"):
        parse_mjcf(TEXT.format(defaults="", actuators=actuator), z_up)
    with pytest.raises(newtonsim.ImportFileError, match="not supported"):
        parse_mjcf(TEXT.format(defaults="", actuators=actuator), z_up, strict=True)


def test_unknown_joint_of_an_actuator_is_an_error(z_up):
    with pytest.raises(newtonsim.ImportFileError, match="'nope' is not defined"):
        parse_mjcf(TEXT.format(defaults="", actuators='<motor joint="nope"/>'), z_up)


def test_plain_motors_do_not_warn(z_up):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_mjcf(TEXT.format(defaults="", actuators=CASES["motor"]), z_up, strict=True)


@pytest.mark.parametrize("servo", ['<position joint="j" kp="-30"/>', '<velocity joint="j" kv="-2"/>'])
def test_a_servo_that_pushes_away_is_told_and_its_law_kept(servo, z_up):
    """MuJoCo compiles negative gains and is driven away by them; no drive is, but the general actuator."""
    text = f"""<mujoco><worldbody><body><joint name="j" axis="0 1 0"/><geom size=".1" pos="0 0 -.3"/></body>
    </worldbody><actuator>{servo}</actuator></mujoco>"""
    law = mujoco.MjModel.from_xml_string(text)
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="push away from their target"):
        report = parse_mjcf(text, z_up)
    (one,) = report.actuators
    assert one["axis"] is None
    np.testing.assert_allclose(one["law"]["bias"], law.actuator_biasprm[0][:3])
    np.testing.assert_allclose(one["law"]["gain"][0], law.actuator_gainprm[0][0])
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="push away"):
        parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)


BOUNDS = {
    "not symmetric": ('<position joint="j" kp="9" forcerange="-1 4"/>', None),
    "without zero": ('<position joint="j" kp="9" forcerange="1 4"/>', ("approximated", "without zero")),
    "of one of several": (
        '<position joint="j" kp="9" forcerange="-2 2"/><velocity joint="j" kv="1"/>',
        None,
    ),
    "two that are not symmetric": (
        '<position joint="j" kp="9" forcerange="-1 4"/><velocity joint="j" kv="1" forcerange="-2 3"/>',
        ("unsupported", "not symmetric, of a servo on a tendon"),
    ),
    "symmetric": ('<position joint="j" kp="9" forcerange="-2 2"/>', None),
    "wider than the control": (
        '<motor joint="j" ctrlrange="-1 1" forcerange="-1 4"/><velocity joint="j" kv="1"/>',
        None,
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_ranges_of_force_that_a_drive_only_resembles_are_told(name):
    actuators, expected = BOUNDS[name]
    text = (
        '<mujoco><worldbody><body><joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body>'
        f"</worldbody><actuator>{actuators}</actuator></mujoco>"
    )
    mujoco.MjModel.from_xml_string(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", newtonsim.UnsupportedElementWarning)
        report = parse_mjcf(text, newtonsim.ModelBuilder())
    said = [entry for entry in report.entries if "force range" in entry.message]
    assert [entry.kind for entry in said] == ([expected[0]] if expected else [])
    assert all(expected[1] in entry.message for entry in said)
    refused = bool(expected) and expected[0] == "unsupported"
    assert any("force range" in str(one.message) for one in caught) == refused
    if refused:
        with pytest.raises(newtonsim.ImportFileError, match=expected[1]):
            parse_mjcf(text, newtonsim.ModelBuilder(), strict=True)
