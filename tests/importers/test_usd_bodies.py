"""Rigid bodies of stages: mass against OpenUSD's own sum, velocities, kinematic and nested bodies."""

import numpy as np
import pytest
from pxr import Gf, UsdPhysics
from usd_text import BODY, MASS, SOLID, ops, prim, read, remarks, run, stage_of

import newtonsim
from newtonsim.geometry.transforms import quat_matrix, quat_rotate

DENSITY = 300.0

MATERIAL = prim("Material", "wood", "PhysicsMaterialAPI", inside="float physics:density = 700")
BOUND = "rel material:binding:physics = </wood>\n"


def cubes(body: str, first: str = "", second: str = "") -> str:
    """A turned and stretched body with two boxes of different sizes; lines of text for each prim."""
    one = prim(
        "Cube", "one", SOLID, MASS, "MaterialBindingAPI",
        inside=ops(translate=(0.5, 0, 0), rotateXYZ=(0, 0, 30), scale=(0.1, 0.2, 0.3)) + first,
    )  # fmt: skip
    two = prim(
        "Cube", "two", SOLID, MASS, "MaterialBindingAPI",
        inside=ops(translate=(0, -1, 0.2), scale=(0.2, 0.2, 0.1)) + second,
    )  # fmt: skip
    place = ops(translate=(1, 2, 3), rotateXYZ=(20, 30, 40), scale=(2, 2, 2))
    return MATERIAL + prim("Xform", "body", BODY, MASS, inside=place + body + one + two)


def reference(text: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre and inertia of /body as `ComputeMassProperties` sums them; boxes by hand."""
    stage = stage_of(text)
    stated = {prim.GetPath(): prim.GetAttribute("physics:density") for prim in stage.Traverse()}
    # OpenUSD's default density is 1000 kg/m^3, ours is an argument.
    assert stated

    def box(collider) -> UsdPhysics.RigidBodyAPI.MassInformation:
        half = 2.0 * np.array(collider.GetAttribute("xformOp:scale").Get())
        information = UsdPhysics.RigidBodyAPI.MassInformation()
        information.volume = float(8.0 * half.prod())
        squares = np.square(half)
        information.inertia = Gf.Matrix3f(*np.diag((squares.sum() - squares) / 3.0).ravel().tolist())
        information.inertia *= information.volume
        information.centerOfMass = Gf.Vec3f(0.0)
        turn = collider.GetAttribute("xformOp:rotateXYZ")
        angle = np.radians(turn.Get()[2]) if turn else 0.0
        information.localPos = Gf.Vec3f(
            *(2.0 * np.array(collider.GetAttribute("xformOp:translate").Get())).tolist()
        )
        information.localRot = Gf.Quatf(float(np.cos(angle / 2)), 0.0, 0.0, float(np.sin(angle / 2)))
        return information

    mass, moments, com, axes = UsdPhysics.RigidBodyAPI(stage.GetPrimAtPath("/body")).ComputeMassProperties(
        box
    )
    rotation = quat_matrix([*axes.GetImaginary(), axes.GetReal()])
    return mass, np.array(com), rotation @ np.diag(moments) @ rotation.T


@pytest.mark.parametrize(
    ("body", "first", "second"),
    [
        ("", "", ""),
        ("float physics:density = 10\n", "", ""),
        ("float physics:density = 10\n", "float physics:density = 20", ""),
        ("float physics:density = 10\n", BOUND, ""),
        ("", BOUND, "float physics:density = 20"),
        ("float physics:density = 10\n", "float physics:mass = 20", ""),
        ("float physics:mass = 10\n", "float physics:mass = 20", BOUND),
        ("float physics:mass = 10\n", "", "bool physics:collisionEnabled = 0"),
        ("float physics:mass = 10\npoint3f physics:centerOfMass = (0.1, 0.2, 0)\n", "", ""),
        (
            "float physics:mass = 10\nfloat3 physics:diagonalInertia = (3, 4, 5)\n"
            "quatf physics:principalAxes = (0.5, 0.5, 0.5, 0.5)\n", "", "",
        ),
    ],
)  # fmt: skip
def test_mass_follows_the_precedence_of_the_schemas(body, first, second):
    """The mass of the body, else of colliders; densities of colliders, bodies, materials, and the default."""
    text = cubes(body, first, second)
    builder, _ = read(text, default_density=1000.0)
    mass, com, inertia = reference(text)
    assert builder.body_mass[0] == pytest.approx(mass, rel=1e-5)
    np.testing.assert_allclose(builder.body_com[0], com, atol=1e-5)
    np.testing.assert_allclose(builder.body_inertia[0], inertia, rtol=1e-4, atol=1e-4 * np.abs(inertia).max())


def test_collider_states_its_own_inertia():
    """Mass, centre and inertia of a collider, in its own axes."""
    own = (
        "float physics:mass = 2\npoint3f physics:centerOfMass = (0, 0, 0)\n"
        "float3 physics:diagonalInertia = (1, 2, 3)\n"
    )
    cube = prim("Cube", "cube", SOLID, MASS, inside=ops(translate=(1, 0, 0), rotateXYZ=(0, 0, 90)) + own)
    builder, _ = read(prim("Xform", "body", BODY, inside=cube))
    assert builder.body_mass[0] == 2.0
    np.testing.assert_allclose(builder.body_com[0], [1.0, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(builder.body_inertia[0], np.diag([2.0, 1.0, 3.0]), atol=1e-6)


def test_inertia_without_axes_is_along_those_of_the_prim():
    """OpenUSD's sum would borrow the axes of the colliders, whose order means nothing."""
    text = cubes("float physics:mass = 10\nfloat3 physics:diagonalInertia = (3, 4, 5)\n")
    np.testing.assert_allclose(read(text)[0].body_inertia[0], np.diag([3.0, 4.0, 5.0]), atol=1e-6)


def test_the_default_density_is_that_of_the_argument():
    """Where nothing says else."""
    builder, _ = read(prim("Cube", "box", BODY, SOLID), default_density=DENSITY)
    assert builder.body_mass[0] == pytest.approx(8.0 * DENSITY)


def test_bodies_without_form_have_that_of_a_small_ball():
    """Mass without colliders, and neither: both are told."""
    builder, result = read(
        prim("Xform", "known", BODY, MASS, inside="float physics:mass = 5") + prim("Xform", "unknown", BODY)
    )
    np.testing.assert_allclose(builder.body_mass, [5.0, 1.0])
    np.testing.assert_allclose(builder.body_inertia[0], 5.0 * 0.4 * 0.01 * np.eye(3), rtol=1e-6)
    assert "inertia" in remarks(result, "approximated", "/known")[0]
    assert "1 kg" in remarks(result, "approximated", "/unknown")[0]


def test_velocities_are_in_the_space_of_the_prim():
    """Stretched and turned with it; degrees per second for turns."""
    place = ops(rotateXYZ=(0, 0, 90), scale=(2, 2, 2))
    speed = "vector3f physics:velocity = (1, 0, 0)\nvector3f physics:angularVelocity = (0, 180, 0)\n"
    builder, _ = read(prim("Sphere", "ball", BODY, SOLID, inside=place + speed))
    np.testing.assert_allclose(builder.body_qd[0], [-np.pi, 0.0, 0.0, 0.0, 2.0, 0.0], atol=1e-6)


def test_velocities_become_those_of_joints():
    """A wheel on a moving cart: its spin relative to the cart is the joint's, the rest is carried."""
    cart = prim("Cube", "cart", BODY, SOLID, inside="vector3f physics:velocity = (3, 0, 0)")
    wheel = prim(
        "Sphere", "wheel", BODY, SOLID,
        inside=ops(translate=(0, 0, -2)) + "vector3f physics:velocity = (3, 0, 0)\n"
            "vector3f physics:angularVelocity = (0, 90, 0)",
    )  # fmt: skip
    axle = prim(
        "PhysicsRevoluteJoint", "axle",
        inside='rel physics:body0 = </cart>\nrel physics:body1 = </wheel>\n'
            'uniform token physics:axis = "Y"\npoint3f physics:localPos0 = (0, 0, -2)',
    )  # fmt: skip
    builder, result = read(cart + wheel + axle)
    dof = result["report"].joint_dofs["/axle"]
    assert builder.joint_qd[dof] == pytest.approx(np.pi / 2)
    np.testing.assert_allclose(builder.joint_qd[:6], [0.0, 0.0, 0.0, 3.0, 0.0, 0.0], atol=1e-6)
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    np.testing.assert_allclose(state.body_qd.numpy()[1], [0.0, np.pi / 2, 0.0, 3.0, 0.0, 0.0], atol=1e-5)


def test_kinematic_bodies_carry_but_do_not_move():
    """A pendulum on a kinematic body swings, the body stays; its velocity is reported."""
    text = prim("PhysicsScene", "scene")
    text += prim(
        "Cube",
        "hook",
        BODY,
        SOLID,
        inside="bool physics:kinematicEnabled = 1\nvector3f physics:velocity = (1, 0, 0)",
    )
    text += prim("Sphere", "bob", BODY, SOLID, inside=ops(translate=(3, 0, 0)))
    text += prim("PhysicsRevoluteJoint", "pivot", inside="""rel physics:body0 = </bob>
        rel physics:body1 = </hook>
        uniform token physics:axis = "Y"
        point3f physics:localPos0 = (-3, 0, 0)""")  # fmt: skip
    builder, result = read(text)
    assert builder.body_mass[0] == 0.0
    assert "kinematic" in remarks(result, "unsupported", "/hook")[0]
    _, state = run(builder, 60)
    np.testing.assert_allclose(state.body_q.numpy()[0, :3], 0.0, atol=1e-6)
    assert state.body_q.numpy()[1, 2] < -0.2


@pytest.mark.parametrize(("kinematic", "kind"), [(0, "ignored"), (1, "unsupported")])
def test_animated_bodies_start_at_the_first_pose(kinematic, kind):
    """Time samples are not followed, which is told."""
    samples = "double3 xformOp:translate.timeSamples = {\n5: (1, 0, 0),\n9: (2, 0, 0),\n}\n"
    order = 'uniform token[] xformOpOrder = ["xformOp:translate"]\n'
    flag = f"bool physics:kinematicEnabled = {kinematic}\n"
    builder, result = read(prim("Cube", "box", BODY, SOLID, inside=samples + order + flag))
    np.testing.assert_allclose(list(builder.body_q[0])[:3], [1.0, 0.0, 0.0])
    assert any("animat" in message for message in remarks(result, kind, "/box"))


def test_switched_off_bodies():
    """Loaded unless only enabled ones are wanted; then their colliders are part of the world."""
    text = prim("Cube", "box", BODY, SOLID, inside="bool physics:rigidBodyEnabled = 0")
    builder, result = read(text)
    assert builder.body_count == 1
    assert "not enabled" in remarks(result, "approximated", "/box")[0]
    builder, result = read(text, only_load_enabled_rigid_bodies=True)
    assert (builder.body_count, builder.shape_body[0]) == (0, -1)
    assert result["path_body_map"] == {}


def test_nested_bodies_move_on_their_own():
    """A body below a body has its own colliders; without resetXformStack that is told."""
    child = prim("Sphere", "child", BODY, SOLID, inside=ops(translate=(0, 0, 5)))
    builder, result = read(prim("Cube", "parent", BODY, SOLID, inside=ops(translate=(1, 0, 0)) + child))
    assert result["path_body_map"] == {"/parent": 0, "/parent/child": 1}
    assert [builder.shape_body[i] for i in range(2)] == [0, 1]
    np.testing.assert_allclose(list(builder.body_q[1])[:3], [1.0, 0.0, 5.0])
    assert remarks(result, "approximated", "/parent/child")


def test_reset_of_the_transform_stack():
    """A prim that resets it stands in the stage's space, still on its body."""
    reset = ops(translate=(0, 0, 5)).replace('["xformOp', '["!resetXformStack!", "xformOp')
    child = prim("Sphere", "child", SOLID, inside=reset)
    builder, _ = read(prim("Xform", "body", BODY, inside=ops(translate=(1, 0, 0)) + child), meters=0.1)
    np.testing.assert_allclose(list(builder.shape_transform[0])[:3], [-0.1, 0.0, 0.5], atol=1e-7)


def test_mirrored_bodies_are_split_as_openusd_does():
    """Pose of the rigid frame of a mirrored prim, as UsdPhysics parses it."""
    text = prim(
        "Cube", "box", BODY, SOLID, inside=ops(translate=(1, 2, 3), rotateXYZ=(10, 20, 30), scale=(2, -3, 4))
    )
    builder, _ = read(text)
    parsed = UsdPhysics.UsdPhysicsLoadStageFromPrimRange(stage_of(text), ["/"])
    (found,) = parsed[UsdPhysics.ObjectType.RigidBody][1]
    q = list(builder.body_q[0])
    np.testing.assert_allclose(q[:3], found.position, atol=1e-6)
    theirs = [*found.rotation.GetImaginary(), found.rotation.GetReal()]
    np.testing.assert_allclose(quat_rotate(q[3:], (1, 2, 3)), quat_rotate(theirs, (1, 2, 3)), atol=1e-5)


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ("float physics:mass = -1", ["physics:mass", "-1"]),
        ("float physics:mass = inf", ["physics:mass", "inf"]),
        ("string physics:mass = \"heavy\"", ["physics:mass", "heavy"]),
        ("float3 physics:diagonalInertia = (1, -2, 3)", ["physics:diagonalInertia", "-2"]),
        ("vector3f physics:velocity = (nan, 0, 0)", ["physics:velocity", "nan"]),
        (ops(scale=(1, 1, 0)), ["/body", "xformOpOrder"]),
        (ops(transform="((1, 0, 0, 0), (1, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))"), ["/body", "sheared"]),
    ],
)  # fmt: skip
def test_wrong_numbers_are_named_and_nothing_is_changed(inside, words):
    """The error names prim, attribute and value; the builder stays as it was."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.raises(newtonsim.ImportFileError) as caught:
        read(
            prim("Cube", "first", BODY, SOLID) + prim("Xform", "body", BODY, MASS, inside=inside),
            builder=builder,
        )
    assert "/body" in str(caught.value)
    assert all(word in str(caught.value) for word in words)
    assert (builder.body_count, builder.shape_count, builder.gravity) == (0, 0, -9.81)
