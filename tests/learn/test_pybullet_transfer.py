"""Policies that play in PyBullet: the same robot there, and what is refused."""

import re
from typing import Any

import numpy as np
import pytest
import warp as wp

pytest.importorskip("pybullet")

from drone_pilot import hold

import newtonsim
from newtonsim import envs
from newtonsim.cli.main import main
from newtonsim.errors import CheckpointError, NewtonsimError, NotDifferentiableError
from newtonsim.examples import asset_path
from newtonsim.learn import transfer
from newtonsim.learn.bullet_solver import PyBulletSolver
from newtonsim.learn.transfer import env_of, solver_of

ARM = {"reset_noise_scale": 0.0}
STIFFNESS = np.array([4500.0, 4500.0, 4500.0, 4500.0, 1500.0, 1500.0, 1500.0])


def side(name: str, engine: str | None, **options: Any) -> envs.BatchedEnv:
    return env_of(name, 1, options, None if engine is None else solver_of(engine), 0.005)


def test_a_drone_flies_there_as_here():
    found = transfer(hold, "Hover", engine="pybullet", seeds=(3,), episodes=2)
    assert found.share == pytest.approx(1.0, abs=0.02)
    here, there = found.here[0], found.there[0]
    assert np.all(there.lengths == 400)
    here, there = (side.metrics["distance"].values for side in (here, there))
    np.testing.assert_allclose(here, there, rtol=0.05)


@pytest.mark.parametrize("joint", [0, 1, 4])
def test_drives_of_an_arm_move_there_as_here(joint: int):
    """A step of the target of one joint: the way there, and that others stay."""
    ways = []
    for engine in ("pybullet", None):
        env = side("Reach", engine, **ARM)
        env.reset(seed=0)
        way = []
        for k in range(14):
            action = np.zeros((1, 7), np.float32)
            action[0, joint] = 1.0 if k < 6 else 0.0
            env.step(action)
            way.append(env.sim.state.joint_q.numpy()[:7].copy())
        ways.append(np.array(way))
    moved = ways[1][-1, joint] - ways[1][0, joint]
    assert moved > 0.25
    np.testing.assert_allclose(ways[0], ways[1], atol=0.03 * moved)


def test_an_arm_at_rest_holds_its_weight_there():
    """Efforts of the drives are those of gravity, by MuJoCo's inverse dynamics."""
    import mujoco

    env = side("Reach", "pybullet", **ARM)
    env.reset(seed=0)
    for _ in range(25):
        env.step(np.zeros((1, 7), np.float32))
    q = env.sim.state.joint_q.numpy().astype(float)
    held = STIFFNESS * (env.sim.control.joint_act.numpy()[:7] - q[:7])
    model = mujoco.MjModel.from_xml_path(str(asset_path("zoo/fr3_like.xml")))
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(held, data.qfrc_bias[:7], atol=0.05)


def test_a_quadruped_in_the_air_moves_there_as_here():
    """Joints with rotor inertia under random targets."""
    ways = []
    for engine in ("pybullet", None):
        env = side("Velocity", engine, height=3.0, reset_noise_scale=0.0)
        env.reset(seed=0)
        rng = np.random.default_rng(0)
        way = []
        for target in rng.uniform(-0.6, 0.6, (3, 1, 12)).astype(np.float32).repeat(5, axis=0):
            env.step(target)
            way.append(env.sim.state.joint_q.numpy().copy())
        ways.append(np.array(way))
    assert np.ptp(ways[1][:, 7:], axis=0).min() > 0.1
    np.testing.assert_allclose(ways[0][:, 7:], ways[1][:, 7:], atol=0.05)
    for way in ways:  # a quaternion and its negative are one rotation
        way[:, 3:7] *= np.sign(way[:, 6:7])
    np.testing.assert_allclose(ways[0][:, :7], ways[1][:, :7], atol=0.02)


def test_a_robot_that_is_placed_elsewhere_is_there():
    """Resets, and states that a user writes, reach the engine."""
    env = side("Hover", "pybullet")
    first, _ = env.reset(seed=1)
    for _ in range(5):
        env.step(np.zeros((1, 4), np.float32))
    again, _ = env.reset(seed=1)
    np.testing.assert_array_equal(first, again)
    obs, *_ = env.step(np.zeros((1, 4), np.float32))
    here = side("Hover", None)
    here.reset(seed=1)
    expected, *_ = here.step(np.zeros((1, 4), np.float32))
    np.testing.assert_allclose(obs, expected, atol=0.01)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Lift", "PyBullet: expected one robot in each world, got 2 trees"),
        ("Hopper", "PyBullet: joint '.*': expected a root that is free or fixed"),
        ("VelocityRough", "PyBullet: shape '.*': the world may contain only a level ground"),
        ("Ant", "Ant: it observes contact forces, which PyBulletSolver does not report"),
    ],
)
def test_what_cannot_be_transferred_is_refused(name: str, message: str):
    with pytest.raises(NewtonsimError, match=message):
        side(name, "pybullet")


def test_what_a_simulation_in_pybullet_cannot_is_refused():
    env = side("Hover", "pybullet")
    with pytest.raises(CheckpointError, match="cannot be saved or restored"):
        env.sim.snapshot()
    model, state = env.sim.model, env.sim.model.state(requires_grad=True)
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="PyBulletSolver has no gradients"):
        env.sim.solver.step(model, state, model.state(), None, None, 0.01)
    env.close()
    builder = newtonsim.ModelBuilder()  # y is up
    body = builder.add_body()
    builder.add_joint_free(body)
    builder.add_shape_sphere(body, radius=0.1)
    with pytest.raises(NewtonsimError, match="expected a model whose up_vector is z"):
        PyBulletSolver(builder.finalize("cpu"))


def test_contacts_there_have_no_time_constant():
    with pytest.raises(NewtonsimError, match="contact_time: PyBullet's contacts have no time constant"):
        transfer(hold, "Hover", engine="pybullet", contact_time=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "least"), [("hover", 0.95), ("velocity", 0.6), ("velocity_biped", 0.6), ("reach", 0.95)]
)
def test_policies_that_ship_do_there_what_they_do_here(
    policy: str, least: float, capsys: pytest.CaptureFixture[str]
):
    """Seeds that nobody has chosen; the whole command."""
    path = str(asset_path(f"policies/{policy}.onnx"))
    assert main(["transfer", path, "--to", "pybullet", "--seeds", "101", "--episodes", "2"]) == 0
    told = capsys.readouterr().out
    share = re.search(r"pybullet achieves (\d+) % of the return here", told)
    assert share is not None
    assert int(share[1]) >= 100 * least
