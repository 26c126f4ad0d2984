"""Sensors of environments against what physics and geometry say they must read."""

import math

import numpy as np
import pytest
import torch
import warp as wp
from host_work import forbid_host_work
from scipy.spatial.transform import Rotation
from sensor_bench import (
    ARM,
    BOX_MASS,
    OFFSET,
    POSE,
    TILT,
    Bench,
    G,
    bench,
    observe_readings,
    put_state,
    score_nothing,
    still,
)

import newtonsim
from newtonsim import envs
from newtonsim.errors import NewtonsimError
from newtonsim.kinematics import eval_fk
from newtonsim.solvers import XPBDSolver


def test_imu_at_rest_feels_the_ground():
    env = bench(imu=envs.Imu("box", POSE))
    env.reset(seed=0)
    expected = TILT.inv().apply([0.0, 0.0, G])
    first = env.sensor("imu")[1].copy()
    np.testing.assert_allclose(first[:3], expected, atol=1e-4)
    still(env, 30)
    reading = env.sensor("imu")[1]
    np.testing.assert_allclose(reading[:3], expected, atol=5e-3)
    np.testing.assert_allclose(reading[3:6], 0.0, atol=1e-3)
    np.testing.assert_allclose(np.abs(reading[6:] @ TILT.as_quat()), 1.0, atol=1e-6)


def test_imu_in_free_fall_feels_nothing_but_its_arm():
    """A box that spins about its centre while it falls: the mount feels ω²r towards the centre alone."""
    env = bench(centre=envs.Imu("box"), off=envs.Imu("box", POSE))
    env.reset(seed=0)
    spin = np.array([3.0, 0.0, 0.0])
    put_state(env, [0.0, 0.0, 50.0, 0.0, 0.0, 0.0, 1.0, 0.0], [*spin, 1.0, -2.0, 3.0, 0.0])
    still(env, 3)
    np.testing.assert_allclose(env.sensor("centre")[0, :3], 0.0, atol=5e-3)
    # the axes of the box turn with the arm, so the force stays where it is in them
    expected = TILT.inv().apply([0.0, 0.0, -9.0 * OFFSET])
    np.testing.assert_allclose(env.sensor("off")[0, :3], expected, atol=0.01)
    np.testing.assert_allclose(env.sensor("off")[0, 3:6], TILT.inv().apply(spin), atol=1e-3)


def test_imu_at_rest_feels_the_gravity_of_its_own_world():
    env = bench(3, imu=envs.Imu("box"))
    env.reset(seed=0)
    newtonsim.View(env.sim).gravity = [[0.0, 0.0, -G], [0.0, 0.0, -1.62], [0.0, 0.0, -3.7]]
    still(env, 40)
    expected = [[0.0, 0.0, G], [0.0, 0.0, 1.62], [0.0, 0.0, 3.7]]
    np.testing.assert_allclose(env.sensor("imu")[:, :3], expected, atol=5e-3)


def test_imu_on_a_turning_arm_feels_the_centripetal_force():
    env = bench(imu=envs.Imu("arm", (ARM, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)))
    env.reset(seed=0)
    speed = 8.0
    put_state(env, [0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0] * 6 + [speed])
    still(env, 4)
    speed = env.sim.state.joint_qd.numpy()[6]
    np.testing.assert_allclose(env.sensor("imu")[0, :3], [-(speed**2) * ARM, 0.0, G], rtol=1e-3, atol=0.02)
    np.testing.assert_allclose(env.sensor("imu")[0, 3:6], [0.0, 0.0, speed], atol=1e-4)


def test_contact_of_a_resting_box_carries_its_weight():
    env = bench(touch=envs.ContactSensor(["box", 1], threshold=0.5 * BOX_MASS * G))
    env.reset(seed=0)
    np.testing.assert_array_equal(env.sensor("touch"), 0.0)
    still(env, 40)
    expected = [[0.0, 0.0, BOX_MASS * G, 1.0, 0.0, 0.0, 0.0, 0.0]] * 2
    np.testing.assert_allclose(env.sensor("touch"), expected, atol=0.05)
    put_state(env, [0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0] * 7)
    still(env)
    np.testing.assert_array_equal(env.sensor("touch"), 0.0)


class Hanging(Bench):
    """A ball that a constraint holds in the air, with nothing to touch."""

    name = "Hanging"

    def build(self, builder):
        ball = builder.add_body(origin=wp.transform((0.0, 0.0, 1.0), wp.quat_identity()), key="ball")
        builder.add_joint_free(ball)
        builder.add_shape_sphere(ball, radius=0.1)
        builder.add_constraint_connect(-1, ball, anchor=(0.0, 0.0, 1.0), child_anchor=(0.0, 0.0, 0.0))
        return envs.Motors()


def test_constraints_are_no_contacts():
    task = Hanging()
    task.mounted = {"touch": envs.ContactSensor(["ball"])}
    env = envs.BatchedEnv(task, 1, "cpu")
    env.reset(seed=0)
    for _ in range(5):
        env.step(np.zeros((1, 0)))
    np.testing.assert_allclose(env.sim.state.body_q.numpy()[0, 2], 1.0, atol=1e-3)
    np.testing.assert_array_equal(env.sensor("touch"), 0.0)


def test_joint_efforts_accelerate_the_arm():
    """Equation of motion of a hinge about a principal axis: effort = (I + m r²) α."""
    env = bench(1, joints=envs.JointSensor(), turn=envs.JointSensor(["turn"]))
    env.reset(seed=0)
    q, v, effort = env.sensor("joints")[0].copy()
    assert (q, v, effort) == (0.0, 0.0, 0.0)
    env.step(np.full((1, 1), 0.4))
    first = env.sensor("joints")[0].copy()
    env.step(np.full((1, 1), 0.4))
    second = env.sensor("joints")[0]
    acceleration = (second[1] - first[1]) / 0.01
    np.testing.assert_allclose(second[2], 2.0, rtol=1e-6)
    np.testing.assert_allclose((0.1 + 2.0 * 0.2**2) * acceleration, second[2], rtol=1e-3)
    np.testing.assert_allclose(second[0] - first[0], 0.5 * (second[1] + first[1]) * 0.01, atol=1.3e-4)
    np.testing.assert_array_equal(env.sensor("turn")[0], second)


def test_position_drives_of_a_standing_robot_hold_it_up():
    """Drive by drive, effort = kp (target - angle) - kv velocity, within the limit."""
    env = envs.make("Quadruped", 3, device="cpu")
    env.task.sensors = lambda: {"joints": envs.JointSensor()}
    env = envs.BatchedEnv(env.task, 3, "cpu")
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.full((3, 12), 0.6))
    q, v, effort = np.split(env.sensor("joints"), 3, axis=1)
    np.testing.assert_array_equal(q, env.sim.state.joint_q.numpy().reshape(3, -1)[:, 7:])
    wanted = 60.0 * (env.sim.control.joint_act.numpy().reshape(3, 12) - q) - 2.0 * v
    limit = np.tile([30.0, 30.0, 45.0], 4)
    np.testing.assert_allclose(effort, np.clip(wanted, -limit, limit), atol=1e-3)
    assert np.abs(effort).max() > 3.0


class Landscape(envs.Task):
    """A sled over a height field of the global world, with a step of its own, a mesh and a movable crate."""

    name, dt, observation_size = "Landscape", 0.01, 1
    observe, score = observe_readings, score_nothing

    def build(self, builder):
        sled = builder.add_body(key="sled", mass=1.0, I_m=wp.mat33(*np.eye(3).ravel()))
        builder.add_joint_free(sled)
        builder.add_shape_box(sled, hx=0.6, hy=0.6, hz=0.1, density=0.0)
        builder.add_shape_box(-1, pos=(3.0, 0.0, 0.6), hx=0.5, hy=0.5, hz=0.4, key="step")
        crate = builder.add_body(key="crate")
        builder.add_joint_prismatic(-1, crate, axis=(1.0, 0.0, 0.0))
        builder.add_shape_box(crate, pos=(0.0, 3.0, 2.0), hx=0.5, hy=0.5, hz=0.5)
        tetrahedron = newtonsim.Mesh(
            np.float32([[-1, -1, 0], [1, -1, 0], [0, 1, 0], [0, 0, 1.5]]),
            np.int32([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]),
        )
        builder.add_shape_mesh(-1, pos=(-3.0, 0.0, 0.5), mesh=tetrahedron)
        return envs.Motors()

    def finish_scene(self, scene):
        x, y = np.meshgrid(np.linspace(-5.0, 5.0, 101), np.linspace(-5.0, 5.0, 101))
        field = newtonsim.Heightfield(0.1 * x + 0.05 * y, (10.0, 10.0))
        # local y is up; its z runs along -y
        half = math.sqrt(0.5)
        scene.add_shape_heightfield(-1, rot=(half, 0.0, 0.0, half), heightfield=field)
        scene.set_ground_plane(offset=-1.0)

    def sensors(self):
        x, y = [-0.4, 0.1, 0.7], [-0.3, 0.2]
        return {"scan": envs.HeightScan("sled", x, y, above=1.5, depth=6.0)}


def ground(x: np.ndarray, y: np.ndarray, crate: float) -> np.ndarray:
    """Height of what lies at places of the landscape; the field's rows run against y."""
    on_field = (np.abs(x) <= 5.0) & (np.abs(y) <= 5.0)
    height = np.where(on_field, 0.1 * x - 0.05 * y, -1.0)
    step = (np.abs(x - 3.0) <= 0.5) & (np.abs(y) <= 0.5)
    height[step] = 1.0
    height[(np.abs(x - crate) <= 0.5) & (np.abs(y - 3.0) <= 0.5)] = 2.5
    # the three sides of the pyramid over the corners (-1, -1), (1, -1), (0, 1), apex 1.5 at the origin
    u, v = x + 3.0, y
    below = 1.5 * (1.0 + v)
    right = 1.5 * (1.0 - (2.0 * u + v))
    left = 1.5 * (1.0 - (-2.0 * u + v))
    pyramid = np.minimum.reduce([below, right, left])
    inside = pyramid > 0.0
    height[inside] = np.maximum(height[inside], 0.5 + pyramid[inside])
    return height


def test_height_scan_sees_the_ground_as_it_is():
    rng = np.random.default_rng(3)
    env = envs.BatchedEnv(Landscape(), 40, "cpu", threads=2)
    env.reset(seed=0)
    places = rng.uniform(-4.0, 4.0, (40, 2))
    # some over the step, the crate, the mesh, and beyond the field
    places[:12] = rng.uniform(-0.4, 0.4, (12, 2)) + [[3.0, 0.0], [1.0, 3.0], [-3.0, 0.0], [7.0, 0.0]] * 3
    turn = Rotation.from_euler("ZYX", rng.uniform(-1.0, 1.0, (40, 3)) * [3.0, 0.5, 0.5])
    height = 4.0
    q = np.zeros((40, 8))
    q[:, :2], q[:, 2], q[:, 3:7], q[:, 7] = places, height, turn.as_quat(), 1.0
    state = env.sim.state
    state.joint_q.assign(q.ravel().astype(np.float32))
    eval_fk(env.model, state.joint_q, state.joint_qd, None, state)
    env.step(np.zeros((40, 0)))
    height = state.body_q.numpy()[::2, 2, None, None]
    got = env.sensor("scan").reshape(40, 3, 2)
    ahead = turn.apply([1.0, 0.0, 0.0])[:, :2]
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    left = np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    grid = np.array([-0.4, 0.1, 0.7])[None, :, None, None] * ahead[:, None, None]
    grid = grid + np.array([-0.3, 0.2])[None, None, :, None] * left[:, None, None]
    grid = grid + places[:, None, None]
    expected = ground(grid[..., 0], grid[..., 1], crate=1.0)
    right = np.abs(got + height - expected) < 2e-3
    # a ray at an edge may pass on either side
    assert np.count_nonzero(~right) <= 1
    assert {-1.0, 1.0, 2.5} <= set(np.round(expected[right], 6))


def test_height_scan_ends_at_its_depth():
    task = Landscape()
    task.sensors = lambda: {"scan": envs.HeightScan("sled", [0.0], [0.0], depth=0.3)}
    env = envs.BatchedEnv(task, 1, "cpu")
    env.reset(seed=0)
    put_state(env, [-4.0, -4.0, 3.0, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0] * 7)
    env.step(np.zeros((1, 0)))
    np.testing.assert_allclose(env.sensor("scan"), [[-0.3]], atol=1e-6)


def noisy(num_envs: int, **options) -> envs.BatchedEnv:
    imu = envs.Imu("box", noise=(0.5, 0.02))
    return bench(num_envs, imu=imu, touch=envs.ContactSensor(["box"], noise=2.0), **options)


def test_noise_has_its_deviation_and_follows_the_seed():
    env, few = noisy(800, threads=2), noisy(3)
    for each in (env, few):
        each.reset(seed=4)
        still(each, 2)
    np.testing.assert_array_equal(env.sensor("imu")[:3], few.sensor("imu"))
    exact = bench(1, imu=envs.Imu("box"), touch=envs.ContactSensor(["box"]))
    exact.reset(seed=4)
    still(exact, 2)
    for name, deviation in (("imu", [0.5] * 3 + [0.02] * 3), ("touch", [2.0] * 3)):
        n = len(deviation)
        error = env.sensor(name)[:, :n] - exact.sensor(name)[:, :n]
        # standard errors over 800 worlds: 3.5 % of the deviation for the mean, 2.5 % for the deviation
        np.testing.assert_allclose(error.mean(axis=0) / deviation, 0.0, atol=0.14)
        np.testing.assert_allclose(error.std(axis=0) / deviation, 1.0, atol=0.1)
        correlations = np.corrcoef(error.T) - np.eye(n)
        np.testing.assert_allclose(correlations, 0.0, atol=0.14)
    np.testing.assert_array_equal(env.sensor("imu")[:, 6:], np.tile(exact.sensor("imu")[:, 6:], (800, 1)))
    np.testing.assert_array_equal(env.sensor("touch")[:, 3], 1.0)
    before = env.sensor("imu").copy()
    still(env)
    assert not np.any(env.sensor("imu")[:, :6] == before[:, :6])


def test_a_fresh_episode_reads_right_and_disturbs_no_other_world():
    plain, disturbed = noisy(4), noisy(4)
    for env in (plain, disturbed):
        env.reset(seed=1)
        still(env, 3)
    mask = np.array([False, False, True, False])
    before = disturbed.sensor("imu").copy()
    disturbed.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(disturbed.sensor("imu")[~mask], before[~mask])
    np.testing.assert_array_equal(disturbed.sensor("touch")[mask][:, 3], 0.0)
    np.testing.assert_allclose(disturbed.sensor("imu")[2, :3], [0.0, 0.0, G], atol=3.0)
    assert not np.any(disturbed.sensor("imu")[2, :6] == before[2, :6])
    for env in (plain, disturbed):
        still(env)
    for name in ("imu", "touch"):
        np.testing.assert_array_equal(disturbed.sensor(name)[~mask], plain.sensor(name)[~mask])


def test_torch_readings_are_views_of_the_same_numbers():
    env, twin = bench(imu=envs.Imu("box"), output="torch"), bench(imu=envs.Imu("box"))
    env.reset(seed=0)
    twin.reset(seed=0)
    kept = env.sensor("imu")
    env.step(torch.zeros(2, 1))
    still(twin)
    np.testing.assert_array_equal(kept.numpy(), twin.sensor("imu"))
    assert kept.data_ptr() == env.sensor("imu").data_ptr()


class ByHand(Bench):
    """The bench with observations in Python, which runs between recordings."""

    name = "ByHand"

    def observe(self, host: envs.HostView) -> None:
        host.obs[:] = host.sensed[:, :1]


EVERYTHING = {
    "imu": envs.Imu("box", POSE, noise=(0.1, 0.1)),
    "touch": envs.ContactSensor(["box", "arm"]),
    "joints": envs.JointSensor(),
    "scan": envs.HeightScan("box", [0.0, 0.3], [0.0]),
}


def test_python_functions_find_the_same_readings():
    task = ByHand()
    task.mounted = EVERYTHING
    by_hand, kernels = envs.BatchedEnv(task, 3, "cpu"), bench(3, **EVERYTHING)
    for env in (by_hand, kernels):
        env.reset(seed=2)
        for _ in range(3):
            obs = env.step(np.full((3, 1), 0.3))[0]
        np.testing.assert_array_equal(obs[:, 0], env.sensor("imu")[:, 0])
    for name in EVERYTHING:
        np.testing.assert_array_equal(by_hand.sensor(name), kernels.sensor(name))


def test_a_step_with_sensors_only_replays(monkeypatch: pytest.MonkeyPatch):
    """Nothing is launched, read or waited for on the host."""
    env = bench(3, output="torch", **EVERYTHING)
    env.reset(seed=1)
    action = torch.zeros(3, 1)
    env.step(action)
    before = env.sensor("imu").clone()

    forbid_host_work(monkeypatch, env)
    env.step(action)
    assert not torch.equal(env.sensor("imu"), before)


class Compliant(Bench):
    """The bench with a solver that has no contact forces."""

    def make_solver(self, model):
        return XPBDSolver(model)


def test_wrong_sensors_are_named():
    for sensor, message in (
        (envs.Imu("boxx"), "sensor 'a': there is no body 'boxx'; did you mean 'box'"),
        (envs.Imu(2), r"sensor 'a': body: expected a name or 0\.\.1, got 2"),
        (envs.Imu("box", (0.0,) * 7), r"sensor 'a': pose: quaternion .* has no direction"),
        (envs.Imu("box", (0.0,) * 6), "sensor 'a': pose: expected 7 numbers"),
        (envs.Imu("box", (math.nan, *POSE[1:])), "sensor 'a': pose: expected finite numbers"),
        (envs.Imu("box", noise=(-1.0, 0.0)), "sensor 'a': noise: expected numbers of at least 0"),
        (envs.ContactSensor(["box"], -1.0), "sensor 'a': threshold: expected a force"),
        (envs.JointSensor(["root"]), "sensor 'a': joint 'root' has no angle or length"),
        (envs.JointSensor("root"), r"sensor 'a': expected a list, \['root'\], got 'root'"),
        (envs.ContactSensor("box"), r"sensor 'a': expected a list, \['box'\], got 'box'"),
        ("box", r"sensor 'a': expected a sensor such as Imu\('trunk'\), got 'box'"),
        (envs.HeightScan("box", []), "sensor 'a': expected positions x and y"),
        (envs.HeightScan("box", depth=0.0), "sensor 'a': depth: expected a length above 0"),
    ):
        with pytest.raises(NewtonsimError, match=message):
            bench(a=sensor)
    with pytest.raises(NewtonsimError, match=r"expected a sensor such as Imu\('trunk'\), got 'box'"):
        envs.Measured("box")
    task = Compliant()
    task.mounted = {"touch": envs.ContactSensor(["box"])}
    with pytest.raises(
        NewtonsimError, match="sensor 'touch': it reads contact forces, which XPBDSolver does not report"
    ):
        envs.BatchedEnv(task, 1, "cpu")
    with pytest.raises(NewtonsimError, match="there is no sensor 'imus'; did you mean 'imu'"):
        bench(imu=envs.Imu("box")).sensor("imus")
