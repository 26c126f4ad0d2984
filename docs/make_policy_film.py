"""Make the film of the policy that ships for rough ground.

    python docs/make_policy_film.py [--seeds N] [--folder FOLDER]

It films the longest of a few walks without a fall on ground of the fourth of six levels, and writes
docs/films/velocity_rough.mp4 and the picture beside it. It needs newtonsim[learn,plot].
"""

import argparse
import pathlib

import numpy as np
from picture_film import save_film

from newtonsim import envs
from newtonsim.envs.batched import BatchedEnv
from newtonsim.learn import PolicyFile

FOLDER = pathlib.Path(__file__).parent
POLICY = FOLDER.parent / "examples" / "assets" / "policies" / "velocity_rough.onnx"
LEVELS, STEPS, EVERY = 6, 400, 2
SIZE = 1280, 720


def make_env(**drawing) -> BatchedEnv:
    """Return one world of rough ground that keeps its level."""
    ground = {"kinds": ("rough",), "levels": LEVELS, "first_levels": LEVELS, "curriculum": False}
    return envs.make("VelocityRough", 1, "cpu", threads=1, still=0.0, **ground, **drawing)


def distance_of(env: BatchedEnv, policy: PolicyFile, seed: int) -> float:
    """Return how far the robot walks [m], or zero if it falls or the ground is below the fourth level."""
    obs, _ = env.reset(seed=seed)
    if env.buffers.view.kept.numpy()[0, 0] < LEVELS // 2:
        return 0.0
    start = env.sim.state.joint_q.numpy()[:2].copy()
    for _ in range(STEPS):
        obs, _, terminated, _, _ = env.step(policy(obs))
        if terminated[0]:
            return 0.0
    return float(np.linalg.norm(env.sim.state.joint_q.numpy()[:2] - start))


def frames_of(env: BatchedEnv, policy: PolicyFile, seed: int) -> list[np.ndarray]:
    """Return the pictures of a walk."""
    obs, _ = env.reset(seed=seed)
    frames = []
    for step in range(STEPS):
        if step % EVERY == 0:
            frames.append(env.render()[0])
        obs, *_ = env.step(policy(obs))
    return frames


def main() -> None:
    """Choose a walk, and film it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--folder", default=FOLDER / "films", type=pathlib.Path)
    options = parser.parse_args()
    policy, env = PolicyFile(POLICY), make_env()
    seed = max(range(options.seeds), key=lambda seed: distance_of(env, policy, seed))
    env.close()
    env = make_env(render_mode="rgb_array", render_size=SIZE)
    frames = frames_of(env, policy, seed)
    fps = env.metadata["render_fps"] / EVERY
    save_film(options.folder / "velocity_rough.mp4", frames, fps, int(0.6 * len(frames)))


if __name__ == "__main__":
    main()
