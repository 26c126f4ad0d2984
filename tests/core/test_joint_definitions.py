"""What joints store: counts, axes, drives, initial coordinates."""

import math
import warnings

import numpy as np
import pytest
import warp as wp

from newtonsim import (
    JOINT_MODE_TARGET_POSITION,
    JOINT_MODE_TARGET_VELOCITY,
    FeatherstoneSolver,
    JointAxis,
    JointMode,
    JointType,
    ModelBuilder,
    ModelError,
    Simulator,
    UnusedGainsWarning,
)
from newtonsim.actuators import PD, ActuatedSolver, Actuators


def one_body() -> ModelBuilder:
    builder = ModelBuilder()
    builder.add_body(origin=((1, 2, 3), (0, 0, 0, 1)), mass=1.0, I_m=np.eye(3), key="body")
    return builder


ADD = {
    JointType.PRISMATIC: (lambda b: b.add_joint_prismatic(-1, 0), (1, 1, 1)),
    JointType.REVOLUTE: (lambda b: b.add_joint_revolute(-1, 0), (1, 1, 1)),
    JointType.BALL: (lambda b: b.add_joint_ball(-1, 0), (4, 3, 0)),
    JointType.FIXED: (lambda b: b.add_joint_fixed(-1, 0), (0, 0, 0)),
    JointType.FREE: (lambda b: b.add_joint_free(0), (7, 6, 0)),
    JointType.COMPOUND: (lambda b: b.add_joint_compound(-1, 0, (1, 0, 0), (0, 1, 0), (0, 0, 1)), (3, 3, 3)),
    JointType.UNIVERSAL: (lambda b: b.add_joint_universal(-1, 0, (1, 0, 0), (0, 1, 0)), (2, 2, 2)),
    JointType.DISTANCE: (lambda b: b.add_joint_distance(-1, 0, max_distance=2.0), (7, 6, 0)),
    JointType.D6: (
        lambda b: b.add_joint_d6(-1, 0, [JointAxis((1, 0, 0))], [JointAxis((0, 1, 0)), JointAxis((0, 0, 1))]),
        (3, 3, 3),
    ),
}


@pytest.mark.parametrize("kind", ADD)
def test_counts_of_every_joint_type(kind):
    builder = one_body()
    assert ADD[kind][0](builder) == 0
    coords, dofs, axes = ADD[kind][1]
    model = builder.finalize(device="cpu")
    assert (model.joint_coord_count, model.joint_dof_count, model.joint_axis_count) == (coords, dofs, axes)
    assert model.joint_type.numpy().tolist() == [kind]
    assert len(model.joint_armature) == len(model.joint_damping) == len(model.joint_friction) == dofs
    for name in ("joint_axis", "joint_act", "joint_target_ke", "joint_limit_lower", "joint_axis_mode"):
        assert len(getattr(model, name)) == axes


@pytest.mark.parametrize("kind", [JointType.FREE, JointType.DISTANCE])
def test_floating_joint_starts_at_the_pose_of_its_body(kind):
    """X_p X_j X_c⁻¹ must give the body pose back, whatever the anchors."""
    builder = one_body()
    anchors = {
        "parent_xform": wp.transform((0.3, 0, 0), wp.quat_from_axis_angle(wp.vec3(0, 1, 0), 0.5)),
        "child_xform": wp.transform((0, 0.4, 0), wp.quat_from_axis_angle(wp.vec3(1, 0, 0), -0.7)),
    }
    if kind == JointType.FREE:
        builder.add_joint_free(0, **anchors)
    else:
        builder.add_joint_distance(-1, 0, **anchors)
    motion = wp.transform(*builder.joint_q)
    pose = anchors["parent_xform"] * motion * wp.transform_inverse(anchors["child_xform"])
    np.testing.assert_allclose(pose, builder.body_q[0], atol=1e-6)


def test_ball_starts_at_the_identity():
    builder = one_body()
    builder.add_joint_ball(-1, 0)
    assert builder.joint_q == [0.0, 0.0, 0.0, 1.0]


def test_axis_settings_arrive_in_the_model():
    axis = JointAxis(
        (0, 0, 2), -1.0, 2.0, 11.0, 12.0, 0.5, 13.0, 14.0, JOINT_MODE_TARGET_VELOCITY, damping=1.5,
        stiffness=2.5, spring_ref=0.25, friction=3.5, effort_limit=4.5, effort_lower=-3.25,
        velocity_limit=5.5, armature=6.5,
    )  # fmt: skip
    builder = one_body()
    builder.add_joint_revolute(-1, 0, axis=axis, limit_lower=-9.0, armature=0.1)
    model = builder.finalize(device="cpu")
    np.testing.assert_allclose(model.joint_axis.numpy(), [(0, 0, 1)])
    expected = {
        "joint_limit_lower": -1.0, "joint_limit_upper": 2.0, "joint_limit_ke": 11.0, "joint_limit_kd": 12.0,
        "joint_act": 0.5, "joint_target_ke": 13.0, "joint_target_kd": 14.0, "joint_axis_mode": 2,
        "joint_damping": 1.5, "joint_stiffness": 2.5, "joint_spring_ref": 0.25, "joint_friction": 3.5,
        "joint_effort_limit": 4.5, "joint_effort_lower": -3.25, "joint_velocity_limit": 5.5,
        "joint_armature": 6.5,
    }  # fmt: skip
    assert {name: getattr(model, name).numpy().tolist() for name in expected} == {
        name: [value] for name, value in expected.items()
    }


def test_axis_can_be_copied():
    first = JointAxis((1, 0, 0), damping=2.0)
    second = JointAxis(first)
    second.damping = 3.0
    assert first.damping == 2.0


def test_armature_of_an_axis_wins_over_that_of_the_joint():
    builder = one_body()
    builder.add_joint_universal(-1, 0, JointAxis((1, 0, 0), armature=0.5), (0, 1, 0), armature=0.1)
    assert builder.joint_armature == [0.5, 0.1]


def test_target_position_starts_within_limits():
    inside = JointAxis((1, 0, 0), -1.0, 1.0, mode=JOINT_MODE_TARGET_POSITION)
    above = JointAxis((1, 0, 0), 0.5, 1.0, mode=JOINT_MODE_TARGET_POSITION)
    assert (inside.action, above.action) == (0.0, 0.5)
    assert JointAxis((1, 0, 0), 0.5, 1.0).action == 0.0


@pytest.mark.parametrize(
    ("arguments", "mode", "action"),
    [
        ({}, JointMode.FORCE, 0.0),
        ({"target": 0.5, "target_ke": 10.0}, JointMode.TARGET_POSITION, 0.5),
        (
            {"target": 0.5, "target_ke": 10.0, "mode": JOINT_MODE_TARGET_VELOCITY},
            JointMode.TARGET_VELOCITY,
            0.5,
        ),
        ({"target": 0.5}, JointMode.FORCE, 0.5),
        ({"target_ke": 10.0}, JointMode.FORCE, 0.0),
    ],
)
def test_target_and_mode_of_a_hinge(arguments, mode, action):
    builder = one_body()
    builder.add_joint_revolute(-1, 0, **arguments)
    assert (builder.joint_axis_mode, builder.joint_act) == ([mode], [action])


def arm_of(**drive) -> ModelBuilder:
    builder = one_body()
    builder.add_joint_revolute(-1, 0, key="elbow", **drive)
    scene = ModelBuilder()
    scene.replicate(builder, 5)
    return scene


@pytest.mark.parametrize("gain", ["target_ke", "target_kd"])
def test_gains_that_no_drive_uses_are_named(gain: str):
    """Efforts use none: the arm keeps its speed. All worlds have it, and one is named, once."""
    model = arm_of(**{gain: 50.0}).finalize("cpu")
    with pytest.warns(UnusedGainsWarning, match="^joints 'elbow': target_ke and target_kd have no") as caught:
        simulator = Simulator(model, FeatherstoneSolver(model), 0.01)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    model.gravity = (0.0, 0.0, 0.0)
    simulator.state.joint_qd.fill_(1.0)
    simulator.step(10)
    np.testing.assert_allclose(simulator.state.joint_q.numpy(), 0.1, rtol=1e-5)


def test_gains_that_act_are_not_named():
    """Those of drives, of modes that were set late, and of actuators that take them from the model."""
    late = arm_of(target_ke=50.0)
    late.joint_axis_mode[:] = [JointMode.TARGET_VELOCITY] * 5
    taken = arm_of(target_ke=50.0).finalize("cpu")
    actuators = Actuators(taken, {"elbow": PD()}, 0.01)
    scenes = (arm_of(), arm_of(target=0.0, target_ke=50.0), arm_of(target=1.0), late)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnusedGainsWarning)
        for model in (scene.finalize("cpu") for scene in scenes):
            Simulator(model, FeatherstoneSolver(model), 0.01)
        Simulator(taken, ActuatedSolver(FeatherstoneSolver(taken), actuators), 0.01)


def test_default_limits():
    builder = one_body()
    builder.default_joint_limit_ke = 77.0
    builder.add_joint_revolute(-1, 0)
    builder.add_joint_prismatic(-1, 0, limit_ke=5.0)
    assert builder.joint_limit_upper == [2 * math.pi, 1e4]
    assert builder.joint_limit_ke == [77.0, 5.0]
    assert builder.joint_limit_kd == [1.0, 1.0]


def test_ancestors_follow_the_tree_not_the_order():
    builder = ModelBuilder()
    bodies = [builder.add_body(mass=1.0, I_m=np.eye(3)) for _ in range(4)]
    builder.add_articulation()
    builder.add_joint_revolute(bodies[1], bodies[2])
    builder.add_joint_revolute(bodies[0], bodies[1])
    builder.add_joint_free(bodies[0])
    builder.add_joint_revolute(bodies[1], bodies[3])
    assert builder.finalize(device="cpu").joint_ancestor.numpy().tolist() == [1, 2, -1, 1]


def test_distance_limits_are_kept():
    builder = one_body()
    builder.add_joint_distance(-1, 0, min_distance=0.5, max_distance=2.0, compliance=0.1)
    model = builder.finalize(device="cpu")
    assert model.joint_distance_lower.numpy()[0] == 0.5
    assert model.joint_distance_upper.numpy()[0] == 2.0
    assert model.joint_linear_compliance.numpy()[0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda b: b.add_joint_revolute(-1, 0, axis=(0, 0, 0), key="knee"), "'knee': .*no direction"),
        (lambda b: b.add_joint_prismatic(-1, 0, axis=(0, 0, 0)), "'joint_0': .*no direction"),
        (lambda b: b.add_joint_universal(-1, 0, (1, 0, 0), (0, 0, 0), key="knee"), "'knee': .*no direction"),
        (lambda b: b.add_joint_revolute(-1, 0, mode=9, key="knee"), "'knee': .*mode 9"),
        (lambda b: b.add_joint(42, -1, 0, key="knee"), "'knee': type 42"),
    ],
)
def test_errors_about_axes_and_kinds_name_the_joint(add, message):
    builder = one_body()
    with pytest.raises(ModelError, match=f"^joint {message}"):
        add(builder)
    assert builder.joint_count == 0


def test_unknown_mode_of_a_loose_axis():
    with pytest.raises(ModelError, match="mode 9"):
        JointAxis((1, 0, 0), mode=9)
