"""Worlds of objects for cognitive robotics: robots, environments and items, attachments and shadow worlds.

The classes of PyCRAM's BulletWorld, on the public client of `newtonsim.pybullet_compat`.
"""

from newtonsim.bullet_world.attachments import Attachment
from newtonsim.bullet_world.errors import BulletWorldError, ObjectRemovedError, WorldExitedError
from newtonsim.bullet_world.events import Event
from newtonsim.bullet_world.joint_types import JointType
from newtonsim.bullet_world.objects import Object
from newtonsim.bullet_world.shadow import Use_shadow_world, World_Sync
from newtonsim.bullet_world.world import BulletWorld

__all__ = [
    "Attachment",
    "BulletWorld",
    "BulletWorldError",
    "Event",
    "JointType",
    "Object",
    "ObjectRemovedError",
    "Use_shadow_world",
    "WorldExitedError",
    "World_Sync",
]
