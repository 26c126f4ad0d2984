"""Model, State and Control: what finalize hands out and the doors that check lengths."""

import copy

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import Model, ModelBuilder, ModelError
from newtonsim.builder import ActuatorLaw, ActuatorTarget
from newtonsim.collision.plan import collision_plan_of
from newtonsim.scene.arrays import CONTROL_ARRAYS, COUNTS, MODEL_ARRAYS, STATE_ARRAYS
from newtonsim.testing import random_model


def full_builder() -> ModelBuilder:
    builder = random_model(2)
    builder.add_shape_box(0, density=0.0)
    builder.add_contact_pair(0, 0)
    builder.add_tendon_equality(builder.add_tendon_fixed([(0, 1.0)]))
    builder.add_actuator(ActuatorTarget.TENDON, ActuatorLaw(), tendon=0)
    builder.add_loop_joint(newtonsim.JointType.REVOLUTE, 0, 1, angular_axes=[(0.0, 0.0, 1.0)])
    builder.add_cloth_grid((0, 0, 0), None, (0, 0, 0), 2, 2, 1.0, 1.0, 1.0, add_springs=True)
    builder.add_soft_grid((0, 0, 0), None, (0, 0, 0), 1, 1, 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
    builder.add_muscle([0, 1], [(0, 0, 0), (0, 1, 0)], 1, 1, 1, 1, 1)
    return builder


def test_every_array_of_the_table_has_its_length_and_type(device):
    model = full_builder().finalize(device=device)
    for spec in MODEL_ARRAYS:
        if spec.host:
            continue
        value = getattr(model, spec.name)
        assert len(value) == getattr(model, COUNTS[spec.per]) * spec.flat > 0, spec.name
        if spec.dtype is not None:
            assert value.dtype is spec.dtype, spec.name
            assert value.device == wp.get_device(device)
            assert value.shape[1:] == ((spec.columns,) if spec.columns else ()), spec.name


def test_gradients_are_asked_for_where_the_table_says():
    model = full_builder().finalize(device="cpu", requires_grad=True)
    for spec in MODEL_ARRAYS:
        if not spec.host and spec.dtype is not None:
            assert getattr(model, spec.name).requires_grad == spec.grad, spec.name
    assert model.shape_materials.mu.requires_grad
    # no solver has a gradient with respect to geometry: an array that asked for one would read zero
    assert not model.shape_geo.scale.requires_grad
    assert model.state().requires_grad
    assert not model.state(requires_grad=False).body_q.requires_grad
    assert model.control().joint_act.requires_grad
    plain = full_builder().finalize(device="cpu")
    assert not plain.body_q.requires_grad
    assert plain.state(requires_grad=True).joint_q.requires_grad


def test_state_starts_as_the_model_and_is_a_copy(device):
    model = full_builder().finalize(device=device)
    state = model.state()
    for spec in STATE_ARRAYS:
        array = getattr(state, spec.name)
        assert len(array) == getattr(model, COUNTS[spec.per])
        expected = getattr(model, spec.name, None)
        np.testing.assert_array_equal(array.numpy(), 0.0 if expected is None else expected.numpy())
    state.joint_q.fill_(7.0)
    assert not np.any(model.joint_q.numpy() == 7.0)
    counts = (state.body_count, state.particle_count, state.joint_coord_count, state.joint_dof_count)
    assert counts == (model.body_count, model.particle_count, model.joint_coord_count, model.joint_dof_count)


def test_state_of_a_model_without_bodies_has_none():
    builder = ModelBuilder()
    builder.add_particle((0, 0, 0), (0, 0, 0), 1.0)
    state = builder.finalize(device="cpu").state()
    assert state.body_q is None
    assert state.joint_q is None
    assert (state.body_count, state.particle_count, state.requires_grad) == (0, 1, False)


def test_clear_forces():
    state = full_builder().finalize(device="cpu").state()
    state.body_f.fill_(1.0)
    state.particle_f.fill_(1.0)
    state.clear_forces()
    assert not state.body_f.numpy().any()
    assert not state.particle_f.numpy().any()


def test_assign_copies_and_checks_lengths():
    model = full_builder().finalize(device="cpu")
    a, b = model.state(), model.state()
    b.joint_q.fill_(3.0)
    a.assign(b)
    np.testing.assert_array_equal(a.joint_q.numpy(), 3.0)
    coords = model.joint_coord_count
    b.body_q.fill_(0.0)
    b.joint_q = wp.zeros(coords - 1, dtype=float, device="cpu")
    with pytest.raises(ModelError, match=rf"joint_q: expected \({coords},\), got \({coords - 1},\)"):
        a.assign(b)
    assert a.body_q.numpy().any()  # nothing was copied
    b.joint_q = wp.zeros(coords, dtype=wp.float64, device="cpu")
    with pytest.raises(ModelError, match="joint_q: expected float32, got float64"):
        a.assign(b)


def test_model_checks_what_it_is_given():
    model = full_builder().finalize(device="cpu")
    state, control = model.state(), model.control()
    model.check_state(state)
    model.check_control(control)
    state.body_qd = None
    with pytest.raises(ModelError, match=rf"body_qd: expected \({model.body_count},\), got \(0,\)"):
        model.check_state(state)
    control.joint_f = wp.zeros(1, dtype=float, device="cpu")
    with pytest.raises(ModelError, match="joint_f: expected"):
        model.check_control(control)


def test_clone_has_arrays_of_its_own():
    state = full_builder().finalize(device="cpu").state()
    twin = state.clone()
    twin.body_q.fill_(5.0)
    assert not np.any(state.body_q.numpy() == 5.0)


def test_control_copies_unless_told_not_to():
    builder = random_model(3)
    builder.joint_act[:] = [0.5] * len(builder.joint_act)
    model = builder.finalize(device="cpu")
    own, shared = model.control(), model.control(clone_variables=False)
    np.testing.assert_array_equal(own.joint_act.numpy(), 0.5)
    assert shared.joint_act is model.joint_act
    assert len(own.joint_f) == model.joint_dof_count
    assert not own.joint_f.numpy().any()
    own.joint_f.fill_(2.0)
    own.clear()
    assert not own.joint_act.numpy().any()
    assert not own.joint_f.numpy().any()
    np.testing.assert_array_equal(model.joint_act.numpy(), 0.5)
    for spec in CONTROL_ARRAYS:
        assert hasattr(own, spec.name)


def test_gravity_reaches_the_kernels():
    builder = ModelBuilder(up_vector=(0, 0, 2), gravity=-1.5)
    model = builder.finalize(device="cpu")
    np.testing.assert_allclose(model.gravity, (0, 0, -1.5))
    assert model.up_axis == 2
    np.testing.assert_allclose(model.up_vector, (0, 0, 1))
    kept = model.gravity_vec
    model.gravity = (1, 2, 3)
    np.testing.assert_allclose(kept.numpy(), [(1, 2, 3)])
    with pytest.raises(ModelError, match="gravity"):
        model.gravity = (1, 2)
    builder.gravity = (0.5, 0.0, -2.0)
    np.testing.assert_allclose(builder.finalize(device="cpu").gravity, (0.5, 0, -2))


def test_inverse_masses():
    builder = ModelBuilder()
    builder.add_body()
    builder.add_shape_box(builder.add_body(), rot=(0.5, 0.5, 0.1, 0.7), hx=0.1, hy=0.2, hz=0.3)
    builder.add_particle((0, 0, 0), (0, 0, 0), 0.0)
    builder.add_particle((0, 0, 0), (0, 0, 0), 4.0)
    model = builder.finalize(device="cpu")
    mass = model.body_mass.numpy()
    np.testing.assert_allclose(model.body_inv_mass.numpy(), (0.0, 1.0 / mass[1]), rtol=1e-6)
    product = model.body_inv_inertia.numpy()[1] @ model.body_inertia.numpy()[1]
    np.testing.assert_allclose(product, np.eye(3), atol=1e-5)
    assert not model.body_inv_inertia.numpy()[0].any()
    np.testing.assert_allclose(model.particle_inv_mass.numpy(), (0.0, 0.25))
    assert builder.body_inv_mass[1] == pytest.approx(1.0 / mass[1])


def test_edited_lists_decide():
    """The lists are the interface: what the user writes into them is what the model has."""
    builder = random_model(6)
    builder.body_mass[2] = 3.25
    builder.joint_target_ke[0] = 8.0
    builder.body_q[1] = [1, 2, 3, 0, 0, 0, 1]
    builder.body_com[1] = (0.5, 0, 0)
    model = builder.finalize(device="cpu")
    assert model.body_mass.numpy()[2] == 3.25
    assert model.body_inv_mass.numpy()[2] == pytest.approx(1 / 3.25)
    assert model.joint_target_ke.numpy()[0] == 8.0
    np.testing.assert_allclose(model.body_q.numpy()[1], (1, 2, 3, 0, 0, 0, 1))
    np.testing.assert_allclose(model.body_com.numpy()[1], (0.5, 0, 0))


def test_finalize_leaves_the_builder_alone_and_can_be_repeated():
    builder = full_builder()
    builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.set_ground_plane()
    before = copy.deepcopy(builder)
    first, second = builder.finalize(device="cpu"), builder.finalize(device="cpu")
    for spec in MODEL_ARRAYS:
        assert len(getattr(before, spec.name)) == len(getattr(builder, spec.name)), spec.name
    assert first.shape_count == second.shape_count == builder.shape_count + 1
    assert first.joint_count == builder.joint_count + 1


def test_empty_model_works():
    model = ModelBuilder().finalize(device="cpu")
    assert (model.body_count, model.articulation_count, model.shape_count, model.world_count) == (0, 0, 0, 1)
    assert model.state().body_q is None
    assert model.shape_contact_pairs.shape == (0, 2)
    model.control().clear()


def test_bare_model():
    model = Model("cpu")
    assert model.body_q is None
    assert model.body_count == 0
    assert model.rigid_contact_point0 is None
    assert model.soft_contact_max == 0
    assert model.particle_grid is None


def test_contact_buffers():
    builder = ModelBuilder()
    builder.add_shape_sphere(builder.add_body(origin=((0, 0.05, 0), (0, 0, 0, 1))), radius=0.1)
    builder.set_ground_plane()
    model = builder.finalize(device="cpu")
    assert model.rigid_contact_shape0 is None
    potential, actual = model.count_contact_points()
    assert potential == actual == 1
    model.allocate_rigid_contacts()
    assert model.rigid_contact_max == len(model.rigid_contact_shape0) == 1
    newtonsim.collide(model, model.state())
    assert model.contact_count == 1
    assert model.rigid_contact_shape0.numpy()[0] == 0
    target = type("Target", (), {})()
    model.allocate_rigid_contacts(target)
    assert target.rigid_contact_count is model.rigid_contact_count
    with pytest.raises(ModelError, match="7 contacts"):
        model.allocate_rigid_contacts(count=7)
    model.allocate_soft_contacts(5)
    assert model.soft_contact_max == len(model.soft_contact_normal) == 5


def test_particle_grid_is_made_on_demand():
    builder = ModelBuilder()
    builder.add_particle((0, 0, 0), (0, 0, 0), 1.0, radius=0.3)
    builder.add_particle((0, 0, 0), (0, 0, 0), 1.0)
    model = builder.finalize(device="cpu")
    assert isinstance(model.particle_grid, wp.HashGrid)
    assert model.particle_grid is model.particle_grid
    assert model.particle_max_radius == pytest.approx(0.3)


def test_plot_returns_a_figure_that_names_bodies_and_joints():
    pytest.importorskip("networkx")
    pytest.importorskip("matplotlib")
    builder = ModelBuilder()
    body = builder.add_body(mass=1.0, I_m=np.eye(3), key="pole")
    builder.add_joint_revolute(-1, body, key="pivot")
    builder.add_shape_sphere(body)
    text = {t.get_text() for t in builder.plot_articulation().axes[0].texts}
    assert {"pole", "world", "pivot\nREVOLUTE", "SPHERE"} <= text
    plain = builder.plot_articulation(False, False, False, False, False, False).axes[0]
    assert {t.get_text() for t in plain.texts} == {"world", "0"}
    assert plain.get_legend() is None


def test_what_is_worked_out_once_is_kept_until_it_is_forgotten(device):
    model = full_builder().finalize(device=device)
    calls = []

    def count(of: Model) -> int:
        calls.append(of)
        return of.body_count

    assert [model.cached("bodies", count) for _ in range(3)] == [model.body_count] * 3
    assert calls == [model]
    plan, contacts = collision_plan_of(model), model.contacts
    assert model.contacts is contacts
    model.forget("contacts")
    assert model.rigid_contact_shape0 is None
    assert collision_plan_of(model) is plan
    assert model.contacts is not contacts
    model.forget()
    assert collision_plan_of(model) is not plan
    model.cached("bodies", count)
    assert len(calls) == 2


def test_a_model_without_contact_buffers_says_so():
    with pytest.raises(ModelError, match="without contact buffers"):
        Model("cpu").contact()
