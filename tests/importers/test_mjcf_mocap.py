"""Mocap bodies go where the user says, as in MuJoCo."""

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.importers import parse_mjcf
from newtonsim.scene.enums import JointType
from newtonsim.utils import export_mjcf

PUSHED = """<mujoco><option timestep="0.002"/><worldbody>
<geom type="plane" size="5 5 0.1"/>
<body name="paddle" mocap="true" pos="-0.2 0 0.1"><geom type="box" size="0.02 0.2 0.08"/></body>
<body name="box" pos="0 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" friction="0.4"/></body>
</worldbody></mujoco>"""


def load(text: str):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = parse_mjcf(
        text, builder, ignore_inertial_definitions=False, contact_restitution=0.0, strict=True
    )
    return builder.finalize("cpu"), report, mujoco.MjModel.from_xml_string(text)


def test_a_paddle_pushes_a_box_as_in_mujoco():
    """At 0.3 m/s from 0.08 m away: after a second the box is 0.22 m further, ahead of the paddle."""
    model, report, oracle = load(PUSHED)
    paddle, box = report.bodies["paddle"], report.bodies["box"]
    assert model.body_mass.numpy()[paddle] == 0.0
    speed, dt = 0.3, 0.002
    state, data = model.state(), mujoco.MjData(oracle)
    velocity = np.zeros((2, 6), np.float32)
    velocity[paddle, 3] = speed
    velocity[box] = 0.0
    solver = newtonsim.FeatherstoneSolver(model)
    for step in range(500):
        qd = state.body_qd.numpy()
        qd[paddle] = velocity[paddle]
        state.body_qd.assign(qd)
        solver.step(model, state, state, None, None, dt)
        data.mocap_pos[0, 0] = -0.2 + speed * dt * (step + 1)
        mujoco.mj_step(oracle, data)
    ours = state.body_q.numpy()
    assert ours[paddle, 0] == pytest.approx(0.1, abs=1e-4)
    assert ours[box, 0] == pytest.approx(0.22, abs=2e-3)
    # MuJoCo takes the paddle to stand still in each step: its soft contact gives way by a centimetre
    assert data.xpos[2, 0] == pytest.approx(ours[box, 0], abs=0.012)
    np.testing.assert_allclose(ours[box, 1:3], data.xpos[2, 1:], atol=2e-3)


def test_one_that_carries_others_is_fixed_and_says_so():
    inside = '<body name="bob"><joint axis="0 1 0"/><geom size="0.05"/></body>'
    text = f'<mujoco><worldbody><body name="hand" mocap="true">{inside}</body></worldbody></mujoco>'
    builder = newtonsim.ModelBuilder()
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="carries other bodies is fixed in place"):
        parse_mjcf(text, builder)
    assert [JointType(kind).name for kind in builder.joint_type] == ["FIXED", "REVOLUTE"]


def test_a_kinematic_body_is_written_and_comes_back(tmp_path):
    model, report, _ = load(PUSHED)
    written = export_mjcf(model, tmp_path / "out.xml")
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    again = parse_mjcf(written.path, builder, **written.read_with)
    paddle = again.bodies[written.bodies[report.bodies["paddle"]]]
    assert builder.body_mass[paddle] == 0.0
    assert paddle not in list(builder.joint_child)
    np.testing.assert_allclose(list(builder.body_q[paddle])[:3], (-0.2, 0.0, 0.1), atol=1e-6)


@pytest.mark.parametrize(
    "inside",
    [
        '<body name="a" mocap="true"><joint/><geom size=".1"/></body>',
        '<body name="a"><geom size=".1"/><body name="b" mocap="true"><geom size=".1"/></body></body>',
    ],
)
def test_what_mujoco_refuses_is_refused(inside):
    text = f"<mujoco><worldbody>{inside}</worldbody></mujoco>"
    with pytest.raises(ValueError, match="mocap"):
        mujoco.MjModel.from_xml_string(text)
    with pytest.raises(newtonsim.ImportFileError, match="mocap"):
        parse_mjcf(text, newtonsim.ModelBuilder())


HELD = """<mujoco><option timestep="0.002"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
<body name="still" mocap="true" pos="1 2 3" euler="20 0 0"><geom size=".02"/></body>
<body name="hand" mocap="true" pos="0 0 1"><geom size=".02"/></body></worldbody>
<keyframe><key name="moved" mpos="1 2 3 0.3 0.1 1.1" mquat="1 0 0 0 0.9 0 0.1 0.4"/><key name="turned"
 mquat="1 0 0 0 0 1 0 0"/><key name="plain"/></keyframe></mujoco>"""


@pytest.mark.parametrize("key", ["moved", "turned", "plain"])
def test_mocap_bodies_start_where_the_keyframe_has_them(key):
    theirs = mujoco.MjModel.from_xml_string(HELD)
    data = mujoco.MjData(theirs)
    mujoco.mj_resetDataKeyframe(theirs, data, theirs.key(key).id)
    mujoco.mj_kinematics(theirs, data)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = parse_mjcf(HELD, builder, keyframe=key, strict=True)
    poses = builder.finalize("cpu").state().body_q.numpy()
    for name in ("still", "hand"):
        pose = poses[report.bodies[name]]
        np.testing.assert_allclose(pose[:3], data.body(name).xpos, atol=1e-6)
        quat = data.body(name).xquat[[1, 2, 3, 0]]
        assert abs(pose[3:] @ quat) == pytest.approx(1.0, abs=1e-6)


def test_keyframes_of_other_mocap_bodies_are_told():
    """One that carries others is not a mocap body here."""
    text = """<mujoco><worldbody><body name="hand" mocap="true"><body><joint axis="0 1 0"/><geom size="0.05"/>
    </body></body></worldbody><keyframe><key name="k" mpos="0 0 1"/></keyframe></mujoco>"""
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="not those of its mocap bodies"):
        parse_mjcf(text, newtonsim.ModelBuilder(), keyframe="k")
