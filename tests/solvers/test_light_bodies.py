"""Solvers in maximal coordinates refuse joints to bodies without mass, which would hold up a robot."""

import numpy as np
import pytest

import newtonsim

MAXIMAL = [newtonsim.XPBDSolver, newtonsim.VBDSolver, newtonsim.SemiImplicitSolver]


def robot(frame_mass: float, base: int = 0) -> newtonsim.ModelBuilder:
    """A base, a frame that is fixed to it or to the world, and an arm that hangs on the frame."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    trunk = builder.add_body(mass=2.0, I_m=0.1 * np.eye(3), key="trunk")
    frame = builder.add_body(mass=frame_mass, I_m=frame_mass * np.eye(3), key="frame")
    arm = builder.add_body(mass=1.0, I_m=0.1 * np.eye(3), key="arm")
    builder.add_joint_free(trunk)
    builder.add_joint_fixed(base, frame)
    builder.add_joint_revolute(frame, arm, axis=(0.0, 1.0, 0.0))
    builder.color()
    return builder


def step(solver: type, builder: newtonsim.ModelBuilder) -> np.ndarray:
    """Heights after 0.1 s of fall."""
    model = builder.finalize("cpu")
    simulator = newtonsim.Simulator(model, solver(model), 1.0 / 480.0)
    simulator.step(48)
    return simulator.state.body_q.numpy()[:, 2]


@pytest.mark.parametrize("solver", MAXIMAL)
def test_a_frame_without_mass_on_a_moving_body_is_refused(solver: type):
    with pytest.raises(newtonsim.ModelError, match=rf"{solver.__name__}: body 'frame' has a mass of 0 kg"):
        step(solver, robot(0.0))


@pytest.mark.parametrize("solver", MAXIMAL)
def test_a_frame_that_is_fixed_to_the_world_needs_no_mass(solver: type):
    heights = step(solver, robot(0.0, base=-1))
    assert heights[0] == pytest.approx(-0.5 * 9.81 * 0.1**2, rel=0.05)
    assert heights[1] == 0.0


@pytest.mark.parametrize("solver", [*MAXIMAL, newtonsim.FeatherstoneSolver])
def test_a_light_frame_falls_with_the_rest(solver: type):
    mass = 0.01 if solver in MAXIMAL else 0.0
    np.testing.assert_allclose(step(solver, robot(mass)), -0.5 * 9.81 * 0.1**2, rtol=0.05)
