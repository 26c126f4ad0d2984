"""Doors to functions under the names of the reference; each is loaded when it is first asked for."""

from importlib import import_module

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


def __getattr__(name: str):
    if name == "render":
        return import_module("newtonsim.utils.render")
    if name not in _DOORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_DOORS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_DOORS, "render"})
