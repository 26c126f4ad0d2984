"""Ways to look at a simulation: recordings, films, sheets, plots, USD animations, cameras.

Heavy libraries load when used.
"""

import importlib
from typing import Any

__all__ = [
    "SEEN_NOTHING",
    "SEEN_PARTICLE",
    "SEEN_SPRING",
    "SEEN_STATIC",
    "SEEN_SURFACE",
    "Camera",
    "Fisheye",
    "Lighting",
    "Pinhole",
    "Recorder",
    "Recording",
    "look_at",
]

_LAZY = {
    "SEEN_NOTHING": "newtonsim.render.camera_labels",
    "SEEN_PARTICLE": "newtonsim.render.camera_labels",
    "SEEN_SPRING": "newtonsim.render.camera_labels",
    "SEEN_STATIC": "newtonsim.render.camera_labels",
    "SEEN_SURFACE": "newtonsim.render.camera_labels",
    "Camera": "newtonsim.render.camera_sensor",
    "Fisheye": "newtonsim.render.camera_lenses",
    "Lighting": "newtonsim.render.camera_light",
    "Pinhole": "newtonsim.render.camera_lenses",
    "Recorder": "newtonsim.render.recorder",
    "Recording": "newtonsim.render.recording",
    "look_at": "newtonsim.render.camera_lenses",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
