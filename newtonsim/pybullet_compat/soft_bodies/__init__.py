"""Soft bodies of the API: loading, anchors, mesh data."""

from newtonsim.pybullet_compat.queries.shape_data import getMeshData
from newtonsim.pybullet_compat.soft_bodies.api import (
    createSoftBodyAnchor,
    getTetraMeshData,
    loadSoftBody,
    mesh_data,
    resetMeshData,
)

__all__ = [
    "createSoftBodyAnchor",
    "getMeshData",
    "getTetraMeshData",
    "loadSoftBody",
    "mesh_data",
    "resetMeshData",
]
