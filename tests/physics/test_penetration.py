"""Penetrations are removed, and leave no energy behind."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run

from newtonsim import ModelBuilder, Simulator
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0
KINDS = {"sphere": {"radius": 0.1}, "box": {"hx": 0.1, "hy": 0.1, "hz": 0.1}}
KINDS["capsule"] = {"radius": 0.1, "half_height": 0.1}


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_overlapping_bodies_part_and_stand_still(device: str, first: str, second: str):
    """Two bodies 3 cm in each other, without gravity: they part up to the slop, and then they rest."""
    builder = ModelBuilder(gravity=0.0)
    for x, kind in ((0.0, first), (0.17, second)):
        body = builder.add_body(origin=wp.transform((x, 0.0, 0.0), wp.quat_identity()))
        getattr(builder, f"add_shape_{kind}")(body, **KINDS[kind])
    run = Run(builder.finalize(device), DT)
    masses = run.model.body_mass.numpy()
    centre = masses @ run.body_q[:, :3] / masses.sum()
    fastest = 0.0
    for _ in range(120):
        run.step()
        fastest = max(fastest, float(np.abs(run.body_qd).max()))
    gap = run.body_q[1, 0] - run.body_q[0, 0] - 0.2
    assert -1.2e-4 < gap < 1e-4
    assert fastest < 1e-3, "it moved without a velocity"
    np.testing.assert_allclose(masses @ run.body_q[:, :3] / masses.sum(), centre, atol=1e-5)


def test_a_wedged_ball_stays_calm(device: str):
    """A ball in a gap narrower than itself between two fixed boxes can go nowhere, and does not."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_shape_sphere(builder.add_body(), radius=0.1, mu=1.0)
    for x in (-0.29, 0.29):
        builder.add_shape_box(-1, pos=(x, 0.0, 0.0), hx=0.2, hy=1.0, hz=1.0, mu=1.0)
    run = Run(builder.finalize(device), DT)
    run.run_for(2.0)
    assert np.abs(run.body_qd).max() < 0.05
    assert np.abs(run.body_q[0, :2]).max() < 0.011
    weight = 9.81 * run.model.body_mass.numpy()[0]
    assert np.linalg.norm(run.solver.contact_forces().numpy(), axis=1).max() < 1e4 * weight


@pytest.mark.parametrize(("half", "aside"), [(0.08, 0.01), (0.052, 0.002)])
def test_a_wedged_box_stays_where_it_is(device: str, half: float, aside: float):
    """A box that begins `aside` in a gap of 0.1 m gets to its middle by friction's leave, and is named."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(origin=wp.transform((aside, 0.0, 0.0), wp.quat_identity()))
    builder.add_shape_box(body, hx=half, hy=half, hz=half, mu=0.5)
    for x in (-0.55, 0.55):
        builder.add_shape_box(-1, pos=(x, 0.0, 0.0), hx=0.5, hy=1.0, hz=1.0, mu=0.5)
    model = builder.finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model), DT)
    with pytest.warns(RuntimeWarning, match="body 'body_0' cannot be pushed out of an overlap"):
        simulator.step(round(2.0 / DT))
    pose = simulator.state.body_q.numpy()[0]
    assert abs(pose[0]) < 1.0e-3
    assert np.abs(pose[1:3]).max() < 5.0e-3
    assert 2.0 * np.linalg.norm(pose[3:6]) < 0.06
    assert np.abs(simulator.state.body_qd.numpy()).max() < 1.0e-3


def test_impulses_gone_astray_are_dropped(device: str):
    """A warm start a million times too large does not show in the motion: the step falls back to sweeps."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for z in (0.1, 0.3, 0.5):
        body = builder.add_body(origin=wp.transform((0.0, 0.0, z), wp.quat_identity()))
        builder.add_shape_box(body, **KINDS["box"])
    builder.set_ground_plane()
    run = Run(builder.finalize(device), DT)
    run.run_for(0.5)
    memory = run.solver.constraints.rows.contact.memory
    wild = memory.numpy()
    wild[::2] *= 1.0e6
    memory.assign(wild)
    run.step(1)
    assert np.abs(run.body_qd).max() < 0.3
    run.run_for(0.5)
    assert np.abs(run.body_qd).max() < 1e-3
