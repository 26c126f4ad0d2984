"""`density`, `viscosity` and `wind` of MJCF, by the stage Medium, agree with MuJoCo."""

import math
import re

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver, Medium

DT = 0.001

PAIR = """<mujoco><option timestep="0.001" {medium}/><worldbody>
<body name="plate" pos="0 0 2"><freejoint name="free"/>
  <geom type="box" size="0.1 0.2 0.03" euler="20 0 30" density="3000"/>
  <body name="rod" pos="0.1 0.2 0"><joint name="hinge" axis="0 1 0"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0.1 0" density="2000"/></body></body>
</worldbody></mujoco>"""

MEDIA = {
    "water": 'density="1000"',
    "honey": 'viscosity="10"',
    "wind": 'density="50" viscosity="0.1" wind="3 -1 2"',
}


def load(text: str) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.warns(
        newtonsim.UnsupportedElementWarning, match="of the medium, unless the solver has a Medium"
    ):
        parse_mjcf(text, builder, ignore_inertial_definitions=False, stiffness=0.0, damping=0.0, armature=0.0)
    return builder.finalize("cpu", requires_grad=False)


@pytest.mark.parametrize("medium", MEDIA.values(), ids=MEDIA)
def test_half_a_second_agrees_with_mujoco(medium: str):
    """A plate and a rod on a hinge tumble; without the medium they would be elsewhere."""
    text = PAIR.format(medium=medium)
    model = load(text)
    solver = FeatherstoneSolver(model, coriolis="start")
    solver.before_step = (Medium(model),)
    simulator = newtonsim.Simulator(model, solver, DT)
    state = simulator.state
    oracle = mujoco.MjModel.from_xml_string(text)
    oracle.opt.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
    data = mujoco.MjData(oracle)
    data.qvel[:] = 0.5, -0.4, 0.3, 1.0, 2.0, 3.0, 2.0
    state.joint_qd.assign(np.array([1.0, 2.0, 3.0, 0.5, -0.4, 0.3, 2.0], np.float32))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    simulator.step(500)
    mujoco.mj_step(oracle, data, 500)
    q = simulator.state.joint_q.numpy()
    np.testing.assert_allclose(q[:3], data.qpos[:3], atol=1e-4)
    assert q[7] == pytest.approx(data.joint("hinge").qpos[0], abs=1e-4)
    oracle.opt.density = oracle.opt.viscosity = 0.0
    mujoco.mj_resetData(oracle, data)
    data.qvel[:] = 0.5, -0.4, 0.3, 1.0, 2.0, 3.0, 2.0
    mujoco.mj_step(oracle, data, 500)
    assert np.linalg.norm(q[:3] - data.qpos[:3]) > 0.01


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("medium", MEDIA.values(), ids=MEDIA)
def test_a_long_step_agrees_with_mujoco(medium: str, alone: bool):
    """What MuJoCo's implicit integrator makes of drag in a step of 20 ms; explicit drag is mm apart."""
    text = PAIR.format(medium=medium).replace("0.001", "0.02")
    if alone:  # which has passes of its own
        text = re.sub(r'<body name="rod".*?</body>', "", text, flags=re.DOTALL)
    model = load(text)
    solver = FeatherstoneSolver(model, coriolis="middle" if alone else "start")
    solver.before_step = (Medium(model),)
    simulator = newtonsim.Simulator(model, solver, 0.02)
    state = simulator.state
    oracle = mujoco.MjModel.from_xml_string(text)
    oracle.opt.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
    data = mujoco.MjData(oracle)
    # no spin, so that it does not matter when velocity-dependent forces are evaluated
    data.qvel[:3] = start = 3.0, -2.0, 4.0
    qd = np.zeros(model.joint_dof_count, np.float32)
    qd[3:6] = start
    state.joint_qd.assign(qd)
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    simulator.step(1)
    mujoco.mj_step(oracle, data, 1)
    np.testing.assert_allclose(simulator.state.joint_q.numpy()[:3], data.qpos[:3], atol=1e-6)
    found = simulator.state.joint_qd.numpy()
    np.testing.assert_allclose(found[:3], data.qvel[3:6], atol=1e-4)
    np.testing.assert_allclose(found[6:], data.qvel[6:], atol=1e-4)


def cubes(worlds: int) -> newtonsim.Model:
    """A cube with edges of 0.2 m and a mass of 8 kg in each world."""
    cube = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    cube.add_shape_box(cube.add_body(), hx=0.1, hy=0.1, hz=0.1, density=1000.0)
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(cube, worlds, spacing=(0.0, 0.0, 0.0))
    return scene.finalize("cpu")


def test_falling_cubes_reach_the_speed_at_which_drag_bears_them():
    """m g = 2 ρ b² v² in each of two media, and m g = 6 π μ b v."""
    model = cubes(3)
    solver = FeatherstoneSolver(model)
    medium = Medium(model)
    medium.density.assign(np.array([1000.0, 4000.0, 0.0], np.float32))
    medium.viscosity.assign(np.array([0.0, 0.0, 100.0], np.float32))
    solver.before_step = (medium,)
    simulator = newtonsim.Simulator(model, solver, 0.01)
    simulator.step(500)
    weight = 8.0 * 9.81
    speeds = [math.sqrt(weight / (2.0 * rho * 0.01)) for rho in (1000.0, 4000.0)]
    speeds.append(weight / (6.0 * math.pi * 100.0 * 0.1))
    np.testing.assert_allclose(simulator.state.body_qd.numpy()[:, 5], np.negative(speeds), rtol=1e-4)


def test_a_thick_medium_stops_bodies_without_throwing_them_back():
    """Explicit forces of honey as thick as tar would grow a hundredfold from step to step."""
    model = cubes(1)
    solver = FeatherstoneSolver(model)
    solver.before_step = (Medium(model, density=1.0e5, viscosity=1.0e6),)
    simulator = newtonsim.Simulator(model, solver, 0.02)
    state = simulator.state
    state.body_qd.assign(np.array([[5.0, 0.0, 0.0, 10.0, 0.0, 0.0]], np.float32))
    newtonsim.eval_ik(model, state, state.joint_q, state.joint_qd)
    simulator.step(5)
    velocity = simulator.state.body_qd.numpy()[0]
    np.testing.assert_allclose(velocity[[0, 3]], 0.0, atol=1e-3)
    assert abs(velocity[5]) <= 9.81 * 0.02 * 1.001


@pytest.mark.parametrize(
    ("medium", "words"),
    [
        ({"density": -1.0}, "density: -1.0 is negative"),
        ({"viscosity": float("nan")}, "viscosity: nan should be a number"),
        ({"wind": (1.0, 2.0)}, r"wind: \(1.0, 2.0\) should be three numbers"),
        ({"density": "water"}, "density: 'water' should be a number"),
    ],
)
def test_impossible_media_are_refused(medium: dict, words: str):
    with pytest.raises(ModelError, match=words):
        Medium(cubes(1), **medium)
