"""Makes the models of newtonsim/pybullet_compat/data; needs pybullet, mujoco, trimesh, scipy and Pillow.

Numbers (names, frames, masses, limits, sizes) are asked from PyBullet; everything that is seen is made here.
Equal versions of the libraries give equal files.
"""

# ruff: noqa: TID253

from __future__ import annotations

import posixpath
import shutil
import sys
from pathlib import Path

import motions
import numpy as np
import pictures
import solids
from measure import REAL, Frame, Shape, extents, measure
from named import NAMED, pebble
from scipy.spatial.transform import Rotation
from write_mjcf import mjcf
from write_urdf import Replace, sdf, urdf

TARGET = Path(__file__).parents[3] / "newtonsim" / "pybullet_compat" / "data"
OUT = TARGET.with_name("data.new")
HEADER = (
    "Made by docs/tools/model_data/make.py of newtonsim; structure and dimensions measured, shapes our own"
)
SURFACES = {"samurai.urdf", "tray/tray.urdf", "tray/tray_textured2.urdf"}
"""Models whose meshes collide as surfaces (seen by rays that enter them)."""

SKIPPED = ("mjcf/humanoid_fixed", "random_urdfs/", "xarm/base", "xarm/link", "quadruped/microtaur")
POWERS = {0.6: 2.2, 0.7: 2.9, 0.8: 3.8, 0.9: 6.0}
"""Fill of its box -> power of the rounded box that fills as much."""


def rounded(fill: float, collides: bool) -> str:
    """Return the file of the rounded box whose fill is next: coarse to collide, fine to be seen."""
    best = min(POWERS, key=lambda known: abs(known - (fill if collides else max(fill, 0.8))))
    return f"shapes/{'hull' if collides else 'smooth'}{round(100 * best)}.obj"


def replacement(folder: str) -> Replace:
    """Return the function that puts shapes of ours in the place of meshes, for files in a folder."""

    def replace(shape: Shape, collides: bool) -> Shape:
        if shape.kind != "mesh":
            return shape
        if shape.mesh in NAMED:
            path = posixpath.relpath(shape.mesh, folder or ".")
            return Shape("mesh", shape.size, shape.pose, path, shape.rgba)
        box, scale = extents(shape.mesh), np.abs(np.array(shape.size[:3]))
        tight, sides, fill = box.tight
        slanted = sides.prod() < (0.4 if collides else 0.8) * box.half.prod() and np.ptp(scale) < 1e-9
        if "finger" in shape.mesh and collides:
            fill = 1.0  # flat faces, which can hold things
        if slanted:
            local, half = Frame(tight.position * scale, tight.rotation), sides * scale
        else:
            local, half, fill = Frame(box.center * scale, Rotation.identity()), box.half * scale, box.fill
        if not slanted and box.cylinder >= 0:
            across = [k for k in range(3) if k != box.cylinder]
            turn = {0: (0, np.pi / 2, 0), 1: (np.pi / 2, 0, 0), 2: (0, 0, 0)}[box.cylinder]
            local = Frame(local.position, Rotation.from_euler("xyz", turn))
            size = (2 * half[box.cylinder], half[across].mean())
            return Shape("cylinder", size, shape.pose @ local, "", shape.rgba)
        if fill > 0.96:
            return Shape("box", tuple(2 * half), shape.pose @ local, "", shape.rgba)
        path = posixpath.relpath(rounded(fill, collides), folder or ".")
        return Shape("mesh", tuple(half), shape.pose @ local, path, shape.rgba)

    return replace


def write(name: str, text: str) -> None:
    """Write a text file of the data folder."""
    path = OUT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_models() -> list[str]:
    """Write every URDF, SDF and MJCF file that PyBullet can load; return those that it cannot."""
    failed = []
    for path in sorted(REAL.rglob("*")):
        name = str(path.relative_to(REAL))
        if path.suffix not in (".urdf", ".sdf", ".xml") or name.startswith(SKIPPED):
            continue
        try:
            models = measure(name)
        except RuntimeError:
            failed.append(name)
            continue
        replace = replacement(posixpath.dirname(name))
        if path.suffix == ".urdf":
            write(name, urdf(models[0], replace, HEADER, name in SURFACES))
        elif path.suffix == ".sdf":
            write(name, sdf(models, replace, HEADER))
        else:
            write(name, mjcf(models, name, HEADER))
    return failed


def bounds(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the measured lower and upper corner of a named mesh."""
    if name == "cloth_z_up.obj":
        return np.array([-1.0, -1, 0]), np.array([1.0, 1, 0])
    box = extents(name)
    flat = box.half < 1e-5
    return np.where(flat, 0, box.center - box.half), np.where(flat, 0, box.center + box.half)


def make_meshes() -> None:
    """Write the named meshes, the rounded boxes and the bodies of tetrahedra."""
    for name, (make, texture) in NAMED.items():
        pieces = solids.fitted(make(), *bounds(name))
        library = posixpath.splitext(posixpath.basename(name))[0] + ".mtl" if texture else ""
        write(name, solids.obj(pieces, HEADER, library, normals=name not in ("terrain.obj", "bunny.obj")))
        if texture:
            alpha = 0.5 if "transparent" in name else 1.0
            write(posixpath.join(posixpath.dirname(name), library), solids.mtl(HEADER, texture, alpha=alpha))
    for fill, power in POWERS.items():
        write(f"shapes/smooth{round(100 * fill)}.obj", solids.obj([solids.sphere(13, 25, power)], HEADER))
        coarse = solids.hull(solids.sphere(9, 13, power).vertices)
        write(f"shapes/hull{round(100 * fill)}.obj", solids.obj([coarse], HEADER, normals=False))
    vertices, cells = solids.block((20, 3, 3), closed=True)
    turn, across = 2 * np.pi * vertices[:, 0], 0.5 * round_square(2 * vertices[:, 1:] - 1)
    radius = 0.5 + 0.5 * across[:, 0]
    ring = np.stack([radius * np.sin(turn), 0.5 * across[:, 1], radius * np.cos(turn)], 1)
    write("torus.vtk", solids.vtk(ring, cells, HEADER))
    vertices, cells = solids.block((4, 4, 4))
    write("cube_mesh.vtk", solids.vtk(vertices - 0.5, cells, HEADER))
    write("ball.vtk", solids.vtk(round_square(2 * vertices - 1), cells, HEADER))


def round_square(points: np.ndarray) -> np.ndarray:
    """Return points of a square or cube moved along their rays so that it becomes a disc or ball."""
    reach, length = np.abs(points).max(1, keepdims=True), np.linalg.norm(points, axis=1, keepdims=True)
    return points * np.where(length > 0, reach / np.where(length > 0, length, 1), 1)


DEFORMABLE = f"""<?xml version="1.0"?>
<!-- {HEADER} -->
<robot name="torus">
  <deformable name="torus">
    <inertial>
      <mass value="3"/>
      <inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/>
    </inertial>
    <collision_margin value="0.006"/>
    <repulsion_stiffness value="800"/>
    <friction value="0.5"/>
    <neohookean mu="180" lambda="600" damping="0.01"/>
    <visual filename="torus.vtk"/>
  </deformable>
</robot>
"""

CONCAVE_BOX = f"""<?xml version="1.0"?>
<!-- {HEADER} -->
<robot name="concave_box">
  <link name="base_link">
    <inertial><mass value="0"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial>
    <visual><geometry><mesh filename="concave_box.obj"/></geometry></visual>
    <collision concave="yes"><geometry><mesh filename="concave_box.obj"/></geometry></collision>
  </link>
</robot>
"""

PEBBLE = """<?xml version="1.0"?>
<!-- {header} -->
<robot name="blob{name}">
  <link name="random_obj_{name}">
    <contact><lateral_friction value="1"/><rolling_friction value="0.01"/></contact>
    <inertial><mass value="0.1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
    <visual>
      <geometry><mesh filename="{name}.obj" scale="0.015 0.015 0.015"/></geometry>
      <material name="colour"><color rgba="{colour} 1"/></material>
    </visual>
    <collision><geometry><mesh filename="{name}.obj" scale="0.015 0.015 0.015"/></geometry></collision>
  </link>
</robot>
"""


def make_rest() -> None:
    """Write what is not measured: soft bodies, lumps, pictures, heights and motions."""
    write("torus_deform.urdf", DEFORMABLE)
    write("toys/concave_box.urdf", CONCAVE_BOX)
    for index in range(30):
        name, colour = f"{index:03d}", np.random.default_rng(index).uniform(0.1, 1, 3)
        write(f"random_urdfs/{name}/{name}.obj", solids.obj(pebble(index), HEADER, normals=False))
        text = PEBBLE.format(header=HEADER, name=name, colour=" ".join(f"{c:.2f}" for c in colour))
        write(f"random_urdfs/{name}/{name}.urdf", text)
    images = {
        "checker_blue.png": pictures.checker(512, 2, (160, 184, 236), (240, 240, 240)),
        "checker_grid.jpg": pictures.checker(256, 8, (90, 90, 90), (220, 220, 220)),
        "table_square/checker_grid.jpg": pictures.checker(256, 8, (90, 90, 90), (220, 220, 220)),
        "checker_huge.gif": pictures.checker(512, 32, (0, 0, 0), (255, 255, 255)),
        "colors16.png": pictures.palette(256),
        "tex256.png": pictures.uv_map(256),
        "uvmap.png": pictures.uv_map(512),
        "cube.png": pictures.plain(256, (200, 205, 215), (60, 90, 140)),
        "duckCM.png": pictures.plain(64, (255, 215, 40), (255, 215, 40)),
        "soccerball.png": pictures.football(128),
        "domino/domino.png": pictures.plain(64, (250, 250, 240), (30, 30, 30)),
        "jenga/jenga.png": pictures.wood(128, (222, 184, 135)),
        "table/table.png": pictures.wood(256, (170, 120, 75)),
        "tray/tray.jpg": pictures.plain(128, (95, 95, 100), (60, 60, 64)),
        "heightmaps/wm_height_out.png": pictures.heights_image(pictures.hills(512, 6, 1)),
        "heightmaps/gimp_overlay_out.png": pictures.landscape(pictures.hills(512, 6, 1)),
        "heightmaps/Maze.png": pictures.maze(256, 16, 2),
        "heightmaps/Image8x4.png": pictures.heights_image(pictures.hills(16, 2, 3)[:, :8]),
    }
    for name, image in images.items():
        (OUT / name).parent.mkdir(parents=True, exist_ok=True)
        image.save(OUT / name, optimize=True)
    rows = pictures.hills(128, 7, 10)
    write("heightmaps/ground0.txt", "\n".join(",\t".join(f"{v:.2f}" for v in row) for row in rows) + "\n")
    clips = {
        "walk": motions.gait(1.1, 1.2, 0.4, 0.5, 0.86),
        "run": motions.gait(0.7, 3.0, 0.8, 1.2, 0.84),
        "jump": motions.leap(0.0, 1.2, 0.35),
        "backflip": motions.leap(1.0, 1.2, 0.75),
    }
    for clip, text in clips.items():
        write(f"data/motions/humanoid3d_{clip}.txt", text)
        write(f"args/run_humanoid3d_{clip}_args.txt", motions.ARGUMENTS.format(clip=clip))
    write("data/motions/laikago_walk.txt", motions.laikago_walk())
    write("laikago/data1.txt", motions.laikago_steps(500))


def main() -> None:
    """Make everything anew; README.md stays."""
    shutil.rmtree(OUT, ignore_errors=True)
    write("README.md", (TARGET / "README.md").read_text())
    failed = make_models()
    make_meshes()
    make_rest()
    shutil.rmtree(TARGET)
    OUT.rename(TARGET)
    total = sum(path.stat().st_size for path in TARGET.rglob("*") if path.is_file())
    sys.stdout.write(f"{total / 1e6:.2f} MB; PyBullet cannot load: {', '.join(failed)}\n")


if __name__ == "__main__":
    main()
