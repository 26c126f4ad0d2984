"""Joints of stages: kinds, frames, coordinates, loops, drives."""

import numpy as np
import pytest
from usd_text import BODY, MASS, SOLID, ops, prim, read, remarks, run

import newtonsim
from newtonsim.geometry.transforms import quat_multiply, transform_multiply
from newtonsim.scene.enums import ConstraintType, JointMode, JointType

A = prim("Cube", "a", BODY, SOLID, inside="double size = 0.2\n")


def b(place: str = "") -> str:
    return prim("Cube", "b", BODY, SOLID, inside="double size = 0.2\n" + (place or ops(translate=(0, 0, 1))))


def joint(
    kind: str, inside: str = "", *schemas: str, name: str = "j", first: str = "a", second: str = "b"
) -> str:
    """A joint between two bodies, in the origin of the second one."""
    ends = f"rel physics:body0 = </{first}>\n" if first else ""
    ends += f"rel physics:body1 = </{second}>\n" if second else ""
    if "localPos0" not in inside:
        inside += "\npoint3f physics:localPos0 = (0, 0, 1)\n"
    return prim(kind, name, *schemas, inside=ends + inside)


def limits(**ranges: tuple[float, float]) -> tuple[str, list[str]]:
    """Text and schemas of LimitAPIs."""
    text = "".join(
        f"float limit:{name}:physics:low = {low}\nfloat limit:{name}:physics:high = {high}\n"
        for name, (low, high) in ranges.items()
    )
    return text, [f"PhysicsLimitAPI:{name}" for name in ranges]


LOCKED = (1, -1)


def test_bodies_stand_where_the_stage_has_them_and_joints_agree():
    """Coordinates are read off the poses; `body_q` of forward kinematics is that of the stage."""
    tilt = ops(translate=(0, 0, 1), rotateXYZ=(0, 40, 0))
    text = A + b(tilt) + joint("PhysicsRevoluteJoint", 'uniform token physics:axis = "Y"')
    text += prim("Cube", "c", BODY, SOLID, inside=ops(translate=(1.5, 0, 1), rotateXYZ=(0, 40, 0)))
    text += joint(
        "PhysicsPrismaticJoint", "point3f physics:localPos0 = (0, 0, 0)\n"
            "quatf physics:localRot0 = (0.9396926, 0, -0.3420201, 0)\n"
        "quatf physics:localRot1 = (0.9396926, 0, -0.3420201, 0)", name="k", first="b", second="c",
    )  # fmt: skip
    builder, result = read(text)
    coords = result["report"].joint_coords
    assert builder.joint_q[coords["/j"]] == pytest.approx(np.radians(40.0), rel=1e-5)
    assert builder.joint_q[coords["/k"]] == pytest.approx(1.5, rel=1e-5)
    assert not result["report"].of_kind("approximated")
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    poses = state.body_q.numpy()
    np.testing.assert_allclose(poses[1:, :3], [[0, 0, 1], [1.5, 0, 1]], atol=1e-5)
    np.testing.assert_allclose(poses[1], list(builder.body_q[1]), atol=1e-6)


def test_bodies_off_their_joint_are_moved_onto_it_and_it_is_told():
    """By how much."""
    builder, result = read(A + b(ops(translate=(0.3, 0, 1))) + joint("PhysicsFixedJoint"))
    np.testing.assert_allclose(list(builder.body_q[1])[:3], [0.0, 0.0, 1.0], atol=1e-6)
    assert "0.3 m" in remarks(result, "approximated", "/j")[0]


@pytest.mark.parametrize("turned", [False, True])
def test_a_turned_generic_joint_keeps_its_coordinates(turned):
    """Three limited angles between bodies that stand turned, carried by the first or by the second."""
    text, schemas = limits(
        transX=LOCKED, transY=LOCKED, transZ=LOCKED, rotX=(-90, 90), rotY=(-80, 80), rotZ=(-90, 90)
    )
    root = "PhysicsArticulationRootAPI"
    first = prim("Cube", "a", BODY, SOLID, *([] if turned else [root]))
    second = prim(
        "Cube",
        "b",
        BODY,
        SOLID,
        *([root] if turned else []),
        inside=ops(translate=(0, 0, 1), rotateXYZ=(0, 0, 50)),
    )
    turn = "quatf physics:localRot0 = (0.9659258, 0.2588190, 0, 0)\n"
    builder, result = read(first + second + joint("PhysicsJoint", text + turn, *schemas))
    index = result["path_joint_map"]["/j"]
    assert builder.joint_child[index] == (0 if turned else 1)
    from scipy.spatial.transform import Rotation

    relative = Rotation.from_euler("X", -30, degrees=True) * Rotation.from_euler("Z", 50, degrees=True)
    angles = relative.as_euler("XYZ")
    start = result["report"].joint_coords["/j"]
    expected = angles[::-1] if turned else angles
    np.testing.assert_allclose(builder.joint_q[start : start + 3], expected, atol=1e-5)
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    poses = state.body_q.numpy()
    assert (
        abs(quat_multiply(poses[1, 3:], [0, 0, -np.sin(np.radians(25)), np.cos(np.radians(25))])[3])
        > 1 - 1e-6
    )


@pytest.mark.parametrize(
    ("ranges", "kind", "axes"),
    [
        ({}, None, 0),
        ({"transX": LOCKED, "transY": LOCKED, "transZ": LOCKED}, JointType.BALL, 0),
        (dict.fromkeys(("transX", "transY", "transZ", "rotX", "rotY", "rotZ"), LOCKED), JointType.FIXED, 0),
        (dict.fromkeys(("transX", "transY", "transZ", "rotX", "rotY"), LOCKED), JointType.REVOLUTE, 1),
        (dict.fromkeys(("transY", "transZ", "rotX", "rotY", "rotZ"), LOCKED), JointType.PRISMATIC, 1),
        (dict.fromkeys(("transX", "transY", "rotX", "rotY"), LOCKED), JointType.D6, 2),
    ],
)  # fmt: skip
def test_generic_joints_by_what_they_lock(ranges, kind, axes):
    """A lower limit above the upper one locks an axis; what locks nothing holds nothing."""
    text, schemas = limits(**ranges)
    builder, result = read(A + b() + joint("PhysicsJoint", text, *schemas))
    if kind is None:
        assert "/j" not in result["path_joint_map"]
        assert list(builder.joint_type) == [JointType.FREE, JointType.FREE]
        assert len(builder.shape_collision_filter_pairs) == 1
        return
    index = result["path_joint_map"]["/j"]
    assert builder.joint_type[index] == kind
    assert sum(builder.joint_axis_dim[index]) == axes


def test_limits_and_drives_of_a_generic_joint():
    """Each axis has its own, in its own unit."""
    text, schemas = limits(
        transX=(-5, 10), transY=LOCKED, transZ=LOCKED, rotX=LOCKED, rotY=LOCKED, rotZ=(-30, 60)
    )
    drive = (
        "float drive:transX:physics:stiffness = 7\nfloat drive:rotZ:physics:damping = 3\n"
        "float drive:rotZ:physics:targetVelocity = 90\n"
    )
    drive += "float drive:rotY:physics:stiffness = 3\n"
    schemas += ["PhysicsDriveAPI:transX", "PhysicsDriveAPI:rotZ"]
    builder, _ = read(
        A + b(ops(translate=(0, 0, 1))) + joint("PhysicsJoint", text + drive, *schemas), meters=0.1
    )
    np.testing.assert_allclose(builder.joint_limit_lower, [-0.5, np.radians(-30)], rtol=1e-6)
    np.testing.assert_allclose(builder.joint_limit_upper, [1.0, np.radians(60)], rtol=1e-6)
    np.testing.assert_allclose([list(axis) for axis in builder.joint_axis], [[1, 0, 0], [0, 0, 1]])
    assert list(builder.joint_axis_mode) == [JointMode.TARGET_POSITION, JointMode.TARGET_VELOCITY]
    np.testing.assert_allclose(builder.joint_target_ke, [7.0, 3.0 * 0.01 * 180 / np.pi], rtol=1e-5)
    np.testing.assert_allclose(builder.joint_act, [0.0, np.pi / 2], rtol=1e-6)


@pytest.mark.parametrize("axis", ["X", "Y", "Z"])
def test_cones_of_spherical_joints(axis):
    """The cone is about the axis of the joint: bodies reach its angle along the other two only."""
    cone = (
        f'uniform token physics:axis = "{axis}"\nfloat physics:coneAngle0Limit = 30\n'
        f"float physics:coneAngle1Limit = 30"
    )
    builder, result = read(A + b() + joint("PhysicsSphericalJoint", cone))
    index = result["path_joint_map"]["/j"]
    assert builder.joint_type[index] == JointType.BALL
    assert builder.joint_swing_limit[index] == pytest.approx(np.radians(30))
    frame = list(builder.joint_X_p[index])
    from newtonsim.geometry.transforms import quat_rotate

    np.testing.assert_allclose(quat_rotate(frame[3:], (1, 0, 0)), np.eye(3)["XYZ".index(axis)], atol=1e-6)


def test_uneven_cones_are_told():
    """The smaller angle counts; one direction alone is not modelled."""
    cone = "float physics:coneAngle0Limit = 30\nfloat physics:coneAngle1Limit = {}"
    builder, result = read(A + b() + joint("PhysicsSphericalJoint", cone.format(40)))
    assert builder.joint_swing_limit[result["path_joint_map"]["/j"]] == pytest.approx(np.radians(30))
    assert remarks(result, "approximated", "/j")
    assert remarks(read(A + b() + joint("PhysicsSphericalJoint", cone.format(-1)))[1], "unsupported", "/j")


def test_distances():
    """Between anchors, in metres; bodies stay free."""
    inside = (
        "float physics:minDistance = 2\nfloat physics:maxDistance = 30\npoint3f physics:localPos0 = (1, 0, 0)"
    )
    builder, result = read(A + b() + joint("PhysicsDistanceJoint", inside), meters=0.1)
    constraint = result["path_constraint_map"]["/j"]
    assert builder.constraint_type[constraint] == ConstraintType.DISTANCE
    assert builder.constraint_distance_lower[constraint] == pytest.approx(0.2)
    assert builder.constraint_distance_upper[constraint] == pytest.approx(3.0)
    np.testing.assert_allclose(list(builder.constraint_X_p[constraint])[:3], [0.1, 0.0, 0.0], rtol=1e-6)
    assert list(builder.joint_type) == [JointType.FREE, JointType.FREE]


def test_frames_of_joints_on_stretched_bodies_and_below_them():
    """Positions are in the space of the prim that is named, which may lie on a body."""
    below = prim("Xform", "tip", inside=ops(translate=(0, 0, 1)))
    first = prim(
        "Xform",
        "a",
        BODY,
        MASS,
        inside=ops(translate=(1, 0, 0), scale=(2, 2, 2)) + "float physics:mass = 1\n" + below,
    )
    place = prim("Xform", "stand", inside=ops(translate=(0, 0, 7)))
    text = place + first + b(ops(translate=(1, 0, 3)))
    text += joint("PhysicsRevoluteJoint", "point3f physics:localPos0 = (0, 0, 0.5)", first="a/tip")
    text += joint(
        "PhysicsFixedJoint",
        "point3f physics:localPos0 = (1, 0, -3)\npoint3f physics:localPos1 = (0, 0, 2)",
        name="root",
        first="stand",
        second="a",
    )
    builder, result = read(text)
    joints = result["path_joint_map"]
    np.testing.assert_allclose(list(builder.joint_X_p[joints["/j"]])[:3], [0, 0, 3], atol=1e-6)
    np.testing.assert_allclose(list(builder.joint_X_p[joints["/root"]])[:3], [1, 0, 4], atol=1e-6)
    np.testing.assert_allclose(list(builder.joint_X_c[joints["/root"]])[:3], [0, 0, 4], atol=1e-6)
    assert builder.joint_parent[joints["/root"]] == -1
    assert not remarks(result, "approximated", "/j") + remarks(result, "approximated", "/root")


def chain(count: int, extra: str = "") -> str:
    """Bodies p0, p1, ... along x, each hinged to the next in the middle between them."""
    text = "".join(
        prim("Cube", f"p{k}", BODY, SOLID, inside="double size = 0.2\n" + ops(translate=(k, 0, 0)))
        for k in range(count)
    )
    return text + "".join(
        joint(
            "PhysicsRevoluteJoint", 'uniform token physics:axis = "Y"\n'
                'point3f physics:localPos0 = (0.5, 0, 0)\npoint3f physics:localPos1 = (-0.5, 0, 0)',
            name=f"h{k}", first=f"p{k}", second=f"p{k + 1}",
        )
        for k in range(count - 1)
    ) + extra  # fmt: skip


CLOSING = (
    'uniform token physics:axis = "Y"\npoint3f physics:localPos0 = (-1, 0, 0)\n'
    "point3f physics:localPos1 = (-3, 0, 0)\n"
)


@pytest.mark.parametrize("excluded", [True, False])
def test_loops_are_closed_by_constraints(excluded):
    """A joint that closes a loop, marked or not; the ends stay together while the chain falls."""
    mark = "bool physics:excludeFromArticulation = 1" if excluded else ""
    last = joint("PhysicsRevoluteJoint", CLOSING + mark, name="last", first="p0", second="p2")
    builder, result = read(prim("PhysicsScene", "scene") + chain(3, last))
    assert set(result["path_joint_map"]) == {"/p0_free", "/h0", "/h1"}
    assert set(result["path_constraint_map"]) == {"/last"}
    _, state = run(builder, 60)
    first, third = state.body_q.numpy()[[0, 2]].astype(float)
    ends = [transform_multiply(pose, [x, 0, 0, 0, 0, 0, 1])[:3] for pose, x in ((first, -1.0), (third, -3.0))]
    np.testing.assert_allclose(*ends, atol=2e-3)


def test_driven_joints_come_into_the_tree_first():
    """In a loop without marks the one without a drive closes it; a drive there would be lost."""
    drive = "float drive:angular:physics:stiffness = 5\n"
    last = joint(
        "PhysicsRevoluteJoint",
        CLOSING + drive,
        "PhysicsDriveAPI:angular",
        name="last",
        first="p0",
        second="p2",
    )
    _, result = read(chain(3, last))
    assert "/last" in result["path_joint_map"]
    marked = last.replace(drive, drive + "bool physics:excludeFromArticulation = 1\n")
    _, result = read(chain(3, marked))
    assert "drive" in remarks(result, "unsupported", "/last")[0]


def test_enabled_joints():
    """Disabled ones are left out, or loaded with their flag."""
    text = A + b() + joint("PhysicsRevoluteJoint", "bool physics:jointEnabled = 0")
    builder, result = read(text)
    assert "/j" not in result["path_joint_map"]
    assert "not enabled" in remarks(result, "ignored", "/j")[0]
    builder, result = read(text, only_load_enabled_joints=False)
    assert builder.joint_enabled[result["path_joint_map"]["/j"]] == 0


def test_collisions_of_jointed_bodies():
    """Kept apart unless collisionEnabled; also from colliders of the world that the joint names."""
    for flag in (0, 1):
        text = A + b() + joint("PhysicsRevoluteJoint", f"bool physics:collisionEnabled = {flag}")
        assert builder_pairs(read(text)[0]) == ({(0, 1)} if flag else set())
        stone = prim("Cube", "stone", SOLID)
        text = (
            stone
            + b()
            + joint("PhysicsRevoluteJoint", f"bool physics:collisionEnabled = {flag}", first="stone")
        )
        assert len(builder_pairs(read(text)[0])) == flag


def builder_pairs(builder: newtonsim.ModelBuilder) -> set[tuple[int, int]]:
    """Pairs of shapes that the model lets touch."""
    return {tuple(pair) for pair in builder.finalize("cpu").shape_contact_pairs.numpy().tolist()}


def test_drives():
    """Position and velocity targets together, gains scaled, forces limited."""
    drive = """float drive:angular:physics:stiffness = 2
        float drive:angular:physics:damping = 0.5
        float drive:angular:physics:targetPosition = 90
        float drive:angular:physics:targetVelocity = 60
        float drive:angular:physics:maxForce = 11\n"""
    text = A + b() + joint("PhysicsRevoluteJoint", drive, "PhysicsDriveAPI:angular")
    builder, _ = read(text, joint_drive_gains_scaling=2.0)
    ke, kd, degree = builder.joint_target_ke[0], builder.joint_target_kd[0], np.pi / 180.0
    assert (ke * degree, kd * degree) == (pytest.approx(4.0), pytest.approx(1.0))
    q, qd = 0.3, -0.2
    ours = ke * (builder.joint_act[0] - q) - kd * qd
    assert ours == pytest.approx(ke * (90 * degree - q) + kd * (60 * degree - qd), rel=1e-5)
    assert builder.joint_effort_limit[0] == 11.0


@pytest.mark.parametrize("floating", [True, False])
def test_acceleration_drives_have_the_acceleration_of_their_gains(floating):
    """At rest, one step from the target: the relative acceleration is stiffness times deviation."""
    drive = (
        'uniform token drive:angular:physics:type = "acceleration"\n'
        "float drive:angular:physics:stiffness = 2\nfloat drive:angular:physics:targetPosition = 10\n"
    )
    text = prim("PhysicsScene", "scene", inside="float physics:gravityMagnitude = 0") + A + b()
    text += joint(
        "PhysicsRevoluteJoint",
        drive + "point3f physics:localPos1 = (0, 0, -0.4)\npoint3f physics:localPos0 = (0, 0, 0.6)",
        "PhysicsDriveAPI:angular",
    )
    if not floating:
        text += joint(
            "PhysicsFixedJoint", "point3f physics:localPos0 = (0, 0, 0)", name="root", first="", second="a"
        )
    builder, _result = read(text)
    dt = 1e-4
    _, state = run(builder, 1, dt)
    # The solver treats drives implicitly: 1 / (1 + dt^2 k) is 1 to 1e-6.
    acceleration = state.joint_qd.numpy()[-1] / dt
    assert acceleration == pytest.approx(2.0 * 10.0, rel=1e-3)


def test_vendor_attributes_of_joints():
    """Armature and largest velocity as PhysX has them."""
    inside = "custom float physxJoint:armature = 0.5\ncustom float physxJoint:maxJointVelocity = 180\n"
    builder, _ = read(A + b() + joint("PhysicsRevoluteJoint", inside), meters=0.1, kilograms=2.0)
    assert builder.joint_armature[-1] == pytest.approx(0.5 * 2.0 * 0.01)
    assert builder.joint_velocity_limit[0] == pytest.approx(np.pi)


def test_whole_turns_lead_into_the_limits():
    """A joint from 90 to 300 degrees whose bodies stand at -160 starts at 200."""
    inside = "float physics:lowerLimit = 90\nfloat physics:upperLimit = 300"
    builder, result = read(
        A + b(ops(translate=(0, 0, 1), rotateXYZ=(-160, 0, 0))) + joint("PhysicsRevoluteJoint", inside)
    )
    assert builder.joint_q[result["report"].joint_coords["/j"]] == pytest.approx(np.radians(200.0), rel=1e-5)


def test_breaking_is_told():
    """Joints do not break here."""
    _, result = read(A + b() + joint("PhysicsFixedJoint", "float physics:breakForce = 100"))
    assert "breakForce" in remarks(result, "unsupported", "/j")[0]


def test_joints_that_move_nothing_are_told():
    """Between a body and itself, or of the world alone."""
    text = (
        A + joint("PhysicsFixedJoint", second="a") + joint("PhysicsFixedJoint", name="w", first="", second="")
    )
    _, result = read(text)
    assert "itself" in remarks(result, "ignored", "/j")[0]
    assert "the world" in remarks(result, "ignored", "/w")[0]


@pytest.mark.parametrize(
    ("kind", "inside", "words"),
    [
        ("PhysicsRevoluteJoint", "float physics:lowerLimit = 5\n"
            "float physics:upperLimit = -5", ["lowerLimit", "5", "-5"]),
        ("PhysicsRevoluteJoint", 'uniform token physics:axis = "Q"', ["physics:axis", "Q"]),
        ("PhysicsFixedJoint", "point3f physics:localPos1 = (inf, 0, 0)", ["physics:localPos1", "inf"]),
        ("PhysicsDistanceJoint", "float physics:minDistance = 3\n"
            "float physics:maxDistance = 1", ["minDistance", "3", "1"]),
    ],
)  # fmt: skip
def test_broken_joints_are_named(kind, inside, words):
    """Prim, attribute and value."""
    with pytest.raises(newtonsim.ImportFileError) as caught:
        read(A + b() + joint(kind, inside))
    assert all(word in str(caught.value) for word in ["/j", *words])


def test_missing_bodies_are_named():
    """A joint to a prim that is not there."""
    with pytest.raises(newtonsim.ImportFileError, match=r"/j.*physics:body1.*/gone"):
        read(A + joint("PhysicsFixedJoint", second="gone"))


def test_joints_of_three_bodies_are_named():
    """A side with two prims."""
    with pytest.raises(newtonsim.ImportFileError, match=r"/j.*physics:body0.*2 prims"):
        read(A + b() + prim("PhysicsFixedJoint", "j", inside="rel physics:body0 = [</a>, </b>]"))


def test_armature_of_bodies():
    """The argument, or an attribute of the scene or the body, is added to the inertia."""
    plain, _ = read(A)
    text = A + prim("PhysicsScene", "scene", inside="float warp:armature = 0.5")
    stronger, _ = read(text, armature=0.25)
    np.testing.assert_allclose(stronger.body_inertia[0] - plain.body_inertia[0], 0.5 * np.eye(3), atol=1e-6)
