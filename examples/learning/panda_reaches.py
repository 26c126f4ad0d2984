"""A thousand Franka Panda arms learn to reach, by stable-baselines3, in a scene written as for PyBullet.

The task is that of PandaReach of panda-gym (Gallouédec et al., 2021): actions move the hand by up to 5 cm
through inverse kinematics, rewards are minus the distance to a goal that each episode draws. Run it with
``python -m newtonsim.examples.learning.panda_reaches``; it needs ``newtonsim[stable-baselines3]``.
"""

import argparse

import numpy as np
from stable_baselines3 import PPO

from newtonsim.adapters.stable_baselines3_env import Sb3Env
from newtonsim.envs.script_env import ScriptEnv
from newtonsim.pybullet_compat.stand_ins.pybullet_data import getDataPath

HAND = 11
"""Link between the fingers."""
NEUTRAL = [0.0, 0.41, 0.0, -1.85, 0.0, 2.26, 0.79]
FORCES = [87.0, 87.0, 87.0, 87.0, 12.0, 120.0, 120.0]
"""Of the motors [N m]."""
DOWN = [1.0, 0.0, 0.0, 0.0]
LOW, HIGH = [-0.15, -0.15, 0.0], [0.15, 0.15, 0.3]
"""Corners of the box that goals are drawn from [m]."""
NEAR = 0.05
"""Distance from which a goal counts as reached [m]."""


class PandaReach(ScriptEnv):
    """Bring the hand to a goal; the observation is where both are, (hand, goal - hand) [m]."""

    observation_size, action_size = 6, 3
    frame_skip, episode_steps = 10, 25

    def build(self, sim):
        sim.setAdditionalSearchPath(getDataPath())
        sim.setGravity(0, 0, -9.81)
        self.arm = sim.loadURDF("franka_panda/panda.urdf", [-0.6, 0, 0], useFixedBase=True)
        self.goal = np.zeros((self.num_envs, 3))

    def spawn(self, sim, worlds):
        for joint, angle in enumerate(NEUTRAL):
            sim.resetJointState(self.arm, joint, angle, worlds=worlds)
        self.goal[worlds] = self.np_random.uniform(LOW, HIGH, (len(worlds), 3))

    def act(self, sim, actions):
        target = sim.getLinkState(self.arm, HAND, computeForwardKinematics=1)[0] + 0.05 * actions
        angles = sim.calculateInverseKinematics(self.arm, HAND, target, DOWN)[:, :7]
        sim.setJointMotorControlArray(self.arm, range(7), sim.POSITION_CONTROL, angles, forces=FORCES)

    def observe(self, sim):
        hand = sim.getLinkState(self.arm, HAND, computeForwardKinematics=1)[0]
        return np.hstack([hand, self.goal - hand])

    def score(self, sim, obs):
        away = np.linalg.norm(obs[:, 3:], axis=1)
        return -away, np.zeros(self.num_envs, bool), away < NEAR


def success(model: PPO, env: Sb3Env) -> float:
    """Return the share of the worlds whose goal is reached at the end of an episode."""
    obs = env.reset()
    for _ in range(PandaReach.episode_steps):
        obs, _, _, infos = env.step(model.predict(obs, deterministic=True)[0])
    return float(np.mean([info["is_success"] for info in infos]))


def main(num_envs: int = 1024, samples: int = 24_576, device: str | None = None) -> None:
    """Train, and check that most goals are reached.

    Args:
        num_envs: Arms.
        samples: Actions of all arms together.
        device: Warp device, None for the default.
    """
    env = Sb3Env(PandaReach(num_envs, device=device))
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=max(1600 // num_envs, 8),
        batch_size=1600 if num_envs < 200 else 2048,
        learning_rate=3e-3,
        gamma=0.8,
        policy_kwargs={"log_std_init": -0.5},
        seed=0,
        device="cpu",
    )
    env.seed(1)
    before = success(model, env)
    model.learn(samples)
    after = success(model, env)
    said = f"{100 * before:.0f} % of {num_envs} goals reached before, {100 * after:.0f} % after"
    print(f"{said} {samples} actions")
    assert after > 0.75, "most goals should be reached"
    env.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Arms of Franka learn to reach.")
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--samples", type=int, default=24_576)
    parser.add_argument("--device")
    main(**vars(parser.parse_args()))
