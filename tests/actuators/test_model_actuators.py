"""Actuators of the model in FeatherstoneSolver: beside MuJoCo, in worlds, and their gradients."""

import warnings
from itertools import pairwise

import mujoco
import numpy as np
import pytest
import warp as wp

from newtonsim import ModelBuilder, Simulator
from newtonsim.actuators import FileControls, solver_from_report
from newtonsim.builder import ActuatorLaw, ActuatorTarget
from newtonsim.errors import NewtonsimError, NotDifferentiableError, UnsupportedElementWarning
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

DT = 0.0005
BODIES = """<mujoco><option timestep="{dt}"/><worldbody><site name="w" pos=".3 .2 1.5" euler="20 30 0"/>
  <body name="a" pos="0 0 1"><joint name="j1" axis="0 1 0" damping=".1"/>
    <geom type="capsule" size=".05" fromto="0 0 0 .4 0 0"/>
    <body name="b" pos=".4 0 0"><joint name="j2" axis="0 0 1" damping=".1" ref=".2"/>
      <geom type="capsule" size=".05" fromto="0 0 0 .3 0 0"/><site name="s" pos=".2 .05 0" euler="10 40 5"/>
      <body name="c" pos=".3 0 0"><joint name="j3" type="ball" damping=".05"/>
        <geom type="box" size=".1 .05 .03" pos=".1 0 0"/><site name="s2" pos=".1 0 .05" euler="0 20 70"/>
      </body></body></body>
  <body name="f" pos="1 1 1" gravcomp="1"><freejoint name="free"/><geom type="box" size=".1 .2 .05"/>
    <site name="p" pos="0 .1 0"/></body></worldbody>
  <tendon><spatial name="t"><site site="w"/><site site="s"/></spatial>
    <fixed name="sum"><joint joint="j1" coef="2"/><joint joint="j2" coef="-1"/></fixed></tendon>
  <actuator>{actuators}</actuator></mujoco>"""
CASES = {
    "frame": '<general site="s" gear="3 -2 1 .2 .1 .3" gainprm="5"/>',
    "thruster": '<motor site="p" gear="0 0 3 .02 0 .03"/>',
    "against the world": '<position site="s2" refsite="w" gear="1 2 0 0 0 0" kp="5"/>',
    "turned against a frame": '<position site="s2" refsite="s" gear="0 0 0 1 .5 0" kp="1"/>',
    "against a frame that carries it": '<motor site="s2" refsite="s" gear="1 2 3 0 .3 0"/>',
    "ball": '<motor joint="j3" gear=".3 .2 .5"/><position joint="j3" gear="0 1 0" kp="1"/>'
    '<motor jointinparent="j3" gear=".1 .2 .3"/>',
    "free": '<motor joint="free" gear="3 2 5 .1 .02 .03"/>'
    '<motor jointinparent="free" gear="1 0 0 .03 .02 .01"/>',
    "crank": '<motor cranksite="s" slidersite="w" cranklength=".9" gear="8"/>',
    "crank that is too short": '<motor cranksite="s" slidersite="w" cranklength=".1" gear="8"/>',
    "activations": '<general joint="j1" dyntype="filterexact" dynprm=".1" gainprm="5"/><general joint="j1" '
    'dyntype="integrator" actlimited="true" actrange="-.3 .2" gainprm="8" biastype="affine" '
    'biasprm="0 -1 -.01"/><general joint="j2" dyntype="filter" dynprm=".05" actearly="true" gainprm="2"/>'
    '<motor joint="j2" ctrlrange="-.1 .1" gear="3" forcerange="-.08 .09"/>',
    "tendons": '<general tendon="t" dyntype="filter" dynprm=".1" gainprm="-20"/><general tendon="t" '
    'dyntype="integrator" gainprm="3"/><general tendon="sum" dyntype="filterexact" dynprm=".2" '
    'gainprm="2" biastype="affine" biasprm=".1 -.5 0"/><motor tendon="sum"/>',
    "muscles": '<muscle tendon="t" lengthrange=".3 .9" force="10"/><muscle tendon="t" lengthrange=".2 1" '
    'scale="5"/>',
    "muscle of other passive force": '<general tendon="t" gaintype="muscle" '
    'gainprm=".75 1.05 20 200 .5 1.6 1.5 1.3 1.2" biastype="affine" biasprm="1 -3 0" lengthrange=".3 .9" '
    'dyntype="muscle" dynprm=".01 .04"/>',
    "gain that varies": '<general joint="j2" gaintype="affine" gainprm="2 .5 -.01" biastype="affine" '
    'biasprm=".1 -.2 -.01"/><motor joint="j2"/>',
}


def read(text: str, **options):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        report = parse_mjcf(
            text,
            builder,
            floating=None,
            mujoco_defaults=True,
            ensure_nonstatic_links=False,
            ignore_inertial_definitions=False,
            **options,
        )
    return builder, report


@pytest.mark.parametrize("case", CASES)
def test_motion_is_that_of_mujoco(case: str):
    """All bodies within a millimetre for a second, which the controls move by more than a centimetre."""
    text = BODIES.format(actuators=CASES[case], dt=DT)
    reference = mujoco.MjModel.from_xml_string(text)
    reference.opt.integrator = int(mujoco.mjtIntegrator.mjINT_DISCRETE)
    reference.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    moved, still = mujoco.MjData(reference), mujoco.MjData(reference)
    moved.ctrl[:] = np.linspace(0.7, 0.3, reference.nu)
    builder, report = read(text)
    model = builder.finalize("cpu")
    assert model.actuator_count > 0
    solver = solver_from_report(report, model, DT, coriolis="start")
    simulator = Simulator(model, solver, DT)
    FileControls(report, model).write(simulator.control, moved.ctrl)
    bodies = [report.bodies[name] for name in "abcf"]
    effect = 0.0
    for _ in range(10):
        for data in (moved, still):
            mujoco.mj_step(reference, data, 200)
            mujoco.mj_kinematics(reference, data)
        simulator.step(200)
        places = simulator.state.body_q.numpy()[bodies]
        np.testing.assert_allclose(places[:, :3], moved.xpos[1:], atol=1e-3)
        effect = max(effect, np.abs(moved.xpos - still.xpos).max(), np.abs(moved.xquat - still.xquat).max())
    assert effect > 0.01


def test_activations_start_as_in_a_keyframe():
    """An integrator and a filter on one hinge, whose activations are given, and a second from there."""
    text = """<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody><body name="a"><joint name="j"
      axis="0 1 0" damping=".1"/><inertial pos="0 0 0" mass="1" diaginertia=".1 .1 .1"/></body></worldbody>
      <actuator><general joint="j" dyntype="integrator" gainprm=".1"/><general joint="j" dyntype="filter"
      dynprm=".2" gainprm=".3"/></actuator>
      <keyframe><key name="k" qpos=".1" act=".4 .7" ctrl="-.5 .2"/></keyframe></mujoco>"""
    reference = mujoco.MjModel.from_xml_string(text)
    reference.opt.integrator = int(mujoco.mjtIntegrator.mjINT_DISCRETE)
    data = mujoco.MjData(reference)
    mujoco.mj_resetDataKeyframe(reference, data, 0)
    mujoco.mj_step(reference, data, 1000)
    builder, report = read(text, keyframe="k")
    model = builder.finalize("cpu")
    simulator = Simulator(model, solver_from_report(report, model, 0.001), 0.001)
    np.testing.assert_allclose(simulator.state.actuator_act.numpy(), [0.4, 0.7], rtol=1e-6)
    simulator.step(1000)
    np.testing.assert_allclose(simulator.state.joint_q.numpy(), data.qpos, atol=1e-4)
    np.testing.assert_allclose(simulator.state.actuator_act.numpy(), data.act, atol=1e-4)


def test_a_body_is_pressed_onto_what_it_touches():
    """A box under a ceiling stays there if it is pressed with more than its weight, and falls otherwise."""
    text = """<mujoco><worldbody><geom type="box" size="1 1 .1" pos="0 0 1.1"/>
      <body name="box" pos="0 0 .9005"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
      </worldbody><actuator><adhesion body="box" gain="20" ctrlrange="0 1"/></actuator></mujoco>"""
    heights = {}
    for ctrl in (1.0, 0.6, 0.4):
        reference = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(reference)
        data.ctrl[0] = ctrl
        mujoco.mj_step(reference, data, 150)
        builder, report = read(text)
        model = builder.finalize("cpu")
        simulator = Simulator(model, solver_from_report(report, model, 0.002), 0.002)
        FileControls(report, model).write(simulator.control, [ctrl])
        simulator.step(150)
        heights[ctrl] = float(simulator.state.body_q.numpy()[report.bodies["box"], 2])
        np.testing.assert_allclose(heights[ctrl], data.qpos[2], atol=5e-3)
    assert min(heights[1.0], heights[0.6]) > 0.895
    assert heights[0.4] < 0.6


def hover(worlds: int, early: bool = False) -> ModelBuilder:
    """A ball that a filtered thruster on a site holds, in worlds at different places."""
    builder, world = ModelBuilder(up_vector=(0.0, 0.0, 1.0)), ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = world.add_body(mass=1.0, I_m=0.1 * np.eye(3), key="ball")
    world.add_joint_free(body)
    law = ActuatorLaw(gear=(0.0, 0.0, 9.81), dynamics_type="filterexact", dynamics=(0.1,), early=early)
    world.add_actuator(ActuatorTarget.SITE, law, bodies=(body, -1), key="thruster")
    builder.replicate(world, worlds, (2.0, 0.0, 0.0))
    return builder


def test_worlds_have_controls_and_activations_of_their_own():
    """v = -g t + g u (t - T (1 - exp(-t/T))) with the control u; a reset world starts without activation."""
    model = hover(3).finalize("cpu")
    simulator = Simulator(model, FeatherstoneSolver(model), 0.001, threads=2)
    controls, time, T = np.array([1.0, 2.0, 0.5]), 0.2, 0.1
    simulator.control.actuator_ctrl.assign(controls)
    simulator.step(200)
    risen = 1.0 - np.exp(-time / T)
    speeds = simulator.state.body_qd.numpy()[:, 5].copy()
    np.testing.assert_allclose(speeds, 9.81 * (controls * (time - T * risen) - time), atol=0.02)
    np.testing.assert_allclose(simulator.state.actuator_act.numpy(), controls * risen, rtol=1e-4)
    simulator.reset(np.array([True, False, False]))
    np.testing.assert_allclose(
        simulator.state.actuator_act.numpy(), controls * risen * np.array([0.0, 1.0, 1.0]), rtol=1e-4
    )
    saved = simulator.snapshot()
    simulator.step(20)
    first = simulator.state.body_qd.numpy().copy()
    saved.restore()
    simulator.step(20)
    np.testing.assert_array_equal(simulator.state.body_qd.numpy(), first)


@pytest.mark.parametrize("early", [False, True])
def test_the_activation_of_the_end_of_a_step_acts_in_it_if_it_is_early(early: bool):
    """v = (a g - g) h after a step from rest, with the activation a at its start or at its end."""
    model = hover(1, early).finalize("cpu")
    simulator = Simulator(model, FeatherstoneSolver(model), 0.01)
    simulator.control.actuator_ctrl.fill_(1.0)
    simulator.step()
    acting = (1.0 - np.exp(-0.1)) if early else 0.0
    np.testing.assert_allclose(simulator.state.body_qd.numpy()[0, 5], 9.81 * (acting - 1.0) * 0.01, rtol=1e-4)


@wp.kernel
def weigh(
    values: wp.array(dtype=float), act: wp.array(dtype=float), share: float, loss: wp.array(dtype=float)
):
    i = wp.tid()
    wp.atomic_add(loss, 0, (1.0 + 0.3 * float(i)) * values[i])
    if i < act.shape[0]:
        wp.atomic_add(loss, 0, share * act[i])


def total(model, values: dict[str, np.ndarray], gradient: bool):
    """A number that coordinates and activations after a few steps determine, and its gradients."""
    solver = FeatherstoneSolver(model)
    control, states = model.control(), [model.state() for _ in range(7)]
    places = {
        "actuator_ctrl": control,
        "joint_q": states[0],
        "joint_qd": states[0],
        "actuator_act": states[0],
    }
    arrays = {name: getattr(place, name) for name, place in places.items()}
    for name, value in values.items():
        arrays[name].assign(value.astype(np.float32))
    loss = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    with wp.Tape() as tape:
        for before, after in pairwise(states):
            solver.step(model, before, after, control, None, 0.004)
        end = states[-1]
        wp.launch(weigh, len(end.joint_qd), [end.joint_qd, end.actuator_act, 0.1], [loss], device="cpu")
    if not gradient:
        return float(loss.numpy()[0]), {}
    tape.backward(loss)
    return float(loss.numpy()[0]), {name: array.grad.numpy().copy() for name, array in arrays.items()}


@pytest.mark.parametrize(
    "cases",
    [
        ("frame", "thruster", "turned against a frame", "against a frame that carries it", "crank"),
        ("ball", "free", "activations", "gain that varies"),
        ("tendons", "muscles", "muscle of other passive force"),
    ],
)
def test_gradients_are_those_of_differences(cases: tuple[str, ...]):
    """With respect to controls, activations, coordinates and velocities."""
    actuators = "".join(CASES[case] for case in cases)
    builder, _ = read(BODIES.format(actuators=actuators, dt=DT))
    model = builder.finalize("cpu", requires_grad=True)
    rng = np.random.default_rng(3)
    q = model.joint_q.numpy().astype(np.float64)
    hinges = [0, 1]
    q[hinges] = 0.3, -0.4
    start = {
        "actuator_ctrl": rng.uniform(0.2, 0.6, model.actuator_count),
        "actuator_act": rng.uniform(0.2, 0.4, model.actuator_count),
        "joint_q": q,
        "joint_qd": rng.uniform(-1.0, 1.0, model.joint_dof_count),
    }
    _, found = total(model, start, True)
    scale = max(np.abs(grad).max() for grad in found.values())
    for name, places, step in (
        ("actuator_ctrl", range(model.actuator_count), 0.01),
        ("actuator_act", range(model.actuator_count), 0.01),
        ("joint_q", hinges, 0.005),
        ("joint_qd", range(model.joint_dof_count), 0.05),
    ):
        for place in places:
            sides = []
            for sign in (1.0, -1.0):
                moved = {key: value.copy() for key, value in start.items()}
                moved[name][place] += sign * step
                sides.append(total(model, moved, False)[0])
            wanted = (sides[0] - sides[1]) / (2.0 * step)
            np.testing.assert_allclose(found[name][place], wanted, rtol=0.02, atol=2e-3 * scale)
    assert max(np.abs(found[name]).max() for name in ("actuator_ctrl", "actuator_act")) > 1e-3


def test_what_is_not_modelled_is_named():
    """A muscle whose lengths MuJoCo's compiler finds is left out; presses have no gradient; no sleep."""
    muscle = '<muscle name="pull" tendon="t" force="10"/><motor tendon="t"/>'
    builder, report = read(BODIES.format(actuators=muscle, dt=DT))
    model = builder.finalize("cpu")
    with pytest.warns(
        UnsupportedElementWarning, match="ignores 1 actuators .*'pull', a muscle without length"
    ):
        FeatherstoneSolver(model)
    with pytest.warns(UnsupportedElementWarning, match="actuator 'pull', a muscle without lengthrange"):
        solver_from_report(report, model, DT)
    model = hover(1).finalize("cpu")
    with pytest.raises(NewtonsimError, match="sleep: not with actuators"):
        FeatherstoneSolver(model, sleep=True)
    builder = hover(1)
    builder.add_actuator(ActuatorTarget.BODY, ActuatorLaw(), bodies=(0, -1))
    model = builder.finalize("cpu", requires_grad=True)
    solver = FeatherstoneSolver(model)
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="contacts of a body have no gradient"):
        solver.step(model, model.state(), model.state(), model.control(), None, DT)
