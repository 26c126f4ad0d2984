"""Time constants of constraints that are shorter than a step, beside MuJoCo's integrator `discrete`."""

import mujoco
import numpy as np
import pytest

from newtonsim import ModelBuilder, Simulator
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

TEXT = """<mujoco><option timestep="0.02" gravity="0 0 -1"><flag contact="disable"/></option><worldbody>
  <body name="a"><joint name="j" axis="0 1 0" armature=".1" damping=".1" {joint}/>
    <inertial pos=".2 0 0" mass="1" diaginertia=".1 .1 .1"/><site name="p" pos=".4 0 0"/>
    <body name="b" pos=".4 0 0"><joint name="k" axis="0 1 0" damping=".1"/>
      <inertial pos=".2 0 0" mass="1" diaginertia=".1 .1 .1"/></body></body></worldbody>
  <tendon><fixed name="sum" {limit}><joint joint="j" coef="1"/><joint joint="k" coef="2"/></fixed></tendon>
  <equality>{equality}</equality></mujoco>"""
CASES = {
    "limit": {"joint": 'limited="true" range="20 90" solreflimit="{ref}" solimplimit=".5 .8 .6"'},
    "limit of a tendon": {"limit": 'limited="true" range=".3 2" solreflimit="{ref}"'},
    "coupling": {"equality": '<joint joint1="k" joint2="j" polycoef=".3 1 0 0 0" solref="{ref}"/>'},
    "tendon": {"equality": '<tendon tendon1="sum" polycoef=".3 0 0 0 0" solref="{ref}"/>'},
}


@pytest.mark.parametrize("ref", ["0.02 1", "0.005 1", "0.01 0.5", "0.01 3", "-900 -20", "-9000 -20"])
@pytest.mark.parametrize("case", CASES)
def test_motion_is_that_of_mujoco(case: str, ref: str):
    """Springs that would close a gap within less than a step are slower, unless they say their stiffness."""
    parts = {"joint": "", "equality": "", "limit": ""} | {
        name: text.format(ref=ref) for name, text in CASES[case].items()
    }
    text = TEXT.format(**parts)
    reference = mujoco.MjModel.from_xml_string(text)
    reference.opt.integrator = int(mujoco.mjtIntegrator.mjINT_DISCRETE)
    reference.opt.tolerance = 1e-14
    data = mujoco.MjData(reference)
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(text, builder, mujoco_defaults=True, ignore_inertial_definitions=False)
    model = builder.finalize("cpu")
    options = {"coriolis": "start", "references": "end", "iterations": 300, "tolerance": 1e-7}
    simulator = Simulator(model, FeatherstoneSolver(model, **options), 0.02)
    for _ in range(15):
        mujoco.mj_step(reference, data)
        simulator.step()
        np.testing.assert_allclose(simulator.state.joint_q.numpy(), data.qpos, atol=2e-4)
    assert np.abs(data.qpos).max() > 0.05
