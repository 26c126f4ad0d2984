"""The loading functions of the API."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.api.plugins import find_in_archives
from newtonsim.pybullet_compat.descriptions.checks import check_description
from newtonsim.pybullet_compat.descriptions.description import BodyDescription
from newtonsim.pybullet_compat.descriptions.kinds import LoadFlag
from newtonsim.pybullet_compat.readers.multibody import LINK_ARRAYS, MultiBodyReader
from newtonsim.pybullet_compat.readers.options import LoadOptions
from newtonsim.pybullet_compat.readers.scales import of_several_scales
from newtonsim.pybullet_compat.readers.search import find
from newtonsim.pybullet_compat.readers.shapes import is_of_other_count, pose_of
from newtonsim.pybullet_compat.readers.urdf import read_urdf
from newtonsim.pybullet_compat.surface.arguments import LARGEST, as_float, vectors
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.settings import Settings
from newtonsim.pybullet_compat.world.shape_table import ShapeTable, plain

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client


def setAdditionalSearchPath(client: Client, path: str) -> None:
    """Look for files in this folder too, after the working directory, in all clients of the process.

    It replaces the one set before, and holds for clients that are connected later, as in PyBullet.

    Args:
        client: The client.
        path: The folder.
    """
    Settings.search_path = path


def _options(client: Client, flags: int, scale: float, maximal: int) -> LoadOptions:
    return LoadOptions(
        flags=LoadFlag(flags & 0x7FFFFFFF),
        scale=scale if scale > 0.0 else 1.0,
        maximal=bool(maximal),
        use_cache=bool(client.settings.parameters.get("enableFileCaching", 1)),
    )


def loadURDF(
    client: Client,
    fileName: str,
    basePosition: Sequence[float] = (0.0, 0.0, 0.0),
    baseOrientation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    useMaximalCoordinates: int = 0,
    useFixedBase: int = 0,
    flags: int = 0,
    globalScaling: float | np.ndarray = 1.0,
) -> int:
    """Load a robot from a URDF file.

    Args:
        client: The client.
        fileName: The file, looked for in the working directory and the additional search path.
        basePosition: Link frame of the base in the world [m]; of several worlds also (W, 3).
        baseOrientation: Its quaternion xyzw; of several worlds also (W, 4).
        useMaximalCoordinates: Load without the damping of multibodies.
        useFixedBase: Fix the base.
        flags: URDF_... flags.
        globalScaling: Factor of all lengths; what is not positive counts as 1. Of several worlds also (W,),
            for bodies of one link with spheres, boxes, capsules and cylinders about its frame.

    Returns:
        Body unique id.

    Raises:
        error: The file is missing or not understood; the reason is given as a warning.
    """
    if not fileName:
        raise error("Empty filename, method expects 1, 4 or 8 arguments.")
    positions = vectors(basePosition, 3, client, "basePosition")
    orientations = vectors(baseOrientation, 4, client, "baseOrientation")
    scales = np.atleast_1d(globalScaling).tolist()
    options = _options(client, flags, scales[0], useMaximalCoordinates)
    options.fixed = bool(useFixedBase)
    options.pose = pose_of(positions[0], orientations[0])
    path = _found(client, fileName, "Cannot load URDF file.")
    try:
        body = read_urdf(path, options)
        if len(set(scales)) > 1:
            read = {
                scale: read_urdf(path, replace(options, scale=scale if scale > 0.0 else 1.0))
                for scale in set(scales)
            }
            body = of_several_scales([read[scale] for scale in scales])
    except ImportFileError as reason:
        raise _failure("Cannot load URDF file.", reason) from reason
    except ValueError as reason:
        raise error(f"globalScaling: {reason}, got shape ({len(scales)},).") from reason
    body.source = fileName
    if body.soft is not None:
        from newtonsim.pybullet_compat.api.soft_bodies import loadSoftBody

        place: Any = {"basePosition": positions, "baseOrientation": orientations, "scale": options.scale}
        return loadSoftBody(client, **body.soft, **place)
    return _add(client, body, positions, orientations)


def _found(client: Client, name: str, message: str) -> str:
    path = find(name, client.settings.search_path) or find_in_archives(client, name)
    if path is None:
        raise error(message)
    return path


def _failure(message: str, reason: Exception) -> error:
    warnings.warn(f"{message} {reason}", stacklevel=4)
    return error(message)


def _add(client: Client, body: BodyDescription, positions: np.ndarray, orientations: np.ndarray) -> int:
    """Add a body; where the worlds differ, put its base where each wants it."""
    (uid,) = _add_all(client, [body])
    if len(positions) > 1 and (np.ptp(positions, axis=0).any() or np.ptp(orientations, axis=0).any()):
        from newtonsim.pybullet_compat.api.bodies import resetBasePositionAndOrientation

        frame = body.base.inertial_pose
        poses = [pose_of(p, q) @ frame for p, q in zip(positions, orientations, strict=True)]
        resetBasePositionAndOrientation(
            client, uid, np.array([pose.p for pose in poses]), np.array([pose.q for pose in poses])
        )
        client.bodies[uid].loaded_pose = client.bodies[uid].base_coordinates.copy()
    return uid


def _add_all(client: Client, bodies: Sequence[BodyDescription]) -> tuple[int, ...]:
    """Add bodies, all or none."""
    for body in bodies:
        check_description(body)
    return tuple(client.add_body(body) for body in bodies)


def loadSDF(
    client: Client, sdfFileName: str, useMaximalCoordinates: int = 0, globalScaling: float = 1.0
) -> tuple[int, ...]:
    """Load all models of an SDF file.

    Args:
        client: The client.
        sdfFileName: The file; see loadURDF.
        useMaximalCoordinates: See loadURDF.
        globalScaling: See loadURDF.

    Returns:
        Body unique ids.

    Raises:
        error: The file is missing or not understood; the reason is given as a warning.
    """
    from newtonsim.pybullet_compat.readers.sdf import read_sdf

    path = _found(client, sdfFileName, "Cannot load SDF file.")
    try:
        bodies = read_sdf(path, _options(client, 0, globalScaling, useMaximalCoordinates))
    except ImportFileError as reason:
        raise _failure("Cannot load SDF file.", reason) from reason
    return _add_all(client, bodies)


def loadMJCF(client: Client, mjcfFileName: str, flags: int = 0, useMultiBody: int = 1) -> tuple[int, ...]:
    """Load the bodies of an MJCF file.

    Args:
        client: The client.
        mjcfFileName: The file; see loadURDF.
        flags: URDF_... and MJCF_... flags.
        useMultiBody: 0 loads without the damping of multibodies.

    Returns:
        Body unique ids.

    Raises:
        error: The file is missing or not understood; the reason is given as a warning.
    """
    from newtonsim.pybullet_compat.readers.mjcf import read_mjcf

    path = _found(client, mjcfFileName, "Couldn't load .mjcf file.")
    try:
        bodies = read_mjcf(path, _options(client, flags, 1.0, not useMultiBody))
    except ImportFileError as reason:
        raise _failure("Couldn't load .mjcf file.", reason) from reason
    return _add_all(client, bodies)


def createMultiBody(
    client: Client,
    baseMass: float | np.ndarray = 0.0,
    baseCollisionShapeIndex: int = -1,
    baseVisualShapeIndex: int = -1,
    basePosition: Sequence[float] = (0.0, 0.0, 0.0),
    baseOrientation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    baseInertialFramePosition: Sequence[float] = (0.0, 0.0, 0.0),
    baseInertialFrameOrientation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    linkMasses: Sequence[float] | None = None,
    linkCollisionShapeIndices: Sequence[int] | None = None,
    linkVisualShapeIndices: Sequence[int] | None = None,
    linkPositions: Sequence | None = None,
    linkOrientations: Sequence | None = None,
    linkInertialFramePositions: Sequence | None = None,
    linkInertialFrameOrientations: Sequence | None = None,
    linkParentIndices: Sequence[int] | None = None,
    linkJointTypes: Sequence[int] | None = None,
    linkJointAxis: Sequence | None = None,
    useMaximalCoordinates: int = 0,
    flags: int = 0,
    batchPositions: Sequence | None = None,
) -> int | tuple[int, ...]:
    """Make a body from shapes.

    Args:
        client: The client.
        baseMass: Mass of the base [kg], 0 for one that cannot move; of several worlds also (W,), all or none
            of them 0.
        baseCollisionShapeIndex: Id of createCollisionShape, -1 for none.
        baseVisualShapeIndex: Id of createVisualShape, -1 for the look of the collision shape.
        basePosition: Link frame of the base in the world [m]; of several worlds also (W, 3).
        baseOrientation: Its quaternion xyzw; of several worlds also (W, 4).
        baseInertialFramePosition: Inertial frame of the base in its link frame [m].
        baseInertialFrameOrientation: Its quaternion.
        linkMasses: Of each link [kg], each a number, or of several worlds an array (W,).
        linkCollisionShapeIndices: Of each link, -1 for none.
        linkVisualShapeIndices: Of each link, -1 for none.
        linkPositions: Link frames in those of the parents [m].
        linkOrientations: Their quaternions.
        linkInertialFramePositions: Inertial frames in the link frames [m].
        linkInertialFrameOrientations: Their quaternions.
        linkParentIndices: 0 for the base, i for the link i - 1 of these lists.
        linkJointTypes: JOINT_REVOLUTE, JOINT_PRISMATIC, JOINT_SPHERICAL or JOINT_FIXED.
        linkJointAxis: Joint axes in the link frames.
        useMaximalCoordinates: See loadURDF.
        flags: URDF_... flags.
        batchPositions: Positions of the bases of many equal bodies.

    Returns:
        Body unique id, or the ids of the batch.

    Raises:
        error: The link arrays differ in length or hold something else than numbers.
    """
    given = locals()
    links = {name: _listed(given[name]) for name in LINK_ARRAYS}
    if len({len(values) for values in links.values()}) != 1:
        raise error("All link arrays need to be same size.")
    if client.num_worlds > 1:
        links["linkMasses"] = [as_float(mass, client, "linkMasses") for mass in links["linkMasses"]]
        for name, masses in (("baseMass", baseMass), *(("linkMasses", mass) for mass in links["linkMasses"])):
            if np.any(masses) and not np.all(masses):
                raise error(f"{name}: what has no mass in one world has none in all, got {masses}.")
    table = client.part(ShapeTable)
    reader = MultiBodyReader(table.collisions, table.visuals, LoadFlag(flags & 0x7FFFFFFF))
    positions, orientations = _base_poses(client, basePosition, baseOrientation)
    base = (baseMass, baseCollisionShapeIndex, baseVisualShapeIndex)
    frame = (baseInertialFramePosition, baseInertialFrameOrientation)
    key = plain((base, frame, tuple(links.values()), reader.flags, bool(useMaximalCoordinates)))
    try:
        pose = pose_of(positions[0], orientations[0])
        body = table.known_body(key, lambda: reader.read(base, pose_of(*frame), links, pose, key[-1]))
    except (TypeError, ValueError, OverflowError) as reason:
        raise error(f"createMultiBody failed: {reason}") from reason
    body = body.placed(pose)
    if batchPositions is None:
        return _add(client, body, positions, orientations)
    poses = [Pose(position, body.pose.q) for position in vectors_of_batch(batchPositions)]
    return _add_all(client, [body.placed(pose) for pose in poses])


def vectors_of_batch(batch: object) -> np.ndarray:
    """Positions (n, 3) of batchPositions."""
    try:
        array = np.asarray(batch, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim != 2 or array.shape[1] != 3 or not (np.abs(array) <= LARGEST).all():
        raise error("Cannot convert batchPositions.")
    return array


def _listed(values: object) -> Sequence:
    if values is None:
        return ()
    try:
        return list(values)  # type: ignore[call-overload]
    except TypeError:
        raise error("All link arrays need to be same size.") from None


def _base_poses(client: Client, position: object, orientation: object) -> tuple[np.ndarray, np.ndarray]:
    """Base poses of all worlds; None and another count of numbers are not given, as in PyBullet."""
    if position is None or is_of_other_count(position, 3):
        position = (0.0, 0.0, 0.0)
    if orientation is None or is_of_other_count(orientation, 4):
        orientation = (0.0, 0.0, 0.0, 1.0)
    return vectors(position, 3, client, "basePosition"), vectors(orientation, 4, client, "baseOrientation")


def unsupportedChangeScaling(client: Client, bodyUniqueId: int, scaling: Sequence[float]) -> None:
    """Does nothing, as in PyBullet without its graphical window.

    Args:
        client: The client.
        bodyUniqueId: Body.
        scaling: Factors (3,).
    """


def vhacd(
    client: Client,
    fileNameIn: str,
    fileNameOut: str,
    fileNameLogging: str,
    concavity: float = 0.0025,
    alpha: float = 0.05,
    beta: float = 0.05,
    gamma: float = 0.00125,
    minVolumePerCH: float = 0.0001,
    resolution: int = 100000,
    maxNumVerticesPerCH: int = 64,
    depth: int = 20,
    planeDownsampling: int = 4,
    convexhullDownsampling: int = 4,
    pca: int = 0,
    mode: int = 0,
    convexhullApproximation: int = 1,
) -> None:
    """Write the convex parts of a mesh file as groups of a Wavefront file.

    The decomposition is CoACD's (extra `decompose`), which has fewer settings than V-HACD.

    Args:
        client: The client.
        fileNameIn: Mesh file.
        fileNameOut: Wavefront file to write.
        fileNameLogging: Text file to write, "" for none.
        concavity: Largest concavity of a part.
        alpha: Not used.
        beta: Not used.
        gamma: Not used.
        minVolumePerCH: Not used.
        resolution: Not used.
        maxNumVerticesPerCH: Not used; parts have at most 64 vertices.
        depth: Most cuts: 2 to this power bounds the number of parts.
        planeDownsampling: Not used.
        convexhullDownsampling: Not used.
        pca: Not used.
        mode: Not used.
        convexhullApproximation: Not used.

    Raises:
        error: The mesh is missing or unreadable, or the library is not installed.
    """
    from newtonsim.pybullet_compat.readers.decomposition import decompose_file

    path = _found(client, fileNameIn, "vhacd failed.")
    try:
        decompose_file(path, fileNameOut, fileNameLogging, concavity, 2 ** min(max(depth, 1), 10))
    except (ImportFileError, OSError) as reason:
        raise _failure("vhacd failed.", reason) from reason
