"""A model that export_usd writes is valid to OpenUSD's own checks, and comes back as the same model."""

import warnings

import numpy as np
import pybullet_data
import pytest
import trimesh
from export_scenes import crowd, driven, looped, many_shapes
from export_twins import Twins, robot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.compare import mass_matrix_error
from pxr import Usd, UsdGeom, UsdPhysics, UsdValidation

import newtonsim
from newtonsim.importers import parse_urdf
from newtonsim.scene.enums import GeoType, JointType, ShapeFlags
from newtonsim.testing import random_model
from newtonsim.utils import export_usd

TREES = (
    *(JointType.REVOLUTE, JointType.PRISMATIC, JointType.FIXED, JointType.COMPOUND, JointType.UNIVERSAL),
    *(JointType.D6, JointType.BALL),
)
_TOUCHES = int(ShapeFlags.COLLIDE_SHAPES)
BASES = (JointType.FREE, JointType.D6, JointType.FIXED, JointType.BALL)


def eggs() -> newtonsim.ModelBuilder:
    """Ellipsoids that collide, on a body and on the ground, and one that is only seen."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_joint_free(builder.add_body(key="nest"))
    turn = (0.5, 0.5, 0.5, 0.5)
    builder.add_shape_ellipsoid(0, a=0.1, b=0.2, c=0.3, pos=(0.1, 0.0, 0.0), rot=turn, key="egg")
    builder.add_shape_ellipsoid(-1, a=0.3, b=0.2, c=0.2, pos=(1.0, 0.0, 0.0), key="stone")
    builder.add_shape_ellipsoid(0, a=0.1, b=0.1, c=0.3, density=0.0, has_shape_collision=False,
                                has_ground_collision=False, key="shadow")  # fmt: skip
    return builder


SCENES = {
    "eggs": eggs,
    "quadruped": lambda: robot("quadruped.xml", ground=True),
    "humanoid": lambda: robot("humanoid.xml", ground=True),
    "gripper": lambda: robot("gripper.urdf"),
    "crowd": lambda: crowd(ground=True),
    "drives": driven,
    "loops": looped,
    "shapes": many_shapes,
    "tree": lambda: random_model(3, joint_types=TREES),
}


def validate(stage: Usd.Stage) -> list[str]:
    """What all validators of OpenUSD say of a stage."""
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    found = UsdValidation.ValidationContext(validators).Validate(stage)
    return [f"{error.GetName()}: {error.GetMessage()}" for error in found]


def test_the_validators_find_what_is_wrong():
    """Two articulation roots in each other, and a joint without bodies."""
    stage = Usd.Stage.CreateInMemory()
    for path in ("/a", "/a/b"):
        prim = stage.DefinePrim(path, "Xform")
        UsdPhysics.ArticulationRootAPI.Apply(prim)
        UsdPhysics.RigidBodyAPI.Apply(prim)
    assert any("rticulation" in text for text in validate(stage))


@pytest.mark.parametrize("name", SCENES)
def test_openusd_finds_nothing_wrong(name, tmp_path):
    """All validators of UsdPhysics, UsdGeom, UsdShade and UsdUtils."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = export_usd(SCENES[name](), tmp_path / "out.usda")
    assert validate(Usd.Stage.Open(report.path)) == []


def test_ellipsoids_come_back_as_such(tmp_path):
    """UsdPhysics has no stretched balls that collide; other engines find their hull."""
    twins = Twins(eggs(), tmp_path / "out.usda")
    assert not twins.report.entries
    stage = Usd.Stage.Open(twins.report.path)
    for shape, key in enumerate(("egg", "stone", "shadow")):
        path = twins.report.shapes[shape][0]
        again = twins.builder.shape_key.index(path)
        assert twins.builder.shape_geo_type[again] == GeoType.ELLIPSOID, key
        ours, theirs = (model.shape_geo.scale.numpy() for model in (twins.model, twins.again))
        np.testing.assert_allclose(theirs[again], ours[shape], atol=1.0e-6, err_msg=key)
        ours, theirs = (model.shape_transform.numpy() for model in (twins.model, twins.again))
        np.testing.assert_allclose(theirs[again], ours[shape], atol=1.0e-6, err_msg=key)
        ours, theirs = (model.shape_flags.numpy() & _TOUCHES for model in (twins.model, twins.again))
        assert theirs[again] == ours[shape], key
    mesh = UsdGeom.Mesh(stage.GetPrimAtPath(twins.report.shapes[0][0]))
    assert UsdPhysics.MeshCollisionAPI(mesh).GetApproximationAttr().Get() == "convexHull"
    points = np.array(mesh.GetPointsAttr().Get())
    assert len(points) <= 255  # as many as the hulls of other engines have
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, atol=1.0e-6)
    hull = trimesh.Trimesh(points, np.array(mesh.GetFaceVertexIndicesAttr().Get()).reshape(-1, 3))
    assert hull.is_watertight
    assert hull.volume == pytest.approx(4.0 / 3.0 * np.pi, rel=0.06)


def check_same(twins: Twins, seed: int = 0) -> None:
    """Masses, inertias, M(q), bias, limits, drives and the rest of each axis, and who touches whom."""
    ours, theirs = twins.mass_matrices(seed)
    if len(ours):
        assert mass_matrix_error(theirs, ours) < 1.0e-5
        bias = twins.bias_forces(seed)
        np.testing.assert_allclose(
            bias[1], bias[0], atol=2.0e-5 * max(1.0e-2, np.abs(bias[0]).max()), err_msg="bias"
        )
    bodies = [twins.builder.body_key.index(path) for path in twins.report.bodies.values()]
    for name in ("body_mass", "body_com", "body_inertia"):
        ours, theirs = (getattr(model, name).numpy() for model in (twins.model, twins.again))
        size = np.abs(ours).reshape(len(ours), -1).max(axis=1).reshape(-1, *[1] * (ours.ndim - 1))
        assert (np.abs(theirs[bodies] - ours) <= 1.0e-6 * size + 1.0e-12).all(), name
    axes, others = _axes(twins)
    for name in ("limit_lower", "limit_upper", "limit_solref", "limit_solimp", "limit_margin", "effort_limit",
                 "velocity_limit", "stiffness", "spring_ref", "axis_mode", "act"):  # fmt: skip
        ours, theirs = (getattr(model, f"joint_{name}").numpy() for model in (twins.model, twins.again))
        ours, theirs = (np.clip(values, -1.0e6, 1.0e6) for values in (ours[axes], theirs[others]))
        np.testing.assert_allclose(theirs, ours, rtol=2.0e-6, atol=1.0e-7, err_msg=name)
    for name in ("armature", "damping", "friction"):
        ours, theirs = (getattr(model, f"joint_{name}").numpy() for model in (twins.model, twins.again))
        np.testing.assert_allclose(theirs[twins.dofs], ours, rtol=1.0e-6, err_msg=name)


def _axes(twins: Twins) -> tuple[list[int], list[int]]:
    """Axes of the first model, and their places in the second."""
    places: tuple[list[int], list[int]] = ([], [])
    for joint, names in twins.report.joints.items():
        other = twins.read.joints.get(names[0], -1)
        count = int(twins.model.joint_axis_dim.numpy()[joint].sum())
        for models, index, found in zip((twins.model, twins.again), (joint, other), places):
            found.extend(int(models.joint_axis_start.numpy()[index]) + k for k in range(count))
    return places


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000), st.sampled_from(BASES))
def test_random_trees_come_back_the_same(tmp_path_factory, seed, base):
    """Any joints, axes, masses and frames."""
    model = random_model(seed, joint_types=TREES, base=base, up_vector=(0, 0, 1))
    check_same(Twins(model, tmp_path_factory.mktemp("usd") / "out.usda"), seed)


@pytest.mark.parametrize(
    "name",
    [
        *("franka_panda/panda.urdf", "kuka_iiwa/model.urdf", "laikago/laikago.urdf", "r2d2.urdf"),
        *("humanoid/humanoid.urdf", "racecar/racecar.urdf", "quadruped/minitaur.urdf"),
    ],
)
def test_robots_of_pybullet_come_back_the_same(name, tmp_path):
    """Their inertias have all kinds of axes; some no matter could have."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", newtonsim.UnsupportedElementWarning)
        parse_urdf(f"{pybullet_data.getDataPath()}/{name}", builder, ignore_inertial_definitions=False)
    check_same(Twins(builder, tmp_path / "out.usda"))


def test_links_without_mass_stay_in_their_robot(tmp_path):
    """A flange between two links and a frame at the end, which carry no mass and are not kinematic bodies."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parent = -1
    for key, mass in (("arm", 2.0), ("flange", 0.0), ("tool", 1.0), ("tip", 0.0)):
        link = builder.add_body(mass=mass, I_m=0.1 * mass * np.eye(3), com=(0.2 * mass, 0.0, 0.0), key=key)
        place = {"parent_xform": ((0.5, 0.0, 0.1), (0.0, 0.0, 0.0, 1.0)), "key": f"{key}_joint"}
        if mass:
            builder.add_joint_revolute(parent, link, axis=(0.0, 1.0, 0.0), **place)
        else:
            builder.add_joint_fixed(parent, link, **place)
        parent = link
    twins = Twins(builder, tmp_path / "out.usda")
    assert twins.again.joint_count == 4
    check_same(twins)


def test_what_a_floating_joint_has_comes_back(tmp_path):
    """Armature, damping and friction of a free root, one number for each degree of freedom."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_joint_free(builder.add_body(mass=1.0, I_m=np.eye(3), key="ship"), key="root")
    builder.joint_armature[:] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    builder.joint_damping[:] = [0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    twins = Twins(builder, tmp_path / "out.usda")
    assert not twins.report.entries
    for name in ("armature", "damping", "friction"):
        ours, theirs = (getattr(model, f"joint_{name}").numpy() for model in (twins.model, twins.again))
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)


def test_limits_and_contacts_by_reference_come_back(tmp_path):
    """Also where they are MuJoCo's defaults, and of joints with several axes."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    arm = builder.add_body(mass=1.0, I_m=np.eye(3), key="arm")
    hand = builder.add_body(mass=1.0, I_m=np.eye(3), key="hand")
    axis = newtonsim.JointAxis((0, 1, 0), -1.0, 1.0, limit_solref=(0.02, 1.0), limit_margin=0.01)
    builder.add_joint_revolute(-1, arm, axis=axis, key="shoulder")
    soft = {"limit_solref": (0.05, 0.5), "limit_solimp": (0.5, 0.6, 0.01, 0.4, 3)}
    axes = [
        newtonsim.JointAxis((1, 0, 0), -1.0, 1.0, **soft),
        newtonsim.JointAxis((0, 0, 1), -1.0, 1.0),
    ]
    builder.add_joint_universal(arm, hand, *axes, key="wrist")
    for body in (arm, hand):
        builder.add_shape_sphere(body, radius=0.1)
    builder.shape_solref[:] = [(0.02, 1.0), (-300.0, -10.0)]
    builder.shape_solimp[1] = (0.5, 0.6, 0.01, 0.4, 3.0)
    builder.shape_priority[1], builder.shape_condim[1], builder.shape_solmix[0] = 2, 1, 0.25
    builder.shape_spin_friction[1] = (0.02, 0.003)
    twins = Twins(builder, tmp_path / "out.usda")
    assert not twins.report.of_kind("approximated")
    assert validate(Usd.Stage.Open(twins.report.path)) == []
    check_same(twins)
    for name in ("spin_friction", "solref", "solimp", "priority", "condim", "solmix"):
        ours, theirs = (getattr(model, f"shape_{name}").numpy() for model in (twins.model, twins.again))
        np.testing.assert_allclose(theirs, ours, rtol=1e-6, err_msg=name)
