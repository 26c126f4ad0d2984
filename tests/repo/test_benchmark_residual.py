"""The residual of the benchmark of deformables: its gradients are those of its energies."""

import numpy as np
import pytest
from tasks.deformables_residual import (
    Elements,
    Hinges,
    NeoHookeanTriangles,
    Objective,
    Springs,
    Tetrahedra,
    Triangles,
    overlap,
)

from newtonsim.builder.particles import dihedral_angles, triangle_rest_poses

RNG = np.random.default_rng(0)
REST = RNG.normal(size=(6, 3))
TRIANGLES = np.array([[0, 1, 2], [3, 4, 5], [1, 4, 2]])
HINGES = np.array([[0, 1, 2, 3], [2, 5, 0, 4]])
TETRAHEDRA = np.array([[0, 1, 2, 3], [2, 3, 5, 4]])


def some(count: int) -> np.ndarray:
    return RNG.uniform(1.0, 2.0, count)


def elements() -> dict[str, Elements]:
    flat = triangle_rest_poses(*(REST[TRIANGLES[:, k]] for k in range(3)))
    edges = np.stack([REST[TETRAHEDRA[:, k]] - REST[TETRAHEDRA[:, 0]] for k in (1, 2, 3)], axis=2)
    solid = (np.linalg.inv(edges), np.abs(np.linalg.det(edges)) / 6.0)
    return {
        "springs": Springs(np.array([[0, 3], [1, 5]]), some(2), some(2)),
        "triangles": Triangles(TRIANGLES, *flat, some(3), some(3)),
        "triangles of Newton": NeoHookeanTriangles(TRIANGLES, *flat, some(3), some(3)),
        "hinges": Hinges(HINGES, 0.1 * some(2), some(2), some(2)),
        "tetrahedra": Tetrahedra(TETRAHEDRA, *solid, some(2), some(2)),
    }


@pytest.mark.parametrize("name", elements())
def test_gradient_is_that_of_the_energy(name: str):
    objective = Objective(some(6), 0.1, np.array([0.0, 0.0, -9.81]), [elements()[name]])
    x = REST + 0.3 * RNG.normal(size=REST.shape)
    y = x + 0.1
    slopes = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1.0e-6
        slopes[place] = (objective.energy(x + step, y) - objective.energy(x - step, y)) / 2.0e-6
    np.testing.assert_allclose(objective.gradient(x, y), slopes, atol=1.0e-7 * np.abs(slopes).max())


@pytest.mark.parametrize("name", ["triangles", "triangles of Newton", "tetrahedra"])
def test_no_force_at_rest(name: str):
    out = np.zeros_like(REST)
    elements()[name].add_gradient(REST, out)
    np.testing.assert_allclose(out, 0.0, atol=1.0e-12)


def test_both_triangles_are_equally_stiff_at_rest():
    found = []
    for name in ("triangles", "triangles of Newton"):
        part = elements()[name]
        part.ke, part.ka = np.full(3, 2.0), np.full(3, 3.0)
        out = np.zeros_like(REST)
        part.add_gradient(REST + 1.0e-6 * np.sin(np.arange(18.0)).reshape(6, 3), out)
        found.append(out)
    np.testing.assert_allclose(found[0], found[1], atol=1.0e-4 * np.abs(found[0]).max())


def test_angles_are_those_of_the_builder():
    part = Hinges(HINGES, np.zeros(2), np.ones(2), np.array([1.0, 0.0]))
    angle = dihedral_angles(*(REST[HINGES[:, k]] for k in range(4)))[0]
    assert part.energy(REST) == pytest.approx(0.5 * angle**2)


def test_residual_is_one_at_the_inertial_point_and_zero_at_the_end_point():
    """A spring along z between a held particle and a free one: the end point is known."""
    h, mass, ke = 0.1, 2.0, 30.0
    spring = Springs(np.array([[0, 1]]), np.ones(1), np.array([ke]))
    objective = Objective(np.array([0.0, mass]), h, np.array([0.0, 0.0, -9.81]), [spring])
    x, v = np.array([[0.0, 0, 0], [0, 0, -1.2]]), np.array([[0.0, 0, 0], [0, 0, 0.5]])
    y = objective.inertial(x, v)
    assert objective.residual(x, v, y) == pytest.approx(1.0)
    end = y.copy()
    end[1, 2] = (mass / h**2 * y[1, 2] - ke) / (mass / h**2 + ke)
    assert objective.residual(x, v, end) == pytest.approx(0.0, abs=1.0e-12)


def test_overlap():
    half = np.array([1.0, 1.0])
    apart = np.array([[0.0, 0.0, 0.5], [0.0, 0.25, 0.5]])
    assert overlap(apart, 0.1, half) == 0.0
    assert overlap(apart, 0.15, half) == pytest.approx(0.05 / 0.15)
    assert overlap(np.array([[0.95, 0.0, 0.5]]), 0.1, half) == pytest.approx(0.5)
    assert overlap(np.array([[0.0, 0.0, 0.02]]), 0.1, half) == pytest.approx(0.8)
