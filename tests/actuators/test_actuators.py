"""Actuators against closed forms, MuJoCo and finite differences."""

import math
import warnings

import mujoco
import numpy as np
import pytest
import warp as wp

from newtonsim import ModelBuilder, Simulator, View
from newtonsim.actuators import (
    PD,
    PID,
    Activation,
    ActuatedSolver,
    Actuators,
    DCMotor,
    Delay,
    Drive,
    Effort,
    General,
    MotorCurve,
)
from newtonsim.diff import Rollout
from newtonsim.errors import ModelError, NewtonsimError, NotDifferentiableError
from newtonsim.scene.enums import JointMode
from newtonsim.solvers import FeatherstoneSolver, MuJoCoSolver, SemiImplicitSolver, XPBDSolver

DT = 0.002
INERTIA, MASS, ARM, G = 0.1, 1.0, 0.2, 9.81


def arm(device: str, worlds: int = 1, grad: bool = False, gravity: float = 0.0, joints: int = 1):
    """Hinges about the level x axis, each with a mass below it."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=-gravity)
    for number in range(joints):
        body = world.add_body(
            mass=MASS, com=(0.0, 0.0, -ARM), I_m=wp.mat33(*((INERTIA - MASS * ARM**2) * np.eye(3)).ravel())
        )
        world.add_joint_revolute(
            -1,
            body,
            axis=(1.0, 0.0, 0.0),
            armature=0.0,
            key=f"side_{number}/hinge",
            target_ke=30.0,
            target_kd=2.0,
            limit_lower=-1e3,
            limit_upper=1e3,
        )
    scene = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=-gravity)
    scene.replicate(world, worlds, spacing=(0.0, 0.0, 0.0))
    return scene.finalize(device, requires_grad=grad)


def simulate(model, entries, threads: int | None = None, solver=FeatherstoneSolver, substeps: int = 1):
    actuators = Actuators(model, entries, DT)
    solver = ActuatedSolver(solver(model), actuators)
    return Simulator(model, solver, DT * substeps, substeps=substeps, threads=threads), actuators


def test_what_the_solver_can_do_with_its_model_it_can_behind_actuators(device: str):
    """Bodies come and go without what earlier steps left of them; MuJoCo's model is a copy."""
    sim, _ = simulate(arm(device, worlds=2, gravity=G), {"*": PD(stiffness=5.0, damping=0.1)})
    arms, limits = View(sim), sim.solver.constraints.rows.dof.memory
    arms.joints.qd = 1.0
    arms.bodies.present.write(False, worlds=[1])
    sim.step(5)
    assert abs(sim.state.joint_q.numpy()[0]) > 1e-3
    assert sim.state.joint_q.numpy()[1] == 0.0
    limits.fill_(1.0)
    sim.solver.forget_bodies(np.array([0]))
    places = sim.solver.constraints.rows.dof.source_dof.numpy()
    np.testing.assert_array_equal(limits.numpy(), places)
    copied, _ = simulate(arm(device), {"*": PD(stiffness=5.0)}, solver=MuJoCoSolver)
    with pytest.raises(ModelError, match="copied the model"):
        View(copied).bodies.mass = 2.0


@pytest.mark.parametrize("entry", [Drive(), Activation(dynamics="none")], ids=["drive", "activation"])
def test_forces_of_users_act_besides_drives(device: str, entry):
    """(J + h (kd + h ke)) v⁺ = h f from rest, with the gains of the axis."""
    model = arm(device)
    model.joint_axis_mode.fill_(int(JointMode.TARGET_POSITION))
    sim, _ = simulate(model, {"*": entry})
    sim.control.joint_f.fill_(4.0)
    sim.step()
    wanted = DT * 4.0 / (INERTIA + DT * (2.0 + DT * 30.0))
    np.testing.assert_allclose(sim.state.joint_qd.numpy(), wanted, rtol=1e-5)


def test_dc_motor_runs_up_to_its_speed_without_load(device: str):
    """At full command J v' = stall (1 - v / v0): v = v0 (1 - exp(-t stall / (J v0)))."""
    sim, _ = simulate(arm(device), {"*": Effort(motor=MotorCurve.of_dc_motor(2.0, 30.0))})
    sim.control.joint_act.fill_(100.0)
    for n in (100, 300, 1000):
        sim.step(n)
        expected = 30.0 * (1.0 - math.exp(-sim.time * 2.0 / (INERTIA * 30.0)))
        # the torque is that of the start of a step: an error of first order
        assert sim.state.joint_qd.numpy()[0] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("speed", [-40.0, -10.0, 0.0, 12.0, 20.0, 29.0, 40.0])
@pytest.mark.parametrize("wanted", [-50.0, -1.0, 0.5, 50.0])
def test_motor_curve_limits_what_drives_and_what_brakes(device: str, speed: float, wanted: float):
    """By NumPy's interpolation on the side of the motion, and the torque at rest against it."""
    speeds, torques = (0.0, 10.0, 30.0), (8.0, 7.0, 1.0)
    sim, actuators = simulate(arm(device), {"*": Effort(motor=MotorCurve(speeds, torques))})
    sim.state.joint_qd.fill_(speed)
    sim.control.joint_act.fill_(wanted)
    sim.step()
    up, down = np.interp(max(speed, 0.0), speeds, torques), np.interp(max(-speed, 0.0), speeds, torques)
    assert actuators.driven.joint_f.numpy()[0] == pytest.approx(np.clip(wanted, -down, up), rel=1e-6)


def test_delay_gives_what_was_commanded_that_long_ago(device: str):
    """A ramp comes out as itself, shifted by a delay that is no whole number of steps."""
    sim, actuators = simulate(arm(device), {"*": Effort(delay=0.0127)})
    found, commands = [], []
    for n in range(30):
        commands.append(3.0 * n * DT)
        sim.control.joint_act.fill_(commands[-1])
        sim.step()
        found.append(actuators.driven.joint_f.numpy()[0])
    expected = 3.0 * np.maximum(np.arange(30) * DT - 0.0127, 0.0)
    # interpolation between the first command and itself: the kink is off by less than a step
    np.testing.assert_allclose(found[8:], expected[8:], atol=1e-6)
    assert found[:6] == [0.0] * 6


def test_random_delays_differ_between_worlds_and_are_those_of_the_seed(device: str):
    model = arm(device, worlds=64)
    entries = {"*": Drive(delay=Delay(0.005, 0.03))}
    first, again = Actuators(model, entries, DT), Actuators(model, entries, DT)
    other = Actuators(model, entries, DT, seed=1)
    delays = first.groups["*"].delay.numpy().copy()
    np.testing.assert_array_equal(delays, again.groups["*"].delay.numpy())
    assert np.all(delays != other.groups["*"].delay.numpy())
    assert delays.min() >= 0.005
    assert delays.max() <= 0.03
    assert len(np.unique(delays)) == 64
    # mean of 64 uniform numbers: 4 standard deviations
    assert abs(delays.mean() - 0.0175) < 4.0 * 0.025 / math.sqrt(12.0 * 64.0)


def test_worlds_that_start_anew_forget_and_draw_anew(device: str):
    model = arm(device, worlds=4)
    sim, actuators = simulate(model, {"*": Effort(delay=Delay(0.01, 0.02))})
    sim.control.joint_act.fill_(5.0)
    sim.step(20)
    before = actuators.groups["*"].delay.numpy().copy()
    sim.control.joint_act.fill_(1.0)
    sim.reset(np.array([False, True, False, True]))
    sim.step()
    # the first command of an episode is at once there, older worlds still feel the past
    np.testing.assert_array_equal(actuators.driven.joint_f.numpy(), [5.0, 1.0, 5.0, 1.0])
    changed = actuators.groups["*"].delay.numpy() != before
    np.testing.assert_array_equal(changed, [False, True, False, True])


def test_activation_follows_a_step_exponentially(device: str):
    sim, actuators = simulate(arm(device), {"*": Effort(activation=0.03)})
    sim.step()
    sim.control.joint_act.fill_(4.0)
    for n in range(1, 40):
        sim.step()
        expected = 4.0 * (1.0 - math.exp(-n * DT / 0.03))
        assert actuators.driven.joint_f.numpy()[0] == pytest.approx(expected, rel=1e-4)


def test_pd_is_mujocos_position_actuator(device: str):
    """MuJoCo's Euler step applies actuators with the state at its start, too."""
    text = f"""<mujoco><option timestep="{DT}" gravity="0 0 -{G}" integrator="Euler"/><worldbody><body>
        <joint name="j" axis="1 0 0"/>
        <inertial pos="0 0 {-ARM}" mass="{MASS}" diaginertia="{INERTIA - MASS * ARM**2} 1 1"/></body>
        </worldbody><actuator><position joint="j" kp="30" kv="2"/></actuator></mujoco>"""
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    sim, _ = simulate(arm(device, gravity=G), {"*": PD()})
    for n in range(500):
        target = math.sin(5.0 * n * DT)
        sim.control.joint_act.fill_(target)
        data.ctrl[0] = target
        sim.step()
        mujoco.mj_step(theirs, data)
    assert sim.state.joint_q.numpy()[0] == pytest.approx(data.qpos[0], abs=2e-4)
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(data.qvel[0], abs=2e-3)


def test_pid_removes_what_pd_leaves(device: str):
    """At rest the PD holds kp (u - q) = m g l sin q; with an integral q = u, and ki s = m g l sin u."""
    model = arm(device, gravity=G, joints=2)
    entries = {"side_0/*": PD(), "side_1/*": PID(stiffness=30.0, damping=4.0, integral=60.0)}
    sim, actuators = simulate(model, entries)
    sim.control.joint_act.fill_(0.8)
    sim.step(6000)
    left, right = sim.state.joint_q.numpy()
    assert 30.0 * (0.8 - left) == pytest.approx(MASS * G * ARM * math.sin(left), abs=1e-3)
    assert right == pytest.approx(0.8, abs=1e-4)
    assert actuators.driven.joint_f.numpy()[1] == pytest.approx(MASS * G * ARM * math.sin(0.8), abs=1e-3)


def test_integral_sums_errors_over_time(device: str):
    """Effort ki Σ (u - q) dt of the states that steps began with."""
    sim, actuators = simulate(arm(device), {"*": PID(stiffness=0.0, damping=0.0, integral=40.0)})
    expected = 0.0
    for n in range(50):
        target = math.cos(0.1 * n)
        expected += 40.0 * DT * (target - sim.state.joint_q.numpy()[0])
        sim.control.joint_act.fill_(target)
        sim.step()
        assert actuators.driven.joint_f.numpy()[0] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert abs(expected) > 0.1


def test_integral_does_not_wind_up(device: str):
    """An integral cut off at 0.5 holds no more than that after a long error: the effort is the rest of it."""
    sim, actuators = simulate(
        arm(device), {"*": PID(stiffness=0.0, damping=0.0, integral=1e3, integral_limit=0.5)}
    )
    sim.control.joint_act.fill_(10.0)
    sim.step(10)
    assert actuators.driven.joint_f.numpy()[0] == pytest.approx(0.5)


def test_a_drive_behind_a_path_is_the_solvers_own(device: str):
    """Without delay it is the same to the bit; with one the solver gets what was given as many steps ago."""
    model = arm(device, gravity=G)
    bare = Simulator(model, FeatherstoneSolver(model), DT)
    sim, _ = simulate(arm(device, gravity=G), {"*": Drive()})
    late, actuators = simulate(arm(device, gravity=G), {"*": Drive(delay=5 * DT)})
    for n in range(100):
        for simulator in (bare, sim, late):
            simulator.control.joint_act.fill_(math.sin(0.1 * n))
            simulator.step()
        assert actuators.driven.joint_act.numpy()[0] == pytest.approx(math.sin(0.1 * max(n - 5, 0)), abs=1e-6)
    np.testing.assert_array_equal(bare.state.joint_q.numpy(), sim.state.joint_q.numpy())


def test_torque_at_the_limit_of_the_axis(device: str):
    model = arm(device)
    model.joint_effort_limit.fill_(1.5)
    sim, actuators = simulate(model, {"*": PD()})
    sim.control.joint_act.fill_(2.0)
    sim.step()
    assert actuators.driven.joint_f.numpy()[0] == 1.5
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(1.5 * DT / INERTIA, rel=1e-5)


@pytest.mark.parametrize("solver", [XPBDSolver, SemiImplicitSolver])
def test_other_solvers_feel_the_same_effort(device: str, solver):
    sim, _ = simulate(arm(device), {"*": Effort()}, solver=solver)
    sim.control.joint_act.fill_(1.0)
    sim.step(50)
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(50 * DT / INERTIA, rel=0.02)


def test_threads_and_graphs_give_the_bits_of_single_steps(device: str):
    entries = {"side_0/*": PD(delay=Delay(0.0, 0.02), activation=0.01), "side_1/*": PID(integral=3.0)}
    results = []
    for threads, steps in ((1, 1), (3, 20)):
        sim, _ = simulate(arm(device, 300, gravity=G, joints=2), entries, threads, substeps=2)
        for command in (0.7, -0.2):
            sim.control.joint_act.fill_(command)
            for _ in range(20 // steps):
                sim.step(steps)
        results.append(sim.state.joint_q.numpy().copy())
    np.testing.assert_array_equal(*results)
    assert len(np.unique(results[0][0::2])) > 250


def test_checkpoints_hold_what_actuators_remember(device: str, tmp_path):
    entries = {"*": PID(integral=3.0, delay=Delay(0.0, 0.02), activation=0.01)}
    sim, _ = simulate(arm(device, 3), entries)
    sim.control.joint_act.fill_(0.7)
    sim.step(7)
    sim.save(tmp_path / "held")
    sim.step(20)
    fresh, _ = simulate(arm(device, 3), {"*": PID(integral=3.0, delay=Delay(0.0, 0.02), activation=0.01)})
    fresh.restore(tmp_path / "held")
    fresh.step(20)
    np.testing.assert_array_equal(sim.state.joint_q.numpy(), fresh.state.joint_q.numpy())


def motion(model, actuators, states, controls) -> None:
    """Steps from state to state, with the actuators as they are at first."""
    solver = ActuatedSolver(FeatherstoneSolver(model), actuators)
    for before, after, control in zip(states, states[1:], controls):
        solver.step(model, before, after, control, None, DT)


@wp.kernel
def weigh_end(q: wp.array(dtype=float), qd: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, 3.0 * q[i] + wp.sin(q[i]) + 0.5 * qd[i])


ENTRIES = {
    "pd": lambda: PD(stiffness=30.0, damping=1.0),
    "path": lambda: PD(stiffness=30.0, damping=1.0, delay=2.6 * DT, activation=0.01),
    "pid": lambda: PID(stiffness=30.0, damping=1.0, integral=200.0, delay=DT),
    "motor": lambda: DCMotor(stiffness=30.0, damping=0.5, stall_torque=3.0, no_load_speed=9.0),
    "general": lambda: General(
        gain=(9.0, 0.5, -0.3), bias=(0.1, -8.0, -0.4), gear=1.3, dynamics="filterexact", time_constant=0.01
    ),
    "drive": lambda: Drive(delay=1.5 * DT, activation=0.02),
    "activation": lambda: Activation(dynamics="filter", time_constant=0.01, scale=1.4, offset=0.1),
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_gradients_of_a_motion_agree_with_differences(kind: str):
    """With respect to each command, and a parameter, of 12 steps; commands reach the end through memory."""
    steps, rng = 12, np.random.default_rng(0)
    given = rng.uniform(-0.5, 0.8, steps)
    if kind == "motor":
        # every other command asks for more than the motor has
        given = np.where(np.arange(steps) % 2 == 0, 1.0, rng.uniform(0.03, 0.08, steps))

    def run(commands, parameter: float = 1.0, tape: bool = False):
        model = arm("cpu", grad=True, gravity=G)
        actuators = Actuators(model, {"*": ENTRIES[kind]()}, DT)
        group = actuators.groups["*"]
        own = {"motor": "torques", "drive": "time_constant", "general": "gear", "activation": "time_constant"}
        array = getattr(
            group.view if kind in ("general", "activation") else group, own.get(kind, "stiffness")
        )
        array.assign(array.numpy() * parameter)
        states = [model.state() for _ in range(steps + 1)]
        controls = [model.control() for _ in range(steps)]
        for control, command in zip(controls, commands):
            control.joint_act.fill_(command)
        states[0].joint_qd.fill_(2.0)
        loss = wp.zeros(1, dtype=float, device="cpu", requires_grad=True)
        with wp.Tape() as record:
            motion(model, actuators, states, controls)
            wp.launch(weigh_end, 1, [states[-1].joint_q, states[-1].joint_qd], [loss], device="cpu")
        if not tape:
            return float(loss.numpy()[0])
        record.backward(loss)
        by_parameter = float((array.grad.numpy() * array.numpy()).sum())
        return np.array([c.joint_act.grad.numpy()[0] for c in controls]), by_parameter

    found, by_parameter = run(given, tape=True)
    step = 1e-2
    expected = []
    for n in range(steps):
        shift = step * np.eye(steps)[n]
        expected.append((run(given + shift) - run(given - shift)) / (2.0 * step))
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-3 * np.abs(expected).max())
    assert np.abs(expected).max() > 1e-4
    by_difference = (run(given, 1.0 + step) - run(given, 1.0 - step)) / (2.0 * step)
    assert by_parameter == pytest.approx(by_difference, rel=2e-2, abs=1e-4)


def test_rollouts_differentiate_actuators_without_memory():
    model = arm("cpu", grad=True, gravity=G)
    entry = DCMotor(stiffness=30.0, damping=0.5, stall_torque=3.0, no_load_speed=9.0)
    solver = ActuatedSolver(FeatherstoneSolver(model), Actuators(model, {"*": entry}, DT))

    def loss(state, losses):
        wp.launch(weigh_end, 1, [state.joint_q, state.joint_qd], [losses], device="cpu")

    rollout = Rollout(model, solver, 40, DT, loss, wrt=["control.joint_act"])
    commands = 0.05 * np.ones((40, 1), np.float32)
    found = rollout(model.state(), {"joint_act": commands}).gradients["control.joint_act"].numpy()
    for n in (0, 20, 39):
        values = []
        for sign in (1.0, -1.0):
            moved = commands.copy()
            moved[n] += sign * 0.03
            values.append(rollout.evaluate(model.state(), {"joint_act": moved}).losses.numpy()[0])
        assert found[n, 0] == pytest.approx((values[0] - values[1]) / 0.06, rel=2e-2)


def test_rollouts_refuse_actuators_with_memory():
    model = arm("cpu", grad=True)
    solver = ActuatedSolver(FeatherstoneSolver(model), Actuators(model, {"*": PD(delay=0.01)}, DT))
    with pytest.raises(NotDifferentiableError, match="remember"):
        Rollout(model, solver, 3, DT, wrt=["control.joint_act"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PD(delay=-0.01), "delay: expected a number of at least 0, got -0.01"),
        (lambda: Delay(0.02, 0.01), "delay: expected a number of at least 0.02, got 0.01"),
        (lambda: PD(delay=math.inf), "delay"),
        (lambda: PD(activation=math.nan), "activation"),
        (lambda: PD(stiffness=-1.0), "stiffness"),
        (lambda: PID(integral_limit=0.0), "integral_limit"),
        (lambda: MotorCurve((0.0, 1.0), (2.0, 3.0)), "torques that decrease"),
        (lambda: MotorCurve((0.0, 1.0), (2.0, 2.0)), "torques that decrease"),
        (lambda: MotorCurve((0.0, 0.0), (2.0, 1.0)), "speeds that increase"),
        (lambda: MotorCurve((0.0, 1.0), (2.0,)), "as many torques"),
        (lambda: DCMotor(stall_torque=0.0, no_load_speed=1.0), "stall_torque"),
        (lambda: DCMotor(stall_torque=1.0, no_load_speed=1.0, peak_torque=2.0), "peak_torque"),
        (lambda: Drive(motor=MotorCurve((0.0, 1.0), (2.0, 1.0))), "needs an effort"),
    ],
)
def test_wrong_numbers_are_refused_before_there_is_a_model(make, message: str):
    with pytest.raises(NewtonsimError, match=message):
        make()


def test_patterns_that_match_nothing_or_twice(device: str):
    model = arm(device, worlds=2, joints=2)
    with pytest.raises(
        NewtonsimError, match=r"'knee\*' matches no joints; there are 'side_0/hinge', 'side_1/hinge'$"
    ):
        Actuators(model, {"knee*": PD()}, DT)
    with pytest.raises(NewtonsimError, match="both 'side_0/\\*' and '\\*' name it"):
        Actuators(model, {"side_0/*": PD(), "*": PD()}, DT)
    with pytest.raises(NewtonsimError, match="expected an actuator"):
        Actuators(model, {"*": 3.0}, DT)
    solver = ActuatedSolver(FeatherstoneSolver(model), Actuators(model, {"*": PD()}, DT))
    with pytest.raises(NewtonsimError, match=r"created for solver steps of 0.002 s, got 0.004 s"):
        Simulator(model, solver, 2 * DT)
    free = ModelBuilder()
    free.add_joint_free(free.add_body(mass=1.0, I_m=wp.mat33(*np.eye(3).ravel())), key="root")
    with pytest.raises(NewtonsimError, match="joint 'root' has no angle or length"):
        Actuators(free.finalize(device), {"*": PD()}, DT)


def test_gains_that_steps_do_not_resolve_are_told(device):
    """Explicit damping multiplies a speed by 1 - h D / I per step: what |h D / I| > 2 makes grow is told."""
    bound = 2.0 * INERTIA / DT
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Actuators(arm(device, worlds=2), {"*": PD(stiffness=0.0, damping=0.98 * bound)}, DT)
        # symplectic steps resolve springs of up to (2 / h)² I
        Actuators(arm(device), {"*": PD(stiffness=0.98 * bound * 2.0 / DT, damping=0.0)}, DT)
        Actuators(arm(device), {"*": Drive()}, DT)
    model = arm(device, worlds=2, joints=2)
    gains = {"side_0/*": PD(damping=1.0), "side_1/*": PD(stiffness=0.0, damping=1.1 * bound)}
    with pytest.warns(UserWarning, match=r"gains of 'side_1/hinge' are .* a factor of 1\.2 per") as told:
        sim, _ = simulate(model, gains)
    assert len(told) == 1
    sim.state.joint_qd.fill_(1e-3)
    sim.step(10)
    speed = np.abs(sim.state.joint_qd.numpy().reshape(2, 2))
    np.testing.assert_allclose(speed[:, 1], 1e-3 * 1.2**10, rtol=1e-3)
    assert np.all(speed[:, 0] < 1e-3)


@pytest.mark.parametrize(("passive", "stable"), [(0.0, False), (30.0, True)])
def test_passive_damping_counts_where_gains_are_judged(device, passive: float, stable: bool):
    """It is implicit: the speed is multiplied by 1 - h D / (I + h B)."""
    model = arm(device)
    model.joint_damping.fill_(passive)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sim, _ = simulate(model, {"*": PD(stiffness=0.0, damping=2.2 * INERTIA / DT)})
    assert (not told) == stable
    sim.state.joint_qd.fill_(1e-3)
    sim.step(10)
    assert (abs(sim.state.joint_qd.numpy()[0]) < 1e-3) == stable
