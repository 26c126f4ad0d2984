"""The warning of a non-finite world says in which step, with which body and by what it began."""

import dataclasses
import re
import warnings

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.kernels.constraints.energy_coordinates import FROM_CONSTRAINTS
from newtonsim.solvers.featherstone.origin import explain
from newtonsim.solvers.nonfinite import Origin

DT = 1.0 / 240.0


def scene(worlds: int) -> newtonsim.ModelBuilder:
    """In each world a pendulum of two links, and a ball on the ground."""
    one = newtonsim.ModelBuilder()
    inertia = wp.mat33(0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.1)
    upper, lower = (
        one.add_body(mass=1.0, com=(0.0, -0.5, 0.0), I_m=inertia, key=k) for k in ("upper", "lower")
    )
    high = wp.transform((3.0, 5.0, 0.0), wp.quat_identity())
    one.add_joint_revolute(-1, upper, parent_xform=high, axis=(0.0, 0.0, 1.0), key="shoulder")
    one.add_joint_revolute(upper, lower, axis=(0.0, 0.0, 1.0), key="elbow")
    ball = one.add_body(key="ball", origin=wp.transform((0.0, 0.099, 0.0), wp.quat_identity()))
    one.add_joint_free(ball, key="loose")
    one.add_shape_sphere(ball, radius=0.1, key="skin")
    builder = newtonsim.ModelBuilder()
    for _ in range(worlds):
        builder.add_builder(one)
    builder.set_ground_plane()
    return builder


def warning_of(simulator: newtonsim.Simulator, steps: int = 1) -> str:
    simulator.report_every = 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        simulator.step(steps)
    texts = [str(w.message) for w in caught if "non-finite" in str(w.message)]
    assert len(texts) == 1
    return texts[0]


def broken(simulator: newtonsim.Simulator, array: str, place: int, value: float = np.nan) -> None:
    owner = simulator.control if hasattr(simulator.control, array) else simulator.state
    values = getattr(owner, array).numpy().copy()
    values.reshape(-1)[place] = value
    getattr(owner, array).assign(values)


def featherstone(device: str, worlds: int = 3, **options) -> newtonsim.Simulator:
    model = scene(worlds).finalize(device)
    return newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model, **options), DT, substeps=2)


@pytest.mark.parametrize("late", [1, 10])
def test_the_first_step_is_named_however_late_the_host_looks(late: int, device):
    simulator = featherstone(device)
    simulator.step(7)
    broken(simulator, "joint_f", 8 + 1)  # the elbow of world 1: 8 degrees of freedom a world
    text = warning_of(simulator, late)
    # two steps of the solver in each of seven
    assert re.search(r"finite \(NaN or infinite\): 1; it started in world 1, in step 15 of the solver", text)
    assert "with the tree of body 'upper', caused by its state, forces or inputs" in text


def test_the_joint_of_a_wrench_is_named(device):
    model = scene(2).finalize(device)
    simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), DT)
    broken(simulator, "body_f", 6 * (3 + 1) + 5)  # body 1 of world 1 is the lower link
    text = warning_of(simulator)
    assert "started in world 1, in step 1 of the solver, with the tree of body 'upper'" in text
    assert "caused by its state, forces or inputs at joint 'elbow'" in text


def with_rows(device: str) -> newtonsim.Simulator:
    """After some steps: in each of two worlds a ball on the ground, an arm on its limit, a lamp on a hook."""
    one = newtonsim.ModelBuilder()
    inertia = wp.mat33(0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.1)
    ball = one.add_body(key="ball", origin=wp.transform((0.0, 0.099, 0.0), wp.quat_identity()))
    one.add_joint_free(ball)
    one.add_shape_sphere(ball, radius=0.1, key="skin")
    arm = one.add_body(mass=1.0, com=(0.5, 0.0, 0.0), I_m=inertia, key="arm")
    one.add_joint_revolute(-1, arm, axis=(0.0, 0.0, 1.0), limit_lower=0.0, limit_upper=1.0, key="hinge")
    lamp = one.add_body(mass=1.0, I_m=inertia, key="lamp")
    one.add_joint_free(lamp)
    one.add_constraint_weld(-1, lamp, key="hook")
    builder = newtonsim.ModelBuilder()
    for _ in range(2):
        builder.add_builder(one)
    builder.set_ground_plane()
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), DT)
    simulator.step(20)
    return simulator


@pytest.mark.parametrize(
    ("family", "told"),
    [
        ("contact", ", caused by its constraints, at the contact of shapes 'skin' and 'ground_plane'"),
        ("dof", ", caused by its constraints, at a row of joint 'hinge'"),
        ("pair", ", caused by its constraints, at a row of constraint 'hook'"),
        (None, ", caused by its constraints"),
    ],
)
def test_the_row_that_broke_is_named(family: str | None, told: str, device):
    solver = with_rows(device).solver
    stage = solver.constraints
    if family is not None:
        rows = getattr(stage.rows, family)
        # the first row in use in world 1
        start = (stage.last_contacts if family == "contact" else rows).world_start.numpy()[1]
        values = rows.impulse.numpy().copy()
        values[start] = np.nan
        rows.impulse.assign(values)
    origin = Origin("tree", 3, world=1, age=1, step=20, cause=int(FROM_CONSTRAINTS))
    assert explain(origin, solver.smooth, stage) == told
    # the buffers of a later step tell nothing
    assert explain(dataclasses.replace(origin, age=2), solver.smooth, stage) == ", caused by its constraints"


def test_a_world_that_was_reset_begins_anew(device):
    simulator = featherstone(device)
    broken(simulator, "joint_f", 0)
    assert "started in world 0, in step 1 " in warning_of(simulator)
    broken(simulator, "joint_f", 0, 0.0)
    simulator.reset(np.array([True, False, False]))
    simulator.step(4)
    broken(simulator, "joint_f", 8 + 2)  # the ball of world 1
    text = warning_of(simulator)
    assert "started in world 1, in step 11 of the solver, with the tree of body 'ball'" in text


@pytest.mark.parametrize("kind", [newtonsim.XPBDSolver, newtonsim.SemiImplicitSolver])
def test_solvers_of_bodies_name_the_body(kind: type, device):
    model = scene(2).finalize(device)
    simulator = newtonsim.Simulator(model, kind(model), DT)
    simulator.step(2)
    broken(simulator, "body_f", 6 * (3 + 2) + 4)  # the ball of world 1
    assert "started in world 1, in step 3 of the solver, with body 'ball'; " in warning_of(simulator)


def test_particles_are_named(device):
    builder = newtonsim.ModelBuilder()
    for n in range(4):
        builder.add_particle((float(n), 1.0, 0.0), (0.0, 0.0, 0.0), 1.0)
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, newtonsim.XPBDSolver(model), DT)
    broken(simulator, "particle_f", 3 * 2)
    assert "started in world 0, in step 1 of the solver, with particle 2; " in warning_of(simulator)
