"""The tutorials do as they say, in a folder of their own."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rooms import ROOT

from newtonsim import envs


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{language}(?: title=.*?)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_a_policy_from_a_urdf_file(tmp_path: Path):
    programs = blocks("tutorial_urdf.md", "python")
    (tmp_path / "balancer.urdf").write_text(blocks("tutorial_urdf.md", "xml")[0])
    for name, program in zip(("balancer.py", "look.py", "act.py"), programs, strict=True):
        (tmp_path / name).write_text(program)
    train = blocks("tutorial_urdf.md", "sh")[0].split()[1:]
    train[train.index("--samples") + 1] = "30000"
    outputs = []
    for command in (["look.py"], ["-m", "newtonsim", *train, "--no-video"], ["act.py"]):
        result = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert result.returncode == 0, result.stderr
        outputs.append(result.stdout)
    assert 0.1 < float(re.search(r"after ([0-9.]+) s on average", outputs[0])[1]) < 1.0
    torques = np.array(re.findall(r"-?[0-9.]+(?:e-?[0-9]+)?", outputs[2]), float)
    assert torques.shape == (2,)
    assert np.all(np.abs(torques) <= 1.0)


@pytest.mark.slow
def test_a_quadruped_of_ones_own(tmp_path: Path):
    """Every program and every command of the page as it stands, with fewer samples and episodes."""
    for name, program in zip(
        ("make_pup.py", "look.py"), blocks("tutorial_quadruped.md", "python"), strict=True
    ):
        (tmp_path / name).write_text(program)
    fewer = {
        "train": ["--samples", "6000", "--no-video"],
        "play": ["--episodes", "2", "--seconds", "0.5"],
        "transfer": ["--seeds", "0", "--episodes", "2"],
    }
    said: dict[str, str] = {}

    def run(key: str, command: list[str]) -> None:
        result = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=600
        )
        assert result.returncode == 0, result.stderr
        said[key] = said.get(key, "") + result.stdout + result.stderr

    run("make", ["make_pup.py"])
    run("look", ["look.py"])
    text = "".join(blocks("tutorial_quadruped.md", "sh")).replace("\\\n", " ")
    commands = [shlex.split(line, comments=True)[1:] for line in text.splitlines()]
    for command in commands:
        if "--view" not in command:
            run(command[0], ["-m", "newtonsim", *command, *fewer.get(command[0], [])])
    assert len(commands) == 7
    assert "fl_knee" in said["info"]
    assert re.search(r"^0 falls; the trunk is 0\.2[67]\d m high", said["look"], re.MULTILINE)
    assert "pup.urdf has no gains of drives" in " ".join(said["train"].split())
    assert "contacts besides the feet: 0.0 %" in said["look"]
    assert re.search(r"velocity error \d\.\d+ m/s \(0\.\d+ standing still\)", said["train"])
    assert (tmp_path / "pup.mp4").stat().st_size > 1000
    assert "level 2.000, " in said["play"]
    assert re.search(r"velocity error of all seeds: .* in mujoco", said["transfer"])


def test_a_pybullet_name_makes_our_environment(tmp_path: Path):
    (tmp_path / "names.py").write_text(blocks("tutorial_pybullet.md", "python")[0])
    with pytest.warns(UserWarning, match="HopperBulletEnv-v0"):
        names = runpy.run_path(str(tmp_path / "names.py"))
    assert names["reward"].shape == (256,)
    names["env"].close()


def test_a_pybullet_environment_in_many_worlds(tmp_path: Path, monkeypatch, request):
    """The environment for PyBullet, the task in NumPy and the one in kernels move alike."""
    programs = blocks("tutorial_pybullet.md", "python")
    (tmp_path / "single.py").write_text(programs[1])
    (tmp_path / "pole.py").write_text(programs[2] + "\n\n" + programs[4])
    (tmp_path / "many.py").write_text(programs[3])
    monkeypatch.syspath_prepend(str(tmp_path))
    single = runpy.run_path(str(tmp_path / "single.py"))["env"]
    runpy.run_path(str(tmp_path / "many.py"))
    batches = [envs.make(name, 3, "cpu") for name in ("Pole", "FastPole")]
    request.addfinalizer(single.close)
    start, _ = single.reset(seed=1)
    for env in batches:
        env.reset(seed=0)
        env.sim.state.joint_q.numpy().reshape(3, 2)[1] = start[0::2]
        env.sim.state.joint_qd.numpy().reshape(3, 2)[1] = start[1::2]
    random = np.random.default_rng(0)
    for _ in range(50):
        action = random.uniform(-0.3, 0.3, 1).astype(np.float32)
        obs, reward, fallen, _, _ = single.step(action)
        (slow, slow_reward, *_), (fast, fast_reward, *_) = (
            env.step(np.tile(action, (3, 1))) for env in batches
        )
        np.testing.assert_array_equal(slow, fast)
        np.testing.assert_array_equal(slow_reward, fast_reward)
        assert not fallen
    assert abs(obs[2]) > 0.1
    np.testing.assert_allclose(fast[1], obs, atol=3e-5)
    assert abs(fast[1, 2] - obs[2]) < 1e-5
    assert fast_reward[1] == pytest.approx(reward, abs=1e-6)
