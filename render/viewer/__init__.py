"""The viewer in the web browser: a simulation, a recording or the states of the user's own loop, live."""

from newtonsim.render.viewer.viewer import Viewer

__all__ = ["Viewer"]
