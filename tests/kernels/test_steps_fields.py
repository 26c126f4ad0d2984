"""Kernels that write chosen entries of a model, and bring up to date what depends on them."""

import numpy as np
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.kernels.steps.fields import (
    bound_boxes,
    bound_radii,
    invert_inertias,
    invert_masses,
    is_chosen,
    measure_levers,
    radius_of,
    read_entries,
    write_entries,
)
from newtonsim.kernels.views.model import JointView
from newtonsim.scene.enums import GeoType

call = DeviceFunctions(__name__, is_chosen, radius_of)


def array(values, dtype, device) -> wp.array:
    return wp.array(values, dtype=dtype, device=device)


def everywhere(device) -> wp.array:
    return wp.zeros(0, dtype=bool, device=device)


def test_a_mask_names_worlds_and_one_without_entries_all(device):
    mask = array([True, False], bool, device)
    assert call(device, is_chosen, [0, 1, -1], mask).tolist() == [True, False, False]
    assert call(device, is_chosen, [0, 1, -1], everywhere(device)).tolist() == [True] * 3


def test_inverse_masses_are_zero_for_what_nothing_moves(device):
    mass, world = array([2.0, 0.0, 4.0, 8.0], float, device), array([0, 0, 1, 2], int, device)
    mask = array([True, True, False], bool, device)
    inverse = wp.zeros(4, dtype=float, device=device)
    wp.launch(invert_masses, 4, [0, world, mask, mass, inverse], device=device)
    np.testing.assert_array_equal(inverse.numpy(), [0.5, 0.0, 0.25, 0.0])
    inertia = np.array([[[2.0, 0.5, 0.0], [0.5, 3.0, 0.1], [0.0, 0.1, 4.0]]] * 4)
    inertias = array(inertia, wp.mat33, device)
    inverses = wp.zeros(4, dtype=wp.mat33, device=device)
    wp.launch(invert_inertias, 4, [0, world, everywhere(device), mass, inertias, inverses], device=device)
    for body in (0, 2, 3):
        np.testing.assert_allclose(inverses.numpy()[body], np.linalg.inv(inertia[body]), rtol=1e-5)
    assert not inverses.numpy()[1].any()


def test_entries_go_where_they_belong_in_masked_worlds(device):
    index = np.array([[5, 1], [4, 0], [2, 3]])
    values = np.arange(18, dtype=np.int32) + 100
    target = np.full((6, 3), -1, np.int32)
    held = array(target.reshape(-1), int, device)
    worlds, mask = array([2, 0, 1], int, device), array([True, False, True], bool, device)
    inputs = [0, array(index, int, device), worlds, mask, 3, array(values, int, device), held]
    wp.launch(write_entries, 6, inputs, device=device)
    target[index[:2].reshape(-1)] = values.reshape(6, 3)[:4]
    np.testing.assert_array_equal(held.numpy().reshape(6, 3), target)
    read = wp.zeros(18, dtype=int, device=device)
    wp.launch(read_entries, 6, [0, array(index, int, device), 3, held, read], device=device)
    np.testing.assert_array_equal(read.numpy().reshape(6, 3), target[index.reshape(-1)])


def test_levers_are_radii_of_gyration_about_the_joint(device):
    """A rod of length l and mass m about its end: l/√3, where inertia about two axes counts half each."""
    length, mass = 0.6, 2.0
    about = mass * length**2 / 12.0
    joint = JointView()
    joint.child, joint.axis_start = array([0], int, device), array([0], int, device)
    joint.axis_dim = array([[1, 2]], int, device)
    joint.X_c = array([[0, 0, 0, 0, 0, 0, 1]], wp.transform, device)
    lever = wp.full(3, 9.0, dtype=float, device=device)
    bodies = [
        array([mass], float, device),
        array([[length / 2, 0.0, 0.0]], wp.vec3, device),
        array([np.diag([0.0, about, about])], wp.mat33, device),
    ]
    world = array([0], int, device)
    wp.launch(measure_levers, 1, [0, world, everywhere(device), joint, *bodies, lever], device=device)
    np.testing.assert_allclose(lever.numpy(), [9.0, length / np.sqrt(3.0), length / np.sqrt(3.0)], rtol=1e-6)


def test_radii_hold_the_corners_of_shapes(device):
    size = np.array([0.3, 0.4, 1.2])
    expected = {
        GeoType.SPHERE: 0.3,
        GeoType.BOX: 1.3,
        GeoType.CAPSULE: 0.7,
        GeoType.CYLINDER: 0.5,
        GeoType.CONE: 0.5,
        GeoType.ELLIPSOID: 1.2,
        GeoType.MESH: -1.0,
    }
    found = call(device, radius_of, [int(kind) for kind in expected], wp.vec3(*size))
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-6)


def test_radii_and_boxes_of_meshes_grow_with_them(device):
    kinds = array([int(GeoType.MESH), int(GeoType.PLANE), int(GeoType.BOX)], int, device)
    world, none = array([0, 0, 0], int, device), everywhere(device)
    before, after = np.ones((3, 3)), np.array([[2.0, 3.0, -1.0], [1.0, 1.0, 1.0], [1.0, 2.0, 2.0]])
    sizes = [array(s, wp.vec3, device) for s in (after, before)]
    lower, upper = np.array([[-1.0, -2.0, -3.0]] * 3), np.array([[0.5, 1.0, 4.0]] * 3)
    radius = array([7.0, 7.0, 7.0], float, device)
    given = array([5.0, 5.0, 5.0], float, device)
    wp.launch(bound_radii, 3, [0, world, none, kinds, *sizes, given, radius], device=device)
    np.testing.assert_allclose(radius.numpy(), [15.0, 7.0, 3.0])
    boxes = [array(b, wp.vec3, device) for b in (lower, upper)]
    found = [wp.zeros(3, dtype=wp.vec3, device=device) for _ in range(2)]
    wp.launch(bound_boxes, 3, [0, world, none, kinds, *sizes, *boxes, *found], device=device)
    np.testing.assert_allclose(found[0].numpy(), [[-2.0, -6.0, -4.0], [0.0] * 3, [0.0] * 3])
    np.testing.assert_allclose(found[1].numpy(), [[1.0, 3.0, 3.0], [0.0] * 3, [0.0] * 3])
