"""Colliders: shapes by their approximation, and the mass that they give."""

from dataclasses import replace

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.geometry import Mesh
from newtonsim.geometry.hull import flat_normal
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.usd_names import NAMESPACE
from newtonsim.importers.geometry import massprops
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.meshes import convex_hull
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.frames import Frame, inverse_rigid, split
from newtonsim.importers.usd.records import Geometry
from newtonsim.importers.usd.shapes import KNOWN, SURFACES, solid_of, stretched_ball, surface_of
from newtonsim.importers.usd.walk import Place

APPROXIMATIONS = (
    *("none", "convexDecomposition", "convexHull", "boundingSphere", "boundingCube", "meshSimplification"),
    *("sdf", "sphereFill"),
)
"""Of UsdPhysics, and two that PhysX adds."""


class ShapeReader:
    """Reads geometry; meshes that instances share are read once per stretch."""

    def __init__(self, report: ImportReport):
        self.report = report
        self._meshes: dict[tuple, list[Geometry]] = {}

    def shapes(self, place: Place, body: Pose, collides: bool) -> list[Geometry]:
        """Return the shapes of a prim in the frame of its body.

        Args:
            place: The prim.
            body: Pose of the body in the world.
            collides: Whether the approximation of the collider counts, or what is seen.

        Returns:
            The shapes; none for what is not modelled, which is reported.
        """
        element = place.element
        kind = element.prim.GetTypeName()
        if kind not in KNOWN:
            if collides:
                self.report.unsupported(element, f"a collider of type {kind or 'none'} is not modelled")
            else:
                self.report.ignored(element, f"geometry of type {kind} is not drawn")
            return []
        frame = split(inverse_rigid(body) @ place.matrix)
        if frame.is_flat:
            if collides:
                raise element.error("its transform has zero volume, so that it cannot collide")
            self.report.ignored(element, "its transform takes all room away")
            return []
        if kind in SURFACES and element.value(f"{NAMESPACE}:ballRadius") is not None:
            return [stretched_ball(element.size(f"{NAMESPACE}:ballRadius", 1.0), frame)]
        if kind not in SURFACES:
            return solid_of(element, frame, self.report)
        return self._surface(element, frame, collides)

    def _surface(self, element: Element, frame: Frame, collides: bool) -> list[Geometry]:
        approximation = "none"
        if collides and element.has_api("PhysicsMeshCollisionAPI"):
            approximation = element.token("physics:approximation", "none", APPROXIMATIONS)
        prim = element.prim
        origin = prim.GetPrimInPrototype() if prim.IsInstanceProxy() else prim
        # A sheared mesh holds the rotation in its vertices, any other one the stretch only.
        stretch = frame.matrix if frame.is_sheared else frame.scale
        key = (str(origin.GetPath()), approximation if collides else None, tuple(np.ravel(stretch).tolist()))
        if key not in self._meshes:
            local = Frame(Pose.identity(), frame.scale, frame.matrix, frame.is_sheared, frame.is_flat)
            self._meshes[key] = self._approximate(element, local, approximation, collides, key)
        pose = Pose(frame.pose.p, Pose.identity().q) if frame.is_sheared else frame.pose
        return [shape.at(pose @ shape.pose) for shape in self._meshes[key]]

    def _approximate(
        self, element: Element, frame: Frame, approximation: str, collides: bool, key: tuple
    ) -> list[Geometry]:
        surface = surface_of(element, frame)
        if surface is None:
            if collides:
                raise element.error("the mesh has no triangles and cannot collide")
            self.report.ignored(element, "the mesh has no triangles")
            return []
        if not collides:
            return [replace(surface, key=key)]
        return self._collision_shapes(element, surface, approximation, key)

    def _collision_shapes(
        self, element: Element, surface: Geometry, approximation: str, key: tuple
    ) -> list[Geometry]:
        vertices, faces = surface.vertices, surface.faces
        if approximation == "boundingCube":
            low, high = vertices.min(axis=0), vertices.max(axis=0)
            pose = Pose(0.5 * (low + high), Pose.identity().q)
            # A sheet has a thickness of nothing, which no box may have.
            return [Geometry("box", pose, np.maximum(0.5 * (high - low), 1.0e-6 * np.ptp(vertices)))]
        if approximation == "boundingSphere":
            centre, radius = bounding_ball(vertices)
            return [Geometry("sphere", Pose(centre, Pose.identity().q), np.array([radius]))]
        if approximation == "convexHull":
            # that of a sheet is the sheet, whose corners the model finds
            flat = flat_normal(vertices) is not None
            solid = (vertices, faces) if flat else convex_hull(vertices, element)
            return [_mesh(*solid, True, key)]
        if approximation in ("convexDecomposition", "sphereFill"):
            if approximation == "sphereFill":
                self.report.approximated(
                    element, "the mesh is decomposed into convex parts instead of spheres"
                )
            return self._parts(element, vertices, faces, key)
        if approximation == "meshSimplification":
            self.report.approximated(element, "the mesh collides as it is, not simplified")
        return [replace(surface, convex=False, key=key)]

    def _parts(self, element: Element, vertices: np.ndarray, faces: np.ndarray, key: tuple) -> list[Geometry]:
        if not massprops.is_closed(faces):
            self.report.approximated(element, "the mesh is not closed; it collides as its convex hull")
            return [_mesh(*convex_hull(vertices, element), True, key)]
        try:
            parts = Mesh(vertices, faces).convex_decomposition()
        except ModelError as error:
            raise element.error(str(error)) from error
        return [
            _mesh(part.vertices.astype(np.float64), part.indices.reshape(-1, 3), True, (*key, number))
            for number, part in enumerate(parts)
        ]

    # -- mass ------------------------------------------------------------------------------------------------

    def mass(self, element: Element, shape: Geometry, density: float) -> MassProps:
        """Mass of a shape of even density in the frame of the body."""
        size = shape.size
        if shape.kind == "plane":
            return MassProps.zero()
        if shape.kind == "mesh":
            vertices, faces = shape.vertices, shape.faces
            if flat_normal(vertices) is not None:
                self.report.approximated(element, "the mesh is flat, so that it has no mass of its own")
                return MassProps.zero()
            if not massprops.is_closed(faces):
                self.report.approximated(element, "the mesh is not closed; its convex hull gives the mass")
                vertices, faces = convex_hull(vertices, element)
            props = massprops.mesh(vertices, faces, density)
            if props.mass < 0.0:  # triangles that look inwards
                props = MassProps(-props.mass, props.com, -props.inertia)
        elif shape.kind in ("box", "ellipsoid"):
            props = getattr(massprops, shape.kind)(size, density)
        else:
            props = getattr(massprops, shape.kind)(*size, density)
        return props.moved(shape.pose)


def bounding_ball(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre and radius of a ball about points that is hardly larger than need be.

    The centre moves towards the farthest point by ever smaller shares (Badoiu and Clarkson 2003).
    """
    centre = points.mean(axis=0)
    for step in range(1, 401):
        farthest = points[np.argmax(np.linalg.norm(points - centre, axis=1))]
        centre = centre + (farthest - centre) / (step + 1.0)
    return centre, float(np.linalg.norm(points - centre, axis=1).max())


def _mesh(vertices: np.ndarray, faces: np.ndarray, convex: bool | None, key: tuple) -> Geometry:
    return Geometry("mesh", Pose.identity(), np.zeros(0), vertices, faces, convex, key)
