"""Stresses and gradients of elements against finite differences of their energies in numpy."""

from typing import Any

import numpy as np
import pytest
import warp as wp

from newtonsim.kernels.particles.elements.spring import controlled_length
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
