"""Sweeps: loads of manifolds are evened out without changing their sum; softened contacts spread a load."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0
GRAVITY = 9.81


def guided_block(device: str, offset: float) -> tuple[newtonsim.Model, FeatherstoneSolver]:
    """A block on the ground, guided along x and z, with its centre of mass off the middle [m]."""
    upright = wp.transform((0.0, 0.0, 0.1), wp.quat_identity())
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    carriage = builder.add_body(origin=upright, mass=1.0, I_m=0.01 * np.eye(3))
    block = builder.add_body(origin=upright, mass=2.0, com=(offset, 0.0, 0.0), I_m=0.02 * np.eye(3))
    builder.add_joint_prismatic(-1, carriage, parent_xform=upright, axis=(1.0, 0.0, 0.0))
    builder.add_joint_prismatic(carriage, block, axis=(0.0, 0.0, 1.0))
    builder.add_shape_box(block, hx=0.1, hy=0.1, hz=0.1, density=0.0)
    builder.set_ground_plane()
    model = builder.finalize(device)
    return model, FeatherstoneSolver(model)


def normal_impulses(solver: FeatherstoneSolver) -> np.ndarray:
    count = int(solver.contacts.rigid_contact_count.numpy()[0])
    return solver.constraints.rows.contact.impulse.numpy()[:count, 0]


@pytest.mark.parametrize("restless", [False, True])
def test_a_guided_block_bears_on_its_four_corners_alike(device: str, restless: bool):
    """The guide takes all moments: equations alone leave open how four corners share the load."""
    model, solver = guided_block(device, 0.03)
    a, b = model.state(), model.state()
    control = model.control()
    forces = np.zeros(2, np.float32)
    for step in range(240):
        if restless:
            forces[1] = -4.0 * (step % 20)
        control.joint_f.assign(forces)
        solver.step(model, a, b, control, None, DT)
        a, b = b, a
    impulses = normal_impulses(solver)
    assert len(impulses) == 4
    assert impulses.sum() == pytest.approx((2.0 * GRAVITY - forces[1]) * DT, rel=1.0e-3)
    np.testing.assert_allclose(impulses, impulses.mean(), rtol=0.3)
