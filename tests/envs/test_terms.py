"""Tasks of terms: each term against NumPy, terms that come and go, robots of any file."""

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
import warp as wp
from scipy.spatial.transform import Rotation
from small_biped import BIPED

from newtonsim import envs
from newtonsim.envs.terms import Event, Reward, Robot, TermTask, TermView, library
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs.terms import actions, ends, events, goals, hand, in_hand, observations, rewards
from newtonsim.kernels.envs.views import EnvView

WORLDS, DT = 3, 0.02


def walked(
    name: str = "Velocity", steps: int = 12, **options: Any
) -> tuple[Any, np.ndarray, list[np.ndarray]]:
    """Return an environment after some random steps, its last reward, and the actions."""
    env = envs.make(name, WORLDS, "cpu", threads=1, **options)
    env.reset(seed=3)
    rng = np.random.default_rng(0)
    given = [rng.uniform(-1.2, 1.2, env.action_space.shape).astype(np.float32) for _ in range(steps)]
    reward = np.zeros(WORLDS)
    for action in given:
        _, reward, *_ = env.step(action)
    return env, reward, given


def base_of(env: Any) -> tuple[Rotation, np.ndarray, np.ndarray]:
    """Orientation, velocity and angular velocity of the first body of each world, the latter in its axes."""
    bodies = env.buffers.view.bodies
    turn = Rotation.from_quat(env.sim.state.body_q.numpy()[::bodies, 3:])
    velocity = env.sim.state.body_qd.numpy()[::bodies]
    return turn, turn.inv().apply(velocity[:, 3:]), turn.inv().apply(velocity[:, :3])


def test_observations_are_those_of_the_state():
    env, _, given = walked()
    turn, velocity, spin = base_of(env)
    q = env.sim.state.joint_q.numpy().reshape(WORLDS, -1)[:, 7:]
    qd = env.sim.state.joint_qd.numpy().reshape(WORLDS, -1)[:, 6:]
    home = np.tile([0.0, 0.8, -1.5], 4)
    command = env.buffers.view.memory.numpy()[:, :3]
    down = turn.inv().apply([0.0, 0.0, -1.0])
    expected = [velocity, spin, down, command, q - home, qd, np.clip(given[-1], -1.0, 1.0)]
    np.testing.assert_allclose(env.buffers.view.obs.numpy(), np.hstack(expected), atol=2e-5)


def test_reward_is_the_sum_of_its_terms():
    env, reward, given = walked(steps=4)
    _, velocity, spin = base_of(env)
    turn, *_ = base_of(env)
    down = turn.inv().apply([0.0, 0.0, -1.0])
    command = env.buffers.view.memory.numpy()[:, :3]
    q = env.sim.state.joint_q.numpy().reshape(WORLDS, -1)[:, 7:] - np.tile([0.0, 0.8, -1.5], 4)
    jerk = np.clip(given[-1], -1.0, 1.0) - np.clip(given[-2], -1.0, 1.0)
    off = ((command - velocity)[:, :2] ** 2).sum(axis=1)
    expected = np.exp(-off / 0.25) + 0.5 * np.exp(-((command[:, 2] - spin[:, 2]) ** 2) / 0.25)
    expected += -2.0 * velocity[:, 2] ** 2 - 0.05 * (spin[:, :2] ** 2).sum(axis=1)
    expected += 0.25 - 0.5 * (down[:, :2] ** 2).sum(axis=1) - 0.01 * (jerk**2).sum(axis=1)
    expected += -0.03 * (q**2).sum(axis=1)
    steps = {"step_in_the_air": None, "slip_feet": None}
    plain, reward, _ = walked(steps=4, rewards=steps)
    np.testing.assert_allclose(reward, DT * expected, atol=1e-5)
    np.testing.assert_allclose(plain.buffers.view.obs.numpy(), env.buffers.view.obs.numpy())


def slide(env: envs.BatchedEnv) -> tuple[float, np.ndarray, np.ndarray]:
    """Push a robot without friction: the reward, and the places [m] and speeds [m/s] of its feet."""
    env.reset(seed=0)
    env.model.shape_materials.mu.zero_()
    zeros = np.zeros((1, 12), np.float32)
    for _ in range(10):
        env.step(zeros)
    qd = env.sim.state.joint_qd.numpy()
    qd[3] += 0.5
    calves = [env.model.body_key.index(f"{leg}_calf") for leg in ("fl", "fr", "rl", "rr")]

    def feet() -> np.ndarray:
        poses = env.sim.state.body_q.numpy()[calves]
        return poses[:, :3] + Rotation.from_quat(poses[:, 3:]).apply([0.0, 0.0, -0.213])

    env.step(zeros)
    before = feet()
    _, reward, *_ = env.step(zeros)
    return float(reward[0]), before, (feet() - before)[:, :2] / DT


@pytest.mark.parametrize("heights", [[-0.213], [-0.213, -0.213, -0.1, -0.1]])
def test_slipping_feet_cost_their_speed(heights: list[float]):
    """Of those whose points are low; they have one for all or one for each."""
    only = {name: None for name in envs.make("Velocity", 1, "cpu").task.term_names()["rewards"]}
    foot = {"term": "slip_feet", "weight": -1.0, "point": [(0.0, 0.0, z) for z in heights], "height": 0.03}
    env = envs.make("Velocity", 1, "cpu", threads=1, rewards={**only, "slip": foot}, reset_noise_scale=0.0)
    reward, _, speed = slide(env)
    assert np.linalg.norm(speed, axis=1).min() > 0.2
    low = np.broadcast_to(heights, 4) if len(heights) == 1 else np.array(heights)
    assert reward == pytest.approx(-DT * (speed[low < -0.2] ** 2).sum(), rel=0.05)


def test_feet_slip_on_ground_that_is_higher_than_level():
    """On top of stairs, the forces of contacts tell that feet touch; their height does not."""
    names = envs.make("VelocityRough", 1, "cpu").task.term_names()["rewards"]
    others = {name: None for name in names if name != "slip_feet"}
    ground = {"kinds": ["stairs_down"], "levels": 1}
    env = envs.make("VelocityRough", 1, "cpu", threads=1, rewards=others, reset_noise_scale=0.0, **ground)
    reward, places, speed = slide(env)
    assert places[:, 2].min() > 0.1
    assert np.linalg.norm(speed, axis=1).min() > 0.2
    assert reward == pytest.approx(-0.02 * DT * (speed**2).sum(), rel=0.05)


@pytest.mark.parametrize("heights", [[-0.213], [-0.213, -0.2, -0.18, -0.15]])
def test_time_in_the_air_counts_when_a_foot_lands(heights: list[float]):
    """A robot that is dropped: its feet are up until they land, which earns that time less the least.

    A point for all feet, or one for each.
    """
    points = [(0.0, 0.0, z) for z in heights]
    only = {name: None for name in envs.make("Velocity", 1, "cpu").task.term_names()["rewards"]}
    air = {"term": "step_in_the_air", "weight": 1.0, "point": points, "least": 0.02}
    env = envs.make("Velocity", 1, "cpu", threads=1, rewards={**only, "air": air}, height=0.42)
    env.reset(seed=5)
    earned = 0.0
    calves = [env.model.body_key.index(f"{leg}_calf") for leg in ("fl", "fr", "rl", "rr")]
    expected, since = 0.0, np.zeros(4)
    for _ in range(25):
        _, reward, *_ = env.step(np.zeros((1, 12), np.float32))
        earned += float(reward[0])
        poses = env.sim.state.body_q.numpy()[calves]
        low = (poses[:, :3] + Rotation.from_quat(poses[:, 3:]).apply(points * (4 // len(points))))[
            :, 2
        ] < 0.03
        expected += DT * float(np.maximum(since[low & (since > 0)] - 0.02, 0.0).sum())
        since = np.where(low, 0.0, since + DT)
    assert expected > 0.0
    assert earned == pytest.approx(expected, rel=1e-4)


def test_terms_come_and_go_in_a_line():
    more = {"observations": {"height": {}, "velocity": None}, "rewards": {"be_upright": 3.0, "leaning": None}}
    env, _, _ = walked(**more)
    names = env.task.term_names()
    assert names["observations"][-1] == "height"
    assert "velocity" not in names["observations"]
    assert names["rewards"][-1] == "be_upright"
    assert "leaning" not in names["rewards"]
    assert env.single_observation_space.shape == (46,)
    height = env.sim.state.body_q.numpy()[:: env.buffers.view.bodies, 2]
    np.testing.assert_allclose(env.buffers.view.obs.numpy()[:, -1], height)


@wp.kernel
def knees(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    w = first + wp.tid()
    for k in range(term.coords.shape[0]):
        env.reward[w] = env.reward[w] + term.weight * env.joint_q[w * env.coords + term.coords[k]]


def test_a_term_of_ones_own_joins():
    own = Reward(kernel=knees, weight=2.0, joints="*_knee")
    plain, without, _ = walked()
    env, reward, _ = walked(rewards={"knees": own})
    q = env.sim.state.joint_q.numpy().reshape(WORLDS, -1)[:, [9, 12, 15, 18]]
    np.testing.assert_allclose(reward - without, 2.0 * q.sum(axis=1), atol=1e-4)
    plain.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rewards": {"slip": -1.0}}, "rewards: there is no 'slip'.*slip_feet"),
        ({"rewards": {"slip_feet": {"pnt": 1}}}, "rewards: slip_feet: .*has no 'pnt'"),
        (
            {"rewards": {"touch_otherwise": -1.0}},
            "touch_otherwise: needs bodies, sensor; its arguments are bodies, ",
        ),
        ({"ends": {"low": {"hight": 1.0}}}, "ends: low: has no 'hight'; did you mean 'height'.*height=0.15"),
        (
            {"ends": {"tilted": {"degrees": -40.0}}},
            "degrees: expected an angle above 0 .* -40",
        ),
        ({"observations": {"heigt": None}}, "observations: there is no 'heigt'"),
        ({"ends": {"low": "yes"}}, "ends: low: expected None"),
        ({"rewards": {"home": library.EVENTS["home"]()}}, "expected Reward, got Event"),
        ({"robot": "go3_like"}, "there is no 'go3_like'.*go2_like"),
        ({"robot": "my.urdf"}, "my.urdf: no such file"),
        ({"feet": "*_foot"}, r"'\*_foot' matches no bodies"),
        ({"joints": "*_toe"}, r"'\*_toe' matches no joints"),
        (
            {"rewards": {"touch": {"term": "touch_otherwise", "bodies": "trunk", "sensor": "sole"}}},
            "no sensor",
        ),
    ],
)
def test_what_there_is_not_is_named(options: dict[str, Any], words: str):
    with pytest.raises(NewtonsimError, match=words):
        envs.make("Velocity", 1, "cpu", **options)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("Reach", {"events": {"home": {}}}, "Reach: events: home: it places a free base"),
        ("Reach", {"events": {"home": {"turned": False, "speed": 0.1}}}, "home: it places a free base"),
        ("Reach", {"events": {"air": {"term": "in_air"}}}, "air: it places a free base"),
        (
            "VelocityRough",
            {"observations": {"more": {"term": "sensor", "sensor": "below", "size": 2}}},
            "more: it needs 2 readings of the sensor 'below', which has 1",
        ),
        (
            "VelocityRough",
            {"rewards": {"slip_feet": {"weight": -1.0, "sensor": "below"}}},
            "slip_feet: it needs 16 readings of the sensor 'below', which has 1",
        ),
    ],
)
def test_terms_stay_within_what_a_world_has(name: str, options: dict[str, Any], words: str):
    ground = {"levels": 1, "kinds": ["rough"]} if name == "VelocityRough" else {}
    with pytest.raises(NewtonsimError, match=words):
        envs.make(name, 1, "cpu", **ground, **options)


def test_a_base_starts_with_its_speed_in_the_heading_of_the_file():
    home = {"noise": 0.0, "speed": 0.5, "turned": False}
    env = envs.make("Velocity", WORLDS, "cpu", threads=1, events={"home": home})
    env.reset(seed=0)
    speeds = env.sim.state.joint_qd.numpy().reshape(WORLDS, -1)[:, :6]
    assert np.abs(speeds).min() > 0.0
    assert np.abs(speeds).max() <= 0.5
    headings = env.sim.state.joint_q.numpy().reshape(WORLDS, -1)[:, 3:7]
    np.testing.assert_array_equal(headings, [[0.0, 0.0, 0.0, 1.0]] * WORLDS)


def test_weights_must_be_numbers():
    with pytest.raises(NewtonsimError, match="weight: expected a finite number"):
        Reward(kernel=rewards.rolling, weight=float("nan"))
    with pytest.raises(NewtonsimError, match="kernel: expected a kernel"):
        Event(kernel="home")  # pyright: ignore[reportArgumentType]
    with pytest.raises(NewtonsimError, match="when: expected"):
        Event(kernel=events.draw_command, when="never")


def test_any_urdf_walks_by_naming_its_parts(tmp_path: Any):
    path = tmp_path / "biped.urdf"
    path.write_text(BIPED)
    parts = {"base": "body", "feet": "?_leg", "height": 0.43, "stiffness": 80.0, "damping": 4.0}
    env = envs.make("Velocity", 2, "cpu", threads=1, robot=str(path), foot_point=(0, 0, -0.325), **parts)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (2, 12 + 3 * 2)
    assert env.single_action_space.shape == (2,)
    for _ in range(40):
        _, _, terminated, *_ = env.step(np.zeros((2, 2), np.float32))
        assert not terminated.any()
    feet = env.sim.state.body_q.numpy().reshape(2, 3, 7)[:, 1:, 2] - 0.3
    assert np.abs(feet - 0.025).max() < 0.01


def test_commands_change_and_stay_within_their_ranges():
    env = envs.make("Velocity", 40, "cpu", threads=1, command_seconds=0.1, still=0.5, ends={"low": None})
    env.reset(seed=1)
    seen = []
    for _ in range(11):
        seen.append(env.buffers.view.memory.numpy()[:, :3].copy())
        env.step(np.zeros(env.action_space.shape, np.float32))
    changed = [np.any(a != b, axis=1).mean() for a, b in pairwise(seen)]
    # drawn before steps 5 and 10; two commands in four are to stand still, of which one in four stays
    assert all(share == 0.0 for i, share in enumerate(changed) if i not in (5, 10))
    assert changed[5] > 0.5
    everything = np.concatenate(seen)
    assert np.all(np.abs(everything) <= [1.0, 0.5, 1.0])
    assert 0.3 < np.mean(~everything.any(axis=1)) < 0.7


def test_rotors_lift_and_turn_as_they_should():
    """Weight and torques of a drone: hovering thrust holds it, a pair of rotors turns it about z."""
    env = envs.make(
        "Hover",
        1,
        "cpu",
        threads=1,
        offset=0.0,
        tilt=0.0,
        events={"in_air": {"spin": 0.0, "speed": 0.0, "tilt": 0.0, "offset": 0.0}},
    )
    env.reset(seed=0)
    mass, most, g = 0.027, 0.16, 9.81
    hold = 2.0 * mass * g / (4.0 * most) - 1.0
    for _ in range(20):
        env.step(np.full((1, 4), hold, np.float32))
    assert np.abs(env.sim.state.joint_qd.numpy()).max() < 1e-3
    # M2 and M4 turn clockwise: more of them turns the drone counter-clockwise
    change = np.array([[-0.1, 0.1, -0.1, 0.1]], np.float32)
    env.step(hold + change)
    spin = env.sim.state.body_qd.numpy()[0, :3]
    torque = 0.00596 * 0.5 * most * 0.4
    assert spin[2] == pytest.approx(torque / 2.93e-5 * 0.01, rel=0.02)
    assert np.abs(spin[:2]).max() < 0.01 * spin[2]
    # more of M1 and M4, in front, pitches up: about -y
    env.reset(seed=0)
    env.step(np.float32(hold) + np.array([[0.1, -0.1, -0.1, 0.1]], np.float32))
    spin = env.sim.state.body_qd.numpy()[0, :3]
    torque = -0.046 * np.sqrt(0.5) * 0.5 * most * 0.4
    assert spin[1] == pytest.approx(torque / 1.67e-5 * 0.01, rel=0.02)


def test_a_hand_that_reaches_its_point_has_the_goal():
    env = envs.make("Reach", 2, "cpu", threads=1, reset_noise_scale=0.0)
    env.reset(seed=0)
    hand = env.model.body_key.index("hand")
    poses = env.sim.state.body_q.numpy().reshape(2, -1, 7)[:, hand]
    tip = poses[:, :3] + Rotation.from_quat(poses[:, 3:]).apply([0.0, 0.0, 0.1034])
    memory = env.buffers.view.memory.numpy()
    memory[:, :3] = tip + np.array([[0.0, 0.0, 0.01], [0.0, 0.0, 0.05]])
    _, reward, _, _, infos = env.step(np.zeros((2, 7), np.float32))
    assert infos["is_success"].tolist() == [True, False]
    far = np.array([0.01, 0.05])
    expected = 2.0 - np.tanh(far / 0.05) - np.tanh(far / 0.3)
    np.testing.assert_allclose(reward / 0.04, expected, atol=0.05)


def test_a_cube_starts_in_its_rectangle_and_counts_when_lifted():
    env = envs.make("Lift", 8, "cpu", threads=1)
    env.reset(seed=0)
    q = env.sim.state.joint_q.numpy().reshape(8, -1)
    at = env.task._cube_at
    cube = q[:, at : at + 3]
    assert np.all((cube[:, :2] >= [0.4, -0.2]) & (cube[:, :2] <= [0.6, 0.2]))
    assert np.ptp(cube[:, 0]) > 0.05
    np.testing.assert_allclose(np.linalg.norm(q[:, at + 3 : at + 7], axis=1), 1.0, atol=1e-5)
    _, low, *_ = env.step(np.zeros((8, 4), np.float32))
    env.sim.state.joint_q.numpy().reshape(8, -1)[:, at + 2] = 0.3
    _, high, *_ = env.step(np.zeros((8, 4), np.float32))
    assert np.all(high > low + 0.9 * 9.0 * 0.04)


@pytest.mark.slow
def test_worlds_climb_by_what_they_walked():
    env = envs.make("VelocityRough", 6, "cpu", threads=1, levels=3, kinds=["rough"], first_levels=1)
    env.reset(seed=0)
    kept = env.buffers.view.kept.numpy()
    assert np.all(kept[:, 0] == 0.0)
    kept[:, 4] = [5.0, 5.0, 0.0, 0.0, 3.0, 3.0]
    kept[:, 5] = [8.0, 0.0, 8.0, 0.0, 8.0, 4.0]
    mask = np.ones(6, bool)
    env.reset(options={"reset_mask": mask})
    assert kept[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    kept[:, 4], kept[:, 5] = 0.0, 8.0
    env.reset(options={"reset_mask": mask})
    assert np.all(kept[:, 0] == 0.0)
    height = env.sim.state.joint_q.numpy().reshape(6, -1)[:, 2]
    assert height == pytest.approx(np.full(6, env.task.terrain.platforms[0, 0] + 0.3333), abs=1e-3)


def test_the_commanded_turning_brings_a_robot_to_its_heading():
    """The heading that the first command implies is kept as the robot turns, also the long way round."""
    env = envs.make("VelocityRough", 200, "cpu", threads=1, levels=1, kinds=["rough"], still=0.0)
    env.reset(seed=0)
    q = env.sim.state.joint_q.numpy().reshape(200, -1)
    command = env.buffers.view.memory.numpy()[:, 2]

    def error_of(heading: np.ndarray) -> np.ndarray:
        off = heading - Rotation.from_quat(q[:, 3:7]).as_euler("zyx")[:, 0]
        return (off + np.pi) % (2.0 * np.pi) - np.pi

    heading = Rotation.from_quat(q[:, 3:7]).as_euler("zyx")[:, 0] + 2.0 * command
    known = np.abs(command) < 0.999  # beyond that, the command is limited
    assert 0.5 < known.mean() < 0.8
    assert np.abs(np.mean(np.exp(1j * heading[known]))) < 0.3
    for turn in np.random.default_rng(0).uniform(-np.pi, np.pi, (4, 200)):
        q[:, 3:7] = Rotation.from_euler("z", turn[:, None]).as_quat()
        expected = np.clip(0.5 * error_of(heading), -1.0, 1.0)
        env.step(np.zeros((200, 12), np.float32))
        np.testing.assert_allclose(command[known], expected[known], atol=1e-4)


def test_robots_get_up_from_any_orientation():
    env = envs.make("GetUp", 64, "cpu", threads=1)
    obs, _ = env.reset(seed=0)
    down = obs[:, 3:6]
    # uniform orientations: the mean of each component is 0, of its square 1/3
    assert np.abs(down.mean(axis=0)).max() < 0.25
    assert np.abs((down**2).mean(axis=0) - 1.0 / 3.0).max() < 0.12


class Counting(envs.tasks.Hover):
    """`Hover` with terms by methods."""

    name = "Counting"
    defaults: ClassVar[dict[str, Any]] = {**envs.tasks.Hover.defaults}

    def reward_terms(self) -> dict[str, Reward]:
        return {"stay_alive": library.REWARDS["stay_alive"]()}


def test_tasks_are_made_of_terms_by_methods():
    env = envs.BatchedEnv(Counting(robot=Robot(**vars(envs.terms.ZOO["crazyflie_like"]))), 2, "cpu")
    env.reset(seed=0)
    _, reward, *_ = env.step(np.zeros((2, 4), np.float32))
    np.testing.assert_allclose(reward, 0.01)
    assert isinstance(env.task, TermTask)


def test_every_term_of_the_library_is_a_kernel_of_its_file():
    """None is forgotten: kernels of terms that no name of the library leads to."""
    modules = (observations, rewards, ends, events, goals, actions, hand, in_hand)
    there = {value for module in modules for value in vars(module).values() if isinstance(value, wp.Kernel)}
    arguments = {
        "body": {"body": "cube"},
        "field": {"field": "bodies.mass", "size": 1},
        "sensor": {"sensor": "s", "size": 1},
        "touch_otherwise": {"bodies": "b", "sensor": "s"},
        "near_body": {"body": "cube"},
        "bring_body": {"body": "cube", "lifted": 0.1},
        "hold_body": {"body": "cube", "joints": "*"},
        "bring_onto_body": {"bodies": ("cube", "other"), "lifted": 0.1, "height": 0.04},
        "rest_on_body": {"bodies": ("cube", "other"), "height": 0.04},
        "turn_body": {"body": "cube"},
        "drifting": {"body": "cube"},
        "dropping": {"body": "cube"},
        "exerting": {"sensor": "s", "offset": 0, "count": 1},
        "dropped": {"body": "cube"},
        "near_ground": {"sensor": "s"},
        "touching": {"bodies": "b", "sensor": "s"},
        "command": {"low": (0, 0, 0), "high": (1, 1, 1)},
        "patch": {"numbers": ()},
        "hold": {"joints": "*"},
    }
    groups = (library.OBSERVATIONS, library.REWARDS, library.ENDS, library.EVENTS)
    known = set()
    for group in groups:
        for name, make in group.items():
            given = {} if name == "command" and group is library.OBSERVATIONS else arguments.get(name, {})
            known.add(make(**given).kernel)
    known |= {library.aim([]).kernel, library.shift([], [], []).kernel, library.thrust(0, [], []).kernel}
    known |= {library.move_hand(0.0, 0.0, 0.0, (0.0, 0.0, 0.1), []).kernel}
    known |= {library.place_body(0, (0, 0), (1, 1), 0.0).kernel, rewards.begin_score}
    assert {kernel.key for kernel in there - known} == set()
