"""Policies that play in MuJoCo: the same task there, its errors, and what is refused."""

import re
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
from drone_pilot import hold

from newtonsim import envs
from newtonsim.actuators import PD
from newtonsim.cli.main import main
from newtonsim.envs.tasks import Velocity
from newtonsim.errors import NewtonsimError
from newtonsim.examples import asset_path
from newtonsim.learn import Episodes, evaluate, transfer
from newtonsim.learn.transfer import env_of, longest_step, solver_of


def test_a_drone_flies_there_as_here():
    found = transfer(hold, "Hover", seeds=(3, 4), episodes=2)
    assert found.share == pytest.approx(1.0, abs=0.02)
    for here, there in zip(found.here, found.there):
        assert np.all(here.lengths == 400)
        assert np.all(there.lengths == 400)
        away = [side.metrics["distance"] for side in (here, there)]
        assert {metric.unit for metric in away} == {"m"}
        assert np.nanmax(away[1].values) < 0.3
        # without contact both engines differ by their integrators alone
        np.testing.assert_allclose(away[0].values, away[1].values, rtol=0.05)
    everything = [
        np.concatenate([e.metrics["distance"].values for e in side]) for side in (found.here, found.there)
    ]
    for metric, values in zip(found.metrics["distance"], everything, strict=True):
        np.testing.assert_array_equal(metric.values, values)


def test_the_robot_there_is_that_of_mujocos_own_file():
    """Stepped by the policy's targets, it goes where MuJoCo takes the file itself."""
    env = envs.make("Velocity", 1, "cpu", make_solver=solver_of("mujoco"), reset_noise_scale=0.0, height=1.5)
    env.reset(seed=0)
    spec = mujoco.MjSpec.from_file(str(asset_path("zoo/go2_like.xml")))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    spec.option.timestep = 0.01
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    mj = spec.compile()
    data = mujoco.MjData(mj)
    q = env.sim.state.joint_q.numpy().copy()
    data.qpos[:] = [*q[:3], q[6], *q[3:6], *q[7:]]
    rng = np.random.default_rng(0)
    for _ in range(15):
        action = rng.uniform(-0.5, 0.5, (1, 12)).astype(np.float32)
        data.ctrl[:] = np.tile([0.0, 0.8, -1.5], 4) + 0.5 * action[0]
        env.step(action)
        mujoco.mj_step(mj, data, 2)
    np.testing.assert_allclose(env.sim.state.joint_q.numpy()[7:], data.qpos[7:], atol=2e-3)
    np.testing.assert_allclose(env.sim.state.joint_q.numpy()[:3], data.qpos[:3], atol=2e-3)


class Motorised(Velocity):
    """Its motors are explicit control, behind a delay of two of MuJoCo's steps."""

    def actuators(self) -> dict[str, PD]:
        return {"??_*": PD(stiffness=30.0, damping=0.5, delay=0.004)}


def test_actuators_there_are_those_here():
    """Against MuJoCo itself, with the same control by hand."""
    task = Motorised(reset_noise_scale=0.0, height=1.5)
    task.dt, task.frame_skip = 0.002, 10
    env = envs.BatchedEnv(task, 1, "cpu", make_solver=solver_of("mujoco"))
    env.reset(seed=0)
    spec = mujoco.MjSpec.from_file(str(asset_path("zoo/go2_like.xml")))
    spec.option.timestep = 0.002
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for element in (*spec.keys, *spec.actuators):
        spec.delete(element)
    mj = spec.compile()
    data = mujoco.MjData(mj)
    q = env.sim.state.joint_q.numpy().copy()
    data.qpos[:] = [*q[:3], q[6], *q[3:6], *q[7:]]
    rng = np.random.default_rng(0)
    given: list[np.ndarray] = []
    for _ in range(10):
        action = rng.uniform(-0.4, 0.4, (1, 12)).astype(np.float32)
        target = q[7:] + 0.5 * action[0]
        given = given or [target, target]  # the first command counts as if it had always been given
        env.step(action)
        for _ in range(10):
            given.append(target)
            data.qfrc_applied[6:] = 30.0 * (given[-3] - data.qpos[7:]) - 0.5 * data.qvel[6:]
            mujoco.mj_step(mj, data)
    np.testing.assert_allclose(env.sim.state.joint_q.numpy()[7:], data.qpos[7:], atol=2e-3)
    np.testing.assert_allclose(env.sim.state.joint_q.numpy()[:3], data.qpos[:3], atol=2e-3)


def test_metrics_are_means_over_the_episode():
    """Of a drone whose motors are off: it falls, and the distance from its point is that of free fall."""
    env = envs.make("Hover", 2, "cpu", offset=0.0, tilt=0.0, events={"in_air": {"offset": 0.0, "speed": 0.0}})
    found = evaluate(lambda obs: np.full((len(obs), 4), -1.0, np.float32), env, 2, seed=1)
    away = found.metrics["distance"]
    for error, length in zip(away.values, found.lengths):
        t = 0.01 * np.arange(1, length)
        assert error == pytest.approx(np.mean(0.5 * 9.81 * t * (t + 0.005)), rel=0.02)
    assert f"distance {away.values.mean():.3f} m" in str(found)


def test_what_cannot_be_transferred_is_refused():
    def nothing(obs: np.ndarray) -> Any:
        return np.zeros((len(obs), 8), np.float32)

    with pytest.raises(NewtonsimError, match="engine: expected one of mujoco, pybullet, got 'bullet'"):
        transfer(nothing, "Hover", engine="bullet")
    with pytest.raises(NewtonsimError, match="Ant: it observes contact forces, which MuJoCoSolver"):
        transfer(nothing, "Ant", seeds=(0,), episodes=1)
    with pytest.raises(NewtonsimError, match="'soles': it reads contact forces, which MuJoCoSolver does not"):
        transfer(nothing, "VelocityRough", {"levels": 1, "kinds": ["rough"]}, seeds=(0,), episodes=1)


@pytest.mark.parametrize(("contact_time", "longest"), [(0.02, 0.002), (0.004, 0.001)])
def test_steps_there_suit_the_contacts_and_actions_come_as_often(contact_time: float, longest: float):
    """MuJoCo's default step, and a quarter of the time constant of its contacts where that is less."""
    assert longest_step("mujoco", contact_time) == pytest.approx(longest)
    env = env_of("Velocity", 1, {}, solver_of("mujoco", contact_time), longest)
    assert env.sim.dt == pytest.approx(0.02)
    assert env.sim.dt / env.sim.substeps == pytest.approx(longest)
    assert env.solver.mj_model.geom_solref[:, 0] == pytest.approx(contact_time)
    obs, _ = env.reset(seed=0)
    here, _ = envs.make("Velocity", 1, "cpu").reset(seed=0)
    np.testing.assert_allclose(obs, here, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "least"),
    [("hover", 0.95), ("velocity", 0.8), ("velocity_biped", 0.8), ("reach", 0.95), ("lift", 0.8)],
)
def test_policies_that_ship_do_there_what_they_do_here(
    policy: str, least: float, capsys: pytest.CaptureFixture[str]
):
    """Seeds that nobody has chosen; the whole command."""
    path = str(asset_path(f"policies/{policy}.onnx"))
    assert main(["transfer", path, "--seeds", "101", "--episodes", "4"]) == 0
    told = capsys.readouterr().out
    share = re.search(r"mujoco achieves (\d+) % of the return here", told)
    assert share is not None
    assert int(share[1]) >= 100 * least
    # of each engine with the seed, and of all seeds
    assert len(re.findall("velocity error|distance", told)) == 3


def test_who_watches_is_told_seed_and_engine():
    steps = []

    def watch(place: str, seed: int, found: Callable[[], Episodes]) -> None:
        steps.append((place, seed, len(found().returns)))

    transfer(hold, "Hover", {"max_episode_steps": 5}, seeds=(3, 4), episodes=2, watch=watch)
    assert [step[:2] for step in steps] == [
        (place, seed) for place in ("here", "mujoco") for seed in (3, 4) for _ in range(5)
    ]
    assert [step[2] for step in steps] == 4 * [0, 0, 0, 0, 2]


def test_the_command_line_shows_progress(capsys: pytest.CaptureFixture):
    """On what is no terminal: a line at the end of the episodes of each seed."""
    path = str(asset_path("policies/hover.onnx"))
    short = ["--episodes", "2", "--option", "max_episode_steps=5"]
    assert main(["transfer", path, "--seeds", "5", "6", *short]) == 0
    lines = capsys.readouterr().err.splitlines()
    ends = [line for line in lines if "2 of 2 episodes, return " in line]
    places = [(seed, place) for place in ("here", "mujoco") for seed in (5, 6)]
    assert [line.partition(": ")[0] for line in ends] == [f"Hover, seed {s}, {p}" for s, p in places]
