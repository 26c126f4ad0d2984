"""Functions under the names of the reference interface; each is loaded on first use."""

from typing import TYPE_CHECKING

from newtonsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from newtonsim.importers.files.resolve_url import resolve_usd_from_url as resolve_usd_from_url
    from newtonsim.importers.mjcf import parse_mjcf as parse_mjcf
    from newtonsim.importers.urdf import parse_urdf as parse_urdf
    from newtonsim.importers.usd import parse_usd as parse_usd
    from newtonsim.importers.writers.mjcf import export_mjcf as export_mjcf
    from newtonsim.importers.writers.urdf import export_urdf as export_urdf
    from newtonsim.importers.writers.usd import export_usd as export_usd
    from newtonsim.render.sim_renderer.base import SimRenderer as SimRenderer
    from newtonsim.render.sim_renderer.base import SimRendererUsd as SimRendererUsd
    from newtonsim.render.sim_renderer.opengl import SimRendererOpenGL as SimRendererOpenGL
    from newtonsim.utils import import_usd as import_usd
    from newtonsim.utils import render as render

_DOORS = {
    "SimRenderer": "newtonsim.render.sim_renderer.base",
    "SimRendererOpenGL": "newtonsim.render.sim_renderer.opengl",
    "SimRendererUsd": "newtonsim.render.sim_renderer.base",
    "export_mjcf": "newtonsim.importers.writers.mjcf",
    "export_urdf": "newtonsim.importers.writers.urdf",
    "export_usd": "newtonsim.importers.writers.usd",
    "parse_urdf": "newtonsim.importers.urdf",
    "parse_mjcf": "newtonsim.importers.mjcf",
    "parse_usd": "newtonsim.importers.usd",
    "resolve_usd_from_url": "newtonsim.importers.files.resolve_url",
}

_MODULES = ("import_usd", "render")

__all__ = [
    "SimRenderer",
    "SimRendererOpenGL",
    "SimRendererUsd",
    "export_mjcf",
    "export_urdf",
    "export_usd",
    "parse_mjcf",
    "parse_urdf",
    "parse_usd",
    "resolve_usd_from_url",
]

__getattr__, __dir__ = lazy_names(globals(), _DOORS, _MODULES)
