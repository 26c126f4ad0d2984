"""How much a file may hold: what is larger is refused before it is read or while it is.

`newtonsim.importers.limits` is what counts; assign to its attributes to read larger files::

    newtonsim.importers.limits.mesh_bytes = 2**31
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Limits:
    """Bounds of what importers read, in one file unless said.

    Attributes:
        text_bytes: Robot descriptions (URDF, MJCF, SDF), all files that one includes together.
        elements: XML elements, copies by `replicate` included.
        depth: Levels of XML elements.
        mesh_bytes: Files of meshes, fields of heights and soft bodies; contents of a compressed one, too.
        triangles: Triangles of a mesh, cells of a soft body.
        heights: Samples of a field of heights.
        seconds: Time [s] that reading takes, with all meshes; looked at between elements, prims, bodies,
            meshes, and cells of soft bodies.
    """

    text_bytes: int = 64 * 1024 * 1024
    elements: int = 500_000
    depth: int = 512
    mesh_bytes: int = 512 * 1024 * 1024
    triangles: int = 5_000_000
    heights: int = 16_000_000
    seconds: float = 600.0


limits = Limits()
"""The limits that count."""
