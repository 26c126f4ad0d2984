"""Inertia as PyBullet derives it: from the boxes around collision shapes, or from the file.

All rules were measured with the real module (see tests/pybullet/test_loading_texts.py).
"""

import numpy as np

from newtonsim.geometry.transforms import quat_from_matrix, quat_matrix, quat_multiply
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import Geometry
from newtonsim.pybullet_compat.descriptions.frames import coincide
from newtonsim.pybullet_compat.descriptions.kinds import Geom

MARGIN = 0.001
"""Collision margin of compounds and of convex hulls [m]."""
HULL_BOX = 2.0 * MARGIN
"""What the box of a convex hull has beyond its points on each side [m]."""
COMPOUND_BOX = HULL_BOX + MARGIN
"""The same of a compound of hulls [m]."""
_FAR = 1.0e30
_JACOBI_SWEEPS = 32
_ROUNDING = 1.0e-12


def box_inertia(mass: float, half: np.ndarray) -> np.ndarray:
    """Diagonal inertia (3,) of a solid box with the half extents `half` (3,)."""
    squares = np.square(half)
    return mass / 3.0 * (squares.sum() - squares)


def inertia_of_shapes(
    mass: float, shapes: list[Geometry], frame: Pose, compound_margin: float = MARGIN
) -> np.ndarray:
    """Diagonal inertia that a link gets from what collides.

    Args:
        mass: Mass of the link [kg].
        shapes: Shapes of the link, posed in the link frame.
        frame: Inertial frame in the link frame.
        compound_margin: Margin of the box of a compound [m]; createMultiBody and MJCF have none.

    Returns:
        (3,), or (W, 3) where sizes of shapes differ between worlds.
    """
    worlds = max((len(shape.variants) for shape in shapes), default=0)
    if worlds:
        of_world = [
            [shape.variants[w] if shape.variants else shape for shape in shapes] for w in range(worlds)
        ]
        return np.array([inertia_of_shapes(mass, own, frame, compound_margin) for own in of_world])
    if mass == 0.0:
        return np.zeros(3)
    if is_plain(shapes, frame):
        return _inertia_of_shape(mass, shapes[0])
    low, high = compound_box(shapes, frame.inverse(), compound_margin)
    return box_inertia(mass, 0.5 * (high - low))


def is_plain(shapes: list[Geometry], frame: Pose) -> bool:
    """Whether a link collides as one shape in its inertial frame, and not as a compound."""
    return len(shapes) == 1 and coincide(frame, shapes[0].pose)


def collision_margin(shapes: list[Geometry], frame: Pose, compound_margin: float = MARGIN) -> float:
    """Collision margin of a link as getDynamicsInfo reports it [m]."""
    if is_plain(shapes, frame):
        if shapes[0].kind in (Geom.SPHERE, Geom.CAPSULE):
            return shapes[0].radius
        return 0.0 if shapes[0].concave else MARGIN
    return compound_margin


def _inertia_of_shape(mass: float, shape: Geometry) -> np.ndarray:
    if shape.kind == Geom.SPHERE:
        return np.full(3, 0.4 * mass * shape.radius**2)
    if shape.kind == Geom.CYLINDER:
        across = mass * (shape.radius**2 / 4.0 + shape.height**2 / 12.0)
        return np.array([across, across, 0.5 * mass * shape.radius**2])
    if shape.kind == Geom.PLANE or shape.concave:
        return np.zeros(3)
    low, high = local_box(shape)
    margin = MARGIN if shape.kind == Geom.MESH and not is_compound(shape) else 0.0
    return box_inertia(mass, 0.5 * (high - low) + margin)


def compound_box(
    shapes: list[Geometry], frame: Pose, margin: float = MARGIN
) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest corner of all shapes together, in the frame that `frame` takes the link frame to."""
    boxes = [placed_box(shape, frame @ shape.pose) for shape in shapes]
    if not boxes:
        return np.full(3, -margin), np.full(3, margin)
    low = np.min([box[0] for box in boxes], axis=0) - margin
    return low, np.max([box[1] for box in boxes], axis=0) + margin


def local_box(shape: Geometry) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest corner of a shape in its own frame, with the margin of hulls."""
    if shape.kind == Geom.SPHERE:
        half = np.full(3, shape.radius)
    elif shape.kind == Geom.BOX:
        half = np.asarray(shape.half_extents, dtype=np.float64)
    elif shape.kind == Geom.CYLINDER:
        half = np.array([shape.radius, shape.radius, 0.5 * shape.height])
    elif shape.kind == Geom.CAPSULE:
        half = np.array([shape.radius, shape.radius, shape.radius + 0.5 * shape.height])
    elif shape.kind == Geom.PLANE:
        half = np.full(3, _FAR)
    elif shape.meshes:
        margin = 0.0 if shape.concave else (COMPOUND_BOX if is_compound(shape) else HULL_BOX)
        low = np.min([mesh.vertices.min(axis=0) for mesh in shape.meshes if len(mesh.vertices)], axis=0)
        high = np.max([mesh.vertices.max(axis=0) for mesh in shape.meshes if len(mesh.vertices)], axis=0)
        return low.astype(np.float64) - margin, high.astype(np.float64) + margin
    else:
        half = np.zeros(3)
    return -half, half


def placed_box(shape: Geometry, pose: Pose) -> tuple[np.ndarray, np.ndarray]:
    """Box around a shape at a pose."""
    turned = Pose(pose.p, Pose.identity().q) if shape.kind == Geom.SPHERE else pose
    return moved_box(*local_box(shape), turned)


def is_compound(shape: Geometry) -> bool:
    """Whether a mesh collides as a compound of hulls, as those of OBJ files do even with one group."""
    return not shape.concave and shape.file.lower().endswith(".obj")


def moved_box(low: np.ndarray, high: np.ndarray, pose: Pose) -> tuple[np.ndarray, np.ndarray]:
    """Box around a box that is moved and turned."""
    centre = pose.apply(0.5 * (low + high))
    half = np.abs(quat_matrix(pose.q)) @ (0.5 * (high - low))
    return centre - half, centre + half


def principal_axes(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Diagonalise a symmetric matrix (3, 3) by Jacobi rotations (Golub and Van Loan, section 8.5).

    Returns:
        The diagonal (3,) and the quaternion xyzw of the axes. The rotations are the smallest possible, so
        that the order of nearly principal axes is kept.
    """
    matrix = np.array(matrix, dtype=np.float64)
    axes = np.eye(3)
    for _ in range(_JACOBI_SWEEPS):
        off = [abs(matrix[0, 1]), abs(matrix[0, 2]), abs(matrix[1, 2])]
        p, q = ((0, 1), (0, 2), (1, 2))[int(np.argmax(off))]
        if max(off) <= 1.0e-15 * np.abs(np.diag(matrix)).max():
            break
        ratio = (matrix[q, q] - matrix[p, p]) / (2.0 * matrix[p, q])
        tangent = (1.0 if ratio >= 0.0 else -1.0) / (abs(ratio) + np.sqrt(1.0 + ratio * ratio))
        cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
        turn = np.eye(3)
        turn[p, p] = turn[q, q] = cosine
        turn[p, q], turn[q, p] = cosine * tangent, -cosine * tangent
        matrix = turn.T @ matrix @ turn
        axes = axes @ turn
    return np.diag(matrix).copy(), quat_from_matrix(axes)


def inertia_of_file(matrix: np.ndarray, frame: Pose) -> tuple[np.ndarray, Pose]:
    """Principal inertia (3,) of a matrix given in `frame`, and the inertial frame along its axes.

    An inertia that no body can have (negative, or one moment larger than the sum of the others) becomes zero.
    """
    diagonal, turned = np.diag(matrix).copy(), frame
    if matrix[0, 1] or matrix[0, 2] or matrix[1, 2]:
        diagonal, turn = principal_axes(matrix)
        turned = Pose(frame.p, quat_multiply(frame.q, turn))
    rounding = _ROUNDING * diagonal.max()
    if diagonal.min() < -rounding or 2.0 * diagonal.max() > diagonal.sum() + rounding:
        return np.zeros(3), frame
    return np.maximum(diagonal, 0.0), turned
