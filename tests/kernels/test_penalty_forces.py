"""Penalty forces: minus the slopes of energies, dampers that take energy, equal and opposite forces."""

import numpy as np
import pytest
import small_elements
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.kernels.penalty.contact_law import contact_force, push_body
from newtonsim.kernels.penalty.elements import bend_edges, pull_springs, squeeze_tetrahedra, stretch_triangles
from newtonsim.kernels.penalty.grains import GrainMaterial, grain_force
from newtonsim.kernels.penalty.joints import along_axes, orthonormal, outside
from newtonsim.kernels.penalty.loops import hold_equality, hold_interval
from newtonsim.kernels.penalty.particle_contacts import pull_back
from newtonsim.kernels.penalty.sums import sum_forces

call = DeviceFunctions(
    __name__,
    contact_force,
    push_body,
    grain_force,
    along_axes,
    orthonormal,
    outside,
    hold_equality,
    hold_interval,
    pull_back,
)


class Element:
    """One element of each kind over the same corners, which do not come first in the order of elements."""

    def __init__(self, corners: int, device: str):
        rng = np.random.default_rng(corners)
        self.device, self.count = device, corners
        self.rest = rng.normal(size=(corners, 3))
        self.x = self.rest + 0.1 * rng.normal(size=(corners, 3))
        self.spinning = np.cross([0.3, -0.5, 0.7], self.x) + np.array([1.0, 2.0, 3.0])

    def array(self, values, dtype=float) -> wp.array:
        return wp.array(values, dtype=dtype, device=self.device)

    def launch(self, kernel, *parameters, v: np.ndarray | None = None, flat: bool = False) -> np.ndarray:
        """Forces (n, 3) of one element whose places begin at 5."""
        out = wp.zeros(5 + self.count, dtype=wp.vec3, device=self.device)
        indices = np.arange(self.count, dtype=np.int32)
        where = self.array(indices if flat else indices[None], int)
        points = self.array(self.x, wp.vec3)
        speeds = self.array(np.zeros_like(self.x) if v is None else v, wp.vec3)
        inputs = [0, self.array([0], int), where, *parameters, points, speeds, 5, out]
        wp.launch(kernel, 1, inputs, device=self.device)
        return out.numpy()[5:]

    def check(self, kernel, energy: small_elements.Energy, *parameters, flat: bool = False) -> None:
        """Forces at rest by the energy; damping takes energy from any motion and none from rigid ones."""
        elastic = self.launch(kernel, *parameters, flat=flat)
        exact = small_elements.forces(energy, self.x)
        np.testing.assert_allclose(elastic, exact, rtol=1e-3, atol=1e-3 * np.abs(exact).max())
        rigid = self.launch(kernel, *parameters, v=self.spinning, flat=flat)
        np.testing.assert_allclose(rigid, elastic, atol=1e-4 * np.abs(exact).max())
        v = np.random.default_rng(0).normal(size=self.x.shape)
        damped = self.launch(kernel, *parameters, v=v, flat=flat) - elastic
        assert np.sum(damped * v) < -1e-3
        np.testing.assert_allclose(damped.sum(axis=0), 0.0, atol=1e-3 * np.abs(damped).max())


def test_springs(device):
    e = Element(2, device)
    parameters = [e.array([value]) for value in (1.2, 30.0, 0.4, 0.25)]
    e.check(pull_springs, lambda x: small_elements.spring(x, x, 0.9, 30.0, 0.0, 1.0), *parameters, flat=True)


def test_triangles(device):
    e = Element(3, device)
    inverse = np.linalg.inv([[1.1, 0.3], [0.0, 0.9]])
    parameters = [
        e.array([inverse], wp.mat22),
        e.array([0.5]),
        e.array([[20.0, 50.0, 0.3, 0.0, 0.0]]),
        e.array([0.1]),
    ]
    e.check(
        stretch_triangles,
        lambda x: small_elements.triangle(x, x, inverse, 0.5, (20.0, 50.0, 0.0), 0.1, 1.0),
        *parameters,
    )


def test_bending_edges(device):
    e = Element(4, device)
    parameters = [e.array([0.3]), e.array([1.4]), e.array([[5.0, 0.2]])]
    e.check(bend_edges, lambda x: small_elements.edge(x, x, 0.3, 1.4, 5.0, 0.0, 1.0), *parameters)


def test_tetrahedra(device):
    e = Element(4, device)
    if np.linalg.det((e.rest[1:] - e.rest[0]).T) < 0.0:
        e.rest[[2, 3]], e.x[[2, 3]] = e.rest[[3, 2]], e.x[[3, 2]]
        e.spinning = np.cross([0.3, -0.5, 0.7], e.x)
    inverse = np.linalg.inv((e.rest[1:] - e.rest[0]).T)
    parameters = [e.array([inverse], wp.mat33), e.array([[40.0, 90.0, 0.05]]), e.array([0.1])]
    e.check(
        squeeze_tetrahedra,
        lambda x: small_elements.tetrahedron(x, x, inverse, (40.0, 90.0, 0.0), 0.1, 1.0),
        *parameters,
    )


def test_contact_pushes_out_and_rubs_against_the_slip(device):
    rng = np.random.default_rng(1)
    n = np.array([0.0, 0.6, 0.8])
    v = rng.normal(size=(100, 3))
    depth = np.linspace(-0.01, 0.02, 100)
    force = call(device, contact_force, depth, v, n, 1e3, 10.0, 1e6, 0.5, 1e-3, 1e-3)
    assert not force[depth <= 0.0].any()
    touching = depth > 0.0
    along = (force @ n)[touching]
    across = force[touching] - along[:, None] * n
    slip = v[touching] - (v[touching] @ n)[:, None] * n
    assert np.all(along >= 0.0)
    # Coulomb, smooth at small speeds, and against the slip
    size, speed = np.linalg.norm(across, axis=1), np.linalg.norm(slip, axis=1)
    np.testing.assert_allclose(size, 0.5 * along * speed / np.hypot(speed, 1e-3), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.sum(across * slip, axis=1), -size * speed, rtol=1e-3, atol=1e-3)
    # what moves into the surface is pushed harder than what moves out of it
    both = call(device, contact_force, 0.01, [-0.5 * n, 0.5 * n], n, 1e3, 10.0, 0.0, 0.0, 1e-3, 1e-3) @ n
    assert both[0] > 10.0 > both[1]


def test_force_at_a_point_is_a_wrench_at_the_centre_of_mass(device):
    body_q = wp.array([[1.0, 0, 0, 0, 0, 0, 1]], dtype=wp.transform, device=device)
    com = wp.array([[0.0, 1.0, 0.0]], dtype=wp.vec3, device=device)
    f = wp.zeros(1, dtype=wp.spatial_vector, device=device)
    x, force = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    call(device, push_body, [0, -1], x, force, body_q, com, f)
    np.testing.assert_allclose(f.numpy()[0], [*np.cross(x - [1.0, 1.0, 0.0], force), *force], rtol=1e-6)


def test_grains_push_each_other_apart_with_opposite_forces(device):
    rng = np.random.default_rng(2)
    material = GrainMaterial()
    for name, values in {
        "ke": [1e3, 2e3], "kd": [5.0, 7.0], "kf": [10.0, 20.0], "mu": [0.3, 0.5],
        "radius": [0.1, 0.2], "cohesion": [0.02, 0.04], "mass": [1.0, 2.0],
    }.items():  # fmt: skip
        setattr(material, name, wp.array(values, dtype=float, device=device))
    material.slip, material.fade, material.rate = 1e-3, 1e-3, 100.0
    v = wp.array(rng.normal(size=(2, 3)), dtype=wp.vec3, device=device)
    still = wp.zeros(2, dtype=wp.vec3, device=device)
    along = np.array([0.6, 0.0, 0.8])
    for gap, sign in [(-0.01, 1.0), (0.015, -1.0), (0.04, 0.0)]:
        x = wp.array([np.zeros(3), (0.3 + gap) * along], dtype=wp.vec3, device=device)
        forces = call(device, grain_force, [0, 1], [1, 0], x, v, material)
        np.testing.assert_allclose(forces[0], -forces[1], atol=1e-3)
        # overlap pushes, a small gap attracts by cohesion, a large one does nothing
        assert np.sign(np.round(call(device, grain_force, 1, 0, x, still, material)[0] @ along, 4)) == sign


def test_attraction_is_strongest_in_the_middle_of_its_reach(device):
    depth = np.linspace(-0.03, 0.01, 401)
    pull = call(device, pull_back, depth, 0.02, 500.0)
    assert pull[depth > 0.0].max() == pull[depth < -0.02].max() == 0.0
    assert depth[np.argmax(pull)] == pytest.approx(-0.01)
    np.testing.assert_allclose(pull.max(), 5.0, rtol=1e-4)


def test_axes_of_a_joint_and_what_is_across_them(device):
    rng = np.random.default_rng(3)
    C = rng.normal(size=(20, 3, 3))
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    C[:5, :, 2] = 0.0
    T = call(device, orthonormal, C)
    found = T.transpose(0, 2, 1) @ T
    np.testing.assert_allclose(found, np.eye(3) * (np.abs(C).sum(axis=1) > 0.0)[:, None, :], atol=1e-4)
    effort = rng.normal(size=(20, 3)) * (np.abs(C).sum(axis=1) > 0.0)
    vector = call(device, along_axes, C, T, effort)
    np.testing.assert_allclose(np.einsum("nij,ni->nj", C, vector), effort, atol=2e-3)
    v = rng.normal(size=(20, 3))
    left = call(device, outside, T, v)
    np.testing.assert_allclose(np.einsum("nij,ni->nj", C, left), 0.0, atol=1e-4)
    # of all axes nothing is left, of two what is along the third direction
    assert np.abs(left[5:]).max() < 1e-4
    assert np.abs(left[:5]).max() > 1e-2


def test_efforts_of_held_rows(device):
    effort = call(
        device, hold_interval, [-2.0, 0.5, 3.0, 3.0], [0.0, 9.0, 0.0, -99.0], 10.0, 1.0, [-1.0, 1.0]
    )
    # below, inside, above, and above but coming back so fast that nothing has to pull
    np.testing.assert_allclose(effort, [10.0, 0.0, -20.0, 0.0])
    assert call(device, hold_interval, 0.3, 2.0, 10.0, 1.0, [0.0, 0.0])[0] == np.float32(-5.0)
    np.testing.assert_allclose(
        call(device, hold_equality, [0.3, 9.0], 2.0, 10.0, 1.0, 0.0, 20.0), [-5.0, -20.0]
    )
    # a spring of compliance c behind one of stiffness k
    np.testing.assert_allclose(
        call(device, hold_equality, 1.0, 0.0, 10.0, 0.0, 0.4, 99.0), 1.0 / -(0.1 + 0.4)
    )


def test_sums_go_to_the_particle_that_owns_the_place(device):
    corner = np.random.default_rng(4).normal(size=(6, 3))
    external = np.ones((3, 3))
    starts, slots = ([0, 2, 2, 5], [4, 0, 1, 5, 3])
    arrays = [wp.array(values, dtype=int, device=device) for values in (starts, slots)]
    arrays += [wp.array(values, dtype=wp.vec3, device=device) for values in (corner, external)]
    f = wp.zeros(3, dtype=wp.vec3, device=device)
    wp.launch(sum_forces, 3, [0, *arrays, f], device=device)
    exact = external + np.array([corner[[4, 0]].sum(axis=0), np.zeros(3), corner[[1, 5, 3]].sum(axis=0)])
    np.testing.assert_allclose(f.numpy(), exact, atol=1e-5)
