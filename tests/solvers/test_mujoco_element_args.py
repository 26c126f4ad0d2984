"""What only MuJoCo models of an MJCF file, by `MuJoCoSolver(model, element_args=report.mujoco)`."""

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers import ImportReport, parse_mjcf
from newtonsim.solvers import MuJoCoSolver

FILE = """<mujoco><option timestep="0.002" density="1.2" viscosity="1e-3"/><worldbody>
<body name="arm" pos="0 0 2"><joint name="shoulder" axis="0 1 0" damping="0.1 0.2"/>
  <geom type="capsule" size="0.05" fromto="0 0 0 0.5 0 0"/>
  <body name="hand" pos="0.5 0 0" gravcomp="1">
    <joint name="elbow" axis="0 1 0" actuatorgravcomp="true" actuatorfrclimited="true"
      actuatorfrcrange="-1 1"/>
    <geom type="capsule" size="0.04" fromto="0 0 0 0.4 0 0"/></body></body>
<body name="bell" pos="1 0 2" quat="1 .2 0 0">
  <joint name="hook" type="ball" stiffness="3" damping=".01" range="0 40" solreflimit=".1 1" margin=".1"/>
  <geom type="box" size=".05 .1 .02" pos="0 .2 -.3"/></body>
<body name="leaf" pos="2 0 2" quat="1 .3 .2 0"><freejoint name="free"/>
  <geom type="ellipsoid" size=".1 .05 .005" mass=".01" contype="0" conaffinity="0" fluidshape="ellipsoid"/>
  </body>
</worldbody><tendon><fixed name="sum" armature=".3" frictionloss="0.4" solreffriction=".1 1">
  <joint joint="shoulder" coef=".5"/><joint joint="elbow" coef="1"/></fixed></tendon>
<actuator><motor joint="elbow" gear="2"/></actuator></mujoco>"""
OPTIONS = {"solver": "newton", "iterations": 100, "joint_damping": 0.0, "use_mujoco": True}


def read() -> tuple[newtonsim.ModelBuilder, ImportReport]:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    settings = {"ignore_inertial_definitions": False, "stiffness": 0.0, "damping": 0.0, "floating": None}
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=r"element_args=report\.mujoco"):
        return builder, parse_mjcf(FILE, builder, mujoco_defaults=True, **settings)


@pytest.fixture(scope="module")
def theirs() -> np.ndarray:
    """Places after half a second, in MuJoCo."""
    model = mujoco.MjModel.from_xml_string(FILE)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 250)
    mujoco.mj_kinematics(model, data)
    return data.xipos[1:].copy()


@pytest.mark.parametrize("apart", [True, False])
def test_half_a_second_is_that_of_the_file(apart, theirs):
    """In two worlds, as worlds of MuJoCo or in a single one."""
    builder, report = read()
    counts = {kind: len(found) for kind, found in report.mujoco.items()}
    assert counts == {"joint": 3, "geom": 1, "tendon": 1}
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(builder, 2, spacing=(0.0, 0.0, 0.0))
    model = scene.finalize("cpu")
    solver = MuJoCoSolver(
        model,
        separate_envs_to_worlds=apart,
        gravcomp=report.gravcomp,
        element_args=report.mujoco,
        disable_contacts=True,
        **OPTIONS,
    )
    simulator = newtonsim.Simulator(model, solver, 0.002)
    simulator.step(250)
    poses = simulator.state.body_q.numpy().astype(float)
    com = poses[:, :3] + quat_rotate(poses[:, 3:], model.body_com.numpy())
    for world in com.reshape(2, -1, 3):
        assert np.abs(world - theirs).max() < 1e-5


def test_what_is_not_there_is_refused():
    model = read()[0].finalize("cpu")
    for given, message in (
        ({"body": {0: {}}}, r"element_args: expected one of \['joint', 'tendon', 'geom'\], got 'body'"),
        ({"tendon": {1: {"armature": 1.0}}}, r"element_args: the model has 1 of 'tendon', got 1"),
        ({"joint": {0: {"colour": 1.0}}}, r"element_args: a joint of MjSpec has no attribute 'colour'"),
    ):
        with pytest.raises(ModelError, match=message):
            MuJoCoSolver(model, element_args=given, **OPTIONS)
