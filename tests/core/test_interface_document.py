"""The examples of the interface document, word for word; that of particles is in `test_xpbd_particles.py`."""

import numpy as np
import pytest
import warp as wp

import newtonsim

LOOP = """
solver = newton.{solver}(model)

# simulation loop
for i in range(100):
    solver.step(model, state_in, state_out, control, contacts, dt)
"""


def run(text: str, **names) -> dict:
    names["newton"] = newtonsim
    exec(text, names)  # our own text
    return names


def ball() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(origin=wp.transform((0.0, 0.5, 0.0), wp.quat_identity()))
    builder.add_joint_free(body)
    builder.add_shape_sphere(body, radius=0.1)
    return builder


@pytest.mark.parametrize("ground", [False, True])
@pytest.mark.parametrize("solver", ["XPBDSolver", "MuJoCoSolver"])
def test_the_loop_of_rigid_bodies(solver, ground):
    """Half a metre of free fall, or what lies on the ground that is switched on after `finalize`."""
    if solver == "MuJoCoSolver":
        pytest.importorskip("mujoco")
    model = ball().finalize("cpu")
    model.ground = ground
    states = {"state_in": model.state()}
    states["state_out"] = states["state_in"]
    run(LOOP.format(solver=solver), model=model, control=model.control(), contacts=None, dt=0.005, **states)
    fallen = 0.5 - states["state_out"].body_q.numpy()[0, 1]
    assert fallen == pytest.approx(0.4, abs=0.01) if ground else fallen == pytest.approx(1.226, abs=0.02)


def test_the_loop_of_cloth(device):
    builder = newtonsim.ModelBuilder()
    flat = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.5 * np.pi)
    cloth = {"tri_ke": 1e3, "tri_ka": 1e3, "tri_kd": 0.0, "edge_ke": 0.01}
    builder.add_cloth_grid((0, 1.0, 0), flat, (0, 0, 0), 4, 4, 0.1, 0.1, 0.01, fix_left=True, **cloth)
    builder.color(include_bending=True)  # "load or generate particle coloring"
    model = builder.finalize(device)
    model.ground = True
    state = model.state()
    names = {"state_in": state, "state_out": state, "control": model.control(), "contacts": model.contact()}
    run(LOOP.format(solver="VBDSolver"), model=model, dt=1.0 / 60.0, **names)
    x = state.particle_q.numpy()
    assert x[:, 1].max() == pytest.approx(1.0)  # held on the left
    assert 0.4 < x[:, 1].min() < 0.9
    assert np.isfinite(x).all()
