"""Contacts other than those of soles, against what geometry says touches; and what they cost and tell."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from host_work import forbid_host_work
from sensor_bench import bench, put_state, still
from small_quadruped import HIP, KNEE, LENGTH, RADIUS, quadruped

from newtonsim import envs
from newtonsim.cli.progress import advise
from newtonsim.envs.task import Metric
from newtonsim.errors import NewtonsimError
from newtonsim.examples import asset_path
from newtonsim.learn import PolicyFile, evaluate
from newtonsim.learn.transfer import solver_of

pytestmark = pytest.mark.filterwarnings("ignore::newtonsim.errors.DefaultsWarning")

SHIN = (
    '<collision><origin xyz="0 0 -0.07"/><geometry><cylinder radius="0.01" length="0.12"/></geometry>'
    "</collision>"
)
"""A shin on the link that carries the foot, above the sphere."""
STAND = [0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0, 0.0]


@pytest.fixture(params=["one body", "fixed to each other"])
def pup(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of a quadruped whose feet are spheres, on the links of its shins or on links of their own."""
    path = tmp_path / "pup.urdf"
    sphere = '<collision><origin xyz="0 0 -0.16"/>'
    text, feet = quadruped(), "*_lower"
    assert text.count(sphere) == 4
    if request.param == "one body":
        text = text.replace(sphere, SHIN + sphere)
    else:
        feet = "*_foot"
        ball = f'<collision><geometry><sphere radius="{RADIUS}"/></geometry></collision>'
        inertia = '<inertia ixx="1e-5" iyy="1e-5" izz="1e-5" ixy="0" ixz="0" iyz="0"/>'
        old = f'{sphere}<geometry><sphere radius="{RADIUS}"/></geometry></collision>'
        assert text.count(old) == 4
        text = text.replace(old, SHIN).replace("</robot>", "")
        for leg in ("fl", "fr", "rl", "rr"):
            text += (
                f'<link name="{leg}_foot"><inertial><mass value="0.02"/>{inertia}</inertial>{ball}</link>'
                f'<joint name="{leg}_ankle" type="fixed"><parent link="{leg}_lower"/>'
                f'<child link="{leg}_foot"/><origin xyz="0 0 -0.16"/></joint>'
            )
        text += "</robot>"
    path.write_text(text)
    home = {"*_hip": HIP, "*_knee": KNEE}
    return {"robot": str(path), "base": "trunk", "feet": feet, "home": home}


def touching(env: envs.BatchedEnv, world: int = 0) -> set[str]:
    """Return the names of the bodies that touch something other than with their soles."""
    readings = env.sensor("undesired")[world]
    return {name for name, one in zip(env.task.built.body_names, readings) if one}


def test_points_of_a_body_decide():
    """A box on the ground, with soles that reach up to above and to below its lower side, and with none."""
    low, high = envs.Sole("box", (0.0, 0.0, 1.0), -0.101), envs.Sole("box", (0.0, 0.0, 1.0), -0.098)
    env = bench(
        none=envs.UndesiredContacts(), low=envs.UndesiredContacts([low]), high=envs.UndesiredContacts([high])
    )
    env.reset(seed=0)
    for name in ("none", "low", "high"):
        np.testing.assert_array_equal(env.sensor(name), 0.0)
    still(env, 20)
    np.testing.assert_array_equal(env.sensor("none"), [[1.0, 0.0]] * 2)
    np.testing.assert_array_equal(env.sensor("low"), [[1.0, 0.0]] * 2)
    np.testing.assert_array_equal(env.sensor("high"), 0.0)
    # upside down it lies on what is not its sole
    put_state(env, [0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 7)
    still(env)
    np.testing.assert_array_equal(env.sensor("high"), [[1.0, 0.0]] * 2)
    # 3 mm above the ground it does not touch it
    put_state(env, [*STAND[:2], 0.103, *STAND[3:]], [0.0] * 7)
    still(env)
    np.testing.assert_array_equal(env.sensor("none"), 0.0)


def test_a_robot_may_touch_itself():
    """High above the ground its front legs cross: they touch each other, which does not count."""
    env = envs.make("Velocity", 1, "cpu", threads=1, self_collisions=True, stiffness=1e-3, damping=50.0)
    env.reset(seed=0)
    q = env.sim.state.joint_q.numpy().copy()
    q[2] = 5.0
    for name, coord in zip(env.task.built.joints, env.task.built.coords):
        q[coord] = {"fl_abduction": -0.54, "fr_abduction": 0.54}.get(name, q[coord])
    put_state(env, q, np.zeros(env.buffers.view.dofs))
    env.step(np.zeros(env.action_space.shape, np.float32))
    contacts = env.sim.solver.contacts
    assert contacts.world_count.numpy()[0] > 0
    assert contacts.view.distance.numpy()[: contacts.world_count.numpy()[0]].min() < 1e-3
    assert touching(env) == set()


def test_a_sole_needs_a_direction():
    with pytest.raises(NewtonsimError, match="sensor 'touch': up: expected a unit vector, got"):
        bench(touch=envs.UndesiredContacts([envs.Sole("box", (0.0, 0.0, 0.0), 1.0)]))
    with pytest.raises(NewtonsimError, match="sensor 'touch': there is no body 'sole'"):
        bench(touch=envs.UndesiredContacts([envs.Sole("sole", (0.0, 0.0, 1.0), 1.0)]))


def test_it_is_read_within_the_recorded_step(monkeypatch: pytest.MonkeyPatch):
    env = bench(output="torch", touch=envs.UndesiredContacts())
    env.reset(seed=0)
    actions = torch.zeros(2, 1)
    env.step(actions)
    with monkeypatch.context() as patch:
        forbid_host_work(patch, env)
        for _ in range(3):
            env.step(actions)
    np.testing.assert_array_equal(env.sensor("touch").numpy(), [[1.0, 0.0]] * 2)


@pytest.mark.parametrize("engine", [None, "mujoco"])
def test_spheres_at_the_ends_of_shins_are_feet_and_shafts_are_not(engine: str | None, pup: dict[str, Any]):
    """The shins lean forward: their spheres touch, or at last the upper ends of their shafts."""
    solver = {} if engine is None else {"make_solver": solver_of(engine)}
    # drives that only damp keep the pose for the time of a step
    env = envs.make("Velocity", 1, "cpu", threads=1, stiffness=1e-3, damping=50.0, **pup, **solver)
    env.reset(seed=0)
    for lean in (0.0, 0.6, 1.3):
        put_robot(env, LENGTH + LENGTH * math.cos(lean) + RADIUS, -lean)
        assert touching(env) == set()
    # the shaft begins 1 cm from the knee and is 1 cm thick; thighs end 1 cm above the knee
    rise = 0.2
    knee = 0.01 * math.cos(rise) - 0.01 * math.sin(rise)
    put_robot(env, LENGTH + knee, -0.5 * math.pi - rise)
    assert touching(env) == {f"{leg}_lower" for leg in ("fl", "fr", "rl", "rr")}
    put_robot(env, LENGTH + knee + 0.01, -0.5 * math.pi - rise)
    assert touching(env) == set()
    # 3 cm deep in the ground, feet take the lower ends of the shafts with them; shafts that are deeper count
    put_robot(env, LENGTH + LENGTH * math.cos(1.3) + RADIUS - 0.03, -1.3)
    assert touching(env) == set()
    put_robot(env, LENGTH + knee - 0.03, -0.5 * math.pi - rise)
    assert touching(env) >= {f"{leg}_lower" for leg in ("fl", "fr", "rl", "rr")}


def put_robot(env: envs.BatchedEnv, height: float, knee: float) -> None:
    """Put the robot with upright thighs half a millimetre below a height of its trunk, and take a step."""
    q = env.sim.state.joint_q.numpy().copy()
    q[:7] = [0.0, 0.0, height - 5e-4, 0.0, 0.0, 0.0, 1.0]
    q[7:] = [0.0, knee] * 4
    put_state(env, q, np.zeros(env.buffers.view.dofs))
    env.step(np.zeros(env.action_space.shape, np.float32))


def test_each_body_that_touches_costs(pup: dict[str, Any]):
    """The same pose earns less by the weight for each of four shins, and for those that are named."""
    earned = {}
    for name, change in (("none", None), ("all", -1.0), ("two", {"bodies": "r*_lower", "weight": -1.0})):
        rewards = {"undesired_contacts": change}
        env = envs.make("Velocity", 1, "cpu", threads=1, stiffness=1e-3, damping=50.0, rewards=rewards, **pup)
        env.reset(seed=0)
        put_robot(env, LENGTH + 0.0078, -0.5 * math.pi - 0.2)
        earned[name] = float(env.buffers.view.reward.numpy()[0])
    assert earned["none"] - earned["all"] == pytest.approx(4 * 0.02, abs=1e-6)
    assert earned["none"] - earned["two"] == pytest.approx(2 * 0.02, abs=1e-6)


@pytest.mark.parametrize("pup", ["one body"], indirect=True)
def test_the_height_of_soles_is_an_option(pup: dict[str, Any]):
    """Soles that reach above the knees make feet of shafts; those of no height leave nothing but a point."""
    for height, lower in ((0.3, False), (None, True)):
        env = envs.make(
            "Velocity", 1, "cpu", threads=1, stiffness=1e-3, damping=50.0, sole_height=height, **pup
        )
        env.reset(seed=0)
        put_robot(env, LENGTH + 0.0078, -0.5 * math.pi - 0.2)
        assert ("fl_lower" in touching(env)) == lower
    # a shin that leans otherwise than at home touches with another point of its sphere
    env = envs.make("Velocity", 1, "cpu", threads=1, stiffness=1e-3, damping=50.0, sole_height=1e-4, **pup)
    env.reset(seed=0)
    put_robot(env, LENGTH + LENGTH * math.cos(1.3) + RADIUS, -1.3)
    assert "fl_lower" in touching(env)


@pytest.mark.parametrize("name", ["velocity", "velocity_rough", "velocity_biped"])
def test_policies_that_ship_walk_on_their_feet(name: str):
    policy = PolicyFile(asset_path(f"policies/{name}.onnx"))
    env = envs.make(policy.about["name"], 8, "cpu", threads=1, max_episode_steps=250)
    share = evaluate(policy, env, 8, seed=5).metrics["contacts besides the feet"]
    assert share.unit == "%"
    assert share.values.mean() < 1.0
    assert share.advise("contacts") == ""


def test_lying_is_told_and_explained(capsys: pytest.CaptureFixture[str]):
    """A robot whose legs give way lies on its trunk: all of the time after it fell, in all worlds."""
    env = envs.make("Velocity", 4, "cpu", threads=1, max_episode_steps=200, ends={"low": None}, stiffness=0.1)
    found = evaluate(lambda obs: np.zeros((4, 12), np.float32), env, 4, seed=5)
    share = found.metrics["contacts besides the feet"]
    assert share.values.min() > 50.0
    assert share.values.mean() == pytest.approx(max(part.mean() for part in share.parts.values()), abs=20.0)
    assert f"contacts besides the feet {share.values.mean():.1f} %" in str(found)
    advise(found.metrics)
    told = capsys.readouterr().out
    assert told.startswith(f"note: contacts besides the feet {share.values.mean():.1f} % (")
    assert "rewards={'undesired_contacts'" in told
    assert max(map(len, told.splitlines())) <= 100


def test_advice_names_the_parts_that_have_most():
    parts = {name: np.array([value, value]) for name, value in zip("abcdef", (1.0, 30.0, 0.0, 7.0, 9.0, 8.0))}
    metric = Metric(np.array([30.0, 40.0]), "%", parts=parts, most=5.0, advice="lie down")
    assert metric.advise("x") == "x 35.0 % (b 30, e 9, f 8, d 7): lie down"
    joined = Metric.joined([metric, metric])
    assert joined.advise("x") == metric.advise("x")
    assert len(joined.parts["a"]) == 4
    assert Metric(np.array([4.0]), "%", most=5.0, advice="lie down").advise("x") == ""
    assert Metric(np.array([np.nan]), "%", most=5.0, advice="lie down").advise("x") == ""
