"""Symmetry: the physics of mirror images is the truth; and what learning makes of it."""

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_quadruped import HIP, KNEE, quadruped

from newtonsim import FeatherstoneSolver, Model, View, envs
from newtonsim.envs.terms import library
from newtonsim.envs.terms.robot_mirror import other_side
from newtonsim.envs.terms.symmetry import SignedPermutation
from newtonsim.errors import NewtonsimError
from newtonsim.learn import Run, Training, settings_of
from newtonsim.learn.collect import Collector
from newtonsim.learn.learner import Learner
from newtonsim.learn.mirroring import Mirroring

SMALL = {"num_envs": 4, "steps": 6, "samples": 48, "hidden": (16,), "mini_batches": 2}
TURNS_BACK = {"Velocity": ("abduction",), "g1_like": ("_roll", "_yaw")}
"""Parts of names of joints whose axes lie in the mirror plane: their coordinates change sign."""


def mirrored_joints(names: list[str], values: np.ndarray, back: tuple[str, ...]) -> np.ndarray:
    """Exchange left and right, by names alone."""
    found = np.empty_like(values)
    for k, name in enumerate(names):
        swap = {"fl_": "fr_", "fr_": "fl_", "rl_": "rr_", "rr_": "rl_"}
        swap |= {"left_": "right_", "right_": "left_"}
        start = next((s for s in swap if name.startswith(s)), "")
        other = names.index(swap.get(start, "") + name[len(start) :])
        found[k] = values[other] * (-1.0 if any(part in name for part in back) else 1.0)
    return found


def mirror_state(q: np.ndarray, qd: np.ndarray, names: list[str], back: tuple[str, ...]) -> Any:
    """Return the mirror image of a floating robot's coordinates (7 + n,) and velocities (6 + n,)."""
    other_q, other_qd = q.copy(), qd.copy()
    other_q[1] *= -1.0
    other_q[[3, 5]] *= -1.0
    other_qd[[0, 2, 4]] *= -1.0  # angular first
    other_q[7:] = mirrored_joints(names, q[7:], back)
    other_qd[6:] = mirrored_joints(names, qd[6:], back)
    return other_q, other_qd


def converged(model: Model) -> FeatherstoneSolver:
    """Contacts are solved one after the other, in an order that no mirror turns around: to the end, then."""
    return FeatherstoneSolver(model, iterations=1000, tolerance=1e-7)


def two_worlds(
    robot: str | None, name: str = "Velocity", **options: Any
) -> tuple[envs.BatchedEnv, list[str], tuple[str, ...]]:
    """An environment whose second world starts as the mirror image of the first."""
    more = {} if robot is None else {"robot": robot}
    once = {"command": {"low": (-1.0, -0.5, -1.0), "high": (1.0, 0.5, 1.0)}}
    env = envs.make(name, 2, "cpu", threads=1, events=once, make_solver=converged, **more, **options)
    env.reset(seed=4)
    # a clock starts with the other foot in the next episode
    env.reset(options={"reset_mask": np.array([False, name == "VelocityBiped"])})
    names = [name for name in env.model.joint_key[: len(env.model.joint_key) // 2] if name != "root"]
    back = TURNS_BACK[robot or "Velocity"]
    q = env.sim.state.joint_q.numpy().reshape(2, -1).copy()
    qd = env.sim.state.joint_qd.numpy().reshape(2, -1).copy()
    rng = np.random.default_rng(1)
    qd[0] = rng.uniform(-0.5, 0.5, qd.shape[1])
    q[1], qd[1] = mirror_state(q[0], qd[0], names, back)
    view = View(env.sim)
    view.joints.q, view.joints.qd = q, qd
    memory = env.buffers.view.memory.numpy()
    memory[1, :3] = memory[0, :3] * [1.0, -1.0, -1.0]
    return env, names, back


@pytest.mark.parametrize(
    ("robot", "steps", "height", "close"),
    [(None, 20, 3.0, 1e-4), ("g1_like", 20, 3.0, 1e-4), (None, 25, None, 5e-3), ("g1_like", 10, None, 5e-3)],
)
def test_mirrored_rollouts_are_mirror_images(
    robot: str | None, steps: int, height: float | None, close: float
):
    """Physics, observations, actions, rewards and ends of a robot and of its mirror image.

    In the air to rounding; on the ground as well as contacts are solved, until one is made or broken a step
    earlier in one of them.
    """
    more = {} if height is None else {"height": height}
    secret = {"true": {"term": "velocity"}, "axes": {}, "height": {}}
    env, names, back = two_worlds(robot, privileged=secret, **more)
    maps = env.symmetry()
    rng = np.random.default_rng(2)
    for _ in range(steps):
        action = np.zeros(env.action_space.shape, np.float32)
        action[0] = rng.uniform(-0.6, 0.6, action.shape[1])
        action[1] = maps.actions(action[0])
        np.testing.assert_array_equal(action[1], mirrored_joints(names, action[0], back))
        obs, reward, terminated, _, infos = env.step(action)
        np.testing.assert_allclose(obs[1], maps.observations(obs[0]), atol=close)
        secret = infos["privileged"]
        np.testing.assert_allclose(secret[1], maps.privileged(secret[0]), atol=1e-3)
        np.testing.assert_array_equal(obs[1, 9:12], obs[0, 9:12] * [1.0, -1.0, -1.0])
        assert reward[1] == pytest.approx(reward[0], abs=1e-4)
        assert terminated[0] == terminated[1]
        assert not terminated[0]
    q = env.sim.state.joint_q.numpy().reshape(2, -1)
    qd = env.sim.state.joint_qd.numpy().reshape(2, -1)
    image, _ = mirror_state(q[0], qd[0], names, back)
    assert np.abs(q[0, 7:]).max() > 0.1
    np.testing.assert_allclose(q[1], image, atol=1e-3)


def test_a_walk_by_a_clock_and_its_mirror_image_are_half_a_period_apart():
    env, _, _ = two_worlds("g1_like", "VelocityBiped", height=3.0)
    maps, moved = env.symmetry(), 0.0
    rng = np.random.default_rng(2)
    for _ in range(15):
        action = rng.uniform(-0.6, 0.6, env.action_space.shape).astype(np.float32)
        action[1] = maps.actions(action[0])
        obs, reward, *_ = env.step(action)
        np.testing.assert_allclose(obs[1], maps.observations(obs[0]), atol=1e-4)
        np.testing.assert_allclose(obs[1, -2:], -obs[0, -2:], atol=1e-6)
        assert reward[1] == pytest.approx(reward[0], abs=1e-5)
        moved = max(moved, np.abs(obs[0, 12:24]).max())
    assert moved > 0.3


def test_a_drone_and_its_mirror_image_fly_alike():
    env = envs.make("Hover", 2, "cpu", threads=1)
    env.reset(seed=3)
    state = env.sim.state
    q, qd = state.joint_q.numpy().reshape(2, -1).copy(), state.joint_qd.numpy().reshape(2, -1).copy()
    q[1], qd[1] = mirror_state(q[0], qd[0], [], ())
    view = View(env.sim)
    view.joints.q, view.joints.qd = q, qd
    env.buffers.view.memory.numpy()[1, :3] = env.buffers.view.memory.numpy()[0, :3] * [1.0, -1.0, 1.0]
    maps = env.symmetry()
    rng = np.random.default_rng(0)
    for _ in range(40):
        action = rng.uniform(-0.5, 0.5, (2, 4)).astype(np.float32)
        action[1] = maps.actions(action[0])
        obs, *_ = env.step(action)
        np.testing.assert_allclose(obs[1], maps.observations(obs[0]), atol=1e-4)
    assert np.abs(obs[0, 15:18]).min() > 0.01


def test_heights_of_the_ground_are_mirrored():
    """On a ground whose height is x, and on one whose height is y."""
    maps = envs.make("VelocityRough", 1, "cpu").symmetry()
    x, y = np.meshgrid(np.linspace(-0.6, 0.6, 9), np.linspace(-0.4, 0.4, 5), indexing="ij")
    obs = np.zeros(93)
    obs[48:] = x.ravel()
    np.testing.assert_array_equal(maps.observations(obs)[48:], x.ravel())
    obs[48:] = y.ravel()
    np.testing.assert_allclose(maps.observations(obs)[48:], -y.ravel(), atol=1e-15)


def test_maps_are_involutions():
    with pytest.raises(NewtonsimError, match=r"number 1 of .* does not return"):
        SignedPermutation.of_places((2, 3, 1))
    with pytest.raises(NewtonsimError, match=r"number 1 of .* does not return"):
        SignedPermutation.of_places((2, -1))
    with pytest.raises(NewtonsimError, match="expected a permutation"):
        SignedPermutation.of_places((1, 1))
    mirror = SignedPermutation.of_places((-2, -1, 3))
    rows = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_array_equal(mirror(mirror(rows)), rows)
    np.testing.assert_array_equal(mirror(rows)[:, 0], -rows[:, 1])


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("fl_hip", "fr_hip"),
        ("rr_knee", "rl_knee"),
        ("RL_calf", "RR_calf"),
        ("LF_HAA", "RF_HAA"),
        ("left_ankle", "right_ankle"),
        ("armRight1", "armLeft1"),
        ("l_leg", "r_leg"),
        ("hip_r", "hip_l"),
        ("torso", "torso"),
        ("upright", "upright"),
        ("roller", "roller"),
    ],
)
def test_sides_of_names(name: str, other: str):
    assert other_side(name) == other
    assert other_side(other) == name


def changed(edit: Any, **options: Any) -> envs.BatchedEnv:
    """An environment whose model was changed after it was made."""
    env = envs.make("Velocity", 1, "cpu", **options)
    edit(View(env.model))
    return env


def heavier(view: View) -> None:
    mass = view.bodies.mass.numpy().copy()
    mass[0, view.model.body_key.index("fl_calf")] *= 1.05
    view.bodies.mass = mass


def narrower(view: View) -> None:
    limit = view.joints.limit_upper.numpy().copy()
    limit[0, 4] -= 0.3
    view.joints.limit_upper = limit


def softer(view: View) -> None:
    gain = view.joints.target_ke.numpy().copy()
    gain[0, 8] *= 0.5
    view.joints.target_ke = gain


def off_centre(view: View) -> None:
    com = view.bodies.com.numpy().copy()
    com[0, 0, 1] += 0.05
    view.bodies.com = com


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (heavier, "masses of joints 'fl_knee' and 'fr_knee'"),
        (narrower, "limits from home of joints 'fl_hip' and 'fr_hip'"),
        (softer, "target_ke of joints 'rl_knee' and 'rr_knee'"),
        (off_centre, "centres of mass of joint 'root'"),
    ],
)
def test_robots_that_are_not_symmetric_are_refused(edit: Any, message: str):
    with pytest.raises(NewtonsimError, match=f"the robot is not its mirror image: {message}"):
        changed(edit).symmetry()
    changed(edit, mirror_tolerance=0.6).symmetry()


def test_the_tolerance_that_is_asked_for_is_enough():
    """The error says how large all differences are, not of the first one alone."""

    def edit(view: View) -> None:
        heavier(view)
        narrower(view)

    with pytest.raises(NewtonsimError, match="limits from home") as refused:
        changed(edit).symmetry()
    told = re.search(r"differences are up to (\S+), and `mirror_tolerance` is 0.01", str(refused.value))
    assert told is not None
    changed(edit, mirror_tolerance=float(told[1])).symmetry()
    with pytest.raises(NewtonsimError, match="differences are up to"):
        changed(edit, mirror_tolerance=0.9 * float(told[1])).symmetry()


def test_what_has_no_mirror_map_is_refused():
    with pytest.raises(NewtonsimError, match="centres of mass of joint 'joint5'"):
        envs.make("Reach", 1, "cpu").symmetry()
    with pytest.raises(NewtonsimError, match="CartPole: symmetry: the task declares none"):
        envs.make("CartPole", 1, "cpu").symmetry()
    mass = {"term": "field", "field": "bodies.mass", "size": 1, "select": "trunk"}
    cases = [
        ({"odd": {"term": "command", "mirror": [1]}}, "odd: its mirror map has 1 numbers, the term 3"),
        ({"odd": {"term": "command", "mirror": "sideways"}}, "odd: mirror: expected one of vector, axial"),
        ({"left": library.OBSERVATIONS["body"]("fl_calf")}, "left: the body of joint 'fl_knee' and its axes"),
        ({"half": library.OBSERVATIONS["angles"]("fl_*")}, "half: joint 'fl_abduction' is there, but its"),
        ({"mass": mass}, "mass: its mirror map is unknown; give the term a `mirror`"),
    ]
    for terms, message in cases:
        env = envs.make("Velocity", 1, "cpu", observations=terms)
        with pytest.raises(NewtonsimError, match=message):
            env.symmetry()
    envs.make("Velocity", 1, "cpu", observations={"mass": {**mass, "mirror": "same"}}).symmetry()
    with pytest.raises(NewtonsimError, match="there is no joint 'tail'"):
        envs.make("Velocity", 1, "cpu", mirror={"tail": "tail"}).symmetry()


@pytest.fixture
def with_feet(tmp_path: Path) -> dict[str, Any]:
    """Options of a quadruped whose feet are links on fixed joints with numbers instead of sides."""
    path, parts = tmp_path / "pup.urdf", []
    inertia = '<inertia ixx="1e-5" iyy="1e-5" izz="1e-5" ixy="0" ixz="0" iyz="0"/>'
    light = f'<inertial><mass value="0.02"/>{inertia}</inertial>'
    sphere = '<collision><geometry><sphere radius="0.018"/></geometry></collision>'
    places = {f"foot{k}": (f"{leg}_lower", "0 0 -0.16") for k, leg in enumerate(("rr", "fl", "fr", "rl"))}
    for name, (parent, place) in {**places, "imu": ("trunk", "0.05 0.004 0.02")}.items():
        parts.append(f'<link name="{name}">{light}{sphere if name != "imu" else ""}</link>')
        parts.append(
            f'<joint name="{name}_mount" type="fixed"><parent link="{parent}"/><child link="{name}"/>'
            f'<origin xyz="{place}"/></joint>'
        )
    path.write_text(quadruped().replace("</robot>", "".join(parts) + "</robot>"))
    home = {"*_hip": HIP, "*_knee": KNEE}
    gains = {"stiffness": 20.0, "damping": 0.5}
    return {"robot": str(path), "base": "trunk", "feet": "foot*", "home": home, **gains}


def test_what_is_fixed_to_a_body_belongs_to_it(with_feet: dict[str, Any]):
    """Fixed joints need no counterparts, whatever their names; what they carry counts with its body."""
    maps = envs.make("Velocity", 1, "cpu", **with_feet).symmetry()
    expected = envs.make("Velocity", 1, "cpu", **with_feet, mirror={"foot0_mount": "foot3_mount"}).symmetry()
    assert maps.actions.places() == expected.actions.places() == [3, 4, 1, 2, 7, 8, 5, 6]
    path = Path(with_feet["robot"])
    text = path.read_text()
    # a heavier foot is found, and so is one that is mounted elsewhere
    foot, mount = (
        '<link name="foot0"><inertial><mass value="0.02"/>',
        '"0 0 -0.16"/></joint><link name="foot1">',
    )
    for edit, what in (
        (text.replace(foot, foot.replace("0.02", "0.03")), "masses"),
        (text.replace(mount, mount.replace("0 0 -0.16", "0 0.02 -0.16")), "inertias"),
    ):
        assert edit != text
        path.write_text(edit)
        with pytest.raises(
            NewtonsimError, match=f"its mirror image: {what} of joints 'rl_knee' and 'rr_knee'"
        ):
            envs.make("Velocity", 1, "cpu", **with_feet).symmetry()


def test_errors_say_how_to_name_counterparts(with_feet: dict[str, Any]):
    """The option that they give is taken as it stands."""
    path = Path(with_feet["robot"])
    text = path.read_text()
    for k, leg in enumerate(("fl", "fr", "rl", "rr")):
        text = text.replace(f"{leg}_hip", f"hip{k}_hip").replace(f"{leg}_knee", f"knee{k}_knee")
    pairs = {f"{name}{k}_{name}": f"{name}{k + 1}_{name}" for k in (0, 2) for name in ("hip", "knee")}
    # a side in the name of a joint that has none on the other side
    for edit, message in (
        (text, "centres of mass of joint 'hip0_hip'"),
        (text.replace("hip1_hip", "left_hip"), "'right_hip'"),
    ):
        path.write_text(edit)
        with pytest.raises(NewtonsimError, match=message) as refused:
            envs.make("Velocity", 1, "cpu", **with_feet).symmetry()
        option = re.search(r'--option "mirror=(.*)"$', str(refused.value))
        assert option is not None
        given = ast.literal_eval(option[1])
        assert given == {
            a: b.replace("hip1_hip", "left_hip") if "left" in edit else b for a, b in pairs.items()
        }
        envs.make("Velocity", 1, "cpu", **with_feet, mirror=given).symmetry()


def test_asymmetric_tasks_are_refused_before_the_first_step(tmp_path):
    run = Run("Reach", settings_of("Reach", {**SMALL, "symmetry": "augment"}))
    with pytest.raises(NewtonsimError, match="joint5"):
        Training(run, tmp_path, "cpu")
    with pytest.raises(NewtonsimError, match="symmetry: expected 'none', 'augment' or 'loss', got 'both'"):
        settings_of("Reach", {"symmetry": "both"})


def learner_of(symmetry: str) -> tuple[Collector, Learner]:
    options = {"privileged": {"true": {"term": "velocity"}}}
    run = Run("Velocity", settings_of("Velocity", {**SMALL, "symmetry": symmetry}), options)
    collector = Collector(run.plan("cpu", 1), 0, 4)
    return collector, Learner(collector.policy, run.settings, 0, "cpu")


def test_augmentation_doubles_the_batch(monkeypatch: pytest.MonkeyPatch):
    """Networks see each sample and its mirror image, whose other numbers are those of the sample."""
    collector, learner = learner_of("augment")
    seen: list[Any] = []
    evaluate = learner.ppo.actor.get_output_log_prob

    def note(actions: torch.Tensor) -> torch.Tensor:
        seen.append(actions)
        return evaluate(actions)

    rollout = collector.collect(learner.weights(), 0)
    monkeypatch.setattr(learner.ppo.actor, "get_output_log_prob", note)
    told = learner.update(rollout, 0)
    batches = [actions for actions in seen if len(actions) != 4]
    assert {len(actions) for actions in batches} == {2 * 4 * 6 // 2}
    for actions in batches:
        half = len(actions) // 2
        mirror = collector.policy.symmetry.actions
        np.testing.assert_array_equal(actions[half:], mirror(actions[:half].numpy()))
    assert told["symmetry"] > 0.0
    collector.close()


class Equivariant(torch.nn.Module):
    """Half the sum of a network's action and the mirrored action for the mirrored observation."""

    def __init__(self, actor: Any, mirroring: Mirroring):
        super().__init__()
        self.actor, self.mirroring = actor, mirroring

    def forward(self, obs: Any) -> torch.Tensor:
        both, _ = self.mirroring(None, obs, None)
        actions = self.actor(both)
        n = len(obs)
        _, images = self.mirroring(None, None, actions[n:])
        return 0.5 * (actions[:n] + images[n:])


def test_the_loss_of_an_equivariant_policy_is_zero():
    collector, learner = learner_of("loss")
    rollout = collector.collect(learner.weights(), 0)
    learner.ppo.eval_mode()

    class Batch:
        observations = collector.policy.groups(rollout.obs[0], rollout.privileged[0])

    symmetry, mirroring = learner.ppo.symmetry, Mirroring(collector.policy)
    plain = symmetry.compute_loss(learner.ppo.actor, Batch(), 4)
    even = symmetry.compute_loss(Equivariant(learner.ppo.actor, mirroring), Batch(), 4)
    assert float(plain.detach()) > 1e-8
    assert float(even.detach()) < 1e-5 * float(plain.detach())
    collector.close()


def test_the_loss_makes_a_policy_more_symmetric():
    collector, learner = learner_of("loss")
    with torch.no_grad():
        list(learner.ppo.actor.mlp.parameters())[-2].normal_(std=0.5)
    told = []
    for iteration in range(8):
        told.append(learner.update(collector.collect(learner.weights(), iteration), iteration)["symmetry"])
    assert told[-1] < 0.5 * told[0]
    collector.close()
