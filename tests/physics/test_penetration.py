"""Penetrations are removed, and leave no energy behind."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run

from newtonsim import ModelBuilder
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf

DT = 1.0 / 240.0
LYING = wp.quat(0.7071068, 0.0, 0.0, 0.7071068)
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


@pytest.mark.parametrize("askew", [1.0e-2, 1.0e-3, 1.0e-5])
def test_a_rod_that_is_upright_in_the_ground_is_pushed_gently(askew: float, device: str):
    """A push of 1 m/s along a rod that only turns would take a tip speed of that over the angle."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    # what hangs on the world itself does not collide with it
    stand = builder.add_body()
    builder.add_joint_fixed(-1, stand)
    rod = builder.add_body()
    builder.add_shape_sphere(rod, pos=(0.0, 0.0, -1.0), radius=0.1, mu=0.0)
    hinge = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    builder.add_joint_revolute(stand, rod, parent_xform=hinge, axis=(0.0, 1.0, 0.0))
    builder.joint_q[-1] = askew
    builder.set_ground_plane(mu=0.0)
    run = Run(builder.finalize(device), DT).start()
    fastest = 0.0
    for _ in range(240):
        run.step()
        fastest = max(fastest, float(np.abs(run.joint_qd).max()))
    # ten times the fastest removal of a penetration
    assert fastest < 10.0


def test_arms_that_start_half_in_the_ground_do_not_burst(device: str):
    """Links are pushed where they can hardly move, many at once, and calm down."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    placed = wp.transform((0.0, 0.0, 0.0), LYING)
    parse_urdf(asset_path("arm7.urdf"), world, xform=placed, floating=False, armature=0.05)
    scene = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(world, 32)
    scene.set_ground_plane()
    run = Run(scene.finalize(device), DT)
    run.start(0.3 * np.random.default_rng(0).normal(size=run.joint_q.shape))
    run.run_for(2.0)
    assert np.abs(run.joint_qd).max() < 10.0
