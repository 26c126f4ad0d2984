"""Free collisions of soft bodies, cloth and rigid bodies under XPBD: momentum."""

import numpy as np
import pytest

from newtonsim import ModelBuilder, XPBDSolver

UNTURNED = (0.0, 0.0, 0.0, 1.0)
SKINLESS = {"tri_ke": 0.0, "tri_ka": 0.0, "tri_kd": 0.0}
SHEET = {"tri_ke": 500.0, "tri_ka": 300.0, "tri_kd": 0.0, "tri_drag": 0.0, "tri_lift": 0.0}


def add_jelly(builder: ModelBuilder, place: tuple, speed: float) -> None:
    """Add a soft cube of 30 cm that flies along x."""
    material = (1000.0, 1.0e4, 2.0e4, 0.0)
    builder.add_soft_grid(place, UNTURNED, (speed, 0.0, 0.0), 3, 3, 3, 0.1, 0.1, 0.1, *material, **SKINLESS)


def add_scene(builder: ModelBuilder, name: str) -> None:
    """Add two things that fly at each other, not centrally."""
    if name == "cloth on cloth":
        bend = {"edge_ke": 0.01, "edge_kd": 0.0}
        for place, speed, cells in (((0.0, 0.0, 0.0), 0.5, 12), ((0.2, 0.15, 0.1), -1.0, 7)):
            move = (0.0, 0.0, speed)
            builder.add_cloth_grid(place, UNTURNED, move, cells, cells, 0.05, 0.05, 0.01, **SHEET, **bend)
        builder.particle_radius[:] = [0.024] * len(builder.particle_radius)
        return
    add_jelly(builder, (0.0, 0.0, 0.0), 1.0)
    if name == "jelly on jelly":
        add_jelly(builder, (0.4, 0.13, 0.11), -1.0)
        builder.particle_radius[:] = [0.05] * len(builder.particle_radius)
    else:
        body = builder.add_body(((0.45, 0.2, 0.13), UNTURNED))
        builder.add_joint_free(body)
        builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, density=500)
        builder.particle_radius[:] = [0.02] * len(builder.particle_radius)


@pytest.mark.parametrize("name", ["jelly on jelly", "cloth on cloth", "jelly on body"])
def test_collisions_change_no_momentum(device: str, name: str):
    """The sum stays to 1e-6 of what flies about, while the two exchange a good part of theirs."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    add_scene(builder, name)
    model = builder.finalize(device)
    state, solver = model.state(), XPBDSolver(model)
    mass = model.particle_mass.numpy().astype(float)[:, None]
    first = 169 if name == "cloth on cloth" else 64

    def momenta() -> tuple[np.ndarray, np.ndarray]:
        p = mass * state.particle_qd.numpy().astype(float)
        total = p.sum(axis=0)
        if model.body_count:
            total += (model.body_mass.numpy()[:, None] * state.body_qd.numpy()[:, 3:]).sum(axis=0)
        return p[:first].sum(axis=0), total

    part, total = momenta()
    scale = np.abs(mass * state.particle_qd.numpy()).sum()
    for _ in range(96):
        solver.step(model, state, state, None, None, 1.0 / 240.0)
        np.testing.assert_allclose(momenta()[1], total, atol=1e-6 * scale)
    assert np.abs(momenta()[0] - part).max() > 0.05 * scale
