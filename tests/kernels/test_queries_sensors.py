"""Inertias and forces of `kernels/queries/joint_sensors.py`; tests/pybullet/test_sensors.py has readings."""

import numpy as np
from kernel_calls import DeviceFunctions

from newtonsim.kernels.queries.joint_sensors import at_origin, pushed_apart, rigid_inertia

call = DeviceFunctions(__name__, at_origin, pushed_apart, rigid_inertia)
ROWS = 5


def test_spatial_inertia_has_the_energy_of_the_body(device):
    """½ Vᵀ I V is the energy of mass and rotation about the centre of mass, for any velocity."""
    rng = np.random.default_rng(0)
    mass, com, root = rng.uniform(0.5, 2.0, ROWS), rng.normal(size=(ROWS, 3)), rng.normal(size=(ROWS, 3, 3))
    inertia = root @ root.transpose(0, 2, 1)
    w, v = rng.normal(size=(2, ROWS, 3))
    speed = v + np.cross(w, com)
    turning = np.einsum("ri,rij,rj->r", w, inertia, w)
    energy = 0.5 * mass * (speed**2).sum(axis=1) + 0.5 * turning
    found = call(device, rigid_inertia, mass, com, inertia)
    np.testing.assert_allclose(found, found.transpose(0, 2, 1), atol=1e-6)
    twist = np.hstack([w, v])
    np.testing.assert_allclose(0.5 * np.einsum("ri,rij,rj->r", twist, found, twist), energy, rtol=1e-5)


def test_a_wrench_does_the_same_work_about_the_origin(device):
    """It does the work of its moment, and of its force where it acts."""
    torque, force, x, w, v = np.random.default_rng(1).normal(size=(5, ROWS, 3))
    work = (torque * w + force * (v + np.cross(w, x))).sum(axis=1)
    found = call(device, at_origin, torque, force, x)
    np.testing.assert_allclose((found * np.hstack([w, v])).sum(axis=1), work, rtol=1e-4)


def test_a_joint_is_pushed_along_its_axis_by_the_generalised_force(device):
    """S · f is the force, by work; a slider gets a pure force, a hinge a pure moment, wherever it is."""
    axes = np.array([[0, 0, 0, 1, 2, 2], [1, 2, 2, 5, -3, 4]], float)
    found = call(device, pushed_apart, axes, [7.0, 7.0])
    np.testing.assert_allclose((found * axes).sum(axis=1), 7.0, rtol=1e-6)
    np.testing.assert_array_equal(found[0, :3], 0.0)
    np.testing.assert_array_equal(found[1, 3:], 0.0)
