"""The tools that other tests rely on: they have to find what is wrong, and to be repeatable."""

import numpy as np
import pytest
import warp as wp

from newtonsim.testing import (
    TREE_JOINT_TYPES,
    assert_gradients,
    poison,
    random_coordinates,
    random_inertia,
    random_model,
)


@wp.kernel
def scale_sine(x: wp.array(dtype=wp.vec3), m: wp.array(dtype=float), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = wp.sin(x[i][0]) * x[i] * m[i]


@wp.func
def wrong_square(a: float):
    return a * a


@wp.func_grad(wrong_square)
def adj_wrong_square(a: float, adj: float):
    wp.adjoint[a] += 1.99 * a * adj


@wp.kernel
def scale_wrongly(x: wp.array(dtype=wp.vec3), m: wp.array(dtype=float), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = x[i] * wrong_square(m[i])


def gradient_errors(kernel: wp.Kernel, device: str) -> dict[str, float]:
    rng = np.random.default_rng(0)
    x = wp.array(rng.normal(size=(6, 3)), dtype=wp.vec3, requires_grad=True, device=device)
    m = wp.array(rng.uniform(1.0, 2.0, 6), dtype=float, requires_grad=True, device=device)

    def compute() -> wp.array:
        y = wp.zeros(6, dtype=wp.vec3, requires_grad=True, device=device)
        wp.launch(kernel, dim=6, inputs=[x, m], outputs=[y], device=device)
        return y

    before = x.numpy().copy()
    errors = assert_gradients(compute, {"x": x, "m": m}, rtol=1.0e-3)
    np.testing.assert_array_equal(x.numpy(), before)
    return errors


def test_right_gradients_pass(device: str):
    assert max(gradient_errors(scale_sine, device).values()) < 1.0e-3


def test_a_gradient_that_is_wrong_by_half_a_percent_fails(device: str):
    with pytest.raises(AssertionError, match=r"'m': 0\.00"):
        gradient_errors(scale_wrongly, device)


def test_poison_reaches_floats_and_spares_integers(device: str):
    poses = wp.zeros(2, dtype=wp.transform, device=device)
    counts = wp.zeros(2, dtype=int, device=device)
    poison(poses)
    poison(counts)
    assert np.isnan(poses.numpy()).all()
    assert not counts.numpy().any()


def test_random_inertia_is_physical():
    rng = np.random.default_rng(0)
    for _ in range(50):
        moments = np.linalg.eigvalsh(random_inertia(rng, 2.0))
        assert moments[0] > 0.0
        assert moments[0] + moments[1] >= moments[2]


def test_random_model_has_every_joint_type_and_is_repeatable():
    model, again = (random_model(7).finalize("cpu") for _ in range(2))
    assert set(model.joint_type.numpy()) == set(TREE_JOINT_TYPES)
    assert model.articulation_count == 1
    np.testing.assert_array_equal(model.joint_X_p.numpy(), again.joint_X_p.numpy())
    np.testing.assert_array_equal(model.joint_axis.numpy(), again.joint_axis.numpy())
    assert not np.array_equal(model.joint_axis.numpy(), random_model(8).finalize("cpu").joint_axis.numpy())


def test_shuffled_model_has_children_before_parents():
    model = random_model(9, shuffle=True).finalize("cpu")
    order = {child: joint for joint, child in enumerate(model.joint_child.numpy())}
    parents = model.joint_parent.numpy()
    assert any(order[parent] > joint for joint, parent in enumerate(parents) if parent >= 0)


def test_random_coordinates_respect_limits():
    model = random_model(10).finalize("cpu")
    axes = len(model.joint_limit_lower)
    model.joint_limit_lower.assign(np.full(axes, -0.1, dtype=np.float32))
    model.joint_limit_upper.assign(np.full(axes, 0.05, dtype=np.float32))
    q, _ = random_coordinates(model, 0)
    starts, kinds = model.joint_q_start.numpy(), model.joint_axis_dim.numpy().sum(axis=1)
    for joint in np.flatnonzero(kinds):
        angles = q[starts[joint] : starts[joint + 1]]
        assert np.all((angles >= -0.1) & (angles <= 0.05))
