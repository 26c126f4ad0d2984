"""Many worlds, and mujoco_warp."""

import numpy as np
import pytest
import warp as wp

from newtonsim import ModelBuilder, ModelError, Simulator
from newtonsim.collision.collide import collide
from newtonsim.runtime.shards import Shard
from newtonsim.solvers import MuJoCoSolver

DT = 0.005


def robot(fixed: bool) -> ModelBuilder:
    """A box on the world or free, a pendulum on it, a ball beside it and a wall."""
    builder = ModelBuilder(up_vector=(0, 0, 1))
    base = builder.add_body(origin=wp.transform((0, 0, 0.25), wp.quat_rpy(0.1, 0.2, 0.3)))
    builder.add_shape_box(base, hx=0.1, hy=0.15, hz=0.1)
    if fixed:
        at = wp.transform((0.1, 0, 0.25), wp.quat_identity())
        builder.add_joint_prismatic(-1, base, parent_xform=at, axis=(1, 0, 0), key="rail")
    else:
        builder.add_joint_free(base)
    arm = builder.add_body()
    builder.add_shape_capsule(arm, radius=0.05, half_height=0.15)
    builder.add_joint_revolute(
        base, arm, ((0, 0, 0.2), (0, 0, 0, 1)), ((0, 0.2, 0), (0, 0, 0, 1)), axis=(1, 0, 0)
    )
    ball = builder.add_body(origin=wp.transform((0.4, 0, 0.12), wp.quat_identity()))
    builder.add_shape_sphere(ball, radius=0.1)
    builder.add_shape_box(-1, pos=(0.5, 0, 0.2), hx=0.02, hy=0.3, hz=0.2)
    return builder


def worlds(part: ModelBuilder, count: int) -> ModelBuilder:
    """Copies of a part at different places and turned, on a common ground."""
    builder = ModelBuilder(up_vector=(0, 0, 1))
    for world in range(count):
        turn = wp.quat_rpy(0.0, 0.0, 0.7 * world)
        builder.add_builder(part, xform=wp.transform((2.0 * world, -1.0 * world, 0.0), turn))
    builder.set_ground_plane()
    return builder


def run(model, steps: int, **options) -> tuple:
    """State after some steps with motion and forces that differ between worlds."""
    state, control = model.state(), model.control()
    rng = np.random.default_rng(3)
    state.joint_qd.assign(rng.uniform(-0.5, 0.5, model.joint_dof_count).astype(np.float32))
    control.joint_f.assign(rng.uniform(-0.5, 0.5, model.joint_dof_count).astype(np.float32))
    state.body_f.assign(rng.uniform(-0.5, 0.5, (model.body_count, 6)).astype(np.float32))
    options = {"solver": "newton", "iterations": 50, "ls_iterations": 50, "cone": "elliptic", **options}
    solver = MuJoCoSolver(model, **options)
    for _ in range(steps):
        solver.step(model, state, state, control, None, DT)
    return state, solver


@pytest.mark.parametrize("fixed", [False, True])
def test_worlds_apart_move_as_in_one(fixed):
    model = worlds(robot(fixed), 3).finalize(device="cpu")
    # friction pyramids are in world axes, cones the same in worlds that are turned
    apart, solver = run(model, 60, use_mujoco=True)
    together, whole = run(model, 60, use_mujoco=True, separate_envs_to_worlds=False)
    assert (len(solver.mj_datas), len(whole.mj_datas)) == (3, 1)
    assert whole.mj_model.nv == 3 * solver.mj_model.nv
    assert all(data.ncon > 0 for data in solver.mj_datas)
    for name in ("joint_q", "body_q", "body_qd"):
        np.testing.assert_allclose(getattr(apart, name).numpy(), getattr(together, name).numpy(), atol=2e-4)


def different(change) -> ModelBuilder:
    builder = worlds(robot(True), 2)
    change(builder)
    return builder


def shift_one_wall(builder):
    builder.shape_transform[7] = wp.transform((9, 9, 9), wp.quat_identity())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.body_mass.__setitem__(4, 9.0), "body_mass: world 1"),
        (shift_one_wall, "world 1 is not world 0 moved"),
        (lambda b: b.add_builder(ModelBuilder()), "world 2 has 0 elements of kind 'body'"),
        (lambda b: b.shape_collision_filter_pairs.add((4, 6)), "filter_pairs: world 1"),
        (lambda b: b.add_shape_box(-1, hx=1.0, hy=1.0, hz=0.1, key="table"), "'table': worlds are at"),
    ],
)
def test_worlds_that_are_no_copies(change, message):
    with pytest.raises(ModelError, match=message):
        MuJoCoSolver(different(change).finalize(device="cpu"), use_mujoco=True)


def with_tendons() -> ModelBuilder:
    """Two worlds, 3 m apart, of a free body on a rope from the world and of a pendulum with two tendons."""
    part = ModelBuilder(up_vector=(0, 0, 1))
    body = part.add_body(origin=((0, 0, 1), (0, 0, 0, 1)), mass=1.0, I_m=np.eye(3) * 0.01)
    part.add_joint_free(body)
    part.add_tendon_spatial([(-1, (0.2, 0, 2)), (-1, (0, 0, 2)), (body, (0, 0, 0.1))], stiffness=50.0)
    arm = part.add_body(mass=1.0, com=(0.3, 0, 0), I_m=np.eye(3) * 0.01)
    part.add_joint_revolute(body, arm, axis=(0, 1, 0))
    part.add_tendon_fixed([(0, 0.7)], limit_upper=1.0)
    part.add_tendon_equality(1, 0)
    builder = ModelBuilder(up_vector=(0, 0, 1))
    builder.replicate(part, 2, spacing=(3.0, 0.0, 0.0))
    return builder


CHANGED = {
    "tendon_damping": 1.0,
    "tendon_friction": 1.0,
    "tendon_armature": 1.0,
    "tendon_spring_upper": 3.0,
    "tendon_limit_margin": 0.1,
    "tendon_limit_solref": (0.1, 1.0),
    "tendon_target_kd": 1.0,
    "tendon_effort_limit": 3.0,
    "tendon_mode": 1,
    "tendon_offset": 0.1,
    "tendon_element_factor": 0.3,
    "tendon_equality_coefficients": (0.0, 2.0, 0.0, 0.0, 0.0),
    "tendon_equality_enabled": 0,
}


@pytest.mark.parametrize("name", CHANGED)
def test_worlds_whose_tendons_differ_are_refused(name):
    builder = with_tendons()
    getattr(builder, name)[-1] = CHANGED[name]
    with pytest.raises(ModelError, match=f"{name}: world 1 differs from world 0"):
        MuJoCoSolver(builder.finalize("cpu"), use_mujoco=True)


def test_worlds_whose_ropes_hang_elsewhere_are_refused():
    builder = with_tendons()
    builder.tendon_element_point[5] = wp.vec3(9.0, 0.0, 2.0)
    with pytest.raises(ModelError, match="world 1 is not world 0 moved"):
        MuJoCoSolver(builder.finalize("cpu"), use_mujoco=True)


def test_worlds_with_ropes_move_as_in_one():
    """The rope hangs where its world is, though nothing else is fixed there."""
    found = []
    for apart in (True, False):
        model = with_tendons().finalize("cpu")
        solver = MuJoCoSolver(model, use_mujoco=True, separate_envs_to_worlds=apart)
        state = model.state()
        for _ in range(50):
            solver.step(model, state, state, None, None, 0.004)
        found.append(state.body_q.numpy())
    assert abs(found[1][0, 2] - 1.0) > 0.05
    np.testing.assert_allclose(found[0], found[1], atol=1.0e-4)


def test_state_is_read_every_so_often():
    model = robot(False).finalize(device="cpu")
    state = model.state()
    solver = MuJoCoSolver(model, use_mujoco=True, update_data_every=3)
    solver.step(model, state, state, None, None, DT)
    kept = state.joint_q.numpy().copy()
    for _ in range(2):
        state.joint_q.numpy()[:3] = 7.0
        solver.step(model, state, state, None, None, DT)
        assert np.abs(state.joint_q.numpy()[:3] - kept[:3]).max() < 0.1
    state.joint_q.numpy()[:3] = 7.0
    solver.step(model, state, state, None, None, DT)
    np.testing.assert_allclose(state.joint_q.numpy()[:3], 7.0, atol=0.1)


def test_states_that_take_turns_and_change():
    """Kept launches follow the states, the model and the time step that they are given."""
    model = worlds(robot(True), 2).finalize(device="cpu")
    pair = [model.state(), model.state()]
    kept, fresh = MuJoCoSolver(model, use_mujoco=True), MuJoCoSolver(model, use_mujoco=True)
    other = model.state()
    for step in range(12):
        dt = DT if step < 8 else 0.5 * DT
        if step == 6:
            model.body_com = wp.clone(model.body_com)
            pair[0].joint_q = wp.clone(pair[0].joint_q)
        kept.step(model, pair[0], pair[1], None, None, dt)
        after = other.clone()
        fresh.step(model, other, after, model.control(), None, dt)
        pair, other = pair[::-1], after
        for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
            assert np.array_equal(getattr(pair[0], name).numpy(), getattr(other, name).numpy())


def balls() -> ModelBuilder:
    """A free ball above the ground, and a pendulum on a rail: what mujoco_warp compiles few kernels for."""
    part = ModelBuilder(up_vector=(0, 0, 1))
    part.add_shape_sphere(part.add_body(origin=wp.transform((0.5, 0, 0.12), wp.quat_identity())), radius=0.1)
    cart, bob = part.add_body(mass=1.0, I_m=0.1 * np.eye(3)), part.add_body()
    part.add_shape_sphere(bob, radius=0.1)
    part.add_joint_prismatic(
        -1, cart, parent_xform=wp.transform((0, 0, 0.5), wp.quat_identity()), axis=(1, 0, 0)
    )
    part.add_joint_revolute(cart, bob, child_xform=((0, 0, 0.41), (0, 0, 0, 1)), axis=(0, 1, 0))
    builder = ModelBuilder(up_vector=(0, 0, 1))
    builder.replicate(part, 3)
    builder.set_ground_plane()
    return builder


@pytest.mark.slow
def test_mujoco_warp_moves_as_mujoco(tmp_path):
    """All of mujoco_warp in one test, since its kernels take some 15 s to compile on a CPU."""
    model = balls().finalize(device="cpu")
    options = {"solver": "cg", "cone": "pyramidal", "tolerance": 1e-6, "ls_iterations": 10}
    host, _ = run(model, 60, use_mujoco=True, **options)
    state, solver = run(model, 60, **options)
    assert solver.mjw_data.nacon.numpy()[0] >= 3
    for name in ("joint_q", "body_q"):
        np.testing.assert_allclose(getattr(state, name).numpy(), getattr(host, name).numpy(), atol=1e-4)

    # contacts of our collision pass
    twins = [(model.state(), MuJoCoSolver(model, use_mujoco=host, **options)) for host in (True, False)]
    contacts = model.contact()
    for moving, one in twins:
        for _ in range(60):
            collide(model, moving, contacts=contacts)
            one.step(model, moving, moving, None, contacts, DT)
    assert twins[1][1].mjw_data.nacon.numpy()[0] == 6  # ball and bob of each world
    np.testing.assert_allclose(twins[1][0].body_q.numpy(), twins[0][0].body_q.numpy(), atol=1e-4)

    # captured steps are the same to the bit
    simulator = Simulator(model, MuJoCoSolver(model), DT)
    simulator.step(10)
    eager, other = model.state(), MuJoCoSolver(model)
    for _ in range(10):
        other.step(model, eager, eager, None, None, DT)
    assert np.array_equal(simulator.state.joint_q.numpy(), eager.joint_q.numpy())

    # warm starts of some worlds are forgotten
    other.reset(eager, wp.array([False, True, False], dtype=bool, device="cpu"))
    assert other.mjw_data.qacc_warmstart.numpy().any(axis=1).tolist() == [True, False, True]
    check_static_methods(model, state, str(tmp_path / "scene.xml"))

    # what mujoco_warp notes of too little room is told, once
    other.mjw_data.overflow.fill_(1)
    with pytest.warns(UserWarning, match="out of room for NEFC"):
        other.report()
    other.report()


def check_static_methods(model, state, path: str) -> None:
    """Convert a state to data of both engines, and back."""
    mjw_model, mjw_data, mj_model, mj_data = MuJoCoSolver.convert_to_mjc(
        model, state, target_filename=path, timestep=DT
    )
    with open(path, encoding="utf-8") as file:
        assert file.read().startswith("<mujoco")
    assert (mj_model.nsite, mj_model.opt.timestep) == (3, DT)
    np.testing.assert_allclose(mjw_data.qpos.numpy()[0], mj_data.qpos, atol=1e-6)
    back = model.state()
    MuJoCoSolver.update_newton_state(model, back, mjw_data)
    np.testing.assert_allclose(back.body_q.numpy(), state.body_q.numpy(), atol=1e-5)
    with pytest.raises(ModelError, match="one world, but the model has 3"):
        MuJoCoSolver.update_newton_state(model, back, mj_data)
    given = MuJoCoSolver(model, mjw_model=mjw_model, mjw_data=mjw_data)
    assert given.mjw_data is mjw_data
    with pytest.raises(ModelError, match="does not fit use_mujoco=True"):
        MuJoCoSolver(model, mjw_model=mjw_model, mjw_data=mjw_data, use_mujoco=True)


@pytest.mark.parametrize("masked", [False, True])
def test_one_world_forgets_by_its_mask(masked: bool):
    """What the solver starts from stays unless the world is named."""
    model = worlds(robot(True), 1).finalize("cpu")
    solver = MuJoCoSolver(model, use_mujoco=True)
    state = model.state()
    solver.step(model, state, state, None, None, DT)
    start = solver.mj_datas[0].qacc_warmstart
    assert start.any()
    solver.reset_worlds(Shard(model), state, wp.array([masked], dtype=bool, device="cpu"))
    assert start.any() != masked
    fresh, other = MuJoCoSolver(model, use_mujoco=True), state.clone()
    solver.step(model, state, state, None, None, DT)
    fresh.step(model, other, other, None, None, DT)
    same = np.array_equal(solver.mj_datas[0].qpos, fresh.mj_datas[0].qpos)
    assert same == masked  # what single precision rounds off is forgotten with the rest
