"""MuJoCoSolver with the contacts of our collision pass."""

import numpy as np
import pytest
import warp as wp

from newtonsim import ModelBuilder, ModelError
from newtonsim.collision.collide import collide
from newtonsim.solvers import MuJoCoSolver

DT = 0.004


def balls_and_box(worlds: int = 1) -> ModelBuilder:
    """Two balls, one falling onto the other, and a sliding box, where both engines find the same contacts."""
    part = ModelBuilder(up_vector=(0, 0, 1))
    shape = {"mu": 0.6, "thickness": 0.0}
    for x, z in ((0.0, 0.12), (0.03, 0.4)):
        part.add_shape_sphere(
            part.add_body(origin=wp.transform((x, 0, z), wp.quat_identity())), radius=0.1, **shape
        )
    box = part.add_body(origin=wp.transform((1.0, 0, 0.101), wp.quat_identity()))
    part.add_shape_box(box, hx=0.2, hy=0.15, hz=0.1, **shape)
    builder = ModelBuilder(up_vector=(0, 0, 1))
    for world in range(worlds):
        builder.add_builder(part, xform=wp.transform((0, 3.0 * world, 0), wp.quat_identity()))
    builder.set_ground_plane(mu=0.6)
    return builder


def run(model, given: bool, steps: int = 150, **options):
    state = model.state()
    state.joint_qd.numpy().reshape(-1, 6)[:, 3] = np.tile((0.2, 0.0, 1.0), model.world_count)
    options = {"solver": "newton", "iterations": 50, "use_mujoco": True, "cone": "elliptic", **options}
    solver = MuJoCoSolver(model, **options)
    contacts = model.contact()
    for _ in range(steps):
        if given:
            collide(model, state, contacts=contacts)
        solver.step(model, state, state, None, contacts if given else None, DT)
    return state, solver


@pytest.mark.parametrize("integrator", ["euler", "implicitfast"])
def test_contacts_of_either_engine(integrator):
    model = balls_and_box(2).finalize(device="cpu")
    own, first = run(model, False, integrator=integrator)
    ours, second = run(model, True, integrator=integrator)
    assert [data.ncon for data in first.mj_datas] == [data.ncon for data in second.mj_datas]
    assert first.mj_data.ncon >= 5
    np.testing.assert_allclose(ours.body_q.numpy(), own.body_q.numpy(), atol=1e-4)
    np.testing.assert_allclose(ours.body_qd.numpy(), own.body_qd.numpy(), atol=1e-3)


def test_disabled_contacts_are_not_taken():
    model = balls_and_box().finalize(device="cpu")
    state, solver = run(model, True, steps=100, disable_contacts=True)
    assert solver.mj_data.ncon == 0
    assert (state.body_q.numpy()[:, 2] < -0.2).all()


def test_contacts_that_do_not_fit():
    model = balls_and_box().finalize(device="cpu")
    state, other = model.state(), balls_and_box(2).finalize(device="cpu")
    solver = MuJoCoSolver(model, use_mujoco=True, integrator="rk4")
    with pytest.raises(ValueError, match="integrator"):
        solver.step(model, state, state, None, model.contact(), DT)
    solver = MuJoCoSolver(model, use_mujoco=True)
    with pytest.raises(ModelError, match="contacts: expected a buffer of the model"):
        solver.step(model, state, state, None, other.contact(), DT)
