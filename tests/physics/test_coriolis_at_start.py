"""Velocity-dependent forces taken at the start of the step."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, add_hinge, diagonal_inertia, z_up

from newtonsim import Simulator, dynamics
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0


def swinging_chain():
    """Three links with crossed axes on a free trunk."""
    world = z_up()
    parent = world.add_body(mass=3.0, I_m=diagonal_inertia(0.2, 0.1, 0.15))
    world.add_joint_free(parent)
    for axis in ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.6, 0.8)):
        place = wp.transform((0.1, 0.0, -0.3), wp.quat_identity())
        parent = add_hinge(world, parent=parent, length=0.2, axis=axis, parent_xform=place)
    return world


def test_step_is_semi_implicit_euler(device: str):
    """v' = v + h a(q, v), with the acceleration of forward dynamics at the start of the step."""
    model = swinging_chain().finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, coriolis="start"), DT)
    state = simulator.state
    state.joint_qd.assign([1.0, -2.0, 3.0, 0.5, 0.0, 1.0, 4.0, -3.0, 5.0])
    for _ in range(20):
        v = state.joint_qd.numpy().copy()
        a = dynamics.forward_dynamics(model, state).numpy()
        simulator.step()
        np.testing.assert_allclose(state.joint_qd.numpy(), v + DT * a, rtol=0.0, atol=3.0e-5)


def test_fast_single_body_keeps_its_energy(device: str):
    """A body that turns by 0.4 rad in a step, where an explicit gyroscopic torque explodes."""
    world = z_up(0.0)
    body = world.add_body(mass=1.0, I_m=diagonal_inertia(0.05, 0.08, 0.03))
    world.add_joint_free(body)
    model = world.finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, coriolis="start"), DT)
    simulator.state.joint_qd.assign([60.0, 70.0, 30.0, 0.0, 0.0, 0.0])
    start = dynamics.kinetic_energy(model, simulator.state).numpy()[0]
    simulator.step(1000)
    assert dynamics.kinetic_energy(model, simulator.state).numpy()[0] == pytest.approx(start, rel=0.02)


def test_joint_reactions_hold_what_hangs(device: str):
    """A hanging chain at rest: each joint carries the weight below it."""
    world = z_up()
    parent = -1
    for _ in range(3):
        place = wp.transform((0.0, 0.0, -0.3), wp.quat_identity())
        parent = add_hinge(world, parent=parent, length=0.15, parent_xform=place)
    model = world.finalize(device)
    solver = FeatherstoneSolver(model, coriolis="start")
    simulator = Simulator(model, solver, DT)
    simulator.step(5)
    forces = solver.joint_reactions(simulator.state).numpy()[:, 5]
    np.testing.assert_allclose(forces, GRAVITY * np.array([3.0, 2.0, 1.0]), rtol=1.0e-4)


def test_linkage_holds_together(device: str):
    """A loop closed by a constraint stays closed while it swings."""
    world = z_up()
    ends = []
    for x in (0.0, 0.4):
        place = wp.transform((x, 0.0, 0.0), wp.quat_identity())
        ends.append(add_hinge(world, length=0.3, parent_xform=place))
    rod = add_hinge(world, parent=ends[0], length=0.2, parent_xform=wp.transform((0, 0, -0.6), (0, 0, 0, 1)))
    world.add_constraint_connect(ends[1], rod, (0.0, 0.0, -0.6), (0.0, 0.0, -0.4))
    world.joint_q[2] = -np.pi / 2
    model = world.finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, coriolis="start"), DT)
    simulator.state.joint_qd.assign([3.0, 3.0, -3.0])
    for _ in range(100):
        simulator.step(5)
        pose = simulator.state.body_q.numpy()
        tips = [_tip(pose[ends[1]], -0.6), _tip(pose[rod], -0.4)]
        np.testing.assert_allclose(tips[0], tips[1], rtol=0.0, atol=2.0e-3)


def _tip(pose: np.ndarray, z: float) -> np.ndarray:
    """Point on a link's z axis in the world."""
    from scipy.spatial.transform import Rotation

    return pose[:3] + Rotation.from_quat(pose[3:]).apply([0.0, 0.0, z])


def test_wrong_choice_is_refused(device: str):
    with pytest.raises(ValueError, match="coriolis"):
        FeatherstoneSolver(swinging_chain().finalize(device), coriolis="end")
    with pytest.raises(ValueError, match="coriolis"):
        FeatherstoneSolver(swinging_chain().finalize(device, requires_grad=True), coriolis="start")
