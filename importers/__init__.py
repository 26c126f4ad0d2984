"""Readers of files: robots are added to a ModelBuilder with a report, meshes of soft bodies are returned.
Readers are imported on first use.
"""

from typing import TYPE_CHECKING

from newtonsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from newtonsim.importers.files.limits import Limits as Limits
    from newtonsim.importers.files.limits import limits as limits
    from newtonsim.importers.files.report import ImportReport as ImportReport
    from newtonsim.importers.files.report import ReportEntry as ReportEntry
    from newtonsim.importers.files.resolve_url import resolve_usd_from_url as resolve_usd_from_url
    from newtonsim.importers.mjcf import parse_mjcf as parse_mjcf
    from newtonsim.importers.sdf import parse_sdf as parse_sdf
    from newtonsim.importers.soft_meshes import load_cloth_mesh as load_cloth_mesh
    from newtonsim.importers.soft_meshes import load_tet_mesh as load_tet_mesh
    from newtonsim.importers.urdf import parse_urdf as parse_urdf
    from newtonsim.importers.usd import parse_usd as parse_usd

_LAZY = {
    "ImportReport": "newtonsim.importers.files.report",
    "Limits": "newtonsim.importers.files.limits",
    "ReportEntry": "newtonsim.importers.files.report",
    "limits": "newtonsim.importers.files.limits",
    "load_cloth_mesh": "newtonsim.importers.soft_meshes",
    "load_tet_mesh": "newtonsim.importers.soft_meshes",
    "parse_mjcf": "newtonsim.importers.mjcf",
    "parse_sdf": "newtonsim.importers.sdf",
    "parse_urdf": "newtonsim.importers.urdf",
    "parse_usd": "newtonsim.importers.usd",
    "resolve_usd_from_url": "newtonsim.importers.files.resolve_url",
}

__all__ = list(_LAZY)

__getattr__, __dir__ = lazy_names(globals(), _LAZY)
