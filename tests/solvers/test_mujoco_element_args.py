"""What only MuJoCo models of an MJCF file, by `MuJoCoSolver(model, element_args=report.mujoco)`."""

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers import ImportReport, parse_mjcf
from newtonsim.solvers import MuJoCoSolver
from newtonsim.utils import export_mjcf

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


YIELDING = """<mujoco><compiler angle="radian"/><option timestep="0.002"/>
<default><geom solref=".01 1" friction="1 .005 .0001"/></default><worldbody>
<geom name="belt" type="box" size="2 1 .1" surfacevel=".4 .1 0 0 0 .3"/>
<geom name="ceiling" type="box" size="1 1 .1" pos="0 0 3" adhesion="40"/>
<body name="parcel" pos=".1 .2 .2"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
<body name="gecko" pos="0 0 2.801"><freejoint/><geom size=".1" mass="1"/></body>
<body name="wire" pos="5 0 2"><joint name="bend" axis="0 1 0" stiffness="3" springyield=".2" damping=".1"/>
  <geom type="capsule" size=".02" fromto="0 0 0 .3 0 0" mass="1"/></body>
<body name="slide" pos="6 0 2"><joint name="s" type="slide" axis="0 0 1"/><geom size=".05" mass="1"/></body>
</worldbody><tendon><fixed name="strap" stiffness="30" springyield=".1" damping="1">
<joint joint="s" coef="1"/></fixed></tendon></mujoco>"""


@pytest.mark.parametrize("what", ["surfacevel", "adhesion", "springyield"])
def test_belts_adhesion_and_plasticity_are_those_of_the_file(what: str):
    """With contacts; without each of them MuJoCo moves elsewhere. They act again after a reset."""

    def mujocos_motion(text: str) -> np.ndarray:
        model = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data, 250)
        mujoco.mj_kinematics(model, data)
        return data.xipos[1:].copy()

    expected = mujocos_motion(YIELDING)
    assert np.abs(expected - mujocos_motion(YIELDING.replace(f" {what}=", " user="))).max() > 0.02
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    settings = {"ignore_inertial_definitions": False, "stiffness": 0.0, "damping": 0.0, "floating": None}
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=f"{what}.*, unless MuJoCoSolver"):
        report = parse_mjcf(YIELDING, builder, mujoco_defaults=True, strict=True, **settings)
    model = builder.finalize("cpu")
    simulator = newtonsim.Simulator(model, MuJoCoSolver(model, element_args=report.mujoco, **OPTIONS), 0.002)
    for _ in range(2):
        simulator.step(250)
        poses = simulator.state.body_q.numpy().astype(float)
        com = poses[:, :3] + quat_rotate(poses[:, 3:], model.body_com.numpy())
        np.testing.assert_allclose(com, expected, atol=1e-5)
        simulator.reset()
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=f"mujoco_warp ignores .*{what}"):
        MuJoCoSolver(model, element_args=report.mujoco)


def test_belts_and_adhesion_come_back_from_an_export(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.warns(newtonsim.UnsupportedElementWarning):
        report = parse_mjcf(YIELDING, builder, floating=None)
    export_mjcf(builder, tmp_path / "out.xml", imported=report)
    given, again = (
        mujoco.MjModel.from_xml_string(YIELDING),
        mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml")),
    )
    for name in ("geom_surfacevel", "geom_adhesion"):
        values = [sorted(getattr(model, name).reshape(model.ngeom, -1).tolist()) for model in (given, again)]
        np.testing.assert_allclose(*values, atol=1e-6)
        assert np.any(values[0])
