"""Gprims under any stretch as shapes.

What the stretch leaves a box, ball, ellipsoid, capsule, cylinder or cone stays one; anything else becomes a
convex mesh of the same form.
"""

from dataclasses import replace

import numpy as np

from newtonsim.geometry.transforms import quat_between, quat_from_matrix, quat_multiply
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.meshes import check_mesh, convex_hull
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.frames import Frame
from newtonsim.importers.usd.mesh_prims import triangles_of
from newtonsim.importers.usd.records import Geometry

SOLIDS = ("Cube", "Sphere", "Capsule", "Capsule_1", "Cylinder", "Cylinder_1", "Cone", "Plane")
SURFACES = ("Mesh",)
CLOUDS = ("Points",)
KNOWN = SOLIDS + SURFACES + CLOUDS

_SAME = 1.0e-5
"""Relative difference of two stretches up to which they count as equal."""

_SEGMENTS = 32
"""Corners of a circle where round shapes become meshes; rings of a half sphere are a quarter of it."""

_AXES = ("X", "Y", "Z")
_NONE = np.zeros(0)


def solid_of(element: Element, frame: Frame, report: ImportReport) -> list[Geometry]:
    """Return the shape of a prim of one of the types in `SOLIDS` or `CLOUDS`."""
    kind = element.prim.GetTypeName()
    if kind == "Plane":
        return [_plane(element, frame)]
    if kind == "Points":
        return _balls(element, frame)
    if kind == "Sphere":
        return [stretched_ball(element.size("radius", 1.0), frame)]
    if kind == "Cube":
        half = 0.5 * element.size("size", 2.0)
        if not frame.is_sheared:
            return [Geometry("box", frame.pose, half * np.abs(frame.scale))]
        corners = half * np.array(np.meshgrid(*[(-1.0, 1.0)] * 3)).reshape(3, -1).T
        return [_hull(element, corners, frame, report, "a sheared box")]
    return [_upright(element, kind, frame, report)]


def _plane(element: Element, frame: Frame) -> Geometry:
    """An infinite plane; a stretch turns its normal as it turns the plane."""
    normal = np.eye(3)[_AXES.index(element.token("axis", "Z", _AXES))]
    normal = np.linalg.solve(frame.matrix.T, normal)
    turn = quat_between((0.0, 0.0, 1.0), normal / np.linalg.norm(normal))
    return Geometry("plane", Pose(frame.pose.p, turn), _NONE)


def stretched_ball(radius: float, frame: Frame, centre: np.ndarray | None = None) -> Geometry:
    """Return a stretched ball: an ellipsoid along the singular directions of the stretch.

    Args:
        radius: Of the ball.
        frame: Its stretch, and where it is.
        centre: Its centre (3,) before the stretch, None for the origin.
    """
    p = frame.pose.p if centre is None else frame.pose.p + frame.matrix @ centre
    lengths = np.abs(frame.scale)
    if not frame.is_sheared:
        if np.ptp(lengths) <= _SAME * lengths.max():
            return Geometry("sphere", Pose(p, frame.pose.q), np.array([radius * lengths.mean()]))
        return Geometry("ellipsoid", Pose(p, frame.pose.q), radius * lengths)
    axes, lengths, _ = np.linalg.svd(frame.matrix)
    axes[:, 2] *= np.linalg.det(axes)
    return Geometry("ellipsoid", Pose(p, quat_from_matrix(axes)), radius * lengths)


def _balls(element: Element, frame: Frame) -> list[Geometry]:
    """One ball per point of a Points prim, as wide as its `widths`."""
    points, widths = element.array("points", np.float64, 3), element.array("widths", np.float64)
    if len(widths) not in (1, len(points)):
        raise element.error(f"attribute 'widths' has {len(widths)} entries for {len(points)} points")
    if len(widths) and not widths.min() > 0.0:
        raise element.error(f"attribute 'widths' has {widths.min():g}, expected lengths above zero")
    return [
        stretched_ball(0.5 * float(width), frame, point)
        for point, width in zip(points, np.broadcast_to(widths, len(points)))
    ]


def _upright(element: Element, kind: str, frame: Frame, report: ImportReport) -> Geometry:
    """Capsules, cylinders and cones."""
    bottom, top, half = _measures(element, kind)
    axis = _AXES.index(element.token("axis", "Z", _AXES))
    direction = np.eye(3)[axis]
    turn = quat_between((0.0, 0.0, 1.0), direction)
    lengths = np.abs(frame.scale)
    radial = np.delete(lengths, axis)
    is_simple = kind == "Cone" or abs(top - bottom) <= _SAME * max(top, bottom)
    if not frame.is_sheared and np.ptp(radial) <= _SAME * radial.max() and is_simple:
        if frame.scale[axis] < 0.0:
            turn = quat_between((0.0, 0.0, 1.0), -direction)
        form = kind.removesuffix("_1").lower()
        if form == "capsule" and abs(lengths[axis] - radial[0]) > _SAME * lengths.max():
            report.approximated(element, "the caps of the stretched capsule are half spheres, not ellipsoids")
        size = np.array([bottom * radial.mean(), half * lengths[axis]])
        return Geometry(form, Pose(frame.pose.p, quat_multiply(frame.pose.q, turn)), size)
    points = _round_points(kind, bottom, top, half)
    cloud = np.empty_like(points)
    cloud[:, [(axis + 1) % 3, (axis + 2) % 3, axis]] = points
    return _hull(element, cloud, frame, report, f"a {kind} of this form")


def _measures(element: Element, kind: str) -> tuple[float, float, float]:
    """Radius at the bottom and at the top, and half height."""
    default = 0.5 if kind.startswith("Capsule") else 1.0
    half = 0.5 * element.size("height", 1.0 if kind.startswith("Capsule") else 2.0)
    if kind.endswith("_1"):
        return element.size("radiusBottom", default), element.size("radiusTop", default), half
    radius = element.size("radius", default)
    return radius, 0.0 if kind == "Cone" else radius, half


def _round_points(kind: str, bottom: float, top: float, half: float) -> np.ndarray:
    """Points (n, 3) whose hull is the shape along z; its cross sections have the area of circles."""
    step = 2.0 * np.pi / _SEGMENTS
    angles = np.arange(_SEGMENTS) * step
    circle = np.stack([np.cos(angles), np.sin(angles), np.zeros(_SEGMENTS)], axis=1)
    circle *= np.sqrt(step / np.sin(step))
    rings = []
    for side, radius in ((-1.0, bottom), (1.0, top)):
        tilts = np.linspace(0.0, np.pi / 2.0, _SEGMENTS // 4 + 1) if kind.startswith("Capsule") else [0.0]
        for tilt in tilts:
            rings.append(radius * np.cos(tilt) * circle + [0.0, 0.0, side * (half + radius * np.sin(tilt))])
    return np.concatenate(rings)


def _hull(element: Element, points: np.ndarray, frame: Frame, report: ImportReport, what: str) -> Geometry:
    report.approximated(element, f"{what} becomes a convex mesh")
    vertices, faces = convex_hull(np.unique(points @ frame.matrix.T, axis=0), element)
    return Geometry("mesh", Pose(frame.pose.p, Pose.identity().q), _NONE, vertices, faces, True)


def surface_of(element: Element, frame: Frame) -> Geometry | None:
    """Return a Mesh prim as a triangle mesh, None if it has no triangles.

    A sheared mesh is sheared vertex by vertex, any other stretched along its axes.
    """
    surface = triangles_of(element)
    if not len(surface.faces):
        return None
    if frame.is_sheared:
        pose, vertices = Pose(frame.pose.p, Pose.identity().q), surface.vertices @ frame.matrix.T
        mirrored = np.linalg.det(frame.matrix) < 0.0
    else:
        pose, vertices = frame.pose, surface.vertices * frame.scale
        mirrored = frame.scale[0] < 0.0
    surface = replace(surface.turned() if mirrored else surface, vertices=vertices)
    check_mesh(surface.vertices, surface.faces, element)
    surface = surface.welded()
    if not len(surface.faces):
        return None
    return Geometry("mesh", pose, _NONE, surface.vertices, surface.faces, uvs=surface.uvs)
