"""Tendons of FeatherstoneSolver move as MuJoCo's do, alone and in many worlds, and say what is wrong.

MuJoCo's integrator is `discrete`, in which springs, damping and servos of tendons are implicit, as here.
"""

import warnings
from typing import Literal

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim import dynamics
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

ARMS = """<mujoco><compiler angle="radian"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
  <site name="low" pos="0 .1 .5"/><site name="high" pos=".5 0 1.2"/>
  <body name="upper" pos="0 0 1"><joint name="a" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/><site name="s1" pos=".2 0 .05"/>
    <body name="lower" pos=".3 0 0"><joint name="b" axis="0 1 .3"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass=".6"/>
      <site name="s2" pos=".2 .02 .05"/></body>
  </body>
  <body name="other" pos="0 .5 1"><joint name="c" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/><site name="s3" pos=".2 0 0"/></body>
  </worldbody><tendon>{tendon}</tendon>{more}</mujoco>"""
FIXED = '<fixed name="t" {}><joint joint="a" coef=".7"/><joint joint="b" coef="-.4"/></fixed>'
SPATIAL = """<spatial name="t" {}><site site="low"/><site site="s1"/><site site="s2"/><pulley divisor="2"/>
  <site site="s3"/><site site="high"/></spatial>"""
TWO = (
    '<fixed name="t"><joint joint="a" coef=".7"/></fixed><fixed name="u"><joint joint="c" coef="1"/></fixed>'
)
AXES = [(0, 0.7), (1, -0.4)]
POINTS = [
    *[(-1, (0.0, 0.1, 0.5)), (0, (0.2, 0.0, 0.05)), (1, (0.2, 0.02, 0.05)), 2.0],
    *[(2, (0.2, 0.0, 0.0)), (-1, (0.5, 0.0, 1.2))],
]
POSITION = '<actuator><position tendon="t" kp="20" kv="1"/></actuator>'
MOTOR = '<actuator><motor tendon="t" gear="3" forcerange="-1 1" forcelimited="true"/></actuator>'


def fixed(**options):
    return lambda builder: builder.add_tendon_fixed(AXES, **options)


def spatial(**options):
    return lambda builder: builder.add_tendon_spatial(POINTS, **options)


def equal_to_a_number(builder) -> None:
    builder.add_tendon_equality(builder.add_tendon_fixed(AXES), coefficients=(0.1,), solref=(0.04, 1.0))


def equal_to_another(builder) -> None:
    builder.add_tendon_fixed([(0, 0.7)])
    builder.add_tendon_equality(builder.add_tendon_fixed([(2, 1.0)]), 0, (0.1, 0.5, 0.3))


def across_arms(builder) -> None:
    builder.add_tendon_equality(builder.add_tendon_spatial(POINTS), coefficients=(1.1,), solref=(0.05, 0.9))


CASES = {
    "fixed spring": (
        FIXED.format('stiffness="30" damping=".2" springlength=".3"'),
        "",
        fixed(stiffness=30.0, damping=0.2, spring_length=0.3),
    ),
    "spatial spring with slack": (
        SPATIAL.format('stiffness="200" damping="2" springlength=".5 .8"'),
        "",
        spatial(stiffness=200.0, damping=2.0, spring_length=(0.5, 0.8)),
    ),
    "spatial spring of its first length": (
        SPATIAL.format('stiffness="200" damping="2"'),
        "",
        spatial(stiffness=200.0, damping=2.0),
    ),
    "fixed limits": (
        FIXED.format('range="-.2 .3" solreflimit=".03 .8"'),
        "",
        fixed(limit_lower=-0.2, limit_upper=0.3, limit_solref=(0.03, 0.8)),
    ),
    "spatial limit": (
        SPATIAL.format('range="0 1.15" margin=".01"'),
        "",
        spatial(limit_lower=0.0, limit_upper=1.15, limit_margin=0.01),
    ),
    "equality": (
        FIXED.format(""),
        '<equality><tendon tendon1="t" solref=".04 1" polycoef=".1 0 0 0 0"/></equality>',
        equal_to_a_number,
    ),
    "equality of two": (
        TWO,
        '<equality><tendon tendon1="u" tendon2="t" polycoef=".1 .5 .3 0 0"/></equality>',
        equal_to_another,
    ),
    "position servo": (FIXED.format(""), POSITION, fixed(mode=1, target_ke=20.0, target_kd=1.0, action=0.5)),
    "motor at its largest force": (FIXED.format(""), MOTOR, fixed(effort_limit=3.0, action=6.0)),
}


def arms() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    as_there = {"floating": None, "ignore_inertial_definitions": False, "stiffness": 0.0, "damping": 0.0}
    parse_mjcf(ARMS.format(tendon="", more=""), builder, **as_there)
    return builder


def run(
    builder: newtonsim.ModelBuilder, steps: int, dt: float, references: Literal["start", "end"] = "start"
) -> np.ndarray:
    """Coordinates after each step; velocity-dependent forces are taken where MuJoCo takes them."""
    model = builder.finalize("cpu")
    solver, state = FeatherstoneSolver(model, coriolis="start", references=references), model.state()
    found = []
    for _ in range(steps):
        solver.step(model, state, state, None, None, dt)
        found.append(state.joint_q.numpy().copy())
    return np.array(found)


def run_mujoco(
    text: str, steps: int, dt: float, ctrl: float, integrator: str = "mjINT_DISCRETE", shift: float = 0.0
) -> np.ndarray:
    mj = mujoco.MjModel.from_xml_string(text)
    mj.opt.timestep, data = dt, mujoco.MjData(mj)
    mj.opt.integrator = getattr(mujoco.mjtIntegrator, integrator)
    data.ctrl[:] = ctrl
    data.qpos += shift
    found = []
    for _ in range(steps):
        mujoco.mj_step(mj, data)
        found.append(data.qpos.copy())
    return np.array(found)


@pytest.mark.parametrize("name", CASES)
def test_tendons_pull_as_in_mujoco(name: str):
    """Two arms that swing for 1 s, or as long as single precision follows a spring that whirls one about."""
    tendon, more, add = CASES[name]
    text, ctrl = ARMS.format(tendon=tendon, more=more), 2.0 if "motor" in name else 0.5
    theirs = run_mujoco(text, 500, 0.002, ctrl)
    beside = run_mujoco(text, 500, 0.002, ctrl, shift=2.0e-7)
    steps = int(np.argmax(np.append(np.abs(beside - theirs).max(axis=1) > 1.0e-4, True)))
    assert steps > 300
    free = run_mujoco(ARMS.format(tendon=FIXED.format(""), more=""), 500, 0.002, 0.0)
    assert np.abs(theirs - free).max() > 0.1
    builder = arms()
    add(builder)
    found = run(builder, steps, 0.002, "end")
    np.testing.assert_allclose(found, theirs[:steps], rtol=0.0, atol=2.0e-4)


def test_dry_friction_of_a_tendon_holds_up_to_its_bound():
    """An arm that hangs by the friction of a tendon about it moves where its weight is more."""
    for friction, moves in ((4.5, False), (4.0, True)):
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        body = builder.add_body(mass=1.0, com=(0.3, 0.0, 0.0), I_m=np.eye(3) * 0.01)
        builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), armature=0.0)
        builder.add_tendon_fixed([(0, 0.7)], friction=friction)  # holds 0.7 times its friction
        angle = run(builder, 100, 0.002)[-1, 0]
        assert (abs(angle) > 1.0e-3) == moves


@pytest.mark.parametrize("add", [spatial(stiffness=150.0), across_arms, spatial(limit_upper=1.15)])
def test_many_worlds_move_as_one(add):
    one = arms()
    add(one)
    many = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    many.replicate(one, 3, spacing=(2.0, 3.0, 0.0))
    alone, together = run(one, 100, 0.004), run(many, 100, 0.004)
    np.testing.assert_allclose(together.reshape(100, 3, -1), np.tile(alone[:, None], (3, 1)), atol=2.0e-4)


def test_simulator_captures_and_shards_tendons():
    one = arms()
    across_arms(one)
    many = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    many.replicate(one, 4, spacing=(2.0, 3.0, 0.0))
    model = many.finalize("cpu")
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model, coriolis="start"), dt=0.004)
    sim.step(50)
    np.testing.assert_allclose(sim.state.joint_q.numpy(), run(many, 50, 0.004)[-1], atol=1.0e-6)


def test_control_of_a_tendon():
    """A motor pulls by its control input: M q'' = J f at rest, without gravity."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    body = builder.add_body(mass=1.0, com=(0.3, 0.0, 0.0), I_m=np.eye(3) * 0.01)
    builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), armature=0.0)
    builder.add_tendon_fixed([(0, 0.7)])
    model = builder.finalize("cpu")
    control, state = model.control(), model.state()
    control.tendon_act.fill_(2.0)
    FeatherstoneSolver(model).step(model, state, state, control, None, 0.01)
    np.testing.assert_allclose(state.joint_qd.numpy(), 0.01 * 0.7 * 2.0 / (0.01 + 0.09), rtol=1.0e-5)


def slider(**tendon) -> newtonsim.ModelBuilder:
    """1 kg that slides, on a tendon of half its coordinate."""
    builder = newtonsim.ModelBuilder(gravity=0.0)
    body = builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_prismatic(-1, body, axis=(1.0, 0.0, 0.0), armature=0.0)
    builder.add_tendon_fixed([(0, 0.5)], **tendon)
    return builder


IMPLICIT = {
    "spring": ({"stiffness": 400.0}, 400.0, 0.0, 0.0),
    "spring and damping": ({"stiffness": 400.0, "damping": 20.0}, 400.0, 20.0, 0.0),
    "servo of length": ({"mode": 1, "target_ke": 300.0, "target_kd": 5.0, "action": 0.1}, 300.0, 5.0, 30.0),
    "servo of rate": ({"mode": 2, "target_ke": 30.0, "action": 0.4}, 0.0, 30.0, 12.0),
}
"""Options of a tendon, and its stiffness, its damping, and its force at length and rate zero."""


@pytest.mark.parametrize("name", IMPLICIT)
def test_forces_of_tendons_are_those_at_the_end_of_a_step(name: str):
    """(m + h c² (b + h k)) v⁺ = m v + h c (f - k c x), which is the implicit Euler method."""
    options, k, b, f = IMPLICIT[name]
    model, c, h, x, v = slider(**options).finalize("cpu"), 0.5, 0.02, 0.3, -1.2
    state = model.state()
    state.joint_q.assign([x])
    state.joint_qd.assign([v])
    FeatherstoneSolver(model).step(model, state, state, None, None, h)
    wanted = (v + h * c * (f - k * c * x)) / (1.0 + h * c * c * (b + h * k))
    np.testing.assert_allclose(state.joint_qd.numpy(), wanted, rtol=1.0e-5)


def test_a_servo_of_a_tendon_pulls_with_its_effort_limit():
    model = slider(mode=1, target_ke=1.0e4, action=1.0, effort_limit=6.0).finalize("cpu")
    state = model.state()
    FeatherstoneSolver(model).step(model, state, state, None, None, 0.01)
    np.testing.assert_allclose(state.joint_qd.numpy(), 0.01 * 0.5 * 6.0, rtol=1.0e-5)


@pytest.mark.parametrize("stiffness", [1.0e2, 1.0e5, 1.0e8])
def test_tendons_of_any_stiffness_are_stable(stiffness: float):
    """A tendon across two arms, 20 ms a step: energy does not grow, and a stiff tendon keeps its length."""
    builder = arms()
    builder.gravity = 0.0
    builder.add_tendon_spatial(POINTS, stiffness=stiffness)
    model = builder.finalize("cpu")
    state, solver = model.state(), FeatherstoneSolver(model)
    state.joint_qd.assign([1.0, -2.0, 1.5])
    start = dynamics.kinetic_energy(model, state).numpy().sum()
    for _ in range(200):
        solver.step(model, state, state, None, None, 0.02)
        assert dynamics.kinetic_energy(model, state).numpy().sum() < 1.01 * start
    assert np.isfinite(state.joint_q.numpy()).all()
    stretch = solver.constraints.tendons.motion.length.numpy() - model.tendon_spring_upper.numpy()
    assert abs(stretch[0]) < max(1.0e-4, 2.0 * np.sqrt(start / stiffness))


def test_three_chains_have_forces_but_no_limits():
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for _ in range(3):
        body = builder.add_body(mass=1.0, com=(0.3, 0.0, 0.0), I_m=np.eye(3) * 0.01)
        builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0))
    axes = [(axis, 1.0) for axis in range(3)]
    builder.add_tendon_fixed(axes, key="sum", stiffness=10.0)
    assert np.isfinite(run(builder, 10, 0.01)).all()
    builder.add_tendon_fixed(axes, key="limited", limit_upper=1.0)
    with pytest.raises(newtonsim.ModelError, match=r"tendon 'limited'.*at most two kinematic chains"):
        FeatherstoneSolver(builder.finalize("cpu"))


WRONG = {
    "no joint axis": lambda b: b.add_tendon_fixed([]),
    "fewer than two points": lambda b: b.add_tendon_spatial([(0, (0, 0, 0)), 2.0, (1, (0, 0, 0))]),
    "divisor -1": lambda b: b.add_tendon_spatial([(0, (0, 0, 0)), (1, (0, 0, 0)), -1.0]),
    "lower limit 1 is above upper limit 0": lambda b: b.add_tendon_fixed(AXES, limit_lower=1, limit_upper=0),
    "9 is not a valid axis": lambda b: b.add_tendon_fixed([(9, 1.0)]),
    "-1 is not a joint axis": lambda b: b.add_tendon_fixed([(-1, 1.0)]),
    "up to five coefficients, got 6": lambda b: b.add_tendon_equality(
        b.add_tendon_fixed(AXES), coefficients=[0.0] * 6
    ),
    "tendon_stiffness -1 is negative": lambda b: b.add_tendon_fixed(AXES, stiffness=-1.0),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_tendons_are_named(message: str):
    builder = arms()
    with pytest.raises(newtonsim.ModelError, match=message) as error:
        (WRONG[message](builder) and builder.finalize("cpu")) or builder.finalize("cpu")
    assert "tendon" in str(error.value)


@pytest.mark.parametrize("solver", [newtonsim.XPBDSolver, newtonsim.SemiImplicitSolver])
def test_other_solvers_name_tendons(solver: type):
    builder = arms()
    builder.add_tendon_fixed(AXES, stiffness=1.0)
    model = builder.finalize("cpu")
    state = model.state()
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="ignores tendons"):
        solver(model).step(model, state, state, None, None, 0.01)


def test_merged_bodies_keep_their_points():
    """A point on a body that a fixed joint welds to another one stays where it was."""
    found = []
    for collapse in (False, True):
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        body = builder.add_body(mass=1.0, com=(0.1, 0.0, 0.0), I_m=np.eye(3) * 0.01)
        builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0))
        tip = builder.add_body(mass=0.5, I_m=np.eye(3) * 0.001)
        builder.add_joint_fixed(body, tip, parent_xform=((0.3, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)))
        builder.add_tendon_spatial(
            [(tip, (0.1, 0.0, 0.0)), (-1, (0.0, 0.0, 1.0))], stiffness=50.0, spring_length=0.5
        )
        if collapse:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                builder.collapse_fixed_joints()
        found.append(run(builder, 50, 0.005)[-1])
    np.testing.assert_allclose(found[1], found[0], atol=1.0e-5)


def test_a_limit_on_damped_joints_differs_from_mujoco_by_the_step():
    """MuJoCo's force of a limit knows of damping at the start of the step, ours at its end."""
    text = """<mujoco><compiler angle="radian"/><worldbody><body pos="0 0 1">
      <joint name="a" axis="0 1 0" damping=".5"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/></body></worldbody><tendon>
      <fixed limited="true" range="-.2 .3"><joint joint="a" coef=".7"/></fixed></tendon></mujoco>"""
    errors = []
    for dt in (0.004, 0.001):
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        parse_mjcf(text, builder, floating=None, stiffness=0.0, damping=0.0)
        steps = round(0.6 / dt)
        errors.append(np.abs(run(builder, steps, dt) - run_mujoco(text, steps, dt, 0.0, "mjINT_EULER")).max())
    assert errors[0] < 2.0e-3
    assert 3.0 < errors[0] / errors[1] < 5.0
