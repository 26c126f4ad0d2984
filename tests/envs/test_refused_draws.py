"""Limits of joints that would cross, and ranges that draw the same numbers twice, are refused."""

import numpy as np
import pytest
import warp as wp

from newtonsim import ModelBuilder, View, envs
from newtonsim.envs.draws import Draw, FieldDraws
from newtonsim.errors import NewtonsimError
from newtonsim.learn.transfer import solver_of


def two_hinges() -> View:
    world = ModelBuilder()
    for name in ("left", "right"):
        body = world.add_body(mass=1.0, I_m=wp.mat33(np.eye(3)))
        world.add_joint_revolute(-1, body, axis=(0, 1, 0), key=name, limit_lower=-0.5, limit_upper=1.0)
    scene = ModelBuilder()
    scene.replicate(world, 3)
    return View(scene.finalize("cpu"))


def test_limits_do_not_cross():
    joints = two_hinges().joints
    with pytest.raises(NewtonsimError, match=r"limit_lower of 'right': .* 1\.5, above the upper one, 1"):
        joints.limit_lower = [[0.0, 1.5]]
    with pytest.raises(NewtonsimError, match=r"limit_upper of 'left': .* -0\.5, above the upper one, -0\.6"):
        joints.limit_upper.write(-0.6, worlds=[1])
    np.testing.assert_array_equal(joints.limit_lower.numpy(), np.full((3, 2), -0.5, np.float32))
    joints.limit_upper.write(2.0, worlds=[True, False, True])
    joints.limit_lower.write(1.5, worlds=[True, False, True])
    with pytest.raises(NewtonsimError, match="above the upper one, 1;"):
        joints.limit_lower.write(1.5, worlds=[True, True, True])
    joints.limit_lower.write(2.0, worlds=[2])
    assert joints.limit_lower.numpy()[:, 0].tolist() == [1.5, -0.5, 2.0]


def test_limits_are_not_drawn_so_that_they_could_cross():
    rise = {"range": (0.0, 0.5), "how": "add", "select": "fl_knee"}
    fall = {"range": (-1.6, 0.0), "how": "add", "select": "fl_knee"}
    envs.make("Velocity", 2, "cpu", randomise={"joints.limit_lower": rise})
    both = {"joints.limit_lower": rise, "joints.limit_upper": fall}
    # from -2.7227..-0.83776 to at most -2.2227 and at least -2.43776
    with pytest.raises(NewtonsimError, match=r"of 'fl_knee': .* -2\.2227, above an upper one of -2\.43776"):
        envs.make("Velocity", 2, "cpu", randomise=both)


def test_what_replaces_infinite_numbers_is_checked():
    model = two_hinges().model
    model.joint_effort_limit.fill_(np.inf)
    with pytest.raises(NewtonsimError, match=r"effort_limit.* -5"):
        FieldDraws({"joints.effort_limit": [Draw((-5.0, -1.0), how="set")]}, model, 0.02)
    model.joint_limit_lower.fill_(-np.inf)
    model.joint_limit_upper.fill_(np.inf)
    ends = {"limit_lower": (1.0, 2.0), "limit_upper": (-1.0, 0.0)}
    crossing = {f"joints.{name}": [Draw(ends, how="set")] for name, ends in ends.items()}
    with pytest.raises(NewtonsimError, match=r"'left': .* could become 2, above an upper one of -1"):
        FieldDraws(crossing, model, 0.02)


def test_sizes_stay_positive():
    """A sphere has one size; the two zeros beside it are none."""
    world = ModelBuilder()
    world.add_shape_sphere(world.add_body(), radius=0.1, key="ball")
    scene = ModelBuilder()
    scene.replicate(world, 2)
    shapes = View(scene.finalize("cpu"), "ball").shapes
    with pytest.raises(NewtonsimError, match=r"shapes\.scale of 'ball': expected positive numbers, got 0"):
        shapes.scale.write(0.0, worlds=[1])
    shapes.scale.write((0.2, 0.0, 0.0), worlds=[1])
    np.testing.assert_allclose(shapes.scale[:, 0], [[0.1, 0.0, 0.0], [0.2, 0.0, 0.0]])
    with pytest.raises(NewtonsimError, match=r"'ball' could become 0 to 0\.1, expected positive numbers"):
        FieldDraws({"shapes.scale": [Draw((0.0, 1.0))]}, scene.finalize("cpu"), 0.02)
    FieldDraws({"shapes.scale": [Draw((0.5, 1.0))]}, scene.finalize("cpu"), 0.02)


@pytest.mark.parametrize(
    ("factor", "field"),
    [
        ("mass", "bodies.mass"),
        ("friction", "shapes.friction"),
        ("gains", "joints.target_kd"),
        ("strength", "joints.target_ke"),
    ],
)
def test_the_same_numbers_are_not_drawn_twice(factor: str, field: str):
    with pytest.raises(NewtonsimError, match=f"'{factor}' and '{field}' draw the same"):
        envs.make("Ant", 1, "cpu", randomise={factor: (0.9, 1.1), field: (0.5, 2.0)})
    envs.make("Ant", 1, "cpu", randomise={factor: (1.0, 1.0)})


def test_strength_of_drives_is_refused_where_the_solver_took_over_the_model():
    with pytest.raises(NewtonsimError, match=r"MuJoCoSolver copied the model.*strength"):
        envs.make("Velocity", 1, "cpu", make_solver=solver_of("mujoco"), randomise={"strength": (0.5, 0.9)})
    # thrusts and efforts are scaled before the solver gets them
    flight = {"events": {"in_air": {"spin": 0.0, "speed": 0.0, "tilt": 0.0, "offset": 0.0}}}
    falls = []
    for strength in (1.0, 0.5):
        ranges = {"strength": (strength, strength + 1e-6)}
        env = envs.make("Hover", 1, "cpu", make_solver=solver_of("mujoco"), randomise=ranges, **flight)
        env.reset(seed=0)
        env.step(np.zeros((1, 4), np.float32))
        falls.append(float(env.sim.state.joint_qd.numpy()[5]))
    assert falls == pytest.approx([0.01 * (0.32 / 0.027 - 9.81), 0.01 * (0.16 / 0.027 - 9.81)], rel=1e-3)
