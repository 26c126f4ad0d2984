"""Gradients of XPBDSolver and VBDSolver for particles against central differences."""

import warnings

import numpy as np
import particle_scenes as scenes
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.errors import NotDifferentiableError
from newtonsim.solvers import VBDSolver, XPBDSolver

DT = 1.0 / 120.0
STATE = ("state.particle_q", "state.particle_qd", "state.particle_f")
COMMON = ("model.particle_mass", "model.gravity_vec")
SPRINGS = tuple(f"model.spring_{name}" for name in ("stiffness", "rest_length", "control"))
CLOTH = ("tri_materials", "tri_poses", "tri_areas", "edge_rest_angle")
CLOTH = tuple(f"model.{name}" for name in CLOTH)
SOFT = ("model.tet_materials", "model.tet_poses", "control.tet_activations")


def solver_of(name, model, sweeps=40, substeps=1):
    """A solver with enough sweeps for its step to converge to float precision in these scenes."""
    if name.startswith("xpbd"):
        stops = name == "xpbd that stops"
        return XPBDSolver(
            model, sweeps, soft_body_relaxation=1.0, substeps=substeps, enable_restitution=stops
        )
    return VBDSolver(model, iterations=sweeps, substeps=substeps)


def check(model, name, state, steps, wrt, dt=DT, **options):
    """Compare some entries of each array, and the slopes along the gradients, with differences."""
    given = (solver_of(name, model, **options), state, steps, dt, scenes.weighted(model), wrt)
    return diff.gradcheck(model, *given, samples=5, tolerance=1e-3)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
@pytest.mark.parametrize(
    ("build", "wrt"),
    [
        (lambda: scenes.rope(0.0), (*SPRINGS, *COMMON)),
        (lambda: scenes.rope(0.5), ("model.spring_damping",)),
        (lambda: scenes.cloth(0.0), ("control.tri_activations", *CLOTH, *COMMON)),
        (
            lambda: scenes.cloth(0.5, bending=0.02),
            ("model.edge_bending_properties", "model.edge_rest_length"),
        ),
        (lambda: scenes.cloth(0.0, held=False, drag=1.0, lift=0.5), ("model.tri_materials",)),
        (lambda: scenes.beam(0.0), (*SOFT, *COMMON)),
        (lambda: scenes.beam(0.01), ("model.tet_materials", "model.particle_mass")),
        (lambda: scenes.beam(0.0, held=False), SOFT),
    ],
    ids=["rope", "damped rope", "cloth", "damped cloth", "cloth in air", "beam", "damped beam", "free beam"],
)
def test_elements(device, name, build, wrt):
    """Slopes with respect to states, forces, materials, rest shapes, activations, masses and gravity.

    Of parts without damping and with some.
    """
    model = build().finalize(device, requires_grad=True)
    report = check(model, name, scenes.shaken(model, 0.005), 10, (*STATE, *wrt))
    assert report.error < 1e-3, str(report)
    slopes = [part.direction_error for part in report.values()]
    assert np.nanmax(slopes) < 3e-3, str(report)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
@pytest.mark.parametrize(
    ("build", "array", "place", "little"),
    [
        (scenes.rope, "spring_damping", slice(None), 1e-4),
        (scenes.cloth, "tri_materials", slice(2, None, 5), 1e-4),
        (scenes.cloth, "edge_bending_properties", slice(1, None, 2), 1e-8),
        (scenes.beam, "tet_materials", slice(2, None, 3), 1e-6),
    ],
    ids=["springs", "triangles", "edges", "tetrahedra"],
)
def test_slope_by_damping_is_there_without_damping(device, name, build, array, place, little):
    """It is that at a little damping, where `test_elements` compares it with differences."""
    gradients = []
    for damping in (0.0, little):
        model = build().finalize(device, requires_grad=True)
        values = getattr(model, array).numpy().copy()
        values.reshape(-1)[place] = damping
        getattr(model, array).assign(values)
        given = (solver_of(name, model), 10, DT, scenes.weighted(model))
        rollout = diff.Rollout(model, *given, wrt=(f"model.{array}",))
        gradient = rollout(scenes.shaken(model, 0.005)).gradients[f"model.{array}"]
        gradients.append(gradient.numpy().reshape(-1)[place])
    assert np.linalg.norm(gradients[1]) > 1e-4
    np.testing.assert_allclose(*gradients, rtol=0.02, atol=0.02 * np.abs(gradients[1]).max())


@pytest.mark.parametrize("name", ["xpbd", "xpbd that stops", "vbd"])
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_sliding_over_a_ball(device, name, mu):
    """Normals turn with the particle, friction opposes the slip; radius and friction have slopes, too."""
    model = scenes.grain((0.8, 0.1, -0.2)).finalize(device, requires_grad=True)
    model.soft_contact_mu = mu
    model.shape_materials.mu.fill_(mu)
    wrt = (*STATE, "model.particle_radius", *(("model.shape_materials.mu",) if mu > 0.0 else ()))
    report = check(model, name, model.state(), 20, wrt)
    assert report.error < 1e-3, str(report)


@pytest.mark.parametrize("name", ["xpbd", "xpbd that stops", "vbd"])
def test_soft_body_lands_and_slides(device, name):
    """Hard contacts of XPBD, springs of VBD; the momentum of the free piece."""
    model = scenes.landing().finalize(device, requires_grad=True)
    report = check(model, name, model.state(), 20, (*STATE, "model.shape_materials.mu"))
    assert report.error < 5e-3, str(report)
    for key in STATE:
        assert np.nanmax([report[key].error, report[key].direction_error]) < 5e-3, str(report)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
def test_worlds_have_gradients_of_their_own(device, name):
    """Two ropes have the gradients of one each, and NaN in one of them stays there; forward is the same."""
    one, two = newtonsim.ModelBuilder(up_vector=scenes.UP), newtonsim.ModelBuilder(up_vector=scenes.UP)
    one.replicate(scenes.rope(), 1)
    two.replicate(scenes.rope(), 2)
    gradients = []
    for builder, broken in ((one, False), (two, False), (two, True)):
        model = builder.finalize(device, requires_grad=True)
        states = [model.state(requires_grad=True) for _ in range(2)]
        solver, plain = solver_of(name, model, 20), solver_of(name, model, 20)
        if broken:
            states[0].particle_qd.numpy()[:6] = np.nan
        with wp.Tape() as tape:
            solver.step(model, *states, None, None, DT)
        states[1].particle_q.grad.fill_(1.0)
        tape.backward()
        gradients.append(states[0].particle_q.grad.numpy()[-6:])
        twin = model.state()
        plain.step(model, states[0], twin, None, None, DT)
        np.testing.assert_array_equal(twin.particle_q.numpy(), states[1].particle_q.numpy())
    assert np.isfinite(gradients[0]).all()
    assert np.abs(gradients[0]).max() > 0.1
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(gradients[2], gradients[1])


def test_what_has_no_gradient_is_refused(device):
    """Particles that press on each other: NaN, and a reason."""
    builder = newtonsim.ModelBuilder(up_vector=scenes.UP, gravity=0.0)
    builder.add_particle((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), 1.0, radius=0.1)
    builder.add_particle((0.19, 0.0, 0.0), (-1.0, 0.0, 0.0), 1.0, radius=0.1)
    model = builder.finalize(device, requires_grad=True)
    solver = XPBDSolver(model)
    states = [model.state(requires_grad=True) for _ in range(2)]
    with wp.Tape() as tape:
        solver.step(model, *states, None, None, DT)
    states[1].particle_q.grad.fill_(1.0)
    tape.backward()
    assert np.isnan(states[0].particle_q.grad.numpy()).all()
    with pytest.raises(NotDifferentiableError, match=r"touch each other.*worlds \[0\]"):
        solver.check_gradient()
    solver.check_gradient()


def test_anchors_are_refused(device):
    """The adjoint would not see them."""
    model = scenes.rope().finalize(device, requires_grad=True)
    solver, states = XPBDSolver(model), [model.state() for _ in range(2)]
    solver.particles.set_anchors(np.array([5]), np.array([-1]), np.zeros((1, 3)))
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="anchors"):
        solver.step(model, *states, None, None, DT)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
def test_substeps(device, name):
    """Substeps of the damped beam, which lands on the ground in the last ones."""
    model = scenes.landing().finalize(device, requires_grad=True)
    report = check(model, name, model.state(), 4, STATE, dt=0.02, sweeps=30, substeps=3)
    assert report.error < 5e-3, str(report)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
@pytest.mark.parametrize("build", [scenes.cloth, scenes.beam, scenes.landing])
def test_sweeps_that_stop_early_are_told(device, name, build):
    """What two sweeps leave of forces is a part of them, and a warning; after 40 there is none."""
    model = build().finalize(device, requires_grad=True)
    state, loss = scenes.shaken(model, 0.005), scenes.weighted(model)
    with pytest.warns(RuntimeWarning, match=r"2 iterations left \d+% of the forces on particles without"):
        diff.rollout(model, solver_of(name, model, 2), state, None, 4, DT, loss, STATE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diff.rollout(model, solver_of(name, model), state, None, 4, DT, loss, STATE)
