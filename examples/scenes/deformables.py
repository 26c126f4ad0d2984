"""Robots among deformables: a gripper that lifts a soft ball or a cloth, a quadruped on a soft mat."""

import numpy as np

from newtonsim import ModelBuilder
from newtonsim.builder.grids import TETRAHEDRA_EVEN, TETRAHEDRA_ODD
from newtonsim.examples.assets import asset_path
from newtonsim.examples.scenes.mechanisms import GripperScript, add_gripper
from newtonsim.examples.scenes.parts import new_scene

BALL_RADIUS = 0.03
"""Of the soft ball [m]."""

PARTICLE_RADIUS = 0.001
"""Of the particles of solids [m]."""

_NO_SKIN = {"tri_ke": 0.0, "tri_ka": 0.0, "tri_kd": 0.0}
"""Triangles on solids collide, but are not stiff."""

CLOTH_RADIUS = 0.002
"""Of the cloth's particles [m]."""

CLOTH_SCRIPT = GripperScript(closing=0.1, opening=0.012)
"""What the gripper does with the cloth."""

MAT = (0.8, 0.5, 0.06)
"""Length, width and height of the soft mat [m]."""


def gripper_and_soft_ball(cells: int = 6) -> ModelBuilder:
    """Gripper around a soft ball of 34 g on the ground; Young's modulus 30 kPa, Poisson's ratio 0.25.

    Let `GripperScript` write the drives' targets to `control.joint_act`.

    Args:
        cells: Cells of tetrahedra across the ball.
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    add_gripper(builder)
    points, tetrahedra = ball_mesh(cells)
    builder.add_soft_mesh(
        (0.0, 0.0, BALL_RADIUS + PARTICLE_RADIUS),
        (0.0, 0.0, 0.0, 1.0),
        BALL_RADIUS,
        (0.0, 0.0, 0.0),
        points,
        tetrahedra.reshape(-1),
        density=300.0,
        k_mu=1.2e4,
        k_lambda=1.2e4,
        k_damp=1.0e-3,
        **_NO_SKIN,
    )
    builder.particle_radius[:] = [PARTICLE_RADIUS] * builder.particle_count
    return builder


def ball_mesh(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, 3) and tetrahedra (m, 4) of the unit ball, a cube of cells that is drawn in."""
    line = np.linspace(-1.0, 1.0, cells + 1)
    z, y, x = (a.reshape(-1) for a in np.meshgrid(line, line, line, indexing="ij"))
    points = np.stack([x, y, z], axis=1)
    far, length = np.abs(points).max(axis=1), np.linalg.norm(points, axis=1)
    points *= (far / np.maximum(length, 1e-12))[:, None]
    n = cells + 1
    cz, cy, cx = (a.reshape(-1) for a in np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"))
    around = np.array([0, 1, n + 1, n])
    corner = (cx + cy * n + cz * n * n)[:, None] + np.concatenate([around, around + n * n])
    even = ((cx + cy + cz) % 2 == 0)[:, None, None]
    forms = np.where(even, TETRAHEDRA_EVEN, TETRAHEDRA_ODD).reshape(len(corner), -1)
    return points, np.take_along_axis(corner, forms, axis=1).reshape(-1, 4)


def gripper_and_cloth(cells: int = 24) -> ModelBuilder:
    """Gripper around the fold of a cloth of 0.24 m x 0.12 m, 20 g, that stands on the ground.

    Let `CLOTH_SCRIPT` write the drives' targets to `control.joint_act`: the fingers are near the fold, which
    would fall over within a tenth of a second. Both ends of the cloth lie on the ground.

    Args:
        cells: Cells along the longer side.
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    add_gripper(builder, CLOTH_SCRIPT)
    half = cells // 2
    size = 0.24 / cells
    builder.add_cloth_grid(
        (-0.12, -0.06, 0.0),
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 0.0, 0.0),
        cells,
        half,
        size,
        size,
        mass=0.02 / ((cells + 1) * (half + 1)),
        tri_ke=200.0,
        tri_ka=50.0,
        tri_kd=0.01,
        edge_ke=2.0e-5,
        edge_kd=1.0e-7,
        particle_radius=CLOTH_RADIUS,
    )
    for i, (x, y, _) in enumerate(builder.particle_q):
        across, height = _folded(x)
        builder.particle_q[i] = (across, y, height)
    return builder


def _folded(x: float, height: float = 0.06) -> tuple[float, float]:
    """Return place and height of a point of the cloth: a fold that stands, and ends on the ground."""
    gap = 1.5 * CLOTH_RADIUS
    side, along = np.sign(x), abs(x)
    top = 0.5 * np.pi * gap
    if along < top:
        angle = along / gap
        return side * gap * np.sin(angle), CLOTH_RADIUS + height - gap + gap * np.cos(angle)
    along -= top
    wall = height - 2.0 * gap
    if along < wall:
        return side * gap, CLOTH_RADIUS + height - gap - along
    along -= wall
    if along < top:
        angle = along / gap
        return side * (2.0 * gap - gap * np.cos(angle)), CLOTH_RADIUS + gap - gap * np.sin(angle)
    return side * (2.0 * gap + along - top), CLOTH_RADIUS


def quadruped_on_mat(cell: float = 0.04) -> ModelBuilder:
    """Quadruped that stands on a soft mat, which lies on the ground; Young's modulus 100 kPa.

    Args:
        cell: Size of the mat's cells, of which two lie upon each other in half its height [m].
    """
    from newtonsim.importers import parse_mjcf

    builder = new_scene(friction=0.8)
    builder.set_ground_plane()
    parse_mjcf(asset_path("quadruped.xml"), builder, floating=None, ignore_inertial_definitions=False)
    home = builder.keyframes[0]
    builder.joint_q[:], builder.joint_act[:] = list(home["joint_q"]), list(home["joint_act"])
    builder.joint_q[2] += MAT[2] + 2.0 * PARTICLE_RADIUS
    cells = [max(1, round(length / cell)) for length in MAT[:2]]
    builder.add_soft_grid(
        (-0.5 * MAT[0], -0.5 * MAT[1], PARTICLE_RADIUS),
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 0.0, 0.0),
        *cells,
        2,
        MAT[0] / cells[0],
        MAT[1] / cells[1],
        0.5 * MAT[2],
        density=100.0,
        k_mu=4.0e4,
        k_lambda=4.0e4,
        k_damp=2.0e-3,
        **_NO_SKIN,
    )
    builder.particle_radius[:] = [PARTICLE_RADIUS] * builder.particle_count
    return builder
