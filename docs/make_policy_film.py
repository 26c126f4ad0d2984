"""Make the films of policies that ship.

    python docs/make_policy_film.py [--names NAME ...] [--seeds N] [--folder FOLDER]

It films the longest of a few walks without a fall, on rough ground of the fourth of six levels or on level
ground, or an arm in the first few episodes of a world, and writes docs/films/NAME.mp4 and the picture beside
it. It needs newtonsim[learn,plot].
"""

import argparse
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from picture_film import save_film

from newtonsim import envs
from newtonsim.envs.batched import BatchedEnv
from newtonsim.learn import PolicyFile

FOLDER = pathlib.Path(__file__).parent
POLICIES = FOLDER.parent / "examples" / "assets" / "policies"
LEVELS, STEPS, EVERY = 6, 400, 2
SIZE = 1280, 720


@dataclass(frozen=True)
class Shot:
    """What a policy does in its film.

    Attributes:
        options: Options of its task.
        camera: Attributes of the camera of its task.
        level: Lowest level of its ground.
        walks: Whether it is a robot that walks, of whose walks the longest is filmed.
    """

    options: Mapping[str, Any]
    camera: Mapping[str, tuple[float, float, float]]
    level: int = 0
    walks: bool = True


SHOTS = {
    "velocity_rough": Shot(
        {"still": 0.0, "kinds": ("rough",), "levels": LEVELS, "first_levels": LEVELS, "curriculum": False},
        {},
        LEVELS // 2,
    ),
    "velocity_biped": Shot(
        {
            "events": {
                "home": {"noise": 0.05, "turned": False},
                "command": {"low": (0.6, 0.0, 0.0), "high": (0.6, 0.0, 0.0)},
            }
        },
        {"camera_eye": (0.7, -1.7, 0.85), "camera_target": (0.0, 0.0, 0.62)},
    ),
    "lift": Shot({}, {"camera_eye": (1.25, -0.75, 0.6), "camera_target": (0.35, 0.0, 0.25)}, walks=False),
}


def make_env(policy: PolicyFile, shot: Shot, **drawing: Any) -> BatchedEnv:
    """Return one world."""
    task = envs.find(policy.about["name"])(**shot.options)
    for name, place in shot.camera.items():
        setattr(task, name, place)
    return BatchedEnv(task, 1, "cpu", threads=1, **drawing)


def distance_of(env: BatchedEnv, policy: PolicyFile, shot: Shot, seed: int) -> float:
    """Return how far the robot walks [m], or zero if it falls or its ground is too easy."""
    obs, _ = env.reset(seed=seed)
    if env.buffers.view.kept.numpy()[0, 0] < shot.level:
        return 0.0
    start = env.sim.state.joint_q.numpy()[:2].copy()
    for _ in range(STEPS):
        obs, _, terminated, _, _ = env.step(policy(obs))
        if terminated[0]:
            return 0.0
    return float(np.linalg.norm(env.sim.state.joint_q.numpy()[:2] - start))


def frames_of(env: BatchedEnv, policy: PolicyFile, seed: int) -> list[np.ndarray]:
    """Return the pictures of a walk, or of an arm's episodes."""
    obs, _ = env.reset(seed=seed)
    frames = []
    for step in range(STEPS):
        if step % EVERY == 0:
            drawn: Any = env.render()
            frames.append(drawn[0])
        obs, *_ = env.step(policy(obs))
    return frames


def make_film(name: str, seeds: int, folder: pathlib.Path) -> None:
    """Choose a walk or take the first seed, and film it."""
    policy, shot = PolicyFile(POLICIES / f"{name}.onnx"), SHOTS[name]
    seed = 0
    if shot.walks:
        env = make_env(policy, shot)
        seed = max(range(seeds), key=lambda seed: distance_of(env, policy, shot, seed))
        env.close()
    env = make_env(policy, shot, render_mode="rgb_array", render_size=SIZE)
    frames = frames_of(env, policy, seed)
    fps = env.metadata["render_fps"] / EVERY
    save_film(folder / f"{name}.mp4", frames, fps, int(0.6 * len(frames)))


def main() -> None:
    """Make the films that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="+", choices=list(SHOTS), default=list(SHOTS))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--folder", default=FOLDER / "films", type=pathlib.Path)
    options = parser.parse_args()
    for name in options.names:
        make_film(name, options.seeds, options.folder)


if __name__ == "__main__":
    main()
