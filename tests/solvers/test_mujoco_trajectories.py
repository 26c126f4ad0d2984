"""MuJoCoSolver moves a file's scene as MuJoCo itself does, compiled from the same file."""

import os
import warnings

import gymnasium
import mujoco
import numpy as np
import pytest

from newtonsim import ModelBuilder, Simulator, UnsupportedElementWarning
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import MuJoCoSolver

STEPS = 200
ASSETS = os.path.join(os.path.dirname(gymnasium.__file__), "envs", "mujoco", "assets")
HEAD = """<mujoco><compiler inertiafromgeom="true"/><option timestep="0.004" iterations="50" {option}/>
<default><geom friction="0.8 0.005 0.0001"/></default>
<asset>
  <mesh name="wedge" vertex="0 0 0  .3 0 0  0 .2 0  0 0 .15  .3 0 .15  0 .2 .15"/>
  <mesh name="top" vertex="0 0 -.15  .12 0 0  0 .12 0  -.12 0 0  0 -.12 0  0 0 .15" scale="1 1.2 0.8"/>
  <hfield name="hills" nrow="3" ncol="3" size="2 2 .04 .4" elevation="0 .2 0 .3 0 .1 0 .5 0"/>
</asset>
<worldbody>"""
TAIL = "</worldbody><actuator><motor joint='swing'/></actuator></mujoco>"
TEXTS = {
    # a wedge lands, slides down a slope and comes to rest, carrying a top that swings; another top tips over
    "meshes": HEAD.format(option="cone='elliptic'")
    + """
  <geom type="plane" size="1 1 1" euler="0 20 0"/>
  <body name="a" pos="0 0 .02" euler="5 3 40"><freejoint/><geom type="mesh" mesh="wedge"/>
    <body name="b" pos=".1 .05 .4"><joint name="swing" axis="1 .5 0" damping=".02"/>
      <geom type="mesh" mesh="top" pos=".02 0 0" quat="1 .2 .3 0" density="100"/></body></body>
  <body name="c" pos=".9 .3 .2"><freejoint/><geom type="mesh" mesh="top"/></body>"""
    + TAIL,
    # tumbling over hills, where contacts jump between features
    "hills": HEAD.format(option="")
    + """
  <geom type="hfield" hfield="hills" pos="0 0 -.05"/>
  <body name="a" pos="0 0 -.05" euler="20 10 40"><freejoint/><geom type="mesh" mesh="wedge"/>
    <body name="b" pos=".3 .05 .1"><joint name="swing" axis="1 .5 0" damping=".02"/>
      <geom type="mesh" mesh="top" pos=".12 0 0" quat="1 .2 .3 0"/></body></body>
  <body name="c" pos=".9 .3 .1"><freejoint/><geom type="mesh" mesh="top"/></body>"""
    + TAIL,
}


def scene(name: str) -> tuple[mujoco.MjModel, ModelBuilder, object]:
    """MuJoCo's model of a file, and a builder with what the importer reads from it and its report."""
    builder = ModelBuilder(up_vector=(0, 0, 1))
    # friction of geoms that name none is for the caller to say
    friction = 0.0 if name == "humanoid" else 1.0
    source = TEXTS.get(name) or os.path.join(ASSETS, f"{name}.xml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        report = parse_mjcf(
            source,
            builder,
            floating=None,
            ignore_inertial_definitions=False,
            enable_self_collisions=True,
            contact_mu=friction,
        )
    compile_model = mujoco.MjModel.from_xml_string if name in TEXTS else mujoco.MjModel.from_xml_path
    return compile_model(source), builder, report


def options_of(model: mujoco.MjModel) -> dict:
    """What the file says about solver and integrator, as arguments of MuJoCoSolver."""
    names = ("iterations", "ls_iterations", "tolerance", "ls_tolerance", "impratio")
    numbers = {name: getattr(model.opt, name) for name in names}
    choices = {name: int(getattr(model.opt, name)) for name in ("solver", "integrator", "cone")}
    return {**numbers, **choices, "joint_damping": 0.0, "use_mujoco": True}


def control_inputs(model: mujoco.MjModel) -> np.ndarray:
    return 0.3 * np.random.default_rng(0).uniform(-1.0, 1.0, (STEPS, model.nu))


def own_trajectory(model: mujoco.MjModel, start: np.ndarray) -> tuple[np.ndarray, int]:
    """MuJoCo's positions after each step, and the number of steps before the first contact."""
    data = mujoco.MjData(model)
    data.qpos[:] = start
    positions, contacts = [], []
    for inputs in control_inputs(model):
        data.ctrl[:] = inputs
        mujoco.mj_step(model, data)
        positions.append(data.qpos.copy())
        contacts.append(data.ncon)
    return np.array(positions), int(np.argmax(np.array(contacts) > 0))


@pytest.mark.parametrize("name", ["ant", "humanoid", "meshes", "hills"])
def test_trajectory_is_mujocos_own(name):
    """To 1e-5; where contacts jump between features no further apart than runs that begin 1e-6 apart."""
    own, builder, report = scene(name)
    model = builder.finalize(device="cpu")
    solver = MuJoCoSolver(model, **options_of(own))
    for count in ("nq", "nv", "nu", "nbody", "ngeom"):
        assert getattr(solver.mj_model, count) == getattr(own, count)
    start = own.qpos0.copy()
    start[2] += 0.3
    wanted, before = own_trajectory(own, start)
    rng = np.random.default_rng(1)
    nearby = [own_trajectory(own, start + 1e-6 * rng.standard_normal(own.nq))[0] for _ in range(24)]
    sensitivity = np.maximum.accumulate(np.max([np.abs(one - wanted).max(axis=1) for one in nearby], axis=0))
    state, control = model.state(), model.control()
    state.joint_q.numpy()[2] += 0.3
    axes = [(row, one["axis"], one["scale"], one["offset"]) for row, one in enumerate(report.actuators)]
    found = []
    for inputs in control_inputs(own):
        act = control.joint_act.numpy()
        for row, axis, scale, offset in axes:
            act[axis] = scale * inputs[row] + offset
        solver.step(model, state, state, control, None, own.opt.timestep)
        found.append(solver.mj_data.qpos.copy())
    error = np.abs(np.array(found) - wanted).max(axis=1)
    assert 10 < before < 150
    assert error[:before].max() < 1e-5
    assert (error[before:] <= sensitivity[before:]).all()
    if name != "hills":
        assert error.max() < 1e-5
    assert sensitivity[-1] < 1.0
    assert error.max() < 1e-4 or name == "hills"


def test_saved_model_is_the_converted_one(tmp_path):
    own, builder, _ = scene("meshes")
    path = str(tmp_path / "scene.xml")
    solver = MuJoCoSolver(builder.finalize(device="cpu"), save_to_mjcf=path, **options_of(own))
    saved = mujoco.MjModel.from_xml_path(path)
    start = own.qpos0.copy()
    start[2] += 0.3
    np.testing.assert_allclose(
        own_trajectory(saved, start)[0][:18], own_trajectory(solver.mj_model, start)[0][:18], atol=1e-5
    )
    assert saved.names == solver.mj_model.names


def test_simulator_steps_on_the_host():
    own, builder, _ = scene("ant")
    model = builder.finalize(device="cpu")
    state = model.state()
    solver = MuJoCoSolver(model, **options_of(own))
    for _ in range(20):
        solver.step(model, state, state, None, None, 0.005)
    simulator = Simulator(model, MuJoCoSolver(model, **options_of(own)), 0.01, substeps=2)
    simulator.step(4)
    simulator.step(6)
    assert np.array_equal(simulator.state.joint_q.numpy(), state.joint_q.numpy())
    assert np.array_equal(simulator.state.body_q.numpy(), state.body_q.numpy())
