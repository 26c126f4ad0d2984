"""Reinforcement learning: policies for the environments of `newtonsim.envs` (extra "learn").

The command `newtonsim train` runs `Training(Run("CartPole", settings_of("CartPole")), folder)`.
"""

try:
    import rsl_rl  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'newtonsim[learn]'") from error

from newtonsim.learn.evaluation import Episodes as Episodes
from newtonsim.learn.evaluation import evaluate as evaluate
from newtonsim.learn.evaluation import film as film
from newtonsim.learn.policy_file import PolicyFile as PolicyFile
from newtonsim.learn.problem_policies import save_shac as save_shac
from newtonsim.learn.ray_workers import RayWorkers as RayWorkers
from newtonsim.learn.saving import save_policy as save_policy
from newtonsim.learn.settings import PRESETS as PRESETS
from newtonsim.learn.settings import SacSettings as SacSettings
from newtonsim.learn.settings import Settings as Settings
from newtonsim.learn.settings import sac_settings as sac_settings
from newtonsim.learn.settings import settings_of as settings_of
from newtonsim.learn.training import Progress as Progress
from newtonsim.learn.training import Run as Run
from newtonsim.learn.training import Training as Training
from newtonsim.learn.training import write_policy as write_policy
from newtonsim.learn.transfer import Transfer as Transfer
from newtonsim.learn.transfer import transfer as transfer
from newtonsim.learn.workers import LocalWorkers as LocalWorkers

__all__ = [
    "PRESETS",
    "Episodes",
    "LocalWorkers",
    "PolicyFile",
    "Progress",
    "RayWorkers",
    "Run",
    "SacSettings",
    "Settings",
    "Training",
    "Transfer",
    "evaluate",
    "film",
    "sac_settings",
    "save_policy",
    "save_shac",
    "settings_of",
    "transfer",
    "write_policy",
]
