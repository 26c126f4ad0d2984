"""Tendons that wrap around spheres and cylinders: lengths and moment arms of closed forms and of MuJoCo."""

import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim import TendonWrap
from newtonsim.importers import parse_mjcf
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard
from newtonsim.solvers import FeatherstoneSolver, MuJoCoSolver
from newtonsim.solvers.tendons import Tendons
from newtonsim.utils import export_mjcf

ARM = """<mujoco><default><geom contype="0" conaffinity="0"/></default><worldbody>
  <site name="w" pos="-.5 .1 1.2"/>
  <body name="a" pos="0 0 1"><joint name="ja" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 .4 0 0" size=".02" mass="1"/>
    <site name="s1" pos=".15 .02 .12"/><geom name="ball" size=".09" pos=".38 .01 .02" mass="0"/>
    <site name="o1" pos=".4 0 .2"/>
    <body name="b" pos=".4 0 0"><joint name="jb" axis="0 1 .2"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1"/><site name="s2" pos=".2 .03 .1"/>
      <geom name="cyl" type="cylinder" size=".07 .1" pos=".3 0 0" euler="80 20 0" mass="0"/>
      <site name="o2" pos=".3 0 -.15"/><site name="in" pos=".31 .01 0"/>
      <body name="c" pos=".3 0 0"><joint name="jc" axis="0 1 .2"/>
        <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1"/><site name="s3" pos=".2 .02 -.1"/>
      </body></body></body></worldbody>
  <tendon>
  <spatial name="shorter" {more}><site site="w"/><site site="s1"/><geom geom="ball"/><site site="s2"/>
    <geom geom="cyl"/><site site="s3"/></spatial>
  <spatial name="sided" {more}><site site="s1"/><geom geom="ball" sidesite="o1"/><site site="s2"/>
    <pulley divisor="2"/><site site="s2"/><geom geom="cyl" sidesite="o2"/><site site="s3"/></spatial>
  <spatial name="inside" {more}><site site="s1"/><geom geom="cyl" sidesite="in"/><site site="s3"/></spatial>
  </tendon></mujoco>"""
SPRINGS = 'stiffness="20" damping=".5" springlength=".4"'


def read(text: str) -> tuple[newtonsim.ModelBuilder, mujoco.MjModel]:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_there = {"ignore_inertial_definitions": False, "stiffness": 0.0, "damping": 0.0}
        report = parse_mjcf(text, builder, floating=None, **as_there)
    assert not report.entries
    return builder, mujoco.MjModel.from_xml_string(text)


class Measured:
    """Lengths of the tendons of a model and their moment arms."""

    def __init__(self, model):
        self.model, self.tendons = model, Tendons(model, None)
        self.motion, self.state = Motion(model, forces=False), model.state()

    def at(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lengths (n,) and moment arms (n, dofs) at coordinates."""
        model, state, tendons = self.model, self.state, self.tendons
        state.joint_q.assign(q.astype(np.float32))
        newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
        launch = Launcher(model, record_tape=False, shard=Shard(model).with_starts(tendons.starts))
        launch.place(self.motion, state.joint_q, state.joint_qd, state.body_q, state.body_qd)
        tendons.measure(launch, self.motion.kin, state.body_q, state.joint_q, state.joint_qd)
        J = np.zeros((model.tendon_count, model.joint_dof_count))
        J[tendons.view.entry_tendon.numpy(), tendons.view.entry_dof.numpy()] = tendons.motion.J.numpy()
        return tendons.motion.length.numpy().astype(np.float64), J


def moment_arms(mj: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    J = np.zeros((mj.ntendon, mj.nv))
    mujoco.mju_sparse2dense(J, data.ten_J.ravel(), mj.ten_J_rownnz, mj.ten_J_rowadr, mj.ten_J_colind.ravel())
    return J


def test_lengths_and_moment_arms_are_mujocos_in_random_poses():
    builder, mj = read(ARM.format(more='stiffness="1"'))
    measured, data = Measured(builder.finalize("cpu")), mujoco.MjData(mj)
    rng, wraps = np.random.default_rng(0), []
    for _ in range(60):
        q = rng.uniform(-1.5, 1.5, 3)
        data.qpos[:] = q
        mujoco.mj_forward(mj, data)
        lengths, J = measured.at(q)
        np.testing.assert_allclose(lengths, data.ten_length, rtol=0.0, atol=2.0e-6)
        np.testing.assert_allclose(J, moment_arms(mj, data), rtol=0.0, atol=2.0e-6)
        wraps.append(data.ten_wrapnum.tolist())
    # straight and wrapped, once and twice, by the side and through the inside
    assert {row[0] for row in wraps} >= {4, 6, 8}
    assert len({row[1] for row in wraps}) > 1
    assert {row[2] for row in wraps} == {2, 4}


def test_length_is_that_of_tangents_and_arc():
    """A circle of radius 0.3 between (-1, 0.1) and (1, 0.1); a cylinder besides climbs by 0.5."""
    tangent = np.sqrt(1.01 - 0.09)
    arc = 0.3 * (np.pi - 2.0 * np.arctan(0.1) - 2.0 * np.arccos(0.3 / np.sqrt(1.01)))
    flat = 2.0 * tangent + arc
    builder = newtonsim.ModelBuilder()
    start = (-1, (-1.0, 0.1, 0.0))
    builder.add_tendon_spatial([start, TendonWrap(-1, (0, 0, 0), 0.3), (-1, (1.0, 0.1, 0.0))])
    pillar = TendonWrap(-1, (0, 0, 0), 0.3, axis=(0, 0, 2))
    builder.add_tendon_spatial([start, pillar, (-1, (1.0, 0.1, 0.5))])
    # the other side: below the centre
    below = TendonWrap(-1, (0, 0, 0), 0.3, axis=(0, 0, 1), side=(-1, (0, -1, 0)))
    builder.add_tendon_spatial([start, below, (-1, (1.0, 0.1, 0.0))])
    longer = 2.0 * tangent + arc + 0.3 * 4.0 * np.arctan(0.1)
    # above the circle: through the inside, by its top
    inside = TendonWrap(-1, (0, 0, 0), 0.3, side=(-1, (0, 0.1, 0)))
    builder.add_tendon_spatial([(-1, (-1.0, 0.7, 0.0)), inside, (-1, (1.0, 0.7, 0.0))])
    wanted = [flat, np.hypot(flat, 0.5), longer, 2.0 * np.hypot(1.0, 0.4)]
    np.testing.assert_allclose(builder.tendon_spring_lower, wanted, rtol=1.0e-6)


def test_springs_move_an_arm_as_in_mujoco():
    builder, mj = read(ARM.format(more=SPRINGS))
    model, data = builder.finalize("cpu"), mujoco.MjData(mj)
    discrete = mujoco.mjtIntegrator.mjINT_DISCRETE
    mj.opt.timestep, mj.opt.integrator = 0.002, discrete
    ours = FeatherstoneSolver(model, coriolis="start")
    theirs = MuJoCoSolver(model, use_mujoco=True, integrator=int(discrete))
    states = model.state(), model.state()
    for _ in range(250):
        mujoco.mj_step(mj, data)
        ours.step(model, states[0], states[0], None, None, 0.002)
        theirs.step(model, states[1], states[1], None, None, 0.002)
    assert np.abs(data.qpos).max() > 0.5
    np.testing.assert_allclose(states[0].joint_q.numpy(), data.qpos, atol=1.0e-4)


def test_written_files_have_the_same_lengths(tmp_path):
    builder, mj = read(ARM.format(more=SPRINGS))
    model = builder.finalize("cpu")
    path = export_mjcf(model, tmp_path / "arm.xml").path
    again, theirs = read(Path(path).read_text())
    again = Measured(again.finalize("cpu"))
    solver = MuJoCoSolver(model, use_mujoco=True, joint_damping=0.0)
    rng = np.random.default_rng(1)
    for _ in range(5):
        q, found = rng.uniform(-1.5, 1.5, 3), []
        for one in (mj, theirs, solver.mj_model):
            data = mujoco.MjData(one)
            data.qpos[:] = q
            mujoco.mj_forward(one, data)
            found.append(data.ten_length.copy())
        np.testing.assert_allclose(found[1], found[0], atol=2.0e-6)
        np.testing.assert_allclose(found[2], found[0], atol=2.0e-6)
        np.testing.assert_allclose(again.at(q)[0], found[0], atol=2.0e-6)


WRONG = {
    "between two points": [(-1, (0, 0, 0)), TendonWrap(-1, (1, 0, 0), 0.1)],
    "radius 0 of a TendonWrap": [(-1, (0, 0, 0)), TendonWrap(-1, (1, 0, 0), 0.0), (-1, (2, 0, 0))],
    "has no direction": [(-1, (0, 0, 0)), TendonWrap(-1, (1, 0, 0), 0.1, (0, 0, 0)), (-1, (2, 0, 0))],
}


def test_points_beside_it_may_be_lists():
    builder, wrap = newtonsim.ModelBuilder(), TendonWrap(-1, (1, 0, 1), 0.1)
    for kind in (tuple, list):
        builder.add_tendon_spatial([kind((-1, (0, 0, 1))), wrap, kind((-1, (2, 0, 1)))])
    assert builder.tendon_spring_lower[0] == builder.tendon_spring_lower[1] > 2.0


@pytest.mark.parametrize("message", WRONG)
def test_wrong_wraps_are_named(message):
    with pytest.raises(newtonsim.ModelError, match=message):
        newtonsim.ModelBuilder().add_tendon_spatial(WRONG[message])


FILES = {
    "'cube' is neither": '<geom geom="cube"/><site site="s2"/>',
    "the geom 'none' is not defined": '<geom geom="none"/><site site="s2"/>',
    "the site 'none' is not defined": '<geom geom="ball" sidesite="none"/><site site="s2"/>',
    "must be between two sites": '<site site="s2"/><geom geom="ball"/>',
}


@pytest.mark.parametrize("message", FILES)
def test_wrong_files_are_refused(message):
    text = f"""<mujoco><worldbody><site name="s1"/><geom name="ball" size=".1"/>
      <geom name="cube" type="box" size=".1 .1 .1"/><site name="s2" pos="1 0 0"/>
      <body><joint/><geom size=".1" pos=".1 0 0"/></body></worldbody><tendon>
      <spatial stiffness="1"><site site="s1"/>{FILES[message]}</spatial></tendon></mujoco>"""
    with pytest.raises(newtonsim.ImportFileError, match=message) as error:
        parse_mjcf(text, newtonsim.ModelBuilder())
    assert error.value.line == 4
