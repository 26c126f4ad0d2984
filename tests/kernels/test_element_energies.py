"""Stresses and gradients of elements against finite differences of their energies in numpy."""

from typing import Any

import numpy as np
import pytest
import warp as wp

from newtonsim.kernels.particles.elements.hinge import fold_of, short_way
from newtonsim.kernels.particles.elements.spring import controlled_length
from newtonsim.kernels.particles.elements.tetrahedron import rest_volume, solid_stress, volume_slope
from newtonsim.kernels.particles.elements.triangle import (
    deformation_columns,
    green_strain,
    membrane_stress,
    strain_change,
)

PRECISIONS = {"single": (np.float32, 2e-5), "double": (np.float64, 1e-8)}


@pytest.fixture(params=PRECISIONS)
def precision(request):
    """Type of numbers, and the largest error relative to the largest entry that rounding accounts for."""
    return PRECISIONS[request.param]


def run(kernel, number, given, size):
    """One thread of a kernel: numbers in, numbers out."""
    out = wp.zeros(size, dtype=wp.dtype_from_numpy(number), device="cpu")
    arrays = [wp.array(np.asarray(part, number).reshape(-1), device="cpu") for part in given]
    wp.launch(kernel, 1, [*arrays, out], device="cpu")
    return out.numpy().astype(float)


def slope(f, x, along, h=1e-5):
    """Central difference of a function along a direction."""
    return (f(x + h * along) - f(x - h * along)) / (2.0 * h)


def gradient(f, x):
    """Central differences of a function with respect to all entries of an array."""
    units = np.eye(x.size).reshape(-1, *x.shape)
    return np.array([slope(f, x, unit) for unit in units]).reshape(x.shape)


def assert_near(found, expected, tolerance):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * scale)


# --- springs -----------------------------------------------------------------------------------------------


@wp.kernel
def stretch_spring(given: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    d = wp.vector(given[0], given[1], given[2])
    length = wp.length(d)
    tension = given[3] * (length - controlled_length(given[4], given[5]))
    for k in range(3):
        out[k] = tension * d[k] / length


def test_tension_is_the_slope_of_the_energy_of_a_controlled_spring(precision):
    number, tolerance = precision
    ke, rest, control = 30.0, 0.7, 0.3
    d = np.array([0.4, -0.5, 0.6])

    def energy(d):
        return 0.5 * ke * (np.linalg.norm(d) - 0.7 * rest) ** 2

    assert_near(run(stretch_spring, number, [[*d, ke, rest, control]], 3), gradient(energy, d), tolerance)


# --- triangles ---------------------------------------------------------------------------------------------


@wp.kernel
def stretch_triangle(
    edges: wp.array(dtype=Any),
    change: wp.array(dtype=Any),
    pose: wp.array(dtype=Any),
    material: wp.array(dtype=Any),
    out: wp.array(dtype=Any),
):
    inverse = wp.matrix_from_rows(wp.vector(pose[0], pose[1]), wp.vector(pose[2], pose[3]))
    f0, f1 = deformation_columns(
        wp.vector(edges[0], edges[1], edges[2]), wp.vector(edges[3], edges[4], edges[5]), inverse
    )
    r0, r1 = deformation_columns(
        wp.vector(change[0], change[1], change[2]), wp.vector(change[3], change[4], change[5]), inverse
    )
    g00, g11, g01 = green_strain(f0, f1)
    d00, d11, d01 = strain_change(f0, f1, r0, r1)
    s00, s11, s01 = membrane_stress(g00, g11, g01, material[0], material[1], material[2])
    out[0] = g00
    out[1] = g11
    out[2] = g01
    out[3] = d00
    out[4] = d11
    out[5] = d01
    out[6] = s00 * d00 + s11 * d11 + s01 * d01


def strain_of(edges, pose):
    """Green's strain of a triangle with two edges (2, 3)."""
    F = edges.T @ pose
    return 0.5 * (F.T @ F - np.eye(2))


@pytest.mark.parametrize("seed", range(4))
def test_membrane_stress_is_the_slope_of_the_energy(precision, seed):
    """Strain, its change and the work of the stress along a motion, for random shapes and motions."""
    number, tolerance = precision
    rng = np.random.default_rng(seed)
    edges, along = rng.normal(size=(2, 2, 3))
    pose = np.linalg.inv(rng.uniform(-0.3, 0.3, (2, 2)) + np.eye(2))
    ke, ka, activation = 50.0, 80.0, 0.1

    def energy(edges):
        strain = strain_of(edges, pose)
        return ke * np.sum(strain**2) + 0.5 * ka * (np.trace(strain) - activation) ** 2

    found = run(stretch_triangle, number, [edges, along, pose, [ke, ka, activation]], 7)
    strain = strain_of(edges, pose)
    assert_near(found[:3], [strain[0, 0], strain[1, 1], strain[0, 1]], tolerance)
    change = slope(lambda e: strain_of(e, pose), edges, along)
    assert_near(found[3:6], [change[0, 0], change[1, 1], 2.0 * change[0, 1]], tolerance)
    # the work is a sum of terms of either sign
    size = np.abs(gradient(energy, edges) * along).sum()
    assert abs(found[6] - slope(energy, edges, along)) < tolerance * size


# --- hinges ------------------------------------------------------------------------------------------------


@wp.kernel
def fold_hinge(corners: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    fold = fold_of(corners[0], corners[1], corners[2], corners[3])
    out[0] = fold.angle
    for k in range(3):
        out[1 + k] = fold.g0[k]
        out[4 + k] = fold.g1[k]
        out[7 + k] = fold.g2[k]
        out[10 + k] = fold.g3[k]


@wp.kernel
def shorten(angles: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    for k in range(out.shape[0]):
        out[k] = short_way(angles[k])


def turn_about_edge(corners):
    """Angle about the edge by which one triangle is turned from the plane of the other; o0, o1, v0, v1."""
    o0, o1, v0, v1 = corners
    axis = (v1 - v0) / np.linalg.norm(v1 - v0)
    across = [p - axis * (axis @ p) for p in (o0 - v0, v0 - o1)]
    return np.arctan2(axis @ np.cross(*across), across[0] @ across[1])


def fold(corners):
    """Angle and gradients (4, 3) of a hinge with corners (4, 3)."""
    out = wp.zeros(13, dtype=float, device="cpu")
    wp.launch(fold_hinge, 1, [wp.array(corners, dtype=wp.vec3, device="cpu"), out], device="cpu")
    return out.numpy()[0], out.numpy()[1:].reshape(4, 3)


@pytest.mark.parametrize("degrees", [-150, -60, 0, 5, 90, 170])
def test_gradients_of_a_fold_are_slopes_of_its_angle(degrees):
    """An uneven hinge, turned in space, whose second triangle is folded out of the plane of the first."""
    angle = np.radians(degrees)
    corners = np.array(
        [[-0.4, 0.3, 0.0], [0.7 * np.cos(angle), 0.8, -0.7 * np.sin(angle)], [0, 0, 0], [0, 1, 0]]
    )
    frame = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    corners = corners @ (frame * np.linalg.det(frame)).T
    found, gradients = fold(corners)
    assert found == pytest.approx(angle, abs=1e-6)
    assert turn_about_edge(corners) == pytest.approx(angle, abs=1e-12)
    assert_near(gradients, gradient(turn_about_edge, corners), 1e-5)


@pytest.mark.parametrize(
    "collapsed",
    [
        [[0.5, 0, 0], [0.2, 1, 0], [0, 0, 0], [1, 0, 0]],
        [[0.5, 1, 0], [3, 0, 0], [0, 0, 0], [1, 0, 0]],
        [[0.5, 1, 0], [0.5, -1, 0], [1, 0, 0], [1, 0, 0]],
    ],
    ids=["first triangle", "second triangle", "edge"],
)
def test_a_hinge_without_area_has_no_gradients(collapsed):
    """Where nothing divides by zero."""
    found, gradients = fold(np.array(collapsed, float))
    assert found == 0.0
    np.testing.assert_array_equal(gradients, 0.0)


def test_angles_are_taken_the_short_way_round(precision):
    number, tolerance = precision
    angles = np.radians([-350.0, -190.0, -170.0, 0.0, 10.0, 179.0, 181.0, 359.0, 725.0])
    expected = np.radians([10.0, 170.0, -170.0, 0.0, 10.0, 179.0, -179.0, -1.0, 5.0])
    assert_near(run(shorten, number, [angles], len(angles)), expected, tolerance)


# --- tetrahedra --------------------------------------------------------------------------------------------


@wp.kernel
def squeeze_tetrahedron(
    gradient: wp.array(dtype=Any),
    pose: wp.array(dtype=Any),
    material: wp.array(dtype=Any),
    out: wp.array(dtype=Any),
):
    F = wp.matrix_from_rows(
        wp.vector(gradient[0], gradient[1], gradient[2]),
        wp.vector(gradient[3], gradient[4], gradient[5]),
        wp.vector(gradient[6], gradient[7], gradient[8]),
    )
    inverse = wp.matrix_from_rows(
        wp.vector(pose[0], pose[1], pose[2]),
        wp.vector(pose[3], pose[4], pose[5]),
        wp.vector(pose[6], pose[7], pose[8]),
    )
    slope, J = volume_slope(F)
    stress = solid_stress(F, slope, J, material[0], material[1], material[2])
    out[0] = rest_volume(inverse)
    out[1] = J
    for row in range(3):
        for k in range(3):
            out[2 + 3 * row + k] = slope[row, k]
            out[11 + 3 * row + k] = stress[row, k]


@pytest.mark.parametrize(
    "F",
    [
        np.eye(3) + 0.3 * np.random.default_rng(2).normal(size=(3, 3)),
        np.diag([1.0, 0.0, 1.2]),
        np.diag([0.9, -0.4, 1.1]) + 0.1,
    ],
    ids=["strained", "flat", "inverted"],
)
def test_solid_stress_is_the_slope_of_the_energy(precision, F):
    """Volume at rest, J, its slope and the stress, of an uneven tetrahedron whatever became of it."""
    number, tolerance = precision
    mu, lame, activation = 40.0, 90.0, 0.05
    edges = np.array([[0.5, 0.1, 0.0], [0.0, 0.4, 0.2], [0.1, 0.0, 0.6]])

    def energy(F):
        J = np.linalg.det(F)
        shear = 0.5 * mu * (np.sum(F**2) - 3.0) - mu * (J - 1.0)
        return shear + 0.5 * (lame + mu) * (J - 1.0 - activation) ** 2

    found = run(squeeze_tetrahedron, number, [F, np.linalg.inv(edges), [mu, lame, activation]], 20)
    assert found[0] == pytest.approx(np.linalg.det(edges) / 6.0, rel=tolerance)
    assert found[1] == pytest.approx(np.linalg.det(F), abs=tolerance)
    assert_near(found[2:11].reshape(3, 3), gradient(np.linalg.det, F), tolerance)
    assert_near(found[11:].reshape(3, 3), gradient(energy, F), tolerance)
