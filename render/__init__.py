"""Ways to look at a simulation: cameras, recordings, videos, sheets of pictures, plots, USD animations.

Heavy libraries are loaded on first use.
"""

from typing import TYPE_CHECKING

from newtonsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from newtonsim.render.camera.labels import SEEN_NOTHING as SEEN_NOTHING
    from newtonsim.render.camera.labels import SEEN_PARTICLE as SEEN_PARTICLE
    from newtonsim.render.camera.labels import SEEN_SPRING as SEEN_SPRING
    from newtonsim.render.camera.labels import SEEN_STATIC as SEEN_STATIC
    from newtonsim.render.camera.labels import SEEN_SURFACE as SEEN_SURFACE
    from newtonsim.render.camera.lenses import Fisheye as Fisheye
    from newtonsim.render.camera.lenses import Pinhole as Pinhole
    from newtonsim.render.camera.lenses import look_at as look_at
    from newtonsim.render.camera.light import Lighting as Lighting
    from newtonsim.render.camera.sensor import Camera as Camera
    from newtonsim.render.films.film import Film as Film
    from newtonsim.render.films.film import save_video as save_video
    from newtonsim.render.films.pictures import Pictures as Pictures
    from newtonsim.render.films.pictures import picture_sheet as picture_sheet
    from newtonsim.render.films.pictures import save_sheet as save_sheet
    from newtonsim.render.films.plots import plot_contact_forces as plot_contact_forces
    from newtonsim.render.films.plots import plot_energy as plot_energy
    from newtonsim.render.films.plots import plot_joints as plot_joints
    from newtonsim.render.films.video import VideoWriter as VideoWriter
    from newtonsim.render.recordings.recorder import Recorder as Recorder
    from newtonsim.render.recordings.recording import Recording as Recording
    from newtonsim.render.recordings.runs import record_simulators as record_simulators

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
    "SEEN_NOTHING": "newtonsim.render.camera.labels",
    "SEEN_PARTICLE": "newtonsim.render.camera.labels",
    "SEEN_SPRING": "newtonsim.render.camera.labels",
    "SEEN_STATIC": "newtonsim.render.camera.labels",
    "SEEN_SURFACE": "newtonsim.render.camera.labels",
    "Camera": "newtonsim.render.camera.sensor",
    "Film": "newtonsim.render.films.film",
    "Fisheye": "newtonsim.render.camera.lenses",
    "Lighting": "newtonsim.render.camera.light",
    "Pictures": "newtonsim.render.films.pictures",
    "Pinhole": "newtonsim.render.camera.lenses",
    "Recorder": "newtonsim.render.recordings.recorder",
    "Recording": "newtonsim.render.recordings.recording",
    "VideoWriter": "newtonsim.render.films.video",
    "look_at": "newtonsim.render.camera.lenses",
    "picture_sheet": "newtonsim.render.films.pictures",
    "plot_contact_forces": "newtonsim.render.films.plots",
    "plot_energy": "newtonsim.render.films.plots",
    "plot_joints": "newtonsim.render.films.plots",
    "record_simulators": "newtonsim.render.recordings.runs",
    "save_sheet": "newtonsim.render.films.pictures",
    "save_video": "newtonsim.render.films.film",
}

__getattr__, __dir__ = lazy_names(globals(), _LAZY)
