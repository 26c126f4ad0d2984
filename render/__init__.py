"""Ways to look at a simulation: cameras, recordings, videos, sheets of pictures, plots, USD animations.

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
    "Film",
    "Fisheye",
    "Lighting",
    "Pictures",
    "Pinhole",
    "Recorder",
    "Recording",
    "VideoWriter",
    "look_at",
    "picture_sheet",
    "plot_contact_forces",
    "plot_energy",
    "plot_joints",
    "record_simulators",
    "save_sheet",
    "save_video",
]

_LAZY = {
    "SEEN_NOTHING": "newtonsim.render.camera_labels",
    "SEEN_PARTICLE": "newtonsim.render.camera_labels",
    "SEEN_SPRING": "newtonsim.render.camera_labels",
    "SEEN_STATIC": "newtonsim.render.camera_labels",
    "SEEN_SURFACE": "newtonsim.render.camera_labels",
    "Camera": "newtonsim.render.camera_sensor",
    "Film": "newtonsim.render.film",
    "Fisheye": "newtonsim.render.camera_lenses",
    "Lighting": "newtonsim.render.camera_light",
    "Pictures": "newtonsim.render.pictures",
    "Pinhole": "newtonsim.render.camera_lenses",
    "Recorder": "newtonsim.render.recorder",
    "Recording": "newtonsim.render.recording",
    "VideoWriter": "newtonsim.render.video",
    "look_at": "newtonsim.render.camera_lenses",
    "picture_sheet": "newtonsim.render.pictures",
    "plot_contact_forces": "newtonsim.render.plots",
    "plot_energy": "newtonsim.render.plots",
    "plot_joints": "newtonsim.render.plots",
    "record_simulators": "newtonsim.render.recorded_runs",
    "save_sheet": "newtonsim.render.pictures",
    "save_video": "newtonsim.render.film",
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
