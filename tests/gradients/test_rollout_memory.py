"""Long rollouts of many robots that stand on the ground, with gradients fit into memory."""

import os
import pathlib
import subprocess
import sys

import pytest

CODE = """
import pathlib
import numpy as np, warp as wp
wp.config.log_level = wp.LOG_ERROR
import newtonsim
from newtonsim import diff
from newtonsim.examples import asset_path
import rollout_scenes as scenes

one = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
options = {"ignore_inertial_definitions": False, "contact_restitution": 0.0}
newtonsim.utils.parse_mjcf(str(asset_path("quadruped.xml")), one, floating=None, **options)
home = one.keyframes[0]
one.joint_q[:], one.joint_act[:] = home["joint_q"], home["joint_act"]
builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
builder.replicate(one, 256)
builder.set_ground_plane(restitution=0.0)
model = builder.finalize("cpu", requires_grad=True)
steps = 1000
wrt = ("state.joint_q", "state.joint_qd", "control.joint_act")
loss = scenes.body_heights(model)
solver, options = newtonsim.FeatherstoneSolver(model), {"checkpoint": "sqrt", "warn": False}
rollout = diff.Rollout(model, solver, steps, 1.0 / 240.0, loss, wrt=wrt, **options)
targets = np.tile(model.joint_act.numpy(), (steps, 1))
result = rollout(model.state(), {"joint_act": targets})
assert np.isfinite(result.gradients["control.joint_act"].numpy()).all()
assert np.abs(result.gradients["state.joint_q"].numpy()).max() > 0.0
assert (result.state.body_q.numpy().reshape(256, -1, 7)[:, 0, 2] > 0.26).all()
# the maximum that getrusage tells is at least that of the process which this one was started from
status = pathlib.Path("/proc/self/status").read_text()
peak = int(status.split("VmHWM:")[1].split()[0])
print(peak * 1024, rollout.memory)
"""


@pytest.mark.slow
def test_a_thousand_steps_of_256_standing_quadrupeds():
    command = [sys.executable, "-c", CODE]
    paths = {"PYTHONPATH": str(pathlib.Path(__file__).parent)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=550, env=os.environ | paths)
    assert result.returncode == 0, result.stderr
    process, own = map(int, result.stdout.split()[-2:])
    print(f"{process / 1e6:.0f} MB for the process, {own / 1e6:.0f} MB of the rollout's")
    assert process < 7e8
    assert own < 1e8
