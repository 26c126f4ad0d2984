"""Units and axes of stages: the same scene written in any of them is the same model and moves identically."""

import numpy as np
import pytest
from usd_text import BODY, MASS, ROOT, SOLID, ops, prim, read, remarks, run, stage_of

import newtonsim
from newtonsim.geometry.transforms import quat_rotate

DEGREE = np.pi / 180.0


def scene(length: float = 1.0, mass: float = 1.0, y_up: bool = False) -> str:
    """An arm with a drive and a slider on a stand, and a thrown box above a floor.

    Args:
        length: Metres per unit.
        mass: Kilograms per unit.
        y_up: Write (x, y, z) as (y, z, x).
    """
    up, along = ("Y", "Z") if y_up else ("Z", "X")

    def vector(x: float, y: float, z: float) -> str:
        return str((y, z, x) if y_up else (x, y, z))

    def place(x: float, y: float, z: float) -> str:
        return vector(x / length, y / length, z / length)

    def box(size: float) -> str:
        return prim("Cube", "box", SOLID, inside=f"double size = {size / length}")

    inertia = mass * length**2
    floor = prim("Plane", "floor", SOLID, inside=f'uniform token axis = "{up}"')
    thrown = prim(
        "Xform", "thrown", BODY, MASS,
        inside=ops(translate=place(2.0, 0.3, 0.5))
        + f"float physics:density = {500.0 * length**3 / mass}\n"
            f"vector3f physics:velocity = {place(1.0, 0.0, 0.5)}\n"
        + f"vector3f physics:angularVelocity = {vector(0.0, 90.0, 20.0)}\n" + box(0.2),
    )  # fmt: skip
    arm = prim(
        "Xform", "arm", BODY, MASS,
        inside=ops(translate=place(0.0, 0.0, 2.0))
        + f"float physics:mass = {3.0 / mass}\npoint3f physics:centerOfMass = {place(0.0, 0.0, -0.2)}\n"
        + f"float3 physics:diagonalInertia = {vector(0.2 / inertia, 0.3 / inertia, 0.1 / inertia)}\n"
        + "quatf physics:principalAxes = (1, 0, 0, 0)\n",
    )  # fmt: skip
    slider = prim(
        "Xform", "slider", BODY, MASS,
        inside=ops(translate=place(0.0, 0.0, 1.5)) + f"float physics:mass = {1.0 / mass}\n" + box(0.1),
    )  # fmt: skip
    hinge = prim(
        "PhysicsRevoluteJoint", "hinge", "PhysicsDriveAPI:angular",
        inside=f"""rel physics:body1 = </arm>
        uniform token physics:axis = "{"X" if y_up else "Y"}"
        point3f physics:localPos0 = {place(0.0, 0.0, 2.0)}
        float physics:lowerLimit = -60
        float physics:upperLimit = 45
        float drive:angular:physics:stiffness = {40.0 * DEGREE / inertia}
        float drive:angular:physics:damping = {2.0 * DEGREE / inertia}
        float drive:angular:physics:targetPosition = 30
        float drive:angular:physics:maxForce = {6.0 / inertia}
        """,
    )  # fmt: skip
    slide = prim(
        "PhysicsPrismaticJoint", "slide", "PhysicsDriveAPI:linear",
        inside=f"""rel physics:body0 = </arm>
        rel physics:body1 = </slider>
        uniform token physics:axis = "{along}"
        point3f physics:localPos0 = {place(0.0, 0.0, -0.5)}
        float physics:lowerLimit = {-0.1 / length}
        float physics:upperLimit = {0.2 / length}
        float drive:linear:physics:stiffness = {300.0 / mass}
        float drive:linear:physics:damping = {5.0 / mass}
        float drive:linear:physics:targetPosition = {0.05 / length}
        float drive:linear:physics:maxForce = {20.0 / mass / length}
        """,
    )  # fmt: skip
    gravity = prim("PhysicsScene", "scene", inside=f"float physics:gravityMagnitude = {9.5 / length}")
    return floor + thrown + arm + slider + hinge + slide + gravity


def test_a_centimetre_stage_and_a_metre_stage_move_identically():
    """Written z-up in centimetres and grams and y-up in metres and kilograms."""
    small, first = read(scene(0.01, 0.001), "Z", 0.01, 0.001)
    large, second = read(scene(y_up=True), "Y", builder=newtonsim.ModelBuilder(up_vector=(0.0, 1.0, 0.0)))
    assert small.gravity == pytest.approx(-9.5, rel=1e-6)
    assert large.gravity == pytest.approx(-9.5, rel=1e-6)
    assert first["path_body_map"] == second["path_body_map"]
    assert (first["linear_unit"], first["mass_unit"], first["up_axis"]) == (0.01, 0.001, "Z")
    (_, a), (_, b) = run(small, 120), run(large, 120)
    # Float32 of different axes: rounding differs, and the box has touched the floor by then.
    np.testing.assert_allclose(a.joint_q.numpy()[-2:], b.joint_q.numpy()[-2:], atol=2e-5)
    ours, theirs = a.body_q.numpy()[:, :3], b.body_q.numpy()[:, [2, 0, 1]]
    np.testing.assert_allclose(ours, theirs, atol=2e-4)
    assert ours[0, 2] < 0.15
    assert np.abs(a.joint_q.numpy()[-2:]).min() > 0.01


def test_numbers_are_in_si_units():
    """Each quantity of the scene as it was meant."""
    builder, result = read(scene(0.01, 0.001), "Z", 0.01, 0.001)
    thrown, arm = (result["path_body_map"][path] for path in ("/thrown", "/arm"))
    assert builder.body_mass[thrown] == pytest.approx(500.0 * 0.2**3, rel=1e-5)
    np.testing.assert_allclose(builder.body_qd[thrown], [0.0, np.pi / 2, np.pi / 9, 1.0, 0.0, 0.5], rtol=1e-5)
    np.testing.assert_allclose(builder.body_com[arm], [0.0, 0.0, -0.2], rtol=1e-5)
    np.testing.assert_allclose(builder.body_inertia[arm], np.diag([0.2, 0.3, 0.1]), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(builder.joint_limit_lower, [-np.pi / 3, -0.1], rtol=1e-5)
    np.testing.assert_allclose(builder.joint_limit_upper, [np.pi / 4, 0.2], rtol=1e-5)
    np.testing.assert_allclose(builder.joint_target_ke, [40.0, 300.0], rtol=1e-5)
    np.testing.assert_allclose(builder.joint_target_kd, [2.0, 5.0], rtol=1e-5)
    np.testing.assert_allclose(builder.joint_act, [np.pi / 6, 0.05], rtol=1e-5)
    np.testing.assert_allclose(builder.joint_effort_limit, [6.0, 20.0], rtol=1e-5)


@pytest.mark.parametrize("up", ["X", "Y", "Z"])
@pytest.mark.parametrize("target", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
def test_the_up_axis_turns_to_the_builders(up, target):
    """Gravity without a direction is down, and a point above stays above."""
    height = np.eye(3)["XYZ".index(up)] * 250.0
    text = prim("PhysicsScene", "scene") + prim(
        "Sphere", "ball", BODY, SOLID, inside=ops(translate=tuple(height.tolist()))
    )
    builder, result = read(text, up, 0.01, builder=newtonsim.ModelBuilder(up_vector=target))
    np.testing.assert_allclose(list(builder.body_q[0])[:3], 2.5 * np.array(target), atol=1e-6)
    assert builder.gravity == pytest.approx(-9.81)
    assert result["up_axis"] == up


def test_gravity_to_the_side_is_a_vector():
    """Direction and size as the scene says; a negative size is the earth's in any unit."""
    text = prim(
        "PhysicsScene",
        "scene",
        inside="vector3f physics:gravityDirection = (2, 0, 0)\nfloat physics:gravityMagnitude = 162",
    )
    np.testing.assert_allclose(read(text, meters=0.01)[0].gravity, [1.62, 0.0, 0.0], rtol=1e-6, atol=1e-9)
    text = text.replace("= 162", "= -3")
    np.testing.assert_allclose(read(text, meters=0.01)[0].gravity, [9.81, 0.0, 0.0], rtol=1e-6, atol=1e-9)


def test_without_a_scene_gravity_stays():
    """The builder's gravity is only replaced by one that a stage has."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=-1.0)
    read(prim("Sphere", "ball", BODY, SOLID), builder=builder)
    assert builder.gravity == -1.0


def test_xform_puts_the_turned_stage_somewhere():
    """First the up axis is turned, then the stage placed; gravity does not follow."""
    turn = (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))
    text = prim("PhysicsScene", "scene") + prim(
        "Sphere", "ball", BODY, SOLID, inside=ops(translate=(1, 2, 3))
    )
    text += prim("Cube", "stone", SOLID, inside=ops(translate=(4, 0, 0)))
    builder, _ = read(text, xform=((10.0, 0.0, 0.0), turn))
    np.testing.assert_allclose(list(builder.body_q[0])[:3], [8.0, 1.0, 3.0], atol=1e-6)
    np.testing.assert_allclose(list(builder.shape_transform[1])[:3], [10.0, 4.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(
        quat_rotate(list(builder.body_q[0])[3:], (1.0, 0.0, 0.0)), [0.0, 1.0, 0.0], atol=1e-6
    )
    assert builder.gravity == pytest.approx(-9.81)


@pytest.mark.parametrize(
    ("name", "value"), [("metersPerUnit", 0.0), ("kilogramsPerUnit", -1.0), ("metersPerUnit", "nan")]
)
def test_impossible_units_are_named(name, value):
    """A unit of nothing is an error that names it."""
    stage = stage_of(prim("Sphere", "ball", BODY, SOLID))
    stage.GetRootLayer().pseudoRoot.SetInfo(name, float(value))
    with pytest.raises(newtonsim.ImportFileError, match=name):
        read(stage)


def test_articulation_root_is_the_root():
    """The body with ArticulationRootAPI floats, the one that a joint calls its first hangs on it."""
    text = prim("Sphere", "a", BODY, SOLID) + prim(
        "Sphere", "b", BODY, SOLID, ROOT, inside=ops(translate=(0, 0, 3))
    )
    text += prim("PhysicsRevoluteJoint", "hinge", inside="""rel physics:body0 = </a>
        rel physics:body1 = </b>
        point3f physics:localPos0 = (0, 0, 3)
        float physics:lowerLimit = -10
        float physics:upperLimit = 20""")  # fmt: skip
    builder, result = read(text)
    joint = result["path_joint_map"]["/hinge"]
    assert (builder.joint_parent[joint], builder.joint_child[joint]) == (1, 0)
    np.testing.assert_allclose(builder.joint_axis[0], [-1.0, 0.0, 0.0])
    np.testing.assert_allclose(builder.joint_limit_lower[0], np.radians(-10.0))
    assert not remarks(result, "approximated", "/hinge")
