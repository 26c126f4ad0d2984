"""Collision queries of the API: contacts, closest points, boxes, rays, filters and shapes."""

from newtonsim.pybullet_compat.queries.closest_points import getClosestPoints
from newtonsim.pybullet_compat.queries.contact_points import getContactPoints, performCollisionDetection
from newtonsim.pybullet_compat.queries.filters import setCollisionFilterGroupMask, setCollisionFilterPair
from newtonsim.pybullet_compat.queries.ray_tests import rayTest, rayTestBatch
from newtonsim.pybullet_compat.queries.shape_data import (
    getAABB,
    getCollisionShapeData,
    getMeshData,
    getOverlappingObjects,
)

__all__ = [
    "getAABB",
    "getClosestPoints",
    "getCollisionShapeData",
    "getContactPoints",
    "getMeshData",
    "getOverlappingObjects",
    "performCollisionDetection",
    "rayTest",
    "rayTestBatch",
    "setCollisionFilterGroupMask",
    "setCollisionFilterPair",
]
