"""Programs that start, and end after their first step, for several engines."""

from __future__ import annotations

import os

from newtonsim.examples import asset_path

_ANT = os.fspath(asset_path("ant.xml"))
_ARM = os.fspath(asset_path("arm7.urdf"))

_FACADE = f"""
import {{module}} as p
p.connect(p.DIRECT)
p.setGravity(0, 0, -9.81)
p.loadURDF({_ARM!r}, useFixedBase=True)
p.stepSimulation()
"""

_ROBOT = f"""
import newtonsim
from newtonsim.importers import parse_mjcf
builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
parse_mjcf({_ANT!r}, builder)
builder.set_ground_plane()
"""

PROGRAMS = {
    "import": {
        "newtonsim": "import newtonsim",
        "newtonsim's builder": "import newtonsim; newtonsim.ModelBuilder()",
        "MuJoCo": "import mujoco",
        "PyBullet": "import pybullet",
    },
    "ant, first step": {
        "newtonsim": _ROBOT
        + "model = builder.finalize('cpu')\n"
        + "newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 1 / 240).step(1)",
        "MuJoCo": f"import mujoco\nmodel = mujoco.MjModel.from_xml_path({_ANT!r})\n"
        + "mujoco.mj_step(model, mujoco.MjData(model))",
    },
    "arm, loadURDF and first step": {
        "newtonsim": _FACADE.format(module="newtonsim.pybullet_compat"),
        "PyBullet": _FACADE.format(module="pybullet"),
    },
    "ant, first gradient": {
        "newtonsim": _ROBOT
        + "import warp as wp\n"
        + "model = builder.finalize('cpu', requires_grad=True)\n"
        + "solver, start, end = newtonsim.FeatherstoneSolver(model), model.state(), model.state()\n"
        + "with wp.Tape() as tape:\n"
        + "    solver.step(model, start, end, None, None, 1 / 240)\n"
        + "end.joint_qd.grad.fill_(1.0)\n"
        + "tape.backward()",
    },
}
"""Source text by what is done and by engine."""

PEERS = {"ant, first step": "MuJoCo", "arm, loadURDF and first step": "PyBullet", "import": "MuJoCo"}
"""Whose time ours is divided by."""
