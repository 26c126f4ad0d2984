"""Simulator, and the contacts that a step finds or is given."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.errors import NewtonsimError

Z_UP = (0.0, 0.0, 1.0)


def falling_box(device: str, worlds: int = 3) -> newtonsim.Model:
    """A tilted box just above the ground, in every world at another height."""
    source = newtonsim.ModelBuilder(up_vector=Z_UP)
    body = source.add_body(key="box")
    source.add_shape_box(body, hx=0.1, hy=0.2, hz=0.05, density=500.0, restitution=0.3)
    source.add_joint_free(body)
    builder = newtonsim.ModelBuilder(up_vector=Z_UP)
    builder.replicate(source, worlds, spacing=(0.0, 0.0, 0.0))
    builder.set_ground_plane()
    model = builder.finalize(device)
    q = model.joint_q.numpy().reshape(worlds, 7)
    q[:, 2] = 0.3 + 0.1 * np.arange(worlds)
    q[:, 3:] = [0.2, 0.1, 0.0, np.sqrt(0.95)]
    model.joint_q.assign(q.reshape(-1))
    return model


def make(model: newtonsim.Model, dt: float = 1.0 / 200.0, substeps: int = 1) -> newtonsim.Simulator:
    return newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), dt, substeps)


def coordinates(sim: newtonsim.Simulator) -> np.ndarray:
    return sim.state.joint_q.numpy().reshape(sim.model.world_count, -1).copy()


def test_steps_equal_those_of_the_bare_solver(device):
    model = falling_box(device)
    sim = make(model)
    sim.step(1)
    sim.step(79)
    solver, state = newtonsim.FeatherstoneSolver(model), model.state()
    for _ in range(80):
        solver.simulate(model, state, state, None, None, 1.0 / 200.0)
    assert np.array_equal(sim.state.joint_q.numpy(), state.joint_q.numpy())
    assert np.array_equal(sim.state.body_q.numpy(), state.body_q.numpy())
    assert sim.time == pytest.approx(0.4)


def test_substeps_divide_the_step(device):
    model = falling_box(device)
    coarse, fine = make(model, dt=0.02, substeps=4), make(model, dt=0.005)
    coarse.step(20)
    fine.step(80)
    assert np.array_equal(coordinates(coarse), coordinates(fine))
    assert coarse.time == pytest.approx(fine.time)


def test_inputs_may_change_between_replays(device):
    model = falling_box(device)
    sim = make(model)
    sim.step(2)
    # weightless from here on: the captured graph has to see the new gravity and the new wrench
    model.gravity = (0.0, 0.0, 0.0)
    sim.state.body_f.assign(np.tile([0.0, 0.0, 0.0, 0.0, 2.0, 0.0], (3, 1)).astype(np.float32))
    before = sim.state.joint_qd.numpy().reshape(3, 6).copy()
    sim.step(10)
    after = sim.state.joint_qd.numpy().reshape(3, 6)
    expected = before[:, 4] + 2.0 / model.body_mass.numpy()[0] * 10 / 200.0
    np.testing.assert_allclose(after[:, 4], expected, rtol=1e-5)
    np.testing.assert_allclose(after[:, 5], before[:, 5], rtol=1e-5)


def test_reset_starts_masked_worlds_again_and_leaves_the_others(device):
    model = falling_box(device)
    sim, whole = make(model), make(model)
    sim.step(60)
    whole.step(60)
    sim.reset(np.array([False, True, False]))
    assert np.array_equal(coordinates(sim)[1], model.joint_q.numpy().reshape(3, 7)[1])
    sim.step(30)
    whole.step(30)
    again = make(model)
    again.step(30)
    # bit for bit: neither warm starts nor poses of the first life are left
    assert np.array_equal(coordinates(sim)[1], coordinates(again)[1])
    assert np.array_equal(coordinates(sim)[[0, 2]], coordinates(whole)[[0, 2]])


def test_reset_to_a_given_state(device):
    model = falling_box(device)
    sim = make(model)
    sim.step(40)
    saved = sim.state.clone()
    sim.step(40)
    sim.reset(state=saved)
    assert np.array_equal(sim.state.joint_q.numpy(), saved.joint_q.numpy())
    assert np.array_equal(sim.state.body_qd.numpy(), saved.body_qd.numpy())


def test_wrong_arguments_are_refused(device):
    model = falling_box(device)
    for dt, substeps in ((0.0, 1), (float("nan"), 1), (0.01, 0)):
        with pytest.raises(ValueError, match="expected"):
            newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), dt, substeps)
    with pytest.raises(NewtonsimError, match="world_mask"):
        make(model).reset(np.array([True]))
    with pytest.raises(NewtonsimError, match="booleans"):
        make(model).reset(np.arange(3))
    with pytest.raises(ValueError, match="of at least 0"):
        make(model).step(-1)
    other = falling_box(device)
    solver, state = newtonsim.FeatherstoneSolver(model), other.state()
    with pytest.raises(ValueError, match="not the one"):
        solver.step(other, state, state, None, None, 0.01)
    mine = model.state()
    with pytest.raises(ValueError, match="dt"):
        newtonsim.FeatherstoneSolver(model).step(model, mine, mine, None, None, 0.0)
    with pytest.raises(ValueError, match="iterations"):
        newtonsim.FeatherstoneSolver(model, iterations=0)
    with pytest.raises(ValueError, match="cone"):
        newtonsim.FeatherstoneSolver(model, cone="square")


def capsule_over_tilted_ground(device: str, height: float) -> tuple[newtonsim.Model, np.ndarray]:
    normal = np.array([0.0, 0.6, 0.8])
    builder = newtonsim.ModelBuilder(up_vector=Z_UP)
    place = wp.transform(tuple((height + 0.1) * normal), wp.quat_identity())
    body = builder.add_body(origin=place, key="capsule")
    builder.add_shape_capsule(body, radius=0.1, half_height=0.3, up_axis=0, thickness=0.0)
    builder.set_ground_plane(normal=tuple(normal), offset=0.0)
    return builder.finalize(device), normal


@pytest.mark.parametrize("height", [0.004, -0.01])
def test_contacts_describe_the_touching_points(device, height):
    model, normal = capsule_over_tilted_ground(device, height)
    state = model.state()
    contacts = newtonsim.collide(model, state)
    assert contacts.rigid_contact_count.numpy()[0] == 2
    assert model.rigid_contact_count.numpy()[0] == 2
    np.testing.assert_allclose(contacts.rigid_contact_normal.numpy()[:2], [normal] * 2, atol=1e-6)
    # the ground plane has the default thickness of 1e-5 m
    np.testing.assert_allclose(contacts.rigid_contact_distance.numpy()[:2], height - 1e-5, atol=1e-6)
    ends = contacts.rigid_contact_point0.numpy()[:2]
    np.testing.assert_allclose(ends[np.argsort(ends[:, 0])], [[-0.3, 0, 0], [0.3, 0, 0]], atol=1e-6)
    surface = ends + contacts.rigid_contact_offset0.numpy()[:2] + state.body_q.numpy()[0, :3]
    np.testing.assert_allclose(surface @ normal, height, atol=1e-6)
    other = contacts.rigid_contact_point1.numpy()[:2] + contacts.rigid_contact_offset1.numpy()[:2]
    np.testing.assert_allclose(other @ normal, 1e-5, atol=1e-6)
    np.testing.assert_allclose(surface - other, (height - 1e-5) * normal[None].repeat(2, 0), atol=1e-6)
    assert set(contacts.rigid_contact_shape0.numpy()[:2]) == {0}
    assert set(contacts.rigid_contact_shape1.numpy()[:2]) == {1}


def test_contacts_appear_within_the_margin_or_the_look_ahead(device):
    model, normal = capsule_over_tilted_ground(device, 0.2)
    state = model.state()
    state.body_qd.assign(np.concatenate([np.zeros(3), -30.0 * normal])[None].astype(np.float32))
    assert newtonsim.collide(model, state).rigid_contact_count.numpy()[0] == 0
    assert newtonsim.collide(model, state, dt=0.01).rigid_contact_count.numpy()[0] == 2
    model.rigid_contact_margin = 0.3
    contacts = newtonsim.collide(model, state)
    assert contacts.rigid_contact_count.numpy()[0] == 2
    contacts.clear()
    assert contacts.rigid_contact_count.numpy()[0] == 0
    assert np.all(contacts.rigid_contact_shape0.numpy() == -1)


def test_given_contacts_act_like_those_found_inside(device):
    model = falling_box(device)
    inside, outside = model.state(), model.state()
    newtonsim.eval_fk(model, outside.joint_q, outside.joint_qd, None, outside)
    a, b = newtonsim.FeatherstoneSolver(model), newtonsim.FeatherstoneSolver(model)
    contacts = model.contact()
    for _ in range(100):
        a.step(model, inside, inside, None, None, 0.005)
        newtonsim.collide(model, outside, contacts, dt=0.005)
        b.step(model, outside, outside, None, contacts, 0.005)
    assert contacts.world_count.numpy().min() > 0
    np.testing.assert_allclose(inside.joint_q.numpy(), outside.joint_q.numpy(), atol=2e-5)
    # without contacts the same box falls through the ground
    contacts.clear()
    for _ in range(100):
        b.step(model, outside, outside, None, contacts, 0.005)
    assert outside.joint_q.numpy().reshape(3, 7)[:, 2].max() < -0.5


def test_ground_can_be_switched_off_and_on(device):
    model = falling_box(device)
    sim = make(model)
    sim.step(100)
    resting = coordinates(sim)[:, 2].copy()
    model.ground = False
    sim.step(20)
    assert np.all(coordinates(sim)[:, 2] < resting - 0.02)
    model.ground = True
    sim.reset()
    sim.step(200)
    assert coordinates(sim)[:, 2].min() > 0.04


def test_states_of_another_model_are_refused(device):
    model = falling_box(device)
    solver, good, wrong = newtonsim.FeatherstoneSolver(model), model.state(), falling_box(device, 2).state()
    for pair in ((good, wrong), (wrong, good)):
        with pytest.raises(NewtonsimError, match=r"expected \(\d+,\), got \(\d+,\)"):
            solver.step(model, *pair, None, None, 0.01)


def test_limits_and_friction_set_after_construction_act(device):
    builder = newtonsim.ModelBuilder(up_vector=Z_UP)
    body = builder.add_body(mass=1.0, I_m=wp.mat33(np.eye(3)))
    builder.add_joint_prismatic(-1, body, axis=Z_UP, limit_lower=-np.inf, limit_upper=np.inf)
    model = builder.finalize(device)
    sim = make(model)
    sim.step(1)
    model.joint_limit_lower.assign(np.array([-0.3], np.float32))
    sim.step(200)
    assert sim.state.joint_q.numpy()[0] == pytest.approx(-0.3, abs=1e-3)
    model.joint_limit_lower.assign(np.array([-np.inf], np.float32))
    model.joint_friction.assign(np.array([20.0], np.float32))
    sim.step(200)
    assert sim.state.joint_q.numpy()[0] == pytest.approx(-0.3, abs=1e-3)


def test_joint_with_equal_limits_is_locked(device):
    builder = newtonsim.ModelBuilder(up_vector=Z_UP)
    body = builder.add_body(mass=1.0, com=(0.5, 0.0, 0.0), I_m=wp.mat33(np.eye(3) * 0.1))
    builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), limit_lower=0.2, limit_upper=0.2)
    builder.joint_q[0] = 0.2
    model = builder.finalize(device)
    for torque in (-30.0, 30.0):
        sim = make(model)
        sim.control.joint_act.assign(np.array([torque], np.float32))
        sim.step(400)
        assert sim.state.joint_q.numpy()[0] == pytest.approx(0.2, abs=1e-3)
        assert abs(sim.state.joint_qd.numpy()[0]) < 1e-4


def test_contact_that_nothing_can_yield_to_is_harmless(device):
    """A cart on a rail inside the ground: no dof moves along the normal, so there is nothing to push out."""
    builder = newtonsim.ModelBuilder(up_vector=Z_UP)
    cart = builder.add_body(mass=1.0, I_m=wp.mat33(np.eye(3) * 0.1))
    builder.add_shape_sphere(cart, radius=0.1, density=0.0, mu=0.0)
    turn = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.7)
    builder.add_joint_prismatic(-1, cart, parent_xform=wp.transform((0.0, 0.0, 0.05), turn))
    builder.set_ground_plane(mu=0.0)
    sim = make(builder.finalize(device))
    sim.control.joint_act.assign(np.array([2.0], np.float32))
    sim.step(200)
    assert sim.solver.contacts.world_count.numpy()[0] == 1
    # 1.01 kg with the joint's default armature of 0.01
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(2.0 / 1.01, rel=1e-4)


def test_kinematic_platform_lifts_a_box(device):
    builder = newtonsim.ModelBuilder(up_vector=Z_UP)
    lift = builder.add_body(key="lift")
    turned = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), np.pi / 2)
    builder.add_shape_plane(pos=(0.0, 0.0, 0.0), rot=turned, width=1.0, length=1.0, body=lift)
    box = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()), key="box")
    builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1)
    model = builder.finalize(device)
    sim = make(model)
    qd = np.zeros((2, 6), np.float32)
    qd[0, 5] = 0.5
    sim.state.body_qd.assign(qd)
    sim.step(400)
    pose = sim.state.body_q.numpy()
    assert pose[0, 2] == pytest.approx(1.0, abs=1e-4)
    assert pose[1, 2] == pytest.approx(1.1, abs=2e-3)
    assert sim.state.body_qd.numpy()[1, 5] == pytest.approx(0.5, abs=1e-3)


def test_kinematic_bodies_alone_move_with_their_velocity(device):
    builder = newtonsim.ModelBuilder(up_vector=Z_UP)
    builder.add_body(key="door")
    model = builder.finalize(device)
    sim = make(model, dt=0.01)
    sim.state.body_qd.assign(np.array([[0.0, 0.0, 0.5, 1.0, 0.0, 0.0]], np.float32))
    sim.step(100)
    np.testing.assert_allclose(
        sim.state.body_q.numpy()[0], [1.0, 0.0, 0.0, 0.0, 0.0, np.sin(0.25), np.cos(0.25)], atol=1e-5
    )
