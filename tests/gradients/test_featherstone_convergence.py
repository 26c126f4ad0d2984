"""Solves that stop before they reach the solution that gradients are of are told by FeatherstoneSolver."""

import warnings

import numpy as np
import pytest
import warp as wp
from tasks.gradient_cases import make_case

import newtonsim
from newtonsim import diff
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0
GRAVITY = 9.81
SPEED = (1.0, 0.2)


@wp.kernel
def add_places(body_q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    b = wp.tid()
    p = wp.transform_get_translation(body_q[b])
    wp.atomic_add(losses, b // 2, p[0] + 2.0 * p[1] - p[2])


def add_loss(state, losses):
    wp.launch(add_places, len(state.body_q), [state.body_q, losses], device=losses.device)


def slide(masses, frictions, ground, device, requires_grad=True):
    """Worlds with a box of so many kilograms on one of 0.1 kg; frictions are those of the lower and it."""
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for mass in masses:
        world = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        for k, m in enumerate((0.1, mass)):
            turn = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.2 * k)
            half = (0.06, 0.072, 0.1) if k else (0.1, 0.12, 0.1)
            density = m / (8.0 * half[0] * half[1] * half[2])
            body = world.add_body(origin=wp.transform((0.01 * k, 0.0, 0.1 + 0.2 * k), turn))
            material = {"mu": frictions[k], "restitution": 0.0, "density": density}
            world.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2], **material)
        scene.replicate(world, 1)
    scene.set_ground_plane(mu=ground, restitution=0.0)
    model = scene.finalize(device, requires_grad=requires_grad)
    state = model.state()
    state.joint_qd.assign(np.tile([0.0, 0.0, 0.0, *SPEED, 0.0], 2 * len(masses)).astype(np.float32))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return model, state


def energies(model, qd):
    """Twice the kinetic energy of every body; boxes turn about vertical axes alone."""
    w, v = np.split(qd.reshape(-1, 6), 2, axis=1)
    pose = model.body_q.numpy()
    turned = [wp.quat_rotate_inv(wp.quat(*q), wp.vec3(*a)) for q, a in zip(pose[:, 3:], w)]
    spin = np.einsum("bi,bij,bj->b", np.array(turned), model.body_inertia.numpy(), np.array(turned))
    return spin + model.body_mass.numpy() * (v**2).sum(axis=1)


@pytest.mark.parametrize(("mass", "iterations"), [(10.0, 64), (3.0, 16), (1.0, 16)])
def test_error_is_the_distance_to_the_converged_step(device, mass, iterations):
    """Of one step, body by body, against a step of thousands of sweeps, as a share of what contacts do."""
    ends = []
    for options in ({"iterations": iterations}, {"iterations": 30000, "tolerance": 1e-8}):
        model, state = slide([mass], (0.3, 0.6), 0.1, device, requires_grad=False)
        out = model.state()
        FeatherstoneSolver(model, factorizations=0, **options).step(model, state, out, None, None, DT)
        ends.append(out.joint_qd.numpy().astype(float))
    free = state.joint_qd.numpy().astype(float)
    free[5::6] -= GRAVITY * DT
    acted = energies(model, ends[0] - free) + 1e-4 * energies(model, ends[0])
    wanted = np.sqrt(energies(model, ends[0] - ends[1]) / acted)  # of both bodies
    assert wanted.max() > 0.02

    model, state = slide([mass], (0.3, 0.6), 0.1, device)
    solver, out = FeatherstoneSolver(model, iterations=iterations, factorizations=0), model.state()
    losses = wp.zeros(1, dtype=float, device=device, requires_grad=True)
    with wp.Tape() as tape:
        solver.step(model, state, out, None, None, DT)
        add_loss(out, losses)
    with pytest.warns(RuntimeWarning, match=rf"{wanted.max():.0%} .*world 0, worst in the last step"):
        tape.backward(losses)
    off, acted = solver.adjoint.error.errors.sums.numpy().T
    np.testing.assert_allclose(np.sqrt(off / acted), wanted, rtol=0.02)


def gradient_by_velocities(device, iterations, tolerance=1e-7, **options):
    """Of a box of 10 kg that slides on one of 0.1 kg in world 1, and a light one in world 0."""
    model, state = slide([0.1, 10.0], (0.1, 0.1), 0.6, device)
    solver = FeatherstoneSolver(model, iterations=iterations, tolerance=tolerance, **options)
    rollout = diff.Rollout(model, solver, 20, DT, add_loss, wrt=("state.joint_qd",))
    return rollout(state, None).gradients["state.joint_qd"].numpy().reshape(2, -1)


def test_heavy_on_light_warns_until_sweeps_converge(device):
    with pytest.warns(
        RuntimeWarning, match=r"solve ended \d+% .*\(world 1, worst \d+ steps before the last\)"
    ):
        few = gradient_by_velocities(device, 64, factorizations=0)
    with warnings.catch_warnings():
        # contacts that just touch are another matter
        warnings.filterwarnings("error", message=".*constraint solve")
        converged = gradient_by_velocities(device, 30000, 1e-8, factorizations=0)
    light, heavy = distances(few, converged)
    assert light < 2e-3
    assert heavy > 0.02


def distances(a, b):
    """Relative distance of two gradients, by world."""
    return np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1)


def test_robots_do_not_warn_by_default(device):
    case = make_case("quadruped standing", "Featherstone, hard", device)
    solver = FeatherstoneSolver(case.model)
    rollout = diff.Rollout(case.model, solver, 20, case.dt, case.loss, wrt=("state.joint_q",))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*constraint solve")
        rollout(case.state, case.control)
