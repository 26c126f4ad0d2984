"""Arguments of parse_mjcf, options of the file, sites, keyframes and warnings."""

import warnings

import mujoco
import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.importers import parse_mjcf
from newtonsim.scene.enums import JointType

ROBOT = """<mujoco model="robot">{head}<worldbody>
  <geom name="floor" type="plane" size="1 1 1"/>
  <body name="base" pos="1 2 3" euler="10 20 30"><freejoint name="root"/><geom name="g" type="capsule"
    size=".1 .2"/>
    <site name="s" pos="0 0 .2"/>
    <body name="leg" pos=".1 .2 .3"><joint name="hinge" axis="0 1 0" ref="10"/><geom type="box" size=".1 .1
      .2"/>
      <body name="foot" pos="0 0 -.3"><joint name="slide" type="slide" axis="0 0 1" range="-.1 .2"/>
        <inertial mass=".5" pos="0 .1 0" diaginertia=".01 .02 .02"/><geom size=".05"/></body></body>
    <body name="tail" pos="-.2 0 0"><joint name="ball" type="ball" pos="0 0 .1"/><geom type="capsule"
      size=".05 .1"/></body>
    <body name="hat" pos="0 0 .3"><geom size=".1" mass=".2"/></body>
  </body></worldbody>
  <actuator><motor name="m1" joint="hinge" gear="3" ctrlrange="-1 1"/><position name="p" joint="slide"
    kp="50"/></actuator>
  {tail}</mujoco>"""
PLAIN = ROBOT.format(head="", tail="")


@pytest.mark.parametrize("up_axis", "XYZ")
@pytest.mark.parametrize("up_vector", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
def test_up_axis_is_turned_to_the_up_vector(up_axis, up_vector):
    builder = newtonsim.ModelBuilder(up_vector=up_vector)
    parse_mjcf(PLAIN, builder, up_axis=up_axis, floating=None)
    heights = np.array([list(q)[:3] for q in builder.body_q]) @ np.array(up_vector)
    plain = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(PLAIN, plain, floating=None)
    expected = np.array([list(q)[:3] for q in plain.body_q])[:, "XYZ".index(up_axis)]
    np.testing.assert_allclose(heights, expected, atol=1e-6)
    # coordinates agree with poses
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, model.joint_q, model.joint_qd, None, state)
    np.testing.assert_allclose(state.body_q.numpy(), model.body_q.numpy(), atol=1e-5)


def test_same_up_axis_changes_nothing():
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 1.0, 0.0))
    parse_mjcf(PLAIN, builder, up_axis="Y", floating=None)
    np.testing.assert_allclose(list(builder.body_q[0])[:3], (1.0, 2.0, 3.0), atol=1e-6)


def test_xform_moves_the_whole_scene(z_up):
    xform = wp.transform(wp.vec3(1.0, -2.0, 0.5), wp.quat_from_axis_angle(wp.vec3(0.6, 0.0, 0.8), 1.1))
    parse_mjcf(PLAIN, z_up, floating=None)
    moved = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(PLAIN, moved, xform=xform, floating=None)
    for plain, other in zip(z_up.body_q, moved.body_q):
        np.testing.assert_allclose(list(xform * plain), list(other), atol=1e-6)
    floor = z_up.shape_key.index("floor")
    np.testing.assert_allclose(
        list(xform * z_up.shape_transform[floor]), list(moved.shape_transform[floor]), atol=1e-6
    )


def test_scale(twin):
    plain, big = twin(PLAIN), twin(PLAIN, scale=2.0)
    p, b = plain.builder, big.builder
    for i, key in enumerate(p.body_key):
        np.testing.assert_allclose(list(b.body_q[i])[:3], 2.0 * np.array(list(p.body_q[i])[:3]), atol=1e-6)
        np.testing.assert_allclose(b.body_com[i], 2.0 * np.array(p.body_com[i]), atol=1e-6)
        factor = 1.0 if key in ("foot", "hat") else 8.0  # mass from the file, or from density
        assert b.body_mass[i] == pytest.approx(factor * p.body_mass[i])
        np.testing.assert_allclose(b.body_inertia[i], 4.0 * factor * np.array(p.body_inertia[i]), rtol=1e-6)
    slide = p.joint_axis_start[plain.report.joints["slide"]]
    assert b.joint_limit_upper[slide] == pytest.approx(0.4)
    assert list(b.shape_geo_scale[1])[:2] == pytest.approx([0.2, 0.4])


@pytest.mark.parametrize(
    ("floating", "base_joint", "kind"),
    [
        (None, None, JointType.FREE),
        (True, None, JointType.FREE),
        (False, None, JointType.FIXED),
        (False, "px,py,rz", JointType.D6),
        (None, "px,rz", JointType.D6),
        (True, "px", JointType.FREE),
        (
            False,
            {"joint_type": JointType.REVOLUTE, "angular_axes": [newtonsim.JointAxis((0, 0, 1))]},
            JointType.REVOLUTE,
        ),
    ],
)
def test_floating_and_base_joint(z_up, floating, base_joint, kind):
    report = parse_mjcf(PLAIN, z_up, floating=floating, base_joint=base_joint)
    assert z_up.joint_type[0] == kind
    if isinstance(base_joint, str) and kind == JointType.D6:
        assert sum(z_up.joint_axis_dim[0]) == len(base_joint.split(","))
    np.testing.assert_allclose(list(z_up.body_q[report.bodies["base"]])[:3], (1, 2, 3), atol=1e-6)
    model = z_up.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, model.joint_q, model.joint_qd, None, state)
    np.testing.assert_allclose(state.body_q.numpy(), model.body_q.numpy(), atol=1e-5)


def test_bodies_without_joints_float_only_when_nothing_else_does(z_up):
    bodies = '<body name="table"><geom size=".1"/></body><body name="cup">{}<geom size=".1"/></body>'
    report = parse_mjcf(
        f"<mujoco><worldbody>{bodies.format('<freejoint/>')}</worldbody></mujoco>", z_up, floating=True
    )
    assert [JointType(kind).name for kind in z_up.joint_type] == ["FIXED", "FREE"]
    assert report.bodies == {"table": 0, "cup": 1}
    other = newtonsim.ModelBuilder()
    parse_mjcf(f"<mujoco><worldbody>{bodies.format('')}</worldbody></mujoco>", other, floating=True)
    assert [JointType(kind).name for kind in other.joint_type] == ["FREE", "FREE"]


@pytest.mark.parametrize(
    "wrong", ["qx", "p", "px,,", "", {"armature": 1.0}, {"joint_type": 1, "nonsense": 2}]
)
def test_wrong_base_joint(z_up, wrong):
    if wrong == "px,,":
        parse_mjcf(PLAIN, z_up, base_joint=wrong)
        return
    with pytest.raises(newtonsim.ModelError, match="base_joint"):
        parse_mjcf(PLAIN, z_up, base_joint=wrong)
    assert z_up.body_count == 0


def test_ignored_names_and_classes(z_up):
    report = parse_mjcf(PLAIN, z_up, floating=None, ignore_names=["le.", "ball"])
    assert z_up.body_key == ["base", "tail", "hat"]
    assert JointType(z_up.joint_type[1]) == JointType.FIXED
    assert report.actuators[0]["axis"] is None
    text = """<mujoco><default><default class="gone"/></default><worldbody><body name="a"><joint/><geom
      size=".1"/>
      <body name="b" childclass="gone"><joint name="j"/><geom
        size=".1"/></body></body></worldbody></mujoco>"""
    other = newtonsim.ModelBuilder()
    parse_mjcf(text, other, ignore_classes=["go"])
    assert other.body_key == ["a"]


def test_parse_meshes_false_skips_mesh_geoms_and_their_files(z_up):
    text = """<mujoco><asset><mesh name="m" file="missing.stl"/></asset><worldbody><body>
      <geom type="mesh" mesh="m"/><geom size=".1"/></body></worldbody></mujoco>"""
    parse_mjcf(text, z_up, parse_meshes=False)
    assert z_up.shape_count == 1


def test_contact_and_limit_arguments_arrive(z_up):
    parse_mjcf(
        PLAIN,
        z_up,
        contact_ke=1.0,
        contact_kd=2.0,
        contact_kf=3.0,
        contact_ka=4.0,
        contact_mu=0.5,
        contact_restitution=0.6,
        contact_thickness=0.007,
        limit_ke=8.0,
        limit_kd=9.0,
    )
    names = ("ke", "kd", "kf", "ka", "mu", "restitution")
    for name, value in zip(names, (1.0, 2.0, 3.0, 4.0, 0.5, 0.6), strict=True):
        assert set(getattr(z_up, f"shape_material_{name}")) == {value}
    assert set(z_up.shape_geo_thickness) == {0.007}
    assert set(z_up.joint_limit_ke) == {8.0}
    assert set(z_up.joint_limit_kd) == {9.0}


def test_density_counts_for_geoms_without_their_own(z_up):
    text = """<mujoco><worldbody><body name="a"><geom type="box" size=".1 .1 .1"/></body>
      <body name="b"><geom type="box" size=".1 .1 .1" density="100"/></body></worldbody></mujoco>"""
    parse_mjcf(text, z_up, density=500.0)
    assert z_up.body_mass == pytest.approx([4.0, 0.8])


def test_bodies_without_mass(z_up):
    bodies = '<body name="a"><joint name="j"/><body name="b"><geom size=".1"/></body></body>'
    text = f"<mujoco><worldbody>{bodies}</worldbody></mujoco>"
    parse_mjcf(text, z_up, static_link_mass=0.02)
    assert z_up.body_mass[0] == 0.02
    assert np.linalg.eigvalsh(z_up.body_inertia[0])[0] > 0.0
    other = newtonsim.ModelBuilder()
    parse_mjcf(text, other, ensure_nonstatic_links=False)
    assert other.body_mass[0] == 0.0


def test_inertial_or_geometry(z_up):
    text = """<mujoco><default><default class="visual"/></default><worldbody><body name="a">
      <inertial mass="7" pos="0 0 .1" diaginertia="1 1 1"/><geom class="visual" type="box" size="1 1 1"/>
      <geom type="box" size=".1 .1 .1"/></body><body name="b"><inertial mass="3" pos="0 0 0" diaginertia="1 1
        1"/></body>
      </worldbody></mujoco>"""
    report = parse_mjcf(text, z_up)
    assert z_up.body_mass == pytest.approx([8.0, 3.0])  # the collider alone; no geometry: the file's
    assert any("<inertial> is used" in entry.message for entry in report.entries)
    other = newtonsim.ModelBuilder()
    parse_mjcf(text, other, ignore_inertial_definitions=False)
    assert other.body_mass == pytest.approx([7.0, 3.0])


def test_collapse_fixed_joints_only_touches_this_file(z_up):
    parse_mjcf(PLAIN, z_up, floating=None)
    before = (z_up.body_count, z_up.joint_count)
    report = parse_mjcf(PLAIN, z_up, floating=None, collapse_fixed_joints=True)
    assert (z_up.body_count, z_up.joint_count) == (2 * before[0] - 1, 2 * before[1] - 1)
    assert report.bodies["hat"] == report.bodies["base"] == before[0]
    model = z_up.finalize("cpu")
    assert model.body_mass.numpy()[: before[0]].sum() == pytest.approx(
        model.body_mass.numpy()[before[0] :].sum()
    )


def test_second_import_reports_indices_of_the_whole_builder(z_up):
    first = parse_mjcf(PLAIN, z_up, floating=None)
    second = parse_mjcf(PLAIN, z_up, floating=None)
    for name, index in second.joints.items():
        assert z_up.joint_key[index] == name
        assert index == first.joints[name] + len(first.joints) + 1  # and the joint that welds the hat
        assert z_up.joint_q_start[index] == second.joint_coords[name]
        assert z_up.joint_qd_start[index] == second.joint_dofs[name]
    assert [z_up.shape_body[i] for i in second.shapes["leg"]] == [second.bodies["leg"]]
    assert z_up.joint_axis_start[second.joints["slide"]] == second.actuators[1]["axis"]


# -- options, sites, keyframes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ('<option gravity="0 0 -3.7"/>', (0.0, -3.7, 0.0)),
        ('<option gravity="0 0 0"/>', (0.0, 0.0, 0.0)),
        ('<option gravity="1 2 -3"/>', (1.0, -3.0, -2.0)),
        ('<option><flag gravity="disable"/></option>', (0.0, 0.0, 0.0)),
        ("", (0.0, -1.5, 0.0)),
    ],
)
def test_gravity(option, expected):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 1.0, 0.0), gravity=-1.5)
    parse_mjcf(
        ROBOT.format(head=option, tail=""),
        builder,
        xform=wp.transform(wp.vec3(), wp.quat(0.0, 1.0, 0.0, 0.0)),
    )
    np.testing.assert_allclose(builder.finalize("cpu").gravity, expected, atol=1e-6)


def test_sites_follow_their_bodies(twin):
    pair = twin(PLAIN)
    (site,) = pair.builder.sites
    assert site["name"] == "s"
    pose = pair.builder.body_q[site["body"]] * wp.transform(*site["xform"])
    np.testing.assert_allclose(list(pose)[:3], pair.data.site_xpos[0], atol=1e-6)


KEY = """<keyframe><key name="home" qpos="1 2 3  .5 .5 -.5 .5  .4 .05  1 .2 -.3 .4" qvel="1 2 3 4 5 6  .7 .8
      1 -2 3"
  ctrl=".5 .1"/><key/></keyframe>"""


def test_keyframes_give_the_poses_and_velocities_of_mujoco(twin):
    pair = twin(ROBOT.format(head="", tail=KEY))
    home, second = pair.builder.keyframes
    assert (home["name"], second["name"]) == ("home", "key_1")
    np.testing.assert_allclose(second["joint_q"], pair.builder.joint_q)
    mujoco.mj_resetDataKeyframe(pair.mj, pair.data, 0)
    mujoco.mj_forward(pair.mj, pair.data)
    state = pair.model.state()
    state.joint_q.assign(home["joint_q"])
    state.joint_qd.assign(home["joint_qd"])
    newtonsim.eval_fk(pair.model, state.joint_q, state.joint_qd, None, state)
    pair._compare(state.body_q.numpy())
    for ours, theirs in pair.bodies():
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(pair.mj, pair.data, mujoco.mjtObj.mjOBJ_BODY, theirs, velocity, 0)
        # MuJoCo reports at the frame of the centre of mass, world axes
        np.testing.assert_allclose(state.body_qd.numpy()[ours], velocity, atol=2e-5)
    axes = [actuator["axis"] for actuator in pair.report.actuators]
    np.testing.assert_allclose([home["joint_act"][axis] for axis in axes], [1.5, 0.1])


def test_keyframes_of_wrong_length_are_errors(z_up):
    for attribute in ('qpos="1 2"', 'qvel="1"', 'ctrl="1 2 3"'):
        with pytest.raises(newtonsim.ImportFileError, match="values, the model has"):
            parse_mjcf(ROBOT.format(head="", tail=f"<keyframe><key {attribute}/></keyframe>"), z_up)


def test_a_keyframe_to_start_in(z_up):
    """Coordinates, controls, and poses and velocities of the bodies, as MuJoCo has them after a reset."""
    text = ROBOT.format(head="", tail=KEY)
    mj = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(mj)
    mujoco.mj_resetDataKeyframe(mj, data, 0)
    mujoco.mj_forward(mj, data)
    options = {"floating": None, "ignore_inertial_definitions": False, "keyframe": "home"}
    report = parse_mjcf(text, z_up, **options)
    assert z_up.joint_act == z_up.keyframes[0]["joint_act"]
    for name, body in report.bodies.items():
        found = np.zeros(6)
        mujoco.mj_objectVelocity(mj, data, mujoco.mjtObj.mjOBJ_BODY, mj.body(name).id, found, 0)
        np.testing.assert_allclose(list(z_up.body_qd[body]), found, atol=2e-5)
        np.testing.assert_allclose(list(z_up.body_q[body])[:3], data.body(name).xpos, atol=1e-5)
    with pytest.raises(newtonsim.ModelError, match="'away'; the file has 'home', 'key_1'"):
        parse_mjcf(text, z_up, keyframe="away")
    assert z_up.body_count == len(report.bodies)


def test_margins_are_thickness(z_up):
    """MuJoCo adds the margins of two geoms, as we add their thickness; the argument is for those without."""
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1" margin=".003"/><body pos="0 0 1"><freejoint/>
      <geom name="ball" size=".1" margin=".01" gap=".02" condim="1"/><geom size=".1"/></body>
      </worldbody></mujoco>"""
    report = parse_mjcf(text, z_up, floating=None, contact_thickness=0.5, scale=2.0)
    np.testing.assert_allclose(z_up.shape_geo_thickness, [0.006, 0.02, 0.5])
    assert [entry.message.split()[0] for entry in report.entries] == ["gap,"]


def test_keyframes_survive_replication(z_up):
    parse_mjcf(ROBOT.format(head="", tail=KEY), z_up, floating=None)
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(z_up, 3)
    assert [frame["name"] for frame in scene.finalize("cpu").keyframes] == ["home", "key_1"]


# -- warnings ------------------------------------------------------------------------------------------------


def test_one_warning_names_file_elements_and_lines(tmp_path, z_up):
    tail = """
    <equality><connect body1="leg" body2="tail" anchor="0 0 0"/><flexvert flex="f"/></equality>
    <tendon><fixed stiffness="3" damping="1 2"><joint joint="hinge" coef="1"/></fixed></tendon>
    <sensor><gyro site="s"/></sensor><custom><numeric name="n" data="1"/></custom>
    <visual/><statistic/><size/>"""
    path = tmp_path / "robot.xml"
    path.write_text(ROBOT.format(head='<option wind="1 0 0"/>', tail=tail))
    with pytest.warns(newtonsim.UnsupportedElementWarning) as caught:
        report = parse_mjcf(path, z_up)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith(str(path))
    for word in ("<flexvert>", "<fixed>", "damping that is not linear", "wind", "line 1"):
        assert word in message
    for word in ("connect", "gyro", "sensor", "custom", "visual"):
        assert word not in message
    assert caught[0].filename == __file__
    assert {entry.element for entry in report.of_kind("ignored")} >= {"sensor", "custom", "visual"}
    with pytest.raises(newtonsim.ImportFileError) as raised:
        parse_mjcf(path, newtonsim.ModelBuilder(), strict=True)
    assert raised.value.path == str(path)
    assert raised.value.line is not None


def test_silent_for_what_only_viewers_see(z_up):
    tendon = "<tendon><fixed name='t'><joint joint='hinge' coef='1'/></fixed></tendon>"
    tail = f"<visual/><statistic/><sensor/><custom/>{tendon}"
    head = "<asset><texture type='skybox' builtin='gradient' width='4' height='4'/></asset><size njmax='3'/>"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_mjcf(ROBOT.format(head=head, tail=tail), z_up, strict=True)


def test_verbose_prints_the_report(z_up, capsys):
    parse_mjcf(PLAIN, z_up, floating=None, verbose=True)
    assert capsys.readouterr().out.startswith("MJCF robot: 5 bodies, 4 joints, 6 shapes")


def test_doors_of_the_reference():
    import newtonsim.utils

    assert newtonsim.utils.parse_mjcf is parse_mjcf
    with pytest.raises(AttributeError, match="parse_nothing"):
        newtonsim.utils.parse_nothing  # noqa: B018


PENDULUM = """<mujoco><worldbody><body pos="0 0 1"><joint name="swing" axis="0 1 0"/>
<geom type="capsule" size=".03" fromto="0 0 0 .4 0 0"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("arguments", "gains"),
    [
        ({}, (100.0, 10.0)),
        ({"stiffness": 100.0, "damping": 10.0, "mujoco_defaults": True}, (100.0, 10.0)),
        ({"stiffness": 20.0, "mujoco_defaults": True}, (20.0, 10.0)),
        ({"mujoco_defaults": True}, (0.0, 0.0)),
        ({"stiffness": 0, "damping": 0}, (0.0, 0.0)),
    ],
)
def test_drives_of_a_file_without_actuators(arguments, gains):
    """MuJoCo's pendulum falls; who gets drives without asking for them is told."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = parse_mjcf(PENDULUM, builder, ignore_inertial_definitions=False, **arguments)
    assert (builder.joint_target_ke, builder.joint_target_kd) == ([gains[0]], [gains[1]])
    told = [entry.message for entry in report.of_kind("approximated")]
    assert ["stiffness=0, damping=0" in message for message in told] == ([True] if not arguments else [])
    model = builder.finalize("cpu")
    simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), dt=0.002)
    simulator.step(50)
    theirs = mujoco.MjModel.from_xml_string(PENDULUM)
    data = mujoco.MjData(theirs)
    mujoco.mj_step(theirs, data, 50)
    angle = float(simulator.state.joint_q.numpy()[0])
    assert data.qpos[0] > 0.1
    assert (angle == pytest.approx(data.qpos[0], abs=2e-3)) == (gains == (0.0, 0.0))
