"""URDF against pinocchio, and the arguments of parse_urdf."""

import math
import warnings

import numpy as np
import pinocchio
import pytest
import warp as wp

import newtonsim
from newtonsim.fidelity import compare_with_oracle
from newtonsim.geometry.transforms import quat_matrix
from newtonsim.importers import parse_urdf
from newtonsim.scene.enums import GeoType, JointMode, JointType, ShapeFlags

INERTIAL = """<inertial><origin xyz="{com}" rpy="{rpy}"/><mass value="{mass}"/>
  <inertia ixx="{xx}" ixy=".01" ixz="-.02" iyy=".3" iyz=".03" izz=".25"/></inertial>"""


def link(name: str, number: int, more: str = "") -> str:
    inertial = INERTIAL.format(
        com=f".{number} -.1 .05", rpy=f"{0.1 * number} .2 -.3", mass=1.0 + number, xx=0.2 + 0.05 * number
    )
    return f'<link name="{name}">{inertial}{more}</link>'


def joint(name: str, kind: str, parent: str, child: str, more: str = "") -> str:
    return f"""<joint name="{name}" type="{kind}"><origin xyz=".1 .2 .3" rpy=".3 -.4 .5"/>
      <parent link="{parent}"/><child link="{child}"/>{more}</joint>"""


def robot(*parts: str) -> str:
    return f'<robot name="r">{"".join(parts)}</robot>'


DYNAMICS = '<dynamics damping=".5" friction=".2"/>'
LIMIT = '<limit lower="-2" upper="2" effort="7" velocity="3"/>'
ARM = "\n".join(
    [
        '<robot name="arm">',
        *(link(name, i) for i, name in enumerate("abcdefg")),
        joint("j1", "revolute", "a", "b", f'<axis xyz="1 2 3"/>{LIMIT}{DYNAMICS}'),
        joint("j2", "continuous", "b", "c", '<axis xyz="0 -2 0"/>'),
        joint("j3", "prismatic", "b", "d", f'<axis xyz="0 1 1"/>{LIMIT}'),
        joint("j4", "fixed", "d", "e"),
        joint("j5", "revolute", "e", "f", LIMIT),
        joint("j6", "floating", "f", "g"),
        "</robot>",
    ]
)


def load(text: str, **options):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = parse_urdf(text, builder, **{"ignore_inertial_definitions": False, **options})
    return builder, report


def test_masses_and_inertias_are_those_of_pinocchio():
    builder, report = load(ARM)
    oracle = pinocchio.buildModelFromXML(ARM.replace('type="fixed"', 'type="continuous"'))
    for name, body in report.bodies.items():
        frame = oracle.frames[oracle.getFrameId(name)]
        if oracle.names[frame.parentJoint] == "universe":
            continue
        inertia = oracle.inertias[frame.parentJoint]
        assert builder.body_mass[body] == pytest.approx(inertia.mass)
        np.testing.assert_allclose(builder.body_com[body], inertia.lever, atol=1e-7)
        np.testing.assert_allclose(builder.body_inertia[body], inertia.inertia, atol=1e-10)
    assert builder.body_mass == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_poses_at_random_coordinates_are_those_of_pinocchio():
    builder, report = load(ARM)
    model = builder.finalize("cpu")
    oracle = pinocchio.buildModelFromXML(ARM)
    data = oracle.createData()
    rng = np.random.default_rng(0)
    for _ in range(5):
        q, ours = pinocchio.neutral(oracle), model.joint_q.numpy()
        for name, start in report.joint_coords.items():
            index = oracle.getJointId(name)
            at = oracle.idx_qs[index]
            if oracle.nqs[index] == 7:
                pose = np.append(rng.normal(size=3), rng.normal(size=4))
                pose[3:] /= np.linalg.norm(pose[3:])
                q[at : at + 7] = ours[start : start + 7] = pose
            else:
                value = rng.uniform(-2, 2)
                ours[start] = value
                q[at : at + oracle.nqs[index]] = (
                    [math.cos(value), math.sin(value)] if oracle.nqs[index] == 2 else value
                )
        pinocchio.framesForwardKinematics(oracle, data, q)
        state = model.state()
        state.joint_q.assign(ours)
        newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
        for name, body in report.bodies.items():
            frame = data.oMf[oracle.getFrameId(name)]
            pose = state.body_q.numpy()[body]
            np.testing.assert_allclose(pose[:3], frame.translation, atol=2e-5, err_msg=name)
            np.testing.assert_allclose(quat_matrix(pose[3:]), frame.rotation, atol=2e-5, err_msg=name)


def test_joint_types_limits_and_dynamics():
    builder, report = load(ARM)
    kinds = {name: JointType(builder.joint_type[index]).name for name, index in report.joints.items()}
    assert kinds == {
        "j1": "REVOLUTE",
        "j2": "REVOLUTE",
        "j3": "PRISMATIC",
        "j4": "FIXED",
        "j5": "REVOLUTE",
        "j6": "FREE",
    }
    axis = builder.joint_axis_start[report.joints["j1"]]
    assert (builder.joint_limit_lower[axis], builder.joint_limit_upper[axis]) == (-2.0, 2.0)
    assert (builder.joint_effort_limit[axis], builder.joint_velocity_limit[axis]) == (7.0, 3.0)
    dof = report.joint_dofs["j1"]
    assert (builder.joint_damping[dof], builder.joint_friction[dof]) == (0.5, 0.2)
    # a missing <axis> is x
    np.testing.assert_allclose(builder.joint_axis[builder.joint_axis_start[report.joints["j5"]]], (1, 0, 0))
    assert builder.articulation_key == ["arm"]
    assert builder.articulation_count == 1


def test_planar_joint_moves_in_the_plane_across_its_axis():
    text = robot(link("a", 1), link("b", 2), joint("j", "planar", "a", "b", '<axis xyz="1 2 3"/>'))
    builder, report = load(text)
    index = report.joints["j"]
    assert builder.joint_type[index] == JointType.D6
    assert builder.joint_axis_dim[index] == (2, 1)
    start = builder.joint_axis_start[index]
    first, second, turn = (np.array(builder.joint_axis[start + i]) for i in range(3))
    np.testing.assert_allclose(turn, np.array([1, 2, 3]) / math.sqrt(14), atol=1e-6)
    np.testing.assert_allclose(np.cross(first, second), turn, atol=1e-6)


def test_additions_of_bullet():
    plane = '<collision><origin xyz="0 0 .5"/><geometry><plane normal="0 0 2"/></geometry></collision>'
    more = '<dynamics damping=".5" friction=".1"/>'
    builder, report = load(robot(link("a", 1, plane), link("b", 2), joint("j", "spherical", "a", "b", more)))
    assert builder.joint_type[report.joints["j"]] == JointType.BALL
    assert (builder.joint_damping, builder.joint_friction) == ([0.5] * 3, [0.1] * 3)
    assert builder.shape_geo_type == [GeoType.PLANE]
    normal = wp.quat_rotate(wp.transform_get_rotation(builder.shape_transform[0]), wp.vec3(0, 1, 0))
    np.testing.assert_allclose(normal, (0, 0, 1), atol=1e-6)
    np.testing.assert_allclose(list(builder.shape_transform[0])[:3], (0, 0, 0.5), atol=1e-6)


WIDE = '<limit lower="-9" upper="9"/>'
MIMIC = robot(
    *(link(name, i) for i, name in enumerate("abcd")),
    joint("f1", "revolute", "a", "b", '<limit lower=".5" upper="1"/><axis xyz="0 0 1"/>'),
    joint("f2", "revolute", "a", "c", f'{WIDE}<mimic joint="f1" multiplier="-2" offset=".25"/>'),
    joint("f3", "prismatic", "a", "d", f'{WIDE}<mimic joint="f2"/>'),
)


def test_mimic_joints_follow_from_the_start():
    builder, report = load(MIMIC)
    joints = report.joints
    assert builder.joint_mimic == [
        (joints["f2"], joints["f1"], -2.0, 0.25),
        (joints["f3"], joints["f2"], 1.0, 0.0),
    ]
    q = {name: builder.joint_q[start] for name, start in report.joint_coords.items()}
    # zero is outside the limits of f1
    assert q == {"f1": 0.5, "f2": pytest.approx(-0.75), "f3": pytest.approx(-0.75)}
    # followers have no drive that would pull against the leader
    modes = [builder.joint_axis_mode[builder.joint_axis_start[joints[name]]] for name in ("f1", "f2", "f3")]
    assert modes == [JointMode.TARGET_POSITION, JointMode.FORCE, JointMode.FORCE]
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, model.joint_q, model.joint_qd, None, state)
    np.testing.assert_allclose(state.body_q.numpy(), model.body_q.numpy(), atol=1e-5)


def test_mimic_joints_are_coupled_in_motion():
    """Gravity pulls at all three links; the chain of followers keeps its relations."""
    builder, report = load(MIMIC, stiffness=0.0, damping=0.0)
    builder.gravity = np.array([3.0, -2.0, -9.81])
    model = builder.finalize("cpu")
    simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 1.0 / 240.0)
    start = model.joint_q.numpy().copy()
    simulator.step(120)
    values = simulator.state.joint_q.numpy()
    q = {name: values[at] for name, at in report.joint_coords.items()}
    assert np.abs(values - start).max() > 0.1
    assert q["f2"] == pytest.approx(-2.0 * q["f1"] + 0.25, abs=1e-4)
    assert q["f3"] == pytest.approx(q["f2"], abs=1e-4)


def test_mimic_with_scaled_lengths():
    _, report = load(MIMIC, scale=2.0)
    builder, _ = load(MIMIC, scale=2.0)
    q = {name: builder.joint_q[start] for name, start in report.joint_coords.items()}
    assert q["f3"] == pytest.approx(-1.5)  # 2 (m per m) times the angle's -0.75 m


@pytest.mark.parametrize(("stiffness", "damping"), [(100.0, 10.0), (0.0, 3.0), (0.0, 0.0)])
def test_gains_make_position_drives_that_hold_the_start(stiffness, damping):
    builder, report = load(MIMIC, stiffness=stiffness, damping=damping)
    axis = builder.joint_axis_start[report.joints["f1"]]
    assert (builder.joint_target_ke[axis], builder.joint_target_kd[axis]) == (stiffness, damping)
    driven = stiffness > 0.0 or damping > 0.0
    assert builder.joint_axis_mode[axis] == (JointMode.TARGET_POSITION if driven else JointMode.FORCE)
    assert builder.joint_act[axis] == (0.5 if driven else 0.0)


def test_limits_that_the_file_leaves_open():
    text = f'<robot name="r">{link("a", 1)}{link("b", 2)}{joint("j", "revolute", "a", "b", "{}")}</robot>'
    for limit, expected in (("", (-5.0, 6.0)), ('<limit upper="1"/>', (-5.0, 1.0))):
        builder, _ = load(text.format(limit), joint_limit_lower=-5.0, joint_limit_upper=6.0)
        assert (builder.joint_limit_lower[0], builder.joint_limit_upper[0]) == expected


def test_zero_effort_means_unknown():
    limit = '<limit lower="-1" upper="1" effort="0" velocity="0"/>'
    builder, report = load(robot(link("a", 1), link("b", 2), joint("j", "revolute", "a", "b", limit)))
    assert builder.joint_effort_limit == builder.joint_velocity_limit == [math.inf]
    assert len(report.of_kind("approximated")) == 2


SHAPES = """<robot name="r"><material name="blue"><color rgba="0 0 1 .5"/></material>
  <link name="a">
   <visual><origin xyz="1 0 0"/><geometry><box size="2 4 6"/></geometry><material name="blue"/></visual>
   <visual><geometry><sphere radius=".5"/></geometry><material name="red"><color rgba="1 0 0
     1"/></material></visual>
   <collision name="tube"><origin rpy="1.5707963267948966 0 0"/><geometry><cylinder radius=".1"
     length="2"/></geometry>
   </collision>
   <collision><geometry><capsule radius=".1" length="2"/></geometry></collision>
  </link>
  <link name="b"><visual><geometry><sphere radius=".5"/></geometry><material name="red"/></visual></link>
  <joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint></robot>"""


def visible(builder) -> list[bool]:
    return [bool(flags & ShapeFlags.VISIBLE) for flags in builder.shape_flags]


def colliding(builder) -> list[bool]:
    either = ShapeFlags.COLLIDE_SHAPES | ShapeFlags.COLLIDE_GROUND
    return [bool(flags & either) for flags in builder.shape_flags]


def test_shapes_and_colours():
    builder, report = load(SHAPES)
    kinds = ["BOX", "SPHERE", "CYLINDER", "CAPSULE", "SPHERE"]
    assert [GeoType(kind).name for kind in builder.shape_geo_type] == kinds
    assert list(builder.shape_geo_scale[0]) == [1.0, 2.0, 3.0]
    assert list(builder.shape_geo_scale[2])[:2] == pytest.approx([0.1, 1.0])
    assert builder.shape_color == [(0, 0, 1, 0.5), (1, 0, 0, 1), None, None, (1, 0, 0, 1)]
    assert report.shapes == {"a": [0, 1, 2, 3], "b": [4]}
    assert builder.shape_key[2] == "tube"
    # a cylinder lies along its z, here turned to -y
    tube, upright = (wp.transform_get_rotation(builder.shape_transform[i]) for i in (2, 3))
    np.testing.assert_allclose(wp.quat_rotate(tube, wp.vec3(0, 1, 0)), (0, -1, 0), atol=1e-6)
    np.testing.assert_allclose(wp.quat_rotate(upright, wp.vec3(0, 1, 0)), (0, 0, 1), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "shown", "solid"),
    [
        ({}, [1, 1, 0, 0, 1], [0, 0, 1, 1, 0]),
        ({"hide_visuals": True}, [0, 0, 0, 0, 0], [0, 0, 1, 1, 0]),
        ({"force_show_colliders": True}, [1, 1, 1, 1, 1], [0, 0, 1, 1, 0]),
        ({"parse_visuals_as_colliders": True}, [1, 1, 1], [1, 1, 1]),
    ],
)
def test_visual_options(options, shown, solid):
    builder, _ = load(SHAPES, **options)
    assert visible(builder) == [bool(flag) for flag in shown]
    assert colliding(builder) == [bool(flag) for flag in solid]


def test_mass_from_geometry_and_its_exceptions():
    box = "<collision><geometry><box size='.1 .2 .3'/></geometry></collision>"
    text = robot(
        link("a", 6, box),
        link("b", 2),
        '<link name="c"/>',
        joint("j", "fixed", "a", "b"),
        joint("k", "fixed", "a", "c"),
    )
    builder, report = load(text, ignore_inertial_definitions=True, density=500.0, static_link_mass=0.03)
    assert builder.body_mass == pytest.approx([3.0, 3.0, 0.03])
    np.testing.assert_allclose(builder.body_com[0], (0, 0, 0), atol=1e-9)
    assert np.linalg.eigvalsh(builder.body_inertia[2])[0] > 0.0
    assert {entry.element for entry in report.entries} == {f"link name='{name}'" for name in "abc"}
    kept, _ = load(text, ensure_nonstatic_links=False)
    assert kept.body_mass == pytest.approx([7.0, 3.0, 0.0])


def test_mass_without_inertia_gets_one_that_dynamics_can_use():
    text = '<robot name="r"><link name="a"><inertial><mass value="2"/></inertial></link></robot>'
    builder, report = load(text, floating=True)
    radius = (3.0 * 2.0 / (4.0 * math.pi * 1000.0)) ** (1.0 / 3.0)
    np.testing.assert_allclose(builder.body_inertia[0], np.eye(3) * 0.4 * 2.0 * radius**2, rtol=1e-6)
    assert "singular inertia" in report.entries[0].message


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, JointType.FIXED),
        ({"floating": True}, JointType.FREE),
        ({"base_joint": "px,py,rz"}, JointType.D6),
        ({"base_joint": {"joint_type": JointType.BALL}}, JointType.BALL),
        ({"floating": True, "base_joint": "px"}, JointType.FREE),
    ],
)
def test_base(options, kind):
    xform = wp.transform(wp.vec3(1, 2, 3), wp.quat_from_axis_angle(wp.vec3(0, 0, 1), 0.7))
    builder, report = load(ARM, xform=xform, **options)
    assert builder.joint_type[0] == kind
    np.testing.assert_allclose(list(builder.body_q[report.bodies["a"]]), list(xform), atol=1e-6)
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, model.joint_q, model.joint_qd, None, state)
    np.testing.assert_allclose(state.body_q.numpy(), model.body_q.numpy(), atol=1e-5)


def test_scale():
    (plain, _), (big, _) = load(ARM), load(ARM, scale=3.0)
    for one, other in zip(plain.body_q, big.body_q):
        np.testing.assert_allclose(3.0 * np.array(list(one)[:3]), list(other)[:3], atol=1e-6)
    assert big.body_mass == plain.body_mass
    np.testing.assert_allclose(big.body_inertia[1], 9.0 * np.array(plain.body_inertia[1]))
    axis = next(i for i, kind in enumerate(plain.joint_type) if kind == JointType.PRISMATIC)
    axis = plain.joint_axis_start[axis]
    assert big.joint_limit_upper[axis] == 3.0 * plain.joint_limit_upper[axis]


CHAIN = "".join(
    link(name, i, '<collision><geometry><sphere radius="1"/></geometry></collision>')
    for i, name in enumerate("abcdef")
)
CHAIN = robot(
    CHAIN,
    joint("1", "fixed", "a", "b"),
    joint("2", "continuous", "b", "c"),
    joint("3", "fixed", "c", "d"),
    joint("4", "continuous", "d", "e"),
    joint("5", "continuous", "e", "f"),
)


@pytest.mark.parametrize("floating", [True, False])
def test_self_collisions_leave_out_rigid_neighbours(floating):
    builder, report = load(CHAIN, floating=floating)
    builder.keep_overlaps = True
    names = {index: name for name, indices in report.shapes.items() for index in indices}
    pairs = {names[a] + names[b] for a, b in builder.finalize("cpu").shape_contact_pairs.numpy()}
    # a-b and c-d are rigid; these groups, e and f are each next to the one before
    assert pairs == {"ae", "be", "af", "bf", "cf", "df"}
    quiet, _ = load(CHAIN, floating=floating, enable_self_collisions=False)
    assert len(quiet.finalize("cpu").shape_contact_pairs) == 0


def test_collapse_fixed_joints():
    builder, report = load(ARM, collapse_fixed_joints=True)
    assert "j4" not in report.joints
    assert report.bodies["e"] == report.bodies["d"]
    assert report.bodies["a"] == -1  # fixed to the world
    assert builder.body_mass[report.bodies["d"]] == pytest.approx(9.0)
    assert builder.joint_key[report.joints["j5"]] == "j5"


def test_silent_elements_are_reported_without_a_warning():
    extra = '<transmission name="t"/><gazebo reference="a"><material>Red</material></gazebo></robot>'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, report = load(ARM.replace("</robot>", extra), strict=True)
    assert [entry.element for entry in report.of_kind("ignored")] == ["transmission name='t'", "gazebo"]


def test_elements_that_would_change_the_physics_are_named_in_one_warning():
    extra = '<gazebo reference="a"><mu1>2</mu1></gazebo><loop_joint name="l"/></robot>'
    text = ARM.replace("</robot>", extra).replace("<inertial>", "<contact/><inertial>", 1)
    with pytest.warns(newtonsim.UnsupportedElementWarning) as caught:
        load(text)
    assert len(caught) == 1
    for words in ("<gazebo>", "mu1", "<loop_joint name='l'>", "<contact>", "XML text"):
        assert words in str(caught[0].message)
    with pytest.raises(newtonsim.ImportFileError, match="not supported"):
        load(text, strict=True)


def test_contact_and_limit_arguments_arrive():
    builder, _ = load(CHAIN, contact_mu=0.9, contact_ke=5.0, limit_ke=3.0, limit_kd=4.0, armature=0.3)
    assert set(builder.shape_material_mu) == {0.9}
    assert set(builder.shape_material_ke) == {5.0}
    assert set(builder.joint_limit_ke) == {3.0}
    assert set(builder.joint_limit_kd) == {4.0}
    assert set(builder.joint_armature) == {0.3}


def test_a_stated_mass_of_zero_counts():
    """Geometry does not stand in for it, and its inertia is kept or named."""
    text = """<robot name="r"><link name="table"><inertial><mass value="0"/>
      <inertia ixx=".1" iyy=".2" izz=".2" ixy="0" ixz="0" iyz="0"/></inertial>
      <collision><geometry><box size="1 1 1"/></geometry></collision></link></robot>"""
    builder, _ = load(text, ignore_inertial_definitions=False)
    assert builder.body_mass == [0.01]
    ball = np.trace(np.array(builder.body_inertia[0])) - 0.5
    assert 0.0 < ball < 1.0e-4
    builder, _ = load(text, ignore_inertial_definitions=False, ensure_nonstatic_links=False)
    assert builder.body_mass == [0.0]
    np.testing.assert_allclose(builder.body_inertia[0], np.diag([0.1, 0.2, 0.2]))


ROD = """<robot name="r"><link name="base"/><link name="rod"><inertial><origin xyz=".5 .1 0"/>
  <mass value="2"/>  <inertia ixx="{rod}" iyy="{rod}" izz="{rod}" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="tip"><inertial><origin xyz="0 .2 0" rpy=".3 .4 0"/><mass value="0"/>
  <inertia ixx="{tip}" iyy=".2" izz=".25" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="a" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 .6 .8"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="b" type="fixed"><origin xyz="1 0 0" rpy="0 0 1"/><parent link="rod"/><child link="tip"/>
  </joint></robot>"""


@pytest.mark.parametrize(("rod", "tip"), [(0.1, 0.1), (0.0, 0.1), (0.0, 0.3)])
def test_points_and_inertia_without_mass_are_what_they_are_in_pinocchio(tmp_path, rod, tip):
    path = tmp_path / "rod.urdf"
    path.write_text(ROD.format(rod=rod, tip=tip))
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()
