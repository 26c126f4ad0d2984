"""The same soft bodies in other units, and steps that are long for them, under XPBD."""

import numpy as np
import pytest

import newtonsim
from newtonsim import ModelBuilder
from newtonsim.solvers import XPBDSolver

ZERO, UNTURNED = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)
MEMBRANE = ("tri_ke", "tri_ka")


def fallen_cube(
    device: str, length: float, mass: float, time: float, seconds: float = 1.0, skin: float = 0.0, **options
) -> np.ndarray:
    """Corners of a soft cube of 3x3x3 cells of 10 cm, let fall from 5 cm, in units of its cells.

    Args:
        device: Where it is simulated.
        length: Factor on all lengths.
        mass: Factor on all masses.
        time: Length of a step in units of the time that such a length sets [s].
        seconds: How long it falls and lies, in the same units.
        skin: Stiffness of its surface [N/m], not scaled.
        options: Of the solver.
    """
    unit = np.sqrt(length)
    cell, stiffness, density = 0.1 * length, 2.0e4 * mass / length**2, 1000.0 * mass / length**3
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.default_shape_thickness = 0.0
    builder.set_ground_plane()
    material = (density, stiffness, stiffness, 0.01 * unit)
    membrane = dict.fromkeys(MEMBRANE, skin) | {"tri_kd": 0.0}
    builder.add_soft_grid(
        (0.0, 0.0, 0.5 * cell), UNTURNED, ZERO, 3, 3, 3, cell, cell, cell, *material, **membrane
    )
    builder.particle_radius[:] = [0.1 * cell] * len(builder.particle_radius)
    model = builder.finalize(device)
    model.particle_max_velocity = 1.0e6
    solver = XPBDSolver(model, **options)
    sim = newtonsim.Simulator(model, solver, dt=time * unit)
    sim.step(round(seconds / time))
    return sim.state.particle_q.numpy().astype(float) / cell


@pytest.mark.parametrize(("length", "mass"), [(1e-4, 1e-12), (1e-2, 1e-6), (1e3, 1e9), (1.0, 1e-3)])
def test_a_cube_has_the_same_shape_at_any_scale(device: str, length: float, mass: float):
    """Nothing but ratios of lengths, times and masses decides; where it slides to is left to rounding."""
    shapes = [fallen_cube(device, *scale, 1.0 / 120.0) for scale in ((1.0, 1.0), (length, mass))]
    for shape in shapes:
        shape[:, :2] -= shape[:, :2].mean(axis=0)
    np.testing.assert_allclose(shapes[1], shapes[0], atol=0.03)


@pytest.mark.parametrize("time", [1.0 / 30.0, 1.0 / 120.0])
def test_no_corner_ends_under_the_ground(device: str, time: float):
    """With the solver's own options, contacts leave nothing of an overlap to the next step."""
    x = fallen_cube(device, 1.0, 1.0, time)
    assert x[:, 2].min() == pytest.approx(0.1, abs=0.01)


def test_steps_in_which_a_cube_falls_through_many_of_its_cells_stay_finite(device: str):
    """Cells of 0.1 mm at 1/120 s fall by seven cells a step, and their surface is stiff for their mass: too
    much to converge, but all corners stay where the ground and the cube's own size allow."""
    x = fallen_cube(device, 1e-3, 1e-9, 1.0 / 120.0 / np.sqrt(1e-3), 30.0, skin=100.0)
    assert np.isfinite(x).all()
    assert x[:, 2].min() > 0.09
    assert np.ptp(x, axis=0).max() < 10.0
