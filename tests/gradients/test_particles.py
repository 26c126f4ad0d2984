"""Gradients of XPBDSolver and VBDSolver for particles against central differences."""

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


def solver_of(name, model, sweeps=100, substeps=1):
    """A solver with enough sweeps for its step to converge to float precision in these scenes."""
    if name == "xpbd":
        return XPBDSolver(model, iterations=sweeps, soft_body_relaxation=1.0, substeps=substeps)
    return VBDSolver(model, iterations=sweeps, substeps=substeps)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
@pytest.mark.parametrize(
    ("build", "wrt"),
    [
        (lambda: scenes.rope(0.0), (*SPRINGS, *COMMON)),
        (lambda: scenes.rope(0.5), ("model.spring_damping",)),
        pytest.param(
            lambda: scenes.cloth(0.0), ("control.tri_activations", *CLOTH, *COMMON), marks=pytest.mark.slow
        ),
        pytest.param(
            lambda: scenes.cloth(0.5),
            ("model.edge_bending_properties", "model.edge_rest_length"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda: scenes.cloth(0.0, held=False, drag=1.0, lift=0.5),
            ("model.tri_materials",),
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda: scenes.beam(0.0), (*SOFT, *COMMON), marks=pytest.mark.slow),
        pytest.param(
            lambda: scenes.beam(0.01), ("model.tet_materials", "model.particle_mass"), marks=pytest.mark.slow
        ),
        pytest.param(lambda: scenes.beam(0.0, held=False), SOFT, marks=pytest.mark.slow),
    ],
    ids=["rope", "damped rope", "cloth", "damped cloth", "cloth in air", "beam", "damped beam", "free beam"],
)
def test_elements(device, name, build, wrt):
    """Slopes by states, forces, materials, rest shapes, activations, masses, gravity."""
    model = build().finalize(device, requires_grad=True)
    state = scenes.shaken(model, 0.005)
    report = diff.gradcheck(
        model, solver_of(name, model), state, 10, DT, scenes.weighted(model), (*STATE, *wrt)
    )
    assert report.error < 1e-3, str(report)


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_sliding_over_a_ball(device, name, mu):
    """Normals turn with the particle, friction opposes the slip; radius and friction have slopes, too."""
    model = scenes.grain((0.8, 0.1, -0.2)).finalize(device, requires_grad=True)
    model.soft_contact_mu = mu
    model.shape_materials.mu.fill_(mu)
    wrt = (*STATE, "model.particle_radius", *(("model.shape_materials.mu",) if mu > 0.0 else ()))
    solver = solver_of(name, model)
    report = diff.gradcheck(model, solver, model.state(), 20, DT, scenes.weighted(model), wrt)
    assert report.error < 1e-3, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["xpbd", "vbd"])
def test_soft_body_lands_and_slides(device, name):
    """Hard contacts of XPBD, springs of VBD; the momentum of the free piece."""
    model = scenes.landing().finalize(device, requires_grad=True)
    wrt = (*STATE, "model.tet_materials", "model.particle_mass")
    solver = solver_of(name, model)
    report = diff.gradcheck(model, solver, model.state(), 20, DT, scenes.weighted(model), wrt)
    assert report.error < 5e-3, str(report)
    for key in STATE:
        assert report[key].error < 5e-3, str(report)


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


@pytest.mark.parametrize("name", ["xpbd", "vbd"])
def test_substeps(device, name):
    """Substeps of the damped beam, which lands on the ground in the last ones."""
    model = scenes.landing().finalize(device, requires_grad=True)
    solver = solver_of(name, model, 60, substeps=3)
    report = diff.gradcheck(model, solver, model.state(), 4, 0.02, scenes.weighted(model), STATE, samples=6)
    assert report.error < 5e-3, str(report)
