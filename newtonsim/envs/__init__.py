"""Environments for learning: many worlds in one captured graph, behind gymnasium's interfaces.

`make("CartPole", 1024)` returns a `BatchedEnv`. Importing this package registers every environment with
gymnasium, as "newtonsim/CartPole-v0" and so on.
"""

import importlib.util

if importlib.util.find_spec("gymnasium") is None:
    raise ImportError("gymnasium is not installed: pip install 'newtonsim[envs]'")

from newtonsim.envs.batched import BatchedEnv as BatchedEnv
from newtonsim.envs.contact_pairs import ContactPairs as ContactPairs
from newtonsim.envs.contact_pairs import Sole as Sole
from newtonsim.envs.contact_pairs import UndesiredContacts as UndesiredContacts
from newtonsim.envs.draws import Draw as Draw
from newtonsim.envs.frame_sensors import FrameTransform as FrameTransform
from newtonsim.envs.host import HostView as HostView
from newtonsim.envs.measured import Measured as Measured
from newtonsim.envs.randomise import Randomisation as Randomisation
from newtonsim.envs.ray_sensors import RayCaster as RayCaster
from newtonsim.envs.ray_sensors import Rays as Rays
from newtonsim.envs.registry import find as find
from newtonsim.envs.registry import make as make
from newtonsim.envs.registry import names as names
from newtonsim.envs.registry import register as register
from newtonsim.envs.registry import register_pybullet_names
from newtonsim.envs.sensors import ContactSensor as ContactSensor
from newtonsim.envs.sensors import HeightScan as HeightScan
from newtonsim.envs.sensors import Imu as Imu
from newtonsim.envs.sensors import JointSensor as JointSensor
from newtonsim.envs.sensors import Sensor as Sensor
from newtonsim.envs.single import SingleEnv as SingleEnv
from newtonsim.envs.task import Metric as Metric
from newtonsim.envs.task import Motors as Motors
from newtonsim.envs.task import Task as Task
from newtonsim.envs.tasks import ALL
from newtonsim.envs.vision import CameraSensor as CameraSensor
from newtonsim.kernels.envs.views import SPAWN as SPAWN
from newtonsim.kernels.envs.views import EnvView as EnvView
from newtonsim.kernels.envs.views import random_of as random_of
from newtonsim.kernels.envs.views import uniform as uniform

__all__ = [
    "SPAWN",
    "BatchedEnv",
    "CameraSensor",
    "ContactPairs",
    "ContactSensor",
    "Draw",
    "EnvView",
    "FrameTransform",
    "HeightScan",
    "HostView",
    "Imu",
    "JointSensor",
    "Measured",
    "Metric",
    "Motors",
    "Randomisation",
    "RayCaster",
    "Rays",
    "Sensor",
    "SingleEnv",
    "Sole",
    "Task",
    "UndesiredContacts",
    "find",
    "make",
    "names",
    "random_of",
    "register",
    "uniform",
]

for _task in ALL:
    register(_task)
register_pybullet_names()
