"""What is written: shapes, contacts, drives, constraints, names; and what is refused."""

import warnings

import mujoco
import numpy as np
import pinocchio
import pytest
import warp as wp
from export_scenes import POSE, crowd, driven, looped, many_shapes, tetrahedron, touching
from export_twins import Twins, robot

import newtonsim
from newtonsim import dynamics
from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.geometry import SDF, Heightfield
from newtonsim.geometry.transforms import transform_point
from newtonsim.scene.enums import JointType
from newtonsim.solvers import MuJoCoSolver
from newtonsim.utils import export_mjcf, export_urdf, export_usd, parse_mjcf, parse_usd

WRITERS = {".xml": export_mjcf, ".urdf": export_urdf, ".usda": export_usd}


def corners(model, key: str) -> np.ndarray:
    """Corners of a mesh or height field in the frame of the body or the world, sorted."""
    shape = list(model.shape_key).index(key)
    source = model.shape_geo_src[shape]
    mesh = source.to_mesh() if isinstance(source, Heightfield) else source
    points = mesh.vertices.astype(np.float64) * model.shape_geo.scale.numpy()[shape]
    points = transform_point(model.shape_transform.numpy()[shape], points)
    return points[np.lexsort(points.round(4).T)]


def shape_rows(model, keys) -> np.ndarray:
    places = [list(model.shape_key).index(key) for key in keys]
    poses = model.shape_transform.numpy()[places]
    poses[:, 3:] *= np.sign(poses[:, 6:])
    sizes = model.shape_geo.scale.numpy()[places]
    return np.hstack([model.shape_geo.type.numpy()[places][:, None], sizes, poses])


@pytest.mark.parametrize("suffix", ["xml", "urdf"])
def test_shapes_come_back(tmp_path, suffix):
    builder = many_shapes()
    if suffix == "xml":
        builder.add_shape_ellipsoid(0, a=0.1, b=0.2, c=0.3, key="ellipsoid", **POSE)
        builder.add_shape_plane(pos=POSE["pos"], rot=POSE["rot"], width=0.0, length=0.0, key="plane")
    twins = Twins(builder, tmp_path / f"out.{suffix}")
    solids = ["sphere", "box", "capsule", "cylinder"] + ["ellipsoid", "plane"] * (suffix == "xml")
    np.testing.assert_allclose(shape_rows(twins.again, solids), shape_rows(twins.model, solids), atol=1.0e-6)
    for key in ("mesh", "field"):
        np.testing.assert_allclose(corners(twins.again, key), corners(twins.model, key), atol=1.0e-6)
    assert str(tmp_path / "out_meshes" / "tetra_hedron.obj") in twins.report.files
    assert twins.again.body_mass.numpy().sum() == pytest.approx(twins.model.body_mass.numpy().sum())


def test_mujoco_sees_meshes_and_fields_where_they_are(tmp_path):
    """A ball that falls on the height field rests on it where the model's surface is."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    heights = np.outer(np.ones(3), [0.2, 0.2, 0.7, 0.7])
    upright = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), np.pi / 2.0)
    field = Heightfield(heights, (3.0, 3.0))
    builder.add_shape_heightfield(-1, rot=upright, heightfield=field, key="steps")
    for key, x in (("low", -1.0), ("high", 1.0)):
        body = builder.add_body(origin=wp.transform((x, 0.0, 1.2), wp.quat_identity()), key=key)
        builder.add_shape_sphere(body, radius=0.1)
    report = export_mjcf(builder, tmp_path / "out.xml")
    mj = mujoco.MjModel.from_xml_path(report.path)
    data = mujoco.MjData(mj)
    for _ in range(1000):
        mujoco.mj_step(mj, data)
    assert data.body("low").xpos[2] == pytest.approx(0.3, abs=2.0e-3)
    assert data.body("high").xpos[2] == pytest.approx(0.8, abs=2.0e-3)


def test_pinocchio_sees_capsules_where_they_are(tmp_path):
    """Which are of URDF 1.1: its parser leaves them out of a file that does not claim this version."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(mass=1.0, I_m=np.eye(3), key="body")
    builder.add_joint_free(body)
    builder.add_shape_capsule(body, pos=(0.1, 0.2, 0.3), radius=0.2, half_height=0.5, up_axis=0, key="pill")
    report = export_urdf(builder, tmp_path / "out.urdf", strict=True)
    pin_model = pinocchio.buildModelFromUrdf(report.path, pinocchio.JointModelFreeFlyer())
    seen = pinocchio.buildGeomFromUrdf(pin_model, report.path, pinocchio.GeometryType.COLLISION)
    assert seen.ngeoms == 1
    pill = seen.geometryObjects[0]
    assert (pill.geometry.radius, pill.geometry.halfLength) == pytest.approx((0.2, 0.5))
    np.testing.assert_allclose(pill.placement.translation, [0.1, 0.2, 0.3], atol=1.0e-7)
    np.testing.assert_allclose(np.abs(pill.placement.rotation[:, 2]), [1.0, 0.0, 0.0], atol=1.0e-7)


def square(half: float = 0.5) -> newtonsim.Mesh:
    """A sheet across x."""
    corners = half * np.array([[0.0, -1.0, -1.0], [0.0, 1.0, -1.0], [0.0, 1.0, 1.0], [0.0, -1.0, 1.0]])
    return newtonsim.Mesh(corners, np.array([0, 1, 2, 0, 2, 3]))


def test_mujoco_collides_with_flat_meshes(tmp_path):
    """Which have no hull there: a ball that overlaps a sheet by 1 mm touches it across."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for key, x in (("sheet", 0.0), ("ball", 0.099)):
        body = builder.add_body(mass=1.0, I_m=np.eye(3), key=key)
        builder.add_joint_free(body, key=f"{key}_joint")
        builder.joint_q[-7] = x
    builder.add_shape_mesh(0, mesh=square(), density=0.0, convex=True, key="flat")
    builder.add_shape_sphere(1, radius=0.1, density=0.0)
    with pytest.warns(UnsupportedElementWarning, match=r"a flat mesh becomes a thin one \(flat\)"):
        report = export_mjcf(builder, tmp_path / "out.xml")
    mj = mujoco.MjModel.from_xml_path(report.path)
    data = mujoco.MjData(mj)
    mujoco.mj_resetDataKeyframe(mj, data, 0) if mj.nkey else None
    mujoco.mj_forward(mj, data)
    assert data.ncon == 1
    assert data.contact.dist[0] == pytest.approx(-0.001, abs=2.0e-5)
    np.testing.assert_allclose(np.abs(data.contact.frame[0, :3]), [1.0, 0.0, 0.0], atol=1.0e-6)


def test_flat_meshes_come_back_from_usd(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(mass=1.0, I_m=np.eye(3), key="sheet")
    builder.add_joint_free(body)
    builder.add_shape_mesh(body, mesh=square(), density=0.0, convex=True, key="flat")
    twins = Twins(builder, tmp_path / "out.usda")
    assert twins.builder.shape_convex == [1]
    np.testing.assert_allclose(corners(twins.again, "/World/sheet/flat"), corners(twins.model, "flat"))


def test_shapes_that_become_meshes_are_named(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(key="body")
    builder.add_shape_cone(body, radius=0.2, half_height=0.3, up_axis=2, key="cone")
    builder.add_shape_sdf(body, sdf=SDF.from_mesh(tetrahedron(), resolution=8), key="field")
    with pytest.warns(
        UnsupportedElementWarning, match=r"(?s)CONE becomes a mesh \(cone\).*SDF becomes .*field"
    ):
        report = export_mjcf(builder, tmp_path / "out.xml")
    mj = mujoco.MjModel.from_xml_path(report.path)
    data = mujoco.MjData(mj)
    mujoco.mj_forward(mj, data)
    geom = mj.geom("cone").id
    points = data.geom_xpos[geom] + mj.mesh_vert[: mj.mesh_vertnum[0]] @ data.geom_xmat[geom].reshape(3, 3).T
    np.testing.assert_allclose(points.min(axis=0), [-0.2, -0.2, -0.3], atol=1.0e-5)
    np.testing.assert_allclose(points.max(axis=0), [0.2, 0.2, 0.3], atol=1.0e-5)


# -- contacts ------------------------------------------------------------------------------------------------


def test_mujoco_lets_the_same_pairs_touch(tmp_path):
    model = crowd().finalize("cpu")
    report = export_mjcf(model, tmp_path / "out.xml")
    mj = mujoco.MjModel.from_xml_path(report.path)
    data = mujoco.MjData(mj)
    mujoco.mj_forward(mj, data)
    theirs = {frozenset(mj.geom(geom).name for geom in contact.geom) for contact in data.contact}
    assert theirs == touching(model)


def test_many_kinds_of_contact(tmp_path):
    """More than the bits can tell apart: pairs of bodies are excluded instead."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for number in range(40):
        builder.add_shape_sphere(builder.add_body(key=f"body{number}"), radius=0.1, key=f"ball{number}")
        if number:
            builder.shape_collision_filter_pairs.add((number - 1, number))
    model = builder.finalize("cpu")
    mj = mujoco.MjModel.from_xml_path(export_mjcf(model, tmp_path / "out.xml").path)
    data = mujoco.MjData(mj)
    mujoco.mj_forward(mj, data)
    theirs = {frozenset(mj.geom(geom).name for geom in contact.geom) for contact in data.contact}
    assert mj.nexclude == 39
    assert theirs == touching(model)


def test_more_kinds_of_contact_than_bits(tmp_path):
    """Two shapes on each body, filtered one by one: kinds without a bit touch by pairs."""
    rng = np.random.default_rng(4)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for number in range(22):
        body = builder.add_body(key=f"body{number}")
        builder.add_joint_free(body, key=f"free{number}")
        for side in "ab":
            builder.add_shape_sphere(body, radius=0.1, key=f"ball{number}{side}")
    for first, second in np.argwhere(np.triu(rng.random((44, 44)) < 0.3, 1)).tolist():
        builder.shape_collision_filter_pairs.add((first, second))
    model = builder.finalize("cpu")
    with pytest.warns(UnsupportedElementWarning, match="touches by a <pair>.*default friction"):
        report = export_mjcf(model, tmp_path / "out.xml")
    mj = mujoco.MjModel.from_xml_path(report.path)
    data = mujoco.MjData(mj)
    mujoco.mj_forward(mj, data)
    theirs = {frozenset(mj.geom(geom).name for geom in contact.geom) for contact in data.contact}
    assert 0 < mj.npair < len(theirs) / 2
    assert theirs == touching(model)
    again = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(report.path, again, **report.read_with)
    assert touching(again.finalize("cpu")) == theirs


def test_pairs_come_back(tmp_path):
    twins = Twins(crowd(), tmp_path / "out.xml")
    assert touching(twins.again) == touching(twins.model)
    twins = Twins(robot("arm7.urdf"), tmp_path / "out.urdf")
    assert touching(twins.again) == touching(twins.model)
    assert "enable_self_collisions" in twins.report.read_with


def test_what_urdf_leaves_open_is_reported(tmp_path):
    with pytest.warns(UnsupportedElementWarning, match=r"a pair of shapes touches .*ball0 and ball8"):
        export_urdf(crowd(ground=False), tmp_path / "out.urdf")


# -- joints --------------------------------------------------------------------------------------------------


def test_mjcf_holds_drives_limits_and_passive_terms(tmp_path):
    twins = Twins(driven(), tmp_path / "out.xml")
    assert not twins.report.entries
    for name in (
        "limit_lower",
        "limit_upper",
        "stiffness",
        "spring_ref",
        "effort_limit",
        "effort_lower",
        "axis_mode",
    ):
        ours, theirs = (getattr(model, f"joint_{name}").numpy() for model in (twins.model, twins.again))
        np.testing.assert_allclose(theirs, ours, rtol=1.0e-6, err_msg=name)
    for name in ("damping", "friction", "armature"):
        ours, theirs = (getattr(model, f"joint_{name}").numpy() for model in (twins.model, twins.again))
        np.testing.assert_allclose(theirs, ours, rtol=1.0e-6, err_msg=name)
    np.testing.assert_allclose(twins.again.joint_target_ke.numpy()[:2], [30.0, 31.0])
    np.testing.assert_allclose(twins.again.joint_target_kd.numpy()[0], 4.0)
    assert twins.again.keyframes[0]["joint_act"] == pytest.approx([0.25] * 3)


def test_mujoco_reads_drives_without_effort(tmp_path):
    """Of a joint and of a tendon, which may not push at all."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(mass=1.0, I_m=np.eye(3) * 0.01)
    builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0))
    builder.joint_effort_limit[0] = 0.0
    builder.add_tendon_fixed([(0, 1.0)], effort_limit=0.0)
    written = export_mjcf(builder, tmp_path / "idle.xml", actuated_axes=[0])
    mj = mujoco.MjModel.from_xml_path(written.path)
    assert mj.nu == 2
    np.testing.assert_allclose(mj.actuator_forcerange, 0.0, atol=1.0e-9)


def test_mujoco_reads_drives_of_a_joint_and_a_tendon_of_one_name(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(mass=1.0, I_m=np.eye(3) * 0.01)
    builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), key="claw")
    builder.add_tendon_fixed([(0, 1.0)], key="claw")
    mj = mujoco.MjModel.from_xml_path(export_mjcf(builder, tmp_path / "claw.xml").path)
    assert [mj.actuator(i).trntype[0] for i in range(mj.nu)] == [0, int(mujoco.mjtTrn.mjTRN_TENDON)]


def test_mujoco_applies_the_same_efforts(tmp_path):
    """Each actuator's force is the drive's of the model, for ctrl = joint_act."""
    report = export_mjcf(driven(), tmp_path / "out.xml")
    mj = mujoco.MjModel.from_xml_path(report.path)
    data = mujoco.MjData(mj)
    data.qpos[:], data.qvel[:], data.ctrl[:] = [0.1, 0.2, 0.3], [0.4, -0.5, 0.6], [0.25, 0.25, 0.25]
    mujoco.mj_forward(mj, data)
    expected = [30.0 * 0.15 - 4.0 * 0.4, np.clip(31.0 * 0.75, -8.0, 8.0), 0.25]
    np.testing.assert_allclose(data.actuator_force, expected, rtol=1.0e-6)
    passive = [-2.0 * (q - 0.3) - 0.1 * v for q, v in zip(data.qpos, data.qvel)]
    np.testing.assert_allclose(data.qfrc_passive, passive, rtol=1.0e-6)


def test_urdf_names_what_it_drops(tmp_path):
    with pytest.warns(UnsupportedElementWarning, match="a drive is left out") as caught:
        report = export_urdf(driven(), tmp_path / "out.urdf")
    text = str(caught[0].message)
    for part in ("passive spring", "armature", "joint0, joint1"):
        assert part in text
    assert report.read_with["stiffness"] == 0.0


def test_urdf_names_what_a_free_root_loses(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_joint_free(builder.add_body(mass=1.0, I_m=np.eye(3)), armature=1.0, key="root")
    builder.joint_damping[0] = 0.5
    with pytest.warns(
        UnsupportedElementWarning, match=r"(?s)armature .* left out \(root\).* root are left out"
    ):
        export_urdf(builder, tmp_path / "out.urdf")


def test_free_bodies_below_others_and_distances(tmp_path):
    """MuJoCo has free joints at the root only: slides and a ball stand in, a tendon holds the distance."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    root = builder.add_body(mass=1.0, I_m=np.eye(3), key="root")
    builder.add_joint_free(root)
    child = builder.add_body(mass=1.0, I_m=np.eye(3), com=(0.1, 0.0, 0.0), key="child")
    builder.add_joint_free(child, parent=root, key="loose", armature=0.0)
    other = builder.add_body(mass=1.0, I_m=np.eye(3), key="other")
    builder.add_joint_distance(-1, other, min_distance=0.2, max_distance=1.5)
    rng = np.random.default_rng(0)
    builder.joint_q[7:14] = [0.3, 0.1, -0.2, 0.5, 0.5, -0.5, 0.5]
    builder.joint_qd[:] = rng.normal(size=18).tolist()
    with pytest.warns(UnsupportedElementWarning, match="three slides and a ball"):
        report = export_mjcf(builder, tmp_path / "out.xml")
    mj = mujoco.MjModel.from_xml_path(report.path)
    data = mujoco.MjData(mj)
    mujoco.mj_resetDataKeyframe(mj, data, 0)
    mujoco.mj_forward(mj, data)
    np.testing.assert_allclose(mj.tendon_range, [[0.2, 1.5]])
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    for body, name in report.bodies.items():
        theirs = np.zeros(6)
        mujoco.mj_objectVelocity(mj, data, mujoco.mjtObj.mjOBJ_BODY, mj.body(name).id, theirs, 0)
        np.testing.assert_allclose(theirs, state.body_qd.numpy()[body], atol=1.0e-5)
        np.testing.assert_allclose(data.body(name).xpos, state.body_q.numpy()[body, :3], atol=1.0e-6)


# -- constraints ---------------------------------------------------------------------------------------------


def test_constraints_come_back(tmp_path):
    twins = Twins(looped(), tmp_path / "out.xml")
    assert not twins.report.of_kind("unsupported")
    names = ("type", "parent", "child", "X_p", "X_c", "coefficients", "enabled")
    for name in (*names, "solref", "solimp", "torque_scale"):
        ours, theirs = (getattr(model, f"constraint_{name}").numpy() for model in (twins.model, twins.again))
        if name == "solref":
            ours[0] = (0.05, 1.0)  # a recovery time is written as time constant of a critical damping
        np.testing.assert_allclose(theirs, ours, atol=1.0e-6, err_msg=name)
    assert list(twins.again.constraint_key) == ["touch", "glue", "gear"]


def test_mimic_joints_come_back(tmp_path):
    for suffix in ("xml", "urdf"):
        twins = Twins(robot("gripper.urdf"), tmp_path / f"out.{suffix}")
        np.testing.assert_allclose(
            twins.again.constraint_coefficients.numpy(),
            twins.model.constraint_coefficients.numpy(),
            atol=1e-6,
        )
        axes = twins.model.constraint_coupled_axes.numpy()
        np.testing.assert_array_equal(twins.again.constraint_coupled_axes.numpy(), axes)


@pytest.mark.parametrize("suffix", ["xml", "urdf", "usda"])
def test_axes_of_one_joint_stay_coupled(tmp_path, suffix):
    """To USD, the joint of both axes is one target of the relationship."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(mass=1.0, I_m=np.eye(3), key="knee")
    axes = [newtonsim.JointAxis((1.0, 0.0, 0.0)), newtonsim.JointAxis((0.0, 0.0, 1.0))]
    joint = builder.add_joint_d6(-1, body, linear_axes=axes, angular_axes=[(0.0, 1.0, 0.0)], key="roll")
    builder.add_constraint_coupling(joint, joint, [0.1, 0.5], 0, 2, key="rolling")
    twins = Twins(builder, tmp_path / f"out.{suffix}")
    for name in ("coefficients", "coupled_axes"):
        ours, theirs = (getattr(model, f"constraint_{name}").numpy() for model in (twins.model, twins.again))
        np.testing.assert_allclose(theirs, ours, atol=1.0e-7, err_msg=name)


def test_loops_that_formats_lack_are_reported(tmp_path):
    builder = looped()
    builder.add_loop_joint(JointType.PRISMATIC, 2, 3, linear_axes=[(1.0, 0.0, 0.0)], key="rail")
    with pytest.warns(UnsupportedElementWarning, match=r"a loop with .* \(1, 0\) \(rail\)"):
        export_mjcf(builder, tmp_path / "out.xml")
    with pytest.warns(
        UnsupportedElementWarning, match=r"other than a linear coupling .*\(touch, glue, gear, rail\)"
    ):
        export_urdf(builder, tmp_path / "out.urdf")


# -- frames, worlds, names -----------------------------------------------------------------------------------


def test_another_up_axis_is_turned(tmp_path):
    builder = many_shapes(up=(0.0, 1.0, 0.0))
    builder.body_qd[0] = wp.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    twins = Twins(builder, tmp_path / "out.xml", up=(0.0, 1.0, 0.0))
    mj = mujoco.MjModel.from_xml_path(str(twins.path))
    np.testing.assert_allclose(mj.opt.gravity, [0.0, 0.0, -9.81], atol=1.0e-6)
    np.testing.assert_allclose(twins.again.gravity, twins.model.gravity, atol=1.0e-5)
    np.testing.assert_allclose(corners(twins.again, "field"), corners(twins.model, "field"), atol=1.0e-6)
    np.testing.assert_allclose(twins.again.body_q.numpy(), twins.model.body_q.numpy(), atol=1.0e-6)
    np.testing.assert_allclose(twins.again.joint_qd.numpy(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], atol=1.0e-5)


@pytest.mark.parametrize("suffix", WRITERS)
def test_one_world_or_all(tmp_path, suffix):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(robot("double_pendulum.xml"), 3, spacing=(2.0, 0.0, 0.0))
    model = builder.finalize("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        one = WRITERS[suffix](model, tmp_path / f"one{suffix}", world=1)
        both = WRITERS[suffix](model, tmp_path / f"all{suffix}")
    per_world = model.body_count // 3
    assert sorted(one.bodies) == list(range(per_world, 2 * per_world))
    assert sorted(both.bodies) == list(range(model.body_count))
    assert len(set(both.bodies.values())) == model.body_count
    with pytest.raises(ModelError, match="world 3: the model has 3"):
        WRITERS[suffix](model, tmp_path / f"none{suffix}", world=3)


@pytest.mark.parametrize("suffix", WRITERS)
def test_names_are_valid_and_unique(tmp_path, suffix):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for key in ("a <b>", "a <b>", "", "world", "1é"):
        body = builder.add_body(mass=1.0, I_m=np.eye(3), key=key)
        builder.add_shape_sphere(body, radius=0.1, density=0.0, key=key)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        report = WRITERS[suffix](builder, tmp_path / f"out{suffix}")
    assert len(set(report.bodies.values())) == 5
    if suffix == ".xml":
        mj = mujoco.MjModel.from_xml_path(report.path)
        assert [mj.body(i + 1).name for i in range(5)] == list(report.bodies.values())


@pytest.mark.parametrize("suffix", WRITERS)
def test_strict_refuses_and_writes_nothing(tmp_path, suffix):
    builder = robot("gripper.urdf")
    builder.add_particle((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 0.1)
    with pytest.raises(ModelError, match="particles, soft bodies and muscles are left out"):
        WRITERS[suffix](builder, tmp_path / f"out{suffix}", strict=True)
    assert not (tmp_path / f"out{suffix}").exists()


@pytest.mark.parametrize("suffix", WRITERS)
def test_bad_arguments(tmp_path, suffix):
    builder = robot("double_pendulum.xml")
    with pytest.raises(ModelError, match=r"must end in .*, got '.*robot.txt'"):
        WRITERS[suffix](builder, tmp_path / "robot.txt")
    with pytest.raises(ModelError, match="there is no folder"):
        WRITERS[suffix](builder, tmp_path / "missing" / f"robot{suffix}")
    with pytest.raises(ModelError, match="expected a Model or a ModelBuilder, got int"):
        WRITERS[suffix](7, tmp_path / f"robot{suffix}")


def test_urdf_of_several_robots_hangs_on_the_world(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for x in (0.0, 1.0):
        builder.add_builder(robot("arm7.urdf"), wp.transform((x, 0.0, 0.0), wp.quat_identity()))
    builder.add_body(key="marker", origin=wp.transform((0.0, 3.0, 0.0), wp.quat_identity()))
    builder.num_envs = 1
    with pytest.warns(UnsupportedElementWarning, match=r"a kinematic body is fixed to the world \(marker\)"):
        report = export_urdf(builder, tmp_path / "out.urdf")
    again = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.utils.parse_urdf(report.path, again, **report.read_with)
    model = builder.finalize("cpu")
    for body, name in report.bodies.items():
        pose = list(again.body_q[again.body_key.index(name)])
        np.testing.assert_allclose(pose, model.body_q.numpy()[body], atol=1.0e-6)


def test_planes_with_bounds_are_approximated(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_shape_plane(plane=(0, 0, 1, 0), width=2.0, length=3.0, key="table")
    with pytest.warns(UnsupportedElementWarning, match=r"a bounded plane .*\(table\)"):
        report = export_mjcf(builder, tmp_path / "out.xml")
    mj = mujoco.MjModel.from_xml_path(report.path)
    assert mj.geom("table").type == mujoco.mjtGeom.mjGEOM_PLANE
    np.testing.assert_allclose(mj.geom("table").size, [1.0, 1.5, 1.0])


def test_inertia_without_mass_is_written_and_counts(tmp_path):
    """As URDF files have it of tips and flanges."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    rod = builder.add_body(mass=2.0, com=(0.5, 0.0, 0.0), I_m=0.1 * np.eye(3), key="rod")
    tip = builder.add_body(I_m=np.diag([0.1, 0.2, 0.3]), key="tip")
    builder.add_articulation()
    builder.add_joint_revolute(-1, rod, axis=(0.0, 0.0, 1.0), key="hinge")
    builder.add_joint_fixed(rod, tip, parent_xform=wp.transform((1.0, 0.0, 0.0), wp.quat_identity()))
    whole = 0.1 + 2.0 * 0.5**2 + 0.3
    model = builder.finalize("cpu")
    assert dynamics.mass_matrix(model, model.state(), armature=False).numpy().item() == pytest.approx(whole)
    robot = pinocchio.buildModelFromUrdf(str(export_urdf(builder, tmp_path / "rod.urdf").path))
    assert pinocchio.crba(robot, robot.createData(), np.zeros(1)).item() == pytest.approx(whole)
    compiled = mujoco.MjModel.from_xml_path(str(export_mjcf(builder, tmp_path / "rod.xml").path))
    for mj in (compiled, MuJoCoSolver(model, use_mujoco=True).mj_model):
        data, M = mujoco.MjData(mj), np.zeros((1, 1))
        mujoco.mj_forward(mj, data)
        mujoco.mj_fullM(mj, data, M)
        assert M.item() - mj.dof_armature.item() == pytest.approx(whole)
    again = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_usd(str(export_usd(builder, tmp_path / "rod.usda").path), again)
    read = again.finalize("cpu")
    np.testing.assert_allclose(read.body_inertia.numpy()[1], np.diag([0.1, 0.2, 0.3]), rtol=1e-6)
    assert dynamics.mass_matrix(read, read.state(), armature=False).numpy().item() == pytest.approx(whole)
