"""The place of BulletClient in pybullet_utils."""

from newtonsim.pybullet_compat.bullet_client import BulletClient as BulletClient
