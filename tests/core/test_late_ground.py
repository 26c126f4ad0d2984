"""The ground plane of a model whose builder set none: `model.ground = True` after finalize."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.scene.arrays import MODEL_ARRAYS

SOLVERS = ("FeatherstoneSolver", "XPBDSolver", "SemiImplicitSolver", "MuJoCoSolver")


def dropped_ball(worlds: int = 1, plane: bool = False) -> newtonsim.ModelBuilder:
    """Balls of 0.1 m that start 0.05 m above the ground, beside a wall that does not move."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    body = robot.add_body(origin=wp.transform((0, 0, 0.15), wp.quat_identity()), key="ball")
    robot.add_joint_free(body)
    robot.add_shape_sphere(body, radius=0.1)
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    builder.default_shape_mu = 0.8
    for _ in range(worlds):
        builder.add_builder(robot)
    builder.add_shape_box(-1, pos=(5, 0, 0))
    if plane:
        builder.set_ground_plane()
    return builder


@pytest.mark.parametrize("worlds", [1, 3])
def test_a_late_plane_is_the_one_that_finalize_makes(device, worlds):
    late = dropped_ball(worlds).finalize(device)
    assert not late.ground
    late.ground = True
    early = dropped_ball(worlds, plane=True).finalize(device)
    assert (late.shape_count, late.ground_shape) == (early.shape_count, early.ground_shape)
    for spec in MODEL_ARRAYS:
        if spec.per == "shape" and not spec.host:
            a, b = getattr(late, spec.name), getattr(early, spec.name)
            assert (list(a) == list(b)) if spec.dtype is None else np.array_equal(a.numpy(), b.numpy()), spec
    for struct, names in (
        ("shape_materials", ("ke", "kd", "kf", "ka", "mu", "restitution")),
        ("shape_geo", ("type", "scale", "is_solid", "thickness", "source")),
    ):
        for name in names:
            values = [getattr(getattr(model, struct), name).numpy() for model in (late, early)]
            np.testing.assert_array_equal(*values, err_msg=name)
    for name in ("shape_collision_radius", "shape_contact_pairs", "shape_ground_contact_pairs"):
        np.testing.assert_array_equal(getattr(late, name).numpy(), getattr(early, name).numpy(), name)
    for name in ("rigid", "group", "collides", "meets_ground", "filter_keys"):
        values = [getattr(model.contact_rules, name) for model in (late, early)]
        np.testing.assert_array_equal(*values, err_msg=name)


@pytest.mark.parametrize("name", SOLVERS)
def test_what_falls_comes_to_rest_on_a_late_plane(name):
    if name == "MuJoCoSolver":
        pytest.importorskip("mujoco")
    model = dropped_ball().finalize("cpu")
    model.ground = True
    solver = getattr(newtonsim.solvers, name)(model)
    now, after = model.state(), model.state()
    newtonsim.eval_fk(model, now.joint_q, now.joint_qd, None, now)
    for _ in range(1500):
        now.clear_forces()
        solver.step(model, now, after, model.control(), None, 1e-3)
        now, after = after, now
    assert abs(now.body_q.numpy()[0, 2] - 0.1) < 5e-3


@pytest.mark.parametrize("name", SOLVERS)
def test_too_late_is_told(name):
    if name == "MuJoCoSolver":
        pytest.importorskip("mujoco")
    model = dropped_ball().finalize("cpu")
    getattr(newtonsim.solvers, name)(model)
    with pytest.raises(newtonsim.ModelError, match="before they are made, or call set_ground_plane"):
        model.ground = True
    assert not model.ground
    model.ground = False


def test_filters_survive_and_pairs_can_be_found_again(device):
    builder = dropped_ball(2)
    builder.shape_collision_filter_pairs.add((1, 2))
    model = builder.finalize(device)
    before = model.shape_contact_pairs.numpy()
    model.ground = True
    assert model.shape_collision_filter_pairs == {(1, 2)}
    builder.find_shape_contact_pairs(model)
    np.testing.assert_array_equal(model.shape_contact_pairs.numpy(), before)
    assert model.shape_ground_contact_pairs.numpy().tolist() == [[0, 3], [1, 3]]


def test_a_model_without_shapes_gets_one(device):
    builder = newtonsim.ModelBuilder()
    builder.add_particle((0, 0.3, 0), (0, 0, 0), 1.0, radius=0.1)
    model = builder.finalize(device)
    model.ground = True
    assert model.shape_count == 1
    solver = newtonsim.solvers.XPBDSolver(model)
    state = model.state()
    for _ in range(200):
        solver.step(model, state, state, None, None, 0.01)
    assert abs(state.particle_q.numpy()[0, 1] - 0.1) < 0.02
