"""Operational-space control: the accelerations of the hand that its efforts give, by pinocchio in float64."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from oracles.pinocchio_oracle import PinocchioOracle
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim.actuators import OperationalSpaceControl
from newtonsim.errors import ModelError, NewtonsimError
from newtonsim.examples import asset_path
from newtonsim.importers import parse_urdf
from newtonsim.kernels.actuators.operational_space import rotation_between
from newtonsim.runtime.launcher import Launcher
from newtonsim.solvers import FeatherstoneSolver

POINT = np.array([0.03, -0.02, 0.045])
HOME = [0.2, 0.5, -0.3, -1.2, 0.4, 1.2, 0.1]
SPAN = 1.0e-4
"""Half the time of differences [s]: in float64 their errors are 1e-8 of the accelerations."""
TOLERANCE = 1.0e-3
"""Of accelerations over the largest one: efforts are float32, and Λ has condition numbers of about 1e3."""

call = DeviceFunctions(__name__, rotation_between)


def arm() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    parse_urdf(
        asset_path("arm7.urdf"),
        builder,
        stiffness=0.0,
        damping=0.0,
        armature=0.1,
        enable_self_collisions=False,
    )
    builder.joint_q[:] = HOME
    builder.joint_effort_limit[:] = [np.inf] * len(builder.joint_effort_limit)
    return builder


class Arm:
    """One arm in a random state, its control, and what pinocchio says of it."""

    def __init__(self, seed: int, device: str, builder: newtonsim.ModelBuilder | None = None, **options):
        self.model = (builder or arm()).finalize(device)
        self.oracle = PinocchioOracle(self.model)
        self.rng = np.random.default_rng(seed)
        options = dict(regularisation=0.0, point=POINT) | options
        self.control = OperationalSpaceControl(self.model, "link_7", **options)
        self.body = self.model.body_key.index("link_7")
        self.simulator = newtonsim.Simulator(
            self.model, FeatherstoneSolver(self.model), 1e-3, before=self.control
        )
        state = self.simulator.state
        state.joint_q.assign(np.array(HOME, np.float32) + self.rng.uniform(-0.4, 0.4, 7).astype(np.float32))
        state.joint_qd.assign(self.rng.normal(size=7).astype(np.float32))
        newtonsim.eval_fk(self.model, state.joint_q, state.joint_qd, None, state)
        self.q, self.qd = (a.numpy().astype(float) for a in (state.joint_q, state.joint_qd))

    def draw_target(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw a target beside the hand, and return its pose, velocity and acceleration."""
        place, turn = self.frame(self.q)
        pose = np.concatenate([place + self.rng.uniform(-0.1, 0.1, 3), np.zeros(4)])
        pose[3:] = (Rotation.from_rotvec(self.rng.uniform(-0.4, 0.4, 3)) * turn).as_quat()
        rates = self.rng.normal(size=(2, 6))
        for array, values in (("target", pose), ("target_qd", rates[0]), ("target_qdd", rates[1])):
            getattr(self.control, array).assign(values[None].astype(np.float32))
        return pose, *rates

    def efforts(self) -> np.ndarray:
        self.control(Launcher(self.model, record_tape=False), self.simulator)
        return self.simulator.control.joint_f.numpy().astype(float)

    def frame(self, q: np.ndarray) -> tuple[np.ndarray, Rotation]:
        """Place and orientation of the task's frame."""
        pose = self.oracle.pose(q, self.body)
        turn = Rotation.from_quat(pose[3:])
        return pose[:3] + turn.apply(POINT), turn

    def accelerations(self, efforts: np.ndarray) -> np.ndarray:
        """Accelerations of the joints, with the damping that they have in the file."""
        passive = self.model.joint_damping.numpy() * self.qd
        return self.oracle.forward_dynamics(self.q, self.qd, efforts - passive)

    def task_motion(self, qdd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Velocity and acceleration of the task's frame on a path of the joints, by differences."""
        (p0, R0), (p1, R1), (p2, R2) = (
            self.frame(self.q + t * self.qd + 0.5 * t * t * qdd) for t in (-SPAN, 0.0, SPAN)
        )
        turns = (R1 * R0.inv()).as_rotvec(), (R2 * R1.inv()).as_rotvec()
        velocity = np.concatenate([(turns[0] + turns[1]), p2 - p0]) / (2.0 * SPAN)
        return velocity, np.concatenate([turns[1] - turns[0], p2 - 2.0 * p1 + p0]) / SPAN**2

    def pull(self, pose: np.ndarray, target_qd: np.ndarray, stiffness: np.ndarray, damping: np.ndarray):
        """K e + D ė with gains along the axes of the target."""
        place, turn = self.frame(self.q)
        axes = Rotation.from_quat(pose[3:])
        e = np.concatenate([(axes * turn.inv()).as_rotvec(), pose[:3] - place])
        rate = target_qd - self.task_motion(np.zeros(7))[0]

        def along(gains: np.ndarray, x: np.ndarray) -> np.ndarray:
            halves = (
                axes.apply(g * axes.inv().apply(part)) for g, part in zip(np.split(gains, 2), np.split(x, 2))
            )
            return np.concatenate(list(halves))

        return along(stiffness, e) + along(damping, rate)

    def task_inertia(self) -> np.ndarray:
        """Λ at the point, with a Jacobian by differences of poses."""
        J = np.zeros((6, 7))
        for k, step in enumerate(SPAN * np.eye(7)):
            (p0, R0), (p1, R1) = self.frame(self.q - step), self.frame(self.q + step)
            J[:, k] = np.concatenate([(R1 * R0.inv()).as_rotvec(), p1 - p0]) / (2.0 * SPAN)
        return np.linalg.inv(J @ np.linalg.solve(self.oracle.mass_matrix(self.q), J.T))


@pytest.fixture
def make(device: str) -> Callable[..., Arm]:
    return lambda seed, **options: Arm(seed, device, **options)


@pytest.mark.parametrize("seed", range(4))
def test_the_hand_accelerates_as_it_should(make: Callable[..., Arm], seed: int):
    stiffness, damping = np.arange(20.0, 80.0, 10.0), np.arange(4.0, 16.0, 2.0)
    one = make(seed, stiffness=stiffness, damping=damping)
    pose, target_qd, target_qdd = one.draw_target()
    expected = target_qdd + one.pull(pose, target_qd, stiffness, damping)
    found = one.task_motion(one.accelerations(one.efforts()))[1]
    np.testing.assert_allclose(found, expected, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(4))
def test_the_hand_is_a_spring_with_the_inertia_of_the_arm(make: Callable[..., Arm], seed: int):
    stiffness, damping = np.arange(200.0, 800.0, 100.0), np.arange(4.0, 16.0, 2.0)
    one = make(seed, stiffness=stiffness, damping=damping, decoupled=False)
    pose, target_qd, target_qdd = one.draw_target()
    expected = one.pull(pose, target_qd, stiffness, damping)
    acceleration = one.task_motion(one.accelerations(one.efforts()))[1]
    found = one.task_inertia() @ (acceleration - target_qdd)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(4))
def test_the_posture_does_not_move_the_hand(make: Callable[..., Arm], seed: int):
    one = make(seed, stiffness=40.0)
    one.draw_target()
    before = one.accelerations(one.efforts())
    one.control.posture.assign(one.rng.uniform(-1.0, 1.0, 7).astype(np.float32))
    one.control.posture_stiffness.fill_(50.0)
    after = one.accelerations(one.efforts())
    assert np.abs(after - before).max() > 3.0
    (_, still), (_, moved) = one.task_motion(before), one.task_motion(after)
    np.testing.assert_allclose(moved, still, atol=TOLERANCE * np.abs(after).max())


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_point_moves_as_it_should_and_its_body_turns_as_the_posture_wants(
    make: Callable[..., Arm], seed: int, decoupled: bool
):
    """The linear acceleration, or for a spring the mass of the point times it, Λ of a J of three rows."""
    stiffness, damping = np.array([30.0, 50.0, 70.0]), np.array([8.0, 10.0, 12.0])
    one = make(seed, rotations=False, stiffness=stiffness, damping=damping, decoupled=decoupled)
    pose, target_qd, target_qdd = one.draw_target()
    pull = one.pull(pose, target_qd, np.pad(stiffness, (3, 0)), np.pad(damping, (3, 0)))[3:]
    before = one.task_motion(one.accelerations(one.efforts()))[1]
    if decoupled:
        expected, found = target_qdd[3:] + pull, before[3:]
    else:
        mass = np.linalg.inv(np.linalg.inv(one.task_inertia())[3:, 3:])
        expected, found = pull, mass @ (before[3:] - target_qdd[3:])
    np.testing.assert_allclose(found, expected, atol=TOLERANCE * np.abs(expected).max())
    # orientation and rates of rotation of the target do not matter, but for the axes of gains
    one.control.target_qd.assign(np.concatenate([[9.0, 9.0, 9.0], target_qd[3:]])[None].astype(np.float32))
    one.control.target_qdd.assign(np.concatenate([[9.0, 9.0, 9.0], target_qdd[3:]])[None].astype(np.float32))
    one.control.posture.assign(one.rng.uniform(-1.0, 1.0, 7).astype(np.float32))
    one.control.posture_stiffness.fill_(50.0)
    qdd = one.accelerations(one.efforts())
    after = one.task_motion(qdd)[1]
    assert np.abs(after - before)[:3].max() > 1.0
    np.testing.assert_allclose(after[3:], before[3:], atol=TOLERANCE * np.abs(qdd).max())


def test_three_joints_bring_a_point_to_its_target(device: str):
    """A shoulder of two axes and an elbow; with ω = 10/s, 5e-6 of the way are left at 1.5 s."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    above, axes = -1, ((0, 0, 1), (0, 1, 0), (0, 1, 0))
    for number, axis in enumerate(axes):
        link = builder.add_body(key=f"link_{number}", mass=1.0, com=(0, 0, 0.15), I_m=0.01 * np.eye(3))
        place = ((0, 0, 0.3 * (number > 1)), (0, 0, 0, 1))
        builder.add_joint_revolute(above, link, parent_xform=place, axis=axis, target_ke=0.0, target_kd=0.0)
        above = link
    builder.joint_q[:] = [0.2, 0.5, 1.0]
    model = builder.finalize(device)
    control = OperationalSpaceControl(model, "link_2", point=(0, 0, 0.3), rotations=False, regularisation=0.0)
    target = control.target.numpy()
    target[0, :3] += [-0.1, 0.1, 0.05]
    control.target.assign(target)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0, before=control)
    simulator.step(360)
    hand = newtonsim.View(simulator, "link_2").bodies.q[0, 0]
    found = hand[:3] + Rotation.from_quat(hand[3:]).apply([0.0, 0.0, 0.3])
    np.testing.assert_allclose(found, target[0, :3], atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_armature_of_a_tendon_is_moved_as_well(make: Callable[..., Arm], seed: int):
    """The inertia has a JᵀJ more, with the constant J of a sum of coordinates."""
    armature, factors = 2.0, np.array([0.5, 0.0, -1.0, 0.8, 0.0, 0.3, 0.0])
    builder = arm()
    builder.add_tendon_fixed([(k, factor) for k, factor in enumerate(factors) if factor], armature=armature)
    one = make(seed, builder=builder, stiffness=40.0)
    pose, target_qd, target_qdd = one.draw_target()
    damping = np.full(6, 2.0 * np.sqrt(40.0))
    expected = target_qdd + one.pull(pose, target_qd, np.full(6, 40.0), damping)
    inertia = one.oracle.mass_matrix(one.q)
    forces = inertia @ one.accelerations(one.efforts())
    qdd = np.linalg.solve(inertia + armature * np.outer(factors, factors), forces)
    np.testing.assert_allclose(one.task_motion(qdd)[1], expected, atol=TOLERANCE * np.abs(expected).max())


def test_a_load_pushes_the_hand_as_far_as_a_spring(device: str):
    """Along the soft axis of a target that is turned, and along a stiff one, at the centre of mass."""
    builder = arm()
    point = builder.body_com[builder.body_key.index("link_7")]
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.replicate(builder, 2, spacing=(0, 0, 0))
    model = scene.finalize(device)
    stiffness = np.array([300.0, 300.0, 300.0, 2000.0, 2000.0, 500.0])
    control = OperationalSpaceControl(
        model, "link_7", point=point, decoupled=False, stiffness=stiffness, damping=(6, 6, 6, 100, 100, 100)
    )
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1.0 / 500.0, before=control)
    start = control.target.numpy().copy()
    axes = Rotation.from_quat(start[0, 3:]).as_matrix().T
    hands = newtonsim.View(simulator, "link_7")
    hands.bodies.f[0, 0, 3:], hands.bodies.f[1, 0, 3:] = 10.0 * axes[2], 10.0 * axes[0]
    simulator.step(1500)
    turn = Rotation.from_quat(hands.bodies.q[:, 0, 3:])
    away = hands.bodies.q[:, 0, :3] + turn.apply(np.tile(point, (2, 1))) - start[:, :3]
    expected = np.array([10.0 / 500.0 * axes[2], 10.0 / 2000.0 * axes[0]])
    # of the smallest way; the damping of joints is compensated, so that the arms have come to rest
    np.testing.assert_allclose(away, expected, atol=0.01 * 0.005)


def forty_arms(device: str, **options) -> tuple[newtonsim.Simulator, OperationalSpaceControl]:
    """Forty worlds with an arm and a ball that falls."""
    world = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    ball = world.add_body(key="ball", origin=((2, 0, 9), (0, 0, 0, 1)))
    world.add_shape_sphere(ball, radius=0.1)
    world.add_builder(arm())
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.replicate(world, 40, spacing=(0, 0, 0))
    model = scene.finalize(device)
    control = OperationalSpaceControl(model, "link_7", **options)
    target = control.target.numpy()
    target[:, :3] += np.random.default_rng(0).uniform(-0.1, 0.1, (40, 3))
    control.target.assign(target)
    return newtonsim.Simulator(
        model, FeatherstoneSolver(model), 1.0 / 240.0, threads=2, before=control
    ), control


def test_every_world_has_a_target_and_nothing_else_moves(device: str):
    simulator, control = forty_arms(device)
    simulator.step(360)
    hands = newtonsim.View(simulator, "link_7").bodies.q[:, 0]
    # critically damped with ω = 10/s: 5e-6 of the way is left after 1.5 s
    np.testing.assert_allclose(hands[:, :3], control.target.numpy()[:, :3], atol=2e-4)
    balls = newtonsim.View(simulator, "ball").bodies
    assert np.abs(newtonsim.View(simulator, "ball_free").joints.f[...]).max() == 0.0
    np.testing.assert_allclose(balls.qd[:, 0, 5], -9.81 * 1.5, rtol=1e-4)


def test_steps_replay_without_the_host(device: str):
    """Recorded steps give the same bits one by one and all at once, and Python is not asked again."""
    one, many = forty_arms(device)[0], forty_arms(device)[0]
    calls = []
    inner = one._before
    one._before = lambda launch, sim: (calls.append(1), inner(launch, sim))
    one.step(1)
    captured = len(calls)
    for _ in range(39):
        one.step()
    many.step(40)
    assert len(calls) == captured
    np.testing.assert_array_equal(one.state.joint_q.numpy(), many.state.joint_q.numpy())


def test_every_world_has_a_posture_of_its_own(device: str):
    simulator, control = forty_arms(device)
    launch = Launcher(simulator.model, record_tape=False)
    control(launch, simulator)
    before = simulator.control.joint_f.numpy().reshape(40, -1).copy()
    control.posture.assign(control.posture.numpy() + 0.3)
    stiffness = np.zeros(40, np.float32)
    stiffness[7] = 10.0
    control.posture_stiffness.assign(stiffness)
    control(launch, simulator)
    change = np.abs(simulator.control.joint_f.numpy().reshape(40, -1) - before).max(axis=1)
    assert np.flatnonzero(change > 1e-3).tolist() == [7]


def test_efforts_stay_within_their_limits(make: Callable[..., Arm]):
    one = make(0, stiffness=1.0e5)
    one.draw_target()
    free = one.efforts()
    limits = np.array([5.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0], np.float32)
    one.model.joint_effort_limit.assign(limits)
    np.testing.assert_allclose(one.efforts(), np.clip(free, -limits, limits), rtol=1e-5)


def test_rotation_vectors_are_those_of_scipy(device: str):
    rng = np.random.default_rng(1)
    start = Rotation.random(40, random_state=1)
    turn = Rotation.from_rotvec(rng.normal(size=(40, 3)) * np.logspace(-6, 0, 40)[:, None])
    # both signs of a quaternion are the same orientation
    quats = [start.as_quat() * (-1.0) ** np.arange(40)[:, None], (turn * start).as_quat()]
    arrays = [wp.array(q.astype(np.float32), dtype=wp.quat, device=device) for q in quats]
    found = np.reshape(call(device, rotation_between, *arrays), (40, 3))
    np.testing.assert_allclose(found, turn.as_rotvec(), atol=5e-7)


def test_another_model_of_equal_size_is_refused(device: str):
    control = OperationalSpaceControl(arm().finalize(device), "link_7")
    other = arm().finalize(device)
    with pytest.raises(ModelError, match="created for another model than the simulator's"):
        newtonsim.Simulator(other, FeatherstoneSolver(other), 1e-3, before=control)


def test_drives_that_pull_as_well_are_named(device: str):
    """In each world, among arms without drives; gains of efforts do nothing."""
    builder = arm()
    position, velocity = newtonsim.JOINT_MODE_TARGET_POSITION, newtonsim.JOINT_MODE_TARGET_VELOCITY
    builder.joint_axis_mode[:] = [newtonsim.JOINT_MODE_FORCE, position, velocity, *[position] * 4]
    builder.joint_target_ke[:] = [9.0, 9.0, *[0.0] * 5]
    builder.joint_target_kd[:] = [0.0, 0.0, 9.0, *[0.0] * 4]
    names = ", ".join(repr(name) for name in [builder.joint_key[j] for j in _joints_with_axes(builder)][1:3])
    with pytest.warns(UserWarning, match=f"joints {names} have drives, which pull as well") as caught:
        OperationalSpaceControl(builder.finalize(device), "link_7")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OperationalSpaceControl(arm().finalize(device), "link_7")


def _joints_with_axes(builder: newtonsim.ModelBuilder) -> list[int]:
    starts = [*builder.joint_axis_start, len(builder.joint_axis_mode)]
    return [j for j in range(len(builder.joint_key)) if starts[j + 1] > starts[j]]


def test_misuse_is_named(device: str):
    model = arm().finalize(device)
    for body, options, message in (
        ("hand", {}, "'hand' matches no bodies; there are 'world', 'base', 'link_1'"),
        ("link_*", {}, r"body 'link_\*': expected one in each world, got 7 in world 0"),
        ("link_7", {"stiffness": -1.0}, "stiffness: expected 6 numbers of at least 0, got -1.0"),
        ("link_7", {"stiffness": (1.0, 2.0)}, r"stiffness: expected 6 numbers, got \(1.0, 2.0\)"),
        ("link_7", {"point": (0, 0, np.nan)}, "point: expected 3 numbers"),
        ("link_7", {"stiffness": (1.0,) * 6, "rotations": False}, "stiffness: expected 3 numbers"),
        ("link_7", {"decoupled": False}, "damping: expected one with decoupled=False"),
        ("link_7", {"posture_damping": -2.0}, "posture_damping: expected a number of at least 0"),
        ("link_7", {"regularisation": -2.0}, "regularisation: expected a number of at least 0"),
        ("base", {}, "body 'base': no joint moves it"),
    ):
        with pytest.raises(NewtonsimError, match=message):
            OperationalSpaceControl(model, body, **options)
    floating = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    parse_urdf(asset_path("arm7.urdf"), floating, floating=True)
    with pytest.raises(NewtonsimError, match="has no angle or length: expected an arm on a fixed base"):
        OperationalSpaceControl(floating.finalize(device), "link_7")
