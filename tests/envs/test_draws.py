"""Fields that differ from world to world: distributions, times, limits; late actions, noisy observations."""

import numpy as np
import pytest
import warp as wp

from newtonsim import FeatherstoneSolver, ModelBuilder, Simulator, View, envs
from newtonsim.envs import BatchedEnv, Draw, EnvView, Motors, Randomisation, Task
from newtonsim.errors import NewtonsimError

WORLDS = 64


@wp.kernel
def observe_positions(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    w = first + wp.tid()
    if mask[w]:
        for k in range(env.obs.shape[1]):
            env.obs[w, k] = env.joint_q[w * env.coords + k]


@wp.kernel
def score_actions(first: int, env: EnvView):
    w = first + wp.tid()
    env.reward[w] = env.actions[w, 0]


class Arm(Task):
    """Two links that hang from the world; the first joint has a motor."""

    name = "TwoLinks"
    dt = 0.01
    observation_size = 2
    observe = observe_positions
    score = score_actions

    def build(self, builder: ModelBuilder) -> Motors:
        parent = -1
        for k in range(2):
            link = builder.add_body(
                mass=1.0 + k, com=(0.0, 0.1, -0.3), I_m=np.diag([0.03, 0.04, 0.05]), key=f"link_{k}"
            )
            builder.add_shape_sphere(link, radius=0.05, density=0.0, key=f"tip_{k}")
            builder.add_joint_revolute(
                parent,
                link,
                parent_xform=wp.transform((0.0, 0.0, 1.0 if k == 0 else -0.5), wp.quat_identity()),
                axis=(0.0, 1.0, 0.0) if k == 0 else (1.0, 0.0, 0.0),
                limit_lower=-1.0,
                limit_upper=1.0,
                key=f"hinge_{k}",
            )
            parent = link
        builder.joint_damping = [0.2, 0.1]
        return Motors([0], [5.0], [-1.0], [1.0])


def arm(num_envs: int = WORLDS, device: str = "cpu", **randomise) -> BatchedEnv:
    return BatchedEnv(Arm(), num_envs, device, randomise=randomise or None, max_episode_steps=0)


def drawn(env: BatchedEnv, name: str, pattern: str = "*") -> np.ndarray:
    return np.array(View(env.sim, pattern).field(name).numpy(), np.float64)


def test_distributions_are_those_asked_for(device):
    env = arm(
        2000,
        device,
        **{
            "joints.armature": Draw((1.0, 100.0), "log-uniform"),
            "bodies.com": Draw((0.0, (0.01, 0.02, 0.0)), "normal", "add", "link_0"),
            "joints.damping": (0.5, 1.5),
        },
    )
    env.reset(seed=1)
    decades = np.log10(drawn(env, "joints.armature") / 0.01)
    # standard errors of 4000 numbers: 0.009 of a mean, 0.007 of a deviation
    assert decades.min() >= -1e-5
    assert decades.max() <= 2.0 + 1e-5
    assert decades.mean() == pytest.approx(1.0, abs=0.04)
    assert decades.std() == pytest.approx(2.0 / np.sqrt(12.0), abs=0.03)
    shift = drawn(env, "bodies.com", "link_0")[:, 0] - [0.0, 0.1, -0.3]
    np.testing.assert_allclose(shift.std(axis=0), [0.01, 0.02, 0.0], rtol=0.08, atol=1e-6)
    np.testing.assert_allclose(shift.mean(axis=0), 0.0, atol=0.002)
    assert np.abs(shift[:, 0]).max() <= 0.03 + 1e-6
    np.testing.assert_allclose(drawn(env, "bodies.com", "link_1")[:, 0], [[0.0, 0.1, -0.3]] * 2000, atol=1e-7)
    factor = drawn(env, "joints.damping") / [0.2, 0.1]
    assert abs(np.corrcoef(factor.T)[0, 1]) < 0.1
    assert abs(np.corrcoef(decades[:, 0], factor[:, 0])[0, 1]) < 0.1


def test_numbers_of_their_own_for_components_elements_or_worlds(device):
    sizes = {}
    for each in ("number", "element", "world"):
        env = arm(5, device, **{"bodies.com": Draw((0.5, 1.5), each=each)})
        env.reset(seed=1)
        factor = drawn(env, "bodies.com")[..., 1:] / [0.1, -0.3]
        sizes[each] = len(np.unique(np.round(factor, 5)))
    assert sizes == {"number": 20, "element": 10, "world": 5}


@pytest.mark.parametrize("name", ["joints.armature", "bodies.mass", "bodies.inertia", "shapes.friction"])
def test_when_it_is_drawn(device, name: str):
    """Also of what `mass` and `friction` draw, where these have nothing to draw."""
    ways = {
        "start": Draw((0.5, 1.5), when="start"),
        "reset": Draw((0.5, 1.5)),
        "interval": Draw((0.5, 1.5), when="interval", seconds=0.03),
    }
    for when, draw in ways.items():
        env = arm(4, device, **{name: draw})
        env.reset(seed=3)
        seen = [drawn(env, name)]
        for _ in range(7):
            env.step(np.zeros((4, 1)))
            seen.append(drawn(env, name))
        changes = [k for k in range(1, 8) if not np.array_equal(seen[k], seen[k - 1])]
        # before the fourth and the seventh step, three after the first
        assert changes == ([4, 7] if when == "interval" else [])
        env.reset(options={"reset_mask": np.array([True, False, False, False])})
        again = drawn(env, name)
        np.testing.assert_array_equal(again[1:], seen[-1][1:])
        assert np.array_equal(again[0], seen[-1][0]) == (when == "start")
        env.reset(seed=4)
        assert not np.any((drawn(env, name) == seen[0]) & (seen[0] != 0.0))
        env.reset(seed=3)
        np.testing.assert_array_equal(drawn(env, name), seen[0])


def test_draws_depend_on_seed_and_world_alone(device):
    ranges = {"bodies.mass": (0.5, 2.0), "gravity": (0.8, 1.2), "noise": 0.1, "delay": (0.0, 0.05)}
    few, many = arm(2, device, **ranges), arm(5, device, **ranges)
    few.reset(seed=3)
    many.reset(seed=3)
    for k in range(8):
        action = np.sin(np.arange(5.0) + k)[:, None].astype(np.float32)
        np.testing.assert_array_equal(many.step(action)[0][:2], few.step(action[:2])[0])


class Obstacles(Arm):
    """The arm, and three balls that wait above it."""

    def build(self, builder: ModelBuilder) -> Motors:
        motors = super().build(builder)
        for k in range(3):
            ball = builder.add_body(key=f"ball_{k}", origin=((2.0 + k, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0)))
            builder.add_shape_sphere(ball, radius=0.1)
        return motors


def test_worlds_have_any_number_of_obstacles(device):
    """All numbers from 0 to 3 and all balls as often as each other; those that are there fall, no others."""
    draw = Draw((0, 3), "count", how="set", select="ball_*")
    env = BatchedEnv(Obstacles(), 2000, device, randomise={"bodies.present": draw}, max_episode_steps=0)
    env.reset(seed=2)
    there = drawn(env, "bodies.present", "ball_*")
    # standard errors of 2000 worlds: 0.0097 of a share of a quarter, 0.011 of a half
    share = np.bincount(there.sum(axis=1).astype(int), minlength=4) / 2000
    np.testing.assert_allclose(share, 0.25, atol=0.04)
    np.testing.assert_allclose(there.mean(axis=0), 0.5, atol=0.045)
    np.testing.assert_array_equal(drawn(env, "bodies.present", "link_*"), 1.0)
    for _ in range(3):
        env.step(np.zeros((2000, 1)))
    height = drawn(env, "bodies.q", "ball_*")[..., 2]
    np.testing.assert_allclose(height, np.where(there > 0.0, 1.0 - 9.81 * 0.01**2 * 6, 1.0), atol=1e-5)
    mask = np.arange(2000) % 2 == 0
    env.reset(options={"reset_mask": mask})
    again = drawn(env, "bodies.present", "ball_*")
    np.testing.assert_array_equal(again[~mask], there[~mask])
    assert np.mean(np.any(again[mask] != there[mask], axis=1)) > 0.5
    env.reset(seed=2)
    np.testing.assert_array_equal(drawn(env, "bodies.present", "ball_*"), there)
    for wrong, message in (
        (Draw((0, 4), "count", select="ball_*"), "whole numbers .* from 0 to 3"),
        (Draw((0, 1), select="ball_*"), "distribution='count' is for bodies.present"),
        (Draw((0, 1), "count", select="link_1"), "the tree of 'link_0' must be present or absent as a whole"),
    ):
        with pytest.raises(NewtonsimError, match=message):
            BatchedEnv(Obstacles(), 2, device, randomise={"bodies.present": wrong})


FIELDS = {
    "bodies.mass": Draw((0.5, 2.0)),
    "bodies.inertia": Draw((0.5, 2.0)),
    "bodies.com": Draw((-0.05, 0.05), how="add"),
    "joints.armature": Draw((0.5, 5.0)),
    "joints.damping": Draw((0.0, 1.0), how="set"),
    "joints.friction": Draw((0.0, 0.1), how="set"),
    "joints.limit_upper": Draw((0.04, 0.12), how="set"),
    "gravity": Draw(((-1.0, -1.0, -12.0), (1.0, 1.0, -3.0)), how="set"),
}


@pytest.mark.parametrize("what", [*FIELDS, "all"])
def test_randomised_worlds_move_as_models_built_with_the_same_numbers(device, what: str):
    names = FIELDS if what == "all" else [what]
    env = arm(3, device, **{name: FIELDS[name] for name in names})
    env.reset(seed=5)
    values = {name: drawn(env, name) for name in FIELDS}
    for _ in range(40):
        env.step(np.full((3, 1), 0.7, np.float32))
    found = env.sim.state.joint_q.numpy().reshape(3, 2)
    for world in range(3):
        builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=values["gravity"][world])
        Arm().build(builder)
        builder.body_mass[:] = values["bodies.mass"][world].tolist()
        builder.body_inertia[:] = list(values["bodies.inertia"][world])
        builder.body_com[:] = [wp.vec3(*com) for com in values["bodies.com"][world]]
        for key in ("armature", "damping", "friction", "limit_upper"):
            setattr(builder, f"joint_{key}", values[f"joints.{key}"][world].tolist())
        model = builder.finalize(device)
        sim = Simulator(model, FeatherstoneSolver(model), 0.01)
        sim.control.joint_f.assign(np.array([3.5, 0.0], np.float32))
        if not env.sim.control.joint_f.numpy().any():
            sim.control.joint_f.zero_()
            sim.control.joint_act.assign(np.array([3.5, 0.0], np.float32))
        sim.step(40)
        np.testing.assert_allclose(found[world], sim.state.joint_q.numpy(), atol=3e-5)
    assert np.ptp(found[:, 0]) > 1e-4


class Things(Task):
    """A ball above the ground and a box on it, without motors but for one that nothing uses."""

    name = "Things"
    dt = 0.002
    observation_size = 1
    observe = observe_positions
    score = score_actions

    def build(self, builder: ModelBuilder) -> Motors:
        ball = builder.add_body(origin=((0.0, 0.0, 1.1), (0.0, 0.0, 0.0, 1.0)), key="ball")
        builder.add_shape_sphere(ball, radius=0.1, restitution=0.5, key="ball")
        builder.add_joint_free(ball)
        box = builder.add_body(origin=((1.0, 0.0, 0.1), (0.0, 0.0, 0.0, 1.0)), key="box")
        builder.add_shape_box(box, hx=0.3, hy=0.3, hz=0.1, key="box")
        builder.add_joint_free(box)
        idle = builder.add_body(mass=1.0, I_m=np.eye(3), key="idle")
        builder.add_joint_revolute(-1, idle, axis=(0.0, 0.0, 1.0), key="idle")
        return Motors([0], [1.0], [-1.0], [1.0])

    def finish_scene(self, scene: ModelBuilder) -> None:
        scene.set_ground_plane(mu=0.4, restitution=0.0)


def test_drawn_sizes_and_materials_act_as_they_should(device):
    """Balls bounce to e² h, boxes slide for v / (μ g), with means of what is drawn and of the ground."""
    ranges = {
        "shapes.scale": Draw((0.5, 1.5), each="element", select="ball"),
        "shapes.restitution": Draw((0.2, 1.0), how="set", select="ball"),
        "shapes.friction": Draw((0.1, 0.9), how="set", select="box"),
    }
    env = BatchedEnv(Things(), 8, device, randomise=ranges, max_episode_steps=0)
    env.reset(seed=4)
    radius = drawn(env, "shapes.scale", "ball")[:, 0, 0]
    bounce = 0.5 * drawn(env, "shapes.restitution", "ball")[:, 0]
    friction = 0.5 * (0.4 + drawn(env, "shapes.friction", "box")[:, 0])
    assert min(np.ptp(radius), np.ptp(bounce), np.ptp(friction)) > 0.03
    View(env.sim, "box").bodies.qd = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    highest, still, fell = np.zeros(8), np.full(8, np.nan), np.sqrt(2.0 * (1.1 - radius) / 9.81)
    for step in range(1, 451):
        env.step(np.zeros((8, 1), np.float32))
        balls, boxes = View(env.sim, "ball").bodies, View(env.sim, "box").bodies
        up = np.array(balls.q)[:, 0, 2] - radius
        risen = step * Things.dt > fell + 0.01
        highest = np.where(risen, np.maximum(highest, up), highest)
        speed = np.array(boxes.qd)[:, 0, 3]
        still = np.where(np.isnan(still) & (speed < 1e-3), step * Things.dt, still)
    np.testing.assert_allclose(highest, bounce**2 * (1.1 - radius), atol=0.01)
    np.testing.assert_allclose(still, 1.0 / (friction * 9.81), rtol=0.03)


def test_actions_arrive_as_late_as_drawn(device):
    env = arm(300, device, delay=(0.02, 0.02))
    env.reset(seed=1)
    efforts = []
    for k in range(6):
        reward = env.step(np.full((300, 1), 0.1 * (k + 1), np.float32))[1]
        np.testing.assert_allclose(np.asarray(reward), 0.1 * (k + 1), rtol=1e-6)  # what was chosen is scored
        efforts.append(_effort(env))
    expected = 5.0 * np.array([0.0, 0.0, 0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(efforts, np.tile(expected[:, None], 300), rtol=1e-6)
    env.reset()
    env.step(np.full((300, 1), 1.0, np.float32))
    np.testing.assert_array_equal(_effort(env), 0.0)  # nothing is left of the last episode
    env = arm(3000, device, delay=(0.0, 0.035))
    env.reset(seed=1)
    late = np.zeros(3000)
    for _ in range(8):
        env.step(np.full((3000, 1), 1.0, np.float32))
        late += _effort(env) == 0.0
    assert set(late) == {0.0, 1.0, 2.0, 3.0, 4.0}
    # mean of a uniform number of 0 to 3.5 steps; standard error 0.02
    assert late.mean() == pytest.approx(1.75, abs=0.08)


def _effort(env: BatchedEnv) -> np.ndarray:
    worlds = env.num_envs
    act = env.sim.control.joint_act.numpy().reshape(worlds, -1)[:, 0]
    return act + env.sim.control.joint_f.numpy().reshape(worlds, -1)[:, 0]


def test_observations_have_noise_and_rewards_do_not_see_it(device):
    env, plain = arm(3000, device, noise=(0.1, 0.2)), arm(3000, device)
    seen = [e.reset(seed=1)[0] for e in (env, plain)]
    for _ in range(3):
        noise = np.asarray(seen[0], np.float64) - np.asarray(seen[1])
        # standard errors of 3000 numbers: 1.8 and 1.3 % of a deviation, and of a correlation
        np.testing.assert_allclose(noise.mean(axis=0) / [0.1, 0.2], 0.0, atol=0.08)
        np.testing.assert_allclose(noise.std(axis=0), [0.1, 0.2], rtol=0.06)
        assert abs(np.corrcoef(noise.T)[0, 1]) < 0.08
        steps = [e.step(np.full((3000, 1), 0.3, np.float32)) for e in (env, plain)]
        seen = [s[0] for s in steps]
        np.testing.assert_array_equal(steps[0][1], steps[1][1])
    np.testing.assert_array_equal(env.sim.state.joint_q.numpy(), plain.sim.state.joint_q.numpy())


def test_what_makes_no_sense_is_refused_before_the_first_step(device):
    wrong = [
        ({"bodies.mass": Draw((-2.0, 0.0), how="add")}, "mass of 'link_0' could become -1 to 1, expec"),
        ({"bodies.mass": Draw((0.0, 1.0), how="set")}, "mass.* could become 0 to 1, expected positive num"),
        ({"bodies.mass": Draw((1.0, 0.5), "normal")}, "bodies.mass.* could become -0.5 to 2.5"),
        ({"shapes.restitution": Draw((0.5, 1.5), how="set")}, "restitution.* expected numbers from 0 to 1"),
        ({"shapes.restitution": (0.5, 1.5)}, "shapes.restitution: is 0, which no factor changes"),
        ({"joints.armature": (-1.0, 1.0)}, "joints.armature.* could become -0.01 to 0.01"),
        ({"bodies.inertia": Draw((1.0, 2.0), how="add")}, "bodies.inertia: can only be scaled"),
        ({"bodies.com": Draw(((0.0, 0.0), (1.0, 1.0)))}, "com: range: expected numbers or 3 components"),
        ({"bodies.mass": Draw((0.5, 2.0), select="leg_*")}, "no label matches 'leg_.*are link_0, link_1"),
        ({"gravity": Draw((-10.0, -9.0), how="set")}, "gravity: range: expected vectors to set it to"),
        ({"joints.q": (0.5, 2.0)}, "joints.q: .*start of an episode"),
        ({"joints.X_p": (0.5, 2.0)}, "joints.X_p: cannot be drawn"),
        ({"bodies.masses": (0.5, 2.0)}, "randomise: there is no 'bodies.masses'; did you mean 'bodies.mass'"),
        ({"bodies.mass": 2.0}, r"bodies.mass: expected a range \(low, high\), a Draw or a dict"),
        ({"bodies.mass": {"ranges": (1, 2)}}, "bodies.mass: there is no 'ranges'; did you mean 'range'"),
        ({"bodies.mass": {"how": "add"}}, "bodies.mass: range: missing"),
        ({"bodies.mass": {"range": (1.0, 2.0), "how": "adding"}}, "bodies.mass: how: expected one of"),
        ({"bodies.mass": (2.0, 1.0)}, r"bodies.mass: range: expected \(low, high\)"),
        ({"bodies.mass": {"range": (0.0, 1.0), "distribution": "log-uniform"}}, "expected positive numb"),
        ({"bodies.mass": {"range": (1.0, -1.0), "distribution": "normal"}}, "deviation of at least 0"),
        ({"bodies.mass": {"range": (1.0, 2.0), "seconds": 1.0}}, "seconds: used only with when='interval'"),
        ({"bodies.mass": {"range": (1.0, 2.0), "when": "interval"}}, "expected the time between draws"),
        ({"bodies.mass": (1.0, np.inf)}, "two finite numbers"),
        ({"delay": (0.1, 0.0)}, "delay: expected a range"),
        ({"noise": -1.0}, "noise: expected standard deviations"),
        ({"noise": (0.1, 0.1, 0.1)}, "noise: expected one standard deviation, or 2"),
    ]  # fmt: skip
    for given, message in wrong:
        with pytest.raises(NewtonsimError, match=message):
            arm(2, device, **given)
    with pytest.raises(NewtonsimError, match="there is no field 'mass'"):
        Randomisation(fields={"mass": (0.5, 2.0)})


def test_dicts_and_lists_say_the_same_as_draws(device):
    several = [Draw((0.5, 0.5), select="link_0"), {"range": (3.0, 3.0), "select": "link_1"}]
    env = arm(2, device, **{"bodies.mass": several})
    env.reset(seed=1)
    np.testing.assert_allclose(drawn(env, "bodies.mass"), [[0.5, 6.0]] * 2)
    np.testing.assert_allclose(env.model.body_inv_mass.numpy(), [2.0, 1.0 / 6.0] * 2, rtol=1e-6)


def test_checkpoints_hold_what_was_drawn(device, tmp_path):
    ranges = {
        "bodies.mass": (0.5, 2.0),
        "gravity": Draw((0.5, 1.5), when="interval", seconds=0.05),
        "delay": (0.0, 0.05),
        "noise": 0.1,
    }
    env = arm(3, device, **ranges)
    env.reset(seed=2)
    for k in range(7):
        env.step(np.full((3, 1), 0.1 * k, np.float32))
    env.save(tmp_path / "env")
    expected = [env.step(np.full((3, 1), 0.2, np.float32))[0].copy() for _ in range(6)]
    other = arm(3, device, **ranges)
    other.reset(seed=9)
    other.restore(tmp_path / "env")
    for observed in expected:
        np.testing.assert_array_equal(other.step(np.full((3, 1), 0.2, np.float32))[0], observed)


def test_tasks_take_the_names_too(device):
    ranges = {"gravity": (0.5, 1.5), "shapes.scale": (0.9, 1.1), "joints.armature": (0.5, 2.0)}
    env = envs.make("Ant", 4, device=device, randomise=ranges)
    env.reset(seed=0)
    gravity = env.model.gravity[:, 2] / -9.81
    assert len(np.unique(gravity)) == 4
    assert 0.5 <= gravity.min() < gravity.max() <= 1.5
    radius = env.model.shape_collision_radius.numpy()
    sizes = env.model.shape_geo.scale.numpy()
    np.testing.assert_allclose(radius[:52:13], sizes[:52:13, 0], rtol=1e-6)
    assert len(np.unique(radius[:52:13])) == 4
    for _ in range(3):
        env.step(env.action_space.sample())
