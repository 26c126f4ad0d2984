"""Muscles and activations of tendons against MuJoCo, and their gradients against finite differences."""

import math
import warnings
from itertools import pairwise

import mujoco
import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import ModelBuilder, Simulator
from newtonsim.actuators import Activation, ActuatedSolver, Actuators, tendon_actuators
from newtonsim.builder import TendonMuscle
from newtonsim.errors import ModelError, NewtonsimError, UnsupportedElementWarning
from newtonsim.importers import parse_mjcf
from newtonsim.kernels.tendons import muscles
from newtonsim.solvers import FeatherstoneSolver, MuJoCoSolver
from newtonsim.utils import export_mjcf

DT = 0.002
NUMBERS = (0.7, 1.1, 50.0, 200.0, 0.4, 1.7, 1.2, 1.5, 1.3)
TEXT = """<mujoco><option timestep="0.002" integrator="Euler"/><worldbody>
  <site name="origin" pos=".25 0 0"/>
  <body name="arm"><joint name="elbow" axis="0 1 0" damping=".1" armature=".01"/>
    <inertial pos="0 0 -.2" mass="1" diaginertia=".02 .02 .02"/><site name="insertion" pos="0 0 -.1"/></body>
  </worldbody>
  <tendon><spatial name="path"><site site="origin"/><site site="insertion"/></spatial></tendon>
  <actuator>{}</actuator></mujoco>"""
SPATIAL = 'name="biceps" tendon="path" lengthrange=".15 .34"'
LAW = "0.7 1.1 50 200 0.4 1.7 1.2 1.5 1.3"
CASES = {
    "muscle": f'<muscle {SPATIAL} force="60"/>',
    "force by what it accelerates": f'<muscle {SPATIAL} scale="150"/>',
    "gear": '<muscle name="biceps" tendon="path" lengthrange=".3 .68" force="30" gear="2"/>',
    "smooth": f'<muscle {SPATIAL} force="60" tausmooth=".3" timeconst=".02 .06"/>',
    "on a joint": '<muscle name="biceps" joint="elbow" lengthrange="-1 1" force="9"/>',
    "on a joint, reversed": '<muscle name="biceps" joint="elbow" lengthrange="-1 1" gear="-1" scale="20"/>',
    "in general terms": f'<general {SPATIAL} dyntype="muscle" dynprm=".01 .04" gaintype="muscle" '
    f'gainprm="{LAW}"'
    f' biastype="muscle" biasprm="{LAW}"/>',
    "range of forces": f'<muscle {SPATIAL} force="60" forcerange="-15 15"/>',
    "early": f'<general {SPATIAL} dyntype="muscle" dynprm=".01 .04" gaintype="muscle" gainprm="{LAW}"'
    f' biastype="muscle" biasprm="{LAW}" actearly="true"/>',
    "no force": f'<muscle {SPATIAL} force="0"/>',
    "motor with a range of one side": '<motor tendon="path" gear="-8" ctrlrange="0 .7"/>',
    "motor with a bias and a range": '<general tendon="path" gainprm="-8" biastype="affine" biasprm="-2" '
    'ctrlrange=".2 1"/>',
    "motor with a filter": '<general tendon="path" dyntype="filter" dynprm=".05" gainprm="-8"/>',
}


def read(case: str) -> tuple[mujoco.MjModel, ModelBuilder, newtonsim.importers.ImportReport]:
    text = TEXT.format(CASES[case])
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = parse_mjcf(text, builder, mujoco_defaults=True)
    return mujoco.MjModel.from_xml_string(text), builder, report


def test_curves_are_mujocos():
    """Force over length and velocity, active and passive."""
    parameters = np.array(NUMBERS)
    low, high, force, _, lmin, lmax, vmax, fpmax, fvmax = NUMBERS
    span = np.array([0.2, 0.5])
    optimum = (span[1] - span[0]) / (high - low)
    for length in np.linspace(0.0, 1.6, 23):
        L = float(low + (length - span[0]) / optimum)
        passive = mujoco.mju_muscleBias(length, span, 1.0, parameters)
        np.testing.assert_allclose(-force * muscles.passive_force(L, lmax, fpmax), passive, atol=1e-3)
        for rate in np.linspace(-2.0, 2.0, 17):
            active = mujoco.mju_muscleGain(length, rate, span, 1.0, parameters)
            own = muscles.force_of_length(L, lmin, lmax)
            own *= muscles.force_of_velocity(float(rate / (optimum * vmax)), fvmax)
            np.testing.assert_allclose(-force * own, active, atol=1e-3)


def test_slopes_of_curves_are_those_of_differences():
    """Away from where two pieces of a curve meet."""
    _, _, _, _, lmin, lmax, _, fpmax, fvmax = NUMBERS
    step = 1e-3
    for curve, slope, numbers in (
        (muscles.force_of_length, muscles.slope_of_length, (lmin, lmax)),
        (muscles.passive_force, muscles.slope_of_passive, (lmax, fpmax)),
        (muscles.force_of_velocity, muscles.slope_of_velocity, (fvmax,)),
    ):
        for x in (-1.2, -0.6, -0.1, 0.1, 0.2, 0.45, 0.6, 0.8, 0.95, 1.1, 1.3, 1.45, 1.6, 1.9):
            wanted = (curve(x + step, *numbers) - curve(x - step, *numbers)) / (2.0 * step)
            np.testing.assert_allclose(slope(x, *numbers), wanted, atol=2e-3)


@pytest.mark.parametrize("case", [case for case in CASES if "motor" not in case])
def test_motion_by_forces_at_the_end_is_that_of_discrete(case: str):
    """MuJoCo's integrator takes damping and stiffness of muscles, if positive, at the end of a step."""
    theirs, builder, report = read(case)
    theirs.opt.integrator = int(mujoco.mjtIntegrator.mjINT_DISCRETE)
    model = builder.finalize("cpu")
    distances = {}
    for references in ("start", "end"):
        solver = FeatherstoneSolver(model, coriolis="start", references=references, tolerance=1e-7)
        activations = tendon_actuators(report.actuators, model.tendon_key)
        sim = Simulator(model, ActuatedSolver(solver, Actuators(model, {}, DT, tendons=activations)), DT)
        data, apart = mujoco.MjData(theirs), 0.0
        for n in range(500):
            data.ctrl[:] = 0.5 + 0.8 * math.sin(0.02 * n)
            sim.control.tendon_act.fill_(data.ctrl[0])
            sim.step()
            mujoco.mj_step(theirs, data)
            apart = max(apart, abs(float(sim.state.joint_q.numpy()[0] - data.qpos[0])))
        distances[references] = apart
    assert distances["end"] < 1e-5
    if case not in ("no force", "range of forces"):
        assert distances["start"] > 10.0 * distances["end"]


@pytest.mark.parametrize("make", [lambda model: FeatherstoneSolver(model, coriolis="start"), None])
@pytest.mark.parametrize("case", CASES)
def test_motion_is_that_of_mujoco(case: str, make):
    """A second under an excitation that swings beyond its range; forces are those at the starts of steps."""
    theirs, builder, report = read(case)
    model = builder.finalize("cpu")
    solver = MuJoCoSolver(model, use_mujoco=True, joint_damping=0.0) if make is None else make(model)
    activations = tendon_actuators(report.actuators, model.tendon_key)
    assert len(activations) == 1
    sim = Simulator(model, ActuatedSolver(solver, Actuators(model, {}, DT, tendons=activations)), DT)
    data = mujoco.MjData(theirs)
    own, other = [], []
    for n in range(500):
        data.ctrl[:] = 0.5 + 0.8 * math.sin(0.02 * n)
        sim.control.tendon_act.fill_(data.ctrl[0])
        sim.step()
        mujoco.mj_step(theirs, data)
        own.append(sim.state.joint_q.numpy()[0])
        other.append(data.qpos[0])
    assert (np.ptp(other) > 0.05) == (case != "no force")
    np.testing.assert_allclose(own, other, atol=1e-4)


def test_muscles_without_names_share_a_joint():
    """A pair of them pull against each other, and neither takes the name of a tendon of the file."""
    joint = '<muscle joint="elbow" lengthrange="-1 1" force="9" gear="{}"/>'
    text = TEXT.format(joint.format(1) + joint.format(-1)).replace("path", "elbow_muscle")
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parse_mjcf(text, builder)
    assert builder.tendon_key == ["elbow_muscle_2", "elbow_muscle_3"]
    np.testing.assert_allclose(np.array(builder.tendon_muscle)[:, muscles.FORCE], 9.0)


def test_a_force_by_scale_on_a_ball_joint_is_told():
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    text = TEXT.format(CASES["force by what it accelerates"]).replace(
        'name="elbow"', 'name="elbow" type="ball"'
    )
    with pytest.warns(UnsupportedElementWarning, match="what ball and free joints add to the force"):
        parse_mjcf(text.replace(' axis="0 1 0"', ""), builder)
    assert np.abs(np.array(builder.tendon_muscle)).max() < 1e6


def test_an_activation_without_dynamics_passes_its_command_on():
    _, builder, _ = read("muscle")
    model = builder.finalize("cpu")
    activation = Activation(dynamics="none", scale=2.0, offset=0.1)
    solver = ActuatedSolver(FeatherstoneSolver(model), Actuators(model, {}, DT, tendons={"*": activation}))
    sim = Simulator(model, solver, DT)
    for command in (0.25, 0.5, 0.0):
        sim.control.tendon_act.fill_(command)
        sim.step()
        assert solver.actuators.driven.tendon_act.numpy() == pytest.approx([2.0 * command + 0.1])


def test_worlds_have_activations_of_their_own():
    _, builder, report = read("muscle")
    scene = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(builder, 3)
    model = scene.finalize("cpu")
    activations = tendon_actuators(report.actuators, builder.tendon_key)
    solver = ActuatedSolver(FeatherstoneSolver(model), Actuators(model, {}, DT, tendons=activations))
    sim = Simulator(model, solver, DT)
    sim.control.tendon_act.assign(np.array([0.0, 0.5, 0.5], np.float32))
    sim.step(50)
    first, second, third = solver.actuators.driven.tendon_act.numpy()
    assert first == 0.0
    assert second == third
    assert 0.45 < second < 0.5
    sim.reset(world_mask=wp.array([False, True, False], dtype=bool, device="cpu"))
    sim.step(1)
    assert solver.actuators.driven.tendon_act.numpy()[1] == 0.0


def total(model, values: dict[str, np.ndarray], gradient: bool, references: str):
    """Angle after a few steps, and its gradients; `values` replace arrays of model, control and state."""
    activation = Activation(time_constant=0.02, release=0.05, smoothing=0.4)
    actuators = Actuators(model, {}, DT, tendons={"*": activation})
    solver = ActuatedSolver(FeatherstoneSolver(model, references=references), actuators)
    control, states = model.control(), [model.state() for _ in range(9)]
    places = {"tendon_act": control, "joint_qd": states[0], "tendon_muscle": model}
    arrays = {name: getattr(place, name) for name, place in places.items()}
    for name, value in values.items():
        arrays[name].assign(value.astype(np.float32))
    loss = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    with wp.Tape() as tape:
        for before, after in pairwise(states):
            solver.step(model, before, after, control, None, DT)
        wp.launch(take_first, 1, [states[-1].joint_qd], [loss], device="cpu")
    if not gradient:
        return float(loss.numpy()[0]), {}
    tape.backward(loss)
    return float(loss.numpy()[0]), {name: array.grad.numpy().copy() for name, array in arrays.items()}


@wp.kernel
def take_first(values: wp.array(dtype=float), loss: wp.array(dtype=float)):
    loss[0] = values[0]


@pytest.mark.parametrize("references", ["start", "end"])
def test_gradients_are_those_of_differences(references: str):
    """With respect to excitation, velocity, and force and length of a muscle, through its activation."""
    _, builder, _ = read("muscle")
    model = builder.finalize("cpu", requires_grad=True)
    row = model.tendon_muscle.numpy().copy()
    start = {"tendon_act": np.array([0.6]), "joint_qd": np.array([0.8]), "tendon_muscle": row}
    _, found = total(model, start, True, references)
    for name, place, step in (
        ("tendon_act", 0, 0.02),
        ("joint_qd", 0, 0.02),
        ("tendon_muscle", (0, muscles.FORCE), 1.0),
        ("tendon_muscle", (0, muscles.LENGTH_LOW), 0.002),
    ):
        sides = []
        for sign in (1.0, -1.0):
            moved = {key: value.copy() for key, value in start.items()}
            moved[name][place] += sign * step
            sides.append(total(model, moved, False, references)[0])
        wanted = (sides[0] - sides[1]) / (2.0 * step)
        assert abs(wanted) > 1e-5
        np.testing.assert_allclose(found[name][place], wanted, rtol=0.02)


def test_an_export_holds_the_muscle(tmp_path):
    """MuJoCo reads the same actuator from it, and so does the importer."""
    theirs, builder, _ = read("smooth")
    report = export_mjcf(builder, str(tmp_path / "arm.xml"))
    written = mujoco.MjModel.from_xml_path(report.path)
    for name in ("dyntype", "gaintype", "biastype", "trntype", "lengthrange"):
        own, other = getattr(written, f"actuator_{name}")[-1], getattr(theirs, f"actuator_{name}")[0]
        np.testing.assert_allclose(own, other, rtol=1e-6)
    dynamics, law = written.actuator_dynprm[-1], written.actuator_gainprm[-1]
    np.testing.assert_allclose(dynamics[:3], theirs.actuator_dynprm[0, :3], rtol=1e-6)
    used = [0, 1, 2, 4, 5, 6, 7, 8]  # without the scale, which counts where there is no force
    np.testing.assert_allclose(law[used], theirs.actuator_gainprm[0, used], rtol=1e-6)
    again = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parse_mjcf(report.path, again, **report.read_with)
    np.testing.assert_allclose(again.tendon_muscle[0], builder.tendon_muscle[0], rtol=1e-6)


@pytest.mark.parametrize(
    "options", [{"length_range": (0.2, 0.2)}, {"lmin": 1.2}, {"force": -1.0}, {"fvmax": 0.9}, {"vmax": 0.0}]
)
def test_wrong_muscles_are_refused(options: dict):
    with pytest.raises(ModelError, match="TendonMuscle: expected"):
        TendonMuscle(**{"force": 1.0, "length_range": (0.1, 0.2)} | options)


def test_what_tendons_cannot_have_is_refused():
    _, builder, _ = read("muscle")
    model = builder.finalize("cpu")
    with pytest.raises(NewtonsimError, match="expected Activation"):
        Actuators(model, {}, DT, tendons={"path": "fast"})
    with pytest.raises(NewtonsimError, match="already has one"):
        Actuators(model, {}, DT, tendons={"path": Activation(), "p*": Activation()})
    with pytest.raises(NewtonsimError, match="scale"):
        Activation(scale=math.nan)
