"""Work of elements against slopes of their energies, and the linear system of the adjoint, in float64."""

import numpy as np
import pytest
import small_elements
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.kernels.particles.adjoint.contacts import normal_at, overlap_at, stopped_work
from newtonsim.kernels.particles.adjoint.elements import MatrixView
from newtonsim.kernels.particles.adjoint.steps import cut_off, through_limit
from newtonsim.kernels.particles.adjoint.system import SystemView, invert_diagonal, solve_worlds
from newtonsim.kernels.particles.adjoint.work import edge_work, spring_work, tetrahedron_work, triangle_work

call = DeviceFunctions(
    __name__,
    normal_at,
    overlap_at,
    stopped_work,
    cut_off,
    through_limit,
    edge_work,
    spring_work,
    tetrahedron_work,
    triangle_work,
)

DT = 0.01
SECANT = 1


def gaps(x: np.ndarray, *order: int) -> list[np.ndarray]:
    """Vectors from the first of some corners to the others."""
    return [x[c] - x[order[0]] for c in order[1:]]


class Corners:
    """Corners of an element at the end and at the start of a step, and a multiplier at each."""

    def __init__(self, count: int, seed: int):
        rng = np.random.default_rng(seed)
        self.rest = rng.normal(size=(count, 3))
        self.x = self.rest + 0.1 * rng.normal(size=(count, 3))
        self.x0 = self.x + 0.05 * rng.normal(size=(count, 3))
        self.multiplier = rng.normal(size=(count, 3))

    def check(self, work: np.ndarray, energy: small_elements.Energy) -> None:
        exact = -np.sum(small_elements.forces(energy, self.x) * self.multiplier)
        assert work[0] == pytest.approx(exact, rel=1e-6)

    def arguments(self, *order: int) -> list[np.ndarray]:
        """Vectors at the end, their changes, at the start, and of multipliers."""
        end, start = gaps(self.x, *order), gaps(self.x0, *order)
        moved = [a - b for a, b in zip(end, start)]
        return [*end, *moved, *start, *gaps(self.multiplier, *order)]


def test_work_of_a_spring(device):
    c = Corners(2, 0)
    work = call(device, spring_work, *c.arguments(0, 1), 1.2, 30.0, 0.4, 0.25, DT, SECANT)
    c.check(work, lambda x: small_elements.spring(x, c.x0, 0.9, 30.0, 0.4, DT))


def test_work_of_a_triangle(device):
    c = Corners(3, 1)
    inverse = np.linalg.inv([[1.1, 0.3], [0.0, 0.9]])
    material = (20.0, 50.0, 0.3)
    work = call(device, triangle_work, *c.arguments(0, 1, 2), inverse, 0.5, material, 0.1, DT, SECANT)
    c.check(work, lambda x: small_elements.triangle(x, c.x0, inverse, 0.5, material, 0.1, DT))


def test_work_of_a_bending_edge(device):
    c = Corners(4, 2)
    # vectors from the start of the edge to the opposite corners and to its end
    work = call(device, edge_work, *c.arguments(2, 0, 1, 3), 0.3, 1.4, 5.0, 0.02, DT, SECANT)
    c.check(work, lambda x: small_elements.edge(x, c.x0, 0.3, 1.4, 5.0, 0.02, DT))


def test_work_of_a_tetrahedron(device):
    c = Corners(4, 3)
    inverse = np.linalg.inv((c.rest[1:] - c.rest[0]).T)
    if np.linalg.det(inverse) < 0.0:
        inverse = -inverse
    material = (40.0, 90.0, 0.01)
    edges, start, multiplier = ((y[1:] - y[0]).T for y in (c.x, c.x0, c.multiplier))
    work = call(device, tetrahedron_work, edges, start, multiplier, inverse, material, 0.1, DT, SECANT)
    c.check(work, lambda x: small_elements.tetrahedron(x, c.x0, inverse, material, 0.1, DT))


def test_rigid_motion_does_no_work_against_elements(device):
    c = Corners(4, 4)
    # a rotation rate about an axis, as a multiplier
    c.multiplier = np.cross([0.3, -0.5, 0.7], c.x) + np.array([1.0, 2.0, 3.0])
    c.x0 = c.x
    inverse = np.linalg.inv((c.rest[1:] - c.rest[0]).T)
    edges, start, multiplier = ((y[1:] - y[0]).T for y in (c.x, c.x0, c.multiplier))
    works = [
        call(device, spring_work, *c.arguments(0, 1), 1.2, 30.0, 0.4, 0.0, DT, SECANT),
        call(device, edge_work, *c.arguments(2, 0, 1, 3), 0.3, 1.4, 5.0, 0.02, DT, SECANT),
        call(device, tetrahedron_work, edges, start, multiplier, inverse, (40, 90, 0), 0.0, DT, SECANT),
    ]
    np.testing.assert_allclose(np.array(works), 0.0, atol=1e-10)


def test_normal_and_overlap_beside_a_sphere(device):
    n = Rotation.random(20, random_state=5).apply([0.0, 0.0, 1.0])
    radius = 2.0
    curvature = (np.eye(3) - np.einsum("ni,nj->nij", n, n)) / radius
    moved = 1e-2 * np.random.default_rng(5).normal(size=(20, 3))
    # the point was 0.1 deep in a sphere of radius 2.1 about the origin; to second order in its motion
    p = radius * n + moved
    exact = p / np.linalg.norm(p, axis=1, keepdims=True)
    np.testing.assert_allclose(call(device, normal_at, n, curvature, moved), exact, atol=2e-4)
    overlap = 2.1 - np.linalg.norm(p, axis=1)
    np.testing.assert_allclose(call(device, overlap_at, 0.1, n, curvature, moved), overlap, atol=1e-6)
    # a velocity along the normal is all taken away
    stopped = call(device, stopped_work, np.zeros(3), 3.0 * n, moved, n, curvature)
    np.testing.assert_allclose(stopped, 0.0, atol=1e-15)


def test_gradient_through_a_bounded_speed(device):
    rng = np.random.default_rng(6)
    v, g = rng.normal(size=(2, 40, 3))
    fastest, h = 1.5, 1e-6
    slope = np.zeros((40, 3))
    for axis in range(3):
        d = h * np.eye(3)[axis]
        ends = [call(device, cut_off, v + s * d, fastest) for s in (1.0, -1.0)]
        slope[:, axis] = np.sum(g * (ends[0] - ends[1]), axis=1) / (2.0 * h)
    np.testing.assert_allclose(call(device, through_limit, g, v, fastest), slope, atol=1e-8)


def test_unsymmetric_systems_of_several_worlds(device):
    rng = np.random.default_rng(7)
    worlds = [[0, 2, 5], [1, 3, 4, 6], []]
    n = 7
    dense, rows, columns, blocks, diagonal = np.zeros((3 * n, 3 * n)), [0], [], [], []
    for i in range(n):
        others = next(w for w in worlds if i in w)
        for j in sorted(others):
            if i == j:
                diagonal.append(len(blocks))
            block = rng.normal(size=(3, 3)) * 0.3 + 3.0 * np.eye(3) * (i == j)
            dense[3 * i : 3 * i + 3, 3 * j : 3 * j + 3] = block
            blocks.append(block)
            columns.append(j)
        rows.append(len(blocks))
    right = rng.normal(size=(n, 3))

    def ints(values) -> wp.array:
        return wp.array(np.array(values, np.int32), dtype=int, device=device)

    s = SystemView()
    s.matrix = MatrixView()
    s.matrix.row_start, s.matrix.column = ints(rows), ints(columns)
    s.matrix.value = wp.array(np.array(blocks), dtype=wp.mat33d, device=device)
    s.diagonal, s.particle = ints(diagonal), ints(worlds[0] + worlds[1])
    s.world_start = ints([0, 3, 7, 7])
    s.mass = wp.ones(n, dtype=wp.float64, device=device)
    s.inverse = wp.zeros(n, dtype=wp.mat33d, device=device)
    s.right = wp.array(right, dtype=wp.vec3d, device=device)
    for name in ("x", "r", "shadow", "p", "p_hat", "v", "s_hat", "t"):
        setattr(s, name, wp.zeros(n, dtype=wp.vec3d, device=device))
    s.iterations, s.residual = ints([0] * 3), wp.zeros(3, dtype=wp.float64, device=device)
    wp.launch(invert_diagonal, n, [0, s], device=device)
    wp.launch(solve_worlds, 3, [0, 50, 1e-12, s], device=device)
    x = np.linalg.solve(dense, right.reshape(-1)).reshape(n, 3)
    np.testing.assert_allclose(s.x.numpy(), x, atol=1e-9)
    assert s.residual.numpy().max() < 1e-11
    assert s.iterations.numpy()[2] == 0
