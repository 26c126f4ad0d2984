"""Inner functions of XPBD and VBD for particles: gradients by differences, systems by NumPy."""

import numpy as np
import small_elements
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.kernels.particles.elements.hinge import fold_of
from newtonsim.kernels.particles.vbd.components import solve_balance
from newtonsim.kernels.particles.vbd.elements import relaxed_step, solve_block
from newtonsim.kernels.particles.vbd.rows import bending_angle, shape_slope
from newtonsim.kernels.particles.xpbd.contacts import within_cone
from newtonsim.kernels.particles.xpbd.deltas import apply_body_deltas, apply_particle_deltas
from newtonsim.kernels.particles.xpbd.particles import finish_particles, predict_particles
from newtonsim.kernels.particles.xpbd.springs import SpringView, solve_springs
from newtonsim.kernels.particles.xpbd.tetrahedra import make_response, mobility_of, respond
from newtonsim.kernels.particles.xpbd.triangles import elastic_stress, solve_stress

call = DeviceFunctions(
    __name__,
    solve_balance,
    relaxed_step,
    solve_block,
    bending_angle,
    shape_slope,
    within_cone,
    fold_of,
    respond,
    make_response,
    mobility_of,
    elastic_stress,
    solve_stress,
)


def folded_corners(count: int) -> np.ndarray:
    """Corners (n, 4, 3) of pairs of triangles that share an edge, from nearly flat to nearly closed."""
    rng = np.random.default_rng(0)
    return np.array([[0.1, 1.0, 0.0], [0.2, -1.0, 0.3], [-0.5, 0, 0], [0.6, 0, 0]]) + 0.3 * rng.normal(
        size=(count, 4, 3)
    )


def test_angle_of_a_fold_and_its_gradient(device):
    x = folded_corners(40)
    fold = call(device, fold_of, *x.transpose(1, 0, 2))
    np.testing.assert_allclose(fold["angle"], [small_elements.angle(c) for c in x], atol=1e-5)
    np.testing.assert_allclose(call(device, bending_angle, *x.transpose(1, 0, 2)), fold["angle"], atol=1e-5)
    for k in range(40):
        exact = -small_elements.forces(small_elements.angle, x[k])
        found = np.array([fold[f"g{c}"][k] for c in range(4)])
        np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-3)


def random_blocks(count: int) -> tuple[np.ndarray, dict]:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(count, 3, 3))
    H = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(3)
    diagonal = H[:, [0, 1, 2], [0, 1, 2]]
    mixed = H[:, [1, 2, 0], [2, 0, 1]]
    return H, {"force": rng.normal(size=(count, 3)), "diagonal": diagonal, "mixed": mixed}


def test_newton_step_of_a_block(device):
    H, block = random_blocks(100)
    exact = np.linalg.solve(H, block["force"][..., None])[..., 0]
    np.testing.assert_allclose(call(device, solve_block, block), exact, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(call(device, relaxed_step, block, 0.1, 1.0, 1.0), exact, rtol=1e-3, atol=1e-3)
    # where inertia alone resists a longer step gains nothing
    free = {"force": [1.0, 2.0, 3.0], "diagonal": [4.0, 4.0, 4.0], "mixed": [0.0, 0.0, 0.0]}
    np.testing.assert_allclose(
        call(device, relaxed_step, free, 4.0, 1.8, 9.0)[0], [0.25, 0.5, 0.75], rtol=1e-6
    )
    # where it is nothing beside the stiffness, the step grows by the factor, or as far as allowed
    np.testing.assert_allclose(
        call(device, relaxed_step, free, 0.0, 1.8, 9.0)[0], [0.45, 0.9, 1.35], rtol=1e-6
    )
    short = call(device, relaxed_step, free, 0.0, 1.8, 0.1)[0] - [0.25, 0.5, 0.75]
    np.testing.assert_allclose(np.linalg.norm(short), 0.1, rtol=1e-4)


def test_rigid_motion_that_balances_a_piece(device):
    rng = np.random.default_rng(2)
    A = rng.normal(size=(20, 6, 6))
    A = A @ A.transpose(0, 2, 1) + np.eye(6)
    b = rng.normal(size=(20, 6))
    exact = np.linalg.solve(A, b[..., None])[..., 0]
    np.testing.assert_allclose(call(device, solve_balance, A, b), exact, rtol=1e-3, atol=1e-4)
    # a rod along x, whose turning about itself nothing resists
    singular = np.diag([0.0, 2.0, 2.0, 3.0, 3.0, 3.0])
    found = call(device, solve_balance, singular, np.ones(6))[0]
    np.testing.assert_allclose(found, [0.0, 0.5, 0.5, 1 / 3, 1 / 3, 1 / 3], rtol=1e-5)


def test_slopes_of_shape_functions_add_up_and_reproduce_linear_fields(device):
    x = np.random.default_rng(3).normal(size=(4, 3))
    inverse = np.linalg.inv((x[1:] - x[0]).T)
    corners = wp.array([[7, 3, 9, 5]], dtype=int, device=device)
    slopes = call(device, shape_slope, inverse, corners, 0, [7, 3, 9, 5])
    np.testing.assert_allclose(slopes.sum(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(x.T @ slopes, np.eye(3), atol=1e-4)


def test_friction_within_its_cone(device):
    hold = np.random.default_rng(4).normal(size=(50, 3))
    found = call(device, within_cone, hold, 1.0)
    exact = hold * np.minimum(1.0, 1.0 / np.linalg.norm(hold, axis=1))[:, None]
    np.testing.assert_allclose(found, exact, atol=1e-6)


def test_response_of_a_tetrahedron_solves_its_equation(device):
    rng = np.random.default_rng(5)
    g, x = rng.uniform(0.1, 2.0, (30, 3)), rng.normal(size=(30, 3, 3))
    sym, skew = 5.0, 2.0
    response = call(device, make_response, g, sym, skew)
    D = call(device, respond, {name: response[name] for name in response.dtype.names}, x).astype(np.float64)
    # D + K(D G) = x with the stiffness sym against symmetric changes and skew against turns
    change = D * g[:, None, :]
    symmetric = 0.5 * (change + change.transpose(0, 2, 1))
    np.testing.assert_allclose(D + sym * symmetric + skew * (change - symmetric), x, atol=1e-4)


def test_mobility_of_a_deformation(device):
    rng = np.random.default_rng(6)
    d, w = rng.normal(size=(3, 3)), rng.uniform(0.5, 2.0, 4)
    # F = sum of corners by their slopes, so that an impulse P changes F by sum of w (P g) gT
    slopes = np.vstack([-d.sum(axis=0), d])
    np.testing.assert_allclose(call(device, mobility_of, d, w)[0], (slopes.T * w) @ slopes, rtol=1e-5)


def test_stress_of_a_membrane_is_the_slope_of_its_energy(device):
    F = np.random.default_rng(7).normal(size=(3, 2))
    ke, ka, activation = 20.0, 50.0, 0.2

    def energy(strain: np.ndarray) -> float:
        trace = strain[0] + strain[1] - activation
        return ke * (strain[0] ** 2 + strain[1] ** 2 + 2.0 * strain[2] ** 2) + 0.5 * ka * trace**2

    G = 0.5 * (F.T @ F - np.eye(2))
    strain, h = np.array([G[0, 0], G[1, 1], G[0, 1]]), 1e-6
    slope = np.array([(energy(strain + d) - energy(strain - d)) / (2.0 * h) for d in h * np.eye(3)])
    # both shear strains carry the stress 01; the goal spreads the activation over both directions
    exact = -slope * [1.0, 1.0, 0.5]
    goal = activation * ka / (2.0 * ke + 2.0 * ka)
    found = call(device, elastic_stress, F[:, 0], F[:, 1], [ke, ka, 0.0], goal)[0]
    np.testing.assert_allclose(found, exact, rtol=1e-4)


def test_stress_agrees_with_the_strain_that_it_leads_to(device):
    f0, f1 = np.array([1.1, 0.2, 0.0]), np.array([-0.1, 0.9, 0.3])
    g0, g1, k = 1e-7, 2e-7, np.array([20.0, 50.0, 0.0])
    stress = call(device, elastic_stress, f0, f1, k, 0.0)[0]
    zero = np.zeros(3)
    found = call(device, solve_stress, f0, f1, zero, zero, g0, g1, k, 0.0, stress)[0]
    # without mobility there is nothing to give way
    np.testing.assert_allclose(found, stress, rtol=1e-4)
    g0, g1 = 1e-4, 2e-4
    found = call(device, solve_stress, f0, f1, zero, zero, g0, g1, k, 0.0, stress)[0]
    moved0 = f0 + g0 * (f0 * found[0] + f1 * found[2])
    moved1 = f1 + g1 * (f0 * found[2] + f1 * found[1])
    after = call(device, elastic_stress, moved0, moved1, k, 0.0)[0]
    np.testing.assert_allclose(found, after, rtol=5e-3, atol=1e-3)


def test_corrections_become_positions_and_velocities(device):
    def array(values, dtype=float) -> wp.array:
        return wp.array(values, dtype=dtype, device=device)

    x, v, shift = np.random.default_rng(9).normal(size=(3, 3, 3))
    flags = array(np.array([1, 1, 0], np.uint32), wp.uint32)
    ends = [wp.zeros(3, dtype=wp.vec3, device=device) for _ in range(2)]
    # the second has no mass, the third is not active
    inputs = [
        0,
        array([1.0, 0.0, 1.0]),
        flags,
        *(array(y, wp.vec3) for y in (x, v, shift)),
        100.0,
        0.5,
        *ends,
    ]
    wp.launch(apply_particle_deltas, 3, inputs, device=device)
    np.testing.assert_allclose(ends[0].numpy(), [x[0] + shift[0], x[1], x[2]], atol=1e-6)
    np.testing.assert_allclose(ends[1].numpy(), [v[0] + 2.0 * shift[0], v[1], v[2]], atol=1e-6)
    turn = Rotation.random(random_state=9)
    pose, com = np.concatenate([x[0], turn.as_quat()]), np.array([0.1, 0.2, -0.3])
    moments, delta = np.array([0.2, 0.5, 0.4]), np.array([0.02, -0.03, 0.01, 0.1, 0.2, -0.1])
    ends = [wp.zeros(1, dtype=t, device=device) for t in (wp.transform, wp.spatial_vector)]
    inputs = [
        0,
        array([pose], wp.transform),
        array(np.zeros((1, 6)), wp.spatial_vector),
        array([com], wp.vec3),
    ]
    inputs += [array([0.5]), array([np.diag(1.0 / moments)], wp.mat33), array([delta], wp.spatial_vector)]
    wp.launch(apply_body_deltas, 1, [*inputs, array([2.0]), 1, 0.1, *ends], device=device)
    R = turn.as_matrix()
    spin = R @ np.diag(1.0 / moments) @ R.T @ (0.5 * delta[:3])
    move = 0.5 * 0.5 * delta[3:]
    np.testing.assert_allclose(ends[1].numpy()[0], np.concatenate([spin, move]) / 0.1, rtol=1e-4, atol=1e-5)
    end = ends[0].numpy()[0]
    turned = Rotation.from_rotvec(spin) * turn
    np.testing.assert_allclose(Rotation.from_quat(end[3:]).as_matrix(), turned.as_matrix(), atol=1e-5)
    np.testing.assert_allclose(turned.apply(com) + end[:3], turn.apply(com) + x[0] + move, atol=1e-5)


def test_sweeps_over_a_spring_end_at_the_implicit_euler_step(device):
    def array(values, dtype=float) -> wp.array:
        return wp.array(values, dtype=dtype, device=device)

    rng = np.random.default_rng(10)
    dt, k, c, rest = 0.02, 5e3, 3.0, 0.5
    mass = np.array([0.5, 2.0])
    start, before = np.array([[0.0, 0.0, 0.0], [0.6, 0.3, 0.0]]), rng.normal(size=(2, 3))
    gravity = np.array([0.0, 0.0, -9.81])
    x, v, shift = (array(values, wp.vec3) for values in (start, before, np.zeros((2, 3))))
    weight, force = array(1.0 / mass), array(np.zeros((2, 3)), wp.vec3)
    springs = SpringView()
    springs.ends, springs.weight = array([[0, 1]], wp.vec2i), array([1.0 / mass], wp.vec2)
    springs.rest, springs.stiffness, springs.damping = array([rest]), array([k]), array([c])
    springs.force = array([[0.0, 0.0, 0.0]], wp.vec3)
    wp.launch(
        predict_particles,
        2,
        [0, array([1, 1], int), weight, force, array([-gravity, gravity], wp.vec3), 1e3, dt, x, v, shift],
        device=device,
    )
    for sweep in range(60):
        inputs = [0, 0, springs, x, v, dt, int(sweep == 0), 1.0, shift]
        wp.launch(solve_springs, 1, inputs, device=device)
    wp.launch(finish_particles, 2, [0, weight, 1e3, dt, x, v, shift], device=device)
    end, speed = x.numpy().astype(np.float64), v.numpy().astype(np.float64)
    np.testing.assert_allclose(end, start + dt * speed, atol=1e-5)
    d = end[1] - end[0]
    n = d / np.linalg.norm(d)
    pull = (k * (np.linalg.norm(d) - rest) + c * n @ (speed[1] - speed[0])) * n
    gained = mass[:, None] * ((speed - before) / dt - gravity)
    np.testing.assert_allclose(gained, [pull, -pull], rtol=2e-3, atol=0.2)
    # what acts on one end acts on the other
    np.testing.assert_allclose(gained.sum(axis=0), 0.0, atol=1e-2)
