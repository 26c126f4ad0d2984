"""MJCF <equality>: constraints that move bodies as MuJoCo's do, and what is said about the rest."""

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim import ConstraintType
from newtonsim.geometry.transforms import (
    IDENTITY,
    quat_rotate,
    transform_inverse,
    transform_multiply,
    transform_point,
)
from newtonsim.importers import parse_mjcf

HEAD = """<mujoco><compiler angle="radian"/><option timestep="0.0005" integrator="implicitfast"/>
<default><geom contype="0" conaffinity="0"/>
<equality solref="0.002 1" solimp="0.9999 0.9999 0.001"/></default>
<worldbody>"""
LEFT = """<body name="left" pos="0 0 1" quat="0.9 0.1 0.2 -0.3"><joint name="a" axis="0 1 0.2"/>
<geom type="capsule" fromto="0 0 0 .4 0 .1" size=".03"/><site name="tip" pos=".4 0 .1" euler="0.3 0.1 0"/>
<body name="lower" pos=".4 0 .1"><joint name="c" type="ball"/>
<geom type="box" size=".1 .05 .02" pos=".1 0 0"/>
</body></body>"""
RIGHT = """<body name="right" pos="0.7 0.2 1.1"><joint name="b" type="slide" axis="0 0 1"/><joint name="d"
axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 .3 .1" size=".03"/><site name="hand" pos="0 .3 .1"/></body>
<body name="loose" pos="-.3 .1 .8" euler="0.3 -0.2 0.5"><freejoint/><geom type="box" size=".1 .06 .03"/>
<site name="grip" pos=".1 0 0" euler="0 0.7 0"/></body>"""
SCENES = {
    "connect": '<connect body1="left" body2="loose" anchor="0.1 0.05 0"/>',
    "connect to the world": '<connect body1="loose" anchor="0.1 0.05 0"/>',
    "connect in a tree": '<connect body1="lower" body2="right" anchor="0.2 0 0"/>',
    "weld": '<weld body1="lower" body2="loose"/>',
    "weld the other way": '<weld body1="loose" body2="lower" anchor="0.1 0 0.2"/>',
    "weld to the world": '<weld body1="loose"/>',
    "joint": '<joint joint1="d" joint2="a" polycoef="0 -0.5 0 0 0"/>',
    "cam": '<joint joint1="b" joint2="a" polycoef="0 0.2 0.3 -0.1 0.05"/>',
}
APART = {
    "held joint": ('<joint joint1="a" polycoef="0.02 0 0 0 0"/>', (None, "left")),
    "sites": ('<connect site1="tip" site2="grip"/>', (None, None)),
    "welded sites": ('<weld site1="hand" site2="grip"/>', ("right", "loose")),
    "weld in a pose": (
        '<weld body1="left" body2="loose" relpose="-.1 .06 -.21 0.9 0.05 -0.02 0.4"/>',
        ("left", "loose"),
    ),
    "weld in a pose about a point": (
        '<weld body1="loose" body2="right" anchor="0 .1 .2" relpose=".3 .1 .2 0.9 0.3 -0.02 0.4"/>',
        ("loose", "right"),
    ),
}


def scene(equality: str) -> str:
    return f"{HEAD}{LEFT}{RIGHT}</worldbody><equality>{equality}</equality></mujoco>"


@pytest.mark.parametrize("kind", SCENES)
def test_constraints_move_bodies_as_mujoco_does(twin, kind: str):
    """0.4 s of swinging and falling; MuJoCo's constraints are soft, hence a millimetre or two."""
    pair = twin(scene(SCENES[kind]), armature=0.0, stiffness=0.0, damping=0.0)
    simulator = newtonsim.Simulator(
        pair.model, newtonsim.FeatherstoneSolver(pair.model), pair.mj.opt.timestep
    )
    before = pair.data.xpos.copy()
    simulator.step(800)
    for _ in range(800):
        mujoco.mj_step(pair.mj, pair.data)
    mujoco.mj_kinematics(pair.mj, pair.data)
    assert np.abs(pair.data.xpos - before).max() > 0.1
    body_q = simulator.state.body_q.numpy()
    for ours, theirs in pair.bodies():
        name = pair.builder.body_key[ours]
        np.testing.assert_allclose(body_q[ours, :3], pair.data.xpos[theirs], atol=5.0e-3, err_msg=name)
        quaternion = pair.data.xquat[theirs][[1, 2, 3, 0]]
        assert abs(body_q[ours, 3:] @ quaternion) > 1.0 - 1.0e-4, name


@pytest.mark.parametrize("kind", APART)
def test_what_starts_apart_comes_together_as_in_mujoco(twin, kind: str):
    """Without gravity and with damping, both ends find the pose that the constraint asks for."""
    equality, names = APART[kind]
    # MuJoCo needs time to close wide gaps
    text = scene(equality).replace("0.002 1", "0.05 1")
    pair = twin(text, armature=0.0, stiffness=0.0, damping=0.0)
    pair.mj.opt.gravity[:] = 0.0
    pair.mj.dof_damping[:] = 0.5
    pair.model.gravity = (0.0, 0.0, 0.0)
    pair.model.joint_damping.fill_(0.5)
    simulator = newtonsim.Simulator(pair.model, newtonsim.FeatherstoneSolver(pair.model), 1.0 / 240.0)
    simulator.step(1200)
    for _ in range(10000):
        mujoco.mj_step(pair.mj, pair.data)
    mujoco.mj_kinematics(pair.mj, pair.data)
    body_q = {
        pair.builder.body_key[ours]: simulator.state.body_q.numpy()[ours].astype(float)
        for ours, _ in pair.bodies()
    }
    if names == (None, None):
        ends = [
            transform_point(body_q[name], point)
            for name, point in (("left", (0.4, 0.0, 0.1)), ("loose", (0.1, 0.0, 0.0)))
        ]
        np.testing.assert_allclose(ends[0], ends[1], atol=1.0e-4)
        assert np.linalg.norm(pair.data.site("tip").xpos - pair.data.site("grip").xpos) < 1.0e-3
        return
    theirs = {
        name: np.concatenate([pair.data.body(name).xpos, pair.data.body(name).xquat[[1, 2, 3, 0]]])
        for name in ("left", "right", "loose")
    }
    relative = []
    for poses in (body_q, theirs):
        first = IDENTITY if names[0] is None else poses[names[0]]
        relative.append(transform_multiply(transform_inverse(first), poses[names[1]]))
    np.testing.assert_allclose(relative[0][:3], relative[1][:3], atol=2.0e-3)
    assert abs(relative[0][3:] @ relative[1][3:]) > 1.0 - 1.0e-5


def test_scale_turns_lengths_and_polynomials(twin):
    """With all lengths doubled, the anchors are twice as far and a slide moves twice as far per radian."""
    text = SCENES["connect"] + APART["weld in a pose"][0] + SCENES["cam"]
    plain, scaled = twin(scene(text)).builder, twin(scene(text), scale=2.0).builder
    for constraint in range(2):
        for frames in ("constraint_X_p", "constraint_X_c"):
            small, large = (np.array(getattr(b, frames)[constraint], float) for b in (plain, scaled))
            np.testing.assert_allclose(large[:3], 2.0 * small[:3], atol=1.0e-6)
            np.testing.assert_allclose(large[3:], small[3:], atol=1.0e-6)
    np.testing.assert_allclose(plain.constraint_coefficients[2], (0.0, 0.2, 0.3, -0.1, 0.05))
    np.testing.assert_allclose(scaled.constraint_coefficients[2], (0.0, 0.4, 0.6, -0.2, 0.1))


def test_reference_positions_are_taken_off():
    """y - y0 is a polynomial of x - x0; the zeros of our coordinates are the file's references."""
    text = """<mujoco><worldbody><body><joint name="x" ref="30"/><geom size=".1"/></body>
    <body><joint name="y" type="slide" ref=".5"/><geom size=".1"/></body></worldbody>
    <equality><joint joint1="y" joint2="x" polycoef="0.1 2 0 0 0"/></equality></mujoco>"""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = parse_mjcf(text, builder)
    assert builder.constraint_type == [ConstraintType.COUPLING]
    index = report.constraints["joint_0"]
    axes = [builder.joint_axis_start[report.joints[name]] for name in ("y", "x")]
    assert list(builder.constraint_coupled_axes[index]) == axes
    np.testing.assert_allclose(builder.constraint_coefficients[index][:2], (0.1, 2.0))


def test_names_defaults_and_switches():
    tail = """<equality><connect name="pin" body1="left" body2="loose" anchor="0 0 0" active="false"/>
    <weld name="glue" body1="right" solref="0.1 1"/></equality>"""
    text = f"{HEAD}{LEFT}{RIGHT}</worldbody>{tail}</mujoco>"
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_body()
    builder.add_constraint_weld(-1, 0)
    report = parse_mjcf(text, builder, floating=None)
    assert report.constraints == {"pin": 1, "glue": 2}
    assert builder.constraint_key == ["constraint_0", "pin", "glue"]
    assert builder.constraint_enabled == [1, 0, 1]
    assert builder.constraint_solref == [(0.0, 0.0), (0.002, 1.0), (0.1, 1.0)]
    assert builder.constraint_solimp[1:] == [(0.9999, 0.9999, 0.001, 0.5, 2.0)] * 2
    assert not [entry for entry in report.entries if "solref" in entry.message]
    off = text.replace('integrator="implicitfast"/>', '><flag equality="disable"/></option>')
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(off, builder, floating=None, strict=True)
    assert builder.constraint_enabled == [0, 0]


def test_turned_worlds_carry_their_anchors():
    """A body tied to the world swings alike in a scene that is turned and moved."""
    text = f"{HEAD}{RIGHT}</worldbody><equality>{SCENES['connect to the world']}</equality></mujoco>"
    poses = []
    pose = np.array([1.0, 2.0, 3.0, *np.array([0.1, 0.2, 0.5, 0.8]) / np.linalg.norm([0.1, 0.2, 0.5, 0.8])])
    for xform in (None, pose):
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        parse_mjcf(text, builder, xform=xform, floating=None)
        builder.gravity = np.array(
            [0.0, 0.0, -9.81] if xform is None else quat_rotate(pose[3:], [0, 0, -9.81])
        )
        model = builder.finalize("cpu")
        simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 1.0 / 240.0)
        simulator.step(120)
        poses.append(simulator.state.body_q.numpy()[-1].astype(float))
    expected = pose[:3] + quat_rotate(pose[3:], poses[0][:3])
    np.testing.assert_allclose(poses[1][:3], expected, atol=1.0e-3)


def test_limits_of_ball_joints_bound_swing_and_twist():
    text = """<mujoco><compiler angle="degree"/><worldbody><body name="b"><joint name="hip" type="ball"
    range="0 60"/><geom size=".1"/></body></worldbody></mujoco>"""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = parse_mjcf(text, builder, strict=True)
    joint = report.joints["hip"]
    limit = np.deg2rad(60.0)
    assert builder.joint_swing_limit[joint] == pytest.approx(limit)
    assert builder.joint_twist_upper[joint] == -builder.joint_twist_lower[joint] == pytest.approx(limit)
    assert "swing and twist" in report.of_kind("approximated")[0].message


def test_what_is_left_out_takes_its_constraints_along():
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    tail = "".join(SCENES[kind] for kind in ("connect", "joint", "weld to the world"))
    tail += APART["welded sites"][0]
    text = scene(tail)
    parse_mjcf(text, builder, floating=None, ignore_names=["left", "right"])
    assert builder.constraint_key == ["weld_0"]


BROKEN = {
    "unknown body": ('<connect body1="nobody" anchor="0 0 0"/>', "the body 'nobody' is not defined"),
    "unknown joint": ('<joint joint1="a" joint2="zz"/>', "the joint 'zz' is not defined"),
    "unknown site": ('<weld site1="tip" site2="zz"/>', "the site 'zz' is not defined"),
    "one site": ('<weld site1="tip"/>', "'site2' is missing"),
    "no anchor": ('<connect body1="left" body2="right"/>', "'anchor' is missing"),
    "no ends": ("<weld/>", "'body1' is missing"),
    "ball": ('<joint joint1="c" joint2="a"/>', "'c' is neither a hinge nor a slide"),
    "itself": ('<joint joint1="a" joint2="a"/>', "cannot follow itself"),
    "coefficients": ('<joint joint1="a" polycoef="1 2 3 4 5 6"/>', "'polycoef' has 6 values"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_constraints_are_named(case: str):
    equality, message = BROKEN[case]
    text = scene(equality)
    with pytest.raises(newtonsim.ImportFileError, match=message) as raised:
        parse_mjcf(text, newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0)))
    assert raised.value.element == equality.split()[0].strip("</>")
    assert raised.value.line is not None


def test_ends_on_one_body_are_ignored():
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    text = f"{HEAD}{LEFT}</worldbody><equality><weld body1='left' body2='left'/></equality></mujoco>"
    report = parse_mjcf(text, builder)
    assert builder.constraint_count == 0
    assert any("both ends" in entry.message for entry in report.of_kind("ignored"))
