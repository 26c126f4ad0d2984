"""How materials of two shapes become those of their contact."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, diagonal_inertia, z_up

from newtonsim import Simulator
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0
COMBINE = {"mean": lambda a, b: 0.5 * (a + b), "product": lambda a, b: a * b}


def on_plane(device: str, shape: str = "box", slope: float = 0.0, ground: dict | None = None, **material):
    """A body of 1 kg on a plane, gravity tilted by `slope` [rad]; returns the model."""
    world = z_up()
    inertia = 0.1
    body = world.add_body(origin=((0.0, 0.0, 0.5), (0.0, 0.0, 0.0, 1.0)), mass=1.0)
    world.body_inertia[body] = diagonal_inertia(inertia, inertia, inertia)
    world.add_joint_free(body)
    world.joint_q[2] = 0.5
    if shape == "box":
        world.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, density=0.0, **material)
    else:
        world.add_shape_sphere(body, radius=0.5, density=0.0, **material)
    world.set_ground_plane(**(ground or {}))
    model = world.finalize(device)
    model.gravity_vec.fill_(wp.vec3(GRAVITY * math.sin(slope), 0.0, -GRAVITY * math.cos(slope)))
    return model


@pytest.mark.parametrize("combine", sorted(COMBINE))
@pytest.mark.parametrize(("mu_body", "mu_ground"), [(0.8, 0.5), (0.3, 1.0)])
def test_slope_at_which_a_box_begins_to_slide(device: str, combine: str, mu_body: float, mu_ground: float):
    angle = math.atan(COMBINE[combine](mu_body, mu_ground))
    moved = []
    for slope in (0.99 * angle, 1.01 * angle):
        model = on_plane(device, slope=slope, mu=mu_body, ground={"mu": mu_ground})
        simulator = Simulator(model, FeatherstoneSolver(model, friction_combine=combine), DT)
        simulator.step(240)
        moved.append(float(simulator.state.joint_q.numpy()[0]))
    assert abs(moved[0]) < 1.0e-4
    assert moved[1] > 0.01


@pytest.mark.parametrize("combine", sorted(COMBINE))
def test_height_of_a_bounce(device: str, combine: str):
    model = on_plane(device, "sphere", restitution=0.9, ground={"restitution": 0.6})
    simulator = Simulator(model, FeatherstoneSolver(model, restitution_combine=combine), DT)
    q = simulator.state.joint_q.numpy().copy()
    q[2] = 1.5
    simulator.state.joint_q.assign(q)
    heights = []
    for _ in range(400):
        simulator.step()
        heights.append(float(simulator.state.joint_q.numpy()[2]) - 0.5)
    lowest = int(np.argmin(heights[:150]))
    e = COMBINE[combine](0.9, 0.6)
    assert max(heights[lowest : lowest + 200]) == pytest.approx(e * e * 1.0, rel=0.02)


@pytest.mark.parametrize("about", ["normal", "tangent"])
def test_torsion_and_rolling_with_products(device: str, about: str):
    """Each side's coefficient counts as often as the other one's friction says."""
    arm = 0.05 * 0.3 + 0.02 * 0.7
    model = on_plane(device, "sphere", mu=0.7, ground={"mu": 0.3})
    # the ground is the last shape
    {"normal": model.shape_mu_torsion, "tangent": model.shape_mu_rolling}[about].assign([0.05, 0.02])
    simulator = Simulator(model, FeatherstoneSolver(model, friction_combine="product"), DT)
    simulator.step(20)
    spinning = [0.0, 0.0, 10.0, 0.0, 0.0, 0.0] if about == "normal" else [0.0, 4.0, 0.0, 2.0, 0.0, 0.0]
    simulator.state.joint_qd.assign(spinning)
    simulator.step(24)
    qd = simulator.state.joint_qd.numpy()
    if about == "normal":
        torque = (10.0 - qd[2]) / (24 * DT) * 0.1
    else:
        # rolling: force and torque of friction together change the speed
        torque = (2.0 - qd[3]) / (24 * DT) * 0.5 * (1.0 + 0.1 / 0.25)
    assert torque == pytest.approx(arm * GRAVITY, rel=0.02)


@pytest.mark.parametrize(("ke_body", "ke_ground"), [(1000.0, 0.0), (0.0, 1000.0), (1000.0, 3000.0)])
def test_springs_only_where_a_shape_has_one(device: str, ke_body: float, ke_ground: float):
    """A sphere sinks in by its weight over the stiffness of the springs in series; rigid ones do not."""
    model = on_plane(device, "sphere", ke=ke_body, kd=50.0, ground={"ke": ke_ground, "kd": 30.0})
    simulator = Simulator(model, FeatherstoneSolver(model, contact_softness="shape"), DT)
    simulator.step(1500)
    stiffness = 1.0 / sum(1.0 / k for k in (ke_body, ke_ground) if k > 0.0)
    depth = 0.5 - float(simulator.state.joint_q.numpy()[2])
    assert depth == pytest.approx(GRAVITY / stiffness, rel=0.01)


def test_rigid_shapes_stay_rigid(device: str):
    model = on_plane(device, "sphere", ke=0.0, kd=50.0, ground={"ke": 0.0, "kd": 30.0})
    results = []
    for softness in ("shape", "rigid"):
        simulator = Simulator(model, FeatherstoneSolver(model, contact_softness=softness), DT)
        simulator.step(300)
        results.append(simulator.state.joint_q.numpy().copy())
    np.testing.assert_array_equal(*results)


def test_unknown_words_are_refused(device: str):
    model = on_plane(device)
    with pytest.raises(ValueError, match="friction_combine"):
        FeatherstoneSolver(model, friction_combine="largest")
