"""Several joints of one MJCF body: MuJoCoSolver gives them to one body, as the file does."""

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import MuJoCoSolver

OPTIONS = {"solver": "newton", "iterations": 100, "joint_damping": 0.0, "use_mujoco": True}
WATER = """<mujoco><compiler angle="radian"/>
<option timestep="0.002" density="500" viscosity=".1"/><worldbody>
<body name="trunk" pos="0 0 1"><joint name="root" axis="0 1 0"/>
  <geom name="g" type="capsule" size=".04" fromto="0 0 0 .3 0 0" density="800"/>
  <body name="fin" pos=".3 0 0" quat="1 .2 .1 0">{}
    <geom name="h" type="box" size=".2 .05 .01" pos=".2 0 .02" density="700"/>
    <body name="tip" pos=".4 0 0"><joint name="last" axis="0 0 1"/>
      <geom type="sphere" size=".05" pos=".1 0 0"/></body></body></body>
</worldbody></mujoco>"""
JOINTS = {
    "two hinges": '<joint name="a" axis="0 1 .2"/><joint name="b" axis="1 0 .3" pos=".05 .02 0" ref=".2"/>',
    "three hinges": (
        '<joint name="a" axis="0 1 0"/><joint name="b" axis="1 0 0" pos="0 .1 0"/>'
        '<joint name="c" axis="0 0 1" pos="0 0 .1"/>'
    ),
    "a slide after a hinge": '<joint name="a" axis="0 1 0"/><joint name="b" type="slide" axis="1 0 .2"/>',
    "a ball after a slide": (
        '<joint name="a" type="slide" axis="0 1 0"/><joint name="b" type="ball" pos=".1 0 0"/>'
    ),
}


def read(text: str, **more: object) -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    settings = {"ignore_inertial_definitions": False, "stiffness": 0.0, "damping": 0.0, "floating": None}
    parse_mjcf(text, builder, mujoco_defaults=True, **settings, **more)
    return builder


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("name", JOINTS)
def test_bodies_in_water_move_as_those_of_the_file(name: str, apart: bool):
    """MuJoCo's inertia boxes displace water; a body between two joints would be a box of its own."""
    text = WATER.format(JOINTS[name])
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    mujoco.mj_step(theirs, data, 250)
    mujoco.mj_kinematics(theirs, data)
    builder = read(text)
    assert builder.body_count > theirs.nbody - 1
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(builder, 2, spacing=(0.0, 0.0, 0.0))
    model = scene.finalize("cpu")
    solver = MuJoCoSolver(
        model, separate_envs_to_worlds=apart, disable_contacts=True, integrator="euler", **OPTIONS
    )
    worlds = 1 if apart else 2
    assert solver.mj_model.nbody - 1 == worlds * (theirs.nbody - 1)
    assert solver.mj_model.njnt == worlds * theirs.njnt
    simulator = newtonsim.Simulator(model, solver, 0.002)
    simulator.step(250)
    places = simulator.state.body_q.numpy()[:, :3].reshape(2, builder.body_count, 3)
    for body in ("trunk", "fin", "tip"):
        ours = places[:, builder.body_key.index(body)]
        np.testing.assert_allclose(ours, np.tile(data.body(body).xpos, (2, 1)), atol=1e-6)


def test_forces_on_a_link_act_on_the_body_that_it_carries():
    """Where the link is, added to what acts on the body itself."""
    text = WATER.format(JOINTS["two hinges"])
    builder = read(text)
    model = builder.finalize("cpu")
    solver, state = MuJoCoSolver(model, disable_contacts=True, **OPTIONS), model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    fin = builder.body_key.index("fin")
    link = fin - 1
    assert builder.body_key[link].startswith("fin__")
    rng = np.random.default_rng(0)
    wrenches = np.zeros((builder.body_count, 6), np.float32)
    wrenches[[link, fin]] = rng.uniform(-1.0, 1.0, (2, 6))
    state.body_f.assign(wrenches)
    poses = state.body_q.numpy().copy()
    solver.step(model, state, state, None, None, 0.002)
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    mujoco.mj_kinematics(theirs, data)
    arm = poses[link, :3] - data.body("fin").xipos
    torque = wrenches[[link, fin], :3].sum(axis=0) + np.cross(arm, wrenches[link, 3:])
    data.body("fin").xfrc_applied[:] = [*wrenches[[link, fin], 3:].sum(axis=0), *torque]
    mujoco.mj_step(theirs, data)
    np.testing.assert_allclose(solver.mj_data.qvel, data.qvel, atol=1e-6)


def test_a_link_that_carries_a_shape_is_a_body():
    builder = read(WATER.format(JOINTS["two hinges"]))
    link = builder.body_key.index("fin") - 1
    builder.add_shape_sphere(link, radius=0.01, density=0.0)
    solver = MuJoCoSolver(builder.finalize("cpu"), **OPTIONS)
    assert solver.mj_model.nbody == 1 + builder.body_count


@pytest.mark.parametrize("pair", ["", '<contact><pair geom1="g" geom2="h"/></contact>'])
def test_neighbours_touch_as_in_the_file(pair: str):
    """A trunk and a fin overlap; MuJoCo keeps parent and child apart, unless a pair names them."""
    text = WATER.format(JOINTS["two hinges"]).replace("</mujoco>", pair + "</mujoco>")
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    builder = read(text, enable_self_collisions=True)
    builder.keep_overlaps = True
    model = builder.finalize("cpu")
    solver, state = MuJoCoSolver(model, **OPTIONS), model.state()
    solver.step(model, state, state, None, None, 1e-6)
    mujoco.mj_forward(solver.mj_model, solver.mj_data)
    assert solver.mj_data.ncon == data.ncon
    assert (data.ncon > 0) == bool(pair)
    if not pair:  # MuJoCo's own filter keeps neighbours apart, not one more exclusion
        assert solver.mj_model.nexclude == 0
