"""Links that overlap from the start, and that their joints hold there: pushing them apart costs no energy."""

import numpy as np
import pytest

import newtonsim
from newtonsim.solvers import FeatherstoneSolver

TURN = (0.0, 0.0, 0.0, 1.0)
LENGTH = 0.2 * np.sqrt(2.0)


def folded(shift: float, floating: bool, angle: float = 0.0) -> newtonsim.ModelBuilder:
    """Two capsules of radius 8 cm from their hinge along (1, 1), one in the other.

    The contact's normal passes the hinge at about `shift` [m].
    """
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    builder.keep_overlaps = True
    turn = (0.0, 0.0, np.sin(0.5 * angle), np.cos(0.5 * angle))
    base = builder.add_body(origin=((0.0, 0.0, 0.0), TURN))
    arm = builder.add_body(origin=((shift, 0.0, 0.0), turn))
    for body in (base, arm):
        builder.add_shape_capsule(
            body,
            pos=(0.1, 0.1, 0.0),
            rot=(0.0, 0.0, np.sin(-np.pi / 8.0), np.cos(np.pi / 8.0)),
            radius=0.08,
            half_height=0.5 * LENGTH,
            density=1000.0,
        )
    if floating:
        builder.add_joint_free(base)
    else:
        builder.add_joint_fixed(-1, base)
    builder.add_joint_revolute(
        base,
        arm,
        parent_xform=((shift, 0.0, 0.0), TURN),
        child_xform=((0.0, 0.0, 0.0), TURN),
        axis=(0.0, 0.0, 1.0),
        collision_filter_parent=False,
    )
    builder.joint_q[-1] = angle
    return builder


def kinetic_energy(model: newtonsim.Model, state: newtonsim.State) -> float:
    """Sum over the bodies [J], in double precision; bodies that turn about z only."""
    twist = state.body_qd.numpy().astype(np.float64)
    mass, inertia = model.body_mass.numpy().astype(np.float64), model.body_inertia.numpy().astype(np.float64)
    assert np.abs(twist[:, :2]).max() < 1.0e-2 * max(1.0, np.abs(twist).max())
    return float(0.5 * np.sum(mass * np.sum(twist[:, 3:] ** 2, axis=1) + inertia[:, 2, 2] * twist[:, 2] ** 2))


@pytest.mark.parametrize("floating", [True, False])
@pytest.mark.parametrize("shift", [0.0, 1.0e-5, 1.0e-4, 1.0e-3, 1.0e-2])
@pytest.mark.parametrize("angle", [0.0, 0.02])
def test_no_lever_no_energy(device, shift, floating, angle):
    """Nothing floats away faster than the push speed of 1 m/s: half a joule per kilogram."""
    model = folded(shift, floating, angle).finalize(device)
    assert model.shape_contact_pair_count == 1
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), dt=1.0 / 240.0)
    peak = 0.0
    for _ in range(48):
        simulator.step()
        energy = kinetic_energy(model, simulator.state)
        assert np.isfinite(energy)
        peak = max(peak, energy)
    assert peak / model.body_mass.numpy().sum() < 0.5
