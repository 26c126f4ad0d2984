"""Pictures of the API: cameras, visual shapes, textures."""

from newtonsim.pybullet_compat.rendering.api import (
    changeTexture,
    changeVisualShape,
    getCameraImage,
    getVisualShapeData,
    loadTexture,
    renderImage,
    resetVisualShapeData,
)

__all__ = [
    "changeTexture",
    "changeVisualShape",
    "getCameraImage",
    "getVisualShapeData",
    "loadTexture",
    "renderImage",
    "resetVisualShapeData",
]
