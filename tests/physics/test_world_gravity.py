"""Worlds that differ in gravity: each moves as a model of its own with that gravity, under every solver."""

from collections.abc import Callable

import numpy as np
import pytest
import warp as wp

from newtonsim import FeatherstoneSolver, ModelBuilder, Simulator, diff
from newtonsim.dynamics import potential_energy
from newtonsim.errors import ModelError
from newtonsim.scene.model import Model
from newtonsim.solvers import GravityCompensation, MuJoCoSolver, SemiImplicitSolver, VBDSolver, XPBDSolver
from newtonsim.utils import export_mjcf, parse_mjcf

DOWN = np.array([[0.0, 0.0, -9.81], [0.0, 0.0, -1.62], [1.0, -2.0, -3.7]])
DT, STEPS = 1.0 / 240.0, 60

BODY_SOLVERS: dict[str, Callable] = {
    "featherstone": FeatherstoneSolver,
    "compliant": lambda model: FeatherstoneSolver(model, contact_mode="compliant"),
    "semi-implicit": SemiImplicitSolver,
    "xpbd": XPBDSolver,
    "mujoco": lambda model: MuJoCoSolver(model, use_mujoco=True),
    "mujoco_warp": MuJoCoSolver,
}


def scene(particles: bool = False) -> ModelBuilder:
    """A free box, a pendulum, a ball that falls on the ground."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    box = world.add_body(origin=wp.transform((0.0, 0.0, 20.0), wp.quat_identity()), key="box")
    world.add_shape_box(box, hx=0.1, hy=0.2, hz=0.3)
    rod = world.add_body(origin=wp.transform((3.0, 0.0, 5.0), wp.quat_identity()), key="rod")
    world.add_shape_box(rod, pos=(0.3, 0.0, 0.0), hx=0.3, hy=0.02, hz=0.02)
    world.add_joint_revolute(
        -1, rod, parent_xform=wp.transform((3.0, 0.0, 5.0), wp.quat_identity()), axis=(0.0, 1.0, 0.0)
    )
    ball = world.add_body(origin=wp.transform((-3.0, 0.0, 0.12), wp.quat_identity()), key="ball")
    world.add_shape_sphere(ball, radius=0.1)
    if particles:
        world.add_particle((0.0, 0.0, 9.0), (1.0, 0.0, 0.0), 0.1)
    return world


def joined(device: str, particles: bool = False) -> Model:
    """As many worlds as there are gravities."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(scene(particles), len(DOWN), spacing=(0.0, 0.0, 0.0))
    builder.set_ground_plane()
    model = builder.finalize(device)
    model.gravity = DOWN
    return model


def alone(device: str, gravity: np.ndarray, particles: bool = False) -> Model:
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=gravity)
    builder.replicate(scene(particles), 1, spacing=(0.0, 0.0, 0.0))
    builder.set_ground_plane()
    return builder.finalize(device)


@pytest.mark.parametrize("name", BODY_SOLVERS)
def test_worlds_move_as_models_of_their_own(device: str, name: str):
    if name.startswith("mujoco"):
        pytest.importorskip(name)
    make = BODY_SOLVERS[name]
    model = joined(device)
    sim = Simulator(model, make(model), DT)
    sim.step(STEPS)
    poses = sim.state.body_q.numpy().reshape(len(DOWN), -1, 7)
    for world, gravity in enumerate(DOWN):
        single = alone(device, gravity)
        other = Simulator(single, make(single), DT)
        other.step(STEPS)
        np.testing.assert_allclose(poses[world], other.state.body_q.numpy(), rtol=1e-6, atol=1e-6)
    # the box falls freely; a first-order rule is off by half a step's gain
    time = STEPS * DT
    fallen = poses[:, 0, :3] - [0.0, 0.0, 20.0]
    np.testing.assert_allclose(fallen, 0.5 * time**2 * DOWN, atol=0.6 * time * DT * np.abs(DOWN).max())


@pytest.mark.parametrize("make", [SemiImplicitSolver, XPBDSolver, VBDSolver, FeatherstoneSolver])
def test_particles_fall_in_the_gravity_of_their_world(device: str, make: Callable):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    world.add_particle((0.0, 0.0, 9.0), (1.0, 0.0, 0.0), 0.1)
    builder.replicate(world, len(DOWN), spacing=(0.0, 0.0, 0.0))
    builder.color()
    model = builder.finalize(device)
    model.gravity = DOWN
    sim = Simulator(model, make(model), DT)
    sim.step(STEPS)
    speed = sim.state.particle_qd.numpy() - [1.0, 0.0, 0.0]
    np.testing.assert_allclose(speed, STEPS * DT * DOWN, rtol=1e-4, atol=1e-5)


def test_pendulums_swing_with_the_period_of_their_world(device: str):
    """Small swings of a point mass: T = 2π √(l/g)."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    bob = world.add_body(mass=1.0, com=(0.0, 0.0, -0.5), I_m=np.eye(3) * 1e-9)
    world.add_joint_revolute(-1, bob, axis=(0.0, 1.0, 0.0), armature=0.0)
    world.joint_q = [0.01]
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(world, 2, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device)
    model.gravity = [[0.0, 0.0, -9.81], [0.0, 0.0, -1.62]]
    dt = 1e-3
    sim = Simulator(model, FeatherstoneSolver(model), dt)
    angles = []
    for _ in range(1500):
        sim.step()
        angles.append(sim.state.joint_q.numpy().copy())
    angles = np.array(angles)
    for column, gravity in enumerate((9.81, 1.62)):
        crossing = np.flatnonzero(angles[:, column] <= 0.0)[0] * dt
        assert crossing == pytest.approx(0.5 * np.pi * np.sqrt(0.5 / gravity), rel=5e-3)


def test_gravity_changes_between_captured_steps(device: str):
    model = joined(device)
    sim = Simulator(model, FeatherstoneSolver(model), DT)
    sim.step(10)
    before = sim.state.body_qd.numpy().reshape(3, -1, 6)[:, 0, 3:].copy()
    model.gravity = -DOWN
    sim.step(10)
    np.testing.assert_allclose(before, 10 * DT * DOWN, rtol=1e-4, atol=1e-5)
    after = sim.state.body_qd.numpy().reshape(3, -1, 6)[:, 0, 3:]
    np.testing.assert_allclose(after, 0.0, atol=1e-4)


def test_a_stage_carries_the_weight_in_each_world(device: str):
    model = joined(device)
    solver = FeatherstoneSolver(model)
    points = {body: (1.0, point) for body, point in enumerate(model.body_com.numpy()[:3])}
    solver.before_step = (GravityCompensation(model, points),)
    sim = Simulator(model, solver, DT)
    sim.step(STEPS)
    np.testing.assert_allclose(sim.state.body_qd.numpy(), 0.0, atol=1e-4)


def test_sleeping_worlds_wake_when_their_gravity_changes(device: str):
    builder, world = (ModelBuilder(up_vector=(0.0, 0.0, 1.0)) for _ in range(2))
    body = world.add_body(origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    builder.replicate(world, 2, spacing=(0.0, 0.0, 0.0))
    builder.set_ground_plane()
    model = builder.finalize(device)
    solver = FeatherstoneSolver(model, sleep=True)
    sim = Simulator(model, solver, DT)
    sim.step(240)
    assert solver.sleep.asleep.numpy().tolist() == [1, 1]
    model.gravity = [[0.0, 0.0, -9.81], [0.0, 0.0, 2.0]]
    sim.step(24)
    assert solver.sleep.asleep.numpy().tolist() == [1, 0]
    heights = sim.state.body_q.numpy()[:, 2]
    assert heights[0] == pytest.approx(0.1, abs=1e-3)
    assert heights[1] == pytest.approx(0.1 + 0.5 * 2.0 * 0.1**2, rel=0.1)


@pytest.mark.parametrize("make", [FeatherstoneSolver, SemiImplicitSolver, XPBDSolver])
def test_gradients_by_gravity_belong_to_its_world(device: str, make: Callable):
    """Height after n steps of a fall: n (n + 1) dt² / 2 or n² dt² / 2 a unit of gravity, in its own world."""
    builder, world = (ModelBuilder(up_vector=(0.0, 0.0, 1.0)) for _ in range(2))
    world.add_body(mass=2.0, I_m=np.eye(3), origin=wp.transform((0.0, 0.0, 5.0), wp.quat_identity()))
    builder.replicate(world, 3, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device, requires_grad=True)
    model.gravity = DOWN
    loss = _heights
    result = diff.rollout(
        model, make(model), model.state(), None, 20, 0.01, loss, ("model.gravity_vec",), strict=True
    )
    found = result.gradients["model.gravity_vec"].numpy()
    np.testing.assert_allclose(found[:, :2], 0.0, atol=1e-6)
    weights = np.array([1.0, 2.0, 3.0])
    low, high = 0.5 * (20 * 0.01) ** 2, 0.5 * 20 * 21 * 0.01**2
    assert np.all(found[:, 2] > 0.999 * low * weights)
    assert np.all(found[:, 2] < 1.001 * high * weights)
    np.testing.assert_allclose(found[:, 2] / found[0, 2], weights, rtol=1e-5)


@wp.kernel
def _weigh_heights(q: wp.array(dtype=wp.transform), losses: wp.array(dtype=float)):
    w = wp.tid()
    losses[w] = losses[w] + float(w + 1) * wp.transform_get_translation(q[w])[2]


def _heights(state, losses):
    wp.launch(_weigh_heights, 3, [state.body_q], [losses], device=losses.device)


def test_potential_energy_is_that_of_the_world(device: str):
    model = joined(device)
    energy = potential_energy(model, model.state()).numpy().reshape(3, -1)
    assert energy[0, 0] > 0.0
    np.testing.assert_allclose(energy[1] / energy[0], 1.62 / 9.81, rtol=1e-5)


def test_what_is_not_per_world_is_refused(device: str):
    model = joined(device)
    for wrong in (DOWN[:2], [[1.0, 2.0]], np.full((3, 3), np.nan), "a", DOWN[None]):
        with pytest.raises((ModelError, ValueError), match=r"gravity|could not"):
            model.gravity = wrong
    np.testing.assert_allclose(model.gravity, DOWN, rtol=1e-6)
    assert "gravity of each world" in model.describe()
    model.gravity = (0.0, 0.0, -5.0)
    assert model.gravity.shape == (3,)
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(scene(), 2, spacing=(0.0, 0.0, 0.0))
    builder.add_particle((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 1.0)
    shared = builder.finalize(device)
    with pytest.raises(
        ModelError, match="gravity: cannot differ between worlds, since particle 0 belongs to none"
    ):
        shared.gravity = DOWN[:2]
    shared.gravity = DOWN[0]


def test_a_file_has_the_gravity_of_one_world(device: str, tmp_path):
    model = joined(device)
    with pytest.raises(ModelError, match="gravity: it differs between worlds"):
        export_mjcf(model, tmp_path / "all.xml")
    export_mjcf(model, tmp_path / "one.xml", world=1)
    read = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(tmp_path / "one.xml", read)
    np.testing.assert_allclose(read.finalize(device).gravity, DOWN[1], atol=1e-6)
