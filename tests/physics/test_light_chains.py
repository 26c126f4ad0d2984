"""Light links that bear heavy loads: chains of hinges and of tied free bodies swing as physics has it.

Where a step takes the tension of a chain from its start, links of 20 g are torn about by loads of some
kilograms at 1/240 s. The truths are the conservation of energy and of angular momentum, and the length.
"""

import math
import warnings

import numpy as np
import pytest
import warp as wp
from physics.light_chains import HALF, LINK, bolas, bridge, hanging
from physics.robots import load_robot
from physics.scenes import GRAVITY, Run, diagonal_inertia, z_up

import newtonsim
from newtonsim import dynamics
from newtonsim.diff import gradcheck
from newtonsim.kinematics import reference_state
from newtonsim.runtime.inertia_factors import ArticulatedInertia, EliminatedInertia, inertia_factors
from newtonsim.runtime.tree_inertias import tree_inertias
from newtonsim.solvers import FeatherstoneSolver
from newtonsim.solvers.geometric_stiffness import stiffened_bodies


def energies(run: Run, seconds: float, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Kinetic and potential energy from now on, every some steps [J]."""
    seen = []
    for _ in range(round(seconds / run.dt) // every + 1):
        kinetic = dynamics.kinetic_energy(run.model, run.state).numpy().sum()
        seen.append((kinetic, dynamics.potential_energy(run.model, run.state).numpy().sum()))
        run.step(every)
    kinetic, potential = np.array(seen, dtype=np.float64).T
    return kinetic, potential


@pytest.mark.parametrize("kind", ["hinged", "tied"])
@pytest.mark.parametrize(
    ("links", "load", "angle", "dt"),
    [
        (10, 10.0, 0.5, 1 / 240),
        (10, 100.0, 0.5, 1 / 240),
        (10, 30.0, 1.2, 1 / 240),
        (20, 20.0, 0.8, 1 / 240),
        (5, 10.0, 1.0, 1 / 60),
        (10, 100.0, 0.5, 1 / 1000),
    ],
)
def test_a_load_on_a_light_chain_swings_and_keeps_its_energy(device, kind, links, load, angle, dt):
    chain = hanging(kind, links, load, angle)
    run = Run(chain.builder.finalize(device), dt)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kinetic, potential = energies(run, 3.0, 5)
        run.solver.report()
    most = load * GRAVITY * chain.places[-1] * (1.0 - np.cos(angle))
    total = kinetic + potential
    # a step of h is exact to (h / period)²
    assert np.abs(total - total[0]).max() < (0.012 if dt < 0.01 else 0.1) * most
    assert kinetic.max() == pytest.approx(most, rel=0.05)
    length = np.linalg.norm(run.body_q[-1, :3])
    assert length == pytest.approx(chain.places[-1], abs=1e-3)


@pytest.mark.filterwarnings("ignore:.*left with a residual:RuntimeWarning")
@pytest.mark.parametrize(("links", "angle"), [(1, 0.0), (3, 1.2), (10, 0.3)])
@pytest.mark.parametrize("load", [200.0, 2000.0])
def test_a_chain_of_links_of_20_g_bears_tons(device, links, load, angle):
    """Single precision resolves the inverse mass of the load to a percent of that of a link."""
    chain = hanging("tied", links, load, angle)
    run = Run(chain.builder.finalize(device), 1.0 / 240.0)
    kinetic, potential = energies(run, 3.0, 5)
    total = kinetic + potential
    most = load * GRAVITY * chain.places[-1] * (1.0 - np.cos(max(angle, 0.1)))
    assert np.abs(total - total[0]).max() < 0.02 * most
    assert ends_of_links(run.body_q, run.body_qd)[0] < 1e-3
    assert run.solver.constraints.residual.numpy().max() < 0.01


@pytest.mark.parametrize(
    ("kind", "load", "most"),
    [("hinged", 1.0, 8.0), ("hinged", 4.0, 40.0), ("tied", 1.0, 2.5), ("tied", 4.0, 2.5)],
)
def test_a_chain_that_is_struck_stays_calm(device, kind, load, most):
    """Its links swing across the line of pull, and their tension with them, for thousands of steps.

    Where the inertia follows the tension, the chain gains some joules. The energy that is measured has the
    links' own inertia, so that it may double where a swing is as fast as a step.
    """
    chain = hanging(kind, 10, load, 0.0)
    run = Run(chain.builder.finalize(device), 1.0 / 240.0)
    qd = run.joint_qd
    if kind == "tied":
        # the joint between two links is pushed sideways at 0.5 m/s
        qd.reshape(-1, 6)[4:6, [1, 3]] = (-5.0, 0.25), (5.0, 0.25)
    else:
        qd[4:7] = -5.0, 10.0, -5.0
    run.start(joint_qd=qd)
    kinetic, potential = energies(run, 6.0, 10)
    total = kinetic + potential - potential[0]
    assert kinetic[0] > 1e-3
    assert total.max() < most * kinetic[0]
    assert np.abs(run.body_q[-1, :2]).max() < 0.01


@pytest.mark.parametrize("kind", ["hinged", "tied"])
@pytest.mark.parametrize(("load", "rate"), [(1.0, 5.0), (100.0, 5.0), (10.0, 12.0)])
def test_loads_that_whirl_on_a_light_chain_keep_their_motion(device, kind, load, rate):
    chain = bolas(kind, 10, load)
    run = Run(chain.builder.finalize(device), 1.0 / 240.0)
    centre = float(chain.places.mean())
    qd = run.joint_qd.reshape(-1, 6) if kind == "tied" else run.joint_qd
    if kind == "tied":
        qd[:, 2], qd[:, 4] = rate, rate * (chain.places - centre)
    else:
        qd[2], qd[4] = rate, rate * (chain.places[0] - centre)
    run.start(joint_qd=qd)
    kinetic, _ = energies(run, 2.0, 5)
    assert kinetic == pytest.approx(np.full(len(kinetic), kinetic[0]), rel=0.01)
    q = run.body_q
    assert np.linalg.norm(q[-1, :3] - q[0, :3]) == pytest.approx(chain.places[-1] - chain.places[0], abs=2e-3)


@pytest.mark.filterwarnings("ignore:.*left with a residual:RuntimeWarning")
@pytest.mark.parametrize("face", [-0.2, 0.0])
@pytest.mark.parametrize(("load", "dt"), [(100.0, 1 / 60), (200.0, 1 / 240), (2000.0, 1 / 240)])
def test_a_load_on_a_light_chain_gains_nothing_from_a_wall(device, face, load, dt):
    """The wall is part of the island then; impacts are inelastic, and the load comes to rest at the wall."""
    chain = hanging("tied", 10, load, 0.5)
    chain.builder.add_shape_sphere(10, radius=HALF)
    chain.builder.add_shape_box(-1, pos=(face - 0.5, 0.0, -1.2), hx=0.5, hy=1.0, hz=1.0)
    run = Run(chain.builder.finalize(device), dt)
    kinetic, potential = energies(run, 4.0, 5)
    total = kinetic + potential - potential[0]
    most = load * GRAVITY * chain.places[-1] * (1.0 - np.cos(0.5))
    assert total.max() < 0.02 * most
    assert ends_of_links(run.body_q, run.body_qd)[0] < 2e-3
    assert run.body_q[-1, 0] > face + HALF - 1e-3


def test_a_rope_that_swings_does_not_contradict_itself(device):
    """What keeps turning links on their circles is a load; as an error to remove, it would be too much."""
    run = Run(hanging("tied", 3, 0.05, 0.5).builder.finalize(device), 1.0 / 240.0)
    run.step(2)
    for _ in range(400):
        run.step(1)
        # pushes that are reduced are cleared
        assert run.solver.constraints.rows.pair.push.numpy().any()


def ends_of_links(body_q: np.ndarray, body_qd: np.ndarray) -> tuple[float, float]:
    """How far ends of links of a tied chain are apart [m], and how fast they part [m/s], at most."""
    turn = [wp.quat_to_matrix(wp.quatd(*map(float, q))) for q in body_q[:, 3:]]
    along = np.array([np.reshape(matrix, (3, 3))[:, 0] for matrix in turn])
    half = np.full((len(along), 1), 0.5 * LINK)
    half[-1] = HALF
    arm = half * along
    swing = np.cross(body_qd[:, :3], arm)
    gap = (body_q[1:, :3] - arm[1:]) - (body_q[:-1, :3] + arm[:-1])
    parting = (body_qd[1:, 3:] - swing[1:]) - (body_qd[:-1, 3:] + swing[:-1])
    return np.linalg.norm(gap, axis=1).max(), np.linalg.norm(parting, axis=1).max()


@pytest.mark.parametrize(("load", "least"), [(2e4, 0), (5e4, 4), (1e5, 4)])
def test_the_residual_tells_what_single_precision_cannot_hold(device, load, least):
    """Ten links of 20 g hardly bear 20 tons at a long step, and not 50: never in silence."""
    run = Run(hanging("tied", 10, load, 0.0).builder.finalize(device), 1.0 / 60.0)
    told = []
    for _ in range(120):
        # in the pose that the step sees
        start = run.body_q
        run.step(1)
        gap, parting = ends_of_links(start, run.body_qd)
        if gap > 0.5 * LINK:
            break  # rows do not act at both ends
        rows = run.solver.constraints
        # ends part as fast as errors of two axes are removed, at most
        parting -= 2.0 * np.abs(rows.rows.pair.target_lower.numpy()).max()
        if parting > 0.1:
            told.append(rows.residual.numpy()[0] / parting)
    assert len(told) >= least
    # the residual is that of one axis
    assert min(told, default=1.0) > 0.5


def beads(load: float, spacing: float = 0.1) -> newtonsim.ModelBuilder:
    """A rope of nine beads of 20 g and a load, half a radian from the vertical, held by distances alone."""
    builder, before = z_up(), -1
    along = spacing * np.array([np.sin(0.5), 0.0, -np.cos(0.5)])
    for i in range(1, 11):
        mass = load if i == 10 else 0.02
        inertia = diagonal_inertia(*[0.4 * mass * 0.02**2] * 3)
        bead = builder.add_body(origin=(tuple(i * along), (0.0, 0.0, 0.0, 1.0)), mass=mass, I_m=inertia)
        builder.add_constraint_distance(before, bead, max_distance=spacing)
        before = bead
    return builder


@pytest.mark.parametrize(
    ("load", "dt", "holds"),
    [(1.0, 1 / 60, False), (5.0, 1 / 240, True), (20.0, 1 / 240, False), (20.0, 1 / 1000, True)],
)
def test_beads_that_a_step_tears_about_are_named(device, load, dt, holds):
    """A distance turns by its force over the mass of its ends: stable up to f h² = m d between like beads."""
    run = Run(beads(load).finalize(device), dt)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kinetic, potential = energies(run, 2.0, 5)
        run.solver.report()
    most = load * GRAVITY * (1.0 - np.cos(0.5))
    kept = np.abs(kinetic + potential - kinetic[0] - potential[0]).max() < 0.02 * most
    assert kept == holds
    assert holds == (not any("through a distance constraint" in str(warning.message) for warning in told))


@pytest.mark.parametrize(
    ("beads", "load", "rate"),
    [(11, 100.0, 240), (21, 1.0, 60), (21, 100.0, 240), (41, 1.0, 240), (41, 100.0, 240)],
)
def test_loads_that_fall_on_both_ends_of_a_rope_over_a_peg_stay_calm(device, beads, load, rate):
    """The rope snaps taut, its ends strike one another, and its beads of 10 g whip about."""
    builder, space, radius = z_up(), 0.03, 0.012
    builder.add_shape_cylinder(-1, pos=(0.0, 0.0, -0.0625), radius=0.05, half_height=0.1, mu=0.0)
    for k in range(beads):
        mass = load if k in (0, beads - 1) else 0.01
        body = builder.add_body(origin=((space * (k - 0.5 * (beads - 1)), 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)))
        builder.add_shape_sphere(
            body, radius=radius, density=mass / (4.0 / 3.0 * math.pi * radius**3), mu=0.0
        )
        ends = [
            wp.transform(wp.vec3(side * 0.5 * space, 0.0, 0.0), wp.quat_identity()) for side in (1.0, -1.0)
        ]
        if k == 0:
            builder.add_joint_free(body)
        else:
            builder.add_joint_ball(body - 1, body, *ends, armature=0.0)
    kinetic, potential = energies(Run(builder.finalize(device), 1.0 / rate), 1.0, 1)
    total = kinetic + potential
    assert np.max(total - np.minimum.accumulate(total)) < 0.2 * max(kinetic.max(), np.ptp(potential))


@pytest.mark.parametrize(
    ("load", "rate", "lowest"),
    [(0.0, 60, 1.59), (0.0, 240, 1.59), (80.0, 60, 1.45), (80.0, 240, 1.5), (1000.0, 240, 1.4)],
)
def test_a_slack_bridge_of_light_planks_bears_what_falls_on_it(device, load, rate, lowest):
    """Its loop closes at the world, so that each plank bears what is ahead of it as well."""
    run = Run(bridge(24, 4.6, 0.4, load).finalize(device), 1.0 / rate)
    start = run.state.body_q.numpy()[:, 2].copy()
    run.run_for(4.0)
    assert run.state.body_q.numpy()[:, 2].min() > lowest
    assert np.abs(run.state.body_q.numpy()[[0, 23], 2] - start[[0, 23]]).max() < 0.05
    if load == 0.0:
        np.testing.assert_allclose(run.state.body_q.numpy()[:, 2], start, atol=2e-3)


def test_only_light_bodies_under_load_are_stiffened():
    chain = hanging("tied", 6, 10.0, 0.3)
    assert list(np.flatnonzero(stiffened_bodies(chain.builder.finalize("cpu")))) == [0, 1, 2, 3, 4, 5]
    builder = z_up()
    builder.replicate(load_robot("humanoid"), 3)
    assert FeatherstoneSolver(builder.finalize("cpu")).constraints.stiffness is None


@pytest.mark.parametrize("angle", [0.3, 0.5])
def test_ties_that_are_closed_after_the_solver_was_made_count_once_it_is_told(angle):
    chain = hanging("tied", 6, 20.0, angle)
    model = chain.builder.finalize("cpu")
    enabled = model.constraint_enabled.numpy().copy()
    model.constraint_enabled.zero_()
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)
    simulator.step()
    simulator.reset()
    assert simulator.solver.constraints.stiffness is None
    model.constraint_enabled.assign(enabled)
    simulator.solver.loads_changed()
    start = float(dynamics.potential_energy(model, simulator.state).numpy().sum())
    simulator.step(480)
    kinetic = float(dynamics.kinetic_energy(model, simulator.state).numpy().sum())
    potential = float(dynamics.potential_energy(model, simulator.state).numpy().sum())
    most = 20.0 * GRAVITY * chain.places[-1] * (1.0 - np.cos(angle))
    assert kinetic + potential == pytest.approx(start, abs=0.03 * most)
    assert np.linalg.norm(simulator.state.body_q.numpy()[-1, :3]) == pytest.approx(chain.places[-1], abs=2e-3)
    model.constraint_enabled.zero_()
    simulator.solver.loads_changed()
    assert not simulator.solver.constraints.stiffness.view.light.numpy().any()


@pytest.mark.parametrize("kind", ["hinged", "tied"])
def test_a_world_that_is_reset_starts_without_the_forces_of_its_past(device, kind):
    builder = z_up()
    builder.replicate(hanging(kind, 6, 20.0, 0.5).builder, 3)
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)
    simulator.step(50)
    at_fifty = simulator.state.joint_q.numpy().reshape(3, -1).copy()
    simulator.reset(world_mask=np.array([False, True, False]))
    simulator.step(50)
    again = simulator.state.joint_q.numpy().reshape(3, -1)
    assert (again[1] == at_fifty[1]).all()
    assert not (again[0] == again[1]).all()


@pytest.mark.parametrize(("kind", "tolerance"), [("hinged", 1e-3), ("tied", 1e-2)])
def test_gradients_are_those_of_the_stiffened_step(device, kind, tolerance):
    chain = hanging(kind, 4, 20.0, 0.5)
    model = chain.builder.finalize(device, requires_grad=True)
    solver = FeatherstoneSolver(model)
    assert solver.constraints.stiffness is not None

    def loss(state: newtonsim.State, out: wp.array) -> None:
        wp.launch(_height_and_speed, 1, [state.body_q, state.body_qd, 4], [out], device=device)

    found = gradcheck(
        model, solver, model.state(), 10, 1 / 240, loss, ["state.joint_qd"], tolerance=tolerance
    )
    assert found.verdict == "pass", str(found)


@wp.kernel
def _height_and_speed(
    q: wp.array(dtype=wp.transform), qd: wp.array(dtype=wp.spatial_vector), b: int, out: wp.array(dtype=float)
):
    p = wp.transform_get_translation(q[b])
    out[0] = p[0] * p[0] + p[2] + wp.spatial_bottom(qd[b])[0]


def test_tree_inertias_are_those_of_the_mass_matrix():
    model = load_robot("humanoid").finalize("cpu")
    found = tree_inertias(model, np.array([0]))
    M = dynamics.mass_matrix(model, reference_state(model)).numpy()[0].astype(np.float64)
    assert found.rigid == pytest.approx(np.diag(M), rel=1e-5)
    # what is left of a dof when the ones behind it yield; those of other branches do not matter
    left = [1.0 / np.linalg.inv(M[d:, d:])[0, 0] for d in range(len(M))]
    assert found.yielding == pytest.approx(left, rel=1e-4)


@pytest.mark.parametrize(("load", "room"), [(1.0, EliminatedInertia), (100.0, ArticulatedInertia)])
def test_uneven_loads_are_factorized_from_articulated_inertias(load, room):
    assert type(inertia_factors(hanging("hinged", 10, load, 0.0).builder.finalize("cpu"))) is room
