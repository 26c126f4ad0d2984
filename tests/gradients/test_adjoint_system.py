"""Multipliers of the constraints of a step against SciPy, and the bounds that their solve has."""

import numpy as np
import pytest
import warp as wp
from exact_adjoint import ExactAdjoint, solve_on_device

import newtonsim
from newtonsim.errors import NotDifferentiableError
from newtonsim.examples import asset_path
from newtonsim.examples.scenes import piles
from newtonsim.importers import parse_mjcf
from newtonsim.kernels.constraints.adjoint.one_tree import MOST_DOFS
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0


def add_box(builder, position, turn, half, mu, density):
    body = builder.add_body(origin=wp.transform(position, turn))
    hx, hy, hz = (float(h) for h in half)
    builder.add_shape_box(body, hx=hx, hy=hy, hz=hz, mu=mu, restitution=0.0, density=float(density))


def sliding_box():
    """A box that turns as it slides on its four corners, which bear more than its motion needs."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.set_ground_plane(mu=0.4, restitution=0.0)
    add_box(builder, (0.0, 0.0, 0.1), wp.quat_identity(), (0.1, 0.12, 0.1), 0.4, 400.0)
    return builder, np.array([0.0, 0.0, 0.7, 1.5, 0.4, 0.0]), 2


def sliding_quadruped():
    """A robot whose feet slide, turning, and bear more than the motion of its trunk needs."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(str(asset_path("quadruped.xml")), builder, floating=None, ignore_inertial_definitions=False)
    builder.joint_q[:], builder.joint_act[:] = (builder.keyframes[0][k] for k in ("joint_q", "joint_act"))
    builder.set_ground_plane(mu=0.4, restitution=0.0)
    return builder, np.array([0.0, 0.0, 0.7, 0.8, 0.4, 0.0, *np.zeros(builder.joint_dof_count - 6)]), 8


def collapsing_pile():
    """Boxes of all sizes and directions that fall over each other."""
    builder, rng = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0)), np.random.default_rng(2)
    builder.set_ground_plane(mu=0.6, restitution=0.0)
    for k in range(64):
        q = rng.normal(size=4)
        turn = wp.quat(*(q / np.linalg.norm(q)))
        place = (*(0.25 * rng.uniform(-1.0, 1.0, 2)), 0.2 + 0.24 * (k // 6))
        add_box(builder, place, turn, rng.uniform(0.06, 0.12, 3), 0.6, rng.uniform(200.0, 1000.0))
    return builder, None, 110


def heavy_on_light():
    return piles.box_stack(10, 1.0e-2), None, 60


def wall_in_any_order():
    """A wall of 300 cubes in any order, of which the highest slide.

    Between its first and its last entry each row of its matrix has so many that there was no room for them
    in any order but that of minimum degree.
    """
    rng, size = np.random.default_rng(5), 24
    places = [(k - 0.5 * (size - row - 1), row) for row in range(size) for k in range(size - row)]
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.set_ground_plane(mu=0.5, restitution=0.0)
    speed = np.zeros((len(places), 6))
    for n, i in enumerate(rng.permutation(len(places))):
        x, row = places[i]
        add_box(builder, (0.22 * x, 0.0, 0.1 + 0.2 * row), wp.quat_identity(), (0.1, 0.1, 0.1), 0.5, 1000.0)
        speed[n, 3] = 0.3 * (row > 20)
    return builder, speed.reshape(-1), 8


def sliding_wall():
    """A wall of 300 cubes of which each row slides over the one below."""
    builder, speed, steps = wall_in_any_order()
    height = np.array([transform[2] for transform in builder.body_q])
    speed.reshape(-1, 6)[:, 3] = 0.3 * np.round((height - 0.1) / 0.2)
    return builder, speed, steps


def sliding_chain():
    """A chain of capsules, straight along x, that slides along y: a tree too large for a dense matrix."""
    builder, length = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0)), 0.1
    builder.set_ground_plane(mu=0.4, restitution=0.0)
    for k in range(MOST_DOFS):
        link = builder.add_body(origin=wp.transform((length * k, 0.0, 0.02), wp.quat_identity()))
        builder.add_shape_capsule(link, radius=0.02, half_height=0.02, up_axis=0, mu=0.4, restitution=0.0)
        if k == 0:
            builder.add_joint_free(link)
        else:
            ends = {"parent_xform": (0.5 * length, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)}
            ends["child_xform"] = (-0.5 * length, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
            builder.add_joint_revolute(link - 1, link, axis=(0.0, 1.0, 0.0), **ends)
    return builder, np.array([0.0, 0.0, 0.0, 0.0, 0.5, 0.0, *np.zeros(MOST_DOFS - 1)]), 2


def start(model, speed):
    state = model.state()
    if speed is not None:
        state.joint_qd.assign(speed.astype(np.float32))
        newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state


def after_backward(builder, speed, steps, device):
    """A solver after the backward pass of the last of some steps, and the gradient by velocities."""
    model = builder.finalize(device, requires_grad=True)
    solver, state, spare = FeatherstoneSolver(model), start(model, speed), model.state()
    for _ in range(steps):
        solver.step(model, state, spare, None, None, DT)
        state, spare = spare, state
    with wp.Tape() as tape:
        solver.step(model, state, spare, None, None, DT)
    g = np.random.default_rng(0).normal(size=model.joint_dof_count).astype(np.float32)
    tape.backward(grads={spare.joint_qd: wp.array(g, dtype=float, device=device)})
    return solver, g


SLIDING = {
    sliding_box: 4,
    sliding_quadruped: 3,
    collapsing_pile: 20,
    heavy_on_light: 0,
    wall_in_any_order: 100,
    sliding_wall: 800,
    sliding_chain: 2 * MOST_DOFS,
}


@pytest.mark.filterwarnings("ignore:.*constraint solve ended")
@pytest.mark.parametrize("scene", SLIDING)
def test_multipliers_solve_the_transposed_system(device, scene):
    """To the residual of the rounds, 1e-6, times what the small eigenvalues of a pile make of it."""
    solver, g = after_backward(*scene(), device)
    found, m_found = solve_on_device(solver, g)
    exact = ExactAdjoint(solver)
    lam, m = exact.solve(g)
    m_found = m_found[exact.places]
    sliding = sum(contact.slides for contact in exact.contacts)
    assert sliding >= SLIDING[scene]
    assert np.linalg.norm(found - lam) < 1e-4 * np.linalg.norm(lam)
    if scene is sliding_wall:
        return
    if scene is wall_in_any_order:
        # least squares, which have the softening, too, leave out much where contacts are nearly redundant
        size = np.abs(exact.sum_of(m))
        assert np.mean(np.abs(exact.sum_of(m_found) - exact.sum_of(m)) > 0.01 * size.max()) < 0.02
        return
    lost = np.linalg.norm(exact.sum_of(m_found) - exact.sum_of(m)) / np.linalg.norm(exact.sum_of(m))
    assert lost < 1e-4
    assert np.linalg.norm(m_found - exact.least(m)) < 3e-3 * np.linalg.norm(m_found)


def test_rounds_that_do_not_suffice_are_reported(device):
    builder, speed, _ = sliding_box()
    model = builder.finalize(device, requires_grad=True)
    solver, a, b = FeatherstoneSolver(model), start(model, speed), model.state()
    with wp.Tape() as tape:
        solver.step(model, a, b, None, None, DT)
    solver.adjoint.constraints.system.most = 0
    seed = wp.array(np.ones(6), dtype=float, device=device)
    with pytest.raises(NotDifferentiableError, match=r"worlds \[0\]: .* not found within the rounds"):
        tape.backward(grads={b.joint_qd: seed})
    assert np.isnan(a.joint_qd.grad.numpy()).any()
