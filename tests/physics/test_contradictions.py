"""Constraints that cannot all be met: bodies come to rest between them, and a warning names these."""

import re
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run, diagonal_inertia, z_up

import newtonsim
from newtonsim.dynamics import kinetic_energy
from newtonsim.solvers import FeatherstoneSolver

TURN = (0.0, 0.0, 0.0, 1.0)


def box(builder: newtonsim.ModelBuilder, key: str = "box") -> int:
    """A box of 8 kg at a height of 1 m."""
    body = builder.add_body(origin=((0.0, 0.0, 1.0), TURN), key=key)
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, density=1000.0)
    return body


def leashes(gap: float) -> newtonsim.ModelBuilder:
    """A box on two leashes of 0.2 m, whose ends are 0.4 m and a gap apart [m]."""
    builder = z_up()
    body = box(builder)
    for side in (-1.0, 1.0):
        place = ((side * (0.2 + 0.5 * gap), 0.0, 1.0), TURN)
        builder.add_constraint_distance(-1, body, max_distance=0.2, parent_xform=place)
    return builder


def welds() -> newtonsim.ModelBuilder:
    """A box that is welded to two poses, 0.4 m and one rad apart."""
    builder = z_up()
    body = box(builder)
    builder.add_constraint_weld(-1, body, ((0.0, 0.0, 1.0), TURN))
    turned = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 1.0)
    builder.add_constraint_weld(-1, body, ((0.0, 0.0, 1.4), tuple(turned)))
    return builder


def points() -> newtonsim.ModelBuilder:
    """A box with two of its points tied to places 0.3 and 0.5 m away, in different directions."""
    builder = z_up()
    body = box(builder)
    builder.add_constraint_connect(-1, body, (0.0, 0.0, 1.2), (0.0, 0.0, 0.1))
    builder.add_constraint_connect(-1, body, (0.6, 0.0, 1.0), (0.1, 0.0, 0.0))
    return builder


def linkage() -> newtonsim.ModelBuilder:
    """Three hinged links of 0.3 m, stretched out, with the end tied to a place 1.1 m beyond."""
    builder, above = z_up(), -1
    for k in range(3):
        link = builder.add_body(
            mass=1.0, com=(0.15, 0.0, 0.0), I_m=diagonal_inertia(0.01, 0.01, 0.01), key=f"{k}"
        )
        place = ((0.0, 0.0, 1.0) if k == 0 else (0.3, 0.0, 0.0), TURN)
        builder.add_joint_revolute(above, link, parent_xform=place, axis=(0.0, 1.0, 0.0), armature=0.0)
        above = link
    builder.add_constraint_connect(-1, above, (2.0, 0.0, 1.0), (0.3, 0.0, 0.0))
    return builder


def loose_linkage() -> newtonsim.ModelBuilder:
    """The same, of free bodies."""
    builder, above = z_up(), -1
    for k in range(3):
        place = ((0.3 * k + 0.15, 0.0, 1.0), TURN)
        link = builder.add_body(origin=place, mass=1.0, I_m=diagonal_inertia(0.01, 0.01, 0.01), key=f"{k}")
        end = (0.0, 0.0, 1.0) if k == 0 else (0.15, 0.0, 0.0)
        builder.add_constraint_connect(above, link, end, (-0.15, 0.0, 0.0))
        above = link
    builder.add_constraint_connect(-1, above, (2.0, 0.0, 1.0), (0.15, 0.0, 0.0))
    return builder


def couplings() -> newtonsim.ModelBuilder:
    """A hanging arm of two links whose second hinge has to turn as the first one, and by 1 rad more."""
    builder, above, joints = z_up(), -1, []
    for k in range(2):
        link = builder.add_body(
            mass=1.0, com=(0.0, 0.0, -0.25), I_m=diagonal_inertia(0.01, 0.01, 0.01), key=f"{k}"
        )
        place = ((0.0, 0.0, -0.5 * k), TURN)
        joints.append(
            builder.add_joint_revolute(above, link, parent_xform=place, axis=(0.0, 1.0, 0.0), armature=0.0)
        )
        above = link
    for offset in (0.0, 1.0):
        builder.add_constraint_coupling(joints[1], joints[0], (offset, 1.0))
    return builder


SCENES: dict[str, Callable[[], newtonsim.ModelBuilder]] = {
    "leashes, 1 cm": lambda: leashes(0.01),
    "leashes, 10 cm": lambda: leashes(0.1),
    "leashes, 60 cm": lambda: leashes(0.6),
    "welds": welds,
    "points": points,
    "linkage": linkage,
    "loose linkage": loose_linkage,
    "couplings": couplings,
}


@pytest.mark.parametrize("rate", [60, 240])
@pytest.mark.parametrize("name", SCENES)
def test_what_is_torn_to_two_sides_stays_calm(device: str, name: str, rate: int):
    """Some flew away at hundreds of metres per second."""
    builder = SCENES[name]()
    run = Run(builder.finalize(device), 1.0 / rate)
    mass = float(run.model.body_mass.numpy().sum())
    start = run.state.body_q.numpy()[:, :3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(40):
            run.run_for(0.1)
            # less than a fall from 0.1 m
            assert float(kinetic_energy(run.model, run.state).numpy().sum()) < 0.1 * mass * 9.81
    assert np.abs(run.state.body_q.numpy()[:, :3] - start).max() < 0.7


@pytest.mark.parametrize("name", SCENES)
def test_it_is_named_once(device: str, name: str):
    model = SCENES[name]().finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            simulator.step(60)
        simulator.solver.report()
    (told,) = (str(w.message) for w in caught if "cannot go where" in str(w.message))
    assert re.search("in world 0, body '.*' cannot go where constraints", told)


@pytest.mark.parametrize("gap", [-0.01, -0.1])
def test_leashes_that_reach_are_no_contradiction(device: str, gap: float):
    """Where they hold the box, it hangs still in the middle, below by what remains of their lengths."""
    model = leashes(gap).finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for _ in range(24):
            simulator.step(100)
    reach = 0.2 + 0.5 * gap
    at_rest = (0.0, 0.0, 1.0 - np.sqrt(0.2**2 - reach**2))
    np.testing.assert_allclose(simulator.state.body_q.numpy()[0, :3], at_rest, rtol=0.0, atol=1.0e-3)


def test_what_is_far_away_comes_at_the_greatest_speed(device: str):
    """A single leash that is 0.3 m too short pulls at `max_limit_speed`, and the box stays where it gets."""
    builder = z_up()
    body = box(builder)
    builder.add_constraint_distance(-1, body, max_distance=0.2, parent_xform=((0.0, 0.0, 1.5), TURN))
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model, max_limit_speed=2.0), 1.0 / 240.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        simulator.step()
        assert simulator.state.body_qd.numpy()[0, 5] == pytest.approx(2.0, rel=2.0e-3)
        simulator.step(480)
    np.testing.assert_allclose(simulator.state.body_q.numpy()[0, :3], (0.0, 0.0, 1.3), rtol=0.0, atol=1.0e-4)


def test_an_error_far_out_of_reach_leaves_other_bodies_alone(device: str):
    """A box that stands on the ground beside one that is torn."""
    builder = leashes(0.6)
    other = builder.add_body(origin=((3.0, 0.0, 0.1), TURN))
    builder.add_shape_box(other, hx=0.1, hy=0.1, hz=0.1, density=1000.0)
    builder.set_ground_plane()
    run = Run(builder.finalize(device), 1.0 / 240.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        run.run_for(2.0)
    np.testing.assert_allclose(run.state.body_q.numpy()[other, :3], (3.0, 0.0, 0.1), rtol=0.0, atol=2.0e-4)
