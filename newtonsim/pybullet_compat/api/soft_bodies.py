"""Soft bodies: loading, anchors, and the points of their meshes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.pybullet_compat.api.plugins import find_in_archives
from newtonsim.pybullet_compat.readers.search import find
from newtonsim.pybullet_compat.soft_bodies.meshes import SoftMesh, read_soft_mesh, show
from newtonsim.pybullet_compat.soft_bodies.world import Material, SoftBody, SoftWorld, make_anchor, placed
from newtonsim.pybullet_compat.surface.arguments import LARGEST, vec3, vectors
from newtonsim.pybullet_compat.surface.constants import MESH_DATA_SIMULATION_MESH, RESET_USE_DEFORMABLE_WORLD
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client

_FIELDS = {
    "mass": "mass",
    "collisionMargin": "margin",
    "springElasticStiffness": "stiffness",
    "springDampingStiffness": "damping",
    "springBendingStiffness": "bending_stiffness",
    "NeoHookeanMu": "mu",
    "NeoHookeanLambda": "lam",
    "NeoHookeanDamping": "neo_hookean_damping",
    "frictionCoeff": "friction",
    "repulsionStiffness": "repulsion",
}
"""Arguments of loadSoftBody as fields of `Material`."""


def loadSoftBody(
    client: Client,
    fileName: str,
    basePosition: Sequence[float] = (0.0, 0.0, 0.0),
    baseOrientation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    scale: float = 1.0,
    mass: float | None = None,
    collisionMargin: float | None = None,
    useMassSpring: int = 0,
    useBendingSprings: int = 0,
    useNeoHookean: int = 0,
    springElasticStiffness: float | None = None,
    springDampingStiffness: float | None = None,
    springDampingAllDirections: int = 0,
    springBendingStiffness: float | None = None,
    NeoHookeanMu: float | None = None,
    NeoHookeanLambda: float | None = None,
    NeoHookeanDamping: float | None = None,
    frictionCoeff: float | None = None,
    useFaceContact: int = 0,
    useSelfCollision: int = 0,
    repulsionStiffness: float | None = None,
    simFileName: str = "",
) -> int:
    """Load a soft body: cloth from an OBJ file, or a volume from a VTK file of tetrahedra.

    In a world that was not reset with RESET_USE_DEFORMABLE_WORLD cloth does not stretch, and the parameters
    of its material have no effect, as in PyBullet; volumes are elastic there, too.

    Args:
        client: The client.
        fileName: Mesh that is seen; simulated too if there is no simFileName.
        basePosition: Where its origin goes (3,) [m]; of several worlds also (W, 3).
        baseOrientation: Quaternion xyzw (4,) or (W, 4).
        scale: Factor of all lengths.
        mass: Of the whole body, shared equally by its points [kg].
        collisionMargin: Distance that it keeps from other bodies [m].
        useMassSpring: Whether its edges are springs.
        useBendingSprings: Kept without effect: as in PyBullet, edges that are springs bring springs between
            points two edges apart.
        useNeoHookean: Whether tetrahedra are elastic solids.
        springElasticStiffness: [N/m].
        springDampingStiffness: [N s/m].
        springDampingAllDirections: Whether this damping also acts across the springs.
        springBendingStiffness: [N/m].
        NeoHookeanMu: 4/3 of the shear modulus [Pa].
        NeoHookeanLambda: First Lamé parameter plus 5/8 of NeoHookeanMu [Pa].
        NeoHookeanDamping: Viscosities over NeoHookeanMu and NeoHookeanLambda [s].
        frictionCoeff: Friction, multiplied by that of what is touched.
        useFaceContact: Kept without effect: triangles always touch with their inside, too.
        useSelfCollision: Kept without effect.
        repulsionStiffness: Kept without effect.
        simFileName: Mesh that is simulated in place of fileName.

    Returns:
        Body unique id, -1 without a file name.

    Raises:
        error: A number makes no sense, or the file is missing or not understood; the reason is given as a
            warning.
    """
    if not fileName:
        return -1
    given = {
        "mass": mass,
        "collisionMargin": collisionMargin,
        "springElasticStiffness": springElasticStiffness,
        "springDampingStiffness": springDampingStiffness,
        "springBendingStiffness": springBendingStiffness,
        "NeoHookeanMu": NeoHookeanMu,
        "NeoHookeanLambda": NeoHookeanLambda,
        "NeoHookeanDamping": NeoHookeanDamping,
        "frictionCoeff": frictionCoeff,
        "repulsionStiffness": repulsionStiffness,
    }
    given = {name: float(value) for name, value in given.items() if value is not None}
    for name, value in given.items():
        if not 0.0 <= value < np.inf:
            raise error(f"loadSoftBody: {name} must be a number of at least 0, got {value}")
    if not 1.0 / LARGEST <= abs(scale) <= LARGEST:
        least, most = 1.0 / LARGEST, LARGEST
        raise error(f"loadSoftBody: scale must be a number from {least:g} to {most:g} in size, got {scale}")
    material = Material(**{_FIELDS[name]: value for name, value in given.items()})
    material.mass_spring, material.bending = bool(useMassSpring), bool(useBendingSprings)
    material.neo_hookean = bool(useNeoHookean)
    material.all_directions = bool(springDampingAllDirections)
    material.face_contact, material.self_collision = bool(useFaceContact), bool(useSelfCollision)
    deformable = client.reset_flags & RESET_USE_DEFORMABLE_WORLD
    positions = vectors(basePosition, 3, client, "basePosition")
    rotations = vectors(baseOrientation, 4, client, "baseOrientation")
    seen = _mesh(client, fileName)
    mesh = _mesh(client, simFileName) if simFileName else seen
    shown = show(mesh, seen) if simFileName else None
    if not deformable and not len(mesh.tetrahedra):
        material.make_inextensible()
    world = client.part(SoftWorld)
    if not (np.abs(mesh.points * float(scale)) <= LARGEST).all():
        raise error(f"loadSoftBody: lengths must be at most {LARGEST:g} m")
    rest = SoftMesh(mesh.points * float(scale), mesh.faces, mesh.tetrahedra)
    x, name = placed(rest.points, positions, rotations), Path(fileName).stem
    return client.add_soft_body(lambda uid: SoftBody(world, name, rest, material, x, shown))


def _mesh(client: Client, name: str) -> SoftMesh:
    path = find(name, client.settings.search_path) or find_in_archives(client, name)
    if path is None:
        raise error("Cannot load soft body.")
    try:
        return read_soft_mesh(path)
    except ImportFileError as reason:
        warnings.warn(f"Cannot load soft body. {reason}", stacklevel=4)
        raise error("Cannot load soft body.") from reason


def createSoftBodyAnchor(
    client: Client,
    softBodyBodyUniqueId: int,
    nodeIndex: int,
    bodyUniqueId: int = -1,
    linkIndex: int = -1,
    bodyFramePosition: Sequence[float] = (0.0, 0.0, 0.0),
) -> int:
    """Hold a point of a soft body where it is, or at a link.

    Args:
        client: The client.
        softBodyBodyUniqueId: The soft body.
        nodeIndex: Its point, as getMeshData with MESH_DATA_SIMULATION_MESH lists them.
        bodyUniqueId: What holds it; the world if there is no such body.
        linkIndex: Its link, -1 for the base.
        bodyFramePosition: Where, in the inertial frame of the link (3,) [m].

    Returns:
        Constraint unique id.

    Raises:
        error: There is no such soft body or point.
    """
    soft = client.soft_bodies.get(softBodyBodyUniqueId)
    if soft is None or not 0 <= nodeIndex < soft.x.shape[1]:
        raise error("createSoftBodyAnchor failed.")
    body = client.bodies.get(bodyUniqueId)
    if body is None or not -1 <= linkIndex < len(body.links) - 1:
        bodyUniqueId, linkIndex = -1, -1
    position = np.array(vec3(bodyFramePosition, "bodyFramePosition"))
    client.structure_changed()
    uid = client.constraint_ids.take()
    client.constraints[uid] = make_anchor(softBodyBodyUniqueId, nodeIndex, bodyUniqueId, linkIndex, position)
    return uid


def getTetraMeshData(client: Client, bodyUniqueId: int, flags: int = 0) -> tuple:
    """Return the simulated points of a soft body.

    Args:
        client: The client.
        bodyUniqueId: The soft body.
        flags: Without effect.

    Returns:
        Number of points, and their world positions [m]; with several worlds an array (W, n, 3).

    Raises:
        error: There is no such soft body.
    """
    if bodyUniqueId not in client.soft_bodies:
        raise error("getTetraMeshData failed")
    return client.soft_bodies[bodyUniqueId].mesh_data(MESH_DATA_SIMULATION_MESH)


def resetMeshData(client: Client, bodyUniqueId: int, vertices: Sequence) -> None:
    """Put the simulated points of a soft body somewhere and stop them.

    Args:
        client: The client.
        bodyUniqueId: The soft body.
        vertices: World positions (n, 3) [m]; of several worlds also (W, n, 3).

    Raises:
        error: There is no such soft body, or the number of points is another.
    """
    soft = client.soft_bodies.get(bodyUniqueId)
    try:
        points = np.asarray(vertices, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.zeros(0)
    fits = soft is not None and points.shape in (soft.x.shape, soft.x.shape[1:])
    if not fits or not np.isfinite(points).all():
        raise error("resetMeshData failed")
    world = client.part(SoftWorld)
    world.read()
    soft.x = np.array(np.broadcast_to(points, soft.x.shape))
    soft.v = np.zeros_like(soft.x)
    world.written()
