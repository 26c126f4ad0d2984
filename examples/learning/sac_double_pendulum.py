"""Eight double pendulums learn to stand by SAC of stable-baselines3, in about a minute on one core.

Run it with ``python -m newtonsim.examples.learning.sac_double_pendulum``; it needs
``newtonsim[stable-baselines3]``. With ``--policy pendulum.onnx`` it writes a policy, which ``newtonsim
play pendulum.onnx`` shows (``newtonsim[learn]``).
"""

import argparse

import torch
from stable_baselines3 import SAC
from stable_baselines3.common.evaluation import evaluate_policy

from newtonsim import envs
from newtonsim.adapters.stable_baselines3_env import Sb3Env

NAME = "InvertedDoublePendulum"
"""Its return is at most 9360: an episode is over when the tip falls, at the latest after 1000 steps."""


def main(samples: int = 20_000, episodes: int = 16, policy: str | None = None) -> None:
    """Train, and print the return before and after.

    Args:
        samples: Actions of all worlds together.
        episodes: Episodes of each evaluation.
        policy: Where the policy is written, an ONNX file; None for nowhere.
    """
    torch.set_num_threads(1)
    env = Sb3Env(envs.make(NAME, num_envs=8, device="cpu"))
    trials = Sb3Env(envs.make(NAME, num_envs=episodes, device="cpu"))
    # four updates for the eight samples of a step
    model = SAC(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        learning_starts=1000,
        gradient_steps=4,
        policy_kwargs={"net_arch": [64, 64]},
        seed=0,
        device="cpu",
    )
    before = evaluate_policy(model, trials, episodes)[0]
    model.learn(samples)
    after = evaluate_policy(model, trials, episodes)[0]
    print(f"return {before:.0f} before, {after:.0f} after {samples} actions")
    if policy is not None:
        from newtonsim.learn import save_policy
        from newtonsim.learn.sac import acting

        save_policy(policy, acting(model), NAME, samples=samples)
    assert after > 10.0 * before, "the pendulums should stand longer"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Double pendulums learn to stand.")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--policy", metavar="OUT.onnx")
    main(**vars(parser.parse_args()))
