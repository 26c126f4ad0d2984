"""Limits and contacts by solref and solimp move as they do in MuJoCo, and only where a model has such."""

import warnings

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

ARM = """<mujoco><compiler angle="radian"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
  <body pos="2 0 1"><joint name="shoulder" axis="0 1 0" range="-.5 .5" {limit}/>
    <geom type="capsule" fromto="0 0 0 .3 0 -.2" size=".03" mass="1"/>
    <body pos=".3 0 -.2"><joint name="elbow" axis="0 1 0" range="-.3 .6" {limit}/>
      <geom type="box" size=".1 .05 .02" mass=".5"/>
      <body pos=".1 0 0"><joint type="slide" axis="1 0 .2" range="-.02 .03" {limit}/>
        <geom size=".03" mass=".2"/></body></body></body></worldbody></mujoco>"""
LIMITS = {
    "sigmoid": 'solreflimit=".05 .7" solimplimit=".85 .97 .2 .3 2.5"',
    "margin": 'solreflimit=".03 1" margin=".02"',
    "margin alone": 'margin=".01"',
    "stiffness and damping": 'solreflimit="-300 -8" solimplimit=".8 .9 .05 .5 3"',
    "impedance alone": 'solimplimit=".5 .9 .1 .5 1"',
    "faster than the step allows": 'solreflimit=".001 1"',
}
LANDING = """<mujoco><option cone="elliptic"/><worldbody>
  <geom name="floor" type="plane" size="5 5 .1" {floor}/>
  <body pos="0 0 {height}"><freejoint/><geom name="thing" {thing}/></body></worldbody>
  <contact>{pair}</contact></mujoco>"""
BALL, BOX = 'size=".1" mass="2" ', 'type="box" size=".1 .15 .05" mass="2" '
SOFT = 'solref=".05 .4" solimp=".8 .95 .02 .5 2" '
PAIR = '<pair geom1="thing" geom2="floor" solref=".1 .2" solimp=".7 .9 .01 .5 2" condim="1"/>'


def twin(text: str, dt: float, seconds: float, speed=None, **options) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates after each step: ours, and MuJoCo's in our order."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", newtonsim.UnsupportedElementWarning)
        as_there = {"floating": None, "ignore_inertial_definitions": False, "contact_mu": 1.0}
        parse_mjcf(text, builder, stiffness=0.0, damping=0.0, **as_there)
    model = builder.finalize("cpu")
    solver, state, control = FeatherstoneSolver(model, **options), model.state(), model.control()
    mj = mujoco.MjModel.from_xml_string(text)
    mj.opt.timestep, data = dt, mujoco.MjData(mj)
    if speed is not None:
        data.qvel[:] = speed
        state.joint_qd.assign(np.roll(speed, 3).astype(np.float32) if len(speed) == 6 else speed)
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    ours, theirs = [], []
    for _ in range(round(seconds / dt)):
        solver.step(model, state, state, control, None, dt)
        mujoco.mj_step(mj, data)
        ours.append(state.joint_q.numpy().copy())
        theirs.append(data.qpos.copy())
    theirs = np.array(theirs)
    if mj.nq == 7:
        theirs = theirs[:, [0, 1, 2, 4, 5, 6, 3]]
    return np.array(ours), theirs


@pytest.mark.parametrize("dt", [0.005, 0.001])
@pytest.mark.parametrize("name", LIMITS)
def test_limits_give_way_as_in_mujoco(name: str, dt: float):
    """An arm falls into its limits. Velocity-dependent forces are taken where MuJoCo takes them.

    Over 1 s single precision leaves 1e-5 rad or m, and ten times that where limits as stiff as the step
    allows throw the arm back.
    """
    ours, theirs = twin(ARM.format(limit=LIMITS[name]), dt, 1.0, coriolis="start")
    assert theirs.max(axis=0)[0] > 0.4
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=5.0e-4 if "faster" in name else 5.0e-5)


LANDINGS = {
    "ball": {"thing": BALL + SOFT, "height": 0.3},
    "ball, stiffness and damping": {"thing": BALL + 'solref="-2000 -20"', "height": 0.3},
    "ball on another floor": {
        "thing": BALL + SOFT + 'margin=".02"',
        "floor": 'solref=".1 .5" solmix="3"',
        "height": 0.3,
    },
    "ball on a direct floor": {
        "thing": BALL + SOFT,
        "floor": 'solref="-1000 -30" solmix=".2"',
        "height": 0.3,
    },
    "ball on a floor that decides": {
        "thing": BALL + SOFT,
        "floor": 'solref=".1 .3" priority="2"',
        "height": 0.3,
    },
    "ball that decides": {"thing": BALL + SOFT + 'priority="1"', "floor": 'solref=".1 .3"', "height": 0.3},
    "pair": {"thing": BALL + SOFT, "pair": PAIR, "height": 0.3},
    "box": {"thing": BOX + SOFT, "height": 0.2},
}


@pytest.mark.parametrize("name", LANDINGS)
def test_contacts_give_way_as_in_mujoco(name: str):
    """Something falls on the ground; over 1 s single precision leaves 2e-5 m."""
    ours, theirs = twin(LANDING.format(**{"floor": "", "pair": "", **LANDINGS[name]}), 0.002, 1.0)
    assert theirs[:, 2].min() < LANDINGS[name]["height"] - 0.1
    np.testing.assert_allclose(ours[:, :3], theirs[:, :3], rtol=0.0, atol=2.0e-5)


SLIDES = {
    "no friction": {"thing": BALL + SOFT + 'condim="1"', "floor": 'condim="1"'},
    "what decides has no friction": {"thing": BALL + SOFT + 'condim="1" priority="1"', "floor": ""},
    "pair without friction": {"thing": BALL + SOFT, "pair": PAIR},
    "box with the friction of what decides": {
        "thing": BOX + SOFT + 'priority="1" friction=".1"',
        "height": 0.05,
    },
    "box on a rougher floor": {
        "thing": BOX + SOFT + 'friction=".1"',
        "floor": 'friction=".3"',
        "height": 0.05,
    },
}


@pytest.mark.parametrize("name", SLIDES)
def test_friction_follows_condim_priority_and_pairs(name: str):
    """Slides that MuJoCo sees, too. Its friction gives way until it has grown, by 1 mm here, and ours not."""
    values = {"floor": "", "pair": "", "height": 0.1, **SLIDES[name]}
    speed = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    ours, theirs = twin(LANDING.format(**values), 0.002, 0.5, speed, friction_combine="max")
    np.testing.assert_allclose(ours[:, 0], theirs[:, 0], rtol=0.0, atol=2.0e-3)


def test_condim_1_without_priority_keeps_the_friction_of_the_other():
    """A contact has the larger condim of both."""
    values = {"thing": BOX + SOFT + 'condim="1"', "floor": 'friction=".3"', "height": 0.05, "pair": ""}
    speed = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    ours, theirs = twin(LANDING.format(**values), 0.002, 0.5, speed, friction_combine="max")
    assert theirs[-1, 0] < 0.2
    np.testing.assert_allclose(ours[:, 0], theirs[:, 0], rtol=0.0, atol=2.0e-3)


def test_many_worlds_move_as_one():
    text = LANDING.format(thing=BALL + SOFT, floor='priority="0"', height=0.3, pair=PAIR)
    one = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(text, one, floating=None)
    many = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    many.replicate(one, 3, spacing=(2.0, 0.0, 0.0))
    heights = []
    for builder in (one, many):
        model = builder.finalize("cpu")
        solver, state = FeatherstoneSolver(model), model.state()
        for _ in range(100):
            solver.step(model, state, state, None, None, 0.005)
        heights.append(state.joint_q.numpy().reshape(-1, 7)[:, 2])
    np.testing.assert_allclose(heights[1], heights[0][0], rtol=0.0, atol=1.0e-6)


def add_hinge(builder: newtonsim.ModelBuilder, **axis) -> None:
    body = builder.add_body(mass=1.0, com=(0.3, 0.0, 0.0), I_m=np.eye(3) * 0.01)
    axis = newtonsim.JointAxis((0.0, 1.0, 0.0), limit_lower=-1.0, limit_upper=0.1, **axis)
    builder.add_joint_revolute(-1, body, axis=axis, armature=0.0)


def test_a_limit_at_rest_yields_by_its_softness():
    """At rest R f = -k r, with R, k and the impedance of MuJoCo's documentation."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    add_hinge(builder, limit_solref=(0.1, 1.0), limit_solimp=(0.8, 0.8, 0.001, 0.5, 2.0))
    model = builder.finalize("cpu")
    solver, state = FeatherstoneSolver(model), model.state()
    for _ in range(2000):
        solver.step(model, state, state, None, None, 0.002)
    angle = float(state.joint_q.numpy()[0])
    inertia = 0.01 + 0.3**2
    softness, stiffness = 0.25 / inertia, 0.8 / (0.8 * 0.1) ** 2
    torque = 9.81 * 0.3 * np.cos(angle)
    np.testing.assert_allclose(angle - 0.1, softness * torque / stiffness, rtol=1.0e-3)


WRONG = {
    "joint_limit_solref is [0.10000000149011612, -1.0]": {"limit_solref": (0.1, -1.0)},
    "joint_limit_solimp is [2.0": {"limit_solref": (0.1, 1.0), "limit_solimp": (2.0, 0.9, 0.1, 0.5, 2.0)},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_parameters_name_the_joint(message: str):
    builder = newtonsim.ModelBuilder()
    add_hinge(builder, **WRONG[message])
    with pytest.raises(newtonsim.ModelError) as error:
        builder.finalize("cpu")
    assert "joint 'joint_0'" in str(error.value)
    assert message in str(error.value)


def test_wrong_pairs_and_condims_name_the_shape():
    builder = newtonsim.ModelBuilder()
    ball = builder.add_shape_sphere(builder.add_body(), key="ball")
    builder.shape_condim[ball] = 2
    with pytest.raises(newtonsim.ModelError, match=r"shape 'ball': shape_condim is 2"):
        builder.finalize("cpu")
    builder.shape_condim[ball] = 0
    builder.add_contact_pair(ball, 7)
    with pytest.raises(newtonsim.ModelError, match=r"contact pair 0: shapes 7 is not a valid shape"):
        builder.finalize("cpu")


@pytest.mark.parametrize("solver", [newtonsim.XPBDSolver, newtonsim.VBDSolver, newtonsim.SemiImplicitSolver])
def test_other_solvers_name_what_they_leave_out(solver: type):
    builder = newtonsim.ModelBuilder()
    add_hinge(builder, limit_solref=(0.1, 1.0))
    model = builder.finalize("cpu")
    state = model.state()
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="joint_limit_solref"):
        solver(model).step(model, state, state, None, None, 0.01)
