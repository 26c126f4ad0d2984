"""The environments, one file for each family."""

from newtonsim.envs.task import Task
from newtonsim.envs.tasks.arms import InvertedDoublePendulum, Reacher
from newtonsim.envs.tasks.biped import VelocityBiped
from newtonsim.envs.tasks.cartpole import CartPole, CartPoleSwingUp
from newtonsim.envs.tasks.free import Ant, Humanoid
from newtonsim.envs.tasks.hover import Hover
from newtonsim.envs.tasks.manipulation import ArmPick, ArmReach
from newtonsim.envs.tasks.pictures import CartPoleVision, ReacherVision
from newtonsim.envs.tasks.planar import HalfCheetah, Hopper, Walker2d
from newtonsim.envs.tasks.quadruped import Quadruped
from newtonsim.envs.tasks.quadruped_terrain import QuadrupedTerrain
from newtonsim.envs.tasks.racecar import Racecar
from newtonsim.envs.tasks.reach import Lift, Reach
from newtonsim.envs.tasks.stack import Stack
from newtonsim.envs.tasks.turn_in_hand import TurnInHand
from newtonsim.envs.tasks.velocity import GetUp, Velocity, VelocityRough

ALL: tuple[type[Task], ...] = (
    CartPole,
    CartPoleSwingUp,
    CartPoleVision,
    InvertedDoublePendulum,
    Reacher,
    ReacherVision,
    Hopper,
    Walker2d,
    HalfCheetah,
    Ant,
    Humanoid,
    Quadruped,
    QuadrupedTerrain,
    ArmReach,
    ArmPick,
    Racecar,
    Velocity,
    VelocityRough,
    VelocityBiped,
    GetUp,
    Reach,
    Lift,
    Stack,
    TurnInHand,
    Hover,
)
