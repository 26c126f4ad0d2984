"""Linkages gain no energy: neither by impacts with friction, nor by turning far within a step."""

import itertools

import numpy as np
import pytest
import warp as wp
from physics.linkages import random_turn, spinning_chain, striking_rods
from physics.scenes import Run, diagonal_inertia, z_up

from newtonsim import dynamics
from newtonsim.errors import NewtonsimError, NotDifferentiableError
from newtonsim.runtime.inertia_factors import ArticulatedInertia
from newtonsim.solvers import FeatherstoneSolver


def energy(run: Run) -> float:
    """Kinetic and potential energy [J]."""
    kinetic = dynamics.kinetic_energy(run.model, run.state).numpy().sum()
    return float(kinetic + dynamics.potential_energy(run.model, run.state).numpy().sum())


def struck(device: str, restitution: float, friction: float) -> Run:
    model = striking_rods(restitution, friction).finalize(device)
    return Run(model, 1.0e-3).start(model.joint_q.numpy(), model.joint_qd.numpy())


@pytest.mark.parametrize("friction", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("restitution", [0.3, 0.5, 0.8, 1.0])
def test_impacts_of_linkages_add_no_energy(device: str, restitution: float, friction: float):
    run = struck(device, restitution, friction)
    before, seen = energy(run), []
    for _ in range(20):
        run.run_for(run.dt)
        seen.append(energy(run))
    assert max(seen) < 1.015 * before
    assert run.state.joint_qd.numpy()[1] < 0.0, "the rods have not struck the ground"


def test_impacts_without_friction_keep_the_energy(device: str):
    run = struck(device, 1.0, 0.0)
    before = energy(run)
    run.run_for(20 * run.dt)
    assert energy(run) == pytest.approx(before, rel=2.0e-3)
    assert run.state.joint_qd.numpy()[1] < 0.0, "the rods have not rebounded"


def falling_linkages(seed: int, device: str):
    """Three linkages of up to five links, of very different sizes, above a ground; some parts are elastic."""
    rng = np.random.default_rng(seed)
    builder = z_up()
    builder.set_ground_plane(mu=float(rng.uniform(0.2, 1.0)))
    for k in range(3):
        size, bodies = 10.0 ** rng.uniform(-1.7, 0.2), []
        for _ in range(int(rng.integers(2, 6))):
            place = wp.transform(wp.vec3(0.3 * k, 0.0, 3.0 + 6.0 * k), random_turn(rng))
            bodies.append(builder.add_body(origin=place))
            a, b, c = (size * rng.uniform(0.2, 0.7, 3)).tolist()
            look = dict(pos=wp.vec3(*rng.uniform(-0.3 * size, 0.3 * size, 3)), density=rng.uniform(200, 4000))
            look |= dict(mu=rng.uniform(0.0, 1.2), restitution=float(rng.choice([0.0, 0.3, 0.8])))
            if rng.random() < 0.4:
                builder.add_shape_sphere(bodies[-1], radius=a, **look)
            elif rng.random() < 0.5:
                builder.add_shape_box(bodies[-1], rot=random_turn(rng), hx=a, hy=b, hz=c, **look)
            else:
                builder.add_shape_capsule(bodies[-1], radius=a, half_height=b, **look)
        for n, child in enumerate(bodies[1:]):
            parent = bodies[int(rng.integers(0, n + 1))]
            anchors = [
                wp.transform(wp.vec3(*rng.uniform(-size, size, 3)), random_turn(rng)) for _ in range(2)
            ]
            if rng.random() < 0.5:
                builder.add_joint_ball(parent, child, *anchors)
            else:
                builder.add_joint_revolute(
                    parent, child, *anchors, axis=wp.vec3(0.0, 0.0, 1.0), limit_lower=-1.0, limit_upper=1.0
                )
    return builder.finalize(device)


@pytest.mark.filterwarnings("ignore::newtonsim.errors.OverlapWarning")
@pytest.mark.parametrize("rate", [60, 240])
@pytest.mark.parametrize("seed", range(6))
def test_linkages_that_fall_stay_finite_and_gain_nothing(device: str, seed: int, rate: int):
    run = Run(falling_linkages(seed, device), 1.0 / rate)
    most = energy(run)
    for _ in range(10):
        run.run_for(0.25)
        assert np.isfinite(run.state.body_q.numpy()).all()
        assert energy(run) < 1.01 * most


@pytest.mark.parametrize(
    ("dt", "rate"),
    [
        (1 / 60, 30),
        (1 / 60, 100),
        (1 / 60, 300),
        (1 / 240, 300),
        (1 / 60, 1e3),
        (1 / 60, 1e4),
        (1 / 240, 1e5),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_links_that_turn_far_in_a_step_gain_no_energy(device: str, seed: int, dt: float, rate: float):
    """By the step's velocity-dependent forces alone, the energy becomes infinite in a few steps.

    Nor do they stop, though from a radian a step on these forces say nothing.
    """
    model = spinning_chain(rate, seed).finalize(device)
    run = Run(model, dt).start(joint_qd=model.joint_qd.numpy())
    before = energy(run)
    for k in range(20):
        run.run_for(0.1)
        assert energy(run) < 1.1 * before
        if k == 0:
            assert energy(run) > 0.01 * before


@pytest.mark.parametrize("rate", [60, 240])
def test_balanced_rotors_that_turn_many_times_in_a_step_keep_their_spin(device: str, rate: int):
    """Nothing that they do depends on their angle: four rotors on a body that tumbles, without any torque."""
    builder = z_up(gravity=0.0)
    base = builder.add_body(mass=1.0, I_m=diagonal_inertia(0.01, 0.01, 0.02))
    builder.add_joint_free(base)
    for x, y in ((0.2, 0.0), (0.0, 0.2), (-0.2, 0.0), (0.0, -0.2)):
        rotor = builder.add_body(mass=0.01, I_m=diagonal_inertia(6.0e-6, 6.0e-6, 1.2e-5))
        place = wp.transform(wp.vec3(x, y, 0.05), wp.quat_identity())
        endless = {"limit_lower": -1.0e9, "limit_upper": 1.0e9, "armature": 0.0}
        builder.add_joint_revolute(base, rotor, place, axis=wp.vec3(0.0, 0.0, 1.0), **endless)
    spins = [2000.0, -2000.0, 2000.0, -1500.0]
    builder.joint_qd = [2.0, 1.0, 3.0, 0.0, 0.0, 0.0, *spins]
    builder.joint_damping = [0.0] * 10
    model = builder.finalize(device)
    run = Run(model, 1.0 / rate).start(joint_qd=model.joint_qd.numpy())
    before = energy(run)
    run.run_for(2.0)
    np.testing.assert_allclose(run.state.joint_qd.numpy()[6:], spins, rtol=1.0e-2)
    assert energy(run) == pytest.approx(before, rel=1.0e-3)


def test_a_step_that_slows_links_down_has_no_gradient(device: str):
    """Its end is not what the equations of the step say."""
    model = spinning_chain(100.0, 0).finalize(device, requires_grad=True)
    states = [model.state() for _ in range(9)]
    solver, tape = FeatherstoneSolver(model), wp.Tape()
    with tape:
        for before, after in itertools.pairwise(states):
            solver.step(model, before, after, None, None, 1.0 / 60.0)
    states[-1].joint_qd.grad.fill_(1.0)
    with pytest.raises(NotDifferentiableError, match="links that turned far in the step were slowed down"):
        tape.backward()


@pytest.mark.parametrize("others", [{"coriolis": "start"}, {"speed_limit": 10.0}])
def test_what_the_limit_does_not_go_with_is_refused(device: str, others: dict):
    with pytest.raises(NewtonsimError, match="energy_limit: not with"):
        FeatherstoneSolver(spinning_chain(1.0, 0).finalize(device), energy_limit=True, **others)


@pytest.mark.parametrize("rate", [10.0, 30.0])
@pytest.mark.parametrize("floats", [False, True])
def test_long_chains_that_turn_far_in_a_step_gain_no_energy(device: str, floats: bool, rate: float):
    """Chains whose inertia is factorized body by body."""
    rng, builder, parent = np.random.default_rng(0), z_up(gravity=0.0), -1
    for k in range(40):
        body = builder.add_body(mass=1.0, I_m=diagonal_inertia(0.01, 0.02, 0.02))
        ends = [wp.transform(wp.vec3(side * 0.1, 0.0, 0.0), wp.quat_identity()) for side in (1.0, -1.0)]
        if k == 0 and floats:
            builder.add_joint_free(body)
        else:
            builder.add_joint_ball(parent, body, *ends, armature=0.0)
        parent = body
    model = builder.finalize(device)
    run = Run(model, 1.0 / 60.0)
    assert isinstance(run.solver.smooth.factors, ArticulatedInertia)
    run.start(joint_qd=rate * rng.normal(size=model.joint_dof_count))
    most = energy(run)
    for _ in range(20):
        run.run_for(0.1)
        assert energy(run) < 1.1 * most


def test_floating_linkages_with_armature_are_without_the_limit(device: str):
    """Its energy is that of the origin of the body, which the limit does not know."""
    builder, parent = z_up(), -1
    for _ in range(2):
        body = builder.add_body(mass=1.0, com=(0.1, 0.0, 0.0), I_m=diagonal_inertia(0.1, 0.1, 0.1))
        if parent < 0:
            builder.add_joint_free(body)
        else:
            builder.add_joint_revolute(parent, body, axis=wp.vec3(0.0, 1.0, 0.0))
        parent = body
    assert FeatherstoneSolver(builder.finalize(device)).smooth.limits_energy
    builder.joint_armature[:6] = [0.1] * 6
    model = builder.finalize(device)
    assert not FeatherstoneSolver(model).smooth.limits_energy
    with pytest.raises(NewtonsimError, match="energy_limit: not with armature or damping of floating joints"):
        FeatherstoneSolver(model, energy_limit=True)
