"""Identification: a mass against closed-form least squares, friction by Coulomb's law, a drive's gain."""

import math

import numpy as np
import pytest
import small_problems as small

import newtonsim
from newtonsim import optimize
from newtonsim.errors import NewtonsimError, NotDifferentiableError

HORIZON, DEVIATION = 20, 2e-3


def test_a_mass_and_its_error_are_those_of_least_squares(device):
    """Places are linear in 1 / m, so that SciPy is not needed to tell what the noise makes of it."""
    rng = np.random.default_rng(1)
    forces = 5.0 * np.cos(np.arange(HORIZON))[:, None]
    clean = optimize.Problem(small.cart(2.0), [optimize.ControlCost(1.0)], HORIZON, small.H, device=device)
    log = clean.follow(forces).joint_q[1:] + DEVIATION * rng.standard_normal((HORIZON, 1))
    problem = optimize.Problem(
        small.cart(5.0), [optimize.LogCost(log, DEVIATION)], HORIZON, small.H, device=device
    )
    identification = optimize.Identification(problem, [optimize.Parameter("body_mass", "cart")], forces)
    found = identification.solve()
    A, B = small.cart_matrices(1.0)
    x, moved = np.zeros(2), []
    for force in forces:
        x = A @ x + B @ force
        moved.append(x[0])
    moved = np.array(moved)
    inverse = moved @ (log[:, 0] - 1.0) / (moved @ moved)
    assert found.status == "converged"
    assert found.values["body_mass of cart"] == pytest.approx(1.0 / inverse, rel=2e-4)
    error = DEVIATION / math.sqrt(moved @ moved) / inverse**2
    assert found.errors["body_mass of cart"] == pytest.approx(error, rel=0.02)
    assert found.cost == pytest.approx(
        0.5 * np.sum((log[:, 0] - 1.0 - moved * inverse) ** 2) / DEVIATION**2, 1e-2
    )
    assert identification.model.body_mass.numpy()[0] == pytest.approx(1.0 / inverse, rel=2e-4)
    assert identification.model.body_inv_mass.numpy()[0] == pytest.approx(inverse, rel=2e-4)


def test_friction_of_a_box_that_slides(device):
    """The log is Coulomb's law, x = v t - μ g t² / 2, rather than a motion of our own."""
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=-10.0)
    scene.add_articulation()
    rail = scene.add_body(mass=1.0, I_m=np.eye(3))
    scene.add_joint_revolute(-1, rail, axis=(0, 1, 0), key="other")
    box = scene.add_body((0, 2, 0.05, 0, 0, 0, 1), key="box")
    scene.add_shape_box(box, hx=0.2, hy=0.2, hz=0.05, density=100.0, mu=0.8, key="base")
    scene.set_ground_plane(mu=0.1)
    dt, horizon = 0.002, 40
    t = 0.01 * np.arange(1, horizon + 1)
    log = np.zeros((horizon, 8))
    log[:, 1], log[:, 2], log[:, 3], log[:, 7] = 2.0 * t - 0.5 * 3.0 * t**2, 2.0, 0.05, 1.0
    misfit = optimize.LogCost(log, [*[math.inf] * 4, 1e-3, *[math.inf] * 2])
    problem = optimize.Problem(scene, [misfit], horizon, dt, hold=5, device=device)
    start = (problem.model.joint_q.numpy(), [0, 0, 0, 0, 2.0, 0, 0])
    parameter = optimize.Parameter("shape_materials.mu", "base")
    found = optimize.Identification(problem, [parameter]).solve(start)
    # a pair has the mean of both
    assert 0.5 * (found.values[parameter.name] + 0.1) == pytest.approx(0.3, rel=0.01)


def test_a_gain_and_a_damping_of_a_drive(device):
    """The step response of a cart with drive in closed form: a damped oscillator."""
    mass, ke, kd, dt, horizon = 2.0, 50.0, 4.0, 0.002, 50
    robot = small.cart(mass)
    robot.joint_axis_mode[:] = [newtonsim.JOINT_MODE_TARGET_POSITION]
    robot.joint_target_ke[:], robot.joint_target_kd[:], robot.joint_act[:] = [20.0], [10.0], [0.0]
    rate, t = kd / (2.0 * mass), 10 * dt * np.arange(1, horizon + 1)
    omega = math.sqrt(ke / mass - rate**2)
    log = np.exp(-rate * t) * (np.cos(omega * t) + rate / omega * np.sin(omega * t))
    misfit = optimize.LogCost(log[:, None], 1e-3)
    options = {"hold": 10, "inputs": "joint_act", "device": device}
    problem = optimize.Problem(robot, [misfit], horizon, dt, **options)
    parameters = [optimize.Parameter("joint_target_ke", "rail"), optimize.Parameter("joint_target_kd", 0)]
    found = optimize.Identification(problem, parameters).solve()
    # implicit steps damp by h ke more than the drive does
    stiffness, damping = found.values.values()
    assert stiffness == pytest.approx(ke, rel=0.01)
    assert damping + dt * ke == pytest.approx(kd, rel=0.01)
    assert "joint_target_ke of rail: " in str(found)


def test_what_a_log_does_not_tell_has_no_error_bound(device):
    """The cart does not move: its mass may be anything."""
    misfit = optimize.LogCost(np.ones((3, 1)), 1e-3)
    problem = optimize.Problem(small.cart(), [misfit], 3, small.H, device=device)
    found = optimize.Identification(problem, [optimize.Parameter("body_mass")]).solve()
    assert found.status == "stalled"
    assert math.isnan(found.errors["body_mass"])
    assert found.values["body_mass"] == pytest.approx(2.0)


def test_iterations_are_counted_and_the_best_is_kept(device):
    log = 1.0 - 0.1 * np.linspace(0.0, 1.0, HORIZON)[:, None] ** 2
    problem = optimize.Problem(small.cart(), [optimize.LogCost(log, 1e-3)], HORIZON, small.H, device=device)
    identification = optimize.Identification(problem, [optimize.Parameter("body_mass")], [-1.0])
    found = identification.solve(iterations=1, refinements=1)
    assert found.history == sorted(found.history, reverse=True)
    assert found.cost == found.history[-1]
    assert found.iterations <= 3


def sliding_cart(mass: float, friction: float) -> newtonsim.ModelBuilder:
    """A cart on a rail with dry friction, at rest."""
    robot = small.cart(mass)
    robot.joint_q[:], robot.joint_friction[:] = [0.0], [friction]
    return robot


STEP, SLIDES, NOISE = 0.02, 60, 1e-3
PHASE = 0.3 * np.arange(SLIDES)[:, None]
ONE_WAY = 5.0 + 3.0 * np.sin(PHASE)
"""A push under which the cart never turns."""


def slide(forces: np.ndarray, mass: float, friction: float) -> np.ndarray:
    """Places of a cart that never turns, by semi-implicit steps of a = (F - f) / m."""
    return np.cumsum(np.cumsum((forces - friction) / mass * STEP, axis=0) * STEP, axis=0)


def identify_slide(device: str, forces: np.ndarray, log: np.ndarray, **options) -> optimize.Identified:
    """Mass and friction from a noisy log, starting from half the mass and a third of the friction."""
    misfit = optimize.LogCost(log, NOISE)
    problem = optimize.Problem(sliding_cart(1.0, 0.5), [misfit], SLIDES, STEP, device=device)
    parameters = [optimize.Parameter("body_mass", "cart"), optimize.Parameter("joint_friction", "rail")]
    return optimize.Identification(problem, parameters, forces).solve(**options)


@pytest.mark.parametrize("seed", range(3))
def test_what_noise_leaves_has_a_chi_square_of_one(device, seed: int):
    noise = NOISE * np.random.default_rng(seed).standard_normal((SLIDES, 1))
    found = identify_slide(device, ONE_WAY, slide(ONE_WAY, 2.0, 1.5) + noise, refinements=100)
    assert found.status == "converged"
    assert found.measurements == SLIDES
    assert abs(found.reduced_chi_square - 1.0) < 3.0 * math.sqrt(2.0 / (SLIDES - 2))
    for value, error, true in zip(found.values.values(), found.errors.values(), (2.0, 1.5), strict=True):
        assert abs(value - true) < 3.0 * error < 0.1
    assert "noise alone leaves 1 ± 0.19" in str(found)
    assert "local minimum" not in str(found)


def test_what_noise_does_not_explain_is_told(device):
    """Three times the noise that was stated leaves nine times the misfit."""
    noise = 3.0 * NOISE * np.random.default_rng(0).standard_normal((SLIDES, 1))
    found = identify_slide(device, ONE_WAY, slide(ONE_WAY, 2.0, 1.5) + noise, refinements=100)
    assert abs(found.reduced_chi_square / 9.0 - 1.0) < 3.0 * math.sqrt(2.0 / (SLIDES - 2))
    assert "a local minimum, or the model or the deviations are wrong" in str(found)


def test_a_search_that_still_descends_has_not_converged(device):
    """A wide tolerance ends L-BFGS-B early, and leaves the way to Gauss-Newton iterations."""
    log = slide(ONE_WAY, 2.0, 1.5)
    short = identify_slide(device, ONE_WAY, log, tolerance=0.5, refinements=1)
    assert short.status == "iterations"
    long = identify_slide(device, ONE_WAY, log, tolerance=0.5, refinements=100)
    assert long.status == "converged"
    assert list(long.values.values()) == pytest.approx([2.0, 1.5], rel=0.01)
    assert long.cost < 0.5 * short.cost


def test_other_costs_have_no_chi_square(device):
    log = optimize.LogCost(np.ones((3, 1)), 1e-3)
    problem = optimize.Problem(small.cart(), [log, optimize.JointCost(1.0)], 3, small.H, device=device)
    found = optimize.Identification(problem, [optimize.Parameter("body_mass")]).solve()
    assert math.isnan(found.reduced_chi_square)
    assert "chi-square" not in str(found)


def test_parameters_serve_several_identifications(device):
    """Each begins where its own robot is, within bounds about that, and finds its own joints."""
    misfit = optimize.LogCost(np.ones((3, 1)), 1e-3)
    parameters = [optimize.Parameter("body_mass", "cart")]
    for mass in (5.0, 0.04):
        problem = optimize.Problem(small.cart(mass), [misfit], 3, small.H, device=device)
        identification = optimize.Identification(problem, parameters)
        (own,) = identification.parameters
        assert (own.guess, own.low, own.high) == pytest.approx((mass, mass / 100.0, mass * 100.0))
        # the log says nothing of the mass
        assert identification.solve().values["body_mass of cart"] == pytest.approx(mass)
        assert parameters[0].guess is None


def test_wrong_arguments_are_told():
    problem = optimize.Problem(small.cart(), [optimize.LogCost([[1.0], [1.0]], 1.0)], 2, small.H)
    mass = optimize.Parameter("body_mass")
    with pytest.raises(NewtonsimError, match=r"wrt: there is no array 'model\.body_mas'"):
        optimize.Parameter("body_mas")
    with pytest.raises(NotDifferentiableError, match=r"model\.joint_type has no gradient"):
        optimize.Parameter("joint_type")
    with pytest.raises(NewtonsimError, match="body_mass of crat: there is no 'crat'; did you mean 'cart'"):
        optimize.Identification(problem, [optimize.Parameter("body_mass", "crat")])
    with pytest.raises(NewtonsimError, match="body_mass of 3: 3 has none of the 1 entries"):
        optimize.Identification(problem, [optimize.Parameter("body_mass", 3)])
    with pytest.raises(NewtonsimError, match="joint_armature: give bounds, the guess 0 is not positive"):
        optimize.Identification(problem, [optimize.Parameter("joint_armature")])
    with pytest.raises(NewtonsimError, match="body_inertia: expected an array of single numbers"):
        optimize.Identification(problem, [optimize.Parameter("body_inertia")])
    with pytest.raises(NewtonsimError, match="body_mass: the guess 9 is not within 1 and 5"):
        optimize.Identification(problem, [optimize.Parameter("body_mass", guess=9.0, bounds=(1, 5))])
    with pytest.raises(NewtonsimError, match="low 5 is not below high 1"):
        optimize.Parameter("body_mass", bounds=(5, 1))
    with pytest.raises(NewtonsimError, match=r"parameters: expected a list of at least one, got \[\]"):
        optimize.Identification(problem, [])
    with pytest.raises(NewtonsimError, match="parameters: one is listed twice"):
        optimize.Identification(problem, [mass, optimize.Parameter("body_mass")])
    with pytest.raises(NewtonsimError, match=r"controls: expected shape \(2, 1\) or \(1,\), got \(3, 1\)"):
        optimize.Identification(problem, [mass], np.zeros((3, 1)))
    with pytest.raises(NewtonsimError, match="deviation: expected positive numbers, got 0"):
        optimize.LogCost([[1.0]], 0.0)
